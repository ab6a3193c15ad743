//! `stage2-launch ctl why` and the collector in processes that can hardly answer: a word within 2 s, and a process
//! that goes on.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::guest::{Guest, as_user};
use crate::common::simulated::{built, compile};
use crate::common::{LAUNCH, Sandbox, expect_parts, names_in, read, text, wait_until};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use stage2_contract::control::{Answer, SocketName, start_of};

/// The longest that an answer may take.
const LIMIT: Duration = Duration::from_secs(2);
const SPIN: &str = "spin_until_released";

/// What is said within the limit, and the exit status.
#[track_caller]
fn asked(mut command: Command) -> (String, Option<i32>) {
    let mut took = LIMIT;
    // A machine that is overloaded for a moment says nothing of the program.
    for _ in 0..3 {
        let begun = Instant::now();
        let output = command.output().expect("stage2-launch");
        took = begun.elapsed();
        if took < LIMIT {
            return (text(&output), output.status.code());
        }
    }
    panic!("no answer within {took:?}");
}

#[track_caller]
fn why(guest: &Guest, words: &[&str], status: i32) -> String {
    let (said, code) = asked(guest.launch(&[&["ctl"], words].concat()));
    assert_eq!(code, Some(status), "{words:?}: {said}");
    said
}

/// The sentence about all of them.
#[track_caller]
fn verdict(guest: &Guest, target: &str) -> String {
    why(guest, &[target, "why"], 0).lines().next().unwrap_or_default().to_owned()
}

#[track_caller]
fn goes_on(mut guest: Guest) {
    guest.does(["work after 5", "work after 5"]);
    assert_eq!(guest.end().1, Some(0));
}

fn signal(guest: &Guest, signal: Signal) {
    nix::sys::signal::kill(Pid::from_raw(guest.child.id() as i32), signal).expect("it lives");
}

/// Hazard (Standstill): One of two processes was killed; the question names it, or the folder of both, before or after
///  its parent has taken notice.
/// Promise: The answer states that it has ended, and the other one continues.
#[test]
fn a_process_that_is_gone_is_told() {
    let guest = Guest::dormant();
    let mut dead = guest.beside();
    dead.child.kill().expect("lives");
    // Nobody has taken notice of its end.
    wait_until("its end", || read(format!("/proc/{}/stat", dead.pid()).as_ref()).contains(") Z "));
    let said = verdict(&guest, &dead.pid());
    assert_eq!(said, "It has ended, and its parent has not taken notice.");
    dead.child.wait().expect("ended");
    let said = why(&guest, &[&dead.pid(), "why"], 70);
    expect_parts(&said, "said", &["there is no process", "ctl --all status"]);
    // Another process of this user, killed at the same time, may be taken for one of the run.
    let said = why(&guest, &[&guest.traces(), "why"], 0);
    let part =
        format!("process {}: it has ended (it has left its control socket behind", dead.pid());
    expect_parts(&said, "said", &[&part, &format!("process {} (dormant", guest.pid())]);
    goes_on(guest);
}

/// Hazard (Standstill): The process is another user's; root asks for one of a user.
/// Promise: The refusal names the user who may ask; root gets an answer.
#[test]
fn a_process_of_another_user_is_asked_by_root_only() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: only root can be another user");
        return;
    }
    let Some(theirs) = Guest::of_a_user() else { return };
    let said = why(&theirs, &[&theirs.pid(), "why"], 0);
    expect_parts(&said, "said", &["the host waits", "(dormant, "]);
    let ours = Guest::dormant();
    let mut command = as_user();
    command.arg(LAUNCH).args(["ctl", &ours.pid(), "why"]);
    let (said, code) = asked(command);
    assert_eq!(code, Some(70), "{said}");
    expect_parts(&said, "said", &["belongs to user 0: ask as that user or as root"]);
    goes_on(theirs);
    goes_on(ours);
}

/// Hazard (Standstill): The process runs in a container with its own process and thread ids.
/// Promise: It is asked from outside, and its main thread is identified.
#[test]
fn a_process_in_a_container_is_asked_from_outside() {
    let Some(guest) = Guest::in_container() else { return };
    let outer = guest.pid();
    let children = read(format!("/proc/{outer}/task/{outer}/children").as_ref());
    let pid = children.split_whitespace().next().expect("the guest, as it is numbered here");
    let said = why(&guest, &[pid, "why"], 0);
    expect_parts(&said, "said", &[&format!("process {pid} (dormant"), "guest (main) waits for"]);
    goes_on(guest);
}

