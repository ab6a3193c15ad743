//! How many instances of a range there were, and how many of them were recorded -> the factor from
//! what was recorded to what happened.

/// Instances of one path that `STAGE2_SAMPLE` chose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Instances.
    pub instances: u64,
    /// Recorded ones.
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

    /// Both, of another process too.
    pub fn add(&mut self, other: Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.recorded = self.recorded.saturating_add(other.recorded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
