//! Markdown of our own pages -> text for a terminal: wrapped paragraphs, and tables of aligned columns that fit its width.

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::ABSENT;
use stage2_contract::text::{broken, wrapped};

use crate::table::KERNELS;

/// A text of several words wraps in a column that is wider than this.
const NARROW: usize = 16;
/// A longer word breaks.
const LONGEST_WORD: usize = 28;
/// Between two columns.
const GAP: &str = "  ";
/// In front of what has no room in the row above it.
const SET_IN: usize = 4;
const LEAST_WIDTH: usize = 40;

/// The page in lines of a width. Blocks of code are as wide as they are.
pub(crate) fn aligned(markdown: &str, width: usize) -> String {
    let width = width.max(LEAST_WIDTH);
    let mut out = String::new();
    let mut text = String::new();
    let mut table = Table::default();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Text(part) | Event::Code(part) | Event::Html(part) | Event::InlineHtml(part) => {
                text.push_str(&part);
            }
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            Event::Start(Tag::Table(alignments)) => table = Table::of(&alignments),
            Event::End(TagEnd::TableCell) => table.add(std::mem::take(&mut text)),
            Event::End(TagEnd::Table) => out.push_str(&(table.text(width) + "\n")),
            Event::End(TagEnd::CodeBlock) => out.push_str(&(std::mem::take(&mut text) + "\n")),
            Event::End(TagEnd::Heading(_)) => {
                let title = std::mem::take(&mut text);
                let line = "─".repeat(length(&title).min(width));
                out.push_str(&format!("{title}\n{line}\n"));
            }
            Event::End(TagEnd::Item) => {
                let mut head = "- ";
                for line in wrapped(&std::mem::take(&mut text), width - head.len()) {
                    out.push_str(&format!("{head}{line}\n"));
                    head = "  ";
                }
            }
            Event::End(TagEnd::Paragraph) => {
                let lines = wrapped(&std::mem::take(&mut text), width);
                out.extend(lines.into_iter().map(|line| line + "\n").chain(["\n".to_owned()]));
            }
            Event::End(TagEnd::List(_)) => out.push('\n'),
            _ => {}
        }
    }
    out
}

#[derive(Default)]
struct Table {
    columns: Vec<Column>,
    cells: usize,
}

impl Table {
    fn of(alignments: &[Alignment]) -> Self {
        let column =
            |of: &Alignment| Column { is_number: *of == Alignment::Right, ..Column::default() };
        Self { columns: alignments.iter().map(column).collect(), cells: 0 }
    }

    /// Adds the next cell of a row; the first row has the headings.
    fn add(&mut self, text: String) {
        let columns = self.columns.len().max(1);
        let (row, at) = (self.cells / columns, self.cells % columns);
        self.cells += 1;
        let Some(column) = self.columns.get_mut(at) else { return };
        match row {
            0 => column.heading = text,
            _ => column.cells.push(text),
        }
    }

