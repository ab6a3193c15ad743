//! The launches of a report -> one set of counters for each kernel, grid, block, device and stage.
//!
//! Several launches of the same, as several processes give, become their mean. What was not
//! measured is absent; a value that cannot be is told and then absent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use stage2_contract::text;
use stage2_model::finding::{Id, Severity};
use stage2_model::{CounterRow, Finding, Flops};

use super::MAX_RULES;
use super::launch::{DURATION_NS, DURATIONS, Launch, Quantity};
use crate::ncu::nvtx::Label;

/// What tells kernels apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Name as it is printed: mangled where the report was imported so.
    pub kernel: String,
    /// Grid.
    pub grid: [u32; 3],
    /// Block.
    pub block: [u32; 3],
    /// Index of the device.
    pub device: u32,
}

/// What was measured of one kernel in one configuration and stage, the mean of its launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelCounters {
    /// Which kernel.
    pub key: Key,
    /// Ranges of which one may be the stage that it was profiled in; empty: ncu knows of none.
    pub outermost: BTreeSet<Label>,
    /// Duration under ncu, nanoseconds: at other clocks and with cold caches. Only a check.
    pub duration_ns: Option<f64>,
    /// Bytes read from the device's memory and written to it; where only the rate was measured, that
    /// times the duration under ncu.
    pub dram_bytes: Option<f64>,
    /// Bytes read from the device's memory alone.
    pub dram_read_bytes: Option<f64>,
    /// What a report shows of it, except for the numbers that need a row of the report.
    pub measured: CounterRow,
}

/// Metrics that a report shows.
const DRAM_READ: &str = "dram__bytes_read.sum";
const DRAM_WRITTEN: &str = "dram__bytes_write.sum";
const DRAM_BOTH: &str = "dram__bytes.sum";
const DRAM_RATE: &str = "dram__bytes.sum.per_second";
pub(super) const SM: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
pub(super) const MEMORY: &str = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed";
/// The better one first.
pub(super) const DRAM: &[&str] = &[
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
];
const OCCUPANCY: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
const L2_HITS: &str = "lts__t_sector_hit_rate.pct";
const TENSOR_PIPE: &str = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";

/// Whether a report shows the metric, except for those that operations are counted from.
pub(super) fn is_shown(name: &str) -> bool {
    let bytes = [DRAM_READ, DRAM_WRITTEN, DRAM_BOTH, DRAM_RATE];
    let shares = [SM, MEMORY, OCCUPANCY, L2_HITS, TENSOR_PIPE];
    [&bytes[..], &shares, DRAM, DURATIONS].iter().any(|known| known.contains(&name))
}

/// Values beyond these cannot be.
type Bounds = RangeInclusive<f64>;
/// A rate in % of peak: elapsed cycles of different units do not quite agree.
const PERCENT_OF_PEAK: Bounds = 0.0..=110.0;
/// A share in %.
const SHARE: Bounds = 0.0..=101.0;
/// Hits and requests can be counted in different passes: 101.45 % was seen on a small kernel.
const HITS: Bounds = 0.0..=110.0;
/// Bytes, operations and similar counts: no counter holds more than 2^64.
const COUNT: Bounds = 0.0..=1.9e19;

pub(super) fn key(launch: &Launch) -> Key {
    let Launch { grid, block, device, .. } = *launch;
    Key { kernel: launch.kernel.clone(), grid, block, device }
}

/// Of more values than so many, one that is impossible is rare.
const RARE: usize = 100;

