//! A verb for running processes -> what they answer, for people or as JSON.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use stage2_control::{Answer, Start, Verb, unescape};

use crate::cli::CtlArgs;
use crate::control::{AskError, Found, Target, ask, find};
use crate::failure::Failure;
use crate::terminal::{Terminal, print, printable};

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
    let (target, verb) = read(&args)?;
    let found = find(&target).map_err(|error| Failure::NoResult(error.to_string()))?;
    let mut outcomes: Vec<Outcome> =
        found.into_iter().map(|found| Outcome { answer: ask(&found, &verb), found }).collect();
    if target == Target::All {
        // Sockets that processes left behind when they were killed say nothing of those that live.
        let is_stale = |outcome: &Outcome| matches!(outcome.answer, Err(AskError::Stale { .. }));
        for stale in outcomes.extract_if(.., |outcome| is_stale(outcome)) {
            terminal.detail(&format!("{}: its process is gone", stale.found.path.display()));
        }
    }
    if args.wait {
        let phase = match verb {
            Verb::Start(_) => Some("on"),
            Verb::Stop => Some("dormant"),
            _ => None,
        };
        phase.into_iter().for_each(|phase| await_phase(&mut outcomes, phase));
    }
    let text = match args.json {
        true => {
            let all: Vec<Value> = outcomes.iter().map(to_json).collect();
            format!("{:#}\n", Value::Array(all))
        }
        false => outcomes.iter().map(|outcome| to_text(outcome, &verb)).collect(),
    };
    print(&text)
        .map_err(|error| Failure::NoResult(format!("stdout cannot be written: {error}")))?;
    let went_well = |outcome: &Outcome| outcome.answer.as_ref().is_ok_and(|answer| !answer.refused);
    Ok(if !outcomes.is_empty() && outcomes.iter().all(went_well) { 0 } else { EXIT_REFUSED })
}

/// The words of the command line.
fn read(args: &CtlArgs) -> Result<(Target, Verb), Failure> {
    let (target, words) = match (args.all, args.words.split_first()) {
        (true, _) => (Target::All, &args.words[..]),
        (false, Some((target, words))) => {
            let target = match target.parse() {
                Ok(pid) => Target::Process(pid),
                Err(_) => Target::Run(target.into()),
            };
            (target, words)
        }
        (false, None) => return Err(usage("name a process, the folder of a run, or --all")),
    };
    let Some((verb, rest)) = words.split_first() else {
        return Err(usage("a verb is missing: status, start, stop, flush or mark"));
    };
    let verb = match (verb.as_str(), rest) {
        ("status", []) => Verb::Status,
        ("stop", []) => Verb::Stop,
        ("flush", []) => Verb::Flush,
        ("mark", [_, ..]) => Verb::Mark(rest.join(" ")),
        ("mark", []) => return Err(usage("mark needs a text")),
        ("start", rest) => {
            let escaped: Vec<String> = rest.iter().map(|word| escaped_value(word)).collect();
            let start = Start::parse(escaped.iter().map(String::as_str));
            Verb::Start(start.map_err(|error| usage(&error.to_string()))?)
        }
        (verb, _) => {
            return Err(usage(&format!(
                "{:?} is no request; there are status, start \
            [ranges=GLOBS] [sample=1/N] [for_ms=MS] [steps=N] [size=BYTES], stop, flush and mark TEXT",
                std::iter::once(verb)
                    .chain(rest.iter().map(String::as_str))
                    .collect::<Vec<_>>()
                    .join(" ")
            )));
        }
    };
    Ok((target, verb))
}

/// As a request has it: values may hold anything there.
fn escaped_value(word: &str) -> String {
    match word.split_once('=') {
        Some((key, value)) => format!("{key}={}", stage2_control::escape(value)),
        None => word.to_owned(),
    }
}

fn usage(why: &str) -> Failure {
    Failure::Usage(format!("ctl: {why}; see `stage2-launch ctl --help`"))
}

