//! What the bundle says of the workload, held against what ran.
//!
//! A Hydra app writes the configuration that it ran with into `stage1/.hydra`. [`Workload`] reads it:
//! model, token counts and manifest are taken from there where the user gave none. What the user said
//! and what that configuration says must not contradict each other without a finding that names both.

mod contradictions;
mod lookup;
mod manifest;
mod overrides;
mod sources;
mod workload;

pub use contradictions::contradictions;
pub use overrides::overrides;
pub use workload::{FOLDER, Workload};
