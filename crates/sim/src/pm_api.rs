//! The exported functions of CUPTI's PM sampling and of the profiler host that goes with it.
//!
//! Layouts are those of CUPTI 13.0. Pointers are valid or null by the contract of CUPTI; null is answered
//! with an error, and so is a struct that is shorter than its function needs.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::{Outcome, code, cupti, refuse, refuse_if};
use crate::clock;
use crate::pm::{self, CHIP, Sample};
use crate::state::{State, gate, state};

/// The one handle of the session.
const SESSION: usize = 0x9a5e_0001;
/// What an availability image holds.
const AVAILABLE: &[u8] = b"stage2-sim";
/// Behind which a configuration lists its metrics, a byte each.
const CONFIG: &[u8] = b"metrics:";
/// Behind which counter data has its room, its number of metrics and of samples, 8 bytes each.
const DATA: &[u8; 8] = b"samples:";
const DATA_HEADER: usize = 32;
/// More samples than any image has room for.
const MAX_SAMPLES: usize = 1 << 20;

/// Parameters of a function.
trait Parameters {
    /// How much of them the function needs, bytes.
    const NEEDED: usize;
}

macro_rules! parameters {
    ($($name:ident = $size:literal $(needs $needed:literal)? { $($field:ident: $type:ty,)* })*) => {$(
        #[repr(C)]
        struct $name {
            struct_size: usize,
            private: *mut c_void,
            $($field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
        impl Parameters for $name {
            const NEEDED: usize = [$size $(, $needed)?][[$size $(, $needed)?].len() - 1];
        }
    )*};
}

parameters! {
    ProfilerInitialize = 16 {}
    ChipName = 32 { device: usize, name: *const c_char, }
    Availability = 40 { device: usize, image_bytes: usize, image: *mut u8, }
    HostInitialize = 48 { profiler: u32, chip: *const c_char, available: *const u8, host: usize, }
    HostDeinitialize = 24 { host: usize, }
    AddMetrics = 40 { host: usize, names: *const *const c_char, count: usize, }
    ConfigSize = 32 { host: usize, image_bytes: usize, }
    ConfigImage = 40 { host: usize, image_bytes: usize, image: *mut u8, }
    Passes = 40 { image_bytes: usize, image: *const u8, passes: usize, }
    Evaluate = 72 {
        host: usize, image: *const u8, image_bytes: usize, sample: usize,
        names: *const *const c_char, count: usize, values: *mut f64,
    }
    Enable = 32 { device: usize, session: usize, }
    Handle = 24 { session: usize, }
    SetConfig = 64 needs 60 {
        session: usize, config_bytes: usize, config: *const u8, hardware_bytes: usize, interval: u64,
        trigger: u32, append: u32,
    }
    DataSize = 56 {
        session: usize, names: *const *const c_char, count: usize, samples: u32, image_bytes: usize,
    }
    DataInitialize = 40 { session: usize, image_bytes: usize, image: *mut u8, }
    Decode = 48 needs 45 {
        session: usize, image: *mut u8, image_bytes: usize, stop_reason: u32, overflow: u8,
    }
    DataInfo = 56 {
        image: *const u8, image_bytes: usize, total: usize, populated: usize, completed: usize,
    }
    SampleInfo = 64 {
        session: usize, image: *const u8, image_bytes: usize, sample: usize, start_ns: u64, end_ns: u64,
    }
}

/// Padding at the end is not counted, and CUPTI 12.6 has no mode of appending.
const _: () = {
    assert!(Decode::NEEDED == std::mem::offset_of!(Decode, overflow) + 1);
    assert!(SetConfig::NEEDED == std::mem::offset_of!(SetConfig, append));
};

/// Exports functions that take parameters, with what each does.
macro_rules! exports {
    ($($function:ident($name:ident: $type:ty, $state:ident) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $function(parameters: *mut $type) -> u32 {
            gate!($function);
            // SAFETY: not null; the size comes first in every version of the struct.
            if parameters.is_null() || unsafe { (*parameters).struct_size } < <$type>::NEEDED {
                return cupti::INVALID_PARAMETER;
            }
            fn body($name: &mut $type, $state: &'static State) -> Outcome $body
            let state = state();
            expect_whole();
            let slow_ns = state.config.faults.pm.slow_ms.saturating_mul(1_000_000);
            clock::sleep_until(clock::now_ns().saturating_add(slow_ns));
            // SAFETY: as large as its size says, by CUPTI's contract.
            code(body(unsafe { &mut *parameters }, state))
        }
    )*};
}

exports! {
    cuptiProfilerInitialize(_p: ProfilerInitialize, _state) { Ok(()) }

    cuptiDeviceGetChipName(p: ChipName, state) {
        device(state, p.device)?;
        p.name = CHIP.as_ptr();
        Ok(())
    }

    cuptiPmSamplingGetCounterAvailability(p: Availability, state) {
        device(state, p.device)?;
        refuse(state.config.faults.pm.availability)?;
        if p.image.is_null() {
            p.image_bytes = AVAILABLE.len();
            return Ok(());
        }
        // SAFETY: the caller's image is as long as it says.
        fill(unsafe { bytes_mut(p.image, p.image_bytes) }, AVAILABLE)
    }

    cuptiProfilerHostInitialize(p: HostInitialize, state) {
        // SAFETY: the caller's image, of a length that we gave it.
        let available = unsafe { bytes(p.available, AVAILABLE.len()) };
        // SAFETY: not null, and a C string of the caller.
        let known = !p.chip.is_null() && unsafe { CStr::from_ptr(p.chip) } == CHIP;
        if p.profiler != 1 || available != Some(AVAILABLE) || !known {
            return Err(cupti::INVALID_PARAMETER);
        }
        let mut hosts = state.pm_hosts.lock();
        hosts.push(Vec::new());
        p.host = hosts.len();
        Ok(())
    }

    cuptiProfilerHostDeinitialize(p: HostDeinitialize, state) {
        host(state, p.host, |metrics| metrics.clear())
    }

    cuptiProfilerHostConfigAddMetrics(p: AddMetrics, state) {
        // SAFETY: the caller's list of C strings.
        let added = unsafe { metrics(p.names, p.count) }?;
        host(state, p.host, |metrics| metrics.extend(added))
    }

    cuptiProfilerHostGetConfigImageSize(p: ConfigSize, state) {
        host(state, p.host, |metrics| p.image_bytes = CONFIG.len() + metrics.len())
    }

    cuptiProfilerHostGetConfigImage(p: ConfigImage, state) {
        let mut config = CONFIG.to_vec();
        host(state, p.host, |metrics| config.extend(metrics.iter().map(|&m| m as u8)))?;
        // SAFETY: the caller's image is as long as it says.
        fill(unsafe { bytes_mut(p.image, p.image_bytes) }, &config)
    }

    cuptiProfilerHostGetNumOfPasses(p: Passes, _state) {
        // SAFETY: the caller's image is as long as it says.
        let config = unsafe { config_metrics(p.image, p.image_bytes) }?;
        p.passes = pm::passes(&config);
        Ok(())
    }

    cuptiPmSamplingEnable(p: Enable, state) {
        device(state, p.device)?;
        refuse(state.config.faults.pm.enable)?;
        state.pm.enable()?;
        if state.config.faults.pm.taken_apart {
            register_exit();
        }
        p.session = SESSION;
        Ok(())
    }

    cuptiPmSamplingDisable(p: Handle, state) {
        session(p.session)?;
        state.pm.disable()
    }

    cuptiPmSamplingSetConfig(p: SetConfig, state) {
        if state.config.version.toolkit < (12, 8) && p.struct_size > SetConfig::NEEDED {
            return Err(cupti::INVALID_PARAMETER);
        }
        session(p.session)?;
        // SAFETY: the caller's image is as long as it says.
        let config = unsafe { config_metrics(p.config, p.config_bytes) }?;
        refuse_if(pm::passes(&config) > 1, cupti::NOT_SUPPORTED)?;
        let ns = match (p.trigger, state.config.faults.pm.no_time_trigger) {
            (1, true) => return Err(cupti::NOT_SUPPORTED),
            (1, false) => p.interval,
            _ => p.interval / 3 * 2,
        };
        state.pm.configure(config, ns, p.hardware_bytes as u64)
    }

    cuptiPmSamplingStart(p: Handle, state) {
        session(p.session)?;
        state.pm.run(true)
    }

    cuptiPmSamplingStop(p: Handle, state) {
        session(p.session)?;
        state.pm.run(false)
    }

    cuptiPmSamplingGetCounterDataSize(p: DataSize, state) {
        session(p.session)?;
        state.pm.is_enabled()?;
        // SAFETY: the caller's list of C strings.
        let metrics = unsafe { metrics(p.names, p.count) }?;
        p.image_bytes = DATA_HEADER + p.samples as usize * (16 + 8 * metrics.len());
        Ok(())
    }

    cuptiPmSamplingCounterDataImageInitialize(p: DataInitialize, state) {
        session(p.session)?;
        state.pm.is_enabled()?;
        // SAFETY: the caller's image is as long as it says.
        let image = unsafe { bytes_mut(p.image, p.image_bytes) }.ok_or(cupti::INVALID_PARAMETER)?;
        let header = image.get_mut(..DATA_HEADER).ok_or(cupti::PARAMETER_SIZE)?;
        header.fill(0);
        header[..8].copy_from_slice(DATA);
        Ok(())
    }

    cuptiPmSamplingDecodeData(p: Decode, state) {
        session(p.session)?;
        let faults = &state.config.faults.pm;
        refuse(faults.decode)?;
        // SAFETY: the caller's image is as long as it says.
        let image = unsafe { bytes_mut(p.image, p.image_bytes) }.ok_or(cupti::INVALID_PARAMETER)?;
        let held = sample_count(image)?;
        // The image does not say of how many metrics it is before there is a sample.
        let row = 16 + 8 * state.pm.width();
        let room = (image.len() - DATA_HEADER) / row;
        let samples = state.pm.decode(room.saturating_sub(held), state.config.seed, faults)?;
        p.overflow = 0;
        p.stop_reason = if held + samples.len() >= room { 1 } else { 2 };
        write_samples(image, held, row, &samples);
        Ok(())
    }

    cuptiPmSamplingGetCounterDataInfo(p: DataInfo, _state) {
        // SAFETY: the caller's image is as long as it says.
        let image = unsafe { bytes(p.image, p.image_bytes) }.ok_or(cupti::INVALID_PARAMETER)?;
        let held = sample_count(image)?;
        let row = (u64_at(image, 8)? as usize).max(1);
        (p.populated, p.completed) = (held, held);
        p.total = (image.len() - DATA_HEADER) / row;
        Ok(())
    }

    cuptiPmSamplingCounterDataGetSampleInfo(p: SampleInfo, _state) {
        session(p.session)?;
        // SAFETY: the caller's image is as long as it says.
        let image = unsafe { bytes(p.image, p.image_bytes) }.ok_or(cupti::INVALID_PARAMETER)?;
        let row = sample(image, p.sample)?;
        (p.start_ns, p.end_ns) = (u64_at(row, 0)?, u64_at(row, 8)?);
        Ok(())
    }

    cuptiProfilerHostEvaluateToGpuValues(p: Evaluate, state) {
        // SAFETY: the caller's list of C strings.
        let wanted = unsafe { metrics(p.names, p.count) }?;
        let mut configured = Vec::new();
        host(state, p.host, |metrics| configured.clone_from(metrics))?;
        // SAFETY: the caller's image is as long as it says.
        let image = unsafe { bytes(p.image, p.image_bytes) }.ok_or(cupti::INVALID_PARAMETER)?;
        let row = sample(image, p.sample)?;
        refuse_if(p.values.is_null(), cupti::INVALID_PARAMETER)?;
        for (place, metric) in wanted.into_iter().enumerate() {
            let at = configured.iter().position(|known| *known == metric);
            let at = at.ok_or(cupti::INVALID_PARAMETER)?;
            let value = f64::from_bits(u64_at(row, 16 + 8 * at)?);
            // SAFETY: the caller has room for as many values as it asks for.
            unsafe { p.values.add(place).write(value) };
        }
        Ok(())
    }
}

fn device(state: &State, device: usize) -> Outcome {
    if device == 0 && !state.config.faults.no_device {
        Ok(())
    } else {
        Err(cupti::INVALID_PARAMETER)
    }
}

fn session(handle: usize) -> Outcome {
    if handle == SESSION { Ok(()) } else { Err(cupti::INVALID_PARAMETER) }
}

fn host(state: &State, handle: usize, body: impl FnOnce(&mut Vec<usize>)) -> Outcome {
    let mut hosts = state.pm_hosts.lock();
    let metrics = handle.checked_sub(1).and_then(|place| hosts.get_mut(place));
    metrics.map(body).ok_or(cupti::INVALID_PARAMETER)
}

/// # Safety
/// The bytes are there, or the address is null.
unsafe fn bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller vouches for the bytes.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, length) })
}

