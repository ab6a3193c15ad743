//! Every end of a process leaves a whole trace file, and comes as soon as it would without us.

use crate::common;
use std::fs::DirBuilder;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Guest, TraceFile, collector, counts, despite_other_work, each, plain};
use stage2_contract::control::SocketName;
use stage2_contract::trace::{Ending, Losses, Record, ending};

/// No flush but the last one.
fn guest(hazard: &str) -> Guest {
    Guest::new(hazard).env("STAGE2_FLUSH_MS", "3600000")
}

/// Hazard (Ends of life): The guest calls `exit`, `quick_exit`, `_exit`, `_Exit` or returns from
///  `main`.
/// Promise: The trace file is complete.
#[test]
fn the_trace_file_is_whole_whatever_function_ends_the_process() {
    each(["_exit", "_Exit", "quick_exit", "exit_from_a_thread"], |hazard| {
        let left = guest(hazard).run();
        assert_eq!(left.expect_said(4), "", "{hazard}");
        let trace = left.trace();
        let expected = plain();
        assert_eq!(trace.kernels(), expected, "{hazard}");
        assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
        let in_handler = trace.range_paths().values().any(|path| path == "quick handler");
        assert_eq!(in_handler, hazard == "quick_exit");
    });
}

/// Hazard (Ends of life): A range is open at the end.
/// Promise: It is kept and counted.
#[test]
fn a_range_that_is_open_at_the_end_is_kept_and_counted() {
    let left = guest("_exit_soon").run();
    let trace = left.expect_open("never closed").trace();
    assert_eq!(trace.losses(), Losses { unclosed: 1, ..Losses::default() });
    assert!(trace.range_paths().values().any(|path| path == "never closed"));
}

/// Hazard (Ends of life): CUPTI hangs while the guest calls `_exit`.
/// Promise: `_exit` is held up for 200 ms at most.
#[test]
fn a_cupti_that_hangs_holds_up_an_end_at_once_for_a_short_time() {
    despite_other_work(|| {
        let started = Instant::now();
        let left = guest("_exit").env("STAGE2_SIM_FAULT", "flush-hang=20000").run();
        assert_eq!(left.output.status.code(), Some(4));
        assert_usual!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        assert_eq!(left.trace().ending, Ending::Open);
    });
}

/// Hazard (Processes and forks): A `vfork` child calls `_exit`, or `exit`, which runs the handlers.
/// Promise: Its parent's recording goes on.
#[test]
fn a_child_in_its_parents_memory_ends_alone() {
    each(["child_in_the_same_memory", "exit_in_the_same_memory"], |hazard| {
        let left = guest(hazard).run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!(left.stdout(), "child=9\n", "{hazard}");
        assert_eq!(trace.kernels()["after"], 5, "{hazard}");
        assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
    });
}

/// The kernels of the plain guest, and more of them.
fn plain_and(more: &[(&str, usize)]) -> std::collections::BTreeMap<String, usize> {
    counts(&[&[("(outside)", 7), ("decode", 100), ("prefill", 100)], more].concat())
}

/// Why the file ends, where it ends in order.
fn reason(trace: &TraceFile) -> Option<&str> {
    trace.records.iter().rev().find_map(|record| match record {
        Record::End { reason } => Some(reason.as_str()),
        _ => None,
    })
}

/// Hazard (Ends of life): The guest ends itself by `raise`, `kill`, `tgkill`, `pthread_kill`,
///  `sigqueue` or `abort`.
/// Promise: The trace file is complete and names the signal.
#[test]
fn a_process_that_ends_itself_by_a_signal_leaves_a_whole_trace_file() {
    let cases = [
        ("raise", libc::SIGTERM),
        ("kill", libc::SIGTERM),
        ("tgkill", libc::SIGTERM),
        ("pthread_kill", libc::SIGTERM),
        ("sigqueue", libc::SIGTERM),
        ("abort", libc::SIGABRT),
    ];
    each(cases, |(way, signal)| {
        let left = guest("by_own_signal").env("STAGE2_TEST_WAY", way).run();
        assert_eq!((left.output.status.signal(), left.stderr()), (Some(signal), String::new()));
        let trace = left.trace();
        assert_eq!(trace.kernels(), plain_and(&[]), "{way}");
        assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()), "{way}");
        assert_eq!(reason(trace), Some(format!("signal {signal}").as_str()), "{way}");
    });
    // Whether it comes is not sure: it is announced.
    let left = guest("by_own_signal").env("STAGE2_TEST_WAY", "killpg").run();
    let trace = left.trace();
    assert_eq!((trace.kernels(), trace.ending), (plain_and(&[]), Ending::Open));
    assert_eq!(trace.meta(ending::ANNOUNCED), Some("signal 15"));
}

