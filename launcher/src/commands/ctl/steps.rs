//! Windows that began together -> whether their first steps are one and the same in every process.

use std::time::{Duration, Instant};

use stage2_control::{Answer, Verb};
use stage2_spool::window::FirstSteps;
use stage2_text::numbers::ms3;

use super::{Outcome, STEP};
use crate::control::ask;

/// The longest that the first steps are waited for: a process without ranges has none.
const PATIENCE: Duration = Duration::from_secs(2);

/// Waits until every process has told of its first step, for a bounded time, and takes its status as the
/// answer. `None` where less than two have one.
pub(super) fn await_steps(outcomes: &mut [Outcome]) -> Option<FirstSteps> {
    let until = Instant::now() + PATIENCE;
    let mut steps = Vec::new();
    for outcome in outcomes {
        while outcome.answer.as_ref().is_ok_and(|answer| !answer.refused) {
            if let Some(step) = outcome.answer.as_ref().ok().and_then(first_step) {
                steps.push(step);
                break;
            }
            if Instant::now() >= until {
                break;
            }
            std::thread::sleep(STEP);
            outcome.answer = ask(&outcome.found, &Verb::Status);
        }
    }
    FirstSteps::of(steps)
}

/// When it opened, and how long it was open, ns.
fn first_step(status: &Answer) -> Option<(u64, u64)> {
    let ns = |name: &str| status.get(name)?.parse::<u64>().ok()?.checked_mul(1000);
    Some((ns("first_step_unix_us")?, ns("first_step_us")?))
}

/// What there is to say of them.
pub(super) fn steps_text(steps: FirstSteps) -> String {
    let (apart, length) = (ms3(steps.apart_ns), ms3(steps.shortest_ns));
    match steps.are_one() {
        true => format!(
            "The windows begin with the same step: the first ones opened within {apart} ms and were open for \
             {length} ms.\n"
        ),
        false => format!(
            "The windows do not begin with the same step: the first ones opened {apart} ms apart and were open \
             for {length} ms. Stop and start again.\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_tells_whether_it_is_one_step() {
        let of = |apart_ns| steps_text(FirstSteps { apart_ns, shortest_ns: 2_000_000 });
        assert!(of(31_000).contains("the same step: the first ones opened within 0.031 ms"));
        assert!(of(1_900_000).contains("do not begin with the same step"));
        let status = Answer::ok().with("first_step_unix_us", 7).with("first_step_us", 5);
        assert_eq!(first_step(&status), Some((7_000, 5_000)));
        assert_eq!(first_step(&Answer::ok().with("first_step_unix_us", u64::MAX)), None);
    }
}
