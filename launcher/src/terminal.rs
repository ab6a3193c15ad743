//! What the user should know -> lines on stderr; results that were asked for -> stdout.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use crate::redaction;
use stage2_model::{Finding, Severity};

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

/// Where lines for the user go. Each starts with the name of the program: the workload writes to the
/// same terminal.
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

    pub(crate) fn progress(&self, text: &str) {
        if self.progress {
            line(Style::new().dimmed(), text);
        }
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

    /// A finding, as far as its weight asks for it.
    pub(crate) fn finding(&self, finding: &Finding) {
        let yellow = AnsiColor::Yellow.on_default();
        match finding.severity {
            Severity::Error => self.error(&finding.to_string()),
            Severity::Warning if self.verbosity >= Verbosity::Normal => {
                line(yellow, &format!("warning: {finding}"));
            }
            Severity::Note if self.verbosity >= Verbosity::Verbose => {
                line(Style::new().dimmed(), &format!("note: {finding}"));
            }
            Severity::Warning | Severity::Note => {}
        }
    }

    pub(crate) fn error(&self, text: &str) {
        line(AnsiColor::Red.on_default(), &format!("error: {text}"));
    }
}

/// A stderr that is closed is no reason to end: the workload runs on without our lines.
fn line(style: Style, text: &str) {
    let text = printable(&redaction::text(text));
    let _ = writeln!(anstream::stderr(), "{style}stage2-launch: {text}{style:#}");
}

/// Writes what the user asked for to stdout. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = anstream::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Text without characters that a terminal would obey: names come from anywhere.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(super::printable("a\u{1b}[2Jb\nc\u{9b}é"), "a\\u{1b}[2Jb\\nc\\u{9b}é");
    }
}
