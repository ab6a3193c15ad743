//! A summary of ranks, as `job` reads it; and a trace, as it is summarised.

use stage2_contract::trace::Reader as TraceReader;
use stage2_summary::job::Fold;
use stage2_summary::tree::Inventory;
use stage2_summary::{Entry, Period, Reader, Summariser, Writer};

use super::same_twice;

/// Records of a trace that are summarised: each may be a minute of its own.
const RECORDS: usize = 1 << 12;

pub(super) fn check(input: &[u8]) {
    let Some(entries) = read(input).or_else(|| summarised(input)) else { return };
    let mut writer = Writer::new(Vec::new()).expect("a vector takes everything");
    entries.iter().for_each(|entry| writer.write(entry).expect("a vector takes everything"));
    let again = read(&writer.into_output()).expect("our own header");
    assert!(again == entries, "written and read again, the entries differ");
    same_twice("job", || {
        let mut fold = Fold::default();
        let mut all = Period::default();
        for entry in &entries {
            if let Entry::Period(period) = entry {
                all.merge((**period).clone());
                let mut alone = Period { index: period.index, ..Period::default() };
                alone.merge((**period).clone());
                fold.add(alone);
            }
        }
        all.settle(true);
        (all, fold.finish(&Inventory::default(), |_| None))
    });
}

fn read(input: &[u8]) -> Option<Vec<Entry>> {
    let mut reader = Reader::new(input).ok()?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().expect("a slice gives no errors of reading") {
        entries.push(entry);
    }
    Some(entries)
}

fn summarised(input: &[u8]) -> Option<Vec<Entry>> {
    let mut summariser = Summariser::default();
    let mut entries = Vec::new();
    for record in TraceReader::new(input).ok()?.take(RECORDS) {
        summariser.take(&record.expect("a slice gives no errors of reading"));
        entries.extend(summariser.ready());
    }
    summariser.finish();
    entries.extend(summariser.ready());
    Some(entries)
}
