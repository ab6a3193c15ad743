//! Sets of callback ids and of activity kinds that any thread may change.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ids of an [`IdSet`] start at 0 and end here: more than there are functions in the driver.
const IDS: usize = 1024;
/// A set of callback ids or of activity kinds.
pub(crate) struct IdSet([AtomicBool; IDS]);

impl IdSet {
    /// The empty set.
    pub(crate) const fn new() -> IdSet {
        IdSet([const { AtomicBool::new(false) }; IDS])
    }

    /// Adds or removes an id; false if it is out of range.
    pub(crate) fn set(&self, id: u32, on: bool) -> bool {
        self.0.get(id as usize).map(|flag| flag.store(on, Ordering::Relaxed)).is_some()
    }

    /// Adds or removes every id.
    pub(crate) fn set_all(&self, on: bool) {
        self.0.iter().for_each(|flag| flag.store(on, Ordering::Relaxed));
    }

    /// Whether nothing is in the set.
    pub(crate) fn is_empty(&self) -> bool {
        !self.0.iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    /// Whether an id is in the set.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.0.get(id as usize).is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set = IdSet::new();
        assert!(set.set(307, true) && set.has(307) && !set.has(306) && !set.has(9999));
        assert!(!set.set(IDS as u32, true));
        set.set_all(true);
        assert!(set.has(1) && set.set(1, false) && !set.has(1) && !set.is_empty());
        set.set_all(false);
        assert!(set.is_empty());
    }
}
