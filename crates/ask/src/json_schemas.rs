//! The JSON Schemas of answers, by their names.

use stage2_model::schema::json_schema;

use crate::{answer, budget, next, rows, schema};

/// The name of each schema, and its text.
pub fn all() -> [(&'static str, String); 4] {
    [
        ("ask", json_schema::<budget::Json<'_>>("ask", answer::SCHEMA_VERSION)),
        ("next", json_schema::<next::Next>("next", next::SCHEMA_VERSION)),
        ("query", json_schema::<rows::Json<'_>>("query", rows::SCHEMA_VERSION)),
        ("schema", json_schema::<schema::Json>("schema", schema::SCHEMA_VERSION)),
    ]
}
