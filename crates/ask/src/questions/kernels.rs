//! What kernels lose against the rate that the hardware allows, and what memory bandwidth bounds.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{counted, percent1, shown_time};
use stage2_contract::text::shorten_kernel;
use stage2_model::kernels::{Kernel, Loss, model_stages, stage_kernels, steps};
use stage2_model::{BottleneckKind, KernelRow, Report};

use super::time::no_floor;
use super::{
    Subject, WITH_COUNTERS, WITH_NCU, count, figure, mean_of, ms, ms_of, ms_of_step, name_of,
    number, percent_of_share, quoted, text, us,
};
use crate::answer::{Answer, Column, Row, Source, Table};

const KERNEL_CHARS: usize = 80;
/// Memory-bound kernels in the answer.
const MEMORY_BOUND: usize = 6;

pub(super) fn by_loss(subject: &Subject<'_>, answer: &mut Answer) {
    let kernels = kernels(subject);
    let steps = steps_of_stages(subject.report);
    let mut losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &steps)).collect();
    let known = Known::of(&losses);
    // The most lost in the run first, and what is not known behind what is. Kernels of a small part of the time say
    // nothing about the others: then the longest first.
    losses.order_by(|a, b| {
        let lost = |loss: &Loss<'_>| match known.is_most() {
            true => lost_ns(loss).unwrap_or(-1.0),
            false => loss.kernel.usual_ns.map_or(-1.0, |ns| ns as f64),
        };
        lost(b).total_cmp(&lost(a))
    });
    answer.summary = match losses.first() {
        None => "No kernel was recorded.".to_owned(),
        Some(loss) => sentence(loss, &known),
    };
    let (sources, recorded) = (sources(subject.report), recorded_calls(subject.report));
    let rows = losses.iter().map(|loss| {
        let Kernel { row, total_ns, calls, percent, .. } = loss.kernel;
        let cells = vec![
            id(&row.kernel_id),
            text(&shorten_kernel(&row.kernel, KERNEL_CHARS)),
            text(&row.stage),
            text(&row.class),
            bound_of(loss.kernel).map_or(Value::Null, Value::from),
            percent_of_share(loss.attainable),
            ms_of(lost_ns(loss)),
            ms_of(loss.ns_per_step),
            ms_of(loss.ns_of_step),
            ms(*total_ns),
            number(*percent),
            count(*calls),
            count(recorded.get(&(row.stage.as_str(), row.name_index)).copied()),
            us(loss.kernel.usual_mean_ns()),
        ];
        Row { cells, source: sources.get(&(row.stage.as_str(), row.name_index)).cloned() }
    });
    let columns = vec![
        Column::text("id").aside(),
        Column::workload("kernel"),
        Column::workload("stage"),
        Column::workload("class"),
        Column::text("bound"),
        Column::number("attains_percent", "percent")
            .of("of the rate that the hardware allows at its operations per byte"),
        Column::number("run_lost_ms", "ms")
            .of("all GPUs, without cold calls: what it would not need at that rate"),
        Column::number("lost_ms", "ms").of("per step: per_step_ms x (100 % - attains_percent)"),
        Column::number("per_step_ms", "ms").of("on one GPU on average, without cold calls"),
        Column::number("total_ms", "ms")
            .of("all GPUs, the whole run")
            .at("/total_ns")
            .sum_of("/5")
            .aside(),
        Column::number("percent", "percent")
            .of("of the kernel time of the stage, without cold calls"),
        Column::number("calls", "count").of("the whole run").at("/calls").sum_of("/4").aside(),
        Column::number("recorded", "count")
            .of("calls that were recorded, from which calls and total_ms are scaled; null: all")
            .aside(),
        Column::number("mean_us", "us").of("without cold calls"),
    ];
    answer.push(Table::new("kernels", columns, rows.collect()));
    let unknown = losses.iter().filter(|loss| loss.attainable.is_none());
    let unknown: Vec<&Kernel<'_>> = unknown.map(|loss| loss.kernel).collect();
    not_known(subject, &unknown, &|kernels| format!("what {kernels} lose"), losses.len(), answer);
}

