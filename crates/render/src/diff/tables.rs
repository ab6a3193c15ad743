//! A comparison -> its tables, for Markdown and pages: stages, runs, parts, kernels, the whole run, and what else differs.

use super::{ALWAYS, LABEL_CHARS, REPEATS, option_of};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{ABSENT, count, counted, or_absent, shown_time};
use stage2_contract::text::{code, listed, plain, shorten, shorten_kernel};
use stage2_diff::{
    ComparedRun, Comparison, ConditionResult, Difference, GONE, LibraryChange, MatchedBy,
    MetricChange, MetricUnit, NOT_COMPARABLE, NOT_RECORDED, NoiseMethod, NoiseText, Outcome, Per,
    Presence, StageChange, WorkChange, WorkSide, digits_to_subtract, ends_text, in_folder, signed,
    signed_time,
};

use super::words::{MEDIANS, MIXED, caption, pace};
use crate::table::{KERNELS, Table, capitalised, name, paragraph, sentence, text};

/// What a number behind the name of a kernel means.
const NUMBERED: &str = "Numbers such as #2 tell apart kernels that have the same short name, and differ in template \
                        arguments or parameters.";

/// Other differences than those of the numbers.
const DIFFERENCES: usize = 20;
const KERNEL_CHARS: usize = 80;
/// Share of the stage's kernel time below which a change of a class is left out, percent.
const LEAST_OF_CLASS_PERCENT: f64 = 1.0;
/// A window that is so many times the time to the next step overlaps it.
const LONGER: f64 = 1.05;
/// Stages in the table of all.
const STAGE_ROWS: usize = 20;
/// Kernels of a stage: so many at least, and more while the others hold more than this share of all changes.
const WORK_ROWS: usize = 12;
const WORK_ROWS_MOST: usize = 48;
const LEFT_OUT: f64 = 0.05;
/// Stages whose metrics and kernels are shown.
const STAGES: usize = 4;

/// A number of the stages in each run of both sides: what the median of a side is of.
pub(super) struct OfRuns<'c> {
    /// `decode, ms per token`.
    pub(super) name: String,
    pub(super) metric: &'c MetricChange,
}

/// The times and the tokens per second of the stages, where a side has several runs.
pub(super) fn of_runs(of: &Comparison) -> Vec<OfRuns<'_>> {
    if of.is_of_two_runs() {
        return Vec::new();
    }
    let stages = of.of_model().into_iter().take(STAGES);
    let numbers = stages.filter(|stage| stage.presence == Presence::Both).flat_map(|stage| {
        let time =
            stage_time(stage).map(|(time, _)| (time, format!("ms{}", stage.per_of(&time.metric))));
        let rate = rate(stage).map(|rate| (rate, "tokens/s".to_owned()));
        time.into_iter().chain(rate).map(move |(metric, unit)| OfRuns {
            name: format!("{}, {unit}", shorten(&stage.stage, LABEL_CHARS)),
            metric,
        })
    });
    numbers.collect()
}

/// The numbers of each run, which the medians of the stages are of.
pub(super) fn run_table(of: &Comparison) -> String {
    let numbers = of_runs(of);
    match numbers.is_empty() {
        true => String::new(),
        false => {
            format!("## Individual runs\n\n{}", run_values(of, &numbers))
        }
    }
}

