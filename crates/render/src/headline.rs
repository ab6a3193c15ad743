//! A report -> what a terminal shows at the end of a run: the answer, and for the curious what it is based on.

use std::path::Path;

use super::facts::{carried_fact, coverage_in_short, facts, parts};
use super::page::{COVERAGE, answer_lines, idle_percent, warnings, warnings_of};
use super::ranks;
use stage2_contract::text::numbers::{
    count, counted, or_absent, percent1, shown_time, time_scale, us3,
};
use stage2_contract::text::{shorten, shorten_kernel, visible_path};
use stage2_model::kernels::stage_kernels;
use stage2_model::lead::bound_by;
use stage2_model::{AnswerLine, Bottleneck, RUN_DIR, Report, StageAnswer, StageRow};

// How many of a kind are shown.
const STAGES: usize = 4;
const STEPS: usize = 3;
const KERNELS: usize = 3;
const LATE_RANKS: usize = 2;
const NAME_CHARS: usize = 60;
/// Four lines of a terminal with 80 columns, behind their label.
const BRIEF_CHARS: usize = 330;

/// The end of a run in short, without line ends and without anything that acts on a terminal.
#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// What the pages state first; of a run without GPU work the reason and what to do.
    pub answer: Vec<AnswerLine>,
    /// Ranks, stages, steps and kernels.
    pub evidence: Vec<String>,
}

impl Headline {
    /// All of it, a line each.
    pub fn lines(&self) -> Vec<String> {
        let answer =
            self.answer.iter().map(|AnswerLine { label, text }| format!("{label}: {text}"));
        self.evidence.iter().cloned().chain(answer).collect()
    }
}

/// What a terminal shows of the report of the bundle `folder`: a fact in each line where there is a verdict, and all
/// lines of the pages as evidence; else these lines as far as they fit on a small screen.
pub fn headline(report: &Report, folder: &Path) -> Headline {
    let mut evidence = evidence(report);
    let all = answer(report, folder);
    let facts = facts(report);
    let shown = |line: &AnswerLine| match &*line.label {
        COVERAGE => coverage_in_short(report, &line.text),
        "host" => host_in_short(&line.text),
        "late rank" | "outliers" | "kernel" => brief(&line.text),
        _ => line.text.clone(),
    };
    let windows = windows_in_short(report);
    let mut answer = facts.unwrap_or_else(|| {
        let short = |line: &AnswerLine| match &*line.label {
            "window" if !windows.is_empty() => windows.clone(),
            _ => vec![AnswerLine { text: shown(line), ..line.clone() }],
        };
        all.iter().flat_map(short).collect()
    });
    for late in answer.iter_mut().filter(|line| line.label == "late") {
        late.text.extend(carried_fact(report));
    }
    let warnings = warnings(report).filter(|_| report.coverage.empty.is_none());
    if let Some(mut warnings) = warnings {
        // Of several, the line has the first one.
        if warnings_of(report).count() > 1 {
            let folder = quoted(folder);
            warnings.text.push_str(&format!("; all: stage2-launch ask {folder} caveats"));
        }
        answer.insert(answer.len().saturating_sub(1), warnings);
    }
    let is_whole = |line: &&AnswerLine| answer.contains(line);
    let rest = all.iter().filter(|line| !is_whole(line));
    evidence.extend(rest.map(|line| format!("{}: {}", line.label, line.text)));
    Headline { answer, evidence }
}

/// What bounds the first stage, and the parts of all windows, of a run without a verdict.
fn windows_in_short(report: &Report) -> Vec<AnswerLine> {
    let stages = report.answer.stages.iter();
    let known: Vec<_> = stages.filter_map(|of| Some((of, of.bottleneck.as_ref()?))).collect();
    let bound = known.first().and_then(|(of, found)| {
        let (name, bound) = (shorten(&of.stage, NAME_CHARS), found.first()?);
        let (scale, unit, decimals) = time_scale(found.ns as f64);
        let [part, all] =
            [bound.ns, found.ns].map(|ns| format!("{:.decimals$}", ns as f64 / scale));
        let bound = bound_by(report, &of.stage, bound.kind);
        Some(format!("{name} is bound by {bound}: {part} of {all} {unit}; {}", of.basis))
    });
    let split = |(of, found): &(&StageAnswer, &Bottleneck)| {
        format!("{}: {}", shorten(&of.stage, NAME_CHARS), parts(found))
    };
    let split = known.iter().take(STAGES).map(split).collect::<Vec<_>>().join("; ");
    let line = |(label, text): (&str, String)| AnswerLine { label: label.into(), text };
    bound.map_or_else(Vec::new, |bound| [("window", bound), ("where", split)].map(line).to_vec())
}

