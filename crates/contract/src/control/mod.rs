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

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::settings;

mod flush_page;

pub use flush_page::{FLUSH_PAGE_BYTES, FlushPage};

/// The version of the language, which is part of the first word of each message.
pub const VERSION: u32 = 1;
/// The first word of each message, without the version.
const TITLE: &str = "stage2-control/";

/// The longest request, bytes with its line end.
pub const MAX_REQUEST_BYTES: usize = 8 << 10;
/// The longest answer, bytes.
pub const MAX_ANSWER_BYTES: usize = 256 << 10;
/// The longest text of a mark, bytes.
const MAX_MARK_BYTES: usize = 1 << 10;

/// The version in a first word; `None` where it is not a message of ours.
fn version_of(first_word: &str) -> Option<u32> {
    first_word.strip_prefix(TITLE)?.parse().ok()
}

/// The first word of our own messages.
fn title() -> String {
    format!("{TITLE}{VERSION}")
}

/// Times that a window may be limited to, ms: a millisecond to a week.
pub const FOR_MS: RangeInclusive<u64> = 1..=7 * 24 * 3_600_000;
/// Numbers of steps that it may be limited to.
pub const STEPS: RangeInclusive<u64> = 1..=1_000_000_000;
/// Sizes of trace files that it may be limited to, bytes: 64 KiB to 1 TiB.
pub const SIZE: RangeInclusive<u64> = 64 << 10..=1 << 40;
/// How far ahead the beginning of a window may be set.
pub const MOST_AHEAD: Duration = Duration::from_secs(24 * 3600);
const RANGES_BYTES: usize = 4 << 10;
/// What the first window of a process costs it: printed by whoever is about to start one.
pub const START_COST: &str = "launches stay slower until the process exits, even after you stop recording: by 8 to 26 % with \
     the CUPTI of CUDA 13.0 update 1; with any other version, by as much as during recording (docs/dormant.md)";
/// The words of a start.
const START_TAKES: &str = "start takes ranges=GLOBS sample=1/N counters=on host=HZ at_unix_us=US for_ms=MS steps=N size=BYTES";
/// What is said to another word behind `host=`.
const HOST_TAKES: &str = "host takes on, off, or samples a second from 1 to 1000";
/// What is said to another word behind `counters=`.
const COUNTERS_TAKE: &str =
    "counters takes on; metrics are chosen by STAGE2_COUNTERS when the process starts";

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Tell how things stand.
    Status,
    /// Begin a window.
    Start(Start),
    /// End the window.
    Stop,
    /// Write out what there is.
    Flush,
    /// Put a mark with this text into the trace file.
    Mark(String),
    /// A signal is about to be sent: write out what there is, and that the process ends if the signal ends it.
    Ending(u8),
    /// Tell what stands still, and what every thread does.
    Why,
}

/// What a window is to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Globs as in `STAGE2_RANGES`; `None`: as the environment says, `*` alone: everything.
    pub ranges: Option<String>,
    /// One in so many instances as in `STAGE2_SAMPLE`; `None`: as the environment says.
    pub sample: Option<u32>,
    /// Sample hardware counters, of the collector's choice where the environment names none.
    pub counters: bool,
    /// How often the host is sampled as in `STAGE2_HOST`, Hz, 0: not at all; `None`: as the environment says.
    pub host_hz: Option<u32>,
    /// When it begins, us since 1970: the same moment in every process that is asked. `None`: at once.
    pub at_unix_us: Option<u64>,
    /// When it ends by itself.
    pub limits: Limits,
}

/// When a window ends by itself: at the first of these that is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// After so long, ms.
    pub for_ms: Option<u64>,
    /// After so many instances of the outermost range that was asked for have closed, or of the
    /// outermost ranges of the program where none was. What begins behind the last one is not recorded.
    pub steps: Option<u64>,
    /// When its trace file has so many bytes.
    pub size: Option<u64>,
}

