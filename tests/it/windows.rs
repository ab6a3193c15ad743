//! Windows of collection in a process that runs on: what they hold, what ends them, and what they cost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::dormant::*;
use crate::common::{Running, counts, each};
use stage2_contract::trace::{Ending, Losses, Record};

/// Hazard (Dormant processes and windows): Threads are in ranges when a window begins.
/// Promise: Nothing of them is in the window; the pops that close them are ignored.
#[test]
fn a_window_holds_what_was_launched_in_it_and_begins_with_the_first_push() {
    let mut guest = dormant_at_work();
    guest.tell("push open");
    start(&guest, "");
    guest.does(["work inside 20", "launch 3", "pop", "work inside 20", "push left", "launch 4"]);
    stop(&guest);
    guest.does(["pop", "work after 30"]);
    let trace = window(&guest, 1);
    assert_eq!(trace.ending, Ending::Complete);
    assert_eq!(trace.kernels(), counts(&[("(outside)", 3), ("inside", 40), ("left", 4)]));
    let losses = trace.losses();
    assert_eq!((losses.unbalanced, losses.unattributed, losses.unreadable_records), (0, 0, 0));
    assert_eq!(trace.meta("window"), Some("1"));
    assert_eq!(trace.meta("window.began"), Some("start"));
    assert_eq!(trace.meta("window.ended"), Some("stop"));
    assert!(
        trace
            .meta("window.unknown")
            .is_some_and(|said| said.contains("copies may count as kernels"))
    );
    assert!(trace.records.iter().any(|record| matches!(record, Record::Device(_))));
    assert!(guest.end().success());
    assert_eq!((guest.stderr().as_str(), trace_files(&guest)), ("", 1));
}

/// Hazard (Dormant processes and windows): Several windows in a process.
/// Promise: Each can be read alone.
#[test]
fn each_window_can_be_read_alone() {
    let mut guest = dormant_at_work();
    guest.tell("register llm decode");
    for number in 1..=3 {
        start(&guest, "");
        guest.does([&format!("registered {}", 5 + number), &format!("work w{number} 7")]);
        stop(&guest);
        guest.tell("work between 9");
    }
    for number in 1..=3u64 {
        let trace = window(&guest, number);
        let own = format!("w{number}");
        assert_eq!(trace.kernels(), counts(&[("decode", 5 + number as usize), (own.as_str(), 7)]));
        let of = |wanted: fn(&Record) -> bool| {
            trace.records.iter().filter(|record| wanted(record)).count()
        };
        assert_eq!(of(|record| matches!(record, Record::Process(_))), 1);
        let own = guest.pid();
        let is_main =
            |record: &&Record| matches!(record, Record::Thread { os_tid, .. } if *os_tid == own);
        assert_eq!(trace.records.iter().filter(is_main).count(), 1, "window {number}");
        assert_eq!(of(|record| matches!(record, Record::Device(_))), 1, "window {number}");
        assert!(trace.meta("cupti.version").is_some(), "window {number}");
        assert_eq!(trace.losses().unattributed, 0);
    }
    let status = accepted(&guest, "status");
    let done: Vec<&str> = status.all("done").collect();
    assert_eq!(done.len(), 3);
    assert!(done[2].contains("number=3") && done[2].contains("records=15 lost=0"), "{done:?}");
    assert_eq!(status.get("records"), Some("42"));
}

/// Hazard (Dormant processes and windows): `STAGE2_GRAPH=graph`, which CUPTI does not survive
///  late.
/// Promise: A start is refused.
#[test]
fn graphs_as_wholes_are_not_begun_late() {
    let mut guest = dormant().env("STAGE2_GRAPH", "graph").spawn();
    guest.does(["cuda", "push x", "pop"]);
    assert!(refused(&guest, "start").contains("STAGE2_GRAPH=graph cannot begin"));
    assert_eq!(accepted(&guest, "status").get("phase"), Some("dormant"));
}

#[test]
fn a_window_without_a_folder_is_refused() {
    let mut guest = dormant().without("STAGE2_OUT").spawn();
    guest.tell("push x");
    assert!(refused(&guest, "start").contains("STAGE2_OUT"));
}

