//! A run's folder -> its reports: `kernels.md`, `kernels.csv`, `metrics.json`, `report.md`,
//! `report.html`, `operators.md` and `stakeholder_summary.md`.

pub(crate) mod artifacts;
mod first_screen;
mod headline;
mod in_part;
mod inputs;
mod insight;
mod kernels_csv;
mod kernels_md;
pub mod model;
pub mod numbers;
pub mod operators_md;
mod ranks_md;
mod regions;
mod report_html;
mod report_md;
mod stakeholder;
pub mod stakeholder_md;
mod steps;
pub(crate) mod table;
mod workload_end;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use stage2_figures::text::visible;

use crate::bundle::{BASELINE_DIR, NCU_DIR, NSYS_DIR, stream_whole};
use crate::claims::Workload;
use crate::finding::Finding;
use crate::load::Capture;
use crate::load::libraries::LibraryDomains;
use crate::load::spool::load_folder_with;
use crate::load::stats::mean;
use crate::merge::{counters, empty, fallback, merge, overhead, passes, same_name, timeline};
use crate::roofline::hardware::{self, Catalogue, Hardware};
use crate::{ncu, nsys};
use insight::Shown;
use model::{DeviceRow, Fact, Origin, ProcessRow, Report, Times};

/// Folder of the spools in a run's folder.
const COLLECTOR: &str = "collector";
/// Name of the pass that writes them.
const COLLECT: &str = "collect";

/// What the reports of a bundle say in short.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Files that were written.
    pub files: Vec<PathBuf>,
    /// Passes of which something could be read: `collect`, `nsys`, `ncu`.
    pub read: Vec<&'static str>,
    /// What is missing or has to be read with care.
    pub findings: Vec<Finding>,
    /// What the reports cover.
    pub coverage: serde_json::Value,
    /// The same in one word.
    pub status: model::Status,
    /// Lines for the terminal.
    pub headline: Vec<String>,
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

/// What the configuration that a workload left in the bundle says. Empty: it left none.
#[derive(Clone, Debug, Default)]
pub struct WorkloadFacts {
    /// Name of its model.
    pub model: Option<String>,
    /// The list of inputs that it reads, and the key that names it.
    pub manifest: Option<(String, PathBuf)>,
    /// Keys that say what ran, and their values.
    pub configured: BTreeMap<String, String>,
}

/// Reads `RUN_DIR/{run.json,env.json,config.yaml,{collector,baseline}/*.s2t}` and writes the reports. What is
/// absent or damaged costs its own part of them, and a finding says so.
///
/// # Errors
/// A folder that is not there, or that cannot be written.
pub fn write_reports(run_dir: &Path) -> anyhow::Result<Outcome> {
    let is_folder = fs::metadata(run_dir)
        .with_context(|| format!("{} cannot be read; name the folder of a run", run_dir.display()))?
        .is_dir();
    anyhow::ensure!(is_folder, "{} is no folder; name the folder of a run", run_dir.display());
    let mut inputs = inputs::read_inputs(run_dir);
    let manifest_key = inputs.config.pointer("/workload/manifest_key");
    let manifest_key = manifest_key.and_then(serde_json::Value::as_str);
    let workload = Workload::read(run_dir, manifest_key, &mut inputs.findings);
    let facts = workload.facts();
    inputs.run.environment.extend(facts.iter().map(|(key, value)| Fact {
        key: format!("workload.{key}"),
        value: visible(value.as_bytes()),
    }));
    // Of captures that were taken elsewhere, some have none of the collector's.
    let passes = &inputs.run.passes;
    let collected = passes.is_empty() || passes.iter().any(|p| p.name.as_deref() == Some(COLLECT));
    let load = |folder: &Path| load_folder_with(folder, &inputs.libraries);
    let capture = if collected { load(&run_dir.join(COLLECTOR)) } else { Capture::default() };
    let mut report = merge(capture, inputs.run, inputs.findings);
    if inputs.simulated {
        report.mark_simulated();
    }
    let nvtx_package = inputs.nvtx_package.as_deref();
    let gated = overhead::InForce::of(&inputs.config).nsys_gated;
    let known = (&inputs.hardware, &inputs.libraries, nvtx_package, gated);
    let mut read = add_tools(&mut report, run_dir, known);
    regions::add(&mut report, run_dir, &inputs.config);
    read.extend((!report.ncu_regions.is_empty()).then_some(NCU_DIR));
    read.extend((!report.coverage.processes.is_empty()).then_some(COLLECT));
    empty::explain(&mut report, collected);
    workload_end::explain(&mut report);
    let baseline = run_dir.join(BASELINE_DIR);
    let baseline = baseline.is_dir().then(|| load(&baseline));
    let wanted = inputs.config.pointer("/run/baseline").and_then(serde_json::Value::as_bool);
    passes::add(&mut report, baseline, wanted);
    let context = insight::Context {
        run_dir,
        config: &inputs.config,
        workload: &workload,
        argv: &inputs.argv,
    };
    let shown = insight::add(&mut report, &context);
    overhead::explain(&mut report, &inputs.config);
    let files = write_files(&report, inputs.top_n, &shown, run_dir)?;
    Ok(Outcome {
        headline: headline::headline(&report, &run_dir.join("report.md")),
        coverage: serde_json::to_value(&report.coverage).context("coverage is no JSON")?,
        status: report.coverage.verdict.status,
        tools: tools(&report),
        workload: WorkloadFacts {
            model: workload.model(),
            manifest: workload.manifest().map(|(key, path)| (key.to_owned(), path)),
            configured: facts,
        },
        processes: report.processes,
        devices: report.devices,
        findings: report.findings,
        read,
        simulated: report.simulated,
        files,
    })
}

