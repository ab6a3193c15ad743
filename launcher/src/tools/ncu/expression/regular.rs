//! Regular expressions for ncu: their parts, those of the user in the form that ncu takes, and
//! expressions that it can match beside each other.

use regex::Regex;

use super::{Expression, Frame, QUANTIFIERS, REGEX, Refused, refused, tokens};

/// Reads an expression of `--nvtx-include` as regular expressions for its names; nothing where ncu
/// would refuse it.
pub fn read(text: &str, start_end: bool) -> Option<Expression<Regex>> {
    let text = match text.starts_with(REGEX) {
        true => text.to_owned(),
        false => {
            Expression::parse(&tokens(text, QUANTIFIERS), start_end).ok()?.text(start_end, true)
        }
    };
    let Expression { domain, bottom, frames, top } = parts(text.strip_prefix(REGEX)?, start_end);
    let frames = frames.into_iter().map(|frame| match frame {
        Frame::Name(name) => Regex::new(name).ok().map(Frame::Name),
        Frame::Between(c) => Some(Frame::Between(c)),
    });
    let frames = frames.collect::<Option<_>>()?;
    Some(Expression { domain: domain.map(Regex::new).transpose().ok()?, bottom, frames, top })
}

/// Makes regular expressions of all expressions of a run where one of them is, the nested ones last:
/// what stands behind a nested regular expression ncu matches with nothing (seen with 2025.3).
pub fn alike(lists: [&mut Vec<String>; 2], start_end: bool) {
    if !has_regex(&lists) {
        return;
    }
    for list in lists {
        for text in list.iter_mut().filter(|text| !text.starts_with(REGEX)) {
            // Here nothing is a glob any more: what is not escaped is ncu's.
            if let Ok(expression) = Expression::parse(&tokens(text, QUANTIFIERS), start_end) {
                *text = expression.text(start_end, true);
            }
        }
        list.sort_by_key(|text| is_nested(text));
    }
}

/// The expressions of a run, to include and to exclude, that ncu matches with nothing: one of them is
/// a regular expression, which makes all of them regular expressions (see [`alike`]), and these stand
/// behind a nested one of their list.
pub fn lost(lists: [&Vec<String>; 2]) -> Vec<String> {
    if !has_regex(&lists) {
        return Vec::new();
    }
    let behind = |list: &'_ Vec<String>| {
        list.iter().filter(|text| is_nested(text)).skip(1).cloned().collect::<Vec<_>>()
    };
    lists.into_iter().flat_map(behind).collect()
}

fn has_regex<L: AsRef<Vec<String>>>(lists: &[L]) -> bool {
    lists.iter().any(|list| list.as_ref().iter().any(|text| text.starts_with(REGEX)))
}

/// The parts of what stands behind `regex:`.
fn parts(regex: &str, start_end: bool) -> Expression<&str> {
    let domain = split(regex, '@').first().copied().filter(|domain| domain.len() < regex.len());
    let range = domain.and_then(|domain| regex.get(domain.len() + 1..)).unwrap_or(regex);
    if start_end {
        let frames = split(range, ',').into_iter().map(Frame::Name).collect();
        return Expression { domain, bottom: false, frames, top: false };
    }
    let bottom = range.starts_with('[');
    let range = range.strip_prefix('[').unwrap_or(range);
    let mut frames = split(range, '/');
    let slash = frames.len() > 1 && frames.last() == Some(&"");
    if slash {
        frames.pop();
    }
    // In front of a slash a `]` belongs to the expression: `layer[0-9]/`.
    let inner = frames.last().copied().unwrap_or_default();
    let top = !slash && ends_unescaped(inner, ']');
    if let Some(last) = frames.last_mut().filter(|_| top) {
        *last = last.strip_suffix(']').unwrap_or(last);
    }
    let frame = |frame| match frame {
        "*" => Frame::Between('*'),
        "+" => Frame::Between('+'),
        name => Frame::Name(name),
    };
    Expression { domain, bottom, frames: frames.into_iter().map(frame).collect(), top }
}

/// Whether an expression of push/pop ranges names more than one.
fn is_nested(text: &str) -> bool {
    parts(text.strip_prefix(REGEX).unwrap_or(text), false).frames.len() > 1
}

/// A regular expression of the user: as it is, but for the slash of a push/pop range.
pub(super) fn of_regex(regex: &str, start_end: bool) -> Result<String, Refused> {
    if regex.trim_matches('/').is_empty() {
        return refused("nothing stands behind regex:; write for instance regex:^decode/");
    }
    if let Some((first, second)) = regex.split_once(";regex:") {
        return refused(format!(
            "ncu takes one expression for each flag: write [regex:{first}, regex:{second}]"
        ));
    }
    if start_end {
        return Ok(format!("{REGEX}{regex}"));
    }
    let parts = parts(regex, start_end);
    // A bracket that makes a class of characters whole was not meant for ncu.
    let is_whole = |regex: &str| Regex::new(regex).is_ok();
    if let Some(Frame::Name(first)) = parts.frames.first().filter(|_| parts.bottom)
        && is_whole(&format!("[{first}"))
    {
        let range = parts.domain.map_or(regex, |domain| &regex[domain.len() + 1..]);
        let domain = &regex[..regex.len() - range.len()];
        return refused(format!(
            "ncu takes a [ at the start for \"nothing around it\": write regex:{domain}^{range}"
        ));
    }
    if let Some(Frame::Name(last)) = parts.frames.last().filter(|_| parts.top)
        && !is_whole(last)
        && is_whole(&format!("{last}]"))
    {
        return refused(format!(
            "ncu takes a ] at the end for \"nothing within it\": write regex:{regex}/"
        ));
    }
    let has_slash = parts.frames.len() > 1 || ends_unescaped(regex, '/');
    Ok(format!("{REGEX}{regex}{}", if has_slash || parts.top { "" } else { "/" }))
}

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

/// Whether the last character is `mark`, and no `\` takes its meaning away.
fn ends_unescaped(text: &str, mark: char) -> bool {
    let parts = split(text, mark);
    parts.len() > 1 && parts.last() == Some(&"")
}
