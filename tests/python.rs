//! Workers of Python's `multiprocessing` and of `os.fork`, which end by `os._exit`.

#[allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
mod common;

use std::path::Path;
use std::process::Command;

use common::{Guest, counts};
use stage2_spool::{Ending, Losses};

/// The interpreter itself, which needs nothing of the environment.
fn python() -> Option<String> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let path = output.ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8_lossy(&path).trim().to_owned())
}

#[test]
fn workers_of_every_kind_have_whole_trace_files() {
    let Some(python) = python() else {
        return common::skipped("python3 is not installed");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/workers.py");
    for (method, forked) in [("os.fork", 3), ("fork", 3), ("forkserver", 3), ("spawn", 0)] {
        let left = Guest::program(&python)
            .argument(&script)
            .argument(method)
            .env("STAGE2_FLUSH_MS", "3600000")
            .run();
        left.expect_quiet(0);
        assert_eq!(left.stdout(), "0\n".repeat(3), "{method}");
        assert_eq!((left.spools.len(), left.children().len()), (3, forked), "{method}");
        for spool in &left.spools {
            assert_eq!(spool.kernels(), counts(&[("(outside)", 10)]), "{method}");
            assert_eq!((spool.ending, spool.losses()), (Ending::Complete, Losses::default()));
        }
    }
}
