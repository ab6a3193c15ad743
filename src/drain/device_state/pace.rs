//! How often NVML is read: as its reads take 5 % of a thread, and not for ever where they are slow.

use std::time::Duration;

/// The shortest pause. The total energy changes about every 100 ms.
const SHORTEST: Duration = Duration::from_millis(100);
/// So many times as long as a read took is the pause after it: 5 % of a thread. A read takes 4 ms on an
/// H200, where this is a read each 100 ms; with longer pauses a stage of a second has no energy.
const PAUSES: u32 = 19;
/// The longest pause, whatever a read took: the first read of a GPU under load can take 100 ms, and the
/// ends of stages must not lie in the dark for two seconds after it.
const LONGEST: Duration = Duration::from_millis(500);
/// A read that takes longer is slow.
const SLOW: Duration = Duration::from_millis(200);
/// After so many slow reads there is none any more.
const SLOW_READS: u32 = 3;
/// The time from one full read to the next, at least. Between them only what stages need most is read.
const FULL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Pace {
    slow: u32,
    since_full: Option<Duration>,
}

/// Slow reads were too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{SLOW_READS} reads took more than {} ms, the last one {} ms: no further one is made",
    SLOW.as_millis(),
    last.as_millis()
)]
pub(super) struct TooSlow {
    last: Duration,
}

impl Pace {
    /// Whether the next read is one of everything.
    pub(super) fn is_full(&self) -> bool {
        self.since_full.is_none_or(|since| since >= FULL)
    }

    /// A read took so long. Returns the pause until the next one.
    ///
    /// # Errors
    /// When there is to be no next one.
    pub(super) fn read(&mut self, took: Duration) -> Result<Duration, TooSlow> {
        self.slow += u32::from(took > SLOW);
        if self.slow >= SLOW_READS {
            return Err(TooSlow { last: took });
        }
        let pause = took.saturating_mul(PAUSES).clamp(SHORTEST, LONGEST);
        let before =
            if self.is_full() { Duration::ZERO } else { self.since_full.unwrap_or_default() };
        self.since_full = Some(before.saturating_add(pause));
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn reads_take_five_percent_and_are_full_once_a_second() {
        let mut pace = Pace::default();
        assert!(pace.is_full(), "the first one");
        assert_eq!(pace.read(MS / 10), Ok(SHORTEST));
        let full = (0..20).filter(|_| {
            let full = pace.is_full();
            assert_eq!(pace.read(15 * MS), Ok(285 * MS));
            full
        });
        assert_eq!(full.count(), 4, "every fourth one after the first");
    }

    #[test]
    fn a_read_that_took_long_is_followed_by_another_soon() {
        assert_eq!(Pace::default().read(150 * MS), Ok(LONGEST));
    }

    #[test]
    fn the_third_slow_read_is_the_last() {
        let mut pace = Pace::default();
        assert!(pace.read(200 * MS).is_ok() && pace.read(201 * MS).is_ok());
        assert!(pace.read(MS).is_ok() && pace.read(300 * MS).is_ok());
        let error = pace.read(250 * MS).unwrap_err().to_string();
        assert!(error.contains("3 reads took more than 200 ms, the last one 250 ms"), "{error}");
    }
}
