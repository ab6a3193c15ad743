//! NVTX events into range instances, paths and, for each thread, a timeline of what was open.
//!
//! Anomalies and what is done about them:
//! - a pop or end without its push or start: counted as unbalanced, nothing else changes;
//! - an event that was lost because the queue was full (counted there): what its thread launched
//!   since its last event that arrived is "not known", up to its next push or pop. With that
//!   travels how deep the thread is nested, and how far up it was meanwhile: ranges that may have
//!   been closed are closed then, those that may have been opened stand as ranges named `(lost)`.
//!   The end of a start/end range arrives late (see [`Ranges::doubt_since`]);
//! - ranges that do not nest (start/end, or push/pop of several domains): when an outer one
//!   closes first, the inner ones go on as continuations under their new path, if they are not
//!   too many;
//! - more names, nodes or open ranges than are kept: further ones are counted, and named
//!   for what they are. Everything kept here is bounded.

mod apply;

use rustc_hash::FxHashMap;
use stage2_contract::text::is_library_domain;
use stage2_contract::trace::{MonoNs, NONE, RANGE_OUTSIDE, RangeOpen, Record};

use crate::base::counters::Counters;
use crate::drain::fields::Definitions;
use crate::drain::intern::{Interner, Sink};
use crate::drain::timeline::{Correlations, Place, Timeline};
use crate::guest::event::{Event, EventKind, Selection, TextPlace};

/// Changes kept over all timelines: 8 MiB.
const MAX_CHANGES: usize = 1 << 18;
/// Graph nodes whose capture path is kept.
const MAX_NODES: usize = 1 << 17;
/// Distinct texts in fields of ranges that are kept.
const MAX_FIELD_TEXTS: u32 = 1 << 12;
/// Start/end ranges that may be open at a time.
const MAX_STARTED: usize = 1 << 14;
/// The correlation id of a record that CUPTI knows no call of (`CUPTI_CORRELATION_ID_UNKNOWN`).
const NO_CORRELATION: u32 = 0;
/// Launches looked up by correlation id (callback attribution), a power of two: 8 MiB.
const LAUNCHES: usize = 1 << 18;
/// Threads that are kept: 12 MiB. Of more, those that sent nothing for longest are put to rest, down to half of
/// them, which is more than the default pool has buffers: no thread is at rest whose buffer is on its way.
const THREADS: usize = 1 << 13;
/// Of those that would be put to rest, so many stay that are in a range.
const BUSY_THREADS: usize = THREADS / 4;

/// Push/pop ranges of a thread that are kept; of those nested deeper only the number is.
const MAX_OPEN: usize = 1 << 14;
/// Ranges that go on under a new path when one around them closes. Where there are more, all keep
/// their path for now, and what is launched meanwhile is unattributed.
const MAX_CONTINUED: usize = 1 << 8;
const LOST: &[u8] = b"(lost)";

/// The push/pop ranges of one domain that are open on a thread.
struct Depth {
    domain: u32,
    open: u32,
    /// Those of them that are not kept.
    beyond: u32,
}

#[derive(Default)]
struct Thread {
    /// In the order in which they were opened.
    open: Vec<OpenRange>,
    last_fence: u64,
    /// Events were lost, and what is open is not known again.
    uncertain: bool,
    /// An event was lost that nothing makes up for.
    lost_track: bool,
    /// Those of them that are gone.
    gone: usize,
    depths: Vec<Depth>,
    timeline: Timeline,
    /// Pieces of the text of the next event, and of its payloads.
    text: Vec<u8>,
    payloads: Vec<u8>,
    /// [`crate::guest::event::Events::lost`] as far as it was heeded.
    lost: u32,
    /// Its last event, as all of them are counted.
    last_event: u64,
}

impl Thread {
    /// Nothing of it has to be known but when it last was in a range.
    fn is_at_rest(&self) -> bool {
        let on_its_way = !self.text.is_empty() || !self.payloads.is_empty();
        self.open.is_empty() && !self.uncertain && !on_its_way
    }

