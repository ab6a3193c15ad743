//! The exported functions of the CUDA driver: device, context, streams, modules, memory.
//!
//! Each is a traced call: it takes a correlation id and fires the enabled callbacks. Pointers are
//! the caller's, under the contract of the CUDA driver API; null is answered with an error.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use crate::abi::{Handle, LaunchKernelParams, cuda, kind, resource};
use crate::callbacks::{CONTEXT, Call};
use crate::calls::{self, Api};
use crate::record::{DEVICE_NAME, Record};
use crate::recorded::{Kernel, Op, Work, recorded};
use crate::state::{State, state};
use crate::{clock, inject};

/// Duration of a copy or fill of no bytes, ns.
const TRANSFER_SETUP_NS: u64 = 1_000;
/// Throughput of copies between host and device, bytes per us (50 GB/s).
const HOST_BYTES_PER_US: u64 = 50_000;
/// Throughput of copies and fills inside the device, bytes per us (2 TB/s).
const DEVICE_BYTES_PER_US: u64 = 2_000_000;

/// Runs a traced call that needs no cuInit before it.
pub(crate) fn call_early(call: Call, body: impl FnOnce(&'static State, u32) -> u32) -> u32 {
    let state = state();
    state.callbacks.traced(call, |correlation_id| {
        let start_ns = clock::now_ns();
        let result = body(state, correlation_id);
        let cbid = call.api.cbid;
        if state.is_enabled(kind::DRIVER) || state.recorded_calls.has(cbid) {
            let end_ns = clock::now_ns();
            // SAFETY: gettid takes no argument and cannot fail.
            let thread_id = unsafe { libc::gettid() }.cast_unsigned();
            let record = Record::Api { cbid, start_ns, end_ns, thread_id, correlation_id, result };
            state.buffers.stage(record, end_ns);
        }
        result
    })
}

/// Runs a traced call of an initialised driver.
pub(crate) fn call(call: Call, body: impl FnOnce(&'static State, u32) -> u32) -> u32 {
    let owner = state().initialized_in.load(Ordering::Acquire);
    if owner != 0 && owner != std::process::id() {
        // A forked child: no thread of the simulation lives here, so nothing is traced, either.
        return cuda::NOT_INITIALIZED;
    }
    call_early(call, |state, id| if owner == 0 { cuda::NOT_INITIALIZED } else { body(state, id) })
}

/// A call without parameters for the callback.
pub(crate) fn plain(api: Api) -> Call {
    Call { api, params: ptr::null(), symbol: ptr::null() }
}

/// Stores a result of a call where the caller wants it; a `CUresult`.
///
/// # Safety
/// `out` is null or valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> u32 {
    if out.is_null() {
        return cuda::INVALID_VALUE;
    }
    // SAFETY: not null, so valid by the contract of this function.
    unsafe { out.write(value) };
    cuda::SUCCESS
}

/// A `CUresult` out of a result without value.
pub(crate) fn code(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(cuda::SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> u32 {
    call_early(plain(calls::INIT), |state, _| {
        if let Some(message) = &state.config_error {
            eprintln!("stage2-sim: {message}");
            return cuda::INVALID_VALUE;
        }
        if flags != 0 {
            return cuda::INVALID_VALUE;
        }
        inject::load_tool();
        if let Some(error) = state.config.faults.cu_init {
            return error;
        }
        if state.config.faults.no_device {
            return cuda::NO_DEVICE;
        }
        state.initialized_in.store(std::process::id(), Ordering::Release);
        state.callbacks.resource(resource::CU_INIT_FINISHED, 0, None);
        cuda::SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    call_early(plain(calls::DRIVER_GET_VERSION), |_, _| {
        let reported = c_int::try_from(state().config.driver_version).unwrap_or(c_int::MAX);
        // SAFETY: the caller's pointer, by the contract of the driver API.
        unsafe { put(version, reported) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    // SAFETY: the caller's pointer, by the contract of the driver API.
    call(plain(calls::DEVICE_GET_COUNT), |_, _| unsafe { put(count, 1) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> u32 {
    call(plain(calls::DEVICE_GET), |_, _| match ordinal {
        // SAFETY: the caller's pointer, by the contract of the driver API.
        0 => unsafe { put(device, 0) },
        _ => cuda::INVALID_DEVICE,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> u32 {
    call(plain(calls::DEVICE_GET_NAME), |_, _| {
        let Some(room) = usize::try_from(length).ok().and_then(|length| length.checked_sub(1))
        else {
            return cuda::INVALID_VALUE;
        };
        if name.is_null() || device != 0 {
            return if device == 0 { cuda::INVALID_VALUE } else { cuda::INVALID_DEVICE };
        }
        let bytes = DEVICE_NAME.to_bytes();
        let length = bytes.len().min(room);
        // SAFETY: the caller's buffer holds `length` + 1 bytes and more, by the contract.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, length);
            name.add(length).write(0);
        }
        cuda::SUCCESS
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: u32, device: c_int) -> u32 {
    call(plain(calls::DEVICE_GET_ATTRIBUTE), |_, _| {
        // CUdevice_attribute: the ones that a demo or a report asks for.
        let key = match attribute {
            16 => "multiprocessors",
            75 => "compute_capability_major",
            76 => "compute_capability_minor",
            _ => return cuda::INVALID_VALUE,
        };
        let known = recorded().ok().and_then(|all| all.device.get(key).copied());
        match known.and_then(|value| c_int::try_from(value).ok()) {
            // SAFETY: the caller's pointer, by the contract of the driver API.
            Some(known) if device == 0 => unsafe { put(value, known) },
            Some(_) => cuda::INVALID_DEVICE,
            None => cuda::INVALID_VALUE,
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> u32 {
    call(plain(calls::PRIMARY_CTX_RETAIN), |state, _| {
        if device != 0 {
            return cuda::INVALID_DEVICE;
        }
        if !state.context.swap(true, Ordering::AcqRel) {
            for (kind, record) in [(kind::DEVICE, Record::Device), (kind::CONTEXT, Record::Context)]
            {
                if state.is_enabled(kind) {
                    state.buffers.stage(record, clock::now_ns());
                }
            }
            state.callbacks.resource(resource::CONTEXT_CREATED, 0, None);
        }
        // SAFETY: the caller's pointer, by the contract of the driver API.
        unsafe { put(context, CONTEXT) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32 {
    call(plain(calls::PRIMARY_CTX_RELEASE), |_, _| match device {
        // The context stays: destroying it is not simulated.
        0 => cuda::SUCCESS,
        _ => cuda::INVALID_DEVICE,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    call(plain(calls::CTX_SET_CURRENT), |_, _| match context {
        // One context, current everywhere: what is set is only checked.
        0 | CONTEXT => cuda::SUCCESS,
        _ => cuda::INVALID_CONTEXT,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> u32 {
    call(plain(calls::CTX_GET_CURRENT), |state, _| {
        let current = if state.context.load(Ordering::Acquire) { CONTEXT } else { 0 };
        // SAFETY: the caller's pointer, by the contract of the driver API.
        unsafe { put(context, current) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> u32 {
    call(plain(calls::CTX_SYNCHRONIZE), |state, _| {
        code(state.timeline.end_ns(None).map(clock::sleep_until))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, _flags: u32) -> u32 {
    call(plain(calls::STREAM_CREATE), |state, _| match state.timeline.create() {
        Ok(handle) => {
            state.callbacks.resource(resource::STREAM_CREATED, handle, None);
            // SAFETY: the caller's pointer, by the contract of the driver API.
            unsafe { put(stream, handle) }
        }
        Err(error) => error,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: Handle) -> u32 {
    call(plain(calls::STREAM_DESTROY), |state, _| {
        state.callbacks.resource(resource::STREAM_DESTROY_STARTING, stream, None);
        code(state.timeline.destroy(stream))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: Handle) -> u32 {
    call(plain(calls::STREAM_SYNCHRONIZE), |state, _| {
        code(state.timeline.end_ns(Some(stream)).map(clock::sleep_until))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> u32 {
    call(plain(calls::MODULE_LOAD_DATA), |state, _| {
        if image.is_null() {
            return cuda::INVALID_VALUE;
        }
        // SAFETY: the caller's pointer, by the contract of the driver API.
        unsafe { put(module, state.objects.load_module()) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> u32 {
    call(plain(calls::MODULE_UNLOAD), |state, _| {
        if state.objects.is_module(module) { cuda::SUCCESS } else { cuda::INVALID_HANDLE }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> u32 {
    call(plain(calls::MODULE_GET_FUNCTION), |state, _| {
        if name.is_null() {
            return cuda::INVALID_VALUE;
        }
        if !state.objects.is_module(module) {
            return cuda::INVALID_HANDLE;
        }
        // SAFETY: a C string of the caller, by the contract of the driver API.
        match state.objects.function(unsafe { CStr::from_ptr(name) }) {
            // SAFETY: the caller's pointer, by the contract of the driver API.
            Ok(handle) => unsafe { put(function, handle) },
            Err(error) => error,
        }
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
    let known = state().objects.get_function(function);
    let traced = Call {
        api: calls::LAUNCH_KERNEL,
        params: (&raw const params).cast(),
        symbol: known.map_or(ptr::null(), |known| known.kernel.name.as_ptr()),
    };
    call(traced, |state, id| {
        let Some(known) = known else { return cuda::INVALID_HANDLE };
        if grid.contains(&0) || block.contains(&0) {
            return cuda::INVALID_VALUE;
        }
        let kernel = Kernel { grid, block, dynamic_shared_bytes: shared_bytes, ..known.kernel };
        let work = Work::Kernel(kernel);
        state.launch(
            id,
            stream,
            Op { work, duration_ns: known.duration_ns, gap_ns: 0, layer: None },
        )
    })
}

fn transfer(state: &State, id: u32, stream: Handle, work: Work) -> u32 {
    let (bytes, per_us) = match work {
        Work::Memcpy { bytes, copy_kind: 1 | 2 } => (bytes, HOST_BYTES_PER_US),
        Work::Memcpy { bytes, .. } | Work::Memset { bytes, .. } => (bytes, DEVICE_BYTES_PER_US),
        Work::Kernel(_) => return cuda::INVALID_VALUE,
    };
    let duration_ns = TRANSFER_SETUP_NS.saturating_add(bytes.saturating_mul(1_000) / per_us);
    state.launch(id, stream, Op { work, duration_ns, gap_ns: 0, layer: None })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(_to: u64, _from: Handle, bytes: usize, stream: Handle) -> u32 {
    call(plain(calls::MEMCPY_HTOD_ASYNC), |state, id| {
        transfer(state, id, stream, Work::Memcpy { bytes: bytes as u64, copy_kind: 1 })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(_to: Handle, _from: u64, bytes: usize, stream: Handle) -> u32 {
    call(plain(calls::MEMCPY_DTOH_ASYNC), |state, id| {
        transfer(state, id, stream, Work::Memcpy { bytes: bytes as u64, copy_kind: 2 })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(_to: u64, value: u8, bytes: usize, stream: Handle) -> u32 {
    call(plain(calls::MEMSET_D8_ASYNC), |state, id| {
        let work = Work::Memset { bytes: bytes as u64, value: value.into() };
        transfer(state, id, stream, work)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    call(plain(calls::MEM_ALLOC), |state, _| match state.objects.allocate(bytes as u64) {
        // SAFETY: the caller's pointer, by the contract of the driver API.
        Ok(given) => unsafe { put(address, given) },
        Err(error) => error,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    call(plain(calls::MEM_FREE), |state, _| {
        if state.objects.free(address) { cuda::SUCCESS } else { cuda::INVALID_VALUE }
    })
}
