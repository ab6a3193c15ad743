//! What we keep about the calling thread: its number, its open ranges by domain, its last fence.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::event::Want;

/// Domains for which a thread's nesting depth is tracked at once. A domain beyond that is still
/// recorded; only its pushes and pops answer "not tracked" and it cannot gate collection.
const DOMAINS: usize = 16;

/// NVTX's answer to a push or pop whose level is not known.
pub const NOT_TRACKED: i32 = -2;

/// Thread numbers start at 1 and are never used twice, unlike the kernel's thread ids.
static NEXT: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static STATE: State = const {
        State {
            number: Cell::new(0),
            fence: Cell::new(0),
            domains: RefCell::new([Domain { id: u32::MAX, depth: 0, unit: None }; DOMAINS]),
        }
    };
}

struct State {
    number: Cell<u32>,
    fence: Cell<u32>,
    domains: RefCell<[Domain; DOMAINS]>,
}

/// The ranges of one NVTX domain on this thread.
#[derive(Clone, Copy)]
struct Domain {
    id: u32,
    depth: u32,
    /// The outermost range that collection is asked for.
    unit: Option<Unit>,
}

/// A range that collection is asked for.
#[derive(Clone, Copy)]
struct Unit {
    /// The depth at which it was opened.
    depth: u32,
    /// It is collected; else it is left out of the sample.
    collected: bool,
    /// Its closing closes the gate.
    gate: bool,
}

/// A thread's number and whether this call gave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The number, from 1.
    pub number: u32,
    /// Nobody has heard of this thread yet.
    pub new: bool,
}

/// The calling thread's number. 0 where its thread-locals are gone: it is ending.
pub fn number() -> Number {
    STATE
        .try_with(|state| match state.number.get() {
            0 => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                state.number.set(number);
                Number { number, new: true }
            }
            number => Number { number, new: false },
        })
        .unwrap_or(Number { number: 0, new: false })
}

/// Keeps the correlation id that CUPTI showed for the fence call of this thread.
pub fn set_fence(correlation: u32) {
    let _ = STATE.try_with(|state| state.fence.set(correlation));
}

/// Takes the id that [`set_fence`] kept; 0 is none.
pub fn take_fence() -> u32 {
    STATE.try_with(|state| state.fence.replace(0)).unwrap_or(0)
}

/// What a push or pop did to this thread's ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Ranges open in the domain afterwards; `None` where that is not tracked.
    pub depth: Option<u32>,
    /// A range that is collected, and not for the sake of one around it, was opened (by a push)
    /// or closed.
    pub gate: bool,
    /// What is to be collected within the range that a push opened.
    pub want: Want,
}

impl Step {
    const UNTRACKED: Step = Step { depth: None, gate: false, want: Want::Inherit };

    /// The level that NVTX wants returned: of the range that was opened or closed, from 0.
    pub fn pushed_level(self) -> i32 {
        self.depth.map_or(NOT_TRACKED, |depth| depth as i32 - 1)
    }

    /// As [`Step::pushed_level`], for a pop.
    pub fn popped_level(self) -> i32 {
        self.depth.map_or(NOT_TRACKED, |depth| depth as i32)
    }
}

/// Opens a range in `domain`. `asked`: collection is asked for inside of it; then `choose` says
/// whether it really is, unless a range around it on this thread has decided that already.
pub fn push(domain: u32, asked: bool, choose: impl FnOnce() -> bool) -> Step {
    let around = if asked { around() } else { None };
    with_domain(domain, |slot| {
        let mut want = Want::Inherit;
        if asked && slot.unit.is_none() {
            let collected = around.unwrap_or_else(choose);
            slot.unit = Some(Unit { depth: slot.depth, collected, gate: collected });
            want = if collected { Want::Collect } else { Want::Skip };
        }
        slot.depth = slot.depth.saturating_add(1);
        Step { depth: Some(slot.depth), gate: want == Want::Collect, want }
    })
}

/// Whether this thread is inside of a range that collection is asked for, of any domain, and
/// whether that is collected.
pub fn around() -> Option<bool> {
    let decided = |state: &State| {
        let domains = state.domains.try_borrow().ok()?;
        domains.iter().filter_map(|slot| slot.unit).map(|unit| unit.collected).max()
    };
    STATE.try_with(decided).ok().flatten()
}

