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

use rustc_hash::FxHashMap;
use stage2_spool::{Mark, MonoNs, NONE, RANGE_OUTSIDE, RangeOpen, Record};

use crate::counters::Counters;
use crate::event::{Event, What};
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
    wanted: bool,
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
}

impl Default for Ranges {
    fn default() -> Self {
        Self::new()
    }
}

impl Ranges {
    /// No range is open.
    pub fn new() -> Self {
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
        let mut step = Applying { ranges: self, names, sink, counters, closed };
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

/// One event on its way in, with everything it may touch.
struct Applying<'a, S> {
    ranges: &'a mut Ranges,
    names: &'a mut Interner,
    sink: &'a mut S,
    counters: &'a Counters,
    closed: &'a mut Vec<Closed>,
}

impl<S: Sink> Applying<'_, S> {
    fn apply(&mut self, event: &Event, text: &[u8]) {
        match event.what {
            What::TextPiece => {}
            What::Thread => self.sink.put(Record::Thread {
                id: event.thread,
                os_tid: event.id as u32,
                name: text.to_vec(),
            }),
            What::DomainName => {
                let name = self.text_name(text);
                self.ranges.domains.insert(event.domain, name);
            }
            What::RegisteredString => {
                let name = self.text_name(text);
                self.ranges.strings.insert(event.id, name);
            }
            What::Push => {
                let name = self.event_name(event, text);
                self.resynchronise(event, event.depth.map(|depth| depth.saturating_sub(1)));
                self.count_depth(event, 1);
                self.open(event, name, None);
                self.note_change(event.thread, event.fence);
            }
            What::Pop => {
                self.resynchronise(event, event.depth.map(|depth| depth.saturating_add(1)));
                let innermost =
                    self.ranges.thread(event.thread).open.iter().rposition(|open| {
                        open.start_id.is_none() && open.event.domain == event.domain
                    });
                match innermost {
                    Some(index) => {
                        self.count_depth(event, -1);
                        self.close(event.thread, index, event);
                    }
                    None => self.counters.unbalanced.increment(),
                }
            }
            What::Start => {
                let name = self.event_name(event, text);
                self.ranges.started_on.insert(event.id, event.thread);
                self.open(event, name, Some(event.id));
                self.note_change(event.thread, event.fence);
            }
            What::End => {
                let thread = self.ranges.started_on.remove(&event.id);
                let place = thread.and_then(|thread| {
                    let open = &self.ranges.thread(thread).open;
                    open.iter().rposition(|o| o.start_id == Some(event.id)).map(|i| (thread, i))
                });
                match place {
                    Some((thread, index)) => self.close(thread, index, event),
                    None => self.counters.unbalanced.increment(),
                }
            }
            What::Mark => {
                let name = self.event_name(event, text);
                let domain = self.domain_name(event.domain);
                self.sink.put(Record::Mark(Mark {
                    at: event.at,
                    thread: event.thread,
                    name,
                    domain,
                    category: event.category,
                    payload: event.payload,
                }));
            }
            What::Launch => {
                let place = self.ranges.thread(event.thread).timeline.now();
                let id = self.ranges.correlations.extend(event.fence);
                // Room is only needed with attribution by callback.
                if self.ranges.launches.is_empty() {
                    self.ranges.launches.resize(LAUNCHES, (u64::MAX, Place::UNKNOWN));
                }
                if let Some(slot) = self.ranges.launches.get_mut(id as usize & (LAUNCHES - 1)) {
                    *slot = (id, place);
                }
            }
            What::GraphNodeCreated => {
                let path = self.ranges.thread(event.thread).timeline.now().path;
                if path != NONE && self.ranges.capture_paths.len() < MAX_NODES {
                    self.ranges.capture_paths.insert(event.id, path);
                }
            }
            What::GraphNodeCloned => {
                let original = match event.payload {
                    Some(stage2_spool::Payload::U64(node)) => node,
                    _ => return,
                };
                if let Some(&path) = self.ranges.capture_paths.get(&original) {
                    self.sink.put(Record::GraphNode { node: event.id, path });
                }
            }
        }
    }

    /// Opens a range on its thread; the caller notes the change.
    fn open(&mut self, event: &Event, name: u32, start_id: Option<u64>) {
        let domain = self.domain_name(event.domain);
        let range = self.ranges.next_range;
        self.ranges.next_range += 1;
        let open = Open {
            range,
            first: range,
            path: NONE,
            name,
            domain,
            start_id,
            wanted: event.wanted,
            event: *event,
        };
        self.write_open(event.thread, open);
    }

