//! The control socket's place and language -> one definition for the collector and `stage2-launch ctl`.
//!
//! A client connects, sends one request (a line), reads one answer, and both sides close.
//!
//! ```text
//! stage2-control/1 start for_ms=10000 ranges=decode*
//!
//! stage2-control/1 ok
//! said accepted
//! window 3
//! end
//! ```
//!
//! Texts are escaped ([`escape()`]), so that neither a blank nor a line end can be in one. The last line of
//! an answer is `end`: an answer without it was cut.

mod answer;
mod escape;
mod flush_page;
mod place;
mod request;

pub use answer::{Answer, AnswerError};
pub use escape::{escape, unescape};
pub use flush_page::{FLUSH_PAGE_BYTES, FlushPage};
pub use place::{PATH_BYTES, SocketName, folders, pid_in, start_of};
pub use request::{FOR_MS, Limits, MOST_AHEAD, RequestError, SIZE, STEPS, Start, Verb};

/// The version of the language, which is part of the first word of each message.
pub const VERSION: u32 = 1;
/// The first word of each message, without the version.
const TITLE: &str = "stage2-control/";

/// The longest request, bytes with its line end.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;
/// The longest answer, bytes.
pub const MAX_ANSWER_BYTES: usize = 256 << 10;
/// The longest text of a mark, bytes.
pub const MAX_MARK_BYTES: usize = 1 << 10;

/// The version in a first word; `None` where it is no message of ours.
fn version_of(word: &str) -> Option<u32> {
    word.strip_prefix(TITLE)?.parse().ok()
}

/// The first word of our own messages.
fn title() -> String {
    format!("{TITLE}{VERSION}")
}
