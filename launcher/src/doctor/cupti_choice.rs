//! A libcupti and its version -> which activity APIs it has, why it is used, and what it costs as far as
//! that was measured.

use std::path::Path;

use cupti_sys::places::{Candidate, NEWEST, Version, newest_first};

use super::cupti_candidates::Installed;
use super::trial::Trial;

/// What kernel records cost with a CUPTI, where a page of the documentation has it.
const MEASURED: &[(u32, u32, &str)] = &[
    (
        13,
        5,
        "kernel records add 996 ns to a launch and 370 ns to a node of a graph by the first activity API, \
         715 and 360 ns by the second with the collector's fields (H200; docs/cupti-findings.md)",
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
pub(super) fn apis(version: &str) -> Option<&'static str> {
    let version = Version::parse(version)?;
    Some(if version.has_second_api() { "both activity APIs" } else { "first activity API" })
}

/// The costs that were measured with any of these.
pub(super) fn measured(installed: &[Installed]) -> Vec<String> {
    let has = |major: u32, minor: u32| {
        let mut versions = installed.iter().filter_map(|found| found.version.as_deref());
        versions
            .any(|text| Version::parse(text).is_some_and(|v| (v.major, v.minor) == (major, minor)))
    };
    let known = MEASURED.iter().filter(|(major, minor, _)| has(*major, *minor));
    known
        .map(|(major, minor, cost)| format!("measured with CUPTI {major}.{minor}: {cost}"))
        .collect()
}

/// CUDA 13.4 update 1, as `cuptiGetVersion` counts.
const FIT_FOR_SERVERS: u32 = 130_401;

/// What to use instead of this version (as `cuptiGetVersion` counts) in a server that is recorded for long;
/// nothing where it is fit for that, is not known, or the driver allows none that is.
pub(super) fn long_runs(version: &str, driver_major: Option<u32>) -> &'static str {
    let old = version.parse().is_ok_and(|version: u32| version < FIT_FOR_SERVERS);
    if !old || driver_major.is_some_and(|major| major < 13) {
        return "";
    }
    "; for a server that is recorded for hours take CUPTI 13.4 update 1 or later (`pip install \
     'nvidia-cuda-cupti>=13.4.92'`): before it the CPU time of CUPTI grows with the length of a recording, \
     and kernels of modules that were loaded anew keep old names (NVIDIA's release notes)"
}

/// Why the collector took the libcupti that it took, from what it noted of it in the trial.
pub(super) fn why(trial: &Trial, asked: Option<&Path>) -> &'static str {
    let wants_newest = asked == Some(Path::new(NEWEST));
    match (trial.facts.get("cupti.found").map(String::as_str), wants_newest) {
        (Some("Explicit"), _) => "STAGE2_CUPTI names it",
        (Some("AlreadyLoaded"), false) => "in the process already",
        (Some("AlreadyLoaded"), true) => {
            "in the process already, and none that can be used is newer"
        }
        (Some(_), true) => "the newest that the driver allows, as STAGE2_CUPTI says",
        (Some(_), false) if trial.facts.get("cupti.api").is_some_and(|api| api == "v2") => {
            "the newest that the driver allows, because it has the second activity API"
        }
        (Some(_), false) => "the first that fits the driver",
        (None, _) => "the collector does not say why",
    }
}

/// The libcupti that `STAGE2_CUPTI=newest` would take instead of the one in use, if there is one.
pub(super) fn newer<'a>(
    installed: &'a [Installed],
    used: &Path,
    driver_major: Option<u32>,
) -> Option<&'a Installed> {
    let version = |path: &Path| {
        let found = installed.iter().find(|found| found.path == path)?;
        Version::parse(found.version.as_deref()?)
    };
    let candidates = installed.iter().map(|found| Candidate::new(found.how, found.path.clone()));
    let first = newest_first(candidates.collect(), driver_major, version).into_iter().next()?;
    let is_same = |found: &&Installed| same(&found.path, used);
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
    use cupti_sys::places::How;

    fn installed(path: &str, version: &str) -> Installed {
        Installed {
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
        let all =
            [installed("/a", "13.5.25"), installed("/b", "13.5.99"), installed("/c", "13.1.115")];
        let lines = measured(&all);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("measured with CUPTI 13.5: "), "{lines:?}");
        assert_eq!(measured(&all[2..]), [""; 0]);
    }

    #[test]
    fn the_reason_follows_from_what_the_collector_noted() {
        let trial = |how: &str| Trial {
            facts: [("cupti.found".to_owned(), how.to_owned())].into(),
            ..Trial::default()
        };
        let newest = Some(Path::new("newest"));
        assert_eq!(why(&trial("Explicit"), Some(Path::new("/x"))), "STAGE2_CUPTI names it");
        assert_eq!(why(&trial("AlreadyLoaded"), None), "in the process already");
        assert!(why(&trial("AlreadyLoaded"), newest).contains("none that can be used is newer"));
        assert!(why(&trial("Toolkit"), newest).contains("newest that the driver allows"));
        assert_eq!(why(&trial("Toolkit"), None), "the first that fits the driver");
        let mut second = trial("Toolkit");
        second.facts.insert("cupti.api".to_owned(), "v2".to_owned());
        assert!(why(&second, None).contains("because it has the second activity API"));
        assert!(why(&Trial::default(), None).contains("does not say"));
    }

    #[test]
    fn a_newer_one_is_offered_where_the_driver_allows_it() {
        let all = [
            installed("/old/libcupti.so.13", "13.0.85"),
            installed("/new/libcupti.so.13", "13.5.25"),
        ];
        let (old, new) = (Path::new("/old/libcupti.so.13"), Path::new("/new/libcupti.so.13"));
        assert_eq!(newer(&all, old, Some(13)), Some(&all[1]));
        assert_eq!(newer(&all, old, Some(12)), None);
        assert_eq!(newer(&all, new, Some(13)), None);
        assert_eq!(
            newer(&all, Path::new("/elsewhere"), Some(13)),
            None,
            "its version is not known"
        );
    }
}
