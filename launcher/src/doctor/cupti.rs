//! The places of libcupti and what the collector found in the trial -> which one a run uses, and why.

use std::path::{Path, PathBuf};

use cupti_sys::places::{
    Candidate, How, NEWEST, Surroundings, Version, list, newest_first, places, version_of,
};
use stage2_model::EmptyCause;

use super::check::{Check, CheckInfo, Fix, Group, System, major};
use super::trial::Trial;

pub(super) const LIBCUPTI: CheckInfo = CheckInfo {
    id: "libcupti",
    group: Group::Collector,
    looks_at: "The libcupti that the collector opened in a child process that started CUDA, and all \
               others that it would try, best first, with their versions and activity APIs.",
    why: "CUPTI gives the kernel records. One that is newer than the driver does not start; one of \
          CUDA 11 with a newer runtime would crash the workload, so the collector refuses it.",
    fixes: &[
        Fix::problem(
            "there is no libcupti, or none that fits",
            "install CUPTI where the workload runs: `pip install nvidia-cuda-cupti` (CUDA 13), \
             `pip install nvidia-cuda-cupti-cu12` (CUDA 12), or the toolkit's package cuda-cupti; \
             or set STAGE2_CUPTI to the path of a libcupti.so",
        ),
        Fix::problem(
            "the collector found a libcupti and cannot use it",
            "act on the message; STAGE2_CUPTI=PATH chooses another libcupti, and remove other profilers \
             from the workload",
        ),
        Fix::warning(
            "all candidates are of a newer CUDA than the driver",
            "install a libcupti of the driver's CUDA version (`pip install nvidia-cuda-cupti-cu12` \
             for CUDA 12) and name it in STAGE2_CUPTI, or update the driver",
        ),
        Fix::warning(
            "the libcupti in use and torch are of different CUDA major versions",
            "set STAGE2_CUPTI to the libcupti that torch brings (the details list it)",
        ),
    ],
    explains: &[EmptyCause::CuptiOff],
};

fn candidate_line(found: &InstalledCupti) -> String {
    let version = found.version.as_deref().map(|v| format!(", version {v}")).unwrap_or_default();
    let cuda = found.cuda_major.map(|v| format!(", CUDA {v}")).unwrap_or_default();
    let apis = found.version.as_deref().and_then(apis);
    let apis = apis.map(|apis| format!(", {apis}")).unwrap_or_default();
    format!("{}: {}{cuda}{version}{apis}", found.how, found.path.display())
}

/// All candidates, the one in use marked, then what is known of their cost. `used`: a path and why.
fn candidate_lines(
    installed: &[InstalledCupti],
    used: Option<(&Path, &str)>,
    driver: Option<u32>,
) -> Vec<String> {
    let is_used = |found: &InstalledCupti| used.is_some_and(|(path, _)| same(&found.path, path));
    let reason = used.map_or("", |(_, reason)| reason);
    let mut lines = Vec::new();
    if let Some((path, _)) = used.filter(|_| !installed.iter().any(is_used)) {
        lines.push(format!("in use, {reason}: {}", path.display()));
    }
    lines.extend(installed.iter().map(|found| match is_used(found) {
        true => format!("in use, {reason}: {}", candidate_line(found)),
        false => candidate_line(found),
    }));
    if let Some(newer) = used.and_then(|(path, _)| newer(installed, path, driver)) {
        let version = newer.version.as_deref().unwrap_or_default();
        lines.push(format!("STAGE2_CUPTI=newest would use {version} at {}", newer.path.display()));
    }
    lines.extend(measured(installed));
    lines
}

