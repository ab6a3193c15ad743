//! One thread reads and another one takes, in batches that hold a bounded number of bytes.

use std::sync::mpsc::{SyncSender, sync_channel};

/// A batch goes on its way once it holds so many items or bytes.
const ITEMS: usize = 4096;
const BYTES: usize = 1 << 20;
/// Batches that may wait.
const WAITING: usize = 4;

/// What has been read, on its way to the thread that takes it.
pub(crate) struct Batches<T> {
    sender: SyncSender<Vec<T>>,
    open: Vec<T>,
    bytes: usize,
}

impl<T> Batches<T> {
    /// Queues an item that takes `bytes` of memory. Returns `false` if the receiving thread has
    /// panicked.
    pub(crate) fn push(&mut self, item: T, bytes: usize) -> bool {
        self.open.push(item);
        self.bytes += bytes;
        (self.open.len() < ITEMS && self.bytes < BYTES) || self.send()
    }

    fn send(&mut self) -> bool {
        self.bytes = 0;
        let next = Vec::with_capacity(self.open.len());
        self.sender.send(std::mem::replace(&mut self.open, next)).is_ok()
    }
}

/// Runs `read` on a thread of its own, and gives what it pushes to `take`, in that order.
pub(crate) fn read_ahead<T: Send, R: Send>(
    read: impl FnOnce(&mut Batches<T>) -> R + Send,
    take: impl FnMut(T),
) -> R {
    let (sender, batches) = sync_channel(WAITING);
    let done = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut batches = Batches { sender, open: Vec::new(), bytes: 0 };
            let done = read(&mut batches);
            batches.send();
            done
        });
        batches.into_iter().flatten().for_each(take);
        reading.join()
    });
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    /// The most bytes of items that were pushed and not yet taken.
    fn most_on_the_way(items: usize, bytes: usize) -> usize {
        let (pushed, taken, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let read = |batches: &mut Batches<usize>| {
            for item in 0..items {
                pushed.fetch_add(1, SeqCst);
                most.fetch_max(pushed.load(SeqCst) - taken.load(SeqCst), SeqCst);
                assert!(batches.push(item, bytes), "somebody takes");
            }
            items
        };
        let mut next = 0;
        let read = read_ahead(read, |item| {
            assert_eq!(item, next);
            next += 1;
            taken.store(next, SeqCst);
            if item % 100 == 0 {
                std::thread::yield_now();
            }
        });
        assert_eq!((read, next), (items, items), "all arrive, in order");
        most.load(SeqCst) * bytes
    }

    #[test]
    fn what_is_on_its_way_is_bounded_by_its_bytes() {
        // The waiting batches, the one that is filled, the one that is taken, and one between them.
        let bound = (WAITING + 3) * BYTES;
        for (items, bytes) in [(2_000, 360 * 1024), (100_000, 200)] {
            let most = most_on_the_way(items, bytes);
            assert!(most <= bound + bytes * 7, "{most} bytes for items of {bytes}");
        }
    }
}
