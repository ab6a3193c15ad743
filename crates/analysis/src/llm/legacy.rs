//! The older MFU formula: width, MLP width and layers -> the numbers of reports that used it.
//!
//! It counts two MLP products instead of three, a quarter of the attention projections, half of the
//! scores, no output projection, every expert layer as a dense one, and the vision encoder's time a
//! second time beside prefill's. It is kept for comparison only; [`super::mfu`] is the one to read.

use serde::{Deserialize, Serialize};

use super::shape::Shape;

/// Width, MLP width and layers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegacyDims {
    /// Width of the residual stream.
    pub d_model: f64,
    /// Width of the MLP.
    pub d_ff: f64,
    /// Layers.
    pub n_layers: f64,
}

/// How the formula chooses the context of a decode step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyContext {
    /// The prompt and half of the new tokens.
    Auto,
    /// A given length; as `Auto` when it is 0.
    Fixed(u64),
}

/// What the formula gives; shares, not percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegacyMfu {
    /// Of prefill.
    pub prefill: f64,
    /// Of decode.
    pub decode: f64,
    /// Of the model: with the vision encoder's time counted twice.
    pub model: f64,
}

/// Mean times of the stages, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LegacyTimes {
    /// Prefill, with the vision encoder.
    pub prefill_ms: f64,
    /// All decode steps.
    pub decode_ms: f64,
    /// The vision encoder.
    pub vision_ms: f64,
}

/// Times and denominators are not let below this.
const FLOOR: f64 = 1e-9;

impl LegacyDims {
    /// The dimensions that the formula takes from a shape.
    pub fn of(shape: &Shape) -> LegacyDims {
        LegacyDims {
            d_model: shape.hidden_size as f64,
            d_ff: shape.mlp.intermediate_size as f64,
            n_layers: shape.num_hidden_layers as f64,
        }
    }

    fn per_token(&self) -> f64 {
        4.0 * self.d_model * self.d_ff + 2.0 * self.d_model * self.d_model
    }

    /// FLOPs of a prefill of `prompt` tokens.
    pub fn prefill_flops(&self, prompt: u64) -> f64 {
        let prompt = prompt as f64;
        self.n_layers * self.per_token() * prompt
            + self.n_layers * 2.0 * self.d_model * (prompt * (prompt + 1.0) / 2.0)
    }

    /// FLOPs of one decode step at a context.
    pub fn decode_flops_per_token(&self, context: u64) -> f64 {
        self.n_layers * (self.per_token() + 2.0 * self.d_model * context as f64)
    }

    /// The MFU of a run of one prompt of `prompt` tokens and `tokens` decode steps, against
    /// `peak_tflops`. None where a time or the peak is not a positive, finite number.
    pub fn mfu(
        &self,
        times: LegacyTimes,
        prompt: u64,
        tokens: u64,
        context: LegacyContext,
        peak_tflops: f64,
    ) -> Option<LegacyMfu> {
        let LegacyTimes { prefill_ms, decode_ms, vision_ms } = times;
        let usable = |v: f64| v.is_finite() && v >= 0.0;
        let times = [prefill_ms, decode_ms, vision_ms];
        if !(times.into_iter().all(usable) && peak_tflops.is_finite() && peak_tflops > 0.0) {
            return None;
        }
        let context = match context {
            LegacyContext::Fixed(length) if length > 0 => length,
            _ => prompt.saturating_add(tokens / 2).max(1),
        };
        let share = |flops: f64, ms: f64| {
            flops / (peak_tflops * 1e12 * (ms / 1000.0).max(FLOOR)).max(FLOOR)
        };
        let prefill = self.prefill_flops(prompt);
        let decode = self.decode_flops_per_token(context) * tokens as f64;
        let model = share(prefill + decode, prefill_ms + decode_ms + vision_ms);
        Some(LegacyMfu {
            prefill: share(prefill, prefill_ms),
            decode: share(decode, decode_ms),
            model,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::preset::built_in_shape;
    use super::*;

    #[test]
    fn golden_vectors_to_six_decimals() {
        let dims = LegacyDims::of(&built_in_shape("deepseek_ocr"));
        let six = |value: f64| format!("{value:.6}");
        for (prefill_ms, decode_ms, vision_ms, prefill, decode, model) in [
            (98.336, 707.379, 39.965, "0.021011", "0.000211", "0.002620"),
            (249.102, 640.785, 39.543, "0.008294", "0.000233", "0.002384"),
            (93.869, 814.783, 39.323, "0.022011", "0.000183", "0.002337"),
            (245.844, 628.640, 180.323, "0.008404", "0.000238", "0.002100"),
            (240.722, 632.276, 174.802, "0.008583", "0.000236", "0.002114"),
            (246.666, 635.403, 179.610, "0.008376", "0.000235", "0.002087"),
        ] {
            let times = LegacyTimes { prefill_ms, decode_ms, vision_ms };
            let mfu = dims.mfu(times, 913, 64, LegacyContext::Auto, 209.5).expect("finite");
            assert_eq!(
                (six(mfu.prefill), six(mfu.decode), six(mfu.model)),
                (prefill.into(), decode.into(), model.into())
            );
        }
    }

    #[test]
    fn the_time_of_vision_is_what_the_formula_counts_twice() {
        let dims = LegacyDims::of(&built_in_shape("deepseek_ocr"));
        let times = LegacyTimes { prefill_ms: 98.336, decode_ms: 707.379, vision_ms: 0.0 };
        let mfu = dims.mfu(times, 913, 64, LegacyContext::Auto, 209.5).expect("finite");
        assert!((mfu.model - 0.002_749).abs() < 1e-6, "{}", mfu.model);
        let fixed = dims.mfu(times, 913, 64, LegacyContext::Fixed(945), 209.5);
        assert_eq!(fixed, Some(mfu));
    }

    #[test]
    fn no_time_or_peak_gives_no_number() {
        let dims = LegacyDims::of(&built_in_shape("deepseek_ocr"));
        let times = LegacyTimes { prefill_ms: f64::NAN, decode_ms: 1.0, vision_ms: 0.0 };
        assert_eq!(dims.mfu(times, 1, 1, LegacyContext::Auto, 1.0), None);
        let times = LegacyTimes { prefill_ms: 1.0, decode_ms: 1.0, vision_ms: 0.0 };
        assert_eq!(dims.mfu(times, 1, 1, LegacyContext::Auto, 0.0), None);
    }
}
