//! What the user should know -> lines on stderr; results that were asked for -> stdout.

use std::io::{IsTerminal, Write as _};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use ratatui::crossterm::terminal::size;
use stage2_contract::text::numbers::count;
use stage2_contract::text::{shorten, visible, visible_path, wrapped};
use stage2_model::{Finding, Severity};
use stage2_read::progress::{Progress, Unit, observe};

use crate::redaction;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    Quiet,
    /// Warnings, the result, a line for each pass, and on a terminal all progress.
    Normal,
    /// Notes, the progress everywhere, and what is run.
    Verbose,
}

/// Between two lines that say how far a step is: on a terminal, and in a log.
const WATCHED_INTERVAL: Duration = Duration::from_secs(1);
const LOGGED_INTERVAL: Duration = Duration::from_secs(10);

/// Lines for the user start with the name of the program: the workload writes to the same terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    verbosity: Verbosity,
    progress: bool,
}

impl Terminal {
    pub(crate) fn new(verbosity: Verbosity) -> Terminal {
        let progress = verbosity == Verbosity::Verbose
            || (verbosity == Verbosity::Normal && std::io::stderr().is_terminal());
        Terminal { verbosity, progress }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    pub(crate) fn progress(&self, text: &str) {
        if self.progress {
            line(Style::new().dimmed(), text);
        }
    }

    /// Whether [`Terminal::status`] replaces its line: a log or -v keeps each.
    pub(crate) fn rewrites(&self) -> bool {
        self.verbosity == Verbosity::Normal && self.progress
    }

    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Progress of one of many short steps: the next line takes its place.
    pub(crate) fn status(&self, text: &str) {
        if !self.rewrites() {
            return self.progress(text);
        }
        clear_status();
        // The last column would begin a new line.
        let columns = width(&std::io::stderr()).unwrap_or(*WIDTHS.start()).saturating_sub(1);
        let text = printable(&format!("stage2-launch: {}", redaction::text(text)));
        let text = shorten(&text, columns);
        STATUS_CHARS.store(text.chars().count(), Ordering::Relaxed);
        let style = Style::new().dimmed();
        let mut stderr = anstream::stderr();
        let _ = write!(stderr, "{style}{text}{style:#}").and_then(|()| stderr.flush());
    }

    /// The end of a step that may have taken long: one line for each pass, also where nobody watches.
    pub(crate) fn milestone(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            line(Style::new().dimmed(), text);
        }
    }

    /// How long to wait between two lines that say how far a step is; nothing where none is wanted.
    pub(crate) fn progress_interval(&self) -> Option<Duration> {
        let watched = std::io::stderr().is_terminal();
        let interval = if watched { WATCHED_INTERVAL } else { LOGGED_INTERVAL };
        (self.verbosity >= Verbosity::Normal).then_some(interval)
    }

    /// What only the curious want to know.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            line(Style::new().dimmed(), text);
        }
    }

    pub(crate) fn result(&self, text: &str) {
        if self.verbosity >= Verbosity::Normal {
            line(Style::new(), text);
        }
    }

    /// Where what was written is: all that -q leaves of a success, for `$(...)` of a script.
    pub(crate) fn place(&self, path: &Path) {
        if self.is_quiet() {
            let _ = print(&format!("{}\n", visible_path(path)));
        }
    }

    /// A warning that -q does not hide: the result would mislead without it.
    pub(crate) fn warning(&self, finding: &Finding) {
        self.caution(&finding.to_string());
    }

    /// Prints a warning that is not a finding of a report.
    pub(crate) fn caution(&self, text: &str) {
        labelled(AnsiColor::Yellow.on_default(), "warning:", text);
    }

    /// A finding, as far as its weight asks for it.
    pub(crate) fn finding(&self, finding: &Finding) {
        match finding.severity {
            Severity::Error => self.error(&finding.to_string()),
            Severity::Warning if self.verbosity >= Verbosity::Normal => {
                self.warning(finding);
            }
            Severity::Note if self.verbosity >= Verbosity::Verbose => {
                line(Style::new().dimmed(), &format!("note: {finding}"));
            }
            Severity::Warning | Severity::Note => {}
        }
    }

    /// What a command came to: lines with a label each, separated by an empty line. They are wrapped where a
    /// terminal shows them, and have no prefix, because nothing of the workload comes after them.
    pub(crate) fn block(&self, lines: &[(&str, String, Style)]) {
        if self.verbosity < Verbosity::Normal || lines.is_empty() {
            return;
        }
        clear_status();
        let shown = laid_out(lines, width(&std::io::stderr()).unwrap_or(usize::MAX));
        let _ = write!(anstream::stderr(), "\n{shown}");
    }

    /// What is wrong, and in a line of its own what to do about it.
    pub(crate) fn error(&self, text: &str) {
        let (what, hint) = with_hint(text);
        labelled(AnsiColor::Red.on_default(), "error:", what);
        if let Some(hint) = hint {
            self.hint(hint);
        }
    }

    pub(crate) fn hint(&self, text: &str) {
        labelled(AnsiColor::Cyan.on_default(), "hint:", text);
    }
}

