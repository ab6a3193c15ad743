//! Whatever fails, the guest runs on as if we were not there, and one line says what to do.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::{Guest, collector, counts, each, simulator};
use stage2_contract::trace::Losses;

/// Runs the plain guest and expects it to end well with one line that contains all of `parts`.
fn off_because(guest: Guest, parts: &[&str]) {
    let left = guest.run();
    let stderr = left.expect_line(0);
    for part in parts.iter().chain(&["stage2: "]) {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    let trace = left.trace();
    assert_eq!(trace.kernels(), counts(&[]));
    assert!(trace.range_paths().values().any(|path| path == "prefill"), "ranges go on");
    let off = trace.meta("gpu.off").expect("the capture says why");
    assert!(stderr.contains(off.split(';').next().unwrap_or(off)), "{off} in {stderr}");
}

/// Hazard (Versions, libraries and rivals): No libcupti, or a file that is not one.
/// Promise: One line names every place that was tried.
#[test]
fn no_libcupti() {
    let missing = || Guest::new("return").env("STAGE2_CUPTI", "/nonexistent/libcupti.so.13");
    off_because(missing(), &["/nonexistent/libcupti.so.13"]);
    // Under a driver of its own, as on a machine with a GPU.
    let folder = tempfile::tempdir().expect("folder");
    let driver = folder.path().join("libcuda.so.1");
    std::fs::copy(simulator(), &driver).expect("a copy");
    let missing = missing().env("STAGE2_TEST_SIM", &driver);
    off_because(missing, &["/nonexistent/libcupti.so.13", "correct STAGE2_CUPTI"]);
}

#[test]
fn a_file_that_is_no_cupti() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("libcupti.so.13");
    std::fs::write(&path, "not a library").expect("file");
    off_because(Guest::new("return").env("STAGE2_CUPTI", &path), &["libcupti.so.13"]);
}

/// Hazard (Versions, libraries and rivals): A CUPTI of an unknown version.
/// Promise: It is not used, and one line names it.
#[test]
fn a_cupti_of_an_unknown_version() {
    each(["150000", "5"], |version| {
        let guest = Guest::new("return").env("STAGE2_SIM_CUPTI_VERSION", version);
        off_because(guest, &[version, "STAGE2_CUPTI"]);
    });
}

/// Hazard (Versions, libraries and rivals): CUPTI 11.8 with a newer CUDA, which would end the program.
/// Promise: It is not used.
#[test]
fn a_cupti_that_would_end_the_guest_under_its_driver() {
    let folder = tempfile::tempdir().expect("folder");
    let copy = folder.path().join("libcupti.so.11.8");
    std::fs::copy(simulator(), &copy).expect("a copy");
    let guest = |driver: &str| {
        Guest::new("return")
            .env("STAGE2_SIM_CUPTI_VERSION", "11.8")
            .env("STAGE2_SIM_DRIVER_VERSION", driver)
            .env("STAGE2_CUPTI", &copy)
            .env("STAGE2_TEST_SIM", &copy)
    };
    off_because(guest("13000"), &["libcupti.so.11.8", "driver is 13.0", "point STAGE2_CUPTI at"]);
    assert_eq!(guest("11080").run().expect_quiet(0).trace().kernels()["prefill"], 100);
}

/// Hazard (Versions, libraries and rivals): Another tool holds CUPTI.
/// Promise: One line reports it, and the tool keeps what it owns.
#[test]
fn a_cupti_that_is_taken() {
    let guest = Guest::new("return").env("STAGE2_SIM_FAULT", "subscribe=39");
    off_because(guest, &["MULTIPLE_SUBSCRIBERS", "39"]);
}

#[test]
fn a_cupti_that_refuses() {
    each(["register=35", "enable=15"], |fault| {
        off_because(Guest::new("return").env("STAGE2_SIM_FAULT", fault), &["CUPTI refused"]);
    });
}

/// Hazard (Versions, libraries and rivals): A CUPTI that lacks a function.
/// Promise: One line names it.
#[test]
fn a_cupti_that_lacks_a_function() {
    let folder = tempfile::tempdir().expect("folder");
    let copy = folder.path().join("libstage2_sim.so");
    for (symbol, required) in [("cuptiActivityFlushAll", true), ("cuptiGetGraphNodeId", false)] {
        stage2_sim::without_symbol(&simulator(), &copy, symbol).expect("a copy");
        let guest = Guest::new("return").env("STAGE2_CUPTI", &copy).env("STAGE2_TEST_SIM", &copy);
        if required {
            off_because(guest, &[symbol]);
        } else {
            assert_eq!(guest.run().expect_quiet(0).trace().kernels()["prefill"], 100);
        }
    }
}

