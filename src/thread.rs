//! What we keep about the calling thread: its number, its open ranges by domain, its last fence.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};

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
            domains: RefCell::new([Domain { id: u32::MAX, depth: 0, gated_at: None }; DOMAINS]),
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
    /// The depth at which the outermost range that collection is asked for was opened.
    gated_at: Option<u32>,
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
    /// The outermost range that collection is asked for was opened (by a push) or closed.
    pub gate: bool,
}

impl Step {
    const UNTRACKED: Step = Step { depth: None, gate: false };

    /// The level that NVTX wants returned: of the range that was opened or closed, from 0.
    pub fn pushed_level(self) -> i32 {
        self.depth.map_or(NOT_TRACKED, |depth| depth as i32 - 1)
    }

    /// As [`Step::pushed_level`], for a pop.
    pub fn popped_level(self) -> i32 {
        self.depth.map_or(NOT_TRACKED, |depth| depth as i32)
    }
}

/// Opens a range in `domain`. `wanted`: collection is asked for inside of it.
pub fn push(domain: u32, wanted: bool) -> Step {
    with_domain(domain, |slot| {
        let gate = wanted && slot.gated_at.is_none();
        if gate {
            slot.gated_at = Some(slot.depth);
        }
        slot.depth = slot.depth.saturating_add(1);
        Step { depth: Some(slot.depth), gate }
    })
}

/// Closes the innermost range of `domain`. With none open the depth stays 0 and the answer is
/// "not tracked".
pub fn pop(domain: u32) -> Step {
    with_domain(domain, |slot| {
        let Some(depth) = slot.depth.checked_sub(1) else { return Step::UNTRACKED };
        slot.depth = depth;
        let gate = slot.gated_at == Some(depth);
        if gate {
            slot.gated_at = None;
        }
        Step { depth: Some(depth), gate }
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

    #[test]
    fn levels_count_from_zero_and_an_unmatched_pop_changes_nothing() {
        assert_eq!(push(0, false).pushed_level(), 0);
        assert_eq!(push(0, false).pushed_level(), 1);
        assert_eq!(pop(0).popped_level(), 1);
        assert_eq!(pop(0).popped_level(), 0);
        assert_eq!(pop(0).popped_level(), NOT_TRACKED);
        assert_eq!(push(0, false).pushed_level(), 0);
        pop(0);
    }

    #[test]
    fn only_the_outermost_wanted_range_opens_and_closes_the_gate() {
        assert!(!push(1, false).gate);
        assert!(push(1, true).gate);
        assert!(!push(1, true).gate);
        assert!(!pop(1).gate);
        assert!(pop(1).gate);
        assert!(!pop(1).gate);
    }

    #[test]
    fn more_domains_than_slots_are_untracked_not_mixed_up() {
        for domain in 0..DOMAINS as u32 {
            assert_eq!(push(100 + domain, false).pushed_level(), 0);
        }
        assert_eq!(push(999, true), Step::UNTRACKED);
        for domain in 0..DOMAINS as u32 {
            assert_eq!(pop(100 + domain).popped_level(), 0);
        }
        assert_eq!(push(999, false).pushed_level(), 0);
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
