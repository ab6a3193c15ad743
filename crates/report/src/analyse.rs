//! The sources of a run, and settings -> its report, complete.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::answer::{self, ANNOTATION};
use crate::conclusions::{self, Shown};
use crate::inputs::{Settings, Sources};
use crate::join::{
    WholeCalls, counters, empty, energy, join_kept, overhead, requests, same_name, timeline,
    without_collector,
};
use crate::roofline::hardware::{self, Catalogue};
use crate::workload_config::Workload;
use crate::{host, sampled, step_timeline, workload_end};
use jiff::{Timestamp, Unit};
use serde_json::Value;
use stage2_contract::text::visible;
use stage2_model::{Fact, Finding, Origin, Report, RunInfo};
use stage2_read::layout::{
    BASELINE_DIR, COLLECT, COLLECTOR_DIR, COUNTERS_DIR, NCU_DIR, NCU_REGIONS_DIR, NSYS_DIR,
};
use stage2_read::trace::Capture;
use stage2_read::trace::folder::load_folder;
use stage2_read::{ncu, nsys};

/// A report, and what its views need next to it.
#[derive(Debug)]
pub struct Analysis {
    /// The report.
    pub report: Report,
    /// Rows of `kernels.md`.
    pub top_n: usize,
    /// What the pages of operators and Stage 1 show.
    pub shown: Shown,
    /// Passes that left something readable: `collect`, `nsys`, `ncu`.
    pub read: Vec<&'static str>,
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

/// Reads the captures of `sources`, and makes their report. What is absent or damaged costs its own part
/// of it, and a finding reports it.
pub fn analyse(sources: &Sources, settings: &Settings) -> Analysis {
    let captures = Captures::read(sources, settings);
    let joined = captures.join(sources, settings);
    joined.conclude(sources, settings)
}

/// What the passes left, read: the first of the values on the way to a report, each whole when it exists.
struct Captures {
    given: WorkloadInputs,
    run: RunInfo,
    /// There was a collect pass, or that is not known.
    collected: bool,
    capture: Capture,
    tools: Tools,
    findings: Vec<Finding>,
}

struct WorkloadInputs {
    workload: Workload,
    /// What that says: keys and values.
    configured: BTreeMap<String, String>,
    /// The command of the collect pass, redacted.
    argv: Vec<String>,
}

/// The rows of all sources, side by side.
struct JoinedReport {
    given: WorkloadInputs,
    /// Still needed for the work of the median steps.
    capture: Capture,
    report: Report,
    /// What may take the place of the steps of a stage, by its name.
    whole_calls: BTreeMap<String, WholeCalls>,
    read: Vec<&'static str>,
}

impl Captures {
    fn read(sources: &Sources, settings: &Settings) -> Self {
        let run_dir = sources.run_dir.as_path();
        let config = &settings.config;
        let mut run = sources.run.clone();
        let mut findings =
            [&sources.findings[..], &settings.findings, &sources.run_findings].concat();
        let manifest_key = config.pointer("/workload/manifest_key");
        let manifest_key = manifest_key.and_then(Value::as_str);
        let mut workload = Workload::read(run_dir, manifest_key, &mut findings);
        // Bundles of older versions, and what others wrote, were not redacted.
        let redactor = &settings.redactor;
        workload.redact(redactor);
        run.command = run.command.map(|words| redactor.words(words));
        let argv = redactor.words(&sources.argv);
        // Captures that were taken elsewhere were not profiled by these settings.
        if !argv.is_empty() {
            run.profiled = profiled(config);
        }
        let configured = workload.configured();
        run.environment.extend(configured.iter().map(|(key, value)| Fact {
            key: format!("workload.{key}"),
            value: visible(value.as_bytes()),
        }));
        // Of captures that were taken elsewhere, some have none of the collector's.
        let passes = &run.passes;
        let collected =
            passes.is_empty() || passes.iter().any(|p| p.name.as_deref() == Some(COLLECT));
        let mut capture = if collected {
            // Rows of other tools are joined by stage, and these tools infer no stages.
            let alone = [NSYS_DIR, NCU_DIR].iter().all(|other| !run_dir.join(other).is_dir());
            let infers = alone && !settings.libraries.keeps_whole;
            let names = settings.libraries.clone().and_infers_stages(infers);
            load_folder(&run_dir.join(COLLECTOR_DIR), &names)
        } else {
            Capture::default()
        };
        capture.redact(redactor);
        if sources.merged {
            recorded(&mut run, &capture);
        }
        let tools = Tools::read(run_dir, settings);
        let given = WorkloadInputs { workload, configured, argv };
        Self { given, run, collected, capture, tools, findings }
    }

