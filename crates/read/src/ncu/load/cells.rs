//! A line of CSV -> its cells.
//!
//! The quotes of ncu's cells are doubled, but not those of what a program printed into the same line.
//! A quote that neither a separator nor the end of the line follows is therefore a part of its cell.

use crate::record_bounds::MAX_COLUMNS;

/// A record that is being read, from one line or from several: a quoted cell may hold line ends.
#[derive(Debug)]
pub(super) struct Cells {
    /// The cells so far; no more than [`MAX_COLUMNS`].
    pub(super) record: csv::StringRecord,
    /// How many there are.
    pub(super) count: usize,
    /// The last one was in quotes, and these were closed.
    pub(super) closed: bool,
    /// The first cell with a quote that is not doubled: behind it stands what a program printed.
    pub(super) printed_behind: Option<usize>,
    delimiter: u8,
    cell: String,
    in_quotes: bool,
    /// Where the first quote in the cell stands that is not doubled.
    lone: Option<usize>,
}

impl Cells {
    pub(super) fn new(delimiter: u8) -> Self {
        Cells {
            record: csv::StringRecord::new(),
            count: 0,
            closed: false,
            printed_behind: None,
            delimiter,
            cell: String::new(),
            in_quotes: false,
            lone: None,
        }
    }

    /// The cells of one line that is whole; nothing where a quote stays open.
    pub(super) fn of(line: &str, delimiter: u8) -> Option<Self> {
        let mut cells = Cells::new(delimiter);
        cells.feed(line).then_some(cells)
    }

    /// Bytes that an open cell holds.
    pub(super) fn open_bytes(&self) -> usize {
        self.cell.len()
    }

    /// Reads a line without its end; says whether the record ends with it.
    pub(super) fn feed(&mut self, line: &str) -> bool {
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
