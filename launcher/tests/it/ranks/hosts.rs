//! Hosts without a common clock: what collectives say about it, and what they leave open.

use super::{ALL_REDUCE, BROADCAST, MS, Rank, US, report, why};

/// Two hosts whose monotonic clocks began 7 s apart, and whose wall clocks differ by 3 ms. In step 4
/// rank 1 is `late`. Transfers take 40 us.
fn captured(late: u64) -> [Rank; 2] {
    captured_with(Some(7), late)
}

/// The two hosts of [`captured`], with calls that name the communicator `hash` or none.
fn captured_with(hash: Option<u64>, late: u64) -> [Rank; 2] {
    [0u64, 1].map(|rank| {
        let shift = 7_000 * MS * rank;
        let mut one = Rank::on(["node-a", "node-b"][rank as usize], 100 + rank as u32, 0);
        one.clocks(shift, 3 * MS * rank).communicator(7, 2, rank);
        for step in 0..8 {
            let start = (step + 1) * 2 * MS + shift;
            let late = if step == 4 { late } else { 0 };
            let own = late * rank;
            one.decode(start);
            one.collective(ALL_REDUCE, Some(64), hash, (start + own, start + late + 40 * US));
            one.done(start + MS);
        }
        one
    })
}

#[test]
fn a_late_rank_on_another_host_is_named_with_the_error_of_the_clocks() {
    let (report, page) = report(&mut captured(500 * US));
    let ranks = &report.ranks;
    // NCCL tells who is which.
    assert_eq!((ranks.seen, ranks.expected, ranks.hosts), (2, Some(2), 2));
    // Every collective says that the clocks are no further apart than its transfer, 40 us.
    assert_eq!(ranks.clock_error_ns, Some(42 * US));
    assert_eq!(ranks.late.len(), 1, "{:?}", ranks.late);
    assert_eq!((ranks.late[0].who.as_str(), ranks.late[0].late_max_ns), ("rank 1", 500 * US));
    assert_eq!(ranks.collectives[0].waiting_ns, Some(500 * US));
    assert!(page("report.md").contains("42.000 us"), "{}", page("report.md"));
}

#[test]
fn lateness_below_the_error_is_not_named() {
    let (report, _) = report(&mut captured(30 * US));
    assert_eq!(report.ranks.late, []);
    // Nor is it waiting: nobody can tell it from clocks that differ.
    let row = &report.ranks.collectives[0];
    assert_eq!((row.waiting_ns, row.transfer_ns), (Some(0), Some(110 * US)));
    // Of the calls that took no longer than the error, nobody can tell even that.
    assert_eq!(why(row), [(14, "the clocks are known only within 50 us, longer than the call")]);
    assert_eq!((row.calls, row.matched_calls), (16, 2));
}

#[test]
fn a_host_that_does_not_communicate_takes_no_clock_from_the_others() {
    let [a, b] = captured(500 * US);
    // An API server that opens ranges only; its host comes first.
    let mut server = Rank::on("head", 1, 0);
    server.clocks(5 * MS, 7 * MS).decode(MS).done(2 * MS);
    let (report, _) = report(&mut [server, a, b]);
    assert_eq!(report.ranks.clock_error_ns, Some(42 * US));
    assert_eq!(report.ranks.late.len(), 1, "{:?}", report.ranks.collectives);
    assert_eq!(report.ranks.collectives[0].waiting_ns, Some(500 * US));
}

#[test]
fn calls_of_a_file_without_clock_readings_are_left_out_and_counted() {
    let mut ranks = captured(500 * US);
    ranks[1] = Rank::on("node-b", 101, 0);
    ranks[1].communicator(7, 2, 1).decode(MS);
    let range = ranks[1].call(ALL_REDUCE, Some(64), Some(7));
    for start in [MS, 2 * MS] {
        ranks[1].kernel(Some(range), (start, start + US), 0);
    }
    ranks[1].done(3 * MS);
    let (report, _) = report(&mut ranks);
    assert_eq!((report.ranks.late.len(), report.ranks.clock_error_ns), (0, None));
    assert_eq!(report.ranks.kernels_left_out, 2, "one call of two kernels");
    let what = "2 communication kernels belong to no collective in this report";
    let finding = report.findings.iter().find(|finding| finding.what == what);
    let finding = finding.expect("it is said");
    assert!(finding.why.contains("no clock reading that ties GPU and host"), "{}", finding.why);
}

#[test]
fn hosts_that_nothing_ties_together_are_not_compared() {
    // In a Broadcast one may end before another starts: it ties no clocks.
    let mut ranks = [0u64, 1].map(|rank| {
        let shift = 7_000 * MS * rank;
        let mut one = Rank::on(["node-a", "node-b"][rank as usize], 100 + rank as u32, 0);
        one.clocks(shift, 0).communicator(7, 2, rank).decode(MS + shift);
        let times = |at: u64| (at * MS + shift, at * MS + shift + 40 * US);
        one.collective(BROADCAST, Some(64), Some(7), times(1));
        one.collective(ALL_REDUCE, Some(64), None, times(2)).done(3 * MS + shift);
        one
    });
    let (report, _) = report(&mut ranks);
    assert_eq!((report.ranks.late.len(), report.ranks.clock_error_ns), (0, None));
    let why: Vec<_> = report.ranks.collectives.iter().flat_map(why).map(|(_, why)| why).collect();
    assert_eq!(why, ["the hosts' clocks could not be aligned"]);
}

#[test]
fn calls_without_a_communicator_tie_no_hosts_together() {
    let (report, _) = report(&mut captured_with(None, 500 * US));
    let ranks = &report.ranks;
    assert_eq!((ranks.late.len(), ranks.clock_error_ns), (0, None));
    let row = &ranks.collectives[0];
    assert_eq!((row.calls, row.matched_calls, row.waiting_ns), (16, 0, None));
    assert_eq!(why(row), [(16, "the hosts' clocks could not be aligned")]);
}
