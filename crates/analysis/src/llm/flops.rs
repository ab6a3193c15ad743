//! A shape and token counts -> the floating-point operations of prefill and decode.
//!
//! A multiplication and an addition are two operations. Counted are the matrix products; norms,
//! softmax, activations, rotary positions and sampling are not: together they are below one percent
//! of any model that matters.

use serde::{Deserialize, Serialize};

use super::shape::{Shape, Vision};
use super::weights::{Weights, layer_context_sum};

/// Operations by part of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flops {
    /// Projections of queries, keys, values and outputs.
    pub attention_projections: f64,
    /// Scores and weighted values.
    pub attention_scores: f64,
    /// MLPs of dense layers.
    pub mlp: f64,
    /// Routers, and the gates of shared experts.
    pub router: f64,
    /// Routed experts, those that are active.
    pub routed_experts: f64,
    /// Shared experts.
    pub shared_experts: f64,
    /// Output projection.
    pub lm_head: f64,
    /// Vision encoder.
    pub vision: f64,
}

impl Flops {
    /// All of them.
    pub fn total(&self) -> f64 {
        self.attention_projections
            + self.attention_scores
            + self.mlp
            + self.router
            + self.routed_experts
            + self.shared_experts
            + self.lm_head
            + self.vision
    }
}

/// Whose logits prefill computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LmHead {
    /// Of every prompt token, as a plain forward does.
    #[default]
    All,
    /// Of the last one only, as generation loops and serving engines do.
    Last,
}

/// One prefill of `batch` prompts of `tokens` tokens, without a vision encoder.
pub fn prefill(shape: &Shape, batch: u64, tokens: u64, lm_head: LmHead) -> Flops {
    let heads = match lm_head {
        LmHead::All => tokens,
        LmHead::Last => tokens.min(1),
    };
    of(shape, batch, 0, tokens, heads)
}

/// `steps` decode steps, of one token each, after prompts of `prompt` tokens: the first step sees
/// `prompt + 1` tokens, its own included.
pub fn decode(shape: &Shape, batch: u64, prompt: u64, steps: u64) -> Flops {
    of(shape, batch, prompt, steps, steps)
}

fn of(shape: &Shape, batch: u64, seen_before: u64, tokens: u64, heads: u64) -> Flops {
    let weights = Weights::of(shape);
    let all_tokens = batch as f64 * tokens as f64;
    let linear = |weights: f64| 2.0 * weights * all_tokens;
    let contexts = batch as f64 * layer_context_sum(shape, seen_before, tokens);
    Flops {
        attention_projections: linear(weights.attention),
        attention_scores: 2.0 * per_pair(shape) * contexts,
        mlp: linear(weights.mlp),
        router: linear(weights.router),
        routed_experts: linear(weights.active_experts),
        shared_experts: linear(weights.shared_experts),
        lm_head: 2.0 * weights.lm_head * batch as f64 * heads as f64,
        vision: 0.0,
    }
}

/// Multiplications of one layer for one query and one key: scores and values, over all heads.
fn per_pair(shape: &Shape) -> f64 {
    let a = &shape.attention;
    let per_head = match &a.mla {
        Some(mla) => mla.qk_nope_head_dim + mla.qk_rope_head_dim + mla.v_head_dim,
        None => 2 * a.head_dim,
    };
    (a.num_attention_heads * per_head) as f64
}

/// One image through a plain vision transformer: its patches and one class token, every one seeing
/// every other; with the patch embedding, without the projector into the language model.
pub fn vision(shape: &Vision) -> f64 {
    let edge = (shape.image_size / shape.patch_size.max(1)) as f64;
    let patches = edge * edge;
    let tokens = patches + 1.0;
    let width = shape.hidden_size as f64;
    let layer = 4.0 * width * width + 2.0 * width * shape.intermediate_size as f64;
    let scores = 2.0 * width * tokens;
    let embedding = patches * 3.0 * (shape.patch_size as f64).powi(2) * width;
    2.0 * (embedding + shape.num_hidden_layers as f64 * tokens * (layer + scores))
}

/// What the numbers above take for granted, one line each.
pub fn assumptions(shape: &Shape, lm_head: LmHead) -> Vec<String> {
    let mut lines = vec![
        "FLOPs: a multiply-add is two; matrix products only (norms, softmax, activations, rotary \
         positions, biases and sampling are left out)."
            .to_owned(),
        "Attention is causal: a token's scores are counted for the tokens up to itself; a kernel \
         that computes the masked half does more than is counted."
            .to_owned(),
        match lm_head {
            LmHead::All => "The output projection is counted for every prompt token.",
            LmHead::Last => "The output projection is counted for the last prompt token only.",
        }
        .to_owned(),
    ];
    if let Some(moe) = &shape.moe {
        lines.push(format!(
            "Experts: {} of {} routed ones per token in {} of {} layers{}; no token is dropped or \
             padded.",
            moe.num_experts_per_tok,
            moe.num_experts,
            moe.num_moe_layers,
            shape.num_hidden_layers,
            if moe.shared_intermediate_size > 0 { ", and the shared ones" } else { "" },
        ));
    }
    if shape.attention.mla.is_some() {
        lines.push(
            "Latent attention: the latent of each new token is expanded once (the absorbed form \
             of serving engines computes more in decode); the KV cache holds the latent."
                .to_owned(),
        );
    }
    if let Some(window) = shape.attention.sliding_window {
        lines.push(format!(
            "{} of {} layers look back on {window} tokens at most.",
            shape.attention.num_sliding_layers, shape.num_hidden_layers
        ));
    }
    lines
}

#[cfg(test)]
#[path = "flops_tests.rs"]
mod tests;
