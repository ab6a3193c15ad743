//! Layouts as CUPTI tells them, true and not, and buffers that go with them.

#[allow(dead_code, unreachable_pub, reason = "other tests use the rest")]
#[path = "../../crates/fuzz/src/memory_count.rs"]
mod memory_count;

use cupti::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL as KERNEL;
use cupti::CUPTI_ACTIVITY_KIND_MEMSET as MEMSET;
use cupti_sys::bindings as cupti;
use cupti_sys::chosen_records::Unreadable;
use cupti_sys::fields::{Completion, Field, Layout, LayoutError, Layouts, MAX_LAYOUTS};
use memory_count::allocations_of;
use std::ptr;

const START: Field = Field::new(cupti::KERNEL_FIELD_START);
const END: Field = Field::new(cupti::KERNEL_FIELD_END);
const REGISTERS: Field = Field::new(cupti::KERNEL_FIELD_REGISTERS_PER_THREAD);

/// A layout of records as a test wants it: kind, bytes of a record, and (field, offset, bytes).
struct Told {
    kind: usize,
    record_bytes: usize,
    fields: Vec<(i32, usize, usize)>,
    entry_bytes: usize,
}

impl Told {
    fn new(kind: u32, record_bytes: usize, fields: &[(i32, usize, usize)]) -> Self {
        Told { kind: kind as usize, record_bytes, fields: fields.to_vec(), entry_bytes: 40 }
    }
}

/// Kernels of kind, end and start, in this order and without padding.
fn kernels() -> Told {
    Told::new(KERNEL, 20, &[(0, 0, 4), (END.id(), 4, 8), (START.id(), 12, 8)])
}

/// Calls `body` with what CUPTI would call the completion callback with.
fn completed<T>(
    told: &[Told],
    body: impl FnOnce(&mut cupti::CUpti_BufferCallbackCompleteInfo) -> T,
) -> T {
    let words = |told: &Told| {
        let mut words = vec![0_u64; told.fields.len() * told.entry_bytes.max(40) / 8 + 8];
        for (index, (id, offset, bytes)) in told.fields.iter().enumerate() {
            let at = index * told.entry_bytes / 8;
            let entry = [told.entry_bytes, *id as usize, *offset, *bytes, 1];
            words[at..at + 5].copy_from_slice(&entry.map(|word| word as u64));
        }
        words
    };
    let mut entries: Vec<Vec<u64>> = told.iter().map(words).collect();
    let mut layouts: Vec<_> = told
        .iter()
        .zip(&mut entries)
        .map(|(told, entries)| cupti::CUpti_ActivityRecordLayout {
            structSize: 32,
            pEntries: entries.as_mut_ptr().cast(),
            numFields: told.fields.len(),
            recordSize: told.record_bytes,
        })
        .collect();
    let mut by_kind = [ptr::null_mut(); 60];
    for (told, layout) in told.iter().zip(&mut layouts) {
        by_kind[told.kind] = ptr::from_mut(layout);
    }
    body(&mut cupti::CUpti_BufferCallbackCompleteInfo {
        structSize: 32,
        threadId: 4711,
        ppRecordLayouts: by_kind.as_mut_ptr(),
        numRecordLayouts: by_kind.len(),
    })
}

/// The table that comes of it, into one that held something else before.
fn read(told: &[Told]) -> Result<Layouts, LayoutError> {
    let mut table = Layouts::new();
    completed(&[Told::new(3, 8, &[(0, 0, 4), (2, 4, 4)])], |info| {
        // SAFETY: as CUPTI lays it out, for the duration of the call.
        let completion = unsafe { Completion::new(info) }.expect("not null");
        completion.layouts(&mut table).expect("a true layout");
    });
    // SAFETY: as above.
    completed(told, |info| unsafe { Completion::new(info) }.expect("not null").layouts(&mut table))
        .inspect_err(|_| assert_eq!(table, Layouts::new(), "an error leaves nothing behind"))
        .map(|()| table)
}

fn kernel(end: u64, start: u64) -> Vec<u8> {
    [&KERNEL.to_ne_bytes()[..], &end.to_ne_bytes(), &start.to_ne_bytes()].concat()
}

