//! Long stretches of a run in which the steps of a stage are slower than in others: where they are, and what differs.

use serde::{Deserialize, Serialize};
use stage2_contract::text::numbers::{count, shown_time, time_scale};
use stage2_contract::text::{capitalised, code_in_text};

use crate::step_timeline::{StepBucket, StepSeries};

/// Buckets of a stretch at least, and of all of them.
const LONG: usize = 8;
const FEWEST: usize = 3 * LONG;
/// The slow ones take longer by at least this part of the fast ones, ...
const LONGER: f64 = 0.15;
/// ... and by so many times the spread within the stretches.
const SPREADS: f64 = 3.0;
/// What is less than this part of the difference, or of a batch, does not count.
const ALIKE: f64 = 0.05;
/// Stretches that are named.
const NAMED: usize = 4;
/// Standard errors from which one of many functions takes longer for certain.
const ERRORS: f64 = 3.0;

/// Steps of long stretches, those in the slow ones and the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plateaus {
    /// The slow ones.
    pub slow: Plateau,
    /// The others.
    pub fast: Plateau,
    /// What the thread of the steps does for longer in the slow ones by more than three standard errors, the most first.
    pub longer: Vec<LongerFunction>,
}

/// The steps of some stretches. Means are without steps of more than twice the median.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plateau {
    /// First and last step of each stretch, from 0.
    pub stretches: Vec<(u64, u64)>,
    /// Steps that the means are of.
    pub steps: u64,
    /// Mean time of a step, ns.
    pub mean_ns: f64,
    /// Mean sum of the GPU work that starts in a step, ns; 0: most steps have none that was recorded.
    pub gpu_ns: f64,
    /// Mean number of requests of a step; 0: not known.
    pub requests: f64,
    /// Mean tokens of context of all requests of a step; 0: not known.
    pub context_tokens: f64,
    /// Samples of their thread.
    pub samples: u64,
}

/// A function that takes longer in the slow ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LongerFunction {
    /// The function.
    pub function: String,
    /// By how much per step, ns.
    pub more_ns: f64,
    /// Standard error of that, ns.
    pub error_ns: f64,
}

impl StepSeries {
    /// The slow and the other long stretches, as first and last steps; nothing where times only spread, drift or grow
    /// within each request.
    pub fn stretches(&self) -> Option<[Vec<(u64, u64)>; 2]> {
        let warm = |bucket: &&StepBucket| bucket.first >= self.cold_steps.max(1);
        let buckets: Vec<&StepBucket> = self.buckets.iter().filter(warm).collect();
        if buckets.len() < FEWEST {
            return None;
        }
        // The shortest step of a bucket knows nothing of single slow ones.
        let raw: Vec<f64> = buckets.iter().map(|bucket| bucket.min_ns as f64).collect();
        let around = |at: usize| raw.get(at.saturating_sub(2)..raw.len().min(at + 3));
        let smooth: Vec<f64> = (0..raw.len()).map(|at| median(around(at).unwrap_or(&[]))).collect();
        let limit = limit(&smooth)?;
        // Where nothing lasts, neighbours are on different sides of it as often as any two.
        let sides =
            raw.windows(2).filter(|pair| matches!(pair, [a, b] if (*a > limit) != (*b > limit)));
        let above = raw.iter().filter(|ns| **ns > limit).count() as f64 / raw.len() as f64;
        if sides.count() as f64 > raw.len() as f64 * above * (1.0 - above) {
            return None;
        }
        let mut stretches: Vec<(usize, usize)> = Vec::new();
        for (at, ns) in smooth.iter().enumerate() {
            match stretches.last_mut() {
                Some((from, to))
                    if smooth.get(*from).is_some_and(|first| (*first > limit) == (*ns > limit)) =>
                {
                    *to = at
                }
                _ => stretches.push((at, at)),
            }
        }
        let (slow, fast): (Vec<_>, Vec<_>) = (stretches.into_iter())
            .filter(|(from, to)| to - from + 1 >= LONG)
            .partition(|(from, _)| smooth.get(*from).is_some_and(|ns| *ns > limit));
        let of = |all: &[(usize, usize)]| -> Vec<f64> {
            all.iter().flat_map(|(from, to)| raw.get(*from..=*to).unwrap_or(&[])).copied().collect()
        };
        let [slow_ns, fast_ns] = [&slow, &fast].map(|all| median(&of(all)));
        let more = slow_ns - fast_ns;
        let spread: Vec<f64> = (slow.iter().chain(&fast))
            .flat_map(|one| {
                let own = of(&[*one]);
                let middle = median(&own);
                own.into_iter().map(move |ns| (ns - middle).abs())
            })
            .collect();
        // A drift has no edges.
        let last = raw.len() - 1;
        let edges: Vec<bool> = (slow.iter())
            .flat_map(|(from, to)| [*from, to + 1])
            .filter(|at| (1..=last).contains(at))
            .map(|at| {
                let [before, after] =
                    [at.saturating_sub(3), (at + 2).min(last)].map(|at| smooth.get(at));
                after
                    .zip(before)
                    .is_some_and(|(after, before)| (after - before).abs() * 2.0 >= more)
            })
            .collect();
        let sharp = edges.iter().filter(|sharp| **sharp).count();
        let is_far = more >= fast_ns * LONGER && more >= SPREADS * 1.4826 * median(&spread);
        let known = !slow.is_empty() && !fast.is_empty() && is_far && sharp * 4 >= edges.len() * 3;
        let numbers = |all: Vec<(usize, usize)>| {
            let steps = |(from, to): (usize, usize)| {
                let (first, last) = (buckets.get(from)?, buckets.get(to)?);
                Some((first.first, (last.first + last.steps).saturating_sub(1)))
            };
            all.into_iter().filter_map(steps).collect()
        };
        known.then(|| [numbers(slow), numbers(fast)])
    }

