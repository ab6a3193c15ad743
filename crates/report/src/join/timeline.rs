//! The counts of nsys -> against the collector's, for the run and for each stage that both saw.

use std::collections::{BTreeMap, HashMap};

use crate::join::without_collector::{file_names, label};
use stage2_contract::order::Order as _;
use stage2_contract::stats;
use stage2_contract::text::numbers::{count, ms3, percent1};
use stage2_contract::text::{listed, visible};
use stage2_model::finding::Id;
use stage2_model::{
    Belief, Finding, KernelSides, NsysCapture, NsysRangeRow, NsysSection, Origin, PathKind,
    PathRow, Reconciliation, Report, Sides,
};
use stage2_read::nsys::{Range, Tables, Total};

/// Compares each capture and notes the result; a capture that lost kernels becomes a finding, and
/// none of its numbers goes anywhere else. Where the rows are those of nsys or ncu there is nothing
/// to compare with. `gated`: the configuration lets nsys capture a part of the run.
pub(crate) fn compare(
    report: &mut Report,
    captures: &[Tables],
    nvtx_package: Option<&str>,
    gated: bool,
) {
    if captures.is_empty() {
        return;
    }
    let mut section = NsysSection::default();
    let comparable = report.source == Origin::Collector.label();
    let used = captures.iter().position(|tables| !tables.kernels.is_empty());
    for (at, tables) in captures.iter().enumerate() {
        let files = file_names(tables);
        if comparable {
            let several = captures.len() > 1;
            let of = if several { format!(" ({})", files.join(", ")) } else { String::new() };
            if tables.traced.cuda != Some(false) {
                let new = reconcile_one(report, tables, &of, gated);
                let lost = new.iter().filter_map(Reconciliation::finding);
                let lost: Vec<_> = lost.map(|f| with_versions(f, report, tables)).collect();
                report.findings.extend(lost);
                section.reconciliations.extend(new);
            }
            report.findings.extend(unseen_ranges(report, tables, nvtx_package, gated));
        }
        report.findings.extend(tables.findings.iter().cloned());
        report.findings.extend(tables.said.iter().map(|text| {
            Id::NsysSays.about(files.join(", ")).found(
                format!("nsys says about {}: {text}", files.join(", ")),
                "",
                "",
            )
        }));
        section.captures.push(NsysCapture {
            files,
            kind: tables.source,
            tool_version: tables.tool_version.clone(),
            counts: tables.counts,
            complete: tables.complete,
            nameless_calls: tables.nameless_calls(),
            said: tables.said.clone(),
            gives_rows: report.source == Origin::Nsys.label() && used == Some(at),
        });
    }
    // Of several captures the first is the one to prefer.
    section.ranges = captures.iter().take(1).flat_map(|one| &one.ranges).map(host_times).collect();
    section.tool_version = section.captures.iter().find_map(|one| one.tool_version.clone());
    report.nsys = Some(section);
}

/// `of` states which capture it is, where there are several.
fn reconcile_one(report: &Report, tables: &Tables, of: &str, gated: bool) -> Vec<Reconciliation> {
    let outermost = report.paths.iter().filter(|row| row.parent.is_none());
    let ranges: HashMap<&str, &PathRow> = outermost.map(|row| (row.path.as_str(), row)).collect();
    let compare = |scope: &str, stage: Option<&str>, nsys: &[Total<'_>], instances| {
        let ours = totals(report, stage);
        let ours: Vec<Total<'_>> = ours
            .iter()
            .map(|(name, &(calls, total_ns))| Total { mangled: name, calls, total_ns })
            .collect();
        reconcile(&Comparison {
            scope: &format!("{scope}{of}"),
            collector: &ours,
            nsys,
            instances,
            graph_launches: tables.counts.graph_launches,
        })
    };
    let mut found = Vec::new();
    for stage in report.stages.iter().filter(|stage| stage.kernels.is_some()) {
        let label = &stage.stage;
        // Name and domain as the collector saw them: a label alone does not tell which is which.
        let range = ranges.get(label.as_str());
        let name = range.map_or(label, |range| &range.name);
        // Some tables know no domains.
        let domains = [range.and_then(|range| range.domain.as_deref()), None];
        let known = domains.iter().find_map(|of| Some((*of, tables.totals_in(name, *of)?)));
        if let Some((domain, nsys)) = known {
            let seen = stage.instances.zip(tables.instances(name, domain));
            found.push(compare(&format!("the stage {label}"), Some(label), &nsys, seen));
        }
    }
    // A gated capture holds a part of the run by design: then only its stages can be compared.
    let in_part = report.coverage.ranges().is_some() || gated || tables.traced.gated;
    if !in_part && (found.is_empty() || tables.ranges.len() >= report.stages.len()) {
        found.push(compare("the whole run", None, &tables.totals(), None));
    }
    found
}

