//! What a window is to record: a filter of ranges and a choice of instances, read by guest threads at
//! each push.
//!
//! Handles carry the bits of the filter of the environment. A window with its own filter looks the
//! bits up by the number of the registration instead, in a table ([`Bits`]) that is filled before the
//! window begins and goes on with each registration.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use stage2_contract::stats::mixed;
use stage2_contract::text::without_instance;

use crate::base::glob::RangeFilter;
use crate::base::options::Options;
use crate::guest::registry::{Handle, Kind, Lookup, MAX_ENTRIES, Registry};

/// A filter and a choice.
pub struct WindowFilter {
    /// The ranges that are recorded.
    pub ranges: RangeFilter,
    /// One in so many instances.
    pub sample: u32,
    pub(crate) sampler: Sampler,
    /// Where the bits of registrations stand; `None`: in their handles.
    bits: Option<&'static Bits>,
}

impl WindowFilter {
    /// What the environment asks for.
    pub fn of(options: &Options) -> Self {
        let (ranges, sample) = (options.ranges.clone(), options.sample);
        WindowFilter { ranges, sample, sampler: Sampler::new(sample), bits: None }
    }

    /// What a start asks for. Allocates: never on a guest thread.
    pub fn new(ranges: RangeFilter, sample: u32, bits: &'static Bits) -> Self {
        WindowFilter { ranges, sample, sampler: Sampler::new(sample), bits: Some(bits) }
    }

    /// Collection is on within some ranges only.
    pub(crate) fn is_restricted(&self) -> bool {
        self.is_sampled() || !self.ranges.is_everything()
    }

    /// Not every instance of a range is collected.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sample > 1
    }

    /// What collection is restricted to, as facts for the trace file; none where nothing is left out.
    pub fn restrictions(&self) -> impl Iterator<Item = (&'static str, String)> {
        let sample = self.is_sampled().then(|| ("sample", format!("1/{}", self.sample)));
        let ranges = (!self.ranges.is_everything()).then(|| ("ranges", self.ranges.to_string()));
        sample.into_iter().chain(ranges)
    }

    /// The globs that match what was registered.
    pub(crate) fn globs_of(&self, handle: Handle) -> u32 {
        self.bits.map_or_else(|| handle.globs(), |bits| bits.get(handle.number()))
    }
}

/// The bits of a window's own filter for each registration.
pub struct Bits {
    of: Box<[AtomicU32]>,
    /// The filter that they belong to; null is none. What it points to is never freed.
    filter: AtomicPtr<RangeFilter>,
}

impl Default for Bits {
    /// No filter yet. Allocates 256 KiB.
    fn default() -> Self {
        let of = (0..=MAX_ENTRIES).map(|_| AtomicU32::new(0)).collect();
        Bits { of, filter: AtomicPtr::default() }
    }
}

impl Bits {
    /// Takes the bits of this filter for all that was registered. Only one thread calls it, while
    /// nothing is recorded.
    pub fn fill(&self, filter: &'static RangeFilter, registry: &Registry) {
        self.filter.store(std::ptr::from_ref(filter).cast_mut(), Ordering::SeqCst);
        // What is registered from here on sees the filter.
        fence(Ordering::SeqCst);
        for number in 1..=registry.last() {
            if let Lookup::Entry(entry) = registry.get(number) {
                self.put(number, bits_of(filter, entry.kind, &entry.bytes));
            }
        }
    }

    /// A domain or a string was registered. Neither locks nor allocates.
    pub(crate) fn note(&self, number: u32, kind: Kind, text: &[u8]) {
        let now = || self.filter.load(Ordering::SeqCst);
        let mut filter = now();
        // The filter may change while this stores the bits of the one before.
        for _ in 0..8 {
            // SAFETY: null, or a filter that is never freed, as `fill` was given it.
            if let Some(filter) = unsafe { filter.as_ref() } {
                self.put(number, bits_of(filter, kind, text));
            }
            fence(Ordering::SeqCst);
            let later = now();
            if std::mem::replace(&mut filter, later) == later {
                return;
            }
        }
    }

    fn get(&self, number: u32) -> u32 {
        self.of.get(number as usize).map_or(0, |bits| bits.load(Ordering::Relaxed))
    }

    fn put(&self, number: u32, bits: u32) {
        if let Some(place) = self.of.get(number as usize) {
            place.store(bits, Ordering::Relaxed);
        }
    }
}

fn bits_of(filter: &RangeFilter, kind: Kind, text: &[u8]) -> u32 {
    match kind {
        Kind::Domain => filter.match_domain(text),
        _ => filter.match_name(text),
    }
}

// Openings of ranges into the choice of those that `STAGE2_SAMPLE=1/N` records.
//
// Of every N consecutive instances of a kind one is taken: of the first N the second, because the
// first is cold; of later ones one at a place that varies from block to block, so that a workload
// that does something every N-th time (a KV cache that grows by blocks of 16 tokens) is not seen
// at its worst or best only. The places follow from the kind: two runs take the same ones.
//
// A kind is a name without its digits and without what PyTorch appends to operators, in its
// domain: `step 17` and `step 18` are instances of one. Guest threads choose, without memory or locks.

