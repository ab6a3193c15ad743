//! The CSV tables of `nsys stats` -> [`Tables`], for where there is no SQLite file.
//!
//! A table is told by its header and not by the name of its file, because names of reports changed;
//! the name of the file only says which names of kernels it has (`_mangled`, `_base`). Notes before
//! a header, several tables in one file, ragged rows and thousands separators are taken as they are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::Kernel;
use super::Naming;
use super::Range;
use super::RangeKernel;
use super::Tables;
use super::csv_cells::{Column, column, nanoseconds, number, triple};
use crate::load::libraries::LibraryDomains;
use stage2_model::nsys::{Counts, Source};
use stage2_model::{Finding, Severity};

/// Larger files are no summaries.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Above this many instances the total cannot be smaller than their number: each takes at least 1 ns.
const MOST_UNTIMED: u128 = 1_000_000;

/// One table of a file.
#[derive(Debug)]
struct Summary {
    columns: Vec<Column>,
    naming: Option<Naming>,
    rows: Vec<Vec<String>>,
}

/// A row of kernels.
struct KernelRow {
    range: Option<String>,
    kernel: Kernel,
    instances: Option<u64>,
}

/// Reads the tables of one capture. Of several tables of the kernels the one with mangled names and
/// launch configurations is taken, so that none is counted twice.
pub fn load(paths: &[PathBuf]) -> Tables {
    load_with(paths, &LibraryDomains::default())
}

/// The same, with a list of libraries of one's own.
pub fn load_with(paths: &[PathBuf], libraries: &LibraryDomains) -> Tables {
    let mut tables = Tables { source: Source::Csv, complete: true, ..Tables::default() };
    let mut summaries = Vec::new();
    for path in paths {
        match read(path) {
            Ok((found, odd)) => {
                tables.files.push(path.clone());
                note_odd_rows(&mut tables, path, odd);
                summaries.extend(found);
            }
            Err(why) => {
                tables.complete = false;
                let what = format!("the table {} cannot be used", path.display());
                let remedy = "write it again: nsys stats --format csv --output NAME FILE.sqlite";
                tables.findings.push(Finding::new(Severity::Warning, what, why, remedy));
            }
        }
    }
    kernels(&mut tables, &summaries);
    ranges(&mut tables, &summaries, libraries);
    tables.sort();
    tables
}

fn note_odd_rows(tables: &mut Tables, path: &Path, odd: u64) {
    if odd > 0 {
        tables.complete = false;
        tables.counts.odd_rows += odd;
        let what = format!("{odd} rows of {} cannot be used", path.display());
        let why = "they have too few cells, cells that are no numbers, or numbers that contradict each \
                   other (shortest, mean, longest); the file may be damaged";
        tables.findings.push(Finding::new(Severity::Warning, what, why, "write the file again"));
    }
}

/// All tables of a file, and how many rows of it cannot be used.
fn read(path: &Path) -> Result<(Vec<Summary>, u64), String> {
    let metadata = path.metadata().map_err(|e| e.to_string())?;
    if !metadata.is_file() {
        return Err("it is no file".into());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(format!("it has {} bytes: no summary is so long", metadata.len()));
    }
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}');
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let naming = match file_name.unwrap_or_default() {
        name if name.contains("mangled") => Some(Naming::Mangled),
        name if name.contains("_base") => Some(Naming::Short),
        _ => None,
    };
    let mut summaries: Vec<Summary> = Vec::new();
    let mut odd = 0;
    let mut reader = ::csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).flexible(true).from_reader(text.as_bytes());
    for record in reader.records() {
        let cells: Vec<String> =
            record.map_err(|e| e.to_string())?.iter().map(str::to_owned).collect();
        if let Some(columns) = header(&cells) {
            summaries.push(Summary { columns, naming, rows: Vec::new() });
        } else if let Some(summary) = summaries.last_mut() {
            if summary.usable(&cells) {
                summary.rows.push(cells);
            } else if cells.len() > 1 {
                // A single cell is a remark of nsys between two tables.
                odd += 1;
            }
        }
    }
    match summaries.is_empty() {
        false => Ok((summaries, odd)),
        true if bytes.is_empty() => Err("it is empty: nsys had no such data, or was ended".into()),
        true => {
            let remark = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
            let shown: String = remark.chars().take(200).collect();
            Err(format!("no line of it is the header of a table that is known; it begins: {shown}"))
        }
    }
}

