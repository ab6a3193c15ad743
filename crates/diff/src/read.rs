//! The text of a `metrics.json` -> its report, leniently: what an older version wrote, or what is broken
//! next to the numbers that are compared, costs its own part and is named.

use serde::Deserialize;
use serde_json::{Map, Value};
use stage2_contract::text::{shorten, visible};
use stage2_model::{Report, SCHEMA, SCHEMA_VERSION};

/// A report, and what of it could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadReport {
    /// The report.
    pub report: Report,
    /// Fields that were left out, each with the reason.
    pub left_out: Vec<String>,
}

/// Why there is no report, to be read after the name of the file and a colon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not JSON, or its end is missing.
    #[error("{0}")]
    NoJson(String),
    /// Another program wrote it.
    #[error(
        "it is not a report of stage2-launch ({0}); name the \
         folder of a run, or the metrics.json in it"
    )]
    OtherSchema(String),
    /// A newer version wrote it.
    #[error(
        "a newer stage2-launch wrote it (schema version {0}; this one reads up to \
         {SCHEMA_VERSION}); update stage2-launch, or write the report again with this one"
    )]
    Newer(u64),
    /// What is compared cannot be read.
    #[error("{field} cannot be read ({why})")]
    Broken {
        /// The field.
        field: String,
        /// What the parser says.
        why: String,
    },
}

#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    schema: Value,
    #[serde(default)]
    schema_version: Option<Value>,
}

/// Without these nothing can be compared.
const NEEDED: [&str; 4] = ["stages", "kernels", "kernel_names", "coverage"];
/// Fields of the report that are in none of its structs: a parser gives no place for what is in them.
const FLATTENED: [&str; 3] = ["operators", "utilisation", "takeaways"];
/// Characters of a foreign text in a message.
const TEXT_LIMIT: usize = 200;

/// Reads the text of a `metrics.json`.
///
/// # Errors
/// When it is not a report of ours, is a newer one, or lacks what is compared.
pub fn read_report(bytes: &[u8]) -> Result<ReadReport, ReadError> {
    // Where the parser stopped helps nobody who did not write the file.
    let no_json = |error: serde_json::Error| {
        let what = match error.is_eof() {
            true if bytes.is_empty() => "it is empty".to_owned(),
            true => "it is truncated".to_owned(),
            false => format!("it is not valid JSON (line {})", error.line()),
        };
        ReadError::NoJson(what)
    };
    let head: Head = match serde_json::from_slice(bytes) {
        Ok(head) => head,
        // Whole, but no object.
        Err(error) if error.is_data() => Head::default(),
        Err(error) => return Err(no_json(error)),
    };
    if head.schema.as_str() != Some(SCHEMA) {
        let found = match head.schema {
            Value::Null => format!("it has no `schema`, which would be \"{SCHEMA}\""),
            schema => format!("its `schema` is {}, not \"{SCHEMA}\"", shown(&schema.to_string())),
        };
        return Err(ReadError::OtherSchema(found));
    }
    let version = head.schema_version.as_ref().map_or(Some(0), Value::as_u64);
    match version {
        Some(version) if version <= u64::from(SCHEMA_VERSION) => {}
        Some(found) => return Err(ReadError::Newer(found)),
        None => {
            let why = "it is not a whole number".to_owned();
            return Err(ReadError::Broken { field: "schema_version".to_owned(), why });
        }
    }
    let mut read = match serde_json::from_slice(bytes) {
        Ok(report) => ReadReport { report, left_out: Vec::new() },
        Err(_) => lenient(serde_json::from_slice(bytes).map_err(no_json)?)?,
    };
    // Older versions wrote none, and broken ones would not be those of other runs.
    read.report.set_kernel_ids();
    Ok(read)
}

/// The fields of a report that has nothing.
fn defaults() -> Result<Map<String, Value>, serde_json::Error> {
    let mut text = Vec::new();
    // By the only writer of reports: another one would be as large again.
    stage2_model::json::write(&mut text, &Report::default()).map_err(serde_json::Error::io)?;
    serde_json::from_slice(&text)
}

