//! The rows of a benchmark -> findings on profilers that slow the workload down too much.

use super::compare::{Results, Row};
use super::measure::Tracing;
use stage2_contract::text::numbers::ratio3;
use stage2_model::{Finding, Severity};
use stage2_report::join::overhead::{InForce, LIMIT, lighter};

/// Configurations that have lighter settings, with the names of their passes.
const PROFILERS: [(Tracing, &str); 2] = [(Tracing::Collector, "collect"), (Tracing::Nsys, "nsys")];

/// A finding for each profiler under which a stage takes longer than its limit, by medians and by
/// minima, and by more than the A/A pair of that stage differs.
pub(super) fn findings(results: &Results, in_force: InForce) -> Vec<Finding> {
    PROFILERS.iter().filter_map(|&(tracing, pass)| of(results, tracing, pass, in_force)).collect()
}

fn of(results: &Results, tracing: Tracing, pass: &str, in_force: InForce) -> Option<Finding> {
    let noise = |stage: &str| {
        let pair = |row: &&Row| {
            row.stage.as_deref() == Some(stage) && row.again && row.tracing == Tracing::RangesOnly
        };
        let pair = results.rows.iter().find(pair).and_then(|row| row.median_ratio);
        pair.map(|ratio| (ratio - 1.0).abs())
    };
    let slow = results.rows.iter().filter(|row| row.tracing == tracing).filter_map(|row| {
        let stage = row.stage.as_deref()?;
        let (median, min, noise) = (row.median_ratio?, row.min_ratio?, noise(stage)?);
        (median.min(min) > LIMIT && median - 1.0 > noise)
            .then(|| format!("{stage} {}x (A/A {}x)", ratio3(median), ratio3(1.0 + noise)))
    });
    let slow: Vec<String> = slow.collect();
    (!slow.is_empty()).then(|| {
        Finding::new(
            Severity::Warning,
            format!(
                "{}: stages that took more than {LIMIT}x {}: {}",
                tracing.name(),
                Tracing::RangesOnly.name(),
                slow.join(", ")
            ),
            "what lies beyond that is no longer the time of the workload itself",
            lighter(pass, false, in_force),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::Times;
    use crate::commands::bench::measure::{Configuration, Run, StageTime};

    /// Results of two rounds in which `decode` takes these times.
    fn results(plain: [u64; 2], again: [u64; 2], collector: [u64; 2]) -> Results {
        let mut results = Results::new(&["x".into()], Times { rounds: 2, warmup: 0 });
        let first = Configuration::new(Tracing::RangesOnly, 0, None);
        let second = first.again();
        let traced = Configuration::new(Tracing::Collector, 0, None);
        for (mut configuration, times) in [(first, plain), (second, again), (traced, collector)] {
            configuration.runs = times.map(run).into();
            results.configurations.push(configuration);
        }
        results.compare();
        results
    }

    fn run(host_ns: u64) -> Run {
        let stage = StageTime { stage: "decode".into(), instances: Some(8), host_ns };
        let stages = vec![stage];
        Run { round: 1, exit: None, duration_ns: Some(host_ns), stages, gpu_records: None }
    }

    #[test]
    fn a_slow_stage_is_told_with_its_noise_and_a_lighter_setting() {
        let slow = results([1_000, 1_000], [1_020, 1_020], [1_300, 1_300]);
        let found = findings(&slow, InForce::default());
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert!(finding.what.contains("decode 1.300x (A/A 1.020x)"), "{finding}");
        assert!(finding.remedy.contains("profiling.collector.sample=1/16"), "{finding}");
        let config = serde_json::json!({"profiling": {"collector": {"sample": "1/64"}}});
        let sampled = &findings(&slow, InForce::of(&config))[0];
        assert!(sampled.remedy.starts_with("a larger N"), "{sampled}");
    }

    #[test]
    fn what_is_within_the_limit_or_the_noise_is_not_told() {
        for (again, collector) in [
            ([1_000, 1_000], [1_250, 1_250]),
            // One round alone was slow.
            ([1_000, 1_000], [1_100, 1_900]),
            ([1_500, 1_500], [1_400, 1_400]),
        ] {
            let results = results([1_000, 1_000], again, collector);
            let found = findings(&results, InForce::default());
            assert!(found.is_empty(), "{again:?} {collector:?}: {found:?}");
        }
    }
}
