//! Captures of any source, any subset of them -> `merge` -> tables that plain SQL, plain sums over
//! CSV files and the trace files themselves confirm.

mod alone;
mod combined;
mod nested;
mod no_ranges;
mod plain;
mod public_ncu;
mod public_nsys;
mod selection;
mod verdicts;
