//! A rank, or any number of them, in some kilobytes a minute; and what summaries of all ranks say about a job.
//!
//! [`Summariser`] takes the records of one trace, in the order of the file, and gives a [`Period`] for each minute. The
//! collector's drain thread and `stage2-launch summarise` both use it. [`tree`] merges summaries of any number of
//! ranks, minute by minute, so that memory grows neither with the ranks nor with the time; [`job`] folds
//! what comes out into a page.
//!
//! # The file `*.s2s`
//!
//! The file header and the frames of a [trace file](stage2_contract::trace), with the magic
//! `89 53 32 4D 0D 0A 1A 0A` and version 1. Kinds of frames: 1, a [`Member`]; 2, a [`Period`]; a reader steps over
//! others. A payload holds the fields of the type in their order, and a reader steps over bytes behind the last one
//! that it knows: `v`, `s` and `step` are those of a trace file.
//!
//! - A [`Sketch`]: count `v`; of one value or more the smallest `v`; of two or more the largest less that `v`; where
//!   these differ the sum `v`, the number of buckets `v`, and for each how far it lies behind the one before `v`, and
//!   its count `v`.
//! - A map: its length `v`, then each key `s` and value. Numbers that may be unknown: one more than they are, or 0.
//! - An [`Arrival`], of a call that is told against the one before: communicator exclusive-or `v`, operation `v`,
//!   number `step`; one byte of flags (0: of one member; 1: the last member is that of the call before; 2: the clock is;
//!   3: what ends are apart is known), what the flags do not leave out, the times of the last member, the weight,
//!   the end `step`, and of several members the range of the ends and three sketches.
//!
//! Summaries of one rank and of many have one format: an inner node of a tree writes what it read. In a node, a
//! [`Member`] stands for each rank; all of them come before the first period.
#![forbid(unsafe_code)]

mod file;
pub mod job;
mod late;
mod period;
mod sketch;
mod summarise;
pub mod tree;

pub use file::{Entry, FORMAT_VERSION, Reader, Writer};
pub use late::{Arrival, Call, Late, Part, Settled};
pub use period::{Cell, Extreme, Member, PERIOD_NS, Period, ROWS, Stage, StageCell, Sum};
pub use sketch::Sketch;
pub use summarise::Summariser;
