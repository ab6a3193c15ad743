//! Words and values that several formats share.

use std::borrow::Cow;

use serde_json::{Map, Value as Json, json};
use stage2_contract::trace::Payload;
use stage2_read::trace::events::{Value, What, Work};

/// What a piece of work is called: the demangled name of a kernel, or what else was done.
pub fn full<'a>(work: &Work<'a>) -> Cow<'a, str> {
    match work.what {
        What::Kernel(_, name) => Cow::Borrowed(&name.demangled),
        other => short(other),
    }
}

/// What a piece of work is called: the short name of a kernel, or what else was done.
pub fn short(what: What<'_>) -> Cow<'_, str> {
    match what {
        What::Kernel(_, name) => Cow::Borrowed(&name.short),
        What::Copy { kind, .. } => Cow::Owned(format!("Memcpy {}", copy(kind))),
        What::Fill { .. } => Cow::Borrowed("Memset"),
        What::Graph { graph } => Cow::Owned(format!("CUDA graph {graph}")),
    }
}

/// Directions of copies by `CUpti_ActivityMemcpyKind`, as PyTorch's profiler names them.
const COPIES: [&str; 11] =
    ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];

fn copy(kind: u8) -> &'static str {
    COPIES.get(usize::from(kind)).unwrap_or(&COPIES[0])
}

/// An object with one member for each value, in their order.
pub(crate) fn json_object(fields: &[(String, Value)]) -> Map<String, Json> {
    let value = |value: &Value| match value {
        Value::Number(payload) => json_number(*payload),
        Value::Text(text) => json!(text),
    };
    fields.iter().map(|(name, of)| (name.clone(), value(of))).collect()
}

/// The JSON object of the values, as text; `None` where there are no values.
pub fn json_text(fields: &[(String, Value)]) -> Option<String> {
    (!fields.is_empty()).then(|| Json::Object(json_object(fields)).to_string())
}

/// A number; JSON knows no NaN and no infinity, which become null.
pub(crate) fn json_number(payload: Payload) -> Json {
    match payload {
        Payload::U64(value) => json!(value),
        Payload::I64(value) => json!(value),
        Payload::F64(value) => json!(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_names_of_their_directions() {
        assert_eq!([1, 10, 99].map(copy), ["HtoD", "PtoP", "Unknown"]);
    }

    #[test]
    fn what_json_cannot_say_is_null_and_no_values_are_no_object() {
        assert_eq!(json_text(&[]), None);
        let fields = [f64::NAN, f64::INFINITY].map(|number| Value::Number(Payload::F64(number)));
        let fields = fields.into_iter().zip(["a", "b"]).map(|(value, name)| (name.into(), value));
        let text = json_text(&fields.collect::<Vec<_>>());
        assert_eq!(text.as_deref(), Some(r#"{"a":null,"b":null}"#));
    }
}
