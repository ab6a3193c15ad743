//! One pass by itself, without a bundle that keeps a record of it.

use std::cell::Cell;
use std::time::Duration;

use super::child::Spawner;
use super::ending::{cause_findings, exit_status};
use super::tool::Tool;
use super::{Host, SignalSource, run_under};
use crate::plan::Pass;
use crate::terminal::Terminal;
use stage2_model::{Finding, WorkloadExit};

/// What became of a pass that was run by itself.
#[derive(Clone, Debug, Default)]
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

/// Runs one pass by itself, without a bundle that keeps a record. Folders that it needs are made.
pub(crate) fn run_one(
    pass: &Pass,
    spawner: &dyn Spawner,
    signals: &dyn SignalSource,
    terminal: &Terminal,
) -> PassOutcome {
    let host = Host { spawner, signals, terminal };
    let Some(profiler) = &pass.profiler else {
        return match host.run(pass, |_| ()) {
            Ok(finished) => {
                let causes = cause_findings(&finished, pass);
                PassOutcome {
                    exit: finished.exit,
                    workload: finished.exit,
                    status: exit_status(&finished),
                    duration: Some(finished.duration),
                    failed: causes.first().map(|finding| finding.what.clone()),
                    ended: !causes.is_empty(),
                    findings: causes.into_iter().chain(finished.findings).collect(),
                }
            }
            Err(error) => PassOutcome {
                status: error.exit,
                failed: Some(error.to_string()),
                findings: vec![error.finding],
                ..PassOutcome::default()
            },
        };
    };
    let made = stage2_read::private::create_folders(&profiler.folder).map(drop);
    let interrupted = Cell::new(None);
    let tool = Tool::of(host, pass, profiler, &interrupted);
    let done = run_under(&tool, profiler, made, None);
    PassOutcome {
        exit: done.exit,
        workload: done.workload,
        status: 0,
        duration: done.duration,
        failed: (!done.status.has_data()).then_some(done.why),
        ended: interrupted.get().is_some(),
        findings: done.findings,
    }
}
