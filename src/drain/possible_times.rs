//! CUPTI's clock into the times that GPU work can have: a record of the far future would make one kernel
//! last for centuries.

use stage2_contract::trace::GpuNs;

/// Work that was recorded later than the clock was read, or on a clock that was set meanwhile, by less
/// than this, is possible.
const AHEAD_NS: u64 = 60_000_000_000;
/// Work is launched before the clock is first read, by less than this.
const BEFORE_NS: u64 = 24 * 3_600_000_000_000;

/// From a day before the earliest reading of the clock to a minute after the latest. Everything is possible
/// where it was never read.
#[derive(Debug, Default)]
pub(super) struct PossibleTimes(Option<(GpuNs, GpuNs)>);

impl PossibleTimes {
    /// The clock was read. It may have been set back: readings before that stay possible.
    pub(super) fn note(&mut self, now: GpuNs) {
        let (earliest, latest) = self.0.unwrap_or((now, now));
        self.0 = Some((earliest.min(now), latest.max(now)));
    }

    /// Whether work can have run then.
    #[inline]
    pub(super) fn has(&self, start: GpuNs, end: GpuNs) -> bool {
        self.0.is_none_or(|(earliest, latest)| {
            start.0 >= earliest.0.saturating_sub(BEFORE_NS)
                && end.0 <= latest.0.saturating_add(AHEAD_NS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_near_the_readings_are_possible_and_those_of_another_age_are_not() {
        let mut possible = PossibleTimes::default();
        assert!(possible.has(GpuNs(1), GpuNs(u64::MAX)), "nothing is known yet");
        let now = 1_790_000_000_000_000_000;
        possible.note(GpuNs(now));
        assert!(possible.has(GpuNs(now - 5), GpuNs(now + 5)));
        assert!(!possible.has(GpuNs(now), GpuNs(i64::MAX as u64)));
        assert!(!possible.has(GpuNs(7), GpuNs(now)));
        // Set back by an hour: what ran before that was possible.
        possible.note(GpuNs(now - 3_600_000_000_000));
        assert!(possible.has(GpuNs(now - 5), GpuNs(now)));
    }
}
