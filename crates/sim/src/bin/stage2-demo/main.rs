//! The demo workload: plays the prefill and decode of an LLM under NVTX ranges, on a real GPU or
//! on the simulated one, and prints one line of JSON with what the host measured.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::{Parser, ValueEnum};
use serde_json::json;

use crate::gpu::{Gpu, Lane, Stage, Unavailable};

mod devices;
mod gpu;

const EXIT_NO_DEVICE: u8 = 3;

/// Plays the prefill and decode of an LLM under NVTX ranges and prints one line of JSON.
///
/// Ranges: `warm-up`, then in every round `prefill/layer.N` and `decode/step`; with --graph also
/// `capture/layer.N`, and the decode steps are graph replays.
#[derive(Debug, Parser)]
// `stage2-launch demo` puts its own options in front: those of the user win.
#[command(
    version,
    args_override_self = true,
    after_help = "Exit status: 0 done, 1 the workload failed, 2 usage, 3 the device \
cannot be used.\n\nExamples:\n  stage2-demo --device gpu\n  stage2-demo --device simulated \
--threads 2 --graph\n\nTo record the simulated GPU, name its library, which is next to this program:\n  \
STAGE2_CUPTI=.../libstage2_sim.so stage2-launch run --light -- stage2-demo --device simulated"
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
    #[arg(allow_negative_numbers = true)]
    rounds: u32,
    /// Decode steps of a round.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    #[arg(allow_negative_numbers = true)]
    steps: u32,
    /// Wait for the GPU at the end of every decode step, as a loop does that takes each token to the host, with a
    /// range `decode/step/forward` around the launches.
    #[arg(long)]
    sync: bool,
    /// Print nothing when it is done.
    #[arg(long)]
    quiet: bool,
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
        Device::Gpu => devices::open_gpu()?,
        Device::Simulated => devices::open_simulated(args.sim.as_deref())?,
    };
    let rounds = play(&gpu, args)?;
    if args.quiet { Ok(()) } else { print_summary(&gpu, args, &rounds) }
}

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

#[derive(Clone, Copy, Debug)]
struct Round {
    thread: u32,
    round: u32,
    /// From before the first launch to the end of the prefill on the device.
    prefill: Duration,
    /// From before the first launch of the decode to the end of its last step on the device.
    decode: Duration,
}

/// An NVTX push/pop range that is open as long as this lives.
struct Range;

impl Range {
    fn open(name: impl std::fmt::Display) -> Range {
        nvtx::range_push!("{name}");
        Range
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        nvtx::range_pop!();
    }
}

/// Plays all rounds on all threads. The first failure names its thread.
fn play(gpu: &Gpu, args: &Args) -> Result<Vec<Round>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads)
            .map(|number| {
                std::thread::Builder::new()
                    .name(format!("lane {number}"))
                    .spawn_scoped(scope, move || play_thread(gpu, args, number))
                    .with_context(|| format!("cannot start thread {number}; use fewer --threads"))
            })
            .collect::<Result<_>>()?;
        let mut rounds = Vec::new();
        for (number, thread) in threads.into_iter().enumerate() {
            let played = thread.join().map_err(|_| anyhow!("thread {number} panicked"))?;
            rounds.extend(played.with_context(|| format!("thread {number}"))?);
        }
        Ok(rounds)
    })
}

fn play_thread(gpu: &Gpu, args: &Args, thread: u32) -> Result<Vec<Round>> {
    nvtx::name_thread!("lane {thread}");
    let lane = &mut gpu.lane()?;
    warm_up(lane)?;
    if args.graph {
        capture(lane)?;
    }
    (0..args.rounds)
        .map(|round| {
            let prefill = time(|| prefill(lane))?;
            let decode = time(|| decode(lane, args))?;
            Ok(Round { thread, round, prefill, decode })
        })
        .collect()
}

fn time(body: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    body()?;
    Ok(begin.elapsed())
}

fn warm_up(lane: &mut Lane) -> Result<()> {
    let _range = Range::open("warm-up");
    for stage in [Stage::Prefill, Stage::Step] {
        launch_all(lane, stage)?;
    }
    lane.synchronize()
}

fn capture(lane: &mut Lane) -> Result<()> {
    let _range = Range::open("capture");
    lane.begin_capture()?;
    launch_by_layer(lane, Stage::Captured)?;
    lane.end_capture()
}

fn prefill(lane: &mut Lane) -> Result<()> {
    let _range = Range::open("prefill");
    lane.upload()?;
    launch_by_layer(lane, Stage::Prefill)?;
    lane.synchronize()
}

fn decode(lane: &mut Lane, args: &Args) -> Result<()> {
    let _range = Range::open("decode");
    for _ in 0..args.steps {
        let _range = Range::open("step");
        match (args.graph, args.sync) {
            (true, _) => lane.replay()?,
            (false, true) => {
                // It ends when all is launched, which shows that the host is ahead.
                let _range = Range::open("forward");
                launch_all(lane, Stage::Step)?;
            }
            (false, false) => launch_all(lane, Stage::Step)?,
        }
        if args.sync {
            lane.synchronize()?;
        }
    }
    lane.download()?;
    lane.synchronize()
}

fn launch_all(lane: &mut Lane, stage: Stage) -> Result<()> {
    lane.gpu.sequence(stage).parts.iter().try_for_each(|part| lane.launch(part))
}

fn launch_by_layer(lane: &mut Lane, stage: Stage) -> Result<()> {
    for part in &lane.gpu.sequence(stage).parts {
        let _range = part.layer.map(|layer| Range::open(format_args!("layer.{layer}")));
        lane.launch(part)?;
    }
    Ok(())
}
