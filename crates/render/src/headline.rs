//! A report -> what a terminal shows at the end of a run: the answer, and for the curious what it is based on.

use std::path::Path;

use super::page::{COVERAGE, answer_lines, idle_percent};
use super::ranks;
use stage2_contract::text::numbers::{count, counted, or_absent, percent1, shown_time, us3};
use stage2_contract::text::{shorten, shorten_kernel, visible_path};
use stage2_model::kernels::stage_kernels;
use stage2_model::{AnswerLine, RUN_DIR, Report, StageRow, Status};

// How many of a kind are shown.
const STAGES: usize = 4;
const STEPS: usize = 3;
const KERNELS: usize = 3;
const LATE_RANKS: usize = 2;
const NAME_CHARS: usize = 60;
/// Not much more than three lines of a terminal with 80 columns, behind their label.
const BRIEF_CHARS: usize = 230;

/// The end of a run in short, without line ends and without anything that acts on a terminal.
#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// What the pages say first; of a run without GPU work the reason and what to do.
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

/// What a terminal shows of the report of the bundle `folder`: the answer as far as it fits on a small screen, and
/// all else of it as evidence.
pub fn headline(report: &Report, folder: &Path) -> Headline {
    let mut evidence = evidence(report);
    let all = answer(report, folder);
    // The verdict ends with what to do first, and begins with the window.
    let has_verdict = all.iter().any(|line| line.label == "verdict");
    let has_all = has_verdict && report.answer.first.is_some();
    let mut answer = Vec::new();
    for line in all {
        let text = match &*line.label {
            "window" | "first" if has_all => None,
            "host" | "late rank" | "outliers" | "kernel" => Some(brief(&line.text)),
            COVERAGE if report.coverage.verdict.status == Status::Complete => {
                line.text.split(" (").next().map(str::to_owned)
            }
            _ => Some(line.text.clone()),
        };
        if text.as_ref() != Some(&line.text) {
            evidence.push(format!("{}: {}", line.label, line.text));
        }
        answer.extend(text.map(|text| AnswerLine { label: line.label, text }));
    }
    Headline { answer, evidence }
}

/// A text up to the end of a clause, if it is long.
fn brief(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(BRIEF_CHARS) else { return text.to_owned() };
    let fits = text.get(..end).unwrap_or(text);
    let at = ["; ", ", ", ": "].iter().filter_map(|clause| fits.rfind(clause)).max();
    format!("{} ...", fits.get(..at.unwrap_or(end)).unwrap_or(fits).trim_end())
}

fn answer(report: &Report, folder: &Path) -> Vec<AnswerLine> {
    let mut lines = answer_lines(report);
    if let Some(empty) = &report.coverage.empty {
        lines.retain(|line| line.label == COVERAGE);
        lines.push(AnswerLine { label: "to do".to_owned(), text: empty.first.remedy.clone() });
    }
    // A command that works as it stands: the folder is known here.
    let shown = visible_path(folder).to_string();
    let folder = shlex::try_quote(&shown).ok();
    for line in lines.iter_mut().filter(|line| line.label == "floor") {
        line.text = line.text.replace(RUN_DIR, folder.as_deref().unwrap_or(RUN_DIR));
    }
    lines
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
    use crate::testing::{answer as answer_of_pages, rich};
    use stage2_model::{Answer, Empty, EmptyCause, EmptyReason, FirstStep};

    fn labels(headline: &Headline) -> Vec<&str> {
        headline.answer.iter().map(|line| &*line.label).collect()
    }

    #[test]
    fn the_answer_is_that_of_the_pages_and_the_evidence_is_apart() {
        let report = Report { answer: answer_of_pages(), ..rich() };
        let lines = headline(&report, Path::new("run"));
        assert_eq!(labels(&lines), ["time", "window", "floor", "first", "coverage"]);
        assert!(lines.evidence[0].starts_with("stage0: "), "{lines:#?}");
    }

    #[test]
    fn a_terminal_shows_in_short_what_the_pages_show_in_full() {
        let line = |label: &str, text: &str| AnswerLine { label: label.into(), text: text.into() };
        let long = format!("decode waits 1.83 ms: {}", "26 % of it in run_fullgraph, ".repeat(9));
        let lines = vec![
            line("verdict", "decode takes 3.26 ms. First, use CUDA graphs"),
            line("window", "decode is bound by the host"),
            line("host", &long),
            line("first", "decode up to 2.4x faster"),
            line(COVERAGE, "complete: no record is known to be lost (9 GPU records in ranges)"),
        ];
        let first = Some(FirstStep::default());
        let mut report = Report { answer: Answer { lines, first, ..answer_of_pages() }, ..rich() };
        report.coverage.verdict.status = Status::Complete;
        let short = headline(&report, Path::new("run"));
        assert_eq!(labels(&short), ["verdict", "host", COVERAGE]);
        let host = &short.answer[1].text;
        assert!(host.ends_with("in run_fullgraph ...") && host.chars().count() <= 234, "{host}");
        assert_eq!(short.answer[2].text, "complete: no record is known to be lost");
        for whole in ["window: decode is bound by the host", "first: decode up to 2.4x faster"] {
            assert!(short.evidence.iter().any(|line| line == whole), "{:#?}", short.evidence);
        }
        assert!(short.evidence.contains(&format!("host: {long}")));
        // Without a verdict nothing else says what the window holds and what to do first.
        report.answer.lines.remove(0);
        let short = headline(&report, Path::new("run"));
        assert_eq!(labels(&short), ["window", "host", "first", COVERAGE]);
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
