//! NVTX calls and launches into fixed-size events on a bounded lock-free queue.
//!
//! An event is copied whole. The same thread sends a text that does not fit ahead in pieces, so guest
//! threads neither allocate nor search a table.
//!
//! When the queue is full the sender bumps a per-thread loss counter ([`Events::lost`]). The drain
//! thread reads it before it places any work that this thread launched afterwards. The last places
//! are kept for the events whose loss costs most, so a flood of marks costs marks.

use stage2_contract::trace::{MonoNs, Payload};

use crate::base::counters::Counters;
use crate::base::generation;
use crate::base::sync::{AtomicBool, AtomicU32, Ordering};
use crate::guest::queue::Queue;

/// Texts are cut here, bytes.
pub const TEXT_LIMIT: usize = 1024;
/// What of a text travels in one event, bytes.
const INLINE: usize = 66;
/// Events that the queue holds: 9 MiB of address space, about a second of PyTorch's own operator ranges. The
/// drain thread comes by every few milliseconds.
pub const QUEUE_EVENTS: usize = if cfg!(feature = "models") { 2 } else { 1 << 16 };
/// Places that are kept for ranges and launches: marks find no room there.
const FOR_RANGES: usize = QUEUE_EVENTS / 8;
/// Places that are kept for what nothing later makes up for: start/end ranges.
const FOR_STARTS: usize = QUEUE_EVENTS / 16;
/// Ends of start/end ranges that go through their own queue when even those places are taken.
const LATE_ENDS: usize = if cfg!(feature = "models") { 1 } else { 1 << 10 };
/// Counts of lost events; threads share them where there are more.
const LOST: usize = if cfg!(feature = "models") { 2 } else { 1 << 12 };

/// [`Event::min_depth_since_delivery`] where no event of the domain was lost.
pub const NOTHING_LOST: u32 = u32::MAX;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the NVTX calls of those names")]
pub enum EventKind {
    /// A piece of the text of this thread's next event.
    TextPiece,
    /// A piece of the payloads ([`crate::guest::blob`]) of this thread's next event.
    PayloadPiece,
    /// A thread is new; `id` is its kernel thread id.
    Thread,
    Push,
    Pop,
    /// `id` names the range.
    Start,
    /// `id` names the range.
    End,
    Mark,
    /// GPU work was launched with correlation id `fence` (callback attribution only).
    Launch,
    /// A node was added to a graph that is being built; `id` is CUPTI's node id.
    GraphNodeCreated,
    /// A node of an executable graph, `id`, was made from node `payload`.
    GraphNodeCloned,
    /// A call of the driver that its text names blocked from `at` to `id`, ns of the same clock. `category`: 1 where
    /// its stack was read.
    Call,
}

/// What to collect within a range that opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// What is collected around it: this range itself was not asked for, or an outer one decides.
    #[default]
    Inherit,
    /// Nothing: it was asked for, and is not among the sampled instances.
    Skip,
    /// Everything.
    Collect,
}

/// Where the text of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPlace {
    /// Whole in the event. Of a piece: it is the first.
    Here,
    /// Behind the pieces that were sent ahead.
    Continued,
    /// Unknown: a piece of it was lost.
    Lost,
}

/// Where the payloads of an event are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadPlace {
    /// There are none.
    None,
    /// In the pieces that were sent ahead.
    Ahead,
    /// Unknown: a piece of them was lost, which was counted.
    Lost,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// On which thread ([`crate::guest::thread`]).
    pub thread: u32,
    /// [`generation::epoch`] when the call began that sends it: what belongs to an earlier one than a window
    /// was on its way when another window ended.
    pub epoch: u32,
    /// Correlation id of the fence call made with it; 0 is none (CUPTI is not there).
    pub fence: u32,
    /// When.
    pub at: MonoNs,
    /// NVTX domain; 0 is the default one.
    pub domain: u32,
    /// NVTX category; 0 is none.
    pub category: u32,
    /// Range id, thread id or node id, as `kind` says.
    pub id: u64,
    /// Number of the registered string that is its text; 0 is none.
    pub string: u32,
    /// Ranges open in the domain after a push or pop; `None` where that is not tracked.
    pub depth: Option<u32>,
    /// The lowest depth of the domain since its last event that arrived, where events were lost
    /// since; else [`NOTHING_LOST`].
    pub min_depth_since_delivery: u32,
    /// Events of this thread were lost that its next pushes and pops do not make up for.
    pub depth_uncertain: bool,
    /// [`Events::lost`] of the thread when this was sent.
    pub lost: u32,
    /// What to collect within this range.
    pub(crate) selection: Selection,
    /// NVTX payload.
    pub payload: Option<Payload>,
    /// Where the text is.
    pub text_place: TextPlace,
    /// Where the payloads are that follow a schema.
    pub payload_place: PayloadPlace,
    text_length: u8,
    text: [u8; INLINE],
}