/// A row for each run.
pub(super) fn run_values(of: &Comparison, numbers: &[OfRuns<'_>]) -> String {
    let before = of.before.iter().enumerate().map(|(at, run)| (0, at, run));
    let after = of.after.iter().enumerate().map(|(at, run)| (1, at, run));
    let rows: Vec<(usize, usize, &ComparedRun)> = before.chain(after).collect();
    let mut table = Table::first(RUN_ROWS, &rows)
        .left("side", |(side, ..)| if *side == 0 { "before" } else { "after" }.to_owned())
        .left("run", |(.., run)| code(&shorten(in_folder(&run.label).1, LABEL_CHARS)));
    for number in numbers {
        table = table.right(&number.name, |(side, at, _)| {
            let (values, runs) = match side {
                0 => (&number.metric.before_runs, &of.before),
                _ => (&number.metric.after_runs, &of.after),
            };
            // Otherwise it is not known which run has which.
            let value = values.get(*at).filter(|_| values.len() == runs.len())?;
            Some(number.metric.shown(*value))
        });
    }
    table.markdown_with_rest_in("the JSON")
}

/// Runs in a table.
const RUN_ROWS: usize = 64;

/// The stages that have their own numbers. Warm-ups, operators and similar rows are only in the table of all.
pub(super) fn shown_stages(of: &Comparison) -> impl Iterator<Item = &StageChange> {
    of.stages.iter().filter(|stage| is_shown(stage)).take(STAGES)
}

pub(super) fn condition_table(of: &Comparison) -> String {
    match of.conditions.is_empty() {
        true => String::new(),
        false => format!("## Conditions\n\n{}", conditions(&of.conditions)),
    }
}

pub(super) fn stage_table(of: &Comparison) -> String {
    format!("## Stages\n\n{}{}", stages(of), caption(of, MEDIANS))
}

pub(super) fn other_tables(of: &Comparison) -> String {
    let mut out = String::new();
    if !of.differences.is_empty() {
        let differences = differences(&of.differences);
        out.push_str(&format!("## Other differences\n\n{differences}"));
    }
    if !of.libraries.is_empty() {
        out.push_str(&format!("## Libraries and their kernels\n\n{}", libraries(&of.libraries)));
    }
    if !of.run.is_empty() {
        let rows: Vec<&MetricChange> = of.run.iter().collect();
        out.push_str(&format!("## Whole run\n\n{}{}", metrics(&rows, None), caption(of, MEDIANS)));
    }
    out
}

pub(super) fn is_shown(stage: &StageChange) -> bool {
    let is_whole = stage.presence == Presence::Both && !stage.work.is_empty();
    is_whole && stage.apart.is_none() && stage.per != Per::Run
}

pub(super) fn conditions(rows: &[ConditionResult]) -> String {
    let outcome = |row: &ConditionResult| match row.outcome {
        Outcome::Passed if row.expected => "met",
        Outcome::Failed if row.expected => "**not met**",
        Outcome::Passed => "passed",
        Outcome::Undecided => "**not decided**",
        Outcome::Failed => "**failed**",
        Outcome::NotEvaluated => "**failed: could not be evaluated**",
    };
    Table::new(rows)
        .left("condition", |row| code(&format!("{} '{}'", option_of(row), row.condition)))
        .left("outcome", |row| outcome(row).to_owned())
        .left("why", |row| text(&row.text))
        .markdown()
}

pub(super) fn differences(rows: &[Difference]) -> String {
    let (open, known): (Vec<&Difference>, Vec<&Difference>) =
        rows.iter().partition(|row| row.meaning == NOT_RECORDED);
    // They are nothing that differs.
    let names: Vec<&str> = open.iter().map(|row| row.what.as_str()).collect();
    let open = match names.is_empty() {
        true => String::new(),
        false => {
            paragraph(&format!("Recorded on one side only: {}.", plain(&listed(&names, ONE_SIDED))))
        }
    };
    let table = Table::first(DIFFERENCES, &known)
        .left("severity", |row| row.severity.to_string())
        .left("what", |row| text(&row.what))
        .left("before", |row| text(&row.before))
        .left("after", |row| text(&row.after))
        .left("what it means", |row| text(&row.meaning));
    let rows =
        if known.is_empty() { String::new() } else { table.markdown_with_rest_in("the JSON") };
    rows + &open
}

/// Names of what only one side has recorded.
const ONE_SIDED: usize = 12;

/// Libraries.
const LIBRARIES: usize = 30;

/// Versions, next to the kernels that came, went or changed.
pub(super) fn libraries(rows: &[LibraryChange]) -> String {
    let number = |number: u64| (number > 0).then(|| count(number));
    let version = |version: &Option<String>| version.as_deref().map(text);
    Table::first(LIBRARIES, rows)
        .left("library", |row| match row.library.as_str() {
            "" => "other kernels".to_owned(),
            library => text(library),
        })
        .left("version before", |row| version(&row.before))
        .left("version after", |row| version(&row.after))
        .right("kernels new", |row| number(row.new))
        .right(GONE, |row| number(row.vanished))
        .right("under another name", |row| number(row.renamed))
        .right("time changed", |row| number(row.changed))
        .markdown_with_rest_in("the JSON")
}

/// The time of a stage, the first that both sides have, and which value it is.
pub(super) fn stage_time(stage: &StageChange) -> Option<(&MetricChange, &'static str)> {
    const TIMES: [(&str, &str); 5] = [
        ("token_ms", "p50"),
        ("step_ms", "p50"),
        ("host_ms", "mean"),
        ("gpu_busy_ms", "GPU busy"),
        ("kernel_ms", "sum of kernels"),
    ];
    let find = |is: fn(&MetricChange) -> bool| {
        let known = |metric| stage.metric(metric).filter(|metric| is(metric));
        let mut times = TIMES.iter().filter(|(metric, _)| stage.has_time(metric));
        times.find_map(|(metric, label)| {
            let of_calls = *metric == "token_ms" && stage.has_tokens_of_calls();
            Some((known(metric)?, if of_calls { "call p50" } else { *label }))
        })
    };
    find(|metric| metric.change.is_some()).or_else(|| find(|_| true))
}

/// What a stage delivers, where both sides know it, and do the same work for it.
pub(super) fn rate(stage: &StageChange) -> Option<&MetricChange> {
    let rate = stage.metric("tokens_per_s").filter(|rate| rate.change.is_some());
    rate.filter(|_| stage.other_work.is_none())
}

/// What those who use a server feel, where its requests are known.
const LATENCIES: [&str; 3] = ["ttft_ms", "tpot_ms", "request_ms"];

/// The time of each stage, of a step where it is known, its tokens per second, and the latencies of requests.
pub(super) fn stages(of: &Comparison) -> String {
    if of.stages.is_empty() {
        return paragraph("None: neither side has a stage with GPU work.");
    }
    /// A stage, or the run, and what a number of it is, in its unit; nothing of a stage without any time.
    type Row<'r> = (Option<&'r StageChange>, Option<(&'r MetricChange, String)>);
    let own = |row: &Row<'_>, side: usize| {
        Some(row.0?.own_times.as_ref().filter(|_| row.1.is_none())?.get(side)?.text())
    };
    let of_model = of.of_model();
    fn latencies(metrics: &[MetricChange]) -> impl Iterator<Item = (&MetricChange, String)> {
        let known = |name: &&str| metrics.iter().find(|metric| metric.metric == **name);
        let known = LATENCIES.iter().filter_map(known).filter(|metric| metric.change.is_some());
        known.map(|metric| (metric, metric.label()))
    }
    let rows = of_model.iter().flat_map(|&stage| {
        let time = stage_time(stage).map(|(metric, label)| {
            (metric, format!("ms{}, {label}", stage.per_of(&metric.metric)))
        });
        let rate = rate(stage).map(|rate| (rate, "tokens/s, mean".to_owned()));
        let others = rate.into_iter().chain(latencies(&stage.metrics)).map(Some);
        std::iter::once(time).chain(others).map(move |number| (Some(stage), number))
    });
    let of_run = latencies(&of.run).map(|number| (None, Some(number)));
    let rows: Vec<Row<'_>> = rows.chain(of_run).collect();
    fn of_metric<T>(row: &Row<'_>, show: impl Fn(&MetricChange) -> T) -> Option<T> {
        row.1.as_ref().map(|(metric, _)| show(metric))
    }
    let verdict = |row: &Row<'_>| match row.0.map(|stage| (stage, stage.presence)) {
        None => of_metric(row, |metric| metric.word().to_owned()),
        Some((_, Presence::Both)) if own(row, 0).is_some() => Some(NOT_COMPARABLE.to_owned()),
        Some((_, Presence::New)) => Some("new".to_owned()),
        Some((_, Presence::Vanished)) => Some(GONE.to_owned()),
        Some((stage, Presence::Both)) => of_metric(row, |metric| stage.word(metric).to_owned()),
    };
    let numbers: Vec<&MetricChange> =
        rows.iter().filter_map(|row| Some(row.1.as_ref()?.0)).collect();
    let cell =
        |row: &Row<'_>, at: usize| of_metric(row, |m| aligned_cells(m, &numbers)[at].clone());
    let other_work = |row: &Row<'_>| row.0.and_then(|stage| stage.other_work.clone());
    let table = Table::first(STAGE_ROWS, &rows)
        .left("stage", |row| row.0.map_or("(whole run)".to_owned(), |stage| name(&stage.stage)))
        .left("number", |row| match &row.1 {
            Some((_, what)) => Some(text(what)),
            None => own(row, 0).map(|_| "p50".to_owned()),
        })
        .right("before", |row| own(row, 0).or_else(|| cell(row, 0)))
        .right("after", |row| own(row, 1).or_else(|| cell(row, 1)))
        .right("change", |row| cell(row, 2))
        .right("change %", |row| of_metric(row, percent_cell))
        .left("factor", |row| row.1.as_ref().and_then(|(metric, _)| factor(metric)))
        .left("difference", |row| match (verdict(row), other_work(row)) {
            (Some(word), Some(why)) if word == NOT_COMPARABLE => {
                Some(text(&format!("{word}: {why}")))
            }
            (word, _) => word,
        })
        .left(NOISE, |row| match row.0.is_none_or(|stage| stage.presence == Presence::Both) {
            // Of steps that do different work, the noise decides nothing.
            true if verdict(row).is_some_and(|word| word != NOT_COMPARABLE) => {
                of_metric(row, noise_cell)
            }
            _ => None,
        })
        .left(NAME, |row| of_metric(row, |m| in_condition(m, row.0)))
        .markdown_with_rest_in("the JSON");
    let apart = of.stages.len() - of_model.len();
    if apart == 0 {
        return table;
    }
    let apart = counted(apart as u64, "range");
    table + &paragraph(&format!("Not shown: {apart} outside the model (warm-ups, operators)."))
}

