//! The CSV tables of `nsys stats` -> [`Tables`], for where there is no SQLite file.
//!
//! A table is told by its header and not by the name of its file, because names of reports changed;
//! the name of the file only states which names of kernels it has (`_mangled`, `_base`). Notes before
//! a header, ragged rows and thousands separators are taken as they are. A file may hold several
//! tables: one ends where another header, known or not, or a line of nsys about the next one stands.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::csv_cells::{
    Column, Records, cells, column, is_text, is_title, is_whole, nanoseconds, number, triple,
};
use super::reports::{Announced, announced, report_in};
use super::{Kernel, Naming, Placed, Range, RangeKernel, Tables};
use crate::decoded::Decoded;
use crate::files;
use crate::numbers::{Convention, Evidence, Reading};
use crate::progress::Metered;
use crate::trace::libraries::RangeNames;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::count;
use stage2_contract::text::visible;
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_model::nsys::{Counts, Source};

/// Larger files are not summaries.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Cells of a row: the tables have some ten.
const MAX_COLUMNS: usize = 200;
/// Rows of a file that are kept, and bytes of their cells: there is a row for each kind of kernel.
const MAX_ROWS: usize = 200_000;
const MAX_ROW_BYTES: usize = 64 << 20;

/// Above this many instances the total cannot be smaller than their number: each takes at least 1 ns.
const MOST_UNTIMED: u128 = 1_000_000;

/// How the headers begin that may stand behind output of a program without a line end.
const FIRST_COLUMNS: [&str; 4] = ["Time (%),", "Time(%),", "NVTX Range,", "\"Time (%)\","];

#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error("it is empty: nsys had no such data, or was interrupted")]
    Empty,
    #[error(
        "one of its rows has {0} cells; a table of `nsys stats` has about ten, and at most {MAX_COLUMNS} \
         are read"
    )]
    TooWide(usize),
    #[error(
        "it has more than {MAX_ROWS} rows, or they take more than {} MiB of memory; a table of \
         `nsys stats` has one for each kind of kernel or range",
        MAX_ROW_BYTES >> 20
    )]
    TooMuch,
    #[error("none of its lines is a known table header (it begins: {0})")]
    NoTable(String),
    #[error("it holds the table {0}, and none of kernels or ranges")]
    OtherTable(String),
    #[error(
        "it has decimal points ({point}) and decimal commas ({comma}), so that no number of it is certain"
    )]
    TwoDecimals { point: String, comma: String },
}

