//! What the pool promises, with a CUPTI played by the tests.

use super::*;

#[test]
fn the_last_that_came_back_goes_out_first() {
    let links = Links::new(4);
    let free = FreeList::new(1, 3, &links);
    assert_eq!([free.pop(&links), free.pop(&links)], [Some(1), Some(2)]);
    free.push(1, &links);
    assert_eq!((free.left(), free.pop(&links)), (2, Some(1)));
    assert_eq!([free.pop(&links), free.pop(&links)], [Some(3), None]);
    assert_eq!(free.left(), 0);
}

#[test]
fn no_index_is_ever_in_two_hands() {
    const COUNT: usize = 8;
    let links = Links::new(COUNT);
    let free = FreeList::new(0, COUNT, &links);
    let holders: Vec<AtomicU32> = (0..COUNT).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..50_000 {
                    let Some(index) = free.pop(&links) else { continue };
                    let holder = &holders[index as usize];
                    assert_eq!(holder.fetch_add(1, Ordering::SeqCst), 0);
                    if round % 64 == 0 {
                        std::thread::yield_now();
                    }
                    assert_eq!(holder.fetch_sub(1, Ordering::SeqCst), 1);
                    free.push(index, &links);
                }
            });
        }
    });
    assert_eq!(free.left(), COUNT);
    let mut all: Vec<u32> = std::iter::from_fn(|| free.pop(&links)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..COUNT as u32).collect::<Vec<_>>());
}

#[test]
fn a_bound_is_kept_and_its_first_buffers_are_the_largest() {
    for mib in [1, 2, 5, 64, 128, 4096] {
        let layout = Layout::new(Buffers::Within { bytes: mib << 20 });
        assert_eq!(layout.bytes(), mib << 20);
        assert!(layout.0.is_sorted_by(|a, b| a.bytes > b.bytes), "{layout:?}");
    }
    let Layout(classes) = Layout::new(Buffers::Within { bytes: 256 << 20 });
    assert_eq!(classes.iter().map(|class| class.count).collect::<Vec<_>>(), [32, 192, 2816]);
    let Layout(least) = Layout::new(Buffers::Within { bytes: 1 << 20 });
    assert_eq!(least.iter().map(|class| class.count).collect::<Vec<_>>(), [0, 0, 16]);
}

#[test]
fn every_buffer_has_a_place_of_its_own_and_is_found_by_its_start_only() {
    for asked in [
        Buffers::Within { bytes: 1 << 20 },
        Buffers::Within { bytes: 64 << 20 },
        Buffers::Sized { bytes: 68 << 10, count: 3 },
    ] {
        let mut layout = Layout::new(asked);
        layout.add(SMALL_BYTES, 5);
        let mut end = 0;
        for index in 0..layout.count() {
            let (offset, class) = layout.extent(index).expect("in the layout");
            assert_eq!((offset, layout.index_of(offset)), (end, Some(index)));
            assert_eq!(layout.index_of(offset + 8), None);
            end = offset + layout.0[class].bytes;
        }
        assert_eq!(end, layout.bytes());
        assert_eq!((layout.index_of(end), layout.extent(layout.count())), (None, None));
    }
}

#[test]
fn a_fresh_place_is_a_table_without_layouts_and_there_are_no_others() {
    let asked = Buffers::Sized { bytes: 68 << 10, count: 3 };
    let pool = Pool::new(asked, true).and_then(Pool::with_layouts).unwrap();
    let places = pool.layouts.as_ref().unwrap();
    // SAFETY: nobody else knows the pool.
    assert!(places.iter().all(|place| unsafe { &*place.get() } == &Layouts::new()));
    assert_eq!(places.len(), pool.layout.count());
    // SAFETY: as in `with_layouts`.
    let too_many = unsafe { Zeroed::<UnsafeCell<Layouts>>::new(usize::MAX) };
    assert!(too_many.is_empty(), "which `with_layouts` gives as None");
}

const LARGE: usize = 128 << 10;
const ASKED: Buffers = Buffers::Sized { bytes: LARGE, count: 2 };
const POOLED: usize = 2 + BESIDE;

fn fill(start: *mut u8, valid: usize) {
    // SAFETY: the test owns the buffer, which is larger.
    unsafe { ptr::write_bytes(start, 0xAB, valid) };
}

#[test]
fn a_buffer_comes_back_with_its_owner_and_is_zeroed_for_the_next() {
    let (pool, counters) = (Pool::new(ASKED, true).unwrap(), Counters::default());
    for round in 1..10 {
        let (start, size) = pool.request(round, &counters).unwrap();
        assert_eq!(size, LARGE);
        // SAFETY: the buffer is `size` bytes and ours.
        let bytes = unsafe { std::slice::from_raw_parts(start, size) };
        assert!(bytes.iter().all(|&b| b == 0));
        fill(start, 1000);
        pool.complete(start, 1000, &counters);
        let full = pool.take_full().unwrap();
        assert_eq!((full.owner, full.valid), (round, 1000));
        assert!(full.bytes().iter().all(|&b| b == 0xAB));
        pool.recycle(full);
    }
    assert_eq!(counters.buffers_refused.get(), 0);
}