/// Collection came too late for the range that was just opened in `domain`: it is left out, and
/// with it what is nested in it, whatever the domain. Its closing closes the gate as before.
pub fn leave_out(domain: u32) {
    with_domain(domain, |slot| {
        if let Some(unit) = &mut slot.unit {
            unit.collected = false;
        }
        Step::UNTRACKED
    });
}

/// Closes the innermost range of `domain`. With none open the depth stays 0 and the answer is
/// "not tracked".
pub fn pop(domain: u32) -> Step {
    with_domain(domain, |slot| {
        let Some(depth) = slot.depth.checked_sub(1) else { return Step::UNTRACKED };
        slot.depth = depth;
        let closed = slot.unit.take_if(|unit| unit.depth == depth);
        let gate = closed.is_some_and(|unit| unit.gate);
        Step { depth: Some(depth), gate, want: Want::Inherit }
    })
}

fn with_domain(id: u32, step: impl FnOnce(&mut Domain) -> Step) -> Step {
    STATE
        .try_with(|state| {
            let Ok(mut domains) = state.domains.try_borrow_mut() else { return Step::UNTRACKED };
            let free = |slot: &Domain| slot.id == u32::MAX || slot.depth == 0;
            let slot = domains.iter().position(|slot| slot.id == id);
            match slot.or_else(|| domains.iter().position(free)) {
                Some(index) => {
                    let slot = &mut domains[index];
                    slot.id = id;
                    step(slot)
                }
                None => Step::UNTRACKED,
            }
        })
        .unwrap_or(Step::UNTRACKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(domain: u32) -> Step {
        push(domain, false, || panic!("nobody asked"))
    }

    #[test]
    fn levels_count_from_zero_and_an_unmatched_pop_changes_nothing() {
        assert_eq!(opened(0).pushed_level(), 0);
        assert_eq!(opened(0).pushed_level(), 1);
        assert_eq!(pop(0).popped_level(), 1);
        assert_eq!(pop(0).popped_level(), 0);
        assert_eq!(pop(0).popped_level(), NOT_TRACKED);
        assert_eq!(opened(0).pushed_level(), 0);
        pop(0);
    }

    #[test]
    fn only_the_outermost_wanted_range_opens_and_closes_the_gate() {
        assert!(!opened(1).gate);
        assert_eq!(push(1, true, || true).want, Want::Collect);
        let inner = push(1, true, || panic!("the outer one decides"));
        assert_eq!((inner.gate, inner.want), (false, Want::Inherit));
        assert!(!pop(1).gate);
        assert!(pop(1).gate);
        assert!(!pop(1).gate);
    }

    #[test]
    fn a_range_left_out_of_the_sample_keeps_all_inside_of_it_out_in_every_domain() {
        assert_eq!(around(), None);
        let outer = push(1, true, || false);
        assert_eq!((outer.gate, outer.want), (false, Want::Skip));
        assert_eq!(around(), Some(false));
        let other = push(2, true, || panic!("the range around it decides"));
        assert_eq!((other.gate, other.want), (false, Want::Skip));
        assert!(!pop(2).gate);
        assert!(!pop(1).gate);
        assert_eq!(around(), None);
    }

    #[test]
    fn a_range_that_is_left_out_late_keeps_all_inside_of_it_out_and_still_closes_the_gate() {
        assert!(push(1, true, || true).gate);
        leave_out(1);
        assert_eq!(around(), Some(false));
        let other = push(2, true, || panic!("the range around it decides"));
        assert_eq!((other.gate, other.want), (false, Want::Skip));
        assert!(!pop(2).gate);
        assert!(pop(1).gate);
        assert_eq!(around(), None);
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
        assert_eq!(opened(999).pushed_level(), 0);
        pop(999);
    }

    #[test]
    fn every_thread_has_a_number_of_its_own() {
        let mine = number().number;
        assert_eq!(number(), Number { number: mine, new: false });
        let other = std::thread::spawn(number).join().map(|n| n.number);
        assert_ne!(other.ok(), Some(mine));
    }
}
