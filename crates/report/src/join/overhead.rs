//! The stages of a run with and without profilers -> what each pass cost, and findings on stages that a profiler
//! slowed down, with lighter settings.

use std::collections::{HashMap, HashSet};

use crate::join::join;
use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, ms3, ratio3};
use stage2_model::finding::Id;
use stage2_model::{
    Finding, NsysRangeRow, Origin, PassCosts, PassDuration, PassInfo, PassStatus, PathKind, Report,
    RunInfo, Severity, StageCost, StageRow,
};
use stage2_read::trace::Capture;

/// Names of the passes, as `run.json` has them.
const BASELINE: &str = "baseline";
const COUNTERS: &str = "counters";
pub(crate) const COLLECT: &str = "collect";
pub(crate) const NSYS: &str = "nsys";
const NCU: &str = "ncu";

/// Adds the costs. `baseline` is the capture of the untraced pass, none where it left no folder;
/// `wanted` is what the configuration says of it.
pub(crate) fn add_costs(report: &mut Report, baseline: Option<Capture>, wanted: Option<bool>) {
    let untraced = baseline.map(|capture| join(capture, RunInfo::default(), Vec::new()));
    let passes = &report.run.passes;
    // Where the workload of the pass failed or was ended, its stages are of other work.
    let is_comparable = pass_named(passes, BASELINE).is_none_or(ran_through);
    let comparable = untraced.as_ref().filter(|_| is_comparable);
    let rows = comparable.map_or(&[][..], |untraced| &untraced.stages);
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

fn pass_named<'p>(passes: &'p [PassInfo], name: &str) -> Option<&'p PassInfo> {
    passes.iter().find(|pass| pass.name.as_deref() == Some(name))
}

pub(crate) fn of_counters_pass(capture: Capture) -> Vec<Finding> {
    let said =
        |finding: Finding| Finding { what: format!("counters pass: {}", finding.what), ..finding };
    capture.findings.into_iter().map(said).collect()
}

/// That the sampled counters are of a workload that did not run through.
pub(crate) fn counters_that_ended_early(report: &Report) -> Option<Finding> {
    let pass = pass_named(&report.run.passes, COUNTERS).filter(|pass| !ran_through(pass))?;
    let status = pass.status.as_deref().unwrap_or("not known");
    report.sampled.as_ref()?;
    Some(Id::CountersCutShort.found(
        format!("the counters pass did not run through: {status}"),
        "sampled counters are of what the workload did until then",
        "see counters/log.txt, and run again",
    ))
}

fn ran_through(pass: &PassInfo) -> bool {
    pass.status.as_deref().and_then(PassStatus::of_word) == Some(PassStatus::Ok)
}

fn durations(passes: &[PassInfo]) -> Vec<PassDuration> {
    let untraced_ms = pass_named(passes, BASELINE).and_then(|pass| pass.duration_ms);
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
        let of_nsys = nsys.get(row.stage.as_str()).map(|range| StageCost {
            stage: row.stage.clone(),
            pass: NSYS.to_owned(),
            instances: range.instances,
            host_total_ns: range.host_total_ns,
            host_warm_instances: range.host_warm_instances,
            host_warm_std_ns: range.host_warm_std_ns,
            host_warm_median_ns: range.host_warm_median_ns,
            ratio: None,
        });
        for mut cost in measured_in.map(|pass| cost(pass, row)).into_iter().chain(of_nsys) {
            let medians = cost.host_warm_median_ns.zip(before.host_warm_median_ns);
            let medians = medians.filter(|&(_, before)| before > 0);
            cost.ratio = medians.map(|(ns, before)| ns as f64 / before as f64);
            costs.push(cost);
        }
    }
    costs
}

/// The pass that the stages of the report are of; none: of one that gives them no times. Where the
/// collector recorded no GPU work at all, they are those of the tool that stands in for it.
fn measured_in(report: &Report) -> Option<&'static str> {
    let stands_in =
        |tool: Origin| report.coverage.gpu_records() == 0 && report.source == tool.label();
    if stands_in(Origin::Nsys) {
        return Some(NSYS);
    }
    (!stands_in(Origin::Ncu)).then_some(COLLECT)
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
    match (pass_named(passes, BASELINE), wanted) {
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
            false => "its capture is not reliable",
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
             a stage under it has no separate time."
                .to_owned(),
        );
    }
    notes
}

