//! The control socket of a process: who it answers, how soon, what it refuses, and what it costs.

use crate::common;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::dormant::*;
use crate::common::{Guest, TraceFile, counts, despite_other_work};
use stage2_contract::trace::{Ending, Record};

/// Hazard (Dormant processes and windows): A dormant process is never asked for anything.
/// Promise: It records nothing, has one thread that sleeps, and less than 4 MB more memory.
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

/// Hazard (Dormant processes and windows): A start while a window is on, a stop while none is.
/// Promise: Refused, with what to do.
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
    let trace = window(&guest, 1);
    let name = |wanted| {
        trace.records.iter().find_map(|record| match record {
            Record::Name { id, bytes } if *id == wanted => Some(bytes.clone()),
            _ => None,
        })
    };
    let mark = trace.records.iter().find_map(|record| match record {
        Record::Mark(mark) => Some((name(mark.name), name(mark.domain))),
        _ => None,
    });
    assert_eq!(mark, Some((Some(b"a moment".to_vec()), Some(b"stage2-ctl".to_vec()))));
}

#[test]
fn a_normal_run_is_stopped_started_again_and_asked() {
    let mut guest = Guest::new("obey").spawn();
    guest.does(["cuda", "work first 5"]);
    assert_eq!(await_phase(&guest, "on").get("cupti"), Some("on"));
    stop(&guest);
    guest.tell("work between 6");
    start(&guest, "");
    guest.tell("work second 7");
    assert!(guest.end().success());
    assert_eq!(guest.stderr(), "");
    let traces = common::traces_in(guest.out());
    let kernels: Vec<_> = traces.iter().map(TraceFile::kernels).collect();
    assert!(
        kernels.contains(&counts(&[("first", 5)])) && kernels.contains(&counts(&[("second", 7)]))
    );
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    assert_eq!(window(&guest, 2).ending, Ending::Complete);
}

/// Hazard (Dormant processes and windows): A dormant process forks.
/// Promise: Its child has a separate socket, and is dormant.
#[test]
fn a_child_of_a_dormant_process_has_a_socket_of_its_own() {
    let mut guest = dormant_at_work();
    let parent = socket_of(&guest, guest.pid());
    let child: u32 = guest.tell("fork").parse().expect("a number");
    assert_ne!(socket_of(&guest, child), parent);
    let status = await_phase_of(&guest, child, "dormant");
    assert_eq!(status.get("windows"), Some("0"));
    assert_eq!(status.get("pid"), Some(child.to_string().as_str()));
    let open = std::fs::read_dir(format!("/proc/{child}/fd")).expect("descriptors").flatten();
    let sockets = open.filter_map(|file| std::fs::read_link(file.path()).ok());
    let sockets = sockets.filter(|target| target.to_string_lossy().starts_with("socket:")).count();
    assert_eq!(sockets, 1, "that of its parent is closed");
    // A window of the parent is not one of the child, in which a further child comes up.
    start(&guest, "");
    let second: u32 = guest.tell("fork").parse().expect("a number");
    assert_eq!(await_phase_of(&guest, second, "dormant").get("windows"), Some("0"));
    guest.tell("work inside 5");
    stop(&guest);
    assert_eq!(window(&guest, 1).kernels(), counts(&[("inside", 5)]));
    assert_eq!(trace_files(&guest), 1);
}

/// Hazard (Dormant processes and windows): A dormant process gets SIGTERM, or its main thread
///  ends.
/// Promise: It ends as it would without the collector.
#[test]
fn a_dormant_process_ends_as_it_would_without_us() {
    despite_other_work(|| {
        use std::os::unix::process::ExitStatusExt;

        for on in [false, true] {
            let mut guest = dormant_at_work();
            if on {
                start(&guest, "");
            }
            let began = Instant::now();
            guest.signal(libc::SIGTERM);
            assert_eq!(guest.ended().signal(), Some(libc::SIGTERM));
            assert_usual!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        }
        // The main thread ends, and no other one is left.
        let mut guest = dormant().spawn();
        guest.does(["push x", "main_ends"]);
        assert!(guest.ended().success());
        let mut guest = dormant_at_work();
        start(&guest, "");
        stop(&guest);
        guest.tell("main_ends");
        assert!(guest.ended().success());
    });
}

/// Hazard (Dormant processes and windows): The socket receives garbage, or several clients at once, some of them
///  silent.
/// Promise: Each gets an answer, and waits for a second per silent client at most.
#[test]
fn garbage_gets_an_answer_and_holds_nobody_up() {
    despite_other_work(|| {
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
        assert_usual!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        for mut client in silent {
            let mut text = String::new();
            client.read_to_string(&mut text).expect("an answer");
            assert!(text.contains("no%20request%20came"), "{text}");
        }
    });
}

#[test]
fn every_answer_comes_within_100_ms_also_that_of_the_first_start() {
    despite_other_work(|| {
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
            assert_usual!(took < Duration::from_millis(500), "{verb}: {took:?}");
        }
    });
}
