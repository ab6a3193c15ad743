//! Exports of processes without ranges: the steps that repeat in them.

use super::{call, export};
use stage2_read::nsys::capture::{Limits, STEPS_IN_PROCESSES, read_within};
use stage2_read::trace::Capture;
use stage2_read::trace::libraries::RangeNames;
use stage2_read::trace::steps::Repeats;

const KERNELS_OF_A_STEP: i64 = 6;
const NODES: i64 = 4;

/// Steps of a process: kernels that are launched one by one, then a graph. Each has a name of its own.
fn steps(process: i64, count: i64) -> String {
    let mut sql = String::new();
    for step in 0..count {
        let begin = step * 1_000;
        for at in 0..KERNELS_OF_A_STEP + NODES {
            let node = at - KERNELS_OF_A_STEP;
            let (correlation, node) = match node {
                ..0 => (step * 100 + at, "NULL".to_owned()),
                _ => (step * 100 + KERNELS_OF_A_STEP, node.to_string()),
            };
            if node == "NULL" || node == "0" {
                sql += &call((process << 24) + 1, correlation, begin + at);
            }
            sql += &format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, 0, {correlation}, {}, {}, \
                 {node}, 1, 1, 1, 64, 1, 1);",
                begin + 20 * at,
                begin + 20 * at + 15,
                process << 24,
                100 + at,
            );
        }
    }
    sql
}

fn names() -> String {
    let name = |at| format!("INSERT INTO StringIds VALUES ({}, '_Z1{at}v');", 100 + at);
    (0..KERNELS_OF_A_STEP + NODES).map(name).collect()
}

fn read(sql: &str) -> Capture {
    let dir = tempfile::tempdir().expect("folder");
    let path = export(dir.path(), &(names() + sql));
    let libraries = RangeNames::default();
    read_within(&path, &libraries, Limits::default()).expect("export").capture
}

/// Launches of a step, and steps, of each kind that repeats.
fn found(repeats: &[Repeats]) -> Vec<(u64, u64)> {
    let phases = repeats.iter().flat_map(|repeats| &repeats.phases);
    phases.map(|phase| (phase.launches_per_step, phase.steps)).collect()
}

/// Hazard (Hostile files): An nsys export in which graphs and single kernels take turns.
/// Promise: Steps keep the order of the launches.
#[test]
fn kernels_of_graphs_stay_between_those_that_are_launched_one_by_one() {
    let capture = read(&steps(1, 40));
    let whole = capture.processes[0].whole.as_ref().expect("no range");
    assert_eq!(found(&whole.repeats), [((KERNELS_OF_A_STEP + NODES) as u64, 40)]);
    assert_eq!(capture.findings, []);
}

/// Hazard (Hostile files): An nsys export of many processes without ranges.
/// Promise: Steps are inferred only in the first ones, and a finding states in how many they were not.
#[test]
fn of_many_processes_the_first_ones_have_steps_and_a_finding_says_so() {
    let more = 3;
    let all = STEPS_IN_PROCESSES as i64 + more;
    let capture = read(&(1..=all).map(|process| steps(process, 10)).collect::<String>());
    let with_steps = capture.processes.iter().filter(|process| {
        let whole = process.whole.as_ref().expect("no range");
        assert_eq!(whole.repeats.is_empty(), whole.steps_left_out);
        !whole.steps_left_out
    });
    assert_eq!(with_steps.count(), STEPS_IN_PROCESSES);
    let said: Vec<String> = capture.findings.iter().map(ToString::to_string).collect();
    let expected = format!("the search for steps skipped {more} processes");
    assert!(matches!(said.as_slice(), [one] if one.contains(&expected)), "{said:?}");
}
