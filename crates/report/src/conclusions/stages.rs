//! Outermost ranges -> what each is to the model: a stage, or none (warm-up, operators).

use std::collections::HashMap;

use crate::operators::{Annotation, OperatorSettings, is_operator};
use stage2_contract::text::listed;
use stage2_contract::text::numbers::count;
use stage2_model::{Apart, Finding, PathKind, PathRow, Report, StageRow};
use stage2_read::roles::{Meant, RoleSettings};

/// Names that a finding lists.
const NAMED: usize = 8;
/// What `--annotate prefill-decode` opens, in the default domain.
const ANNOTATED: [&str; 2] = ["prefill", "decode"];

/// Marks what each is, and says in the verdict how much of the recorded work belongs to no stage.
pub(crate) fn mark(report: &mut Report, settings: &OperatorSettings, roles: &RoleSettings) {
    let Report { stages, paths, coverage, .. } = report;
    let outermost: HashMap<&str, &PathRow> = paths
        .iter()
        .filter(|row| row.parent.is_none())
        .map(|row| (row.path.as_str(), row))
        .collect();
    for stage in stages.iter_mut().filter(|stage| stage.kind == PathKind::Range) {
        let Some(range) = outermost.get(stage.stage.as_str()) else { continue };
        match roles.of(&range.name, range.domain.as_deref()) {
            Meant::Apart(apart) => stage.apart = Some(apart),
            Meant::Stage(_) if is_operator(range, settings) => {
                stage.apart = Some(Apart::Operator);
            }
            Meant::Stage(role) => stage.role = role,
        }
    }
    let ranges = paths.iter().filter(|row| row.parent.is_none() && row.kind == PathKind::Range);
    let ranges: Vec<&PathRow> = ranges.collect();
    let unmatched = roles.unmatched(&ranges);
    let unmatched = (!unmatched.is_empty() && !ranges.is_empty()).then(|| {
        let names: Vec<&str> = ranges.iter().map(|row| row.path.as_str()).collect();
        Finding::warning(
            format!("no outermost range fits {}", listed(&unmatched, NAMED)),
            format!("those that were recorded are {}", listed(&names, NAMED)),
            "correct the patterns of `roles`, and write the reports again",
        )
    });
    let records = |(apart, what): (Apart, &str)| {
        let of_it = stages.iter().filter(|stage| stage.apart == Some(apart));
        let records = of_it.map(gpu_records).fold(0, u64::saturating_add);
        (records > 0).then(|| format!("{} {what}", count(records)))
    };
    let parts: Vec<String> = [
        (Apart::WarmUp, "in warm-up ranges"),
        (Apart::Communication, "in ranges of communication"),
        (Apart::Operator, "in operators that lie in no stage"),
    ]
    .into_iter()
    .filter_map(records)
    .collect();
    if !parts.is_empty() {
        let text = &mut coverage.verdict.text;
        text.push_str(&format!("; GPU records set apart from the stages: {}", parts.join(", ")));
    }
    report.findings.extend(unmatched);
}

fn gpu_records(stage: &StageRow) -> u64 {
    [stage.kernels, stage.copies, stage.fills, stage.graph_launches]
        .into_iter()
        .flatten()
        .fold(0, u64::saturating_add)
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
