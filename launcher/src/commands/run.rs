//! A command and its options -> what can be said of a run beforehand, and a finished bundle: the one place
//! that knows all parts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use stage2_config::hydra::Node;
use stage2_contract::text::visible_path;
use stage2_model::finding::{Id, Severity};
use stage2_model::{Empty, EndedBy, Finding, Status, Tool, WorkloadExit};
use stage2_report::llm::command_model::CommandModel;
use stage2_report::operators::stage1;
use stage2_report::workload_config::Workload;

use super::ending::{
    PAGE, list_files, make_room, open_report, printed, take_signals, tell_answer, tell_findings,
};
use super::import::BundleMaker;
use super::job;
use crate::bundle::{
    self, Access, Bundle, COLLECTOR_DIR, DoctorNote, Inputs, LatestLink, Manifest, RunFolder,
    RunRecord,
};
use crate::cli::{Acceptance, BrowserOptions, RunArgs, RunOptions};
use crate::config::{self, Composed, Config, Run};
use crate::env::{self, GpuFacts, relevant_variables};
use crate::failure::{EXIT_NO_RESULT, Failure};
use crate::hook::Hook;
use crate::plan::{self, Inherited, LIBRARY, Pass, Plan};
use crate::redaction;
use crate::reports::Outcome;
use crate::run::{self, Library, System};
use crate::terminal::Terminal;
use crate::tools::product;
use crate::workload::{self, Engine, NotRunnable, hydra_app};
use crate::{copy_inputs, doctor, install, reports};

/// Stands for the folder of the run until that is chosen.
const RUN_DIR: &str = "RUN_DIR";

#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) command: Vec<OsString>,
    pub(super) config: config::Request,
    pub(super) run_dir: Option<PathBuf>,
    pub(super) dry_run: bool,
    /// The workload starts dormant, and its windows have the reports.
    pub(super) dormant: bool,
    /// The library that plays CUPTI for a simulated GPU.
    pub(super) simulator: Option<PathBuf>,
    pub(super) gpu: Option<GpuFacts>,
    /// `--nsys`: captures that kernels are chosen by where no pass knows them.
    pub(super) nsys_files: Vec<PathBuf>,
    pub(super) keep_going: bool,
    pub(super) acceptance: Acceptance,
    pub(super) showing: BrowserOptions,
}

struct PreparedRun {
    plan: Plan,
    folder: RunFolder,
    library: PathBuf,
    tree: Node,
    settings: Run,
    /// The command may name the model.
    from_command: bool,
    inputs: Inputs,
    access: Access,
}

pub(crate) fn run(args: RunArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let RunArgs { options, dormant, nsys, workload } = args;
    let mut config = options.request();
    let dormant = ask_dormant(dormant, &mut config)?;
    let RunOptions { settings, dry_run, acceptance, keep_going, showing, .. } = options;
    let job = Job::of_user("run", config, settings.run_dir, dry_run, workload)?;
    for file in &nsys {
        copy_inputs::check(copy_inputs::Kind::Nsys, file)
            .map_err(|why| Failure::Usage(format!("--nsys {}: {why:#}", file.display())))?;
    }
    Job { dormant, nsys_files: nsys, keep_going, acceptance, showing, ..job }.launch(terminal)
}

/// Whether a run is dormant, which makes it a light one.
pub(super) fn ask_dormant(option: bool, config: &mut config::Request) -> Result<bool, Failure> {
    let Some(word) = dormant_by(option) else { return Ok(false) };
    if config.switches.iter().any(|(_, option, _)| option == "--deep") {
        return Err(Failure::Usage(format!(
            "--deep and {word}: a dormant run is a light one; unset STAGE2_START, or leave --deep out"
        )));
    }
    let light = stage2_config::hydra::Value::Text("light".to_owned());
    config.switches.push(("run.mode", word.to_owned(), light));
    Ok(true)
}

/// What asks for a dormant run: the option, or the variable, which the collector would obey in any run and
/// leave without work.
fn dormant_by(option: bool) -> Option<&'static str> {
    if option {
        return Some("--dormant");
    }
    std::env::var_os("STAGE2_START").filter(|value| value == "off").map(|_| "STAGE2_START=off")
}

