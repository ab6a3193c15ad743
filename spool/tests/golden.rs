//! A file of format version 1 that every later version must read.
//!
//! `golden/v1.s2t` holds the fixed capture of `common/sample.rs`. To write it anew (only when the
//! format has not been released yet), delete it and run
//! `cargo test -p stage2-spool --test golden -- --ignored`.

mod common;

use std::path::PathBuf;

use common::{read, sample, spool};
use stage2_spool::{Ending, Skipped};

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.s2t")
}

#[test]
fn version_1_is_read() {
    let read = read(&std::fs::read(path()).unwrap()).unwrap();
    assert_eq!(read.records, sample::frames().concat());
    assert_eq!(read.end, Ending::Complete);
    assert_eq!(read.skipped, Skipped::default());
}

/// Once the version grows, this goes and the test above stays.
#[test]
fn version_1_is_written_byte_for_byte() {
    let golden = std::fs::read(path()).unwrap();
    assert_eq!(spool(sample::frames().iter().map(Vec::as_slice)), golden);
}

#[test]
#[ignore = "writes the golden file, where there is none"]
fn write_golden_file() {
    let Ok(mut file) = std::fs::File::create_new(path()) else { return };
    let bytes = spool(sample::frames().iter().map(Vec::as_slice));
    std::io::Write::write_all(&mut file, &bytes).unwrap();
}
