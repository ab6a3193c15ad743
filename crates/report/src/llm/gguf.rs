//! The head of a GGUF file -> sizes as of a `config.json`, and the bytes of the weights.

use std::path::Path;

use serde_json::{Map, Value, json};
use stage2_contract::text::visible_path;
use stage2_model::Dtype;
use stage2_read::gguf::{Gguf, GgufValue, Tensor};

use super::flops::StoredWeights;
use super::hugging_face::{self, HuggingFace};

/// Keys below the name of the architecture, and what `config.json` calls them.
const KEYS: [(&str, &str); 17] = [
    ("block_count", "num_hidden_layers"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.kv_lora_rank", "kv_lora_rank"),
    ("attention.q_lora_rank", "q_lora_rank"),
    ("attention.value_length_mla", "v_head_dim"),
    ("rope.dimension_count", "qk_rope_head_dim"),
    ("vocab_size", "vocab_size"),
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    ("expert_shared_count", "n_shared_experts"),
    ("leading_dense_block_count", "first_k_dense_replace"),
];

/// Architectures in which one layer of every N uses the whole context, and the others a window; N.
const WINDOW_PATTERNS: [(&str, u64); 3] = [("gemma2", 2), ("gemma3", 6), ("gpt-oss", 2)];

/// Reads the head of a GGUF file.
///
/// # Errors
/// The file cannot be read, or describes an unsupported model; the text names the file and the
/// remedy.
pub(super) fn read(path: &Path) -> Result<(HuggingFace, StoredWeights), String> {
    const REMEDY: &str = "give the first file of a whole model, or model/llm=NAME";
    let head = Gguf::read(path).map_err(|error| format!("{error}; {REMEDY}"))?;
    sizes(&head).map_err(|why| format!("{}: {why}", visible_path(path)))
}

fn sizes(head: &Gguf) -> Result<(HuggingFace, StoredWeights), String> {
    let Some(GgufValue::Text(kind)) = head.values.get("general.architecture") else {
        return Err("it has no key general.architecture; give model/llm=NAME".to_owned());
    };
    let key = |name: &str| format!("{kind}.{name}");
    let whole = |name: &str| match head.values.get(&key(name)) {
        Some(GgufValue::Whole(number)) => Some(*number),
        _ => None,
    };
    let not_modelled =
        |what: String| format!("{what} cannot be modelled; give model.llm.shape or model/llm=NAME");
    if head.values.keys().any(|name| name.starts_with(&key("ssm."))) {
        return Err(not_modelled(format!("the layers of {kind:?}")));
    }
    let mut config = Map::new();
    for (name, theirs) in KEYS {
        match head.values.get(&key(name)) {
            Some(GgufValue::Whole(number)) => drop(config.insert(theirs.into(), json!(number))),
            Some(GgufValue::Array(_)) => {
                return Err(not_modelled(format!("{} that differs by layer", key(name))));
            }
            _ => {}
        }
    }
    if let Some(GgufValue::Array(tokens)) = head.values.get("tokenizer.ggml.tokens") {
        config.entry("vocab_size").or_insert(json!(tokens));
    }
    // In latent attention, the key has a part without positions and a part with positions.
    if config.contains_key("kv_lora_rank") {
        let width = whole("attention.key_length_mla").or(whole("attention.key_length"));
        let nope =
            width.unwrap_or_default().checked_sub(whole("rope.dimension_count").unwrap_or(0));
        config.insert("qk_nope_head_dim".into(), nope.map_or(Value::Null, Value::from));
        config.remove("head_dim");
        if let Some(value) =
            whole("attention.value_length").filter(|_| !config.contains_key("v_head_dim"))
        {
            config.insert("v_head_dim".into(), json!(value));
        }
    }
    let mut assumptions = Vec::new();
    if let Some(window) = whole("attention.sliding_window").filter(|window| *window > 0) {
        let known = WINDOW_PATTERNS.iter().find(|(known, _)| known == kind);
        match whole("attention.sliding_window_pattern").or(known.map(|(_, pattern)| *pattern)) {
            Some(pattern) => {
                config.insert("sliding_window".into(), json!(window));
                config.insert("sliding_window_pattern".into(), json!(pattern));
            }
            None => assumptions.push(format!(
                "It is not known which layers look back on {window} tokens at most: all layers count \
                 with the whole context."
            )),
        }
    }
    let has = |name: &str| head.tensors.iter().any(|tensor| tensor.name == name);
    config.insert("tie_word_embeddings".into(), Value::Bool(!has("output.weight")));
    config.insert("model_type".into(), json!(kind.replace('-', "_")));
    let mut read = hugging_face::from_json(&Value::Object(config).to_string())
        .map_err(|problem| format!("{problem} (keys as in config.json; here they are {kind}.*)"))?;
    read.shape.mlp.gated = is_gated(&head.tensors, read.shape.mlp.gated);
    read.dtype = Some(Dtype::Fp16);
    let stored = stored(&head.tensors, read.shape.tie_word_embeddings);
    let bytes: f64 = head.tensors.iter().map(|tensor| tensor.bytes as f64).sum();
    assumptions.push(format!(
        "Weights have the size of the file's tensors ({:.3} GB); the arithmetic is fp16.",
        bytes / 1e9
    ));
    read.assumptions.extend(assumptions);
    Ok((read, stored))
}

/// Whether the MLP has a gate; `otherwise` if its projections may be one tensor.
fn is_gated(tensors: &[Tensor], otherwise: bool) -> bool {
    let gates = [".ffn_gate.", ".ffn_gate_exps.", ".ffn_gate_up_exps."];
    let is_gate = |tensor: &Tensor| gates.iter().any(|gate| tensor.name.contains(gate));
    tensors.iter().any(is_gate) || otherwise
}

fn stored(tensors: &[Tensor], is_tied: bool) -> StoredWeights {
    let mut stored = StoredWeights::default();
    let mut add = |part: fn(&mut StoredWeights) -> &mut u64, bytes: u64| {
        let sum = part(&mut stored);
        *sum = sum.saturating_add(bytes);
    };
    for Tensor { name, bytes } in tensors {
        if name == "token_embd.weight" {
            add(|stored| &mut stored.embedding, *bytes);
            if is_tied {
                add(|stored| &mut stored.dense, *bytes);
            }
        } else if name.contains("_exps.") {
            add(|stored| &mut stored.routed_experts, *bytes);
        } else {
            add(|stored| &mut stored.dense, *bytes);
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: &str, values: &[(&str, u64)], tensors: &[(&str, u64)]) -> Gguf {
        let whole = |(name, value): &(&str, u64)| {
            let key =
                if name.contains("general") { (*name).into() } else { format!("{kind}.{name}") };
            (key, GgufValue::Whole(*value))
        };
        let mut values: std::collections::BTreeMap<_, _> = values.iter().map(whole).collect();
        values.insert("general.architecture".into(), GgufValue::Text(kind.into()));
        values.insert("tokenizer.ggml.tokens".into(), GgufValue::Array(1000));
        let tensor = |(name, bytes): &(&str, u64)| Tensor { name: (*name).into(), bytes: *bytes };
        Gguf { values, tensors: tensors.iter().map(tensor).collect() }
    }

    const SIZES: [(&str, u64); 5] = [
        ("block_count", 2),
        ("embedding_length", 64),
        ("feed_forward_length", 128),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ];

    #[test]
    fn a_step_reads_the_tensors_of_the_file() {
        let tensors = [
            ("token_embd.weight", 1000),
            ("output.weight", 900),
            ("blk.0.ffn_gate.weight", 70),
            ("blk.1.attn_q.weight", 30),
        ];
        let (read, stored) = sizes(&head("llama", &SIZES, &tensors)).expect("a model");
        let shape = &read.shape;
        assert_eq!(shape.check(), Ok(()));
        let a = &shape.attention;
        assert_eq!((a.head_dim, a.num_key_value_heads, shape.vocab_size), (16, 2, 1000));
        assert!(shape.mlp.gated && !shape.tie_word_embeddings);
        // Three rows of the embedding, one byte each.
        assert_eq!(stored.read(shape, 3.0, 2), 2.0 * (1000.0 + 3.0));
        let (read, stored) = sizes(&head("llama", &SIZES, &tensors[2..])).expect("a model");
        assert!(read.shape.tie_word_embeddings);
        assert_eq!(stored.read(&read.shape, 1.0, 1), 100.0);
    }

    #[test]
    fn experts_are_read_as_far_as_tokens_choose_them() {
        let mut values = SIZES.to_vec();
        values.extend([("expert_count", 8), ("expert_used_count", 2)]);
        let tensors = [("blk.0.ffn_down_exps.weight", 800), ("blk.0.ffn_gate_inp.weight", 5)];
        let (read, stored) = sizes(&head("qwen3moe", &values, &tensors)).expect("a model");
        assert_eq!(read.shape.moe.as_ref().map(|moe| moe.num_experts), Some(8));
        assert_eq!(stored.read(&read.shape, 1.0, 1), 5.0 + 200.0);
    }

    #[test]
    fn what_cannot_be_modelled_is_named() {
        let mut zero = SIZES;
        zero[3].1 = 0;
        let mut differs = head("llama", &SIZES, &[]);
        differs.values.insert("llama.feed_forward_length".into(), GgufValue::Array(2));
        for (head, said) in [
            (head("llama", &SIZES[1..], &[]), "num_hidden_layers"),
            (head("llama", &zero, &[]), "num_attention_heads is 0"),
            (head("mamba", &[("ssm.conv_kernel", 4)], &[]), "the layers of \"mamba\""),
            (differs, "llama.feed_forward_length that differs by layer"),
            (Gguf::default(), "general.architecture"),
        ] {
            let why = sizes(&head).expect_err(said);
            assert!(why.contains(said), "{why}, not {said}");
        }
    }
}
