//! Times of the instances of a stage -> a warning where the first of them take much longer than all others: a program
//! that compiles or plans on first use pays for it there, and not in the steps that follow.

use stage2_contract::text::numbers::{percent1, shown_time};
use stage2_contract::text::shorten;
use stage2_model::finding::Id;
use stage2_model::kernels::model_stages;
use stage2_model::rule::WARM_UP_PERCENT;
use stage2_model::{Finding, Report, StepBucket, StepSeries, StepUnit};

/// Each of the first instances takes at least so many times the median of the others.
const TIMES: u64 = 2;
/// So many, without the first one, which no warm time contains.
const LEAST: u64 = 2;
/// Times of the others have to be known from so many.
const LEAST_OTHERS: u64 = 10;
const NAME_CHARS: usize = 60;
/// What to do.
const REMEDY: &str = "open a range `warmup` around the warm-up, start to record after it (`--dormant`, then \
     `stage2-launch ctl start`), or record many more steps";

/// The first instances of a stage, which take longer than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WarmUp {
    /// How many, with the very first one.
    instances: u64,
    /// What each of them is: `step`, for instance.
    noun: &'static str,
    /// Mean time of one of them, without the very first one, ns.
    mean_ns: f64,
    /// Median time of the others, ns.
    others_ns: u64,
    /// Share of the time above that median in the time of all but the very first one, percent.
    pub(crate) percent: f64,
}

impl WarmUp {
    /// Of a stage each of whose instances is a step, as far as `report` knows how they went.
    pub(crate) fn of(report: &Report, stage: &str) -> Option<Self> {
        let series = report.step_series.iter().find(|series| series.stage == stage);
        let found = Self::in_series(series.filter(|series| series.path == stage)?)?;
        Some(Self { noun: report.noun_of(stage), ..found })
    }

    pub(super) fn in_series(series: &StepSeries) -> Option<Self> {
        let buckets = series.buckets.as_slice();
        let others_ns = median(buckets.get(buckets.len().div_ceil(2)..)?)?;
        let is_long = |bucket: &&StepBucket| bucket.min_ns >= others_ns.saturating_mul(TIMES);
        let long = buckets.iter().take_while(is_long).count();
        // The very first instance is cold, and in no warm time, unless a bucket holds more.
        let cold = usize::from(buckets.first()?.steps == 1);
        let count = |of: &[StepBucket]| of.iter().map(|bucket| bucket.steps).sum::<u64>();
        let time = |of: &[StepBucket]| {
            of.iter().map(|bucket| bucket.mean_ns as f64 * bucket.steps as f64).sum::<f64>()
        };
        let (first, others) = (buckets.get(cold..long)?, buckets.get(long..)?);
        let (counted, first_ns) = (count(first), time(first));
        let percent = (first_ns - counted as f64 * others_ns as f64) * 100.0
            / (first_ns + time(others)).max(1.0);
        let is_notable = counted >= LEAST && count(others) >= LEAST_OTHERS;
        (is_notable && percent >= WARM_UP_PERCENT).then(|| Self {
            instances: counted + cold as u64,
            noun: StepUnit::Instance.noun(),
            mean_ns: first_ns / counted as f64,
            others_ns,
            percent,
        })
    }

    /// Why nothing is advised from the means of the stage.
    pub(super) fn caveat(&self) -> String {
        format!(
            "the warm-up in its first {} {}s makes up {} % of its time",
            self.instances,
            self.noun,
            percent1(self.percent)
        )
    }

    /// What happens in the stage.
    pub(crate) fn text(&self) -> String {
        format!(
            "the first {} {}s take about {} each, the others {} (median): this warm-up makes up {} % of its time",
            self.instances,
            self.noun,
            shown_time(self.mean_ns),
            shown_time(self.others_ns as f64),
            percent1(self.percent),
        )
    }

