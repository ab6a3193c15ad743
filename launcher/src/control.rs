//! Running processes under the collector: where their control sockets are, what they are asked, and what
//! they answer.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::unistd::geteuid;
use stage2_contract::control::{
    Answer, AnswerError, MAX_ANSWER_BYTES, SocketName, Verb, folders, start_of, unescape,
};
use stage2_contract::order::Order as _;
use stage2_contract::text::visible_path;

use crate::failure::Failure;
use crate::threads::begin_alone;

/// Sockets of one folder that are looked at; a server has hundreds of processes at most.
const SOCKETS: usize = 4096;
/// Bytes of a process's environment that are read.
const ENVIRONMENT_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One process, as it is numbered here.
    Process(u32),
    /// The processes that write into the folder of a run.
    Run(PathBuf),
    /// All processes of this user that have a socket on this host.
    All,
}

/// Why nothing can be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    #[error(
        "there is no process {0}; `stage2-launch ctl --all status` lists the processes that you can query"
    )]
    Dead(u32),
    #[error(
        "process {pid} belongs to user {owner}: ask as that user or as root (sudo stage2-launch ctl {pid} ...)"
    )]
    Foreign { pid: u32, owner: u32 },
    #[error(
        "process {pid} does not run under the collector, was started with STAGE2_CONTROL=off, has not used NVTX \
         or CUDA yet, or is ending: it has no control socket; start it with `stage2-launch run --light -- ...` or \
         LD_PRELOAD=libstage2.so (a socket would be in {folders})"
    )]
    NoSocket { pid: u32, folders: String },
    #[error("{what} cannot be used: {why}; no process was asked there")]
    Unsafe { what: String, why: &'static str },
    #[error(
        "no process of this user writes into {0} now; a run that has ended, or that runs on another host, cannot answer"
    )]
    NoneOfRun(String),
    #[error("no process of this user has a control socket on this host (in {0})")]
    Nobody(String),
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Failure {
        Failure::NoResult(error.to_string())
    }
}

pub(crate) fn find(target: &Target) -> Result<Vec<ControlSocket>, FindError> {
    if let Target::Process(pid) = target {
        return of_process(*pid).map(|found| vec![found]);
    }
    let (mut found, looked) = of_user()?;
    let nobody = match target {
        Target::Run(folder) => {
            let folders = [real(folder), real(&folder.join("collector"))];
            found.retain(|found| writes_into(found, &folders));
            FindError::NoneOfRun(visible_path(folder))
        }
        _ => FindError::Nobody(listed(&looked)),
    };
    if found.is_empty() { Err(nobody) } else { Ok(found) }
}

/// Whether a process says that it writes into one of these folders.
fn writes_into(found: &ControlSocket, folders: &[PathBuf]) -> bool {
    let status = ask(found, &Verb::Status).ok();
    let out = status.and_then(|status| Some(real(Path::new(status.get("option.out")?))));
    out.is_some_and(|out| folders.contains(&out))
}

/// As [`find`], where a process that does not answer is found as well: for a run, by its environment, its open
/// files, or the name of its trace file.
pub(crate) fn find_silent(
    target: &Target,
    patience: Duration,
) -> Result<Vec<ControlSocket>, FindError> {
    let Target::Run(folder) = target else { return find(target) };
    let (found, _) = of_user()?;
    let folders = [real(folder), real(&folder.join("collector"))];
    let (give, told) = mpsc::channel();
    let count = found.len();
    for (index, socket) in found.iter().cloned().enumerate() {
        let give = give.clone();
        begin_alone(move || {
            let answer = match is_stopped(socket.pid) {
                true => Err(AskError::Silent { pid: socket.pid }),
                false => ask_for(&socket, &Verb::Status, patience),
            };
            let _ = give.send((index, answer));
        });
    }
    let (mut is_of_run, mut is_stale) = (vec![false; count], vec![false; count]);
    for (index, answer) in told.into_iter().take(count) {
        let Some(socket) = found.get(index) else { continue };
        let out = match &answer {
            Ok(status) => status.get("option.out").map(|out| real(Path::new(out))),
            Err(_) => out_of(socket.pid),
        };
        is_stale[index] = matches!(answer, Err(AskError::Stale { .. }));
        let has_file = || folders.iter().any(|folder| has_trace_of(folder, &socket.name));
        is_of_run[index] =
            out.is_some_and(|out| folders.contains(&out)) || (answer.is_err() && has_file());
    }
    let all = found.into_iter().zip(is_of_run.into_iter().zip(is_stale));
    let (mut of_run, mut stale) = (Vec::new(), Vec::new());
    for (socket, (is_of_run, is_stale)) in all {
        match (is_of_run, is_stale) {
            (true, _) => of_run.push(socket),
            (false, true) => stale.push(socket),
            (false, false) => {}
        }
    }
    if of_run.is_empty() {
        return Err(FindError::NoneOfRun(visible_path(folder)));
    }
    // A process that was dormant has left nothing in the folder.
    stale.retain(|socket| began_with(socket, &of_run));
    of_run.append(&mut stale);
    Ok(of_run)
}

