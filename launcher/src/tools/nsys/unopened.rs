//! A capture range that never came, and the ranges that the collector saw -> what to tell of it.

use std::collections::BTreeSet;

use crate::tools::saw;
use stage2_model::{Finding, PathKind, PathRow};
use stage2_text::{shorten, visible};

use super::config::Nsys;
use super::expression::{CaptureExpression, DomainChoice};

/// Characters of a name.
const NAME_LIMIT: usize = 80;

/// Adds to the finding on a range that never came what the collector saw in `paths`.
pub fn with_seen(mut finding: Finding, nsys: &Nsys, paths: &[PathRow]) -> Finding {
    let Ok(Some(capture)) = nsys.capture() else { return finding };
    let mut ranges: Vec<&PathRow> =
        paths.iter().filter(|row| row.kind == PathKind::Range).collect();
    // The outer ones are the stages that a capture is usually started by.
    ranges.sort_by_key(|row| row.depth);
    let mut known = BTreeSet::new();
    let all = ranges.into_iter().filter(|row| known.insert((&row.name, &row.domain)));
    let all: Vec<&PathRow> = all.collect();
    let labels: Vec<String> = all.iter().map(|row| label(row)).collect();
    finding.why = format!("{}; {}", finding.why, saw(&labels));
    if let Some(swapped) = swapped(&capture, &all) {
        finding.why = format!("{}; nsys writes NAME@DOMAIN: {swapped}", finding.why);
    }
    finding
}

/// `NAME@DOMAIN` for what was given as ncu writes it, the domain first: nothing where no range of
/// such a domain was seen.
fn swapped(capture: &CaptureExpression, seen: &[&PathRow]) -> Option<String> {
    let DomainChoice::Named(second) = &capture.domain else { return None };
    let is_domain = |row: &&&PathRow| row.domain.as_deref() == Some(&*capture.range);
    seen.iter().find(is_domain)?;
    let escaped = |text: &str| text.replace('@', "\\@");
    Some(format!("{}@{}", escaped(second), escaped(&capture.range)))
}

/// The range as nsys takes it.
fn label(row: &PathRow) -> String {
    let shown = |text: &str| shorten(&visible(text.as_bytes()), NAME_LIMIT).replace('@', "\\@");
    match &row.domain {
        Some(domain) => format!("{}@{}", shown(&row.name), shown(domain)),
        None => shown(&row.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::{default, gated};
    use super::*;

    fn range(name: &str, domain: Option<&str>, depth: u64) -> PathRow {
        let (name, domain) = (name.to_owned(), domain.map(str::to_owned));
        PathRow { name, domain, depth, ..PathRow::default() }
    }

    fn told(nsys: &Nsys, paths: &[PathRow]) -> String {
        let finding = Finding::warning("it never came", "none was opened", "look");
        with_seen(finding, nsys, paths).why
    }

    fn waiting_for(capture: &str) -> Nsys {
        Nsys { nvtx_capture: Some(capture.into()), ..gated() }
    }

    #[test]
    fn the_ranges_that_the_collector_saw_are_named_once_and_the_outer_ones_first() {
        let outside = PathRow { kind: PathKind::OutsideRanges, ..range("(outside)", None, 0) };
        let paths = [
            range("decode", None, 0),
            range("layer", None, 1),
            range("prefill", None, 0),
            range("layer", None, 1),
            range("decode_all", Some("LLM"), 0),
            outside,
        ];
        let why = told(&waiting_for("decoding@*"), &paths);
        let expected = "none was opened; the collector saw decode, prefill, decode_all@LLM, layer";
        assert_eq!(why, expected);
        let many: Vec<PathRow> = (0..11).map(|n| range(&format!("r{n}"), None, 0)).collect();
        let why = told(&waiting_for("decoding@*"), &many);
        assert!(why.ends_with("r6, r7 and 3 more"), "{why}");
        assert!(told(&waiting_for("x"), &[]).ends_with("the collector saw no range"));
        assert_eq!(told(&default(), &paths), "none was opened", "it waited for no range");
    }

    #[test]
    fn a_domain_before_the_name_is_turned_round() {
        let paths = [range("x", Some("LLM"), 0), range("y", None, 0)];
        let why = told(&waiting_for("LLM@x"), &paths);
        assert!(why.ends_with("saw x@LLM, y; nsys writes NAME@DOMAIN: x@LLM"), "{why}");
        assert!(!told(&waiting_for("y@x"), &paths).contains("nsys writes"));
        assert!(!told(&waiting_for("LLM@*"), &paths).contains("nsys writes"));
    }
}
