//! Stages that a workload was made to mark, and that no range shows -> what to tell.

use crate::operators::{Annotation, OperatorSettings};
use stage2_model::{Finding, PathKind, Report};

/// What `--annotate prefill-decode` opens, in the default domain.
const STAGES: [&str; 2] = ["prefill", "decode"];

/// What to tell where prefill-decode was on, and there is no range of it. Where no process was recorded,
/// nobody knows what ran in it.
pub(super) fn stages(report: &Report, settings: &OperatorSettings) -> Option<Finding> {
    let asked = settings.annotate.contains(&Annotation::PrefillDecode);
    if !asked || report.coverage.processes.is_empty() {
        return None;
    }
    let marked = report.paths.iter().any(|row| {
        let is_range = row.kind == PathKind::Range && row.domain.is_none();
        is_range && STAGES.contains(&row.name.as_str())
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
