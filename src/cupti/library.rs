//! A CUPTI and a driver into what can be done with them: versions, and the bugs that they have.

use std::ffi::c_int;
use std::path::Path;

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

/// A CUPTI that ends the program under some drivers.
struct Crash {
    /// CUDA versions of CUPTI before this one (major, minor), ...
    before: (u32, u32),
    /// ... under drivers from this CUDA version on (1000 * major + 10 * minor).
    driver_since: c_int,
    /// What is known of it.
    seen: &'static str,
}

/// The first driver under which CUPTI of CUDA 11 was seen to crash. Nothing is known of those of CUDA 12.
const CRASHES_CUDA_11_SINCE: c_int = 13_000;
/// What is refused, because the workload comes first.
const CRASHES: [Crash; 1] = [Crash {
    before: (12, 0),
    driver_since: CRASHES_CUDA_11_SINCE,
    seen: "11.8.87 ends programs by SIGSEGV in their first launches under a driver of CUDA 13.0",
}];
/// The number that CUPTI of CUDA 11.8, 12.0 and 12.1 share; the first that is 12.2 for certain is 20.
const NUMBER_OF_11_8: u32 = 18;

/// Why this CUPTI must not be used under this driver, if so.
pub(super) fn refusal(version: u32, file: &Path, driver: c_int) -> Option<Off> {
    let toolkit = toolkit_at_least(version, file);
    let crash =
        CRASHES.iter().find(|crash| toolkit < crash.before && driver >= crash.driver_since)?;
    Some(Off(format!(
        "CUPTI {version} of CUDA 11 ({}) does not work with the CUDA driver {}.{} ({}); point \
         STAGE2_CUPTI at a libcupti of CUDA {}.{} or later (pip install nvidia-cuda-cupti-cu12), or use \
         an older driver",
        file.display(),
        driver / 1000,
        driver % 1000 / 10,
        crash.seen,
        crash.before.0,
        crash.before.1,
    )))
}

/// The oldest CUDA version that a CUPTI may be of. Where its number leaves that open its file name
/// tells: a major version (`libcupti.so.12`), or a year and a release (11.8: `libcupti.so.2022.3.0`).
fn toolkit_at_least(version: u32, file: &Path) -> (u32, u32) {
    if version > NUMBER_OF_11_8 {
        return (12, 2);
    }
    let real = file.canonicalize();
    let is_12 = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        let mut numbers = name.split_once(".so.")?.1.split('.').map_while(|part| part.parse().ok());
        let first: u32 = numbers.next()?;
        Some(if first < 100 { first >= 12 } else { (first, numbers.next()?) >= (2022, 4) })
    };
    let says = is_12(file).or_else(|| is_12(real.as_deref().ok()?));
    if says == Some(true) { (12, 0) } else { (11, 8) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cupti_of_cuda_11_is_refused_under_the_drivers_that_it_crashes_with() {
        let refused = |version, file: &str, driver| refusal(version, Path::new(file), driver);
        for file in ["/x/libcupti.so.11.8", "/x/libcupti.so.2022.3.0", "/x/libcupti-1f.so.11.8"] {
            let Off(why) = refused(18, file, 13_000).unwrap();
            for part in [file, "CUPTI 18", "driver 13.0", "STAGE2_CUPTI", "12.0 or later"] {
                assert!(why.contains(part), "{part} in {why}");
            }
            assert!(refused(18, file, 13_020).is_some());
            assert_eq!(refused(18, file, 12_090), None);
        }
        // 12.0 and 12.1 have the same number.
        for file in ["/x/libcupti.so.12", "/x/libcupti.so.2022.4.0", "/x/libcupti.so.2023.1.1"] {
            assert_eq!(refused(18, file, 13_000), None);
        }
        // What cannot be told apart is not tried.
        assert!(refused(18, "/x/libcupti.so", 13_000).is_some());
        for version in [20, 28, 130_001] {
            assert_eq!(refused(version, "/x/libcupti.so", 13_000), None);
        }
    }

    #[test]
    fn a_link_is_followed_to_the_name_that_tells() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) =
            (folder.path().join("libcupti.so.12"), folder.path().join("libcupti.so"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(refusal(18, &link, 13_000), None);
    }
}
