//! The CSV tables of `nsys stats` -> [`Tables`], for where there is no SQLite file.
//!
//! A table is told by its header and not by the name of its file, because names of reports changed;
//! the name of the file only says which names of kernels it has (`_mangled`, `_base`). Notes before
//! a header, several tables in one file, ragged rows and thousands separators are taken as they are.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::csv_cells::{Column, column, nanoseconds, number, triple};
use super::{Kernel, Naming, Range, RangeKernel, Tables};
use crate::bounded_records::BoundedRecords;
use crate::decoded::Decoded;
use crate::files;
use crate::load::libraries::LibraryDomains;
use crate::progress::Metered;
use stage2_model::nsys::{Counts, Source};
use stage2_model::{Finding, Severity};

/// Larger files are no summaries.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Cells of a row: the tables have some ten.
const MAX_COLUMNS: usize = 200;
/// Rows of a file that are kept, and bytes of their cells: there is a row for each kind of kernel.
const MAX_ROWS: usize = 200_000;
const MAX_ROW_BYTES: usize = 64 << 20;

/// Above this many instances the total cannot be smaller than their number: each takes at least 1 ns.
const MOST_UNTIMED: u128 = 1_000_000;

#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error(transparent)]
    Csv(#[from] ::csv::Error),
    #[error("it is empty: nsys had no such data, or was ended")]
    Empty,
    #[error(
        "one of its rows has {0} cells; a table of `nsys stats` has some ten, and {MAX_COLUMNS} are \
         read at most"
    )]
    TooWide(usize),
    #[error(
        "it has more than {MAX_ROWS} rows, or {} MiB of them; a table of `nsys stats` has one for each \
         kind of kernel or range",
        MAX_ROW_BYTES >> 20
    )]
    TooMuch,
    #[error("no line of it is the header of a table that is known; it begins: {0}")]
    NoTable(String),
}

#[derive(Debug)]
struct Summary {
    columns: Vec<Column>,
    naming: Option<Naming>,
    rows: Vec<Row>,
}

/// A row of kernels, of ranges, or of kernels in ranges.
#[derive(Debug, Default)]
struct Row {
    kernel: Option<String>,
    range: Option<String>,
    /// How many kernels there are, or ranges in a table of these.
    calls: u64,
    /// How many ranges hold the kernel.
    ranges: Option<u64>,
    total_ns: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
}

/// Reads the tables of one capture. Of several tables of the kernels the one with mangled names and
/// launch configurations is taken, so that none is counted twice.
pub fn load(paths: &[PathBuf], libraries: &LibraryDomains) -> Tables {
    let mut tables = Tables { source: Source::Csv, complete: true, ..Tables::default() };
    let mut summaries = Vec::new();
    for path in paths {
        match read(path) {
            Ok((found, odd)) => {
                tables.files.push(path.clone());
                summaries.extend(found);
                if odd > 0 {
                    tables.complete = false;
                    tables.counts.odd_rows += odd;
                    let what = format!("{odd} rows of {} cannot be used", path.display());
                    let why = "they have too few cells, cells that are no numbers, or numbers that \
                               contradict each other (shortest, mean, longest); the file may be \
                               damaged";
                    let remedy = "write the file again";
                    tables.findings.push(Finding::new(Severity::Warning, what, why, remedy));
                }
            }
            Err(why) => {
                tables.complete = false;
                let what = format!("the table {} cannot be used", path.display());
                let remedy = "write it again: nsys stats --format csv --output NAME FILE.sqlite";
                let why = why.to_string();
                tables.findings.push(Finding::new(Severity::Warning, what, why, remedy));
            }
        }
    }
    kernels(&mut tables, &summaries);
    ranges(&mut tables, &summaries, libraries);
    tables.sort();
    tables
}

