//! Settings and the kernels of the collect pass -> one run of Nsight Compute, and a verdict on it.
//!
//! [`config`] holds the settings, [`select`] chooses the kernels, [`command`] spells out every
//! argument, and [`outcome`] judges what the run left behind. Nothing is run here. A fault of a run
//! becomes a [`stage2_model::Finding`]. [`stage2_read::ncu`] reads the tables.

pub(crate) mod command;
pub(crate) mod config;
pub(crate) mod expression;
pub(crate) mod outcome;
pub(crate) mod select;

use std::collections::BTreeSet;

use super::saw;
use stage2_contract::order::IntoOrdered as _;
use stage2_read::ncu::nvtx::{self, Label};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeTime {
    /// The ranges around it and itself, the outermost first.
    pub(crate) stack: Vec<Label>,
    /// Kernels launched in it and in the ranges within it.
    pub(crate) kernels: u64,
    pub(crate) total_ns: u64,
}

pub(crate) fn ranges_seen(seen: &[RangeTime]) -> String {
    let paths: BTreeSet<String> = seen.iter().map(|range| nvtx::path(&range.stack)).into_set();
    saw(&paths.into_iter().collect::<Vec<_>>())
}
