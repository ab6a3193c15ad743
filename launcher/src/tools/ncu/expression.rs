//! What the settings say of NVTX ranges, or ranges that were seen -> expressions for `--nvtx-include`.
//!
//! The grammar of ncu, as NVIDIA's own matcher applies it (2024.1 to 2026.3): `A/` is the push/pop
//! range `A` at any depth, `A/B/` is `B` directly within `A`, `A/*/B/` any number of ranges further
//! in, `A/+/B/` exactly one; `[A` has nothing around it, `B]` nothing within it; `A` without a slash
//! is a start/end range, and `A,B` both of two. There are no globs: `A*/` matches nothing. Behind
//! `regex:` each name is an expression that is searched for, not anchored. A name with a special
//! character takes a `\` before it, but no form of a name with a `\` matches, except as a regular
//! expression, where `\x5c` and the like keep every character away from both grammars. Of expressions
//! with and without `regex:` in one run some match nothing (seen with 2025.3): see [`alike`].

mod regular;

pub use regular::{alike, lost, read};
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
    /// Itself.
    Plain(char),
    /// One with a meaning: a quantifier of ncu, the `;` between expressions, or a wildcard, which is
    /// the only mark with a meaning in a name.
    Mark(char),
}

/// A text that ncu does not accept, or accepts and never matches, and the form that was probably meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

fn refused<T>(what: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(what.into()))
}

/// A part of an expression between two slashes. `N` is how a name is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<N> {
    /// A range.
    Name(N),
    /// `*` or `+` alone: ranges between two others.
    Between(char),
}

/// One expression. `N` is how a name is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression<N> {
    /// Name of the domain; none: the default one.
    pub domain: Option<N>,
    /// `[` in front: no range of the domain is around it.
    pub bottom: bool,
    /// The ranges, the outermost first.
    pub frames: Vec<Frame<N>>,
    /// `]` at the end: no range of the domain is within it.
    pub top: bool,
}

/// What may be around the ranges that [`exact`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// Any ranges: the expression matches at every depth.
    Anything,
    /// No range of their domain. Without this, `attn` would also be every `decode/attn`.
    Nothing,
}

/// The expressions of one entry of `nvtx.include` or `nvtx.exclude`, for a flag each. `;` separates
/// several, globs become anchored regular expressions, and `regex:` is handed on.
///
/// # Errors
/// One that ncu would not match as it is meant.
pub fn of_setting(entry: &str, start_end: bool) -> Result<Vec<String>, Refused> {
    let named = |Refused(what)| Refused(format!("{entry:?}: {what}"));
    if let Some(regex) = entry.strip_prefix(REGEX) {
        return regular::of_regex(regex, start_end).map(|one| vec![one]).map_err(named);
    }
    let tokens = tokens(entry, "@,[]/*+?;");
    let parts = tokens.split(|token| *token == Token::Mark(';'));
    // A semicolon at the end ends the list.
    let parts: Vec<&[Token]> = parts.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return refused("it names no range; give for instance decode/").map_err(named);
    }
    let one = |part: &&[Token]| Ok(Expression::parse(part, start_end)?.text(start_end, false));
    parts.iter().map(one).collect::<Result<_, Refused>>().map_err(named)
}

/// The expression for the innermost range of a stack, directly within the others. They have to be of
/// one domain. Nothing where a range has no name, which ncu cannot say. With `start_end` it is the
/// innermost range alone: those do not nest.
pub fn exact(stack: &[Label], around: Around, start_end: bool) -> Option<String> {
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
        let next = chars.peek().copied();
        match (c, next) {
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
    fn parse(tokens: &[Token], start_end: bool) -> Result<Self, Refused> {
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

    fn start_end(range: &[Token]) -> Result<Self, Refused> {
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

    fn push_pop(range: &[Token]) -> Result<Self, Refused> {
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

#[cfg(test)]
mod tests;