/// Processes of one job begin within this time; another job of the same user may follow soon.
const TOGETHER: Duration = Duration::from_secs(5);

/// When a socket was made.
pub(crate) fn began(socket: &ControlSocket) -> Option<SystemTime> {
    fs::symlink_metadata(&socket.path).and_then(|file| file.modified()).ok()
}

/// Whether a socket was made at about the same time as one of the others.
pub(crate) fn began_with(stale: &ControlSocket, others: &[ControlSocket]) -> bool {
    let Some(at) = began(stale) else { return false };
    let apart = |other: SystemTime| at.duration_since(other).or_else(|_| other.duration_since(at));
    let mut others = others.iter().filter_map(began);
    others.any(|other| apart(other).is_ok_and(|apart| apart <= TOGETHER))
}

/// Whether a signal or a debugger has stopped a process, so that it cannot answer.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program stands in parentheses and may hold blanks and parentheses.
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    matches!(behind.trim_start().chars().next(), Some('T' | 't'))
}

/// `STAGE2_OUT` of a process.
fn out_of(pid: u32) -> Option<PathBuf> {
    let value = variable_of(Path::new(&format!("/proc/{pid}")), b"STAGE2_OUT=")?;
    Some(real(Path::new(&value)))
}

/// Whether a folder holds a trace file of a process: `HOST-PID.s2t`, or of a window or a piece of it.
fn has_trace_of(folder: &Path, name: &SocketName) -> bool {
    // Names of sockets have fewer characters.
    let same = |host: &str| SocketName::new(host, 0, 0).host == name.host;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(SOCKETS);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut stems = names.filter_map(|file| file.strip_suffix(".s2t").map(str::to_owned));
    let pid = name.pid.to_string();
    stems.any(|stem| {
        let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
        ends.filter_map(|end| stem.get(..end)?.rsplit_once('-'))
            .any(|(host, number)| number == pid && same(host))
    })
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn listed(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| visible_path(folder)).collect::<Vec<_>>().join(", ")
}

/// All sockets of this user, in the folders for them.
fn of_user() -> Result<(Vec<ControlSocket>, Vec<PathBuf>), FindError> {
    let owner = geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let looked = folders(owner, runtime);
    let mut found = Vec::new();
    for folder in &looked {
        for (name, path) in sockets(folder, owner)? {
            found.push(ControlSocket { pid: name.pid, path, name });
        }
    }
    found.order_by_key(|found| found.pid);
    Ok((found, looked))
}

