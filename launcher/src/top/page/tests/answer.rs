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
