//! The collector in guests of every kind: exact counts in, exact counts out, and a guest that
//! does not notice.

use crate::common;
use crate::common::{Guest, counts, each, plain};
use stage2_contract::trace::{Ending, Losses, Payload, Record};

#[test]
fn every_kernel_is_attributed_whatever_way_the_guest_ends() {
    let cases = [
        ("return", Some(0), Ending::Complete),
        ("exit", Some(3), Ending::Complete),
        ("kill", None, Ending::Complete),
    ];
    each(cases, |(hazard, code, ending)| {
        let left = Guest::new(hazard).run();
        assert_eq!(left.output.status.code(), code, "{hazard}: {}", left.stderr());
        assert_eq!(left.stderr(), "", "{hazard}");
        let trace = left.trace();
        assert_eq!(trace.kernels(), plain(), "{hazard}");
        assert_eq!(trace.ending, ending, "{hazard}");
        assert_eq!(trace.losses(), Losses::default(), "{hazard}");
    });
}

#[test]
fn every_kernel_finds_its_range_whatever_opens_and_closes_it() {
    let mut threads = counts(&[("(outside)", 80)]);
    for thread in 0..4 {
        threads.insert(format!("t{thread}.prefill"), 20 * (60 + thread));
        threads.insert(format!("t{thread}.decode"), 20 * (10 + thread));
    }
    let start_end = [("request", 11), ("(outside)", 9), ("outer/inner", 4), ("inner", 5)];
    let cases = [
        ("return", ("STAGE2_ATTRIBUTION", "callback"), "callback", plain()),
        ("threads", ("STAGE2_ATTRIBUTION", "fence"), "fence", threads.clone()),
        ("threads", ("STAGE2_ATTRIBUTION", "callback"), "callback", threads.clone()),
        // It has no buffers per thread.
        ("threads", ("STAGE2_SIM_CUPTI_VERSION", "12.2"), "callback", threads),
        ("start_end", ("STAGE2_RANGES", ""), "fence", counts(&start_end)),
        // A range is open before CUDA is there.
        ("late_cuda", ("STAGE2_RANGES", ""), "fence", counts(&[("load", 9), ("work", 8)])),
        // Only wanted ranges, with everything inside.
        (
            "gated",
            ("STAGE2_RANGES", "dec*"),
            "fence",
            counts(&[("decode", 20), ("decode/layer", 70)]),
        ),
        ("gated", ("STAGE2_RANGES", "nothing-of-that-name"), "fence", counts(&[])),
    ];
    each(cases, |(hazard, (name, value), attribution, kernels)| {
        let left = Guest::new(hazard).env(name, value).run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!(trace.kernels(), kernels, "{hazard} {value}");
        assert_eq!(trace.losses(), Losses::default(), "{hazard} {value}");
        assert_eq!(trace.meta("attribution"), Some(attribution), "{hazard} {value}");
    });
}

/// Hazard (Versions, libraries and rivals): Record layouts of 11.8 to 13.x.
/// Promise: Every known one is read with its own sizes.
#[test]
fn every_known_cupti_is_read_with_its_own_record_sizes() {
    each(["11.8", "12.2", "12.4", "12.6", "12.9", "13.0", "13.1", "13.3", "13.4"], |version| {
        let left = Guest::new("return").env("STAGE2_SIM_CUPTI_VERSION", version).run();
        assert_eq!(left.expect_quiet(0).trace().kernels(), plain(), "{version}");
    });
}