#[test]
fn fields_are_read_where_cupti_says_that_they_are() {
    let memsets = Told::new(MEMSET, 8, &[(0, 0, 4), (9, 4, 2), (7, 6, 1)]);
    let table = read(&[kernels(), memsets]).expect("true layouts");
    assert_eq!(table.iter().map(Layout::kind).collect::<Vec<_>>(), [MEMSET, KERNEL]);
    let layout = table.of(KERNEL).expect("kernels");
    assert_eq!((layout.record_bytes(), layout.places().len()), (20, 3));
    let (start, end) = (layout.number(START), layout.number(END));
    let (start, end) = (start.expect("a number"), end.expect("a number"));
    assert_eq!(layout.number(REGISTERS), None, "a field that nobody asked for");
    let fill = [&MEMSET.to_ne_bytes()[..], &513_u16.to_ne_bytes(), &[200, 77]].concat();
    let buffer = [kernel(2000, 1000), fill, kernel(u64::MAX, 0)].concat();
    // Records lie at any address.
    for shift in 0..8 {
        let shifted = [vec![0xff; shift], buffer.clone()].concat();
        let records: Result<Vec<_>, _> = table.records(&shifted[shift..]).collect();
        let records = records.expect("three records");
        assert_eq!((records[0].get(start), records[0].get(end)), (Some(1000), Some(2000)));
        assert_eq!((records[2].get(start), records[2].get(end)), (Some(0), Some(u64::MAX)));
        let of = |id| records[1].layout.number(Field::new(id)).expect("a number");
        assert_eq!((records[1].get(of(9)), records[1].get(of(7))), (Some(513), Some(200)));
        assert_eq!(records[1].get(start), None, "a field of another kind reads nothing outside");
    }
}

#[test]
fn a_buffer_cut_anywhere_gives_the_whole_records_before_the_cut_and_says_so() {
    let table = read(&[kernels()]).expect("a true layout");
    let buffer = [kernel(2, 1), kernel(4, 3)].concat();
    for cut in 0..=buffer.len() {
        let items: Vec<_> = table.records(&buffer[..cut]).collect();
        assert_eq!(items.iter().filter(|item| item.is_ok()).count(), cut / 20, "cut at {cut}");
        let error = items.into_iter().find_map(Result::err);
        let at = Unreadable::Cut { offset_bytes: cut / 20 * 20 };
        assert_eq!(error, (cut % 20 != 0).then_some(at), "cut at {cut}");
    }
}

#[test]
fn an_incomplete_record_and_an_unknown_kind_end_the_walk_and_are_named() {
    let table = read(&[kernels()]).expect("a true layout");
    for (kind, text) in [(0_u32, "not complete"), (99, "kind 99"), (u32::MAX, "no layout")] {
        let buffer = [kernel(2, 1), [&kind.to_ne_bytes()[..], &[0; 16]].concat(), kernel(4, 3)];
        let buffer = buffer.concat();
        let items: Vec<_> = table.records(&buffer).collect();
        assert_eq!(items.len(), 2, "kind {kind}");
        let shown = items[1].expect_err("unreadable").to_string();
        assert!(shown.contains("byte 20") && shown.contains(text), "{shown}");
    }
}

