//! Ranges that open and close -> instances of stages: when each began and ended, and where work belongs.
//!
//! An instance of a stage is the outermost range of the program on its thread, as in a report. One that
//! goes on under another identifier stays the same instance where its stage stays the same. What is kept
//! is bounded: work of an instance that is forgotten still counts for its stage. A step of an engine lasts until the
//! next one of its thread begins, if that continues a request, as in a report.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::stats::STEPS_COVER_PERCENT;
use stage2_contract::trace::{RANGE_OUTSIDE, RangeOpen};

use crate::numbers::{Batch, Kind};
use crate::tables::Place;

/// Ranges whose place is kept, open or closed.
const KNOWN: usize = 1 << 17;
/// Ranges that are open at a time, and instances of stages that are not settled.
const OPEN: usize = 1 << 16;
/// Closings that may yet turn out to be no end: a collector lets this many ranges go on at once.
const CLOSING: usize = 1 << 8;
/// Threads whose steps wait for the next one.
const THREADS: usize = 1 << 10;
/// Kinds of ranges right within the instances of all stages, and within one instance, that may be their steps.
const KINDS: usize = 1 << 10;
const KINDS_WITHIN: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) stage: u16,
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
    /// The first one of its stage.
    pub(crate) is_cold: bool,
    pub(crate) thread: u32,
    pub(crate) worked_to: u64,
    /// Pieces of GPU work.
    pub(crate) launches: u64,
    /// How many ranges right within it ended, by their names, and when the last one did.
    pub(crate) within: Vec<(u32, u64)>,
    stepped_to: u64,
    /// Whether its work is recorded, where not all is.
    pub(crate) recorded: Option<bool>,
    batch: Batch,
    /// Not the rest of an instance that counted under another stage.
    counted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) stage: u16,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// How long it took, ns. Not known of a step of an engine that a pause follows.
    pub(crate) ns: Option<u64>,
    pub(crate) is_cold: bool,
    /// Whether its work is recorded, where not all is.
    pub(crate) recorded: Option<bool>,
    pub(crate) batch: Batch,
    /// It is a range of this name right within an instance; else the instance.
    pub(crate) within: Option<u32>,
}

/// Ranges of one name right within the instances of a stage.
#[derive(Clone, Copy, Debug, Default)]
struct Repeats {
    /// Instances with one, and with several.
    instances: u64,
    several: u64,
    ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    start: u64,
    within: Option<u32>,
    first: u64,
    stage: Option<u16>,
    root: u64,
    is_root: bool,
    recorded: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    stage: Option<u16>,
    root: u64,
}

const NO_ROOT: u64 = 0;

#[derive(Debug, Default)]
pub(crate) struct Instances {
    known: FxHashMap<u64, Known>,
    order: VecDeque<u64>,
    open: FxHashMap<u64, Open>,
    /// Identifiers that go on as another one.
    aliases: FxHashMap<u64, u64>,
    closing: VecDeque<(Open, u64)>,
    pub(crate) roots: FxHashMap<u64, Root>,
    next_root: u64,
    /// The last step of an engine on each thread, until the next one begins.
    before: FxHashMap<u32, u64>,
    /// Stages that had an instance.
    begun: FxHashSet<u16>,
    repeats: FxHashMap<Kind, Repeats>,
    /// Ranges beyond what is kept.
    pub(crate) left_out: u64,
}

