//! `RANGE`, `RANGE@DOMAIN` or `RANGE@*` -> which NVTX range starts a capture.

use serde::{Deserialize, Serialize};

/// An NVTX capture expression. Names are whole names: there are no globs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaptureExpression {
    text: String,
    range: String,
    domain: DomainChoice,
}

/// In which domains the range is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainChoice {
    /// In the default domain only.
    Default,
    /// In the domain of this name.
    Named(String),
    /// In any.
    Any,
}

impl CaptureExpression {
    /// The expression as nsys takes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Name of the range.
    pub fn range(&self) -> &str {
        &self.range
    }

    /// Where it is looked for.
    pub fn domain(&self) -> &DomainChoice {
        &self.domain
    }

    /// Why no range may match, where the expression looks as if something else was meant.
    pub fn doubt(&self) -> Option<&'static str> {
        if self.range.contains('*') {
            return Some("nsys compares whole names: a * in the name of a range is no wildcard");
        }
        if self.range.ends_with('/') {
            return Some("the slash at the end belongs to ncu's --nvtx-include, not to nsys");
        }
        (self.domain == DomainChoice::Default)
            .then_some("a name without @DOMAIN is looked for in the default domain only")
    }
}

/// A text that says no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {what}; give RANGE, RANGE@DOMAIN or RANGE@* (\\@ for an @ in a name)")]
pub struct NoExpression {
    text: String,
    what: &'static str,
}

impl TryFrom<String> for CaptureExpression {
    type Error = NoExpression;

    fn try_from(text: String) -> Result<Self, NoExpression> {
        if text.chars().any(|c| c.is_control()) {
            return Err(NoExpression { text, what: "has a control character in it" });
        }
        let mut parts = vec![String::new()];
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, chars.peek()) {
                ('@', _) => parts.push(String::new()),
                ('\\', Some('@')) => {
                    chars.next();
                    parts.last_mut().into_iter().for_each(|part| part.push('@'));
                }
                _ => parts.last_mut().into_iter().for_each(|part| part.push(c)),
            }
        }
        let (range, domain) = match parts.as_slice() {
            [range] => (range, DomainChoice::Default),
            [range, domain] if domain == "*" => (range, DomainChoice::Any),
            [_, domain] if domain.trim().is_empty() => {
                return Err(NoExpression { text, what: "names no domain after its @" });
            }
            [range, domain] => (range, DomainChoice::Named(domain.clone())),
            _ => return Err(NoExpression { text, what: "has more than one @" }),
        };
        if range.trim().is_empty() {
            return Err(NoExpression { text, what: "names no range" });
        }
        Ok(Self { range: range.clone(), domain, text })
    }
}

impl From<CaptureExpression> for String {
    fn from(expression: CaptureExpression) -> String {
        expression.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CaptureExpression, NoExpression> {
        CaptureExpression::try_from(text.to_owned())
    }

    #[test]
    fn the_three_forms() {
        for (text, range, domain) in [
            ("decode", "decode", DomainChoice::Default),
            ("decode@vllm", "decode", DomainChoice::Named("vllm".into())),
            ("decode step@*", "decode step", DomainChoice::Any),
            (r"me\@home@my\@domain", "me@home", DomainChoice::Named("my@domain".into())),
            (r"back\slash", r"back\slash", DomainChoice::Default),
        ] {
            let expression = parse(text).expect(text);
            assert_eq!((expression.range(), expression.domain()), (range, &domain), "{text}");
            assert_eq!(expression.as_str(), text, "handed on as it was given");
        }
    }

    #[test]
    fn what_names_nothing_is_refused_with_the_forms() {
        for text in ["", " ", "@", "@*", "@domain", "decode@", "decode@ ", "a@b@c", "a\nb", "a\0"] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains("RANGE@*"), "{text:?}: {error}");
        }
    }

    #[test]
    fn likely_mistakes_are_noticed() {
        assert!(parse("decode*@*").expect("name").doubt().is_some_and(|d| d.contains("wildcard")));
        assert!(parse("decode/@*").expect("name").doubt().is_some_and(|d| d.contains("ncu")));
        assert!(parse("decode").expect("name").doubt().is_some_and(|d| d.contains("default")));
        assert_eq!(parse("decode@*").expect("name").doubt(), None);
    }
}
