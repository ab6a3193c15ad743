//! What can be wrong with a configuration -> a message that names key, origin and remedy.

use stage2_config::hydra::{GrammarError, Origin};

use crate::failure::Failure;

/// A configuration that cannot be used. All of these end the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the override {:?} at character {}: {}", .0.word, .0.at, .0.what)]
    Grammar(#[from] GrammarError),
    #[error("unknown key `{key}` ({origin}){advice}")]
    UnknownKey { key: String, origin: Origin, advice: String },
    #[error(
        "the key `{key}` has no value: {why}; give it one, or start the preset with \
         `defaults: [<a complete preset of its group>, _self_]`"
    )]
    MissingKey { key: String, why: String },
    #[error("wrong value for `{key}` ({origin}): {what}")]
    WrongValue { key: String, origin: Origin, what: String },
    #[error("cannot apply the override {word}: {what}")]
    Conflict { word: String, what: String },
    #[error("no preset `{option}` in the group `{group}` ({origin}); there are: {choices}")]
    UnknownPreset { group: String, option: String, origin: Origin, choices: String },
    /// A preset, a folder of presets or the `config.yaml` of a bundle.
    #[error("{file}: {what}")]
    File { file: String, what: String },
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Usage(error.to_string())
    }
}