/// Says of so many kernels why something is not known of these.
fn not_known(
    subject: &Subject<'_>,
    unknown: &[&Kernel<'_>],
    question: &dyn Fn(&str) -> String,
    all: usize,
    answer: &mut Answer,
) {
    let is_counted =
        |kernel: &&&Kernel<'_>| kernel.counters.is_some() || kernel.row.sampled.is_some();
    let counted = unknown.iter().filter(is_counted).count();
    let question = |count: usize| question(&format!("{count} of {all} kernels"));
    let is_without_samples =
        subject.run.left_out.iter().any(|left_out| left_out.starts_with("timelines.json"));
    let not_counted = unknown.len() - counted;
    if not_counted > 0 && is_without_samples {
        let reason =
            "what sampled counters say of them is in timelines.json, which could not be read";
        answer.unknown(&question(not_counted), reason, &["report", subject.run.label]);
    } else if not_counted > 0 {
        let reason = "no hardware counters of them were recorded";
        answer.unknown(&question(not_counted), reason, &WITH_COUNTERS);
    }
    if counted > 0 {
        let reason = "their hardware counters do not say it: too few calls were sampled, or ncu did not measure \
                      what it follows from";
        answer.unknown(&question(counted), reason, &WITH_NCU);
    }
}

/// Calls that were recorded, of the kernels whose calls are scaled from a sample.
fn recorded_calls(report: &Report) -> HashMap<(&str, usize), u64> {
    let is_scaled = |row: &&KernelRow| row.times.recorded_calls.is_some();
    let scaled = report.kernels.iter().filter(is_scaled);
    let mut recorded: HashMap<_, u64> = scaled.map(|row| (kernel_of(row), 0)).collect();
    for row in &report.kernels {
        let Some(sum) = recorded.get_mut(&kernel_of(row)) else { continue };
        // Those of other rows of the kernel were all recorded.
        *sum = sum.saturating_add(row.times.recorded_calls.unwrap_or(row.times.calls));
    }
    recorded
}

/// Rows with the same are one kernel of a stage.
fn kernel_of(row: &KernelRow) -> (&str, usize) {
    (&row.stage, row.name_index)
}

/// How many steps of each stage all GPUs took. The model counts tokens where a step has several.
fn steps_of_stages(report: &Report) -> BTreeMap<&str, f64> {
    let mut counts = steps(report);
    for stage in &report.answer.stages {
        let tokens = stage.step.as_ref().and_then(|step| step.tokens_per_step);
        if let (Some(count), Some(tokens)) = (counts.get_mut(stage.stage.as_str()), tokens) {
            *count /= tokens.max(1) as f64;
        }
    }
    counts
}

/// Time of the run, without cold instances, that a kernel would not need at the attainable rate, ns.
fn lost_ns(loss: &Loss<'_>) -> Option<f64> {
    Some(loss.kernel.usual_ns? as f64 * (1.0 - loss.attainable?))
}

/// The kernels whose loss is known.
struct Known {
    kernels: usize,
    all: usize,
    /// Their part of the kernel time, percent.
    percent: f64,
}

/// From this part of the kernel time on, one of them loses most of all, percent.
const MOST_PERCENT: f64 = 50.0;

impl Known {
    fn of(losses: &[Loss<'_>]) -> Self {
        let known = || losses.iter().filter(|loss| lost_ns(loss).is_some());
        let ns = |loss: &Loss<'_>| loss.kernel.usual_ns.unwrap_or(0) as f64;
        let all_ns: f64 = losses.iter().map(ns).sum();
        let percent = known().map(ns).sum::<f64>() * 100.0 / all_ns.max(1.0);
        Self { kernels: known().count(), all: losses.len(), percent }
    }

    fn is_most(&self) -> bool {
        self.percent >= MOST_PERCENT
    }
}

fn sentence(loss: &Loss<'_>, known: &Known) -> String {
    let row = loss.kernel.row;
    let kernel = quoted(&shorten_kernel(&row.kernel, KERNEL_CHARS));
    let stage = quoted(&row.stage);
    let lost = lost_ns(loss).filter(|_| known.is_most());
    match (lost, loss.ns_per_step, loss.attainable) {
        (Some(_), Some(ns), Some(share)) => format!(
            "{kernel} loses most: {} per step of {stage}, because it attains {} % of what is possible.",
            shown_time(ns),
            percent1(share * 100.0)
        ),
        (Some(ns), None, _) => {
            format!("{kernel} loses most: {} in all of {stage}.", shown_time(ns))
        }
        _ => {
            let takes = match (loss.ns_of_step, loss.kernel.usual_ns) {
                (Some(ns), _) => format!("{} per step of {stage}", shown_time(ns)),
                (None, Some(ns)) => format!("{} in all of {stage}", shown_time(ns as f64)),
                (None, None) => format!("in {stage}, whose kernels were not timed"),
            };
            let of = match known.kernels {
                0 => "what kernels lose is not known without hardware counters".to_owned(),
                kernels => format!(
                    "what they lose is known for {kernels} of {} ({} % of the kernel time)",
                    counted(known.all as u64, "kernel"),
                    percent1(known.percent)
                ),
            };
            format!("{kernel} takes most time of all kernels: {takes}; {of}.")
        }
    }
}

fn kernels<'r>(subject: &Subject<'r>) -> Vec<Kernel<'r>> {
    let mut kernels = stage_kernels(subject.report);
    kernels.retain(|kernel| subject.has(&kernel.row.stage));
    if subject.stage.is_none() {
        // Warm-ups, operators and work outside of ranges lose nothing of a step.
        let names: HashSet<&str> =
            model_stages(subject.report).map(|row| row.stage.as_str()).collect();
        kernels.retain(|kernel| names.contains(kernel.row.stage.as_str()));
    }
    kernels
}

