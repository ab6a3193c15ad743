//! The one static state of the library: the simulated GPU, its driver and its CUPTI.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::abi::{Outcome, cupti};
use crate::call_faults::CallCounts;
use crate::callbacks::Callbacks;
use crate::collection::Collection;
use crate::config::{Config, ConfigError, VARIABLES};
use crate::objects::Objects;
use crate::pm::{Hosts, Sampling};
use crate::record::{IS_BLACKWELL, Record, Span};
use crate::timeline::Timeline;

/// Everything that calls share.
pub(crate) struct State {
    pub(crate) config: Config,
    /// Why the settings are the defaults, where they could not be read.
    pub(crate) config_error: Option<ConfigError>,
    /// Calls of the functions that are to fail.
    pub(crate) call_counts: CallCounts,
    pub(crate) callbacks: Callbacks,
    /// What is collected through the first activity API.
    pub(crate) first: Collection,
    /// The activity API that the process uses, of which there can be one.
    activity_api: AtomicU8,
    /// The hardware times the kernels.
    pub(crate) hardware_trace: AtomicBool,
    pub(crate) timeline: Timeline,
    /// Sampled counters, and the profiler hosts that evaluate them.
    pub(crate) pm: Sampling,
    pub(crate) pm_hosts: Hosts,
    pub(crate) objects: Mutex<Objects>,
    /// The process in which cuInit went well, or 0: a forked child has no driver.
    pub(crate) initialized_in: AtomicU32,
    /// The primary context exists.
    pub(crate) context: AtomicBool,
    /// Kernels launched so far.
    pub(crate) grids: AtomicU64,
    /// The call that launched the last kernel.
    pub(crate) last_correlation: AtomicU32,
}

/// One of CUPTI's two activity APIs.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum ActivityApi {
    First = 1,
    Second = 2,
}

impl State {
    /// Takes the process for an activity API.
    ///
    /// # Errors
    /// `MULTIPLE_SUBSCRIBERS` if it uses the other one.
    pub(crate) fn claim(&self, api: ActivityApi) -> Outcome {
        let (api, order) = (api as u8, Ordering::AcqRel);
        match self.activity_api.compare_exchange(0, api, order, Ordering::Acquire) {
            Err(other) if other != api => Err(cupti::MULTIPLE_SUBSCRIBERS),
            _ => Ok(()),
        }
    }

    /// The last subscriber is gone, so that the process may use either activity API.
    pub(crate) fn release_second(&self) {
        let (second, order) = (ActivityApi::Second as u8, Ordering::AcqRel);
        // Another one means that there was nothing to release.
        let _ = self.activity_api.compare_exchange(second, 0, order, Ordering::Acquire);
    }

    /// Everything that is collected, for whomever.
    fn for_each_collection(&self, mut body: impl FnMut(&Collection)) {
        body(&self.first);
        self.callbacks.subscribers().iter().for_each(|subscriber| body(&subscriber.activity));
    }

    /// Whether anybody collects a kind.
    pub(crate) fn has_kind(&self, kind: u32) -> bool {
        let mut has = false;
        self.for_each_collection(|collection| has |= collection.kinds.has(kind));
        has
    }

    /// Whether driver calls with an id get API records from anybody.
    pub(crate) fn has_call(&self, cbid: u32) -> bool {
        let mut has = false;
        self.for_each_collection(|collection| has |= collection.has_call(cbid));
        has
    }

    /// Records something for whoever collects it; its work is done at `end_ns`.
    pub(crate) fn offer(&self, record: Record, end_ns: u64) {
        self.for_each_collection(|collection| collection.offer(record, end_ns));
    }

    /// Overwrites the times of a graph's recorded launches, see [`crate::buffers::Buffers`].
    pub(crate) fn overwrite(&self, exec_id: u32, spans: &[Span]) {
        self.for_each_collection(|collection| collection.overwrite(exec_id, spans));
    }

    /// Hands everybody's buffers back.
    pub(crate) fn flush(&self, forced: bool) {
        self.for_each_collection(|collection| collection.buffers.flush(forced));
    }
}

static OVERRIDES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
static STATE: OnceLock<State> = OnceLock::new();

/// The state; the first call reads the settings.
pub(crate) fn state() -> &'static State {
    STATE.get_or_init(|| {
        let (config, config_error) = match Config::read(&OVERRIDES.lock()) {
            Ok(config) => (config, None),
            Err(error) => (Config::default(), Some(error)),
        };
        IS_BLACKWELL.store(config.faults.hardware_trace, Ordering::Relaxed);
        State {
            call_counts: CallCounts::new(&config.faults.calls),
            callbacks: Callbacks::new(config.first_correlation),
            first: Collection::new(&config),
            activity_api: AtomicU8::new(0),
            hardware_trace: AtomicBool::new(false),
            config,
            config_error,
            timeline: Timeline::default(),
            pm: Sampling::default(),
            pm_hosts: Hosts::default(),
            objects: Mutex::default(),
            initialized_in: AtomicU32::new(0),
            context: AtomicBool::new(false),
            grids: AtomicU64::new(0),
            last_correlation: AtomicU32::new(0),
        }
    })
}

/// Sets a variable for this library alone; false once the settings were read, or for a variable
/// that is not one of ours.
pub(crate) fn configure(name: &str, value: &str) -> bool {
    if STATE.get().is_some() || !VARIABLES.contains(&name) {
        return false;
    }
    OVERRIDES.lock().insert(name.to_owned(), value.to_owned());
    true
}

/// The first line of an exported function that a profiler may call: its faults.
macro_rules! gate {
    ($function:ident) => {
        const _: () = assert!(crate::call_faults::is_listed(stringify!($function)));
        let state = $crate::state::state();
        let (faults, counts) = (&state.config.faults.calls, &state.call_counts);
        if let Some(code) = crate::call_faults::meet(faults, counts, stringify!($function)) {
            return code;
        }
    };
}
pub(crate) use gate;
