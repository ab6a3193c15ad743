//! Names of sampled metrics -> what they count, and what a report makes of them.

use stage2_contract::trace::counters::{self, Names};
use strum::{EnumCount, VariantArray};

/// What a report knows to read.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::EnumCount, strum::VariantArray,
)]
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
        let is_it = |metric: &Self| metric.names().iter().any(|n| n.to_bytes() == name.as_bytes());
        Self::VARIANTS.iter().copied().find(is_it)
    }

    /// CUPTI's names, of which a chip measures one.
    fn names(self) -> Names {
        match self {
            Self::DramRead => counters::DRAM_READ,
            Self::DramWrite => counters::DRAM_WRITE,
            Self::L2Sectors => counters::L2_SECTORS,
            Self::PcieRead => counters::PCIE_READ,
            Self::PcieWrite => counters::PCIE_WRITE,
            Self::NvlinkReceived => counters::NVLINK_RECEIVED,
            Self::NvlinkSent => counters::NVLINK_SENT,
            Self::Tensor => counters::TENSOR,
            Self::SmActive => counters::SM_ACTIVE,
            Self::Issue => counters::ISSUE,
        }
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

    #[test]
    fn each_name_says_the_unit_in_which_it_is_read() {
        for metric in Metric::VARIANTS {
            for name in metric.names() {
                let name = name.to_str().expect("ASCII");
                assert_eq!(Metric::of(name), Some(*metric), "{name}");
                let percent = name.ends_with(".avg.pct_of_peak_sustained_elapsed");
                assert_eq!((metric.is_percent(), !percent), (percent, name.ends_with(".sum")));
            }
        }
    }
}