    /// What is known of its slow stretches, in sentences of Markdown: `steps 128 to 195 are slow: they take ...`.
    pub fn plateaus_in_words(&self, noun: &str) -> Option<String> {
        self.plateaus.as_ref().map(|plateaus| plateaus.in_words(noun))
    }
}

impl Plateaus {
    fn in_words(&self, noun: &str) -> String {
        let Self { slow, fast, longer } = self;
        let mut longest = slow.stretches.clone();
        longest.sort_by_key(|(first, last)| std::cmp::Reverse(last - first));
        let rest = longest.split_off(NAMED.min(longest.len())).len();
        longest.sort_unstable();
        let mut named: Vec<String> = (longest.iter())
            .map(|(first, last)| format!("{} to {}", count(*first), count(*last)))
            .collect();
        if rest > 0 {
            named.push(format!("{rest} shorter stretch{}", if rest > 1 { "es" } else { "" }));
        }
        let more = slow.mean_ns - fast.mean_ns;
        let mut said = format!(
            "{noun}s {} are slow: they take {} on average, those of the other long stretches {}.",
            joined(&named),
            shown_time(slow.mean_ns),
            shown_time(fast.mean_ns),
        );
        let differs = |slow: f64, fast: f64| (slow - fast).abs() > fast * ALIKE;
        let batch = [
            ("requests", slow.requests, fast.requests),
            ("tokens of context", slow.context_tokens, fast.context_tokens),
        ];
        let is_known = batch.iter().any(|(_, slow, fast)| *slow > 0.0 && *fast > 0.0);
        let batch: Vec<String> = (batch.iter())
            .filter(|(_, slow, fast)| differs(*slow, *fast))
            .map(|(what, slow, fast)| format!("{slow:.1} {what} instead of {fast:.1}"))
            .collect();
        let is_alike = batch.is_empty();
        if !is_alike {
            said.push_str(&format!(" A slow {noun} has {}.", joined(&batch)));
        }
        if slow.gpu_ns * fast.gpu_ns == 0.0 {
            said.push_str(" Too few of them have recorded GPU work to tell why.");
            return said;
        }
        let gpu = slow.gpu_ns - fast.gpu_ns;
        let host = more - gpu;
        let alike = if is_alike && is_known { "the batch is the same, and " } else { "" };
        if gpu <= more * ALIKE * 2.0 {
            let works = match gpu.abs() <= more * ALIKE * 2.0 {
                true => format!("works {} per {noun} in both", shown_time(slow.gpu_ns)),
                false => "does not work longer".to_owned(),
            };
            let why = format!("{alike}the GPU {works}: the whole difference is on the host.");
            said.push_str(&sentence(&why));
        } else {
            said.push_str(&sentence(&format!(
                "{alike}GPU work accounts for {} of the {}.",
                shown_time(gpu),
                shown_time(more)
            )));
            // The rest is small.
            if host <= more * 2.0 * ALIKE {
                return said;
            }
        }
        let known: f64 = longer.iter().map(|one| one.more_ns).sum();
        let longer: Vec<String> = (longer.iter())
            .map(|one| {
                let (scale, unit, decimals) = time_scale(one.more_ns);
                let [more, error] = [one.more_ns, one.error_ns].map(|ns| ns / scale);
                format!(
                    "{} {more:.decimals$} ± {error:.decimals$} {unit}",
                    code_in_text(&one.function)
                )
            })
            .collect();
        match longer.is_empty() {
            _ if slow.samples * fast.samples == 0 => {
                said.push_str(" Without host samples, it is not known where.");
                return said;
            }
            true => {
                said.push_str(" By the host samples, no single function takes longer for certain.")
            }
            false => said.push_str(&format!(" Longer for certain: {}.", joined(&longer))),
        }
        if is_alike && known * 2.0 < host {
            let rest = if longer.is_empty() { "they are" } else { "the rest is" };
            said.push_str(&format!(
                " Why {rest} slower is not known; other load on the cores or a lower clock of the CPU slows down all \
                 functions alike."
            ));
        }
        said
    }
}

