//! Indices of free buffers, last in, first out, without a lock and without allocation.
//!
//! The buffer that was used last is handed out first: the memory that a guest touches follows what
//! it uses at a time, not the size of the pool.

use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Ends a list.
const END: u32 = u32::MAX;

/// Which free buffer lies below which. Shared by all lists, because a buffer is in one at a time.
pub(super) struct Links(Box<[AtomicU32]>);

impl Links {
    pub(super) fn new(count: usize) -> Self {
        Links((0..count).map(|_| AtomicU32::new(END)).collect())
    }
}

/// The free buffers of one size.
pub(super) struct FreeList {
    /// The index on top in the lower half. The upper half counts changes: without it, a thread that
    /// sleeps in [`FreeList::pop`] could take a top that is the same again over another list.
    head: AtomicU64,
    left: AtomicUsize,
}

impl FreeList {
    /// The indices from `first` on, the lowest on top.
    pub(super) fn new(first: usize, count: usize, links: &Links) -> Self {
        let free = FreeList { head: AtomicU64::new(u64::from(END)), left: AtomicUsize::new(0) };
        for index in (first..first + count).rev() {
            free.push(index as u32, links);
        }
        free
    }

    pub(super) fn pop(&self, links: &Links) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let below = links.0.get(head as u32 as usize)?.load(Ordering::Relaxed);
            match self.replace(head, below) {
                Ok(()) => {
                    self.left.fetch_sub(1, Ordering::Relaxed);
                    return Some(head as u32);
                }
                Err(now) => head = now,
            }
        }
    }

    pub(super) fn push(&self, index: u32, links: &Links) {
        let Some(link) = links.0.get(index as usize) else { return };
        // First the count, so that it never falls below nought.
        self.left.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            match self.replace(head, index) {
                Ok(()) => return,
                Err(now) => head = now,
            }
        }
    }

    /// About how many are left.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    fn replace(&self, head: u64, top: u32) -> Result<(), u64> {
        let next = ((head >> 32).wrapping_add(1) << 32) | u64::from(top);
        let replaced =
            self.head.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire);
        replaced.map(drop)
    }
}

#[cfg(all(test, feature = "models"))]
mod models;

#[cfg(test)]
mod tests {
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
}