pub(super) fn pivot(launches: &[Launch], findings: &mut Vec<Finding>) -> Vec<KernelCounters> {
    let mut groups: BTreeMap<(Key, BTreeSet<Label>), Vec<&Launch>> = BTreeMap::new();
    for launch in launches.iter().filter(|launch| !launch.is_range()) {
        groups.entry((key(launch), launch.outermost())).or_default().push(launch);
    }
    let mut refused = Vec::new();
    let kernels = groups
        .into_iter()
        .map(|((key, outermost), launches)| {
            let mut kernel = counters(mean(&launches), &key, &mut refused);
            let counts = launches.iter().map(|launch| launch.count());
            kernel.measured.launches_profiled = counts.fold(0, u64::saturating_add);
            let rules = &mut kernel.measured.rules;
            for rule in launches.into_iter().flat_map(|launch| &launch.rules) {
                if rules.len() < MAX_RULES && !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
            (kernel.key, kernel.outermost) = (key, outermost);
            kernel
        })
        .collect();
    if let Some(first) = refused.first() {
        // Passes of one replay differ a little, so a rare ratio of two of them exceeds 100 %.
        let all: usize = launches.iter().map(|launch| launch.metrics.len()).sum();
        let is_rare = refused.len() * RARE < all;
        findings.push(Id::NcuValuesLeftOut.graded(
            if is_rare { Severity::Note } else { Severity::Warning },
            format!(
                "ncu: {} left out, e.g. {first}",
                match refused.len() {
                    1 => "1 impossible value was".to_owned(),
                    several => format!("{several} impossible values were"),
                }
            ),
            "counters of a launch that was preempted, or of a damaged report",
            "profile the kernel again",
        ));
    }
    kernels
}

fn mean(launches: &[&Launch]) -> BTreeMap<String, Quantity> {
    let mut sums: BTreeMap<&str, (f64, f64, &str)> = BTreeMap::new();
    for launch in launches {
        for (name, quantity) in &launch.metrics {
            let (sum, count, unit) = sums.entry(name).or_insert((0.0, 0.0, quantity.unit.as_str()));
            // Two files can name a metric alike and measure it in other units: the first counts.
            if *unit == quantity.unit {
                *sum += quantity.value * launch.count() as f64;
                *count += launch.count() as f64;
            }
        }
    }
    let means = sums.into_iter().map(|(name, (sum, count, unit))| {
        (name.to_owned(), Quantity { value: sum / count, unit: unit.to_owned() })
    });
    means.filter(|(_, mean)| mean.value.is_finite()).collect()
}

fn counters(
    metrics: BTreeMap<String, Quantity>,
    key: &Key,
    refused: &mut Vec<String>,
) -> KernelCounters {
    let mut get = |names: &[&str], unit: &str, bounds: Bounds| {
        let (name, quantity) = names.iter().find_map(|name| Some((name, metrics.get(*name)?)))?;
        // A unit that is not the one asked for would be a number of something else.
        let good = quantity.unit == unit && bounds.contains(&quantity.value);
        if !good {
            let kernel = text::shorten(&key.kernel, 60);
            refused.push(format!("{name} = {} {} of {kernel}", quantity.value, quantity.unit));
        }
        good.then_some(quantity.value)
    };
    let duration_ns = get(DURATIONS, "ns", DURATION_NS);
    let read = get(&[DRAM_READ], "byte", COUNT);
    let written = get(&[DRAM_WRITTEN], "byte", COUNT);
    let both = get(&[DRAM_BOTH], "byte", COUNT);
    let rate = get(&[DRAM_RATE], "byte/s", COUNT);
    let mut percent = |names: &[&str], bounds| get(names, "%", bounds);
    let measured = CounterRow {
        sm_percent: percent(&[SM], PERCENT_OF_PEAK),
        memory_percent: percent(&[MEMORY], PERCENT_OF_PEAK),
        dram_percent: percent(DRAM, PERCENT_OF_PEAK),
        achieved_occupancy_percent: percent(&[OCCUPANCY], SHARE),
        l2_hit_percent: percent(&[L2_HITS], HITS),
        tensor_pipe_percent: percent(&[TENSOR_PIPE], PERCENT_OF_PEAK),
        flops: flops(&metrics),
        ..CounterRow::default()
    };
    KernelCounters {
        duration_ns,
        dram_bytes: (read.zip(written).map(|(read, written)| read + written))
            .or(both)
            .or_else(|| Some(rate? * duration_ns? / 1e9)),
        dram_read_bytes: read,
        measured,
        ..KernelCounters::default()
    }
}

/// Counts the operations of one launch.
///
/// Operations of the ordinary pipes come from executed instructions of threads, predicated off ones
/// left out: an add or a multiplication is one operation, a fused multiply-add two. Half precision
/// is executed two at a time, also where a program uses one of them, so that it counts twice as
/// much; this is ncu's own convention. Operations of the tensor cores are counted by the hardware
/// for each type of their inputs.
pub(in crate::ncu) fn flops(metrics: &BTreeMap<String, Quantity>) -> Flops {
    let (tensor, tensor_integer) =
        tensor(metrics).into_iter().partition(|(source, _)| !source.starts_with("int"));
    Flops {
        fp64: plain(metrics, 'd', 1.0),
        fp32: plain(metrics, 'f', 1.0),
        fp16: plain(metrics, 'h', 2.0),
        tensor,
        tensor_integer,
    }
}

/// Operations of one precision. All three kinds have to be there: a part is not a total.
fn plain(metrics: &BTreeMap<String, Quantity>, precision: char, lanes: f64) -> Option<f64> {
    let mut total = 0.0;
    for (operation, weight) in [("add", 1.0), ("mul", 1.0), ("fma", 2.0)] {
        total += weight * lanes * instructions(metrics, &format!("{precision}{operation}"))?;
    }
    // Packed single precision, two operands at a time: sm_100 and later only.
    for (operation, weight) in [("add2", 2.0), ("mul2", 2.0), ("fma2", 4.0)] {
        total += weight * instructions(metrics, &format!("{precision}{operation}")).unwrap_or(0.0);
    }
    Some(total)
}

/// Executed instructions of threads; from the rate and the cycles where a set gives only those.
fn instructions(metrics: &BTreeMap<String, Quantity>, operation: &str) -> Option<f64> {
    ["smsp", "sm"].into_iter().find_map(|unit| {
        let name = format!("{unit}__sass_thread_inst_executed_op_{operation}_pred_on.sum");
        let value = |name: &str| metrics.get(name).map(|quantity| quantity.value);
        value(&name).or_else(|| {
            let rate = value(&format!("{name}.per_cycle_elapsed"))?;
            // The rate is over the mean of the units' cycles, not over the longest.
            let cycles = value(&format!("{unit}__cycles_elapsed.avg"))?;
            Some(rate * cycles)
        })
    })
}

/// A counter of tensor operations, by what its name states: `op_hgmma_src_bf16_dst_fp32_sparsity_off`.
struct Counter<'a> {
    /// Empty: over all instructions.
    instruction: &'a str,
    source: &'a str,
    destination: Option<&'a str>,
    sparsity: Option<&'a str>,
    value: f64,
}