#[derive(Debug)]
struct Raw {
    columns: Vec<Column>,
    naming: Option<Naming>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Contents {
    summaries: Vec<Summary>,
    odd: u64,
    /// Its last row has no end, and was left out.
    is_cut: bool,
}

#[derive(Debug)]
struct Summary {
    file: String,
    columns: Vec<Column>,
    naming: Option<Naming>,
    rows: Vec<Row>,
}

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
pub fn load(paths: &[PathBuf], libraries: &RangeNames) -> Tables {
    let mut tables = Tables { source: Source::Csv, complete: true, ..Tables::default() };
    let mut summaries = Vec::new();
    for path in paths {
        let file = path.display();
        let Contents { summaries: found, odd, is_cut } = match read(path, Room::default()) {
            Ok(contents) => contents,
            Err(why) => {
                tables.complete = false;
                tables.findings.push(Id::NsysUnreadable.found(
                    format!("the table {file} cannot be used"),
                    why.to_string(),
                    "write it again: nsys stats --format csv --output NAME FILE.sqlite",
                ));
                continue;
            }
        };
        tables.files.push(path.clone());
        tables.complete &= odd == 0 && !is_cut;
        tables.counts.odd_rows += odd;
        tables.warn_if(
            odd == 0 && !is_cut && found.iter().all(|summary| summary.rows.is_empty()),
            Id::NsysUnreadable,
            format!("the table {file} has no rows"),
            "nsys recorded no kernel and no range, or the rows were cut off",
            "write it again from a report of a run that used the GPU",
        );
        tables.warn_if(
            is_cut,
            Id::NsysUnreadable,
            format!("{file} is cut short: its last row was left out"),
            "the row has no end, so that its last cell may be part of one; more rows may be missing",
            "write or copy the file again",
        );
        tables.warn_if(
            odd > 0,
            Id::NsysUnreadable,
            format!("{odd} rows of {file} cannot be used"),
            "they have too few cells, cells that are not numbers, or numbers that contradict each other \
             (shortest, mean, longest); the file may be damaged",
            "write the file again",
        );
        summaries.extend(found);
    }
    if let Some(best) = best(&summaries, false, &mut tables.findings) {
        tables.kernels = best.rows.iter().map(|row| best.kernel(row)).collect();
        tables.count_kernels();
    }
    ranges(&mut tables, &summaries, libraries);
    tables.sort();
    tables
}

fn read(path: &Path, mut room: Room) -> Result<Contents, Unusable> {
    let file = files::open(path)?;
    let length = file.metadata()?.len();
    if length > MAX_FILE_BYTES {
        let what = format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, what).into());
    }
    let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = file_name.rsplit_once('.').map_or(file_name.as_str(), |(stem, _)| stem);
    let (of_file, options) = report_in(stem);
    let naming = naming_in(options);
    let mut input = Decoded::new(Metered::of(file, path).take(MAX_FILE_BYTES));
    // In front of the first header there may be more than one read gives.
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    let delimiter = delimiter(&String::from_utf8_lossy(&head));
    let mut records = Records::new(BufReader::new(head.as_slice().chain(input)), delimiter);
    let mut raw: Vec<Raw> = Vec::new();
    // Whether rows belong to the last table, what nsys said that comes next, and what is not read.
    let (mut is_open, mut next, mut other) = (false, None::<Announced>, None);
    let (mut remark, mut is_cut) = (String::new(), false);
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).into_owned()
    };
    let is_new = |line: &[u8]| {
        let line = text(line);
        announced(&line).is_some() || Head::of(&line, delimiter).is_some()
    };
    while let Some(record) = records.next(is_new)? {
        let line = text(&record.bytes);
        if line.trim().is_empty() {
            continue;
        }
        if remark.is_empty() {
            remark = line.trim().chars().take(200).collect();
        }
        if let Some(report) = announced(&line) {
            (is_open, next) = (false, Some(report));
            continue;
        }
        match Head::of(&line, delimiter) {
            Some(Head::Known(columns)) => {
                let report = next.take();
                let is_read = report.as_ref().map_or(of_file, |report| report.is_read);
                // Tables of other reports have the same columns.
                is_open =
                    is_read != Some(false) || report.is_none() && columns.contains(&Column::Kernel);
                if is_open {
                    room.row(vec![line.clone()], 1)?;
                    let naming = report.and_then(|r| naming_in(&r.options)).or(naming);
                    raw.push(Raw { columns, naming, rows: Vec::new() });
                } else if let Some(report) = report {
                    other.get_or_insert(report.name);
                }
            }
            Some(Head::Other(columns)) => {
                is_open = false;
                other.get_or_insert(next.take().map_or(columns, |report| report.name));
            }
            None if is_open => {
                let (cells, width) = cells(&line, delimiter, MAX_COLUMNS);
                if width > MAX_COLUMNS {
                    return Err(Unusable::TooWide(width));
                }
                match raw.last_mut().filter(|_| record.is_whole) {
                    Some(table) => table.rows.push(room.row(cells, table.columns.len())?),
                    None => is_cut = true,
                }
            }
            None => {}
        }
    }
    if raw.is_empty() {
        return Err(match other {
            _ if length == 0 => Unusable::Empty,
            Some(other) => Unusable::OtherTable(other),
            None => Unusable::NoTable(remark),
        });
    }
    let convention = convention(&raw)?;
    let mut contents = Contents { summaries: Vec::new(), odd: 0, is_cut };
    for Raw { columns, naming, rows } in raw {
        let mut summary = Summary { file: file_name.clone(), columns, naming, rows: Vec::new() };
        for cells in rows {
            match Row::parse(&summary.columns, &cells, convention) {
                Some(row) => summary.rows.push(row),
                // A single cell is a remark of nsys between two tables.
                None => contents.odd += u64::from(cells.len() > 1),
            }
        }
        contents.summaries.push(summary);
    }
    Ok(contents)
}

