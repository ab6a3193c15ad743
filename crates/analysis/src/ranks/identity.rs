//! Facts of processes -> their ranks: who is which, who only inherited the variables of another,
//! and what of it cannot be true.

use std::collections::{BTreeMap, BTreeSet};

use crate::load::ProcessCapture;
use stage2_model::Finding;
use stage2_text::numbers::count;

/// Variables of a job launcher: rank, local rank, number of ranks.
struct Family {
    source: &'static str,
    rank: &'static str,
    local_rank: Option<&'static str>,
    world_size: Option<&'static str>,
}

/// What `srun` sets for the processes of a step, and `sbatch` does not for its script.
const SLURM_STEP: &str = "env.SLURM_STEP_NUM_TASKS";
const SLURM_TASKS: &str = "env.SLURM_NTASKS";
const SLURM: &str = "SLURM_PROCID";

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
        source: SLURM,
        rank: "env.SLURM_PROCID",
        local_rank: Some("env.SLURM_LOCALID"),
        world_size: Some(SLURM_STEP),
    },
];

/// A member of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    hash: u64,
    rank: u64,
    members: u64,
}

const NCCL: &str = "NCCL communicator";

/// A process's place in its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) rank: Option<u64>,
    pub(super) local_rank: Option<u64>,
    pub(super) world_size: Option<u64>,
    pub(super) source: Option<&'static str>,
    /// What NCCL says of the largest communicator in which the process is one member.
    communicator: Option<Place>,
    /// Slurm numbered it in a step of its own.
    of_slurm_step: bool,
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
        // One that has a GPU for each of several members has the rank of none of them.
        let own = process.collectives.communicators.iter().filter(|known| known.local == 1);
        let largest = own.max_by_key(|known| known.members);
        let communicator = largest.and_then(|known| {
            Some(Place { hash: known.hash, rank: known.rank?, members: known.members? })
        });
        let mut base = Identity {
            communicates: !calls.is_empty(),
            communicator,
            of_slurm_step: number(SLURM_STEP).is_some(),
            kernels: process.counts.kernels,
            file: process.file.clone(),
            ..Identity::default()
        };
        let told = FAMILIES.iter().find_map(|family| Some((family, number(family.rank)?)));
        if let Some((family, rank)) = told {
            let size = family.world_size.and_then(number);
            // Captures of earlier collectors have only the size of the whole allocation.
            let size = size.or_else(|| number(SLURM_TASKS).filter(|_| family.source == SLURM));
            return Identity {
                rank: Some(rank),
                local_rank: family.local_rank.and_then(number),
                world_size: size.filter(|&size| size > 0),
                source: Some(family.source),
                ..base
            };
        }
        base.take_from_communicator();
        base
    }

    /// Engines that number their workers by arguments tell NCCL.
    fn take_from_communicator(&mut self) {
        let Some(place) = self.communicator else { return };
        self.forget_rank();
        (self.rank, self.world_size) = (Some(place.rank), Some(place.members));
        self.source = Some(NCCL);
    }

    fn forget_rank(&mut self) {
        (self.rank, self.local_rank, self.world_size, self.source) = (None, None, None, None);
    }

    /// The job that its rank is one of, as far as that is known: ranks of different communicators
    /// are not the same.
    fn job(&self) -> Option<u64> {
        let place = self.communicator.filter(|_| self.source == Some(NCCL));
        place.map(|place| place.hash)
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
    number_by_communicator(identities);
    refuse_impossible(identities, &mut job.findings);
    give_to_workers(identities, &mut job.findings);
    count_ranks(identities, &mut job);
    if let Some(expected) = job.expected.filter(|&expected| expected > job.seen) {
        job.findings.push(Finding::warning(
            format!("ranks seen: {} of {}", count(job.seen), count(expected)),
            "the others were not traced, used no GPU and no NVTX, or their trace files are \
             elsewhere (each host keeps its own); collectives with them are not matched",
            "run every rank under the collector, and merge the folders of all hosts with \
             `stage2-launch merge --spool DIR --spool DIR ...`",
        ));
    }
    job
}

