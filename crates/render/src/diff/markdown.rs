//! Comparisons -> Markdown: the five lines first, then conditions, what cannot be compared, stages, and
//! the kernels of each.

use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{code, plain, shorten_kernel};
use stage2_diff::{
    Comparison, ConditionResult, Diff, Difference, MetricChange, MetricUnit, Outcome, Per,
    Presence, StageChange, Verdict, WorkChange,
};

use super::{numbers, title};
use crate::table::{Table, name, paragraph};
use crate::values::{sentence, text};

/// Stages whose metrics and kernels are shown.
const STAGES: usize = 4;
/// Stages in the table of all.
const STAGE_ROWS: usize = 20;
/// Kernels of a stage.
const WORK_ROWS: usize = 12;
/// Differences besides the numbers.
const DIFFERENCES: usize = 20;
/// Characters of a kernel's name.
const KERNEL_LIMIT: usize = 80;
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
    let mut out = String::new();
    for comparison in &diff.comparisons {
        out.push_str(&format!("# {}\n\n", plain(&title(comparison))));
        out.push_str(&body(comparison));
    }
    out.push_str(&format!("Written by {}.\n", plain(&diff.generator)));
    out
}

/// A comparison without its title.
pub(super) fn body(of: &Comparison) -> String {
    let mut out = String::new();
    for line in &of.lines {
        out.push_str(&format!("- **{}**: {}\n", plain(&line.label), plain(&line.text)));
    }
    out.push('\n');
    if !of.conditions.is_empty() {
        out.push_str(&format!("## Conditions\n\n{}", conditions(&of.conditions)));
    }
    if !of.differences.is_empty() {
        out.push_str(&format!(
            "## What differs besides the numbers\n\n{}",
            differences(&of.differences)
        ));
    }
    out.push_str(&format!("## Stages\n\n{}", stages(of)));
    let shown = of.stages.iter().filter(|stage| is_shown(stage)).take(STAGES);
    shown.for_each(|stage| out.push_str(&details(stage)));
    if !of.run.is_empty() {
        let rows: Vec<&MetricChange> = of.run.iter().collect();
        out.push_str(&format!("## Whole run\n\n{}", metrics(&rows)));
    }
    out
}

/// Warm-ups, operators and the like are in the table of all only.
pub(super) fn is_shown(stage: &StageChange) -> bool {
    let is_whole = stage.presence == Presence::Both && !stage.work.is_empty();
    is_whole && stage.apart.is_none() && stage.per != Per::Run
}

