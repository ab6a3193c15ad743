//! Runs of the workload -> times of each stage, and how they compare.

use std::ffi::OsString;

use serde::Serialize;

use crate::bundle::WorkloadExit;
use crate::finding::{Finding, Severity};
use crate::load::spool::load_folder;
use crate::load::stats::median;
use crate::merge::merge;
use crate::nsys::load::sqlite;
use crate::plan::{NSYS_BASE, Pass};
use crate::report::model::{PathKind, RunInfo};
use crate::run::Ran;

/// Version of the format of `bench.json`.
const SCHEMA: u32 = 1;

/// Everything that was measured: contents of `bench.json`. Times are nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Results {
    /// Version of this format.
    schema: u32,
    /// Version of the program that wrote it.
    stage2_version: String,
    /// The words after `--`. Bytes that are no UTF-8 are replaced.
    command: Vec<String>,
    /// Rounds that were asked for.
    pub(super) rounds: u32,
    /// A signal or the time limit ended the benchmark before its time.
    pub(super) cut_short: bool,
    /// A simulated GPU took part: then no number says anything about real hardware.
    pub(super) simulated: bool,
    /// How the workload ends when nobody looks on.
    pub(super) workload_exit: Option<WorkloadExit>,
    /// What was compared.
    pub(super) configurations: Vec<Configuration>,
    /// The whole process, and then the stages, under each configuration.
    pub(super) rows: Vec<Row>,
    /// What has to be known about it.
    pub(super) findings: Vec<Finding>,
}

/// One way to run the workload.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Configuration {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) runs: Vec<Run>,
    /// Why there are no (more) runs.
    pub(super) failed: Option<String>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    round: u32,
    exit: Option<WorkloadExit>,
    /// From the start of the process to its end.
    duration_ns: Option<u64>,
    stages: Vec<StageTime>,
    /// Records of GPU work, where it was to be recorded.
    pub(super) gpu_records: Option<u64>,
}

/// A stage in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StageTime {
    /// Its name.
    pub(super) stage: String,
    /// Times that it was opened.
    pub(super) instances: Option<u64>,
    /// Median host time of its instances without the first; of the first where it is the only one.
    pub(super) host_ns: u64,
}

/// A stage, or the whole process, under one configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// None: the whole process.
    pub(super) stage: Option<String>,
    pub(super) configuration: String,
    /// Of each run that was measured.
    pub(super) runs_ns: Vec<u64>,
    pub(super) median_ns: u64,
    pub(super) min_ns: u64,
    /// Median against that of the first configuration that has the stage.
    pub(super) median_ratio: Option<f64>,
    /// The same of the minima.
    pub(super) min_ratio: Option<f64>,
}

impl Configuration {
    /// Nothing measured yet; `failed` where it cannot be.
    pub(super) fn new(name: String, what: &str, failed: Option<String>) -> Self {
        Self { name, what: what.to_owned(), runs: Vec::new(), failed }
    }
}

impl Run {
    /// A run, and what its stages took.
    pub(super) fn new(round: u32, ran: &Ran, recorded: Recorded) -> Self {
        let duration_ns = ran.duration.and_then(|d| u64::try_from(d.as_nanos()).ok());
        let Recorded { stages, gpu_records, .. } = recorded;
        Self { round, exit: ran.exit, duration_ns, stages, gpu_records }
    }
}

/// What the files of a run say.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    pub(super) stages: Vec<StageTime>,
    /// The GPU was a simulated one.
    pub(super) simulated: bool,
    /// Records of GPU work, where it was to be recorded.
    pub(super) gpu_records: Option<u64>,
    /// Processes whose GPU work was not recorded, and why.
    pub(super) findings: Vec<Finding>,
}