#[test]
fn small_buffers_follow_large_ones_and_then_requests_are_refused() {
    let (pool, counters) = (Pool::new(ASKED, true).unwrap(), Counters::default());
    let sizes: Vec<usize> =
        std::iter::from_fn(|| pool.request(1, &counters)).map(|(_, size)| size).collect();
    assert_eq!(sizes.len(), POOLED);
    assert_eq!(sizes[0], LARGE);
    assert_eq!(sizes[2], SMALL_BYTES);
    assert_eq!(counters.buffers_refused.get(), 1);
}

#[test]
fn where_a_refusal_would_crash_cupti_extra_buffers_go_on_and_their_records_are_kept() {
    let (pool, counters) = (Pool::new(ASKED, false).unwrap(), Counters::default());
    let pooled = POOLED;
    let taken = |n| (0..n).map(|_| pool.request(1, &counters).unwrap().0).collect();
    let _held: Vec<*mut u8> = taken(pooled);
    for _ in 0..2 {
        // Twice as many as a queue without room for them would keep.
        let extra: Vec<*mut u8> = taken(2 * pooled);
        for &start in &extra {
            // SAFETY: the buffer is larger, and ours.
            assert_eq!(unsafe { *start.add(499) }, 0, "zeroed");
            fill(start, 500);
            pool.complete(start, 500, &Counters::default());
        }
        for start in extra {
            let full = pool.take_full().unwrap();
            assert_eq!((full.as_ptr(), full.owner, full.bytes().len()), (start, 1, 500));
            pool.recycle(full);
        }
    }
    assert_eq!(counters.buffers_refused.get(), 0);
    assert_eq!(counters.unreadable_records.get(), 0);
}

#[test]
fn of_extra_buffers_that_nobody_reads_the_records_are_counted_and_the_memory_is_bounded() {
    let (pool, counters) = (Pool::new(ASKED, false).unwrap(), Counters::default());
    for _ in 0..POOLED + EXTRA_COUNT / 2 + 100 {
        let (start, size) = pool.request(1, &counters).unwrap();
        assert!(pool.index_of(start).is_some());
        pool.complete(start, size, &counters);
    }
    let lost = counters.unreadable_records.get();
    assert_eq!(lost, 100 * records_in(SMALL_BYTES, RECORD_BYTES));
    assert!(pool.take_full().is_some());
}

/// Hazard (Wrong data from the GPU): A buffer that the collector did not provide comes back.
/// Promise: It is not used, and its records are counted.
#[test]
fn memory_of_others_is_left_alone_and_its_records_are_counted() {
    for may_refuse in [true, false] {
        let (pool, counters) = (Pool::new(ASKED, may_refuse).unwrap(), Counters::default());
        let foreign = map(SMALL_BYTES).unwrap();
        fill(foreign, 1000);
        let (own, _) = pool.request(1, &counters).unwrap();
        pool.complete(foreign, 1000, &counters);
        pool.complete(own.wrapping_add(8), 1000, &counters);
        assert!(pool.take_full().is_none());
        // Nor is a buffer that CUPTI gave back already, which would be handed out twice.
        pool.complete(own, 0, &counters);
        pool.complete(own, 1000, &counters);
        pool.recycle(pool.take_full().unwrap());
        pool.complete(own, 1000, &counters);
        assert!(pool.take_full().is_none());
        // SAFETY: nobody may have unmapped what this test mapped.
        assert_eq!(unsafe { *foreign }, 0xAB);
        assert_eq!(counters.unreadable_records.get(), 4 * records_in(1000, RECORD_BYTES));
    }
}

/// Hazard (Wrong data from the GPU): CUPTI reports more valid bytes than a buffer has.
/// Promise: It is not believed.
#[test]
fn a_valid_size_beyond_the_buffer_is_not_believed() {
    let (pool, counters) = (Pool::new(ASKED, true).unwrap(), Counters::default());
    let (start, size) = pool.request(1, &counters).unwrap();
    assert_eq!(pool.given(), 1);
    pool.complete(start, usize::MAX, &counters);
    assert_eq!(pool.given(), 0);
    assert_eq!(pool.take_full().unwrap().valid, size);
}

