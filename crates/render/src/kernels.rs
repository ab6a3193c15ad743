//! Kernel rows -> `kernels.md`: the longest ones of each stage, and what share of the time the rest has; and
//! `kernels.csv`: every row, names in full, integers in nanoseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::io::Write;

use stage2_contract::text::numbers::{count, counted, ms3, ms6, percent1};
use stage2_contract::text::{KernelName, code, csv_field, listed, plain};
use stage2_model::{
    CounterRow, KernelRow, Launch, Origin, Report, SampledAmount, SampledKernel, Times,
};
use stage2_read::trace::stats::mean;
use stage2_report::conclusions::counted::Counted;

use crate::page::{first_screen, model_stages};
use crate::table::Table;

/// The page, with at most `top` rows.
pub(super) fn kernels_md(report: &Report, top: usize) -> String {
    let kernels = stage_kernels(report);
    let (shown, rest) = kernels.split_at(top.min(kernels.len()));
    let mut out = format!("# Kernels\n\n{}", first_screen(report));
    out.push_str(&rows_line(shown, rest));
    // Programs read the nine columns; the first five are those of the system before.
    let table = Table::new(shown)
        .with_every_column()
        .left("kernel_name", |kernel| code(&kernel.row.kernel))
        .right("total_ms", |kernel| kernel.total_ns.map(ms3))
        .right("calls", |kernel| kernel.calls.to_string())
        .right("mean_ms", |kernel| kernel.mean_ns.map(ms6))
        .left("device", |kernel| plain(&kernel.device()))
        .left("stage", |kernel| code(&kernel.row.stage))
        .right("share", |kernel| kernel.percent.map(|share| format!("{} %", percent1(share))))
        .left("class", |kernel| plain(&kernel.row.class))
        .left("bound", Kernel::bound);
    if !shown.is_empty() {
        out.push_str(&table.markdown());
    }
    out.push_str(match report.source.as_str() {
        "nsys" => "Times are those of nsys.",
        "ncu" => "Times are those of ncu: of profiled launches, not undisturbed.",
        _ => "Times are the collector's, undisturbed.",
    });
    out.push_str(
        " Each row is a kernel in a stage, over all range paths, launch configurations and instances, \
         the cold first ones included. `share` is the row's part of the sum of the stage's kernel \
         durations; overlapping kernels count each. `bound` follows from ncu's counters of the longest \
         launch configuration that has some; with (one launch) it holds for the profiled launch only, and with \
         (sampled) it follows from counters that were sampled while the workload ran.",
    );
    out.push_str(&notes(report));
    out.push_str(
        " Names are demangled and shortened (`#1`, `#2` tell apart kernels whose short names are the \
         same). kernels.csv has full names, range paths, launch configurations, percentiles, counters \
         and sources; report.md explains the terms.\n",
    );
    out
}

/// What the numbers are not, where that is so.
fn notes(report: &Report) -> String {
    let mut out = String::new();
    if report.kernels.iter().any(|row| row.times.recorded_calls.is_some()) {
        out.push_str(" Calls and totals are scaled from the recorded instances to all.");
    }
    let untimed = report.kernels.iter().map(|row| row.times.invalid_timestamp_calls);
    let untimed = untimed.fold(0, u64::saturating_add);
    if untimed > 0 {
        let calls = counted(untimed, "call");
        let has = if untimed == 1 { "has" } else { "have" };
        out.push_str(&format!(
            " {calls} {has} no valid timestamps: `calls` counts them, the times leave them out, and \
             shares are of those with a time."
        ));
    }
    out
}

