//! Buffers of CUPTI's and events of the guest's threads -> ranges and work in the trace file.
//!
//! Order matters once: a buffer is taken first, then all events that are there. What launched the
//! records of the buffer happened before it was full, so its ranges are among those events.

use stage2_contract::trace::{
    Device, GpuNs, GpuWork, MonoNs, RANGE_OUTSIDE, RangeOpen, Record, Shape, What,
};

use super::Drain;
use crate::base::clock;
use crate::drain::aggregate::{Key, UNATTRIBUTED, Work};
use crate::drain::intern::Sink;
use crate::drain::ranges::LaunchSite;
use crate::drain::standing::Piece;
use crate::drain::timeline::Place;
use crate::guest::activity::{self, Activity, Execution};
use crate::guest::event::{Event, EventKind};
use crate::guest::pool::{FullBuffer, Pool};

/// Buffers that are taken at once, and how often in a row before the trace file and the limits of
/// the window have their turn: together about 600,000 records.
const BATCH: usize = 16;
const ROUNDS: usize = 8;
/// Late ends that are taken at once.
const LATE: usize = 1 << 10;

impl Drain {
    /// Takes in what is there, as far as it is not too much at once. Gives how many buffers that were.
    pub(super) fn take_in(&mut self) -> usize {
        self.take_in_rounds(ROUNDS)
    }

    /// Takes in what waits, in so many rounds at most. Gives the number of buffers.
    pub(super) fn take_in_rounds(&mut self, rounds: usize) -> usize {
        let mut taken = 0;
        self.meet_gpu();
        self.take_in_samples();
        self.spans.take_in(&self.shared.switches);
        let Some(pool) = self.shared.pool.get() else {
            self.take_in_events();
            return 0;
        };
        for _ in 0..rounds {
            let full: Vec<FullBuffer> =
                std::iter::from_fn(|| pool.take_full()).take(BATCH).collect();
            // After the buffers, before the events: these are all that can matter to the buffers.
            let lost = |full: &FullBuffer| self.shared.events.lost(full.owner);
            let lost: Vec<u32> = full.iter().map(lost).collect();
            self.take_in_events();
            if full.is_empty() {
                break;
            }
            taken += full.len();
            if let Some(now) = self.shared.gpu().and_then(|gpu| gpu.tracer.now()) {
                self.possible.note(now);
            }
            for (full, lost) in full.into_iter().zip(lost) {
                self.ranges.note_losses(full.owner, lost);
                self.check_layouts(&full);
                if let Some(gpu) = self.shared.gpu() {
                    self.spans.take_in(&self.shared.switches);
                    let each = |activity: &_| self.take_in_activity(full.owner, activity);
                    let unread = activity::for_each(&full, gpu.walker, each);
                    self.shared.counters.unreadable_records.add(unread);
                }
                pool.recycle(full);
                self.turn_piece();
            }
        }
        taken
    }

    fn take_in_samples(&mut self) {
        let Some(counters) = self.shared.gpu().and_then(|gpu| gpu.counters.as_ref()) else {
            return;
        };
        if !self.shared.events.is_empty() || self.shared.pool.get().is_some_and(Pool::has_full) {
            counters.hint();
        }
        while let Some(record) = counters.take() {
            self.output.put(record);
        }
    }

    /// Takes in the events that are there. Those that come meanwhile wait: guests may send them
    /// faster than they can be taken in.
    fn take_in_events(&mut self) {
        let events = &self.shared.events;
        let mut late: Vec<Event> =
            std::iter::from_fn(|| events.receive_late_end()).take(LATE).collect();
        late.retain(|end| end.epoch == self.epoch);
        let ends_lost = events.take_ends_lost();
        for _ in 0..events.waiting() {
            let Some(event) = events.receive() else { break };
            self.take_in_event(&event);
        }
        for end in &late {
            self.ranges.doubt_since(end);
            self.take_in_event(end);
        }
        if ends_lost {
            self.ranges.lose_ends();
        }
    }

    fn take_in_event(&mut self, event: &Event) {
        if event.epoch != self.epoch || self.is_behind_cut(event) {
            // It was on its way when an earlier window ended, or this one is over.
            return;
        }
        self.records.note_event(event.at);
        self.repair();
        match event.kind {
            EventKind::Thread => self.host.meet(event.id as u32, event.thread),
            EventKind::Call => {
                return self.host.call(event, &mut self.names, &mut self.output);
            }
            _ => {}
        }
        self.ranges.apply(event, &mut self.names, &mut self.output, &self.shared.counters);
        let mut first_step = None;
        for closed in self.ranges.closed.drain(..) {
            if closed.is_step {
                self.steps += 1;
                first_step = first_step.or((self.steps == 1).then_some(closed.host_ns));
            }
            self.queues.last_close = event.at;
            self.aggregates.add_range(closed);
        }
        if let Some(ns) = first_step {
            self.tell_first_step(event.at, ns);
        }
        self.cut_behind(event);
    }

    /// What was defined in a frame that was dropped has to be defined again.
    #[inline]
    pub(super) fn repair(&mut self) {
        if self.output.take_lost() {
            self.names.define_again();
        }
    }

