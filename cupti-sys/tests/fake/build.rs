//! The fake CUPTI, compiled by the tests that load it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the fake to `library`.
pub(crate) fn build(library: PathBuf, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/cupti.rs");
    let done = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition", "2024", "--crate-type", "cdylib", "-A", "warnings"])
        .args(arguments)
        .arg("-o")
        .args([&library, &source])
        .output()
        .expect("rustc runs, as it is what compiled this test");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    library
}
