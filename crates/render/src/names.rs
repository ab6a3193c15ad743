//! Names of functions and kernels in the sentences of pages, as code: some are words (`priority`), and none is to be read
//! as one.

use std::cmp::Reverse;
use std::collections::HashMap;

use stage2_contract::order::Order as _;
use stage2_contract::text::{code, code_in_text, plain, shorten_kernel};
use stage2_model::{HostCause, HostFrame, Report};

/// How short the sentences of a report cut the names of kernels, characters.
const KERNEL_CHARS: [usize; 2] = [40, crate::facts::KERNEL_CHARS];
/// `and 11 more lines)` behind the line of a function.
const LINES_CHARS: usize = 40;

/// What follows a name in Markdown.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// It is whole.
    Name,
    /// `18)`, or `18 and 2 more lines)`.
    Lines,
    /// `18`.
    Line,
}

/// The names of a report, by their first words.
pub(crate) struct Names(HashMap<String, Vec<(String, String, End)>>);

impl Names {
    pub(crate) fn of(report: &Report) -> Self {
        let mut names = Self(HashMap::new());
        let host = report.host.iter().flat_map(|host| &host.stages);
        let causes = causes_of(report).map(|cause| &cause.frame);
        let faults = host.flat_map(|stage| &stage.advice).map(|fault| &fault.frame);
        let late = report.ranks.late.iter().filter_map(|late| late.host.as_ref());
        let late = late.flat_map(|host| &host.rows);
        let held = late.clone().flat_map(|row| &row.held_in);
        let frames = causes.chain(faults).chain(late.map(|row| &row.frame)).flatten();
        frames.chain(held).for_each(|frame| names.add_function(frame));
        let called = causes_of(report).filter_map(|cause| cause.called.as_deref());
        called.filter(|name| is_no_word(name)).for_each(|name| names.add(name, End::Name));
        for row in &report.stage_kernels {
            // Such as `gemm`, which is a class, too.
            let is_word = row.kernel.chars().all(char::is_alphabetic);
            if !is_word {
                KERNEL_CHARS.iter().for_each(|&chars| {
                    names.add(&shorten_kernel(&row.kernel, chars), End::Name);
                });
            }
        }
        for names in names.0.values_mut() {
            names.order_by_cached_key(|(name, ..)| (Reverse(name.len()), name.clone()));
            names.dedup();
        }
        names
    }

    fn add(&mut self, name: &str, end: End) {
        let escaped = plain(name);
        if let Some(word) = first_word(&escaped).filter(|_| !name.contains('`')) {
            let known = self.0.entry(word.to_owned()).or_default();
            known.push((escaped.clone(), name.to_owned(), end));
        }
    }

    fn add_function(&mut self, frame: &HostFrame) {
        // Others are words, too.
        if is_no_word(&frame.function) {
            let bare = frame.short();
            bare.split_once(" (").into_iter().for_each(|(name, _)| self.add(name, End::Name));
        }
        let line = frame.line.to_string();
        for whole in [frame.short(), frame.text()] {
            if let Some((name, _)) = whole.rsplit_once(&format!("{line})")) {
                self.add(name, End::Lines);
            }
        }
        for short in [true, false] {
            let named = frame.named(short);
            if let Some(name) = named.strip_suffix(&line) {
                self.add(name, End::Line);
            }
        }
    }

    /// A piece of Markdown with its names as code; those that are code stay.
    pub(crate) fn as_code(&self, markdown: &str) -> String {
        markdown.split_inclusive('\n').map(|line| self.line_as_code(line)).collect()
    }

    fn line_as_code(&self, line: &str) -> String {
        let span = if line.starts_with('|') { code } else { code_in_text };
        let (mut out, mut rest) = (String::with_capacity(line.len()), line);
        let mut within_word = false;
        while let Some(c) = rest.chars().next() {
            let skipped = match c {
                '\\' => rest.chars().take(2).map(char::len_utf8).sum(),
                '`' => code_bytes(rest),
                _ => c.len_utf8(),
            };
            if let Some((bytes, name)) = self.at_start(rest).filter(|_| !within_word) {
                out.push_str(&span(&name));
                (_, rest) = rest.split_at(bytes);
                continue;
            }
            let (piece, after) = rest.split_at(skipped);
            out.push_str(piece);
            (rest, within_word) = (after, is_of_word(c));
        }
        out
    }

