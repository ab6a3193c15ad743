//! The name of a JSON Schema -> its text; without a name, the list.

use serde_json::Value;
use stage2_contract::text::numbers::count;
use stage2_contract::text::{instead, shorten, visible};
use stage2_packed::Packed;

use super::ending::printed;
use crate::failure::Failure;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.z"));

pub(crate) fn json_schema(name: &str) -> Result<u8, Failure> {
    let all = Packed::open(PACKED);
    let all =
        all.map_err(|error| Failure::NoResult(format!("the schemas cannot be read: {error}")))?;
    let named = |(file, text)| Some((str::strip_suffix(file, ".schema.json")?, text));
    let schemas: Vec<(&str, &str)> = all.texts().filter_map(named).collect();
    if name.is_empty() {
        return printed(&list(&schemas));
    }
    match schemas.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => printed(text),
        None => {
            let known: Vec<&str> = schemas.iter().map(|(known, _)| *known).collect();
            let shown = shorten(&visible(name.as_bytes()), 80);
            let instead = instead(name, &known);
            Err(Failure::Usage(format!("there is no schema `{shown}`{instead}")))
        }
    }
}

fn list(schemas: &[(&str, &str)]) -> String {
    let mut out = "| name | version | bytes | of |\n|---|--:|--:|---|\n".to_owned();
    for (name, text) in schemas {
        let schema: Value = serde_json::from_str(text).unwrap_or_default();
        let version = schema["$id"].as_str().and_then(|id| id.rsplit_once(':'));
        let version = version.map_or("?", |(_, version)| version);
        let about = schema["description"].as_str().unwrap_or_default();
        let about = about.lines().next().unwrap_or_default();
        let about = about.split(". ").next().unwrap_or_default().trim_end_matches('.');
        let bytes = count(text.len() as u64);
        out.push_str(&format!("| {name} | {version} | {bytes} | {about} |\n"));
    }
    out.push_str(
        "\n`stage2-launch schema --json-schema NAME` prints one (JSON Schema, draft 2020-12).\n",
    );
    out
}
