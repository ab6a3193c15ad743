//! `RANGE`, `RANGE@DOMAIN` or `RANGE@*` -> which NVTX range starts a capture.
//!
//! nsys compares whole names. What else a user may write (`decode*`, the domain first, the role of a stage)
//! stands for the range that the collect pass saw.

use std::str::FromStr;

/// An NVTX capture expression. Names are whole names: there are no globs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureExpression {
    /// The expression as nsys takes it.
    pub text: String,
    /// Name of the range.
    pub range: String,
    /// Where it is looked for.
    pub domain: DomainChoice,
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
    /// The expression that makes a range of this name and domain start the capture. nsys 2023.4 finds a name with an @ in it by a whole expression only, so
    /// that of the default domain is looked for in any.
    pub fn of(range: &str, domain: Option<&str>) -> Self {
        let escaped = |text: &str| text.replace('@', "\\@");
        let (end, domain) = match domain {
            Some(domain) => {
                (format!("@{}", escaped(domain)), DomainChoice::Named(domain.to_owned()))
            }
            None if range.contains('@') => ("@*".to_owned(), DomainChoice::Any),
            None => (String::new(), DomainChoice::Default),
        };
        Self { text: format!("{}{end}", escaped(range)), range: range.to_owned(), domain }
    }

    /// Whether a range of this name and domain (none: the default one) starts the capture.
    pub fn takes(&self, range: &str, domain: Option<&str>) -> bool {
        let in_domain = match &self.domain {
            DomainChoice::Default => domain.is_none(),
            DomainChoice::Named(name) => domain == Some(name),
            DomainChoice::Any => true,
        };
        in_domain && self.range == range
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

impl FromStr for CaptureExpression {
    type Err = NoExpression;

    fn from_str(text: &str) -> Result<Self, NoExpression> {
        let refused = |what| Err(NoExpression { text: text.to_owned(), what });
        if text.chars().any(|c| c.is_control()) {
            return refused("has a control character in it");
        }
        // No text holds a zero byte here: it can stand for an @ that separates nothing.
        let escaped = text.replace("\\@", "\0");
        let parts: Vec<String> = escaped.split('@').map(|part| part.replace('\0', "@")).collect();
        let (range, domain) = match parts.as_slice() {
            [range] => (range, DomainChoice::Default),
            [range, domain] if domain == "*" => (range, DomainChoice::Any),
            [_, domain] if domain.trim().is_empty() => {
                return refused("names no domain after its @");
            }
            [range, domain] => (range, DomainChoice::Named(domain.clone())),
            _ => return refused("has more than one @"),
        };
        if range.trim().is_empty() {
            return refused("names no range");
        }
        Ok(Self { range: range.clone(), domain, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CaptureExpression, NoExpression> {
        text.parse()
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
            assert_eq!((&*expression.range, &expression.domain), (range, &domain), "{text}");
            assert_eq!(expression.text, text, "handed on as it was given");
        }
    }

    #[test]
    fn a_range_is_taken_by_its_whole_name_and_its_domain() {
        for (text, domain, expected) in [
            ("decode", None, true),
            ("decode", Some("vllm"), false),
            ("decode@vllm", Some("vllm"), true),
            ("decode@vllm", None, false),
            ("decode@*", Some("vllm"), true),
            ("decode@*", None, true),
        ] {
            assert_eq!(parse(text).expect(text).takes("decode", domain), expected, "{text}");
        }
        assert!(!parse("decode@*").expect("name").takes("decode_all", None));
    }

    #[test]
    fn what_names_nothing_is_refused_with_the_forms() {
        for text in ["", " ", "@", "@*", "@domain", "decode@", "decode@ ", "a@b@c", "a\nb", "a\0"] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains("RANGE@*"), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_range_has_an_expression_that_takes_it() {
        for (range, domain, text) in [
            ("decode", None, "decode"),
            ("decode", Some("LLM"), "decode@LLM"),
            ("LLM@decode", None, r"LLM\@decode@*"),
            ("a@b", Some("c@d"), r"a\@b@c\@d"),
        ] {
            let expression = CaptureExpression::of(range, domain);
            assert_eq!(expression.text, text);
            assert_eq!(parse(text).expect(text), expression);
            assert!(expression.takes(range, domain));
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
