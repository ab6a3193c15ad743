//! Closings of stages and of the ranges right within them -> how long each took, in bounded memory.
//!
//! Which of these ranges is the step of a stage is only known once all processes were read, so each
//! is followed as if it were one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxHashMap;

use super::paths::PathIndex;
use super::stats::{EXACT_VALUES, Series, Share};
use stage2_model::{OUTLIERS_MOST, Step, StepBucket};

/// An instance of a stage, or a step of one, by the time that is its alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// How long it took, ns.
    pub ns: u64,
    /// When it began: an instance on the clock of the GPU, a step on that of the host.
    pub start: u64,
    /// The instance that it is, or is in.
    pub root: u32,
}

/// Buckets of a path, at most.
const BUCKETS: usize = 512;
/// Steps of a path that are known one by one, at most.
const KEPT: usize = 1 << 15;
/// Values of a file that are known one by one, over all paths; the longest steps are among them.
const KEPT_IN_FILE: usize = 1 << 18;
/// Buckets of a file, over all paths.
const BUCKETS_IN_FILE: usize = 1 << 19;
/// Longest steps that are remembered of a path: one more than can be outliers.
const LONGEST: usize = OUTLIERS_MOST + 1;
/// Ranges within an instance of a stage that are counted: of many more kinds none is its step.
const KINDS: usize = 64;
/// Instances of stages that are open at the same time, and whose steps are counted.
const OPEN_INSTANCES: usize = 1 << 12;

/// A range that closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) path: PathIndex,
    /// What it is among the instances of its path, its identifier and its host time.
    pub(super) step: Step,
    /// When it opened, on the clock of the host, ns.
    pub(super) start: u64,
    /// Number of the instance of its stage, and whether that is the stage's first.
    pub(super) root: u32,
    pub(super) cold: bool,
    /// It is that instance.
    pub(super) is_root: bool,
    /// It has one identifier from its start to its end: what ran in it can be looked up.
    pub(super) whole: bool,
}

/// Steps that lie in the first instance of a stage, or those in the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// All of them.
    pub count: u64,
    /// Their host time, ns.
    pub total_ns: u64,
    /// Host time of each but the very first of the path, ns.
    pub times: Series,
    /// The very first step of the path, which is not in `times`.
    first: Option<(Step, Timed)>,
    /// How many lie in an instance of the stage, where there are any.
    pub per_instance: Series,
    /// The longest of those in `times`, and when and in which instance of the stage they began.
    longest: Vec<(Step, Timed)>,
    /// How many fewer than [`LONGEST`] are remembered.
    forgotten: usize,
}

