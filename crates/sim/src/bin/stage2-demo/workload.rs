//! Plays the stages of the workload under their NVTX ranges, and times them on the host.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::Args;
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
    /// From before the first launch of the decode to the end of its last step on the device.
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
pub(crate) fn play(gpu: &Gpu, args: &Args) -> Result<Vec<Round>> {
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
        if args.graph {
            lane.replay()?;
        } else {
            launch_all(lane, Stage::Step)?;
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
