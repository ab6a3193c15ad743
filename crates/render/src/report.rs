//! A report -> `report.md`: what ran, whether it can be believed, and where the GPU's time went.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::stats::scaled;
use stage2_contract::text::numbers::{count, counted, ms3, or_absent, percent1, shown_time, us3};
use stage2_contract::text::{code, code_in_text, plain, shorten, shorten_kernel};
use stage2_model::finding::Id;
use stage2_model::{
    CaptureRow, DeviceRow, FileEnding, KernelRow, MemoryRow, PathKind, PathRow, ProcessCoverage,
    Report, Severity, StageKernelRow, StageRow, Times,
};
use stage2_read::path_label::UNKNOWN_CAPTURE;
use stage2_report::in_part;
use stage2_report::roofline::bound;

use crate::costs::costs;
use crate::energy::energy_md;
use crate::facts::{brief_screen, in_full};
use crate::kernels::{order_in_words, order_of, waiting_in_communication};
use crate::page::{Page, lost_by_kernels, ms_of, run_line, step_is};
use crate::ranks::{collectives, processes, ranks};
use crate::regions::regions_md;
use crate::steps::steps_md;
use crate::table::{ROWS, Table, more, name, none, paragraph, text};
use crate::utilisation::utilisation;
use crate::{advice, energy, engine, host, sampled, stages, steps};
use stage2_model::kernels::{
    Loss, classes as class_sums, model_stages, stage_kernels as kernel_rows, stage_totals,
    steps as steps_of, with_cold_calls,
};

pub(super) fn page(report: &Report) -> Page {
    let title = format!("Report of {}", report.run.name);
    let sections = vec![
        ("Recommendations", advice::recommendations(report)),
        ("The answer in full", in_full(report)),
        ("Takeaways", advice::takeaways(report)),
        ("Findings", advice::findings(report, usize::MAX)),
        ("Stages", stages(report)),
        (engine::TITLE, engine::section(report)),
        ("Top kernels of each stage", stage_kernels(report)),
        (host::TITLE, host::host_md(report)),
        (steps::TITLE, steps_md(report)),
        ranks(report),
        ("Collectives", collectives(report)),
        ("Model FLOP utilisation", utilisation(report)),
        ("Kernel classes", classes(report)),
        ("Roofline", roofline(report)),
        (sampled::TITLE, sampled::sampled_md(report)),
        ("Regions under ncu", regions_md(report)),
        ("Stages by GPU", stages_by_device(report)),
        (energy::TITLE, energy_md(report)),
        ("Cost of the passes", costs(report)),
        ("Coverage", coverage(report)),
        ("Nsight Systems against the collector", reconciliation(report)),
        ("What ran", what_ran(report)),
        ("GPUs", devices(report)),
        ("Processes", processes(report)),
        ("Whole run, with warm-up", whole_run(report)),
        // Long lists.
        ("Copies", memory(&report.copies)),
        ("Fills", memory(&report.fills)),
        ("Graph launches", graphs(report)),
        ("Graph replays by the range of their capture", captures(report)),
        libraries(report),
        ("Ranges", paths(report)),
        (advice::RULES, advice::rules(report)),
        ("How to read this", definitions(report)),
    ];
    Page {
        title,
        head: run_line(report, true) + &brief_screen(report) + &serious(report),
        sections,
    }
}

/// On the first screen: how many findings there are, and what the errors are.
fn serious(report: &Report) -> String {
    let of = |severity| report.findings.iter().filter(move |f| f.severity == severity);
    // The line on the coverage has just said that there is no GPU work, and why.
    let errors = of(Severity::Error).filter(|f| f.id != Id::GpuNoWork);
    let errors: String = errors.map(|f| format!("- **error:** {}\n", plain(&f.what))).collect();
    let numbers =
        [(Severity::Warning, "warning"), (Severity::Note, "note")].map(|(severity, noun)| {
            let number = of(severity).count() as u64;
            (number > 0).then(|| counted(number, noun))
        });
    let numbers = numbers.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers };
    let line = format!("**Findings:** {numbers}.\n\n");
    if errors.is_empty() { line } else { format!("{errors}\n{line}") }
}

fn definitions(report: &Report) -> String {
    let mut out = String::new();
    for definition in &report.definitions {
        let (term, meaning) = (plain(&definition.term), plain(&definition.meaning));
        out.push_str(&format!("- **{term}**: {meaning}\n"));
    }
    out.push_str(&format!(
        "\nmetrics.json holds everything here (`{}` version {}), kernels.csv every kernel row.\n",
        report.schema, report.schema_version
    ));
    out
}

const COMMAND_CHARS: usize = 2_000;

/// The end of the name of a fact that is a number of bytes.
const BYTES: &str = "_bytes";