fn host_times(range: &Range) -> NsysRangeRow {
    NsysRangeRow {
        range: label(range),
        instances: range.instances,
        host_total_ns: range.host_total_ns,
        host_warm_instances: range.host_warm_instances,
        host_warm_std_ns: range.host_warm_std_ns,
        host_warm_median_ns: range.host_warm_median_ns,
    }
}

/// Calls and time of each kernel of the collector's, by mangled name.
fn totals(report: &Report, stage: Option<&str>) -> BTreeMap<String, (u64, u64)> {
    let mut totals: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in report.kernels.iter().filter(|row| stage.is_none_or(|stage| row.stage == stage)) {
        let name = report.kernel_names.get(row.name_index).map_or("", |name| name.mangled.as_str());
        let sum = totals.entry(name.to_owned()).or_default();
        sum.0 = sum.0.saturating_add(row.times.calls);
        sum.1 = sum.1.saturating_add(row.times.total_ns);
    }
    totals
}

// nsys can lose nine kernels in ten without a mark in its tables. The two tools see two runs of one
// workload, so counts have to agree and times have to be alike; what does not is shown kernel by
// kernel, and a capture that lost records is kept out of every other table.

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison<'a> {
    /// What both sides are about, for people: `the whole run`, `the stage decode`.
    pub scope: &'a str,
    /// Kernels as the collector counted them.
    pub collector: &'a [Total<'a>],
    /// Kernels as nsys counted them.
    pub nsys: &'a [Total<'a>],
    /// How often the collector saw the stage, and how often nsys did: a gated capture holds its
    /// first instance only. None: both sides cover the same.
    pub instances: Option<(u64, u64)>,
    /// CUDA graphs that nsys recorded as a whole: their kernels are missing from its side by design.
    pub graph_launches: u64,
}

/// How far the numbers of kernels may be apart, percent of the collector's.
const CALLS_PERCENT: f64 = 1.0;
/// How far the sums of the kernels' durations may be apart, percent of the collector's. Two runs on
/// one GPU differ by its clocks.
const TIME_PERCENT: f64 = 15.0;

/// Compares both sides.
pub fn reconcile(comparison: &Comparison<'_>) -> Reconciliation {
    let scaled = comparison.instances.filter(|(ours, theirs)| ours != theirs && *ours > 0);
    let mut by_name: BTreeMap<String, Sides> = BTreeMap::new();
    let name = |total: &Total<'_>| visible(total.mangled.as_bytes());
    for total in comparison.collector {
        let (collector_calls, collector_ns) = (total.calls, total.total_ns);
        let ours = Sides { collector_calls, collector_ns, ..Sides::default() };
        by_name.entry(name(total)).or_default().add(&ours);
    }
    if let Some((ours, theirs)) = scaled {
        for sides in by_name.values_mut() {
            for value in [&mut sides.collector_calls, &mut sides.collector_ns] {
                *value = stats::scaled(*value, theirs, ours).unwrap_or(u64::MAX);
            }
        }
    }
    for total in comparison.nsys {
        let (nsys_calls, nsys_ns) = (total.calls, total.total_ns);
        let theirs = Sides { nsys_calls, nsys_ns, ..Sides::default() };
        by_name.entry(name(total)).or_default().add(&theirs);
    }
    let mut overall = Sides::default();
    by_name.values().for_each(|sides| overall.add(sides));
    let only = |here: fn(&Sides) -> u64, there: fn(&Sides) -> u64| {
        by_name.values().filter(|sides| here(sides) > 0 && there(sides) == 0).count() as u64
    };
    let missing_in_nsys = only(|s| s.collector_calls, |s| s.nsys_calls);
    let missing_in_collector = only(|s| s.nsys_calls, |s| s.collector_calls);
    let exact = by_name.values().all(|sides| sides.collector_calls == sides.nsys_calls);
    let belief = belief(comparison, &overall, exact);
    let mut kernels: Vec<KernelSides> =
        by_name.into_iter().map(|(mangled, sides)| KernelSides { mangled, sides }).collect();
    kernels.order_by_key(|k| {
        let apart = (k.sides.calls_difference().abs(), k.sides.ns_difference().abs());
        (std::cmp::Reverse(apart), k.mangled.clone())
    });
    Reconciliation {
        scope: comparison.scope.to_owned(),
        belief,
        scaled,
        overall,
        kernels,
        missing_in_nsys,
        missing_in_collector,
        text: text(comparison, belief, &overall, scaled),
    }
}