/// That nothing is known of the host needs no more than the reason.
fn host_in_short(text: &str) -> String {
    let reason = text.split_once(": too few samples to say more (");
    let samples = reason.and_then(|(_, reason)| reason.split([':', ')']).next());
    samples.map_or_else(|| brief(text), |samples| format!("not known: {samples}"))
}

/// A text up to the end of a clause, if it is long. Whole clauses are a sentence; what ends within one is marked as cut.
fn brief(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(BRIEF_CHARS) else { return text.to_owned() };
    let fits = text.get(..end).unwrap_or(text);
    if let Some(at) = fits.rfind("; ").filter(|at| at * 2 >= end) {
        return fits.get(..at).unwrap_or(fits).to_owned();
    }
    let at = [", ", ": "].iter().filter_map(|clause| fits.rfind(clause)).max();
    format!("{} ...", fits.get(..at.unwrap_or(end)).unwrap_or(fits).trim_end())
}

fn answer(report: &Report, folder: &Path) -> Vec<AnswerLine> {
    let mut lines = answer_lines(report);
    if let Some(empty) = &report.coverage.empty {
        lines.retain(|line| line.label == COVERAGE);
        lines.push(AnswerLine { label: "to do".to_owned(), text: empty.first.remedy.clone() });
    }
    // A command that works as it stands: the folder is known here.
    let folder = quoted(folder);
    for line in lines.iter_mut().filter(|line| line.label == "floor") {
        line.text = line.text.replace(RUN_DIR, &folder);
    }
    lines
}

/// The folder as a command has it.
fn quoted(folder: &Path) -> String {
    let shown = visible_path(folder).to_string();
    shlex::try_quote(&shown).map_or_else(|_| RUN_DIR.to_owned(), Into::into)
}

fn evidence(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let stages = || report.stages.iter().filter(|row| row.apart.is_none());
    if ranks::is_job(report) {
        lines.push(format!("ranks: {}", ranks::seen(report)));
    }
    let late = report.ranks.late.iter();
    let late = late.filter_map(|row| {
        Some(format!("{}: {}", shorten(&row.stage, NAME_CHARS), row.sentence()?))
    });
    lines.extend(late.take(LATE_RANKS));
    // Counts of a sample are scaled to all instances; busy time is that of the recorded ones.
    let of = if report.is_sampled() { " in the sample" } else { "" };
    lines.extend(stages().take(STAGES).map(|row| stage(report, row, of)));
    if let Some(more) = stages().count().checked_sub(STAGES).filter(|&more| more > 0) {
        lines.push(format!("and {} more stages", count(more as u64)));
    }
    lines.extend(super::steps::sentences(report, STEPS));
    // As the pages rank them, each in its stage.
    let top = stage_kernels(report);
    lines.extend(top.iter().take(KERNELS).enumerate().map(|(i, kernel)| {
        format!(
            "top {}: {} % of the kernel time of {}, {} calls, mean {} us: {}",
            i + 1,
            or_absent(kernel.percent, percent1),
            shorten(&kernel.row.stage, NAME_CHARS),
            count(kernel.calls),
            or_absent(kernel.mean_ns, us3),
            shorten_kernel(&kernel.row.kernel, NAME_CHARS),
        )
    }));
    lines
}