/// Where the numbers of a kernel of a stage are in the report: `/stage_kernels` has those with the longest times; the
/// others are sums over rows of the table of kernels.
fn sources(report: &Report) -> HashMap<(&str, usize), Source> {
    let mut sources: HashMap<_, Source> = HashMap::new();
    for (at, row) in report.stage_kernels.iter().enumerate() {
        let place = Source::Place(format!("/stage_kernels/{at}"));
        sources.insert((row.stage.as_str(), row.name_index), place);
    }
    for (at, row) in report.kernels.iter().enumerate() {
        let source = sources.entry(kernel_of(row));
        if let Source::Sum(places) = source.or_insert_with(|| Source::Sum(Vec::new())) {
            places.push(format!("/kernels/rows/{at}"));
        }
    }
    sources
}

pub(super) fn memory_bound(subject: &Subject<'_>, answer: &mut Answer) {
    let stages = stages(subject);
    let bound: Vec<String> = subject
        .answers()
        .filter(|(_, stage)| {
            let kernels = stage.bottleneck.as_ref().and_then(|bottleneck| bottleneck.kernels());
            kernels.is_some_and(|part| part.kind == BottleneckKind::Memory)
        })
        .map(|(_, stage)| quoted(&stage.stage))
        .collect();
    let kernels = kernels(subject);
    let memory: Vec<&Kernel<'_>> = kernels.iter().filter(|kernel| is_memory(kernel)).collect();
    answer.summary = match (bound.is_empty(), memory.is_empty()) {
        (false, _) => format!("Memory bandwidth bounds the kernels of {}.", bound.join(", ")),
        (true, false) => {
            format!(
                "{} kernels are bound by memory; of no stage is this known as a whole.",
                memory.len()
            )
        }
        (true, true) => {
            "No stage and no kernel is known to be bound by memory bandwidth.".to_owned()
        }
    };
    answer.push(stages);
    answer.push(utilisation(subject));
    answer.push(sampled(subject));
    answer.push(memory_kernels(subject.report, &memory));
    no_floor(subject, "memory floor", |stage| &stage.floor.memory_ns, answer);
    let unknown: Vec<&Kernel<'_>> =
        kernels.iter().filter(|kernel| bound_of(kernel).is_none()).collect();
    not_known(subject, &unknown, &|of| format!("what bounds {of}"), kernels.len(), answer);
}

/// The id of a kernel; null where the report has none, or something else in its place.
fn id(id: &str) -> Value {
    let is_id = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric());
    if is_id { text(id) } else { Value::Null }
}

/// What holds it up; nothing also where ncu measured it and could not tell.
fn bound_of(kernel: &Kernel<'_>) -> Option<String> {
    let is_told = kernel.counters.is_none_or(|counters| counters.roofline.bound.is_some());
    kernel.known_bound().filter(|_| is_told)
}

fn is_memory(kernel: &Kernel<'_>) -> bool {
    kernel.known_bound().is_some_and(|bound| bound.starts_with("memory"))
}

fn stages(subject: &Subject<'_>) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in subject.answers() {
        let Some(bottleneck) = &stage.bottleneck else { continue };
        let kernels = bottleneck.kernels();
        let cells = vec![
            text(&stage.stage),
            kernels.map_or(Value::Null, |part| name_of(&part.kind)),
            kernels.map_or(Value::Null, |part| ms_of_step(stage, part.ns)),
            ms_of(stage.floor.memory_ns.value()),
            ms_of(stage.floor.compute_ns.value()),
            number(bottleneck.kernels_over_floor),
            number(kernels.map(|part| bottleneck.percent(part))),
        ];
        rows.push(Row::new(format!("/answer/stages/{at}"), cells));
    }
    let of = mean_of(subject.answers().map(|(_, stage)| stage));
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::text("kernels_bound_by").of("kernels: far from the floor, or not known"),
        Column::number("kernels_ms", "ms").of(of),
        Column::number("memory_floor_ms", "ms")
            .of("weights and KV cache of a step at the peak bandwidth")
            .at("/floor/memory_ns/known"),
        Column::number("compute_floor_ms", "ms").at("/floor/compute_ns/known"),
        Column::number("kernels_over_floor", "ratio").at("/bottleneck/kernels_over_floor"),
        Column::number("percent", "percent").of(format!("kernels in {of}")),
    ];
    Table::new("stages", columns, rows)
}

