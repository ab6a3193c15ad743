//! A command -> what it takes untraced and under each profiler, in turn: `bench.md` and `bench.json`.
//!
//! Untraced runs that nobody measures come first. Every round then runs untraced, ranges only,
//! collector and the other profilers, and then ranges only and untraced once more (the A/A pairs,
//! which show how far equal runs differ); every second round the other way round.

mod results;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};

use crate::bundle::{Access, RunFolder, run_name};
use crate::cli::{BenchArgs, Times};
use crate::commands::ending::{printed, take_signals};
use crate::commands::run::{Job, without_its_tool, working_dir};
use crate::config::{self, Composed};
use crate::doctor;
use crate::env;
use crate::failure::{EXIT_NO_RESULT, Failure};
use crate::hook::Hook;
use crate::plan::{self, NSYS_BASE, Pass, Plan};
use crate::redaction;
use crate::run::{PassOutcome, Signals, System, run_one, shown_time};
use crate::terminal::{Terminal, width};
use results::{
    Configuration, NO_TRACES, Results, Run, StageTime, Tracing, is_idle, on_terminal, page,
    slow_profilers,
};
use stage2_contract::text::numbers::counted;
use stage2_model::finding::Id;
use stage2_model::{EmptyReason, Finding, PathKind, RunInfo, WorkloadExit};
use stage2_read::files::write_whole;
use stage2_read::nsys::sqlite;
use stage2_read::trace::folder::load_folder;
use stage2_read::trace::libraries::RangeNames;
use stage2_report::join::overhead::InForce;
use stage2_report::join::{empty, join};

/// `stage2-launch bench`. The exit status is that of the first untraced run of the rounds.
pub(crate) fn bench(args: BenchArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let BenchArgs { times, ignore_failure, settings, dry_run, workload: command } = args;
    let job = Job::of_user("bench", settings.request(), settings.run_dir, dry_run, command)?;
    let composed = config::compose(&job.config)?;
    let name = format!("bench-{}", run_name(std::process::id()));
    let (folder, config) = job.choose_folder(&composed, &working_dir()?, name)?;
    redaction::set(config.redact.redactor());
    let mut findings = Vec::new();
    let library = job.collector(&config, &mut findings)?;
    if job.dry_run {
        let plan = job.plan(&composed, &folder.path().join(FIRST_ROUND), library, plan::bench)?;
        let Times { rounds, warmup } = times;
        if let Some(EmptyReason { why, .. }) = no_gpu(&job.command, &plan) {
            let what = "the collector would record no GPU work";
            terminal.finding(&Id::BenchNotMeasured.found(what, why, ""));
        }
        plan.passes.iter().filter_map(without_its_tool).for_each(|of| terminal.finding(&of));
        return printed(&format!(
            "# warm-up runs of untraced: {warmup}; then {rounds} rounds of these, untraced and \
             baseline twice each\n{}",
            plan::show(&plan, |pass| without_its_tool(pass).is_none())
        ));
    }
    job.find_program()?;
    let access = Access::of(config.run.group.as_deref())?;
    let folder = folder.create(&access)?;
    folder.claim(FIRST_ROUND)?;
    let signals = take_signals(terminal, "the benchmark ends here, without a result".to_owned())?;
    let mut results = Results::new(&job.command, times);
    results.findings = findings;
    let mut bench = Bench {
        job: &job,
        composed: &composed,
        library,
        libraries: RangeNames::with(&config.report.library_domains).and_infers_stages(false),
        in_force: InForce::of(&serde_json::to_value(&config).unwrap_or_default()),
        dir: folder.path(),
        times,
        signals,
        terminal,
        took: (Duration::ZERO, 0),
        ignore_failure,
        reference: None,
        exit: 0,
        no_gpu: None,
        results,
    };
    bench.run_rounds()?;
    let status = bench.write(&folder)?;
    if let Some(finding) = access.apply(&folder.path()) {
        terminal.finding(&finding);
    }
    Ok(status)
}

const FIRST_ROUND: &str = "round-1";
const WARM_UP: &str = "warm-up";
const NO_GPU_WORK: &str = "GPU work was not recorded: ";

