//! What captures say of where they were taken -> `env.json`, which says that nothing else is known.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use crate::bundle::RunRecord;
use crate::outcome::Outcome;
use stage2_model::Tool;
use stage2_read::files::write_whole;

const NOT_KNOWN: &str = "not known: the captures were taken elsewhere, and only what they say \
                         themselves of their GPUs and tools is here";

/// Writes the file. Nothing in it is of the machine that merges.
pub(super) fn write(dir: &Path, outcome: Option<&Outcome>) -> anyhow::Result<()> {
    let devices: Vec<_> = outcome
        .iter()
        .flat_map(|outcome| &outcome.devices)
        .map(|row| {
            json!({
                "index": row.index,
                "name": row.name,
                "uuid": row.uuid,
                "compute_capability": row.compute_capability,
                "multiprocessors": row.multiprocessors,
                "memory_bytes": row.memory_bytes,
            })
        })
        .collect();
    let tools: BTreeMap<&String, Tool> = outcome
        .iter()
        .flat_map(|outcome| &outcome.tools)
        .map(|(name, version)| (name, of_version(version)))
        .collect();
    let environment = json!({
        "schema": 1,
        "simulated": outcome.is_some_and(|outcome| outcome.simulated),
        "environment": NOT_KNOWN,
        "gpu": {"devices": devices},
        "tools": tools,
        "processes": outcome.map(|outcome| &outcome.processes),
    });
    write_whole(&dir.join("env.json"), &format!("{environment:#}\n"))
}

pub(super) fn note_tools(record: &mut RunRecord, outcome: &Outcome) {
    for (name, version) in &outcome.tools {
        record.tools.insert(name.clone(), of_version(version));
    }
}

fn of_version(version: &str) -> Tool {
    Tool { path: None, version: Some(version.to_owned()) }
}
