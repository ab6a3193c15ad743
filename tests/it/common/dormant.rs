//! Guests with a dormant collector: what they are told by the control socket, and the windows that they leave.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{Guest, Running, TraceFile, wait_for};
use stage2_contract::control::{Answer, SocketName};

/// Nothing here takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn dormant() -> Guest {
    Guest::new("obey").env("STAGE2_START", "off")
}

/// A dormant guest that has used CUDA and NVTX.
pub(crate) fn dormant_at_work() -> Running {
    let mut guest = dormant().spawn();
    guest.tell("cuda");
    guest.tell("work before 10");
    guest
}

pub(crate) fn socket_of(guest: &Running, pid: u32) -> PathBuf {
    let of_it = |name: &String| SocketName::parse(name).is_some_and(|name| name.pid == pid);
    let what = || format!("a socket of {pid}: {}", guest.stderr());
    wait_for(what, || {
        let files = std::fs::read_dir(guest.sockets()).into_iter().flatten().flatten();
        let mut names = files.filter_map(|file| file.file_name().into_string().ok());
        names.find(of_it).map(|name| guest.sockets().join(name))
    })
}

pub(crate) fn send(guest: &Running, pid: u32, text: &[u8]) -> Answer {
    let socket = socket_of(guest, pid);
    // It has its name a moment before it listens.
    let connect = || match UnixStream::connect(&socket) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => None,
        connected => Some(connected.expect("it listens")),
    };
    let mut stream = wait_for(|| format!("{pid} listens"), connect);
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(text).expect("taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    Answer::parse(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

pub(crate) fn ask(guest: &Running, line: &str) -> Answer {
    send(guest, guest.pid(), format!("stage2-control/1 {line}\n").as_bytes())
}

pub(crate) fn accepted(guest: &Running, line: &str) -> Answer {
    let answer = ask(guest, line);
    assert!(!answer.refused, "{answer:?}");
    answer
}

pub(crate) fn refused(guest: &Running, line: &str) -> String {
    let answer = ask(guest, line);
    assert!(answer.refused, "{answer:?}");
    answer.get("error").expect("a reason").to_owned()
}

/// Asks a process for its status until it says so. The socket of a child is there a moment before.
pub(crate) fn await_phase_of(guest: &Running, pid: u32, phase: &str) -> Answer {
    let what = || format!("{pid} is {phase}: {}", guest.stderr());
    wait_for(what, || {
        let status = send(guest, pid, b"stage2-control/1 status\n");
        assert!(!status.refused, "{status:?}");
        (status.get("phase") == Some(phase)).then_some(status)
    })
}

pub(crate) fn await_phase(guest: &Running, phase: &str) -> Answer {
    await_phase_of(guest, guest.pid(), phase)
}

pub(crate) fn start(guest: &Running, words: &str) {
    accepted(guest, &format!("start {words}"));
    await_phase(guest, "on");
}

pub(crate) fn stop(guest: &Running) {
    accepted(guest, "stop");
    await_phase(guest, "dormant");
}

pub(crate) fn window(guest: &Running, number: u64) -> TraceFile {
    let ending = format!("-w{number}.s2t");
    let file = std::fs::read_dir(guest.out()).expect("folder").flatten().map(|file| file.path());
    let file = file.filter(|path| path.to_string_lossy().ends_with(&ending));
    let files: Vec<PathBuf> = file.collect();
    assert_eq!(files.len(), 1, "window {number}: {}", guest.stderr());
    TraceFile::read(&files[0])
}

pub(crate) fn trace_files(guest: &Running) -> usize {
    let files = std::fs::read_dir(guest.out()).expect("folder").flatten();
    files.filter(|file| file.path().extension().is_some_and(|ending| ending == "s2t")).count()
}

pub(crate) fn threads_of_ours(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let names = names.map(|name| name.trim().to_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("stage2-")).collect();
    names.sort();
    names
}

pub(crate) fn own_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("KiB")
}
