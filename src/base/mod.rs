//! Small things that every thread uses: clocks, bounded waits and writes, messages, counters, and
//! what this process knows of itself.
//!
//! Guest threads call most of this. So what works after the start neither allocates nor waits without a
//! bound; what belongs to a start ([`job`], [`last_thread::Helpers::note`]) is marked.

pub mod allocator;
pub mod ancestry;
pub(crate) mod barrier;
pub mod call_stacks;
pub mod clock;
pub mod counters;
pub mod diag;
pub mod futex;
pub mod generation;
pub mod glob;
pub mod job;
pub(crate) mod json;
pub mod last_thread;
pub mod main_end;
pub(crate) mod new_file;
pub mod options;
pub mod pages;
pub mod scheduling;
pub mod signal_mask;
pub(crate) mod sync;
pub mod timed_write;
mod unwinder;
