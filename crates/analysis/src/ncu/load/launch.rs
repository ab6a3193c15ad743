//! The first columns of a record -> which launch it is about.

use std::collections::{BTreeMap, BTreeSet};

use crate::ncu::nvtx::{self, Label};
use stage2_text as text;

use super::pages::Page;
use super::rules::Rule;

/// A value in its base unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit: `ns`, `byte`, `byte/s`, `hz`, `%`, `inst`, ...; empty: none.
    pub unit: String,
}

/// One profiled launch, or one profiled range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Number in the report.
    pub id: u64,
    /// Process that launched it.
    pub process_id: u64,
    /// Its name.
    pub process_name: String,
    /// Name as it is printed: mangled where the report was imported so. Of a range: `range`.
    pub kernel: String,
    /// Grid.
    pub grid: [u32; 3],
    /// Block.
    pub block: [u32; 3],
    /// Index of the device.
    pub device: u32,
    /// CUDA context.
    pub context: Option<u64>,
    /// CUDA stream.
    pub stream: Option<u64>,
    /// Compute capability: `(9, 0)`.
    pub compute_capability: Option<(u32, u32)>,
    /// Push/pop ranges that were open, the outermost first.
    pub ranges: Vec<Label>,
    /// Start/end ranges that were open in the process.
    pub start_end_ranges: Vec<Label>,
    /// Metrics by name.
    pub metrics: BTreeMap<String, Quantity>,
    /// What the rules of ncu say of it.
    pub rules: Vec<Rule>,
}

impl Launch {
    /// Whether this is the result of a range replay, and no kernel.
    pub fn is_range(&self) -> bool {
        self.kernel == "range" && self.grid == [0; 3]
    }

    /// Ranges of which one may be the outermost: ncu gives no order between domains, nor between
    /// push/pop and start/end ranges. Empty: it knows of none.
    pub fn outermost(&self) -> BTreeSet<Label> {
        let mut domains = BTreeSet::new();
        let first = self.ranges.iter().filter(|label| domains.insert(label.domain.as_deref()));
        first.chain(&self.start_end_ranges).cloned().collect()
    }
}

/// Where the columns of a launch are.
pub(super) struct LaunchColumns {
    id: usize,
    process_id: usize,
    process_name: Option<usize>,
    kernel: usize,
    grid: Option<usize>,
    block: Option<usize>,
    device: Option<usize>,
    context: Option<usize>,
    stream: Option<usize>,
    capability: Option<usize>,
    push_pop: Option<usize>,
    start_end: Option<usize>,
}

impl LaunchColumns {
    /// Finds them; nothing where one is missing without which there is no launch.
    pub(super) fn of<R: std::io::Read>(page: &Page<'_, R>) -> Option<LaunchColumns> {
        Some(LaunchColumns {
            id: page.column("ID")?,
            process_id: page.column("Process ID")?,
            process_name: page.column("Process Name"),
            kernel: page.column("Kernel Name")?,
            grid: page.column("Grid Size"),
            block: page.column("Block Size"),
            device: page.column("Device"),
            context: page.column("Context"),
            stream: page.column("Stream"),
            capability: page.column("CC"),
            push_pop: page.header.iter().position(|name| name.contains(":Push/Pop_Range:")),
            start_end: page.header.iter().position(|name| name.contains(":Start/Stop_Range:")),
        })
    }

    /// Reads them; nothing where the record is about no launch (the row of units is none).
    pub(super) fn read(&self, record: &csv::StringRecord) -> Option<Launch> {
        let cell = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or_default().trim();
        let text = |at: Option<usize>| text::visible(cell(at).as_bytes());
        Some(Launch {
            id: cell(Some(self.id)).parse().ok()?,
            process_id: cell(Some(self.process_id)).parse().ok()?,
            process_name: text(self.process_name),
            kernel: text(Some(self.kernel)),
            grid: dimensions(cell(self.grid)),
            block: dimensions(cell(self.block)),
            device: cell(self.device).parse().unwrap_or(0),
            context: cell(self.context).parse().ok(),
            stream: cell(self.stream).parse().ok(),
            compute_capability: capability(cell(self.capability)),
            ranges: nvtx::stack(cell(self.push_pop)),
            start_end_ranges: nvtx::stack(cell(self.start_end)),
            metrics: BTreeMap::new(),
            rules: Vec::new(),
        })
    }

    /// Place of the last of these columns: metrics stand behind it.
    pub(super) fn last(&self) -> usize {
        [
            self.grid,
            self.block,
            self.device,
            self.context,
            self.stream,
            self.capability,
            self.push_pop,
            self.start_end,
        ]
        .into_iter()
        .flatten()
        .chain([self.id, self.process_id, self.kernel])
        .max()
        .unwrap_or(0)
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

fn capability(cell: &str) -> Option<(u32, u32)> {
    let (major, minor) = cell.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