pub(super) fn details(of: &Comparison, stage: &StageChange) -> String {
    let mut out = String::new();
    // What an instance of a stage is called, the reports know.
    let per = if stage.per == Per::Instance { stage.per_word() } else { &stage.per_text };
    if let Some(why) = &stage.other_work {
        out.push_str(&sentence(&format!("The sides are not comparable: {why}.")));
        out.push(' ');
    }
    let busy = stage.metric("gpu_busy_ms").and_then(|busy| Some(busy.change? * 1e6));
    // A reader compares the two.
    let sum = signed_time(stage.work_total.change_ns);
    let overlaps = match busy.map(signed_time) {
        Some(change) if change == sum => String::new(),
        Some(change) if stage.has_other_busy() => {
            format!("; GPU busy ({change}) leaves out outliers and counts overlaps once")
        }
        Some(change) => {
            format!("; GPU busy ({change}) counts overlaps once")
        }
        None => String::new(),
    };
    let change = match stage.work.iter().any(|row| row.word == NOT_COMPARABLE) {
        true => String::new(),
        false => format!(", {sum}{overlaps}"),
    };
    out.push_str(&sentence(&format!(
        "GPU work, busy, idle and window times are per {}. Its GPU work takes {} before and {} \
         after (sum of durations{change})",
        per,
        or_absent(stage.work_total.before_ns, shown_time),
        or_absent(stage.work_total.after_ns, shown_time),
    )));
    out.push_str("\n\n");
    let kernels = stage
        .metric("kernel_ms")
        .map(|all| all.before.unwrap_or(0.0).max(all.after.unwrap_or(0.0)));
    let least_of_class = kernels.unwrap_or(0.0) * LEAST_OF_CLASS_PERCENT / 100.0;
    let is_told = |metric: &&MetricChange| {
        let name = metric.metric.as_str();
        let is_large = !name.starts_with("class_")
            || metric.change.is_some_and(|change| change.abs() >= least_of_class);
        let repeats = REPEATS.contains(&name) && stage.metric("step_ms").is_some();
        let is_open = metric.noise.unlike && metric.change != Some(0.0);
        let is_change = metric.verdict.is_change() || is_open;
        // One token per step: one row.
        let is_token = |token: &MetricChange| {
            name == "step_ms" && [token.before, token.after] == [metric.before, metric.after]
        };
        let repeats = repeats || stage.metric("token_ms").is_some_and(is_token);
        !repeats && (ALWAYS.contains(&name) || is_change && is_large)
    };
    let [window, step] = ["window_ms", "step_mean_ms"].map(|name| stage.metric(name)?.after);
    if window.zip(step).is_some_and(|(window, step)| window > step * LONGER) {
        out.push_str(
            "The time of a step is shorter than its window, because its GPU work ends after the step.\n\n",
        );
    }
    let mut shown: Vec<&MetricChange> = stage.metrics.iter().filter(is_told).collect();
    // The sort is stable.
    shown.order_by_key(|metric| !metric.verdict.is_change());
    out.push_str(&metrics(&shown, Some(stage)));
    out.push_str(&caption(of, MIXED));
    let left_out = stage.metrics.len() - shown.len();
    if left_out > 0 {
        out.push_str(&paragraph(&format!(
            "Not shown: {} that are {}, small, or repeat one of these.",
            counted(left_out as u64, "more metric"),
            if of.unlike.is_empty() { "within noise" } else { "equal" }
        )));
    }
    out + &host(stage) + &work(stage)
}

