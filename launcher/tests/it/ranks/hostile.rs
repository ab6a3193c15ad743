//! Values that no job has, and processes that are no ranks.

use crate::ranks::job::{ALL_REDUCE, MS, Rank, US, report};

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