/// Hazard (Dormant processes and windows): A window with a limit is not stopped.
/// Promise: It ends by itself, and the program continues.
#[test]
fn windows_end_by_themselves() {
    let mut guest = dormant_at_work();
    start(&guest, "for_ms=150");
    guest.tell("work timed 5");
    await_phase(&guest, "dormant");
    start(&guest, "steps=3");
    guest.does(["push around", "work step 2", "pop", "work step 2"]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(accepted(&guest, "status").get("phase"), Some("on"), "two steps so far");
    guest.tell("work step 2");
    await_phase(&guest, "dormant");
    start(&guest, "steps=2 ranges=step");
    guest.tell("push around");
    for _ in 0..2 {
        guest.does(["work other 4", "work step 2"]);
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

/// Hazard (Dormant processes and windows): A window has its own ranges, and the program registered names before.
/// Promise: They match.
#[test]
fn a_window_has_ranges_and_a_sample_of_its_own() {
    let mut guest = dormant().env("STAGE2_RANGES", "before").spawn();
    guest.does(["cuda", "register llm decode"]);
    let work = |guest: &mut Running| {
        for _ in 0..4 {
            guest.does(["registered 3", "work before 2"]);
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

/// Hazard (Dormant processes and windows): Hardware counters are asked for in some windows of
///  many.
/// Promise: These have samples, and no other.
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
        let trace = window(&guest, number);
        let sets = trace.records.iter().filter(|record| matches!(record, Record::CounterSet(_)));
        let samples =
            trace.records.iter().filter(|record| matches!(record, Record::CounterSamples(_)));
        (sets.count() > 0, samples.count() > 0)
    };
    assert_eq!(samples(1), (true, true), "{}", guest.stderr());
    assert_eq!(samples(2), (false, false));
    assert_eq!(samples(3), (true, true), "{}", guest.stderr());
}

/// Hazard (Dormant processes and windows): A window loses events.
/// Promise: The next one does not report that, and knows where all its work belongs.
#[test]
fn what_one_window_lost_is_no_loss_of_the_next() {
    each(["12.4", "12.8", "13.1"], |version| {
        let mut guest = dormant().env("STAGE2_SIM_CUPTI_VERSION", version).spawn();
        guest.does(["cuda", "thread"]);
        start(&guest, "");
        guest.does(["flood 100000", "on 0 work flooded 5"]);
        stop(&guest);
        assert!(window(&guest, 1).losses().range_events > 0, "{version}");
        start(&guest, "");
        // Before the first range of its thread, which would make up for a loss.
        guest.does(["launch 3", "on 0 launch 4", "on 0 work inside 20"]);
        stop(&guest);
        let trace = window(&guest, 2);
        assert_eq!(trace.kernels(), counts(&[("(outside)", 7), ("inside", 20)]), "{version}");
        assert_eq!(trace.losses(), Losses::default(), "{version}");
    });
}

#[test]
fn a_window_whose_records_do_not_come_in_time_says_so() {
    let guest = dormant().env("STAGE2_SIM_CUPTI_VERSION", "12.8");
    let mut guest = guest.env("STAGE2_SIM_FAULT", "late-buffers=3600000").spawn();
    guest.tell("cuda");
    start(&guest, "");
    guest.tell("work inside 5");
    stop(&guest);
    let trace = window(&guest, 1);
    let why = trace.meta("gpu.incomplete").expect("a reason");
    assert!(why.contains("of its activity buffers, with work of this window"), "{why}");
    assert!(guest.stderr().contains("window 1: GPU work is missing"), "{}", guest.stderr());
    assert_eq!(trace.losses(), Losses::default());
}

/// Hazard (Dormant processes and windows): A thousand windows while threads are busy.
/// Promise: Memory stays flat, and every record is in its window.
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
        let trace = window(&guest, number);
        assert_eq!(trace.ending, Ending::Complete, "window {number}");
        let number = number.to_string();
        assert_eq!(trace.meta("window"), Some(number.as_str()));
        // No record is of a window before: every one lies behind the end of that.
        let times = trace.records.iter().filter_map(|record| match record {
            Record::Work(work) if work.start.0 != 0 => Some((work.start.0, work.end.0)),
            _ => None,
        });
        let times: Vec<(u64, u64)> = times.collect();
        let first = times.iter().map(|time| time.0).min();
        assert!(first.is_none_or(|first| first >= ends.0), "window {number}");
        ends =
            times.iter().map(|time| time.0).max().map_or(ends, |last| (last, ends.1 + times.len()));
        let losses = trace.losses();
        assert_eq!((losses.unreadable_records, losses.cupti_dropped, losses.unbalanced), (0, 0, 0));
    }
    assert!(ends.1 > 100, "{} records in all", ends.1);
    assert_eq!(guest.stderr(), "");
}

/// Hazard (Dormant processes and windows): The program initialises CUDA within a window.
/// Promise: The window has its work.
#[test]
fn cuda_may_be_initialised_within_a_window() {
    let mut guest = dormant().spawn();
    guest.does(["push early", "pop"]);
    start(&guest, "");
    guest.does(["cuda", "work inside 6"]);
    stop(&guest);
    assert_eq!(window(&guest, 1).kernels(), counts(&[("inside", 6)]));
}

#[test]
fn replays_of_a_graph_that_was_captured_before_are_in_the_window() {
    let mut guest = dormant_at_work();
    guest.tell("capture 12");
    start(&guest, "");
    guest.does(["replay inside", "replay inside"]);
    stop(&guest);
    guest.tell("replay after");
    let trace = window(&guest, 1);
    assert_eq!(trace.kernels(), counts(&[("inside", 24)]));
}

/// Hazard (Dormant processes and windows): The process is killed within a window.
/// Promise: Everything that was flushed is kept.
#[test]
fn a_kill_within_a_window_leaves_what_was_flushed() {
    let mut guest = dormant_at_work();
    start(&guest, "");
    guest.tell("work inside 5");
    accepted(&guest, "flush");
    guest.signal(libc::SIGKILL);
    guest.ended();
    let trace = window(&guest, 1);
    assert_eq!(trace.kernels(), counts(&[("inside", 5)]));
    assert_ne!(trace.ending, Ending::Complete);
}

/// Hazard (Dormant processes and windows): The disk fills within a window.
/// Promise: The window reports it and counts a loss; the next one is complete.
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

/// Hazard (Dormant processes and windows): A limit of steps is reached while the program continues.
/// Promise: The window contains nothing that begins after the last step.
#[test]
fn a_limit_of_steps_leaves_out_what_begins_behind_the_last_one() {
    each(["fence", "callback"], |attribution| {
        let mut guest = dormant().env("STAGE2_ATTRIBUTION", attribution).spawn();
        guest.tell("cuda");
        start(&guest, "steps=3");
        // The guest goes on without a pause, long before our thread has seen the third step.
        guest.does(["burst step 500", "launch 7"]);
        await_phase(&guest, "dormant");
        let trace = window(&guest, 1);
        assert_eq!(trace.kernels(), counts(&[("step", 3)]), "{attribution}");
        let losses = trace.losses();
        assert_eq!((losses.unattributed, losses.unbalanced), (0, 0), "{attribution}");
        let opened = |record: &&Record| matches!(record, Record::RangeOpen(_));
        assert_eq!(trace.records.iter().filter(opened).count(), 3, "{attribution}");
        assert_eq!(trace.ending, Ending::Complete);
    });
}

/// Hazard (Dormant processes and windows): Several processes are to record the same steps.
/// Promise: They begin at one moment.
#[test]
fn a_window_begins_at_the_moment_that_was_set_in_every_process() {
    let mut guests: Vec<Running> = (0..2).map(|_| dormant_at_work()).collect();
    for number in 1..=2 {
        let at = since_1970() + Duration::from_millis(1_300);
        for guest in &guests {
            accepted(guest, &format!("start steps=2 at_unix_us={}", at.as_micros()));
        }
        // The file is open and CUPTI attached, and still nothing is recorded.
        std::thread::sleep((at - Duration::from_millis(500)).saturating_sub(since_1970()));
        for guest in &mut guests {
            assert_eq!(accepted(guest, "status").get("phase"), Some("starting"));
            guest.tell("work early 3");
        }
        std::thread::sleep((at + Duration::from_millis(100)).saturating_sub(since_1970()));
        for guest in &mut guests {
            assert_eq!(accepted(guest, "status").get("phase"), Some("on"));
            guest.tell("burst step 9");
            await_phase(guest, "dormant");
            let trace = window(guest, number);
            assert_eq!(trace.kernels(), counts(&[("step", 2)]), "{number}");
            assert_eq!(trace.losses().unattributed, 0);
            let fact = |name: &str| trace.meta(name).and_then(|fact| fact.parse::<u128>().ok());
            assert_eq!(fact("window.at_unix_ns"), Some(at.as_micros() * 1000));
            let late = fact("window.late_ns").expect("a time");
            assert!(late < 50_000_000, "{late} ns late");
            // It starts once, and that is told.
            assert_eq!(fact("window.cupti_start_ns").is_some(), number == 1);
        }
    }
}

/// Hazard (Dormant processes and windows): A window is to begin later, and is stopped before, or
///  the process ends.
/// Promise: Nothing is recorded, and the process ends in time.
#[test]
fn a_window_that_has_not_begun_is_stopped_and_one_too_far_ahead_refused() {
    let mut guest = dormant_at_work();
    let in_an_hour = (since_1970() + Duration::from_secs(3600)).as_micros();
    accepted(&guest, &format!("start at_unix_us={in_an_hour}"));
    guest.tell("work early 3");
    assert!(refused(&guest, "start").contains("window 1 is on already"));
    stop(&guest);
    assert_eq!(trace_files(&guest), 0, "nothing was recorded");
    let in_two_days = (since_1970() + Duration::from_secs(48 * 3600)).as_micros();
    let why = refused(&guest, &format!("start at_unix_us={in_two_days}"));
    assert!(why.contains("24 hours"), "{why}");
    // One that is past begins at once, and says how late that is.
    let past = (since_1970() - Duration::from_secs(1)).as_micros();
    start(&guest, &format!("at_unix_us={past}"));
    guest.tell("work inside 5");
    let status = accepted(&guest, "status");
    let late: u64 = status.get("late_us").and_then(|us| us.parse().ok()).expect("a time");
    assert!((1_000_000..30_000_000).contains(&late), "{late} us late");
    stop(&guest);
    assert_eq!(window(&guest, 2).kernels(), counts(&[("inside", 5)]));
    // The process ends while it waits for one.
    accepted(&guest, &format!("start at_unix_us={in_an_hour}"));
    assert!(guest.end().success());
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}