    /// Writes the opening of `open` inside what is open on `thread`, and keeps it there.
    fn write_open(&mut self, thread: u32, mut open: Open) {
        let parent = self.ranges.thread(thread).open.last().copied();
        let parent_path = parent.map_or(NONE, |parent| parent.path);
        open.path = self.names.path(parent_path, open.name, open.domain, self.sink);
        open.wanted |= parent.is_some_and(|parent| parent.wanted);
        self.sink.put(Record::RangeOpen(RangeOpen {
            range: open.range,
            path: open.path,
            thread,
            parent: parent.map_or(RANGE_OUTSIDE, |parent| parent.range),
            start: open.event.at,
            start_end: open.start_id.is_some(),
            category: open.event.category,
            payload: open.event.payload,
            continues: if open.first == open.range { 0 } else { open.first },
        }));
        self.ranges.thread(thread).open.push(open);
    }

    /// Closes the open range at `index` of `thread`; those opened after it go on without it.
    fn close(&mut self, thread: u32, index: usize, event: &Event) {
        let mut rest = self.ranges.thread(thread).open.split_off(index);
        for open in rest.iter().rev() {
            self.write_close(open, event.at);
        }
        for mut open in rest.drain(..).skip(1) {
            open.range = self.ranges.next_range;
            self.ranges.next_range += 1;
            open.event.at = event.at;
            open.wanted = open.event.wanted;
            self.write_open(thread, open);
        }
        self.note_change(thread, event.fence);
    }

    fn write_close(&mut self, open: &Open, end: MonoNs) {
        self.sink.put(Record::RangeClose { range: open.range, end });
        self.closed.push(Closed {
            path: open.path,
            host_ns: end.since(open.event.at),
            counts: open.first == open.range,
        });
    }

    /// What is open on `thread` is so from this fence on.
    fn note_change(&mut self, thread: u32, fence: u32) {
        let place = self.ranges.thread(thread).open.last().map_or(Place::OUTSIDE, |open| Place {
            range: open.range,
            path: open.path,
            wanted: open.wanted,
        });
        // No fence: CUPTI is not there yet, and everything it will number comes later.
        let fence = if fence == 0 { 0 } else { self.ranges.correlations.extend(fence) };
        let timeline = &mut self.ranges.thread(thread).timeline;
        let before = timeline.len();
        timeline.change(fence, place);
        self.ranges.changes += self.ranges.thread(thread).timeline.len() - before;
    }

    /// Brings the open ranges of the event's domain to `expected`, the number that was open
    /// before the event. They only differ where events were lost.
    fn resynchronise(&mut self, event: &Event, expected: Option<u32>) {
        let Some(expected) = expected else { return };
        let known = self.depth(event);
        for _ in expected..known {
            let open = &self.ranges.thread(event.thread).open;
            let same = |o: &Open| o.start_id.is_none() && o.event.domain == event.domain;
            if let Some(index) = open.iter().rposition(same) {
                self.count_depth(event, -1);
                self.close(event.thread, index, event);
            }
        }
        for _ in known..expected {
            let name = self.text_name(b"(lost)");
            let mut lost = *event;
            (lost.category, lost.payload, lost.wanted) = (0, None, false);
            self.count_depth(event, 1);
            self.open(&lost, name, None);
        }
    }

    fn depth(&mut self, event: &Event) -> u32 {
        let depths = &self.ranges.thread(event.thread).depths;
        depths.iter().find(|(domain, _)| *domain == event.domain).map_or(0, |&(_, depth)| depth)
    }

    fn count_depth(&mut self, event: &Event, change: i32) {
        let depths = &mut self.ranges.thread(event.thread).depths;
        match depths.iter_mut().find(|(domain, _)| *domain == event.domain) {
            Some((_, depth)) => *depth = depth.saturating_add_signed(change),
            None => depths.push((event.domain, change.max(0) as u32)),
        }
    }

    fn event_name(&mut self, event: &Event, text: &[u8]) -> u32 {
        match self.ranges.strings.get(&event.string) {
            Some(&name) => name,
            None => self.text_name(text),
        }
    }

    fn domain_name(&self, domain: u32) -> u32 {
        self.ranges.domains.get(&domain).copied().unwrap_or(NONE)
    }

    fn text_name(&mut self, text: &[u8]) -> u32 {
        let text = stage2_figures::without_instance(text);
        if let Some(name) = self.names.known_name(text) {
            return name;
        }
        if self.ranges.names >= MAX_NAMES {
            self.counters.names_cut.increment();
            return self.names.name(b"(more range names)", self.sink);
        }
        self.ranges.names += 1;
        self.names.name(text, self.sink)
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
