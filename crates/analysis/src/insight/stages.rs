//! Outermost ranges -> what each is to the model: a stage, or none (warm-up, operators).

use std::collections::HashMap;

use crate::llm::vision::Part;
use crate::operators::{Annotation, OperatorSettings, is_operator};
use stage2_model::{Apart, Finding, PathKind, PathRow, Report, Role, StageRow};
use stage2_text::numbers::count;

/// What `--annotate prefill-decode` opens, in the default domain.
const ANNOTATED: [&str; 2] = ["prefill", "decode"];

/// What a stage is to the model, by its name.
pub(crate) fn role(row: &StageRow) -> Role {
    match row.stage.split('@').next().unwrap_or_default() {
        _ if row.kind != PathKind::Range || row.apart.is_some() => Role::Other,
        "prefill" => Role::Prefill,
        "decode" => Role::Decode,
        _ if Part::of_range(&row.stage).is_some() => Role::VisionBefore,
        _ => Role::Other,
    }
}

/// Marks those that are none, and says in the verdict how much of the recorded work is theirs.
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
    let records = |(apart, what): (Apart, &str)| {
        let of_it = stages.iter().filter(|stage| stage.apart == Some(apart));
        let records = of_it.map(gpu_records).fold(0, u64::saturating_add);
        (records > 0).then(|| format!("{} {what}", count(records)))
    };
    let parts: Vec<String> = [
        (Apart::WarmUp, "in warm-up ranges"),
        (Apart::Operator, "in operators that lie in no stage"),
    ]
    .into_iter()
    .filter_map(records)
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

/// The finding for a run with `--annotate prefill-decode` that has none of its ranges. Without a recorded
/// process there is none, because we do not know what ran.
pub(super) fn unmarked(report: &Report, settings: &OperatorSettings) -> Option<Finding> {
    let asked = settings.annotate.contains(&Annotation::PrefillDecode);
    if !asked || report.coverage.processes.is_empty() {
        return None;
    }
    let marked = report.paths.iter().any(|row| {
        let is_range = row.kind == PathKind::Range && row.domain.is_none();
        is_range && ANNOTATED.contains(&row.name.as_str())
    });
    if marked {
        return None;
    }
    Some(Finding::warning(
        "--annotate prefill-decode was on, and there is no range prefill or decode",
        "it marks forwards of causal language models of Hugging Face transformers, such as those of \
         `generate`, and none ran in a Python process that it reached",
        "look for lines `stage2:` on the workload's stderr; it needs a workload in Python, a PyTorch \
         built for CUDA, and neither `-I`, `-E` nor `-S`. A model of another kind: open the ranges in \
         the program",
    ))
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
