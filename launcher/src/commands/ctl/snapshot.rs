//! Running processes -> a bundle with reports of their windows, while they run on.
//!
//! A window that is on is flushed and copied as it is; a dormant process records a new one first.

mod process_window;

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use stage2_contract::control::{Limits, Start, Verb};
use stage2_model::Finding;

use super::{EXIT_REFUSED, ask_all};
use crate::bundle::{Access, RunFolder};
use crate::cli::{Captures, SnapshotArgs};
use crate::commands::ending::take_signals;
use crate::commands::import::{Made, Parts, make};
use crate::config;
use crate::control::{Target, together};
use crate::failure::{EXIT_NO_RESULT, Failure};
use crate::run::{Event, SignalSource as _};
use crate::terminal::Terminal;
use process_window::ProcessWindow;

/// Between two looks at windows that are being recorded.
const STEP: Duration = Duration::from_millis(50);
/// How much longer than its limit a window may take: its last records have four seconds, and the machine may
/// be slow.
const PATIENCE: Duration = Duration::from_secs(15);

/// `stage2-launch ctl TARGET snapshot`.
pub(super) fn snapshot(
    target: &Target,
    args: SnapshotArgs,
    terminal: &Terminal,
) -> Result<u8, Failure> {
    let SnapshotArgs { output, for_ms, presets, acceptance, showing, overrides } = args;
    let composed = config::compose(&presets.request(overrides))?;
    let absolute = std::path::absolute(&output)
        .map_err(|e| Failure::Usage(format!("-o {}: {e}", output.display())))?;
    let (_, settings) = composed.resolved(&absolute)?;
    let access = Access::of(settings.run.group.as_deref())?;
    let folder = RunFolder::Given(absolute);
    // Before anything is recorded for it.
    if let Some(error) = folder.refused() {
        return Err(error.into());
    }
    let signals = take_signals(terminal, "the snapshot ends here; nothing was written".to_owned())?;
    let (sender, events): (Sender<Event>, _) = channel();
    signals.deliver_to(Some(sender));
    let (mut takes, mut findings) = begin(target, for_ms, terminal)?;
    if takes.is_empty() {
        findings.iter().for_each(|finding| terminal.error(&finding.to_string()));
        return Ok(EXIT_REFUSED);
    }
    let until = Instant::now() + Duration::from_millis(for_ms) + PATIENCE;
    if let Some(signal) = wait(&mut takes, until, &events) {
        return Ok(interrupted(signal, &takes, terminal));
    }
    let mut windows = Vec::new();
    for take in &mut takes {
        match take.finish() {
            Ok((file, finding)) => {
                windows.push(file);
                findings.extend(finding);
            }
            Err(why) => findings.push(take.missing(&why)),
        }
    }
    // One that came while files were looked for counts as well.
    if let Some(signal) = events.try_iter().find_map(signal_of) {
        return Ok(interrupted(signal, &takes, terminal));
    }
    if windows.is_empty() {
        findings.iter().for_each(|finding| terminal.error(&finding.to_string()));
        return Ok(EXIT_NO_RESULT);
    }
    signals.deliver_to(None);
    let dir = folder.path();
    signals.say(format!("the snapshot ends here, and {} is incomplete; delete it", dir.display()));
    let folder = folder.create(&access)?;
    let command: Vec<OsString> = std::env::args_os().collect();
    let parts = Parts {
        captures: &Captures::default(),
        windows: &windows,
        command: &command,
        findings: &findings,
        environment: None,
    };
    let made = make(&composed, &folder, access, parts, &signals, terminal);
    // Another process may have taken the folder over: only an empty one goes.
    let made = made.inspect_err(|_| drop(std::fs::remove_dir(&dir)))?;
    if let Some(why) = incomplete(&made) {
        // It was new or empty: all of it is ours.
        let _ = std::fs::remove_dir_all(&dir);
        let files: Vec<String> =
            windows.iter().map(|file| file.path.display().to_string()).collect();
        return Err(Failure::NoResult(format!(
            "{} cannot be written: {why}; nothing of it is left; make room, and merge the trace files: \
             stage2-launch merge --spool {}",
            dir.display(),
            files.join(" --spool ")
        )));
    }
    for window in &made.bundle.record.windows {
        let ended = match &window.why {
            Some(why) => format!("ended by {why}"),
            None if window.snapshot => "it goes on".to_owned(),
            None => "the process ended within it".to_owned(),
        };
        terminal.result(&format!(
            "process {}, window {}: {} records, {} lost, {ended}",
            window.pid, window.number, window.records, window.lost
        ));
    }
    made.tell(showing, terminal);
    Ok(made.status(&acceptance, terminal))
}

fn interrupted(signal: Signal, takes: &[ProcessWindow], terminal: &Terminal) -> u8 {
    takes.iter().for_each(ProcessWindow::stop);
    terminal.error(&format!("{signal}: no window of the snapshot goes on, and no bundle was made"));
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

/// Why a bundle is none.
fn incomplete(made: &Made) -> Option<String> {
    if let Err(error) = &made.outcome {
        return Some(format!("{error:#}"));
    }
    let no_window =
        || made.bundle.record.findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    match made.bundle.record.windows.is_empty() || made.result().is_none() {
        true => Some(no_window().join("; ")),
        false => None,
    }
}

/// Sees what every process does, and starts a window in those that are dormant. What there is to say of the
/// others.
fn begin(
    target: &Target,
    for_ms: u64,
    terminal: &Terminal,
) -> Result<(Vec<ProcessWindow>, Vec<Finding>), Failure> {
    let limits = Limits { for_ms: Some(for_ms), ..Limits::default() };
    let outcomes = ask_all(target, &Verb::Status, terminal)?;
    let start = together(Verb::Start(Start { limits, ..Start::default() }), outcomes.len());
    let (mut takes, mut findings) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match ProcessWindow::begin(&outcome.found, outcome.answer, &start) {
            Ok(take) => takes.push(take),
            Err(finding) => findings.push(finding),
        }
    }
    let ours = takes.iter().filter(|take| take.is_ours()).count();
    if ours > 0 {
        terminal.result(&format!(
            "recording {ours} dormant process{} for {} s (--for)",
            if ours == 1 { "" } else { "es" },
            for_ms as f64 / 1000.0
        ));
    }
    Ok((takes, findings))
}

/// Waits until the windows that were started are over. The signal that ended that, if one did.
fn wait(takes: &mut [ProcessWindow], until: Instant, events: &Receiver<Event>) -> Option<Signal> {
    loop {
        takes.iter_mut().for_each(ProcessWindow::look);
        if takes.iter().all(ProcessWindow::is_over) || Instant::now() >= until {
            // One that came in the last moment counts.
            return events.try_iter().find_map(signal_of);
        }
        match events.recv_timeout(STEP) {
            Ok(event) => {
                if let Some(signal) = signal_of(event) {
                    return Some(signal);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(STEP),
        }
    }
}

fn signal_of(event: Event) -> Option<Signal> {
    match event {
        Event::Signal { signal, .. } => Some(signal),
        Event::Exited => None,
    }
}
