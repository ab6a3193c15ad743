//! NVTX calls of the guest into events: the collector is the NVTX tool itself.
//!
//! NVTX hands over a table of slots, once for every library of the guest that uses it, and calls
//! what we put there. Handles for domains and registered strings are numbers of ours with the
//! bits of the matching `STAGE2_RANGES` globs in them, so nothing is looked up later.

mod message;
mod slots;

pub use slots::{GetExportTable, attach, attach_extension, detach};

use std::sync::atomic::{AtomicU64, Ordering};

use stage2_spool::Payload;

use crate::event::{Event, Want, What};
use crate::state::{self, Shared};
use crate::thread::{self, NOT_TRACKED};
use crate::{barrier, clock, sample};
use message::Text;

/// Numbers for domains, strings and start/end ranges.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The first of them that this process gave out, and not one that it was forked from.
static FIRST: AtomicU64 = AtomicU64::new(1);

/// In a forked child: start/end ranges that are open are its parent's.
pub fn renew() {
    FIRST.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// A domain or a registered string: number and glob bits in one word that is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handle(u64);

impl Handle {
    /// The default domain, and "no registered string".
    const NULL: Handle = Handle(0);
    const GLOB_SHIFT: u32 = 34;

    fn new(number: u64, globs: u32) -> Self {
        let number = number & ((1 << (Self::GLOB_SHIFT - 1)) - 1);
        Handle(u64::from(globs) << Self::GLOB_SHIFT | number << 1 | 1)
    }

    fn number(self) -> u32 {
        ((self.0 & ((1 << Self::GLOB_SHIFT) - 1)) >> 1) as u32
    }

    fn globs(self) -> u32 {
        (self.0 >> Self::GLOB_SHIFT) as u32
    }
}

/// What a call says about its range or mark.
#[derive(Clone, Copy)]
struct Attributes<'a> {
    text: Text<'a>,
    category: u32,
    payload: Option<Payload>,
}

