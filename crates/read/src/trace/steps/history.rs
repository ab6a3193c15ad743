//! The last launches, and how far back the same ones were: the distances that may be periods.

use stage2_contract::stats;

use super::super::stats::Span;

const RING: usize = 1 << 15;
/// The longest period that is found: two of them fit into the ring.
const LONGEST: u64 = (RING / 2) as u64;
/// Launches in a context. A short one finds short periods at once; a long one tells places apart
/// that look alike near by, such as the layers of a model.
const CONTEXTS: [usize; 4] = [8, 64, 512, 4096];
const PLACES: usize = 1 << 15;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) what: u32,
    pub(super) span: Span,
    pub(super) before_ns: u64,
}

impl Slot {
    /// Its duration, ns; 0 where its times are not known.
    pub(super) fn ns(&self) -> u64 {
        if self.span.valid() { self.span.ns() } else { 0 }
    }
}

/// Fixed memory: a ring of launches, and for each length of context a table of the last places. A
/// context that comes again at a distance makes this distance a candidate for a period.
#[derive(Clone, Debug)]
pub(super) struct History {
    ring: Vec<Slot>,
    count: u64,
    contexts: [Context; CONTEXTS.len()],
}

#[derive(Clone, Debug)]
struct Context {
    length: usize,
    hash: u64,
    /// Weight of the oldest launch in the hash.
    oldest: u64,
    /// Only contexts whose hashes have none of these bits are looked up: the same ones when a period
    /// comes again, and of the long ones few.
    every: u64,
    /// Bits of the hash, and low bits of the place behind the context; empty before the first.
    places: Vec<(u32, u32)>,
}

impl Default for History {
    fn default() -> Self {
        let context = |length: usize| Context {
            length,
            hash: 0,
            every: length as u64 / 8 - 1,
            oldest: (0..length).fold(1u64, |power, _| power.wrapping_mul(FACTOR)),
            places: Vec::new(),
        };
        Self { ring: Vec::new(), count: 0, contexts: CONTEXTS.map(context) }
    }
}

impl History {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The launch of this number, while it is remembered.
    pub(super) fn get(&self, number: u64) -> Option<&Slot> {
        let remembered = number < self.count && self.count - number <= self.ring.len() as u64;
        remembered.then(|| self.ring.get(number as usize % RING))?
    }

    pub(super) fn what(&self, number: u64) -> Option<u32> {
        self.get(number).map(|slot| slot.what)
    }

    /// Adds a launch; gives the distances at which its contexts stood before.
    pub(super) fn push(&mut self, slot: Slot) -> [Option<u64>; CONTEXTS.len()] {
        let gone = CONTEXTS.map(|length| {
            self.count.checked_sub(length as u64).and_then(|number| self.what(number))
        });
        match self.ring.get_mut(self.count as usize % RING) {
            Some(place) => *place = slot,
            None => self.ring.push(slot),
        }
        self.count += 1;
        let mut distances = [None; CONTEXTS.len()];
        for ((context, gone), distance) in self.contexts.iter_mut().zip(gone).zip(&mut distances) {
            *distance = context.push(slot.what, gone, self.count);
        }
        distances
    }
}

impl Context {
    fn push(&mut self, what: u32, gone: Option<u32>, count: u64) -> Option<u64> {
        let hash = self.hash.wrapping_mul(FACTOR).wrapping_add(weight(what));
        let gone = gone.map_or(0, |gone| weight(gone).wrapping_mul(self.oldest));
        self.hash = hash.wrapping_sub(gone);
        let mixed = stats::mixed(self.hash);
        if mixed & self.every != 0 || count < self.length as u64 {
            return None;
        }
        if self.places.is_empty() {
            self.places = vec![(0, 0); PLACES];
        }
        let place = self.places.get_mut((mixed >> 49) as usize)?;
        let (known, before) = *place;
        *place = ((mixed >> 17) as u32, count as u32);
        let distance = u64::from((count as u32).wrapping_sub(before));
        // Another context may look the same: whoever takes the distance looks at the launches.
        (known == place.0 && before != 0 && distance <= LONGEST).then_some(distance)
    }
}

fn weight(what: u32) -> u64 {
    u64::from(what).wrapping_add(FACTOR)
}

/// A hash of a number, each bit of which decides about each bit of the hash.
pub(in crate::trace) fn mixed(what: u32) -> u64 {
    stats::mixed(u64::from(what).wrapping_add(FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(what: u32) -> Slot {
        Slot { what, span: Span { start: 0, end: 0 }, before_ns: 0 }
    }

    #[test]
    fn a_context_that_comes_again_gives_its_distance() {
        let mut history = History::default();
        let mut first = [None; CONTEXTS.len()];
        for number in 0..20_000u64 {
            let found = history.push(slot((number % 700) as u32));
            for (first, found) in first.iter_mut().zip(found) {
                *first = first.or(found.filter(|&distance| distance == 700).map(|_| number));
            }
        }
        // Soon after each is whole for the second time: of the long ones not every is looked up.
        for (first, length) in first.into_iter().zip(CONTEXTS) {
            let since = first.and_then(|first| first.checked_sub(700 + length as u64 - 1));
            assert!(since.is_some_and(|since| since < length as u64), "{length}: {since:?}");
        }
        assert_eq!(first[0], Some(707), "of the short ones every one is");
        assert_eq!(history.ring.len(), 20_000);
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        for what in 0..100_000u32 {
            history.push(slot(what));
        }
        assert_eq!((history.ring.len(), history.count()), (RING, 100_000));
        assert_eq!(history.what(99_999), Some(99_999));
        assert_eq!(history.what(100_000 - RING as u64), Some((100_000 - RING) as u32));
        assert_eq!(history.what(100_000 - RING as u64 - 1), None);
        assert!(history.contexts.iter().all(|context| context.places.len() <= PLACES));
    }
}
