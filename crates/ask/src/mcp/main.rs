//! `stage2-mcp`: the verbs of `stage2-launch` as tools of the Model Context Protocol, over standard input
//! and output.
//!
//! A line of standard input becomes a message ([`stdio`]), a call of a tool ([`server`], [`tools`]) the
//! command line of a verb, whose runs lie below one folder ([`runs`]), and that a child process with limits
//! ([`child`]). Nothing is computed here: a run that breaks a verb ends that child and no more.
#![forbid(unsafe_code)]

mod child;
mod runs;
mod server;
mod stdio;
mod tools;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::signal::unix::{SignalKind, signal};

use server::Server;
use tools::TOOLS;

const USAGE: &str =
    "usage: stage2-mcp --launcher PROGRAM [--allow run,ctl] ROOT (`stage2-launch mcp` starts it)";
const EXIT_USAGE: u8 = 2;
const EXIT_NO_RESULT: u8 = 70;
/// How long workloads that still run have to end.
const ENDING: Duration = Duration::from_secs(15);

/// What the command line states.
#[derive(Debug, PartialEq)]
struct Options {
    launcher: PathBuf,
    root: PathBuf,
    /// The tools that the person who starts it consents to, by their names.
    allowed: Vec<&'static str>,
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args_os().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(EXIT_USAGE);
    };
    // One thread: all that happens here is waiting for children.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.and_then(|runtime| runtime.block_on(serve(options)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stage2-mcp: {error}");
            ExitCode::from(EXIT_NO_RESULT)
        }
    }
}

fn options(words: impl Iterator<Item = OsString>) -> Option<Options> {
    let (mut launcher, mut root, mut allowed) = (None, None, Vec::new());
    let mut words = words;
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--launcher") => launcher = Some(PathBuf::from(words.next()?)),
            Some("--allow") => allowed = consented(words.next()?.to_str()?)?,
            Some("--") => root = Some(PathBuf::from(words.next()?)),
            Some(option) if option.starts_with("--") => return None,
            _ => root = Some(PathBuf::from(word)),
        }
    }
    Some(Options { launcher: launcher?, root: root?, allowed })
}

/// `run,ctl` -> the tools; none if one needs no consent or does not exist.
fn consented(names: &str) -> Option<Vec<&'static str>> {
    let tool = |name| TOOLS.iter().find(|tool| tool.needs_consent && tool.name == name);
    names.split(',').map(|name| tool(name).map(|tool| tool.name)).collect()
}

/// Serves the client until it closes its end, or a signal ends the program.
async fn serve(options: Options) -> io::Result<()> {
    // The folder may be made later, by the first run: what it is called stays the same.
    let root = std::path::absolute(&options.root)?;
    let server = Server::new(options.launcher, root, options.allowed);
    let children = server.children();
    let (stdio, writing) = stdio::open();
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let session = async {
        match server.serve(stdio).await {
            Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
            // A client that closes its end before it has said anything has no complaint.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => Err(io::Error::other(
                "the client sent no `initialize` first: start a session with it",
            )),
            Err(error) => Err(io::Error::other(error)),
        }
    };
    // A signal, too, ends calls before it ends the program.
    let served = tokio::select! {
        served = session => served,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    children.end(ENDING).await;
    writing.end().await;
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_never_an_option() {
        let read = |words: &[&str]| options(words.iter().map(OsString::from));
        let root = |root: &str, allowed: &[&'static str]| {
            Some(Options { launcher: "l".into(), root: root.into(), allowed: allowed.to_vec() })
        };
        assert_eq!(read(&["--launcher", "l", "r"]), root("r", &[]));
        let words = ["--launcher", "l", "--allow", "ctl,run", "--", "--r"];
        assert_eq!(read(&words), root("--r", &["ctl", "run"]));
        for wrong in [
            &["r"][..],
            &["--launcher", "l"],
            &["--launcher"],
            &["--launcher", "l", "--x", "r"],
            &["--launcher", "l", "--allow", "all", "r"],
            &["--launcher", "l", "--allow", "ask", "r"],
            &["--launcher", "l", "--allow"],
        ] {
            assert_eq!(read(wrong), None);
        }
    }
}
