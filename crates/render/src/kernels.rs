//! Kernel rows -> `kernels.md`: the longest ones of each stage, and what share of the time the rest has; and
//! `kernels.csv`: every row, names in full, integers in nanoseconds.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::{count, counted, ms3, ms6, percent1, shown_time};
use stage2_contract::text::{
    KernelName, code, code_in_text, csv_field, listed, plain, shorten_kernel,
};
use stage2_model::kernels::{
    Kernel, Loss, classes, model_stages, stage_kernels, stage_totals, steps, with_cold_calls,
};
use stage2_model::{CounterRow, KernelRow, Launch, Origin, Report, SampledAmount, SampledKernel};

use crate::facts::KERNEL_CHARS;
use crate::page::{head_of_tables, lead_first, lost_by_kernels, ms_of, run_line, step_is};
use crate::table::{Table, none, paragraph};

/// The page, with at most `top` rows.
pub(super) fn kernels_md(report: &Report, top: usize) -> String {
    let mut kernels = stage_kernels(report);
    let most = top.min(kernels.len());
    by_stage(report, kernels.get_mut(..most).unwrap_or_default());
    let (shown, rest) = kernels.split_at(most);
    let title = plain(&format!("Kernels of {}", report.run.name));
    let mut out = format!("# {title}\n\n{}{}", run_line(report, false), head_of_tables(report, ""));
    if shown.is_empty() && rest.is_empty() {
        return out + &none("no kernel was recorded", "");
    }
    let steps = steps(report);
    let losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &steps)).collect();
    let rows = losses.get(..shown.len()).unwrap_or_default();
    let is_profiled = shown.iter().any(|kernel| kernel.known_bound().is_some());
    out.push_str(&rows_line(report, shown, rest, rows.iter().any(|row| row.ns_per_step.is_some())));
    out.extend(lost_by_kernels(report, &losses).map(|said| paragraph(&said)));
    out.push_str(
        "A row is a kernel in a stage: all its launches, of warm calls only where there are any. ",
    );
    out.extend(with_cold_calls(report).map(|said| plain(&said) + " "));
    out.push_str(match report.source.as_str() {
        "nsys" => "Times are those of nsys.",
        "ncu" => "Times are those of ncu: of profiled launches, not undisturbed.",
        _ => "The collector took the times, undisturbed by other tools.",
    });
    out.push_str(&notes(report));
    if !is_profiled {
        out.push_str(" No bound is known, because none of these kernels has enough counters, from ncu or sampled.");
        out.push_str(TO_MEASURE);
    }
    out.push_str("\n\n");
    out.push_str(&columns(report, rows, is_profiled));
    let (gpus, names) = (Gpus::of(report), ShortNames::of(shown));
    for rows in rows.chunk_by(|a, b| a.kernel.row.stage == b.kernel.row.stage) {
        let Some(stage) = rows.first().map(|row| row.kernel.row.stage.as_str()) else { continue };
        out.push_str(&format!(
            "## {}\n\n{}",
            code_in_text(stage),
            of_stage(report, stage, &kernels, rows.len())
        ));
        // The first five columns, their names and formats are those of the system before, whose readers expect them
        // (docs/seeds.md, A20). The others are named alike, what the rows are sorted by in front.
        let table = Table::new(rows)
            .exact_names()
            .left("kernel_name", |row| code(names.of_kernel(&row.kernel.row.kernel)))
            .right("total_ms", |row| row.kernel.usual_ns.map(ms3))
            .right("calls", |row| row.kernel.usual_calls.to_string())
            .right("mean_ms", |row| row.kernel.usual_mean_ns().map(ms6))
            .left("device", |row| plain(&gpus.of_kernel(row.kernel)))
            .right("lost_ms_per_step", |row| row.ns_per_step.map(ms_of))
            .right("ms_per_step", |row| row.ns_of_step.map(ms_of))
            .right("share_%", |row| row.kernel.percent.map(percent1))
            .left("class", |row| plain(&row.kernel.row.class))
            .left("bound", |row| is_profiled.then(|| row.kernel.bound()))
            .right("attains_%", |row| row.attainable.map(|share| percent1(share * 100.0)))
            .left("kernel_id", |row| {
                let id = &row.kernel.row.kernel_id;
                (!id.is_empty()).then(|| code(id))
            });
        out.push_str(&table.markdown());
    }
    out.push_str(
        "kernels.csv contains full names, range paths, launch configurations, percentiles and cold calls.\n",
    );
    out
}

