//! A file of format version 1 that every later version must read.
//!
//! `golden/v1.s2t` holds the fixed capture of `common/sample.rs`. To write it anew (only when the
//! format has not been released yet), delete it and run
//! `SNAPSHOTS=overwrite cargo test -p stage2-contract --test it golden`.

use std::path::PathBuf;

use crate::common::{read, sample, trace_file};
use stage2_contract::trace::{Ending, Skipped};

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
    let written = trace_file(&sample::frames());
    // Never over a file that is there: it is what older versions wrote.
    if std::env::var_os("SNAPSHOTS").is_some_and(|action| action == "overwrite")
        && let Ok(mut file) = std::fs::File::create_new(path())
    {
        std::io::Write::write_all(&mut file, &written).unwrap();
    }
    assert_eq!(written, std::fs::read(path()).unwrap());
}
