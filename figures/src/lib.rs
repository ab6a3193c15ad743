//! Durations, intervals and names into the figures and texts that a person reads.
//!
//! The collector prints a table when its guest ends, the launcher writes reports later: both
//! must count, round and escape alike, and read the same settings: what they share lives here.
#![forbid(unsafe_code)]

mod domains;
mod histogram;
mod instance;
mod names;
pub mod settings;
mod signature;
pub mod text;
mod union;

pub use domains::{LIBRARY_DOMAINS, is_library_domain};
pub use histogram::{ERROR_PERCENT, Histogram};
pub use instance::{without_instance, without_instance_str};
pub use names::{KernelName, kernel_name};
pub use signature::{comparable, shorten_kernel};
pub use union::{BACK_TO_BACK_NS, Busy, Unions, union_ns};
