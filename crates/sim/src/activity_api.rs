//! The exported functions of CUPTI's activity APIs: of the first, and of the second (13.2 and later), in which
//! everything belongs to a subscriber.
//!
//! Pointers are valid or null by the contract of CUPTI; null is answered with an error.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::abi::{
    ActivityConfig, CompleteFunc, CompleteFuncV2, Handle, Out, Outcome, RequestFunc, RequestFuncV2,
    code, cupti, kind, put, refuse, refuse_if,
};
use crate::buffers::{Client, Collection};
use crate::callbacks::Subscriber;
use crate::record::Record;
use crate::state::{self, ActivityApi, State, gate, state};
use crate::{clock, objects};

/// Kinds that can be enabled: those that give records here, and calls of the runtime, of which there are none.
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
/// Bytes of an attribute's value.
type Size<'a> = Option<&'a mut usize>;

/// The highest kind of the newest CUPTI.
const LAST_KIND: u32 = 59;

fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn or_invalid<T>(value: Option<T>) -> Outcome<T> {
    value.ok_or(cupti::INVALID_PARAMETER)
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityRegisterCallbacks(
    request: Option<RequestFunc>,
    complete: Option<CompleteFunc>,
) -> u32 {
    gate!(cuptiActivityRegisterCallbacks);
    await_held();
    let state = state();
    let (Some(request), Some(complete)) = (request, complete) else {
        return state.config.faults.register.unwrap_or(cupti::INVALID_PARAMETER);
    };
    let claimed = state.claim(ActivityApi::First);
    code(claimed.and_then(|()| register(state, &state.first, Client::First { request, complete })))
}

/// While a kernel runs that does not end, CUPTI does not start, and from then on no launch returns, either.
fn await_held() {
    if state().first.buffers.has_client() {
        return;
    }
    while clock::is_any_held() {
        STARTS_HELD.store(true, Ordering::SeqCst);
        sleep_ms(2);
    }
    STARTS_HELD.store(false, Ordering::SeqCst);
}

/// A launch begins: it does not return while [`await_held`] does not.
pub(crate) fn await_start() {
    while STARTS_HELD.load(Ordering::SeqCst) {
        sleep_ms(2);
    }
}

static STARTS_HELD: AtomicBool = AtomicBool::new(false);

fn register(state: &State, collection: &Collection, client: Client) -> Outcome {
    refuse(state.config.faults.register)?;
    collection.buffers.register(client).map_err(|error| {
        eprintln!("stage2-sim: cannot start the thread that hands buffers over: {error}");
        cupti::OUT_OF_MEMORY
    })
}

/// `INVALID_KIND` for a kind that CUPTI does not have, `NOT_SUPPORTED` for one that is not simulated.
fn check_kind(kind: u32) -> Outcome {
    refuse_if(kind == 0 || kind > LAST_KIND, cupti::INVALID_KIND)?;
    if KINDS.contains(&kind) { Ok(()) } else { Err(cupti::NOT_SUPPORTED) }
}

fn set_kind(kind: u32, on: bool) -> Outcome {
    let state = state();
    refuse(state.config.faults.enable.filter(|_| on))?;
    check_kind(kind)?;
    state.claim(ActivityApi::First)?;
    state.first.kinds.set(kind, on);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    gate!(cuptiActivityEnable);
    await_held();
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
extern "C" fn cuptiActivityFlushAll(flag: u32) -> u32 {
    gate!(cuptiActivityFlushAll);
    let state = state();
    sleep_ms(state.config.faults.flush_hang_ms);
    if let Some(error) = state.config.faults.flush {
        return error;
    }
    if state.config.faults.hardware_trace
        && state.hardware_trace.load(Ordering::Relaxed)
        && !state::has_launched()
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
unsafe fn next_record(
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
    refuse_if(!has_kind(at), cupti::MAX_LIMIT_REACHED)?;
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
    code(take_dropped(&state().first, dropped))
}

fn take_dropped(collection: &Collection, dropped: Out<usize>) -> Outcome {
    // First: reading the count resets it.
    let dropped = dropped.ok_or(cupti::INVALID_PARAMETER)?;
    dropped.write(usize::try_from(collection.buffers.take_dropped()).unwrap_or(usize::MAX));
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetAttribute(number: u32, size: Size, value: *mut u8) -> u32 {
    gate!(cuptiActivityGetAttribute);
    let state = state();
    // SAFETY: the caller's value has room for `size` bytes.
    code(unsafe { get_attribute(state, (ActivityApi::First, &state.first), number, size, value) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivitySetAttribute(number: u32, size: Size, value: *mut u8) -> u32 {
    gate!(cuptiActivitySetAttribute);
    let state = state();
    // SAFETY: the caller's value has `size` bytes.
    code(unsafe { set_attribute(state, (ActivityApi::First, &state.first), number, size, value) })
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityEnableHWTrace(enable: u8) -> u32 {
    gate!(cuptiActivityEnableHWTrace);
    code(enable_hardware_trace(state(), enable != 0))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetTimestamp(timestamp: Out<u64>) -> u32 {
    gate!(cuptiGetTimestamp);
    code(put(timestamp, clock::now_ns()))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetGraphNodeId(node: Handle, id: Out<u64>) -> u32 {
    gate!(cuptiGetGraphNodeId);
    code(or_invalid(objects::id_of_node(node)).and_then(|node_id| put(id, node_id)))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetGraphId(graph: Handle, id: Out<u32>) -> u32 {
    code(or_invalid(objects::id_of_graph(graph)).and_then(|graph_id| put(id, graph_id)))
}

/// The first toolkit with these functions, and the first with all of them.
const BEGUN: (u32, u32) = (13, 2);
const COMPLETE: (u32, u32) = (13, 3);
/// More fields than any record has.
const MAX_FIELDS: usize = 256;

/// The subscriber with a handle, in a version that has the function.
fn subscriber(since: (u32, u32), handle: Handle) -> Outcome<(&'static State, Arc<Subscriber>)> {
    let state = state();
    refuse_if(state.config.version.toolkit < since, cupti::NOT_SUPPORTED)?;
    refuse(state.config.faults.second_api)?;
    let subscriber = state.callbacks.subscriber(handle).ok_or(cupti::INVALID_PARAMETER)?;
    Ok((state, subscriber))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityRegisterCallbacks_v2(
    handle: Handle,
    request: Option<RequestFuncV2>,
    complete: Option<CompleteFuncV2>,
) -> u32 {
    gate!(cuptiActivityRegisterCallbacks_v2);
    code(subscriber(BEGUN, handle).and_then(|(state, subscriber)| {
        let (Some(request), Some(complete)) = (request, complete) else {
            return Err(cupti::INVALID_PARAMETER);
        };
        state.claim(ActivityApi::Second)?;
        register(state, &subscriber.activity, Client::Second { request, complete })
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityEnable_v2(
    handle: Handle,
    kind: u32,
    config: *const ActivityConfig,
) -> u32 {
    gate!(cuptiActivityEnable_v2);
    code(subscriber(BEGUN, handle).and_then(|(state, subscriber)| {
        sleep_ms(state.config.faults.slow_enable_ms);
        refuse(state.config.faults.enable)?;
        check_kind(kind)?;
        state.claim(ActivityApi::Second)?;
        let activity = &subscriber.activity;
        let chooses = activity.attributes.read().get(&USER_DEFINED_RECORDS) == Some(&1);
        // SAFETY: null or a struct of the caller, as long as it says.
        let ids = unsafe { chosen_fields(state, config) }?;
        match ids {
            Some(ids) if chooses => {
                let (version, lie) = (&state.config.version, state.config.faults.false_layouts);
                activity.buffers.chosen.choose(version, kind, ids, lie)?;
            }
            None if !chooses => {}
            // Fields without the attribute, and the attribute without fields.
            _ => return Err(cupti::INVALID_PARAMETER),
        }
        activity.kinds.set(kind, true);
        Ok(())
    }))
}

/// The fields that a configuration chooses, by id; `None` if it chooses none.
///
/// # Safety
/// `config` is null or as long as it says, and its fields are there.
unsafe fn chosen_fields<'a>(
    state: &State,
    config: *const ActivityConfig,
) -> Outcome<Option<&'a [i32]>> {
    if config.is_null() {
        return Ok(None);
    }
    let toolkit = state.config.version.toolkit;
    let expected = size_of::<ActivityConfig>() + if toolkit >= (13, 4) { 8 } else { 0 };
    // SAFETY: its size comes first, whatever the version, and covers what is read then.
    let config = unsafe {
        if (*config).struct_size < size_of::<ActivityConfig>() || (*config).struct_size > expected {
            return Err(cupti::INVALID_PARAMETER);
        }
        &*config
    };
    if config.fields == 0 {
        return Ok(None);
    }
    // structSize, numFields and pFieldIds.
    if config.ids.is_null() || config.fields > MAX_FIELDS || config.selection_size < 24 {
        return Err(cupti::INVALID_PARAMETER);
    }
    // SAFETY: by the caller's contract there are so many ids.
    Ok(Some(unsafe { std::slice::from_raw_parts(config.ids, config.fields) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityDisable_v2(
    handle: Handle,
    kind: u32,
    _config: *const ActivityConfig,
) -> u32 {
    gate!(cuptiActivityDisable_v2);
    code(subscriber(BEGUN, handle).and_then(|(state, subscriber)| {
        sleep_ms(state.config.faults.slow_disable_ms);
        check_kind(kind)?;
        state.claim(ActivityApi::Second)?;
        subscriber.activity.kinds.set(kind, false);
        subscriber.activity.buffers.chosen.end(kind);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetNextRecord_v2(
    handle: Handle,
    buffer: *mut u8,
    valid_bytes: usize,
    record: Option<&mut *mut u8>,
) -> u32 {
    gate!(cuptiActivityGetNextRecord_v2);
    code(subscriber(COMPLETE, handle).and_then(|(_, subscriber)| {
        let stride = |kind| subscriber.activity.buffers.stride(kind);
        // SAFETY: the caller's buffer has so many valid bytes.
        unsafe { next_record(buffer, valid_bytes, record, stride) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiActivityGetNumDroppedRecords_v2(
    handle: Handle,
    _context: Handle,
    _stream_id: u32,
    dropped: Out<usize>,
) -> u32 {
    gate!(cuptiActivityGetNumDroppedRecords_v2);
    let subscriber = subscriber(COMPLETE, handle);
    code(subscriber.and_then(|(_, subscriber)| take_dropped(&subscriber.activity, dropped)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetAttribute_v2(
    handle: Handle,
    number: u32,
    size: Size,
    value: *mut u8,
) -> u32 {
    gate!(cuptiActivityGetAttribute_v2);
    code(subscriber(BEGUN, handle).and_then(|(state, subscriber)| {
        let of = (ActivityApi::Second, &subscriber.activity);
        // SAFETY: the caller's value has room for `size` bytes.
        unsafe { get_attribute(state, of, number, size, value) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivitySetAttribute_v2(
    handle: Handle,
    number: u32,
    size: Size,
    value: *mut u8,
) -> u32 {
    gate!(cuptiActivitySetAttribute_v2);
    code(subscriber(BEGUN, handle).and_then(|(state, subscriber)| {
        let of = (ActivityApi::Second, &subscriber.activity);
        // SAFETY: the caller's value has `size` bytes.
        unsafe { set_attribute(state, of, number, size, value) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetTimestamp_v2(handle: Handle, timestamp: Out<u64>) -> u32 {
    gate!(cuptiGetTimestamp_v2);
    code(subscriber(COMPLETE, handle).and_then(|_| put(timestamp, clock::now_ns())))
}

/// `CUpti_ActivityAttribute`: one buffer a thread.
const PER_THREAD_ACTIVITY_BUFFER: u32 = 9;
/// Records hold the fields that were chosen.
const USER_DEFINED_RECORDS: u32 = 11;
/// Whether the first subscriber allowed others; only to be read.
const MULTIPLE_SUBSCRIBER_STATE: u32 = 12;
/// The hardware times kernels, for the whole process.
const ENABLE_HES: u32 = 13;
/// How threads are numbered: 1 as the system does it.
const THREAD_ID_TYPE: u32 = 21;

/// Size in bytes and default of an attribute in the simulated version, or `None` where it lacks it.
fn attribute(state: &State, api: ActivityApi, number: u32) -> Option<(usize, u64)> {
    let toolkit = state.config.version.toolkit;
    match number {
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
        _ if matches!(api, ActivityApi::First) => None,
        MULTIPLE_SUBSCRIBER_STATE => Some((1, state.callbacks.company().map_or(2, u64::from))),
        ENABLE_HES => Some((1, state.hardware_trace.load(Ordering::Relaxed).into())),
        USER_DEFINED_RECORDS | 14..=20 | 23 => Some((1, 0)),
        THREAD_ID_TYPE => Some((4, 0)),
        24 if toolkit >= (13, 5) => Some((8, 128)),
        _ => None,
    }
}

/// Size in bytes and default of an attribute whose value the caller has room for.
fn attribute_for(
    state: &State,
    api: ActivityApi,
    number: u32,
    size: Size,
    value: *mut u8,
) -> Outcome<(usize, u64)> {
    let (bytes, default) = attribute(state, api, number).ok_or(cupti::INVALID_PARAMETER)?;
    let size = size.filter(|_| !value.is_null()).ok_or(cupti::INVALID_PARAMETER)?;
    if *size < bytes { Err(cupti::PARAMETER_SIZE) } else { Ok((bytes, default)) }
}

/// Reads an attribute.
///
/// # Safety
/// `value` is null or has room for `size` bytes.
unsafe fn get_attribute(
    state: &State,
    (api, collection): (ActivityApi, &Collection),
    number: u32,
    mut size: Option<&mut usize>,
    value: *mut u8,
) -> Outcome {
    let (bytes, default) = attribute_for(state, api, number, size.as_deref_mut(), value)?;
    if let Some(size) = size {
        *size = bytes;
    }
    let set = collection.attributes.read().get(&number).copied().unwrap_or(default);
    // SAFETY: `value` is not null and has room for `bytes` by the caller's contract.
    unsafe { value.copy_from_nonoverlapping(set.to_le_bytes().as_ptr(), bytes) };
    Ok(())
}

/// Writes an attribute.
///
/// # Safety
/// `value` is null or has `size` bytes.
unsafe fn set_attribute(
    state: &State,
    (api, collection): (ActivityApi, &Collection),
    number: u32,
    size: Size,
    value: *mut u8,
) -> Outcome {
    let (bytes, _) = attribute_for(state, api, number, size, value)?;
    let mut raw = [0; 8];
    // SAFETY: `value` is not null and has `bytes` bytes by the caller's contract; none has over 8.
    unsafe { raw.as_mut_ptr().copy_from_nonoverlapping(value, bytes) };
    let set = u64::from_le_bytes(raw);
    let buffers = &collection.buffers;
    match number {
        MULTIPLE_SUBSCRIBER_STATE => return Err(cupti::INVALID_OPERATION),
        // Not once something is collected.
        USER_DEFINED_RECORDS if !collection.kinds.is_empty() => {
            return Err(cupti::INVALID_OPERATION);
        }
        ENABLE_HES => return enable_hardware_trace(state, set != 0),
        PER_THREAD_ACTIVITY_BUFFER => buffers.per_thread.store(set != 0, Ordering::Relaxed),
        THREAD_ID_TYPE => buffers.system_thread_ids.store(set == 1, Ordering::Relaxed),
        _ => {}
    }
    collection.attributes.write().insert(number, set);
    Ok(())
}

/// Has the hardware time kernels; records are the same with it. From 13.3 on it is accepted for every GPU,
/// as it may come before the driver is initialised; from 12.8 on where the simulated GPU can; it stays on.
fn enable_hardware_trace(state: &State, on: bool) -> Outcome {
    let config = &state.config;
    let toolkit = config.version.toolkit;
    let accepts = toolkit >= (13, 3) || (toolkit >= (12, 8) && config.faults.hardware_trace);
    refuse_if(!on || !accepts, cupti::NOT_SUPPORTED)?;
    state.hardware_trace.store(true, Ordering::Relaxed);
    Ok(())
}
