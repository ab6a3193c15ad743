//! A CSV file of ncu -> its header and records, without what stands around them.
//!
//! Messages of ncu (`==PROF== ...`) and output of the workload may stand before the header, between
//! the records and behind them. Records may be shorter than the header.

use std::io::{BufRead, BufReader, Read};

use crate::bounded_records::{BoundedRecords, MAX_COLUMNS, MAX_RECORD_BYTES};
use stage2_model::{Finding, Severity};

/// Lines before the header that are looked at: output of a workload can be long, not endless.
const PREAMBLE_LINES: usize = 200_000;

/// The header line again, and what follows it.
type FromHeader<R> = std::io::Chain<std::io::Cursor<Vec<u8>>, BufReader<R>>;

/// A table whose header has been read.
pub(super) struct Page<'a, R: Read> {
    /// Names of the columns.
    pub(super) header: Vec<String>,
    name: &'a str,
    reader: csv::Reader<BoundedRecords<FromHeader<R>>>,
}

impl<'a, R: Read> Page<'a, R> {
    /// Finds the table in `input`, called `name` in findings.
    pub(super) fn open(input: R, name: &'a str) -> Result<Page<'a, R>, Finding> {
        let mut input = BufReader::new(input);
        let mut messages = Vec::new();
        let header_line = find_header(&mut input, &mut messages)
            .map_err(|error| unreadable(name, error))?
            .ok_or_else(|| no_table(name, &messages))?;
        let whole = std::io::Cursor::new(header_line).chain(input);
        let mut builder = csv::ReaderBuilder::new();
        let mut reader =
            builder.has_headers(false).flexible(true).from_reader(BoundedRecords::new(whole));
        let mut record = csv::ByteRecord::new();
        reader.read_byte_record(&mut record).map_err(|error| unreadable(name, error))?;
        if record.len() > MAX_COLUMNS {
            return Err(too_wide(name, record.len()));
        }
        let header =
            record.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        Ok(Page { header, name, reader })
    }

    /// Hands every record on, in order, and returns what is wrong with the page. Messages and repeated
    /// headers are left out.
    pub(super) fn each(mut self, mut take: impl FnMut(&csv::StringRecord)) -> Option<Finding> {
        let mut hand_on = |record: csv::StringRecord| {
            let repeated = record.iter().eq(self.header.iter().map(String::as_str));
            if !repeated && !record.get(0).is_some_and(|cell| cell.starts_with("==")) {
                take(&record);
            }
        };
        let mut record = csv::ByteRecord::new();
        let mut pending: Option<csv::StringRecord> = None;
        let finding = loop {
            match self.reader.read_byte_record(&mut record) {
                Ok(true) if record.len() > MAX_COLUMNS => {
                    break Some(too_wide(self.name, record.len()));
                }
                Ok(true) => {
                    self.reader.get_mut().next_record();
                    let read = csv::StringRecord::from_byte_record_lossy(record.clone());
                    pending.replace(read).map(&mut hand_on);
                }
                Ok(false) if self.reader.get_ref().ends_with_newline() => break None,
                Ok(false) => break pending.take().map(|_| cut_short(self.name)),
                // Something followed what is pending, so that it is whole.
                Err(error) => break Some(unreadable(self.name, error)),
            }
        };
        pending.map(hand_on);
        finding
    }

    /// Place of a column.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column == name)
    }
}

/// The header line, with its end. Every table of ncu starts with the column `ID`.
fn find_header(
    input: &mut impl BufRead,
    messages: &mut Vec<String>,
) -> std::io::Result<Option<Vec<u8>>> {
    for _ in 0..PREAMBLE_LINES {
        let mut line = Vec::new();
        if input.by_ref().take(MAX_RECORD_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let start = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        if start.starts_with(b"\"ID\",\"Process ID\"") || start.starts_with(b"ID,Process ID") {
            return Ok(Some(start.to_vec()));
        }
        if start.starts_with(b"==") {
            messages.push(stage2_text::visible(start.trim_ascii_end()));
        }
    }
    Ok(None)
}

fn no_table(name: &str, messages: &[String]) -> Finding {
    let why = messages.iter().find(|m| !m.starts_with("==PROF==")).or(messages.last());
    Finding::new(
        Severity::Error,
        format!("{name} holds no table of ncu"),
        why.map_or_else(|| "it has no line of column names".to_owned(), |m| format!("it says {m}")),
        "it has to be what `ncu --import REPORT --csv --page raw` (or details) prints",
    )
}

fn cut_short(name: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{name} is cut short: its last line was left out"),
        "the line has no end, so that its last number may be part of one",
        "import the report again, or repeat the run",
    )
}

fn too_wide(name: &str, columns: usize) -> Finding {
    Finding::new(
        Severity::Error,
        format!("{name}: a row of {columns} cells, and what follows it, is not read"),
        format!("a table of ncu has at most some thousand columns; {MAX_COLUMNS} are read"),
        "profile fewer metrics (--set full has all that the reports show), or import the report again",
    )
}

fn unreadable(name: &str, why: impl std::error::Error) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{name} cannot be read to its end"),
        why.to_string(),
        "import the report again; what was read so far is used",
    )
}
