//! What a window is to record: a filter of ranges and a choice of instances, read by guest threads at
//! each push.
//!
//! Handles carry the bits of the filter of the environment. A window with a filter of its own looks the
//! bits up by the number of the registration instead, in a table ([`Bits`]) that is filled before the
//! window begins and goes on with each registration.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, fence};

use crate::base::glob::RangeFilter;
use crate::base::options::Options;
use crate::guest::handle::Handle;
use crate::guest::registry::{Kind, Lookup, MAX_ENTRIES, Registry};
use crate::guest::sample::Sampler;

/// A filter and a choice.
pub struct WindowFilter {
    /// The ranges that are recorded.
    pub ranges: RangeFilter,
    /// One in so many instances.
    pub sample: u32,
    /// Chooses the instances.
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
    pub fn is_restricted(&self) -> bool {
        self.is_sampled() || !self.ranges.is_everything()
    }

    /// Not every instance of a range is collected.
    pub fn is_sampled(&self) -> bool {
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

impl Bits {
    /// No filter yet. Allocates 256 KiB.
    pub fn new() -> Self {
        let of = (0..=MAX_ENTRIES).map(|_| AtomicU32::new(0)).collect();
        Bits { of, filter: AtomicPtr::default() }
    }

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

impl Default for Bits {
    fn default() -> Self {
        Self::new()
    }
}

fn bits_of(filter: &RangeFilter, kind: Kind, text: &[u8]) -> u32 {
    match kind {
        Kind::Domain => filter.match_domain(text),
        _ => filter.match_name(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_a_window_knows_what_was_registered_before_and_since() {
        let registry: &Registry = Box::leak(Box::new(Registry::empty()));
        let bits: &Bits = Box::leak(Box::new(Bits::new()));
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
}