fn what_ran(report: &Report) -> String {
    let run = &report.run;
    let mut out = String::new();
    if let Some(command) = &run.command {
        // For reading; metrics.json has the words themselves.
        let words = shlex::try_join(command.iter().map(String::as_str));
        let line = shorten(&words.unwrap_or_else(|_| command.join(" ")), COMMAND_CHARS);
        out.push_str(&format!("- command: {}\n", code_in_text(&line)));
    }
    if let Some(started) = &run.started {
        let started = run.started_minute().unwrap_or_else(|| started.clone());
        out.push_str(&format!("- started: {}\n", plain(&started)));
    }
    for pass in &run.passes {
        let duration = pass.duration_ms.map(|ms| format!("{} ms", count(ms)));
        let facts = [&pass.name, &pass.status, &pass.exit, &duration, &pass.why];
        let facts: Vec<String> = facts.into_iter().flatten().map(|fact| plain(fact)).collect();
        out.push_str(&format!("- pass: {}\n", facts.join(", ")));
    }
    let counts = &report.coverage.total;
    out.push_str(&format!(
        "- recorded: {}, {}, {}, {}, {}, {}\n\n",
        recorded_processes(report),
        counted(counts.kernels, "kernel"),
        counted(counts.copies, "copy"),
        counted(counts.fills, "fill"),
        counted(counts.graph_launches, "whole graph"),
        counted(counts.ranges, "range instance"),
    ));
    if !run.environment.is_empty() {
        let table = Table::new(&run.environment)
            .left("environment", |fact| plain(fact.key.strip_suffix(BYTES).unwrap_or(&fact.key)))
            .left("value", |fact| {
                let bytes = fact.key.ends_with(BYTES).then(|| fact.value.parse::<f64>());
                match bytes {
                    Some(Ok(bytes)) => format!("{:.1} GiB", bytes / f64::from(1 << 30)),
                    _ => plain(&shorten(&fact.value, 200)),
                }
            });
        out.push_str(&table.markdown());
    }
    out
}

fn devices(report: &Report) -> String {
    if report.devices.is_empty() {
        return none("no GPU was recorded", "");
    }
    let mut out = Table::first(ROWS, &report.devices)
        .left("GPU", |row| plain(&row.device))
        .left("compute", |row| row.compute_capability.as_deref().map(plain))
        .right("SMs", |row| row.multiprocessors.map(|sms| sms.to_string()))
        .right("memory_MiB", |row| row.memory_bytes.map(|bytes| (bytes >> 20).to_string()))
        .right("processes", |row| row.processes.to_string())
        .right("kernels", |row| row.kernels.to_string())
        .right("kernel_sum_ms (with cold calls)", |row| ms3(row.kernel_sum_ns))
        .right("busy_ms", |row| row.gpu_busy_ns.map(ms3))
        .right("first_to_last_work_ms", |row| row.gpu_span_ns.map(ms3))
        .right("busy_%", |row| row.gpu_busy_percent.map(percent1))
        .left("uuid", |row| row.uuid.as_deref().map(plain))
        .left("host", |row| row.host.as_deref().map(plain))
        .with_note(
            "*Busy (ms)* is the union of all kernels, copies, fills and graphs; *Busy (%)* its share of the \
             time from the first work to the last of any process. Busy times are summed over processes; \
             if these used a GPU at the same time, no share is given.",
        );
    out.extend(in_part::whole_run(report).map(|note| paragraph(&note)));
    out
}

fn stages(report: &Report) -> String {
    if report.stages.is_empty() {
        return none("no range was opened, and no GPU work was recorded", "")
            + &engine::latencies(report);
    }
    let windows = stages::windows(report, ROWS, "metrics.json", false);
    let times = stages::times(report, ROWS, "metrics.json", false) + &engine::latencies(report);
    times + &windows + &stages::floors(report, ROWS)
}

/// All instances of all stages, of warm-ups, of operators and of work outside of ranges.
fn all_instances(report: &Report) -> String {
    if report.stages.is_empty() {
        return none("no range was opened, and no GPU work was recorded", "");
    }
    let table = Table::first(ROWS, &report.stages)
        .left("stage", |row| match row.apart {
            Some(apart) => format!("{} ({})", name(&row.stage), apart.label()),
            None => name(&row.stage),
        })
        .right("instances", |row| {
            let all = instances(row.instances, row.recorded_instances);
            match row.unclosed {
                Some(n @ 1..) => format!("{all} ({} unclosed)", count(n)),
                _ => all,
            }
        })
        .right("host_total_ms", |row| row.host_total_ns.map(ms3))
        .right("host_first_ms (cold)", |row| row.host_first_ns.map(ms3))
        .right("gpu_window_ms", |row| row.gpu_window_ns.map(ms3))
        .right("gpu_busy_ms", |row| row.gpu_busy_ns.map(ms3))
        .right("gpu_idle_ms", |row| row.gpu_idle_ns.map(ms3))
        .right("gpu_busy_%", |row| row.gpu_busy_percent.map(percent1))
        .right("kernels", |row| row.kernels.map(|kernels| kernels.to_string()))
        .right("kernels per call, min / median / max", kernels_per_instance)
        .right("kernel_sum_ms (with cold calls; may exceed wall)", |row| row.kernel_sum_ns.map(ms3))
        .right("kernel mean, us", |row| row.kernel_mean_ns.map(us3));
    let mut out = table.with_note(
        "A marked range is not a stage of the model: it is a warm-up, or an operator outside every \
         other range. Busy time is a union: overlapping work counts once. Idle time is the window \
         minus the busy time.",
    );
    // A row has both.
    if report.is_sampled() {
        out.extend(in_part::stages(report).map(|note| paragraph(&note)));
    }
    let uncertain = report.stages.iter().map(|row| row.gpu_busy_uncertain_ns);
    let uncertain = uncertain.fold(0, u64::saturating_add);
    if uncertain > 0 {
        let time = shown_time(uncertain as f64);
        out.push_str(&format!("Busy times may be larger, by {time} in all: see Findings.\n\n"));
    }
    out
}

