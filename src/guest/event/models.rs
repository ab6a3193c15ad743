//! Lost events in every order of the thread that loses them and ours.

use loom::sync::Arc;

use super::*;
use crate::base::sync::{beside, try_every_order};

/// Hazard (Threads, stacks and locks): A range is lost, and work follows.
/// Promise: The work is not placed without knowing of the loss.
///
/// A thread opens more ranges than there is room for, then launches work; its record comes to our
/// thread in a buffer. If our thread sees the record, it must see the loss: it would place the work in
/// a range that is no longer the innermost.
#[test]
fn work_that_follows_a_lost_range_is_never_placed_without_knowing_of_the_loss() {
    try_every_order("a lost range, then work", 5, || {
        let all = Arc::new((Events::default(), Counters::default(), Queue::new(1)));
        let guest = beside(&all, |(events, counters, records)| {
            let push = || events.send(Event::new(EventKind::Push, 1), counters).arrives;
            let arrived = (0..3).filter(|_| push()).count();
            records.send(arrived).expect("there is room");
        });
        let (events, counters, records) = &*all;
        let mut seen = 0;
        let mut lost_when_sent = 0;
        let mut receive = || {
            while let Some(event) = events.receive() {
                seen += 1;
                lost_when_sent = event.lost;
            }
        };
        receive();
        if let Some(arrived) = records.receive() {
            receive();
            assert_eq!(seen, arrived, "what arrived was sent before the record");
            let lost = events.lost(1) - lost_when_sent;
            assert!(arrived == 3 || lost > 0, "{seen} seen, {lost} lost");
            assert_eq!(counters.range_events.get(), 3 - arrived as u64);
        }
        guest.join().expect("it does not panic");
    });
}

/// Hazard (Threads, stacks and locks): Ends of ranges find no room.
/// Promise: They arrive, or their loss is counted.
///
/// Ends that find no place have a queue of their own, and are told where even that is full.
#[test]
fn an_end_arrives_or_its_loss_is_told() {
    try_every_order("two threads that end ranges", 3, || {
        let all = Arc::new((Events::default(), Counters::default()));
        let others: Vec<_> = [1, 2]
            .map(|thread_number| {
                beside(&all, move |all| {
                    for _ in 0..2 {
                        all.0.send(Event::new(EventKind::End, thread_number), &all.1);
                    }
                })
            })
            .into();
        for other in others {
            other.join().expect("it does not panic");
        }
        let (events, counters) = &*all;
        let arrived = std::iter::from_fn(|| events.receive()).count();
        let late = std::iter::from_fn(|| events.receive_late_end()).count();
        let lost = counters.range_events.get();
        assert_eq!(arrived + late + lost as usize, 4);
        assert_eq!(events.take_ends_lost(), lost > 0);
    });
}
