//! The counts of nsys -> against the collector's, for the run and for each stage that both saw.

use std::collections::BTreeMap;

use super::unseen_ranges;
use super::without_collector::{file_names, label};
use crate::nsys::load::{Range, Tables, Total};
use crate::nsys::reconcile::{Comparison, reconcile};
use stage2_model::{Finding, NsysCapture, NsysRangeRow, NsysSection, Origin, Report, Severity};

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
                reconcile_one(report, tables, &of, &mut section);
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
fn reconcile_one(report: &mut Report, tables: &Tables, of: &str, section: &mut NsysSection) {
    let all = report.stages.len();
    let recorded = report.stages.iter().filter(|stage| stage.kernels.is_some());
    let stages: Vec<(String, Option<u64>)> =
        recorded.map(|stage| (stage.stage.clone(), stage.instances)).collect();
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
    for (stage, instances) in &stages {
        if let Some(nsys) = tables.totals_in(stage, None) {
            let seen = instances.zip(tables.instances(stage, None));
            compare(&format!("the stage {stage}"), Some(stage), &nsys, seen);
            staged = true;
        }
    }
    // A gated capture holds a part of the run by design: then only its stages can be compared.
    let filtered = report.coverage.ranges().is_some();
    if !filtered && (!staged || tables.ranges.len() >= all) {
        compare("the whole run", None, &tables.totals(), None);
    }
    report.findings.extend(found);
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
