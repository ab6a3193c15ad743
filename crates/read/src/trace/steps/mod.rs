//! The kernels of a process without ranges, in the order of their launches -> the step that repeats.
//!
//! An eager program launches the same kernels at each step: within a decode, every name is the one a
//! period before ([`Runs`]). Phases are cut where that breaks ([`repeats_of`]). Launches are put into the
//! order in which they were made ([`InOrder`]), once for the whole process and once for each queue:
//! threads that launch at the same time mix in the first sequence, streams of one thread do not.
//! Nothing is said where no period is certain. Memory is bounded, whatever the number of launches.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use stage2_contract::stats;

use super::stats::{Series, Span, Stats};
use history::{History, Slot};

mod history;

pub(super) use history::mixed;

/// Queues that are looked at one by one.
const QUEUES: usize = 8;
/// Work before a phase is more than a step where its kernels take this long, percent of one.
pub(super) const LONGER_PERCENT: u128 = 125;

/// Which launch sequences to search for steps. Each sequence takes about 2 MB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// All launches of the process, and those of single queues.
    #[default]
    Queues,
    /// All launches of the process.
    Process,
    /// No launches at all.
    Nothing,
}

/// Steps that repeat in one sequence of launches.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    /// The queue that the sequence is of, by its identifier; nothing: all launches of the process.
    pub queue: Option<u32>,
    /// Launches of the sequence: kernels, and graphs that ran as a whole.
    pub launches: u64,
    /// Steps of one kind, the most launches first.
    pub phases: Vec<Phase>,
    /// Kinds of steps with too few launches to be listed.
    pub(super) rare: Vec<Phase>,
}

/// All phases that consist of the same step.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Launches in each step.
    pub launches_per_step: u64,
    /// Launches of CUDA graphs in each step.
    pub graphs_per_step: u64,
    /// The launches of a step, from the place where the GPU waits longest; empty if there are too
    /// many kinds of steps to keep all.
    pub(super) whats: Vec<u32>,
    /// Index of the first launch of the first of these phases.
    pub(super) first_launch: u64,
    /// How many there are.
    pub phases: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// There may be more: too many runs were found to keep all.
    pub at_least: bool,
    /// Steps of each phase.
    pub steps_per_phase: Series,
    /// From the first kernel of a step to that of the next in the same run.
    pub step_times: Stats,
    /// Durations of all kernels in the phases, ns.
    pub kernel_sum_ns: u64,
    /// From the first kernel of each phase to the end of its last one, summed, ns.
    pub window_ns: u64,
    /// Launches within the phases that are in no whole step.
    pub irregular_launches: u64,
    /// What was launched before the first phase of all, if that is one of these.
    pub first_lead: Option<Lead>,
    /// What was launched before each other phase, since the phase before.
    pub leads: Leads,
}

/// Launches before a phase that do not repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Launches in it.
    pub launches: u64,
    /// Duration of its kernels in all, ns.
    pub kernel_sum_ns: u64,
}

/// What was launched before phases.
#[derive(Clone, Debug, Default)]
pub struct Leads {
    /// Launches.
    pub launches: Series,
    /// Durations of kernels in all, ns.
    pub kernel_sum_ns: Series,
    /// Times that their durations are longer than those of a step.
    pub longer_than_step: u64,
}

fn is_longer(lead: Lead, step_ns: u64) -> bool {
    u128::from(lead.kernel_sum_ns) * 100 >= u128::from(step_ns) * LONGER_PERCENT
}

impl Leads {
    fn push(&mut self, lead: Lead, step_ns: u64) {
        self.launches.push(lead.launches);
        self.kernel_sum_ns.push(lead.kernel_sum_ns);
        self.longer_than_step += u64::from(lead.launches > 0 && is_longer(lead, step_ns));
    }
}

