//! Hardware counters that were sampled while the workload ran at full speed: what each stage and each
//! kernel read, wrote and computed.
//!
//! A number that is absent was not sampled, or cannot be given; a field next to it states why.

use serde::{Deserialize, Serialize};

use crate::counters::Bound;

/// What the samples of a run say; absent if no file has any or states why not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledCounters {
    /// They were sampled in a separate run, not in the one that all other numbers are from.
    #[serde(default)]
    pub own_run: bool,
    /// Each GPU of each process that was to be sampled.
    pub devices: Vec<SampledDevice>,
    /// Each stage on each of these GPUs, in the order of [`Report::stages`](crate::Report::stages).
    pub stages: Vec<SampledStage>,
}

/// A GPU whose counters a process was to sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledDevice {
    /// Trace file that holds the samples.
    pub file: String,
    /// [`DeviceRow::device`](crate::DeviceRow::device); null: the process says only why it sampled none.
    pub device: Option<String>,
    /// Why there are no numbers of this GPU, with the remedy; null where there are.
    pub omitted: Option<String>,
    /// What happened besides, in the words of the collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Length of a sample that was asked for, ns.
    pub interval_ns: Option<u64>,
    /// Metrics as CUPTI names them.
    pub metrics: Vec<String>,
    /// Samples that were read, without those that follow.
    pub samples: u64,
    /// Where only parts of the run were recorded: samples that do not lie wholly within one of them. They
    /// count for nothing; null where all was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_unrecorded: Option<u64>,
    /// Time that they cover, ns.
    pub sampled_ns: u64,
    /// Samples that could not be used: without a length, on top of others, of an unknown set.
    pub unusable_samples: u64,
    /// Values that were no number of something: negative, infinite, larger than can be.
    pub unusable_values: u64,
    /// Samples that were left out because a report keeps a bounded number of them.
    pub samples_left_out: u64,
    /// How often the hardware's buffer was full, which left a gap; null, here and below: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflows: Option<u64>,
    /// Time of these gaps together, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ns: Option<u64>,
    /// Samples that the collector took, and for which there was no room on the way to the trace file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_lost: Option<u64>,
    /// Mean DRAM traffic while none of our work ran, bytes/s; null: no such time, or not sampled.
    pub idle_dram_bytes_per_s: Option<f64>,
    /// Peak DRAM bandwidth that shares are of, bytes/s.
    pub peak_dram_bytes_per_s: Option<f64>,
}

/// Below this share of its GPU time the samples of a stage are a part of it only, percent.
pub const FULL_COVERAGE_PERCENT: f64 = 90.0;

/// What the samples say of a stage on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledStage {
    /// [`StageRow::stage`](crate::StageRow::stage).
    pub stage: String,
    /// [`DeviceRow::device`](crate::DeviceRow::device).
    pub device: String,
    /// Trace file that holds the samples.
    pub file: String,
    /// Instances with GPU work on this GPU.
    pub instances: u64,
    /// Union of the windows on the GPU, ns: that of an instance is from the start of its first work to
    /// the end of its last.
    pub gpu_window_ns: u64,
    /// Part of it in samples that hold work of no other stage, ns.
    pub covered_ns: u64,
    /// Coverage: `covered_ns` in percent of `gpu_window_ns`.
    pub coverage_percent: f64,
    /// Part of it in samples that hold work of other stages as well, percent of the window.
    pub contested_percent: f64,
    /// The coverage is below [`FULL_COVERAGE_PERCENT`]: the numbers are of a part of the stage.
    pub partial: bool,
    /// What ran in the covered time.
    pub rates: SampledRates,
    /// Steps (or instances, where the stage has none within it) of which enough is covered.
    pub steps: Option<SampledSteps>,
    /// FLOP/s that follow from the activity of the tensor pipe: its share times the dense peak.
    pub tensor_flops_per_s: Option<f64>,
    /// What that takes for granted; null where it is absent.
    pub tensor_assumption: Option<String>,
}

/// Rates and shares over the covered time; null: not sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledRates {
    /// DRAM bytes read, bytes/s.
    pub dram_read_bytes_per_s: Option<f64>,
    /// DRAM bytes written, bytes/s.
    pub dram_write_bytes_per_s: Option<f64>,
    /// DRAM bytes read and written, percent of the peak bandwidth.
    pub dram_percent: Option<f64>,
    /// Cycles in which the tensor pipe worked, percent.
    pub tensor_percent: Option<f64>,
    /// Cycles in which a multiprocessor had work, percent.
    pub sm_active_percent: Option<f64>,
    /// Instructions issued, percent of the peak.
    pub issue_percent: Option<f64>,
    /// Bytes through the L2 cache (sectors times 32), bytes/s.
    pub l2_bytes_per_s: Option<f64>,
    /// Bytes that came over PCIe, bytes/s.
    pub pcie_read_bytes_per_s: Option<f64>,
    /// Bytes that went over PCIe, bytes/s.
    pub pcie_write_bytes_per_s: Option<f64>,
    /// Bytes received over NVLink, bytes/s.
    pub nvlink_received_bytes_per_s: Option<f64>,
    /// Bytes sent over NVLink, bytes/s.
    pub nvlink_sent_bytes_per_s: Option<f64>,
}

