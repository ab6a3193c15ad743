//! CUPTI's two activity APIs behind one set of calls: who attaches to CUPTI chooses, and nobody else
//! knows which of them serves.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cupti_sys::bindings as sys;
use cupti_sys::{Api, CuptiError, Subscriber};

use super::callbacks;
use crate::base::options::Graph;
use crate::guest::activity::fields;

/// The activity API in use.
pub(super) enum Activities {
    /// The first one, which belongs to the process.
    First(&'static Api),
    /// The second one, which belongs to a subscriber.
    Second(Second),
}

/// The second activity API for one subscriber.
pub(super) struct Second {
    api: &'static Api,
    /// Used by [`Second::with`] only.
    subscriber: Subscriber,
    /// Threads that are in a call with it.
    users: AtomicUsize,
    /// No call begins any more.
    ended: AtomicBool,
}

/// The kinds that are switched at ranges. `GRAPH_TRACE` is not one: CUPTI 13.0 ends the process in a
/// segmentation fault when a graph that was made while it was off is launched while it is on.
const SWITCHED_FIRST: &[u32] = &[
    sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    sys::CUPTI_ACTIVITY_KIND_MEMCPY,
    sys::CUPTI_ACTIVITY_KIND_MEMSET,
];
/// The second API has a kind of its own for copies between devices, which `MEMCPY` brings along in the
/// first.
const SWITCHED_SECOND: &[u32] = &[
    sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    sys::CUPTI_ACTIVITY_KIND_MEMCPY,
    sys::CUPTI_ACTIVITY_KIND_MEMCPY2,
    sys::CUPTI_ACTIVITY_KIND_MEMSET,
];

impl Activities {
    /// The second API for a subscriber.
    pub(super) fn second(api: &'static Api, subscriber: &Subscriber) -> Self {
        Activities::Second(Second {
            api,
            // SAFETY: `Second::with` is the only user, never ends the registration and switches no
            // callback; who ends it asks `Activities::end` first.
            subscriber: unsafe { subscriber.alias() },
            users: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// The name of the API, as `STAGE2_CUPTI_API` and the trace file have it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Activities::First(_) => "v1",
            Activities::Second(_) => "v2",
        }
    }

    /// Whether it is the second one.
    pub(super) fn is_second(&self) -> bool {
        matches!(self, Activities::Second(_))
    }

    /// The kinds that are switched at ranges.
    fn switched(&self) -> &'static [u32] {
        match self {
            Activities::First(_) => SWITCHED_FIRST,
            Activities::Second(_) => SWITCHED_SECOND,
        }
    }

    /// What has to be set before all else: that records hold chosen fields, and how graphs are recorded.
    /// The first API needs nothing.
    pub(super) fn prepare(&self, graph: Graph) -> Result<(), CuptiError> {
        let Activities::Second(second) = self else { return Ok(()) };
        second.set(sys::CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS, 1)?;
        if graph == Graph::Graph {
            // With other subscribers beside us, records of whole graphs are for all of them or for
            // none. Alone this changes nothing, and where it is refused, enabling the kind says so.
            let _ = second.set(sys::CUPTI_ACTIVITY_ATTR_ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE, 1);
        }
        Ok(())
    }

    /// Has the hardware take the times of kernels. Must come before any kind is enabled, and cannot be
    /// taken back.
    pub(super) fn enable_hardware_trace(&self) -> Result<(), CuptiError> {
        match self {
            Activities::First(api) => api.enable_hardware_trace(),
            Activities::Second(second) => second.set(sys::CUPTI_ACTIVITY_ATTR_ENABLE_HES, 1),
        }
    }

    /// Sets a switch among the attributes that both APIs have.
    pub(super) fn set(&self, attribute: u32, value: u8) -> Result<(), CuptiError> {
        match self {
            Activities::First(api) => api.set_attribute_u8(attribute, value),
            Activities::Second(second) => second.set(attribute, value),
        }
    }

