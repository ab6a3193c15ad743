//! What we keep about the calling thread: its number for life, its open ranges by domain, its last fence.

use std::cell::{Cell, RefCell};

use stage2_contract::trace::MonoNs;

use crate::base::generation;
use crate::guest::event::{Event, EventKind, NOTHING_LOST, Selection};
use crate::guest::state::{self, Call};

/// Domains for which a thread's nesting depth is tracked at once. A domain beyond that is still
/// recorded; only its pushes and pops answer "not tracked" and it cannot switch collection.
const DOMAINS: usize = 16;

/// NVTX's answer to a push or pop whose level is not known.
pub(crate) const NOT_TRACKED: i32 = -2;

thread_local! {
    static STATE: State = const {
        State {
            epoch: Cell::new(0),
            number: Cell::new(0),
            told: Cell::new(None),
            fence: Cell::new(0),
            call: Cell::new(None),
            domains: RefCell::new([const { Domain::FREE }; DOMAINS]),
            domains_lost: Cell::new(0),
            lost_track: Cell::new(false),
            beyond: Cell::new(0),
            inherited_beyond: Cell::new(0),
        }
    };
}

/// Gives this thread's state to `body`. `None` where its thread-locals are gone: it is ending.
fn with_state<T>(body: impl FnOnce(&State) -> T) -> Option<T> {
    STATE.try_with(body).ok()
}

/// A call begins in which this thread opens or closes a range. What it had open is renewed, if that is older
/// than the last fork or window. Once a call: what it does belongs to one epoch, also where the next one
/// begins meanwhile.
pub(crate) fn begin(call: Call) {
    let _ = with_state(|state| {
        if state.epoch.replace(call.epoch) != call.epoch {
            state.renew();
        }
    });
}

struct State {
    /// [`generation::epoch`] of the last call.
    epoch: Cell<u32>,
    number: Cell<u32>,
    /// The epoch in which our own thread was last told of this one.
    told: Cell<Option<u32>>,
    fence: Cell<u32>,
    /// The call that this thread is in, which may block it.
    call: Cell<Option<CallBegin>>,
    domains: RefCell<[Domain; DOMAINS]>,
    /// Domains whose last event was lost.
    domains_lost: Cell<u32>,
    /// An event was lost that none to come can make up for.
    lost_track: Cell<bool>,
    /// Ranges open in domains that have no place. Until they are closed none gets one: its depth
    /// would be counted from the middle.
    beyond: Cell<u32>,
    /// Those of them that were open when this process was forked.
    inherited_beyond: Cell<u32>,
}

/// The ranges of one NVTX domain on this thread.
#[derive(Clone, Copy)]
struct Domain {
    id: u32,
    depth: u32,
    /// The outermost range that collection is asked for.
    unit: Option<Unit>,
    /// The lowest depth since the last event that arrived; [`NOTHING_LOST`] where that is this one.
    min_depth_since_delivery: u32,
    /// Ranges that were open when this process was forked: outside of all that it opens itself.
    inherited: u32,
}

impl Domain {
    const FREE: Domain = Domain {
        id: u32::MAX,
        depth: 0,
        unit: None,
        min_depth_since_delivery: NOTHING_LOST,
        inherited: 0,
    };

    fn is_free(&self) -> bool {
        self.depth == 0 && self.min_depth_since_delivery == NOTHING_LOST && self.inherited == 0
    }
}

/// A range that collection is asked for.
#[derive(Clone, Copy)]
struct Unit {
    depth: u32,
    /// It is collected; else it is left out of the sample.
    collected: bool,
    /// Its closing lets go of collection.
    switches: bool,
}

/// The calling thread's number, from 1, which it keeps for life: across windows, and in a forked child. 0
/// where its thread-locals are gone: it is ending.
pub(crate) fn number() -> u32 {
    with_state(State::own_number).unwrap_or(0)
}

