//! How much CPU time sampling may take: when it pauses, and when it goes on.
//!
//! CUPTI takes 40 to 60 us of CPU time to decode one sample with nine metrics of an H200, whatever its
//! length: samples of 100 us without a pause take half of a core. Longer samples would cost less, but each
//! would hold many kernels, which cannot be told apart then. So samples stay short and come in bursts.

use std::time::Duration;

/// CPU time that is there at the start, so that a short run is sampled as a whole.
const AT_START: Duration = Duration::from_secs(1);
/// What comes in: one part of so many of the time that passes.
const ONE_PART_OF: u32 = 20;
/// What has to be there for a burst: about 300 samples, i.e. some steps of a decode.
const BURST: Duration = Duration::from_millis(20);

/// CPU time as income and expense.
#[derive(Debug)]
pub(super) struct Budget {
    /// Nothing is limited: the user named the interval.
    unlimited: bool,
}

impl Budget {
    pub(super) fn new(unlimited: bool) -> Self {
        Budget { unlimited }
    }

    /// Whether there is a reason to pause at all.
    pub(super) fn has_limit(&self) -> bool {
        !self.unlimited
    }

    /// Whether sampling that pauses may go on. `passed`: time since the first sample; `used`: CPU time
    /// since then.
    pub(super) fn allows_burst(&self, passed: Duration, used: Duration) -> bool {
        self.unlimited || used + BURST <= income(passed)
    }

    /// Whether sampling that runs has to pause.
    pub(super) fn is_spent(&self, passed: Duration, used: Duration) -> bool {
        !self.unlimited && used >= income(passed)
    }
}

fn income(passed: Duration) -> Duration {
    AT_START + passed / ONE_PART_OF
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_first_second_of_cpu_time_is_free_and_then_one_part_of_twenty() {
        let budget = Budget::new(false);
        assert!(budget.allows_burst(Duration::ZERO, Duration::ZERO));
        assert!(!budget.is_spent(2 * SECOND, SECOND));
        assert!(budget.is_spent(Duration::ZERO, SECOND));
        assert!(budget.is_spent(100 * SECOND, 6 * SECOND));
        assert!(!budget.is_spent(101 * SECOND, 6 * SECOND));
    }

    #[test]
    fn a_pause_ends_when_there_is_enough_for_a_burst() {
        let budget = Budget::new(false);
        assert!(!budget.allows_burst(20 * SECOND, 2 * SECOND));
        assert!(budget.allows_burst(20 * SECOND + 20 * BURST, 2 * SECOND));
    }

    #[test]
    fn a_named_interval_has_no_limit() {
        let budget = Budget::new(true);
        assert!(budget.allows_burst(Duration::ZERO, 99 * SECOND));
        assert!(!budget.is_spent(Duration::ZERO, 99 * SECOND));
    }
}
