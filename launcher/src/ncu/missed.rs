//! Expressions that let no launch through, and the ranges that the collector saw -> why.
//!
//! A reader of `--nvtx-include` expressions, which `expression` writes. What it cannot read it says
//! nothing of.

use std::collections::BTreeSet;

use regex::Regex;

use super::regions::RangeTime;
use stage2_analysis::ncu::nvtx::{self, Label};
use stage2_model::{Finding, Severity};

/// Expressions that are explained, and ranges that are named.
const SHOWN: usize = 6;
/// Longer expressions are not read.
const LONGEST: usize = 4096;

/// What to tell after a run that profiled nothing; nothing where no ranges were asked for.
pub fn finding(asked: &[String], seen: &[RangeTime]) -> Option<Finding> {
    if asked.is_empty() {
        return None;
    }
    let causes: BTreeSet<String> = asked.iter().take(SHOWN).map(|text| cause(text, seen)).collect();
    let ranges = match seen_ranges(seen) {
        Some(ranges) => format!("the collector saw {ranges}"),
        None => "the collector saw no range".to_owned(),
    };
    let causes: Vec<String> = causes.into_iter().collect();
    Some(Finding::new(
        Severity::Warning,
        format!("ncu met no launch in the ranges that were asked for: {}", listed(asked)),
        format!("{}; {ranges}", causes.join("; ")),
        "correct pipeline.ncu.stage (NAME or NAME@DOMAIN) or pipeline.ncu.ncu_cli.nvtx.include \
         (NAME/, OUTER/*/INNER/, DOMAIN@NAME/, a glob, or regex:EXPRESSION)",
    ))
}

/// The ranges of a run, for people; nothing where there are none.
pub fn seen_ranges(seen: &[RangeTime]) -> Option<String> {
    let paths: BTreeSet<String> = seen.iter().map(|range| nvtx::path(&range.stack)).collect();
    let paths: Vec<String> = paths.into_iter().collect();
    (!paths.is_empty()).then(|| listed(&paths))
}

