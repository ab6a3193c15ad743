//! Running processes -> a bundle with reports of their windows, while they run on.
//!
//! A window that is on is flushed and copied as it is; a dormant process records a new one first.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use stage2_contract::control::{Answer, Limits, Start, Verb, start_of};
use stage2_contract::text::visible;
use stage2_model::Finding;
use stage2_model::finding::Id;

use super::{EXIT_REFUSED, Outcome, ask_each, held_up, is_before_cupti, print_cost};
use crate::bundle::{Access, RunFolder};
use crate::cli::{Captures, SnapshotArgs};
use crate::commands::ending::take_signals;
use crate::commands::import::{BundleMaker, NewBundle, WindowFile, WindowKind};
use crate::config;
use crate::control::{AskError, ControlSocket, DoneWindow, Target, ask, find, together};
use crate::failure::{EXIT_NO_RESULT, Failure};
use crate::run::{Event, SignalSource as _};
use crate::terminal::Terminal;

const STEP: Duration = Duration::from_millis(50);
/// How much longer than its limit a window may take: its last records have four seconds, and the machine may
/// be slow.
const PATIENCE: Duration = Duration::from_secs(15);

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
    let (mut processes, mut findings) = begin(target, for_ms, terminal)?;
    if processes.is_empty() {
        findings.iter().for_each(|finding| terminal.error(&finding.to_string()));
        return Ok(EXIT_REFUSED);
    }
    let until = Instant::now() + Duration::from_millis(for_ms) + PATIENCE;
    if let Some(signal) = wait(&mut processes, until, &events) {
        return Ok(interrupted(signal, &processes, terminal));
    }
    let mut windows = Vec::new();
    for process in &mut processes {
        match process.finish() {
            Ok((file, finding)) => {
                windows.push(file);
                findings.extend(finding);
            }
            Err(why) => findings.push(missing(process.found.pid, &why)),
        }
    }
    // One that came while files were looked for counts as well.
    if let Some(signal) = events.try_iter().find_map(signal_of) {
        return Ok(interrupted(signal, &processes, terminal));
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
    let maker = BundleMaker {
        composed: &composed,
        access: &access,
        command: &command,
        signals: &signals,
        terminal,
    };
    let made = maker.make(&folder, &Captures::default(), &windows, &findings, None);
    // Another process may have taken the folder over: only an empty one goes.
    let made = made.inspect_err(|_| drop(std::fs::remove_dir(&dir)))?;
    if let Some(why) = incomplete(&made) {
        // It was new or empty: all of it is ours.
        let _ = std::fs::remove_dir_all(&dir);
        let files: Vec<String> =
            windows.iter().map(|file| format!(" --spool {}", file.path.display())).collect();
        return Err(Failure::NoResult(format!(
            "{} cannot be written: {why}; nothing of it is left; solve this, and merge the trace files: \
             stage2-launch merge{}",
            dir.display(),
            files.concat()
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
    Ok(made.tell(Some(&acceptance), showing, terminal))
}

fn interrupted(signal: Signal, processes: &[ProcessWindow], terminal: &Terminal) -> u8 {
    processes.iter().for_each(ProcessWindow::stop);
    terminal.error(&format!("{signal}: no window of the snapshot goes on, and no bundle was made"));
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}

fn incomplete(made: &NewBundle) -> Option<String> {
    if let Err(error) = &made.outcome {
        return Some(format!("{error:#}"));
    }
    (made.bundle.record.windows.is_empty() || made.result().is_none()).then(|| {
        made.bundle.record.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    })
}

/// Starts a window in the processes that are dormant. What there is to say of those without a window.
fn begin(
    target: &Target,
    for_ms: u64,
    terminal: &Terminal,
) -> Result<(Vec<ProcessWindow>, Vec<Finding>), Failure> {
    let limits = Limits { for_ms: Some(for_ms), ..Limits::default() };
    let outcomes = ask_each(find(target)?, target, &Verb::Status, terminal);
    let start = together(Verb::Start(Start { limits, ..Start::default() }), outcomes.len());
    let is_new = |outcome: &&Outcome| outcome.answer.as_ref().is_ok_and(is_before_cupti);
    let new: Vec<_> = outcomes.iter().filter(is_new).map(|outcome| outcome.found.clone()).collect();
    if let Some((pid, why)) = held_up(&new) {
        return Err(Failure::NoResult(format!(
            "process {pid}: {why}. CUPTI does not start before that kernel ends: ask `stage2-launch ctl {pid} why`"
        )));
    }
    print_cost(new.len(), terminal);
    let (mut processes, mut findings) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match ProcessWindow::begin(&outcome.found, outcome.answer, &start) {
            Ok(process) => processes.push(process),
            Err(finding) => findings.push(finding),
        }
    }
    let ours = processes.iter().filter(|process| process.ours).count();
    if ours > 0 {
        terminal.result(&format!(
            "recording {ours} dormant process{} for {} s (--for)",
            if ours == 1 { "" } else { "es" },
            for_ms as f64 / 1000.0
        ));
    }
    Ok((processes, findings))
}

/// Waits until the windows that were started are over. The signal that ended that, if one did.
fn wait(
    processes: &mut [ProcessWindow],
    until: Instant,
    events: &Receiver<Event>,
) -> Option<Signal> {
    loop {
        for process in processes.iter_mut().filter(|process| !process.is_over()) {
            process.update(ask(&process.found, &Verb::Status));
        }
        if processes.iter().all(ProcessWindow::is_over) || Instant::now() >= until {
            // One that came in the last moment counts.
            return events.try_iter().find_map(signal_of);
        }
        match events.recv_timeout(STEP).map(signal_of) {
            Ok(Some(signal)) => return Some(signal),
            Ok(None) | Err(RecvTimeoutError::Timeout) => {}
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

/// How often a flush is asked for again that takes longer than an answer may.
const FLUSHES: u32 = 40;

struct ProcessWindow {
    found: ControlSocket,
    owner: u32,
    number: u64,
    /// It was started for the snapshot.
    ours: bool,
    /// Its trace file, as the process names it.
    file: Option<String>,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It is on, or about to be.
    On,
    /// It is over, and its file whole.
    Over,
    /// The process does not answer any more.
    Gone(String),
}

impl ProcessWindow {
    /// The window that is on, or a new one.
    fn begin(
        found: &ControlSocket,
        status: Result<Answer, AskError>,
        start: &Verb,
    ) -> Result<ProcessWindow, Finding> {
        let refused = |why: &str| missing(found.pid, why);
        let status = status.map_err(|error| refused(&error.to_string()))?;
        let number = |answer: &Answer| answer.get("window").and_then(|number| number.parse().ok());
        let owner = fs::symlink_metadata(&found.path).map(|socket| socket.uid());
        let owner = owner.map_err(|error| refused(&format!("its socket is gone: {error}")))?;
        let window = |number: Option<u64>, ours| {
            let number = number.ok_or_else(|| refused("its answer names no window"))?;
            let file = status.get("file").map(str::to_owned);
            Ok(ProcessWindow { found: found.clone(), owner, number, ours, file, state: State::On })
        };
        match status.get("phase") {
            Some("starting" | "on" | "stopping") => window(number(&status), false),
            Some("dormant") => {
                let answer = ask(found, start).map_err(|error| refused(&error.to_string()))?;
                match answer.refused {
                    true => Err(refused(answer.get("error").unwrap_or("it refused"))),
                    false => window(number(&answer), true),
                }
            }
            phase => Err(refused(&format!("it is {}", phase.unwrap_or("silent")))),
        }
    }

    /// Whether nothing has to be waited for.
    fn is_over(&self) -> bool {
        !self.ours || self.state != State::On
    }

    fn stop(&self) {
        if self.ours && self.state == State::On {
            // A process that does not answer has no window to be stopped.
            let _ = ask(&self.found, &Verb::Stop);
        }
    }

    fn update(&mut self, status: Result<Answer, AskError>) {
        let status = match status {
            Ok(status) => status,
            Err(error) => return self.state = State::Gone(error.to_string()),
        };
        let mut done = status.all("done").map(DoneWindow::parse);
        if let Some(done) = done.find(|done| done.number() == Some(self.number)) {
            self.file = done.get("file").map(str::to_owned);
            self.state = State::Over;
        } else if status.get("window").is_some_and(|number| number == self.number.to_string()) {
            self.file = status.get("file").map(str::to_owned).or(self.file.take());
        }
    }

    /// The trace file, as whole as it gets, and what there is to say of it.
    fn finish(&mut self) -> Result<(WindowFile, Option<Finding>), String> {
        if self.state == State::On {
            self.flush();
        }
        let file = self.file.as_deref().ok_or("its window has no trace file")?;
        let path = path_of(&self.found, self.owner, file)?;
        let (pid, number) = (self.found.pid, self.number);
        let (kind, finding) = match &self.state {
            State::Over => (WindowKind::Over, None),
            State::On => {
                let what = format!("snapshot: window {number} of process {pid} is still on");
                let why = "GPU work in flight, and ranges that are open, are missing";
                let remedy =
                    format!("`stage2-launch ctl {pid} stop` ends it, and its file is whole then");
                (WindowKind::Live, Some(Id::WindowOpen.found(what, why, remedy)))
            }
            State::Gone(why) => {
                let what =
                    format!("process {pid} ended within window {number}, or answers no more");
                let (why, remedy) = (visible(why.as_bytes()), "what it had written is here");
                (WindowKind::Over, Some(Id::WindowMissing.found(what, why, remedy)))
            }
        };
        Ok((WindowFile { path, kind }, finding))
    }

    fn flush(&mut self) {
        for _ in 0..FLUSHES {
            let flushed = ask(&self.found, &Verb::Flush);
            // The window may have ended meanwhile.
            self.update(ask(&self.found, &Verb::Status));
            let done = flushed.is_ok_and(|answer| answer.get("said") == Some("done"));
            if done || self.state != State::On {
                return;
            }
            std::thread::sleep(STEP);
        }
    }
}

fn missing(pid: u32, why: &str) -> Finding {
    let what = format!("process {pid} is not in the snapshot");
    let remedy = "`stage2-launch ctl TARGET status` shows its state";
    Id::WindowMissing.found(what, visible(why.as_bytes()), remedy)
}

/// Where a file of a process, perhaps in a container, is for us. Only a file of the process's user is believed.
fn path_of(found: &ControlSocket, owner: u32, file: &str) -> Result<PathBuf, String> {
    let inside = Path::new(file);
    let proc = PathBuf::from(format!("/proc/{}", found.pid));
    let start = fs::read_to_string(proc.join("stat")).ok().and_then(|stat| start_of(&stat));
    let through_proc = inside.strip_prefix("/").map(|below| proc.join("root").join(below));
    let through_proc = through_proc.ok().filter(|_| start == Some(found.name.start));
    let mut why = "it is not there".to_owned();
    for place in through_proc.into_iter().chain([inside.to_owned()]) {
        match fs::metadata(&place) {
            Ok(there) if there.is_file() && there.uid() == owner => {
                // As the user knows it, if that is the same.
                let same = fs::metadata(inside)
                    .is_ok_and(|plain| (plain.dev(), plain.ino()) == (there.dev(), there.ino()));
                return Ok(if same { inside.to_owned() } else { place });
            }
            Ok(_) => why = "it does not belong to the user of the process".to_owned(),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!("its trace file {} cannot be used: {why}", visible(file.as_bytes())))
}

#[cfg(test)]
mod tests {
    use stage2_contract::control::SocketName;

    use super::*;

    /// Hazard (Dormant processes and windows): A process names a trace file that is not its
    ///  user's, and root takes the snapshot.
    /// Promise: The file is not copied.
    #[test]
    fn only_a_file_of_the_user_of_the_process_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.s2t");
        fs::write(&file, "x").expect("a file");
        let owner = fs::metadata(&file).expect("there").uid();
        let name = SocketName::new("host", std::process::id(), 1);
        let found = ControlSocket { pid: std::process::id(), path: folder.path().into(), name };
        let shown = file.to_str().expect("UTF-8");
        assert_eq!(path_of(&found, owner, shown), Ok(file.clone()));
        let refused = |owner, file: &str| path_of(&found, owner, file).expect_err(file);
        assert!(refused(owner + 1, shown).contains("does not belong to the user"));
        assert!(
            refused(owner, folder.path().to_str().expect("UTF-8")).contains("does not belong to")
        );
        assert!(refused(owner, "/nowhere/a.s2t").contains("No such file"));
    }
}