const COMMUNICATION: &str = "communication";

/// What shows the bounds of kernels.
pub(super) const TO_MEASURE: &str = " To measure what each one loses: stage2-launch run profiling.collector.counters=on -- COMMAND.";

/// Classes that the line above a stage's table names.
const CLASSES: usize = 5;

/// What the table of a stage has of its kernels, and the time of their classes, which the order of the rows can hide.
fn of_stage(report: &Report, stage: &str, kernels: &[Kernel<'_>], shown: usize) -> String {
    let all = kernels.iter().filter(|kernel| kernel.row.stage == stage).count();
    let rows = match shown == all {
        true => counted(all as u64, "kernel"),
        false => format!("{} of {}", count(shown as u64), counted(all as u64, "kernel")),
    };
    let classes = classes(report.kernels.iter().filter(|row| row.stage == stage));
    let all_ns = stage_totals(report).get(stage).copied().unwrap_or(0).max(1) as f64;
    let waiting = waiting_ns(report, stage) as f64 * 100.0 / all_ns;
    let shares = classes.iter().filter_map(|class| {
        let waits = match class.class == COMMUNICATION && waiting > 0.0 {
            true => format!(" ({} % waiting for other ranks)", percent1(waiting)),
            false => String::new(),
        };
        Some(format!("{} {} %{waits}", plain(class.class), percent1(class.percent?)))
    });
    match shares.collect::<Vec<_>>() {
        shares if shares.is_empty() => format!("{rows}.\n\n"),
        shares => format!("{rows}. Kernel time by class: {}.\n\n", listed(&shares, CLASSES)),
    }
}

/// Names of kernels as the other pages have them; whole where two would look the same.
struct ShortNames<'k>(HashMap<&'k str, String>);

impl<'k> ShortNames<'k> {
    fn of(kernels: &'k [Kernel<'_>]) -> Self {
        let names: BTreeSet<&str> =
            kernels.iter().map(|kernel| kernel.row.kernel.as_str()).into_set();
        let mut all: HashMap<String, usize> = HashMap::new();
        for name in &names {
            *all.entry(shorten_kernel(name, KERNEL_CHARS)).or_default() += 1;
        }
        let short = names.into_iter().map(|name| (name, shorten_kernel(name, KERNEL_CHARS)));
        Self(short.filter(|(_, short)| all.get(short) == Some(&1)).collect())
    }

    fn of_kernel<'n>(&'n self, name: &'n str) -> &'n str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

