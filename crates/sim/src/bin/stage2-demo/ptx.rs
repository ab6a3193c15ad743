//! A stage of the network into launches of the kernels in kernels.ptx.

use std::ffi::CStr;

use crate::gpu::Stage;

/// Layers of the network.
pub(crate) const LAYERS: u32 = 16;
/// Threads of a block; the kernels count on it.
pub(crate) const BLOCK: u32 = 256;
/// Elements that a prefill works on: 512 tokens of 2048.
pub(crate) const PREFILL_ELEMENTS: u32 = 512 * 2048;
/// Elements that a decode step works on: one token.
const STEP_ELEMENTS: u32 = 2048;

/// The kernels, by the index that [`Launch::kernel`] has.
pub(crate) const NAMES: [&CStr; 8] = [
    c"demo_embed",
    c"demo_gemm",
    c"demo_rmsnorm",
    c"demo_rope",
    c"demo_softmax",
    c"demo_silu",
    c"demo_residual_add",
    c"demo_argmax",
];
const EMBED: usize = 0;
const GEMM: usize = 1;
const RMSNORM: usize = 2;
const ROPE: usize = 3;
const SOFTMAX: usize = 4;
const SILU: usize = 5;
const RESIDUAL_ADD: usize = 6;
const ARGMAX: usize = 7;

/// (kernel, repeats for a prefill; a decode step repeats a quarter as often).
const HEAD: &[(usize, u32)] = &[(EMBED, 0)];
const LAYER: &[(usize, u32)] = &[
    (RMSNORM, 0),
    (GEMM, 256),
    (ROPE, 0),
    (SOFTMAX, 0),
    (GEMM, 128),
    (RESIDUAL_ADD, 0),
    (RMSNORM, 0),
    (GEMM, 512),
    (SILU, 0),
    (GEMM, 512),
    (RESIDUAL_ADD, 0),
];
const TAIL: &[(usize, u32)] = &[(RMSNORM, 0), (GEMM, 1024), (ARGMAX, 0)];

/// One launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Index into [`NAMES`].
    pub(crate) kernel: usize,
    /// Elements, one thread each; a multiple of [`BLOCK`].
    pub(crate) elements: u32,
    /// Turns of the kernel's loop.
    pub(crate) repeats: u32,
}

/// The parts of a stage: the head, every layer, the tail.
pub(crate) fn parts() -> Vec<Option<u32>> {
    std::iter::once(None).chain((0..LAYERS).map(Some)).chain([None]).collect()
}

/// The launches of a part.
pub(crate) fn launches(stage: Stage, part: usize) -> impl Iterator<Item = Launch> {
    let kernels = match part {
        0 => HEAD,
        part if part <= LAYERS as usize => LAYER,
        _ => TAIL,
    };
    let (elements, divisor) = match stage {
        Stage::Prefill => (PREFILL_ELEMENTS, 1),
        Stage::Step | Stage::Captured => (STEP_ELEMENTS, 4),
    };
    kernels.iter().map(move |&(kernel, repeats)| Launch {
        kernel,
        elements,
        repeats: repeats / divisor,
    })
}

/// Launches of one pass through any stage.
pub(crate) fn kernels() -> usize {
    HEAD.len() + LAYERS as usize * LAYER.len() + TAIL.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_launches_as_many_kernels_as_it_says() {
        for stage in [Stage::Prefill, Stage::Step, Stage::Captured] {
            let launched: usize = (0..parts().len()).map(|p| launches(stage, p).count()).sum();
            assert_eq!((launched, kernels()), (180, 180));
        }
    }

    #[test]
    fn every_kernel_is_in_the_text_and_gets_whole_blocks() {
        let text = include_str!("kernels.ptx");
        for name in NAMES {
            assert!(text.contains(&format!(".entry {}(", name.to_str().expect("ASCII"))));
        }
        for part in 0..parts().len() {
            for launch in launches(Stage::Step, part) {
                assert_eq!(launch.elements % BLOCK, 0);
                assert!(launch.kernel < NAMES.len());
            }
        }
    }
}