impl Event {
    /// An event without text, of the first epoch.
    pub fn new(kind: EventKind, thread: u32) -> Self {
        Event {
            kind,
            thread,
            epoch: 0,
            fence: 0,
            at: MonoNs(0),
            domain: 0,
            category: 0,
            id: 0,
            string: 0,
            depth: None,
            min_depth_since_delivery: NOTHING_LOST,
            depth_uncertain: false,
            lost: 0,
            selection: Selection::Inherit,
            payload: None,
            text_place: TextPlace::Here,
            payload_place: PayloadPlace::None,
            text_length: 0,
            text: [0; INLINE],
        }
    }

    /// The event, sent by a call that began in `epoch`.
    #[must_use]
    pub fn in_epoch(self, epoch: u32) -> Self {
        Event { epoch, ..self }
    }

    /// The part of the text that travels in this event.
    pub fn text(&self) -> &[u8] {
        self.text.get(..usize::from(self.text_length)).unwrap_or_default()
    }

    fn piece(&self, kind: EventKind, text: &[u8]) -> Event {
        let mut piece = Event::new(kind, self.thread).in_epoch(self.epoch);
        piece.set_text(text);
        piece
    }

    fn set_text(&mut self, piece: &[u8]) {
        let length = piece.len().min(INLINE);
        self.text[..length].copy_from_slice(&piece[..length]);
        self.text_length = length as u8;
    }
}

