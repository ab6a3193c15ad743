//! Captures that are read side by side -> how much each of them may keep one by one.
//!
//! Limits of a trace file hold for one file at a time. An export of nsys has all processes in one
//! file, and all of them are held until it ends: together they take no more than one trace file does.

use stage2_contract::stats::Unions;

/// Of a limit of a trace file, the smallest part that a capture gets.
const LEAST: usize = 64;
/// The shares of all captures add up to less than one: the harmonic numbers grow slowly.
const FIRST: usize = 8;

/// The part of the limits of a trace file that belongs to one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(usize);

impl Default for Share {
    fn default() -> Self {
        Self(1)
    }
}

impl Share {
    /// That of the capture `number`, counted from 0: the first ones, which most exports end with, get
    /// the most.
    pub fn of_several(number: usize) -> Self {
        Self(number.saturating_add(1).saturating_mul(FIRST))
    }

    /// How much of `limit` it is.
    pub fn of(self, limit: usize) -> usize {
        (limit / self.0).max(LEAST.min(limit))
    }

    /// Unions of intervals that keep so much.
    pub fn unions(self) -> Unions {
        Unions::with_limits(self.of(Unions::BATCH), self.of(Unions::WINDOW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hazard (Hostile files): An nsys export of a thousand processes, each of which may keep as
    ///  much as a whole file.
    /// Promise: They share what one trace file may keep, and all of it is below 512 MiB.
    #[test]
    fn a_thousand_captures_keep_hardly_more_than_one_file() {
        let limit = 1 << 20;
        assert_eq!(Share::default().of(limit), limit);
        let all: usize = (0..1024).map(|number| Share::of_several(number).of(limit)).sum();
        assert!((limit / 2..limit).contains(&all), "{all}");
        assert_eq!(Share::of_several(usize::MAX).of(limit), LEAST);
        assert_eq!(Share::of_several(9).of(10), 10);
    }
}
