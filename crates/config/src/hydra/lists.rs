//! A value of a preset that is a list, one name or nothing -> a list of names.

use serde::de::{Deserialize, Deserializer, Error};

/// A list of strings, or one string for a list of one, or nothing for none.
pub fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    distinct(Names::deserialize(from)?.list())
}

/// As [`one_or_many`], and commas separate names as they do on the command line.
pub fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let names = Names::deserialize(from)?.list();
    distinct(names.iter().flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()))
}

#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected a list of names, e.g. [a,b], one name, or null")]
enum Names {
    None,
    One(String),
    Many(Vec<String>),
}

impl Names {
    fn list(self) -> Vec<String> {
        match self {
            Names::None => Vec::new(),
            Names::One(name) => vec![name],
            Names::Many(names) => names,
        }
    }
}

fn distinct<E: Error>(names: impl IntoIterator<Item = String>) -> Result<Vec<String>, E> {
    let mut list = Vec::new();
    for name in names {
        if name.is_empty() {
            return Err(E::custom("an empty name in the list: leave it out"));
        }
        if !list.contains(&name) {
            list.push(name);
        }
    }
    Ok(list)
}
