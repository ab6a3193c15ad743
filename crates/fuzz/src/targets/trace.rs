//! Trace files: any bytes are records and an end, and what is written again is read equal.

use stage2_contract::trace::{Ending, Reader, Record, Skipped, Writer};

use super::same_twice;

pub(super) fn check(input: &[u8]) {
    let Some((records, _, _)) = same_twice("records", || read(input)) else { return };
    // Samples are kept as one byte each, with a rounding that is carried on from those before.
    let records: Vec<Record> =
        records.into_iter().filter(|r| !matches!(r, Record::CounterSamples(_))).collect();
    let once = written(&records);
    let again = read(&once).expect("our own header");
    assert_eq!(format!("{records:?}"), format!("{:?}", again.0), "written and read again");
    assert_eq!(again.2, Skipped::default(), "our own file has nothing to step over");
    assert!(!matches!(again.1, Ending::Torn { .. }), "our own file is whole");
    assert!(once == written(&again.0), "written twice, the bytes differ");
}

fn read(input: &[u8]) -> Option<(Vec<Record>, Ending, Skipped)> {
    let mut reader = Reader::new(input).ok()?;
    let mut records = Vec::new();
    for record in reader.by_ref() {
        records.push(record.expect("a slice gives no errors of reading"));
    }
    Some((records, reader.end(), reader.skipped()))
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("a vector takes everything");
    records.iter().for_each(|record| writer.write(record));
    writer.flush().expect("a vector takes everything, and no record is longer than what was read");
    writer.into_sink()
}
