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

/// What the driver's NVML says of a GPU at this moment. `None`: it does not say.
#[derive(Clone, Debug, Default)]
pub struct GpuNow {
    /// NVML's number of it.
    pub index: u32,
    /// `GPU-` and 32 digits with dashes.
    pub uuid: String,
    /// NVML lists this process there. `None`: it lists processes by numbers of another namespace, or none.
    pub is_own: Option<bool>,
    /// Share of the last moments (up to a second) in which a kernel ran, percent.
    pub gpu_percent: Option<u32>,
    /// Share in which its memory was read or written, percent.
    pub memory_percent: Option<u32>,
    /// Power, mW.
    pub power_mw: Option<u32>,
    /// Its limit, mW.
    pub power_limit_mw: Option<u32>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Temperature, degrees Celsius.
    pub temperature_c: Option<u32>,
    /// NVML's bits of reasons for the clock.
    pub clock_reasons: Option<u64>,
    /// Memory that all processes use; 0: not known.
    pub memory_used_bytes: u64,
    /// For how long, up to now, NVML's samples of the first share were at least 95 %, ms.
    pub busy_ms: Option<u64>,
    /// For how long those of the second share were at most 2 %, ms.
    pub quiet_ms: Option<u64>,
    /// Errors of the memory since the driver was loaded that could not be corrected.
    pub uncorrected_errors: Option<u64>,
}

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
