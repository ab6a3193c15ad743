//! The launches of a report -> one set of counters for each kernel, grid, block, device and stage.
//!
//! Several launches of the same, as several processes give, become their mean. What was not
//! measured is absent; a value that cannot be is told and then absent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::ncu::nvtx::Label;
use stage2_contract::text;
use stage2_model::{CounterRow, Finding, Severity};

use super::MAX_RULES;
use super::flops::flops;
use super::launch::{DURATION_NS, DURATIONS, Launch};
use super::quantity::Quantity;

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
    /// What a report shows of it, but for the numbers that need a row of the report.
    pub measured: CounterRow,
}

/// Metrics that a report shows.
const DRAM_READ: &str = "dram__bytes_read.sum";
const DRAM_WRITTEN: &str = "dram__bytes_write.sum";
const DRAM_BOTH: &str = "dram__bytes.sum";
const DRAM_RATE: &str = "dram__bytes.sum.per_second";
const SM: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
const MEMORY: &str = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed";
/// The better one first.
const DRAM: &[&str] = &[
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
];
const OCCUPANCY: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
const L2_HITS: &str = "lts__t_sector_hit_rate.pct";
const TENSOR_PIPE: &str = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";

/// Whether a report shows the metric, but for those that operations are counted from.
pub(super) fn is_shown(name: &str) -> bool {
    const SINGLE: [&str; 9] = [
        DRAM_READ,
        DRAM_WRITTEN,
        DRAM_BOTH,
        DRAM_RATE,
        SM,
        MEMORY,
        OCCUPANCY,
        L2_HITS,
        TENSOR_PIPE,
    ];
    SINGLE.iter().chain(DRAM).chain(DURATIONS).any(|known| *known == name)
}

/// Values beyond these cannot be.
type Bounds = RangeInclusive<f64>;
/// A rate in % of peak: elapsed cycles of different units do not quite agree.
const PERCENT_OF_PEAK: Bounds = 0.0..=110.0;
/// A share in %.
const SHARE: Bounds = 0.0..=101.0;
/// Hits and requests can be counted in different passes: 101.45 % was seen on a small kernel.
const HITS: Bounds = 0.0..=110.0;
/// Bytes, operations and the like: no counter holds more than 2^64.
const COUNT: Bounds = 0.0..=1.9e19;

/// What tells the kernel of a launch apart.
pub(super) fn key(launch: &Launch) -> Key {
    Key {
        kernel: launch.kernel.clone(),
        grid: launch.grid,
        block: launch.block,
        device: launch.device,
    }
}

/// Brings the launches together.
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
        findings.push(Finding::new(
            Severity::Warning,
            format!("ncu: {} values that cannot be were left out, e.g. {first}", refused.len()),
            "counters of a launch that was preempted, or of a damaged report",
            "profile the kernel again",
        ));
    }
    kernels
}

/// The mean of each metric over the launches that have it.
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
