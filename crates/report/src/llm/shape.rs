//! Sizes of a decoder-only transformer -> a checked [`Shape`], or an error that names the size.
//!
//! Field names are those of Hugging Face's `config.json` where it has one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The sizes that FLOPs and bytes follow from; `shape` of conf/model/llm, one to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Width of the residual stream.
    pub hidden_size: u64,
    pub num_hidden_layers: u64,
    /// Rows of the embedding and of the output projection.
    pub vocab_size: u64,
    #[serde(default)]
    pub tie_word_embeddings: bool,
    pub attention: Attention,
    /// MLP of the dense layers.
    pub mlp: Mlp,
    pub moe: Option<Moe>,
    /// The vision encoder, if it is a plain vision transformer.
    pub vision: Option<Vision>,
    /// The vision encoder, if it is one of several parts, as that of DeepSeek-OCR.
    pub vision_parts: Option<VisionParts>,
}

/// Attention of every layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    pub num_attention_heads: u64,
    /// Key and value heads; fewer than query heads in grouped-query attention.
    pub num_key_value_heads: u64,
    pub head_dim: u64,
    /// Tokens that a windowed layer looks back on, itself included.
    pub sliding_window: Option<u64>,
    /// Layers with that window; the others see the whole context.
    #[serde(default)]
    pub num_sliding_layers: u64,
    /// Latent attention (DeepSeek's MLA) in place of key and value heads.
    pub mla: Option<Mla>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mla {
    /// Rank of the query projection; null: not factored.
    pub q_lora_rank: Option<u64>,
    /// Width of the latent that keys and values share.
    pub kv_lora_rank: u64,
    /// Width of a head's part without positions.
    pub qk_nope_head_dim: u64,
    /// Width of a head's part with rotary positions; its key is shared by all heads.
    pub qk_rope_head_dim: u64,
    /// Width of a head's value.
    pub v_head_dim: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mlp {
    /// Width between its projections.
    pub intermediate_size: u64,
    /// Three projections (gate, up, down) instead of two; experts alike.
    pub gated: bool,
}

/// Mixture of experts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moe {
    pub num_experts: u64,
    /// Routed experts that a token goes through.
    pub num_experts_per_tok: u64,
    /// Width of one routed expert.
    pub moe_intermediate_size: u64,
    /// Width of all shared experts of a layer together; 0: none.
    #[serde(default)]
    pub shared_intermediate_size: u64,
    /// A one-column projection scales the shared expert.
    #[serde(default)]
    pub shared_expert_gate: bool,
    /// Layers with experts; the others are dense.
    pub num_moe_layers: u64,
}

/// A plain vision transformer in front of the language model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vision {
    /// Width of its residual stream.
    pub hidden_size: u64,
    pub num_hidden_layers: u64,
    /// Width of its MLP, of two projections.
    pub intermediate_size: u64,
    /// Edge of the square input, pixels.
    pub image_size: u64,
    /// Edge of a patch, pixels.
    pub patch_size: u64,
}

/// SAM's vision transformer, CLIP's behind it, and a projector: the encoder of DeepSeek-OCR. What is
/// computed of them stands in [`super::flops`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VisionParts {
    /// Edge of the square view of a whole image, pixels.
    pub image_size: u64,
    /// Edge of the square view of a crop, pixels; null: images are not cropped.
    pub crop_size: Option<u64>,
    pub sam: Sam,
    pub clip: Clip,
    /// Sees the features of both, side by side.
    pub projector: Projector,
}

/// SAM's vision transformer with its neck and the convolutions behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sam {
    /// Width of its residual stream.
    pub hidden_size: u64,
    pub num_hidden_layers: u64,
    /// Width of its MLP, of two projections.
    pub intermediate_size: u64,
    /// Edge of a patch, pixels.
    pub patch_size: u64,
    /// Edge of an attention window, patches.
    pub window_size: u64,
    /// Layers in which every patch sees every other; the others see their window.
    pub num_global_layers: u64,
    pub neck_channels: u64,
    /// Channels behind each of the convolutions of stride 2 that follow the neck.
    pub downsample_channels: Vec<u64>,
}

/// CLIP's vision transformer, without its patch embedding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Width of its residual stream.
    pub hidden_size: u64,
    pub num_hidden_layers: u64,
    /// Width of its MLP, of two projections.
    pub intermediate_size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Projector {
    /// Width of what goes in.
    pub input_size: u64,
    /// Width of what comes out: that of the language model.
    pub output_size: u64,
}

/// A size that no model has, or that contradicts another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A size outside of what can be.
    #[error("{key}={value} is out of range ({least} to {most}); correct the model's shape")]
    OutOfRange {
        /// The size, with the sections that it stands in.
        key: String,
        value: u64,
        least: u64,
        most: u64,
    },
    /// Two sizes that cannot both be.
    #[error("{0}; correct the model's shape")]
    Contradiction(String),
}

/// Widths and vocabularies are accepted up to this: products of all sizes stay far from overflow.
pub(super) const MAX_SIZE: u64 = 1 << 24;
pub(super) const MAX_LAYERS: u64 = 1 << 14;
pub(super) const MAX_EXPERTS: u64 = 1 << 20;

const MAY_BE_ZERO: [&str; 6] = [
    "num_sliding_layers",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "shared_intermediate_size",
    "num_moe_layers",
    "num_global_layers",
];

