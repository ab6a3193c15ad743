//! A value of a preset that is a list, one name or nothing -> a list of names.

use std::fmt;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

/// A list of strings, or one string for a list of one, or nothing for none.
pub fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    from.deserialize_any(Strings { split: false })
}

/// As [`one_or_many`], and commas separate names as they do on the command line.
pub fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    from.deserialize_any(Strings { split: true })
}

struct Strings {
    split: bool,
}

impl Strings {
    fn push<E: serde::de::Error>(&self, list: &mut Vec<String>, text: &str) -> Result<(), E> {
        let parts: Vec<&str> =
            if self.split { text.split(',').map(str::trim).collect() } else { vec![text] };
        for part in parts {
            if part.is_empty() {
                return Err(E::custom("an empty name in the list: leave it out"));
            }
            if !list.iter().any(|known| known == part) {
                list.push(part.to_owned());
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Strings {
    type Value = Vec<String>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names, e.g. [a,b], one name, or null")
    }
    fn visit_unit<E>(self) -> Result<Vec<String>, E> {
        Ok(Vec::new())
    }
    fn visit_str<E: serde::de::Error>(self, one: &str) -> Result<Vec<String>, E> {
        let mut names = Vec::new();
        self.push(&mut names, one)?;
        Ok(names)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = from.next_element::<Option<String>>()? {
            let name = name.ok_or_else(|| A::Error::custom("a null in the list: leave it out"))?;
            self.push(&mut names, &name)?;
        }
        Ok(names)
    }
}
