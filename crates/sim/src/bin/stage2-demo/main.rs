//! The demo workload: plays the prefill and decode of an LLM under NVTX ranges, on a real GPU or
//! on the simulated one, and prints one line of JSON with what the host measured.

mod driver;
mod gpu;
mod real;
mod simulated;
mod summary;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::gpu::Unavailable;

/// Exit status when the asked-for device cannot be used.
const EXIT_NO_DEVICE: u8 = 3;

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
struct Args {
    /// Where to run.
    #[arg(long, value_enum, default_value_t = Device::Gpu)]
    device: Device,
    /// The library of the simulated GPU [default: libstage2_sim.so beside this program]
    #[arg(long, value_name = "PATH")]
    sim: Option<PathBuf>,
    /// Threads, each with its own stream and its own ranges.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Replay a CUDA graph for every decode step.
    #[arg(long)]
    graph: bool,
    /// Rounds of prefill and decode after the warm-up.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
    /// Decode steps of a round.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    steps: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Device {
    /// The first NVIDIA GPU of the machine.
    Gpu,
    /// The simulated GPU, which replays kernels recorded on an H200.
    Simulated,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stage2-demo: {error:#}");
            let no_device = error.downcast_ref::<Unavailable>().is_some();
            ExitCode::from(if no_device { EXIT_NO_DEVICE } else { 1 })
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let gpu = match args.device {
        Device::Gpu => real::open()?,
        Device::Simulated => simulated::open(args.sim.as_deref())?,
    };
    let rounds = workload::play(&gpu, args)?;
    summary::print(&gpu, args, &rounds)
}
