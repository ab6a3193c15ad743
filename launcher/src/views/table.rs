//! Rows -> a Markdown table, column by column, or why there is none. Cells come escaped (see
//! [`stage2_text`]).

use stage2_text::numbers::{ABSENT, count};
use stage2_text::{code, plain, shorten};

/// Rows of most tables; metrics.json has them all.
pub(in crate::views) const ROWS: usize = 200;
/// Characters of a name in a cell.
pub(in crate::views) const NAME_LIMIT: usize = 160;

/// A table in the making. Every column is written for all rows that are shown.
#[derive(Debug)]
pub(crate) struct Table<'r, T> {
    rows: &'r [T],
    left_out: usize,
    drops_empty_columns: bool,
    /// The names, their alignment, and a line for each row.
    lines: Vec<String>,
}

impl<'r, T> Table<'r, T> {
    /// A table of all rows.
    pub(crate) fn new(rows: &'r [T]) -> Self {
        Self::first(usize::MAX, rows)
    }

    /// A table of the first `most` rows, which says how many more there are.
    pub(crate) fn first(most: usize, all: &'r [T]) -> Self {
        let (rows, left_out) = all.split_at(most.min(all.len()));
        let lines = vec![String::new(); rows.len() + 2];
        Self { rows, left_out: left_out.len(), drops_empty_columns: false, lines }
    }

    /// From here on, leaves out the columns in which no row has a value.
    pub(crate) fn without_empty_columns(self) -> Self {
        Self { drops_empty_columns: true, ..self }
    }

    /// Adds a column of text; a cell without a value shows the mark for absence.
    pub(crate) fn left<C: Into<Option<String>>>(
        self,
        name: &str,
        cell: impl FnMut(&'r T) -> C,
    ) -> Self {
        self.column(name, "---", cell)
    }

    /// Adds a column of numbers.
    pub(crate) fn right<C: Into<Option<String>>>(
        self,
        name: &str,
        cell: impl FnMut(&'r T) -> C,
    ) -> Self {
        self.column(name, "---:", cell)
    }

    fn column<C: Into<Option<String>>>(
        mut self,
        name: &str,
        alignment: &str,
        mut cell: impl FnMut(&'r T) -> C,
    ) -> Self {
        let cells: Vec<Option<String>> = self.rows.iter().map(|row| cell(row).into()).collect();
        if self.drops_empty_columns && cells.iter().all(Option::is_none) {
            return self;
        }
        let head = [name, alignment].into_iter();
        let cells = head.chain(cells.iter().map(|cell| cell.as_deref().unwrap_or(ABSENT)));
        for (line, cell) in self.lines.iter_mut().zip(cells) {
            line.push_str("| ");
            line.push_str(cell);
            line.push(' ');
        }
        self
    }

    /// The table as Markdown, with an empty line behind it.
    pub(crate) fn markdown(self) -> String {
        self.markdown_with_rest_in("metrics.json")
    }

    /// The same; the rows that are left out stand in `file`.
    pub(crate) fn markdown_with_rest_in(self, file: &str) -> String {
        let table = self.lines.join("|\n");
        format!("{table}|\n\n{}", more_in(file, self.left_out, "rows"))
    }
}

/// Says how many of `all` are not among the first `most`; nothing if there are none.
pub(in crate::views) fn more(all: usize, most: usize, what: &str) -> String {
    more_in("metrics.json", all.saturating_sub(most), what)
}

fn more_in(file: &str, left_out: usize, what: &str) -> String {
    match left_out {
        0 => String::new(),
        left_out => format!("{} more {what} stand in {file}.\n\n", count(left_out as u64)),
    }
}

/// What stands in the place of a table: `reason` is read after "because"; `remedy` may be empty.
pub(in crate::views) fn none(reason: &str, remedy: &str) -> String {
    let remedy = match remedy {
        "" => String::new(),
        remedy => format!(" To do: {}.", plain(remedy)),
    };
    format!("None, because {}.{remedy}\n\n", plain(reason))
}

/// A paragraph of plain text.
pub(in crate::views) fn paragraph(text: &str) -> String {
    format!("{}\n\n", plain(text))
}

/// The name of a stage, a range path or an operator, as code.
pub(in crate::views) fn name(name: &str) -> String {
    code(&shorten(name, NAME_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_a_table() {
        let rows = [(1, None), (2, Some("b")), (3, Some("c"))];
        let table = || Table::first(2, &rows).right("ms", |row| row.0.to_string());
        let with_names = table().left("name", |row| row.1.map(str::to_owned));
        assert_eq!(
            with_names.markdown(),
            "| ms | name |\n| ---: | --- |\n| 1 | – |\n| 2 | b |\n\n\
             1 more rows stand in metrics.json.\n\n"
        );
        let without = table().without_empty_columns().left("none", |_| None);
        assert!(without.markdown_with_rest_in("x.csv").starts_with("| ms |\n| ---: |\n| 1 |\n"));
    }
}
