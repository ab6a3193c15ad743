//! A GPU, real or simulated: what each stage of the workload launches, and the streams to do it on.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use anyhow::{Result, bail};
use libloading::Library;

/// Threads of a block; the kernels of kernels.ptx count on it.
pub(crate) const BLOCK: u32 = 256;

/// A part of the workload whose operations a device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The whole prompt at once.
    Prefill,
    Step,
    /// One token, as it is captured into a graph.
    Captured,
}

pub(crate) type LaunchRecorded = unsafe extern "C" fn(u32, u32, Handle) -> u32;

/// A kernel of kernels.ptx runs over `elements`, one thread each; a multiple of [`BLOCK`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Launch {
    Kernel { function: Handle, elements: u32, repeats: u32 },
    Recorded { launch: LaunchRecorded, sequence: u32, index: u32 },
}

/// Launches that belong to the same layer of the network, or come before or behind all layers.
pub(crate) struct Part {
    pub(crate) layer: Option<u32>,
    pub(crate) launches: Vec<Launch>,
}

pub(crate) struct Sequence {
    pub(crate) parts: Vec<Part>,
    /// Kernels among the launches.
    pub(crate) kernels: usize,
}

pub(crate) struct Gpu {
    pub(crate) driver: Driver,
    /// A simulated one says that it is.
    pub(crate) name: String,
    pub(crate) is_simulated: bool,
    pub(crate) context: Handle,
    /// By [`Stage`].
    pub(crate) sequences: [Sequence; 3],
    /// Elements (f32) of the prompt, which is copied to the device.
    pub(crate) prompt_elements: usize,
}

/// The asked-for device cannot be used: why, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(pub(crate) String);

impl Gpu {
    pub(crate) fn sequence(&self, stage: Stage) -> &Sequence {
        &self.sequences[stage as usize]
    }

    /// A stream for the calling thread, with what it needs to launch.
    pub(crate) fn lane(&self) -> Result<Lane<'_>> {
        let driver = &self.driver;
        let (mut stream, mut data) = (0, 0);
        let host = vec![0.5; self.prompt_elements];
        // SAFETY: the context lives as long as the process; the out-pointers are valid.
        unsafe {
            driver.check("cuCtxSetCurrent", (driver.set_context)(self.context))?;
            // 1 is CU_STREAM_NON_BLOCKING.
            driver.check("cuStreamCreate", (driver.stream_create)(&raw mut stream, 1))?;
            // The simulated GPU has no memory, and looks at no address.
            if !self.is_simulated {
                let bytes = size_of_val(host.as_slice());
                driver.check("cuMemAlloc", (driver.allocate)(&raw mut data, bytes))?;
            }
        }
        Ok(Lane { gpu: self, stream, data, host, token: [0.0; 2], graph: None })
    }
}

pub(crate) struct Lane<'a> {
    pub(crate) gpu: &'a Gpu,
    stream: Handle,
    /// The array on the device that every kernel works on; 0 on the simulated GPU.
    data: Handle,
    /// What is copied into it.
    host: Vec<f32>,
    /// What is copied out of it.
    token: [f32; 2],
    /// The captured graph and its executable.
    graph: Option<(Handle, Handle)>,
}

