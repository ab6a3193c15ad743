//! One word `KEY=VALUE` of the command line, in Hydra's override grammar -> an [`Override`].

use super::node::{Origin, Value};
use super::value::parse_value;

/// A word that is no override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word}: at character {at}: {what}")]
pub struct GrammarError {
    /// The word as it was given.
    pub word: String,
    /// The character, from 1, that it fails at.
    pub at: usize,
    /// What is wrong, and what the form is.
    pub what: String,
}

/// Parts of a key, at most: whoever puts a value at a key goes one call deeper for each of them.
const MAX_KEY_PARTS: usize = 64;

/// What an override does to its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `k=v`: change a key that exists.
    Set(Value),
    /// `+k=v`: make a key that does not exist.
    Add(Value),
    /// `++k=v`: either.
    AddOrSet(Value),
    /// `~k` or `~k=v`: take a key out, if it has the value.
    Delete(Option<Value>),
}

/// A parsed override.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// Dotted key, or group with slashes.
    pub key: String,
    /// What stands after `@` in `group@package=option`.
    pub package: Option<String>,
    /// What to do.
    pub action: Action,
    /// The word as it was given.
    pub word: String,
}

impl Override {
    /// Reads one word.
    pub fn parse(word: &str) -> Result<Override, GrammarError> {
        let fault =
            |at: usize, what: String| GrammarError { word: word.to_owned(), at: at + 1, what };
        let (sign, rest) = ["++", "+", "~"]
            .iter()
            .find_map(|sign| word.strip_prefix(sign).map(|rest| (*sign, rest)))
            .unwrap_or(("", word));
        let (name, text) = match rest.split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (rest, None),
        };
        let missing_value = || {
            let what = format!(
                "it is no KEY=VALUE. A program to run comes after `--`: stage2-launch -- {word} ..."
            );
            fault(word.chars().count(), what)
        };
        if text.is_none() && sign != "~" {
            return Err(missing_value());
        }
        let (key, package) = match name.split_once('@') {
            Some((key, package)) => (key, Some(package)),
            None => (name, None),
        };
        let allowed = |c: char| c.is_alphanumeric() || "_-./$".contains(c);
        if let Some((at, c)) = key.chars().enumerate().find(|(_, c)| !allowed(*c)) {
            let what =
                format!("{c:?} cannot stand in a key; the form is KEY=VALUE, e.g. run.mode=light");
            return Err(fault(sign.len() + at, what));
        }
        if key.split(['.', '/']).any(str::is_empty) {
            return Err(fault(
                sign.len(),
                "a part of the key is empty; the form is KEY=VALUE".into(),
            ));
        }
        if key.split(['.', '/']).count() > MAX_KEY_PARTS {
            let what = format!("the key has more than {MAX_KEY_PARTS} parts; name one that exists");
            return Err(fault(sign.len(), what));
        }
        if package.is_some_and(|p| p.is_empty() || !p.chars().all(|c| allowed(c) && c != '/')) {
            let what = "after @ a package is expected, e.g. group@a.b=preset".into();
            return Err(fault(sign.len() + key.chars().count() + 1, what));
        }
        let offset = word.chars().count() - text.map_or(0, |t| t.chars().count());
        let value = text
            .map(|text| parse_value(text, &Origin::Override(word.into())))
            .transpose()
            .map_err(|bad| fault(offset + bad.at, bad.what))?;
        let action = match (sign, value) {
            ("~", value) => Action::Delete(value),
            (_, None) => return Err(missing_value()),
            ("++", Some(value)) => Action::AddOrSet(value),
            ("+", Some(value)) => Action::Add(value),
            (_, Some(value)) => Action::Set(value),
        };
        let package = package.map(str::to_owned);
        Ok(Override { key: key.to_owned(), package, action, word: word.to_owned() })
    }

    /// Origin of what it sets.
    pub fn origin(&self) -> Origin {
        Origin::Override(self.word.as_str().into())
    }
}

/// The key of a word that a Hydra app would read as an override, or nothing: for words that belong
/// to the workload, which need not be valid.
pub fn hydra_key(word: &str) -> Option<&str> {
    let name = word.trim_start_matches(['+', '~']);
    let name = match name.split_once('=') {
        Some((name, _)) => name,
        None if word.starts_with('~') => name,
        None => return None,
    };
    let allowed = |c: char| c.is_alphanumeric() || "_-./@$:".contains(c);
    let starts_well = name.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    (starts_well && name.chars().all(allowed)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(word: &str) -> Override {
        Override::parse(word).unwrap_or_else(|e| panic!("{word}: {e}"))
    }

    #[test]
    fn the_four_forms() {
        assert_eq!(parse("run.mode=light").action, Action::Set(Value::Text("light".into())));
        assert_eq!(parse("+a.b=1").action, Action::Add(Value::Int(1)));
        assert_eq!(parse("++a.b=1").action, Action::AddOrSet(Value::Int(1)));
        assert_eq!(parse("~a.b").action, Action::Delete(None));
        assert_eq!(parse("~a.b=x").action, Action::Delete(Some(Value::Text("x".into()))));
        assert_eq!(parse("++a.b=1").key, "a.b");
    }

    #[test]
    fn groups_and_packages() {
        let both = parse("profiling/collector@profiling.second=default");
        assert_eq!(both.key, "profiling/collector");
        assert_eq!(both.package.as_deref(), Some("profiling.second"));
        assert_eq!(parse("runner@_global_=stage2").package.as_deref(), Some("_global_"));
    }

    #[test]
    fn only_the_first_equals_sign_ends_the_key() {
        assert_eq!(parse("a=b=c").action, Action::Set(Value::Text("b=c".into())));
        assert_eq!(parse("a=").action, Action::Set(Value::Text(String::new())));
    }

    #[test]
    fn faults_name_the_place() {
        for (word, at, part) in [
            ("demo", 5, "after `--`"),
            ("+demo", 6, "KEY=VALUE"),
            ("=x", 1, "empty"),
            ("a..b=x", 1, "empty"),
            ("a b=x", 2, "cannot stand in a key"),
            ("list[0]=x", 5, "cannot stand in a key"),
            ("a@=x", 3, "package"),
            (&("a.".repeat(MAX_KEY_PARTS) + "a=x"), 1, "64 parts"),
            ("a=[1, 2", 8, "`]`"),
            ("a=b,c", 4, "sweep"),
        ] {
            match Override::parse(word) {
                Err(GrammarError { at: found, what, .. }) => {
                    assert_eq!(found, at, "{word}: {what}");
                    assert!(what.contains(part), "{word}: {what}");
                }
                other => panic!("{word}: {other:?}"),
            }
        }
    }

    #[test]
    fn overrides_are_found_in_the_words_of_a_workload() {
        assert_eq!(hydra_key("++pipeline.x.enable=false"), Some("pipeline.x.enable"));
        assert_eq!(
            hydra_key("dataset/sampling@dataset.sampling=default"),
            Some("dataset/sampling@dataset.sampling")
        );
        assert_eq!(hydra_key("~a.b"), Some("a.b"));
        for word in ["--lr=3", "infer.py", "-m", "1=2", "http://x/?a=b", ""] {
            assert_eq!(hydra_key(word), None, "{word}");
        }
    }
}
