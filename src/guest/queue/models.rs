//! Senders and the receiver in every order.

use loom::sync::Arc;

use super::*;
use crate::base::sync::{beside, try_every_order};

/// Two threads send more than there are slots, while a third one receives.
#[test]
fn what_two_threads_send_arrives_once_in_the_order_of_each() {
    try_every_order("two senders, two slots, one receiver", 3, || {
        let queue = Arc::new(Queue::new(2));
        let senders: Vec<_> = [10, 20]
            .map(|first| {
                beside(&queue, move |queue| {
                    (first..first + 2).filter(|&item| queue.send(item).is_ok()).collect()
                })
            })
            .into();
        let mut seen: Vec<u32> = (0..2).filter_map(|_| queue.receive()).collect();
        let sent: Vec<Vec<u32>> =
            senders.into_iter().map(|one| one.join().expect("no panic")).collect();
        seen.extend(std::iter::from_fn(|| queue.receive()));
        for (sent, first) in sent.iter().zip([10, 20]) {
            let own: Vec<u32> =
                seen.iter().copied().filter(|item| (first..first + 2).contains(item)).collect();
            assert_eq!(own, *sent);
        }
        assert_eq!(seen.len(), sent.concat().len());
        assert_eq!((queue.in_use(), queue.unfinished()), (0, 0), "slots are gone");
    });
}

/// A slot that comes back goes to another sender while the first one looks at the list.
#[test]
fn a_slot_is_in_one_hand_at_a_time() {
    try_every_order("slots that go round", 4, || {
        let queue = Arc::new(Queue::new(2));
        queue.send(1).expect("room");
        queue.send(2).expect("room");
        let other = beside(&queue, |queue| {
            usize::from(queue.send(3).is_ok()) + usize::from(queue.send(4).is_ok())
        });
        let mut seen = vec![queue.receive(), queue.receive()];
        let sent = other.join().expect("no panic");
        seen.extend(std::iter::from_fn(|| queue.receive().map(Some)));
        let seen: Vec<i32> = seen.into_iter().flatten().collect();
        assert_eq!(seen[..2], [1, 2]);
        assert_eq!(seen.len(), 2 + sent);
        assert!(seen.is_sorted());
        assert_eq!(queue.in_use(), 0);
    });
}

/// A sender took a slot and never comes back.
#[test]
fn a_sender_that_never_comes_back_holds_up_nobody() {
    try_every_order("one sender leaves, another one goes on", 5, || {
        let queue = Arc::new(Queue::<u32>::new(2));
        let leaves = beside(&queue, |queue| queue.take_free(2).is_some());
        let sent = usize::from(queue.send(1).is_ok()) + usize::from(queue.send(2).is_ok());
        let mut seen = Vec::from_iter(queue.receive());
        let left = leaves.join().expect("no panic");
        seen.extend(std::iter::from_fn(|| queue.receive()));
        assert!(seen.is_sorted() && seen.len() == sent && sent >= 1, "{seen:?} of {sent}");
        assert_eq!(queue.unfinished(), usize::from(left));
    });
}

/// Two threads receive, as nobody does: each item is in one hand still.
#[test]
fn of_two_receivers_one_has_each_item() {
    try_every_order("two receivers", 4, || {
        let queue = Arc::new(Queue::new(3));
        (1..=3).for_each(|item| queue.send(item).expect("room"));
        let other = beside(&queue, |queue| Vec::from_iter(queue.receive()));
        let mut seen = Vec::from_iter(queue.receive());
        seen.extend(other.join().expect("no panic"));
        seen.extend(std::iter::from_fn(|| queue.receive()));
        seen.sort_unstable();
        assert_eq!((seen, queue.in_use()), (vec![1, 2, 3], 0));
    });
}
