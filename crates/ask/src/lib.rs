//! The report of a bundle and a question in, an answer of bounded size out: for programs and agents that
//! read answers instead of pages. It starts nothing, and reads no file but those of the bundle.
#![forbid(unsafe_code)]

pub mod answer;
mod budget;
#[cfg(feature = "schema")]
pub mod json_schemas;
pub mod next;
pub mod query;
mod question;
mod questions;
mod rows;
pub mod schema;
pub mod tables;
mod trace_rows;

pub use budget::{BUDGET_TOKENS, BYTES_PER_TOKEN, Budget, FLOOR_TOKENS};
pub use next::{Next, RunFiles, next};
pub use question::{AskError, Question};
pub use questions::{answer, compare};