    fn open_count(&self) -> usize {
        let beyond: usize = self.depths.iter().map(|depth| depth.beyond as usize).sum();
        self.open.len() - self.gone + beyond
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosedRange {
    pub(crate) path: u32,
    /// From opening (or continuing) to closing, ns.
    pub(crate) host_ns: u64,
    /// It is a separate range, not the continuation of one.
    pub(crate) counts: bool,
    pub(crate) selection: Selection,
    /// It is an instance of what limits of steps count: see [`Limits`](stage2_contract::control::Limits).
    pub(crate) is_step: bool,
}

/// A range that is open.
pub(crate) struct StillOpen {
    pub(crate) thread: u32,
    pub(crate) range: u64,
    pub(crate) path: u32,
    pub(crate) name: u32,
    pub(crate) since: MonoNs,
    /// It is none of a library.
    pub(crate) is_of_program: bool,
    /// Its thread lost no event: else it may be closed.
    pub(crate) is_sure: bool,
}

pub(crate) struct LaunchSite {
    pub(crate) place: Place,
    /// Its correlation id in full; 0 where CUPTI knows no call.
    pub(crate) correlation: u64,
}

/// The ranges of all threads. Only [`Ranges::new`] may make them: numbers begin behind [`RANGE_OUTSIDE`].
#[derive(Default)]
pub(crate) struct Ranges {
    /// By number.
    threads: FxHashMap<u32, Box<Thread>>,
    /// All others are in no range since this fence, and what they did before is not known; 0: they never were in
    /// any. Nothing at all is known of those of them that have this number or a lower one.
    resting_since: u64,
    unknown_up_to: Option<u32>,
    /// Ranges that were open on threads that are not known any more, and those of them that were not counted.
    forgotten: usize,
    uncounted: u64,
    events: u64,
    /// Names of domains and registered strings that were met.
    registered: FxHashMap<u32, u32>,
    definitions: Definitions<'static>,
    field_texts: u32,
    /// Thread on which a start/end range was started.
    started_on: FxHashMap<u64, u32>,
    captures: FxHashMap<u64, Place>,
    /// Reported launches by the low bits of their id; empty where none are expected.
    launches: Vec<(u64, Place)>,
    correlations: Correlations,
    next_range: u64,
    changes: usize,
    /// Only some ranges are collected: the trace file states which.
    restricted: bool,
    /// The range instances that closed, until someone takes them.
    pub(super) closed: Vec<ClosedRange>,
}

impl Ranges {
    /// No range is open. `restricted`: only some ranges, or instances of them, are collected.
    pub(crate) fn new(restricted: bool) -> Self {
        Ranges { next_range: RANGE_OUTSIDE + 1, restricted, ..Ranges::default() }
    }

    pub(crate) fn apply(
        &mut self,
        event: &Event,
        names: &mut Interner,
        sink: &mut impl Sink,
        counters: &Counters,
    ) {
        self.events += 1;
        if matches!(event.kind, EventKind::TextPiece | EventKind::PayloadPiece) {
            let thread = self.thread(event.thread);
            let is_text = event.kind == EventKind::TextPiece;
            let pieces = if is_text { &mut thread.text } else { &mut thread.payloads };
            if event.text_place == TextPlace::Here {
                pieces.clear();
            }
            pieces.extend_from_slice(event.text());
            return;
        }
        self.note_losses(event.thread, event.lost);
        let mut step = apply::EventContext { ranges: self, names, sink, counters };
        match event.text_place {
            TextPlace::Here => step.apply(event, event.text()),
            TextPlace::Lost => step.apply(event, LOST),
            TextPlace::Continued => {
                let mut text = std::mem::take(&mut step.ranges.thread(event.thread).text);
                text.extend_from_slice(event.text());
                step.apply(event, &text);
                // Give the allocation back to the thread.
                text.clear();
                step.ranges.thread(event.thread).text = text;
            }
        }
        if event.fence != 0 && event.kind != EventKind::Launch {
            let fence = self.correlations.extend(event.fence);
            let thread = self.thread(event.thread);
            thread.last_fence = thread.last_fence.max(fence);
        }
        if self.changes > MAX_CHANGES {
            self.threads.values_mut().for_each(|thread| thread.timeline.forget_half());
            self.count_changes();
        }
        if self.uncounted > 0 {
            counters.beyond_limits.add(std::mem::take(&mut self.uncounted));
        }
    }

    /// Before [`Ranges::apply`] of the end of a start/end range that found no place in the queue, when
    /// everything was applied that its thread sent before. What was opened inside that range since is
    /// not known.
    pub(crate) fn doubt_since(&mut self, end: &Event) {
        if let Some(&thread) = self.started_on.get(&end.id) {
            let fence = if end.fence == 0 { 0 } else { self.correlations.extend(end.fence) };
            self.doubt(thread, fence);
        }
    }

    /// Ends of unknown start/end ranges were lost: of threads with such ranges nothing
    /// is known any more.
    pub(crate) fn lose_ends(&mut self) {
        for thread in self.threads.values_mut() {
            if thread.open.iter().any(|open| open.start_id.is_some()) {
                (thread.uncertain, thread.lost_track) = (true, true);
                thread.timeline.doubt(thread.last_fence);
            }
        }
        self.count_changes();
    }

    /// `lost`: [`crate::guest::event::Events::lost`] of a thread, after everything was applied that it
    /// had sent when that was read. Where it lost events since the last that arrived, what it
    /// launched since is not known.
    pub(crate) fn note_losses(&mut self, thread: u32, lost: u32) {
        let heeded = self.threads.get(&thread).map_or(0, |known| known.lost);
        // The count wraps.
        if thread == 0 || lost.wrapping_sub(heeded) as i32 <= 0 {
            return;
        }
        let known = self.thread(thread);
        known.lost = lost;
        known.uncertain = true;
        let since = known.last_fence;
        self.doubt(thread, since);
    }

    fn doubt(&mut self, thread: u32, since: u64) {
        self.edit_timeline(thread, |timeline| timeline.doubt(since));
    }

    fn edit_timeline(&mut self, thread: u32, edit: impl FnOnce(&mut Timeline)) {
        let timeline = &mut self.thread(thread).timeline;
        let before = timeline.len();
        edit(timeline);
        let more = timeline.len() - before;
        self.changes += more;
    }

    /// Launches will be reported one by one. From now on only that tells where work belongs: a buffer
    /// may hold the records of any thread.
    pub(crate) fn expect_launches(&mut self) {
        self.launches.resize(LAUNCHES, (u64::MAX, Place::UNKNOWN));
    }

    fn note_launch(&mut self, event: &Event) {
        // The first may arrive before we know that launches are reported.
        if self.launches.is_empty() {
            self.expect_launches();
        }
        let place = self.now(event.thread);
        let id = self.correlations.extend(event.fence);
        self.launches[id as usize & (LAUNCHES - 1)] = (id, place);
    }

    /// The number in CUPTI's sequence that a fence took.
    pub(crate) fn number_of(&mut self, fence: u32) -> u64 {
        self.correlations.extend(fence)
    }

    /// Where work belongs that `owner` launched with CUPTI's id `correlation`. `owner` 0: the thread is
    /// not known, so only a reported launch can tell.
    pub(crate) fn place(&mut self, owner: u32, correlation: u32) -> LaunchSite {
        if correlation == NO_CORRELATION {
            return LaunchSite { place: Place::UNKNOWN, correlation: 0 };
        }
        let correlation = self.correlations.extend(correlation);
        if !self.launches.is_empty() {
            let slot = self.launches[correlation as usize & (LAUNCHES - 1)];
            let place = if slot.0 == correlation { slot.1 } else { Place::UNKNOWN };
            return LaunchSite { place, correlation };
        }
        let place = match owner {
            0 => Place::UNKNOWN,
            owner => match self.threads.get(&owner) {
                Some(thread) => thread.timeline.at(correlation),
                None if correlation < self.resting_since => Place::UNKNOWN,
                None => self.at_rest(owner),
            },
        };
        LaunchSite { place, correlation }
    }

    fn now(&self, thread: u32) -> Place {
        let known = self.threads.get(&thread);
        known.map_or_else(|| self.at_rest(thread), |known| known.timeline.now())
    }

    /// What is open on a thread that is not kept.
    fn at_rest(&self, thread: u32) -> Place {
        if self.unknown_up_to >= Some(thread) { Place::UNKNOWN } else { Place::OUTSIDE }
    }

    pub(crate) fn open_count(&self) -> usize {
        self.threads.values().map(|thread| thread.open_count()).sum::<usize>() + self.forgotten
    }

    /// Paths of open ranges with the time since they were opened, ns.
    pub(crate) fn still_open(&self, now: MonoNs) -> impl Iterator<Item = ClosedRange> + '_ {
        self.threads.values().flat_map(|thread| &thread.open).filter(|open| !open.gone).map(
            move |open| ClosedRange {
                path: open.path,
                host_ns: now.since(open.event.at),
                counts: open.first == open.range,
                selection: open.selection,
                is_step: false,
            },
        )
    }

    /// The ranges that are open, thread by thread, the outermost first. `lost` as [`crate::guest::event::Events::lost`].
    pub(crate) fn open_ranges<'a>(
        &'a self,
        names: &'a Interner,
        lost: impl Fn(u32) -> u32 + 'a,
    ) -> impl Iterator<Item = StillOpen> + 'a {
        self.in_order().into_iter().flat_map(move |(number, thread)| {
            let is_sure = !thread.uncertain && thread.lost == lost(number);
            let open = thread.open.iter().filter(|open| !open.gone);
            open.map(move |open| StillOpen {
                thread: number,
                range: open.range,
                path: open.path,
                name: open.name,
                since: open.event.at,
                is_of_program: !is_library_domain(names.text(open.domain)),
                is_sure: is_sure && !open.lost,
            })
        })
    }

    fn thread(&mut self, number: u32) -> &mut Thread {
        if self.threads.len() >= THREADS && !self.threads.contains_key(&number) {
            self.put_to_rest();
        }
        let &mut Ranges { resting_since: last_fence, unknown_up_to, events, .. } = self;
        let thread = self.threads.entry(number).or_insert_with(|| {
            let mut timeline = Timeline::since(last_fence);
            let uncertain = unknown_up_to >= Some(number);
            if uncertain {
                timeline.doubt(0);
            }
            Box::new(Thread { timeline, last_fence, uncertain, ..Thread::default() })
        });
        thread.last_event = events;
        thread
    }

    /// Forgets the threads that sent nothing for longest, and with them what is open on them where that is too
    /// much: guests have threads that end and leave ranges open.
    fn put_to_rest(&mut self) {
        let mut oldest: Vec<(u64, u32)> =
            self.threads.iter().map(|(&number, thread)| (thread.last_event, number)).collect();
        oldest.sort_unstable();
        oldest.truncate(oldest.len() - THREADS / 2);
        let is_busy = |(_, number): &(u64, u32)| {
            self.threads.get(number).is_some_and(|thread| !thread.is_at_rest())
        };
        let (busy, mut leaving): (Vec<_>, Vec<_>) = oldest.into_iter().partition(is_busy);
        leaving.extend(&busy[..busy.len().saturating_sub(BUSY_THREADS)]);
        for (_, number) in leaving {
            let Some(thread) = self.threads.remove(&number) else { continue };
            self.resting_since = self.resting_since.max(thread.timeline.last_fence());
            if !thread.is_at_rest() {
                self.unknown_up_to = self.unknown_up_to.max(Some(number));
                self.forgotten += thread.open_count();
                self.uncounted += thread.open_count().max(1) as u64;
            }
        }
        self.count_changes();
    }

    fn in_order(&self) -> Vec<(u32, &Thread)> {
        let mut threads: Vec<(u32, &Thread)> =
            self.threads.iter().map(|(&number, thread)| (number, &**thread)).collect();
        threads.sort_unstable_by_key(|&(number, _)| number);
        threads
    }

    fn count_changes(&mut self) {
        self.changes = self.threads.values().map(|thread| thread.timeline.len()).sum();
    }
}

