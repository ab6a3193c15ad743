//! What every page says before anything else, and what several pages compute alike.

use super::ranks;
use crate::table::capitalised;
use stage2_contract::text::numbers::{grouped, or_absent, percent1, shown_time};
use stage2_contract::text::{plain, shorten, shorten_kernel};
use stage2_model::kernels::{Loss, model_stages, stage_kernels, steps};
use stage2_model::{AnswerLine, Report, StageRow, WarmRow};

/// What a simulated device means for the numbers.
pub(super) const SIMULATED: &str = "SIMULATED: the GPU of this capture (or of a part of it) was simulated. \
    The times are those of a recording, not of this machine.";

/// Label of the line on coverage, the last of the answer.
pub(super) const COVERAGE: &str = "coverage";

/// Label of the sentences that say it all, the first line of the answer.
pub(super) const VERDICT: &str = "verdict";

/// The lines of the answer, and the kernel that loses most in front of what to do. The coverage is always the last one:
/// a reader who trusts the others needs it.
pub(super) fn answer_lines(report: &Report) -> Vec<AnswerLine> {
    let mut lines = report.answer.lines.clone();
    if lines.iter().all(|line| line.label != COVERAGE) {
        let text = report.coverage.verdict.text.clone();
        lines.push(AnswerLine { label: COVERAGE.to_owned(), text });
    }
    if let Some(text) = loses_most(report) {
        let at = lines.iter().position(|line| line.label == "first").unwrap_or(lines.len() - 1);
        lines.insert(at, AnswerLine { label: "kernel".to_owned(), text });
    }
    lines
}

const NAME_CHARS: usize = 60;

/// The kernel that loses most in the first stage with a known loss, or else the longest one: `decode loses most in
/// cutlass (gemm, bound by memory, at 63 % of its roof): 0.901 of 2.434 ms per step`, as in the table of kernels.
/// Nothing without steps.
fn loses_most(report: &Report) -> Option<String> {
    let kernels = stage_kernels(report);
    let steps = steps(report);
    let losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &steps)).collect();
    report.answer.stages.iter().find_map(|answer| {
        let of_stage = || losses.iter().filter(|loss| loss.kernel.row.stage == answer.stage);
        let unit = answer.step.as_ref()?.shown_unit();
        let name = |loss: &Loss<'_>| shorten_kernel(&loss.kernel.row.kernel, NAME_CHARS);
        let stage = shorten(&answer.stage, NAME_CHARS);
        let lost = |loss: &&Loss<'_>| loss.ns_per_step.filter(|ns| *ns > 0.0);
        let most = of_stage().filter_map(|loss| Some((loss, lost(&loss)?)));
        if let Some((loss, ns)) = most.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let bound = loss.kernel.known_bound().map(|bound| format!("bound by {bound}, "));
            return Some(format!(
                "{stage} loses most in {} ({}, {}at {} % of its roof): {} per {unit}",
                name(loss),
                loss.kernel.row.class,
                bound.unwrap_or_default(),
                or_absent(loss.attainable, |share| percent1(share * 100.0)),
                lost_of(ns, loss.ns_of_step?),
            ));
        }
        let is_compute = |loss: &&Loss<'_>| loss.kernel.row.class != "communication";
        let longest = of_stage().filter(is_compute).max_by_key(|loss| loss.kernel.total_ns)?;
        let time = shown_time(longest.ns_of_step?);
        Some(format!(
            "the longest kernel of {stage} that does not communicate is {} ({}): {time} per {unit}; what it loses is not known \
             without counters (STAGE2_COUNTERS=1, or the ncu pass)",
            name(longest),
            longest.kernel.row.class
        ))
    })
}

/// `0.901 of 2.434 ms`, with the decimals of the table of kernels; short ones in us.
fn lost_of(lost_ns: f64, all_ns: f64) -> String {
    match all_ns < 1e5 {
        true => format!("{:.1} of {:.1} us", lost_ns / 1e3, all_ns / 1e3),
        false => grouped(&format!("{:.3} of {:.3} ms", lost_ns / 1e6, all_ns / 1e6)),
    }
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

/// How busy the GPUs are in the stages of the model, in their warm instances, percent; nothing where another process may
/// use the GPU meanwhile.
pub(super) fn busy_in_stages(report: &Report) -> Option<f64> {
    let is_known = model_stages(report).all(|stage| stage.gpu_busy_percent.is_some());
    let sum = |ns: fn(WarmRow) -> u64| {
        let warm = model_stages(report).filter_map(StageRow::ordinary);
        warm.map(ns).fold(0, u64::saturating_add)
    };
    let window_ns = sum(|warm| warm.gpu_window_ns);
    let busy_ns = sum(|warm| warm.gpu_busy_ns);
    (is_known && window_ns > 0).then(|| busy_ns as f64 * 100.0 / window_ns as f64)
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