fn stage(report: &Report, row: &StageRow, of: &str) -> String {
    let name = shorten(&row.stage, NAME_CHARS);
    if let Some(unplaced) = report.unplaced.filter(|_| row.kernels.is_none()) {
        return format!("{name}: GPU work not known ({})", unplaced.label());
    }
    if row.has_no_gpu_work() {
        return format!("{name}: no GPU work launched by the stage itself");
    }
    // Of a sample it is said behind.
    let kernels = |kernels| match row.instances.filter(|_| of.is_empty()) {
        Some(all) => {
            format!("{name}, all of {}: {} kernels", counted(all, "call"), count(kernels))
        }
        None => format!("{name}: {} kernels", count(kernels)),
    };
    match (row.kernels, row.gpu_busy_ns, row.kernel_sum_ns) {
        (Some(all), Some(busy_ns), _) => {
            let idle = idle_percent(row).map(percent1);
            let which = if row.warm.is_some() { "warm ones idle" } else { "idle" };
            let idle = idle.map_or_else(String::new, |idle| format!("; {which} {idle} %"));
            format!("{}, GPU busy {}{of}{idle}", kernels(all), shown_time(busy_ns as f64))
        }
        (Some(all), None, Some(ns)) => {
            format!("{}, {} in sum", kernels(all), shown_time(ns as f64))
        }
        (Some(all @ 1..), None, None) => format!("{}, none of them timed", kernels(all)),
        _ => format!("{name}: GPU work was not recorded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{answer as answer_of_pages, host, rich};
    use stage2_model::{
        Answer, Empty, EmptyCause, EmptyReason, FirstStep, LateDelays, LateRow, LateSteps, Role,
        Status,
    };

    fn labels(headline: &Headline) -> Vec<&str> {
        headline.answer.iter().map(|line| &*line.label).collect()
    }

    #[test]
    fn the_answer_is_that_of_the_pages_and_the_evidence_is_apart() {
        let report = Report { answer: answer_of_pages(), ..rich() };
        let lines = headline(&report, Path::new("run"));
        assert_eq!(
            labels(&lines),
            ["time", "window", "where", "floor", "first", "warnings", "coverage"]
        );
        assert!(lines.evidence[0].starts_with("stage0: "), "{lines:#?}");
    }

    #[test]
    fn a_terminal_shows_a_fact_in_each_line() {
        let line = |label: &str, text: &str| AnswerLine { label: label.into(), text: text.into() };
        let verdict = "simulated GPU: decode takes 2.15 ms per token (p50; p99 2.31). Of the mean token of 2.15 ms, the \
                       GPU idles. First, use CUDA graphs (saves up to 1.70 ms per token).";
        let lines = vec![
            line("verdict", verdict),
            line(
                "host",
                &format!("decode waits 1.83 ms: {}", "26 % of it in run_fullgraph, ".repeat(11)),
            ),
            line("first", "decode up to 2.4x faster"),
            line(COVERAGE, "complete: no known lost records, and so on (9 GPU records in ranges)"),
        ];
        let in_short = "use CUDA graphs (saves up to 1.70 ms per token)".to_owned();
        let first = Some(FirstStep { in_short, ..FirstStep::default() });
        let lead = "simulated GPU: ".to_owned();
        let answer = Answer { lead, lines, first, ..answer_of_pages() };
        let mut report = Report { answer, host: Some(host()), ..rich() };
        report.coverage.verdict.status = Status::Complete;
        let short = headline(&report, Path::new("run"));
        let expected = [
            "verdict: simulated GPU: decode is bound by launches: 1.70 of 2.15 ms per token; 5.1x the token's floor",
            "time: mean 2.15 ms per token (p50 2.15), 465.0 tokens/s",
            "where: idle between kernels 1.70 ms (79 %), kernels 0.45 (21 %)",
            "host: Scheduler.schedule (scheduler.py:212 and 2 more lines): 1.11 ms of idle GPU per token \
             (90.1 us more while the GPU works)",
            "FIRST: use CUDA graphs (saves up to 1.70 ms per token)",
            "warnings: 20, the first: counters of 12 of 30 kernel rows are of the profiled launch only, e.g. in stage0; all: stage2-launch ask run caveats",
            "coverage: complete: no known lost records",
        ];
        assert_eq!(short.lines()[short.evidence.len()..], expected);
        for whole in [format!("verdict: {verdict}"), "first: decode up to 2.4x faster".to_owned()] {
            assert!(short.evidence.contains(&whole), "{:#?}", short.evidence);
        }
        let page = crate::facts::brief_screen(&report);
        let end = "- **Warnings:** 20, the first: counters of 12 of 30 kernel rows are of the profiled launch only, e.g. in stage0\n\
                   - **Coverage:** complete: no known lost records\n\nFloor: the least time that the GPU needs for the work of a \
                   token. Kernel: a function that runs on the GPU.\n\n";
        assert!(page.ends_with(end), "{page}");
        let head = "- **Verdict:** simulated GPU: decode is bound by launches: 1.70 of 2.15 ms per token; 5.1x the \
                    token's floor\n- **First:** use CUDA graphs (saves up to 1.70 ms per token)\n- **Time:** ";
        assert!(page.contains(head) && !page.contains("Of the mean token"), "{page}");
        // A late rank is why the GPU waits; a stage of its own comes after the one that is told of.
        let steps = LateSteps {
            noun: "step".into(),
            late: 9,
            of: 64,
            median_ns: 1_600_000,
            ..LateSteps::default()
        };
        let delays = LateDelays { total_ns: 9, steps: Some(steps), ..LateDelays::default() };
        let (who, stage) = ("rank 0".into(), "decode".into());
        report.ranks.late =
            vec![LateRow { who, stage, delays: Some(delays), ..LateRow::default() }];
        let mut prefill = report.answer.stages[0].clone();
        (prefill.stage, prefill.role) = ("prefill".into(), Role::Prefill);
        report.answer.stages.push(prefill);
        report.answer.first.as_mut().unwrap().stage = Some("prefill".into());
        let short = headline(&report, Path::new("run")).answer;
        let text =
            |label: &str| short.iter().find(|line| line.label == label).map(|line| &*line.text);
        assert_eq!(text("late"), Some("rank 0 in 9 of 64 steps, by 1.60 ms (median), on the host"));
        assert!(text("host").is_some_and(|host| host.starts_with("Scheduler.schedule (")));
        assert!(text("time").is_some_and(|time| time.ends_with("; prefill mean 2.15 ms")));
        assert!(text("FIRST").is_some_and(|first| {
            first.starts_with("the run can save most in prefill: use CUDA graphs (")
        }));
        // Without a verdict, the lines of the pages are there.
        report.answer.lines.remove(0);
        let short = headline(&report, Path::new("run"));
        assert_eq!(labels(&short), ["host", "first", "warnings", COVERAGE]);
        let host = &short.answer[0].text;
        assert!(
            host.ends_with("in run_fullgraph ...") && host.chars().count() <= BRIEF_CHARS + 4,
            "{host}"
        );
        let late =
            format!("rank 0 is late, {}; and {}", "by 2.2 ms, ".repeat(20), "so on".repeat(20));
        assert!(
            brief(&late).ends_with("by 2.2 ms, "),
            "a whole clause needs no dots: {}",
            brief(&late)
        );
    }

    /// Of single cold calls there is no verdict: each line still has a stage, a number and a unit.
    #[test]
    fn a_run_without_a_verdict_has_short_lines_too() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample/regions/metrics.json");
        let json = std::fs::read_to_string(path).expect("the sample");
        let report: Report = serde_json::from_str(&json).expect("a report");
        let short = headline(&report, Path::new("run")).answer;
        let text = |label: &str| {
            let line = short.iter().find(|line| line.label == label);
            line.map(|line| line.text.as_str()).expect(label)
        };
        assert_eq!(
            text("window"),
            "prefill is bound by the host: 0.21 of 0.36 ms; the only call, which is cold"
        );
        assert_eq!(
            text("where"),
            "prefill: host wait 0.21 ms (60 %), kernels 0.14 (40 %); decode: kernels 0.14 ms (62 %), idle between kernels 0.09 (38 %)"
        );
        assert_eq!(text("host"), "not known: 0 samples of its idle time, and 30 are needed");
    }

    #[test]
    fn a_run_without_gpu_work_has_its_reason_and_what_to_do() {
        let mut report = Report { answer: answer_of_pages(), ..rich() };
        report.coverage.verdict.text = "EMPTY: no GPU work was recorded".into();
        report.answer.lines.pop();
        let reason = EmptyReason {
            cause: EmptyCause::NoGpu,
            why: "there is no GPU".into(),
            remedy: "run it where one is".into(),
        };
        report.coverage.empty = Empty::of(vec![reason]);
        let lines = headline(&report, Path::new("run"));
        assert_eq!(labels(&lines), ["coverage", "to do"]);
        assert_eq!(lines.answer[0].text, "EMPTY: no GPU work was recorded", "it is never left out");
        assert_eq!(lines.answer[1].text, "run it where one is");
    }

    #[test]
    fn a_stage_without_gpu_work_of_its_own_is_not_called_idle() {
        let none = StageRow {
            stage: "request".into(),
            kernels: Some(0),
            gpu_busy_ns: Some(0),
            ..StageRow::default()
        };
        let row =
            StageRow { copies: Some(0), fills: Some(0), gpu_window_ns: Some(5_000_000), ..none };
        let report = Report::default();
        assert_eq!(
            stage(&report, &row, " in the sample"),
            "request: no GPU work launched by the stage itself"
        );
        let copies = StageRow { copies: Some(1), ..row };
        assert!(stage(&report, &copies, "").starts_with("request: 0 kernels, GPU busy 0.0 us"));
    }
}
