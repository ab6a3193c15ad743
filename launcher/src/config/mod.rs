//! Presets (conf/), overrides (`KEY=VALUE`) and options -> typed settings, each with its origin.
//!
//! Hydra's ideas and override grammar, for our own keys: a primary `config.yaml` with a `defaults`
//! list chooses one preset of each group; overrides choose other presets or change single keys.
//! The presets hold the defaults and [`Config`] mirrors them: a key that is in neither is an error.
//!
//! YAML is read with serde-saphyr: of the libraries for serde it is the one that is actively
//! developed (the others are forks that keep the archived serde_yaml alive), it is pure Rust
//! without `unsafe` C heritage, it bounds aliases and nesting, and it knows the line of each value.

mod advice;
mod compose;
mod defaults;
mod error;
mod interpolate;
mod presets;
mod print;
mod recompose;
mod resolvers;
mod schema;
mod similar;

pub use advice::Advice;
pub(crate) use compose::built_in;
pub use compose::{Composed, Request, compose};
pub use error::ConfigError;
pub(crate) use print::with_origins as yaml_with_origins;
pub(crate) use recompose::recompose;
pub use schema::*;

#[cfg(test)]
mod tests;