fn kernels_per_instance(row: &StageRow) -> Option<String> {
    row.kernels_per_instance_median?;
    let (least, most) = (row.kernels_per_instance_min, row.kernels_per_instance_max);
    let range = [least, row.kernels_per_instance_median, most];
    Some(range.map(|kernels| or_absent(kernels, |n| n.to_string())).join(" / "))
}

/// Says from how many instances the numbers come, unless it is all of them.
/// Processes, and their files if some have several: each window of recording has one.
fn recorded_processes(report: &Report) -> String {
    let (files, all) = (report.coverage.processes.len(), report.coverage.processes_of(|_| true));
    let processes = counted(all as u64, "process");
    if files == all { processes } else { format!("{processes} in {files} trace files") }
}

fn instances(all: Option<u64>, recorded: Option<u64>) -> String {
    let recorded = recorded.map_or_else(String::new, |n| format!(" (recorded {})", count(n)));
    format!("{}{recorded}", or_absent(all, |n| n.to_string()))
}

/// Only for several GPUs; with one, it would repeat the table of the stages.
fn stages_by_device(report: &Report) -> String {
    if report.devices.len() < 2 {
        return String::new();
    }
    let rows = report.stages.iter().flat_map(|stage| stage.devices.iter().map(move |d| (stage, d)));
    // Kernels of a sample are scaled already.
    let in_all = |stage: &StageRow, ns: u64| match stage.recorded_instances {
        Some(recorded) if report.is_sampled() => scaled(ns, stage.instances?, recorded),
        _ => Some(ns),
    };
    let note = match report.is_sampled() {
        true => " They are scaled from the recorded ones.",
        false => "",
    };
    Table::first(ROWS, &rows.collect::<Vec<_>>())
        .left("stage", |(stage, _)| name(&stage.stage))
        .left("GPU", |(_, device)| plain(&device.device))
        .right("gpu_busy_ms", |(stage, device)| in_all(stage, device.gpu_busy_ns).map(ms3))
        .right("kernels", |(_, device)| device.kernels.to_string())
        .right("kernel_sum_ms (with cold calls)", |(_, device)| ms3(device.kernel_sum_ns))
        .with_note(&format!("Times and kernels are of all calls, with the cold ones.{note}"))
}

fn paths(report: &Report) -> String {
    if report.paths.is_empty() {
        return none("no range was opened", "");
    }
    let rows: Vec<_> = report.paths.iter().filter(|row| !row.is_of_library_alone()).collect();
    path_table("range path", &rows)
        + "Totals and kernels are of the whole run. The median leaves out the first instance of the \
           range; that of a step (Stages) leaves out all steps of the first, cold call of its \
           stage. Inclusive counts a range and those within it, exclusive the range alone.\n\n"
}

/// Ranges of libraries with none of the workload around them; nothing if there are none.
fn libraries(report: &Report) -> (&'static str, String) {
    let rows: Vec<_> = report.paths.iter().filter(|row| row.is_of_library_alone()).collect();
    if rows.is_empty() {
        return ("Library ranges", String::new());
    }
    let (title, whole, advice) = match report.paths.iter().any(|row| row.kind == PathKind::Range) {
        true => ("Library ranges outside the workload's ranges", "(outside ranges)", ""),
        false => (
            "Ranges of libraries only: the workload itself opened none",
            "(whole process)",
            " Put NVTX ranges around the phases of the workload to have stages.",
        ),
    };
    let text = format!(
        "{}Libraries open these for their own use. None of the workload's ranges was open around \
         them, so they are not stages: their work is a part of {whole}.{advice} \
         report.library_domains adds NVTX domains to the list of libraries.\n\n",
        path_table("range of a library", &rows),
    );
    (title, text)
}

/// Ranges of a table, the longest on the host.
const RANGES: usize = 50;

