//! Windows of a process that goes on launching, on every CUPTI that is told apart: whether its collection can
//! be switched off, and whether its buffers tell the thread.

use crate::common::calls;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::common::calls::{FOR_EVER, Fault, slow};
use crate::common::dormant::*;
use crate::common::{Running, TraceFile, check_each, collector};
use stage2_contract::trace::{Ending, Losses, Record};

const WINDOWS: u64 = 8;
/// Kernels in each turn of a member of the guest's crew.
const TURN: usize = 10;

/// CUPTI's version, busy threads, and how long the opening of a file takes, ms.
const CASES: [(&str, usize, i32); 14] = [
    ("12.8", 1, 0),
    ("12.8", 4, 5),
    ("12.8", 8, 100),
    ("12.4", 1, 1),
    ("12.4", 3, 5),
    ("12.4", 8, 100),
    ("11.8", 2, 20),
    ("11.8", 5, 0),
    // 13.0 before its update 1.
    ("130000", 3, 0),
    ("130000", 6, 50),
    ("13.0", 3, 20),
    ("13.0", 7, 0),
    ("13.1", 4, 5),
    ("13.5", 2, 100),
];

/// Hazard (Dormant processes and windows): CUPTI cannot be switched off, threads go on launching
///  between the windows, and the opening of a file takes long.
/// Promise: Each window contains everything that each thread did in it, and loses nothing.
#[test]
fn each_window_holds_whole_all_that_every_busy_thread_did_in_it() {
    let Some(library) = calls::library() else { return };
    check_each(4, CASES.to_vec(), |(version, threads, ms)| {
        let fault = Fault { function: "open64", error: slow(ms), first: 1, last: FOR_EVER };
        let preloads = format!("{} {}", library.display(), collector().display());
        let mut guest = dormant()
            .env("STAGE2_SIM_CUPTI_VERSION", version)
            .env("LD_PRELOAD", preloads)
            .env("STAGE2_TEST_CALL", fault.to_string())
            .spawn();
        let wrong = windows_of(&mut guest, threads).join("\n");
        (!wrong.is_empty()).then(|| format!("CUPTI {version}, {threads} threads, {ms} ms: {wrong}"))
    });
}

/// What is wrong with the windows of a guest with so many busy threads.
fn windows_of(guest: &mut Running, threads: usize) -> Vec<String> {
    guest.does(["cuda", &format!("crew {threads}")]);
    let mut wrong = Vec::new();
    for number in 1..=WINDOWS {
        start(guest, "");
        guest.tell("turns 3");
        stop(guest);
        let trace = window(guest, number);
        wrong.extend(
            complaints(&trace, threads).into_iter().map(|said| format!("w{number}: {said}")),
        );
    }
    if !guest.stderr().is_empty() {
        wrong.push(guest.stderr());
    }
    wrong
}

/// What is missing in a window, or of unknown place.
fn complaints(trace: &TraceFile, threads: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    // A turn may be open at the end of the window.
    let losses = Losses { unclosed: 0, ..trace.losses() };
    if (trace.ending, losses) != (Ending::Complete, Losses::default()) {
        wrong.push(format!("{:?}, {losses:?}", trace.ending));
    }
    let paths = trace.range_paths();
    let (mut closed, mut kernels) = (BTreeSet::new(), HashMap::new());
    for record in &trace.records {
        match record {
            Record::RangeClose { range, .. } => drop(closed.insert(*range)),
            Record::Work(work) => *kernels.entry(work.range).or_insert(0) += 1,
            _ => {}
        }
    }
    let mut turns: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for range in &closed {
        let of_turn = kernels.get(range).copied().unwrap_or(0);
        turns.entry(paths[range].as_str()).or_default().push(of_turn);
    }
    for member in (0..threads).map(|number| format!("member {number}")) {
        let turns = turns.remove(member.as_str()).unwrap_or_default();
        // The first of the three may have been open at the start.
        if turns.len() < 2 || turns.iter().any(|kernels| *kernels != TURN) {
            wrong.push(format!("{member}: {turns:?}"));
        }
    }
    if !turns.is_empty() {
        wrong.push(format!("{turns:?}"));
    }
    wrong
}
