//! Facts of processes -> their ranks: who is which, who only inherited the variables of another,
//! and what of it cannot be true.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::count;
use stage2_contract::text::visible;
use stage2_model::finding::Id;
use stage2_model::{Finding, ProcessRow, RankStageRow};
use stage2_read::trace::ProcessCapture;

/// What `srun` sets for the processes of a step, and `sbatch` does not for its script.
const SLURM_STEP: &str = "SLURM_STEP_NUM_TASKS";
const SLURM_TASKS: &str = "SLURM_NTASKS";
const SLURM: &str = "SLURM_PROCID";

/// Variables of the job launchers: rank, local rank, number of ranks. In the order in which they are
/// believed: torchrun under srun sets its own next to Slurm's.
const FAMILIES: [&[&str]; 6] = [
    &["RANK", "LOCAL_RANK", "WORLD_SIZE"],
    &["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"],
    &["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"],
    &["PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"],
    &["PMIX_RANK"],
    &[SLURM, "SLURM_LOCALID", SLURM_STEP],
];

/// Fact that names the parent of a forked child.
const META_FORK_OF: &str = "fork.of";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    hash: u64,
    rank: u64,
    members: u64,
}

const NCCL: &str = "NCCL communicator";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) row: ProcessRow,
    /// What NCCL says of the largest communicator in which the process is one member.
    communicator: Option<Place>,
    /// Slurm numbered it in its own step.
    of_slurm_step: bool,
    /// Some of its kernels communicate: who works is the rank.
    communicates: bool,
    /// Its devices, as indices into those of the run, in the order of its file.
    pub(super) devices: Vec<u32>,
    /// Those that it has work on.
    pub(super) used: Vec<u32>,
    /// What it did in each stage, by the path of the stage.
    pub(super) stages: Vec<(u32, RankStageRow)>,
}

impl Process {
    pub(super) fn of(process: &ProcessCapture) -> Self {
        let variable = |name: &str| process.meta.get(&format!("env.{name}"));
        let number = |name: &str| variable(name)?.trim().parse::<u64>().ok();
        let text = |value: &String| visible(value.as_bytes());
        // One that has a GPU for each of several members has the rank of none of them.
        let own = process.collectives.communicators.iter().filter(|known| known.local == 1);
        let largest = own.max_by_key(|known| known.members);
        let communicator = largest.and_then(|known| {
            Some(Place { hash: known.hash, rank: known.rank?, members: known.members? })
        });
        let who = process.process.as_ref();
        let mut found = Process {
            row: ProcessRow {
                file: process.file.clone(),
                pid: who.map(|who| who.pid),
                host: who.map(|who| text(&who.host)),
                visible_devices: variable("CUDA_VISIBLE_DEVICES").map(text),
                kernels: process.counts.kernels,
                forked_from: process.meta.get(META_FORK_OF).map(text),
                ..ProcessRow::default()
            },
            communicates: !process.collectives.calls.is_empty(),
            communicator,
            of_slurm_step: number(SLURM_STEP).is_some(),
            ..Process::default()
        };
        let told = FAMILIES.iter().find_map(|family| Some((family, number(family.first()?)?)));
        let Some((family, rank)) = told else {
            found.adopt_communicator_rank();
            return found;
        };
        let told = |at: usize| family.get(at).and_then(|name| number(name));
        let source = family.first().copied();
        // Captures of earlier collectors have only the size of the whole allocation.
        let size = told(2).or_else(|| number(SLURM_TASKS).filter(|_| source == Some(SLURM)));
        found.row.rank = Some(rank);
        found.row.local_rank = told(1);
        found.row.world_size = size.filter(|&size| size > 0);
        found.row.rank_source = source.map(str::to_owned);
        found
    }

    /// Engines that number their workers by arguments tell NCCL.
    fn adopt_communicator_rank(&mut self) {
        let Some(place) = self.communicator else { return };
        self.forget_rank();
        (self.row.rank, self.row.world_size) = (Some(place.rank), Some(place.members));
        self.row.rank_source = Some(NCCL.to_owned());
    }

    fn forget_rank(&mut self) {
        let row = &mut self.row;
        (row.rank, row.local_rank, row.world_size, row.rank_source) = (None, None, None, None);
    }

    fn is_from(&self, source: &str) -> bool {
        self.row.rank_source.as_deref() == Some(source)
    }

    /// The job that its rank is one of, as far as that is known: ranks of different communicators
    /// are not the same.
    fn job(&self) -> Option<u64> {
        self.communicator.filter(|_| self.is_from(NCCL)).map(|place| place.hash)
    }

    /// Its rank, if it counts as one of the job.
    pub(super) fn rank(&self) -> Option<u64> {
        self.row.rank.filter(|_| !self.row.inherited_rank)
    }
}

#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) seen: u64,
    pub(super) expected: Option<u64>,
    pub(super) findings: Vec<Finding>,
}

