//! How long a fit of 10 million kernels and 1 million samples takes, and how much memory.
//!
//! `cargo run --release -p stage2-counter-fit --example speed -- [KERNELS [SAMPLES [KINDS [COUNTERS]]]]`

use std::time::Instant;

use fastrand::Rng;
use stage2_counter_fit::{Fit, Kernel, Kinds, Samples};

/// The kernels of a run: two stages in turn, steps of 4 ms, the same at every call.
fn kernels(count: u64, kinds: u32, span_ns: u64) -> impl Iterator<Item = Kernel> {
    let mut random = Rng::with_seed(1);
    let every = span_ns / count.max(1);
    (0..count).map(move |index| {
        let start_ns = index * every + random.u64(..=every / 8);
        let step = start_ns / 4_000_000;
        let stage = (step / 50 % 2) as u32;
        // A few kinds run most of the time, as in a real model.
        let kind = (f64::from(kinds) * random.f64().powi(3)) as u32;
        let end_ns = start_ns + every / 2 + u64::from(kind) * every / (4 * u64::from(kinds));
        Kernel {
            start_ns,
            end_ns,
            stage: Some(stage),
            kind,
            class: kind % 8,
            step: Some((step / 100) as u32),
        }
    })
}

/// The highest resident set of this process so far, in MB.
fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let mut next = |usual| words.next().and_then(Result::ok).unwrap_or(usual);
    let (count, rows, kinds, counters) =
        (next(10_000_000), next(1_000_000), next(300) as u32, next(8) as usize);
    let span_ns = rows * 100_000;
    let begin = Instant::now();
    let mut values = vec![0.0_f32; rows as usize * counters];
    let mut seen = Kinds::default();
    for kernel in kernels(count, kinds, span_ns) {
        seen.add(&kernel);
        // Whole calls are put where they start: good enough for a time.
        let row = (kernel.start_ns / 100_000) as usize;
        for (counter, value) in values[row * counters..][..counters].iter_mut().enumerate() {
            *value += (1_000 + kernel.kind * 7 * (counter as u32 + 1) % 997) as f32;
        }
    }
    let mut samples = Samples::new(counters);
    for (row, values) in values.chunks(counters.max(1)).enumerate() {
        samples.push(row as u64 * 100_000, (row as u64 + 1) * 100_000, values);
    }
    drop(values);
    println!(
        "{count} kernels of {kinds} kinds, {rows} samples of {counters} counters: made in {:.1} s, {:.0} MB at most",
        begin.elapsed().as_secs_f64(),
        peak_mb().unwrap_or(f64::NAN)
    );
    let begin = Instant::now();
    let mut seen = Kinds::default();
    kernels(count, kinds, span_ns).for_each(|kernel| seen.add(&kernel));
    let design = seen.design(&samples);
    println!("first pass {:.1} s", begin.elapsed().as_secs_f64());
    let mut fit = Fit::new(&samples, &design);
    kernels(count, kinds, span_ns).for_each(|kernel| fit.kernel(&kernel));
    println!("second pass {:.1} s", begin.elapsed().as_secs_f64());
    let fitted = fit.finish();
    let peak = peak_mb().unwrap_or(f64::NAN);
    println!(
        "solved {:.1} s, {peak:.0} MB at most, {:?}",
        begin.elapsed().as_secs_f64(),
        fitted.edges
    );
    for counter in fitted.stages.iter().flat_map(|stage| &stage.counters) {
        let known = counter.columns.iter().filter(|column| column.amount.value().is_some()).count();
        println!(
            "counter {}: R2 {:?}, {known} of {} columns known",
            counter.counter,
            counter.r2,
            counter.columns.len()
        );
    }
}