/// Kinds that are counted apart; further ones share counters.
const KINDS: usize = 512;

pub(crate) struct Sampler {
    one_in: u64,
    kinds: Box<[KindCount]>,
}

#[derive(Default)]
struct KindCount {
    /// 0 is free.
    key: AtomicU64,
    instances: AtomicU64,
}

impl Sampler {
    /// Takes one of `one_in` instances. Allocates; called once, at start.
    pub(crate) fn new(one_in: u32) -> Self {
        let kinds = if one_in > 1 { KINDS } else { 0 };
        Sampler {
            one_in: u64::from(one_in),
            kinds: (0..kinds).map(|_| KindCount::default()).collect(),
        }
    }

    /// Begins to count again, for the start of a window.
    pub(crate) fn reset(&self) {
        for kind in &self.kinds {
            kind.instances.store(0, Ordering::Relaxed);
            kind.key.store(0, Ordering::Relaxed);
        }
    }

    /// Counts an instance of the kind with this key (see [`kind_key`]) and states whether to record it.
    pub(crate) fn take(&self, key: u64) -> bool {
        let Some(kind) = self.kind(key) else { return true };
        let instance = kind.instances.fetch_add(1, Ordering::Relaxed);
        let (block, place) = (instance / self.one_in, instance % self.one_in);
        let taken = match block {
            0 => 1,
            block => mixed(key ^ mixed(block)) % self.one_in,
        };
        place == taken
    }

    /// The counter of a kind; nothing where everything is taken.
    fn kind(&self, key: u64) -> Option<&KindCount> {
        let first = mixed(key) as usize;
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

/// The key of a kind; never 0. `registered`: the number of a registered string,
/// whose text is not available, or 0.
pub(crate) fn kind_key(name: &[u8], registered: u32, domain: u32) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_a_window_knows_what_was_registered_before_and_since() {
        let registry: &Registry = Box::leak(Box::new(Registry::empty()));
        let bits: &Bits = Box::leak(Box::new(Bits::default()));
        let add = |kind, text: &[u8]| registry.add_text(kind, 0, text).0;
        let (early, domain) = (add(Kind::Text, b"decode"), add(Kind::Domain, b"llm"));
        let filter =
            || Box::leak(Box::new(RangeFilter::parse("prefill,deco*@llm").expect("globs")));
        bits.fill(filter(), registry);
        let late = add(Kind::Text, b"decoder");
        bits.note(late, Kind::Text, b"decoder");
        let other = add(Kind::Text, b"load");
        bits.note(other, Kind::Text, b"load");
        let wanted = WindowFilter::new(filter().clone(), 1, bits);
        // The bits in the handle are those of another filter.
        let of = |number| wanted.globs_of(Handle::new(number, 1 << 5, false));
        assert_eq!([early, domain, late, other].map(of), [2, 3, 2, 0]);
        assert_eq!(of(u32::MAX), 0);
        assert_eq!(WindowFilter::of(&Options::default()).globs_of(Handle::new(early, 4, false)), 4);
    }

    fn taken(sampler: &Sampler, name: &str, instances: u64) -> Vec<u64> {
        (1..=instances).filter(|_| sampler.take(kind_key(name.as_bytes(), 0, 0))).collect()
    }

    #[test]
    fn one_of_every_block_is_taken_the_second_first_and_never_always_at_the_same_place() {
        let sampler = Sampler::new(16);
        let mut instance = 0;
        let taken: Vec<u64> = std::iter::from_fn(|| {
            instance += 1;
            Some((instance, sampler.take(kind_key(b"step", 0, 0))))
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
        let numbered =
            (0..400).filter(|i| sampler.take(kind_key(format!("step {i}").as_bytes(), 0, 0)));
        assert_eq!(numbered.count(), 100);
        assert_ne!(kind_key(b"a", 0, 0), kind_key(b"a", 0, 1));
        assert_ne!(kind_key(b"", 1, 0), kind_key(b"", 2, 0));
    }

    #[test]
    fn more_kinds_than_counters_share_them_and_still_are_sampled() {
        let sampler = Sampler::new(2);
        let names: Vec<String> =
            (0..4 * KINDS).map(|i| "x".repeat(i % 64) + &"y".repeat(i / 64)).collect();
        let taken =
            (0..10).flat_map(|_| &names).filter(|n| sampler.take(kind_key(n.as_bytes(), 0, 0)));
        let share = taken.count() as f64 / (10 * names.len()) as f64;
        assert!((0.45..0.55).contains(&share), "{share}");
    }

    #[test]
    fn one_in_one_takes_everything() {
        let sampler = Sampler::new(1);
        assert!((0..10).all(|_| sampler.take(7)));
    }
}
