//! The ranges of the collect pass -> a run of ncu for each region in the range replay modes.

use std::time::{Duration, Instant};

use super::ncu_steps::{import, profiled};
use super::tool::{Tool, ToolPass};
use crate::plan::ncu_files;
use crate::tools::ncu::RangeTime;
use crate::tools::ncu::command::{self, Request};
use crate::tools::ncu::missed::ranges_seen;
use crate::tools::ncu::regions::{Chosen, choose};
use stage2_contract::text::listed;
use stage2_model::{Finding, PassStatus, PathKind, PathRow, Report};
use stage2_read::files::write_whole;
use stage2_read::ncu::nvtx::Label;
use stage2_read::ncu::regions::{REGION_FILE, RegionFile, folder};
use stage2_read::private;

/// Folder of the regions in the folder of the pass.
const REGIONS_DIR: &str = "regions";

/// Measures every chosen region; nothing where the collect pass, i.e. `collected`, knows none.
pub(super) fn run(
    tool: &Tool<'_>,
    request: &Request<'_>,
    collected: &Report,
    findings: &mut Vec<Finding>,
) -> Option<ToolPass> {
    let ranges = ranges(collected);
    let regions = choose(&ranges, request.settings, findings);
    if regions.is_empty() && !request.settings.regions.include.is_empty() {
        // The stage in their place would be an answer to another question.
        return Some(ToolPass::without(PassStatus::Skipped, no_region(&ranges)));
    }
    if regions.is_empty() {
        findings.push(Finding::note(
            "ncu: one run measures what the filter names, instead of one for each region",
            "the collect pass recorded no range with kernels that the patterns allow",
            "",
        ));
        return None;
    }
    let start = Instant::now();
    let mut whole: Option<ToolPass> = None;
    let mut own = Vec::new();
    for (at, region) in regions.iter().enumerate() {
        let Some(limits) = left(tool, start.elapsed()) else {
            findings.push(Finding::warning(
                format!("ncu: {} of {} regions are measured", at, regions.len()),
                "the time of the pass was over",
                "raise pipeline.ncu.time_budget_s, or name fewer regions",
            ));
            break;
        };
        let title = format!("ncu: region {} of {}: {}", at + 1, regions.len(), region.path());
        tool.host.terminal.progress(&title);
        let tool = Tool { limits, ..tool.clone() };
        let pass = one(&tool, request, region, &mut own);
        whole = Some(together(whole, pass));
        if tool.is_interrupted() {
            break;
        }
    }
    findings.extend(by_finding(own));
    whole
}

/// What to tell where none of the ranges that were asked for can be measured.
fn no_region(ranges: &[RangeTime]) -> Finding {
    Finding::warning(
        "ncu measured nothing: there is no region to measure",
        format!(
            "{}, and pipeline.ncu.regions asks for none with kernels that ncu can measure",
            ranges_seen(ranges)
        ),
        "correct pipeline.ncu.regions.include or exclude",
    )
}

/// Regions that a finding names.
const NAMED: usize = 3;

/// Findings of single regions as findings of the pass: what is found in several is said once.
fn by_finding(own: Vec<(String, Finding)>) -> Vec<Finding> {
    let mut groups: Vec<(Vec<String>, Finding)> = Vec::new();
    for (path, finding) in own {
        match groups.iter_mut().find(|(_, known)| *known == finding) {
            Some((paths, _)) if paths.contains(&path) => {}
            Some((paths, _)) => paths.push(path),
            None => groups.push((vec![path], finding)),
        }
    }
    let named = |(paths, finding): (Vec<String>, Finding)| {
        let regions = if paths.len() == 1 { "region" } else { "regions" };
        let what = format!("{regions} {}: {}", listed(&paths, NAMED), finding.what);
        Finding { what, ..finding }
    };
    groups.into_iter().map(named).collect()
}

/// The limits of the next run; nothing where no time is left.
fn left(tool: &Tool<'_>, gone: Duration) -> Option<crate::plan::Limits> {
    let timeout = match tool.limits.timeout {
        Some(limit) => Some(limit.checked_sub(gone).filter(|left| !left.is_zero())?),
        None => None,
    };
    Some(crate::plan::Limits { timeout, ..tool.limits })
}