/// A process that answers as one of another version: this one.
fn serve_as_another_version(guest: &Guest, version: u32) -> u32 {
    let pid = std::process::id();
    let start = start_of(&read("/proc/self/stat".as_ref())).expect("a start");
    let name = SocketName::new(&format!("other{version}"), pid, start).to_file_name();
    let listener = UnixListener::bind(guest.path("run/stage2").join(name)).expect("a socket");
    let out = guest.traces();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut request = [0; 256];
            let length = client.read(&mut request).unwrap_or(0);
            let is_why = String::from_utf8_lossy(&request[..length]).contains(" why");
            let answer = match is_why {
                true => Answer::error("there is no verb why"),
                false => Answer::ok().with("option.out", &out),
            };
            let answer =
                answer.with("pid", pid).with("start_ticks", start).with("collector", "0.0.9");
            let text = answer.to_text().replace("control/1", &format!("control/{version}"));
            let _ = client.write_all(text.as_bytes());
        }
    });
    pid
}

/// Hazard (Standstill): The collector of one process is older and knows no such question, or speaks another language.
/// Promise: The answer states this and the remedy, and reports the others.
#[test]
fn a_collector_of_another_version_is_told() {
    let guest = Guest::dormant();
    let pid = serve_as_another_version(&guest, 1);
    let said = why(&guest, &[&guest.traces(), "why"], 1);
    let part = format!(
        "process {pid}: its collector (0.0.9) does not know why: there is no verb why; start it"
    );
    expect_parts(&said, "said", &[&part, &format!("process {}", guest.pid())]);
    goes_on(guest);
    let guest = Guest::dormant();
    serve_as_another_version(&guest, 2);
    // Nobody knows whether it writes there.
    let said = why(&guest, &["--all", "why"], 0);
    expect_parts(&said, "said", &["version 2"]);
    goes_on(guest);
}

/// Hazard (Standstill): A process is stopped by a signal.
/// Promise: The answer states it, and how to continue the process.
#[test]
fn a_stopped_process_is_told_and_goes_on() {
    let guest = Guest::dormant();
    signal(&guest, Signal::SIGSTOP);
    for target in [guest.pid(), guest.traces()] {
        // As above, others may be told as well.
        let said = why(&guest, &[&target, "why"], 0).to_lowercase();
        expect_parts(&said, "said", &["it is stopped (state t", "kill -cont"]);
    }
    signal(&guest, Signal::SIGCONT);
    goes_on(guest);
}

/// Hazard (Standstill): A process hangs in its exit, in one of its own handlers or after all handlers.
/// Promise: The collector answers while it exists; afterwards the answer comes from outside.
#[test]
fn a_process_in_its_exit_is_told() {
    for start in ["off", "on"] {
        let mut guest = Guest::new(start, &[]);
        guest.tell("linger");
        assert_eq!(guest.exits(), "ok in a handler");
        let said = verdict(&guest, &guest.pid());
        assert!(said.contains("the host waits: thread guest (main) sleeps"), "{start}: {said}");
        signal(&guest, Signal::SIGUSR1);
        assert_eq!(guest.hears(), "ok behind the handlers");
        let said = verdict(&guest, &guest.pid());
        expect_parts(&said, start, &["it is in its exit", "thread guest (main) waits"]);
        signal(&guest, Signal::SIGUSR1);
        assert_eq!(guest.end().1, Some(0));
    }
}

/// Hazard (Standstill): The process may take no more memory, or begin no more threads.
/// Promise: The answer states what is missing and why, and reports the rest; the process continues.
#[test]
fn a_process_without_memory_or_threads_is_told() {
    for (limit, part) in [("no_memory", "no thread can be started"), ("no_threads", "ulimit -u")] {
        let Some(mut guest) = Guest::of_a_user() else { continue };
        guest.tell(limit);
        let said = why(&guest, &[&guest.pid(), "why"], 0);
        expect_parts(&said, limit, &[part, "thread   guest (main)"]);
        guest.tell("enough");
        goes_on(guest);
    }
}

