//! Outermost ranges -> those that are no stages of the model: warm-up, and operators.

use std::collections::HashMap;

use crate::operators::{OperatorSettings, is_operator};
use stage2_model::{Apart, PathKind, PathRow, Report, StageRow};
use stage2_text::numbers::count;

/// Marks them, and says in the verdict how much of the recorded work is theirs.
pub(crate) fn mark(report: &mut Report, settings: &OperatorSettings) {
    let Report { stages, paths, coverage, .. } = report;
    let outermost: HashMap<&str, &PathRow> = paths
        .iter()
        .filter(|row| row.parent.is_none())
        .map(|row| (row.path.as_str(), row))
        .collect();
    for stage in stages.iter_mut().filter(|stage| stage.kind == PathKind::Range) {
        let range = outermost.get(stage.stage.as_str());
        stage.apart = if warms_up(range.map_or(stage.stage.as_str(), |row| row.name.as_str())) {
            Some(Apart::WarmUp)
        } else {
            range.filter(|row| is_operator(row, settings)).map(|_| Apart::Operator)
        };
    }
    let parts: Vec<String> = [Apart::WarmUp, Apart::Operator]
        .into_iter()
        .filter_map(|apart| {
            let of_it = stages.iter().filter(|stage| stage.apart == Some(apart));
            let records = of_it.map(gpu_records).fold(0, u64::saturating_add);
            let what = match apart {
                Apart::WarmUp => "in warm-up ranges",
                Apart::Operator => "in operators that lie in no stage",
            };
            (records > 0).then(|| format!("{} {what}", count(records)))
        })
        .collect();
    if !parts.is_empty() {
        let text = &mut coverage.verdict.text;
        text.push_str(&format!("; GPU records set apart from the stages: {}", parts.join(", ")));
    }
}

fn gpu_records(stage: &StageRow) -> u64 {
    [stage.kernels, stage.copies, stage.fills, stage.graph_launches]
        .into_iter()
        .flatten()
        .fold(0, u64::saturating_add)
}

/// `warmup`, `warm_up`, `Warm-up 3`, `model warmup`.
fn warms_up(name: &str) -> bool {
    let letters: String =
        name.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect();
    letters.starts_with("warmup") || letters.ends_with("warmup") || letters.starts_with("warmingup")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_by_any_spelling() {
        for name in ["warmup", "warm_up", "Warm-Up", "warmup_3", "model warmup", "warming up"] {
            assert!(warms_up(name), "{name}");
        }
        for name in ["decode", "warm", "up", "prefill_warm", ""] {
            assert!(!warms_up(name), "{name}");
        }
    }
}