    /// The table in lines of a width. A column of texts without room, the last one first, stands on a line below each row.
    fn text(&mut self, width: usize) -> String {
        let columns = std::mem::take(&mut self.columns);
        let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
        let (mut beside, mut below): (Vec<Column>, Vec<Column>) = (columns, Vec::new());
        let needed = |columns: &[Column]| {
            let gaps = columns.len().saturating_sub(1) * GAP.len();
            columns.iter().map(Column::least).sum::<usize>() + gaps
        };
        while needed(&beside) > width && beside.len() > 1 {
            // What nearly no row has first.
            let of_few = beside.iter().skip(1).rposition(Column::is_of_few);
            let text =
                of_few.or_else(|| beside.iter().skip(1).rposition(|column| !column.is_number));
            below.insert(0, beside.remove(text.map_or(beside.len() - 1, |at| at + 1)));
        }
        let mut widths: Vec<usize> =
            beside.iter().map(|column| column.least().min(width)).collect();
        let gaps = beside.len().saturating_sub(1) * GAP.len();
        let mut room = width.saturating_sub(widths.iter().sum::<usize>() + gaps);
        for (column, width) in beside.iter().zip(&mut widths) {
            let more = column.natural().saturating_sub(*width).min(room);
            *width += more;
            room -= more;
        }
        for (column, width) in beside.iter_mut().zip(&widths) {
            if column.heading == KERNELS {
                column.cells = one_line_each(&column.cells, *width);
            }
        }
        let headings = beside.iter().map(|column| column.heading.as_str());
        let mut out = line_up(headings.collect(), &beside, &widths, true);
        let rule = widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join(GAP);
        out.push_str(&format!("{rule}\n"));
        for row in 0..rows {
            let cell = |column: &'_ Column| column.cells.get(row).cloned().unwrap_or_default();
            let cells: Vec<String> = beside.iter().map(cell).collect();
            out.push_str(&line_up(
                cells.iter().map(String::as_str).collect(),
                &beside,
                &widths,
                false,
            ));
            let said = below.iter().map(|column| (&column.heading, cell(column)));
            let said = said.filter(|(_, cell)| !cell.is_empty() && cell != ABSENT);
            let said: Vec<String> =
                said.map(|(heading, cell)| format!("{heading}: {cell}")).collect();
            if said.is_empty() {
                continue;
            }
            for line in broken(&said.join("; "), width - SET_IN) {
                out.push_str(&format!("{:SET_IN$}{line}\n", ""));
            }
        }
        out
    }
}

#[derive(Default)]
struct Column {
    is_number: bool,
    heading: String,
    cells: Vec<String>,
}

impl Column {
    fn of_cells(&self) -> usize {
        self.cells.iter().map(|cell| length(cell)).max().unwrap_or(0)
    }

    /// Whether nearly all of its cells are empty.
    fn is_of_few(&self) -> bool {
        let empty = self.cells.iter().filter(|cell| cell.is_empty() || *cell == ABSENT).count();
        !self.is_number && empty * 5 >= self.cells.len() * 4
    }

    /// The width at which nothing wraps.
    fn natural(&self) -> usize {
        self.of_cells().max(length(&self.heading))
    }

    /// A number does not break. A heading and a longer text do, between words.
    fn least(&self) -> usize {
        let word = |text: &str| text.split(' ').map(length).max().unwrap_or(0);
        let cells = match self.is_number {
            true => self.of_cells(),
            false => {
                let words = self.cells.iter().map(|cell| word(cell)).max().unwrap_or(0);
                self.of_cells().min(words.clamp(NARROW, LONGEST_WORD))
            }
        };
        cells.max(word(&self.heading).min(LONGEST_WORD))
    }
}

/// Names of kernels in lines of a width: both of a pair, and each without its middle, of which as much stays as tells them
/// apart.
fn one_line_each(cells: &[String], width: usize) -> Vec<String> {
    let names = |cell: &String| cell.split(PAIRED).map(str::to_owned).collect::<Vec<_>>();
    let all: Vec<String> = cells.iter().flat_map(names).collect();
    let room = width.saturating_sub(PAIRED.trim_end().chars().count());
    let cut = |name: &str, head: usize| {
        let length = length(name);
        if length <= room {
            return name.to_owned();
        }
        let tail = room.saturating_sub(head + 1);
        let ends = name.chars().take(head).chain(['…']).chain(name.chars().skip(length - tail));
        ends.collect()
    };
    let tied = |name: String| name.replace(' ', TIED);
    let mut heads: Vec<usize> = (room / 4..room).collect();
    heads.order_by_key(|head| head.abs_diff(room / 2));
    let different = |head: &usize| {
        let shown: std::collections::BTreeSet<String> =
            all.iter().map(|name| cut(name, *head)).into_set();
        shown.len()
    };
    let most = heads.iter().map(different).max();
    let head = heads.iter().copied().find(|head| Some(different(head)) == most);
    let head = head.unwrap_or(room / 2);
    let shown = |cell: &String| {
        let names = cell.split(PAIRED).map(|name| tied(cut(name, head)));
        names.collect::<Vec<_>>().join(PAIRED)
    };
    cells.iter().map(shown).collect()
}