/// # Safety
/// The bytes are there and nobody else uses them, or the address is null.
unsafe fn bytes_mut<'a>(start: *mut u8, length: usize) -> Option<&'a mut [u8]> {
    // SAFETY: the caller vouches for the bytes.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts_mut(start, length) })
}

/// # Safety
/// So many C strings are there, or the address is null.
unsafe fn metrics(names: *const *const c_char, count: usize) -> Outcome<Vec<usize>> {
    refuse_if(names.is_null(), cupti::INVALID_PARAMETER)?;
    // SAFETY: the caller vouches for the list.
    let names = unsafe { std::slice::from_raw_parts(names, count) };
    let metric = |name: &*const c_char| {
        // SAFETY: as above.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(*name) })?;
        pm::metric(name.to_str().ok()?)
    };
    names.iter().map(metric).collect::<Option<_>>().ok_or(cupti::INVALID_PARAMETER)
}

/// # Safety
/// The bytes are there, or the address is null.
unsafe fn config_metrics(image: *const u8, length: usize) -> Outcome<Vec<usize>> {
    // SAFETY: the caller vouches for the bytes.
    let image = unsafe { bytes(image, length) }.ok_or(cupti::INVALID_PARAMETER)?;
    let metrics = image.strip_prefix(CONFIG).ok_or(cupti::INVALID_PARAMETER)?;
    let metrics: Vec<usize> = metrics.iter().map(|&metric| metric.into()).collect();
    refuse_if(!metrics.iter().all(|&metric| pm::is_metric(metric)), cupti::INVALID_PARAMETER)?;
    Ok(metrics)
}