/// The steps of a stage one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledSteps {
    /// Path of the range that is a step.
    pub path: String,
    /// Steps with GPU work.
    pub count: u64,
    /// Of these, those of which enough is covered by samples: the medians are of the warm ones among them.
    pub covered: u64,
    /// Median DRAM bytes read in a step: its rate times its window. Steps of the first, cold instance count only where no
    /// other is covered, here and below.
    pub dram_read_bytes: Option<f64>,
    /// Median DRAM bytes written in a step.
    pub dram_write_bytes: Option<f64>,
    /// What ran in the step whose window is the median of the covered ones. It is written to
    /// [`crate::Timelines`], as is `each`; version 1 of the report had both here.
    #[serde(default, skip_serializing)]
    pub median: Option<SampledCurve>,
    /// Each of a bounded number of them, evenly over the run.
    #[serde(default, skip_serializing)]
    pub each: Vec<SampledStep>,
}

/// The samples of a step over its window on the GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledCurve {
    /// The step's number within its stage and process, from 0.
    pub number: u64,
    /// Its window, ns.
    pub length_ns: u64,
    /// At most some hundreds of points, in the order of time. Times without usable samples have none.
    pub points: Vec<SampledPoint>,
}

/// A point of a [`SampledCurve`]: means over the samples in it. Null: not sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledPoint {
    /// Since the start of the window, ns.
    pub start_ns: u64,
    /// Its length, ns.
    pub length_ns: u64,
    /// DRAM bytes read and written, bytes/s.
    pub dram_bytes_per_s: Option<f64>,
    /// Cycles in which the tensor pipe worked, percent.
    pub tensor_percent: Option<f64>,
    /// Cycles in which a multiprocessor had work, percent.
    pub sm_active_percent: Option<f64>,
}

/// One step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledStep {
    /// Its number within its stage and process, from 0.
    pub number: u64,
    /// Its window on the GPU, ns.
    pub gpu_window_ns: u64,
    /// Part of it that samples cover, percent.
    pub coverage_percent: f64,
    /// What ran in the covered time.
    pub rates: SampledRates,
}

/// What sampled counters say of one call of a kernel, on average over its stage: the fit of all samples
/// of the stage by all kernels in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledKernel {
    /// Mean duration of its calls in the run that was sampled, ns: shares are of this. That of
    /// [`KernelRow::times`](crate::KernelRow::times) is of the collect pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// DRAM bytes read.
    pub dram_read_bytes: SampledAmount,
    /// DRAM bytes written.
    pub dram_write_bytes: SampledAmount,
    /// Bytes through the L2 cache (sectors times 32).
    pub l2_bytes: SampledAmount,
    /// Time in which the tensor pipe worked, ns.
    pub tensor_ns: SampledAmount,
    /// Time in which instructions were issued at the peak rate, ns.
    pub issue_ns: SampledAmount,
    /// DRAM bytes read and written over what the peak bandwidth moves in `mean_ns`, percent; null: its inputs are not
    /// known. Where [`SampledKernel::moved`] has no value, neither has this.
    pub dram_percent: Option<f64>,
    /// Upper limit of the DRAM share, from the most bytes that the kernel may have read and
    /// written, percent; null where `dram_percent` has a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_percent_at_most: Option<f64>,
    /// The share that its reads alone take, percent, of a kernel that memory bounds and whose writes are not known; null
    /// where `dram_percent` has a value. The kernel attains at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_percent_at_least: Option<f64>,
    /// Share of `mean_ns` in which the tensor pipe worked, percent; null: its inputs are not known.
    pub tensor_percent: Option<f64>,
    /// FLOP/s that follow from the share of the tensor pipe, as those of the stage.
    pub tensor_flops_per_s: Option<f64>,
    /// `tensor_flops_per_s` over the DRAM bytes per second: FLOP per byte; null: its inputs are not known.
    pub flops_per_byte: Option<f64>,
    /// What limits the kernel.
    pub bound: Option<Bound>,
    /// How `bound` came about, with the numbers.
    pub bound_why: Option<String>,
    /// DRAM bytes read over those that ncu counted in a separate launch. Writes stand in no ratio: L2
    /// writes back later than in the launch that ncu looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_read_over_ncu: Option<f64>,
}

impl SampledKernel {
    /// DRAM bytes read and written together. Where one of them is only known to be at most so much, their
    /// sum has a value if that is at most a tenth of the other one: half of it counts.
    pub fn moved(&self) -> SampledAmount {
        use SampledAmount::{Absent, AtMost, Known};
        match (&self.dram_read_bytes, &self.dram_write_bytes) {
            (
                Known { value: read, low: read_low, high: read_high },
                Known { value: written, low: written_low, high: written_high },
            ) => Known {
                value: read + written,
                low: read_low + written_low,
                high: read_high + written_high,
            },
            (Known { value, low, high }, AtMost { limit })
            | (AtMost { limit }, Known { value, low, high }) => {
                if *limit <= value * SMALL_PART {
                    Known { value: value + limit / 2.0, low: *low, high: high + limit }
                } else {
                    AtMost { limit: value + limit }
                }
            }
            (AtMost { limit: read }, AtMost { limit: written }) => AtMost { limit: read + written },
            (Absent(why), _) | (_, Absent(why)) => Absent(why.clone()),
        }
    }
}