impl Ranges {
    pub(crate) fn next_number(&self) -> u64 {
        self.next_range
    }

    /// Says of each open range that it goes on since `at`, the outer ones first, and how many there are.
    pub(crate) fn say_open(&self, at: MonoNs, names: &mut Interner, sink: &mut impl Sink) -> u64 {
        let mut said = 0;
        for (number, thread) in self.in_order() {
            let all = thread.open.iter();
            for open in all.clone().filter(|open| !open.gone) {
                names.define_path(open.path, sink);
                sink.put(Record::RangeOpen(RangeOpen {
                    parent: around(open, all.clone()),
                    start: at,
                    continues: open.range,
                    ..open.record(number)
                }));
                if self.restricted && open.event.selection != Selection::Inherit {
                    let recorded = open.selection == Selection::Collect;
                    sink.put(Record::RangeSample { range: open.range, recorded });
                }
                said += 1;
            }
        }
        said
    }
}

/// The instance that an open range is in, of those of its thread that have not closed yet.
fn around<'o>(open: &OpenRange, all: impl Iterator<Item = &'o OpenRange> + Clone) -> u64 {
    let mut parent = open.parent;
    while let Some(gone) = all.clone().find(|other| other.gone && other.range == parent) {
        parent = gone.parent;
    }
    parent
}

