//! Times of the instances of a stage -> a warning where two kinds of work run under one range: a median between them is
//! the time of neither.

use super::warm_up::WarmUp;
use stage2_contract::text::numbers::{counted, shown_time};
use stage2_contract::text::shorten;
use stage2_model::finding::Id;
use stage2_model::kernels::model_stages;
use stage2_model::{Finding, Report, StepSeries};

/// The longer kind takes at least so many times as long as the shorter one.
const TIMES: f64 = 3.0;
/// The rarer kind is at least this part of the instances.
const PART: f64 = 0.25;
/// Of fewer warm instances nothing is said.
const LEAST: usize = 3;
const NAME_CHARS: usize = 60;

/// A warning for each stage with such instances, as far as single ones are known.
pub(super) fn unlike_instances(report: &Report) -> Vec<Finding> {
    let is_stage = |series: &&StepSeries| model_stages(report).any(|row| row.stage == series.stage);
    let series = report.step_series.iter().filter(is_stage);
    series.filter_map(|series| Some(warning(&series.stage, of_calls(series)?))).collect()
}

/// Whether the calls of a stage are of two kinds.
pub(super) fn is_unlike(report: &Report, stage: &str) -> bool {
    let mut series = report.step_series.iter().filter(|series| series.stage == stage);
    series.any(|series| of_calls(series).is_some())
}

/// Of a series whose steps are the calls of the stage. Those of a warm-up are of no other kind.
fn of_calls(series: &StepSeries) -> Option<Kinds> {
    let of_stage = series.path == series.stage;
    kinds(series).filter(|_| of_stage && WarmUp::in_series(series).is_none())
}

/// How many instances each of two kinds has, and how long these take on average, ns.
#[derive(Debug, PartialEq)]
struct Kinds {
    short: (usize, f64),
    long: (usize, f64),
}

fn kinds(series: &StepSeries) -> Option<Kinds> {
    if series.buckets.iter().any(|bucket| bucket.steps != 1) {
        return None;
    }
    let warm = series.buckets.iter().filter(|bucket| bucket.first > 0);
    let mut ns: Vec<u64> = warm.map(|bucket| bucket.mean_ns).collect();
    ns.sort_unstable();
    let times = |at: usize| {
        let (before, behind) = (ns.get(at.checked_sub(1)?)?, ns.get(at)?);
        Some(*behind as f64 / (*before).max(1) as f64)
    };
    let at = (1..ns.len())
        .max_by(|&a, &b| times(a).partial_cmp(&times(b)).unwrap_or(std::cmp::Ordering::Equal))?;
    let (short, long) = ns.split_at_checked(at)?;
    let rarer = short.len().min(long.len()) as f64;
    let is_notable = ns.len() >= LEAST && rarer >= PART * ns.len() as f64;
    (is_notable && times(at)? >= TIMES)
        .then(|| Kinds { short: (short.len(), mean(short)), long: (long.len(), mean(long)) })
}

fn mean(ns: &[u64]) -> f64 {
    ns.iter().map(|ns| *ns as f64).sum::<f64>() / ns.len().max(1) as f64
}

fn warning(stage: &str, Kinds { short, long }: Kinds) -> Finding {
    let take = |(count, ns): (usize, f64)| {
        let (verb, each) = if count == 1 { ("takes", "") } else { ("take", " each") };
        format!("{} {verb} about {}{each}", counted(count as u64, "call"), shown_time(ns))
    };
    Id::RangesUnlike.about(stage).found(
        format!(
            "calls of the stage {} fall into two groups: {}, and {} ({:.0} times as long)",
            shorten(stage, NAME_CHARS),
            take(short),
            take(long),
            long.1 / short.1.max(1.0)
        ),
        "the range seems to contain two kinds of work, so its median and its mean describe neither",
        "give each kind of work a separate range",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::StepBucket;

    #[test]
    fn two_kinds_of_work_under_one_range_are_told_from_a_spread() {
        let of = |ms: &[u64]| {
            let bucket = |(at, ms): (usize, &u64)| StepBucket {
                first: at as u64,
                steps: 1,
                mean_ns: ms * 1_000_000,
                ..StepBucket::default()
            };
            let buckets = ms.iter().enumerate().map(bucket).collect();
            kinds(&StepSeries { buckets, ..StepSeries::default() })
        };
        let found = of(&[6, 6, 69, 70]).expect("two kinds");
        assert_eq!((found.short, found.long), ((1, 6e6), (2, 69.5e6)));
        let said = warning("graph", found).what;
        assert_eq!(
            said,
            "calls of the stage graph fall into two groups: 1 call takes about 6.00 ms, and 2 calls take about 69.50 ms each (12 times as long)"
        );
        let bucket = |ms: u64| StepBucket { steps: 1, first: 1, mean_ns: ms, ..Default::default() };
        let series = StepSeries {
            stage: "graph".into(),
            path: "graph".into(),
            buckets: [6, 69, 70].map(bucket).into(),
            ..StepSeries::default()
        };
        let mut report = Report { step_series: vec![series], ..Report::default() };
        assert!(is_unlike(&report, "graph") && !is_unlike(&report, "decode"));
        report.step_series[0].path = "graph/step".into();
        assert!(!is_unlike(&report, "graph"), "steps within the calls");
        assert_eq!(of(&[900, 6, 7, 8]), None, "only the first, cold one differs");
        assert_eq!(of(&[6, 6, 6, 6, 6, 6, 6, 6, 6, 70]), None, "a single outlier");
        assert_eq!(of(&[6, 10, 20, 30, 50, 60]), None, "a spread");
        assert_eq!(of(&[6, 6, 70]), None, "too few");
    }
}
