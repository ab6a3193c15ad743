//! A shape and token counts -> the floating-point operations of prefill and decode.
//!
//! A multiplication and an addition are two operations. Counted are the matrix products; norms,
//! softmax, activations, rotary positions and sampling are not: together they are below one percent
//! of any model that matters.

use serde::{Deserialize, Serialize};

use super::shape::Shape;
use super::weights::{Weights, layer_context_sum};

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
pub fn prefill(shape: &Shape, batch: u64, tokens: u64, lm_head: LmHead) -> f64 {
    let heads = match lm_head {
        LmHead::All => tokens,
        LmHead::Last => tokens.min(1),
    };
    of(shape, batch, 0, tokens, heads)
}

/// `steps` decode steps, of one token each, after prompts of `prompt` tokens: the first step sees
/// `prompt + 1` tokens, its own included.
pub fn decode(shape: &Shape, batch: u64, prompt: u64, steps: u64) -> f64 {
    of(shape, batch, prompt, steps, steps)
}

fn of(shape: &Shape, batch: u64, seen_before: u64, tokens: u64, heads: u64) -> f64 {
    let weights = Weights::of(shape);
    let all_tokens = batch as f64 * tokens as f64;
    let linear = |weights: f64| 2.0 * weights * all_tokens;
    let contexts = batch as f64 * layer_context_sum(shape, seen_before, tokens);
    linear(weights.attention)
        + 2.0 * per_pair(shape) * contexts
        + linear(weights.mlp)
        + linear(weights.router)
        + linear(weights.active_experts)
        + linear(weights.shared_experts)
        + 2.0 * weights.lm_head * batch as f64 * heads as f64
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