/// The instances of one path over the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTrack {
    opened: u64,
    /// In the first instance of the stage.
    pub cold: Steps,
    /// In the others.
    pub warm: Steps,
    buckets: Vec<StepBucket>,
    /// Sums of the host times of `buckets`, ns.
    sums: Vec<u64>,
    /// Steps of a bucket: a power of two.
    bucket_bits: u32,
    /// Every so many whole steps, whether each is warm.
    kept: Vec<(Step, bool)>,
    /// Numbers that are multiples of this power of two are kept.
    kept_bits: u32,
    /// Of an engine: the instances that another step followed at once, with the times until that one began in place of
    /// host times.
    pub until_next: Option<Box<StepTrack>>,
    /// Of the longest: number, the stage right before it on its thread, and how long GPU work of that one still ran when
    /// the step began, ns.
    pub before: Vec<(u64, PathIndex, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Tracks {
    paths: FxHashMap<PathIndex, StepTrack>,
    /// [`StepTrack::until_next`] of these.
    until_next: FxHashMap<PathIndex, StepTrack>,
    /// Steps in instances of stages that are open.
    in_open: HashMap<u32, Vec<(PathIndex, u64)>>,
    kept: usize,
    buckets: usize,
    share: Share,
}

impl Tracks {
    pub(super) fn within(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    /// A range of the path opened; gives its number.
    pub(super) fn opened(&mut self, path: PathIndex) -> u64 {
        let track = self.paths.entry(path).or_default();
        track.opened += 1;
        track.opened - 1
    }

    pub(super) fn closed(&mut self, closed: Closed) {
        let Closed { path, root, cold, is_root, .. } = closed;
        self.add(&closed, false);
        if is_root {
            for (path, count) in self.in_open.remove(&root).unwrap_or_default() {
                if let Some(track) = self.paths.get_mut(&path) {
                    let per_instance = &mut track.steps_mut(!cold).per_instance;
                    self.kept += usize::from(per_instance.push(count));
                }
            }
        } else if self.in_open.len() < OPEN_INSTANCES || self.in_open.contains_key(&root) {
            let counts = self.in_open.entry(root).or_default();
            if let Some((_, count)) = counts.iter_mut().find(|(known, _)| *known == path) {
                *count += 1;
            } else if counts.len() < KINDS {
                counts.push((path, 1));
            }
        }
        self.bound();
    }

    /// A step of an engine that closed, when the next one began: its time is until then.
    pub(super) fn followed(&mut self, step: Closed) {
        self.add(&step, true);
        self.bound();
    }

    fn add(&mut self, closed: &Closed, until_next: bool) {
        let Closed { path, step, start, root, cold, whole, .. } = *closed;
        let tracks = if until_next { &mut self.until_next } else { &mut self.paths };
        let track = tracks.entry(path).or_default();
        let buckets = track.buckets.len();
        let timed = Timed { ns: step.host_ns, start, root };
        self.kept += track.add(step, timed, !cold, whole);
        self.buckets = (self.buckets + track.buckets.len()).saturating_sub(buckets);
    }

    fn all(&mut self) -> impl Iterator<Item = &mut StepTrack> {
        self.paths.values_mut().chain(self.until_next.values_mut())
    }

    fn bound(&mut self) {
        if self.kept > self.share.of(KEPT_IN_FILE) {
            self.fold();
        }
        if self.buckets > self.share.of(BUCKETS_IN_FILE) {
            self.widen();
        }
    }

    /// Puts more steps into each bucket, until half of the buckets are left.
    fn widen(&mut self) {
        let mut last = usize::MAX;
        while self.buckets > self.share.of(BUCKETS_IN_FILE) / 2 && self.buckets < last {
            last = self.buckets;
            let several = self.all().filter(|track| track.buckets.len() > 1);
            several.for_each(StepTrack::double_buckets);
            self.buckets = self.all().map(|track| track.buckets.len()).sum();
        }
    }

    /// Keeps fewer values one by one, of the paths with the most of them.
    fn fold(&mut self) {
        let mut limit = KEPT;
        while self.kept > self.share.of(KEPT_IN_FILE) / 2 {
            limit /= 4;
            self.kept = self.all().map(|track| track.fold(limit)).sum();
            if limit == 0 {
                break;
            }
        }
    }

    /// The paths that closed at least once. `before` finds [`StepTrack::before`] of a step.
    pub(super) fn finish(
        mut self,
        before: impl Fn(&Timed) -> Option<(PathIndex, u64)>,
    ) -> BTreeMap<PathIndex, StepTrack> {
        for track in self.all() {
            let longest = track.cold.longest.iter().chain(&track.warm.longest);
            let found = longest.filter_map(|(step, timed)| {
                let (path, ns) = before(timed)?;
                Some((step.number, path, ns))
            });
            track.before = found.collect();
        }
        let closed = self.paths.into_iter().filter(|(_, track)| track.count() > 0);
        let with_next = closed.map(|(path, track)| {
            let until_next = self.until_next.remove(&path).map(Box::new);
            (path, StepTrack { until_next, ..track })
        });
        with_next.collect()
    }
}

impl Steps {
    fn add(&mut self, step: Step, timed: Timed) -> usize {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(step.host_ns);
        // The first step of a process holds what happens once.
        if step.number == 0 {
            self.first = Some((step, timed));
            return 0;
        }
        self.take(step, timed)
    }

    /// Gives how many more values are known one by one.
    fn take(&mut self, step: Step, timed: Timed) -> usize {
        let shortest = self.longest.last().map_or(0, |(last, _)| last.host_ns);
        let (before, most) = (self.longest.len(), LONGEST - self.forgotten);
        if before < most || step.host_ns > shortest {
            let at = self.longest.partition_point(|(known, _)| known.host_ns >= step.host_ns);
            self.longest.insert(at, (step, timed));
            self.longest.truncate(most);
        }
        let kept = usize::from(self.times.push(step.host_ns)) + self.longest.len() - before;
        self.times.fold(EXACT_VALUES);
        kept
    }

    /// Keeps at most `limit` values each; gives how many are still known one by one.
    fn fold(&mut self, limit: usize) -> usize {
        let most = limit.clamp(1, LONGEST - self.forgotten);
        self.forgotten = LONGEST - most;
        self.longest.truncate(most);
        self.longest.shrink_to_fit();
        self.times.fold(limit);
        self.per_instance.fold(limit);
        self.longest.len() + self.times.kept() + self.per_instance.kept()
    }

    /// The longest of those in `times`, the longest first.
    pub fn longest(&self) -> Vec<Timed> {
        self.longest.iter().map(|(_, timed)| *timed).collect()
    }

    /// These steps with the very first one in `times`. Where a stage has one instance only, the work of that
    /// step is in all of its numbers.
    pub fn with_first(&self) -> Self {
        let mut all = self.clone();
        if let Some((step, timed)) = self.first {
            all.take(step, timed);
        }
        all
    }

    /// Adds those of another process.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.times.merge(&other.times);
        self.per_instance.merge(&other.per_instance);
    }
}

impl StepTrack {
    /// Steps of the path.
    pub fn count(&self) -> u64 {
        self.cold.count.saturating_add(self.warm.count)
    }

    /// Those in the first instances of the stage, or in the others.
    pub fn of(&self, warm: bool) -> &Steps {
        if warm { &self.warm } else { &self.cold }
    }

    fn steps_mut(&mut self, warm: bool) -> &mut Steps {
        if warm { &mut self.warm } else { &mut self.cold }
    }

    /// Gives how many more values are known one by one.
    fn add(&mut self, step: Step, timed: Timed, warm: bool, whole: bool) -> usize {
        let mut kept = self.steps_mut(warm).add(step, timed);
        self.add_to_bucket(step);
        let is_kept = |number: u64, bits: u32| number & ((1u64 << bits) - 1) == 0;
        // The very first is not in `times` either.
        if whole && step.number > 0 && is_kept(step.number, self.kept_bits) {
            if self.kept.len() >= KEPT {
                self.thin(KEPT / 2);
            }
            if is_kept(step.number, self.kept_bits) {
                self.kept.push((step, warm));
                kept += 1;
            }
        }
        kept
    }

    fn add_to_bucket(&mut self, step: Step) {
        while step.number >> self.bucket_bits >= BUCKETS as u64 {
            self.double_buckets();
        }
        let at = (step.number >> self.bucket_bits) as usize;
        if at >= self.buckets.len() {
            self.buckets.resize(at + 1, StepBucket::default());
            self.sums.resize(at + 1, 0);
        }
        if let (Some(bucket), Some(sum)) = (self.buckets.get_mut(at), self.sums.get_mut(at)) {
            let one =
                StepBucket { steps: 1, min_ns: step.host_ns, max_ns: step.host_ns, ..*bucket };
            join(bucket, &one);
            *sum = sum.saturating_add(step.host_ns);
        }
    }

    fn double_buckets(&mut self) {
        self.bucket_bits += 1;
        let pairs = self.buckets.chunks(2).map(|pair| {
            let mut sum = StepBucket::default();
            pair.iter().for_each(|bucket| join(&mut sum, bucket));
            sum
        });
        self.buckets = pairs.collect();
        let sums = self.sums.chunks(2);
        self.sums = sums.map(|pair| pair.iter().fold(0u64, |a, &b| a.saturating_add(b))).collect();
    }

    /// Keeps at most `limit` steps, evenly.
    fn thin(&mut self, limit: usize) {
        while self.kept.len() > limit && self.kept_bits < 63 {
            self.kept_bits += 1;
            let mask = (1u64 << self.kept_bits) - 1;
            self.kept.retain(|(step, _)| step.number & mask == 0);
        }
    }

    /// Gives how many values are still known one by one.
    fn fold(&mut self, limit: usize) -> usize {
        self.thin(limit);
        self.kept.shrink_to_fit();
        self.kept.len() + self.cold.fold(limit) + self.warm.fold(limit)
    }

    /// All steps, in the order of their start; buckets without any are left out.
    pub fn buckets(&self) -> Vec<StepBucket> {
        let all = (0u64..).zip(self.buckets.iter().zip(&self.sums));
        let bucket = |(at, (bucket, &sum_ns)): (u64, (&StepBucket, &u64))| {
            let mean_ns = sum_ns.saturating_add(bucket.steps / 2).checked_div(bucket.steps)?;
            Some(StepBucket { first: at << self.bucket_bits, mean_ns, ..*bucket })
        };
        all.filter_map(bucket).collect()
    }

    /// The longest steps that took longer than `than_ns`, in the order of their start.
    pub fn longest(&self, warm: bool, than_ns: u64) -> Vec<Step> {
        let longest = if warm { &self.warm.longest } else { &self.cold.longest };
        let steps = longest.iter().map(|(step, _)| *step);
        let mut found: Vec<Step> = steps.filter(|step| step.host_ns > than_ns).collect();
        found.sort_by_key(|step| step.number);
        found
    }

    /// Of the steps that are known one by one, the first whose time is nearest to `to_ns`.
    pub fn nearest(&self, warm: bool, to_ns: u64) -> Option<Step> {
        let steps = self.kept.iter().filter(|(_, is_warm)| *is_warm == warm).map(|(step, _)| *step);
        steps.min_by_key(|step| (step.host_ns.abs_diff(to_ns), step.number, Reverse(step.range)))
    }
}

/// Adds what `other` counted; means are made of sums at the end.
fn join(bucket: &mut StepBucket, other: &StepBucket) {
    let least = match (bucket.steps, other.steps) {
        (0, _) => other.min_ns,
        (_, 0) => bucket.min_ns,
        _ => bucket.min_ns.min(other.min_ns),
    };
    bucket.min_ns = least;
    bucket.max_ns = bucket.max_ns.max(other.max_ns);
    bucket.steps += other.steps;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(number: u64, host_ns: u64, root: u32) -> Closed {
        let step = Step { number, range: 10 + number, host_ns };
        Closed { path: 5, step, start: 0, root, cold: root == 0, is_root: false, whole: true }
    }

    #[test]
    fn a_million_steps_are_512_buckets_and_their_numbers_add_up() {
        let mut tracks = Tracks::default();
        let host_ns =
            |number: u64| 1_000 + number % 97 + if number == 700_001 { 90_000 } else { 0 };
        for number in 0..1_000_000 {
            assert_eq!(tracks.opened(5), number);
            tracks.closed(closed(number, host_ns(number), 1));
        }
        let tracks = tracks.finish(|_| None);
        let track = &tracks[&5];
        let buckets = track.buckets();
        assert_eq!(buckets.len(), 489, "of 2,048 steps each");
        assert!(buckets.iter().all(|bucket| bucket.first.is_multiple_of(2_048)));
        assert_eq!(buckets.iter().map(|bucket| bucket.steps).sum::<u64>(), 1_000_000);
        let at = &buckets[700_001 / 2_048];
        assert_eq!((at.min_ns, at.max_ns), (1_000, host_ns(700_001)));
        assert!(at.mean_ns.abs_diff(1_092) <= 1, "{at:?}");
        assert!(track.kept.len() <= KEPT && track.kept.len() > KEPT / 4, "{}", track.kept.len());
        let outlier = Step { number: 700_001, range: 700_011, host_ns: host_ns(700_001) };
        assert_eq!(track.longest(true, 2_000), [outlier]);
        let median = track.nearest(true, 1_048).expect("kept");
        assert_eq!((median.host_ns, median.range), (1_048, median.number + 10));
        assert_eq!(track.nearest(false, 1_048), None);
    }

    #[test]
    fn steps_of_an_engine_are_known_by_the_time_until_the_next_one_too() {
        let mut tracks = Tracks::default();
        // The range of the longest step is the shortest.
        for (number, until_next_ns) in [(0, 70), (1, 90), (2, 60), (3, 30)] {
            tracks.closed(closed(number, 100 - until_next_ns, 1));
            tracks.followed(closed(number, until_next_ns, 1));
        }
        // Nothing followed it at once.
        tracks.closed(closed(4, 1, 1));
        let tracks = tracks.finish(|_| None);
        let track = &tracks[&5];
        assert_eq!((track.count(), track.warm.times.median()), (5, Some(25)));
        let followed = track.until_next.as_ref().expect("those of an engine");
        assert_eq!((followed.count(), followed.warm.times.median()), (4, Some(60)));
        let median = followed.nearest(true, 60).expect("kept");
        assert_eq!((median.number, median.range, median.host_ns), (2, 12, 60));
        assert_eq!(
            followed.buckets().iter().map(|b| b.max_ns).collect::<Vec<_>>(),
            [70, 90, 60, 30]
        );
    }

    #[test]
    fn times_without_end_do_not_overflow() {
        let mut tracks = Tracks::default();
        for number in 0..1_025 {
            tracks.closed(closed(number, u64::MAX, 1));
        }
        let tracks = tracks.finish(|_| None);
        assert!(tracks[&5].buckets().iter().all(|bucket| bucket.mean_ns >= u64::MAX / 4));
        assert_eq!(tracks[&5].warm.total_ns, u64::MAX);
    }

    #[test]
    fn the_first_instance_and_the_first_step_are_told_from_the_others() {
        let mut tracks = Tracks::default();
        for (number, root) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1)] {
            tracks.opened(5);
            tracks.closed(closed(number, 100 * (number + 1), root));
        }
        for root in [0, 1] {
            let stage = Closed { path: 4, is_root: true, ..closed(root.into(), 1_000, root) };
            tracks.closed(stage);
        }
        let tracks = tracks.finish(|_| None);
        let Steps { count, total_ns, times, per_instance, .. } = &tracks[&5].warm;
        assert_eq!((*count, *total_ns, times.median()), (3, 1_200, Some(400)));
        assert_eq!((per_instance.count(), per_instance.median()), (1, Some(3)));
        let Steps { count, total_ns, times, per_instance, .. } = &tracks[&5].cold;
        assert_eq!((*count, *total_ns, times.median()), (2, 300, Some(200)));
        assert_eq!(per_instance.median(), Some(2));
        assert_eq!((tracks[&4].cold.times.count(), tracks[&4].warm.times.count()), (0, 1));
    }

    #[test]
    fn many_paths_share_one_bound() {
        let mut tracks = Tracks::default();
        for number in 0..40_000 {
            for path in 0..40 {
                tracks.closed(Closed { path, ..closed(number, number, 1) });
            }
        }
        let kept: usize = tracks.paths.values_mut().map(|track| track.fold(usize::MAX)).sum();
        assert!(kept <= KEPT_IN_FILE && tracks.kept >= kept, "{kept} of {}", tracks.kept);
    }
}
