//! What can be asked of the collector, with its defaults.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use stage2_contract::settings::{Buffers, Counters, CuptiApi, Detail, Rotate};
use stage2_contract::text::redact::Redactor;

use crate::base::diag::Level;
use crate::base::glob::RangeFilter;

/// Where the table of top kernels goes at exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    /// To the guest's stderr.
    Stderr,
    /// Nowhere.
    Off,
    /// Appended to this file.
    File(PathBuf),
}

/// How a CUDA graph is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Graph {
    /// Every kernel of a replay.
    Node,
    /// Every replay as a whole: cheaper, without its kernels.
    Graph,
}

/// How GPU work is attributed to the thread that launched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// Fences where CUPTI keeps a buffer per thread, else launch callbacks.
    Auto,
    /// Only fences at range boundaries.
    Fence,
    /// A callback at every launch.
    Callback,
}

/// Everything that can be asked of the collector. [`Options::default`] holds the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// `STAGE2_OUT`: folder of the trace file.
    pub out: Option<PathBuf>,
    /// `STAGE2_ROTATE`: the trace file is cut into pieces.
    pub rotate: Option<Rotate>,
    /// `STAGE2_DETAIL`: what is kept of ranges and GPU work.
    pub detail: Detail,
    /// `STAGE2_SUMMARY`.
    pub summary: Summary,
    /// `STAGE2_RANGES`.
    pub ranges: RangeFilter,
    /// `STAGE2_SAMPLE`: one of this many instances of each range is collected.
    pub sample: u32,
    /// `STAGE2_GRAPH`.
    pub graph: Graph,
    /// `STAGE2_CUPTI`: the libcupti to use, or `newest`.
    pub cupti: Option<PathBuf>,
    /// `STAGE2_CUPTI_API`: the activity API of CUPTI to use.
    pub cupti_api: CuptiApi,
    /// `STAGE2_HWTRACE`: the hardware is to take the times of kernels.
    pub hardware_trace: bool,
    /// `STAGE2_BUFFERS`.
    pub buffers: Buffers,
    /// `STAGE2_COUNTERS`: hardware counters to sample.
    pub counters: Counters,
    /// `STAGE2_HOST`: the guest's threads are sampled, so many times a second.
    pub host_hz: Option<u32>,
    /// `STAGE2_FLUSH_MS`.
    pub flush: Duration,
    /// `STAGE2_LOG`.
    pub log: Level,
    /// `STAGE2_ATTRIBUTION`.
    pub attribution: Attribution,
    /// `STAGE2_GPU`: `off` records ranges only and leaves CUPTI alone.
    pub gpu: bool,
    /// `STAGE2_DEVICE_STATE`: NVML is read.
    pub device_state: bool,
    /// `STAGE2_NVML`: the NVML to use.
    pub nvml: Option<OsString>,
    /// `STAGE2_REDACT`: what is taken out of the command line.
    pub redact: Redactor,
    /// `STAGE2_LAUNCHER` is set: the launcher writes the reports.
    pub launcher: bool,
    /// `STAGE2_START`: recording begins at once; else the process is dormant until a start is asked for.
    pub start: bool,
    /// `STAGE2_CONTROL`: there is a control socket.
    pub control: bool,
    /// `STAGE2_WATCH`: what stands still for so long is told.
    pub watch: Option<Duration>,
    /// `STAGE2_WATCH_COMMAND`: what is run then.
    pub watch_command: Option<OsString>,
    /// `STAGE2_FLUSH_PAGE`: where the launcher asks for flushes.
    pub flush_page: Option<OsString>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            out: None,
            rotate: None,
            detail: Detail::Records,
            summary: Summary::Stderr,
            ranges: RangeFilter::default(),
            sample: 1,
            graph: Graph::Node,
            cupti: None,
            cupti_api: CuptiApi::Auto,
            hardware_trace: false,
            buffers: Buffers::Within { bytes: 256 << 20 },
            counters: Counters { off: true, ..Counters::default() },
            host_hz: None,
            flush: Duration::from_millis(1000),
            log: Level::Warn,
            attribution: Attribution::Auto,
            gpu: true,
            device_state: true,
            nvml: None,
            redact: Redactor::default(),
            launcher: false,
            start: true,
            control: true,
            watch: None,
            watch_command: None,
            flush_page: None,
        }
    }
}

impl Options {
    /// The table at exit is shown somewhere, or `kernels.md` is written.
    pub fn shows_summary(&self) -> bool {
        self.summary != Summary::Off || (self.out.is_some() && !self.launcher)
    }
}