/// Why a line is not a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It begins otherwise.
    #[error("no request: a line begins with {TITLE}, e.g. `{TITLE} status`; use stage2-launch ctl", TITLE = title())]
    Foreign,
    /// It is of another version.
    #[error(
        "the request is of version {theirs}, this collector speaks {ours}; use the stage2-launch of \
         version {collector}", ours = VERSION, collector = env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The client's version.
        theirs: u32,
    },
    /// There is no such verb.
    #[error("no verb {0:?}; there are status, start, stop, flush, mark and why")]
    Verb(String),
    /// A word cannot be read.
    #[error("{word:?} cannot be read: {accepted}")]
    Word {
        /// The word.
        word: String,
        /// What is accepted there.
        accepted: &'static str,
    },
}

impl RequestError {
    fn word(word: &str, accepted: &'static str) -> Self {
        Self::Word { word: word.chars().take(80).collect(), accepted }
    }
}

impl Verb {
    /// As it is sent, with the line end.
    pub fn to_line(&self) -> String {
        let title = title();
        match self {
            Verb::Status => format!("{title} status\n"),
            Verb::Start(start) => format!("{title} start{}\n", start.to_words()),
            Verb::Stop => format!("{title} stop\n"),
            Verb::Why => format!("{title} why\n"),
            Verb::Flush => format!("{title} flush\n"),
            Verb::Mark(text) => format!("{title} mark {}\n", escape(text)),
            Verb::Ending(signal) => String::from_utf8_lossy(&Verb::ending(*signal)).into_owned(),
        }
    }

    /// The line of [`Verb::Ending`], without an allocation. Signals have two digits at most.
    pub fn ending(signal: u8) -> [u8; 27] {
        let mut line = *b"stage2-control/1 ending 00\n";
        (line[24], line[25]) = (b'0' + signal / 10 % 10, b'0' + signal % 10);
        line
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, and what is accepted.
    pub fn parse(line: &str) -> Result<Self, RequestError> {
        let mut words =
            line.trim_end_matches(['\n', '\r']).split(' ').filter(|word| !word.is_empty());
        match words.next().and_then(version_of) {
            Some(VERSION) => {}
            Some(theirs) => return Err(RequestError::Version { theirs }),
            None => return Err(RequestError::Foreign),
        }
        let verb = words.next().unwrap_or_default();
        let parsed = match verb {
            "status" => Verb::Status,
            "start" => return Start::parse(words).map(Verb::Start),
            "stop" => Verb::Stop,
            "why" => Verb::Why,
            "flush" => Verb::Flush,
            "ending" => match words.next().and_then(|signal| signal.parse().ok()) {
                Some(signal @ 1..=64) => Verb::Ending(signal),
                _ => return Err(RequestError::word(verb, "ending takes the number of a signal")),
            },
            "mark" => {
                let word = words.next().unwrap_or_default();
                let text = unescape(word).filter(|all| (1..=MAX_MARK_BYTES).contains(&all.len()));
                let accepted = "mark takes one text of 1 to 1024 bytes";
                Verb::Mark(text.ok_or_else(|| RequestError::word(word, accepted))?)
            }
            other => return Err(RequestError::Verb(other.chars().take(80).collect())),
        };
        match words.next() {
            Some(word) => Err(RequestError::word(word, "this verb takes no arguments")),
            None => Ok(parsed),
        }
    }
}

impl Start {
    /// Words of a line (`for_ms=10000`) -> what they ask for.
    ///
    /// # Errors
    /// The first word that cannot be read, and what is accepted.
    pub fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, RequestError> {
        let mut start = Start::default();
        let mut seen = Vec::new();
        for word in words {
            let refused = |accepted| RequestError::word(word, accepted);
            let (key, value) = word.split_once('=').ok_or_else(|| refused(START_TAKES))?;
            if seen.contains(&key) {
                return Err(refused("each of them once"));
            }
            seen.push(key);
            let number = |within: RangeInclusive<u64>, accepted| {
                let number = value.parse().ok().filter(|number| within.contains(number));
                number.ok_or_else(|| refused(accepted)).map(Some)
            };
            let limits = &mut start.limits;
            match key {
                "ranges" => {
                    let globs =
                        unescape(value).filter(|all| (1..=RANGES_BYTES).contains(&all.len()));
                    let accepted = "ranges takes up to 30 comma-separated globs name[@domain]";
                    start.ranges = Some(globs.ok_or_else(|| refused(accepted))?);
                }
                "sample" => {
                    let sample = settings::read_sample(value);
                    start.sample = Some(sample.ok_or_else(|| refused(settings::SAMPLE_FORM))?);
                }
                "for_ms" => {
                    let accepted = "for_ms takes milliseconds from 1 to 604800000 (a week)";
                    limits.for_ms = number(FOR_MS, accepted)?;
                }
                "at_unix_us" => {
                    let accepted = "at_unix_us takes microseconds since 1970";
                    start.at_unix_us = number(0..=u64::MAX, accepted)?;
                }
                "steps" => {
                    limits.steps = number(STEPS, "steps takes a number from 1 to 1000000000")?;
                }
                "size" => {
                    let bytes =
                        settings::read_bytes(value).and_then(|bytes| u64::try_from(bytes).ok());
                    let bytes = bytes.filter(|bytes| SIZE.contains(bytes));
                    let accepted = "size takes bytes from 64K to 1024G, e.g. 512M";
                    limits.size = Some(bytes.ok_or_else(|| refused(accepted))?);
                }
                "counters" if value == "on" => start.counters = true,
                "counters" => return Err(refused(COUNTERS_TAKE)),
                "host" => {
                    let hz = settings::read_host(value).map(Option::unwrap_or_default);
                    start.host_hz = Some(hz.ok_or_else(|| refused(HOST_TAKES))?);
                }
                _ => return Err(refused(START_TAKES)),
            }
        }
        Ok(start)
    }

