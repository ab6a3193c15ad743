//! The exported functions of CUPTI's activity API.
//!
//! Pointers are valid or null by the contract of CUPTI; null is answered with an error.

use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::abi::{CompleteFunc, Handle, Out, Outcome, RequestFunc, code, cupti, kind, put};
use crate::buffers::Client;
use crate::callbacks::CONTEXT;
use crate::record::Record;
use crate::state::state;
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
            cupti::OUT_OF_MEMORY
        }
    }
}

fn set_kind(kind: u32, on: bool) -> Outcome {
    let state = state();
    if on && let Some(error) = state.config.faults.enable {
        return Err(error);
    }
    if kind == 0 || kind > LAST_KIND {
        return Err(cupti::INVALID_KIND);
    }
    if !KINDS.contains(&kind) {
        return Err(cupti::NOT_SUPPORTED);
    }
    state.kinds.set(kind, on);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    sleep_ms(state().config.faults.slow_enable_ms);
    code(set_kind(kind, true))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityDisable(kind: u32) -> u32 {
    sleep_ms(state().config.faults.slow_disable_ms);
    code(set_kind(kind, false))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableAndDump(kind: u32) -> u32 {
    code(set_kind(kind, true).map(|()| {
        let records = [Record::Device, Record::Context].into_iter();
        let dumped = records.filter(|record| record.kind() == kind);
        if state().context.load(Ordering::Acquire) {
            dumped.for_each(|record| state().buffers.stage(record, clock::now_ns()));
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableDriverApi(cbid: u32, enable: u8) -> u32 {
    let is_known = state().recorded_calls.set(cbid, enable != 0);
    if is_known { cupti::SUCCESS } else { cupti::INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableRuntimeApi(_cbid: u32, _enable: u8) -> u32 {
    // There is no runtime API here, so no call of it is ever recorded.
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityFlushAll(flag: u32) -> u32 {
    let state = state();
    sleep_ms(state.config.faults.flush_hang_ms);
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
    record: Option<&mut *mut u8>,
) -> u32 {
    let Some(record) = record.filter(|_| !buffer.is_null()) else {
        return cupti::INVALID_PARAMETER;
    };
    let bytes_at = |at: usize| {
        // SAFETY: four bytes at `at` lie inside the valid bytes of the buffer.
        let kind = unsafe { buffer.add(at).cast::<u32>().read_unaligned() };
        state().config.version.record_bytes(kind)
    };
    let has_kind = |at: usize| at + size_of::<u32>() <= valid_bytes;
    let mut at = 0;
    if !record.is_null() {
        at = match record.addr().checked_sub(buffer.addr()) {
            Some(at) if has_kind(at) => at,
            _ => return cupti::INVALID_PARAMETER,
        };
        match bytes_at(at) {
            Some(bytes) => at += bytes,
            None => return cupti::INVALID_KIND,
        }
    }
    if !has_kind(at) {
        return cupti::MAX_LIMIT_REACHED;
    }
    if bytes_at(at).is_none() {
        return cupti::INVALID_KIND;
    }
    // SAFETY: `at` lies inside the buffer.
    *record = unsafe { buffer.add(at) };
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: Handle,
    _stream_id: u32,
    dropped: Out<usize>,
) -> u32 {
    if dropped.is_none() {
        // Reading the count resets it.
        return cupti::INVALID_PARAMETER;
    }
    code(put(dropped, usize::try_from(state().buffers.take_dropped()).unwrap_or(usize::MAX)))
}

/// Size in bytes and default of an attribute in the simulated version, or `None` where it lacks
/// it. Source: the comments of the attribute enumerations.
fn attribute(attribute: u32) -> Option<(usize, u64)> {
    let toolkit = state().config.version.toolkit;
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

/// Size in bytes and default of an attribute whose value the caller has room for.
fn attribute_for(number: u32, size: Option<&mut usize>, value: *mut u8) -> Outcome<(usize, u64)> {
    let (bytes, default) = known(attribute(number))?;
    let size = known(size.filter(|_| !value.is_null()))?;
    if *size < bytes { Err(cupti::PARAMETER_SIZE) } else { Ok((bytes, default)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetAttribute(
    number: u32,
    mut size: Option<&mut usize>,
    value: *mut u8,
) -> u32 {
    code(attribute_for(number, size.as_deref_mut(), value).map(|(bytes, default)| {
        if let Some(size) = size {
            *size = bytes;
        }
        let set = state().attributes.read().get(&number).copied().unwrap_or(default);
        // SAFETY: `value` is not null and has room for `bytes` by CUPTI's contract.
        unsafe { value.copy_from_nonoverlapping(set.to_le_bytes().as_ptr(), bytes) };
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivitySetAttribute(
    number: u32,
    size: Option<&mut usize>,
    value: *mut u8,
) -> u32 {
    code(attribute_for(number, size, value).map(|(bytes, _)| {
        let mut raw = [0; 8];
        // SAFETY: `value` is not null and has `bytes` bytes by CUPTI's contract; none has over 8.
        unsafe { raw.as_mut_ptr().copy_from_nonoverlapping(value, bytes) };
        let set = u64::from_le_bytes(raw);
        state().attributes.write().insert(number, set);
        if number == PER_THREAD_ACTIVITY_BUFFER {
            state().buffers.per_thread.store(set != 0, Ordering::Relaxed);
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetTimestamp(timestamp: Out<u64>) -> u32 {
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
