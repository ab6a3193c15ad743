//! The older MFU formula: width, MLP width and layers -> the numbers of reports that used it.
//!
//! It counts two MLP products instead of three, a quarter of the attention projections, half of the
//! scores, no output projection, every expert layer as a dense one, and the vision encoder's time a
//! second time beside prefill's. It is kept for comparison only; [`super::mfu`] is the one to read.

use super::shape::Shape;

/// One prompt of a run, with the mean times of its stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LegacyRun {
    /// Time of prefill, with the vision encoder, ms.
    pub prefill_ms: f64,
    /// Time of all decode steps, ms.
    pub decode_ms: f64,
    /// Time of the vision encoder, ms.
    pub vision_ms: f64,
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Decode steps.
    pub tokens: u64,
    /// Context of each step; none: the prompt and half of the new tokens.
    pub context: Option<u64>,
}

/// What the formula gives; shares, not percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LegacyMfu {
    /// Of prefill.
    pub prefill: f64,
    /// Of decode.
    pub decode: f64,
    /// Of the model: with the vision encoder's time counted twice.
    pub model: f64,
}

/// The MFU of a run against `peak_tflops`. None where a time or the peak is not a positive, finite
/// number.
pub fn legacy_mfu(shape: &Shape, run: LegacyRun, peak_tflops: f64) -> Option<LegacyMfu> {
    // Times and denominators are not let below this.
    const FLOOR: f64 = 1e-9;
    let LegacyRun { prefill_ms, decode_ms, vision_ms, prompt, tokens, context } = run;
    let usable = |v: &f64| v.is_finite() && *v >= 0.0;
    let times = [prefill_ms, decode_ms, vision_ms];
    if !(times.iter().all(usable) && peak_tflops.is_finite() && peak_tflops > 0.0) {
        return None;
    }
    let context = context.filter(|length| *length > 0);
    let context = context.unwrap_or_else(|| prompt.saturating_add(tokens / 2).max(1)) as f64;
    let (d, layers) = (shape.hidden_size as f64, shape.num_hidden_layers as f64);
    let per_token = 4.0 * d * shape.mlp.intermediate_size as f64 + 2.0 * d * d;
    let prompt = prompt as f64;
    let prefill = layers * per_token * prompt + layers * 2.0 * d * (prompt * (prompt + 1.0) / 2.0);
    let decode = layers * (per_token + 2.0 * d * context) * tokens as f64;
    let share =
        |flops: f64, ms: f64| flops / (peak_tflops * 1e12 * (ms / 1000.0).max(FLOOR)).max(FLOOR);
    Some(LegacyMfu {
        prefill: share(prefill, prefill_ms),
        decode: share(decode, decode_ms),
        model: share(prefill + decode, prefill_ms + decode_ms + vision_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::super::preset::built_in_shape;
    use super::*;

    fn run(prefill_ms: f64, decode_ms: f64, vision_ms: f64) -> LegacyRun {
        LegacyRun { prefill_ms, decode_ms, vision_ms, prompt: 913, tokens: 64, context: None }
    }

    #[test]
    fn golden_vectors_to_six_decimals() {
        let shape = built_in_shape("deepseek_ocr");
        let six = |value: f64| format!("{value:.6}");
        for (prefill_ms, decode_ms, vision_ms, prefill, decode, model) in [
            (98.336, 707.379, 39.965, "0.021011", "0.000211", "0.002620"),
            (249.102, 640.785, 39.543, "0.008294", "0.000233", "0.002384"),
            (93.869, 814.783, 39.323, "0.022011", "0.000183", "0.002337"),
            (245.844, 628.640, 180.323, "0.008404", "0.000238", "0.002100"),
            (240.722, 632.276, 174.802, "0.008583", "0.000236", "0.002114"),
            (246.666, 635.403, 179.610, "0.008376", "0.000235", "0.002087"),
        ] {
            let mfu = legacy_mfu(&shape, run(prefill_ms, decode_ms, vision_ms), 209.5);
            let mfu = mfu.expect("finite");
            assert_eq!(
                (six(mfu.prefill), six(mfu.decode), six(mfu.model)),
                (prefill.into(), decode.into(), model.into())
            );
        }
    }

    #[test]
    fn the_time_of_vision_is_what_the_formula_counts_twice() {
        let shape = built_in_shape("deepseek_ocr");
        let without = run(98.336, 707.379, 0.0);
        let mfu = legacy_mfu(&shape, without, 209.5).expect("finite");
        assert!((mfu.model - 0.002_749).abs() < 1e-6, "{}", mfu.model);
        let fixed = LegacyRun { context: Some(945), ..without };
        assert_eq!(legacy_mfu(&shape, fixed, 209.5), Some(mfu));
    }

    #[test]
    fn no_time_or_peak_gives_no_number() {
        let shape = built_in_shape("deepseek_ocr");
        assert_eq!(legacy_mfu(&shape, run(f64::NAN, 1.0, 0.0), 1.0), None);
        assert_eq!(legacy_mfu(&shape, run(1.0, 1.0, 0.0), 0.0), None);
    }
}
