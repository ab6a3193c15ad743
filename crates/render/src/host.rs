//! What the host does while the GPU is idle -> the tables of report.md.

use std::collections::HashSet;

use crate::page::idle_of;
use crate::table::{ROWS, Table, decimal, name, none, paragraph, text};
use stage2_contract::text::numbers::{count, counted, ms3, percent1, shown_time, time_scale};
use stage2_contract::text::{code_in_text, plain};
use stage2_model::rule::IDLE_LOW_PERCENT;
use stage2_model::{
    HOST_ERRORS_LEAST, HOST_SAMPLES_LEAST, HostCause, HostCauseKind, HostLine, HostOtherWork,
    HostProcess, HostStage, HostUse, LateHost, LateHostRow, LateRow, Report, StageRow,
};

/// Heading of the section.
pub(super) const TITLE: &str = "What the GPU waits for";
/// The most stages with a table.
const STAGES: usize = 12;
/// Rows of a stage: the largest causes, with their lines.
const CAUSES: usize = 40;
/// The smallest share that does not read 0.0.
const SHOWN_PERCENT: f64 = 0.05;
/// Lines of a cause.
const LINES: usize = 4;

/// Returns the section; empty if sampling was requested for no process.
pub(super) fn host_md(report: &Report) -> String {
    let Some(host) = &report.host else { return String::new() };
    let is_apart = |row: &&StageRow| row.apart.is_some();
    let apart: HashSet<&str> =
        report.stages.iter().filter(is_apart).map(|row| row.stage.as_str()).collect();
    let mut out = String::new();
    let stages = host.stages.iter().filter(|stage| !apart.contains(stage.stage.as_str()));
    for stage in stages.take(STAGES) {
        let late = late_md(report, &stage.stage);
        out.push_str(&format!(
            "### {}\n\n{}{late}",
            code_in_text(&stage.stage),
            stage_md(report, stage, host.more_samples())
        ));
    }
    if host.stages.is_empty() {
        let remedy = "a sample counts if its thread opened the range of the stage, or if it launches GPU \
                      work in a process without ranges";
        out.push_str(&none("no sample lies in a stage with GPU work", remedy));
    }
    out + &basis_md(report)
}

/// What the shares of the section are of, and how the processes were sampled.
pub(super) fn basis_md(report: &Report) -> String {
    let Some(host) = &report.host else { return String::new() };
    let mut out = String::new();
    if !host.stages.is_empty() {
        out.push_str(&format!(
            "Shares of the time within the windows of a stage during which no GPU work ran, from samples of its \
             launching threads. ±: standard error, from the number of samples. Causes below \
             {HOST_ERRORS_LEAST:.0} standard errors are combined in one row. The time of a line may include \
             that of neighbouring lines; the time of a function is exact. A row is named by the innermost \
             function outside of libraries, and by its line with the most time. A row `of which line …` is a part \
             of the row above it. During GPU work: the launching thread ran the function so long (or for this share of the \
             window) while the GPU worked. If the host never waits for the GPU, a change that removes the function \
             saves this time too, until the GPU is the limit.\n\n"
        ));
    }
    out + &processes(host)
}

/// Whether samples of the idle time could show nothing that is worth a change.
fn is_hardly_idle(stage: &HostStage) -> bool {
    let times = stage.idle_ns.zip(stage.window_ns);
    times.is_some_and(|(idle, window)| idle as f64 * 100.0 <= IDLE_LOW_PERCENT * window as f64)
}

