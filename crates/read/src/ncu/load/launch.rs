//! The first columns of a record -> which launch it is about.

use std::collections::{BTreeMap, BTreeSet};

use stage2_contract::text;
use stage2_model::RuleRow;

use super::pages::Form;
use crate::ncu::nvtx::{self, Label};
use crate::numbers::Reading;

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

    /// Bytes of its texts, except for those of its rules.
    pub(super) fn text_bytes(&self) -> usize {
        let labels = self.ranges.iter().chain(&self.start_end_ranges);
        let label = |l: &Label| {
            l.name.len() + l.domain.as_ref().map_or(0, String::len) + size_of::<Label>()
        };
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
    let parts = cell.trim_matches(['(', ')']).split(',');
    let numbers: Vec<u32> = parts.take(3).map_while(|part| part.trim().parse().ok()).collect();
    numbers.first_chunk().copied().unwrap_or_default()
}

/// A value in its base unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit: `ns`, `byte`, `byte/s`, `hz`, `%`, `inst/cycle`, ...; empty: none.
    pub unit: String,
}

/// What a cell says: also `(!) nan`, which ncu marks so, and `10,000 (4,000; 6,000)`, with the value of
/// each instance behind that of all.
pub(super) fn reading(cell: &str) -> Reading {
    let cell = cell.trim();
    let cell = cell.strip_prefix("(!)").map_or(cell, str::trim_start);
    if !cell.contains(['(', '"']) {
        return Reading::of(cell);
    }
    // Behind a quote stands what a program printed into the same line.
    let cell = cell.split('"').next().unwrap_or_default();
    let of_all = cell.split_once(" (").filter(|_| cell.trim_end().ends_with(')'));
    Reading::of(of_all.map_or(cell, |(of_all, _)| of_all))
}

/// The factor to the base unit, and its name. An unknown unit is its own base unit.
///
/// ncu scales to what reads well (`us`, `Gbyte/s`, `Ghz`), writes units out or short by version
/// (`usecond`, `us`), and rates over any time (`byte/second`, `cycle/nsecond`).
pub(super) fn base(unit: &str) -> (f64, String) {
    let unit = unit.trim();
    let mut parts = unit.split('/');
    let top = parts.next().unwrap_or_default();
    let (mut factor, mut name) = part(top);
    for below in parts {
        let (scale, below) = part(below);
        // Time is counted in nanoseconds, rates are given by second.
        if below == "ns" {
            factor /= scale / 1e9;
            name.push_str("/s");
        } else {
            factor /= scale;
            name.push('/');
            name.push_str(&below);
        }
    }
    if name == "cycle/s" {
        name = "hz".to_owned();
    }
    (factor, name)
}

/// One part of a unit, without a slash.
fn part(text: &str) -> (f64, String) {
    let lower = text.to_ascii_lowercase();
    let time = match lower.as_str() {
        "ns" | "nsecond" | "nanosecond" => Some(1.0),
        "us" | "usecond" | "microsecond" => Some(1e3),
        "ms" | "msecond" | "millisecond" => Some(1e6),
        "s" | "sec" | "second" => Some(1e9),
        "min" | "minute" => Some(60e9),
        "hour" => Some(3600e9),
        _ => None,
    };
    if let Some(scale) = time {
        return (scale, "ns".to_owned());
    }
    // Decimal: 11.796480 Mbyte is the 11796480 bytes of the base unit.
    let scales = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12), ("p", 1e15)];
    for name in ["byte", "bit", "hz", "inst", "cycle", "sector", "request", "thread", "flop"] {
        let plain = lower.strip_suffix('s').filter(|_| name != "hz").unwrap_or(&lower);
        let Some(prefix) = plain.strip_suffix(name) else { continue };
        if prefix.is_empty() {
            return (1.0, name.to_owned());
        }
        if let Some((_, scale)) = scales.iter().find(|(known, _)| *known == prefix) {
            return (*scale, name.to_owned());
        }
    }
    (1.0, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Convention;

    #[test]
    fn units_lose_their_prefix_and_unknown_ones_stay() {
        for (units, factor, expected) in [
            ("ns nsecond", 1.0, "ns"),
            ("us usecond", 1e3, "ns"),
            ("ms msecond", 1e6, "ns"),
            ("s second", 1e9, "ns"),
            ("Kbyte", 1e3, "byte"),
            ("Mbyte", 1e6, "byte"),
            ("Gbyte/s byte/ns", 1e9, "byte/s"),
            ("Tbyte/second", 1e12, "byte/s"),
            ("byte/us", 1e6, "byte/s"),
            ("Kbyte/block", 1e3, "byte/block"),
            ("Kbyte/cycle", 1e3, "byte/cycle"),
            ("Ghz cycle/nsecond", 1e9, "hz"),
            ("Mhz", 1e6, "hz"),
            ("hz cycle/second", 1.0, "hz"),
        ] {
            for unit in units.split(' ') {
                let (found, name) = base(unit);
                assert_eq!(name, expected, "{unit}");
                assert!((found / factor - 1.0).abs() < 1e-12, "{unit}: {found}");
            }
        }
        for unit in "% inst inst/cycle register/thread warp block pass SM cycle ".split(' ') {
            assert_eq!(base(unit), (1.0, unit.to_owned()));
        }
    }

    #[test]
    fn numbers_are_read_as_ncu_prints_them() {
        for (cell, expected) in [
            ("5,843.25", Some(5843.25)),
            ("(!) 41.25", Some(41.25)),
            ("10,000.5 (4,000; 6,000.5)", Some(10_000.5)),
            ("1 (1; 2)", Some(1.0)),
            ("10.00\"tokens/s: 3\"", Some(10.0)),
            ("", None),
            ("n/a", None),
            ("(!) n/a", None),
            ("(128, 1, 1)", None),
            ("PolicySpread", None),
        ] {
            assert_eq!(reading(cell).by(Convention::Point), expected, "{cell}");
        }
        assert!(reading("(!) nan").by(Convention::Point).is_some_and(f64::is_nan));
    }
}
