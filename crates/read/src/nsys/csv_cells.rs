//! The bytes of a table of `nsys stats` -> its records, their cells, and what these say.
//!
//! Output of other programs stands between the records, with quotes that nobody closes. So a quoted cell ends
//! in front of a line that begins something new.

use std::io::{self, BufRead};

use crate::decoded::MAX_RECORD_BYTES;
use crate::numbers::Convention;

/// A line, or several where a quoted cell has line ends in it.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Its bytes, without the line end.
    pub(super) bytes: Vec<u8>,
    /// It has a line end, and all of its quotes are closed.
    pub(super) is_whole: bool,
}

/// Where a cell is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    Plain,
    Quoted,
    /// Behind a quote, which ends the cell or is the first of two.
    Closed,
}

impl At {
    fn next(self, byte: u8, delimiter: u8) -> At {
        match (self, byte) {
            (At::Quoted, b'"') => At::Closed,
            (At::Quoted, _) => At::Quoted,
            (At::Start | At::Closed, b'"') => At::Quoted,
            _ if byte == delimiter => At::Start,
            _ => At::Plain,
        }
    }

    fn behind(self, bytes: &[u8], delimiter: u8) -> At {
        bytes.iter().fold(self, |at, byte| at.next(*byte, delimiter))
    }
}