/// Rows of causes.
const HOST_ROWS: usize = 12;
/// Those where none changed.
const UNCHANGED_HOST_ROWS: usize = 5;

/// What the host did while the GPU idled; nothing where a run was not sampled.
pub(super) fn host(stage: &StageChange) -> String {
    let per = stage.per_word();
    let changed = || stage.host.iter().filter(|row| row.verdict.is_change() || row.noise.unlike);
    let mut rows: Vec<&MetricChange> = changed().take(HOST_ROWS).collect();
    if rows.is_empty() {
        rows.extend(stage.host.iter().take(UNCHANGED_HOST_ROWS));
    }
    let others = stage.host.len() - rows.len();
    let others = match others {
        0 => String::new(),
        _ => paragraph(&format!(
            "Not shown: {} of idle time that are within noise, or smaller.",
            counted(others as u64, "more cause")
        )),
    };
    let is_of_two = rows.first().is_some_and(|row| row.noise.method.is_of_two_runs());
    let runs =
        if is_of_two { "In one run or both" } else { "In half of the runs of a side or more" };
    let ahead = match stage.host_ahead && !rows.is_empty() {
        true => paragraph(&format!(
            "{runs}, the host was ahead of the GPU: these causes are what the host did while the GPU was idle, and not why it \
             was idle. The bars divide the same idle time by launch gaps.",
        )),
        false => String::new(),
    };
    Table::new(&rows)
        .left(&format!("idle time by what the host did, ms per {per}"), |row| text(&row.metric))
        .right("before", |row| aligned_cells(row, &rows)[0].clone())
        .right("after", |row| aligned_cells(row, &rows)[1].clone())
        .right("change", |row| aligned_cells(row, &rows)[2].clone())
        .left("difference", |row| stage.word(row).to_owned())
        .left(NOISE, |row| noise_cell(row))
        .or_nothing()
        + &others
        + &ahead
        + &stage
            .host_absent
            .iter()
            .map(|why| {
                paragraph(&sentence(&format!(
                    "Idle time by what the host did is not compared: {why}"
                )))
            })
            .collect::<String>()
}

