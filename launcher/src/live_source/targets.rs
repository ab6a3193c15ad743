//! The words of a command line -> trace files to follow, sockets to ask, and ports.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stage2_contract::control::Verb;
use stage2_contract::text::{visible, visible_path};
use stage2_live::Source;

use super::{COLLECTOR, ports};
use crate::bundle::{LATEST, not_a_run, run_named, window_bundles};
use crate::control::{Target, ask, find};
use crate::failure::Failure;

/// How the sockets of all processes are called.
pub(super) const ALL_PROCESSES: &str = "all processes";
/// Runs that an error names.
const LISTED: usize = 8;

/// What a word means: files to follow, sockets to ask, a port to ask; and what people call it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) sources: Vec<Source>,
    pub(super) target: Option<Target>,
    pub(super) port: Option<String>,
    pub(super) name: String,
}

impl Found {
    pub(super) fn sockets(target: Target, name: String) -> Found {
        Found { sources: Vec::new(), target: Some(target), port: None, name }
    }

    /// What tells it apart from others: of a path the folder of the run, also behind `latest`, and a file in it.
    pub(super) fn title(&self) -> String {
        let path = match self.sources.first() {
            Some(Source::Folder(path) | Source::File(path)) => path,
            None => return self.name.clone(),
        };
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let parts = [Some(run_of(&real)), Some(real.as_path()).filter(|real| real.is_file())];
        let names = parts.into_iter().flatten().filter_map(Path::file_name);
        names.map(|name| visible(name.as_bytes())).collect::<Vec<_>>().join("/")
    }
}

/// The folder of the run that a folder or a file of traces belongs to.
pub(super) fn run_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|_| path.is_file()).unwrap_or(path);
    folder.parent().filter(|_| folder.ends_with(COLLECTOR)).unwrap_or(folder)
}

/// Processes by the folder that they write into: these are one run.
pub(super) type Runs = BTreeMap<Option<PathBuf>, Vec<u32>>;

/// The run whose processes are the only ones of this user that have a socket on this host.
pub(super) fn only_live_run() -> Result<Found, Failure> {
    let mut runs = Runs::new();
    for socket in find(&Target::All).unwrap_or_default() {
        // One that does not answer has ended, or is stopped.
        if let Ok(answer) = ask(&socket, &Verb::Status) {
            let folder = answer.get("option.out").map(PathBuf::from);
            runs.entry(folder).or_default().push(socket.pid);
        }
    }
    only_of(&runs)
}

pub(super) fn only_of(runs: &Runs) -> Result<Found, Failure> {
    let mut all = runs.iter();
    let what = match (all.next(), all.next()) {
        (Some((Some(folder), _)), None) if folder.is_dir() => return named(folder),
        (Some((_, pids)), None) => {
            return Ok(match pids.as_slice() {
                [pid] => Found::sockets(Target::Process(*pid), format!("process {pid}")),
                _ => Found::sockets(Target::All, ALL_PROCESSES.to_owned()),
            });
        }
        (None, _) => return Err(no_process()),
        _ => {
            let all: Vec<String> = runs.iter().take(LISTED).map(run_text).collect();
            format!("{} runs are live: {}", runs.len(), all.join(", "))
        }
    };
    Err(Failure::Usage(format!(
        "{what}; name a TARGET: a process, the folder of a run, a folder or file of traces, or --all"
    )))
}

pub(super) fn no_process() -> Failure {
    Failure::NoResult(
        "no process of this user runs under the collector on this host now; name a TARGET: the folder of a run, or a \
         folder or file of traces"
            .to_owned(),
    )
}

fn run_text((folder, pids): (&Option<PathBuf>, &Vec<u32>)) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let what = if pids.len() == 1 { "process" } else { "processes" };
    let folder =
        folder.as_ref().map_or_else(|| "no trace file".to_owned(), |path| visible_path(path));
    format!("{what} {} ({folder})", pids.join(", "))
}

/// The word is a number, a folder, a file or a port.
pub(super) fn meant(word: &str) -> Result<Found, Failure> {
    if let Ok(pid) = word.parse() {
        return Ok(Found::sockets(Target::Process(pid), format!("process {pid}")));
    }
    match ports::address(word).filter(|_| !Path::new(word).exists()) {
        Some(address) => {
            let name = visible(address.as_bytes());
            Ok(Found { sources: Vec::new(), target: None, port: Some(address), name })
        }
        None => named(Path::new(word)),
    }
}

fn no_target(path: &Path) -> String {
    not_a_run(path)
        .replace(", not the folder of a run", ", not a trace file (.s2t) or the folder of a run")
}

pub(super) fn named(path: &Path) -> Result<Found, Failure> {
    // `latest` leads elsewhere once another run begins.
    let (path, shown) = (run_named(path), visible_path(path));
    let linked = path.read_link().ok().filter(|_| path.ends_with(LATEST));
    let path = linked.map_or_else(|| path.clone(), |run| path.with_file_name(run));
    if path.is_dir() {
        // A run has its trace files in a folder of its bundle.
        let collector = path.join(COLLECTOR);
        let own = [Some(path.clone()), Some(collector).filter(|path| path.is_dir())];
        // Of a dormant run that has ended, the trace files are in the bundles of its windows.
        let windows = window_bundles(&path).into_iter().map(|window| window.join(COLLECTOR));
        let sources = own.into_iter().flatten().chain(windows).map(Source::Folder).collect();
        return Ok(Found { sources, target: Some(Target::Run(path)), port: None, name: shown });
    }
    if path.is_file() && path.extension().is_none_or(|ending| ending != "s2t") {
        return Err(Failure::Usage(no_target(&path)));
    }
    if path.is_file() {
        let sources = vec![Source::File(path)];
        return Ok(Found { sources, target: None, port: None, name: shown });
    }
    let why = no_target(&path);
    let end = if why.ends_with('?') { "" } else { ";" };
    Err(Failure::Usage(format!("{why}{end} `stage2-launch ctl --all status` lists processes")))
}
