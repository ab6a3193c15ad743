//! The window of one process that a snapshot takes: asked for, watched, and found on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stage2_contract::control::{Answer, Verb, start_of, unescape};
use stage2_contract::text::visible;
use stage2_model::Finding;

use crate::commands::import::{WindowFile, WindowKind};
use crate::control::{AskError, Found, ask};

/// How often a flush is asked for again that takes longer than an answer may.
const FLUSHES: u32 = 40;
/// Between two of them.
const STEP: Duration = Duration::from_millis(50);

/// The window of one process.
pub(super) struct ProcessWindow {
    found: Found,
    /// The user of the process.
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
    pub(super) fn begin(
        found: &Found,
        status: Result<Answer, AskError>,
        start: &Verb,
    ) -> Result<ProcessWindow, Finding> {
        let refused = |why: &str| missing(found.pid, why);
        let status = status.map_err(|error| refused(&error.to_string()))?;
        let number = |answer: &Answer| answer.get("window").and_then(|number| number.parse().ok());
        let owner = fs::symlink_metadata(&found.path).map(|socket| socket.uid());
        let owner = owner.map_err(|error| refused(&format!("its socket is gone: {error}")))?;
        let take = |number: Option<u64>, ours| {
            let number = number.ok_or_else(|| refused("its answer names no window"))?;
            let file = status.get("file").map(str::to_owned);
            Ok(ProcessWindow { found: found.clone(), owner, number, ours, file, state: State::On })
        };
        match status.get("phase") {
            Some("starting" | "on" | "stopping") => take(number(&status), false),
            Some("dormant") => {
                let answer = ask(found, start).map_err(|error| refused(&error.to_string()))?;
                match answer.refused {
                    true => Err(refused(answer.get("error").unwrap_or("it refused"))),
                    false => take(number(&answer), true),
                }
            }
            phase => Err(refused(&format!("it is {}", phase.unwrap_or("silent")))),
        }
    }

    /// Whether the window was started for the snapshot.
    pub(super) fn is_ours(&self) -> bool {
        self.ours
    }

    /// Whether nothing has to be waited for.
    pub(super) fn is_over(&self) -> bool {
        !self.ours || self.state != State::On
    }

    /// Ends the window, if the snapshot has begun it.
    pub(super) fn stop(&self) {
        if self.ours && self.state == State::On {
            // A process that does not answer has no window to be stopped.
            let _ = ask(&self.found, &Verb::Stop);
        }
    }

    /// Sees whether the window is over.
    pub(super) fn look(&mut self) {
        if self.is_over() {
            return;
        }
        self.heed(ask(&self.found, &Verb::Status));
    }

    fn heed(&mut self, status: Result<Answer, AskError>) {
        let status = match status {
            Ok(status) => status,
            Err(error) => return self.state = State::Gone(error.to_string()),
        };
        let is_own =
            |word: &&str| word_of(word, "number").as_deref() == Some(&*self.number.to_string());
        if let Some(done) =
            status.all("done").find(|done| done.split(' ').any(|word| is_own(&word)))
        {
            self.file = done.split(' ').find_map(|word| word_of(word, "file"));
            self.state = State::Over;
        } else if status.get("window").is_some_and(|number| number == self.number.to_string()) {
            self.file = status.get("file").map(str::to_owned).or(self.file.take());
        }
    }

    /// The trace file, as whole as it gets, and what there is to say of it.
    pub(super) fn finish(&mut self) -> Result<(WindowFile, Option<Finding>), String> {
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
                (WindowKind::Live, Some(Finding::warning(what, why, remedy)))
            }
            State::Gone(why) => {
                let what =
                    format!("process {pid} ended within window {number}, or answers no more");
                let finding =
                    Finding::warning(what, visible(why.as_bytes()), "what it had written is here");
                (WindowKind::Over, Some(finding))
            }
        };
        Ok((WindowFile { path, kind }, finding))
    }

    /// Has the process write out what it has.
    fn flush(&mut self) {
        for _ in 0..FLUSHES {
            let flushed = ask(&self.found, &Verb::Flush);
            // The window may have ended meanwhile.
            self.heed(ask(&self.found, &Verb::Status));
            let done = flushed.is_ok_and(|answer| answer.get("said") == Some("done"));
            if done || self.state != State::On {
                return;
            }
            std::thread::sleep(STEP);
        }
    }

    /// What to say where there is no trace file.
    pub(super) fn missing(&self, why: &str) -> Finding {
        missing(self.found.pid, why)
    }
}

fn missing(pid: u32, why: &str) -> Finding {
    let what = format!("process {pid} is not in the snapshot");
    Finding::warning(
        what,
        visible(why.as_bytes()),
        "`stage2-launch ctl TARGET status` says how it stands",
    )
}

/// Where a file of a process is for us: a process in a container sees other folders. Only a file of the
/// user of the process is believed to be its own.
fn path_of(found: &Found, owner: u32, file: &str) -> Result<PathBuf, String> {
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
            Ok(_) => why = "it is no file of the user of the process".to_owned(),
            Err(error) => why = error.to_string(),
        }
    }
    Err(format!("its trace file {} cannot be used: {why}", visible(file.as_bytes())))
}

/// The value of a word `name=value` of a window that is over.
fn word_of(word: &str, name: &str) -> Option<String> {
    unescape(word.strip_prefix(name)?.strip_prefix('=')?)
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
        let found = Found { pid: std::process::id(), path: folder.path().into(), name };
        let shown = file.to_str().expect("UTF-8");
        assert_eq!(path_of(&found, owner, shown), Ok(file.clone()));
        let refused = |owner, file: &str| path_of(&found, owner, file).expect_err(file);
        assert!(refused(owner + 1, shown).contains("no file of the user"));
        assert!(refused(owner, folder.path().to_str().expect("UTF-8")).contains("no file of"));
        assert!(refused(owner, "/nowhere/a.s2t").contains("No such file"));
    }
}