fn listed(texts: &[String]) -> String {
    let more = texts.len().saturating_sub(SHOWN);
    let shown = texts.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// Why an expression let nothing through.
fn cause(text: &str, seen: &[RangeTime]) -> String {
    let Some(expression) = Expression::read(text) else {
        return format!("{text} cannot be compared with the ranges of the run");
    };
    let hit = |any_domain: bool| {
        seen.iter().filter(|range| expression.matches(&range.stack, any_domain)).collect::<Vec<_>>()
    };
    let here = hit(false);
    if here.iter().any(|range| range.kernels > 0) {
        return format!(
            "kernels ran in {text} in the collect pass, but ncu counts those only that were launched \
             by the thread that opened the range, and tells push/pop ranges (with a slash at the \
             end) from start/end ranges (without)"
        );
    }
    if !here.is_empty() {
        return format!("no kernel was launched in {text}");
    }
    if let Some(last) = hit(true).first().and_then(|range| range.stack.last()) {
        let domain = last.domain.as_deref().unwrap_or("<default domain>");
        return format!("{text} names no domain that has the range: write {domain}@{}/", last.name);
    }
    format!("{text} matches no range of the run")
}

/// A name of a range or domain.
enum Name {
    Exactly(String),
    Pattern(Regex),
}

impl Name {
    fn matches(&self, name: &str) -> bool {
        match self {
            Name::Exactly(text) => text == name,
            Name::Pattern(regex) => regex.is_match(name),
        }
    }
}

enum Frame {
    Name(Name),
    One,
    Any,
}

struct Expression {
    /// None: the default domain.
    domain: Option<Name>,
    bottom: bool,
    frames: Vec<Frame>,
    top: bool,
}

impl Expression {
    fn read(text: &str) -> Option<Expression> {
        if text.len() > LONGEST {
            return None;
        }
        let (regex, text) = match text.strip_prefix("regex:") {
            Some(text) => (true, text),
            None => (false, text),
        };
        let name = |text: &str| -> Option<Name> {
            if regex {
                return Regex::new(text).ok().map(Name::Pattern);
            }
            Some(Name::Exactly(unescaped(text)))
        };
        let (domain, range) = match split(text, '@').as_slice() {
            [range] => (None, (*range).to_owned()),
            [domain, range] => (Some(name(domain)?), (*range).to_owned()),
            _ => return None,
        };
        let range = range.strip_suffix('/').unwrap_or(&range);
        let bottom = range.starts_with('[');
        let range = range.strip_prefix('[').unwrap_or(range);
        let top = range.ends_with(']') && !range.ends_with(r"\]");
        let range = if top { &range[..range.len() - 1] } else { range };
        let frames = split(range, '/').into_iter().map(|frame| match frame {
            "*" => Some(Frame::Any),
            "+" => Some(Frame::One),
            text => name(text).map(Frame::Name),
        });
        Some(Expression { domain, bottom, frames: frames.collect::<Option<_>>()?, top })
    }

    /// Whether a launch in the innermost range of a stack is within what the expression says.
    fn matches(&self, stack: &[Label], any_domain: bool) -> bool {
        let in_domain = |label: &&Label| match (&self.domain, &label.domain) {
            _ if any_domain => true,
            (None, domain) => domain.is_none(),
            (Some(wanted), domain) => wanted.matches(domain.as_deref().unwrap_or(DEFAULT)),
        };
        let labels: Vec<&Label> = stack.iter().filter(in_domain).collect();
        // How far into the stack the frames so far may reach.
        let mut reached: BTreeSet<usize> =
            if self.bottom { [0].into() } else { (0..=labels.len()).collect() };
        for frame in &self.frames {
            reached = match frame {
                Frame::Any => {
                    let first = reached.first().copied().unwrap_or(labels.len() + 1);
                    (first..=labels.len()).collect()
                }
                Frame::One => reached.iter().map(|at| at + 1).collect(),
                Frame::Name(name) => {
                    let hit = |at: &&usize| labels.get(**at).is_some_and(|l| name.matches(&l.name));
                    reached.iter().filter(hit).map(|at| at + 1).collect()
                }
            };
            reached.retain(|at| *at <= labels.len());
        }
        if self.top { reached.contains(&labels.len()) } else { !reached.is_empty() }
    }
}

const DEFAULT: &str = "<default domain>";

/// The parts between marks that no `\` stands before.
fn split(text: &str, mark: char) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == mark && !escaped {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Vec<RangeTime> {
        let range = |path: &str, kernels| RangeTime {
            stack: path.split('/').map(Label::of_stage).collect(),
            kernels,
            total_ns: kernels,
        };
        vec![
            range("prefill", 5),
            range("prefill/attn", 5),
            range("decode@LLM", 9),
            range("warm[0]", 0),
            range("outer", 3),
            range("outer/mid", 3),
            range("outer/mid/inner", 3),
        ]
    }

    #[test]
    fn the_cause_is_named_for_each_expression() {
        for (expression, cause) in [
            ("nothing/", "nothing/ matches no range of the run"),
            ("regex:^dec$/", "regex:^dec$/ matches no range"),
            ("decode/", "write LLM@decode/"),
            ("LLM@decode/", "by the thread that opened the range"),
            ("regex:^LLM$@^dec.*$/", "by the thread that opened the range"),
            (r"warm\[0\]/", "no kernel was launched in"),
            ("attn/", "by the thread"),
            ("prefill/attn/", "by the thread"),
            ("[attn/", "matches no range"),
            ("outer/*/inner/", "by the thread"),
            ("outer/+/inner/", "by the thread"),
            ("outer/inner/", "matches no range"),
            ("prefill/+/attn/", "matches no range"),
            ("[outer/*/inner]", "by the thread"),
            ("regex:^(/", "cannot be compared"),
            ("a@b@c/", "cannot be compared"),
        ] {
            let found = finding(&[expression.to_owned()], &seen()).expect("a finding");
            assert!(found.why.contains(cause), "{expression}: {found}");
            assert!(found.what.contains(expression), "{found}");
        }
    }

    #[test]
    fn what_was_asked_for_and_what_was_seen_are_listed() {
        let asked: Vec<String> = (0..9).map(|n| format!("stage{n}/")).collect();
        let found = finding(&asked, &seen()).expect("a finding");
        assert!(found.what.contains("stage0/") && found.what.contains("and 3 more"), "{found}");
        assert!(found.why.contains("the collector saw decode@LLM, outer, outer/mid"), "{found}");
        let found = finding(&asked, &[]).expect("a finding");
        assert!(found.why.ends_with("the collector saw no range"), "{found}");
        assert_eq!(finding(&[], &seen()), None);
    }

    #[test]
    fn hostile_expressions_end() {
        let asked = [format!("a/{}b/", "*/".repeat(2000)), "\\".to_owned(), "é[".repeat(2000)];
        let deep = RangeTime { stack: vec![Label::of_stage("a"); 500], kernels: 1, total_ns: 1 };
        assert!(finding(&asked, &[deep]).is_some());
    }
}
