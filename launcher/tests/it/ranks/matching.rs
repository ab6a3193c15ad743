//! Which calls are one collective, and where nothing is matched, why; values that no job has, and processes
//! that are no ranks.

use super::{
    ALL_GATHER, ALL_REDUCE, BROADCAST, GROUP_END, GROUP_START, MS, RECV, Rank, SEND, US, report,
    why,
};
use stage2_contract::trace::Record;
use stage2_model::Operation;

fn pair() -> [Rank; 2] {
    [Rank::new(0, 2), Rank::new(1, 2)]
}

#[test]
fn communicators_of_four_ranks_are_kept_apart() {
    // Two pairs; the second pair works 500 us later, so that a match across pairs would overlap
    // nothing.
    let mut ranks: Vec<Rank> = (0..4).map(|rank| Rank::new(rank, 4)).collect();
    for (rank, one) in (0u64..).zip(&mut ranks) {
        let (hash, shift) = if rank < 2 { (7, 0) } else { (8, 500 * US) };
        one.communicator(hash, 2, rank % 2);
        for step in 0..3 {
            let start = (step + 1) * MS + shift;
            let late = if rank == 3 { 30 * US } else { 0 };
            one.decode(start);
            one.collective(ALL_REDUCE, Some(64), Some(hash), (start + late, start + 50 * US));
            one.done(start + 60 * US);
        }
    }
    let (report, _) = report(&mut ranks);
    let rows = &report.ranks.collectives;
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((row.members, row.calls, row.matched_calls), (2, 6, 6), "{row:?}");
        let waited = if row.communicator.as_deref() == Some("0000000000000008") { 90 } else { 0 };
        assert_eq!(row.waiting_ns, Some(waited * US));
    }
    let late: Vec<&str> = report.ranks.late.iter().map(|row| row.who.as_str()).collect();
    assert_eq!(late, ["rank 3"]);
}

#[test]
fn without_a_hash_several_communicators_are_not_guessed_apart() {
    let mut ranks = pair();
    for one in &mut ranks {
        one.communicator(7, 2, 0).communicator(8, 2, 0);
        one.decode(MS).collective(ALL_REDUCE, Some(64), None, (MS, 2 * MS)).done(2 * MS);
    }
    let (report, page) = report(&mut ranks);
    let row = &report.ranks.collectives[0];
    assert_eq!((row.matched_calls, row.waiting_ns), (0, None));
    let several = "the job has several communicators, and these calls name none (NCCL 2.26 and \
                   later names its own; kernels of other libraries never do)";
    assert_eq!(why(row), [(2, several)]);
    assert!(page("report.md").contains("several communicators"));
}

#[test]
fn counts_that_differ_match_nothing_but_the_instances_where_they_agree() {
    let mut ranks = pair();
    for (rank, one) in (0..).zip(&mut ranks) {
        one.communicator(7, 2, rank);
        for step in 0..4 {
            let start = (step + 1) * MS;
            one.decode(start);
            // In the third step rank 0 makes one call more.
            for call in 0..1 + u64::from(rank == 0 && step == 2) {
                let at = start + 100 * US * call;
                one.collective(ALL_REDUCE, Some(64), Some(7), (at, at + 10 * US));
            }
            one.done(start + 500 * US);
        }
    }
    let (report, _) = report(&mut ranks);
    let row = &report.ranks.collectives[0];
    assert_eq!((row.calls, row.matched_calls), (9, 6));
    let reasons = why(row);
    assert_eq!((reasons.len(), reasons[0].0), (1, 3));
    let why = "members made different numbers of calls, so calls cannot be paired by position";
    assert_eq!(reasons[0].1, why);
}