    fn to_words(&self) -> String {
        let words = [
            self.ranges.as_ref().map(|globs| format!(" ranges={}", escape(globs))),
            self.sample.map(|n| format!(" sample=1/{n}")),
            self.counters.then(|| " counters=on".to_owned()),
            self.host_hz.map(|hz| format!(" host={}", settings::host_text(hz))),
            self.at_unix_us.map(|us| format!(" at_unix_us={us}")),
            self.limits.for_ms.map(|ms| format!(" for_ms={ms}")),
            self.limits.steps.map(|steps| format!(" steps={steps}")),
            self.limits.size.map(|bytes| format!(" size={bytes}")),
        ];
        words.into_iter().flatten().collect()
    }
}

/// The last line.
const END: &str = "end";

/// What the collector says to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The request was refused: the field `error` states why and what to do.
    pub refused: bool,
    /// Names and values in order. A name may come several times.
    pub fields: Vec<(String, String)>,
}

/// Why a text is not an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It begins otherwise.
    #[error("it is not an answer of the collector (it begins with {0:?})")]
    Foreign(String),
    /// It is of another version.
    #[error(
        "the collector in the process speaks version {theirs} of the protocol, this program {ours}; use \
         the stage2-launch of the collector's version",
        ours = VERSION
    )]
    Version {
        /// The collector's version.
        theirs: u32,
    },
    /// The end is missing.
    #[error("the answer is cut: its last line is missing")]
    Cut,
    /// A line cannot be read.
    #[error("line {0} of the answer cannot be read")]
    Line(usize),
}

impl Answer {
    /// A request that was taken.
    pub fn ok() -> Self {
        Answer::default()
    }

    /// A request that was refused.
    pub fn error(why: impl Into<String>) -> Self {
        Answer { refused: true, ..Answer::default() }.with("error", why.into())
    }

