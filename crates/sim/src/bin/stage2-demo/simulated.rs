//! The simulated GPU: the recorded sequences of libstage2_sim.so, launched one by one.

use std::ffi::c_int;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use libloading::Library;

use crate::driver::{Driver, get};
use crate::gpu::{Gpu, Launch, LaunchRecorded, Part, Sequence, Unavailable};

/// File name of the library.
const LIBRARY: &str = "libstage2_sim.so";
/// The version of the library's own functions that this program was written for.
const VERSION: u32 = 1;
/// Elements of the prompt: 512 token ids of 8 bytes.
const PROMPT_ELEMENTS: usize = 512 * 8 / size_of::<f32>();

/// Loads the library and initialises its driver.
///
/// # Errors
/// [`Unavailable`]: the library is not there, is another one, or was asked to fail.
pub(crate) fn open(path: Option<&Path>) -> Result<Gpu> {
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

/// The library's own functions.
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
