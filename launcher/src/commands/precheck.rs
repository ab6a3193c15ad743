//! The command and the settings of a run -> what can be said of them before anything runs.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::bundle::RunFolder;
use crate::config::{Composed, Config};
use crate::doctor;
use crate::env::relevant_variables;
use crate::plan::{Kind, Pass, Plan};
use crate::workload::{self, hydra_app};
use stage2_model::{Finding, Severity};

/// What can be said of a run of `command` in the folder `cwd`. `variable` reads its environment.
pub(crate) fn before(
    composed: &Composed,
    config: &Config,
    command: &[OsString],
    cwd: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<Finding> {
    let is_plain = composed.chosen("workload").is_none_or(|preset| preset == PLAIN);
    let app = is_plain.then(|| as_hydra_app(command, cwd, variable("PYTHONPATH").as_deref()));
    [app.flatten(), no_model(config), unread_manifest(config, command), blocking(command, variable)]
        .into_iter()
        .flatten()
        .collect()
}

/// The reports say it, too, when it is too late to correct it for nothing.
fn no_model(config: &Config) -> Option<Finding> {
    let error = config.model.llm.model().err()?;
    let remedy =
        "correct model.llm, or leave it out: the reports can be written again with another";
    Some(Finding::warning("MFU, MBU and floor will be absent", error.to_string(), remedy))
}

/// The preset of the group `workload` for commands of which nothing is known.
const PLAIN: &str = "plain";

fn as_hydra_app(command: &[OsString], cwd: &Path, python_path: Option<&OsStr>) -> Option<Finding> {
    let app = hydra_app(command, cwd, python_path)?;
    Some(Finding::new(
        Severity::Warning,
        format!(
            "the workload looks like a Hydra app ({}, line {}) but runs as a plain command",
            app.file.strip_prefix(cwd).unwrap_or(&app.file).display(),
            app.line
        ),
        "its outputs and its configuration do not go into the bundle, and a profiler or a static \
         analysis of its own stays on",
        "add workload=hydra before `--`",
    ))
}

fn unread_manifest(config: &Config, command: &[OsString]) -> Option<Finding> {
    let manifest = config.inputs.manifest.as_deref()?;
    let name = manifest.file_name()?.to_string_lossy().into_owned();
    let is_named = command.iter().any(|word| word.to_string_lossy().contains(&name));
    if config.workload.manifest_key.is_some() || is_named {
        return None;
    }
    Some(Finding::new(
        Severity::Warning,
        format!("inputs.manifest={} is not given to the workload", manifest.display()),
        "it is copied into inputs.yaml, and nothing says that the workload read it",
        "use workload=hydra for a Hydra app, or name the file in the command of the workload",
    ))
}

fn blocking(command: &[OsString], variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Finding> {
    let variables = relevant_variables(command, variable);
    let value = variables.get("CUDA_LAUNCH_BLOCKING").filter(|value| *value != "0")?;
    Some(Finding::new(
        Severity::Warning,
        format!("CUDA_LAUNCH_BLOCKING={value} is set"),
        "every launch waits until its kernel is over: host times and GPU idle time are those of a \
         program that is being debugged",
        "unset CUDA_LAUNCH_BLOCKING to measure",
    ))
}

/// What a run of a plan would fail at on this machine: a program that is not there, a run folder that is
/// taken, tools that are not installed. Nothing is run or made for it, and a dry run ends with status 0
/// wherever there is a plan to show. `simulated`: the launcher has chosen a simulated GPU.
pub(crate) fn foreseen(
    plan: &Plan,
    command: &[OsString],
    folder: &RunFolder,
    simulated: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let program = command.first().cloned().unwrap_or_default();
    if let Err(problem) = workload::find(&program) {
        findings.push(Finding::new(
            Severity::Warning,
            format!("a run would exit with status {}: {}", problem.exit, problem.finding.what),
            problem.finding.why,
            problem.finding.remedy,
        ));
    }
    if let Some(error) = folder.refused() {
        findings.push(Finding::new(
            Severity::Warning,
            format!(
                "a run would exit with status 2: the run folder {} cannot be used",
                error.path.display()
            ),
            error.what,
            error.remedy,
        ));
    }
    findings.extend(plan.passes.iter().filter_map(without_its_tool));
    // A simulated GPU asks nobody.
    if !simulated {
        findings.extend(plan.passes.iter().find_map(|pass| without_samples(pass, command)));
    }
    findings
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
    Some(Finding::new(
        Severity::Warning,
        format!("the {} pass would have no sampled counters", pass.name),
        check.what,
        check.fix.unwrap_or_default(),
    ))
}

/// A pass whose tool cannot be found.
fn without_its_tool(pass: &Pass) -> Option<Finding> {
    let profiler = pass.profiler.as_ref().filter(|_| pass.skip.is_none())?;
    let problem = workload::find(profiler.executable().as_os_str()).err()?;
    let (tool, other) = match profiler.kind {
        Kind::Nsys(_) => ("Nsight Systems", "leave its pass out: pipeline.nsys.enable=false"),
        Kind::Ncu { .. } => ("Nsight Compute", "leave its pass out: pipeline.ncu.enable=false"),
    };
    Some(Finding::new(
        Severity::Warning,
        format!("a run would leave the {} pass out: {}", pass.name, problem.finding.what),
        problem.finding.why,
        format!(
            "install {tool} and put its folder into PATH, name it in pipeline.{}.executable, or {other}",
            pass.name
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Request, compose};

    fn told(settings: &[&str], command: &[&str]) -> Vec<String> {
        told_in(settings, command, &[])
    }

    fn told_in(settings: &[&str], command: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
        let overrides = settings.iter().map(|word| (*word).to_owned()).collect();
        let composed = compose(&Request { overrides, ..Request::default() }).expect("settings");
        let (_, config) = composed.resolved("/run".as_ref()).expect("settings");
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let cwd = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"));
        let findings = before(&composed, &config, &command, cwd, &variable);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn the_example_workload_is_recognised_unless_it_is_run_as_one() {
        let command = ["python", "-m", "runner", "model=llama_1b"];
        let findings = told(&[], &command);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("runner/app.py, line "), "{findings:?}");
        assert!(findings[0].ends_with("add workload=hydra before `--`"), "{findings:?}");
        // The preset decides, not what it appends.
        assert_eq!(told(&["workload=hydra", "workload.append=[]"], &command), [""; 0]);
        assert_eq!(told(&["workload.append=[a=1]"], &command).len(), 1);
        assert_eq!(told(&[], &["true"]), [""; 0]);
    }

    #[test]
    fn a_manifest_that_nobody_reads_is_told() {
        let findings = told(&["inputs.manifest=lists/m.yaml"], &["serve"]);
        assert!(findings[0].contains("lists/m.yaml is not given"), "{findings:?}");
        assert_eq!(told(&["inputs.manifest=m.yaml"], &["serve", "--list=/x/m.yaml"]), [""; 0]);
        assert_eq!(told(&["inputs.manifest=m.yaml", "workload=hydra"], &["serve"]), [""; 0]);
        assert_eq!(told(&[], &["serve"]), [""; 0]);
    }

    #[test]
    fn a_model_that_cannot_be_read_is_told() {
        let here = concat!("model.llm.config_json=", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let findings = told(&[here], &["serve"]);
        assert!(findings[0].starts_with("MFU, MBU and floor will be absent: "), "{findings:?}");
        assert_eq!(told(&["model/llm=llama_3_8b"], &["serve"]), [""; 0]);
    }

    #[test]
    fn blocking_launches_are_told() {
        let findings = told(&[], &["env", "CUDA_LAUNCH_BLOCKING=1", "true"]);
        assert!(findings[0].starts_with("CUDA_LAUNCH_BLOCKING=1 is set"), "{findings:?}");
        assert_eq!(told(&[], &["env", "CUDA_LAUNCH_BLOCKING=0", "true"]), [""; 0]);
        let set = [("CUDA_LAUNCH_BLOCKING", "1")];
        assert_eq!(told_in(&[], &["true"], &set).len(), 1);
        let unset = ["env", "-u", "CUDA_LAUNCH_BLOCKING", "true"];
        assert_eq!(told_in(&[], &unset, &set), [""; 0], "as the remedy says");
    }
}