impl<'a> Counter<'a> {
    fn of(name: &'a str, value: f64) -> Option<Self> {
        let of_two = |(front, behind)| (front, Some(behind));
        let (instruction, rest) = name.split_once("src_")?;
        let (rest, sparsity) = rest.split_once("_sparsity_").map_or((rest, None), of_two);
        let (source, destination) = rest.split_once("_dst_").map_or((rest, None), of_two);
        (!source.is_empty()).then_some(Counter {
            instruction,
            source,
            destination,
            sparsity,
            value,
        })
    }

    /// Whether this counter is a part of what `other` counts.
    fn is_within(&self, other: &Counter<'_>) -> bool {
        other.source == self.source
            && (other.destination.is_none() || other.destination == self.destination)
            && (other.sparsity.is_none() || other.sparsity == self.sparsity)
            && (other.destination != self.destination || other.sparsity != self.sparsity)
    }
}

/// Operations of the tensor cores by source type, each counted once: a counter over all destinations,
/// or over all kinds of sparsity, includes the narrower counters next to it, so we leave those out.
/// Different sources are different instructions, also `fp4` and `fp4_fp6_fp8` of sm_100.
fn tensor(metrics: &BTreeMap<String, Quantity>) -> BTreeMap<String, f64> {
    const PREFIX: &str = "sm__ops_path_tensor_";
    let named = metrics
        .range(PREFIX.to_owned()..)
        .map_while(|(name, quantity)| Some((name.strip_prefix(PREFIX)?, quantity.value)));
    let counters = named.filter_map(|(name, value)| {
        // `_realtime` is a second way to sample the same counter.
        let name = name.strip_suffix(".sum").filter(|name| !name.ends_with("_realtime"))?;
        Counter::of(name, value)
    });
    let (over_all, of_one): (Vec<_>, Vec<_>) =
        counters.partition(|counter| counter.instruction.is_empty());
    // Counters of single instructions do not overlap each other.
    let counted: Vec<&Counter<'_>> = if over_all.is_empty() {
        of_one.iter().collect()
    } else {
        over_all.iter().filter(|one| !over_all.iter().any(|other| one.is_within(other))).collect()
    };
    let mut totals = BTreeMap::new();
    for counter in counted {
        *totals.entry(counter.source.to_owned()).or_insert(0.0) += counter.value;
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(list: &[(&str, f64)]) -> BTreeMap<String, Quantity> {
        let quantity = |value| Quantity { value, unit: String::new() };
        list.iter().map(|(name, value)| ((*name).to_owned(), quantity(*value))).collect()
    }

    #[test]
    fn fused_operations_count_twice_and_half_precision_by_two() {
        let names = |p: char| {
            ["add", "mul", "fma"]
                .map(|op| format!("smsp__sass_thread_inst_executed_op_{p}{op}_pred_on.sum"))
        };
        let mut list = Vec::new();
        for precision in ['d', 'f', 'h'] {
            list.extend(names(precision).into_iter().zip([3.0, 5.0, 7.0]));
        }
        let list: Vec<(&str, f64)> =
            list.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let flops = super::flops(&metrics(&list));
        assert_eq!((flops.fp64, flops.fp32, flops.fp16), (Some(22.0), Some(22.0), Some(44.0)));
        assert_eq!((flops.total(), flops.tensor.is_empty()), (Some(88.0), true));
    }

    #[test]
    fn a_part_is_no_total_and_absent_is_not_zero() {
        let one = [("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", 7.0)];
        assert_eq!(super::flops(&metrics(&one)), Flops::default());
        assert_eq!(Flops::default().total(), None);
    }

    #[test]
    fn tensor_operations_are_not_counted_twice() {
        let flops = super::flops(&metrics(&[
            ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 100.0),
            ("sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum", 90.0),
            ("sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_on.sum", 10.0),
            ("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum", 90.0),
            ("sm__ops_path_tensor_src_fp16.sum", 7.0),
            ("sm__ops_path_tensor_src_fp16_dst_fp32.sum", 4.0),
            ("sm__ops_path_tensor_src_fp16_dst_fp16.sum", 3.0),
            ("sm__ops_path_tensor_src_fp8_sparsity_off.sum", 5.0),
            ("sm__ops_path_tensor_src_fp8_sparsity_on.sum", 1.0),
            ("sm__ops_path_tensor_src_int8.sum", 1000.0),
            ("sm__ops_path_tensor_src_int8.sum.per_second", 1e9),
        ]));
        let expected = [("bf16", 100.0), ("fp16", 7.0), ("fp8", 6.0)];
        assert_eq!(flops.tensor, expected.map(|(k, v)| (k.to_owned(), v)).into());
        assert_eq!(flops.tensor_integer, [("int8".to_owned(), 1000.0)].into());
        assert_eq!(flops.total(), Some(113.0));
    }

    #[test]
    fn destinations_are_added_where_nothing_covers_them() {
        let flops = super::flops(&metrics(&[
            ("sm__ops_path_tensor_src_fp16_dst_fp32.sum", 4.0),
            ("sm__ops_path_tensor_src_fp16_dst_fp16.sum", 3.0),
        ]));
        assert_eq!(flops.tensor, [("fp16".to_owned(), 7.0)].into());
        let only = super::flops(&metrics(&[
            ("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum", 90.0),
            ("sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_off.sum", 10.0),
        ]));
        assert_eq!(only.tensor, [("bf16".to_owned(), 100.0)].into());
    }
}