fn one(
    tool: &Tool<'_>,
    request: &Request<'_>,
    region: &Chosen,
    findings: &mut Vec<(String, Finding)>,
) -> ToolPass {
    let path = region.path();
    let home = tool.folder.join(REGIONS_DIR).join(folder(&path));
    let place = RegionFile { stack: region.stack.clone() };
    let written = private::create_folders(&home)
        .map(drop)
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(serde_json::to_string(&place)?))
        .and_then(|text| write_whole(&home.join(REGION_FILE), &text));
    if let Err(error) = written {
        let what = format!("ncu: the region {path} is not measured");
        let why = format!("{}: {error:#}", home.display());
        return ToolPass::without(PassStatus::Failed, Finding::warning(what, why, ""));
    }
    let files = ncu_files(&home, None);
    let mut own = Vec::new();
    let argv = command::profile_region(request, &region.expression, &files, &mut own);
    let pass = profiled(tool, argv, &files, false, &mut own);
    if pass.status.has_data() && request.settings.ncu_cli.export.csv {
        import(tool, request.settings, &files, &mut own);
    }
    findings.extend(own.into_iter().map(|finding| (path.clone(), finding)));
    pass
}

/// Several runs as one pass: it has data if one of them has, and is `ok` if the workload failed in
/// none.
fn together(whole: Option<ToolPass>, pass: ToolPass) -> ToolPass {
    let Some(before) = whole else { return pass };
    let duration = before.duration.zip(pass.duration).map(|(a, b)| a + b);
    let mut findings = before.findings.clone();
    findings.extend(pass.findings.iter().cloned());
    let failed = pass.status == PassStatus::WorkloadFailed;
    let first = if before.status.has_data() && !failed { before } else { pass };
    ToolPass { duration: duration.or(first.duration), findings, ..first }
}

/// The ranges of a report, each with the ranges around it.
pub(super) fn ranges(report: &Report) -> Vec<RangeTime> {
    let range = |row: &PathRow| RangeTime {
        stack: stack(report, row),
        kernels: row.kernels_inclusive.unwrap_or(0),
        total_ns: row.kernel_sum_inclusive_ns.unwrap_or(0),
    };
    report.paths.iter().filter(|row| row.kind == PathKind::Range).map(range).collect()
}

fn stack(report: &Report, row: &PathRow) -> Vec<Label> {
    let label = |row: &PathRow| Label { name: row.name.clone(), domain: row.domain.clone() };
    // Every parent stands before its children, so that this ends.
    let parents = std::iter::successors(Some(row), |row| report.paths.get(row.parent?));
    let mut stack: Vec<Label> = parents.map(label).collect();
    stack.reverse();
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_region_is_left_the_ranges_of_the_run_are_named() {
        let range = RangeTime { stack: vec![Label::of_stage("decode")], kernels: 0, total_ns: 0 };
        let told = no_region(&[range]);
        assert!(told.why.contains("saw decode,"), "{told}");
        assert!(told.remedy.contains("pipeline.ncu.regions.include or exclude"), "{told}");
        assert!(no_region(&[]).why.contains("saw no range,"));
    }

    #[test]
    fn what_is_found_in_several_regions_is_said_once() {
        let found = |what: &str| Finding::note(what, "", "");
        let mut own: Vec<(String, Finding)> = ["prefill", "decode", "decode/attn", "decode/mlp"]
            .map(|path| (path.to_owned(), found("left out 12 metrics")))
            .to_vec();
        own.insert(1, ("prefill".to_owned(), found("another")));
        own.push(("prefill".to_owned(), found("left out 12 metrics")));
        let said: Vec<String> = by_finding(own).into_iter().map(|f| f.what).collect();
        assert_eq!(
            said,
            [
                "regions prefill, decode, decode/attn and 1 more: left out 12 metrics",
                "region prefill: another"
            ]
        );
    }
}