/// Returns the causes of the idle time of a stage; `more` states how to get more samples.
pub(super) fn stage_md(report: &Report, stage: &HostStage, more: &str) -> String {
    let threads: Vec<String> = stage.threads.iter().map(|thread| code_in_text(thread)).collect();
    let of = if threads.is_empty() { String::new() } else { format!(" of {}", threads.join(", ")) };
    let times = stage.idle_ns.zip(stage.window_ns);
    let times = times.map(|(idle, window)| {
        format!(
            "The GPU was idle for {} of {}; ",
            shown_time(idle as f64),
            shown_time(window as f64)
        )
    });
    let mut out = format!(
        "{}{}{of} in the idle time; samples cover {} % of the windows.\n\n",
        times.unwrap_or_default(),
        counted(stage.samples, "sample"),
        percent1(stage.covered_percent),
    );
    if let Some(HostOtherWork { percent, .. }) = stage.other_work {
        out.push_str(&paragraph(&format!(
            "In another {} % of the time without work of this stage, the GPU was running another stage's work; that does not count as idle.",
            percent1(percent)
        )));
    }
    if stage.causes.is_empty() && is_hardly_idle(stage) {
        return out + &none("the GPU is hardly idle in this stage", "");
    }
    if stage.causes.is_empty() {
        let samples = count(stage.samples);
        let why =
            format!("too few samples for causes: {samples}, and {HOST_SAMPLES_LEAST} are needed");
        return out + &none(&why, more);
    }
    // As the first screen: of the mean step, in its unit. Totals would look more precise than they are.
    let mut answers = report.answer.stages.iter();
    let mean = answers.find(|answer| answer.stage == stage.stage).and_then(|answer| {
        let found = answer.bottleneck.as_ref().filter(|found| found.is_of_step())?;
        Some((found, idle_of(report, answer)?.ns))
    });
    let (scale, unit, decimals) = time_scale(mean.as_ref().map_or(0.0, |(of, _)| of.ns as f64));
    let in_unit = |ns: f64| format!("{:.decimals$}", ns / scale);
    let per = mean.as_ref().map(|(found, _)| format!("{unit} per {}", found.of));
    let ns = |row: &Row<'_>| match &mean {
        Some((_, idle_ns)) => Some(in_unit(idle_ns * row.share().percent / 100.0)),
        None => Some(ms3((stage.idle_ns? as f64 * row.share().percent / 100.0).round() as u64)),
    };
    // The others would read 0.0 %.
    let is_shown = |cause: &&HostCause| {
        cause.percent >= SHOWN_PERCENT || cause.beside_work_percent >= SHOWN_PERCENT
    };
    let rows: Vec<Row<'_>> = stage.causes.iter().filter(is_shown).flat_map(rows_of).collect();
    let table = Table::first(CAUSES, &rows)
        .left("what the host did", |row| match row {
            Row::Cause(cause) => text(&cause.text(false)),
            Row::Line(line) => format!("– of which line {}", line.line),
        })
        .right("% of the idle time", |row| percent1(row.share().percent))
        .right("±", |row| match row {
            // The rest has none.
            Row::Cause(cause) if cause.kind == HostCauseKind::Unknown => None,
            row => Some(percent1(row.share().error_percent)),
        })
        .right(per.as_deref().unwrap_or("total ms"), ns)
        .right("in launch gaps (% of idle time)", |row| {
            let Row::Cause(cause) = row else { return None };
            Some(percent1(cause.launch_gaps_percent)).filter(|_| cause.launch_gaps_percent > 0.0)
        })
        .right(
            &format!("more while the GPU works ({})", per.as_deref().unwrap_or("% of the window")),
            |row| {
                let Row::Cause(cause) = row else { return None };
                let percent = Some(cause.beside_work_percent);
                let percent = percent.filter(|percent| *percent >= SHOWN_PERCENT)?;
                Some(match &mean {
                    Some((found, _)) => in_unit(found.ns as f64 * percent / 100.0),
                    None => percent1(percent),
                })
            },
        )
        .right("samples", |row| count(row.share().samples));
    out.push_str(&table.markdown());
    for advice in &stage.advice {
        let most = advice.frame.as_ref().map(|frame| format!(" Most of it: {}.", frame.text()));
        out.push_str(&format!(
            "- {}. {}{}\n",
            plain(&advice.text),
            plain(&advice.remedy),
            plain(&most.unwrap_or_default())
        ));
    }
    if stage.advice.is_empty() { out } else { out + "\n" }
}

/// What the hosts of late ranks do in the steps in which they are late, against other steps.
pub(super) fn late_md(report: &Report, stage: &str) -> String {
    let late = report.ranks.late.iter().filter(|row| row.stage == stage);
    let known = late.filter_map(|row| Some((row, row.host.as_ref()?)));
    known.map(|(late, host)| late_steps(late, host)).collect()
}

