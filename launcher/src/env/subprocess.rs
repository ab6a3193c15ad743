//! A command and a time limit -> what it printed, or why not.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// Variables through which the driver and NVTX load their tool.
pub(crate) const DOORS: [&str; 2] = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"];

/// After SIGKILL.
const UNKILLABLE: Duration = Duration::from_millis(500);

/// More than this of an answer is not read.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Buffers that are read at a time: a program that never stops to write must not keep its time limit from being seen.
const MOST_BUFFERS: usize = 64;

/// Between two looks at whether the program has ended.
const STEP: Duration = Duration::from_millis(5);
/// How long the rest of an answer is waited for after that.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a program gave no answer, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("cannot be started: {0}")]
    NotStarted(std::io::Error),
    #[error("no answer in {} s", .0.as_secs_f32())]
    TooLate(Duration),
    /// Its end cannot be seen.
    #[error("cannot be waited for: {0}")]
    Lost(std::io::Error),
    #[error("{}{said}", .status.to_string().replace("status: ", "status "))]
    Failed {
        status: ExitStatus,
        /// The end of what it said, behind a colon.
        said: String,
    },
}

impl NoAnswer {
    /// Why, for a sentence that begins with the name of the program.
    pub(crate) fn reason(&self) -> String {
        match self {
            NoAnswer::NotStarted(error) if error.kind() == ErrorKind::NotFound => {
                "is not installed, or not on PATH".to_owned()
            }
            NoAnswer::NotStarted(error) => format!("cannot be run: {error}"),
            _ => format!("cannot be run: {self}"),
        }
    }
}

/// What a program left that ended by itself.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `command` without input and gives its standard output. Variables that would load a
/// profiler into it are taken away: it is not part of what is measured.
pub(crate) fn ask(command: &mut Command, limit: Duration) -> Result<String, NoAnswer> {
    for variable in ["LD_PRELOAD"].into_iter().chain(DOORS) {
        command.env_remove(variable);
    }
    let Answer { status, stdout, stderr } = answer(command, limit)?;
    if status.success() {
        return Ok(stdout);
    }
    let last = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Err(NoAnswer::Failed { status, said: last.map(|line| format!(": {line}")).unwrap_or_default() })
}

/// Runs `command` without input, in the environment that it has.
pub(crate) fn answer(command: &mut Command, limit: Duration) -> Result<Answer, NoAnswer> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // So that a program that is ended takes along what it has started.
    command.process_group(0);
    let mut child = command.spawn().map_err(NoAnswer::NotStarted)?;
    let mut outputs =
        [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)]
            .map(Output::of);
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => take_in(&mut outputs, STEP),
            Ok(None) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                // A process that hangs in the kernel does not end by this either: it is left alone.
                let end = Instant::now() + UNKILLABLE;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                    std::thread::sleep(STEP);
                }
                return Err(NoAnswer::TooLate(limit));
            }
            Err(error) => return Err(NoAnswer::Lost(error)),
        }
    };
    // A child of the child may hold the pipe open for ever: what came until now is the answer.
    let until = Instant::now() + LAST_WORDS;
    while outputs.iter().any(|output| output.pipe.is_some()) && Instant::now() < until {
        take_in(&mut outputs, STEP);
    }
    let [stdout, stderr] =
        outputs.map(|output| String::from_utf8_lossy(&output.bytes).into_owned());
    Ok(Answer { status, stdout, stderr })
}

/// What a program writes. It is read on this thread: the system may refuse another.
struct Output {
    /// Until its end.
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl Output {
    fn of(pipe: Option<OwnedFd>) -> Output {
        let pipe = pipe.map(File::from);
        if let Some(pipe) = &pipe {
            // Where this fails, a silent program is waited for without a limit; it does not fail on a pipe.
            let _ = rustix::io::ioctl_fionbio(pipe, true);
        }
        Output { pipe, bytes: Vec::new() }
    }

    /// Reads what is there. What is too much for an answer is read as well, so that a talkative program ends
    /// by itself instead of by a broken pipe.
    fn read(&mut self) {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..MOST_BUFFERS {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(read) => {
                    let room = MAX_ANSWER_BYTES.saturating_sub(self.bytes.len());
                    self.bytes.extend(buffer.iter().take(read.min(room)));
                    if read < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// Waits for something to read, but not longer than `limit`, and reads it.
fn take_in(outputs: &mut [Output], limit: Duration) {
    let pipes = outputs.iter().filter_map(|output| output.pipe.as_ref());
    let mut wanted: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
    let limit = Timespec::try_from(limit).ok();
    // A signal ends it sooner, and the caller comes again.
    let _ = poll(&mut wanted, limit.as_ref());
    outputs.iter_mut().for_each(Output::read);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit_ms: u64) -> Result<String, NoAnswer> {
        ask(Command::new("sh").args(["-c", script]), Duration::from_millis(limit_ms))
    }

    #[test]
    fn answers_and_failures() {
        assert_eq!(sh("echo hi; echo no >&2", 5000).expect("an answer"), "hi\n");
        let failed = sh("echo why >&2; exit 3", 5000).expect_err("a failure");
        assert_eq!(failed.to_string(), "exit status 3: why");
        let none = ask(&mut Command::new("/no/such"), Duration::from_secs(1));
        assert!(none.is_err_and(|e| matches!(e, NoAnswer::NotStarted(_))));
    }

    #[test]
    fn silence_has_an_end() {
        let start = Instant::now();
        assert!(sh("exec sleep 60", 100).is_err_and(|e| matches!(e, NoAnswer::TooLate(_))));
        let open = sh("sleep 60 & echo hi", 5000).expect("an answer");
        assert_eq!(open, "hi\n", "what came, although the pipe is still open");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_program_that_is_ended_takes_along_what_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pid");
        let script = format!("sleep 60 & echo $! > '{}'; wait", file.display());
        assert!(sh(&script, 2000).is_err_and(|e| matches!(e, NoAnswer::TooLate(_))));
        let pid = std::fs::read_to_string(&file).expect("it was started");
        let runs = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while runs() && Instant::now() < deadline {
            std::thread::sleep(STEP);
        }
        assert!(!runs(), "it runs on");
    }

    #[test]
    fn endless_answers_are_cut() {
        assert!(sh("exec cat /dev/zero", 300).is_err_and(|e| matches!(e, NoAnswer::TooLate(_))));
        let answer = sh("head -c 3000000 /dev/zero", 20_000).expect("answer");
        assert_eq!(answer.len(), MAX_ANSWER_BYTES);
    }
}
