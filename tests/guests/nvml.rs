//! A simulated `libnvidia-ml.so.1` for the tests of the collector: GPUs as variables describe them.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SIM_NVML_UUIDS` | UUIDs of the GPUs, comma-separated, as NVML writes them | none |
//! | `SIM_NVML_WATTS` | energy grows by so many joules a second | 500 |
//! | `SIM_NVML_CLOCK_MHZ` | clock of the multiprocessors | 1980 |
//! | `SIM_NVML_READ_MS` | a read of the energy takes so long | 0 |
//! | `SIM_NVML_UNSUPPORTED` | functions that are not supported, comma-separated | none |
//! | `SIM_NVML_INIT` | what the initialisation returns | 0 |
//! | `SIM_NVML_OTHERS` | other processes on each GPU; `hidden`: the list is empty | 0 |
//! | `SIM_NVML_BUSY` | how busy each GPU is, and has been for 20 s, percent | 0 |
//! | `SIM_NVML_TRAFFIC` | the same of its memory | 0 |
//! | `SIM_NVML_MIG` | 1: MIG is on | 0 |
//!
//! A function that the collector may use and that is missing here is one of an older driver:
//! `nvmlDeviceGetCurrentClocksEventReasons`, for instance.

#![allow(non_snake_case, unreachable_pub, missing_docs, reason = "the functions are NVML's")]
#![allow(
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    reason = "every function is called as NVML's is: with valid places for its results"
)]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SUCCESS: c_int = 0;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn number(name: &str, default: u64) -> u64 {
    variable(name).parse().unwrap_or(default)
}

fn uuids() -> Vec<String> {
    let all = variable("SIM_NVML_UUIDS");
    all.split(',').filter(|uuid| !uuid.is_empty()).map(str::to_owned).collect()
}

fn supported(function: &str) -> bool {
    !variable("SIM_NVML_UNSUPPORTED").split(',').any(|name| name == function)
}

unsafe fn give<T>(function: &str, place: *mut T, value: T) -> c_int {
    if !supported(function) {
        return NOT_SUPPORTED;
    }
    place.write(value);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    number("SIM_NVML_INIT", 0) as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    give("nvmlDeviceGetCount_v2", count, uuids().len() as c_uint)
}

/// A handle is the number of the GPU plus one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(
    index: c_uint,
    device: *mut *mut c_void,
) -> c_int {
    if index as usize >= uuids().len() {
        return INVALID_ARGUMENT;
    }
    give("nvmlDeviceGetHandleByIndex_v2", device, (index as usize + 1) as *mut c_void)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: *mut c_void,
    text: *mut c_char,
    length: c_uint,
) -> c_int {
    let all = uuids();
    let Some(uuid) = (device as usize).checked_sub(1).and_then(|index| all.get(index)) else {
        return INVALID_ARGUMENT;
    };
    if uuid.len() >= length as usize {
        return 7;
    }
    std::ptr::copy_nonoverlapping(uuid.as_ptr().cast(), text, uuid.len());
    text.add(uuid.len()).write(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    _: *mut c_void,
    mj: *mut c_ulonglong,
) -> c_int {
    std::thread::sleep(Duration::from_millis(number("SIM_NVML_READ_MS", 0)));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let joules = since.as_secs_f64() * number("SIM_NVML_WATTS", 500) as f64;
    give("nvmlDeviceGetTotalEnergyConsumption", mj, (joules * 1e3) as c_ulonglong)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(_: *mut c_void, mw: *mut c_uint) -> c_int {
    give("nvmlDeviceGetPowerUsage", mw, number("SIM_NVML_WATTS", 500) as c_uint * 1000)
}

/// `nvmlMemory_t`.
#[repr(C)]
pub struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(_: *mut c_void, memory: *mut Memory) -> c_int {
    let (total, used) = (80 << 30, 20 << 30);
    give("nvmlDeviceGetMemoryInfo", memory, Memory { total, free: total - used, used })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(
    _: *mut c_void,
    kind: c_uint,
    mhz: *mut c_uint,
) -> c_int {
    let clock = if kind == 1 { number("SIM_NVML_CLOCK_MHZ", 1980) } else { 3201 };
    give("nvmlDeviceGetClockInfo", mhz, clock as c_uint)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    _: *mut c_void,
    _: c_uint,
    celsius: *mut c_uint,
) -> c_int {
    give("nvmlDeviceGetTemperature", celsius, 55)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    _: *mut c_void,
    bits: *mut c_ulonglong,
) -> c_int {
    give("nvmlDeviceGetCurrentClocksThrottleReasons", bits, 4)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    _: *mut c_void,
    now: *mut c_uint,
    later: *mut c_uint,
) -> c_int {
    let mode = number("SIM_NVML_MIG", 0) as c_uint;
    later.write(mode);
    give("nvmlDeviceGetMigMode", now, mode)
}

/// `nvmlUtilization_t`.
#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

fn utilization() -> Utilization {
    let of = |name| number(name, 0) as c_uint;
    Utilization { gpu: of("SIM_NVML_BUSY"), memory: of("SIM_NVML_TRAFFIC") }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    _: *mut c_void,
    place: *mut Utilization,
) -> c_int {
    give("nvmlDeviceGetUtilizationRates", place, utilization())
}

/// `nvmlSample_t`.
#[repr(C)]
pub struct Sample {
    at_us: c_ulonglong,
    value: c_ulonglong,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSamples(
    _: *mut c_void,
    kind: c_uint,
    _: c_ulonglong,
    value_kind: *mut c_uint,
    count: *mut c_uint,
    samples: *mut Sample,
) -> c_int {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let Utilization { gpu, memory } = utilization();
    let value = u64::from(if kind == 1 { gpu } else { memory });
    let told = count.read().min(21);
    for back in 0..told {
        let at_us = since.as_micros() as u64 - u64::from(back) * 1_000_000;
        samples.add(back as usize).write(Sample { at_us, value });
    }
    count.write(told);
    give("nvmlDeviceGetSamples", value_kind, 1)
}

#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    _: *mut c_void,
    count: *mut c_uint,
    list: *mut ProcessInfo,
) -> c_int {
    let others = variable("SIM_NVML_OTHERS");
    let pids: Vec<c_uint> = match others.as_str() {
        "hidden" => Vec::new(),
        others => (0..others.parse().unwrap_or(0)).chain([std::process::id()]).collect(),
    };
    let room = count.read() as usize;
    count.write(pids.len() as c_uint);
    if pids.len() > room {
        return 7;
    }
    for (at, pid) in pids.into_iter().enumerate() {
        list.add(at).write(ProcessInfo { pid, memory: 0, gpu_instance: 0, compute_instance: 0 });
    }
    if supported("nvmlDeviceGetComputeRunningProcesses_v3") { SUCCESS } else { NOT_SUPPORTED }
}
