//! What every Markdown page says before anything else, and what several pages compute alike.

use super::ranks;
use stage2_model::{Report, StageRow};
use stage2_text::plain;

/// What a simulated device means for the numbers.
pub(super) const SIMULATED: &str = "SIMULATED: the GPU of this capture (or of a part of it) was simulated. \
    The times are those of a recording and say nothing about this machine.";

/// Right below the title: simulated or not, an early end of the workload, coverage, ranks.
pub(super) fn first_screen(report: &Report) -> String {
    let mut out = String::new();
    if report.simulated {
        out.push_str(&format!("> **{SIMULATED}**\n\n"));
    }
    if let Some(end) = &report.run.workload_end {
        out.push_str(&format!("**Ended early:** {}.\n\n", plain(&end.sentence())));
    }
    out.push_str(&format!("**Coverage:** {}.\n\n", plain(&report.coverage.verdict.text)));
    if let Some(ranks) = ranks::head(report) {
        out.push_str(&format!("**Ranks:** {}.\n\n", plain(&ranks)));
    }
    out
}

/// A page of Markdown: what comes first, and the sections by their titles.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) head: String,
    pub(super) sections: Vec<(&'static str, String)>,
}

impl Page {
    /// The page as it is written. A section without text is left out.
    pub(super) fn markdown(&self) -> String {
        let sections = self.sections.iter().filter(|(_, text)| !text.is_empty());
        let sections: String =
            sections.map(|(title, text)| format!("## {title}\n\n{text}")).collect();
        format!("# {}\n\n{}{sections}", plain(&self.title), self.head)
    }
}

/// Share of the window of a stage in which its GPUs did nothing, percent.
pub(super) fn idle_percent(stage: &StageRow) -> Option<f64> {
    stage.gpu_busy_percent.map(|busy| (100.0 - busy).max(0.0))
}
