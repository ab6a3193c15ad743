//! Opens the device of the demo: the first GPU of the machine, or the simulated one.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use libloading::Library;

use crate::gpu::{Driver, Gpu, Handle, Launch, LaunchRecorded, Part, Sequence, Unavailable, get};

/// What to do about a GPU that cannot be used.
const REMEDY: &str = "run on a machine with an NVIDIA GPU and driver (nvidia-smi shows both), or \
                      use --device simulated";
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

/// Loads the driver, takes the first GPU and compiles the kernels for it; [`Unavailable`] without either.
pub(crate) fn open_gpu() -> Result<Gpu> {
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

const LIBRARY: &str = "libstage2_sim.so";
/// The version of the library's own functions that this program was written for.
const VERSION: u32 = 1;
/// Elements of the prompt: 512 token ids of 8 bytes.
const PROMPT_ELEMENTS: usize = 512 * 8 / size_of::<f32>();

/// Loads the library and initialises its driver; [`Unavailable`] where that cannot be, or shall fail.
pub(crate) fn open_simulated(path: Option<&Path>) -> Result<Gpu> {
    let path = path.map_or_else(default_path, Path::to_path_buf);
    let shown = path.display();
    // SAFETY: the library has no constructors; it is the one that this package builds.
    let library = unsafe { Library::new(&path) }.map_err(|error| {
        Unavailable(format!(
            "cannot load the simulated GPU {shown}: {error}; build it with `cargo build -p \
             stage2-sim`, or name it with --sim"
        ))
    })?;
    let foreign = |error: libloading::Error| {
        Unavailable(format!(
            "{shown} is not the simulated GPU of this version: {error}; rebuild it with `cargo \
             build -p stage2-sim`"
        ))
    };
    // SAFETY: the symbol is a function of this type in every version of the library.
    let version = unsafe { get::<unsafe extern "C" fn() -> u32>(&library, "stage2_sim_version") };
    // SAFETY: the function takes nothing and has no preconditions.
    let version = unsafe { version.map_err(foreign)?() };
    if version != VERSION {
        bail!(Unavailable(format!(
            "{shown} has version {version} and this program needs {VERSION}; rebuild both with \
             `cargo build -p stage2-sim`"
        )));
    }
    // SAFETY: version 1 exports these functions with these types.
    let (recorded, driver) = unsafe {
        let recorded = SequenceApi::load(&library).map_err(foreign)?;
        (recorded, Driver::load(library).map_err(foreign)?)
    };
    // SAFETY: cuInit takes flags, which must be 0.
    if let Err(error) = driver.check("cuInit", unsafe { (driver.init)(0) }) {
        let remedy = "check STAGE2_SIM_FAULT and the other STAGE2_SIM_ variables";
        bail!(Unavailable(format!("the simulated GPU does not start: {error}; {remedy}")));
    }
    let sequences = [0, 1, 2].map(|number| recorded.sequence(number));
    let (name, context) = driver.open_device(0)?;
    let prompt_elements = PROMPT_ELEMENTS;
    Ok(Gpu { driver, name, is_simulated: true, context, sequences, prompt_elements })
}

fn default_path() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("."));
    // Beside the program; where only tests were built, one folder down.
    let found = [folder.join(LIBRARY), folder.join("deps").join(LIBRARY)];
    found.iter().find(|path| path.exists()).unwrap_or(&found[0]).clone()
}

struct SequenceApi {
    length: unsafe extern "C" fn(u32) -> u32,
    kernels: unsafe extern "C" fn(u32) -> u32,
    layer: unsafe extern "C" fn(u32, u32) -> c_int,
    launch: LaunchRecorded,
}

impl SequenceApi {
    /// # Safety
    /// The library exports these names with the types of the fields.
    unsafe fn load(library: &Library) -> Result<SequenceApi, libloading::Error> {
        // SAFETY: by the contract of this function.
        unsafe {
            Ok(SequenceApi {
                length: get(library, "stage2_sim_sequence_length")?,
                kernels: get(library, "stage2_sim_sequence_kernels")?,
                layer: get(library, "stage2_sim_sequence_layer")?,
                launch: get(library, "stage2_sim_launch_recorded")?,
            })
        }
    }

    /// A recorded sequence; consecutive operations of the same layer are one part.
    fn sequence(&self, number: u32) -> Sequence {
        // SAFETY: any number is answered, with 0 if there is no such sequence.
        let (length, kernels) = unsafe { ((self.length)(number), (self.kernels)(number)) };
        let mut parts: Vec<Part> = Vec::new();
        for index in 0..length {
            // SAFETY: any two numbers are answered.
            let layer = u32::try_from(unsafe { (self.layer)(number, index) }).ok();
            let launch = Launch::Recorded { launch: self.launch, sequence: number, index };
            match parts.last_mut() {
                Some(part) if part.layer == layer => part.launches.push(launch),
                _ => parts.push(Part { layer, launches: vec![launch] }),
            }
        }
        Sequence { parts, kernels: kernels as usize }
    }
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
