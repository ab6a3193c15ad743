//! What a command came to -> the last lines that the user reads, and the report in a browser.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::Deserialize as _;
use stage2_contract::text::visible_path;
use stage2_model::finding::Id;
use stage2_model::{AnswerLine, EmptyReason, EndedBy, Finding, PassStatus, Severity, Status};

use crate::bundle::{self, Bundle, LATEST, RunFolder, RunRecord, file_list};
use crate::config::Run;
use crate::failure::Failure;
use crate::plan::quote;
use crate::reports::Outcome;
use crate::run::Signals;
use crate::terminal::{EMPHASISED, Terminal, print};
use crate::threads;

/// Ends report.md with the list of all files, once they have the size that they keep.
pub(super) fn list_files(outcome: &anyhow::Result<Outcome>, run_dir: &Path, terminal: &Terminal) {
    if outcome.is_ok()
        && run_dir.exists()
        && let Err(error) = file_list::list_files(run_dir)
    {
        terminal.error(&format!("report.md does not list the files of the bundle: {error:#}"));
    }
}

/// What is wrong, and with `--verbose` what the answer is based on.
pub(super) fn tell_findings(
    record: &RunRecord,
    outcome: &anyhow::Result<Outcome>,
    dir: &Path,
    allow_empty: bool,
    terminal: &Terminal,
) {
    // Where nothing was recorded, the reason is the answer; the rest is in the report.
    let is_empty = outcome.as_ref().is_ok_and(|outcome| outcome.status == Status::Empty);
    for finding in &record.report_findings {
        match finding.severity {
            // What a demo shows first is the answer; the page has the rest.
            Severity::Warning if is_empty || record.is_demo() => {
                terminal.detail(&format!("warning: {finding}"))
            }
            Severity::Warning if finding.id == Id::WorkloadEnded => {
                terminal.error(&finding.to_string())
            }
            // The last lines show it, unless nothing is to be shown but errors. The exit status comes with the remedy.
            Severity::Error if is_empty && finding.id == Id::GpuNoWork => {
                match allow_empty && !record.failed_by_itself() {
                    true if terminal.is_quiet() => terminal.caution(&finding.what),
                    false if terminal.is_quiet() => terminal.error(&finding.what),
                    _ => {}
                }
            }
            // The rest is a result.
            Severity::Error if !is_empty && finding.id == Id::TraceUnreadable => {
                let given = as_given(finding, record, dir);
                terminal.warning(given.as_ref().unwrap_or(finding));
            }
            _ => terminal.finding(finding),
        }
    }
    let evidence = outcome.iter().flat_map(|outcome| &outcome.headline.evidence);
    evidence.for_each(|line| terminal.detail(line));
}

/// A finding on a copy in the bundle, of the file that was given in its place; none: it is on something else.
pub(super) fn as_given(finding: &Finding, record: &RunRecord, dir: &Path) -> Option<Finding> {
    let merged = record.passes.iter().flat_map(|pass| &pass.merged);
    let mut copies = merged.map(|(copy, from)| (visible_path(&dir.join(copy)), from));
    let (copy, from) = copies.find(|(copy, _)| finding.what.contains(copy))?;
    let what = finding.what.replace(&copy, &visible_path(Path::new(from)));
    Some(Finding { what, ..finding.clone() })
}

