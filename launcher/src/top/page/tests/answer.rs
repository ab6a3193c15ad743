//! What limits a stage, in a line.

use super::*;

/// Hazard (Watching what runs): What limits a stage has to be gathered from the columns and tables of a whole page.
/// Promise: The third line states it for the selected stage, with how much of the time it takes.
#[test]
fn what_limits_the_stage_is_in_the_first_lines() {
    let answer = |parts: [u64; 3], width: usize| {
        let mut view = view();
        for process in &mut view.look.processes {
            let decode = process.window.stages.get_mut("decode").expect("a stage");
            [decode.busy_ns, decode.gaps_ns, decode.other_ns] = parts.map(|of| of * 90_000_000);
        }
        text(&view, width, 24).swap_remove(2)
    };
    let works = "decode: GPU works 70.0% of the time, gemm 76.9% of its kernel time";
    assert_eq!(answer([70, 10, 0], 80), works);
    assert_eq!(
        answer([20, 70, 0], 80),
        "decode: gaps between launches take 70.0% of the time, GPU work 20.0%"
    );
    assert_eq!(answer([20, 10, 60], 80), "decode: GPU works for other stages 60.0% of the time");
    let idle = "decode: GPU idle 70.0%, first cause: Scheduler.schedule (scheduler.py:212)";
    assert_eq!(answer([20, 10, 0], 80), idle);
    let with = |start: &str| idle.replace("70.0%", start);
    assert_eq!(answer([20, 10, 0], 120), with("70.0% of the time"));
    assert!(answer([20, 10, 0], 70).ends_with(" …schedule (scheduler.py:212)"));
}

/// Hazard (Watching what runs): CUPTI dropped a large part of the records, and the page takes what is missing for idle time.
/// Promise: The third line states which part is missing, and no number is shown that depends on it. Records are counted once.
#[test]
fn of_a_gpu_whose_records_are_missing_no_share_is_known() {
    let mut view = view();
    view.look.processes.truncate(1);
    let mut with_lost = |dropped: u64| {
        let kinds = ["dropped_by_cupti", "buffers_refused"];
        view.look.processes[0].losses = kinds.map(|kind| (kind, dropped)).to_vec();
        text(&view, 98, 24)
    };
    let few = with_lost(50_000);
    assert!(few[1].starts_with("lost 50,000  "), "{few:#?}");
    assert!(few[2].starts_with("decode: GPU works 70.0% of the time"), "{few:#?}");
    let shown = with_lost(1_000_000);
    assert!(shown[1].starts_with("lost 1,000,000  "), "{shown:#?}");
    assert_eq!(shown[2], "50% of the GPU records are missing: BUSY and IDLE are not known");
    let cells = |start: &str| {
        let row = shown.iter().rfind(|line| line.starts_with(start)).expect("a row");
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("> decode")[6..9], ["-"; 3], "{shown:#?}");
    assert_eq!(cells("     0      71")[6..], ["-", "-", "1M"], "{shown:#?}");
    assert_eq!(cells("    rank 0")[2], "-", "{shown:#?}");
    let whole = shown.join("\n");
    assert!(whole.contains("-         50% of the GPU records are missing"), "{whole}");
    assert!(!whole.contains("/STEP") && !whole.contains("  GPU, last "), "{whole}");
    // Without the count of what was dropped, or of bytes that were not written, how much is missing is not known.
    for kind in ["buffers_refused", "unwritten_bytes"] {
        view.look.processes[0].losses = vec![(kind, 7)];
        assert!(text(&view, 98, 24)[1].starts_with("lost ?  "));
    }
}