/// Takes the fields that can be read, and defaults for the others.
fn lenient(mut fields: Map<String, Value>) -> Result<ReadReport, ReadError> {
    let broken = |field: &str, why: String| ReadError::Broken { field: shown(field), why };
    let defaults = defaults().map_err(|e| broken("the report", e.to_string()))?;
    if let Some(field) = NEEDED.iter().find(|field| !fields.contains_key(**field)) {
        return Err(broken(field, "it is missing".to_owned()));
    }
    for (field, default) in &defaults {
        fields.entry(field).or_insert_with(|| default.clone());
    }
    let mut left_out = Vec::new();
    loop {
        let text = serde_json::to_vec(&fields).map_err(|e| broken("the report", e.to_string()))?;
        let error = match serde_json::from_slice(&text) {
            Ok(report) => return Ok(ReadReport { report, left_out }),
            Err(error) => error,
        };
        let path = path_of(&error, &text);
        let place = written(&path);
        let why = shown(&reason(&error, &path, &fields));
        let field = place.split(['.', '[']).next().unwrap_or_default();
        if fields.contains_key(field) && !FLATTENED.contains(&field) {
            if NEEDED.contains(&field) {
                return Err(broken(&place, why));
            }
            match defaults.get(field) {
                Some(default) if fields.get(field) != Some(default) => {
                    fields.insert(field.to_owned(), default.clone());
                }
                // Fields without a default in JSON are optional.
                _ => drop(fields.remove(field)),
            }
            left_out.push(format!("{}: {why}", shown(&place)));
            continue;
        }
        let is_there = |field: &&&str| !fields.get(**field).is_none_or(Value::is_null);
        let Some(field) = FLATTENED.iter().find(is_there) else {
            return Err(broken("the report", why));
        };
        let default = defaults.get(*field).cloned().unwrap_or(Value::Null);
        if fields.get(*field) == Some(&default) {
            return Err(broken("the report", why));
        }
        fields.insert((*field).to_owned(), default);
        left_out.push(format!("{field}: {why}"));
    }
}

