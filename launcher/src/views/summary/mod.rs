//! A report -> `stakeholder_summary.md`: the page for those who decide and do not profile.
//!
//! All sections are always there, in the same order; one without data says why. Only inferred steps
//! are left out if there are none.

mod advice;
mod measured;
mod mfu;
mod run;
mod sentences;
mod values;

pub(super) use measured::model_stages;
pub(super) use sentences::sentences;

use super::costs::costs;
use super::page::{Page, first_screen};
use super::steps;
use super::table::Table;
use stage2_analysis::insight::Shown;
use stage2_model::Report;
use values::sentence;

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
        ("Limits", advice::limits(report)),
    ];
    let sentences = sentences(report).join(" ");
    Page { head: format!("{}{sentences}\n\n", first_screen(&title, report)), sections }
}

/// A table with the notes on it, and where its numbers come from.
fn section<T>(
    table: Table<'_, T>,
    notes: impl IntoIterator<Item = String>,
    source: &str,
) -> String {
    let mut out = table.markdown();
    out.extend(notes.into_iter().map(|note| format!("{}\n\n", sentence(&note))));
    out + &format!("Source: {}\n\n", sentence(source))
}

fn inferred_steps(report: &Report) -> String {
    let sentences = steps::sentences(report, STEPS);
    let items: String = sentences.iter().map(|line| format!("- {}\n", sentence(line))).collect();
    if items.is_empty() { items } else { items + "\n" }
}

#[cfg(test)]
mod tests;
