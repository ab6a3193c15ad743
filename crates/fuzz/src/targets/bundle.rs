//! The folder of a run: its JSON, its configuration, trace files and tables, through the whole
//! analysis.

use std::path::Path;

use stage2_report::{Settings, Sources, analyse};

use super::{check_findings, same_twice};
use crate::mutate::bundle::{FILES, unpack};
use crate::scratch;

pub(super) fn check(input: &[u8]) {
    let folder = scratch::folder();
    let run = folder.path().join("run");
    for (which, bytes) in unpack(input) {
        let path = run.join(FILES[which].0);
        std::fs::create_dir_all(path.parent().unwrap_or(&run)).expect("a folder");
        scratch::write(&path, &bytes);
    }
    let report = same_twice("report", || report(&run));
    // What `diff` and `report` read again.
    let read = stage2_diff::read_report(report.as_bytes()).expect("a report of our own");
    assert!(read.left_out.is_empty(), "our own report is read in part: {:?}", read.left_out);
    check_findings(&read.report.findings);
}

fn report(run: &Path) -> String {
    let analysis = analyse(&Sources::of_run(run), &Settings::of_run(run));
    serde_json::to_string(&analysis.report).expect("every report is JSON")
}