    /// The length of the name that a text begins with, and the name.
    fn at_start(&self, text: &str) -> Option<(usize, String)> {
        let known = self.0.get(first_word(text)?)?;
        known.iter().find_map(|(escaped, name, end)| {
            let after = text.strip_prefix(escaped.as_str())?;
            let digits = after.chars().take_while(char::is_ascii_digit).count();
            let bytes = match end {
                End::Name if goes_on(after) => return None,
                End::Name => 0,
                End::Line | End::Lines if digits == 0 => return None,
                End::Line => digits,
                End::Lines => after.find(')').filter(|at| *at < LINES_CHARS)? + 1,
            };
            let rest = after.get(..bytes)?;
            Some((escaped.len() + bytes, format!("{name}{rest}")))
        })
    }
}

/// Whether a word is not over before this: a full stop ends one.
fn goes_on(after: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\\');
    after.strip_prefix('.').unwrap_or(after).starts_with(is_letter)
}

fn causes_of(report: &Report) -> impl Iterator<Item = &HostCause> {
    report.host.iter().flat_map(|host| &host.stages).flat_map(|stage| &stage.causes)
}

/// Whether a name cannot be read as a word.
fn is_no_word(name: &str) -> bool {
    name.contains(['.', '_'])
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// What a text begins with up to the end of a word; `None`: it begins with none.
fn first_word(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !is_of_word(c)).unwrap_or(text.len());
    text.get(..end).map(|word| word.trim_end_matches('.')).filter(|word| !word.is_empty())
}

/// The length of the span of code that a text begins with; of its ticks if it does not end.
pub(crate) fn code_bytes(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let (fence, rest) = text.split_at(ticks);
    let mut at = 0;
    while let Some(found) = rest.get(at..).and_then(|rest| rest.find(fence)) {
        let end = at + found + ticks;
        let run = rest.get(at + found..).unwrap_or_default();
        let run = run.len() - run.trim_start_matches('`').len();
        if run == ticks {
            return ticks + end;
        }
        at += found + run;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{HostStage, HostUse, StageKernelRow};

    /// `make priority (a.py:18) faster` reads as English.
    #[test]
    fn names_in_sentences_are_code_once() {
        let frame = |function: &str| HostFrame {
            function: function.into(),
            file: "dir/a.py".into(),
            line: 18,
        };
        let cause = |function| HostCause { frame: Some(frame(function)), ..HostCause::default() };
        let causes = vec![cause("priority"), cause("A._f<T>")];
        let stages = vec![HostStage { causes, ..HostStage::default() }];
        let kernel =
            |kernel: &str| StageKernelRow { kernel: kernel.into(), ..StageKernelRow::default() };
        let report = Report {
            host: Some(HostUse { stages, ..HostUse::default() }),
            stage_kernels: vec![kernel("ns::add_k<int, 2>"), kernel("gemm")],
            ..Report::default()
        };
        let names = Names::of(&report);
        for (text, expected) in [
            ("make priority (a.py:18) faster", "make `priority (a.py:18)` faster"),
            ("priority comes first, a.py:18", "priority comes first, a.py:18"),
            (
                "(priority, a.py:18; A._f<T>, dir/a.py:18)",
                "(`priority, a.py:18`; `A._f<T>, dir/a.py:18`)",
            ),
            (
                "in A._f<T> (dir/a.py:18 and 2 more lines): 1 ms",
                "in `A._f<T> (dir/a.py:18 and 2 more lines)`: 1 ms",
            ),
            ("nopriority (a.py:18)", "nopriority (a.py:18)"),
            ("the gemm is ns::add_k<int, 2>. It", "the gemm is `ns::add_k<int, 2>`. It"),
        ] {
            assert_eq!(
                names.as_code(&plain(text)),
                plain(expected)
                    .replace("\\`", "`")
                    .replace("&lt;", "<")
                    .replace("&gt;", ">")
                    .replace("\\_", "_")
            );
        }
        let is_code = "`priority (a.py:18)` and ``x` priority (a.py:18)``";
        assert_eq!(names.as_code(is_code), is_code);
    }
}
