//! A CUPTI and a driver into what can be done with them: versions, and the bugs that they have.

use std::error::Error as _;
use std::ffi::c_int;
use std::path::{Path, PathBuf};

use cupti_sys::{Api, find};

use crate::base::options::Options;
use crate::guest::gpu::OffReason;

/// CUPTI versions that are known to keep the layouts that are read: CUDA 11.8 to 13.x.
const KNOWN_VERSIONS: [std::ops::RangeInclusive<u32>; 2] = [18..=99, 130_000..=139_999];
/// CUDA 12.6: from its update 2 on buffers per thread can be flushed safely. Its version is the same,
/// but it is the first to export [`SINCE_12_6_UPDATE_2`].
const PER_THREAD_BUFFERS_SINCE: u32 = 24;
const SINCE_12_6_UPDATE_2: &[u8] = b"cuptiRangeProfilerEnable\0";
/// CUDA 12.9 update 1: the first known to survive a refused buffer.
const REFUSAL_SINCE: u32 = 28;
/// CUDA 13.0 update 1: the first that cannot deadlock when the kernel kind is switched off. From a later
/// one on, threads that launch meanwhile may lose all further records, without an error: seen with 13.5
/// (docs/cupti-findings.md), and not ruled out for those between.
const SWITCHING: u32 = 130_001;

pub(super) type DriverGetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;

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
    version == SWITCHING
}

/// What may happen where a CUPTI that may not be switched is switched all the same.
pub(super) fn hazard_of_switching(version: u32) -> &'static str {
    match version < SWITCHING {
        true => "may deadlock when collection is switched off",
        false => "may lose threads that launch while collection is switched",
    }
}

/// The driver's version function, and what it says (1000 * major + 10 * minor).
pub(super) fn driver(options: &Options) -> Result<(DriverGetVersion, c_int), OffReason> {
    // A word, and no file.
    let named = options.cupti.as_ref().filter(|path| path.as_os_str() != find::places::NEWEST);
    let library = match (find::driver(), named) {
        (Some(library), _) => library,
        // A simulated CUPTI is its own driver.
        // SAFETY: the user named this library as the CUPTI to load.
        (None, Some(path)) => unsafe { libloading::Library::new(path) }
            .map_err(|error| {
                // The loader's own words; the error alone names the function that failed.
                let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                let file = path.display();
                OffReason(format!(
                    "{file} cannot be loaded ({why}); let STAGE2_CUPTI name a libcupti.so, or leave it unset"
                ))
            })?,
        (None, None) => {
            return Err(OffReason("the CUDA driver (libcuda.so) is not in the process".into()));
        }
    };
    // SAFETY: the symbol has this type in every driver since CUDA 2.2.
    let symbol = unsafe { library.get::<DriverGetVersion>(b"cuDriverGetVersion\0") };
    let function = *symbol
        .map_err(|_| OffReason("the CUDA driver has no cuDriverGetVersion; update it".into()))?;
    // The driver stays for the life of the process; so must our handle.
    std::mem::forget(library);
    let mut version = 0;
    // SAFETY: the place is valid for the result; the call is allowed before cuInit.
    let result = unsafe { function(&raw mut version) };
    if result != 0 {
        return Err(OffReason(format!(
            "the CUDA driver does not report its version (error {result})"
        )));
    }
    Ok((function, version))
}

/// The first driver that knows context-independent kernel handles (`CUkernel`). CUDA runtimes from 12.0
/// on pass them to `cuLaunchKernel`. CUPTI of CUDA 11 takes such a handle for a function and follows it
/// when it reports the launch: the program ends by SIGSEGV.
const KERNEL_HANDLES_SINCE: c_int = 12_000;
/// The number that CUPTI of CUDA 11.8, 12.0 and 12.1 share; the first that is 12.2 for certain is 20.
const NUMBER_OF_11_8: u32 = 18;

/// Why this CUPTI must not be used in this process, if so. `loaded`: the libraries of the process.
pub(super) fn refusal(
    version: u32,
    file: &Path,
    driver: c_int,
    loaded: &[PathBuf],
) -> Option<OffReason> {
    let safe = !may_be_of_cuda_11(version, file) || driver < KERNEL_HANDLES_SINCE;
    if safe || has_runtimes_of_cuda_11_only(loaded) {
        return None;
    }
    Some(OffReason(format!(
        "CUPTI {version} of CUDA 11 ({}) ends programs by SIGSEGV when a CUDA runtime of 12.0 or later \
         launches a kernel, and this process is not known to use a runtime of CUDA 11 only (the driver is \
         {}.{}); point STAGE2_CUPTI at a libcupti of CUDA 12 or later (pip install \
         nvidia-cuda-cupti-cu12)",
        file.display(),
        driver / 1000,
        driver % 1000 / 10,
    )))
}