impl Phase {
    /// Whether most phases follow launches that take longer than a step, as a decode follows its
    /// prefill. What comes before the first phase of all counts where there is no other: it holds
    /// the start of the program, too.
    pub fn follows_longer_work(&self) -> bool {
        let step_ns = self.kernel_sum_ns.checked_div(self.steps).unwrap_or(0);
        match (self.leads.launches.count(), self.first_lead) {
            (0, Some(lead)) => lead.launches > 0 && is_longer(lead, step_ns),
            (0, None) => false,
            (all, _) => self.leads.longer_than_step * 2 >= all,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Sequences {
    order: InOrder,
    /// Records arrive in launch order.
    ordered: bool,
    pub(super) follow: Follow,
    all: Runs,
    /// Each queue; none as long as there is only one, whose launches are all.
    queues: Vec<(u32, Runs)>,
    first: Option<u32>,
}

impl Sequences {
    /// For records that arrive in launch order.
    pub(super) fn ordered(follow: Follow) -> Self {
        Self { ordered: true, follow, ..Self::default() }
    }

    pub(super) fn push(&mut self, launch: Launch) {
        if self.follow == Follow::Nothing {
            return;
        }
        if self.ordered {
            return self.take(&launch);
        }
        for launch in self.order.push(launch) {
            self.take(&launch);
        }
    }

    /// What repeats: in the sequence of the process, or else in those of its queues. Nothing where
    /// no period is certain.
    pub(super) fn finish(mut self) -> Vec<Repeats> {
        for launch in self.order.rest() {
            self.take(&launch);
        }
        if let Some(repeats) = repeats_of(&self.all.finish()) {
            return vec![repeats];
        }
        let of_queue = |(queue, runs): (u32, Runs)| {
            Some(Repeats { queue: Some(queue), ..repeats_of(&runs.finish())? })
        };
        self.queues.into_iter().filter_map(of_queue).collect()
    }

    /// Takes the next launch in their order.
    fn take(&mut self, launch: &Launch) {
        let first = *self.first.get_or_insert(launch.queue);
        if self.queues.is_empty() && launch.queue != first && self.follow == Follow::Queues {
            // What came so far is of one queue.
            self.queues.push((first, self.all.clone()));
        }
        self.all.push(launch);
        if self.queues.is_empty() {
            return;
        }
        let known = self.queues.iter().position(|(queue, _)| *queue == launch.queue);
        let at = known.unwrap_or(self.queues.len());
        if known.is_none() && at < QUEUES {
            self.queues.push((launch.queue, Runs::default()));
        }
        if let Some((_, runs)) = self.queues.get_mut(at) {
            runs.push(launch);
        }
    }
}

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
///
/// A phase is one run, or several that only single launches part. It counts where whole periods are
/// at least 95 % of its launches. Periods lie in each other: the layers of a model in its step, steps
/// in a request that repeats. The longest one is the step, unless it is such a request.
fn repeats_of(found: &Found) -> Option<Repeats> {
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
    let (phases, rare) = if certain { rows(&chosen, found) } else { Default::default() };
    (!phases.is_empty()).then_some(Repeats {
        launches: found.launches,
        phases,
        rare,
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

pub(super) fn at_least(part: u64, of: u64, percent: u64) -> bool {
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

/// Leaves out what repeats within less than a few steps: the layers of a prefill, alongside decode
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

/// Returns one row for each pattern, in descending order of launches, and the patterns that are not
/// listed.
fn rows(chosen: &[Steps], found: &Found) -> (Vec<Phase>, Vec<Phase>) {
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
                whats: pattern.whats.clone(),
                first_launch: run.start,
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
    rows.sort_by_key(|(start, row)| (Reverse(launches(row)), *start));
    let rows = rows.into_iter().map(|(_, row)| row);
    rows.partition(|row| at_least(launches(row), found.launches, LISTED_PERCENT))
}

/// What was launched between the phase before, or the start of the program, and this one.
fn lead_of(steps: &Steps, before: Option<&Steps>) -> Lead {
    let (from, from_ns) = before.map_or((0, 0), |before| (before.end, before.run.before_ns.1));
    Lead {
        launches: steps.run.start.saturating_sub(from),
        kernel_sum_ns: steps.run.before_ns.0.saturating_sub(from_ns),
    }
}

/// Periods that a run must hold to count.
const PERIODS: u64 = 5;
/// Periods of a run that goes on with a pattern that had as many as that before: an odd step parts it.
const PIECE: u64 = 2;
/// Candidates that are followed at a time.
const FOLLOWED: usize = 8;
/// Launches that must match a period before for it to be a candidate.
const CONTEXT: u64 = 8;
/// Runs that are kept before the shorter half is dropped.
const RUNS: usize = 1 << 15;
/// Distinct periods whose times are kept.
const PATTERNS: usize = 1 << 10;
/// Maximum number of launches of distinct periods that are kept.
const WHATS: usize = 1 << 18;
/// Number of periods used to find the launch that the GPU waits for.
const WAITS: u64 = 8;
/// Comparisons that looking back may take, for each launch, and saved up at most.
const LOOK_BACK: (u64, u64) = (8, 1 << 20);

/// A stretch in which each launch is the one a period before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: u64,
    /// Number behind its last one; the last period may be a part.
    end: u64,
    period: u64,
    /// What its period consists of, wherever it begins.
    pattern: u64,
    /// Start of the first launch, ns; 0: not known.
    start_ns: u64,
    /// End of the last launch of the last whole period, ns; 0: not known.
    end_ns: u64,
    /// Durations of all launches before the first, and before the one behind the last whole period.
    before_ns: (u64, u64),
}

impl Run {
    fn periods(&self) -> u64 {
        (self.end - self.start) / self.period
    }

    fn whole_end(&self) -> u64 {
        self.start + self.periods() * self.period
    }
}

#[derive(Clone, Debug, Default)]
struct Pattern {
    /// From the start of a period to the start of the next in the same run.
    times: Stats,
    /// Launches of a period that are whole graphs.
    graphs: u64,
    /// The launches of a period: see [`Phase::whats`].
    whats: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Followed {
    period: u64,
    start: u64,
    first: Slot,
    next: u64,
    last_ns: u64,
    times: Stats,
}

/// A few candidates for a period are followed at a time: as long as each launch is the one a period
/// before, the run goes on. Memory does not grow with the sequence: of very many runs the longest
/// are kept, and of equally long ones the first.
#[derive(Clone, Debug, Default)]
struct Runs {
    history: History,
    followed: Vec<Followed>,
    sum_ns: u64,
    look_back: u64,
    runs: Vec<Run>,
    patterns: HashMap<u64, Pattern>,
    /// Launches in the periods that are kept.
    kept_whats: usize,
    longest_dropped: u64,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    runs: usize,
    patterns: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { runs: RUNS, patterns: PATTERNS }
    }
}

#[derive(Debug, Default)]
struct Found {
    launches: u64,
    /// Runs, by their start; of runs with the same start the longest first.
    runs: Vec<Run>,
    patterns: HashMap<u64, Pattern>,
    /// Launches of the longest run that was dropped because there are too many; 0: none was.
    longest_dropped: u64,
}

impl Runs {
    fn push(&mut self, launch: &Launch) {
        let Launch { what, span, .. } = *launch;
        let slot = Slot { what, span, before_ns: self.sum_ns };
        let distances = self.history.push(slot);
        self.sum_ns = self.sum_ns.saturating_add(slot.ns());
        self.look_back = (self.look_back + LOOK_BACK.0).min(LOOK_BACK.1);
        let number = self.history.count() - 1;
        self.follow(number, what, span.start);
        for distance in distances.into_iter().flatten() {
            self.consider(number, distance);
        }
    }

    fn follow(&mut self, number: u64, what: u32, start_ns: u64) {
        let mut at = 0;
        while let Some(one) = self.followed.get_mut(at) {
            if self.history.what(number - one.period) == Some(what) {
                one.pass(number, start_ns);
                at += 1;
            } else {
                let over = self.followed.swap_remove(at);
                self.over(over, number);
            }
        }
    }

    /// Follows `period`, if it is one so far and none that is followed says the same.
    fn consider(&mut self, number: u64, period: u64) {
        if self.followed.iter().any(|one| one.period == period) {
            return;
        }
        let history = &self.history;
        let mut matched = 0;
        while matched < self.look_back.min(number + 1) {
            let (now, before) = (number - matched, (number - matched).checked_sub(period));
            let before = before.and_then(|before| history.what(before));
            if before.is_none() || history.what(now) != before {
                break;
            }
            matched += 1;
        }
        self.look_back -= matched;
        if matched < CONTEXT {
            return;
        }
        let start = number + 1 - matched - period;
        let same = |one: &Followed| period.is_multiple_of(one.period) && one.start <= start;
        if self.followed.iter().any(same) {
            return;
        }
        if self.followed.len() >= FOLLOWED {
            let matched_by = |one: &Followed| number - one.start - one.period;
            let all = self.followed.iter().enumerate();
            let Some((at, shortest)) = all.min_by_key(|(_, one)| matched_by(one)) else { return };
            if matched_by(shortest) >= matched {
                return;
            }
            let over = self.followed.swap_remove(at);
            self.over(over, number);
        }
        let Some(first) = self.history.get(start).copied() else { return };
        let (next, last_ns) = (start + period, first.span.start);
        let mut one = Followed { period, start, first, next, last_ns, times: Stats::default() };
        while one.next <= number {
            let start_ns = self.history.get(one.next).map_or(0, |slot| slot.span.start);
            one.pass(one.next, start_ns);
        }
        self.followed.push(one);
    }

    /// Keeps a run that ended in front of the launch `end`.
    fn over(&mut self, one: Followed, end: u64) {
        let Followed { period, start, first, times, .. } = one;
        let periods = (end - start) / period;
        // One kernel again and again is no step.
        if periods < PIECE || period < 2 {
            return;
        }
        let whats: Option<Vec<u32>> =
            (end - period..end).map(|number| self.history.what(number)).collect();
        let last = self.history.get(start + periods * period - 1).copied();
        let Some((whats, last)) = whats.zip(last) else { return };
        if !is_primitive(&whats) {
            return;
        }
        let pattern = pattern_of(&whats);
        if periods < PERIODS && !self.patterns.contains_key(&pattern) {
            return;
        }
        let run = Run {
            start,
            end,
            period,
            pattern,
            start_ns: first.span.start,
            end_ns: last.span.end,
            before_ns: (first.before_ns, last.before_ns.saturating_add(last.ns())),
        };
        let known =
            self.patterns.len() < self.limits.patterns || self.patterns.contains_key(&run.pattern);
        if known {
            let is_new = !self.patterns.contains_key(&run.pattern);
            let keeps = is_new && self.kept_whats + whats.len() <= WHATS;
            let longest = if keeps { self.longest_wait(end, period) } else { 0 };
            let pattern = self.patterns.entry(run.pattern).or_default();
            pattern.times.merge(&times);
            pattern.graphs = whats.iter().filter(|&&what| what & GRAPH != 0).count() as u64;
            if keeps {
                self.kept_whats += whats.len();
                pattern.whats = whats;
                pattern.whats.rotate_left(longest);
            }
        }
        if self.runs.len() >= self.limits.runs {
            self.runs.sort_unstable_by_key(|run| (Reverse(run.end - run.start), run.start));
            let dropped = self.runs.drain(self.limits.runs / 2..).next();
            let longest = dropped.map_or(0, |run| run.end - run.start);
            self.longest_dropped = self.longest_dropped.max(longest);
        }
        self.runs.push(run);
    }

    /// Finds the launch of the `period` before the launch `end` for which the GPU waits longest,
    /// over the earlier periods that are kept.
    fn longest_wait(&self, end: u64, period: u64) -> usize {
        let wait = |number: u64| {
            let slots = self.history.get(number).zip(self.history.get(number.checked_sub(1)?));
            let (slot, before) =
                slots.filter(|(slot, before)| slot.span.valid() && before.span.valid())?;
            Some(slot.span.start.saturating_sub(before.span.end))
        };
        let waits = |at: u64| {
            let numbers = (1..=WAITS).map_while(|back| (end + at).checked_sub(back * period));
            numbers.filter_map(wait).fold(0, u64::saturating_add)
        };
        let longest = (0..period).max_by_key(|&at| (waits(at), Reverse(at)));
        longest.map_or(0, |at| at as usize)
    }

    fn finish(mut self) -> Found {
        let launches = self.history.count();
        for one in std::mem::take(&mut self.followed) {
            self.over(one, launches);
        }
        self.runs.sort_unstable_by_key(|run| (run.start, Reverse(run.end), run.period));
        let Self { runs, patterns, longest_dropped, .. } = self;
        Found { launches, runs, patterns, longest_dropped }
    }
}

impl Followed {
    fn pass(&mut self, number: u64, start_ns: u64) {
        if number == self.next {
            self.times.add(Span { start: self.last_ns, end: start_ns }, 0, false);
            self.last_ns = start_ns;
            self.next += self.period;
        }
    }
}

/// Whether no shorter period makes up this one.
fn is_primitive(whats: &[u32]) -> bool {
    // The longest border of each beginning, as Knuth, Morris and Pratt search with it.
    let mut borders: Vec<usize> = vec![0; whats.len()];
    let mut border = 0;
    for at in 1..whats.len() {
        while border > 0 && whats.get(border) != whats.get(at) {
            border = borders.get(border - 1).copied().unwrap_or(0);
        }
        border += usize::from(whats.get(border) == whats.get(at));
        if let Some(slot) = borders.get_mut(at) {
            *slot = border;
        }
    }
    let shortest = whats.len() - border;
    shortest == whats.len() || !whats.len().is_multiple_of(shortest)
}

/// Hash of a period that is equal for each of its rotations: a sum over each kernel with those
/// after it.
fn pattern_of(whats: &[u32]) -> u64 {
    let after = |at: usize, by: usize| {
        let what = whats.get((at + by) % whats.len()).copied().unwrap_or(0);
        mixed(what).rotate_left(by as u32 * 16)
    };
    let hash =
        |at: usize| stats::mixed((0..4).fold(0, |sum: u64, by| sum.wrapping_add(after(at, by))));
    (0..whats.len()).map(hash).fold(whats.len() as u64, u64::wrapping_add)
}

/// Launches that are held back, at least, before the oldest goes on. A thread's buffer has about 5,000.
const WINDOW: usize = 1 << 16;

/// A kernel, or a graph that ran as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    /// What ran: the same number is the same kernel name.
    pub(super) what: u32,
    pub(super) queue: u32,
    /// CUPTI's number of the launch; all kernels of a graph replay share one.
    pub(super) correlation: u64,
    /// Node of the graph, which orders the kernels of a replay: they run in any order.
    pub(super) node: u64,
    pub(super) span: Span,
}

/// Set in [`Launch::what`] of a graph that ran as a whole.
pub(super) const GRAPH: u32 = 1 << 31;

/// A trace file is written buffer by buffer, so that launches of several threads come in pieces. A
/// bounded window sorts them by their correlation id, which CUPTI counts up over the process.
#[derive(Debug)]
pub(super) struct InOrder {
    held: Vec<Launch>,
    window: usize,
}

impl Default for InOrder {
    fn default() -> Self {
        Self { held: Vec::new(), window: WINDOW }
    }
}

impl InOrder {
    /// Takes a launch; gives the older half of what is held where the window is full.
    pub(super) fn push(&mut self, launch: Launch) -> Vec<Launch> {
        self.held.push(launch);
        if self.held.len() < 2 * self.window { Vec::new() } else { self.oldest(self.window) }
    }

    pub(super) fn rest(&mut self) -> Vec<Launch> {
        self.oldest(self.held.len())
    }

    fn oldest(&mut self, count: usize) -> Vec<Launch> {
        // Stable, and linear where they are in order already. Without numbers (an nsys export is in
        // order) they stay as they came.
        self.held.sort_by_key(|launch| (launch.correlation, launch.node));
        self.held.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests;
