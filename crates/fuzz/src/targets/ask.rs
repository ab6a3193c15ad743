//! What `ask`, `next`, `query` and `schema` read: a report, the timelines beside it, and SQL.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use stage2_ask::query::{Bundle, Limits, QueryError, query};
use stage2_ask::tables::{Rows, TABLES};
use stage2_ask::{BYTES_PER_TOKEN, Budget, Question, RunFiles, answer, next};
use stage2_contract::text::visible;
use stage2_diff::{Run, read_report};
use stage2_model::Timelines;
use stage2_read::trace::libraries::RangeNames;

use super::same_twice;

const TOKENS: usize = 300;
/// A query that goes on is ended: its time is none of the reader's.
const QUERY_TIME: Duration = Duration::from_millis(300);

/// An input: the two files, and SQL.
#[derive(Deserialize)]
struct Input {
    metrics: Value,
    timelines: Option<Value>,
    sql: Option<String>,
}

pub(super) fn check(input: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Input>(input) else { return };
    let Ok(mut read) = read_report(input.metrics.to_string().as_bytes()) else { return };
    if let Some(timelines) = input.timelines {
        let timelines = serde_json::from_value::<Timelines>(timelines);
        if let Ok(Err(why)) = timelines.map(|timelines| timelines.put_into(&mut read.report)) {
            assert!(!why.is_empty(), "timelines are refused without a reason");
        }
    }
    let run = Run { label: "run", report: &read.report, left_out: &read.left_out };
    for question in Question::all().filter(|question| *question != Question::Compare) {
        let text = same_twice(question.name(), || {
            let answer = answer(&run, question, None).expect("a question about a whole run");
            let texts =
                [Budget::Usual, Budget::Tokens(TOKENS)].map(|budget| answer.to_json(budget));
            (texts, answer.to_markdown(Budget::Tokens(TOKENS)))
        });
        let ([usual, short], markdown) = text;
        check_json(&usual);
        check_json(&short);
        check_text(&markdown);
        let most = TOKENS * BYTES_PER_TOKEN;
        assert!(short.len() <= most && markdown.len() <= most, "{short}{markdown}");
    }
    let found = next(&run, &RunFiles::default());
    check_json(&found.to_json());
    check_text(&found.to_markdown());
    // Nothing is in this folder, so that no table has rows of trace files.
    let (folder, libraries) = (Path::new("/nowhere"), RangeNames::default());
    let bundle = Bundle { report: &read.report, folder, libraries: &libraries, called: "run" };
    for table in TABLES.iter().filter(|table| matches!(table.rows, Rows::Report { .. })) {
        check_query(&bundle, &format!("SELECT * FROM {} LIMIT 3", table.name));
    }
    if let Some(sql) = input.sql {
        check_query(&bundle, &sql);
    }
}

fn check_query(bundle: &Bundle<'_>, sql: &str) {
    match query(bundle, sql, Limits { rows: Some(20), time: QUERY_TIME }) {
        Ok(answered) => {
            check_json(&answered.to_json());
            check_text(&answered.to_markdown());
        }
        Err(QueryError::Sql(why) | QueryError::TooMuch(why)) => {
            assert!(!why.is_empty(), "{sql}");
            check_text(&why);
        }
    }
}

/// One line of JSON.
fn check_json(text: &str) {
    let line = text.trim_end_matches('\n');
    check_text(line);
    assert!(!line.contains('\n'), "more than one line: {line}");
    serde_json::from_str::<Value>(line).unwrap_or_else(|why| panic!("{why}: {line}"));
}

/// Nothing in it changes a terminal.
fn check_text(text: &str) {
    for line in text.lines() {
        assert!(visible(line.as_bytes()) == line, "a control character in {line:?}");
    }
}