fn rows_line(shown: &[Kernel<'_>], rest: &[Kernel<'_>]) -> String {
    const ORDER: &str = "kernels of stages first, then those of warm-ups and of work outside of \
        stages; the longest total first";
    let all = count((shown.len() + rest.len()) as u64);
    if rest.is_empty() {
        return format!("Rows: all {all}; {ORDER}.\n\n");
    }
    let sum = |kernels: &[Kernel<'_>]| {
        kernels.iter().filter_map(|kernel| kernel.total_ns).fold(0, u64::saturating_add)
    };
    let (left_ns, shown_ns) = (sum(rest), sum(shown));
    let all_ns = left_ns.saturating_add(shown_ns);
    let share = if all_ns > 0 { left_ns as f64 * 100.0 / all_ns as f64 } else { 0.0 };
    let calls = rest.iter().fold(0u64, |sum, kernel| sum.saturating_add(kernel.calls));
    format!(
        "Rows: {} of {all}; {ORDER}. Left out: {} with {} calls, {} ms, {} % of the sum of all \
         kernels' durations; kernels.csv has every kernel.\n\n",
        count(shown.len() as u64),
        counted(rest.len() as u64, "row"),
        count(calls),
        ms3(left_ns),
        percent1(share),
    )
}

/// Rows that are one kernel together.
#[derive(Clone, Debug)]
pub(crate) struct Kernel<'r> {
    /// One of its rows, for the names.
    pub(crate) row: &'r KernelRow,
    /// None: no call was timed.
    pub(crate) total_ns: Option<u64>,
    pub(crate) calls: u64,
    pub(crate) mean_ns: Option<u64>,
    /// GPUs that it ran on.
    devices: BTreeSet<&'r str>,
    /// Share of the sum of the durations of all kernels of the stage, or of the run.
    pub(crate) percent: Option<f64>,
    /// Those of the longest launch configuration that has some.
    pub(crate) counters: Option<&'r CounterRow>,
}

impl Kernel<'_> {
    /// The GPUs that it ran on.
    pub(crate) fn devices(&self) -> Vec<&str> {
        self.devices.iter().copied().collect()
    }

    /// `0 NVIDIA H200`, or `0 NVIDIA H200 and 7 more`.
    pub(crate) fn device(&self) -> String {
        listed(&self.devices.iter().collect::<Vec<_>>(), 1)
    }

    /// Share of the rate that the hardware allows at its operations per byte, from 0 to 1: by ncu, or by the
    /// larger share of a peak of sampled counters.
    pub(crate) fn attainable(&self) -> Option<f64> {
        let share = match self.counters {
            Some(counters) => counters.roofline.attainable_share,
            None => {
                let sampled = self.row.sampled.as_ref()?;
                let percent = sampled.dram_percent.zip(sampled.tensor_percent);
                percent.map(|(dram, tensor)| dram.max(tensor) / 100.0)
            }
        };
        share.filter(|share| share.is_finite()).map(|share| share.clamp(0.0, 1.0))
    }

    /// What holds it up, by its counters, or that none are known.
    fn bound(&self) -> String {
        self.known_bound().unwrap_or_else(|| "not profiled".to_owned())
    }

    /// What holds the kernel up, by its counters; `None` where neither ncu nor samples know it.
    pub(crate) fn known_bound(&self) -> Option<String> {
        let Some(counters) = self.counters else {
            return Some(format!("{} (sampled)", self.row.sampled.as_ref()?.bound?.label()));
        };
        let bound = counters.roofline.bound.map_or("not known", |bound| bound.label());
        let launch = if counters.one_launch.is_some() { " (one launch)" } else { "" };
        Some(format!("{bound}{launch}"))
    }
}

/// The kernels of the stages: those of the model's stages first, then those of warm-ups and of work outside
/// of stages; in both the longest total first.
pub(crate) fn stage_kernels(report: &Report) -> Vec<Kernel<'_>> {
    let totals = stage_totals(report);
    let of_stage = |row: &KernelRow| totals.get(row.stage.as_str()).copied().unwrap_or(0);
    let mut kernels =
        top_kernels(report, usize::MAX, |row| (row.stage.as_str(), row.name_index), of_stage);
    let stages: BTreeSet<&str> = model_stages(report).map(|stage| stage.stage.as_str()).collect();
    kernels.sort_by_key(|kernel| !stages.contains(kernel.row.stage.as_str()));
    kernels
}