fn metric_name(row: &MetricChange, stage: Option<&StageChange>) -> String {
    // The row of that span is next to it, and the duration of the run is longer.
    if stage.is_none() && row.metric == "gpu_busy_percent" {
        return text("GPU busy, % of first to last GPU work");
    }
    let per = stage.map_or_else(String::new, |stage| stage.per_of(&row.metric));
    text(&format!("{}{per}", row.label()))
}

/// A metric as a condition names it, to be copied: `decode.step_ms`.
fn in_condition(row: &MetricChange, stage: Option<&StageChange>) -> String {
    let stage = stage.map_or("run", |stage| stage.stage.as_str());
    code(&format!("{stage}.{}", row.metric))
}

/// `step`: what a step is whose times are compared. It is not always what a report calls a step.
pub(super) fn metrics(rows: &[&MetricChange], stage: Option<&StageChange>) -> String {
    // The duration of a run has other digits than its parts.
    let cells = |row: &&MetricChange| match stage {
        Some(_) => aligned_cells(row, rows),
        None => row_cells(row),
    };
    Table::new(rows)
        .left("metric", |row| metric_name(row, stage))
        .right("before", |row| cells(row)[0].clone())
        .right("after", |row| cells(row)[1].clone())
        .right("change", |row| cells(row)[2].clone())
        .right("change %", |row| percent_cell(row))
        .left("difference", |row| {
            stage.map_or_else(|| row.word(), |stage| stage.word(row)).to_owned()
        })
        .left(NOISE, |row| noise_cell(row))
        .left(NAME, |row| in_condition(row, stage))
        .markdown()
}

