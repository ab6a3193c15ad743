//! Samples of idle time of the host, with their times: what the steps of a late rank are compared by.

use rustc_hash::FxHashMap;

use super::host::Cause;

/// The most samples of a stage of a process whose times are kept; of more, every second one stands for two, and so on.
/// A report keeps those of all ranks: 100 kB for each stage of a rank.
const MOMENTS: usize = 1 << 12;

/// A sample while no work of the stage ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// On the monotonic clock, ns.
    pub at: u64,
    /// The time that it stands for, ns.
    pub ns: u64,
    /// Index of what the thread did.
    pub cause: u32,
}

/// Samples of a stage with their times.
#[derive(Debug, Default)]
pub(super) struct Moments {
    pub(super) all: Vec<Moment>,
    pub(super) causes: Vec<Cause>,
    known: FxHashMap<Cause, u32>,
    /// One of so many is kept, by a power of two.
    halvings: u32,
    seen: u64,
}

impl Moments {
    /// Adds a sample that stands for `interval_ns`.
    pub(super) fn push(&mut self, at: u64, interval_ns: u64, cause: Cause) {
        self.seen += 1;
        if !self.seen.is_multiple_of(1 << self.halvings) {
            return;
        }
        let next = self.causes.len() as u32;
        let number = *self.known.entry(cause).or_insert(next);
        if number == next {
            self.causes.push(cause);
        }
        let ns = interval_ns.saturating_mul(1 << self.halvings);
        self.all.push(Moment { at, ns, cause: number });
        if self.all.len() >= MOMENTS {
            self.halvings += 1;
            let mut number = 0;
            self.all.retain_mut(|moment| {
                number += 1;
                moment.ns = moment.ns.saturating_mul(2);
                number % 2 == 0
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_end_take_bounded_space_and_stand_for_all_time() {
        let mut moments = Moments::default();
        let all = MOMENTS as u64 * 3;
        (0..all).for_each(|at| moments.push(at, 5, Cause::default()));
        assert!(moments.all.len() < MOMENTS && moments.causes.len() == 1);
        let ns: u64 = moments.all.iter().map(|moment| moment.ns).sum();
        assert_eq!(ns, all * 5);
    }
}
