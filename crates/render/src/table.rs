//! Rows -> a Markdown table, column by column, or why there is none; numbers and texts -> its cells. Columns
//! and rows without any value are left out here, once for all pages. Cells come escaped (see
//! [`stage2_contract::text`]).

pub(crate) use stage2_contract::text::capitalised;
use stage2_contract::text::numbers::{ABSENT, count, grouped};
use stage2_contract::text::{code, plain, shorten};

/// Rows of most tables; metrics.json has them all.
pub const ROWS: usize = 200;
/// The heading of kernels, copies and fills, whose names are long.
pub(crate) const KERNELS: &str = "GPU work";
/// Characters of a name in a cell.
pub const NAME_CHARS: usize = 160;

/// A table in the making. Every column is written for all rows that are shown; columns and rows in
/// which every cell is absent are left out.
#[derive(Debug)]
pub struct Table<'r, T> {
    rows: &'r [T],
    left_out: usize,
    columns: Vec<Column>,
    exact_names: bool,
}

#[derive(Debug)]
struct Column {
    name: String,
    alignment: &'static str,
    cells: Vec<Option<String>>,
}

impl<'r, T> Table<'r, T> {
    /// A table of all rows.
    pub fn new(rows: &'r [T]) -> Self {
        Self::first(usize::MAX, rows)
    }

    /// A table of the first `most` rows, which states how many more there are.
    pub fn first(most: usize, all: &'r [T]) -> Self {
        let (rows, left_out) = all.split_at(most.min(all.len()));
        let left_out = left_out.len();
        Self { rows, left_out, columns: Vec::new(), exact_names: false }
    }

    /// Heads the columns with their names as given, for tables that programs have always read.
    pub fn exact_names(mut self) -> Self {
        self.exact_names = true;
        self
    }

