//! Captures of all processes -> who is which rank, what each did in each stage, and what they did
//! together: which collectives were one and the same, how long members waited in them, and for whom.

mod calls;
mod clock;
mod identity;
mod matching;
mod rows;
mod split;

use std::collections::{BTreeMap, HashMap};

use crate::load::ProcessCapture;
use crate::load::operation::is_communication;
use crate::load::paths::PathIndex;
use crate::load::stats::Work;
use calls::{Calls, Member};
use identity::{Identity, Job};
use rows::Who;
use stage2_model::{Finding, ProcessRow, RankStageRow, Ranks};
use stage2_text::numbers::count;
use stage2_text::visible;

/// Fact that names the parent of a forked child.
const META_FORK_OF: &str = "fork.of";
/// Fact that lists the GPUs that a process may see.
const META_VISIBLE: &str = "env.CUDA_VISIBLE_DEVICES";

/// What of a process is looked at together with the others.
#[derive(Debug, Default)]
pub(crate) struct Together {
    identities: Vec<Identity>,
    processes: Vec<Process>,
    calls: Calls,
    wall_ahead_ns: BTreeMap<usize, i64>,
    kernels_left_out: u64,
    /// Calls that are kept of a process.
    calls_limit: u64,
}

/// What is kept of a process.
#[derive(Debug)]
struct Process {
    row: ProcessRow,
    /// Devices of the whole run, by index in its file.
    devices: Vec<u32>,
    /// Those that it has work on.
    used: Vec<u32>,
    stages: Vec<(u32, RankStageRow)>,
}

/// Names of the whole run.
pub(crate) struct Labels<'l> {
    /// Label of a stage, and its place in the report.
    pub(crate) stage: &'l dyn Fn(u32) -> (String, usize),
    /// Label of a device, and its UUID.
    pub(crate) device: &'l dyn Fn(u32) -> (String, Option<String>),
    /// Whether several processes used a device at the same time.
    pub(crate) is_shared: &'l dyn Fn(u32) -> bool,
}

impl Together {
    /// Takes what `process` did; `stage` and `device` turn identifiers of its file into those of the
    /// run.
    pub(crate) fn take(
        &mut self,
        process: &mut ProcessCapture,
        stage: impl Fn(PathIndex) -> u32,
        device: impl Fn(u32) -> u32,
    ) {
        self.identities.push(Identity::of(process));
        let devices: Vec<u32> =
            (0..).zip(&process.devices).map(|(index, _)| device(index)).collect();
        let used = process.device_busy.keys().map(|&index| device(index)).collect();
        let who = process.process.as_ref();
        let fact = |key: &str| process.meta.get(key).map(|value| visible(value.as_bytes()));
        let row = ProcessRow {
            file: process.file.clone(),
            pid: who.map(|who| who.pid),
            host: who.map(|who| visible(who.host.as_bytes())),
            visible_devices: fact(META_VISIBLE),
            kernels: process.counts.kernels,
            forked_from: fact(META_FORK_OF),
            ..ProcessRow::default()
        };
        let stages = stage_rows(process, &stage);
        self.processes.push(Process { row, devices, used, stages });
        let lost = process.collectives.beyond.saturating_add(process.collectives.untimed);
        self.calls_limit = self.calls_limit.max(process.collectives.limit);
        let left_out = self.calls.take(process, stage);
        self.kernels_left_out = self.kernels_left_out.saturating_add(lost).saturating_add(left_out);
        let host = self.calls.processes.last().map_or(0, |process| process.host);
        if let Some(ahead) = process.wall_ahead_ns {
            self.wall_ahead_ns.entry(host).or_insert(ahead);
        }
    }

