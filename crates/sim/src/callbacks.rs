//! Reports traced driver calls and resource events to CUPTI's subscribers, of which 13.3 may have several.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;

use crate::abi::{CallbackData, CallbackFunc, GraphData, Handle, ResourceData, domain};
use crate::calls::Api;
use crate::collection::Collection;
use crate::id_set::IdSet;
use crate::record::CONTEXT_ID;

/// The handle that the first subscriber gets; later ones get higher ones.
pub(crate) const SUBSCRIBER: Handle = 0x5ab5_c21b;
/// The handle of the context.
pub(crate) const CONTEXT: Handle = 0x7000_0000_0000_0001;

/// A subscriber: who it is, and what it wants to hear and to have recorded.
pub(crate) struct Subscriber {
    pub(crate) handle: Handle,
    pub(crate) function: CallbackFunc,
    pub(crate) userdata: usize,
    /// The name that it gave to cuptiSubscribe_v2.
    pub(crate) name: String,
    /// Enabled callbacks of the driver domain.
    pub(crate) driver: IdSet,
    /// Enabled callbacks of the resource domain.
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
    /// Subscribers so far.
    count: usize,
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
            subscribers: RwLock::default(),
            next_correlation: AtomicU32::new(first_correlation),
        }
    }

    /// The subscribers now.
    pub(crate) fn subscribers(&self) -> Arc<[Arc<Subscriber>]> {
        Arc::clone(&self.subscribers.read().all)
    }

    /// The subscriber with a handle.
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
    pub(crate) fn traced(&self, call: Call, body: impl FnOnce(u32) -> u32) -> u32 {
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

    fn fire(
        &self,
        wants: impl Fn(&Subscriber) -> bool,
        domain: u32,
        cbid: u32,
        data: *const c_void,
    ) {
        // No lock is held: a callback may unsubscribe or take as long as it likes.
        for subscriber in self.subscribers().iter().filter(|subscriber| wants(subscriber)) {
            let userdata = ptr::without_provenance_mut(subscriber.userdata);
            // SAFETY: the subscriber registered this function for callbacks of this shape; `data`
            // is the struct of the domain and lives on the stack of the caller.
            unsafe { (subscriber.function)(userdata, domain, cbid, data) };
        }
    }
}
