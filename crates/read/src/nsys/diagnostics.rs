//! What nsys itself says about a capture (the table DIAGNOSTIC_EVENT) -> what matters to its numbers.

use stage2_contract::order::Order as _;
use std::cmp::Reverse;

/// The table.
pub const TABLE: &str = "DIAGNOSTIC_EVENT";
/// Its columns that are read.
pub const COLUMNS: [&str; 2] = ["severity", "text"];
/// Texts of an export that are shown, at most.
const MAX_SHOWN: usize = 8;
/// Longest text of the export that is shown, characters.
const MAX_CHARS: usize = 300;
const MAX_HELD: usize = 1000;
/// Of the severities of nsys, 0 and 1 are remarks.
const WARNING: i64 = 2;
/// Words of texts about what records GPU work and ranges.
const OF_WORK: [&str; 5] = ["cuda", "cupti", "nvtx", "gpu", "driver"];
/// Parts of remarks that tell of something that is missing.
const OF_LOSS: [&str; 10] = [
    "miss",
    "lost",
    "drop",
    "not ",
    "fail",
    "unsupported",
    "incomplete",
    "error",
    "overflow",
    "unable",
];

/// How much a text matters; nothing where it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A warning or an error about something else.
    Other,
    /// A remark that GPU work or ranges are missing.
    Remark,
    /// A warning or an error about GPU work or ranges.
    OfWork,
}

/// Weighs a text.
pub fn weight(severity: Option<i64>, text: &str) -> Option<Weight> {
    let low = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| low.contains(word));
    let serious = severity.is_none_or(|severity| severity >= WARNING);
    match (has(&OF_WORK), serious) {
        (true, true) => Some(Weight::OfWork),
        (true, false) if has(&OF_LOSS) => Some(Weight::Remark),
        (false, true) => Some(Weight::Other),
        _ => None,
    }
}

/// Texts of a capture, those first that matter most.
#[derive(Debug, Default)]
pub(super) struct Said(Vec<(Weight, String)>);

impl Said {
    pub(super) fn take(&mut self, severity: Option<i64>, text: &str) {
        let Some(weight) = weight(severity, text).filter(|_| self.0.len() < MAX_HELD) else {
            return;
        };
        let text: String = text.trim().chars().take(MAX_CHARS).collect();
        let text = stage2_contract::text::visible(text.as_bytes());
        if !text.is_empty() && !self.0.iter().any(|(_, known)| *known == text) {
            self.0.push((weight, text));
        }
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        self.0.order_by_key(|(weight, _)| Reverse(*weight));
        self.0.into_iter().take(MAX_SHOWN).map(|(_, text)| text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_gpu_work_comes_before_everything_else() {
        let mut said = Said::default();
        for at in 0..20 {
            said.take(Some(2), &format!("Failed to load symbols of library {at}"));
        }
        said.take(Some(1), "CUDA profiling has been started");
        said.take(Some(1), "CUPTI buffers: 49 of 50. Some CUPTI events might be missing.");
        said.take(Some(3), "Not all CUDA events might have been collected.");
        said.take(Some(3), "Not all CUDA events might have been collected.");
        said.take(None, "");
        let said = said.finish();
        assert_eq!(said.len(), MAX_SHOWN);
        assert!(said[0].starts_with("Not all CUDA events"), "{said:?}");
        assert!(said[1].starts_with("CUPTI buffers"), "{said:?}");
        assert!(said[2].starts_with("Failed to load"), "{said:?}");
    }
}