/// The number of the calling thread, for events of `call`. In each epoch the drain thread is told once of the calling one.
pub(crate) fn number_in(call: Call) -> u32 {
    let epoch = Some(call.epoch);
    let now = |state: &State| (state.own_number(), state.told.replace(epoch) == epoch);
    let (number, is_told) = with_state(now).unwrap_or((0, true));
    if !is_told {
        let mut event = Event::new(EventKind::Thread, number).in_epoch(call.epoch);
        // SAFETY: gettid has no preconditions and cannot fail. glibc has a function for it from 2.30 on.
        event.id = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
        call.shared.events.send(event, &call.shared.counters);
    }
    number
}

/// Keeps the correlation id that CUPTI showed for the fence call of this thread.
pub(crate) fn set_fence(correlation: u32) {
    let _ = STATE.try_with(|state| state.fence.set(correlation));
}

/// Takes the id that [`set_fence`] kept; 0 is none.
pub(crate) fn take_fence() -> u32 {
    STATE.try_with(|state| state.fence.replace(0)).unwrap_or(0)
}

/// The begin of a call of the driver.
#[derive(Clone, Copy)]
pub(crate) struct CallBegin {
    /// CUPTI's number of the call.
    pub(crate) correlation: u32,
    /// [`generation::epoch`] when it began.
    pub(crate) epoch: u32,
    pub(crate) at: MonoNs,
}

/// Keeps the begin of a call until its end. A call that never ends (the guest left it) is replaced by the next one.
pub(crate) fn begin_call(begin: CallBegin) {
    let _ = with_state(|state| state.call.set(Some(begin)));
}

/// Takes the begin of the call with this number, unless it was never kept.
pub(crate) fn take_call(correlation: u32) -> Option<CallBegin> {
    let begin = with_state(|state| state.call.take()).flatten();
    begin.filter(|begin| begin.correlation == correlation)
}

/// What a push or pop did to this thread's ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Ranges open in the domain afterwards; `None` where that is not tracked.
    pub(crate) depth: Option<u32>,
    /// A range that is collected, and not for the sake of one around it, was opened (by a push)
    /// or closed.
    pub(crate) switches: bool,
    /// What is to be collected within the range that a push opened.
    pub(crate) selection: Selection,
    /// The lowest depth of the domain since its last event that arrived, or [`NOTHING_LOST`].
    pub(crate) min_depth_since_delivery: u32,
    /// Lost events of this thread that this one does not make up for.
    pub(crate) depth_uncertain: bool,
    /// A pop closed a range of the process that forked this one, or one opened while nothing was recorded.
    pub(crate) inherited: bool,
    /// The ranges of the domain are counted here.
    tracked: bool,
}

impl Step {
    const UNTRACKED: Step = Step {
        depth: None,
        switches: false,
        selection: Selection::Inherit,
        min_depth_since_delivery: NOTHING_LOST,
        depth_uncertain: true,
        inherited: false,
        tracked: false,
    };

    /// Counts a range of a domain that has no place.
    fn count_beyond(self, change: i32) -> Self {
        if !self.tracked {
            let _ = with_state(|state| {
                state.beyond.set(state.beyond.get().saturating_add_signed(change));
            });
        }
        self
    }

    /// Of a pop that matches no range, whether it closes one of the process that forked this one, in
    /// a domain that had no place there, or one that was opened while nothing was recorded.
    fn take_inherited(self) -> Self {
        let take = |state: &State| {
            let left = state.inherited_beyond.get().checked_sub(1);
            left.is_some_and(|left| {
                state.inherited_beyond.set(left);
                true
            })
        };
        let unseen = generation::ranges_unseen();
        let inherited = self.inherited
            || (self.depth.is_none() && (unseen || with_state(take).unwrap_or(false)));
        Step { inherited, ..self }
    }

    /// The event of this push (else pop) was sent.
    #[inline]
    pub(crate) fn sent(self, domain: u32, push: bool, arrives: bool) {
        if !arrives || self.min_depth_since_delivery != NOTHING_LOST {
            self.note_sent(domain, push, arrives);
        }
    }

    #[cold]
    fn note_sent(self, domain: u32, push: bool, arrives: bool) {
        let note = |state: &State| match self.depth {
            // Of those that were open before, those that still are.
            Some(depth) => state.note_sent(domain, depth - u32::from(push), arrives),
            // A pop that matched nothing changed nothing, and tells nothing.
            None if self.tracked => {}
            None => state.lost_track.set(true),
        };
        let _ = with_state(note);
    }

