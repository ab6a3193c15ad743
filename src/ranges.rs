//! NVTX events into range instances, paths and, for each thread, a timeline of what was open.
//!
//! Anomalies and what is done about them:
//! - a pop or end without its push or start: counted as unbalanced, nothing else changes;
//! - an event that was lost because the queue was full (counted there): the depth that travels
//!   with the next push or pop of the domain shows it; ranges whose pop was lost are closed then,
//!   a push that was lost stands as a range named `(lost)`;
//! - ranges that do not nest (start/end, or push/pop of several domains): when an outer one
//!   closes first, the inner ones go on as continuations under their new path;
//! - more distinct names than [`MAX_NAMES`]: further ones are named `(more range names)` and
//!   counted, because names are kept for the life of the process.

mod apply;

use rustc_hash::FxHashMap;
use stage2_spool::{MonoNs, RANGE_OUTSIDE};

use crate::counters::Counters;
use crate::event::{Event, Want, What};
use crate::intern::{Interner, Sink};
use crate::timeline::{Correlations, Place, Timeline};

/// Distinct texts of ranges, marks and domains that are kept.
const MAX_NAMES: usize = 1 << 17;
/// Changes kept over all timelines: 32 MiB.
const MAX_CHANGES: usize = 1 << 20;
/// Graph nodes whose capture path is kept.
const MAX_NODES: usize = 1 << 20;
/// Launches looked up by correlation id (callback attribution), a power of two.
const LAUNCHES: usize = 1 << 19;

/// A range that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Instance, as the spool numbers it; changes when the range continues under another path.
    range: u64,
    /// The instance that it was opened as.
    first: u64,
    path: u32,
    name: u32,
    domain: u32,
    /// The guest's id of a start/end range; `None` for push/pop.
    start_id: Option<u64>,
    want: Want,
    event: Event,
}

/// What is known of one thread.
#[derive(Default)]
struct Thread {
    /// In the order in which they were opened.
    open: Vec<Open>,
    /// Push/pop ranges open, by domain.
    depths: Vec<(u32, u32)>,
    timeline: Timeline,
    /// Pieces of the text of the next event.
    text: Vec<u8>,
}

/// A range instance that closed, for the aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its path.
    pub path: u32,
    /// From opening (or continuing) to closing, ns.
    pub host_ns: u64,
    /// It is a range of its own, not the continuation of one.
    pub counts: bool,
    /// What was collected within it.
    pub want: Want,
}

/// The ranges of all threads.
pub struct Ranges {
    threads: Vec<Thread>,
    domains: FxHashMap<u32, u32>,
    strings: FxHashMap<u64, u32>,
    /// Thread on which a start/end range was started.
    started_on: FxHashMap<u64, u32>,
    capture_paths: FxHashMap<u64, u32>,
    /// Reported launches by the low bits of their id; empty until one is reported.
    launches: Vec<(u64, Place)>,
    correlations: Correlations,
    next_range: u64,
    names: usize,
    changes: usize,
    /// Only some instances of ranges are collected: the spool says which.
    sampled: bool,
}

impl Default for Ranges {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Ranges {
    /// No range is open. `sampled`: only some instances of ranges are collected.
    pub fn new(sampled: bool) -> Self {
        Ranges {
            threads: Vec::new(),
            domains: FxHashMap::default(),
            strings: FxHashMap::default(),
            started_on: FxHashMap::default(),
            capture_paths: FxHashMap::default(),
            launches: Vec::new(),
            correlations: Correlations::default(),
            next_range: RANGE_OUTSIDE + 1,
            names: 0,
            changes: 0,
            sampled,
        }
    }

    /// Takes one event in, writes what it defines, and gives the range instances it closed to
    /// `closed`.
    pub fn apply(
        &mut self,
        event: &Event,
        names: &mut Interner,
        sink: &mut impl Sink,
        counters: &Counters,
        closed: &mut Vec<Closed>,
    ) {
        if event.what == What::TextPiece {
            self.thread(event.thread).text.extend_from_slice(event.text());
            return;
        }
        let mut text = std::mem::take(&mut self.thread(event.thread).text);
        text.extend_from_slice(event.text());
        let mut step = apply::Applying { ranges: self, names, sink, counters, closed };
        step.apply(event, &text);
        // Give the allocation back to the thread.
        text.clear();
        self.thread(event.thread).text = text;
        if self.changes > MAX_CHANGES {
            self.threads.iter_mut().for_each(|thread| thread.timeline.forget_half());
            self.changes = self.threads.iter().map(|thread| thread.timeline.len()).sum();
        }
    }

    /// Where work belongs that `owner` launched with CUPTI's id `correlation`, and that id in
    /// full. `owner` 0: the thread is not known, so only a reported launch can tell.
    pub fn place(&mut self, owner: u32, correlation: u32) -> (Place, u64) {
        let correlation = self.correlations.extend(correlation);
        if !self.launches.is_empty() {
            let slot = self.launches[correlation as usize & (LAUNCHES - 1)];
            let place = if slot.0 == correlation { slot.1 } else { Place::UNKNOWN };
            return (place, correlation);
        }
        let place = match owner {
            0 => Place::UNKNOWN,
            owner => self
                .threads
                .get(owner as usize)
                .map_or(Place::OUTSIDE, |thread| thread.timeline.at(correlation)),
        };
        (place, correlation)
    }

    /// Ranges that are open on any thread.
    pub fn open_count(&self) -> usize {
        self.threads.iter().map(|thread| thread.open.len()).sum()
    }

    /// Paths of open ranges with the time since they were opened, ns.
    pub fn still_open(&self, now: MonoNs) -> impl Iterator<Item = Closed> + '_ {
        self.threads.iter().flat_map(|thread| &thread.open).map(move |open| Closed {
            path: open.path,
            host_ns: now.since(open.event.at),
            counts: open.first == open.range,
            want: open.want,
        })
    }

    fn thread(&mut self, number: u32) -> &mut Thread {
        let index = number as usize;
        if index >= self.threads.len() {
            self.threads.resize_with(index + 1, Thread::default);
        }
        &mut self.threads[index]
    }
}

#[cfg(test)]
mod tests;
