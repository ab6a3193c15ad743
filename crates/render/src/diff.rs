//! A comparison of runs -> one screen, Markdown, a page for a browser, and sentences for a terminal.

mod screen;

use stage2_contract::text::numbers::{ABSENT, count, counted, or_absent, shown_time};
use stage2_contract::text::{code, listed, plain, shorten, shorten_kernel};
use stage2_diff::{
    Better, ComparedRun, Comparison, ConditionResult, Diff, Difference, LibraryChange, MatchedBy,
    MetricChange, MetricUnit, NoiseMethod, Outcome, PartChange, Per, Presence, StageChange,
    Verdict, WorkChange, WorkSide, signed, signed_time,
};
use stage2_model::finding::Id;
use stage2_model::{AnswerLine, Finding, Severity};

use crate::html::markdown::{html as from_markdown, text as escaped};
use crate::table::{Table, name, paragraph, sentence, text};

const LABEL_CHARS: usize = 60;
/// Names of runs of a side.
const RUNS: usize = 4;

/// `A → B`, or of several runs `A1, A2 → B1, B2`.
fn title(of: &Comparison) -> String {
    let side = |runs: &[ComparedRun]| {
        let names = runs.iter().map(|run| shorten(&run.label, LABEL_CHARS));
        listed(&names.collect::<Vec<_>>(), RUNS)
    };
    format!("{} → {}", side(&of.before), side(&of.after))
}

/// One screen for each comparison.
pub fn screens(diff: &Diff) -> String {
    let screens = diff.comparisons.iter().map(|of| screen::screen(of).join("\n") + "\n");
    screens.collect::<Vec<_>>().join("\n")
}

/// What forbids or hampers a comparison.
pub fn warnings(diff: &Diff) -> Vec<Finding> {
    let of = |comparison: &Comparison| {
        let weighty = comparison.differences.iter().filter(|d| d.severity >= Severity::Warning);
        let finding = |d: &Difference| {
            let what = format!("{}: {}: {} → {}", title(comparison), d.what, d.before, d.after);
            Id::DiffUnlike.found(what, d.meaning.clone(), "")
        };
        weighty.map(finding).collect::<Vec<_>>()
    };
    diff.comparisons.iter().flat_map(of).collect()
}

/// What became of each condition, with its reason, and whether it fails the command.
pub fn outcomes(diff: &Diff) -> Vec<(bool, String)> {
    let of = |comparison: &Comparison| {
        let sentence = |row: &ConditionResult| {
            let how = match (row.outcome, row.expected) {
                (Outcome::NotEvaluated, _) => "could not be evaluated",
                (Outcome::Failed, false) => "failed",
                (Outcome::Failed, true) => "was not met",
                (_, false) => "passed",
                (_, true) => "was met",
            };
            let (option, condition, why) = (option_of(row), &row.condition, &row.text);
            let said = format!("{option} '{condition}' {how} for {}: {why}", title(comparison));
            (row.outcome.fails(), said)
        };
        comparison.conditions.iter().map(sentence).collect::<Vec<_>>()
    };
    diff.comparisons.iter().flat_map(of).collect()
}

fn option_of(row: &ConditionResult) -> &'static str {
    if row.expected { "--expect" } else { "--fail-if" }
}

/// Stages whose metrics and kernels are shown.
const STAGES: usize = 4;
/// Stages in the table of all.
const STAGE_ROWS: usize = 20;
/// Kernels of a stage.
const WORK_ROWS: usize = 12;
/// Differences besides the numbers.
const DIFFERENCES: usize = 20;
const KERNEL_CHARS: usize = 80;
/// What is shown of a stage whether it changed or not.
const ALWAYS: [&str; 9] = [
    "step_ms",
    "token_ms",
    "ttft_ms",
    "tokens_per_s",
    "gpu_busy_ms",
    "idle_ms",
    "launch_gaps_ms",
    "kernels",
    "kernel_ms",
];
/// What repeats another number, where that is known.
const REPEATS: [&str; 3] = ["step_mean_ms", "host_ms", "window_ms"];
/// Share of the stage's kernel time below which a change of a class is left out, percent.
const LEAST_OF_CLASS_PERCENT: f64 = 1.0;

