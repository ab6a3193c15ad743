//! What writer and reader allocate: bounded by the file, and nothing for each record.
//!
//! One test function: the counters are those of the process.

#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
#[path = "../../fuzz/src/memory_count.rs"]
mod memory_count;

#[path = "it/common/mod.rs"]
mod common;

use common::{decode_trace, file_header, frame};
use memory_count::{allocations_of, peak_of};
use stage2_contract::trace::{Reader, Record, Writer};

/// Bytes that `run` held at most, beyond what was held before, and its number of allocations.
fn measure(run: impl FnOnce()) -> (usize, usize) {
    let (((), allocations), peak) = peak_of(|| allocations_of(run));
    (peak, allocations)
}

/// A varint of all the bits there are.
const HUGE: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];

fn hostile_files() -> Vec<(&'static str, Vec<u8>)> {
    let header = file_header(1, &[]);
    let mut longest_frame = b"S2\x01\x00".to_vec();
    longest_frame.extend_from_slice(&u32::MAX.to_le_bytes());
    longest_frame.resize(80, 0);
    let mut long_frame = longest_frame.clone();
    long_frame[4..8].copy_from_slice(&(1024_u32 * 1024).to_le_bytes());
    let mut longest_header = header.clone();
    longest_header[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    // 4 numbers: process, parent, then two empty strings, then the number of arguments.
    let arguments = [&[0x40, 14, 1, 1, 0, 0][..], &HUGE].concat();
    let name = [&[0x43, 11, 1][..], &HUGE].concat();
    let record = [&[0x43][..], &HUGE].concat();
    vec![
        ("frame of 4 GiB", [header.clone(), longest_frame].concat()),
        ("frame of 1 MiB", [header.clone(), long_frame].concat()),
        ("header of 4 GiB", longest_header),
        ("2^64 arguments", [header.clone(), frame(1, &arguments)].concat()),
        ("name of 2^64 bytes", [header.clone(), frame(1, &name)].concat()),
        ("record of 2^64 bytes", [header, frame(1, &record)].concat()),
    ]
}

#[test]
fn memory_is_bounded() {
    for (what, file) in hostile_files() {
        let mut records = 0;
        let (peak, _) = measure(|| {
            records = Reader::new(file.as_slice()).map_or(0, Iterator::count);
        });
        assert_eq!(records, 0, "{what}");
        assert!(peak < 80 * 1024, "{what}: {peak} bytes for a file of {} bytes", file.len());
    }

    let kernels = decode_trace::kernels(1_000);
    let mut writer = Writer::new(std::io::sink()).unwrap();
    let (peak, allocations) = measure(|| {
        for kernel in &kernels {
            writer.work(kernel);
            writer.write(&Record::GraphNode {
                node: kernel.correlation,
                path: kernel.queue,
                range: kernel.range,
            });
        }
        writer.flush().unwrap();
    });
    assert_eq!((peak, allocations), (0, 0), "writing");

    let mut writer = Writer::new(Vec::new()).unwrap();
    kernels.iter().for_each(|kernel| writer.work(kernel));
    writer.flush().unwrap();
    let file = writer.into_sink();
    let mut records = 0;
    let (peak, allocations) = measure(|| {
        records = Reader::new(file.as_slice()).unwrap().count();
    });
    assert_eq!(records, kernels.len());
    assert!(peak < 300 * 1024, "{peak} bytes to read {} bytes", file.len());
    assert!(allocations < 10, "{allocations} allocations to read {records} records");
}