    /// Everything that follows.
    pub(crate) fn finish(mut self, labels: &Labels<'_>) -> (Vec<ProcessRow>, Ranks, Vec<Finding>) {
        let Job { seen, expected, mut findings } = identity::settle(&mut self.identities);
        // Clocks of one host need not be tied.
        if self.wall_ahead_ns.len() < 2 {
            self.wall_ahead_ns.clear();
        }
        let mut matching = matching::matching(&self.calls, expected);
        let found = split::split(&self.calls, &mut matching, &self.wall_ahead_ns);
        let label = |path: u32| (labels.stage)(path).0;
        let who = |member: Member| self.who(member, labels);
        let mut collectives = rows::collective_rows(&self.calls, &matching, &found, label);
        let mut late = rows::late_rows(&self.calls, &found, label, who);
        let place = |path: u32| (labels.stage)(path).1;
        collectives.sort_by_key(|&(path, _)| place(path));
        late.sort_by_key(|&(path, _)| place(path));
        if self.kernels_left_out > 0 {
            findings.push(Finding::warning(
                format!(
                    "{} communication kernels belong to no collective in this report",
                    count(self.kernels_left_out)
                ),
                format!(
                    "their timestamps are missing, their file has no clock reading that ties GPU \
                     and host, or the process made more than {} calls",
                    count(self.calls_limit)
                ),
                "see the findings on clocks and timestamps; for the limit, sample (STAGE2_SAMPLE) \
                 or name ranges (STAGE2_RANGES)",
            ));
        }
        let shares = rows::shares(&self.calls, &found);
        let stages = self.stages(labels, &shares);
        let mut hosts: Vec<&str> = self
            .processes
            .iter()
            .zip(&self.identities)
            .filter(|(_, identity)| identity.is_rank())
            .filter_map(|(process, _)| process.row.host.as_deref())
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        let ranks = Ranks {
            seen,
            expected,
            hosts: hosts.len() as u64,
            clock_error_ns: found.error_ns,
            stages,
            collectives: collectives.into_iter().map(|(_, row)| row).collect(),
            late: late.into_iter().map(|(_, row)| row).collect(),
            kernels_left_out: self.kernels_left_out,
        };
        let rows = (0..self.processes.len()).filter_map(|at| self.row(at, labels)).collect();
        (rows, ranks, findings)
    }

    fn row(&self, at: usize, labels: &Labels<'_>) -> Option<ProcessRow> {
        let (process, identity) = (self.processes.get(at)?, self.identities.get(at)?);
        let devices = process.used.iter().map(|&device| (labels.device)(device));
        let (names, uuids): (Vec<String>, Vec<Option<String>>) = devices.unzip();
        Some(ProcessRow {
            rank: identity.rank,
            local_rank: identity.local_rank,
            world_size: identity.world_size,
            rank_source: identity.source.map(str::to_owned),
            inherited_rank: identity.inherited,
            devices: names,
            device_uuids: uuids.into_iter().flatten().collect(),
            ..process.row.clone()
        })
    }

    /// Who a process is, and which GPU of it where it has several.
    fn who(&self, member: Member, labels: &Labels<'_>) -> Who {
        let at = member.process as usize;
        let mut who = self.name(at);
        let process = self.processes.get(at);
        if let Some(process) = process.filter(|process| process.used.len() > 1)
            && let Some(&device) = process.devices.get(member.device as usize)
        {
            who = format!("{who}, GPU {}", (labels.device)(device).0);
        }
        let file = process.map_or_else(String::new, |process| process.row.file.clone());
        Who { who, file, rank: self.identities.get(at).and_then(|identity| identity.rank) }
    }

    fn name(&self, at: usize) -> String {
        let pid = self.processes.get(at).and_then(|process| process.row.pid);
        let pid = pid.map_or_else(|| "a process".to_owned(), |pid| format!("pid {pid}"));
        let identity = self.identities.get(at);
        let Some(rank) = identity.filter(|i| i.is_rank()).and_then(|i| i.rank) else { return pid };
        let same = |other: &&Identity| other.is_rank() && other.rank == Some(rank);
        match self.identities.iter().filter(same).count() {
            0 | 1 => format!("rank {rank}"),
            _ => format!("rank {rank} ({pid})"),
        }
    }

