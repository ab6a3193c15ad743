//! Activity buffers recorded on an H200 through the real drain thread: decode, attribution,
//! aggregation and trace file, with only CUPTI itself replaced.

#[path = "it/common/recording.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the bench")]
mod recording;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use recording::Recording;
use stage2_contract::trace::{Ending, RANGE_OUTSIDE, Reader, Record, What};

/// Sends a recording through the collector and returns the records of its trace file.
fn collect(recording: Recording, out: &Path) -> Vec<Record> {
    stage2::drain::run(recording.offered(out, 1, false), recording::hooks());
    let trace = trace_in(out);
    let mut reader = Reader::open(&trace).unwrap();
    let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.end(), Ending::Complete);
    records
}

fn trace_in(folder: &Path) -> PathBuf {
    let mut traces = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "s2t"));
    let trace = traces.next().unwrap();
    assert_eq!(traces.next(), None);
    trace
}

/// Kernels and their summed time, ns, by range instance.
fn kernels_by_range(records: &[Record]) -> BTreeMap<u64, (u64, u64)> {
    let mut ranges = BTreeMap::new();
    for record in records {
        if let Record::Work(kernel) = record
            && kernel.is_kernel()
        {
            let (count, total_ns) = ranges.entry(kernel.range).or_insert((0, 0));
            *count += 1;
            *total_ns += kernel.end.since(kernel.start);
        }
    }
    ranges
}

fn losses(records: &[Record]) -> stage2_contract::trace::Losses {
    let last = records.iter().rev().find_map(|record| match record {
        Record::Losses(losses) => Some(*losses),
        _ => None,
    });
    last.unwrap()
}

#[test]
fn eager_llm_has_exactly_the_recorded_kernels_and_times_in_every_range() {
    let out = tempfile::tempdir().unwrap();
    let records = collect(Recording::load("llm13"), out.path());
    let mut by_range = kernels_by_range(&records);
    // Building the model launched kernels outside of any range.
    assert_eq!(by_range.remove(&RANGE_OUTSIDE).map(|(count, _)| count), Some(307));
    let ranges: Vec<(u64, u64)> = by_range.into_values().collect();
    let counts: Vec<u64> = ranges.iter().map(|&(count, _)| count).collect();
    assert_eq!(counts, [662, 5552, 662, 5552]);
    let ms: Vec<String> = ranges.iter().map(|&(_, ns)| format!("{:.3}", ns as f64 / 1e6)).collect();
    assert_eq!(ms, ["3.846", "14.591", "3.816", "14.589"]);

    let opened: Vec<String> = range_names(&records);
    assert_eq!(opened, ["prefill", "decode", "prefill", "decode"]);
    let lost = losses(&records);
    assert_eq!((lost.unattributed, lost.invalid_timestamps, lost.unbalanced), (0, 0, 0));
    // Context and synchronization records were recorded with them and are not ours to read.
    assert!(lost.unreadable_records > 0);

    let summary = std::fs::read_to_string(out.path().join("summary.txt")).unwrap();
    assert!(summary.contains("decode  x2"), "{summary}");
    let table = std::fs::read_to_string(out.path().join("kernels.md")).unwrap();
    assert!(table.contains("| kernel_name | total_ms | calls | mean_ms | device |"), "{table}");
    // The device's name was not recorded; every kernel's was.
    assert!(!table.contains("| `(address not in the capture"), "{table}");
}

fn range_names(records: &[Record]) -> Vec<String> {
    let mut names = HashMap::new();
    let mut paths = HashMap::new();
    let mut opened = Vec::new();
    for record in records {
        match record {
            Record::Name { id, bytes } => {
                names.insert(*id, String::from_utf8(bytes.clone()).unwrap());
            }
            Record::Path(path) => {
                paths.insert(path.id, names[&path.name].clone());
            }
            Record::RangeOpen(open) => opened.push(paths[&open.path].clone()),
            _ => {}
        }
    }
    opened
}

#[test]
fn replayed_graphs_belong_to_the_range_that_is_open_at_replay() {
    let out = tempfile::tempdir().unwrap();
    let records = collect(Recording::load("graph13"), out.path());
    let mut replays: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    for record in &records {
        if let Record::Work(kernel) = record
            && kernel.is_kernel()
            && kernel.graph_node != 0
        {
            *replays.entry(kernel.range).or_default().entry(kernel.correlation).or_default() += 1;
        }
    }
    // 20 replays to warm up outside of any range, then 5 in each of two; 761 kernels a replay.
    let sizes: Vec<(u64, Vec<u64>)> = replays
        .into_iter()
        .map(|(range, replays)| (range, replays.into_values().collect()))
        .collect();
    assert_eq!(sizes, [(0, vec![761; 20]), (1, vec![761; 5]), (2, vec![761; 5])]);
}

#[test]
fn graph_level_records_are_kept_as_wholes() {
    let out = tempfile::tempdir().unwrap();
    let records = collect(Recording::load("graphtrace13"), out.path());
    let launches: Vec<u64> = records
        .iter()
        .filter_map(|record| match record {
            Record::Work(launch) if matches!(launch.what, What::Graph { .. }) => {
                assert!(launch.end > launch.start);
                Some(launch.range)
            }
            _ => None,
        })
        .collect();
    assert_eq!(launches, [vec![0; 20], vec![1; 5], vec![2; 5]].concat());
}
