//! The command line of a verb -> a child process of the launcher, within limits of time, memory and output.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Verbs that read at once.
const READERS: u32 = 4;
/// Calls that wait for one of them to end.
const WAITING: usize = 32;
/// How long a verb may read, s.
const READ_S: u64 = 60;
/// How much memory it may have.
const READ_MEMORY: u64 = 4 << 30;
/// How much it may print.
pub(crate) const OUTPUT_LIMIT: usize = 256 << 10;
/// How much is kept of the end of messages, and of what a workload prints.
const MESSAGES: usize = 8 << 10;
/// How long a launcher that is told to end may take to end its workload.
const ENDING: Duration = Duration::from_secs(10);

/// What a verb left.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Its exit status; none: a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
    /// The end of its standard error.
    pub(crate) messages: String,
}

/// Why a verb left nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("{READERS} calls run and {WAITING} wait: call again when one of them is answered")]
    Busy,
    #[error("a run or ctl is going on, and there is one at a time: call again when it is answered")]
    Working,
    #[error("the call was cancelled")]
    Cancelled,
    #[error("{0} cannot be started: {1}")]
    NotStarted(String, String),
    #[error("there is no folder {0} to run it in: give another `directory`, or none")]
    NoFolder(String),
    #[error(
        "it took more than {0} s and was ended: ask for less, or run the command in a terminal"
    )]
    TimedOut(u64),
    #[error(
        "the answer is longer than {OUTPUT_LIMIT} bytes: ask for fewer rows or a smaller budget"
    )]
    TooLong,
}

/// The children of a server.
pub(crate) struct Children {
    launcher: PathBuf,
    reading: Semaphore,
    waiting: AtomicUsize,
    working: Semaphore,
}

impl Children {
    pub(crate) fn new(launcher: PathBuf) -> Self {
        let [reading, working] = [READERS as usize, 1].map(Semaphore::new);
        Self { launcher, reading, waiting: AtomicUsize::new(0), working }
    }

    /// Runs a verb that reads, once there is room for it.
    pub(crate) async fn read(
        &self,
        words: &[OsString],
        cancelled: impl Future<Output = ()>,
    ) -> Result<Outcome, ChildError> {
        let work = async {
            let _permit = self.reader().await?;
            let mut child = self.start(words, None)?;
            limit(&child);
            let limit = Duration::from_secs(READ_S);
            let (mut output, mut messages) = (Vec::new(), Vec::new());
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let reading = async {
                let reading_messages = async {
                    end_of(stderr, &mut messages).await;
                    Ok(())
                };
                tokio::try_join!(whole(stdout, &mut output), reading_messages)?;
                Ok(child.wait().await.ok().and_then(|status| status.code()))
            };
            let ended = timeout(limit, reading).await;
            // The child is killed where it goes out of scope.
            let status = ended.map_err(|_| ChildError::TimedOut(READ_S))??;
            Ok(Outcome { status, output: text(&output), messages: text(&messages) })
        };
        tokio::select! {
            outcome = work => outcome,
            () = cancelled => Err(ChildError::Cancelled),
        }
    }

    /// Runs a verb that lets a workload run. One that takes too long is told to end it.
    pub(crate) async fn work(
        &self,
        words: &[OsString],
        directory: Option<&Path>,
        limit_s: u64,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Outcome, ChildError> {
        let _permit = self.working.try_acquire().map_err(|_| ChildError::Working)?;
        let mut child = self.start(words, directory)?;
        let (mut output, mut messages) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let stopped = {
            let reading = async {
                tokio::join!(
                    end_of(stdout, &mut output),
                    end_of(stderr, &mut messages),
                    child.wait()
                )
            };
            let mut reading = std::pin::pin!(reading);
            tokio::select! {
                _ = &mut reading => None,
                () = cancelled => Some(ChildError::Cancelled),
                () = tokio::time::sleep(Duration::from_secs(limit_s)) => Some(ChildError::TimedOut(limit_s)),
            }
        };
        if let Some(why) = stopped {
            if let Some(pid) = pid_of(&child) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = timeout(ENDING, child.wait()).await;
            return Err(why);
        }
        let status = child.wait().await.ok().and_then(|status| status.code());
        Ok(Outcome { status, output: text(&output), messages: text(&messages) })
    }

    /// Waits until no child is left.
    pub(crate) async fn end(&self, most: Duration) {
        let ended = async {
            let _readers = self.reading.acquire_many(READERS).await;
            let _working = self.working.acquire().await;
        };
        let _ = timeout(most, ended).await;
    }

    async fn reader(&self) -> Result<SemaphorePermit<'_>, ChildError> {
        if let Ok(permit) = self.reading.try_acquire() {
            return Ok(permit);
        }
        let _place = Place::take(&self.waiting).ok_or(ChildError::Busy)?;
        // It is never closed.
        self.reading.acquire().await.map_err(|_| ChildError::Busy)
    }

    fn start(&self, words: &[OsString], directory: Option<&Path>) -> Result<Child, ChildError> {
        let mut command = Command::new(&self.launcher);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        if let Some(directory) = directory {
            if !directory.is_dir() {
                return Err(ChildError::NoFolder(stage2_contract::text::visible_path(directory)));
            }
            command.current_dir(directory);
        }
        let shown = stage2_contract::text::visible_path(&self.launcher);
        command.spawn().map_err(|error| ChildError::NotStarted(shown, error.to_string()))
    }
}

/// A place among the calls that wait.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < WAITING).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

/// A run that makes a verb compute or take memory without end harms its child only, even if this program is gone.
fn limit(child: &Child) {
    let Some(pid) = pid_of(child) else { return };
    for (resource, most) in
        [(Resource::As, READ_MEMORY), (Resource::Cpu, READ_S), (Resource::Core, 0)]
    {
        // Where a system forbids it the limit of time is left.
        let _ = prlimit(Some(pid), resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

/// Reads all, up to the limit.
async fn whole(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> Result<(), ChildError> {
    if let Some(from) = from {
        // What was read before an error is there.
        let _ = from.take(OUTPUT_LIMIT as u64 + 1).read_to_end(into).await;
    }
    if into.len() > OUTPUT_LIMIT { Err(ChildError::TooLong) } else { Ok(()) }
}

/// Reads all, and keeps the end.
async fn end_of(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    while from.read_buf(into).await.is_ok_and(|read| read > 0) {
        if into.len() > 2 * MESSAGES {
            into.drain(..into.len() - MESSAGES);
        }
    }
    into.drain(..into.len().saturating_sub(MESSAGES));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
