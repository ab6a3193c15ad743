//! A buffer on its way from a guest thread through CUPTI to our thread and back, and the list of free buffers,
//! in every order.

use loom::sync::Arc;

use super::*;
use crate::base::sync::{beside, try_every_order};

const BYTES: usize = 4096;

fn pool(buffers: usize) -> Pool {
    Pool::new(Buffers::Sized { bytes: BYTES, count: buffers }, true).expect("address space")
}

/// A guest thread, on which CUPTI hands over in a callback what it has filled.
fn fill(pool: &Pool, owner: u32, counters: &Counters) -> u64 {
    let Some((start, _)) = pool.request(owner, counters) else { return 0 };
    // SAFETY: the pool gave this buffer to us alone.
    unsafe { start.write(owner as u8) };
    pool.complete(start, 1, counters);
    1
}

/// Our thread.
fn take(pool: &Pool, seen: &mut Vec<u32>) {
    if let Some(full) = pool.take_full() {
        assert_eq!(full.bytes(), [full.owner as u8], "somebody else's records");
        seen.push(full.owner);
        pool.recycle(full);
    }
}

#[test]
fn what_one_thread_fills_is_read_once_and_as_that_threads() {
    try_every_order("two that fill, one that reads", 3, || {
        let all = Arc::new((pool(2), Counters::default()));
        let fillers: Vec<_> =
            [1, 2].map(|owner| beside(&all, move |all| fill(&all.0, owner, &all.1))).into();
        let mut seen = Vec::new();
        take(&all.0, &mut seen);
        let filled: u64 = fillers.into_iter().map(|filler| filler.join().expect("no panic")).sum();
        take(&all.0, &mut seen);
        take(&all.0, &mut seen);
        seen.sort_unstable();
        assert_eq!(filled, seen.len() as u64);
        assert!(seen.windows(2).all(|two| two[0] != two[1]), "a buffer was read twice");
        assert_eq!(all.1.buffers_refused.get() + filled, 2);
        assert_eq!((all.0.given(), all.1.unreadable_records.get()), (0, 0));
    });
}

/// Hazard (Threads, stacks and locks): Two threads hand over the same buffer.
/// Promise: It is read once, and the second time counts as a loss.
///
/// A forced flush and CUPTI's own thread may hand over the same buffer.
#[test]
fn a_buffer_that_is_handed_over_twice_is_read_once() {
    try_every_order("one buffer, handed over by two threads", 5, || {
        let all = Arc::new((pool(1), Counters::default()));
        let (start, _) = all.0.request(7, &all.1).expect("a buffer");
        let place = start as usize;
        let other = beside(&all, move |all| all.0.complete(place as *mut u8, 208, &all.1));
        all.0.complete(start, 208, &all.1);
        other.join().expect("no panic");
        let full = all.0.take_full().expect("it was handed over");
        assert_eq!(full.owner, 7);
        assert!(all.0.take_full().is_none(), "its records count twice");
        assert_eq!(all.1.unreadable_records.get(), 1, "the second time is counted");
        all.0.recycle(full);
        assert!(all.0.request(8, &all.1).is_some());
        assert!(all.0.request(8, &all.1).is_none(), "the same buffer went out twice");
    });
}

/// The threads' part: take one, hold it alone, give it back, twice.
fn take_and_give_back(free: &FreeList, links: &Links, holders: &[AtomicU32], rounds: usize) {
    for _ in 0..rounds {
        if let Some(index) = free.pop(links) {
            let holder = &holders[index as usize];
            assert_eq!(holder.fetch_add(1, Ordering::Relaxed), 0, "two hold buffer {index}");
            assert_eq!(holder.fetch_sub(1, Ordering::Relaxed), 1);
            free.push(index, links);
        }
    }
}

fn with_threads(name: &str, preemptions: usize, buffers: usize, rounds: [usize; 3]) {
    try_every_order(name, preemptions, move || {
        let links = Links::new(buffers);
        let free = FreeList::new(0, buffers, &links);
        let holders: Vec<AtomicU32> = (0..buffers).map(|_| AtomicU32::new(0)).collect();
        let all = Arc::new((free, links, holders));
        let others: Vec<_> = rounds[1..]
            .iter()
            .filter(|rounds| **rounds > 0)
            .map(|&rounds| {
                beside(&all, move |all| take_and_give_back(&all.0, &all.1, &all.2, rounds))
            })
            .collect();
        take_and_give_back(&all.0, &all.1, &all.2, rounds[0]);
        for other in others {
            other.join().expect("it does not panic");
        }
        let (free, links, _) = &*all;
        assert_eq!(free.left(), buffers);
        let mut left: Vec<u32> = std::iter::from_fn(|| free.pop(links)).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            (0..buffers as u32).collect::<Vec<_>>(),
            "a buffer is gone, or twice there"
        );
    });
}

#[test]
fn two_threads_never_hold_the_same_buffer() {
    with_threads("two threads, two buffers", 4, 2, [2, 2, 0]);
}

/// Hazard (Threads, stacks and locks): Three threads take and give back buffers in any order.
/// Promise: No buffer is ever in two hands.
#[test]
fn three_threads_never_hold_the_same_buffer() {
    with_threads("three threads, two buffers", 3, 2, [1, 1, 1]);
}

/// Hazard (Threads, stacks and locks): A buffer is on top of the list again, over another list.
/// Promise: It is not taken for the same.
///
/// The top is the same again over another list: what the count of changes is for.
#[test]
fn a_top_that_is_back_over_another_list_is_not_taken_for_the_same() {
    try_every_order("two taken and the first given back", 5, || {
        let links = Links::new(3);
        let free = FreeList::new(0, 3, &links);
        let all = Arc::new((free, links));
        let other = beside(&all, |all| all.0.pop(&all.1));
        let (free, links) = &*all;
        let (first, second) = (free.pop(links), free.pop(links));
        if let Some(first) = first {
            free.push(first, links);
        }
        let others = other.join().expect("it does not panic");
        let mut left: Vec<u32> = std::iter::from_fn(|| free.pop(links)).collect();
        left.extend(second);
        left.extend(others);
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2]);
    });
}