/// Sums of the durations of all kernels of each stage, ns.
pub(crate) fn stage_totals(report: &Report) -> HashMap<&str, u64> {
    let mut totals: HashMap<&str, u64> = HashMap::new();
    for row in &report.kernels {
        let total = totals.entry(&row.stage).or_default();
        *total = total.saturating_add(row.times.total_ns);
    }
    totals
}

/// The kernels with the longest total. Rows of the same `key` are one kernel; its share is of `all_ns`.
pub(crate) fn top_kernels<'r, K: Ord + Hash>(
    report: &'r Report,
    limit: usize,
    key: impl Fn(&'r KernelRow) -> K,
    all_ns: impl Fn(&'r KernelRow) -> u64,
) -> Vec<Kernel<'r>> {
    let mut sums: BTreeMap<K, (&KernelRow, Sum, BTreeSet<&str>)> = BTreeMap::new();
    for row in &report.kernels {
        let of_key = sums.entry(key(row));
        let (_, sum, devices) = of_key.or_insert_with(|| (row, Sum::default(), BTreeSet::new()));
        sum.add(&row.times);
        devices.insert(&row.device);
    }
    let mut sorted: Vec<_> = sums.into_iter().collect();
    sorted.sort_by_key(|(_, (_, sum, _))| Reverse(sum.total_ns()));
    let counted = Counted::new(report, key);
    let kernel = |(key, (row, sum, devices)): (K, (&'r KernelRow, Sum, _))| Kernel {
        row,
        total_ns: sum.total_ns(),
        calls: sum.calls,
        mean_ns: sum.mean_ns(),
        devices,
        percent: sum.percent(all_ns(row)),
        counters: counted.get(&key),
    };
    sorted.into_iter().take(limit).map(kernel).collect()
}

/// Times of several rows together.
#[derive(Clone, Copy, Default)]
struct Sum {
    total_ns: u64,
    calls: u64,
    timed: u64,
    /// Some of it is scaled from a sample.
    scaled: bool,
    /// Least and greatest mean of the rows, ns.
    means_ns: Option<(u64, u64)>,
}

impl Sum {
    fn add(&mut self, times: &Times) {
        let timed = times.calls.saturating_sub(times.invalid_timestamp_calls);
        self.total_ns = self.total_ns.saturating_add(times.total_ns);
        self.calls = self.calls.saturating_add(times.calls);
        self.timed = self.timed.saturating_add(timed);
        self.scaled |= times.recorded_calls.is_some();
        if let Some(mean) = times.mean_ns {
            let (least, greatest) = self.means_ns.unwrap_or((mean, mean));
            self.means_ns = Some((least.min(mean), greatest.max(mean)));
        }
    }

    /// Sum of the durations, ns; nothing where there are calls and none was timed.
    fn total_ns(&self) -> Option<u64> {
        (self.calls == 0 || self.timed > 0).then_some(self.total_ns)
    }

    fn percent(&self, all_ns: u64) -> Option<f64> {
        let total_ns = self.total_ns().filter(|_| all_ns > 0)?;
        Some(total_ns as f64 * 100.0 / all_ns as f64)
    }

    /// Total over calls, ns. Every sum of a sample is rounded by itself, which must not carry their
    /// quotient beyond the means of the rows.
    fn mean_ns(&self) -> Option<u64> {
        let mean = mean(self.total_ns, self.timed)?;
        let means = self.means_ns.filter(|_| self.scaled);
        Some(means.map_or(mean, |(least, greatest)| mean.clamp(least, greatest)))
    }
}

/// The kernels of a class together.
pub(crate) struct ClassSum<'r> {
    pub(crate) class: &'r str,
    /// None: no call was timed.
    pub(crate) total_ns: Option<u64>,
    pub(crate) calls: u64,
    /// Share of the sum over all classes.
    pub(crate) percent: Option<f64>,
}