/// All comparisons as one page.
pub fn markdown(diff: &Diff) -> String {
    let page = |of: &Comparison| {
        let screen = screen::picture(of).join("\n");
        format!("# {}\n\n```text\n{screen}\n```\n\n{}", plain(&title(of)), body(of))
    };
    let pages: String = diff.comparisons.iter().map(page).collect();
    format!("{pages}Written by {}.\n", plain(&diff.generator))
}

/// A comparison without its title and its screen.
fn body(of: &Comparison) -> String {
    let mut out = String::new();
    if !of.conditions.is_empty() {
        out.push_str(&format!("## Conditions\n\n{}", conditions(&of.conditions)));
    }
    if !of.differences.is_empty() {
        let differences = differences(&of.differences);
        out.push_str(&format!("## What differs besides the numbers\n\n{differences}"));
    }
    if !of.libraries.is_empty() {
        out.push_str(&format!("## Libraries and their kernels\n\n{}", libraries(&of.libraries)));
    }
    out.push_str(&format!("## Stages\n\n{}", stages(of)));
    out.extend(of.stages.iter().filter(|stage| is_shown(stage)).take(STAGES).map(details));
    if !of.run.is_empty() {
        let rows: Vec<&MetricChange> = of.run.iter().collect();
        out.push_str(&format!("## Whole run\n\n{}", metrics(&rows, None)));
    }
    out
}

/// Warm-ups, operators and the like are in the table of all only.
fn is_shown(stage: &StageChange) -> bool {
    let is_whole = stage.presence == Presence::Both && !stage.work.is_empty();
    is_whole && stage.apart.is_none() && stage.per != Per::Run
}

fn conditions(rows: &[ConditionResult]) -> String {
    let outcome = |row: &ConditionResult| match row.outcome {
        Outcome::Passed if row.expected => "met",
        Outcome::Failed if row.expected => "**not met**",
        Outcome::Passed => "passed",
        Outcome::PassedWithinNoise => "passed: within noise",
        Outcome::Failed => "**failed**",
        Outcome::NotEvaluated => "**failed: could not be evaluated**",
    };
    Table::new(rows)
        .left("condition", |row| code(&format!("{} {}", option_of(row), row.condition)))
        .left("outcome", |row| outcome(row).to_owned())
        .left("why", |row| text(&row.text))
        .markdown()
}

fn differences(rows: &[Difference]) -> String {
    Table::first(DIFFERENCES, rows)
        .left("weight", |row| row.severity.to_string())
        .left("what", |row| text(&row.what))
        .left("before", |row| text(&row.before))
        .left("after", |row| text(&row.after))
        .left("what it means", |row| text(&row.meaning))
        .markdown_with_rest_in("the JSON (--json)")
}

/// Libraries.
const LIBRARIES: usize = 30;

/// Versions beside the kernels that came, went or changed.
fn libraries(rows: &[LibraryChange]) -> String {
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
        .right("vanished", |row| number(row.vanished))
        .right("under another name", |row| number(row.renamed))
        .right("with another time", |row| number(row.changed))
        .markdown_with_rest_in("the JSON (--json)")
}

/// The time of a stage, the first that both sides have, and which value it is.
fn stage_time(stage: &StageChange) -> Option<(&MetricChange, &'static str)> {
    const TIMES: [(&str, &str); 5] = [
        ("token_ms", "median"),
        ("step_ms", "median"),
        ("host_ms", "mean"),
        ("gpu_busy_ms", "GPU busy"),
        ("kernel_ms", "sum of kernels"),
    ];
    let find = |is: fn(&MetricChange) -> bool| {
        let known = |metric| stage.metric(metric).filter(|metric| is(metric));
        let mut times = TIMES.iter().filter(|(metric, _)| stage.has_time(metric));
        times.find_map(|(metric, label)| Some((known(metric)?, *label)))
    };
    find(|metric| metric.change.is_some()).or_else(|| find(|_| true))
}

