//! A made-up LLM decode: 694 kernels a step, as kernel records look on one stream.

use stage2_contract::trace::{GpuNs, GpuWork, What};

/// Kernels of a decode step.
pub(crate) const KERNELS_PER_STEP: u64 = 694;
const SHAPES: u32 = 100;

/// A pseudo-random number of `low..=high`, from a linear congruential generator.
fn draw(state: &mut u64, low: u64, high: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    low + (*state >> 33) % (high - low + 1)
}

/// The kernels of `steps` decode steps, each step in a range of its own: durations of 1-20 us,
/// gaps of 1-5 us, correlation ids 3-20 apart, 100 shapes, one queue.
pub(crate) fn kernels(steps: u64) -> Vec<GpuWork> {
    let mut random = 42;
    let mut end = 1_789_000_000_000_000_000;
    let mut correlation = 100_000;
    let mut kernels = Vec::new();
    for step in 0..steps {
        for _ in 0..KERNELS_PER_STEP {
            let start = end + draw(&mut random, 1_000, 5_000);
            end = start + draw(&mut random, 1_000, 20_000);
            correlation += draw(&mut random, 3, 20);
            kernels.push(GpuWork {
                start: GpuNs(start),
                end: GpuNs(end),
                what: What::Kernel { shape: draw(&mut random, 1, SHAPES.into()) as u32 },
                queue: 1,
                range: 1 + step,
                correlation,
                graph_node: 0,
            });
        }
    }
    kernels
}

/// The kernels of `steps` decode steps as replays of one CUDA graph: one correlation id a step, one
/// node a kernel.
pub(crate) fn graph_kernels(steps: u64) -> Vec<GpuWork> {
    const FIRST_NODE: u64 = 7 << 32;
    let mut kernels = kernels(steps);
    for (index, kernel) in (0..).zip(&mut kernels) {
        kernel.correlation = 100_000 + 5 * (index / KERNELS_PER_STEP);
        kernel.graph_node = FIRST_NODE + index % KERNELS_PER_STEP;
    }
    kernels
}
