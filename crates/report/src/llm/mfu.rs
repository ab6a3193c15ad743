//! Times, token counts, a model and peaks -> MFU, MBU and rates per stage and for the model.
//!
//! MFU is FLOPs / (time x dense peak), MBU is bytes that decode has to read / (time x peak
//! bandwidth): shares, not percent. Each is given over wall time (the stage's window: what a user
//! waits for) and over the time in which the GPU was busy (what the kernels make of it). What is
//! missing is [`stage2_model::Absent`] with its reason.

use stage2_model::{
    FULL_COVERAGE_PERCENT, Finding, ModelUtilisation, Severity, StageUtilisation, Utilisation,
};

use super::mfu_inputs::Inputs;
use super::mfu_work::Work;

/// A share above this cannot be: boost clocks and rounding of the peaks explain less.
pub const HIGHEST_POSSIBLE_SHARE: f64 = 1.1;

/// Computes everything; what cannot be computed says why.
pub fn utilisation(inputs: &Inputs<'_>) -> Utilisation {
    let work = Work { inputs };
    let stages: Vec<StageUtilisation> = inputs.stages.iter().map(|s| work.stage(s)).collect();
    let model = work.model_level();
    let mut findings = impossible(&stages, &model);
    findings.extend(stages.iter().filter_map(reads_too_much));
    let precision = inputs.model.as_ref().ok().map(|model| model.dtype.precision());
    Utilisation {
        stages,
        model,
        precision,
        peak_source: inputs.peaks.map(|peaks| format!("{}: {}", peaks.card, peaks.source)),
        assumptions: work.assumptions(),
        findings,
    }
}

/// How often a stage occurs in one generation, from the instances that were seen; none where they
/// do not divide evenly, as when warm-up runs of another length are among them.
pub fn per_generation(instances: u64, generations: u64) -> Option<f64> {
    let whole = generations > 0 && instances > 0 && instances.is_multiple_of(generations);
    whole.then(|| (instances / generations) as f64)
}

/// Reading this many times what the model has to read is worth a finding.
const READS_TOO_MUCH: f64 = 2.0;

/// A stage that reads far more than weights and KV cache, by sampled counters.
fn reads_too_much(stage: &StageUtilisation) -> Option<Finding> {
    let sampled = stage.sampled.filter(|s| s.coverage_percent >= FULL_COVERAGE_PERCENT)?;
    let ratio = sampled.read_over_modelled.filter(|ratio| *ratio > READS_TOO_MUCH)?;
    Some(Finding::new(
        Severity::Warning,
        format!(
            "{} reads {ratio:.1} times its weights and KV cache from DRAM ({:.3} GB an instance, of \
             which the model has to read {:.3} GB)",
            stage.stage,
            sampled.read_bytes? / 1e9,
            stage.bytes.value()? / 1e9,
        ),
        "kernels read data several times, or data that the model does not count: activations, copies \
         of the weights, a KV cache with room for longer prompts; or the model is not the one that ran",
        "see which kernels read most (kernels.md), and compare model.llm and the token counts with what \
         ran",
    ))
}

fn impossible(stages: &[StageUtilisation], model: &ModelUtilisation) -> Vec<Finding> {
    let of_stages = stages.iter().flat_map(|stage| {
        [
            ("MFU", &stage.mfu_wall),
            ("MFU over GPU busy time", &stage.mfu_busy),
            ("measured MFU over GPU busy time", &stage.measured_mfu_busy),
            ("MBU", &stage.mbu_wall),
            ("MBU over GPU busy time", &stage.mbu_busy),
        ]
        .map(|(name, figure)| (format!("{name} of {}", stage.stage), figure))
    });
    of_stages
        .chain([("MFU of the model".to_owned(), &model.mfu_wall)])
        .filter_map(|(name, figure)| {
            let share = figure.value().filter(|share| *share > HIGHEST_POSSIBLE_SHARE)?;
            Some(Finding::new(
                Severity::Warning,
                format!("{name} is {:.1} % of the peak", share * 100.0),
                "more than the GPU can do: the model, the token counts, the peak or the times are \
                 not those of this run",
                "compare model.llm, the token counts and hardware with what ran",
            ))
        })
        .collect()
}

#[cfg(test)]
#[path = "mfu_tests.rs"]
mod tests;
