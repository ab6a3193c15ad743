//! The open ranges of one thread over its fences, so that a correlation id finds its place.
//!
//! CUPTI numbers all traced calls of a process in one growing sequence. Where a thread's open
//! ranges changed, its fence call took a number too. Work that this thread launched with number
//! `c` belongs to the ranges that were open after the last change whose fence is not above `c`.

use std::collections::VecDeque;

use stage2_contract::trace::{RANGE_OUTSIDE, RANGE_UNKNOWN};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The innermost range instance, or `RANGE_OUTSIDE`, or `RANGE_UNKNOWN`.
    pub(crate) range: u64,
    /// Path of the names of all open ranges; 0 is none.
    pub(crate) path: u32,
    /// Collection is asked for here.
    pub(crate) wanted: bool,
}

impl Place {
    pub(crate) const OUTSIDE: Place = Place { range: RANGE_OUTSIDE, path: 0, wanted: false };
    /// Not known: counted, never guessed.
    pub(crate) const UNKNOWN: Place = Place { range: RANGE_UNKNOWN, path: 0, wanted: false };
}

/// Changes of one thread's open ranges, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    changes: VecDeque<(u64, Place)>,
    /// Changes up to this fence were forgotten to bound the memory.
    forgotten: Option<u64>,
}

impl Timeline {
    /// The timeline of a thread that was in no range since `fence`; what was before is forgotten.
    pub(crate) fn since(fence: u64) -> Self {
        if fence == 0 {
            return Self::default();
        }
        Timeline { changes: VecDeque::from([(fence, Place::OUTSIDE)]), forgotten: Some(fence) }
    }

    /// The fence of the last change; 0 is none.
    pub(crate) fn last_fence(&self) -> u64 {
        self.changes.back().map_or(0, |&(fence, _)| fence)
    }

    /// From `fence`, `place` is open. A fence below the last one can only come from another
    /// thread that ended one of this thread's ranges at the same moment; it is taken as equal.
    pub(crate) fn change(&mut self, fence: u64, place: Place) {
        let fence = self.changes.back().map_or(fence, |&(last, _)| last.max(fence));
        match self.changes.back_mut() {
            // Nothing can have been launched in between.
            Some(last) if last.0 == fence => last.1 = place,
            Some(last) if last.1 == place => {}
            _ => self.changes.push_back((fence, place)),
        }
    }

    /// Events were lost: what was open from `since` on is not known, up to the next change.
    pub(crate) fn doubt(&mut self, since: u64) {
        let first = self.changes.partition_point(|&(fence, _)| fence < since);
        self.changes.iter_mut().skip(first).for_each(|change| change.1 = Place::UNKNOWN);
        if self.changes.get(first).is_none_or(|&(fence, _)| fence > since) {
            self.changes.insert(first, (since, Place::UNKNOWN));
        }
    }

    /// What was open when this thread made call `correlation`.
    pub(crate) fn at(&self, correlation: u64) -> Place {
        let after = self.changes.partition_point(|&(fence, _)| fence <= correlation);
        match after.checked_sub(1).and_then(|i| self.changes.get(i)) {
            Some(&(_, place)) => place,
            None if self.forgotten.is_some() => Place::UNKNOWN,
            None => Place::OUTSIDE,
        }
    }

    pub(crate) fn now(&self) -> Place {
        self.changes.back().map_or(Place::OUTSIDE, |&(_, place)| place)
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Forgets the older half. Work that was launched before is from now on "not known".
    pub(crate) fn forget_half(&mut self) {
        for _ in 0..self.changes.len() / 2 {
            self.forgotten = self.changes.pop_front().map(|(fence, _)| fence);
        }
    }
}

/// CUPTI's 32-bit correlation ids into numbers that never wrap.
#[derive(Debug, Default)]
pub(crate) struct Correlations {
    latest: Option<u64>,
}

impl Correlations {
    /// The number that `id` stands for: the one nearest to the latest seen. The first one may be
    /// anywhere: other calls were numbered before.
    pub(crate) fn extend(&mut self, id: u32) -> u64 {
        let latest = *self.latest.get_or_insert(u64::from(id));
        let distance = id.wrapping_sub(latest as u32) as i32;
        let full = latest.saturating_add_signed(i64::from(distance));
        self.latest = Some(latest.max(full));
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(range: u64) -> Place {
        Place { range, path: range as u32, wanted: false }
    }

    #[test]
    fn work_belongs_to_the_last_change_at_or_before_it() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.at(5), Place::OUTSIDE);
        timeline.change(10, place(1));
        timeline.change(20, Place::OUTSIDE);
        timeline.change(30, place(2));
        let ranges: Vec<u64> = [9, 10, 19, 20, 29, 30, 99].map(|c| timeline.at(c).range).into();
        assert_eq!(ranges, [0, 1, 1, 0, 0, 2, 2]);
        assert_eq!(timeline.now(), place(2));
    }

    #[test]
    fn what_is_in_doubt_is_not_known_up_to_the_next_change() {
        let mut timeline = Timeline::default();
        (1..=4).for_each(|range| timeline.change(range * 10, place(range)));
        timeline.doubt(25);
        timeline.change(35, place(9));
        let known = [19, 24, 25, 39, 40].map(|at| timeline.at(at).range);
        assert_eq!(known, [1, 2, RANGE_UNKNOWN, RANGE_UNKNOWN, 9]);
        timeline.doubt(40);
        assert_eq!((timeline.now(), timeline.at(39)), (Place::UNKNOWN, Place::UNKNOWN));
        assert_eq!(timeline.len(), 5);
    }

    #[test]
    fn what_was_forgotten_is_not_guessed() {
        let mut timeline = Timeline::default();
        for fence in 1..=10 {
            timeline.change(fence * 10, place(fence));
        }
        timeline.forget_half();
        assert_eq!(timeline.at(55), Place::UNKNOWN);
        assert_eq!(timeline.at(60), place(6));
        assert_eq!(timeline.len(), 5);
    }

    #[test]
    fn the_first_correlation_id_may_be_any() {
        for first in [0, 1, (1 << 31) + 7, u32::MAX - 1] {
            let mut correlations = Correlations::default();
            let full = [0, 1, 2, 3].map(|step| correlations.extend(first.wrapping_add(step)));
            assert_eq!(full, [0, 1, 2, 3].map(|step| u64::from(first) + step));
        }
    }

    /// Hazard (Wrong data from the GPU): Correlation ids wrap around.
    /// Promise: They are followed in both directions.
    #[test]
    fn correlation_ids_are_followed_across_the_wrap_in_both_directions() {
        let mut correlations = Correlations::default();
        let mut expected: u64 = 0;
        while expected < 10_000_000_000 {
            assert_eq!(correlations.extend(expected as u32), expected);
            // A record that arrives late belongs to the past.
            if expected > 1_000 {
                assert_eq!(correlations.extend((expected - 1_000) as u32), expected - 1_000);
            }
            expected += 1_000_000_007;
        }
    }
}
