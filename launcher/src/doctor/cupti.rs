//! The places of libcupti and what the collector found in the trial -> which one a run uses.

use std::path::Path;

use cupti_sys::places::{Candidate, How};
use stage2_model::EmptyCause;

use super::check::{Check, Fix, Group, Known, Status};
use super::cupti_candidates::Installed;
use super::cupti_choice::{apis, long_runs, measured, newer, same, why};
use super::trial::Trial;

pub(super) const LIBCUPTI: Known = Known {
    id: "libcupti",
    group: Group::Collector,
    looks_at: "The libcupti that the collector opened in a child process that started CUDA, and all \
               others that it would try, best first, with their versions and activity APIs.",
    why: "CUPTI gives the kernel records. One that is newer than the driver does not start; one of \
          CUDA 11 beside a newer runtime would crash the workload, so the collector refuses it.",
    fixes: &[
        Fix {
            when: "there is no libcupti, or none that fits",
            status: Status::Problem,
            text: "install CUPTI where the workload runs: `pip install nvidia-cuda-cupti` (CUDA 13), \
                   `pip install nvidia-cuda-cupti-cu12` (CUDA 12), or the toolkit's package cuda-cupti; \
                   or set STAGE2_CUPTI to the path of a libcupti.so",
        },
        Fix {
            when: "the collector found a libcupti and cannot use it",
            status: Status::Problem,
            text: "do what the text says; STAGE2_CUPTI=PATH chooses another libcupti, and another profiler \
                   in the workload has to go",
        },
        Fix {
            when: "all candidates are of a newer CUDA than the driver",
            status: Status::Warning,
            text: "install a libcupti of the driver's CUDA version (`pip install \
                   nvidia-cuda-cupti-cu12` for CUDA 12) and name it in STAGE2_CUPTI, or update the \
                   driver",
        },
        Fix {
            when: "the libcupti in use and torch are of different CUDA major versions",
            status: Status::Warning,
            text: "set STAGE2_CUPTI to the libcupti that torch brings (the details list it)",
        },
    ],
    explains: &[EmptyCause::CuptiOff],
};

fn line(found: &Installed) -> String {
    let version = found.version.as_deref().map(|v| format!(", version {v}")).unwrap_or_default();
    let major = found.cuda_major.map(|v| format!(", CUDA {v}")).unwrap_or_default();
    let apis = found.version.as_deref().and_then(apis);
    let apis = apis.map(|apis| format!(", {apis}")).unwrap_or_default();
    format!("{}: {}{major}{version}{apis}", found.how, found.path.display())
}

/// All candidates, the one in use marked, then what is known of their cost. `used`: a path and why.
fn lines(installed: &[Installed], used: Option<(&Path, &str)>, driver: Option<u32>) -> Vec<String> {
    let is_used = |found: &Installed| used.is_some_and(|(path, _)| same(&found.path, path));
    let reason = used.map_or("", |(_, reason)| reason);
    let mut lines = Vec::new();
    if let Some((path, _)) = used.filter(|_| !installed.iter().any(is_used)) {
        lines.push(format!("in use, {reason}: {}", path.display()));
    }
    lines.extend(installed.iter().map(|found| match is_used(found) {
        true => format!("in use, {reason}: {}", line(found)),
        false => line(found),
    }));
    if let Some(newer) = used.and_then(|(path, _)| newer(installed, path, driver)) {
        let version = newer.version.as_deref().unwrap_or_default();
        lines.push(format!("STAGE2_CUPTI=newest would use {version} at {}", newer.path.display()));
    }
    lines.extend(measured(installed));
    lines
}

