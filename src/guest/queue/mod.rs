//! A bounded queue from the guest's threads to ours, in which nobody waits for anybody.
//!
//! A sender takes a free slot, fills it and hands it over; each of both is one exchange of a word. In between
//! no other thread knows the slot. So a sender that stands still holds up neither other senders nor the receiver,
//! and one that never comes back (the guest left a call by `siglongjmp` out of a signal handler) costs its
//! slot and what it was about to send, which [`Queue::unfinished`] counts.
//!
//! The slot that came back last goes out first, and one that was never used only where no other is free: the
//! memory that is touched follows what waits at a time. The others are pages of zeros that were never
//! written to, so that a queue costs a forked child nothing at its start.

use std::mem::MaybeUninit;

#[cfg(not(feature = "models"))]
use crate::base::pages::Zeroed;
use crate::base::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// Bits of a place (an index plus one; 0 is none) and of a number of slots in a word. The rest of it counts
/// changes: without that, a thread that sleeps in an exchange could take a list for the same that has become
/// another one with the same slot on top.
const BITS: u32 = 18;
const MASK: u64 = (1 << BITS) - 1;

/// Zeros are an empty one.
struct Slot<T> {
    /// The place behind it in the list that it is in.
    next: AtomicU32,
    item: UnsafeCell<MaybeUninit<T>>,
}

#[cfg(not(feature = "models"))]
type Slots<T> = Zeroed<Slot<T>>;
#[cfg(feature = "models")]
type Slots<T> = Box<[Slot<T>]>;

pub(crate) struct Queue<T> {
    slots: Slots<T>,
    /// The free slots that were in use before; and how many are in use.
    free: AtomicU64,
    /// What was sent, the last one first.
    sent: AtomicU32,
    /// What the receiver has taken over of that, the first one first.
    taken: AtomicU64,
}

// SAFETY: a slot is in one hand at a time: of the sender that took it out of `free`, of the list that it was
// handed over to, or of the receiver that took it out of that. So items move from thread to thread, and are
// never shared.
unsafe impl<T: Send> Send for Queue<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Queue<T> {}

impl<T> Queue<T> {
    /// Bytes of address space for so many slots.
    pub(crate) const fn bytes(slots: usize) -> usize {
        slots * size_of::<Slot<T>>()
    }

    /// A queue of so many slots. Where the system has no address space for them, of none.
    pub(crate) fn new(slots: usize) -> Self {
        const { assert!(!std::mem::needs_drop::<T>(), "what waits at the end is not dropped") };
        debug_assert!((slots as u64) < MASK);
        #[cfg(not(feature = "models"))]
        // SAFETY: zeros are an atomic number and an item that nobody has written.
        let slots = unsafe { Zeroed::new(slots) };
        #[cfg(feature = "models")]
        let slots = (0..slots)
            .map(|_| Slot { next: AtomicU32::new(0), item: UnsafeCell::new(MaybeUninit::uninit()) })
            .collect();
        Queue { slots, free: AtomicU64::new(0), sent: AtomicU32::new(0), taken: AtomicU64::new(0) }
    }

    /// Sends `item` where fewer than `most` slots are in use; else gives it back. Never waits.
    pub(crate) fn send_below(&self, most: usize, item: T) -> Result<(), T> {
        match self.take_free(most) {
            Some(place) => {
                self.hand_over(place, item);
                Ok(())
            }
            None => Err(item),
        }
    }

    /// Sends `item` as long as there is a slot; else gives it back. Never waits.
    pub(crate) fn send(&self, item: T) -> Result<(), T> {
        self.send_below(usize::MAX, item)
    }

    /// Takes the item that was handed over first. Meant for one thread at a time: of two, both get their own
    /// items, in any order.
    pub(crate) fn receive(&self) -> Option<T> {
        let place = self.first_taken().or_else(|| self.take_over())?;
        // SAFETY: the slot was handed over, which is after it was filled, and came into our hands alone.
        let item = self.slot(place)?.item.with(|item| unsafe { item.read().assume_init() });
        self.put_back(place);
        Some(item)
    }

    /// Slots in use: of what waits, and of what is being sent.
    pub(crate) fn in_use(&self) -> usize {
        (self.free.load(Ordering::Acquire) >> BITS & MASK) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.load(Ordering::Acquire) == 0 && self.taken.load(Ordering::Acquire) & MASK == 0
    }

    /// Where nothing waits: how many senders have begun and not handed over.
    pub(crate) fn unfinished(&self) -> usize {
        if self.is_empty() { self.in_use() } else { 0 }
    }

    fn slot(&self, place: u32) -> Option<&Slot<T>> {
        self.slots.get((place as usize).wrapping_sub(1))
    }

    /// A slot for the caller alone.
    fn take_free(&self, most: usize) -> Option<u32> {
        let mut word = self.free.load(Ordering::Acquire);
        loop {
            let in_use = word >> BITS & MASK;
            if in_use as usize >= most.min(self.slots.len()) {
                return None;
            }
            let (place, next) = match (word & MASK) as u32 {
                // Every slot that was ever used is in use, so that the first unused one is behind these.
                0 => (in_use as u32 + 1, 0),
                first => (first, self.slot(first)?.next.load(Ordering::Relaxed)),
            };
            match exchange(&self.free, word, next, in_use + 1) {
                Ok(()) => return Some(place),
                Err(now) => word = now,
            }
        }
    }

