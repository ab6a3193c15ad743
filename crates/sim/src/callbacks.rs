//! The exported functions of CUPTI's callback API, and of its version and errors.
//!
//! Pointers are valid or null by the contract of CUPTI; null is answered with an error.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::abi::{
    CallbackData, CallbackFunc, GraphData, Handle, Out, Outcome, ResourceData,
    SharedSubscriberParams, SubscriberParams, code, cupti, domain, put, refuse, refuse_if,
};
use crate::buffers::Collection;
use crate::calls::Api;
use crate::record::{CONTEXT_ID, DEVICE_ID};
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
    refuse(state.config.faults.subscribe)?;
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
    refuse_if(!state.callbacks.unsubscribe(subscriber.handle), cupti::INVALID_PARAMETER)?;
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
extern "C" fn cuptiGetResultString(result: u32, text: Out<*const c_char>) -> u32 {
    gate!(cuptiGetResultString);
    code(result_name(result).and_then(|name| put(text, name.as_ptr())))
}

fn result_name(result: u32) -> Outcome<&'static CStr> {
    Ok(match result {
        0 => c"CUPTI_SUCCESS",
        1 => c"CUPTI_ERROR_INVALID_PARAMETER",
        7 => c"CUPTI_ERROR_INVALID_OPERATION",
        8 => c"CUPTI_ERROR_OUT_OF_MEMORY",
        10 => c"CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT",
        12 => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        15 => c"CUPTI_ERROR_NOT_INITIALIZED",
        21 => c"CUPTI_ERROR_INVALID_KIND",
        23 => c"CUPTI_ERROR_DISABLED",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        35 => c"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        39 => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        999 => c"CUPTI_ERROR_UNKNOWN",
        _ => return Err(cupti::INVALID_PARAMETER),
    })
}

/// The handle that the first subscriber gets; later ones get higher ones.
const SUBSCRIBER: Handle = 0x5ab5_c21b;
pub(crate) const CONTEXT: Handle = 0x7000_0000_0000_0001;

/// A subscriber: who it is, and what it wants to hear and to have recorded.
pub(crate) struct Subscriber {
    pub(crate) handle: Handle,
    pub(crate) function: CallbackFunc,
    pub(crate) userdata: usize,
    /// The name that it gave to cuptiSubscribe_v2.
    pub(crate) name: String,
    pub(crate) driver: IdSet,
    pub(crate) resource: IdSet,
    /// What it collects through the second activity API.
    pub(crate) activity: Collection,
}

/// The subscribers, in the order in which they came, and the counter of traced calls.
pub(crate) struct Callbacks {
    subscribers: RwLock<Subscribers>,
    next_correlation: AtomicU32,
}

#[derive(Default)]
struct Subscribers {
    all: Arc<[Arc<Subscriber>]>,
    /// The first one allowed others.
    company: bool,
    count: usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) api: Api,
    /// Its `*_params` struct, or null (only the launches give one).
    pub(crate) params: *const c_void,
    /// The name of the launched kernel, or null.
    pub(crate) symbol: *const c_char,
}

impl From<Api> for Call {
    fn from(api: Api) -> Call {
        Call { api, params: ptr::null(), symbol: ptr::null() }
    }
}

impl Callbacks {
    pub(crate) fn new(first_correlation: u32) -> Callbacks {
        Callbacks {
            subscribers: RwLock::default(),
            next_correlation: AtomicU32::new(first_correlation),
        }
    }

    pub(crate) fn subscribers(&self) -> Arc<[Arc<Subscriber>]> {
        Arc::clone(&self.subscribers.read().all)
    }

    pub(crate) fn subscriber(&self, handle: Handle) -> Option<Arc<Subscriber>> {
        self.subscribers().iter().find(|subscriber| subscriber.handle == handle).cloned()
    }

    /// Lets a subscriber in that `make` makes with its handle: the first one, or one more where all
    /// allow company and `may_share`. None if another is in the way.
    pub(crate) fn subscribe(
        &self,
        company: bool,
        may_share: bool,
        make: impl FnOnce(Handle) -> Subscriber,
    ) -> Option<Handle> {
        let mut subscribers = self.subscribers.write();
        if subscribers.all.is_empty() {
            subscribers.company = company;
        } else if !(may_share && company && subscribers.company) {
            return None;
        }
        let handle = SUBSCRIBER + subscribers.count;
        subscribers.count += 1;
        let before = subscribers.all.iter().cloned();
        subscribers.all = before.chain([Arc::new(make(handle))]).collect();
        Some(handle)
    }

