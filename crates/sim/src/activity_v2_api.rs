//! The exported functions of CUPTI's second activity API (13.2 and later), in which everything belongs
//! to a subscriber.
//!
//! Pointers are valid or null by the contract of CUPTI; null is answered with an error.

use std::sync::Arc;
use std::time::Duration;

use crate::abi::{
    ActivityConfig, CompleteFuncV2, Handle, Out, Outcome, RequestFuncV2, code, cupti, put,
};
use crate::activity_api::{check_kind, next_record, register};
use crate::attributes::{self, USER_DEFINED_RECORDS};
use crate::buffers::Client;
use crate::callbacks::Subscriber;
use crate::clock;
use crate::state::{ActivityApi, State, gate, state};

/// The first toolkit with these functions, and the first with all of them.
const BEGUN: (u32, u32) = (13, 2);
const COMPLETE: (u32, u32) = (13, 3);
/// More fields than any record has.
const MAX_FIELDS: usize = 256;

/// The subscriber with a handle, in a version that has the function.
fn subscriber(since: (u32, u32), handle: Handle) -> Outcome<(&'static State, Arc<Subscriber>)> {
    let state = state();
    if state.config.version.toolkit < since {
        return Err(cupti::NOT_SUPPORTED);
    }
    if let Some(error) = state.config.faults.second_api {
        return Err(error);
    }
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
        std::thread::sleep(Duration::from_millis(state.config.faults.slow_enable_ms));
        if let Some(error) = state.config.faults.enable {
            return Err(error);
        }
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
        std::thread::sleep(Duration::from_millis(state.config.faults.slow_disable_ms));
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
    code(subscriber(COMPLETE, handle).and_then(|(_, subscriber)| {
        // Reading the count resets it.
        let dropped = dropped.ok_or(cupti::INVALID_PARAMETER)?;
        let count = subscriber.activity.buffers.take_dropped();
        dropped.write(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivityGetAttribute_v2(
    handle: Handle,
    number: u32,
    size: Option<&mut usize>,
    value: *mut u8,
) -> u32 {
    gate!(cuptiActivityGetAttribute_v2);
    code(subscriber(BEGUN, handle).and_then(|(state, subscriber)| {
        let of = (ActivityApi::Second, &subscriber.activity);
        // SAFETY: the caller's value has room for `size` bytes.
        unsafe { attributes::get(state, of, number, size, value) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiActivitySetAttribute_v2(
    handle: Handle,
    number: u32,
    size: Option<&mut usize>,
    value: *mut u8,
) -> u32 {
    gate!(cuptiActivitySetAttribute_v2);
    code(subscriber(BEGUN, handle).and_then(|(state, subscriber)| {
        let of = (ActivityApi::Second, &subscriber.activity);
        // SAFETY: the caller's value has `size` bytes.
        unsafe { attributes::set(state, of, number, size, value) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetTimestamp_v2(handle: Handle, timestamp: Out<u64>) -> u32 {
    gate!(cuptiGetTimestamp_v2);
    code(subscriber(COMPLETE, handle).and_then(|_| put(timestamp, clock::now_ns())))
}
