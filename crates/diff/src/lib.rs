//! Reports of two sides in, what changed between them out: a [`Comparison`], and whether it meets the
//! user's [`Condition`]s.
//!
//! Nothing is read or written here but bytes that the caller has: [`read_report`] makes a report of the
//! text of a `metrics.json`. A side is one run or several of the same program. What the numbers are per
//! (a step, an instance, a token) is chosen once for a stage and both sides, so that runs of different
//! length compare. A difference is only called one when it is larger than the noise.
#![forbid(unsafe_code)]

mod again;
mod causes;
mod comparability;
mod compare;
mod comparison;
mod condition;
mod judged;
mod libraries;
mod lines;
mod metric;
mod next;
mod noise;
mod parts;
mod read;
mod stage_view;
mod verdict;
mod work;

pub use again::{Again, again, load};
pub use comparability::{NOT_RECORDED, ORDER_OF_RUNS};
pub use compare::{EmptyRun, Run, compare};
pub use comparison::*;
pub use condition::{Condition, ConditionError, NOISE_EXCEEDS};
pub use judged::{GONE, NOT_COMPARABLE, Noise, NoiseMethod, NoiseText, Verdict, ends_text};
pub use lines::{NOT_COMPARED, WITH_CAVEATS, in_folder};
pub use metric::REST_OF_IDLE;
pub use parts::{LAUNCH_GAPS, OTHER_IDLE, PartChange, Parts};
pub use read::{ReadError, ReadReport, read_report};
pub use verdict::Outlook;
