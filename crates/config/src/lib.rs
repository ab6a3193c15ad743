//! What a configuration is made of: overrides in Hydra's grammar, YAML whose values know their origin, and
//! the presets of `conf/`.
#![forbid(unsafe_code)]

pub mod hydra;
pub mod presets;
