//! A process that stands still is asked why: what the collector tells of kernels that do not end, of threads, and of
//! a process that goes on afterwards.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use crate::common::dormant::*;
use crate::common::{Guest, Running, built, wait_for};
use serde_json::Value;
use stage2_contract::control::Answer;

/// The longest that an answer may take.
const LIMIT: Duration = Duration::from_secs(2);
const SPIN: &str = "spin_until_released";

struct Told {
    answer: Answer,
    process: Value,
    work: Option<Value>,
    threads: Vec<Value>,
}

fn why(guest: &Running) -> Told {
    // A machine that is overloaded for a moment says nothing of the collector.
    let asked = || {
        let begun = Instant::now();
        (accepted(guest, "why"), begun.elapsed())
    };
    let (mut answer, mut took) = asked();
    for _ in 0..2 {
        if took >= LIMIT {
            (answer, took) = asked();
        }
    }
    assert!(took < LIMIT, "{took:?}");
    let read = |text: &str| serde_json::from_str::<Value>(text).expect(text);
    let process = read(answer.get("process").expect("a process"));
    let work = answer.get("work").map(read);
    let threads = answer.all("thread").map(read).collect();
    Told { process, work, threads, answer }
}

/// The first unfinished work, once the kernel has been launched.
fn unfinished(guest: &Running) -> Value {
    wait_for(
        || format!("unfinished work: {}", guest.stderr()),
        || {
            let told = why(guest);
            let work = told.work.expect("it records");
            let queues = work["queues"].as_array().expect("streams").clone();
            queues.into_iter().find(|queue| !queue["first_unfinished"].is_null())
        },
    )
}

fn stuck(how: &str) -> Running {
    let mut guest = Guest::new("obey").spawn();
    guest.does(["cuda", "work first 5"]);
    guest.tell(&format!("stuck {how} {SPIN}"));
    guest
}

/// Hazard (Standstill): A kernel never ends, alone, within a replayed graph, or with a full queue behind it.
/// Promise: Within 2 s, the answer names it, its range and the work queued behind it, and the process continues once it
///  ends; the trace is complete except for the times of unfinished work.
#[test]
fn a_kernel_that_never_ends_is_named_and_the_process_goes_on() {
    for (how, kernels) in [("kernel", 34), ("graph", 40), ("queue", 2_024)] {
        let mut guest = stuck(how);
        // Until nothing has ended for a second, kernels end.
        let queue = unfinished(&guest);
        let first = &queue["first_unfinished"];
        let behind = queue["unfinished"].as_u64().expect("a number");
        match how {
            "kernel" => assert_eq!(behind, 11, "{queue}"),
            "graph" => {
                assert_eq!(behind, 14, "{queue}");
                assert!(first["graph"].as_u64() > Some(0), "{queue}");
                assert_eq!(first["node"], 3, "{queue}");
            }
            _ => assert!(behind > 900, "{queue}"),
        }
        assert_eq!(first["name"], SPIN, "{how}: {queue}");
        assert_eq!(first["path"], "decode", "{how}: {queue}");
        let path = if how == "graph" { "decode" } else { "before" };
        assert_eq!(queue["last_finished"]["path"], path, "{how}: {queue}");
        // Asked again, it is still known, and so is for how long.
        let again = unfinished(&guest);
        assert_eq!(again["first_unfinished"]["name"], SPIN);
        guest.does(["release", "unstuck", "work after 7"]);
        let told = why(&guest);
        assert_eq!(told.work.expect("it records")["unfinished"], 0, "{how}: later work has ended");
        assert!(guest.end().success());
        assert_eq!(guest.stderr(), "", "{how}");
        let trace = crate::common::traces_in(guest.out()).pop().expect("a trace");
        assert_eq!(trace.kernel_count(), kernels, "{how}");
        let losses = trace.losses();
        assert!(losses.invalid_timestamps >= behind.min(11), "{how}: {losses:?}");
    }
}