/// What a pass recorded; nothing where nobody looked on.
///
/// # Errors
/// There is nothing to read, or the GPU work that was to be recorded is not there.
pub(super) fn recorded(pass: &Pass) -> Result<Recorded, String> {
    let Some(folder) = pass.folders.first() else { return Ok(Recorded::default()) };
    if pass.profiler.is_some() {
        let path = folder.join(format!("{NSYS_BASE}.sqlite"));
        let tables = sqlite::load(&path).map_err(|finding| finding.to_string())?;
        let time = |range: &crate::nsys::load::Range| {
            let only = range.host_total_ns.filter(|_| range.instances == Some(1));
            let domain = range.domain.as_ref().map_or_else(String::new, |d| format!("@{d}"));
            Some(StageTime {
                stage: format!("{}{domain}", range.name),
                instances: range.instances,
                host_ns: range.host_warm_median_ns.or(only)?,
            })
        };
        let stages = tables.ranges.iter().filter_map(time).collect();
        return Ok(Recorded { stages, ..Recorded::default() });
    }
    if pass.outputs.is_empty() {
        return Ok(Recorded::default());
    }
    let capture = load_folder(folder);
    if capture.processes.is_empty() {
        let told: Vec<String> = capture.findings.iter().map(ToString::to_string).collect();
        return Err(told.join("; "));
    }
    let report = merge(capture, RunInfo::default(), Vec::new());
    let mut findings = Vec::new();
    let mut gpu_records = None;
    if pass.name == "collect" {
        gpu_records = Some(report.coverage.gpu_records());
        let processes = &report.coverage.processes;
        let off = processes.iter().filter_map(|p| Some((p.pid, p.gpu_off.as_deref()?)));
        for (pid, why) in off {
            if gpu_records == Some(0) {
                return Err(format!("GPU work was not recorded: {why}"));
            }
            let pid = pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
            let what = format!("collector: GPU work{pid} was not recorded");
            findings.push(Finding::new(Severity::Warning, what, why, ""));
        }
    }
    let rows = report.stages.iter().filter(|row| row.kind == PathKind::Range);
    let time = |row: &crate::report::model::StageRow| {
        Some(StageTime {
            stage: row.stage.clone(),
            instances: row.instances,
            host_ns: row.host_warm_median_ns.or(row.host_first_ns)?,
        })
    };
    let stages = rows.filter_map(time).collect();
    Ok(Recorded { stages, simulated: report.simulated, gpu_records, findings })
}

impl Results {
    /// Nothing measured yet.
    pub(super) fn new(command: &[OsString], rounds: u32) -> Self {
        Self {
            schema: SCHEMA,
            stage2_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            rounds,
            cut_short: false,
            simulated: false,
            workload_exit: None,
            configurations: Vec::new(),
            rows: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// How the workload fails, also when nobody looks on; nothing where it goes through.
    pub(super) fn failed_exit(&self) -> Option<WorkloadExit> {
        self.workload_exit.filter(|exit| *exit != WorkloadExit::Code(0))
    }

    /// Makes the rows.
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
        for stage in stages {
            let mut first: Option<(u64, u64)> = None;
            for configuration in &self.configurations {
                let measured = |run: &Run| match &stage {
                    None => run.duration_ns,
                    Some(stage) => {
                        let found = run.stages.iter().find(|time| time.stage == *stage);
                        found.map(|time| time.host_ns)
                    }
                };
                // The runs up to one that failed are as good as any.
                let fine = configuration.runs.len()
                    - usize::from(configuration.failed.is_some() && !configuration.runs.is_empty());
                let runs_ns: Vec<u64> =
                    configuration.runs.iter().take(fine).filter_map(measured).collect();
                let least = runs_ns.iter().copied().min();
                let (Some(median_ns), Some(min_ns)) = (median(&mut runs_ns.clone()), least) else {
                    continue;
                };
                let basis = *first.get_or_insert((median_ns, min_ns));
                self.rows.push(Row {
                    stage: stage.clone(),
                    configuration: configuration.name.clone(),
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
        let mut results = Results::new(&["x".into()], 3);
        for (name, runs) in [
            ("untraced", vec![run(100, None), run(300, None), run(200, None)]),
            ("ranges only", vec![run(210, Some(10)), run(190, Some(20))]),
            ("collector", vec![run(240, Some(30)), run(220, Some(15)), run(1, Some(1))]),
        ] {
            let mut configuration = Configuration::new(name.into(), "", None);
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
    }
}