/// The socket of a process, which may run in a container and then has another number there.
fn of_process(pid: u32) -> Result<ControlSocket, FindError> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let read = |file: &str| fs::read_to_string(proc.join(file)).ok();
    let start = read("stat").and_then(|stat| start_of(&stat)).ok_or(FindError::Dead(pid))?;
    let status = read("status").unwrap_or_default();
    let numbers = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().map_while(|word| word.parse::<u32>().ok())
    };
    // The effective user is the second of four.
    let owner = numbers("Uid:").nth(1).ok_or(FindError::Dead(pid))?;
    let own = geteuid().as_raw();
    if own != owner && own != 0 {
        return Err(FindError::Foreign { pid, owner });
    }
    // The last of its numbers is that of its own namespace.
    let inner = numbers("NSpid:").last().unwrap_or(pid);
    let mut looked = folders(owner, runtime_of(&proc));
    looked.push(PathBuf::from(format!("/run/user/{owner}/stage2")));
    // A container without root has numbers of its own for users as well.
    let inside = read("uid_map").and_then(|map| user_inside(&map, owner));
    let inside = inside.filter(|inside| *inside != owner);
    looked.extend(inside.into_iter().flat_map(|inside| folders(inside, None)));
    let root = proc.join("root");
    let of_container: Vec<PathBuf> =
        looked.iter().filter_map(|path| Some(root.join(path.strip_prefix("/").ok()?))).collect();
    // As root one gets through to any folder of a container; through our own paths where that is closed.
    looked = of_container.into_iter().chain(looked).collect();
    let mut objection = None;
    for folder in &looked {
        match sockets(folder, owner) {
            Ok(sockets) => {
                let mut sockets = sockets.into_iter();
                let own = sockets.find(|(name, _)| name.pid == inner && name.start == start);
                if let Some((name, path)) = own {
                    return Ok(ControlSocket { pid, path, name });
                }
            }
            Err(error) => objection = Some(error),
        }
    }
    Err(objection.unwrap_or_else(|| FindError::NoSocket { pid, folders: listed(&looked) }))
}

/// The number that a user has in the namespace of a process, by that one's `uid_map`.
fn user_inside(map: &str, user: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let place = user.checked_sub(outside).filter(|place| *place < count)?;
        inside.checked_add(place)
    })
}

/// `XDG_RUNTIME_DIR` of a process, where we may read it.
fn runtime_of(proc: &Path) -> Option<PathBuf> {
    variable_of(proc, b"XDG_RUNTIME_DIR=").map(PathBuf::from)
}

/// A variable of the environment with which a process was started; `name` ends in `=`.
pub(crate) fn variable_of(proc: &Path, name: &[u8]) -> Option<OsString> {
    let mut bytes = Vec::new();
    let file = File::open(proc.join("environ")).ok()?;
    file.take(ENVIRONMENT_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let value = bytes.split(|&byte| byte == 0).find_map(|line| line.strip_prefix(name))?;
    Some(OsStr::from_bytes(value).to_owned())
}

/// The sockets in a folder, which has to be closed to others: else anybody may have put them there.
fn sockets(folder: &Path, owner: u32) -> Result<Vec<(SocketName, PathBuf)>, FindError> {
    let Ok(status) = fs::symlink_metadata(folder) else { return Ok(Vec::new()) };
    let objection = match () {
        () if !status.is_dir() => Some("it is not a folder (links are not followed)"),
        () if status.uid() != owner && status.uid() != 0 => Some("it belongs to another user"),
        () if status.mode() & 0o077 != 0 => Some("others may enter it (chmod 700)"),
        () => None,
    };
    if let Some(why) = objection {
        return Err(FindError::Unsafe { what: visible_path(folder), why });
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(SOCKETS);
    let mut sockets = Vec::new();
    for entry in entries {
        let Some(name) = entry.file_name().to_str().and_then(SocketName::parse) else { continue };
        let path = entry.path();
        let is_ours = path.symlink_metadata().is_ok_and(|file| {
            file.file_type().is_socket() && (file.uid() == owner || file.uid() == 0)
        });
        sockets.extend(is_ours.then_some((name, path)));
    }
    Ok(sockets)
}

/// A socket, and the process that it has to be of.
#[derive(Clone, Debug)]
pub(crate) struct ControlSocket {
    /// As it is numbered here, where that is known; else as its socket is called.
    pub(crate) pid: u32,
    pub(crate) path: PathBuf,
    pub(crate) name: SocketName,
}

/// The longest that an answer is waited for: other clients may be served before.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(
        "process {pid} does not listen any more: it has ended without taking its socket away ({path} can be \
         removed)"
    )]
    Stale { pid: u32, path: String },
    #[error("process {pid} has not answered within {} s: it is stopped, or its machine is overloaded", PATIENCE.as_secs())]
    Silent { pid: u32 },
    #[error("{path} cannot be queried: {error}")]
    Io { path: String, error: io::Error },
    #[error("{path}: {error}")]
    Answer { path: String, error: AnswerError },
    #[error(
        "{path} answers for process {theirs} and not for {pid}: it is stale or was placed there by another program; \
         the answer is ignored"
    )]
    Stolen { pid: u32, theirs: String, path: String },
}

