//! Samples of the host -> the share of the time that they represent, and its standard error.

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
