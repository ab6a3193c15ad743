//! Prints the measured rounds as one line of JSON.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::Args;
use crate::gpu::{Gpu, Stage};
use crate::workload::Round;

/// Prints the summary.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print(gpu: &Gpu, args: &Args, rounds: &[Round]) -> Result<()> {
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