pub(super) struct Records<R> {
    input: R,
    delimiter: u8,
    ahead: Option<Vec<u8>>,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, delimiter: u8) -> Self {
        Records { input, delimiter, ahead: None }
    }

    /// The next record; nothing at the end. `is_new` states whether a line begins something new.
    /// A record that is too long is an error.
    pub(super) fn next(&mut self, is_new: impl Fn(&[u8]) -> bool) -> io::Result<Option<Record>> {
        let mut bytes = self.ahead.take().map_or_else(|| self.line(MAX_RECORD_BYTES), Ok)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut at = At::Start.behind(&bytes, self.delimiter);
        while at == At::Quoted {
            let left = MAX_RECORD_BYTES.saturating_sub(bytes.len() as u64);
            let line = self.line(left)?;
            if line.is_empty() {
                break;
            }
            if is_new(&line) {
                self.ahead = Some(line);
                break;
            }
            at = at.behind(&line, self.delimiter);
            bytes.extend_from_slice(&line);
        }
        let has_end = bytes.last().is_some_and(|byte| is_line_end(*byte));
        bytes.truncate(bytes.len() - usize::from(has_end));
        Ok(Some(Record { bytes, is_whole: has_end && at != At::Quoted }))
    }

    /// The next line with its end; a carriage return is one, too. Empty at the end of the file.
    fn line(&mut self, most_bytes: u64) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let bytes = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            let end = bytes.iter().position(|byte| is_line_end(*byte));
            let taken = bytes.get(..end.map_or(bytes.len(), |end| end + 1)).unwrap_or(bytes);
            line.extend_from_slice(taken);
            let count = taken.len();
            self.input.consume(count);
            if line.len() as u64 > most_bytes {
                let why = format!("a record has more than {} MiB", MAX_RECORD_BYTES >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if end.is_some() || count == 0 {
                return Ok(line);
            }
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The cells of a record, `most` of them, and how many there are.
pub(super) fn cells(record: &str, delimiter: u8, most: usize) -> (Vec<String>, usize) {
    let (mut cells, mut cell, mut count) = (Vec::new(), String::new(), 1);
    let mut at = At::Start;
    for c in record.chars() {
        let before = at;
        at = at.next(u8::try_from(c).unwrap_or(b'x'), delimiter);
        match (before, at) {
            (At::Start, At::Quoted) | (At::Quoted, At::Closed) => {}
            (_, At::Start) => {
                count += 1;
                let done = std::mem::take(&mut cell);
                if cells.len() < most {
                    cells.push(done);
                }
            }
            _ if cells.len() < most => cell.push(c),
            _ => {}
        }
    }
    if cells.len() < most {
        cells.push(cell);
    }
    (cells, count)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Sum of durations, in this many picoseconds each.
    Total(u64),
    Min(u64),
    Max(u64),
    Instances,
    /// Number of kernels in a range.
    KernelInstances,
    /// Number of ranges with that kernel.
    RangeInstances,
    Grid,
    Block,
    Kernel,
    /// Name of a range, and of the kernels in it.
    RangeOfKernel,
    Range,
    /// Whether ranges are push/pop or start/end ones.
    Style,
    /// Only tables of something else have it.
    OfOthers,
    Other,
}

/// What a cell of a header means. Units stand in brackets; without any they are nanoseconds.
pub(super) fn column(cell: &str) -> Column {
    let low = cell.trim().to_lowercase();
    let (name, unit) = match low.split_once('(') {
        Some((name, unit)) => (name.trim(), unit.trim_end_matches(')').trim()),
        None => (low.as_str(), ""),
    };
    let unit_ps = match unit {
        "" | "ns" | "nsec" => 1_000,
        "us" | "usec" | "μs" | "µs" => 1_000_000,
        "ms" | "msec" => 1_000_000_000,
        "s" | "sec" => 1_000_000_000_000,
        _ => return Column::Other,
    };
    match name.replace(' ', "").as_str() {
        "totaltime" => Column::Total(unit_ps),
        "min" | "minimum" => Column::Min(unit_ps),
        "max" | "maximum" => Column::Max(unit_ps),
        "instances" => Column::Instances,
        "kerninst" => Column::KernelInstances,
        "nvtxinst" => Column::RangeInstances,
        "gridxyz" => Column::Grid,
        "blockxyz" => Column::Block,
        "name" | "kernelname" => Column::Kernel,
        "nvtxrange" => Column::RangeOfKernel,
        "range" => Column::Range,
        "style" => Column::Style,
        "source" | "operation" | "operations" | "category" | "event" | "eventkind"
        | "eventtype" => Column::OfOthers,
        _ => Column::Other,
    }
}

/// Titles of columns that tables of nsys have, in lower case and without blanks and units.
#[rustfmt::skip] // One title a line would make it long, and no easier to read.
const TITLES: &[&str] = &[
    "time", "totaltime", "instances", "count", "numcalls", "avg", "average", "med", "median",
    "min", "minimum", "max", "maximum", "stddev", "name", "kernelname", "apiname", "operation",
    "operations", "total", "range", "nvtxrange", "style", "source", "category", "event",
    "start", "end", "duration", "corrid", "pid", "tid", "devid", "device", "grdx", "grdy",
    "grdz", "blkx", "blky", "blkz", "ctx", "strm", "bytes", "throughput", "qcount", "tavg",
    "aavg", "qavg", "kavg", "nvtxinst", "kerninst", "gridxyz", "blockxyz", "rangeinstances",
    "totalprojtime", "totalrangetime", "projavg", "rangeid", "parentid", "apistart", "apidur",
    "queuestart", "queuedur", "kernelstart", "kerneldur",
];

pub(super) fn is_title(cell: &str) -> bool {
    let low = cell.trim().to_lowercase();
    let name = low.split_once('(').map_or(low.as_str(), |(name, _)| name);
    TITLES.contains(&name.replace(' ', "").as_str())
}

/// Whether a column has texts, which say nothing about how numbers are written: a range may be named `0,5`.
pub(super) fn is_text(column: Column) -> bool {
    use Column::{Block, Grid, Kernel, Range, RangeOfKernel, Style};
    matches!(column, Kernel | Range | RangeOfKernel | Style | Grid | Block)
}

/// Whether nsys writes whole numbers into a column.
pub(super) fn is_whole(column: Column) -> bool {
    match column {
        Column::Total(unit_ps) | Column::Min(unit_ps) | Column::Max(unit_ps) => unit_ps == 1_000,
        Column::Instances | Column::KernelInstances | Column::RangeInstances => true,
        _ => false,
    }
}

/// A whole number that may have thousands separators.
pub(super) fn number(cell: &str, written: Convention) -> Option<u64> {
    let (digits, fraction) = decimal(cell, written)?;
    fraction.bytes().all(|b| b == b'0').then(|| digits.parse().ok()).flatten()
}

/// A decimal number of units of so many picoseconds, as nanoseconds, rounded.
pub(super) fn nanoseconds(cell: &str, unit_ps: u64, written: Convention) -> Option<u64> {
    let (digits, fraction) = decimal(cell, written)?;
    // Twelve digits after the point are picoseconds of a second; more do not change the result.
    let fraction: String = fraction.chars().chain(std::iter::repeat('0')).take(12).collect();
    let whole = digits.parse::<u128>().ok()?.checked_mul(u128::from(unit_ps))?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(u128::from(unit_ps))? / 1_000_000_000_000;
    u64::try_from((whole.checked_add(part)? + 500) / 1_000).ok()
}

/// Digits before and after the point: nsys prints neither signs nor exponents.
fn decimal(cell: &str, written: Convention) -> Option<(String, String)> {
    let plain = written.plain(cell)?;
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let all = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (whole.len() <= 30 && all(whole) && all(fraction))
        .then(|| (whole.to_owned(), fraction.to_owned()))
}

pub(super) fn triple(cell: &str) -> Option<[u32; 3]> {
    let mut numbers = cell.split_whitespace().map(|n| n.parse().ok());
    let triple = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(triple)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Vec<(String, bool)> {
        let mut records = Records::new(text.as_bytes(), b',');
        let is_new = |line: &[u8]| line.starts_with(b"Time");
        let next = || records.next(is_new).expect("text");
        std::iter::from_fn(next)
            .map(|r| (String::from_utf8(r.bytes).expect("UTF-8"), r.is_whole))
            .collect()
    }

    #[test]
    fn a_record_ends_with_its_line_unless_a_quoted_cell_goes_on() {
        let text = "a,\"b\nc\"\nit is 5\" wide\n\n\"stray\nTime,x\ny\r\nz,\"cut";
        let expected = [
            ("a,\"b\nc\"", true),
            ("it is 5\" wide", true),
            ("", true),
            ("\"stray", false),
            ("Time,x", true),
            ("y", true),
            ("", true),
            ("z,\"cut", false),
        ];
        let expected: Vec<_> = expected.map(|(text, whole)| (text.to_owned(), whole)).into();
        assert_eq!(records(text), expected);
        assert_eq!(records("a,b"), [("a,b".to_owned(), false)]);
    }

    #[test]
    fn cells_lose_their_quotes_and_keep_what_is_in_them() {
        let (found, count) = cells("1,\"a, \"\"b\"\"\n\",,é,\"\"", b',', 9);
        assert_eq!(
            (found, count),
            (vec!["1".into(), "a, \"b\"\n".into(), "".into(), "é".into(), "".into()], 5)
        );
        assert_eq!(cells("a,b,c", b',', 2), (vec!["a".into(), "b".into()], 3));
        assert_eq!(cells("a;b,c", b';', 2), (vec!["a".into(), "b,c".into()], 2));
        assert_eq!(cells("", b',', 2), (vec!["".to_owned()], 1));
    }

    #[test]
    fn headers_of_every_version() {
        for (cell, expected) in [
            ("Total Time (ns)", Column::Total(1_000)),
            ("Total Time (us)", Column::Total(1_000_000)),
            ("Total Time", Column::Total(1_000)),
            ("Min (ms)", Column::Min(1_000_000_000)),
            ("Maximum", Column::Max(1_000)),
            ("Time (%)", Column::Other),
            ("Time(%)", Column::Other),
            ("StdDev (ns)", Column::Other),
            ("Total Time (parsec)", Column::Other),
            (" Kern Inst ", Column::KernelInstances),
            ("GridXYZ", Column::Grid),
            ("Kernel Name", Column::Kernel),
        ] {
            assert_eq!(column(cell), expected, "{cell}");
        }
    }

    #[test]
    fn numbers_of_every_locale_keep_every_nanosecond() {
        use Convention::{Comma, Point};
        for (cell, unit_ps, written, expected) in [
            ("2765165", 1_000, Point, Some(2_765_165)),
            ("2,765.165", 1_000_000, Point, Some(2_765_165)),
            ("0.002765165", 1_000_000_000_000, Point, Some(2_765_165)),
            ("10801.4", 1_000, Point, Some(10_801)),
            ("10801.5", 1_000, Point, Some(10_802)),
            ("9007199254740993", 1_000, Point, Some(9_007_199_254_740_993)),
            ("18446744073709551615", 1_000_000_000_000, Point, None),
            ("1.117,18", 1_000, Comma, Some(1_117)),
            ("3.000", 1_000, Comma, Some(3_000)),
            ("0,003", 1_000_000_000, Comma, Some(3_000)),
        ] {
            assert_eq!(nanoseconds(cell, unit_ps, written), expected, "{cell}");
        }
        for cell in ["12\u{202f}345", "12\u{a0}345", "12'345", "12.345", "12 345"] {
            assert_eq!(number(cell, Comma), Some(12_345), "{cell}");
        }
        for (cell, expected) in [("1,128", Some(1_128)), ("256.0", Some(256)), ("1,5", None)] {
            assert_eq!(number(cell, Point), expected, "{cell}");
        }
        assert_eq!(number("1.5", Point), None);
        for cell in
            ["", "n/a", "-5", "nan", "inf", "1e9", "1.2.3", ",5", "0x10", "9".repeat(40).as_str()]
        {
            let found = (nanoseconds(cell, 1_000, Point), number(cell, Point));
            assert_eq!(found, (None, None), "{cell}");
        }
    }

    #[test]
    fn launch_configurations() {
        assert_eq!(triple("   2   64    1"), Some([2, 64, 1]));
        for cell in ["", "1 2", "1 2 3 4", "1 x 3", "1 2 -3"] {
            assert_eq!(triple(cell), None, "{cell}");
        }
    }
}
