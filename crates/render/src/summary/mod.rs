//! A report -> `stakeholder_summary.md`: the page for those who decide and do not profile. It stays
//! below 900 words for a typical run: every table is cut, and says what report.md has more.
//!
//! All sections are always there, in the same order; one without data says why. Only inferred steps
//! are left out if there are none.

mod measured;
mod mfu;
mod run;
mod sentences;

pub(super) use super::page::model_stages;
pub(super) use sentences::sentences;

use super::advice;
use super::costs::costs_in_brief;
use super::page::{Page, first_screen, is_answered};
use super::steps;
use super::values::sentence;
use stage2_model::Report;
use stage2_report::conclusions::Shown;

/// Sentences of the head; Takeaways has more.
const SENTENCES: usize = 3;
/// Kinds of inferred steps that are shown.
const STEPS: usize = 3;

/// The page.
pub(super) fn page(report: &Report, shown: &Shown) -> Page {
    let title = format!("Summary of {}", report.run.name);
    let is_apart =
        |name: &str| report.stages.iter().any(|stage| stage.stage == name && stage.apart.is_some());
    let sections = vec![
        ("Environment", run::environment(report)),
        ("Aggregates", run::aggregates(report, shown)),
        ("Per-Stage Timings", measured::stages(report)),
        (steps::TITLE, inferred_steps(report)),
        ("Cost of the Passes", costs_in_brief(report, |cost| !is_apart(&cost.stage))),
        ("MFU", mfu::mfu(report)),
        ("Top Operators", measured::operators(report)),
        ("Top Kernels", measured::kernels(report)),
        ("Takeaways", advice::takeaways_in_brief(report)),
        ("Recommendations", advice::recommendations_in_brief(report)),
        ("Limits", advice::findings_in_brief(report)),
    ];
    let mut head = first_screen(report);
    // Where there is an answer, it is the summary of the summary.
    if !is_answered(report) {
        let sentences: Vec<String> = sentences(report).into_iter().take(SENTENCES).collect();
        head.push_str(&format!("{}\n\n", sentences.join(" ")));
    }
    Page { title, head, sections }
}

fn inferred_steps(report: &Report) -> String {
    let sentences = steps::sentences(report, STEPS);
    let items: String = sentences.iter().map(|line| format!("- {}\n", sentence(line))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

#[cfg(test)]
mod tests;