fn belief(comparison: &Comparison<'_>, overall: &Sides, exact: bool) -> Belief {
    let within = |percent: Option<f64>, bound: f64| percent.is_some_and(|p| p.abs() <= bound);
    if overall.collector_calls == 0 || comparison.instances.is_some_and(|(_, theirs)| theirs == 0) {
        return Belief::NotComparable;
    }
    if overall.calls_percent().is_some_and(|percent| percent < -CALLS_PERCENT) {
        // Kernels inside of graphs are not lost, they were not asked for.
        let by_design = comparison.graph_launches > 0;
        return if by_design { Belief::NotComparable } else { Belief::Lossy };
    }
    // Times of next to nothing may differ by any share.
    let times = overall.collector_ns == 0 || within(overall.ns_percent(), TIME_PERCENT);
    match (within(overall.calls_percent(), CALLS_PERCENT) && times, exact) {
        (true, true) => Belief::Agrees,
        (true, false) => Belief::WithinBounds,
        (false, _) => Belief::Differs,
    }
}

fn text(
    comparison: &Comparison<'_>,
    belief: Belief,
    overall: &Sides,
    scaled: Option<(u64, u64)>,
) -> String {
    let Sides { collector_calls, nsys_calls, collector_ns, nsys_ns } = *overall;
    let verdict = match belief {
        Belief::Agrees => "nsys agrees with the collector",
        Belief::WithinBounds => "nsys differs from the collector within bounds",
        Belief::Lossy => "nsys lost records, and its numbers are not reliable",
        Belief::Differs => "nsys differs from the collector, and its numbers are not used",
        Belief::NotComparable if collector_calls == 0 => {
            "nsys cannot be checked: the collector has no kernels"
        }
        Belief::NotComparable if comparison.graph_launches > 0 => {
            "nsys cannot be checked: it recorded CUDA graphs as a whole"
        }
        Belief::NotComparable => "nsys cannot be checked: it has no such range",
    };
    let percent = |percent: Option<f64>| match percent {
        Some(percent) => format!("{}{}%", if percent > 0.0 { "+" } else { "" }, percent1(percent)),
        None => "nothing to compare with".into(),
    };
    let scaled = scaled.map_or_else(String::new, |(ours, theirs)| {
        let (ours, theirs) = (count(ours), count(theirs));
        format!("; the collector's numbers scaled from {ours} instances to {theirs}")
    });
    format!(
        "{verdict}: {}: {} of {} kernels ({}), {} of {} ms ({}){scaled}",
        comparison.scope,
        count(nsys_calls),
        count(collector_calls),
        percent(overall.calls_percent()),
        ms3(nsys_ns),
        ms3(collector_ns),
        percent(overall.ns_percent()),
    )
}

/// Ranges that are named.
const SHOWN: usize = 4;
/// The first version of the Python package nvtx whose ranges nsys 2023.4 was seen to miss.
const NEW_NVTX: [u64; 3] = [0, 2, 12];
/// The newest nsys that was seen to miss them, with every update of it.
const MISSES_NEW_NVTX: [u64; 3] = [2023, 4, u64::MAX];

