//! The values of both sides -> whether they differ beyond noise, and what they were compared with.

use crate::judged::{Noise, NoiseMethod, READS_ZERO, Verdict, is_apart};

/// Share of the larger value that a difference between two single runs has to exceed.
const LEAST_SHARE: f64 = 0.05;
/// Percentage points that two shares of single runs have to differ by at least.
const LEAST_POINTS: f64 = 1.0;
/// Share of the larger value that a difference has to exceed where both sides have several runs.
/// Their spread shows the noise between runs that follow each other, and not that between days,
/// builds and places in memory: a smaller shift means nothing, however little the runs spread.
const LEAST_SHARE_OF_SEVERAL: f64 = 0.01;
/// Percentage points that two shares have to differ by where both sides have several runs.
const LEAST_POINTS_OF_SEVERAL: f64 = 0.5;
pub(crate) const ALPHA: f64 = 0.05;
/// Noise judges nothing that may be so many times the value before, or the value before so many times it. A limit in
/// percent would judge a time and not the rate that is its reciprocal.
const WIDE: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Standard error of the value, in its unit.
    pub(crate) standard_error: f64,
    pub(crate) count: u64,
}

/// What makes a difference of two values one of their logarithms. That of their reciprocals is as large.
fn logarithmic_mean(a: f64, b: f64) -> f64 {
    let ratio = (b / a).ln();
    if ratio.abs() < 1e-9 { a } else { (b - a) / ratio }
}

/// Whether this noise judges nothing of two values: that of their ratio, which is as wide for their reciprocals.
pub(crate) fn is_wide(noise: f64, [a, b]: [f64; 2]) -> bool {
    match a > 0.0 && b > 0.0 {
        true => noise / logarithmic_mean(a, b) >= WIDE.ln(),
        false => noise >= a.abs(),
    }
}

impl Spread {
    fn relative_to(self, value: f64) -> Self {
        Self { standard_error: self.standard_error / value.abs(), ..self }
    }
}

/// How the values of the runs of a side become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Centre {
    Median,
    /// Of the parts of a whole: only means add up.
    Mean,
}

impl Centre {
    pub(crate) fn of(self, values: &[f64]) -> Option<f64> {
        match self {
            Centre::Median => median(values),
            Centre::Mean => {
                let known: Vec<f64> = values.iter().copied().filter(|it| it.is_finite()).collect();
                (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
            }
        }
    }
}

/// What is known of the noise of a number before it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Expected {
    /// One value of a run, for instance a sum over all of it: its noise only several runs show.
    #[default]
    OneValue,
    /// It is of many samples (steps, calls).
    Samples,
    /// It is a time of steps, or an amount of a step over its time: a time and its reciprocal come to the same.
    Steps,
    /// It is a count that repeats exactly.
    Count,
    /// One value of a run that is a share, percent: of small shares 5 % are less than anybody cares about.
    Share,
}

/// The noise within a run of each side: within the noisiest one where a side has several.
pub(crate) type Within = Option<(Spread, Spread)>;

/// A verdict, what decided on it, and the changes that the runs allow.
pub(crate) type Judged = (Verdict, Noise, Option<[f64; 2]>);

/// Whether the sides differ. Each value is that of a run. A single run has at least the noise within it, however many
/// the other side has.
pub(crate) fn judge(
    before: &[f64],
    after: &[f64],
    expected: Expected,
    within: Within,
    centre: Centre,
) -> Judged {
    let (verdict, noise) = judge_by_pairs(before, after, expected, within, centre);
    let allowed = interval(before, after, noise.method, noise.single, centre);
    let change = centre.of(after).zip(centre.of(before)).map_or(0.0, |(new, old)| new - old);
    // What is shown says the opposite of most pairs of runs: nothing is certain.
    match allowed.is_some_and(|[least, most]| least * change < 0.0 && most * change < 0.0) {
        true => (Verdict::None, noise.of_another(), None),
        false => (verdict, noise, allowed),
    }
}