fn path_table(title: &str, rows: &[&PathRow]) -> String {
    let mut longest: Vec<Option<u64>> = rows.iter().map(|row| row.host_total_ns).collect();
    longest.order_by_key(|ns| Reverse(*ns));
    let least = longest.get(RANGES - 1).copied().flatten();
    // In their order, which is that of a tree: a range is at least as long as those within it.
    let mut rows = rows.to_vec();
    rows.order_by_key(|row| row.host_total_ns < least);
    Table::first(RANGES, &rows)
        .left(title, |row| name(&row.path))
        .right("instances", |row| instances(row.instances, row.recorded_instances))
        .right("host_total_ms", |row| row.host_total_ns.map(ms3))
        .right("host_first_ms (cold)", |row| row.host_first_ns.map(ms3))
        .right("host_median_ms (warm)", |row| row.host_warm_median_ns.map(ms3))
        .right("kernels inclusive", |row| row.kernels_inclusive.map(|n| n.to_string()))
        .right("kernels exclusive", |row| row.kernels_exclusive.map(|n| n.to_string()))
        .right("kernel_sum_ms inclusive (with cold calls)", |row| {
            row.kernel_sum_inclusive_ns.map(ms3)
        })
        .right("kernel_sum_ms exclusive (with cold calls)", |row| {
            row.kernel_sum_exclusive_ns.map(ms3)
        })
        .markdown()
}

/// Stages whose kernels are listed.
const STAGES: usize = 12;
/// Kernels outside of the stages that are listed.
const OUTSIDE: usize = 10;

/// The sum that tables of kernels have, ns: without cold calls where there are others.
fn usual_ns(times: &Times) -> Option<u64> {
    times.known_total_ns().filter(|_| times.calls == 0 || times.usual_calls() > 0)?;
    Some(times.usual_ns())
}

fn stage_kernels(report: &Report) -> String {
    if report.stage_kernels.is_empty() {
        return none("no kernel was recorded", "");
    }
    let mut out = format!(
        "A row is a kernel in all ranges, launch configurations and GPUs of the stage. Sums, shares, calls and \
         means: warm calls only, where there are any (kernels.csv lists the kernels of cold calls); the percentiles and \
         the maximum are of all calls.{}\n\n",
        with_cold(report)
    );
    let kernels = kernel_rows(report);
    let of_steps = steps_of(report);
    let losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &of_steps)).collect();
    let by_name: HashMap<(&str, usize), &Loss<'_>> = (losses.iter())
        .map(|loss| ((loss.kernel.row.stage.as_str(), loss.kernel.row.name_index), loss))
        .collect();
    if losses.iter().any(|loss| loss.ns_of_step.is_some()) {
        let unit =
            step_is(report, str::to_owned).map_or_else(String::new, |said| format!(" {said}"));
        out.push_str(&paragraph(&format!(
            "Times per step are per-GPU averages.{unit} Attains: the share of the rate that the hardware allows \
             at the kernel's operations per byte. Loses up to: its time in a step x (100 % - attains); no call of a latency-bound kernel is \
             taken to get shorter than the shortest kernel of the run."
        )));
    }
    out.extend(lost_by_kernels(report, &losses).map(|said| paragraph(&said)));
    let waits = waiting_in_communication(report).is_some();
    out.push_str(&paragraph(&order_in_words(
        report,
        losses.iter().any(|loss| loss.ns_per_step.is_some()),
    )));
    let totals = stage_totals(report);
    let of_model: BTreeSet<&str> = model_stages(report).map(|row| row.stage.as_str()).into_set();
    let all = report.stage_kernels.chunk_by(|a, b| a.stage == b.stage);
    let is_of_model = |rows: &&[StageKernelRow]| {
        rows.first().is_some_and(|row| of_model.contains(row.stage.as_str()))
    };
    let (mut stages, mut outside): (Vec<_>, Vec<_>) = all.partition(is_of_model);
    if stages.is_empty() {
        std::mem::swap(&mut stages, &mut outside);
    }
    for rows in stages.iter().take(STAGES) {
        let stage = rows.first().map_or("", |row| row.stage.as_str());
        let all_ns = totals.get(stage).copied().filter(|ns| *ns > 0);
        let mut rows: Vec<&StageKernelRow> = rows.iter().collect();
        let is_usual = |row: &&StageKernelRow| row.times.usual_calls() > 0;
        if rows.iter().any(is_usual) {
            rows.retain(is_usual);
        }
        rows.order_by_key(|row| Reverse(usual_ns(&row.times)));
        let loss = |row: &StageKernelRow| by_name.get(&(stage, row.name_index)).copied();
        rows.order_by_key(|row| loss(row).map(|loss| order_of(loss, waits)));
        // In one row with a mean of warm calls only.
        let has_cold = rows.iter().any(|row| row.times.usual_calls() != row.times.calls);
        let of_all =
            |name: &str| format!("{name}{}, us", if has_cold { " with cold calls" } else { "" });
        let table = Table::first(ROWS, &rows)
            .left("kernel", |row| code(&row.kernel))
            .right("time (ms per step)", |row| loss(row)?.ns_of_step.map(ms_of))
            .right("attains (%)", |row| loss(row)?.attainable.map(|share| percent1(share * 100.0)))
            .right("loses up to (ms per step)", |row| loss(row)?.ns_per_step.map(ms_of))
            .right("kernel_sum_ms", |row| usual_ns(&row.times).map(ms3))
            .right("% of the stage's sum", |row| {
                Some(percent1(usual_ns(&row.times)? as f64 * 100.0 / all_ns? as f64))
            })
            .right("calls", |row| count(row.times.usual_calls()))
            .right("mean, us", |row| row.times.usual_mean_ns().map(us3))
            .right(&of_all("p50"), |row| row.times.p50_ns.map(us3))
            .right(&of_all("p99"), |row| row.times.p99_ns.map(us3))
            .right(&of_all("max"), |row| row.times.max_ns.map(us3))
            .left("kernel_id", |row| (!row.kernel_id.is_empty()).then(|| code(&row.kernel_id)));
        out.push_str(&format!("### {}\n\n{}", code_in_text(stage), table.markdown()));
    }
    out + &more(stages.len(), STAGES, "stage") + &outside_kernels(&outside)
}

