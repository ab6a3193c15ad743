//! Times of the instances of a stage, and of its steps -> those that are so long that they say nothing
//! about the others, and what ran in their time.
//!
//! How long an instance took is known when no work of it can be on its way any more; what ran in it has
//! been summed up by then. So its work is read a second time, in the rare case that there is an outlier.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use stage2_contract::trace::{GpuNs, MonoNs, ReadError, Record, What};

use super::clock::ClockMap;
use super::libraries::RangeNames;
use super::operation::of_kernel;
use super::paths::PathIndex;
use super::placed::Placing;
use super::stats::{EXACT_VALUES, Series, Span};
use super::step_times::{Steps, Timed};
use super::work_unions::{Part, WorkTime, WorkUnions};
use super::{ProcessCapture, StageCapture};
use stage2_model::{
    OUTLIER_OF_FEW_TIMES_MEDIAN, OUTLIER_QUARTILE_RATIOS, OUTLIER_TIMES_MEDIAN, OUTLIER_TIMES_NEXT,
    OUTLIERS_AMONG, OUTLIERS_MOST, OUTLIERS_ONE_IN, OUTLIERS_PERCENT,
};

/// Fewest times of which one is named.
const FEW: u64 = 3;

/// Times, and the longest of them, in bounded memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub(super) series: Series,
    /// The longest first: one more than can be outliers.
    longest: Vec<Timed>,
}

impl Times {
    /// Takes one; true where its time is kept by itself.
    pub fn push(&mut self, timed: Timed) -> bool {
        let at = self.longest.partition_point(|known| known.ns >= timed.ns);
        if at <= OUTLIERS_MOST {
            self.longest.insert(at, timed);
            self.longest.truncate(OUTLIERS_MOST + 1);
        }
        let kept = self.series.push(timed.ns);
        self.series.fold(EXACT_VALUES);
        kept && self.series.kept() > 0
    }

    /// Those that are outliers, the longest first.
    pub fn outliers(&self) -> &[Timed] {
        let ns: Vec<u64> = self.longest.iter().map(|timed| timed.ns).collect();
        self.longest.get(..outliers(&self.series, &ns)).unwrap_or_default()
    }
}

/// How many of the `longest` are outliers: see [`stage2_model::Outliers`]. Of fewer than
/// [`OUTLIERS_AMONG`] it is one at most.
pub fn outliers(times: &Series, longest: &[u64]) -> usize {
    let of = times.count();
    let percentile = |percent| times.percentile(percent).map(|ns| ns as f64);
    let (Some(median), Some(first), Some(third)) =
        (times.median().map(|ns| ns as f64), percentile(25), percentile(75))
    else {
        return 0;
    };
    let far = if of >= OUTLIERS_AMONG {
        let spread = (third / first.max(1.0)).powi(OUTLIER_QUARTILE_RATIOS);
        (median * OUTLIER_TIMES_MEDIAN).max(third * spread)
    } else if of >= FEW {
        median * OUTLIER_OF_FEW_TIMES_MEDIAN
    } else {
        return 0;
    };
    let most = usize::try_from(of.saturating_sub(1) / OUTLIERS_ONE_IN).unwrap_or(OUTLIERS_MOST);
    let most = most.clamp(1, OUTLIERS_MOST);
    let all_ns = times.sum();
    let is_gap = |&count: &usize| {
        let (Some(last), Some(next)) = (longest.get(count - 1), longest.get(count)) else {
            return false;
        };
        let held = longest.iter().take(count).map(|&ns| u128::from(ns)).sum::<u128>();
        *last as f64 >= far
            && *last >= next.saturating_mul(OUTLIER_TIMES_NEXT)
            && held * 100 >= all_ns * u128::from(OUTLIERS_PERCENT)
    };
    (1..=most).rev().find(is_gap).unwrap_or(0)
}

/// Times that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// How many.
    pub count: u64,
    /// Their time, ns.
    pub ns: u64,
}