/// Hazard (Standstill): The process works, or waits for work.
/// Promise: CUPTI is not flushed by force while kernels end, and no record loses its times.
#[test]
fn a_process_whose_kernels_end_loses_nothing() {
    let mut guest = Guest::new("obey").spawn();
    guest.does(["cuda", "busy 1"]);
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        let told = why(&guest);
        let work = told.work.expect("it records");
        assert_eq!(work["forced"], false, "{work}");
        assert_eq!(work["unfinished"], 0, "{work}");
    }
    guest.tell("calm");
    assert!(guest.end().success());
    let trace = crate::common::traces_in(guest.out()).pop().expect("a trace");
    assert_eq!(trace.losses(), stage2_contract::trace::Losses::default());
}

/// Hazard (Standstill): Nothing is recorded.
/// Promise: The answer lists threads with their stacks and what is missing, and CUPTI is not started.
#[test]
fn a_dormant_process_tells_its_threads_and_does_not_start_cupti() {
    let mut guest = dormant_at_work();
    guest.tell(&format!("stuck kernel {SPIN}"));
    // Its driver wakes up now and then, and a thread that runs has no native stack.
    let is_it = |thread: &Value| {
        let frames = thread["native"].as_array().cloned().unwrap_or_default();
        let waits = frames.iter().any(|frame| frame.as_str().unwrap().starts_with("cuStreamSync"));
        thread["name"] == "stuck" && (waits || !cfg!(target_arch = "x86_64"))
    };
    let told = wait_for(
        || "the thread".to_owned(),
        || Some(why(&guest)).filter(|told| told.threads.iter().any(is_it)),
    );
    assert!(told.work.is_none());
    assert_eq!(told.process["phase"], "dormant");
    assert!(told.answer.all("missing").any(|note| note.contains("nothing is recorded")));
    assert_eq!(await_phase(&guest, "dormant").get("cupti"), Some("not started"));
    let is_alone = || (threads_of_ours(guest.pid()) == ["stage2-control"]).then_some(());
    wait_for(|| "the look ends".to_owned(), is_alone);
    guest.does(["release", "unstuck"]);
    assert!(guest.end().success());
    assert_eq!(guest.stderr(), "");
}

/// Hazard (Standstill): A dormant process waits for a kernel that never ends.
/// Promise: The answer has NVML's readings and how long they have been the same; the watch writes it.
#[test]
fn a_dormant_process_tells_how_long_its_gpu_has_been_busy() {
    let guest = with_gpu(dormant(), 100).env("STAGE2_WATCH", "1s");
    let mut guest = guest.spawn();
    guest.does(["cuda", "work before 10"]);
    guest.tell(&format!("stuck kernel {SPIN}"));
    let gpu = |told: &Told| {
        let gpu: Value = serde_json::from_str(told.answer.get("gpu")?).expect("JSON");
        Some(gpu)
    };
    let told = why(&guest);
    let gpu = gpu(&told).expect("a reading");
    assert_eq!((&gpu["gpu_percent"], &gpu["memory_percent"]), (&100.into(), &0.into()), "{gpu}");
    assert_eq!((&gpu["busy_ms"], &gpu["quiet_ms"]), (&20_000.into(), &20_000.into()), "{gpu}");
    let file = wait_for(|| format!("a file: {}", guest.stderr()), || written(&guest).pop());
    let text = std::fs::read_to_string(file).expect("a file");
    assert!(text.contains("the GPU is busy without memory traffic"), "{text}");
    guest.does(["release", "unstuck"]);
    assert!(guest.end().success());
}

/// The files that a watch has written.
fn written(guest: &Running) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(guest.out()).expect("folder").flatten().map(|file| file.path());
    files.filter(|path| path.to_string_lossy().ends_with(".why.json")).collect()
}

/// A GPU that is so busy, without memory traffic, percent.
fn with_gpu(guest: Guest, busy: u32) -> Guest {
    guest
        .env("STAGE2_NVML", built("libnvml.so"))
        .env("SIM_NVML_UUIDS", "GPU-00112233-4455-6677-8899-aabbccddeeff")
        .env("SIM_NVML_BUSY", busy.to_string())
}

