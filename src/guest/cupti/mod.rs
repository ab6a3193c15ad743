//! CUPTI into full activity buffers, fences and launch events: the only user of its functions.
//!
//! Records come by one of CUPTI's two activity APIs, which `attach` chooses.
//!
//! Two ways to learn which thread launched a record, both exact:
//! - *fence* (CUPTI 12.6 update 2 and later): CUPTI keeps one activity buffer per launching thread, so the
//!   thread that asked for a buffer launched everything in it; at range boundaries a fence call
//!   takes a number in CUPTI's sequence. Nothing happens at a launch.
//! - *callback*: a callback at every call that puts work on a GPU reports its number. Costs a few
//!   percent where launches bound the guest.

mod attach;
mod blocking;
mod callbacks;
mod library;

use std::sync::atomic::{AtomicBool, Ordering};

use cupti_sys::{Api, CuptiError, Subscriber, bindings as sys, find};
use parking_lot::Mutex;
use stage2_contract::trace::GpuNs;

use crate::base::diag;
use crate::base::options::Graph;
use crate::base::signal_mask::SignalBlock;
use crate::guest::activity::fields;
use crate::guest::counters::Counters;
use crate::guest::gpu::{Gpu, OffReason, Tracer};
use crate::guest::state::{self, Shared};
use crate::guest::thread;
use attach::{Activities, Attached};
pub use blocking::name as call_name;
use library::DriverGetVersion;

struct Cupti {
    api: &'static Api,
    activities: Activities,
    /// Switches callbacks. `None` while a thread uses it, and after the end.
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
    /// Calls that may block are told.
    tells_blocking: bool,
}

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
    let attached = attach::attach(shared, api, version)?;
    let Attached { activities, subscriber, by_callback, hardware_trace, fell_back } = attached;
    let attribution = if by_callback { "callback" } else { "fence" };
    let (switches, collecting) =
        (library::may_switch(version), attach::is_always_on(shared, version));
    let mut facts = vec![
        ("cupti.version", version.to_string()),
        ("cupti.path", api.path().display().to_string()),
        ("cupti.found", how),
        ("cupti.api", activities.name().to_owned()),
        ("cuda.driver_version", cuda_version.to_string()),
        ("attribution", attribution.to_owned()),
        ("graph", if options.graph == Graph::Node { "node" } else { "graph" }.to_owned()),
    ];
    let asks_hardware = hardware_trace.is_ok();
    if let Err(why) = hardware_trace {
        facts.push(("cupti.hwtrace", why));
    }
    if activities.is_second() {
        facts.push(("cupti.fields", fields::names()));
    }
    if let Some(why) = fell_back {
        facts.push(("cupti.v2_refused", why));
    }
    if shared.window_filter().is_restricted() && collecting {
        facts.push(("collection", "whole".to_owned()));
    }
    if library::is_simulated(api) {
        facts.push(("cupti.simulated", "1".to_owned()));
    }
    diag::info(format_args!(
        "CUPTI {version} at {}, activity API {}, CUDA driver {cuda_version}, attribution by \
         {attribution}",
        api.path().display(),
        activities.name(),
    ));
    let tracer = Cupti {
        api,
        activities,
        subscriber: Mutex::new(Some(subscriber)),
        driver_get_version,
        by_callback,
        switches,
        collecting: AtomicBool::new(collecting),
        refused: AtomicBool::new(false),
        shut: AtomicBool::new(false),
        graph: options.graph,
        tells_blocking: blocking::is_wanted(options),
    };
    let (tracer, walker) = (Box::new(tracer), api.walker());
    let counters = Counters::new(api, version, come_first_at_exit);
    if let Err(refusal) = counters.begin(&shared.counters_to_sample(), options.out.is_some()) {
        diag::warn(format_args!("hardware counters are not sampled: {refusal}"));
        facts.push((stage2_contract::trace::counters::OFF, refusal.to_string()));
    }
    let (counters, reports_launches) = (Some(counters), by_callback);
    Ok(Gpu { tracer, walker, reports_launches, switches, asks_hardware, counters, facts })
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
        callbacks::enable_launches(self.api, &mut subscriber, on, self.tells_blocking);
        *self.subscriber.lock() = Some(subscriber);
    }

    /// A number in CUPTI's sequence of calls, taken now on this thread; 0 where CUPTI does not call us.
    fn number(&self) -> u32 {
        let mut version = 0;
        // SAFETY: as at the start; CUPTI shows this call to `callbacks::on_callback` on this thread.
        unsafe { (self.driver_get_version)(&raw mut version) };
        thread::take_fence()
    }

    /// Ends the subscription, unless another thread has it in use.
    fn leave(&self) {
        let subscriber = self.subscriber.lock().take();
        if let Some(subscriber) = subscriber.filter(|_| self.activities.end()) {
            // Where another thread is in a call of CUPTI, the registration stays, without a kind of
            // activity that it collects. There is nobody to report a failure to.
            let _ = self.api.unsubscribe(subscriber);
        }
    }
}

impl Tracer for Cupti {
    fn fence(&self) -> u32 {
        if self.by_callback { 0 } else { self.number() }
    }

    fn flush(&self, forced: bool) -> Result<(), CuptiError> {
        self.api.flush_all(forced)
    }

    fn now(&self) -> Option<GpuNs> {
        self.activities.now_ns().ok().map(GpuNs)
    }

    fn take_dropped(&self) -> Option<u64> {
        self.activities.dropped().ok().map(|dropped| dropped as u64)
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
            if let Err((kind, error)) = self.activities.enable_switched() {
                // That no records come is known from here on: nobody switches the watch on again.
                let told = self.refused.swap(true, Ordering::SeqCst);
                if let Some(shared) = state::shared() {
                    shared.counters.late_switches.increment();
                    shared.launch_watch.set(false);
                }
                // Each range that is asked for comes by here.
                if !told {
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
                self.activities.disable_switched();
            }
        } else if self.collecting.swap(false, Ordering::SeqCst) {
            self.activities.disable_switched();
            self.report_launches(false);
        }
    }

    fn watch_launches(&self, on: bool) -> bool {
        if self.refused.load(Ordering::SeqCst) {
            return false;
        }
        if self.by_callback {
            return true;
        }
        let Some(mut subscriber) = self.subscriber.lock().take() else { return false };
        let watches = callbacks::watch_kernels(self.api, &mut subscriber, on);
        *self.subscriber.lock() = Some(subscriber);
        if self.shut.load(Ordering::SeqCst) {
            // It found the subscription in use.
            self.leave();
        }
        watches
    }

    fn is_attached(&self) -> bool {
        self.number() != 0
    }

    fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        self.collect(false);
        self.activities.disable(sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
        self.leave();
    }
}
