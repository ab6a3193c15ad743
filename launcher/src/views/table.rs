//! Cells -> a Markdown table. Cells come escaped (see [`stage2_text`]).

use std::fmt::Write as _;

/// How the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table in the making.
#[derive(Debug)]
pub(crate) struct Table {
    text: String,
    columns: usize,
    rows: usize,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        let mut table = Self { text: String::new(), columns: columns.len(), rows: 0 };
        table.line(columns.iter().map(|&(name, _)| name));
        table.line(columns.iter().map(|&(_, align)| match align {
            Align::Left => "---",
            Align::Right => "---:",
        }));
        table
    }

    /// Adds a row; a cell too few is empty.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns, "a row has a cell for every column");
        self.line(cells.iter().map(String::as_str));
        self.rows += 1;
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn cells(&mut self, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.collect();
        debug_assert_eq!(cells.len(), self.columns, "a row has a cell for every column");
        self.line(cells.iter().map(String::as_str));
        self.rows += 1;
    }

    /// Whether no row was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn line<'c>(&mut self, cells: impl Iterator<Item = &'c str>) {
        for cell in cells {
            // Writing to a String cannot fail.
            let _ = write!(self.text, "| {cell} ");
        }
        self.text.push_str("|\n");
    }

    /// The table as Markdown, with an empty line behind it.
    pub(crate) fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_a_table() {
        let mut table = Table::new(&[("name", Align::Left), ("ms", Align::Right)]);
        assert!(table.is_empty());
        table.row(["a".into(), "1".into()]);
        assert!(!table.is_empty());
        assert_eq!(table.finish(), "| name | ms |\n| --- | ---: |\n| a | 1 |\n\n");
    }
}
