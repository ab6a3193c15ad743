//! A text file with tables of ncu -> their headers and rows, without what stands around them.
//!
//! Messages of ncu (`==PROF== ...`) and output of the program may stand before a header, between
//! the rows and behind them, and in one line with either where nobody ended the line. A file may hold
//! several tables, one after the other. Rows may be shorter than their header.

use std::io::{BufRead, BufReader, Read};
use std::rc::Rc;

use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};

use crate::decoded::{Decoded, MAX_COLUMNS, MAX_RECORD_BYTES};

/// Lines before the first header that are looked at: output of a program can be long, not endless.
const PREAMBLE_LINES: u64 = 200_000;
/// Places within a line where a row may begin, of which so many are tried.
const TRIES: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) names: Vec<String>,
    delimiter: u8,
    quoted: bool,
    /// Columns at the start that hold numbers in every row of a launch.
    numbers: usize,
    /// Cells of the shortest row that is whole.
    least: usize,
}

impl Form {
    /// The table whose header begins in this line, if one does, and how many columns it has; of more
    /// than [`MAX_COLUMNS`] the others have no name.
    fn of(line: &str) -> Option<(Form, usize)> {
        let (at, delimiter, quoted) = header_at(line)?;
        let cells = Cells::of(line.get(at..)?, delimiter)?;
        let names: Vec<String> = cells.record.iter().map(|name| name.trim().to_owned()).collect();
        let column = |name: &str| names.iter().position(|column| column == name);
        let numbers = if names.first().is_some_and(|name| name == "ID") { 2 } else { 1 };
        let value = column("Metric Value")
            .or(column("Average"))
            .filter(|_| column("Metric Name").is_some());
        let least = value.map_or(cells.count, |value| value + 1);
        let count = cells.count;
        Some((Form { names, delimiter, quoted, numbers, least }, count))
    }
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|column| column == name)
    }

    /// Whether a row of a launch, or of units, begins here; in quotes only, if `quoted`.
    fn begins(&self, text: &str, quoted: bool) -> bool {
        let mut rest = text.as_bytes();
        let mut empty = 0;
        for _ in 0..self.numbers {
            let in_quotes = rest.first() == Some(&b'"');
            let cell = if in_quotes { rest.get(1..).unwrap_or_default() } else { rest };
            let digits = cell.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let end: &[u8] = if in_quotes { &[b'"', self.delimiter] } else { &[self.delimiter] };
            let Some(behind) = cell.get(digits..).and_then(|behind| behind.strip_prefix(end))
            else {
                return false;
            };
            if quoted && !in_quotes {
                return false;
            }
            empty += usize::from(digits == 0);
            rest = behind;
        }
        empty == 0 || (empty == self.numbers && self.numbers > 1)
    }

    /// Whether cells are as many as a row has. Some programs end each line with a separator, and what is
    /// printed behind the last cell may also have some.
    fn fits(&self, cells: &Cells) -> bool {
        let last_is_whole = cells.printed_behind.is_some_and(|cell| cell + 1 >= self.least);
        let mut beyond = cells.record.iter().skip(self.names.len());
        let as_long = cells.count >= self.least && cells.count <= MAX_COLUMNS;
        as_long && (last_is_whole || beyond.all(str::is_empty))
    }

    /// Whether a row or a header begins in the line, which then is not part of a cell.
    fn is_new(&self, line: &str) -> bool {
        self.begins(line, self.quoted) || Form::of(line).is_some() || self.within(line).is_some()
    }

    /// A whole row that begins within the line, behind something else, and where it does.
    fn within(&self, line: &str) -> Option<(usize, Cells)> {
        let places = line.match_indices('"').map(|(at, _)| at).filter(|at| *at > 0);
        let begun = places.filter(|at| line.get(*at..).is_some_and(|rest| self.begins(rest, true)));
        begun.take(TRIES).find_map(|at| {
            let cells = Cells::of(line.get(at..)?, self.delimiter)?;
            self.fits(&cells).then_some((at, cells))
        })
    }
}

