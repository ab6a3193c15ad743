//! Files of later versions, and files that are no trace files: stepped over, or named and refused.

use crate::common;
use std::io;

use crate::common::{file_header, frame, read, sample, trace_file};
use stage2_contract::trace::{
    Ending, Field, FieldValue, GpuNs, GpuWork, HostCall, HostSample, HostState, MonoNs, ReadError,
    Reader, Record, Skipped, What, file_name,
};

/// `tag`, a length and `body`.
fn with_length(tag: u8, body: &[u8]) -> Vec<u8> {
    assert!(body.len() < 0x80);
    [&[tag, body.len() as u8], body].concat()
}

fn file(frames: &[Vec<u8>]) -> Vec<u8> {
    [file_header(1, &[]), frames.concat()].concat()
}

/// The documented example: the bytes of a kernel, written by hand.
#[test]
fn a_kernel_is_laid_out_as_documented() {
    let first = GpuWork {
        what: What::Kernel { shape: 5 },
        start: GpuNs(1_000),
        end: GpuNs(3_000),
        queue: 1,
        range: 9,
        correlation: 64,
        graph_node: 0,
    };
    let second = GpuWork {
        start: GpuNs(2_999),
        end: GpuNs(2_999),
        range: u64::MAX,
        correlation: 63,
        graph_node: 3,
        ..first
    };
    #[rustfmt::skip]
    let payload = [
        0x1a, 0xd0, 0x0f, 0xd0, 0x0f, 0x80, 0x01, 0x01, 0x12, 0x05,
        0x17, 0x01, 0x00, 0x01, 0x06, 0x05,
    ];
    let expected = file(&[frame(1, &payload)]);
    let records = [Record::Work(first), Record::Work(second)];
    assert_eq!(trace_file(&[&records]), expected);
    assert_eq!(read(&expected).unwrap().records, records);
}

#[test]
fn fields_of_ranges_are_laid_out_as_documented() {
    let field = |name, value| Field { name, value };
    let fields = vec![
        field(1, FieldValue::U64(300)),
        field(2, FieldValue::I64(-2)),
        field(3, FieldValue::F64(0.5)),
        field(4, FieldValue::Name(129)),
    ];
    let records = [Record::RangeFields { range: 9, fields }];
    #[rustfmt::skip]
    let body = [
        0x09, 0x04,
        0x04, 0x01, 0x04, 0xac, 0x02,
        0x03, 0x02, 0x08, 0x03,
        0x0a, 0x03, 0x0c, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f,
        0x04, 0x04, 0x10, 0x81, 0x01,
    ];
    let expected = file(&[frame(1, &with_length(0x4f, &body))]);
    assert_eq!(trace_file(&[&records]), expected);
    assert_eq!(read(&expected).unwrap().records, records);
}

#[test]
fn host_samples_are_laid_out_as_documented() {
    let first = HostSample {
        at: MonoNs(1_000),
        thread: 2,
        state: HostState::GilWait,
        holds_gil: false,
        holder: 1,
        stack: 3,
        interval_ns: 64,
    };
    let second = HostSample {
        thread: 1,
        state: HostState::Running,
        holds_gil: true,
        holder: 0,
        stack: 1,
        ..first
    };
    let records = [Record::HostSamples(vec![first, second])];
    #[rustfmt::skip]
    let body = [
        0x02,
        0x23, 0x02, 0x06, 0xd0, 0x0f, 0x80, 0x01, 0x01,
        0xd1, 0x01, 0x03,
    ];
    let expected = file(&[frame(1, &with_length(0x56, &body))]);
    assert_eq!(trace_file(&[&records]), expected);
    assert_eq!(read(&expected).unwrap().records, records);
}

#[test]
fn calls_of_the_host_are_laid_out_as_documented() {
    let first = HostCall { name: 5, thread: 2, begin: MonoNs(1_000), end: MonoNs(1_300), stack: 3 };
    let second = HostCall { begin: MonoNs(1_299), end: MonoNs(1_301), stack: 1, ..first };
    let records = [Record::HostCalls(vec![first, second])];
    #[rustfmt::skip]
    let body = [
        0x02,
        0x05, 0x02, 0xd0, 0x0f, 0xac, 0x02, 0x06,
        0x05, 0x02, 0x01, 0x02, 0x03,
    ];
    let expected = file(&[frame(1, &with_length(0x59, &body))]);
    assert_eq!(trace_file(&[&records]), expected);
    assert_eq!(read(&expected).unwrap().records, records);
}

