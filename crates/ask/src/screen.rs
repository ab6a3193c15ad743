//! The parts of an answer for a person at a terminal: wrapped text, and tables of aligned columns that fit its width.

use stage2_contract::text::{shorten, wrapped};

use crate::next::{NARROWEST, command_lines};

/// Rows of the first table, and of each other one.
const FIRST_ROWS: usize = 5;
const OTHER_ROWS: usize = 3;
/// Columns of text are not made narrower than this.
const TEXT_WIDTH: usize = 14;
/// In front of a table.
const SET_IN: usize = 2;
/// Between two columns.
const GAP: usize = 2;

/// Rows of a table where no budget was asked for.
pub(crate) fn rows(table: usize) -> usize {
    if table == 0 { FIRST_ROWS } else { OTHER_ROWS }
}

/// A column of a table as text.
pub(crate) struct Cells {
    pub(crate) heading: String,
    pub(crate) is_number: bool,
    pub(crate) cells: Vec<String>,
}

impl Cells {
    fn of_cells(&self) -> usize {
        self.cells.iter().map(|cell| length(cell)).max().unwrap_or(0)
    }

    /// The width in which nothing breaks.
    fn width(&self) -> usize {
        self.of_cells().max(length(&self.heading))
    }

    /// The width that it needs: a number does not break, its heading does.
    fn least(&self) -> usize {
        let word = self.heading.split(' ').map(length).max().unwrap_or(0);
        let needed = self.of_cells().max(word);
        if self.is_number { needed } else { needed.min(TEXT_WIDTH) }
    }
}

/// A name in words, with the unit where the name does not have it.
pub(crate) fn heading(name: &str, unit: Option<&str>) -> String {
    let is_percent = unit == Some("percent") && !name.contains("percent");
    let words = name.replace('_', " ").replace("percent", "%");
    if is_percent { words + " %" } else { words }
}

/// A text in lines of a width.
pub(crate) fn text(text: &str, width: usize) -> String {
    lines(text, width.max(NARROWEST)).join("\n") + "\n"
}

/// A label, and below it a command that can be copied.
pub(crate) fn command(label: &str, words: &[String], width: usize) -> String {
    let mut out = format!("{label}\n");
    for line in command_lines(words, width.saturating_sub(SET_IN).max(NARROWEST)) {
        out.push_str(&format!("{:SET_IN$}{line}\n", ""));
    }
    out
}

/// A table below its name. `of`: rows that are shown, and that there are. Columns that have no room are left out, the
/// last numbers first.
pub(crate) fn table(
    name: &str,
    of: (usize, usize),
    mut columns: Vec<Cells>,
    width: usize,
) -> String {
    let room = width.saturating_sub(SET_IN);
    let gaps = |columns: &[Cells]| columns.len().saturating_sub(1) * GAP;
    let needed =
        |columns: &[Cells]| columns.iter().map(Cells::least).sum::<usize>() + gaps(columns);
    let (shown, all) = of;
    let rows = if shown < all { format!(" ({shown} of {all})") } else { String::new() };
    let mut out = format!("\n{}{rows}:\n", heading(name, None));
    let natural = columns.iter().map(Cells::width).sum::<usize>() + gaps(&columns);
    if all == 1 && natural > room {
        return out + &listed(&columns, shown, room);
    }
    let texts = columns.iter().filter(|column| !column.is_number);
    if texts.map(|column| column.least() + GAP).sum::<usize>() > room + GAP {
        return out + &listed(&columns, shown, room);
    }
    while needed(&columns) > room
        && let Some(last) = columns.iter().rposition(|column| column.is_number)
    {
        columns.remove(last);
    }
    let mut widths: Vec<usize> = columns.iter().map(Cells::width).collect();
    let gaps = gaps(&columns);
    // The headings of numbers break before any text does.
    if widths.iter().sum::<usize>() + gaps > room {
        let numbers = columns.iter().zip(&mut widths).filter(|(column, _)| column.is_number);
        numbers.for_each(|(column, width)| *width = column.least());
    }
    while widths.iter().sum::<usize>() + gaps > room {
        let with_least = columns.iter().zip(&mut widths);
        let wide = with_least.filter(|(column, width)| **width > column.least());
        let Some((_, width)) = wide.max_by_key(|(_, width)| **width) else { break };
        *width -= 1;
    }
    let headings = columns.iter().map(|column| column.heading.as_str()).collect();
    out.push_str(&row(headings, &columns, &widths, true));
    for at in 0..shown {
        let cells = columns.iter().map(|column| column.cells.get(at).map_or("", String::as_str));
        out.push_str(&row(cells.collect(), &columns, &widths, false));
    }
    out
}