/// Where a header begins in a line, what separates its cells, and whether these are quoted.
fn header_at(line: &str) -> Option<(usize, u8, bool)> {
    const STARTS: [(&str, &[&str]); 2] = [
        ("ID", &["Process ID"]),
        // A summary over launches has no number for each.
        ("Process ID", &["Process Name", "Host Name", "Kernel Name"]),
    ];
    let separated = |at: usize, first: &str, second: &[&str], quote: &str| {
        let rest = line.get(at..)?.strip_prefix(quote)?.strip_prefix(first)?.strip_prefix(quote)?;
        let delimiter = *rest.as_bytes().first().filter(|byte| b",;\t".contains(byte))?;
        let rest = rest.get(1..)?.trim_start_matches(' ').strip_prefix(quote)?;
        let mut named = second.iter().filter_map(|name| rest.strip_prefix(name));
        named.any(|rest| rest.starts_with(quote)).then_some((at, delimiter, !quote.is_empty()))
    };
    if !line.contains("Process ID") {
        return None;
    }
    STARTS.iter().find_map(|(first, second)| {
        let mut quotes = line.match_indices('"').take(MAX_COLUMNS);
        let quoted = quotes.find_map(|(at, _)| separated(at, first, second, "\""));
        quoted.or_else(|| separated(0, first, second, ""))
    })
}

pub(super) enum Found<'r> {
    Table(&'r Form),
    /// A row that begins as that of a launch, or the row of units.
    Row(&'r csv::StringRecord),
}

#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    rows: u64,
    /// Where the first one stands.
    line: u64,
}

impl LeftOut {
    fn add(&mut self, line: u64) {
        if self.rows == 0 {
            self.line = line;
        }
        self.rows += 1;
    }
}
pub(super) struct Pages<'a, R> {
    name: &'a str,
    input: BufReader<Decoded<R>>,
    /// Number of the line that was read last, from 1.
    line: u64,
    /// That line had an end.
    ended: bool,
    form: Option<Rc<Form>>,
    torn: LeftOut,
    /// Rows as wide as those of launches that are none.
    odd: LeftOut,
    clues: Clues,
}

impl<'a, R: Read> Pages<'a, R> {
    pub(super) fn new(input: R, name: &'a str) -> Self {
        Pages {
            name,
            input: BufReader::new(Decoded::new(input)),
            line: 0,
            ended: true,
            form: None,
            torn: LeftOut::default(),
            odd: LeftOut::default(),
            clues: Clues::default(),
        }
    }