#[test]
fn buffers_that_were_out_at_a_moment_are_told_from_those_that_went_out_since() {
    let (pool, counters) = (Pool::new(ASKED, true).unwrap(), Counters::default());
    let [early, other] = [1, 2].map(|owner| pool.request(owner, &counters).unwrap().0);
    let moves = pool.moves();
    assert_eq!((pool.given_since(0), pool.given_since(moves)), (0, 2));
    pool.complete(early, 10, &counters);
    pool.recycle(pool.take_full().unwrap());
    // The same one, for the same thread.
    assert_eq!(pool.request(1, &counters).unwrap().0, early);
    assert_eq!((pool.given(), pool.given_since(moves)), (2, 1));
    pool.complete(other, 10, &counters);
    assert_eq!((pool.given(), pool.given_since(moves)), (1, 0));
}

#[test]
fn the_first_threads_get_large_buffers_and_a_thousand_get_one_each_within_the_bound() {
    let asked = Buffers::Within { bytes: 128 << 20 };
    let (pool, counters) = (Pool::new(asked, true).unwrap(), Counters::default());
    assert_eq!(pool.bytes(), 128 << 20);
    let with_extras = Pool::new(asked, false).unwrap().bytes();
    assert_eq!(with_extras, (128 << 20) + EXTRA_COUNT * SMALL_BYTES);
    let sizes: Vec<usize> =
        (1..=1000).map(|thread| pool.request(thread, &counters).unwrap().1).collect();
    assert_eq!([sizes[0], sizes[24], sizes[999]], [1 << 20, 256 << 10, 64 << 10]);
    assert!(!pool.runs_low());
    let mut more = 0;
    while pool.request(1, &counters).is_some() {
        more += 1;
        assert_eq!(pool.runs_low(), more > 140, "{more}");
    }
    assert_eq!((more, counters.buffers_refused.get()), (520, 1));
}

#[test]
fn one_thread_touches_what_it_uses_at_a_time_and_not_the_whole_pool() {
    let asked = Buffers::Within { bytes: 64 << 20 };
    let (pool, counters) = (Pool::new(asked, true).unwrap(), Counters::default());
    let mut starts = std::collections::HashSet::new();
    let mut held = pool.request(1, &counters).unwrap();
    for _ in 0..1000 {
        let next = pool.request(1, &counters).unwrap();
        starts.insert(held.0);
        pool.complete(held.0, held.1, &counters);
        pool.recycle(pool.take_full().unwrap());
        held = next;
    }
    assert_eq!(starts.len(), 2);
}

#[test]
fn extra_buffers_do_not_hide_that_the_pool_runs_low() {
    let (pool, counters) = (Pool::new(ASKED, false).unwrap(), Counters::default());
    assert!(!pool.runs_low());
    let _held: Vec<_> = (0..POOLED).map(|_| pool.request(1, &counters)).collect();
    assert!(pool.runs_low());
}

#[test]
fn a_buffer_of_the_second_api_comes_back_with_its_layouts_or_why_it_has_none() {
    let counters = Counters::default();
    let taken = |pool: &Pool, completion| {
        let (start, _) = pool.request(1, &counters).unwrap();
        pool.complete_told(start, 1000, completion, &counters);
        pool.take_full().unwrap()
    };
    let mut entry = [40_u64, 0, 0, 4, 4];
    let mut layout = cupti_sys::bindings::CUpti_ActivityRecordLayout {
        structSize: 32,
        pEntries: entry.as_mut_ptr().cast(),
        numFields: 1,
        recordSize: 12,
    };
    let mut by_kind = [ptr::null_mut(), &raw mut layout];
    let mut info = cupti_sys::bindings::CUpti_BufferCallbackCompleteInfo {
        structSize: 32,
        threadId: 1,
        ppRecordLayouts: by_kind.as_mut_ptr(),
        numRecordLayouts: by_kind.len(),
    };
    // SAFETY: as CUPTI lays it out, until the end of this test.
    let completion = unsafe { Completion::new(&raw mut info) };
    let pool = Pool::new(ASKED, true).unwrap().with_layouts().unwrap();
    let full = taken(&pool, completion);
    let layouts = full.layouts().unwrap().unwrap();
    assert_eq!(layouts.of(1).unwrap().record_bytes(), 12);
    pool.recycle(full);
    // What the place held before is gone.
    // SAFETY: `layout` is there until the end of this test.
    unsafe { (*by_kind[1]).recordSize = 2 };
    assert!(matches!(
        taken(&pool, completion).layouts(),
        Some(Err(LayoutError::FieldOutside { .. }))
    ));
    assert!(matches!(taken(&pool, None).layouts(), Some(Err(LayoutError::None))));
    let without = Pool::new(ASKED, true).unwrap();
    assert!(matches!(taken(&without, completion).layouts(), Some(Err(LayoutError::None))));
    // And a buffer of the first API has none to be refused.
    let (start, _) = pool.request(1, &counters).unwrap();
    pool.complete(start, 1000, &counters);
    assert!(pool.take_full().unwrap().layouts().is_none());
    assert_eq!(counters.unreadable_records.get(), 0);
}
