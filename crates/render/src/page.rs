//! What every page says before anything else, and what several pages compute alike.

use super::ranks;
use crate::table::capitalised;
use stage2_contract::text::plain;
use stage2_model::{AnswerLine, Report, StageRow};

/// What a simulated device means for the numbers.
pub(super) const SIMULATED: &str = "SIMULATED: the GPU of this capture (or of a part of it) was simulated. \
    The times are those of a recording, not of this machine.";

/// Label of the line on coverage, the last of the answer.
pub(super) const COVERAGE: &str = "coverage";

/// The lines of the answer. The coverage is always the last one: a reader who trusts the others needs it.
pub(super) fn answer_lines(report: &Report) -> Vec<AnswerLine> {
    let mut lines = report.answer.lines.clone();
    if lines.iter().all(|line| line.label != COVERAGE) {
        let text = report.coverage.verdict.text.clone();
        lines.push(AnswerLine { label: COVERAGE.to_owned(), text });
    }
    lines
}

/// Whether the answer says more than how complete the capture is.
pub(super) fn is_answered(report: &Report) -> bool {
    report.answer.lines.iter().any(|line| line.label != COVERAGE)
}

/// Right below the title: simulated or not, an early end of the workload, the answer, ranks.
pub(super) fn first_screen(report: &Report) -> String {
    let mut out = String::new();
    if report.simulated {
        out.push_str(&format!("> **{SIMULATED}**\n\n"));
    }
    if let Some(end) = &report.run.workload_end {
        out.push_str(&format!("**Ended early:** {}.\n\n", plain(&end.sentence())));
    }
    for AnswerLine { label, text } in answer_lines(report) {
        let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
        out.push_str(&format!("**{}:** {}{stop}\n\n", plain(&capitalised(&label)), plain(&text)));
    }
    if let Some(ranks) = ranks::head(report) {
        out.push_str(&format!("**Ranks:** {}.\n\n", plain(&ranks)));
    }
    out
}

/// A page of Markdown.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) head: String,
    /// By their titles.
    pub(super) sections: Vec<(&'static str, String)>,
}

impl Page {
    /// The page as it is written. A section without text is left out.
    pub(super) fn markdown(&self) -> String {
        let mut out = format!("# {}\n\n{}", plain(&self.title), self.head);
        for (title, text) in self.sections.iter().filter(|(_, text)| !text.is_empty()) {
            out.push_str(&format!("## {title}\n\n{text}"));
        }
        out
    }
}

/// Share of the window of a stage in which its GPUs did nothing, percent: of its warm instances without
/// outliers, as in the answer, where they are known.
pub(super) fn idle_percent(stage: &StageRow) -> Option<f64> {
    let of_all = stage.gpu_busy_percent?;
    let busy = match stage.ordinary().filter(|warm| warm.gpu_window_ns > 0) {
        Some(warm) => warm.gpu_busy_ns as f64 * 100.0 / warm.gpu_window_ns as f64,
        None => of_all,
    };
    Some((100.0 - busy).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::kernels_md;
    use crate::testing::{answer, rich};
    use crate::{operators, report, summary};
    use stage2_model::Operators;
    use stage2_report::conclusions::Shown;

    #[test]
    fn every_page_opens_with_the_same_five_lines() {
        let mut report = Report { simulated: true, answer: answer(), ..rich() };
        report.answer.lines[0].text = "decode <b>2 ms</b>?".into();
        let five = "**Time:** decode &lt;b&gt;2 ms&lt;/b&gt;?\n\n\
                    **Window:** decode: launch gaps 79.0 %, compute 20.9 %, copies 0.1 %.\n\n\
                    **Floor:** decode 0.420 ms per token: 5.1x the floor.\n\n\
                    **First:** decode up to 4.9x faster if launch gaps vanish: use CUDA graphs.\n\n\
                    **Coverage:** complete: no record is known to be lost, and every kernel record is attributed.\n\n";
        let operators = operators::operators_md(&report, &Operators::default(), 5);
        for page in [
            kernels_md(&report, 5),
            operators,
            report::page(&report).markdown(),
            summary::page(&report, &Shown::default()).markdown(),
        ] {
            let title = page.lines().next().expect("a title");
            let above = format!("{title}\n\n> **{SIMULATED}**\n\n");
            assert!(page.starts_with(&format!("{above}{five}")), "{page}");
        }
    }
}
