//! Memory for activity records into full buffers: a fixed pool that CUPTI fills and we empty.
//!
//! CUPTI asks for a buffer on a guest thread, inside a launch, and hands it back full on a thread
//! of its own or on the drain thread. Both sides only move an index through a lock-free queue.
//! The memory is mapped once and costs nothing before it is first written.
//!
//! When the large buffers are gone, small ones are handed out, so that many launching threads
//! (each holds a buffer) do not need much memory. When those are gone as well, the request is
//! refused: CUPTI counts the records that it drops. CUPTI before 12.9 crashes on a refusal; there
//! extra buffers go on, whatever the limit, and give their memory back once they were read. Of
//! those that nobody reads in time, the records are counted.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam::queue::ArrayQueue;

use crate::counters::Counters;
use crate::decode;

/// Size of a small buffer, bytes: 300 kernel records of CUPTI 13.
const SMALL_BYTES: usize = 64 << 10;
/// Small buffers in the pool.
const SMALL_COUNT: usize = 64;
/// Extra buffers, each as large as a small one: 256 MiB of address space, taken only where CUPTI
/// cannot be refused a buffer. Half of them may wait to be read; the others are for CUPTI to fill.
const EXTRA_COUNT: usize = 4096;

/// In the place of its owner: CUPTI does not hold the buffer.
const NOT_GIVEN: u32 = u32::MAX;

/// The size and number of the large buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of one buffer.
    pub bytes: usize,
    /// How many.
    pub count: usize,
}

/// A buffer that CUPTI handed back.
#[derive(Debug)]
pub struct Full {
    start: *mut u8,
    /// Bytes of valid records.
    pub valid: usize,
    /// The thread that asked for the buffer ([`crate::thread::number`]); 0 is not known.
    pub owner: u32,
    index: u32,
}

// SAFETY: a `Full` is the only handle to its memory between `complete` and `recycle`, and the
// memory is plain bytes that any thread may read and write.
unsafe impl Send for Full {}

impl Full {
    /// The records.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start+valid` lies within a buffer of this pool (checked in `complete`),
        // which is mapped for the life of the process and which nobody writes until `recycle`.
        unsafe { std::slice::from_raw_parts(self.start, self.valid) }
    }

    /// The start of the records, for CUPTI's own walker.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }
}

/// The buffers.
pub struct Pool {
    sizes: Sizes,
    large: *mut u8,
    small: *mut u8,
    free_large: ArrayQueue<u32>,
    free_small: ArrayQueue<u32>,
    /// Nothing where requests may be refused.
    extra: Option<(*mut u8, ArrayQueue<u32>)>,
    owners: Box<[AtomicU32]>,
    full: ArrayQueue<Full>,
}

// SAFETY: the raw pointers are the starts of mappings that live as long as the process; who
// may touch which part of them is decided by the lock-free queues of indices.
unsafe impl Send for Pool {}
// SAFETY: as above; every method only moves indices through lock-free queues.
unsafe impl Sync for Pool {}

impl Pool {
    /// Maps the memory. `may_refuse`: this CUPTI survives a request that is not met (12.9 and
    /// later). `None` where the system has no address space left.
    pub fn new(sizes: Sizes, may_refuse: bool) -> Option<Self> {
        let large = map(sizes.bytes.checked_mul(sizes.count)?)?;
        let small = map(SMALL_BYTES * SMALL_COUNT)?;
        let pooled = sizes.count + SMALL_COUNT;
        let indices = |from: usize, count: usize| {
            let queue = ArrayQueue::new(count.max(1));
            for index in from..from + count {
                let _ = queue.push(index as u32);
            }
            queue
        };
        let (extra, extras) = if may_refuse {
            (None, 0)
        } else {
            let start = map(SMALL_BYTES * EXTRA_COUNT)?;
            (Some((start, indices(pooled, EXTRA_COUNT))), EXTRA_COUNT)
        };
        Some(Pool {
            sizes,
            large,
            small,
            free_large: indices(0, sizes.count),
            free_small: indices(sizes.count, SMALL_COUNT),
            extra,
            owners: (0..pooled + extras).map(|_| AtomicU32::new(NOT_GIVEN)).collect(),
            full: ArrayQueue::new(pooled + extras / 2),
        })
    }