/// A later type costs its own field only, and so do bytes behind a value.
#[test]
fn fields_of_a_later_type_are_stepped_over() {
    #[rustfmt::skip]
    let body = [
        0x09, 0x03,
        0x03, 0x01, 0x40, 0xff,
        0x04, 0x02, 0x04, 0x07, 0xff,
        0x03, 0x03, 0x10, 0x05,
        0xff,
    ];
    let read = read(&file(&[frame(1, &with_length(0x4f, &body))])).unwrap();
    let fields = vec![
        Field { name: 2, value: FieldValue::U64(7) },
        Field { name: 3, value: FieldValue::Name(5) },
    ];
    assert_eq!(read.records, [Record::RangeFields { range: 9, fields }]);
    assert_eq!(read.skipped, Skipped::default());
}

#[test]
fn unknown_frames_are_stepped_over() {
    let known = sample::frames();
    let sound = trace_file(&known);
    let (header, frames) = sound.split_at(common::FILE_HEADER_BYTES);
    let strange = [frame(2, b"whatever"), frame(0xffff, &[0; 1024 * 1024])].concat();
    let read = read(&[header, &strange, frames, &strange].concat()).unwrap();
    assert_eq!(read.records, known.concat());
    assert_eq!(read.skipped, Skipped { unknown_frames: 4, ..Skipped::default() });
    assert_eq!(read.end, Ending::Complete);
}

/// Or a damaged length would have a reader take a gigabyte of other frames for one.
#[test]
fn no_frame_is_longer_than_the_limit() {
    let known = sample::frames();
    let sound = trace_file(&known);
    let too_long = frame(2, &vec![0; 1024 * 1024 + 1]);
    let read = read(&[&sound[..], &too_long, &frame(2, &[])].concat()).unwrap();
    assert_eq!(read.records, known.concat());
    let lost_bytes = (too_long.len() + common::FRAME_HEADER_BYTES) as u64;
    assert_eq!(read.end, Ending::Torn { at_byte: sound.len() as u64, lost_bytes });
    assert_eq!(read.skipped, Skipped { corrupt_frames: 1, ..Skipped::default() });
}

#[test]
fn losses_of_before_some_of_them_were_kept_are_read() {
    let counts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    for (kept, later) in [(11, [0, 0, 0]), (12, [12, 0, 0]), (14, [12, 13, 14])] {
        let read = read(&file(&[frame(1, &with_length(0x4c, &counts[..kept]))])).unwrap();
        let losses = match read.records.as_slice() {
            [Record::Losses(losses)] => *losses,
            other => panic!("{other:?}"),
        };
        assert_eq!((losses.cupti_dropped, losses.aggregates_folded), (1, 11));
        let read_later = [losses.late_switches, losses.beyond_limits, losses.calls_turned_away];
        assert_eq!(read_later, later);
        assert_eq!(read.skipped, Skipped::default());
    }
}

#[test]
fn unknown_records_are_stepped_over_and_leave_the_deltas_alone() {
    let kernel = [0x10, 0xd0, 0x0f, 0xd0, 0x0f, 0x02, 0x05];
    let strange = [with_length(0x7e, b"later"), with_length(0xff, b"")].concat();
    let with = file(&[frame(1, &[&kernel[..], &strange, &kernel].concat())]);
    let without = file(&[frame(1, &[kernel, kernel].concat())]);
    let read_with = read(&with).unwrap();
    assert_eq!(read_with.records, read(&without).unwrap().records);
    assert_eq!(read_with.records.len(), 2);
    assert_eq!(read_with.skipped, Skipped { unknown_records: 2, ..Skipped::default() });
}

#[test]
fn fields_that_were_added_later_are_stepped_over() {
    let graph_node = with_length(0x4b, &[3, 2, 7, 0xff, 0xff, 0xff]);
    let anchor = with_length(0x42, &[1, 2, 3]);
    let sample = with_length(0x4e, &[9, 1, 0xff]);
    let read = read(&file(&[frame(1, &[graph_node, anchor, sample].concat())])).unwrap();
    assert_eq!(read.records.first(), Some(&Record::GraphNode { node: 3, path: 2, range: 7 }));
    assert!(matches!(read.records.get(1), Some(Record::Anchor(_))));
    assert_eq!(read.records.get(2), Some(&Record::RangeSample { range: 9, recorded: true }));
    assert_eq!(read.skipped, Skipped::default());
}