#[derive(Clone, Copy, Debug)]
struct OpenRange {
    /// Instance, as the trace file numbers it; changes when the range continues under another path.
    range: u64,
    /// The instance that it was opened as.
    first: u64,
    /// The instance that it is in, as the trace file numbers it; `RANGE_OUTSIDE` at the top.
    parent: u64,
    path: u32,
    name: u32,
    domain: u32,
    /// It, or one around it, was lost: whether collection was asked for is not known.
    lost: bool,
    /// It has closed, and is still in the paths of those opened after it.
    gone: bool,
    /// The guest's id of a start/end range; `None` for push/pop.
    start_id: Option<u64>,
    selection: Selection,
    /// What it takes over from the range that it is in.
    inherited: Inherited,
    event: Event,
}

#[derive(Clone, Copy, Debug, Default)]
struct Inherited {
    path: u32,
    lost: bool,
    selection: Selection,
}

impl OpenRange {
    /// What `event` opens, in no other range. `start_id`: the guest's id of a start/end range.
    fn new(range: u64, event: &Event, name: u32, domain: u32, start_id: Option<u64>) -> Self {
        OpenRange {
            range,
            first: range,
            parent: RANGE_OUTSIDE,
            path: NONE,
            name,
            domain,
            lost: false,
            gone: false,
            start_id,
            selection: event.selection,
            inherited: Inherited::default(),
            event: *event,
        }
    }

