//! A request to a control socket -> the answer of the process that is meant, within a bounded time.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use stage2_contract::control::{Answer, AnswerError, MAX_ANSWER_BYTES, Verb};
use stage2_contract::text::visible_path;

use super::found::Found;
use crate::threads::begin_alone;

/// The longest that an answer is waited for: other clients may be served before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(
        "process {pid} does not listen any more: it has ended without taking its socket away ({path} can be \
         removed)"
    )]
    Stale { pid: u32, path: String },
    #[error("process {pid} has not answered within {} s: it is stopped, or its machine is overloaded", PATIENCE.as_secs())]
    Silent { pid: u32 },
    #[error("{path} cannot be asked: {error}")]
    Io { path: String, error: io::Error },
    #[error("{path}: {error}")]
    Answer { path: String, error: AnswerError },
    #[error(
        "{path} answers for process {theirs} and not for {pid}: it is stale or was put there by somebody else; \
         nothing of the answer is believed"
    )]
    Stolen { pid: u32, theirs: String, path: String },
}

/// Asks, and checks that the process that is meant has answered.
pub(crate) fn ask(found: &Found, verb: &Verb) -> Result<Answer, AskError> {
    let (tell, told) = mpsc::channel();
    let (path, line) = (found.path.clone(), verb.to_line());
    // A connection to a socket whose queue is full waits: on a thread that may be left behind.
    begin_alone(move || {
        // Nobody listens where we have given up.
        let _ = tell.send(exchange(&path, &line));
    });
    let shown = || visible_path(&found.path);
    let bytes = match told.recv_timeout(PATIENCE) {
        Err(_) => return Err(AskError::Silent { pid: found.pid }),
        Ok(Err(error)) => {
            return Err(match error.kind() {
                io::ErrorKind::ConnectionRefused => {
                    AskError::Stale { pid: found.pid, path: shown() }
                }
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    AskError::Silent { pid: found.pid }
                }
                _ => AskError::Io { path: shown(), error },
            });
        }
        Ok(Ok(bytes)) => bytes,
    };
    let answer = Answer::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| AskError::Answer { path: shown(), error })?;
    let expected = [("pid", u64::from(found.name.pid)), ("start_ticks", found.name.start)];
    // A request that was refused before it was read has no more than the reason.
    let is_of_it = |(name, number): (&str, u64)| match answer.get(name) {
        Some(value) => value == number.to_string(),
        None => answer.refused,
    };
    if expected.into_iter().all(is_of_it) {
        return Ok(answer);
    }
    let theirs = answer.get("pid").unwrap_or("unknown").chars().take(20).collect();
    Err(AskError::Stolen { pid: found.pid, theirs, path: shown() })
}

fn exchange(path: &std::path::Path, line: &str) -> io::Result<Vec<u8>> {
    // Through the folder's descriptor: the path of a container may be longer than a socket's may be.
    let (folder, name) = (path.parent(), path.file_name());
    let (Some(folder), Some(name)) = (folder, name) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = File::open(folder)?;
    let short =
        std::path::PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    let mut stream = UnixStream::connect(short)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(line.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(MAX_ANSWER_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use stage2_contract::control::SocketName;

    use super::*;

    /// What is said where the socket answers this.
    fn said(answer: &[u8]) -> Result<Answer, AskError> {
        let folder = tempfile::tempdir().expect("a folder");
        let name = SocketName::new("host", 7, 9);
        let path = folder.path().join(name.to_file_name());
        let listener = UnixListener::bind(&path).expect("a socket");
        let answer = answer.to_owned();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let mut request = [0; 64];
            let _ = client.read(&mut request);
            let _ = client.write_all(&answer);
        });
        let result = ask(&Found { pid: 7, path, name }, &Verb::Status);
        server.join().expect("ends");
        result
    }

    /// Hazard (Dormant processes and windows): Another process serves the socket.
    /// Promise: `ctl` believes nothing of its answer.
    #[test]
    fn only_the_process_that_is_meant_is_believed() {
        let text = |pid, start| Answer::ok().with("pid", pid).with("start_ticks", start).to_text();
        assert!(said(text(7, 9).as_bytes()).is_ok());
        for other in [text(8, 9), text(7, 8), Answer::ok().to_text()] {
            let error = said(other.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("not for 7"), "{error}");
        }
        assert!(said(Answer::error("no").to_text().as_bytes()).is_ok_and(|answer| answer.refused));
    }

    #[test]
    fn garbage_other_versions_and_parts_are_told_apart() {
        let error = |answer: &[u8]| said(answer).unwrap_err().to_string();
        assert!(error(b"HTTP/1.1 200 OK\r\n").contains("no answer of the collector"));
        assert!(error(&[0xff; 300_000]).contains("no answer of the collector"));
        assert!(error(b"stage2-control/2 ok\nend\n").contains("version 2"));
        assert!(error(b"stage2-control/1 ok\npid 7\n").contains("cut"));
        assert!(error(b"").contains("no answer of the collector"));
    }

    #[test]
    fn a_socket_that_nobody_serves_is_stale() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = SocketName::new("host", 7, 9);
        let path = folder.path().join(name.to_file_name());
        drop(UnixListener::bind(&path).expect("a socket"));
        let found = Found { pid: 7, path, name };
        let error = ask(&found, &Verb::Status).unwrap_err().to_string();
        assert!(error.contains("does not listen any more"), "{error}");
    }
}
