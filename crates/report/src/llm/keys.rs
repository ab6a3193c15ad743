//! A JSON object and the names that a size goes by -> its value, or an error that names the key.

use serde_json::{Map, Value};

/// What is wrong with a `config.json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It cannot be opened or read.
    #[error("cannot be read ({0}); give the path of a model's config.json, or of its folder")]
    Unreadable(String),
    /// It is no JSON object.
    #[error("is no JSON object ({0}); give the path of a model's config.json")]
    NotJson(String),
    /// A size is missing: its key, under its usual name.
    #[error("has no key {0}; add it, or give the sizes in model.llm.shape")]
    Missing(String),
    /// A value of the wrong kind.
    #[error("{key} is {found}, but {expected} is expected; correct it, or give model.llm.shape")]
    Wrong {
        /// The key.
        key: String,
        /// What stands there, shortened.
        found: String,
        /// What should.
        expected: String,
    },
    /// The model is of a kind whose FLOPs are not known here.
    #[error("{0} cannot be modelled; leave model.llm at none, or give model.llm.shape")]
    NotModelled(String),
}

/// Characters of a wrong value that an error shows.
const SHOWN: usize = 40;

/// One object of the file.
pub(super) struct Keys<'a> {
    map: &'a Map<String, Value>,
    section: &'a str,
}

impl<'a> Keys<'a> {
    pub(super) fn new(map: &'a Map<String, Value>, section: &'a str) -> Keys<'a> {
        Keys { map, section }
    }

    /// The key with its section.
    pub(super) fn path(&self, key: &str) -> String {
        match self.section {
            "" => key.to_owned(),
            section => format!("{section}.{key}"),
        }
    }

    /// The value of the first of the keys that is there and not null.
    fn first(&self, names: &[&str]) -> Option<(String, &'a Value)> {
        names.iter().find_map(|name| {
            let value = self.map.get(*name).filter(|value| !value.is_null())?;
            Some((self.path(name), value))
        })
    }

    fn wrong(&self, key: String, value: &Value, expected: &str) -> Problem {
        let found = stage2_contract::text::shorten(
            &stage2_contract::text::visible(value.to_string().as_bytes()),
            SHOWN,
        );
        Problem::Wrong { key, found, expected: expected.to_owned() }
    }

    /// A whole number that is not negative; none where no key is there.
    pub(super) fn size(&self, names: &[&str]) -> Result<Option<u64>, Problem> {
        let Some((key, value)) = self.first(names) else { return Ok(None) };
        match whole(value) {
            Some(size) => Ok(Some(size)),
            None => Err(self.wrong(key, value, "a whole number")),
        }
    }

    /// A whole number that has to be there.
    pub(super) fn need(&self, names: &[&str]) -> Result<u64, Problem> {
        let missing = || Problem::Missing(self.path(names.first().unwrap_or(&"")));
        self.size(names)?.ok_or_else(missing)
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.map.get(name)?.as_bool()
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        Some(self.map.get(name)?.as_str()?.to_owned())
    }

    pub(super) fn list(&self, name: &str) -> Option<&'a Vec<Value>> {
        self.map.get(name)?.as_array()
    }

    /// A list of words; empty where there is none.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<&'a str>, Problem> {
        self.items(name, "a list of words", Value::as_str)
    }

    /// A list of whole numbers; empty where there is none.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<u64>, Problem> {
        self.items(name, "a list of whole numbers", whole)
    }

    fn items<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, Problem> {
        let Some((key, value)) = self.first(&[name]) else { return Ok(Vec::new()) };
        let items = value.as_array().and_then(|items| items.iter().map(read).collect());
        items.ok_or_else(|| self.wrong(key, value, expected))
    }

    pub(super) fn section(&self, name: &'a str) -> Option<Keys<'a>> {
        Some(Keys::new(self.map.get(name)?.as_object()?, name))
    }
}

/// A whole number, also when it is written with a fraction of zero.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let float = value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..1e15).contains(f))?;
        Some(float as u64)
    })
}