    fn join(self, sources: &Sources, settings: &Settings) -> JoinedReport {
        let Self { given, run, collected, mut capture, tools, findings } = self;
        let (run_dir, config) = (sources.run_dir.as_path(), &settings.config);
        let (mut report, whole_calls) = join_kept(&mut capture, run, findings);
        if sources.simulated {
            report.mark_simulated();
        }
        let mut read = tools.add_to(&mut report, sources, settings);
        let counters = run_dir.join(COUNTERS_DIR);
        let counters = counters.is_dir().then(|| load_folder(&counters, &settings.libraries));
        sampled::add(&mut report, counters.as_ref().unwrap_or(&capture), &settings.libraries);
        if let Some(sampled) = &mut report.sampled {
            sampled.own_run = counters.is_some();
        }
        report.findings.extend(counters.map(overhead::of_counters_pass).unwrap_or_default());
        report.findings.extend(overhead::counters_that_ended_early(&report));
        let overloaded = report.host.as_ref().map(host::overloaded);
        report.findings.extend(overloaded.unwrap_or_default());
        add_regions(&mut report, run_dir, config);
        read.extend((!report.ncu_regions.is_empty()).then_some(NCU_DIR));
        read.extend((!report.coverage.processes.is_empty()).then_some(COLLECT));
        empty::explain(&mut report, collected, &sources.doctor);
        workload_end::explain(&mut report);
        let baseline = run_dir.join(BASELINE_DIR);
        let baseline = baseline.is_dir().then(|| load_folder(&baseline, &settings.libraries));
        let wanted = config.pointer("/run/baseline").and_then(Value::as_bool);
        overhead::add_costs(&mut report, baseline, wanted);
        JoinedReport { given, capture, report, whole_calls, read }
    }
}

impl JoinedReport {
    fn conclude(self, sources: &Sources, settings: &Settings) -> Analysis {
        let Self { given, capture, mut report, whole_calls, read } = self;
        let WorkloadInputs { workload, configured, argv } = given;
        let (run_dir, config) = (sources.run_dir.as_path(), &settings.config);
        let roles = &settings.libraries.roles;
        report.set_kernel_ids();
        // What the host did in the median steps is among what the conclusions are drawn from.
        conclusions::mark_stages(&mut report, config, roles);
        step_timeline::add(&mut report, capture, &settings.libraries, whole_calls);
        let context =
            conclusions::Context { run_dir, config, workload: &workload, argv: &argv, roles };
        let (shown, measured) = conclusions::add(&mut report, &context);
        overhead::explain(&mut report, config);
        answer::add(&mut report, &measured);
        energy::conclude(&mut report);
        requests::conclude(&mut report, settings.gpu_hour_dollars);
        conclusions::finding_evidence::add(&mut report);
        let workload = WorkloadFacts {
            model: workload.model(),
            manifest: workload.manifest().map(|(key, path)| (key.to_owned(), path)),
            configured,
        };
        Analysis { report, top_n: settings.top_n, shown, read, workload }
    }
}

/// Command and start of a merged run: those of what was recorded, not of the merge. Of several processes, the command of
/// the one with the most GPU work. What is not known of them stays as it is.
fn recorded(run: &mut RunInfo, capture: &Capture) {
    let with_work = capture.processes.iter().filter(|process| process.counts.gpu_records() > 0);
    let most = with_work.max_by_key(|process| process.counts.gpu_records());
    let command = most.and_then(|most| most.process.as_ref()).map(|who| who.argv.iter());
    let command = command.filter(|words| words.len() > 0);
    if let Some(words) = command {
        run.command = Some(words.map(|word| visible(word.as_bytes())).collect());
    }
    let anchors = capture.processes.iter().filter_map(|process| process.first_anchor.as_ref());
    let begun = anchors.map(|anchor| anchor.wall.0).filter(|ns| *ns > 0).min();
    let begun = begun.and_then(|ns| Timestamp::from_nanosecond(ns.into()).ok());
    if let Some(at) = begun {
        run.started = Some(format!("{:.3}", at.round(Unit::Millisecond).unwrap_or(at)));
    }
}

/// What of the configuration states how the workload was profiled. Names of files, and what trace files state
/// themselves (ranges, sample, graphs), are left out.
fn profiled(config: &Value) -> Vec<Fact> {
    const ELSEWHERE: [&str; 7] =
        ["cupti", "library", "log", "counters", "ranges", "sample", "graph"];
    let text = |value: &Value| match value {
        Value::String(text) => visible(text.as_bytes()),
        value => visible(value.to_string().as_bytes()),
    };
    let mut facts = Vec::new();
    let mut add = |key: &str, value: String| facts.push(Fact { key: key.to_owned(), value });
    if let Some(mode) = config.pointer("/run/mode") {
        add("mode", text(mode));
    }
    if let Some(annotate) = config.pointer("/operators/annotate").and_then(Value::as_array) {
        let mut words: Vec<String> = annotate.iter().map(text).collect();
        words.sort();
        add(ANNOTATION, if words.is_empty() { "none".to_owned() } else { words.join(", ") });
    }
    if let Some(collector) = config.pointer("/profiling/collector").and_then(Value::as_object) {
        let own = collector.iter().filter(|(key, _)| !ELSEWHERE.contains(&key.as_str()));
        let set = own.filter(|(_, value)| !value.is_null());
        let set: Vec<String> = set.map(|(key, value)| format!("{key}={}", text(value))).collect();
        add("collector settings", set.join(", "));
    }
    facts
}

struct Tools {
    nsys: Vec<nsys::Tables>,
    ncu: Option<ncu::load::Tables>,
    findings: Vec<Finding>,
}

impl Tools {
    fn read(run_dir: &Path, settings: &Settings) -> Self {
        let libraries = &settings.libraries;
        let mut findings = Vec::new();
        let mut nsys = nsys::folder::captures(&run_dir.join(NSYS_DIR), libraries, &mut findings);
        let said = nsys.iter_mut().flat_map(|tables| &mut tables.said);
        said.for_each(|text| *text = settings.redactor.text(text));
        let mut ncu = ncu::load::reports(&run_dir.join(NCU_DIR), &mut findings);
        if let Some(tables) = &mut ncu {
            tables.leave_out(libraries);
        }
        Self { nsys, ncu, findings }
    }

