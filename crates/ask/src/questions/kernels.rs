//! What kernels lose against the rate that the hardware allows, and what memory bandwidth bounds.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{counted, percent1, shown_time};
use stage2_contract::text::shorten_kernel;
use stage2_model::kernels::{Kernel, Loss, class_floors, model_stages, stage_kernels, steps};
use stage2_model::lead::{gain_by_floor, lead_first, longest, lost_of, told};
use stage2_model::{
    Bottleneck, BottleneckKind, BottleneckPart, KernelRow, Report, StageAnswer, StepTimes,
};

use super::time::no_floor;
use super::{
    Subject, TOKEN, WITH_COUNTERS, WITH_NCU, count, figure, mean_of, ms, ms_of, ms_of_step,
    name_of, number, percent_of_share, quoted, text, us,
};
use crate::answer::{Answer, Column, Row, Source, Table};

const KERNEL_CHARS: usize = 60;
/// The class of kernels that may wait for other ranks.
const COMMUNICATION: &str = "communication";
/// Memory-bound kernels in the answer.
const MEMORY_BOUND: usize = 6;

pub(super) fn by_loss(subject: &Subject<'_>, answer: &mut Answer) {
    let report = subject.report;
    let kernels = kernels(subject);
    let steps = steps_of_stages(report);
    let mut losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &steps)).collect();
    let top = top_kernel(subject, &kernels);
    // The order of the console: the stage of the verdict first, in it the kernel that its answer names, and communication,
    // which may only wait, last.
    let stages: HashMap<&str, usize> =
        lead_first(report).map(|answer| answer.stage.as_str()).zip(0..).collect();
    let place = |loss: &Loss<'_>| {
        let row = loss.kernel.row;
        let stage = stages.get(row.stage.as_str()).copied().unwrap_or(usize::MAX);
        let is_top = top.as_ref().is_some_and(|top| std::ptr::eq(top.kernel, loss.kernel));
        (stage, row.class == COMMUNICATION, !is_top)
    };
    // Where the largest loss is not known, the longest first.
    let is_known = top.as_ref().is_none_or(|top| top.lost_ns.is_some());
    let lost = |loss: &Loss<'_>| loss.ns_in_all().filter(|_| is_known).unwrap_or(-1.0);
    let time = |loss: &Loss<'_>| loss.kernel.usual_ns.unwrap_or(0);
    losses.order_by(|a, b| {
        let by_loss = lost(b).total_cmp(&lost(a)).then_with(|| time(b).cmp(&time(a)));
        place(a).cmp(&place(b)).then(by_loss)
    });
    answer.summary = match (&top, losses.first()) {
        (_, None) => "No kernel was recorded.".to_owned(),
        (Some(top), _) => {
            let said = top.sentence(subject) + &waiting(subject, top, &losses);
            said + by_time(subject, &losses, is_known)
        }
        (None, Some(loss)) => without_steps(loss),
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
            ms_of(loss.ns_in_all()),
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
    let noun = noun(subject, &losses);
    let columns = vec![
        Column::text("id").aside(),
        Column::workload("kernel"),
        Column::workload("stage"),
        Column::workload("class"),
        Column::text("bound"),
        Column::number("attains_percent", "percent")
            .of("of the highest rate that its operations per byte allow"),
        Column::number("run_lost_ms", "ms")
            .of("all GPUs, without cold calls: time that it would save at that rate, at the most")
            .aside(),
        Column::number("lost_ms", "ms")
            .of("time of a step that it would save at that rate, at the most"),
        Column::number("per_step_ms", "ms")
            .of("per-GPU average, without cold calls")
            .headed(format!("per {noun} ms"))
            .plain(),
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
        Column::number("mean_us", "us").of("of a call, without cold ones").plain(),
    ];
    let is_by_time = !is_known || losses.iter().all(|loss| loss.attainable.is_none());
    let title = is_by_time.then_some("kernels by time");
    answer.push(Table::new("kernels", columns, rows.collect()).titled(title));
    let unknown = losses.iter().filter(|loss| loss.attainable.is_none());
    let unknown: Vec<&Kernel<'_>> = unknown.map(|loss| loss.kernel).collect();
    not_known(subject, &unknown, &|kernels| format!("what {kernels} lose"), losses.len(), answer);
}

/// Why kernels are in the order of their times, if they are.
fn by_time(subject: &Subject<'_>, losses: &[Loss<'_>], is_known: bool) -> &'static str {
    let is_none_known = losses.iter().all(|loss| loss.attainable.is_none());
    match (is_none_known, is_known) {
        (true, _) if !is_without_samples(subject) => {
            " The loss of each kernel needs hardware counters, so the longest come first."
        }
        (true, _) | (_, false) => " What most kernels lose is not known: the longest come first.",
        (false, true) => "",
    }
}

/// Whether what sampled counters tell could not be read.
fn is_without_samples(subject: &Subject<'_>) -> bool {
    subject.run.left_out.iter().any(|left_out| left_out.starts_with("timelines.json"))
}

