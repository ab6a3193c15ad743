//! What the settings say of NVTX ranges, or ranges that were seen -> expressions for `--nvtx-include`.
//!
//! The grammar of ncu, as NVIDIA's own matcher applies it (2024.1 to 2026.3): `A/` is the push/pop
//! range `A` at any depth, `A/B/` is `B` directly within `A`, `A/*/B/` any number of ranges further
//! in, `A/+/B/` exactly one; `[A` has nothing around it, `B]` nothing within it; `A` without a slash
//! is a start/end range, and `A,B` both of two. There are no globs: `A*/` matches nothing. Behind
//! `regex:` each name is an expression that is searched for, not anchored. A name with a special
//! character takes a `\` before it, but no form of a name with a `\` matches, except as a regular
//! expression, where `\x5c` and similar escapes keep every character away from both grammars. Of expressions
//! with and without `regex:` in one run some match nothing (seen with 2025.3): see [`alike`].

use regex::Regex;

use stage2_contract::order::Order as _;
use stage2_read::ncu::nvtx::Label;

/// What has a meaning in an expression of ncu.
const QUANTIFIERS: &str = r"@,[]/*+";
/// What has a meaning in a regular expression or in an expression of ncu.
const REGEX_MARKS: &str = r"\.^$|?*+()[]{}@,/;";
/// What stands for other characters in a name of the user.
const WILDCARDS: &str = "*?";
const REGEX: &str = "regex:";

/// A character of what the user wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Plain(char),
    /// One with a meaning: a quantifier of ncu, the `;` between expressions, or a wildcard.
    Mark(char),
}

/// A text that ncu does not accept, or accepts and never matches, and the form that was probably meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExpressionError(String);

fn refused<T>(what: impl Into<String>) -> Result<T, ExpressionError> {
    Err(ExpressionError(what.into()))
}

/// A part of an expression between two slashes. `N` is how a name is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<N> {
    Name(N),
    /// `*` or `+` alone: ranges between two others.
    Between(char),
}

/// One expression. `N` is how a name is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression<N> {
    /// Name of the domain; none: the default one.
    pub(crate) domain: Option<N>,
    /// `[` in front: no range of the domain is around it.
    pub(crate) bottom: bool,
    pub(crate) frames: Vec<Frame<N>>,
    /// `]` at the end: no range of the domain is within it.
    pub(crate) top: bool,
}

/// What may be around the ranges that [`exact`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// Any ranges: the expression matches at every depth.
    Anything,
    /// No range of their domain. Without this, `attn` would also be every `decode/attn`.
    Nothing,
}

/// The expressions of one entry of `nvtx.include` or `nvtx.exclude`, for a flag each, or why ncu would not match it
/// as it is meant. `;` separates several, globs become regular expressions, and `regex:` is handed on.
pub(crate) fn of_setting(entry: &str, start_end: bool) -> Result<Vec<String>, ExpressionError> {
    let named = |ExpressionError(what)| ExpressionError(format!("{entry:?}: {what}"));
    if let Some(regex) = entry.strip_prefix(REGEX) {
        return of_regex(regex, start_end).map(|one| vec![one]).map_err(named);
    }
    let tokens = tokens(entry, "@,[]/*+?;");
    let parts = tokens.split(|token| *token == Token::Mark(';'));
    // A semicolon at the end ends the list.
    let parts: Vec<&[Token]> = parts.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return refused("it names no range; give for instance decode/").map_err(named);
    }
    let one = |part: &&[Token]| Ok(Expression::parse(part, start_end)?.text(start_end, false));
    parts.iter().map(one).collect::<Result<_, ExpressionError>>().map_err(named)
}

/// The expression for the innermost range of a stack, directly within the others, of one domain. Nothing where a
/// range has no name, which ncu cannot say. With `start_end` it is that range alone: those do not nest.
pub(crate) fn exact(stack: &[Label], around: Around, start_end: bool) -> Option<String> {
    let stack = if start_end { stack.get(stack.len().checked_sub(1)?..)? } else { stack };
    let chars = |text: &str| text.chars().map(Token::Plain).collect::<Vec<_>>();
    if stack.is_empty() || stack.iter().any(|label| label.name.is_empty()) {
        return None;
    }
    let expression = Expression {
        domain: stack.first()?.domain.as_deref().map(chars),
        bottom: around == Around::Nothing && !start_end,
        frames: stack.iter().map(|label| Frame::Name(chars(&label.name))).collect(),
        top: false,
    };
    Some(expression.text(start_end, false))
}