/// The classes of these kernels, the longest first.
pub(crate) fn classes<'r>(rows: impl IntoIterator<Item = &'r KernelRow>) -> Vec<ClassSum<'r>> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    rows.into_iter().for_each(|row| sums.entry(&row.class).or_default().add(&row.times));
    let all_ns = sums.values().fold(0u64, |all, sum| all.saturating_add(sum.total_ns));
    let class = |(class, sum): (_, Sum)| ClassSum {
        class,
        total_ns: sum.total_ns(),
        calls: sum.calls,
        percent: sum.percent(all_ns),
    };
    let mut classes: Vec<ClassSum<'_>> = sums.into_iter().map(class).collect();
    classes.sort_by_key(|class| Reverse(class.total_ns));
    classes
}

struct Line<'r> {
    row: &'r KernelRow,
    name: Option<&'r KernelName>,
    host: &'r str,
    ranks: &'r str,
}

/// A name, and the field of a line below it.
type Column = (&'static str, fn(&Line<'_>) -> String);

const COLUMNS: [Column; 65] = [
    ("kernel_name", |l| csv_field(l.name.map_or("", |name| &name.demangled))),
    ("mangled_name", |l| csv_field(l.name.map_or("", |name| &name.mangled))),
    ("total_ns", |l| some(l.row.times.known_total_ns())),
    ("calls", |l| l.row.times.calls.to_string()),
    ("mean_ns", |l| some(l.row.times.mean_ns)),
    ("device", |l| csv_field(&l.row.device)),
    ("stage", |l| csv_field(&l.row.stage)),
    ("range_path", |l| csv_field(&l.row.path)),
    ("kernel_sum_percent", |l| some(l.row.kernel_sum_percent.map(|p| format!("{p:.6}")))),
    ("grid_x", |l| launch(l, |launch| Some(launch.grid[0]))),
    ("grid_y", |l| launch(l, |launch| Some(launch.grid[1]))),
    ("grid_z", |l| launch(l, |launch| Some(launch.grid[2]))),
    ("block_x", |l| launch(l, |launch| Some(launch.block[0]))),
    ("block_y", |l| launch(l, |launch| Some(launch.block[1]))),
    ("block_z", |l| launch(l, |launch| Some(launch.block[2]))),
    ("min_ns", |l| some(l.row.times.min_ns)),
    ("p50_ns", |l| some(l.row.times.p50_ns)),
    ("p99_ns", |l| some(l.row.times.p99_ns)),
    ("max_ns", |l| some(l.row.times.max_ns)),
    ("registers_per_thread", |l| launch(l, |launch| launch.registers_per_thread)),
    ("static_shared_bytes", |l| launch(l, |launch| launch.static_shared_bytes)),
    ("dynamic_shared_bytes", |l| launch(l, |launch| launch.dynamic_shared_bytes)),
    ("local_bytes_per_thread", |l| launch(l, |launch| launch.local_bytes_per_thread)),
    ("graph_calls", |l| l.row.times.graph_calls.to_string()),
    ("invalid_timestamp_calls", |l| l.row.times.invalid_timestamp_calls.to_string()),
    ("first_start_gpu_ns", |l| some(l.row.times.first_start_gpu_ns)),
    ("last_end_gpu_ns", |l| some(l.row.times.last_end_gpu_ns)),
    ("path_index", |l| l.row.path_index.to_string()),
    ("name_index", |l| l.row.name_index.to_string()),
    ("class", |l| csv_field(&l.row.class)),
    ("sm_percent", |l| counter(l, |c| c.sm_percent)),
    ("memory_percent", |l| counter(l, |c| c.memory_percent)),
    ("dram_percent", |l| counter(l, |c| c.dram_percent)),
    ("achieved_occupancy_percent", |l| counter(l, |c| c.achieved_occupancy_percent)),
    ("tensor_pipe_percent", |l| counter(l, |c| c.tensor_pipe_percent)),
    ("l2_hit_percent", |l| counter(l, |c| c.l2_hit_percent)),
    ("flops_per_launch", |l| counter(l, |c| c.roofline.flops)),
    ("tensor_flops_per_launch", |l| counter(l, |c| c.roofline.tensor_flops)),
    ("dram_bytes_per_launch", |l| counter(l, |c| c.roofline.dram_bytes)),
    ("dram_read_bytes_per_launch", |l| counter(l, |c| c.roofline.dram_read_bytes)),
    ("flops_per_s", |l| counter(l, |c| c.roofline.flops_per_s)),
    ("dram_bytes_per_s", |l| counter(l, |c| c.roofline.bytes_per_s)),
    ("flops_per_byte", |l| counter(l, |c| c.roofline.flops_per_byte)),
    ("attainable_percent", |l| counter(l, |c| c.roofline.attainable_share.map(|s| s * 100.0))),
    ("bound", |l| text(l, |c| c.roofline.bound.map(|bound| bound.label()))),
    ("recorded_calls", |l| some(l.row.times.recorded_calls)),
    ("source", |l| l.row.sources.times.label().to_owned()),
    ("counters_source", |l| some(l.row.sources.counters.map(Origin::label))),
    ("counters_stage", |l| text(l, |c| c.profiled_in.as_deref())),
    ("counters_of_one_launch", |l| text(l, |c| c.one_launch.as_deref())),
    ("host", |l| csv_field(l.host)),
    ("ranks", |l| l.ranks.to_owned()),
    // Of one call, by counters that were sampled while the workload ran.
    ("sampled_dram_read_bytes", |l| amount(l, |s| &s.dram_read_bytes, SampledAmount::value)),
    ("sampled_dram_read_bytes_low", |l| amount(l, |s| &s.dram_read_bytes, |a| ends(a, |e| e.0))),
    ("sampled_dram_read_bytes_high", |l| amount(l, |s| &s.dram_read_bytes, |a| ends(a, |e| e.1))),
    ("sampled_dram_write_bytes", |l| amount(l, |s| &s.dram_write_bytes, SampledAmount::value)),
    ("sampled_l2_bytes", |l| amount(l, |s| &s.l2_bytes, SampledAmount::value)),
    ("sampled_dram_percent", |l| sampled(l, |s| s.dram_percent)),
    ("sampled_tensor_pipe_percent", |l| sampled(l, |s| s.tensor_percent)),
    ("sampled_bound", |l| {
        let bound = l.row.sampled.as_deref().and_then(|sampled| sampled.bound);
        bound.map_or_else(String::new, |bound| bound.label().to_owned())
    }),
    ("sampled_dram_read_over_ncu", |l| sampled(l, |s| s.dram_read_over_ncu)),
    ("sampled_dram_read_none_because", |l| {
        let why = l.row.sampled.as_deref().and_then(|sampled| sampled.dram_read_bytes.absent());
        csv_field(&some(why))
    }),
    ("bound_source", |l| {
        let counted = l.row.counters.as_deref().is_some_and(|c| c.roofline.bound.is_some());
        let sampled = l.row.sampled.as_deref().is_some_and(|sampled| sampled.bound.is_some());
        match (counted, sampled) {
            (true, _) => "ncu".to_owned(),
            (false, true) => "sampled".to_owned(),
            (false, false) => String::new(),
        }
    }),
    ("simulated", |l| l.row.simulated.to_string()),
    ("kernel_id", |l| l.row.kernel_id.clone()),
];