/// The time of each stage: of a step where it is known.
fn stages(of: &Comparison) -> String {
    if of.stages.is_empty() {
        return paragraph("None: no side has a stage with GPU work.");
    }
    type Row<'r> = (&'r StageChange, Option<(&'r MetricChange, &'static str)>);
    let rows: Vec<Row<'_>> =
        of.of_model().into_iter().map(|stage| (stage, stage_time(stage))).collect();
    fn of_metric<T>(row: &Row<'_>, show: impl Fn(&MetricChange) -> T) -> Option<T> {
        row.1.as_ref().map(|(metric, _)| show(metric))
    }
    let verdict = |row: &Row<'_>| match row.0.presence {
        Presence::New => Some("new".to_owned()),
        Presence::Vanished => Some("vanished".to_owned()),
        Presence::Both => of_metric(row, |metric| verdict_words(metric).to_owned()),
    };
    let table = Table::first(STAGE_ROWS, &rows)
        .left("stage", |row| name(&row.0.stage))
        .left("time", |row| {
            row.1.map(|(metric, label)| format!("{label}{}", row.0.per_of(&metric.metric)))
        })
        .right("before, ms", |row| of_metric(row, |m| value_cell(m.before, MetricUnit::Ms)))
        .right("after, ms", |row| of_metric(row, |m| value_cell(m.after, MetricUnit::Ms)))
        .right("change, ms", |row| of_metric(row, |m| difference_cell(m.change, MetricUnit::Ms)))
        .right("change %", |row| of_metric(row, |m| percent_cell(m.change_percent)))
        .left("difference", verdict)
        .left("noise, ms", |row| of_metric(row, noise_cell))
        .markdown_with_rest_in("the JSON (--json)");
    let apart = of.stages.len() - rows.len();
    if apart == 0 {
        return table;
    }
    let apart = counted(apart as u64, "range");
    table + &paragraph(&format!("{apart} outside of the model (warm-ups, operators): see --json."))
}