impl Shape {
    /// Checks all sizes.
    ///
    /// # Errors
    /// The first size that is out of range or contradicts another.
    pub fn check(&self) -> Result<(), ShapeError> {
        check_sizes(self)?;
        let (a, layers) = (&self.attention, self.num_hidden_layers);
        within("attention.num_key_value_heads", a.num_key_value_heads, 1, a.num_attention_heads)?;
        within("attention.num_sliding_layers", a.num_sliding_layers, 0, layers)?;
        if a.sliding_window.is_none() && a.num_sliding_layers > 0 {
            let windowed = a.num_sliding_layers;
            let what = format!("num_sliding_layers={windowed}, but no sliding_window");
            return Err(ShapeError::Contradiction(what));
        }
        if let Some(mla) = &a.mla
            && mla.qk_nope_head_dim + mla.qk_rope_head_dim == 0
        {
            let what = "qk_nope_head_dim and qk_rope_head_dim are both 0".to_owned();
            return Err(ShapeError::Contradiction(what));
        }
        if let Some(moe) = &self.moe {
            within("moe.num_experts_per_tok", moe.num_experts_per_tok, 1, moe.num_experts)?;
            within("moe.num_moe_layers", moe.num_moe_layers, 0, layers)?;
        }
        self.vision.as_ref().map_or(Ok(()), Vision::check)?;
        self.vision_parts.as_ref().map_or(Ok(()), VisionParts::check)
    }

    pub fn moe_layers(&self) -> u64 {
        self.moe.as_ref().map_or(0, |moe| moe.num_moe_layers)
    }
}

impl Vision {
    pub(super) fn check(&self) -> Result<(), ShapeError> {
        check_sizes(self)?;
        within("vision.patch_size", self.patch_size, 1, self.image_size)
    }
}

impl VisionParts {
    pub(super) fn check(&self) -> Result<(), ShapeError> {
        check_sizes(self)?;
        let (sam, layers) = (&self.sam, self.sam.num_hidden_layers);
        let smallest = self.image_size.min(self.crop_size.unwrap_or(MAX_SIZE));
        within("vision_parts.sam.patch_size", sam.patch_size, 1, smallest)?;
        within("vision_parts.sam.num_global_layers", sam.num_global_layers, 0, layers)
    }
}

/// Checks every size by itself, by the name that it has in a preset.
fn check_sizes(part: &impl Serialize) -> Result<(), ShapeError> {
    // Sizes and flags have a form in JSON, whatever they are.
    check_value("", &serde_json::to_value(part).unwrap_or_default())
}

fn check_value(path: &str, value: &Value) -> Result<(), ShapeError> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| match path {
            "" => check_value(key, value),
            _ => check_value(&format!("{path}.{key}"), value),
        }),
        Value::Array(items) => items.iter().try_for_each(|item| check_value(path, item)),
        Value::Number(number) => {
            let key = path.rsplit('.').next().unwrap_or(path);
            let least = if MAY_BE_ZERO.contains(&key) { 0 } else { 1 };
            let most = match key {
                "num_hidden_layers" => MAX_LAYERS,
                "num_experts" | "num_experts_per_tok" => MAX_EXPERTS,
                "sliding_window" => u64::MAX,
                _ => MAX_SIZE,
            };
            within(path, number.as_u64().unwrap_or(u64::MAX), least, most)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

fn within(key: &str, value: u64, least: u64, most: u64) -> Result<(), ShapeError> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(ShapeError::OutOfRange { key: key.to_owned(), value, least, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::preset::built_in_shape;
    use super::*;

    #[test]
    fn sizes_out_of_range_are_named() {
        let good = built_in_shape("deepseek_v3");
        assert_eq!(good.check(), Ok(()));
        type Spoil = fn(&mut Shape);
        let cases: [(&str, Spoil); 10] = [
            ("hidden_size", |s| s.hidden_size = 0),
            ("vocab_size", |s| s.vocab_size = u64::MAX),
            ("num_hidden_layers", |s| s.num_hidden_layers = 1 << 40),
            ("num_key_value_heads", |s| s.attention.num_key_value_heads = 129),
            ("num_sliding_layers", |s| s.attention.num_sliding_layers = 1),
            ("kv_lora_rank", |s| s.attention.mla.as_mut().expect("MLA").kv_lora_rank = 0),
            ("num_experts_per_tok", |s| s.moe.as_mut().expect("MoE").num_experts_per_tok = 257),
            ("num_moe_layers", |s| s.moe.as_mut().expect("MoE").num_moe_layers = 62),
            ("intermediate_size", |s| s.mlp.intermediate_size = 0),
            ("vision.patch_size", |s| {
                s.vision = Some(Vision {
                    hidden_size: 1,
                    num_hidden_layers: 1,
                    intermediate_size: 1,
                    image_size: 224,
                    patch_size: 0,
                })
            }),
        ];
        for (key, spoil) in cases {
            let mut shape = good.clone();
            spoil(&mut shape);
            let error = shape.check().expect_err(key).to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
        let parts = built_in_shape("deepseek_ocr").vision_parts.expect("parts");
        assert_eq!(parts.check(), Ok(()));
        type SpoilPart = fn(&mut VisionParts);
        let cases: [(&str, SpoilPart); 4] = [
            ("sam.patch_size", |p| p.sam.patch_size = 641),
            ("sam.num_global_layers", |p| p.sam.num_global_layers = 13),
            ("sam.downsample_channels", |p| p.sam.downsample_channels.push(0)),
            ("projector.input_size", |p| p.projector.input_size = u64::MAX),
        ];
        for (key, spoil) in cases {
            let mut spoilt = parts.clone();
            spoil(&mut spoilt);
            let error = spoilt.check().expect_err(key).to_string();
            assert!(error.contains(key), "{key}: {error}");
        }
    }
}