/// The longest kernels of operators, of warm-ups and of work in no range, behind those of stages, if there are any.
fn outside_kernels(ranges: &[&[StageKernelRow]]) -> String {
    let is_usual = |row: &&StageKernelRow| row.times.usual_calls() > 0;
    let mut rows: Vec<&StageKernelRow> =
        ranges.iter().copied().flatten().filter(is_usual).collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.order_by_key(|row| Reverse(usual_ns(&row.times)));
    let table = Table::first(OUTSIDE, &rows)
        .left("kernel", |row| code(&row.kernel))
        .left("range", |row| code(&row.stage))
        .right("kernel_sum_ms", |row| usual_ns(&row.times).map(ms3))
        .right("calls", |row| count(row.times.usual_calls()))
        .right("mean, us", |row| row.times.usual_mean_ns().map(us3))
        .markdown_with_rest_in("kernels.csv");
    format!("### Outside the stages\n\n{table}")
}

fn memory(rows: &[MemoryRow]) -> String {
    Table::first(ROWS, rows)
        .left("direction", |row| row.direction.as_deref().map(plain))
        .right("total_ms (with cold calls)", |row| row.times.known_total_ns().map(ms3))
        .right("calls", |row| row.times.calls.to_string())
        .right("bytes", |row| row.bytes.to_string())
        .right("mean, us", |row| row.times.mean_ns.map(us3))
        .right("max, us", |row| row.times.max_ns.map(us3))
        .left("GPU", |row| plain(&row.device))
        .left("range path", |row| code(&row.path))
        .or_none("none was recorded", "")
}

fn graphs(report: &Report) -> String {
    Table::first(ROWS, &report.graph_launches)
        .id("graph", |row| row.graph_id.to_string())
        .right("total_ms (with cold calls)", |row| row.times.known_total_ns().map(ms3))
        .right("launches", |row| row.times.calls.to_string())
        .right("mean, us", |row| row.times.mean_ns.map(us3))
        .right("p50, us", |row| row.times.p50_ns.map(us3))
        .right("p99, us", |row| row.times.p99_ns.map(us3))
        .left("GPU", |row| plain(&row.device))
        .left("range path", |row| code(&row.path))
        .left("file", |row| code(&row.file))
        .with_note("Graphs recorded as a whole: their kernels have no separate records.")
}

/// Which stages are an exception, in a sentence behind others.
fn with_cold(report: &Report) -> String {
    with_cold_calls(report).map_or_else(String::new, |said| format!(" {}", plain(&said)))
}

fn captures(report: &Report) -> String {
    let is_known = |row: &CaptureRow| row.capture_path != UNKNOWN_CAPTURE;
    let note = match report.graph_captures.iter().all(is_known) {
        true => String::new(),
        false => format!(
            "`{UNKNOWN_CAPTURE}`: the trace has the replay of these kernels, but not their capture."
        ),
    };
    Table::first(ROWS, &report.graph_captures)
        .left("range at replay", |row| code(&row.replay_path))
        .left("range at capture", |row| code(&row.capture_path))
        .right("kernels", |row| row.kernels.to_string())
        .right("kernel_sum_ms (with cold calls)", |row| ms3(row.kernel_sum_ns))
        .with_note(&note)
}

/// Rows of a table here.
const TOOL_ROWS: usize = 20;

