//! A folder of a run -> its reports, and what they say in short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use stage2_model::{DeviceRow, EmptyCause, Finding, ProcessRow, Report, Status};
use stage2_render::Headline;
use stage2_report::{Analysis, Settings, Sources, WorkloadFacts, analyse};

/// Analyses a run's folder and writes the reports into it. What is absent or damaged costs its own
/// part of them, and a finding reports it.
///
/// # Errors
/// A folder that is not there, or that cannot be written.
pub fn write_reports(run_dir: &Path) -> anyhow::Result<Outcome> {
    replace_reports(run_dir, |_| None)
}

/// As [`write_reports`], except that nothing is written if `refused` finds a reason in the report.
///
/// # Errors
/// Those of [`write_reports`], and the reason.
pub(crate) fn replace_reports(
    run_dir: &Path,
    refused: impl FnOnce(&Report) -> Option<String>,
) -> anyhow::Result<Outcome> {
    let is_folder = fs::metadata(run_dir)
        .with_context(|| format!("{} cannot be read; name the folder of a run", run_dir.display()))?
        .is_dir();
    anyhow::ensure!(is_folder, "{} is not a folder; name the folder of a run", run_dir.display());
    let sources = Sources::of_run(run_dir);
    let settings = Settings::of_run(run_dir);
    let Analysis { mut report, top_n, shown, read, workload } = analyse(&sources, &settings);
    if let Some(why) = refused(&report) {
        anyhow::bail!(why);
    }
    let files = stage2_render::write_files(&mut report, top_n, &shown, run_dir)?;
    Ok(Outcome {
        headline: stage2_render::headline(&report, run_dir),
        coverage: serde_json::to_value(&report.coverage)
            .context("coverage cannot be written as JSON")?,
        status: report.coverage.verdict.status,
        tools: tools(&report),
        workload,
        processes: report.processes,
        devices: report.devices,
        findings: report.findings,
        read,
        simulated: report.simulated,
        files,
    })
}

fn tools(report: &Report) -> BTreeMap<String, String> {
    let collectors = report.coverage.processes.iter().filter_map(|p| p.collector.as_deref());
    let nsys = report.nsys.iter().flat_map(|nsys| &nsys.captures);
    let nsys = nsys.filter_map(|capture| capture.tool_version.as_deref());
    let seen: [(&str, BTreeSet<&str>); 2] =
        [("collector", collectors.collect()), ("nsys", nsys.collect())];
    let joined = |seen: BTreeSet<&str>| seen.into_iter().collect::<Vec<_>>().join(", ");
    let seen = seen.into_iter().filter(|(_, versions)| !versions.is_empty());
    seen.map(|(tool, versions)| (tool.to_owned(), joined(versions))).collect()
}

/// What the reports of a bundle say in short.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Files that were written.
    pub files: Vec<PathBuf>,
    /// Passes that left something readable: `collect`, `nsys`, `ncu`.
    pub read: Vec<&'static str>,
    /// What is missing or has to be read with care.
    pub findings: Vec<Finding>,
    /// What the reports cover.
    pub coverage: serde_json::Value,
    /// How much of the run the reports cover, in one word.
    pub status: Status,
    /// What a terminal shows at the end.
    pub headline: Headline,
    /// Whether the records come from a simulated GPU.
    pub simulated: bool,
    /// Processes, as the captures describe them.
    pub processes: Vec<ProcessRow>,
    /// GPUs, as the captures describe them.
    pub devices: Vec<DeviceRow>,
    /// Versions of the tools that recorded, as far as the captures say.
    pub tools: BTreeMap<String, String>,
    /// What the workload's own configuration says.
    pub workload: WorkloadFacts,
}

impl Outcome {
    /// Whether summaries were asked for in place of records.
    pub(crate) fn is_summary(&self) -> bool {
        self.coverage["empty"]["cause"] == serde_json::json!(EmptyCause::SummaryAlone)
    }
}
