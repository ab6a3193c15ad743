//! A Hugging Face `config.json` -> a [`Shape`], or an error that names the file and the key.
//!
//! Reads the keys of the Llama, Mistral, Qwen, Mixtral, Qwen-MoE, DeepSeek and GPT-2 families and
//! of the many that share them, also nested in `text_config` or `language_config`. What the file
//! leaves open is decided as those families do and said in the assumptions; what cannot be
//! modelled is an error, never a near guess.

use std::path::{Path, PathBuf};

use crate::llm::shape::{
    Attention, Clip, MAX_LAYERS, Mla, Mlp, Moe, Projector, Sam, Shape, Vision, VisionParts,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stage2_contract::text::{shorten, visible};
use stage2_model::Dtype;
use stage2_read::files;

/// What a `config.json` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HuggingFace {
    /// The sizes; not yet checked against each other.
    pub(crate) shape: Shape,
    /// What the model computes in, where it states it.
    pub(crate) dtype: Option<Dtype>,
    /// What quantised weights are stored in.
    pub(crate) weight_dtype: Option<Dtype>,
    /// The kind of model: `model_type`.
    pub(crate) name: Option<String>,
    /// What the file leaves open and was decided, one line each.
    pub(crate) assumptions: Vec<String>,
}

impl HuggingFace {
    pub(super) fn of(shape: Shape) -> HuggingFace {
        HuggingFace { shape, dtype: None, weight_dtype: None, name: None, assumptions: Vec::new() }
    }
}

/// Why a `config.json` gives no shape.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", stage2_contract::text::visible_path(path))]
pub struct HuggingFaceError {
    pub path: PathBuf,
    pub problem: Problem,
}

/// A `config.json` is a few kilobytes; larger files are something else.
const SIZE_LIMIT_BYTES: u64 = 16 << 20;

/// Reads a `config.json`, or that of a folder.
pub(crate) fn read(path: &Path) -> Result<HuggingFace, HuggingFaceError> {
    read_with_text(path).map(|(read, _)| read)
}

/// [`read`], with the text of the file.
pub(crate) fn read_with_text(path: &Path) -> Result<(HuggingFace, String), HuggingFaceError> {
    let path = if path.is_dir() { path.join("config.json") } else { path.to_owned() };
    files::read_text(&path, SIZE_LIMIT_BYTES)
        .map_err(|e| Problem::Unreadable(e.to_string()))
        .and_then(|text| Ok((from_json(&text)?, text)))
        .map_err(|problem| HuggingFaceError { path, problem })
}

