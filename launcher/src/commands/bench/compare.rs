//! The runs of every configuration -> how they compare: contents of `bench.json`.

use std::ffi::OsString;

use serde::Serialize;

use super::Times;
use super::measure::{Configuration, Run, StageTime, Tracing};
use crate::redaction;
use stage2_model::{Finding, WorkloadExit};
use stage2_read::trace::stats::median;

/// Version of the format of `bench.json`.
const SCHEMA: u32 = 1;

/// Everything that was measured: contents of `bench.json`. Times are nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Results {
    schema: u32,
    stage2_version: String,
    /// The words after `--`. Bytes that are no UTF-8 are replaced.
    command: Vec<String>,
    pub(super) rounds: u32,
    /// Untraced runs before them that are in no number here.
    pub(super) warmup: u32,
    /// A signal or the time limit ended the benchmark before its time.
    pub(super) cut_short: bool,
    /// A simulated GPU took part: then no number says anything about real hardware.
    pub(super) simulated: bool,
    /// How the workload ends when nobody looks on.
    pub(super) workload_exit: Option<WorkloadExit>,
    pub(super) configurations: Vec<Configuration>,
    /// The whole process, and then the stages, under each configuration.
    pub(super) rows: Vec<Row>,
    /// Times of stages that are in no row.
    pub(super) left_out: Vec<LeftOut>,
    pub(super) findings: Vec<Finding>,
}

/// A stage, or the whole process, under one configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// None: the whole process.
    pub(super) stage: Option<String>,
    pub(super) configuration: String,
    #[serde(skip)]
    pub(super) tracing: Tracing,
    /// The second measurement of an A/A pair.
    #[serde(skip)]
    pub(super) again: bool,
    /// Of each run that was measured.
    pub(super) runs_ns: Vec<u64>,
    pub(super) median_ns: u64,
    pub(super) min_ns: u64,
    /// Median against that of the first configuration that has the stage.
    pub(super) median_ratio: Option<f64>,
    /// Minimum against that of the first configuration that has the stage.
    pub(super) min_ratio: Option<f64>,
}

/// Runs of a configuration that saw a stage another number of times than it was there: what they
/// took would be the time of something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LeftOut {
    pub(super) stage: String,
    pub(super) configuration: String,
    /// Instances in each run of ranges only.
    pub(super) expected: u64,
    pub(super) instances: Vec<u64>,
}

impl Results {
    pub(super) fn new(command: &[OsString], Times { rounds, warmup }: Times) -> Self {
        Self {
            schema: SCHEMA,
            stage2_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: redaction::os_words(command)
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            rounds,
            warmup,
            ..Self::default()
        }
    }

    /// How the workload fails, also when nobody looks on; nothing where it goes through.
    pub(super) fn failed_exit(&self) -> Option<WorkloadExit> {
        self.workload_exit.filter(|exit| *exit != WorkloadExit::Code(0))
    }

    pub(super) fn compare(&mut self) {
        let mut stages: Vec<Option<String>> = vec![None];
        for run in self.configurations.iter().flat_map(|c| &c.runs) {
            for StageTime { stage, .. } in &run.stages {
                if !stages.iter().any(|known| known.as_ref() == Some(stage)) {
                    stages.push(Some(stage.clone()));
                }
            }
        }
        self.rows.clear();
        self.left_out.clear();
        for stage in stages {
            let expected = stage.as_ref().and_then(|stage| expected(&self.configurations, stage));
            let mut first: Option<(u64, u64)> = None;
            for configuration in &self.configurations {
                let (runs_ns, left_out) = times(configuration, stage.as_deref(), expected);
                self.left_out.extend(left_out);
                let least = runs_ns.iter().copied().min();
                let (Some(median_ns), Some(min_ns)) = (median(&mut runs_ns.clone()), least) else {
                    continue;
                };
                let basis = *first.get_or_insert((median_ns, min_ns));
                self.rows.push(Row {
                    stage: stage.clone(),
                    configuration: configuration.name.clone(),
                    tracing: configuration.tracing,
                    again: configuration.again,
                    runs_ns,
                    median_ns,
                    min_ns,
                    median_ratio: ratio(median_ns, basis.0),
                    min_ratio: ratio(min_ns, basis.1),
                });
            }
        }
    }
}

/// Instances of a stage in every run of ranges only; none where these differ, as in a workload that
/// does as much as it can in a given time.
fn expected(configurations: &[Configuration], stage: &str) -> Option<u64> {
    let reference = configurations.iter().filter(|c| c.tracing == Tracing::RangesOnly);
    let mut counts = reference.flat_map(Configuration::good_runs).map(|run| seen(run, stage));
    let first = counts.next()??;
    counts.all(|count| count == Some(first)).then_some(first)
}

/// Instances of a stage in a run; none where it does not say.
fn seen(run: &Run, stage: &str) -> Option<u64> {
    stage_of(run, stage).map_or(Some(0), |time| time.instances)
}

fn stage_of<'r>(run: &'r Run, stage: &str) -> Option<&'r StageTime> {
    run.stages.iter().find(|time| time.stage == stage)
}

