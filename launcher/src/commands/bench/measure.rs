//! What a run of the workload left behind -> the times of its stages.

use anyhow::{anyhow, bail};
use serde::Serialize;

use crate::plan::{NSYS_BASE, Pass};
use crate::run::PassOutcome;
use stage2_contract::text::visible_path;
use stage2_model::{Finding, PathKind, RunInfo, Severity, WorkloadExit};
use stage2_read::nsys::sqlite;
use stage2_read::trace::folder::load_folder;
use stage2_read::trace::libraries::RangeNames;
use stage2_report::join::join;

/// Under which profiler the workload runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tracing {
    /// None: all others are held against it.
    #[default]
    Untraced,
    /// The collector without CUPTI: stages are held against it.
    RangesOnly,
    /// The collector.
    Collector,
    /// nsys.
    Nsys,
}

impl Tracing {
    pub(super) fn of_pass(name: &str) -> Option<Self> {
        match name {
            "untraced" => Some(Self::Untraced),
            "baseline" => Some(Self::RangesOnly),
            "collect" => Some(Self::Collector),
            "nsys" => Some(Self::Nsys),
            _ => None,
        }
    }

    /// Its name in the tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Untraced => "untraced",
            Self::RangesOnly => "ranges only",
            Self::Collector => "collector",
            Self::Nsys => "nsys",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Untraced => "the command as it is, no library of ours in it",
            Self::RangesOnly => "NVTX ranges timed by the collector, CUPTI off (STAGE2_GPU=off)",
            Self::Collector => "every kernel recorded and placed in its range",
            Self::Nsys => "`nsys profile` with pipeline.nsys.*; its whole time includes its report",
        }
    }

    /// Every round measures it once more: two equal runs show how far such runs differ (A/A).
    pub(super) fn is_measured_twice(self) -> bool {
        matches!(self, Self::Untraced | Self::RangesOnly)
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Configuration {
    pub(super) name: String,
    #[serde(skip)]
    pub(super) tracing: Tracing,
    /// The second measurement of an A/A pair.
    #[serde(skip)]
    pub(super) again: bool,
    pub(super) what: String,
    /// Index of its pass in a plan.
    #[serde(skip)]
    pub(super) pass: usize,
    pub(super) runs: Vec<Run>,
    /// Why there are no (more) runs.
    pub(super) failed: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Run {
    pub(super) round: u32,
    pub(super) exit: Option<WorkloadExit>,
    /// From the start of the process to its end.
    pub(super) duration_ns: Option<u64>,
    pub(super) stages: Vec<StageTime>,
    /// Records of GPU work, where it was to be recorded.
    pub(super) gpu_records: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct StageTime {
    pub(super) stage: String,
    /// Times that it was opened.
    pub(super) instances: Option<u64>,
    /// Median host time of its instances without the first; of the first where it is the only one.
    pub(super) host_ns: u64,
}

impl Configuration {
    pub(super) fn new(tracing: Tracing, pass: usize, failed: Option<String>) -> Self {
        let (name, what) = (tracing.name().to_owned(), tracing.what().to_owned());
        Self { name, tracing, again: false, what, pass, runs: Vec::new(), failed }
    }

    /// The second of an A/A pair.
    pub(super) fn again(&self) -> Self {
        Self { name: format!("{} again", self.name), again: true, ..self.clone() }
    }

    /// The runs that say something: those up to one that failed are as good as any.
    pub(super) fn good_runs(&self) -> &[Run] {
        match self.runs.split_last() {
            Some((_, before)) if self.failed.is_some() => before,
            _ => &self.runs,
        }
    }
}

impl Run {
    pub(super) fn new(round: u32, ran: &PassOutcome, recorded: Recorded) -> Self {
        let duration_ns = ran.duration.and_then(|d| u64::try_from(d.as_nanos()).ok());
        let Recorded { stages, gpu_records, .. } = recorded;
        Self { round, exit: ran.exit, duration_ns, stages, gpu_records }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    pub(super) stages: Vec<StageTime>,
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
pub(super) fn recorded(pass: &Pass, libraries: &RangeNames) -> anyhow::Result<Recorded> {
    let Some(folder) = pass.folders.first() else { return Ok(Recorded::default()) };
    if pass.profiler.is_some() {
        let path = folder.join(format!("{NSYS_BASE}.sqlite"));
        let tables = sqlite::load(&path, libraries).map_err(|finding| anyhow!("{finding}"))?;
        let time = |range: &stage2_read::nsys::Range| {
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
    let capture = load_folder(folder, libraries);
    if capture.processes.is_empty() {
        if capture.files_refused == 0 && capture.findings.is_empty() {
            let folder = visible_path(folder);
            bail!(
                "{folder} has no spool file (*.s2t): no process loaded the collector, or none used \
                 CUDA or NVTX"
            );
        }
        let told: Vec<String> = capture.findings.iter().map(ToString::to_string).collect();
        bail!(told.join("; "));
    }
    let report = join(capture, RunInfo::default(), Vec::new());
    let mut findings = Vec::new();
    let mut gpu_records = None;
    if pass.name == "collect" {
        gpu_records = Some(report.coverage.gpu_records());
        let processes = &report.coverage.processes;
        let off = processes.iter().filter_map(|p| Some((p.pid, p.gpu_off.as_deref()?)));
        for (pid, why) in off {
            if gpu_records == Some(0) {
                bail!("GPU work was not recorded: {why}");
            }
            let pid = pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
            let what = format!("collector: GPU work{pid} was not recorded");
            findings.push(Finding::new(Severity::Warning, what, why, ""));
        }
    }
    let rows = report.stages.iter().filter(|row| row.kind == PathKind::Range);
    let time = |row: &stage2_model::StageRow| {
        Some(StageTime {
            stage: row.stage.clone(),
            instances: row.instances,
            host_ns: row.host_warm_median_ns.or(row.host_first_ns)?,
        })
    };
    let stages = rows.filter_map(time).collect();
    Ok(Recorded { stages, simulated: report.simulated, gpu_records, findings })
}
