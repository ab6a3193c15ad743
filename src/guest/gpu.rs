//! The GPU half as the rest of the collector sees it: what it is, and the few things that can be asked
//! of CUPTI. Records do not come through here: CUPTI fills the buffers of the `pool`, and
//! [`activity`](crate::guest::activity) reads them.

use cupti_sys::{CuptiError, Walker};
use stage2_contract::trace::GpuNs;

use crate::guest::counters::Counters;

/// Why GPU work is not recorded, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OffReason(pub String);

/// The GPU half, once it runs.
pub struct Gpu {
    /// What can be asked of it.
    pub tracer: Box<dyn Tracer>,
    /// CUPTI's way from record to record of its buffers.
    pub walker: Walker,
    /// Launches are reported one by one, instead of being placed between fences.
    pub reports_launches: bool,
    /// [`Tracer::collect`] has an effect: else collection is on all the time.
    pub switches: bool,
    /// CUPTI accepted to take times of kernels from the hardware. A GPU that cannot goes on without. Only
    /// threads of the guest flush then ([`crate::guest::state::Shared::flush`]).
    pub asks_hardware: bool,
    /// Sampling of hardware counters, where they are asked for and can be had.
    pub counters: Option<Counters>,
    /// Facts for the capture's metadata, as key and value.
    pub facts: Vec<(&'static str, String)>,
}

/// Control of CUPTI. Guest threads take fences and switch collection; our thread reads the clock and the
/// losses, and flushes through [`crate::guest::state::Shared::flush`]. Tests put their own in its place.
pub trait Tracer: Send + Sync {
    /// A number in CUPTI's sequence of calls, taken now on this thread; 0 where none is needed.
    fn fence(&self) -> u32;

    /// Starts or stops collecting GPU work.
    fn collect(&self, on: bool);

    /// Has CUPTI hand back its buffers; `forced`: the unfinished ones as well.
    fn flush(&self, forced: bool) -> Result<(), CuptiError>;

    /// CUPTI's clock.
    fn now(&self) -> Option<GpuNs>;

    /// Records that CUPTI dropped since the last call that went well. `None` where it does not tell.
    fn take_dropped(&self) -> Option<u64>;

    /// Has kernel launches counted ([`crate::guest::launch_watch`]), or no longer. `false` where this CUPTI
    /// cannot, or where a launch without a record has another reason.
    fn watch_launches(&self, on: bool) -> bool;

    /// CUPTI still calls us back.
    fn is_attached(&self) -> bool;

    /// Collects nothing from now on and calls nobody back.
    fn shut(&self);
}