    /// Registers the callbacks that hand buffers out and take them back.
    pub(super) fn register(&self) -> Result<(), CuptiError> {
        match self {
            Activities::First(api) => {
                api.register_callbacks(callbacks::request_buffer, callbacks::complete_buffer)
            }
            Activities::Second(second) => second.with(|api, subscriber| {
                let (request, complete) =
                    (callbacks::request_buffer_v2, callbacks::complete_buffer_v2);
                api.register_callbacks_v2(subscriber, request, complete)
            }),
        }
    }

    /// Starts collecting records of a kind.
    pub(super) fn enable(&self, kind: u32) -> Result<(), CuptiError> {
        match self {
            Activities::First(api) => api.activity_enable(kind),
            Activities::Second(second) => second
                .with(|api, subscriber| api.activity_enable_v2(subscriber, kind, fields::of(kind))),
        }
    }

    /// Starts collecting the properties of devices. Those of devices that the program uses already
    /// (`early`: there are none) only the first API hands over.
    pub(super) fn enable_devices(&self, early: bool) -> Result<(), CuptiError> {
        let kind = sys::CUPTI_ACTIVITY_KIND_DEVICE;
        match self {
            Activities::First(api) if !early => api.activity_enable_and_dump(kind),
            _ => self.enable(kind),
        }
    }

    /// Starts collecting what is switched at ranges. Gives the kind that was refused.
    pub(super) fn enable_switched(&self) -> Result<(), (u32, CuptiError)> {
        let enable = |&kind: &u32| self.enable(kind).map_err(|error| (kind, error));
        self.switched().iter().try_for_each(enable)
    }

    /// Stops collecting records of a kind. There is nobody to report a failure to.
    pub(super) fn disable(&self, kind: u32) {
        let _ = match self {
            Activities::First(api) => api.activity_disable(kind),
            Activities::Second(second) => {
                second.with(|api, subscriber| api.activity_disable_v2(subscriber, kind))
            }
        };
    }

    /// Stops collecting what is switched at ranges.
    pub(super) fn disable_switched(&self) {
        self.switched().iter().for_each(|&kind| self.disable(kind));
    }

    /// CUPTI's clock, ns.
    pub(super) fn now_ns(&self) -> Result<u64, CuptiError> {
        match self {
            Activities::First(api) => api.timestamp_ns(),
            Activities::Second(second) => second.with(Api::timestamp_v2_ns),
        }
    }

    /// Records that CUPTI dropped since the last call.
    pub(super) fn dropped(&self) -> Result<usize, CuptiError> {
        match self {
            Activities::First(api) => api.num_dropped(),
            Activities::Second(second) => second.with(Api::num_dropped_v2),
        }
    }

    /// No call for the subscriber begins any more. Whether its registration may end: no other thread is
    /// in such a call. Nobody waits for one.
    pub(super) fn end(&self) -> bool {
        match self {
            Activities::First(_) => true,
            Activities::Second(second) => second.end(),
        }
    }
}

impl Second {
    /// Calls CUPTI for the subscriber, unless its registration has ended.
    fn with<T>(
        &self,
        call: impl FnOnce(&Api, &Subscriber) -> Result<T, CuptiError>,
    ) -> Result<T, CuptiError> {
        // Sequentially consistent on both sides: who counts before `end` looks is seen by it, and who
        // counts after it sees that it is over.
        self.users.fetch_add(1, Ordering::SeqCst);
        let result = if self.ended.load(Ordering::SeqCst) {
            Err(CuptiError::from(sys::CUPTI_ERROR_INVALID_OPERATION))
        } else {
            call(self.api, &self.subscriber)
        };
        self.users.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn set(&self, attribute: u32, value: u8) -> Result<(), CuptiError> {
        self.with(|api, subscriber| api.set_attribute_v2(subscriber, attribute, value))
    }

    fn end(&self) -> bool {
        self.ended.store(true, Ordering::SeqCst);
        self.users.load(Ordering::SeqCst) == 0
    }
}