/// Asks, and checks that the process that is meant has answered.
pub(crate) fn ask(found: &ControlSocket, verb: &Verb) -> Result<Answer, AskError> {
    ask_for(found, verb, PATIENCE)
}

/// As [`ask`], and waits for so long at most.
pub(crate) fn ask_for(
    found: &ControlSocket,
    verb: &Verb,
    patience: Duration,
) -> Result<Answer, AskError> {
    let (tell, told) = mpsc::channel();
    let (path, line) = (found.path.clone(), verb.to_line());
    // A connection to a socket whose queue is full waits: on a thread that may be left behind.
    begin_alone(move || {
        // Nobody listens where we have given up.
        let _ = tell.send(exchange(&path, &line));
    });
    let shown = || visible_path(&found.path);
    let pid = found.pid;
    let bytes = told.recv_timeout(patience).map_err(|_| AskError::Silent { pid })?;
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => AskError::Stale { pid, path: shown() },
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::Silent { pid },
        _ => AskError::Io { path: shown(), error },
    })?;
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
    Err(AskError::Stolen { pid, theirs, path: shown() })
}

fn exchange(path: &Path, line: &str) -> io::Result<Vec<u8>> {
    // Through the folder's descriptor: the path of a container may be longer than a socket's may be.
    let (folder, name) = (path.parent(), path.file_name());
    let (Some(folder), Some(name)) = (folder, name) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    let mut stream = UnixStream::connect(short)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(line.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(MAX_ANSWER_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How far ahead that is: the collector prepares for a second, and every process has to be asked before.
const AHEAD: Duration = Duration::from_millis(1250);

/// A window that is over, as an answer tells it: words `name=value` of one line.
pub(crate) struct DoneWindow(pub(crate) Vec<(String, String)>);

impl DoneWindow {
    /// Reads the value of a field `done`. A word that is none is left out.
    pub(crate) fn parse(line: &str) -> DoneWindow {
        let words = line.split(' ').filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), unescape(value)?))
        });
        DoneWindow(words.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn number(&self) -> Option<u64> {
        self.get("number")?.parse().ok()
    }
}

/// The request with a moment at which several processes begin, unless it has one.
pub(crate) fn together(mut verb: Verb, processes: usize) -> Verb {
    if let Verb::Start(start) = &mut verb
        && processes > 1
        && start.at_unix_us.is_none()
    {
        let at = (since_1970() + AHEAD).as_micros();
        start.at_unix_us = u64::try_from(at).ok();
    }
    verb
}

/// How long it is until then.
pub(crate) fn begins_in(verb: &Verb) -> Duration {
    match verb {
        Verb::Start(start) => start
            .at_unix_us
            .map_or(Duration::ZERO, |at| Duration::from_micros(at).saturating_sub(since_1970())),
        _ => Duration::ZERO,
    }
}