/// What is at most this part of another amount changes their sum by too little to leave it unknown.
const SMALL_PART: f64 = 0.1;

/// An amount of one call with its 90 % interval, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SampledAmount {
    /// It is known to 10 % or better.
    Known {
        /// The amount.
        value: f64,
        /// Lower end of the interval.
        low: f64,
        /// Upper end of the interval.
        high: f64,
    },
    /// It is so little of its stage that only the upper end of the interval says something.
    AtMost {
        /// Upper end of the interval.
        limit: f64,
    },
    /// It is not known.
    Absent(NoAmount),
}

impl SampledAmount {
    /// The amount, where it is known.
    pub fn value(&self) -> Option<f64> {
        let Self::Known { value, .. } = self else { return None };
        Some(*value)
    }

    /// What it is at most, where that is all that is known.
    pub fn limit(&self) -> Option<f64> {
        let Self::AtMost { limit } = self else { return None };
        Some(*limit)
    }

    /// What it is at least and at most, as far as anything is known: of an amount that is known to 10 %
    /// the amount itself.
    pub fn between(&self) -> Option<(f64, f64)> {
        match self {
            Self::Known { value, .. } => Some((*value, *value)),
            Self::AtMost { limit } => Some((0.0, *limit)),
            Self::Absent(NoAmount::TooUncertain { low, high, .. }) => Some((*low, *high)),
            Self::Absent(_) => None,
        }
    }

    /// Why there is none.
    pub fn absent(&self) -> Option<&NoAmount> {
        let Self::Absent(why) = self else { return None };
        Some(why)
    }
}

/// Why a kernel has no amount, to be read after "none, because".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoAmount {
    /// No sample holds it.
    #[error("no sample holds it and work of its stage only")]
    NoSamples,
    /// Too few samples hold it.
    #[error("too few samples of its stage hold it: {samples}")]
    TooFewSamples {
        /// How many.
        samples: u64,
    },
    /// The counter was not sampled.
    #[error("the counter was not sampled")]
    NoCounter,
    /// Other kernels always ran with it.
    #[error(
        "it always runs together with {others} other kinds of work; all calls of all of them took {}",
        total_text(total)
    )]
    Together {
        /// How many others.
        others: u64,
        /// What all of them took in the stage, in the unit of the amount; null: not known either.
        total: Option<f64>,
    },
    /// Its interval is too wide.
    #[error(
        "its 90 % interval, {low:.4e} to {high:.4e}, is {percent:.0} % of it to either side, more than 10 %"
    )]
    TooUncertain {
        /// Half the interval, percent of the amount.
        percent: f64,
        /// Lower end of the interval, in the unit of the amount.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// It is one of many kinds that are fitted together.
    #[error("it is one of many short kinds of work that are fitted together")]
    Pooled,
    /// Only a background can have this reason.
    #[error("work runs all the time, which hides the background")]
    NeverIdle,
    /// The solver found no end.
    #[error("the fit of its stage found no solution")]
    Unsolved,
}

fn total_text(total: &Option<f64>) -> String {
    total.map_or_else(
        || "an amount that is not known either".to_owned(),
        |total| format!("{total:.4e} in the unit of the amount"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_no_part_of_a_value() {
        let known =
            |value: f64| SampledAmount::Known { value, low: value * 0.95, high: value * 1.05 };
        let at_most = |limit| SampledAmount::AtMost { limit };
        let none = || SampledAmount::Absent(NoAmount::NoCounter);
        for (read, written, moved) in [
            (known(100.0), known(20.0), Ok(120.0)),
            (known(100.0), at_most(10.0), Ok(105.0)),
            (at_most(4.0), known(100.0), Ok(102.0)),
            (known(100.0), at_most(11.0), Err(Some(111.0))),
            (at_most(5.0), at_most(7.0), Err(Some(12.0))),
            (known(100.0), none(), Err(None)),
            (none(), at_most(1.0), Err(None)),
        ] {
            let kernel = SampledKernel {
                mean_ns: None,
                dram_read_bytes: read.clone(),
                dram_write_bytes: written.clone(),
                l2_bytes: none(),
                tensor_ns: none(),
                issue_ns: none(),
                dram_percent: None,
                dram_percent_at_most: None,
                dram_percent_at_least: None,
                tensor_percent: None,
                tensor_flops_per_s: None,
                flops_per_byte: None,
                bound: None,
                bound_why: None,
                dram_read_over_ncu: None,
            };
            let found = kernel.moved();
            assert_eq!(found.value().ok_or(found.limit()), moved, "{read:?} and {written:?}");
        }
    }
}
