//! GPU time of a stage by the parts of the model's layers.

use serde::{Deserialize, Serialize};
use strum::Display;

/// A part of a model.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LayerPart {
    /// Attention, with its projections and the KV cache.
    #[strum(to_string = "attention")]
    Attention,
    /// The feed-forward network, or the experts.
    #[strum(to_string = "MLP")]
    Mlp,
    /// Normalisation, with what is fused into it.
    #[strum(to_string = "norm")]
    Norm,
    /// The embedding of tokens.
    #[strum(to_string = "embedding")]
    Embedding,
    /// The projection to the vocabulary.
    #[strum(to_string = "LM head")]
    LmHead,
    /// The choice of the next tokens.
    #[strum(to_string = "sampling")]
    Sampling,
    /// The model that drafts tokens.
    #[strum(to_string = "drafts")]
    Draft,
    /// Communication with other GPUs.
    #[strum(to_string = "communication")]
    Communication,
    /// Everything else.
    #[strum(to_string = "other")]
    Other,
}

/// Kernels of a part of the model in a stage, without the first, cold instance where the stage has others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayerRow {
    /// [`StageRow::stage`](crate::StageRow::stage).
    pub stage: String,
    /// The part of the model.
    pub part: LayerPart,
    /// Path of the module that launched the kernels when their graph was captured, with `*` for the number
    /// of the layer; null: not known, so the class of the kernels determines the part.
    pub module: Option<String>,
    /// Number of kernels.
    pub kernels: u64,
    /// Sum of their durations, ns.
    pub kernel_sum_ns: u64,
    /// Share of the sum of all kernels of the stage, percent.
    pub stage_kernel_sum_percent: Option<f64>,
}
