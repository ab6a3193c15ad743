//! Identifiers of a file -> indices. Quick and small where they are dense, as writers give them
//! out, and bounded by the number of definitions whatever they are.

use std::collections::HashMap;

const NONE: u32 = u32::MAX;

/// A map from identifiers to indices.
#[derive(Debug, Default)]
pub(super) struct Ids {
    dense: Vec<u32>,
    sparse: HashMap<u64, u32>,
    defined: usize,
}

impl Ids {
    /// Lets `id` stand for `index` from here on; true where it stood for another before.
    pub(super) fn insert(&mut self, id: u64, index: u32) -> bool {
        let before = self.get(id).is_some();
        self.defined += 1;
        // At most two slots for each definition, so that a huge identifier costs nothing.
        match usize::try_from(id) {
            Ok(slot) if slot < 2 * self.defined + 64 => {
                if slot >= self.dense.len() {
                    self.dense.resize(slot + 1, NONE);
                }
                if let Some(entry) = self.dense.get_mut(slot) {
                    *entry = index;
                }
            }
            _ => drop(self.sparse.insert(id, index)),
        }
        before
    }

    /// What `id` stands for.
    pub(super) fn get(&self, id: u64) -> Option<u32> {
        let dense = usize::try_from(id).ok().and_then(|slot| self.dense.get(slot));
        match dense {
            Some(&index) if index != NONE => Some(index),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_map(ids in prop::collection::vec(prop_oneof![0u64..200, any::<u64>()], 0..300)) {
            let (mut ids_map, mut expected) = (Ids::default(), HashMap::new());
            for (index, &id) in ids.iter().enumerate() {
                let before = expected.insert(id, index as u32).is_some();
                prop_assert_eq!(ids_map.insert(id, index as u32), before);
            }
            for id in ids.iter().copied().chain(0..300) {
                prop_assert_eq!(ids_map.get(id), expected.get(&id).copied());
            }
            prop_assert!(ids_map.dense.len() <= 2 * ids.len() + 64);
        }
    }
}
