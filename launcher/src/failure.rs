//! Why nothing came of a run, or whether what came of it is a result -> the message and the exit status.
//!
//! The options that decide what counts as a result are [`Acceptance`].

use stage2_model::finding::Id;
use stage2_model::{Finding, PassStatus, Status};

use crate::bundle::PassRecord;
use crate::cli::{Acceptance, FailOn, RequiredPass};
use crate::plan::{Plan, SEES_NO_SIMULATOR};
use crate::reports::Outcome;
use crate::terminal::Terminal;
use crate::workload;

/// The exit status where a step of the profiling left no result.
pub(crate) const EXIT_NO_RESULT: u8 = 70;

/// What ends the program before it has a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// The profiling failed.
    #[error("{0}")]
    NoResult(String),
    /// The workload cannot be run; the exit status is that of a shell.
    #[error("{text}")]
    NotRun { text: String, exit: u8 },
}

impl Failure {
    pub(crate) fn no_result(error: anyhow::Error) -> Failure {
        Failure::NoResult(format!("{error:#}"))
    }

    pub(crate) fn exit(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::NoResult(_) => EXIT_NO_RESULT,
            Failure::NotRun { exit, .. } => *exit,
        }
    }
}

impl Acceptance {
    /// Why reports of this coverage are not a result; none: they are one.
    fn objection(&self, outcome: &Outcome) -> Option<&'static str> {
        match outcome.status {
            // What was asked for is there.
            Status::Empty if outcome.is_summary() => None,
            Status::Empty if !self.allow_empty => Some("--allow-empty lets such a run pass"),
            Status::Partial if self.fail_on == Some(FailOn::Partial) => {
                Some("the coverage is partial, and --fail-on partial was given")
            }
            _ => None,
        }
    }

    /// Each required pass that left no result, and why.
    fn unmet(&self, passes: &[PassRecord], read: &[&str]) -> Vec<String> {
        self.require.iter().filter_map(|required| required.unmet(passes, read)).collect()
    }

    /// Required passes that a plan has not, or whose program is not there: the name of each, and why.
    pub(crate) fn foreseen(&self, plan: &Plan) -> Vec<(String, String)> {
        let foreseen = |required: &RequiredPass| Some((required.name(), required.foreseen(plan)?));
        self.require.iter().filter_map(foreseen).collect()
    }

    /// Whether the reports are what the user takes for a result.
    pub(crate) fn is_met(&self, outcome: &Outcome, passes: &[PassRecord]) -> bool {
        self.objection(outcome).is_none() && self.unmet(passes, &outcome.read).is_empty()
    }

    /// The exit status: the workload's where it failed, for that says more; 70 without a result; else
    /// 0. States why it is 70 where the coverage or a pass is the reason.
    pub(crate) fn status(
        &self,
        workload: u8,
        outcome: Option<&Outcome>,
        passes: &[PassRecord],
        terminal: &Terminal,
    ) -> u8 {
        if workload != 0 {
            return workload;
        }
        let Some(outcome) = outcome else { return EXIT_NO_RESULT };
        let unmet = self.unmet(passes, &outcome.read);
        let unmet = (!unmet.is_empty()).then(|| format!("--require: {}", unmet.join(", and ")));
        let objection = self.objection(outcome);
        let text = |why: &str| format!("exit status {EXIT_NO_RESULT}: {why}");
        match objection.map(text) {
            Some(text) if outcome.status == Status::Empty => {
                // The reason is in the last lines. With -q it was the error, whose remedy follows.
                let is_reason = |of: &&Finding| of.id == Id::GpuNoWork && terminal.is_quiet();
                let reason = outcome.findings.iter().find(is_reason);
                let remedy = reason.map(|of| format!("{}; ", of.remedy)).unwrap_or_default();
                terminal.hint(&format!("{remedy}{text}"));
            }
            objection => objection.iter().for_each(|text| terminal.error(text)),
        }
        unmet.iter().for_each(|why| terminal.error(&text(why)));
        if objection.is_none() && unmet.is_none() { 0 } else { EXIT_NO_RESULT }
    }
}

impl RequiredPass {
    /// Why the pass left no result; none: it left one.
    fn unmet(self, passes: &[PassRecord], read: &[&str]) -> Option<String> {
        let name = self.name();
        let Some(pass) = passes.iter().find(|pass| pass.name == name) else {
            return Some(format!("there is no {name} pass ({})", self.how_to_plan()));
        };
        let because = match pass.why.as_str() {
            "" => String::new(),
            why => format!(": {why}"),
        };
        let how = match pass.status {
            // The reports read the baseline beside another pass.
            PassStatus::Ok if self == RequiredPass::Baseline => return None,
            PassStatus::Ok if read.contains(&name.as_str()) => return None,
            PassStatus::Ok => "left nothing that the reports can read",
            PassStatus::Skipped => "was left out",
            PassStatus::Planned | PassStatus::Running => "did not run to its end",
            PassStatus::TimedOut => "was ended by the time limit",
            PassStatus::Interrupted => "was interrupted",
            PassStatus::Failed | PassStatus::WorkloadFailed => "failed",
        };
        Some(format!("the {name} pass {how}{because}"))
    }

    /// Why a run of this plan would leave no result of the pass.
    fn foreseen(self, plan: &Plan) -> Option<String> {
        let name = self.name();
        let Some(pass) = plan.passes.iter().find(|pass| pass.name == name) else {
            return Some(match plan.is_simulated() && self == RequiredPass::Ncu {
                true => SEES_NO_SIMULATOR.to_owned(),
                false => format!("the plan has no such pass ({})", self.how_to_plan()),
            });
        };
        if let Some(why) = &pass.skip {
            return Some(format!("it is left out: {why}"));
        }
        let program = pass.profiler.as_ref()?.executable();
        Some(workload::find(program.as_os_str()).err()?.finding.what)
    }

    /// What makes a run have the pass.
    fn how_to_plan(self) -> &'static str {
        match self {
            RequiredPass::Baseline => "run.baseline=true runs one",
            RequiredPass::Collect => "every run has one; give `merge` its spools with --spool",
            RequiredPass::Nsys => "it needs --deep (run.mode=deep) and pipeline.nsys.enable=true",
            RequiredPass::Ncu => "it needs --deep (run.mode=deep) and pipeline.ncu.enable=true",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_user_takes_for_a_result_is_one() {
        let rules = |allow_empty, fail_on_partial: bool| Acceptance {
            allow_empty,
            fail_on: fail_on_partial.then_some(FailOn::Partial),
            require: Vec::new(),
        };
        for (rules, [complete, partial, empty]) in [
            (rules(false, false), [true, true, false]),
            (rules(true, false), [true, true, true]),
            (rules(false, true), [true, false, false]),
            (rules(true, true), [true, false, true]),
        ] {
            let passes =
                |status| rules.objection(&Outcome { status, ..Outcome::default() }).is_none();
            assert_eq!(passes(Status::Complete), complete, "{rules:?}");
            assert_eq!(passes(Status::Partial), partial, "{rules:?}");
            assert_eq!(passes(Status::Empty), empty, "{rules:?}");
        }
    }
}
