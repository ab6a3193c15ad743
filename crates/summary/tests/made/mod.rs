//! Summaries of a job that never ran: eight ranks a host, all-reduces among the ranks of a host and among those of
//! the same local rank.
#![allow(dead_code, reason = "each of several programs uses a part")]

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use stage2_contract::text::operation::Operation;
use stage2_summary::{
    Arrival, Call, Cell, Entry, Extreme, Member, Part, Period, Sketch, StageCell, Sum, Writer,
};

pub(crate) const FIRST_MINUTE: u64 = 29_000_000;
const MINUTE_NS: u64 = 60_000_000_000;
pub(crate) const TRANSFER_NS: u64 = 20_000;
/// Calls in a minute among the ranks of a host, and across hosts.
const CALLS: [u64; 2] = [3_000, 600];
const SAMPLES: usize = 24;

/// Who is late in a minute, by how much, and how much of that is GPU work.
pub(crate) type Lateness = (u64, u64, u64);

pub(crate) struct Made {
    pub(crate) ranks: u64,
    pub(crate) minutes: u64,
    /// Distinguishes jobs.
    pub(crate) job: u64,
    pub(crate) late: Box<dyn Fn(u64) -> Option<Lateness> + Sync>,
    /// The host that a rank is on in a minute; each host starts a process of its own.
    pub(crate) host: Box<dyn Fn(u64, u64) -> u64 + Sync>,
    /// How far the clock of a host is ahead, ns.
    pub(crate) ahead_ns: Box<dyn Fn(u64) -> i64 + Sync>,
    /// The clock of the GPU of a rank, MHz.
    pub(crate) mhz: Box<dyn Fn(u64) -> u64 + Sync>,
    /// Its temperature, degrees Celsius.
    pub(crate) celsius: Box<dyn Fn(u64) -> u64 + Sync>,
    /// The version of NCCL of a rank.
    pub(crate) version: Box<dyn Fn(u64) -> &'static str + Sync>,
}

impl Made {
    pub(crate) fn new(ranks: u64, minutes: u64) -> Self {
        Self {
            ranks,
            minutes,
            job: 1,
            late: Box::new(|_| None),
            host: Box::new(|rank, _| rank / 8),
            ahead_ns: Box::new(|_| 0),
            mhz: Box::new(|_| 1_980),
            celsius: Box::new(|_| 60),
            version: Box::new(|_| "22809"),
        }
    }

    /// Writes a file for each process; gives their paths.
    pub(crate) fn write(&self, folder: &Path) -> Vec<PathBuf> {
        fs::create_dir_all(folder).expect("a folder");
        let sampled: Vec<Vec<u64>> =
            (0..self.minutes).flat_map(|minute| self.sampled(minute)).collect();
        let mut paths = Vec::new();
        for rank in 0..self.ranks {
            let mut minute = 0;
            while minute < self.minutes {
                let host = (self.host)(rank, minute);
                let here = (minute..self.minutes).take_while(|&at| (self.host)(rank, at) == host);
                let end = minute + here.count() as u64;
                let path =
                    folder.join(format!("node-{host:04}-{}-{}-{minute}.s2s", self.job, rank));
                let file = BufWriter::new(File::create(&path).expect("a file"));
                let mut writer = Writer::new(file).expect("a header");
                let member = self.member(rank, host, minute);
                writer.write(&Entry::Member(member.clone())).expect("a member");
                for at in minute..end {
                    let period = self.period(&member, host, rank, at, &sampled);
                    writer.write(&Entry::Period(Box::new(period))).expect("a period");
                }
                writer.flush().expect("space");
                paths.push(path);
                minute = end;
            }
        }
        paths
    }

    /// Numbers of the sampled calls of a minute: among the ranks of a host, and across hosts.
    fn sampled(&self, minute: u64) -> [Vec<u64>; 2] {
        CALLS.map(|calls| {
            // The same for all communicators here: real ones sample other calls each.
            let mut numbers: Vec<u64> = (minute * calls..(minute + 1) * calls).collect();
            let call = |number| Call { number, ..Call::default() };
            numbers.sort_by_key(|&number| call(number).order());
            numbers.truncate(SAMPLES);
            numbers.sort_unstable();
            numbers
        })
    }

