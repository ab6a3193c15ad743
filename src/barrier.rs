//! Every call from the guest into us goes through here: no panic leaves, nothing re-enters.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::diag;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` for a C caller and turns a panic into `fallback`.
pub fn catch<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(panic) => {
            // A panic payload may own things whose drop panics again: leak it.
            std::mem::forget(panic);
            diag::warn(format_args!(
                "internal error (a panic was stopped): this call is not recorded; please report it"
            ));
            fallback
        }
    }
}

/// As [`catch`], and gives `fallback` at once where this thread is already inside such a call
/// (CUPTI and the driver may call NVTX themselves) or its thread-locals are gone.
pub fn enter<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    match Inside::claim() {
        Some(_inside) => catch(fallback, body),
        None => fallback,
    }
}

/// Marks this thread as inside one of our handlers until dropped.
struct Inside;

impl Inside {
    fn claim() -> Option<Self> {
        // `try_with`: a guest's own thread-local destructors may still push and pop ranges.
        match INSIDE.try_with(|inside| inside.replace(true)) {
            Ok(false) => Some(Self),
            Ok(true) | Err(_) => None,
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_fallback_and_the_thread_can_enter_again() {
        assert_eq!(enter(7, || panic!("inside")), 7);
        assert_eq!(enter(7, || 1), 1);
    }

    #[test]
    fn a_second_entry_on_the_same_thread_is_turned_away() {
        assert_eq!(enter(0, || enter(9, || 1)), 9);
    }
}
