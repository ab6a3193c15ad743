//! The parts of an answer for a person at a terminal: wrapped text, and tables of aligned columns that fit its width.

use anstyle::{AnsiColor, Style};
use stage2_contract::text::broken;

use crate::next::{NARROWEST, command_lines};

/// Rows of one of the first two tables where no budget was asked for, and of each other one.
pub(crate) const FIRST_ROWS: usize = 5;
pub(crate) const FEW_ROWS: usize = 3;
/// Texts up to this width keep their column.
const TEXT_WIDTH: usize = 16;
/// Texts up to this width do not break.
const SHORT: usize = 12;
/// Lines of a text in a column; a longer one stands below its row.
const CELL_LINES: usize = 2;
/// What is not known.
pub(crate) const NONE: &str = "–";
/// In front of a table.
const SET_IN: usize = 2;
/// Between two columns.
const GAP: usize = 2;

/// A column of a table as text.
pub(crate) struct Cells {
    pub(crate) heading: String,
    pub(crate) is_number: bool,
    pub(crate) cells: Vec<String>,
    /// What its values are of; empty: its heading says it.
    pub(crate) about: String,
}

impl Cells {
    /// Puts its standard error behind each number: `27.5 ± 3.2`.
    pub(crate) fn with_errors(&mut self, errors: impl Iterator<Item = String>) {
        for (cell, error) in self.cells.iter_mut().zip(errors) {
            if cell != NONE && error != NONE {
                cell.push_str(&format!(" ± {error}"));
            }
        }
    }

    fn of_cells(&self) -> usize {
        self.cells.iter().map(|cell| length(cell)).max().unwrap_or(0)
    }

    /// The width at which no cell wraps.
    fn width(&self) -> usize {
        self.of_cells().max(length(&self.heading))
    }

    /// The width that it needs: a number does not break, and a heading or a text takes a few lines of whole words.
    fn least(&self) -> usize {
        let longest_word = |text: &str| text.split(' ').map(length).max().unwrap_or(0);
        let fits = |cell: &str, width| broken(cell, width).len() <= CELL_LINES;
        let heading = longest_word(&self.heading)..length(&self.heading);
        let word = heading.clone().find(|&width| fits(&self.heading, width)).unwrap_or(heading.end);
        if self.is_number {
            return self.of_cells().max(word);
        }
        if self.of_cells() <= SHORT {
            return self.of_cells().max(word);
        }
        let needed = self.cells.iter().map(|cell| {
            let widths = longest_word(cell)..length(cell);
            widths.clone().find(|&width| fits(cell, width)).unwrap_or(widths.end)
        });
        needed.max().unwrap_or(0).max(word)
    }
}

/// A name in words, with the unit where the name does not have it.
pub(crate) fn heading(name: &str, unit: Option<&str>) -> String {
    let is_percent = unit == Some("percent") && !name.contains("percent");
    let words = name.replace('_', " ").replace("percent", "%");
    if is_percent { words + " %" } else { words }
}

/// A value of the schema, such as `of_engine`, in words; a text that is none as it is.
pub(crate) fn words(value: String) -> String {
    match value.as_str() {
        "of_engine" => "engine step".to_owned(),
        "instance" => "call".to_owned(),
        "range_within" => "inner range".to_owned(),
        _ if value.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => {
            value.replace('_', " ")
        }
        _ => value,
    }
}

/// What a verdict of a comparison says, in the words of `diff`.
pub(crate) fn verdict(value: &str) -> &str {
    match value {
        "none" => "no clear change",
        "increased" => "more",
        "decreased" => "less",
        "unknown" => "inconclusive",
        other => other,
    }
}

/// Code without the folders of its file: `f (a/b.py:3 and 2 more lines)` is `f (b.py:3 and 2 more lines)`.
pub(crate) fn without_folders(text: &str) -> String {
    let Some((function, place)) = text.split_once(" (") else { return text.to_owned() };
    let (path, rest) = place.split_at(place.find([' ', ')']).unwrap_or(place.len()));
    let file = path.rsplit('/').next().unwrap_or(path);
    format!("{function} ({file}{rest}")
}

const BOLD: Style = Style::new().bold();
const TITLE: Style = AnsiColor::Cyan.on_default().bold();
const DIMMED: Style = Style::new().dimmed();

/// Each line in a style.
fn styled(lines: impl IntoIterator<Item = String>, style: Style) -> String {
    lines.into_iter().map(|line| format!("{style}{line}{style:#}\n")).collect()
}

/// The answer, in lines of a width.
pub(crate) fn answer(text: &str, width: usize) -> String {
    styled(broken(text, width.max(NARROWEST)), BOLD)
}

