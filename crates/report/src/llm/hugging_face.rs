//! A Hugging Face `config.json` -> a [`Shape`], or an error that names the file and the key.
//!
//! Reads the keys of the Llama, Mistral, Qwen, Mixtral, Qwen-MoE, DeepSeek and GPT-2 families and
//! of the many that share them, also nested in `text_config` or `language_config`. What the file
//! leaves open is decided as those families do and said in the assumptions; what cannot be
//! modelled is an error, never a near guess.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::hugging_face_layers::{moe, sliding};
use super::hugging_face_vision::{plain_vision, vision_parts};
use super::keys::{Keys, Problem};
use super::shape::{Attention, Mla, Mlp, Shape};
use stage2_model::Dtype;
use stage2_read::files;

/// What a `config.json` says.
#[derive(Clone, Debug, PartialEq)]
pub struct HuggingFace {
    /// The sizes; not yet checked against each other.
    pub shape: Shape,
    /// What the model computes in, where it says so.
    pub dtype: Option<Dtype>,
    /// What quantised weights are stored in.
    pub weight_dtype: Option<Dtype>,
    /// The kind of model: `model_type`.
    pub name: Option<String>,
    /// What the file leaves open and was decided, one line each.
    pub assumptions: Vec<String>,
}

impl HuggingFace {
    /// Nothing but these sizes.
    pub(super) fn of(shape: Shape) -> HuggingFace {
        HuggingFace { shape, dtype: None, weight_dtype: None, name: None, assumptions: Vec::new() }
    }
}

/// Why a `config.json` gives no shape.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", stage2_contract::text::visible_path(path))]
pub struct HuggingFaceError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub problem: Problem,
}

/// A `config.json` is a few kilobytes; larger files are something else.
const SIZE_LIMIT_BYTES: u64 = 16 << 20;

/// Reads a `config.json`, or that of a folder.
///
/// # Errors
/// The file cannot be read, is no JSON, lacks a key, or describes what cannot be modelled.
pub fn read(path: &Path) -> Result<HuggingFace, HuggingFaceError> {
    read_with_text(path).map(|(read, _)| read)
}

/// Reads a `config.json`, or that of a folder, and returns the text of the file with it.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_with_text(path: &Path) -> Result<(HuggingFace, String), HuggingFaceError> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    files::read_text(&path, SIZE_LIMIT_BYTES)
        .map_err(|e| Problem::Unreadable(e.to_string()))
        .and_then(|text| Ok((from_json(&text)?, text)))
        .map_err(|problem| HuggingFaceError { path, problem })
}

