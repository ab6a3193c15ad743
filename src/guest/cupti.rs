//! CUPTI into full activity buffers, fences and launch events: the only user of its functions.
//!
//! Two ways to learn which thread launched a record, both exact:
//! - *fence* (CUPTI 12.6 update 2 and later): CUPTI keeps one activity buffer per launching thread, so the
//!   thread that asked for a buffer launched everything in it; at range boundaries a fence call
//!   takes a number in CUPTI's sequence. Nothing happens at a launch.
//! - *callback*: a callback at every call that puts work on a GPU reports its number. Costs a few
//!   percent where launches bound the guest.

mod callbacks;
mod launches;
mod library;

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use cupti_sys::bindings as sys;
use cupti_sys::{Api, CuptiError, Subscriber, find};
use parking_lot::Mutex;
use stage2_spool::GpuNs;

use crate::base::diag;
use crate::base::options::{Attribution, Graph, Options};
use crate::base::signal_mask::SignalBlock;
use crate::guest::counters::{Counters, Refusal};
use crate::guest::gpu::{Gpu, OffReason, Tracer};
use crate::guest::pool::Pool;
use crate::guest::state::{self, Shared};
use crate::guest::thread;
use library::DriverGetVersion;

/// CUPTI, subscribed and collecting.
struct Cupti {
    api: &'static Api,
    /// `None` while a thread uses it, and after the end.
    subscriber: Mutex<Option<Subscriber>>,
    driver_get_version: DriverGetVersion,
    by_callback: bool,
    /// Collection may be switched while the guest runs.
    switches: bool,
    collecting: AtomicBool,
    /// A switch failed, which was said.
    refused: AtomicBool,
    /// Nothing is collected any more.
    shut: AtomicBool,
    graph: Graph,
}

/// The kinds of activity that are switched at ranges. `GRAPH_TRACE` is not one: CUPTI 13.0 ends
/// the process in a segmentation fault when a graph that was made while it was off is launched while
/// it is on.
const SWITCHED: [u32; 3] = [
    sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    sys::CUPTI_ACTIVITY_KIND_MEMCPY,
    sys::CUPTI_ACTIVITY_KIND_MEMSET,
];