#[test]
fn nonsense_in_a_sound_frame_ends_that_frame_only() {
    let good = with_length(0x4b, &[3, 2]);
    let nonsense: [&[u8]; 8] = [
        &[0x00],
        &[0x02],
        &[0x08],
        &[0x10, 0x80],
        &[0x43, 0x02, 0x01, 0x05],
        &[0x06, 0x02, 0x02, 0x01, 0x01, 0x20],
        // More fields than there are, and a value that is cut.
        &[0x4f, 0x03, 0x01, 0xff, 0x01],
        &[0x4f, 0x05, 0x01, 0x01, 0x02, 0x01, 0x04],
    ];
    for bytes in nonsense {
        let bad = [&good[..], bytes].concat();
        let read = read(&file(&[frame(1, &bad), frame(1, &good)])).unwrap();
        // Older files do not say in which instance it was captured.
        let node = Record::GraphNode { node: 3, path: 2, range: 0 };
        assert_eq!(read.records, [node.clone(), node], "{bytes:x?}");
        assert_eq!(read.skipped.corrupt_frames, 1, "{bytes:x?}");
        assert_eq!(read.end, Ending::Open);
    }
}

#[test]
fn a_longer_header_is_stepped_over() {
    let known = sample::frames();
    let sound = trace_file(&known);
    let (_, frames) = sound.split_at(common::FILE_HEADER_BYTES);
    let file = [&file_header(1, &[7; 300]), frames].concat();
    let read = read(&file).unwrap();
    assert_eq!(read.records, known.concat());
    assert_eq!(read.end, Ending::Complete);
}

/// Hazard (Hostile files): A trace file of a newer version.
/// Promise: It is refused with both versions and the remedy.
#[test]
fn a_newer_version_is_refused_with_both_versions_and_the_remedy() {
    let error = read(&file_header(2, b"more")).unwrap_err();
    assert!(matches!(error, ReadError::NewerVersion { found: 2, .. }));
    let message = error.to_string();
    for part in ["version 2", "up to 1", "release at least as new"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_version_that_never_was_is_damage() {
    assert!(matches!(read(&file_header(0, &[])), Err(ReadError::HeaderDamaged { .. })));
}

#[test]
fn other_files_are_named_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("SQLite\n.s2t");
    std::fs::write(&path, b"SQLite format 3\0").unwrap();
    let message = match Reader::open(&path) {
        Err(error @ ReadError::NotATraceFile { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(message.contains(r"SQLite\n.s2t"), "named, and escaped: {message}");
    assert!(message.contains("; leave it out, or copy it again"), "what to do: {message}");

    assert!(matches!(Reader::open(folder.path()), Err(ReadError::NotAFile { .. })));
    let missing = folder.path().join(file_name("host", 1));
    match Reader::open(missing) {
        Err(ReadError::Open { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::NotFound),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_open_as_streams_do() {
    let known = sample::frames();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file_name("gpu-node-1", 4321));
    std::fs::write(&path, trace_file(&known)).unwrap();
    let records: Result<Vec<_>, _> = Reader::open(&path).unwrap().collect();
    assert_eq!(records.unwrap(), known.concat());
}

/// A disk that fails after some bytes.
struct Failing<'a>(&'a [u8]);

impl io::Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(io::Error::other("medium error"));
        }
        // One byte at a time: short reads are no ends.
        let length = buffer.len().min(1);
        io::Read::read(&mut self.0, &mut buffer[..length])
    }
}

#[test]
fn a_failing_disk_gives_the_records_before_and_one_error() {
    let known = sample::frames();
    let sound = trace_file(&known);
    let mut reader = Reader::new(Failing(&sound[..sound.len() - 1])).unwrap();
    let (good, failed): (Vec<_>, Vec<_>) = reader.by_ref().partition(Result::is_ok);
    assert_eq!(good.len(), known[..3].concat().len());
    match failed.as_slice() {
        [Err(error @ ReadError::Io { .. })] => {
            assert!(error.to_string().contains("medium error"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(reader.next().is_none());
}
