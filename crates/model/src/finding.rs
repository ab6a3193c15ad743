//! Something worth knowing about a run -> what it is, why, and what to do about it.

use serde::{Deserialize, Serialize};
use stage2_contract::text::{plain, visible};

/// How much a finding matters.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::Display,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Good to know; nothing is missing.
    #[default]
    Note,
    /// Part of the result is missing, or has to be read with care.
    Warning,
    /// A result is missing altogether.
    Error,
}

/// A finding, as `run.json` and the reports show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What happened, to what.
    pub what: String,
    /// Why, or what follows from it; may be empty.
    pub why: String,
    /// What to do next; may be empty.
    pub remedy: String,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident: $severity:ident;)*) => {
        impl Finding {$(
            $(#[$doc])*
            pub fn $name(
                what: impl Into<String>,
                why: impl Into<String>,
                remedy: impl Into<String>,
            ) -> Finding {
                Finding::new(Severity::$severity, what, why, remedy)
            }
        )*}
    };
}
constructors! {
    /// Something good to know.
    note: Note;
    /// Something that is missing or has to be read with care.
    warning: Warning;
    /// A result that is missing altogether.
    error: Error;
}

impl Finding {
    /// A finding; what cannot be seen in its texts is spelled out, because they may quote hostile ones.
    pub fn new(
        severity: Severity,
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let seen = |text: String| visible(text.as_bytes());
        Finding {
            severity,
            what: seen(what.into()),
            why: seen(why.into()),
            remedy: seen(remedy.into()),
        }
    }

    /// As an item of a list in Markdown.
    pub fn item(&self) -> String {
        let mut item = format!("- **{}:** {}.", self.severity, plain(&self.what));
        for (label, text) in [("Why: ", &self.why), ("To do: ", &self.remedy)] {
            if !text.is_empty() {
                item.push_str(&format!(" {label}{}.", plain(text)));
            }
        }
        item.push('\n');
        item
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_finding_quotes_can_be_seen() {
        let finding = Finding::new(Severity::Note, "a\u{1b}[31m", "b\u{202e}\nc", "\0");
        assert_eq!(finding.to_string(), "a\\x1b[31m: b\\u{202e}\\nc; \\x00");
    }
}
