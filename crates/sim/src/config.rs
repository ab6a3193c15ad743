//! The settings of the simulation, out of the environment.
//!
//! `stage2_sim_configure` may set the same variables for this library alone, before its first use.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::version::{MEASURED, Version};

const CUPTI_VERSION: &str = "STAGE2_SIM_CUPTI_VERSION";
const DRIVER_VERSION: &str = "STAGE2_SIM_DRIVER_VERSION";
const FAULT: &str = "STAGE2_SIM_FAULT";
const FAST: &str = "STAGE2_SIM_FAST";
const SEED: &str = "STAGE2_SIM_SEED";
const FIRST_CORRELATION: &str = "STAGE2_SIM_FIRST_CORRELATION";
/// Every variable that is read.
pub(crate) const VARIABLES: [&str; 6] =
    [CUPTI_VERSION, DRIVER_VERSION, FAULT, FAST, SEED, FIRST_CORRELATION];

const FAULT_FORMS: &str = "a list of fail=FUNCTION:CODE, slow=FUNCTION:MS, hang=FUNCTION, fork=FUNCTION (each with @N \
                           for the Nth call), subscribe=CODE, register=CODE, enable=CODE, cu-init=CODE, \
                           flush=CODE, drop=N, taken-over=N, zero-timestamps=N, \
                           reversed-timestamps=N, future-timestamps=N, no-correlations=N, repeated-correlations=N, \
                           no-names=N, unknown-kinds=N, late-buffers=MS, flush-hang=MS, \
                           slow-enable=MS, slow-disable=MS, slow-alloc=MS, no-device, second-api=CODE, \
                           false-layouts, hardware-trace, pm-availability=CODE, \
                           pm-enable=CODE, pm-decode=CODE, pm-break=N, pm-overflow=N, \
                           pm-gaps=MS, pm-nan=N, pm-slow=MS, \
                           pm-other=BYTES, pm-no-time-trigger, pm-taken-apart";

const VERSION_FORMS: &str =
    "the number to report (18, 28, 130001, 99) or a CUDA toolkit (11.8, 12.4, 13.1)";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value:?} cannot be read: give {accepted}")]
pub(crate) struct ConfigError {
    variable: &'static str,
    /// The whole value, or the item of a list.
    value: String,
    accepted: &'static str,
}

impl ConfigError {
    fn new(variable: &'static str, value: &str, accepted: &'static str) -> ConfigError {
        ConfigError { variable, value: value.to_owned(), accepted }
    }
}

/// Settings of one process, fixed when it first uses the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) version: Version,
    /// What cuDriverGetVersion reports: 1000 * major + 10 * minor.
    pub(crate) driver_version: u32,
    pub(crate) faults: Faults,
    /// Launches cost the caller nothing.
    pub(crate) fast: bool,
    pub(crate) seed: u64,
    pub(crate) first_correlation: u32,
}

