//! How often the host is sampled.

use std::time::Duration;

/// The sampling interval. Each wake-up of the sampling thread takes a processor from another thread: on a
/// machine with overloaded processors, this costs the guest a tenth of its time.
#[derive(Debug)]
pub(super) struct Pace {
    asked: Duration,
    pub(super) interval: Duration,
    /// Rounds since the interval was last reviewed, how many of them were late, and their waits for a
    /// processor.
    looks: u32,
    late: u32,
    delay: Duration,
    /// The number of reviews in a row without overload.
    calm: u32,
}

impl Pace {
    /// The interval is reviewed after this many rounds.
    const LOOKS: u32 = 50;
    /// The interval grows to at most this many times the requested one.
    const MOST: u32 = 8;
    /// The processors are overloaded if a round waits longer than this for one on average, or if more rounds
    /// than this are late.
    const SHORT: Duration = Duration::from_micros(500);
    const LATE: u32 = Self::LOOKS / 4;
    /// They are not overloaded if a round waits less than this. After this many such reviews, the interval
    /// is halved.
    const ENOUGH: Duration = Duration::from_micros(100);
    const CALM: u32 = 4;

    pub(super) fn new(asked: Duration) -> Self {
        Pace { asked, interval: asked, looks: 0, late: 0, delay: Duration::ZERO, calm: 0 }
    }

    /// Counts a round, how late it began, and how long the thread had waited for a processor. Returns
    /// whether the interval was doubled.
    pub(super) fn note(&mut self, late: Duration, delay: Duration) -> bool {
        self.looks += 1;
        self.late += u32::from(late > self.interval / 2);
        self.delay += delay;
        if self.looks < Self::LOOKS {
            return false;
        }
        let (late, delay) = (self.late, self.delay / self.looks);
        (self.looks, self.late, self.delay) = (0, 0, Duration::ZERO);
        let is_short = delay > Self::SHORT || late > Self::LATE;
        self.calm = if !is_short && delay < Self::ENOUGH { self.calm + 1 } else { 0 };
        if is_short && self.interval < self.asked * Self::MOST {
            self.interval *= 2;
            return true;
        }
        if self.calm >= Self::CALM && self.interval > self.asked {
            self.interval = (self.interval / 2).max(self.asked);
            self.calm = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_shortage_of_processors_and_comes_back() {
        const MS: Duration = Duration::from_millis(1);
        let mut pace = Pace::new(10 * MS);
        let mut look = |late, delay, times| (0..times).filter(|_| pace.note(late, delay)).count();
        assert_eq!(look(MS, MS / 20, 500), 0, "calm");
        assert_eq!(look(MS, MS, 50), 1, "delays");
        assert_eq!(look(11 * MS, MS / 20, 50), 1, "late");
        assert_eq!(look(100 * MS, 5 * MS, 500), 1, "eight times the interval is the longest");
        assert_eq!(look(MS, MS / 5, 5_000), 0, "neither");
        assert_eq!(pace.interval, 80 * MS);
        let mut look = |times| (0..times).filter(|_| pace.note(MS, MS / 20)).count();
        assert_eq!(look(200), 0);
        assert_eq!(pace.interval, 40 * MS);
        assert_eq!((0..1_000).filter(|_| pace.note(MS, MS / 20)).count(), 0);
        assert_eq!(pace.interval, 10 * MS, "not below what was asked for");
    }
}
