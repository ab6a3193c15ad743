//! Work -> its own thread, or, where the system refuses one (a limit on processes), this one.

use std::sync::mpsc::sync_channel;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Work that was begun.
pub enum Task<'scope, T> {
    /// On its own thread.
    Begun(ScopedJoinHandle<'scope, Option<T>>),
    /// Here, because there was no thread for it.
    Done(T),
}

impl<T> Task<'_, T> {
    /// What came of it; nothing where it panicked.
    pub fn join(self) -> Option<T> {
        match self {
            Task::Begun(thread) => thread.join().ok().flatten(),
            Task::Done(result) => Some(result),
        }
    }
}

/// Does `work` in parallel to this thread where that can be, and else at once.
pub fn begin<'scope, T: Send + 'scope, F: FnOnce() -> T + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: F,
) -> Task<'scope, T> {
    match spawn(Builder::new(), scope, work, |work| work()) {
        Ok(thread) => Task::Begun(thread),
        Err(work) => Task::Done(work()),
    }
}

/// Has a thread that `builder` describes `run` what it is given, or gives that back.
fn spawn<'scope, F: Send + 'scope, T: Send + 'scope>(
    builder: Builder,
    scope: &'scope Scope<'scope, '_>,
    work: F,
    run: impl FnOnce(F) -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Option<T>>, F> {
    // The thread takes the work when it is there: what a refused thread was given is gone.
    let (give, given) = sync_channel::<F>(1);
    match builder.spawn_scoped(scope, move || Some(run(given.recv().ok()?))) {
        Ok(thread) => {
            // It waits for nothing else, so that this arrives.
            let _ = give.send(work);
            Ok(thread)
        }
        Err(_) => Err(work),
    }
}

/// A batch goes on its way once it holds so many items or bytes.
const ITEMS: usize = 4096;
const BYTES: usize = 1 << 20;
/// Batches that may wait.
const WAITING: usize = 4;

/// What has been read, on its way to where it is taken.
pub struct Batches<'a, T> {
    /// False where nobody takes any more.
    hand_over: Box<dyn FnMut(Vec<T>) -> bool + 'a>,
    open: Vec<T>,
    bytes: usize,
}

impl<'a, T> Batches<'a, T> {
    fn new(hand_over: impl FnMut(Vec<T>) -> bool + 'a) -> Self {
        Batches { hand_over: Box::new(hand_over), open: Vec::new(), bytes: 0 }
    }

    /// Queues an item that takes `bytes` of memory. `false`: the receiving thread has panicked.
    pub fn push(&mut self, item: T, bytes: usize) -> bool {
        self.open.push(item);
        self.bytes += bytes;
        (self.open.len() < ITEMS && self.bytes < BYTES) || self.send()
    }

    fn filled_by<R>(mut self, read: impl FnOnce(&mut Self) -> R) -> R {
        let done = read(&mut self);
        self.send();
        done
    }

    fn send(&mut self) -> bool {
        self.bytes = 0;
        let next = Vec::with_capacity(self.open.len());
        (self.hand_over)(std::mem::replace(&mut self.open, next))
    }
}

/// Runs `read` on its own thread, or on this one where the system refuses another, and gives what it
/// pushes to `take`, in that order.
pub fn read_ahead<T: Send, R: Send>(
    read: impl FnOnce(&mut Batches<'_, T>) -> R + Send,
    take: impl FnMut(T),
) -> R {
    read_on(Builder::new(), read, take)
}

/// Reads on a thread that `builder` describes, and takes what it read on this one.
fn read_on<T: Send, R: Send, F: FnOnce(&mut Batches<'_, T>) -> R + Send>(
    builder: Builder,
    read: F,
    mut take: impl FnMut(T),
) -> R {
    let (sender, batches) = sync_channel(WAITING);
    let send = move |read: F| Batches::new(move |batch| sender.send(batch).is_ok()).filled_by(read);
    let done = std::thread::scope(|scope| match spawn(builder, scope, read, send) {
        Ok(reading) => {
            batches.into_iter().flatten().for_each(take);
            reading.join()
        }
        Err(read) => {
            let take = |batch: Vec<T>| {
                batch.into_iter().for_each(&mut take);
                true
            };
            Ok(Some(Batches::new(take).filled_by(read)))
        }
    });
    match done {
        Ok(Some(done)) => done,
        Ok(None) => unreachable!("the thread has its work before it is waited for"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    /// The most bytes of items that were pushed and not yet taken.
    fn most_on_the_way(builder: Builder, items: usize, bytes: usize) -> usize {
        let (pushed, taken, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let read = |batches: &mut Batches<'_, usize>| {
            for item in 0..items {
                pushed.fetch_add(1, SeqCst);
                most.fetch_max(pushed.load(SeqCst) - taken.load(SeqCst), SeqCst);
                assert!(batches.push(item, bytes), "somebody takes");
            }
            items
        };
        let mut next = 0;
        let read = read_on(builder, read, |item| {
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

    /// Hazard (Hostile files): A trace file mostly of long records.
    /// Promise: What is read ahead is bounded by its bytes.
    #[test]
    fn what_is_on_its_way_is_bounded_by_its_bytes() {
        // The waiting batches, the one that is filled, the one that is taken, and one between them.
        let bound = (WAITING + 3) * BYTES;
        for (items, bytes) in [(2_000, 360 * 1024), (100_000, 200)] {
            // No system gives a thread that much of a stack.
            for builder in [Builder::new(), Builder::new().stack_size(1 << 60)] {
                let most = most_on_the_way(builder, items, bytes);
                assert!(most <= bound + bytes * 7, "{most} bytes for items of {bytes}");
            }
        }
    }
}
