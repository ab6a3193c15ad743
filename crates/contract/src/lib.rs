//! What the collector and the launcher agree on, in one definition for both.
#![forbid(unsafe_code)]

pub mod control;
pub mod order;
pub mod settings;
pub mod stats;
pub mod text;
pub mod trace;