/// What the steps of these kernels are called, if those of all stages are.
fn noun(subject: &Subject<'_>, losses: &[Loss<'_>]) -> &'static str {
    let stages: HashSet<&str> = losses.iter().map(|loss| loss.kernel.row.stage.as_str()).collect();
    let steps = subject.answers().filter(|(_, answer)| stages.contains(answer.stage.as_str()));
    let steps = steps.filter_map(|(_, answer)| answer.step.as_ref());
    let nouns: HashSet<&str> = steps
        .map(|step| if step.tokens_per_step == Some(1) { TOKEN } else { step.unit.noun() })
        .collect();
    if nouns.len() == 1 { nouns.into_iter().next().unwrap_or("step") } else { "step" }
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
    let not_counted = unknown.len() - counted;
    if not_counted > 0 && is_without_samples(subject) {
        let reason =
            "what sampled counters say of them is in timelines.json, which could not be read";
        answer.unknown(&question(not_counted), reason, &["report", subject.run.label]);
    } else if not_counted > 0 {
        let reason = "no hardware counters were recorded for them";
        answer.unknown(&question(not_counted), reason, &WITH_COUNTERS);
    }
    if counted > 0 {
        let reason = "their hardware counters do not say it: too few calls were sampled, or ncu did not measure \
                      what it follows from";
        // A deep run did that: more kernels would tell.
        let more = format!("pipeline.ncu.top_n={}", 2 * measured(subject.report).max(MEASURED));
        let [run, deep, rest @ ..] = WITH_NCU;
        let mut passes = subject.report.run.passes.iter();
        let command = match passes.any(|pass| pass.name.as_deref() == Some(NCU)) {
            true => [&[run, deep, &more], &rest[..]].concat(),
            false => WITH_NCU.to_vec(),
        };
        answer.unknown(&question(counted), reason, &command);
    }
}

/// The pass that measures kernels, and how many of each stage it measures where nothing else is set.
const NCU: &str = "ncu";
const MEASURED: usize = 10;

/// The most kernels of a stage that ncu measured.
fn measured(report: &Report) -> usize {
    let measured = report.kernels.iter().filter_map(|row| {
        let place = row.counters.as_ref()?.profiled_in.as_deref()?;
        Some((place, row.name_index))
    });
    let kernels: HashSet<(&str, usize)> = measured.collect();
    let mut of_stages: HashMap<&str, usize> = HashMap::new();
    kernels.iter().for_each(|(stage, _)| *of_stages.entry(stage).or_default() += 1);
    of_stages.into_values().max().unwrap_or(0)
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

/// The kernel that the console names.
struct Top<'k, 'r> {
    answer: &'r StageAnswer,
    kernel: &'k Kernel<'r>,
    ns: f64,
    attainable: Option<f64>,
    /// Where the loss of the kernel is known, ns.
    lost_ns: Option<f64>,
}

/// In the first stage with one, by the rule of the console, which has times of a token where a step has several.
fn top_kernel<'k, 'r>(subject: &Subject<'r>, kernels: &'k [Kernel<'r>]) -> Option<Top<'k, 'r>> {
    let steps = steps(subject.report);
    let losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &steps)).collect();
    let stages = lead_first(subject.report).filter(|answer| subject.has(&answer.stage));
    stages.filter(|answer| answer.step.is_some()).find_map(|answer| {
        let (loss, lost_ns) = told(answer, &losses, &class_floors(answer, &losses))?;
        let kernel = kernels.iter().find(|kernel| std::ptr::eq(*kernel, loss.kernel))?;
        Some(Top { answer, kernel, ns: loss.ns_of_step?, attainable: loss.attainable, lost_ns })
    })
}

impl Top<'_, '_> {
    fn unit(&self) -> &'static str {
        self.answer.step.as_ref().map_or("step", StepTimes::shown_unit)
    }

    /// What the line `kernel` of the console says.
    fn sentence(&self, subject: &Subject<'_>) -> String {
        let row = self.kernel.row;
        let name = quoted(&shorten_kernel(&row.kernel, KERNEL_CHARS));
        let (stage, class, unit) = (quoted(&row.stage), quoted(&row.class), self.unit());
        let Some(lost_ns) = self.lost_ns else {
            let which = longest(subject.report, self.answer);
            let bound = gain_by_floor(subject.report, self.answer, unit);
            let bound = bound.map_or_else(String::new, |bound| format!("{bound}; "));
            let time = shown_time(self.ns);
            return format!(
                "In {stage}, {bound}the {which} is {name} ({class}): {time} per {unit}."
            );
        };
        let lost = lost_of(lost_ns, self.ns);
        let share = self.attainable.map(|share| percent1(share * 100.0));
        let share = share.map_or_else(String::new, |share| {
            format!(", because it attains {share} % of what is possible")
        });
        format!("In {stage}, {name} ({class}) loses most: up to {lost} per {unit}{share}.")
    }
}

