//! Checks -> lines for a person.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::{Diagnosis, Status};

/// The checks by group, one line each, with what to do below it; `verbose`: with what each follows from.
pub(crate) fn show(diagnosis: &Diagnosis, verbose: bool) -> String {
    let mut text = String::new();
    let mut group = None;
    for check in &diagnosis.checks {
        if group.replace(check.group) != Some(check.group) {
            let _ = writeln!(
                text,
                "{}{}",
                if text.is_empty() { "" } else { "\n" },
                check.group.title()
            );
        }
        let style = style(check.status);
        let word = check.status.word();
        let _ = writeln!(text, "  {style}{word:<11}{style:#}  {:<17}  {}", check.id, check.what);
        if let Some(fix) = check.fix {
            let _ = writeln!(text, "{:33}to do: {fix}", "");
        }
        if verbose && check.is_bad() {
            let _ = writeln!(text, "{:33}why: {}", "", check.why);
        }
        for line in check.details.iter().filter(|_| verbose) {
            let _ = writeln!(text, "{:33}{line}", "");
        }
    }
    let _ = writeln!(text, "\n{}", summary(diagnosis));
    text
}

fn summary(diagnosis: &Diagnosis) -> String {
    let Diagnosis { problems, warnings, not_checked, checks, .. } = diagnosis;
    let counted =
        |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let all = format!(
        "{}, {}, {not_checked} not checked, of {} checks",
        counted(*problems, "problem"),
        counted(*warnings, "warning"),
        checks.len()
    );
    match (problems, warnings) {
        (0, 0) => format!("{all}. A run can record here."),
        (0, _) => format!("{all}. A run can record here; the warnings cost parts of its results."),
        _ => format!("{all}. A run would record nothing, or too little: solve the problems first."),
    }
}

fn style(status: Status) -> Style {
    match status {
        Status::Ok => AnsiColor::Green.on_default(),
        Status::NotChecked => Style::new().dimmed(),
        Status::Warning => AnsiColor::Yellow.on_default(),
        Status::Problem => AnsiColor::Red.on_default(),
    }
}
