//! A report -> `stakeholder_summary.md`: the page for those who decide and do not profile.
//!
//! All sections are always there, in the same order; one without data says why. Only inferred steps
//! are left out if there are none.

mod measured;
mod mfu;
mod run;
mod sentences;

pub(super) use measured::model_stages;
pub(super) use sentences::sentences;

use super::advice;
use super::costs::costs;
use super::page::{Page, first_screen};
use super::steps;
use super::values::sentence;
use stage2_analysis::insight::Shown;
use stage2_model::Report;

/// Rows of a table; metrics.json has them all.
const ROWS: usize = 40;
/// Kinds of inferred steps that are shown.
const STEPS: usize = 8;

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
        ("Cost of the Passes", costs(report, |cost| !is_apart(&cost.stage))),
        ("MFU", mfu::mfu(report)),
        ("Top Operators", measured::operators(report)),
        ("Top Kernels", measured::kernels(report)),
        ("Takeaways", advice::takeaways(report)),
        ("Recommendations", advice::recommendations(report)),
        ("Limits", advice::findings(report, ROWS)),
    ];
    let sentences = sentences(report).join(" ");
    Page { title, head: format!("{}{sentences}\n\n", first_screen(report)), sections }
}

fn inferred_steps(report: &Report) -> String {
    let sentences = steps::sentences(report, STEPS);
    let items: String = sentences.iter().map(|line| format!("- {}\n", sentence(line))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

#[cfg(test)]
mod tests;