    /// Adds a column of text; a cell without a value shows the mark for absence.
    pub fn left<C: Into<Option<String>>>(self, name: &str, cell: impl FnMut(&'r T) -> C) -> Self {
        self.column(name, "---", cell)
    }

    /// Adds a column of numbers, with commas between thousands.
    pub fn right<C: Into<Option<String>>>(
        self,
        name: &str,
        mut cell: impl FnMut(&'r T) -> C,
    ) -> Self {
        self.column(name, "---:", |row| cell(row).into().map(|text| grouped(&text)))
    }

    /// Adds a column of numbers that name something: of a process, for instance. They have no commas.
    pub fn id<C: Into<Option<String>>>(self, name: &str, cell: impl FnMut(&'r T) -> C) -> Self {
        self.column(name, "---:", cell)
    }

    fn column<C: Into<Option<String>>>(
        mut self,
        name: &str,
        alignment: &'static str,
        mut cell: impl FnMut(&'r T) -> C,
    ) -> Self {
        let cells = self.rows.iter().map(|row| cell(row).into().filter(|text| text != ABSENT));
        let cells: Vec<Option<String>> = cells.collect();
        if cells.is_empty() || cells.iter().any(Option::is_some) {
            self.columns.push(Column { name: name.to_owned(), alignment, cells });
        }
        self
    }

    /// The table as Markdown, with an empty line behind it.
    pub fn markdown(self) -> String {
        self.markdown_with_rest_in("metrics.json")
    }

    /// The table, or why it has no row: see [`none`].
    pub(crate) fn or_none(self, reason: &str, remedy: &str) -> String {
        if self.rows.is_empty() { none(reason, remedy) } else { self.markdown() }
    }

    /// The table; nothing where it has no row.
    pub(crate) fn or_nothing(self) -> String {
        if self.rows.is_empty() { String::new() } else { self.markdown() }
    }

    /// The table and a paragraph of Markdown on what its numbers are; nothing where it has no row.
    pub(crate) fn with_note(self, note: &str) -> String {
        if self.rows.is_empty() { String::new() } else { format!("{}{note}\n\n", self.markdown()) }
    }

    /// The table as Markdown. It names `file` as the place of the rows that are left out.
    pub fn markdown_with_rest_in(self, file: &str) -> String {
        let columns = &self.columns;
        let heads = columns.iter().map(|column| match self.exact_names {
            true => column.name.clone(),
            false => heading(&column.name),
        });
        let heads: Vec<String> = heads.collect();
        let mut out = line(heads.iter().map(String::as_str));
        out.push_str(&line(columns.iter().map(|column| column.alignment)));
        for row in 0..self.rows.len() {
            let cells =
                columns.iter().map(|column| column.cells.get(row).and_then(Option::as_deref));
            if cells.clone().any(|cell| cell.is_some()) {
                out.push_str(&line(cells.map(|cell| cell.unwrap_or(ABSENT))));
            }
        }
        format!("{out}\n{}", more_in(file, self.left_out, "row"))
    }
}

/// Units that end the name of a column.
const UNITS: [&str; 9] = ["ms", "us", "%", "MiB", "W", "J", "GB/s", "°C", "MHz"];

/// The name of a column as people read it: `kernel_sum_ms (may exceed wall)` is
/// `Kernel sum, may exceed wall (ms)`. The name of a variable stays as it is.
pub(crate) fn heading(name: &str) -> String {
    if name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_') {
        return name.to_owned();
    }
    let (bare, note) = match name.split_once(" (") {
        Some((bare, note)) if bare.contains('_') => (bare, Some(note.trim_end_matches(')'))),
        _ => (name, None),
    };
    let without = |unit: &str| {
        let ends = [format!("_{unit}"), format!(", {unit}"), format!(" {unit}")];
        let end = ends.iter().find_map(|end| bare.strip_suffix(end.as_str()));
        let rest = end.or_else(|| bare.strip_prefix(unit)?.strip_prefix(' ')).map(str::to_owned);
        rest.or_else(|| {
            let (before, after) = bare.split_once(&format!("_{unit} "))?;
            Some(format!("{before} {after}"))
        })
    };
    let found = UNITS.iter().find_map(|unit| Some((without(unit)?, *unit)));
    let (text, unit) = found.map_or((bare.to_owned(), None), |(text, unit)| (text, Some(unit)));
    let words: Vec<&str> = (text.split(['_', ' ']))
        .map(|word| match word {
            "gpu" => "GPU",
            "cuda" => "CUDA",
            "pid" => "PID",
            "uuid" => "UUID",
            word => word,
        })
        .collect();
    let keeps = ["nsys", "ncu", "p50", "p90", "p99", "ms"];
    let text = words.join(" ");
    let is_kept = words.first().is_some_and(|first| keeps.contains(first));
    let text = if is_kept { text } else { capitalised(&text) };
    let note = note.map_or_else(String::new, |note| format!(", {note}"));
    let unit = unit.map_or_else(String::new, |unit| format!(" ({unit})"));
    format!("{text}{note}{unit}")
}

fn line<'c>(cells: impl Iterator<Item = &'c str>) -> String {
    let cells: String = cells.map(|cell| format!("| {cell} ")).collect();
    format!("{cells}|\n")
}

/// States how many of `all` are not among the first `most`; nothing if there are none.
pub fn more(all: usize, most: usize, noun: &str) -> String {
    more_in("metrics.json", all.saturating_sub(most), noun)
}

/// States how many more there are in `file`; nothing if there are none.
pub fn more_in(file: &str, left_out: usize, noun: &str) -> String {
    match left_out {
        0 => String::new(),
        1 => format!("See {file} for 1 more {noun}.\n\n"),
        more => format!("See {file} for {} more {noun}s.\n\n", count(more as u64)),
    }
}

/// What stands in the place of a table: `reason` is read after "because"; `remedy` may be empty.
pub fn none(reason: &str, remedy: &str) -> String {
    let remedy = if remedy.is_empty() { "" } else { &format!(" To do: {}.", plain(remedy)) };
    format!("None: {}.{remedy}\n\n", plain(reason))
}

/// The reason and the remedy of a text that is [`none`] and nothing else.
pub(crate) fn why_none(text: &str) -> Option<&str> {
    text.strip_prefix("None: ").filter(|why| !why.trim_end().contains('\n'))
}

/// A paragraph of plain text.
pub fn paragraph(text: &str) -> String {
    format!("{}\n\n", plain(text))
}

/// The name of a stage, a range path or an operator, as code.
pub fn name(name: &str) -> String {
    code(&shorten(name, NAME_CHARS))
}

const TEXT_CHARS: usize = 600;

/// Text of a report as plain Markdown text.
pub(crate) fn text(text: &str) -> String {
    plain(&shorten(text, TEXT_CHARS))
}

/// A number with `digits` decimals; absent where there is none, or none that can be written.
pub(crate) fn decimal(value: Option<f64>, digits: usize) -> String {
    match value {
        Some(value) if value.is_finite() && value.abs() < 1e18 => format!("{value:.digits$}"),
        Some(_) => "(no number)".to_owned(),
        None => ABSENT.to_owned(),
    }
}

/// A share of a peak, 0 to 1, as a percentage. Beyond the peak something was counted or looked up
/// wrongly, and the number is marked wherever it goes.
pub(crate) fn share_of_peak(share: Option<f64>) -> String {
    let digits = if share.is_some_and(|share| (0.0..0.001).contains(&share)) { 3 } else { 2 };
    let percent = decimal(share.map(|share| share * 100.0), digits);
    let is_possible = |share: f64| !share.is_finite() || (0.0..=1.0).contains(&share);
    if share.is_none_or(is_possible) { percent } else { format!("{percent} (not possible)") }
}

/// A sentence that may stand at the beginning of a line: with a full stop, unless it ends in one or
/// in a mark like it, and without being a heading or a list.
pub(crate) fn sentence(words: &str) -> String {
    let words = no_block(text(words.trim()));
    if words.ends_with(['.', '!', '?', ':']) { words } else { format!("{words}.") }
}

/// Plain text that begins neither a list nor a heading.
pub(crate) fn no_block(mut words: String) -> String {
    let digits = words.chars().take_while(char::is_ascii_digit).count();
    if words.get(digits..).is_some_and(|rest| rest.starts_with(['.', ')', '#', '-', '+', '='])) {
        words.insert(digits, '\\');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_a_table() {
        let rows = [(1, None), (2, Some("b")), (3, Some("c")), (4, None)];
        let table = Table::first(2, &rows).right("ms", |row| row.0.to_string());
        let table = table.left("name", |row| row.1.map(str::to_owned));
        assert_eq!(
            table.markdown_with_rest_in("x.csv"),
            "| ms | Name |\n| ---: | --- |\n| 1 | – |\n| 2 | b |\n\nSee x.csv for 2 more rows.\n\n"
        );
        let table = Table::first(3, &rows).right("ms", |row| row.0.to_string());
        assert!(table.markdown().ends_with("\n\nSee metrics.json for 1 more row.\n\n"));
    }

    #[test]
    fn headings_are_words_with_their_unit_at_the_end() {
        for (name, shown) in [
            ("stage", "Stage"),
            ("p99_ms", "p99 (ms)"),
            ("p50 (ms)", "p50 (ms)"),
            ("late ms", "Late (ms)"),
            ("late, %", "Late (%)"),
            ("gpu_busy_%", "GPU busy (%)"),
            ("ms inclusive", "Inclusive (ms)"),
            ("kernel_sum_ms exclusive", "Kernel sum exclusive (ms)"),
            ("their kernel_sum_ms (median)", "Their kernel sum, median (ms)"),
            ("waiting_ms (without first)", "Waiting, without first (ms)"),
            ("bus_GB/s", "Bus (GB/s)"),
            ("nsys_calls", "nsys calls"),
            ("% of the idle time, in launch gaps", "Of the idle time, in launch gaps (%)"),
            ("CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
            ("#", "#"),
        ] {
            assert_eq!(heading(name), shown);
        }
        let rows = [1];
        let table = Table::new(&rows).exact_names().right("mean_ms", |row| row.to_string());
        assert!(table.markdown().starts_with("| mean_ms |"));
    }

    #[test]
    fn what_is_absent_everywhere_is_left_out() {
        let rows = [(Some("a"), None), (None, None), (Some("b"), Some("c"))];
        let text = |cell: Option<&str>| cell.map(str::to_owned);
        let first = || Table::first(2, &rows).left("first", |row| text(row.0));
        let with_marks =
            first().left("second", |row| text(row.1)).left("none", |_| ABSENT.to_owned());
        assert_eq!(with_marks.markdown_with_rest_in("x").lines().nth(2), Some("| a |"));
        let page = first().left("second", |row| text(row.1)).markdown();
        assert_eq!(page, "| First |\n| --- |\n| a |\n\nSee metrics.json for 1 more row.\n\n");
        let none: [u8; 0] = [];
        assert!(Table::new(&none).left("first", |_| None).markdown().starts_with("| First |"));
    }

    #[test]
    fn numbers_that_cannot_be_are_marked() {
        assert_eq!(decimal(None, 3), ABSENT);
        assert_eq!(decimal(Some(1.0005), 3), "1.000");
        for absurd in [f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(decimal(Some(absurd), 3), "(no number)");
            assert!(share_of_peak(Some(absurd)).starts_with("(no number)"));
        }
        assert_eq!(share_of_peak(Some(0.021011)), "2.10");
        assert_eq!(share_of_peak(Some(0.00004)), "0.004");
        assert_eq!(share_of_peak(Some(1.2)), "120.00 (not possible)");
        assert_eq!(share_of_peak(Some(-0.5)), "-50.00 (not possible)");
    }

    #[test]
    fn sentences_end() {
        assert_eq!(sentence(" GPU idle\n"), "GPU idle.");
        assert_eq!(sentence("Why?"), "Why?");
        assert_eq!(sentence("# no heading"), "\\# no heading.");
        assert_eq!(sentence("- no list"), "\\- no list.");
        assert_eq!(sentence("12. no list"), "12\\. no list.");
        assert_eq!(sentence("12.5 % of all"), "12\\.5 % of all.");
    }
}
