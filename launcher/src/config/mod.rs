//! Presets (conf/), overrides (`KEY=VALUE`) and options -> typed settings, each with its origin.
//!
//! Hydra's ideas and override grammar, for our own keys: a primary `config.yaml` with a `defaults`
//! list chooses one preset of each group; overrides choose other presets or change single keys.
//! The presets hold the defaults and [`Config`] mirrors them: a key that is in neither is an error.

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

pub(crate) use advice::within;
pub(crate) use compose::{Composed, Request, built_in, compose};
pub(crate) use print::{Origins, origins, with_origins as yaml_with_origins};
pub(crate) use recompose::recompose;
pub(crate) use schema::*;

#[cfg(test)]
mod tests;