#[test]
fn a_member_that_was_not_recorded_is_said() {
    let mut one = Rank::new(0, 2);
    one.communicator(7, 2, 0);
    one.decode(MS).collective(ALL_REDUCE, Some(64), Some(7), (MS, 2 * MS)).done(2 * MS);
    let (report, page) = report(&mut [one]);
    let row = &report.ranks.collectives[0];
    assert_eq!((row.bytes_total, row.matched_calls, row.transfer_ns), (Some(64), 0, None));
    assert_eq!(why(row), [(1, "only 1 of 2 members of the communicator were recorded")]);
    assert!(report.findings.iter().any(|finding| finding.what == "ranks seen: 1 of 2"));
    assert!(page("report.md").contains("1 of 2"));
}

#[test]
fn other_operations_are_matched_and_not_split() {
    let mut ranks = pair();
    for (rank, one) in (0..).zip(&mut ranks) {
        one.communicator(7, 2, rank);
        one.decode(MS);
        one.collective(BROADCAST, Some(64), Some(7), (MS + rank * US, MS + 9 * US));
        one.collective(ALL_GATHER, Some(64), Some(7), (2 * MS + 4 * rank * US, 2 * MS + 9 * US));
        one.done(3 * MS);
    }
    let (report, _) = report(&mut ranks);
    let row = |operation| {
        let mut rows = report.ranks.collectives.iter();
        rows.find(|row| row.operation == operation).expect("a row")
    };
    let (broadcast, gather) = (row(Operation::Broadcast), row(Operation::AllGather));
    assert_eq!((broadcast.matched_calls, broadcast.waiting_ns), (2, None));
    assert_eq!((broadcast.transfer_ns, broadcast.bus_gb_per_s), (None, None));
    assert_eq!((gather.waiting_ns, gather.transfer_ns), (Some(4 * US), Some(10 * US)));
    // Each sends its 64 bytes to one other, in 5 us.
    assert_eq!(gather.bus_gb_per_s, Some(64.0 / 5_000.0));
}

#[test]
fn kernels_at_the_end_of_a_group_and_of_replays_carry_their_bytes() {
    let mut ranks = pair();
    for (rank, one) in (0..).zip(&mut ranks) {
        one.communicator(7, 2, rank);
        one.decode(MS);
        one.call(GROUP_START, None, None);
        one.call(ALL_REDUCE, Some(100), Some(7));
        one.call(ALL_REDUCE, Some(28), Some(7));
        let end = one.call(GROUP_END, None, None);
        one.kernel(Some(end), (MS + rank * 4 * US, MS + 9 * US), 0);
        let captured = one.call(ALL_REDUCE, Some(512), Some(7));
        one.b.add(Record::GraphNode { node: 900, path: ALL_REDUCE, range: captured });
        one.kernel(None, (2 * MS + rank * 4 * US, 2 * MS + 9 * US), 900);
        // Captured before the start.
        one.kernel(None, (2 * MS + 20 * US, 2 * MS + 29 * US), 901);
        one.done(3 * MS);
    }
    let (report, page) = report(&mut ranks);
    let rows = &report.ranks.collectives;
    let known = rows.iter().find(|row| row.communicator.is_some()).expect("with a hash");
    assert_eq!((known.calls, known.matched_calls, known.replayed_calls), (4, 4, 2));
    assert_eq!((known.bytes_min, known.bytes_max), (Some(128), Some(512)));
    assert_eq!((known.waiting_ns, known.transfer_ns), (Some(8 * US), Some(4 * 5 * US)));
    let unknown = rows.iter().find(|row| row.communicator.is_none()).expect("without");
    assert_eq!((unknown.calls, unknown.calls_without_bytes), (2, 2));
    assert_eq!((unknown.bytes_total, unknown.replayed_calls), (None, 2));
    let told = "Calls of graph replays take operation, bytes and communicator from the range open at \
                their capture";
    assert!(page("report.md").contains(told), "{}", page("report.md"));
}