/// Hazard (Versions, libraries and rivals): A CUPTI without safe buffers per thread (before 12.6
///  update 2).
/// Promise: Callbacks attribute the launches.
#[test]
fn buffers_per_thread_are_used_from_12_6_update_2_on_which_has_the_version_of_12_6() {
    let folder = tempfile::tempdir().expect("folder");
    let first = folder.path().join("libstage2_sim.so");
    stage2_sim::without_symbol(&simulator(), &first, "cuptiRangeProfilerEnable").expect("a copy");
    let cases = [
        ("12.5", simulator(), "callback"),
        ("12.6", first.clone(), "callback"),
        ("12.6", simulator(), "fence"),
        ("12.8", first.clone(), "fence"),
    ];
    each(cases, |(version, cupti, attribution)| {
        let left = Guest::new("return")
            .env("STAGE2_SIM_CUPTI_VERSION", version)
            .env("STAGE2_CUPTI", &cupti)
            .env("STAGE2_TEST_SIM", &cupti)
            .run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!(trace.meta("attribution"), Some(attribution), "{version}");
        assert_eq!(trace.kernels()["prefill"], 100);
    });
}

#[test]
fn the_end_switches_nothing_off_in_a_cupti_that_may_deadlock_then() {
    each(["12.8", "130000"], |version| {
        let left = Guest::new("return")
            .env("STAGE2_SIM_CUPTI_VERSION", version)
            .env("STAGE2_SIM_FAULT", "slow-disable=20000")
            .run();
        assert_eq!(left.expect_quiet(0).trace().kernel_count(), 207);
    });
}

/// Hazard (Versions, libraries and rivals): CUPTI refuses to be switched on.
/// Promise: It is reported once, and every range counts.
#[test]
fn a_cupti_that_refuses_to_be_switched_on_is_told_of_once_and_every_range_counts() {
    let left = Guest::new("steps")
        .env("STAGE2_RANGES", "decode_step")
        .env("STAGE2_SIM_FAULT", "enable=15")
        .run();
    let stderr = left.expect_said(0);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("CUPTI refused to collect"), "{stderr}");
    assert_eq!(left.trace().losses().late_switches, 192);
}

#[test]
fn records_that_cupti_drops_are_counted() {
    for api in ["v1", "v2"] {
        let left = Guest::new("return").api(api).env("STAGE2_SIM_FAULT", "drop=10").run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!(trace.losses(), Losses { cupti_dropped: 20, ..Losses::default() }, "{api}");
        assert_eq!((trace.kernel_count(), trace.meta("cupti.api")), (187, Some(api)));
    }
}

/// Hazard (Wrong data from the GPU): Buffers come late.
/// Promise: They are waited for.
#[test]
fn late_buffers_are_waited_for() {
    let left = Guest::new("return").env("STAGE2_SIM_FAULT", "late-buffers=100").run();
    assert_eq!(left.expect_quiet(0).trace().kernel_count(), 207);
}

/// Hazard (Ends of life): Work still runs when the guest exits.
/// Promise: It counts in full.
#[test]
fn work_that_still_runs_at_exit_is_counted_as_a_whole() {
    for api in ["v1", "v2"] {
        let left = Guest::new("unfinished").api(api).env("STAGE2_SUMMARY", "stderr").run();
        assert_eq!(left.trace().meta("cupti.api"), Some(api));
        assert!(left.stderr().contains("PARTIAL"), "{}", left.stderr());
        // CUPTI hands out the records of what still runs, without times.
        let (trace, losses) = (left.trace(), left.trace().losses());
        assert_eq!((trace.kernel_count(), losses.invalid_timestamps), (1_208, 1_001), "{api}");
    }
}

/// Hazard (Ends of life): CUPTI refuses the last flush.
/// Promise: The result is not called complete.
#[test]
fn a_last_flush_that_cupti_refuses_is_no_complete_result() {
    let left = Guest::new("return")
        .env("STAGE2_SIM_FAULT", "flush=8")
        .env("STAGE2_SUMMARY", "stderr")
        .run();
    let stderr = left.expect_said(0);
    assert!(stderr.contains("did not hand over its last records"), "{stderr}");
    assert!(stderr.contains("PARTIAL"), "{stderr}");
    assert!(left.trace().meta("gpu.incomplete").is_some_and(|reason| reason.contains("(8)")));
}