/// Reads the text of a `config.json`.
///
/// # Errors
/// It is no JSON, lacks a key, or describes what cannot be modelled.
pub fn from_json(text: &str) -> Result<HuggingFace, Problem> {
    let json: Value = serde_json::from_str(text).map_err(|e| Problem::NotJson(e.to_string()))?;
    let Value::Object(top) = &json else {
        return Err(Problem::NotJson("its outermost value is no object".to_owned()));
    };
    let (section, model) = language_model(top);
    let keys = Keys::new(model, section);
    let whole = Keys::new(top, "");
    let model_type = keys.text("model_type").or_else(|| whole.text("model_type"));
    let kind = model_type.clone().unwrap_or_default().to_ascii_lowercase();
    refuse_what_is_no_decoder(&keys, &kind)?;

    let mut assumptions = Vec::new();
    let hidden_size = keys.need(&["hidden_size", "d_model", "n_embd", "dim"])?;
    let layers = keys.need(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"])?;
    let tied = keys.flag("tie_word_embeddings").or_else(|| whole.flag("tie_word_embeddings"));
    let mlp = mlp(&keys, &kind, hidden_size, &mut assumptions)?;
    let moe = moe(&keys, &kind, layers, &mlp)?;
    let dense_width = keys.size(&["intermediate_size_mlp"])?.unwrap_or(mlp.intermediate_size);
    let vision_parts = vision_parts(top, &mut assumptions);
    let vision = if vision_parts.is_some() { None } else { plain_vision(top, &mut assumptions) };
    let shape = Shape {
        hidden_size,
        num_hidden_layers: layers,
        vocab_size: keys.need(&["vocab_size", "padded_vocab_size"])?,
        tie_word_embeddings: tied.unwrap_or_else(|| TIED_UNLESS_SAID.contains(&kind.as_str())),
        attention: attention(&keys, &kind, hidden_size, layers)?,
        mlp: Mlp { intermediate_size: dense_width, ..mlp },
        moe,
        vision,
        vision_parts,
    };
    let dtype = ["torch_dtype", "dtype"]
        .iter()
        .find_map(|key| keys.text(key).or_else(|| whole.text(key)))
        .and_then(|name| Dtype::parse(&name));
    let weight_dtype =
        quantised(&keys, &mut assumptions).or_else(|| quantised(&whole, &mut assumptions));
    Ok(HuggingFace { shape, dtype, weight_dtype, name: model_type, assumptions })
}

/// Sections that hold the language model of a model of several parts.
const SECTIONS: [&str; 4] = ["text_config", "language_config", "llm_config", "language_model"];

/// The section of the language model and its name: the one with a width in it.
fn language_model(top: &Map<String, Value>) -> (&'static str, &Map<String, Value>) {
    let thinker = top.get("thinker_config").and_then(Value::as_object).unwrap_or(top);
    SECTIONS
        .iter()
        .find_map(|section| {
            let inner = thinker.get(*section)?.as_object()?;
            inner.contains_key("hidden_size").then_some((*section, inner))
        })
        .unwrap_or(("", top))
}

/// Kinds of models whose MLP has two projections.
const NOT_GATED: [&str; 14] = [
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "gptj",
    "gpt_bigcode",
    "codegen",
    "opt",
    "phi",
    "bloom",
    "falcon",
    "mpt",
    "starcoder2",
    "nemotron",
    "apertus",
];
/// Kinds whose output projection is the embedding unless they say otherwise.
const TIED_UNLESS_SAID: [&str; 10] = [
    "gpt2",
    "gpt_neo",
    "gpt_bigcode",
    "opt",
    "bloom",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
];
/// Parts of the names of models with layers that are neither attention nor MLP.
const NOT_TRANSFORMERS: [&str; 8] =
    ["mamba", "jamba", "rwkv", "zamba", "recurrent_gemma", "falcon_h1", "bamba", "nemotron_h"];

fn refuse_what_is_no_decoder(keys: &Keys<'_>, kind: &str) -> Result<(), Problem> {
    if keys.flag("is_encoder_decoder") == Some(true) {
        return Err(Problem::NotModelled("an encoder-decoder (is_encoder_decoder)".to_owned()));
    }
    match NOT_TRANSFORMERS.iter().find(|part| kind.contains(**part)) {
        Some(_) => Err(Problem::NotModelled(format!("the layers of model_type {kind:?}"))),
        None => Ok(()),
    }
}

fn mlp(
    keys: &Keys<'_>,
    kind: &str,
    hidden_size: u64,
    assumptions: &mut Vec<String>,
) -> Result<Mlp, Problem> {
    let names = ["intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "hidden_dim"];
    let gated = !NOT_GATED.contains(&kind);
    let intermediate_size = match keys.size(&names)? {
        Some(size) => size,
        None if !gated => {
            assumptions.push("The MLP's width is not given: four times the model's.".to_owned());
            hidden_size.saturating_mul(4)
        }
        None => return Err(Problem::Missing(keys.path(names[0]))),
    };
    Ok(Mlp { intermediate_size, gated })
}

fn attention(
    keys: &Keys<'_>,
    kind: &str,
    hidden_size: u64,
    layers: u64,
) -> Result<Attention, Problem> {
    let heads = keys.need(&["num_attention_heads", "n_head", "num_heads", "n_heads"])?;
    let multi_query = keys.flag("multi_query") == Some(true)
        && keys.flag("new_decoder_architecture") != Some(true);
    let key_value = match keys.size(&["num_key_value_heads", "num_kv_heads", "n_kv_heads"])? {
        Some(heads) => heads,
        None if multi_query => 1,
        None => heads,
    };
    let mla = mla(keys)?;
    let head_dim = match (keys.size(&["head_dim", "attention_head_dim"])?, &mla) {
        (Some(width), _) if width > 0 => width,
        (_, Some(mla)) => mla.qk_nope_head_dim.saturating_add(mla.qk_rope_head_dim),
        _ => hidden_size
            .checked_div(heads)
            .filter(|width| width.checked_mul(heads) == Some(hidden_size))
            .ok_or_else(|| Problem::Wrong {
                key: keys.path("num_attention_heads"),
                found: heads.to_string(),
                expected: format!("a divisor of hidden_size ({hidden_size}), or a key head_dim"),
            })?,
    };
    let (sliding_window, num_sliding_layers) = sliding(keys, kind, layers)?;
    Ok(Attention {
        num_attention_heads: heads,
        num_key_value_heads: key_value,
        head_dim,
        sliding_window,
        num_sliding_layers,
        mla,
    })
}

fn mla(keys: &Keys<'_>) -> Result<Option<Mla>, Problem> {
    let rank = keys.size(&["kv_lora_rank"])?.filter(|rank| *rank > 0);
    let Some(kv_lora_rank) = rank.filter(|_| keys.flag("use_mla") != Some(false)) else {
        return Ok(None);
    };
    Ok(Some(Mla {
        q_lora_rank: keys.size(&["q_lora_rank"])?.filter(|rank| *rank > 0),
        kv_lora_rank,
        qk_nope_head_dim: keys.need(&["qk_nope_head_dim"])?,
        qk_rope_head_dim: keys.need(&["qk_rope_head_dim"])?,
        v_head_dim: keys.need(&["v_head_dim"])?,
    }))
}

fn quantised(keys: &Keys<'_>, assumptions: &mut Vec<String>) -> Option<Dtype> {
    let section = keys.section("quantization_config")?;
    let method = section.text("quant_method").unwrap_or_default().to_ascii_lowercase();
    let bits = section.size(&["bits", "w_bit"]).ok().flatten();
    let dtype = match (method.as_str(), bits) {
        ("fp8" | "fbgemm_fp8", _) => Some(Dtype::Fp8),
        ("mxfp4", _) => Some(Dtype::Fp4),
        ("bitsandbytes", _) if section.flag("load_in_4bit") == Some(true) => Some(Dtype::Int4),
        ("bitsandbytes", _) if section.flag("load_in_8bit") == Some(true) => Some(Dtype::Int8),
        (_, Some(4)) => Some(Dtype::Int4),
        (_, Some(8)) => Some(Dtype::Int8),
        _ => None,
    };
    assumptions.push(match dtype {
        Some(dtype) => format!(
            "Weights are quantised ({method}): read as {}, with scales and what is left out of the \
             quantisation not counted apart.",
            dtype
        ),
        None => format!(
            "The quantisation {method:?} is not understood: weights are counted as if there were \
             none (model.llm.weight_dtype)."
        ),
    });
    dtype
}

#[cfg(test)]
#[path = "hugging_face_tests.rs"]
mod tests;
