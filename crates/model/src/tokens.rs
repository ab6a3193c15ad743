//! A configuration or a workload's `metrics.json` -> how many tokens one generation has.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::figure::Absent;

/// Tokens of one generation: a prefill and the decode steps after it. All generations are alike. A
/// method gives the count of its name, or the reason why it is not known or absurd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenCounts {
    /// Sequences side by side.
    pub batch_size: Option<u64>,
    /// Tokens of each prompt, those of images included.
    pub prompt_tokens: Option<u64>,
    /// Forward passes of one new token per sequence.
    pub decode_steps: Option<u64>,
    /// Images of each prompt.
    pub images_per_prompt: Option<u64>,
    /// Crops of each image that go through the vision encoder beside the whole image.
    pub crops_per_image: Option<u64>,
}

/// Counts above this are mistakes.
const MOST: u64 = 1 << 40;

impl TokenCounts {
    /// What a workload's `metrics.json` says: that of the example workload (`batch_size`,
    /// `prompt_tokens`, `decode_steps`), or that of a Stage 1 run (`aggregates.tokens.mean`, which
    /// counts decode steps of one sequence). What it does not say is none.
    pub fn from_metrics(metrics: &Value) -> TokenCounts {
        let count = |key: &str| metrics.get(key).and_then(Value::as_u64);
        let mean = metrics.pointer("/aggregates/tokens/mean").and_then(Value::as_f64);
        let mean = mean.filter(|m| m.is_finite() && (1.0..MOST as f64).contains(m));
        let stage1 = mean.map(|mean| mean.round() as u64);
        TokenCounts {
            batch_size: count("batch_size").or(stage1.map(|_| 1)),
            prompt_tokens: count("prompt_tokens"),
            decode_steps: count("decode_steps").or(stage1),
            images_per_prompt: count("images_per_prompt"),
            crops_per_image: count("crops_per_image"),
        }
    }

    /// These counts, and those of `other` where these have none.
    pub fn or(&self, other: &TokenCounts) -> TokenCounts {
        TokenCounts {
            batch_size: self.batch_size.or(other.batch_size),
            prompt_tokens: self.prompt_tokens.or(other.prompt_tokens),
            decode_steps: self.decode_steps.or(other.decode_steps),
            images_per_prompt: self.images_per_prompt.or(other.images_per_prompt),
            crops_per_image: self.crops_per_image.or(other.crops_per_image),
        }
    }

    /// Sequences side by side.
    pub fn batch(&self) -> Result<u64, Absent> {
        positive(self.batch_size, "batch_size")
    }

    /// Tokens of each prompt.
    pub fn prompt(&self) -> Result<u64, Absent> {
        positive(self.prompt_tokens, "prompt_tokens")
    }

    /// Decode steps.
    pub fn steps(&self) -> Result<u64, Absent> {
        positive(self.decode_steps, "decode_steps")
    }

    /// Images of each prompt.
    pub fn images(&self) -> Result<u64, Absent> {
        positive(self.images_per_prompt, "images_per_prompt")
    }

    /// Crops of each image; there may be none.
    pub fn crops(&self) -> Result<u64, Absent> {
        match self.crops_per_image {
            Some(0) => Ok(0),
            crops => positive(crops, "crops_per_image"),
        }
    }
}

fn positive(count: Option<u64>, name: &str) -> Result<u64, Absent> {
    match count {
        Some(0) => Err(Absent::Zero { of: name.to_owned() }),
        Some(count) if count <= MOST => Ok(count),
        _ => Err(Absent::NoTokenCount { count: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_kinds_of_metrics_are_read() {
        let runner = json!({"batch_size": 2, "prompt_tokens": 512, "decode_steps": 64, "x": 1});
        let counts = TokenCounts::from_metrics(&runner);
        assert_eq!((counts.batch(), counts.prompt(), counts.steps()), (Ok(2), Ok(512), Ok(64)));
        let stage1 = json!({"aggregates": {"tokens": {"mean": 64.0, "std": 0.0}}});
        let counts = TokenCounts::from_metrics(&stage1);
        assert_eq!((counts.batch(), counts.steps()), (Ok(1), Ok(64)));
        let missing = Absent::NoTokenCount { count: "prompt_tokens".into() };
        assert_eq!(counts.prompt(), Err(missing));
        let configured = TokenCounts { prompt_tokens: Some(913), ..TokenCounts::default() };
        assert_eq!(configured.or(&counts).prompt(), Ok(913));
    }

    #[test]
    fn absurd_counts_are_none() {
        for metrics in [
            json!(null),
            json!([]),
            json!({"batch_size": -1, "prompt_tokens": "many", "decode_steps": 1.5}),
            json!({"aggregates": {"tokens": {"mean": 1e300}}}),
            json!({"batch_size": u64::MAX}),
        ] {
            let counts = TokenCounts::from_metrics(&metrics);
            assert!(counts.batch().is_err() && counts.steps().is_err(), "{metrics}");
        }
        let counts = TokenCounts { batch_size: Some(0), ..TokenCounts::default() };
        assert_eq!(counts.batch(), Err(Absent::Zero { of: "batch_size".into() }));
    }
}