fn late_steps(late: &LateRow, host: &LateHost) -> String {
    let result = match host.finding() {
        Some(row) if row.is_sure() => None,
        Some(row) => Some(host.few_samples(row)),
        None => Some(format!(
            "Nothing takes longer in a late step by more than {:.0} standard errors: {}",
            host.errors_least(),
            host.more_samples()
        )),
    };
    let head = format!(
        "{} of {} compared with {}, {}",
        counted(host.late_steps, "late step"),
        late.who,
        match host.other_ranks {
            true => counted(host.other_steps, "step") + " of the other ranks",
            false => format!("its {}", counted(host.other_steps, "other step")),
        },
        counted(host.samples, "host sample")
    );
    let in_steps = |row: &LateHostRow, ns, steps| match ns {
        0 => format!("no sample, below {}", ms3(host.missed_ns(row, steps))),
        _ => ms3(ns),
    };
    let table = Table::first(CAUSES, &host.rows)
        .left("what the host did", |row| text(&row.text(false)))
        .right("longer in a late step, ms", |row| signed_ms(row.longer_ns()))
        .right("±", |row| ms3(row.error_ns))
        .right("in a late step, ms", |row| in_steps(row, row.late_ns, host.late_steps))
        .right("in another step, ms", |row| in_steps(row, row.other_ns, host.other_steps))
        .right("samples", |row| count(row.samples))
        .left("beyond chance", |row| host.is_finding(row).then(|| "yes".to_owned()));
    let is_chance = |row: &LateHostRow| !host.is_finding(row);
    let rule = match host.finding().is_some() && host.rows.iter().any(is_chance) {
        true => paragraph(&format!(
            "Beyond chance: longer by more than {:.0} standard errors. Only these rows count.",
            host.errors_least()
        )),
        false => String::new(),
    };
    let note = match host.rows.iter().any(|row| row.late_ns == 0 || row.other_ns == 0) {
        true => paragraph(
            "A row without samples is bounded by the time of three samples (95 % confidence); its ± is that of one.",
        ),
        false => String::new(),
    };
    let result = result.map_or_else(String::new, |result| format!(" {}.", plain(&result)));
    format!("**{}.**{result}\n\n{}{note}", plain(&head), table.markdown() + &rule)
}

fn signed_ms(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "" }, ms3(ns.unsigned_abs()))
}

/// A cause, or a line of its function.
#[derive(Clone, Copy)]
enum Row<'r> {
    Cause(&'r HostCause),
    Line(&'r HostLine),
}

impl Row<'_> {
    /// Its shares, as those of a line.
    fn share(self) -> HostLine {
        match self {
            Row::Line(line) => line.clone(),
            Row::Cause(cause) => HostLine {
                line: 0,
                percent: cause.percent,
                error_percent: cause.error_percent,
                samples: cause.samples,
            },
        }
    }
}

/// The row of a cause, and below it those of its largest lines beyond their sampling error.
fn rows_of(cause: &HostCause) -> impl Iterator<Item = Row<'_>> {
    let is_sure = |line: &&HostLine| line.percent >= line.error_percent * HOST_ERRORS_LEAST;
    let lines = cause.lines.iter().filter(is_sure).take(LINES);
    [Row::Cause(cause)].into_iter().chain(lines.map(Row::Line))
}