impl Job {
    /// The workload of the user, on the GPU, by the rules that hold where no option says otherwise.
    pub(super) fn of_user(
        verb: &str,
        config: config::Request,
        run_dir: Option<PathBuf>,
        dry_run: bool,
        command: Vec<OsString>,
    ) -> Result<Job, Failure> {
        if command.is_empty() {
            config::compose(&config)?;
            return Err(Failure::Usage(format!(
                "there is no command to run; put it after `--`: stage2-launch {verb} -- python infer.py"
            )));
        }
        Ok(Job { command, config, run_dir, dry_run, ..Job::default() })
    }

    /// Plans, runs, reports. The exit status is the workload's as long as there is a result.
    pub(super) fn launch(self, terminal: &Terminal) -> Result<u8, Failure> {
        let composed = config::compose(&self.config)?;
        if self.dry_run {
            return self.show_plan(&composed, terminal);
        }
        let prepared = self.prepare(&composed)?;
        let last = self.command.iter().skip(1).next_back().and_then(|word| word.to_str());
        if let Some(option) = last.filter(|word| ["--light", "--deep", "--dry-run"].contains(word))
        {
            let text = format!(
                "`{option}` is behind `--`, so the workload gets it, and not stage2-launch"
            );
            terminal.caution(&text);
        }
        let run_dir = prepared.folder.path();
        let shown = run_dir.display();
        let ends = format!(
            "the run ends here; `stage2-launch report {shown}` makes reports of the records so far"
        );
        let signals = take_signals(terminal, ends)?;
        let PreparedRun { plan, folder, settings, .. } = &prepared;
        let latest = folder.latest();
        let mut bundle = self.open_bundle(&prepared, terminal)?;
        run::tell_outer(&run_dir);
        bundle.share(prepared.access.clone(), terminal);
        // Without the hook the workload runs, and marks nothing more.
        if let Some(finding) = plan.hook.as_ref().and_then(Hook::write) {
            bundle.note(finding, terminal);
        }
        if self.dormant {
            terminal.result(&format!(
                "dormant: nothing is recorded until `stage2-launch ctl {shown} start --for 10s`"
            ));
        }
        let cwd = working_dir()?;
        let variable = |name: &str| std::env::var_os(name);
        let keep_model = || {
            let asked = prepared.from_command;
            let redactor = redaction::redactor();
            let keep = || CommandModel::keep(&run_dir, &self.command, &cwd, &variable, redactor);
            asked.then(keep).flatten()
        };
        if let Some(finding) = keep_model() {
            bundle.note(finding, terminal);
        }
        let passed = run::run_passes(plan, &mut bundle, &System, &signals, terminal);
        let too_big =
            settings.size_limit_bytes.and_then(|limit| bundle::too_big(&run_dir, limit.get()));
        let unloaded = plan.hook.as_ref().filter(|_| bundle.record.workload_exit.is_some());
        let unloaded = unloaded.and_then(|hook| hook.unloaded(&self.command));
        let workload = Workload::keep(&run_dir);
        // The workload may have downloaded the model.
        for finding in too_big.into_iter().chain(workload).chain(keep_model()).chain(unloaded) {
            bundle.note(finding, terminal);
        }
        let traces = run_dir.join(COLLECTOR_DIR);
        bundle.record.left_running = run::left_running(&traces);
        bundle.record.inner_run = run::inner_run(&traces);
        if self.dormant {
            let maker = BundleMaker {
                composed: &composed,
                access: &prepared.access,
                command: &self.command,
                signals: &signals,
                terminal,
            };
            let exit = maker.finish_dormant(passed.exit, &mut bundle, &self.acceptance)?;
            if exit == 0 && settings.limits_bundles() {
                make_room(folder, settings, &mut bundle, terminal);
            }
            if !self.acceptance.allow_empty && !super::windows::have_work(&run_dir) {
                give_up_latest(folder, latest).iter().for_each(|text| terminal.result(text));
            }
            bundle.protect(terminal);
            return Ok(exit);
        }
        terminal.progress("writing the reports");
        // The reports read the record: without it they would be about another state of the run.
        let mut outcome = bundle.passes_ended().and_then(|()| reports::write_reports(&run_dir));
        if let Ok(empty) = &outcome
            && let Some(note) = self.ask_doctor(&prepared, &bundle, empty)
        {
            bundle.record.doctor = Some(note);
            outcome = bundle.save().and_then(|()| reports::write_reports(&run_dir));
        }
        let closed = bundle.finish(&outcome);
        let failed = bundle.record.failed_by_itself();
        if let Some(exit) = bundle.record.workload_exit.filter(|_| failed) {
            let text = EndedBy::Failure.text(Some(exit));
            // Why nothing was recorded, or how the workload ended, is told below.
            let has_work = outcome.as_ref().is_ok_and(|found| found.status != Status::Empty);
            let is_said = |finding: &Finding| {
                let is_shown = finding.id == Id::GpuNoWork && finding.severity == Severity::Error;
                let is_end = finding.id == Id::WorkloadEnded && has_work;
                (is_shown || is_end) && finding.what.contains(&text)
            };
            if !bundle.record.report_findings.iter().any(is_said) {
                terminal.error(&text);
            }
        }
        let allow_empty = self.acceptance.allow_empty;
        tell_findings(&bundle.record, &outcome, &run_dir, allow_empty, terminal);
        // A record that cannot be written is why there are no reports, too: that is told already.
        if let Err(error) = &closed
            && outcome.is_ok()
            && run_dir.exists()
        {
            terminal.error(&format!("{error:#}; then run `stage2-launch report {shown}`"));
        }
        // Trace files of which none can be read are a measurement that failed. Where there is none
        // at all, the workload may have used no GPU.
        let lost = outcome.as_ref().is_ok_and(|outcome| {
            outcome.read.is_empty() && outcome.coverage["files_refused"].as_u64() > Some(0)
        });
        // A workload that failed says more by its own status than we by ours.
        let complete = outcome.is_ok() && closed.is_ok() && !lost;
        let result = outcome.as_ref().ok().filter(|_| complete);
        let accepted =
            result.is_some_and(|found| self.acceptance.is_met(found, &bundle.record.passes));
        // A run without a result takes the place of none that has one.
        if accepted && bundle.record.workload_exit.is_some() && settings.limits_bundles() {
            let text = "the reports are written; the clean-up of older bundles was interrupted";
            signals.say(text.to_owned());
            make_room(folder, settings, &mut bundle, terminal);
        }
        if outcome.as_ref().is_ok_and(Outcome::is_summary) {
            job::of_run(&run_dir, &traces, terminal);
        }
        list_files(&outcome, &run_dir, terminal);
        let holds_nothing = outcome.as_ref().is_ok_and(|found| found.status == Status::Empty)
            && !lost
            && (bundle.record.workload_exit.is_none_or(WorkloadExit::is_failure) || !accepted);
        let kept = (holds_nothing || failed).then(|| give_up_latest(folder, latest)).flatten();
        bundle.protect(terminal);
        tell_answer(&bundle.record, &outcome, &run_dir, kept, terminal);
        // After what it is about.
        let status = self.acceptance.status(passed.exit, result, &bundle.record.passes, terminal);
        // The standard output of a workload of the user is its own.
        if self.gpu.is_some() && outcome.is_ok() {
            terminal.place(&run_dir.join(PAGE));
        }
        if self.showing.open {
            open_report(&run_dir, terminal);
        }
        Ok(status)
    }