#[test]
fn replays_belong_to_the_range_open_at_replay_and_remember_where_they_were_captured() {
    let left = Guest::new("graph").run();
    let trace = left.expect_quiet(0).trace();
    let kernels = trace.kernels();
    let per_replay = kernels["decode"] / 5;
    assert_eq!(kernels, counts(&[("decode", per_replay * 5)]));
    let nodes: Vec<u64> = trace.each(|record| match record {
        Record::GraphNode { node, .. } => Some(*node),
        _ => None,
    });
    let used: std::collections::HashSet<u64> = trace
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Work(work) if work.is_kernel() => Some(work.graph_node),
            _ => None,
        })
        .collect();
    assert_eq!(used.len(), per_replay);
    assert!(used.iter().all(|node| nodes.contains(node)), "{used:?} {nodes:?}");
    // Each knows the very instance that it was captured in, by which a replay finds its bytes.
    let paths = trace.range_paths();
    let captured_in = trace.records.iter().filter_map(|record| match record {
        Record::GraphNode { range, .. } => Some(paths[range].as_str()),
        _ => None,
    });
    let captured = captured_in.fold(std::collections::BTreeMap::new(), |mut counts, path| {
        *counts.entry(path).or_insert(0) += 1;
        counts
    });
    let layers = [("capture/layer.0", 10), ("capture/layer.1", 20)];
    assert_eq!(captured, layers.into_iter().collect());
}

#[test]
fn graph_level_collection_gives_one_record_a_replay() {
    let left = Guest::new("graph").env("STAGE2_GRAPH", "graph").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(trace.graph_launches(), counts(&[("decode", 5)]));
    assert_eq!(trace.kernels(), counts(&[]));
}

#[test]
fn requests_that_overlap_on_a_thread_are_instances_of_one_path() {
    let left = Guest::new("requests").run();
    let trace = left.expect_quiet(0).trace();
    let expected = [("request/prefill", 11), ("request/decode", 50), ("(outside)", 2)];
    assert_eq!(trace.kernels(), counts(&expected));
    let openings = |record: &Record| match record {
        Record::RangeOpen(open) => Some((open.start_end, open.continues)),
        _ => None,
    };
    let openings: Vec<_> = trace.each(openings);
    assert_eq!(openings.iter().filter(|&&(start_end, _)| start_end).count(), 2, "{openings:?}");
    assert!(openings.iter().all(|&(_, goes_on)| goes_on == 0), "{openings:?}");
}

#[test]
fn copies_and_fills_are_attributed_too() {
    let left = Guest::new("transfers").run();
    assert_eq!(left.expect_quiet(0).trace().transfers(), counts(&[("io", 2)]));
}

#[test]
fn a_range_that_opens_before_collection_is_on_is_counted_in_the_trace_file() {
    let left = Guest::new("late_switch")
        .env("STAGE2_RANGES", "early,later")
        .env("STAGE2_SIM_FAULT", "slow-enable=200")
        .run();
    let lost = left.expect_quiet(0).trace().losses();
    assert_eq!(lost, Losses { late_switches: 1, ..Losses::default() });
}

#[test]
fn with_more_launching_threads_than_buffers_every_loss_is_counted() {
    let left = Guest::new("many_threads").env("STAGE2_BUFFERS", "64K*8").run();
    let trace = left.expect_quiet(0).trace();
    let lost = trace.losses();
    let kernels = trace.kernels();
    // What does not fit is counted, not guessed.
    let seen = kernels.get("many").copied().unwrap_or(0) as u64;
    assert_eq!(seen + lost.cupti_dropped, 5000, "{lost:?}");
    assert!(!kernels.contains_key("(unknown)"), "{kernels:?}");
}

/// Hazard (Threads, stacks and locks): The guest's main thread is real-time or idle class.
/// Promise: Our thread never goes before the guest's.
#[test]
fn our_thread_is_scheduled_as_the_main_thread_is_and_not_as_the_one_that_came_first() {
    // The class of all that has no other, and SCHED_IDLE.
    for (hazard, class) in [("pinned", "Some(\"0\")"), ("idle_class", "Some(\"5\")")] {
        let stdout = Guest::new(hazard).run().expect_quiet(0).stdout();
        let tasks: Vec<&str> = stdout.lines().collect();
        assert_eq!(tasks.len(), 2, "{stdout}");
        assert_eq!(tasks[0], tasks[1], "{hazard}");
        assert!(tasks[0].contains("Cpus_allowed") && tasks[0].ends_with(class), "{stdout}");
    }
}

/// Hazard (Processes and forks): A child execs another program.
/// Promise: That program has a separate trace file.
#[test]
fn a_child_that_execs_writes_a_trace_file_of_its_own() {
    let left = Guest::new("fork_exec").run();
    left.expect_quiet(0);
    assert_eq!(left.traces.len(), 2);
    for trace in &left.traces {
        assert_eq!((trace.kernels(), trace.ending), (plain(), Ending::Complete));
    }
}

