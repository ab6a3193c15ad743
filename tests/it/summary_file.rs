//! The summary that the collector writes is what `summarise` makes of the trace beside it.

use std::path::{Path, PathBuf};

use stage2_contract::trace::{Reader as TraceReader, Record};
use stage2_summary::{Entry, Reader, Summariser};

use crate::common::Guest;

fn file_with(folder: &Path, ending: &str) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("the folder of the guest");
    let mut found = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found = found.find(|path| path.extension().is_some_and(|of| of == ending));
    found.unwrap_or_else(|| panic!("a file *.{ending}"))
}

fn entries(path: &Path) -> Vec<Entry> {
    let file = std::io::BufReader::new(std::fs::File::open(path).expect("it is there"));
    let mut reader = Reader::new(file).expect("a summary");
    let mut all = Vec::new();
    while let Some(entry) = reader.next_entry().expect("it reads") {
        all.push(entry);
    }
    assert_eq!(reader.damage(), (0, false));
    all
}

fn records(path: &Path) -> Vec<Record> {
    TraceReader::open(path).expect("a trace").map(|record| record.expect("it reads")).collect()
}

fn guest(detail: &str) -> crate::common::Running {
    let mut guest = Guest::new("obey").env("STAGE2_DETAIL", detail).spawn();
    guest.does(["cuda", "push decode"]);
    for _ in 0..20 {
        guest.does(["push step", "launch 50", "pop"]);
    }
    guest.does(["pop", "launch 3"]);
    guest
}

/// Hazard (Jobs of many ranks): The collector and the launcher summarise the same records.
/// Promise: Both summaries are the same, to the byte.
#[test]
fn the_summary_of_the_collector_is_that_of_its_trace() {
    let mut left = guest("full");
    assert!(left.end().success(), "{}", left.stderr());
    let trace = records(&file_with(left.out(), "s2t"));
    let mut summariser = Summariser::default();
    let mut made = Vec::new();
    for record in &trace {
        summariser.take(record);
        made.extend(summariser.ready());
    }
    summariser.finish();
    made.extend(summariser.ready());
    let written = entries(&file_with(left.out(), "s2s"));
    assert_eq!(written, made);
    let periods = written.iter().filter_map(|entry| match entry {
        Entry::Period(period) => Some(period),
        Entry::Member(_) => None,
    });
    let calls = periods.clone().flat_map(|period| period.stages.values());
    let calls: u64 = calls.flat_map(|stage| stage.classes.values()).map(|sum| sum.calls).sum();
    let losses = periods.filter_map(|period| period.losses.get("without times"));
    let work = trace.iter().filter(|record| matches!(record, Record::Work(_))).count();
    assert_eq!((calls + losses.sum::<u64>(), work), (1_003, 1_003));
}

#[test]
fn a_summary_alone_leaves_facts_and_losses_in_the_trace() {
    let mut left = guest("summary");
    assert!(left.end().success(), "{}", left.stderr());
    let trace = records(&file_with(left.out(), "s2t"));
    let is_event = |record: &&Record| {
        matches!(record, Record::Work(_) | Record::RangeOpen(_) | Record::Name { .. })
    };
    assert_eq!(trace.iter().find(is_event), None);
    assert!(trace.iter().any(|record| matches!(record, Record::Losses(_))));
    assert!(matches!(trace.last(), Some(Record::End { .. })));
    let written = entries(&file_with(left.out(), "s2s"));
    assert!(written.iter().any(|entry| matches!(entry, Entry::Period(_))));
}
