//! A verb for running processes -> what they answer, and a snapshot of what they do.

mod snapshot;
pub(crate) mod why;

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use stage2_contract::control::{Answer, START_COST, Verb};
use stage2_contract::text::numbers::{count, counted, ms3};
use stage2_contract::text::visible_path;
use stage2_contract::trace::window::{self, FirstSteps};

use crate::bundle::{not_a_run, run_named};
use crate::cli::{AnswerOptions, CtlArgs, CtlVerb};
use crate::commands::ending::printed;
use crate::control::{
    AskError, ControlSocket, DoneWindow, Target, ask, begins_in, find, since_1970, together,
};
use crate::failure::Failure;
use crate::terminal::{Terminal, printable};

/// The exit status where a process refuses, or does not answer.
const EXIT_REFUSED: u8 = 1;
/// The longest that `--wait` waits.
const PATIENCE: Duration = Duration::from_secs(15);
const STEP: Duration = Duration::from_millis(20);

struct Outcome {
    found: ControlSocket,
    answer: Result<Answer, AskError>,
}

impl Outcome {
    fn is_refused(&self) -> bool {
        self.answer.as_ref().is_ok_and(|answer| answer.refused)
    }
}

pub(crate) fn ctl(args: CtlArgs, terminal: &Terminal) -> Result<u8, Failure> {
    if let CtlVerb::Why(asked) = &args.verb
        && !asked.from.is_empty()
    {
        if args.all || args.target.is_some() {
            let why = "--from names files instead of processes; give it or a TARGET";
            return Err(Failure::Usage(format!("ctl: {why}; see `stage2-launch ctl why --help`")));
        }
        return why::why(None, asked);
    }
    let target = target(&args)?;
    let mut is_forced = false;
    let (verb, AnswerOptions { json }, awaited) = match args.verb {
        CtlVerb::Snapshot(args) => return snapshot::snapshot(&target, args, terminal),
        CtlVerb::Status(answering) => (Verb::Status, answering, None),
        CtlVerb::Why(asked) => return why::why(Some(&target), &asked),
        CtlVerb::Flush(answering) => (Verb::Flush, answering, None),
        CtlVerb::Mark { text, answering } => (Verb::Mark(text.join(" ")), answering, None),
        CtlVerb::Start(start) => {
            is_forced = start.force;
            (Verb::Start(start.to_start()), start.answering, start.waiting.wait.then_some("on"))
        }
        CtlVerb::Stop { waiting, answering } => {
            (Verb::Stop, answering, waiting.wait.then_some("dormant"))
        }
    };
    let found = find(&target)?;
    let mut refused = None;
    if matches!(verb, Verb::Start(_)) {
        let is_new =
            |found: &&ControlSocket| ask(found, &Verb::Status).as_ref().is_ok_and(is_before_cupti);
        let new: Vec<ControlSocket> = found.iter().filter(is_new).cloned().collect();
        refused = refusals(&found, if is_forced { &[] } else { &new });
        if refused.is_none() {
            print_cost(new.len(), terminal);
        }
    }
    let verb = together(verb, found.len());
    let is_held_up = refused.is_some();
    let mut outcomes = match refused {
        Some(refused) => refused,
        None => ask_each(found, &target, &verb, terminal),
    };
    let are_together = !is_held_up && outcomes.len() > 1 && matches!(verb, Verb::Start(_));
    if are_together {
        renew_empty(&mut outcomes, &verb, terminal);
    }
    if let Some(phase) = awaited {
        await_phase(&mut outcomes, phase, begins_in(&verb));
    }
    let first_steps = (are_together && awaited.is_some()).then(|| await_steps(&mut outcomes));
    let text = if json {
        format!("{:#}\n", Value::Array(outcomes.iter().map(to_json).collect()))
    } else {
        let of_each = outcomes.iter().map(|outcome| to_text(outcome, &verb));
        of_each.chain(first_steps.flatten().map(steps_text)).collect()
    };
    printed(&text)?;
    if outcomes.is_empty() {
        return Err(Failure::NoResult(
            "no process of this user runs under the collector on this host; `stage2-launch run --light -- COMMAND` \
             and LD_PRELOAD=libstage2.so start one"
                .to_owned(),
        ));
    }
    let all_accepted =
        outcomes.iter().all(|outcome| outcome.answer.is_ok() && !outcome.is_refused());
    Ok(if all_accepted { 0 } else { EXIT_REFUSED })
}