/// Judges what a run would use. `asked`: what STAGE2_CUPTI says. `tried`: the trial that is most like the
/// workload.
pub(super) fn check(
    installed: &[Installed],
    asked: Option<&Path>,
    tried: Result<&Trial, String>,
    driver_cuda: Option<&str>,
    torch_cuda: Option<&str>,
) -> Check {
    let major = |version: &str| version.split('.').next()?.parse::<u32>().ok();
    let driver = driver_cuda.and_then(major);
    let details = lines(installed, None, driver);
    let count = match installed.len() {
        0 => "no libcupti was found in the usual places".to_owned(),
        1 => "1 candidate".to_owned(),
        many => format!("{many} candidates"),
    };
    let facts = tried.as_ref().ok().map(|trial| &trial.facts);
    let fact = |key: &str| facts.and_then(|facts| facts.get(key)).map(String::as_str);
    if let Some(why) = fact("gpu.off") {
        let case = usize::from(!why.contains("no libcupti found"));
        return LIBCUPTI
            .case(case, format!("the collector cannot record the GPU: {why}"))
            .with(details);
    }
    let newer =
        |found: &Installed| found.cuda_major.zip(driver).is_some_and(|(own, newest)| own > newest);
    let Some(path) = fact("cupti.path") else {
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
                (Some(0), _) => "CUDA started, and the collector was not told".to_owned(),
                (Some(code), _) => format!("CUDA did not start in the child (cuInit gave {code})"),
                (None, Some(why)) => format!("no CUDA driver in the child ({why})"),
                (None, None) => "the child did not start CUDA".to_owned(),
            },
        };
        return LIBCUPTI.not_checked(format!("{why}; {count}")).with(details);
    };
    let version = fact("cupti.version").unwrap_or("unknown");
    let simulated = if fact("cupti.simulated").is_some() { " (simulated)" } else { "" };
    let api = fact("cupti.api").map(|api| format!(", activity API {api}")).unwrap_or_default();
    let reason = tried.as_ref().map_or("", |trial| why(trial, asked));
    let details = lines(installed, Some((Path::new(path), reason)), driver);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::cupti_candidates::installed;
    use crate::doctor::system::System;

    fn trial(facts: &[(&str, &str)]) -> Trial {
        let facts = facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Trial { facts: facts.collect(), ..Trial::default() }
    }

    #[test]
    fn candidates_are_those_of_the_interpreter_with_versions() {
        let dir = tempfile::tempdir().expect("folder");
        let packages = dir.path().join("lib/python3.12/site-packages");
        let file = packages.join("nvidia/cuda_cupti/lib/libcupti.so.12");
        std::fs::create_dir_all(file.parent().expect("parent")).expect("folder");
        std::fs::write(&file, "").expect("file");
        std::fs::create_dir_all(packages.join("nvidia_cuda_cupti_cu12-12.8.90.dist-info"))
            .expect("folder");
        let system = System::at(dir.path(), &[]);
        let found = installed(&system, Some(&dir.path().join("bin/python3")), Some(12));
        let first = found.first().expect("a candidate");
        assert_eq!(first.path, file);
        let told = line(first);
        assert!(told.ends_with("CUDA 12, version 12.8.90, first activity API"), "{told}");
        let newer = check(&found[..1], None, Ok(&trial(&[])), Some("11.8"), None);
        assert_eq!(newer.status, Status::Warning);
        let system = System::at(dir.path(), &[("STAGE2_CUPTI", "/no/such/libcupti.so")]);
        assert_eq!(installed(&system, None, None), [], "the named one is the only one");
    }

    #[test]
    fn all_candidates_are_told_with_the_one_in_use_and_the_reason() {
        let dir = tempfile::tempdir().expect("folder");
        let packages = dir.path().join("lib/python3.12/site-packages");
        for (file, wheel) in [
            ("nvidia/cuda_cupti/lib/libcupti.so.12", "nvidia_cuda_cupti_cu12-12.8.90.dist-info"),
            ("nvidia/cu13/lib/libcupti.so.13", "nvidia_cuda_cupti-13.5.25.dist-info"),
        ] {
            let file = packages.join(file);
            std::fs::create_dir_all(file.parent().expect("parent")).expect("folder");
            std::fs::write(&file, "").expect("file");
            std::fs::create_dir_all(packages.join(wheel)).expect("folder");
        }
        let python = dir.path().join("bin/python3");
        let of = |variables: &[(&str, &str)]| {
            installed(&System::at(dir.path(), variables), Some(&python), Some(13))
        };
        let found = of(&[]);
        // Each file has the version of the wheel of its own CUDA.
        let versions = found.iter().filter_map(|each| each.version.as_deref());
        assert_eq!(versions.collect::<Vec<_>>(), ["13.5.25", "12.8.90"]);
        assert_eq!(of(&[("STAGE2_CUPTI", "newest")]), found);

        let old = packages.join("nvidia/cuda_cupti/lib/libcupti.so.12");
        let old = old.to_str().expect("UTF-8");
        let used = trial(&[("cupti.path", old), ("cupti.found", "AlreadyLoaded")]);
        let check = check(&found, None, Ok(&used), Some("13.0"), None);
        let has = |part: &str| check.details.iter().any(|line| line.contains(part));
        assert!(
            has(&format!("in use, in the process already: Python packages: {old}")),
            "{check:?}"
        );
        assert!(has("version 13.5.25, both activity APIs"), "{check:?}");
        assert!(has("STAGE2_CUPTI=newest would use 13.5.25 at "), "{check:?}");
        assert!(has("measured with CUPTI 13.5: "), "{check:?}");
    }

    #[test]
    fn what_the_collector_found_decides() {
        let used = [("cupti.path", "/x/libcupti.so.12"), ("cupti.version", "26")];
        let ok = check(&[], None, Ok(&trial(&used)), Some("13.0"), Some("12.8"));
        assert_eq!(ok.status, Status::Ok, "{ok:?}");
        let second = [used[0], used[1], ("cupti.api", "v2")];
        let second = check(&[], None, Ok(&trial(&second)), Some("13.0"), Some("12.8"));
        assert!(second.what.contains("libcupti.so.12, activity API v2; "), "{}", second.what);
        // CUDA 12.8: another one serves long recordings better, if the driver allows it.
        assert!(ok.what.contains("take CUPTI 13.4 update 1 or later"), "{}", ok.what);
        let old_driver = check(&[], None, Ok(&trial(&used)), Some("12.8"), None);
        let fit = [used[0], ("cupti.version", "130401")];
        let fit = check(&[], None, Ok(&trial(&fit)), Some("13.0"), None);
        assert!([old_driver, fit].iter().all(|check| !check.what.contains("13.4")));
        let torch = check(&[], None, Ok(&trial(&used)), Some("13.0"), Some("13.0"));
        assert!(torch.fix.is_some_and(|fix| fix.contains("that torch brings")));
        let none = trial(&[("gpu.off", "no libcupti found; tried ...")]);
        assert!(
            check(&[], None, Ok(&none), None, None)
                .fix
                .is_some_and(|fix| fix.contains("pip install"))
        );
        let off = trial(&[("gpu.off", "CUPTI error 39")]);
        let off = check(&[], None, Ok(&off), None, None);
        assert!(off.status == Status::Problem && off.what.contains("error 39"));
        let untold = check(&[], None, Err("no python3".into()), None, None);
        assert_eq!((untold.status, untold.is_bad()), (Status::NotChecked, false));
    }
}
