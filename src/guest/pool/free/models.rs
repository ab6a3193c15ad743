//! The list of free buffers in every order of threads that take and give back.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::base::sync::try_every_order;

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
                let all = all.clone();
                thread::spawn(move || take_and_give_back(&all.0, &all.1, &all.2, rounds))
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
        let other = {
            let all = all.clone();
            thread::spawn(move || all.0.pop(&all.1))
        };
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
