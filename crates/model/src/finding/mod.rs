//! Something worth knowing about a run -> what kind of thing it is, what happened to what, why, what to do about it, and
//! on which numbers that rests.

mod id;

pub use id::{About, Basis, Id};

use serde::{Deserialize, Serialize};
use stage2_contract::text::{plain, visible};

use crate::takeaway::{Evidence, EvidenceValue, short_hash};

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

/// A finding, as `run.json` and the reports show it. [`Id::found`] makes one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Names its kind, the same in every report: docs/findings.md lists all.
    #[serde(default)]
    pub id: Id,
    /// What it is about (a file, a stage, a device, a setting), where one report can have several of its kind; null: the
    /// run, or all that its text names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Not a `String`: results that may be a finding stay below what clippy takes for large.
    pub subject: Option<Box<str>>,
    /// How much it matters.
    pub severity: Severity,
    /// What happened, to what.
    pub what: String,
    /// Why, or what follows from it; may be empty.
    pub why: String,
    /// What to do next; may be empty.
    pub remedy: String,
    /// The numbers that it rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

impl Finding {
    /// Resting on one number more.
    #[must_use]
    pub fn on(mut self, evidence: Evidence) -> Finding {
        self.evidence.push(evidence);
        self
    }

    /// Resting on one count more, which stands at `source` in `metrics.json`.
    #[must_use]
    pub fn on_count(self, name: &str, value: u64, source: &str) -> Finding {
        self.on(Evidence::number(name, value as f64, "count", source.to_owned()))
    }

    /// Where a page has it: the id, and a short name of the subject.
    pub fn anchor(&self) -> String {
        let subject = self.subject.as_ref().map(|subject| format!("-{}", short_hash(subject)));
        format!("finding-{}{}", self.id.code(), subject.unwrap_or_default())
    }

    /// Whether both say the same: reports of versions without ids repeat what this one says.
    pub fn says_what(&self, other: &Finding) -> bool {
        let said = |f: &Finding| [&f.what, &f.why, &f.remedy].map(String::clone);
        self.severity == other.severity && said(self) == said(other)
    }

    /// With other texts: `change` gets each that may quote something foreign.
    #[must_use]
    pub fn map_texts(mut self, change: impl Fn(&str) -> String) -> Finding {
        let mut texts = vec![&mut self.what, &mut self.why, &mut self.remedy];
        for evidence in &mut self.evidence {
            texts.extend([&mut evidence.name, &mut evidence.source]);
            texts.extend([&mut evidence.unit, &mut evidence.basis].into_iter().flatten());
            if let EvidenceValue::State(state) = &mut evidence.value {
                texts.push(state);
            }
        }
        for text in texts {
            *text = change(text);
        }
        self.subject = self.subject.map(|subject| change(&subject).into_boxed_str());
        self
    }

    /// With what cannot be seen in its texts spelled out, because they may quote hostile ones.
    #[must_use]
    pub fn visible(self) -> Finding {
        self.map_texts(|text| visible(text.as_bytes()))
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
        let finding = Id::NsysSays.about("\u{1b}s").found("a\u{1b}[31m", "b\u{202e}\nc", "\0");
        assert_eq!(finding.to_string(), "a\\x1b[31m: b\\u{202e}\\nc; \\x00");
    }

    #[test]
    fn a_finding_of_an_older_version_loads_and_one_with_everything_survives() {
        let old = r#"{"severity":"warning","what":"a","why":"","remedy":"b"}"#;
        let old: Finding = serde_json::from_str(old).expect("an old finding");
        let new = Id::RecordsDropped.about("f").found("a", "", "b").on_count("n", 3, "/n");
        assert_eq!(old.id, Id::Unnamed);
        assert!(old.says_what(&new) && old != new);
        let json = serde_json::to_string(&new).expect("JSON");
        assert_eq!(serde_json::from_str::<Finding>(&json).expect("the same"), new);
        assert_eq!(new.clone().map_texts(|text| format!("<{text}>")).evidence[0].source, "</n>");
    }
}