    /// One field more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of that name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// As it is sent. Fields beyond [`MAX_ANSWER_BYTES`] are left out, which a last field `cut` says.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}\n", title(), if self.refused { "error" } else { "ok" });
        for (name, value) in &self.fields {
            let line = format!("{} {}\n", escape(name), escape(value));
            if text.len() + line.len() > MAX_ANSWER_BYTES - 32 {
                text.push_str("cut 1\n");
                break;
            }
            text.push_str(&line);
        }
        text + END + "\n"
    }

    /// Reads what [`Answer::to_text`] wrote.
    ///
    /// # Errors
    /// The text is not an answer, is cut, or is of another version.
    pub fn parse(text: &str) -> Result<Self, AnswerError> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let foreign = || AnswerError::Foreign(first.chars().take(40).collect());
        let (word, outcome) = first.split_once(' ').ok_or_else(foreign)?;
        match version_of(word) {
            Some(VERSION) => {}
            Some(theirs) => return Err(AnswerError::Version { theirs }),
            None => return Err(foreign()),
        }
        let refused = match outcome {
            "ok" => false,
            "error" => true,
            _ => return Err(foreign()),
        };
        let mut answer = Answer { refused, fields: Vec::new() };
        for (index, line) in lines.enumerate() {
            if line == END {
                return if text.ends_with("\nend\n") { Ok(answer) } else { Err(AnswerError::Cut) };
            }
            let read = || {
                let (name, value) = line.split_once(' ')?;
                Some((unescape(name)?, unescape(value)?))
            };
            answer.fields.push(read().ok_or(AnswerError::Line(index + 2))?);
        }
        Err(AnswerError::Cut)
    }
}

/// Writes everything but visible ASCII, and `%` itself, as `%` and two hexadecimal digits of each byte.
pub fn escape(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'%' => word.push_str("%25"),
            0x21..=0x7e => word.push(char::from(byte)),
            _ => word.push_str(&format!("%{byte:02x}")),
        }
    }
    word
}

/// Reverses [`escape`]. `None` if `escape` cannot have written the word, or if the result is not UTF-8.
pub fn unescape(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            0x21..=0x7e => byte,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The longest path that a Unix socket can have, bytes without the NUL at its end.
pub const PATH_BYTES: usize = 107;
/// Bytes of a host name that go into the name of a socket.
const HOST_BYTES: usize = 32;
const ENDING: &str = ".sock";

/// The folders for the sockets of user `uid`, best first. `runtime`: its `XDG_RUNTIME_DIR`, which counts
/// where it is an absolute path.
pub fn folders(uid: u32, runtime: Option<PathBuf>) -> Vec<PathBuf> {
    let runtime = runtime.filter(|path| path.is_absolute()).map(|path| path.join("stage2"));
    runtime.into_iter().chain([PathBuf::from(format!("/tmp/stage2-{uid}"))]).collect()
}

/// What the name of a socket says: `HOST-PID-START.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketName {
    /// The host, or the container, as it calls itself; other characters than ASCII letters, digits, `.`
    /// and `_` are `_`.
    pub host: String,
    /// The process, as it is numbered there.
    pub pid: u32,
    /// When it started, in clock ticks since the boot (field 22 of `/proc/PID/stat`): a number that comes
    /// round again is another process.
    pub start: u64,
}

impl SocketName {
    /// The name for a process of a host.
    pub fn new(host: &str, pid: u32, start: u64) -> Self {
        let harmless =
            |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '_' };
        let mut host: String = host.chars().take(HOST_BYTES).map(harmless).collect();
        if host.is_empty() || host.starts_with('.') {
            host.insert(0, '_');
            host.truncate(HOST_BYTES);
        }
        SocketName { host, pid, start }
    }

    /// The file name.
    pub fn to_file_name(&self) -> String {
        format!("{}-{}-{}{ENDING}", self.host, self.pid, self.start)
    }

    /// Reads a file name; `None` where it is not the name of a socket of ours.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(ENDING)?.splitn(3, '-');
        let (host, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
        let (pid, start) = (pid.parse().ok()?, start.parse().ok()?);
        let read = SocketName { host: host.to_owned(), pid, start };
        (read.to_file_name() == name && SocketName::new(host, 0, 0).host == host).then_some(read)
    }
}

