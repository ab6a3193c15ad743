//! Where a launch was profiled, and durations -> whether its counters stand for a row of kernels.
//!
//! One launch is profiled of each kernel and launch configuration, and a configuration does not say
//! what work there is: a grouped product always launches one block per multiprocessor. Rates, bounds
//! and utilisation are drawn from counters only where nothing speaks against the same work.

/// Profiler's duration / undisturbed mean of the row below which the launch did other work. The
/// profiler runs with cold caches and at other clocks, which makes the same work slower, never
/// faster; the rest is the spread of single launches about their mean.
pub const FASTER_BELOW: f64 = 0.9;
/// Profiler's duration / undisturbed mean of the row up to which a launch of another stage is held
/// to be the same work.
pub const AGREES_TO: f64 = 1.25;
/// 99th percentile / minimum of the durations of a row above which its launches may be of several
/// workloads: products of one shape stayed below 1.2, two of different shapes had 1.3.
pub const SPREAD_MOST: f64 = 1.25;
/// 99th percentile - minimum of the durations of a row, ns, above which its launches may be of
/// several workloads: short kernels of one workload varied by up to 0.99 us on an H200.
pub const SPREAD_MOST_NS: u64 = 1_000;
/// Largest / smallest median of the rows of a stage (ranges within it) that have the same kernel and
/// configuration, above which they may be of several workloads.
pub const MEDIANS_MOST: f64 = 1.1;

/// The rule in words, with its thresholds.
pub fn rule() -> String {
    format!(
        "ncu profiles one launch for each kernel and launch configuration, in one stage. We apply \
         its counters to every launch of a row only if all of this holds: the launch belongs to \
         the row's stage; it took at least {FASTER_BELOW} times the row's mean duration under ncu \
         (cold caches and other clocks make the same work slower, not faster); the 99th percentile \
         of the row's durations (or their maximum, where percentiles are unknown) is at most \
         {SPREAD_MOST} times their minimum or within {SPREAD_MOST_NS} ns of it; and the medians of \
         such rows in the stage differ by a factor of {MEDIANS_MOST} at most. If the row belongs to \
         another stage, or its stage is unknown, the duration under ncu must also lie between \
         {FASTER_BELOW} and {AGREES_TO} times its mean. Otherwise the counters describe the profiled \
         launch only: we give no rate, leave the row out of MFU by counters, and give a bound only \
         in the profiled stage, marked as that of one launch."
    )
}

/// What is known of a row and of the launch that was profiled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence<'a> {
    /// Stage that the launch was profiled in; none: not known.
    pub profiled_in: Option<&'a str>,
    /// Stage of the row.
    pub stage: &'a str,
    /// Calls of the row.
    pub calls: u64,
    /// Profiler's duration / undisturbed mean of the row.
    pub duration_ratio: Option<f64>,
    /// Shortest call, ns.
    pub min_ns: Option<u64>,
    /// 99th percentile, or the longest call where there is none, ns.
    pub high_ns: Option<u64>,
    /// Largest / smallest median of such rows in the stage.
    pub medians_ratio: Option<f64>,
}