pub(super) fn settle(processes: &mut [Process]) -> Job {
    let mut job = Job::default();
    forget_batch_script(processes);
    number_by_communicator(processes);
    refuse_impossible(processes, &mut job.findings);
    give_to_workers(processes, &mut job.findings);
    count_ranks(processes, &mut job);
    if let Some(expected) = job.expected.filter(|&expected| expected > job.seen) {
        job.findings.push(Id::RanksMissing.found(
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
fn count_ranks(processes: &[Process], job: &mut Job) {
    let mut jobs: BTreeMap<Option<u64>, (BTreeSet<u64>, BTreeSet<u64>)> = BTreeMap::new();
    for process in processes {
        let Some(rank) = process.rank() else { continue };
        let (ranks, sizes) = jobs.entry(process.job()).or_default();
        ranks.insert(rank);
        sizes.extend(process.row.world_size);
    }
    let seen = |ranks: &BTreeSet<u64>| ranks.len() as u64;
    job.seen = jobs.values().map(|(ranks, _)| seen(ranks)).sum();
    // A job that does not say its size is taken to be those that were seen.
    let size = |(ranks, sizes): &(_, BTreeSet<u64>)| sizes.last().copied().unwrap_or(seen(ranks));
    let is_known = jobs.values().any(|(_, sizes)| !sizes.is_empty());
    job.expected = is_known.then(|| jobs.values().map(size).fold(0, u64::saturating_add));
    for (_, sizes) in jobs.values().filter(|(_, sizes)| sizes.len() > 1) {
        let sizes: Vec<String> = sizes.iter().map(|&size| count(size)).collect();
        job.findings.push(Id::RanksSizesDiffer.found(
            format!("processes disagree on the number of ranks: {}", sizes.join(", ")),
            "they belong to different jobs, or a launcher set a wrong size; the largest is used",
            "merge the captures of one job at a time",
        ));
    }
    let communicators = jobs.keys().flatten().count() as u64;
    if communicators > 1 {
        job.findings.push(Id::RanksCommunicators.found(
            format!("the ranks come from {} separate communicators", count(communicators)),
            "no communicator spans them all, so each numbers its own from 0",
            "nothing to do for an engine without a communicator of all its GPUs; else merge the \
             captures of one job at a time",
        ));
    }
}

/// The script of a Slurm batch job is told that it is rank 0 of all tasks, and so is everything that
/// it runs without `srun`: where there is no other rank, Slurm does not describe the job.
fn forget_batch_script(processes: &mut [Process]) {
    let of_slurm = |process: &&mut Process| process.is_from(SLURM) && !process.of_slurm_step;
    if processes.iter_mut().filter(of_slurm).all(|process| process.row.rank == Some(0)) {
        for process in processes.iter_mut().filter(of_slurm) {
            process.forget_rank();
            process.adopt_communicator_rank();
        }
    }
}

/// Workers that an engine spawns inherit the variables of the one task that it runs in: where
/// several that communicate claim one rank, and NCCL tells them apart, what NCCL says counts. Where it
/// gives each the very rank that it claims, they are ranks of several jobs.
fn number_by_communicator(processes: &mut [Process]) {
    let mut claims: BTreeMap<(String, u64), Vec<&mut Process>> = BTreeMap::new();
    for process in processes {
        if let Some(claim) = process.row.rank_source.clone().zip(process.row.rank) {
            claims.entry(claim).or_default().push(process);
        }
    }
    for claimed in claims.into_values() {
        let workers: Vec<&&mut Process> =
            claimed.iter().filter(|process| process.communicates).collect();
        let places: BTreeSet<(u64, u64)> = workers
            .iter()
            .filter_map(|worker| worker.communicator.filter(|place| place.rank < place.members))
            .map(|place| (place.hash, place.rank))
            .into_set();
        let agrees = |worker: &&&mut Process| {
            let place = worker.communicator.map(|place| (place.rank, place.members));
            place.is_some() && place == worker.row.rank.zip(worker.row.world_size)
        };
        let several_jobs = workers.iter().all(agrees);
        if workers.len() < 2 || places.len() < workers.len() || several_jobs {
            continue;
        }
        for process in claimed {
            if process.communicates {
                process.adopt_communicator_rank();
            } else {
                process.row.inherited_rank = true;
            }
        }
    }
}

/// A rank that its job has no room for is none.
fn refuse_impossible(processes: &mut [Process], findings: &mut Vec<Finding>) {
    for process in processes {
        let row = &process.row;
        let (Some(rank), Some(size)) = (row.rank, row.world_size) else { continue };
        if rank >= size {
            findings.push(Id::RanksImpossible.about(&row.file).found(
                format!("{} reports rank {} of {}", row.file, count(rank), count(size)),
                "there is no such rank: the process is shown without one",
                "look at the variables that the job launcher sets",
            ));
            process.forget_rank();
        }
    }
}

/// Workers of a rank inherit its variables: the one that communicates, or has the most kernels, is
/// the rank.
fn give_to_workers(processes: &mut [Process], findings: &mut Vec<Finding>) {
    let mut by_rank: BTreeMap<(u64, Option<u64>), Vec<&mut Process>> = BTreeMap::new();
    for process in processes {
        if let Some(rank) = process.rank() {
            by_rank.entry((rank, process.job())).or_default().push(process);
        }
    }
    for ((rank, _), mut claimed) in by_rank.into_iter().filter(|(_, all)| all.len() > 1) {
        claimed.order_by_key(|process| Reverse((process.communicates, process.row.kernels)));
        let communicating: Vec<&str> = claimed
            .iter()
            .filter(|process| process.communicates)
            .map(|process| process.row.file.as_str())
            .collect();
        let shared = communicating.len();
        if shared > 1 {
            findings.push(Id::RanksClaimedTwice.about(format!("rank {rank}")).found(
                format!("{} processes claim rank {}", count(shared as u64), count(rank)),
                format!("all of them communicate: {}", communicating.join(", ")),
                "merge the captures of one job at a time",
            ));
        }
        for process in claimed.into_iter().skip(shared.max(1)) {
            process.row.inherited_rank = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_read::trace::collectives::{Call, Communicator};

    fn capture(file: &str, facts: &[(&str, &str)]) -> ProcessCapture {
        let mut capture = stage2_read::trace::Tally::default().finish();
        capture.file = file.to_owned();
        let facts = facts.iter().map(|&(name, value)| (format!("env.{name}"), value.to_owned()));
        capture.meta.extend(facts);
        capture
    }

    fn process(file: &str, facts: &[(&str, &str)], kernels: u64) -> Process {
        let mut capture = capture(file, facts);
        capture.counts.kernels = kernels;
        Process::of(&capture)
    }

    fn what(job: &Job) -> Vec<&str> {
        job.findings.iter().map(|finding| finding.what.as_str()).collect()
    }

    fn sources(processes: &[Process]) -> Vec<Option<&str>> {
        processes.iter().map(|process| process.row.rank_source.as_deref()).collect()
    }

    fn ranks(processes: &[Process]) -> Vec<(Option<u64>, Option<u64>, bool)> {
        processes.iter().map(|p| (p.row.rank, p.row.local_rank, p.row.inherited_rank)).collect()
    }

    #[test]
    fn every_launcher_is_understood_and_torchrun_wins_over_slurm() {
        let slurm = [("SLURM_PROCID", "5"), ("SLURM_LOCALID", "1"), ("SLURM_NTASKS", "8")];
        let torchrun = [("RANK", "6"), ("LOCAL_RANK", "2"), ("WORLD_SIZE", "8")];
        let (rank, local) = (("OMPI_COMM_WORLD_RANK", "7"), ("OMPI_COMM_WORLD_LOCAL_RANK", "3"));
        let mpi = [rank, local, ("OMPI_COMM_WORLD_SIZE", "8"), ("PMIX_RANK", "7")];
        let mut all = [
            process("a", &[slurm, torchrun].concat(), 1),
            process("b", &slurm, 1),
            process("c", &mpi, 1),
            process("d", &[("PMI_RANK", "0"), ("PMI_SIZE", "8"), ("MPI_LOCALRANKID", "0")], 1),
        ];
        let job = settle(&mut all);
        let some = |rank, local| (Some(rank), Some(local), false);
        assert_eq!(ranks(&all), [some(6, 2), some(5, 1), some(7, 3), some(0, 0)]);
        assert_eq!((job.seen, job.expected), (4, Some(8)));
        assert_eq!(what(&job), ["ranks seen: 4 of 8"]);
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
        let mut capture = capture(file, facts);
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
        assert_eq!(what(&job), ["the ranks come from 2 separate communicators"]);
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
        assert_eq!(
            (all[0].row.rank, job.seen, job.expected, job.findings.len()),
            (None, 0, None, 0)
        );
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
        assert_eq!(
            sources(&all),
            [None, None, Some("RANK"), None],
            "nobody told a rank that is none"
        );
        let far = "a reports rank 4,000,000,000 of 2";
        assert_eq!(what(&job), [far, "b reports rank 2 of 2", "ranks seen: 1 of 2"]);
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
        assert_eq!(sources(&all), [Some("RANK"); 4]);
        assert_eq!(what(&job), ["2 processes claim rank 0", "2 processes claim rank 1"]);
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
        assert_eq!(sources(&all), [Some(SLURM), Some(NCCL), Some(NCCL)]);
        assert_eq!((job.seen, job.expected, job.findings.len()), (2, Some(2), 0));
    }

    #[test]
    fn a_batch_script_of_slurm_is_no_job_of_ranks() {
        let mut all = [process("a", &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")], 1)];
        let job = settle(&mut all);
        assert_eq!((all[0].row.rank, job.seen, job.findings.len()), (None, 0, 0));
    }
}
