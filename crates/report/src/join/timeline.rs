//! The counts of nsys -> against the collector's, for the run and for each stage that both saw.

use std::collections::{BTreeMap, HashMap};

use super::unseen_ranges;
use super::without_collector::{file_names, label};
use crate::reconcile::{Comparison, reconcile};
use stage2_model::{
    Finding, NsysCapture, NsysRangeRow, NsysSection, Origin, PathRow, Report, Severity,
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
            let of = match captures.len() {
                1 => String::new(),
                _ => format!(" ({})", files.join(", ")),
            };
            if tables.traced.cuda != Some(false) {
                reconcile_one(report, tables, &of, gated, &mut section);
            }
            report.findings.extend(unseen_ranges::finding(report, tables, nvtx_package, gated));
        }
        report.findings.extend(tables.findings.iter().cloned());
        report.findings.extend(tables.said.iter().map(|text| {
            Finding::new(
                Severity::Note,
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

/// `of` says which capture it is, where there are several.
fn reconcile_one(
    report: &mut Report,
    tables: &Tables,
    of: &str,
    gated: bool,
    section: &mut NsysSection,
) {
    let all = report.stages.len();
    let outermost = report.paths.iter().filter(|row| row.parent.is_none());
    let ranges: HashMap<&str, &PathRow> = outermost.map(|row| (row.path.as_str(), row)).collect();
    let recorded = report.stages.iter().filter(|stage| stage.kernels.is_some());
    // Name and domain as the collector saw them: a label alone does not tell which is which.
    let stages: Vec<(StageOf, Option<u64>)> = recorded
        .map(|stage| {
            let range = ranges.get(stage.stage.as_str());
            let name = range.map_or(&stage.stage, |range| &range.name).clone();
            let domain = range.and_then(|range| range.domain.clone());
            (StageOf { label: stage.stage.clone(), name, domain }, stage.instances)
        })
        .collect();
    let mut found = Vec::new();
    let mut compare = |scope: &str, stage: Option<&str>, nsys: &[Total<'_>], instances| {
        let ours = totals(report, stage);
        let ours: Vec<Total<'_>> = ours
            .iter()
            .map(|(name, &(calls, total_ns))| Total { mangled: name, calls, total_ns })
            .collect();
        let comparison = Comparison {
            scope: &format!("{scope}{of}"),
            collector: &ours,
            nsys,
            instances,
            graph_launches: tables.counts.graph_launches,
        };
        let reconciliation = reconcile(&comparison);
        found.extend(
            reconciliation.finding().map(|f| unseen_ranges::with_versions(f, report, tables)),
        );
        section.reconciliations.push(reconciliation);
    };
    let mut staged = false;
    for (StageOf { label, name, domain }, instances) in &stages {
        // Some tables know no domains.
        let domains = [domain.as_deref(), None];
        let found = domains.iter().find_map(|of| Some((*of, tables.totals_in(name, *of)?)));
        if let Some((domain, nsys)) = found {
            let seen = instances.zip(tables.instances(name, domain));
            compare(&format!("the stage {label}"), Some(label), &nsys, seen);
            staged = true;
        }
    }
    // A gated capture holds a part of the run by design: then only its stages can be compared.
    let in_part = report.coverage.ranges().is_some() || gated || tables.traced.gated;
    if !in_part && (!staged || tables.ranges.len() >= all) {
        compare("the whole run", None, &tables.totals(), None);
    }
    report.findings.extend(found);
}

/// A stage of the collector, and its range.
struct StageOf {
    label: String,
    name: String,
    domain: Option<String>,
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