/// A step into a value.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// The value that an error is about, by where in the text the parser stopped. The text is JSON that was
/// written without spaces. (A deserialiser that keeps the path doubles the code that reads a report.)
fn path_of(error: &serde_json::Error, text: &[u8]) -> Vec<Step> {
    let read = text.get(..error.column()).unwrap_or(text);
    // What may not begin here at all is read up to its first byte.
    let begins = error.is_syntax() && matches!(read, [.., b'{' | b'[']);
    let read = read.get(..read.len() - usize::from(begins)).unwrap_or(read);
    let (mut path, mut at) = (Vec::new(), 0);
    while let Some(byte) = read.get(at) {
        at += 1;
        match byte {
            b'{' => path.push(Step::Key(String::new())),
            b'[' => path.push(Step::Index(0)),
            b'}' | b']' => drop(path.pop()),
            b',' => match path.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                Some(Step::Key(key)) => key.clear(),
                None => {}
            },
            b'"' => {
                let is_key = matches!(read.get(at.wrapping_sub(2)), Some(b'{' | b','));
                let rest = read.get(at - 1..).unwrap_or_default();
                let mut texts = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
                let text = texts.next().and_then(Result::ok).unwrap_or_default();
                at += texts.byte_offset().saturating_sub(1);
                match path.last_mut() {
                    // The name of a variant that the enum does not have.
                    Some(Step::Key(_)) if is_key && at == read.len() => drop(path.pop()),
                    Some(Step::Key(key)) if is_key => *key = text,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    // More follows than the value may hold.
    let too_long = read.ends_with(b",") || error.to_string().starts_with("trailing");
    if error.is_syntax() && too_long {
        path.pop();
    }
    path
}

/// As a user writes it: `kernels[0].launch.grid`.
fn written(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => out.extend([".", key]),
            Step::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// No value is one: its error states what stands in the place of an enum.
#[derive(Debug, Deserialize)]
enum Nothing {}

/// What the parser says, except for the place in the text, which is not that of the file.
fn reason(error: &serde_json::Error, path: &[Step], fields: &Map<String, Value>) -> String {
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let said = said.strip_suffix(&place).unwrap_or(&said).to_owned();
    let Some((Step::Key(field), inner)) = path.split_first() else { return said };
    let found = inner.iter().try_fold(fields.get(field), |value, step| {
        Some(match step {
            Step::Index(index) => value?.get(index),
            Step::Key(name) => value?.get(name),
        })
    });
    let found = found.flatten();
    // The text is whole: a value has another type than its enum, or an array is too long.
    let is_no_variant = said.starts_with("unknown variant")
        && found.and_then(Value::as_object).is_some_and(|fields| fields.len() != 1);
    if !error.is_syntax() && !is_no_variant {
        return said;
    }
    match found {
        Some(Value::Array(items)) if said.starts_with("trailing") => {
            format!("invalid length {}, expected fewer elements in array", items.len())
        }
        Some(value) => {
            Nothing::deserialize(value).map_or_else(|e| e.to_string(), |nothing| match nothing {})
        }
        None => said,
    }
}

fn shown(text: &str) -> String {
    shorten(&visible(text.as_bytes()), TEXT_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let report = Report {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            source: "collector".to_owned(),
            ..Report::default()
        };
        let mut value = serde_json::to_value(&report).expect("JSON");
        change(&mut value);
        serde_json::to_vec(&value).expect("JSON")
    }

    fn refused(bytes: &[u8]) -> String {
        read_report(bytes).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_no_report_of_this_version_is_refused_with_the_reason() {
        let whole = text(|_| {});
        assert!(read_report(&whole).is_ok_and(|read| read.left_out.is_empty()));
        for cut in 0..whole.len() {
            let why = if cut == 0 { "it is empty" } else { "truncated" };
            assert!(refused(&whole[..cut]).contains(why), "{cut}");
        }
        assert!(refused(b"{\"batch_size\": 1}").contains("it has no `schema`, which would be"));
        assert!(refused(b"[1]").contains("not a report of stage2-launch"));
        assert!(refused(b"{\"schema\": \"o\\u001bther\"}").contains("\"o\\u001bther\""));
        let newer = text(|v| v["schema_version"] = json!(SCHEMA_VERSION + 1));
        assert!(refused(&newer).contains("newer stage2-launch"));
        assert!(refused(&text(|v| v["schema_version"] = json!("1"))).contains("schema_version"));
        let huge = text(|v| v["kernels"] = json!([{"total_ns": 1e300}]));
        assert!(refused(&huge).contains("kernels[0]"), "{}", refused(&huge));
        assert!(refused("[".repeat(100_000).as_bytes()).contains("not valid JSON"));
    }

    #[test]
    fn older_and_broken_parts_cost_themselves_only() {
        let older = text(|v| {
            let fields = v.as_object_mut().expect("fields");
            fields.insert("schema_version".to_owned(), json!(0));
            fields.retain(|key, _| !["costs", "graph_captures", "run", "peaks"].contains(&&**key));
        });
        let read = read_report(&older).expect("an older report");
        assert_eq!((read.report.source.as_str(), read.left_out.len()), ("collector", 0));
        let broken = text(|v| {
            v["costs"] = json!("none");
            v["utilisation"] = json!([7]);
            v["ranks"] = json!({"seen": -1});
        });
        let read = read_report(&broken).expect("a report");
        let left_out = read.left_out.join("\n");
        assert_eq!(read.left_out.len(), 3, "{left_out}");
        assert!(left_out.contains("costs") && left_out.contains("utilisation"), "{left_out}");
        let none = text(|v| drop(v.as_object_mut().map(|fields| fields.remove("stages"))));
        assert!(refused(&none).contains("stages cannot be read (it is missing)"));
    }

    /// Spoils a part of a report. The reason is that of a parser of the tree, which knows the types.
    #[test]
    fn what_is_broken_is_named_as_if_there_was_no_text() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/reports/two_ranks.json");
        let bytes = std::fs::read(path).expect(path);
        let whole: Value = serde_json::from_slice(&bytes).expect("JSON");
        let bad = json!([true, -1, "x", [], {}, [1, 1, 1, 1], {"a": 1}, {"": "\\\"", "b": 2},
            [{"a": 1}, {}, "]", [], {}]]);
        for place in [
            "/costs",
            "/stages/0/host_total_ns",
            "/coverage/verdict/status",
            "/kernels/0/launch/grid",
            "/kernels/1",
            "/stages",
            "/ranks",
        ] {
            for bad in bad.as_array().expect("values") {
                let mut spoilt = whole.clone();
                *spoilt.pointer_mut(place).expect(place) = bad.clone();
                let Value::Object(fields) = &spoilt else { panic!("an object") };
                let text = serde_json::to_vec(fields).expect("JSON");
                let Err(error) = serde_json::from_slice::<Report>(&text) else {
                    assert_eq!((place, bad), ("/stages", &json!([])));
                    continue;
                };
                let path = path_of(&error, &text);
                let found = (written(&path), reason(&error, &path, fields));
                let tree: Result<Report, _> = serde_path_to_error::deserialize(&spoilt);
                let tree = tree.expect_err(place);
                assert_eq!(found, (tree.path().to_string(), tree.inner().to_string()), "{place}");
            }
        }
    }
}
