//! Ranges of the collector, and an nsys capture without any -> which versions do not fit.

use stage2_model::{Finding, PathKind, Report};
use stage2_read::nsys::Tables;

/// Ranges that are named.
const SHOWN: usize = 4;
/// The first version of the Python package nvtx whose ranges nsys 2023.4 was seen to miss.
const NEW_NVTX: [u64; 3] = [0, 2, 12];
/// The newest nsys that was seen to miss them.
const MISSES_NEW_NVTX: [u64; 2] = [2023, 4];

/// What to tell where nsys was told to record NVTX and has no range, though the collector saw some.
/// What was recorded decides; versions only say why. `gated`: the configuration captures a part of the
/// run, in which no range need have been opened.
pub(super) fn finding(
    report: &Report,
    tables: &Tables,
    nvtx_package: Option<&str>,
    gated: bool,
) -> Option<Finding> {
    let traced = &tables.traced;
    let asked = traced.nvtx == Some(true) && !traced.domains_chosen && !traced.gated && !gated;
    if !asked || !tables.complete || !tables.ranges.is_empty() || tables.counts.nvtx_ranges > 0 {
        return None;
    }
    let outermost = |kind: PathKind, depth: u64| kind == PathKind::Range && depth == 0;
    let seen: Vec<&str> = report
        .paths
        .iter()
        .filter(|row| outermost(row.kind, row.depth) && row.instances.is_some_and(|n| n > 0))
        .map(|row| row.path.as_str())
        .collect();
    let names = seen.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let more = match seen.len() {
        0 => return None,
        all if all > SHOWN => format!(" and {} more", all - SHOWN),
        _ => String::new(),
    };
    let nsys = tables.tool_version.as_deref();
    let (why, remedy) = reason(nsys, nvtx_package, driver(report).as_deref());
    Some(Finding::warning(
        format!("nsys recorded no NVTX range, and the collector saw some: {names}{more}"),
        why,
        remedy,
    ))
}

/// Why, as far as versions tell, and what helps.
fn reason(nsys: Option<&str>, nvtx: Option<&str>, driver: Option<&str>) -> (String, String) {
    let shown = nsys.map_or_else(|| "this nsys".to_owned(), |version| format!("nsys {version}"));
    let is_old = nsys.is_some_and(|version| numbers(version) <= after(&MISSES_NEW_NVTX));
    match nvtx {
        Some(package) if is_old && numbers(package) >= NEW_NVTX => (
            format!(
                "if the workload marks its ranges with the Python package nvtx ({package}): {shown} \
                 is no newer than 2023.4, which sees none of them from 0.2.12 on"
            ),
            "use a newer nsys (pipeline.nsys.executable), or `pip install 'nvtx<0.2.12'`"
                .to_owned(),
        ),
        _ => {
            let others: Vec<String> = driver
                .map(|driver| format!("the driver {driver}"))
                .into_iter()
                .chain(nvtx.map(|package| format!("the Python package nvtx {package}")))
                .collect();
            let others = match others.join(" and ") {
                none if none.is_empty() => "the workload's NVTX".to_owned(),
                others => others,
            };
            (
                format!(
                    "{shown} may be older than it has to be for {others}, or something else has \
                     the place of its NVTX library (NVTX_INJECTION64_PATH)"
                ),
                "use an nsys at least as new as the driver and the workload's CUDA libraries \
                 (pipeline.nsys.executable); nsys/log.txt may say more"
                    .to_owned(),
            )
        }
    }
}

/// Adds the versions to a finding about lost records that tells to use a newer nsys.
pub(crate) fn with_versions(finding: Finding, report: &Report, tables: &Tables) -> Finding {
    match (&tables.tool_version, driver(report)) {
        (Some(nsys), Some(driver)) if finding.remedy.contains("as new as the driver") => {
            let why = format!("{}; this is nsys {nsys}, and the driver is {driver}", finding.why);
            Finding { why, ..finding }
        }
        _ => finding,
    }
}

/// Version of the driver, and the CUDA version that it is for.
fn driver(report: &Report) -> Option<String> {
    let fact = |key: &str| report.run.environment.iter().find(|fact| fact.key == key);
    let driver = fact("gpu.driver")?;
    let cuda = fact("gpu.cuda_driver").map(|cuda| format!(" (CUDA {})", cuda.value));
    Some(format!("{}{}", driver.value, cuda.unwrap_or_default()))
}