/// How the numbers of a file are written: one locale wrote all of them.
fn convention(tables: &[Raw]) -> Result<Convention, Unusable> {
    let mut evidence = Evidence::default();
    let (mut point, mut comma) = (None, None);
    for Raw { columns, rows, .. } in tables {
        let cells = rows.iter().flat_map(|row| columns.iter().zip(row));
        for (column, cell) in cells.filter(|(column, _)| !is_text(**column)) {
            let reading = Reading::of(cell);
            match (reading.point, reading.comma) {
                (Some(_), None) => drop(point.get_or_insert(cell)),
                (None, Some(_)) => drop(comma.get_or_insert(cell)),
                _ if is_whole(*column) => evidence.add_whole(reading),
                _ => evidence.add(reading, f64::INFINITY),
            }
        }
    }
    match (point, comma) {
        (Some(point), Some(comma)) => {
            Err(Unusable::TwoDecimals { point: point.clone(), comma: comma.clone() })
        }
        (Some(_), None) => Ok(Convention::Point),
        (None, Some(_)) => Ok(Convention::Comma),
        (None, None) if evidence.convention() == Convention::Comma => Ok(Convention::Comma),
        // nsys prints a point unless its user's locale has none.
        (None, None) => Ok(Convention::Point),
    }
}

/// Which names of kernels the options of a report ask for.
fn naming_in(options: &str) -> Option<Naming> {
    match options {
        _ if options.contains("mangled") && !options.contains("demangled") => Some(Naming::Mangled),
        _ if options.contains("base") => Some(Naming::Short),
        _ => None,
    }
}

/// What the beginning of a text holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// It has a table of kernels or of ranges.
    pub is_read: bool,
    /// Another table of nsys: its report, or its first columns.
    pub other: Option<String>,
}

/// Looks for tables in a text.
pub fn tables_in(text: &str) -> Found {
    let (mut found, mut next) = (Found::default(), None);
    let delimiter = delimiter(text);
    for line in text.split(['\n', '\r']) {
        if let Some(report) = announced(line) {
            next = Some(report);
            continue;
        }
        match Head::of(line, delimiter) {
            Some(Head::Known(_)) => (found.is_read, next) = (true, None),
            Some(Head::Other(columns)) => {
                found.other.get_or_insert(next.take().map_or(columns, |report| report.name));
            }
            None => {}
        }
    }
    found
}

/// What stands between the cells of the first table in a text: a comma, unless its header states otherwise.
fn delimiter(text: &str) -> u8 {
    let of = |line: &str| {
        [b',', b';', b'\t'].into_iter().find(|delimiter| {
            let cells = line.split(char::from(*delimiter));
            let titles = cells.filter(|cell| is_title(cell.trim_matches(['"', '\u{feff}', ' '])));
            titles.count() >= LEAST_TITLES
        })
    };
    text.lines().find_map(of).unwrap_or(b',')
}

/// Bytes of text in which the first header is looked for.
const HEAD_BYTES: u64 = 64 << 10;
/// Titles of columns that make a line a header.
const LEAST_TITLES: usize = 3;

enum Head {
    Known(Vec<Column>),
    Other(String),
}