/// All tables of a file, and how many rows of it cannot be used.
fn read(path: &Path) -> Result<(Vec<Summary>, u64), Unusable> {
    let file = files::open(path)?;
    let length = file.metadata()?.len();
    if length > MAX_FILE_BYTES {
        let what = format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, what).into());
    }
    let mut input = BufReader::new(Decoded::new(Metered::of(file, path).take(MAX_FILE_BYTES)));
    let remark = first_line(input.fill_buf()?);
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let naming = match file_name.unwrap_or_default() {
        name if name.contains("mangled") => Some(Naming::Mangled),
        name if name.contains("_base") => Some(Naming::Short),
        _ => None,
    };
    let mut summaries: Vec<Summary> = Vec::new();
    let (mut odd, mut kept) = (0, Kept::default());
    let mut reader = ::csv::ReaderBuilder::new();
    let mut reader =
        reader.has_headers(false).flexible(true).from_reader(BoundedRecords::new(input));
    let mut record = ::csv::ByteRecord::new();
    while reader.read_byte_record(&mut record)? {
        reader.get_mut().next_record();
        if record.len() > MAX_COLUMNS {
            return Err(Unusable::TooWide(record.len()));
        }
        let cells = ::csv::StringRecord::from_byte_record_lossy(record);
        if let Some(columns) = header(&cells) {
            kept.take(&cells)?;
            summaries.push(Summary { columns, naming, rows: Vec::new() });
        } else if let Some(summary) = summaries.last_mut() {
            match Row::parse(&summary.columns, &cells) {
                Some(row) => {
                    kept.take(&cells)?;
                    summary.rows.push(row);
                }
                // A single cell is a remark of nsys between two tables.
                None => odd += u64::from(cells.len() > 1),
            }
        }
        record = cells.into_byte_record();
    }
    match summaries.is_empty() {
        false => Ok((summaries, odd)),
        true if length == 0 => Err(Unusable::Empty),
        true => Err(Unusable::NoTable(remark)),
    }
}

/// The first line that says something, as far as it is shown.
fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    line.chars().take(200).collect()
}

/// What is kept of a file.
#[derive(Default)]
struct Kept {
    rows: usize,
    bytes: usize,
}

impl Kept {
    /// Adds a row.
    fn take(&mut self, cells: &::csv::StringRecord) -> Result<(), Unusable> {
        self.rows += 1;
        self.bytes += cells.as_slice().len();
        if self.rows > MAX_ROWS || self.bytes > MAX_ROW_BYTES {
            return Err(Unusable::TooMuch);
        }
        Ok(())
    }
}

/// The columns, if a row is the header of a table that is known.
fn header(cells: &::csv::StringRecord) -> Option<Vec<Column>> {
    let columns: Vec<Column> = cells.iter().map(column).collect();
    let has = |wanted: fn(&Column) -> bool| columns.iter().any(wanted);
    let counted = has(|c| matches!(c, Column::Instances | Column::KernelInstances));
    let named = has(|c| matches!(c, Column::Kernel | Column::Range));
    (counted && named && has(|c| matches!(c, Column::Total(_)))).then_some(columns)
}

impl Row {
    /// The row that the cells say; nothing where they say too little or contradict each other.
    fn parse(columns: &[Column], cells: &::csv::StringRecord) -> Option<Self> {
        let mut row = Row::default();
        let (mut calls, mut total, mut unit_ps) = (None, None, 0);
        for (at, column) in columns.iter().enumerate() {
            let cell = cells.get(at)?;
            match *column {
                Column::Total(unit) => (total, unit_ps) = (nanoseconds(cell, unit), unit),
                Column::Min(unit) => row.min_ns = nanoseconds(cell, unit),
                Column::Max(unit) => row.max_ns = nanoseconds(cell, unit),
                Column::Instances | Column::KernelInstances => calls = number(cell),
                Column::RangeInstances => row.ranges = number(cell),
                Column::Grid => row.grid = triple(cell),
                Column::Block => row.block = triple(cell),
                Column::Kernel => row.kernel = Some(cell.to_owned()),
                Column::Range | Column::RangeOfKernel => row.range = Some(cell.to_owned()),
                Column::Other => {}
            }
        }
        (row.calls, row.total_ns) = calls.zip(total)?;
        row.adds_up(unit_ps).then_some(row)
    }

    /// Whether the mean lies between the shortest and the longest, as far as these are rounded, and
    /// so many instances fit into the total. The total was written in units of `unit_ps`.
    fn adds_up(&self, unit_ps: u64) -> bool {
        let (count, total) = (u128::from(self.calls), u128::from(self.total_ns));
        // Nanoseconds are exact; cells of larger units have three digits behind the point.
        let rounded = match u128::from(unit_ps) {
            0..=1_000 => 0,
            unit => count.saturating_mul(unit.div_ceil(1_000_000)).saturating_add(total / 100),
        };
        let (min, max) = (self.min_ns.map(u128::from), self.max_ns.map(u128::from));
        min.is_none_or(|min| min.saturating_mul(count) <= total + rounded)
            && max.is_none_or(|max| total <= max.saturating_mul(count) + rounded)
            && (min <= max || max.is_none())
            && count <= total.max(MOST_UNTIMED)
    }
}

impl Summary {
    fn has(&self, wanted: Column) -> bool {
        self.columns.contains(&wanted)
    }

    /// What is wrong with a table of kernels, the worst first; the least is the best.
    fn faults(&self) -> Faults {
        Faults {
            not_mangled: self.naming != Some(Naming::Mangled),
            without_shape: !self.has(Column::Grid),
        }
    }