fn classes(report: &Report) -> String {
    if report.kernels.is_empty() {
        return none("no kernel was recorded", "");
    }
    let mut stages: BTreeMap<&str, (Reverse<u64>, Vec<&KernelRow>)> = BTreeMap::new();
    for row in &report.kernels {
        let (Reverse(ns), rows) = stages.entry(&row.stage).or_default();
        *ns = ns.saturating_add(row.times.total_ns);
        rows.push(row);
    }
    let mut stages: Vec<_> = stages.into_iter().collect();
    // The longest stages of the model first, as elsewhere.
    let of_model: HashSet<&str> = model_stages(report).map(|row| row.stage.as_str()).collect();
    stages.order_by_key(|(stage, (ns, _))| (!of_model.contains(stage), *ns));
    let stages = stages.into_iter().map(|(stage, (_, rows))| (stage, class_sums(rows)));
    let rows = stages.flat_map(|(stage, sums)| sums.into_iter().map(move |sum| (stage, sum)));
    let waiting = waiting_in_communication(report);
    let waiting = waiting.map_or_else(String::new, |said| format!(" {said}"));
    Table::first(ROWS, &rows.collect::<Vec<_>>())
        .left("stage", |(stage, _)| code(stage))
        .left("class", |(_, sum)| plain(sum.class))
        .right("kernel_sum_ms", |(_, sum)| sum.usual_ns.map(ms3))
        .right("% of the stage's sum", |(_, sum)| sum.percent.map(percent1))
        .right("calls", |(_, sum)| sum.usual_calls.to_string())
        .with_note(&format!(
            "Classes follow from the names of the kernels; selection is top-k, sort, argmax and \
             multinomial, of samplers and of the routers of experts. Sums, shares and calls: warm calls only, \
             where there are any.{}{waiting}",
            with_cold(report)
        ))
}

/// The longest kernels with counters, under the roof.
fn roofline(report: &Report) -> String {
    let counted = report.kernels.iter().filter_map(|row| Some((row, row.counters.as_ref()?)));
    let rows: Vec<_> = counted.collect();
    if rows.is_empty() {
        return none("no counters of ncu are in this bundle", "");
    }
    let number = |value: Option<f64>, decimals: usize| value.map(|v| format!("{v:.decimals$}"));
    let table = Table::first(TOOL_ROWS, &rows)
        .left("kernel", |(row, _): &(&KernelRow, _)| code(&shorten_kernel(&row.kernel, 60)))
        .left("stage", |(row, _)| code(&row.stage))
        .right("kernel_sum_ms", |(row, _)| usual_ns(&row.times).map(ms3))
        .right("SM_%", |(_, c)| number(c.sm_percent, 1))
        .right("memory_%", |(_, c)| number(c.memory_percent, 1))
        .right("occupancy_%", |(_, c)| number(c.achieved_occupancy_percent, 1))
        .right("TFLOP/s", |(_, c)| number(c.roofline.flops_per_s.map(|rate| rate / 1e12), 2))
        .right("GB/s", |(_, c)| number(c.roofline.bytes_per_s.map(|rate| rate / 1e9), 2))
        .right("FLOP/byte", |(_, c)| number(c.roofline.flops_per_byte, 2))
        .right("% of attainable", |(_, c)| {
            number(c.roofline.attainable_share.map(|share| share * 100.0), 1)
        })
        .left("bound", |(_, c)| c.roofline.bound.map(|bound| bound.label().to_owned()))
        .right("ncu / undisturbed duration", |(_, c)| number(c.roofline.duration_ratio, 2))
        .left("profiled in", |(_, c)| c.profiled_in.as_deref().map(code))
        .left("of one launch only, because", |(_, c)| c.one_launch.as_deref().map(plain));
    let mut out = table.markdown_with_rest_in("kernels.csv");
    out.push_str(&paragraph(&format!(
        "Counters are ncu's, of one launch of each kernel and configuration. Sums: warm calls only, where \
         there are any.{} Rates are counts over the mean duration of the row, cold calls \
         included (source: {}). How to read this explains, under counters, when they hold \
         for the whole row and when only for the profiled launch. Bound: {}",
        with_cold_calls(report).map_or_else(String::new, |said| format!(" {said}")),
        report.source,
        bound::rule()
    )));
    out.push_str(&match &report.peaks {
        Some(peaks) => {
            paragraph(&format!("Peaks: dense rates of {} ({}).", peaks.card, peaks.source))
        }
        None => "Peaks: none, because this GPU is in no preset of conf/hardware.\n\n".to_owned(),
    });
    out
}

/// How far the counts of nsys agree with the collector's.
fn reconciliation(report: &Report) -> String {
    let Some(nsys) = &report.nsys else {
        return none("no nsys capture is in this bundle", "");
    };
    if nsys.reconciliations.is_empty() {
        return none("the collector recorded no kernel that it could be compared with", "");
    }
    let items = nsys.reconciliations.iter().map(|one| format!("- {}\n", plain(&one.text)));
    let mut out = items.collect::<String>() + "\n";
    let kernels = nsys
        .reconciliations
        .iter()
        .flat_map(|one| one.kernels.iter().map(move |kernel| (&one.scope, kernel)));
    let differing: Vec<_> =
        kernels.filter(|(_, kernel)| kernel.sides.calls_difference() != 0).collect();
    if !differing.is_empty() {
        let table = Table::first(TOOL_ROWS, &differing)
            .left("scope", |(scope, _)| plain(scope))
            .left("mangled_name", |(_, kernel)| code(&shorten(&kernel.mangled, 80)))
            .right("collector_calls", |(_, kernel)| kernel.sides.collector_calls.to_string())
            .right("nsys_calls", |(_, kernel)| kernel.sides.nsys_calls.to_string());
        let all = count(differing.len() as u64);
        out.push_str(&format!("Kernels with other counts ({all}):\n\n{}", table.markdown()));
    }
    out
}

