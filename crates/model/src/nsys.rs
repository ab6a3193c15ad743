//! What captures of Nsight Systems hold, and what came of them.

use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Id, Severity};

/// What kind of files were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `nsys export --type sqlite`. Ranges are the outermost of their thread, without libraries'.
    #[default]
    Sqlite,
    /// `nsys stats --format csv`. Ranges of any depth, each with the kernels of those inside it.
    Csv,
}

/// What was read, and what of it could not be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Number of kernels.
    pub kernels: u64,
    /// Sum of their durations, ns.
    pub kernel_total_ns: u64,
    /// Kernels without valid times.
    pub untimed: u64,
    /// Kernels launched in a range.
    pub in_ranges: u64,
    /// Kernels launched while no range was open.
    pub outside_ranges: u64,
    /// Kernels whose launch is not in the file: in no range.
    pub without_launch: u64,
    /// CUDA graphs that were recorded as a whole: their kernels are in no other number.
    pub graph_launches: u64,
    /// Time of those, ns.
    pub graph_total_ns: u64,
    /// Calls of the CUDA API.
    pub api_calls: u64,
    /// Calls of the CUDA API that are missing from the sequence in which CUPTI numbers them, where
    /// so many are missing together that records must have been lost; else 0. About.
    #[serde(default)]
    pub call_numbers_missing: u64,
    /// Of these, calls that launch a kernel or a graph; counted only where there are no kernels.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub launch_calls: u64,
    /// NVTX ranges, of any depth.
    pub nvtx_ranges: u64,
    /// NVTX ranges that began on one thread and ended on another: taken for the first.
    pub cross_thread_ranges: u64,
    /// Rows that could not be used.
    pub odd_rows: u64,
}

/// What came of the Nsight Systems capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NsysSection {
    /// Version that wrote the first capture, if the capture states it.
    pub tool_version: Option<String>,
    /// Counts against the collector's, of each capture: each stage that both saw, then the whole run.
    /// Empty where the collector recorded no kernel.
    pub reconciliations: Vec<Reconciliation>,
    /// Host times of its NVTX ranges.
    #[serde(default)]
    pub ranges: Vec<NsysRangeRow>,
    /// The captures.
    #[serde(default)]
    pub captures: Vec<NsysCapture>,
}

impl NsysSection {
    /// Why no range of the capture is in the rows, where the workload may have opened some. `alone`:
    /// there are no rows, and nothing of the collector.
    pub(crate) fn no_range(&self, alone: bool) -> Option<&'static str> {
        let rows = self.captures.iter().find(|capture| capture.gives_rows);
        match (rows.map(|capture| capture.kind), self.ranges.is_empty()) {
            (Some(Source::Csv), false) => Some(
                "the CSV tables of nsys do not say which range is outermost; its SQLite export does",
            ),
            (Some(Source::Csv), true) => {
                Some("the CSV tables of nsys that were given have no ranges")
            }
            (None, false) if alone => Some("the capture of nsys has ranges, but no GPU work"),
            _ => None,
        }
    }

    /// Whether every comparison lets its numbers stand next to the collector's.
    pub fn believed(&self) -> bool {
        !self.reconciliations.is_empty() && self.reconciliations.iter().all(|r| r.belief.usable())
    }
}

/// Host times of a range in the Nsight Systems capture; `warm`: without its cold first instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NsysRangeRow {
    /// Its name (`name@domain` outside of the default domain).
    pub range: String,
    /// Times that it was opened.
    pub instances: Option<u64>,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Closed instances without the first of each process; null: the capture does not say.
    pub host_warm_instances: Option<u64>,
    /// Sample standard deviation of their host time, ns.
    pub host_warm_std_ns: Option<u64>,
    /// Median host time without the first instance of each process, ns.
    pub host_warm_median_ns: Option<u64>,
}

/// A capture of Nsight Systems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NsysCapture {
    /// Files that were read, without their folder.
    pub files: Vec<String>,
    /// What they are.
    pub kind: Source,
    /// Version of nsys, if the files state it.
    pub tool_version: Option<String>,
    /// What was read.
    pub counts: Counts,
    /// Everything that was looked for was read to its end.
    pub complete: bool,
    /// Kernels without a mangled name, which can be compared with nothing.
    pub nameless_calls: u64,
    /// The rows of kernels hold its numbers: the collector has none.
    pub gives_rows: bool,
    /// What nsys itself says about it, in its words; what concerns GPU work comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why GPU work of a capture may belong to ranges that hold none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unplaced {
    /// The capture has no calls of the CUDA API at all.
    NoCalls,
    /// Calls that launched some of the work are missing.
    SomeCalls,
}

impl Unplaced {
    /// Why the GPU work of a range is not known, in one clause.
    pub fn label(self) -> &'static str {
        match self {
            Unplaced::NoCalls => "the file has no API calls",
            Unplaced::SomeCalls => "API calls that launched GPU work are not in the file",
        }
    }
}

/// How far the capture can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Belief {
    /// Nsight Systems has the collector's kernels, each as often, and times within bounds.
    Agrees,
    /// The counts of the kernels differ, but they and the times are within bounds.
    WithinBounds,
    /// Kernels are missing: not to be believed.
    Lossy,
    /// More kernels than the collector saw, or times out of bounds: not to be believed together.
    Differs,
    /// There is nothing to compare with, or the two count different things.
    NotComparable,
}

impl Belief {
    /// Whether numbers of nsys may stand next to the collector's.
    pub fn usable(self) -> bool {
        matches!(self, Belief::Agrees | Belief::WithinBounds)
    }
}

/// Counts and times of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelSides {
    /// Its mangled name.
    pub mangled: String,
    /// Its counts and times.
    pub sides: Sides,
}

/// What came of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        Some(Id::NsysDiffers.graded(severity, self.text.clone(), why, remedy))
    }
}

fn share(difference: i128, whole: u64) -> Option<f64> {
    (whole > 0).then(|| difference as f64 * 100.0 / whole as f64)
}