fn judge_by_pairs(
    before: &[f64],
    after: &[f64],
    expected: Expected,
    within: Within,
    centre: Centre,
) -> (Verdict, Noise) {
    let (Some(a), Some(b)) = (centre.of(before), centre.of(after)) else {
        return (Verdict::Unknown, Noise::default());
    };
    let larger = a.abs().max(b.abs());
    let least = |share: f64, points: f64| match expected {
        Expected::Share => (share * larger).max(points),
        _ => share * larger,
    };
    let share = least(LEAST_SHARE, LEAST_POINTS);
    let of_several = match expected {
        Expected::Count => 0.0,
        _ => least(LEAST_SHARE_OF_SEVERAL, LEAST_POINTS_OF_SEVERAL),
    };
    let within_runs = within.map(|(x, y)| match expected {
        Expected::Steps if a > 0.0 && b > 0.0 => {
            combined(x.relative_to(a), y.relative_to(b)) * logarithmic_mean(a, b)
        }
        _ => combined(x, y),
    });
    let single = within_runs.filter(|_| before.len().min(after.len()) == 1);
    let allowed = |method| match expected {
        Expected::Share => points(before, after, method, single),
        _ => interval(before, after, method, single, centre),
    };
    let beyond = |threshold: f64| (b - a).abs() > threshold;
    let of = |method, threshold: Option<f64>, p_value, differs: bool| {
        let allowed = allowed(method);
        let verdict = match (b > a, b < a) {
            (true, _) if differs => Verdict::Increased,
            (_, true) if differs => Verdict::Decreased,
            _ => Verdict::None,
        };
        let is_wide = || match allowed {
            Some([least, most]) => most >= a.abs() || least <= a.abs() * (1.0 / WIDE - 1.0),
            None => threshold.is_some_and(|noise| is_wide(noise, [a, b])),
        };
        let exceeds_value = verdict == Verdict::None && a != b && is_wide();
        let single = single.filter(|_| method == NoiseMethod::OneAgainstSeveral);
        let is_below = threshold.is_some_and(|threshold| !beyond(threshold));
        let too_small = verdict == Verdict::None && is_apart(allowed) && is_below;
        let is_little = |end: &f64| end.abs() < READS_ZERO * a.abs();
        let equal = a == b || allowed.is_some_and(|ends| ends.iter().all(is_little));
        let noise = Noise {
            method,
            threshold,
            p_value,
            too_small,
            equal,
            exceeds_value,
            single,
            unlike: false,
        };
        (verdict, noise)
    };
    match (before.len(), after.len(), expected) {
        (1, 1, Expected::Count) => of(NoiseMethod::Exact, Some(0.0), None, beyond(0.0)),
        (1, 1, Expected::Samples | Expected::Steps) if let Some(within) = single => {
            let method = match within > share {
                true => NoiseMethod::Instances,
                false => NoiseMethod::FivePercent,
            };
            of(method, Some(within.max(share)), None, beyond(within.max(share)))
        }
        (1, _, Expected::Count) | (_, 1, Expected::Count) => {
            let method = NoiseMethod::OneAgainstSeveral;
            of(method, Some(0.0), None, is_apart(allowed(method)) && beyond(0.0))
        }
        (1, several, _) | (several, 1, _) => match single.filter(|_| several > 1) {
            Some(_) => {
                let method = NoiseMethod::OneAgainstSeveral;
                of(method, Some(share), None, is_apart(allowed(method)) && beyond(share))
            }
            // However little the others spread: it may be off by anything.
            None => of(NoiseMethod::OneRunEach, None, None, false),
        },
        (x, y, _) => match p_value(before, after).filter(|_| smallest_p(x, y) <= ALPHA) {
            Some(p) => {
                // With ties, the test and the interval may disagree: then nothing is certain.
                let method = NoiseMethod::RankTest;
                let differs = p <= ALPHA && is_apart(allowed(method)) && beyond(of_several);
                of(method, Some(of_several), Some(p), differs)
            }
            None => {
                let method = NoiseMethod::Separation;
                let differs = is_apart(allowed(method)) && beyond(of_several);
                of(method, Some(of_several), None, differs)
            }
        },
    }
}

