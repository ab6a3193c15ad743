//! Keys of `operators` and `stage1` in the configuration -> typed settings.

use std::path::PathBuf;

use regex::Regex;
use serde::{Deserialize, Serialize};

/// How operators are found and shown: the keys of `conf/operators/default.yaml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSettings {
    /// What the workload is made to mark.
    pub annotate: Vec<Annotation>,
    /// Which ranges are operators; none: those whose names look like PyTorch's.
    pub pattern: Option<Pattern>,
    /// Rows of operators.md.
    pub top_n: usize,
}

impl Default for OperatorSettings {
    fn default() -> Self {
        Self { annotate: Vec::new(), pattern: None, top_n: 50 }
    }
}

/// The keys of `stage1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage1Settings {
    /// Folder of a Stage 1 run whose operators are shown instead of those of this run.
    pub run_dir: Option<PathBuf>,
}

/// What a workload can be made to mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Annotation {
    /// A range for every operator that PyTorch runs.
    TorchOps,
    /// Ranges `prefill` and `decode` around the forwards of Hugging Face causal language models.
    PrefillDecode,
}

impl Annotation {
    /// All of them.
    pub const ALL: [Annotation; 2] = [Annotation::TorchOps, Annotation::PrefillDecode];

    /// The word for it, on the command line and in STAGE2_ANNOTATE.
    pub fn word(self) -> &'static str {
        match self {
            Annotation::TorchOps => "torch-ops",
            Annotation::PrefillDecode => "prefill-decode",
        }
    }
}

/// A word that is none of [`Annotation::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no annotation; use {known}", known = Annotation::ALL.map(Annotation::word).join(" or "))]
pub struct NoAnnotation(String);

impl std::str::FromStr for Annotation {
    type Err = NoAnnotation;

    fn from_str(word: &str) -> Result<Self, NoAnnotation> {
        let found = Self::ALL.into_iter().find(|a| a.word() == word);
        found.ok_or_else(|| NoAnnotation(word.to_owned()))
    }
}

/// A text that is no regular expression.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text:?} is no regular expression ({error}); see docs.rs/regex")]
pub struct NoPattern {
    text: String,
    error: regex::Error,
}

/// A regular expression that was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(Regex);

impl Pattern {
    /// Whether some part of `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl TryFrom<String> for Pattern {
    type Error = NoPattern;

    fn try_from(text: String) -> Result<Self, NoPattern> {
        Regex::new(&text).map(Pattern).map_err(|error| NoPattern { text, error })
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.0.as_str().to_owned()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_is_the_default() {
        let yaml = include_str!("../../../../conf/operators/default.yaml");
        let preset: OperatorSettings = serde_saphyr::from_str(yaml).expect("preset");
        assert_eq!(preset, OperatorSettings::default());
    }

    #[test]
    fn words_and_configuration_are_the_same() {
        for annotation in Annotation::ALL {
            assert_eq!(annotation.word().parse(), Ok(annotation));
            assert_eq!(serde_json::to_value(annotation).expect("JSON"), annotation.word());
        }
        let refused = "torch_ops".parse::<Annotation>().expect_err("no such word");
        assert!(refused.to_string().contains("torch-ops or prefill-decode"), "{refused}");
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_a_reason() {
        let read = |text: &str| {
            serde_json::from_value::<OperatorSettings>(
                serde_json::json!({"annotate": [], "pattern": text, "top_n": 1}),
            )
        };
        let error = read("my::(").expect_err("unbalanced").to_string();
        assert!(error.contains("my::(") && error.contains("unclosed group"), "{error}");
        let pattern = read("^my::").expect("a pattern").pattern.expect("given");
        assert!(pattern.matches("my::op") && !pattern.matches("not my::op"));
    }
}