pub(crate) fn from_json(text: &str) -> Result<HuggingFace, Problem> {
    let json: Value = serde_json::from_str(text).map_err(|e| Problem::NotJson(e.to_string()))?;
    let Value::Object(top) = &json else {
        return Err(Problem::NotJson("its outermost value is not an object".to_owned()));
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
        tie_word_embeddings: tied.unwrap_or_else(|| is_listed(TIED_UNLESS_SAID, &kind)),
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
    let of_all = || (!section.is_empty()).then_some(&whole);
    let weight_dtype = quantised_dtype(&keys, &mut assumptions)
        .or_else(|| quantised_dtype(of_all()?, &mut assumptions));
    Ok(HuggingFace { shape, dtype, weight_dtype, name: model_type, assumptions })
}

/// Sections that hold the language model of a model of several parts. TensorRT-LLM's engines keep
/// it in `pretrained_config`.
const SECTIONS: [&str; 5] =
    ["text_config", "language_config", "llm_config", "language_model", "pretrained_config"];

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
const NOT_GATED: &str = "gpt2 gpt_neo gpt_neox gptj gpt_bigcode codegen opt phi bloom falcon mpt \
    starcoder2 nemotron apertus";
/// Kinds whose output projection is the embedding unless they say otherwise.
const TIED_UNLESS_SAID: &str =
    "gpt2 gpt_neo gpt_bigcode opt bloom falcon gemma gemma2 gemma3 gemma3_text";
/// Parts of the names of models with layers that are neither attention nor MLP.
const NOT_TRANSFORMERS: &str = "mamba jamba rwkv zamba recurrent_gemma falcon_h1 bamba nemotron_h";

fn is_listed(kinds: &str, kind: &str) -> bool {
    kinds.split(' ').any(|known| known == kind)
}

fn refuse_what_is_no_decoder(keys: &Keys<'_>, kind: &str) -> Result<(), Problem> {
    if keys.flag("is_encoder_decoder") == Some(true) {
        return Err(Problem::NotModelled("an encoder-decoder (is_encoder_decoder)".to_owned()));
    }
    match NOT_TRANSFORMERS.split(' ').any(|part| kind.contains(part)) {
        true => Err(Problem::NotModelled(format!("the layers of model_type {kind:?}"))),
        false => Ok(()),
    }
}

fn mlp(
    keys: &Keys<'_>,
    kind: &str,
    hidden_size: u64,
    assumptions: &mut Vec<String>,
) -> Result<Mlp, Problem> {
    let names = ["intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "hidden_dim"];
    let gated = !is_listed(NOT_GATED, kind);
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

fn quantised_dtype(keys: &Keys<'_>, assumptions: &mut Vec<String>) -> Option<Dtype> {
    let section = keys.section("quantization_config")?;
    let method = section.text("quant_method").unwrap_or_default().to_ascii_lowercase();
    let bits = section.size(&["bits", "w_bit"]).ok().flatten();
    let algorithm = section.text("quant_algo").unwrap_or_default().to_ascii_lowercase();
    let dtype = match (method.as_str(), bits) {
        ("compressed-tensors", _) => group_dtype(&section),
        ("modelopt" | "modelopt_fp4", _) => match algorithm.as_str() {
            "fp8" => Some(Dtype::Fp8),
            "nvfp4" => Some(Dtype::Fp4),
            _ => None,
        },
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
            "Weights are quantised ({method}): read as {dtype}, with scales and what is left out of the \
             quantisation not counted apart."
        ),
        None => format!(
            "The quantisation {method:?} is not understood: weights are counted as if there were \
             none (model.llm.weight_dtype)."
        ),
    });
    dtype
}

/// Data type in which compressed-tensors stores weights, if its groups agree.
fn group_dtype(section: &Keys<'_>) -> Option<Dtype> {
    let mut found = None;
    for group in section.map.get("config_groups")?.as_object()?.values() {
        let weights = group.get("weights")?;
        let is_float = weights.get("type").and_then(Value::as_str) == Some("float");
        let dtype = match (weights.get("num_bits")?.as_u64()?, is_float) {
            (4, false) => Dtype::Int4,
            (4, true) => Dtype::Fp4,
            (8, false) => Dtype::Int8,
            (8, true) => Dtype::Fp8,
            _ => return None,
        };
        if *found.get_or_insert(dtype) != dtype {
            return None;
        }
    }
    found
}

/// The window and the number of layers that have it.
fn sliding(keys: &Keys<'_>, kind: &str, layers: u64) -> Result<(Option<u64>, u64), Problem> {
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
    let asked = keys.flag("use_sliding_window") == Some(true);
    let sliding = if !by_layer.is_empty() {
        let sliding = known_layers(&by_layer)?;
        if by_layer.len() as u64 != layers {
            return Err(Problem::Wrong {
                key: keys.path("layer_types"),
                found: format!("{} entries", by_layer.len()),
                expected: format!("one for each of {layers} layers"),
            });
        }
        sliding
    } else if kind.starts_with("qwen") {
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
    Ok((Some(window).filter(|_| sliding > 0), sliding))
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

fn moe(keys: &Keys<'_>, kind: &str, layers: u64, mlp: &Mlp) -> Result<Option<Moe>, Problem> {
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

/// A plain vision transformer; none, with an assumption, where the encoder is something else.
fn plain_vision(top: &Map<String, Value>, assumptions: &mut Vec<String>) -> Option<Vision> {
    let section = top.get("vision_config")?.as_object()?;
    let keys = Keys::new(section, "vision_config");
    let plain = || {
        Ok::<_, Problem>(Vision {
            hidden_size: keys.need(&["hidden_size", "embed_dim", "width"])?,
            num_hidden_layers: keys.need(&["num_hidden_layers", "depth", "layers"])?,
            intermediate_size: keys.need(&["intermediate_size"])?,
            image_size: keys.need(&["image_size", "img_size"])?,
            patch_size: keys.need(&["patch_size"])?,
        })
    };
    let vision = plain().ok().filter(|vision| vision.check().is_ok());
    if vision.is_none() {
        assumptions.push(
            "The vision encoder is not a plain vision transformer of a fixed size: its FLOPs are not \
             counted (model.llm.vision_flops_per_prefill gives them)."
                .to_owned(),
        );
    }
    vision
}

/// Sizes of DeepSeek-OCR's encoder that are not keys of its `config.json`: its code fixes them.
const PATCH_SIZE: u64 = 16;
const WINDOW_SIZE: u64 = 14;
const NECK_CHANNELS: u64 = 256;
const MLP_RATIO: u64 = 4;
const CROP_SIZE: u64 = 640;

/// SAM, CLIP and a linear projector, as DeepSeek-OCR names them; none: another encoder, or a size is
/// missing.
fn vision_parts(top: &Map<String, Value>, assumptions: &mut Vec<String>) -> Option<VisionParts> {
    let section = top.get("vision_config")?.as_object()?;
    let whole = Keys::new(section, "vision_config");
    let widths = section.get("width")?.as_object()?;
    let part = |name: &'static str| Some(Keys::new(widths.get(name)?.as_object()?, name));
    let (sam, clip) = (part("sam_vit_b")?, part("clip-l-14-224")?);
    let projector = Keys::new(top.get("projector_config")?.as_object()?, "projector_config");
    if projector.text("projector_type").as_deref() != Some("linear") {
        return None;
    }
    let size = |keys: &Keys<'_>, name: &str| keys.size(&[name]).ok().flatten();
    let (sam_width, clip_width) = (size(&sam, "width")?, size(&clip, "width")?);
    let parts = VisionParts {
        image_size: size(&whole, "image_size")?,
        crop_size: Some(CROP_SIZE),
        sam: Sam {
            hidden_size: sam_width,
            num_hidden_layers: size(&sam, "layers")?,
            intermediate_size: sam_width.saturating_mul(MLP_RATIO),
            patch_size: PATCH_SIZE,
            window_size: WINDOW_SIZE,
            num_global_layers: sam.numbers("global_attn_indexes").ok()?.len() as u64,
            neck_channels: NECK_CHANNELS,
            downsample_channels: sam.numbers("downsample_channels").ok()?,
        },
        clip: Clip {
            hidden_size: clip_width,
            num_hidden_layers: size(&clip, "layers")?,
            intermediate_size: clip_width.saturating_mul(MLP_RATIO),
        },
        projector: Projector {
            input_size: size(&projector, "input_dim")?,
            output_size: size(&projector, "n_embed")?,
        },
    };
    parts.check().ok()?;
    assumptions.push(format!(
        "The vision encoder is DeepSeek-OCR's: patches of {PATCH_SIZE} and crops of {CROP_SIZE} \
         pixels, windows of {WINDOW_SIZE} patches, a neck of {NECK_CHANNELS} channels and MLPs of \
         {MLP_RATIO} times the width are not in config.json, and are taken from its code."
    ));
    Some(parts)
}

/// What is wrong with a `config.json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("cannot be read ({0}); give the path of a model's config.json, or of its folder")]
    Unreadable(String),
    #[error("is not a JSON object ({0}); give the path of a model's config.json")]
    NotJson(String),
    #[error("has no key {0}; add it, or give the sizes in model.llm.shape")]
    Missing(String),
    #[error("{key} is {found}, but {expected} is expected; correct it, or give model.llm.shape")]
    Wrong {
        key: String,
        /// What stands there, shortened.
        found: String,
        expected: String,
    },
    #[error("{0} cannot be modelled; leave model.llm at none, or give model.llm.shape")]
    NotModelled(String),
}

const SHOWN: usize = 40;

pub(super) struct Keys<'a> {
    map: &'a Map<String, Value>,
    section: &'a str,
}

impl<'a> Keys<'a> {
    pub(super) fn new(map: &'a Map<String, Value>, section: &'a str) -> Keys<'a> {
        Keys { map, section }
    }

    /// The key with its section.
    pub(super) fn path(&self, key: &str) -> String {
        match self.section {
            "" => key.to_owned(),
            section => format!("{section}.{key}"),
        }
    }

    /// The value of the first of the keys that is there and not null.
    fn first(&self, names: &[&str]) -> Option<(String, &'a Value)> {
        names.iter().find_map(|name| {
            let value = self.map.get(*name).filter(|value| !value.is_null())?;
            Some((self.path(name), value))
        })
    }

    fn wrong(&self, key: String, value: &Value, expected: &str) -> Problem {
        let found = shorten(&visible(value.to_string().as_bytes()), SHOWN);
        Problem::Wrong { key, found, expected: expected.to_owned() }
    }

    /// A whole number that is not negative; none where no key is there.
    pub(super) fn size(&self, names: &[&str]) -> Result<Option<u64>, Problem> {
        let Some((key, value)) = self.first(names) else { return Ok(None) };
        match whole(value) {
            Some(size) => Ok(Some(size)),
            None => Err(self.wrong(key, value, "a whole number")),
        }
    }

    pub(super) fn need(&self, names: &[&str]) -> Result<u64, Problem> {
        let missing = || Problem::Missing(self.path(names.first().unwrap_or(&"")));
        self.size(names)?.ok_or_else(missing)
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.map.get(name)?.as_bool()
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        Some(self.map.get(name)?.as_str()?.to_owned())
    }

    pub(super) fn list(&self, name: &str) -> Option<&'a Vec<Value>> {
        self.map.get(name)?.as_array()
    }

    /// A list of words; empty where there is none.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<&'a str>, Problem> {
        self.items(name, "a list of words", Value::as_str)
    }

    /// A list of whole numbers; empty where there is none.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<u64>, Problem> {
        self.items(name, "a list of whole numbers", whole)
    }

    fn items<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, Problem> {
        let Some((key, value)) = self.first(&[name]) else { return Ok(Vec::new()) };
        let items = value.as_array().and_then(|items| items.iter().map(read).collect());
        items.ok_or_else(|| self.wrong(key, value, expected))
    }

    pub(super) fn section(&self, name: &'a str) -> Option<Keys<'a>> {
        Some(Keys::new(self.map.get(name)?.as_object()?, name))
    }
}

