//! The rows of one file of ncu -> its launches, each with the cells of its metrics.
//!
//! What a row belongs to is told by the numbers of launch and process, which are unique within one
//! report only: in a file of several ones a launch with a known number begins where the header stands
//! again, where the row names another kernel or host, or where the first metric comes again. What a
//! cell means is known at the end of the file, with its [`Convention`].

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use stage2_contract::text::shorten;
use stage2_model::finding::{Id, Severity};
use stage2_model::{Finding, RuleRow};

use super::counters::{self, MEMORY, SM, is_shown};
use super::launch::{DURATIONS, Launch, LaunchColumns, Quantity, base, reading};
use super::pages::Form;
use super::{MAX_LAUNCHES, MAX_RULES};
use crate::numbers::{Convention, Evidence, Reading};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Raw,
    Details,
    Summary,
}

#[derive(Clone, Debug)]
struct Cell {
    reading: Reading,
    /// What makes it one of the base unit.
    factor: f64,
    unit: String,
}

pub(super) struct Told {
    pub(super) kind: Kind,
    /// How many launches of this number the page had before.
    pub(super) occurrence: usize,
    pub(super) launch: Launch,
    cells: BTreeMap<String, Cell>,
    /// Section and name of the first metric.
    first: (String, String),
    /// Speedups that the rules of the launch estimate, percent.
    speedups: Vec<Reading>,
    /// Shortest and longest duration, of a summary.
    ends: Option<[Cell; 2]>,
}

enum Columns {
    /// A column for each metric.
    Raw {
        metrics: Vec<(usize, String)>,
        device_name: Option<usize>,
        /// Factor and base unit of each column; empty: no row of units was seen.
        units: Vec<(f64, String)>,
    },
    /// A row for each metric.
    Rows {
        section: usize,
        name: usize,
        unit: usize,
        value: usize,
        rule: Option<usize>,
        description: Option<usize>,
        speedup: Option<usize>,
        /// Invocations, least and greatest value, of a summary.
        summary: Option<[usize; 3]>,
    },
}

struct Table {
    kind: Kind,
    launch: LaunchColumns,
    columns: Columns,
    /// How many tables of this kind there were before.
    number: usize,
}

/// Columns that describe the machine and not the launch; hundreds of them stand in every row.
const OF_THE_MACHINE: &[&str] = &["device__", "numa__", "nvlink__", "c2clink__"];

/// More than this many percent is nothing that a counter shows.
const MOST_PERCENT: f64 = 1000.0;

#[derive(Default)]
pub(super) struct Sheet {
    table: Option<Table>,
    /// How many tables of each kind there were.
    tables: BTreeMap<Kind, usize>,
    told: Vec<Told>,
    /// Where the rows of a launch go, by kind, numbers and what else tells it apart.
    last: HashMap<Place, usize>,
    occurrences: HashMap<(Kind, u64, u64), usize>,
    evidence: Evidence,
    comma: Option<String>,
    rows: usize,
    rules_cut: usize,
    without_units: bool,
    /// Rows of launches beyond those that are kept.
    pub(super) refused: usize,
    pub(super) devices: BTreeMap<u32, String>,
}