/// What to tell where nsys was told to record NVTX and has no range, though the collector saw some.
/// What was recorded decides; versions only say why. `gated`: the configuration captures a part of the
/// run, in which no range need have been opened.
fn unseen_ranges(
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
    let is_outermost = |row: &&PathRow| row.kind == PathKind::Range && row.depth == 0;
    let opened = report.paths.iter().filter(|row| row.instances.is_some_and(|n| n > 0));
    let seen: Vec<&str> = opened.filter(is_outermost).map(|row| row.path.as_str()).collect();
    seen.first()?;
    let seen = listed(&seen, SHOWN);
    let nsys = tables.tool_version.as_deref();
    let (why, remedy) = reason(nsys, nvtx_package, driver(report).as_deref());
    Some(Id::NsysNoRanges.found(
        format!("nsys recorded no NVTX range, and the collector saw some: {seen}"),
        why,
        remedy,
    ))
}

/// Why, as far as versions tell, and what helps.
fn reason(nsys: Option<&str>, nvtx: Option<&str>, driver: Option<&str>) -> (String, &'static str) {
    let shown = nsys.map_or_else(|| "this nsys".to_owned(), |version| format!("nsys {version}"));
    let is_old = nsys.is_some_and(|version| numbers(version) <= MISSES_NEW_NVTX);
    if let Some(package) = nvtx.filter(|package| is_old && numbers(package) >= NEW_NVTX) {
        let why = format!(
            "if the workload marks its ranges with the Python package nvtx ({package}): {shown} \
             is not newer than 2023.4, which sees none of them in 0.2.12 and later"
        );
        return (
            why,
            "use a newer nsys (pipeline.nsys.executable), or `pip install 'nvtx<0.2.12'`",
        );
    }
    let driver = driver.map(|driver| format!("the driver {driver}"));
    let package = nvtx.map(|package| format!("the Python package nvtx {package}"));
    let others = match (driver, package) {
        (Some(driver), Some(package)) => format!("{driver} and {package}"),
        (driver, package) => driver.or(package).unwrap_or_else(|| "the workload's NVTX".to_owned()),
    };
    let why = format!(
        "{shown} may be older than it has to be for {others}, or something else has the place of its \
         NVTX library (NVTX_INJECTION64_PATH)"
    );
    let remedy = "use an nsys at least as new as the driver and the workload's CUDA libraries \
                  (pipeline.nsys.executable); nsys/log.txt may say more";
    (why, remedy)
}

