//! The dormant collector and its windows: what is asked for by the control socket is what is recorded,
//! and nothing else.

#[allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Guest, Running, Spool, counts};
use stage2_control::{Answer, SocketName};
use stage2_spool::{Ending, Reader, Record};

/// Nothing here takes as long.
const PATIENCE: Duration = Duration::from_secs(20);

fn dormant() -> Guest {
    Guest::new("obey").env("STAGE2_START", "off")
}

/// A dormant guest that has used CUDA and NVTX.
fn dormant_at_work() -> Running {
    let mut guest = dormant().spawn();
    guest.tell("cuda");
    guest.tell("work before 10");
    guest
}

fn socket_of(guest: &Running, pid: u32) -> PathBuf {
    let until = Instant::now() + PATIENCE;
    loop {
        let files = std::fs::read_dir(guest.sockets()).into_iter().flatten().flatten();
        let mut names = files.filter_map(|file| file.file_name().into_string().ok());
        let of_it = |name: &String| SocketName::parse(name).is_some_and(|name| name.pid == pid);
        if let Some(name) = names.find(of_it) {
            return guest.sockets().join(name);
        }
        assert!(Instant::now() < until, "no socket of {pid}: {}", guest.stderr());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(guest: &Running, pid: u32, text: &[u8]) -> Answer {
    let mut stream = UnixStream::connect(socket_of(guest, pid)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(text).expect("taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    Answer::parse(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn ask(guest: &Running, line: &str) -> Answer {
    send(guest, guest.pid(), format!("stage2-control/1 {line}\n").as_bytes())
}

fn accepted(guest: &Running, line: &str) -> Answer {
    let answer = ask(guest, line);
    assert!(!answer.refused, "{answer:?}");
    answer
}

fn refused(guest: &Running, line: &str) -> String {
    let answer = ask(guest, line);
    assert!(answer.refused, "{answer:?}");
    answer.get("error").expect("a reason").to_owned()
}

/// Asks for the status until it says so.
fn await_phase(guest: &Running, phase: &str) -> Answer {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = accepted(guest, "status");
        if status.get("phase") == Some(phase) {
            return status;
        }
        assert!(Instant::now() < until, "{status:?}: {}", guest.stderr());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asks a child for its status until it is dormant: its socket is there a moment before.
fn status_of_dormant(guest: &Running, child: u32) -> Answer {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = send(guest, child, b"stage2-control/1 status\n");
        if status.get("phase") == Some("dormant") {
            return status;
        }
        assert!(Instant::now() < until, "{status:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn start(guest: &Running, words: &str) {
    accepted(guest, &format!("start {words}"));
    await_phase(guest, "on");
}

fn stop(guest: &Running) {
    accepted(guest, "stop");
    await_phase(guest, "dormant");
}

/// The trace file of a window.
fn window(guest: &Running, number: u64) -> Spool {
    let ending = format!("-w{number}.s2t");
    let file = std::fs::read_dir(guest.out()).expect("folder").flatten().map(|file| file.path());
    let file = file.filter(|path| path.to_string_lossy().ends_with(&ending));
    let files: Vec<PathBuf> = file.collect();
    assert_eq!(files.len(), 1, "window {number}: {}", guest.stderr());
    let mut reader = Reader::open(&files[0]).expect("a trace file");
    let records = reader.by_ref().map(|record| record.expect("readable")).collect();
    Spool { ending: reader.end(), records }
}

fn trace_files(guest: &Running) -> usize {
    let files = std::fs::read_dir(guest.out()).expect("folder").flatten();
    files.filter(|file| file.path().extension().is_some_and(|ending| ending == "s2t")).count()
}

fn threads_of_ours(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("tasks").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let names = names.map(|name| name.trim().to_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("stage2-")).collect();
    names.sort();
    names
}

/// Memory of its own, KiB.
fn own_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("KiB")
}

#[test]
fn a_dormant_process_records_nothing_and_needs_a_thread_and_little_memory() {
    let mut alone = Guest::new("obey").without("LD_PRELOAD").spawn();
    let mut guest = dormant().spawn();
    for guest in [&mut alone, &mut guest] {
        guest.tell("cuda");
        (0..50).for_each(|_| drop(guest.tell("work before 10")));
    }
    let status = await_phase(&guest, "dormant");
    assert_eq!(status.get("windows"), Some("0"));
    assert_eq!(status.get("cupti"), Some("not started"));
    assert_eq!(status.get("option.start"), Some("off"));
    assert_eq!(threads_of_ours(guest.pid()), ["stage2-control"]);
    let (with, without) = (own_kib(guest.pid()), own_kib(alone.pid()));
    println!("dormant: {with} KiB, alone {without} KiB");
    assert!(with < without + 4096, "{with} KiB against {without} KiB");
    assert_eq!(trace_files(&guest), 0);
    assert!(guest.end().success());
    assert_eq!((guest.stderr().as_str(), trace_files(&guest)), ("", 0));
    assert_eq!(std::fs::read_dir(guest.sockets()).unwrap().count(), 0, "the socket is gone");
}

#[test]
fn a_window_holds_what_was_launched_in_it_and_begins_with_the_first_push() {
    let mut guest = dormant_at_work();
    guest.tell("push open");
    start(&guest, "");
    guest.tell("work inside 20");
    guest.tell("launch 3");
    guest.tell("pop");
    guest.tell("work inside 20");
    guest.tell("push left");
    guest.tell("launch 4");
    stop(&guest);
    guest.tell("pop");
    guest.tell("work after 30");
    let spool = window(&guest, 1);
    assert_eq!(spool.ending, Ending::Complete);
    assert_eq!(spool.kernels(), counts(&[("(outside)", 3), ("inside", 40), ("left", 4)]));
    let losses = spool.losses();
    assert_eq!((losses.unbalanced, losses.unattributed, losses.unreadable_records), (0, 0, 0));
    assert_eq!(spool.meta("window"), Some("1"));
    assert_eq!(spool.meta("window.began"), Some("start"));
    assert_eq!(spool.meta("window.ended"), Some("stop"));
    assert!(
        spool
            .meta("window.unknown")
            .is_some_and(|said| said.contains("copies may count as kernels"))
    );
    assert!(spool.records.iter().any(|record| matches!(record, Record::Device(_))));
    assert!(guest.end().success());
    assert_eq!((guest.stderr().as_str(), trace_files(&guest)), ("", 1));
}

#[test]
fn each_window_can_be_read_alone() {
    let mut guest = dormant_at_work();
    guest.tell("register llm decode");
    for number in 1..=3 {
        start(&guest, "");
        guest.tell(&format!("registered {}", 5 + number));
        guest.tell(&format!("work w{number} 7"));
        stop(&guest);
        guest.tell("work between 9");
    }
    for number in 1..=3u64 {
        let spool = window(&guest, number);
        let own = format!("w{number}");
        assert_eq!(spool.kernels(), counts(&[("decode", 5 + number as usize), (own.as_str(), 7)]));
        let of = |wanted: fn(&Record) -> bool| {
            spool.records.iter().filter(|record| wanted(record)).count()
        };
        assert_eq!(of(|record| matches!(record, Record::Process(_))), 1);
        let own = guest.pid();
        let is_main =
            |record: &&Record| matches!(record, Record::Thread { os_tid, .. } if *os_tid == own);
        assert_eq!(spool.records.iter().filter(is_main).count(), 1, "window {number}");
        assert_eq!(of(|record| matches!(record, Record::Device(_))), 1, "window {number}");
        assert!(spool.meta("cupti.version").is_some(), "window {number}");
        assert_eq!(spool.losses().unattributed, 0);
    }
    let status = accepted(&guest, "status");
    let done: Vec<&str> = status.all("done").collect();
    assert_eq!(done.len(), 3);
    assert!(done[2].contains("number=3") && done[2].contains("records=15 lost=0"), "{done:?}");
    assert_eq!(status.get("records"), Some("42"));
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let mut guest = dormant_at_work();
    for verb in ["stop", "flush", "mark x"] {
        assert!(refused(&guest, verb).contains("ctl start"), "{verb}");
    }
    start(&guest, "for_ms=600000");
    assert!(refused(&guest, "start").contains("window 1 is on already"));
    accepted(&guest, "mark a%20moment");
    guest.tell("work inside 5");
    assert_eq!(accepted(&guest, "flush").get("said"), Some("done"));
    stop(&guest);
    assert!(refused(&guest, "stop").contains("no window is on"));
    assert!(refused(&guest, "start ranges=,").contains("globs"));
    assert!(refused(&guest, "start steps=x").contains("steps takes"));
    let spool = window(&guest, 1);
    let name = |wanted| {
        spool.records.iter().find_map(|record| match record {
            Record::Name { id, bytes } if *id == wanted => Some(bytes.clone()),
            _ => None,
        })
    };
    let mark = spool.records.iter().find_map(|record| match record {
        Record::Mark(mark) => Some((name(mark.name), name(mark.domain))),
        _ => None,
    });
    assert_eq!(mark, Some((Some(b"a moment".to_vec()), Some(b"stage2-ctl".to_vec()))));
}

#[test]
fn graphs_as_wholes_are_not_begun_late() {
    let mut guest = dormant().env("STAGE2_GRAPH", "graph").spawn();
    guest.tell("cuda");
    guest.tell("push x");
    guest.tell("pop");
    assert!(refused(&guest, "start").contains("STAGE2_GRAPH=graph cannot begin"));
    assert_eq!(accepted(&guest, "status").get("phase"), Some("dormant"));
}

#[test]
fn a_window_without_a_folder_is_refused() {
    let mut guest = dormant().without("STAGE2_OUT").spawn();
    guest.tell("push x");
    assert!(refused(&guest, "start").contains("STAGE2_OUT"));
}

#[test]
fn windows_end_by_themselves() {
    let mut guest = dormant_at_work();
    start(&guest, "for_ms=150");
    guest.tell("work timed 5");
    await_phase(&guest, "dormant");
    start(&guest, "steps=3");
    guest.tell("push around");
    guest.tell("work step 2");
    guest.tell("pop");
    guest.tell("work step 2");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(accepted(&guest, "status").get("phase"), Some("on"), "two steps so far");
    guest.tell("work step 2");
    await_phase(&guest, "dormant");
    start(&guest, "steps=2 ranges=step");
    guest.tell("push around");
    for _ in 0..2 {
        guest.tell("work other 4");
        guest.tell("work step 2");
    }
    guest.tell("pop");
    await_phase(&guest, "dormant");
    start(&guest, "size=64K");
    guest.tell("busy 2");
    await_phase(&guest, "dormant");
    guest.tell("calm");
    let ended = |number| window(&guest, number).meta("window.ended").map(str::to_owned);
    let ended: Vec<String> = (1..=4).map(|number| ended(number).expect("a reason")).collect();
    assert_eq!(ended, ["limit for_ms=150", "limit steps=3", "limit steps=2", "limit size=65536"]);
    assert_eq!(window(&guest, 1).kernels(), counts(&[("timed", 5)]));
    assert_eq!(window(&guest, 2).kernels(), counts(&[("around/step", 2), ("step", 4)]));
    assert_eq!(window(&guest, 3).kernels(), counts(&[("around/step", 4)]));
}

#[test]
fn a_window_has_ranges_and_a_sample_of_its_own() {
    let mut guest = dormant().env("STAGE2_RANGES", "before").spawn();
    guest.tell("cuda");
    guest.tell("register llm decode");
    let work = |guest: &mut Running| {
        for _ in 0..4 {
            guest.tell("registered 3");
            guest.tell("work before 2");
        }
    };
    for words in ["", "ranges=deco*@llm", "ranges=*", "ranges=decode sample=1/4", ""] {
        start(&guest, words);
        work(&mut guest);
        stop(&guest);
        work(&mut guest);
    }
    let kernels: Vec<_> = (1..=5).map(|number| window(&guest, number).kernels()).collect();
    let of_environment = counts(&[("before", 8)]);
    assert_eq!(kernels[0], of_environment);
    assert_eq!(kernels[1], counts(&[("decode", 12)]));
    assert_eq!(kernels[2], counts(&[("decode", 12), ("before", 8)]));
    assert_eq!(kernels[3], counts(&[("decode", 3)]));
    assert_eq!(kernels[4], of_environment);
    assert_eq!(window(&guest, 4).meta("sample"), Some("1/4"));
}

#[test]
fn each_window_that_asks_for_hardware_counters_has_samples_and_no_other() {
    let mut guest = dormant_at_work();
    for asked in ["counters=on", "", "counters=on"] {
        start(&guest, asked);
        guest.tell("busy 1");
        std::thread::sleep(Duration::from_millis(600));
        guest.tell("calm");
        stop(&guest);
    }
    let samples = |number| {
        let spool = window(&guest, number);
        let sets = spool.records.iter().filter(|record| matches!(record, Record::CounterSet(_)));
        let samples =
            spool.records.iter().filter(|record| matches!(record, Record::CounterSamples(_)));
        (sets.count() > 0, samples.count() > 0)
    };
    assert_eq!(samples(1), (true, true), "{}", guest.stderr());
    assert_eq!(samples(2), (false, false));
    assert_eq!(samples(3), (true, true), "{}", guest.stderr());
}

#[test]
fn a_thousand_windows_beside_busy_threads_need_no_more_memory() {
    let mut guest = dormant_at_work();
    guest.tell("busy 3");
    let mut kib = Vec::new();
    for round in 0..1000 {
        start(&guest, "");
        stop(&guest);
        if [200, 999].contains(&round) {
            kib.push(own_kib(guest.pid()));
        }
    }
    guest.tell("calm");
    println!("KiB of its own after 200 and 1000 windows: {kib:?}");
    assert!(kib[1] < kib[0] + 3000, "{kib:?}");
    assert_eq!(accepted(&guest, "status").get("windows"), Some("1000"));
    let mut ends = (0, 0);
    for number in 1..=1000 {
        let spool = window(&guest, number);
        assert_eq!(spool.ending, Ending::Complete, "window {number}");
        let number = number.to_string();
        assert_eq!(spool.meta("window"), Some(number.as_str()));
        // No record is of a window before: every one lies behind the end of that.
        let times = spool.records.iter().filter_map(|record| match record {
            Record::Work(work) if work.start.0 != 0 => Some((work.start.0, work.end.0)),
            _ => None,
        });
        let times: Vec<(u64, u64)> = times.collect();
        let first = times.iter().map(|time| time.0).min();
        assert!(first.is_none_or(|first| first >= ends.0), "window {number}");
        ends =
            times.iter().map(|time| time.0).max().map_or(ends, |last| (last, ends.1 + times.len()));
        let losses = spool.losses();
        assert_eq!((losses.unreadable_records, losses.cupti_dropped, losses.unbalanced), (0, 0, 0));
    }
    assert!(ends.1 > 100, "{} records in all", ends.1);
    assert_eq!(guest.stderr(), "");
}

#[test]
fn a_normal_run_is_stopped_started_again_and_asked() {
    let mut guest = Guest::new("obey").spawn();
    guest.tell("cuda");
    guest.tell("work first 5");
    assert_eq!(await_phase(&guest, "on").get("cupti"), Some("on"));
    stop(&guest);
    guest.tell("work between 6");
    start(&guest, "");
    guest.tell("work second 7");
    assert!(guest.end().success());
    assert_eq!(guest.stderr(), "");
    let spools = common::spools_in(guest.out());
    let kernels: Vec<_> = spools.iter().map(Spool::kernels).collect();
    assert!(
        kernels.contains(&counts(&[("first", 5)])) && kernels.contains(&counts(&[("second", 7)]))
    );
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    assert_eq!(window(&guest, 2).ending, Ending::Complete);
}

#[test]
fn cuda_may_be_initialised_within_a_window() {
    let mut guest = dormant().spawn();
    guest.tell("push early");
    guest.tell("pop");
    start(&guest, "");
    guest.tell("cuda");
    guest.tell("work inside 6");
    stop(&guest);
    assert_eq!(window(&guest, 1).kernels(), counts(&[("inside", 6)]));
}

#[test]
fn replays_of_a_graph_that_was_captured_before_are_in_the_window() {
    let mut guest = dormant_at_work();
    guest.tell("capture 12");
    start(&guest, "");
    guest.tell("replay inside");
    guest.tell("replay inside");
    stop(&guest);
    guest.tell("replay after");
    let spool = window(&guest, 1);
    assert_eq!(spool.kernels(), counts(&[("inside", 24)]));
}

#[test]
fn a_kill_within_a_window_leaves_what_was_flushed() {
    let mut guest = dormant_at_work();
    start(&guest, "");
    guest.tell("work inside 5");
    accepted(&guest, "flush");
    guest.signal(libc::SIGKILL);
    guest.ended();
    let spool = window(&guest, 1);
    assert_eq!(spool.kernels(), counts(&[("inside", 5)]));
    assert_ne!(spool.ending, Ending::Complete);
}

#[test]
fn a_window_for_which_the_disk_is_full_says_so_and_the_next_one_is_whole() {
    let mut guest = dormant_at_work();
    guest.tell("room 70000");
    start(&guest, "");
    (0..40).for_each(|_| drop(guest.tell("work inside 600")));
    stop(&guest);
    assert!(guest.stderr().contains("the trace file cannot be written"), "{}", guest.stderr());
    let status = accepted(&guest, "status");
    assert_eq!(status.get("lost"), Some("1"), "a loss of unknown size counts once");
    assert_ne!(window(&guest, 1).ending, Ending::Complete);
    guest.tell("room 4000000000");
    start(&guest, "");
    guest.tell("work inside 50");
    stop(&guest);
    assert_eq!(window(&guest, 2).kernels(), counts(&[("inside", 50)]));
}

#[test]
fn a_child_of_a_dormant_process_has_a_socket_of_its_own() {
    let mut guest = dormant_at_work();
    let parent = socket_of(&guest, guest.pid());
    let child: u32 = guest.tell("fork").parse().expect("a number");
    assert_ne!(socket_of(&guest, child), parent);
    let status = status_of_dormant(&guest, child);
    assert_eq!(status.get("windows"), Some("0"));
    assert_eq!(status.get("pid"), Some(child.to_string().as_str()));
    let open = std::fs::read_dir(format!("/proc/{child}/fd")).expect("descriptors").flatten();
    let sockets = open.filter_map(|file| std::fs::read_link(file.path()).ok());
    let sockets = sockets.filter(|target| target.to_string_lossy().starts_with("socket:")).count();
    assert_eq!(sockets, 1, "that of its parent is closed");
    // A window of the parent is not one of the child, in which a further child comes up.
    start(&guest, "");
    let second: u32 = guest.tell("fork").parse().expect("a number");
    assert_eq!(status_of_dormant(&guest, second).get("windows"), Some("0"));
    guest.tell("work inside 5");
    stop(&guest);
    assert_eq!(window(&guest, 1).kernels(), counts(&[("inside", 5)]));
    assert_eq!(trace_files(&guest), 1);
}

#[test]
fn a_dormant_process_ends_as_it_would_without_us() {
    use std::os::unix::process::ExitStatusExt;

    for on in [false, true] {
        let mut guest = dormant_at_work();
        if on {
            start(&guest, "");
        }
        let began = Instant::now();
        guest.signal(libc::SIGTERM);
        assert_eq!(guest.ended().signal(), Some(libc::SIGTERM));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    // The main thread ends, and no other one is left.
    let mut guest = dormant().spawn();
    guest.tell("push x");
    guest.tell("main_ends");
    assert!(guest.ended().success());
    let mut guest = dormant_at_work();
    start(&guest, "");
    stop(&guest);
    guest.tell("main_ends");
    assert!(guest.ended().success());
}

#[test]
fn garbage_gets_an_answer_and_holds_nobody_up() {
    let guest = dormant_at_work();
    let said = |text: &[u8]| {
        let answer = send(&guest, guest.pid(), text);
        assert!(answer.refused);
        answer.get("error").expect("a reason").to_owned()
    };
    assert!(said(b"GET / HTTP/1.1\n").contains("stage2-launch ctl"));
    assert!(said(b"\xff\xfe\n").contains("UTF-8"));
    assert!(said(&[b'x'; 9000]).contains("longer than 8192"));
    assert!(said(b"stage2-control/9 status\n").contains("version 9"));
    // Clients that say nothing have their second each, and others wait for it.
    let silent: Vec<UnixStream> =
        (0..3).map(|_| UnixStream::connect(socket_of(&guest, guest.pid())).unwrap()).collect();
    let began = Instant::now();
    assert_eq!(accepted(&guest, "status").get("phase"), Some("dormant"));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    for mut client in silent {
        let mut text = String::new();
        client.read_to_string(&mut text).expect("an answer");
        assert!(text.contains("no%20request%20came"), "{text}");
    }
}

#[test]
fn every_answer_comes_within_100_ms_also_that_of_the_first_start() {
    let guest = dormant_at_work();
    for verb in ["status", "start", "status", "flush", "mark x", "stop", "status"] {
        let began = Instant::now();
        accepted(&guest, verb);
        let took = began.elapsed();
        if verb == "start" {
            await_phase(&guest, "on");
        }
        println!("{verb}: {took:?}");
        // The bound is for a machine with a free core; here others compete.
        assert!(took < Duration::from_millis(500), "{verb}: {took:?}");
    }
}