/// What the columns of a table are of, below it: what several have in common once.
fn legend(columns: &[&Cells], width: usize) -> String {
    let mut parts: Vec<(String, &str)> = Vec::new();
    for column in columns.iter().filter(|column| !column.about.is_empty()) {
        match parts.iter_mut().find(|(_, about)| *about == column.about) {
            Some((headings, _)) => headings.push_str(&format!(", {}", column.heading)),
            None => parts.push((column.heading.clone(), &column.about)),
        }
    }
    let parts: Vec<String> =
        parts.iter().map(|(headings, about)| format!("{headings}: {about}")).collect();
    if parts.is_empty() {
        return String::new();
    }
    let shown = broken(&parts.join("; "), width.saturating_sub(SET_IN).max(NARROWEST));
    styled(shown.into_iter().map(|line| format!("{:SET_IN$}{line}", "")), DIMMED)
}

/// A text behind its label, in lines of a width.
pub(crate) fn labelled_text(label: &str, text: &str, width: usize) -> String {
    let shown = broken(&format!("{label} {text}"), width.max(NARROWEST)).join("\n") + "\n";
    shown.replacen(label, &format!("{TITLE}{label}{TITLE:#}"), 1)
}

/// A label, and below it a command that can be copied; next to it where that fits.
pub(crate) fn command(label: &str, words: &[String], width: usize) -> String {
    let label_width = length(label) + 1;
    if let [line] = &*command_lines(words, width.saturating_sub(label_width).max(NARROWEST))
        && label_width + length(line) <= width
    {
        return format!("{TITLE}{label}{TITLE:#} {line}\n");
    }
    let mut out = styled(broken(label, width.max(NARROWEST)), TITLE);
    for line in command_lines(words, width.saturating_sub(SET_IN).max(NARROWEST)) {
        out.push_str(&format!("{:SET_IN$}{line}\n", ""));
    }
    out
}

/// Commands that can be copied, below a label.
pub(crate) fn commands(
    label: &str,
    all: impl Iterator<Item = Vec<String>>,
    width: usize,
) -> String {
    let room = width.saturating_sub(SET_IN).max(NARROWEST);
    let lines = all.flat_map(|words| command_lines(&words, room));
    let lines: String = lines.map(|line| format!("{:SET_IN$}{line}\n", "")).collect();
    format!("\n{TITLE}{label}:{TITLE:#}\n{lines}")
}

/// A table below its name. `of`: rows that are shown, and that there are. A text that has no room in its column stands
/// on lines below its row, the widest first; then columns are left out, the last numbers first.
pub(crate) fn table(name: &str, of: (usize, usize), columns: Vec<Cells>, width: usize) -> String {
    let (shown, all) = of;
    let rows = if shown < all { format!(" ({shown} of {all})") } else { String::new() };
    let title = broken(&format!("{name}{rows}:"), width.max(NARROWEST));
    format!("\n{}{}", styled(title, TITLE), rows_of(of, columns, width, false))
}

