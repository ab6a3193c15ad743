//! Kernel rows -> `kernels.md`: the longest ones of each stage, and what share of the time the rest has; and
//! `kernels.csv`: every row, names in full, integers in nanoseconds.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use stage2_contract::text::numbers::{count, counted, ms3, ms6, percent1, shown_time};
use stage2_contract::text::{KernelName, code, csv_field, plain};
use stage2_model::kernels::{Kernel, stage_kernels};
use stage2_model::{CounterRow, KernelRow, Launch, Origin, Report, SampledAmount, SampledKernel};

use crate::facts::brief_screen;
use crate::table::Table;

/// The page, with at most `top` rows.
pub(super) fn kernels_md(report: &Report, top: usize) -> String {
    let kernels = stage_kernels(report);
    let (shown, rest) = kernels.split_at(top.min(kernels.len()));
    let mut out = format!("# Kernels\n\n{}", brief_screen(report));
    out.push_str(&rows_line(shown, rest));
    // Programs read the nine columns; the first five are those of the system before.
    let table = Table::new(shown)
        .with_every_column()
        .left("kernel_name", |kernel| code(&kernel.row.kernel))
        .right("total_ms", |kernel| kernel.usual_ns.map(ms3))
        .right("calls", |kernel| kernel.usual_calls.to_string())
        .right("mean_ms", |kernel| kernel.usual_mean_ns().map(ms6))
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
         without the cold first instances where there are others. `share` is the row's part of the sum of the stage's \
         kernel durations; overlapping kernels count each. `bound` follows from ncu's counters of the longest \
         launch configuration that has some; with (one launch) it holds for the profiled launch only, and with \
         (sampled) it follows from counters that were sampled while the workload ran.",
    );
    out.push_str(&notes(report));
    out.push_str(
        " Names are demangled and shortened (`#1` and `#2` distinguish kernels with the same short name). kernels.csv has the cold instances too, full names, range paths, launch configurations, percentiles, counters \
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
    const ORDER: &str = "kernels of stages first, then those of warm-ups and of work outside of stages, each \
        by total_ms";
    let all = count((shown.len() + rest.len()) as u64);
    if rest.is_empty() {
        return format!("Rows: all {all}; {ORDER}.\n\n");
    }
    let sum = |kernels: &[Kernel<'_>]| {
        kernels.iter().filter_map(|kernel| kernel.usual_ns).fold(0, u64::saturating_add)
    };
    let (left_ns, shown_ns) = (sum(rest), sum(shown));
    let all_ns = left_ns.saturating_add(shown_ns);
    let share = if all_ns > 0 { left_ns as f64 * 100.0 / all_ns as f64 } else { 0.0 };
    let calls = rest.iter().fold(0u64, |sum, kernel| sum.saturating_add(kernel.usual_calls));
    format!(
        "Rows: {} of {all}; {ORDER}. Left out: {} with {} calls, {}, {} % of the sum of all \
         kernels' durations; kernels.csv has every kernel.\n\n",
        count(shown.len() as u64),
        counted(rest.len() as u64, "row"),
        count(calls),
        shown_time(left_ns as f64),
        percent1(share),
    )
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