/// Places of the queue that an event of this kind may not take.
fn kept_from(kind: EventKind) -> usize {
    match kind {
        EventKind::Start | EventKind::End | EventKind::Thread => 0,
        EventKind::Mark | EventKind::Call | EventKind::TextPiece | EventKind::PayloadPiece => {
            FOR_RANGES
        }
        _ => FOR_STARTS,
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// It will arrive.
    pub(crate) arrives: bool,
    /// Half of the places are taken: the drain thread should not sleep on.
    pub(crate) half_full: bool,
}

/// The queue between the guest's threads and the drain thread.
pub struct Events {
    queue: Queue<Event>,
    late_ends: Queue<Event>,
    ends_lost: AtomicBool,
    /// Lost events that changed what is open, by thread number.
    lost: Box<[AtomicU32]>,
}

impl Default for Events {
    /// A queue of [`QUEUE_EVENTS`]. Allocates; called once, at start.
    fn default() -> Self {
        Events {
            queue: Queue::new(QUEUE_EVENTS),
            late_ends: Queue::new(LATE_ENDS),
            ends_lost: AtomicBool::new(false),
            lost: (0..LOST).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Events {
    /// Bytes of address space.
    pub(crate) const BYTES: usize =
        Queue::<Event>::bytes(QUEUE_EVENTS + LATE_ENDS) + LOST * size_of::<AtomicU32>();

    /// Sends `event`; counts it as lost where there is no room for it. Never waits.
    pub fn send(&self, event: Event, counters: &Counters) -> Delivery {
        self.send_unless(event, kept_from(event.kind), counters)
    }

    /// Sends `event` where there are more than `kept` places.
    fn send_unless(&self, mut event: Event, kept: usize, counters: &Counters) -> Delivery {
        event.lost = self.lost(event.thread);
        let arrives = self.queue.send_below(QUEUE_EVENTS - kept, event).is_ok();
        if !arrives {
            self.lose(&event, counters);
        }
        Delivery { arrives, half_full: self.queue.in_use() > QUEUE_EVENTS / 2 }
    }

    #[cold]
    fn lose(&self, event: &Event, counters: &Counters) {
        if event.epoch != generation::epoch() {
            // Its window is over, and nobody counts for that any more.
            return;
        }
        match event.kind {
            // Only the drain thread knows which thread started the range.
            EventKind::End if self.push_late(event, counters) => return,
            EventKind::PayloadPiece => return counters.range_fields.increment(),
            EventKind::Call => return counters.lost_calls.increment(),
            // Counted with the event that it is a piece of.
            EventKind::TextPiece => return,
            EventKind::End => self.ends_lost.store(true, Ordering::Release),
            EventKind::Push | EventKind::Pop | EventKind::Start => {
                self.lost_slot(event.thread).fetch_add(1, Ordering::Release);
            }
            _ => {}
        }
        counters.range_events.increment();
    }

    /// Sends an end through the late queue, without payloads: the pieces of these are in the other one.
    fn push_late(&self, end: &Event, counters: &Counters) -> bool {
        let mut end = *end;
        if end.payload_place == PayloadPlace::Ahead {
            end.payload_place = PayloadPlace::Lost;
            counters.range_fields.increment();
        }
        self.late_ends.send(end).is_ok()
    }

    /// How many events were lost that changed what is open on a thread (or on one that shares its
    /// counter). Only a difference means anything.
    pub fn lost(&self, thread: u32) -> u32 {
        self.lost_slot(thread).load(Ordering::Acquire)
    }

    /// Forgets what was lost so far, for a further window. Our own thread calls it, while nothing is recorded.
    pub fn forget_losses(&self) {
        for lost in &self.lost {
            // Without a write to pages that nobody has written to.
            if lost.load(Ordering::Relaxed) != 0 {
                lost.store(0, Ordering::Release);
            }
        }
    }

    fn lost_slot(&self, thread: u32) -> &AtomicU32 {
        &self.lost[thread as usize % LOST]
    }

    /// As [`Events::send`], with a text of any length, cut at [`TEXT_LIMIT`].
    pub fn send_with_text(&self, mut event: Event, text: &[u8], counters: &Counters) -> Delivery {
        let text = match text.get(..TEXT_LIMIT) {
            Some(cut) if text.len() > TEXT_LIMIT => {
                counters.names_cut.increment();
                cut
            }
            _ => text,
        };
        let head = text.len().saturating_sub(1) / INLINE * INLINE;
        let (pieces, last) = text.split_at(head);
        for piece in pieces.chunks(INLINE) {
            let mut ahead = event.piece(EventKind::TextPiece, piece);
            ahead.text_place = event.text_place;
            event.text_place = TextPlace::Continued;
            if !self.send_unless(ahead, kept_from(event.kind), counters).arrives {
                return self.send_nameless(event, counters);
            }
        }
        event.set_text(last);
        self.send(event, counters)
    }

    /// Sends an event of whose text a piece found no room.
    #[cold]
    fn send_nameless(&self, mut event: Event, counters: &Counters) -> Delivery {
        event.text_place = TextPlace::Lost;
        let sent = self.send(event, counters);
        if sent.arrives {
            counters.names_cut.increment();
        }
        sent
    }

    /// Sends the payloads of `event` ahead of it, and notes in it where they are.
    pub fn send_payloads(&self, event: &mut Event, blob: &[u8], counters: &Counters) {
        for (index, piece) in blob.chunks(INLINE).enumerate() {
            let mut ahead = event.piece(EventKind::PayloadPiece, piece);
            ahead.text_place = if index == 0 { TextPlace::Here } else { TextPlace::Continued };
            if !self.send_unless(ahead, kept_from(event.kind), counters).arrives {
                event.payload_place = PayloadPlace::Lost;
                return;
            }
            event.payload_place = PayloadPlace::Ahead;
        }
    }

    pub(crate) fn receive(&self) -> Option<Event> {
        self.queue.receive()
    }

    /// Takes the oldest end that found no place in the queue. Whatever its thread sent before it, and we have
    /// not taken yet, waits in the queue after this call.
    pub fn receive_late_end(&self) -> Option<Event> {
        self.late_ends.receive()
    }

    /// Whether ends were lost altogether since the last call.
    pub fn take_ends_lost(&self) -> bool {
        self.ends_lost.swap(false, Ordering::AcqRel)
    }

    /// Events that were not taken yet, with those that are just being sent.
    pub fn waiting(&self) -> usize {
        self.queue.in_use()
    }

    /// Events that were not taken yet, with ends that found no place in the queue.
    pub fn pending(&self) -> usize {
        self.queue.in_use() + self.late_ends.in_use()
    }

    /// Whether no event waits, except for ends that found no place in the queue.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Where every event was taken: how many calls have begun to send one and not ended.
    pub fn unfinished(&self) -> usize {
        self.queue.unfinished() + self.late_ends.unfinished()
    }
}

#[cfg(all(test, feature = "models"))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(events: &Events) -> Vec<u8> {
        let mut text = Vec::new();
        while let Some(event) = events.receive() {
            text.extend_from_slice(event.text());
            if event.kind != EventKind::TextPiece {
                break;
            }
        }
        text
    }

    #[test]
    fn texts_of_every_length_arrive_whole_up_to_the_limit() {
        let (events, counters) = (Events::default(), Counters::default());
        for length in (0..=TEXT_LIMIT).chain([TEXT_LIMIT + 1, 100_000]) {
            let text: Vec<u8> = (0..length).map(|i| i as u8).collect();
            events.send_with_text(Event::new(EventKind::Push, 1), &text, &counters);
            assert_eq!(text_of(&events), text[..length.min(TEXT_LIMIT)]);
        }
        assert_eq!(counters.names_cut.get(), 2);
    }

    #[test]
    fn a_full_queue_counts_what_it_loses_and_has_places_for_what_costs_most() {
        let (events, counters) = (Events::default(), Counters::default());
        let send = |kind, count: usize| {
            (0..count).filter(|_| events.send(Event::new(kind, 1), &counters).arrives).count()
        };
        assert_eq!(send(EventKind::Mark, QUEUE_EVENTS), QUEUE_EVENTS - FOR_RANGES);
        assert_eq!((counters.range_events.get(), events.lost(1)), (FOR_RANGES as u64, 0));
        assert_eq!(send(EventKind::Push, QUEUE_EVENTS), FOR_RANGES - FOR_STARTS);
        let lost = (QUEUE_EVENTS - FOR_RANGES + FOR_STARTS) as u32;
        assert_eq!((events.lost(1), events.lost(2)), (lost, 0));
        assert_eq!(send(EventKind::Start, FOR_STARTS), FOR_STARTS);
        let counted = counters.range_events.get();
        assert_eq!(send(EventKind::End, LATE_ENDS), 0);
        assert_eq!((counters.range_events.get(), events.take_ends_lost()), (counted, false));
        assert_eq!(send(EventKind::End, 1), 0);
        assert_eq!((counters.range_events.get(), events.take_ends_lost()), (counted + 1, true));
        assert_eq!(std::iter::from_fn(|| events.receive_late_end()).count(), LATE_ENDS);
    }

    #[test]
    fn a_range_that_is_lost_with_a_piece_of_its_name_is_one_lost_event() {
        let (events, counters) = (Events::default(), Counters::default());
        while events.send(Event::new(EventKind::Push, 1), &counters).arrives {}
        let before = (counters.range_events.get(), events.lost(1));
        let long = [b'x'; 3 * INLINE];
        assert!(!events.send_with_text(Event::new(EventKind::Push, 1), &long, &counters).arrives);
        let after = (counters.range_events.get(), events.lost(1));
        assert_eq!((after, counters.names_cut.get()), ((before.0 + 1, before.1 + 1), 0));
        // Where room comes back after that, the range arrives with its name lost.
        assert!(events.receive().is_some());
        assert!(events.send_nameless(Event::new(EventKind::Push, 1), &counters).arrives);
        let last = std::iter::from_fn(|| events.receive()).last();
        assert_eq!(last.map(|event| event.text_place), Some(TextPlace::Lost));
        assert_eq!((counters.range_events.get(), counters.names_cut.get()), (after.0, 1));
    }

    /// Hazard (Dormant processes and windows): A call begins in one window and ends in the next.
    /// Promise: It counts for neither.
    #[test]
    fn a_call_that_ends_after_its_window_loses_nothing_of_the_next() {
        let (events, counters) = (Events::default(), Counters::default());
        while events.send(Event::new(EventKind::Push, 1), &counters).arrives {}
        assert_eq!((events.lost(1), counters.range_events.get()), (1, 1));
        let earlier = Event::new(EventKind::Push, 1).in_epoch(generation::epoch().wrapping_sub(1));
        assert!(!events.send(earlier, &counters).arrives);
        assert_eq!((events.lost(1), counters.range_events.get()), (1, 1));
        events.forget_losses();
        assert_eq!(events.lost(1), 0);
    }

    #[test]
    fn an_event_fills_three_cache_lines_at_most() {
        assert!(size_of::<Event>() <= 144, "{} bytes", size_of::<Event>());
    }
}
