//! What the writer and the reader of sampled hardware counters have to call alike: the facts in
//! [`Record::Meta`](crate::trace::Record::Meta), and the metrics of a [`CounterSet`](crate::trace::CounterSet).

use std::ffi::CStr;

/// Fact: why counters are not sampled, with the remedy.
pub const OFF: &str = "counters.off";
/// Fact: what happened besides.
pub const NOTE: &str = "counters.note";
/// Fact [of a GPU](of_device): how often the hardware's buffer was full. Each time, samples are missing.
pub const OVERFLOWS: &str = "counters.overflows";
/// Fact [of a GPU](of_device): the total time without samples for that reason, ns.
pub const LOST_NS: &str = "counters.lost_ns";
/// Fact [of a GPU](of_device): samples of the hardware that the collector had no space for.
pub const SAMPLES_LOST: &str = "counters.samples_lost";

/// The key of a fact of one GPU, as the process numbers them.
pub fn of_device(key: &str, device: u32) -> String {
    format!("{key}.{device}")
}

/// A counter under its names, the best first: they differ between chips. A chip measures at most one.
pub type Names = &'static [&'static CStr];

/// Bytes read from DRAM.
pub const DRAM_READ: Names = &[c"dram__bytes_read.sum"];
/// Bytes written to DRAM.
pub const DRAM_WRITE: Names = &[c"dram__bytes_write.sum"];
/// Sectors of 32 bytes through the L2 cache.
pub const L2_SECTORS: Names = &[c"lts__t_sectors.sum"];
/// Bytes that came over PCIe.
pub const PCIE_READ: Names = &[c"pcie__read_bytes.sum"];
/// Bytes that went over PCIe.
pub const PCIE_WRITE: Names = &[c"pcie__write_bytes.sum"];
/// Bytes received over NVLink.
pub const NVLINK_RECEIVED: Names = &[c"nvlrx__bytes.sum"];
/// Bytes sent over NVLink.
pub const NVLINK_SENT: Names = &[c"nvltx__bytes.sum"];
/// Cycles in which the tensor pipe worked, percent.
pub const TENSOR: Names = &[
    c"sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
    c"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
];
/// Cycles in which a multiprocessor had work, percent.
pub const SM_ACTIVE: Names = &[c"sm__cycles_active.avg.pct_of_peak_sustained_elapsed"];
/// Instructions issued, percent of the peak.
pub const ISSUE: Names = &[
    c"sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed",
    c"sm__inst_executed.avg.pct_of_peak_sustained_elapsed",
];
/// Cycles of the clock of the multiprocessors.
pub const CYCLES: Names = &[c"gpc__cycles_elapsed.max"];
/// All of these.
pub const ALL: &[Names] = &[
    DRAM_READ,
    DRAM_WRITE,
    L2_SECTORS,
    PCIE_READ,
    PCIE_WRITE,
    NVLINK_RECEIVED,
    NVLINK_SENT,
    TENSOR,
    SM_ACTIVE,
    ISSUE,
    CYCLES,
];
