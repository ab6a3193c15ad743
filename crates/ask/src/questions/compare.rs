//! What changed between two runs: the comparison of `diff`, in short.

use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{or_absent, shown_time};
use stage2_contract::text::shorten_kernel;
use stage2_diff::{
    Comparison, MetricChange, MetricUnit, Per, Run, StageChange, Verdict, WorkChange,
};

use super::{ms_of, name_of, number, quoted, text};
use crate::answer::{Answer, Column, Row, Table, words};
use crate::budget::cell_text;
use crate::question::{AskError, Question};

const KERNEL_CHARS: usize = 80;

/// Answers what changed between two runs.
///
/// # Errors
/// When they cannot be compared, or neither has the stage.
pub fn compare(before: &Run<'_>, after: &Run<'_>, stage: Option<&str>) -> Result<Answer, AskError> {
    let found = stage2_diff::compare(&[*before], &[*after], &[], false);
    let found = found.map_err(|error| AskError::NotComparable(error.to_string()))?;
    let mut answer = Answer::new(Question::Compare.name(), before.label, stage);
    let question = words(&["ask", before.label, Question::Compare.name(), after.label]);
    let options = answer.call.split_off(3.min(answer.call.len()));
    answer.call = question.into_iter().chain(options.into_iter().skip(1)).collect();
    let is_asked = |change: &StageChange| {
        stage.is_none_or(|asked| change.stage == asked || cell_text(&change.stage) == asked)
    };
    let stages: Vec<(usize, &StageChange)> =
        found.stages.iter().enumerate().filter(|(_, change)| is_asked(change)).collect();
    if let (Some(asked), true) = (stage, stages.is_empty()) {
        let names = found.stages.iter().map(|change| change.stage.as_str());
        return Err(AskError::no_stage(asked, names));
    }
    answer.summary = sentence(&found, &stages);
    answer.push(metrics(&found, &stages, stage.is_none()));
    answer.push(work(&stages));
    answer.push(causes(&stages));
    answer.push(differences(&found));
    if stages.iter().all(|(_, change)| change.metrics.iter().all(|m| m.verdict == Verdict::Unknown))
    {
        let reason = "no metric is known of both runs";
        answer.unknown("what changed", reason, &["ask", before.label, "coverage"]);
    }
    for (_, change) in &stages {
        if change.host_absent.is_some() {
            let question = format!("causes of the idle time of {}", quoted(&change.stage));
            let reason = "the host was sampled in one of the runs only, or too rarely";
            answer.unknown(&question, reason, &super::WITH_HOST);
        }
    }
    Ok(answer)
}

fn sentence(found: &Comparison, stages: &[(usize, &StageChange)]) -> String {
    let warned =
        found.differences.iter().filter(|d| d.severity > stage2_model::Severity::Note).count();
    let but = match warned {
        0 => String::new(),
        1 => " One difference besides the change may explain it: see differences.".to_owned(),
        warned => {
            format!(" {warned} differences besides the change may explain it: see differences.")
        }
    };
    let changes = || stages.iter().map(|(_, change)| change);
    let times = || changes().filter_map(|change| Some((change, change.time()?)));
    let changed = times().find(|(_, metric)| metric.verdict.is_change());
    let Some((change, metric)) = changed.or_else(|| times().next()) else {
        let own = changes().find_map(|change| Some((change, change.own_times.as_ref()?)));
        return match own {
            Some((change, [a, b])) => format!(
                "{} takes {} before and {} after, which cannot be compared: it is {}.{but}",
                quoted(&change.stage),
                a.text(),
                b.text(),
                change.other_work.as_deref().unwrap_or_default()
            ),
            None => format!("No stage has times in both runs.{but}"),
        };
    };
    let percent =
        metric.change_percent.map_or_else(String::new, |percent| format!(" ({percent:+.1} %)"));
    let verdict = match metric.verdict {
        _ if change.other_work.is_some() => "not comparable, because a step does other work",
        Verdict::None => change.word(metric),
        Verdict::Increased => "longer in these two runs (one run per side: repeat to decide)",
        Verdict::Decreased => "shorter in these two runs (one run per side: repeat to decide)",
        Verdict::Unknown => "inconclusive",
    };
    let [before, after] =
        [metric.before, metric.after].map(|ms| or_absent(ms, |ms| shown_time(ms * 1e6)));
    format!(
        "{} takes {before}{per} before and {after} after{percent}: {verdict}.{but}",
        quoted(&change.stage),
        per = change.per_of(&metric.metric),
    )
}

