//! The launches of a report -> one set of counters for each kernel, grid, block, device and stage.
//!
//! Several launches of the same, as several processes give, become their mean. What was not
//! measured is absent; a value that cannot be is told and then absent.

use std::collections::{BTreeMap, BTreeSet};

use crate::ncu::nvtx::Label;
use stage2_model::{Finding, Flops, Severity};
use stage2_text as text;

use super::flops::flops;
use super::launch::{Launch, Quantity};
use super::rules::Rule;

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
    /// Launches that were profiled.
    pub launches: u64,
    /// Processes that they were in.
    pub processes: BTreeSet<u64>,
    /// Duration under ncu, nanoseconds: at other clocks and with cold caches. Only a check.
    pub duration_ns: Option<f64>,
    /// Throughput of the multiprocessors, % of peak.
    pub sm_percent: Option<f64>,
    /// Throughput of caches and memory, whichever is busiest, % of peak.
    pub memory_percent: Option<f64>,
    /// Throughput of the device's memory, % of peak.
    pub dram_percent: Option<f64>,
    /// Warps that were active, % of those that fit.
    pub achieved_occupancy_percent: Option<f64>,
    /// Warps that the configuration allows, % of those that fit.
    pub theoretical_occupancy_percent: Option<f64>,
    /// Bytes read from the device's memory.
    pub dram_read_bytes: Option<f64>,
    /// Bytes written to it.
    pub dram_written_bytes: Option<f64>,
    /// Both; where only the rate was measured, that times the duration under ncu.
    pub dram_bytes: Option<f64>,
    /// Hits of the L2 cache, % of sectors.
    pub l2_hit_percent: Option<f64>,
    /// Hits of the L1 cache, % of sectors.
    pub l1_hit_percent: Option<f64>,
    /// Cycles in which the tensor cores worked, % of elapsed.
    pub tensor_pipe_percent: Option<f64>,
    /// Registers of each thread.
    pub registers_per_thread: Option<f64>,
    /// Shared memory of each block, bytes.
    pub shared_bytes_per_block: Option<f64>,
    /// Blocks over those that run at once.
    pub waves_per_sm: Option<f64>,
    /// Passes that the metrics took.
    pub passes: Option<f64>,
    /// Operations by type.
    pub flops: Flops,
    /// All metrics by name.
    pub metrics: BTreeMap<String, Quantity>,
    /// What the rules of ncu say, each once.
    pub rules: Vec<Rule>,
}

/// Values beyond these cannot be.
struct Bounds {
    low: f64,
    high: f64,
}

/// A rate in % of peak: elapsed cycles of different units do not quite agree.
const PERCENT_OF_PEAK: Bounds = Bounds { low: 0.0, high: 110.0 };
/// A share in %.
const SHARE: Bounds = Bounds { low: 0.0, high: 101.0 };
/// Hits and requests can be counted in different passes: 101.45 % was seen on a small kernel.
const HITS: Bounds = Bounds { low: 0.0, high: 110.0 };
/// A duration: 0 is none, and no kernel runs for a day.
const DURATION_NS: Bounds = Bounds { low: 1.0, high: 86_400e9 };
/// Bytes, operations and the like: no counter holds more than 2^64.
const COUNT: Bounds = Bounds { low: 0.0, high: 1.9e19 };

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
            kernel.launches = launches.len() as u64;
            kernel.processes = launches.iter().map(|launch| launch.process_id).collect();
            for launch in launches {
                for rule in &launch.rules {
                    if !kernel.rules.contains(rule) {
                        kernel.rules.push(rule.clone());
                    }
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
                *sum += quantity.value;
                *count += 1.0;
            }
        }
    }
    sums.into_iter()
        .map(|(name, (sum, count, unit))| {
            (name.to_owned(), Quantity { value: sum / count, unit: unit.to_owned() })
        })
        .collect()
}

fn counters(
    metrics: BTreeMap<String, Quantity>,
    key: &Key,
    refused: &mut Vec<String>,
) -> KernelCounters {
    let mut get = |names: &[&str], unit: &str, bounds: Bounds| {
        let (name, quantity) = names.iter().find_map(|name| Some((name, metrics.get(*name)?)))?;
        // A unit that is not the one asked for would be a number of something else.
        let good = (quantity.unit == unit || unit == ANY)
            && (bounds.low..=bounds.high).contains(&quantity.value);
        if !good {
            let kernel = text::shorten(&key.kernel, 60);
            refused.push(format!("{name} = {} {} of {kernel}", quantity.value, quantity.unit));
        }
        good.then_some(quantity.value)
    };
    let duration_ns = get(&["gpu__time_duration.sum", "gpu__time_duration.avg"], "ns", DURATION_NS);
    let read = get(&["dram__bytes_read.sum"], "byte", COUNT);
    let written = get(&["dram__bytes_write.sum"], "byte", COUNT);
    let both = get(&["dram__bytes.sum"], "byte", COUNT);
    let rate = get(&["dram__bytes.sum.per_second"], "byte/s", COUNT);
    KernelCounters {
        duration_ns,
        sm_percent: get(
            &["sm__throughput.avg.pct_of_peak_sustained_elapsed"],
            "%",
            PERCENT_OF_PEAK,
        ),
        memory_percent: get(
            &["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"],
            "%",
            PERCENT_OF_PEAK,
        ),
        dram_percent: get(
            &[
                "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            ],
            "%",
            PERCENT_OF_PEAK,
        ),
        achieved_occupancy_percent: get(
            &["sm__warps_active.avg.pct_of_peak_sustained_active"],
            "%",
            SHARE,
        ),
        theoretical_occupancy_percent: get(&["sm__maximum_warps_per_active_cycle_pct"], "%", SHARE),
        dram_read_bytes: read,
        dram_written_bytes: written,
        dram_bytes: (read.zip(written).map(|(read, written)| read + written))
            .or(both)
            .or_else(|| Some(rate? * duration_ns? / 1e9)),
        l2_hit_percent: get(&["lts__t_sector_hit_rate.pct"], "%", HITS),
        l1_hit_percent: get(&["l1tex__t_sector_hit_rate.pct"], "%", HITS),
        tensor_pipe_percent: get(
            &["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"],
            "%",
            PERCENT_OF_PEAK,
        ),
        registers_per_thread: get(&["launch__registers_per_thread"], "register/thread", COUNT),
        shared_bytes_per_block: get(&["launch__shared_mem_per_block"], "byte/block", COUNT),
        waves_per_sm: get(&["launch__waves_per_multiprocessor"], ANY, COUNT),
        passes: get(&["profiler__replayer_passes"], ANY, COUNT),
        flops: flops(&metrics),
        metrics,
        ..KernelCounters::default()
    }
}

/// Whatever unit: the metric is a plain number, whose unit changes its name between versions.
const ANY: &str = "any";
