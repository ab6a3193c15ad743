//! The first columns of a record -> which launch it is about.

use std::collections::{BTreeMap, BTreeSet};

use crate::ncu::nvtx::{self, Label};
use stage2_contract::text;

use super::pages::Form;
use super::quantity::Quantity;
use stage2_model::RuleRow;

/// One profiled launch, or one profiled range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Number in the report.
    pub id: u64,
    /// Process that launched it.
    pub process_id: u64,
    /// Name as it is printed: mangled where the report was imported so. Of a range: `range`.
    pub kernel: String,
    /// Grid.
    pub grid: [u32; 3],
    /// Block.
    pub block: [u32; 3],
    /// Index of the device.
    pub device: u32,
    /// Push/pop ranges that were open, the outermost first.
    pub ranges: Vec<Label>,
    /// Start/end ranges that were open in the process.
    pub start_end_ranges: Vec<Label>,
    /// Metrics by name.
    pub metrics: BTreeMap<String, Quantity>,
    /// What the rules of ncu say of it.
    pub rules: Vec<RuleRow>,
    /// How many launches this is the mean of, in a summary; none: it is one.
    pub invocations: Option<u64>,
    /// Duration of the shortest and of the longest of these, ns.
    pub duration_ends_ns: Option<(f64, f64)>,
}

/// Durations of a launch under ncu, the best first. A launch is one range of time on one GPU, so that
/// all of them are the same.
pub(super) const DURATIONS: &[&str] = &[
    "gpu__time_duration.sum",
    "gpu__time_duration.avg",
    "gpu__time_duration.max",
    "gpu__time_duration.min",
];
/// 0 is none, and no kernel runs for a day.
pub(super) const DURATION_NS: std::ops::RangeInclusive<f64> = 1.0..=86_400e9;

impl Launch {
    /// Whether this is the result of a range replay, and no kernel.
    pub fn is_range(&self) -> bool {
        self.kernel == "range" && self.grid == [0; 3]
    }

    /// How many launches it stands for.
    pub fn count(&self) -> u64 {
        self.invocations.unwrap_or(1)
    }

    /// Duration under ncu, ns; nothing where it was not measured, or cannot be.
    pub fn duration_ns(&self) -> Option<f64> {
        let measured = DURATIONS.iter().find_map(|name| self.metrics.get(*name))?;
        (measured.unit == "ns" && DURATION_NS.contains(&measured.value)).then_some(measured.value)
    }

    /// Whether what another page tells under the same number can be of the same launch. Pages of one
    /// report may have mangled names on the one and demangled ones on the other.
    pub(super) fn may_be(&self, other: &Launch) -> bool {
        let demangled = |name: &str| name.contains(['(', '<', ' ']);
        let shape =
            |one: [u32; 3], other: [u32; 3]| one == other || one == [0; 3] || other == [0; 3];
        let named =
            self.kernel == other.kernel || demangled(&self.kernel) != demangled(&other.kernel);
        named && shape(self.grid, other.grid) && shape(self.block, other.block)
    }

    /// Bytes of its texts, but for those of its rules.
    pub(super) fn text_bytes(&self) -> usize {
        let labels = self.ranges.iter().chain(&self.start_end_ranges);
        let label =
            |l: &Label| l.name.len() + l.domain.as_ref().map_or(0, String::len) + LABEL_BYTES;
        self.kernel.len() + labels.map(label).sum::<usize>()
    }

    /// Ranges of which one may be the outermost: ncu gives no order between domains, nor between
    /// push/pop and start/end ranges. Empty: it knows of none.
    pub fn outermost(&self) -> BTreeSet<Label> {
        let mut domains = BTreeSet::new();
        let first = self.ranges.iter().filter(|label| domains.insert(label.domain.as_deref()));
        first.chain(&self.start_end_ranges).cloned().collect()
    }
}

/// What a range takes besides its texts.
const LABEL_BYTES: usize = size_of::<Label>();

/// Columns that describe the launch, besides those of its ranges; metrics stand behind them.
const OF_THE_LAUNCH: [&str; 10] = [
    "ID",
    "Process ID",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Invocations",
];

/// Where the columns of a launch are.
pub(super) struct LaunchColumns {
    /// None in a summary.
    id: Option<usize>,
    process_id: usize,
    kernel: usize,
    grid: Option<usize>,
    block: Option<usize>,
    device: Option<usize>,
    push_pop: Option<usize>,
    start_end: Option<usize>,
    /// The first column of a metric.
    pub(super) metrics: usize,
}

impl LaunchColumns {
    /// Finds them; nothing where one is missing without which there is no launch.
    pub(super) fn of(form: &Form) -> Option<LaunchColumns> {
        let ranges = |kind: &str| form.names.iter().position(|name| name.contains(kind));
        let push_pop = ranges(":Push/Pop_Range:");
        let start_end = ranges(":Start/Stop_Range:");
        let known = OF_THE_LAUNCH.iter().filter_map(|name| form.column(name));
        Some(LaunchColumns {
            id: form.column("ID"),
            process_id: form.column("Process ID")?,
            kernel: form.column("Kernel Name")?,
            grid: form.column("Grid Size"),
            block: form.column("Block Size"),
            device: form.column("Device"),
            metrics: known.chain(push_pop).chain(start_end).max()? + 1,
            push_pop,
            start_end,
        })
    }

    /// Whether the cells are empty that name a launch: those of the row of units are.
    pub(super) fn is_empty(&self, record: &csv::StringRecord) -> bool {
        let mut cells = self.id.into_iter().chain([self.process_id, self.kernel]);
        cells.all(|at| record.get(at).is_none_or(|cell| cell.trim().is_empty()))
    }

    /// Reads them; nothing where the record is about no launch.
    pub(super) fn read(&self, record: &csv::StringRecord) -> Option<Launch> {
        let cell = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or_default().trim();
        Some(Launch {
            id: self.id.map_or(Some(0), |id| cell(Some(id)).parse().ok())?,
            process_id: cell(Some(self.process_id)).parse().ok()?,
            kernel: text::visible(cell(Some(self.kernel)).as_bytes()),
            grid: dimensions(cell(self.grid)),
            block: dimensions(cell(self.block)),
            device: cell(self.device).parse().unwrap_or(0),
            ranges: nvtx::stack(cell(self.push_pop)),
            start_end_ranges: nvtx::stack(cell(self.start_end)),
            ..Launch::default()
        })
    }
}

/// `(16, 1, 1)`; zeros where it is none, as of a range.
fn dimensions(cell: &str) -> [u32; 3] {
    let mut numbers = cell
        .trim_matches(|c| c == '(' || c == ')')
        .split(',')
        .map(|part| part.trim().parse::<u32>().ok());
    let mut next = || numbers.next().flatten();
    match (next(), next(), next()) {
        (Some(x), Some(y), Some(z)) => [x, y, z],
        _ => [0; 3],
    }
}