/// An allocator that a thread can hold, as one that stands in it.
const HELD: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
static int held;
static void enter(void) {
    while (__atomic_load_n(&held, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &held, FUTEX_WAIT_PRIVATE, 1, 0, 0, 0);
}
void *malloc(size_t bytes) { enter(); return __libc_malloc(bytes); }
void *calloc(size_t many, size_t bytes) { enter(); return __libc_calloc(many, bytes); }
void *realloc(void *old, size_t bytes) { enter(); return __libc_realloc(old, bytes); }
void free(void *old) { enter(); __libc_free(old); }
void hold_allocator(unsigned seconds) {
    __atomic_store_n(&held, 1, __ATOMIC_RELEASE);
    while (seconds) seconds = sleep(seconds);
    __atomic_store_n(&held, 0, __ATOMIC_RELEASE);
    syscall(SYS_futex, &held, FUTEX_WAKE_PRIVATE, 1 << 30, 0, 0, 0);
}
"#;

/// Hazard (Standstill): A thread of the program hangs with the allocator's lock, so the collector cannot gather
///  evidence.
/// Promise: The answer comes from outside within 2 s and states that; the process continues.
#[test]
fn a_process_whose_allocator_is_held_is_told() {
    let sandbox = Sandbox::new();
    let allocator = compile(&sandbox, HELD, "held.so", &["-shared", "-fPIC", "-O1"]);
    for start in ["off", "on"] {
        let mut guest = Guest::new(start, &[("LD_PRELOAD", allocator.to_str().expect("UTF-8"))]);
        guest.does(["work before 5", "hold 4"]);
        let said = why(&guest, &[&guest.pid(), "why"], 0);
        let part = "the collector's own thread waits for a lock: most likely the allocator's";
        expect_parts(&said, start, &[part, "thread   stage2-control"]);
        goes_on(guest);
    }
}

/// A guest whose GPU is busy without memory traffic, dormant, and that waits for a kernel.
fn stuck_dormant() -> Guest {
    let nvml = built("examples/libnvml.so");
    let mut guest = Guest::new(
        "off",
        &[
            ("STAGE2_NVML", nvml.to_str().expect("UTF-8")),
            ("SIM_NVML_UUIDS", "GPU-00112233-4455-6677-8899-aabbccddeeff"),
            ("SIM_NVML_BUSY", "100"),
        ],
    );
    guest.does(["work before 5", &format!("stuck kernel {SPIN}")]);
    guest
}

/// Hazard (Standstill): A window is asked for while a kernel never ends in a dormant process.
/// Promise: It is refused with the reason, and CUPTI is not started; `--force` starts it; the process goes on.
#[test]
fn a_start_is_refused_while_a_kernel_stands_unless_it_is_forced() {
    // The call that waits is known by its native stack.
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let mut guest = stuck_dormant();
    let pid = guest.pid();
    wait_until("the thread waits", || verdict(&guest, &pid).contains("waits in cuStreamSync"));
    let said = guest.ctl_ends(&[&pid, "start"], 1);
    let part = format!("ask `ctl {pid} why`; --force starts it nevertheless");
    expect_parts(&said, "said", &["refused: a kernel has been running", &part]);
    let status = guest.status();
    assert_eq!((&status["phase"], &status["cupti"]), (&"dormant".into(), &"not started".into()));
    guest.ctl_ends(&[&pid, "start", "--force"], 0);
    guest.does(["release", "unstuck"]);
    wait_until("it is on", || guest.status()["phase"] == "on");
    guest.ctl_ends(&[&pid, "stop", "--wait"], 0);
    goes_on(guest);
}

/// Hazard (Standstill): The evidence is written into a folder that holds an earlier one, or to a full disk.
/// Promise: The answer is printed anyway, with the reason; an earlier answer is not replaced.
#[test]
fn a_bundle_that_cannot_be_written_costs_no_answer() {
    let guest = Guest::dormant();
    let pid = guest.pid();
    let said = why(&guest, &[&pid, "why", "--out", "why"], 0);
    assert_eq!(names_in(&guest.path("why")), ["provenance.json", "why.json", "why.md"]);
    let document: Value = serde_json::from_str(&read(&guest.path("why/why.json"))).expect("JSON");
    let sentence = document["verdict"]["sentence"].as_str().expect("a sentence");
    assert!(said.contains(sentence.get(1..).expect("a text")), "{said}");
    assert!(read(&guest.path("why/why.md")).contains("the host waits"));
    let again = why(&guest, &[&pid, "why", "--out", "why"], 70);
    expect_parts(&again, "said", &["the host waits", "name a folder without an earlier answer"]);
    let Some(output) = on_a_full_disk(&guest, &["ctl", &pid, "why", "--out", "full/why"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(70), "{}", text(&output));
    let parts = ["the host waits", "cannot be written: No space left on device"];
    expect_parts(&text(&output), "said", &parts);
    goes_on(guest);
}

/// The launcher in the guest's folder, in which `full` is a disk without room for a file. `None` where the system
/// forbids that.
fn on_a_full_disk(guest: &Guest, words: &[&str]) -> Option<Output> {
    std::fs::create_dir(guest.path("full")).expect("a folder");
    let script = "mount -t tmpfs -o size=4k tmpfs full && mkdir full/why && head -c 4096 /dev/zero >full/x && exec \"$@\"";
    let options = if geteuid().is_root() { "-m" } else { "-Urm" };
    let run = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args([options, "sh", "-c", script, "sh"]).args(words);
        command.current_dir(guest.folder.path()).env("XDG_RUNTIME_DIR", guest.path("run"));
        command.output()
    };
    let trial = run(&["true"]);
    if !trial.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no disk can be mounted here: {trial:?}");
        return None;
    }
    run(&[&[LAUNCH], words].concat()).ok()
}

