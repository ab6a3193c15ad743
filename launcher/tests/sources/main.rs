//! Captures of any source, any subset of them -> `merge` -> tables that plain SQL, plain sums over
//! CSV files and the spools themselves confirm.

mod alone;
#[allow(dead_code, reason = "every test binary uses a part")]
#[path = "../report/build.rs"]
mod build;
mod combined;
#[path = "../common/mod.rs"]
mod common;
mod nested;
mod no_ranges;
mod plain;
mod public_ncu;
mod public_nsys;
mod selection;
mod verdicts;