/// The last lines: the answer, a fact in each line where there is a verdict, the run before that `latest` stays with
/// (`kept`), and where the report is.
pub(super) fn tell_answer(
    record: &RunRecord,
    outcome: &anyhow::Result<Outcome>,
    dir: &Path,
    kept: Option<String>,
    terminal: &Terminal,
) {
    let answer = outcome.as_ref().map_or(&[][..], |outcome| &outcome.headline.answer);
    let status = outcome.as_ref().map_or(Status::Empty, |outcome| outcome.status);
    let mut lines = shown(answer);
    if record.simulated && !lines.iter().any(|(_, text)| text.contains("simulated GPU")) {
        lines.push(("GPU", "simulated: no real GPU took part in this run".to_owned()));
    }
    let cut = record.passes.iter().find(|pass| pass.status == PassStatus::Interrupted);
    if let Some(ms) = cut.and_then(|pass| pass.duration_ms).filter(|_| !lines.is_empty()) {
        let until = format!("until {}: ", EndedBy::Interrupt.until());
        for (_, text) in &mut lines {
            *text = text.strip_prefix(&until).unwrap_or(text).to_owned();
        }
        // As the line of the pass has it.
        let seconds = ms as f64 / 1000.0;
        lines.insert(0, ("ended", format!("interrupted after {seconds:.1} s")));
    }
    // Of a run, the command may name the model; whoever merges has to.
    let is_merge = record.passes.iter().any(|pass| !pass.merged.is_empty());
    let has_floor = lines.iter().any(|(_, text)| text.contains("floor"));
    let evidence = || outcome.iter().flat_map(|outcome| &outcome.headline.evidence);
    if is_merge && !has_floor && lines.iter().any(|(label, _)| *label == "verdict") {
        let unknown = evidence().find_map(|line| line.strip_prefix("floor: "));
        let at = lines.iter().position(|(label, _)| [WARNINGS, "coverage"].contains(label));
        let line = unknown.map(|text| ("floor", text.to_owned()));
        let at = at.unwrap_or(lines.len());
        lines.splice(at..at, line);
    }
    // Those of a demo are not told above.
    let told = record.report_findings.iter().filter(|of| of.severity == Severity::Warning).count();
    for (_, text) in lines.iter_mut().filter(|(label, _)| *label == WARNINGS && !record.is_demo()) {
        let number = text.split_once(", the first: ").map_or("1", |(number, _)| number);
        if number == told.to_string() {
            *text = format!("{number}, above");
        }
    }
    // A cause has a line.
    let empty = outcome.as_ref().ok().map(|outcome| &outcome.coverage["empty"]);
    let also = empty.and_then(|empty| Vec::<EmptyReason>::deserialize(&empty["also"]).ok());
    let coverage = lines.iter_mut().position(|(label, _)| *label == "coverage");
    if let Some((at, also)) = coverage.zip(also.filter(|also| !also.is_empty()))
        && let Some((head, _)) = lines[at].1.split_once("; also: ")
    {
        lines[at].1 = head.to_owned();
        lines.splice(at + 1..at + 1, also.into_iter().map(|of| ("also", of.why)));
    }
    lines.extend(kept.map(|text| (LATEST, text)));
    let page = dir.join(PAGE);
    match (outcome.is_ok() && page.exists(), dir.exists()) {
        (true, _) => {
            lines.push(("report", visible_path(&page)));
            // What comes next after other runs, the line above says.
            if lines.iter().any(|(label, _)| *label == "verdict") {
                lines.push(("next", format!("stage2-launch next {}", quote(dir))));
            }
        }
        (false, true) => lines.push(("bundle", visible_path(dir).to_string())),
        (false, false) => {}
    }
    let lines: Vec<(&str, String, Style)> =
        lines.into_iter().map(|(label, text)| (label, text, style_of(label, status))).collect();
    terminal.block(&lines);
}

/// Label of the line that counts warnings.
const WARNINGS: &str = "warnings";

/// The lines of an answer with their labels: the first of those that say that the GPU is simulated is enough for all.
pub(super) fn shown(answer: &[AnswerLine]) -> Vec<(&str, String)> {
    let lines = answer.iter();
    let mut lines: Vec<(&str, String)> =
        lines.map(|line| (&*line.label, line.text.clone())).collect();
    let said = lines.iter().position(|(_, text)| text.contains(SIMULATED));
    for (_, text) in lines.iter_mut().skip(said.map_or(usize::MAX, |said| said + 1)) {
        *text = text.replace(SIMULATED, "");
    }
    // Why some steps are slow has a line: in the brackets of the times, it would be a sentence within one.
    if let Some(at) = lines.iter().position(|(label, _)| *label == "time")
        && let Some((time, rest)) = lines[at].1.split_once(SLOW)
        && let Some((slow, rest)) = rest.split_once(')')
    {
        let (time, slow) = (format!("{time}){rest}"), format!("slow {slow}"));
        lines[at].1 = time;
        lines.insert(at + 1, ("slow", slow));
    }
    lines
}

/// What the line of the times has between those of slow steps and why they are slow.
const SLOW: &str = "; slow ";

/// How the label of a line of the answer looks.
pub(super) fn style_of(label: &str, status: Status) -> Style {
    let colour = match (label, status) {
        ("coverage", Status::Complete) => AnsiColor::Green,
        ("coverage", Status::Partial) => AnsiColor::Yellow,
        ("coverage", Status::Empty) => AnsiColor::Red,
        (WARNINGS, _) => AnsiColor::Yellow,
        (EMPHASISED | "first" | "to do", _) => AnsiColor::Green,
        _ => AnsiColor::Cyan,
    };
    colour.on_default().bold()
}

/// What the lines of a simulated GPU begin with.
const SIMULATED: &str = "simulated GPU: ";

pub(super) fn make_room(
    folder: &RunFolder,
    settings: &Run,
    bundle: &mut Bundle,
    terminal: &Terminal,
) {
    let bundle::Room { mut findings, deleted, compressed, compressions } =
        bundle::make_room(folder, settings, &bundle.record);
    if deleted > 0 || !compressed.is_empty() {
        let all = folder.path().parent().map(visible_path).unwrap_or_default();
        let done = [
            ("deleted", deleted, "run.keep_last, run.keep_bytes"),
            ("compressed", compressed.len(), "run.keep_uncompressed"),
        ];
        let done = done.iter().filter(|(_, runs, _)| *runs > 0);
        let (done, keys): (Vec<String>, Vec<&str>) =
            done.map(|(what, runs, key)| (format!("{what} {runs}"), *key)).unzip();
        let (done, keys) = (done.join(" and "), keys.join(", "));
        terminal.progress(&format!("{done} older runs in {all} to save space ({keys})"));
    }
    let windows = compressed.iter().flat_map(|dir| bundle::window_bundles(dir));
    // A dormant run has its pages in the bundles of its windows.
    for older in compressed.iter().cloned().chain(windows).filter(|dir| file_list::has_page(dir)) {
        if let Err(error) = file_list::list_files(&older) {
            terminal.detail(&format!("{error:#}; it names files that are compressed now"));
        }
    }
    for finding in &findings {
        match finding.severity {
            Severity::Note => terminal.result(&finding.to_string()),
            _ => terminal.finding(finding),
        }
    }
    for finding in &compressions {
        match finding.severity {
            // Nothing is lost by it.
            Severity::Note => terminal.detail(&finding.to_string()),
            _ => terminal.finding(finding),
        }
    }
    findings.extend(compressions);
    if findings.is_empty() {
        return;
    }
    bundle.record.findings.extend(findings);
    if let Err(error) = bundle.save() {
        terminal.error(&format!("{error:#}; what was deleted and compressed is not in it"));
    }
}