/// What is wrong, and behind the first semicolon outside of code and brackets, what to do about it.
fn with_hint(text: &str) -> (&str, Option<&str>) {
    let (mut code, mut brackets) = (false, 0u32);
    let is_end = |(at, c): &(usize, char)| {
        match c {
            '`' => code = !code,
            '(' if !code => brackets += 1,
            ')' if !code => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        !code && brackets == 0 && text.get(*at..).is_some_and(|rest| rest.starts_with("; "))
    };
    let end = text.char_indices().find(is_end);
    match end.and_then(|(at, _)| Some((text.get(..at)?, text.get(at + 2..)?))) {
        Some((what, hint)) => (what, Some(hint)),
        None => (text, None),
    }
}

/// Without the number that the system gives to an error, whose words stand in front of it.
fn without_numbers(text: &str) -> String {
    const BEGIN: &str = " (os error ";
    let mut parts = text.split(BEGIN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest.strip_prefix(')').filter(|_| rest.len() < part.len()) {
            Some(rest) => out.push_str(rest),
            None => out.extend([BEGIN, part]),
        }
    }
    out
}

/// Characters of a status that stands in the last line of the terminal.
static STATUS_CHARS: AtomicUsize = AtomicUsize::new(0);

/// By spaces, as no escape is sent where colours are off.
fn clear_status() {
    let chars = STATUS_CHARS.swap(0, Ordering::Relaxed);
    if chars > 0 {
        let _ = write!(anstream::stderr(), "\r{:chars$}\r", "");
    }
}

/// A line whose label has a colour: a long text in one is hard to read.
fn labelled(style: Style, label: &str, text: &str) {
    clear_status();
    let style = style.bold();
    let text = shown(&format!("{label} {text}"));
    let text = text.replacen(label, &format!("{style}{label}{style:#}"), 1);
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// A closed stderr does not end the program: the workload runs on without our lines.
fn line(style: Style, text: &str) {
    clear_status();
    let _ = writeln!(anstream::stderr(), "{style}{}{style:#}", shown(text));
}

/// A text behind the name of the program, as wide as the terminal.
fn shown(text: &str) -> String {
    let text = format!("stage2-launch: {}", redaction::text(text));
    let width = width(&std::io::stderr()).unwrap_or(usize::MAX);
    let line = |line: &str| in_lines(without_numbers(&printable(line)), width);
    text.split(LISTED).map(line).collect::<Vec<_>>().join(LISTED)
}

/// What stands in front of each part of a text that has a line of its own, such as a path that was looked at.
pub(crate) const LISTED: &str = "\n    ";

/// Widths that the variable COLUMNS may ask for.
const WIDTHS: RangeInclusive<usize> = 40..=1_000;

/// Columns of the terminal that shows a stream; without one, what COLUMNS asks for.
pub(crate) fn width(stream: &impl IsTerminal) -> Option<usize> {
    let asked = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    let size = stream.is_terminal().then(size).and_then(Result::ok);
    let columns = size.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
    columns.or_else(|| asked().filter(|columns| WIDTHS.contains(columns)))
}

/// Lines of the terminal that shows a stream.
pub(crate) fn height(stream: &impl IsTerminal) -> Option<usize> {
    let size = stream.is_terminal().then(size).and_then(Result::ok);
    size.map(|(_, lines)| usize::from(lines)).filter(|lines| *lines > 0)
}

/// Columns by which the further lines of a text are set in.
const SET_IN: usize = 4;

/// A text that is too long for a terminal breaks between words, where the terminal would break within them.
fn in_lines(text: String, width: usize) -> String {
    match text.chars().count() > width {
        true => {
            wrapped(&text, width.saturating_sub(SET_IN).max(20)).join(&format!("\n{:SET_IN$}", ""))
        }
        false => text,
    }
}

/// The label of what to do first: its text has its colour, too.
pub(crate) const EMPHASISED: &str = "FIRST";

/// Labels in one column, texts in another one. A text without a label goes on below the one before.
pub(crate) fn laid_out(lines: &[(&str, String, Style)], width: usize) -> String {
    let label_width = lines.iter().map(|(label, ..)| label.len() + 2).max().unwrap_or(0);
    let mut out = String::new();
    for (label, text, style) in lines {
        let text = printable(&redaction::text(text));
        let of_text = if *label == EMPHASISED { *style } else { Style::new() };
        let mut label = if label.is_empty() { String::new() } else { format!("{label}:") };
        for line in wrapped(&text, width.saturating_sub(label_width).max(20)) {
            let text = format!("{of_text}{line}{of_text:#}");
            out.push_str(&format!("{style}{label:label_width$}{style:#}{text}\n"));
            label.clear();
        }
    }
    out
}

/// Writes what the user asked for to stdout. A reader that has seen enough (`| head`) is not an error.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    clear_status();
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Text without characters that a terminal would obey: names come from anywhere.
pub(crate) fn printable(text: &str) -> String {
    visible(text.as_bytes())
}

/// Reading that takes less is not spoken of.
const QUIET: Duration = Duration::from_secs(2);
/// Readings with a longer pause between them are two.
const PAUSE: Duration = Duration::from_secs(2);

/// Says from now on how far readings are, where the user wants to know.
pub(crate) fn show_progress(terminal: Terminal) {
    let Some(interval) = terminal.progress_interval() else { return };
    let pace = Mutex::new(Pace::every(interval));
    observe(move |progress| {
        let is_due = pace.lock().unwrap_or_else(PoisonError::into_inner).is_due(Instant::now());
        if is_due {
            terminal.milestone(&reading_line(progress));
        }
    });
}

/// When a line is due. Several files may be read at the same time: they share the lines.
#[derive(Debug)]
struct Pace {
    interval: Duration,
    began: Option<Instant>,
    last_seen: Option<Instant>,
    last_line: Option<Instant>,
}

impl Pace {
    fn every(interval: Duration) -> Self {
        Pace { interval, began: None, last_seen: None, last_line: None }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let since = |then: Option<Instant>| then.map(|then| now.saturating_duration_since(then));
        if since(self.last_seen).is_none_or(|pause| pause > PAUSE) {
            self.began = Some(now);
        }
        self.last_seen = Some(now);
        let is_long = since(self.began).is_some_and(|taken| taken >= QUIET);
        let is_due = is_long && since(self.last_line).is_none_or(|ago| ago >= self.interval);
        if is_due {
            self.last_line = Some(now);
        }
        is_due
    }
}

fn reading_line(progress: &Progress) -> String {
    let Progress { what, done, total, unit } = progress;
    let (unit, shift) = match unit {
        Unit::Bytes => ("MiB", 20),
        Unit::Rows => ("rows", 0),
    };
    let mut done_of = count(done >> shift);
    if let Some(total) = total.filter(|total| total >= done) {
        done_of.push_str(&format!(" of {}", count(total >> shift)));
    }
    format!("reading {what}: {done_of} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_hint_apart() {
        let parts = [
            ("`a; b` is no run (see c; d); give one; or two", Some("give one; or two")),
            ("stdout cannot be written: broken pipe", None),
        ];
        for (text, hint) in parts {
            let (what, found) = with_hint(text);
            assert_eq!(found, hint);
            assert_eq!(what.len(), text.len() - hint.map_or(0, |hint| hint.len() + 2));
        }
        let text = "x: cannot be read (No such file or directory (os error 2)), (os error x)";
        let shown = "x: cannot be read (No such file or directory), (os error x)";
        assert_eq!(without_numbers(text), shown);
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(super::printable("a\u{1b}[2Jb\nc\u{9b}é"), "a\\x1b[2Jb\\nc\\u{9b}é");
    }

    #[test]
    fn a_block_has_its_labels_in_one_column_and_breaks_between_words() {
        let plain = Style::new();
        let lines = [
            ("time", "decode 2.150 ms per token (p50 of 8)".to_owned(), plain),
            ("report", "tmp/stage2/20261127-031638-12345/report.html".to_owned(), plain),
        ];
        let expected = [
            "time:   decode 2.150 ms per",
            "        token (p50 of 8)",
            "report: tmp/stage2/20261127-031638-12345/report.html",
        ];
        assert_eq!(laid_out(&lines, 30).lines().collect::<Vec<_>>(), expected);
        assert_eq!(laid_out(&lines, usize::MAX).lines().count(), 2, "no terminal, no width");
        assert!(laid_out(&lines, 1).lines().count() > 2);
        let green = AnsiColor::Green.on_default();
        let first =
            laid_out(&[("time", "1 s".into(), green), (EMPHASISED, "do it".into(), green)], 80);
        let coloured = |text: &str| format!("{green}{text}{green:#}");
        let expected = [coloured("time:  ") + "1 s", coloured("FIRST: ") + &coloured("do it")];
        assert_eq!(first.lines().collect::<Vec<_>>(), expected);
        let hostile = [("time", "a\u{1b}[2J\nb".to_owned(), plain)];
        assert_eq!(laid_out(&hostile, 80), "time: a\\x1b[2J\\nb\n");
    }

    #[test]
    fn a_long_line_breaks_between_words_and_a_short_one_stays() {
        let text =
            "stage2-launch: the demo runs on the simulated GPU: no driver is on this machine";
        let expected = "stage2-launch: the demo runs on the\n    simulated GPU: no driver is on this\n    machine";
        assert_eq!(in_lines(text.to_owned(), 40), expected);
        for width in [text.len(), usize::MAX] {
            assert_eq!(in_lines(text.to_owned(), width), text);
        }
    }

    fn lines_at(interval_s: u64, milliseconds: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let (begun, mut pace) = (Instant::now(), Pace::every(Duration::from_secs(interval_s)));
        let due = |ms: &u64| pace.is_due(begun + Duration::from_millis(*ms));
        milliseconds.into_iter().filter(due).collect()
    }

    #[test]
    fn short_readings_say_nothing_and_long_ones_one_line_an_interval() {
        assert_eq!(lines_at(1, (0..2_000).step_by(10)), [0_u64; 0]);
        assert_eq!(lines_at(1, (0..4_500).step_by(500)), [2_000, 3_000, 4_000]);
        assert_eq!(lines_at(10, (0..25_000).step_by(500)), [2_000, 12_000, 22_000]);
        // Two short readings with a pass of the workload between them.
        assert_eq!(lines_at(1, (0..1_900).chain(60_000..61_900)), [0_u64; 0]);
        // Two long ones, the second right after a line of the first.
        let both = (0..2_100).step_by(100).chain((4_200..7_000).step_by(100));
        assert_eq!(lines_at(1, both), [2_000, 6_200]);
    }

    #[test]
    fn a_line_says_what_is_read_and_how_much_of_it() {
        let mut progress = Progress {
            what: "run.sqlite, table NVTX_EVENTS".to_owned(),
            done: 1_200_000,
            total: Some(16_000_000),
            unit: Unit::Rows,
        };
        let whole = "reading run.sqlite, table NVTX_EVENTS: 1,200,000 of 16,000,000 rows";
        assert_eq!(reading_line(&progress), whole);
        // A file may lie about how much it has.
        progress.total = Some(7);
        let done = "reading run.sqlite, table NVTX_EVENTS: 1,200,000 rows";
        assert_eq!(reading_line(&progress), done);
        let (what, done, total) = ("node-1.s2t".to_owned(), 120 << 20, Some(840 << 20));
        let progress = Progress { what, done, total, unit: Unit::Bytes };
        assert_eq!(reading_line(&progress), "reading node-1.s2t: 120 of 840 MiB");
    }
}
