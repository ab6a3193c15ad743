//! Sorting of tables that are not bulk data.
//!
//! The library's sort is compiled again for every type and every order: 4 KB each, a tenth of the launcher.
//! Here only the order is; the sort itself is one, over places. It is stable like that of the library, and
//! slower by a call for each comparison. What has an element for each kernel or range is sorted by `sort_by`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Stable sorts of a slice.
pub trait Order<T> {
    /// As `sort_by`.
    fn order_by(&mut self, order: impl FnMut(&T, &T) -> Ordering);
    /// As `sort_by_key`.
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
    /// As `sort_by_cached_key`: each key is made once.
    fn order_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);
}

/// Ordered maps and sets of what an iterator gives. `collect` sorts all of it first, with a sort of its own for every type;
/// here each item is inserted.
pub trait IntoOrdered: Iterator + Sized {
    /// A set of the items.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord;
    /// A map of the pairs; of pairs with the same key, the last one.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>;
}

impl<I: Iterator> IntoOrdered for I {
    fn into_set(self) -> BTreeSet<I::Item>
    where
        I::Item: Ord,
    {
        let mut set = BTreeSet::new();
        set.extend(self);
        set
    }

    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        I: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        map.extend(self);
        map
    }
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, mut order: impl FnMut(&T, &T) -> Ordering) {
        let items = &*self;
        let places = sorted(items.len(), &mut |a, b| match (items.get(a), items.get(b)) {
            (Some(a), Some(b)) => order(a, b),
            _ => Ordering::Equal,
        });
        arrange(self, places);
    }

    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }

    fn order_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) {
        let keys: Vec<K> = self.iter().map(key).collect();
        let places = sorted(keys.len(), &mut |a, b| keys.get(a).cmp(&keys.get(b)));
        arrange(self, places);
    }
}

/// The places of so many items, in their order.
fn sorted(count: usize, order: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| order(*a, *b));
    places
}

/// Puts the item of each of the `places` where that place stands, cycle by cycle.
fn arrange<T>(items: &mut [T], mut places: Vec<usize>) {
    for start in 0..items.len() {
        let mut at = start;
        while let Some(place) = places.get_mut(at) {
            // A place that leads to itself is done.
            let from = std::mem::replace(place, at);
            if from == start || from == at {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_order_of_the_library(keys in prop::collection::vec(0u8..20, 0..60)) {
            let items: Vec<(u8, String)> =
                keys.iter().zip(0..).map(|(key, at): (_, u32)| (*key, at.to_string())).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            let mut found = [items.clone(), items.clone(), items];
            found[0].order_by(|a, b| a.0.cmp(&b.0));
            found[1].order_by_key(|item| item.0);
            found[2].order_by_cached_key(|item| item.0.to_string().len() as u8 * 100 + item.0);
            prop_assert!(found.iter().all(|found| *found == expected));
        }
    }
}
