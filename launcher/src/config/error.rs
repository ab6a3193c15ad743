//! What can be wrong with a configuration -> a message that names key, origin and remedy.

use crate::failure::Failure;
use std::path::PathBuf;

use stage2_hydra::GrammarError;

use super::advice::Advice;
use stage2_hydra::Origin;

/// A configuration that cannot be used. All of these end the program with status 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A word before `--` that is no `KEY=VALUE`.
    #[error("cannot read the override {word:?} at character {at}: {what}")]
    Grammar {
        /// The word as it was given.
        word: String,
        /// Position of the fault, characters from 1.
        at: usize,
        /// The fault and the remedy.
        what: String,
    },
    /// A key that is not there.
    #[error("unknown key `{key}` ({origin}){advice}")]
    UnknownKey {
        /// The dotted key.
        key: String,
        /// Who asked for it.
        origin: Origin,
        /// Where it belongs, or the valid key that is most like it.
        advice: Advice,
    },
    /// One value where keys have to be.
    #[error("wrong value for `{key}` ({origin}): it holds keys, such as {example}{advice}")]
    NoMap {
        /// The dotted key.
        key: String,
        /// Where the value comes from.
        origin: Origin,
        /// One of the keys that it holds.
        example: Box<str>,
        /// What was probably meant.
        advice: Advice,
    },
    /// A key that needs a value and has none.
    #[error(
        "the key `{key}` has no value: {why}; give it one, or start the preset with \
         `defaults: [<a complete preset of its group>, _self_]`"
    )]
    MissingKey {
        /// The dotted key.
        key: String,
        /// How that came.
        why: String,
    },
    /// A value of the wrong type, or outside its limits.
    #[error("wrong value for `{key}` ({origin}): {what}")]
    WrongValue {
        /// The dotted key.
        key: String,
        /// Where the value comes from.
        origin: Origin,
        /// What is wrong with it, and what would be right.
        what: String,
    },
    /// An override that cannot be applied to what is there.
    #[error("cannot apply the override {word}: {what}")]
    Conflict {
        /// The override as it was given.
        word: String,
        /// The fault and the remedy.
        what: String,
    },
    /// A preset that does not exist.
    #[error("no preset `{option}` in the group `{group}` ({origin}); there are: {choices}")]
    UnknownPreset {
        /// The group.
        group: Box<str>,
        /// The preset that was asked for.
        option: Box<str>,
        /// Who asked for it.
        origin: Origin,
        /// All presets of the group, and the one that is most like it.
        choices: String,
    },
    /// A preset file that cannot be used.
    #[error("{file}: {what}")]
    File {
        /// Name of the file.
        file: String,
        /// The fault and the remedy.
        what: String,
    },
    /// A preset folder that cannot be read.
    #[error("--config-dir {}: {what}; give a folder laid out like conf/ (GROUP/PRESET.yaml)", .dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        what: String,
    },
}

impl ConfigError {
    /// As a command that runs no workload says it: nothing goes after `--` there.
    pub(crate) fn without_workload(self) -> ConfigError {
        match self {
            ConfigError::UnknownKey { key, origin, advice } => {
                ConfigError::UnknownKey { key, origin, advice: advice.without_workload() }
            }
            ConfigError::NoMap { key, origin, example, advice } => {
                ConfigError::NoMap { key, origin, example, advice: advice.without_workload() }
            }
            other => other,
        }
    }
}

impl From<GrammarError> for ConfigError {
    fn from(error: GrammarError) -> ConfigError {
        let GrammarError { word, at, what } = error;
        ConfigError::Grammar { word, at, what }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Usage(error.to_string())
    }
}
