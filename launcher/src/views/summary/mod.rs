//! What a run showed -> `stakeholder_summary.md`: the page for those who decide and do not profile.
//!
//! A view: every number is computed elsewhere and comes in a [`Stakeholder`]. All sections are always
//! there, in the same order; one without data says why. Only inferred steps are left out where there
//! are none.

mod costs;
mod input;
mod meaning;
mod measured;
pub(super) mod page;
mod run;
mod sections;
mod sentences;
mod values;

pub(super) use run::class_shares;

pub use input::{
    AggregateRow, CostRow, Filled, MfuRow, Recommendation, Section, StageTimingRow, Stakeholder,
    Takeaway, TopKernelRow,
};

use super::page::SIMULATED;
use values::text;

/// The page.
pub fn stakeholder_md(page: &Stakeholder) -> String {
    let mut out = format!("# Summary of {}\n\n", text(&page.run));
    if page.simulated {
        out.push_str(&format!("> **{SIMULATED}**\n\n"));
    }
    if let Some(how) = &page.ended_early {
        out.push_str(&format!("**Ended early:** {}.\n\n", text(how)));
    }
    let verdict = Some(page.verdict.text.as_str()).filter(|verdict| !verdict.is_empty());
    out.push_str(&format!("**Coverage:** {}.\n\n", text(verdict.unwrap_or("not known"))));
    out.push_str(&sentences::sentences(page).join(" "));
    out.push_str("\n\n");
    out.push_str(&sections::environment(&page.environment));
    out.push_str(&sections::aggregates(&page.aggregates));
    out.push_str(&sections::stages(&page.stages));
    out.push_str(&sections::steps(&page.steps));
    out.push_str(&sections::costs(&page.costs));
    out.push_str(&sections::mfu(&page.mfu));
    out.push_str(&sections::operators(&page.operators));
    out.push_str(&sections::kernels(&page.kernels));
    out.push_str(&sections::takeaways(&page.takeaways));
    out.push_str(&sections::recommendations(&page.recommendations));
    out.push_str(&sections::limits(&page.limits));
    out
}

/// What the page says in three to five sentences, as Markdown text.
pub(super) fn in_short(page: &Stakeholder) -> Vec<String> {
    sentences::sentences(page)
}

#[cfg(test)]
mod tests;
