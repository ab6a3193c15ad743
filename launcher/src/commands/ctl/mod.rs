//! A verb for running processes -> what they answer, and a snapshot of what they do.

mod answers;
mod renew;
mod snapshot;
mod steps;

use std::time::{Duration, Instant};

use serde_json::Value;
use stage2_contract::control::{Answer, Verb};

use crate::cli::{Answering, CtlArgs, CtlVerb};
use crate::control::{AskError, Found, Target, ask, begins_in, find, together};
use crate::failure::Failure;
use crate::terminal::{Terminal, print};
use answers::{to_json, to_text};
use renew::renew_empty;
use steps::{await_steps, steps_text};

/// The exit status where a process refuses, or does not answer.
const EXIT_REFUSED: u8 = 1;
/// The longest that `--wait` waits.
const PATIENCE: Duration = Duration::from_secs(15);
/// Between two looks.
const STEP: Duration = Duration::from_millis(20);

/// What became of a request to one process.
struct Outcome {
    found: Found,
    answer: Result<Answer, AskError>,
}

/// `stage2-launch ctl`.
pub(crate) fn ctl(args: CtlArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let target = target(&args)?;
    let (verb, Answering { json }, awaited) = match args.verb {
        CtlVerb::Snapshot(args) => return snapshot::snapshot(&target, args, terminal),
        CtlVerb::Status(answering) => (Verb::Status, answering, None),
        CtlVerb::Flush(answering) => (Verb::Flush, answering, None),
        CtlVerb::Mark { text, answering } => (Verb::Mark(text.join(" ")), answering, None),
        CtlVerb::Start(start) => {
            (Verb::Start(start.to_start()), start.answering, start.waiting.wait.then_some("on"))
        }
        CtlVerb::Stop { waiting, answering } => {
            (Verb::Stop, answering, waiting.wait.then_some("dormant"))
        }
    };
    let found = found(&target)?;
    let verb = together(verb, found.len());
    let mut outcomes = ask_each(found, &target, &verb, terminal);
    let are_together = outcomes.len() > 1 && matches!(verb, Verb::Start(_));
    if are_together {
        renew_empty(&mut outcomes, &verb, terminal);
    }
    if let Some(phase) = awaited {
        await_phase(&mut outcomes, phase, begins_in(&verb));
    }
    let first_steps = (are_together && awaited.is_some()).then(|| await_steps(&mut outcomes));
    let text = match json {
        true => {
            let all: Vec<Value> = outcomes.iter().map(to_json).collect();
            format!("{:#}\n", Value::Array(all))
        }
        false => {
            let of_each = outcomes.iter().map(|outcome| to_text(outcome, &verb));
            of_each.chain(first_steps.flatten().map(steps_text)).collect()
        }
    };
    print(&text)
        .map_err(|error| Failure::NoResult(format!("stdout cannot be written: {error}")))?;
    let went_well = |outcome: &Outcome| outcome.answer.as_ref().is_ok_and(|answer| !answer.refused);
    Ok(if !outcomes.is_empty() && outcomes.iter().all(went_well) { 0 } else { EXIT_REFUSED })
}

/// The sockets of the processes that are meant.
fn found(target: &Target) -> Result<Vec<Found>, Failure> {
    find(target).map_err(|error| Failure::NoResult(error.to_string()))
}

/// Asks every process of the target.
fn ask_all(target: &Target, verb: &Verb, terminal: &Terminal) -> Result<Vec<Outcome>, Failure> {
    Ok(ask_each(found(target)?, target, verb, terminal))
}

/// Asks these processes of the target.
fn ask_each(found: Vec<Found>, target: &Target, verb: &Verb, terminal: &Terminal) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> =
        found.into_iter().map(|found| Outcome { answer: ask(&found, verb), found }).collect();
    if *target == Target::All {
        // Sockets that processes left behind when they were killed say nothing of those that live.
        let is_stale = |outcome: &Outcome| matches!(outcome.answer, Err(AskError::Stale { .. }));
        for stale in outcomes.extract_if(.., |outcome| is_stale(outcome)) {
            terminal.detail(&format!("{}: its process is gone", stale.found.path.display()));
        }
    }
    outcomes
}

/// The processes that the command line names.
fn target(args: &CtlArgs) -> Result<Target, Failure> {
    let usage =
        |why: &str| Err(Failure::Usage(format!("ctl: {why}; see `stage2-launch ctl --help`")));
    match (args.all, &args.target) {
        (true, None) => Ok(Target::All),
        (true, Some(_)) => usage("--all stands for every process; give it or a TARGET"),
        (false, None) => usage("name a process, the folder of a run, or --all"),
        (false, Some(target)) => Ok(match target.to_str().and_then(|text| text.parse().ok()) {
            Some(pid) => Target::Process(pid),
            None => Target::Run(target.clone()),
        }),
    }
}

/// Waits until the processes that took the request are in this phase, and takes their status as the answer.
/// The time until they begin is no part of the patience.
fn await_phase(outcomes: &mut [Outcome], phase: &str, begins_in: Duration) {
    let until = Instant::now() + begins_in + PATIENCE;
    for outcome in outcomes {
        if outcome.answer.as_ref().is_ok_and(|answer| answer.refused) {
            continue;
        }
        while outcome.answer.is_ok() {
            let status = ask(&outcome.found, &Verb::Status);
            let now = status.as_ref().ok().and_then(|status| status.get("phase"));
            // A window may be over before anybody looks.
            let reached = now == Some(phase) || (phase == "on" && now == Some("dormant"));
            if reached || status.is_err() {
                outcome.answer = status;
                break;
            }
            if Instant::now() >= until {
                let seconds = PATIENCE.as_secs();
                outcome.answer = Ok(Answer::error(format!(
                    "it was accepted, and the process is still not {phase} after {seconds} s (it is {})",
                    now.unwrap_or("silent")
                )));
                break;
            }
            std::thread::sleep(STEP);
        }
    }
}
