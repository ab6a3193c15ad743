//! The life of one process: running -> finished, each a type with what can be done then.
//!
//! Knows neither what is run nor the operating system: both are behind [`Spawner`] and [`Process`],
//! so that time limits and signals are tested without real processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;

use super::forecast::shown;
use crate::plan::Pass;
use crate::terminal::Terminal;
use crate::workload::NotRunnable;
use stage2_model::finding::Id;
use stage2_model::{Finding, WorkloadExit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The process is over and waits to be reaped.
    Exited,
    Signal {
        signal: Signal,
        /// The terminal sent it, to every process of the foreground group.
        from_terminal: bool,
    },
}

pub(crate) trait Spawner {
    /// Starts the process of a pass. [`Event::Exited`] is sent to `events` when it is over.
    fn spawn(&self, pass: &Pass, events: Sender<Event>) -> Result<Box<dyn Process>, NotRunnable>;
}

/// A process that was started and not reaped.
pub(crate) trait Process {
    /// The value of [`crate::plan::FLUSH_PAGE`] that it was started with.
    fn flush_page(&self) -> Option<OsString>;
    /// Has the collectors in it bring their trace files up to date, for a bounded time.
    fn flush(&self);
    fn signal(&self, signal: Signal) -> std::io::Result<()>;
    /// Whether a Ctrl-C of the terminal reaches it.
    fn in_our_group(&self) -> bool;
    /// Takes its exit status, after [`Event::Exited`], and what there is to say about its output.
    fn reap(self: Box<Self>) -> std::io::Result<(WorkloadExit, Vec<Finding>)>;
}

pub(crate) struct Running {
    process: Box<dyn Process>,
    started: Instant,
    grace: Duration,
    /// The next thing to do if nothing happens until then.
    next: Option<(Instant, Step)>,
    cause: Cause,
    interrupted: Option<Signal>,
    /// What may not grow without end, and when it is looked at next.
    growth: Option<(Growth, Instant)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessEnd {
    /// How it ended; none: it does not.
    pub(crate) exit: Option<WorkloadExit>,
    pub(crate) cause: Cause,
    /// The first signal that it got from us or together with us, whatever ended it then.
    pub(crate) interrupted: Option<Signal>,
    pub(crate) duration: Duration,
    pub(crate) findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It wanted to, or a signal asked it to.
    Itself,
    Timeout,
    Outgrown,
    /// It does not end.
    Unkillable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Terminate,
    Kill,
    GiveUp,
}

/// After SIGKILL a process is over at once, or hangs in the kernel.
const KILL_WAIT: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 30 });

/// Time between lines that say that a process still runs.
const PULSE: Duration = Duration::from_secs(30);

/// Time between looks at what a profiler has written.
const LOOK: Duration = Duration::from_secs(1);

impl Running {
    pub(crate) fn start(
        spawner: &dyn Spawner,
        pass: &Pass,
        events: Sender<Event>,
    ) -> Result<Running, NotRunnable> {
        // A short process may be over before this one goes on.
        let started = Instant::now();
        let process = spawner.spawn(pass, events)?;
        // A limit of thousands of years is none.
        let deadline = pass.limits.timeout.and_then(|limit| started.checked_add(limit));
        Ok(Running {
            process,
            started,
            grace: pass.limits.grace,
            next: deadline.map(|at| (at, Step::Terminate)),
            cause: Cause::Itself,
            interrupted: None,
            growth: Growth::of(pass).map(|growth| (growth, started + LOOK)),
        })
    }

    pub(crate) fn flush_page(&self) -> Option<OsString> {
        self.process.flush_page()
    }

