//! A vision encoder's sizes, images and crops -> the floating-point operations of its parts.
//!
//! As in [`super::flops`], a multiplication and an addition are two operations, and only matrix
//! products and convolutions are counted. With `d` the width, `f` the width of the MLP, `L` layers and
//! `n` tokens, in multiply-adds:
//!
//! **SAM's ViT** (published with Segment Anything; ViT-B is `d=768, L=12, f=3072`), for a square view
//! of `n = e^2` patches of `p` pixels: `n * 3 * p^2 * d` for the patch embedding, `L * n * 2 * d * f` for
//! MLPs. A layer of global attention has `4 * d^2 * n` for queries, keys, values and output, `2 * n^2 * d`
//! for scores and weighted values, and `n * 2e * d` for decomposed relative positions; a layer of windows
//! the same for each of its `ceil(e / w)^2` windows of `w^2` patches. The patches that pad the last
//! windows are computed, and counted. The neck to `c` channels (1x1, then 3x3) has `n * d * c` and
//! `n * 9 * c^2`, each convolution behind it (3x3, stride 2) `ceil(e / 2)^2 * 9 * c_in * c_out`.
//!
//! **CLIP's ViT** (CLIP-L is `d=1024, L=24, f=4096`) over what SAM leaves, with a class token, so
//! `n + 1` tokens and no patch embedding. **Projector**: one linear layer.
//!
//! An image is one view of the whole image and the crops of it, each a view of its own.

use super::shape::{Clip, Sam, Vision, VisionParts};
use stage2_model::TokenCounts;
use stage2_read::roles::VisionPart;

/// One image, as a view of the whole and `crops` of it, through a part of the encoder.
pub fn of_image(shape: &VisionParts, part: VisionPart, crops: u64) -> f64 {
    let of_crop = shape.crop_size.map_or(0.0, |edge| of_view(shape, part, edge));
    of_view(shape, part, shape.image_size) + crops as f64 * of_crop
}

/// What the computed numbers take for granted, in a line; nothing where the crops are not known, for
/// then there are no such numbers.
pub fn assumption(shape: &VisionParts, tokens: &TokenCounts) -> Option<String> {
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

/// One square view of `edge` pixels.
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

/// Layers of a plain vision transformer.
fn transformer(width: u64, layers: u64, mlp_width: u64, tokens: f64) -> f64 {
    let d = width as f64;
    let of_token = 4.0 * d * d + 2.0 * d * mlp_width as f64 + 2.0 * tokens * d;
    layers as f64 * tokens * of_token
}

/// One image through a plain vision transformer: its patches and one class token, every one seeing
/// every other; with the patch embedding, without the projector into the language model.
pub fn plain(shape: &Vision) -> f64 {
    let edge = (shape.image_size / shape.patch_size.max(1)) as f64;
    let patches = edge * edge;
    let Vision { hidden_size: width, num_hidden_layers: layers, .. } = *shape;
    let embedding = patches * 3.0 * (shape.patch_size as f64).powi(2) * width as f64;
    2.0 * (embedding + transformer(width, layers, shape.intermediate_size, patches + 1.0))
}

#[cfg(test)]
mod tests {
    use super::super::preset::built_in_shape;
    use super::*;

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
        assert_eq!(of_image(&ocr(), VisionPart::Sam, 0), by_hand as f64);
        // 257 tokens, 24 layers: 12 x 1024^2 each, and 2 x 257 x 1024 for scores and values.
        let clip = 2u64 * 24 * 257 * (12 * 1024 * 1024 + 2 * 257 * 1024);
        assert_eq!(clip, 161_715_683_328);
        assert_eq!(of_image(&ocr(), VisionPart::Clip, 0), clip as f64);
        assert_eq!(of_image(&ocr(), VisionPart::Projector, 0), (2u64 * 256 * 2048 * 1280) as f64);
        let whole = (by_hand + clip + 2 * 256 * 2048 * 1280) as f64;
        assert_eq!(of_image(&ocr(), VisionPart::Whole, 0), whole);
    }

    /// 640 x 640: 40 x 40 patches, 3 x 3 windows, 10 x 10 tokens. The sums are from a script that adds
    /// up layer by layer.
    #[test]
    fn crops_are_views_of_their_own() {
        let of = |part, crops| of_image(&ocr(), part, crops) - of_image(&ocr(), part, 0);
        assert_eq!(of(VisionPart::Sam, 1), 325_620_793_344.0);
        assert_eq!(of(VisionPart::Sam, 6), 6.0 * 325_620_793_344.0);
        assert_eq!(of(VisionPart::Clip, 1), 62_004_756_480.0);
        assert_eq!(of(VisionPart::Projector, 2), 2.0 * 524_288_000.0);
        let without = VisionParts { crop_size: None, ..ocr() };
        assert_eq!(of_image(&without, VisionPart::Sam, 6), of_image(&ocr(), VisionPart::Sam, 0));
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
        let giga = plain(&vit) / 1e9;
        assert!((155.0..170.0).contains(&giga), "{giga}");
    }
}