/// Finds CUPTI, subscribes and starts collecting. Called once, in the driver's initialisation.
/// `come_first_at_exit` has us finish before every exit handler that was registered until then.
pub fn start(shared: &Shared, come_first_at_exit: fn()) -> Result<Gpu, OffReason> {
    let options = &shared.options;
    let (driver_get_version, cuda_version) = library::driver(options)?;
    let cuda_major = (cuda_version / 1000).try_into().ok();
    let found = find::locate(options.cupti.as_deref(), cuda_major)
        .map_err(|error| OffReason(error.to_string()))?;
    let how = format!("{:?}", found.how);
    // SAFETY: the library was found as a CUPTI or named as one by the user, and the driver is in
    // the process, because it is what called us.
    let api = unsafe { Api::load(found.library) }.map_err(|error| OffReason(error.to_string()))?;
    let version = library::known_version(&api)?;
    let loaded = find::process::mapped_files();
    if let Some(off) = library::refusal(version, api.path(), cuda_version, &loaded) {
        return Err(off);
    }
    // CUPTI may call back for the life of the process.
    let api: &'static Api = Box::leak(Box::new(api));
    let mut subscriber = subscribe(api)?;
    let by_callback = match configure(shared, api, version, &mut subscriber) {
        Ok(by_callback) => by_callback,
        Err(off) => {
            // Leave CUPTI to a later tool, and do not let the guest pay for it. There is nobody to
            // report a failure to.
            disable(api);
            let _ = api.activity_disable(sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
            let _ = api.activity_disable(sys::CUPTI_ACTIVITY_KIND_DEVICE);
            let _ = api.unsubscribe(subscriber);
            return Err(off);
        }
    };
    let attribution = if by_callback { "callback" } else { "fence" };
    let (switches, collecting) = (library::may_switch(version), is_always_on(shared, version));
    let mut facts = vec![
        ("cupti.version", version.to_string()),
        ("cupti.path", api.path().display().to_string()),
        ("cupti.found", how),
        ("cuda.driver_version", cuda_version.to_string()),
        ("attribution", attribution.to_owned()),
        ("graph", if options.graph == Graph::Node { "node" } else { "graph" }.to_owned()),
    ];
    if shared.wanted().is_restricted() && collecting {
        facts.push(("collection", "whole".to_owned()));
    }
    if library::is_simulated(api) {
        facts.push(("cupti.simulated", "1".to_owned()));
    }
    diag::info(format_args!(
        "CUPTI {version} at {}, CUDA driver {cuda_version}, attribution by {attribution}",
        api.path().display(),
    ));
    let tracer = Cupti {
        api,
        subscriber: Mutex::new(Some(subscriber)),
        driver_get_version,
        by_callback,
        switches,
        collecting: AtomicBool::new(collecting),
        refused: AtomicBool::new(false),
        shut: AtomicBool::new(false),
        graph: options.graph,
    };
    let (tracer, walker) = (Box::new(tracer), api.walker());
    let counters =
        sample_counters(options, api, version, come_first_at_exit).unwrap_or_else(|refusal| {
            diag::warn(format_args!("hardware counters are not sampled: {refusal}"));
            facts.push((stage2_spool::counters::OFF, refusal.to_string()));
            None
        });
    Ok(Gpu { tracer, walker, reports_launches: by_callback, switches, counters, facts })
}

/// Starts to sample hardware counters, where they were asked for.
fn sample_counters(
    options: &Options,
    api: &'static Api,
    version: u32,
    come_first_at_exit: fn(),
) -> Result<Option<Counters>, Refusal> {
    let wanted = &options.counters;
    if wanted.off {
        return Ok(None);
    }
    // Nothing but a trace file has room for samples.
    options.out.as_ref().ok_or(Refusal::NOWHERE_TO_WRITE)?;
    Counters::start(api, version, wanted, come_first_at_exit).map(Some)
}

/// Collection is not switched at ranges: nothing is left out, or this CUPTI may not be switched.
fn is_always_on(shared: &Shared, version: u32) -> bool {
    !shared.wanted().is_restricted() || !library::may_switch(version)
}

/// Hands CUPTI the buffers, asks for the callbacks and, where collection is not switched at
/// ranges, for the records. Returns whether launches are reported by callbacks.
fn configure(
    shared: &Shared,
    api: &Api,
    version: u32,
    subscriber: &mut Subscriber,
) -> Result<bool, OffReason> {
    let options = &shared.options;
    let refused = |what: &str, error| OffReason(format!("CUPTI refused to {what}: {error}"));
    let per_thread = library::has_safe_buffers_per_thread(api, version)
        && api.set_attribute_u8(sys::CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, 1).is_ok();
    let by_callback = by_callback(options.attribution, per_thread, version);
    // Spares CUPTI from clearing our buffers, which are clear.
    let _ = api.set_attribute_u8(sys::CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 1);

    let pool = Pool::new(options.buffers, library::may_refuse(version)).ok_or_else(|| {
        OffReason("no address space for the activity buffers; try a smaller STAGE2_BUFFERS".into())
    })?;
    diag::info(format_args!("{} KiB of address space for activity records", pool.bytes() >> 10));
    // A second start cannot happen: `lifecycle` calls this once.
    let _ = shared.pool.set(pool);
    api.register_callbacks(callbacks::request_buffer, callbacks::complete_buffer)
        .map_err(|error| refused("take activity buffers", error))?;

    let on = |subscriber: &mut _, domain, id| api.enable_callback(subscriber, domain, id, true);
    if by_callback {
        on(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, launches::KERNEL)
            .map_err(|error| refused("report launches", error))?;
        report_launches(api, subscriber, true);
    } else {
        on(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, launches::FENCE)
            .map_err(|error| refused("report the fence call", error))?;
        let by_node = shared.wanted().is_restricted() && options.graph == Graph::Node;
        for id in launches::REPLAYS.into_iter().filter(|_| by_node) {
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
    if !options.counters.off {
        // Without it sampling starts at the first record of a GPU.
        let id = sys::CUPTI_CBID_RESOURCE_CONTEXT_CREATED;
        let _ = on(subscriber, sys::CUPTI_CB_DOMAIN_RESOURCE, id);
    }
    // Without it only the names of the GPUs are missing.
    let device = sys::CUPTI_ACTIVITY_KIND_DEVICE;
    let _ = if options.start {
        api.activity_enable(device)
    } else {
        // The program may have made its contexts before.
        api.activity_enable_and_dump(device)
    };

    let collecting = is_always_on(shared, version);
    if shared.wanted().is_restricted() && collecting {
        diag::warn(format_args!(
            "CUPTI {version} may deadlock when collection is switched off (13.0 update 1 does not): it \
             stays on, at its full cost, and what STAGE2_RANGES and STAGE2_SAMPLE do not ask for is \
             left out"
        ));
    }
    let refused_kind = |kind, error| refused(&format!("collect activity of kind {kind}"), error);
    if options.graph == Graph::Graph {
        let kind = sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
        api.activity_enable(kind).map_err(|error| refused_kind(kind, error))?;
    }
    if collecting {
        enable(api).map_err(|(kind, error)| refused_kind(kind, error))?;
    } else if by_callback && options.graph == Graph::Node {
        report_launches(api, subscriber, false);
    }
    Ok(by_callback)
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

fn enable(api: &Api) -> Result<(), (u32, CuptiError)> {
    SWITCHED.iter().try_for_each(|&kind| api.activity_enable(kind).map_err(|error| (kind, error)))
}

fn disable(api: &Api) {
    for kind in SWITCHED {
        let _ = api.activity_disable(kind);
    }
}

/// Switches the callbacks at launches. Newer calls are unknown to older CUPTIs.
fn report_launches(api: &Api, subscriber: &mut Subscriber, on: bool) {
    for id in std::iter::once(launches::KERNEL).chain(launches::others()) {
        let _ = api.enable_callback(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, id, on);
    }
}

fn subscribe(api: &'static Api) -> Result<Subscriber, OffReason> {
    api.subscribe(callbacks::on_callback, ptr::from_ref(api).cast_mut().cast()).map_err(|error| {
        let holder = (error == CuptiError::MULTIPLE_SUBSCRIBERS)
            .then(|| api.holder(c"stage2"))
            .flatten()
            .map(|holder| format!(" (held by {holder})"))
            .unwrap_or_default();
        OffReason(format!("CUPTI refused the subscription{holder}: {error}"))
    })
}

impl Cupti {
    /// Nobody waits here: a thread that finds the subscription taken leaves it alone. It is taken while
    /// CUPTI is called, so that no lock is held then. Replays that are recorded as wholes are recorded,
    /// and have to be reported, all the time.
    fn report_launches(&self, on: bool) {
        if !self.by_callback || self.graph == Graph::Graph {
            return;
        }
        let subscriber = self.subscriber.lock().take();
        let Some(mut subscriber) = subscriber else { return };
        report_launches(self.api, &mut subscriber, on);
        *self.subscriber.lock() = Some(subscriber);
    }
}

impl Tracer for Cupti {
    fn fence(&self) -> u32 {
        if self.by_callback {
            return 0;
        }
        let mut version = 0;
        // SAFETY: as at the start; CUPTI shows this call to `callbacks::on_callback` on this thread.
        unsafe { (self.driver_get_version)(&raw mut version) };
        thread::take_fence()
    }

    fn flush(&self, forced: bool) -> Result<(), CuptiError> {
        self.api.flush_all(forced)
    }

    fn now(&self) -> Option<GpuNs> {
        self.api.timestamp_ns().ok().map(GpuNs)
    }

    fn take_dropped(&self) -> u64 {
        self.api.num_dropped().unwrap_or(0) as u64
    }

    fn collect(&self, on: bool) {
        if !self.switches {
            return;
        }
        let _blocked = SignalBlock::all(); // CUPTI may start threads here, which inherit the mask.
        if on {
            if self.shut.load(Ordering::SeqCst) {
                return;
            }
            self.collecting.store(true, Ordering::SeqCst);
            // Before the first record, so that none is without its launch.
            self.report_launches(true);
            if let Err((kind, error)) = enable(self.api) {
                if let Some(shared) = state::shared() {
                    shared.counters.late_switches.increment();
                }
                // Each range that is asked for comes by here.
                if !self.refused.swap(true, Ordering::Relaxed) {
                    diag::warn(format_args!(
                        "CUPTI refused to collect activity of kind {kind}, which is missing from \
                         here on: {error}"
                    ));
                }
            }
            // SeqCst, as below: a thread that ends a window may have switched off while this switched on.
            let switched_off = !self.collecting.load(Ordering::SeqCst);
            if switched_off || self.shut.load(Ordering::SeqCst) {
                // Between the two looks at it.
                disable(self.api);
            }
        } else if self.collecting.swap(false, Ordering::SeqCst) {
            disable(self.api);
            self.report_launches(false);
        }
    }

    fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        self.collect(false);
        let _ = self.api.activity_disable(sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
        let subscriber = self.subscriber.lock().take();
        if let Some(subscriber) = subscriber {
            // There is nobody to report a failure to.
            let _ = self.api.unsubscribe(subscriber);
        }
    }
}