    /// What doctor knows of a run without GPU work: the reports state it together with the cause.
    fn ask_doctor(
        &self,
        prepared: &PreparedRun,
        bundle: &Bundle,
        outcome: &Outcome,
    ) -> Option<DoctorNote> {
        // On the simulated GPU nothing of this machine matters.
        if outcome.status != Status::Empty || self.simulator.is_some() {
            return None;
        }
        // What it said itself is why.
        if matches!(bundle.record.workload_exit, Some(exit @ WorkloadExit::Code(_)) if exit.is_failure())
        {
            return None;
        }
        let empty: Empty = serde_json::from_value(outcome.coverage["empty"].clone()).ok()?;
        let causes: Vec<_> =
            std::iter::once(&empty.first).chain(&empty.also).map(|r| r.cause).collect();
        let mut environments = prepared.plan.passes.iter().map(|pass| &pass.environment);
        let subject = doctor::Subject {
            command: self.command.clone(),
            library: Library::Found(prepared.library.clone()),
            cupti: environments.find_map(|set| set.get(doctor::CUPTI)).map(PathBuf::from),
            run_folder: prepared.folder.path(),
            names_folder: false,
        };
        let gpu = bundle.gpu().cloned().unwrap_or_default();
        let found = doctor::explain(&subject, &gpu, &causes).into_iter();
        let found = found.map(|check| match check.fix {
            Some(fix) => format!("{} (to do: {fix})", check.what),
            None => check.what,
        });
        // The words of the command may hold secrets, and this goes to the logs of CI.
        let next = "stage2-launch doctor -- COMMAND".to_owned();
        Some(DoctorNote { found: found.collect(), next })
    }

