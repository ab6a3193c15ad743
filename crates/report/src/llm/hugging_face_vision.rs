//! The vision encoder of a `config.json` -> its sizes, where its FLOPs can be computed from them.

use serde_json::{Map, Value};

use super::keys::Keys;
use super::shape::{Clip, Projector, Sam, Vision, VisionParts};

/// A plain vision transformer; none, with an assumption, where the encoder is something else.
pub(super) fn plain_vision(
    top: &Map<String, Value>,
    assumptions: &mut Vec<String>,
) -> Option<Vision> {
    let section = top.get("vision_config")?.as_object()?;
    let keys = Keys::new(section, "vision_config");
    let size = |names: &[&str]| keys.size(names).ok().flatten();
    let plain = || {
        let vision = Vision {
            hidden_size: size(&["hidden_size", "embed_dim", "width"])?,
            num_hidden_layers: size(&["num_hidden_layers", "depth", "layers"])?,
            intermediate_size: size(&["intermediate_size"])?,
            image_size: size(&["image_size", "img_size"])?,
            patch_size: size(&["patch_size"])?,
        };
        vision.check().is_ok().then_some(vision)
    };
    let vision = plain();
    if vision.is_none() {
        assumptions.push(
            "The vision encoder is no plain vision transformer of a fixed size: its FLOPs are not \
             counted (model.llm.vision_flops_per_prefill gives them)."
                .to_owned(),
        );
    }
    vision
}

/// Sizes of DeepSeek-OCR's encoder that are no keys of its `config.json`: its code fixes them.
const PATCH_SIZE: u64 = 16;
const WINDOW_SIZE: u64 = 14;
const NECK_CHANNELS: u64 = 256;
const MLP_RATIO: u64 = 4;
const CROP_SIZE: u64 = 640;

/// SAM, CLIP and a linear projector, as DeepSeek-OCR names them; none: another encoder, or a size is
/// missing.
pub(super) fn vision_parts(
    top: &Map<String, Value>,
    assumptions: &mut Vec<String>,
) -> Option<VisionParts> {
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
         {MLP_RATIO} times the width are no keys of config.json, and taken from its code."
    ));
    Some(parts)
}