/// Absent values are empty fields.
fn some(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn launch(line: &Line<'_>, value: fn(Launch) -> Option<u32>) -> String {
    some(line.row.launch.and_then(value))
}

fn counter(line: &Line<'_>, value: fn(&CounterRow) -> Option<f64>) -> String {
    some(line.row.counters.as_deref().and_then(value).map(|value| format!("{value:.4}")))
}

fn sampled(line: &Line<'_>, value: fn(&SampledKernel) -> Option<f64>) -> String {
    some(line.row.sampled.as_deref().and_then(value).map(|value| format!("{value:.4}")))
}

fn amount(
    line: &Line<'_>,
    of: fn(&SampledKernel) -> &SampledAmount,
    value: fn(&SampledAmount) -> Option<f64>,
) -> String {
    let value = line.row.sampled.as_deref().and_then(|sampled| value(of(sampled)));
    some(value.map(|value| format!("{value:.1}")))
}

/// An end of the 90 % interval. An amount that is at most something begins at zero.
fn ends(amount: &SampledAmount, end: fn((f64, f64)) -> f64) -> Option<f64> {
    match amount {
        SampledAmount::Known { low, high, .. } => Some(end((*low, *high))),
        SampledAmount::AtMost { limit } => Some(end((0.0, *limit))),
        SampledAmount::Absent(_) => None,
    }
}

fn text(line: &Line<'_>, value: fn(&CounterRow) -> Option<&str>) -> String {
    csv_field(line.row.counters.as_deref().and_then(value).unwrap_or_default())
}

/// Writes the table.
///
/// # Errors
/// What the sink says.
pub(crate) fn kernels_csv(report: &Report, sink: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS.map(|(name, _)| name))?;
    let hosts = report.devices.iter();
    let hosts = hosts.filter_map(|row| Some((row.device.as_str(), row.host.as_deref()?)));
    let hosts: HashMap<&str, &str> = hosts.collect();
    let ranks = ranks_by_device(report);
    for row in &report.kernels {
        let device = row.device.as_str();
        let line = Line {
            row,
            name: report.kernel_names.get(row.name_index),
            host: hosts.get(device).copied().unwrap_or_default(),
            ranks: ranks.get(device).map_or("", String::as_str),
        };
        writer.write_record(COLUMNS.map(|(_, field)| field(&line)))?;
    }
    writer.flush()?;
    Ok(())
}

