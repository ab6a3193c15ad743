//! What the time of a stage changed by, in parts that add up to it: GPU work by class, and idle time by cause.

use std::collections::BTreeMap;

use stage2_contract::order::Order as _;

use crate::comparison::{
    MetricChange, MetricUnit, Presence, StageChange, WorkChange, WorkKind, WorkSide,
};
use crate::judged::{
    GONE, INCONCLUSIVE, NOT_COMPARABLE, Noise, NoiseMethod, Verdict, either, ends_text,
};
use crate::metric::class_metric;
use crate::noise::{Centre, Expected, judge};

impl StageChange {
    /// What its mean step changed by, in parts that add up to it: the window of that, as the bar of a report has it.
    pub fn parts(&self) -> Parts<'_> {
        let known = |name: &str| self.metric(name).filter(|metric| metric.change.is_some());
        let whole = known("window_ms");
        let idle = known("idle_ms");
        let by_gaps = self.host.is_empty() || self.host_ahead;
        // Of one run per side, what is less than the noise of a step that did not change.
        let rate = self.metric("tokens_per_s").is_some_and(|rate| rate.verdict.is_change());
        let step = self.time().filter(|step| step.verdict == Verdict::None && !rate);
        let step = step.map_or(Noise::default(), |step| step.noise);
        let mut rows: Vec<PartChange<'_>> = match by_gaps {
            true => match idle.zip(known("launch_gaps_ms")) {
                Some((idle, gaps)) => self.gaps_and_others(idle, gaps, step).into(),
                None => idle.into_iter().map(|idle| self.idle(idle, None)).collect(),
            },
            false => {
                let causes = self.host.iter();
                causes.map(|cause| self.idle(cause, Some(&cause.metric))).collect()
            }
        };
        // It is among the causes.
        let other = known("other_work_ms").filter(|_| by_gaps);
        rows.extend(other.map(|other| self.idle(other, Some(OTHER_WORK))));
        let mut groups: BTreeMap<(WorkKind, &str), Vec<&WorkChange>> = BTreeMap::new();
        for row in &self.work {
            groups.entry((row.kind, row.class.as_str())).or_default().push(row);
        }
        rows.extend(groups.into_iter().map(|((_, class), work)| {
            self.class(known(&class_metric(class)).filter(|_| !class.is_empty()), work)
        }));
        rows.retain(|part| part.change_ns != 0.0 && part.change_ns.is_finite());
        if self.other_work.is_some() {
            rows.iter_mut().for_each(|part| (part.verdict, part.said) = (Verdict::Unknown, None));
        }
        let largest = rows.iter().map(|part| part.change_ns.abs()).fold(0.0, f64::max);
        let place = |part: &PartChange<'_>| {
            let is_small = part.change_ns.abs() < LEAST_PART * largest;
            match part.is_beyond_noise() {
                true if is_small => 2,
                true => 0,
                false if is_small || part.is_judged() || part.noise.exceeds_value => 3,
                false => 1,
            }
        };
        rows.order_by(|a, b| {
            let of_both = place(a).cmp(&place(b));
            of_both.then(b.change_ns.abs().total_cmp(&a.change_ns.abs()))
        });
        let beyond = rows.iter().filter(|part| place(part) == 2).count();
        let told = match rows.iter().filter(|part| place(part) < 2).count() {
            0 if beyond == 0 => NOISE_PARTS.min(rows.len()),
            told => told,
        };
        let sum = |at: usize| rows.iter().map(|part| part.sides_ns[at]).sum::<f64>();
        let sums_ns = [sum(0), sum(1)];
        let sides_ns = whole.map_or(sums_ns, both_ns);
        let rest = match idle {
            None => "everything else",
            // The busy time leaves them out.
            _ if self.has_other_busy() => "overlaps of GPU work, and outliers",
            _ => "overlaps of GPU work",
        };
        // Both divide the same idle time, each in its own way.
        let causes = rows.iter().filter(|part| part.work.is_empty() && !by_gaps);
        let judged = causes.filter(|part| part.is_judged() || part.is_beyond_noise());
        let most_ns = judged.map(|part| part.change_ns.abs()).fold(0.0, f64::max);
        let gaps = known("launch_gaps_ms").filter(|gaps| {
            let change_ns = gaps.change.unwrap_or(0.0).abs() * NS_PER_MS;
            !by_gaps && gaps.verdict.is_change() && change_ns > most_ns
        });
        Parts {
            whole,
            sides_ns,
            change_ns: sides_ns[1] - sides_ns[0],
            rest_ns: std::array::from_fn(|at| sides_ns[at] - sums_ns[at]),
            rest,
            rows,
            told,
            beyond,
            gaps: gaps.zip(idle).map(|(gaps, idle)| self.gaps_and_others(idle, gaps, step)),
            has_other_causes: by_gaps && !self.host.is_empty(),
        }
    }
}

