//! A CUPTI that was found into one that is subscribed and configured: which of its two activity APIs serves,
//! and the way back to the first one. No other module knows which of them it is ([`Activities`]).

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cupti_sys::subscriber::{Company, Refusal};
use cupti_sys::{Api, CuptiError, Subscriber, bindings as sys};
use stage2_contract::settings::CuptiApi;

use super::{blocking, callbacks, library};
use crate::base::diag;
use crate::base::options::{Attribution, Graph};
use crate::guest::activity::fields;
use crate::guest::gpu::OffReason;
use crate::guest::pool::Pool;
use crate::guest::state::Shared;

/// CUDA 13.4 update 1: the first whose hardware trace neither crashes programs that instantiate graphs or
/// destroy contexts, nor loses memory with each record.
const HARDWARE_TRACE_SINCE: u32 = 130_401;

/// The name under which CUPTI shows us to tools that it refuses.
const OUR_NAME: &std::ffi::CStr = c"stage2";

pub(super) struct Attached {
    pub(super) activities: Activities,
    pub(super) subscriber: Subscriber,
    /// Launches are reported by callbacks.
    pub(super) by_callback: bool,
    /// Whether CUPTI accepted to take times of kernels from the hardware, or why it does not.
    pub(super) hardware_trace: Result<(), String>,
    /// Why the first activity API serves although the second one was asked for.
    pub(super) fell_back: Option<String>,
}

/// Subscribes and configures. The second activity API serves where CUPTI has it: on an H200 it counts as
/// exactly as the first one, costs no more, and CUPTI keeps no memory of past records (docs/cupti-findings.md).
/// What it refuses at the start, the first one is asked for; but not where another tool holds CUPTI, which
/// serves neither.
pub(super) fn attach(
    shared: &Shared,
    api: &'static Api,
    version: u32,
) -> Result<Attached, OffReason> {
    let wanted = shared.options.cupti_api;
    let mut fell_back = None;
    if wanted != CuptiApi::V1 && api.has_activity_v2() {
        match attach_second(shared, api, version) {
            Ok(attached) => return Ok(attached),
            Err(Failure::Held(off)) => return Err(off),
            Err(Failure::Refused(why)) => {
                diag::info(format_args!(
                    "CUPTI's first activity API is used, because the second one failed: {why}"
                ));
                fell_back = Some(why);
            }
        }
    } else if wanted == CuptiApi::V2 {
        let why = format!("CUPTI {version} does not have it (13.3 and later do)");
        diag::warn(format_args!(
            "STAGE2_CUPTI_API=v2: {why}; the first activity API is used; point STAGE2_CUPTI at a newer \
             libcupti"
        ));
        fell_back = Some(why);
    }
    let attached = configured(shared, api, version, Activities::First(api), subscribe(api)?)?;
    Ok(Attached { fell_back, ..attached })
}

enum Failure {
    /// Another tool holds CUPTI.
    Held(OffReason),
    /// CUPTI refused something else.
    Refused(String),
}

fn attach_second(shared: &Shared, api: &'static Api, version: u32) -> Result<Attached, Failure> {
    let subscriber = subscribe_second(api).map_err(|refusal| {
        if refusal.error == CuptiError::MULTIPLE_SUBSCRIBERS {
            Failure::Held(refused_subscription(refusal.holder, refusal.error))
        } else {
            Failure::Refused(refusal.to_string())
        }
    })?;
    let activities = Activities::second(api, &subscriber);
    configured(shared, api, version, activities, subscriber)
        .map_err(|OffReason(why)| Failure::Refused(why))
}

/// Configures a subscription, which ends where CUPTI refuses something.
fn configured(
    shared: &Shared,
    api: &Api,
    version: u32,
    activities: Activities,
    mut subscriber: Subscriber,
) -> Result<Attached, OffReason> {
    match configure(shared, api, version, &activities, &mut subscriber) {
        Ok((by_callback, hardware_trace)) => {
            let fell_back = None;
            Ok(Attached { activities, subscriber, by_callback, hardware_trace, fell_back })
        }
        Err(off) => {
            leave(api, &activities, subscriber);
            Err(off)
        }
    }
}