/// The changes that the runs of both sides allow: 0 is among them where `judge` by several runs finds no difference. By
/// the rank test they hold the change with a probability of 95 % and more; otherwise they are the differences between
/// any two runs, and the larger spread of a side. Of amounts they are the ratios of two runs, so that a time and its
/// reciprocal allow the same changes, and nothing falls by all of it. `single`: the noise within the single run of a side.
fn interval(
    before: &[f64],
    after: &[f64],
    method: NoiseMethod,
    single: Option<f64>,
    centre: Centre,
) -> Option<[f64; 2]> {
    let are_amounts = before.iter().chain(after).all(|value| *value > 0.0);
    if !are_amounts {
        let none_negative = before.iter().chain(after).all(|value| *value >= 0.0);
        let all_of_it = centre.of(before).filter(|_| none_negative).unwrap_or(f64::INFINITY);
        let [least, most] = interval_of(before, after, method, single)?;
        return Some([least.max(-all_of_it), most]);
    }
    let logarithms = |side: &[f64]| side.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let (old, new) = (centre.of(before)?, centre.of(after)?);
    let single = single.map(|noise| noise / logarithmic_mean(old, new));
    let ends = interval_of(&logarithms(before), &logarithms(after), method, single)?;
    Some(ends.map(|end| old * end.exp_m1()))
}

/// The changes of a share, in percentage points: differences, because ratios of shares lead beyond 100 %.
pub(crate) fn points(
    before: &[f64],
    after: &[f64],
    method: NoiseMethod,
    single: Option<f64>,
) -> Option<[f64; 2]> {
    let old = median(before)?;
    let [least, most] = interval_of(before, after, method, single)?;
    let is_share = before.iter().chain(after).all(|share| (0.0..=100.0).contains(share));
    Some(if is_share { [least.max(-old), most.min(100.0 - old)] } else { [least, most] })
}

fn interval_of(
    before: &[f64],
    after: &[f64],
    method: NoiseMethod,
    single: Option<f64>,
) -> Option<[f64; 2]> {
    let mut changes: Vec<f64> =
        before.iter().flat_map(|a| after.iter().map(move |b| b - a)).collect();
    changes.sort_by(f64::total_cmp);
    let (beyond, wider) = match method {
        NoiseMethod::RankTest => (pairs_beyond(before.len(), after.len()), 0.0),
        NoiseMethod::Separation | NoiseMethod::OneAgainstSeveral => {
            (0, spread(before).max(spread(after)).max(single.unwrap_or(0.0)))
        }
        _ => return None,
    };
    Some([changes.get(beyond)? - wider, changes.iter().rev().nth(beyond)? + wider])
}

/// Pairs of a run of each side that may be the other way round in ranks that the test takes for different.
fn pairs_beyond(before: usize, after: usize) -> usize {
    let ranks: Vec<usize> = (1..=before + after).collect();
    let sums = ways(&ranks, before);
    let allowed = sums.iter().sum::<f64>() * ALPHA / 2.0;
    let mut as_far = 0.0;
    let within = sums.iter().skip(before * (before + 1) / 2).take_while(|ways| {
        as_far += **ways;
        as_far <= allowed
    });
    within.count().saturating_sub(1)
}

/// The largest probability, of ranks without ties, that the test takes for a difference: how often it errs.
pub(crate) fn largest_p(before: usize, after: usize) -> f64 {
    let ranks: Vec<usize> = (1..=before + after).collect();
    let sums = ways(&ranks, before);
    let beyond = sums.iter().skip(before * (before + 1) / 2).take(pairs_beyond(before, after) + 1);
    2.0 * beyond.sum::<f64>() / sums.iter().sum::<f64>()
}

/// The noise within the relatively noisiest of the runs of a side where that is known, as that of their median: so it is
/// the same run for a time and for its reciprocal.
pub(crate) fn noisiest(runs: impl Iterator<Item = (f64, Option<Spread>)>) -> Option<Spread> {
    let runs: Vec<(f64, Option<Spread>)> = runs.collect();
    let middle = median(&runs.iter().map(|(value, _)| *value).collect::<Vec<f64>>())?;
    let known = runs.into_iter().filter_map(|(value, spread)| Some((value, spread?)));
    let relative = |value: f64, spread: Spread| match value == 0.0 || middle == 0.0 {
        true => spread.standard_error,
        false => spread.standard_error / value.abs() * middle.abs(),
    };
    let scaled = known.map(|(value, spread)| Spread {
        standard_error: relative(value, spread),
        count: spread.count,
    });
    scaled.max_by(|a, b| a.standard_error.total_cmp(&b.standard_error))
}

pub(crate) fn spread(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        0 => Some((sorted.get(sorted.len() / 2 - 1)? + upper) / 2.0),
        _ => Some(upper),
    }
}