/// The rows of a [`table`] below their headings. `keeps_all`: where columns would be left out, each value has a line.
pub(crate) fn rows_of(
    of: (usize, usize),
    mut columns: Vec<Cells>,
    width: usize,
    keeps_all: bool,
) -> String {
    let room = width.saturating_sub(SET_IN);
    let gaps = |columns: &[Cells]| columns.len().saturating_sub(1) * GAP;
    let needed =
        |columns: &[Cells]| columns.iter().map(Cells::least).sum::<usize>() + gaps(columns);
    let (shown, all) = of;
    let mut out = String::new();
    let natural = columns.iter().map(Cells::width).sum::<usize>() + gaps(&columns);
    let list = |columns: &[Cells]| {
        let all: Vec<&Cells> = columns.iter().collect();
        listed(columns, shown, room) + &legend(&all, width)
    };
    if all == 1 && natural > room {
        return out + &list(&columns);
    }
    let mut below: Vec<(usize, Cells)> = Vec::new();
    while needed(&columns) > room
        && columns.len() > 1
        && let Some(widest) = widest_text(&columns)
    {
        // In the order of the columns: where it stood before any was moved.
        let column = columns.remove(widest);
        below.push((moved_from(widest, &below), column));
        below.sort_by_key(|(at, _)| *at);
    }
    let texts = columns.iter().filter(|column| !column.is_number);
    let has_no_room = texts.map(|column| column.least() + GAP).sum::<usize>() > room + GAP
        || columns.iter().all(|column| column.least() > room)
        || keeps_all && needed(&columns) > room;
    if has_no_room && columns.len() + below.len() > 1 {
        below.into_iter().for_each(|(at, column)| columns.insert(at, column));
        return out + &list(&columns);
    }
    while needed(&columns) > room
        && let Some(last) = columns.iter().rposition(|column| column.is_number)
    {
        columns.remove(last);
    }
    let mut widths: Vec<usize> = columns.iter().map(Cells::width).collect();
    let gaps = gaps(&columns);
    let least: Vec<usize> = columns.iter().map(Cells::least).collect();
    // The headings of numbers break before any text does.
    if widths.iter().sum::<usize>() + gaps > room {
        let numbers = columns.iter().zip(&least).zip(&mut widths);
        let numbers = numbers.filter(|((column, _), _)| column.is_number);
        numbers.for_each(|((_, least), width)| *width = *least);
    }
    while widths.iter().sum::<usize>() + gaps > room {
        let with_least = least.iter().zip(&mut widths);
        let wide = with_least.filter(|(least, width)| **width > (**least).min(room));
        let Some((_, width)) = wide.max_by_key(|(_, width)| **width) else { break };
        *width -= 1;
    }
    let headings = columns.iter().map(|column| column.heading.as_str()).collect();
    out.push_str(&row(headings, &columns, &widths, true));
    for at in 0..shown {
        let cells = columns.iter().map(|column| column.cells.get(at).map_or("", String::as_str));
        out.push_str(&row(cells.collect(), &columns, &widths, false));
        for (_, column) in &below {
            let cell = column.cells.get(at).map_or(NONE, String::as_str);
            if cell != NONE {
                let label = format!("{}: ", column.heading);
                let room = room.saturating_sub(SET_IN);
                let above = at.checked_sub(1).and_then(|above| column.cells.get(above));
                let is_said = above.is_some_and(|above| above == cell);
                let is_long = length(&label) + length(cell) > room;
                let cell = if is_said && is_long { "as above" } else { cell };
                out.push_str(&labelled(&label, cell, 2 * SET_IN, room));
            }
        }
    }
    let told: Vec<&Cells> = columns.iter().chain(below.iter().map(|(_, column)| column)).collect();
    out + &legend(&told, width)
}

/// The column of texts that takes most room, of those that are not short.
fn widest_text(columns: &[Cells]) -> Option<usize> {
    let texts = columns.iter().enumerate().filter(|(_, column)| !column.is_number);
    let long = texts.filter(|(_, column)| column.of_cells() > TEXT_WIDTH);
    long.max_by_key(|(_, column)| column.of_cells()).map(|(at, _)| at)
}

/// The place of a column among all, from its place among those that are left; `gone`: the places of the others, in order.
fn moved_from(at: usize, gone: &[(usize, Cells)]) -> usize {
    gone.iter().fold(at, |at, (before, _)| if *before <= at { at + 1 } else { at })
}

/// A text behind its label: its other lines start below the first.
fn labelled(label: &str, text: &str, set_in: usize, room: usize) -> String {
    let label_width = length(label);
    let mut label = label;
    let mut out = String::new();
    for line in broken(text, room.saturating_sub(label_width).max(NARROWEST)) {
        out.push_str(&format!("{:set_in$}{label:label_width$}{line}\n", ""));
        label = "";
    }
    out
}

/// Rows whose columns have no room: a line for each value.
fn listed(columns: &[Cells], rows: usize, room: usize) -> String {
    let label_width = columns.iter().map(|column| length(&column.heading) + 2).max().unwrap_or(0);
    let mut out = String::new();
    for at in 0..rows {
        out.push_str(if at > 0 { "\n" } else { "" });
        for column in columns {
            let label = format!("{:label_width$}", format!("{}:", column.heading));
            let cell = column.cells.get(at).map_or("", String::as_str);
            out.push_str(&labelled(&label, cell, SET_IN, room));
        }
    }
    out
}