impl Looked {
    /// Adds those of another process.
    pub fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.ns = self.ns.saturating_add(other.ns);
    }

    fn at(times: &Series) -> Self {
        Self { count: times.count(), ns: u64::try_from(times.sum()).unwrap_or(u64::MAX) }
    }
}

/// The outliers of a stage in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// They are steps, else instances of the stage.
    pub steps: bool,
    /// Instances, and steps, that were looked at.
    pub instances: Looked,
    /// Steps that were looked at.
    pub of_steps: Looked,
    /// There are enough others to tell them apart.
    pub among_enough: bool,
    /// In the order of time, apart from each other.
    pub all: Vec<Alone>,
}

/// A time on the clock of the GPU, and what of the stage ran in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alone {
    /// Start, ns.
    pub start: u64,
    end: u64,
    /// Nothing: it was not read.
    pub work: Option<AloneWork>,
}

/// What ran in the time of an outlier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AloneWork {
    /// How long it kept the GPU busy.
    pub busy: WorkTime,
    /// Kernels: index of the name, and how many of them and for how long, ns.
    pub kernels: BTreeMap<u32, (u64, u64)>,
    /// The longest kernel: index of its name, ns.
    pub longest: Option<(u32, u64)>,
}

impl Found {
    /// Of a stage with these times of its instances and of its steps.
    pub fn of(instances: &Times, steps: Option<&Steps>, clock: &ClockMap) -> Self {
        let found = instances.outliers();
        let among_enough = instances.series.count() >= OUTLIERS_AMONG;
        let mut all = Self {
            instances: Looked::at(&instances.series),
            of_steps: steps.map(|steps| Looked::at(&steps.times)).unwrap_or_default(),
            among_enough,
            ..Self::default()
        };
        let steps = steps.filter(|_| found.is_empty() || !among_enough);
        let in_steps = steps.map(|steps| of_steps(steps, instances.series.count()));
        let in_steps = in_steps.unwrap_or_default();
        if in_steps.is_empty() {
            all.all = found.iter().map(|t| Alone::new(t.start, t.start + t.ns)).collect();
        } else {
            let gpu = |at: u64| clock.gpu(MonoNs(at)).map(|GpuNs(at)| at);
            let alone = |t: &Timed| Some(Alone::new(gpu(t.start)?, gpu(t.start + t.ns)?));
            all.all = in_steps.iter().filter_map(alone).collect();
            (all.steps, all.among_enough) = (true, true);
        }
        all.all.sort_by_key(|alone| alone.start);
        // Those of threads may overlap.
        all.all.dedup_by(|later, before| later.start < before.end);
        all
    }
}

impl Alone {
    fn new(start: u64, end: u64) -> Self {
        Self { start, end: end.max(start), work: None }
    }

    /// Its length, ns.
    pub fn ns(&self) -> u64 {
        self.end - self.start
    }
}

/// The longest of the steps of a stage, where they are outliers. One in most of the `instances` is none:
/// it is how each of them begins, or ends.
fn of_steps(steps: &Steps, instances: u64) -> Vec<Timed> {
    let mut longest = steps.longest();
    if steps.times.count() < OUTLIERS_AMONG {
        return Vec::new();
    }
    let ns: Vec<u64> = longest.iter().map(|timed| timed.ns).collect();
    longest.truncate(outliers(&steps.times, &ns));
    let mut roots: Vec<u32> = longest.iter().map(|timed| timed.root).collect();
    roots.sort_unstable();
    roots.dedup();
    if roots.len() as u64 <= (instances / 2).max(1) { longest } else { Vec::new() }
}