/// Judges what a run would use. `asked`: STAGE2_CUPTI. `tried`: the trial that is most like the workload.
pub(super) fn check(
    installed: &[InstalledCupti],
    asked: Option<&Path>,
    tried: Result<&Trial, String>,
    driver_cuda: Option<&str>,
    torch_cuda: Option<&str>,
) -> Check {
    let driver = driver_cuda.and_then(major);
    let details = candidate_lines(installed, None, driver);
    let count = match installed.len() {
        0 => "no libcupti was found in the usual places".to_owned(),
        1 => "1 candidate".to_owned(),
        many => format!("{many} candidates"),
    };
    let noted = |key: &str| Some(tried.as_ref().ok()?.meta.get(key)?.as_str());
    if let Some(why) = noted("gpu.off") {
        let case = usize::from(!why.contains("no libcupti found"));
        return LIBCUPTI
            .case(case, format!("the collector cannot record the GPU: {why}"))
            .with(details);
    }
    let newer = |found: &InstalledCupti| {
        found.cuda_major.zip(driver).is_some_and(|(own, newest)| own > newest)
    };
    let Some(path) = noted("cupti.path") else {
        if !installed.is_empty() && installed.iter().all(newer) {
            let newest = driver.unwrap_or_default();
            let what = format!("{count}, all of a newer CUDA than the driver's ({newest})");
            return LIBCUPTI.case(2, what).with(details);
        }
        if installed.is_empty() && driver.is_some() {
            return LIBCUPTI.case(0, count);
        }
        let why = match &tried {
            Err(why) => why.clone(),
            Ok(trial) => match (trial.said.cuda, &trial.said.cuda_absent) {
                (Some(0), _) => "CUDA started, and the collector was not notified".to_owned(),
                (Some(code), _) => format!("CUDA did not start in the child (cuInit gave {code})"),
                (None, Some(why)) => {
                    let why = why.trim_start_matches("OSError: ");
                    format!("the test process found no CUDA driver ({why})")
                }
                (None, None) => "the child did not start CUDA".to_owned(),
            },
        };
        return LIBCUPTI.not_checked(format!("{why}; {count}")).with(details);
    };
    let version = noted("cupti.version").unwrap_or("unknown");
    let simulated = if noted("cupti.simulated").is_some() { " (simulated)" } else { "" };
    let api = noted("cupti.api").map(|api| format!(", activity API {api}")).unwrap_or_default();
    let reason = tried.as_ref().map_or("", |trial| why(trial, asked));
    let details = candidate_lines(installed, Some((Path::new(path), reason)), driver);
    let advice = long_runs(version, driver);
    let what = format!("CUPTI {version} at {path}{simulated}{api}; {count}{advice}");
    let used = Candidate::new(How::AlreadyLoaded, path.into()).cuda_major;
    match used.zip(torch_cuda.and_then(major)) {
        Some((used, torch)) if used != torch => {
            LIBCUPTI.case(3, format!("{what}; torch is of CUDA {torch}")).with(details)
        }
        _ => LIBCUPTI.ok(what).with(details),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstalledCupti {
    pub(super) path: PathBuf,
    pub(super) how: How,
    /// CUDA major version, from the file's name.
    pub(super) cuda_major: Option<u32>,
    /// As its wheel or its file's name states.
    pub(super) version: Option<String>,
}

/// The files that the collector would try in a process of `interpreter`, best first.
pub(super) fn installed(
    system: &System,
    interpreter: Option<&Path>,
    driver_major: Option<u32>,
) -> Vec<InstalledCupti> {
    let folder = |name: &str| system.variable(name).map(PathBuf::from);
    let surroundings = Surroundings {
        executable: interpreter.and_then(|path| path.canonicalize().ok()),
        called_as: interpreter.map(Path::to_owned),
        virtual_env: folder("VIRTUAL_ENV"),
        conda_prefix: folder("CONDA_PREFIX"),
        home: folder("HOME"),
        cuda_home: folder("CUDA_HOME"),
        cuda_path: folder("CUDA_PATH"),
        mapped: Vec::new(),
    };
    let known = |path: &Path| {
        version_of(path, &list).or_else(|| version_of(&path.canonicalize().ok()?, &list))
    };
    let all = || places(&surroundings, driver_major, &list).candidates;
    let candidates = match folder(super::CUPTI) {
        Some(word) if word == Path::new(NEWEST) => newest_first(all(), driver_major, known),
        // What the user names is used or fails; nothing else is tried.
        Some(path) => vec![Candidate::new(How::Explicit, path)],
        None => all(),
    };
    let mut found: Vec<InstalledCupti> = Vec::new();
    for Candidate { how, path, cuda_major } in candidates {
        let path = if how == How::System { by_linker(system, &path) } else { Some(path) };
        let Some(path) = path else { continue };
        let Ok(real) = path.canonicalize() else { continue };
        if found.iter().any(|known| known.path.canonicalize().is_ok_and(|known| known == real)) {
            continue;
        }
        let version = known(&path).map(|version| version.to_string()).or_else(|| of_name(&real));
        found.push(InstalledCupti { path, how, cuda_major, version });
    }
    found
}

/// Where the dynamic linker finds a bare name, as far as its usual folders tell.
fn by_linker(system: &System, name: &Path) -> Option<PathBuf> {
    let named = system.variable("LD_LIBRARY_PATH").unwrap_or_default();
    let usual =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let folders = std::env::split_paths(named).chain(usual.map(|folder| system.path(folder)));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// `2025.3.1` of the toolkit's `libcupti.so.2025.3.1`.
fn of_name(path: &Path) -> Option<String> {
    let (_, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    version.contains('.').then(|| version.to_owned())
}

/// What kernel records cost with a CUPTI, where a page of the documentation has it.
const MEASURED: &[(u32, u32, &str)] = &[
    (
        13,
        5,
        "kernel records add 996 ns to a launch and 370 ns to a node of a graph by the first \
         activity API, 715 and 360 ns by the second with the collector's fields (H200; \
         docs/cupti-findings.md)",
    ),
    (
        13,
        0,
        "eager decode takes 1.16 times as long as untraced, graph replay 1.06 times (H200; \
         docs/performance.md)",
    ),
    (12, 4, "graph replay is 0.1-0.2 % faster than with 13.0 (H200; docs/performance.md)"),
];

/// Which activity APIs a version has; by its wheel's or its toolkit's count.
fn apis(version: &str) -> Option<&'static str> {
    let version = Version::parse(version)?;
    Some(if version.has_second_api() { "both activity APIs" } else { "first activity API" })
}

/// The costs that were measured with any of these.
fn measured(installed: &[InstalledCupti]) -> Vec<String> {
    let has = |major: u32, minor: u32| {
        let versions =
            installed.iter().filter_map(|found| Version::parse(found.version.as_deref()?));
        versions.into_iter().any(|version| (version.major, version.minor) == (major, minor))
    };
    let known = MEASURED.iter().filter(|(major, minor, _)| has(*major, *minor));
    known
        .map(|(major, minor, cost)| format!("measured with CUPTI {major}.{minor}: {cost}"))
        .collect()
}

/// CUDA 13.4 update 1, as `cuptiGetVersion` counts.
const FIT_FOR_SERVERS: u32 = 130_401;

/// What to use instead of this version (as `cuptiGetVersion` counts) in a server that is recorded for long, if the
/// driver allows it; nothing where this one is fit for that, or not known.
fn long_runs(version: &str, driver_major: Option<u32>) -> &'static str {
    let old = version.parse().is_ok_and(|version: u32| version < FIT_FOR_SERVERS);
    if !old || driver_major.is_some_and(|major| major < 13) {
        return "";
    }
    "; for a server that is recorded for hours, use CUPTI 13.4 update 1 or later (`pip install \
     'nvidia-cuda-cupti>=13.4.92'`): in earlier versions, the CPU time of CUPTI grows with the length of a \
     recording, and kernels of reloaded modules keep old names (NVIDIA's release notes)"
}

/// Why the collector took the libcupti that it took, from what it noted of it in the trial.
fn why(trial: &Trial, asked: Option<&Path>) -> &'static str {
    match (trial.meta.get("cupti.found").map(String::as_str), asked == Some(Path::new(NEWEST))) {
        (Some("Explicit"), _) => "STAGE2_CUPTI names it",
        (Some("AlreadyLoaded"), false) => "in the process already",
        (Some("AlreadyLoaded"), true) => {
            "in the process already, and none that can be used is newer"
        }
        (Some(_), true) => "the newest that the driver allows, as STAGE2_CUPTI requests",
        (Some(_), false) if trial.meta.get("cupti.api").is_some_and(|api| api == "v2") => {
            "the newest that the driver allows, because it has the second activity API"
        }
        (Some(_), false) => "the first that fits the driver",
        (None, _) => "the collector gives no reason",
    }
}

/// The libcupti that `STAGE2_CUPTI=newest` would take instead of the one in use, if there is one.
fn newer<'a>(
    installed: &'a [InstalledCupti],
    used: &Path,
    driver_major: Option<u32>,
) -> Option<&'a InstalledCupti> {
    let version = |path: &Path| {
        let found = installed.iter().find(|found| found.path == path)?;
        Version::parse(found.version.as_deref()?)
    };
    let candidates = installed.iter().map(|found| Candidate::new(found.how, found.path.clone()));
    let first = newest_first(candidates.collect(), driver_major, version).into_iter().next()?;
    let is_same = |found: &&InstalledCupti| same(&found.path, used);
    let in_use = installed.iter().find(is_same).and_then(|found| version(&found.path))?;
    let is_newer = version(&first.path).is_some_and(|newest| newest > in_use);
    installed.iter().find(|found| is_newer && found.path == first.path)
}

