//! A pass -> a process of the operating system.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpgid, getpgrp};

use super::child::{Event, Process, Spawner};
use super::flush::FlushFile;
use super::tee::Tee;
use crate::failure::EXIT_NO_RESULT;
use crate::plan::{Capture, FLUSH_PAGE, Pass};
use crate::threads::MORE_PROCESSES;
use crate::workload::{NotRunnable, why_not_started};
use stage2_model::{Finding, WorkloadExit};
use stage2_read::private;

/// Starts real processes.
pub(crate) struct System;

/// A real process.
struct Spawned {
    child: Child,
    pid: Pid,
    tee: Option<Tee>,
    /// It leads a process group, which gets what it gets.
    group: bool,
    signalled: Cell<bool>,
    /// Of a pass with the collector.
    page: Option<FlushFile>,
}

impl Spawner for System {
    fn spawn(&self, pass: &Pass, events: Sender<Event>) -> Result<Box<dyn Process>, NotRunnable> {
        let Some((program, arguments)) = pass.argv.split_first() else {
            let why = "the words after `--` are missing";
            return Err(NotRunnable::new(127, "there is no command", why, ""));
        };
        for folder in &pass.folders {
            private::create_folders(folder).map_err(|error| no_place(folder, "made", &error))?;
        }
        let mut command = Command::new(program);
        command.args(arguments).envs(&pass.environment);
        // Without a page the collectors lose the last flush period where a signal ends them.
        let page = pass.has_flush_page().then(FlushFile::new).and_then(Result::ok);
        match &page {
            Some(page) => command.env(FLUSH_PAGE, page.value()),
            // One of a launcher around this one.
            None => command.env_remove(FLUSH_PAGE),
        };
        if let Some(cwd) = &pass.cwd {
            command.current_dir(cwd);
        }
        let mut tee = None;
        if let Some(capture) = &pass.capture {
            let (stdout, stderr) = open(capture)?;
            command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
        } else {
            tee = pass.tee.as_ref().map(|files| Tee::start(&mut command, files));
        }
        let waiter = waiter(events)?;
        let child = command.spawn().map_err(|error| why_not_started(Path::new(program), &error))?;
        // With it the ends of the pipes that only the process is to hold.
        drop(command);
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        let _ = waiter.send(pid);
        let group = pass.capture.is_some();
        Ok(Box::new(Spawned { child, pid, tee, group, signalled: Cell::new(false), page }))
    }
}

fn no_place(path: &Path, done: &str, error: &io::Error) -> NotRunnable {
    let what = format!("{} cannot be {done}", path.display());
    NotRunnable::new(EXIT_NO_RESULT, what, error.to_string(), "")
}

/// The outputs of a process whose output is kept from the terminal.
fn open(capture: &Capture) -> Result<(File, File), NotRunnable> {
    let at = |path| move |error: io::Error| no_place(path, "written", &error);
    let log = private::append(&capture.log);
    let log = log.map_err(at(&capture.log))?;
    let stdout = match &capture.stdout {
        Some(path) => private::create(path).map_err(at(path))?,
        None => log.try_clone().map_err(at(&capture.log))?,
    };
    Ok((stdout, log))
}

/// Waits for the end of the process that it is then given, without reaping it: until then its number cannot be
/// given to another process, so that no signal of ours ever hits a stranger. There before the process: nobody
/// else would see its end.
fn waiter(events: Sender<Event>) -> Result<Sender<Pid>, NotRunnable> {
    let (give, given) = std::sync::mpsc::channel();
    let begun = std::thread::Builder::new().name("waiter".into()).spawn(move || {
        let Ok(pid) = given.recv() else { return };
        let over = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(pid), over) == Err(Errno::EINTR) {}
        // Nobody listens any more when the process was given up.
        let _ = events.send(Event::Exited);
    });
    begun.map(|_| give).map_err(|error| {
        let what = "the system refuses a thread that waits for the workload";
        NotRunnable::new(EXIT_NO_RESULT, what, error.to_string(), MORE_PROCESSES)
    })
}

impl Process for Spawned {
    fn flush_page(&self) -> Option<OsString> {
        self.page.as_ref().map(FlushFile::value)
    }

    fn flush(&self) {
        if let Some(page) = &self.page {
            page.ask();
        }
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        self.signalled.set(true);
        let sent = if self.group { killpg(self.pid, signal) } else { kill(self.pid, signal) };
        sent.map_err(io::Error::from)
    }

    fn in_our_group(&self) -> bool {
        getpgid(Some(self.pid)).is_ok_and(|group| group == getpgrp())
    }

    fn reap(mut self: Box<Self>) -> io::Result<(WorkloadExit, Vec<Finding>)> {
        if self.group && self.signalled.get() {
            // A profiler that was ended leaves the workload behind. The group is still ours: its
            // number belongs to the process that was not waited for yet.
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
        let status = self.child.wait()?;
        let findings = self.tee.map(Tee::finish).unwrap_or_default();
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => WorkloadExit::Code(code),
            (None, Some(signal)) => WorkloadExit::Signal(signal),
            (None, None) => return Err(io::Error::other(format!("strange wait status {status}"))),
        };
        Ok((exit, findings))
    }
}
