//! A pass -> a process of the operating system; what it writes -> our own output and files.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpgid, getpgrp};
// `memfd_create` as a system call: glibc has a function for it from 2.27 on only.
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::child::{Event, Process, Spawner};
use crate::failure::EXIT_NO_RESULT;
use crate::plan::{Capture, FLUSH_PAGE, Pass};
use crate::threads::MORE_PROCESSES;
use crate::workload::{NotRunnable, why_not_started};
use stage2_contract::control::{FLUSH_PAGE_BYTES, FlushPage};
use stage2_model::{Finding, WorkloadExit, finding};
use stage2_read::{files, private};

pub(crate) struct System;

struct SystemProcess {
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
        Ok(Box::new(SystemProcess { child, pid, tee, group, signalled: Cell::new(false), page }))
    }
}

fn no_place(path: &Path, done: &str, error: &io::Error) -> NotRunnable {
    let what = format!("{} cannot be {done}", path.display());
    NotRunnable::new(EXIT_NO_RESULT, what, error.to_string(), "")
}

/// The outputs of a process whose output is kept from the terminal.
fn open(capture: &Capture) -> Result<(File, File), NotRunnable> {
    let at = |path| move |error: io::Error| no_place(path, "written", &error);
    let log = private::append(&capture.log).map_err(at(&capture.log))?;
    let stdout = match &capture.stdout {
        Some(path) => private::create(path).map_err(at(path))?,
        None => log.try_clone().map_err(at(&capture.log))?,
    };
    Ok((stdout, log))
}

/// Waits for the end of the process that it is given, without reaping it: until then its number is given to nobody,
/// and no signal of ours hits a stranger. There before the process: no other process would see its end.
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

impl Process for SystemProcess {
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

/// The longest that a signal is held back.
const PATIENCE: Duration = Duration::from_millis(200);
const NAP: Duration = Duration::from_millis(2);

/// A page of memory ([`FlushPage`]) as a file: through it the trace files are brought up to date before a signal
/// ends the workload. The collectors of a pass map it and look at it every few milliseconds. It is sealed
/// against shrinking, so that a collector's look at it never fails. It is there as long as this program and the processes that map it live.
pub(crate) struct FlushFile {
    file: File,
    nonce: u64,
}

impl FlushFile {
    pub(crate) fn new() -> io::Result<FlushFile> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create(c"stage2-flush", flags)?);
        file.set_len(FLUSH_PAGE_BYTES as u64)?;
        let nonce = RandomState::new().build_hasher().finish();
        file.write_all_at(&nonce.to_ne_bytes(), FlushPage::NONCE)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(FlushFile { file, nonce })
    }

    /// The value of [`crate::plan::FLUSH_PAGE`]. The descriptor is not handed down: programs may count theirs.
    pub(crate) fn value(&self) -> OsString {
        let (pid, fd) = (std::process::id(), self.file.as_raw_fd());
        format!("/proc/{pid}/fd/{fd}:{}", self.nonce).into()
    }

    /// Asks all collectors to flush, and waits until they have, for a short time. A collector whose process was
    /// killed, crashed or became another program by an exec is waited for in vain, at each signal.
    pub(crate) fn ask(&self) {
        // Memory of our own: a failure would be a bug, and costs the last flush period at most.
        let _ = self.try_ask();
    }

    fn try_ask(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let granted = self.read(FlushPage::GRANTED)?;
        let wishes = self.read(FlushPage::WISHES)?.wrapping_add(1);
        self.file.write_all_at(&wishes.to_ne_bytes(), FlushPage::WISHES)?;
        while self.read(FlushPage::GRANTED)?.wrapping_sub(granted)
            < self.read(FlushPage::WATCHERS)?
            && Instant::now() < deadline
        {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    fn read(&self, at: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_ne_bytes(bytes))
    }
}

/// Children of the workload may hold its output open for ever; what they write within this time is kept.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// How the copy of a stream goes: what it says at its end, or why there is none.
type Copied = Result<Receiver<Option<String>>, String>;

struct Tee {
    /// With the reason where there is no copy: the process writes to our own output then.
    copies: Vec<(PathBuf, Copied)>,
}

impl Tee {
    /// Starts to copy the outputs of `command`, before it is started: what cannot be copied it has to write itself.
    pub(super) fn start(command: &mut Command, (stdout, stderr): &(PathBuf, PathBuf)) -> Tee {
        let out = start_copy(std::io::stdout(), stdout).map(|(end, copy)| {
            command.stdout(end);
            copy
        });
        let err = start_copy(std::io::stderr(), stderr).map(|(end, copy)| {
            command.stderr(end);
            copy
        });
        let said = |error: std::io::Error| format!("no copy of it could be started: {error}");
        let copies = [(stdout, out), (stderr, err)];
        Tee { copies: copies.map(|(path, copy)| (path.clone(), copy.map_err(said))).into() }
    }

