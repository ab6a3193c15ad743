//! The trace files that a bundle's reports were made of -> those that are gone since.

use std::collections::BTreeSet;
use std::path::Path;

use super::{COLLECTOR_DIR, RunRecord};
use stage2_contract::text::{visible, visible_path};
use stage2_contract::trace::pieces::piece_of;
use stage2_read::files::plain_name;
use stage2_read::trace::folder::trace_files;

/// Why the reports of `dir` cannot be made again as they are; none: nothing is gone.
pub(crate) fn lost_traces(dir: &Path, record: &RunRecord) -> Option<String> {
    // A process may come from an export of nsys.
    let files = record.processes.iter().map(|process| process.file.as_str());
    let told: BTreeSet<&str> =
        files.filter(|file| plain_name(file).ends_with(".s2t")).map(trace).collect();
    let folder = dir.join(COLLECTOR_DIR);
    let found = trace_files(&folder).unwrap_or_default();
    let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let there: BTreeSet<&str> = names.into_iter().map(trace).collect();
    let gone: Vec<_> = told.difference(&there).collect();
    let first = visible(gone.first()?.as_bytes());
    let shown = visible_path(&folder);
    let others = match gone.len() - 1 {
        0 => " is".to_owned(),
        more => format!(" and {more} more are"),
    };
    let remedy = if there.is_empty() {
        String::new()
    } else {
        format!("; `stage2-launch merge --spool {shown} -o DIR` reports what is left")
    };
    Some(format!(
        "the reports of {} were made of trace files of which {first}{others} gone from {shown}; they \
         stay as they are: put the files back to write them again{remedy}",
        visible_path(dir)
    ))
}

/// What a trace is known by: the name of its file, compressed or not, or the stem of its pieces.
fn trace(name: &str) -> &str {
    piece_of(name).map_or_else(|| plain_name(name), |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::ProcessRow;

    #[test]
    fn pieces_compression_and_exports_of_nsys_are_no_loss() {
        let folder = tempfile::tempdir().expect("folder");
        let collector = folder.path().join(COLLECTOR_DIR);
        std::fs::create_dir(&collector).expect("folder");
        let row = |file: &str| ProcessRow { file: file.to_owned(), ..ProcessRow::default() };
        let record = |files: &[&str]| RunRecord {
            processes: files.iter().map(|file| row(file)).collect(),
            ..RunRecord::default()
        };
        let of = |files: &[&str]| lost_traces(folder.path(), &record(files));
        assert_eq!(of(&["run.sqlite"]), None);
        let why = of(&["vm-1-p000001.s2t", "vm-2.s2t.gz"]).expect("gone");
        assert!(why.contains("vm-1 and 1 more are gone"), "{why}");
        // The first piece may have been deleted while the process ran.
        for name in ["vm-1-p000003.s2t.gz", "vm-2.s2t", "vm-3.s2t"] {
            std::fs::write(collector.join(name), "").expect("file");
        }
        assert_eq!(of(&["vm-1-p000001.s2t", "vm-2.s2t.gz"]), None);
    }
}