    /// Puts it in the innermost open range of its thread, or next to that one. Gives the path that its own
    /// name comes behind.
    fn put_in(&mut self, innermost: Option<&OpenRange>) -> u32 {
        (self.parent, self.inherited) = match innermost {
            Some(other) if self.is_beside(other) => (other.parent, other.inherited),
            Some(&OpenRange { range, path, lost, selection, .. }) => {
                (range, Inherited { path, lost, selection })
            }
            None => (RANGE_OUTSIDE, Inherited::default()),
        };
        self.selection = self.inherited.selection.max(self.selection);
        self.lost |= self.inherited.lost;
        self.inherited.path
    }

    /// Start/end ranges of one name, such as requests, need not nest: they stand side by side.
    fn is_beside(&self, other: &OpenRange) -> bool {
        self.start_id.is_some()
            && other.start_id.is_some()
            && !other.gone
            && (self.name, self.domain) == (other.name, other.domain)
    }

    fn record(&self, thread: u32) -> RangeOpen {
        RangeOpen {
            range: self.range,
            path: self.path,
            thread,
            parent: self.parent,
            start: self.event.at,
            start_end: self.start_id.is_some(),
            category: self.event.category,
            payload: self.event.payload,
            continues: if self.first == self.range { 0 } else { self.first },
        }
    }
}

#[cfg(test)]
mod tests;