/// Reads what ran in the time of the outliers of a process.
pub fn read_work(capture: &mut ProcessCapture, libraries: &RangeNames) -> Result<(), ReadError> {
    let mut unions = WorkUnions::default();
    let mut stages: FxHashMap<PathIndex, Vec<Reading>> = FxHashMap::default();
    let mut number: PathIndex = 0;
    for (&path, stage) in &capture.stages {
        for alone in stage.outliers.iter().flat_map(|found| &found.all) {
            let reading =
                Reading { at: (alone.start, alone.end), number, work: AloneWork::default() };
            stages.entry(path).or_default().push(reading);
            number += 1;
        }
    }
    if stages.is_empty() {
        return Ok(());
    }
    let mut placing = Placing::new(libraries, None, capture.joined.clone());
    let mut communicate: FxHashMap<u32, bool> = FxHashMap::default();
    for record in capture.trace()?.map_while(Result::ok) {
        let Record::Work(work) = &record else {
            placing.take(&record);
            continue;
        };
        let span = Span { start: work.start.0, end: work.end.0 };
        let stage = placing.place(work).stage.filter(|_| span.valid());
        let Some(readings) = stage.and_then(|(path, _)| stages.get_mut(&path)) else { continue };
        let first = readings.partition_point(|reading| reading.at.1 <= span.start);
        let within = readings.iter_mut().skip(first).take_while(|reading| reading.at.0 < span.end);
        for reading in within {
            let start = span.start.max(reading.at.0);
            let part = Span { start, end: span.end.min(reading.at.1) };
            let name = match work.what {
                What::Kernel { shape } => Some(placing.shape(shape).and_then(|(_, name)| name)),
                _ => None,
            };
            let communicates = name.flatten().is_some_and(|name| {
                *communicate.entry(name).or_insert_with(|| {
                    let bytes = capture.names.get(name as usize);
                    bytes.is_some_and(|bytes| of_kernel(bytes).is_some())
                })
            });
            let kind = match work.what {
                What::Copy { .. } | What::Fill { .. } => Part::Copies,
                _ if communicates => Part::Communication,
                _ => Part::Compute,
            };
            let place = unions.place(reading.number, 0);
            unions.add(place, kind, part, false);
            if let Some(name) = name.flatten() {
                reading.work.kernel(name, part.ns(), start == span.start);
            }
        }
    }
    let (_, mut busy) = unions.finish();
    for (path, readings) in stages {
        let found = capture.stages.get_mut(&path).and_then(|stage| stage.outliers.as_mut());
        for (alone, Reading { number, mut work, .. }) in
            found.into_iter().flat_map(|found| &mut found.all).zip(readings)
        {
            work.busy = busy.remove(&number).map(|stage| stage.busy).unwrap_or_default();
            alone.work = Some(work);
        }
    }
    Ok(())
}

struct Reading {
    at: (u64, u64),
    number: PathIndex,
    work: AloneWork,
}

impl AloneWork {
    fn kernel(&mut self, name: u32, ns: u64, begins: bool) {
        let (calls, sum) = self.kernels.entry(name).or_default();
        *calls += u64::from(begins);
        *sum = sum.saturating_add(ns);
        if self.longest.is_none_or(|(_, longest)| ns > longest) {
            self.longest = Some((name, ns));
        }
    }
}

