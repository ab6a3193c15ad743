//! A simulated GPU: a shared library with the symbols of the CUDA driver and of CUPTI that replays
//! kernels recorded on an H200.
//!
//! `libstage2_sim.so` is loaded in the place of libcuda and libcupti. What it does and does not
//! simulate, and the environment variables that steer it, are in README.md of this package.
//!
//! The way of a launch through the modules:
//! - `driver_api`: the exported `cu*` functions, with `calls` their ids; cuInit loads the tool;
//! - `callbacks`: the correlation id and the callbacks at enter and exit, and the functions of the callback API;
//! - `state`: the one static, and what a launch does, by `timeline` when, out of `recorded` and `objects` what;
//! - `record`, `version`: the bytes of the activity record;
//! - `buffers`: whether a client wants it, into the client's buffer and back; `chosen`: with which fields;
//! - `activity_api`: the functions of both activity APIs;
//! - `pm`: what the work counts, in samples; `pm_api`: the functions that sample;
//! - `config`: the settings and faults; `abi` and `clock` are used by all.
//!
//! As a Rust library it offers only [`without_symbol`], for tests of tools that must survive a
//! CUPTI without some function.

mod abi;
mod activity_api;
mod buffers;
mod callbacks;
mod calls;
mod chosen;
mod clock;
mod config;
mod driver_api;
mod objects;
mod pm;
mod pm_api;
mod record;
mod recorded;
mod state;
mod timeline;
mod version;

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};

/// Copies the ELF library `source` to `copy` so that `dlsym(copy, name)` finds nothing.
///
/// The symbol stays, under a name with another first letter: the hash table still leads to it, and
/// the comparison of the names fails.
///
/// # Errors
/// `source` cannot be read, is no such library or does not export `name`; `copy` cannot be
/// written.
pub fn without_symbol(source: &Path, copy: &Path, name: &str) -> Result<()> {
    let refuse = |kind, what: &dyn std::fmt::Display| {
        Error::new(kind, format!("{}: {what}", source.display()))
    };
    let mut bytes = fs::read(source).map_err(|error| refuse(error.kind(), &error))?;
    let at = name_offset(&bytes, name).map_err(|what| {
        refuse(ErrorKind::InvalidData, &format!("{what}; give a library built from this package"))
    })?;
    bytes[at] = b'-';
    fs::write(copy, bytes)
        .map_err(|error| Error::new(error.kind(), format!("{}: {error}", copy.display())))
}

fn name_offset(bytes: &[u8], name: &str) -> Result<usize> {
    let invalid = |what: String| Error::new(ErrorKind::InvalidData, what);
    let file =
        object::File::parse(bytes).map_err(|error| invalid(format!("no library ({error})")))?;
    let is_exported = file.dynamic_symbols().any(|s| s.is_definition() && s.name() == Ok(name));
    let strings = file.section_by_name(".dynstr").filter(|_| is_exported);
    let names = strings.and_then(|section| Some((section.file_range()?.0, section.data().ok()?)));
    let (start, names) = names.ok_or_else(|| invalid(format!("does not export {name}")))?;
    // Behind a NUL, because the linker lets a name that ends like another one share its bytes.
    let entry = format!("\0{name}\0");
    let at = names.windows(entry.len()).position(|window| window == entry.as_bytes());
    at.map(|at| start as usize + at + 1).ok_or_else(|| invalid(format!("shares the name {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, copy) = (folder.path().join("a.so"), folder.path().join("b.so"));
        let missing = without_symbol(&source, &copy, "x").expect_err("no file");
        assert!(missing.to_string().contains("a.so"), "{missing}");
        fs::write(&source, b"\x7fELF and then nothing").expect("written");
        let error = without_symbol(&source, &copy, "x").expect_err("no library");
        assert!(error.to_string().contains("a.so"), "{error}");
        assert!(!copy.exists());
    }
}
