//! Reports traced driver calls and resource events to the one CUPTI subscriber.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::abi::{CallbackData, CallbackFunc, GraphData, Handle, ResourceData, domain};
use crate::calls::Api;
use crate::record::CONTEXT_ID;

/// Ids of an [`IdSet`] start at 0 and end here: more than there are functions in the driver.
const IDS: usize = 1024;
/// The handle that a subscriber gets.
pub(crate) const SUBSCRIBER: Handle = 0x5ab5_c21b;
/// The handle of the context.
pub(crate) const CONTEXT: Handle = 0x7000_0000_0000_0001;

/// A set of callback ids or of activity kinds.
pub(crate) struct IdSet([AtomicBool; IDS]);

impl IdSet {
    /// The empty set.
    pub(crate) const fn new() -> IdSet {
        IdSet([const { AtomicBool::new(false) }; IDS])
    }

    /// Adds or removes an id; false if it is out of range.
    pub(crate) fn set(&self, id: u32, on: bool) -> bool {
        self.0.get(id as usize).map(|flag| flag.store(on, Ordering::Relaxed)).is_some()
    }

    /// Adds or removes every id.
    pub(crate) fn set_all(&self, on: bool) {
        self.0.iter().for_each(|flag| flag.store(on, Ordering::Relaxed));
    }

    /// Whether an id is in the set.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.0.get(id as usize).is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Who gets the callbacks.
#[derive(Clone)]
pub(crate) struct Subscriber {
    pub(crate) function: CallbackFunc,
    pub(crate) userdata: usize,
    /// The name that it gave to cuptiSubscribe_v2.
    pub(crate) name: String,
}

/// The subscriber, what it wants to hear, and the counter of traced calls.
pub(crate) struct Callbacks {
    pub(crate) subscriber: RwLock<Option<Subscriber>>,
    /// Enabled callbacks of the driver domain.
    pub(crate) driver: IdSet,
    /// Enabled callbacks of the resource domain.
    pub(crate) resource: IdSet,
    next_correlation: AtomicU32,
}

/// A driver call that is traced.
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
    /// No subscriber; the first traced call gets the id `first_correlation`.
    pub(crate) fn new(first_correlation: u32) -> Callbacks {
        Callbacks {
            subscriber: RwLock::new(None),
            driver: IdSet::new(),
            resource: IdSet::new(),
            next_correlation: AtomicU32::new(first_correlation),
        }
    }

    /// Runs a driver call under a new correlation id, with its callbacks at enter and exit.
    pub(crate) fn traced(&self, call: Call, body: impl FnOnce(u32) -> u32) -> u32 {
        let correlation_id = self.next_correlation.fetch_add(1, Ordering::Relaxed);
        let mut result = 0;
        let mut correlation_data = 0_u64;
        // Looked up at each site, so that a callback may switch itself off.
        if self.driver.has(call.api.cbid) {
            self.site(0, &call, correlation_id, &mut result, &mut correlation_data);
        }
        result = body(correlation_id);
        if self.driver.has(call.api.cbid) {
            self.site(1, &call, correlation_id, &mut result, &mut correlation_data);
        }
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
        self.fire(domain::DRIVER_API, call.api.cbid, (&raw const data).cast());
    }

    /// Reports an event of the resource domain; `descriptor` is for events about graphs.
    pub(crate) fn resource(&self, cbid: u32, stream: Handle, descriptor: Option<&GraphData>) {
        if !self.resource.has(cbid) {
            return;
        }
        let descriptor = descriptor.map_or(ptr::null(), |data| ptr::from_ref(data).cast());
        let data = ResourceData { context: CONTEXT, stream, descriptor };
        self.fire(domain::RESOURCE, cbid, (&raw const data).cast());
    }

    fn fire(&self, domain: u32, cbid: u32, data: *const c_void) {
        // Copied out: the callback may unsubscribe or take as long as it likes.
        let subscriber = self.subscriber.read().as_ref().map(|s| (s.function, s.userdata));
        if let Some((function, userdata)) = subscriber {
            // SAFETY: the subscriber registered this function for callbacks of this shape; `data`
            // is the struct of the domain and lives on the stack of the caller.
            unsafe { function(ptr::without_provenance_mut(userdata), domain, cbid, data) };
        }
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
        assert!(set.has(1) && set.set(1, false) && !set.has(1));
    }
}
