//! Timelines of a stage of several ranks -> one step of the rank that is late most and of the one that waits longest
//! for it, with the waiting in their collectives: of the steps in which that rank is late, the one of median lateness;
//! the one of median length, where these are not known.
//!
//! Ranks of one host share the clock of its GPUs, so the median step of another rank is the one that overlaps most.
//! The host of a rank that waits may be a step ahead: late steps are found by their number, which is that of all ranks.

use std::collections::BTreeMap;

use stage2_contract::order::Order as _;
use stage2_model::{
    LateBegin, LateRow, LateSteps, Report, Step, StepTimeline, TimelineRank, TimelineWork,
};
use stage2_read::trace::events::{Event, Span, TraceFile};

use super::{StepEvents, Stop, read};

/// Instances of a range that get a number.
const INSTANCES: usize = 1 << 20;

/// Both ranks of a stage, the late one first.
struct Pair {
    /// Place of the stage's timeline.
    at: usize,
    stage: String,
    path: String,
    /// How many of the first steps of each rank are cold.
    cold_steps: u64,
    /// The step of the late rank.
    step: Which,
    /// By how much it is late in it, where it is one of its late steps.
    late_ns: Option<u64>,
    /// File and words for who it is.
    ranks: [(String, String); 2],
}

/// Which instance of a path is the step.
#[derive(Clone, Copy)]
enum Which {
    Number(u64),
    /// The one that overlaps this most.
    At(Span),
}

/// Adds the timelines of ranks that are late and of those that wait. One that the stage has already gets
/// whose it is; a stage whose steps are not found in both files keeps the timeline that it has.
pub(super) fn add(report: &mut Report, files: &BTreeMap<String, TraceFile>) {
    let pairs: Vec<Pair> =
        (0..report.step_timelines.len()).filter_map(|at| pair(report, at)).collect();
    let late = pairs.iter().map(|pair| (pair, pair.step)).collect();
    let mut late = timelines(files, late, 0);
    let waiting = pairs.iter().filter_map(|pair| {
        let StepTimeline { start_ns, step, .. } = &late.get(&pair.at)?.timeline;
        let end_ns = start_ns.saturating_add_unsigned(step.host_ns);
        let beside = Which::At(Span { start_ns: *start_ns, end_ns });
        Some((pair, if let Which::Number(_) = pair.step { pair.step } else { beside }))
    });
    let waiting = waiting.collect();
    let mut waiting = timelines(files, waiting, 1);
    for pair in pairs {
        let at = pair.at;
        let Some((of_late, of_waiting)) = late.remove(&at).zip(waiting.remove(&at)) else {
            continue;
        };
        if let Some(begins) = begins_later(&of_late.steps, &of_waiting.steps)
            && begins.ns > report.ranks.clock_error_ns.unwrap_or(0)
            && let Some(steps) = late_steps(report, &pair)
        {
            steps.begins = Some(LateBegin { after: pair.ranks[1].1.clone(), ..begins });
        }
        let (mut late, mut waiting) = (of_late.timeline, of_waiting.timeline);
        mark_waiting(&mut late, &mut waiting);
        for timeline in [late, waiting] {
            let own = report.step_timelines.get_mut(at);
            match own
                .filter(|own| own.file == timeline.file && own.step.range == timeline.step.range)
            {
                Some(own) => *own = timeline,
                None => report.step_timelines.push(timeline),
            }
        }
    }
}

/// The timeline of the step of a rank, and all of its steps of that path, in their order.
struct OfRank {
    timeline: StepTimeline,
    steps: Vec<Span>,
}