/// Hazard (Standstill): A rank is killed while another one waits for it in a collective; later the collective ends.
/// Promise: The first sentence names the rank, that it has ended, and who waits; that one goes on.
#[test]
fn a_rank_that_was_lost_in_a_collective_is_named() {
    let mut waits = Guest::new("on", &[("RANK", "0")]);
    let both = [("RANK", "1"), ("STAGE2_FLUSH_MS", "50")];
    let mut lost = Guest::new_in(std::rc::Rc::clone(&waits.folder), "on", &both);
    for guest in [&mut waits, &mut lost] {
        guest.tell("work step 5");
    }
    waits.tell(&format!("stuck kernel {SPIN}_ncclDevKernel_AllReduce"));
    lost.ctl_ends(&[&lost.pid(), "flush"], 0);
    lost.child.kill().expect("lives");
    lost.child.wait().expect("ended");
    let mut said = String::new();
    // Work that ended within the last second shows that kernels end.
    wait_until("the collective stands", || {
        said = why(&waits, &[&waits.traces(), "why"], 0);
        said.lines().next().is_some_and(|line| line.contains("in the collective"))
    });
    let parts = [
        format!("has ended; rank 0 (process {}) waits in the collective", waits.pid()),
        format!("rank 1 (process {}): it has ended (its trace file", lost.pid()),
    ];
    expect_parts(&said, "said", &parts.each_ref().map(String::as_str));
    waits.does(["release", "unstuck"]);
    goes_on(waits);
}

/// Hazard (Standstill): Ranks on several hosts hang, and `why` is not called; their watches have written files.
/// Promise: The files, judged together, name the rank that did not enter the collective.
#[test]
fn files_of_watches_are_judged_together() {
    let watched = |rank: &str| Guest::new("on", &[("STAGE2_WATCH", "1s"), ("RANK", rank)]);
    let mut waits = watched("0");
    waits.does(["work step 5", &format!("stuck kernel {SPIN}_ncclDevKernel_AllReduce")]);
    let mut away = watched("1");
    // A step that stands on the host.
    away.does(["work step 5", "work step 5", "work step 5", "push step"]);
    let file = |guest: &Guest| {
        let find = || {
            let names = names_in(&guest.path("traces"));
            let mut files = names.into_iter().filter(|name| name.ends_with(".why.json"));
            files.next().map(|name| guest.path("traces").join(name))
        };
        wait_until("a file", || find().is_some());
        find().expect("a file").to_str().expect("UTF-8").to_owned()
    };
    let (first, second) = (file(&waits), file(&away));
    let (said, code) = asked(waits.launch(&["ctl", "why", "--from", &first, &second]));
    assert_eq!(code, Some(0), "{said}");
    let start = format!("Rank 1 (process {}) did not enter the collective", away.pid());
    assert!(said.starts_with(&start), "{said}");
    let parts = ["a step does not end", "range step has been open for", "rank 0 (process"];
    expect_parts(&said, "said", &parts);
    waits.does(["release", "unstuck"]);
    goes_on(waits);
    away.tell("pop");
    goes_on(away);
}