/// Faults, once: the fields of the struct, and the words that set them, which `set` reads. A `flag` has no number,
/// a `code` is a `CUptiResult` or `CUresult`.
macro_rules! faults {
    (
        $(#[$about:meta])* $name:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ident = $word:literal,)*
            $(+ $(#[$more_doc:meta])* $more:ident: $type:ty,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: faults!(@type $kind),)*
            $($(#[$more_doc])* pub(crate) $more: $type,)*
        }

        impl $name {
            /// `None` for an unknown word, and for a number that does not belong to it.
            fn set(&mut self, word: &str, number: Option<u64>) -> Option<()> {
                match word {
                    $($word => self.$field = faults!(@value $kind, number),)*
                    _ => return None,
                }
                Some(())
            }
        }
    };
    (@type flag) => { bool };
    (@type code) => { Option<u32> };
    (@type amount) => { u64 };
    (@value flag, $number:ident) => { $number.is_none().then_some(true)? };
    (@value code, $number:ident) => { Some(u32::try_from($number?).ok()?) };
    (@value amount, $number:ident) => { $number? };
}

faults! {
    /// Errors to produce, as README.md describes them; None and 0 switch a fault off.
    Faults {
        subscribe: code = "subscribe",
        register: code = "register",
        enable: code = "enable",
        flush: code = "flush",
        cu_init: code = "cu-init",
        drop_every: amount = "drop",
        taken_over_at: amount = "taken-over",
        zero_timestamps_every: amount = "zero-timestamps",
        reversed_timestamps_every: amount = "reversed-timestamps",
        future_timestamps_every: amount = "future-timestamps",
        no_correlations_every: amount = "no-correlations",
        repeated_correlations_every: amount = "repeated-correlations",
        no_names_every: amount = "no-names",
        unknown_kinds_every: amount = "unknown-kinds",
        late_buffers_ms: amount = "late-buffers",
        flush_hang_ms: amount = "flush-hang",
        slow_enable_ms: amount = "slow-enable",
        slow_disable_ms: amount = "slow-disable",
        slow_alloc_ms: amount = "slow-alloc",
        no_device: flag = "no-device",
        second_api: code = "second-api",
        false_layouts: flag = "false-layouts",
        hardware_trace: flag = "hardware-trace",
        + /// Of sampled counters.
        pm: PmFaults,
        + /// Of calls, by the name of the function.
        calls: Vec<CallFault>,
    }
}

faults! {
    PmFaults {
        availability: code = "pm-availability",
        enable: code = "pm-enable",
        decode: code = "pm-decode",
        break_at: amount = "pm-break",
        gaps_ms: amount = "pm-gaps",
        overflow_every: amount = "pm-overflow",
        nan_every: amount = "pm-nan",
        slow_ms: amount = "pm-slow",
        other_bytes_per_us: amount = "pm-other",
        no_time_trigger: flag = "pm-no-time-trigger",
        taken_apart: flag = "pm-taken-apart",
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            version: MEASURED,
            driver_version: MEASURED.driver_version(),
            faults: Faults::default(),
            fast: false,
            seed: 0,
            first_correlation: 1,
        }
    }
}

impl Config {
    /// Settings from the environment, where `overrides` does not name the variable.
    pub(crate) fn read(overrides: &BTreeMap<String, String>) -> Result<Config, ConfigError> {
        let get = |name: &str| {
            overrides.get(name).cloned().or_else(|| {
                std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
            })
        };
        let mut config = Config::default();
        if let Some(text) = get(CUPTI_VERSION) {
            config.version = Version::parse(&text)
                .ok_or_else(|| ConfigError::new(CUPTI_VERSION, &text, VERSION_FORMS))?;
        }
        let fast = get(FAST).unwrap_or_default();
        config.fast = match fast.as_str() {
            "1" => true,
            "" | "0" => false,
            _ => return Err(ConfigError::new(FAST, &fast, "1 or 0")),
        };
        config.faults = Faults::parse(&get(FAULT).unwrap_or_default())?;
        let driver_version = config.version.driver_version();
        config.driver_version = number(DRIVER_VERSION, get(DRIVER_VERSION), driver_version)?;
        config.seed = number(SEED, get(SEED), config.seed)?;
        let first = config.first_correlation;
        config.first_correlation = number(FIRST_CORRELATION, get(FIRST_CORRELATION), first)?;
        Ok(config)
    }
}

impl Faults {
    /// Reads a comma-separated list.
    pub(crate) fn parse(text: &str) -> Result<Faults, ConfigError> {
        let mut faults = Faults::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (word, number) = match item.split_once('=') {
                Some((word, number)) => (word, Some(number)),
                None => (item, None),
            };
            let found = match (word, number.map(str::parse)) {
                ("fail" | "slow" | "hang" | "fork", Some(_)) => {
                    CallFault::parse(item).map(|fault| faults.calls.push(fault))
                }
                (_, Some(Err(_))) => None,
                (_, number) => {
                    let number = number.and_then(Result::ok);
                    faults.set(word, number).or_else(|| faults.pm.set(word, number))
                }
            };
            found.ok_or_else(|| ConfigError::new(FAULT, item, FAULT_FORMS))?;
        }
        Ok(faults)
    }
}

fn number<T: std::str::FromStr>(
    name: &'static str,
    text: Option<String>,
    default: T,
) -> Result<T, ConfigError> {
    let Some(text) = text else { return Ok(default) };
    text.parse().map_err(|_| ConfigError::new(name, &text, "a whole number"))
}

/// The functions that `state::gate` stands in, which is checked when this is compiled.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "cuptiActivityDisable", "cuptiActivityDisable_v2", "cuptiActivityEnable",
    "cuptiActivityEnableAndDump", "cuptiActivityEnableHWTrace", "cuptiActivityEnable_v2",
    "cuptiActivityFlushAll", "cuptiActivityGetAttribute", "cuptiActivityGetAttribute_v2",
    "cuptiActivityGetNextRecord", "cuptiActivityGetNextRecord_v2",
    "cuptiActivityGetNumDroppedRecords", "cuptiActivityGetNumDroppedRecords_v2",
    "cuptiActivityRegisterCallbacks", "cuptiActivityRegisterCallbacks_v2",
    "cuptiActivitySetAttribute", "cuptiActivitySetAttribute_v2", "cuptiDeviceGetChipName",
    "cuptiEnableCallback", "cuptiFinalize", "cuptiGetDeviceId", "cuptiGetGraphNodeId",
    "cuptiGetResultString", "cuptiGetTimestamp", "cuptiGetTimestamp_v2", "cuptiGetVersion",
    "cuptiPmSamplingCounterDataGetSampleInfo", "cuptiPmSamplingCounterDataImageInitialize",
    "cuptiPmSamplingDecodeData", "cuptiPmSamplingDisable", "cuptiPmSamplingEnable",
    "cuptiPmSamplingGetCounterAvailability", "cuptiPmSamplingGetCounterDataInfo",
    "cuptiPmSamplingGetCounterDataSize", "cuptiPmSamplingSetConfig", "cuptiPmSamplingStart",
    "cuptiPmSamplingStop", "cuptiProfilerHostConfigAddMetrics", "cuptiProfilerHostDeinitialize",
    "cuptiProfilerHostEvaluateToGpuValues", "cuptiProfilerHostGetConfigImage",
    "cuptiProfilerHostGetConfigImageSize", "cuptiProfilerHostGetNumOfPasses",
    "cuptiProfilerHostInitialize", "cuptiProfilerInitialize", "cuptiSubscribe", "cuptiSubscribe_v2",
    "cuptiUnsubscribe",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallFault {
    function: &'static str,
    effect: Effect,
    /// The call that it is for, from 1; `None` for all.
    at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The call does nothing and returns this `CUptiResult`.
    Fail(u32),
    /// The call first blocks for so long, ms.
    Slow(u64),
    Hang,
    /// Before the call a thread of the guest forks.
    Fork,
}

impl CallFault {
    /// Reads `WHAT=FUNCTION`, `:NUMBER` behind it where `WHAT` needs one, and `@N` for the Nth call only.
    pub(crate) fn parse(item: &str) -> Option<CallFault> {
        let (what, rest) = item.split_once('=')?;
        let (rest, at) = match rest.split_once('@') {
            Some((rest, at)) => (rest, Some(at.parse().ok().filter(|&at| at > 0)?)),
            None => (rest, None),
        };
        let (name, amount) = match rest.split_once(':') {
            Some((name, amount)) => (name, Some(amount.parse::<u64>().ok()?)),
            None => (rest, None),
        };
        let effect = match (what, amount) {
            ("fail", Some(code)) => Effect::Fail(u32::try_from(code).ok()?),
            ("slow", Some(ms)) => Effect::Slow(ms),
            ("hang", None) => Effect::Hang,
            ("fork", None) => Effect::Fork,
            _ => return None,
        };
        let function = FUNCTIONS.iter().find(|function| **function == name)?;
        Some(CallFault { function, effect, at })
    }
}

/// A call of a function begins. `calls`: how often that was so, for each fault. `Some`: what it returns at once.
pub(crate) fn meet(faults: &[CallFault], calls: &[AtomicU64], function: &str) -> Option<u32> {
    let counted = faults.iter().zip(calls);
    for (fault, calls) in counted.filter(|(fault, _)| fault.function == function) {
        let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
        if fault.at.is_some_and(|at| at != call) {
            continue;
        }
        match fault.effect {
            Effect::Fail(code) => return Some(code),
            Effect::Slow(ms) => std::thread::sleep(Duration::from_millis(ms)),
            Effect::Fork => have_fork(),
            Effect::Hang => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
        }
    }
    None
}

/// Asks the guest for a fork, where it has a function for that.
fn have_fork() {
    // SAFETY: the symbol is a function of the guest's without arguments, or is not there.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, c"stage2_test_have_fork".as_ptr());
        if !function.is_null() {
            std::mem::transmute::<*mut c_void, extern "C" fn()>(function)();
        }
    }
}

/// Whether a function is in the list above. For constants.
pub(crate) const fn is_listed(name: &str) -> bool {
    let mut index = 0;
    while index < FUNCTIONS.len() {
        if is_same(FUNCTIONS[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_combine() {
        let faults = Faults::parse("subscribe=39, drop=3,no-device,late-buffers=20").expect("list");
        let expected = Faults {
            subscribe: Some(39),
            drop_every: 3,
            no_device: true,
            late_buffers_ms: 20,
            ..Faults::default()
        };
        assert_eq!(faults, expected);
        assert_eq!(Faults::parse(""), Ok(Faults::default()));
    }

    #[test]
    fn an_unknown_fault_is_named() {
        for text in ["subscribe", "subscribe=x", "drop=-1", "typo=3", "no-device=1", "enable=1e9"] {
            let message = Faults::parse(text).expect_err(text).to_string();
            assert!(message.contains(text) && message.contains("zero-timestamps=N"), "{message}");
        }
    }

    #[test]
    fn overrides_win_and_bad_values_name_the_variable() {
        let set = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(Config::read(&set(SEED, "7")).expect("seed").seed, 7);
        assert!(Config::read(&set(FAST, "1")).expect("fast").fast);
        for name in VARIABLES {
            let message = Config::read(&set(name, "nonsense")).expect_err(name).to_string();
            assert!(message.contains(name) && message.contains("nonsense"), "{message}");
        }
        let version = Config::read(&set(CUPTI_VERSION, "13.x")).expect_err("no version");
        assert!(version.to_string().contains("130001"), "{version}");
    }

    #[test]
    fn faults_of_calls_are_read_and_anything_else_is_refused() {
        let flush = "cuptiActivityFlushAll";
        let of = |effect, at| Some(CallFault { function: flush, effect, at });
        let read = |text: &str| CallFault::parse(&text.replace('F', flush));
        assert_eq!(read("fail=F:8"), of(Effect::Fail(8), None));
        assert_eq!(read("slow=F:20@3"), of(Effect::Slow(20), Some(3)));
        assert_eq!(read("hang=F@1"), of(Effect::Hang, Some(1)));
        for text in
            ["fail=F", "hang=F:3", "slow=F:x", "fail=F:8@0", "fail=F:4294967296", "stop=F:1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(CallFault::parse("fail=cuptiNothing:8"), None);
    }
}
