//! A preset of conf/model/llm -> the [`Model`] that FLOPs and bytes are computed for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::flops::{LmHead, StoredWeights};
use super::hugging_face::{self, HuggingFace, HuggingFaceError};
use super::shape::{Shape, ShapeError};
use stage2_model::Dtype;
use stage2_read::roles::VisionPart;

/// A preset of conf/model/llm, one to one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPreset {
    /// Name for the reports.
    pub name: Option<String>,
    /// Size, fine-tune, weights.
    pub variant: Option<String>,
    /// What the GPU computes in; null: that of `config_json`.
    pub dtype: Option<Dtype>,
    /// What the weights are stored in, where that differs.
    pub weight_dtype: Option<Dtype>,
    /// What the KV cache is stored in; null: `dtype`.
    pub kv_cache_dtype: Option<Dtype>,
    /// A Hugging Face `config.json`, or the folder that holds it; used where `shape` is null.
    pub config_json: Option<PathBuf>,
    /// Whose logits prefill computes.
    #[serde(default)]
    pub lm_head_in_prefill: LmHead,
    /// FLOPs of the vision encoder for one prefill; null: the sum of its parts where all are given,
    /// else from `shape.vision` or `shape.vision_parts`.
    pub vision_flops_per_prefill: Option<f64>,
    /// FLOPs of its parts for one prefill.
    #[serde(default)]
    pub vision_part_flops_per_prefill: PartFlops,
    /// The sizes.
    pub shape: Option<Shape>,
}

/// FLOPs of a vision encoder's parts for one prefill; null: from `shape.vision_parts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartFlops {
    /// Of the stage `sam`.
    pub sam: Option<f64>,
    /// Of the stage `clip`.
    pub clip: Option<f64>,
    /// Of the stage `projector`.
    pub projector: Option<f64>,
}

impl PartFlops {
    /// Those of a part; the whole is known where all parts are.
    pub(super) fn of(&self, part: VisionPart) -> Option<f64> {
        match part {
            VisionPart::Sam => self.sam,
            VisionPart::Clip => self.clip,
            VisionPart::Projector => self.projector,
            VisionPart::Whole => Some(self.sam? + self.clip? + self.projector?),
        }
    }
}

/// A model whose FLOPs and bytes can be computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Name for the reports.
    pub name: String,
    /// Its sizes, checked.
    pub shape: Shape,
    /// What the GPU computes in.
    pub dtype: Dtype,
    /// What the weights are stored in.
    pub weight_dtype: Dtype,
    /// Sizes of the weights, if the model's file was read; otherwise they follow from
    /// `weight_dtype`.
    pub stored: Option<StoredWeights>,
    /// What the KV cache is stored in.
    pub kv_cache_dtype: Dtype,
    /// Whose logits prefill computes.
    pub lm_head_in_prefill: LmHead,
    /// FLOPs of the vision encoder for one prefill, where given.
    pub vision_flops_per_prefill: Option<f64>,
    /// FLOPs of its parts for one prefill, where given.
    pub vision_part_flops_per_prefill: PartFlops,
    /// What was taken for granted when the sizes were read, one line each.
    pub assumptions: Vec<String>,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// The sizes of the model with this name are wrong.
    #[error("model {0}: {1}")]
    Shape(String, ShapeError),
    /// The `config.json` gives none.
    #[error(transparent)]
    HuggingFace(#[from] HuggingFaceError),
    /// FLOPs that no encoder has.
    #[error("model {name}: {key}={value} is not a positive number; correct or remove it")]
    VisionFlops {
        /// Name of the model.
        name: String,
        /// Which.
        key: &'static str,
        /// What it is.
        value: f64,
    },
}