    fn put_back(&self, place: u32) {
        let Some(slot) = self.slot(place) else { return };
        let mut word = self.free.load(Ordering::Acquire);
        loop {
            slot.next.store((word & MASK) as u32, Ordering::Relaxed);
            match exchange(&self.free, word, place, (word >> BITS & MASK) - 1) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }

    fn hand_over(&self, place: u32, item: T) {
        let Some(slot) = self.slot(place) else { return };
        // SAFETY: the slot is the caller's alone.
        slot.item.with_mut(|place| unsafe { (*place).write(item) });
        let mut last = self.sent.load(Ordering::Relaxed);
        loop {
            slot.next.store(last, Ordering::Relaxed);
            let handed_over =
                self.sent.compare_exchange_weak(last, place, Ordering::Release, Ordering::Relaxed);
            match handed_over {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    fn first_taken(&self) -> Option<u32> {
        let mut word = self.taken.load(Ordering::Acquire);
        loop {
            let place = (word & MASK) as u32;
            let next = self.slot(place)?.next.load(Ordering::Relaxed);
            match exchange(&self.taken, word, next, 0) {
                Ok(()) => return Some(place),
                Err(now) => word = now,
            }
        }
    }

    /// Takes over all that was sent, and gives the first one.
    fn take_over(&self) -> Option<u32> {
        let last = self.sent.swap(0, Ordering::Acquire);
        let (mut at, mut first) = (last, 0);
        // No more steps than there are slots: nobody adds to what was taken over.
        while let Some(slot) = self.slot(at) {
            let before = slot.next.load(Ordering::Relaxed);
            slot.next.store(first, Ordering::Relaxed);
            (first, at) = (at, before);
        }
        let second = self.slot(first)?.next.load(Ordering::Relaxed);
        if second != 0 {
            self.keep(second, last);
        }
        Some(first)
    }

    /// Keeps a list, whose last place is `last`, before what is kept already, which is nothing where one
    /// thread receives.
    fn keep(&self, first: u32, last: u32) {
        let Some(slot) = self.slot(last) else { return };
        let mut word = self.taken.load(Ordering::Acquire);
        loop {
            slot.next.store((word & MASK) as u32, Ordering::Relaxed);
            match exchange(&self.taken, word, first, 0) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }
}

/// Puts a place and a number of slots into a word that has not changed since.
fn exchange(word: &AtomicU64, from: u64, place: u32, in_use: u64) -> Result<(), u64> {
    let changes = (from >> (2 * BITS)).wrapping_add(1) << (2 * BITS);
    let to = changes | in_use << BITS | u64::from(place);
    word.compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Acquire).map(drop)
}

#[cfg(all(test, feature = "models"))]
mod models;

#[cfg(all(test, not(feature = "models")))]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_the_order_in_which_they_were_sent_up_to_the_bound() {
        let queue = Queue::new(5);
        for round in 0..100 {
            for item in 0..5 {
                assert_eq!(queue.send_below(5, (round, item)), Ok(()));
            }
            assert_eq!((queue.send((round, 9)), queue.in_use()), (Err((round, 9)), 5));
            // Some are taken over, and others come behind them.
            assert_eq!([queue.receive(), queue.receive()], [0, 1].map(|item| Some((round, item))));
            assert_eq!(queue.send_below(3, (round, 9)), Err((round, 9)));
            assert_eq!(queue.send_below(4, (round, 5)), Ok(()));
            let rest: Vec<_> = std::iter::from_fn(|| queue.receive()).collect();
            assert_eq!(rest, [2, 3, 4, 5].map(|item| (round, item)));
            assert_eq!((queue.in_use(), queue.is_empty()), (0, true));
        }
    }

    #[test]
    fn a_sender_that_never_comes_back_costs_its_slot_and_holds_up_nobody() {
        let queue = Queue::new(3);
        queue.send(1).unwrap();
        assert!(queue.take_free(3).is_some());
        for item in 2..100 {
            queue.send(item).unwrap();
            assert_eq!(queue.receive(), Some(item - 1));
        }
        assert_eq!((queue.unfinished(), queue.receive(), queue.receive()), (0, Some(99), None));
        assert_eq!((queue.unfinished(), queue.in_use()), (1, 1));
        assert_eq!([queue.send(1), queue.send(2), queue.send(3)], [Ok(()), Ok(()), Err(3)]);
    }

    #[test]
    fn what_is_touched_follows_what_waits() {
        let queue = Queue::new(1 << 16);
        for item in 0..100_000u64 {
            queue.send(item).unwrap();
            queue.send(item).unwrap();
            assert_eq!((queue.receive(), queue.receive()), (Some(item), Some(item)));
        }
        let is_fresh = |place: u32| queue.slot(place).unwrap().next.load(Ordering::Relaxed) == 0;
        let top = queue.take_free(1 << 16).unwrap();
        assert!(top <= 2 && (3..1 << 16).all(is_fresh));
    }

    #[test]
    fn without_slots_nothing_is_sent() {
        let queue = Queue::new(0);
        assert_eq!((queue.send(1), queue.receive(), queue.in_use()), (Err(1), None, 0));
    }

    #[test]
    fn many_threads_lose_and_double_nothing_and_keep_their_order() {
        const SENDERS: usize = 4;
        const EACH: usize = 20_000;
        let queue = Queue::new(64);
        let mut seen = [0; SENDERS];
        std::thread::scope(|scope| {
            for sender in 0..SENDERS {
                let queue = &queue;
                scope.spawn(move || {
                    for number in 0..EACH {
                        while queue.send((sender, number)).is_err() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            while seen.iter().sum::<usize>() < SENDERS * EACH {
                let Some((sender, number)) = queue.receive() else {
                    std::thread::yield_now();
                    continue;
                };
                assert_eq!(number, seen[sender], "of sender {sender}");
                seen[sender] += 1;
            }
        });
        assert_eq!((queue.in_use(), queue.is_empty()), (0, true));
    }
}
