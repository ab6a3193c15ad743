//! The exported functions of the CUDA driver: device, context, streams, modules, memory.
//!
//! Each is a traced call: it takes a correlation id and fires the enabled callbacks. Pointers are
//! valid or null by the contract of the CUDA driver API; null is answered with an error.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use crate::abi::{Handle, LaunchKernelParams, Out, Outcome, code, cuda, put, resource};
use crate::callbacks::{CONTEXT, Call};
use crate::record::{DEVICE_NAME, Record};
use crate::recorded::{Kernel, Op, Work, recorded};
use crate::state::{State, state};
use crate::{calls, clock, inject};

/// Duration of a copy or fill of no bytes, ns.
const TRANSFER_SETUP_NS: u64 = 1_000;
/// Throughput of copies between host and device, bytes per us (50 GB/s).
const HOST_BYTES_PER_US: u64 = 50_000;
/// Throughput of copies and fills inside the device, bytes per us (2 TB/s).
const DEVICE_BYTES_PER_US: u64 = 2_000_000;

/// Runs a traced call that needs no cuInit before it.
fn call_early(call: impl Into<Call>, body: impl FnOnce(&'static State, u32) -> Outcome) -> u32 {
    let (state, call) = (state(), call.into());
    state.callbacks.traced(call, |correlation_id| {
        let start_ns = clock::now_ns();
        let result = code(body(state, correlation_id));
        let cbid = call.api.cbid;
        if state.has_call(cbid) {
            let end_ns = clock::now_ns();
            // SAFETY: gettid takes no argument and cannot fail. glibc 2.17 has no function for it.
            let thread_id = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
            let record = Record::Api { cbid, start_ns, end_ns, thread_id, correlation_id, result };
            state.offer(record, end_ns);
        }
        result
    })
}

/// Runs a traced call of an initialised driver.
pub(crate) fn call(
    call: impl Into<Call>,
    body: impl FnOnce(&'static State, u32) -> Outcome,
) -> u32 {
    let owner = state().initialized_in.load(Ordering::Acquire);
    if owner != 0 && owner != std::process::id() {
        // A forked child: no thread of the simulation lives here, so nothing is traced, either.
        return cuda::NOT_INITIALIZED;
    }
    call_early(
        call,
        |state, id| {
            if owner == 0 { Err(cuda::NOT_INITIALIZED) } else { body(state, id) }
        },
    )
}

/// # Errors
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
        if flags != 0 {
            return Err(cuda::INVALID_VALUE);
        }
        inject::load_tool();
        if let Some(error) = state.config.faults.cu_init {
            return Err(error);
        }
        if state.config.faults.no_device {
            return Err(cuda::NO_DEVICE);
        }
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
        if name.is_null() {
            return Err(cuda::INVALID_VALUE);
        }
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
        if image.is_null() {
            return Err(cuda::INVALID_VALUE);
        }
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
        if name.is_null() {
            return Err(cuda::INVALID_VALUE);
        }
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
        if grid.contains(&0) || block.contains(&0) {
            return Err(cuda::INVALID_VALUE);
        }
        let kernel = Kernel { grid, block, dynamic_shared_bytes: shared_bytes, ..known.kernel };
        let op = Op::new(Work::Kernel(kernel), known.duration_ns);
        state.launch(id, stream, op)
    })
}

/// A copy or fill of `bytes` at a throughput in bytes per us.
fn transfer(work: Work, bytes: u64, per_us: u64) -> Op {
    Op::new(work, TRANSFER_SETUP_NS.saturating_add(bytes.saturating_mul(1_000) / per_us))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(_to: u64, _from: Handle, bytes: usize, stream: Handle) -> u32 {
    call(calls::MEMCPY_HTOD_ASYNC, |state, id| {
        let bytes = bytes as u64;
        let work = Work::Memcpy { bytes, copy_kind: 1 };
        state.launch(id, stream, transfer(work, bytes, HOST_BYTES_PER_US))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(_to: Handle, _from: u64, bytes: usize, stream: Handle) -> u32 {
    call(calls::MEMCPY_DTOH_ASYNC, |state, id| {
        let bytes = bytes as u64;
        let work = Work::Memcpy { bytes, copy_kind: 2 };
        state.launch(id, stream, transfer(work, bytes, HOST_BYTES_PER_US))
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
    call(calls::MEM_ALLOC, |state, _| put(address, state.objects.lock().allocate(bytes as u64)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    call(calls::MEM_FREE, |state, _| state.objects.lock().free(address))
}