/// Differences of two values with these errors are larger than this once in twenty times by chance.
fn combined(x: Spread, y: Spread) -> f64 {
    let freedom = x.count.saturating_add(y.count).saturating_sub(2).max(1);
    x.standard_error.hypot(y.standard_error) * student_t(freedom)
}

/// Two-sided 95 % quantile of Student's t.
fn student_t(freedom: u64) -> f64 {
    const FEW: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let at = usize::try_from(freedom.saturating_sub(1)).unwrap_or(usize::MAX);
    // Beyond the table this is right to three digits.
    FEW.get(at).copied().unwrap_or(1.96 + 2.372 / freedom as f64 + 3.2 / (freedom as f64).powi(2))
}

/// More values are not tested exactly: the table of sums grows with the cube.
const MOST_TESTED: usize = 120;

/// The probability that ranks as different as those of two samples come about by chance: the exact
/// Mann-Whitney test, two-sided, with ties; nothing for an empty sample, or for too many values.
///
/// It assumes no distribution, because that of a benchmark's runs is not known, and is exact for the three
/// to ten runs that people have.
pub(crate) fn p_value(before: &[f64], after: &[f64]) -> Option<f64> {
    let all = before.len() + after.len();
    if before.is_empty() || after.is_empty() || !is_tested(before.len(), after.len()) {
        return None;
    }
    let ranks = doubled_ranks(before, after);
    let (of_before, _) = ranks.split_at(before.len());
    let observed: usize = of_before.iter().sum();
    let total: usize = ranks.iter().sum();
    let sums = ways(&ranks, before.len());
    // The distance from the middle, times the number of values, to stay with integers.
    let far = |sum: usize| (sum * all).abs_diff(total * before.len());
    let (mut as_far, mut every) = (0.0, 0.0);
    for (sum, count) in sums.iter().enumerate() {
        every += count;
        if far(sum) >= far(observed) {
            as_far += count;
        }
    }
    (every > 0.0).then_some(as_far / every)
}

/// Of each sum, the subsets of so many of the ranks that have it.
fn ways(ranks: &[usize], size: usize) -> Vec<f64> {
    let total: usize = ranks.iter().sum();
    // ways[n][s]: subsets of n ranks whose sum is s.
    let mut ways = vec![vec![0.0f64; total + 1]; size + 1];
    if let Some(none) = ways.first_mut().and_then(|row| row.first_mut()) {
        *none = 1.0;
    }
    for &rank in ranks {
        for size in (1..=size).rev() {
            let (smaller, larger) = ways.split_at_mut(size);
            let (Some(from), Some(to)) = (smaller.last(), larger.first_mut()) else { continue };
            for (to, from) in to.iter_mut().skip(rank).zip(from) {
                *to += from;
            }
        }
    }
    ways.pop().unwrap_or_default()
}

/// The smallest probability that samples of these sizes can have: that of the two orders, of all, in
/// which the sides do not mix.
pub(crate) fn smallest_p(before: usize, after: usize) -> f64 {
    let fewer = before.min(after);
    let orders: f64 = (1..=fewer).map(|at| (before.max(after) + at) as f64 / at as f64).product();
    (2.0 / orders).min(1.0)
}

pub(crate) fn is_tested(before: usize, after: usize) -> bool {
    before + after <= MOST_TESTED
}

