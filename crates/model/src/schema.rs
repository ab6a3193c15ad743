//! A type -> the text of its JSON Schema.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema (draft 2020-12) of what is written of `T`, for instance of `metrics` in `version` 2. A later
/// program of the same version may add fields.
pub fn json_schema<T: JsonSchema>(name: &str, version: u32) -> String {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema: Schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("urn:stage2:{name}:{version}").into());
    schema.insert("title".to_owned(), format!("{name}, version {version}").into());
    let mut schema = Value::from(schema);
    plain_texts(&mut schema);
    format!("{schema:#}\n")
}

/// Links of rustdoc lead nowhere here.
fn plain_texts(value: &mut Value) {
    match value {
        Value::String(text) => {
            while let Some((start, rest)) = text.split_once("`](crate::") {
                let rest = rest.split_once(')').map_or("", |(_, rest)| rest);
                *text = format!("{start}`{rest}");
            }
            *text = text.replace("[`", "`").replace("`]", "`").replace("`crate::", "`");
        }
        Value::Array(items) => items.iter_mut().for_each(plain_texts),
        Value::Object(fields) => fields.values_mut().for_each(plain_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