/// Now, since 1970; zero where the clock is set before that.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use stage2_contract::control::{SocketName, Start};

    use super::*;

    #[test]
    fn a_folder_that_others_may_enter_and_a_link_are_not_used() {
        use std::os::unix::fs::PermissionsExt as _;

        let root = tempfile::tempdir().expect("a folder");
        let owner = geteuid().as_raw();
        let root = root.path();
        let set = |mode| fs::set_permissions(root, fs::Permissions::from_mode(mode)).unwrap();
        set(0o700);
        fs::write(root.join("host-1-2.sock"), "").unwrap();
        assert!(sockets(root, owner).unwrap().is_empty(), "a file is no socket");
        let _socket = UnixListener::bind(root.join("host-1-3.sock")).unwrap();
        assert_eq!(sockets(root, owner).unwrap()[0].0.start, 3);
        // Root's folders are anybody's to trust.
        let as_other = sockets(root, owner + 1).map_err(|error| error.to_string());
        assert!(owner == 0 || as_other.is_err_and(|error| error.contains("another user")));
        set(0o755);
        assert!(sockets(root, owner).unwrap_err().to_string().contains("chmod 700"));
        let link = root.join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(sockets(&link, owner).unwrap_err().to_string().contains("not a folder"));
        assert!(sockets(&root.join("absent"), owner).unwrap().is_empty());
    }

    /// Hazard (Dormant processes and windows): The process runs in a container, with or without
    ///  root.
    /// Promise: `ctl` finds its socket by the number that the process and its user have there.
    #[test]
    fn users_of_a_container_are_counted_as_its_map_says() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(user_inside(whole, 1000), Some(1000));
        let rootless = "0 1000 1\n1 100000 65536\n";
        let cases = [(1000, Some(0)), (100_999, Some(1000)), (999, None), (165_536, None)];
        for (user, inside) in cases {
            assert_eq!(user_inside(rootless, user), inside, "{user}");
        }
        for hostile in ["", "x y z", "0 0", "4294967295 0 10\n-1 0 1"] {
            assert_eq!(user_inside(hostile, 5), None, "{hostile:?}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_or_has_no_socket_is_named() {
        let said = |pid| of_process(pid).unwrap_err().to_string();
        assert!(said(4_000_000_000).contains("no process 4000000000"));
        let own = said(std::process::id());
        assert!(own.contains("no control socket") && own.contains("LD_PRELOAD"), "{own}");
    }

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
        let result = ask(&ControlSocket { pid: 7, path, name }, &Verb::Status);
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
        assert!(error(b"HTTP/1.1 200 OK\r\n").contains("not an answer of the collector"));
        assert!(error(&[0xff; 300_000]).contains("not an answer of the collector"));
        assert!(error(b"stage2-control/2 ok\nend\n").contains("version 2"));
        assert!(error(b"stage2-control/1 ok\npid 7\n").contains("cut"));
        assert!(error(b"").contains("not an answer of the collector"));
    }

    #[test]
    fn trace_files_of_a_process_are_told_from_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = SocketName::new("node-7", 41, 1);
        let has = |file: &str| {
            let path = folder.path().join(file);
            fs::write(&path, "").expect("a file");
            let found = has_trace_of(folder.path(), &name);
            fs::remove_file(path).expect("removed");
            found
        };
        for own in ["node-7-41.s2t", "node-7-41-w2.s2t", "node-7-41-w2-p000001.s2t"] {
            assert!(has(own), "{own}");
        }
        for other in ["node-7-4.s2t", "node-8-41.s2t", "41.s2t", "node-7-41.why.json", "-41-"] {
            assert!(!has(other), "{other}");
        }
    }

    #[test]
    fn a_socket_that_nobody_serves_is_stale() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = SocketName::new("host", 7, 9);
        let path = folder.path().join(name.to_file_name());
        drop(UnixListener::bind(&path).expect("a socket"));
        let found = ControlSocket { pid: 7, path, name };
        let error = ask(&found, &Verb::Status).unwrap_err().to_string();
        assert!(error.contains("does not listen any more"), "{error}");
    }

    #[test]
    fn a_stale_socket_is_of_the_job_if_it_is_as_old() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "").expect("a file");
            ControlSocket { pid: 1, path, name: SocketName::new("h", 1, 1) }
        };
        let (old, new) = (at("a"), at("b"));
        assert!(began_with(&old, std::slice::from_ref(&new)));
        let long_ago = SystemTime::now() - Duration::from_secs(600);
        fs::File::options().append(true).open(&old.path).unwrap().set_modified(long_ago).unwrap();
        assert!(!began_with(&old, &[new]));
    }

    #[test]
    fn several_processes_have_one_moment_and_a_single_one_begins_at_once() {
        let start = || Verb::Start(Start::default());
        assert_eq!(together(start(), 1), start());
        assert_eq!(begins_in(&start()), Duration::ZERO);
        let soon = together(start(), 2);
        let left = begins_in(&soon);
        assert!(left > AHEAD / 2 && left <= AHEAD, "{left:?}");
        let set = Verb::Start(Start { at_unix_us: Some(5), ..Start::default() });
        assert_eq!(together(set.clone(), 2), set);
        assert_eq!(begins_in(&set), Duration::ZERO, "it is past");
        assert_eq!(together(Verb::Stop, 2), Verb::Stop);
    }
}