/// Writes the front of an image.
fn fill(image: Option<&mut [u8]>, bytes: &[u8]) -> Outcome {
    let front = image.and_then(|image| image.get_mut(..bytes.len()));
    front.ok_or(cupti::PARAMETER_SIZE)?.copy_from_slice(bytes);
    Ok(())
}

fn u64_at(bytes: &[u8], at: usize) -> Outcome<u64> {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
    eight.map(|eight| u64::from_ne_bytes(*eight)).ok_or(cupti::INVALID_PARAMETER)
}

fn sample_count(image: &[u8]) -> Outcome<usize> {
    refuse_if(image.len() < DATA_HEADER || !image.starts_with(DATA), cupti::INVALID_PARAMETER)?;
    Ok((u64_at(image, 16)? as usize).min(MAX_SAMPLES))
}

fn sample(image: &[u8], place: usize) -> Outcome<&[u8]> {
    let row = u64_at(image, 8)? as usize;
    refuse_if(place >= sample_count(image)?, cupti::INVALID_PARAMETER)?;
    let rows = image.get(DATA_HEADER..).unwrap_or_default();
    rows.chunks_exact(row.max(1)).nth(place).ok_or(cupti::INVALID_PARAMETER)
}

fn write_samples(image: &mut [u8], held: usize, row: usize, samples: &[Sample]) {
    image[8..16].copy_from_slice(&(row as u64).to_ne_bytes());
    image[16..24].copy_from_slice(&((held + samples.len()) as u64).to_ne_bytes());
    for (place, sample) in samples.iter().enumerate() {
        let start = DATA_HEADER + (held + place) * row;
        let values = sample.values.iter().map(|value| value.to_bits());
        let fields = [sample.start_ns, sample.end_ns].into_iter().chain(values);
        let bytes: Vec<u8> = fields.flat_map(u64::to_ne_bytes).collect();
        image[start..start + bytes.len()].copy_from_slice(&bytes);
    }
}

static LOADED: Once = Once::new();
static APART: AtomicBool = AtomicBool::new(false);

/// Registers the exit handler of the libraries that CUPTI loads when counters are sampled: they take themselves
/// apart, and a call after that ends the process. Handlers that are registered later run before it.
fn register_exit() {
    LOADED.call_once(|| {
        // Without memory for the handler the libraries stay whole.
        // SAFETY: the handler only stores a value, and stays as long as this library does.
        unsafe { libc::atexit(take_apart) };
    });
}

extern "C" fn take_apart() {
    APART.store(true, Ordering::Release);
}

/// Ends the process where the libraries are no longer whole, as CUPTI 13.0 did on an H200.
fn expect_whole() {
    if APART.load(Ordering::Acquire) {
        eprintln!("stage2-sim: counters are sampled after what samples them took itself apart");
        std::process::abort();
    }
}