/// A time of both sides, ns.
fn both_ns(metric: &MetricChange) -> [f64; 2] {
    [metric.before, metric.after].map(|ms| ms.unwrap_or(0.0) * NS_PER_MS)
}

fn interval_ns(metric: &MetricChange) -> Option<[f64; 2]> {
    metric.interval.map(|ends| ends.map(|end| end * NS_PER_MS))
}

/// What the time of a stage changed by.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<'c> {
    /// What they are parts of; nothing: their own sum.
    pub whole: Option<&'c MetricChange>,
    /// That before and after, ns per [`StageChange::per`]: means over the runs of a side, as all parts.
    pub sides_ns: [f64; 2],
    /// The change of that.
    pub change_ns: f64,
    /// Large changes first, then what is inconclusive, then small changes, then noise; of each, the largest first.
    pub rows: Vec<PartChange<'c>>,
    /// How many rows to show: all that changed beyond noise, or the few largest if none did.
    pub told: usize,
    /// How many rows behind these changed beyond noise, too, but by little.
    pub beyond: usize,
    /// What the rows do not have: negative where work at the same time counts in each of its rows.
    pub rest: &'static str,
    /// How much that is before and after.
    pub rest_ns: [f64; 2],
    /// Launch gaps that changed by more than each cause of idle time that is judged, and all other idle time.
    pub gaps: Option<[PartChange<'c>; 2]>,
    /// Causes of idle time are known that are not parts, because the host was ahead of the GPU.
    pub has_other_causes: bool,
}

impl Parts<'_> {
    /// `the same idle time: launch gaps 9.510 → 0.359 ms (better), other 1.602 → 5.893 ms (worse)`.
    pub fn gaps_text(&self) -> Option<String> {
        let text = |part: &PartChange<'_>| {
            let [a, b] = part.sides_ns.map(|ns| MetricUnit::Ms.shown(ns / NS_PER_MS));
            format!("{} {a} → {b} ms ({})", part.cause.unwrap_or_default(), part.word())
        };
        let [gaps, others] = self.gaps.as_ref()?.each_ref().map(text);
        Some(format!("the same idle time: {gaps}, {others}"))
    }

    /// Why some of them are inconclusive; nothing where all are.
    pub fn why_not_judged(&self) -> Option<String> {
        let has_several_runs =
            self.whole.is_some_and(|whole| whole.before_runs.len().min(whole.after_runs.len()) > 1);
        if self.rows.iter().any(|part| part.noise.unlike) {
            return Some(NOT_COMPARABLE.to_owned());
        }
        let open = self.rows.iter().filter(|part| !part.is_judged() && !part.is_beyond_noise());
        let why = open.filter_map(|part| match part.noise.method {
            NoiseMethod::OneRunEach if has_several_runs => Some("sum of judged rows"),
            _ => part.noise.why_not_judged(),
        });
        either(why)
    }
}

/// A part of what the time of a stage changed by.
#[derive(Clone, Debug, PartialEq)]
pub struct PartChange<'c> {
    /// GPU work of one class, or copies, fills or graphs, the largest change first; empty: the GPU was idle.
    pub work: Vec<&'c WorkChange>,
    /// What the host did while the GPU was idle; nothing: not known, or the GPU worked.
    pub cause: Option<&'c str>,
    /// Time before and after, ns per [`StageChange::per`].
    pub sides_ns: [f64; 2],
    /// Time after minus time before.
    pub change_ns: f64,
    /// Whether that is beyond noise.
    pub verdict: Verdict,
    /// The word of the number that it is, as all tables have it; nothing: no table has that number.
    pub said: Option<&'static str>,
    /// What it was compared with, ns.
    pub noise: Noise,
    /// Changes that several runs allow, ns; nothing where another number decided.
    pub interval: Option<[f64; 2]>,
}