/// Hazard (Ends of life): CUPTI hangs while the guest calls `exit`.
/// Promise: `exit` waits at most 5 s (with `STAGE2_HWTRACE=on` as long as CUPTI takes, because the exiting thread
///  itself flushes), and one line states what is missing.
#[test]
fn a_cupti_that_hangs_at_the_end_holds_the_guest_up_for_a_bounded_time() {
    let started = Instant::now();
    let left = Guest::new("return").env("STAGE2_SIM_FAULT", "flush-hang=20000").run();
    assert_eq!(left.output.status.code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
    assert!(left.stderr().contains("CUPTI did not finish within"), "{}", left.stderr());
}

/// Hazard (Hostile environments): A machine without a GPU.
/// Promise: It is not reported as a fault of the collector.
#[test]
fn a_machine_without_a_gpu_is_no_trouble_of_ours() {
    let guest = || Guest::new("return").env("STAGE2_SIM_FAULT", "no-device");
    let (alone, left) = (guest().without("LD_PRELOAD").run(), guest().run());
    // The guest itself fails then; we add nothing to what it says, and our file is whole.
    assert_eq!(left.output.status, alone.output.status, "{}", left.stderr());
    let lines = |left: &common::Left| left.stderr().lines().count();
    assert_eq!(lines(&left), lines(&alone), "{}", left.stderr());
    assert_eq!(left.trace().ending, stage2_contract::trace::Ending::Complete);
    assert_eq!(left.trace().kernels(), counts(&[]));
}

/// Hazard (Resources): Little address space (`ulimit -v`).
/// Promise: The guest continues without the collector, and one line states why.
#[test]
fn a_guest_that_may_take_little_memory_goes_on_without_us() {
    let left = Guest::new("little_memory").run();
    let stderr = left.expect_line(0);
    assert_eq!(left.stdout(), "worked on\n");
    assert!(stderr.contains("off: ") && stderr.contains("ulimit -v"), "{stderr}");
}

/// Hazard (Threads, stacks and locks): A thread is cancelled (`pthread_cancel`) inside the collector.
/// Promise: It is cancelled after it has left.
#[test]
fn a_thread_that_is_to_be_cancelled_is_not_cancelled_inside_of_us() {
    let left = Guest::new("cancelled").env("STAGE2_GRAPH", "edge").run();
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    assert_eq!(left.stdout(), "cancelable=true\n");
    assert!(left.stderr().contains("STAGE2_GRAPH"), "{}", left.stderr());
}

/// Hazard (Hostile environments): Settings that cannot be read.
/// Promise: Each is named once with the accepted form.
#[test]
fn values_that_cannot_be_read_are_named_with_the_accepted_form() {
    let cases = [
        ("STAGE2_BUFFERS", "9999999T*2"),
        ("STAGE2_FLUSH_MS", "soon"),
        ("STAGE2_GRAPH", "edge"),
        ("STAGE2_SAMPLE", "1/0"),
        ("STAGE2_LOG", "loud"),
        ("STAGE2_RANGES", ","),
    ];
    each(cases, |(name, value)| {
        let left = Guest::new("return").env(name, value).run();
        let stderr = left.expect_line(0);
        assert!(stderr.contains(name) && stderr.contains(value), "{stderr}");
        assert!(stderr.contains("accepted"), "{stderr}");
        assert_eq!(left.trace().kernel_count(), 207);
    });
}

#[test]
fn another_tool_keeps_what_it_owns() {
    let left = Guest::new("return").env("CUDA_INJECTION64_PATH", "/other/tool.so").run();
    assert!(left.stderr().contains("another tool owns CUDA_INJECTION64_PATH"), "{}", left.stderr());
    assert_eq!(left.trace().kernels(), counts(&[]));

    let left = Guest::new("return").env("NVTX_INJECTION64_PATH", "/other/tool.so").run();
    assert!(left.stderr().contains("another tool owns NVTX_INJECTION64_PATH"), "{}", left.stderr());
    assert_eq!(left.trace().kernels(), counts(&[("(outside)", 207)]));

    let both = Guest::new("return")
        .env("CUDA_INJECTION64_PATH", "/other/tool.so")
        .env("NVTX_INJECTION64_PATH", "/other/tool.so")
        .run();
    assert!(both.stderr().contains("off: another tool owns"), "{}", both.stderr());
    assert_eq!(both.traces.len(), 0);
}

/// Hazard (Versions, libraries and rivals): A profiler that refuses to start with another tool's variables is started
///  with the collector preloaded.
/// Promise: It starts: neither the shell around it nor its own processes keep the collector's name there.
#[test]
fn a_profiler_around_the_guest_is_not_kept_from_its_own() {
    // ncu is a script that starts a program, and refuses to run where the variable names another tool.
    let folder = tempfile::tempdir().expect("a folder");
    let ncu = folder.path().join("ncu");
    std::fs::copy("/usr/bin/env", &ncu).expect("a program of that name");
    let run = |script: &str, program: &str, preset: Option<&str>| {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", script, "sh", program]).env_clear();
        command.env("LD_PRELOAD", collector());
        if let Some(preset) = preset {
            command.env("CUDA_INJECTION64_PATH", preset);
        }
        let out = command.output().expect("it runs");
        let out = String::from_utf8(out.stdout).expect("text");
        out.lines().find_map(|line| line.strip_prefix("CUDA_INJECTION64_PATH=").map(str::to_owned))
    };
    let seen = |program: &str, preset| run("\"$1\"; true", program, preset);
    let (ncu, own) = (ncu.to_str().expect("text"), collector().to_str().expect("text").to_owned());
    assert_eq!(seen(ncu, Some(&own)), None, "ours is taken away");
    let without_us = run("LD_PRELOAD= \"$1\"; true", ncu, None);
    assert_eq!(without_us, None, "the shell exports nothing, for a profiler of static code");
    assert_eq!(seen(ncu, Some("/other/tool.so")).as_deref(), Some("/other/tool.so"));
    // ncu starts the guest through a program of its own.
    let launcher = folder.path().join("TreeLauncherSubreaper");
    std::fs::copy("/usr/bin/env", &launcher).expect("a program of that name");
    assert_eq!(seen(launcher.to_str().expect("text"), Some(&own)), None, "ours is taken away");
    // A program that may be a guest gets it.
    let guest = folder.path().join("guest");
    std::fs::copy("/usr/bin/env", &guest).expect("a program of that name");
    assert_eq!(seen(guest.to_str().expect("text"), None), Some(own));
}

/// Hazard (Versions, libraries and rivals): ncu profiles a guest that preloads the collector.
/// Promise: The collector stays off, even in children of the guest, and one line reports it.
#[test]
fn a_guest_of_ncu_is_left_to_ncu() {
    // What ncu sets for its guests; their children inherit it.
    let left = Guest::new("return").env("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/opt/ncu").run();
    assert!(
        left.stderr().contains("off: Nsight Compute profiles this program"),
        "{}",
        left.stderr()
    );
    assert_eq!(left.traces.len(), 0);
}

#[test]
fn the_other_doors_lead_to_the_same_place() {
    let left = Guest::new("return")
        .without("LD_PRELOAD")
        .env("CUDA_INJECTION64_PATH", collector())
        .env("NVTX_INJECTION64_PATH", collector())
        .run();
    assert_eq!(left.expect_quiet(0).trace().kernel_count(), 207);
}

#[test]
fn a_guest_without_cuda_and_nvtx_pays_nothing() {
    let alone = Guest::new("nothing").without("LD_PRELOAD").run();
    let left = Guest::new("nothing").env("STAGE2_SUMMARY", "stderr").run();
    assert_eq!(left.expect_quiet(0).stdout(), alone.stdout(), "same threads and files");
    assert_eq!(left.traces.len(), 0, "no file");
}

#[test]
fn the_summary_names_the_top_kernels_of_each_range() {
    let left = Guest::new("return").env("STAGE2_SUMMARY", "stderr").run();
    let stderr = left.stderr();
    for part in
        ["SIMULATED GPU", "complete: 207 GPU records attributed", "decode  x2", "p99 us", "(union"]
    {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
}

/// Hazard (Hostile guests): Kernel and range names of every kind.
/// Promise: They break neither terminal nor table.
#[test]
fn hostile_names_break_neither_terminal_nor_table() {
    let left = Guest::new("strings").env("STAGE2_SUMMARY", "stderr").run();
    let stderr = left.stderr();
    assert!(!stderr.contains('\x1b'), "{stderr:?}");
    assert!(stderr.contains("\\x1b[31m"), "{stderr}");
}
