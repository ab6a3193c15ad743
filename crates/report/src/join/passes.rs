//! The stages of a run with and without profilers -> what each pass cost.

use std::collections::HashMap;

use stage2_model::{
    Finding, NsysRangeRow, Origin, PassCosts, PassDuration, PassInfo, PassStatus, PathKind, Report,
    RunInfo, Severity, StageCost, StageRow,
};
use stage2_read::trace::Capture;

/// Names of the passes, as `run.json` has them.
pub(crate) const BASELINE: &str = "baseline";
/// Name of the pass in which hardware counters were sampled.
const COUNTERS: &str = "counters";
pub(crate) const COLLECT: &str = "collect";
pub(crate) const NSYS: &str = "nsys";
const NCU: &str = "ncu";

/// Adds the costs. `baseline` is the capture of the untraced pass, none where it left no folder;
/// `wanted` is what the configuration says of it.
pub(crate) fn add(report: &mut Report, baseline: Option<Capture>, wanted: Option<bool>) {
    let untraced = baseline.map(|capture| super::join(capture, RunInfo::default(), Vec::new()));
    let rows: &[StageRow] = match untraced.as_ref().filter(|_| is_comparable(report)) {
        Some(untraced) => &untraced.stages,
        None => &[],
    };
    let passes = &report.run.passes;
    let stages = stages(report, rows);
    let absent = stages.is_empty().then(|| absence(passes, wanted, !rows.is_empty()));
    let costs = PassCosts { passes: durations(passes), stages, absent, ..PassCosts::default() };
    report.costs = PassCosts { notes: notes(report, &costs), ..costs };
    for mut finding in untraced.map(|untraced| untraced.findings).unwrap_or_default() {
        // The pass collects no GPU work by design, so what is said of that is no news.
        if finding.severity != Severity::Error && !finding.what.starts_with("range") {
            continue;
        }
        // It costs the comparison, and no number of the run itself.
        finding.severity = Severity::Warning;
        finding.what = format!("baseline pass: {}", finding.what);
        report.findings.push(finding);
    }
}

/// Whether the baseline pass ran through, as far as is on record: where its workload failed or was
/// ended, its stages are of other work.
fn is_comparable(report: &Report) -> bool {
    named(&report.run.passes, BASELINE).is_none_or(ran_through)
}

fn named<'p>(passes: &'p [PassInfo], name: &str) -> Option<&'p PassInfo> {
    passes.iter().find(|pass| pass.name.as_deref() == Some(name))
}

/// What there is to say of the files of the counters pass.
pub(crate) fn of_counters_pass(capture: Capture) -> Vec<Finding> {
    let said =
        |finding: Finding| Finding { what: format!("counters pass: {}", finding.what), ..finding };
    capture.findings.into_iter().map(said).collect()
}

/// That the sampled counters are of a workload that did not run through.
pub(crate) fn counters_that_ended_early(report: &Report) -> Option<Finding> {
    let pass = named(&report.run.passes, COUNTERS).filter(|pass| !ran_through(pass))?;
    let status = pass.status.as_deref().unwrap_or("not known");
    report.sampled.as_ref()?;
    Some(Finding::warning(
        format!("the counters pass did not run through: {status}"),
        "sampled counters are of what the workload did until then",
        "see counters/log.txt, and run again",
    ))
}

fn ran_through(pass: &PassInfo) -> bool {
    pass.status.as_deref().and_then(PassStatus::of_word) == Some(PassStatus::Ok)
}

fn durations(passes: &[PassInfo]) -> Vec<PassDuration> {
    let untraced_ms = named(passes, BASELINE).and_then(|pass| pass.duration_ms);
    let untraced_ms = untraced_ms.filter(|&ms| ms > 0);
    let duration = |pass: &PassInfo| {
        let name = pass.name.clone()?;
        let ratio = pass.duration_ms.zip(untraced_ms).filter(|_| name != BASELINE);
        let ratio = ratio.map(|(ms, untraced)| ms as f64 / untraced as f64);
        Some(PassDuration { pass: name, duration_ms: pass.duration_ms, ratio })
    };
    passes.iter().filter_map(duration).collect()
}