/// Whether two paths lead to one file.
pub(super) fn same(one: &Path, other: &Path) -> bool {
    one == other
        || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;
    use crate::doctor::testing::Machine;

    fn trial(meta: &[(&str, &str)]) -> Trial {
        let meta = meta.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Trial { meta: meta.collect(), ..Trial::default() }
    }

    const PACKAGES: &str = "lib/python3.12/site-packages";

    /// A machine with these files in its Python packages.
    fn with_packages(files: &[&str]) -> Machine {
        let machine = Machine::new(&[]);
        files.iter().for_each(|file| machine.write(&format!("{PACKAGES}/{file}"), ""));
        machine
    }

    #[test]
    fn candidates_are_those_of_the_interpreter_with_versions() {
        let machine = with_packages(&[
            "nvidia/cuda_cupti/lib/libcupti.so.12",
            "nvidia_cuda_cupti_cu12-12.8.90.dist-info/METADATA",
        ]);
        let found = installed(&machine.system(&[]), Some(&machine.path("bin/python3")), Some(12));
        let first = found.first().expect("a candidate");
        let file = format!("{PACKAGES}/nvidia/cuda_cupti/lib/libcupti.so.12");
        assert_eq!(first.path, machine.path(&file));
        let told = candidate_line(first);
        assert!(told.ends_with("CUDA 12, version 12.8.90, first activity API"), "{told}");
        let newer = check(&found[..1], None, Ok(&trial(&[])), Some("11.8"), None);
        assert_eq!(newer.status, Status::Warning);
        let system = machine.system(&[("STAGE2_CUPTI", "/no/such/libcupti.so")]);
        assert_eq!(installed(&system, None, None), [], "the named one is the only one");
    }

    #[test]
    fn all_candidates_are_told_with_the_one_in_use_and_the_reason() {
        let machine = with_packages(&[
            "nvidia/cuda_cupti/lib/libcupti.so.12",
            "nvidia_cuda_cupti_cu12-12.8.90.dist-info/METADATA",
            "nvidia/cu13/lib/libcupti.so.13",
            "nvidia_cuda_cupti-13.5.25.dist-info/METADATA",
        ]);
        let python = machine.path("bin/python3");
        let of = |variables: &[(&str, &str)]| {
            installed(&machine.system(variables), Some(&python), Some(13))
        };
        let found = of(&[]);
        // Each file has the version of the wheel of its own CUDA.
        let versions = found.iter().filter_map(|each| each.version.as_deref());
        assert_eq!(versions.collect::<Vec<_>>(), ["13.5.25", "12.8.90"]);
        assert_eq!(of(&[("STAGE2_CUPTI", "newest")]), found);

        let old = machine.path(&format!("{PACKAGES}/nvidia/cuda_cupti/lib/libcupti.so.12"));
        let old = old.to_str().expect("UTF-8");
        let used = trial(&[("cupti.path", old), ("cupti.found", "AlreadyLoaded")]);
        let check = check(&found, None, Ok(&used), Some("13.0"), None);
        for part in [
            format!("in use, in the process already: Python packages: {old}").as_str(),
            "version 13.5.25, both activity APIs",
            "STAGE2_CUPTI=newest would use 13.5.25 at ",
            "measured with CUPTI 13.5: ",
        ] {
            assert!(check.details.iter().any(|line| line.contains(part)), "{part}: {check:?}");
        }
    }

    #[test]
    fn what_the_collector_found_decides() {
        let of = |meta: &[(&str, &str)], driver: Option<&str>, torch: Option<&str>| {
            check(&[], None, Ok(&trial(meta)), driver, torch)
        };
        let used = [("cupti.path", "/x/libcupti.so.12"), ("cupti.version", "26")];
        let ok = of(&used, Some("13.0"), Some("12.8"));
        assert_eq!(ok.status, Status::Ok, "{ok:?}");
        let second = of(&[used[0], used[1], ("cupti.api", "v2")], Some("13.0"), Some("12.8"));
        assert!(second.what.contains("libcupti.so.12, activity API v2; "), "{}", second.what);
        // CUDA 12.8: another one serves long recordings better, if the driver allows it.
        assert!(ok.what.contains("use CUPTI 13.4 update 1 or later"), "{}", ok.what);
        let old_driver = of(&used, Some("12.8"), None);
        let fit = of(&[used[0], ("cupti.version", "130401")], Some("13.0"), None);
        assert!([old_driver, fit].iter().all(|check| !check.what.contains("13.4")));
        let torch = of(&used, Some("13.0"), Some("13.0"));
        assert!(torch.fix.is_some_and(|fix| fix.contains("that torch brings")));
        let none = of(&[("gpu.off", "no libcupti found; tried ...")], None, None);
        assert!(none.fix.is_some_and(|fix| fix.contains("pip install")));
        let off = of(&[("gpu.off", "CUPTI error 39")], None, None);
        assert!(off.status == Status::Problem && off.what.contains("error 39"));
        let untold = check(&[], None, Err("no python3".into()), None, None);
        assert_eq!((untold.status, untold.is_bad()), (Status::NotChecked, false));
    }

    fn installed_file(path: &str, version: &str) -> InstalledCupti {
        InstalledCupti {
            path: path.into(),
            how: How::PythonPackages,
            cuda_major: None,
            version: Some(version.to_owned()),
        }
    }

    #[test]
    fn the_second_api_is_there_from_13_3_on() {
        assert_eq!(apis("13.3.75"), Some("both activity APIs"));
        assert_eq!(apis("13.2.86"), Some("first activity API"));
        assert_eq!(apis("2025.3.1"), None, "a toolkit's count by years tells nothing");
    }

    #[test]
    fn only_what_was_measured_has_a_cost() {
        let all = [
            installed_file("/a", "13.5.25"),
            installed_file("/b", "13.5.99"),
            installed_file("/c", "13.1.115"),
        ];
        let lines = measured(&all);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("measured with CUPTI 13.5: "), "{lines:?}");
        assert_eq!(measured(&all[2..]), [""; 0]);
    }

    #[test]
    fn the_reason_follows_from_what_the_collector_noted() {
        let newest = Some(Path::new("newest"));
        for (noted, asked, part) in [
            (&[("cupti.found", "Explicit")][..], Some(Path::new("/x")), "STAGE2_CUPTI names it"),
            (&[("cupti.found", "AlreadyLoaded")], None, "in the process already"),
            (&[("cupti.found", "AlreadyLoaded")], newest, "none that can be used is newer"),
            (&[("cupti.found", "Toolkit")], newest, "newest that the driver allows, as"),
            (&[("cupti.found", "Toolkit")], None, "the first that fits the driver"),
            (&[("cupti.found", "Toolkit"), ("cupti.api", "v2")], None, "the second activity API"),
            (&[], None, "gives no reason"),
        ] {
            let told = why(&trial(noted), asked);
            assert!(told.contains(part), "{noted:?} {asked:?}: {told}");
        }
        for (noted, whole) in [
            ("Explicit", "STAGE2_CUPTI names it"),
            ("AlreadyLoaded", "in the process already"),
            ("Toolkit", "the first that fits the driver"),
        ] {
            assert_eq!(why(&trial(&[("cupti.found", noted)]), None), whole);
        }
    }

    #[test]
    fn a_newer_one_is_offered_where_the_driver_allows_it() {
        let all = [
            installed_file("/old/libcupti.so.13", "13.0.85"),
            installed_file("/new/libcupti.so.13", "13.5.25"),
        ];
        let (old, new) = (Path::new("/old/libcupti.so.13"), Path::new("/new/libcupti.so.13"));
        assert_eq!(newer(&all, old, Some(13)), Some(&all[1]));
        assert_eq!(newer(&all, old, Some(12)), None);
        assert_eq!(newer(&all, new, Some(13)), None);
        // Its version is not known.
        assert_eq!(newer(&all, Path::new("/elsewhere"), Some(13)), None);
    }
}
