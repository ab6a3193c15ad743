//! The simulated GPU: the recorded sequences of libstage2_sim.so, launched one by one.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use libloading::Library;

use crate::gpu::{Gpu, Lane, Stage, Unavailable};

/// File name of the library.
const LIBRARY: &str = "libstage2_sim.so";
/// The version of the library's own functions that this program was written for.
const VERSION: u32 = 1;
/// Bytes of the prompt: 512 token ids of 8 bytes.
const PROMPT_BYTES: usize = 4096;
/// Bytes of a chosen token.
const TOKEN_BYTES: usize = 8;

type Handle = usize;

/// The functions of the library that are used, in the types of its C interface.
struct Api {
    error_name: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
    retain_context: unsafe extern "C" fn(*mut Handle, c_int) -> u32,
    set_context: unsafe extern "C" fn(Handle) -> u32,
    device_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> u32,
    stream_create: unsafe extern "C" fn(*mut Handle, u32) -> u32,
    stream_destroy: unsafe extern "C" fn(Handle) -> u32,
    stream_synchronize: unsafe extern "C" fn(Handle) -> u32,
    begin_capture: unsafe extern "C" fn(Handle, u32) -> u32,
    end_capture: unsafe extern "C" fn(Handle, *mut Handle) -> u32,
    instantiate: unsafe extern "C" fn(*mut Handle, Handle, u64) -> u32,
    graph_destroy: unsafe extern "C" fn(Handle) -> u32,
    exec_destroy: unsafe extern "C" fn(Handle) -> u32,
    graph_launch: unsafe extern "C" fn(Handle, Handle) -> u32,
    htod: unsafe extern "C" fn(u64, *const c_void, usize, Handle) -> u32,
    dtoh: unsafe extern "C" fn(*mut c_void, u64, usize, Handle) -> u32,
    sequence_layer: unsafe extern "C" fn(u32, u32) -> c_int,
    launch_recorded: unsafe extern "C" fn(u32, u32, Handle) -> u32,
    /// Keeps the code behind the pointers loaded.
    _library: Library,
}

/// Consecutive operations of the same layer.
struct Part {
    layer: Option<u32>,
    operations: std::ops::Range<u32>,
}

/// A recorded sequence.
struct Sequence {
    parts: Vec<Part>,
    kernels: usize,
}

/// The simulated GPU.
pub(crate) struct SimulatedGpu {
    api: Api,
    name: String,
    context: Handle,
    sequences: [Sequence; 3],
}

impl SimulatedGpu {
    /// Loads the library and initialises its driver.
    ///
    /// # Errors
    /// [`Unavailable`]: the library is not there, is another one, or was asked to fail.
    pub(crate) fn open(path: Option<&Path>) -> Result<SimulatedGpu> {
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
        let version =
            unsafe { get::<unsafe extern "C" fn() -> u32>(&library, "stage2_sim_version") };
        // SAFETY: the function takes nothing and has no preconditions.
        let version = unsafe { version.map_err(foreign)?() };
        if version != VERSION {
            bail!(Unavailable(format!(
                "{shown} has version {version} and this program needs {VERSION}; rebuild both with \
                 `cargo build -p stage2-sim`"
            )));
        }
        // SAFETY: version 1 exports these functions with the types of `Api`.
        let (api, length, kernels, init) = unsafe {
            let counter = |name| get::<unsafe extern "C" fn(u32) -> u32>(&library, name);
            let length = counter("stage2_sim_sequence_length").map_err(foreign)?;
            let kernels = counter("stage2_sim_sequence_kernels").map_err(foreign)?;
            let init = counter("cuInit").map_err(foreign)?;
            (Api::load(library).map_err(foreign)?, length, kernels, init)
        };
        // SAFETY: cuInit takes flags, which must be 0.
        if let Err(error) = unsafe { api.check("cuInit", init(0)) } {
            let remedy = "check STAGE2_SIM_FAULT and the other STAGE2_SIM_ variables";
            bail!(Unavailable(format!("the simulated GPU does not start: {error}; {remedy}")));
        }
        let sequences = [0, 1, 2].map(|number| {
            // SAFETY: any number is answered, with 0 if there is no such sequence.
            let (length, kernels) = unsafe { (length(number), kernels(number)) };
            Sequence { parts: api.parts(number, length), kernels: kernels as usize }
        });
        let (name, context) = api.open_device()?;
        Ok(SimulatedGpu { api, name, context, sequences })
    }
}

