//! A shape and token counts -> the weights of a model, the floating-point operations of prefill, decode and vision
//! encoder, and the bytes that decode has to read.
//!
//! A multiplication and an addition are two operations. Counted are the matrix products; norms,
//! softmax, activations, rotary positions and sampling are not: together they are below one percent
//! of any model that matters.

use crate::llm::shape::{Attention, Clip, Mlp, Moe, Sam, Shape, Vision, VisionParts};
use serde::{Deserialize, Serialize};
use stage2_model::{Dtype, TokenCounts};
use stage2_read::roles::VisionPart;

/// Whose logits prefill computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LmHead {
    /// Of the last one only: generation needs no others, and serving engines compute no others.
    #[default]
    Last,
    /// Of every prompt token, as a plain forward does.
    All,
}

/// One prefill of `batch` prompts of `tokens` tokens, without a vision encoder. A `batch`, here and below, may be the
/// mean of several.
pub(crate) fn prefill(shape: &Shape, batch: f64, tokens: u64, lm_head: LmHead) -> f64 {
    let heads = match lm_head {
        LmHead::All => tokens,
        LmHead::Last => tokens.min(1),
    };
    forward(shape, batch, 0, tokens, heads)
}

/// `steps` decode steps, of one token each, after prompts of `prompt` tokens: the first step sees
/// `prompt + 1` tokens, its own included.
pub(crate) fn decode(shape: &Shape, batch: f64, prompt: u64, steps: u64) -> f64 {
    forward(shape, batch, prompt, steps, steps)
}