/// Puts the kernels of a stage together: those of the verdict's first, then the other stages in the order of the answer, and
/// the rest by the longest kernel.
fn by_stage(report: &Report, kernels: &mut [Kernel<'_>]) {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let stages = lead_first(report).map(|answer| answer.stage.as_str());
    for stage in stages.chain(kernels.iter().map(|kernel| kernel.row.stage.as_str())) {
        let next = places.len();
        places.entry(stage).or_insert(next);
    }
    // How long it takes, other ranks say, too.
    let waits = waiting_in_communication(report).is_some();
    let steps = steps(report);
    // As in the summary; the others keep their order, the longest first.
    kernels.order_by_key(|kernel| {
        let place = places.get(kernel.row.stage.as_str()).copied();
        (place, order_of(&Loss::of(kernel, &steps), waits))
    });
}

/// What the columns are whose names do not say it: a list in front of the table, which is long.
fn columns(report: &Report, losses: &[Loss<'_>], is_profiled: bool) -> String {
    const NAME: &str = "- `kernel_name`: demangled and shortened; `#1` and `#2` are different kernels with the same short \
         name.\n";
    const SHARE: &str = "- `share_%`: its part of the sum of the kernel durations of its stage.\n";
    const BOUND: &str = "- `bound`: from ncu's counters of the longest launch configuration that has some. (one launch): it \
         holds for the profiled launch only. (sampled): from counters that were sampled while the workload ran.\n";
    let mut out = [NAME, SHARE, if is_profiled { BOUND } else { "" }].concat();
    if losses.iter().any(|loss| loss.ns_of_step.is_some()) {
        let unit = step_is(report, plain).map_or_else(String::new, |said| format!(" {said}"));
        out.push_str(&format!("- `ms_per_step`: its time in a step (per-GPU average).{unit}\n"));
    }
    if losses.iter().any(|loss| loss.attainable.is_some()) {
        out.push_str(
            "- `attains_%`: the share of the rate that the hardware allows at the kernel's operations per byte.\n",
        );
    }
    if losses.iter().any(|loss| loss.ns_per_step.is_some()) {
        out.push_str(
            "- `lost_ms_per_step`: the most that it loses, its time in a step x (100 % - `attains_%`). A latency-bound \
             kernel can lose less: each of its calls keeps at least the time of the run's shortest kernel.\n",
        );
    }
    out + "- `kernel_id`: the same kernel in kernels.csv, metrics.json and `stage2-launch ask`.\n\n"
}

/// How the cells of a table name the GPUs.
struct Gpus {
    /// What all of them are called behind their indices: the line below the title has it.
    name: Option<String>,
}

/// GPUs that a cell names.
const GPUS: usize = 4;

impl Gpus {
    fn of(report: &Report) -> Self {
        let mut names = report.devices.iter().map(|row| row.name.as_deref());
        let name = names.next().flatten().filter(|first| names.all(|name| name == Some(*first)));
        Self { name: name.map(|name| format!(" {name}")) }
    }

    /// `0, 1`; with their names where these differ: `0 NVIDIA H200 and 7 more`.
    fn of_kernel(&self, kernel: &Kernel<'_>) -> String {
        let index =
            |device| Some(str::strip_suffix(device, self.name.as_deref()?).unwrap_or(device));
        let indices: Option<Vec<&str>> = kernel.devices().into_iter().map(index).collect();
        indices.map_or_else(|| kernel.device(), |indices| listed(&indices, GPUS))
    }
}

/// What the numbers are not, where that is so.
fn notes(report: &Report) -> String {
    let mut out = String::new();
    if let Some(waiting) = waiting_in_communication(report) {
        out.push_str(&format!(" {waiting}"));
    }
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

/// How much of the time of communication kernels is waiting for other ranks, by stage, as their tables have it: without cold
/// calls; nothing where that is not known.
pub(super) fn waiting_in_communication(report: &Report) -> Option<String> {
    let stages =
        model_stages(report).map(|row| (row.stage.as_str(), waiting_ns(report, &row.stage)));
    let mut stages: Vec<_> = stages.filter(|(_, ns)| *ns > 0).collect();
    stages.order_by_key(|(_, ns)| Reverse(*ns));
    let parts =
        stages.iter().map(|(stage, ns)| format!("{} in {}", shown_time(*ns as f64), code(stage)));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| {
        format!(
            "The time of communication kernels includes waiting for other ranks: {}.",
            listed(&parts, parts.len())
        )
    })
}

fn waiting_ns(report: &Report, stage: &str) -> u64 {
    let rows = report.ranks.collectives.iter().filter(|row| row.stage == stage);
    let waited = rows.filter_map(|row| row.warm_waiting_ns.or(row.waiting_ns));
    waited.fold(0, u64::saturating_add)
}

/// How many rows there are, how much time of the stages they have, and their order.
fn rows_line(report: &Report, first: &[Kernel<'_>], rest: &[Kernel<'_>], by_loss: bool) -> String {
    let stages: BTreeSet<&str> = model_stages(report).map(|stage| stage.stage.as_str()).into_set();
    let is_in =
        |kernel: &&Kernel<'_>| stages.contains(kernel.row.stage.as_str()) || stages.is_empty();
    let of = |kernels: &[Kernel<'_>]| {
        let times = kernels.iter().filter(is_in).filter_map(|kernel| kernel.usual_ns);
        let within = kernels.iter().filter(is_in).count();
        (within, kernels.len() - within, times.fold(0, u64::saturating_add))
    };
    let ((shown, shown_out, shown_ns), (left, left_out, left_ns)) = (of(first), of(rest));
    let percent = shown_ns as f64 * 100.0 / shown_ns.saturating_add(left_ns).max(1) as f64;
    let number = |rows: usize| count(rows as u64);
    let mut rows = match left {
        0 => format!("all {}", number(shown)),
        _ => format!(
            "{} of {}, with {} % of the kernel time",
            number(shown),
            number(shown + left),
            percent1(percent)
        ),
    };
    if !stages.is_empty() {
        rows.push_str(" of the stages");
    }
    let outside = |rows: usize| format!("{} outside of them", number(rows));
    if shown_out > 0 {
        rows.push_str(&format!(", and {}", outside(shown_out)));
    }
    rows.push_str(&match (left, left_out) {
        (0, 0) => String::new(),
        (_, 0) => "; the rest is in kernels.csv".to_owned(),
        (0, _) => format!("; {} are in kernels.csv", outside(left_out)),
        _ => format!("; the rest and {} are in kernels.csv", outside(left_out)),
    });
    format!("Rows: {rows}. {}\n\n", order_in_words(report, by_loss))
}

/// In which order the kernels of a stage stand.
pub(super) fn order_in_words(report: &Report, by_loss: bool) -> String {
    let by = if by_loss { "what loses most" } else { "the longest" };
    // How long it takes, other ranks say, too.
    let apart = waiting_in_communication(report).map_or("", |_| ", communication last");
    format!("In each stage, {by} comes first{apart}.")
}

/// What a kernel is sorted by among those of its stage, the rest by time.
pub(super) fn order_of(loss: &Loss<'_>, waits: bool) -> impl Ord + use<> {
    let lost_ns = loss.ns_per_step.map_or(0, |ns| (ns * 1e3) as u64);
    (waits && loss.kernel.row.class == COMMUNICATION, Reverse(lost_ns))
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
    use stage2_model::{DeviceRow, StageRow, StepTimes, Times};

    /// Two GPUs; three kernels of a stage and one of other work, each 1 ms.
    fn report(names: [&str; 2]) -> Report {
        let of = |stage: &str, name_index: usize, gpu: usize| KernelRow {
            stage: stage.into(),
            kernel: format!("kernel{name_index}"),
            name_index,
            device: format!("{gpu} {}", names[gpu]),
            times: Times { total_ns: 1_000_000, calls: 1, ..Times::default() },
            ..KernelRow::default()
        };
        let decode = (0..3).flat_map(|name| [of("decode", name, 0), of("decode", name, 1)]);
        let device = |name: &str| DeviceRow { name: Some(name.into()), ..DeviceRow::default() };
        Report {
            kernels: decode.chain([of("(outside ranges)", 3, 0)]).collect(),
            stages: vec![StageRow { stage: "decode".into(), ..StageRow::default() }],
            devices: names.map(device).into(),
            ..Report::default()
        }
    }

    #[test]
    fn a_name_that_all_gpus_have_is_not_in_each_row() {
        let page = kernels_md(&report(["H200", "H200"]), 9);
        assert!(page.contains("| 0, 1 | 33.3 |") && page.contains("| 0 | 100.0 |"), "{page}");
        assert!(page.contains("2x H200\n"), "the line below the title has it: {page}");
        let page = kernels_md(&report(["H200", "L4"]), 9);
        assert!(page.contains(" | 0 H200 and 1 more | 33.3 |"), "{page}");
    }

    #[test]
    fn kernels_of_a_stage_stand_together_and_those_of_the_verdict_first() {
        let of = |stage: &str, name_index: usize, total_ns| KernelRow {
            stage: stage.into(),
            kernel: format!("kernel{name_index}"),
            name_index,
            times: Times { total_ns, calls: 1, ..Times::default() },
            ..KernelRow::default()
        };
        let stage = |stage: &str| StageRow { stage: stage.into(), ..StageRow::default() };
        let kernels =
            vec![of("mixed", 0, 90), of("decode", 1, 80), of("mixed", 2, 70), of("decode", 3, 60)];
        let mut report = Report {
            kernels: [kernels, vec![of("warmup", 4, 99)]].concat(),
            stages: vec![stage("mixed"), stage("decode")],
            answer: crate::testing::answer(),
            ..Report::default()
        };
        let order = |report: &Report| -> Vec<char> {
            let page = kernels_md(report, 9);
            let rows = page.lines().filter_map(|line| line.strip_prefix("| `kernel"));
            rows.filter_map(|row| row.chars().next()).collect()
        };
        assert_eq!(report.answer.stages[0].stage, "decode");
        assert_eq!(order(&report), ['1', '3', '0', '2', '4']);
        report.answer.stages.clear();
        assert_eq!(order(&report), ['0', '2', '1', '3', '4'], "then that of the longest kernel");
    }

    #[test]
    fn the_rows_that_are_left_out_have_a_share() {
        let mut report = report(["H200", "H200"]);
        let page = |report: &Report, top| kernels_md(report, top);
        let rest =
            "of the kernel time of the stages; the rest and 1 outside of them are in kernels.csv.";
        for (top, rows) in [
            (1, format!("1 of 3, with 33.3 % {rest}")),
            (2, format!("2 of 3, with 66.7 % {rest}")),
            (3, "all 3 of the stages; 1 outside of them are in kernels.csv.".to_owned()),
            (4, "all 3 of the stages, and 1 outside of them.".to_owned()),
        ] {
            let rows = format!("Rows: {rows} In each stage, the longest comes first.\n");
            assert!(page(&report, top).contains(&rows), "{}", page(&report, top));
        }
        report.kernels.pop();
        assert!(
            page(&report, 3).contains("Rows: all 3 of the stages. In each"),
            "{}",
            page(&report, 3)
        );
    }

    #[test]
    fn a_stage_has_a_table_with_its_classes() {
        let mut report = report(["H200", "H200"]);
        report.kernels.iter_mut().for_each(|row| row.class = "gemm".into());
        report.kernels[0].class = "communication".into();
        report.kernels[0].kernel_id = "k4daz5i".into();
        let page = kernels_md(&report, 2);
        let decode = "## `decode`\n\n2 of 3 kernels. Kernel time by class: gemm 83.3 %, communication 16.7 %.\n\n| kernel_name | total_ms | calls | mean_ms | device |";
        assert!(page.contains(decode) && page.contains("| `k4daz5i` |"), "{page}");
        assert!(!page.contains("## `(outside"), "none of its rows: {page}");
    }

    #[test]
    fn a_column_that_says_the_same_of_all_is_left_out() {
        let mut report = report(["H200", "H200"]);
        report.kernels[0].times.calls = 12_096;
        let page = kernels_md(&report, 9);
        let heads = "| device | share_% | class |\n";
        assert!(page.contains(heads) && page.contains("| 12,097 |"), "{page}");
        assert!(page.contains("No bound is known, because"), "{page}");
        let ncu = Some(Box::new(CounterRow::default()));
        report.kernels[0].counters = ncu;
        let page = kernels_md(&report, 9);
        let bounds = ["| bound |\n", "| not known |\n", "| not profiled |\n"];
        assert!(bounds.iter().all(|part| page.contains(part)), "{page}");
    }

    /// A name of the summary is found here.
    #[test]
    fn names_are_those_of_the_other_pages_unless_two_look_the_same() {
        let mut report = report(["H200", "H200"]);
        let long = |end: u32| format!("kernel<{}{end}>", "int, ".repeat(30));
        let set = |report: &mut Report, at: usize, name: String| {
            report.kernels[at..at + 2].iter_mut().for_each(|row| row.kernel.clone_from(&name));
        };
        set(&mut report, 0, long(1));
        let short = format!("| `{}` |", shorten_kernel(&long(1), KERNEL_CHARS));
        assert!(kernels_md(&report, 9).contains(&short), "{short}");
        set(&mut report, 2, long(2));
        let page = kernels_md(&report, 9);
        assert!(page.contains(&long(1)) && page.contains(&long(2)), "{page}");
    }

    #[test]
    fn the_loss_of_the_verdict_can_be_looked_up() {
        let mut report = report(["H200", "H200"]);
        report.answer = crate::testing::answer();
        let step = StepTimes { path: Some("decode".into()), ..StepTimes::default() };
        report.answer.stages[0].step = Some(step);
        (report.stages[0].instances, report.kernels[0].times.total_ns) = (Some(2), 3_000_000);
        let page = kernels_md(&report, 9);
        assert!(
            page.contains(" | device | ms_per_step | share_% |") && !page.contains("lost_ms"),
            "{page}"
        );
        let mut counters = CounterRow::default();
        counters.roofline.attainable_share = Some(0.25);
        report.kernels[0].counters = Some(Box::new(counters));
        let page = kernels_md(&report, 9);
        assert!(page.contains("| `kernel0` | 4.000 | 2 | 2.000000 | "), "{page}");
        assert!(page.contains(" | device | lost_ms_per_step | ms_per_step | share_% | "), "{page}");
        assert!(page.contains(" | 1.500 | 2.000 | 50.0 | "), "4 ms in 2 steps: {page}");
        assert!(page.contains("In each stage, what loses most comes first."), "{page}");
        let said = "Kernels with counters take 50.0 % of the kernel time, 75.0 % of which was measured; \
                    they lose up to 1.50 ms per";
        assert!(page.contains(said) && page.contains("only these are ranked"), "{page}");
    }

    #[test]
    fn a_page_explains_what_it_has() {
        let mut report = report(["H200", "H200"]);
        let page = kernels_md(&report, 9);
        assert!(
            !page.contains("`bound` follows") && !page.contains("wait for other ranks"),
            "{page}"
        );
        let waited = |stage: &str, warm_ms: Option<u64>| stage2_model::CollectiveRow {
            stage: stage.into(),
            waiting_ns: Some(9_000_000),
            warm_waiting_ns: warm_ms.map(|ms| ms * 1_000_000),
            ..Default::default()
        };
        // Work outside of stages is in no table of theirs.
        report.ranks.collectives = vec![
            waited("decode", Some(2)),
            waited("decode", Some(1)),
            waited("(outside ranges)", None),
        ];
        let page = kernels_md(&report, 9);
        assert!(page.contains("includes waiting for other ranks: 3.00 ms in `decode`."), "{page}");
        report.kernels[0].class = "communication".into();
        report.kernels[0].times.total_ns = 5_000_000;
        let page = kernels_md(&report, 9);
        let waits = "communication 50.0 % (30.0 % waiting for other ranks)";
        assert!(page.contains(waits), "{page}");
        let last = page.lines().filter(|line| line.starts_with("| `kernel")).nth(2);
        assert!(last.is_some_and(|row| row.contains("communication")), "{page}");
    }
}