    #[inline]
    fn take_in_activity(&mut self, owner: u32, activity: &Activity) {
        match activity {
            Activity::Kernel { ran, shape, name } => {
                let Some((site, ran)) = self.find(owner, *ran) else { return };
                let name = self.names.name_at(name.address(), name.bytes(), &mut self.output);
                let shape = self.names.shape(Shape { name, ..*shape }, &mut self.output);
                self.add(&site, &ran, Work::Kernel(name), What::Kernel { shape });
            }
            &Activity::Transfer { ran, bytes, copy_kind } => {
                let Some((site, ran)) = self.find(owner, ran) else { return };
                let (work, what) = match copy_kind {
                    Some(kind) => (Work::Copy(kind), What::Copy { bytes, kind }),
                    None => (Work::Fill, What::Fill { bytes }),
                };
                self.add(&site, &ran, work, what);
            }
            &Activity::Graph { ran, graph } => {
                let Some((site, ran)) = self.find(owner, ran) else { return };
                self.add(&site, &ran, Work::Graph(graph), What::Graph { graph });
            }
            Activity::Device(device, name) => {
                let name = name.bytes().to_vec();
                self.meet_device(Device { name, ..device.clone() });
            }
            Activity::Unreadable => self.shared.counters.unreadable_records.increment(),
        }
    }

    /// Counts a piece of work, and writes it.
    fn add(&mut self, site: &LaunchSite, ran: &Execution, work: Work, what: What) {
        let counters = &self.shared.counters;
        if let Some(counters) = self.shared.gpu().and_then(|gpu| gpu.counters.as_ref()) {
            counters.use_device(ran.queue.device);
        }
        let timed = ran.is_timed().then_some((ran.start.0, ran.end.0));
        if timed.is_none() {
            counters.invalid_timestamps.increment();
        }
        if self.shared.options.shows_summary() {
            let known = site.place != Place::UNKNOWN;
            let path = if known { site.place.path } else { UNATTRIBUTED };
            let key = Key { path, work, device: ran.queue.device };
            self.aggregates.add(key, timed, counters);
        }
        let queue = self.names.queue(ran.queue, &mut self.output);
        let Place { path, range, .. } = site.place;
        let node = ran.graph_node;
        let piece = Piece { work, path, range, node, correlation: site.correlation };
        self.queues.note(queue, ran, piece, &self.names);
        self.say_earlier(site, ran.graph_node);
        let &Execution { start, end, graph_node, .. } = ran;
        let &LaunchSite { place: Place { range, .. }, correlation } = site;
        self.output.work(&GpuWork { what, start, end, queue, range, correlation, graph_node });
    }

    /// A piece of work without the times that CUPTI took wrong ([`crate::drain::trusted_times`]).
    fn trusted(&self, ran: Execution) -> Execution {
        let uncovered =
            ran.graph_node != 0 && ran.is_timed() && !self.spans.cover(ran.start, ran.end);
        if uncovered || !self.possible.has(ran.start, ran.end) {
            Execution { start: GpuNs(0), end: GpuNs(0), ..ran }
        } else {
            ran
        }
    }

    /// Finds the ranges of a piece of work, and what of its times can be [trusted](Self::trusted). `None`
    /// where `STAGE2_RANGES` does not ask for it or `STAGE2_SAMPLE` leaves it out.
    fn find(&mut self, owner: u32, ran: Execution) -> Option<(LaunchSite, Execution)> {
        self.queues.is_untimed = !ran.is_timed();
        let ran = self.trusted(ran);
        let counters = &self.shared.counters;
        let site = self.ranges.place(owner, ran.correlation);
        if site.correlation != 0 && !self.calls.hold(site.correlation) {
            return None;
        }
        match site.place {
            Place::UNKNOWN if self.unplaced_is_foreign => return None,
            Place::UNKNOWN => counters.unattributed.increment(),
            place if !place.wanted && self.wanted.is_restricted() => {
                counters.filtered.increment();
                return None;
            }
            _ => counters.attributed.increment(),
        }
        self.repair();
        Some((site, ran))
    }
}

// The turn to the next piece of the trace between two batches, which says there again what it is told against.

impl Drain {
    /// Begins the next piece if this one is over. Work and ranges are in one of the two; what is open goes on
    /// in the new one.
    pub(super) fn turn_piece(&mut self) {
        if !self.output.is_piece_over() {
            return;
        }
        self.write_host();
        let gpu = self.shared.gpu();
        let anchor = clock::anchor(|| gpu.and_then(|gpu| gpu.tracer.now()));
        let counters = &self.shared.counters;
        if !self.output.begin_piece(counters) {
            return;
        }
        self.names.define_again();
        self.output.put(Record::Anchor(anchor));
        let open = self.ranges.say_open(anchor.mono, &mut self.names, &mut self.output);
        self.output.end_head(open, self.ranges.next_number(), counters);
        if let Some(path) = self.output.path() {
            self.shared.windows.turned(path.display().to_string());
        }
    }

    /// States what the piece does not know of a piece of work: records come after the ranges of their launch
    /// have closed, and graphs are launched long after their capture.
    #[inline]
    pub(super) fn say_earlier(&mut self, site: &LaunchSite, graph_node: u64) {
        let Some(pieces) = self.output.pieces() else { return };
        let node = pieces.unsaid_node(graph_node);
        if pieces.is_unsaid(site.place.range) {
            self.say_closed(site, clock::mono());
        }
        if let Some((path, range)) = node {
            self.names.define_path(path, &mut self.output);
            self.output.put(Record::GraphNode { node: graph_node, path, range });
        }
    }

    /// A range that closed in an earlier piece: here it has no length and counts as no instance.
    fn say_closed(&mut self, site: &LaunchSite, at: MonoNs) {
        let (range, path) = (site.place.range, site.place.path);
        self.names.define_path(path, &mut self.output);
        self.output.put(Record::RangeOpen(RangeOpen {
            range,
            path,
            thread: 0,
            parent: RANGE_OUTSIDE,
            start: at,
            start_end: true,
            category: 0,
            payload: None,
            continues: range,
        }));
        if self.wanted.is_restricted() {
            self.output.put(Record::RangeSample { range, recorded: site.place.wanted });
        }
        self.output.put(Record::RangeClose { range, end: at });
    }
}
