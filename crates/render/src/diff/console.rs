//! Comparisons -> the lines that a terminal shows beside the result.

use stage2_diff::{Diff, Outcome};
use stage2_model::{Finding, Severity};

use super::title;

/// The five lines of each comparison, where the whole goes into a file.
pub fn short_lines(diff: &Diff) -> Vec<String> {
    let of = |comparison: &stage2_diff::Comparison| {
        let lines = comparison.lines.iter().map(|line| format!("{}: {}", line.label, line.text));
        std::iter::once(title(comparison)).chain(lines).collect::<Vec<_>>()
    };
    diff.comparisons.iter().flat_map(of).collect()
}

/// What forbids or hampers a comparison.
pub fn warnings(diff: &Diff) -> Vec<Finding> {
    let of = |comparison: &stage2_diff::Comparison| {
        let weighty = comparison.differences.iter().filter(|d| d.severity >= Severity::Warning);
        let finding = |d: &stage2_diff::Difference| {
            let what = format!("{}: {}: {} → {}", title(comparison), d.what, d.before, d.after);
            Finding::warning(what, d.meaning.clone(), "")
        };
        weighty.map(finding).collect::<Vec<_>>()
    };
    diff.comparisons.iter().flat_map(of).collect()
}

/// Conditions that failed, each with its reason.
pub fn failures(diff: &Diff) -> Vec<String> {
    let of = |comparison: &stage2_diff::Comparison| {
        let failed = comparison.conditions.iter().filter(|condition| condition.outcome.fails());
        let line = |condition: &stage2_diff::ConditionResult| {
            let how = match condition.outcome {
                Outcome::NotEvaluated => "could not be evaluated",
                _ => "failed",
            };
            let (condition, why) = (&condition.condition, &condition.text);
            format!("--fail-if '{condition}' {how} for {}: {why}", title(comparison))
        };
        failed.map(line).collect::<Vec<_>>()
    };
    diff.comparisons.iter().flat_map(of).collect()
}
