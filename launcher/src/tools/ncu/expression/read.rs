//! Expressions that ncu gets, or regular expressions of the user -> their parts.

use super::{Expression, Frame, Piece, QUANTIFIERS, REGEX, tokens};

/// A name in an expression that ncu gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The name itself.
    Literal(String),
    /// A regular expression that is searched for in the name.
    Regex(String),
}

/// Reads an expression of `--nvtx-include`; nothing where ncu would refuse it.
pub fn read(text: &str, start_end: bool) -> Option<Expression<Written>> {
    if let Some(regex) = text.strip_prefix(REGEX) {
        return parts(regex, start_end).try_map(|name| Some(Written::Regex(name.to_owned())));
    }
    let parsed = Expression::parse(&tokens(text, QUANTIFIERS), start_end).ok()?;
    let char = |piece: Piece| match piece {
        Piece::Char(c) => Some(c),
        // A glob, which ncu does not have.
        Piece::One | Piece::Any => None,
    };
    parsed.try_map(|name| name.into_iter().map(char).collect::<Option<_>>().map(Written::Literal))
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
pub(super) fn is_nested(text: &str) -> bool {
    parts(text.strip_prefix(REGEX).unwrap_or(text), false).frames.len() > 1
}

/// A regular expression of the user: as it is, but for the slash of a push/pop range.
pub(super) fn of_regex(regex: &str, start_end: bool) -> Result<String, String> {
    if regex.trim_matches('/').is_empty() {
        return Err("nothing stands behind regex:; write for instance regex:^decode/".to_owned());
    }
    if let Some((first, second)) = regex.split_once(";regex:") {
        return Err(format!(
            "ncu takes one expression for each flag: write [regex:{first}, regex:{second}]"
        ));
    }
    if start_end {
        return Ok(format!("{REGEX}{regex}"));
    }
    let parts = parts(regex, start_end);
    let brackets = |frame: Option<&Frame<&str>>| match frame {
        Some(Frame::Name(name)) => Brackets::of(name),
        Some(Frame::Between(_)) | None => Brackets::Closed,
    };
    if parts.bottom && brackets(parts.frames.first()) == Brackets::Stray {
        let range = parts.domain.map_or(regex, |domain| &regex[domain.len() + 1..]);
        let domain = &regex[..regex.len() - range.len()];
        return Err(format!(
            "ncu takes a [ at the start for \"nothing around it\": write regex:{domain}^{range}"
        ));
    }
    if parts.top && brackets(parts.frames.last()) == Brackets::Open {
        return Err(format!(
            "ncu takes a ] at the end for \"nothing within it\": write regex:{regex}/"
        ));
    }
    let has_slash = parts.frames.len() > 1 || ends_unescaped(regex, '/');
    Ok(format!("{REGEX}{regex}{}", if has_slash || parts.top { "" } else { "/" }))
}

/// How the character classes (`[0-9]`) of a regular expression end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brackets {
    Closed,
    /// The last class is open at the end.
    Open,
    /// A `]` closes no class.
    Stray,
}

impl Brackets {
    fn of(regex: &str) -> Brackets {
        let mut found = Brackets::Closed;
        let mut rest = regex;
        while let Some(c) = rest.chars().next() {
            let open = found == Brackets::Open;
            // A named class: `[[:digit:]]`.
            let named = rest.strip_prefix("[:").filter(|_| open).and_then(|name| name.find(":]"));
            let taken = match (c, named) {
                (_, Some(end)) => "[:".len() + end + ":]".len(),
                ('\\', _) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                _ => c.len_utf8(),
            };
            match c {
                '[' if !open => found = Brackets::Open,
                ']' if open => found = Brackets::Closed,
                ']' => return Brackets::Stray,
                _ => {}
            }
            rest = &rest[taken..];
        }
        found
    }
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
