//! NVTX calls of the guest into events: the collector is the NVTX tool itself.
//!
//! NVTX hands over a table of slots, once for every library of the guest that uses it, and calls
//! what we put there. What the guest registers goes into a table (`registry`); everything else
//! becomes events.

mod message;
#[doc(hidden)]
pub mod probe;
mod register;
mod slots;

use std::sync::atomic::{AtomicU64, Ordering};

use stage2_contract::trace::Payload;

use crate::base::{barrier, clock};
use crate::guest::blob::Blob;
use crate::guest::event::{Event, EventKind, Selection};
use crate::guest::registry::Handle;
use crate::guest::state::{self, Call, Shared};
use crate::guest::thread::{self, NOT_TRACKED};
use crate::guest::window_filter;
use message::{Payloads, Text};

pub use slots::{GetExportTable, attach, attach_extension, detach};

/// Numbers for start/end ranges.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The first of them that this process gave out, and not one that it was forked from.
static FIRST: AtomicU64 = AtomicU64::new(1);

/// In a forked child, open start/end ranges are its parent's; in a new window, those of an earlier
/// one.
pub fn renew() {
    FIRST.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
}

#[derive(Clone, Copy)]
struct Attributes<'a> {
    text: Text<'a>,
    category: u32,
    payload: Option<Payload>,
    /// Payloads that follow a schema.
    payloads: Payloads,
}

/// Runs `body` while we record, on a thread that is not already inside one of our handlers.
fn handle<T: Copy>(fallback: T, body: impl FnOnce(Call) -> T) -> T {
    match state::active() {
        Some(call) => {
            let turned_away = || call.shared.counters.calls_turned_away.increment();
            barrier::enter(fallback, turned_away, || begun(call, body))
        }
        None if state::is_new_child() => handle_first(fallback, body),
        None => handle_late(fallback, body),
    }
}

/// Runs `body`, once this thread knows which epoch the call is of.
fn begun<T>(call: Call, body: impl FnOnce(Call) -> T) -> T {
    thread::begin(call);
    body(call)
}

/// While the process ends, other threads may go on, and CUPTI hands over what they launch: it has to find its
/// range.
#[cold]
fn handle_late<T: Copy>(fallback: T, body: impl FnOnce(Call) -> T) -> T {
    let Some(call) = state::ending() else { return fallback };
    barrier::enter(fallback, || (), || begun(call, body))
}

/// The first call in a forked child.
#[cold]
fn handle_first<T: Copy>(fallback: T, body: impl FnOnce(Call) -> T) -> T {
    let start = || state::start_child().map_or(fallback, |call| begun(call, body));
    barrier::enter(fallback, || (), start)
}

fn push(domain: Handle, attributes: Attributes<'_>) -> i32 {
    handle(NOT_TRACKED, |call| {
        let shared = call.shared;
        let asked = is_asked(shared, domain, attributes.text);
        let choose = || is_chosen(shared, domain, attributes.text);
        let step = thread::push(domain.number(), asked, choose);
        let selection = if step.switches { switch_on(shared) } else { step.selection };
        if step.switches && selection == Selection::Skip {
            thread::leave_out(domain.number());
        }
        let mut event = event(call, EventKind::Push, domain, attributes);
        (event.depth, event.selection) = (step.depth, selection);
        (event.min_depth_since_delivery, event.depth_uncertain) =
            (step.min_depth_since_delivery, step.depth_uncertain);
        step.sent(domain.number(), true, send(shared, event, attributes));
        step.pushed_level()
    })
}

fn pop(domain: Handle, payloads: Payloads) -> i32 {
    handle(NOT_TRACKED, |call| {
        let shared = call.shared;
        let step = thread::pop(domain.number());
        if step.inherited {
            return NOT_TRACKED;
        }
        let attributes = Attributes::of(payloads);
        let mut event = event(call, EventKind::Pop, domain, attributes);
        (event.depth, event.min_depth_since_delivery, event.depth_uncertain) =
            (step.depth, step.min_depth_since_delivery, step.depth_uncertain);
        step.sent(domain.number(), false, send(shared, event, attributes));
        if step.switches {
            switch_off(shared);
        }
        step.popped_level()
    })
}

/// Returns the id of the new range; its lowest bit says that it is collected.
fn start(domain: Handle, attributes: Attributes<'_>) -> u64 {
    handle(0, |call| {
        let shared = call.shared;
        let choose = || is_chosen(shared, domain, attributes.text);
        let mut selection = match is_asked(shared, domain, attributes.text) {
            false => Selection::Inherit,
            true if thread::around().unwrap_or_else(choose) => Selection::Collect,
            true => Selection::Skip,
        };
        let collected = selection == Selection::Collect;
        if collected {
            selection = switch_on(shared);
        }
        let mut event = event(call, EventKind::Start, domain, attributes);
        event.id = NEXT.fetch_add(1, Ordering::Relaxed) << 1 | u64::from(collected);
        event.selection = selection;
        if !send(shared, event, attributes) {
            thread::lose_track();
        }
        if collected && !shared.started.remember(event.id) {
            shared.counters.beyond_limits.increment();
        }
        event.id
    })
}