/// Rows whose columns have no room: a line for each value.
fn listed(columns: &[Cells], rows: usize, room: usize) -> String {
    let label_width = columns.iter().map(|column| length(&column.heading) + 2).max().unwrap_or(0);
    let width = room.saturating_sub(label_width).max(NARROWEST);
    let mut out = String::new();
    for at in 0..rows {
        out.push_str(if at > 0 { "\n" } else { "" });
        for column in columns {
            let mut label = format!("{}:", column.heading);
            for line in lines(column.cells.get(at).map_or("", String::as_str), width) {
                out.push_str(&format!("{:SET_IN$}{label:label_width$}{line}\n", ""));
                label.clear();
            }
        }
    }
    out
}

/// A row: texts to the left, numbers to the right. Headings end in the same line.
fn row(cells: Vec<&str>, columns: &[Cells], widths: &[usize], is_heading: bool) -> String {
    let cells: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, width)| lines(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for at in 0..height {
        let mut line = " ".repeat(SET_IN);
        for ((cell, column), &width) in cells.iter().zip(columns).zip(widths) {
            let above = if is_heading { height - cell.len() } else { 0 };
            let text = at.checked_sub(above).and_then(|at| cell.get(at));
            let text = text.map_or("", String::as_str);
            line.push_str(&match column.is_number {
                true => format!("{text:>width$}"),
                false => format!("{text:width$}"),
            });
            line.push_str(&" ".repeat(GAP));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A text in lines of a width; a longer word loses its middle.
fn lines(text: &str, width: usize) -> Vec<String> {
    if length(text) <= width {
        return vec![text.to_owned()];
    }
    let words = text.split_whitespace().map(|word| shorten(word, width));
    wrapped(&words.collect::<Vec<_>>().join(" "), width)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Cells> {
        let kernel = "nvjet_sm90_tst_128x16_64x11_2x1_v_bz_TNT";
        let column = |heading: &str, is_number, cells: [&str; 2]| Cells {
            heading: heading.to_owned(),
            is_number,
            cells: cells.map(str::to_owned).to_vec(),
        };
        vec![
            column("kernel", false, [kernel, "copy"]),
            column("per step ms", true, ["0.4", "12.2"]),
            column("do", false, ["give each step more requests", "?"]),
            column("calls", true, ["12096", "7"]),
        ]
    }

    #[test]
    fn a_table_fits_the_terminal_and_leaves_out_the_last_numbers_first() {
        let shown = |width| table("kernels_seen", (2, 9), columns(), width);
        let expected = "
kernels seen (2 of 9):
                                             per
                                            step
  kernel                                      ms  do                            calls
  nvjet_sm90_tst_128x16_64x11_2x1_v_bz_TNT   0.4  give each step more requests  12096
  copy                                      12.2  ?                                 7
";
        assert_eq!(shown(90), expected);
        assert!(
            shown(100).contains("\n  kernel                                    per step ms  do ")
        );
        for width in [40, 48, 60, 80] {
            let text = shown(width);
            assert!(text.lines().all(|line| length(line) <= width), "{width}: {text}");
            assert!(text.contains("bz_TNT") && text.contains("requests"), "{width}: {text}");
            assert_eq!(text.contains("12096"), width > 45, "{width}: {text}");
        }
        let listed = table("t", (1, 1), columns(), 50);
        assert!(
            listed.contains("\n  per step ms: 0.4\n  do:          give each step more requests\n"),
            "{listed}"
        );
        assert!(
            table("t", (2, 2), columns(), 1).contains("\n  calls:       7\n"),
            "no room at all"
        );
    }

    #[test]
    fn headings_are_words_with_their_unit() {
        assert_eq!(heading("per_step_ms", Some("ms")), "per step ms");
        assert_eq!(heading("error_percent", Some("percent")), "error %");
        assert_eq!(heading("shares", Some("percent")), "shares %");
    }
}
