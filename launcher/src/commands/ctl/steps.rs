//! Windows that began together -> whether their first steps are one and the same in every process.

use std::time::{Duration, Instant};

use stage2_contract::control::{Answer, Verb};
use stage2_contract::text::numbers::ms3;
use stage2_contract::trace::window::FirstSteps;

use super::{Outcome, STEP};
use crate::control::ask;

/// The longest that the first steps are waited for: a process without ranges has none.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest wait for the other first steps once two processes have told of theirs: processes
/// that step together tell at about the same time.
const PATIENCE_WITH_THE_LAST: Duration = Duration::from_millis(200);

/// Waits until every process has told of its first step, for a bounded time, and takes its status as the
/// answer. `None` where less than two have one.
pub(super) fn await_steps(outcomes: &mut [Outcome]) -> Option<FirstSteps> {
    let mut until = Instant::now() + PATIENCE;
    loop {
        for outcome in outcomes.iter_mut().filter(|outcome| is_waited_for(outcome)) {
            outcome.answer = ask(&outcome.found, &Verb::Status);
        }
        let steps = outcomes.iter().filter_map(|o| first_step(o.answer.as_ref().ok()?));
        let steps: Vec<(u64, u64)> = steps.collect();
        if steps.len() > 1 {
            until = until.min(Instant::now() + PATIENCE_WITH_THE_LAST);
        }
        if Instant::now() >= until || !outcomes.iter().any(is_waited_for) {
            return FirstSteps::of(steps);
        }
        std::thread::sleep(STEP);
    }
}

/// Whether it may still tell of one.
fn is_waited_for(outcome: &Outcome) -> bool {
    outcome.answer.as_ref().is_ok_and(|answer| !answer.refused && first_step(answer).is_none())
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
