//! The keys of a `config.json` that make layers differ -> windowed layers, and layers with experts.

use super::keys::{Keys, Problem};
use super::shape::{MAX_LAYERS, Mlp, Moe};

/// The window and the number of layers that have it.
pub(super) fn sliding(
    keys: &Keys<'_>,
    kind: &str,
    layers: u64,
) -> Result<(Option<u64>, u64), Problem> {
    let by_layer = keys.texts("layer_types")?;
    let window = match keys.size(&["sliding_window"])? {
        // Which layers are chunked is said layer by layer, or not at all.
        None if !by_layer.is_empty() => keys.size(&["attention_chunk_size"])?,
        window => window,
    };
    let window = window.filter(|window| *window > 0);
    let Some(window) = window.filter(|_| keys.flag("use_sliding_window") != Some(false)) else {
        known_layers(&by_layer)?;
        return Ok((None, 0));
    };
    if !by_layer.is_empty() {
        let sliding = known_layers(&by_layer)?;
        if by_layer.len() as u64 != layers {
            return Err(Problem::Wrong {
                key: keys.path("layer_types"),
                found: format!("{} entries", by_layer.len()),
                expected: format!("one for each of {layers} layers"),
            });
        }
        return Ok(if sliding == 0 { (None, 0) } else { (Some(window), sliding) });
    }
    let asked = keys.flag("use_sliding_window") == Some(true);
    let sliding = if kind.starts_with("qwen") {
        // Windows are off there unless asked for, and begin above a layer.
        let first = keys.size(&["max_window_layers"])?.unwrap_or(layers);
        if asked { layers.saturating_sub(first) } else { 0 }
    } else if let Some(pattern) = keys.size(&["sliding_window_pattern"])?.filter(|p| *p > 0) {
        layers - layers / pattern
    } else if kind.starts_with("gemma2") || kind.starts_with("cohere2") {
        layers.div_ceil(2)
    } else {
        layers
    };
    Ok(if sliding == 0 { (None, 0) } else { (Some(window), sliding) })
}

/// Counts the windowed layers.
fn known_layers(by_layer: &[&str]) -> Result<u64, Problem> {
    let mut sliding = 0;
    for layer in by_layer {
        match *layer {
            "sliding_attention" | "chunked_attention" => sliding += 1,
            "full_attention" | "attention" | "global" => {}
            other => return Err(Problem::NotModelled(format!("layers of type {other:?}"))),
        }
    }
    Ok(sliding)
}

/// Mixture of experts, if there is one.
pub(super) fn moe(
    keys: &Keys<'_>,
    kind: &str,
    layers: u64,
    mlp: &Mlp,
) -> Result<Option<Moe>, Problem> {
    let names = [
        "num_local_experts",
        "n_routed_experts",
        "num_experts",
        "moe_num_experts",
        "num_routed_experts",
    ];
    let Some(num_experts) = keys.size(&names)?.filter(|experts| *experts > 1) else {
        return Ok(None);
    };
    let num_experts_per_tok = keys.need(&[
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "moe_top_k",
        "moe_k",
        "top_k_experts",
    ])?;
    let width = keys.size(&["moe_intermediate_size"])?.unwrap_or(mlp.intermediate_size);
    let shared_width =
        keys.size(&["shared_expert_intermediate_size", "shared_intermediate_size"])?;
    let shared_count =
        keys.size(&["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"])?;
    let shared = match (shared_width, shared_count) {
        (Some(width), _) => width,
        (None, Some(count)) => count.saturating_mul(width),
        (None, None) if kind.starts_with("llama4") => width,
        (None, None) => 0,
    };
    Ok(Some(Moe {
        num_experts,
        num_experts_per_tok,
        moe_intermediate_size: width,
        shared_intermediate_size: shared,
        shared_expert_gate: kind.starts_with("qwen") && shared > 0,
        num_moe_layers: moe_layers(keys, layers)?,
    }))
}

fn moe_layers(keys: &Keys<'_>, layers: u64) -> Result<u64, Problem> {
    let listed = keys.numbers("moe_layers")?;
    if !listed.is_empty() {
        return Ok((listed.len() as u64).min(layers));
    }
    if let Some(by_layer) = keys.list("moe_layer_freq") {
        return Ok(by_layer.iter().filter(|v| v.as_u64() != Some(0)).count() as u64);
    }
    let first = keys.size(&["first_k_dense_replace", "moe_layer_start_index"])?.unwrap_or(0);
    let every = keys.size(&["moe_layer_freq"])?.unwrap_or(1).max(1);
    let step =
        keys.size(&["decoder_sparse_step", "interleave_moe_layer_step"])?.unwrap_or(1).max(1);
    let dense = keys.numbers("mlp_only_layers")?;
    let sparse = (0..layers.min(MAX_LAYERS)).filter(|layer| {
        *layer >= first
            && layer.is_multiple_of(every)
            && (layer + 1).is_multiple_of(step)
            && !dense.contains(layer)
    });
    Ok(sparse.count() as u64)
}
