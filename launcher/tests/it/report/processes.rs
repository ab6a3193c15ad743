//! Two processes on one GPU: one after the other their times add up, side by side they say nothing
//! of how long the GPU was idle. How processes end, and what of forked children is a note.

use crate::common::trace::{Build, RunFolder, report_of, takeaways};
use stage2_contract::trace::{NONE, ending};
use stage2_model::{Report, Severity};

const US: u64 = 1_000;

/// A decode of 200 us from `start_us` on, with 10 kernels of 10 us, 20 us apart.
fn process(pid: u32, start_us: u64) -> Build {
    let mut b = Build::process(pid, "python3");
    b.anchor(1).device(0, "NVIDIA H200", 1);
    b.name(1, b"decode").name(2, b"k").shape(1, 2, 1).path(1, NONE, 1);
    b.open(1, 1, 0, start_us * US);
    for kernel in 0..10 {
        let start = (start_us + 20 * kernel) * US;
        b.kernel(1, 1, 1, (start, start + 10 * US));
    }
    b.close(1, (start_us + 200) * US).end();
    b
}

fn report(starts_us: [u64; 2]) -> (Report, String) {
    let folder = RunFolder::of(&[process(1, starts_us[0]), process(2, starts_us[1])]);
    let report = folder.report();
    let pages = ["report.md", "stakeholder_summary.md", "report.html"];
    (report, pages.map(|name| folder.text(name)).concat())
}

#[test]
fn side_by_side_no_idle_time_is_given() {
    // Kernels of the second process run where the first has none: the GPU is never idle.
    let (report, pages) = report([1_000, 1_010]);
    let gpu = &report.devices[0];
    assert!(gpu.shared_by_processes);
    assert_eq!((gpu.processes, gpu.gpu_busy_ns), (2, Some(200 * US)));
    // From 1,000 to 1,200: the last kernel of the second ends at 1,010 + 180 + 10.
    assert_eq!((gpu.gpu_span_ns, gpu.gpu_busy_percent), (Some(200 * US), None));
    let decode = &report.stages[0];
    assert_eq!((decode.gpu_window_ns, decode.gpu_busy_ns), (Some(400 * US), Some(200 * US)));
    assert_eq!((decode.gpu_idle_ns, decode.gpu_busy_percent), (None, None));
    let said = takeaways(&report);
    assert!(!said.iter().any(|text| text.contains("idle")), "{said:?}");
    assert!(pages.contains("2 processes used 0 NVIDIA H200 at the same time"), "{pages}");
    let busy = "| GPU | GPU busy (ms) |\n| --- | ---: |\n\
                | 0 NVIDIA H200, summed over 2 processes | 0.200 |";
    assert!(pages.contains(busy), "neither idle time nor a share: {pages}");
}

#[test]
fn one_after_the_other_they_add_up() {
    let (report, pages) = report([1_000, 5_000]);
    let gpu = &report.devices[0];
    assert!(!gpu.shared_by_processes);
    // Twice from the first kernel's start to the last one's end, 190 us.
    assert_eq!((gpu.gpu_busy_ns, gpu.gpu_span_ns), (Some(200 * US), Some(380 * US)));
    assert_eq!(report.stages[0].gpu_idle_ns, Some(200 * US));
    assert_eq!(report.stages[0].gpu_busy_percent, Some(50.0));
    assert!(pages.contains("the GPU is idle 50.0 % of the window"), "{pages}");
    assert!(!pages.contains("processes used 0 NVIDIA"), "{pages}");
}

/// Hazard (Ends of life): Files end by a signal or an exec.
/// Promise: The report names it, and does not call them killed.
#[test]
fn ends_by_a_signal_or_an_exec_are_told_by_name() {
    let told = |files: &[(&str, u32, u64, &[&str])]| {
        let folder = RunFolder::new();
        for &(file, pid, start, ends) in files {
            let mut b = Build::process(pid, "python3");
            b.anchor(start).device(0, "NVIDIA H200", 1).name(1, b"decode").name(2, b"k");
            b.shape(1, 2, 1).path(1, NONE, 1).open(1, 1, 0, start);
            b.kernel(1, 1, 1, (start, start + 5)).close(1, start + 9);
            for how in ends {
                match *how {
                    "end" => b.end(),
                    how => b.meta(ending::ANNOUNCED, how),
                };
            }
            b.save(&folder.path(""), file);
        }
        let outcome = folder.reports();
        let page = folder.text("report.md");
        let findings: Vec<String> = outcome.findings.iter().map(|f| f.what.clone()).collect();
        (outcome.coverage["verdict"]["text"].as_str().expect("text").to_owned(), findings, page)
    };
    let (verdict, findings, page) =
        told(&[("h-1.s2t", 1, 9, &["signal 15"]), ("h-2.s2t", 2, 9, &["", "exec"])]);
    assert!(verdict.starts_with("complete: "), "{verdict}");
    let has = |part: &str| findings.iter().any(|what| what.contains(part));
    assert!(has("(ended by SIGTERM): 1 (h-1.s2t)") && has("(exec)): 1 (h-2.s2t)"), "{findings:?}");
    assert!(page.contains("complete; written in full, then ended by SIGTERM"), "{page}");
    // It went on, and nobody knows how it ended.
    let (verdict, _, page) = told(&[("h-1.s2t", 1, 9, &["signal 15", ""])]);
    assert!(verdict.contains("killed, or are still running: 1"), "{verdict}");
    assert!(page.contains("killed or still running"), "{page}");
    // Nothing was announced, and the next file has the same process.
    let (verdict, findings, page) = told(&[
        ("h-1.s2t", 1, 9, &[]),
        ("h-1-2.s2t", 1, 90, &["end"]),
        ("h-2.s2t", 2, 5, &["end"]),
    ]);
    assert!(verdict.contains("before an exec are missing: 1"), "{verdict}");
    let has = |part: &str| findings.iter().any(|what| what.contains(part));
    assert!(has("became another program (exec): 1 (h-1.s2t)"), "{findings:?}");
    assert!(page.contains("became another program (exec)"), "{page}");
}

fn worked(pid: u32) -> Build {
    let mut b = Build::process(pid, "python3");
    b.anchor(1).device(0, "GPU", 1).name(1, b"decode").name(2, b"k").shape(1, 2, 1);
    b.path(1, NONE, 1).open(1, 1, 0, 100).kernel(1, 1, 1, (200, 300)).close(1, 400);
    b
}

#[test]
fn children_without_cuda_and_fields_that_were_left_out_are_notes_beside_gpu_work() {
    let mut parent = worked(1);
    parent.meta("forks.after_cuda", "3").meta("ranges.fields_left_out", "12").end();
    let mut child = worked(2);
    child.meta("fork.unrecorded", "GPU work: its parent had initialised CUDA").end();
    let mut hostile = worked(3);
    hostile.meta("forks.after_cuda", "many").meta("ranges.fields_left_out", "-1").end();
    let report = report_of([&mut parent, &mut child, &mut hostile]);
    let note = |what: &str| {
        let found = report.findings.iter().find(|finding| finding.what.contains(what));
        let finding = found.unwrap_or_else(|| panic!("{what}: {:#?}", report.findings));
        assert_eq!(finding.severity, Severity::Note);
        finding
    };
    note("forked after their parent had initialised CUDA: 3");
    note("fields of NVTX payloads left out: 12");
    assert!(note("this forked child").why.contains("its parent had initialised CUDA"));

    let quiet = report_of([worked(1).end()]);
    assert_eq!(quiet.findings, [], "nothing is said where there is nothing to say");
}