fn coverage(report: &Report) -> String {
    let mut counts = report.coverage.total.labelled();
    counts.push(("trace files refused", report.coverage.files_refused));
    let (zero, counts): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(_, value)| *value == 0);
    let zero: Vec<&str> = zero.into_iter().map(|(label, _)| label).collect();
    let table = Table::new(&counts)
        .left("what", |(label, _)| (*label).to_owned())
        .right("count", |(_, value)| count(*value));
    let zero = match zero.is_empty() {
        true => String::new(),
        false => paragraph(&format!("Counted as zero: {}.", zero.join("; "))),
    };
    let table = table.or_nothing() + &zero;
    table + &coverage_of_processes(report) + &meta(report)
}

fn coverage_of_processes(report: &Report) -> String {
    let processes = &report.coverage.processes;
    if processes.is_empty() {
        return String::new();
    }
    let table = Table::first(ROWS, processes)
        .left("file", |process| code(&process.file))
        .left("process", |process| code(&who(process)))
        .left("GPU", |process| gpu(process).to_owned())
        .left("ending", ending)
        .right("kernels", |process| process.counts.kernels.to_string())
        .right("attributed", |process| process.counts.attributed.to_string())
        .right("outside ranges", |process| process.counts.outside_ranges.to_string())
        .right("unattributed", |process| process.counts.unattributed.to_string())
        .right("dropped by CUPTI", |process| process.counts.dropped_by_cupti.to_string())
        .right("range events lost", |process| process.counts.range_events_lost.to_string())
        .right("invalid timestamps", |process| process.counts.invalid_timestamps.to_string())
        .right("undefined", |process| process.counts.undefined_identifiers.to_string());
    format!("### Coverage of each process\n\n{}", table.markdown())
}

fn who(process: &ProcessCoverage) -> String {
    let Some(pid) = process.pid else { return "not known".to_owned() };
    let exe = process.exe.as_deref().unwrap_or_default();
    let name = exe.rsplit('/').next().unwrap_or_default();
    format!("{pid} {}", shorten(name, 40))
}

fn gpu(process: &ProcessCoverage) -> &'static str {
    match process.gpu_off {
        Some(_) => "not recorded",
        None if process.simulated => "SIMULATED",
        None => "recorded",
    }
}

fn ending(process: &ProcessCoverage) -> String {
    let reason = process.end_reason.as_deref();
    let how = match process.ending {
        FileEnding::Complete => {
            // `exit` is what nobody asks about.
            let sudden = reason.filter(|r| r.starts_with("ended by") || r.starts_with("became"));
            return sudden
                .map_or("complete".into(), |how| format!("complete; written in full, then {how}"));
        }
        FileEnding::Open => reason.unwrap_or("killed or still running"),
        FileEnding::Torn => "cut short",
        FileEnding::Unreadable => "not readable to the end",
    };
    how.to_owned()
}

/// Facts about the capture, each with the number of processes that state it.
fn meta(report: &Report) -> String {
    let mut facts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for process in &report.coverage.processes {
        // What the environment says stands in the table of processes.
        for (key, value) in process.meta.iter().filter(|(key, _)| !key.starts_with("env.")) {
            *facts.entry((key, value)).or_default() += 1;
        }
    }
    if facts.is_empty() {
        return String::new();
    }
    let facts: Vec<_> = facts.into_iter().collect();
    let table = Table::first(ROWS, &facts)
        .left("fact", |((key, _), _)| plain(key))
        .left("value", |((_, value), _)| plain(&shorten(value, 200)))
        .right("processes", |(_, processes)| processes.to_string());
    format!("### The collector's view of the capture\n\n{}", table.markdown())
}

