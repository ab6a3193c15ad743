//! Which version a `libcupti` is, from what lies around it, and which of several is the newest.
//!
//! Nothing is opened: a second CUPTI in a process, loaded only to be asked, would stay in it.

use std::fmt;
use std::path::Path;

use crate::places::{Candidate, List, sort};

/// What `STAGE2_CUPTI` says instead of a path to have the newest `libcupti` taken that the driver allows,
/// also where another copy is in the process already. A file of that name is `./newest`.
pub const NEWEST: &str = "newest";

/// The version of a CUPTI as its wheel counts: that of its CUDA, and a number of its own (13.5.25).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Of CUDA.
    pub major: u32,
    /// Of CUDA.
    pub minor: u32,
    /// Of CUPTI; `None` where only the toolkit's version is known.
    pub patch: Option<u32>,
}

impl Version {
    /// The first with all of the second activity API.
    const SECOND_API: (u32, u32) = (13, 3);

    /// `13.5.25` or `13.5`; `None` for anything else, such as the toolkit's own count by years (2025.3.1).
    pub fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match *numbers?.as_slice() {
            [major, minor] if major < 1000 => Some(Self { major, minor, patch: None }),
            [major, minor, patch] if major < 1000 => {
                Some(Self { major, minor, patch: Some(patch) })
            }
            _ => None,
        }
    }

    /// Whether it has both activity APIs of CUPTI, and not only the first.
    pub fn has_second_api(self) -> bool {
        (self.major, self.minor) >= Self::SECOND_API
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(out, ".{patch}"))
    }
}

/// The version of a file: as the metadata of the wheel says that lies beside its folder `nvidia`, or as a
/// toolkit's folder is called (`cuda-13.0`). `None` where neither is there.
pub fn version_of(path: &Path, list: List) -> Option<Version> {
    of_wheel(path, list).or_else(|| of_toolkit(path))
}

/// Packages of several CUDA versions may lie in one folder: the major version is the file's.
fn of_wheel(path: &Path, list: List) -> Option<Version> {
    let is_nvidia = |folder: &&Path| folder.file_name().is_some_and(|name| name == "nvidia");
    let packages = path.ancestors().find(is_nvidia)?.parent()?;
    let major = path.file_name().and_then(crate::places::cuda_major);
    let versions = list(packages).into_iter().filter_map(|name| {
        let name = name.to_str()?.strip_prefix("nvidia_cuda_cupti")?.strip_suffix(".dist-info")?;
        Version::parse(name.rsplit('-').next()?)
    });
    // Left over from an interrupted update there may be two: what is newer came later.
    versions.filter(|version| major.is_none_or(|major| version.major == major)).max()
}

fn of_toolkit(path: &Path) -> Option<Version> {
    path.ancestors()
        .find_map(|folder| Version::parse(folder.file_name()?.to_str()?.strip_prefix("cuda-")?))
}

/// Orders candidates for [`NEWEST`]: the newest first, without those of a newer CUDA than the driver's. A
/// newer minor version works with the driver of an older one. Where the version is not known, the file counts
/// as the oldest of its CUDA, and without that as the oldest of all. Equals keep their order.
pub fn newest_first(
    mut candidates: Vec<Candidate>,
    driver_cuda_major: Option<u32>,
    version: impl Fn(&Path) -> Option<Version>,
) -> Vec<Candidate> {
    let age = |candidate: &Candidate| {
        let known = version(&candidate.path);
        let oldest = candidate.cuda_major.map(|major| Version { major, minor: 0, patch: None });
        known.or(oldest)
    };
    candidates.retain(|candidate| match (age(candidate), driver_cuda_major) {
        (Some(own), Some(driver)) => own.major <= driver,
        _ => true,
    });
    sort(&mut candidates, &|a, b| age(b).cmp(&age(a)));
    candidates
}

