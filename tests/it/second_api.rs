//! CUPTI's second activity API: what it brings is what the first one brings, and where it fails the first
//! one serves.

use crate::common::trace::work;
use crate::common::{Guest, Left, TraceFile, counts, each};
use stage2_contract::trace::{Losses, Record};

fn first(hazard: &str) -> Guest {
    Guest::new(hazard).api("v1")
}

fn second(hazard: &str) -> Guest {
    Guest::new(hazard).api("v2")
}

fn devices(trace: &TraceFile) -> Vec<String> {
    let device = |record: &Record| match record {
        Record::Device(device) => Some(format!("{device:?}")),
        _ => None,
    };
    trace.each(device)
}

fn serves(left: &Left, api: &str) {
    assert_eq!(left.trace().meta("cupti.api"), Some(api), "{}", left.stderr());
}

#[test]
fn both_tell_the_same_of_every_kernel_copy_fill_graph_and_gpu() {
    let cases = [("return", "node"), ("transfers", "node"), ("graph", "node"), ("graph", "graph")];
    each(cases, |(hazard, graph)| {
        let run = |guest: Guest| guest.env("STAGE2_GRAPH", graph).run();
        let (one, two) = (run(first(hazard)), run(second(hazard)));
        serves(&one, "v1");
        serves(&two, "v2");
        let (one, two) = (one.expect_quiet(0).trace(), two.expect_quiet(0).trace());
        let (expected, found) = (work(one), work(two));
        assert!(!expected.is_empty(), "{hazard}");
        assert_eq!(found, expected, "{hazard} {graph}");
        assert_eq!(two.kernels(), one.kernels(), "{hazard} {graph}");
        assert_eq!((devices(two), devices(two).len()), (devices(one), 1));
        assert_eq!((two.losses(), one.losses()), (Losses::default(), Losses::default()));
        assert_eq!(one.meta("cupti.fields"), None);
        let fields = two.meta("cupti.fields").expect("the fields");
        assert!(fields.contains("kernel: kind start end correlation_id name"), "{fields}");
    });
}

/// Hazard (Versions, libraries and rivals): CUPTI has the second activity API.
/// Promise: It serves, unless the first one is asked for.
#[test]
fn the_second_api_serves_where_cupti_has_it_unless_the_first_one_is_asked_for() {
    let of = |version: &str| Guest::new("return").env("STAGE2_SIM_CUPTI_VERSION", version);
    let cases = [
        (of("13.5"), "v2"),
        (of("13.3"), "v2"),
        (of("13.5").env("STAGE2_CUPTI_API", "auto"), "v2"),
        (of("13.5").env("STAGE2_CUPTI_API", "v1"), "v1"),
        (of("13.2"), "v1"),
    ];
    each(cases, |(guest, api)| {
        let left = guest.run();
        left.expect_quiet(0);
        serves(&left, api);
        assert_eq!(left.trace().meta("cupti.v2_refused"), None);
    });
}

#[test]
fn threads_and_forks_are_told_apart_both_ways() {
    let expected = first("threads").run().expect_quiet(0).trace().kernels();
    for attribution in ["fence", "callback"] {
        let left = second("threads").env("STAGE2_ATTRIBUTION", attribution).run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!((trace.kernels(), trace.losses()), (expected.clone(), Losses::default()));
        assert_eq!(trace.meta("attribution"), Some(attribution));
        serves(&left, "v2");
    }
    let left = second("fork_exec").run();
    left.expect_quiet(0);
    assert_eq!(left.traces.len(), 2);
    for trace in &left.traces {
        assert_eq!(trace.meta("cupti.api"), Some("v2"));
        assert_eq!(trace.kernel_count(), 207);
    }
}

#[test]
fn a_sample_is_the_same_although_what_it_leaves_out_is_delivered() {
    // A flush takes a number in CUPTI's sequence of calls, by which the simulated GPU draws its times.
    let run = |guest: Guest| {
        let guest = guest.env("STAGE2_SAMPLE", "1/16").env("STAGE2_RANGES", "decode_step");
        guest.env("STAGE2_FLUSH_MS", "3600000").run()
    };
    let (one, two) = (run(first("steps")), run(second("steps").env("STAGE2_SUMMARY", "stderr")));
    serves(&two, "v2");
    assert_eq!(two.trace().samples(), one.trace().samples());
    assert_eq!(work(two.trace()), work(one.trace()));
    assert_eq!(two.trace().kernel_count(), 12 * 9);
    // No CUPTI that has the second API can be switched safely.
    assert!(two.stderr().contains("may lose threads that launch"), "{}", two.stderr());
}

#[test]
fn a_thousand_threads_lose_nothing() {
    let left = second("crowd").env("STAGE2_TEST_THREADS", "1000").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.kernels(), counts(&[("crowd", 40_000), ("(outside)", 1000)]));
    assert_eq!(trace.losses(), Losses::default());
    serves(&left, "v2");
}

