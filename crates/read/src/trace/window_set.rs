//! Windows of a stage -> where they lie: exactly, as long as there are not too many of them.

/// Windows of one stage that are kept apart.
const MOST: usize = 1 << 12;

/// Times that overlap or touch are one. Of too many, neighbours are taken together, and how much of the
/// time from the first to the last of them they fill is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowSet {
    /// In the order of time, apart from each other.
    all: Vec<Part>,
}

/// A window, or several taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Start, ns.
    pub start: u64,
    pub(crate) end: u64,
    /// Of the time between, that within a window.
    pub filled: u64,
}

impl Part {
    const fn length(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// About how much of it lies between two times.
    fn within(self, from: u64, to: u64) -> f64 {
        let common = self.end.min(to).saturating_sub(self.start.max(from));
        common as f64 * (self.filled as f64 / self.length().max(1) as f64)
    }
}

impl WindowSet {
    /// Adds a window; one without a length leaves all as it is.
    pub fn add(&mut self, start: u64, end: u64) {
        if end <= start {
            return;
        }
        let first = self.all.partition_point(|part| part.end < start);
        let behind = self.all.partition_point(|part| part.start <= end).max(first);
        let touched = self.all.get(first..behind).unwrap_or_default();
        let known = |part: &Part| part.end.min(end).saturating_sub(part.start.max(start));
        let new = (end - start).saturating_sub(touched.iter().map(known).sum());
        let filled = touched.iter().fold(new, |sum, part| sum.saturating_add(part.filled));
        let whole = Part {
            start: touched.first().map_or(start, |part| part.start.min(start)),
            end: touched.last().map_or(end, |part| part.end.max(end)),
            filled,
        };
        self.all.splice(first..behind, [whole]);
        if self.all.len() > MOST {
            self.coarsen();
        }
    }

    /// Takes two neighbours each together.
    pub fn coarsen(&mut self) {
        let together = |pair: &[Part]| {
            let (first, last) = (*pair.first()?, *pair.last()?);
            let filled = pair.iter().fold(0, |sum: u64, part| sum.saturating_add(part.filled));
            Some(Part { start: first.start, end: last.end, filled })
        };
        self.all = self.all.chunks(2).filter_map(together).collect();
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// From the start of the first window to the end of the last one.
    pub fn extent(&self) -> (u64, u64) {
        let (first, last) = (self.all.first(), self.all.last());
        (first.map_or(0, |part| part.start), last.map_or(0, |part| part.end))
    }

    /// Time within windows.
    pub fn filled(&self) -> u64 {
        self.all.iter().fold(0, |sum, part| sum.saturating_add(part.filled))
    }

    /// Time within windows between two times.
    pub fn within(&self, from: u64, to: u64) -> f64 {
        let first = self.all.partition_point(|part| part.end <= from);
        let parts = self.all.get(first..).unwrap_or_default();
        parts.iter().take_while(|part| part.start < to).map(|part| part.within(from, to)).sum()
    }

    /// Whether a time lies in a window, or in several that were taken together.
    pub fn holds(&self, at: u64) -> bool {
        let part = self.all.partition_point(|part| part.end < at);
        self.all.get(part).is_some_and(|part| part.start <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_is_a_union_in_any_order(windows in prop::collection::vec((0u64..60, 0u64..9), 0..40)) {
            let mut set = WindowSet::default();
            windows.iter().for_each(|&(start, length)| set.add(start, start + length));
            let is_in = |at: u64| windows.iter().any(|&(start, length)| start <= at && at < start + length);
            let expected = (0..80).filter(|&at| is_in(at)).count() as u64;
            prop_assert_eq!(set.filled(), expected);
            for from in 0..70 {
                let expected = (from..from + 7).filter(|&at| is_in(at)).count() as f64;
                prop_assert_eq!(set.within(from, from + 7), expected);
            }
        }
    }

    #[test]
    fn too_many_windows_keep_their_sum() {
        let mut set = WindowSet::default();
        let count = 3 * MOST as u64;
        (0..count).for_each(|number| set.add(number * 10, number * 10 + 4));
        assert!(set.len() <= MOST);
        assert_eq!(set.filled(), count * 4);
        let half = set.within(0, count * 5);
        assert!((half / (count * 2) as f64 - 1.0).abs() < 0.001, "{half}");
        assert!(set.holds(0) && !set.holds(count * 10 + 50));
    }
}