/// Runs `body` while we record, on a thread that is not already inside one of our handlers.
fn handle<T: Copy>(fallback: T, body: impl FnOnce(&'static Shared) -> T) -> T {
    match state::active() {
        Some(shared) => {
            let turned_away = || shared.counters.calls_turned_away.increment();
            barrier::enter(fallback, turned_away, || body(shared))
        }
        None if state::is_new_child() => handle_first(fallback, body),
        None => fallback,
    }
}

/// The first call in a forked child.
#[cold]
fn handle_first<T: Copy>(fallback: T, body: impl FnOnce(&'static Shared) -> T) -> T {
    barrier::enter(fallback, || (), || state::start_child().map_or(fallback, body))
}

fn push(domain: Handle, attributes: Attributes<'_>) -> i32 {
    handle(NOT_TRACKED, |shared| {
        let asked = is_asked(shared, domain, attributes.text);
        let choose = || is_chosen(shared, domain, attributes.text);
        let step = thread::push(domain.number(), asked, choose);
        let want = if step.gate { open_gate(shared) } else { step.want };
        if step.gate && want == Want::Skip {
            thread::leave_out(domain.number());
        }
        let mut event = event(shared, What::Push, domain, attributes);
        (event.depth, event.want) = (step.depth, want);
        (event.low, event.unsure) = (step.low, step.unsure);
        step.sent(domain.number(), true, send(shared, event, attributes.text));
        step.pushed_level()
    })
}

fn pop(domain: Handle) -> i32 {
    handle(NOT_TRACKED, |shared| {
        let step = thread::pop(domain.number());
        if step.inherited {
            return NOT_TRACKED;
        }
        let mut event = event(shared, What::Pop, domain, Attributes::NONE);
        (event.depth, event.low, event.unsure) = (step.depth, step.low, step.unsure);
        step.sent(domain.number(), false, send(shared, event, Text::None));
        if step.gate {
            close_gate(shared);
        }
        step.popped_level()
    })
}

/// Returns the id of the new range; its lowest bit says that it is collected.
fn start(domain: Handle, attributes: Attributes<'_>) -> u64 {
    handle(0, |shared| {
        let mut want = match is_asked(shared, domain, attributes.text) {
            false => Want::Inherit,
            true => {
                let choose = || is_chosen(shared, domain, attributes.text);
                if thread::around().unwrap_or_else(choose) { Want::Collect } else { Want::Skip }
            }
        };
        let collected = want == Want::Collect;
        if collected {
            want = open_gate(shared);
        }
        let mut event = event(shared, What::Start, domain, attributes);
        event.id = NEXT.fetch_add(1, Ordering::Relaxed) << 1 | u64::from(collected);
        event.want = want;
        if !send(shared, event, attributes.text) {
            thread::lose_track();
        }
        if collected && !shared.started.remember(event.id) {
            shared.counters.beyond_limits.increment();
        }
        event.id
    })
}

fn end(domain: Handle, id: u64) {
    // 0 was given out while we did not record, numbers below FIRST by the process that forked us.
    if id == 0 || id >> 1 < FIRST.load(Ordering::Relaxed) {
        return;
    }
    handle((), |shared| {
        let mut event = event(shared, What::End, domain, Attributes::NONE);
        event.id = id;
        send(shared, event, Text::None);
        // The guest may end what it never started, or twice.
        if id & 1 == 1 && shared.started.forget(id) {
            close_gate(shared);
        }
    });
}

fn mark(domain: Handle, attributes: Attributes<'_>) {
    handle((), |shared| {
        let mut event = event(shared, What::Mark, domain, attributes);
        event.fence = 0;
        send(shared, event, attributes.text);
    });
}

fn create_domain(name: Text<'_>) -> Handle {
    let fallback = Handle::new(NEXT.fetch_add(1, Ordering::Relaxed), 0);
    handle(fallback, |shared| {
        let handle = Handle::new(u64::from(fallback.number()), {
            name.with_bytes(|name| shared.options.ranges.match_domain(name))
        });
        let mut event =
            Event::new(What::DomainName, shared.events.current_thread(&shared.counters));
        event.domain = handle.number();
        send(shared, event, name);
        handle
    })
}

fn register_string(text: Text<'_>) -> Handle {
    let fallback = Handle::new(NEXT.fetch_add(1, Ordering::Relaxed), 0);
    handle(fallback, |shared| {
        let handle = Handle::new(u64::from(fallback.number()), {
            text.with_bytes(|text| shared.options.ranges.match_name(text))
        });
        let mut event =
            Event::new(What::RegisteredString, shared.events.current_thread(&shared.counters));
        event.string = handle.number();
        send(shared, event, text);
        handle
    })
}

impl Attributes<'_> {
    const NONE: Attributes<'static> = Attributes { text: Text::None, category: 0, payload: None };
}

fn event(shared: &Shared, what: What, domain: Handle, attributes: Attributes<'_>) -> Event {
    let mut event = Event::new(what, shared.events.current_thread(&shared.counters));
    // Without collection there is nothing that a fence could place.
    if !shared.options.is_gated() || shared.gate.is_open() {
        event.fence = shared.tracer().map_or(0, |tracer| tracer.fence());
    } else if matches!(what, What::Push | What::Start) {
        // What is launched in here goes unrecorded.
        shared.tracer().into_iter().for_each(|tracer| tracer.keep_times());
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
fn send(shared: &Shared, event: Event, text: Text<'_>) -> bool {
    let sent =
        text.with_bytes(|bytes| shared.events.send_with_text(event, bytes, &shared.counters));
    if sent.half_full {
        shared.wake_drain();
    }
    sent.arrives
}

/// Whether collection is asked for in a range: where only some ranges are collected, by name or,
/// if all names are, by instance.
fn is_asked(shared: &Shared, domain: Handle, text: Text<'_>) -> bool {
    let filter = &shared.options.ranges;
    if filter.is_everything() {
        return shared.options.is_sampled();
    }
    let by_domain = match domain {
        Handle::NULL => filter.match_domain(b""),
        domain => domain.globs(),
    };
    let by_name = match text {
        Text::Registered(handle) => handle.globs(),
        text => text.with_bytes(|name| filter.match_name(name)),
    };
    by_domain & by_name != 0
}

/// Whether this instance of a range that was asked for is among those that are sampled.
fn is_chosen(shared: &Shared, domain: Handle, text: Text<'_>) -> bool {
    if !shared.options.is_sampled() {
        return true;
    }
    let registered = match text {
        Text::Registered(handle) => handle.number(),
        _ => 0,
    };
    let key = text.with_bytes(|name| sample::key(name, registered, domain.number()));
    shared.sampler.take(key)
}

/// Has collection switched on; what can be had then of the range that opens.
fn open_gate(shared: &Shared) -> Want {
    if shared.gate.enter(|on| shared.collect(on)) {
        return Want::Collect;
    }
    // Another thread was slow to switch collection on; what this one launches until then has no
    // record. A sample can do without the instance; else the gap must show.
    if shared.options.is_sampled() {
        return Want::Skip;
    }
    shared.counters.late_switches.increment();
    Want::Collect
}

fn close_gate(shared: &Shared) {
    shared.gate.exit(|on| shared.collect(on));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_carry_number_and_globs_and_are_never_null() {
        for number in [1, 77, (1 << 32) - 1] {
            for globs in [0, 1, (1 << crate::glob::MAX_GLOBS) - 1] {
                let handle = Handle::new(number, globs);
                assert_ne!(handle, Handle::NULL);
                assert_eq!((u64::from(handle.number()), handle.globs()), (number, globs));
            }
        }
    }
}