/// Why the counters are of the profiled launch only; none: they stand for the row.
pub fn one_launch(evidence: &Evidence<'_>) -> Option<String> {
    let Evidence { profiled_in, stage, duration_ratio, .. } = *evidence;
    if let Some(ratio) = duration_ratio.filter(|ratio| *ratio < FASTER_BELOW) {
        return Some(format!(
            "other work: {ratio:.2} times the mean of the row under ncu, which never is faster"
        ));
    }
    let here = profiled_in == Some(stage);
    let agrees = duration_ratio.is_some_and(|ratio| ratio <= AGREES_TO);
    if !here && !agrees {
        let place = match profiled_in {
            Some(place) => format!("profiled in {place}"),
            None => "profiled in a stage that is not known".to_owned(),
        };
        return Some(match duration_ratio {
            Some(ratio) => format!("{place}, and {ratio:.2} times the mean of the row"),
            None => format!("{place}, with no duration to compare"),
        });
    }
    let spread = evidence.high_ns.zip(evidence.min_ns.filter(|ns| *ns > 0));
    let spread = spread.filter(|(high, low)| high.saturating_sub(*low) > SPREAD_MOST_NS);
    let spread = spread.map(|(high, low)| high as f64 / low as f64);
    if let Some(spread) = spread.filter(|s| evidence.calls > 1 && *s > SPREAD_MOST) {
        return Some(format!("durations of the row spread by a factor of {spread:.2}"));
    }
    evidence
        .medians_ratio
        .filter(|ratio| *ratio > MEDIANS_MOST)
        .map(|ratio| format!("medians of such rows in the stage differ by a factor of {ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A product as it was measured on an H200: 11.269 us on average, 1.07 times that under ncu.
    fn product() -> Evidence<'static> {
        Evidence {
            profiled_in: Some("decode"),
            stage: "decode",
            calls: 1_024,
            duration_ratio: Some(1.07),
            min_ns: Some(10_497),
            high_ns: Some(12_416),
            medians_ratio: Some(1.0),
        }
    }

    fn why(change: impl FnOnce(&mut Evidence<'static>)) -> String {
        let mut evidence = product();
        change(&mut evidence);
        one_launch(&evidence).unwrap_or_default()
    }

    #[test]
    fn one_workload_in_the_profiled_stage_stands() {
        assert_eq!(one_launch(&product()), None);
        assert_eq!(why(|e| e.duration_ratio = Some(2.37)), "", "cold caches, a short kernel");
        assert_eq!(why(|e| e.duration_ratio = None), "");
        assert_eq!(why(|e| (e.min_ns, e.high_ns) = (None, None)), "", "nothing speaks against it");
        assert_eq!(why(|e| (e.calls, e.high_ns) = (1, Some(99_999))), "");
    }

    #[test]
    fn a_grouped_product_of_two_shapes_does_not() {
        // Gate and up (twice the work) and down, with one grid: 18,849 ns on average.
        let both = |e: &mut Evidence<'_>| (e.min_ns, e.high_ns) = (Some(16_800), Some(21_760));
        assert_eq!(why(both), "durations of the row spread by a factor of 1.30");
        assert_eq!(why(|e| (e.min_ns, e.high_ns) = (Some(16_000), Some(20_000))), "", "1.25");
        // A product of 5 us of two shapes, and a short kernel that varies.
        let short = |low, high| why(|e| (e.min_ns, e.high_ns) = (Some(low), Some(high)));
        assert_eq!(short(5_217, 7_872), "durations of the row spread by a factor of 1.51");
        assert_eq!(short(1_600, 2_600), "");
        assert_eq!(short(1_600, 2_601), "durations of the row spread by a factor of 1.63");
        // The same two in ranges of their own.
        let apart = why(|e| e.medians_ratio = Some(21_100.0 / 17_500.0));
        assert!(apart.contains("differ by a factor of 1.21"), "{apart}");
    }

    #[test]
    fn another_stage_needs_the_same_duration() {
        let elsewhere = |ratio| why(|e| (e.stage, e.duration_ratio) = ("prefill", ratio));
        assert!(elsewhere(Some(0.63)).contains("0.63 times the mean"));
        assert_eq!(elsewhere(Some(0.9)), "");
        assert_eq!(elsewhere(Some(1.25)), "");
        assert_eq!(elsewhere(Some(1.42)), "profiled in decode, and 1.42 times the mean of the row");
        assert_eq!(elsewhere(None), "profiled in decode, with no duration to compare");
        let unknown = why(|e| (e.profiled_in, e.duration_ratio) = (None, Some(1.3)));
        assert!(unknown.contains("in a stage that is not known"), "{unknown}");
        assert!(why(|e| e.duration_ratio = Some(0.89)).contains("other work"), "also here");
    }

    #[test]
    fn the_rule_names_its_thresholds() {
        for number in ["0.9", "1.25", "1.1", "1000 ns"] {
            assert!(rule().contains(number), "{}", rule());
        }
    }
}
