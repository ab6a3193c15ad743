//! The `metrics.json` of anybody, as `diff` reads it.

use serde_json::Value;
use stage2_diff::{Run, compare, read_report};

use super::{difference, same_twice};

pub(super) fn check(input: &[u8]) {
    let Ok(read) = same_twice("report", || read_report(input)) else { return };
    // What is written again is read equal.
    let written = serde_json::to_string(&read.report).expect("every report is JSON");
    let again = read_report(written.as_bytes())
        .unwrap_or_else(|why| panic!("our own report is refused: {why}"));
    assert!(again.left_out.is_empty(), "our own report is read in part: {:?}", again.left_out);
    let rewritten = serde_json::to_string(&again.report).expect("every report is JSON");
    let value = |text: &str| serde_json::from_str::<Value>(text).expect("our own JSON");
    let alike = alike(&value(&written), &value(&rewritten));
    assert!(alike, "written again: {}", difference(&written, &rewritten));

    let run = |label| Run { label, report: &read.report, left_out: &read.left_out };
    let compared = same_twice("comparison", || compare(&[run("a")], &[run("b")], &[], false));
    let Ok(comparison) = compared else { return };
    for stage in &comparison.stages {
        for metric in &stage.metrics {
            assert!(!metric.verdict.is_change(), "a report differs from itself: {metric:?}");
        }
    }
}

/// serde_json reads a number to within a unit of its last place.
const ROUNDING: f64 = 1e-15;

/// Whether two reports are equal, but for the rounding of numbers that are read.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value): (&String, &Value)| {
                other.get(key).is_some_and(|other| alike(value, other))
            };
            one.len() == other.len() && one.iter().all(same)
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or(0.0), other.as_f64().unwrap_or(0.0));
            (one - other).abs() <= ROUNDING * one.abs()
        }
        _ => one == other,
    }
}