    /// The level that NVTX wants returned: of the range that was opened or closed, from 0.
    pub(crate) fn pushed_level(self) -> i32 {
        self.depth.map_or(NOT_TRACKED, |depth| depth as i32 - 1)
    }

    pub(crate) fn popped_level(self) -> i32 {
        self.depth.map_or(NOT_TRACKED, |depth| depth as i32)
    }
}

impl State {
    fn own_number(&self) -> u32 {
        if self.number.get() == 0 {
            self.number.set(state::take_thread_number());
        }
        self.number.get()
    }

    /// What was open is the business of the process that forked this one, or of an earlier window.
    #[cold]
    fn renew(&self) {
        self.fence.set(0);
        self.domains_lost.set(0);
        self.lost_track.set(false);
        let beyond = self.beyond.replace(0);
        if generation::ranges_unseen() {
            // Every pop that matches no range may close one of those: none is counted.
            self.inherited_beyond.set(0);
            if let Ok(mut domains) = self.domains.try_borrow_mut() {
                domains.fill(Domain::FREE);
            }
            return;
        }
        self.inherited_beyond.set(self.inherited_beyond.get().saturating_add(beyond));
        // Borrowed only where a signal handler forked in the middle of a push or pop.
        let Ok(mut domains) = self.domains.try_borrow_mut() else { return };
        for slot in domains.iter_mut() {
            let inherited = slot.inherited.saturating_add(slot.depth);
            *slot = Domain { id: slot.id, inherited, ..Domain::FREE };
        }
    }

    fn note_sent(&self, domain: u32, floor: u32, arrives: bool) {
        let Ok(mut domains) = self.domains.try_borrow_mut() else { return };
        let Some(slot) = domains.iter_mut().find(|slot| slot.id == domain) else { return };
        let before = u32::from(slot.min_depth_since_delivery != NOTHING_LOST);
        slot.min_depth_since_delivery =
            if arrives { NOTHING_LOST } else { slot.min_depth_since_delivery.min(floor) };
        let after = u32::from(slot.min_depth_since_delivery != NOTHING_LOST);
        self.domains_lost.set((self.domains_lost.get() + after).saturating_sub(before));
    }

    /// Lost events that one of this domain does not make up for.
    fn is_uncertain_beside(&self, slot: &Domain) -> bool {
        let own = u32::from(slot.min_depth_since_delivery != NOTHING_LOST);
        self.domains_lost.get() > own || self.lost_track.get()
    }
}

/// The event was lost that says that a start/end range opened on this thread: nothing to come will.
pub(crate) fn lose_track() {
    let _ = with_state(|state| state.lost_track.set(true));
}

/// Opens a range in `domain`. `asked`: collection is asked for inside of it; then `choose` states
/// whether it really is, unless a range around it on this thread has decided that already.
pub(crate) fn push(domain: u32, asked: bool, choose: impl FnOnce() -> bool) -> Step {
    let around = if asked { around() } else { None };
    let step = with_domain(domain, |slot| {
        let mut selection = Selection::Inherit;
        if asked && slot.unit.is_none() {
            let collected = around.unwrap_or_else(choose);
            slot.unit = Some(Unit { depth: slot.depth, collected, switches: collected });
            selection = if collected { Selection::Collect } else { Selection::Skip };
        }
        slot.depth = slot.depth.saturating_add(1);
        let switches = selection == Selection::Collect;
        Step { depth: Some(slot.depth), switches, selection, ..Step::UNTRACKED }
    });
    step.count_beyond(1)
}

/// Whether this thread is inside of a range that collection is asked for, of any domain, and
/// whether that is collected.
pub(crate) fn around() -> Option<bool> {
    let decided = |state: &State| {
        let domains = state.domains.try_borrow().ok()?;
        domains.iter().filter_map(|slot| slot.unit).map(|unit| unit.collected).max()
    };
    with_state(decided).flatten()
}