/// Adds the versions to a finding about lost records that tells to use a newer nsys.
fn with_versions(finding: Finding, report: &Report, tables: &Tables) -> Finding {
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

/// The numbers at the start of a version; what is not a number counts as 0.
fn numbers(version: &str) -> [u64; 3] {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{Fact, RunInfo};
    use stage2_read::nsys::Traced;

    fn total(mangled: &str, calls: u64, total_ns: u64) -> Total<'_> {
        Total { mangled, calls, total_ns }
    }

    fn compare(
        collector: &[Total<'_>],
        nsys: &[Total<'_>],
        instances: Option<(u64, u64)>,
    ) -> Reconciliation {
        let comparison =
            Comparison { scope: "the whole run", collector, nsys, instances, graph_launches: 0 };
        reconcile(&comparison)
    }

    #[test]
    fn the_same_counts_agree_and_say_so_with_numbers() {
        let ours = [total("_Z1av", 2000, 10_000_000), total("_Z1bv", 10, 1_000)];
        let theirs = [total("_Z1bv", 10, 1_100), total("_Z1av", 2000, 10_500_000)];
        let result = compare(&ours, &theirs, None);
        assert_eq!((result.belief, result.finding()), (Belief::Agrees, None));
        assert_eq!(
            result.text,
            "nsys agrees with the collector: the whole run: 2,010 of 2,010 kernels (0.0%), \
             10.501 of 10.001 ms (+5.0%)"
        );
        assert_eq!(result.kernels.first().map(|k| k.sides.ns_difference()), Some(500_000));
    }

    #[test]
    fn lost_kernels_are_not_to_be_believed() {
        let theirs = [total("_Z1av", 1_128, 4_000)];
        let result = compare(&[total("_Z1av", 12_428, 40_000)], &theirs, None);
        assert_eq!(result.belief, Belief::Lossy);
        assert!(!result.belief.usable());
        let finding = result.finding().expect("a finding");
        assert!(finding.what.contains("1,128 of 12,428 kernels (-90.9%)"), "{finding}");
        let empty = compare(&[total("_Z1av", 5, 5)], &[], None);
        assert_eq!((empty.belief, empty.missing_in_nsys), (Belief::Lossy, 1));
    }

    #[test]
    fn small_differences_are_within_bounds_and_large_ones_are_not() {
        let ours = [total("_Z1av", 1000, 1_000_000), total("_Z1bv", 1, 10)];
        let near = compare(&ours, &[total("_Z1av", 999, 1_000_000), total("_Z1cv", 1, 10)], None);
        assert_eq!(near.belief, Belief::WithinBounds);
        assert_eq!((near.missing_in_nsys, near.missing_in_collector), (1, 1));
        let more = compare(&ours, &[total("_Z1av", 1100, 1_000_000)], None);
        assert_eq!(more.belief, Belief::Differs);
        let slow = compare(&ours, &[total("_Z1av", 1000, 1_500_000), total("_Z1bv", 1, 10)], None);
        assert_eq!(slow.belief, Belief::Differs);
        assert!(!slow.belief.usable() && near.belief.usable());
    }

    #[test]
    fn a_gated_capture_is_compared_with_as_many_instances() {
        let ours = [total("_Z1av", 30, 3_000)];
        let result = compare(&ours, &[total("_Z1av", 10, 1_000)], Some((3, 1)));
        assert_eq!((result.belief, result.scaled), (Belief::Agrees, Some((3, 1))));
        assert!(result.text.contains("scaled from 3 instances to 1"), "{}", result.text);
        assert_eq!(compare(&ours, &[], Some((3, 0))).belief, Belief::NotComparable);
    }

    #[test]
    fn nothing_to_compare_with_is_said() {
        assert_eq!(compare(&[], &[total("_Z1av", 1, 1)], None).belief, Belief::NotComparable);
        let (scope, collector) = ("x", &[total("_Z1av", 100, 100)][..]);
        let (nsys, instances, graph_launches) = (&[][..], None, 4);
        let graphs = Comparison { scope, collector, nsys, instances, graph_launches };
        let result = reconcile(&graphs);
        assert_eq!(result.belief, Belief::NotComparable);
        assert!(result.text.contains("graphs as a whole"), "{}", result.text);
    }

    #[test]
    fn absurd_numbers_do_not_overflow() {
        let ours = [total("_Z1av", u64::MAX, u64::MAX), total("_Z1bv", u64::MAX, u64::MAX)];
        let result = compare(&ours, &[total("_Z1av", 1, 1)], Some((1, u64::MAX)));
        assert_eq!(result.belief, Belief::Lossy);
    }

    fn report() -> Report {
        let fact = |key: &str, value: &str| Fact { key: key.into(), value: value.into() };
        let environment = vec![fact("gpu.driver", "580.159.03"), fact("gpu.cuda_driver", "13.0")];
        let run = RunInfo { environment, ..RunInfo::default() };
        Report { run, paths: ["decode", "prefill"].map(range).to_vec(), ..Report::default() }
    }

    fn range(name: &str) -> PathRow {
        PathRow { path: name.into(), instances: Some(3), ..PathRow::default() }
    }

    /// Of a capture of the whole run.
    fn finding(report: &Report, tables: &Tables, package: Option<&str>) -> Option<Finding> {
        super::unseen_ranges(report, tables, package, false)
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
        assert_eq!(super::unseen_ranges(&report(), &old(), new, true), None, "a part of the run");
        let mut none = report();
        none.paths.clear();
        assert_eq!(finding(&none, &old(), new), None, "the collector saw none either");
    }

    #[test]
    fn lost_records_name_both_versions() {
        let lost = Id::NsysDiffers.found("lost", "why", "use an nsys as new as the driver");
        let found = with_versions(lost.clone(), &report(), &empty("2023.4.4"));
        assert!(found.why.contains("nsys 2023.4.4, and the driver is 580.159.03"), "{found}");
        assert_eq!(with_versions(lost.clone(), &report(), &Tables::default()), lost);
    }
}