/// MFU and MBU, by the shape of the model.
fn utilisation(subject: &Subject<'_>) -> Table {
    let usage = subject.report.insight.utilisation.iter();
    let rows = usage.flat_map(|usage| usage.numbers.stages.iter().enumerate());
    let rows = rows.filter(|(_, row)| subject.has(&row.stage)).filter_map(|(at, row)| {
        let shares = [&row.mbu_busy, &row.mbu_wall, &row.mfu_busy, &row.mfu_wall];
        shares.iter().find_map(|share| share.value())?;
        let mut cells = vec![text(&row.stage)];
        cells.extend(shares.map(|share| percent_of_share(share.value())));
        cells.push(figure(&row.bytes));
        Some(Row::new(format!("/utilisation/stages/{at}"), cells))
    });
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::number("mbu_busy_percent", "percent")
            .of("of peak bandwidth, GPU busy time")
            .at("/mbu_busy/known"),
        Column::number("mbu_wall_percent", "percent").of("wall time").at("/mbu_wall/known"),
        Column::number("mfu_busy_percent", "percent")
            .of("of peak FLOP/s, GPU busy time")
            .at("/mfu_busy/known"),
        Column::number("mfu_wall_percent", "percent").of("wall time").at("/mfu_wall/known"),
        Column::number("bytes", "bytes").of("weights and KV cache of one call").at("/bytes/known"),
    ];
    Table::new("utilisation", columns, rows.collect())
}

/// What sampled counters say of the stages.
fn sampled(subject: &Subject<'_>) -> Table {
    let stages =
        subject.report.sampled.iter().flat_map(|sampled| sampled.stages.iter().enumerate());
    let rows = stages.filter(|(_, row)| subject.has(&row.stage)).map(|(at, row)| {
        let cells = vec![
            text(&row.stage),
            text(&row.device),
            number(row.rates.dram_percent),
            number(row.rates.tensor_percent),
            number(row.rates.sm_active_percent),
            number(row.coverage_percent),
        ];
        Row::new(format!("/sampled/stages/{at}"), cells)
    });
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::workload("gpu").at("/device"),
        Column::number("dram_percent", "percent")
            .of("of peak bandwidth, GPU window")
            .at("/rates/dram_percent"),
        Column::number("tensor_percent", "percent")
            .of("cycles with tensor work")
            .at("/rates/tensor_percent"),
        Column::number("sm_active_percent", "percent").at("/rates/sm_active_percent"),
        Column::number("covered_percent", "percent")
            .of("of the window, by samples")
            .at("/coverage_percent"),
    ];
    Table::new("sampled", columns, rows.collect()).usually(8)
}

fn memory_kernels(report: &Report, kernels: &[&Kernel<'_>]) -> Table {
    let sources = sources(report);
    let rows = kernels.iter().map(|kernel| {
        let row = kernel.row;
        let dram = match kernel.counters {
            Some(counters) => counters.dram_percent,
            None => row.sampled.as_ref().and_then(|sampled| sampled.dram_percent),
        };
        let cells = vec![
            id(&row.kernel_id),
            text(&shorten_kernel(&row.kernel, KERNEL_CHARS)),
            text(&row.stage),
            kernel.known_bound().map_or(Value::Null, Value::from),
            number(dram),
            percent_of_share(kernel.attainable()),
            number(kernel.percent),
        ];
        Row { cells, source: sources.get(&(row.stage.as_str(), row.name_index)).cloned() }
    });
    let columns = vec![
        Column::text("id").aside(),
        Column::workload("kernel"),
        Column::workload("stage"),
        Column::text("bound"),
        Column::number("dram_percent", "percent").of("of the peak bandwidth"),
        Column::number("attains_percent", "percent").of("of the attainable rate"),
        Column::number("percent", "percent").of("of the kernel time of the stage"),
    ];
    Table::new("memory_bound_kernels", columns, rows.collect()).usually(MEMORY_BOUND)
}