/// Collection came too late for the range that was just opened in `domain`: it is left out, and
/// with it what is nested in it, whatever the domain. Its closing lets go of collection as before.
pub(crate) fn leave_out(domain: u32) {
    with_domain(domain, |slot| {
        if let Some(unit) = &mut slot.unit {
            unit.collected = false;
        }
        Step::UNTRACKED
    });
}

/// Closes the innermost range of `domain`. With none open the depth stays 0 and the answer is
/// "not tracked".
pub(crate) fn pop(domain: u32) -> Step {
    let step = with_domain(domain, |slot| {
        let Some(depth) = slot.depth.checked_sub(1) else {
            let inherited = slot.inherited > 0;
            slot.inherited -= u32::from(inherited);
            return Step { inherited, ..Step::UNTRACKED };
        };
        slot.depth = depth;
        let closed = slot.unit.take_if(|unit| unit.depth == depth);
        let switches = closed.is_some_and(|unit| unit.switches);
        Step { depth: Some(depth), switches, ..Step::UNTRACKED }
    });
    // With ranges of its own open there, it closes one of those: they are within the inherited ones.
    let closes_own = !step.tracked && with_state(|state| state.beyond.get() > 0) == Some(true);
    let step = step.count_beyond(-1);
    if closes_own { step } else { step.take_inherited() }
}