/// `marks` have a meaning where no `\` stands before them.
fn tokens(entry: &str, marks: &str) -> Vec<Token> {
    let marks = |c: char| marks.contains(c);
    let mut tokens = Vec::new();
    let mut chars = entry.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('\\', Some(escaped)) if marks(escaped) || "\\?;".contains(escaped) => {
                chars.next();
                tokens.push(Token::Plain(escaped));
            }
            _ if marks(c) => tokens.push(Token::Mark(c)),
            _ => tokens.push(Token::Plain(c)),
        }
    }
    tokens
}

/// As the user would write it.
fn written(tokens: &[Token]) -> String {
    let mut out = String::new();
    for token in tokens {
        match token {
            Token::Plain(c) if QUANTIFIERS.contains(*c) || "?;\\".contains(*c) => {
                out.extend(['\\', *c]);
            }
            Token::Plain(c) | Token::Mark(c) => out.push(*c),
        }
    }
    out
}

/// The tokens as the user would write them, with each of the `marks` taken literally.
fn literally(tokens: &[Token], marks: &str) -> String {
    let plain = |token: &Token| match token {
        Token::Mark(c) if marks.contains(*c) => Token::Plain(*c),
        other => *other,
    };
    written(&tokens.iter().map(plain).collect::<Vec<_>>())
}

impl Expression<Vec<Token>> {
    fn parse(tokens: &[Token], start_end: bool) -> Result<Self, ExpressionError> {
        let is = |mark: char| move |token: &Token| *token == Token::Mark(mark);
        let mut sides = tokens.splitn(2, is('@'));
        let (first, second) = (sides.next().unwrap_or_default(), sides.next());
        let (domain, range) = second.map_or((None, first), |range| (Some(first), range));
        if let Some(domain) = domain {
            if range.contains(&Token::Mark('@')) {
                let (domain, range) = (written(domain), literally(range, "@"));
                return refused(format!(
                    "ncu takes one domain: write \\@ for an @ in a name, e.g. {domain}@{range}"
                ));
            }
            let name = written(range);
            let name = name.trim_matches('/');
            if domain.contains(&Token::Mark('/')) {
                let range = written(domain);
                return refused(format!(
                    "ncu takes the domain in front of the range: write {name}@{range}/"
                ));
            }
            if domain.is_empty() || name.is_empty() {
                return refused(
                    "a domain or a range is missing at the @: write DOMAIN@RANGE/, or RANGE/ for the \
                     default domain",
                );
            }
        }
        let mut expression =
            if start_end { Self::start_end(range)? } else { Self::push_pop(range)? };
        expression.domain = domain.map(<[Token]>::to_vec);
        Ok(expression)
    }

    fn start_end(range: &[Token]) -> Result<Self, ExpressionError> {
        let ends = [range.first(), range.last()];
        if range.contains(&Token::Mark('/'))
            || ends[0] == Some(&Token::Mark('['))
            || ends[1] == Some(&Token::Mark(']'))
        {
            return refused(format!(
                "/, [ and ] are of push/pop ranges, and start_end=true asks for start/end ranges: \
                 set it to false, or write {} for a name with them",
                literally(range, "/[]")
            ));
        }
        let names: Vec<&[Token]> = range.split(|token| *token == Token::Mark(',')).collect();
        if names.iter().any(|name| name.is_empty()) {
            return refused(
                "a name is missing at a comma: write A,B for the time in which both ranges are open",
            );
        }
        let frames = names.into_iter().map(|name| Frame::Name(name.to_vec())).collect();
        Ok(Expression { domain: None, bottom: false, frames, top: false })
    }

