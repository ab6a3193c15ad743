//! Captures of all processes -> who is which rank, what each did in each stage, and what they did
//! together: which collectives were the same, how long members waited in them, and for whom.

mod clock;
mod identity;
mod matching;
mod rows;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

pub(crate) use self::rows::{LateSpans, OWN_STEPS_LEAST, StepSpan};
use crate::ranks::identity::{Job, Process};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::count;
use stage2_contract::trace::GpuNs;
use stage2_model::finding::Id;
use stage2_model::{
    ClockPoint, ComparedCalls, DeviceRow, Finding, HostClock, LateRow, ProcessRow, RankStageRow,
    Ranks, StageRow, WarmIdle,
};
use stage2_read::trace::collectives::{Call, Communicator, Kind, NO_NUMBER, Thinning};
use stage2_read::trace::operation::is_communication;
use stage2_read::trace::paths::PathIndex;
use stage2_read::trace::stats::{Sampled, Work};
use stage2_read::trace::{ProcessCapture, StageCapture};

/// What of a process is looked at together with the others.
#[derive(Debug, Default)]
pub(crate) struct JobProcesses {
    processes: Vec<Process>,
    calls: Calls,
    wall_ahead_ns: BTreeMap<usize, i64>,
    kernels_left_out: u64,
}

impl JobProcesses {
    /// Takes what `process` did; `stage` and `device` turn identifiers of its file into those of the
    /// run.
    pub(crate) fn add_process(
        &mut self,
        process: &mut ProcessCapture,
        stage: impl Fn(PathIndex) -> u32,
        device: impl Fn(u32) -> u32,
    ) {
        let mut found = Process::of(process);
        found.devices = (0..).zip(&process.devices).map(|(index, _)| device(index)).collect();
        found.used = process.device_busy.keys().map(|&index| device(index)).collect();
        found.stages = stage_rows(process, &stage);
        self.processes.push(found);
        let lost = process.collectives.beyond.saturating_add(process.collectives.untimed);
        let left_out = self.calls.add_process(process, stage);
        self.kernels_left_out = self.kernels_left_out.saturating_add(lost).saturating_add(left_out);
        let host = self.calls.processes.last().map_or(0, |process| process.host);
        if let Some(ahead) = process.wall_ahead_ns {
            self.wall_ahead_ns.entry(host).or_insert(ahead);
        }
    }