fn default_path() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("."));
    // Beside the program; where only tests were built, one folder down.
    let found = [folder.join(LIBRARY), folder.join("deps").join(LIBRARY)];
    found.iter().find(|path| path.exists()).unwrap_or(&found[0]).clone()
}

/// A function of a library.
///
/// # Safety
/// The symbol is a function of type `T`.
unsafe fn get<T: Copy>(library: &Library, name: &str) -> Result<T, libloading::Error> {
    // SAFETY: by the contract of this function.
    unsafe { library.get::<T>(name).map(|symbol| *symbol) }
}

impl Api {
    /// # Safety
    /// The library exports these names with the types of the fields.
    unsafe fn load(library: Library) -> Result<Api, libloading::Error> {
        // SAFETY: by the contract of this function.
        unsafe {
            Ok(Api {
                error_name: get(&library, "cuGetErrorName")?,
                retain_context: get(&library, "cuDevicePrimaryCtxRetain")?,
                set_context: get(&library, "cuCtxSetCurrent")?,
                device_name: get(&library, "cuDeviceGetName")?,
                stream_create: get(&library, "cuStreamCreate")?,
                stream_destroy: get(&library, "cuStreamDestroy_v2")?,
                stream_synchronize: get(&library, "cuStreamSynchronize")?,
                begin_capture: get(&library, "cuStreamBeginCapture_v2")?,
                end_capture: get(&library, "cuStreamEndCapture")?,
                instantiate: get(&library, "cuGraphInstantiateWithFlags")?,
                graph_destroy: get(&library, "cuGraphDestroy")?,
                exec_destroy: get(&library, "cuGraphExecDestroy")?,
                graph_launch: get(&library, "cuGraphLaunch")?,
                htod: get(&library, "cuMemcpyHtoDAsync_v2")?,
                dtoh: get(&library, "cuMemcpyDtoHAsync_v2")?,
                sequence_layer: get(&library, "stage2_sim_sequence_layer")?,
                launch_recorded: get(&library, "stage2_sim_launch_recorded")?,
                _library: library,
            })
        }
    }

    fn check(&self, what: &str, result: u32) -> Result<()> {
        if result == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the out-pointer is valid; the function answers every number.
        unsafe { (self.error_name)(result, &raw mut name) };
        // SAFETY: the library's names are constants that end with a NUL.
        let name = unsafe { CStr::from_ptr(name) };
        bail!("{what} failed with {} ({result})", name.to_string_lossy())
    }

    fn parts(&self, sequence: u32, length: u32) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for index in 0..length {
            // SAFETY: any two numbers are answered.
            let layer = u32::try_from(unsafe { (self.sequence_layer)(sequence, index) }).ok();
            match parts.last_mut() {
                Some(part) if part.layer == layer => part.operations.end = index + 1,
                _ => parts.push(Part { layer, operations: index..index + 1 }),
            }
        }
        parts
    }

    fn open_device(&self) -> Result<(String, Handle)> {
        let (mut name, mut context) = ([0; 256], 0);
        // SAFETY: the out-pointers are valid, and 256 is the size of the first.
        unsafe {
            self.check("cuDeviceGetName", (self.device_name)(name.as_mut_ptr(), 256, 0))?;
            self.check("cuDevicePrimaryCtxRetain", (self.retain_context)(&raw mut context, 0))?;
        }
        let name = name.map(c_char::cast_unsigned);
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok((name.to_string_lossy().into_owned(), context))
    }
}

