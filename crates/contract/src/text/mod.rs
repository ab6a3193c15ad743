//! Names and texts as people read them.
//!
//! The collector prints a table when its guest ends, and the launcher writes reports later. Both must
//! demangle, shorten and escape alike, so what does it lives here.

mod alike;
mod domains;
mod instance;
mod kernel_name;
mod listed;
pub mod numbers;
pub mod redact;
mod signature;
mod visible;

pub use alike::{Pattern, pattern, pattern_of};
pub use domains::{LIBRARY_DOMAINS, is_library_domain};
pub use instance::{without_instance, without_instance_str};
pub use kernel_name::{KernelName, kernel_name};
pub use listed::listed;
pub use signature::{comparable, shorten_kernel};
pub use visible::{
    code, code_in_text, csv_field, plain, shorten, uuid_text, visible, visible_path,
};