    /// Each process in each stage, where there are several: the slowest first, which is the one that
    /// waited least for the others, or else the one with the longest host time.
    fn stages(
        &self,
        labels: &Labels<'_>,
        shares: &BTreeMap<(u32, u32), (u64, u64)>,
    ) -> Vec<RankStageRow> {
        if self.processes.iter().filter(|process| !process.stages.is_empty()).count() < 2 {
            return Vec::new();
        }
        let mut rows: Vec<(usize, RankStageRow)> = Vec::new();
        for (at, process) in self.processes.iter().enumerate() {
            let on_shared = process.used.iter().any(|&device| (labels.is_shared)(device));
            for (path, row) in &process.stages {
                let (stage, place) = (labels.stage)(*path);
                let share = shares.get(&(*path, at as u32));
                rows.push((
                    place,
                    RankStageRow {
                        stage,
                        who: self.name(at),
                        rank: self.identities.get(at).and_then(|identity| identity.rank),
                        waiting_ns: share.map(|&(waiting, _)| waiting),
                        transfer_ns: share.map(|&(_, transfer)| transfer),
                        gpu_idle_ns: row.gpu_idle_ns.filter(|_| !on_shared),
                        ..row.clone()
                    },
                ));
            }
        }
        rows.sort_by_cached_key(|(place, row)| {
            let host = std::cmp::Reverse(row.host_total_ns);
            (*place, row.stage.clone(), row.waiting_ns.is_none(), row.waiting_ns, host, row.rank)
        });
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// What a process did in each of its stages.
fn stage_rows(
    process: &ProcessCapture,
    stage: &impl Fn(PathIndex) -> u32,
) -> Vec<(u32, RankStageRow)> {
    let some_recorded = process.gpu_recorded();
    let mut kernels: HashMap<PathIndex, (u64, u64)> = HashMap::new();
    let mut known: HashMap<u32, bool> = HashMap::new();
    for (key, stats) in &process.groups {
        let Work::Kernel(shape) = key.work else { continue };
        let communicates = *known.entry(shape).or_insert_with(|| {
            let name = process.shapes.get(shape as usize).and_then(|shape| shape.name);
            let name = name.and_then(|name| process.names.get(name as usize));
            name.is_some_and(|name| is_communication(name))
        });
        let top = process.paths.get(key.path as usize).map_or(key.path, |node| node.top);
        let sum = kernels.entry(top).or_default();
        sum.0 = sum.0.saturating_add(stats.calls);
        sum.1 = sum.1.saturating_add(if communicates { stats.total_ns } else { 0 });
    }
    let of_range = process.stages.iter().filter_map(|(path, s)| Some((path, s, s.times.as_ref()?)));
    let row = |(&path, captured, times): (&PathIndex, &crate::load::StageCapture, _)| {
        let times: &crate::load::ranges::StageTimes = times;
        let host = process.path_times.get(&path);
        let on_gpu = |value: u64| (some_recorded && captured.recorded).then_some(value);
        let (calls, communication_ns) = kernels.get(&path).copied().unwrap_or_default();
        let busy_ns = captured.busy.busy_ns;
        let row = RankStageRow {
            file: process.file.clone(),
            instances: host.map_or(0, |host| host.instances),
            host_total_ns: host.and_then(|host| host.host_total_ns),
            host_warm_median_ns: host.and_then(|host| host.host_warm_ns.median()),
            gpu_busy_ns: on_gpu(busy_ns),
            gpu_idle_ns: times
                .window_ns
                .filter(|_| some_recorded)
                .map(|window| window.saturating_sub(busy_ns)),
            kernels: on_gpu(calls),
            communication_ns: on_gpu(communication_ns),
            ..RankStageRow::default()
        };
        (stage(path), row)
    };
    of_range.map(row).collect()
}