pub(crate) fn printed(text: &str) -> Result<u8, Failure> {
    print(text).map(|()| 0).map_err(|e| Failure::NoResult(format!("stdout cannot be written: {e}")))
}

/// Copies a file of ours to stdout as it is, however long. A reader that has seen enough is not an error.
pub(super) fn print_file(path: &Path) -> Result<(), Failure> {
    let open = File::open(path)
        .map_err(|e| Failure::NoResult(format!("{} cannot be read: {e}", visible_path(path))));
    match std::io::copy(&mut open?, &mut std::io::stdout().lock()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::NoResult(format!("stdout cannot be written: {e}")))
        }
        _ => Ok(()),
    }
}

/// Takes the signals over that would end this program; `interrupted` is what one of them ends.
pub(super) fn take_signals(terminal: &Terminal, interrupted: String) -> Result<Signals, Failure> {
    Signals::install(*terminal, interrupted).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => threads::refused(&error),
        _ => Failure::NoResult(format!("signals cannot be taken over: {error}")),
    })
}

pub(super) const PAGE: &str = "report.html";

/// Opens the report in `dir`, or states where it is and how it gets to a browser.
pub(super) fn open_report(dir: &Path, terminal: &Terminal) {
    let page = dir.join(PAGE);
    // Why there is none was told where it was to be written.
    let Ok(page) = page.canonicalize() else { return };
    match without_screen(&|name| std::env::var_os(name)) {
        Some(NoScreen::Ssh) => terminal.result(&format!(
            "--open: this is an SSH session, so no browser was started. Copy the page, which needs no \
             other file, to your machine: scp {}:{} .",
            this_host(),
            quote(quote(&page))
        )),
        Some(NoScreen::Display) => terminal.result(&format!(
            "--open: there is no display (DISPLAY and WAYLAND_DISPLAY are not set), so no browser was \
             started. Open {} in one; it needs no other file",
            quote(&page)
        )),
        None => match opener::open(&page) {
            Ok(()) => terminal.result(&format!("opening {}", quote(&page))),
            Err(error) => terminal.finding(&Id::BundleNotShown.found(
                format!("{} was not opened", quote(&page)),
                error.to_string(),
                "open it in a browser by hand",
            )),
        },
    }
}

fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "HOST".to_owned(),
        name => name.to_owned(),
    }
}

/// Why a browser that is started here is seen by nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoScreen {
    /// Who typed the command sits elsewhere, also where X11 is forwarded.
    Ssh,
    Display,
}

fn without_screen(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<NoScreen> {
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    if ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"].iter().any(&is_set) {
        return Some(NoScreen::Ssh);
    }
    // Windows has a screen, wherever its Linux runs.
    let screens = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
    (!screens.iter().any(is_set)).then_some(NoScreen::Display)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_steps_have_a_line() {
        let line = |label: &str, text: &str| AnswerLine { label: label.into(), text: text.into() };
        let times = "mean 4.66 ms per step (p50 4.62, p99 11.09; slow steps recur every 63 steps: each follows \
                     a mixed step), 3,432 tokens/s";
        let answer = [line("verdict", "x; slow (y)"), line("time", times), line("where", "z")];
        let expected = [
            ("verdict", "x; slow (y)"),
            ("time", "mean 4.66 ms per step (p50 4.62, p99 11.09), 3,432 tokens/s"),
            ("slow", "slow steps recur every 63 steps: each follows a mixed step"),
            ("where", "z"),
        ];
        assert_eq!(shown(&answer), expected.map(|(label, text)| (label, text.to_owned())));
    }

    #[test]
    fn a_browser_is_started_only_where_somebody_sees_it() {
        for (set, expected) in [
            (&[][..], Some(NoScreen::Display)),
            (&["DISPLAY"], None),
            (&["WAYLAND_DISPLAY"], None),
            (&["WSL_DISTRO_NAME"], None),
            (&["DISPLAY", "SSH_CONNECTION"], Some(NoScreen::Ssh)),
            (&["SSH_TTY"], Some(NoScreen::Ssh)),
        ] {
            let variable = |name: &str| set.contains(&name).then(|| OsString::from("x"));
            assert_eq!(without_screen(&variable), expected, "{set:?}");
        }
        assert_eq!(without_screen(&|_| Some(OsString::new())), Some(NoScreen::Display));
    }
}