    fn push_pop(range: &[Token]) -> Result<Self, ExpressionError> {
        let mark = |c: char| Token::Mark(c);
        if range.contains(&mark(',')) {
            let parts: Vec<String> =
                range.split(|token| *token == mark(',')).map(|p| with_slash(&written(p))).collect();
            return refused(format!(
                "a comma joins start/end ranges: write [{}] for several push/pop ranges, or {} for \
                 a name with a comma",
                parts.join(", "),
                with_slash(&literally(range, ","))
            ));
        }
        let slash = range.last() == Some(&mark('/'));
        let range = if slash { &range[..range.len() - 1] } else { range };
        let bottom = range.first() == Some(&mark('['));
        let range = if bottom { &range[1..] } else { range };
        let inner = range.rsplit(|token| *token == mark('/')).next().unwrap_or_default();
        let closes = inner.last() == Some(&mark(']'));
        // `layer[3]` may be a name, and then ncu takes the bracket away from it.
        let named = closes && inner.contains(&mark('['));
        if closes && !slash && named {
            let start = if bottom { "[" } else { "" };
            return refused(format!(
                "ncu takes a ] at the end for \"nothing within it\": write {start}{}/ for a range of \
                 that name",
                literally(range, "[]")
            ));
        }
        let top = closes && !slash;
        let range = if top { &range[..range.len() - 1] } else { range };
        let frames: Vec<&[Token]> = range.split(|token| *token == mark('/')).collect();
        if frames.iter().any(|frame| frame.is_empty()) {
            let named: Vec<String> =
                frames.iter().filter(|f| !f.is_empty()).map(|f| written(f)).collect();
            return match named.as_slice() {
                [] => refused("it names no range; give for instance decode/"),
                named => {
                    refused(format!("a name is missing at a slash: write {}/", named.join("/")))
                }
            };
        }
        let frame = |frame: &&[Token]| match frame {
            [Token::Mark(c @ ('*' | '+'))] => Frame::Between(*c),
            name => Frame::Name(name.to_vec()),
        };
        let parsed: Vec<_> = frames.iter().map(frame).collect();
        match parsed.iter().position(|frame| matches!(frame, Frame::Name(_))) {
            Some(0) => {}
            Some(first) => {
                let rest: Vec<String> = frames[first..].iter().map(|f| written(f)).collect();
                let wanted = rest.join("/");
                return refused(format!(
                    "ncu takes * and + only behind the name of a range: write {wanted}/, which is \
                     that range wherever it is nested"
                ));
            }
            None => {
                return refused(
                    "it names no range, and would allow everything: leave it out, or give for \
                     instance decode/",
                );
            }
        }
        Ok(Expression { domain: None, bottom, frames: parsed, top })
    }

    /// As ncu takes it.
    fn text(&self, start_end: bool, regex: bool) -> String {
        let names = self.frames.iter().filter_map(|frame| match frame {
            Frame::Name(name) => Some(name),
            Frame::Between(_) => None,
        });
        let front = self.domain.as_ref().or(names.clone().next());
        let needed = names.chain(&self.domain).flatten().any(|token| match token {
            Token::Mark(c) if WILDCARDS.contains(*c) => true,
            // A `;` spoils every expression of the run.
            Token::Plain(c) | Token::Mark(c) => matches!(c, '\\' | ';') || c.is_control(),
        });
        // A name like this would be taken for a regular expression.
        let needed = needed || front.is_some_and(|name| literal(name).starts_with(REGEX));
        let regex = regex || needed;
        let spell = if regex { anchored } else { literal };
        let mut out = String::from(if regex { REGEX } else { "" });
        if let Some(domain) = &self.domain {
            out.push_str(&spell(domain));
            out.push('@');
        }
        if self.bottom {
            out.push('[');
        }
        for (at, frame) in self.frames.iter().enumerate() {
            if at > 0 {
                out.push(if start_end { ',' } else { '/' });
            }
            match frame {
                Frame::Name(name) => out.push_str(&spell(name)),
                Frame::Between(c) => out.push(*c),
            }
        }
        if self.top {
            out.push(']');
        } else if !start_end {
            out.push('/');
        }
        out
    }
}

/// A name without wildcards, `\` or control characters.
fn literal(name: &[Token]) -> String {
    let mut out = String::with_capacity(name.len());
    for Token::Plain(c) | Token::Mark(c) in name {
        if QUANTIFIERS.contains(*c) {
            out.push('\\');
        }
        out.push(*c);
    }
    out
}

/// A name as a regular expression for all of it.
fn anchored(name: &[Token]) -> String {
    let mut out = String::from("^");
    for token in name {
        match token {
            Token::Mark('*') => out.push_str(".*"),
            Token::Mark('?') => out.push('.'),
            Token::Plain(c) | Token::Mark(c)
                if REGEX_MARKS.contains(*c) || c.is_ascii_control() =>
            {
                out.push_str(&format!("\\x{:02x}", u32::from(*c)));
            }
            Token::Plain(c) | Token::Mark(c) => out.push(*c),
        }
    }
    out.push('$');
    out
}

