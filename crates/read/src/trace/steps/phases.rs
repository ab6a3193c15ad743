//! Runs of one sequence -> phases of equal steps, and which of them are the steps of the program.
//!
//! A phase is one run, or several that only single launches part. It counts where whole periods are
//! at least 95 % of its launches. Periods lie in each other: the layers of a model in its step, steps
//! in a request that repeats. The longest one is the step, unless it is such a request.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::runs::{Found, PERIODS, Pattern, Run};
use super::{Lead, Phase, Repeats};

/// Part of a phase that whole periods make up, at least, percent.
const COVERED_PERCENT: u64 = 95;
/// Two runs of one phase may be at most 1/GAP_PART of a period apart, so that what stands between
/// the layers of two steps does not join them.
const GAP_PART: u64 = 100;
/// Part of a request that its steps are, and of the rest that repeats in itself, at least, percent.
const INSIDE_PERCENT: u64 = 50;
/// Periods of a phase whose inside is looked at.
const LOOKED_AT: u64 = 8;
/// Phases that are looked at inside of another one.
const MOST_INSIDE: usize = 1 << 12;
/// Part of all launches that the steps must cover for them to be those of the program, percent.
const CERTAIN_PERCENT: u64 = 25;
/// Part of all launches below which one kind of step is not listed, percent.
const LISTED_PERCENT: u64 = 5;

#[derive(Clone, Copy, Debug)]
struct Steps {
    run: Run,
    periods: u64,
    /// Number behind the last whole period.
    end: u64,
}

impl Steps {
    fn launches(&self) -> u64 {
        self.periods * self.run.period
    }

    fn extent(&self) -> u64 {
        self.end - self.run.start
    }
}

/// Finds the steps; none where no period is certain.
pub(super) fn repeats_of(found: &Found) -> Option<Repeats> {
    let mut all = joined(&found.runs);
    all.retain(|steps| {
        steps.periods >= PERIODS && at_least(steps.launches(), steps.extent(), COVERED_PERCENT)
    });
    all.sort_by_key(|steps| (steps.run.start, Reverse(steps.end), steps.run.period));
    let simple: Vec<Steps> =
        all.iter().filter(|steps| !is_composite(steps, &all)).copied().collect();
    let chosen = without_insides(apart(simple));
    let launches_in_steps = chosen.iter().map(Steps::launches).sum();
    let certain = at_least(launches_in_steps, found.launches, CERTAIN_PERCENT);
    let phases = if certain { rows(&chosen, found) } else { Vec::new() };
    (!phases.is_empty()).then_some(Repeats {
        launches: found.launches,
        phases,
        ..Repeats::default()
    })
}

/// Joins runs of one pattern that little parts.
fn joined(runs: &[Run]) -> Vec<Steps> {
    let mut open: HashMap<u64, Steps> = HashMap::new();
    let mut done = Vec::new();
    for run in runs {
        let fresh = Steps { run: *run, periods: run.periods(), end: run.whole_end() };
        let Some(before) = open.get_mut(&run.pattern) else {
            open.insert(run.pattern, fresh);
            continue;
        };
        let gap = (run.period / GAP_PART).max(1);
        if run.start <= before.run.end.saturating_add(gap) {
            // Where both claim a period it counts once.
            let twice = before.end.saturating_sub(run.start).div_ceil(run.period);
            before.periods += run.periods().saturating_sub(twice);
            before.end = before.end.max(run.whole_end());
            before.run.end = before.run.end.max(run.end);
            before.run.end_ns = run.end_ns;
            before.run.before_ns.1 = run.before_ns.1;
        } else {
            done.push(std::mem::replace(before, fresh));
        }
    }
    done.extend(open.into_values());
    done
}

/// Whether `outer` holds a shorter phase again and again, and what stands between these repeats in
/// itself, too: a request, made of decode steps and of a prefill with its layers. What stands
/// between the layers of a step does not. `all` are by their start.
fn is_composite(outer: &Steps, all: &[Steps]) -> bool {
    let until = outer.run.start + outer.periods.min(LOOKED_AT) * outer.run.period;
    let first = all.partition_point(|inner| inner.run.start < outer.run.start);
    let nearby = all.get(first..).unwrap_or_default().iter().take(MOST_INSIDE);
    let inside: Vec<Steps> = nearby
        .take_while(|inner| inner.run.start < until)
        .filter(|inner| inner.end <= until && inner.extent() <= outer.run.period)
        .copied()
        .collect();
    let mut by_pattern: HashMap<u64, u64> = HashMap::new();
    for inner in apart(inside) {
        *by_pattern.entry(inner.run.pattern).or_default() += inner.launches();
    }
    let all_inside: u64 = by_pattern.values().sum();
    let most = by_pattern.into_values().max().unwrap_or(0);
    let rest = (until - outer.run.start).saturating_sub(most);
    at_least(most, until - outer.run.start, INSIDE_PERCENT)
        && at_least(all_inside - most, rest, INSIDE_PERCENT)
        && rest > 0
}

