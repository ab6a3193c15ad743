//! The exported functions of CUPTI's callback API, and of its version and errors.
//!
//! Pointers are valid or null by the contract of CUPTI; null is answered with an error.

use std::ffi::{CStr, c_char, c_void};

use crate::abi::{CallbackFunc, Handle, Out, Outcome, SubscriberParams, code, cupti, domain, put};
use crate::callbacks::{CONTEXT, Callbacks, IdSet, SUBSCRIBER, Subscriber};
use crate::calls;
use crate::record::DEVICE_ID;
use crate::state::state;

/// The shortest buffer for the name of the subscriber in the way, bytes.
const OLD_NAME_BYTES: usize = 64;
/// What CUPTI calls a subscriber that gave no name.
const UNNAMED: &str = "CUPTI";

#[unsafe(no_mangle)]
extern "C" fn cuptiGetVersion(version: Out<u32>) -> u32 {
    code(put(version, state().config.version.reported))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetDeviceId(context: Handle, device: Out<u32>) -> u32 {
    if context != CONTEXT {
        return cupti::INVALID_CONTEXT;
    }
    code(put(device, DEVICE_ID))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiSubscribe(
    subscriber: Out<Handle>,
    callback: Option<CallbackFunc>,
    userdata: *mut c_void,
) -> u32 {
    code(subscribe(subscriber, callback, userdata, UNNAMED.to_owned()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiSubscribe_v2(
    subscriber: Out<Handle>,
    callback: Option<CallbackFunc>,
    userdata: *mut c_void,
    params: *mut SubscriberParams,
) -> u32 {
    let toolkit = state().config.version.toolkit;
    if toolkit < (13, 0) {
        return cupti::NOT_SUPPORTED;
    }
    let expected = if toolkit >= (13, 2) { 40 } else { size_of::<SubscriberParams>() };
    // SAFETY: not null; `struct_size` comes first in every version of the struct.
    if params.is_null() || unsafe { (*params).struct_size } < expected {
        return cupti::INVALID_PARAMETER;
    }
    // SAFETY: as large as its `struct_size` says, which covers these fields.
    let params = unsafe { &*params };
    let mut name = UNNAMED.to_owned();
    if !params.subscriber_name.is_null() {
        // SAFETY: a C string of the caller, by CUPTI's contract.
        let given = unsafe { CStr::from_ptr(params.subscriber_name) }.to_string_lossy();
        name = format!("{UNNAMED} for {given}");
    }
    let result = code(subscribe(subscriber, callback, userdata, name));
    if result == cupti::MULTIPLE_SUBSCRIBERS && !params.old_subscriber_name.is_null() {
        if params.old_subscriber_size < OLD_NAME_BYTES {
            return cupti::PARAMETER_SIZE;
        }
        let holder = state().callbacks.subscriber.read().as_ref().map(|holder| holder.name.clone());
        let holder = holder.unwrap_or_else(|| "CUPTI for another tool (simulated)".to_owned());
        let length = holder.len().min(params.old_subscriber_size - 1);
        // SAFETY: the caller's buffer holds `old_subscriber_size` bytes, by CUPTI's contract.
        unsafe {
            let out = params.old_subscriber_name;
            out.copy_from_nonoverlapping(holder.as_ptr().cast(), length);
            out.add(length).write(0);
        }
    }
    result
}

/// Takes the one place of a subscriber.
fn subscribe(
    subscriber: Out<Handle>,
    callback: Option<CallbackFunc>,
    userdata: *mut c_void,
    name: String,
) -> Outcome {
    let state = state();
    if let Some(error) = state.config.faults.subscribe {
        return Err(error);
    }
    let subscriber = subscriber.ok_or(cupti::INVALID_PARAMETER)?;
    let mut place = state.callbacks.subscriber.write();
    if place.is_some() {
        return Err(cupti::MULTIPLE_SUBSCRIBERS);
    }
    subscriber.write(SUBSCRIBER);
    let function = callback.unwrap_or(ignore);
    *place = Some(Subscriber { function, userdata: userdata.expose_provenance(), name });
    Ok(())
}

/// A tool may subscribe without a callback, only to hold the place.
extern "C" fn ignore(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

/// The callbacks, if the handle is the subscriber's.
fn callbacks_of(subscriber: Handle) -> Outcome<&'static Callbacks> {
    let callbacks = &state().callbacks;
    let is_known = subscriber == SUBSCRIBER && callbacks.subscriber.read().is_some();
    if is_known { Ok(callbacks) } else { Err(cupti::INVALID_PARAMETER) }
}

/// The subscriber's enabled callback ids of a domain; none for a domain without events here.
fn enabled_ids(subscriber: Handle, domain: u32) -> Outcome<Option<&'static IdSet>> {
    let callbacks = callbacks_of(subscriber)?;
    match domain {
        domain::DRIVER_API => Ok(Some(&callbacks.driver)),
        domain::RESOURCE => Ok(Some(&callbacks.resource)),
        domain::RUNTIME_API | domain::SYNCHRONIZE | domain::NVTX | domain::STATE => Ok(None),
        _ => Err(cupti::INVALID_PARAMETER),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiUnsubscribe(subscriber: Handle) -> u32 {
    code(callbacks_of(subscriber).map(|callbacks| {
        callbacks.driver.set_all(false);
        callbacks.resource.set_all(false);
        *callbacks.subscriber.write() = None;
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableCallback(enable: u32, subscriber: Handle, domain: u32, cbid: u32) -> u32 {
    match enabled_ids(subscriber, domain) {
        Ok(Some(ids)) if !ids.set(cbid, enable != 0) => cupti::INVALID_PARAMETER,
        ids => code(ids.map(drop)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableDomain(enable: u32, subscriber: Handle, domain: u32) -> u32 {
    code(enabled_ids(subscriber, domain).map(|ids| {
        if let Some(ids) = ids {
            ids.set_all(enable != 0);
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetCallbackName(domain: u32, cbid: u32, name: Out<*const c_char>) -> u32 {
    match calls::name(cbid) {
        Some(known) if domain == domain::DRIVER_API => code(put(name, known.as_ptr())),
        _ => cupti::INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiSetThreadIdType(kind: u32) -> u32 {
    // API records carry the id of the system either way.
    if kind <= 1 { cupti::SUCCESS } else { cupti::INVALID_PARAMETER }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetLastError() -> u32 {
    // No error happens in the background here.
    cupti::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetResultString(result: u32, text: Out<*const c_char>) -> u32 {
    code(result_text(result).and_then(|(name, _)| put(text, name.as_ptr())))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetErrorMessage(result: u32, text: Out<*const c_char>) -> u32 {
    code(result_text(result).and_then(|(_, message)| put(text, message.as_ptr())))
}

fn result_text(result: u32) -> Outcome<(&'static CStr, &'static CStr)> {
    Ok(match result {
        0 => (c"CUPTI_SUCCESS", c"no error"),
        1 => (c"CUPTI_ERROR_INVALID_PARAMETER", c"a parameter is invalid"),
        7 => (c"CUPTI_ERROR_INVALID_OPERATION", c"not possible in this state"),
        8 => (c"CUPTI_ERROR_OUT_OF_MEMORY", c"out of memory"),
        10 => (c"CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT", c"the buffer is too small"),
        12 => (c"CUPTI_ERROR_MAX_LIMIT_REACHED", c"no more records"),
        15 => (c"CUPTI_ERROR_NOT_INITIALIZED", c"CUPTI cannot initialise"),
        21 => (c"CUPTI_ERROR_INVALID_KIND", c"the kind of activity is invalid"),
        23 => (c"CUPTI_ERROR_DISABLED", c"another profiler is enabled"),
        27 => (c"CUPTI_ERROR_NOT_SUPPORTED", c"not supported on this system"),
        35 => (c"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", c"insufficient privileges"),
        39 => (
            c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
            c"another subscriber is active in this process",
        ),
        999 => (c"CUPTI_ERROR_UNKNOWN", c"unknown error"),
        _ => return Err(cupti::INVALID_PARAMETER),
    })
}