impl Instances {
    /// A range opened; gives the steps that are over for good now.
    pub(crate) fn open(&mut self, record: &RangeOpen, place: Place, steps: &mut Vec<Step>) {
        let mut before = None;
        if record.continues == 0 {
            self.end_closing(steps);
        } else if let Some(open) = self.open.remove(&record.continues) {
            if self.aliases.len() < OPEN {
                self.aliases.insert(record.continues, record.range);
            }
            before = Some(open);
        } else {
            let is_it = |&(open, end): &(Open, u64)| {
                open.first == record.continues && end == record.start.0
            };
            let at = self.closing.iter().position(is_it);
            before = at.and_then(|at| self.closing.remove(at)).map(|(open, _)| open);
        }
        let around = self.open.get(&record.parent).map(|open| (open.root, open.recorded));
        let around = around.or_else(|| Some((self.known.get(&record.parent)?.root, None)));
        let around = around.filter(|_| record.parent != RANGE_OUTSIDE);
        let mut recorded = around.and_then(|(_, recorded)| recorded);
        let of_stage = |root: &u64| self.roots.get(root).map(|known| known.stage) == place.stage;
        let inside = around.map(|(root, _)| root).filter(of_stage);
        let (mut root, mut is_root, mut start) = (NO_ROOT, false, record.start.0);
        match (place.stage, inside, before) {
            (None, ..) => {}
            (Some(_), Some(inside), _) => {
                root = inside;
                let goes_on = |open: &Open| !open.is_root && open.within == place.within;
                if let Some(open) = before.take_if(|open| goes_on(open)) {
                    start = open.start;
                }
            }
            (Some(stage), None, Some(open)) if open.is_root && open.stage == Some(stage) => {
                (root, is_root, recorded) = (open.root, true, open.recorded);
                before = None;
            }
            (Some(stage), None, before) => {
                let counted = before.is_none() && record.continues == 0;
                root = self.begin(stage, record, recorded, counted);
                is_root = root != NO_ROOT;
            }
        }
        if let Some(open) = before {
            self.ended(&open, record.start.0, steps);
        }
        let first = if record.continues == 0 { record.range } else { record.continues };
        let Place { stage, within, .. } = place;
        let open = Open { start, within, first, stage, root, is_root, recorded };
        if self.open.len() < OPEN {
            self.open.insert(record.range, open);
        } else {
            self.left_out += 1;
        }
        self.remember(record.range, Known { stage: place.stage, root });
    }

    fn begin(
        &mut self,
        stage: u16,
        record: &RangeOpen,
        recorded: Option<bool>,
        counted: bool,
    ) -> u64 {
        if self.roots.len() >= OPEN {
            self.left_out += 1;
            return NO_ROOT;
        }
        self.next_root += 1;
        let root = Root {
            stage,
            start: record.start.0,
            end: None,
            is_cold: counted && self.begun.insert(stage),
            thread: record.thread,
            worked_to: 0,
            launches: 0,
            within: Vec::new(),
            stepped_to: 0,
            recorded,
            batch: Batch::default(),
            counted,
        };
        self.roots.insert(self.next_root, root);
        self.next_root
    }