/// Ranks, and how many there should be. Numbers of several communicators repeat: each has its own.
fn count_ranks(identities: &[Identity], job: &mut Job) {
    let mut jobs: BTreeMap<Option<u64>, (BTreeSet<u64>, BTreeSet<u64>)> = BTreeMap::new();
    for identity in identities.iter().filter(|identity| identity.is_rank()) {
        let (ranks, sizes) = jobs.entry(identity.job()).or_default();
        ranks.extend(identity.rank);
        sizes.extend(identity.world_size);
    }
    let seen = |ranks: &BTreeSet<u64>| ranks.len() as u64;
    job.seen = jobs.values().map(|(ranks, _)| seen(ranks)).sum();
    // A job that does not say its size is taken to be those that were seen.
    let size = |(ranks, sizes): &(_, BTreeSet<u64>)| sizes.last().copied().unwrap_or(seen(ranks));
    let is_known = jobs.values().any(|(_, sizes)| !sizes.is_empty());
    job.expected = is_known.then(|| jobs.values().map(size).fold(0, u64::saturating_add));
    for (_, sizes) in jobs.values().filter(|(_, sizes)| sizes.len() > 1) {
        let sizes: Vec<String> = sizes.iter().map(|&size| count(size)).collect();
        job.findings.push(Finding::warning(
            format!("processes disagree on the number of ranks: {}", sizes.join(", ")),
            "they belong to different jobs, or a launcher set a wrong size; the largest is used",
            "merge the captures of one job at a time",
        ));
    }
    let communicators = jobs.keys().flatten().count() as u64;
    if communicators > 1 {
        job.findings.push(Finding::note(
            format!("the ranks come from {} separate communicators", count(communicators)),
            "no communicator spans them all, so each numbers its own from 0",
            "nothing to do for an engine without a communicator of all its GPUs; else merge the \
             captures of one job at a time",
        ));
    }
}

/// The script of a Slurm batch job is told that it is rank 0 of all tasks, and so is everything that
/// it runs without `srun`: where there is no other rank, Slurm says nothing about the job.
fn forget_batch_script(identities: &mut [Identity]) {
    let of_slurm =
        |identity: &&mut Identity| identity.source == Some(SLURM) && !identity.of_slurm_step;
    if identities.iter_mut().filter(of_slurm).all(|identity| identity.rank == Some(0)) {
        for identity in identities.iter_mut().filter(of_slurm) {
            identity.forget_rank();
            identity.take_from_communicator();
        }
    }
}

/// Workers that an engine spawns inherit the variables of the one task that it runs in: where
/// several that communicate claim one rank, and NCCL tells them apart, what NCCL says counts. Where it
/// gives each the very rank that it claims, they are ranks of several jobs.
fn number_by_communicator(identities: &mut [Identity]) {
    let mut claims: BTreeMap<(&str, u64), Vec<usize>> = BTreeMap::new();
    for (at, identity) in identities.iter().enumerate() {
        if let Some(claim) = identity.source.zip(identity.rank) {
            claims.entry(claim).or_default().push(at);
        }
    }
    for claimed in claims.into_values() {
        let of = |at: &usize| identities.get(*at).filter(|identity| identity.communicates);
        let workers: Vec<&Identity> = claimed.iter().filter_map(of).collect();
        let places: BTreeSet<(u64, u64)> = workers
            .iter()
            .filter_map(|worker| worker.communicator.filter(|place| place.rank < place.members))
            .map(|place| (place.hash, place.rank))
            .collect();
        let agrees = |worker: &&Identity| {
            let place = worker.communicator.map(|place| (place.rank, place.members));
            place.is_some() && place == worker.rank.zip(worker.world_size)
        };
        let several_jobs = workers.iter().all(agrees);
        if workers.len() < 2 || places.len() < workers.len() || several_jobs {
            continue;
        }
        for at in claimed {
            let Some(identity) = identities.get_mut(at) else { continue };
            if identity.communicates {
                identity.take_from_communicator();
            } else {
                identity.inherited = true;
            }
        }
    }
}

/// A rank that its job has no room for is none.
fn refuse_impossible(identities: &mut [Identity], findings: &mut Vec<Finding>) {
    for identity in identities {
        let (Some(rank), Some(size)) = (identity.rank, identity.world_size) else { continue };
        if rank >= size {
            findings.push(Finding::warning(
                format!(
                    "{} says that it is rank {} of {}",
                    identity.file,
                    count(rank),
                    count(size)
                ),
                "there is no such rank: the process is shown without one",
                "look at the variables that the job launcher sets",
            ));
            identity.forget_rank();
        }
    }
}

/// Workers of a rank inherit its variables: the one that communicates, or has the most kernels, is
/// the rank.
fn give_to_workers(identities: &mut [Identity], findings: &mut Vec<Finding>) {
    let mut by_rank: BTreeMap<(u64, Option<u64>), Vec<usize>> = BTreeMap::new();
    for (at, identity) in identities.iter().enumerate() {
        if let Some(rank) = identity.rank.filter(|_| !identity.inherited) {
            by_rank.entry((rank, identity.job())).or_default().push(at);
        }
    }
    for ((rank, _), mut claimed) in by_rank.into_iter().filter(|(_, all)| all.len() > 1) {
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
            findings.push(Finding::warning(
                format!("{} processes claim rank {}", count(shared as u64), count(rank)),
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
#[path = "identity_tests.rs"]
mod tests;