    fn finding(&self, stage: &str) -> Finding {
        Id::RangesWarmUp.about(stage).found(
            format!("{}: {}", shorten(stage, NAME_CHARS), self.text()),
            "means, shares and the verdict contain this time, in which a program compiles, say, or chooses kernels for new \
             shapes; the median does not",
            REMEDY,
        )
    }
}

/// What to do about the warm-up of a stage, as a sentence.
pub(crate) fn advice(stage: &str) -> String {
    format!("Record {} without its warm-up: {REMEDY}.", shorten(stage, NAME_CHARS))
}

/// A warning for each stage of the model that warms up in its numbers.
pub(super) fn warm_ups(report: &Report) -> Vec<Finding> {
    let stages = model_stages(report);
    stages.filter_map(|row| Some(WarmUp::of(report, &row.stage)?.finding(&row.stage))).collect()
}

fn median(buckets: &[StepBucket]) -> Option<u64> {
    let mut ns: Vec<u64> = buckets.iter().map(|bucket| bucket.mean_ns).collect();
    ns.sort_unstable();
    ns.get(ns.len() / 2).copied().filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(ms: &[u64]) -> StepSeries {
        let bucket = |(at, ms): (usize, &u64)| StepBucket {
            first: at as u64,
            steps: 1,
            min_ns: ms * 1_000_000,
            mean_ns: ms * 1_000_000,
            max_ns: ms * 1_000_000,
        };
        StepSeries { buckets: ms.iter().enumerate().map(bucket).collect(), ..StepSeries::default() }
    }

    #[test]
    fn the_first_calls_are_a_warm_up_only_if_they_alone_are_long() {
        let of = |first: &[u64], others: &[u64]| {
            let times = [first, &others.repeat(5)].concat();
            WarmUp::in_series(&series(&times))
        };
        let steady = [10, 11, 10, 10];
        let found = of(&[400, 50, 50, 50], &steady).expect("a warm-up");
        assert_eq!((found.instances, found.others_ns), (4, 10_000_000));
        assert_eq!(found.mean_ns, 50e6);
        // 3 x 40 of 150 + 5 x 41 ms.
        assert!((found.percent - 120.0 * 100.0 / 355.0).abs() < 1e-9, "{}", found.percent);
        assert_eq!(
            found.finding("decode").what,
            "decode: the first 4 calls take about 50.00 ms each, the others 10.00 ms (median): this warm-up makes up \
             33.8 % of its time"
        );
        assert_eq!(of(&[400], &steady), None, "the first, cold one is in no warm time");
        assert_eq!(of(&[400, 50], &steady), None, "one is an outlier");
        assert_eq!(of(&[400, 19, 19, 19], &steady), None, "a little longer");
        assert_eq!(of(&[10, 50, 50, 50], &steady), None, "they are not the first");
        assert_eq!(of(&[400, 50, 50, 50], &[10, 90]), None, "others are long too");
        assert_eq!(WarmUp::in_series(&series(&[400, 50, 50, 50, 10, 10])), None, "too few others");
        let long = [10; 400];
        assert_eq!(of(&[400, 21, 21], &long), None, "too little of the time");
    }

    #[test]
    fn a_long_run_is_known_by_buckets_of_several_calls() {
        let bucket = |first: u64, min: u64, mean: u64| StepBucket {
            first,
            steps: 8,
            min_ns: min * 1_000_000,
            mean_ns: mean * 1_000_000,
            max_ns: mean * 2_000_000,
        };
        let buckets = |leading: u64| {
            let others = (2..20).map(|at| bucket(at * 8, 10, 11));
            [bucket(0, 60, 90), bucket(8, leading, 60)].into_iter().chain(others).collect()
        };
        let of = |leading| {
            WarmUp::in_series(&StepSeries { buckets: buckets(leading), ..StepSeries::default() })
        };
        assert_eq!(of(50).map(|found| found.instances), Some(16));
        assert_eq!(of(10).map(|found| found.instances), Some(8), "the second holds short ones");
    }
}
