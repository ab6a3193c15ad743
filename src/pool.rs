//! Memory for activity records into full buffers: a fixed pool that CUPTI fills and we empty.
//!
//! CUPTI asks for a buffer on a guest thread, inside a launch, and hands it back full on a thread
//! of its own or on the drain thread. Both sides only move an index through a lock-free queue.
//! The memory is mapped once and costs nothing before it is first written.
//!
//! When the large buffers are gone, small ones are handed out, so that many launching threads
//! (each holds a buffer) do not need much memory. When those are gone as well, the request is
//! refused: CUPTI counts the records that it drops. CUPTI before 12.9 crashes on a refusal; there
//! a page is mapped for it instead, whatever the limit, and its records are kept.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam::queue::ArrayQueue;

use crate::counters::Counters;

/// Size of a small buffer, bytes: 300 kernel records of CUPTI 13.
const SMALL_BYTES: usize = 64 << 10;
/// Small buffers in the pool.
const SMALL_COUNT: usize = 64;

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
    place: Place,
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

#[derive(Clone, Copy, Debug)]
enum Place {
    Pooled(u32),
    /// Mapped for one request; unmapped when it was read.
    Extra,
}

/// The buffers.
pub struct Pool {
    sizes: Sizes,
    large: *mut u8,
    small: *mut u8,
    free_large: ArrayQueue<u32>,
    free_small: ArrayQueue<u32>,
    owners: Box<[AtomicU32]>,
    full: ArrayQueue<Full>,
    refuse: bool,
}

// SAFETY: the raw pointers are the starts of two mappings that live as long as the process; who
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
        let total = sizes.count + SMALL_COUNT;
        let pool = Pool {
            sizes,
            large,
            small,
            free_large: ArrayQueue::new(sizes.count.max(1)),
            free_small: ArrayQueue::new(SMALL_COUNT),
            owners: (0..total).map(|_| AtomicU32::new(0)).collect(),
            // Room for every pooled buffer and as many extra ones.
            full: ArrayQueue::new(2 * total),
            refuse: may_refuse,
        };
        for index in 0..sizes.count as u32 {
            let _ = pool.free_large.push(index);
        }
        for index in 0..SMALL_COUNT as u32 {
            let _ = pool.free_small.push(sizes.count as u32 + index);
        }
        Some(pool)
    }

    /// A zeroed buffer for `owner`, and its size. `None` is a refusal, which was counted.
    pub fn request(&self, owner: u32, counters: &Counters) -> Option<(*mut u8, usize)> {
        if let Some(index) = self.free_large.pop().or_else(|| self.free_small.pop()) {
            if let Some(slot) = self.owners.get(index as usize) {
                slot.store(owner, Ordering::Release);
            }
            return Some(self.extent(index));
        }
        counters.buffers_refused.increment();
        if self.refuse { None } else { map(SMALL_BYTES).map(|start| (start, SMALL_BYTES)) }
    }

    /// Takes a buffer back from CUPTI with `valid` bytes of records in it.
    pub fn complete(&self, start: *mut u8, valid: usize) {
        let full = match self.index_of(start) {
            Some(index) => Full {
                start,
                valid: valid.min(self.extent(index).1),
                owner: self
                    .owners
                    .get(index as usize)
                    .map_or(0, |slot| slot.load(Ordering::Acquire)),
                place: Place::Pooled(index),
            },
            None => Full { start, valid: valid.min(SMALL_BYTES), owner: 0, place: Place::Extra },
        };
        if let Err(full) = self.full.push(full) {
            // Only extra buffers can fill the queue; this one's records are lost, not its memory.
            self.recycle(full);
        }
    }

    /// The oldest buffer that CUPTI handed back.
    pub fn take_full(&self) -> Option<Full> {
        self.full.pop()
    }

    /// Makes a buffer that was read available again.
    pub fn recycle(&self, full: Full) {
        match full.place {
            Place::Pooled(index) => {
                // CUPTI was told that buffers come zeroed, which spares the guest's threads from
                // clearing them.
                // SAFETY: the buffer is ours alone until its index is pushed below, and `valid`
                // does not exceed its size.
                unsafe { ptr::write_bytes(full.start, 0, full.valid) };
                let queue = if (index as usize) < self.sizes.count {
                    &self.free_large
                } else {
                    &self.free_small
                };
                let _ = queue.push(index);
            }
            // SAFETY: this buffer was mapped by `request` for one use with this size, and its
            // only handle was consumed here.
            Place::Extra => unsafe {
                libc::munmap(full.start.cast(), SMALL_BYTES);
            },
        }
    }

    fn extent(&self, index: u32) -> (*mut u8, usize) {
        let index = index as usize;
        match index.checked_sub(self.sizes.count) {
            None => (self.large.wrapping_add(index * self.sizes.bytes), self.sizes.bytes),
            Some(index) => (self.small.wrapping_add(index * SMALL_BYTES), SMALL_BYTES),
        }
    }

    fn index_of(&self, start: *mut u8) -> Option<u32> {
        let within = |base: *mut u8, bytes: usize, count: usize| {
            let offset = (start as usize).checked_sub(base as usize)?;
            (offset < bytes * count && offset % bytes == 0).then_some((offset / bytes) as u32)
        };
        within(self.large, self.sizes.bytes, self.sizes.count).or_else(|| {
            within(self.small, SMALL_BYTES, SMALL_COUNT).map(|i| i + self.sizes.count as u32)
        })
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
            pool.complete(start, 1000);
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
    fn where_a_refusal_would_crash_cupti_an_extra_buffer_is_mapped_and_its_records_are_kept() {
        let (pool, counters) = (Pool::new(SIZES, false).unwrap(), Counters::default());
        for _ in 0..SIZES.count + SMALL_COUNT {
            pool.request(1, &counters).unwrap();
        }
        let (start, size) = pool.request(1, &counters).unwrap();
        assert_eq!(size, SMALL_BYTES);
        fill(start, 500);
        pool.complete(start, 500);
        let full = pool.take_full().unwrap();
        assert_eq!((full.owner, full.bytes().len()), (0, 500));
        pool.recycle(full);
        assert_eq!(counters.buffers_refused.get(), 1);
    }

    #[test]
    fn a_valid_size_beyond_the_buffer_is_not_believed() {
        let (pool, counters) = (Pool::new(SIZES, true).unwrap(), Counters::default());
        let (start, size) = pool.request(1, &counters).unwrap();
        pool.complete(start, usize::MAX);
        assert_eq!(pool.take_full().unwrap().valid, size);
    }
}