fn watched() -> Guest {
    Guest::new("obey").env("STAGE2_WATCH", "1s")
}

/// Hazard (Standstill): A kernel never ends, and `why` is not called; the command of the watch fails.
/// Promise: The watch writes the evidence once, reports it in one line, runs the command and reports its failure; the
///  process continues.
#[test]
fn a_watch_writes_once_what_stands_and_runs_the_command() {
    let command = "cat \"$STAGE2_WHY_FILE\" >\"$STAGE2_WHY_FILE.copy\"; exit 3";
    let mut guest = watched().env("STAGE2_WATCH_COMMAND", command).spawn();
    guest.does(["cuda", "work first 5"]);
    guest.tell(&format!("stuck kernel {SPIN}"));
    let file = wait_for(
        || format!("a file: {}", guest.stderr()),
        || written(&guest).pop().filter(|_| guest.stderr().contains("status 3")),
    );
    let text = std::fs::read_to_string(&file).expect("a file");
    let evidence: Value = serde_json::from_str(&text).expect("JSON");
    assert!(evidence["watch"].as_str().expect("a reason").contains("no work on the GPU has ended"));
    assert!(text.contains(SPIN), "{text}");
    assert_eq!(evidence["process"]["pid"], guest.pid());
    let copy =
        std::fs::read_to_string(format!("{}.copy", file.display())).expect("the command ran");
    assert_eq!(copy, text);
    // It still stands, and is not told again.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(written(&guest).len(), 1);
    guest.does(["release", "unstuck"]);
    assert!(guest.end().success());
    let said = guest.stderr();
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("STAGE2_WATCH_COMMAND: it ended with status 3"), "{said}");
}

/// Hazard (Standstill): A watched process waits for requests, recording or dormant, in a range that closes rarely,
///  within one around the whole service.
/// Promise: Nothing is written or printed.
#[test]
fn a_watch_leaves_an_idle_process_alone() {
    for start in ["on", "off"] {
        let mut guest = watched().env("STAGE2_START", start).spawn();
        guest.does(["cuda", "push serve"]);
        for _ in 0..4 {
            guest.does(["work step 5", "push waiting", "pop"]);
        }
        guest.tell("push waiting");
        std::thread::sleep(Duration::from_millis(3500));
        assert!(written(&guest).is_empty(), "{start}: {}", guest.stderr());
        guest.does(["pop", "pop"]);
        assert!(guest.end().success());
        assert_eq!(guest.stderr(), "", "{start}");
    }
}

/// Hazard (Standstill): The host is stuck between two launches of a step, with no unfinished GPU work.
/// Promise: The watch and the answer report that the range does not close, and how long earlier ones took.
#[test]
fn a_step_that_stands_on_the_host_is_told() {
    let mut guest = watched().spawn();
    guest.does(["cuda", "push serve"]);
    for _ in 0..3 {
        guest.tell("work step 5");
    }
    guest.tell("push step");
    let file = wait_for(|| format!("a file: {}", guest.stderr()), || written(&guest).pop());
    let evidence: Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("a file")).expect("JSON");
    let reason = evidence["watch"].as_str().expect("a reason");
    assert!(reason.starts_with("range serve/step has been open for "), "{reason}");
    assert!(reason.contains("s, the 3 before it for "), "{reason}");
    let told = why(&guest).work.expect("it records");
    let ranges = told["open_ranges"].as_array().expect("ranges");
    let overdue: Vec<_> = ranges.iter().map(|range| range["overdue"].clone()).collect();
    assert_eq!(overdue, [false, true], "the one around it was never closed: {told}");
    guest.does(["pop", "work step 5", "pop"]);
    assert!(guest.end().success());
    assert_eq!(guest.stderr().lines().count(), 1, "{}", guest.stderr());
}

