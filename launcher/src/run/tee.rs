//! The output of a process -> our own output and a file.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use stage2_analysis::private;
use stage2_model::Finding;

/// Children of the workload may hold its output open for ever; what they wrote until this long after
/// its end is kept.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// Copies that go on.
pub(super) struct Tee {
    copies: Vec<(PathBuf, Receiver<Option<String>>)>,
}

impl Tee {
    /// Starts to copy the two outputs of `child`, as far as they are pipes.
    pub(super) fn start(child: &mut Child, (stdout, stderr): &(PathBuf, PathBuf)) -> Tee {
        let mut copies = Vec::new();
        if let Some(from) = child.stdout.take() {
            copies.push((stdout.clone(), start_copy(from, std::io::stdout(), stdout)));
        }
        if let Some(from) = child.stderr.take() {
            copies.push((stderr.clone(), start_copy(from, std::io::stderr(), stderr)));
        }
        Tee { copies }
    }

    /// Waits for the ends of the outputs, but not for ever.
    pub(super) fn finish(self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (path, end) in self.copies {
            let problem = match end.recv_timeout(DRAIN_LIMIT) {
                Ok(problem) => problem,
                Err(_) => Some("a child of the workload still writes to it".to_owned()),
            };
            if let Some(why) = problem {
                let what = format!("{} is incomplete", path.display());
                findings.push(Finding::warning(what, why, ""));
            }
        }
        findings
    }
}

fn start_copy(
    from: impl Read + Send + 'static,
    to: impl AsFd,
    log: &Path,
) -> Receiver<Option<String>> {
    let (sender, receiver) = mpsc::channel();
    // A descriptor of our own: the standard streams of Rust hold partial lines back.
    let to = to.as_fd().try_clone_to_owned().map(File::from);
    let log = private::create(log);
    std::thread::spawn(move || {
        let _ = sender.send(copy(from, to, log));
    });
    receiver
}

/// Copies until the end. What is wrong with the log costs the log, never the output of the user.
fn copy(
    mut from: impl Read,
    to: std::io::Result<impl Write>,
    log: std::io::Result<impl Write>,
) -> Option<String> {
    let (mut log, mut problem) = match log {
        Ok(log) => (Some(log), None),
        Err(error) => (None, Some(error.to_string())),
    };
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
    use std::io::{Error, ErrorKind};

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
        assert_eq!(copy(&bytes[..], Ok(&mut to), Ok(&mut log)), None);
        assert_eq!((to, log), (bytes.clone(), bytes));
    }

    #[test]
    fn a_full_disk_costs_the_log_only() {
        let mut to = Vec::new();
        let problem = copy(&b"out"[..], Ok(&mut to), Ok(Failing(ErrorKind::StorageFull)));
        assert_eq!((to.as_slice(), problem.is_some()), (&b"out"[..], true));
        let mut to = Vec::new();
        let none: std::io::Result<Vec<u8>> = Err(Error::from(ErrorKind::PermissionDenied));
        assert!(copy(&b"out"[..], Ok(&mut to), none).is_some() && to == b"out");
    }

    #[test]
    fn a_reader_that_left_is_no_fault() {
        let mut log = Vec::new();
        assert_eq!(copy(&b"out"[..], Ok(Failing(ErrorKind::BrokenPipe)), Ok(&mut log)), None);
        assert!(copy(&b"out"[..], Ok(Failing(ErrorKind::StorageFull)), Ok(&mut log)).is_some());
    }
}