impl StageChange {
    /// `sum`: the number of the class.
    fn class<'c>(&self, sum: Option<&MetricChange>, work: Vec<&'c WorkChange>) -> PartChange<'c> {
        let change_ns: f64 = work.iter().map(|row| row.change_ns).sum();
        let sum_ns = |side: fn(&WorkChange) -> &Option<WorkSide>| -> f64 {
            let sides = work.iter().filter_map(|row| side(row).as_ref());
            // The sum of nothing is a negative zero.
            sides.map(|side| side.ns).fold(0.0, |all, ns| all + ns)
        };
        let sides_ns = [sum_ns(|row| &row.before), sum_ns(|row| &row.after)];
        let is_most = |row: &WorkChange| {
            let all: f64 = work.iter().map(|row| row.change_ns.abs()).sum();
            row.verdict.is_change() && row.change_ns.abs() > all / 2.0
        };
        let (verdict, noise, interval) = match (&work[..], sum) {
            (_, Some(sum)) => (sum.verdict, sum.noise.times(NS_PER_MS), interval_ns(sum)),
            ([row], None) => (row.verdict, row.noise, row.interval),
            // The sum has no number of its own, but one row may be most of it.
            ([first, ..], None) if first.change_ns * change_ns > 0.0 && is_most(first) => {
                (first.verdict, first.noise.of_another(), None)
            }
            _ => {
                let noise = Noise { method: NoiseMethod::OneRunEach, ..Noise::default() };
                (Verdict::None, noise, None)
            }
        };
        let said = sum.map(|sum| self.word(sum));
        PartChange { work, cause: None, sides_ns, change_ns, verdict, said, noise, interval }
    }

    fn idle<'c>(&self, metric: &MetricChange, cause: Option<&'c str>) -> PartChange<'c> {
        let sides_ns = both_ns(metric);
        PartChange {
            work: Vec::new(),
            cause,
            sides_ns,
            change_ns: sides_ns[1] - sides_ns[0],
            verdict: metric.verdict,
            said: Some(self.word(metric)),
            noise: metric.noise.times(NS_PER_MS),
            interval: interval_ns(metric),
        }
    }

    /// Idle time between consecutive launches, and all other idle time, where no cause is known.
    /// `step`: the noise of a step that did not change.
    fn gaps_and_others<'c>(
        &self,
        idle: &MetricChange,
        gaps: &MetricChange,
        step: Noise,
    ) -> [PartChange<'c>; 2] {
        let (all, gaps_part) = (self.idle(idle, None), self.idle(gaps, Some(LAUNCH_GAPS)));
        let difference = |[of, part]: [f64; 2]| of - part;
        let side = |of: &[f64], part: &[f64], only: [Option<f64>; 2]| -> Vec<f64> {
            match (of.is_empty(), of.len() == part.len()) {
                (true, _) => vec![difference(only.map(|ms| ms.unwrap_or(0.0)))],
                (false, true) => of.iter().zip(part).map(|(of, part)| of - part).collect(),
                // A run does not have both.
                (false, false) => Vec::new(),
            }
        };
        let before = side(&idle.before_runs, &gaps.before_runs, [idle.before, gaps.before]);
        let after = side(&idle.after_runs, &gaps.after_runs, [idle.after, gaps.after]);
        let (verdict, noise, interval) =
            judge(&before, &after, Expected::OneValue, None, Centre::Mean);
        let change_ns = all.change_ns - gaps_part.change_ns;
        let is_one_run = noise.method == NoiseMethod::OneRunEach;
        let is_less = step.threshold.is_some_and(|least| change_ns.abs() <= least * NS_PER_MS);
        let (verdict, noise) = match is_one_run {
            true if idle.verdict.is_beyond(change_ns / NS_PER_MS, idle.noise.least()) => {
                (idle.verdict, idle.noise)
            }
            true if is_less => {
                let sides_ms =
                    [0, 1].map(|at| (all.sides_ns[at] - gaps_part.sides_ns[at]) / NS_PER_MS);
                (Verdict::None, step.of_part(sides_ms))
            }
            _ => (verdict, Noise { unlike: idle.noise.unlike, ..noise }),
        };
        let verdict = if noise.unlike { Verdict::None } else { verdict };
        // As for all other idle time: no other table has it.
        let said = match verdict {
            Verdict::Increased if idle.is_tested() => Some("worse"),
            Verdict::Decreased if idle.is_tested() => Some("better"),
            _ => None,
        };
        let others = PartChange {
            work: Vec::new(),
            cause: Some(OTHER_IDLE),
            sides_ns: std::array::from_fn(|at| all.sides_ns[at] - gaps_part.sides_ns[at]),
            change_ns,
            verdict,
            said,
            noise: noise.times(NS_PER_MS),
            interval: interval.map(|ends| ends.map(|end| end * NS_PER_MS)),
        };
        [gaps_part, others]
    }
}