fn details(stage: &StageChange) -> String {
    let mut out = format!("## {}\n\n", name(&stage.stage));
    // What an instance of a stage is called, the reports know.
    let per = if stage.per == Per::Instance { stage.per_word() } else { &stage.per_text };
    out.push_str(&sentence(&format!(
        "GPU work, busy, idle and window times are per {}. Its GPU work takes {} before and {} \
         after (sum of durations, {})",
        per,
        or_absent(stage.work_total.before_ns, shown_time),
        or_absent(stage.work_total.after_ns, shown_time),
        signed_time(stage.work_total.change_ns),
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
        ALWAYS.contains(&name) || (metric.verdict.is_change() && is_large && !repeats)
    };
    let shown: Vec<&MetricChange> = stage.metrics.iter().filter(is_told).collect();
    out.push_str(&metrics(&shown, Some(stage)));
    let left_out = stage.metrics.len() - shown.len();
    if left_out > 0 {
        out.push_str(&paragraph(&format!(
            "{}, without a difference beyond noise, small, or repeating one of these: see --json.",
            counted(left_out as u64, "more metric")
        )));
    }
    out + &host(stage) + &work(stage)
}

/// Rows of causes.
const HOST_ROWS: usize = 12;

/// What the host did while the GPU idled; nothing where a run was not sampled.
fn host(stage: &StageChange) -> String {
    let per = stage.per_word();
    Table::first(HOST_ROWS, &stage.host)
        .left(&format!("idle time by what the host did, ms per {per}"), |row| text(&row.metric))
        .right("before", |row| value_cell(row.before, row.unit))
        .right("after", |row| value_cell(row.after, row.unit))
        .right("change", |row| difference_cell(row.change, row.unit))
        .left("difference", |row| verdict_words(row).to_owned())
        .left("noise", noise_cell)
        .or_nothing()
        + &stage.host_absent.iter().map(|why| format!("{}\n\n", sentence(why))).collect::<String>()
}

fn metric_name(row: &MetricChange, stage: Option<&StageChange>) -> String {
    let per = stage.map_or_else(String::new, |stage| stage.per_of(&row.metric));
    format!("{}{}", code(&row.metric), text(&per))
}

/// `step`: what a step is whose times are compared. It is not always what a report calls a step.
fn metrics(rows: &[&MetricChange], stage: Option<&StageChange>) -> String {
    Table::new(rows)
        .left("metric", |row| metric_name(row, stage))
        .right("before", |row| value_cell(row.before, row.unit))
        .right("after", |row| value_cell(row.after, row.unit))
        .right("change", |row| difference_cell(row.change, row.unit))
        .right("change %", |row| percent_cell(row.change_percent))
        .left("difference", |row| verdict_words(row).to_owned())
        .left("noise", |row| noise_cell(row))
        .markdown()
}

/// The rows with the largest changes, and one for all others, so that the table adds up.
fn work(stage: &StageChange) -> String {
    let different = stage.work.iter().filter(|row| row.change_ns != 0.0).count();
    if different == 0 {
        let all = counted(stage.work.len() as u64, "row");
        return paragraph(&format!("All GPU work takes the same time ({all}: see --json)."));
    }
    // The largest changes come first, and so none of those that are left out is larger.
    let (shown, others) = stage.work.split_at(WORK_ROWS.min(different));
    let per = stage.per_word();
    let table = Table::new(shown)
        .left("GPU work", kernel)
        .left("class", |row| (!row.class.is_empty()).then(|| text(&row.class)))
        .right(&format!("before, us per {per}"), |row| us_cell(row.before.as_ref().map(|s| s.ns)))
        .right(&format!("after, us per {per}"), |row| us_cell(row.after.as_ref().map(|s| s.ns)))
        .right("change, us", |row| us_difference_cell(row.change_ns))
        .right(&format!("calls per {per}"), calls)
        .left("difference", what_became);
    if others.is_empty() {
        return table.markdown();
    }
    let rest = paragraph(&format!(
        "{} changed by {} together, {} of them beyond noise: see --json.",
        counted(others.len() as u64, "more row"),
        signed_time(others.iter().map(|row| row.change_ns).sum()),
        count(others.iter().filter(|row| row.verdict.is_change()).count() as u64),
    ));
    table.markdown() + &rest
}

fn kernel(row: &WorkChange) -> String {
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
    let verdict = match (row.presence(), row.verdict) {
        (Presence::New, _) => "new",
        (Presence::Vanished, _) => "vanished",
        (_, Verdict::Increased) => "longer",
        (_, Verdict::Decreased) => "shorter",
        _ if row.change_ns == 0.0 => "equal",
        _ => "within noise",
    };
    format!("{verdict}{matched}")
}

const STYLE: &str = include_str!("diff/diff.css");
/// Bars of a stage.
const BARS: usize = 12;
/// Stages with bars.
const BAR_STAGES: usize = 4;
const BAR_NAME_CHARS: usize = 70;
/// Lines ahead of the first picture of the page.
const FIRST_LINES: [&str; 3] = ["time", "comparable", "noise"];

/// One page for a browser that needs no network and no script.
///
/// The tables are those of the Markdown page, so that a number is written in one place. The bars are made
/// here; foreign text in them comes through [`escaped`].
pub fn html(diff: &Diff) -> String {
    let titles: Vec<String> = diff.comparisons.iter().map(title).collect();
    let page_title = escaped(&titles.join("; "));
    let parts: String = diff.comparisons.iter().map(comparison).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{page_title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{parts}\
         <footer>Written by {}. Changes are after minus before.</footer>\n</main>\n</body>\n</html>\n",
        escaped(&diff.generator)
    )
}

fn comparison(of: &Comparison) -> String {
    let kind = match () {
        () if of.conditions.iter().any(|condition| condition.outcome.fails()) => "bad",
        () if of.differences.iter().any(|d| d.severity >= Severity::Warning) => "fair",
        () if of.conditions.iter().any(|c| c.outcome == Outcome::PassedWithinNoise) => "fair",
        // What is marked as worse below does not stand under an all-clear.
        () if of.any_worse() => "fair",
        () => "good",
    };
    let line = |line: &AnswerLine| {
        let (label, said) = (escaped(&line.label), escaped(&line.text));
        format!("<dt>{label}</dt><dd>{said}</dd>\n")
    };
    // What happened and how far to trust it, then the picture, then why.
    let is_first = |line: &&AnswerLine| FIRST_LINES.contains(&line.label.as_str());
    let first: String = of.lines.iter().filter(is_first).map(line).collect();
    let others: String = of.lines.iter().filter(|line| !is_first(line)).map(line).collect();
    let mut shown = of.stages.iter().filter(|stage| is_shown(stage)).take(BAR_STAGES);
    let picture = shown.next().map(bars).unwrap_or_default();
    let pictures: String = shown.map(bars).collect();
    let tables = body(of);
    let verdict = escaped(&of.verdict);
    format!(
        "<section>\n<h1>{}</h1>\n<div class=\"answer {kind}\">\n<p class=\"verdict\">{verdict}</p>\n\
         <dl>\n{first}</dl>\n</div>\n{picture}<dl>\n{others}</dl>\n{pictures}{}</section>\n",
        escaped(&title(of)),
        from_markdown(&tables)
    )
}

/// The largest changes of GPU work and idle time in a stage: to the left less, to the right more.
fn bars(stage: &StageChange) -> String {
    let parts = stage.parts();
    let rows = parts.iter().take(BARS);
    let longest = rows.clone().map(|row| row.change_ns.abs()).fold(0.0, f64::max);
    if !longest.is_finite() || longest <= 0.0 {
        return String::new();
    }
    let title = format!("Largest changes in {}, per {}", stage.stage, stage.per_word());
    let bar = |row: &PartChange<'_>| {
        let width = (row.change_ns.abs() / longest * 50.0).clamp(0.0, 50.0);
        let (class, x) = match (row.verdict.is_change(), row.change_ns > 0.0) {
            (false, true) => ("noise", 50.0),
            (false, false) => ("noise", 50.0 - width),
            (true, true) => ("more", 50.0),
            (true, false) => ("less", 50.0 - width),
        };
        format!(
            "<code>{}</code><svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"{class}\" x=\"{x:.2}\" width=\"{width:.2}\" \
             height=\"1\"/><rect class=\"axis\" x=\"49.9\" width=\"0.2\" height=\"1\"/></svg>\
             <span>{}</span>\n",
            escaped(&screen::part_name(row, BAR_NAME_CHARS)),
            escaped(&format!("{} {}", signed_time(row.change_ns), row.word())),
        )
    };
    let bars: String = rows.map(bar).collect();
    format!("<h2>{}</h2>\n<div class=\"bars\">\n{bars}</div>\n", escaped(&title))
}

fn value_cell(value: Option<f64>, unit: MetricUnit) -> String {
    cell(value, |value| unit.shown(value))
}

fn difference_cell(value: Option<f64>, unit: MetricUnit) -> String {
    cell(value, |value| signed(value, unit.digits(value)))
}

fn percent_cell(value: Option<f64>) -> String {
    cell(value, |value| signed(value, 1))
}

fn us_cell(ns: Option<f64>) -> String {
    cell(ns, |ns| format!("{:.3}", ns / 1e3))
}

fn us_difference_cell(ns: f64) -> String {
    cell(Some(ns), |ns| signed(ns / 1e3, 3))
}

/// Calls, which need not be whole per unit.
fn calls_cell(value: Option<f64>) -> String {
    cell(value, |calls| match calls.fract() == 0.0 {
        true => format!("{calls:.0}"),
        false => format!("{calls:.2}"),
    })
}

fn verdict_words(metric: &MetricChange) -> &'static str {
    match (metric.verdict, metric.better) {
        (Verdict::Unknown, _) => ABSENT,
        (Verdict::None, _) if metric.change == Some(0.0) => "equal",
        (Verdict::None, _) if metric.noise.method == NoiseMethod::OneRunEach => "not judged",
        (Verdict::None, _) => "within noise",
        (Verdict::Increased, Better::Lower) | (Verdict::Decreased, Better::Higher) => "worse",
        (Verdict::Decreased, Better::Lower) | (Verdict::Increased, Better::Higher) => "better",
        (Verdict::Increased, Better::Neither) => "more",
        (Verdict::Decreased, Better::Neither) => "less",
    }
}

/// The noise that a change has to exceed.
fn noise_cell(metric: &MetricChange) -> String {
    let threshold = || difference_cell(metric.noise.threshold, metric.unit).replace('+', "±");
    match metric.noise.method {
        NoiseMethod::NotCompared => ABSENT.to_owned(),
        NoiseMethod::OneRunEach => "one run a side: not known".to_owned(),
        NoiseMethod::Exact => "exact count".to_owned(),
        NoiseMethod::FivePercent => format!("{} (5 %)", threshold()),
        NoiseMethod::Instances => format!("{} (instances)", threshold()),
        NoiseMethod::OneAgainstSeveral => format!("{} and spread of the runs", threshold()),
        NoiseMethod::Separation => format!("{} and spread of the runs", threshold()),
        NoiseMethod::RankTest => match metric.noise.p_value {
            Some(p) => format!("{} and p = {p:.3}", threshold()),
            None => ABSENT.to_owned(),
        },
    }
}

fn cell(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    match value {
        Some(value) if value.is_finite() && value.abs() < 1e18 => show(value),
        Some(_) => "(no number)".to_owned(),
        None => ABSENT.to_owned(),
    }
}