/// The process that the file name of a socket names. Allocates nothing.
pub fn pid_in(name: &str) -> Option<u32> {
    let (rest, start) = name.strip_suffix(ENDING)?.rsplit_once('-')?;
    let (_, pid) = rest.rsplit_once('-')?;
    start.parse::<u64>().ok().and(pid.parse().ok())
}

/// The start of a process, from the text of its `/proc/PID/stat`.
pub fn start_of(stat: &str) -> Option<u64> {
    // The name of the program stands in parentheses and may hold blanks and parentheses.
    stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_start_survives(
            ranges in prop::option::of("[^\0]{1,99}"),
            sample in prop::option::of(1u32..1_000_000),
            for_ms in prop::option::of(FOR_MS),
            steps in prop::option::of(STEPS),
            size in prop::option::of(SIZE),
            at_unix_us in prop::option::of(any::<u64>()),
            counters: bool,
            host_hz in prop::option::of(0u32..=1000),
        ) {
            let limits = Limits { for_ms, steps, size };
            let start = Start { ranges, sample, counters, host_hz, at_unix_us, limits };
            let verb = Verb::Start(start);
            prop_assert_eq!(Verb::parse(&verb.to_line()), Ok(verb));
        }

        #[test]
        fn every_mark_survives(text in "(?s).{1,200}") {
            let verb = Verb::Mark(text);
            prop_assert_eq!(Verb::parse(&verb.to_line()), Ok(verb));
        }

        #[test]
        fn any_line_is_read_without_a_panic(line in "(?s).*") {
            let _ = Verb::parse(&line);
            let _ = Verb::parse(&format!("{} start {line}", title()));
        }
    }

    #[test]
    fn verbs_are_read() {
        let read = |line: &str| Verb::parse(&format!("{} {line}\n", title()));
        for verb in
            [Verb::Status, Verb::Stop, Verb::Flush, Verb::Why, Verb::Ending(9), Verb::Ending(64)]
        {
            assert_eq!(Verb::parse(&verb.to_line()), Ok(verb));
        }
        let start = read("start for_ms=10000 size=512M").unwrap();
        let limits = Limits { for_ms: Some(10_000), steps: None, size: Some(512 << 20) };
        assert_eq!(start, Verb::Start(Start { limits, ..Start::default() }));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_can() {
        let said = |line: &str| Verb::parse(line).unwrap_err().to_string();
        let of = |line: &str| said(&format!("{} {line}", title()));
        for (said, part) in [
            (said(""), "stage2-control/1 status"),
            (said("GET / HTTP/1.1"), "stage2-control/1 status"),
            (said("stage2-control/2 status"), "version 2, this collector speaks 1"),
            (of("begin"), "\"begin\""),
            (of("status now"), "\"now\""),
            (of("start for_ms=0"), "milliseconds from 1"),
            (of("start for_ms=1 for_ms=2"), "once"),
            (of("start steps=-1"), "steps takes a number"),
            (of("start at_unix_us=now"), "microseconds since 1970"),
            (of("start size=1K"), "64K"),
            (of("start sample=2/3"), "1/N"),
            (of("start ranges="), "globs"),
            (of("start counters=dram__bytes_read.sum"), "STAGE2_COUNTERS"),
            (of("start host=1001"), "from 1 to 1000"),
            (of("start fast"), "for_ms=MS"),
            (of("ending 0"), "the number of a signal"),
            (of("mark"), "1 to 1024 bytes"),
            (of(&format!("mark {}", "x".repeat(1025))), "1 to 1024 bytes"),
        ] {
            assert!(said.contains(part), "{said} without {part}");
        }
    }

    proptest! {
        #[test]
        fn every_text_survives_and_has_neither_blanks_nor_line_ends(text in ".*") {
            let word = escape(&text);
            prop_assert!(word.bytes().all(|byte| byte.is_ascii_graphic()), "{word}");
            prop_assert_eq!(unescape(&word), Some(text));
        }

        #[test]
        fn every_answer_survives(
            refused: bool,
            fields in prop::collection::vec(("[a-z_]{1,9}", ".*"), 0..9),
        ) {
            let answer = Answer { refused, fields };
            prop_assert_eq!(Answer::parse(&answer.to_text()), Ok(answer));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "(?s).*") {
            let _ = Answer::parse(&text);
        }
    }

    /// Hazard (Dormant processes and windows): An answer is cut.
    /// Promise: It is not taken for a complete one.
    #[test]
    fn a_part_of_an_answer_is_known_for_one() {
        let text = Answer::ok().with("phase", "on").with("error", "a b").to_text();
        for end in 0..text.len() {
            assert!(Answer::parse(&text[..end]).is_err(), "{:?}", &text[..end]);
        }
    }

    /// Hazard (Dormant processes and windows): The collector in the process is of another version.
    /// Promise: Both versions are named.
    #[test]
    fn an_answer_of_another_version_says_both_versions() {
        let error = Answer::parse("stage2-control/7 ok\nend\n").unwrap_err();
        assert_eq!(error, AnswerError::Version { theirs: 7 });
        let said = error.to_string();
        assert!(said.contains("version 7") && said.contains(", this program 1"), "{said}");
    }

    #[test]
    fn too_much_is_left_out_and_said() {
        let fields = (0..9999).map(|i| ("file".to_owned(), format!("{i:0>99}"))).collect();
        let text = Answer { refused: false, fields }.to_text();
        assert!(text.len() <= MAX_ANSWER_BYTES);
        assert_eq!(Answer::parse(&text).unwrap().get("cut"), Some("1"));
    }

    #[test]
    fn words_that_no_text_is_written_as_are_refused() {
        for bad in ["%", "%2", "%zz", "a b", "a\nb", "%ff", "é"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_say_host_process_and_start_and_nothing_else_is_one() {
        for (host, pid, start) in
            [("node-07", 4321, 99), ("", 1, 0), ("../x", 2, u64::MAX), (".h", 3, 4)]
        {
            let name = SocketName::new(host, pid, start);
            let text = name.to_file_name();
            assert!(!text.contains('/') && !text.starts_with('.') && text.len() < 80, "{text}");
            assert_eq!(pid_in(&text), Some(pid), "{text}");
            assert_eq!(SocketName::parse(&text), Some(name), "{text}");
        }
        let others = "|.sock|a-1.sock|a-1-2|a-01-2.sock|a-1-2-3.sock|a b-1-2.sock|-1-2.sock";
        for other in others.split('|') {
            assert_eq!(SocketName::parse(other), None, "{other}");
        }
        assert_eq!([".sock", "a-1.sock", "a-1-2", "a-b-2.sock"].map(pid_in), [None; 4]);
    }

    #[test]
    fn a_start_is_read_whatever_the_program_is_called() {
        let fields: String = (4..=52).map(|field| format!(" {field}")).collect();
        for name in ["infer", "a) S 1 (b", "x y"] {
            assert_eq!(start_of(&format!("77 ({name}) S{fields}\n")), Some(22), "{name}");
        }
        assert_eq!(start_of(""), None);
        assert_eq!(start_of("1 (a) S 2"), None);
    }

    #[test]
    fn a_runtime_folder_comes_first_where_it_is_absolute() {
        assert_eq!(folders(7, None), [PathBuf::from("/tmp/stage2-7")]);
        assert_eq!(folders(7, Some("run".into())), [PathBuf::from("/tmp/stage2-7")]);
        let both = folders(7, Some("/run/user/7".into()));
        assert_eq!(both, [PathBuf::from("/run/user/7/stage2"), PathBuf::from("/tmp/stage2-7")]);
    }
}
