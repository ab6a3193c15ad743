//! What is written is what is read, for every record with any values.

use crate::common::{any, decode_trace, read, sample, trace_file};
use proptest::prelude::*;
use stage2_contract::trace::{Ending, Payload, RangeOpen, Record, Skipped, Writer};

proptest! {
    #[test]
    fn every_record_reads_as_it_was_written(frames in any::frames()) {
        let file = trace_file(&frames);
        let read = read(&file).unwrap();
        let ended = frames.iter().flatten().any(|record| matches!(record, Record::End { .. }));
        prop_assert_eq!(read.records, frames.concat());
        prop_assert!(read.error.is_none());
        prop_assert_eq!(read.end, if ended { Ending::Complete } else { Ending::Open });
        prop_assert_eq!(read.skipped, Skipped::default());
    }

    #[test]
    fn fast_paths_write_the_same_bytes(records in prop::collection::vec(any::record(), 0..60)) {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file).unwrap();
        for record in &records {
            match record {
                Record::Work(work) => writer.work(work),
                other => writer.write(other),
            }
        }
        writer.flush().unwrap();
        prop_assert_eq!(file, trace_file(&[&records]));
    }
}

#[test]
fn a_float_keeps_its_bits() {
    let bits = 0x7ff0_dead_beef_0001_u64;
    let Some(Record::RangeOpen(open)) =
        sample::frames().concat().into_iter().find(|record| matches!(record, Record::RangeOpen(_)))
    else {
        panic!("the sample has a range");
    };
    let payload = Some(Payload::F64(f64::from_bits(bits)));
    let file = trace_file(&[[Record::RangeOpen(RangeOpen { payload, ..open })]]);
    match read(&file).unwrap().records.as_slice() {
        [Record::RangeOpen(RangeOpen { payload: Some(Payload::F64(value)), .. })] => {
            assert_eq!(value.to_bits(), bits);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_follow_one_another_without_loss() {
    let kernels = decode_trace::kernels(50);
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    kernels.iter().for_each(|kernel| writer.work(kernel));
    writer.flush().unwrap();
    drop(writer);
    assert!(file.len() > 3 * 64 * 1024, "several blocks");
    let expected: Vec<_> = kernels.into_iter().map(Record::Work).collect();
    assert_eq!(read(&file).unwrap().records, expected);
}

/// The sizes that the collector's disk budget rests on.
#[test]
fn kernels_are_small() {
    for (kernels, limit) in
        [(decode_trace::kernels(100), 10.0), (decode_trace::graph_kernels(100), 11.0)]
    {
        let records: Vec<_> = kernels.into_iter().map(Record::Work).collect();
        let bytes_per_kernel = trace_file(&[&records]).len() as f64 / records.len() as f64;
        assert!(bytes_per_kernel < limit, "{bytes_per_kernel} bytes per kernel");
    }
}
