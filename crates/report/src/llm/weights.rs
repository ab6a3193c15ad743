//! A shape -> how many weights there are, and how many bytes one decode step has to read.

use super::shape::{Attention, Mlp, Moe, Shape};
use stage2_model::Dtype;

/// Weights of a model, without norms, biases, position tables and the vision encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// Attention projections of all layers.
    pub attention: f64,
    /// MLPs of the dense layers.
    pub mlp: f64,
    /// Routers, and the gates of shared experts.
    pub router: f64,
    /// All routed experts.
    pub routed_experts: f64,
    /// The routed experts that one token goes through.
    pub active_experts: f64,
    /// All shared experts.
    pub shared_experts: f64,
    /// Output projection, and as many in the token embedding; counted here even where it is the embedding.
    pub lm_head: f64,
}

impl Weights {
    /// The weights of a shape.
    pub fn of(shape: &Shape) -> Weights {
        let width = shape.hidden_size as f64;
        let moe_layers = shape.moe_layers() as f64;
        let layers = shape.num_hidden_layers as f64;
        let mut weights = Weights {
            attention: layers * attention(&shape.attention, width),
            mlp: (layers - moe_layers) * mlp(&shape.mlp, width, shape.mlp.intermediate_size),
            lm_head: width * shape.vocab_size as f64,
            ..Weights::default()
        };
        if let Some(moe) = &shape.moe {
            let expert = mlp(&shape.mlp, width, moe.moe_intermediate_size);
            let gate = if moe.shared_expert_gate { width } else { 0.0 };
            weights.router = moe_layers * (width * moe.num_experts as f64 + gate);
            weights.routed_experts = moe_layers * moe.num_experts as f64 * expert;
            weights.active_experts = moe_layers * moe.num_experts_per_tok as f64 * expert;
            weights.shared_experts =
                moe_layers * mlp(&shape.mlp, width, moe.shared_intermediate_size);
        }
        weights
    }

    /// What every token goes through.
    fn dense_layers(&self) -> f64 {
        self.attention + self.mlp + self.router + self.shared_experts
    }

    /// Weights that one decode step of `batch` sequences reads. Of the routed experts: as many
    /// different ones as `batch` tokens are expected to choose, each expert being as likely.
    pub fn read_per_step(&self, moe: Option<&Moe>, batch: u64) -> f64 {
        let experts = moe.map_or(0.0, |moe| self.routed_experts * expected_share(moe, batch));
        self.dense_layers() + experts + self.lm_head
    }
}

/// Expected share of the experts of a layer that `tokens` tokens choose.
fn expected_share(moe: &Moe, tokens: u64) -> f64 {
    let chosen = moe.num_experts_per_tok as f64 / moe.num_experts as f64;
    1.0 - (1.0 - chosen).powf(tokens as f64)
}

/// Projections of one layer's attention.
fn attention(a: &Attention, width: f64) -> f64 {
    let heads = a.num_attention_heads as f64;
    match &a.mla {
        Some(mla) => {
            let (nope, rope) = (mla.qk_nope_head_dim as f64, mla.qk_rope_head_dim as f64);
            let (latent, value) = (mla.kv_lora_rank as f64, mla.v_head_dim as f64);
            let query = heads * (nope + rope);
            let queries = match mla.q_lora_rank {
                Some(rank) => rank as f64 * (width + query),
                None => width * query,
            };
            let compress = width * (latent + rope);
            let expand = latent * heads * (nope + value);
            queries + compress + expand + heads * value * width
        }
        None => {
            let query = heads * a.head_dim as f64;
            let key_value = 2.0 * (a.num_key_value_heads * a.head_dim) as f64;
            width * (query + key_value) + query * width
        }
    }
}

/// One MLP or expert.
fn mlp(mlp: &Mlp, width: f64, intermediate: u64) -> f64 {
    let projections = if mlp.gated { 3.0 } else { 2.0 };
    projections * width * intermediate as f64
}

/// Numbers that the KV cache holds for one token of one layer. Of latent attention: the latent and
/// the shared rotary key, as serving engines keep them.
fn cached_per_token(a: &Attention) -> f64 {
    match &a.mla {
        Some(mla) => (mla.kv_lora_rank + mla.qk_rope_head_dim) as f64,
        None => 2.0 * (a.num_key_value_heads * a.head_dim) as f64,
    }
}

/// Sum over `count` consecutive tokens, the first of which sees `seen_before + 1` tokens (itself
/// included), of the tokens that each sees under `window`.
pub(super) fn context_sum(seen_before: u64, count: u64, window: Option<u64>) -> f64 {
    let (before, count) = (seen_before as f64, count as f64);
    let growing = |tokens: f64| tokens * before + tokens * (tokens + 1.0) / 2.0;
    match window.map(|window| window as f64) {
        Some(window) if before + count > window => {
            let inside = (window - before).clamp(0.0, count);
            growing(inside) + (count - inside) * window
        }
        _ => growing(count),
    }
}