/// The columns, if a row is the header of a table that is known.
fn header(cells: &[String]) -> Option<Vec<Column>> {
    let columns: Vec<Column> = cells.iter().map(|cell| column(cell)).collect();
    let has = |wanted: fn(&Column) -> bool| columns.iter().any(wanted);
    let counted = has(|c| matches!(c, Column::Instances | Column::KernelInstances));
    let named = has(|c| matches!(c, Column::Kernel | Column::Range));
    (counted && named && has(|c| matches!(c, Column::Total(_)))).then_some(columns)
}

impl Summary {
    fn has(&self, wanted: Column) -> bool {
        self.columns.contains(&wanted)
    }

    fn is_kernels(&self) -> bool {
        self.has(Column::Kernel) && !self.has(Column::RangeOfKernel)
    }

    fn is_kernels_of_ranges(&self) -> bool {
        self.has(Column::Kernel) && self.has(Column::RangeOfKernel)
    }

    fn is_ranges(&self) -> bool {
        self.has(Column::Range)
    }

    fn usable(&self, cells: &[String]) -> bool {
        let counted = |c: &Column| matches!(c, Column::Instances | Column::KernelInstances);
        let count = self.columns.iter().position(counted).and_then(|i| cells.get(i));
        let count = count.and_then(|cell| number(cell));
        let total = self.time(cells, |c| matches!(c, Column::Total(_)));
        cells.len() >= self.columns.len()
            && count.zip(total).is_some_and(|(count, total)| self.adds_up(cells, count, total))
    }

    /// Whether the mean lies between the shortest and the longest, as far as these are rounded, and
    /// so many instances fit into the total.
    fn adds_up(&self, cells: &[String], count: u64, total_ns: u64) -> bool {
        let (count, total) = (u128::from(count), u128::from(total_ns));
        // Nanoseconds are exact; cells of larger units have three digits behind the point.
        let unit_ps = self.columns.iter().find_map(|column| match column {
            Column::Total(unit) => Some(u128::from(*unit)),
            _ => None,
        });
        let rounded = match unit_ps.unwrap_or_default() {
            0..=1_000 => 0,
            unit => count.saturating_mul(unit.div_ceil(1_000_000)).saturating_add(total / 100),
        };
        let min = self.time(cells, |c| matches!(c, Column::Min(_))).map(u128::from);
        let max = self.time(cells, |c| matches!(c, Column::Max(_))).map(u128::from);
        min.is_none_or(|min| min.saturating_mul(count) <= total + rounded)
            && max.is_none_or(|max| total <= max.saturating_mul(count) + rounded)
            && (min <= max || max.is_none())
            && count <= total.max(MOST_UNTIMED)
    }

    fn cell<'a>(&self, cells: &'a [String], wanted: Column) -> Option<&'a str> {
        cells.get(self.columns.iter().position(|c| *c == wanted)?).map(String::as_str)
    }

    fn time(&self, cells: &[String], wanted: fn(&Column) -> bool) -> Option<u64> {
        let index = self.columns.iter().position(wanted)?;
        match self.columns.get(index) {
            Some(Column::Total(unit) | Column::Min(unit) | Column::Max(unit)) => {
                nanoseconds(cells.get(index)?, *unit)
            }
            _ => None,
        }
    }

    fn kernel_rows(&self) -> impl Iterator<Item = KernelRow> {
        self.rows.iter().map(|cells| {
            let cell = |wanted| self.cell(cells, wanted);
            let name = cell(Column::Kernel).unwrap_or_default().to_owned();
            let calls = cell(Column::KernelInstances).or(cell(Column::Instances)).and_then(number);
            let kernel = Kernel {
                naming: self.naming.unwrap_or_else(|| naming_of(&name)),
                name,
                grid: cell(Column::Grid).and_then(triple),
                block: cell(Column::Block).and_then(triple),
                device: None,
                calls: calls.unwrap_or(0),
                total_ns: self.time(cells, |c| matches!(c, Column::Total(_))).unwrap_or(0),
                min_ns: self.time(cells, |c| matches!(c, Column::Min(_))),
                max_ns: self.time(cells, |c| matches!(c, Column::Max(_))),
                untimed: 0,
            };
            let instances = cell(Column::RangeInstances).and_then(number);
            KernelRow { range: cell(Column::RangeOfKernel).map(str::to_owned), kernel, instances }
        })
    }

    fn faults(&self) -> Faults {
        Faults {
            not_mangled: self.naming != Some(Naming::Mangled),
            without_shape: !self.has(Column::Grid),
        }
    }
}

