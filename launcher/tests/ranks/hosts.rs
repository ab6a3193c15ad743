//! Hosts without a common clock: what collectives say about it, and what they leave open.

use crate::job::{ALL_REDUCE, MS, Rank, US, report};

/// Two hosts whose monotonic clocks began 7 s apart, and whose wall clocks differ by 3 ms. In step 4
/// rank 1 is `late`. Transfers take 40 us.
fn captured(late: u64) -> [Rank; 2] {
    captured_with(Some(7), late)
}

/// The same, with calls that say this communicator or none.
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
}

#[test]
fn hosts_that_nothing_ties_together_are_not_compared() {
    let mut ranks = captured(500 * US);
    ranks[1] = Rank::on("node-b", 101, 0);
    ranks[1].communicator(7, 2, 1).decode(MS);
    // Without a clock reading of the GPU.
    ranks[1].collective(ALL_REDUCE, Some(64), Some(7), (MS, 2 * MS)).done(3 * MS);
    let (report, _) = report(&mut ranks);
    assert_eq!((report.ranks.late.len(), report.ranks.clock_error_ns), (0, None));
    assert_eq!(report.ranks.kernels_left_out, 1);
}

#[test]
fn calls_without_a_communicator_tie_no_hosts_together() {
    let (report, _) = report(&mut captured_with(None, 500 * US));
    let ranks = &report.ranks;
    assert_eq!((ranks.late.len(), ranks.clock_error_ns), (0, None));
    let row = &ranks.collectives[0];
    assert_eq!((row.calls, row.matched_calls, row.waiting_ns), (16, 0, None));
    let why: Vec<&str> = row.unmatched.iter().map(|unmatched| unmatched.why.as_str()).collect();
    assert_eq!(why, ["the clocks of its hosts could not be tied together"]);
}