/// Sum over `count` consecutive tokens, after `seen_before` others, of the tokens that each sees,
/// summed over all layers: those with a sliding window and those without.
pub(super) fn layer_context_sum(shape: &Shape, seen_before: u64, count: u64) -> f64 {
    let sliding = shape.attention.num_sliding_layers.min(shape.num_hidden_layers);
    let full = shape.num_hidden_layers - sliding;
    let window = shape.attention.sliding_window;
    full as f64 * context_sum(seen_before, count, None)
        + sliding as f64 * context_sum(seen_before, count, window)
}

/// Bytes of weights, stored in `dtype`, that `steps` decode steps of `batch` sequences read.
pub fn weight_bytes(shape: &Shape, dtype: Dtype, batch: u64, steps: u64) -> f64 {
    let per_step = Weights::of(shape).read_per_step(shape.moe.as_ref(), batch)
        + batch as f64 * shape.hidden_size as f64;
    steps as f64 * per_step * dtype.bytes()
}

/// Bytes of the KV cache, stored in `dtype`, that they read after a prompt of `prompt` tokens each.
pub fn kv_cache_bytes(shape: &Shape, dtype: Dtype, batch: u64, prompt: u64, steps: u64) -> f64 {
    batch as f64
        * layer_context_sum(shape, prompt, steps)
        * cached_per_token(&shape.attention)
        * dtype.bytes()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::preset::built_in_shape;
    use super::*;

    /// All weights, as models are named after; a shared embedding counts once.
    pub(in crate::llm) fn parameters(shape: &Shape) -> f64 {
        let weights = Weights::of(shape);
        let head = if shape.tie_word_embeddings { 0.0 } else { weights.lm_head };
        weights.lm_head + weights.dense_layers() + weights.routed_experts + head
    }

    /// Those that one token goes through, with both embeddings.
    pub(in crate::llm) fn active_parameters(shape: &Shape) -> f64 {
        let weights = Weights::of(shape);
        weights.dense_layers() + weights.active_experts + 2.0 * weights.lm_head
    }

    #[test]
    fn parameter_counts_are_those_that_the_models_are_named_after() {
        // Published counts, in billions; norms and biases are within the tolerance.
        for (preset, total, active) in [
            ("llama_3_8b", 8.03, 8.03),
            ("mixtral_8x7b", 46.7, 12.9),
            ("deepseek_v3", 671.0, 37.5),
            ("deepseek_ocr", 2.93, 0.74),
            ("llama_1b_random", 1.104, 1.104),
        ] {
            let shape = built_in_shape(preset);
            let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.005;
            let found = parameters(&shape);
            assert!(near(found / 1e9, total), "{preset}: {found}");
            let found = active_parameters(&shape);
            assert!(near(found / 1e9, active), "{preset} active: {found}");
        }
    }

    #[test]
    fn contexts_are_summed_as_a_loop_would() {
        for (before, count, window) in [
            (0, 5, None),
            (7, 3, None),
            (0, 10, Some(4)),
            (2, 10, Some(4)),
            (9, 3, Some(4)),
            (3, 1, Some(4)),
        ] {
            let by_hand: u64 =
                (1..=count).map(|i| (before + i).min(window.unwrap_or(u64::MAX))).sum();
            assert_eq!(context_sum(before, count, window), by_hand as f64, "{before} {count}");
        }
        assert_eq!(context_sum(5, 0, Some(2)), 0.0);
    }

    #[test]
    fn a_decode_step_reads_weights_once_and_the_cache_of_every_sequence() {
        let shape = built_in_shape("llama_1b_random");
        let weights = |batch| weight_bytes(&shape, Dtype::Bf16, batch, 1);
        let kv_cache = |batch| kv_cache_bytes(&shape, Dtype::Bf16, batch, 511, 1);
        // 16 layers of 2048*(2048+2*512) + 2048*2048 + 3*2048*8192, 32000*2048 and one row.
        let layer = 2048.0 * 3072.0 + 2048.0 * 2048.0 + 3.0 * 2048.0 * 8192.0;
        assert_eq!(weights(1), 2.0 * (16.0 * layer + 32000.0 * 2048.0 + 2048.0));
        assert_eq!(kv_cache(1), 2.0 * 16.0 * 512.0 * 2.0 * 8.0 * 64.0);
        assert_eq!(kv_cache(4), 4.0 * kv_cache(1));
        assert_eq!(weights(4) - weights(1), 2.0 * 3.0 * 2048.0);
    }

    #[test]
    fn more_tokens_choose_more_experts() {
        let moe = built_in_shape("mixtral_8x7b").moe.expect("MoE");
        assert_eq!(expected_share(&moe, 1), 0.25);
        assert!((expected_share(&moe, 2) - 0.4375).abs() < 1e-12);
        assert!(expected_share(&moe, 1000) > 0.999_999);
        let shape = built_in_shape("mixtral_8x7b");
        let weights = Weights::of(&shape);
        let one = weights.read_per_step(Some(&moe), 1);
        assert!((one - active_parameters(&shape) + weights.lm_head).abs() < 1.0);
    }
}