/// A stage that takes longer than this many times its baseline was not measured undisturbed.
pub const LIMIT: f64 = 1.25;
/// Stages that a finding names: those that lost the most time.
const NAMED: usize = 3;
/// With fewer warm instances on either side, it is not known how far equal runs differ.
pub(crate) const FEWEST_WARM: u64 = 3;
/// The standard error of a median is that of a mean times this, for a normal distribution.
const OF_MEDIAN: f64 = 1.253;
/// A difference below this many standard errors may be noise.
const ERRORS: f64 = 2.0;

struct SlowStage<'r> {
    untraced: &'r StageCost,
    traced: &'r StageCost,
    ratio: f64,
    /// Time that all instances together lost, ns.
    lost_ns: f64,
}

/// Settings that make a pass cost less, and that the run already has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// The collector records a sample of the instances.
    sampled: bool,
    /// It records some ranges only.
    selected: bool,
    /// It records replays of CUDA graphs as a whole.
    whole_graphs: bool,
    /// The capture of nsys is a part of the run.
    pub(crate) nsys_gated: bool,
    /// It has replays of CUDA graphs as a whole.
    nsys_whole_graphs: bool,
}

impl InForce {
    /// As the composed configuration has them.
    pub fn of(config: &Value) -> Self {
        let text = |key: &str| config.pointer(key).and_then(Value::as_str).unwrap_or_default();
        let ranges = config.pointer("/profiling/collector/ranges").and_then(Value::as_array);
        Self {
            sampled: !matches!(text("/profiling/collector/sample"), "" | "1/1"),
            selected: ranges.is_some_and(|ranges| !ranges.is_empty()),
            whole_graphs: text("/profiling/collector/graph") == "graph",
            nsys_gated: !matches!(text("/pipeline/nsys/capture_range"), "" | "none"),
            nsys_whole_graphs: text("/pipeline/nsys/cuda_graph_trace").starts_with("graph"),
        }
    }
}

/// Adds the findings; to be called once it is known which ranges are not stages of the model. `config`
/// is the composed configuration.
pub(crate) fn explain(report: &mut Report, config: &Value) {
    let mut in_force = InForce::of(config);
    // The trace files say more: variables of the environment come before the configuration.
    in_force.sampled |= report.is_sampled();
    in_force.selected |= report.coverage.ranges().is_some();
    let found: Vec<Finding> =
        [COLLECT, NSYS].iter().filter_map(|pass| of_pass(report, pass, in_force)).collect();
    report.findings.extend(found);
}

fn of_pass(report: &Report, pass: &str, in_force: InForce) -> Option<Finding> {
    let stages = report.stages.iter().filter(|row| row.apart.is_none());
    let stages: HashSet<&str> = stages.map(|row| row.stage.as_str()).collect();
    let costs = report.costs.stages.iter();
    let baselines = costs.clone().rev().filter(|cost| cost.pass == BASELINE);
    let baselines: HashMap<&str, &StageCost> =
        baselines.map(|cost| (cost.stage.as_str(), cost)).collect();
    let traced = costs.filter(|cost| cost.pass == pass && stages.contains(cost.stage.as_str()));
    let slow = traced.filter_map(|traced| {
        let ratio = traced.ratio.filter(|ratio| *ratio > LIMIT)?;
        let untraced = *baselines.get(traced.stage.as_str())?;
        let (before, after) = (untraced.host_warm_median_ns?, traced.host_warm_median_ns?);
        let lost_ns = after.saturating_sub(before) as f64 * traced.instances.unwrap_or(1) as f64;
        Some(SlowStage { untraced, traced, ratio, lost_ns })
    });
    let mut slow: Vec<SlowStage<'_>> = slow.collect();
    slow.order_by(|a, b| b.lost_ns.total_cmp(&a.lost_ns));
    let worst = slow.first()?;
    // Kernels of graph replays were recorded one by one in it.
    let mut of_worst = report.kernels.iter().filter(|row| row.stage == worst.traced.stage);
    let replays_graphs = of_worst.any(|row| row.times.graph_calls > 0);
    // The rows of the report are of this pass.
    let shown = pass == COLLECT || report.source == Origin::Nsys.label();
    let certain = slow.iter().any(SlowStage::is_certain);
    let names: Vec<String> = slow.iter().take(NAMED).map(SlowStage::in_short).collect();
    let numbers: Vec<String> = slow.iter().take(NAMED).map(SlowStage::numbers).collect();
    let more = match slow.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    let disturbed = match (certain, pass) {
        (false, _) => "",
        (true, NSYS) if !shown => "; only its timeline is of that slower run",
        (true, _) => "; host and idle times include this overhead; kernel durations do not",
    };
    let who = if pass == COLLECT { "the collector" } else { pass };
    Some(Id::OverheadHigh.about(pass).graded(
        if certain && shown { Severity::Warning } else { Severity::Note },
        format!(
            "stages that took more than {LIMIT}x their baseline under {who}: {}{more}",
            names.join(", ")
        ),
        numbers.join("; ") + disturbed,
        lighter(pass, replays_graphs, in_force),
    ))
}

