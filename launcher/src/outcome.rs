//! What the reports of a bundle say in short.

use std::collections::BTreeMap;
use std::path::PathBuf;

use stage2_model::{DeviceRow, Finding, ProcessRow, Status};
use stage2_report::WorkloadFacts;

/// What the reports of a bundle say in short.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Files that were written.
    pub files: Vec<PathBuf>,
    /// Passes that left something readable: `collect`, `nsys`, `ncu`.
    pub read: Vec<&'static str>,
    /// What is missing or has to be read with care.
    pub findings: Vec<Finding>,
    /// What the reports cover.
    pub coverage: serde_json::Value,
    /// How much of the run the reports cover, in one word.
    pub status: Status,
    /// Lines for the terminal.
    pub headline: Vec<String>,
    /// Whether the records come from a simulated GPU.
    pub simulated: bool,
    /// Processes, as the captures describe them.
    pub processes: Vec<ProcessRow>,
    /// GPUs, as the captures describe them.
    pub devices: Vec<DeviceRow>,
    /// Versions of the tools that recorded, as far as the captures say.
    pub tools: BTreeMap<String, String>,
    /// What the workload's own configuration says.
    pub workload: WorkloadFacts,
}