/// The rows with the largest changes, and one for all others, so that the table adds up.
pub(super) fn work(stage: &StageChange) -> String {
    let different = stage.work.iter().filter(|row| row.change_ns != 0.0).count();
    if different == 0 {
        let all = counted(stage.work.len() as u64, "row");
        return paragraph(&format!("All GPU work takes the same time ({all})."));
    }
    // Of sides that are not comparable, the largest are shown, too.
    let is_change =
        |row: &&WorkChange| row.verdict.is_change() || row.noise.unlike && row.change_ns != 0.0;
    let (mut shown, mut others): (Vec<&WorkChange>, Vec<&WorkChange>) =
        stage.work.iter().partition(is_change);
    others.extend(shown.split_off(worth_rows(&shown)));
    let per = stage.per_word();
    // Their points are below each other.
    let digits = shown.iter().map(|row| us_digits(row)).max().unwrap_or_default();
    let table = Table::new(&shown)
        .left(KERNELS, |row| kernel(row))
        // Second, so that a narrow screen shows it.
        .right("change, us", |row| {
            (row.word != NOT_COMPARABLE).then(|| signed(row.change_ns / 1e3, digits))
        })
        .right(&format!("before, us per {per}"), |row| us_cell(&row.before, digits))
        .right(&format!("after, us per {per}"), |row| us_cell(&row.after, digits))
        .left("class", |row| (!row.class.is_empty()).then(|| text(&row.class)))
        .right(&format!("calls per {per}"), |row| calls(row))
        .left("difference", |row| what_became(row));
    let numbered = shown.iter().any(|row| kernel(row).contains(" #"));
    let numbered = if numbered { paragraph(NUMBERED) } else { String::new() };
    if others.is_empty() {
        return table.markdown() + &numbered;
    }
    if others.iter().any(|row| row.noise.unlike) {
        let rows = counted(others.len() as u64, "other row");
        let rest = format!("Not shown: {rows} of GPU work that are smaller, or the same.");
        return table.or_nothing() + &numbered + &paragraph(&rest);
    }
    let beyond = others.iter().filter(|row| row.verdict.is_change()).count() as u64;
    let beyond = match beyond > 0 && stage.other_work.is_none() {
        true => format!(", {} of them beyond noise", count(beyond)),
        false => String::new(),
    };
    let total = signed_time(others.iter().map(|row| row.change_ns).sum());
    let rows = others.len() as u64;
    let rest = match shown.is_empty() {
        true if stage.other_work.is_some() => {
            format!(
                "{} of GPU work changed by {total} in total: of steps that do different work.",
                counted(rows, "row")
            )
        }
        true => format!(
            "None of {} of GPU work changed beyond noise ({total} in total).",
            counted(rows, "row")
        ),
        false => format!(
            "{} of GPU work changed by {total} in total{beyond}.",
            counted(rows, "other row")
        ),
    };
    let rest = paragraph(&capitalised(&rest));
    table.or_nothing() + &numbered + &rest
}

