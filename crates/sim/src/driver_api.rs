//! The exported functions of the CUDA driver: device, context, streams, modules, memory.
//!
//! Each is a traced call: it takes a correlation id and fires the enabled callbacks. Pointers are
//! valid or null by the contract of the CUDA driver API; null is answered with an error.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use libloading::os::unix::{Library, RTLD_NOW};

use crate::abi::{
    GraphData, GraphLaunchParams, Handle, LaunchKernelParams, Out, Outcome, code, cuda, put,
    refuse, refuse_if, resource,
};
use crate::callbacks::{CONTEXT, Call};
use crate::calls::{self, Api};
use crate::objects::graph_handle;
use crate::record::{DEVICE_NAME, Record};
use crate::recorded::{Kernel, Op, Work, recorded};
use crate::state::{State, configure, state};
use crate::{clock, pm};

/// Duration of a copy or fill of no bytes, ns.
const TRANSFER_SETUP_NS: u64 = 1_000;
/// Throughput of copies between host and device, bytes per us (50 GB/s).
const HOST_BYTES_PER_US: u64 = 50_000;
/// Throughput of copies and fills inside the device, bytes per us (2 TB/s).
const DEVICE_BYTES_PER_US: u64 = 2_000_000;

/// Runs a traced call that needs no cuInit before it.
fn call_early(call: impl Into<Call>, body: impl FnOnce(&'static State, u32) -> Outcome) -> u32 {
    let (state, call) = (state(), call.into());
    state.callbacks.run_traced(call, |correlation_id| {
        let start_ns = clock::now_ns();
        let result = code(body(state, correlation_id));
        let cbid = call.api.cbid;
        if state.has_call(cbid) {
            let end_ns = clock::now_ns();
            // SAFETY: gettid takes no argument and cannot fail. glibc 2.17 has no function for it.
            let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
            let record = Record::Api { cbid, start_ns, end_ns, thread, correlation_id, result };
            state.offer(record, end_ns);
        }
        result
    })
}

/// Runs a traced call of an initialised driver.
fn call(call: impl Into<Call>, body: impl FnOnce(&'static State, u32) -> Outcome) -> u32 {
    let owner = state().initialized_in.load(Ordering::Acquire);
    if owner != 0 && owner != std::process::id() {
        // A forked child: no thread of the simulation lives here, so nothing is traced, either.
        return cuda::NOT_INITIALIZED;
    }
    let body = |state, id| if owner == 0 { Err(cuda::NOT_INITIALIZED) } else { body(state, id) };
    call_early(call, body)
}

/// `INVALID_DEVICE` for any but the one device.
fn check_device(device: c_int) -> Outcome {
    if device == 0 { Ok(()) } else { Err(cuda::INVALID_DEVICE) }
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> u32 {
    call_early(calls::INIT, |state, _| {
        if let Some(error) = &state.config_error {
            eprintln!("stage2-sim: {error}");
            return Err(cuda::INVALID_VALUE);
        }
        refuse_if(flags != 0, cuda::INVALID_VALUE)?;
        load_tool();
        refuse(state.config.faults.cu_init)?;
        refuse(state.config.faults.no_device.then_some(cuda::NO_DEVICE))?;
        state.initialized_in.store(std::process::id(), Ordering::Release);
        state.callbacks.resource(resource::CU_INIT_FINISHED, 0, None);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: Out<c_int>) -> u32 {
    call_early(calls::DRIVER_GET_VERSION, |state, _| {
        put(version, c_int::try_from(state.config.driver_version).unwrap_or(c_int::MAX))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: Out<c_int>) -> u32 {
    call(calls::DEVICE_GET_COUNT, |_, _| put(count, 1))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) -> u32 {
    call(calls::DEVICE_GET, |_, _| check_device(ordinal).and_then(|()| put(device, 0)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> u32 {
    call(calls::DEVICE_GET_NAME, |_, _| {
        let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1));
        let room = room.ok_or(cuda::INVALID_VALUE)?;
        check_device(device)?;
        refuse_if(name.is_null(), cuda::INVALID_VALUE)?;
        let bytes = DEVICE_NAME.to_bytes();
        let length = bytes.len().min(room);
        // SAFETY: the caller's buffer holds `length` + 1 bytes and more, by the contract.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, length);
            name.add(length).write(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: Out<c_int>, attribute: u32, device: c_int) -> u32 {
    call(calls::DEVICE_GET_ATTRIBUTE, |_, _| {
        // CUdevice_attribute: the ones that a demo or a report asks for.
        let key = match attribute {
            16 => "multiprocessors",
            75 => "compute_capability_major",
            76 => "compute_capability_minor",
            _ => return Err(cuda::INVALID_VALUE),
        };
        check_device(device)?;
        put(value, c_int::try_from(recorded().device_fact(key)).unwrap_or(c_int::MAX))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) -> u32 {
    call(calls::PRIMARY_CTX_RETAIN, |state, _| {
        check_device(device)?;
        if !state.context.swap(true, Ordering::AcqRel) {
            for record in [Record::Device, Record::Context] {
                state.offer(record, clock::now_ns());
            }
            state.callbacks.resource(resource::CONTEXT_CREATED, 0, None);
        }
        put(context, CONTEXT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32 {
    // The context stays: destroying it is not simulated.
    call(calls::PRIMARY_CTX_RELEASE, |_, _| check_device(device))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    call(calls::CTX_SET_CURRENT, |_, _| match context {
        // One context, current everywhere: what is set is only checked.
        0 | CONTEXT => Ok(()),
        _ => Err(cuda::INVALID_CONTEXT),
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: Out<Handle>) -> u32 {
    call(calls::CTX_GET_CURRENT, |state, _| {
        put(context, if state.context.load(Ordering::Acquire) { CONTEXT } else { 0 })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> u32 {
    call(calls::CTX_SYNCHRONIZE, |state, _| {
        clock::sleep_until(state.timeline.end_of_all_ns());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: Out<Handle>, _flags: u32) -> u32 {
    call(calls::STREAM_CREATE, |state, _| {
        let handle = state.timeline.create()?;
        state.callbacks.resource(resource::STREAM_CREATED, handle, None);
        put(stream, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> u32 {
    call(calls::STREAM_DESTROY, |state, _| {
        state.callbacks.resource(resource::STREAM_DESTROY_STARTING, stream, None);
        state.timeline.destroy(stream)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> u32 {
    call(calls::STREAM_SYNCHRONIZE, |state, _| {
        state.timeline.end_ns(stream).map(clock::sleep_until)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: Out<Handle>, image: *const c_void) -> u32 {
    call(calls::MODULE_LOAD_DATA, |state, _| {
        refuse_if(image.is_null(), cuda::INVALID_VALUE)?;
        put(module, state.objects.lock().load_module())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> u32 {
    call(calls::MODULE_UNLOAD, |state, _| state.objects.lock().check_module(module))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: Out<Handle>,
    module: Handle,
    name: *const c_char,
) -> u32 {
    call(calls::MODULE_GET_FUNCTION, |state, _| {
        refuse_if(name.is_null(), cuda::INVALID_VALUE)?;
        state.objects.lock().check_module(module)?;
        // SAFETY: a C string of the caller, by the contract of the driver API.
        put(function, state.objects.lock().function(unsafe { CStr::from_ptr(name) })?)
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: Handle,
    kernel_params: *const c_void,
    extra: *const c_void,
) -> u32 {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let params =
        LaunchKernelParams { function, grid, block, shared_bytes, stream, kernel_params, extra };
    let known = state().objects.lock().get_function(function);
    let traced = Call {
        api: calls::LAUNCH_KERNEL,
        params: (&raw const params).cast(),
        symbol: known.map_or(ptr::null(), |known| known.kernel.name.as_ptr()),
    };
    call(traced, |state, id| {
        let known = known.ok_or(cuda::INVALID_HANDLE)?;
        refuse_if(grid.contains(&0) || block.contains(&0), cuda::INVALID_VALUE)?;
        let kernel = Kernel { grid, block, dynamic_shared_bytes: shared_bytes, ..known.kernel };
        let op = Op::new(Work::Kernel(kernel), known.duration_ns);
        state.launch(id, stream, op)
    })
}

/// A copy or fill of `bytes` at a throughput in bytes per us.
fn transfer(work: Work, bytes: u64, per_us: u64) -> Op {
    Op::new(work, TRANSFER_SETUP_NS.saturating_add(bytes.saturating_mul(1_000) / per_us))
}

fn copy(api: Api, bytes: usize, copy_kind: u8, stream: Handle) -> u32 {
    let bytes = bytes as u64;
    let op = transfer(Work::Memcpy { bytes, copy_kind }, bytes, HOST_BYTES_PER_US);
    call(api, |state, id| state.launch(id, stream, op))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(_to: u64, _from: Handle, bytes: usize, stream: Handle) -> u32 {
    copy(calls::MEMCPY_HTOD_ASYNC, bytes, 1, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(_to: Handle, _from: u64, bytes: usize, stream: Handle) -> u32 {
    copy(calls::MEMCPY_DTOH_ASYNC, bytes, 2, stream)
}

/// Waits for the copy, on the default stream.
#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(_to: Handle, _from: u64, bytes: usize) -> u32 {
    let bytes = bytes as u64;
    let op = transfer(Work::Memcpy { bytes, copy_kind: 2 }, bytes, HOST_BYTES_PER_US);
    call(calls::MEMCPY_DTOH, |state, id| {
        state.launch(id, 0, op)?;
        state.timeline.end_ns(0).map(clock::sleep_until)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(_to: u64, value: u8, bytes: usize, stream: Handle) -> u32 {
    call(calls::MEMSET_D8_ASYNC, |state, id| {
        let bytes = bytes as u64;
        let work = Work::Memset { bytes, value: value.into() };
        state.launch(id, stream, transfer(work, bytes, DEVICE_BYTES_PER_US))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) -> u32 {
    call(calls::MEM_ALLOC, |state, _| {
        std::thread::sleep(Duration::from_millis(state.config.faults.slow_alloc_ms));
        put(address, state.objects.lock().allocate(bytes as u64)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    call(calls::MEM_FREE, |state, _| state.objects.lock().free(address))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: Handle, _mode: u32) -> u32 {
    call(calls::STREAM_BEGIN_CAPTURE, |state, _| {
        if stream <= 2 {
            // The default stream cannot be captured.
            return Err(cuda::CAPTURE_UNSUPPORTED);
        }
        refuse_if(state.timeline.capture(stream)?.is_some(), cuda::ILLEGAL_STATE)?;
        let graph = graph_handle(state.objects.lock().create_graph()?);
        let data = GraphData { graph, ..GraphData::default() };
        state.callbacks.resource(resource::GRAPH_CREATED, stream, Some(&data));
        state.timeline.set_capture(stream, Some(graph)).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamEndCapture(stream: Handle, graph: Out<Handle>) -> u32 {
    call(calls::STREAM_END_CAPTURE, |state, _| {
        let captured = state.timeline.set_capture(stream, None)?;
        put(graph, captured.ok_or(cuda::ILLEGAL_STATE)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(exec: Out<Handle>, graph: Handle, _flags: u64) -> u32 {
    call(calls::GRAPH_INSTANTIATE, |state, _| put(exec, state.instantiate(graph)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(graph_exec: Handle, stream: Handle) -> u32 {
    let params = GraphLaunchParams { graph_exec, stream };
    let params = (&raw const params).cast();
    let traced = Call { api: calls::GRAPH_LAUNCH, params, symbol: ptr::null() };
    call(traced, |state, id| state.launch_graph(id, graph_exec, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(graph_exec: Handle) -> u32 {
    call(calls::GRAPH_EXEC_DESTROY, |state, _| {
        let data = GraphData { graph_exec, ..GraphData::default() };
        state.callbacks.resource(resource::GRAPHEXEC_DESTROY_STARTING, 0, Some(&data));
        state.objects.lock().destroy_exec(graph_exec)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> u32 {
    call(calls::GRAPH_DESTROY, |state, _| {
        let data = GraphData { graph, ..GraphData::default() };
        state.callbacks.resource(resource::GRAPH_DESTROY_STARTING, 0, Some(&data));
        state.objects.lock().destroy_graph(graph)
    })
}

/// Ends all kernels that run until this call.
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_release() -> u32 {
    clock::release();
    // Their buffers may be complete.
    state().wake();
    1
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(error: u32, name: Out<*const c_char>) -> u32 {
    code(put(name, error_text(error).0.as_ptr()))
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(error: u32, text: Out<*const c_char>) -> u32 {
    code(put(text, error_text(error).1.as_ptr()))
}

fn error_text(error: u32) -> (&'static CStr, &'static CStr) {
    match error {
        cuda::SUCCESS => (c"CUDA_SUCCESS", c"no error"),
        cuda::INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        cuda::OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        cuda::NOT_INITIALIZED => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        cuda::NO_DEVICE => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        cuda::INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        cuda::INVALID_CONTEXT => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        cuda::INVALID_HANDLE => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        cuda::ILLEGAL_STATE => (c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed"),
        cuda::CAPTURE_UNSUPPORTED => (
            c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            c"operation not permitted when stream is capturing",
        ),
        _ => (c"CUDA_ERROR_UNKNOWN", c"an error that the simulation was asked to produce"),
    }
}

/// The version of the library's own functions. By this symbol a collector recognises the simulator.
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_version() -> u32 {
    1
}

/// Sets a `STAGE2_SIM_*` variable for this copy of the library; 1 if it is too late or none of ours.
#[unsafe(no_mangle)]
unsafe extern "C" fn stage2_sim_configure(name: *const c_char, value: *const c_char) -> u32 {
    if name.is_null() || value.is_null() {
        return 1;
    }
    // SAFETY: not null, so C strings of the caller, by the contract of this function.
    let (name, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value)) };
    match (name.to_str(), value.to_str()) {
        (Ok(name), Ok(value)) => u32::from(!configure(name, value)),
        _ => 1,
    }
}

fn sequence(number: u32) -> &'static [Op] {
    recorded().sequences.get(number as usize).map_or(&[], Vec::as_slice)
}

fn count<'a>(ops: impl Iterator<Item = &'a Op>) -> u32 {
    u32::try_from(ops.count()).unwrap_or(u32::MAX)
}

/// Operations of a recorded sequence (0 prefill, 1 decode step, 2 graph replay), or 0.
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_sequence_length(number: u32) -> u32 {
    count(sequence(number).iter())
}

/// Kernels among them.
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_sequence_kernels(number: u32) -> u32 {
    count(sequence(number).iter().filter(|op| matches!(op.work, Work::Kernel(_))))
}

/// The layer that a recorded operation belongs to, or -1.
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_sequence_layer(number: u32, index: u32) -> c_int {
    let op = sequence(number).get(index as usize);
    op.and_then(|op| op.layer).and_then(|layer| c_int::try_from(layer).ok()).unwrap_or(-1)
}

/// Bytes that a recorded operation reads from memory, as sampled counters have it.
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_read_bytes(number: u32, index: u32) -> u64 {
    sequence(number).get(index as usize).map_or(0, |op| pm::read_bytes(&op.work))
}

/// Launches a recorded operation as the call that launched it (for a kernel, cuLaunchKernel).
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_launch_recorded(number: u32, index: u32, stream: Handle) -> u32 {
    let Some(&op) = sequence(number).get(index as usize) else {
        return cuda::INVALID_VALUE;
    };
    // As in the capture, the first operation follows whatever ran before it.
    let traced = match op.work {
        Work::Kernel(kernel) => {
            Call { symbol: kernel.name.as_ptr(), ..calls::LAUNCH_KERNEL.into() }
        }
        Work::Memcpy { copy_kind: 1, .. } => calls::MEMCPY_HTOD_ASYNC.into(),
        Work::Memcpy { copy_kind: 2, .. } => calls::MEMCPY_DTOH_ASYNC.into(),
        Work::Memcpy { .. } => calls::MEMCPY_DTOD_ASYNC.into(),
        Work::Memset { .. } => calls::MEMSET_D8_ASYNC.into(),
    };
    call(traced, |state, id| state.launch(id, stream, op))
}

/// Names the tool to load.
const TOOL: &str = "CUDA_INJECTION64_PATH";
/// File name of the library of Nsight Systems, up to where versions differ.
const NSYS: &str = "libToolsInjection";

static LOADED: Once = Once::new();

thread_local! {
    static LOADING: Cell<bool> = const { Cell::new(false) };
}

/// Loads the tool once per process and calls its `InitializeInjection`. Each failure is a line on stderr,
/// where the real driver is silent: a test that injects nothing proves nothing.
fn load_tool() {
    // The tool may call cuInit from its entry point; waiting for ourselves would never end.
    if LOADING.get() {
        return;
    }
    LOADED.call_once(|| {
        LOADING.set(true);
        if let Err(error) = load_named_tool() {
            eprintln!("stage2-sim: {TOOL}: {error:#}");
        }
        LOADING.set(false);
    });
}

fn load_named_tool() -> anyhow::Result<()> {
    let Some(path) = std::env::var_os(TOOL).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let path = Path::new(&path);
    let shown = path.display();
    // It brings a CUPTI of its own, which asks NVIDIA's driver for tables that are not public, and
    // reads them without a look at whether there are any.
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(NSYS.as_bytes())) {
        bail!(
            "{shown} is not loaded: Nsight Systems needs NVIDIA's driver, and would crash here; \
             NVTX ranges are still recorded (nsys profile --trace=nvtx)"
        );
    }
    // SAFETY: what the library's constructors do is the choice of whoever set the variable.
    let library = unsafe { Library::open(Some(path), RTLD_NOW) };
    // It stays loaded until the process ends.
    let library = ManuallyDrop::new(library.with_context(|| format!("cannot load {shown}"))?);
    // SAFETY: the symbol has this type by the contract of the variable.
    let entry = unsafe { library.get::<extern "C" fn() -> c_int>("InitializeInjection") };
    let entry = entry
        .map_err(|_| anyhow!("{shown} has no symbol InitializeInjection: it is no CUDA tool"))?;
    ensure!(entry() != 0, "InitializeInjection of {shown} reports that it failed");
    Ok(())
}
