//! Files, pipes and disks that fail: the guest keeps its own, and we write to no other than ours.

use crate::common::calls;
use std::collections::HashSet;
use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::common::Guest;
use crate::common::calls::{FOR_EVER, Fault, slow};
use stage2_contract::trace::{Ending, GpuWork, Losses, Record, What};

/// Hazard (Resources): The folder cannot be written.
/// Promise: The files are missing, nothing else.
#[test]
fn a_folder_that_cannot_be_written_costs_the_files_only() {
    let left = Guest::new("return")
        .env("STAGE2_OUT", "/proc/nothing/here")
        .env("STAGE2_SUMMARY", "stderr")
        .run();
    let stderr = left.expect_said(0);
    assert!(stderr.contains("no trace file in /proc/nothing/here"), "{stderr}");
    assert!(stderr.contains("prefill  x1"), "{stderr}");
}

/// Hazard (Resources): The disk is full.
/// Promise: The trace file ends readable, the table at exit is shown, and what is missing is
///  counted.
#[test]
fn a_full_disk_ends_the_trace_file_and_neither_the_guest_nor_the_table_at_exit() {
    let started = Instant::now();
    let left = Guest::new("no_room").env("STAGE2_SUMMARY", "stderr").run();
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    assert_eq!(left.stdout(), "worked on\n");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let stderr = left.stderr();
    let told = stderr.matches("the trace file cannot be written (File too large").count();
    assert_eq!(told, 1, "said once: {stderr}");
    // The table has everything.
    for part in ["more  x20", "10207 GPU records attributed"] {
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
    // The file is readable up to its last whole frame.
    let kernels: usize = left.trace().kernels().values().sum();
    assert!((1..10_207).contains(&kernels), "{kernels}");
    assert_ne!(left.trace().ending, stage2_contract::trace::Ending::Complete);
}

/// Hazard (Resources): The disk has room again.
/// Promise: What goes on is defined again.
#[test]
fn after_a_full_disk_what_goes_on_is_defined_again() {
    let left = Guest::new("no_room_for_a_while").run();
    assert_eq!(left.output.status.code(), Some(0), "{}", left.stderr());
    assert_eq!(left.stderr().matches("cannot be written").count(), 1, "{}", left.stderr());
    let trace = left.trace();
    assert_eq!(trace.ending, stage2_contract::trace::Ending::Complete);
    assert!(trace.losses().spool_bytes_unwritten > 0);
    // Every path and name that is used has been defined before.
    let kernels = trace.kernels();
    assert_eq!(kernels["outer/later"], 400, "{kernels:?}");
    assert_eq!(kernels["prefill"], 100, "{kernels:?}");
    let (mut names, mut shapes) = (HashSet::new(), HashSet::new());
    for record in &trace.records {
        match record {
            Record::Name { id, .. } => drop(names.insert(*id)),
            Record::Shape(shape) => {
                assert!(names.contains(&shape.name), "{shape:?}");
                shapes.insert(shape.id);
            }
            Record::Work(GpuWork { what: What::Kernel { shape }, .. }) => {
                assert!(shapes.contains(shape), "{record:?}");
            }
            _ => {}
        }
    }
}

/// Hazard (Resources): A stderr that is not read.
/// Promise: It delays the guest for a bounded time.
#[test]
fn a_stderr_that_nobody_reads_before_the_end_holds_the_guest_up_for_a_bounded_time() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut filler = writer.try_clone().expect("a pipe");
    let filling = std::thread::spawn(move || filler.write_all(&[b'x'; 1 << 20]));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!filling.is_finished(), "the pipe is full");
    let started = Instant::now();
    let left = Guest::new("return")
        .env("STAGE2_SUMMARY", "stderr")
        .env("STAGE2_GRAPH", "edge")
        .stderr(writer)
        .run();
    assert_eq!(left.output.status.code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(left.trace().kernel_count(), 207);
    drop(reader);
    assert!(filling.join().expect("no panic").is_err(), "nobody read it");
}

/// Hazard (Signals): SIGPIPE, because no process reads the collector's messages.
/// Promise: The guest lives.
#[test]
fn a_stderr_whose_reader_is_gone_does_not_kill_the_guest() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let left = Guest::new("sigpipe")
        .env("STAGE2_SUMMARY", "stderr")
        .env("STAGE2_GRAPH", "edge")
        .stderr(writer)
        .run();
    assert_eq!(left.output.status.code(), Some(0), "{:?}", left.output.status);
}

/// Hazard (Resources): The guest closes the descriptor of the trace file, or reuses its number.
/// Promise: Nothing is written into a file of the guest; the trace file is opened again and continues.
#[test]
fn the_trace_file_goes_into_no_file_of_the_guest() {
    // The file is opened again, and goes on as if nothing had been.
    let left = Guest::new("close_all").run();
    let trace = left.expect_quiet(0).trace();
    assert_eq!(left.stdout(), "bytes=0\n");
    assert_eq!(trace.kernel_count(), 207);
    assert_eq!(trace.range_paths().values().filter(|path| *path == "more").count(), 5);
    assert_eq!((trace.ending, trace.losses()), (Ending::Complete, Losses::default()));
    // Another file lies in its place by then.
    let left = Guest::new("close_all").env("STAGE2_TEST_REPLACE", "1").run();
    assert_eq!(left.stdout(), "bytes=0\n", "{}", left.stderr());
    let stderr = left.expect_line(0);
    assert!(stderr.contains("the process closed the trace file's descriptor"), "{stderr}");
}

#[test]
fn the_trace_file_is_nobodys_stderr() {
    let left = Guest::new("no_stderr").run();
    assert_eq!(left.stdout(), "true\n", "{}", left.stderr());
    assert_eq!(left.trace().kernel_count(), 207);
}

/// Hazard (Resources): The guest closes and opens file descriptors by number.
/// Promise: The trace file takes no number of the guest's.
#[test]
fn the_trace_file_takes_no_number_that_the_guest_closes_and_opens() {
    let Some(library) = calls::library() else { return };
    // Until it has moved, the trace file has the first number that is free.
    let slow = Fault { function: "fcntl", error: slow(50), first: 1, last: FOR_EVER };
    let keeps_its_number = |_: &i32| {
        let guest = Guest::new("reopen").env("STAGE2_CONTROL", "off");
        let met = calls::meet(guest, library, slow);
        assert!(met.failed > 0, "the trace file was moved");
        met.left.stdout() == "others=0\n"
    };
    // A start waits for 100 ms at most, which a machine with other work may need at times.
    let kept = (0..5).filter(keeps_its_number).count();
    assert!(kept >= 3, "{kept} of 5");
}

#[test]
fn a_summary_file_that_is_a_pipe_without_a_reader_costs_one_line() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("pipe");
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let left = Guest::new("return").env("STAGE2_SUMMARY", &path).run();
    let stderr = left.expect_line(0);
    assert!(stderr.contains("the summary could not be written"), "{stderr}");
}