    /// Lets a subscriber go; false if there is none with this handle.
    pub(crate) fn unsubscribe(&self, handle: Handle) -> bool {
        let mut subscribers = self.subscribers.write();
        let rest = subscribers.all.iter().filter(|subscriber| subscriber.handle != handle);
        let rest: Arc<[_]> = rest.cloned().collect();
        let is_known = rest.len() < subscribers.all.len();
        subscribers.all = rest;
        is_known
    }

    /// Whether the first subscriber allowed others; None without subscribers.
    pub(crate) fn company(&self) -> Option<bool> {
        let subscribers = self.subscribers.read();
        (!subscribers.all.is_empty()).then_some(subscribers.company)
    }

    /// Runs a driver call under a new correlation id, with its callbacks at enter and exit.
    pub(crate) fn run_traced(&self, call: Call, body: impl FnOnce(u32) -> u32) -> u32 {
        // CUPTI keeps 0 for records that have no call.
        let next = |id: u32| Some(id.checked_add(1).unwrap_or(1));
        let taken = self.next_correlation.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let (Ok(correlation_id) | Err(correlation_id)) = taken;
        let mut result = 0;
        let mut correlation_data = 0_u64;
        self.site(0, &call, correlation_id, &mut result, &mut correlation_data);
        result = body(correlation_id);
        self.site(1, &call, correlation_id, &mut result, &mut correlation_data);
        result
    }

    fn site(&self, site: u32, call: &Call, id: u32, result: &mut u32, data: &mut u64) {
        let data = CallbackData {
            callback_site: site,
            function_name: call.api.name.as_ptr(),
            function_params: call.params,
            function_return_value: result,
            symbol_name: call.symbol,
            context: CONTEXT,
            context_uid: CONTEXT_ID,
            correlation_data: data,
            correlation_id: id,
        };
        // Looked up at each site, so that a callback may switch itself off.
        let wants = |subscriber: &Subscriber| subscriber.driver.has(call.api.cbid);
        self.fire(wants, domain::DRIVER_API, call.api.cbid, (&raw const data).cast());
    }

    /// Reports an event of the resource domain; `descriptor` is for events about graphs.
    pub(crate) fn resource(&self, cbid: u32, stream: Handle, descriptor: Option<&GraphData>) {
        let descriptor = descriptor.map_or(ptr::null(), |data| ptr::from_ref(data).cast());
        let data = ResourceData { context: CONTEXT, stream, descriptor };
        let wants = |subscriber: &Subscriber| subscriber.resource.has(cbid);
        self.fire(wants, domain::RESOURCE, cbid, (&raw const data).cast());
    }

    fn fire(&self, wants: impl Fn(&Subscriber) -> bool, domain: u32, id: u32, data: *const c_void) {
        // No lock is held: a callback may unsubscribe or take as long as it likes.
        for subscriber in self.subscribers().iter().filter(|subscriber| wants(subscriber)) {
            let userdata = ptr::without_provenance_mut(subscriber.userdata);
            // SAFETY: the subscriber registered this function for callbacks of this shape; `data`
            // is the struct of the domain and lives on the stack of the caller.
            unsafe { (subscriber.function)(userdata, domain, id, data) };
        }
    }
}

/// Ids of an [`IdSet`] start at 0 and end here: more than there are functions in the driver.
const IDS: usize = 1024;
/// A set of callback ids or of activity kinds.
pub(crate) struct IdSet([AtomicBool; IDS]);

impl IdSet {
    pub(crate) const fn new() -> IdSet {
        IdSet([const { AtomicBool::new(false) }; IDS])
    }

    /// Adds or removes an id; false if it is out of range.
    pub(crate) fn set(&self, id: u32, on: bool) -> bool {
        self.0.get(id as usize).map(|flag| flag.store(on, Ordering::Relaxed)).is_some()
    }

    pub(crate) fn set_all(&self, on: bool) {
        self.0.iter().for_each(|flag| flag.store(on, Ordering::Relaxed));
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.0.iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.0.get(id as usize).is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set = IdSet::new();
        assert!(set.set(307, true) && set.has(307) && !set.has(306) && !set.has(9999));
        assert!(!set.set(IDS as u32, true));
        set.set_all(true);
        assert!(set.has(1) && set.set(1, false) && !set.has(1) && !set.is_empty());
        set.set_all(false);
        assert!(set.is_empty());
    }
}
