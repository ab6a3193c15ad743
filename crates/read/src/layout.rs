//! Where the parts of a run lie in its folder.

/// Trace files of the collect pass.
pub const COLLECTOR_DIR: &str = "collector";
/// Trace files of the baseline pass.
pub const BASELINE_DIR: &str = "baseline";
/// Trace files of the counters pass, where hardware counters were sampled in their own run.
pub const COUNTERS_DIR: &str = "counters";
/// The nsys pass.
pub const NSYS_DIR: &str = "nsys";
/// What makes a Python workload mark itself, and what an engine says of itself there.
pub const HOOK_DIR: &str = "hook";
/// The ncu pass.
pub const NCU_DIR: &str = "ncu";
/// Regions that ncu measured, each in its own folder.
pub const NCU_REGIONS_DIR: &str = "ncu/regions";
/// Name of the pass that writes [`COLLECTOR_DIR`].
pub const COLLECT: &str = "collect";
/// What the run was given: its command, its inputs, its model.
pub const INPUTS_YAML: &str = "inputs.yaml";
