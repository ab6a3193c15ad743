//! A CUPTI and a driver into what can be done with them: versions, and the bugs that they have.

use std::ffi::c_int;

use cupti_sys::{Api, find};

use crate::options::Options;
use crate::state::Off;

/// CUPTI versions that are known to keep the layouts that are read: CUDA 11.8 to 13.x.
const KNOWN_VERSIONS: [std::ops::RangeInclusive<u32>; 2] = [18..=99, 130_000..=139_999];
/// CUDA 12.6: from its update 2 on buffers per thread can be flushed safely. Its version is the same,
/// but it is the first to export [`SINCE_12_6_UPDATE_2`].
const PER_THREAD_BUFFERS_SINCE: u32 = 24;
const SINCE_12_6_UPDATE_2: &[u8] = b"cuptiRangeProfilerEnable\0";
/// CUDA 12.9 update 1: the first known to survive a refused buffer.
const REFUSAL_SINCE: u32 = 28;
/// CUDA 13.0 update 1: the first that cannot deadlock when the kernel kind is switched off.
const SWITCHING_SINCE: u32 = 130_001;

pub(super) type DriverGetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;

/// Whether it can keep a buffer for each thread.
pub(super) fn has_safe_buffers_per_thread(api: &Api, version: u32) -> bool {
    version > PER_THREAD_BUFFERS_SINCE
        || (version == PER_THREAD_BUFFERS_SINCE && exports(api, SINCE_12_6_UPDATE_2))
}

/// Whether it survives a request for a buffer that is not met.
pub(super) fn may_refuse(version: u32) -> bool {
    version >= REFUSAL_SINCE
}

/// Whether collection may be switched while the guest runs.
pub(super) fn may_switch(version: u32) -> bool {
    version >= SWITCHING_SINCE
}

/// The driver's version function, and what it says (1000 * major + 10 * minor).
pub(super) fn driver(options: &Options) -> Result<(DriverGetVersion, c_int), Off> {
    let library = match (find::driver(), &options.cupti) {
        (Some(library), _) => library,
        // A simulated CUPTI is its own driver.
        // SAFETY: the user named this library as the CUPTI to load.
        (None, Some(path)) => unsafe { libloading::Library::new(path) }
            .map_err(|error| Off(format!("{} cannot be loaded: {error}", path.display())))?,
        (None, None) => {
            return Err(Off("the CUDA driver (libcuda.so) is not in the process".into()));
        }
    };
    // SAFETY: the symbol has this type in every driver since CUDA 2.2.
    let symbol = unsafe { library.get::<DriverGetVersion>(b"cuDriverGetVersion\0") };
    let function =
        *symbol.map_err(|_| Off("the CUDA driver has no cuDriverGetVersion; update it".into()))?;
    // The driver stays for the life of the process; so must our handle.
    std::mem::forget(library);
    let mut version = 0;
    // SAFETY: the place is valid for the result; the call is allowed before cuInit.
    let result = unsafe { function(&raw mut version) };
    if result != 0 {
        return Err(Off(format!("the CUDA driver does not tell its version (error {result})")));
    }
    Ok((function, version))
}

/// The version, where it is one that can be read here.
pub(super) fn known_version(api: &Api) -> Result<u32, Off> {
    let version = api
        .version()
        .map_err(|error| Off(format!("{} does not work: {error}", api.path().display())))?;
    if KNOWN_VERSIONS.iter().any(|known| known.contains(&version)) {
        return Ok(version);
    }
    Err(Off(format!(
        "{} is CUPTI version {version}, which is not known here (CUDA 11.8 to 13.x are); point \
         STAGE2_CUPTI at a known one, or use a newer stage2",
        api.path().display()
    )))
}

/// Whether it is the simulated GPU of this repository.
pub(super) fn is_simulated(api: &Api) -> bool {
    exports(api, b"stage2_sim_version\0")
}

fn exports(api: &Api, symbol: &[u8]) -> bool {
    // SAFETY: the library is loaded already, so no code of its runs; the symbol is not used.
    unsafe {
        libloading::Library::new(api.path())
            .is_ok_and(|library| library.get::<*const ()>(symbol).is_ok())
    }
}