fn with_domain(id: u32, step: impl FnOnce(&mut Domain) -> Step) -> Step {
    with_state(|state| {
        let Ok(mut domains) = state.domains.try_borrow_mut() else { return Step::UNTRACKED };
        let slot = domains.iter().position(|slot| slot.id == id);
        let new = || match state.beyond.get() {
            0 => domains.iter().position(Domain::is_free),
            _ => None,
        };
        match slot.or_else(new) {
            Some(index) => {
                let slot = &mut domains[index];
                slot.id = id;
                let (min_depth_since_delivery, depth_uncertain) =
                    (slot.min_depth_since_delivery, state.is_uncertain_beside(slot));
                Step { min_depth_since_delivery, depth_uncertain, tracked: true, ..step(slot) }
            }
            None => Step::UNTRACKED,
        }
    })
    .unwrap_or(Step::UNTRACKED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::Options;
    use crate::guest::state::Shared;

    fn opened(domain: u32) -> Step {
        push(domain, false, || panic!("nobody asked"))
    }

    #[test]
    fn levels_count_from_zero_and_an_unmatched_pop_changes_nothing() {
        assert_eq!([opened(0), opened(0)].map(Step::pushed_level), [0, 1]);
        assert_eq!([pop(0), pop(0), pop(0)].map(Step::popped_level), [1, 0, NOT_TRACKED]);
        assert_eq!(opened(0).pushed_level(), 0);
        pop(0);
    }

    #[test]
    fn only_the_outermost_wanted_range_opens_and_closes_the_gate() {
        assert!(!opened(1).switches);
        assert_eq!(push(1, true, || true).selection, Selection::Collect);
        let inner = push(1, true, || panic!("the outer one decides"));
        assert_eq!((inner.switches, inner.selection), (false, Selection::Inherit));
        assert_eq!([pop(1), pop(1), pop(1)].map(|step| step.switches), [false, true, false]);
    }

    #[test]
    fn a_range_left_out_also_late_keeps_all_inside_of_it_out_in_every_domain() {
        for late in [false, true] {
            assert_eq!(around(), None);
            let outer = push(1, true, || late);
            let selection = if late { Selection::Collect } else { Selection::Skip };
            assert_eq!((outer.switches, outer.selection), (late, selection));
            if late {
                leave_out(1);
            }
            assert_eq!(around(), Some(false));
            let other = push(2, true, || panic!("the range around it decides"));
            assert_eq!((other.switches, other.selection), (false, Selection::Skip));
            // One that is left out late still closes the gate.
            assert_eq!([pop(2), pop(1)].map(|step| step.switches), [false, late]);
            assert_eq!(around(), None);
        }
    }

    #[test]
    fn more_domains_than_slots_are_untracked_not_mixed_up() {
        for domain in 0..DOMAINS as u32 {
            assert_eq!(opened(100 + domain).pushed_level(), 0);
        }
        assert_eq!(push(999, true, || true), Step::UNTRACKED);
        for domain in 0..DOMAINS as u32 {
            assert_eq!(pop(100 + domain).popped_level(), 0);
        }
        // There is room, but its outer range was opened when there was none.
        assert_eq!(opened(999), Step::UNTRACKED);
        assert_eq!((pop(999), pop(999)), (Step::UNTRACKED, Step::UNTRACKED));
        assert_eq!(opened(999).pushed_level(), 0);
        pop(999);
    }

    #[test]
    fn an_event_that_was_lost_is_made_up_for_by_the_next_of_its_domain() {
        let push = |domain, arrives| {
            let step = opened(domain);
            step.sent(domain, true, arrives);
            (step.min_depth_since_delivery, step.depth_uncertain)
        };
        let pop = |domain, arrives| {
            let step = pop(domain);
            step.sent(domain, false, arrives);
            (step.min_depth_since_delivery, step.depth_uncertain)
        };
        let clean = (NOTHING_LOST, false);
        assert_eq!([push(1, true), push(1, true), pop(1, false)], [clean; 3]);
        assert_eq!(push(1, false), (1, false));
        // Another domain does not make up for it.
        assert_eq!(push(2, true), (NOTHING_LOST, true));
        assert_eq!(push(1, true), (1, false));
        assert_eq!([pop(1, true), pop(2, true), pop(1, true), pop(1, false)], [clean; 4]);
        // A pop that matches nothing neither does nor loses anything.
        assert_eq!([pop(1, false), pop(1, true), push(1, true)], [(0, false); 3]);
        assert_eq!(pop(1, true), clean);
        lose_track();
        assert!(opened(1).depth_uncertain);
    }

    #[test]
    fn every_thread_has_a_number_of_its_own_for_life_and_our_own_thread_is_told_once_in_each_epoch()
    {
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(Options::default())));
        let told_in = |epoch| {
            let mine = number_in(Call { shared, epoch });
            let told = shared.events.receive();
            assert!(told.is_none_or(|event| {
                (event.kind, event.thread, event.epoch) == (EventKind::Thread, mine, epoch)
            }));
            (mine, told.is_some())
        };
        let mine = number();
        assert_eq!(
            [told_in(0), told_in(0), told_in(7)],
            [(mine, true), (mine, false), (mine, true)]
        );
        begin(Call { shared, epoch: 7 });
        assert_eq!(number(), mine);
        assert_ne!(std::thread::spawn(number).join().ok(), Some(mine));
    }

    #[test]
    fn ranges_that_were_open_at_a_fork_are_not_those_of_the_child_and_their_pops_are_ignored() {
        opened(1);
        opened(1);
        assert!(push(2, true, || true).switches);
        lose_track();
        STATE.with(State::renew);
        assert_eq!(around(), None);
        assert_eq!((opened(1).pushed_level(), pop(1).popped_level()), (0, 0));
        assert_eq!(
            [pop(1), pop(2), pop(1)].map(|step| (step.inherited, step.switches)),
            [(true, false); 3]
        );
        // Of those of the child itself nothing is ignored, nor of what matches nothing.
        assert!(!opened(1).depth_uncertain && !pop(1).inherited && !pop(1).inherited);
    }

    #[test]
    fn pops_in_domains_that_had_no_place_are_ignored_after_a_fork_as_often_as_ranges_were_open() {
        (0..DOMAINS as u32).for_each(|domain| assert!(opened(100 + domain).depth.is_some()));
        assert_eq!([opened(999), opened(999)], [Step::UNTRACKED; 2]);
        STATE.with(State::renew);
        // One that has no place in the child either, so that its own range is counted apart.
        (0..DOMAINS as u32).for_each(|domain| assert!(opened(100 + domain).depth.is_some()));
        assert_eq!(opened(999), Step::UNTRACKED);
        assert_eq!([999; 4].map(|domain| pop(domain).inherited), [false, true, true, false]);
        (0..DOMAINS as u32).for_each(|domain| assert!(!pop(100 + domain).inherited));
        assert!((0..DOMAINS as u32).all(|domain| pop(100 + domain).inherited));
    }
}