fn at_least(part: u64, of: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(of) * u128::from(percent)
}

/// Phases that do not overlap, by their start: the longest come first, but where a shorter period
/// holds nearly as far it is the one.
fn apart(mut phases: Vec<Steps>) -> Vec<Steps> {
    phases.sort_by_key(|steps| (Reverse(steps.extent()), steps.run.start));
    let mut kept: BTreeMap<u64, Steps> = BTreeMap::new();
    for steps in phases {
        match kept.range(..steps.end).next_back().map(|(_, before)| *before) {
            Some(before) if before.end > steps.run.start => {
                let shorter = steps.run.period < before.run.period;
                let within = before.run.start <= steps.run.start && steps.end <= before.run.end;
                if shorter && within && at_least(steps.extent(), before.extent(), COVERED_PERCENT) {
                    kept.remove(&before.run.start);
                    kept.insert(steps.run.start, steps);
                }
            }
            _ => drop(kept.insert(steps.run.start, steps)),
        }
    }
    kept.into_values().collect()
}

/// Leaves out what repeats within less than a few steps: the layers of a prefill, beside decode
/// steps that have theirs inside.
fn without_insides(phases: Vec<Steps>) -> Vec<Steps> {
    let mut by_period: BTreeMap<u64, u64> = BTreeMap::new();
    for steps in &phases {
        *by_period.entry(steps.run.period).or_default() += steps.launches();
    }
    let most = by_period.into_iter().max_by_key(|&(period, launches)| (launches, period));
    let step = most.map_or(0, |(period, _)| period);
    let is_inside = |steps: &Steps| {
        steps.run.period.saturating_mul(PERIODS) <= step
            && steps.extent() < step.saturating_mul(PERIODS)
    };
    phases.into_iter().filter(|steps| !is_inside(steps)).collect()
}

/// One row for each pattern, the most launches first.
fn rows(chosen: &[Steps], found: &Found) -> Vec<Phase> {
    let nothing = Pattern::default();
    let mut by_pattern: HashMap<u64, (u64, Phase)> = HashMap::new();
    let mut before: Option<&Steps> = None;
    for steps in chosen {
        let run = &steps.run;
        let pattern = found.patterns.get(&run.pattern).unwrap_or(&nothing);
        let (_, row) = by_pattern.entry(run.pattern).or_insert_with(|| {
            let phase = Phase {
                launches_per_step: run.period,
                graphs_per_step: pattern.graphs,
                step_times: pattern.times.clone(),
                at_least: found.longest_dropped >= run.period * PERIODS,
                ..Phase::default()
            };
            (run.start, phase)
        });
        row.phases += 1;
        row.steps += steps.periods;
        row.steps_per_phase.push(steps.periods);
        row.irregular_launches += steps.extent().saturating_sub(steps.launches());
        let work_ns = run.before_ns.1.saturating_sub(run.before_ns.0);
        row.kernel_sum_ns = row.kernel_sum_ns.saturating_add(work_ns);
        if run.start_ns != 0 && run.end_ns > run.start_ns {
            row.window_ns = row.window_ns.saturating_add(run.end_ns - run.start_ns);
        }
        let lead = lead_of(steps, before);
        match before {
            None => row.first_lead = Some(lead),
            Some(_) if lead.launches > 0 => row.leads.push(lead, work_ns / steps.periods.max(1)),
            Some(_) => {}
        }
        before = Some(steps);
    }
    let mut rows: Vec<(u64, Phase)> = by_pattern.into_values().collect();
    let launches = |row: &Phase| row.steps * row.launches_per_step;
    rows.retain(|(_, row)| at_least(launches(row), found.launches, LISTED_PERCENT));
    rows.sort_by_key(|(start, row)| (Reverse(launches(row)), *start));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// What was launched between the phase before, or the start of the program, and this one.
fn lead_of(steps: &Steps, before: Option<&Steps>) -> Lead {
    let (from, from_ns) = before.map_or((0, 0), |before| (before.end, before.run.before_ns.1));
    Lead {
        launches: steps.run.start.saturating_sub(from),
        kernel_sum_ns: steps.run.before_ns.0.saturating_sub(from_ns),
    }
}