/// Between the names of a kernel before and after.
const PAIRED: &str = " → ";
/// Stands for a space at which no line breaks.
const TIED: &str = "\u{1}";

/// The cells of a row, each in lines of its width: texts to the left, numbers to the right. Headings end in one line.
fn line_up(cells: Vec<&str>, columns: &[Column], widths: &[usize], is_heading: bool) -> String {
    let cells: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, width)| broken(cell, *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for at in 0..height {
        let texts = cells.iter().zip(columns).zip(widths).map(|((cell, column), &width)| {
            let above = if is_heading { height - cell.len() } else { 0 };
            let text = at.checked_sub(above).and_then(|at| cell.get(at));
            let text = text.map_or("", String::as_str);
            if column.is_number { format!("{text:>width$}") } else { format!("{text:width$}") }
        });
        let line = texts.collect::<Vec<_>>().join(GAP);
        out.push_str(&format!("{}\n", line.trim_end().replace(TIED, " ")));
    }
    out
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# b1 → g1

- before: `b1` · 1x NVIDIA H200

## Stages

| Stage | Number | Before | Change (%) | Difference | Metric for --fail-if |
| --- | --- | ---: | ---: | --- | --- |
| `decode` | ms per token, p50 | 12.133 | -81.0 | better | `token_ms` |
| `nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT_and_more_of_it` | – | 1\\|2 | +4 | within noise | – |

The table leaves out 1 range outside of the model.
";

    #[test]
    fn kernels_keep_one_line_each_and_stay_different() {
        let names =
            ["scale_a_very_long_name_<float, 1, 2>", "scale_a_very_long_name_<half, 1, 2>", "b"];
        let row = |name: &&str| format!("| `{name}` → `{name}_v2` | 1.0 |\n");
        let rows: String = names.iter().map(row).collect();
        let page = aligned(&format!("| GPU work | us |\n| --- | ---: |\n{rows}"), 40);
        let lines: Vec<&str> = page.lines().skip(2).collect();
        assert_eq!(lines.len(), 6, "a line for each name of a pair, and an empty one: {page}");
        assert!(lines[0].contains('…') && lines[0] != lines[2], "{page}");
        assert!(!page.contains(TIED) && page.lines().all(|line| length(line) <= 40), "{page}");
    }

    #[test]
    fn a_page_fits_and_keeps_every_word() {
        let expected = "\
b1 → g1
───────
- before: b1 · 1x NVIDIA H200

Stages
──────
                                                            Change
Stage                             Number            Before     (%)  Difference
────────────────────────────────  ────────────────  ──────  ──────  ────────────
decode                            ms per token,     12.133   -81.0  better
                                  p50
    Metric for --fail-if: token_ms
nvjet_sm90_tst_64x8_64x16_2x1_v_  –                    1|2      +4  within noise
bz_TNT_and_more_of_it

The table leaves out 1 range outside of the model.

";
        assert_eq!(aligned(PAGE, 80), expected);
        for width in 1..160 {
            let page = aligned(PAGE, width);
            let fits = |line: &str| length(line) <= width.max(LEAST_WIDTH);
            assert!(page.lines().all(fits), "{width}: {page}");
            let joined: String = page.split_whitespace().collect();
            for word in ["nvjet_sm90", "withinnoise", "token_ms", "12.133", "-81.0", "ofthemodel."]
            {
                assert!(joined.contains(word), "{width}, {word}: {page}");
            }
        }
        assert!(!aligned(PAGE, 159).contains("Metric for --fail-if: "), "it has room");
        assert_eq!(aligned("```text\nas  it is\n```\n", 40), "as  it is\n\n");
    }
}
