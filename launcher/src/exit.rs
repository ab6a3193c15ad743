//! How the workload ended, what the reports cover and which passes are required -> the exit status.
//!
//! The options that decide are [`Acceptance`].

use crate::bundle::PassRecord;
use crate::cli::{Acceptance, FailOn, RequiredPass};
use crate::failure::EXIT_NO_RESULT;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::terminal::Terminal;
use crate::workload;
use stage2_model::{Finding, PassStatus, Severity, Status};

impl Acceptance {
    /// Why reports of this coverage are no result; none: they are one.
    fn objection(&self, status: Status) -> Option<&'static str> {
        match status {
            Status::Empty if !self.allow_empty => {
                Some("no GPU work was recorded (--allow-empty lets such a run pass)")
            }
            Status::Partial if self.fail_on == Some(FailOn::Partial) => {
                Some("the coverage is partial, and --fail-on partial was given")
            }
            _ => None,
        }
    }

    /// Each required pass that left no result, and why.
    fn unmet(&self, passes: &[PassRecord], read: &[&str]) -> Vec<String> {
        let problem = |required: &RequiredPass| {
            let name = required.name();
            let Some(pass) = passes.iter().find(|pass| pass.name == name) else {
                return Some(format!("there is no {name} pass ({})", how_to_plan(*required)));
            };
            let because = match pass.why.as_str() {
                "" => String::new(),
                why => format!(": {why}"),
            };
            let how = match pass.status {
                // The reports read the baseline beside another pass.
                PassStatus::Ok if *required == RequiredPass::Baseline => return None,
                PassStatus::Ok if read.contains(&name.as_str()) => return None,
                PassStatus::Ok => "left nothing that the reports can read",
                PassStatus::Skipped => "was left out",
                PassStatus::Planned | PassStatus::Running => "did not run to its end",
                PassStatus::TimedOut => "was ended by the time limit",
                PassStatus::Interrupted => "was interrupted",
                PassStatus::Failed | PassStatus::WorkloadFailed => "failed",
            };
            Some(format!("the {name} pass {how}{because}"))
        };
        self.require.iter().filter_map(problem).collect()
    }

    /// Required passes that a plan has not, or whose program is not there.
    pub(crate) fn foreseen(&self, plan: &Plan) -> Vec<Finding> {
        let problem = |required: &RequiredPass| {
            let name = required.name();
            let (why, remedy) = match plan.passes.iter().find(|pass| pass.name == name) {
                None => ("the plan has no such pass".to_owned(), how_to_plan(*required)),
                Some(pass) => match (&pass.skip, pass.profiler.as_ref()?.executable()) {
                    (Some(why), _) => (format!("it is left out: {why}"), ""),
                    (None, program) => {
                        (workload::find(program.as_os_str()).err()?.finding.what, "")
                    }
                },
            };
            let what = format!("a run would exit with status {EXIT_NO_RESULT}: --require {name}");
            Some(Finding::new(Severity::Warning, what, why, remedy))
        };
        self.require.iter().filter_map(problem).collect()
    }

    /// Whether the reports are what the user takes for a result.
    pub(crate) fn is_met(&self, outcome: &Outcome, passes: &[PassRecord]) -> bool {
        self.objection(outcome.status).is_none() && self.unmet(passes, &outcome.read).is_empty()
    }

    /// The exit status: the workload's where it failed, for that says more; 70 without a result; else
    /// 0. Says why it is 70 where the coverage or a pass is the reason.
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
        let mut reasons: Vec<String> =
            self.objection(outcome.status).map(str::to_owned).into_iter().collect();
        let unmet = self.unmet(passes, &outcome.read);
        if !unmet.is_empty() {
            reasons.push(format!("--require: {}", unmet.join("; ")));
        }
        for why in &reasons {
            terminal.error(&format!("exit status {EXIT_NO_RESULT}: {why}"));
        }
        if reasons.is_empty() { 0 } else { EXIT_NO_RESULT }
    }
}

/// What makes a run have a pass.
fn how_to_plan(pass: RequiredPass) -> &'static str {
    match pass {
        RequiredPass::Baseline => "run.baseline=true runs one",
        RequiredPass::Collect => "every run has one; give `merge` its spools with --spool",
        RequiredPass::Nsys => "it needs run.mode=deep and pipeline.nsys.enable=true",
        RequiredPass::Ncu => "it needs run.mode=deep and pipeline.ncu.enable=true",
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
            let passes = |status| rules.objection(status).is_none();
            assert_eq!(passes(Status::Complete), complete, "{rules:?}");
            assert_eq!(passes(Status::Partial), partial, "{rules:?}");
            assert_eq!(passes(Status::Empty), empty, "{rules:?}");
        }
    }
}
