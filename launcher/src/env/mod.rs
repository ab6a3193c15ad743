//! The machine and its tools -> `env.json`: what the numbers of a run were measured on.
//!
//! Only an allow-list of environment variables is recorded (`variables`); others may hold secrets.
//! Every question to another program has a time limit, and an answer that does not come is said to be
//! missing, with the reason.

mod cuda;
mod gpu;
mod host;
mod python;
mod subprocess;
mod tools;
mod variables;

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::{Deserialize, Serialize};

pub(crate) use cuda::print_devices;
pub(crate) use gpu::GpuFacts;
pub(crate) use gpu::{SUBCOMMAND as PROBE_GPU, driver_version, probe as probe_gpu, probe_within};
pub(crate) use host::Host;
pub(crate) use python::{Python, interpreter_of, is_python};
pub(crate) use subprocess::{Answer, DOORS, NoAnswer, answer, ask};
pub(crate) use tools::{is_executable, on_path, path_folders};
pub(crate) use variables::relevant_variables;

use stage2_model::{ProcessRow, Tool};
use stage2_read::threads::begin;

/// Contents of `env.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// Version of this format: 1.
    pub(crate) schema: u32,
    /// Whether the run was made on a simulated GPU; the facts here are the machine's own.
    #[serde(default)]
    pub(crate) simulated: bool,
    pub(crate) host: Host,
    pub(crate) gpu: GpuFacts,
    /// The Python that the workload runs in; none when it is no Python program.
    pub(crate) python: Option<Python>,
    /// Environment variables of the workload that choose its GPUs or change what is measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) variables: BTreeMap<String, String>,
    /// The profilers on PATH, by name.
    #[serde(default)]
    pub(crate) tools: BTreeMap<String, Tool>,
    /// Traced processes, with rank, host and GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) processes: Vec<ProcessRow>,
}

/// Asks the machine, the GPUs (unless that was done already), the workload's Python and the tools,
/// all at once.
pub(crate) fn gather(command: &[OsString], gpu: Option<GpuFacts>) -> Environment {
    std::thread::scope(|scope| {
        let gpu = begin(scope, move || gpu.unwrap_or_else(gpu::probe));
        let python = begin(scope, || python::of_workload(command));
        let tools = begin(scope, tools::find);
        Environment {
            schema: 1,
            simulated: false,
            host: Host::read(),
            gpu: gpu.join().unwrap_or_default(),
            python: python.join().flatten(),
            variables: relevant_variables(command, |name| std::env::var_os(name)),
            tools: tools.join().unwrap_or_default(),
            processes: Vec::new(),
        }
    })
}