    fn member(&self, rank: u64, host: u64, minute: u64) -> Member {
        let gpu = format!("GPU-{rank:08x}-{host:08x}");
        Member {
            id: 1 + rank + (host << 20) + (self.job << 40) + (minute << 48),
            rank: Some(rank),
            world: Some(self.ranks),
            host: format!("node-{host:04}"),
            pid: 1_000 + rank as u32,
            begun_ns: (FIRST_MINUTE + minute) * MINUTE_NS,
            gpus: vec![(gpu, "NVIDIA H200".into())],
            versions: vec![
                ("cupti.version".into(), "130001".into()),
                ("nccl.version".into(), (self.version)(rank).into()),
            ],
            in_part: false,
        }
    }

    fn period(
        &self,
        member: &Member,
        host: u64,
        rank: u64,
        minute: u64,
        sampled: &[Vec<u64>],
    ) -> Period {
        let ahead = (self.ahead_ns)(host);
        let begin = ((FIRST_MINUTE + minute) * MINUTE_NS).saturating_add_signed(ahead);
        let mut period = Period { index: begin / MINUTE_NS, ranks: 1, ..Period::default() };
        let (late_rank, late_ns, work_ns) = (self.late)(minute).unwrap_or((u64::MAX, 0, 0));
        let group = |rank: u64| [rank / 8, rank % 8];
        for (kind, calls) in CALLS.into_iter().enumerate() {
            let [of_host, local] = group(rank);
            let communicator =
                (self.job << 32) + if kind == 0 { 1_000 + of_host } else { 1 + local };
            let members = if kind == 0 { 8.min(self.ranks) } else { self.ranks.div_ceil(8) };
            if members < 2 {
                continue;
            }
            period.communicators.insert(communicator, members);
            let numbers = &sampled[minute as usize * 2 + kind];
            for (at, &number) in numbers.iter().enumerate() {
                let call = Call { communicator, operation: Operation::AllReduce, number };
                // Ranks come within 4 us of each other, and end within 1 us.
                let jitter = (number ^ (rank * 7_919)) % 4_000;
                let same_group = late_rank != u64::MAX && group(late_rank)[0] == of_host;
                let is_late = rank == late_rank || (kind == 1 && same_group);
                // What the ranks of its host pass on, they waited for among themselves.
                let met = kind == 1 || same_group;
                let waits = if met && !is_late && late_rank < self.ranks { late_ns } else { 0 };
                let passes = kind == 1 && is_late && rank != late_rank;
                let part = Part {
                    who: member.id,
                    rank: Some(rank),
                    ns: TRANSFER_NS + jitter + waits,
                    work_ns: 70_000 + jitter + if rank == late_rank { work_ns } else { 0 },
                    collective_ns: 100_000 + if passes { late_ns } else { 0 },
                };
                let share = MINUTE_NS / (numbers.len() as u64 + 1);
                let end = begin + share * (at as u64 + 1) + rank % 1_000;
                let weight = calls / numbers.len() as u64;
                period.arrivals.insert(call, Arrival::of(part, 1 + host, end, weight));
            }
        }
        let (mut steps, mut busy, mut collective) =
            (Sketch::default(), Sketch::default(), Sketch::default());
        for step in 0..60u64 {
            let ns = 90_000_000 + (step * 31 + rank) % 5_000_000;
            steps.add(ns);
            busy.add(ns * 4 / 5);
            collective.add(ns / 5);
        }
        let cell = Cell {
            ranks: 1,
            clock: Extreme { value: (self.mhz)(rank), rank },
            temperature: Extreme { value: (self.celsius)(rank), rank },
            stages: [(
                "decode".to_owned(),
                StageCell {
                    step: Sketch::of(steps.median()),
                    longest: Extreme { value: steps.median(), rank },
                    work: Sketch::of(busy.median()),
                    most_work: Extreme { value: busy.median(), rank },
                },
            )]
            .into(),
            ..Cell::default()
        };
        period.rows.insert(rank, cell);
        let stage = period.stages.entry("decode".to_owned()).or_default();
        for class in ["gemm", "attention", "norm", "communication", "copy", "moe", "elementwise"] {
            let sum = Sum { calls: 40_000, total_ns: 7_000_000_000, longest_ns: 400_000 };
            stage.classes.insert(class.to_owned(), sum);
        }
        (stage.steps, stage.busy, stage.collective) = (steps, busy, collective);
        for (kind, ns) in [("launch gaps", 3_000_000_000), ("in steps", 5_000_000_000)] {
            period.idle.insert(kind.to_owned(), ns);
        }
        (0..60).for_each(|_| period.clocks.add((self.mhz)(rank)));
        (0..60).for_each(|_| period.temperatures.add((self.celsius)(rank)));
        (0..60).for_each(|at| period.power.add(500_000 + at * 1_000));
        period
    }
}
