//! The GPU half as the rest of the collector sees it: what can be asked of CUPTI.

use std::fmt;

use cupti_sys::Walker;
use stage2_spool::GpuNs;

/// Why GPU work is not recorded, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffReason(pub String);

impl fmt::Display for OffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The GPU half, as the other modules see it.
pub trait Tracer: Send + Sync {
    /// A number in CUPTI's sequence of calls, taken now on this thread; 0 where none is needed.
    fn fence(&self) -> u32;

    /// Whether launches are reported one by one, instead of being placed between fences.
    fn reports_launches(&self) -> bool;

    /// Has CUPTI hand back its buffers; `forced`: the unfinished ones as well.
    fn flush(&self, forced: bool) -> Result<(), String>;

    /// CUPTI's clock.
    fn now(&self) -> Option<GpuNs>;

    /// Records that CUPTI dropped since the last call.
    fn take_dropped(&self) -> u64;

    /// CUPTI's way from record to record of its buffers.
    fn walker(&self) -> Walker;

    /// Whether [`Tracer::collect`] does anything: else collection is on all the time.
    fn switches(&self) -> bool {
        true
    }

    /// Starts or stops collecting GPU work.
    fn collect(&self, on: bool);

    /// Has CUPTI read the times of recorded replays of CUDA graphs, if there were any: where they
    /// stand the next replay writes as well, unless it is recorded itself. Takes 0.7 us a kernel.
    fn keep_times(&self) {}

    /// Collects nothing from now on and calls nobody back.
    fn shut(&self);

    /// Facts for the capture's metadata, as key and value.
    fn facts(&self) -> Vec<(&'static str, String)>;
}