    /// Adds what they measured; where the collector has no rows, the report has theirs. Gives the tools that
    /// left something readable.
    fn add_to(
        self,
        report: &mut Report,
        sources: &Sources,
        settings: &Settings,
    ) -> Vec<&'static str> {
        let Self { mut nsys, ncu, mut findings } = self;
        // A database that is whole was read, also where nothing was recorded into it.
        let rows = |t: &nsys::Tables| {
            t.source != stage2_model::nsys::Source::Csv
                || !t.kernels.is_empty()
                || !t.ranges.is_empty()
        };
        let launches = ncu.as_ref().is_some_and(|tables| !tables.launches.is_empty());
        let of_nsys = nsys.iter().any(rows).then_some(NSYS_DIR);
        let read = of_nsys.into_iter().chain(launches.then_some(NCU_DIR)).collect();
        without_collector::rows(report, &nsys, ncu.as_ref(), &settings.libraries);
        let device = report.devices.iter().find_map(|device| device.name.clone());
        let resolved =
            hardware::resolve(&Catalogue::built_in(), &settings.hardware, device.as_deref());
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
        let nsys_gated = overhead::InForce::of(&settings.config).nsys_gated;
        timeline::compare(report, &nsys, sources.nvtx_package.as_deref(), nsys_gated);
        report.findings.extend(findings);
        read
    }
}

/// Reads `ncu/regions` into the report; leaves it alone where nothing was measured by region.
fn add_regions(report: &mut Report, run_dir: &Path, config: &Value) {
    let mut findings = Vec::new();
    let launches = ncu::regions::read(&run_dir.join(NCU_REGIONS_DIR), &mut findings);
    if !launches.is_empty() {
        let settings: ncu::regions::Regions =
            crate::inputs::section(config, "pipeline.ncu.regions", &mut findings);
        report.ncu_regions = ncu::regions::tables(&launches, &settings, &mut findings);
    }
    report.findings.extend(findings);
}
