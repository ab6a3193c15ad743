//! A run's folder -> its reports: `kernels.md`, `kernels.csv`, `metrics.json`, `report.md`,
//! `report.html`, `operators.md` and `stakeholder_summary.md`.

mod advice;
pub(crate) mod artifacts;
mod costs;
pub(crate) mod diff;
mod energy;
mod headline;
mod html;
mod json;
mod kernels;
pub mod operators;
mod page;
mod ranks;
mod regions;
mod report;
#[cfg(test)]
mod sample_answer;
mod sampled;
mod scopes;
mod stages;
mod steps;
mod summary;
pub(crate) mod table;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::outcome::Outcome;
use crate::threads;
use anyhow::Context as _;
use stage2_model::{Operators, Report};
use stage2_read::files::{remedy, stream_whole};
use stage2_report::insight::Shown;
use stage2_report::{Analysis, Settings, Sources, analyse};

/// Analyses a run's folder and writes the reports into it. What is absent or damaged costs its own
/// part of them, and a finding says so.
///
/// # Errors
/// A folder that is not there, or that cannot be written.
pub fn write_reports(run_dir: &Path) -> anyhow::Result<Outcome> {
    let is_folder = fs::metadata(run_dir)
        .with_context(|| format!("{} cannot be read; name the folder of a run", run_dir.display()))?
        .is_dir();
    anyhow::ensure!(is_folder, "{} is no folder; name the folder of a run", run_dir.display());
    let sources = Sources::of_run(run_dir);
    let settings = Settings::of_run(run_dir);
    let Analysis { report, top_n, shown, read, workload } = analyse(&sources, &settings);
    let files = write_files(&report, top_n, &shown, run_dir)?;
    Ok(Outcome {
        headline: headline::headline(&report, &run_dir.join("report.md")),
        coverage: serde_json::to_value(&report.coverage).context("coverage is no JSON")?,
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

/// The versions that the captures name.
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

fn write_files(
    report: &Report,
    top_n: usize,
    shown: &Shown,
    run_dir: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let write = |name: &str, content: &dyn Fn(&mut dyn Write) -> anyhow::Result<()>| {
        let path = run_dir.join(name);
        stream_whole(&path, content).map_err(|error| {
            let (shown, usual) =
                (path.display(), "check the space and the permissions of its folder");
            let remedy = remedy(&format!("{error:#}"), run_dir).unwrap_or(usual);
            error.context(format!("{shown} cannot be written; {remedy}"))
        })?;
        anyhow::Ok(path)
    };
    let text = |page: String| move |sink: &mut dyn Write| Ok(sink.write_all(page.as_bytes())?);
    std::thread::scope(|scope| {
        // It takes as long as all others.
        let metrics =
            threads::begin(scope, || write("metrics.json", &|sink| Ok(json::write(sink, report)?)));
        let mut files = vec![
            write("kernels.md", &text(kernels::kernels_md(report, top_n)))?,
            write("kernels.csv", &|sink| Ok(kernels::csv::kernels_csv(report, sink)?))?,
        ];
        if !report.ncu_regions.is_empty() {
            let regions = &report.ncu_regions;
            files.push(write("ncu_regions.csv", &|s| Ok(regions::regions_csv(regions, s)?))?);
        }
        let whole = report::page(report);
        let nothing = Operators::default();
        let operators = report.insight.operators.as_ref().unwrap_or(&nothing);
        let operators = operators::page(report, operators, shown.operators_top_n);
        let summary = summary::page(report, shown);
        files.push(metrics.join().context("the thread that writes metrics.json panicked")??);
        files.push(write("report.md", &text(whole.markdown()))?);
        files.push(write("operators.md", &text(operators.markdown()))?);
        files.push(write("stakeholder_summary.md", &text(summary.markdown()))?);
        files.push(write(
            "report.html",
            &text(html::report_html(report, &summary, &whole, &operators)),
        )?);
        Ok(files)
    })
}
