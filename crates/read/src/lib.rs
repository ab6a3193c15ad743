//! Bytes of trace files ([`trace`]), of [`nsys`] and of [`ncu`] -> captures; heads of models ([`gguf`]).
//!
//! The readers know nothing of each other. Each of them bounds what a file may cost, whatever is in it:
//! what cannot be used is counted, or becomes a finding that names the file.
#![deny(unsafe_code)]

mod decoded;
pub mod engine;
pub mod files;
pub mod foreign;
pub mod gguf;
pub mod host_cause;
pub mod host_samples;
pub mod host_stacks;
pub mod layout;
pub mod ncu;
pub mod nsys;
mod numbers;
pub mod path_label;
pub mod private;
pub mod progress;
pub mod roles;
pub mod threads;
pub mod trace;

pub use stage2_contract::text::kernel_class;
