//! The command and the settings of a run -> what can be said of them before anything runs.

use std::ffi::OsString;
use std::path::Path;

use crate::config::Config;
use crate::env::relevant_variables;
use crate::plan::quote;
use crate::workload::hydra_app;
use stage2_model::{Finding, Severity};

/// All of it.
pub(crate) fn before(config: &Config, command: &[OsString], cwd: &Path) -> Vec<Finding> {
    [as_hydra_app(config, command, cwd), unread_manifest(config, command), blocking(command)]
        .into_iter()
        .flatten()
        .collect()
}

/// What to say of a Hydra app that is run as any other command.
fn as_hydra_app(config: &Config, command: &[OsString], cwd: &Path) -> Option<Finding> {
    if !config.workload.append.is_empty() {
        return None;
    }
    let app = hydra_app(command, cwd, std::env::var_os("PYTHONPATH").as_deref())?;
    let words = command.iter().map(quote).collect::<Vec<_>>().join(" ");
    Some(Finding::new(
        Severity::Warning,
        format!(
            "the workload looks like a Hydra app ({}, line {}), and is run as any other command",
            app.file.strip_prefix(cwd).unwrap_or(&app.file).display(),
            app.line
        ),
        "its outputs and its configuration do not go into the bundle, and a profiler or a static \
         analysis of its own stays on",
        format!("stage2-launch workload=hydra -- {words}"),
    ))
}

/// What to say of a list of inputs that the workload is not told of.
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

/// What to say of launches that wait for their kernels.
fn blocking(command: &[OsString]) -> Option<Finding> {
    let variables = relevant_variables(command);
    let value = variables.get("CUDA_LAUNCH_BLOCKING").filter(|value| *value != "0")?;
    Some(Finding::new(
        Severity::Warning,
        format!("CUDA_LAUNCH_BLOCKING={value} is set"),
        "every launch waits until its kernel is over: host times and GPU idle time are those of a \
         program that is being debugged",
        "unset CUDA_LAUNCH_BLOCKING to measure",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Request, compose};

    fn told(settings: &[&str], command: &[&str]) -> Vec<String> {
        let overrides = settings.iter().map(|word| (*word).to_owned()).collect();
        let composed = compose(&Request { overrides, ..Request::default() }).expect("settings");
        let (_, config) = composed.resolved("/run".as_ref()).expect("settings");
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let cwd = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
        before(&config, &command, Path::new(cwd)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn the_example_workload_is_recognised_unless_it_is_run_as_one() {
        let command = ["python", "-m", "runner", "model=llama_1b"];
        let findings = told(&[], &command);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("runner/app.py, line "), "{findings:?}");
        let remedy = "stage2-launch workload=hydra -- python -m runner 'model=llama_1b'";
        assert!(findings[0].ends_with(remedy), "{findings:?}");
        assert_eq!(told(&["workload=hydra"], &command), [""; 0]);
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
    fn blocking_launches_are_told() {
        let findings = told(&[], &["env", "CUDA_LAUNCH_BLOCKING=1", "true"]);
        assert!(findings[0].starts_with("CUDA_LAUNCH_BLOCKING=1 is set"), "{findings:?}");
        assert_eq!(told(&[], &["env", "CUDA_LAUNCH_BLOCKING=0", "true"]), [""; 0]);
    }
}
