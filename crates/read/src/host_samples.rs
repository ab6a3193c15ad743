//! What is kept of samples of the host: sums with the standard error of a share, the threads that they are of, and
//! their times, by which the steps of a late rank are compared.

use rustc_hash::FxHashMap;

use crate::trace::host::Cause;

/// A number of samples and the time that they represent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Samples.
    pub samples: u64,
    /// The time, ns.
    pub ns: u64,
    /// The sum of the squares of their times, for the standard error of a share.
    pub squares: f64,
}

impl Sum {
    /// Adds a sample that represents `ns`.
    pub fn push(&mut self, ns: u64) {
        self.add(&Self { samples: 1, ns, squares: (ns as f64).powi(2) });
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.ns = self.ns.saturating_add(other.ns);
        self.squares += other.squares;
    }

    /// Its share of `all` and the standard error of that, percent.
    pub fn percent_of(&self, all: &Self) -> (f64, f64) {
        if all.ns == 0 {
            return (0.0, 0.0);
        }
        let whole = all.ns as f64;
        let part = (self.ns as f64 / whole).min(1.0);
        // Each sample has its own weight (the time that it represents). The samples of the cause deviate from
        // the share p by 1 - p, and the others by p.
        let others = (all.squares - self.squares).max(0.0);
        let variance = self.squares * (1.0 - part).powi(2) + others * part.powi(2);
        (part * 100.0, variance.sqrt() / whole * 100.0)
    }
}

/// The most numbers of threads, unless another limit is set.
pub(crate) const THREADS: usize = 1 << 16;

/// A thread may have two numbers, one from before it launched. Here they are one: the first.
#[derive(Debug)]
pub struct ThreadNumbers {
    numbers: FxHashMap<u32, u32>,
    /// The number of each thread ID.
    by_tid: FxHashMap<u32, u32>,
    most: usize,
}

impl Default for ThreadNumbers {
    fn default() -> Self {
        Self::with_limit(THREADS)
    }
}

impl ThreadNumbers {
    /// Keeps at most so many numbers.
    pub fn with_limit(most: usize) -> Self {
        Self { numbers: FxHashMap::default(), by_tid: FxHashMap::default(), most }
    }

    /// Adds a number with its thread ID (0: not known). Returns the number that stands for both; `None` if there is
    /// no room.
    pub fn add(&mut self, id: u32, os_tid: u32) -> Option<u32> {
        if self.numbers.len() >= self.most && !self.numbers.contains_key(&id) {
            return None;
        }
        let number = if os_tid == 0 { id } else { *self.by_tid.entry(os_tid).or_insert(id) };
        self.numbers.insert(id, number);
        Some(number)
    }

    /// Returns the number that stands for a number.
    pub fn get(&self, thread: u32) -> u32 {
        self.numbers.get(&thread).copied().unwrap_or(thread)
    }
}

/// The most samples of a stage of a process whose times are kept; of more, every second one stands for two, and so on.
/// A report keeps those of all ranks: 100 kB for each stage of a rank.
const MOMENTS: usize = 1 << 12;

/// A sample of a launching thread.
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
pub(crate) struct Moments {
    pub(crate) all: Vec<Moment>,
    pub(crate) causes: Vec<Cause>,
    known: FxHashMap<Cause, u32>,
    /// One of so many is kept, by a power of two.
    halvings: u32,
    seen: u64,
}

impl Moments {
    /// Adds a sample that stands for `interval_ns`.
    pub(crate) fn push(&mut self, at: u64, interval_ns: u64, cause: Cause) {
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
