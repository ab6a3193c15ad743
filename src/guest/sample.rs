//! Openings of ranges into the choice of those that `STAGE2_SAMPLE=1/N` records.
//!
//! Of every N consecutive instances of a kind one is taken: of the first N the second, because the
//! first is cold; of later ones one at a place that varies from block to block, so that a workload
//! that does something every N-th time (a KV cache that grows by blocks of 16 tokens) is not seen
//! at its worst or best only. The places follow from the kind: two runs take the same ones.
//!
//! A kind is a name without its digits and without what PyTorch appends to operators, in its
//! domain: `step 17` and `step 18` are instances of one. Guest threads choose, without memory or locks.

use std::sync::atomic::{AtomicU64, Ordering};

use stage2_contract::text::without_instance;

/// Kinds that are counted apart; further ones share counters.
const KINDS: usize = 512;

/// Counts the instances of every kind.
pub(crate) struct Sampler {
    one_in: u64,
    kinds: Box<[Kind]>,
}

#[derive(Default)]
struct Kind {
    /// 0 is free.
    key: AtomicU64,
    instances: AtomicU64,
}

impl Sampler {
    /// Takes one of `one_in` instances. Allocates; called once, at start.
    pub(crate) fn new(one_in: u32) -> Self {
        let kinds = if one_in > 1 { KINDS } else { 0 };
        Sampler { one_in: u64::from(one_in), kinds: (0..kinds).map(|_| Kind::default()).collect() }
    }

    /// Begins to count anew, for the start of a window.
    pub(crate) fn reset(&self) {
        for kind in &self.kinds {
            kind.instances.store(0, Ordering::Relaxed);
            kind.key.store(0, Ordering::Relaxed);
        }
    }

    /// Counts an instance of the kind with this key (see [`key`]) and says whether to record it.
    pub(crate) fn take(&self, key: u64) -> bool {
        let Some(kind) = self.kind(key) else { return true };
        let instance = kind.instances.fetch_add(1, Ordering::Relaxed);
        let (block, place) = (instance / self.one_in, instance % self.one_in);
        let taken = match block {
            0 => 1,
            block => mix(key ^ mix(block)) % self.one_in,
        };
        place == taken
    }

    /// The counter of a kind; nothing where everything is taken.
    fn kind(&self, key: u64) -> Option<&Kind> {
        let first = mix(key) as usize;
        for step in 0..self.kinds.len() {
            let kind = self.kinds.get(first.wrapping_add(step) % self.kinds.len())?;
            let claimed = kind.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
            if claimed.is_ok() || claimed == Err(key) {
                return Some(kind);
            }
        }
        self.kinds.get(first % self.kinds.len().max(1))
    }
}

/// The key of a kind; never 0. `registered` is the number of a registered string, whose text is
/// not at hand, or 0.
pub(crate) fn key(name: &[u8], registered: u32, domain: u32) -> u64 {
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let ids = registered.to_ne_bytes().into_iter().chain(domain.to_ne_bytes());
    for byte in
        without_instance(name).iter().copied().filter(|byte| !byte.is_ascii_digit()).chain(ids)
    {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash.max(1)
}

/// Spreads every bit over all others (the finaliser of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(sampler: &Sampler, name: &str, instances: u64) -> Vec<u64> {
        (1..=instances).filter(|_| sampler.take(key(name.as_bytes(), 0, 0))).collect()
    }

    #[test]
    fn one_of_every_block_is_taken_the_second_first_and_never_always_at_the_same_place() {
        let sampler = Sampler::new(16);
        let mut instance = 0;
        let taken: Vec<u64> = std::iter::from_fn(|| {
            instance += 1;
            Some((instance, sampler.take(key(b"step", 0, 0))))
        })
        .take(1600)
        .filter_map(|(instance, taken)| taken.then_some(instance))
        .collect();
        assert_eq!(taken.first(), Some(&2));
        let blocks: Vec<u64> = taken.iter().map(|instance| (instance - 1) / 16).collect();
        assert_eq!(blocks, (0..100).collect::<Vec<_>>());
        let places: std::collections::BTreeSet<u64> = taken.iter().map(|i| i % 16).collect();
        assert!(places.len() > 12, "{places:?}");
        let mean = taken.iter().sum::<u64>() as f64 / taken.len() as f64;
        assert!((mean - 800.5).abs() < 3.0, "{mean}");
    }

    #[test]
    fn kinds_are_counted_apart_and_numbered_names_together() {
        let sampler = Sampler::new(4);
        assert_eq!(taken(&sampler, "prefill", 4).len(), 1);
        assert_eq!(taken(&sampler, "decode", 4).len(), 1);
        let numbered = (0..400).filter(|i| sampler.take(key(format!("step {i}").as_bytes(), 0, 0)));
        assert_eq!(numbered.count(), 100);
        assert_ne!(key(b"a", 0, 0), key(b"a", 0, 1));
        assert_ne!(key(b"", 1, 0), key(b"", 2, 0));
    }

    #[test]
    fn more_kinds_than_counters_share_them_and_still_are_sampled() {
        let sampler = Sampler::new(2);
        let names: Vec<String> =
            (0..4 * KINDS).map(|i| "x".repeat(i % 64) + &"y".repeat(i / 64)).collect();
        let taken = (0..10).flat_map(|_| &names).filter(|n| sampler.take(key(n.as_bytes(), 0, 0)));
        let share = taken.count() as f64 / (10 * names.len()) as f64;
        assert!((0.45..0.55).contains(&share), "{share}");
    }

    #[test]
    fn one_in_one_takes_everything() {
        let sampler = Sampler::new(1);
        assert!((0..10).all(|_| sampler.take(7)));
    }
}
