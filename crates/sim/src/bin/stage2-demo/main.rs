//! The demo workload: plays the prefill and decode of an LLM under NVTX ranges, on a real GPU or
//! on the simulated one, and prints one line of JSON with what the host measured.

mod driver;
mod gpu;
mod real;
mod simulated;
mod workload;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use serde_json::json;

use crate::gpu::{Gpu, Stage, Unavailable};
use crate::workload::Round;

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
    print_summary(&gpu, args, &rounds)
}

/// Prints the measured rounds as one line of JSON.
fn print_summary(gpu: &Gpu, args: &Args, rounds: &[Round]) -> anyhow::Result<()> {
    let step = if args.graph { Stage::Captured } else { Stage::Step };
    let line = json!({
        "device": gpu.name,
        "simulated": gpu.is_simulated,
        "threads": args.threads,
        "rounds": args.rounds,
        "steps": args.steps,
        "graph": args.graph,
        "kernels_per_prefill": gpu.sequence(Stage::Prefill).kernels,
        "kernels_per_step": gpu.sequence(step).kernels,
        "prefill_host_ms": median_ms(rounds.iter().map(|round| round.prefill)),
        "decode_host_ms": median_ms(rounds.iter().map(|round| round.decode)),
        "all_host_ms": rounds.iter().map(|round| json!({
            "thread": round.thread,
            "round": round.round,
            "prefill": ms(round.prefill),
            "decode": ms(round.decode),
        })).collect::<Vec<_>>(),
    });
    writeln!(std::io::stdout(), "{line}").context("cannot write the summary to standard output")
}

fn median_ms(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().map_or(0.0, ms)
}

fn ms(time: Duration) -> f64 {
    // Microseconds are all that a host time is worth.
    (time.as_secs_f64() * 1e6).round() / 1e3
}
