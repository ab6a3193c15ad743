//! A run's folder -> its reports: `kernels.md`, `kernels.csv`, `metrics.json`, `report.md`,
//! `report.html`, `operators.md` and `stakeholder_summary.md`.

pub(crate) mod artifacts;
mod headline;
mod html;
mod kernels;
pub mod operators;
mod page;
mod ranks;
mod regions;
mod report;
mod steps;
pub mod summary;
pub(crate) mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::outcome::Outcome;
use anyhow::Context as _;
use stage2_analysis::files::stream_whole;
use stage2_analysis::insight::Shown;
use stage2_analysis::load::stats::mean;
use stage2_analysis::{Analysis, analyse};
use stage2_model::{Report, Times};

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
    let Analysis { report, top_n, shown, read, workload } = analyse(run_dir);
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
    let mut versions: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let collectors = report.coverage.processes.iter().filter_map(|p| p.collector.as_deref());
    let nsys = report.nsys.iter().flat_map(|nsys| &nsys.captures);
    let nsys = nsys.filter_map(|capture| capture.tool_version.as_deref());
    let collectors = collectors.map(|version| ("collector", version));
    for (tool, version) in collectors.chain(nsys.map(|version| ("nsys", version))) {
        versions.entry(tool.to_owned()).or_default().insert(version);
    }
    let joined = |seen: BTreeSet<&str>| seen.into_iter().collect::<Vec<_>>().join(", ");
    versions.into_iter().map(|(tool, seen)| (tool, joined(seen))).collect()
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
        stream_whole(&path, content).with_context(|| {
            let shown = path.display();
            format!("{shown} cannot be written; check the space and the permissions of its folder")
        })?;
        files.push(path);
        anyhow::Ok(())
    };
    write(
        "kernels.md",
        &|sink| Ok(sink.write_all(kernels::kernels_md(report, top_n).as_bytes())?),
    )?;
    write("kernels.csv", &|sink| Ok(kernels::csv::kernels_csv(report, sink)?))?;
    if !report.ncu_regions.is_empty() {
        write("ncu_regions.csv", &|sink| Ok(regions::regions_csv(&report.ncu_regions, sink)?))?;
    }
    write("metrics.json", &|sink| {
        serde_json::to_writer_pretty(&mut *sink, report)?;
        Ok(sink.write_all(b"\n")?)
    })?;
    let whole = report::report_md(report);
    write("report.md", &|sink| Ok(sink.write_all(whole.as_bytes())?))?;
    let operators = summary::page::operators(report, shown);
    write("operators.md", &|sink| Ok(sink.write_all(operators.as_bytes())?))?;
    let page = summary::page::page(report, shown);
    let shown_summary = summary::stakeholder_md(&page);
    write("stakeholder_summary.md", &|sink| Ok(sink.write_all(shown_summary.as_bytes())?))?;
    write("report.html", &|sink| {
        let pages = [shown_summary.as_str(), &whole, &operators];
        Ok(sink.write_all(html::report_html(report, &page, pages).as_bytes())?)
    })?;
    Ok(files)
}

/// Rows of one kernel together.
#[derive(Clone, Copy, Default)]
struct KernelSum {
    total_ns: u64,
    calls: u64,
    timed: u64,
    /// Some of it is scaled from a sample.
    scaled: bool,
    /// Least and greatest mean of the rows, ns.
    means_ns: Option<(u64, u64)>,
}

impl KernelSum {
    fn add(&mut self, times: &Times) {
        let timed = times.calls.saturating_sub(times.invalid_timestamp_calls);
        self.total_ns = self.total_ns.saturating_add(times.total_ns);
        self.calls = self.calls.saturating_add(times.calls);
        self.timed = self.timed.saturating_add(timed);
        self.scaled |= times.recorded_calls.is_some();
        if let Some(mean) = times.mean_ns {
            let (least, greatest) = self.means_ns.unwrap_or((mean, mean));
            self.means_ns = Some((least.min(mean), greatest.max(mean)));
        }
    }

    /// Total over calls, ns. The sums of a sample are rounded, each by itself: that carries their
    /// quotient no further than the means of the rows.
    fn mean_ns(&self) -> Option<u64> {
        let mean = mean(self.total_ns, self.timed)?;
        let means = self.means_ns.filter(|_| self.scaled);
        Some(means.map_or(mean, |(least, greatest)| mean.clamp(least, greatest)))
    }
}

/// A kernel over the whole run.
struct TopKernel<'r> {
    name: &'r str,
    calls: u64,
    mean_ns: Option<u64>,
    percent: Option<f64>,
}

/// The kernels with the longest total over the whole run.
fn top_kernels(report: &Report, limit: usize) -> Vec<TopKernel<'_>> {
    let mut sums: HashMap<usize, KernelSum> = HashMap::new();
    let mut all_ns = 0u64;
    for row in &report.kernels {
        sums.entry(row.name_index).or_default().add(&row.times);
        all_ns = all_ns.saturating_add(row.times.total_ns);
    }
    let mut sorted: Vec<(usize, KernelSum)> = sums.into_iter().collect();
    sorted.sort_by_key(|&(name, sum)| (std::cmp::Reverse(sum.total_ns), name));
    let kernel = |(name, sum): (usize, KernelSum)| TopKernel {
        name: report.kernel_names.get(name).map_or("", |name| name.short.as_str()),
        calls: sum.calls,
        mean_ns: sum.mean_ns(),
        percent: (all_ns > 0).then(|| sum.total_ns as f64 * 100.0 / all_ns as f64),
    };
    sorted.into_iter().take(limit).map(kernel).collect()
}
