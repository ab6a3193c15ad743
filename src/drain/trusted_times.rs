//! Which times of GPU work can be trusted: those that lie within a span of time in which collection was on, and
//! near what CUPTI's clock says.

use std::collections::VecDeque;

use stage2_contract::trace::GpuNs;

use crate::guest::collection_switch::Switches;

/// Spans that are kept: a megabyte.
const KEPT: usize = 1 << 16;

/// The spans in which collection was on, in order.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    closed: VecDeque<(GpuNs, GpuNs)>,
    /// Since when it is on.
    open: Option<GpuNs>,
    /// Switches were forgotten: nothing speaks for times that no span covers.
    overrun: bool,
}

impl Spans {
    pub(crate) fn take_in(&mut self, switches: &Switches) {
        let forgotten = switches.take_overrun();
        if let Some((on, at)) = forgotten {
            // When it went off is among what was forgotten, as is what lies between those that wait and this.
            self.open = on.then_some(at);
            self.overrun = true;
        }
        for _ in 0..switches.waiting.in_use() {
            let Some((on, at)) = switches.waiting.receive() else { break };
            if forgotten.is_some_and(|(_, last)| at <= last) {
                continue;
            }
            if on {
                self.open.get_or_insert(at);
            } else if let Some(since) = self.open.take() {
                if self.closed.len() == KEPT {
                    self.closed.pop_front();
                }
                self.closed.push_back((since, at));
            }
        }
    }

    /// Collection has been on from the start: nobody had noted that, because nobody was to switch it off.
    pub(crate) fn assume_on(&mut self) {
        if self.closed.is_empty() {
            self.open.get_or_insert(GpuNs(0));
        }
    }

    /// Whether collection was on from `start` to `end`. Where no switch was ever noted (CUPTI did not
    /// give the time) nothing speaks against it.
    pub(crate) fn cover(&self, start: GpuNs, end: GpuNs) -> bool {
        if self.closed.is_empty() && self.open.is_none() {
            return !self.overrun;
        }
        if self.open.is_some_and(|since| since <= start) {
            return true;
        }
        let later = self.closed.partition_point(|&(since, _)| since <= start);
        let span = later.checked_sub(1).and_then(|index| self.closed.get(index));
        span.is_some_and(|&(_, until)| end <= until)
    }
}

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
    use crate::guest::collection_switch::WAITING;

    fn spans(switches: &[(bool, u64)]) -> Spans {
        let queue = Switches::new(true);
        let mut spans = Spans::default();
        for &(on, at) in switches {
            queue.note(on, GpuNs(at));
            spans.take_in(&queue);
        }
        spans
    }

    #[test]
    fn work_is_covered_within_one_span_only() {
        let spans = spans(&[(true, 10), (false, 20), (true, 30), (false, 40), (true, 50)]);
        for (start, end, covered) in [
            (10, 20, true),
            (12, 15, true),
            (30, 40, true),
            (55, 99, true),
            (9, 15, false),
            (15, 21, false),
            (15, 35, false),
            (22, 25, false),
            (15, 60, false),
        ] {
            assert_eq!(spans.cover(GpuNs(start), GpuNs(end)), covered, "{start} to {end}");
        }
    }

    #[test]
    fn without_switches_nothing_is_doubted_and_the_oldest_spans_are_forgotten() {
        assert!(spans(&[]).cover(GpuNs(1), GpuNs(2)));
        assert!(!spans(&[(true, 10), (false, 20)]).cover(GpuNs(1), GpuNs(2)));
        let switches: Vec<(bool, u64)> =
            (0..2 * KEPT as u64 + 4).map(|i| (i % 2 == 0, 10 * i)).collect();
        let spans = spans(&switches);
        assert_eq!(spans.closed.len(), KEPT);
        assert!(!spans.cover(GpuNs(1), GpuNs(2)) && spans.cover(GpuNs(1001), GpuNs(1002)));
    }

    #[test]
    fn more_switches_than_wait_leave_no_span_open_that_was_closed() {
        let queue = Switches::new(true);
        let mut spans = Spans::default();
        queue.note(true, GpuNs(0));
        spans.take_in(&queue);
        assert!(spans.cover(GpuNs(1), GpuNs(2)));
        // Off and on in turn; some of them are forgotten.
        let last = WAITING as u64 + 10;
        (1..=last).for_each(|i| queue.note(i % 2 == 0, GpuNs(10 * i)));
        spans.take_in(&queue);
        assert!(!spans.cover(GpuNs(15), GpuNs(25)));
        assert!(!spans.cover(GpuNs(10 * last - 15), GpuNs(10 * last - 5)));
        assert!(spans.cover(GpuNs(10 * last + 1), GpuNs(10 * last + 2)));
    }

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
