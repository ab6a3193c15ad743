//! Command, settings and what is inherited -> every pass of a run, fully spelled out.
//!
//! Pure: nothing is run, made or looked up here, so that `--dry-run` shows exactly what a run does.

mod collect;
mod ncu;
mod nsys;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Config, Mode};
use crate::hook::{self, Hook};
use crate::tools::Step;
use crate::tools::ncu::config::Ncu;
use crate::tools::nsys::config::Nsys;
use crate::workload::{Engine, Loading};
use stage2_contract::text::most_like;
use stage2_model::Finding;
use stage2_model::finding::Id;
use stage2_read::engine::Engines;
use stage2_read::layout::HOOK_DIR;
use stage2_read::trace::libraries::RangeNames;

pub(crate) use collect::{LIBRARY, is_split_by_loader};
pub(crate) use ncu::files as ncu_files;
pub(crate) use nsys::BASE as NSYS_BASE;
pub(crate) use show::{quote, show};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// Absolute.
    pub(crate) run_dir: PathBuf,
    pub(crate) passes: Vec<Pass>,
    /// What makes a Python workload mark more ranges.
    pub(crate) hook: Option<Hook>,
    /// Whether passes also follow a collect pass in which the workload failed.
    pub(crate) keep_going: bool,
    /// What names of ranges and domains mean, in what the passes read of each other.
    pub(crate) names: RangeNames,
    pub(crate) findings: Vec<Finding>,
}

impl Plan {
    /// Whether a simulator takes the place of CUPTI.
    pub(crate) fn is_simulated(&self) -> bool {
        self.passes.iter().any(|pass| pass.environment.contains_key(SIMULATOR))
    }
}

/// The variable that names the library in the place of CUPTI.
const SIMULATOR: &str = "STAGE2_CUPTI";
/// Why a simulated GPU has no ncu pass.
pub(crate) const SEES_NO_SIMULATOR: &str = "ncu sees no simulated GPU";

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pass {
    pub(crate) name: &'static str,
    /// What is run; never empty.
    pub(crate) argv: Vec<OsString>,
    /// Variables that are set, beyond the environment of this process.
    pub(crate) environment: BTreeMap<String, OsString>,
    /// Variables of the collector that the user had set, and that are left as they are.
    pub(crate) kept: BTreeMap<String, OsString>,
    pub(crate) folders: Vec<PathBuf>,
    /// A link that is made for the time of the pass.
    pub(crate) link: Option<Link>,
    pub(crate) outputs: Vec<PathBuf>,
    /// Where the output of the process is kept, too: standard output and standard error.
    pub(crate) tee: Option<(PathBuf, PathBuf)>,
    /// Where the output goes instead, with nothing to read and its own process group: the user does not see it.
    pub(crate) capture: Option<Capture>,
    /// Where the process runs; none: where this one does.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) limits: Limits,
    /// The profiler that runs the workload; none: the collector.
    pub(crate) profiler: Option<Profiler>,
    pub(crate) skip: Option<String>,
    /// Why the program of the workload does not load the collector.
    pub(crate) not_loaded: Option<String>,
}

/// Names the page by which collectors are asked to flush, as `PATH:NONCE`. Known when the process starts.
pub(crate) const FLUSH_PAGE: &str = "STAGE2_FLUSH_PAGE";
/// The folder that the collectors of a run write their trace files into.
pub(crate) const TRACE_FOLDER: &str = "STAGE2_OUT";

