//! The collector: CUPTI kernel records and NVTX ranges of the process it lives in, into a trace
//! file and a table of top kernels.
//!
//! Everything here runs inside somebody else's process. It never breaks, blocks or visibly slows
//! it: no panic leaves ([`barrier`]), nothing waits without a bound, guest threads neither
//! allocate nor write after the start, and there is one thread of our own ([`drain`]).
//!
//! The way of a kernel record:
//!
//! | hop | module | turns | into |
//! |---|---|---|---|
//! | door | [`inject`], [`lifecycle`] | a call by the loader, the driver or NVTX | a running collector |
//! | end | [`ends`], [`forks`] | the end of the process; a forked child | a whole trace file; a new start |
//! | produce | [`cupti`] | CUPTI's callbacks | full buffers in the [`pool`], events |
//! | produce | [`nvtx`] | the guest's NVTX calls | [`event`]s with a fence each, [`registry`] |
//! | take in | [`drain`], [`decode`] | buffer bytes | activities |
//! | attribute | [`ranges`], [`timeline`] | events, correlation ids | range instances and paths |
//! | attribute | [`fields`] | payloads, the guest's schemas | fields of range instances |
//! | keep | [`aggregate`], [`intern`] | attributed work | bounded tables, numbers |
//! | show | [`drain`], [`summary`] | records, tables | the spool, the table at exit |
//!
//! Producers and transformers do not know each other; [`state`] holds the phase and everything that is
//! recorded; the other statics are process-wide switches beside their only users.
#![deny(clippy::unwrap_used, clippy::expect_used)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("the collector reads CUPTI's and NVTX's ABI of 64-bit Linux only");

pub mod base;
pub mod drain;
pub mod entry;
pub mod guest;