fn stages(report: &Report, untraced: &[StageRow]) -> Vec<StageCost> {
    let untraced: HashMap<&str, &StageRow> =
        untraced.iter().map(|row| (row.stage.as_str(), row)).collect();
    let nsys = report.nsys.iter().filter(|nsys| nsys.believed()).flat_map(|nsys| &nsys.ranges);
    let nsys: HashMap<&str, &NsysRangeRow> = nsys.map(|row| (row.range.as_str(), row)).collect();
    let measured_in = measured_in(report);
    let mut costs = Vec::new();
    for row in report.stages.iter().filter(|row| row.kind == PathKind::Range) {
        let Some(before) = untraced.get(row.stage.as_str()) else { continue };
        costs.push(cost(BASELINE, before));
        let mut against = |mut cost: StageCost| {
            let medians = cost.host_warm_median_ns.zip(before.host_warm_median_ns);
            let medians = medians.filter(|&(_, before)| before > 0);
            cost.ratio = medians.map(|(ns, before)| ns as f64 / before as f64);
            costs.push(cost);
        };
        if let Some(pass) = measured_in {
            against(cost(pass, row));
        }
        if let Some(range) = nsys.get(row.stage.as_str()) {
            against(StageCost {
                stage: row.stage.clone(),
                pass: NSYS.to_owned(),
                instances: range.instances,
                host_total_ns: range.host_total_ns,
                host_warm_instances: range.host_warm_instances,
                host_warm_std_ns: range.host_warm_std_ns,
                host_warm_median_ns: range.host_warm_median_ns,
                ratio: None,
            });
        }
    }
    costs
}

/// The pass that the stages of the report are of; none: of one that gives them no times. Where the
/// collector recorded no GPU work at all, they are those of the tool that stands in for it.
fn measured_in(report: &Report) -> Option<&'static str> {
    match report.source.as_str() {
        _ if report.coverage.gpu_records() > 0 => Some(COLLECT),
        source if source == Origin::Nsys.label() => Some(NSYS),
        source if source == Origin::Ncu.label() => None,
        _ => Some(COLLECT),
    }
}

fn cost(pass: &str, row: &StageRow) -> StageCost {
    StageCost {
        stage: row.stage.clone(),
        pass: pass.to_owned(),
        instances: row.instances,
        host_total_ns: row.host_total_ns,
        host_warm_instances: row.host_warm_instances,
        host_warm_std_ns: row.host_warm_std_ns,
        host_warm_median_ns: row.host_warm_median_ns,
        ratio: None,
    }
}

/// Why there are no rows, to be read after "none, because".
fn absence(passes: &[PassInfo], wanted: Option<bool>, recorded: bool) -> String {
    match (named(passes, BASELINE), wanted) {
        _ if recorded => "no stage of this run was seen in the baseline pass".to_owned(),
        (Some(pass), _) if !ran_through(pass) => {
            let status = pass.status.as_deref().unwrap_or("no status");
            let why = pass.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            format!("the baseline pass did not run through: {status}{why}")
        }
        (Some(_), _) => "the baseline pass left no range in a file that can be read".to_owned(),
        (None, Some(false)) => "run.baseline is false".to_owned(),
        (None, _) => "no baseline pass is on record".to_owned(),
    }
}

fn notes(report: &Report, costs: &PassCosts) -> Vec<String> {
    let mut notes = Vec::new();
    let ran =
        |name: &str| costs.passes.iter().any(|row| row.pass == name && row.duration_ms.is_some());
    let left_out = costs.stages.iter().all(|cost| cost.pass != NSYS);
    if let Some(nsys) = report.nsys.as_ref().filter(|nsys| left_out && !nsys.believed()) {
        let why = match nsys.reconciliations.is_empty() {
            true => "there is nothing to compare its capture with",
            false => "its capture is not to be believed",
        };
        notes.push(format!(
            "Stage times of nsys are left out here: {why} (see Nsight Systems against the collector)."
        ));
    }
    if ran(BASELINE) {
        notes.push(
            "The baseline pass runs first, while caches of files and kernels are cold: ratios of whole \
             passes understate what a profiler costs. Medians of stages leave the first instance out. \
             stage2-launch bench repeats every pass and shows the noise."
                .to_owned(),
        );
    }
    if ran(NCU) {
        notes.push(
            "ncu has a duration as a whole only: it runs kernels several times and one by one, so \
             that a stage under it has no time of its own."
                .to_owned(),
        );
    }
    notes
}
