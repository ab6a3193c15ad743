//! NVML, loaded at run time, into readings; each value that this driver does not give is `None`.
//!
//! Functions are looked up one by one: an old driver lacks values, not all of them. Only the types of the
//! bindings are used: their loader looks up all of NVML's functions, and takes 150 KB of ours.

use std::ffi::{CStr, OsStr, OsString, c_char, c_uint, c_ulonglong};

use libloading::Library;
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlMemory_t, nvmlProcessInfo_t, nvmlReturn_t, nvmlSample_t, nvmlUtilization_t,
};
use stage2_contract::trace::DeviceState;

use crate::base::clock;
use crate::guest::gpu::GpuNow;

const SUCCESS: nvmlReturn_t = 0;
const INSUFFICIENT_SIZE: nvmlReturn_t = 7;
/// `NVML_CLOCK_SM`, `NVML_CLOCK_MEM`, `NVML_TEMPERATURE_GPU`, `NVML_DEVICE_MIG_ENABLE`.
const CLOCK_SM: c_uint = 1;
const CLOCK_MEMORY: c_uint = 2;
const TEMPERATURE_GPU: c_uint = 0;
const MIG_ENABLED: c_uint = 1;
/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`, `NVML_VOLATILE_ECC`: since the driver was loaded.
const UNCORRECTED: c_uint = 1;
const VOLATILE: c_uint = 0;
/// `NVML_GPU_UTILIZATION_SAMPLES`, `NVML_MEMORY_UTILIZATION_SAMPLES`, and more of them than NVML keeps.
const GPU_SAMPLES: c_uint = 1;
const MEMORY_SAMPLES: c_uint = 2;
const MAX_SAMPLES: usize = 1024;
/// A GPU that is busy with nothing else, and a memory that is hardly used, percent.
const BUSY: c_uint = 95;
const QUIET: c_uint = 2;
/// More GPUs than any machine has.
const MAX_GPUS: c_uint = 64;
/// Processes on one GPU that are looked at.
const MAX_PROCESSES: usize = 256;
/// `NVML_DEVICE_UUID_V2_BUFFER_SIZE`.
const UUID_BYTES: usize = 96;

#[derive(Debug, thiserror::Error)]
pub(super) enum NvmlError {
    #[error("{} cannot be loaded: {why}", library.display())]
    Load { library: OsString, why: String },
    #[error("NVML has no function {0}; update the driver")]
    Missing(&'static str),
    #[error("NVML's {function} failed: {}", describe(*code))]
    Failed { function: &'static str, code: nvmlReturn_t },
}

fn describe(code: nvmlReturn_t) -> String {
    let text = match code {
        1 => "it is not initialised",
        3 => "this GPU or driver does not support it",
        4 => "this user has no permission",
        9 => "the NVIDIA kernel driver is not loaded",
        12 | 13 => "a part of the driver's libraries is missing",
        15 => "a GPU has fallen off the bus; restart the machine",
        18 => "the driver was updated while it was loaded; restart the machine",
        _ => return format!("error {code}"),
    };
    format!("{text} (error {code})")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// What the numbers of a stage need most.
    Short,
    Full,
}

/// The functions that are called, each `None` where this driver has none of its name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*);)*) => {
        #[allow(non_snake_case, reason = "NVML's names")]
        struct Functions {
            $($name: Option<unsafe extern "C" fn($($argument),*) -> nvmlReturn_t>,)*
            /// What the functions are part of, which is unloaded after them.
            _library: Library,
        }

        impl Functions {
            fn of(library: Library) -> Functions {
                Functions {
                    $(
                        // SAFETY: the type is that of the function in NVIDIA's nvml.h, and the library
                        // outlives the pointer, because both are in one value.
                        $name: unsafe { library.get(stringify!($name)) }.ok().map(|found| *found),
                    )*
                    _library: library,
                }
            }
        }
    };
}

functions! {
    nvmlInit_v2: fn();
    nvmlShutdown: fn();
    nvmlDeviceGetCount_v2: fn(*mut c_uint);
    nvmlDeviceGetHandleByIndex_v2: fn(c_uint, *mut nvmlDevice_t);
    nvmlDeviceGetUUID: fn(nvmlDevice_t, *mut c_char, c_uint);
    nvmlDeviceGetMigMode: fn(nvmlDevice_t, *mut c_uint, *mut c_uint);
    nvmlDeviceGetTotalEnergyConsumption: fn(nvmlDevice_t, *mut c_ulonglong);
    nvmlDeviceGetCurrentClocksEventReasons: fn(nvmlDevice_t, *mut c_ulonglong);
    nvmlDeviceGetCurrentClocksThrottleReasons: fn(nvmlDevice_t, *mut c_ulonglong);
    nvmlDeviceGetPowerUsage: fn(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetTemperature: fn(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetClockInfo: fn(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetMemoryInfo: fn(nvmlDevice_t, *mut nvmlMemory_t);
    nvmlDeviceGetComputeRunningProcesses_v3: fn(nvmlDevice_t, *mut c_uint, *mut nvmlProcessInfo_t);
    nvmlDeviceGetUtilizationRates: fn(nvmlDevice_t, *mut nvmlUtilization_t);
    nvmlDeviceGetEnforcedPowerLimit: fn(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetSamples:
        fn(nvmlDevice_t, c_uint, c_ulonglong, *mut c_uint, *mut c_uint, *mut nvmlSample_t);
    nvmlDeviceGetTotalEccErrors: fn(nvmlDevice_t, c_uint, c_uint, *mut c_ulonglong);
}

pub(super) struct Nvml {
    functions: Functions,
}

impl Nvml {
    pub(super) fn load(library: &OsStr) -> Result<Self, NvmlError> {
        // SAFETY: the driver's library, or the one that the user named as NVML, is meant to be loaded.
        let loaded = unsafe { Library::new(library) };
        let loaded = loaded.map_err(|error| NvmlError::Load {
            library: library.to_owned(),
            why: error.to_string(),
        })?;
        let functions = Functions::of(loaded);
        let init = functions.nvmlInit_v2.ok_or(NvmlError::Missing("nvmlInit_v2"))?;
        // SAFETY: it may be called at any time and counts its calls.
        match unsafe { init() } {
            SUCCESS => Ok(Nvml { functions }),
            code => {
                std::mem::forget(functions);
                Err(NvmlError::Failed { function: "nvmlInit_v2", code })
            }
        }
    }

    /// All GPUs that it shows to this process. One that cannot be identified is left out.
    pub(super) fn gpus(&self) -> Result<Vec<Gpu<'_>>, NvmlError> {
        let function = "nvmlDeviceGetCount_v2";
        let count = self.functions.nvmlDeviceGetCount_v2.ok_or(NvmlError::Missing(function))?;
        let mut number: c_uint = 0;
        // SAFETY: NVML is initialised; the place is valid for the result.
        match unsafe { count(&raw mut number) } {
            SUCCESS => Ok((0..number.min(MAX_GPUS)).filter_map(|at| self.gpu(at)).collect()),
            code => Err(NvmlError::Failed { function, code }),
        }
    }

    fn gpu(&self, index: c_uint) -> Option<Gpu<'_>> {
        let find = self.functions.nvmlDeviceGetHandleByIndex_v2?;
        let identify = self.functions.nvmlDeviceGetUUID?;
        let mut handle: nvmlDevice_t = std::ptr::null_mut();
        let mut text: [c_char; UUID_BYTES] = [0; UUID_BYTES];
        // SAFETY: NVML is initialised; the places are valid, the text for as many bytes as are said, and
        // the handle is used only where NVML gave one.
        let done = unsafe {
            match find(index, &raw mut handle) {
                SUCCESS => identify(handle, text.as_mut_ptr(), UUID_BYTES as c_uint),
                code => code,
            }
        };
        // Whatever the library wrote, the text ends.
        text[UUID_BYTES - 1] = 0;
        // SAFETY: the text has a NUL at its end, and outlives the call.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) };
        let uuid = text.to_str().ok().filter(|_| done == SUCCESS).and_then(uuid)?;
        Some(Gpu { functions: &self.functions, handle, uuid })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        if let Some(shutdown) = self.functions.nvmlShutdown {
            // SAFETY: follows one successful call of `nvmlInit_v2`; handles borrow `self`.
            unsafe { shutdown() };
        }
    }
}

/// The bytes of `GPU-00112233-4455-6677-8899-aabbccddeeff`.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .strip_prefix("GPU-")?
        .bytes()
        .filter(|byte| *byte != b'-')
        .map(|byte| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (digits.len() == 32).then(|| bytes.try_into().ok())?
}

pub(super) struct Gpu<'a> {
    functions: &'a Functions,
    handle: nvmlDevice_t,
    pub(super) uuid: [u8; 16],
}

impl Gpu<'_> {
    /// Whether it is divided into MIG instances.
    pub(super) fn is_divided(&self) -> bool {
        let Some(mode) = self.functions.nvmlDeviceGetMigMode else { return false };
        let (mut now, mut later): (c_uint, c_uint) = (0, 0);
        // SAFETY: the handle is NVML's, which is initialised; the places are valid.
        let done = unsafe { mode(self.handle, &raw mut now, &raw mut later) };
        done == SUCCESS && now == MIG_ENABLED
    }

    /// What NVML says now. [`DeviceState::device`] is the caller's.
    pub(super) fn read(&self, scope: Scope) -> DeviceState {
        let (functions, handle) = (self.functions, self.handle);
        let before = clock::mono();
        let energy_mj = self.ask(functions.nvmlDeviceGetTotalEnergyConsumption);
        let after = clock::mono();
        let reasons = functions.nvmlDeviceGetCurrentClocksEventReasons;
        // Its name before driver 535.
        let older = functions.nvmlDeviceGetCurrentClocksThrottleReasons;
        let clock_reasons = self.ask(reasons.or(older));
        let short = DeviceState {
            at: stage2_contract::trace::MonoNs(before.0 + after.since(before) / 2),
            energy_mj,
            clock_reasons,
            sm_clock_mhz: self.clock(CLOCK_SM),
            ..DeviceState::default()
        };
        if scope == Scope::Short {
            return short;
        }
        let temperature = functions.nvmlDeviceGetTemperature;
        DeviceState {
            power_mw: self.ask(functions.nvmlDeviceGetPowerUsage),
            temperature_c: temperature
                // SAFETY: the handle is NVML's, which is initialised; the place is valid.
                .and_then(|read| number(|place| unsafe { read(handle, TEMPERATURE_GPU, place) })),
            memory_clock_mhz: self.clock(CLOCK_MEMORY),
            other_processes: self.other_processes(),
            memory_used_bytes: self.memory_used_bytes(),
            ..short
        }
    }

    /// What whoever asks why nothing moves wants to know.
    pub(super) fn now(&self, index: u32) -> GpuNow {
        let functions = self.functions;
        let state = self.read(Scope::Full);
        // SAFETY: a struct of numbers, for which zero is a value.
        let mut used: nvmlUtilization_t = unsafe { std::mem::zeroed() };
        let rates = functions.nvmlDeviceGetUtilizationRates;
        // SAFETY: the handle is NVML's, which is initialised; the place is valid.
        let is_used = rates.map(|read| unsafe { read(self.handle, &raw mut used) });
        let used = Some(used).filter(|_| is_used == Some(SUCCESS));
        let errors = functions.nvmlDeviceGetTotalEccErrors;
        GpuNow {
            index,
            uuid: format!("GPU-{}", stage2_contract::text::uuid_text(self.uuid)),
            is_own: state.other_processes.map(|_| true),
            gpu_percent: used.map(|used| used.gpu),
            memory_percent: used.map(|used| used.memory),
            power_mw: state.power_mw,
            power_limit_mw: self.ask(functions.nvmlDeviceGetEnforcedPowerLimit),
            sm_clock_mhz: state.sm_clock_mhz,
            memory_clock_mhz: state.memory_clock_mhz,
            temperature_c: state.temperature_c,
            clock_reasons: state.clock_reasons,
            memory_used_bytes: state.memory_used_bytes,
            busy_ms: self.lasting_ms(GPU_SAMPLES, |percent| percent >= BUSY),
            quiet_ms: self.lasting_ms(MEMORY_SAMPLES, |percent| percent <= QUIET),
            uncorrected_errors: errors.and_then(|read| {
                // SAFETY: the handle is NVML's, which is initialised; the place is valid.
                number(|place| unsafe { read(self.handle, UNCORRECTED, VOLATILE, place) })
            }),
        }
    }

    /// For how long the newest samples have all been such, ms. NVML keeps those of the last seconds.
    fn lasting_ms(&self, kind: c_uint, is_such: impl Fn(c_uint) -> bool) -> Option<u64> {
        let read = self.functions.nvmlDeviceGetSamples?;
        // SAFETY: structs of numbers, for which zero is a value.
        let mut found: Vec<nvmlSample_t> = vec![unsafe { std::mem::zeroed() }; MAX_SAMPLES];
        let (mut count, mut value_kind) = (MAX_SAMPLES as c_uint, 0);
        // SAFETY: the handle is NVML's, which is initialised; the list has room for as many as are said.
        let done = unsafe {
            read(self.handle, kind, 0, &raw mut value_kind, &raw mut count, found.as_mut_ptr())
        };
        if done != SUCCESS {
            return None;
        }
        // SAFETY: percentages come as unsigned numbers; any bits are one.
        let percent = |sample: &nvmlSample_t| unsafe { sample.sampleValue.uiVal };
        let samples = found.get(..count as usize)?.iter();
        lasting_ms(samples.map(|sample| (sample.timeStamp, percent(sample))), is_such)
    }

    /// The number that a function gives for this GPU.
    fn ask<T: Default>(
        &self,
        read: Option<unsafe extern "C" fn(nvmlDevice_t, *mut T) -> nvmlReturn_t>,
    ) -> Option<T> {
        // SAFETY: the handle is NVML's, which is initialised; the place is valid.
        read.and_then(|read| number(|place| unsafe { read(self.handle, place) }))
    }

    fn clock(&self, kind: c_uint) -> Option<u32> {
        let read = self.functions.nvmlDeviceGetClockInfo?;
        // SAFETY: the handle is NVML's, which is initialised; the place is valid.
        number(|place| unsafe { read(self.handle, kind, place) })
    }

    /// Memory that all processes use; 0: not known.
    fn memory_used_bytes(&self) -> u64 {
        // SAFETY: a struct of numbers, for which zero is a value.
        let mut found: nvmlMemory_t = unsafe { std::mem::zeroed() };
        let read = self.functions.nvmlDeviceGetMemoryInfo;
        // SAFETY: the handle is NVML's, which is initialised; the place is valid.
        let done = read.map(|read| unsafe { read(self.handle, &raw mut found) });
        if done == Some(SUCCESS) { found.used } else { 0 }
    }

    /// Other processes with a compute context. Not known where the list lacks this process, which has
    /// one: in a container NVML may show none, or ids of the host.
    fn other_processes(&self) -> Option<u32> {
        let list = self.functions.nvmlDeviceGetComputeRunningProcesses_v3?;
        // SAFETY: a struct of numbers, for which zero is a value.
        let mut found: Vec<nvmlProcessInfo_t> = vec![unsafe { std::mem::zeroed() }; MAX_PROCESSES];
        let mut count = MAX_PROCESSES as c_uint;
        // SAFETY: the handle is NVML's, which is initialised; the list has room for as many as are said.
        let done = unsafe { list(self.handle, &raw mut count, found.as_mut_ptr()) };
        match done {
            // With so many it does not matter which one is ours.
            INSUFFICIENT_SIZE => Some(count.saturating_sub(1)),
            SUCCESS => {
                let found = found.get(..count as usize)?;
                let own = std::process::id();
                let others = found.iter().filter(|process| process.pid != own).count();
                (others < found.len()).then(|| u32::try_from(others).ok())?
            }
            _ => None,
        }
    }
}

/// From the oldest to the newest of the samples at the end that are all such; `samples`: times in us, and values.
fn lasting_ms(
    samples: impl Iterator<Item = (u64, c_uint)>,
    is_such: impl Fn(c_uint) -> bool,
) -> Option<u64> {
    let mut all: Vec<(u64, c_uint)> = samples.filter(|(at, _)| *at != 0).collect();
    all.sort_unstable();
    let newest = all.last()?.0;
    let first = all.iter().rev().take_while(|(_, value)| is_such(*value)).last();
    Some(first.map_or(0, |(at, _)| (newest - at) / 1000))
}

fn number<T: Default>(read: impl FnOnce(*mut T) -> nvmlReturn_t) -> Option<T> {
    let mut value = T::default();
    (read(&raw mut value) == SUCCESS).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_until_now_is_as_long_as_its_samples() {
        let busy = |percent| percent >= BUSY;
        let of = |samples: &[(u64, c_uint)]| lasting_ms(samples.iter().copied(), busy);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(0, 100), (0, 100)]), None, "places that were not filled");
        assert_eq!(of(&[(5_000, 100), (7_000, 3)]), Some(0));
        assert_eq!(of(&[(9_000_000, 99), (1_000_000, 10), (4_000_000, 100)]), Some(5_000));
    }

    #[test]
    fn a_uuid_is_read_whole_or_not_at_all() {
        let text = "GPU-00112233-4455-6677-8899-aabbccddeeff";
        let bytes = std::array::from_fn(|at| at as u8 * 0x11);
        assert_eq!(uuid(text), Some(bytes));
        for bad in ["", "GPU-", &text[..39], "MIG-00112233-4455-6677-8899-aabbccddeeff", "GPU-0g"] {
            assert_eq!(uuid(bad), None, "{bad}");
        }
        assert_eq!(uuid(&format!("{text}0")), None);
    }
}
