//! Turns a description of the surroundings into the files that may be a `libcupti`, best first.
//!
//! Pure apart from [`list`] and [`Surroundings::of_this_process`], so that every rule can be tested
//! without a file of NVIDIA's. Nothing is opened here: the launcher, which must not load a CUPTI, lists
//! the places too.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Where a `libcupti` comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The user named it.
    Explicit,
    /// It was in the process.
    AlreadyLoaded,
    /// The packages of the running Python.
    PythonPackages,
    /// An installed CUDA toolkit.
    Toolkit,
    /// The dynamic linker's own search.
    System,
}

impl fmt::Display for How {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Explicit => "given path",
            Self::AlreadyLoaded => "already in the process",
            Self::PythonPackages => "Python packages",
            Self::Toolkit => "CUDA toolkit",
            Self::System => "system",
        })
    }
}

/// One place that gave no library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The kind of place.
    pub how: How,
    /// The file or folder; empty where there was nothing to look at.
    pub place: PathBuf,
    /// Why it gave none.
    pub reason: String,
}

/// What the search may know about the process and its environment.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The running program, links resolved.
    pub executable: Option<PathBuf>,
    /// The running program as it was called, links not resolved: a virtual environment's `python`
    /// is a link to another one.
    pub called_as: Option<PathBuf>,
    /// `VIRTUAL_ENV`.
    pub virtual_env: Option<PathBuf>,
    /// `CONDA_PREFIX`.
    pub conda_prefix: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `CUDA_HOME`.
    pub cuda_home: Option<PathBuf>,
    /// `CUDA_PATH`.
    pub cuda_path: Option<PathBuf>,
    /// The shared objects in the process.
    pub mapped: Vec<PathBuf>,
}

/// A file, or a name for the dynamic linker's own search, that may be a `libcupti`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The kind of place.
    pub how: How,
    /// What to open.
    pub path: PathBuf,
    /// The CUDA major version in its name; `None` if the name has none.
    pub cuda_major: Option<u32>,
}

/// The outcome of the search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// What to open, best first.
    pub candidates: Vec<Candidate>,
    /// Places without any.
    pub empty: Vec<Attempt>,
}

/// Lists the names in a folder; none if it cannot be read.
pub type List<'a> = &'a dyn Fn(&Path) -> Vec<OsString>;

/// The names in a real folder.
pub fn list(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

impl Surroundings {
    /// The surroundings of this process.
    pub fn of_this_process(mapped: Vec<PathBuf>) -> Self {
        let folder =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            executable: std::fs::read_link("/proc/self/exe").ok(),
            called_as: called_as(),
            virtual_env: folder("VIRTUAL_ENV"),
            conda_prefix: folder("CONDA_PREFIX"),
            home: folder("HOME"),
            cuda_home: folder("CUDA_HOME"),
            cuda_path: folder("CUDA_PATH"),
            mapped,
        }
    }
}

/// The first word of the command line as an absolute path, through `PATH` where it is a bare name.
/// Read from /proc, because a library that is loaded late may not have been handed the arguments.
fn called_as() -> Option<PathBuf> {
    let command = std::fs::read("/proc/self/cmdline").ok()?;
    let word = command.split(|byte| *byte == 0).next().filter(|word| !word.is_empty())?;
    let word = PathBuf::from(OsString::from_vec(word.to_vec()));
    if word.components().count() > 1 {
        return std::path::absolute(word).ok();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(&word)).find(|file| file.is_file())
}

/// Whether the last part of a path starts with `start`.
pub fn file_name_starts(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(start.as_bytes()))
}

/// Whether a file has the name of a `libcupti`. Wheels that bundle their own copy append a hash to
/// `libcupti`.
fn is_libcupti(path: &Path) -> bool {
    file_name_starts(path, "libcupti.so") || file_name_starts(path, "libcupti-")
}

/// The copies that are in the process, those of the driver's major version first.
pub fn loaded(mapped: &[PathBuf], driver_cuda_major: Option<u32>) -> Vec<Candidate> {
    let copies = mapped.iter().filter(|path| is_libcupti(path)).cloned();
    let mut candidates: Vec<_> =
        copies.map(|path| Candidate::new(How::AlreadyLoaded, path)).collect();
    sort(&mut candidates, &|a, b| a.rank(driver_cuda_major).cmp(&b.rank(driver_cuda_major)));
    candidates
}

/// The files to try, best first: by how well the major version fits the driver, then in the order
/// Python packages, toolkit, system.
pub fn places(surroundings: &Surroundings, driver_cuda_major: Option<u32>, list: List) -> Places {
    let mut places = Places::default();
    let packages = nvidia_packages(surroundings, list);
    if packages.is_empty() {
        places.nothing(How::PythonPackages, "", "no Python packages known to this process");
    }
    for root in packages {
        places.add(How::PythonPackages, &root, &package_folders(&root, list), list);
    }
    for root in toolkits(surroundings, list) {
        places.add(How::Toolkit, &root, &toolkit_folders(&root, list), list);
    }
    for name in sonames(driver_cuda_major) {
        places.candidates.push(Candidate::new(How::System, name.into()));
    }
    // Two roots may share a folder.
    let mut seen = HashSet::new();
    places.candidates.retain(|candidate| seen.insert(candidate.path.clone()));
    let rank = |candidate: &Candidate| candidate.rank(driver_cuda_major);
    sort(&mut places.candidates, &|a, b| rank(a).cmp(&rank(b)));
    places
}