impl<'c> PartChange<'c> {
    /// What decided on it, in percent of its time before; nothing where that is not known.
    pub fn noise_text(&self) -> Option<String> {
        noise_text(self.noise, self.interval, self.sides_ns[0])
    }

    /// In a word, what became of it.
    pub fn word(&self) -> &'static str {
        if let Some(said) = self.said {
            return said;
        }
        let presence = match &self.work[..] {
            [row] => row.presence(),
            _ => Presence::Both,
        };
        let [had_none, has_none] = self.sides_ns.map(reads_zero);
        match (presence, self.verdict) {
            (Presence::New, _) => "new",
            (Presence::Vanished, _) => GONE,
            (_, Verdict::Increased) if had_none && !has_none => "new",
            (_, Verdict::Decreased) if has_none && !had_none => GONE,
            (_, Verdict::Increased) => "longer",
            (_, Verdict::Decreased) => "shorter",
            (_, Verdict::Unknown) => INCONCLUSIVE,
            (_, Verdict::None) => self.noise.word(self.change_ns, self.sides_ns[0]),
        }
    }

    /// Whether it changed, however little: what is on one side only did.
    pub fn is_beyond_noise(&self) -> bool {
        self.verdict.is_change() || !self.noise.unlike && ["new", GONE].contains(&self.word())
    }

    /// Whether the runs tell if it is more than noise.
    pub fn is_judged(&self) -> bool {
        match self.verdict {
            Verdict::None => self.noise.is_judged(),
            verdict => verdict.is_change(),
        }
    }

    /// Whether a row of it only took over from others, or they from it: its change is not that of the part.
    pub fn is_swap(&self, row: &WorkChange) -> bool {
        let with_it = row.change_ns * self.change_ns > 0.0;
        !with_it
            || !self.verdict.is_change()
            || row.change_ns.abs() > SWAPPED * self.change_ns.abs()
    }
}

const NS_PER_MS: f64 = 1e6;

impl WorkChange {
    /// What decided on it, in percent of its time before; nothing where that is not known.
    pub fn noise_text(&self) -> Option<String> {
        noise_text(self.noise, self.interval, self.before.as_ref().map_or(0.0, |side| side.ns))
    }
}

fn noise_text(noise: Noise, interval: Option<[f64; 2]>, before_ns: f64) -> Option<String> {
    let percent = |ns: f64| ns * 100.0 / before_ns;
    // Of next to nothing a percentage says nothing.
    let is_known = !reads_zero(before_ns);
    match (noise.method, interval, noise.threshold) {
        (NoiseMethod::OneRunEach, ..) => Some(noise.why_not_judged()?.to_owned()),
        (_, None, _) if noise.exceeds_value => Some(noise.why_not_judged()?.to_owned()),
        (_, Some(ends), _) if is_known => Some(format!("{} %", ends_text(ends.map(percent), 1))),
        (_, Some(ends), _) => Some(format!("{} ms", ends_text(ends.map(|ns| ns / NS_PER_MS), 3))),
        (NoiseMethod::FivePercent | NoiseMethod::Instances, _, Some(least))
            if is_known && least < before_ns =>
        {
            Some(format!("± {:.1} %", percent(least)))
        }
        (NoiseMethod::FivePercent | NoiseMethod::Instances, _, Some(least)) => {
            Some(format!("± {:.3} ms", least / NS_PER_MS))
        }
        _ => noise.p_value.map(|p| format!("p = {p:.3}")),
    }
}

/// Whether a time reads 0.000 ms.
fn reads_zero(ns: f64) -> bool {
    ns.abs() < 500.0
}

/// Idle time between consecutive launches.
pub const LAUNCH_GAPS: &str = "launch gaps";
/// Idle time of no known cause that is not between consecutive launches.
pub const OTHER_IDLE: &str = "not launch gaps";
const OTHER_WORK: &str = "work of other stages";
/// Share of the largest part below which a part stands behind those that are inconclusive.
const LEAST_PART: f64 = 0.02;
/// Parts that are shown where all are noise.
const NOISE_PARTS: usize = 3;
/// A row whose change is so many times that of its class has changed places with others.
const SWAPPED: f64 = 1.5;