struct Bench<'a> {
    job: &'a Job,
    composed: &'a Composed,
    library: PathBuf,
    /// NVTX domains whose ranges are not stages.
    libraries: RangeNames,
    /// What the configuration does already to make a profiler cost less.
    in_force: InForce,
    dir: PathBuf,
    times: Times,
    signals: Signals,
    terminal: &'a Terminal,
    /// How long the runs took until now, and how many they are.
    took: (Duration, u32),
    ignore_failure: bool,
    /// How the workload ends when it is not watched.
    reference: Option<WorkloadExit>,
    exit: u8,
    /// Why there is no GPU work on this machine, as a run would say it.
    no_gpu: Option<EmptyReason>,
    results: Results,
}

impl Bench<'_> {
    /// Runs the warm-ups and the rounds, up to a run after which another one has no sense.
    fn run_rounds(&mut self) -> Result<(), Failure> {
        let first = self.plan(Path::new(FIRST_ROUND))?;
        first.findings.iter().for_each(|finding| self.note(finding.clone()));
        self.no_gpu = no_gpu(&self.job.command, &first);
        if let Some(EmptyReason { why, .. }) = &self.no_gpu {
            let what = "the collector will record no GPU work";
            self.terminal.finding(&Id::BenchNotMeasured.found(what, why.clone(), ""));
        }
        for (at, pass) in first.passes.iter().enumerate() {
            let Some(tracing) = Tracing::of_pass(pass.name) else { continue };
            let missing = without_its_tool(pass).map(|_| {
                let why = format!("`{}` is not installed, or not on PATH", pass.name);
                let what = format!("{} is not measured", pass.name);
                self.terminal.finding(&Id::BenchNotMeasured.found(what, why.clone(), ""));
                why
            });
            let configuration = Configuration::new(tracing, at, pass.skip.clone().or(missing));
            // Two equal runs in a round show how far such runs differ (A/A).
            let is_twice = matches!(tracing, Tracing::Untraced | Tracing::RangesOnly);
            let again = is_twice.then(|| configuration.again());
            self.results.configurations.push(configuration);
            self.results.configurations.extend(again);
        }
        // The first round: every configuration, then back to the first one.
        let configurations = self.results.configurations.iter().enumerate();
        let (again, once): (Vec<_>, Vec<_>) = configurations.partition(|(_, of)| of.again);
        let mut order: Vec<usize> =
            once.iter().chain(again.iter().rev()).map(|&(at, _)| at).collect();
        let Times { rounds, warmup } = self.times;
        let in_round = self.active(&order);
        let runs = u64::from(warmup) + u64::from(rounds) * in_round;
        self.terminal.milestone(&format!(
            "the workload will run {}: {warmup} to warm up, then {rounds} x {in_round}, each under \
             one profiler or none; an estimate follows after the first run",
            counted(runs, "time")
        ));
        for nth in 1..=warmup {
            if !self.warm_up(nth, runs - u64::from(nth))? {
                return Ok(());
            }
        }
        for round in 1..=rounds {
            if !self.terminal.rewrites() {
                self.terminal.milestone(&format!("round {round} of {rounds}"));
            }
            for (done, &at) in order.iter().enumerate() {
                let rest_of_round = self.active(order.get(done + 1..).unwrap_or_default());
                let later = u64::from(rounds - round) * self.active(&order);
                if !self.measure(round, at, rest_of_round + later)? {
                    return Ok(());
                }
                // Nothing there to compare with: more runs would change nothing.
                if is_idle(&self.results) {
                    self.results.rounds = round;
                    return Ok(());
                }
            }
            if self.results.has_lost_profilers() {
                self.results.rounds = round;
                break;
            }
            order.reverse();
        }
        Ok(())
    }

    /// How many of these configurations are still measured.
    fn active(&self, order: &[usize]) -> u64 {
        let configurations = order.iter().filter_map(|at| self.results.configurations.get(*at));
        configurations.filter(|of| of.failed.is_none()).count() as u64
    }

    fn plan(&self, dir: &Path) -> Result<Plan, Failure> {
        self.job.plan(self.composed, &self.dir.join(dir), self.library.clone(), plan::bench)
    }

    /// Measures a configuration once, `left` runs before the last. False: another run has no sense.
    fn measure(&mut self, round: u32, at: usize, left: u64) -> Result<bool, Failure> {
        let configuration = self.results.configurations.get(at).filter(|of| of.failed.is_none());
        let Some(Configuration { name, tracing, pass, .. }) = configuration.cloned() else {
            return Ok(true);
        };
        let untraced = tracing == Tracing::Untraced;
        let folder = PathBuf::from(format!("round-{round}")).join(name.replace(' ', "-"));
        let plan = self.plan(&folder)?;
        let Some(pass) = plan.passes.get(pass) else { return Ok(true) };
        let turn = format!("round {round} of {}", self.times.rounds);
        let ran = self.run(&plan, pass, &turn, &name, left);
        let keeps_log = untraced && self.reference.is_none() && self.set_reference(&ran, pass)?;
        let recorded = match self.failure(&ran) {
            Some(why) => Err(why),
            None => {
                let found = recorded(pass, &self.libraries);
                found.map_err(|why| match &self.no_gpu {
                    Some(no_gpu) if why.to_string().starts_with(NO_GPU_WORK) => no_gpu.why.clone(),
                    _ => why.to_string(),
                })
            }
        };
        let failed = recorded.as_ref().err().cloned();
        let recorded = recorded.unwrap_or_default();
        self.results.simulated |= recorded.simulated;
        recorded.findings.iter().for_each(|finding| self.note(finding.clone()));
        let kept = self.dir.join(&folder);
        if let Some(why) = &failed {
            let what = format!("{name}: no measurement in round {round}");
            let remedy = if is_empty(&kept) {
                let _ = std::fs::remove_dir_all(&kept);
                String::new()
            } else {
                format!("see what is left in {}", kept.display())
            };
            let is_no_gpu = self.no_gpu.as_ref().is_some_and(|no_gpu| no_gpu.why == *why);
            match is_no_gpu || why == NO_TRACES {
                // A warning has said it, or the page says it of all configurations.
                true => self.terminal.detail(&format!("{what}: {why}")),
                false => {
                    let finding = Id::BenchNotMeasured.found(what, why.clone(), remedy);
                    self.terminal.finding(&finding);
                }
            }
        } else if !keeps_log {
            self.remove(&kept);
        }
        // Empty from its last run on.
        let _ = kept.parent().map(std::fs::remove_dir);
        if let Some(configuration) = self.results.configurations.get_mut(at) {
            let duration_ns = ran.duration.and_then(|d| u64::try_from(d.as_nanos()).ok());
            let Recording { stages, gpu_records, .. } = recorded;
            let run = Run { round, exit: ran.exit, duration_ns, stages, gpu_records };
            configuration.runs.push(run);
            configuration.failed = failed;
        }
        if ran.ended {
            self.results.cut_short = true;
            self.exit = if untraced || ran.status != 0 { ran.status } else { self.exit };
        }
        Ok(!ran.ended)
    }

    /// Takes the end of the first untraced run for that of the workload. True: it fails, and its log is kept.
    fn set_reference(&mut self, ran: &PassOutcome, pass: &Pass) -> Result<bool, Failure> {
        started(ran)?;
        (self.reference, self.exit) = (ran.exit, ran.status);
        self.results.workload_exit = ran.exit.filter(|_| !ran.ended);
        let Some(exit) = self.results.failed_exit() else { return Ok(false) };
        let what = format!("the workload fails without a profiler: {}", exit.describe());
        let why = "the times are those of failing runs";
        let log = pass.capture.as_ref().map(|capture| capture.log.display().to_string());
        let remedy = format!("see {}", log.unwrap_or_default());
        if !self.ignore_failure {
            let text = format!("{what}; {remedy}; --ignore-failure measures failing runs, too");
            return Err(Failure::NotRun { text, exit: self.exit });
        }
        self.terminal.finding(&Id::BenchNotMeasured.found(what, why, remedy));
        Ok(true)
    }

    /// An untraced run that is not measured. False: another run has no sense.
    fn warm_up(&mut self, nth: u32, left: u64) -> Result<bool, Failure> {
        let plan = self.plan(&Path::new(WARM_UP).join(nth.to_string()))?;
        let Some(pass) = plan.passes.first() else { return Ok(true) };
        let turn = format!("warm-up {nth} of {}", self.times.warmup);
        let ran = self.run(&plan, pass, &turn, Tracing::Untraced.name(), left);
        started(&ran)?;
        if ran.ended {
            self.results.cut_short = true;
            self.exit = ran.status;
            return Ok(false);
        }
        // How it ended is told of the first untraced run that is measured.
        self.remove(&self.dir.join(WARM_UP));
        Ok(true)
    }

    fn remove(&self, kept: &Path) {
        if let Err(error) = std::fs::remove_dir_all(kept) {
            self.terminal.detail(&format!("{} stays: {error}", kept.display()));
        }
    }

    fn run(&mut self, plan: &Plan, pass: &Pass, turn: &str, name: &str, left: u64) -> PassOutcome {
        if let Some(finding) = plan.hook.as_ref().and_then(Hook::write) {
            self.note(finding);
        }
        let to_go = self.to_go(left + 1).map_or_else(String::new, |time| format!("; {time} to go"));
        self.terminal.status(&format!("[{turn}] {name}{to_go}"));
        let ran = run_one(pass, &System, &self.signals, self.terminal);
        if let Some(duration) = ran.duration {
            self.took = (self.took.0.saturating_add(duration), self.took.1 + 1);
            if let Some(time) = self.to_go(left).filter(|_| self.took.1 == 1 && left > 0) {
                self.terminal.milestone(&format!("{} per run: {time} to go", of_a_run(duration)));
            }
        }
        for finding in &ran.findings {
            // Of a report that is not kept; or why there is no measurement, which is told.
            let told = ran.failed.as_ref().is_some_and(|why| *why == finding.to_string());
            if !finding.what.contains("hold the environment") && !told {
                self.note(finding.clone());
            }
        }
        ran
    }

    /// About how long `left` more runs take, by the mean of those before.
    fn to_go(&self, left: u64) -> Option<String> {
        let mean = self.took.0.checked_div(self.took.1)?;
        let time = mean.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX));
        Some(format!("about {}", shown_time(time)))
    }

    fn failure(&self, ran: &PassOutcome) -> Option<String> {
        if ran.failed.is_some() {
            return ran.failed.clone();
        }
        let (reference, here) = (self.reference?, ran.workload?);
        let (untraced, said) = (reference.describe(), here.describe());
        (reference != here)
            .then(|| format!("the workload ended differently: {said}, untraced: {untraced}"))
    }

    /// Tells something that no other line of the page states.
    fn note(&mut self, finding: Finding) {
        if !self.results.findings.contains(&finding) {
            self.terminal.finding(&finding);
            self.results.findings.push(finding);
        }
    }

    fn write(mut self, folder: &RunFolder) -> Result<u8, Failure> {
        let dir = folder.path();
        self.results.compare();
        for finding in slow_profilers(&self.results, self.in_force) {
            self.note(finding);
        }
        let page = |is_short| page(&self.results, self.no_gpu.as_ref(), is_short);
        let whole = page(false);
        let written = serde_json::to_string_pretty(&self.results)
            .context("bench.json")
            .and_then(|json| write_whole(&dir.join("bench.json"), &format!("{json}\n")))
            .and_then(|()| write_whole(&dir.join("bench.md"), &whole));
        let is_short = std::io::stdout().is_terminal() && !self.terminal.is_verbose();
        let shown = width(&std::io::stdout()).map(|width| on_terminal(&page(is_short), width));
        printed(shown.as_deref().unwrap_or(&whole))?;
        written.map_err(|e| Failure::NoResult(format!("{e:#}; solve this and run it again")))?;
        self.terminal.result(&format!("benchmark: {}", dir.join("bench.md").display()));
        if self.results.has_measured() || self.exit != 0 {
            return Ok(self.exit);
        }
        let (why, remedy) = self.results.unmeasured(self.no_gpu.as_ref());
        self.terminal
            .error(&format!("exit status {EXIT_NO_RESULT}: no measurement: {why}; {remedy}"));
        Ok(EXIT_NO_RESULT)
    }
}

