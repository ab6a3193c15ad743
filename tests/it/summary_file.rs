//! The summary that the collector writes is what `summarise` makes of the trace beside it.

use std::path::{Path, PathBuf};

use stage2_contract::trace::{Reader as TraceReader, Record};
use stage2_summary::{Entry, Reader, Summariser};

use crate::common::{Guest, cut};

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

/// Hazard (Jobs of many ranks): One step among many takes far longer, unobserved.
/// Promise: With `STAGE2_DETAIL=auto`, the records around it and the first piece stay, other pieces are deleted, and
///  the summary has everything.
#[test]
fn the_records_around_a_long_step_stay_and_dull_ones_go() {
    let guest = Guest::new("obey").env("STAGE2_DETAIL", "auto").env("STAGE2_FLUSH_MS", "10");
    let mut guest = guest.env("STAGE2_ROTATE", "every=300ms").spawn();
    guest.tell("cuda");
    for _ in 0..80 {
        guest.does(["push step", "launch 1", "pop"]);
    }
    // Steps of a busy machine may be long by themselves: what is dull has none.
    let dull = |guest: &mut crate::common::Running| {
        for _ in 0..20 {
            guest.tell("launch 2");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    dull(&mut guest);
    guest.does(["push step", "launch 7"]);
    std::thread::sleep(std::time::Duration::from_millis(700));
    guest.tell("pop");
    dull(&mut guest);
    assert!(guest.end().success(), "{}", guest.stderr());
    let files: Vec<(u64, PathBuf)> = cut::files(guest.out()).into_values().flatten().collect();
    let newest = files.iter().map(|(number, _)| *number).max().expect("there are pieces");
    assert!(files.len() + 4 <= newest as usize, "{} of {newest} pieces are left", files.len());
    assert!(files.iter().any(|(number, _)| *number == 1), "the first one: {files:?}");
    // A piece says of a range that is open that it goes on: it began where an earlier one says so.
    let mut opened = std::collections::BTreeMap::new();
    let mut of = |records: &[Record]| {
        let work = records.iter().filter(|record| matches!(record, Record::Work(_))).count();
        let mut longest = 0;
        for record in records {
            match record {
                Record::RangeOpen(open) => drop(opened.entry(open.range).or_insert(open.start)),
                Record::RangeClose { range, end } => {
                    let start = opened.get(range).copied().unwrap_or(*end);
                    longest = longest.max(end.since(start));
                }
                _ => {}
            }
        }
        (work, longest)
    };
    let all: Vec<(usize, u64)> = files.iter().map(|(_, path)| of(&records(path))).collect();
    assert!(all.iter().any(|(_, longest)| *longest > 600_000_000), "the long step: {all:?}");
    let left: usize = all.iter().map(|(work, _)| work).sum();
    let written = entries(&file_with(guest.out(), "s2s"));
    let calls = written.iter().filter_map(|entry| match entry {
        Entry::Period(period) => Some(period),
        Entry::Member(_) => None,
    });
    let sums = calls.flat_map(|period| period.stages.values()).flat_map(|of| of.classes.values());
    let calls: u64 = sums.map(|sum| sum.calls).sum();
    assert!((7..167).contains(&left), "work in the pieces that are left: {left}");
    assert!((160..=167).contains(&calls), "work in the summary: {calls} of 167");
}