impl Sheet {
    /// Reads a header. The error states why nothing below it can be used.
    pub(super) fn table(&mut self, form: &Form, file: &str) -> Result<(), Finding> {
        self.table = None;
        let lacks = |column: &str| match form.column("Invocations") {
            Some(_) => Id::NcuUnreadable.about(file).graded(
                Severity::Error,
                format!("{file} is a summary over launches that has no column {column:?}"),
                "of summaries, the details page of --print-summary per-kernel is read",
                "write that one, or the raw page without a summary",
            ),
            None => Id::NcuUnreadable.about(file).graded(
                Severity::Error,
                format!("{file} has no column {column:?}"),
                "it is not a table of ncu, or comes from a version that this program does not know",
                "import the report with ncu 2020.1 or later",
            ),
        };
        let launch = LaunchColumns::of(form).ok_or_else(|| lacks("Kernel Name"))?;
        let column = |name: &str| form.column(name).ok_or_else(|| lacks(name));
        let summary =
            form.column("Invocations").zip(form.column("Minimum")).zip(form.column("Maximum"));
        let summary = summary.map(|((count, least), most)| [count, least, most]);
        let (kind, columns) = if form.column("Metric Name").is_some() {
            let value = if summary.is_some() { "Average" } else { "Metric Value" };
            let columns = Columns::Rows {
                value: column(value)?,
                section: column("Section Name")?,
                name: column("Metric Name")?,
                unit: column("Metric Unit")?,
                rule: form.column("Rule Name"),
                description: form.column("Rule Description"),
                speedup: form.column("Estimated Speedup"),
                summary,
            };
            (if summary.is_some() { Kind::Summary } else { Kind::Details }, columns)
        } else {
            column("ID")?;
            let names = form.names.iter().enumerate().skip(launch.metrics);
            let of_launch = |name: &str| !OF_THE_MACHINE.iter().any(|unit| name.starts_with(unit));
            let metrics = names.filter(|(_, name)| of_launch(name));
            let columns = Columns::Raw {
                metrics: metrics.map(|(at, name)| (at, name.clone())).collect(),
                device_name: form.column("device__attribute_display_name"),
                units: Vec::new(),
            };
            (Kind::Raw, columns)
        };
        let tables = self.tables.entry(kind).or_default();
        *tables += 1;
        self.table = Some(Table { kind, launch, columns, number: *tables });
        Ok(())
    }

    /// Reads a row; states whether it is one.
    pub(super) fn row(
        &mut self,
        record: &csv::StringRecord,
        room: &mut Room,
        unread: &mut Unread,
    ) -> bool {
        let Some(mut table) = self.table.take() else { return true };
        let known = match &table.columns {
            Columns::Raw { .. } => self.raw_row(&mut table, record, room, unread),
            Columns::Rows { .. } => self.metric_row(&table, record, room, unread),
        };
        self.table = Some(table);
        known.is_some()
    }

    fn raw_row(
        &mut self,
        table: &mut Table,
        record: &csv::StringRecord,
        room: &mut Room,
        unread: &mut Unread,
    ) -> Option<()> {
        let Table {
            launch: columns, columns: Columns::Raw { metrics, device_name, units }, ..
        } = table
        else {
            return None;
        };
        let Some(launch) = columns.read(record) else {
            // The second row of the header; again before each report where several follow.
            return columns.is_empty(record).then(|| *units = record.iter().map(base).collect());
        };
        self.rows += 1;
        self.without_units |= units.is_empty();
        let mut cells = BTreeMap::new();
        for (at, name) in metrics.iter() {
            // Without units sizes and times cannot be told from scaled ones.
            let Some((factor, unit)) = units.get(*at) else { continue };
            let text = record.get(*at).unwrap_or_default();
            if let Some(reading) = self.cell(name, unit, text, &launch.kernel, unread) {
                cells.insert(name.clone(), Cell { reading, factor: *factor, unit: unit.clone() });
            }
        }
        if let Some(name) = device_name.and_then(|at| record.get(at)).filter(|n| !n.is_empty()) {
            let name = stage2_contract::text::visible(name.as_bytes());
            self.devices.entry(launch.device).or_insert(name);
        }
        if room.take(cells.len(), launch.text_bytes())
            && let Some(told) = self.place(key(table, record, &launch), launch, None)
        {
            told.cells = cells;
        }
        Some(())
    }