    /// A zeroed buffer for `owner`, and its size. `None` is a refusal, which was counted; an extra
    /// buffer is none, for nothing is lost by it.
    pub fn request(&self, owner: u32, counters: &Counters) -> Option<(*mut u8, usize)> {
        let extra = || self.extra.as_ref()?.1.pop();
        let free = self.free_large.pop().or_else(|| self.free_small.pop()).or_else(extra);
        let Some(index) = free else {
            counters.buffers_refused.increment();
            self.extra.as_ref()?;
            // CUPTI holds thousands of buffers. This one is never told from memory of others
            // again: its records are counted, its memory stays.
            return map(SMALL_BYTES).map(|start| (start, SMALL_BYTES));
        };
        if let Some(slot) = self.owners.get(index as usize) {
            slot.store(owner, Ordering::Release);
        }
        Some(self.extent(index))
    }

    /// Takes a buffer back from CUPTI with `valid` bytes of records in it. Memory that CUPTI does
    /// not have from this pool, such as a buffer that another tool gave to it, is left alone: its
    /// records are counted.
    pub fn complete(&self, start: *mut u8, valid: usize, counters: &Counters) {
        let given = self.index_of(start).and_then(|index| {
            let owner = self.owners.get(index as usize)?.swap(NOT_GIVEN, Ordering::AcqRel);
            (owner != NOT_GIVEN).then_some((index, owner))
        });
        let Some((index, owner)) = given else {
            counters.unreadable_records.add(decode::records_in(valid));
            return;
        };
        let full = Full { start, valid: valid.min(self.extent(index).1), owner, index };
        if let Err(full) = self.full.push(full) {
            counters.unreadable_records.add(decode::records_in(full.valid));
            self.recycle(full);
        }
    }

    /// Buffers that CUPTI holds.
    pub fn given(&self) -> usize {
        let given = |owner: &&AtomicU32| owner.load(Ordering::Relaxed) != NOT_GIVEN;
        self.owners.iter().filter(given).count()
    }

    /// The oldest buffer that CUPTI handed back.
    pub fn take_full(&self) -> Option<Full> {
        self.full.pop()
    }

    /// Makes a buffer that was read available again.
    pub fn recycle(&self, full: Full) {
        let index = full.index as usize;
        let small = index.checked_sub(self.sizes.count);
        if let (Some((_, free)), Some(SMALL_COUNT..)) = (&self.extra, small) {
            // SAFETY: these are whole pages of a mapping of this pool, which nobody uses until
            // the index is pushed below. They read as zero from now on.
            unsafe { libc::madvise(full.start.cast(), SMALL_BYTES, libc::MADV_DONTNEED) };
            let _ = free.push(full.index);
            return;
        }
        // CUPTI was told that buffers come zeroed, which spares the guest's threads from clearing
        // them.
        // SAFETY: the buffer is ours alone until its index is pushed below, and `valid` does not
        // exceed its size.
        unsafe { ptr::write_bytes(full.start, 0, full.valid) };
        let queue = if small.is_none() { &self.free_large } else { &self.free_small };
        let _ = queue.push(full.index);
    }

    fn extent(&self, index: u32) -> (*mut u8, usize) {
        let index = index as usize;
        let Some(small) = index.checked_sub(self.sizes.count) else {
            return (self.large.wrapping_add(index * self.sizes.bytes), self.sizes.bytes);
        };
        let (base, at) = match (&self.extra, small.checked_sub(SMALL_COUNT)) {
            (Some((base, _)), Some(extra)) => (*base, extra),
            _ => (self.small, small),
        };
        (base.wrapping_add(at * SMALL_BYTES), SMALL_BYTES)
    }