    /// Everything that follows, and for each late rank the times of its steps. `label` names a stage, and `path` a path; `stages` and `devices` are the rows of the
    /// report, the devices by their identifier in the run.
    pub(crate) fn finish<'l>(
        mut self,
        label: impl Fn(u32) -> &'l str,
        path: impl Fn(u32) -> &'l str,
        stages: &[StageRow],
        devices: &[DeviceRow],
    ) -> (Vec<ProcessRow>, Ranks, Vec<Option<LateSpans>>, Vec<Finding>) {
        let Job { seen, expected, mut findings } = identity::settle(&mut self.processes);
        // Clocks of one host need not be tied.
        if self.wall_ahead_ns.len() < 2 {
            self.wall_ahead_ns.clear();
        }
        let compared = self.calls.even_out();
        let mut matching = matching::matching(&self.calls, expected);
        let found = matching::split(&mut matching, &self.wall_ahead_ns);
        let places: HashMap<&str, usize> =
            stages.iter().enumerate().map(|(at, row)| (row.stage.as_str(), at)).collect();
        let place = |stage: &str| places.get(stage).copied().unwrap_or(usize::MAX);
        let mut collectives = rows::collective_rows(&self.calls, &matching, &found, &label);
        collectives.order_by_key(|row| place(&row.stage));
        let names = self.names();
        let who = |member| self.who(member, &names, devices);
        let mut late = rows::late_rows(&found, &label, path, who);
        late.order_by_key(|(row, _)| place(&row.stage));
        let (late, spans) = late.into_iter().unzip();
        if self.kernels_left_out > 0 {
            findings.push(Id::RanksUnmatched.found(
                format!(
                    "{} communication kernels belong to no collective in this report",
                    count(self.kernels_left_out)
                ),
                "their timestamps are missing, or their file has no clock reading that ties GPU and host",
                "see the findings on clocks and timestamps",
            ));
        }
        let shares = rows::shares(&found);
        let mut rank_stages = self.stages(label, &names, devices, &shares);
        rank_stages.order_by_cached_key(|row| {
            let waiting_ns = row.warm_waiting_ns.or(row.waiting_ns);
            let waiting = (waiting_ns.is_none(), waiting_ns);
            let host = Reverse(row.host_total_ns);
            (place(&row.stage), row.stage.clone(), waiting, host, row.rank)
        });
        let ranks = self.processes.iter().filter(|process| process.rank().is_some());
        let mut hosts: Vec<&str> = ranks.filter_map(|rank| rank.row.host.as_deref()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let ranks = Ranks {
            seen,
            expected,
            hosts: hosts.len() as u64,
            clock_error_ns: found.error_ns,
            host_clocks: self.host_clocks(&found.clocks),
            stages: rank_stages,
            collectives,
            late,
            compared,
            kernels_left_out: self.kernels_left_out,
        };
        let row = |process: Process| {
            let used = || process.used.iter().filter_map(|&at| devices.get(at as usize));
            ProcessRow {
                devices: used().map(|row| row.device.clone()).collect(),
                device_uuids: used().filter_map(|row| row.uuid.clone()).collect(),
                ..process.row
            }
        };
        (self.processes.into_iter().map(row).collect(), ranks, spans, findings)
    }

    fn host_clocks(&self, clocks: &[(usize, clock::HostCorrection)]) -> Vec<HostClock> {
        let names: HashMap<usize, &Option<String>> =
            self.calls.hosts.iter().map(|(name, &index)| (index, name)).collect();
        let named = |(host, correction): &(usize, clock::HostCorrection)| {
            let name = *names.get(host)?;
            let points = correction.points.iter();
            Some(HostClock {
                host: stage2_contract::text::visible(name.as_ref()?.as_bytes()),
                wall_ahead_ns: self.wall_ahead_ns.get(host).copied()?,
                error_ns: correction.error_ns,
                points: points.map(|&(wall_ns, add_ns)| ClockPoint { wall_ns, add_ns }).collect(),
            })
        };
        clocks.iter().filter_map(named).collect()
    }

    /// Who a process is, and which GPU of it where it has several.
    fn who(&self, member: Member, names: &[String], devices: &[DeviceRow]) -> LateRow {
        let at = member.process as usize;
        let (Some(process), Some(name)) = (self.processes.get(at), names.get(at)) else {
            return LateRow::default();
        };
        let mut who = name.clone();
        if process.used.len() > 1
            && let Some(&device) = process.devices.get(member.device as usize)
            && let Some(device) = devices.get(device as usize)
        {
            who = format!("{who}, GPU {}", device.device);
        }
        LateRow {
            who,
            file: process.row.file.clone(),
            rank: process.row.rank,
            ..LateRow::default()
        }
    }

    fn names(&self) -> Vec<String> {
        let mut ranks: HashMap<u64, usize> = HashMap::new();
        for rank in self.processes.iter().filter_map(Process::rank) {
            *ranks.entry(rank).or_default() += 1;
        }
        let name = |process: &Process| {
            let pid =
                process.row.pid.map_or_else(|| "a process".into(), |pid| format!("pid {pid}"));
            match process.rank().map(|rank| (rank, ranks.get(&rank))) {
                None => pid,
                Some((rank, Some(2..))) => format!("rank {rank} ({pid})"),
                Some((rank, _)) => format!("rank {rank}"),
            }
        };
        self.processes.iter().map(name).collect()
    }

    /// Each process in each stage, where there are several: the slowest first, which is the one that
    /// waited least for the others, or else the one with the longest host time.
    fn stages<'l>(
        &self,
        label: impl Fn(u32) -> &'l str,
        names: &[String],
        devices: &[DeviceRow],
        shares: &BTreeMap<(u32, u32), rows::Share>,
    ) -> Vec<RankStageRow> {
        if self.processes.iter().filter(|process| !process.stages.is_empty()).count() < 2 {
            return Vec::new();
        }
        let mut rows: Vec<RankStageRow> = Vec::new();
        for (at, (process, who)) in (0..).zip(self.processes.iter().zip(names)) {
            let mut used = process.used.iter().filter_map(|&at| devices.get(at as usize));
            let on_shared = used.any(|row| row.shared_by_processes);
            rows.extend(process.stages.iter().map(|(path, row)| {
                let share = shares.get(&(*path, at));
                RankStageRow {
                    stage: label(*path).to_owned(),
                    who: who.clone(),
                    rank: process.row.rank,
                    waiting_ns: share.map(|share| share.all.0),
                    transfer_ns: share.map(|share| share.all.1),
                    warm_waiting_ns: share.and_then(|share| Some(share.warm?.0)),
                    warm_transfer_ns: share.and_then(|share| Some(share.warm?.1)),
                    gpu_idle_ns: row.gpu_idle_ns.filter(|_| !on_shared),
                    warm_idle: row.warm_idle.filter(|_| !on_shared),
                    ..row.clone()
                }
            }));
        }
        rows
    }
}

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
    let row = |(&path, captured): (&PathIndex, &StageCapture)| {
        let window_ns = captured.times.as_ref()?.window_ns.filter(|_| some_recorded);
        let host = process.path_times.get(&path);
        let on_gpu = |value: u64| (some_recorded && captured.recorded).then_some(value);
        let (calls, communication_ns) = kernels.get(&path).copied().unwrap_or_default();
        let busy_ns = captured.busy.all.busy_ns;
        let warm = captured.times.as_ref().and_then(|times| times.warm);
        let warm_busy_ns = captured.busy.without(captured.cold_busy).all.busy_ns;
        let row = RankStageRow {
            file: process.file.clone(),
            instances: host.map_or(0, |host| host.instances),
            host_total_ns: host.and_then(|host| host.host_total_ns),
            host_warm_median_ns: host.and_then(|host| host.host_warm_ns.median()),
            gpu_busy_ns: on_gpu(busy_ns),
            gpu_idle_ns: window_ns.map(|window| window.saturating_sub(busy_ns)),
            warm_idle: warm.filter(|_| window_ns.is_some()).map(|warm| WarmIdle {
                instances: warm.instances,
                ns: warm.window_ns.saturating_sub(warm_busy_ns),
                busy_ns: on_gpu(warm_busy_ns),
            }),
            kernels: on_gpu(calls),
            communication_ns: on_gpu(communication_ns),
            ..RankStageRow::default()
        };
        Some((stage(path), row))
    };
    process.stages.iter().filter_map(row).collect()
}

