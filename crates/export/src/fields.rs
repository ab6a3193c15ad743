//! Typed values of a range -> JSON, for formats that have one place for all of them.

use serde_json::{Map, Value as Json, json};
use stage2_contract::trace::Payload;
use stage2_read::trace::events::Value;

/// An object with one member for each value, in their order; JSON knows no NaN and no infinity, which
/// become null.
pub(crate) fn object(fields: &[(String, Value)]) -> Map<String, Json> {
    let value = |value: &Value| match value {
        Value::Number(payload) => number(*payload),
        Value::Text(text) => json!(text),
    };
    fields.iter().map(|(name, of)| (name.clone(), value(of))).collect()
}

/// The JSON object of the values, as text; `None` where there are no values.
pub fn text(fields: &[(String, Value)]) -> Option<String> {
    (!fields.is_empty()).then(|| Json::Object(object(fields)).to_string())
}

/// A payload.
pub(crate) fn number(payload: Payload) -> Json {
    match payload {
        Payload::U64(value) => json!(value),
        Payload::I64(value) => json!(value),
        Payload::F64(value) => json!(value),
    }
}
