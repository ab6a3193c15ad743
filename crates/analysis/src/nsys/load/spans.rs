//! The ranges of one thread, in any order -> for any time, the outermost range that is open.
//!
//! Of ranges that nest only the outer ones are kept, so that memory grows with the stages of a run
//! and not with its sixteen million inner ranges. Ranges that overlap without nesting are all kept;
//! where two are open, the one that was opened first is the outer one.

/// A range of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// When it was opened, ns.
    pub(super) start: i64,
    /// When it was closed, ns; [`OPEN`] if never.
    pub(super) end: i64,
    /// Which range it is.
    pub(super) label: u32,
}

/// End of a range that has none.
pub(super) const OPEN: i64 = i64::MAX;

/// No sorting for fewer than this.
const FEW: usize = 4096;

/// Outermost ranges: none contains another, so both starts and ends ascend.
#[derive(Debug, Default)]
pub(super) struct Spans {
    kept: Vec<Span>,
    /// Those that came out of order.
    late: Vec<Span>,
    /// How many were kept when it was last put in order.
    settled: usize,
}

impl Spans {
    /// Whether a range is known to be inside another one already. False says nothing.
    pub(super) fn contains(&self, start: i64, end: i64) -> bool {
        self.kept.last().is_some_and(|last| last.start <= start && end <= last.end)
    }

    /// Adds a range. Ranges of the same times: the first one counts.
    pub(super) fn add(&mut self, span: Span) {
        while let Some(last) = self.kept.last() {
            if span.start < last.start {
                self.late.push(span);
                if self.late.len() > FEW.max(self.kept.len())
                    || self.kept.len() + self.late.len() > 2 * self.settled + 16 * FEW
                {
                    self.settle();
                }
                return;
            }
            if span.end <= last.end {
                return;
            }
            if span.start > last.start {
                break;
            }
            // Both open at once, and the new one closes later: it is the outer one.
            self.kept.pop();
        }
        self.kept.push(span);
    }

    /// Puts everything in order. Has to be called before looking anything up.
    pub(super) fn settle(&mut self) {
        if !self.late.is_empty() {
            self.kept.append(&mut self.late);
            // Stable: of equal ranges the one that came first stays in front.
            self.kept.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
            let mut reached = i64::MIN;
            self.kept.retain(|span| {
                let outer = span.end > reached;
                reached = reached.max(span.end);
                outer
            });
        }
        self.settled = self.kept.len();
    }

    /// The outermost range that is open at `time`, ends included.
    pub(super) fn at(&self, time: i64) -> Option<Span> {
        let first = self.kept.partition_point(|span| span.end < time);
        self.kept.get(first).copied().filter(|span| span.start <= time)
    }

    /// All outermost ranges, in order.
    pub(super) fn kept(&self) -> &[Span] {
        &self.kept
    }

    /// Ranges held in memory.
    pub(super) fn held(&self) -> usize {
        self.kept.len() + self.late.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans(list: &[(i64, i64)]) -> Spans {
        let mut spans = Spans::default();
        for (label, &(start, end)) in (0..).zip(list) {
            spans.add(Span { start, end, label });
        }
        spans.settle();
        spans
    }

    fn label_at(spans: &Spans, time: i64) -> Option<u32> {
        spans.at(time).map(|span| span.label)
    }

    #[test]
    fn the_outermost_open_range_is_found_whatever_the_order() {
        let by_start = [(0, 10), (2, 5), (3, 4), (20, 30), (20, 25)];
        let by_end = [(3, 4), (2, 5), (0, 10), (20, 25), (20, 30)];
        for (list, first, second) in [(by_start, 0, 3), (by_end, 2, 4)] {
            let spans = spans(&list);
            assert_eq!(spans.kept().len(), 2, "{list:?}");
            for (time, expected) in [
                (0, Some(first)),
                (3, Some(first)),
                (10, Some(first)),
                (15, None),
                (20, Some(second)),
                (31, None),
            ] {
                assert_eq!(label_at(&spans, time), expected, "{list:?} at {time}");
            }
        }
    }

    #[test]
    fn the_one_that_was_opened_first_is_the_outer_one() {
        let spans = spans(&[(0, 10), (5, 15)]);
        assert_eq!((label_at(&spans, 7), label_at(&spans, 12)), (Some(0), Some(1)));
    }

    #[test]
    fn a_range_without_end_is_open_for_ever() {
        let spans = spans(&[(5, OPEN), (7, 9)]);
        assert_eq!((label_at(&spans, 4), label_at(&spans, i64::MAX)), (None, Some(0)));
    }

    #[test]
    fn nested_ranges_take_no_memory_even_inside_out() {
        let mut spans = Spans::default();
        for start in (0..1_000_000).rev() {
            spans.add(Span { start, end: 2_000_000 - start, label: 0 });
            assert!(spans.held() <= 32 * FEW, "{} held", spans.held());
        }
        spans.settle();
        assert_eq!(spans.kept().len(), 1);
    }

    proptest! {
        #[test]
        fn it_agrees_with_looking_at_every_range(
            list in prop::collection::vec((0_i64..60, 0_i64..30), 0..40),
            times in prop::collection::vec(-2_i64..100, 1..40),
        ) {
            let list: Vec<_> = list.into_iter().map(|(start, length)| (start, start + length)).collect();
            let spans = spans(&list);
            for time in times {
                let open = list.iter().filter(|(start, end)| (*start..=*end).contains(&time));
                let expected = open.min_by_key(|(start, end)| (*start, std::cmp::Reverse(*end)));
                let found = spans.at(time).map(|span| (span.start, span.end));
                prop_assert_eq!(found, expected.copied());
            }
        }
    }
}