/// Settings that would make a pass cost less, the lightest first; none that is in force already.
pub fn lighter(pass: &str, replays_graphs: bool, in_force: InForce) -> String {
    let InForce { sampled, selected, whole_graphs, nsys_gated, nsys_whole_graphs } = in_force;
    let mut settings = Vec::new();
    if pass == NSYS {
        if replays_graphs && !nsys_whole_graphs {
            settings.push("pipeline.nsys.cuda_graph_trace=graph records each replay as a whole");
        } else if !nsys_gated {
            settings.push("profiling/nsys=nsys.gated captures one range");
        }
        settings.push("run.mode=light leaves nsys out");
        return settings.join("; ");
    }
    let graphs = replays_graphs && !whole_graphs;
    if graphs {
        settings.push(
            "profiling.collector.graph=graph (STAGE2_GRAPH) records each replay of a CUDA graph as a \
             whole",
        );
    }
    settings.push(if sampled {
        "a larger N in profiling.collector.sample=1/N (STAGE2_SAMPLE)"
    } else {
        "profiling.collector.sample=1/16 (STAGE2_SAMPLE) records one of 16 instances of each range"
    });
    if !selected && !graphs {
        settings.push(
            "profiling.collector.ranges=[NAME] (STAGE2_RANGES) leaves CUPTI off until the first range \
             of that name",
        );
    }
    settings.join("; ")
}

