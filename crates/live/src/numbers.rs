//! What a stage did: steps, time on the GPU, and where that went. Sums, so that they can be added.

use stage2_contract::stats::Histogram;

use crate::class::COUNT;

/// Upper bounds of the buckets of step times, seconds. Fixed, so that they can be added over processes
/// and time; the last bucket, without a bound, is not listed.
pub const BUCKETS_S: [f64; 19] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 25.0, 50.0, 100.0,
];

/// Sums over a time, of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageNumbers {
    /// Instances of the stage that ended.
    pub steps: u64,
    /// How long they were open together, ns.
    pub steps_ns: u64,
    /// How long each was open.
    pub step_times: Histogram,
    /// Steps by how long they were open: a count for each bucket of [`BUCKETS_S`], and one for
    /// longer steps.
    pub step_buckets: [u64; BUCKETS_S.len() + 1],
    /// Tokens of those steps that say so.
    pub tokens: u64,
    /// Steps that said how many tokens.
    pub steps_with_tokens: u64,
    /// Union of the windows of its recorded instances, ns.
    pub window_ns: u64,
    /// Time in which any GPU work of the stage ran, ns.
    pub busy_ns: u64,
    /// Gaps in that work no longer than what one launch behind another leaves, within windows, ns.
    pub gaps_ns: u64,
    /// Work that came too late for `busy_ns`, ns.
    pub late_ns: u64,
    /// Kernels, copies, fills and graphs.
    pub launches: u64,
    /// Time of work by class, ns, by the number of the class. Work that overlaps counts twice.
    pub class_ns: [u64; COUNT],
    /// Pieces of work by class, by the number of the class.
    pub class_launches: [u64; COUNT],
}

impl StageNumbers {
    /// Counts a step.
    pub(crate) fn step(&mut self, ns: u64, tokens: Option<u64>) {
        self.steps = self.steps.saturating_add(1);
        self.steps_ns = self.steps_ns.saturating_add(ns);
        self.step_times.add(ns);
        let seconds = ns as f64 / 1e9;
        let at = BUCKETS_S.partition_point(|&bound| bound < seconds);
        if let Some(bucket) = self.step_buckets.get_mut(at) {
            *bucket += 1;
        }
        if let Some(tokens) = tokens {
            self.steps_with_tokens += 1;
            self.tokens = self.tokens.saturating_add(tokens);
        }
    }

    /// Counts work of a class.
    pub(crate) fn work(&mut self, class: u8, ns: u64) {
        self.launches = self.launches.saturating_add(1);
        if let (Some(time), Some(launches)) = (
            self.class_ns.get_mut(usize::from(class)),
            self.class_launches.get_mut(usize::from(class)),
        ) {
            *time = time.saturating_add(ns);
            *launches = launches.saturating_add(1);
        }
    }

    /// Adds another time, or another process.
    pub fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.steps, other.steps),
            (&mut self.steps_ns, other.steps_ns),
            (&mut self.tokens, other.tokens),
            (&mut self.steps_with_tokens, other.steps_with_tokens),
            (&mut self.window_ns, other.window_ns),
            (&mut self.busy_ns, other.busy_ns),
            (&mut self.gaps_ns, other.gaps_ns),
            (&mut self.late_ns, other.late_ns),
            (&mut self.launches, other.launches),
        ];
        let buckets = self.step_buckets.iter_mut().zip(other.step_buckets);
        let classes = self.class_ns.iter_mut().zip(other.class_ns);
        let launches = self.class_launches.iter_mut().zip(other.class_launches);
        for (sum, more) in sums.into_iter().chain(buckets).chain(classes).chain(launches) {
            *sum = sum.saturating_add(more);
        }
        self.step_times.merge(&other.step_times);
    }

    /// Share of the windows in which the GPU worked for the stage; nothing without a window.
    pub fn busy_share(&self) -> Option<f64> {
        (self.window_ns > 0)
            .then(|| self.busy_ns.min(self.window_ns) as f64 / self.window_ns as f64)
    }

    /// Share of the windows that launch gaps take.
    pub fn gap_share(&self) -> Option<f64> {
        (self.window_ns > 0)
            .then(|| self.gaps_ns.min(self.window_ns) as f64 / self.window_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        let mut numbers = StageNumbers::default();
        for ns in [100_000, 100_001, 1_000_000, 200_000_000_000] {
            numbers.step(ns, None);
        }
        numbers.step(5, Some(7));
        assert_eq!(numbers.step_buckets[..4], [2, 1, 0, 1]);
        assert_eq!(numbers.step_buckets[BUCKETS_S.len()], 1);
        assert_eq!((numbers.steps, numbers.tokens, numbers.steps_with_tokens), (5, 7, 1));
    }

    #[test]
    fn sums_of_parts_are_the_sum() {
        let (mut whole, mut parts) =
            (StageNumbers::default(), [StageNumbers::default(), StageNumbers::default()]);
        for at in 0..20u64 {
            let part = &mut parts[(at % 2) as usize];
            whole.step(at * 1_000_000, Some(at));
            part.step(at * 1_000_000, Some(at));
            whole.work((at % 5) as u8, at);
            part.work((at % 5) as u8, at);
        }
        let [mut sum, second] = parts;
        sum.add(&second);
        assert_eq!(sum, whole);
        assert_eq!(sum.busy_share(), None);
    }
}