/// Hazard (Ends of life): The guest sends itself a signal that would end it, and handles or blocks it.
/// Promise: Recording continues.
#[test]
fn signals_of_its_own_that_a_process_survives_end_no_recording() {
    let left = guest("survives_own_signals").run();
    let trace = left.expect_quiet(3).trace();
    assert_eq!(trace.kernels(), plain_and(&[("after", 5)]));
    assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
    assert_eq!(reason(trace), Some("exit"));
    // The one that was put off might have come. On a busy machine it is in the file too late to be told of.
    assert_eq!(trace.meta(ending::ANNOUNCED).unwrap_or_default(), "");
}

/// Hazard (Ends of life): The guest becomes another program by an exec, or fails to.
/// Promise: The trace file is complete and records the exec; if the exec fails, recording continues.
#[test]
fn a_process_that_becomes_another_program_loses_nothing_and_goes_on_where_it_does_not() {
    let cases = [
        "execve",
        "execv",
        "execvp",
        "execvpe",
        "execl",
        "execlp",
        "execle",
        "fexecve",
        "execveat",
        "long execl",
    ];
    each(cases, |way| {
        let path = std::env::var("PATH").expect("PATH");
        let left = guest("becomes_another").env("STAGE2_TEST_WAY", way).env("PATH", path).run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!(left.stdout().trim_start(), "became\n", "{way}");
        assert_eq!(trace.kernels(), plain_and(&[("after", 5)]), "{way}");
        assert_eq!((trace.ending, trace.losses()), (Ending::Open, Losses::default()), "{way}");
        assert_eq!(trace.meta(ending::ANNOUNCED), Some(ending::EXEC), "{way}");
    });
}

/// Hazard (Ends of life): A child that shares its parent's memory execs.
/// Promise: It does not count as the end of the parent.
#[test]
fn an_exec_in_its_parents_memory_is_no_end_of_the_parent() {
    let left = guest("child_becomes_another").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(left.stdout(), "child=9\n");
    assert_eq!(trace.kernels(), plain_and(&[("after", 5)]));
    assert_eq!((trace.ending, trace.meta(ending::ANNOUNCED)), (Ending::Complete, None));
}

/// Hazard (Ends of life): A parent ends a recorded child by a signal.
/// Promise: The child writes its file first.
#[test]
fn a_child_that_its_parent_ends_by_a_signal_loses_nothing() {
    each([libc::SIGTERM, libc::SIGKILL], |signal| {
        let left = guest("ends_a_child").env("STAGE2_TEST_WAY", signal.to_string()).run();
        assert_eq!(left.expect_said(0), "");
        assert_eq!(left.stdout(), format!("child={signal} soon=true\n"));
        let children = left.children();
        assert_eq!(children.len(), 1);
        assert_eq!(children[0].kernels(), plain_and(&[]), "{signal}");
        let ends = Some(format!("signal {signal}"));
        assert_eq!(children[0].meta(ending::ANNOUNCED), ends.as_deref());
    });
}

/// Hazard (Dormant processes and windows): A signal goes to a process whose number the socket of
///  another container has.
/// Promise: That one is not asked for its end.
#[test]
fn a_socket_of_another_process_than_its_name_says_is_not_asked() {
    let runtime = tempfile::tempdir().expect("a folder");
    let folder = runtime.path().join("stage2");
    DirBuilder::new().mode(0o700).create(&folder).expect("a folder");
    let mut killed = Command::new("sleep").arg("60").spawn().expect("starts");
    // As a container that shares the folder may leave it.
    let socket = folder.join(SocketName::new("elsewhere", killed.id(), 1).to_file_name());
    let listener = UnixListener::bind(socket).expect("a socket");
    let mut kills = Command::new("sh");
    kills.args(["-c", &format!("kill {}", killed.id())]).env("LD_PRELOAD", collector());
    assert!(kills.env("XDG_RUNTIME_DIR", runtime.path()).status().expect("starts").success());
    assert_eq!(killed.wait().expect("ends").signal(), Some(libc::SIGTERM));
    listener.set_nonblocking(true).expect("set");
    let (mut asker, mut said) = (listener.accept().expect("somebody looked").0, String::new());
    asker.read_to_string(&mut said).expect("it is gone");
    assert_eq!(said, "");
}