    fn metric_row(
        &mut self,
        table: &Table,
        record: &csv::StringRecord,
        room: &mut Room,
        unread: &mut Unread,
    ) -> Option<()> {
        let Columns::Rows { section, name, unit, value, rule, description, speedup, summary } =
            table.columns
        else {
            return None;
        };
        let mut launch = table.launch.read(record)?;
        let cell = |at: usize| record.get(at).unwrap_or_default().trim();
        if let Some([invocations, ..]) = summary {
            launch.invocations = Some(whole(reading(cell(invocations)))?);
        }
        self.rows += 1;
        let [rule, description, speedup] =
            [rule, description, speedup].map(|at| at.map_or("", cell));
        let metric = (cell(section), cell(name));
        let (factor, base_unit) = base(cell(unit));
        let raw = raw_name(metric.0, metric.1, &base_unit);
        if is_unknown(metric.0, metric.1, &base_unit) {
            unread.name(metric.0, metric.1);
        }
        let number = |this: &mut Self, text: &str, unread: &mut Unread| {
            let reading = this.cell(&raw, &base_unit, text, &launch.kernel, unread)?;
            Some(Cell { reading, factor, unit: base_unit.clone() })
        };
        let quantity = number(self, cell(value), unread).filter(|_| !metric.1.is_empty());
        let ends = summary.filter(|_| DURATIONS.contains(&&*raw)).and_then(|[_, least, most]| {
            let least = number(self, cell(least), unread)?;
            Some([least, number(self, cell(most), unread)?])
        });
        let texts = rule.len() + description.len() + metric.0.len() + metric.1.len();
        // A launch has its texts once, and rows by the dozen.
        let key = key(table, record, &launch);
        let is_new = !self.last.contains_key(&key);
        let texts = texts + if is_new { launch.text_bytes() } else { 0 };
        if !room.take(1, texts) {
            return Some(());
        }
        let speedup = reading(speedup);
        self.evidence.add(speedup, MOST_PERCENT);
        let Some(told) = self.place(key, launch, Some(metric)) else { return Some(()) };
        told.ends = ends.or(told.ends.take());
        if let Some(quantity) = quantity {
            told.cells.entry(raw).or_insert(quantity);
        }
        if rule.is_empty() {
            return Some(());
        }
        if told.launch.rules.len() >= MAX_RULES {
            self.rules_cut += 1;
            return Some(());
        }
        let text = |cell: &str| stage2_contract::text::visible(cell.as_bytes());
        let (name, description) = (text(rule), text(description));
        told.launch.rules.push(RuleRow { name, description, speedup_percent: None });
        told.speedups.push(speedup);
        Some(())
    }

    /// What a cell says; nothing where that is not a number.
    fn cell(
        &mut self,
        name: &str,
        unit: &str,
        text: &str,
        kernel: &str,
        unread: &mut Unread,
    ) -> Option<Reading> {
        let reading = reading(text);
        let certain = reading.certain();
        if !certain.map_or(reading != Reading::default(), f64::is_finite) {
            if certain.is_some() || (is_shown(name) && !text.trim().is_empty()) {
                unread.cell(name, text.trim(), kernel);
            }
            return None;
        }
        self.evidence.add(reading, if unit == "%" { MOST_PERCENT } else { f64::INFINITY });
        if reading.point.is_none() {
            self.comma.get_or_insert_with(|| text.trim().to_owned());
        }
        Some(reading)
    }

    /// The launch that a row is of, at first `launch`; nothing where there are too many.
    fn place(
        &mut self,
        key: Place,
        mut launch: Launch,
        metric: Option<(&str, &str)>,
    ) -> Option<&mut Told> {
        let kind = key.0;
        // A row of the raw page is a launch of its own.
        let known = self.last.get(&key).copied().filter(|at| {
            self.told.get(*at).zip(metric).is_some_and(|(told, metric)| told.goes_on(metric))
        });
        if let Some(at) = known {
            return self.told.get_mut(at);
        }
        if self.told.len() >= MAX_LAUNCHES {
            self.refused += 1;
            return None;
        }
        if kind == Kind::Summary {
            launch.id = self.told.len() as u64;
        }
        self.last.insert(key, self.told.len());
        let occurrences = self.occurrences.entry((kind, key.1, launch.id)).or_default();
        let occurrence = *occurrences;
        *occurrences += 1;
        let first = metric.map(|(section, name)| (section.to_owned(), name.to_owned()));
        let (first, cells, speedups) = (first.unwrap_or_default(), BTreeMap::new(), Vec::new());
        self.told.push(Told { kind, occurrence, launch, cells, first, speedups, ends: None });
        self.told.last_mut()
    }

