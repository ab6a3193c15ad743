//! Exports of five times the kernels -> the same memory, in every format. Alone in its process, whose
//! largest resident set is what is looked at.

#[path = "it/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;

use stage2_export::{Format, Run, Selection, Traces, export};
use stage2_read::trace::libraries::RangeNames;

/// The largest resident set of this process so far, KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn all_formats(folder: &Path, kernels: u64) {
    let traces = folder.join("traces");
    fs::create_dir(&traces).expect("folder");
    common::many(&traces, kernels);
    let traces = Traces::read(&traces, &RangeNames::default());
    let run = Run::of_traces("try".into(), traces, &[]).expect("run");
    for format in Format::ALL {
        let out = folder.join(format.name());
        let counts = export(&run, format, &Selection::default(), &out).expect("an export").counts;
        assert_eq!((counts.kernels, counts.ranges), (kernels, kernels / 100), "{format:?}");
        fs::remove_file(out).expect("file");
    }
}

/// An unoptimised build takes five minutes for the larger number; `.ci/full` tests an optimised one.
const MANY: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

#[test]
fn memory_does_not_grow_with_the_kernels() {
    let few = tempfile::tempdir().expect("folder");
    // More than the formats hold back, sort or collect into groups of rows.
    all_formats(few.path(), MANY / 5);
    let before = peak_kib();
    let many = tempfile::tempdir().expect("folder");
    all_formats(many.path(), MANY);
    let grown = peak_kib() - before;
    assert!(grown < 8 << 10, "{grown} KiB more than the {before} KiB of a fifth of the kernels");
}
