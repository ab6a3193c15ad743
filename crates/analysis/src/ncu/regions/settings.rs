//! Which regions get a table: a part of the configuration.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use stage2_hydra::one_or_many;

/// NVTX ranges that get a table each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regions {
    /// Globs of range names, or of whole paths (`prefill/*`); empty: all.
    #[serde(deserialize_with = "one_or_many")]
    pub include: Vec<String>,
    /// Globs of ranges that get none; wins over `include`.
    #[serde(deserialize_with = "one_or_many")]
    pub exclude: Vec<String>,
    /// Whether there is a table over all processes and devices, beside one for each of them.
    pub aggregate: bool,
    /// In the range replay modes, how many instances of a range are profiled; none: all of them.
    pub launch_count: Option<NonZeroU64>,
    /// In the range replay modes, how many regions are measured at most, in a run of the workload
    /// each: those with the most GPU time.
    pub most: NonZeroU64,
}

impl Default for Regions {
    fn default() -> Regions {
        Regions {
            include: Vec::new(),
            exclude: Vec::new(),
            aggregate: true,
            launch_count: None,
            most: NonZeroU64::MIN.saturating_add(15),
        }
    }
}