/// Whether CUPTI is not attached to the process yet: its next window pays for that.
fn is_before_cupti(status: &Answer) -> bool {
    status.get("cupti") == Some("not started")
}

/// The first of these processes without CUPTI in which a kernel stands.
fn held_up(new: &[ControlSocket]) -> Option<(u32, String)> {
    let told = if new.is_empty() { Vec::new() } else { why::held_up(new) };
    new.iter().zip(told).find_map(|(socket, why)| Some((socket.pid, why?)))
}

/// Refuses a start for all of them where a kernel stands in one that has no CUPTI yet.
fn refusals(found: &[ControlSocket], new: &[ControlSocket]) -> Option<Vec<Outcome>> {
    let (stands, why) = held_up(new)?;
    let of_each = found.iter().map(|found| {
        let text = match found.pid == stands {
            true => format!(
                "{why}. CUPTI does not start before that kernel ends, and from then on launches on other streams hang \
                 as well: ask `ctl {stands} why`; --force starts it nevertheless"
            ),
            false => format!("nothing was started, because a kernel stands in process {stands}"),
        };
        Outcome { answer: Ok(Answer::error(text)), found: found.clone() }
    });
    Some(of_each.collect())
}

/// Prints what a first window costs, before one is requested. `first`: processes that have had none.
fn print_cost(first: usize, terminal: &Terminal) {
    if first > 0 {
        let processes = counted(first as u64, "process");
        terminal.result(&format!("this attaches CUPTI to {processes}: {START_COST}"));
    }
}

