//! One pass by itself -> how it ended and how long it took, without a bundle that keeps a record.

use std::cell::Cell;
use std::time::Duration;

use super::child::Spawner;
use super::{SignalSource, nsys_pass, tool};
use crate::plan::{Kind, Pass, Profiler};
use crate::terminal::Terminal;
use stage2_model::{Finding, PassStatus, Severity, WorkloadExit};

/// What became of a pass.
#[derive(Clone, Debug)]
pub(crate) struct PassOutcome {
    /// How its process ended; none: it was not started.
    pub(crate) exit: Option<WorkloadExit>,
    /// How the workload ended; none: a tool ran it that does not say.
    pub(crate) workload: Option<WorkloadExit>,
    /// The exit status that its end asks for.
    pub(crate) status: u8,
    /// How long its process lived.
    pub(crate) duration: Option<Duration>,
    /// Why there is no measurement.
    pub(crate) failed: Option<String>,
    /// A signal or the time limit ended it.
    pub(crate) ended: bool,
    /// What there is to say.
    pub(crate) findings: Vec<Finding>,
}

/// Runs a pass. Folders that it needs are made.
pub(crate) fn run_one(
    pass: &Pass,
    spawner: &impl Spawner,
    signals: &impl SignalSource,
    terminal: &Terminal,
) -> PassOutcome {
    match &pass.profiler {
        Some(profiler) => under_tool(pass, profiler, spawner, signals, terminal),
        None => plain(pass, spawner, signals, terminal),
    }
}

fn plain(
    pass: &Pass,
    spawner: &impl Spawner,
    signals: &impl SignalSource,
    terminal: &Terminal,
) -> PassOutcome {
    match super::process_of(pass, spawner, signals, terminal, |_| ()) {
        Ok(finished) => {
            let causes = super::cause_findings(&finished, pass);
            PassOutcome {
                exit: finished.exit,
                workload: finished.exit,
                status: super::exit_status(&finished),
                duration: Some(finished.duration),
                failed: causes.first().map(|finding| finding.what.clone()),
                ended: !causes.is_empty(),
                findings: causes.into_iter().chain(finished.findings).collect(),
            }
        }
        Err(error) => PassOutcome {
            exit: None,
            workload: None,
            status: error.exit,
            duration: None,
            failed: Some(error.to_string()),
            ended: false,
            findings: vec![error.finding()],
        },
    }
}

fn under_tool(
    pass: &Pass,
    profiler: &Profiler,
    spawner: &impl Spawner,
    signals: &impl SignalSource,
    terminal: &Terminal,
) -> PassOutcome {
    let folder = profiler.folder.clone();
    let made = std::fs::create_dir_all(&folder);
    let environment = pass.environment.clone();
    let limits = pass.limits;
    let interrupted = &Cell::new(None);
    let tool = tool::Tool { spawner, signals, interrupted, terminal, folder, environment, limits };
    let done = match (&profiler.kind, made) {
        (Kind::Nsys(nsys), Ok(())) => nsys_pass::run(&tool, nsys, profiler, None, None),
        (_, made) => {
            let what = format!("{} cannot be run by itself", pass.name);
            let why = made.err().map_or_else(String::new, |error| error.to_string());
            let finding = Finding::new(Severity::Error, what, why, "");
            tool::ToolPass::without(PassStatus::Failed, finding)
        }
    };
    let failed = (!done.status.has_data()).then(|| done.why.clone());
    PassOutcome {
        exit: done.exit,
        workload: done.workload,
        status: 0,
        duration: done.duration,
        failed,
        ended: interrupted.get().is_some(),
        findings: done.findings,
    }
}