/// Why there is no GPU work to record; nothing where the collector is told which GPU (CUPTI) to use.
fn no_gpu(command: &[OsString], plan: &Plan) -> Option<EmptyReason> {
    let words: Vec<String> =
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_told = |pass: &Pass| {
        pass.environment.contains_key(doctor::CUPTI) || pass.kept.contains_key(doctor::CUPTI)
    };
    let named = words.iter().any(|word| word.starts_with("STAGE2_CUPTI="));
    let asked = !named && !plan.passes.iter().any(is_told);
    empty::no_gpu(&asked.then(|| env::probe_gpu().absent).flatten()?, &words)
}

/// The time of a run, of which there are many: a short one with a decimal.
fn of_a_run(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 9.95 => format!("{:.1} s", seconds.max(0.1)),
        _ => shown_time(time),
    }
}

/// Whether there is no file in a folder, however deep.
fn is_empty(dir: &Path) -> bool {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.all(|entry| {
            let is_dir = |e: &std::fs::DirEntry| e.file_type().is_ok_and(|t| t.is_dir());
            entry.is_ok_and(|e| is_dir(&e) && is_empty(&e.path()))
        }),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Fails where the command could not be started.
fn started(ran: &PassOutcome) -> Result<(), Failure> {
    if ran.exit.is_some() {
        return Ok(());
    }
    Err(Failure::NotRun { text: ran.failed.clone().unwrap_or_default(), exit: ran.status })
}

#[derive(Clone, Debug, Default)]
struct Recording {
    stages: Vec<StageTime>,
    simulated: bool,
    /// Records of GPU work, where it was to be recorded.
    gpu_records: Option<u64>,
    /// Processes whose GPU work was not recorded, and why.
    findings: Vec<Finding>,
}

/// What a pass recorded; nothing where nobody looked on. An error: the GPU work that was to be recorded is not there.
fn recorded(pass: &Pass, libraries: &RangeNames) -> anyhow::Result<Recording> {
    let Some(folder) = pass.folders.first() else { return Ok(Recording::default()) };
    if pass.profiler.is_some() {
        let path = folder.join(format!("{NSYS_BASE}.sqlite"));
        let tables = sqlite::load(&path, libraries).map_err(|finding| anyhow!("{finding}"))?;
        let stages = tables.ranges.iter().filter_map(StageTime::of_range).collect();
        return Ok(Recording { stages, ..Recording::default() });
    }
    if pass.outputs.is_empty() {
        return Ok(Recording::default());
    }
    let capture = load_folder(folder, libraries);
    if capture.processes.is_empty() {
        let told: Vec<String> = capture.findings.iter().map(ToString::to_string).collect();
        if capture.files_refused > 0 || !told.is_empty() {
            bail!(told.join("; "));
        }
        // Where it would be, the remedy says.
        bail!(NO_TRACES);
    }
    let report = join(capture, RunInfo::default(), Vec::new());
    let mut findings = Vec::new();
    let mut gpu_records = None;
    if pass.name == "collect" {
        gpu_records = Some(report.coverage.gpu_records());
        for process in &report.coverage.processes {
            let Some(why) = process.gpu_off.as_deref() else { continue };
            if gpu_records == Some(0) {
                bail!("{NO_GPU_WORK}{why}");
            }
            let pid = process.pid.map(|pid| format!(" of process {pid}")).unwrap_or_default();
            let what = format!("collector: GPU work{pid} was not recorded");
            findings.push(Id::GpuNotRecorded.found(what, why, ""));
        }
    }
    let rows = report.stages.iter().filter(|row| row.kind == PathKind::Range);
    let stages = rows.filter_map(StageTime::of_row).collect();
    Ok(Recording { stages, simulated: report.simulated, gpu_records, findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_has_a_decimal() {
        for (ms, shown) in [(3, "0.1 s"), (370, "0.4 s"), (9_940, "9.9 s"), (12_300, "12 s")] {
            assert_eq!(of_a_run(Duration::from_millis(ms)), shown);
        }
    }
}