/// How much later than the steps of the same numbers those of the late rank begin, and how much longer the host takes
/// for them. `None`: they do not, or the ranks have different numbers of steps.
fn begins_later(late: &[Span], waiting: &[Span]) -> Option<LateBegin> {
    if late.len() != waiting.len() {
        return None;
    }
    // The first one is cold.
    let pairs = || late.iter().zip(waiting).skip(1);
    let later = pairs().map(|(late, other)| late.start_ns.saturating_sub(other.start_ns));
    let ns = u64::try_from(median(later)?).ok().filter(|ns| *ns > 0)?;
    let late_ns = median(pairs().map(|(late, _)| late.ns()))?;
    let longer_ns = late_ns.saturating_sub(median(pairs().map(|(_, other)| other.ns()))?);
    let longer_ns = u64::try_from(longer_ns).ok().filter(|ns| *ns > 0);
    Some(LateBegin { ns, longer_ns, ..LateBegin::default() })
}

fn median(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The late steps of the first rank of a pair.
fn late_steps<'r>(report: &'r mut Report, pair: &Pair) -> Option<&'r mut LateSteps> {
    // Only then are the steps those of the timelines.
    pair.late_ns?;
    let mut rows = report.ranks.late.iter_mut();
    let row = rows.find(|row| row.stage == pair.stage && row.file == pair.ranks[0].0)?;
    row.delays.as_mut()?.steps.as_mut()
}

/// The timelines of these steps of the late rank (`of` is 0) or of the waiting one (1), by the places of their pairs.
fn timelines(
    files: &BTreeMap<String, TraceFile>,
    wanted: Vec<(&Pair, Which)>,
    of: usize,
) -> BTreeMap<usize, OfRank> {
    let mut by_file: BTreeMap<&str, Vec<(&Pair, Which)>> = BTreeMap::new();
    for (pair, which) in wanted {
        by_file.entry(&pair.ranks[of].0).or_default().push((pair, which));
    }
    let mut found = BTreeMap::new();
    for (name, wanted) in by_file {
        let Some(file) = files.get(name) else { continue };
        let mut events: Vec<(usize, StepEvents)> = Vec::new();
        let mut all: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
        for (at, found) in steps(file, &wanted).into_iter().enumerate() {
            let Some(found) = found else { continue };
            let Some((pair, _)) = wanted.get(at) else { continue };
            events.push((
                at,
                StepEvents::of(found.step, &pair.path, found.lasts_ns, pair.cold_steps),
            ));
            all.insert(at, found.all);
        }
        // What cannot be read now was read before, and the stage has a timeline.
        if read(file, &mut events).is_err() {
            continue;
        }
        for (at, events) in events {
            let Some((pair, _)) = wanted.get(at) else { continue };
            let timeline = events.finish();
            let (file, who) = pair.ranks[of].clone();
            let rank = Some(TimelineRank { who, is_late: of == 0, late_ns: pair.late_ns });
            let (stage, path) = (pair.stage.clone(), pair.path.clone());
            found.extend(timeline.map(|timeline| {
                let timeline = StepTimeline { stage, path, file, rank, ..timeline };
                (pair.at, OfRank { timeline, steps: all.remove(&at).unwrap_or_default() })
            }));
        }
    }
    found
}

/// The ranks of a stage to compare: of one host, and one of them late. Lateness beyond noise comes first.
fn pair(report: &Report, at: usize) -> Option<Pair> {
    let timeline = report.step_timelines.get(at)?;
    let of_stage = report.ranks.late.iter().filter(|late| late.stage == timeline.stage);
    let late = of_stage.filter(|late| late.late_total_ns > 0).max_by_key(|late| {
        (late.delays.as_ref().map_or(0, |delays| delays.total_ns), late.late_total_ns)
    })?;
    let host = |file: &str| {
        let process = report.processes.iter().find(|process| process.file == file)?;
        process.host.as_deref()
    };
    let here = host(&late.file);
    let rows = report.ranks.stages.iter().filter(|row| row.stage == timeline.stage);
    let waiting = rows
        .filter(|row| row.file != late.file && host(&row.file) == here)
        .filter(|row| row.waiting_ns > Some(0))
        .max_by_key(|row| row.waiting_ns)?;
    let end_ns = timeline.start_ns.saturating_add_unsigned(timeline.step.host_ns);
    let median = Which::At(Span { start_ns: timeline.start_ns, end_ns });
    let of_lateness = median_late(late, &timeline.path);
    let series = report
        .step_series
        .iter()
        .find(|series| series.stage == timeline.stage && series.path == timeline.path);
    Some(Pair {
        at,
        cold_steps: series.map_or(0, |series| series.cold_steps),
        stage: timeline.stage.clone(),
        path: timeline.path.clone(),
        step: of_lateness.map_or(median, |(number, _)| Which::Number(number)),
        late_ns: of_lateness.map(|(_, ns)| ns),
        ranks: [(late.file.clone(), late.who.clone()), (waiting.file.clone(), waiting.who.clone())],
    })
}