/// Whether the CUDA runtimes among these libraries are all of CUDA 11. `false` without any: a runtime
/// that is linked into the program has no file.
fn has_runtimes_of_cuda_11_only(loaded: &[PathBuf]) -> bool {
    let mut majors = loaded.iter().filter_map(|file| runtime_major(file)).peekable();
    majors.peek().is_some() && majors.all(|major| major == 11)
}

/// The major version of a shared CUDA runtime (`libcudart-d0da41ae.so.11.0`); 0: the name does not tell.
fn runtime_major(file: &Path) -> Option<u32> {
    let name = file.file_name()?.to_str()?.strip_prefix("libcudart")?;
    let version = name.split_once(".so").map_or("", |(_, version)| version);
    Some(version.split('.').find_map(|part| part.parse().ok()).unwrap_or(0))
}

/// Whether a CUPTI may be of CUDA 11. Where its number leaves that open its file name tells: a major
/// version (`libcupti.so.12`), or a year and a release (11.8: `libcupti.so.2022.3.0`).
fn may_be_of_cuda_11(version: u32, file: &Path) -> bool {
    if version > NUMBER_OF_11_8 {
        return false;
    }
    let real = file.canonicalize();
    let is_12 = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        let mut numbers = name.split_once(".so.")?.1.split('.').map_while(|part| part.parse().ok());
        let first: u32 = numbers.next()?;
        Some(if first < 100 { first >= 12 } else { (first, numbers.next()?) >= (2022, 4) })
    };
    let says = is_12(file).or_else(|| is_12(real.as_deref().ok()?));
    says != Some(true)
}

/// The version, where it is one that can be read here.
pub(super) fn known_version(api: &Api) -> Result<u32, OffReason> {
    let version = api
        .version()
        .map_err(|error| OffReason(format!("{} does not work: {error}", api.path().display())))?;
    if KNOWN_VERSIONS.iter().any(|known| known.contains(&version)) {
        return Ok(version);
    }
    Err(OffReason(format!(
        "{} is CUPTI version {version}, which is not known here (CUDA 11.8 to 13.x are); point \
         STAGE2_CUPTI at a known one, or use a newer stage2",
        api.path().display()
    )))
}

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

    const NEW_RUNTIME: &str = "/y/libcudart.so.13";

    fn refused(version: u32, file: &str, driver: c_int, loaded: &[&str]) -> Option<OffReason> {
        let loaded: Vec<PathBuf> = loaded.iter().map(PathBuf::from).collect();
        refusal(version, Path::new(file), driver, &loaded)
    }

    #[test]
    fn cupti_of_cuda_11_is_refused_beside_a_newer_runtime() {
        for file in ["/x/libcupti.so.11.8", "/x/libcupti.so.2022.3.0", "/x/libcupti-1f.so.11.8"] {
            let OffReason(why) = refused(18, file, 13_000, &[NEW_RUNTIME]).unwrap();
            for part in [file, "CUPTI 18", "driver is 13.0", "STAGE2_CUPTI", "CUDA 12 or later"] {
                assert!(why.contains(part), "{part} in {why}");
            }
            assert!(refused(18, file, 12_000, &[NEW_RUNTIME]).is_some());
            // There are no such handles yet.
            assert_eq!(refused(18, file, 11_080, &[NEW_RUNTIME]), None);
        }
        // 12.0 and 12.1 have the same number.
        for file in ["/x/libcupti.so.12", "/x/libcupti.so.2022.4.0", "/x/libcupti.so.2023.1.1"] {
            assert_eq!(refused(18, file, 13_000, &[NEW_RUNTIME]), None);
        }
        // It is not tried where the name does not tell.
        assert!(refused(18, "/x/libcupti.so", 13_000, &[NEW_RUNTIME]).is_some());
        for version in [20, 28, 130_001] {
            assert_eq!(refused(version, "/x/libcupti.so", 13_000, &[NEW_RUNTIME]), None);
        }
    }

    #[test]
    fn cupti_of_cuda_11_serves_where_every_runtime_is_of_cuda_11() {
        let file = "/x/libcupti.so.11.8";
        let (old, bundled) = ("/y/libcudart.so.11.0", "/y/libcudart-d0da41ae.so.11.0");
        for loaded in [&[old][..], &[bundled], &["/y/libtorch.so", old, bundled]] {
            assert_eq!(refused(18, file, 13_000, loaded), None, "{loaded:?}");
        }
        for loaded in [
            &[][..],
            &["/y/libtorch.so"],
            &[old, NEW_RUNTIME],
            &["/y/libcudart.so.12"],
            &["/y/libcudart.so"],
            &[old, "/y/libcudart-x.so"],
        ] {
            assert!(refused(18, file, 13_000, loaded).is_some(), "{loaded:?}");
        }
    }

    #[test]
    fn a_link_is_followed_to_the_name_that_tells() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) =
            (folder.path().join("libcupti.so.12"), folder.path().join("libcupti.so"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(refusal(18, &link, 13_000, &[PathBuf::from(NEW_RUNTIME)]), None);
    }
}