impl LongerFunction {
    /// Whether it is more than chance.
    pub fn is_certain(&self) -> bool {
        self.more_ns > ERRORS * self.error_ns
    }
}

fn sentence(text: &str) -> String {
    format!(" {}", capitalised(text))
}

/// `a, b and c`.
fn joined(parts: &[String]) -> String {
    match parts {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => parts.concat(),
    }
}

fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Where `of` falls into two halves that differ most (Otsu).
fn limit(of: &[f64]) -> Option<f64> {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let all: f64 = sorted.iter().sum();
    let mut below = 0.0;
    let mut best = (0.0, None);
    for (at, pair) in sorted.windows(2).enumerate() {
        let [low, high] = pair else { continue };
        below += low;
        let (few, most) = ((at + 1) as f64, (sorted.len() - at - 1) as f64);
        let apart = (all - below) / most - below / few;
        let between = few * most * apart * apart;
        if between > best.0 {
            best = (between, Some((low + high) / 2.0));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of these times with some noise, two in a bucket.
    fn series(us: impl Iterator<Item = u64>) -> StepSeries {
        let bucket = |(at, us): (u64, u64)| {
            let ns = us * 1_000 + at * 7_919 % 13 * 10_000;
            StepBucket { first: at * 2, steps: 2, min_ns: ns, mean_ns: ns, max_ns: 3 * ns }
        };
        StepSeries { buckets: (0..).zip(us).map(bucket).collect(), ..StepSeries::default() }
    }

    #[test]
    fn long_stretches_are_told_from_noise_drift_and_a_few_slow_steps() {
        let slow = series((0..200).map(|at| if (50..90).contains(&at) { 4_300 } else { 3_000 }));
        assert_eq!(slow.stretches(), Some([vec![(100, 179)], vec![(2, 99), (180, 399)]]));
        for (what, us) in [
            ("noise", (|at| 3_000 + at * 7_919 % 1_201) as fn(u64) -> u64),
            ("drift", |at| 3_000 + at * 10),
            ("requests whose context grows", |at| 3_000 + at % 50 * 40),
            ("a little", |at| if at < 100 { 3_000 } else { 3_300 }),
            ("few", |at| if at % 20 < 4 { 9_000 } else { 3_000 }),
            ("every other one", |at| 3_000 + at % 2 * 1_500),
        ] {
            assert_eq!(series((0..200).map(us)).stretches(), None, "{what}");
        }
        assert_eq!(series((0..20).map(|at| 3_000 + at / 10 * 3_000)).stretches(), None, "too few");
    }

    #[test]
    fn what_differs_is_told() {
        let fast = Plateau {
            mean_ns: 3e6,
            gpu_ns: 1.15e6,
            requests: 16.0,
            context_tokens: 8e3,
            samples: 99,
            ..Plateau::default()
        };
        let stretches = vec![(1, 9), (20, 50), (60, 99), (200, 300), (400, 500)];
        let slow = Plateau { mean_ns: 4.3e6, stretches, ..fast.clone() };
        let function = LongerFunction { function: "priority".into(), more_ns: 4e5, error_ns: 1e5 };
        let of = Plateaus { slow, fast, longer: vec![function] };
        assert_eq!(
            of.in_words("step"),
            "steps 20 to 50, 60 to 99, 200 to 300, 400 to 500 and 1 shorter stretch are slow: they take 4.30 ms on \
             average, those of the other long stretches 3.00 ms. The batch is the same, and the GPU works 1.15 ms per \
             step in both: the whole difference is on the host. Longer for certain: `priority` 0.40 ± 0.10 ms. \
             Why the rest is slower is not known; other load on the cores or a lower clock of the CPU slows down all \
             functions alike."
        );
        let slow = Plateau { gpu_ns: 2.4e6, requests: 32.0, ..of.slow.clone() };
        let said = Plateaus { slow, longer: Vec::new(), ..of.clone() }.in_words("step");
        assert!(said.ends_with("A slow step has 32.0 requests instead of 16.0. GPU work accounts for 1.25 ms of the 1.30 ms."), "{said}");
    }
}