/// What ncu and nsys measured, beside what the collector did, or instead of it; names those of which
/// something could be read.
fn add_tools(
    report: &mut Report,
    run_dir: &Path,
    (configured, libraries, nvtx_package, gated): (&Hardware, &LibraryDomains, Option<&str>, bool),
) -> Vec<&'static str> {
    let mut findings = Vec::new();
    let mut nsys = nsys::load::folder::captures(&run_dir.join(NSYS_DIR), libraries, &mut findings);
    let mut ncu = ncu::load::folder::reports(&run_dir.join(NCU_DIR), &mut findings);
    if let Some(tables) = &mut ncu {
        tables.leave_out(libraries);
    }
    // A database that is whole was read, also where nothing was recorded into it.
    let rows = |t: &nsys::load::Tables| {
        t.source != nsys::load::Source::Csv || !t.kernels.is_empty() || !t.ranges.is_empty()
    };
    let launches = ncu.as_ref().is_some_and(|tables| !tables.launches.is_empty());
    let of_nsys = nsys.iter().any(rows).then_some(NSYS_DIR);
    let read = of_nsys.into_iter().chain(launches.then_some(NCU_DIR)).collect();
    fallback::rows(report, &nsys, ncu.as_ref(), libraries);
    let device = report.devices.iter().find_map(|device| device.name.clone());
    let resolved = hardware::resolve(&Catalogue::built_in(), configured, device.as_deref());
    report.peaks = resolved.peaks;
    if report.source == Origin::Collector.label() {
        same_name::of_nsys(report, &mut nsys);
    }
    if let Some(mut tables) = ncu {
        same_name::of_ncu(report, &mut tables);
        let peaks = report.peaks.clone();
        counters::attach(report, &tables, peaks.as_ref());
        // Without counters nothing is held against the peaks.
        findings.extend(resolved.findings);
    }
    timeline::compare(report, &nsys, nvtx_package, gated);
    report.findings.extend(findings);
    read
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
    write("kernels.md", &|sink| {
        Ok(sink.write_all(kernels_md::kernels_md(report, top_n).as_bytes())?)
    })?;
    write("kernels.csv", &|sink| Ok(kernels_csv::kernels_csv(report, sink)?))?;
    if !report.ncu_regions.is_empty() {
        write("ncu_regions.csv", &|sink| Ok(regions::regions_csv(&report.ncu_regions, sink)?))?;
    }
    write("metrics.json", &|sink| {
        serde_json::to_writer_pretty(&mut *sink, report)?;
        Ok(sink.write_all(b"\n")?)
    })?;
    let whole = report_md::report_md(report);
    write("report.md", &|sink| Ok(sink.write_all(whole.as_bytes())?))?;
    let operators = stakeholder::operators(report, shown);
    write("operators.md", &|sink| Ok(sink.write_all(operators.as_bytes())?))?;
    let page = stakeholder::page(report, shown);
    let summary = stakeholder_md::stakeholder_md(&page);
    write("stakeholder_summary.md", &|sink| Ok(sink.write_all(summary.as_bytes())?))?;
    write("report.html", &|sink| {
        let pages = [summary.as_str(), &whole, &operators];
        Ok(sink.write_all(report_html::report_html(report, &page, pages).as_bytes())?)
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
