//! Use of the GPU's peak -> the model and its stages with their FLOPs, times and shares of the peak.

use stage2_model::{Figure, ModelUse, StageUtilisation};

/// The model, or a stage.
pub(crate) struct Scope<'r> {
    pub(crate) name: &'r str,
    /// Of one instance; of the model: of one generation.
    pub(crate) flops: Option<f64>,
    /// Wall time of the same, seconds.
    pub(crate) wall_s: Option<f64>,
    /// Share of the dense peak over that time, 0 to 1.
    pub(crate) mfu: Option<f64>,
    /// None for the model.
    pub(crate) stage: Option<&'r StageUtilisation>,
}

/// The model first, then its stages.
pub(crate) fn scopes(used: &ModelUse) -> Vec<Scope<'_>> {
    let model = &used.numbers.model;
    let model = Scope {
        name: "Model-level",
        flops: model.flops.value(),
        wall_s: model.wall_s.value(),
        mfu: model.mfu_wall.value(),
        stage: None,
    };
    let stages = used.numbers.stages.iter().map(|stage| Scope {
        name: &stage.stage,
        flops: stage.flops.value(),
        wall_s: stage_s(stage, used.peak_dense_tflops()),
        mfu: share(stage).value(),
        stage: Some(stage),
    });
    std::iter::once(model).chain(stages).collect()
}

/// MFU of a stage. A stage within another has no window of its own.
pub(crate) fn share(stage: &StageUtilisation) -> &Figure {
    if stage.within.is_some() { &stage.mfu_busy } else { &stage.mfu_wall }
}

/// Time of an instance. Without a token rate (a vision encoder has no tokens) it is the time that the
/// share of the peak was computed with.
fn stage_s(stage: &StageUtilisation, peak_tflops: Option<f64>) -> Option<f64> {
    let by_tokens = stage.tokens.over(&stage.tokens_per_s, "token rate").value();
    let by_share = || {
        let flops_per_s = share(stage).value()? * peak_tflops? * 1e12;
        stage.flops.value().map(|flops| flops / flops_per_s)
    };
    by_tokens.or_else(by_share)
}

/// Which stages lie within prefill, and what that means for their numbers; nothing if none does.
pub(crate) fn within_prefill(used: &ModelUse) -> Option<String> {
    let nested = used.numbers.stages.iter().filter(|stage| stage.within.is_some());
    let nested: Vec<&str> = nested.map(|stage| stage.stage.as_str()).collect();
    (!nested.is_empty()).then(|| {
        format!(
            "Within prefill: {}. MFU and time of each are over the sum of its kernels' durations, and \
             its FLOPs and time are in prefill's",
            nested.join(", ")
        )
    })
}
