//! The bytes of a text file -> its records, one at a time: a line, or several where a quoted cell has
//! line ends in it.
//!
//! Output of other programs stands between the records, with quotes that nobody closes. So a quoted
//! cell ends in front of a line that begins something new.

use std::io::{self, BufRead};

use crate::record_bounds::MAX_RECORD_BYTES;

/// A record.
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

    /// Where a cell is behind `bytes`.
    fn behind(self, bytes: &[u8], delimiter: u8) -> At {
        bytes.iter().fold(self, |at, byte| at.next(*byte, delimiter))
    }
}

pub(super) struct Records<R> {
    input: R,
    /// What stands between cells.
    delimiter: u8,
    /// A line that was read ahead.
    ahead: Option<Vec<u8>>,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(input: R, delimiter: u8) -> Self {
        Records { input, delimiter, ahead: None }
    }

    /// The next record; nothing at the end. `is_new` says whether a line begins something new.
    ///
    /// # Errors
    /// As of the file, and a record that is too long.
    pub(super) fn next(&mut self, is_new: impl Fn(&[u8]) -> bool) -> io::Result<Option<Record>> {
        let mut bytes = match self.ahead.take() {
            Some(line) => line,
            None => self.line(MAX_RECORD_BYTES)?,
        };
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
}