fn conditions(rows: &[ConditionResult]) -> String {
    let outcome = |row: &ConditionResult| match row.outcome {
        Outcome::Passed => "passed",
        Outcome::PassedWithinNoise => "passed: within noise",
        Outcome::Failed => "**failed**",
        Outcome::NotEvaluated => "**failed: could not be evaluated**",
    };
    Table::new(rows)
        .left("condition", |row| code(&row.condition))
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

/// The time of each stage: of a step where it is known.
fn stages(of: &Comparison) -> String {
    if of.stages.is_empty() {
        return paragraph("None, because no side has a stage with GPU work.");
    }
    const TIMES: [(&str, &str); 5] = [
        ("token_ms", "token, median"),
        ("step_ms", "step, median"),
        ("host_ms", "instance, mean"),
        ("gpu_busy_ms", "GPU busy"),
        ("kernel_ms", "sum of kernels"),
    ];
    let of_stage = |stage: &StageChange| {
        let found = TIMES.iter().find_map(|(metric, label)| {
            Some((stage.metric(metric).filter(|metric| metric.change.is_some())?.clone(), *label))
        });
        let only_one = || {
            TIMES.iter().find_map(|(metric, label)| Some((stage.metric(metric)?.clone(), *label)))
        };
        found.or_else(only_one)
    };
    let has_model = of.stages.iter().any(|stage| stage.apart.is_none());
    let is_row = |stage: &&StageChange| stage.apart.is_none() || !has_model;
    let rows: Vec<(&StageChange, Option<(MetricChange, &str)>)> =
        of.stages.iter().filter(is_row).map(|stage| (stage, of_stage(stage))).collect();
    let apart = of.stages.len() - rows.len();
    type Row<'r> = (&'r StageChange, Option<(MetricChange, &'r str)>);
    fn of_metric<T>(row: &Row<'_>, show: impl Fn(&MetricChange) -> T) -> Option<T> {
        row.1.as_ref().map(|(metric, _)| show(metric))
    }
    let verdict = |row: &Row<'_>| match row.0.presence {
        Presence::New => Some("new".to_owned()),
        Presence::Vanished => Some("vanished".to_owned()),
        Presence::Both => of_metric(row, |metric| numbers::verdict(metric).to_owned()),
    };
    let table = Table::first(STAGE_ROWS, &rows)
        .left("stage", |row| name(&row.0.stage))
        .left("time of", |row| {
            let (metric, label) = row.1.as_ref()?;
            let step = row.0.step.as_deref().filter(|_| metric.metric == "step_ms");
            Some(step.map_or_else(|| (*label).to_owned(), |step| format!("{step}, median")))
        })
        .right("before ms", |row| of_metric(row, |m| numbers::value(m.before, MetricUnit::Ms)))
        .right("after ms", |row| of_metric(row, |m| numbers::value(m.after, MetricUnit::Ms)))
        .right("change ms", |row| of_metric(row, |m| numbers::difference(m.change, MetricUnit::Ms)))
        .right("change %", |row| of_metric(row, |m| numbers::percent(m.change_percent)))
        .left("difference", verdict)
        .left("held against, ms", |row| of_metric(row, numbers::noise))
        .markdown_with_rest_in("the JSON (--json)");
    match apart {
        0 => table,
        n => {
            let beside = counted(n as u64, "range");
            table
                + &paragraph(&format!(
                    "{beside} beside the model (warm-ups, operators): see --json."
                ))
        }
    }
}

fn details(stage: &StageChange) -> String {
    let mut out = format!("## {}\n\n", name(&stage.stage));
    out.push_str(&sentence(&format!(
        "GPU work, busy, idle and window times are per {}. Its GPU work takes {} us before and {} us \
         after (sum of durations, {} us)",
        stage.per_text,
        numbers::us(stage.work_total.before_ns),
        numbers::us(stage.work_total.after_ns),
        numbers::us_difference(stage.work_total.change_ns),
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
    out.push_str(&metrics(&shown));
    let left_out = stage.metrics.len() - shown.len();
    if left_out > 0 {
        out.push_str(&paragraph(&format!(
            "{}, without a difference beyond noise, small, or repeating one of these: see --json.",
            counted(left_out as u64, "more metric")
        )));
    }
    out + &work(stage)
}

fn metrics(rows: &[&MetricChange]) -> String {
    Table::new(rows)
        .left("metric", |row| code(&row.metric))
        .right("before", |row| numbers::value(row.before, row.unit))
        .right("after", |row| numbers::value(row.after, row.unit))
        .right("change", |row| numbers::difference(row.change, row.unit))
        .right("change %", |row| numbers::percent(row.change_percent))
        .left("difference", |row| numbers::verdict(row).to_owned())
        .left("held against", |row| numbers::noise(row))
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
    let per = stage.per.word();
    let table = Table::new(shown)
        .left("GPU work", kernel)
        .left("class", |row| (!row.class.is_empty()).then(|| text(&row.class)))
        .right(&format!("before us/{per}"), |row| numbers::us(row.before.as_ref().map(|s| s.ns)))
        .right(&format!("after us/{per}"), |row| numbers::us(row.after.as_ref().map(|s| s.ns)))
        .right("change us", |row| numbers::us_difference(row.change_ns))
        .right(&format!("calls/{per}"), calls)
        .left("difference", what_became);
    let rest: f64 = others.iter().map(|row| row.change_ns).sum();
    let rest = match others.len() {
        0 => String::new(),
        n => paragraph(&format!(
            "{} changed by {} us together, {} of them beyond noise: see --json.",
            counted(n as u64, "more row"),
            numbers::us_difference(rest),
            count(others.iter().filter(|row| row.verdict.is_change()).count() as u64),
        )),
    };
    table.markdown() + &rest
}

fn kernel(row: &WorkChange) -> String {
    let short = |name: &str| code(&shorten_kernel(name, KERNEL_LIMIT));
    match (&row.before, &row.after) {
        (Some(a), Some(b)) if a.name != b.name => {
            format!("{} → {}", short(&a.name), short(&b.name))
        }
        (Some(only), _) | (None, Some(only)) => short(&only.name),
        (None, None) => String::new(),
    }
}

fn calls(row: &WorkChange) -> String {
    let of = |side: &Option<stage2_diff::WorkSide>| numbers::calls(side.as_ref().map(|s| s.calls));
    match (of(&row.before), of(&row.after)) {
        (a, b) if a == b => a,
        (a, b) => format!("{a} → {b}"),
    }
}

fn what_became(row: &WorkChange) -> String {
    let matched = match row.matched_by {
        None | Some(stage2_diff::MatchedBy::Name) => String::new(),
        Some(by) => format!("; matched by {}", by.words()),
    };
    let verdict = match (row.presence(), row.verdict) {
        (Presence::New, _) => "new",
        (Presence::Vanished, _) => "vanished",
        (_, Verdict::Increased) => "longer",
        (_, Verdict::Decreased) => "shorter",
        _ if row.change_ns == 0.0 => "equal",
        _ => "none (noise)",
    };
    format!("{verdict}{matched}")
}