fn metrics(found: &Comparison, stages: &[(usize, &StageChange)], with_run: bool) -> Table {
    // Whether it is a time that `diff` gives first, of a stage of the model; the metric, and its row.
    let mut rows: Vec<(bool, &MetricChange, Row)> = Vec::new();
    for (at, change) in stages {
        let time = change.time();
        for (metric_at, metric) in change.metrics.iter().enumerate() {
            let source = format!("/comparisons/0/stages/{at}/metrics/{metric_at}");
            let is_time = time.is_some_and(|time| std::ptr::eq(time, metric)) && !is_aside(change);
            let word = change.word(metric);
            rows.push((is_time, metric, metric_row(text(&change.stage), metric, word, source)));
        }
    }
    for (at, metric) in found.run.iter().enumerate().filter(|_| with_run) {
        let source = format!("/comparisons/0/run/{at}");
        rows.push((false, metric, metric_row(Value::Null, metric, metric.word(), source)));
    }
    rows.retain(|(_, metric, _)| metric.verdict != Verdict::Unknown);
    // The times first, then what changed; the order of the comparison otherwise.
    rows.order_by_key(|(is_time, metric, _)| (!is_time, !metric.verdict.is_change()));
    let columns = vec![
        Column::workload("stage").of("none: the whole run"),
        Column::text("metric").at("/metric"),
        Column::text("unit").at("/unit"),
        Column::number("before", "unit").at("/before"),
        Column::number("after", "unit").at("/after"),
        Column::number("change", "unit").at("/change"),
        Column::number("change_percent", "percent").at("/change_percent"),
        Column::number("noise", "unit").of("smaller changes are none").at("/noise/threshold"),
        Column::text("verdict").at("/verdict").aside(),
        Column::text("in_words").of("as diff has it"),
    ];
    let rows = rows.into_iter().map(|(_, _, row)| row).collect();
    Table::new("metrics", columns, rows).usually(12)
}

fn metric_row(stage: Value, metric: &MetricChange, word: &str, source: String) -> Row {
    let unit: MetricUnit = metric.unit;
    let cells = vec![
        stage,
        text(&metric.metric),
        name_of(&unit),
        number(metric.before),
        number(metric.after),
        number(metric.change),
        number(metric.change_percent),
        number(metric.noise.threshold),
        name_of(&metric.verdict),
        text(word),
    ];
    Row::new(source, cells)
}

/// Work of warm-ups and outside of ranges matters where nothing else does, or is asked for.
fn is_aside(change: &StageChange) -> bool {
    change.apart.is_some() || change.per == Per::Run
}

fn work(stages: &[(usize, &StageChange)]) -> Table {
    let mut rows: Vec<(&WorkChange, Row)> = Vec::new();
    let only_aside = stages.iter().all(|(_, change)| is_aside(change));
    for (at, change) in stages.iter().filter(|(_, change)| only_aside || !is_aside(change)) {
        for (work_at, work) in change.work.iter().enumerate() {
            let name = |side: &stage2_diff::WorkSide| shorten_kernel(&side.name, KERNEL_CHARS);
            let named = work.after.as_ref().or(work.before.as_ref()).map(name);
            let cells = vec![
                named.map_or(Value::Null, Value::from),
                text(&change.stage),
                text(change.per.word()),
                ms_of(work.before.as_ref().map(|side| side.ns)),
                ms_of(work.after.as_ref().map(|side| side.ns)),
                ms_of(Some(work.change_ns)),
                ms_of(work.noise.threshold),
                name_of(&work.presence()),
                name_of(&work.verdict),
            ];
            let source = format!("/comparisons/0/stages/{at}/work/{work_at}");
            rows.push((work, Row::new(source, cells)));
        }
    }
    rows.order_by(|(a, _), (b, _)| {
        let is_change = b.verdict.is_change().cmp(&a.verdict.is_change());
        is_change.then(b.change_ns.abs().total_cmp(&a.change_ns.abs()))
    });
    let columns = vec![
        Column::workload("kernel").of("or copy, fill, graph"),
        Column::workload("stage"),
        Column::text("per"),
        Column::number("before_ms", "ms").at("/before/ns"),
        Column::number("after_ms", "ms").at("/after/ns"),
        Column::number("change_ms", "ms").at("/change_ns"),
        Column::number("noise_ms", "ms").at("/noise/threshold"),
        Column::text("is_in").of("both runs, or new, or vanished"),
        Column::text("verdict").at("/verdict"),
    ];
    let changed = rows.iter().filter(|(work, _)| work.change_ns != 0.0).count();
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    Table::new("work", columns, rows).usually(8).briefly(changed)
}

/// Causes of idle time.
fn causes(stages: &[(usize, &StageChange)]) -> Table {
    let mut rows = Vec::new();
    for (at, change) in stages {
        for (cause_at, cause) in change.host.iter().enumerate() {
            let cells = vec![
                text(&cause.metric),
                text(&change.stage),
                text(change.per.word()),
                number(cause.before),
                number(cause.after),
                number(cause.change),
                name_of(&cause.verdict),
            ];
            rows.push(Row::new(format!("/comparisons/0/stages/{at}/host/{cause_at}"), cells));
        }
    }
    let columns = vec![
        Column::workload("idle_because").at("/metric"),
        Column::workload("stage"),
        Column::text("per"),
        Column::number("before_ms", "ms").at("/before"),
        Column::number("after_ms", "ms").at("/after"),
        Column::number("change_ms", "ms").at("/change"),
        Column::text("verdict").at("/verdict"),
    ];
    Table::new("idle_causes", columns, rows).usually(5)
}

/// What differs besides the numbers.
fn differences(found: &Comparison) -> Table {
    let rows = found.differences.iter().enumerate().map(|(at, difference)| {
        let cells = vec![
            name_of(&difference.severity),
            text(&difference.what),
            text(&difference.before),
            text(&difference.after),
        ];
        Row::new(format!("/comparisons/0/differences/{at}"), cells)
    });
    let columns = vec![
        Column::text("severity").at("/severity"),
        Column::workload("what").at("/what"),
        Column::workload("before").at("/before"),
        Column::workload("after").at("/after"),
    ];
    Table::new("differences", columns, rows.collect()).usually(5)
}
