//! Nsight Systems and Nsight Compute: settings -> command lines -> a verdict on what came of them.
//!
//! Nothing is run here, and no table is read: `run` does the one, `stage2_read` the other.

pub mod ncu;
pub mod nsys;
pub mod step;
pub mod version;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use serde::Serialize;
use stage2_contract::text::listed;
use stage2_model::Finding;

/// A choice of the settings as the flag of the tool takes it: the word that the preset has.
fn word(choice: impl Serialize) -> String {
    let value = serde_json::to_value(choice).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The product that the pass `key` (`nsys` or `ncu`) runs.
pub(crate) fn product(key: &str) -> &'static str {
    if key == "nsys" { "Nsight Systems" } else { "Nsight Compute" }
}

/// What to tell where the tool of the pass `key` cannot be run.
pub(crate) fn missing(key: &str, executable: &Path, why: &str) -> Finding {
    let product = product(key);
    Finding::warning(
        format!("there is no {key} pass: {} cannot be run", executable.display()),
        why,
        format!(
            "install {product}, put its folder into PATH, or name it in pipeline.{key}.executable; \
             pipeline.{key}.enable=false leaves the pass out"
        ),
    )
}

/// A path that the output flags of the tools take as it is: they expand %p, %h, %q{...}.
fn without_patterns(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let doubled = bytes.iter().flat_map(|&b| std::iter::repeat_n(b, if b == b'%' { 2 } else { 1 }));
    OsString::from_vec(doubled.collect())
}

/// A sentence that names the ranges of a run, or says that there are none.
fn saw(ranges: &[String]) -> String {
    if ranges.is_empty() {
        return "the collector saw no range".to_owned();
    }
    format!("the collector saw {}", listed(ranges, 8))
}