/// Hazard (Standstill): A call of the driver does not return.
/// Promise: The answer names it with its thread, its range and for how long; the process goes on once it returns.
#[test]
fn a_call_that_does_not_return_is_named() {
    let guest = Guest::new("obey").env("STAGE2_HOST", "on");
    let mut guest = guest.env("STAGE2_SIM_FAULT", "slow-alloc=4000").spawn();
    guest.does(["cuda", "work first 5", "allocate"]);
    let long = |told: Told| {
        let work = told.work.expect("it records");
        let call = work["calls"].as_array().expect("calls").first()?.clone();
        (call["ms"].as_u64() > Some(500)).then_some((told.threads, work, call))
    };
    let (threads, work, call) = wait_for(|| "a long call".to_owned(), || long(why(&guest)));
    assert_eq!(call["name"], "cuMemAlloc", "{work}");
    let thread = threads.iter().find(|thread| thread["tid"] == call["tid"]).expect("a thread");
    assert_eq!(thread["name"], "allocates");
    assert_eq!(work["open_ranges"][0]["path"], "load", "{work}");
    guest.does(["unstuck", "work after 5"]);
    assert!(guest.end().success());
    assert_eq!(guest.stderr(), "");
}

/// Hazard (Standstill): CUPTI's flush does not return, so that the thread that reads records cannot answer.
/// Promise: The answer comes in time, states that, and lists the threads.
#[test]
fn a_flush_that_does_not_return_costs_the_records_only() {
    let mut guest = Guest::new("obey").env("STAGE2_SIM_FAULT", "flush-hang=4000").spawn();
    guest.does(["cuda", "work first 5"]);
    let hangs = |told: Told| {
        let part = "the thread that reads records has not answered";
        let is_it = told.answer.all("missing").any(|note| note.contains(part));
        is_it.then_some(told)
    };
    let told = wait_for(|| "a flush that hangs".to_owned(), || hangs(why(&guest)));
    assert!(told.work.is_none());
    assert!(told.threads.iter().any(|thread| thread["name"] == "guest"));
    guest.tell("work after 5");
}

/// Hazard (Standstill): Two ask at once, and one look takes most of the time that both have.
/// Promise: Both get the same answer, of one look.
#[test]
fn two_who_ask_at_once_get_one_answer() {
    let guest = dormant_at_work();
    await_phase(&guest, "dormant");
    let socket = socket_of(&guest, guest.pid());
    let ask = || {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).expect("it listens");
        stream.write_all(b"stage2-control/1 why\n").expect("taken");
        stream
    };
    let answers = [ask(), ask()].map(|mut stream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    });
    assert!(answers[0].contains("\nprocess "), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(await_phase(&guest, "dormant").get("windows"), Some("0"));
}

/// Hazard (Standstill): The command of the watch hangs.
/// Promise: The process answers meanwhile, and its end does not wait for the command.
#[test]
fn a_command_that_hangs_holds_nobody_up() {
    let command = "echo $$ >\"$STAGE2_WHY_FILE.began\"; exec sleep 60";
    let mut guest = watched().env("STAGE2_WATCH_COMMAND", command).spawn();
    guest.tell("cuda");
    guest.tell(&format!("stuck kernel {SPIN}"));
    let began = wait_for(
        || format!("a command: {}", guest.stderr()),
        || {
            let file = written(&guest).pop()?;
            let pid = std::fs::read_to_string(format!("{}.began", file.display())).ok()?;
            pid.trim().parse::<i32>().ok()
        },
    );
    assert!(why(&guest).work.is_some());
    guest.does(["release", "unstuck", "work after 5"]);
    let begun = Instant::now();
    assert!(guest.end().success());
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    // SAFETY: the command is a child of a process that has ended: nobody else has waited for it.
    unsafe { libc::kill(began, libc::SIGKILL) };
}

