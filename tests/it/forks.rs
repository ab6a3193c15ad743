//! Forked children are processes in their own right, with exact trace files of their own.

use crate::common::{Guest, Left, TraceFile, counts, despite_other_work, each, plain};
use stage2_contract::trace::{Ending, Losses};

/// No flush but the last one.
fn guest(hazard: &str) -> Guest {
    Guest::new(hazard).env("STAGE2_FLUSH_MS", "3600000")
}

/// The children, which all ended well and left whole files.
fn children(left: &Left, count: usize) -> Vec<&TraceFile> {
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    let stdout = left.stdout();
    assert!(stdout.lines().all(|line| line == "child=0"), "{stdout}");
    let children = left.children();
    assert_eq!(children.len(), count, "{}", left.stderr());
    for child in &children {
        assert_eq!((child.ending, child.losses()), (Ending::Complete, Losses::default()));
    }
    children
}

/// Hazard (Processes and forks): A process that the collector has nothing to record from forks children that end by
///  `_exit`.
/// Promise: Each child is recorded.
#[test]
fn children_of_a_parent_that_uses_nothing_are_recorded_though_they_end_at_once() {
    let left = guest("prefork").run();
    // The parent cannot be told from a program without CUDA: it has no file.
    assert_eq!((left.stderr().as_str(), left.traces.len()), ("", 4));
    for child in children(&left, 4) {
        assert_eq!(child.kernels(), plain());
    }
}

/// Hazard (Processes and forks): A server forks a child for each request, which opens one range.
/// Promise: The child touches no table beyond what it uses.
#[test]
fn a_child_that_opens_one_range_touches_little_memory() {
    let pages = |guest: Guest| {
        let left = guest.run();
        assert_eq!(left.expect_said(0), "");
        left.stdout().trim().parse::<u64>().expect("a number")
    };
    let alone = pages(guest("fork_briefly").without("LD_PRELOAD"));
    let recorded = pages(guest("fork_briefly"));
    println!("{recorded} pages of 4 KiB, alone {alone}");
    assert!(recorded < alone + 300, "{recorded} pages against {alone}");
}

/// Hazard (Processes and forks): A child inherits open ranges, threads' state and start/end
///  ranges.
/// Promise: They are not the child's; its pops of them are ignored.
/// Hazard (Processes and forks): A child uses its parent's handles of NVTX.
/// Promise: It knows them.
#[test]
fn children_know_handles_of_their_parent_and_do_not_inherit_its_ranges() {
    let left = guest("prefork_in_ranges").run();
    assert_eq!(left.stderr(), "");
    let parent = left.trace();
    assert_eq!(parent.ranges(), counts(&[("serve", 1), ("serve/late", 1)]));
    assert_eq!((parent.ending, parent.losses()), (Ending::Complete, Losses::default()));
    for child in children(&left, 3) {
        assert_eq!(child.meta("fork.of"), Some(parent.pid().to_string().as_str()));
        let expected = [("request", 7), ("request/decode", 100), ("request/prefill", 100)];
        assert_eq!(child.kernels(), counts(&expected));
        assert_eq!(child.meta("fork.unrecorded"), None);
    }
}

/// Hazard (Processes and forks): A child uses CUDA after its parent used NVTX alone.
/// Promise: It is recorded in full.
#[test]
fn a_child_that_uses_cuda_after_its_parent_used_nvtx_is_recorded() {
    let left = guest("fork_before_cuda").run();
    assert_eq!((left.stderr().as_str(), left.trace().ranges()), ("", counts(&[("parent", 1)])));
    assert_eq!(children(&left, 1)[0].kernels(), plain());
}

/// Hazard (Processes and forks): A child of a parent with CUDA.
/// Promise: It has its ranges, and states why it has no kernels.
#[test]
fn a_child_of_a_parent_with_cuda_has_its_ranges_and_says_why_it_has_no_kernels() {
    let left = guest("fork_after_cuda").run();
    let parent = left.trace();
    let mut expected = plain();
    // The start/end range is inside of the one that was pushed.
    expected.insert("around the fork/started before the fork".to_owned(), 5);
    assert_eq!((parent.kernels(), parent.losses()), (expected, Losses::default()));
    assert_eq!(parent.meta("forks.after_cuda"), Some("3"));
    // Those that only exec have no file, and nothing is said of them.
    let child = children(&left, 1)[0];
    assert_eq!(child.ranges(), counts(&[("in the child", 1000)]));
    let why = child.meta("fork.unrecorded").expect("why");
    assert!(why.starts_with("GPU work: its parent had initialised CUDA"), "{why}");
    let stderr = left.expect_line(0);
    assert!(stderr.contains("is not recorded") && stderr.contains("spawn"), "{stderr}");
}

