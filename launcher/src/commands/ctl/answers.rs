//! Answers of control sockets -> text for people, or JSON.

use serde_json::{Map, Value, json};
use stage2_contract::control::{Answer, Verb, unescape};
use stage2_contract::text::numbers::ms3;
use stage2_contract::trace::window;

use super::Outcome;
use crate::terminal::printable;

pub(super) fn to_json(outcome: &Outcome) -> Value {
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

pub(super) fn to_text(outcome: &Outcome, verb: &Verb) -> String {
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
    let late_ns = get("late_us").parse().map_or(0, |us: u64| us.saturating_mul(1000));
    if late_ns >= window::LATE_FROM_NS {
        line("late", format!("began {} ms after the moment that was set", ms3(late_ns)));
    }
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
    use crate::control::Found;

    #[test]
    fn an_answer_is_shown_without_what_a_terminal_obeys_and_as_json() {
        let answer = Answer::ok()
            .with("phase", "on")
            .with("window", 2)
            .with("records", 9)
            .with("file", "/tmp/\x1b[31mx")
            .with("done", "number=1 records=5 lost=0 why=limit%20steps=3 file=/tmp/a");
        let name = stage2_contract::control::SocketName::new("h", 1, 2);
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
