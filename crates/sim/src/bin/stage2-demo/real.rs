//! The first GPU of the machine: the kernels of kernels.ptx through the CUDA driver, which is
//! loaded at run time.

use std::ffi::{CString, c_void};

use anyhow::{Context, Result, bail};
use cudarc::driver::DriverError;
use cudarc::driver::result::{self, device, graph, module, primary_ctx, stream};
use cudarc::driver::sys;

use crate::gpu::{Gpu, Lane, Stage, Unavailable};
use crate::ptx;

/// What to do about a GPU that cannot be used.
const REMEDY: &str = "run on a machine with an NVIDIA GPU and driver (nvidia-smi shows both), or \
                      use --device simulated";

/// A GPU and the kernels on it.
pub(crate) struct RealGpu {
    name: String,
    context: sys::CUcontext,
    functions: Vec<sys::CUfunction>,
}

// SAFETY: the driver's handles may be used from every thread; the driver locks where it must.
unsafe impl Sync for RealGpu {}

impl RealGpu {
    /// Loads the driver, takes the first GPU and compiles the kernels for it.
    ///
    /// # Errors
    /// [`Unavailable`]: no driver or no GPU.
    pub(crate) fn open() -> Result<RealGpu> {
        // SAFETY: looks for the library only.
        if !unsafe { sys::is_culib_present() } {
            bail!(Unavailable(format!("the CUDA driver (libcuda.so.1) is not there; {REMEDY}")));
        }
        let missing = |what: &str, error: DriverError| {
            Unavailable(format!("{what}: {}; {REMEDY}", describe(error)))
        };
        result::init().map_err(|error| missing("the CUDA driver does not start", error))?;
        let count = device::get_count().map_err(|error| missing("cannot count GPUs", error))?;
        if count == 0 {
            bail!(Unavailable(format!("the CUDA driver sees no GPU; {REMEDY}")));
        }
        let device = device::get(0).map_err(|error| missing("cannot open the first GPU", error))?;
        let name = device::get_name(device).map_err(failed("cuDeviceGetName"))?;
        // SAFETY: the device is the one that was just opened.
        let context = unsafe { primary_ctx::retain(device) }
            .map_err(|error| missing("the first GPU gives no context", error))?;
        // SAFETY: the context was retained and is never released.
        unsafe { result::ctx::set_current(context) }.map_err(failed("cuCtxSetCurrent"))?;
        let text = CString::new(include_str!("kernels.ptx")).context("kernels.ptx holds a NUL")?;
        // SAFETY: PTX as a C string.
        let module = unsafe { module::load_data(text.as_ptr().cast()) }.map_err(failed(
            "compiling the demo's kernels (cuModuleLoadData; needs compute capability 7.0)",
        ))?;
        let functions = ptx::NAMES
            .iter()
            // SAFETY: the module was loaded and is never unloaded.
            .map(|name| unsafe { module::get_function(module, CString::from(*name)) })
            .collect::<Result<_, _>>()
            .map_err(failed("cuModuleGetFunction"))?;
        Ok(RealGpu { name, context, functions })
    }
}

fn describe(error: DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|_| format!("CUDA error {}", error.0 as u32))
}

fn failed(what: &'static str) -> impl Fn(DriverError) -> anyhow::Error {
    move |error| anyhow::anyhow!("{what} failed with {}", describe(error))
}

impl Gpu for RealGpu {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn kernels(&self, _stage: Stage) -> usize {
        ptx::kernels()
    }

    fn lane(&self) -> Result<Box<dyn Lane + '_>> {
        // SAFETY: the context is alive as long as the process.
        unsafe { result::ctx::set_current(self.context) }.map_err(failed("cuCtxSetCurrent"))?;
        let stream =
            stream::create(stream::StreamKind::NonBlocking).map_err(failed("cuStreamCreate"))?;
        let host = vec![0.5; ptx::PREFILL_ELEMENTS as usize];
        let bytes = std::mem::size_of_val(host.as_slice());
        // SAFETY: a context is current; the memory is used only on this lane's stream.
        let data = unsafe { result::malloc_sync(bytes) };
        let data = data.map_err(failed("allocating 4 MB of GPU memory"))?;
        Ok(Box::new(RealLane { gpu: self, stream, data, host, token: [0.0; 2], graph: None }))
    }
}