impl Head {
    fn of(line: &str, delimiter: u8) -> Option<Head> {
        let (named, width) = cells(line, delimiter, MAX_COLUMNS);
        // A line of words and numbers, as nearly all are.
        let may_be = (LEAST_TITLES..=MAX_COLUMNS).contains(&width);
        if let Some(columns) = header(&named).filter(|_| may_be) {
            return Some(Head::Known(columns));
        }
        let glued = |first: &&str| line.rfind(*first).filter(|at| *at > 0);
        let glued = FIRST_COLUMNS.iter().filter_map(glued).filter_map(|at| line.get(at..));
        for rest in glued {
            if let Some(columns) = header(&cells(rest, delimiter, MAX_COLUMNS).0) {
                return Some(Head::Known(columns));
            }
        }
        let titles = named.iter().filter(|cell| is_title(cell)).count();
        let has_numbers =
            || named.iter().any(|cell| cell.trim().starts_with(|c: char| c.is_ascii_digit()));
        (may_be && titles >= LEAST_TITLES && !has_numbers()).then(|| Head::Other(kind(&named)))
    }
}

fn kind(titles: &[String]) -> String {
    let has = |part: &str| titles.iter().any(|title| title.trim().starts_with(part));
    let known = [
        ("GrdX", "cuda_gpu_trace (each kernel and copy)"),
        ("KAvg", "cuda_kern_exec_sum (launches and waiting)"),
        ("QCount", "cuda_kern_exec_sum (launches and waiting)"),
        ("KDur", "cuda_kern_exec_trace (each launch)"),
        ("Kernel Dur", "cuda_kern_exec_trace (each launch)"),
        ("Num Calls", "of API calls (cuda_api_sum, osrt_sum)"),
        (
            "Operation",
            "of copies (cuda_gpu_mem_time_sum, cuda_gpu_mem_size_sum) or of all GPU work (cuda_gpu_sum)",
        ),
        ("Total Proj", "nvtx_gpu_proj_sum (ranges on the GPU)"),
        ("Projected", "nvtx_gpu_proj_trace (each range on the GPU)"),
    ];
    if let Some((_, kind)) = known.iter().find(|(title, _)| has(title)) {
        return (*kind).to_owned();
    }
    let first: Vec<&str> = titles.iter().take(5).map(|title| title.trim()).collect();
    visible(format!("with the columns {}", first.join(", ")).as_bytes())
}

/// What may still be kept of a file.
#[derive(Clone, Copy)]
struct Room {
    rows: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room { rows: MAX_ROWS, bytes: MAX_ROW_BYTES }
    }
}

impl Room {
    /// Takes room for a row of a table with so many columns, and gives the cells that are kept.
    fn row(&mut self, mut cells: Vec<String>, columns: usize) -> Result<Vec<String>, Unusable> {
        cells.truncate(columns);
        // An empty cell takes room as well.
        let bytes = cells.iter().map(|cell| size_of::<String>() + cell.len()).sum();
        let left = self.rows.checked_sub(1).zip(self.bytes.checked_sub(bytes));
        (self.rows, self.bytes) = left.ok_or(Unusable::TooMuch)?;
        Ok(cells)
    }
}

/// The columns, if a row is the header of a table that is known.
fn header(cells: &[String]) -> Option<Vec<Column>> {
    let columns: Vec<Column> = cells.iter().map(|cell| column(cell)).collect();
    let has = |wanted: fn(&Column) -> bool| columns.iter().any(wanted);
    let counted = has(|c| matches!(c, Column::Instances | Column::KernelInstances));
    let named = has(|c| matches!(c, Column::Kernel | Column::Range));
    let others = has(|c| *c == Column::OfOthers);
    let known = counted && named && !others && has(|c| matches!(c, Column::Total(_)));
    known.then_some(columns)
}