/// Totals of the run, the classes of its kernels, and all instances of all stages.
fn whole_run(report: &Report) -> String {
    let mut out =
        String::from("Cold first calls, warm-ups and work outside of stages included.\n\n");
    let counts = &report.coverage.total;
    let records = report.coverage.gpu_records();
    if records > 0 {
        let placed = counts.attributed as f64 * 100.0 / records as f64;
        let (kernels, placed) = (count(in_part::kernels(report)), percent1(placed));
        out.push_str(&format!(
            "- kernels: {kernels}\n- GPU work placed in a range: {placed} % of its records\n\n"
        ));
    }
    out.push_str(&busy(&report.devices));
    out.extend(in_part::whole_run(report).map(|note| paragraph(&note)));
    let classes: Vec<_> =
        class_sums(&report.kernels).into_iter().filter(|class| class.total_ns > Some(0)).collect();
    if !classes.is_empty() {
        let all_ns = classes.iter().filter_map(|class| class.total_ns).fold(0, u64::saturating_add);
        let table = Table::first(ROWS, &classes)
            .left("class", |class| text(class.class))
            .right("kernel_sum_ms (with cold calls)", |class| class.total_ns.map(ms3))
            .right("% of all kernel time", |class| {
                Some(percent1(class.total_ns? as f64 * 100.0 / all_ns.max(1) as f64))
            })
            .right("calls", |class| count(class.calls));
        out.push_str(&table.markdown());
    }
    out.push_str(&all_instances(report));
    out
}

/// How long the GPUs were busy and idle; nothing where that is not known.
fn busy(devices: &[DeviceRow]) -> String {
    let is_known = |row: &&DeviceRow| row.gpu_span_ns.is_some() && row.gpu_busy_ns.is_some();
    let known: Vec<&DeviceRow> = devices.iter().filter(is_known).collect();
    // What ran side by side counts for each process, and what one leaves idle another may fill.
    let alone = |row: &&DeviceRow| !row.shared_by_processes;
    Table::first(ROWS, &known)
        .left("GPU", |row| match row.shared_by_processes {
            false => text(&row.device),
            true => text(&format!("{}, summed over {} processes", row.device, row.processes)),
        })
        .right("gpu_busy_ms", |row| row.gpu_busy_ns.map(ms3))
        .right("gpu_idle_ms", |row| {
            let idle_ns = row.gpu_span_ns?.saturating_sub(row.gpu_busy_ns?);
            alone(row).then(|| ms3(idle_ns))
        })
        .right("gpu_busy_%", |row| row.gpu_busy_percent.filter(|_| alone(row)).map(percent1))
        .with_note(
            "Idle is the time between the start of the first GPU work and the end of the last during \
             which nothing ran.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{CounterRow, META_SAMPLE, StageDeviceRow};

    #[test]
    fn counts_of_zero_are_in_one_line() {
        let mut report = Report::default();
        report.coverage.total.kernels = 3;
        let text = coverage(&report);
        assert!(
            text.starts_with("| What | Count |\n| --- | ---: |\n| kernels | 3 |\n\n"),
            "{text}"
        );
        assert!(text.contains("Counted as zero: copies; fills; "), "{text}");
    }

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        let with = |rows: usize| {
            let counters = Some(Box::new(CounterRow::default()));
            let row = KernelRow { counters, ..KernelRow::default() };
            roofline(&Report { kernels: vec![row; rows], ..Report::default() })
        };
        assert!(with(30).contains("See kernels.csv for 10 more rows."), "{}", with(30));
        assert!(!with(20).contains("more rows"), "all of them are shown");
    }

    #[test]
    fn a_row_of_a_stage_on_a_gpu_is_of_all_calls() {
        let device = StageDeviceRow {
            gpu_busy_ns: 229_855_000,
            kernels: 1_319_088,
            ..StageDeviceRow::default()
        };
        let stage = StageRow {
            stage: "decode".into(),
            instances: Some(1_653),
            recorded_instances: Some(103),
            devices: vec![device],
            ..StageRow::default()
        };
        let mut report = Report {
            devices: vec![DeviceRow::default(); 2],
            stages: vec![stage],
            ..Report::default()
        };
        // Ranges chose what was recorded: nothing is scaled.
        assert!(stages_by_device(&report).contains("| 229.855 |"));
        let meta = [(META_SAMPLE.to_owned(), "1/16".to_owned())].into();
        report.coverage.processes = vec![ProcessCoverage { meta, ..ProcessCoverage::default() }];
        let table = stages_by_device(&report);
        // As the kernels: 229.855 x 1,653 / 103.
        assert!(table.contains("| 3,688.838 | 1,319,088 |"), "{table}");
        assert!(table.contains("scaled from the recorded ones"), "{table}");
    }

    #[test]
    fn sums_of_one_name_leave_out_cold_calls_in_every_table() {
        let times = |cold_calls| Times {
            calls: 3,
            cold_calls,
            total_ns: 11_079_000,
            cold_total_ns: 2_765_000,
            ..Times::default()
        };
        let row =
            |times| KernelRow { times, counters: Some(Box::default()), ..KernelRow::default() };
        let of = |cold_calls| {
            let kernels = vec![row(times(cold_calls))];
            roofline(&Report { kernels, ..Report::default() })
        };
        assert!(of(1).contains(" | 8.314 |"), "{}", of(1));
        // It ran in cold calls only.
        assert!(!of(3).contains("8.314") && !of(3).contains("11.079"), "{}", of(3));
    }
}