    fn remember(&mut self, range: u64, known: Known) {
        if self.known.insert(range, known).is_none() {
            self.order.push_back(range);
        }
        while self.order.len() > KNOWN {
            let Some(oldest) = self.order.pop_front() else { return };
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn close(&mut self, range: u64, end: u64, steps: &mut Vec<Step>) {
        let mut id = range;
        // Bounded: a hostile file can let continuations run in a circle.
        for _ in 0..64 {
            match self.aliases.remove(&id) {
                Some(next) if next != id => id = next,
                _ => break,
            }
        }
        let Some(open) = self.open.remove(&id) else { return };
        if self.closing.back().is_some_and(|&(_, before)| before != end) {
            self.end_closing(steps);
        }
        if self.closing.len() >= CLOSING
            && let Some((open, end)) = self.closing.pop_front()
        {
            self.ended(&open, end, steps);
        }
        self.closing.push_back((open, end));
    }

    /// What closed did not go on.
    pub(crate) fn end_closing(&mut self, steps: &mut Vec<Step>) {
        self.end_closing_before(u64::MAX, steps);
    }

    /// What closed before `to` did not go on.
    pub(crate) fn end_closing_before(&mut self, to: u64, steps: &mut Vec<Step>) {
        while let Some(&(open, end)) = self.closing.front().filter(|(_, end)| *end < to) {
            self.closing.pop_front();
            self.ended(&open, end, steps);
        }
    }

    fn ended(&mut self, open: &Open, end: u64, steps: &mut Vec<Step>) {
        let Some(root) = self.roots.get_mut(&open.root) else { return };
        if !open.is_root {
            return self.ended_within(open, end, steps);
        }
        root.end = Some(end.max(root.start));
        let (thread, counted, batch) = (root.thread, root.counted, root.batch);
        if let Some(before) = self.before.remove(&thread) {
            self.over(before, None, steps);
        }
        match counted && batch.requests.is_some() && self.before.len() < THREADS {
            true => drop(self.before.insert(thread, open.root)),
            false => self.over(open.root, None, steps),
        }
    }

    /// A range in an instance ended: one right within it may be a step.
    fn ended_within(&mut self, open: &Open, end: u64, steps: &mut Vec<Step>) {
        let (Some(name), Some(root)) = (open.within, self.roots.get_mut(&open.root)) else {
            return;
        };
        let kind = (root.stage, name);
        let has_room = self.repeats.len() < KINDS || self.repeats.contains_key(&kind);
        let at = root.within.iter().position(|(known, _)| *known == name);
        if !has_room || at.is_none() && root.within.len() >= KINDS_WITHIN {
            return;
        }
        let repeats = self.repeats.entry(kind).or_default();
        match at.and_then(|at| root.within.get_mut(at)) {
            Some((_, count)) => {
                *count += 1;
                repeats.several += u64::from(*count == 2);
            }
            None => {
                root.within.push((name, 1));
                repeats.instances += 1;
            }
        }
        let (start, end) = (open.start, end.max(open.start));
        repeats.ns = repeats.ns.saturating_add(end - start);
        root.stepped_to = root.stepped_to.max(end);
        let Root { stage, is_cold, recorded, .. } = *root;
        let (ns, within) = (Some(end - start), Some(name));
        steps.push(Step { stage, start, end, ns, is_cold, recorded, within, ..Step::default() });
    }

    /// Which ranges are the steps of stages: those that repeat in most instances, and cover them, as in a report. Of other
    /// stages the instances are. `instances_ns`: how long those of a stage took that ended.
    pub(crate) fn steps_within(&self, instances_ns: impl Fn(u16) -> u64) -> FxHashMap<u16, u32> {
        let mut most: FxHashMap<u16, (u64, u32)> = FxHashMap::default();
        let repeat = |of: &Repeats| of.several.saturating_mul(2) > of.instances;
        for (&(stage, name), of) in self.repeats.iter().filter(|(_, of)| repeat(of)) {
            let known = most.entry(stage).or_default();
            *known = (of.ns, name).max(*known);
        }
        let mut all_ns: FxHashMap<u16, u64> =
            most.keys().map(|&stage| (stage, instances_ns(stage))).collect();
        // Of those that are open, up to the last step.
        for root in self.roots.values().filter(|root| root.end.is_none()) {
            if let Some(all_ns) = all_ns.get_mut(&root.stage) {
                *all_ns = all_ns.saturating_add(root.stepped_to.saturating_sub(root.start));
            }
        }
        let covers = |stage: &u16, ns: u64| {
            let all_ns = all_ns.get(stage).copied().unwrap_or(u64::MAX);
            u128::from(ns) * 100 >= u128::from(all_ns) * u128::from(STEPS_COVER_PERCENT)
        };
        let most = most.into_iter().filter(|(stage, (ns, _))| covers(stage, *ns));
        most.map(|(stage, (_, name))| (stage, name)).collect()
    }

    /// An instance is over, and at `next` the step that continues its requests began.
    fn over(&mut self, root: u64, next: Option<u64>, steps: &mut Vec<Step>) {
        let Some(root) = self.roots.get_mut(&root) else { return };
        let (start, Some(end)) = (root.start, root.end) else { return };
        let until = next.map(|next| next.max(end));
        root.end = until.or(root.end);
        if root.counted {
            let until = until.or(Some(end).filter(|_| root.batch.requests.is_none()));
            let ns = until.map(|until| until - start);
            let Root { stage, is_cold, recorded, batch, .. } = *root;
            let within = None;
            steps.push(Step { stage, start, end, ns, is_cold, recorded, batch, within });
        }
    }

    /// Nothing more comes for now, or nothing before `to`.
    pub(crate) fn end_steps(&mut self, to: u64, steps: &mut Vec<Step>) {
        let is_old = |root: &u64| self.roots.get(root).is_none_or(|root| root.end <= Some(to));
        let old: Vec<u64> =
            self.before.extract_if(|_, root| is_old(root)).map(|(_, root)| root).collect();
        old.into_iter().for_each(|root| self.over(root, None, steps));
    }

    /// Whether the work of an open range is recorded, and of those opened in it from now on.
    pub(crate) fn sample(&mut self, range: u64, recorded: bool) {
        let Some(open) = self.open.get_mut(&range) else { return };
        open.recorded = Some(recorded);
        if open.is_root
            && let Some(root) = self.roots.get_mut(&open.root)
        {
            root.recorded = Some(recorded);
        }
    }

    /// The range states what it works on; counted where it is the instance of a stage.
    pub(crate) fn batch(&mut self, range: u64, batch: Batch, steps: &mut Vec<Step>) {
        let Some(open) = self.open.get(&range).filter(|open| open.is_root) else { return };
        let Some(root) = self.roots.get_mut(&open.root) else { return };
        root.batch.tokens = batch.tokens.or(root.batch.tokens);
        root.batch.requests = batch.requests.or(root.batch.requests);
        let Root { thread, start, .. } = *root;
        if batch.goes_on
            && let Some(before) = self.before.remove(&thread)
        {
            self.over(before, Some(start), steps);
        }
    }

    /// The stage of a range, and its instance; nothing where it is not known, or forgotten.
    pub(crate) fn place(&mut self, range: u64) -> Option<(Option<u16>, Option<&mut Root>)> {
        let known = self.known.get(&range)?;
        Some((known.stage, self.roots.get_mut(&known.root)))
    }

    /// Whether any instance began.
    pub(crate) fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Forgets the instances that ended before `to`, and gives those of them that count.
    pub(crate) fn forget(&mut self, to: u64) -> Vec<Root> {
        let is_over = |root: &Root| root.end.is_some_and(|end| end.max(root.worked_to) <= to);
        let over = self.roots.extract_if(|_, root| is_over(root));
        over.map(|(_, root)| root).filter(|root| root.counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::trace::MonoNs;

    const A: Place = Place { stage: Some(10), of_program: true, is_outermost: true, within: None };
    const B: Place = Place { stage: Some(11), ..A };
    const LIBRARY: Place =
        Place { stage: None, of_program: false, is_outermost: false, within: None };

    fn open(range: u64, parent: u64, start: u64, continues: u64) -> RangeOpen {
        let start = MonoNs(start);
        RangeOpen { range, start, path: 1, thread: 1, parent, continues, ..RangeOpen::default() }
    }

    fn step(stage: u16, start: u64, end: u64) -> Step {
        Step { stage, start, end, ns: Some(end - start), is_cold: true, ..Step::default() }
    }

    #[test]
    fn the_outermost_range_of_the_program_is_the_step() {
        let (mut all, mut steps) = (Instances::default(), Vec::new());
        all.open(&open(1, 0, 10, 0), LIBRARY, &mut steps);
        all.open(&open(2, 1, 20, 0), A, &mut steps);
        all.open(&open(3, 2, 30, 0), A, &mut steps);
        for (range, end) in [(3, 40), (2, 50), (1, 60)] {
            all.close(range, end, &mut steps);
        }
        all.end_closing(&mut steps);
        assert_eq!(steps, [step(10, 20, 50)]);
        assert!(all.place(1).is_some_and(|(stage, root)| stage.is_none() && root.is_none()));
        assert_eq!(all.place(3).and_then(|(_, root)| Some(root?.start)), Some(20));
        assert!(all.place(9).is_none());
    }

    #[test]
    fn an_instance_that_goes_on_is_one_step() {
        let (mut all, mut steps) = (Instances::default(), Vec::new());
        // The range of a library around it closes: both close, and one goes on.
        all.open(&open(1, 0, 10, 0), LIBRARY, &mut steps);
        all.open(&open(2, 1, 20, 0), A, &mut steps);
        all.close(2, 30, &mut steps);
        all.close(1, 30, &mut steps);
        all.open(&open(3, 0, 30, 2), A, &mut steps);
        all.close(3, 70, &mut steps);
        all.end_closing(&mut steps);
        assert_eq!(steps, [step(10, 20, 70)]);
    }

    #[test]
    fn what_goes_on_under_another_stage_is_no_step_of_it() {
        let (mut all, mut steps) = (Instances::default(), Vec::new());
        all.open(&open(1, 0, 10, 0), A, &mut steps);
        all.open(&open(2, 1, 20, 0), A, &mut steps);
        all.close(1, 30, &mut steps);
        all.open(&open(3, 0, 30, 2), B, &mut steps);
        all.close(2, 50, &mut steps);
        all.end_closing(&mut steps);
        assert_eq!(steps, [step(10, 10, 30)]);
        assert!(all.open.is_empty());
    }

    /// Hazard (Watching what runs): A file opens ranges without end.
    /// Promise: Memory is bounded, and what is beyond is counted.
    #[test]
    fn memory_is_bounded_whatever_opens() {
        let (mut all, mut steps) = (Instances::default(), Vec::new());
        for range in 1..=(KNOWN as u64 + 100) {
            all.open(&open(range, 0, range, 0), A, &mut steps);
        }
        assert_eq!((all.roots.len(), all.open.len(), all.known.len()), (OPEN, OPEN, KNOWN));
        assert!(all.left_out > 0 && all.place(1).is_none());
    }
}