/// Sorts; equals keep their order. Each order that the compiler knows would cost 20 KB of a library that
/// every process of a job loads.
fn sort(candidates: &mut [Candidate], order: &dyn Fn(&Candidate, &Candidate) -> Ordering) {
    candidates.sort_by(order);
}

impl Places {
    /// Adds the `libcupti`s in the folders of one installation, newest first.
    fn add(&mut self, how: How, root: &Path, folders: &[PathBuf], list: List) {
        let mut found: Vec<Candidate> = folders
            .iter()
            .flat_map(|folder| list(folder).into_iter().map(|name| folder.join(name)))
            .filter(|path| file_name_starts(path, "libcupti.so"))
            .map(|path| Candidate::new(how, path))
            .collect();
        if found.is_empty() {
            return self.nothing(how, root, "no libcupti.so in it");
        }
        // Stable, so that the folders keep their order among equals.
        sort(&mut found, &|a, b| b.cuda_major.cmp(&a.cuda_major));
        self.candidates.extend(found);
    }

    fn nothing(&mut self, how: How, place: impl AsRef<Path>, reason: &str) {
        let place = place.as_ref().to_path_buf();
        self.empty.push(Attempt { how, place, reason: reason.into() });
    }
}

impl Candidate {
    /// A candidate with the major version that its name tells.
    pub fn new(how: How, path: PathBuf) -> Self {
        let cuda_major = path.file_name().and_then(cuda_major);
        Self { how, path, cuda_major }
    }

    /// Smaller is better. An older CUPTI works with a newer driver, the less old the more surely; a newer
    /// CUPTI does not work with an older driver.
    fn rank(&self, driver_cuda_major: Option<u32>) -> u32 {
        match (self.cuda_major, driver_cuda_major) {
            (_, None) => 0,
            (Some(major), Some(driver)) if major == driver => 0,
            (None, Some(_)) => 1,
            (Some(major), Some(driver)) if major < driver => 1 + (driver - major),
            (Some(_), Some(_)) => u32::MAX,
        }
    }
}

/// 12 for `libcupti.so.12`, 11 for `libcupti.so.11.8`; `None` for `libcupti.so` and for the
/// toolkit's file names with a year, such as `libcupti.so.2025.3.1`.
fn cuda_major(name: &OsStr) -> Option<u32> {
    let (_, version) = name.to_str()?.split_once(".so.")?;
    version.split('.').next()?.parse().ok().filter(|major| *major < 1000)
}

/// The names that the dynamic linker may know a `libcupti` by.
fn sonames(driver_cuda_major: Option<u32>) -> Vec<String> {
    let newer = driver_cuda_major.filter(|major| *major > 13);
    let versions = newer.map(|major| major.to_string()).into_iter();
    let versions = versions.chain(["13", "12", "11.8"].map(String::from));
    versions.map(|version| format!("libcupti.so.{version}")).chain(["libcupti.so".into()]).collect()
}

/// The folders `nvidia` in Python's packages, those that the process uses already first.
fn nvidia_packages(surroundings: &Surroundings, list: List) -> Vec<PathBuf> {
    let used = surroundings.mapped.iter().filter_map(|file| packages_of(file));
    let installed = python_prefixes(surroundings)
        .into_iter()
        .flat_map(|prefix| ["lib", "lib64"].map(|library| prefix.join(library)))
        .flat_map(|library| newest_in(&library, |name| name.starts_with(b"python3"), list))
        .flat_map(|version| {
            ["site-packages", "dist-packages"].map(|packages| version.join(packages).join("nvidia"))
        })
        .filter(|nvidia| !list(nvidia).is_empty());
    unique(used.chain(installed))
}