    /// The launches with their numbers, in the order of the file, and what is wrong with it.
    pub(super) fn finish(
        self,
        file: &str,
        unread: &mut Unread,
        findings: &mut Vec<Finding>,
    ) -> Vec<Told> {
        let Sheet { mut told, evidence, comma, rows, rules_cut, without_units, tables, .. } = self;
        let mut say = |what: String, why: &str, remedy: &str| {
            findings.push(Id::NcuValuesLeftOut.about(file).found(what, why, remedy));
        };
        if rows == 0 && !tables.is_empty() {
            say(
                format!("{file} has no row of a launch"),
                "ncu profiled nothing, or the file is truncated after its header",
                "import the report again, or repeat the run with a filter that matches a kernel",
            );
        }
        if without_units {
            say(
                format!("{file} has no row of units"),
                "without it, sizes and times cannot be distinguished from scaled ones, so none was read",
                "import the report again with --print-units base",
            );
        }
        if rules_cut > 0 {
            say(
                format!("{file}: {rules_cut} rules were left out"),
                &format!("a launch has more than {MAX_RULES}; ncu has about fifty"),
                "import the report again",
            );
        }
        let convention = evidence.convention();
        if let (Convention::Comma, Some(example)) = (convention, comma) {
            findings.push(Id::NcuNotation.about(file).found(
                format!("{file} has decimal commas, as {example}, and was read so"),
                "ncu prints numbers as the locale of its user has them",
                "compare a duration with another source, or import the report with LC_ALL=C",
            ));
        }
        for launch in &mut told {
            launch.settle(convention, unread);
        }
        told
    }
}

/// What tells the launches of a file apart: kind of page, process, number, and a hash of what else the
/// row says of the launch. Someone who seeks two of one hash mixes launches of his own file.
type Place = (Kind, u64, u64, u64);

fn key(table: &Table, record: &csv::StringRecord, launch: &Launch) -> Place {
    let mut hasher = DefaultHasher::new();
    record.iter().take(table.launch.metrics).for_each(|cell| cell.hash(&mut hasher));
    (table.number, launch.invocations).hash(&mut hasher);
    (table.kind, launch.process_id, launch.id, hasher.finish())
}

/// A number of launches. With two readings it is the one without a fraction.
fn whole(reading: Reading) -> Option<u64> {
    let larger = reading.open().map(|(point, comma)| point.max(comma));
    let number = larger.or(reading.point).or(reading.comma)?;
    (number >= 1.0 && number.fract() == 0.0).then_some(number as u64)
}

impl Told {
    /// Whether a row of this metric can be of this launch, and does not begin the next one.
    fn goes_on(&self, (section, name): (&str, &str)) -> bool {
        name.is_empty() || self.first.0 != section || self.first.1 != name
    }

    fn settle(&mut self, convention: Convention, unread: &mut Unread) {
        let launch = &mut self.launch;
        let mut value = |name: &str, cell: &Cell| {
            let Some(number) = cell.reading.by(convention) else {
                match cell.reading.open() {
                    Some((point, comma)) => unread.open(name, point, comma),
                    None if is_shown(name) => {
                        unread.cell(name, "a number of another locale", &launch.kernel)
                    }
                    None => {}
                }
                return None;
            };
            Some(number * cell.factor).filter(|value| value.is_finite())
        };
        for (name, cell) in std::mem::take(&mut self.cells) {
            if let Some(value) = value(&name, &cell) {
                launch.metrics.insert(name, Quantity { value, unit: cell.unit });
            }
        }
        launch.duration_ends_ns = self.ends.take().and_then(|[least, most]| {
            let ends = value("Minimum", &least).zip(value("Maximum", &most))?;
            (least.unit == "ns" && most.unit == "ns" && ends.0 <= ends.1).then_some(ends)
        });
        for (rule, speedup) in launch.rules.iter_mut().zip(&self.speedups) {
            rule.speedup_percent =
                speedup.by(convention).filter(|value| (0.0..=100.0).contains(value));
        }
    }
}

