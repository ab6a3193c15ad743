//! YAML text -> a tree of values, each with the place that it comes from.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Spanned, UserMessageFormatter};

/// Where a value of the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A preset: its name and the line, counted from 1.
    File {
        /// Name of the file: relative to the built-in presets, or a path.
        name: Arc<str>,
        /// Line, counted from 1.
        line: u64,
    },
    /// A `KEY=VALUE` of the command line, as it was written.
    Override(Arc<str>),
    /// An option of the command line, as it was written.
    Flag(Arc<str>),
    /// The program chose it for this run.
    Chosen,
    /// As the `config.yaml` of a bundle notes it.
    Noted(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { name, line } => write!(f, "{name}:{line}"),
            Origin::Override(text) => write!(f, "override {text}"),
            Origin::Flag(text) => write!(f, "option {text}"),
            Origin::Chosen => f.write_str("chosen for this run"),
            Origin::Noted(text) => f.write_str(text),
        }
    }
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// A value of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// A string, in which `${key}` stands for the value of a key.
    Text(String),
    /// A string in which nothing stands for anything else.
    Literal(String),
    /// A list.
    List(Vec<Node>),
    /// Keys in the order of the file.
    Map(Vec<(String, Node)>),
}

/// Why a text is not one YAML document: a line that starts with the number of the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

impl From<serde_saphyr::Error> for YamlError {
    fn from(error: serde_saphyr::Error) -> Self {
        YamlError(first_line(&error))
    }
}

impl Node {
    /// Reads one YAML document.
    ///
    /// # Errors
    /// It is none.
    pub fn from_yaml(text: &str, file: &Arc<str>) -> Result<Node, YamlError> {
        let mut node: Node = serde_saphyr::from_str(text).map_err(YamlError::from)?;
        node.name_file(file);
        Ok(node)
    }

    fn name_file(&mut self, file: &Arc<str>) {
        if let Origin::File { name, .. } = &mut self.origin {
            name.clone_from(file);
        }
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.name_file(file)),
            Value::Map(pairs) => pairs.iter_mut().for_each(|(_, value)| value.name_file(file)),
            _ => {}
        }
    }

    /// The node at a dotted key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        key.split('.').try_fold(self, |node, part| match &node.value {
            Value::Map(pairs) => pairs.iter().find(|(k, _)| k == part).map(|(_, v)| v),
            _ => None,
        })
    }

    /// Puts `new` at a dotted key: maps are merged, anything else is replaced. Missing parents are
    /// made; a parent that is not a map becomes one.
    pub fn set(&mut self, key: &str, new: Node) {
        let (first, new) = match key.split_once('.') {
            Some((first, rest)) => {
                let mut parent = Node { value: Value::Null, origin: new.origin.clone() };
                parent.set(rest, new);
                (first, parent)
            }
            None => (key, new),
        };
        if !matches!(self.value, Value::Map(_)) {
            self.value = Value::Map(Vec::new());
        }
        self.set_own(first.to_owned(), new);
    }

    /// Lays `other` over this node: maps key by key, anything else whole.
    pub fn merge(&mut self, other: Node) {
        match other.value {
            Value::Map(pairs) if matches!(self.value, Value::Map(_)) => {
                pairs.into_iter().for_each(|(key, value)| self.set_own(key, value));
            }
            _ => *self = other,
        }
    }

    /// As [`Node::set`] for a map, with a key that is one whole key even if a dot is in it.
    fn set_own(&mut self, key: String, new: Node) {
        let Value::Map(pairs) = &mut self.value else { return };
        match pairs.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => old.merge(new),
            None => pairs.push((key, new)),
        }
    }

    /// Takes a dotted key out, and states what was there.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let Value::Map(pairs) = &mut self.value else { return None };
        match key.split_once('.') {
            Some((first, rest)) => {
                pairs.iter_mut().find(|(k, _)| k == first).and_then(|(_, v)| v.remove(rest))
            }
            None => pairs.iter().position(|(k, _)| k == key).map(|at| pairs.remove(at).1),
        }
    }

    /// Every key that holds a value (not a map), dotted, in order.
    pub fn leaves(&self) -> Vec<(String, &Node)> {
        let mut found = Vec::new();
        self.leaves_under("", &mut found);
        found
    }

    fn leaves_under<'a>(&'a self, prefix: &str, found: &mut Vec<(String, &'a Node)>) {
        match &self.value {
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    value.leaves_under(&join_key(prefix, key), found);
                }
            }
            _ => found.push((prefix.to_owned(), self)),
        }
    }

    /// The values without their origins.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(v) => Json::Bool(*v),
            Value::Int(v) => Json::from(*v),
            // JSON has no infinity: as text it reaches the reader of the key, which refuses it.
            Value::Float(v) => serde_json::Number::from_f64(*v)
                .map_or_else(|| Json::String(v.to_string()), Json::Number),
            Value::Text(v) | Value::Literal(v) => Json::String(v.clone()),
            Value::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(pairs) => {
                Json::Object(pairs.iter().map(|(k, v)| (k.clone(), v.to_json())).collect())
            }
        }
    }
}

