//! The settings of the simulation, out of the environment.
//!
//! `stage2_sim_configure` may set the same variables for this library alone, before its first use.

use std::collections::BTreeMap;

use crate::call_faults::CallFault;
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
                           slow-enable=MS, slow-disable=MS, no-device, second-api=CODE, \
                           false-layouts, hardware-trace, pm-availability=CODE, \
                           pm-enable=CODE, pm-decode=CODE, pm-break=N, pm-overflow=N, \
                           pm-gaps=MS, pm-nan=N, pm-slow=MS, \
                           pm-other=BYTES, pm-no-time-trigger, pm-taken-apart";

const VERSION_FORMS: &str =
    "the number to report (18, 28, 130001, 99) or a CUDA toolkit (11.8, 12.4, 13.1)";

/// A setting that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value:?} cannot be read: give {accepted}")]
pub(crate) struct ConfigError {
    variable: &'static str,
    /// The whole value, or the item of a list.
    value: String,
    /// The accepted forms.
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
    /// Seed of the jitter of durations.
    pub(crate) seed: u64,
    /// Correlation id of the first traced call.
    pub(crate) first_correlation: u32,
}

/// Errors to produce; None and 0 switch a fault off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// `CUptiResult` of every cuptiSubscribe.
    pub(crate) subscribe: Option<u32>,
    /// `CUptiResult` of cuptiActivityRegisterCallbacks.
    pub(crate) register: Option<u32>,
    /// `CUptiResult` of every cuptiActivityEnable.
    pub(crate) enable: Option<u32>,
    /// `CUptiResult` of every cuptiActivityFlushAll, which does nothing.
    pub(crate) flush: Option<u32>,
    /// `CUresult` of cuInit.
    pub(crate) cu_init: Option<u32>,
    /// Every Nth record of GPU work is dropped and counted.
    pub(crate) drop_every: u64,
    /// From the Nth record of GPU work on, another client has the buffers.
    pub(crate) taken_over_at: u64,
    /// Every Nth kernel record has start and end 0.
    pub(crate) zero_timestamps_every: u64,
    /// Every Nth kernel record ends before it starts.
    pub(crate) reversed_timestamps_every: u64,
    /// Every Nth kernel record is of the year 2262.
    pub(crate) future_timestamps_every: u64,
    /// Every Nth kernel record names no call.
    pub(crate) no_correlations_every: u64,
    /// Every Nth kernel record names the call that launched the kernel before it.
    pub(crate) repeated_correlations_every: u64,
    /// Every Nth kernel record has no name.
    pub(crate) no_names_every: u64,
    /// Every Nth kernel record has a kind that no header knows.
    pub(crate) unknown_kinds_every: u64,
    /// How long a complete buffer is held back, ms.
    pub(crate) late_buffers_ms: u64,
    /// How long cuptiActivityFlushAll blocks before it does anything, ms.
    pub(crate) flush_hang_ms: u64,
    /// How long cuptiActivityEnable takes for each kind, ms.
    pub(crate) slow_enable_ms: u64,
    /// How long cuptiActivityDisable takes for each kind, ms.
    pub(crate) slow_disable_ms: u64,
    /// The machine has no GPU.
    pub(crate) no_device: bool,
    /// `CUptiResult` of every function of the second activity API.
    pub(crate) second_api: Option<u32>,
    /// The layouts of chosen fields that a client is told lie outside of the records.
    pub(crate) false_layouts: bool,
    /// The hardware can time kernels, which the recorded GPU cannot.
    pub(crate) hardware_trace: bool,
    /// Of sampled counters.
    pub(crate) pm: PmFaults,
    /// Of calls, by the name of the function.
    pub(crate) calls: Vec<CallFault>,
}

