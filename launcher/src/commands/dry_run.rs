//! A plan and this machine -> what a run of it would fail at. Nothing is run or made for it.
//!
//! The exit status of a dry run is 0 wherever there is a plan to show: it says what a run would end
//! with, and is no run. What is wrong with the command line or the configuration ends it with 2.

use std::ffi::OsString;

use crate::bundle::RunFolder;
use crate::plan::{Kind, Pass, Plan};
use crate::workload;
use stage2_model::{Finding, Severity};

/// What can be known before anything runs, beyond what the plan says of itself: a program that is not
/// there, a run folder that is taken, tools that are not installed.
pub(crate) fn foreseen(plan: &Plan, command: &[OsString], folder: &RunFolder) -> Vec<Finding> {
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
    findings
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