/// What the runs of a configuration took, of a stage or (none) as a whole, and what they leave out.
fn times(
    configuration: &Configuration,
    stage: Option<&str>,
    expected: Option<u64>,
) -> (Vec<u64>, Option<LeftOut>) {
    let runs = configuration.good_runs();
    let Some(stage) = stage else {
        return (runs.iter().filter_map(|run| run.duration_ns).collect(), None);
    };
    let mut runs_ns = Vec::new();
    let mut instances = Vec::new();
    for run in runs {
        match (seen(run, stage), expected) {
            (Some(seen), Some(expected)) if seen != expected => instances.push(seen),
            _ => runs_ns.extend(stage_of(run, stage).map(|time| time.host_ns)),
        }
    }
    // Where no range was seen at all, as untraced, there is nothing to leave out.
    let sees = runs.iter().any(|run| !run.stages.is_empty());
    let left_out = expected.filter(|_| sees && !instances.is_empty()).map(|expected| LeftOut {
        stage: stage.to_owned(),
        configuration: configuration.name.clone(),
        expected,
        instances,
    });
    (runs_ns, left_out)
}

fn ratio(value: u64, basis: u64) -> Option<f64> {
    (basis > 0).then(|| value as f64 / basis as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(duration_ns: u64, decode_ns: Option<u64>) -> Run {
        let stage = |host_ns| StageTime { stage: "decode".into(), instances: Some(8), host_ns };
        Run {
            round: 1,
            exit: Some(WorkloadExit::Code(0)),
            duration_ns: Some(duration_ns),
            stages: decode_ns.map(stage).into_iter().collect(),
            gpu_records: None,
        }
    }

    #[test]
    fn every_row_is_held_against_the_first_configuration_that_has_it() {
        let mut results = Results::new(&["x".into()], Times { rounds: 3, warmup: 1 });
        for (tracing, runs) in [
            (Tracing::Untraced, vec![run(100, None), run(300, None), run(200, None)]),
            (Tracing::RangesOnly, vec![run(210, Some(10)), run(190, Some(20))]),
            (Tracing::Collector, vec![run(240, Some(30)), run(220, Some(15)), run(1, Some(1))]),
        ] {
            let mut configuration = Configuration::new(tracing, 0, None);
            configuration.runs = runs;
            results.configurations.push(configuration);
        }
        // Its last run failed: only the others count.
        results.configurations[2].failed = Some("exit status 1".into());
        results.compare();
        let row = |at: usize| {
            let Row { stage, median_ns, min_ns, median_ratio, min_ratio, .. } = &results.rows[at];
            (stage.as_deref(), *median_ns, *min_ns, *median_ratio, *min_ratio)
        };
        assert_eq!(results.rows.len(), 5);
        assert_eq!(row(0), (None, 200, 100, Some(1.0), Some(1.0)));
        assert_eq!(row(1), (None, 200, 190, Some(1.0), Some(1.9)));
        assert_eq!(row(2), (None, 230, 220, Some(1.15), Some(2.2)));
        assert_eq!(row(3), (Some("decode"), 15, 10, Some(1.0), Some(1.0)));
        assert_eq!(row(4), (Some("decode"), 23, 15, Some(23.0 / 15.0), Some(1.5)));
        assert!(results.left_out.is_empty());
    }

    fn of(tracing: Tracing) -> Configuration {
        Configuration::new(tracing, 0, None)
    }

    fn seeing(instances: &[u64]) -> Vec<Run> {
        let mut runs: Vec<Run> = instances.iter().map(|_| run(100, Some(10))).collect();
        for (run, &instances) in runs.iter_mut().zip(instances) {
            run.stages[0].instances = Some(instances);
            run.stages.retain(|stage| stage.instances != Some(0));
        }
        runs
    }

    fn compared(configurations: &[(Configuration, Vec<Run>)]) -> Results {
        let mut results = Results::new(&["x".into()], Times { rounds: 3, warmup: 1 });
        for (configuration, runs) in configurations {
            let mut configuration = configuration.clone();
            configuration.runs.clone_from(runs);
            results.configurations.push(configuration);
        }
        results.compare();
        results
    }

    #[test]
    fn runs_that_saw_another_number_of_instances_are_left_out_and_said() {
        let results = compared(&[
            (of(Tracing::Untraced), seeing(&[0, 0, 0])),
            (of(Tracing::RangesOnly), seeing(&[6, 6, 6])),
            (of(Tracing::RangesOnly).again(), seeing(&[6, 6, 6])),
            (of(Tracing::Collector), seeing(&[6, 6, 6])),
            (of(Tracing::Nsys), seeing(&[1, 6, 0])),
        ]);
        let decode: Vec<_> = results.rows.iter().filter(|row| row.stage.is_some()).collect();
        assert_eq!(decode.len(), 4, "{decode:?}");
        assert_eq!((&*decode[3].configuration, decode[3].runs_ns.len()), ("nsys", 1));
        let [left_out] = &results.left_out[..] else { panic!("{:?}", results.left_out) };
        assert_eq!((&*left_out.configuration, left_out.expected), ("nsys", 6));
        assert_eq!(left_out.instances, [1, 0]);
    }

    #[test]
    fn a_workload_whose_runs_differ_by_themselves_is_compared_all_the_same() {
        let results = compared(&[
            (of(Tracing::RangesOnly), seeing(&[90])),
            (of(Tracing::RangesOnly).again(), seeing(&[92])),
            (of(Tracing::Collector), seeing(&[80])),
        ]);
        assert_eq!(results.rows.iter().filter(|row| row.stage.is_some()).count(), 3);
        assert!(results.left_out.is_empty());
    }
}