/// What goes wrong when counters are sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PmFaults {
    /// `CUptiResult` of cuptiPmSamplingGetCounterAvailability.
    pub(crate) availability: Option<u32>,
    /// `CUptiResult` of cuptiPmSamplingEnable.
    pub(crate) enable: Option<u32>,
    /// `CUptiResult` of every cuptiPmSamplingDecodeData.
    pub(crate) decode: Option<u32>,
    /// The Nth cuptiPmSamplingDecodeData fails, and no other one.
    pub(crate) break_at: u64,
    /// Of every second stretch of so many ms there are no samples, and nothing is said of it.
    pub(crate) gaps_ms: u64,
    /// Every Nth decoding finds the hardware's buffer full.
    pub(crate) overflow_every: u64,
    /// Every Nth sample has values that are no numbers.
    pub(crate) nan_every: u64,
    /// How long each call takes, ms.
    pub(crate) slow_ms: u64,
    /// Bytes that somebody else reads in a microsecond.
    pub(crate) other_bytes_per_us: u64,
    /// The chip has no trigger by time.
    pub(crate) no_time_trigger: bool,
    /// What samples takes itself apart at exit.
    pub(crate) taken_apart: bool,
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
    ///
    /// # Errors
    /// The first value that cannot be read.
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
    ///
    /// # Errors
    /// The first item that is no known fault or has no number where it needs one.
    pub(crate) fn parse(text: &str) -> Result<Faults, ConfigError> {
        let mut faults = Faults::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item {
                "pm-no-time-trigger" => faults.pm.no_time_trigger = true,
                "pm-taken-apart" => faults.pm.taken_apart = true,
                "false-layouts" => faults.false_layouts = true,
                "hardware-trace" => faults.hardware_trace = true,
                "no-device" => faults.no_device = true,
                _ => faults.parse_amount(item)?,
            }
        }
        Ok(faults)
    }

    /// Reads one fault with its number.
    fn parse_amount(&mut self, item: &str) -> Result<(), ConfigError> {
        let refuse = || ConfigError::new(FAULT, item, FAULT_FORMS);
        let (name, value) = item.split_once('=').ok_or_else(refuse)?;
        if matches!(name, "fail" | "slow" | "hang" | "fork") {
            self.calls.push(CallFault::parse(item).ok_or_else(refuse)?);
            return Ok(());
        }
        let amount = value.parse::<u64>().map_err(|_| refuse())?;
        let code = || u32::try_from(amount).map_err(|_| refuse());
        match name {
            "subscribe" => self.subscribe = Some(code()?),
            "register" => self.register = Some(code()?),
            "enable" => self.enable = Some(code()?),
            "second-api" => self.second_api = Some(code()?),
            "flush" => self.flush = Some(code()?),
            "cu-init" => self.cu_init = Some(code()?),
            "drop" => self.drop_every = amount,
            "taken-over" => self.taken_over_at = amount,
            "zero-timestamps" => self.zero_timestamps_every = amount,
            "reversed-timestamps" => self.reversed_timestamps_every = amount,
            "future-timestamps" => self.future_timestamps_every = amount,
            "no-correlations" => self.no_correlations_every = amount,
            "repeated-correlations" => self.repeated_correlations_every = amount,
            "no-names" => self.no_names_every = amount,
            "unknown-kinds" => self.unknown_kinds_every = amount,
            "late-buffers" => self.late_buffers_ms = amount,
            "flush-hang" => self.flush_hang_ms = amount,
            "slow-enable" => self.slow_enable_ms = amount,
            "slow-disable" => self.slow_disable_ms = amount,
            "pm-availability" => self.pm.availability = Some(code()?),
            "pm-enable" => self.pm.enable = Some(code()?),
            "pm-decode" => self.pm.decode = Some(code()?),
            "pm-break" => self.pm.break_at = amount,
            "pm-gaps" => self.pm.gaps_ms = amount,
            "pm-overflow" => self.pm.overflow_every = amount,
            "pm-nan" => self.pm.nan_every = amount,
            "pm-slow" => self.pm.slow_ms = amount,
            "pm-other" => self.pm.other_bytes_per_us = amount,
            _ => return Err(refuse()),
        }
        Ok(())
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
}
