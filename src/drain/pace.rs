//! When to ask CUPTI for what it holds: every flush period, and earlier when few buffers are left.
//!
//! CUPTI keeps the part-filled buffer of a thread that is idle or has ended until someone flushes.
//! So a guest that starts many threads would use up the pool between two periods. These flushes are
//! not forced: a forced one also takes records of work that still runs, and these are lost.
//!
//! At the start, flushes come sooner: a process that is killed early has done most of its work since the last one.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::guest::collection_switch::CollectionSwitch;

/// The shortest time between two early flushes. A flush holds up launches for a moment.
const SHORTEST: Duration = Duration::from_millis(10);

/// When the first flush comes; each next one takes twice as long to come.
const FIRST: Duration = Duration::from_millis(10);
/// The period holds from this pause.
const EARLY: Duration = Duration::from_secs(1);
/// Whoever asks for such a period wants few flushes.
const FEW: Duration = Duration::from_secs(60);

pub(super) struct Pace {
    period: Duration,
    /// Until the next flush: [`Pace::period`] once the process is older.
    pause: Duration,
    flushed_at: Instant,
    /// How long to wait after an early flush before the next one.
    patience: Duration,
}

impl Pace {
    pub(super) fn new(period: Duration) -> Self {
        let pause = if period < FEW { FIRST.min(period) } else { period };
        Pace { period, pause, flushed_at: Instant::now(), patience: SHORTEST.min(period) }
    }

    pub(super) fn left(&self) -> Duration {
        self.pause.saturating_sub(self.flushed_at.elapsed())
    }

    /// Whether the next flush ends a whole period, and not an early one.
    pub(super) fn is_whole(&self) -> bool {
        self.pause == self.period
    }

    /// Whether it is time. `runs_low`: few buffers are left.
    pub(super) fn is_due(&self, runs_low: bool) -> bool {
        self.flushed_at.elapsed() >= if runs_low { self.patience } else { self.pause }
    }

    /// A flush was done. Where it brought too little back, the buffers are in use, and flushes in
    /// quick succession would only cost.
    pub(super) fn flushed(&mut self, runs_low: bool) {
        self.flushed_at = Instant::now();
        let next = self.pause.saturating_mul(2);
        self.pause = if next < EARLY { next.min(self.period) } else { self.period };
        self.patience = if runs_low { self.patience * 2 } else { SHORTEST }.min(self.period);
    }
}

#[derive(Default)]
pub(super) struct Stillness {
    /// [`CollectionSwitch::turns`] at the last flush, and flushes since it changed.
    turns: u64,
    flushes: u32,
}

impl Stillness {
    /// Whether CUPTI may hold records: collection is on, or was in the last two periods.
    pub(super) fn may_hold_records(
        &mut self,
        restricted: bool,
        collection: &CollectionSwitch,
    ) -> bool {
        let turns = collection.turns();
        let still = restricted && !collection.is_open() && turns == self.turns;
        self.turns = turns;
        self.flushes = if still { self.flushes.saturating_add(1) } else { 0 };
        self.flushes < 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_come_early_while_buffers_are_few_and_seldom_where_that_brings_none_back() {
        let mut pace = Pace::new(Duration::from_secs(3600));
        assert!(!pace.is_due(false) && !pace.is_due(true));
        std::thread::sleep(SHORTEST);
        assert!(!pace.is_due(false) && pace.is_due(true));
        pace.flushed(true);
        assert_eq!(pace.patience, 2 * SHORTEST);
        std::thread::sleep(SHORTEST);
        assert!(pace.left() < pace.period);
        for _ in 0..50 {
            pace.flushed(true);
        }
        assert_eq!(pace.patience, pace.period);
        pace.flushed(false);
        assert_eq!(pace.patience, SHORTEST);
    }

    /// Hazard (Ends of life): A process is killed in its first second.
    /// Promise: Flushes come after 10, 20, 40 ms ....
    #[test]
    fn the_first_flushes_come_soon_and_each_next_one_later_until_the_period_holds() {
        let pauses = |ms: u64| -> Vec<u64> {
            let mut pace = Pace::new(Duration::from_millis(ms));
            let mut flush = || {
                let pause = pace.pause.as_millis() as u64;
                pace.flushed(false);
                pause
            };
            (0..9).map(|_| flush()).collect()
        };
        assert_eq!(pauses(1000), [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(pauses(50), [10, 20, 40, 50, 50, 50, 50, 50, 50]);
        assert_eq!(pauses(5000)[6..], [640, 5000, 5000]);
        assert_eq!(pauses(3_600_000)[..2], [3_600_000; 2], "few are wanted");
    }

    #[test]
    fn a_period_that_is_shorter_than_the_shortest_pause_holds() {
        let mut pace = Pace::new(Duration::from_millis(1));
        pace.flushed(true);
        std::thread::sleep(Duration::from_millis(1));
        assert!(pace.is_due(false) && pace.is_due(true));
        assert_eq!(pace.left(), Duration::ZERO);
    }

    #[test]
    fn cupti_may_hold_records_for_two_periods_after_collection_went_off() {
        let (collection, mut still) = (CollectionSwitch::default(), Stillness::default());
        let mut hold = |restricted| still.may_hold_records(restricted, &collection);
        collection.enter(|_| ());
        assert!((0..5).all(|_| hold(true)), "it is on");
        collection.exit(|_| ());
        assert_eq!([(); 4].map(|()| hold(true)), [true, true, false, false]);
        collection.enter(|_| ());
        collection.exit(|_| ());
        assert!(hold(true), "it was on in between");
        assert!((0..5).all(|_| hold(false)), "it is never switched off");
    }
}
