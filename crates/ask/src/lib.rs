//! The report of a bundle and a question in, an answer of bounded size out: for programs and agents that
//! read answers instead of pages. It starts nothing, and reads no file but those of the bundle.
#![forbid(unsafe_code)]

pub mod answer;
mod budget;
pub mod next;
pub mod query;
mod question;
mod questions;
mod rows;
pub mod schema;
mod screen;
pub mod sentence;
pub mod tables;
mod trace_rows;

pub use budget::{BUDGET_TOKENS, BYTES_PER_TOKEN, Budget, FLOOR_TOKENS, Size};
pub use next::{Next, RunFiles, next};
pub use question::{AskError, Question};
pub use questions::{answer, compare};

/// The name of each JSON Schema of an answer, and its text.
#[cfg(feature = "schema")]
pub fn json_schemas() -> [(&'static str, String); 4] {
    use stage2_model::schema::json_schema;
    [
        ("ask", json_schema::<budget::Json<'_>>("ask", answer::SCHEMA_VERSION)),
        ("next", json_schema::<next::Next>("next", next::SCHEMA_VERSION)),
        ("query", json_schema::<rows::Json<'_>>("query", rows::SCHEMA_VERSION)),
        ("schema", json_schema::<schema::Json>("schema", schema::SCHEMA_VERSION)),
    ]
}
