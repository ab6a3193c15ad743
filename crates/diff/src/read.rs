//! The text of a `metrics.json` -> its report, leniently: what an older version wrote, or what is broken
//! beside the numbers that are compared, costs its own part and is named.

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
    /// It is no JSON, or is cut short.
    #[error("it is no JSON, or is cut short ({0})")]
    NoJson(String),
    /// Another program wrote it.
    #[error(
        "it is no report of stage2-launch (its `schema` is {0}, and not \"{SCHEMA}\"); name the \
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
    #[error("{field} cannot be read ({why}); write it again with `stage2-launch report RUN_DIR`")]
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
/// When it is no report of ours, is a newer one, or lacks what is compared.
pub fn read_report(bytes: &[u8]) -> Result<ReadReport, ReadError> {
    let no_json = |error: serde_json::Error| ReadError::NoJson(shown(&error.to_string()));
    let head: Head = match serde_json::from_slice(bytes) {
        Ok(head) => head,
        // Whole, but no object.
        Err(error) if error.is_data() => Head::default(),
        Err(error) => return Err(no_json(error)),
    };
    if head.schema.as_str() != Some(SCHEMA) {
        let found = match head.schema {
            Value::Null => "missing".to_owned(),
            schema => shown(&schema.to_string()),
        };
        return Err(ReadError::OtherSchema(found));
    }
    let version = head.schema_version.as_ref().map_or(Some(0), Value::as_u64);
    match version {
        Some(version) if version <= u64::from(SCHEMA_VERSION) => {}
        Some(found) => return Err(ReadError::Newer(found)),
        None => {
            let why = "it is no whole number".to_owned();
            return Err(ReadError::Broken { field: "schema_version".to_owned(), why });
        }
    }
    if let Ok(report) = serde_json::from_slice(bytes) {
        return Ok(ReadReport { report, left_out: Vec::new() });
    }
    lenient(serde_json::from_slice(bytes).map_err(no_json)?)
}

/// Takes the fields that can be read, and defaults for the others.
fn lenient(mut fields: Map<String, Value>) -> Result<ReadReport, ReadError> {
    let Ok(Value::Object(defaults)) = serde_json::to_value(Report::default()) else {
        let why = "this version has no defaults".to_owned();
        return Err(ReadError::Broken { field: "the report".to_owned(), why });
    };
    let broken = |field: &str, why: String| ReadError::Broken { field: shown(field), why };
    if let Some(field) = NEEDED.iter().find(|field| !fields.contains_key(**field)) {
        return Err(broken(field, "it is missing".to_owned()));
    }
    let mut left_out = Vec::new();
    for (field, default) in &defaults {
        if !fields.contains_key(field) {
            fields.insert(field.clone(), default.clone());
        }
    }
    loop {
        let parsed: Result<Report, _> =
            serde_path_to_error::deserialize(Value::Object(fields.clone()));
        let error = match parsed {
            Ok(report) => return Ok(ReadReport { report, left_out }),
            Err(error) => error,
        };
        let place = error.path().to_string();
        let why = shown(&error.inner().to_string());
        let field = place.split(['.', '[']).next().unwrap_or_default().to_owned();
        let known = fields.contains_key(&field) && !FLATTENED.contains(&field.as_str());
        if known {
            if NEEDED.contains(&field.as_str()) {
                return Err(broken(&place, why));
            }
            match defaults.get(&field) {
                Some(default) if fields.get(&field) != Some(default) => {
                    fields.insert(field, default.clone());
                }
                // Fields without a default in JSON are optional.
                _ => drop(fields.remove(&field)),
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
            assert!(refused(&whole[..cut]).contains("cut short"), "{cut}");
        }
        assert!(refused(b"{\"batch_size\": 1}").contains("`schema` is missing"));
        assert!(refused(b"[1]").contains("no report of stage2-launch"));
        assert!(refused(b"{\"schema\": \"o\\u001bther\"}").contains("\"o\\u001bther\""));
        let newer = text(|v| v["schema_version"] = json!(SCHEMA_VERSION + 1));
        assert!(refused(&newer).contains("newer stage2-launch"));
        assert!(refused(&text(|v| v["schema_version"] = json!("1"))).contains("schema_version"));
        let huge = text(|v| v["kernels"] = json!([{"total_ns": 1e300}]));
        assert!(refused(&huge).contains("kernels[0]"), "{}", refused(&huge));
        assert!(refused("[".repeat(100_000).as_bytes()).contains("no JSON"));
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
}