fn end(domain: Handle, id: u64, payloads: Payloads) {
    // 0 was given out while we did not record, numbers below FIRST by the process that forked us.
    if id == 0 || id >> 1 < FIRST.load(Ordering::Relaxed) {
        return;
    }
    handle((), |call| {
        let shared = call.shared;
        let attributes = Attributes::of(payloads);
        let mut event = event(call, EventKind::End, domain, attributes);
        event.id = id;
        send(shared, event, attributes);
        // The guest may end what it never started, or twice.
        if id & 1 == 1 && shared.started.forget(id) {
            switch_off(shared);
        }
    });
}

fn mark(domain: Handle, attributes: Attributes<'_>) {
    handle((), |call| {
        let mut event = event(call, EventKind::Mark, domain, attributes);
        event.fence = 0;
        send(call.shared, event, attributes);
    });
}

impl Attributes<'_> {
    const NONE: Attributes<'static> =
        Attributes { text: Text::None, category: 0, payload: None, payloads: Payloads::NONE };

    fn of(payloads: Payloads) -> Self {
        Attributes { payloads, ..Self::NONE }
    }
}

fn event(call: Call, kind: EventKind, domain: Handle, attributes: Attributes<'_>) -> Event {
    let shared = call.shared;
    let mut event = Event::new(kind, thread::number_in(call)).in_epoch(call.epoch);
    // Without collection there is nothing that a fence could place.
    if !shared.window_filter().is_restricted() || shared.collection.is_open() {
        event.fence = shared.gpu().map_or(0, |gpu| gpu.tracer.fence());
        shared.flush_if_due();
    } else if matches!(kind, EventKind::Push | EventKind::Start) {
        // What is launched in here goes unrecorded.
        shared.keep_replay_times();
    }
    event.at = clock::mono();
    event.domain = domain.number();
    event.category = attributes.category;
    event.payload = attributes.payload;
    if let Text::Registered(handle) = attributes.text {
        event.string = handle.number();
    }
    event
}

/// Whether the event arrives.
fn send(shared: &Shared, mut event: Event, attributes: Attributes<'_>) -> bool {
    if !attributes.payloads.are_none() {
        send_payloads(shared, &mut event, attributes.payloads);
    }
    let sent = attributes
        .text
        .with_bytes(|bytes| shared.events.send_with_text(event, bytes, &shared.counters));
    if sent.half_full {
        shared.wake_drain();
    }
    sent.arrives
}

/// Apart from `send`: most calls have no payloads and should not pay for the room on the stack.
#[cold]
fn send_payloads(shared: &Shared, event: &mut Event, payloads: Payloads) {
    let mut blob = Blob::default();
    shared.counters.range_fields.add(payloads.copy_to(&mut blob));
    shared.events.send_payloads(event, blob.bytes(), &shared.counters);
}

/// Whether collection is asked for in a range: by its name where names are filtered, else by instance.
fn is_asked(shared: &Shared, domain: Handle, text: Text<'_>) -> bool {
    let wanted = shared.window_filter();
    let filter = &wanted.ranges;
    if filter.is_everything() {
        // A library's range is no instance of anything that the program does.
        return wanted.is_sampled() && !domain.is_library();
    }
    let by_domain = match domain {
        Handle::NULL => filter.match_domain(b""),
        domain => wanted.globs_of(domain),
    };
    let by_name = match text {
        Text::Registered(handle) => wanted.globs_of(handle),
        text => text.with_bytes(|name| filter.match_name(name)),
    };
    by_domain & by_name != 0
}

/// Whether this instance of a range that was asked for is among those that are sampled.
fn is_chosen(shared: &Shared, domain: Handle, text: Text<'_>) -> bool {
    let wanted = shared.window_filter();
    if !wanted.is_sampled() {
        return true;
    }
    let registered = if let Text::Registered(handle) = text { handle.number() } else { 0 };
    let key = text.with_bytes(|name| window_filter::kind_key(name, registered, domain.number()));
    wanted.sampler.take(key)
}

/// Switches collection on. Returns what is collected of the range that opens.
fn switch_on(shared: &Shared) -> Selection {
    if shared.collection.enter(|on| shared.collect(on)) {
        return Selection::Collect;
    }
    // Another thread was slow to switch collection on; what this one launches until then has no
    // record. A sample can do without the instance; else the gap must show.
    if shared.window_filter().is_sampled() {
        return Selection::Skip;
    }
    shared.counters.late_switches.increment();
    Selection::Collect
}

fn switch_off(shared: &Shared) {
    shared.collection.exit(|on| shared.collect(on));
}
