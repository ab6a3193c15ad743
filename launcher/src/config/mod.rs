//! Presets (conf/), overrides (`KEY=VALUE`) and options -> typed settings, each with its origin.
//!
//! Hydra's ideas and override grammar, for our own keys: a primary `config.yaml` with a `defaults`
//! list chooses one preset of each group; overrides choose other presets or change single keys.
//! The presets hold the defaults and [`Config`] mirrors them: a key that is in neither is an error.

mod advice;
mod compose;
mod interpolate;
mod presets;
mod print;
mod schema;

use crate::failure::Failure;
use stage2_config::hydra::{GrammarError, Origin, Override};

pub(crate) use advice::within;
pub(crate) use compose::{
    Composed, Request, built_in, check_kept, compose, in_plain_words, recompose, settings_named,
};
pub(crate) use print::{Origins, origins, with_origins as yaml_with_origins};
pub(crate) use schema::*;

/// A configuration that cannot be used. All of these end the program with status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the override `{}` at character {}: {}; with brackets, commas or spaces, a shell needs quotes: 'KEY=[A,B]'", .0.word, .0.at, .0.what)]
    Grammar(#[from] GrammarError),
    #[error("unknown key `{key}` ({origin}){advice}")]
    UnknownKey { key: String, origin: Origin, advice: String },
    #[error(
        "the key `{key}` has no value: {why}; give it one, or start the preset with \
         `defaults: [<a complete preset of its group>, _self_]`"
    )]
    MissingKey { key: String, why: String },
    #[error("the override {word} removes settings that are needed; {instead}")]
    Removed { word: String, instead: String },
    #[error("wrong value for `{key}` ({origin}): {what}")]
    WrongValue { key: String, origin: Origin, what: String },
    #[error("cannot apply the override {word}: {what}")]
    Conflict { word: String, what: String },
    #[error("no preset `{option}` in the group `{group}` ({origin}){advice}")]
    UnknownPreset { group: String, option: String, origin: Origin, advice: String },
    /// A preset, a folder of presets or the `config.yaml` of a bundle.
    #[error("{file}: {what}")]
    File { file: String, what: String },
    /// Settings of reports that `config.yaml` of a bundle has no more.
    #[error("config.yaml {0}")]
    Lost(String),
}

impl ConfigError {
    fn wrong_value(key: &str, origin: &Origin, what: impl Into<String>) -> ConfigError {
        ConfigError::WrongValue { key: key.into(), origin: origin.clone(), what: what.into() }
    }

    fn conflict(o: &Override, what: impl Into<String>) -> ConfigError {
        ConfigError::Conflict { word: o.word.clone(), what: what.into() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let mut text = error.to_string();
        if matches!(error, ConfigError::WrongValue { .. }) && !text.contains("; ")
            // The message has all that it would show.
            && !text.contains("must be ")
        {
            text.push_str("; `stage2-launch config` shows the settings with their values");
        }
        Failure::Usage(text)
    }
}

#[cfg(test)]
mod tests;
