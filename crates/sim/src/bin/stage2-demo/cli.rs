//! The command line into plain settings.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Plays the prefill and decode of an LLM under NVTX ranges and prints one line of JSON.
///
/// Ranges: `warm-up`, then in every round `prefill/layer.N` and `decode/step`; with --graph also
/// `capture/layer.N`, and the decode steps are graph replays.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit status: 0 done, 1 the workload failed, 2 usage, 3 the device \
cannot be used.\n\nExamples:\n  stage2-demo --device gpu\n  stage2-demo --device simulated \
--threads 2 --graph"
)]
pub(crate) struct Args {
    /// Where to run.
    #[arg(long, value_enum, default_value_t = Device::Gpu)]
    pub(crate) device: Device,
    /// The library of the simulated GPU [default: libstage2_sim.so beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) sim: Option<PathBuf>,
    /// Threads, each with its own stream and its own ranges.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Replay a CUDA graph for every decode step.
    #[arg(long)]
    pub(crate) graph: bool,
    /// Rounds of prefill and decode after the warm-up.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rounds: u32,
    /// Decode steps of a round.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) steps: u32,
}

/// Where to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// The first NVIDIA GPU of the machine.
    Gpu,
    /// The simulated GPU, which replays kernels recorded on an H200.
    Simulated,
}
