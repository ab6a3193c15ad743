use super::super::preset::built_in_shape;
use super::*;

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
            assert_eq!(prefill(&shape, 1, 137, logits), expected);
            assert_eq!(prefill(&shape, 3, 137, logits), 3.0 * expected);
        }
        let expected = by_hand(&shape, 138..=150, LmHead::All) as f64;
        assert_eq!(decode(&shape, 1, 137, 13), expected);
        assert_eq!(decode(&shape, 2, 137, 13), 2.0 * expected);
    }
}

#[test]
fn decode_steps_add_up() {
    let shape = built_in_shape("deepseek_v3");
    let steps: f64 = (0..16).map(|i| decode(&shape, 4, 100 + i, 1)).sum();
    assert_eq!(decode(&shape, 4, 100, 16), steps);
    assert_eq!(decode(&shape, 4, 100, 0), 0.0);
    assert_eq!(prefill(&shape, 4, 0, LmHead::Last), 0.0);
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
    assert!(moe.contains("Latent") && moe.contains("last prompt token only"), "{moe}");
}