fn processes(host: &HostUse) -> String {
    // The part of the runnable time (running or waiting for a processor) that was spent waiting.
    let waited = |process: &HostProcess| {
        let wanted = process.cpu_ns.saturating_add(process.delay_ns);
        (wanted > 0).then(|| percent1(process.delay_ns as f64 * 100.0 / wanted as f64))
    };
    let said = |process: &HostProcess| {
        let parts = [&process.off, &process.note].into_iter().flatten();
        let parts: Vec<&str> = parts.map(String::as_str).collect();
        (!parts.is_empty()).then(|| text(&parts.join("; ")))
    };
    Table::first(ROWS, &host.processes)
        .left("sampled process", |process| name(&process.file))
        .left("Python", |process| process.python.as_ref().map(|python| text(python)))
        .right("requested, 1/s", |process| decimal(process.asked_hz, 0))
        .right("achieved, 1/s", |process| decimal(process.reached_hz, 1))
        .right("samples", |process| count(process.samples))
        .right("lost or torn", |process| count(process.dropped))
        .right("late, %", |process| process.late_percent.map(percent1))
        .right("launching threads waiting for a processor, % of their runnable time", waited)
        .left("limits", said)
        .or_nothing()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;
    use stage2_model::{
        Bottleneck, HostCauseKind, HostFrame, LateDelays, LateSteps, Ranks, WindowKind, WindowPart,
        WindowSplit,
    };

    #[test]
    fn the_section_has_the_shares_their_errors_and_the_faults() {
        let report = Report { host: Some(host()), ..Report::default() };
        let markdown = host_md(&report);
        for words in [
            "### `decode`",
            "The GPU was idle for 6.00 ms of 10.00 ms; 240 samples of `engine` in the idle time; samples cover 98.0 % of",
            "| Scheduler.schedule (vllm/v1/core/scheduler.py:212 and 2 more lines) | 65.3 | 3.1 | 3.918 |",
            "| – of which line 212 | 40.0 | 3.2 | 2.400 |",
            "| – of which line 214 | 20.0 | 2.6 | 1.200 |",
            "waiting for the GIL held by 'detok' in",
            "- 32.7 ± 3.0 % of the idle time passed while the launching thread waited",
            "| `node-1.s2t` | 3.12 | 100 | 99.5 | 1,000 | 3 | 1.0 | 20.0 |",
        ] {
            assert!(markdown.contains(words), "{words}: {markdown}");
        }
        assert!(!markdown.contains("of which line 230"), "it is within its error: {markdown}");
        // Of a stage with a mean step, in its unit, as the first screen has it.
        let part = |kind, ns| WindowPart { kind, ns, percent: 0.0 };
        let parts = vec![part(WindowKind::Compute, 400_000), part(WindowKind::OtherIdle, 600_000)];
        let window = Some(WindowSplit { window_ns: 1_000_000, parts, steps: None });
        let bottleneck = Bottleneck { of: "step".into(), ns: 2_000_000, ..Bottleneck::default() };
        let mut report = Report { answer: crate::testing::answer(), ..report };
        let stage = &mut report.answer.stages[0];
        (stage.window, stage.bottleneck) = (window, Some(bottleneck));
        let markdown = host_md(&report);
        for words in [
            "| Per step (ms) | More while the GPU works (ms per step) |",
            "scheduler.py:212 and 2 more lines) | 65.3 | 3.1 | 0.78 |",
        ] {
            assert!(markdown.contains(words), "{words}: {markdown}");
        }
        let sum: f64 = host().stages[0].causes.iter().map(|cause| cause.percent).sum();
        assert!((sum - 100.0).abs() < 1e-9);
        assert_eq!(host_md(&Report::default()), "");
    }

    #[test]
    fn late_steps_are_compared_with_others() {
        let frame = HostFrame { function: "f".into(), file: "a.py".into(), line: 3 };
        let row = |late_ns| LateHostRow {
            kind: HostCauseKind::UserCode,
            frame: Some(frame.clone()),
            late_ns,
            other_ns: 500_000,
            error_ns: 100_000,
            samples: 40,
            ..LateHostRow::default()
        };
        let told = |rows: Vec<LateHostRow>| {
            let (late_steps, other_steps) = (5, 9);
            let of = LateHost { late_steps, other_steps, samples: 40, rows, ..LateHost::default() };
            let (stage, who) = ("decode".to_owned(), "rank 1".to_owned());
            let steps = Some(LateSteps { late: 5, ..LateSteps::default() });
            let delays = Some(LateDelays { total_ns: 9_000_000, steps, ..LateDelays::default() });
            let late = vec![LateRow { stage, who, delays, host: Some(of), ..LateRow::default() }];
            let ranks = Ranks { late, ..Ranks::default() };
            late_md(&Report { ranks, ..Report::default() }, "decode")
        };
        let few = LateHostRow { other_ns: 0, error_ns: 310_000, samples: 9, ..row(900_000) };
        let few = LateHostRow { lines: vec![3, 5], ..few };
        let found = told(vec![row(2_500_000), few.clone(), row(300_000)]);
        for words in [
            "**5 late steps of rank 1 compared with its 9 other steps, 40 host samples",
            "| f (a.py:3) | 2.000 | 0.100 | 2.500 | 0.500 | 40 |",
            "| f (a.py:3 and 1 more line) | 0.900 | 0.310 | 0.900 | no sample, below 0.167 | 9 |",
            "A row without samples is bounded by the time of three samples",
            "| f (a.py:3) | -0.200 | 0.100 | 0.300 | 0.500 | 40 |",
        ] {
            assert!(found.contains(words), "{words}: {found}");
        }
        let found = told(vec![few]);
        let words = "9 samples are few: record for longer, or with profiling.collector.host=1000.";
        assert!(found.contains(words), "{found}");
        let found = told(vec![row(600_000)]);
        assert!(found.contains("Nothing takes longer in a late step by more than 2"), "{found}");
        assert!(!found.contains("no sample"), "{found}");
        assert_eq!(late_md(&Report::default(), "decode"), "");
    }

    #[test]
    fn what_is_not_known_says_why() {
        let mut few = host();
        few.stages[0].causes.clear();
        few.stages[0].samples = 12;
        few.processes[0].off = Some("the interpreter is not known: 3.20".into());
        let markdown = host_md(&Report { host: Some(few), ..Report::default() });
        for words in [
            "too few samples for causes: 12, and 30 are needed",
            "profiling.collector.host=1000",
            "3.20",
        ] {
            assert!(markdown.contains(words), "{words}: {markdown}");
        }
        let mut busy = host();
        busy.stages[0] = HostStage {
            causes: Vec::new(),
            idle_ns: Some(100_000),
            window_ns: Some(10_000_000),
            ..busy.stages[0].clone()
        };
        let markdown = stage_md(&Report::default(), &busy.stages[0], busy.more_samples());
        assert!(markdown.contains("hardly idle") && !markdown.contains("longer"), "{markdown}");
        let none = HostUse::default();
        let markdown = host_md(&Report { host: Some(none), ..Report::default() });
        assert!(markdown.contains("no sample lies in a stage"), "{markdown}");
    }
}