impl Row {
    /// The row that the cells say; nothing where they say too little or contradict each other.
    fn parse(columns: &[Column], cells: &[String], written: Convention) -> Option<Self> {
        let mut row = Row::default();
        let (mut calls, mut total, mut unit_ps) = (None, None, 0);
        for (at, column) in columns.iter().enumerate() {
            let cell = cells.get(at)?;
            match *column {
                Column::Total(unit) => (total, unit_ps) = (nanoseconds(cell, unit, written), unit),
                Column::Min(unit) => row.min_ns = nanoseconds(cell, unit, written),
                Column::Max(unit) => row.max_ns = nanoseconds(cell, unit, written),
                Column::Instances | Column::KernelInstances => calls = number(cell, written),
                Column::RangeInstances => row.ranges = number(cell, written),
                Column::Grid => row.grid = triple(cell),
                Column::Block => row.block = triple(cell),
                Column::Kernel => row.kernel = Some(cell.clone()),
                Column::Range | Column::RangeOfKernel => row.range = Some(cell.clone()),
                Column::Style | Column::Other | Column::OfOthers => {}
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

/// A demangled name has its arguments in brackets; one without any is that of a C function.
fn naming_of(name: &str) -> Naming {
    if name.contains(['(', '<', ' ']) { Naming::Demangled } else { Naming::Mangled }
}

/// The best table of kernels, or of kernels in ranges. States which others hold something else.
fn best<'s>(
    summaries: &'s [Summary],
    in_ranges: bool,
    findings: &mut Vec<Finding>,
) -> Option<&'s Summary> {
    let wanted = |s: &&Summary| s.has(Column::Kernel) && s.has(Column::RangeOfKernel) == in_ranges;
    let found = || summaries.iter().filter(wanted);
    let best = found().min_by_key(|s| (s.naming != Some(Naming::Mangled), !s.has(Column::Grid)))?;
    findings.extend(left_out(best, found()));
    Some(best)
}

/// Tables of the same kind whose kernels or ranges are others: of a second capture, most likely.
fn left_out<'s>(used: &Summary, all: impl Iterator<Item = &'s Summary>) -> Option<Finding> {
    let sum = |(calls, ns): (u64, u64), row: &Row| {
        (calls.saturating_add(row.calls), ns.saturating_add(row.total_ns))
    };
    let sums = |table: &Summary| table.rows.iter().fold((0, 0), sum);
    let of = |table: &Summary| format!("{} ({} calls)", table.file, count(sums(table).0));
    let others: Vec<String> = all.filter(|table| sums(table) != sums(used)).map(of).collect();
    let named = others.get(..MOST_NAMED).unwrap_or(&others).join(", ");
    let more = match others.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    (!others.is_empty()).then(|| {
        Id::NsysSeveral.found(
            format!("of several CSV tables of one kind, that of {} is used", of(used)),
            format!("they hold different numbers, and are not added up; left out: {named}{more}"),
            "if they are of several captures, give their files different names, and merge each alone",
        )
    })
}

/// Tables that are named in a finding.
const MOST_NAMED: usize = 4;

impl Tables {
    fn count_kernels(&mut self) {
        let Counts { kernels, kernel_total_ns, .. } = &mut self.counts;
        for kernel in &self.kernels {
            *kernels = kernels.saturating_add(kernel.calls);
            *kernel_total_ns = kernel_total_ns.saturating_add(kernel.total_ns);
        }
        let nameless = self.nameless_calls();
        self.warn_if(
            nameless > 0,
            Id::NsysLacks,
            format!("{nameless} kernels of the CSV tables have no mangled name"),
            "they are joined with those of other tools by normalised names, where that is unique",
            "write the table with them: nsys stats --report cuda_gpu_kern_sum:mangled",
        );
    }
}

fn ranges(tables: &mut Tables, summaries: &[Summary], libraries: &RangeNames) {
    let named = |name: &String| named(name, libraries);
    // By their names as they stand in the table: two of them may become one name, in one order each time.
    let mut ranges: BTreeMap<String, Range> = BTreeMap::new();
    // One with a column of styles has all ranges; without, there is a table for each style.
    let of_ranges = || summaries.iter().filter(|s| s.has(Column::Range));
    let of_all = of_ranges().find(|s| s.has(Column::Style));
    if let Some(used) = of_all {
        let others = of_ranges().filter(|s| s.has(Column::Style));
        tables.findings.extend(left_out(used, others));
    }
    let used = of_ranges().filter(|s| of_all.is_none_or(|used| std::ptr::eq(used, *s)));
    for row in used.flat_map(|s| &s.rows) {
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
    let (alone, unique) = (tables.kernels.is_empty(), by_name.len() == tables.kernels.len());
    let mut placed: Vec<u64> = vec![0; tables.kernels.len()];
    let in_ranges = best(summaries, true, &mut tables.findings);
    for (best, row) in in_ranges.into_iter().flat_map(|s| s.rows.iter().map(move |row| (s, row))) {
        let Row { calls, total_ns, .. } = *row;
        let kernel = best.kernel(row);
        let key = (kernel.name.clone(), kernel.naming);
        let index = *by_name.entry(key).or_insert_with(|| {
            let (min_ns, max_ns) = (None, None);
            tables.kernels.push(Kernel { calls: 0, total_ns: 0, min_ns, max_ns, ..kernel.clone() });
            placed.push(0);
            tables.kernels.len() - 1
        });
        if let (true, Some(sum)) = (alone, tables.kernels.get_mut(index)) {
            sum.calls = sum.calls.saturating_add(calls);
            sum.total_ns = sum.total_ns.saturating_add(total_ns);
            sum.min_ns = sum.min_ns.into_iter().chain(kernel.min_ns).min();
            sum.max_ns = sum.max_ns.max(kernel.max_ns);
        }
        if let Some(placed) = placed.get_mut(index) {
            *placed = placed.saturating_add(calls);
        }
        let Some(name) = row.range.clone().filter(|name| !name.is_empty()) else {
            tables.counts.outside_ranges = tables.counts.outside_ranges.saturating_add(calls);
            continue;
        };
        let range = ranges.entry(name).or_insert_with_key(named);
        range.instances = range.instances.max(row.ranges);
        range.calls = range.calls.saturating_add(calls);
        range.total_ns = range.total_ns.saturating_add(total_ns);
        range.kernels.push(RangeKernel { kernel: index, calls, total_ns });
    }
    tables.ranges = ranges.into_values().collect();
    // Threads of one range have a row each.
    tables.ranges.iter_mut().for_each(|range| range.join_kernels());
    let Some(in_ranges) = in_ranges.filter(|table| !table.rows.is_empty()) else { return };
    if alone {
        tables.placed = Placed::InEach;
        tables.count_kernels();
        tables.findings.push(Id::NsysNested.found(
            format!("a kernel of {} counts in each range around it", in_ranges.file),
            "the table has a row for each range and kernel, also of ranges within others, and does not \
             say which range is outermost: sums may hold a kernel more than once",
            SQLITE_PARTS,
        ));
    } else if unique
        && tables.kernels.iter().zip(&placed).all(|(kernel, placed)| kernel.calls == *placed)
    {
        // Each kernel stands in one row: no range with kernels lies within another.
        tables.placed = Placed::Once;
    } else {
        let what = format!("the kernels of {} are in no stage", in_ranges.file);
        let why = "by their number some stand in several rows, those of ranges within others, and the \
                   table does not say which range is outermost";
        tables.findings.push(Id::NsysNested.graded(Severity::Note, what, why, SQLITE_PARTS));
    }
}

const SQLITE_PARTS: &str =
    "give the SQLite export instead (nsys export --type sqlite): it tells ranges apart";

impl Range {
    fn join_kernels(&mut self) {
        self.kernels.order_by_key(|row| row.kernel);
        self.kernels.dedup_by(|row, before| {
            let same = row.kernel == before.kernel;
            if same {
                before.calls = before.calls.saturating_add(row.calls);
                before.total_ns = before.total_ns.saturating_add(row.total_ns);
            }
            same
        });
    }
}

/// Newer versions write the domain before a colon, and the default one as an empty name. Where it is
/// not that of a library, a colon may be the range's own, and stays.
fn named(name: &str, libraries: &RangeNames) -> Range {
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