/// Names of the details page, with their units, and what they are called on the raw page; those since
/// 2022.3 first, older ones below. One name can mean two things: `Memory Throughput` is a share of peak
/// or a rate. ` [%]` behind a name is left out.
const NAMES: &[(&str, &str, &str)] = &[
    ("Duration", "ns", "gpu__time_duration.sum"),
    ("Compute (SM) Throughput", "%", SM),
    ("Memory Throughput", "%", MEMORY),
    ("Memory Throughput", "byte/s", "dram__bytes.sum.per_second"),
    ("DRAM Throughput", "%", DRAM),
    ("Achieved Occupancy", "%", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ("Theoretical Occupancy", "%", "sm__maximum_warps_per_active_cycle_pct"),
    ("L2 Hit Rate", "%", "lts__t_sector_hit_rate.pct"),
    ("L1/TEX Hit Rate", "%", "l1tex__t_sector_hit_rate.pct"),
    ("Registers Per Thread", "register/thread", "launch__registers_per_thread"),
    ("Waves Per SM", "", "launch__waves_per_multiprocessor"),
    // 2019 to 2022.2.
    ("Compute (SM)", "%", SM),
    ("SM", "%", SM),
    ("SOL SM", "%", SM),
    ("Memory", "%", MEMORY),
    ("SOL Memory", "%", MEMORY),
    ("SOL DRAM", "%", DRAM),
    ("SOL FB", "%", DRAM),
];
const DRAM: &str = counters::DRAM[0];

/// Sections with the counters that a report shows.
const SECTIONS: &[&str] = &[
    "GPU Speed Of Light",
    "GPU Speed Of Light Throughput",
    "Memory Workload Analysis",
    "Occupancy",
];

/// Names of shares and times in these sections that no report shows.
const NOT_SHOWN: &[&str] = &[
    "L1/TEX Cache Throughput",
    "L2 Cache Throughput",
    "SOL L1/TEX Cache",
    "SOL L2 Cache",
    "SOL L1",
    "L1 Hit Rate",
    "SOL L2",
    "SOL TEX",
    "Mem Busy",
    "Max Bandwidth",
    "Mem Pipes Busy",
    "L2 Compression Success Rate",
    "Local Memory Spilling Request Overhead",
    "Shared Memory Spilling Request Overhead",
    "Overall GPU Occupancy",
    "Cluster Occupancy",
];

fn without_unit(name: &str) -> &str {
    name.strip_suffix("[%]").unwrap_or(name).trim_end()
}

fn known(name: &str, unit: &str) -> Option<&'static str> {
    let name = without_unit(name);
    NAMES.iter().find(|(shown, of, _)| *shown == name && *of == unit).map(|(.., raw)| *raw)
}

/// The name that a metric of the details page has on the raw page; `Section/Name` where none is known.
fn raw_name(section: &str, name: &str, unit: &str) -> String {
    if name.contains("__") {
        return name.to_owned();
    }
    known(name, unit).map_or_else(|| format!("{section}/{name}"), ToOwned::to_owned)
}

/// Whether a name may be that of a counter that a report shows, in a version that called it otherwise.
/// Parts of a counter are named with a colon (`L1: Lsuin Requests`).
fn is_unknown(section: &str, name: &str, unit: &str) -> bool {
    SECTIONS.contains(&section)
        && matches!(unit, "%" | "ns")
        && !name.contains("__")
        && !name.contains(": ")
        && known(name, unit).is_none()
        && !NOT_SHOWN.contains(&without_unit(name))
}

