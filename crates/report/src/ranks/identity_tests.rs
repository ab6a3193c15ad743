//! Facts of processes, and the ranks that they are given.

use super::*;
use stage2_read::trace::collectives::{Call, Communicator};

fn process(file: &str, facts: &[(&str, &str)], kernels: u64) -> Process {
    let mut capture = stage2_read::trace::Tally::default().finish();
    capture.file = file.to_owned();
    capture.counts.kernels = kernels;
    let facts = facts.iter().map(|&(name, value)| (format!("env.{name}"), value.to_owned()));
    capture.meta.extend(facts);
    Process::of(&capture)
}

fn ranks(processes: &[Process]) -> Vec<(Option<u64>, Option<u64>, bool)> {
    processes.iter().map(|p| (p.row.rank, p.row.local_rank, p.row.inherited_rank)).collect()
}

#[test]
fn every_launcher_is_understood_and_torchrun_wins_over_slurm() {
    let slurm = [("SLURM_PROCID", "5"), ("SLURM_LOCALID", "1"), ("SLURM_NTASKS", "8")];
    let torchrun = [("RANK", "6"), ("LOCAL_RANK", "2"), ("WORLD_SIZE", "8")];
    let mut all = [
        process("a", &[slurm, torchrun].concat(), 1),
        process("b", &slurm, 1),
        process(
            "c",
            &[
                ("OMPI_COMM_WORLD_RANK", "7"),
                ("OMPI_COMM_WORLD_LOCAL_RANK", "3"),
                ("OMPI_COMM_WORLD_SIZE", "8"),
                ("PMIX_RANK", "7"),
            ],
            1,
        ),
        process("d", &[("PMI_RANK", "0"), ("PMI_SIZE", "8"), ("MPI_LOCALRANKID", "0")], 1),
    ];
    let job = settle(&mut all);
    let some = |rank, local| (Some(rank), Some(local), false);
    assert_eq!(ranks(&all), [some(6, 2), some(5, 1), some(7, 3), some(0, 0)]);
    assert_eq!((job.seen, job.expected), (4, Some(8)));
    assert_eq!(job.findings.len(), 1);
    assert_eq!(job.findings[0].what, "ranks seen: 4 of 8");
}

#[test]
fn workers_that_inherit_the_variables_are_not_the_rank() {
    let facts = [("RANK", "0"), ("WORLD_SIZE", "1")];
    let mut all =
        [process("worker", &facts, 0), process("trainer", &facts, 90), process("w", &facts, 2)];
    let job = settle(&mut all);
    assert_eq!(all.each_ref().map(|p| p.row.inherited_rank), [true, false, true]);
    assert_eq!((job.seen, job.expected, job.findings.len()), (1, Some(1), 0));
}

#[test]
fn two_that_communicate_as_one_rank_are_said() {
    let facts = [("RANK", "0"), ("WORLD_SIZE", "2")];
    let mut all = [process("a", &facts, 1), process("b", &facts, 1)];
    all.iter_mut().for_each(|process| process.communicates = true);
    let job = settle(&mut all);
    assert_eq!(all.each_ref().map(|p| p.row.inherited_rank), [false, false]);
    assert_eq!(job.findings[0].what, "2 processes claim rank 0");
}

/// A worker that communicates: (hash, rank, members, GPUs of it) of each communicator.
fn worker(file: &str, facts: &[(&str, &str)], of: &[(u64, u64, u64, u32)]) -> Process {
    let mut capture = stage2_read::trace::Tally::default().finish();
    capture.file = file.to_owned();
    let facts = facts.iter().map(|&(name, value)| (format!("env.{name}"), value.to_owned()));
    capture.meta.extend(facts);
    capture.collectives.calls.push(Call::default());
    let communicator = |&(hash, rank, members, local)| {
        let (members, rank) = (Some(members), Some(rank));
        Communicator { hash, members, rank, local }
    };
    capture.collectives.communicators.extend(of.iter().map(communicator));
    Process::of(&capture)
}

#[test]
fn spawned_workers_have_the_ranks_of_their_communicator_and_not_the_task_s() {
    // `srun -n1`, and a batch script without srun: all have the variables of the one task.
    for tasks in ["1", "4"] {
        let facts = [("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0"), ("SLURM_NTASKS", tasks)];
        let mut all = [
            process("server", &facts, 0),
            worker("a", &facts, &[(7, 0, 2, 1), (9, 0, 1, 1)]),
            worker("b", &facts, &[(7, 1, 2, 1)]),
        ];
        let job = settle(&mut all);
        let told = [(None, None, false), (Some(0), None, false), (Some(1), None, false)];
        assert_eq!(ranks(&all), told, "{tasks} tasks");
        assert_eq!((job.seen, job.expected), (2, Some(2)), "{tasks} tasks");
        assert_eq!(job.findings, [], "{tasks} tasks");
    }
    // A launcher that numbers its tasks, of which one spawns two.
    let of_task = |rank| [("RANK", rank), ("WORLD_SIZE", "1")];
    let mut all = [
        process("server", &of_task("0"), 0),
        worker("a", &of_task("0"), &[(7, 0, 2, 1)]),
        worker("b", &of_task("0"), &[(7, 1, 2, 1)]),
    ];
    let job = settle(&mut all);
    let told = [(Some(0), None, true), (Some(0), None, false), (Some(1), None, false)];
    assert_eq!(ranks(&all), told);
    assert_eq!(all[1].row.rank_source.as_deref(), Some(NCCL));
    assert_eq!((job.seen, job.expected, job.findings.len()), (2, Some(2), 0));
}