impl Lane<'_> {
    pub(crate) fn launch(&mut self, part: &Part) -> Result<()> {
        part.launches.iter().try_for_each(|launch| self.launch_one(*launch))
    }

    fn launch_one(&mut self, launch: Launch) -> Result<()> {
        let driver = &self.gpu.driver;
        match launch {
            Launch::Recorded { launch, sequence, index } => {
                // SAFETY: any numbers are answered, a wrong one with an error.
                let result = unsafe { launch(sequence, index, self.stream) };
                driver.check("the launch of a recorded operation", result)
            }
            Launch::Kernel { function, mut elements, mut repeats } => {
                let mut params: [*mut c_void; 3] = [
                    (&raw mut self.data).cast(),
                    (&raw mut elements).cast(),
                    (&raw mut repeats).cast(),
                ];
                let (grid, params) = (elements / BLOCK, params.as_mut_ptr());
                let (launch, stream) = (driver.launch_kernel, self.stream);
                // SAFETY: the kernels take (u64, u32, u32), copied before the call returns, and
                // touch `elements` floats of an array that has that many.
                driver.check("cuLaunchKernel", unsafe {
                    launch(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, params, ptr::null_mut())
                })
            }
        }
    }

    pub(crate) fn upload(&mut self) -> Result<()> {
        let driver = &self.gpu.driver;
        let (from, bytes) = (self.host.as_ptr().cast(), size_of_val(self.host.as_slice()));
        // SAFETY: the device array is as long as the host's, which lives until the stream is done.
        let result = unsafe { (driver.htod)(self.data, from, bytes, self.stream) };
        driver.check("cuMemcpyHtoDAsync", result)
    }

    pub(crate) fn download(&mut self) -> Result<()> {
        let driver = &self.gpu.driver;
        let (to, bytes) = (self.token.as_mut_ptr().cast(), size_of_val(&self.token));
        // SAFETY: the device array is longer; the host's lives until the stream is done.
        let result = unsafe { (driver.dtoh)(to, self.data, bytes, self.stream) };
        driver.check("cuMemcpyDtoHAsync", result)
    }

    pub(crate) fn synchronize(&mut self) -> Result<()> {
        let driver = &self.gpu.driver;
        // SAFETY: the stream is alive.
        driver.check("cuStreamSynchronize", unsafe { (driver.stream_synchronize)(self.stream) })
    }

    pub(crate) fn begin_capture(&mut self) -> Result<()> {
        let driver = &self.gpu.driver;
        // SAFETY: the stream is alive; 1 is CU_STREAM_CAPTURE_MODE_THREAD_LOCAL.
        driver.check("cuStreamBeginCapture", unsafe { (driver.begin_capture)(self.stream, 1) })
    }

    pub(crate) fn end_capture(&mut self) -> Result<()> {
        let driver = &self.gpu.driver;
        let (mut graph, mut exec) = (0, 0);
        // SAFETY: the stream is alive and being captured; the out-pointers are valid.
        unsafe {
            driver
                .check("cuStreamEndCapture", (driver.end_capture)(self.stream, &raw mut graph))?;
            driver.check("cuGraphInstantiate", (driver.instantiate)(&raw mut exec, graph, 0))?;
        }
        self.graph = Some((graph, exec));
        Ok(())
    }

    pub(crate) fn replay(&mut self) -> Result<()> {
        let Some((_, exec)) = self.graph else { bail!("there is no captured graph to replay") };
        let driver = &self.gpu.driver;
        // SAFETY: graph and stream are alive.
        driver.check("cuGraphLaunch", unsafe { (driver.graph_launch)(exec, self.stream) })
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        let driver = &self.gpu.driver;
        // SAFETY: the handles are alive and not used again; the stream is done before its memory
        // goes. Errors at this point have no one to tell.
        unsafe {
            if self.data != 0 {
                (driver.stream_synchronize)(self.stream);
                (driver.free)(self.data);
            }
            if let Some((graph, exec)) = self.graph {
                (driver.exec_destroy)(exec);
                (driver.graph_destroy)(graph);
            }
            (driver.stream_destroy)(self.stream);
        }
    }
}

/// A handle of the driver or an address on the device; nobody here looks behind it.
pub(crate) type Handle = usize;