#[test]
fn names_of_every_kind_arrive_as_they_are() {
    let left = Guest::new("strings").run();
    let trace = left.expect_quiet(0).trace();
    let names: Vec<&[u8]> = trace.each(|record| match record {
        Record::Name { bytes, .. } => Some(bytes.as_slice()),
        _ => None,
    });
    let long = "long".repeat(256);
    for name in [
        b"bad utf8 \xff\xfe".as_slice(),
        b"pipe | newline \n escape \x1b[31m <b>html</b>",
        long.as_bytes(),
        b"",
        "wide é漢".as_bytes(),
        b"llm",
        b"registered",
    ] {
        assert!(names.contains(&name), "{}", String::from_utf8_lossy(name));
    }
    assert_eq!(trace.losses(), Losses { names_cut: 1, ..Losses::default() });
    let registered = trace.records.iter().find_map(|record| match record {
        Record::RangeOpen(open) if open.category == 7 => open.payload,
        _ => None,
    });
    assert_eq!(registered, Some(Payload::I64(-42)));
}

#[test]
fn unbalanced_ranges_are_counted() {
    let left = Guest::new("unbalanced").run();
    let lost = left.expect_open("never closed").trace().losses();
    assert_eq!(lost, Losses { unbalanced: 2, unclosed: 1, ..Losses::default() });
    assert_eq!(left.stdout(), "level=-2\n");
}

/// Hazard (Resources): Ten thousand nested ranges.
/// Promise: They are survived.
#[test]
fn ten_thousand_deep_nesting_is_survived() {
    let left = Guest::new("deep").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(left.stdout(), "level=10000\n");
    assert_eq!(trace.range_paths().len(), 10_001);
    assert_eq!(trace.losses(), Losses::default());
}

/// Hazard (Threads, stacks and locks): A thread's locals are gone when it closes its last range.
/// Promise: The range is kept.
#[test]
fn ranges_are_kept_without_cuda_and_after_thread_locals_are_gone() {
    for (hazard, ranges) in
        [("nvtx_only", &["cpu work"][..]), ("thread_exit", &["in a thread", "in a destructor"])]
    {
        let left = Guest::new(hazard).run();
        let trace = left.expect_quiet(0).trace();
        assert!(trace.range_paths().values().eq(ranges), "{hazard}: {:?}", trace.range_paths());
        assert_eq!(trace.losses(), Losses::default(), "{hazard}");
        assert_eq!(trace.meta("gpu.off"), None);
    }
}

/// Hazard (Versions, libraries and rivals): Old NVTX clients with shorter tables.
/// Promise: They are served, and no slot beyond their tables is written.
#[test]
fn old_nvtx_clients_with_shorter_tables_are_served() {
    let left = Guest::new("strings").env("STAGE2_TEST_NVTX2", "1").run();
    assert_eq!(left.expect_quiet(0).trace().range_paths().len(), 6);
}

#[test]
fn the_newest_cupti_is_taken_where_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("folder");
    // The simulated GPU is its own driver; both names lead to the one file.
    let driver = folder.path().join("libcuda.so.1");
    std::fs::copy(common::simulator(), &driver).expect("a copy");
    let packages = folder.path().join("lib/python3.12/site-packages");
    let library = packages.join("nvidia/cu13/lib");
    std::fs::create_dir_all(&library).expect("folders");
    std::fs::create_dir(packages.join("nvidia_cuda_cupti-13.5.25.dist-info")).expect("a folder");
    std::fs::hard_link(&driver, library.join("libcupti.so.13")).expect("a link");
    let trace = Guest::new("return")
        .env("STAGE2_TEST_SIM", &driver)
        .env("STAGE2_CUPTI", "newest")
        .env("VIRTUAL_ENV", folder.path())
        .run();
    let trace = trace.expect_quiet(0).trace();
    assert_eq!(trace.kernels()["prefill"], 100);
    assert_eq!(trace.meta("cupti.found"), Some("PythonPackages"));
}
