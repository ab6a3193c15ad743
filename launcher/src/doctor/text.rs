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
    // What was not checked may still keep a run from recording.
    let free = match not_checked {
        0 => "A run can record here",
        _ => "Nothing that was checked keeps a run from recording here",
    };
    match (problems, warnings) {
        (0, 0) => format!("{all}. {free}."),
        (0, _) => format!("{all}. {free}; the warnings cost parts of its results."),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::{Group, Known};

    const KNOWN: Known =
        Known { id: "x", group: Group::Gpu, looks_at: "", why: "", fixes: &[], explains: &[] };

    #[test]
    fn what_was_not_checked_is_not_called_fine() {
        let fine = Diagnosis::of(vec![KNOWN.ok("fine")]);
        assert!(summary(&fine).ends_with("A run can record here."), "{}", summary(&fine));
        let open = Diagnosis::of(vec![KNOWN.ok("fine"), KNOWN.not_checked("no answer")]);
        assert!(summary(&open).contains("Nothing that was checked"), "{}", summary(&open));
    }
}