/// Leaves CUPTI to a later tool, and does not let the guest pay for it. There is nobody to report a
/// failure to.
fn leave(api: &Api, activities: &Activities, subscriber: Subscriber) {
    activities.disable_switched();
    activities.disable(sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    activities.disable(sys::CUPTI_ACTIVITY_KIND_DEVICE);
    if activities.end() {
        let _ = api.unsubscribe(subscriber);
    }
}

fn subscribe(api: &'static Api) -> Result<Subscriber, OffReason> {
    api.subscribe(callbacks::on_callback, user_data(api)).map_err(|error| {
        let taken = error == CuptiError::MULTIPLE_SUBSCRIBERS;
        refused_subscription(taken.then(|| api.holder(OUR_NAME)).flatten(), error)
    })
}

/// Others that allow it are welcome alongside us. A driver before CUDA 13.3 may refuse that wish itself, with
/// the error for a tool that is in the way: alone we are content.
fn subscribe_second(api: &'static Api) -> Result<Subscriber, Refusal> {
    let subscribe =
        |company| api.subscribe_as(OUR_NAME, company, callbacks::on_callback, user_data(api));
    subscribe(Company::Welcome).or_else(|_| subscribe(Company::Refused))
}

fn user_data(api: &'static Api) -> *mut std::ffi::c_void {
    ptr::from_ref(api).cast_mut().cast()
}

fn refused_subscription(holder: Option<String>, error: CuptiError) -> OffReason {
    let holder = holder.map(|holder| format!(" (held by {holder})")).unwrap_or_default();
    OffReason(format!("CUPTI refused the subscription{holder}: {error}"))
}

/// Collection is not switched at ranges: nothing is left out, or this CUPTI may not be switched.
pub(super) fn is_always_on(shared: &Shared, version: u32) -> bool {
    !shared.window_filter().is_restricted() || !library::may_switch(version)
}

/// Hands CUPTI the buffers, asks for the callbacks and, where collection is not switched at ranges, for
/// the records. Gives whether launches are reported by callbacks, and what became of hardware trace.
fn configure(
    shared: &Shared,
    api: &Api,
    version: u32,
    activities: &Activities,
    subscriber: &mut Subscriber,
) -> Result<(bool, Result<(), String>), OffReason> {
    let options = &shared.options;
    let refused = |what: &str, error| OffReason(format!("CUPTI refused to {what}: {error}"));
    activities.prepare(options.graph).map_err(|error| refused("record chosen fields", error))?;
    let hardware_trace = trace_by_hardware(activities, version, options.hardware_trace);
    let per_thread = library::has_safe_buffers_per_thread(api, version)
        && activities.set(sys::CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, 1).is_ok();
    let by_callback = by_callback(options.attribution, per_thread, version);
    // Spares CUPTI from clearing our buffers, which are clear.
    let _ = activities.set(sys::CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 1);
    provide_pool(shared, version, activities)?;
    activities.register().map_err(|error| refused("take activity buffers", error))?;

    let on = |subscriber: &mut _, domain, id| api.enable_callback(subscriber, domain, id, true);
    // Where callbacks tell of launches, it shows only that CUPTI still calls us.
    on(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, callbacks::FENCE)
        .map_err(|error| refused("report the fence call", error))?;
    if by_callback {
        on(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, callbacks::KERNEL)
            .map_err(|error| refused("report launches", error))?;
        callbacks::enable_launches(api, subscriber, true, false);
    } else {
        let by_node = shared.window_filter().is_restricted() && options.graph == Graph::Node;
        for id in callbacks::REPLAYS.into_iter().filter(|_| by_node) {
            // Without them only times of replays in switched collection are missing.
            let _ = on(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, id);
        }
    }
    for id in
        [sys::CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, sys::CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED]
    {
        // Without them only the capture paths of graph kernels are missing.
        let _ = on(subscriber, sys::CUPTI_CB_DOMAIN_RESOURCE, id);
    }
    if !shared.counters_to_sample().off {
        // Without it sampling starts at the first record of a GPU.
        let id = sys::CUPTI_CBID_RESOURCE_CONTEXT_CREATED;
        let _ = on(subscriber, sys::CUPTI_CB_DOMAIN_RESOURCE, id);
    }
    let device = activities.enable_devices(options.start);
    if activities.is_second() {
        // The first kind with chosen fields: a refusal shows now, while there is a way back. In the first
        // API only the names of the GPUs are missing without it.
        device.map_err(|error| refused("record chosen fields", error))?;
    }

    let collecting = is_always_on(shared, version);
    if shared.window_filter().is_restricted() && collecting {
        diag::warn(format_args!(
            "CUPTI {version} {} (13.0 update 1 does not): it stays on, at its full cost, and what \
             STAGE2_RANGES and STAGE2_SAMPLE do not ask for is left out",
            library::hazard_of_switching(version)
        ));
    }
    let refused_kind = |kind, error| refused(&format!("collect activity of kind {kind}"), error);
    if options.graph == Graph::Graph {
        let kind = sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
        activities.enable(kind).map_err(|error| refused_kind(kind, error))?;
    }
    if collecting {
        activities.enable_switched().map_err(|(kind, error)| refused_kind(kind, error))?;
    } else if by_callback && options.graph == Graph::Node {
        callbacks::enable_launches(api, subscriber, false, false);
    }
    if blocking::is_wanted(options) {
        blocking::enable(api, subscriber);
    }
    Ok((by_callback, hardware_trace))
}

/// Reserves the buffers. A start of the first API after the second one failed keeps those that are there.
fn provide_pool(shared: &Shared, version: u32, activities: &Activities) -> Result<(), OffReason> {
    if shared.pool.get().is_some() {
        return Ok(());
    }
    let pool = Pool::new(shared.options.buffers, library::may_refuse(version));
    let pool = if activities.is_second() { pool.and_then(Pool::with_layouts) } else { pool };
    let pool = pool.ok_or_else(|| {
        OffReason("no address space for the activity buffers; try a smaller STAGE2_BUFFERS".into())
    })?;
    diag::info(format_args!("{} KiB of address space for activity records", pool.bytes() >> 10));
    // Nobody else sets it: `lifecycle` starts CUPTI once.
    let _ = shared.pool.set(pool);
    Ok(())
}

/// Asks for hardware trace where the user does. CUPTI may accept it for a GPU that cannot: the GPU is not
/// known yet.
fn trace_by_hardware(activities: &Activities, version: u32, wanted: bool) -> Result<(), String> {
    if !wanted {
        return Err("off".to_owned());
    }
    let asked = if version < HARDWARE_TRACE_SINCE {
        Err(format!("off: it needs CUPTI 13.4 update 1 or later, and this is {version}"))
    } else {
        activities.enable_hardware_trace().map_err(|error| format!("refused: {error}"))
    };
    if let Err(why) = &asked {
        diag::warn(format_args!(
            "STAGE2_HWTRACE=on: {why}; CUPTI takes the times of kernels as it does by default"
        ));
    }
    asked
}

fn by_callback(wanted: Attribution, per_thread_buffers: bool, version: u32) -> bool {
    match wanted {
        Attribution::Callback => true,
        Attribution::Auto => !per_thread_buffers,
        Attribution::Fence if !per_thread_buffers => {
            diag::warn(format_args!(
                "STAGE2_ATTRIBUTION=fence needs CUPTI 12.6 update 2 or later, this is {version}; callbacks \
                 are used instead"
            ));
            true
        }
        Attribution::Fence => false,
    }
}

pub(super) enum Activities {
    /// The first one, which belongs to the process.
    First(&'static Api),
    /// The second one, which belongs to a subscriber.
    Second(Second),
}

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
/// The second API has its own kind for copies between devices, which `MEMCPY` brings along in the first.
const SWITCHED_SECOND: &[u32] = &[
    sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    sys::CUPTI_ACTIVITY_KIND_MEMCPY,
    sys::CUPTI_ACTIVITY_KIND_MEMCPY2,
    sys::CUPTI_ACTIVITY_KIND_MEMSET,
];

impl Activities {
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

    pub(super) fn set(&self, attribute: u32, value: u8) -> Result<(), CuptiError> {
        match self {
            Activities::First(api) => api.set_attribute_u8(attribute, value),
            Activities::Second(second) => second.set(attribute, value),
        }
    }

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

    pub(super) fn disable_switched(&self) {
        self.switched().iter().for_each(|&kind| self.disable(kind));
    }

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

    /// No call for the subscriber begins any more. Whether its registration may end: no other thread is in
    /// such a call. Nobody waits for one.
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