/// `prefix.key`, or `key` at the top.
pub fn join_key(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

fn first_line(error: &serde_saphyr::Error) -> String {
    // Other texts of the library tell programmers which types and options to use.
    let text = error.render_with_formatter(&UserMessageFormatter);
    let line = text.lines().next().unwrap_or("not YAML");
    if line.contains("multiple found") {
        return "there are several YAML documents; leave one, without `---` lines".to_owned();
    }
    if line.contains("limits breached") {
        return "the document is too large or too deep for a file of settings; shorten it"
            .to_owned();
    }
    line.trim_start_matches("error: ").trim_end_matches(':').to_owned()
}

/// A node of a file whose name is not known yet.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Node, D::Error> {
        let Spanned { value, defined, .. } = Spanned::<Value>::deserialize(from)?;
        Ok(Node { value, origin: Origin::File { name: "".into(), line: defined.line() } })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Int(v))
    }
    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Value, E> {
        let big = |_| E::custom(format!("the number {v} is too big"));
        i64::try_from(v).map(Value::Int).map_err(big)
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Value::Float(v))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::Text(v.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut pairs: Vec<(String, Node)> = Vec::new();
        // The reader refuses a key that stands twice.
        while let Some(pair) = from.next_entry()? {
            pairs.push(pair);
        }
        Ok(Value::Map(pairs))
    }
}

/// A list of strings, or one string for a list of one, or nothing for none.
pub fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    distinct(Names::deserialize(from)?.list())
}

/// As [`one_or_many`], and commas separate names as they do on the command line.
pub fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let names = Names::deserialize(from)?.list();
    distinct(names.iter().flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()))
}

#[derive(Deserialize)]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Node {
        Node::from_yaml(text, &"f.yaml".into()).expect("valid YAML")
    }

    #[test]
    fn every_value_knows_its_line() {
        let node = yaml("# c\na:\n  b: 1\n  c: [x,\n     y]\nd: null\ne: 1.5\nf: 'no'\ng:\nh: ~\n");
        let line = |key: &str| match &node.get(key).expect(key).origin {
            Origin::File { line, .. } => *line,
            other => panic!("{other}"),
        };
        assert_eq!((line("a.b"), line("a.c"), line("d"), line("e")), (3, 4, 6, 7));
        assert_eq!(node.get("f").map(|n| &n.value), Some(&Value::Text("no".into())));
        for key in ["d", "g", "h"] {
            assert_eq!(node.get(key).map(|n| &n.value), Some(&Value::Null), "{key}");
        }
    }

    #[test]
    fn maps_merge_and_lists_are_replaced() {
        let mut base = yaml("a: {x: 1, l: [1, 2]}\n");
        base.merge(yaml("a: {y: 2, l: [3]}\n"));
        assert_eq!(base.to_json(), serde_json::json!({"a": {"x": 1, "l": [3], "y": 2}}));
        assert!(base.remove("a.x").is_some() && base.get("a.x").is_none());
        assert!(base.remove("a.x").is_none());
    }

    #[test]
    fn broken_yaml_is_one_line_with_a_place() {
        for text in [
            "a: [1, 2\n",
            "a: 1\na: 2\n",
            "a:\n\tb: 1",
            "a: *nowhere",
            "? [1]\n: 2",
            "{~: 2}",
            "a: 1\n---\nb: 2",
            "x: 99999999999999999999",
            &"[".repeat(5_000),
            &format!("a: [{}]", "1, ".repeat(300_000)),
        ] {
            let error = Node::from_yaml(text, &"f.yaml".into());
            match error {
                Err(YamlError(e)) => {
                    println!("{e}");
                    assert!(!e.is_empty() && !e.contains('\n'), "{text:?}: {e:?}");
                    assert!(!e.contains("Option") && !e.contains("deserialize"), "{text:?}: {e:?}");
                    assert!(!e.contains("limits breached"), "{e}");
                }
                Ok(node) => assert!(text.starts_with("x:"), "{text:?} was read as {node:?}"),
            }
        }
    }
}
