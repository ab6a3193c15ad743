//! Names of sampled metrics -> what they count, and what a report makes of them.

use strum::EnumCount;

/// What a report knows to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumCount)]
pub(super) enum Metric {
    DramRead,
    DramWrite,
    L2Sectors,
    PcieRead,
    PcieWrite,
    NvlinkReceived,
    NvlinkSent,
    Tensor,
    SmActive,
    Issue,
}

/// Metrics that a report reads.
pub(super) const METRICS: usize = Metric::COUNT;

/// Bytes of a sector of the L2 cache.
const SECTOR_BYTES: f64 = 32.0;

impl Metric {
    /// By CUPTI's name. Other forms of the same counter (its mean by unit, its maximum) are others.
    pub(super) fn of(name: &str) -> Option<Self> {
        let (counter, form) = name.split_once('.')?;
        let percent = form == "avg.pct_of_peak_sustained_elapsed";
        let metric = match counter {
            "dram__bytes_read" => Self::DramRead,
            "dram__bytes_write" => Self::DramWrite,
            "lts__t_sectors" => Self::L2Sectors,
            "pcie__read_bytes" => Self::PcieRead,
            "pcie__write_bytes" => Self::PcieWrite,
            "nvlrx__bytes" => Self::NvlinkReceived,
            "nvltx__bytes" => Self::NvlinkSent,
            "sm__pipe_tensor_cycles_active" | "sm__pipe_tensor_cycles_active_realtime" => {
                Self::Tensor
            }
            "sm__cycles_active" => Self::SmActive,
            "sm__inst_executed" | "sm__inst_executed_realtime" => Self::Issue,
            _ => return None,
        };
        (metric.is_percent() == percent && (percent || form == "sum")).then_some(metric)
    }

    /// A share of the time of a sample; else an amount that grows with it.
    pub(super) fn is_percent(self) -> bool {
        matches!(self, Self::Tensor | Self::SmActive | Self::Issue)
    }

    /// What one of what it counts stands for: bytes, or percent.
    pub(super) fn unit(self) -> f64 {
        if self == Self::L2Sectors { SECTOR_BYTES } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forms_whose_unit_is_known_are_read() {
        for (name, metric) in [
            ("dram__bytes_read.sum", Some(Metric::DramRead)),
            ("dram__bytes_read.sum.per_second", None),
            ("dram__bytes_read.avg.pct_of_peak_sustained_elapsed", None),
            ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", Some(Metric::SmActive)),
            ("sm__cycles_active.sum", None),
            ("gpc__cycles_elapsed.max", None),
            ("", None),
        ] {
            assert_eq!(Metric::of(name), metric, "{name}");
        }
    }
}