/// Hazard (Standstill): The disk is full when the watch writes.
/// Promise: One line states what hangs and why the file could not be written; no part of it is left; the process
///  continues.
#[test]
fn a_watch_on_a_full_disk_says_so() {
    let script = "mkdir \"$STAGE2_OUT/full\" && mount -t tmpfs -o size=4k tmpfs \"$STAGE2_OUT/full\" && \
                  head -c 4096 /dev/zero >\"$STAGE2_OUT/full/x\" && export STAGE2_OUT=\"$STAGE2_OUT/full\" && \
                  exec \"$@\"";
    // SAFETY: no preconditions.
    let namespaces = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-Urm" };
    let words = [namespaces, "sh", "-c", script, "sh"];
    let folder = tempfile::tempdir().expect("a folder");
    let mut trial = std::process::Command::new("unshare");
    let trial = trial.args(words).arg("true").env("STAGE2_OUT", folder.path()).output();
    if !trial.as_ref().is_ok_and(|output| output.status.success()) {
        return crate::common::not_allowed(&format!("no disk can be mounted here: {trial:?}"));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let guest = words.iter().fold(Guest::program("unshare"), |guest, word| guest.argument(word));
    let guest = guest.argument(built("guest")).argument("obey").env("STAGE2_START", "off");
    let guest = with_gpu(guest, 100).env("STAGE2_WATCH", "1s").env("PATH", path);
    let mut guest = guest.spawn();
    guest.does(["cuda", "work before 10"]);
    guest.tell(&format!("stuck kernel {SPIN}"));
    wait_for(
        || format!("a line: {}", guest.stderr()),
        || guest.stderr().contains("cannot be written (No space left on device").then_some(()),
    );
    let seen = format!("/proc/{}/root{}/full", guest.pid(), guest.out().display());
    let names = std::fs::read_dir(seen).expect("a folder").flatten().map(|file| file.file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["x"]);
    guest.does(["release", "unstuck"]);
    assert!(guest.end().success());
    assert_eq!(guest.stderr().lines().count(), 1, "{}", guest.stderr());
}

/// Hazard (Standstill): A Python thread waits with the GIL, and another one waits for the GIL.
/// Promise: The answer names both with their lines, recording or dormant, and the watch writes it.
#[test]
fn a_deadlock_under_the_gil_is_told_with_both_lines() {
    let Some((_, python)) = crate::common::host::any_python() else { return };
    let script =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/host_hazards.py");
    for start in ["on", "off"] {
        let guest = Guest::program(python).argument(&script).argument("holds_the_gil");
        // Nobody reads this: the program may be changing its environment when a thread of ours begins. The
        // simulated CUPTI, which a dormant process does not start, does.
        let stack = if start == "on" { 2 << 20 } else { usize::MAX };
        let guest = guest.env("RUST_MIN_STACK", stack.to_string());
        // A GPU that is idle has ended what it had.
        let guest = with_gpu(guest, 0).env("STAGE2_START", start).env("STAGE2_WATCH", "1s");
        let mut guest = guest.spawn();
        // Before it stands, the two take turns.
        let begins = |thread: &Value, function: &str| {
            thread["python"][0].as_str().is_some_and(|line| line.contains(function))
        };
        let pair = |told: Told| {
            let holder = told.threads.iter().find(|thread| thread["holds_gil"] == true)?;
            let waits = told.threads.iter().find(|thread| thread["gil_holder"] == holder["tid"])?;
            let stands = begins(holder, "holds_the_gil") && begins(waits, "wants");
            stands.then(|| waits.clone())
        };
        let waits = wait_for(|| format!("{start}: {}", guest.stderr()), || pair(why(&guest)));
        assert_eq!(waits["state"], "gil", "{start}");
        wait_for(|| format!("{start}: a file: {}", guest.stderr()), || written(&guest).pop());
        // The line comes behind the file.
        wait_for(
            || format!("{start}: a line: {}", guest.stderr()),
            || guest.stderr().contains("has waited for the GIL").then_some(()),
        );
        let status = guest.end();
        assert!(status.success(), "{start}: {status:?}, {}", guest.stderr());
    }
}
