//! The exported functions of CUPTI's activity API.
//!
//! Pointers are the caller's, under the contract of CUPTI; null is answered with an error.

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::abi::{CompleteFunc, Handle, RequestFunc, cupti, kind};
use crate::buffers::Client;
use crate::callbacks::CONTEXT;
use crate::record::Record;
use crate::state::{State, state};
use crate::{clock, objects};

/// Kinds that can be enabled: the ones that give records here, and API records of the runtime,
/// which this process cannot call.
const KINDS: [u32; 8] = [
    kind::MEMCPY,
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
/// `CUpti_ActivityAttribute`: one buffer a thread.
const PER_THREAD_ACTIVITY_BUFFER: u32 = 9;

/// Stores a result where the caller wants it; a `CUptiResult`.
///
/// # Safety
/// `out` is null or valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> u32 {
    if out.is_null() {
        return cupti::INVALID_PARAMETER;
    }
    // SAFETY: not null, so valid by the contract of this function.
    unsafe { out.write(value) };
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityRegisterCallbacks(
    request: Option<RequestFunc>,
    complete: Option<CompleteFunc>,
) -> u32 {
    let state = state();
    if let Some(error) = state.config.faults.register {
        return error;
    }
    let (Some(request), Some(complete)) = (request, complete) else {
        return cupti::INVALID_PARAMETER;
    };
    match state.buffers.register(Client { request, complete }) {
        Ok(()) => cupti::SUCCESS,
        Err(error) => {
            eprintln!("stage2-sim: cannot start the thread that hands buffers over: {error}");
            // CUPTI_ERROR_OUT_OF_MEMORY
            8
        }
    }
}

fn set_kind(kind: u32, on: bool) -> u32 {
    let state = state();
    if on && let Some(error) = state.config.faults.enable {
        return error;
    }
    if kind == 0 || kind > LAST_KIND {
        return cupti::INVALID_KIND;
    }
    if !KINDS.contains(&kind) {
        return cupti::NOT_SUPPORTED;
    }
    if on {
        state.kinds.fetch_or(1 << kind, Ordering::Relaxed);
    } else {
        state.kinds.fetch_and(!(1 << kind), Ordering::Relaxed);
    }
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    std::thread::sleep(Duration::from_millis(state().config.faults.slow_enable_ms));
    set_kind(kind, true)
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityDisable(kind: u32) -> u32 {
    std::thread::sleep(Duration::from_millis(state().config.faults.slow_disable_ms));
    set_kind(kind, false)
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableAndDump(kind: u32) -> u32 {
    let result = set_kind(kind, true);
    let state = state();
    if result == cupti::SUCCESS && state.context.load(Ordering::Acquire) {
        match kind {
            kind::DEVICE => state.buffers.stage(Record::Device, clock::now_ns()),
            kind::CONTEXT => state.buffers.stage(Record::Context, clock::now_ns()),
            _ => {}
        }
    }
    result
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableDriverApi(cbid: u32, enable: u8) -> u32 {
    if state().recorded_calls.set(cbid, enable != 0) {
        cupti::SUCCESS
    } else {
        cupti::INVALID_PARAMETER
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableRuntimeApi(_cbid: u32, _enable: u8) -> u32 {
    // There is no runtime API here, so no call of it is ever recorded.
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityFlushAll(flag: u32) -> u32 {
    let state = state();
    let hang_ms = state.config.faults.flush_hang_ms;
    if hang_ms > 0 {
        std::thread::sleep(Duration::from_millis(hang_ms));
    }
    if let Some(error) = state.config.faults.flush {
        return error;
    }
    state.buffers.flush(flag & 1 == 1);
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
    record: *mut *mut u8,
) -> u32 {
    if buffer.is_null() || record.is_null() {
        return cupti::INVALID_PARAMETER;
    }
    let version = state().config.version;
    // SAFETY: `record` is not null and valid by CUPTI's contract.
    let current = unsafe { record.read() };
    let mut at = 0;
    if !current.is_null() {
        at = match current.addr().checked_sub(buffer.addr()) {
            Some(at) if at + size_of::<u32>() <= valid_bytes => at,
            _ => return cupti::INVALID_PARAMETER,
        };
        // SAFETY: four bytes at `at` lie inside the valid bytes of the buffer.
        let kind = unsafe { buffer.add(at).cast::<u32>().read_unaligned() };
        match version.record_bytes(kind) {
            Some(bytes) => at += bytes,
            None => return cupti::INVALID_KIND,
        }
    }
    if at + size_of::<u32>() > valid_bytes {
        return cupti::MAX_LIMIT_REACHED;
    }
    // SAFETY: as above.
    let kind = unsafe { buffer.add(at).cast::<u32>().read_unaligned() };
    if version.record_bytes(kind).is_none() {
        return cupti::INVALID_KIND;
    }
    // SAFETY: `record` is valid for a write, and `at` lies inside the buffer.
    unsafe { record.write(buffer.add(at)) };
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: Handle,
    _stream_id: u32,
    dropped: *mut usize,
) -> u32 {
    if dropped.is_null() {
        return cupti::INVALID_PARAMETER;
    }
    let count = state().buffers.take_dropped();
    // SAFETY: the caller's pointer, by CUPTI's contract.
    unsafe { put(dropped, usize::try_from(count).unwrap_or(usize::MAX)) }
}

/// Size in bytes and default of an attribute in the simulated version, or `None` where it lacks
/// it. Source: the comments of the attribute enumerations.
fn attribute(state: &State, attribute: u32) -> Option<(usize, u64)> {
    let toolkit = state.config.version.toolkit;
    match attribute {
        0 => Some((8, 3_200_000)),
        1 => Some((8, 8 << 20)),
        2 => Some((8, 250)),
        5 => Some((1, 0)),
        6 => Some((8, 3)),
        8 => Some((1, u64::from(toolkit < (13, 0)))),
        PER_THREAD_ACTIVITY_BUFFER if toolkit >= (12, 3) => {
            Some((1, u64::from(toolkit >= (13, 0))))
        }
        10 if toolkit >= (12, 9) => Some((8, 16 << 20)),
        _ => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetAttribute(
    number: u32,
    size: *mut usize,
    value: *mut c_void,
) -> u32 {
    let state = state();
    let Some((bytes, default)) = attribute(state, number) else { return cupti::INVALID_PARAMETER };
    if size.is_null() || value.is_null() {
        return cupti::INVALID_PARAMETER;
    }
    let set = state.attributes.read().get(&number).copied().unwrap_or(default);
    // SAFETY: not null, so valid by CUPTI's contract; `value` has as many bytes as `size` says.
    unsafe {
        if size.read() < bytes {
            return cupti::PARAMETER_SIZE;
        }
        size.write(bytes);
        value.cast::<u8>().copy_from_nonoverlapping(set.to_le_bytes().as_ptr(), bytes);
    }
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivitySetAttribute(
    number: u32,
    size: *mut usize,
    value: *mut c_void,
) -> u32 {
    let state = state();
    let Some((bytes, _)) = attribute(state, number) else { return cupti::INVALID_PARAMETER };
    if size.is_null() || value.is_null() {
        return cupti::INVALID_PARAMETER;
    }
    let mut raw = [0; 8];
    // SAFETY: not null, so valid by CUPTI's contract; `value` has as many bytes as `size` says.
    unsafe {
        if size.read() < bytes {
            return cupti::PARAMETER_SIZE;
        }
        raw.as_mut_ptr().copy_from_nonoverlapping(value.cast(), bytes);
    }
    let set = u64::from_le_bytes(raw);
    state.attributes.write().insert(number, set);
    if number == PER_THREAD_ACTIVITY_BUFFER {
        state.buffers.per_thread.store(set != 0, Ordering::Relaxed);
    }
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetTimestamp(timestamp: *mut u64) -> u32 {
    // SAFETY: the caller's pointer, by CUPTI's contract.
    unsafe { put(timestamp, clock::now_ns()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetStreamIdEx(
    context: Handle,
    stream: Handle,
    _per_thread: u8,
    id: *mut u32,
) -> u32 {
    match state().timeline.id(stream) {
        // SAFETY: the caller's pointer, by CUPTI's contract.
        Some(known) if context == 0 || context == CONTEXT => unsafe { put(id, known) },
        _ => cupti::INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetGraphNodeId(node: Handle, id: *mut u64) -> u32 {
    match objects::id_of_node(node) {
        // SAFETY: the caller's pointer, by CUPTI's contract.
        Some(known) => unsafe { put(id, known) },
        None => cupti::INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetGraphId(graph: Handle, id: *mut u32) -> u32 {
    match objects::id_of_graph(graph) {
        // SAFETY: the caller's pointer, by CUPTI's contract.
        Some(known) => unsafe { put(id, known) },
        None => cupti::INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetGraphExecId(exec: Handle, id: *mut u32) -> u32 {
    match objects::id_of_exec(exec) {
        // SAFETY: the caller's pointer, by CUPTI's contract.
        Some(known) => unsafe { put(id, known) },
        None => cupti::INVALID_PARAMETER,
    }
}