/// Assumed clock error of a capture with a single anchor, which does not show the drift, ns.
const UNKNOWN_SPREAD_NS: u64 = 100_000;
/// Reading two clocks takes about this long, ns.
const READING_NS: u64 = 1_000;

/// A GPU of a process: what takes part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Member {
    process: u32,
    /// Index of the device in its file.
    device: u32,
}

#[derive(Debug, Default)]
struct ProcessCalls {
    /// With stages of the whole run; times on the clock of `host`, ns.
    calls: Vec<Call>,
    communicators: Vec<Communicator>,
    communicators_made: u64,
    host: usize,
    /// What times of this process may be off by, ns.
    error_ns: u64,
    /// Only some instances of ranges were recorded.
    gated: bool,
    /// Which of those that were made `calls` are.
    thinning: Thinning,
}

#[derive(Clone, Copy, Debug)]
struct MemberCall<'c> {
    process: u32,
    by: &'c ProcessCalls,
    call: &'c Call,
}

impl MemberCall<'_> {
    fn member(self) -> Member {
        Member { process: self.process, device: self.call.device }
    }

    /// Calls of its kind on its device, kept or not.
    fn made(self) -> u32 {
        let made = self.by.thinning.made.get(&(self.call.kind(), self.call.device));
        made.copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct Calls {
    processes: Vec<ProcessCalls>,
    hosts: BTreeMap<Option<String>, usize>,
}

impl Calls {
    /// Takes the calls of `process`. Calls whose times cannot be put on the clock of the host are
    /// left out; the number of their kernels is returned.
    fn add_process(
        &mut self,
        process: &mut ProcessCapture,
        stage: impl Fn(PathIndex) -> u32,
    ) -> u64 {
        let found = std::mem::take(&mut process.collectives);
        let next = self.hosts.len();
        let host = process.process.as_ref().map(|p| p.host.clone());
        let host = *self.hosts.entry(host).or_insert(next);
        let clock = &process.clock;
        let kernels = |calls: &[Call]| calls.iter().map(|call| u64::from(call.kernels)).sum();
        let all: u64 = kernels(&found.calls);
        let stages = &process.stages;
        let on_host = |mut call: Call| {
            let of_stage = stages.get(&call.stage);
            call.outlier = of_stage.is_some_and(|stage| stage.is_outlier(call.start_ns));
            let end_ns = clock.mono(GpuNs(call.end_ns))?.0;
            call.start_ns = clock.mono(GpuNs(call.start_ns))?.0.min(end_ns);
            call.end_ns = end_ns;
            call.stage = stage(call.stage);
            call.path = stage(call.path);
            call.step = call.step.map(|(path, number)| (stage(path), number));
            Some(call)
        };
        let calls: Vec<Call> = found.calls.into_iter().filter_map(on_host).collect();
        let left_out = all.saturating_sub(kernels(&calls));
        self.processes.push(ProcessCalls {
            calls,
            communicators: found.communicators,
            communicators_made: found.communicators_made,
            host,
            error_ns: clock.spread_ns().unwrap_or(UNKNOWN_SPREAD_NS).max(READING_NS),
            gated: process.gated,
            thinning: found.thinning,
        });
        left_out
    }

    /// Keeps of each kind of calls only what all processes kept of it. States how many calls that are,
    /// where they are not all.
    fn even_out(&mut self) -> Option<ComparedCalls> {
        let mut halvings: HashMap<Kind, u32> = HashMap::new();
        for (kind, times) in self.processes.iter().flat_map(|process| &process.thinning.halvings) {
            let most = halvings.entry(*kind).or_default();
            *most = (*most).max(*times);
        }
        if halvings.is_empty() {
            return None;
        }
        let mut all = ComparedCalls::default();
        for process in &mut self.processes {
            let ProcessCalls { calls, thinning, .. } = process;
            // A process that kept all of its calls gave them no numbers.
            if !thinning.is_some() {
                thinning.number_all(calls);
            }
            let halved = |call: &Call| halvings.get(&call.kind()).copied().unwrap_or(0);
            let made = thinning.made.values().map(|&made| u64::from(made));
            all.calls = all.calls.saturating_add(made.sum());
            calls.retain(|call| halved(call) == 0 || thinning.keeps(call, halved(call)));
            all.compared = all.compared.saturating_add(calls.len() as u64);
            let mut kept: HashMap<(Kind, u32), u64> = HashMap::new();
            for call in &*calls {
                *kept.entry((call.kind(), call.device)).or_default() += 1;
            }
            let first = calls.iter().map(|call| call.start_ns).min().unwrap_or(0);
            let last = calls.iter().map(|call| call.end_ns).max().unwrap_or(0);
            all.span_ns = all.span_ns.max(last.saturating_sub(first));
            for call in calls.iter_mut() {
                let key = (call.kind(), call.device);
                // A kind of which all is there need not be matched by number.
                if halved(call) == 0 {
                    call.number = NO_NUMBER;
                }
                let Some(&made) = thinning.made.get(&key) else { continue };
                let recorded = kept.get(&key).copied().unwrap_or(0);
                call.weight = call.weight.times(Sampled { instances: made.into(), recorded });
            }
        }
        Some(all)
    }

    fn all(&self) -> impl Iterator<Item = MemberCall<'_>> {
        (0..).zip(&self.processes).flat_map(|(process, by)| {
            by.calls.iter().map(move |call| MemberCall { process, by, call })
        })
    }
}

#[cfg(test)]
impl Calls {
    /// The call of that index of each of these processes.
    fn set(&self, members: &[(u32, usize)]) -> Vec<MemberCall<'_>> {
        let call = |&(process, at): &(u32, usize)| {
            let by = &self.processes[process as usize];
            MemberCall { process, by, call: &by.calls[at] }
        };
        members.iter().map(call).collect()
    }
}