impl Gpu for SimulatedGpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn kernels(&self, stage: Stage) -> usize {
        self.sequences[stage as usize].kernels
    }

    fn lane(&self) -> Result<Box<dyn Lane + '_>> {
        let mut stream = 0;
        // SAFETY: the context is the one that was retained; the out-pointer is valid.
        unsafe {
            self.api.check("cuCtxSetCurrent", (self.api.set_context)(self.context))?;
            self.api.check("cuStreamCreate", (self.api.stream_create)(&raw mut stream, 1))?;
        }
        Ok(Box::new(SimulatedLane { gpu: self, stream, graph: None, host: [0; PROMPT_BYTES] }))
    }
}

struct SimulatedLane<'a> {
    gpu: &'a SimulatedGpu,
    stream: Handle,
    /// The captured graph and its executable.
    graph: Option<(Handle, Handle)>,
    host: [u8; PROMPT_BYTES],
}

impl Lane for SimulatedLane<'_> {
    fn parts(&self, stage: Stage) -> Vec<Option<u32>> {
        self.gpu.sequences[stage as usize].parts.iter().map(|part| part.layer).collect()
    }

    fn launch(&mut self, stage: Stage, part: usize) -> Result<()> {
        let Some(part) = self.gpu.sequences[stage as usize].parts.get(part) else {
            bail!("{stage:?} has no part {part}");
        };
        let api = &self.gpu.api;
        for index in part.operations.clone() {
            // SAFETY: any numbers are answered, a wrong one with an error.
            let result = unsafe { (api.launch_recorded)(stage as u32, index, self.stream) };
            api.check("the launch of a recorded operation", result)?;
        }
        Ok(())
    }

    fn upload(&mut self) -> Result<()> {
        let api = &self.gpu.api;
        // SAFETY: the host memory is valid; the simulation looks at no address.
        let result = unsafe { (api.htod)(0, self.host.as_ptr().cast(), PROMPT_BYTES, self.stream) };
        api.check("cuMemcpyHtoDAsync", result)
    }

    fn download(&mut self) -> Result<()> {
        let api = &self.gpu.api;
        let to = self.host.as_mut_ptr().cast();
        // SAFETY: the host memory is valid; the simulation looks at no address.
        let result = unsafe { (api.dtoh)(to, 0, TOKEN_BYTES, self.stream) };
        api.check("cuMemcpyDtoHAsync", result)
    }

    fn synchronize(&mut self) -> Result<()> {
        let api = &self.gpu.api;
        // SAFETY: the stream is alive.
        api.check("cuStreamSynchronize", unsafe { (api.stream_synchronize)(self.stream) })
    }

    fn begin_capture(&mut self) -> Result<()> {
        let api = &self.gpu.api;
        // SAFETY: the stream is alive; 1 is CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
        api.check("cuStreamBeginCapture", unsafe { (api.begin_capture)(self.stream, 1) })
    }

    fn end_capture(&mut self) -> Result<()> {
        let api = &self.gpu.api;
        let (mut graph, mut exec) = (0, 0);
        // SAFETY: the stream is alive and being captured; the out-pointers are valid.
        unsafe {
            api.check("cuStreamEndCapture", (api.end_capture)(self.stream, &raw mut graph))?;
            api.check("cuGraphInstantiate", (api.instantiate)(&raw mut exec, graph, 0))?;
        }
        self.graph = Some((graph, exec));
        Ok(())
    }

    fn replay(&mut self) -> Result<()> {
        let Some((_, exec)) = self.graph else { bail!("there is no captured graph to replay") };
        let api = &self.gpu.api;
        // SAFETY: graph and stream are alive.
        api.check("cuGraphLaunch", unsafe { (api.graph_launch)(exec, self.stream) })
    }
}

impl Drop for SimulatedLane<'_> {
    fn drop(&mut self) {
        let api = &self.gpu.api;
        // SAFETY: the handles are alive and not used again.
        unsafe {
            if let Some((graph, exec)) = self.graph {
                (api.exec_destroy)(exec);
                (api.graph_destroy)(graph);
            }
            (api.stream_destroy)(self.stream);
        }
    }
}