    fn index_of(&self, start: *mut u8) -> Option<u32> {
        let within = |base: *mut u8, bytes: usize, count: usize| {
            let offset = (start as usize).checked_sub(base as usize)?;
            (offset < bytes * count && offset.is_multiple_of(bytes)).then_some(offset / bytes)
        };
        let large = || within(self.large, self.sizes.bytes, self.sizes.count);
        let small = || within(self.small, SMALL_BYTES, SMALL_COUNT).map(|i| i + self.sizes.count);
        let extra = || {
            let at = within(self.extra.as_ref()?.0, SMALL_BYTES, EXTRA_COUNT)?;
            Some(at + SMALL_COUNT + self.sizes.count)
        };
        large().or_else(small).or_else(extra).map(|index| index as u32)
    }
}

/// Maps zeroed memory that is committed page by page, when first written.
fn map(bytes: usize) -> Option<*mut u8> {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing
    // that exists.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (start != libc::MAP_FAILED).then_some(start.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { bytes: 128 << 10, count: 2 };

    fn fill(start: *mut u8, valid: usize) {
        // SAFETY: the test owns the buffer, which is larger.
        unsafe { ptr::write_bytes(start, 0xAB, valid) };
    }

    #[test]
    fn a_buffer_comes_back_with_its_owner_and_is_zeroed_for_the_next() {
        let (pool, counters) = (Pool::new(SIZES, true).unwrap(), Counters::default());
        for round in 1..10 {
            let (start, size) = pool.request(round, &counters).unwrap();
            assert_eq!(size, SIZES.bytes);
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
        let (pool, counters) = (Pool::new(SIZES, true).unwrap(), Counters::default());
        let sizes: Vec<usize> =
            std::iter::from_fn(|| pool.request(1, &counters)).map(|(_, size)| size).collect();
        assert_eq!(sizes.len(), SIZES.count + SMALL_COUNT);
        assert_eq!(sizes[0], SIZES.bytes);
        assert_eq!(sizes[SIZES.count], SMALL_BYTES);
        assert_eq!(counters.buffers_refused.get(), 1);
    }

    #[test]
    fn where_a_refusal_would_crash_cupti_extra_buffers_go_on_and_their_records_are_kept() {
        let (pool, counters) = (Pool::new(SIZES, false).unwrap(), Counters::default());
        let pooled = SIZES.count + SMALL_COUNT;
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
        let (pool, counters) = (Pool::new(SIZES, false).unwrap(), Counters::default());
        for _ in 0..SIZES.count + SMALL_COUNT + EXTRA_COUNT / 2 + 100 {
            let (start, size) = pool.request(1, &counters).unwrap();
            assert!(pool.index_of(start).is_some());
            pool.complete(start, size, &counters);
        }
        let lost = counters.unreadable_records.get();
        assert_eq!(lost, 100 * decode::records_in(SMALL_BYTES));
        assert!(pool.take_full().is_some());
    }

    #[test]
    fn memory_of_others_is_left_alone_and_its_records_are_counted() {
        for may_refuse in [true, false] {
            let (pool, counters) = (Pool::new(SIZES, may_refuse).unwrap(), Counters::default());
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
            assert_eq!(counters.unreadable_records.get(), 4 * decode::records_in(1000));
        }
    }

    #[test]
    fn a_valid_size_beyond_the_buffer_is_not_believed() {
        let (pool, counters) = (Pool::new(SIZES, true).unwrap(), Counters::default());
        let (start, size) = pool.request(1, &counters).unwrap();
        assert_eq!(pool.given(), 1);
        pool.complete(start, usize::MAX, &counters);
        assert_eq!(pool.given(), 0);
        assert_eq!(pool.take_full().unwrap().valid, size);
    }
}
