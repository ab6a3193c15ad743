//! Identifiers of range instances -> where their work belongs, for the latest of them.
//!
//! Writers give identifiers out one by one, and GPU work comes into the file soon after the range
//! that it was launched in. So a table of the latest identifiers finds nearly all; what is open
//! stays known however old it is. Work of an instance that closed longer ago than the table
//! reaches has lost its place: it is counted as unattributed.

use rustc_hash::FxHashMap;

use super::paths::PathIndex;

/// Instances in the table before the older half is forgotten.
const WINDOW: usize = 1 << 22;
const NONE: PathIndex = PathIndex::MAX;

/// Stands for no outermost instance: only ranges of libraries are around.
pub(super) const NO_ROOT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathIndex,
    /// Number of the outermost instance of the user around it, or [`NO_ROOT`].
    pub(super) root: u32,
}

#[derive(Debug, Default)]
pub(super) struct Instances {
    /// Identifier of the first entry.
    base: u64,
    dense: Vec<Entry>,
    /// Identifiers that are out of the order.
    sparse: FxHashMap<u64, Entry>,
    defined: usize,
    /// [`WINDOW`] if it is not set.
    window: Option<usize>,
}

impl Instances {
    pub(super) fn with_window(window: usize) -> Self {
        Self { window: Some(window), ..Self::default() }
    }

    /// Lets `id` stand for `entry` from here on.
    pub(super) fn insert(&mut self, id: u64, entry: Entry) {
        let window = self.window.unwrap_or(WINDOW);
        if self.dense.len() >= window {
            let half = self.dense.len() / 2;
            self.dense.drain(..half);
            self.base = self.base.saturating_add(half as u64);
            self.defined = self.defined.saturating_sub(half);
        }
        if self.sparse.len() >= window {
            self.sparse.clear();
        }
        self.defined += 1;
        // At most two slots for each definition, so that a huge identifier costs nothing.
        match id.checked_sub(self.base).and_then(|slot| usize::try_from(slot).ok()) {
            Some(slot) if slot < 2 * self.defined + 64 => {
                if slot >= self.dense.len() {
                    self.dense.resize(slot + 1, Entry { path: NONE, root: 0 });
                }
                if let Some(place) = self.dense.get_mut(slot) {
                    *place = entry;
                }
            }
            _ => drop(self.sparse.insert(id, entry)),
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<Entry> {
        let slot = id.checked_sub(self.base).and_then(|slot| usize::try_from(slot).ok());
        match slot.and_then(|slot| self.dense.get(slot)) {
            Some(&entry) if entry.path != NONE => Some(entry),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn is_a_map(ids in prop::collection::vec(prop_oneof![0u64..200, any::<u64>()], 0..300)) {
            let (mut instances, mut expected) = (Instances::default(), HashMap::new());
            for (path, &id) in (0..).zip(&ids) {
                let entry = Entry { path, root: path + 1 };
                instances.insert(id, entry);
                expected.insert(id, entry);
            }
            for id in ids.iter().copied().chain(0..300) {
                prop_assert_eq!(instances.get(id), expected.get(&id).copied());
            }
            prop_assert!(instances.dense.len() <= 2 * ids.len() + 64);
        }

        #[test]
        fn the_latest_are_known_and_memory_is_bounded(count in 1u64..2_000, window in 8usize..100) {
            let mut instances = Instances::with_window(window);
            for id in 1..=count {
                instances.insert(id, Entry { path: id as u32, root: 0 });
            }
            prop_assert!(instances.dense.len() <= window && instances.sparse.len() <= window);
            for id in count.saturating_sub(window as u64 / 2 - 2).max(1)..=count {
                prop_assert_eq!(instances.get(id), Some(Entry { path: id as u32, root: 0 }));
            }
            prop_assert!(count <= window as u64 || instances.get(1).is_none());
        }
    }
}