/// A whole number, also when it is written with a fraction of zero.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..1e15).contains(f))?;
        Some(float as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::flops::tests::{active_parameters, parameters};
    use crate::llm::preset::built_in_shape;

    fn shape(json: &str) -> Shape {
        let shape = from_json(json).expect(json).shape;
        shape.check().expect(json);
        shape
    }

    fn problem(json: &str) -> String {
        from_json(json).expect_err(json).to_string()
    }

    const LLAMA_3_8B: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "rope_theta": 500000.0}"#;

    const DEEPSEEK_OCR: &str = r#"{"model_type": "DeepseekOCR", "torch_dtype": "bfloat16",
    "language_config": {"model_type": "deepseek_v2", "hidden_size": 1280,
        "intermediate_size": 6848, "moe_intermediate_size": 896, "first_k_dense_replace": 1,
        "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
        "num_attention_heads": 10, "num_key_value_heads": 10, "num_hidden_layers": 12,
        "use_mla": false, "kv_lora_rank": null, "q_lora_rank": null, "qk_nope_head_dim": 0,
        "qk_rope_head_dim": 0, "v_head_dim": 0, "vocab_size": 129280},
    "hidden_size": 1280, "vocab_size": 129280,
    "projector_config": {"input_dim": 2048, "n_embed": 1280, "projector_type": "linear"},
    "vision_config": {"image_size": 1024, "mlp_ratio": 3.7362,
        "width": {"clip-l-14-224": {"heads": 16, "layers": 24, "width": 1024},
            "sam_vit_b": {"downsample_channels": [512, 1024], "heads": 12, "layers": 12,
                "global_attn_indexes": [2, 5, 8, 11], "width": 768}}}}"#;

    const DEEPSEEK_V3: &str = r#"{"model_type": "deepseek_v3", "hidden_size": 7168,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
    "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "num_attention_heads": 128, "num_key_value_heads": 128,
    "num_hidden_layers": 61, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}, "torch_dtype": "bfloat16"}"#;

    #[test]
    fn quantisation_says_what_weights_are_stored_in() {
        let group = |bits: u8, kind: &str| {
            format!(r#"{{"weights": {{"num_bits": {bits}, "type": "{kind}"}}}}"#)
        };
        let groups = |one: String, other: String| {
            let groups = format!(r#"{{"group_0": {one}, "group_1": {other}}}"#);
            format!(r#"{{"quant_method": "compressed-tensors", "config_groups": {groups}}}"#)
        };
        for (quantization, dtype) in [
            (r#"{"quant_method": "awq", "bits": 4}"#.to_owned(), Some(Dtype::Int4)),
            (r#"{"quant_method": "gptq", "bits": 8}"#.to_owned(), Some(Dtype::Int8)),
            (
                r#"{"quant_method": "bitsandbytes", "load_in_4bit": true}"#.to_owned(),
                Some(Dtype::Int4),
            ),
            (r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#.to_owned(), Some(Dtype::Fp4)),
            (groups(group(8, "float"), group(8, "float")), Some(Dtype::Fp8)),
            (groups(group(4, "int"), group(4, "int")), Some(Dtype::Int4)),
            (groups(group(4, "int"), group(8, "int")), None),
            (groups(group(4, "int"), "{}".to_owned()), None),
            (r#"{"quant_method": "compressed-tensors", "config_groups": 7}"#.to_owned(), None),
        ] {
            let with = format!(r#""model_type": "llama", "quantization_config": {quantization}"#);
            let json = LLAMA_3_8B.replace(r#""model_type": "llama""#, &with);
            let read = from_json(&json).expect(&json);
            assert_eq!((read.weight_dtype, read.assumptions.len()), (dtype, 1), "{quantization}");
        }
    }

    #[test]
    fn files_give_the_shapes_of_the_presets() {
        assert_eq!(shape(LLAMA_3_8B), built_in_shape("llama_3_8b"));
        assert_eq!(shape(DEEPSEEK_OCR), built_in_shape("deepseek_ocr"));
        assert_eq!(shape(DEEPSEEK_V3), built_in_shape("deepseek_v3"));
        let mixtral = r#"{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
        "sliding_window": null}"#;
        assert_eq!(shape(mixtral), built_in_shape("mixtral_8x7b"));

        let ocr = from_json(DEEPSEEK_OCR).expect("fine");
        assert_eq!((ocr.dtype, ocr.weight_dtype), (Some(Dtype::Bf16), None));
        assert_eq!(ocr.name.as_deref(), Some("deepseek_v2"));
        assert!(ocr.assumptions[0].contains("windows of 14 patches"), "{:?}", ocr.assumptions);
        for (from, to) in [
            ("\"linear\"", "\"mlp_gelu\""),
            ("[512, 1024]", "\"many\""),
            ("\"layers\": 24", "\"layers\": 0"),
            ("sam_vit_b", "sam_vit_x"),
        ] {
            let json = DEEPSEEK_OCR.replace(from, to);
            assert_ne!(json, DEEPSEEK_OCR);
            let other = from_json(&json).expect("the language model is fine");
            assert_eq!(other.shape.vision_parts, None, "{to}");
            assert!(other.assumptions[0].contains("not a plain vision"), "{:?}", other.assumptions);
        }
        let v3 = from_json(DEEPSEEK_V3).expect("fine");
        assert_eq!((v3.dtype, v3.weight_dtype), (Some(Dtype::Bf16), Some(Dtype::Fp8)));
    }

    #[test]
    fn mlps_have_two_projections_or_three() {
        let parameters = |json: &str| parameters(&shape(json));
        // Gate, up and down: 32 layers of 4*2560^2 + 3*2560*6912, and 2*50304*2560. StableLM 3B.
        for kind in ["stablelm_epoch", "stablelm"] {
            let json = format!(
                r#"{{"model_type": "{kind}", "hidden_size": 2560, "intermediate_size": 6912,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
            "vocab_size": 50304, "tie_word_embeddings": false}}"#
            );
            assert_eq!(parameters(&json), 2_795_110_400.0, "{kind}");
        }
        // Up and down around xIELU: 32 layers of 2*4096^2 + 2*4096*1024 + 2*4096*21504, and
        // 2*131072*4096. Apertus 8B.
        let apertus = r#"{"model_type": "apertus", "hidden_size": 4096, "intermediate_size": 21504,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 131072, "tie_word_embeddings": false}"#;
        assert_eq!(parameters(apertus), 8_053_063_680.0);
    }

    #[test]
    fn families_differ_in_what_they_leave_out() {
        // Qwen1.5-MoE-A2.7B: 14.3 billion parameters, 2.7 active.
        let qwen = shape(
            r#"{"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
        "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 24,
        "sliding_window": 32768, "use_sliding_window": false, "vocab_size": 151936}"#,
        );
        let moe = qwen.moe.as_ref().expect("MoE");
        assert_eq!((moe.num_moe_layers, moe.shared_expert_gate), (24, true));
        assert_eq!((qwen.attention.sliding_window, qwen.attention.num_sliding_layers), (None, 0));
        let (all, active) = (parameters(&qwen), active_parameters(&qwen));
        assert!((all / 14.3e9 - 1.0).abs() < 0.01, "{all}");
        assert!((active / 2.7e9 - 1.0).abs() < 0.02, "{active}");

        // GPT-2: 124 million, tied, two projections, a width that is not given.
        let gpt2 = shape(
            r#"{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": null,
        "vocab_size": 50257}"#,
        );
        assert_eq!((gpt2.mlp.intermediate_size, gpt2.mlp.gated), (3072, false));
        assert!(gpt2.tie_word_embeddings);
        assert!((parameters(&gpt2) / 123.5e6 - 1.0).abs() < 0.01);

        let mistral = shape(
            r#"{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "sliding_window": 4096, "vocab_size": 32000}"#,
        );
        assert_eq!(mistral.attention.sliding_window, Some(4096));
        assert_eq!(mistral.attention.num_sliding_layers, 32);

        let layered = shape(
            r#"{"model_type": "gpt_oss", "hidden_size": 64, "intermediate_size": 64, "head_dim": 64,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "vocab_size": 100, "quantization_config": {"quant_method": "mxfp4"}}"#,
        );
        assert_eq!(layered.attention.num_sliding_layers, 2);
        assert_eq!(layered.attention.head_dim, 64);

        let sparse = shape(
            r#"{"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 64,
        "moe_intermediate_size": 16, "num_experts": 8, "num_experts_per_tok": 2,
        "decoder_sparse_step": 2, "mlp_only_layers": [3], "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100}"#,
        );
        assert_eq!(sparse.moe.expect("MoE").num_moe_layers, 2, "layers 1 and 5 of 0 to 5");

        let llava = from_json(
            r#"{"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 64,
        "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 100}, "vision_config": {"hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 24, "image_size": 336, "patch_size": 14}}"#,
        )
        .expect("fine");
        assert_eq!(llava.shape.vision.expect("plain").image_size, 336);
        assert_eq!(llava.assumptions, Vec::<String>::new());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (from, to, part) in [
            (r#""hidden_size": 4096,"#, "", "no key hidden_size"),
            (r#""vocab_size": 128256"#, r#""vocab_size": "many""#, "vocab_size is \"many\""),
            (r#""num_hidden_layers": 32"#, r#""num_hidden_layers": -1"#, "num_hidden_layers is -1"),
            (r#""num_hidden_layers": 32"#, r#""num_hidden_layers": 1.5"#, "whole number"),
            (r#""intermediate_size": 14336,"#, "", "no key intermediate_size"),
            (r#""num_attention_heads": 32"#, r#""num_attention_heads": 33"#, "a divisor of hidden"),
            (r#""num_attention_heads": 32"#, r#""num_attention_heads": 0"#, "a divisor of hidden"),
            (r#""model_type": "llama""#, r#""model_type": "mamba2""#, "cannot be modelled"),
            (r#""model_type": "llama""#, r#""is_encoder_decoder": true"#, "encoder-decoder"),
            (
                r#""model_type": "llama""#,
                r#""layer_types": ["linear_attention"]"#,
                "linear_attention",
            ),
        ] {
            let json = LLAMA_3_8B.replace(from, to);
            assert_ne!(json, LLAMA_3_8B);
            let text = problem(&json);
            assert!(text.contains(part), "{part}: {text}");
        }
        let nested = DEEPSEEK_OCR.replace(r#""n_routed_experts": 64"#, r#""n_routed_experts": []"#);
        assert!(
            problem(&nested).contains("language_config.n_routed_experts"),
            "{}",
            problem(&nested)
        );
        for json in ["", "[]", "{", "null"] {
            assert!(problem(json).contains("JSON"), "{json}");
        }
    }

    #[test]
    fn files_are_read_by_path_or_folder_and_named_in_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = read(folder.path()).expect_err("no file yet").to_string();
        assert!(error.contains("config.json") && error.contains("cannot be read"), "{error}");
        let file = folder.path().join("config.json");
        std::fs::write(&file, LLAMA_3_8B).expect("written");
        assert_eq!(read(folder.path()).expect("fine"), read(&file).expect("fine"));
        std::fs::write(&file, [0xff, 0xfe]).expect("written");
        assert!(read(&file).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_sizes_bring_the_reader_down(
            a in proptest::prelude::any::<u64>(), b in 0u64..70, key in 0usize..14,
        ) {
            let keys = [
                "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                "n_routed_experts", "n_shared_experts", "first_k_dense_replace", "kv_lora_rank",
                "qk_rope_head_dim", "moe_intermediate_size", "vocab_size", "num_experts_per_tok",
                "moe_layer_freq", "intermediate_size",
            ];
            let mut json: Value = serde_json::from_str(DEEPSEEK_V3).expect("JSON");
            json[keys[key]] = a.into();
            json[keys[(key + 1) % keys.len()]] = b.into();
            if let Ok(read) = from_json(&json.to_string())
                && read.shape.check().is_ok()
            {
                let flops = crate::llm::flops::prefill(&read.shape, 1e6, 1 << 30, Default::default());
                proptest::prop_assert!(flops.is_finite());
            }
        }
    }
}
