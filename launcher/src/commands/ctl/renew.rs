//! A start of several processes -> windows that are on and empty make room for the new one.
//!
//! The agent of torchrun initialises CUDA and runs nothing on the GPU: it reaches no limit of steps, and its
//! window must not keep its ranks from a next one.

use std::time::{Duration, Instant};

use stage2_control::{Answer, Verb};

use super::{Outcome, STEP};
use crate::control::ask;
use crate::terminal::Terminal;

/// The longest that the end of an empty window is waited for: the moment of the start is a little more ahead.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks those again that refused `start` because of a window in which nothing has run on the GPU, once that is
/// ended. Its trace file stays.
pub(super) fn renew_empty(outcomes: &mut [Outcome], start: &Verb, terminal: &Terminal) {
    let until = Instant::now() + PATIENCE;
    for outcome in outcomes.iter_mut() {
        let refused = outcome.answer.as_ref().is_ok_and(|answer| answer.refused);
        if !refused || !ask(&outcome.found, &Verb::Status).is_ok_and(|status| is_empty(&status)) {
            continue;
        }
        let mut phase = ask(&outcome.found, &Verb::Stop);
        while phase.as_ref().is_ok_and(|status| status.get("phase") != Some("dormant"))
            && Instant::now() < until
        {
            std::thread::sleep(STEP);
            phase = ask(&outcome.found, &Verb::Status);
        }
        outcome.answer = ask(&outcome.found, start);
        terminal.detail(&format!(
            "{}: its window was ended, in which nothing had run on the GPU",
            outcome.found.pid
        ));
    }
}

/// Whether a window is on that has nothing of the GPU.
fn is_empty(status: &Answer) -> bool {
    let none = |name: &str| status.get(name) == Some("0");
    status.get("phase") == Some("on") && none("window_records") && none("window_lost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_window_that_is_on_and_has_nothing_is_empty() {
        let of = |phase: &str, records: u64, lost: u64| {
            let status = Answer::ok().with("phase", phase);
            is_empty(&status.with("window_records", records).with("window_lost", lost))
        };
        assert!(of("on", 0, 0));
        assert!(!of("on", 1, 0) && !of("on", 0, 1) && !of("starting", 0, 0));
        assert!(!is_empty(&Answer::ok().with("phase", "on")), "another version tells nothing");
    }
}
