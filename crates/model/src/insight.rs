//! What follows from the measured rows: operators, use of the GPU's peak, and what to make of it.

use serde::{Deserialize, Serialize};

use crate::{Operators, Peaks, Takeaway, TokenCounts, Utilisation};

/// What follows from the rows; fields of the report itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Insight {
    /// Operators of the run, or why there are none; null where nobody looked.
    #[serde(default)]
    pub operators: Option<Operators>,
    /// How much of the GPU's peak the model used; null where nobody looked.
    #[serde(default)]
    pub utilisation: Option<ModelUse>,
    /// What the numbers say, the most important first.
    #[serde(default)]
    pub takeaways: Vec<Takeaway>,
}

/// Time in which any of the model's stages (prefill, decode, vision) was open or had GPU work: the
/// union of their windows in a process, summed over processes. Null: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelWindows {
    /// Of all (recorded) instances, ns.
    pub all_ns: Option<u64>,
    /// Of the warm ones of each stage, ns.
    pub warm_ns: Option<u64>,
}

impl ModelWindows {
    /// Both together; nothing where one is not known.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self { all_ns: sum(self.all_ns, other.all_ns), warm_ns: sum(self.warm_ns, other.warm_ns) }
    }
}

/// How much of the GPU's peak the model used, and what that was computed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelUse {
    /// Name of the model; null: none is known.
    pub model_name: Option<String>,
    /// Why there is no model, to be read after "none, because"; null where there is one.
    pub absent: Option<String>,
    /// Tokens of one generation.
    pub tokens: TokenCounts,
    /// Peak rates of the GPU; null: not known.
    pub peaks: Option<Peaks>,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: Utilisation,
}

impl ModelUse {
    /// The card and where its peaks are from, with the keys that the configuration sets.
    pub fn peak_source(&self) -> Option<String> {
        let source = self.numbers.peak_source.as_ref()?;
        let set = self.peaks.as_ref().map(|peaks| peaks.overridden.join(", "));
        Some(match set.filter(|set| !set.is_empty()) {
            Some(set) => format!("{source} (set in the configuration: {set})"),
            None => source.clone(),
        })
    }

    /// Dense peak that MFU is held against, TFLOP/s.
    pub fn peak_dense_tflops(&self) -> Option<f64> {
        let rates = serde_json::to_value(self.peaks.as_ref()?.dense_tflops).ok()?;
        rates.get(self.numbers.precision.as_deref()?)?.as_f64()
    }
}
