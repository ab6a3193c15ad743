//! The exported functions of CUPTI's callback API, and of its version and errors.
//!
//! Pointers are valid or null by the contract of CUPTI; null is answered with an error.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use crate::abi::{
    CallbackFunc, Handle, Out, Outcome, SharedSubscriberParams, SubscriberParams, code, cupti,
    domain, put,
};
use crate::callbacks::{CONTEXT, Subscriber};
use crate::calls;
use crate::collection::Collection;
use crate::id_set::IdSet;
use crate::record::DEVICE_ID;
use crate::state::{gate, state};

/// The shortest buffer for the name of the subscriber in the way, bytes.
const OLD_NAME_BYTES: usize = 64;
/// How much of the name that a subscriber gives itself is kept, bytes.
const NAME_BYTES: usize = 53;
/// What CUPTI calls a subscriber that gave no name.
const UNNAMED: &str = "CUPTI";

#[unsafe(no_mangle)]
extern "C" fn cuptiGetVersion(version: Out<u32>) -> u32 {
    gate!(cuptiGetVersion);
    code(put(version, state().config.version.reported))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiGetDeviceId(context: Handle, device: Out<u32>) -> u32 {
    gate!(cuptiGetDeviceId);
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
    gate!(cuptiSubscribe);
    code(subscribe(subscriber, callback, userdata, UNNAMED.to_owned(), false))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiSubscribe_v2(
    subscriber: Out<Handle>,
    callback: Option<CallbackFunc>,
    userdata: *mut c_void,
    params: *mut SubscriberParams,
) -> u32 {
    gate!(cuptiSubscribe_v2);
    let state = state();
    let toolkit = state.config.version.toolkit;
    if toolkit < (13, 0) {
        return cupti::NOT_SUPPORTED;
    }
    let can_share = toolkit >= (13, 2);
    let expected =
        if can_share { size_of::<SharedSubscriberParams>() } else { size_of::<SubscriberParams>() };
    // SAFETY: not null; `struct_size` comes first in every version of the struct.
    if params.is_null() || unsafe { (*params).struct_size } < expected {
        return cupti::INVALID_PARAMETER;
    }
    // SAFETY: as large as its `struct_size` says, which covers the byte.
    let company = can_share && unsafe { (*params.cast::<SharedSubscriberParams>()).company } != 0;
    // SAFETY: as above, which covers these fields.
    let params = unsafe { &*params };
    let mut name = UNNAMED.to_owned();
    if !params.subscriber_name.is_null() {
        // SAFETY: a C string of the caller, by CUPTI's contract.
        let given = unsafe { CStr::from_ptr(params.subscriber_name) }.to_bytes();
        let given = String::from_utf8_lossy(&given[..given.len().min(NAME_BYTES)]);
        name = format!("{UNNAMED} for {given}");
    }
    // The first subscriber's, also where both stay.
    let holder = state.callbacks.subscribers().first().map(|first| first.name.clone());
    let result = code(subscribe(subscriber, callback, userdata, name, company));
    let is_refused = result == cupti::MULTIPLE_SUBSCRIBERS;
    let other = || is_refused.then(|| "CUPTI for another tool (simulated)".to_owned());
    if let Some(holder) = holder.or_else(other)
        && !params.old_subscriber_name.is_null()
    {
        if params.old_subscriber_size < OLD_NAME_BYTES {
            return if is_refused { cupti::PARAMETER_SIZE } else { result };
        }
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

/// Takes the place of a subscriber, the only one unless all allow `company`.
fn subscribe(
    subscriber: Out<Handle>,
    callback: Option<CallbackFunc>,
    userdata: *mut c_void,
    name: String,
    company: bool,
) -> Outcome {
    let state = state();
    if let Some(error) = state.config.faults.subscribe {
        return Err(error);
    }
    let out = subscriber.ok_or(cupti::INVALID_PARAMETER)?;
    // Several take a driver of CUDA 13.3 or newer, too.
    let config = &state.config;
    let may_share = config.version.toolkit >= (13, 3) && config.driver_version >= 13_030;
    let handle = state.callbacks.subscribe(company, may_share, |handle| Subscriber {
        handle,
        function: callback.unwrap_or(ignore),
        userdata: userdata.expose_provenance(),
        name,
        driver: IdSet::new(),
        resource: IdSet::new(),
        activity: Collection::new(config),
    });
    out.write(handle.ok_or(cupti::MULTIPLE_SUBSCRIBERS)?);
    Ok(())
}

/// A tool may subscribe without a callback, only to hold the place.
extern "C" fn ignore(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}

/// The subscriber with a handle.
fn subscriber(handle: Handle) -> Outcome<Arc<Subscriber>> {
    state().callbacks.subscriber(handle).ok_or(cupti::INVALID_PARAMETER)
}

/// The callback ids of a domain that can be enabled; none for a domain without events here.
fn ids(subscriber: &Subscriber, domain: u32) -> Outcome<Option<&IdSet>> {
    match domain {
        domain::DRIVER_API => Ok(Some(&subscriber.driver)),
        domain::RESOURCE => Ok(Some(&subscriber.resource)),
        domain::RUNTIME_API | domain::SYNCHRONIZE | domain::NVTX | domain::STATE => Ok(None),
        _ => Err(cupti::INVALID_PARAMETER),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiUnsubscribe(handle: Handle) -> u32 {
    gate!(cuptiUnsubscribe);
    code(subscriber(handle).and_then(|subscriber| unsubscribe(&subscriber)))
}

/// Takes CUPTI out of the process: no subscriber and no client of its buffers is left.
#[unsafe(no_mangle)]
extern "C" fn cuptiFinalize() -> u32 {
    gate!(cuptiFinalize);
    let state = state();
    state.first.kinds.set_all(false);
    state.first.buffers.leave();
    let left = state.callbacks.subscribers();
    code(left.iter().try_for_each(|subscriber| unsubscribe(subscriber)))
}

fn unsubscribe(subscriber: &Subscriber) -> Outcome {
    let state = state();
    if !state.callbacks.unsubscribe(subscriber.handle) {
        return Err(cupti::INVALID_PARAMETER);
    }
    // A call that is under way may still look at what it wants.
    subscriber.driver.set_all(false);
    subscriber.resource.set_all(false);
    subscriber.activity.kinds.set_all(false);
    subscriber.activity.buffers.close();
    if state.callbacks.company().is_none() {
        state.release_second();
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableCallback(enable: u32, handle: Handle, domain: u32, cbid: u32) -> u32 {
    gate!(cuptiEnableCallback);
    code(subscriber(handle).and_then(|subscriber| match ids(&subscriber, domain)? {
        Some(ids) if !ids.set(cbid, enable != 0) => Err(cupti::INVALID_PARAMETER),
        _ => Ok(()),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableDomain(enable: u32, handle: Handle, domain: u32) -> u32 {
    code(subscriber(handle).and_then(|subscriber| {
        if let Some(ids) = ids(&subscriber, domain)? {
            ids.set_all(enable != 0);
        }
        Ok(())
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
    gate!(cuptiGetResultString);
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