fn with_slash(text: &str) -> String {
    format!("{}/", text.trim_end_matches('/'))
}

/// Reads an expression of `--nvtx-include`; nothing where ncu would refuse it.
pub(crate) fn read(text: &str, start_end: bool) -> Option<Expression<Regex>> {
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
pub(crate) fn alike(lists: [&mut Vec<String>; 2], start_end: bool) {
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
        list.order_by_key(|text| is_nested(text));
    }
}

/// The expressions of a run that ncu matches with nothing: one of all is a regular expression, which makes all of
/// them such (see [`alike`]), and these stand behind a nested one of their list.
pub(crate) fn lost(lists: [&Vec<String>; 2]) -> Vec<String> {
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

/// A regular expression of the user: as it is, except for the slash of a push/pop range.
fn of_regex(regex: &str, start_end: bool) -> Result<String, ExpressionError> {
    if regex.trim_matches('/').is_empty() {
        return refused("nothing follows regex:; write for instance regex:^decode/");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_settings_say_becomes_expressions_of_ncu() {
        for (given, expected) in [
            // A literal name gets its slash, and stays as it is.
            ("decode", "decode/"),
            ("decode/", "decode/"),
            ("LLM@decode", "LLM@decode/"),
            ("outer/*/inner", "outer/*/inner/"),
            ("outer/+/inner/", "outer/+/inner/"),
            ("decode/attn", "decode/attn/"),
            ("[decode", "[decode/"),
            ("inner]", "inner]"),
            ("[outer/*/inner]", "[outer/*/inner]"),
            ("[decode]", "[decode]"),
            ("decode/*", "decode/*/"),
            (r"a\/b", r"a\/b/"),
            ("A::A1", "A::A1/"),
            ("a.b[c]d", r"a.b\[c\]d/"),
            ("layer[10]/", r"layer\[10\]/"),
            (r"layer\[10\]", r"layer\[10\]/"),
            ("a+b", r"a\+b/"),
            // Globs become anchored regular expressions.
            ("decode*", "regex:^decode.*$/"),
            ("decode*/", "regex:^decode.*$/"),
            ("layer.?", r"regex:^layer\x2e.$/"),
            ("*attn", "regex:^.*attn$/"),
            ("LLM@decode*/", "regex:^LLM$@^decode.*$/"),
            ("*@decode", "regex:^.*$@^decode$/"),
            ("dec*/*/attn", "regex:^dec.*$/*/^attn$/"),
            ("[pre*/attn]", "regex:[^pre.*$/^attn$]"),
            (r"a\*b*", r"regex:^a\x2ab.*$/"),
            ("f(x)[0]*/", r"regex:^f\x28x\x29\x5b0\x5d.*$/"),
            ("été*", "regex:^été.*$/"),
            // A list is a flag for each, and semicolons separate, too.
            ("prefill/;decode/", "prefill/ decode/"),
            ("A;B;A::A1", "A/ B/ A::A1/"),
            ("prefill;dec*;", "prefill/ regex:^dec.*$/"),
            (r"a\;b", r"regex:^a\x3bb$/"),
            // Regular expressions of the user are handed on.
            ("regex:dec.*", "regex:dec.*/"),
            ("regex:^decode/", "regex:^decode/"),
            ("regex:D[A-Z]@R[0-9]/", "regex:D[A-Z]@R[0-9]/"),
            (r"regex:a\/b", r"regex:a\/b/"),
            ("regex:[^outer$/^inner$]", "regex:[^outer$/^inner$]"),
            ("regex:^(a|b)$]", "regex:^(a|b)$]"),
            ("regex:a;b/", "regex:a;b/"),
            // A bracket that is escaped, or that a class ends with, is of the name.
            (r"regex:a\]", r"regex:a\]/"),
            ("regex:layer[0-9]/", "regex:layer[0-9]/"),
            ("regex:^x[[:digit:]]$", "regex:^x[[:digit:]]$/"),
            ("regex:x[0-9]]", "regex:x[0-9]]"),
            ("regex:[x[0-9]y/", "regex:[x[0-9]y/"),
        ] {
            let made = of_setting(given, false).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(made, expected.split(' ').collect::<Vec<_>>(), "{given}");
        }
        // Start/end ranges have no slash.
        for (given, expected) in [
            ("decode", "decode"),
            ("LLM@A,B", "LLM@A,B"),
            ("dec*,B", "regex:^dec.*$,^B$"),
            (r"a\/b", r"a\/b"),
            ("regex:dec.*", "regex:dec.*"),
        ] {
            assert_eq!(of_setting(given, true), Ok(vec![expected.to_owned()]), "{given}");
        }
    }

    #[test]
    fn what_ncu_refuses_or_never_matches_is_refused_with_the_right_form() {
        for (given, start_end, right) in [
            ("*/attn/", false, "write attn/,"),
            ("*/*/decode/attn", false, "write decode/attn/,"),
            ("+/attn/", false, "write attn/,"),
            ("a,b*", false, r"write [a/, b*/] for several push/pop ranges, or a\,b*/ for"),
            ("a@b@c/", false, r"e.g. a@b\@c/"),
            ("decode/attn@LLM", false, "write LLM@decode/attn/"),
            ("decode@", false, "write DOMAIN@RANGE/"),
            ("@decode/", false, "write DOMAIN@RANGE/"),
            ("a//b", false, "write a/b/"),
            ("/a", false, "write a/"),
            ("layer[10]", false, r"write layer\[10\]/ for"),
            ("run/layer[10]", false, r"write run/layer\[10\]/ for"),
            ("*", false, "leave it out"),
            ("/", false, "decode/"),
            (";", false, "decode/"),
            ("", false, "decode/"),
            ("a;*/b", false, "write b/,"),
            ("regex:", false, "regex:^decode/"),
            ("regex:/", false, "regex:^decode/"),
            ("regex:a/;regex:b/", false, "write [regex:a/, regex:b/]"),
            ("regex:[ab].*/", false, "write regex:^[ab].*/"),
            ("regex:LLM@[ab].*/", false, "write regex:LLM@^[ab].*/"),
            ("regex:layer[0-9]", false, "write regex:layer[0-9]/"),
            ("regex:run/layer[[:digit:]]", false, "write regex:run/layer[[:digit:]]/"),
            ("decode/", true, r"write decode\/ for"),
            ("layer[1]", true, r"write layer\[1\] for"),
            ("a,,b", true, "write A,B"),
        ] {
            let error = of_setting(given, start_end).expect_err(given).to_string();
            assert!(error.contains(right), "{given}: {error}");
            assert!(error.starts_with(&format!("{given:?}: ")), "{error}");
        }
    }

    #[test]
    fn a_range_that_was_seen_is_asked_for_exactly() {
        let stack =
            |names: &[&str]| names.iter().map(|name| Label::of_stage(name)).collect::<Vec<_>>();
        let exact = |names: &[&str], start_end| exact(&stack(names), Around::Anything, start_end);
        for (names, start_end, expected) in [
            (&["decode"] as &[&str], false, "decode/"),
            (&["decode@LLM"], false, "LLM@decode/"),
            (&["decode@LLM"], true, "LLM@decode"),
            (&["decode", "attn"], false, "decode/attn/"),
            (&["decode", "attn"], true, "attn"),
            (&["a/b [0]"], false, r"a\/b \[0\]/"),
            (&["x@"], false, r"x\@/"),
            (&["what?*"], false, r"what?\*/"),
            // No literal form of a backslash matches, and this prefix would turn a name into a pattern.
            (&[r"C:\run"], false, r"regex:^C:\x5crun$/"),
            (&[r"a\b", "c/d"], false, r"regex:^a\x5cb$/^c\x2fd$/"),
            (&["regex:abc"], false, "regex:^regex:abc$/"),
            (&["two\nlines"], false, r"regex:^two\x0alines$/"),
        ] {
            assert_eq!(exact(names, start_end).as_deref(), Some(expected), "{names:?}");
        }
        for (names, start_end, expected) in [
            (&["attn"] as &[&str], false, "[attn/"),
            (&["decode@LLM", "attn@LLM"], false, "LLM@[decode/attn/"),
            (&[r"a\b", "c"], false, r"regex:[^a\x5cb$/^c$/"),
            (&["decode", "attn"], true, "attn"),
        ] {
            let alone = super::exact(&stack(names), Around::Nothing, start_end);
            assert_eq!(alone.as_deref(), Some(expected), "{names:?}");
        }
        assert_eq!(exact(&[], false), None);
        // ncu has no form for a range without a name.
        assert_eq!(exact(&["decode", ""], false), None);
    }

    #[test]
    fn what_is_suggested_is_accepted() {
        for given in ["*/attn/", "a@b@c/", "decode/attn@LLM", "a//b", "layer[10]", "regex:[ab].*/"]
        {
            let error = of_setting(given, false).expect_err(given).to_string();
            let form = error.rsplit_once("write ").map_or(error.as_str(), |(_, form)| form);
            let form = form.rsplit_once("e.g. ").map_or(form, |(_, form)| form);
            let form = form.split([' ', ',']).next().unwrap_or_default();
            assert!(of_setting(form, false).is_ok(), "{given}: {form}");
        }
    }

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn with_one_regular_expression_all_are_since_ncu_loses_some_of_a_mixture() {
        let mut include = strings(&[r"ll\[0\]\/x/", "regex:dec.*/", "LLM@a/*/b]", "[what?/"]);
        let mut exclude = strings(&["warm/"]);
        alike([&mut include, &mut exclude], false);
        assert_eq!(
            include,
            [
                r"regex:^ll\x5b0\x5d\x2fx$/",
                "regex:dec.*/",
                r"regex:[^what\x3f$/",
                "regex:^LLM$@^a$/*/^b$]",
            ],
            "the nested one last"
        );
        assert_eq!(exclude, ["regex:^warm$/"]);
        let mut plain = strings(&["a/", "b/"]);
        alike([&mut plain, &mut Vec::new()], false);
        assert_eq!(plain, ["a/", "b/"], "without one they stay as they are");
        let mut start_end = strings(&["a,b", "regex:^c$"]);
        alike([&mut start_end, &mut Vec::new()], true);
        assert_eq!(start_end, ["regex:^a$,^b$", "regex:^c$"]);
    }

    #[test]
    fn several_nested_ones_go_with_literal_names_only() {
        let lost = |include: &[&str], exclude: &[&str]| {
            super::lost([&strings(include), &strings(exclude)])
        };
        assert_eq!(lost(&["a/b/", "c/*/d/", r"e\/f/", "[g/"], &[]), [""; 0]);
        assert_eq!(lost(&["a/b/", "regex:^c.*$/", r"e\/f/", "[g/"], &[]), [""; 0], "one nested");
        assert_eq!(lost(&["a/b/", "regex:^c.*$/", "d/e/"], &[]), ["d/e/"]);
        assert_eq!(lost(&["regex:^a$/^b$/", "regex:^c$/*/^d$/"], &[]), ["regex:^c$/*/^d$/"]);
        // A regular expression in one list changes the other, too.
        assert_eq!(lost(&["regex:^dec.*$/"], &["a/b/", "c/d/"]), ["c/d/"]);
        assert_eq!(lost(&["regex:^dec.*$/", "a/b/"], &["c/d/"]), [""; 0], "one nested in each");
        assert_eq!(lost(&["dec/"], &["a/b/", "c/d/"]), [""; 0]);
    }

    #[test]
    fn what_ncu_gets_is_read_into_its_parts() {
        let names = |text: &str, start_end| {
            let read = read(text, start_end)?;
            let frame = |frame: &Frame<regex::Regex>| match frame {
                Frame::Name(name) => name.to_string(),
                Frame::Between(c) => c.to_string(),
            };
            let mut parts: Vec<String> = read.frames.iter().map(frame).collect();
            parts.extend(read.domain.as_ref().map(|domain| format!("in {domain}")));
            parts.extend(read.bottom.then(|| "bottom".to_owned()));
            parts.extend(read.top.then(|| "top".to_owned()));
            Some(parts.join(" "))
        };
        for (text, start_end, parts) in [
            (r"LLM@[a\/b/*/c]", false, Some(r"^a\x2fb$ * ^c$ in ^LLM$ bottom top")),
            ("A,B", true, Some("^A$ ^B$")),
            ("a@b@c/", false, None),
            ("regex:layer[0-9]/", false, Some("layer[0-9]")),
            ("regex:^d$@[^a$/+/^b$]", false, Some("^a$ + ^b$ in ^d$ bottom top")),
            (r"regex:a\/b\]/", false, Some(r"a\/b\]")),
            ("regex:^a$,^b$", true, Some("^a$ ^b$")),
        ] {
            assert_eq!(names(text, start_end).as_deref(), parts, "{text}");
        }
    }
}