impl StageCapture {
    /// Whether a time on the clock of the GPU lies in an outlier that is left out.
    pub fn is_outlier(&self, at: u64) -> bool {
        let found = self.outliers.iter().filter(|found| found.among_enough);
        let mut all = found.flat_map(|found| &found.all).filter(|alone| alone.work.is_some());
        all.any(|alone| alone.start <= at && at < alone.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(values: &[u64]) -> usize {
        let mut times = Times::default();
        for &ns in values {
            times.push(Timed { ns, ..Timed::default() });
        }
        assert!(times.longest.len() <= OUTLIERS_MOST + 1);
        times.outliers().len()
    }

    /// `among` times of about 10 ms, and these.
    fn with(among: usize, more: &[u64]) -> usize {
        let usual = (0..among as u64).map(|at| 10_000 + at * 7919 % 900);
        found(&usual.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn few_far_and_weighty_times_are_outliers() {
        assert_eq!(with(199, &[60_000_000]), 1);
        assert_eq!(with(197, &[60_000_000, 6_000_000, 100_000]), 3, "whatever their lengths");
        assert_eq!(with(197, &[6_000_000; 3]), 3);
        assert_eq!(with(7, &[60_000_000]), 1);
        // One step of three times the median, or one that holds next to nothing, turns no share.
        assert_eq!(with(29, &[30_000]), 0);
        assert_eq!(with(1_000, &[100_000]), 0);
        // Of few, one that is ten times as long as any other is named.
        assert_eq!((with(3, &[60_000]), with(3, &[600_000]), with(1, &[600_000])), (0, 1, 0));
    }

    #[test]
    fn more_than_a_few_are_how_the_program_runs() {
        // Alternating 5 and 50 ms; every eighth, sixteenth or twentieth step is long.
        for (among, many) in [(100, 100), (175, 25), (188, 12), (190, 10), (38, 2)] {
            assert_eq!(with(among, &vec![500_000; many]), 0, "{many} of {}", among + many);
        }
        assert_eq!(with(191, &[500_000; 9]), 9);
        assert_eq!(with(100_000, &[500_000_000; OUTLIERS_MOST + 1]), 0, "more than are kept");
        assert_eq!(with(100_000, &[500_000_000; OUTLIERS_MOST]), OUTLIERS_MOST);
        // In a wide spread a long time is one of many.
        let requests: Vec<u64> =
            (0..200).map(|at| 1_000 * (1 + at % 50)).chain([300_000]).collect();
        assert_eq!(found(&requests), 0);
    }

    /// `values` of a distribution, by its quantile function, at random places.
    fn drawn(places: &[f64], quantile: impl Fn(f64) -> f64) -> usize {
        found(&places.iter().map(|&u| (quantile(u) * 1e6) as u64).collect::<Vec<_>>())
    }

    /// Standard normal, within 5e-4 (Abramowitz and Stegun 26.2.23).
    fn normal(u: f64) -> f64 {
        let t = (-2.0 * u.min(1.0 - u).ln()).sqrt();
        let z = t
            - (2.515_517 + 0.802_853 * t + 0.010_328 * t * t)
                / (1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t * t * t);
        if u < 0.5 { -z } else { z }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, rng_seed: prop::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]
        #[test]
        fn heavy_tails_are_ordinary(places in prop::collection::vec(1e-6f64..0.999_999, 8..600)) {
            prop_assert_eq!(drawn(&places, |u| 10.0 + normal(u)), 0, "normal");
            for sigma in [0.05, 0.25, 0.5, 1.0, 1.5] {
                prop_assert_eq!(drawn(&places, |u| (sigma * normal(u)).exp()), 0, "lognormal {}", sigma);
            }
            prop_assert_eq!(drawn(&places, |u| -(1.0 - u).ln()), 0, "exponential");
            // A fixed part and an exponential one, as of a queue.
            prop_assert_eq!(drawn(&places, |u| 1.0 - (1.0 - u).ln()), 0, "shifted exponential");
            prop_assert_eq!(drawn(&places, |u| (-(1.0 - u).ln()).powf(1.5)), 0, "Weibull");
        }
    }

    #[test]
    fn even_of_the_heaviest_tails_hardly_any_is_an_outlier() {
        let mut state = 1u64;
        let mut random = move || {
            // Knuth's MMIX.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        for (alpha, most) in [(3.0, 20), (2.5, 40), (2.0, 100)] {
            let runs = (0..1_000).filter(|_| {
                let places: Vec<f64> = (0..200).map(|_| random()).collect();
                drawn(&places, |u| (1.0 - u).powf(-1.0 / alpha)) > 0
            });
            let runs = runs.count();
            assert!(runs <= most, "Pareto {alpha}: {runs} of 1,000 runs");
        }
    }
}