/// How many of these rows, the largest change first, leave little of the change to the others.
fn worth_rows(rows: &[&WorkChange]) -> usize {
    let all: f64 = rows.iter().map(|row| row.change_ns.abs()).sum();
    let mut seen = 0.0;
    let is_little = |row: &&&WorkChange| {
        seen += row.change_ns.abs();
        seen < (1.0 - LEFT_OUT) * all
    };
    let worth = rows.iter().take_while(is_little).count() + 1;
    worth.clamp(WORK_ROWS, WORK_ROWS_MOST).min(rows.len())
}

pub(super) fn kernel(row: &WorkChange) -> String {
    let short = |name: &str| code(&shorten_kernel(name, KERNEL_CHARS));
    match (&row.before, &row.after) {
        (Some(a), Some(b)) if a.name != b.name => {
            format!("{} → {}", short(&a.name), short(&b.name))
        }
        (Some(only), _) | (None, Some(only)) => short(&only.name),
        (None, None) => String::new(),
    }
}

fn calls(row: &WorkChange) -> String {
    let of = |side: &Option<WorkSide>| calls_cell(side.as_ref().map(|s| s.calls));
    match (of(&row.before), of(&row.after)) {
        (a, b) if a == b => a,
        (a, b) => format!("{a} → {b}"),
    }
}

fn what_became(row: &WorkChange) -> String {
    let matched = match row.matched_by {
        None | Some(MatchedBy::Name) => String::new(),
        Some(by) => format!("; matched by {}", by.words()),
    };
    format!("{}{matched}", row.word)
}

pub(super) fn value_cell(value: Option<f64>, unit: MetricUnit) -> String {
    cell(value, |value| unit.shown(value))
}

/// The values before and after.
pub(super) fn side_cells(metric: &MetricChange) -> [String; 2] {
    [metric.before, metric.after].map(|value| cell(value, |value| metric.shown(value)))
}

/// Both values and the change of a row, which subtract.
fn row_cells(metric: &MetricChange) -> [String; 3] {
    cells_with(metric, metric.digits_of_row())
}

/// Those of a row of a table whose times all have as many digits: their points are below each other.
fn aligned_cells(metric: &MetricChange, rows: &[&MetricChange]) -> [String; 3] {
    let is_time = |row: &&&MetricChange| row.unit == MetricUnit::Ms;
    let digits = rows.iter().filter(is_time).map(|row| row.digits_of_row()).max();
    cells_with(metric, digits.filter(|_| is_time(&&metric)).unwrap_or(metric.digits_of_row()))
}