fn ask_each(
    found: Vec<ControlSocket>,
    target: &Target,
    verb: &Verb,
    terminal: &Terminal,
) -> Vec<Outcome> {
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

fn target(args: &CtlArgs) -> Result<Target, Failure> {
    let usage =
        |why: &str| Err(Failure::Usage(format!("ctl: {why}; see `stage2-launch ctl --help`")));
    match (args.all, &args.target) {
        (true, None) => Ok(Target::All),
        (true, Some(_)) => usage("--all stands for every process; give it or a TARGET"),
        (false, None) => usage("name a process, the folder of a run, or --all"),
        (false, Some(target)) => Ok(match target.to_str().and_then(|text| text.parse().ok()) {
            Some(pid) => Target::Process(pid),
            None => match run_named(target) {
                folder if folder.is_dir() => Target::Run(folder),
                file if file.exists() => return Err(Failure::Usage(not_a_run(&file))),
                _ => {
                    return Err(Failure::Usage(format!(
                        "{} is neither a process ID nor an existing run folder; `stage2-launch ctl \
                         --all status` shows the processes",
                        visible_path(target)
                    )));
                }
            },
        }),
    }
}

/// Waits until the processes that took the request are in this phase, and takes their status as the answer.
/// The time until they begin does not count.
fn await_phase(outcomes: &mut [Outcome], phase: &str, begins_in: Duration) {
    let until = Instant::now() + begins_in + PATIENCE;
    for outcome in outcomes.iter_mut().filter(|outcome| !outcome.is_refused()) {
        while outcome.answer.is_ok() {
            let status = ask(&outcome.found, &Verb::Status);
            let now = status.as_ref().ok().and_then(|status| status.get("phase"));
            // A window may be over before anybody looks.
            if now == Some(phase) || (phase == "on" && now == Some("dormant")) || status.is_err() {
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

/// A window has to have been on for so long: what ran in a younger one may still be on its way.
const YOUNGEST: Duration = Duration::from_secs(2);
/// The longest that the end of an empty window is waited for: the moment of the start is a little more ahead.
const EMPTY_PATIENCE: Duration = Duration::from_secs(1);

/// Ends windows in which nothing has run on the GPU, and asks `start` again. Their trace files stay.
fn renew_empty(outcomes: &mut [Outcome], start: &Verb, terminal: &Terminal) {
    let until = Instant::now() + EMPTY_PATIENCE;
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_refused()) {
        if ask(&outcome.found, &Verb::Flush).is_err()
            || !ask(&outcome.found, &Verb::Status)
                .is_ok_and(|status| is_empty(&status, since_1970()))
        {
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
        let pid = outcome.found.pid;
        let what = "its window was ended, in which nothing had run on the GPU";
        terminal.detail(&format!("{pid}: {what}"));
    }
}

/// Whether a window has been on for a while and has nothing of the GPU.
fn is_empty(status: &Answer, now: Duration) -> bool {
    let none = |name: &str| status.get(name) == Some("0");
    let since = status.get("since_unix_ms").and_then(|ms| ms.parse().ok());
    let is_old = since.is_some_and(|ms| now >= Duration::from_millis(ms) + YOUNGEST);
    status.get("phase") == Some("on") && is_old && none("window_records") && none("window_lost")
}

/// The longest that the first steps are waited for: a process without ranges has none.
const STEPS_PATIENCE: Duration = Duration::from_secs(2);
/// The longest wait once two have told of their first steps: processes that step together tell together.
const LAST_STEP_PATIENCE: Duration = Duration::from_millis(200);

/// Waits, for a bounded time, until every process has told of its first step, and takes its status as the
/// answer. None where fewer than two have one.
fn await_steps(outcomes: &mut [Outcome]) -> Option<FirstSteps> {
    let mut until = Instant::now() + STEPS_PATIENCE;
    loop {
        for outcome in outcomes.iter_mut().filter(|outcome| is_waited_for(outcome)) {
            outcome.answer = ask(&outcome.found, &Verb::Status);
        }
        let steps = outcomes.iter().filter_map(|o| first_step(o.answer.as_ref().ok()?));
        let steps: Vec<(u64, u64)> = steps.collect();
        if steps.len() > 1 {
            until = until.min(Instant::now() + LAST_STEP_PATIENCE);
        }
        if Instant::now() >= until || !outcomes.iter().any(is_waited_for) {
            return FirstSteps::of(steps);
        }
        std::thread::sleep(STEP);
    }
}

fn is_waited_for(outcome: &Outcome) -> bool {
    outcome.answer.as_ref().is_ok_and(|answer| !answer.refused && first_step(answer).is_none())
}

/// When it opened, and how long it was open, ns.
fn first_step(status: &Answer) -> Option<(u64, u64)> {
    let ns = |name: &str| status.get(name)?.parse::<u64>().ok()?.checked_mul(1000);
    Some((ns("first_step_unix_us")?, ns("first_step_us")?))
}

fn steps_text(steps: FirstSteps) -> String {
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

fn to_json(outcome: &Outcome) -> Value {
    let pid = outcome.found.pid;
    let answer = match &outcome.answer {
        Err(error) => return json!({ "pid": pid, "ok": false, "error": error.to_string() }),
        Ok(answer) => answer,
    };
    let typed_word = |(name, value): &(String, String)| (name.clone(), typed(name, value));
    let fields = answer.fields.iter().filter(|(name, _)| name != "done");
    let mut object: Map<String, Value> = fields.map(typed_word).collect();
    let windows = answer.all("done").map(DoneWindow::parse);
    let done: Vec<Value> = windows.map(|done| done.0.iter().map(typed_word).collect()).collect();
    if !done.is_empty() {
        object.insert("done".to_owned(), done.into());
    }
    object.insert("pid".to_owned(), pid.into());
    object.insert("ok".to_owned(), (!answer.refused).into());
    Value::Object(object)
}

/// Numbers are numbers, except for what only looks like one.
fn typed(name: &str, value: &str) -> Value {
    let is_text =
        name.starts_with("option.") || matches!(name, "file" | "why" | "error" | "collector");
    match value.parse::<u64>() {
        Ok(number) if !is_text => number.into(),
        _ => value.into(),
    }
}

fn to_text(outcome: &Outcome, verb: &Verb) -> String {
    let pid = outcome.found.pid;
    let answer = match &outcome.answer {
        Err(error) => return format!("{pid}: error: {}\n", printable(&error.to_string())),
        Ok(answer) => answer,
    };
    let get = |name: &str| answer.get(name).map(printable);
    if answer.refused {
        return format!("{pid}: refused: {}\n", get("error").unwrap_or_default());
    }
    if *verb != Verb::Status && get("phase").is_none() {
        let mut text = format!("{pid}: {}", get("said").unwrap_or_else(|| "accepted".to_owned()));
        text.extend(get("window").map(|window| format!(" (window {window})")));
        let at = answer.get("at_unix_us").and_then(|us| us.parse().ok());
        let at = at.and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
        text.extend(at.map(|at| format!(", begins at {at:.3}")));
        return text + "\n";
    }
    status_text(pid, answer)
}

fn status_text(pid: u32, answer: &Answer) -> String {
    let get = |name: &str| answer.get(name).map(printable).unwrap_or_default();
    let since =
        get("since_unix_ms").parse().ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let since = since.map(|at| format!(" since {at:.0}")).unwrap_or_default();
    let window = answer.get("window").map(|number| format!(", window {}", printable(number)));
    // As `top` calls it.
    let was_recorded = get("windows").parse().is_ok_and(|windows: u64| windows > 0);
    let phase = match get("phase") {
        phase if phase == "dormant" && was_recorded => "stopped".to_owned(),
        phase => phase,
    };
    let mut text = format!("{pid}: {phase}{since}{}\n", window.unwrap_or_default());
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("  {name:<9}{value}\n"));
        }
    };
    let limits = ["for_ms", "steps", "size"]
        .into_iter()
        .filter_map(|name| answer.get(name).map(|limit| format!("{name}={}", printable(limit))));
    let late_ns = get("late_us").parse().map_or(0, |us: u64| us.saturating_mul(1000));
    if late_ns >= window::LATE_FROM_NS {
        line("late", format!("began {} ms after the moment that was set", ms3(late_ns)));
    }
    line("limits", limits.collect::<Vec<_>>().join(" "));
    line("file", get("file"));
    let off = answer.get("cupti_off").map(|off| format!(": {}", printable(off)));
    line("CUPTI", format!("{}{}", get("cupti"), off.unwrap_or_default()));
    let [records, windows, lost] = ["records", "windows", "lost"].map(get);
    let whole = |text: &str| text.parse().map_or_else(|_| text.to_owned(), count);
    let windows =
        windows.parse().map_or_else(|_| format!("{windows} windows"), |of| counted(of, "window"));
    line("records", format!("{} in {windows}, {} lost", whole(&records), whole(&lost)));
    for done in answer.all("done").map(DoneWindow::parse) {
        let of = |name: &str| done.get(name).map_or_else(|| "none".to_owned(), printable);
        let [number, records, lost, why, file] =
            ["number", "records", "lost", "why", "file"].map(of);
        let (records, lost) = (whole(&records), whole(&lost));
        line("window", format!("{number}: {records} records, {lost} lost, ended by {why}, {file}"));
    }
    let options = answer.fields.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("option.")?;
        Some(format!("{}={}", printable(name), printable(value)))
    });
    line("options", options.collect::<Vec<_>>().join(" "));
    line("version", get("collector"));
    text
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

    #[test]
    fn what_is_said_tells_whether_it_is_one_step() {
        let of = |apart_ns| steps_text(FirstSteps { apart_ns, shortest_ns: 2_000_000 });
        assert!(of(31_000).contains("the same step: the first ones opened within 0.031 ms"));
        assert!(of(1_900_000).contains("do not begin with the same step"));
        let status = Answer::ok().with("first_step_unix_us", 7).with("first_step_us", 5);
        assert_eq!(first_step(&status), Some((7_000, 5_000)));
        assert_eq!(first_step(&Answer::ok().with("first_step_unix_us", u64::MAX)), None);
    }

    #[test]
    fn an_answer_is_shown_without_what_a_terminal_obeys_and_as_json() {
        let answer = Answer::ok()
            .with("phase", "on")
            .with("window", 2)
            .with("records", 9)
            .with("file", "/tmp/\x1b[31mx")
            .with("done", "number=1 records=5 lost=0 why=limit%20steps=3 file=/tmp/a");
        let name = stage2_contract::control::SocketName::new("h", 1, 2);
        let found = ControlSocket { pid: 5, path: "/x".into(), name };
        let outcome = Outcome { found, answer: Ok(answer) };
        let text = to_text(&outcome, &Verb::Status);
        assert!(text.starts_with("5: on, window 2\n") && !text.contains('\x1b'), "{text}");
        assert!(text.contains("1: 5 records, 0 lost, ended by limit steps=3, /tmp/a"), "{text}");
        let json = to_json(&outcome);
        assert_eq!((json["pid"].as_u64(), json["records"].as_u64()), (Some(5), Some(9)));
        assert_eq!(json["done"][0]["why"], "limit steps=3");
    }
}
