//! A report -> the few lines that a terminal shows at the end of a run.

use std::path::Path;

use super::page::{SIMULATED, answer_lines, idle_percent};
use super::ranks;
use crate::kernels::stage_kernels;
use stage2_contract::text::numbers::{count, counted, ms3, or_absent, percent1, us3};
use stage2_contract::text::{shorten, shorten_kernel, visible_path};
use stage2_model::{AnswerLine, RUN_DIR, Report, StageRow};

// How many of a kind are shown.
const STAGES: usize = 4;
const STEPS: usize = 3;
const KERNELS: usize = 3;
const LATE_RANKS: usize = 2;
const NAME_CHARS: usize = 60;

/// The lines, without line ends and without anything that acts on a terminal.
pub fn headline(report: &Report, report_md: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    if report.simulated {
        lines.push(SIMULATED.to_owned());
    }
    let answer = answer_lines(report).into_iter();
    // A command that works as it stands: the folder is known here.
    let folder = report_md.parent().map(|folder| visible_path(folder).to_string());
    let folder = folder.and_then(|folder| Some(shlex::try_quote(&folder).ok()?.into_owned()));
    lines.extend(answer.map(|AnswerLine { label, text }| {
        let folder = folder.as_deref().filter(|_| label == "floor");
        format!("{label}: {}", text.replace(RUN_DIR, folder.unwrap_or(RUN_DIR)))
    }));
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
    lines.push(format!("report: {}", visible_path(report_md)));
    lines
}

fn stage(report: &Report, row: &StageRow, of: &str) -> String {
    let name = shorten(&row.stage, NAME_CHARS);
    if let Some(unplaced) = report.unplaced.filter(|_| row.kernels.is_none()) {
        return format!("{name}: GPU work not known ({})", unplaced.label());
    }
    if row.has_no_gpu_work() {
        return format!("{name}: no GPU work of its own");
    }
    // Of a sample it is said behind.
    let kernels = |kernels| match row.instances.filter(|_| of.is_empty()) {
        Some(all) => {
            format!("{name}, all of {}: {} kernels", counted(all, "instance"), count(kernels))
        }
        None => format!("{name}: {} kernels", count(kernels)),
    };
    match (row.kernels, row.gpu_busy_ns, row.kernel_sum_ns) {
        (Some(all), Some(busy_ns), _) => {
            let idle = idle_percent(row).map(percent1);
            let which = if row.warm.is_some() { "warm ones idle" } else { "idle" };
            let idle = idle.map_or_else(String::new, |idle| format!("; {which} {idle} %"));
            format!("{}, GPU busy {} ms{of}{idle}", kernels(all), ms3(busy_ns))
        }
        (Some(all), None, Some(ns)) => format!("{}, {} ms in sum", kernels(all), ms3(ns)),
        (Some(all @ 1..), None, None) => format!("{}, none of them timed", kernels(all)),
        _ => format!("{name}: GPU work was not recorded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{answer, rich};

    #[test]
    fn the_answer_opens_the_headline_with_coverage_as_its_fifth_line() {
        let report = Report { simulated: true, answer: answer(), ..rich() };
        let lines = headline(&report, Path::new("run/report.md"));
        assert_eq!(lines[0], SIMULATED);
        let expected = ["time: decode 2.150 ms", "window: ", "floor: ", "first: ", "coverage: "];
        for (line, start) in lines[1..].iter().zip(expected) {
            assert!(line.starts_with(start), "{start}: {lines:#?}");
        }
        assert!(lines[6].starts_with("stage0: "), "then the evidence: {lines:#?}");
        assert_eq!(lines.last().map(String::as_str), Some("report: run/report.md"));
    }

    #[test]
    fn without_an_answer_the_coverage_is_the_first_line() {
        let mut report = Report { answer: answer(), ..rich() };
        report.answer.lines.pop();
        report.coverage.verdict.text = "EMPTY: no GPU work was recorded".into();
        let lines = headline(&report, Path::new("report.md"));
        assert_eq!(lines[4], "coverage: EMPTY: no GPU work was recorded", "it is never left out");
        report.answer.lines.clear();
        let lines = headline(&report, Path::new("report.md"));
        assert_eq!(lines[0], "coverage: EMPTY: no GPU work was recorded");
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
        assert_eq!(stage(&report, &row, " in the sample"), "request: no GPU work of its own");
        let copies = StageRow { copies: Some(1), ..row };
        assert!(stage(&report, &copies, "").starts_with("request: 0 kernels, GPU busy 0.000 ms"));
    }
}