impl ModelPreset {
    /// The model; none where the preset names none.
    ///
    /// # Errors
    /// The sizes are wrong, or `config_json` cannot be read.
    pub fn model(&self) -> Result<Option<Model>, PresetError> {
        let read = match (&self.shape, &self.config_json) {
            (Some(shape), _) => HuggingFace::of(shape.clone()),
            (None, Some(path)) => hugging_face::read(path)?,
            (None, None) => return Ok(None),
        };
        let HuggingFace { shape, mut assumptions, .. } = read;
        let name = self.name.clone().or(read.name).unwrap_or_else(|| "unnamed".to_owned());
        if let Err(error) = shape.check() {
            return Err(PresetError::Shape(name, error));
        }
        let PartFlops { sam, clip, projector } = self.vision_part_flops_per_prefill;
        for (key, value) in [
            ("vision_flops_per_prefill", self.vision_flops_per_prefill),
            ("vision_part_flops_per_prefill.sam", sam),
            ("vision_part_flops_per_prefill.clip", clip),
            ("vision_part_flops_per_prefill.projector", projector),
        ] {
            if let Some(value) = value.filter(|v| !(v.is_finite() && *v > 0.0)) {
                return Err(PresetError::VisionFlops { name, key, value });
            }
        }
        let dtype = self.dtype.or(read.dtype).unwrap_or_else(|| {
            assumptions.push("No dtype is given: bf16 is assumed (model.llm.dtype).".to_owned());
            Dtype::Bf16
        });
        Ok(Some(Model {
            name,
            shape,
            dtype,
            weight_dtype: self.weight_dtype.or(read.weight_dtype).unwrap_or(dtype),
            stored: None,
            kv_cache_dtype: self.kv_cache_dtype.unwrap_or(dtype),
            lm_head_in_prefill: self.lm_head_in_prefill,
            vision_flops_per_prefill: self.vision_flops_per_prefill,
            vision_part_flops_per_prefill: self.vision_part_flops_per_prefill,
            assumptions,
        }))
    }
}

/// The sizes of a built-in preset.
#[cfg(test)]
pub(super) fn built_in_shape(preset: &str) -> Shape {
    built_in(preset).shape.expect("a preset with sizes")
}

/// A built-in preset.
#[cfg(test)]
pub(super) fn built_in(preset: &str) -> ModelPreset {
    let (_, text) = stage2_config::presets::group("model/llm")
        .find(|(name, _)| *name == preset)
        .expect("a built-in preset");
    serde_saphyr::from_str(text).expect(preset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_preset_is_a_whole_model() {
        let presets: Vec<_> = stage2_config::presets::group("model/llm").collect();
        assert!(presets.len() >= 8);
        for (file, text) in presets {
            let preset: ModelPreset = serde_saphyr::from_str(text).expect(file);
            if file == "none" {
                assert_eq!(preset, ModelPreset::default());
                assert!(preset.model().expect("no model").is_none());
                continue;
            }
            assert_eq!(preset.name.as_deref(), Some(file));
            let model = preset.model().expect(file).expect(file);
            assert!(model.assumptions.is_empty(), "{file}: {:?}", model.assumptions);
            // A floor is the least work: whoever wants all logits says so.
            assert_eq!(model.lm_head_in_prefill, LmHead::Last, "{file}");
            let a = &model.shape.attention;
            if a.mla.is_none() {
                assert_eq!(a.head_dim * a.num_attention_heads, model.shape.hidden_size, "{file}");
            }
        }
    }

    #[test]
    fn a_preset_with_wrong_sizes_is_an_error_that_names_them() {
        let mut preset = built_in("llama_1b_random");
        preset.shape.as_mut().expect("sizes").hidden_size = 0;
        let error = preset.model().expect_err("wrong").to_string();
        assert!(error.contains("llama_1b_random") && error.contains("hidden_size=0"), "{error}");
        let mut preset = built_in("llama_1b_random");
        preset.vision_flops_per_prefill = Some(f64::INFINITY);
        assert!(preset.model().expect_err("wrong").to_string().contains("vision_flops"));
        preset.vision_flops_per_prefill = None;
        preset.vision_part_flops_per_prefill.clip = Some(-1.0);
        let error = preset.model().expect_err("wrong").to_string();
        assert!(error.contains("vision_part_flops_per_prefill.clip=-1"), "{error}");
        let text = "name: x\nsize: 3\n";
        assert!(serde_saphyr::from_str::<ModelPreset>(text).is_err(), "unknown keys are errors");
    }

    #[test]
    fn weights_may_be_stored_in_less_than_is_computed_in() {
        let mut preset = built_in("llama_1b_random");
        preset.weight_dtype = Some(Dtype::Int4);
        let model = preset.model().expect("fine").expect("a model");
        assert_eq!((model.weight_dtype, model.kv_cache_dtype), (Dtype::Int4, Dtype::Bf16));
        preset.dtype = None;
        let model = preset.model().expect("fine").expect("a model");
        assert!(model.assumptions[0].contains("bf16"), "{:?}", model.assumptions);
    }
}
