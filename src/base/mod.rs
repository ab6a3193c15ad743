//! Small things that every thread uses: clocks, bounded waits and writes, messages, counters, and
//! what this process knows of itself.
//!
//! Guest threads call most of this, so the functions that work after the start neither allocate nor
//! wait without a bound; those that belong to a start ([`job`], [`last_thread::Helpers::note`]) say
//! so. Imports: nothing of the other folders.

pub mod ancestry;
pub mod clock;
pub mod counters;
pub mod diag;
pub mod futex;
pub mod generation;
pub mod glob;
pub mod job;
pub mod last_thread;
pub mod options;
pub mod pages;
pub mod signal_mask;
pub mod timed_write;
mod unwinder;