/// What is wrong with a table of kernels, the worst first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Faults {
    not_mangled: bool,
    without_shape: bool,
}

/// A demangled name has its arguments in brackets; one without any is that of a C function.
fn naming_of(name: &str) -> Naming {
    if name.contains(['(', '<', ' ']) { Naming::Demangled } else { Naming::Mangled }
}

fn kernels(tables: &mut Tables, summaries: &[Summary]) {
    let best = summaries.iter().filter(|s| s.is_kernels()).min_by_key(|s| s.faults());
    let Some(best) = best else { return };
    tables.kernels = best.kernel_rows().map(|row| row.kernel).collect();
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
    let named = |name: &str| named(name, libraries);
    let mut ranges: HashMap<String, Range> = HashMap::new();
    for summary in summaries.iter().filter(|s| s.is_ranges()) {
        for cells in &summary.rows {
            let name = summary.cell(cells, Column::Range).unwrap_or_default();
            let instances = summary.cell(cells, Column::Instances).and_then(number);
            let total = summary.time(cells, |c| matches!(c, Column::Total(_)));
            let range = ranges.entry(name.to_owned()).or_insert_with(|| named(name));
            // Push/pop and start/end ranges of one name have a row each.
            range.instances = sum(range.instances, instances);
            range.host_total_ns = sum(range.host_total_ns, total);
        }
    }
    let best = summaries.iter().filter(|s| s.is_kernels_of_ranges()).min_by_key(|s| s.faults());
    let mut by_name: HashMap<(String, Naming), usize> = HashMap::new();
    for (index, kernel) in tables.kernels.iter().enumerate() {
        by_name.entry((kernel.name.clone(), kernel.naming)).or_insert(index);
    }
    for row in best.into_iter().flat_map(Summary::kernel_rows) {
        let KernelRow { range, kernel, instances } = row;
        let (calls, total_ns) = (kernel.calls, kernel.total_ns);
        let name = range.unwrap_or_default();
        if name.is_empty() {
            tables.counts.outside_ranges = tables.counts.outside_ranges.saturating_add(calls);
            continue;
        }
        let key = (kernel.name.clone(), kernel.naming);
        let index = *by_name.entry(key).or_insert_with(|| {
            // The table of ranges alone does not say how often a kernel ran in all.
            tables.kernels.push(Kernel {
                calls: 0,
                total_ns: 0,
                min_ns: None,
                max_ns: None,
                ..kernel
            });
            tables.kernels.len() - 1
        });
        let range = ranges.entry(name.clone()).or_insert_with(|| named(&name));
        range.instances = range.instances.max(instances);
        range.calls = range.calls.saturating_add(calls);
        range.total_ns = range.total_ns.saturating_add(total_ns);
        range.kernels.push(RangeKernel { kernel: index, calls, total_ns });
    }
    tables.ranges = ranges.into_values().collect();
}

/// Newer versions write the domain before a colon, and the default one as an empty name. Where it is
/// not that of a library, a colon may be the range's own, and stays.
fn named(name: &str, libraries: &LibraryDomains) -> Range {
    match name.split_once(':') {
        Some(("", name)) => Range { name: name.to_owned(), ..Range::default() },
        Some((domain, name)) if libraries.contains(domain.as_bytes()) => {
            Range { name: name.to_owned(), domain: Some(domain.to_owned()), ..Range::default() }
        }
        _ => Range { name: name.to_owned(), ..Range::default() },
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