    fn kernel(&self, row: &Row) -> Kernel {
        let name = row.kernel.clone().unwrap_or_default();
        Kernel {
            naming: self.naming.unwrap_or_else(|| naming_of(&name)),
            name: name.into(),
            grid: row.grid,
            block: row.block,
            calls: row.calls,
            total_ns: row.total_ns,
            min_ns: row.min_ns,
            max_ns: row.max_ns,
            ..Kernel::default()
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Faults {
    not_mangled: bool,
    without_shape: bool,
}

/// A demangled name has its arguments in brackets; one without any is that of a C function.
fn naming_of(name: &str) -> Naming {
    if name.contains(['(', '<', ' ']) { Naming::Demangled } else { Naming::Mangled }
}

/// The best table of kernels, or of kernels in ranges.
fn best(summaries: &[Summary], in_ranges: bool) -> Option<&Summary> {
    let wanted = |s: &&Summary| s.has(Column::Kernel) && s.has(Column::RangeOfKernel) == in_ranges;
    summaries.iter().filter(wanted).min_by_key(|summary| summary.faults())
}

fn kernels(tables: &mut Tables, summaries: &[Summary]) {
    let Some(best) = best(summaries, false) else { return };
    tables.kernels = best.rows.iter().map(|row| best.kernel(row)).collect();
    let Counts { kernels, kernel_total_ns, .. } = &mut tables.counts;
    for kernel in &tables.kernels {
        *kernels = kernels.saturating_add(kernel.calls);
        *kernel_total_ns = kernel_total_ns.saturating_add(kernel.total_ns);
    }
    let nameless = tables.nameless_calls();
    if nameless > 0 {
        let what = format!("{nameless} kernels of the CSV tables have no mangled name");
        let why =
            "they are joined with those of other tools by normalised names, where that is unique";
        let remedy = "write the table with them: nsys stats --report cuda_gpu_kern_sum:mangled";
        tables.findings.push(Finding::new(Severity::Warning, what, why, remedy));
    }
}

fn ranges(tables: &mut Tables, summaries: &[Summary], libraries: &LibraryDomains) {
    let named = |name: &String| named(name, libraries);
    // By their names as they stand in the table: two of them may become one name, in one order each time.
    let mut ranges: BTreeMap<String, Range> = BTreeMap::new();
    for row in summaries.iter().filter(|s| s.has(Column::Range)).flat_map(|s| &s.rows) {
        let range = ranges.entry(row.range.clone().unwrap_or_default()).or_insert_with_key(named);
        // Push/pop and start/end ranges of one name have a row each.
        let plus = |sum: Option<u64>, more| Some(sum.unwrap_or(0).saturating_add(more));
        range.instances = plus(range.instances, row.calls);
        range.host_total_ns = plus(range.host_total_ns, row.total_ns);
    }
    let mut by_name: HashMap<(Arc<str>, Naming), usize> = HashMap::new();
    for (index, kernel) in tables.kernels.iter().enumerate() {
        by_name.entry((kernel.name.clone(), kernel.naming)).or_insert(index);
    }
    let in_ranges = best(summaries, true);
    for (best, row) in in_ranges.into_iter().flat_map(|s| s.rows.iter().map(move |row| (s, row))) {
        let Row { calls, total_ns, .. } = *row;
        let Some(name) = row.range.clone().filter(|name| !name.is_empty()) else {
            tables.counts.outside_ranges = tables.counts.outside_ranges.saturating_add(calls);
            continue;
        };
        let kernel = best.kernel(row);
        let key = (kernel.name.clone(), kernel.naming);
        let index = *by_name.entry(key).or_insert_with(|| {
            // The table of ranges alone does not say how often a kernel ran in all.
            let (min_ns, max_ns) = (None, None);
            tables.kernels.push(Kernel { calls: 0, total_ns: 0, min_ns, max_ns, ..kernel });
            tables.kernels.len() - 1
        });
        let range = ranges.entry(name).or_insert_with_key(named);
        range.instances = range.instances.max(row.ranges);
        range.calls = range.calls.saturating_add(calls);
        range.total_ns = range.total_ns.saturating_add(total_ns);
        range.kernels.push(RangeKernel { kernel: index, calls, total_ns });
    }
    tables.ranges = ranges.into_values().collect();
}

/// Newer versions write the domain before a colon, and the default one as an empty name. Where it is
/// not that of a library, a colon may be the range's own, and stays.
fn named(name: &str, libraries: &LibraryDomains) -> Range {
    let (domain, name) = match name.split_once(':') {
        Some(("", name)) => (None, name),
        Some((domain, name)) if libraries.contains(domain.as_bytes()) => {
            (Some(domain.to_owned()), name)
        }
        _ => (None, name),
    };
    Range { name: name.to_owned(), domain, ..Range::default() }
}

#[cfg(test)]
mod tests;
