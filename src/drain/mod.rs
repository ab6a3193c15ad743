//! What runs on our one thread: full buffers and events into the trace file and the summary.
//!
//! [`run`] is the body of that thread, and nothing here is called from any other. It may allocate,
//! read files and write. It waits for nobody in the guest. A panic ends the thread and leaves the
//! guest alone ([`crate::guest::barrier::own_thread`]).
//! Imports: `guest` (what it consumes, and the switches of the GPU half) and `base`.

pub mod aggregate;
pub mod fields;
pub mod flush_request;
pub mod intern;
mod output;
mod own_file;
mod pace;
pub mod ranges;
pub mod scheduling;
pub mod spans;
pub mod summary;
pub mod timeline;
mod worker;

pub use worker::{EndReason, run};