struct RealLane<'a> {
    gpu: &'a RealGpu,
    stream: sys::CUstream,
    /// The array that every kernel works on.
    data: sys::CUdeviceptr,
    /// What is copied into it.
    host: Vec<f32>,
    /// What is copied out of it.
    token: [f32; 2],
    /// The captured graph and its executable.
    graph: Option<(sys::CUgraph, sys::CUgraphExec)>,
}

impl Lane for RealLane<'_> {
    fn parts(&self, _stage: Stage) -> Vec<Option<u32>> {
        ptx::parts()
    }

    fn launch(&mut self, stage: Stage, part: usize) -> Result<()> {
        for mut launch in ptx::launches(stage, part) {
            let Some(&function) = self.gpu.functions.get(launch.kernel) else {
                bail!("the demo has no kernel {}", launch.kernel);
            };
            let mut params: [*mut c_void; 3] = [
                (&raw mut self.data).cast(),
                (&raw mut launch.elements).cast(),
                (&raw mut launch.repeats).cast(),
            ];
            let grid = (launch.elements / ptx::BLOCK, 1, 1);
            // SAFETY: the kernels take (u64, u32, u32), copied before the call returns, and touch
            // `elements` floats of an array that has that many.
            unsafe {
                result::launch_kernel(
                    function,
                    grid,
                    (ptx::BLOCK, 1, 1),
                    0,
                    self.stream,
                    &mut params,
                )
            }
            .map_err(failed("cuLaunchKernel"))?;
        }
        Ok(())
    }

    fn upload(&mut self) -> Result<()> {
        // SAFETY: the device array is as long as the host's, which lives until the stream is done.
        unsafe { result::memcpy_htod_async(self.data, &self.host, self.stream) }
            .map_err(failed("cuMemcpyHtoDAsync"))
    }

    fn download(&mut self) -> Result<()> {
        // SAFETY: the device array is longer; the host's lives until the stream is done.
        unsafe { result::memcpy_dtoh_async(&mut self.token, self.data, self.stream) }
            .map_err(failed("cuMemcpyDtoHAsync"))
    }

    fn synchronize(&mut self) -> Result<()> {
        // SAFETY: the stream is alive.
        unsafe { stream::synchronize(self.stream) }.map_err(failed("cuStreamSynchronize"))
    }

    fn begin_capture(&mut self) -> Result<()> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        unsafe { stream::begin_capture(self.stream, mode) }.map_err(failed("cuStreamBeginCapture"))
    }

    fn end_capture(&mut self) -> Result<()> {
        // SAFETY: the stream is alive and being captured.
        let captured = unsafe { stream::end_capture(self.stream) };
        let captured = captured.map_err(failed("cuStreamEndCapture"))?;
        // SAFETY: the graph was just captured.
        let exec = unsafe { graph::instantiate(captured, sys::CUgraphInstantiate_flags(0)) };
        self.graph = Some((captured, exec.map_err(failed("cuGraphInstantiate"))?));
        Ok(())
    }

    fn replay(&mut self) -> Result<()> {
        let Some((_, exec)) = self.graph else { bail!("there is no captured graph to replay") };
        // SAFETY: graph and stream are alive.
        unsafe { graph::launch(exec, self.stream) }.map_err(failed("cuGraphLaunch"))
    }
}

impl Drop for RealLane<'_> {
    fn drop(&mut self) {
        // SAFETY: the handles are alive and not used again; the stream is done before its memory
        // goes. Errors at this point have no one to tell.
        unsafe {
            let _ = stream::synchronize(self.stream);
            if let Some((captured, exec)) = self.graph {
                let _ = graph::exec_destroy(exec);
                let _ = graph::destroy(captured);
            }
            let _ = result::free_sync(self.data);
            let _ = stream::destroy(self.stream);
        }
    }
}