/// Hazard (Ends of life): CUPTI hangs at a signal or an exec that ends the guest.
/// Promise: The signal is held up for a short time.
#[test]
fn a_cupti_that_hangs_holds_up_signals_and_execs_for_a_short_time() {
    despite_other_work(|| {
        each([("by_own_signal", "raise"), ("ends_a_child", "15")], |(hazard, way)| {
            let started = Instant::now();
            let left = guest(hazard)
                .env("STAGE2_TEST_WAY", way)
                .env("STAGE2_SIM_FAULT", "flush-hang=20000")
                .run();
            assert_usual!(
                started.elapsed() < Duration::from_secs(3),
                "{hazard}: {:?}",
                started.elapsed()
            );
            assert!(left.output.status.signal() == Some(15) || left.stdout().contains("soon=true"));
        });
    });
}

/// Hazard (Ends of life): The main thread ends by `pthread_exit` while others work.
/// Promise: The process lives as long as they do; the collector does not keep it alive.
/// Hazard (Ends of life): Threads of CUPTI live when the main thread has ended.
/// Promise: They do not count as the guest's.
#[test]
fn a_process_whose_main_thread_ends_does_not_outlive_its_other_threads() {
    let cases = [
        ("main_ends", counts(&[]), ""),
        ("main_ends_first", counts(&[("works on", 30)]), "worked on\n"),
        ("main_ends_with_cuda", plain(), ""),
    ];
    each(cases, |(hazard, kernels, said)| {
        let started = Instant::now();
        let left = guest(hazard).run();
        assert!(started.elapsed() < Duration::from_secs(10), "{hazard}: {:?}", started.elapsed());
        let trace = left.expect_quiet(0).trace();
        assert_eq!((trace.kernels(), left.stdout().as_str()), (kernels, said), "{hazard}");
        assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
    });
}

/// Hazard (Ends of life): A guest thread starts while CUPTI starts its own.
/// Promise: It is not taken for one of CUPTI's.
#[test]
fn a_thread_that_starts_beside_cupti_is_the_guests_and_outlives_the_main_thread() {
    let left = guest("main_ends_beside_a_start").env("STAGE2_SIM_FAULT", "slow-enable=700").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(left.stdout(), "worked on, started in time: true\n");
    assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
}

/// Hazard (Ends of life): A thread works on while the process ends.
/// Promise: Its work finds its range.
#[test]
fn what_a_thread_launches_while_the_process_ends_finds_its_range() {
    each([0, 30, 100], |hang_ms| {
        // The end takes longer, and more is launched beside it.
        let hang = format!("flush-hang={hang_ms}");
        let left = guest("works_beside_the_end").env("STAGE2_SIM_FAULT", hang).run();
        // One of its ranges is open at the end, or none.
        assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
        let kernels = left.trace().kernels();
        assert_eq!(kernels["(outside)"], 7, "{kernels:?}");
        assert!(kernels["beside the end"] > 0 && kernels["prefill"] == 100, "{kernels:?}");
    });
}

/// Hazard (Ends of life): The process is in a PID namespace and sees the outer `/proc`.
/// Promise: It is not taken for ended.
#[test]
fn a_process_in_a_pid_namespace_that_sees_the_outer_proc_lives_on() {
    let arguments = ["-Urpf", "--"];
    let allowed = Command::new("unshare").args(arguments).arg("true").output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        return common::not_allowed(&format!("no user namespaces here: {allowed:?}"));
    }
    let unshare = arguments.iter().fold(Guest::program("unshare"), Guest::argument);
    let left = unshare.argument(common::built("guest")).argument("lives_on").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!((left.stdout().as_str(), trace.ending), ("worked on\n", Ending::Complete));
}

/// Hazard (Signals): Signals more often than any timer fires, at start and end.
/// Promise: Every wait ends in time.
#[test]
fn signals_in_quick_succession_hold_up_neither_start_nor_end() {
    each([("50", "0"), ("1000", "5"), ("10000", "50")], |(timer_us, slack_ms)| {
        let started = Instant::now();
        let left = guest("interrupted")
            .env("STAGE2_TEST_TIMER_US", timer_us)
            .env("STAGE2_TEST_SLACK_MS", slack_ms)
            .run();
        assert!(started.elapsed() < Duration::from_secs(10), "{timer_us}: {:?}", started.elapsed());
        let trace = left.expect_quiet(0).trace();
        assert_eq!(left.stdout(), "started in time: true\n", "{timer_us}");
        assert_eq!((trace.ending, trace.range_paths().len()), (Ending::Complete, 1), "{timer_us}");
    });
}
