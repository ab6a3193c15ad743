//! Facts of processes -> their ranks: who is which, who only inherited the variables of another,
//! and what of it cannot be true.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, Severity};
use crate::load::ProcessCapture;
use crate::report::numbers::count;

/// Variables of a job launcher: rank, local rank, number of ranks.
struct Family {
    source: &'static str,
    rank: &'static str,
    local_rank: Option<&'static str>,
    world_size: Option<&'static str>,
}

/// In the order in which they are believed: torchrun under srun sets its own beside Slurm's.
const FAMILIES: [Family; 6] = [
    Family {
        source: "RANK",
        rank: "env.RANK",
        local_rank: Some("env.LOCAL_RANK"),
        world_size: Some("env.WORLD_SIZE"),
    },
    Family {
        source: "OMPI_COMM_WORLD_RANK",
        rank: "env.OMPI_COMM_WORLD_RANK",
        local_rank: Some("env.OMPI_COMM_WORLD_LOCAL_RANK"),
        world_size: Some("env.OMPI_COMM_WORLD_SIZE"),
    },
    Family {
        source: "MV2_COMM_WORLD_RANK",
        rank: "env.MV2_COMM_WORLD_RANK",
        local_rank: Some("env.MV2_COMM_WORLD_LOCAL_RANK"),
        world_size: Some("env.MV2_COMM_WORLD_SIZE"),
    },
    Family {
        source: "PMI_RANK",
        rank: "env.PMI_RANK",
        local_rank: Some("env.MPI_LOCALRANKID"),
        world_size: Some("env.PMI_SIZE"),
    },
    Family { source: "PMIX_RANK", rank: "env.PMIX_RANK", local_rank: None, world_size: None },
    Family {
        source: "SLURM_PROCID",
        rank: "env.SLURM_PROCID",
        local_rank: Some("env.SLURM_LOCALID"),
        world_size: Some("env.SLURM_NTASKS"),
    },
];

/// A process's place in its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) rank: Option<u64>,
    pub(super) local_rank: Option<u64>,
    pub(super) world_size: Option<u64>,
    pub(super) source: Option<&'static str>,
    /// Another process has the rank; this one was started by it, or does nothing on a GPU.
    pub(super) inherited: bool,
    /// Kernels, and whether some of them communicate: who works is the rank.
    pub(super) communicates: bool,
    pub(super) kernels: u64,
    pub(super) file: String,
}

impl Identity {
    /// What the facts of a process say.
    pub(super) fn of(process: &ProcessCapture) -> Self {
        let number = |key: &str| process.meta.get(key)?.trim().parse::<u64>().ok();
        let calls = &process.collectives.calls;
        let base = Identity {
            communicates: !calls.is_empty(),
            kernels: process.counts.kernels,
            file: process.file.clone(),
            ..Identity::default()
        };
        let told = FAMILIES.iter().find_map(|family| Some((family, number(family.rank)?)));
        if let Some((family, rank)) = told {
            return Identity {
                rank: Some(rank),
                local_rank: family.local_rank.and_then(number),
                world_size: family.world_size.and_then(number).filter(|&size| size > 0),
                source: Some(family.source),
                ..base
            };
        }
        // Engines that number their workers by arguments tell NCCL.
        let communicators = &process.collectives.communicators;
        let largest = communicators.iter().max_by_key(|known| known.members);
        match largest.and_then(|known| known.rank.zip(known.members)) {
            Some((rank, members)) => Identity {
                rank: Some(rank),
                world_size: Some(members),
                source: Some("NCCL communicator"),
                ..base
            },
            None => base,
        }
    }

    /// It counts as a rank of the job.
    pub(super) fn is_rank(&self) -> bool {
        self.rank.is_some() && !self.inherited
    }
}

/// The ranks of all processes.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) seen: u64,
    pub(super) expected: Option<u64>,
    pub(super) findings: Vec<Finding>,
}

/// Settles who is which.
pub(super) fn settle(identities: &mut [Identity]) -> Job {
    let mut job = Job::default();
    forget_batch_script(identities);
    refuse_impossible(identities, &mut job.findings);
    give_to_workers(identities, &mut job.findings);
    let ranks: BTreeSet<u64> =
        identities.iter().filter(|i| i.is_rank()).filter_map(|i| i.rank).collect();
    let sizes: BTreeSet<u64> =
        identities.iter().filter(|i| i.is_rank()).filter_map(|i| i.world_size).collect();
    job.seen = ranks.len() as u64;
    job.expected = sizes.last().copied();
    if sizes.len() > 1 {
        let sizes: Vec<String> = sizes.iter().map(|&size| count(size)).collect();
        job.findings.push(Finding::new(
            Severity::Warning,
            format!("processes disagree on the number of ranks: {}", sizes.join(", ")),
            "they are of different jobs, or some were told wrongly; the largest is taken",
            "merge the captures of one job at a time",
        ));
    }
    if let Some(expected) = job.expected.filter(|&expected| expected > job.seen) {
        job.findings.push(Finding::new(
            Severity::Warning,
            format!("ranks seen: {} of {}", count(job.seen), count(expected)),
            "the others were not traced, used no GPU and no NVTX, or their trace files are \
             elsewhere (each host keeps its own); collectives with them are not matched",
            "run every rank under the collector, and merge the folders of all hosts with \
             `stage2-launch merge --spool DIR --spool DIR ...`",
        ));
    }
    job
}