macro_rules! driver {
    ($($(#[$doc:meta])* $vis:vis $field:ident: fn($($argument:ty),*) = $symbol:literal;)*) => {
        /// The functions that the demo calls, of NVIDIA's driver or of the simulated one.
        pub(crate) struct Driver {
            $($(#[$doc])* $vis $field: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl Driver {
            /// # Safety
            /// The library exports these names with the types of the fields.
            pub(crate) unsafe fn load(library: Library) -> Result<Driver, libloading::Error> {
                // Never unloaded: threads and exit handlers of a driver run its code to the very end.
                let library = ManuallyDrop::new(library);
                // SAFETY: by the contract of this function.
                unsafe { Ok(Driver { $($field: get(&library, $symbol)?,)* }) }
            }
        }
    };
}

driver! {
    error_name: fn(u32, *mut *const c_char) = "cuGetErrorName";
    pub(crate) init: fn(u32) = "cuInit";
    pub(crate) device_get: fn(*mut c_int, c_int) = "cuDeviceGet";
    device_name: fn(*mut c_char, c_int, c_int) = "cuDeviceGetName";
    retain_context: fn(*mut Handle, c_int) = "cuDevicePrimaryCtxRetain";
    pub(crate) set_context: fn(Handle) = "cuCtxSetCurrent";
    pub(crate) module_load: fn(*mut Handle, *const c_void) = "cuModuleLoadData";
    pub(crate) module_function: fn(*mut Handle, Handle, *const c_char) = "cuModuleGetFunction";
    pub(crate) allocate: fn(*mut Handle, usize) = "cuMemAlloc_v2";
    pub(crate) free: fn(Handle) = "cuMemFree_v2";
    pub(crate) htod: fn(Handle, *const c_void, usize, Handle) = "cuMemcpyHtoDAsync_v2";
    pub(crate) dtoh: fn(*mut c_void, Handle, usize, Handle) = "cuMemcpyDtoHAsync_v2";
    pub(crate) stream_create: fn(*mut Handle, u32) = "cuStreamCreate";
    pub(crate) stream_destroy: fn(Handle) = "cuStreamDestroy_v2";
    pub(crate) stream_synchronize: fn(Handle) = "cuStreamSynchronize";
    /// Function, grid, block, shared bytes, stream, parameters, extra.
    pub(crate) launch_kernel: fn(
        Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void
    ) = "cuLaunchKernel";
    pub(crate) begin_capture: fn(Handle, u32) = "cuStreamBeginCapture_v2";
    pub(crate) end_capture: fn(Handle, *mut Handle) = "cuStreamEndCapture";
    pub(crate) instantiate: fn(*mut Handle, Handle, u64) = "cuGraphInstantiateWithFlags";
    pub(crate) graph_launch: fn(Handle, Handle) = "cuGraphLaunch";
    pub(crate) graph_destroy: fn(Handle) = "cuGraphDestroy";
    pub(crate) exec_destroy: fn(Handle) = "cuGraphExecDestroy";
}

/// A function of a library.
///
/// # Safety
/// The symbol is a function of type `T`.
pub(crate) unsafe fn get<T: Copy>(library: &Library, name: &str) -> Result<T, libloading::Error> {
    // SAFETY: by the contract of this function.
    unsafe { library.get::<T>(name).map(|symbol| *symbol) }
}

impl Driver {
    /// Turns a `CUresult` into an error that names the function and the result.
    pub(crate) fn check(&self, what: &str, result: u32) -> Result<()> {
        if result == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the out-pointer is valid; the function answers every number.
        unsafe { (self.error_name)(result, &raw mut name) };
        if name.is_null() {
            bail!("{what} failed with CUDA error {result}");
        }
        // SAFETY: the driver's names are constants that end with a NUL.
        let name = unsafe { CStr::from_ptr(name) };
        bail!("{what} failed with {} ({result})", name.to_string_lossy())
    }

    pub(crate) fn open_device(&self, device: c_int) -> Result<(String, Handle)> {
        let (mut name, mut context) = ([0; 256], 0);
        // SAFETY: the out-pointers are valid, and 256 is the size of the first.
        unsafe {
            self.check("cuDeviceGetName", (self.device_name)(name.as_mut_ptr(), 256, device))?;
            let retained = (self.retain_context)(&raw mut context, device);
            self.check("cuDevicePrimaryCtxRetain", retained)?;
        }
        let name = name.map(c_char::cast_unsigned);
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok((name.to_string_lossy().into_owned(), context))
    }
}
