//! How many instances of a range there were, and how many of them were recorded -> the factor from
//! what was recorded to what happened.

/// Instances of one path that `STAGE2_SAMPLE` chose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// All of them.
    pub instances: u64,
    /// Those of them that were recorded.
    pub recorded: u64,
}

impl Sampled {
    /// Whether the work of some instances is missing, and can be estimated from the others.
    pub fn is_part(self) -> bool {
        self.recorded > 0 && self.recorded < self.instances
    }

    /// The estimate for all instances from the sum over the recorded ones, rounded.
    pub fn scale(self, recorded: u64) -> u64 {
        if !self.is_part() {
            return recorded;
        }
        let (instances, of) = (u128::from(self.instances), u128::from(self.recorded));
        let scaled = (u128::from(recorded) * instances + of / 2) / of;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// One of so many of one of so many.
    pub fn times(self, other: Self) -> Self {
        match (self.is_part(), other.is_part()) {
            (true, true) => Self {
                instances: self.instances.saturating_mul(other.instances),
                recorded: self.recorded.saturating_mul(other.recorded),
            },
            (true, false) => self,
            (false, _) => other,
        }
    }

    /// Adds the instances of another process, and those of them that were recorded.
    pub fn add(&mut self, other: Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.recorded = self.recorded.saturating_add(other.recorded);
    }
}

/// A sum of recorded figures, each scaled to all instances of its path: rounded once, at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// In units of 2^-32.
    sum: u128,
}

impl Estimate {
    /// Adds what was recorded in instances of which `sampled` tells how many stand for how many.
    pub fn add(&mut self, recorded: u64, sampled: Sampled) {
        let (instances, of) = match sampled.is_part() {
            true => (u128::from(sampled.instances), u128::from(sampled.recorded)),
            false => (1, 1),
        };
        let scaled = u128::from(recorded) * instances;
        let whole = (scaled / of).min(u128::from(u64::MAX));
        self.sum = self.sum.saturating_add((whole << 32) + ((scaled % of) << 32) / of);
    }

    /// The sum of two estimates.
    pub fn plus(self, other: Self) -> Self {
        Self { sum: self.sum.saturating_add(other.sum) }
    }

    /// The estimate, rounded.
    pub fn get(self) -> u64 {
        u64::try_from(self.sum.saturating_add(1 << 31) >> 32).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_rounded_once() {
        let mut sum = Estimate::default();
        (0..6).for_each(|_| sum.add(1, Sampled { instances: 16, recorded: 3 }));
        assert_eq!(sum.get(), 32, "six times 5.33, and not six times 5");
        sum.add(u64::MAX, Sampled { instances: u64::MAX, recorded: 1 });
        assert_eq!(sum.get(), u64::MAX);
        let mut whole = Estimate::default();
        whole.add(u64::MAX, Sampled::default());
        assert_eq!(whole.get(), u64::MAX);
    }

    #[test]
    fn sums_are_scaled_and_nothing_is_made_up() {
        let sampled = Sampled { instances: 64, recorded: 4 };
        assert_eq!(sampled.scale(28), 448);
        assert_eq!(Sampled { instances: 17, recorded: 2 }.scale(3), 26);
        assert_eq!(sampled.scale(u64::MAX), u64::MAX);
        for whole in [Sampled::default(), Sampled { instances: 5, recorded: 0 }] {
            assert_eq!(whole.scale(7), 7);
        }
        // A damaged file may say anything.
        assert_eq!(Sampled { instances: 1, recorded: 9 }.scale(7), 7);
    }
}