/// The wanted names in a folder as paths, those with the highest numbers first.
fn newest_in(folder: &Path, is_wanted: impl Fn(&[u8]) -> bool, list: List) -> Vec<PathBuf> {
    let mut names = list(folder);
    names.retain(|name| is_wanted(name.as_bytes()));
    names.sort_by_key(|name| std::cmp::Reverse(numbers(name)));
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The paths without those that came before.
fn unique(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    paths.filter(|path| seen.insert(path.clone())).collect()
}

/// The `nvidia` folder next to a mapped file of some Python package: for
/// `.../site-packages/torch/lib/libtorch.so` as for `.../nvidia/cuda_runtime/lib/libcudart.so.12`.
fn packages_of(file: &Path) -> Option<PathBuf> {
    let parts: Vec<Component> = file.components().collect();
    let named = |names: &[&str]| {
        let is = |part: &Component| names.iter().any(|name| part.as_os_str() == *name);
        parts.iter().rposition(is).and_then(|at| parts.get(..=at))
    };
    if let Some(packages) = named(&["site-packages", "dist-packages"]) {
        return Some(packages.iter().collect::<PathBuf>().join("nvidia"));
    }
    let root = named(&["nvidia"])?;
    // At least a package, its `lib` and the file must follow.
    (parts.len() >= root.len() + 3).then(|| root.iter().collect())
}

/// `sys.prefix` and its like, most likely first.
fn python_prefixes(surroundings: &Surroundings) -> Vec<PathBuf> {
    let of_program = |program: &Option<PathBuf>| {
        let program = program.as_deref().filter(|path| file_name_starts(path, "python"))?;
        Some(program.parent()?.parent()?.to_path_buf())
    };
    let [called_as, executable] =
        [&surroundings.called_as, &surroundings.executable].map(of_program);
    let is_python = called_as.is_some() || executable.is_some();
    let is_debian = [&called_as, &executable].contains(&&Some("/usr".into()));
    let debian = is_debian.then(|| "/usr/local".into());
    let user = surroundings.home.as_ref().filter(|_| is_python).map(|home| home.join(".local"));
    let (venv, conda) = (surroundings.virtual_env.clone(), surroundings.conda_prefix.clone());
    [called_as, venv, conda, executable, debian, user].into_iter().flatten().collect()
}

/// The folders in Python's `nvidia` that hold a `libcupti`: `cu13/lib`, `cuda_cupti/lib`.
fn package_folders(nvidia: &Path, list: List) -> Vec<PathBuf> {
    let is_wanted = |name: &[u8]| match name.strip_prefix(b"cu") {
        Some(b"da_cupti") => true,
        Some(digits) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        None => false,
    };
    newest_in(nvidia, is_wanted, list).into_iter().map(|folder| folder.join("lib")).collect()
}

/// CUDA toolkits, the ones that the environment names first.
fn toolkits(surroundings: &Surroundings, list: List) -> Vec<PathBuf> {
    let local = Path::new("/usr/local");
    let named = [surroundings.cuda_home.clone(), surroundings.cuda_path.clone()];
    let installed = newest_in(local, |name| name.starts_with(b"cuda-"), list);
    unique(named.into_iter().flatten().chain([local.join("cuda")]).chain(installed))
}

fn toolkit_folders(root: &Path, list: List) -> Vec<PathBuf> {
    let targets = root.join("targets");
    let targets = list(&targets).into_iter().map(|target| targets.join(target).join("lib"));
    [root.join("lib64"), root.join("extras/CUPTI/lib64")].into_iter().chain(targets).collect()
}

/// The numbers in a name, so that `cuda-12.10` counts as newer than `cuda-12.9`.
fn numbers(name: &OsStr) -> Vec<u32> {
    let bytes = name.as_bytes().split(|byte| !byte.is_ascii_digit());
    bytes.filter_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).collect()
}

/// What `STAGE2_CUPTI` says instead of a path to have the newest `libcupti` taken that the driver allows,
/// also where another copy is in the process already. A file of that name is `./newest`.
pub const NEWEST: &str = "newest";

/// The version of a CUPTI as its wheel counts: that of its CUDA, and its own number (13.5.25).
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
        let (major, minor, patch) = match *numbers?.as_slice() {
            [major, minor] => (major, minor, None),
            [major, minor, patch] => (major, minor, Some(patch)),
            _ => return None,
        };
        (major < 1000).then_some(Self { major, minor, patch })
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

/// The version of a file: as the metadata of the wheel says that lies next to its folder `nvidia`, or as a
/// toolkit's folder is called (`cuda-13.0`). `None` where neither is there.
pub fn version_of(path: &Path, list: List) -> Option<Version> {
    of_wheel(path, list).or_else(|| of_toolkit(path))
}

/// Packages of several CUDA versions may lie in one folder: the major version is the file's.
fn of_wheel(path: &Path, list: List) -> Option<Version> {
    let is_nvidia = |folder: &&Path| folder.file_name().is_some_and(|name| name == "nvidia");
    let packages = path.ancestors().find(is_nvidia)?.parent()?;
    let major = path.file_name().and_then(cuda_major);
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
        let oldest = candidate.cuda_major.map(|major| Version { major, minor: 0, patch: None });
        version(&candidate.path).or(oldest)
    };
    candidates.retain(|candidate| {
        let of_both = age(candidate).zip(driver_cuda_major);
        of_both.is_none_or(|(own, driver)| own.major <= driver)
    });
    sort(&mut candidates, &|a, b| age(b).cmp(&age(a)));
    candidates
}

/// What is taken where the user chose nothing: of the files next to the copies that are in the process
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