    fn show_plan(&self, composed: &Composed, terminal: &Terminal) -> Result<u8, Failure> {
        let PreparedRun { plan, folder, .. } = self.prepare(composed)?;
        let foreseen = self.foreseen_failures(&plan, &folder);
        let required = self.acceptance.foreseen(&plan).into_iter().map(|(name, why)| {
            let what = format!("a run would exit with status {EXIT_NO_RESULT}: --require {name}");
            Id::RunWouldFail.found(what, why, "")
        });
        let required: Vec<Finding> = required.collect();
        for finding in plan.findings.iter().chain(&foreseen).chain(&required) {
            terminal.finding(finding);
        }
        printed(&plan::show(&plan, |pass| without_its_tool(pass).is_none()))
    }

    /// What a run of a plan would fail at on this machine. Nothing is run or made for it, and a dry run ends with
    /// status 0 wherever there is a plan to show.
    fn foreseen_failures(&self, plan: &Plan, folder: &RunFolder) -> Vec<Finding> {
        let mut findings = Vec::new();
        let unfound = self.find_program().err();
        let starts = unfound.is_none();
        if let Some(NotRunnable { exit, finding }) = unfound {
            let what = format!("a run would exit with status {exit}: {}", finding.what);
            findings.push(Id::RunWouldFail.found(what, finding.why, finding.remedy));
        }
        if let Some(error) = folder.refused() {
            let path = error.path.display();
            let what =
                format!("a run would exit with status 2: the run folder {path} cannot be used");
            findings.push(Id::RunWouldFail.found(what, error.what, error.remedy));
        }
        findings.extend(plan.passes.iter().filter_map(without_its_tool));
        // A simulated GPU asks nobody.
        if self.simulator.is_none() {
            let command = &self.command;
            let absent = env::probe_gpu().absent;
            if let Some(why) =
                absent.filter(|_| starts && !self.acceptance.allow_empty && !self.dormant)
            {
                let what = format!("a run would exit with status {EXIT_NO_RESULT}: no GPU");
                findings.push(Id::RunWouldFail.found(what, why, "run it on a machine with a GPU"));
            }
            findings.extend(plan.passes.iter().find_map(|pass| without_samples(pass, command)));
        }
        findings
    }

    /// Refuses a run that cannot leave what `--require` names, before the workload runs for nothing.
    fn refuse_unmeetable(
        &self,
        composed: &Composed,
        folder: &RunFolder,
        library: &Path,
    ) -> Result<(), Failure> {
        if self.acceptance.require.is_empty() {
            return Ok(());
        }
        let plan = self.plan(composed, &folder.path(), library.to_owned(), plan::plan)?;
        let unmet: Vec<String> = (self.acceptance.foreseen(&plan).into_iter())
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        if unmet.is_empty() {
            return Ok(());
        }
        let what = "this run cannot produce what --require names, so the workload was not started";
        Err(NotRunnable::new(EXIT_NO_RESULT, what, unmet.join(", and "), "").into())
    }

    pub(super) fn find_program(&self) -> Result<PathBuf, NotRunnable> {
        workload::find(self.command.first().map_or(OsStr::new(""), OsString::as_os_str))
    }

