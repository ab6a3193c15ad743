//! A command and a time limit -> what it printed, or why not.

use std::io::{ErrorKind, Read as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Variables through which the driver and NVTX load their tool.
pub(crate) const DOORS: [&str; 2] = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"];

/// After SIGKILL.
const UNKILLABLE: Duration = Duration::from_millis(500);

/// More than this of an answer is not read.
const MAX_ANSWER_BYTES: u64 = 256 * 1024;

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
    #[error("{status}{said}")]
    Failed {
        status: ExitStatus,
        /// The end of what it said, behind a colon.
        said: String,
    },
}

impl NoAnswer {
    /// Why, for a sentence that says already that the program cannot be run.
    pub(crate) fn reason(&self) -> String {
        match self {
            NoAnswer::NotStarted(error) if error.kind() == ErrorKind::NotFound => {
                "there is no such program".to_owned()
            }
            NoAnswer::NotStarted(error) => error.to_string(),
            _ => self.to_string(),
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
/// profiler into it are taken away: it is no part of what is measured.
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
    let mut child = command.spawn().map_err(NoAnswer::NotStarted)?;
    let stdout = child.stdout.take().map(read_in_background);
    let stderr = child.stderr.take().map(read_in_background);
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                // A process that hangs in the kernel does not end by this either: it is left alone.
                let end = Instant::now() + UNKILLABLE;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(5));
                }
                return Err(NoAnswer::TooLate(limit));
            }
            Err(error) => return Err(NoAnswer::Lost(error)),
        }
    };
    // A child of the child may hold the pipe open for ever: what came until now is the answer.
    let text = |from: Option<mpsc::Receiver<Vec<u8>>>| {
        let bytes = from.and_then(|r| r.recv_timeout(Duration::from_secs(1)).ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    };
    Ok(Answer { status, stdout: text(stdout), stderr: text(stderr) })
}

fn read_in_background(from: impl std::io::Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut from = from;
        let _ = from.by_ref().take(MAX_ANSWER_BYTES).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
        // Read on, so that a talkative program ends by itself instead of by a broken pipe.
        let _ = std::io::copy(&mut from, &mut std::io::sink());
    });
    receiver
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
        assert_eq!(failed.to_string(), "exit status: 3: why");
        assert!(
            ask(&mut Command::new("/no/such"), Duration::from_secs(1))
                .is_err_and(|e| matches!(e, NoAnswer::NotStarted(_)))
        );
    }

    #[test]
    fn silence_has_an_end() {
        let start = Instant::now();
        assert!(sh("exec sleep 60", 100).is_err_and(|e| matches!(e, NoAnswer::TooLate(_))));
        let open = sh("sleep 60 & echo hi", 5000).expect("an answer");
        assert_eq!(open, "", "the pipe is still open");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn endless_answers_are_cut() {
        let answer = sh("head -c 3000000 /dev/zero", 20_000).expect("answer");
        assert_eq!(answer.len() as u64, MAX_ANSWER_BYTES);
    }
}
