//! Plans for layouts that are right and for others, and records of any bytes.

use std::ptr;

use cupti_sys::fields::Completion;

use super::*;
use crate::guest::activity::fields;

/// A field as CUPTI tells it: id, offset and bytes.
type Told = (i32, usize, usize);

/// The table for one kind of records, as CUPTI would tell it.
fn told(kind: u32, record_bytes: usize, fields: &[Told]) -> Layouts {
    let mut entries: Vec<[u64; 5]> = fields
        .iter()
        .map(|&(id, offset, bytes)| [40, id as u64, offset as u64, bytes as u64, 1])
        .collect();
    let mut layout = sys::CUpti_ActivityRecordLayout {
        structSize: 32,
        pEntries: entries.as_mut_ptr().cast(),
        numFields: entries.len(),
        recordSize: record_bytes,
    };
    let mut by_kind = [ptr::null_mut(); 60];
    by_kind[kind as usize] = &raw mut layout;
    let mut info = sys::CUpti_BufferCallbackCompleteInfo {
        structSize: 32,
        threadId: 1,
        ppRecordLayouts: by_kind.as_mut_ptr(),
        numRecordLayouts: by_kind.len(),
    };
    let mut layouts = Layouts::new();
    // SAFETY: as CUPTI lays it out, until the end of this function.
    let completion = unsafe { Completion::new(&raw mut info) }.unwrap();
    completion.layouts(&mut layouts).unwrap();
    layouts
}

const KERNEL: u32 = sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

/// The fields of kernels that are asked for, in that order and without padding; and their bytes.
fn kernels() -> (Vec<Told>, usize) {
    let mut at = 0;
    let place = |field: &Field| {
        let bytes = match field.id() as u32 {
            sys::KERNEL_FIELD_START
            | sys::KERNEL_FIELD_END
            | sys::KERNEL_FIELD_NAME
            | sys::KERNEL_FIELD_GRAPH_NODE_ID
            | sys::KERNEL_FIELD_CORRELATION_ID => 8,
            sys::KERNEL_FIELD_REGISTERS_PER_THREAD => 2,
            _ => 4,
        };
        let place = (field.id(), at, bytes);
        at += bytes;
        place
    };
    let places = fields::of(KERNEL).iter().map(place).collect();
    (places, at)
}

/// What comes of a buffer: kernels, unreadable records, and those behind.
fn read(layouts: &Layouts, bytes: &[u8]) -> (Vec<Execution>, usize, u64) {
    let (mut kernels, mut unreadable) = (Vec::new(), 0);
    let behind = for_each(bytes, layouts, |activity| match activity {
        Activity::Kernel { ran, shape, .. } => {
            assert_eq!(shape.registers_per_thread, 77);
            kernels.push(*ran);
        }
        Activity::Unreadable => unreadable += 1,
        other => panic!("{other:?}"),
    });
    (kernels, unreadable, behind)
}

/// A kernel with a start, 77 registers and a call number of more than 32 bits.
fn kernel(fields: &[Told], record_bytes: usize, start: u64) -> Vec<u8> {
    let mut record = vec![0; record_bytes];
    for &(id, at, bytes) in fields {
        let value = match id as u32 {
            sys::KERNEL_FIELD_KIND => u64::from(KERNEL),
            sys::KERNEL_FIELD_START => start,
            sys::KERNEL_FIELD_END => start + 5,
            sys::KERNEL_FIELD_CORRELATION_ID => (1 << 32) + 3,
            sys::KERNEL_FIELD_REGISTERS_PER_THREAD => 77,
            sys::KERNEL_FIELD_STREAM_ID => u64::from(u32::MAX),
            _ => 0,
        };
        record[at..at + bytes].copy_from_slice(&value.to_ne_bytes()[..bytes]);
    }
    record
}

#[test]
fn fields_are_read_where_they_lie_and_numbers_are_those_of_the_first_api() {
    let (mut fields, bytes) = kernels();
    for _ in 0..2 {
        let layouts = told(KERNEL, bytes, &fields);
        let buffer = [kernel(&fields, bytes, 10), kernel(&fields, bytes, 20)].concat();
        let (ran, unreadable, behind) = read(&layouts, &buffer);
        assert_eq!((ran.len(), unreadable, behind), (2, 0, 0));
        let one = &ran[1];
        assert_eq!((one.start, one.end, one.correlation), (GpuNs(20), GpuNs(25), 3));
        assert_eq!(one.queue.stream, u32::MAX, "none");
        // The same the other way round, behind the kind.
        let mut at = 4;
        for field in fields[1..].iter_mut().rev() {
            field.1 = at;
            at += field.2;
        }
    }
}

#[test]
fn a_record_without_a_field_that_was_asked_for_is_unreadable_and_no_zero() {
    let (fields, bytes) = kernels();
    for missing in 1..fields.len() {
        let mut fewer = fields.clone();
        fewer.remove(missing);
        let layouts = told(KERNEL, bytes, &fewer);
        let buffer = [kernel(&fields, bytes, 10), kernel(&fields, bytes, 20)].concat();
        assert_eq!(read(&layouts, &buffer), (Vec::new(), 2, 0), "{:?}", fields[missing]);
    }
}

#[test]
fn layouts_that_cannot_be_right_are_refused() {
    let (fields, bytes) = kernels();
    let buffer = kernel(&fields, bytes, 10);
    let refused = |change: &dyn Fn(&mut Vec<Told>)| {
        let mut changed = fields.clone();
        change(&mut changed);
        read(&told(KERNEL, bytes, &changed), &buffer)
    };
    assert_eq!(refused(&|_| ()).0.len(), 1);
    // Over another one, by a byte; an address or a time of four bytes; a field of three.
    for change in [
        &(|fields: &mut Vec<Told>| fields[2].1 -= 1) as &dyn Fn(&mut Vec<Told>),
        &|fields| fields[4].2 = 4,
        &|fields| fields[1].2 = 4,
        &|fields| fields[9].2 = 3,
    ] {
        assert_eq!(refused(change), (Vec::new(), 1, 0));
    }
}

#[test]
fn what_is_behind_an_incomplete_record_is_counted() {
    let (fields, bytes) = kernels();
    let layouts = told(KERNEL, bytes, &fields);
    let mut buffer = kernel(&fields, bytes, 10).repeat(10);
    buffer.extend(vec![0; 5 * bytes]);
    assert_eq!((read(&layouts, &buffer).0.len(), read(&layouts, &buffer).2), (10, 5));
    assert_eq!(read(&layouts, &buffer[10 * bytes..]), (Vec::new(), 0, 5));
}

#[test]
fn any_bytes_are_survived() {
    let (fields, bytes) = kernels();
    let layouts = told(KERNEL, bytes, &fields);
    for kind in 0..64u32 {
        let mut buffer = vec![0xFF; 3 * bytes];
        buffer[..4].copy_from_slice(&kind.to_ne_bytes());
        for length in 0..buffer.len() {
            for_each(&buffer[..length], &layouts, |_| ());
        }
    }
}
