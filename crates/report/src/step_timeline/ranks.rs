//! The median step of a stage of several ranks -> the same step of the rank that is late most and of the one
//! that waits longest for it, with the waiting in their collectives.
//!
//! Ranks of one host share the clock of its GPUs, so the step of another rank is the one that overlaps most.

use std::collections::BTreeMap;

use stage2_contract::order::Order as _;
use stage2_model::{Report, Step, StepTimeline, TimelineRank, TimelineWork};
use stage2_read::trace::events::{Event, Span, TraceFile};

use super::{StepEvents, Stop, read};

/// Instances of a range that get a number.
const INSTANCES: usize = 1 << 20;

/// Both ranks of a stage, the late one first, and the step of the stage that is known.
struct Pair {
    /// Place of the stage's timeline.
    at: usize,
    path: String,
    span: Span,
    /// File and words for who it is.
    ranks: [(String, String); 2],
}

/// Says of the timelines of late and waiting ranks whose they are, and adds those that are missing. A stage whose
/// steps are not found in both keeps the timeline that it has.
pub(super) fn add(report: &mut Report, files: &BTreeMap<String, TraceFile>) {
    let pairs: Vec<Pair> =
        (0..report.step_timelines.len()).filter_map(|at| pair(report, at)).collect();
    let mut wanted: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
    for pair in &pairs {
        let own = report.step_timelines.get(pair.at).map(|timeline| &timeline.file);
        for (file, _) in pair.ranks.iter().filter(|(file, _)| Some(file) != own) {
            wanted.entry(file).or_default().push(pair);
        }
    }
    let mut found: BTreeMap<(usize, String), StepTimeline> = BTreeMap::new();
    for (name, pairs) in wanted {
        let Some(file) = files.get(name) else { continue };
        let steps = steps(file, &pairs);
        let mut events: Vec<(usize, StepEvents)> = (pairs.iter().zip(steps))
            .filter_map(|(pair, step)| Some((pair.at, StepEvents::of(step?))))
            .collect();
        // What cannot be read now was read before, and the stage has a timeline.
        if read(file, &mut events).is_err() {
            continue;
        }
        for (at, events) in events {
            let (step, timeline) = (events.step, events.finish());
            found.extend(
                timeline.map(|timeline| ((at, name.to_owned()), StepTimeline { step, ..timeline })),
            );
        }
    }
    for pair in pairs {
        let Some(own) = report.step_timelines.get(pair.at).cloned() else { continue };
        let of_rank = |(file, who): &(String, String), is_late| {
            let rank = Some(TimelineRank { who: who.clone(), is_late });
            let other = found.get(&(pair.at, file.clone())).cloned();
            let timeline = if *file == own.file { own.clone() } else { other? };
            let StepTimeline { stage, path, .. } = own.clone();
            Some(StepTimeline { stage, path, file: file.clone(), rank, ..timeline })
        };
        let [late, waiting] = &pair.ranks;
        let Some((mut late, mut waiting)) = of_rank(late, true).zip(of_rank(waiting, false)) else {
            continue;
        };
        mark_waiting(&mut late, &mut waiting);
        for timeline in [late, waiting] {
            match report.step_timelines.get_mut(pair.at).filter(|own| own.file == timeline.file) {
                Some(own) => *own = timeline,
                None => report.step_timelines.push(timeline),
            }
        }
    }
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
    Some(Pair {
        at,
        path: timeline.path.clone(),
        span: Span { start_ns: timeline.start_ns, end_ns },
        ranks: [(late.file.clone(), late.who.clone()), (waiting.file.clone(), waiting.who.clone())],
    })
}

/// What is known of the instances of a path while a file is read.
#[derive(Default)]
struct Instances {
    starts_ns: Vec<i64>,
    best: Option<(i64, u64, Span)>,
}

/// The step of each pair in another file: the instance of its path that overlaps the known step most.
fn steps(file: &TraceFile, pairs: &[&Pair]) -> Vec<Option<Step>> {
    let mut all: Vec<Instances> = pairs.iter().map(|_| Instances::default()).collect();
    // Of a file that cannot be read to its end, what was read counts.
    let _: Result<(), Stop> = file.for_each(|event| {
        let Event::Range(range) = event else { return Ok(()) };
        for (pair, seen) in pairs.iter().zip(&mut all) {
            if range.continues || range.path.label != pair.path {
                continue;
            }
            if seen.starts_ns.len() < INSTANCES {
                seen.starts_ns.push(range.span.start_ns);
            }
            let start_ns = range.span.start_ns.max(pair.span.start_ns);
            let common_ns = range.span.end_ns.min(pair.span.end_ns).saturating_sub(start_ns);
            if common_ns > seen.best.as_ref().map_or(0, |(most, ..)| *most) {
                seen.best = Some((common_ns, range.id, range.span));
            }
        }
        Ok(())
    });
    let step = |seen: Instances| {
        let (_, range, span) = seen.best?;
        let number = seen.starts_ns.iter().filter(|start| **start < span.start_ns).count() as u64;
        Some(Step { number, range, host_ns: u64::try_from(span.ns()).unwrap_or(0) })
    };
    all.into_iter().map(step).collect()
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
    fn collectives_that_are_not_the_same_ones_are_not_compared() {
        let mut late = step(0, &[(600, 50)]);
        let mut early = step(0, &[(100, 550), (900, 40)]);
        mark_waiting(&mut late, &mut early);
        assert_eq!((waiting(&late), waiting(&early)), (vec![0], vec![0, 0]));
    }
}
