//! Workers of Python's `multiprocessing` and of `os.fork`, which end by `os._exit` or by a signal; the end of
//! an interpreter with daemon threads.

use crate::common;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Guest, counts, each};
use stage2_contract::trace::{Ending, Losses, ending};

/// The interpreter itself, which needs nothing of the environment.
fn python() -> Option<String> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let path = output.ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8_lossy(&path).trim().to_owned())
}

fn workers(python: &str, way: &str) -> Guest {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/workers.py");
    Guest::program(python).argument(script).argument(way).env("STAGE2_FLUSH_MS", "3600000")
}

#[test]
fn a_pool_that_ends_its_workers_by_a_signal_loses_nothing() {
    let Some(python) = python() else {
        return common::skipped("python3 is not installed");
    };
    let left = workers(&python, "pool").run();
    left.expect_quiet(0);
    // A worker that is quick may have done two pieces of the work, or more.
    let kernels = left.traces.iter().flat_map(|trace| trace.kernels().into_values());
    assert_eq!(kernels.sum::<usize>(), 60);
    for trace in &left.traces {
        let ends = trace.meta(ending::ANNOUNCED) == Some("signal 15");
        assert!(ends || trace.ending == Ending::Complete, "{:?}", trace.ending);
    }
}

/// Hazard (Ends of life): CPython 3.10 ends with daemon threads, which crash where an exit handler
///  takes time.
/// Promise: They do not crash, and the trace file is complete.
#[test]
fn daemon_threads_survive_the_end_of_an_interpreter_that_leaves_them_alone() {
    // 3.10 is the one that frees what they use.
    let versions = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/versions"));
    let installed = versions.and_then(|folder| std::fs::read_dir(folder).ok());
    let installed = installed.into_iter().flatten().flatten().map(|entry| entry.path());
    let is_3_10 = |path: &PathBuf| path.to_string_lossy().contains("/3.10.");
    let found = installed.map(|path| path.join("bin/python3")).find(is_3_10);
    let Some(python) =
        found.or_else(|| Some(PathBuf::from("/usr/bin/python3.10"))).filter(|p| p.exists())
    else {
        return common::skipped("no python3.10 in ~/.pyenv/versions or /usr/bin");
    };
    each(0..15, |_| {
        // The end takes as long as threads need to wake up.
        let left = workers(&python.to_string_lossy(), "daemons");
        let left = left.env("STAGE2_SIM_FAULT", "flush-hang=20").run();
        let trace = left.expect_quiet(0).trace();
        assert_eq!(trace.kernels(), counts(&[("(outside)", 10)]));
        assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
    });
}

/// Hazard (Processes and forks): Workers of Python's `multiprocessing` by fork, spawn and
///  forkserver.
/// Promise: Each has a complete trace file.
#[test]
fn workers_of_every_kind_have_whole_trace_files() {
    let Some(python) = python() else {
        return common::skipped("python3 is not installed");
    };
    each([("os.fork", 3), ("fork", 3), ("forkserver", 3), ("spawn", 0)], |(method, forked)| {
        let left = workers(&python, method).run();
        left.expect_quiet(0);
        assert_eq!(left.stdout(), "0\n".repeat(3), "{method}");
        assert_eq!((left.traces.len(), left.children().len()), (3, forked), "{method}");
        for trace in &left.traces {
            assert_eq!(trace.kernels(), counts(&[("(outside)", 10)]), "{method}");
            assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
        }
    });
}
