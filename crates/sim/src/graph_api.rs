//! The exported functions of the CUDA driver about graphs, and of the recorded sequences.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use crate::abi::{GraphData, GraphLaunchParams, Handle, Out, code, cuda, put, resource};
use crate::callbacks::Call;
use crate::driver_api::call;
use crate::objects::graph_handle;
use crate::pm;
use crate::recorded::{Op, Work, recorded};
use crate::{calls, state};

/// What `stage2_sim_version` returns: the version of the functions of this library that are not
/// NVIDIA's.
const SIM_VERSION: u32 = 1;

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: Handle, _mode: u32) -> u32 {
    call(calls::STREAM_BEGIN_CAPTURE, |state, _| {
        if stream <= 2 {
            // The default stream cannot be captured.
            return Err(cuda::CAPTURE_UNSUPPORTED);
        }
        if state.timeline.capture(stream)?.is_some() {
            return Err(cuda::ILLEGAL_STATE);
        }
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

/// By this symbol a collector recognises that the driver and CUPTI beside it are simulated.
#[unsafe(no_mangle)]
extern "C" fn stage2_sim_version() -> u32 {
    SIM_VERSION
}

/// Sets a `STAGE2_SIM_*` variable for this copy of the library; 0, or 1 if it is too late or the
/// variable is none of ours.
#[unsafe(no_mangle)]
unsafe extern "C" fn stage2_sim_configure(name: *const c_char, value: *const c_char) -> u32 {
    if name.is_null() || value.is_null() {
        return 1;
    }
    // SAFETY: not null, so C strings of the caller, by the contract of this function.
    let (name, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value)) };
    match (name.to_str(), value.to_str()) {
        (Ok(name), Ok(value)) => u32::from(!state::configure(name, value)),
        _ => 1,
    }
}

/// The operations of a recorded sequence; none if there is no such sequence.
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

/// Launches a recorded operation with its duration and gap, as the call that launched it (for a
/// kernel, cuLaunchKernel); a `CUresult`.
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