/// Twice the rank of each value, from 1; equal values share the mean of their ranks.
fn doubled_ranks(before: &[f64], after: &[f64]) -> Vec<usize> {
    let all = || before.iter().chain(after);
    let rank = |value: &f64| {
        let below = all().filter(|other| *other < value).count();
        let equal = all().filter(|other| *other == value).count().max(1);
        2 * below + equal + 1
    };
    all().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(a: &[f64], b: &[f64], expected: Expected, within: Within) -> (Verdict, Noise) {
        let (verdict, noise, _) = super::judge(a, b, expected, within, Centre::Median);
        (verdict, noise)
    }

    fn interval(
        a: &[f64],
        b: &[f64],
        method: NoiseMethod,
        single: Option<f64>,
    ) -> Option<[f64; 2]> {
        super::interval(a, b, method, single, Centre::Median)
    }

    #[test]
    fn parts_are_judged_by_their_means_and_never_against_the_sign_that_is_shown() {
        let of = |a: &[f64], b: &[f64]| super::judge(a, b, Expected::OneValue, None, Centre::Mean);
        let (verdict, _, ends) = of(&[10.0, 10.0, 10.0, 14.0], &[6.0, 5.0, 5.0, 4.0]);
        // 4 / 14 and 6 / 10 of a mean of 11.
        let [least, most] = ends.expect("an interval");
        assert!((least + 11.0 * 10.0 / 14.0).abs() < 1e-9 && (most + 4.4).abs() < 1e-9, "{ends:?}");
        assert_eq!(verdict, Verdict::Decreased);
        // One slow run makes the mean longer, and nearly all pairs of runs say shorter.
        let before: Vec<f64> = (0..20).map(|at| 10.0 + f64::from(at) / 100.0).collect();
        let mut after: Vec<f64> = before.iter().map(|ms| ms - 1.0).collect();
        after[0] = 900.0;
        let (verdict, noise, ends) = of(&before, &after);
        assert_eq!((verdict, ends), (Verdict::None, None));
        assert_eq!(noise.word(43.6, 10.1), "within noise");
    }

    #[test]
    fn one_value_a_side_is_not_judged() {
        // The first run was cold.
        assert_eq!(verdict(&[399.0], &[372.0]), (Verdict::None, NoiseMethod::OneRunEach));
        let several = verdict(&[399.0, 401.0, 400.0, 402.0], &[372.0, 371.0, 373.0, 370.0]);
        assert_eq!(several, (Verdict::Decreased, NoiseMethod::RankTest));
        let share = judge(&[20.0], &[40.0], Expected::Share, None);
        assert_eq!((share.0, share.1.method), (Verdict::None, NoiseMethod::OneRunEach));
    }

    #[test]
    fn noise_as_large_as_the_number_judges_nothing() {
        let found = |before: f64, after: f64, standard_error: f64| {
            let spread = Spread { standard_error, count: 30 };
            let (verdict, noise) =
                judge(&[before], &[after], Expected::Samples, Some((spread, spread)));
            (verdict, noise.exceeds_value)
        };
        assert_eq!(found(1.0, 2.0, 1.0), (Verdict::None, true));
        assert_eq!(found(0.0, 0.1, 1.0), (Verdict::None, true));
        assert_eq!(found(1.0, 1.2, 0.2), (Verdict::None, false), "it is noise");
        assert_eq!(found(1.0, 9.0, 1.0), (Verdict::Increased, false), "larger than its noise");
        assert_eq!(found(1.0, 1.0, 1.0), (Verdict::None, false), "equal");
        let (wild, calm) = ([1.0, 20.0, 2.0, 30.0], [2.0, 2.1, 2.2, 2.3]);
        assert!(!judge(&wild, &calm, Expected::OneValue, None).1.is_judged());
        assert!(judge(&calm, &[2.0, 2.15, 2.2, 2.3], Expected::OneValue, None).1.is_judged());
    }

    #[test]
    fn a_rate_is_judged_as_the_time_that_it_is_the_reciprocal_of() {
        let mut seen = [false; 2];
        for (at, error) in (1..100).flat_map(|at| [(at, 0.02), (at, 0.06), (at, 0.1), (at, 0.6)]) {
            let (a, b) = (14.0, 14.0 * (0.02 + f64::from(at) / 50.0));
            let of = |value: f64| Spread { standard_error: error * value, count: 8 };
            let time = judge(&[a], &[b], Expected::Steps, Some((of(a), of(b))));
            let within = Some((of(512.0 / a), of(512.0 / b)));
            let rate = judge(&[512.0 / a], &[512.0 / b], Expected::Steps, within);
            assert_eq!(time.0.is_change(), rate.0.is_change(), "{b} ± {error}");
            seen[usize::from(time.0.is_change())] = true;
        }
        assert_eq!(seen, [true; 2]);
    }

    #[test]
    fn noise_is_as_wide_for_a_rate_as_for_its_time() {
        let words = |before: &[f64], after: &[f64], expected, error: Option<f64>| {
            let of = |side: &[f64], invert: bool| -> Vec<f64> {
                side.iter().map(|value| if invert { 512.0 / value } else { *value }).collect()
            };
            [false, true].map(|invert| {
                let (before, after) = (of(before, invert), of(after, invert));
                let spread = |value: f64, error| Spread { standard_error: error * value, count: 8 };
                let within = error.map(|error| (spread(before[0], error), spread(after[0], error)));
                let (verdict, noise) = judge(&before, &after, expected, within);
                assert_eq!(verdict, Verdict::None);
                noise.exceeds_value
            })
        };
        let mut seen = [0; 2];
        let mut count = |[time, rate]: [bool; 2]| {
            assert_eq!(time, rate);
            seen[usize::from(time)] += 1;
        };
        for at in 1..40 {
            // Of several runs, from -13 % to -90 % or more at one end, and little at the other one.
            let slow = 10.0 * (1.0 + f64::from(at) / 10.0);
            let (a, b) = ([10.0, 10.2, slow, 10.4], [9.9, 10.1, 10.3, slow * 0.9]);
            count(words(&a, &b, Expected::OneValue, None));
            count(words(&b, &a, Expected::OneValue, None));
            count(words(&a[1..], &b[..2], Expected::OneValue, None));
            let error = f64::from(at) / 60.0;
            count(words(&[10.0], &[10.0 + error], Expected::Steps, Some(error)));
        }
        assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");
    }

    fn verdict(before: &[f64], after: &[f64]) -> (Verdict, NoiseMethod) {
        let (verdict, noise) = judge(before, after, Expected::OneValue, None);
        (verdict, noise.method)
    }

    #[test]
    fn single_runs_differ_beyond_five_percent_or_their_own_noise() {
        let spread = |standard_error| Spread { standard_error, count: 3 };
        let steady = |before, after| {
            let (verdict, noise) =
                judge(&[before], &[after], Expected::Samples, Some((spread(0.1), spread(0.1))));
            (verdict, noise.method)
        };
        assert_eq!(steady(100.0, 104.0), (Verdict::None, NoiseMethod::FivePercent));
        assert_eq!(steady(100.0, 106.0), (Verdict::Increased, NoiseMethod::FivePercent));
        assert_eq!(steady(106.0, 100.0), (Verdict::Decreased, NoiseMethod::FivePercent));
        let noisy = Some((spread(5.0), spread(5.0)));
        let (verdict, noise) = judge(&[100.0], &[115.0], Expected::Samples, noisy);
        // sqrt(50) * 2.776
        assert_eq!((verdict, noise.method), (Verdict::None, NoiseMethod::Instances));
        assert!(noise.threshold.is_some_and(|t| (t - 19.629).abs() < 0.001));
        assert_eq!(judge(&[100.0], &[125.0], Expected::Samples, noisy).0, Verdict::Increased);
        assert_eq!(judge(&[10.0], &[11.0], Expected::Count, None).0, Verdict::Increased);
        assert_eq!(judge(&[], &[1.0], Expected::Samples, noisy).0, Verdict::Unknown);
    }

    #[test]
    fn a_single_run_keeps_its_own_noise_however_many_runs_the_other_side_has() {
        let several = [14.61, 14.55, 14.57, 14.6];
        let calm = |value: f64| Spread { standard_error: value * 1e-4, count: 2 };
        let noisy = |value: f64| Spread { standard_error: value * 0.04, count: 2 };
        for (single, is_change) in [(15.6, false), (11.9, true), (19.0, true)] {
            let within = (calm(14.58), noisy(single));
            for runs in 1..=several.len() {
                let of = &several[..runs];
                let (verdict, noise) = judge(of, &[single], Expected::Steps, Some(within));
                assert_eq!(verdict.is_change(), is_change, "{runs} against 1, {single}");
                let turned = (within.1, within.0);
                let (opposite, _) = judge(&[single], of, Expected::Steps, Some(turned));
                assert_eq!(opposite.is_change(), is_change, "1 against {runs}, {single}");
                if runs > 1 {
                    let ends =
                        |noise| interval(of, &[single], NoiseMethod::OneAgainstSeveral, noise);
                    let [least, most] = ends(noise.single).expect("an interval");
                    assert_eq!(least > 0.0 || most < 0.0, is_change, "{least} to {most}");
                    let [more, less] = ends(None).expect("an interval");
                    assert!(
                        least < more && most > less,
                        "it is wider than the spread of the others"
                    );
                }
            }
        }
        // As of one run per side.
        let within = Some((calm(12.1), Spread { standard_error: 14.0, count: 2 }));
        let (verdict, noise) = judge(&[12.1; 4], &[23.3], Expected::Steps, within);
        assert_eq!((verdict, noise.is_judged()), (Verdict::None, false));
        let (verdict, noise) = judge(&several, &[15.6], Expected::OneValue, None);
        assert_eq!((verdict, noise.method), (Verdict::None, NoiseMethod::OneRunEach));
    }

    #[test]
    fn the_noisiest_run_is_the_same_one_for_a_time_and_its_rate() {
        let times = [(4.0, 0.3), (20.0, 0.1), (5.0, 0.4)];
        let of = |value: f64, error: f64| Spread { standard_error: value * error, count: 2 };
        let found = |value: fn(f64) -> f64| {
            let runs = times.map(|(time, error)| (value(time), Some(of(value(time), error))));
            noisiest(runs.into_iter()).map(|spread| spread.standard_error / value(5.0))
        };
        assert!(close(found(|time| time), 0.4) && close(found(|time| 1.0 / time), 0.4));
        assert_eq!(noisiest([(1.0, None)].into_iter()), None);
    }

    #[test]
    fn several_runs_bring_their_own_noise() {
        let few = ([10.0, 10.1, 10.2], [10.15, 10.3, 10.4]);
        assert_eq!(verdict(&few.0, &few.1), (Verdict::None, NoiseMethod::Separation));
        let apart = [10.5, 10.6, 10.65];
        assert_eq!(verdict(&few.0, &apart), (Verdict::Increased, NoiseMethod::Separation));
        // Four a side reach 0.05, also for differences below 5 %.
        let (a, b) = ([1.0, 1.001, 1.002, 1.003], [1.020, 1.021, 1.022, 1.023]);
        assert_eq!(verdict(&a, &b), (Verdict::Increased, NoiseMethod::RankTest));
        assert_eq!(verdict(&b, &a), (Verdict::Decreased, NoiseMethod::RankTest));
        assert_eq!(verdict(&a, &a), (Verdict::None, NoiseMethod::RankTest));
        assert_eq!(verdict(&[10.3], &few.0), (Verdict::None, NoiseMethod::OneRunEach));
    }

    #[test]
    fn a_shift_of_a_thousandth_is_none_however_little_the_runs_spread() {
        let near = |value: f64| [0.0, 1e-6, 2e-6, 3e-6].map(|more| value + more);
        assert_eq!(
            verdict(&near(1.0), &near(1.001)),
            (Verdict::None, NoiseMethod::RankTest),
            "four per side"
        );
        assert_eq!(
            verdict(&near(1.0)[..2], &near(1.001)[..2]),
            (Verdict::None, NoiseMethod::Separation),
            "two per side"
        );
        let judged = |a: f64, b: f64, expected| judge(&near(a), &near(b), expected, None).0;
        assert_eq!(judged(2.0, 2.4, Expected::Share), Verdict::None, "0.4 points");
        assert_eq!(judged(2.0, 2.6, Expected::Share), Verdict::Increased);
        let counts = judge(&[1000.0; 4], &[1001.0; 4], Expected::Count, None);
        assert_eq!((counts.0, counts.1.threshold), (Verdict::Increased, Some(0.0)));
    }

    #[test]
    fn quantiles_are_those_of_the_table() {
        for (freedom, expected) in
            [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (1000, 1.962)]
        {
            assert!(
                (student_t(freedom) - expected).abs() < 0.004,
                "{freedom}: {}",
                student_t(freedom)
            );
        }
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[f64::NAN]), None);
    }

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-12)
    }

    #[test]
    fn probabilities_are_those_of_the_tables() {
        // Complete separation: 2 of C(n, m) orders.
        assert!(close(p_value(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 2.0 / 20.0));
        assert!(close(p_value(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]), 2.0 / 70.0));
        // U = 1 of 4 against 4: 4 of 70.
        assert!(close(p_value(&[1.0, 2.0, 3.0, 5.0], &[4.0, 6.0, 7.0, 8.0]), 4.0 / 70.0));
        assert!(close(p_value(&[1.0, 1.0], &[1.0, 1.0]), 1.0));
        assert_eq!(p_value(&[], &[1.0]), None);
        assert!(
            close(Some(smallest_p(3, 3)), 2.0 / 20.0) && close(Some(smallest_p(5, 3)), 2.0 / 56.0)
        );
    }

    #[test]
    fn an_interval_leaves_out_zero_where_the_sides_differ() {
        let allowed = |a: &[f64], b: &[f64]| interval(a, b, NoiseMethod::RankTest, None);
        let (a, b) = ([10.0, 11.0, 12.0, 13.0], [7.0, 8.0, 9.0, 9.5]);
        let shown =
            |ends: Option<[f64; 2]>| ends.map(|ends| ends.map(|end| (end * 1e3).round() / 1e3));
        // 7 / 13 and 9.5 / 10 of 11.5.
        assert_eq!(
            shown(allowed(&a, &b)),
            Some([-5.308, -0.575]),
            "the least and the largest of 16"
        );
        let [rate_a, rate_b] = [a, b].map(|side| side.map(|value| 1.0 / value));
        let [least, most] = allowed(&rate_a, &rate_b).expect("an interval");
        let old = median(&rate_a).expect("a rate");
        let ratios = [1.0 / (1.0 + most / old), 1.0 / (1.0 + least / old)];
        let same = ratios.map(|ratio| (ratio * 1e3).round() / 1e3);
        assert_eq!(same, [0.538, 0.95], "a rate allows the changes of its time");
        // By the tables of the test, U of 5 against 5 is at most 2.
        assert_eq!([(4, 4), (5, 5), (8, 8)].map(|(a, b)| pairs_beyond(a, b)), [0, 2, 13]);
        for at in 0..200u32 {
            // No two are equal.
            let value = |n: u32| {
                f64::from((at * 7 + n * n * 31) % 17 + at % 5 * (n / 5) * 3) + f64::from(n) / 100.0
            };
            let [a, b] = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]].map(|n| n.map(value));
            let differ = p_value(&a, &b).is_some_and(|p| p <= ALPHA);
            let [least, most] = allowed(&a, &b).expect("an interval");
            assert_eq!(least > 0.0 || most < 0.0, differ, "{a:?} {b:?}");
        }
        assert_eq!(interval(&[1.0], &[2.0], NoiseMethod::FivePercent, None), None);
        let few = interval(&[10.0, 12.0], &[13.0, 15.0], NoiseMethod::Separation, None);
        assert_eq!(
            shown(few),
            Some([-1.069, 8.8]),
            "they do not lie apart by more than either spreads"
        );
        let uneven = interval(&[12.0, 3.0], &[12.0], NoiseMethod::OneAgainstSeveral, None);
        assert_eq!(shown(uneven), Some([-5.625, 112.5]), "a time falls by less than 100 %");
        let with_zero = interval(&[2.0, 0.0], &[3.0], NoiseMethod::OneAgainstSeveral, None);
        assert_eq!(with_zero, Some([-1.0, 5.0]), "no ratio to 0");
    }

    #[test]
    fn shares_are_subtracted_and_stay_within_what_is_possible() {
        let (a, b) = ([18.2, 38.0, 39.4, 52.3], [72.9, 75.0, 78.0, 83.3]);
        let [least, most] = points(&a, &b, NoiseMethod::RankTest, None).expect("an interval");
        assert!((least - 20.6).abs() < 1e-9, "72.9 against 52.3: {least}");
        // 83.3 against 18.2 is more than 38.7 may rise by.
        assert!((most - 61.3).abs() < 1e-9, "{most}");
        let (_, noise) = judge(&[50.0; 4], &[50.1; 4], Expected::Share, None);
        assert!(noise.too_small && noise.word(0.1, 50.0) == "too small", "{noise:?}");
    }

    #[test]
    fn with_ties_an_interval_never_excludes_0_where_the_test_finds_nothing() {
        for at in 0..3_000u32 {
            let value = |n: u32| f64::from((at / 7 * 13 + at * n * 5 + n * n) % 4 + 1 + n / 5 % 3);
            let [a, b] = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]].map(|n| n.map(value));
            let (verdict, noise) = judge(&a, &b, Expected::OneValue, None);
            let allowed = interval(&a, &b, NoiseMethod::RankTest, None);
            let is_none = verdict == Verdict::None && !noise.too_small && !noise.exceeds_value;
            assert!(!is_none || !is_apart(allowed), "{a:?} {b:?} {noise:?}");
        }
    }

    #[test]
    fn sides_may_be_swapped() {
        let (a, b) = ([3.0, 1.0, 4.0, 1.5], [9.0, 2.6, 5.3]);
        assert_eq!(p_value(&a, &b), p_value(&b, &a));
    }
}
