//! The settings into ranges and launches, and how long the host took for them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::cli::Args;
use crate::gpu::{Gpu, Lane, Stage};

/// Host times of one round of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Number of the thread, from 0.
    pub(crate) thread: u32,
    /// Number of the round, from 0.
    pub(crate) round: u32,
    /// From before the first launch to the end of the prefill on the device.
    pub(crate) prefill: Duration,
    /// The same for all decode steps of the round.
    pub(crate) decode: Duration,
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

/// Plays all rounds on all threads.
///
/// # Errors
/// The first failure of the device, with the thread that met it.
pub(crate) fn play(gpu: &dyn Gpu, args: &Args) -> Result<Vec<Round>> {
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

fn play_thread(gpu: &dyn Gpu, args: &Args, thread: u32) -> Result<Vec<Round>> {
    nvtx::name_thread!("lane {thread}");
    let mut lane = gpu.lane()?;
    let lane = lane.as_mut();
    warm_up(lane)?;
    if args.graph {
        capture(lane)?;
    }
    (0..args.rounds)
        .map(|round| {
            let prefill = timed(|| prefill(lane))?;
            let decode = timed(|| decode(lane, args))?;
            Ok(Round { thread, round, prefill, decode })
        })
        .collect()
}

fn timed(body: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begin = Instant::now();
    body()?;
    Ok(begin.elapsed())
}

fn warm_up(lane: &mut dyn Lane) -> Result<()> {
    let _range = Range::open("warm-up");
    for stage in [Stage::Prefill, Stage::Step] {
        for part in 0..lane.parts(stage).len() {
            lane.launch(stage, part)?;
        }
    }
    lane.synchronize()
}

fn capture(lane: &mut dyn Lane) -> Result<()> {
    let _range = Range::open("capture");
    lane.begin_capture()?;
    launch_by_layer(lane, Stage::Captured)?;
    lane.end_capture()
}

fn prefill(lane: &mut dyn Lane) -> Result<()> {
    let _range = Range::open("prefill");
    lane.upload()?;
    launch_by_layer(lane, Stage::Prefill)?;
    lane.synchronize()
}

fn decode(lane: &mut dyn Lane, args: &Args) -> Result<()> {
    let _range = Range::open("decode");
    for _ in 0..args.steps {
        let _range = Range::open("step");
        if args.graph {
            lane.replay()?;
            continue;
        }
        for part in 0..lane.parts(Stage::Step).len() {
            lane.launch(Stage::Step, part)?;
        }
    }
    lane.download()?;
    lane.synchronize()
}

fn launch_by_layer(lane: &mut dyn Lane, stage: Stage) -> Result<()> {
    for (part, layer) in lane.parts(stage).into_iter().enumerate() {
        let _range = layer.map(|layer| Range::open(format_args!("layer.{layer}")));
        lane.launch(stage, part)?;
    }
    Ok(())
}