/// The numbers at the start of a version; what is no number counts as 0.
fn numbers(version: &str) -> [u64; 3] {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// Every update of a release.
fn after([year, release]: &[u64; 2]) -> [u64; 3] {
    [*year, *release, u64::MAX]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::join;
    use stage2_model::{Fact, PathRow, RunInfo};
    use stage2_read::nsys::Traced;
    use stage2_read::trace::Capture;

    fn report() -> Report {
        let fact = |key: &str, value: &str| Fact { key: key.into(), value: value.into() };
        let environment = vec![fact("gpu.driver", "580.159.03"), fact("gpu.cuda_driver", "13.0")];
        let run = RunInfo { environment, ..RunInfo::default() };
        let mut report = join(Capture::default(), run, Vec::new());
        report.paths = ["decode", "prefill"].map(range).to_vec();
        report
    }

    fn range(name: &str) -> PathRow {
        serde_json::from_value(serde_json::json!({
            "path": name, "name": name, "domain": null, "kind": "range", "parent": null,
            "depth": 0, "instances": 3, "unclosed": 0, "host_total_ns": 1, "host_first_ns": 1,
            "host_warm_median_ns": 1, "kernels_inclusive": 1, "kernels_exclusive": 1,
            "kernel_sum_inclusive_ns": 1, "kernel_sum_exclusive_ns": 1,
        }))
        .expect("a row")
    }

    /// Of a capture of the whole run.
    fn finding(report: &Report, tables: &Tables, package: Option<&str>) -> Option<Finding> {
        super::finding(report, tables, package, false)
    }

    fn empty(version: &str) -> Tables {
        let traced = Traced { cuda: Some(true), nvtx: Some(true), ..Traced::default() };
        Tables { tool_version: Some(version.into()), traced, complete: true, ..Tables::default() }
    }

    #[test]
    fn an_old_nsys_and_a_new_package_are_named_with_the_remedy() {
        let found = finding(&report(), &empty("2023.4.4.54"), Some("0.2.17")).expect("a finding");
        assert!(found.what.contains("decode, prefill"), "{found}");
        assert!(found.why.contains("nsys 2023.4.4.54") && found.why.contains("nvtx (0.2.17)"));
        assert!(found.why.starts_with("if the workload marks"), "it is only installed: {found}");
        assert!(found.remedy.contains("'nvtx<0.2.12'"), "{found}");
    }

    #[test]
    fn otherwise_the_driver_is_named_and_nothing_is_blamed_on_the_package() {
        let mut unknown = empty("");
        unknown.tool_version = None;
        let found = finding(&report(), &unknown, Some("0.2.17")).expect("a finding");
        assert!(!found.remedy.contains("pip install"), "no version is known to be old: {found}");
        for (nsys, package) in [("2023.4.4.54", Some("0.2.11")), ("2025.5.1", Some("0.2.17"))] {
            let found = finding(&report(), &empty(nsys), package).expect("a finding");
            assert!(found.why.contains(nsys) && found.why.contains("580.159.03 (CUDA 13.0)"));
            assert!(!found.remedy.contains("pip install"), "{found}");
        }
    }

    #[test]
    fn what_was_recorded_decides() {
        let old = || empty("2023.4.4.54");
        let new = Some("0.2.17");
        assert_eq!(finding(&report(), &Tables { complete: false, ..old() }, new), None);
        let mut tables = old();
        tables.counts.nvtx_ranges = 1;
        assert_eq!(finding(&report(), &tables, new), None, "there are ranges");
        for traced in [
            Traced::default(),
            Traced { nvtx: Some(false), ..old().traced },
            Traced { domains_chosen: true, ..old().traced },
            Traced { gated: true, ..old().traced },
        ] {
            assert_eq!(finding(&report(), &Tables { traced, ..old() }, new), None);
        }
        assert_eq!(super::finding(&report(), &old(), new, true), None, "a part of the run");
        let mut none = report();
        none.paths.clear();
        assert_eq!(finding(&none, &old(), new), None, "the collector saw none either");
    }

    #[test]
    fn lost_records_name_both_versions() {
        let lost = Finding::warning("lost", "why", "use an nsys as new as the driver");
        let found = with_versions(lost.clone(), &report(), &empty("2023.4.4"));
        assert!(found.why.contains("nsys 2023.4.4, and the driver is 580.159.03"), "{found}");
        assert_eq!(with_versions(lost.clone(), &report(), &Tables::default()), lost);
    }
}