/// What is taken where the user chose nothing: of the files beside the copies that are in the process
/// (`loaded`) the newest that the driver allows, if it is known to have the second activity API and none of
/// the copies is. `None`: what is in the process serves, or what comes first.
pub fn worth_a_second_copy(
    loaded: &[Candidate],
    others: Vec<Candidate>,
    driver_cuda_major: Option<u32>,
    version: impl Fn(&Path) -> Option<Version>,
) -> Option<Candidate> {
    let has_second = |found: &Candidate| version(&found.path).is_some_and(Version::has_second_api);
    if driver_cuda_major.is_none() || loaded.iter().any(has_second) {
        return None;
    }
    newest_first(others, driver_cuda_major, &version).into_iter().next().filter(has_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::How;
    use std::ffi::OsString;
    use std::path::PathBuf;

    fn version(text: &str) -> Option<Version> {
        Version::parse(text)
    }

    #[test]
    fn a_version_has_two_or_three_numbers_and_no_year() {
        assert_eq!(version("13.5.25").map(|found| found.to_string()).as_deref(), Some("13.5.25"));
        assert_eq!(version("13.0").map(|found| found.to_string()).as_deref(), Some("13.0"));
        for bad in ["", "13", "13.", "13.x.1", "2025.3.1", "1.2.3.4", "99999999999.1", "-1.2"] {
            assert_eq!(version(bad), None, "{bad}");
        }
        assert!(version("13.10.1") > version("13.9.200"));
        assert!(version("13.5.25") > version("13.5"));
        let both = |text: &str| version(text).is_some_and(Version::has_second_api);
        assert_eq!(
            [both("13.3.75"), both("14.0"), both("13.2.86"), both("12.9.79")],
            [true, true, false, false]
        );
    }

    #[test]
    fn the_wheel_of_the_files_own_cuda_tells() {
        let packages = Path::new("/env/site-packages");
        let names =
            ["nvidia_cuda_cupti_cu12-12.8.90.dist-info", "nvidia_cuda_cupti-13.5.25.dist-info"];
        let list = |folder: &Path| {
            if folder == packages { names.map(OsString::from).to_vec() } else { Vec::new() }
        };
        let of = |path: &str| version_of(&packages.join(path), &list);
        assert_eq!(of("nvidia/cuda_cupti/lib/libcupti.so.12"), version("12.8.90"));
        assert_eq!(of("nvidia/cu13/lib/libcupti.so.13"), version("13.5.25"));
        assert_eq!(of("nvidia/cu14/lib/libcupti.so.14"), None);
        let nothing = |_: &Path| Vec::new();
        let toolkit = "/usr/local/cuda-12.9/targets/x86_64-linux/lib/libcupti.so.12";
        assert_eq!(version_of(Path::new(toolkit), &nothing), version("12.9"));
        for unknown in
            ["/usr/local/cuda/lib64/libcupti.so", "libcupti.so.13", "/x/cuda-new/libcupti.so"]
        {
            assert_eq!(version_of(Path::new(unknown), &nothing), None, "{unknown}");
        }
    }

    #[test]
    fn the_newest_that_the_driver_allows_comes_first() {
        let known = [
            ("/torch/libcupti.so.13", How::AlreadyLoaded, "13.0.85"),
            ("/old/libcupti.so.12", How::PythonPackages, "12.8.90"),
            ("/new/libcupti.so.13", How::PythonPackages, "13.5.25"),
            ("/next/libcupti.so.14", How::Toolkit, "14.0"),
            ("/unknown/libcupti.so.13", How::Toolkit, ""),
            ("libcupti.so", How::System, ""),
        ];
        let candidates: Vec<Candidate> =
            known.iter().map(|(path, how, _)| Candidate::new(*how, PathBuf::from(path))).collect();
        let told = |path: &Path| {
            let (_, _, text) = known.iter().find(|(known, _, _)| Path::new(known) == path)?;
            version(text)
        };
        let order = |driver| {
            let found = newest_first(candidates.clone(), driver, told);
            found.into_iter().map(|each| each.path.display().to_string()).collect::<Vec<_>>()
        };
        let all = [
            "/next/libcupti.so.14",
            "/new/libcupti.so.13",
            "/torch/libcupti.so.13",
            "/unknown/libcupti.so.13",
            "/old/libcupti.so.12",
            "libcupti.so",
        ];
        assert_eq!(order(Some(14)), all);
        assert_eq!(order(None), all);
        assert_eq!(order(Some(13)), all[1..]);
        assert_eq!(order(Some(12)), all[4..]);
    }

    #[test]
    fn a_second_copy_is_worth_it_for_the_second_api_alone() {
        let of = |how, path: &str| Candidate::new(how, path.into());
        let told = |path: &Path| version(path.parent()?.to_str()?.trim_start_matches('/'));
        let new = || of(How::Toolkit, "/13.5.25/libcupti.so.13");
        let taken = |loaded: &[&str], others: Vec<Candidate>, driver| {
            let loaded: Vec<_> = loaded.iter().map(|path| of(How::AlreadyLoaded, path)).collect();
            worth_a_second_copy(&loaded, others, driver, told)
        };
        let old = "/13.0.85/libcupti.so.13";
        assert_eq!(taken(&[old], vec![of(How::Toolkit, old), new()], Some(13)), Some(new()));
        assert_eq!(taken(&[], vec![of(How::Toolkit, old), new()], Some(13)), Some(new()));
        // No gain, an unknown version, or a version that the driver does not allow.
        assert_eq!(taken(&["/13.3.75/libcupti.so.13"], vec![new()], Some(13)), None);
        let unknown = of(How::Toolkit, "/toolkit/libcupti.so.13");
        assert_eq!(
            taken(&[old], vec![of(How::Toolkit, "/13.2.86/libcupti.so.13"), unknown], Some(13)),
            None
        );
        assert_eq!(taken(&["/12.8.90/libcupti.so.12"], vec![new()], Some(12)), None);
        assert_eq!(taken(&[old], vec![new()], None), None);
    }

    #[test]
    fn of_equally_new_ones_the_copy_in_the_process_stays() {
        let loaded = Candidate::new(How::AlreadyLoaded, "/torch/libcupti.so.13".into());
        let other = Candidate::new(How::Toolkit, "/other/libcupti.so.13".into());
        for known in [version("13.5.25"), None] {
            let found = newest_first(vec![loaded.clone(), other.clone()], Some(13), |_| known);
            assert_eq!(found, [loaded.clone(), other.clone()]);
        }
    }
}