/// Hazard (Wrong data from the GPU): Layouts of chosen fields that cannot be true.
/// Promise: They are refused with the reason.
#[test]
fn a_layout_that_cannot_be_true_is_refused_and_says_why() {
    let kind = (0, 0, 4);
    let many: Vec<_> = (0..65).map(|id| (id, 0, 4)).collect();
    let refused = [
        (Told::new(KERNEL, 0, &[kind]), "0 bytes"),
        (Told::new(KERNEL, 5000, &[kind]), "5000 bytes"),
        (Told::new(KERNEL, usize::MAX, &[kind]), "4096 are accepted"),
        (Told::new(KERNEL, 8, &[]), "0 fields"),
        (Told::new(KERNEL, 8, &many), "65 fields"),
        (Told::new(KERNEL, 8, &[kind, (7, 4, 8)]), "field 7 has 8 bytes at byte 4"),
        (Told::new(KERNEL, 8, &[kind, (7, 4, 0)]), "field 7 has 0 bytes"),
        (Told::new(KERNEL, 8, &[kind, (7, usize::MAX, 2)]), "outside"),
        (Told::new(KERNEL, 8, &[kind, (7, 4, 4), (7, 4, 4)]), "field 7 appears twice"),
        (Told::new(KERNEL, 12, &[(7, 0, 8), (0, 8, 4)]), "do not begin with their kind"),
        (Told::new(KERNEL, 12, &[(0, 0, 8)]), "do not begin with their kind"),
        (Told::new(KERNEL, 12, &[(7, 0, 8)]), "do not begin with their kind"),
        (Told { entry_bytes: 24, ..kernels() }, "has 24 bytes"),
        (Told { entry_bytes: 1 << 20, ..Told::new(KERNEL, 8, &[kind]) }, "has 1048576 bytes"),
    ];
    for (told, text) in refused {
        let shown = read(&[told]).expect_err(text).to_string();
        assert!(shown.contains(text) && shown.contains("kind 10"), "{shown}");
    }
    let seventeen: Vec<_> = (1..=17).map(|kind| Told::new(kind, 4, &[(0, 0, 4)])).collect();
    assert_eq!(read(&seventeen), Err(LayoutError::ManyLayouts));
    assert_eq!(read(&[]), Err(LayoutError::None), "an array of nulls");
    assert!(read(&seventeen[1..]).is_ok_and(|table| table.iter().count() == MAX_LAYOUTS));
}

#[test]
fn what_a_callback_gets_is_read_as_far_as_it_goes() {
    let mut table = Layouts::new();
    // SAFETY: null is allowed.
    assert!(unsafe { Completion::new(ptr::null()) }.is_none());
    let mut read = |info: &mut cupti::CUpti_BufferCallbackCompleteInfo| {
        // SAFETY: as CUPTI lays it out, for the duration of the call.
        let completion = unsafe { Completion::new(info) }.expect("not null");
        (completion.thread_id(), completion.layouts(&mut table))
    };
    completed(&[kernels()], |info| {
        assert_eq!(read(info), (Some(4711), Ok(())));
        // A field for sizes that CUPTI leaves at 0 says nothing.
        info.structSize = 0;
        assert_eq!(read(info), (Some(4711), Ok(())));
        info.structSize = 16;
        assert_eq!(read(info), (Some(4711), Err(LayoutError::ShortInfo { bytes: 16 })));
        info.structSize = 8;
        assert_eq!(read(info).0, None);
        info.structSize = 40;
        info.numRecordLayouts = 1 << 40;
        assert_eq!(read(info).1, Err(LayoutError::ManyKinds { kinds: 1 << 40 }));
        info.ppRecordLayouts = ptr::null_mut();
        assert_eq!(read(info).1, Err(LayoutError::None), "CUPTI 13.2 leaves it null");
    });
    // A newer version may describe a field with more than is known.
    let longer = Told { entry_bytes: 56, ..kernels() };
    completed(&[longer], |info| assert_eq!(read(info).1, Ok(())));
    assert_eq!(table.of(KERNEL).map(|layout| layout.places().len()), Some(3));
}

#[test]
fn nothing_is_allocated_while_a_callback_runs() {
    let (mut table, buffer) = (Layouts::new(), [kernel(2, 1), kernel(4, 3)].concat());
    for told in [kernels(), Told::new(KERNEL, 0, &[(0, 0, 4)])] {
        completed(&[told], |info| {
            let ((told, sum), allocations) = allocations_of(|| {
                // SAFETY: as CUPTI lays it out, for the duration of the call.
                let completion = unsafe { Completion::new(info) }.expect("not null");
                let told = completion.layouts(&mut table);
                let starts = table.of(KERNEL).and_then(|layout| layout.number(START));
                let records = table.records(&buffer).flatten();
                let starts = records.filter_map(|record| starts.and_then(|at| record.get(at)));
                (told, starts.sum::<u64>())
            });
            assert_eq!(allocations, 0);
            assert_eq!(sum, if told.is_ok() { 4 } else { 0 });
        });
    }
}
