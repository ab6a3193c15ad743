//! Samples are of the whole GPU -> why the numbers of a GPU cannot be those of our work, and what a
//! reader should know of the samples.

use super::attribute::percent;
use super::metric::Metric;
use super::read::Held;
use super::store::Series;
use stage2_contract::text::numbers::{count, counted, ms3};
use stage2_model::{Finding, SampledCounters, SampledDevice};

/// DRAM traffic of an idle GPU, in percent of its peak, above which somebody else uses it: without work
/// it is some hundred bytes a sample.
const IDLE_PERCENT: f64 = 1.0;
/// DRAM traffic of an idle GPU, bytes/s, above which somebody else uses it, where its peak is not
/// known.
const IDLE_BYTES_PER_S: f64 = 10e9;
/// Traffic of an idle sample above this many times the lower quartile of the idle samples stands out.
const STANDS_OUT: f64 = 10.0;
/// Share of the idle samples that may be above both: work of ours without a record, and clocks that
/// are off by some samples.
const MOST_IDLE_PERCENT: f64 = 5.0;
/// Traffic of links above this part of that of DRAM belongs to a copy, most of which is one.
const PART_OF_COPY: f32 = 0.5;
/// Idle samples from which on they say something.
const FEW: usize = 20;

/// What samples without work of ours say.
pub(super) struct Idle {
    /// Mean DRAM traffic, bytes/s.
    pub(super) mean: Option<f64>,
    /// Why somebody else used the GPU.
    pub(super) foreign: Option<String>,
}

/// What of a process's GPU work has records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    All,
    /// All between the first and the last of it: a window of a process that runs on.
    Between,
    Parts,
}

/// `recorded`: which samples without recorded work are without work.
pub(super) fn idle(series: &Series, held: &Held, peak: Option<f64>, recorded: Recorded) -> Idle {
    let column = |wanted| series.metrics.iter().position(|metric| *metric == wanted);
    let columns = [column(Metric::DramRead), column(Metric::DramWrite)];
    // What comes over a link is of a copy that another GPU, or the host, has the record of.
    let links = [Metric::NvlinkReceived, Metric::NvlinkSent, Metric::PcieRead, Metric::PcieWrite];
    let links = links.map(column);
    let least = peak.map_or(IDLE_BYTES_PER_S, |peak| peak * IDLE_PERCENT / 100.0);
    let mut rates: Vec<f64> = Vec::new();
    if recorded != Recorded::Parts {
        let works = |at: usize| held.work.get(at).copied().unwrap_or(false);
        let between = held.work.iter().position(|works| *works).unwrap_or(0)
            ..held.work.iter().rposition(|works| *works).unwrap_or(0);
        for (at, (start, end)) in series.spans.iter().enumerate() {
            if recorded == Recorded::Between && !between.contains(&at) {
                continue;
            }
            // Write-backs follow work, and clocks are off by a little: neighbours count as work.
            if (at.saturating_sub(1)..=at + 1).any(works) {
                continue;
            }
            let values = series.sample(at);
            let sum = |of: &[Option<usize>]| -> f32 {
                of.iter().flatten().filter_map(|at| values.get(*at)).sum()
            };
            let bytes = sum(&columns);
            let rate = f64::from(bytes) / (end - start) as f64 * 1e9;
            let is_copy = rate > least && sum(&links) > bytes * PART_OF_COPY;
            if columns.iter().any(Option::is_some) && !rate.is_nan() && !is_copy {
                rates.push(rate);
            }
        }
    }
    if rates.is_empty() {
        return Idle { mean: None, foreign: None };
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    rates.sort_by(f64::total_cmp);
    let quartile = rates.get(rates.len() / 4).copied().unwrap_or(0.0);
    // A neighbour that never rests lifts the quartile itself.
    let threshold = if quartile > least { least } else { least.max(quartile * STANDS_OUT) };
    let above = rates.len() - rates.partition_point(|rate| *rate <= threshold);
    let share = percent(above as u64, rates.len() as u64);
    let foreign = (rates.len() >= FEW && share > MOST_IDLE_PERCENT).then(|| {
        format!(
            "in {share:.0} % of the samples in which none of the recorded work ran, DRAM moved more \
             than {:.1} GB/s: another process used the GPU, or work of this one has no record; run \
             alone on the GPU, with all work recorded",
            threshold / 1e9
        )
    });
    Idle { mean: Some(mean), foreign }
}

/// What a reader should know of the samples.
pub(super) fn findings(found: &SampledCounters) -> Vec<Finding> {
    found.devices.iter().flat_map(of_device).collect()
}

fn of_device(device: &SampledDevice) -> Vec<Finding> {
    let of = match &device.device {
        Some(name) => format!("GPU {name} in {}", device.file),
        None => device.file.clone(),
    };
    let mut findings = Vec::new();
    if let Some(why) = &device.omitted {
        let (why, remedy) = why.rsplit_once("; ").unwrap_or((why, "see docs/counters.md"));
        findings.push(Finding::new(
            stage2_model::Severity::Note,
            format!("no sampled counters of {of}"),
            why,
            remedy,
        ));
    }
    if device.samples == 0
        && let Some(unrecorded) = device.samples_unrecorded.filter(|samples| *samples > 0)
    {
        findings.push(Finding::warning(
            format!("no counter sample of {of} is of recorded work only"),
            format!(
                "only parts of the run were recorded, and no sample lies wholly within one of them \
                 ({}): what else ran during a sample has no record",
                counted(unrecorded, "sample")
            ),
            "record longer ranges (profiling.collector.ranges), or take shorter samples: \
             STAGE2_COUNTERS=on@INTERVAL_US",
        ));
    }
    if device.samples_left_out > 0 {
        findings.push(Finding::warning(
            format!("{} counter samples of {of} are left out", count(device.samples_left_out)),
            "a report keeps 16 million values of a trace file; stages that ran later have no samples",
            "sample less often, or fewer metrics: STAGE2_COUNTERS=METRIC,...@INTERVAL_US",
        ));
    }
    if let Some(overflows) = device.overflows {
        let lost = device.lost_ns.map_or_else(String::new, |ns| format!(" ({} ms)", ms3(ns)));
        findings.push(Finding::warning(
            format!("the samples of {of} have {}{lost}", counted(overflows, "gap")),
            "the buffer of the hardware was full; what ran in the gaps is not covered",
            "sample less often, or fewer metrics: STAGE2_COUNTERS=METRIC,...@INTERVAL_US",
        ));
    }
    if let Some(lost) = device.samples_lost {
        findings.push(Finding::warning(
            format!("{} of {of} were lost", counted(lost, "counter sample")),
            "the collector did not write them as fast as it took them: its thread got too little CPU time, \
             or the disk is slow; what ran meanwhile is not covered",
            "leave a core to the collector, or sample less often: STAGE2_COUNTERS=on@INTERVAL_US",
        ));
    }
    let unusable = device.unusable_samples.saturating_add(device.unusable_values);
    if unusable > 0 {
        findings.push(Finding::warning(
            format!(
                "{} counter samples and {} values of {of} cannot be used",
                count(device.unusable_samples),
                count(device.unusable_values)
            ),
            "they have no length, lie on top of others, are not as many as their set says, or are no \
             amounts: the file is damaged, or not the collector's",
            "run again",
        ));
    }
    findings
}
