//! The writer on a disk that fails: it goes on, counts, and what it leaves can be read.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use crate::common::{decode_trace, read, sample};
use proptest::prelude::*;
use stage2_contract::trace::{Ending, GpuWork, MAX_RECORD_BYTES, Record, Writer};

/// A disk with room for some bytes, which the test can change while a writer uses it.
#[derive(Clone, Debug)]
struct Disk(Rc<RefCell<(Vec<u8>, usize)>>);

impl Disk {
    fn new(room_bytes: usize) -> Self {
        Self(Rc::new(RefCell::new((Vec::new(), room_bytes))))
    }

    fn set_room(&self, bytes: usize) {
        self.0.borrow_mut().1 = bytes;
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.borrow().0.clone()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (written, room) = &mut *self.0.borrow_mut();
        let taken = bytes.len().min(*room);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *room -= taken;
        written.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn kernels(count: usize) -> Vec<GpuWork> {
    let mut kernels = decode_trace::kernels(1 + count as u64 / decode_trace::KERNELS_PER_STEP);
    kernels.truncate(count);
    kernels
}

fn records(kernels: &[GpuWork]) -> Vec<Record> {
    kernels.iter().copied().map(Record::Work).collect()
}

#[test]
fn a_full_disk_is_an_error_from_the_start() {
    let error = Writer::new(Disk::new(10)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_frame_that_was_not_begun_is_dropped_and_counted() {
    let disk = Disk::new(20);
    let mut writer = Writer::new(disk.clone()).unwrap();
    let kernels = kernels(30);
    kernels[..10].iter().for_each(|kernel| writer.work(kernel));
    assert_eq!(writer.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    let dropped = writer.unwritten_bytes();
    assert!(dropped > 70, "{dropped} bytes for 10 kernels");

    disk.set_room(1 << 20);
    kernels[10..].iter().for_each(|kernel| writer.work(kernel));
    writer.flush().unwrap();
    assert_eq!(writer.unwritten_bytes(), dropped);
    let read = read(&disk.bytes()).unwrap();
    assert_eq!(read.records, records(&kernels[10..]));
    assert_eq!(read.end, Ending::Open);
}

#[test]
fn a_frame_that_was_begun_is_finished_first() {
    let disk = Disk::new(20 + 50);
    let mut writer = Writer::new(disk.clone()).unwrap();
    let kernels = kernels(30);
    let mut unwritten = Vec::new();
    for part in kernels.chunks(10) {
        part.iter().for_each(|kernel| writer.work(kernel));
        assert_eq!(writer.flush().is_err(), unwritten.len() < 2);
        unwritten.push(writer.unwritten_bytes());
        if unwritten.len() == 1 {
            assert!(matches!(read(&disk.bytes()).unwrap().end, Ending::Torn { at_byte: 20, .. }));
        } else {
            disk.set_room(1 << 20);
        }
    }
    // The second part was dropped whole; of the first, what was still to go out has gone out.
    assert!(unwritten[0] > 0 && unwritten[1] > unwritten[0] && unwritten[2] < unwritten[1]);
    let read = read(&disk.bytes()).unwrap();
    assert_eq!(read.records, records(&[&kernels[..10], &kernels[20..]].concat()));
    assert_eq!(read.end, Ending::Open);
    assert_eq!(read.skipped.corrupt_frames, 0);
}

#[test]
fn every_byte_is_written_or_counted() {
    let kernels = kernels(100_000);
    let write_all = |room_bytes| {
        let disk = Disk::new(room_bytes);
        let mut writer = Writer::new(disk.clone()).unwrap();
        kernels.iter().for_each(|kernel| writer.work(kernel));
        let flushed = writer.flush().is_ok();
        (disk.bytes().len() as u64, writer.unwritten_bytes(), flushed)
    };
    let (whole, ..) = write_all(usize::MAX);
    assert_eq!(write_all(usize::MAX), (whole, 0, true));
    for room_bytes in [20, 21, 1_000, 100_000] {
        assert_eq!(write_all(room_bytes), (room_bytes as u64, whole - room_bytes as u64, false));
    }
}

#[test]
fn a_record_that_is_too_large_is_left_out_and_reported() {
    let largest = |bytes| Record::Name { id: 1, bytes: vec![b'x'; bytes] };
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    let fits = largest(MAX_RECORD_BYTES - 256);
    let kernels = kernels(6_000);
    // A block that is nearly full, then the largest record there can be.
    kernels.iter().for_each(|kernel| writer.work(kernel));
    writer.write(&fits);
    writer.flush().unwrap();
    writer.write(&largest(MAX_RECORD_BYTES));
    writer.write(&Record::End { reason: "exit".into() });
    let error = writer.flush().unwrap_err();
    assert!(error.to_string().contains("shorten"), "{error}");
    assert!(writer.unwritten_bytes() > MAX_RECORD_BYTES as u64);

    let read = read(&file).unwrap();
    assert_eq!(read.records.len(), kernels.len() + 2);
    assert_eq!(read.records[kernels.len()], fits);
    assert_eq!(read.end, Ending::Complete);
    assert_eq!(read.skipped.corrupt_frames, 0);
}

proptest! {
    /// Whatever room the disk has at each flush: the file always holds whole frames, in order,
    /// and at most one that is torn, at its end.
    #[test]
    fn the_file_can_always_be_read(rooms in prop::collection::vec(0..400_usize, 1..20)) {
        let disk = Disk::new(20);
        let mut writer = Writer::new(disk.clone()).unwrap();
        let frame = sample::frames().swap_remove(2);
        let mut frames = 0;
        for room in rooms {
            disk.set_room(room);
            frame.iter().for_each(|record| writer.write(record));
            let _ = writer.flush();
            let read = read(&disk.bytes()).unwrap();
            prop_assert_eq!(read.skipped.corrupt_frames, 0);
            prop_assert_eq!(read.records.len() % frame.len(), 0);
            let now = read.records.len() / frame.len();
            prop_assert!(now >= frames, "frames do not disappear");
            prop_assert!(read.records.chunks(frame.len()).all(|chunk| chunk == frame));
            frames = now;
        }
        disk.set_room(usize::MAX);
        writer.flush().unwrap();
        let end = read(&disk.bytes()).unwrap().end;
        prop_assert_eq!(end, Ending::Open, "whole again");
    }
}