#[test]
fn calls_that_cannot_be_one_are_not_matched() {
    // Rank 0 ends before rank 1 starts: whatever they were, not one AllReduce.
    let mut ranks = pair();
    for (rank, one) in (0..).zip(&mut ranks) {
        let start = MS + rank * 100 * US;
        one.decode(MS)
            .collective(ALL_REDUCE, Some(64), None, (start, start + 50 * US))
            .done(3 * MS);
    }
    let (report, _) = report(&mut ranks);
    let row = &report.ranks.collectives[0];
    assert_eq!((row.matched_calls, row.waiting_ns, report.ranks.late.len()), (0, None, 0));
    let no_group = "more than 1 % of these calls do not overlap across ranks, so they belong to \
                    several groups; the capture does not say which";
    assert_eq!(why(row), [(2, no_group)]);
}

#[test]
fn one_contradiction_in_two_hundred_calls_is_refused_alone() {
    let mut ranks = pair();
    for (rank, one) in (0..).zip(&mut ranks) {
        for step in 0..200 {
            let own = if step == 77 { rank * 100 * US } else { 0 };
            let start = MS + step * 200 * US;
            let times = (start + own, start + own + 50 * US);
            one.decode(start).collective(ALL_REDUCE, Some(64), None, times).done(start + 160 * US);
        }
    }
    let (report, _) = report(&mut ranks);
    let row = &report.ranks.collectives[0];
    assert_eq!((row.calls, row.matched_calls, row.transfer_ns), (400, 398, Some(398 * 50 * US)));
    let no_overlap = "the members' kernels do not overlap in time: these calls are not one \
                      collective, or the clocks are wrong";
    assert_eq!(why(row), [(2, no_overlap)]);
}

#[test]
fn sends_and_receives_are_not_said_to_miss_a_member() {
    let mut ranks = pair();
    for (rank, one) in (0..).zip(&mut ranks) {
        one.communicator(7, 2, rank).decode(MS);
        let (first, second) = if rank == 0 { (SEND, RECV) } else { (RECV, SEND) };
        one.collective(first, Some(64), Some(7), (MS, MS + 9 * US));
        one.collective(second, Some(64), None, (2 * MS, 2 * MS + 9 * US)).done(3 * MS);
    }
    let (report, _) = report(&mut ranks);
    let rows = &report.ranks.collectives;
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(why(row), [(1, "point-to-point calls are not paired across ranks")], "{row:?}");
    }
}

#[test]
fn impossible_ranks_are_shown_as_processes_and_said() {
    let mut ranks = [Rank::new(4_000_000_000, 2), Rank::new(1, 2), Rank::new(1, 2)];
    ranks[2] = Rank::on("node-1", 999, 3);
    ranks[2].clocks(0, 0).b.meta("env.RANK", "1").meta("env.WORLD_SIZE", "1");
    for one in &mut ranks {
        one.communicator(7, u64::MAX, u64::MAX);
        let times = (MS, MS + 10 * US);
        one.decode(MS).collective(ALL_REDUCE, Some(u64::MAX), Some(7), times);
        one.collective(ALL_REDUCE, Some(u64::MAX), Some(7), (2, u64::MAX / 2)).done(2 * MS);
    }
    let (report, page) = report(&mut ranks);
    let told: Vec<Option<u64>> = report.processes.iter().map(|row| row.rank).collect();
    assert_eq!(told, [Some(1), None, None]);
    assert_eq!((report.ranks.seen, report.ranks.expected), (1, Some(2)));
    let what: Vec<&str> = report.findings.iter().map(|f| f.what.as_str()).collect();
    assert!(what.iter().any(|what| what.contains("rank 4,000,000,000 of 2")), "{what:?}");
    assert!(what.contains(&"ranks seen: 1 of 2"), "{what:?}");
    assert!(!page("report.md").is_empty());
}

#[test]
fn a_process_alone_has_no_table_of_ranks() {
    let mut one = Rank::on("node-1", 7, 0);
    one.clocks(0, 0).decode(MS).gemm((MS, MS + US)).done(2 * MS);
    let (report, page) = report(&mut [one]);
    assert_eq!((report.ranks.stages.len(), report.ranks.collectives.len()), (0, 0));
    assert_eq!(report.processes.len(), 1);
    let text = page("report.md");
    for absent in ["Ranks", "## Processes", "Collectives", "CUDA_VISIBLE"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
}