    /// Everything up to the first process; a dry run makes no folder.
    fn prepare(&self, composed: &Composed) -> Result<PreparedRun, Failure> {
        let cwd = working_dir()?;
        let (folder, config) =
            self.choose_folder(composed, &cwd, bundle::run_name(std::process::id()))?;
        redaction::set(config.redact.redactor());
        let mut findings = Vec::new();
        let library = self.collector(&config, &mut findings)?;
        let manifest = config.inputs.manifest.as_deref().map(Manifest::read).transpose();
        let manifest = manifest.map_err(|e| Failure::Usage(format!("{e:#}")))?;
        // What lies in the folder of the run itself is not there yet.
        let earlier = config.stage1.run_dir.as_deref();
        let earlier = earlier.filter(|dir| !dir.starts_with(RUN_DIR));
        earlier.map(stage1::check).transpose().map_err(|e| Failure::Usage(e.to_string()))?;
        if let Some(path) = &config.model.llm.config_json
            && let Err(error) = path.metadata()
        {
            return Err(Failure::Usage(format!(
                "model.llm.config_json={} cannot be read ({error}); give the path of a model's \
                 config.json, or of its folder",
                visible_path(path)
            )));
        }
        if !self.dry_run {
            // What cannot run leaves no bundle, and `latest` as it is.
            self.find_program()?;
            self.refuse_unmeetable(composed, &folder, &library)?;
        }
        let access = Access::of(config.run.group.as_deref())?;
        let folder = if self.dry_run { folder } else { folder.create(&access)? };
        let (tree, config) = composed.resolved(&folder.path())?;
        let mut plan = self.plan(composed, &folder.path(), library.clone(), plan::plan)?;
        plan.findings.extend(findings);
        let variable = |name: &str| std::env::var_os(name);
        plan.findings.extend(precheck(composed, &config, &self.command, &cwd, &variable));
        let inputs = Inputs::new(&self.command, &cwd, manifest);
        let (settings, from_command) = (config.run, config.model.from_command);
        Ok(PreparedRun { plan, folder, library, tree, settings, from_command, inputs, access })
    }

    pub(super) fn plan(
        &self,
        composed: &Composed,
        dir: &Path,
        library: PathBuf,
        make: impl FnOnce(&plan::Request<'_>) -> Plan,
    ) -> Result<Plan, Failure> {
        let (_, config) = composed.resolved(dir)?;
        let loading = workload::loading(&self.command, &library);
        let inherited = Inherited::of_this_process();
        let engine = Engine::of(&self.command, &working_dir()?, inherited.python_path.as_deref());
        let mut plan = make(&plan::Request {
            loading: &loading,
            command: &self.command,
            config: &config,
            defaults: &config::built_in()?,
            explicit: &composed.explicit_keys(),
            run_dir: dir.to_owned(),
            library,
            inherited: &inherited,
            engine,
            simulator: self.simulator.clone(),
            nsys_files: &self.nsys_files,
            keep_going: self.keep_going,
            dormant: self.dormant,
        });
        plan.findings.extend(composed.notes.iter().cloned());
        Ok(plan)
    }

    pub(super) fn choose_folder(
        &self,
        composed: &Composed,
        cwd: &Path,
        name: String,
    ) -> Result<(RunFolder, Config), Failure> {
        let (_, config) = composed.resolved(Path::new(RUN_DIR))?;
        // The option may hold bytes that the configuration, which is text, cannot.
        let given = match &self.run_dir {
            Some(dir) => Some(dir.clone()),
            None => composed.run_dir()?,
        };
        let latest_in = cwd.join(&config.artifacts.stage2_dir);
        let folder = match given {
            Some(dir) if dir.as_os_str().is_empty() => {
                let text = "the run folder has an empty name; give --run-dir DIR";
                return Err(Failure::Usage(text.into()));
            }
            Some(dir) if self.run_dir.is_none() && composed.run_dir_is_hydras() => {
                RunFolder::GivenAndLinked { path: cwd.join(dir), latest_in }
            }
            Some(dir) => RunFolder::Given(cwd.join(dir)),
            None => RunFolder::New { under: latest_in, name },
        };
        Ok((folder, config))
    }

    /// The collector's library. A dry run goes on without it.
    pub(super) fn collector(
        &self,
        config: &Config,
        findings: &mut Vec<Finding>,
    ) -> Result<PathBuf, Failure> {
        let configured = config.profiling.collector.library.as_deref();
        let variable = std::env::var_os("STAGE2_COLLECTOR").map(PathBuf::from);
        match run::find_library(configured, variable.as_deref(), &install::program()) {
            Library::Found(path) => Ok(path),
            missing if self.dry_run => {
                let why = install::in_one_line(&missing.complaint());
                findings.push(Id::RunWouldFail.found("a run would fail", why, ""));
                Ok(missing.first_place().unwrap_or_else(|| LIBRARY.into()))
            }
            missing => {
                let text = missing.complaint();
                let named = configured.is_some() || variable.is_some();
                Err(if named { Failure::Usage(text) } else { Failure::NoResult(text) })
            }
        }
    }

    fn open_bundle(&self, prepared: &PreparedRun, terminal: &Terminal) -> Result<Bundle, Failure> {
        let PreparedRun { plan, folder, library, tree, inputs, .. } = prepared;
        let run_id = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut record = RunRecord::new(run_id, inputs.argv.clone());
        record.simulated = self.simulator.is_some();
        record.dormant = self.dormant;
        record.origins = config::origins(tree);
        record.passes = plan.passes.iter().map(run::planned).collect();
        record.findings.clone_from(&plan.findings);
        record.findings.extend(folder.link_latest());
        let path = Some(library.to_string_lossy().into_owned());
        record.tools.insert("collector".into(), Tool { path, version: None });
        record.findings.iter().for_each(|finding| terminal.finding(finding));
        let config_yaml = config::yaml_with_origins(tree);
        let mut bundle = Bundle::start(folder, record, inputs.clone(), config_yaml)?;
        terminal.detail(&format!("bundle: {}", bundle.dir().display()));
        let environment = env::gather(&self.command, self.gpu.clone());
        bundle.record.tools.extend(environment.tools.clone());
        if let Some(python) = &environment.python {
            let (path, version) = (Some(python.interpreter.clone()), python.version.clone());
            bundle.record.tools.insert("python".into(), Tool { path, version });
        }
        if let Err(error) = bundle.set_environment(environment) {
            let finding = Id::RunFileUnusable.about("env.json").found(
                "env.json is missing",
                format!("{error:#}"),
                "",
            );
            bundle.note(finding, terminal);
        }
        Ok(bundle)
    }
}

pub(crate) fn working_dir() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .map_err(|e| Failure::Usage(format!("the working directory is gone: {e}; cd to another")))
}