fn forward(shape: &Shape, batch: f64, seen_before: u64, tokens: u64, heads: u64) -> f64 {
    let weights = Weights::of(shape);
    let all_tokens = batch * tokens as f64;
    let linear = |weights: f64| 2.0 * weights * all_tokens;
    let contexts = batch * layer_context_sum(shape, seen_before, tokens);
    linear(weights.attention)
        + 2.0 * per_pair(shape) * contexts
        + linear(weights.mlp)
        + linear(weights.router)
        + linear(weights.active_experts)
        + linear(weights.shared_experts)
        + 2.0 * weights.lm_head * batch * heads as f64
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
pub(crate) fn assumptions(shape: &Shape, lm_head: LmHead) -> Vec<String> {
    let mut lines = vec![
        "FLOPs: a multiply-add is two; matrix products only (norms, softmax, activations, rotary \
         positions, biases and sampling are left out)."
            .to_owned(),
        "Attention is causal: a token's scores are counted for the tokens up to itself; a kernel \
         that computes the masked half does more than is counted."
            .to_owned(),
        match lm_head {
            LmHead::Last => {
                "The output projection of a prefill is counted for the last token of each prompt, the \
                 only one that generation needs it for (model.llm.lm_head_in_prefill=all: for every \
                 prompt token)."
            }
            LmHead::All => {
                "The output projection of a prefill is counted for every prompt token \
                 (model.llm.lm_head_in_prefill=all)."
            }
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

/// Weights of a model, without norms, biases, position tables and the vision encoder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Weights {
    /// Attention projections of all layers.
    pub(crate) attention: f64,
    /// MLPs of the dense layers.
    pub(crate) mlp: f64,
    /// Routers, and the gates of shared experts.
    pub(super) router: f64,
    pub(super) routed_experts: f64,
    /// The routed experts that one token goes through.
    pub(super) active_experts: f64,
    pub(super) shared_experts: f64,
    /// Output projection, and as many in the token embedding; counted here even where it is the embedding.
    pub(super) lm_head: f64,
}

impl Weights {
    pub(crate) fn of(shape: &Shape) -> Weights {
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
    pub(super) fn read_per_step(&self, moe: Option<&Moe>, batch: f64) -> f64 {
        let experts = moe.map_or(0.0, |moe| self.routed_experts * expected_share(moe, batch));
        self.dense_layers() + experts + self.lm_head
    }
}

/// Expected share of the experts of a layer that `tokens` tokens choose.
fn expected_share(moe: &Moe, tokens: f64) -> f64 {
    let chosen = moe.num_experts_per_tok as f64 / moe.num_experts as f64;
    1.0 - (1.0 - chosen).powf(tokens)
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
fn context_sum(seen_before: u64, count: u64, window: Option<u64>) -> f64 {
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
fn layer_context_sum(shape: &Shape, seen_before: u64, count: u64) -> f64 {
    let sliding = shape.attention.num_sliding_layers.min(shape.num_hidden_layers);
    let full = shape.num_hidden_layers - sliding;
    let window = shape.attention.sliding_window;
    full as f64 * context_sum(seen_before, count, None)
        + sliding as f64 * context_sum(seen_before, count, window)
}

/// Bytes of weights, stored in `dtype`, that `steps` decode steps of `batch` sequences read.
pub(super) fn weight_bytes(shape: &Shape, dtype: Dtype, batch: f64, steps: u64) -> f64 {
    let per_step = Weights::of(shape).read_per_step(shape.moe.as_ref(), batch)
        + batch * shape.hidden_size as f64;
    steps as f64 * per_step * dtype.bytes()
}

/// Sizes of the weights of a model in its file, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredWeights {
    /// Weights that every step reads: all except the two below.
    pub dense: u64,
    /// The routed experts of all layers.
    pub routed_experts: u64,
    /// The token embedding, of which a step reads a row for each sequence. It is also in `dense` if
    /// it is also the output projection.
    pub embedding: u64,
}

impl StoredWeights {
    /// Bytes that `steps` decode steps of `batch` sequences read.
    pub(super) fn read(&self, shape: &Shape, batch: f64, steps: u64) -> f64 {
        let share = shape.moe.as_ref().map_or(1.0, |moe| expected_share(moe, batch));
        let rows = batch / shape.vocab_size as f64;
        let per_step =
            self.dense as f64 + share * self.routed_experts as f64 + rows * self.embedding as f64;
        steps as f64 * per_step
    }
}

/// Bytes of the KV cache, stored in `dtype`, that they read after a prompt of `prompt` tokens each.
pub(super) fn kv_cache_bytes(
    shape: &Shape,
    dtype: Dtype,
    batch: f64,
    prompt: u64,
    steps: u64,
) -> f64 {
    batch
        * layer_context_sum(shape, prompt, steps)
        * cached_per_token(&shape.attention)
        * dtype.bytes()
}

// As in [`super::flops`], a multiplication and an addition are two operations, and only matrix
// products and convolutions are counted. With `d` the width, `f` the width of the MLP, `L` layers and
// `n` tokens, in multiply-adds:
//
// **SAM's ViT** (published with Segment Anything; ViT-B is `d=768, L=12, f=3072`), for a square view
// of `n = e^2` patches of `p` pixels: `n * 3 * p^2 * d` for the patch embedding, `L * n * 2 * d * f` for
// MLPs. A layer of global attention has `4 * d^2 * n` for queries, keys, values and output, `2 * n^2 * d`
// for scores and weighted values, and `n * 2e * d` for decomposed relative positions; a layer of windows
// the same for each of its `ceil(e / w)^2` windows of `w^2` patches. The patches that pad the last
// windows are computed, and counted. The neck to `c` channels (1x1, then 3x3) has `n * d * c` and
// `n * 9 * c^2`, each convolution behind it (3x3, stride 2) `ceil(e / 2)^2 * 9 * c_in * c_out`.
//
// **CLIP's ViT** (CLIP-L is `d=1024, L=24, f=4096`) over what SAM leaves, with a class token, so
// `n + 1` tokens and no patch embedding. **Projector**: one linear layer.
//
// An image is one view of the whole image and the crops of it, each a view of its own.

/// One image, as a view of the whole and `crops` of it, through a part of the encoder.
pub(super) fn vision_image(shape: &VisionParts, part: VisionPart, crops: u64) -> f64 {
    let of_crop = shape.crop_size.map_or(0.0, |edge| of_view(shape, part, edge));
    of_view(shape, part, shape.image_size) + crops as f64 * of_crop
}

/// What the computed numbers take for granted, in a line; nothing where the crops are not known, for
/// then there are no such numbers.
pub(super) fn vision_assumption(shape: &VisionParts, tokens: &TokenCounts) -> Option<String> {
    let image = shape.image_size;
    let views = match shape.crop_size {
        None => format!("one view of {image} x {image} pixels for each image"),
        Some(crop) => {
            let crops = tokens.crops().ok()?;
            format!(
                "for each image one view of {image} x {image} pixels and {crops} crops of {crop} x \
                 {crop}"
            )
        }
    };
    Some(format!(
        "FLOPs of sam, clip and projector: {views}, including the padding of SAM's windows and its \
         convolutions."
    ))
}

fn of_view(shape: &VisionParts, part: VisionPart, edge: u64) -> f64 {
    let patches_per_edge = edge / shape.sam.patch_size.max(1);
    let features = features(&shape.sam, patches_per_edge);
    let multiply_adds = match part {
        VisionPart::Sam => sam(&shape.sam, patches_per_edge),
        VisionPart::Clip => {
            let Clip { hidden_size, num_hidden_layers, intermediate_size } = shape.clip;
            transformer(hidden_size, num_hidden_layers, intermediate_size, features + 1.0)
        }
        VisionPart::Projector => {
            features * shape.projector.input_size as f64 * shape.projector.output_size as f64
        }
        VisionPart::Whole => {
            let parts = [VisionPart::Sam, VisionPart::Clip, VisionPart::Projector];
            return parts.into_iter().map(|part| of_view(shape, part, edge)).sum();
        }
    };
    2.0 * multiply_adds
}

/// Tokens that SAM leaves of a view.
fn features(sam: &Sam, patches_per_edge: u64) -> f64 {
    let halved = |edge: u64, _: &u64| edge.div_ceil(2);
    let edge = sam.downsample_channels.iter().fold(patches_per_edge, halved) as f64;
    edge * edge
}

fn sam(sam: &Sam, patches_per_edge: u64) -> f64 {
    let edge = patches_per_edge as f64;
    let (d, patches) = (sam.hidden_size as f64, edge * edge);
    let attention = |windows: f64, edge: f64| {
        let tokens = edge * edge;
        windows * tokens * d * (4.0 * d + 2.0 * tokens + 2.0 * edge)
    };
    let windows = patches_per_edge.div_ceil(sam.window_size.max(1)) as f64;
    let global_layers = sam.num_global_layers as f64;
    let window_layers = sam.num_hidden_layers as f64 - global_layers;
    let embedding = patches * 3.0 * (sam.patch_size as f64).powi(2) * d;
    let mlps = sam.num_hidden_layers as f64 * patches * 2.0 * d * sam.intermediate_size as f64;
    let neck_width = sam.neck_channels as f64;
    let neck = patches * neck_width * (d + 9.0 * neck_width);
    let (mut channels, mut edge_left, mut downsampling) = (neck_width, patches_per_edge, 0.0);
    for &wider in &sam.downsample_channels {
        edge_left = edge_left.div_ceil(2);
        downsampling += (edge_left as f64).powi(2) * 9.0 * channels * wider as f64;
        channels = wider as f64;
    }
    embedding
        + mlps
        + global_layers * attention(1.0, edge)
        + window_layers * attention(windows * windows, sam.window_size as f64)
        + neck
        + downsampling
}

fn transformer(width: u64, layers: u64, mlp_width: u64, tokens: f64) -> f64 {
    let d = width as f64;
    let of_token = 4.0 * d * d + 2.0 * d * mlp_width as f64 + 2.0 * tokens * d;
    layers as f64 * tokens * of_token
}

/// One image through a plain vision transformer: its patches and one class token, every one seeing
/// every other; with the patch embedding, without the projector into the language model.
pub(super) fn plain_vision(shape: &Vision) -> f64 {
    let edge = (shape.image_size / shape.patch_size.max(1)) as f64;
    let patches = edge * edge;
    let Vision { hidden_size: width, num_hidden_layers: layers, .. } = *shape;
    let embedding = patches * 3.0 * (shape.patch_size as f64).powi(2) * width as f64;
    2.0 * (embedding + transformer(width, layers, shape.intermediate_size, patches + 1.0))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::llm::preset::built_in_shape;

    /// Adds up one forward pass the long way: token by token, layer by layer, product by product.
    fn by_hand(shape: &Shape, tokens: std::ops::RangeInclusive<u64>, logits: LmHead) -> u64 {
        let last = *tokens.end();
        let (d, a) = (shape.hidden_size, &shape.attention);
        let (h, kv, hd) = (a.num_attention_heads, a.num_key_value_heads, a.head_dim);
        let dense_layers = shape.num_hidden_layers - shape.moe_layers();
        let mut flops = 0;
        for context in tokens {
            for layer in 0..shape.num_hidden_layers {
                flops += 2 * d * h * hd + 2 * 2 * d * kv * hd + 2 * h * hd * d;
                let seen = if layer < a.num_sliding_layers {
                    context.min(a.sliding_window.expect("a window"))
                } else {
                    context
                };
                flops += 2 * h * hd * seen + 2 * h * seen * hd;
                let projections = if shape.mlp.gated { 3 } else { 2 };
                match &shape.moe {
                    Some(moe) if layer >= dense_layers => {
                        flops += 2 * d * moe.num_experts;
                        if moe.shared_expert_gate {
                            flops += 2 * d;
                        }
                        let width = moe.num_experts_per_tok * moe.moe_intermediate_size
                            + moe.shared_intermediate_size;
                        flops += projections * 2 * d * width;
                    }
                    _ => flops += projections * 2 * d * shape.mlp.intermediate_size,
                }
            }
            if logits == LmHead::All || context == last {
                flops += 2 * d * shape.vocab_size;
            }
        }
        flops
    }

    #[test]
    fn flops_are_those_of_every_product_one_by_one() {
        let mut windowed = built_in_shape("llama_1b_random");
        windowed.attention.sliding_window = Some(100);
        windowed.attention.num_sliding_layers = 5;
        windowed.mlp.gated = false;
        let mut shared = built_in_shape("qwen_moe_small_random");
        let moe = shared.moe.as_mut().expect("MoE");
        (moe.shared_intermediate_size, moe.shared_expert_gate) = (500, true);
        for shape in [
            built_in_shape("llama_1b_random"),
            built_in_shape("mixtral_small_random"),
            built_in_shape("deepseek_ocr"),
            windowed,
            shared,
        ] {
            for logits in [LmHead::All, LmHead::Last] {
                let expected = by_hand(&shape, 1..=137, logits) as f64;
                assert_eq!(prefill(&shape, 1.0, 137, logits), expected);
                assert_eq!(prefill(&shape, 3.0, 137, logits), 3.0 * expected);
            }
            let expected = by_hand(&shape, 138..=150, LmHead::All) as f64;
            assert_eq!(decode(&shape, 1.0, 137, 13), expected);
            assert_eq!(decode(&shape, 2.0, 137, 13), 2.0 * expected);
        }
    }

    #[test]
    fn decode_steps_add_up() {
        let shape = built_in_shape("deepseek_v3");
        let steps: f64 = (0..16).map(|i| decode(&shape, 4.0, 100 + i, 1)).sum();
        assert_eq!(decode(&shape, 4.0, 100, 16), steps);
        assert_eq!(decode(&shape, 4.0, 100, 0), 0.0);
        assert_eq!(prefill(&shape, 4.0, 0, LmHead::Last), 0.0);
    }

    #[test]
    fn latent_attention_has_its_own_widths() {
        let shape = built_in_shape("deepseek_v3");
        // 128 heads, 128+64 for scores and 128 for values.
        assert_eq!(per_pair(&shape), 128.0 * (192.0 + 128.0));
        let layer = 1536.0 * (7168.0 + 128.0 * 192.0)
            + 7168.0 * 576.0
            + 512.0 * 128.0 * 256.0
            + 128.0 * 128.0 * 7168.0;
        assert_eq!(Weights::of(&shape).attention, 61.0 * layer);
    }

    #[test]
    fn assumptions_name_what_applies() {
        let text = |preset: &str, head| assumptions(&built_in_shape(preset), head).join("\n");
        let dense = text("llama_1b_random", LmHead::All);
        assert!(dense.contains("norms") && dense.contains("every prompt token"), "{dense}");
        assert!(!dense.contains("xpert") && !dense.contains("atent"), "{dense}");
        let moe = text("deepseek_v3", LmHead::Last);
        assert!(moe.contains("8 of 256 routed ones per token in 58 of 61 layers, and the shared"));
        assert!(moe.contains("Latent") && moe.contains("last token of each prompt"), "{moe}");
    }

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
        assert_eq!(weights(1.0), 2.0 * (16.0 * layer + 32000.0 * 2048.0 + 2048.0));
        assert_eq!(kv_cache(1.0), 2.0 * 16.0 * 512.0 * 2.0 * 8.0 * 64.0);
        assert_eq!(kv_cache(4.0), 4.0 * kv_cache(1.0));
        assert_eq!(weights(4.0) - weights(1.0), 2.0 * 3.0 * 2048.0);
    }

    #[test]
    fn more_tokens_choose_more_experts() {
        let moe = built_in_shape("mixtral_8x7b").moe.expect("MoE");
        assert_eq!(expected_share(&moe, 1.0), 0.25);
        assert!((expected_share(&moe, 2.0) - 0.4375).abs() < 1e-12);
        assert!(expected_share(&moe, 1000.0) > 0.999_999);
        let shape = built_in_shape("mixtral_8x7b");
        let weights = Weights::of(&shape);
        let one = weights.read_per_step(Some(&moe), 1.0);
        assert!((one - active_parameters(&shape) + weights.lm_head).abs() < 1.0);
    }

    fn ocr() -> VisionParts {
        built_in_shape("deepseek_ocr").vision_parts.expect("DeepSeek-OCR has them")
    }

    /// Worked out with a calculator for 1024 x 1024: 64 x 64 patches, 5 x 5 windows of 14 x 14, and
    /// 16 x 16 tokens behind two convolutions of stride 2.
    #[test]
    fn a_view_of_1024_pixels_is_what_a_calculator_gives() {
        let embedding = 4096u64 * 3 * 256 * 768;
        let mlps = 12 * 4096 * 2 * 768 * 3072;
        let global = 4 * (4096 * 4 * 768 * 768 + 2 * 4096 * 4096 * 768 + 4096 * 2 * 64 * 768);
        let windows = 8 * (4900 * 4 * 768 * 768 + 25 * 2 * 196 * 196 * 768 + 4900 * 28 * 768);
        let neck = 4096 * 768 * 256 + 4096 * 9 * 256 * 256;
        let behind = 1024 * 9 * 256 * 512 + 256 * 9 * 512 * 1024;
        let by_hand = 2 * (embedding + mlps + global + windows + neck + behind);
        assert_eq!(by_hand, 976_909_172_736);
        assert_eq!(vision_image(&ocr(), VisionPart::Sam, 0), by_hand as f64);
        // 257 tokens, 24 layers: 12 x 1024^2 each, and 2 x 257 x 1024 for scores and values.
        let clip = 2u64 * 24 * 257 * (12 * 1024 * 1024 + 2 * 257 * 1024);
        assert_eq!(clip, 161_715_683_328);
        assert_eq!(vision_image(&ocr(), VisionPart::Clip, 0), clip as f64);
        assert_eq!(
            vision_image(&ocr(), VisionPart::Projector, 0),
            (2u64 * 256 * 2048 * 1280) as f64
        );
        let whole = (by_hand + clip + 2 * 256 * 2048 * 1280) as f64;
        assert_eq!(vision_image(&ocr(), VisionPart::Whole, 0), whole);
    }

    /// 640 x 640: 40 x 40 patches, 3 x 3 windows, 10 x 10 tokens. The sums are from a script that adds
    /// up layer by layer.
    #[test]
    fn crops_are_views_of_their_own() {
        let of = |part, crops| vision_image(&ocr(), part, crops) - vision_image(&ocr(), part, 0);
        assert_eq!(of(VisionPart::Sam, 1), 325_620_793_344.0);
        assert_eq!(of(VisionPart::Sam, 6), 6.0 * 325_620_793_344.0);
        assert_eq!(of(VisionPart::Clip, 1), 62_004_756_480.0);
        assert_eq!(of(VisionPart::Projector, 2), 2.0 * 524_288_000.0);
        let without = VisionParts { crop_size: None, ..ocr() };
        assert_eq!(
            vision_image(&without, VisionPart::Sam, 6),
            vision_image(&ocr(), VisionPart::Sam, 0)
        );
    }

    #[test]
    fn parts_are_known_by_the_names_of_their_ranges() {
        for part in [VisionPart::Whole, VisionPart::Sam, VisionPart::Clip, VisionPart::Projector] {
            assert_eq!(VisionPart::of_range(&part.to_string()), Some(part));
        }
        assert_eq!(VisionPart::of_range("sam@vision"), Some(VisionPart::Sam));
        for name in ["", "sample", "clip_grad", "prefill", "SAM2"] {
            assert_eq!(VisionPart::of_range(name), None, "{name}");
        }
    }

    #[test]
    fn a_plain_vision_transformer_is_counted_once_per_image() {
        // ViT-L/14 at 224: published as about 162 GFLOPs with multiply-adds counted twice.
        let vit = Vision {
            hidden_size: 1024,
            num_hidden_layers: 24,
            intermediate_size: 4096,
            image_size: 224,
            patch_size: 14,
        };
        let giga = plain_vision(&vit) / 1e9;
        assert!((155.0..170.0).contains(&giga), "{giga}");
    }
}