/// Ranks that used each GPU, as `0 1`.
fn ranks_by_device(report: &Report) -> HashMap<&str, String> {
    let mut ranks: HashMap<&str, BTreeSet<u64>> = HashMap::new();
    for process in report.processes.iter().filter(|process| !process.inherited_rank) {
        for device in &process.devices {
            ranks.entry(device).or_default().extend(process.rank);
        }
    }
    let joined =
        |ranks: BTreeSet<u64>| ranks.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    ranks.into_iter().map(|(device, ranks)| (device, joined(ranks))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{Bound, Roofline, StageRow};

    fn row(stage: &str, device: &str, total_ns: u64) -> KernelRow {
        KernelRow {
            stage: stage.into(),
            device: device.into(),
            times: Times { total_ns, calls: 2, mean_ns: Some(total_ns / 2), ..Times::default() },
            ..KernelRow::default()
        }
    }

    #[test]
    fn a_kernel_of_a_stage_has_one_row_over_paths_and_gpus() {
        let mut profiled = row("decode", "0 A", 300);
        profiled.counters = Some(Box::new(CounterRow {
            profiled_in: Some("decode".into()),
            roofline: Roofline { bound: Some(Bound::Memory), ..Roofline::default() },
            ..CounterRow::default()
        }));
        let other = KernelRow { name_index: 1, ..row("decode", "0 A", 600) };
        let warmup = row("warmup", "0 A", 9_000);
        let kernels = vec![warmup, row("decode", "1 A", 100), profiled, other];
        let stage = StageRow { stage: "decode".into(), ..StageRow::default() };
        let report = Report { kernels, stages: vec![stage], ..Report::default() };
        let shown = stage_kernels(&report);
        let facts = |k: &Kernel<'_>| (k.total_ns, k.calls, k.mean_ns, k.percent, k.bound());
        let facts: Vec<_> = shown.iter().map(|k| (k.row.stage.as_str(), facts(k))).collect();
        let not_profiled = || "not profiled".to_owned();
        let expected = [
            ("decode", (Some(600), 2, Some(300), Some(60.0), not_profiled())),
            ("decode", (Some(400), 4, Some(100), Some(40.0), "memory".to_owned())),
            ("warmup", (Some(9_000), 2, Some(4_500), Some(100.0), not_profiled())),
        ];
        assert_eq!(facts, expected, "the stages of the model come first");
        assert_eq!(shown[1].device(), "0 A and 1 more");
    }
}
