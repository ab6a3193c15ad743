//! The costs of the passes -> findings on stages that a profiler slowed down, with lighter settings.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use stage2_contract::text::numbers::{count, ms3, ratio3};
use stage2_model::{Finding, Origin, Report, Severity, StageCost};

use super::passes::{BASELINE, COLLECT, NSYS};

/// A stage that takes longer than this many times its baseline was not measured undisturbed.
pub const LIMIT: f64 = 1.25;
/// Stages that a finding names: those that lost the most time.
const NAMED: usize = 3;
/// With fewer warm instances on either side nobody knows how far equal runs differ.
pub(crate) const FEWEST_WARM: u64 = 3;
/// The standard error of a median is that of a mean times this, for a normal distribution.
const OF_MEDIAN: f64 = 1.253;
/// A difference below this many standard errors may be noise.
const ERRORS: f64 = 2.0;

/// A stage beyond the limit.
struct Slow<'r> {
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

/// Adds the findings; to be called once it is known which ranges are no stages of the model. `config`
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
        Some(Slow { untraced, traced, ratio, lost_ns })
    });
    let mut slow: Vec<Slow<'_>> = slow.collect();
    slow.sort_by(|a, b| b.lost_ns.total_cmp(&a.lost_ns));
    let worst = slow.first()?;
    // Kernels of graph replays were recorded one by one in it.
    let replays_graphs = report
        .kernels
        .iter()
        .any(|row| row.stage == worst.traced.stage && row.times.graph_calls > 0);
    // The rows of the report are of this pass.
    let shown = pass == COLLECT || report.source == Origin::Nsys.label();
    let certain = slow.iter().any(Slow::is_certain);
    let names: Vec<String> = slow.iter().take(NAMED).map(Slow::in_short).collect();
    let numbers: Vec<String> = slow.iter().take(NAMED).map(Slow::numbers).collect();
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
    Some(Finding::new(
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
    let settings: Vec<&str> = if pass == NSYS {
        let part = match replays_graphs {
            true if !nsys_whole_graphs => {
                Some("pipeline.nsys.cuda_graph_trace=graph records each replay as a whole")
            }
            _ if !nsys_gated => Some("profiling/nsys=nsys.gated captures one range"),
            _ => None,
        };
        part.into_iter().chain(["run.mode=light leaves nsys out"]).collect()
    } else {
        let graphs = (replays_graphs && !whole_graphs).then_some(
            "profiling.collector.graph=graph (STAGE2_GRAPH) records each replay of a CUDA graph as a \
             whole",
        );
        let sample = match sampled {
            false => {
                "profiling.collector.sample=1/16 (STAGE2_SAMPLE) records one of 16 instances of each \
                 range"
            }
            true => "a larger N in profiling.collector.sample=1/N (STAGE2_SAMPLE)",
        };
        let ranges = (!selected && graphs.is_none()).then_some(
            "profiling.collector.ranges=[NAME] (STAGE2_RANGES) leaves CUPTI off until the first range \
             of that name",
        );
        graphs.into_iter().chain([sample]).chain(ranges).collect()
    };
    settings.join("; ")
}

impl Slow<'_> {
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
            let median = cost.host_warm_median_ns.map_or_else(String::new, ms3);
            let std = cost.host_warm_std_ns.map(|ns| format!(", standard deviation {}", ms3(ns)));
            let warm = cost
                .host_warm_instances
                .map(|n| format!(" ({} warm instances{})", count(n), std.unwrap_or_default()));
            format!("{median} ms{}", warm.unwrap_or_default())
        };
        let name = &self.traced.stage;
        format!("{name}: median {} against {}", side(self.traced), side(self.untraced))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
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
        let numbers = "decode: median 0.140 ms (9 warm instances, standard deviation 0.003) against \
                       0.100 ms (9 warm instances, standard deviation 0.003)";
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
        assert!(
            found[0].why.contains("only its timeline")
                && found[0].remedy.contains("run.mode=light")
        );
        let mut stands_in = report(NSYS, 200, 9, 3);
        stands_in.source = Origin::Nsys.label().to_owned();
        assert_eq!(told(stands_in)[0].severity, Severity::Warning);
    }

    #[test]
    fn graph_replays_are_lightest_as_a_whole() {
        let mut graphs = report(COLLECT, 140, 9, 3);
        let mut row = stage2_model::KernelRow { stage: "decode".into(), ..Default::default() };
        row.times.graph_calls = 5;
        graphs.kernels = vec![row];
        let found = told(graphs);
        assert!(found[0].remedy.starts_with("profiling.collector.graph=graph"), "{}", found[0]);
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
