//! What a command came to -> the last lines that the user reads.

use std::fs::File;
use std::path::Path;

use crate::bundle::file_list;
use crate::bundle::{self, Bundle, RunFolder, RunRecord};
use crate::config::Run;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::run::Signals;
use crate::terminal::{Terminal, print};
use crate::threads;
use stage2_contract::text::visible_path;
use stage2_model::Severity;

/// Ends report.md with the list of all files, once they have the size that they keep.
pub(super) fn list_files(outcome: &anyhow::Result<Outcome>, run_dir: &Path, terminal: &Terminal) {
    if outcome.is_ok()
        && run_dir.exists()
        && let Err(error) = file_list::list_files(run_dir)
    {
        terminal.error(&format!("report.md does not list the files of the bundle: {error:#}"));
    }
}

pub(super) fn tell(
    record: &RunRecord,
    outcome: &anyhow::Result<Outcome>,
    dir: &Path,
    terminal: &Terminal,
) {
    record.report_findings.iter().for_each(|finding| terminal.finding(finding));
    let headline = outcome.iter().flat_map(|outcome| &outcome.headline);
    headline.for_each(|line| terminal.result(line));
    if record.simulated {
        terminal.result("simulated: no real GPU took part in this run");
    }
    if dir.exists() {
        terminal.result(&format!("bundle: {}", dir.display()));
    }
}

/// Deletes and compresses older bundles, as the settings say.
pub(super) fn make_room(
    folder: &RunFolder,
    settings: &Run,
    bundle: &mut Bundle,
    terminal: &Terminal,
) {
    let bundle::Room { findings, compressed } = bundle::make_room(folder, settings, &bundle.record);
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
    if findings.is_empty() {
        return;
    }
    bundle.record.findings.extend(findings);
    if let Err(error) = bundle.save() {
        terminal.error(&format!("{error:#}; what was deleted and compressed is not in it"));
    }
}

pub(super) fn printed(text: &str) -> Result<u8, Failure> {
    print(text).map(|()| 0).map_err(|e| Failure::NoResult(format!("stdout cannot be written: {e}")))
}

/// Copies a file of ours to stdout as it is, however long. A reader that has seen enough is no error.
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
