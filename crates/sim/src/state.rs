//! The one static state of the library: the simulated GPU, its driver and its CUPTI.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use parking_lot::{Mutex, RwLock};

use crate::buffers::Buffers;
use crate::callbacks::{Callbacks, IdSet};
use crate::config::{Config, ConfigError, VARIABLES};
use crate::objects::Objects;
use crate::pm::{Hosts, Sampling};
use crate::timeline::Timeline;

/// Everything that calls share.
pub(crate) struct State {
    pub(crate) config: Config,
    /// Why the settings are the defaults, where they could not be read.
    pub(crate) config_error: Option<ConfigError>,
    pub(crate) callbacks: Callbacks,
    pub(crate) buffers: Buffers,
    /// Enabled activity kinds.
    pub(crate) kinds: IdSet,
    /// Driver calls that get API records while the `DRIVER` kind is off.
    pub(crate) recorded_calls: IdSet,
    /// Values of the activity attributes that were set.
    pub(crate) attributes: RwLock<HashMap<u32, u64>>,
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
        State {
            callbacks: Callbacks::new(config.first_correlation),
            buffers: Buffers::new(&config),
            config,
            config_error,
            kinds: IdSet::new(),
            recorded_calls: IdSet::new(),
            attributes: RwLock::default(),
            timeline: Timeline::default(),
            pm: Sampling::default(),
            pm_hosts: Hosts::default(),
            objects: Mutex::default(),
            initialized_in: AtomicU32::new(0),
            context: AtomicBool::new(false),
            grids: AtomicU64::new(0),
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