fn cells_with(metric: &MetricChange, digits: usize) -> [String; 3] {
    let [a, b, change] = metric.shown_row_with(digits);
    let points = if metric.unit == MetricUnit::Percent { " points" } else { "" };
    let shown = |value, text: Option<String>| cell(value, |_| text.unwrap_or_default());
    let change = change.map(|change| format!("{change}{points}"));
    let compared = metric.change.filter(|_| !is_unlike(metric));
    [shown(metric.before, a), shown(metric.after, b), shown(compared, change)]
}

/// Whether it has values, but no change.
pub(super) fn is_unlike(metric: &MetricChange) -> bool {
    metric.word == NOT_COMPARABLE
}

pub(super) fn percent_cell(metric: &MetricChange) -> String {
    cell(metric.relative_percent().filter(|_| !is_unlike(metric)), |value| signed(value, 1))
}

/// `1.63x faster`, of a time that changed.
pub(super) fn factor(metric: &MetricChange) -> Option<String> {
    let is_time = metric.unit == MetricUnit::Ms && metric.verdict.is_change();
    let sides = metric.before.zip(metric.after).filter(|(a, b)| is_time && *a > 0.0 && *b > 0.0);
    sides.map(|(before, after)| pace(before, after))
}

fn us_digits(row: &WorkChange) -> usize {
    let [a, b] = [&row.before, &row.after].map(|side| side.as_ref().map_or(0.0, |side| side.ns));
    let us = a.max(b) / 1e3;
    let least = [1000.0, 100.0, 10.0].iter().filter(|limit| us < **limit).count();
    digits_to_subtract(a / 1e3, b / 1e3, least)
}

fn us_cell(side: &Option<WorkSide>, digits: usize) -> String {
    cell(side.as_ref().map(|side| side.ns), |ns| format!("{:.digits$}", ns / 1e3))
}

/// Calls, which need not be whole per unit.
fn calls_cell(value: Option<f64>) -> String {
    cell(value, |calls| match calls.fract() == 0.0 {
        true => format!("{calls:.0}"),
        false => format!("{calls:.2}"),
    })
}

/// The head of the names of metrics.
pub(super) const NAME: &str = "metric for --fail-if";

/// The head of [`noise_cell`].
pub(super) const NOISE: &str = "± or interval";

/// Why a number of a run that has one of it is inconclusive.
pub(super) const ONE_VALUE: &str = "one value per run";

/// Marks the least noise that is assumed.
pub(super) const LEAST: &str = " (min)";

/// What decided on the change.
pub(super) fn noise_cell(metric: &MetricChange) -> String {
    let said = plain_noise_cell(metric);
    let is_least = metric.noise.method == NoiseMethod::FivePercent && said.starts_with('±');
    if is_least { said + LEAST } else { said }
}

/// That without its mark, for a table that has no room for it.
pub(super) fn plain_noise_cell(metric: &MetricChange) -> String {
    match (metric.noise.method, metric.noise_text(), metric.interval) {
        _ if is_unlike(metric) => ABSENT.to_owned(),
        (NoiseMethod::OneRunEach, ..) => ONE_VALUE.to_owned(),
        (NoiseMethod::NotCompared, ..) => metric.why_absent().unwrap_or(ABSENT).to_owned(),
        (NoiseMethod::Exact, ..) => "exact count".to_owned(),
        (_, Some(NoiseText::Interval(ends, unit)), _) => format!("{ends}{unit}"),
        (_, Some(text), _) => text.to_string(),
        (_, None, Some(ends)) if metric.verdict.is_change() => {
            let digits = ends.map(|end| metric.unit.digits(end)).into_iter().max();
            let ends = ends_text(ends, digits.unwrap_or_default());
            format!("{ends}{}", metric.unit.difference_suffix())
        }
        _ => ABSENT.to_owned(),
    }
}

pub(super) fn cell(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    match value {
        Some(value) if value.is_finite() && value.abs() < 1e18 => show(value),
        Some(_) => "(no number)".to_owned(),
        None => ABSENT.to_owned(),
    }
}
