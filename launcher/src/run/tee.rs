//! The output of a process -> our own output and a file.

use std::fs::File;
use std::io::{PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use stage2_model::Finding;
use stage2_read::{files, private};

/// Children of the workload may hold its output open for ever; what they wrote until this long after
/// its end is kept.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// How the copy of a stream goes: what it says at its end, or why there is none.
type Copied = Result<Receiver<Option<String>>, String>;

/// Copies that go on.
pub(super) struct Tee {
    /// With the reason where there is no copy: the process writes to our own output then.
    copies: Vec<(PathBuf, Copied)>,
}

impl Tee {
    /// Starts to copy what `command` will write to its two outputs, before it is started: what cannot be
    /// copied it has to write itself.
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
                findings.push(Finding::warning(what, why, ""));
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
        let (log, unmade) = match log {
            Ok(log) => (Some(log), None),
            Err(error) => (None, Some(error.to_string())),
        };
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
