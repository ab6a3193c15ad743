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
    let works = "decode: kernels run 70.0% of the time, gemm 76.9% of kernel time";
    assert_eq!(answer([70, 10, 0], 80), works);
    assert_eq!(
        answer([20, 70, 0], 80),
        "decode: GPU idle 80.0% of the time, 70.0% in launch gaps, kernels 20.0%"
    );
    assert_eq!(answer([20, 10, 60], 80), "decode: GPU works for other stages 60.0% of the time");
    // The cause is of all stages, where that of the stage is not known.
    let idle = "decode: GPU idle 80.0% of the time, first cause in all stages: \
                Scheduler.schedule (scheduler.py:212)";
    assert_eq!(answer([20, 10, 0], 120), idle);
    let narrow = answer([20, 10, 0], 80);
    assert!(narrow.ends_with(" in all stages: …schedule (scheduler.py:212)"), "{narrow}");
    // Rather than the function, a word of the label goes.
    let narrow = answer([20, 10, 0], 76);
    assert!(narrow.ends_with(", first in all stages: …schedule (scheduler.py:212)"), "{narrow}");
}

/// Hazard (Watching what runs): A line that has no room is cut within a number, which then reads as another one.
/// Promise: Words that say little give way, then whole parts; a line that is cut ends with `…` behind a word.
#[test]
fn no_number_is_cut() {
    let mut view = with_late_rank(2);
    for process in &mut view.look.processes {
        let decode = process.window.stages.get_mut("decode").expect("a stage");
        // Too few to call a rank late.
        (decode.steps, decode.recorded_steps) = (5, 5);
        decode.busy_ns = 5_200_000_000;
        process.window.kernels[0].quick_ns = Some(1);
    }
    let whole = text(&view, 120, 24).swap_remove(2);
    assert_eq!(whole, "decode: GPU idle 42.2%, waits for other ranks 38.9%, kernels 18.9%");
    let answer = |width: usize| text(&view, width, 24).swap_remove(2);
    assert_eq!(answer(60), "decode: GPU idle 42.2%, waits 38.9%, kernels 18.9%");
    assert_eq!(answer(46), "decode: GPU idle 42.2%, waits 38.9%, …");
    for width in 20..whole.len() {
        let line = answer(width);
        assert!(line.ends_with(['%', '…']) && line.chars().count() <= width, "{width}: {line}");
    }
    assert_eq!(ended("the report of 20261130-203811-23952", 34), "the report of …");
    assert_eq!(ended("all of it  ", 9), "all of it");
}

#[test]
fn the_causes_of_a_live_run_are_of_the_selected_stage() {
    let mut view = view();
    for process in &mut view.look.processes {
        let decode = process.window.stages.get_mut("decode").expect("a stage");
        [decode.busy_ns, decode.gaps_ns] = [1_800_000_000, 0];
        let mut host = HostIdle { ns: 9_000_000_000, idle_ns: 7_200_000_000, ..host() };
        host.causes.remove(0);
        process.window.hosts.insert("decode".to_owned(), host);
    }
    let shown = text(&view, 120, 24);
    let first = "decode: GPU idle 80.0%, first cause 17.6%: GIL held by ";
    assert!(shown[2].starts_with(first), "{}", shown[2]);
    let whole = shown.join("\n");
    assert!(whole.contains("WHILE NO WORK RAN (decode, last 10 s)"), "{whole}");
    view.look.processes[1].window.hosts.clear();
    let whole = text(&view, 120, 24).join("\n");
    assert!(whole.contains("first cause in all stages: Scheduler.schedule"), "{whole}");
    assert!(whole.contains("WHILE NO WORK RAN (all stages, last 10 s)"), "{whole}");
}

/// The parts of the verdict, in their order.
#[test]
fn the_bottleneck_of_a_run_that_has_ended_is_that_of_its_report() {
    for run in ["vllm_two_gpus", "vllm_sorting"] {
        let (view, report) = sample(run);
        let answer = text(&view, 120, 24).swap_remove(2);
        let found = &report["answer"]["stages"][0]["bottleneck"];
        let ns = |of: &serde_json::Value| of["ns"].as_f64().expect("a time");
        let mut rest = answer.as_str();
        // The line of a run without waits has the first one only.
        let most = if answer.contains("waits") { 3 } else { 1 };
        let parts = found["parts"].as_array().expect("parts").iter().take(most);
        let parts = parts.map(|part| (part["kind"].as_str(), ns(part) / ns(found) * 100.0));
        for (kind, percent) in parts {
            let what = match kind.expect("a kind") {
                "host" | "launches" => "GPU idle ",
                "ranks" => "waits for rank 0 ",
                _ => "kernels ",
            };
            rest = rest.split_once(what).unwrap_or_else(|| panic!("{what} in {answer}")).1;
            let share = rest.trim_start_matches("run ").split('%').next().expect("a share");
            let share: f64 = share.parse().expect("a number");
            assert!((share - percent).abs() < 1.0, "{answer}, report {percent}");
        }
    }
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
    assert!(few[2].starts_with("decode: kernels run 70.0% of the time"), "{few:#?}");
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
