//! How far an nsys capture can be believed beside the collector.

use serde::{Deserialize, Serialize};

use crate::{Finding, Severity};

/// How far the capture can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Belief {
    /// The same kernels as often, and times within bounds.
    Agrees,
    /// Not the same, but within bounds.
    WithinBounds,
    /// Kernels are missing: not to be believed.
    Lossy,
    /// More kernels than the collector saw, or times out of bounds: not to be believed together.
    Differs,
    /// There is nothing to compare with, or the two count different things.
    NotComparable,
}

impl Belief {
    /// Whether numbers of nsys may stand beside the collector's.
    pub fn usable(self) -> bool {
        matches!(self, Belief::Agrees | Belief::WithinBounds)
    }
}

/// Counts and times of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides {
    /// Kernels that the collector counted; scaled where it saw more instances than nsys.
    pub collector_calls: u64,
    /// Kernels that nsys counted.
    pub nsys_calls: u64,
    /// Sum of their durations by the collector, ns; scaled alike.
    pub collector_ns: u64,
    /// Sum of their durations by nsys, ns.
    pub nsys_ns: u64,
}

impl Sides {
    /// nsys's count less the collector's.
    pub fn calls_difference(&self) -> i128 {
        i128::from(self.nsys_calls) - i128::from(self.collector_calls)
    }

    /// nsys's time less the collector's, ns.
    pub fn ns_difference(&self) -> i128 {
        i128::from(self.nsys_ns) - i128::from(self.collector_ns)
    }

    /// The difference of the counts, percent of the collector's; none where that is zero.
    pub fn calls_percent(&self) -> Option<f64> {
        share(self.calls_difference(), self.collector_calls)
    }

    /// The difference of the times, percent of the collector's; none where that is zero.
    pub fn ns_percent(&self) -> Option<f64> {
        share(self.ns_difference(), self.collector_ns)
    }

    /// Adds those of another kernel.
    pub fn add(&mut self, other: &Sides) {
        for (sum, more) in [
            (&mut self.collector_calls, other.collector_calls),
            (&mut self.nsys_calls, other.nsys_calls),
            (&mut self.collector_ns, other.collector_ns),
            (&mut self.nsys_ns, other.nsys_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// One kernel on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSides {
    /// Its mangled name.
    pub mangled: String,
    /// Its counts and times.
    pub sides: Sides,
}

/// What came of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// What was compared.
    pub scope: String,
    /// How far the capture can be believed.
    pub belief: Belief,
    /// The collector's numbers were scaled from so many instances to so many.
    pub scaled: Option<(u64, u64)>,
    /// All kernels.
    pub overall: Sides,
    /// Every kernel, largest difference of counts first, then of times.
    pub kernels: Vec<KernelSides>,
    /// Kernels that only the collector saw.
    pub missing_in_nsys: u64,
    /// Kernels that only nsys saw.
    pub missing_in_collector: u64,
    /// In one line, with the numbers.
    pub text: String,
}

impl Reconciliation {
    /// What to tell; nothing where both agree.
    pub fn finding(&self) -> Option<Finding> {
        let (severity, why, remedy) = match self.belief {
            Belief::Agrees => return None,
            Belief::WithinBounds => {
                (Severity::Note, "two runs of one workload need not be equal", "")
            }
            Belief::Lossy => (
                Severity::Warning,
                "its numbers are in no other table",
                "use an nsys as new as the driver (nsys/log.txt may say what it did not know), or \
                 capture less (profiling/nsys=nsys.gated)",
            ),
            Belief::Differs => (
                Severity::Warning,
                "the two runs were not alike, or one tool is wrong; its numbers are in no other table",
                "make the workload do the same in every run (seeds, token counts), and run again",
            ),
            Belief::NotComparable => (Severity::Note, "its numbers are in no other table", ""),
        };
        Some(Finding::new(severity, self.text.clone(), why, remedy))
    }
}

fn share(difference: i128, whole: u64) -> Option<f64> {
    (whole > 0).then(|| difference as f64 * 100.0 / whole as f64)
}