impl SlowStage<'_> {
    fn in_short(&self) -> String {
        let doubt = if self.is_certain() { "" } else { " (may be noise)" };
        format!("{} {}x{doubt}", self.traced.stage, ratio3(self.ratio))
    }

    /// Whether the difference stands out of the spread of the instances.
    fn is_certain(&self) -> bool {
        let error = |cost: &StageCost| {
            let warm = cost.host_warm_instances.filter(|&warm| warm >= FEWEST_WARM)?;
            Some(OF_MEDIAN * cost.host_warm_std_ns? as f64 / (warm as f64).sqrt())
        };
        let medians = self.traced.host_warm_median_ns.zip(self.untraced.host_warm_median_ns);
        let errors = error(self.traced).zip(error(self.untraced));
        medians.zip(errors).is_some_and(|((after, before), (a, b))| {
            after.saturating_sub(before) as f64 > ERRORS * a.hypot(b)
        })
    }

    /// The medians of the traced and of the untraced runs, with their spread.
    fn numbers(&self) -> String {
        let side = |cost: &StageCost| {
            let median = cost.host_warm_median_ns.map(ms3).unwrap_or_default();
            let std = cost.host_warm_std_ns.map(|ns| format!(", standard deviation {}", ms3(ns)));
            let (warm, std) = (cost.host_warm_instances.map(count), std.unwrap_or_default());
            let warm = warm.map(|warm| format!(" ({warm} warm calls{std})"));
            format!("{median} ms{}", warm.unwrap_or_default())
        };
        let name = &self.traced.stage;
        format!("{name}: median {} against {}", side(self.traced), side(self.untraced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use stage2_model::StageRow;

    /// A report in which `decode` takes `traced_us` instead of 100 us; each side has this many warm
    /// instances, which differ by `std_us`.
    fn report(pass: &str, traced_us: u64, warm: u64, std_us: u64) -> Report {
        let cost = |pass: &str, us: u64| StageCost {
            stage: "decode".into(),
            pass: pass.into(),
            instances: Some(warm + 1),
            host_total_ns: None,
            host_warm_instances: Some(warm),
            host_warm_std_ns: Some(std_us * 1_000),
            host_warm_median_ns: Some(us * 1_000),
            ratio: (pass != BASELINE).then(|| us as f64 / 100.0),
        };
        let mut report = Report {
            stages: vec![StageRow { stage: "decode".into(), ..StageRow::default() }],
            ..Report::default()
        };
        report.costs.stages = vec![cost(BASELINE, 100), cost(pass, traced_us)];
        report
    }

    fn told(mut report: Report) -> Vec<Finding> {
        told_with(&mut report, &Value::Null)
    }

    fn told_with(report: &mut Report, config: &Value) -> Vec<Finding> {
        explain(report, config);
        std::mem::take(&mut report.findings)
    }

    #[test]
    fn a_slow_stage_is_a_warning_with_its_numbers_and_lighter_settings() {
        let found = told(report(COLLECT, 140, 9, 3));
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.what.ends_with("under the collector: decode 1.400x"), "{finding}");
        let numbers = "decode: median 0.140 ms (9 warm calls, standard deviation 0.003) against \
                       0.100 ms (9 warm calls, standard deviation 0.003)";
        assert!(finding.why.starts_with(numbers), "{finding}");
        assert!(finding.remedy.starts_with("profiling.collector.sample=1/16"), "{finding}");
        assert!(told(report(COLLECT, 125, 9, 3)).is_empty(), "within the limit");
    }

    #[test]
    fn a_difference_that_may_be_noise_is_a_note_that_says_so() {
        for (warm, std_us) in [(9, 90), (2, 0)] {
            let found = told(report(COLLECT, 140, warm, std_us));
            let [finding] = &found[..] else { panic!("{found:?}") };
            assert_eq!(finding.severity, Severity::Note, "{warm} {std_us}");
            assert!(finding.what.ends_with("decode 1.400x (may be noise)"), "{finding}");
        }
    }

    #[test]
    fn a_slow_nsys_costs_its_timeline_only_unless_its_rows_are_shown() {
        let found = told(report(NSYS, 200, 9, 3));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Note), "{found:?}");
        assert!(found[0].why.contains("only its timeline"), "{}", found[0]);
        assert!(found[0].remedy.contains("run.mode=light"), "{}", found[0]);
        let mut stands_in = report(NSYS, 200, 9, 3);
        stands_in.source = Origin::Nsys.label().to_owned();
        assert_eq!(told(stands_in)[0].severity, Severity::Warning);
    }

    #[test]
    fn what_is_in_force_already_is_not_advised() {
        let config = |collector: Value, nsys: Value| json!({"profiling": {"collector": collector}, "pipeline": {"nsys": nsys}});
        let remedy = |pass: &str, graphs: u64, config: &Value| {
            let mut slow = report(pass, 140, 9, 3);
            let mut row = stage2_model::KernelRow { stage: "decode".into(), ..Default::default() };
            row.times.graph_calls = graphs;
            slow.kernels = vec![row];
            told_with(&mut slow, config).remove(0).remedy
        };
        let plain = config(
            json!({"sample": "1/1", "ranges": [], "graph": "node"}),
            json!({"capture_range": "none", "cuda_graph_trace": "node"}),
        );
        assert_eq!(remedy(COLLECT, 0, &plain), remedy(COLLECT, 0, &Value::Null));
        assert!(remedy(COLLECT, 0, &plain).contains("collector.ranges=[NAME]"));
        for nothing in [&plain, &Value::Null] {
            let told = remedy(COLLECT, 5, nothing);
            assert!(told.starts_with("profiling.collector.graph=graph"), "{told}");
        }
        assert!(remedy(NSYS, 0, &plain).starts_with("profiling/nsys=nsys.gated"));
        assert!(remedy(NSYS, 5, &plain).starts_with("pipeline.nsys.cuda_graph_trace=graph"));
        let light = config(
            json!({"sample": "1/64", "ranges": ["decode"], "graph": "node"}),
            json!({"capture_range": "nvtx", "cuda_graph_trace": "graph:host-only"}),
        );
        let larger = "a larger N in profiling.collector.sample=1/N (STAGE2_SAMPLE)";
        assert_eq!(remedy(COLLECT, 0, &light), larger);
        let with_graphs = remedy(COLLECT, 5, &light);
        assert!(with_graphs.starts_with("profiling.collector.graph=graph"), "{with_graphs}");
        assert!(with_graphs.ends_with(larger), "{with_graphs}");
        for graphs in [0, 5] {
            assert_eq!(remedy(NSYS, graphs, &light), "run.mode=light leaves nsys out");
        }
    }

    #[test]
    fn ranges_that_are_no_stages_are_left_out() {
        let mut warm_up = report(COLLECT, 140, 9, 3);
        warm_up.stages[0].apart = Some(stage2_model::Apart::WarmUp);
        assert!(told(warm_up).is_empty());
    }
}