#[test]
fn children_that_are_forked_one_after_the_other_each_have_a_file() {
    let left = guest("fork_in_a_loop").run();
    assert_eq!((left.stderr().as_str(), left.trace().ranges()), ("", counts(&[("parent", 20)])));
    for child in children(&left, 20) {
        assert_eq!(child.ranges(), counts(&[("child", 1)]));
    }
}

/// Hazard (Processes and forks): A child registers names before its first range.
/// Promise: The filter of ranges matches them.
#[test]
fn what_a_child_registers_before_its_first_range_matches_the_filter() {
    let left = guest("fork_registers").env("STAGE2_RANGES", "decode@llm").run();
    assert_eq!(left.stderr(), "");
    assert_eq!(children(&left, 1)[0].kernels(), counts(&[("decode", 5)]));
}

/// Hazard (Processes and forks): Children of children.
/// Promise: Each file names the parent of its process.
#[test]
fn children_of_children_are_recorded_and_say_whose_they_are() {
    let left = guest("fork_chain").run();
    let (root, children) = (left.trace(), children(&left, 2));
    let of = |name: &str| {
        let found = children.iter().find(|child| child.ranges() == counts(&[(name, 1)]));
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!(root.ranges(), counts(&[("first", 1)]));
    assert_eq!(of("second").meta("fork.of"), Some(root.pid().to_string().as_str()));
    // The one in between used nothing.
    let between = of("fourth").meta("fork.of").map(str::to_owned);
    assert!(![root.pid(), of("second").pid()].map(|pid| Some(pid.to_string())).contains(&between));
}

/// Hazard (Processes and forks): A fork while other threads push ranges.
/// Promise: No process hangs, and no records mix.
#[test]
fn forks_among_threads_that_push_ranges_hang_nobody_and_mix_nothing() {
    let left = guest("fork_among_threads").run();
    for child in children(&left, 10) {
        assert_eq!(child.ranges(), counts(&[("child", 10)]));
    }
    assert!(!left.trace().ranges().contains_key("child"));
}

/// Hazard (Processes and forks): A fork while another thread starts the collector.
/// Promise: The child can start itself.
/// Hazard (Processes and forks): A fork while NVTX waits for the collector's answer.
/// Promise: The child has working NVTX functions.
#[test]
fn a_child_that_is_forked_while_nvtx_waits_for_us_is_recorded() {
    each(0..5, |_| {
        let left = guest("fork_at_start").run();
        assert_eq!(left.stderr(), "");
        assert_eq!(children(&left, 1)[0].ranges(), counts(&[("unanswered", 1)]));
    });
}

/// Hazard (Processes and forks): A child by `clone` or `_Fork`, which calls no handler.
/// Promise: It is left alone and does not write into its parent's recording.
#[test]
fn a_child_by_a_fork_that_tells_nobody_is_left_alone() {
    despite_other_work(|| {
        let started = std::time::Instant::now();
        let left = Guest::new("fork_silently").run();
        let trace = left.expect_quiet(0).trace();
        assert_usual!(started.elapsed().as_secs() < 4, "{:?}", started.elapsed());
        // -2: NVTX's "no tool keeps track".
        assert_eq!((left.stdout().as_str(), trace.kernels()), ("child=-2\n", plain()));
        assert_eq!(left.children().len(), 0);
    });
}

/// Hazard (Processes and forks): Hundreds of children end before their files are complete.
/// Promise: One of them reports it.
#[test]
fn children_that_end_before_their_files_are_whole_say_so_once() {
    let left = guest("prefork").env("STAGE2_SIM_FAULT", "flush-hang=20000").run();
    assert_eq!((left.output.status.code(), left.children().len()), (Some(0), 4));
    let stderr = left.expect_line(0);
    assert!(stderr.contains("called _exit while CUPTI was still handing over records"), "{stderr}");
}

#[test]
fn without_the_launcher_only_children_with_kernels_print_a_table() {
    // A child that ends by `_exit` waits 200 ms for its file and then says so: on a machine that
    // stands still for as long, that is no fault.
    let run = || guest("fork_in_a_loop").env("STAGE2_SUMMARY", "stderr").run();
    let in_time = |left: &Left| !left.stderr().contains("called _exit while");
    let left = (0..3).map(|_| run()).find(in_time).expect("three runs, each with a child too late");
    children(&left, 20);
    assert_eq!(left.stderr().matches("no GPU work").count(), 1, "{}", left.stderr());
    // This one ends by `exit`: the table of one that ends by `_exit` is worth no long wait.
    let left = guest("fork_before_cuda").env("STAGE2_SUMMARY", "stderr").run();
    children(&left, 1);
    assert_eq!(left.stderr().matches("207 GPU records attributed").count(), 1, "{}", left.stderr());
}