    /// Waits for the ends of the outputs, but not for ever.
    pub(super) fn finish(self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (path, end) in self.copies {
            let problem = match end.map(|end| end.recv_timeout(DRAIN_LIMIT)) {
                Ok(Ok(problem)) => problem,
                Ok(Err(_)) => Some("a child of the workload still writes to it".to_owned()),
                Err(why) => Some(why),
            };
            if let Some(why) = problem {
                let what = format!("{} is incomplete", path.display());
                findings.push(finding::Id::RunFileUnusable.found(what, why, ""));
            }
        }
        findings
    }
}

/// The end of a pipe to write to, and the problem that its copy had, at the end.
fn start_copy(
    to: impl AsFd,
    log: &Path,
) -> std::io::Result<(PipeWriter, Receiver<Option<String>>)> {
    let (sender, receiver) = mpsc::channel();
    let (from, end) = std::io::pipe()?;
    // A descriptor of our own: the standard streams of Rust hold partial lines back.
    let to = to.as_fd().try_clone_to_owned().map(File::from);
    let log = private::create(log);
    std::thread::Builder::new().spawn(move || {
        let unmade = log.as_ref().err().map(ToString::to_string);
        let log = log.ok();
        let problem = unmade.or(copy(from, to, log.as_ref()));
        // Some file systems tell only now that there was no room.
        let unclosed = || files::closes(log.as_ref()?).err().map(|error| error.to_string());
        let _ = sender.send(problem.or_else(unclosed));
    })?;
    Ok((end, receiver))
}

/// Copies until the end. What is wrong with the log costs the log, never the output of the user.
fn copy(
    mut from: impl Read,
    to: std::io::Result<impl Write>,
    mut log: Option<impl Write>,
) -> Option<String> {
    let mut problem = None;
    let mut to = to.ok();
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return problem,
            Ok(read) => read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Some(error.to_string()),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        if let Some(Err(error)) = log.as_mut().map(|log| log.write_all(bytes)) {
            (log, problem) = (None, Some(error.to_string()));
        }
        // When nobody reads our output (`| head`), nobody reads the workload's: it has to see a
        // broken pipe as it would without us. Dropping `from` does that.
        if let Some(Err(error)) = to.as_mut().map(|to| to.write_all(bytes)) {
            return (error.kind() != std::io::ErrorKind::BrokenPipe)
                .then(|| format!("our own output cannot be written: {error}"))
                .or(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn a_wish_waits_for_those_who_look_and_not_without_end() {
        let page = FlushFile::new().expect("memory");
        let started = Instant::now();
        page.ask();
        assert_eq!(page.read(FlushPage::WISHES).expect("memory"), 1);
        assert!(started.elapsed() < PATIENCE, "nobody looks: nobody is waited for");
        page.file.write_all_at(&1u32.to_ne_bytes(), FlushPage::WATCHERS).expect("memory");
        let started = Instant::now();
        page.ask();
        // A machine that is busy wakes a thread late, so the upper bound is loose; the limit itself
        // is compared as it is.
        assert!((PATIENCE..PATIENCE * 20).contains(&started.elapsed()), "{:?}", started.elapsed());
        assert!(PATIENCE <= Duration::from_millis(200), "a signal is not held back longer");
        assert!(page.file.set_len(0).is_err(), "sealed");
    }

    struct Failing(ErrorKind);
    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_get_every_byte() {
        let (mut to, mut log) = (Vec::new(), Vec::new());
        let bytes = vec![0xff; 100_000];
        assert_eq!(copy(&bytes[..], Ok(&mut to), Some(&mut log)), None);
        assert_eq!((to, log), (bytes.clone(), bytes));
    }

    #[test]
    fn a_full_disk_costs_the_log_only() {
        let mut to = Vec::new();
        let problem = copy(&b"out"[..], Ok(&mut to), Some(Failing(ErrorKind::StorageFull)));
        assert_eq!((to.as_slice(), problem.is_some()), (&b"out"[..], true));
        let mut to = Vec::new();
        assert!(copy(&b"out"[..], Ok(&mut to), None::<Vec<u8>>).is_none() && to == b"out");
    }

    #[test]
    fn a_reader_that_left_is_no_fault() {
        let mut log = Vec::new();
        assert_eq!(copy(&b"out"[..], Ok(Failing(ErrorKind::BrokenPipe)), Some(&mut log)), None);
        assert!(copy(&b"out"[..], Ok(Failing(ErrorKind::StorageFull)), Some(&mut log)).is_some());
    }
}