#[test]
fn layouts_that_cannot_be_right_are_refused_and_their_records_counted() {
    let left = second("return").env("STAGE2_SIM_FAULT", "false-layouts").run();
    let stderr = left.expect_line(0);
    for part in ["outside of the record", "counted as unreadable", "STAGE2_CUPTI_API=v1"] {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    let trace = left.trace();
    assert_eq!(trace.kernels(), counts(&[]));
    assert!((190..230).contains(&trace.losses().unreadable_records), "{:?}", trace.losses());
    assert!(trace.meta("cupti.false_layouts").is_some_and(|why| why.contains("outside")));
    assert!(trace.range_paths().values().any(|path| path == "prefill"), "ranges go on");
}

#[test]
fn what_the_second_api_refuses_the_first_one_is_asked_for() {
    each([1, 7, 15, 27, 39, 999], |error| {
        let fault = format!("second-api={error}");
        let guest = || second("return").env("STAGE2_SIM_FAULT", &fault);
        let left = guest().run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!(trace.kernel_count(), 207, "{fault}");
        assert_eq!(trace.losses(), Losses::default());
        serves(&left, "v1");
        let why = trace.meta("cupti.v2_refused").expect("why");
        assert!(why.contains(&format!("({error})")), "{why}");
        let told = guest().env("STAGE2_LOG", "info").run().stderr();
        let lines = told.lines().filter(|line| line.contains("first activity API is used"));
        assert_eq!(lines.count(), 1, "{told}");
    });
    let older = Guest::new("return").env("STAGE2_SIM_CUPTI_VERSION", "130001");
    let left = older.env("STAGE2_CUPTI_API", "v2").run();
    assert_eq!(left.trace().kernel_count(), 207);
    serves(&left, "v1");
    let stderr = left.expect_line(0);
    for part in ["STAGE2_CUPTI_API=v2", "130001 does not have it", "first activity API is used"] {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
}

#[test]
fn a_tool_that_holds_cupti_is_named_and_nothing_is_recorded() {
    let other = "CUPTI for another tool (simulated)";
    let faulty = second("return").env("STAGE2_SIM_FAULT", "subscribe=39");
    let holders =
        [(faulty, other, ""), (second("profiler_first"), "held by CUPTI)", "subscribe=0\n")];
    for (guest, holder, stdout) in holders {
        let left = guest.run();
        let stderr = left.expect_said(0);
        assert_eq!((stderr.lines().count(), left.stdout().as_str()), (1, stdout), "{stderr}");
        for part in ["CUPTI refused the subscription (held by ", holder, "MULTIPLE_SUBSCRIBERS"] {
            assert!(stderr.contains(part), "{part:?} in {stderr}");
        }
        assert_eq!(left.trace().kernels(), counts(&[]));
        assert!(left.trace().meta("gpu.off").is_some_and(|off| off.contains(holder)));
    }
}

#[test]
fn who_comes_second_is_refused_or_let_in_beside_us_and_takes_no_record() {
    let whole = |left: &Left| {
        let trace = left.expect_quiet(0).trace();
        serves(left, "v2");
        assert_eq!(trace.kernels(), counts(&[("work", 100)]));
        assert_eq!(trace.losses(), Losses::default());
    };
    // As torch.profiler: a subscriber and records of the first activity API.
    let left = second("profiler_beside").run();
    whole(&left);
    assert_eq!(left.stdout(), "subscribe=39 enable=39\n");
    // A tool that allows others, under a driver that can have several, and under one that cannot.
    for (driver, result) in [("13030", 0), ("13000", 39)] {
        let left = second("tool_beside").env("STAGE2_SIM_DRIVER_VERSION", driver).run();
        whole(&left);
        assert_eq!(left.stdout(), format!("subscribe={result} first=CUPTI for stage2\n"));
    }
}

/// Hazard (Versions, libraries and rivals): CUPTI accepts hardware trace for a GPU that cannot.
/// Promise: Nothing is believed before the GPU is known.
#[test]
fn the_hardware_takes_the_times_of_kernels_where_it_can() {
    each([("v1", "13.4"), ("v2", "13.5")], |(api, version)| {
        let run = |fault: &str, wanted: &str| {
            // The simulated CUPTI aborts the process if another thread flushes. One of ours would, often.
            let guest = Guest::new("return").env("STAGE2_SIM_CUPTI_VERSION", version);
            let guest = guest.env("STAGE2_CUPTI_API", api).env("STAGE2_SIM_FAULT", fault);
            let guest = guest.env("STAGE2_FLUSH_MS", "50");
            // Nothing is as if it was not set.
            let left = guest.env("STAGE2_HWTRACE", wanted).run();
            let trace = left.expect_quiet(0).trace();
            assert_eq!(trace.kernel_count(), 207);
            serves(&left, api);
            trace.meta("cupti.hwtrace").expect("what became of it").to_owned()
        };
        assert_eq!(run("hardware-trace", "on"), "on", "{api} {version}");
        assert_eq!(run("hardware-trace", ""), "off", "{api} {version}");
        // CUPTI accepts it before it knows the GPU, which is a Hopper here.
        let told = run("", "on");
        assert!(told.starts_with("off: ") && told.contains("compute capability 9.0"), "{told}");
    });
    let old =
        Guest::new("return").env("STAGE2_SIM_CUPTI_VERSION", "13.3").env("STAGE2_HWTRACE", "on");
    let old = old.run();
    let said = "off: it needs CUPTI 13.4 update 1 or later, and this is 130301";
    assert!(old.stderr().contains(said), "{}", old.stderr());
    assert_eq!(old.trace().meta("cupti.hwtrace"), Some(said));
}