/// A row: texts to the left, numbers to the right. Headings end in the same line.
fn row(cells: Vec<&str>, columns: &[Cells], widths: &[usize], is_heading: bool) -> String {
    let cells: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, width)| broken(cell, *width)).collect();
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

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its styles.
    fn plain(text: &str) -> String {
        let mut parts = text.split('\u{1b}');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |out, part| out + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    fn columns() -> Vec<Cells> {
        let kernel = "nvjet_sm90_tst_128x16_64x11_2x1_v_bz_TNT";
        let column = |heading: &str, is_number, cells: [&str; 2]| Cells {
            heading: heading.to_owned(),
            is_number,
            cells: cells.map(str::to_owned).to_vec(),
            about: String::new(),
        };
        vec![
            column("kernel", false, [kernel, "copy"]),
            column("per step ms", true, ["0.4", "12.2"]),
            column("do", false, ["give each step more requests", NONE]),
            column("calls", true, ["12096", "7"]),
        ]
    }

    #[test]
    fn a_table_fits_the_terminal_and_leaves_out_the_last_numbers_first() {
        let shown = |width| plain(&table("kernels seen", (2, 9), columns(), width));
        let expected = "
kernels seen (2 of 9):
                                                per
  kernel                                    step ms  do                            calls
  nvjet_sm90_tst_128x16_64x11_2x1_v_bz_TNT      0.4  give each step more requests  12096
  copy                                         12.2  –                                 7
";
        assert_eq!(shown(90), expected);
        assert!(
            shown(100).contains("\n  kernel                                    per step ms  do ")
        );
        let below = "
kernels seen (2 of 9):
  per step ms  do                            calls
          0.4  give each step more requests  12096
    kernel: nvjet_sm90_tst_128x16_64x11_2x1_v_bz_TNT
         12.2  –                                 7
    kernel: copy
";
        assert_eq!(shown(60), below);
        for width in [24, 40, 48, 60, 80] {
            let text = shown(width);
            assert!(text.lines().all(|line| length(line) <= width.max(40)), "{width}: {text}");
            let joined: String = text.split_whitespace().collect();
            assert!(joined.contains("nvjet_sm90_tst_128x16_64x11_2x1_v_bz_TNT"), "{width}: {text}");
            assert!(joined.contains("givee") && joined.contains("requests"), "{width}: {text}");
        }
        let listed = plain(&table("t", (1, 1), columns(), 50));
        assert!(
            listed.contains("\n  per step ms: 0.4\n  do:          give each step more requests\n"),
            "{listed}"
        );
        assert!(
            plain(&table("t", (2, 2), columns(), 1)).contains("\n  calls:       7\n"),
            "no room at all"
        );
    }

    #[test]
    fn texts_below_a_row_keep_the_order_of_their_columns() {
        let text = |heading: &str, cell: &str| Cells {
            heading: heading.to_owned(),
            is_number: false,
            cells: vec![cell.to_owned(), NONE.to_owned()],
            about: String::new(),
        };
        let meaning = "a sentence that takes more lines than a narrow column should have, so that it \
                       stands below";
        let detail = "set operators.engine_steps=false in /opt/stage/engine_offline.py, or do nothing at all, \
                      which is right for most runs";
        let columns =
            vec![text("id", "few_steps"), text("meaning", meaning), text("detail", detail)];
        let expected = "
caveats:
  id
  few_steps
    meaning: a sentence that takes more lines than a
             narrow column should have, so that it
             stands below
    detail: set operators.engine_steps=false in
            /opt/stage/engine_offline.py, or do
            nothing at all, which is right for most
            runs
  –
";
        assert_eq!(plain(&table("caveats", (2, 2), columns, 54)), expected);
    }

    #[test]
    fn a_long_word_breaks_behind_a_separator_and_keeps_every_character() {
        let word = "(vllm/v1/worker/gpu/cudagraph_utils.py:401)";
        assert_eq!(broken(word, 30), ["(vllm/v1/worker/gpu/cudagraph_", "utils.py:401)"]);
        for width in 1..50 {
            assert_eq!(broken(word, width).concat(), word);
            assert!(broken(word, width).iter().all(|line| length(line) <= width), "{width}");
        }
    }

    #[test]
    fn values_of_the_schema_are_words() {
        let shown = ["of_engine", "instance", "host_ahead", "rank 0_1", "x/y_z"];
        let shown = shown.map(|value| words(value.to_owned()));
        assert_eq!(shown, ["engine step", "call", "host ahead", "rank 0_1", "x/y_z"]);
    }

    #[test]
    fn code_is_named_without_its_folders_and_columns_of_one_basis_say_it_once() {
        for (text, expected) in [
            ("f (a/b.py:3 and 2 more lines) in g", "f (b.py:3 and 2 more lines) in g"),
            ("f (b.py:3)", "f (b.py:3)"),
            ("waiting for the GIL", "waiting for the GIL"),
            ("f (a/b", "f (b"),
        ] {
            assert_eq!(without_folders(text), expected);
        }
        let mut all = columns();
        for (column, about) in all.iter_mut().zip(["", "a step", "what helps", "a step"]) {
            column.about = about.to_owned();
        }
        let all: Vec<&Cells> = all.iter().collect();
        let expected = "  per step ms, calls: a step;\n  do: what helps\n";
        assert_eq!(plain(&legend(&all, 30)), expected);
    }

    #[test]
    fn headings_are_words_with_their_unit() {
        assert_eq!(heading("per_step_ms", Some("ms")), "per step ms");
        assert_eq!(heading("error_percent", Some("percent")), "error %");
        assert_eq!(heading("shares", Some("percent")), "shares %");
    }
}