#[test]
fn ranks_of_different_communicators_are_no_double_claims() {
    let mut all = [
        worker("a", &[], &[(7, 0, 2, 1)]),
        worker("b", &[], &[(7, 1, 2, 1)]),
        worker("c", &[], &[(8, 0, 2, 1)]),
        worker("d", &[], &[(8, 1, 2, 1)]),
    ];
    let job = settle(&mut all);
    assert_eq!((job.seen, job.expected), (4, Some(4)));
    let what: Vec<&str> = job.findings.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(what, ["the ranks come from 2 separate communicators"]);
    // One member of the second was not recorded, which is the larger one.
    let mut all = [
        worker("a", &[], &[(7, 0, 2, 1)]),
        worker("b", &[], &[(7, 1, 2, 1)]),
        worker("c", &[], &[(8, 0, 4, 1)]),
    ];
    let job = settle(&mut all);
    assert_eq!((job.seen, job.expected), (3, Some(6)));
    // But of one communicator they are.
    let mut all = [worker("a", &[], &[(7, 0, 1, 1)]), worker("b", &[], &[(7, 0, 1, 1)])];
    assert_eq!(settle(&mut all).findings[0].what, "2 processes claim rank 0");
}

#[test]
fn a_process_that_is_all_members_of_a_communicator_is_no_rank() {
    let mut all = [worker("a", &[], &[(7, 0, 8, 8)])];
    let job = settle(&mut all);
    assert_eq!((all[0].row.rank, job.seen, job.expected, job.findings.len()), (None, 0, None, 0));
}

#[test]
fn impossible_ranks_are_none_and_said() {
    let mut all = [
        process("a", &[("RANK", "4000000000"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "9")], 1),
        process("b", &[("RANK", "2"), ("WORLD_SIZE", "2")], 1),
        process("c", &[("RANK", "1"), ("WORLD_SIZE", "2")], 1),
        process("d", &[("RANK", "x"), ("WORLD_SIZE", "0")], 1),
    ];
    let job = settle(&mut all);
    assert_eq!(all.each_ref().map(|p| p.row.rank), [None, None, Some(1), None]);
    assert_eq!(all.each_ref().map(|p| p.row.local_rank), [None; 4]);
    let source = all.each_ref().map(|p| p.row.rank_source.as_deref());
    assert_eq!(source, [None, None, Some("RANK"), None], "nobody told a rank that is none");
    let what: Vec<&str> = job.findings.iter().map(|f| f.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "a says that it is rank 4,000,000,000 of 2",
            "b says that it is rank 2 of 2",
            "ranks seen: 1 of 2"
        ]
    );
}

#[test]
fn two_jobs_whose_numbers_nccl_confirms_are_said() {
    let facts = |rank| [("RANK", rank), ("WORLD_SIZE", "2")];
    let mut all = [
        worker("a", &facts("0"), &[(7, 0, 2, 1)]),
        worker("b", &facts("1"), &[(7, 1, 2, 1)]),
        worker("c", &facts("0"), &[(8, 0, 2, 1)]),
        worker("d", &facts("1"), &[(8, 1, 2, 1)]),
    ];
    let job = settle(&mut all);
    assert_eq!(all.each_ref().map(|p| p.row.rank_source.as_deref()), [Some("RANK"); 4]);
    let what: Vec<&str> = job.findings.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(what, ["2 processes claim rank 0", "2 processes claim rank 1"]);
}

#[test]
fn a_task_of_srun_is_a_rank_though_it_is_seen_alone() {
    let tasks = [("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0"), ("SLURM_NTASKS", "8")];
    let facts = [&tasks[..], &[("SLURM_STEP_NUM_TASKS", "4")]].concat();
    let mut all = [process("trainer", &facts, 9), process("data loader", &facts, 0)];
    let job = settle(&mut all);
    assert_eq!(ranks(&all), [(Some(0), Some(0), false), (Some(0), Some(0), true)]);
    assert_eq!((job.seen, job.expected), (1, Some(4)), "the step has 4 of the 8 tasks");
    assert_eq!(job.findings[0].what, "ranks seen: 1 of 4");
    // `srun -n1` of an engine: its workers have their own numbers all the same.
    let facts = [&tasks[..], &[("SLURM_STEP_NUM_TASKS", "1")]].concat();
    let mut all = [
        process("server", &facts, 0),
        worker("a", &facts, &[(7, 0, 2, 1)]),
        worker("b", &facts, &[(7, 1, 2, 1)]),
    ];
    let job = settle(&mut all);
    assert_eq!(
        all.each_ref().map(|p| p.row.rank_source.as_deref()),
        [Some(SLURM), Some(NCCL), Some(NCCL)]
    );
    assert_eq!((job.seen, job.expected, job.findings.len()), (2, Some(2), 0));
}

#[test]
fn a_batch_script_of_slurm_is_no_job_of_ranks() {
    let mut all = [process("a", &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], 1)];
    let job = settle(&mut all);
    assert_eq!((all[0].row.rank, job.seen, job.findings.len()), (None, 0, 0));
}
