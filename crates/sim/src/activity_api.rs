//! The exported functions of CUPTI's first activity API, and what both have in common.
//!
//! Pointers are valid or null by the contract of CUPTI; null is answered with an error.

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::abi::{CompleteFunc, Handle, Out, Outcome, RequestFunc, code, cupti, kind, put};
use crate::buffers::Client;
use crate::callbacks::CONTEXT;
use crate::collection::Collection;
use crate::record::Record;
use crate::state::{ActivityApi, State, gate, state};
use crate::{attributes, clock, launch, objects};

/// Kinds that can be enabled: the ones that give records here, and API records of the runtime,
/// which this process cannot call.
const KINDS: [u32; 9] = [
    kind::MEMCPY,
    kind::MEMCPY2,
    kind::MEMSET,
    kind::DRIVER,
    kind::RUNTIME,
    kind::DEVICE,
    kind::CONTEXT,
    kind::CONCURRENT_KERNEL,
    kind::GRAPH_TRACE,
];
/// The highest kind of the newest CUPTI.
const LAST_KIND: u32 = 59;

fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// `INVALID_PARAMETER` if there is no value.
fn known<T>(value: Option<T>) -> Outcome<T> {
    value.ok_or(cupti::INVALID_PARAMETER)
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityRegisterCallbacks(
    request: Option<RequestFunc>,
    complete: Option<CompleteFunc>,
) -> u32 {
    gate!(cuptiActivityRegisterCallbacks);
    let state = state();
    let (Some(request), Some(complete)) = (request, complete) else {
        return state.config.faults.register.unwrap_or(cupti::INVALID_PARAMETER);
    };
    code(
        state
            .claim(ActivityApi::First)
            .and_then(|()| register(state, &state.first, Client::First { request, complete })),
    )
}

/// Gives a collection its client.
pub(crate) fn register(state: &State, collection: &Collection, client: Client) -> Outcome {
    if let Some(error) = state.config.faults.register {
        return Err(error);
    }
    collection.buffers.register(client).map_err(|error| {
        eprintln!("stage2-sim: cannot start the thread that hands buffers over: {error}");
        cupti::OUT_OF_MEMORY
    })
}

/// # Errors
/// `INVALID_KIND` for a kind that CUPTI does not have, `NOT_SUPPORTED` for one that is not simulated.
pub(crate) fn check_kind(kind: u32) -> Outcome {
    if kind == 0 || kind > LAST_KIND {
        return Err(cupti::INVALID_KIND);
    }
    if KINDS.contains(&kind) { Ok(()) } else { Err(cupti::NOT_SUPPORTED) }
}

fn set_kind(kind: u32, on: bool) -> Outcome {
    let state = state();
    if on && let Some(error) = state.config.faults.enable {
        return Err(error);
    }
    check_kind(kind)?;
    state.claim(ActivityApi::First)?;
    state.first.kinds.set(kind, on);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    gate!(cuptiActivityEnable);
    sleep_ms(state().config.faults.slow_enable_ms);
    code(set_kind(kind, true))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityDisable(kind: u32) -> u32 {
    gate!(cuptiActivityDisable);
    sleep_ms(state().config.faults.slow_disable_ms);
    code(set_kind(kind, false))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableAndDump(kind: u32) -> u32 {
    gate!(cuptiActivityEnableAndDump);
    code(set_kind(kind, true).map(|()| {
        let records = [Record::Device, Record::Context].into_iter();
        let dumped = records.filter(|record| record.kind() == kind);
        if state().context.load(Ordering::Acquire) {
            dumped.for_each(|record| state().first.offer(record, clock::now_ns()));
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableDriverApi(cbid: u32, enable: u8) -> u32 {
    let is_known = state().first.recorded_calls.set(cbid, enable != 0);
    if is_known { cupti::SUCCESS } else { cupti::INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableRuntimeApi(_cbid: u32, _enable: u8) -> u32 {
    // There is no runtime API here, so no call of it is ever recorded.
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityFlushAll(flag: u32) -> u32 {
    gate!(cuptiActivityFlushAll);
    let state = state();
    sleep_ms(state.config.faults.flush_hang_ms);
    if let Some(error) = state.config.faults.flush {
        return error;
    }
    if state.config.faults.hardware_trace
        && state.hardware_trace.load(Ordering::Relaxed)
        && !launch::has_launched()
    {
        eprintln!(
            "stage2-sim: a thread that launches nothing flushes while the hardware takes the times of \
             kernels: a real CUPTI may write over the heap"
        );
        std::process::abort();
    }
    state.flush(flag & 1 == 1);
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityFlushPeriod(_period_ms: u32) -> u32 {
    // Full and complete buffers are handed over at once here, so a period changes nothing.
    cupti::SUCCESS
}

/// Not simulated. Clients tell CUDA 12.6 update 2, the first to have it, from 12.6 by its name.
#[unsafe(no_mangle)]
extern "C" fn cuptiRangeProfilerEnable(_params: *mut c_void) -> u32 {
    cupti::NOT_SUPPORTED
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid_bytes: usize,
    record: Option<&mut *mut u8>,
) -> u32 {
    gate!(cuptiActivityGetNextRecord);
    let stride = |kind| state().config.version.record_bytes(kind);
    // SAFETY: the caller's buffer has so many valid bytes.
    code(unsafe { next_record(buffer, valid_bytes, record, stride) })
}

/// Goes on to the next record of a buffer, over as many bytes as `stride` gives for the kind.
///
/// # Safety
/// The buffer has so many valid bytes.
pub(crate) unsafe fn next_record(
    buffer: *mut u8,
    valid_bytes: usize,
    record: Option<&mut *mut u8>,
    stride: impl Fn(u32) -> Option<usize>,
) -> Outcome {
    let record = record.filter(|_| !buffer.is_null()).ok_or(cupti::INVALID_PARAMETER)?;
    let bytes_at = |at: usize| {
        // SAFETY: four bytes at `at` lie inside the valid bytes of the buffer.
        let kind = unsafe { buffer.add(at).cast::<u32>().read_unaligned() };
        stride(kind).ok_or(cupti::INVALID_KIND)
    };
    let has_kind = |at: usize| at + size_of::<u32>() <= valid_bytes;
    let mut at = 0;
    if !record.is_null() {
        at = match record.addr().checked_sub(buffer.addr()) {
            Some(at) if has_kind(at) => at,
            _ => return Err(cupti::INVALID_PARAMETER),
        };
        at += bytes_at(at)?;
    }
    if !has_kind(at) {
        return Err(cupti::MAX_LIMIT_REACHED);
    }
    bytes_at(at)?;
    // SAFETY: `at` lies inside the buffer.
    *record = unsafe { buffer.add(at) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: Handle,
    _stream_id: u32,
    dropped: Out<usize>,
) -> u32 {
    gate!(cuptiActivityGetNumDroppedRecords);
    if dropped.is_none() {
        // Reading the count resets it.
        return cupti::INVALID_PARAMETER;
    }
    code(put(dropped, usize::try_from(state().first.buffers.take_dropped()).unwrap_or(usize::MAX)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetAttribute(
    number: u32,
    size: Option<&mut usize>,
    value: *mut u8,
) -> u32 {
    gate!(cuptiActivityGetAttribute);
    let state = state();
    // SAFETY: the caller's value has room for `size` bytes.
    code(unsafe { attributes::get(state, (ActivityApi::First, &state.first), number, size, value) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivitySetAttribute(
    number: u32,
    size: Option<&mut usize>,
    value: *mut u8,
) -> u32 {
    gate!(cuptiActivitySetAttribute);
    let state = state();
    // SAFETY: the caller's value has `size` bytes.
    code(unsafe { attributes::set(state, (ActivityApi::First, &state.first), number, size, value) })
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableHWTrace(enable: u8) -> u32 {
    gate!(cuptiActivityEnableHWTrace);
    code(attributes::enable_hardware_trace(state(), enable != 0))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetTimestamp(timestamp: Out<u64>) -> u32 {
    gate!(cuptiGetTimestamp);
    code(put(timestamp, clock::now_ns()))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetStreamIdEx(
    context: Handle,
    stream: Handle,
    _per_thread: u8,
    id: Out<u32>,
) -> u32 {
    let stream_id = state().timeline.id(stream).filter(|_| context == 0 || context == CONTEXT);
    code(known(stream_id).and_then(|stream_id| put(id, stream_id)))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetGraphNodeId(node: Handle, id: Out<u64>) -> u32 {
    gate!(cuptiGetGraphNodeId);
    code(known(objects::id_of_node(node)).and_then(|node_id| put(id, node_id)))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetGraphId(graph: Handle, id: Out<u32>) -> u32 {
    code(known(objects::id_of_graph(graph)).and_then(|graph_id| put(id, graph_id)))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetGraphExecId(exec: Handle, id: Out<u32>) -> u32 {
    code(known(objects::id_of_exec(exec)).and_then(|exec_id| put(id, exec_id)))
}