impl Pass {
    /// Whether the process gets [`FLUSH_PAGE`]: it loads the collector.
    pub(crate) fn has_flush_page(&self) -> bool {
        self.environment.contains_key(TRACE_FOLDER)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    /// Standard output, where it has its own file; replaced.
    pub(crate) stdout: Option<PathBuf>,
    /// Everything else; appended to.
    pub(crate) log: PathBuf,
}

impl Capture {
    /// All output in the log of a pass that has this folder.
    fn of_pass(folder: &Path) -> Option<Capture> {
        Some(Capture { stdout: None, log: folder.join("log.txt") })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// From its start until it is asked to end (SIGTERM).
    pub(crate) timeout: Option<Duration>,
    /// From then until it is killed.
    pub(crate) grace: Duration,
    /// What a profiler may write until it is asked to end.
    pub(crate) bytes: Option<u64>,
}

/// A symbolic link in its own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) target: PathBuf,
    /// The link; its folder is made for it and goes with it.
    pub(crate) at: PathBuf,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited {
    pub(crate) ld_preload: Option<OsString>,
    /// Those of [`crate::env::DOORS`] that are set: the tool that they name goes first.
    pub(crate) doors: Vec<&'static str>,
    pub(crate) python_path: Option<OsString>,
    pub(crate) collector: BTreeMap<String, OsString>,
    /// Variables that nothing reads, each with the one that was probably meant.
    pub(crate) misspelt: Vec<(String, &'static str)>,
    pub(crate) has_gpu: bool,
    /// Whether this program is part of the workload of another run.
    pub(crate) is_nested: bool,
    /// Process id, which keeps the names of runs at the same time apart.
    pub(crate) pid: u32,
}

const COLLECTOR_VARIABLES: &[&str] = &[
    TRACE_FOLDER,
    "STAGE2_SUMMARY",
    "STAGE2_RANGES",
    "STAGE2_SAMPLE",
    "STAGE2_GRAPH",
    "STAGE2_CUPTI",
    "STAGE2_CUPTI_API",
    "STAGE2_HWTRACE",
    "STAGE2_BUFFERS",
    "STAGE2_ROTATE",
    "STAGE2_DETAIL",
    "STAGE2_FLUSH_MS",
    "STAGE2_LOG",
    "STAGE2_ATTRIBUTION",
    "STAGE2_GPU",
    "STAGE2_COUNTERS",
    "STAGE2_HOST",
    "STAGE2_DEVICE_STATE",
    "STAGE2_NVML",
    "STAGE2_REDACT",
    "STAGE2_START",
    "STAGE2_CONTROL",
    "STAGE2_WATCH",
    "STAGE2_WATCH_COMMAND",
];

impl Inherited {
    pub(crate) fn of_this_process() -> Inherited {
        let value = |name: &&str| Some(((*name).to_owned(), std::env::var_os(name)?));
        let is_set = |door: &&str| std::env::var_os(door).is_some_and(|tool| !tool.is_empty());
        Inherited {
            ld_preload: std::env::var_os("LD_PRELOAD"),
            doors: crate::env::DOORS.into_iter().filter(is_set).collect(),
            python_path: std::env::var_os("PYTHONPATH"),
            collector: COLLECTOR_VARIABLES.iter().filter_map(value).collect(),
            misspelt: std::env::vars_os()
                .filter_map(|(name, _)| misspelt(name.to_str()?))
                .collect(),
            has_gpu: has_gpu(),
            is_nested: std::env::var_os("STAGE2_LAUNCHER").is_some(),
            pid: std::process::id(),
        }
    }
}

/// Variables that this program, its hook and its Python package read and set.
const OTHER_VARIABLES: &[&str] = &[
    FLUSH_PAGE,
    "STAGE2_ANNOTATE",
    "STAGE2_COLLECTOR",
    "STAGE2_LAUNCH",
    "STAGE2_LAUNCHER",
    "STAGE2_STOOD_ASIDE",
    "STAGE2_WHY_FILE",
    "STAGE2_WHY_PID",
];

/// A variable of ours that nothing reads, and the one that was probably meant. Others may be those of the user.
fn misspelt(name: &str) -> Option<(String, &'static str)> {
    let own = |name: &'static str| name.strip_prefix(PREFIX);
    let word = name.strip_prefix(PREFIX)?;
    if COLLECTOR_VARIABLES.iter().chain(OTHER_VARIABLES).any(|known| *known == name) {
        return None;
    }
    let near = most_like(word, COLLECTOR_VARIABLES.iter().filter_map(|name| own(name)))?;
    let near = COLLECTOR_VARIABLES.iter().find(|name| own(name) == Some(near))?;
    Some((name.to_owned(), near))
}

const PREFIX: &str = "STAGE2_";

fn no_such_variable((name, near): &(String, &'static str)) -> Finding {
    Id::SettingNoEffect.about(name).found(
        format!("the variable {name} of the environment has no effect"),
        "neither the launcher nor the collector has one of this name",
        format!("did you mean {near}? Otherwise unset it"),
    )
}

/// Whether the driver is there, and `CUDA_VISIBLE_DEVICES` does not hide every GPU.
fn has_gpu() -> bool {
    let hidden = std::env::var_os("CUDA_VISIBLE_DEVICES").is_some_and(|gpus| gpus.is_empty());
    !hidden && ["/dev/nvidiactl", "/dev/dxg"].iter().any(|device| Path::new(device).exists())
}

pub(crate) struct Request<'a> {
    pub(crate) command: &'a [OsString],
    /// Settings, resolved for `run_dir`.
    pub(crate) config: &'a Config,
    /// The settings as they are built in: what equals them is not passed on.
    pub(crate) defaults: &'a Config,
    pub(crate) explicit: &'a BTreeSet<String>,
    pub(crate) run_dir: PathBuf,
    pub(crate) library: PathBuf,
    pub(crate) inherited: &'a Inherited,
    pub(crate) simulator: Option<PathBuf>,
    /// Captures of nsys that kernels are chosen by where no pass knows them.
    pub(crate) nsys_files: &'a [PathBuf],
    pub(crate) keep_going: bool,
    /// The collect pass records nothing until someone asks for it.
    pub(crate) dormant: bool,
    pub(crate) loading: &'a Loading,
    /// The inference engine that the command shows.
    pub(crate) engine: Option<Engine>,
}

pub(crate) fn plan(request: &Request<'_>) -> Plan {
    let Config { run, pipeline, .. } = request.config;
    let mut findings = Vec::new();
    let mut passes = Vec::new();
    if run.baseline {
        // What there is to say of its environment is said of the collect pass.
        passes.push(collect::baseline(request));
    }
    passes.push(collect::pass(request, &mut findings));
    findings.extend(request.inherited.misspelt.iter().map(no_such_variable));
    findings.extend(request.loading.finding.clone());
    if run.mode == Mode::Deep {
        passes.extend(collect::counters(request));
        passes.extend(nsys::pass(request));
        passes.extend(ncu::pass(request));
        findings.extend(nsys::without_gate(&pipeline.nsys));
    } else {
        let tools = [("nsys", pipeline.nsys.enable), ("ncu", pipeline.ncu.enable)];
        for (tool, on) in tools {
            let key = format!("pipeline.{tool}.enable");
            // Both tools are on in the presets: only who asked for one expects its pass.
            if on && request.explicit.contains(&key) {
                findings.push(Id::SettingNoEffect.about(&key).found(
                    format!("run.mode=light runs neither tool; {key}=true has no effect"),
                    "a light run has the collect pass, and the baseline pass where it is asked for",
                    "use run.mode=deep, with enable=false for the tool that is not wanted",
                ));
            }
        }
    }
    if !request.nsys_files.is_empty() && !passes.iter().any(|pass| pass.name == "ncu") {
        let what = "--nsys has no effect: there is no ncu pass";
        let why = "its files only choose the kernels that ncu profiles";
        let remedy = "use run.mode=deep and pipeline.ncu.enable=true, or `stage2-launch merge`";
        findings.push(Id::SettingNoEffect.about("--nsys").found(what, why, remedy));
    }
    with_hook(request, passes, findings)
}

/// Folder and name of the pass of `bench` without any library of ours.
const UNTRACED: &str = "untraced";

/// What `bench` compares, with outputs in files: untraced, under the collector's NVTX half, the collector, nsys.
pub(crate) fn bench(request: &Request<'_>) -> Plan {
    let mut findings = Vec::new();
    let folder = request.run_dir.join(UNTRACED);
    let untraced = Pass {
        name: UNTRACED,
        argv: collect::workload_of_pass(request, UNTRACED),
        capture: Capture::of_pass(&folder),
        folders: vec![folder],
        limits: collect::limits(request.config),
        ..Pass::default()
    };
    let mut full = collect::pass(request, &mut findings);
    full.tee = None;
    full.capture = full.folders.first().and_then(|folder| Capture::of_pass(folder));
    let mut passes = vec![untraced, collect::baseline(request), full];
    let mut peer = nsys::pass(request);
    // The ranges are in the export; nobody reads the tables.
    if let Some(profiler) = peer.as_mut().and_then(|pass| pass.profiler.as_mut()) {
        profiler.without_tables();
    }
    passes.extend(peer);
    with_hook(request, passes, findings)
}

/// The plan of `passes`, each with what makes a Python workload mark more ranges.
fn with_hook(request: &Request<'_>, mut passes: Vec<Pass>, mut findings: Vec<Finding>) -> Plan {
    let folder = request.run_dir.join(HOOK_DIR);
    let python_path = request.inherited.python_path.as_deref();
    let operators = &request.config.operators;
    let mut annotate = operators.annotate.clone();
    let engine = request.engine.as_ref().filter(|_| operators.engine_steps);
    if let Some(engine) = engine.filter(|engine| !annotate.contains(&engine.annotation)) {
        annotate.push(engine.annotation);
        findings.push(engine.finding());
    }
    let engines = Engines::of(&request.config.engine).unwrap_or_else(|error| {
        findings.push(error.finding());
        Engines::default()
    });
    let (hook, about_it) = hook::plan(&annotate, &folder, python_path, request.command);
    findings.extend(about_it);
    for pass in &mut passes {
        pass.environment.extend(hook.iter().flat_map(|hook| hook.environment.clone()));
    }
    Plan {
        run_dir: request.run_dir.clone(),
        passes,
        hook,
        keep_going: request.keep_going,
        // Other tools select by ranges of the program.
        names: RangeNames::with(&request.config.report.library_domains)
            .and_infers_stages(false)
            .and_roles(request.config.roles.clone())
            .and_engines(engines),
        findings,
    }
}

/// Another profiler, with everything that its pass is made from once the passes before are over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profiler {
    pub(crate) kind: Kind,
    pub(crate) workload: Vec<OsString>,
    pub(crate) folder: PathBuf,
    /// Commands before and after the profiling run, as far as they are known before it.
    pub(crate) around: (Vec<Step>, Vec<Step>),
    pub(crate) notes: Vec<String>,
}

impl Profiler {
    pub(crate) fn executable(&self) -> &Path {
        match &self.kind {
            Kind::Nsys(nsys) => &nsys.executable,
            Kind::Ncu { settings, .. } => &settings.executable,
        }
    }

    /// Leaves out what nsys makes of its report, except for the SQLite export.
    pub(crate) fn without_tables(&mut self) {
        if let Kind::Nsys(nsys) = &mut self.kind {
            nsys.export.sqlite = true;
            nsys.export.stats_csv = false;
            self.around.1.truncate(1);
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Nsys(Box<Nsys>),
    Ncu { settings: Box<Ncu>, choice: Box<KernelChoice> },
}

/// What the command line states of the kernels for Nsight Compute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KernelChoice {
    /// It names the stage: another one is not a substitute then.
    pub(crate) stage_is_explicit: bool,
    /// Captures of nsys that were taken elsewhere, for where no pass knows the kernels.
    pub(crate) nsys_files: Vec<PathBuf>,
    /// How those are exported that are reports.
    pub(crate) nsys: Nsys,
}

#[cfg(test)]
mod tests;
