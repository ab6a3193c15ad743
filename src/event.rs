//! NVTX calls and launches into fixed-size events on a bounded lock-free queue.
//!
//! The only thing that guest threads and the drain thread share about ranges. An event is copied
//! whole; a text that does not fit is sent ahead in pieces by the same thread, so that no memory
//! is allocated and no table is searched on the guest's threads.

use crossbeam::queue::ArrayQueue;
use stage2_spool::{MonoNs, Payload};

use crate::counters::Counters;
use crate::thread;

/// Texts are cut here, bytes.
pub const TEXT_LIMIT: usize = 1024;
/// What of a text travels in one event, bytes.
const INLINE: usize = 72;
/// Events that the queue holds: 9 MiB, about a second of a guest that does nothing but ranges
/// at the rate of PyTorch's own operator ranges, and the drain thread comes by every few
/// milliseconds.
pub const QUEUE_EVENTS: usize = 1 << 16;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the NVTX calls of those names")]
pub enum What {
    /// A piece of the text of this thread's next event.
    TextPiece,
    /// A thread is new; `id` is its kernel thread id.
    Thread,
    /// A domain with this text as name; `domain` is its id.
    DomainName,
    /// A registered string; `id` is its handle.
    RegisteredString,
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
}

/// What is to be collected within a range that opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// What is collected around it: nobody asked for this range itself, or one around it was
    /// asked for and decides.
    #[default]
    Inherit,
    /// It was asked for, and is not among the instances that are sampled.
    Skip,
    /// Everything.
    Collect,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What happened.
    pub what: What,
    /// On which thread ([`crate::thread::number`]).
    pub thread: u32,
    /// Correlation id of the fence call made with it; 0 is none (CUPTI is not there).
    pub fence: u32,
    /// When.
    pub at: MonoNs,
    /// NVTX domain; 0 is the default one.
    pub domain: u32,
    /// NVTX category; 0 is none.
    pub category: u32,
    /// Range id, string handle, thread id or node id, as `what` says.
    pub id: u64,
    /// Handle of the registered string that is its text; 0 is none.
    pub string: u64,
    /// Ranges open in the domain after a push or pop; `None` where that is not tracked.
    pub depth: Option<u32>,
    /// What is to be collected within this range.
    pub want: Want,
    /// NVTX payload.
    pub payload: Option<Payload>,
    text_length: u8,
    text: [u8; INLINE],
}

impl Event {
    /// An event without text.
    pub fn new(what: What, thread: u32) -> Self {
        Event {
            what,
            thread,
            fence: 0,
            at: MonoNs(0),
            domain: 0,
            category: 0,
            id: 0,
            string: 0,
            depth: None,
            want: Want::Inherit,
            payload: None,
            text_length: 0,
            text: [0; INLINE],
        }
    }

    /// The part of the text that travels in this event.
    pub fn text(&self) -> &[u8] {
        self.text.get(..usize::from(self.text_length)).unwrap_or_default()
    }

    fn set_text(&mut self, piece: &[u8]) {
        let length = piece.len().min(INLINE);
        self.text[..length].copy_from_slice(&piece[..length]);
        self.text_length = length as u8;
    }
}

/// The queue between the guest's threads and the drain thread.
pub struct Events {
    queue: ArrayQueue<Event>,
}

impl Events {
    /// A queue of [`QUEUE_EVENTS`]. Allocates; called once, at start.
    pub fn new() -> Self {
        Events { queue: ArrayQueue::new(QUEUE_EVENTS) }
    }

    /// Sends `event`; counts it as lost where the queue is full. Never waits.
    pub fn send(&self, event: Event, counters: &Counters) {
        if self.queue.push(event).is_err() {
            counters.range_events.increment();
        }
    }

    /// As [`Events::send`], with a text of any length, cut at [`TEXT_LIMIT`].
    pub fn send_with_text(&self, mut event: Event, text: &[u8], counters: &Counters) {
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
            let mut ahead = Event::new(What::TextPiece, event.thread);
            ahead.set_text(piece);
            self.send(ahead, counters);
        }
        event.set_text(last);
        self.send(event, counters);
    }

    /// The calling thread's number; the drain thread is told of a new one.
    pub fn current_thread(&self, counters: &Counters) -> u32 {
        let thread = thread::number();
        if thread.new {
            let mut event = Event::new(What::Thread, thread.number);
            // SAFETY: gettid has no preconditions and cannot fail.
            event.id = unsafe { libc::gettid() } as u64;
            self.send(event, counters);
        }
        thread.number
    }

    /// Takes the oldest event.
    pub fn receive(&self) -> Option<Event> {
        self.queue.pop()
    }

    /// Events that were not taken yet.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Half of the places are taken: the drain thread should not sleep on.
    pub fn is_half_full(&self) -> bool {
        self.queue.len() >= QUEUE_EVENTS / 2
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(events: &Events) -> Vec<u8> {
        let mut text = Vec::new();
        while let Some(event) = events.receive() {
            text.extend_from_slice(event.text());
            if event.what != What::TextPiece {
                break;
            }
        }
        text
    }

    #[test]
    fn texts_of_every_length_arrive_whole_up_to_the_limit() {
        let (events, counters) = (Events::new(), Counters::default());
        for length in (0..=TEXT_LIMIT).chain([TEXT_LIMIT + 1, 100_000]) {
            let text: Vec<u8> = (0..length).map(|i| i as u8).collect();
            events.send_with_text(Event::new(What::Push, 1), &text, &counters);
            assert_eq!(text_of(&events), text[..length.min(TEXT_LIMIT)]);
        }
        assert_eq!(counters.names_cut.get(), 2);
    }

    #[test]
    fn a_full_queue_counts_what_it_loses() {
        let (events, counters) = (Events::new(), Counters::default());
        for _ in 0..QUEUE_EVENTS + 5 {
            events.send(Event::new(What::Push, 1), &counters);
        }
        assert_eq!(counters.range_events.get(), 5);
        assert!(events.is_half_full());
    }

    #[test]
    fn an_event_fills_three_cache_lines_at_most() {
        assert!(size_of::<Event>() <= 160, "{} bytes", size_of::<Event>());
    }
}
