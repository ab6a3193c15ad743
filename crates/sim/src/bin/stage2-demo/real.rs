//! The first GPU of the machine, with the kernels of kernels.ptx in the pattern of an LLM.

use std::collections::HashMap;
use std::ffi::{CStr, CString};

use anyhow::{Context, Result, bail};
use libloading::Library;

use crate::driver::{Driver, Handle};
use crate::gpu::{Gpu, Launch, Part, Sequence, Unavailable};

/// What to do about a GPU that cannot be used.
const REMEDY: &str = "run on a machine with an NVIDIA GPU and driver (nvidia-smi shows both), or \
                      use --device simulated";
/// Layers of the network.
const LAYERS: u32 = 16;
/// Elements that a prefill works on: 512 tokens of 2048.
const PREFILL_ELEMENTS: u32 = 512 * 2048;
/// Elements that a decode step works on: one token.
const STEP_ELEMENTS: u32 = 2048;

/// (name of a kernel in kernels.ptx, turns of its loop in a prefill).
type Kernels = &'static [(&'static CStr, u32)];
const HEAD: Kernels = &[(c"demo_embed", 0)];
const LAYER: Kernels = &[
    (c"demo_rmsnorm", 0),
    (c"demo_gemm", 256),
    (c"demo_rope", 0),
    (c"demo_softmax", 0),
    (c"demo_gemm", 128),
    (c"demo_residual_add", 0),
    (c"demo_rmsnorm", 0),
    (c"demo_gemm", 512),
    (c"demo_silu", 0),
    (c"demo_gemm", 512),
    (c"demo_residual_add", 0),
];
const TAIL: Kernels = &[(c"demo_rmsnorm", 0), (c"demo_gemm", 1024), (c"demo_argmax", 0)];

/// Loads the driver, takes the first GPU and compiles the kernels for it.
///
/// # Errors
/// [`Unavailable`]: no driver or no GPU.
pub(crate) fn open() -> Result<Gpu> {
    let unusable =
        |error: anyhow::Error| Unavailable(format!("the GPU cannot be used: {error}; {REMEDY}"));
    let names = ["libcuda.so.1", "libcuda.so"];
    // SAFETY: the driver's initialisers are what a CUDA program runs.
    let library = names.into_iter().find_map(|name| unsafe { Library::new(name) }.ok());
    let Some(library) = library else {
        bail!(Unavailable(format!("the CUDA driver (libcuda.so.1) is not there; {REMEDY}")));
    };
    // SAFETY: a CUDA driver exports these functions with the types of `Driver`.
    let driver = unsafe { Driver::load(library) }.map_err(|error| unusable(error.into()))?;
    let mut device = 0;
    // SAFETY: cuInit takes flags, which must be 0; the out-pointer is valid.
    unsafe {
        driver.check("cuInit", (driver.init)(0)).map_err(unusable)?;
        driver.check("cuDeviceGet", (driver.device_get)(&raw mut device, 0)).map_err(unusable)?;
    }
    let (name, context) = driver.open_device(device).map_err(unusable)?;
    // SAFETY: the context was retained and is never released.
    driver.check("cuCtxSetCurrent", unsafe { (driver.set_context)(context) })?;
    let functions = functions(&driver)?;
    let pass = |elements, divisor| sequence(&functions, elements, divisor);
    let sequences = [pass(PREFILL_ELEMENTS, 1), pass(STEP_ELEMENTS, 4), pass(STEP_ELEMENTS, 4)];
    let prompt_elements = PREFILL_ELEMENTS as usize;
    Ok(Gpu { driver, name, is_simulated: false, context, sequences, prompt_elements })
}

/// The compiled kernels by name.
fn functions(driver: &Driver) -> Result<HashMap<&'static CStr, Handle>> {
    let text = CString::new(include_str!("kernels.ptx")).context("kernels.ptx holds a NUL")?;
    let (mut module, mut functions) = (0, HashMap::new());
    // SAFETY: the out-pointer is valid, and the image is PTX as a C string.
    let loaded = unsafe { (driver.module_load)(&raw mut module, text.as_ptr().cast()) };
    let what = "compiling the demo's kernels (cuModuleLoadData; needs compute capability 7.0)";
    driver.check(what, loaded)?;
    for (name, _) in HEAD.iter().chain(LAYER).chain(TAIL) {
        let function = functions.entry(*name).or_default();
        // SAFETY: the module was loaded and is never unloaded; out-pointer and name are valid.
        let found = unsafe { (driver.module_function)(function, module, name.as_ptr()) };
        driver.check("cuModuleGetFunction", found)?;
    }
    Ok(functions)
}

/// One pass: the head, every layer, the tail. Loops turn `1 / divisor` as often as in a prefill.
fn sequence(functions: &HashMap<&CStr, Handle>, elements: u32, divisor: u32) -> Sequence {
    let part = |layer, kernels: Kernels| {
        let launch = |&(name, repeats): &(&CStr, u32)| Launch::Kernel {
            function: functions[name],
            elements,
            repeats: repeats / divisor,
        };
        Part { layer, launches: kernels.iter().map(launch).collect() }
    };
    let layers = (0..LAYERS).map(|layer| part(Some(layer), LAYER));
    let parts: Vec<Part> =
        std::iter::once(part(None, HEAD)).chain(layers).chain([part(None, TAIL)]).collect();
    let kernels = parts.iter().map(|part| part.launches.len()).sum();
    Sequence { parts, kernels }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::BLOCK;

    fn names() -> impl Iterator<Item = &'static CStr> {
        HEAD.iter().chain(LAYER).chain(TAIL).map(|(name, _)| *name)
    }

    #[test]
    fn a_pass_launches_as_many_kernels_as_it_says_in_whole_blocks() {
        let functions = names().map(|name| (name, 1)).collect();
        for elements in [PREFILL_ELEMENTS, STEP_ELEMENTS] {
            let pass = sequence(&functions, elements, 4);
            let launched: usize = pass.parts.iter().map(|part| part.launches.len()).sum();
            assert_eq!((launched, pass.kernels, pass.parts.len()), (180, 180, 18));
            assert_eq!(elements % BLOCK, 0);
        }
    }

    #[test]
    fn every_kernel_is_in_the_text() {
        let text = include_str!("kernels.ptx");
        for name in names() {
            assert!(text.contains(&format!(".entry {}(", name.to_str().expect("ASCII"))));
        }
    }
}