/// What can be said of a run of `command` in the folder `cwd`. `variable` reads its environment.
fn precheck(
    composed: &Composed,
    config: &Config,
    command: &[OsString],
    cwd: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<Finding> {
    let is_plain = composed.chosen("workload").is_none_or(|preset| preset == PLAIN);
    let app = is_plain.then(|| as_hydra_app(command, cwd, variable("PYTHONPATH").as_deref()));
    let (unread, blocking) = (unread_manifest(config, command), blocking(command, variable));
    [app.flatten(), no_model(config), unread, blocking].into_iter().flatten().collect()
}

/// The reports state it, too, when it is too late to correct it for nothing.
fn no_model(config: &Config) -> Option<Finding> {
    let error = config.model.llm.model().err()?;
    let remedy =
        "correct model.llm, or leave it out: the reports can be written again with another";
    Some(Id::ModelUnknown.graded(
        Severity::Warning,
        "MFU, MBU and floor will be absent",
        error.to_string(),
        remedy,
    ))
}

/// The preset of the group `workload` for commands of which nothing is known.
const PLAIN: &str = "plain";

fn as_hydra_app(command: &[OsString], cwd: &Path, python_path: Option<&OsStr>) -> Option<Finding> {
    let app = hydra_app(command, cwd, python_path)?;
    let file = app.file.strip_prefix(cwd).unwrap_or(&app.file).display();
    let place = format!("{file}, line {}", app.line);
    let what = format!("the workload looks like a Hydra app ({place}) but runs as a plain command");
    let why = "its outputs and its configuration do not go into the bundle, and its own profiler or static \
               analysis stays on";
    Some(Id::WorkloadHydra.found(what, why, "add workload=hydra before `--`"))
}

fn unread_manifest(config: &Config, command: &[OsString]) -> Option<Finding> {
    let manifest = config.inputs.manifest.as_deref()?;
    let name = manifest.file_name()?.to_string_lossy().into_owned();
    let is_named = command.iter().any(|word| word.to_string_lossy().contains(&name));
    if config.workload.manifest_key.is_some() || is_named {
        return None;
    }
    Some(Id::WorkloadManifest.found(
        format!("inputs.manifest={} is not given to the workload", manifest.display()),
        "it is copied into inputs.yaml, but the workload may not have read it",
        "use workload=hydra for a Hydra app, or name the file in the command of the workload",
    ))
}

fn blocking(command: &[OsString], variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Finding> {
    let variables = relevant_variables(command, variable);
    let value = variables.get("CUDA_LAUNCH_BLOCKING").filter(|value| *value != "0")?;
    Some(Id::WorkloadBlocking.found(
        format!("CUDA_LAUNCH_BLOCKING={value} is set"),
        "every launch waits until its kernel is over: host times and GPU idle time are those of a \
         program that is being debugged",
        "unset CUDA_LAUNCH_BLOCKING to measure",
    ))
}

/// A pass that is to sample counters and cannot, as far as can be told without a trial.
fn without_samples(pass: &Pass, command: &[OsString]) -> Option<Finding> {
    let set = |name: &str| pass.environment.get(name).or_else(|| pass.kept.get(name));
    let asked = set("STAGE2_COUNTERS").is_some_and(|counters| counters != "off");
    if !asked || pass.skip.is_some() || pass.not_loaded.is_some() {
        return None;
    }
    let check = doctor::cannot_sample(command, set(doctor::CUPTI).map(OsString::as_os_str))?;
    // A note would stand in no dry run.
    let what = format!("the {} pass would have no sampled counters", pass.name);
    Some(Id::RunWouldFail.found(what, check.what, check.fix.unwrap_or_default()))
}

pub(super) fn without_its_tool(pass: &Pass) -> Option<Finding> {
    let profiler = pass.profiler.as_ref().filter(|_| pass.skip.is_none())?;
    let finding = workload::find(profiler.executable().as_os_str()).err()?.finding;
    let (name, tool) = (pass.name, product(pass.name));
    // As a run says it.
    let what = finding.what.replace(": command not found", " is not installed, or not on PATH");
    Some(Id::RunWouldFail.found(
        format!("the {name} pass would be skipped: {what}"),
        finding.why,
        format!(
            "install {tool} and put its folder into PATH, name it in pipeline.{name}.executable, or leave \
             its pass out: pipeline.{name}.enable=false"
        ),
    ))
}

/// Leaves `latest` with the run before, as this one has nothing to show; returns a line about it.
fn give_up_latest(folder: &RunFolder, before: Option<PathBuf>) -> Option<String> {
    let LatestLink { link, target: Some(of) } = folder.give_up_latest(before)? else { return None };
    let here = working_dir().unwrap_or_default();
    let link = link.strip_prefix(here).unwrap_or(&link).display();
    Some(format!("{link} still points to the previous run, {}", of.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Request, compose};
    use wildmatch::WildMatch;

    /// What is told of a command with these settings and variables.
    fn told(settings: &[&str], command: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
        let overrides = settings.iter().map(|word| (*word).to_owned()).collect();
        let composed = compose(&Request { overrides, ..Request::default() }).expect("settings");
        let (_, config) = composed.resolved("/run".as_ref()).expect("settings");
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let cwd = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"));
        let findings = precheck(&composed, &config, &command, cwd, &variable);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_can_be_said_beforehand_is_told_and_nothing_of_what_is_fine() {
        let app = &["python", "-m", "runner", "model=llama_1b"][..];
        let here = concat!("model.llm.config_json=", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let set = &[("CUDA_LAUNCH_BLOCKING", "1")][..];
        for (settings, command, variables, expected) in [
            (&[][..], app, &[][..], "*runner/app.py, line *add workload=hydra before `--`"),
            // The preset decides, not what it appends.
            (&["workload=hydra", "workload.append=[]"], app, &[], ""),
            (&["workload.append=[a=1]"], app, &[], "*runner/app.py, line *"),
            (&[], &["true"], &[], ""),
            (&["inputs.manifest=lists/m.yaml"], &["serve"], &[], "*lists/m.yaml is not given*"),
            (&["inputs.manifest=m.yaml"], &["serve", "--list=/x/m.yaml"], &[], ""),
            (&["inputs.manifest=m.yaml", "workload=hydra"], &["serve"], &[], ""),
            (&[here], &["serve"], &[], "MFU, MBU and floor will be absent: *"),
            (&["model/llm=llama_3_8b"], &["serve"], &[], ""),
            (
                &[],
                &["env", "CUDA_LAUNCH_BLOCKING=1", "true"],
                &[],
                "CUDA_LAUNCH_BLOCKING=1 is set*",
            ),
            (&[], &["env", "CUDA_LAUNCH_BLOCKING=0", "true"], &[], ""),
            (&[], &["true"], set, "CUDA_LAUNCH_BLOCKING=1 is set*"),
            // As the remedy says.
            (&[], &["env", "-u", "CUDA_LAUNCH_BLOCKING", "true"], set, ""),
        ] {
            let told = told(settings, command, variables);
            assert_eq!(told.len(), usize::from(!expected.is_empty()), "{settings:?} {command:?}");
            let fits = |text: &String| WildMatch::new(expected).matches(text);
            assert!(told.iter().all(fits), "{settings:?} {command:?}: {told:?}");
        }
    }
}
