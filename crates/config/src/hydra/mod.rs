//! Hydra's override grammar: `KEY=VALUE` words and YAML, each value with its origin.
//!
//! The launcher composes its own configuration with it, and the analysis holds the overrides that a
//! workload was given against the configuration that the workload ran with.

mod grammar;
mod node;

pub use grammar::{Action, GrammarError, Override, hydra_key};
pub use node::{Node, Origin, Value, YamlError, join_key, one_or_many, words};
