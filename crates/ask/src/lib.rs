//! The report of a bundle and a question in, an answer of bounded size out: for programs and agents that
//! read answers instead of pages. It starts nothing, and reads no file but those of the bundle.

pub mod answer;
