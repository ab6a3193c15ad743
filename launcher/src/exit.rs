//! How the workload ended and what the reports cover -> the exit status.

use crate::cli::{FailOn, Options};
use crate::report::Outcome;
use crate::report::model::Status;
use crate::run::EXIT_NO_RESULT;
use crate::terminal::Terminal;

/// What the user takes for a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    allow_empty: bool,
    fail_on_partial: bool,
}

impl Rules {
    /// As the command line says.
    pub(crate) fn of(options: &Options) -> Rules {
        Rules {
            allow_empty: options.allow_empty,
            fail_on_partial: options.fail_on == Some(FailOn::Partial),
        }
    }

    /// Why reports of this coverage are no result; none: they are one.
    pub(crate) fn objection(self, status: Status) -> Option<&'static str> {
        match status {
            Status::Empty if !self.allow_empty => {
                Some("no GPU work was recorded (--allow-empty lets such a run pass)")
            }
            Status::Partial if self.fail_on_partial => {
                Some("the coverage is partial, and --fail-on partial was given")
            }
            _ => None,
        }
    }

    /// The exit status: the workload's where it failed, for that says more; 70 without a result; else
    /// 0. Says why it is 70 where the coverage is the reason.
    pub(crate) fn status(self, workload: u8, outcome: Option<&Outcome>, terminal: &Terminal) -> u8 {
        match (workload, outcome.map(|outcome| self.objection(outcome.status))) {
            (0, Some(None)) => 0,
            (0, Some(Some(why))) => {
                terminal.error(&format!("exit status {EXIT_NO_RESULT}: {why}"));
                EXIT_NO_RESULT
            }
            (0, None) => EXIT_NO_RESULT,
            (failed, _) => failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_user_takes_for_a_result_is_one() {
        let rules = |allow_empty, fail_on_partial| Rules { allow_empty, fail_on_partial };
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
