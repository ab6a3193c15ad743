//! What the numbers say, what to do about it, and what they do not cover: in report.md and in the
//! summary.

use super::table::{ROWS, Table, more, none};
use super::values::{sentence, text, with_source};
use stage2_analysis::roofline::takeaways::{self, Recommended};
use stage2_model::{Finding, Report};
use stage2_text::numbers::{counted, percent1};

/// Why there is no recommendation.
pub(in crate::views) const NO_ADVICE: &str = "no takeaway calls for one";

pub(in crate::views) fn takeaways(report: &Report) -> String {
    if report.insight.takeaways.is_empty() {
        return none("nothing was computed from the numbers", "");
    }
    let rows: Vec<_> = report.insight.takeaways.iter().enumerate().collect();
    let table = Table::first(ROWS, &rows)
        .right("#", |(index, _)| (index + 1).to_string())
        .left("Takeaway", |(_, takeaway)| sentence(&takeaway.text))
        .left("Evidence", |(_, takeaway)| {
            let stage = takeaway.stage.as_ref().map(|stage| format!("stage {stage}; "));
            text(&format!("{}rule: {}", stage.unwrap_or_default(), takeaway.rule.text()))
        });
    with_source(table, [], "rules over the numbers of report.md, each with its thresholds")
}

pub(in crate::views) fn recommendations(report: &Report) -> String {
    let advice = takeaways::recommendations(&report.insight.takeaways);
    let rows: Vec<_> = advice.into_iter().enumerate().collect();
    if rows.is_empty() {
        return none(NO_ADVICE, "");
    }
    let table = Table::first(ROWS, &rows)
        .right("#", |(index, _)| (index + 1).to_string())
        .left("To do", |(_, advice)| sentence(advice.text))
        .left("Why", |(_, Recommended { first, further, .. })| {
            text(&match further {
                0 => first.text.clone(),
                more => format!("{}; and {}", first.text, counted(*more as u64, "more takeaway")),
            })
        })
        .left("Gain at most", |(_, advice)| {
            let percent = advice.concerns_percent.map(percent1);
            percent.map(|percent| format!("{percent} % of the time of all stages"))
        });
    with_source(table, [], "the takeaways")
}

/// What is missing or uncertain, at most so many.
pub(in crate::views) fn findings(report: &Report, most: usize) -> String {
    if report.findings.is_empty() {
        return none("nothing is known to be missing or uncertain", "");
    }
    let items: String = report.findings.iter().take(most).map(Finding::item).collect();
    format!("{items}\n{}", more(report.findings.len(), most, "findings"))
}