/// Values that are kept, at about 110 bytes each. A report of `--set full` has some hundred for a launch.
const MAX_VALUES: usize = 1_000_000;
/// Bytes of names, ranges and rules that are kept.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// What may still be kept of all pages of ncu together: a table of a hundred thousand columns, or texts of
/// megabytes in every row, take no more memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) values: usize,
    pub(super) text_bytes: usize,
    /// Rows of this report that found none.
    pub(super) refused: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room { values: MAX_VALUES, text_bytes: MAX_TEXT_BYTES, refused: 0 }
    }
}

impl Room {
    /// Takes room for a row; states whether there was enough.
    pub(super) fn take(&mut self, values: usize, text_bytes: usize) -> bool {
        let left = self.values.checked_sub(values).zip(self.text_bytes.checked_sub(text_bytes));
        match left {
            Some((values, text_bytes)) => (self.values, self.text_bytes) = (values, text_bytes),
            None => self.refused += 1,
        }
        left.is_some()
    }

    pub(super) fn finding(self) -> Option<Finding> {
        (self.refused > 0).then(|| {
            Id::NcuValuesLeftOut.found(format!("ncu: {} rows of a report were left out", self.refused),
                format!(
                    "with them it has more than {MAX_VALUES} values, or {} MiB of names, ranges and \
                     rules",
                    MAX_TEXT_BYTES >> 20
                ),
                "profile fewer launches or fewer metrics, or merge the reports one by one",
            )
        })
    }
}
const NAME_LIMIT: usize = 60;

/// What is wrong with cells, over all files of a report.
#[derive(Default)]
pub(super) struct Unread {
    /// Counters and durations that are not numbers.
    counters: Counted,
    durations: Counted,
    /// Numbers that may be either of two.
    open: Counted,
    /// Names in sections that are known.
    names: Counted,
}
#[derive(Default)]
struct Counted {
    count: usize,
    example: String,
}

impl Counted {
    fn add(&mut self, example: impl FnOnce() -> String) {
        if self.count == 0 {
            self.example = example();
        }
        self.count += 1;
    }
}

impl Unread {
    pub(super) fn cell(&mut self, name: &str, text: &str, kernel: &str) {
        let counted =
            if DURATIONS.contains(&name) { &mut self.durations } else { &mut self.counters };
        counted.add(|| {
            let [name, text, kernel] = [name, text, kernel].map(|text| shorten(text, NAME_LIMIT));
            format!("{name} = {text} of {kernel}")
        });
    }

    pub(super) fn open(&mut self, name: &str, point: f64, comma: f64) {
        self.open.add(|| format!("{} = {point} or {comma}", shorten(name, NAME_LIMIT)));
    }

    /// An unknown metric of the details page.
    pub(super) fn name(&mut self, section: &str, name: &str) {
        self.names.add(|| format!("{section}: {}", shorten(name, NAME_LIMIT)));
    }

    pub(super) fn findings(self) -> impl Iterator<Item = Finding> {
        let say = |Counted { count, example }: Counted, what: &str, why: &str, remedy: &str| {
            let what = format!("ncu: {count} {what}, e.g. {example}");
            (count > 0).then(|| Id::NcuValuesLeftOut.found(what, why, remedy))
        };
        let no_value = "ncu could not measure them (n/a), or divided by a counter that stayed zero \
                        (nan, inf); or the cell is damaged";
        [
            say(self.counters, "counters have no value", no_value, "they count as not measured"),
            say(
                self.durations,
                "durations have no value",
                no_value,
                "these launches count as not timed; profile them again",
            ),
            say(
                self.open,
                "numbers were left out, because they can be read in two ways",
                "nothing in the file shows whether the decimal separator is a point or a comma: one \
                 reading is a thousand times the other",
                "import the report again in the locale C: LC_ALL=C ncu --import REPORT --csv --page raw",
            ),
            say(
                self.names,
                "metrics of the details page have names that are not known",
                "they may be counters of another version of ncu, which are missing here",
                "import the raw page as well: its names do not change",
            ),
        ]
        .into_iter()
        .flatten()
    }
}
