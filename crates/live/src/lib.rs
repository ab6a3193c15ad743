//! Trace files that grow -> what their processes do now, and what they did since we began to look.
//!
//! [`Watch`] follows the files, reads what was added up to the last whole frame, and
//! keeps numbers of two kinds for each process: totals, which only grow, and a window of the last ten
//! seconds of the data. Stages, windows of stages, busy time and launch gaps mean what they mean in a
//! report. Memory is bounded, whatever a file holds; nothing here knows a terminal or a socket.
//!
//! Numbers of the GPU are final [`SETTLE_NS`] after the event, or [`SETTLE_LATE_NS`], because its records come late and
//! out of order. So a window ends there, and all of its numbers are of the same time.
#![forbid(unsafe_code)]

mod counters;
mod follow;
mod host;
mod instances;
mod look;
mod message;
mod numbers;
mod process;
mod settled;
mod tables;
mod watch;

pub use counters::Counter;
pub use follow::FileState;
pub use host::HostIdle;
pub use look::{IN_PART, Look, SIMULATED, Watched};
pub use message::{read as read_message, write as write_message};
pub use numbers::{
    BUCKETS_S, Counts, DeviceBusy, KernelRow, MINUTE_S, Minute, RunSteps, StageNumbers, Window,
};
pub use process::{GpuState, Options};
pub use tables::class_label;
pub use watch::{Source, Watch, rank_in};

/// How far behind the last event of a file its numbers are final: a collector writes once a second, and of the traces of
/// the samples no record of a GPU comes more than 0.95 s late.
pub const SETTLE_NS: u64 = 1_500_000_000;
/// [`SETTLE_NS`] of a process of which a record came later than that.
pub const SETTLE_LATE_NS: u64 = 3_000_000_000;
/// A process that wrote nothing for so long has ended, and could not say so.
pub const SILENT_NS: u64 = 15_000_000_000;
/// A process of this host that does not exist any more, and wrote nothing for so long, has ended. Only the time tells it
/// from one of a container, which has another number there, and writes.
pub(crate) const GONE_NS: u64 = 3_000_000_000;
/// Length of the window, seconds.
pub const WINDOW_S: u64 = 10;
/// Stages of a process that have their own row; the others are one row.
pub const MAX_STAGES: usize = 64;
/// The row of what is beyond a limit.
pub const OTHER: &str = "(other)";