    /// Hands on what is found, and returns what is wrong. `take` states whether a row was of use.
    pub(super) fn each(mut self, mut take: impl FnMut(Found<'_>) -> bool) -> Vec<Finding> {
        let stopped = self.read(&mut take).err();
        let Some(form) = &self.form else {
            return vec![stopped.unwrap_or_else(|| self.clues.no_table(self.name))];
        };
        let mut findings: Vec<Finding> = stopped.into_iter().collect();
        let (name, columns) = (self.name, form.names.len());
        let LeftOut { rows, line } = self.torn;
        if rows > 0 {
            findings.push(Id::NcuValuesLeftOut.about(name).found(
                format!(
                    "{name}: {rows} rows do not have the {columns} columns of their table, and were \
                     left out; the first is line {line}"
                ),
                "output of the program is mixed with the rows, or the file is damaged",
                "import the report again",
            ));
        }
        let LeftOut { rows, line } = self.odd;
        if rows > 0 {
            findings.push(Id::NcuValuesLeftOut.about(name).found(
                format!(
                    "{name}: {rows} rows are as long as those of launches, but belong to none; the \
                     first is line {line}"
                ),
                "they do not begin with the numbers of a launch and of its process: output of the program \
                 is mixed with them, or the file is damaged",
                "import the report again; what was measured there is missing",
            ));
        }
        findings
    }

    fn read(&mut self, take: &mut impl FnMut(Found<'_>) -> bool) -> Result<(), Finding> {
        let mut bytes = Vec::new();
        // A row that goes on in the next line, and where it began.
        let mut open: Option<(Cells, u64)> = None;
        let mut usable = true;
        while self.next_line(&mut bytes)? {
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
            let form = self.form.clone();
            if let (Some((mut cells, began)), Some(form)) = (open.take(), &form) {
                if !form.is_new(line) {
                    if cells.feed(line) {
                        self.row(form, &cells, take)?;
                    } else {
                        self.bounded(cells.cell.len())?;
                        open = Some((cells, began));
                    }
                    continue;
                }
                // Its quotes were never closed: something new begins here all the same.
                self.torn.add(began);
            }
            if let Some((form, count)) = Form::of(line) {
                self.not_wider(count)?;
                usable = take(Found::Table(&form));
                self.form = Some(Rc::new(form));
            } else if let Some(form) = form {
                let rest = if usable { self.line(&form, line, take)? } else { None };
                open = rest.map(|cells| (cells, self.line));
            } else if self.line > PREAMBLE_LINES {
                return Ok(());
            } else {
                self.clues.see(line);
            }
        }
        open.map_or(Ok(()), |_| Err(self.cut_short()))
    }

    /// Reads a line of a table; gives the row that goes on in the next one.
    fn line(
        &mut self,
        form: &Form,
        line: &str,
        take: &mut impl FnMut(Found<'_>) -> bool,
    ) -> Result<Option<Cells>, Finding> {
        let mut whole = None;
        if form.begins(line, false) {
            let mut cells = Cells::new(form.delimiter);
            if !cells.feed(line) {
                return Ok(Some(cells).filter(|_| form.begins(line, form.quoted)));
            }
            self.not_wider(cells.count)?;
            if form.fits(&cells) && cells.printed_behind.is_none() {
                return self.row(form, &cells, take).map(|()| None);
            }
            whole = Some(cells).filter(|cells| form.fits(cells));
        }
        let begins = form.begins(line, form.quoted);
        if let Some((at, cells)) = form.within(line) {
            if begins {
                let before = Cells::of(line.get(..at).unwrap_or_default(), form.delimiter);
                match before.filter(|before| form.fits(before)) {
                    Some(before) => self.row(form, &before, take)?,
                    None => self.torn.add(self.line),
                }
            }
            self.row(form, &cells, take)?;
        } else if let Some(cells) = whole {
            self.row(form, &cells, take)?;
        } else if begins && !self.ended {
            return Err(self.cut_short());
        } else if begins {
            self.torn.add(self.line);
        } else if !line.starts_with("==")
            && Cells::of(line, form.delimiter).is_some_and(|cells| form.fits(&cells))
        {
            self.odd.add(self.line);
        }
        Ok(None)
    }
    fn row(
        &mut self,
        form: &Form,
        cells: &Cells,
        take: &mut impl FnMut(Found<'_>) -> bool,
    ) -> Result<(), Finding> {
        // Without the end of its line, or a quote, the last number may be a part of one.
        if !self.ended && !cells.closed && cells.count <= form.least {
            return Err(self.cut_short());
        }
        if !form.fits(cells) {
            self.torn.add(self.line);
        } else if !take(Found::Row(&cells.record)) {
            self.odd.add(self.line);
        }
        Ok(())
    }

    /// Reads the next line with its end, or the part that may be in memory; states whether there is one.
    fn next_line(&mut self, bytes: &mut Vec<u8>) -> Result<bool, Finding> {
        bytes.clear();
        let read = self.input.by_ref().take(MAX_RECORD_BYTES).read_until(b'\n', bytes);
        read.map_err(|error| self.unreadable(&error.to_string()))?;
        self.line += 1;
        self.ended = bytes.last() == Some(&b'\n');
        let begins = |form: &Rc<Form>| {
            let start = bytes.get(..bytes.len().min(100)).unwrap_or_default();
            form.begins(&String::from_utf8_lossy(start), form.quoted)
        };
        if bytes.len() as u64 == MAX_RECORD_BYTES && self.form.as_ref().is_some_and(begins) {
            self.bounded(bytes.len())?;
        }
        Ok(!bytes.is_empty())
    }

    fn bounded(&self, bytes: usize) -> Result<(), Finding> {
        if (bytes as u64) < MAX_RECORD_BYTES {
            return Ok(());
        }
        let why = format!("a record has more than {} MiB", MAX_RECORD_BYTES >> 20);
        Err(self.unreadable(&why))
    }

    fn not_wider(&self, columns: usize) -> Result<(), Finding> {
        if columns <= MAX_COLUMNS {
            return Ok(());
        }
        Err(Id::NcuUnreadable.about(self.name).graded(Severity::Error,
            format!("{}: a row of {columns} cells, and what follows it, is not read", self.name),
            format!("a table of ncu has at most a few thousand columns; {MAX_COLUMNS} are read"),
            "profile fewer metrics (--set full has all that the reports show), or import the report again",
        ))
    }

    fn cut_short(&self) -> Finding {
        Id::NcuUnreadable.about(self.name).found(
            format!("{} is cut short: its last line was left out", self.name),
            "the line has no end, so that its last number may be part of one",
            "import the report again, or repeat the run",
        )
    }

    fn unreadable(&self, why: &str) -> Finding {
        Id::NcuUnreadable.about(self.name).found(
            format!("{} cannot be read to its end", self.name),
            why,
            "import the report again; what was read so far is used",
        )
    }
}

/// A record that is being read, from one line or from several: a quoted cell may hold line ends.
///
/// The quotes of ncu's cells are doubled, but not those of what a program printed into the same line.
/// A quote that neither a separator nor the end of the line follows is therefore a part of its cell.
#[derive(Debug, Default)]
struct Cells {
    /// The cells so far; no more than [`MAX_COLUMNS`].
    record: csv::StringRecord,
    count: usize,
    /// The last one was in quotes, and these were closed.
    closed: bool,
    /// The first cell with a quote that is not doubled: behind it stands what a program printed.
    printed_behind: Option<usize>,
    delimiter: u8,
    cell: String,
    in_quotes: bool,
    /// Where the first quote in the cell stands that is not doubled.
    lone: Option<usize>,
}

impl Cells {
    fn new(delimiter: u8) -> Self {
        Cells { delimiter, ..Cells::default() }
    }

    /// The cells of one line that is whole; nothing where a quote stays open.
    fn of(line: &str, delimiter: u8) -> Option<Self> {
        let mut cells = Cells::new(delimiter);
        cells.feed(line).then_some(cells)
    }

    /// Reads a line without its end; states whether the record ends with it.
    fn feed(&mut self, line: &str) -> bool {
        let bytes = line.as_bytes();
        let mut at = 0;
        loop {
            if !self.in_quotes {
                self.in_quotes = bytes.get(at) == Some(&b'"');
                if !self.in_quotes {
                    let rest = line.get(at..).unwrap_or_default();
                    let end = rest.bytes().position(|byte| byte == self.delimiter);
                    self.cell.push_str(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
                    self.end_cell(false);
                    match end {
                        Some(end) => at += end + 1,
                        None => return true,
                    }
                    continue;
                }
                at += 1;
            }
            let rest = line.get(at..).unwrap_or_default();
            let Some(quote) = rest.find('"') else {
                self.cell.push_str(rest);
                let Some(lone) = self.lone else {
                    self.cell.push('\n');
                    return false;
                };
                // What was printed into the line behind the cell.
                self.cell.truncate(lone);
                self.end_cell(true);
                return true;
            };
            self.cell.push_str(rest.get(..quote).unwrap_or_default());
            at += quote + 1;
            match bytes.get(at) {
                None => {
                    self.end_cell(true);
                    return true;
                }
                Some(byte) if *byte == self.delimiter => {
                    self.end_cell(true);
                    at += 1;
                }
                Some(b'"') => {
                    self.cell.push('"');
                    at += 1;
                }
                Some(_) => {
                    self.lone.get_or_insert(self.cell.len());
                    self.printed_behind.get_or_insert(self.count);
                    self.cell.push('"');
                }
            }
        }
    }

    fn end_cell(&mut self, closed: bool) {
        self.count += 1;
        if self.count <= MAX_COLUMNS {
            self.record.push_field(&self.cell);
        }
        self.cell.clear();
        (self.closed, self.in_quotes, self.lone) = (closed, false, None);
    }
}

/// What a file without a table is, as far as its lines tell.
#[derive(Debug, Default)]
struct Clues {
    /// What is known of it, and what to do instead.
    form: Option<(&'static str, &'static str)>,
    /// The first error or warning of ncu, or else its last message.
    message: Option<String>,
}

impl Clues {
    fn see(&mut self, line: &str) {
        const AS_CSV: &str = "write it with --csv: ncu --import REPORT --csv --page raw";
        const OTHER_PAGE: &str = "write the raw page: ncu --import REPORT --csv --page raw";
        if line.starts_with("==") {
            if self.message.as_ref().is_none_or(|known| known.starts_with("==PROF==")) {
                self.message = Some(stage2_contract::text::visible(line.trim_end().as_bytes()));
            }
            return;
        }
        let start = line.trim_start().trim_start_matches('"');
        let is_text = start.starts_with("Section: ")
            || (line.contains(", Context ") && line.contains("Stream "))
            || (start.starts_with("Metric Name ") && line.contains(" Metric Value"));
        let form = if is_text {
            ("it is the text output of ncu", AS_CSV)
        } else if start.starts_with('#')
            && line.contains("Source")
            && line.contains(['"', ',', ';', '\t'])
        {
            ("it is the source page of ncu, which has lines of code and no launches", OTHER_PAGE)
        } else if start.starts_with("Launch Settings") || start.starts_with("Device Attributes") {
            ("it is the session page of ncu, which has the machine and no launches", OTHER_PAGE)
        } else if line.contains("Total Time (") && line.contains("Instances") {
            ("it is a table of nsys", "give it with --nsys")
        } else {
            return;
        };
        self.form.get_or_insert(form);
    }

    fn no_table(&self, name: &str) -> Finding {
        const REMEDY: &str =
            "it must be the output of `ncu --import REPORT --csv --page raw` (or details)";
        let (why, remedy) = match (self.form, &self.message) {
            (Some((why, remedy)), _) => (why.to_owned(), remedy),
            (None, Some(message)) => (format!("it says {message}"), REMEDY),
            (None, None) => ("no line of it has the column names of ncu".to_owned(), REMEDY),
        };
        Id::NcuUnreadable.about(name).graded(
            Severity::Error,
            format!("{name} holds no table of ncu"),
            why,
            remedy,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_what_stands_between_separators_and_quotes() {
        for (line, expected) in [
            (r#""1","a b","","x""#, &["1", "a b", "", "x"][..]),
            ("1,a b,,x,", &["1", "a b", "", "x", ""]),
            (r#""7  ""dom:a"" ","(1, 2, 3)""#, &["7  \"dom:a\" ", "(1, 2, 3)"]),
            (r#""f<"a">(int)","2""#, &["f<\"a\">(int)", "2"]),
            (r#""10.00"tokens/s: 3"#, &["10.00"]),
            (r#"5" disk,"x""#, &["5\" disk", "x"]),
            ("", &[""]),
        ] {
            let cells = Cells::of(line, b',').expect(line);
            assert_eq!(cells.record.iter().collect::<Vec<_>>(), expected, "{line}");
            assert_eq!(cells.count, expected.len());
        }
        let mut cells = Cells::new(b';');
        assert!(!cells.feed(r#""1";"a"#) && !cells.feed("b;\"\"c") && cells.feed(r#"d";2"#));
        assert_eq!(cells.record.iter().collect::<Vec<_>>(), ["1", "a\nb;\"c\nd", "2"]);
    }
}