/// The script of a Slurm batch job is told that it is rank 0 of all tasks, and so is what it runs
/// without `srun`: one such process makes no job of several ranks.
fn forget_batch_script(identities: &mut [Identity]) {
    let mut ranks = identities.iter_mut().filter(|identity| identity.rank.is_some());
    if let (Some(only), None) = (ranks.next(), ranks.next())
        && only.source == Some("SLURM_PROCID")
        && only.rank == Some(0)
    {
        (only.rank, only.local_rank, only.world_size, only.source) = (None, None, None, None);
    }
}

/// A rank that its job has no room for is none.
fn refuse_impossible(identities: &mut [Identity], findings: &mut Vec<Finding>) {
    for identity in identities {
        let (Some(rank), Some(size)) = (identity.rank, identity.world_size) else { continue };
        if rank >= size {
            findings.push(Finding::new(
                Severity::Warning,
                format!(
                    "{} says that it is rank {} of {}",
                    identity.file,
                    count(rank),
                    count(size)
                ),
                "there is no such rank: the process is shown without one",
                "look at the variables that the job launcher sets",
            ));
            (identity.rank, identity.world_size) = (None, None);
        }
    }
}

/// Workers of a rank inherit its variables: the one that communicates, or has the most kernels, is
/// the rank.
fn give_to_workers(identities: &mut [Identity], findings: &mut Vec<Finding>) {
    let mut by_rank: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, identity) in identities.iter().enumerate() {
        if let Some(rank) = identity.rank {
            by_rank.entry(rank).or_default().push(at);
        }
    }
    for (rank, mut claimed) in by_rank.into_iter().filter(|(_, all)| all.len() > 1) {
        let weight = |at: &usize| identities.get(*at).map(|i| (i.communicates, i.kernels));
        claimed.sort_by_key(|at| std::cmp::Reverse(weight(at)));
        let communicating: Vec<&str> = claimed
            .iter()
            .filter_map(|&at| identities.get(at))
            .filter(|identity| identity.communicates)
            .map(|identity| identity.file.as_str())
            .collect();
        let shared = communicating.len();
        if shared > 1 {
            findings.push(Finding::new(
                Severity::Warning,
                format!(
                    "{} processes say that they are rank {}",
                    count(shared as u64),
                    count(rank)
                ),
                format!("all of them communicate: {}", communicating.join(", ")),
                "merge the captures of one job at a time",
            ));
        }
        for &at in claimed.iter().skip(shared.max(1)) {
            if let Some(identity) = identities.get_mut(at) {
                identity.inherited = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(file: &str, facts: &[(&str, &str)], kernels: u64) -> Identity {
        let mut capture = crate::load::Tally::default().finish();
        capture.file = file.to_owned();
        capture.counts.kernels = kernels;
        let facts = facts.iter().map(|&(name, value)| (format!("env.{name}"), value.to_owned()));
        capture.meta.extend(facts);
        Identity::of(&capture)
    }

    fn ranks(identities: &[Identity]) -> Vec<(Option<u64>, Option<u64>, bool)> {
        identities.iter().map(|i| (i.rank, i.local_rank, i.inherited)).collect()
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
        assert_eq!(all.each_ref().map(|i| i.inherited), [true, false, true]);
        assert_eq!((job.seen, job.expected, job.findings.len()), (1, Some(1), 0));
    }

    #[test]
    fn two_that_communicate_as_one_rank_are_said() {
        let facts = [("RANK", "0"), ("WORLD_SIZE", "2")];
        let mut all = [process("a", &facts, 1), process("b", &facts, 1)];
        all.iter_mut().for_each(|identity| identity.communicates = true);
        let job = settle(&mut all);
        assert_eq!(all.each_ref().map(|i| i.inherited), [false, false]);
        assert!(job.findings[0].what.contains("2 processes say that they are rank 0"));
    }

    #[test]
    fn impossible_ranks_are_none_and_said() {
        let mut all = [
            process("a", &[("RANK", "4000000000"), ("WORLD_SIZE", "2")], 1),
            process("b", &[("RANK", "2"), ("WORLD_SIZE", "2")], 1),
            process("c", &[("RANK", "1"), ("WORLD_SIZE", "2")], 1),
            process("d", &[("RANK", "x"), ("WORLD_SIZE", "0")], 1),
        ];
        let job = settle(&mut all);
        assert_eq!(all.each_ref().map(|i| i.rank), [None, None, Some(1), None]);
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
    fn a_batch_script_of_slurm_is_no_job_of_ranks() {
        let mut all = [process("a", &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], 1)];
        let job = settle(&mut all);
        assert_eq!((all[0].rank, job.seen, job.findings.len()), (None, 0, 0));
    }
}
