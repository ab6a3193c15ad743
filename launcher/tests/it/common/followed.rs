//! A guest that obeys its standard input, whose trace files are followed while it runs, and `feed`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::simulated::obeying;

/// A process that is ended when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The guest, in a folder of its own.
pub(crate) struct Guest {
    pub(crate) child: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Guest {
    /// `start`: what `STAGE2_START` is; `more`: further variables.
    pub(crate) fn new(start: &str, more: &[(&str, &str)]) -> Guest {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["run", "traces"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let mut child = obeying(&folder.path().join("traces"), &folder.path().join("run"))
            .env("STAGE2_START", start)
            .envs(more.iter().copied())
            .spawn()
            .expect("the guest starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut guest = Guest { child: Running(child), stdin, stdout, folder };
        guest.tell("cuda");
        guest
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("heard");
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).expect("an answer");
        assert!(answer.starts_with("ok"), "{answer}");
    }

    pub(crate) fn pid(&self) -> String {
        self.child.0.id().to_string()
    }

    pub(crate) fn traces(&self) -> PathBuf {
        self.folder.path().join("traces")
    }

    /// The launcher in the folder, which finds the guest's socket.
    pub(crate) fn launch(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stage2-launch"));
        command.args(words).env("XDG_RUNTIME_DIR", self.folder.path().join("run"));
        command.current_dir(self.folder.path());
        command
    }

    /// Ends in order: the trace file is whole.
    pub(crate) fn end(self) -> tempfile::TempDir {
        let Guest { mut child, stdin, folder, .. } = self;
        drop(stdin);
        assert!(child.0.wait().expect("ends").success());
        folder
    }
}

/// `feed`, and the address that it serves at.
pub(crate) fn serving(words: &[&str]) -> (Running, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_stage2-launch"))
        .args([&["feed", "--listen", "127.0.0.1:0"], words].concat())
        .stderr(Stdio::piped())
        .spawn()
        .expect("stage2-launch");
    let mut feed = Running(child);
    let mut line = String::new();
    BufReader::new(feed.0.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    (feed, address.unwrap_or_else(|| panic!("{line}")).to_owned())
}

/// What an HTTP server answers, headers and all; empty where it does not.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut answer = Vec::new();
    let exchange = TcpStream::connect(address).and_then(|mut client| {
        client.set_read_timeout(Some(Duration::from_secs(5)))?;
        client.write_all(
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )?;
        client.read_to_end(&mut answer)
    });
    exchange.map(|_| String::from_utf8_lossy(&answer).into_owned()).unwrap_or_default()
}