/// That a longer kernel of communication waits for other ranks most of its time.
fn waiting(subject: &Subject<'_>, top: &Top<'_, '_>, losses: &[Loss<'_>]) -> String {
    let stage = top.kernel.row.stage.as_str();
    let of_stage = losses.iter().filter(|loss| loss.kernel.row.stage == stage);
    let communication = of_stage.filter(|loss| loss.kernel.row.class == COMMUNICATION);
    let longest = communication.max_by_key(|loss| loss.kernel.usual_ns);
    let Some(loss) = longest.filter(|loss| loss.kernel.usual_ns > top.kernel.usual_ns) else {
        return String::new();
    };
    let name = quoted(&shorten_kernel(&loss.kernel.row.kernel, KERNEL_CHARS));
    let mut parts = top.answer.bottleneck.iter().flat_map(|found| &found.parts);
    let waits = parts.find(|part| part.kind == BottleneckKind::Ranks);
    let mut late = subject.report.ranks.late.iter();
    let late = late.find(|late| late.stage == stage && late.delays.is_some());
    let late = late.map_or_else(|| "other ranks".to_owned(), |late| quoted(&late.who));
    // Both are of the same steps.
    let share =
        loss.kernel.usual_ns.unwrap_or(0) as f64 / top.kernel.usual_ns.unwrap_or(1).max(1) as f64;
    let time = shown_time(top.ns * share);
    let unit = top.unit();
    match waits {
        Some(part) => format!(
            " {name}, which communicates, takes {time} per {unit}; of communication, {} is waiting for {late}.",
            shown_time(part.ns as f64)
        ),
        None => format!(
            " {name}, which communicates, takes {time} per {unit}, and may wait for other ranks in it."
        ),
    }
}

/// The first kernel where no steps are known.
fn without_steps(loss: &Loss<'_>) -> String {
    let row = loss.kernel.row;
    let kernel = quoted(&shorten_kernel(&row.kernel, KERNEL_CHARS));
    let stage = quoted(&row.stage);
    match (loss.ns_in_all(), loss.kernel.usual_ns) {
        (Some(ns), _) => {
            format!("{kernel} loses most: up to {} in all of {stage}.", shown_time(ns))
        }
        (None, Some(ns)) => format!(
            "{kernel} takes most time of the kernels of {stage}: {} in all; what they lose is not known without hardware \
             counters.",
            shown_time(ns as f64)
        ),
        (None, None) => format!("The kernels of {stage} were not timed."),
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
            let kernels = match memory.len() as u64 {
                1 => "1 kernel is".to_owned(),
                all => format!("{} are", counted(all, "kernel")),
            };
            let is_above = |stage: &StageAnswer| {
                let found = stage.bottleneck.as_ref();
                let is_over = found.is_some_and(|found| found.kernels_over_floor.is_some());
                is_over && stage.floor.memory_ns.value().is_some()
            };
            let above = subject.answers().filter(|(_, stage)| is_above(stage));
            let above: Vec<String> = above.map(|(_, stage)| quoted(&stage.stage)).collect();
            match above.is_empty() {
                true => {
                    format!("{kernels} bound by memory; whether a whole stage is, is not known.")
                }
                false => format!(
                    "{kernels} bound by memory; the kernels of {} as a whole are not.",
                    above.join(", ")
                ),
            }
        }
        (true, true) => "No stage or kernel is known to be bound by memory bandwidth.".to_owned(),
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

/// Whether it is known what bounds the kernels of a stage: without a floor, that they are not at it is not.
fn is_judged(bottleneck: &Bottleneck, kernels: &BottleneckPart) -> bool {
    kernels.kind != BottleneckKind::Kernels || bottleneck.kernels_over_floor.is_some()
}

fn stages(subject: &Subject<'_>) -> Table {
    let mut rows = Vec::new();
    for (at, stage) in subject.answers() {
        let Some(bottleneck) = &stage.bottleneck else { continue };
        let kernels = bottleneck.kernels();
        let cells = vec![
            text(&stage.stage),
            kernels
                .filter(|part| is_judged(bottleneck, part))
                .map_or(Value::Null, |part| name_of(&part.kind)),
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
        Column::text("kernels_bound_by")
            .of("kernels: far above the floors that are known")
            .said_as(&[("kernels", "neither")]),
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
            .of("of the peak bandwidth while the GPU is busy")
            .at("/mbu_busy/known"),
        Column::number("mbu_wall_percent", "percent")
            .of("over all of the time")
            .at("/mbu_wall/known"),
        Column::number("mfu_busy_percent", "percent")
            .of("of the peak FLOP/s while the GPU is busy")
            .at("/mfu_busy/known"),
        Column::number("mfu_wall_percent", "percent")
            .of("over all of the time")
            .at("/mfu_wall/known"),
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
            percent_of_share(kernel.attainable),
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