    /// Waits for the end of the process, and hands signals on until then. `pulse` names a program of which nothing
    /// else is seen: now and then a line states that it still runs.
    pub(crate) fn finish(
        mut self,
        events: &Receiver<Event>,
        terminal: &Terminal,
        pulse: Option<&str>,
    ) -> ProcessEnd {
        let mut line_at = pulse.map(|_| self.started + PULSE);
        loop {
            let look_at = self.growth.as_ref().map(|(_, at)| *at);
            let wake_at = self.next.map(|(at, _)| at);
            let wake_at = wake_at.into_iter().chain(line_at).chain(look_at).min();
            let event = match wake_at {
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match event {
                Ok(Event::Signal { signal, from_terminal }) => {
                    self.hand_on(signal, from_terminal, terminal);
                }
                // Nobody is left who could tell: the process itself is asked.
                Ok(Event::Exited) | Err(RecvTimeoutError::Disconnected) => return self.reap(),
                Err(RecvTimeoutError::Timeout) if line_at == wake_at => {
                    let (name, so_far) = (pulse.unwrap_or_default(), shown(self.started.elapsed()));
                    terminal.progress(&format!("{name} still runs: {so_far} so far"));
                    line_at = line_at.map(|at| at + PULSE);
                }
                Err(RecvTimeoutError::Timeout) if look_at == wake_at => self.look(terminal),
                Err(RecvTimeoutError::Timeout) => {
                    if !self.run_out_of_time(terminal) {
                        return self.give_up();
                    }
                }
            }
        }
    }

    fn hand_on(&mut self, signal: Signal, from_terminal: bool, terminal: &Terminal) {
        let again = self.interrupted.replace(self.interrupted.unwrap_or(signal)).is_some();
        if again && signal == Signal::SIGINT {
            terminal.progress("interrupted again: the workload is killed");
            self.kill();
            return;
        }
        terminal.progress(&format!(
            "{signal}: the bundle is written when the workload has ended; press Ctrl-C again to kill the workload"
        ));
        self.process.flush();
        // The terminal has given it to the workload as well: twice would be once too often.
        if !(from_terminal && self.process.in_our_group()) {
            self.send(signal, terminal);
        }
    }

    /// The time of the next step has come. False: there is nothing left to try.
    fn run_out_of_time(&mut self, terminal: &Terminal) -> bool {
        match self.next.map(|(_, step)| step) {
            Some(Step::Terminate) => {
                self.cause = Cause::Timeout;
                terminal.progress("time limit reached: asking the workload to end");
                self.terminate(terminal);
            }
            Some(Step::Kill) => self.kill(),
            Some(Step::GiveUp) | None => return false,
        }
        true
    }

    /// Ends the process where its files have grown too large.
    fn look(&mut self, terminal: &Terminal) {
        let Some((growth, at)) = self.growth.take() else { return };
        if growth.is_too_large() {
            self.cause = Cause::Outgrown;
            terminal
                .progress("its files have reached their size limit: the workload is asked to end");
            self.terminate(terminal);
        } else {
            self.growth = Some((growth, at.max(Instant::now()) + LOOK));
        }
    }

    fn terminate(&mut self, terminal: &Terminal) {
        self.process.flush();
        self.send(Signal::SIGTERM, terminal);
        self.next = Instant::now().checked_add(self.grace).map(|at| (at, Step::Kill));
        self.growth = None;
    }

    fn kill(&mut self) {
        self.process.flush();
        // Fails only when the process is over, which is what was wanted.
        let _ = self.process.signal(Signal::SIGKILL);
        self.next = Some((Instant::now() + KILL_WAIT, Step::GiveUp));
    }

    fn send(&self, signal: Signal, terminal: &Terminal) {
        if let Err(error) = self.process.signal(signal) {
            terminal.detail(&format!("{signal} could not be passed on: {error}"));
        }
    }

    fn reap(self) -> ProcessEnd {
        let Running { process, started, cause, interrupted, .. } = self;
        let duration = started.elapsed();
        let (exit, findings) = match process.reap() {
            Ok((exit, findings)) => (Some(exit), findings),
            Err(error) => {
                let what = "the exit status of the workload is not known";
                (None, vec![Id::WorkloadEnded.found(what, error.to_string(), "")])
            }
        };
        ProcessEnd { exit, cause, interrupted, duration, findings }
    }

    fn give_up(self) -> ProcessEnd {
        let (duration, interrupted) = (self.started.elapsed(), self.interrupted);
        ProcessEnd { exit: None, cause: Cause::Unkillable, interrupted, duration, findings: vec![] }
    }
}

/// Entries that are looked at: nsys makes some hundred files.
const MOST_ENTRIES: usize = 10_000;
/// Clocks of file systems tick coarsely.
const TICK: Duration = Duration::from_secs(1);

struct Growth {
    folders: Vec<PathBuf>,
    since: SystemTime,
    most_bytes: u64,
}

impl Growth {
    /// What to watch in a pass that has a limit of bytes; none: it has no limit. nsys gathers its records in the folder of temporary files.
    pub(super) fn of(pass: &Pass) -> Option<Self> {
        let most_bytes = pass.limits.bytes?;
        let own = pass.capture.as_ref().and_then(|capture| capture.log.parent());
        let temporary = std::env::temp_dir().join("nvidia/nsight_systems");
        let folders = own.into_iter().map(Path::to_owned).chain([temporary]).collect();
        Some(Self { folders, since: SystemTime::now(), most_bytes })
    }

    fn is_too_large(&self) -> bool {
        let mut bytes: u64 = 0;
        let mut folders = self.folders.clone();
        let mut left = MOST_ENTRIES;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if left == 0 {
                    break;
                }
                left -= 1;
                let Ok(found) = entry.metadata() else { continue };
                let is_new = || found.modified().is_ok_and(|at| at + TICK >= self.since);
                if found.is_dir() {
                    folders.push(entry.path());
                } else if found.is_file() && is_new() {
                    bytes = bytes.saturating_add(found.len());
                }
            }
        }
        bytes > self.most_bytes
    }
}