/// Waits until the processes that took the request are in this phase, and takes their status as the answer.
fn await_phase(outcomes: &mut [Outcome], phase: &str) {
    let until = Instant::now() + PATIENCE;
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

fn to_json(outcome: &Outcome) -> Value {
    let pid = outcome.found.pid;
    match &outcome.answer {
        Err(error) => json!({ "pid": pid, "ok": false, "error": error.to_string() }),
        Ok(answer) => {
            let mut object = Map::new();
            for (name, value) in &answer.fields {
                match name.as_str() {
                    "done" => {
                        let list = object.entry("done").or_insert_with(|| json!([]));
                        if let Some(list) = list.as_array_mut() {
                            list.push(Value::Object(words(value).collect()));
                        }
                    }
                    _ => drop(object.insert(name.clone(), typed(name, value))),
                }
            }
            object.insert("pid".to_owned(), pid.into());
            object.insert("ok".to_owned(), (!answer.refused).into());
            Value::Object(object)
        }
    }
}

/// Numbers are numbers, but for what only looks like one.
fn typed(name: &str, value: &str) -> Value {
    let is_text =
        name.starts_with("option.") || matches!(name, "file" | "why" | "error" | "collector");
    match value.parse::<u64>() {
        Ok(number) if !is_text => number.into(),
        _ => value.into(),
    }
}

/// The words of a window that is over.
fn words(value: &str) -> impl Iterator<Item = (String, Value)> {
    value.split(' ').filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), typed(name, &unescape(value)?)))
    })
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
        text.extend(get("note").map(|note| format!("\n{pid}: note: {note}")));
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
    let mut text = format!("{pid}: {}{since}{}\n", get("phase"), window.unwrap_or_default());
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            text.push_str(&format!("  {name:<9}{value}\n"));
        }
    };
    let limits = ["for_ms", "steps", "size"]
        .into_iter()
        .filter_map(|name| answer.get(name).map(|limit| format!("{name}={}", printable(limit))));
    line("limits", limits.collect::<Vec<_>>().join(" "));
    line("file", get("file"));
    let off =
        answer.get("cupti_off").map(|off| format!(": {}", printable(off))).unwrap_or_default();
    line("CUPTI", format!("{}{off}", get("cupti")));
    line(
        "records",
        format!("{} in {} windows, {} lost", get("records"), get("windows"), get("lost")),
    );
    for done in answer.all("done") {
        let done: Map<String, Value> = words(done).collect();
        let of = |name: &str| match done.get(name) {
            Some(Value::String(text)) => printable(text),
            Some(other) => other.to_string(),
            None => "none".to_owned(),
        };
        line(
            "window",
            format!(
                "{}: {} records, {} lost, ended by {}, {}",
                of("number"),
                of("records"),
                of("lost"),
                of("why"),
                of("file")
            ),
        );
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

    fn args(all: bool, words: &[&str]) -> CtlArgs {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        CtlArgs { all, json: false, wait: false, words }
    }

    #[test]
    fn words_are_a_target_and_a_verb() {
        let (target, verb) =
            read(&args(false, &["12", "start", "ranges=a b,c%", "for_ms=5"])).unwrap();
        assert_eq!(target, Target::Process(12));
        let Verb::Start(start) = verb else { panic!("{verb:?}") };
        assert_eq!((start.ranges.as_deref(), start.limits.for_ms), (Some("a b,c%"), Some(5)));
        let (target, verb) = read(&args(true, &["mark", "two", "words"])).unwrap();
        assert_eq!((target, verb), (Target::All, Verb::Mark("two words".to_owned())));
        let (target, _) = read(&args(false, &["tmp/stage2/latest", "status"])).unwrap();
        assert_eq!(target, Target::Run("tmp/stage2/latest".into()));
    }

    #[test]
    fn words_that_make_no_sense_say_what_does() {
        for (words, part) in [
            (&[][..], "--all"),
            (&["12"], "status, start, stop"),
            (&["12", "begin"], "there are status"),
            (&["12", "stop", "now"], "\"stop now\""),
            (&["12", "start", "for_ms=x"], "milliseconds"),
            (&["12", "mark"], "text"),
        ] {
            let error = read(&args(false, words)).unwrap_err();
            assert!(
                matches!(error, Failure::Usage(_)) && error.to_string().contains(part),
                "{error}"
            );
        }
    }

    #[test]
    fn an_answer_is_shown_without_what_a_terminal_obeys_and_as_json() {
        let answer = Answer::ok()
            .with("phase", "on")
            .with("window", 2)
            .with("records", 9)
            .with("file", "/tmp/\x1b[31mx")
            .with("done", "number=1 records=5 lost=0 why=limit%20steps=3 file=/tmp/a");
        let name = stage2_control::SocketName::new("h", 1, 2);
        let found = Found { pid: 5, path: "/x".into(), name };
        let outcome = Outcome { found, answer: Ok(answer) };
        let text = to_text(&outcome, &Verb::Status);
        assert!(text.starts_with("5: on, window 2\n") && !text.contains('\x1b'), "{text}");
        assert!(text.contains("1: 5 records, 0 lost, ended by limit steps=3, /tmp/a"), "{text}");
        let json = to_json(&outcome);
        assert_eq!((json["pid"].as_u64(), json["records"].as_u64()), (Some(5), Some(9)));
        assert_eq!(json["done"][0]["why"], "limit steps=3");
    }
}
