//! A start of several processes -> windows that are on and empty make room for the new one.
//!
//! The agent of torchrun initialises CUDA but runs nothing on the GPU, so its window never reaches a limit of
//! steps. That window must not block the next start of the job.

use std::time::{Duration, Instant};

use stage2_contract::control::{Answer, Verb};

use super::{Outcome, STEP};
use crate::clock::since_1970;
use crate::control::ask;
use crate::terminal::Terminal;

/// A window has to have been on for so long: what ran in a younger one may still be on its way.
const YOUNGEST: Duration = Duration::from_secs(2);
/// The longest that the end of an empty window is waited for: the moment of the start is a little more ahead.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks those again that refused `start` because of a window in which nothing has run on the GPU, once that is
/// ended. Its trace file stays.
pub(super) fn renew_empty(outcomes: &mut [Outcome], start: &Verb, terminal: &Terminal) {
    let until = Instant::now() + PATIENCE;
    for outcome in outcomes.iter_mut() {
        let refused = outcome.answer.as_ref().is_ok_and(|answer| answer.refused);
        if !refused || ask(&outcome.found, &Verb::Flush).is_err() {
            continue;
        }
        if !ask(&outcome.found, &Verb::Status).is_ok_and(|status| is_empty(&status, since_1970())) {
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

/// Whether a window has been on for a while and has nothing of the GPU.
fn is_empty(status: &Answer, now: Duration) -> bool {
    let none = |name: &str| status.get(name) == Some("0");
    let since = status.get("since_unix_ms").and_then(|ms| ms.parse().ok());
    let is_old = since.is_some_and(|ms| now >= Duration::from_millis(ms) + YOUNGEST);
    status.get("phase") == Some("on") && is_old && none("window_records") && none("window_lost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_window_that_has_been_on_for_a_while_and_has_nothing_is_empty() {
        let of = |phase: &str, records: u64, lost: u64, seconds: u64| {
            let status = Answer::ok().with("phase", phase).with("since_unix_ms", 5_000);
            let status = status.with("window_records", records).with("window_lost", lost);
            is_empty(&status, Duration::from_secs(5 + seconds))
        };
        assert!(of("on", 0, 0, 2));
        assert!(!of("on", 1, 0, 2) && !of("on", 0, 1, 2) && !of("starting", 0, 0, 2));
        assert!(!of("on", 0, 0, 1), "its work may be on its way");
        let other = Answer::ok().with("phase", "on");
        assert!(!is_empty(&other, Duration::from_secs(9)), "another version tells nothing");
    }
}
