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
use anyhow::Context as _;
use stage2_analysis::files::{remedy, stream_whole};
use stage2_analysis::insight::Shown;
use stage2_analysis::{Analysis, Settings, Sources, analyse};
use stage2_model::{Operators, Report};

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
    let mut files = Vec::new();
    let mut write = |name: &str, content: &dyn Fn(&mut dyn Write) -> anyhow::Result<()>| {
        let path = run_dir.join(name);
        stream_whole(&path, content).map_err(|error| {
            let (shown, usual) =
                (path.display(), "check the space and the permissions of its folder");
            let remedy = remedy(&format!("{error:#}"), run_dir).unwrap_or(usual);
            error.context(format!("{shown} cannot be written; {remedy}"))
        })?;
        files.push(path);
        anyhow::Ok(())
    };
    let text = |page: String| move |sink: &mut dyn Write| Ok(sink.write_all(page.as_bytes())?);
    write("kernels.md", &text(kernels::kernels_md(report, top_n)))?;
    write("kernels.csv", &|sink| Ok(kernels::csv::kernels_csv(report, sink)?))?;
    if !report.ncu_regions.is_empty() {
        write("ncu_regions.csv", &|sink| Ok(regions::regions_csv(&report.ncu_regions, sink)?))?;
    }
    write("metrics.json", &|sink| Ok(json::write(sink, report)?))?;
    let whole = report::page(report);
    let nothing = Operators::default();
    let operators = report.insight.operators.as_ref().unwrap_or(&nothing);
    let operators = operators::page(report, operators, shown.operators_top_n);
    let summary = summary::page(report, shown);
    write("report.md", &text(whole.markdown()))?;
    write("operators.md", &text(operators.markdown()))?;
    write("stakeholder_summary.md", &text(summary.markdown()))?;
    write("report.html", &text(html::report_html(report, &summary, &whole, &operators)))?;
    Ok(files)
}