/// The number of the late step of median lateness, and by how much it is late, where it is an instance of `path`.
fn median_late(late: &LateRow, path: &str) -> Option<(u64, u64)> {
    let delays = late.delays.as_ref()?;
    let is_of_path = match delays.period?.of_steps {
        true => {
            let below = delays.range.strip_prefix(path);
            path != late.stage && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        false => path == late.stage,
    };
    let steps = delays.steps.as_ref().filter(|_| is_of_path)?;
    Some((steps.median_number?, steps.median_ns))
}

/// A step of a file.
struct Found {
    step: Step,
    /// [`StepTimeline::lasts_ns`].
    lasts_ns: Option<u64>,
    /// [`OfRank::steps`].
    all: Vec<Span>,
}

/// The steps in a file.
fn steps(file: &TraceFile, wanted: &[(&Pair, Which)]) -> Vec<Option<Found>> {
    let mut all: Vec<Vec<(u64, Span)>> = wanted.iter().map(|_| Vec::new()).collect();
    let mut of_engine: BTreeMap<u64, u64> = BTreeMap::new();
    // Of a file that cannot be read to its end, what was read counts.
    let _: Result<(), Stop> = file.for_each(|event| {
        let range = match event {
            Event::Range(range) => range,
            Event::Step(step) => {
                if step.span.end_ns > step.range_end_ns && of_engine.len() < INSTANCES {
                    of_engine.insert(step.range, u64::try_from(step.span.ns()).unwrap_or(0));
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        for ((pair, _), seen) in wanted.iter().zip(&mut all) {
            let is_one = !range.continues && range.path.label == pair.path;
            if is_one && seen.len() < INSTANCES {
                seen.push((range.id, range.span));
            }
        }
        Ok(())
    });
    let step = |(mut seen, (_, which)): (Vec<(u64, Span)>, &(&Pair, Which))| {
        seen.order_by_key(|(_, span)| span.start_ns);
        let common_ns = |known: Span, span: Span| {
            let start_ns = span.start_ns.max(known.start_ns);
            span.end_ns.min(known.end_ns).saturating_sub(start_ns)
        };
        let number = match *which {
            Which::Number(number) => usize::try_from(number).ok()?,
            Which::At(known) => {
                let overlap = |at: &usize| seen.get(*at).map(|(_, span)| common_ns(known, *span));
                (0..seen.len()).max_by_key(overlap).filter(|at| overlap(at) > Some(0))?
            }
        };
        let &(range, span) = seen.get(number)?;
        let host_ns = u64::try_from(span.ns()).unwrap_or(0);
        Some(Found {
            step: Step { number: number as u64, range, host_ns },
            lasts_ns: of_engine.get(&range).copied(),
            all: seen.iter().map(|(_, span)| *span).collect(),
        })
    };
    all.into_iter().zip(wanted).map(step).collect()
}

/// Collectives of both steps in the order of their starts are the same ones where both have as many.
fn mark_waiting(a: &mut StepTimeline, b: &mut StepTimeline) {
    let (of_a, of_b) = (starts(a), starts(b));
    if of_a.len() != of_b.len() {
        return;
    }
    set_waiting(a, &of_b);
    set_waiting(b, &of_a);
}

fn collectives(timeline: &mut StepTimeline) -> Vec<&mut TimelineWork> {
    let work = timeline.lanes.iter_mut().flat_map(|lane| &mut lane.work);
    let mut found: Vec<&mut TimelineWork> =
        work.filter(|work| work.class == "communication").collect();
    found.order_by_key(|work| work.start_ns);
    found
}

fn starts(timeline: &mut StepTimeline) -> Vec<i64> {
    let from = timeline.start_ns;
    collectives(timeline).iter().map(|work| from.saturating_add_unsigned(work.start_ns)).collect()
}

fn set_waiting(timeline: &mut StepTimeline, others: &[i64]) {
    let from = timeline.start_ns;
    for (work, other) in collectives(timeline).into_iter().zip(others) {
        let came = from.saturating_add_unsigned(work.start_ns);
        let waited = u64::try_from(other.saturating_sub(came)).unwrap_or(0);
        work.waiting_ns = waited.min(work.length_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::TimelineLane;

    fn step(start_ns: i64, collectives: &[(u64, u64)]) -> StepTimeline {
        let work = |&(start_ns, length_ns): &(u64, u64)| TimelineWork {
            class: "communication".into(),
            start_ns,
            length_ns,
            ..TimelineWork::default()
        };
        let work = collectives.iter().map(work).collect();
        let lanes = vec![TimelineLane { label: "GPU 0".into(), work }];
        StepTimeline { start_ns, lanes, ..StepTimeline::default() }
    }

    fn waiting(timeline: &StepTimeline) -> Vec<u64> {
        timeline.lanes.iter().flat_map(|lane| &lane.work).map(|work| work.waiting_ns).collect()
    }

    #[test]
    fn a_rank_waits_from_its_arrival_to_that_of_the_other() {
        let mut late = step(1_000, &[(600, 50), (900, 50)]);
        let mut early = step(1_010, &[(100, 550), (900, 40)]);
        mark_waiting(&mut late, &mut early);
        assert_eq!(waiting(&late), [0, 10]);
        // The first one waits for 1,600 - 1,110.
        assert_eq!(waiting(&early), [490, 0]);
    }

    #[test]
    fn a_late_rank_begins_later_if_most_of_its_steps_do() {
        let all = |spans: &[(i64, i64)]| -> Vec<Span> {
            let span = |&(start_ns, ns): &(i64, i64)| Span { start_ns, end_ns: start_ns + ns };
            spans.iter().map(span).collect()
        };
        let found = |late: &[(i64, i64)], waiting: &[(i64, i64)]| {
            let found = begins_later(&all(late), &all(waiting))?;
            Some((found.ns, found.longer_ns))
        };
        let waiting = [(0, 9), (100, 40), (200, 50), (300, 60)];
        // The first steps are cold, and one step of many is no median.
        assert_eq!(
            found(&[(900, 9), (110, 55), (250, 55), (320, 70)], &waiting),
            Some((20, Some(5)))
        );
        assert_eq!(found(&[(900, 9), (110, 50), (250, 50), (320, 50)], &waiting), Some((20, None)));
        assert_eq!(found(&[(0, 9), (90, 50), (900, 50), (290, 50)], &waiting), None);
        assert_eq!(found(&[(0, 9), (110, 50)], &waiting), None, "which ones belong together?");
        assert_eq!(found(&[(9, 9)], &waiting[..1]), None);
    }

    #[test]
    fn collectives_that_are_not_the_same_ones_are_not_compared() {
        let mut late = step(0, &[(600, 50)]);
        let mut early = step(0, &[(100, 550), (900, 40)]);
        mark_waiting(&mut late, &mut early);
        assert_eq!((waiting(&late), waiting(&early)), (vec![0], vec![0, 0]));
    }
}
