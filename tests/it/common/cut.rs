//! Traces that were cut into pieces: the pieces by themselves, and joined.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use stage2_contract::trace::{Ending, RANGE_OUTSIDE, RANGE_UNKNOWN, Record, What, pieces};

use crate::common::TraceFile;

/// The pieces in a folder: of each trace, by its stem, the files by number.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<(u64, PathBuf)>> {
    let mut traces: BTreeMap<String, Vec<(u64, PathBuf)>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Some((stem, number)) = pieces::piece_of(&entry.file_name().to_string_lossy()) {
            traces.entry(stem.to_owned()).or_default().push((number, entry.path()));
        }
    }
    traces.values_mut().for_each(|files| files.sort());
    traces
}

/// All pieces of the only trace in a folder, as they are, and joined, with the gaps between them.
pub(crate) fn read(folder: &Path) -> (Vec<TraceFile>, TraceFile, Vec<(u64, u64)>) {
    let traces = files(folder);
    assert_eq!(traces.len(), 1, "{traces:?}");
    let all: Vec<TraceFile> =
        traces.values().flatten().map(|(_, path)| TraceFile::read(path)).collect();
    let (joined, gaps) = joined(&all);
    (all, joined, gaps)
}

/// Pieces in order -> one trace.
pub(crate) fn joined(all: &[TraceFile]) -> (TraceFile, Vec<(u64, u64)>) {
    let (mut join, mut records) = (pieces::Join::default(), Vec::new());
    for piece in all {
        join.begin_file();
        piece.records.iter().for_each(|record| join.take(record.clone(), |r| records.push(r)));
    }
    let gaps = join.gaps().to_vec();
    join.finish(|record| records.push(record));
    (TraceFile { ending: all.last().map_or(Ending::Open, |last| last.ending), records }, gaps)
}

/// How many instances of each path opened, and how many ranges closed.
pub(crate) fn instances(trace: &TraceFile) -> (BTreeMap<String, usize>, usize) {
    let paths = trace.range_paths();
    let mut opened = BTreeMap::new();
    let mut closed = 0;
    for record in &trace.records {
        match record {
            Record::RangeOpen(open) if open.continues == 0 => {
                *opened.entry(paths[&open.range].clone()).or_insert(0) += 1;
            }
            Record::RangeClose { .. } => closed += 1,
            _ => {}
        }
    }
    (opened, closed)
}

/// Fails unless a file defines all that its work and its ranges name, before they do.
pub(crate) fn assert_alone(trace: &TraceFile, captured: &BTreeSet<u64>) {
    let mut known: HashMap<&str, BTreeSet<u64>> = HashMap::new();
    let mut open = BTreeSet::new();
    for record in &trace.records {
        let needed: &[(&str, u64)] = match record {
            Record::Name { .. } => &[],
            Record::Shape(shape) => &[("name", shape.name.into())],
            Record::Path(path) => &[
                ("name", path.name.into()),
                ("name", path.domain.into()),
                ("path", path.parent.into()),
            ],
            Record::RangeOpen(range) => {
                assert!(open.insert(range.range), "{} is open", range.range);
                &[("path", range.path.into()), ("range", range.parent)]
            }
            Record::RangeClose { range, .. } => {
                assert!(open.remove(range), "{range} is not open");
                &[]
            }
            Record::RangeSample { range, .. } | Record::RangeFields { range, .. } => {
                &[("range", *range)]
            }
            Record::GraphNode { path, .. } => &[("path", (*path).into())],
            Record::Work(work) => {
                let shape = match work.what {
                    What::Kernel { shape } => shape,
                    _ => 0,
                };
                let node = if captured.contains(&work.graph_node) { work.graph_node } else { 0 };
                &[
                    ("shape", shape.into()),
                    ("queue", work.queue.into()),
                    ("range", if work.range == RANGE_UNKNOWN { 0 } else { work.range }),
                    ("node", node),
                ]
            }
            _ => &[],
        };
        for &(kind, id) in needed.iter().filter(|(_, id)| *id != RANGE_OUTSIDE) {
            let is_known = known.get(kind).is_some_and(|known| known.contains(&id));
            assert!(is_known, "{kind} {id} is not defined before {record:?}");
        }
        let (kind, id) = match record {
            Record::Name { id, .. } => ("name", (*id).into()),
            Record::Shape(shape) => ("shape", shape.id.into()),
            Record::Queue(queue) => ("queue", queue.id.into()),
            Record::Path(path) => ("path", path.id.into()),
            Record::RangeOpen(range) => ("range", range.range),
            Record::GraphNode { node, .. } => ("node", *node),
            _ => continue,
        };
        known.entry(kind).or_default().insert(id);
    }
}
