//! What one rank, or any number of them, did in one minute; and how two of these become one.
//!
//! Everything here merges in any order, and stays small: names and ranks are limited, and what is beyond is counted.

use std::collections::BTreeMap;

use stage2_contract::text::operation::Operation;
use stage2_contract::trace::varint::{Cursor, put, put_bytes, put_step};

use crate::late::{Arrival, Call, Late, Settled};
use crate::sketch::Sketch;

/// Length of a period, ns. Periods begin at whole minutes of the wall clock of the summary.
pub const PERIOD_NS: u64 = 60_000_000_000;
/// Stages, classes of kernels, and causes of idle time that are told apart.
const NAMES: usize = 24;
/// Bytes of a name.
const NAME_BYTES: usize = 80;
/// What is beyond.
const OTHER: &str = "(other)";
/// Rows of a heat map. Ranks beyond share a row.
pub const ROWS: usize = 128;
/// Ranks whose lateness is known one by one in a period.
const LATE_RANKS: usize = 64;
/// Collectives that are still to be compared in a summary of several ranks.
const ARRIVALS: usize = 1 << 14;
/// Communicators of a period.
const COMMUNICATORS: usize = 1 << 14;

/// Whose summary it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// A hash of host, process and start.
    pub id: u64,
    /// Rank in its job; nothing where nobody said it.
    pub rank: Option<u64>,
    /// Ranks of its job.
    pub world: Option<u64>,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// When its trace began, ns since the Unix epoch by its own clock.
    pub begun_ns: u64,
    /// Its GPUs: UUID and name.
    pub gpus: Vec<(String, String)>,
    /// Versions: of what, and which.
    pub versions: Vec<(String, String)>,
    /// Only parts of its run are recorded: its collectives cannot be numbered.
    pub in_part: bool,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub calls: u64,
    /// Their GPU time, ns.
    pub total_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
}

/// The steps of a stage that ended in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Host time of a step, ns.
    pub steps: Sketch,
    /// Time of a step in which its GPU worked, ns.
    pub busy: Sketch,
    /// The part of that in collectives, which includes waiting, ns.
    pub collective: Sketch,
    /// Kernels by class.
    pub classes: BTreeMap<String, Sum>,
}

/// A value of one rank that stands out among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extreme {
    /// The value; 0: none.
    pub value: u64,
    /// Whose.
    pub rank: u64,
}

impl Extreme {
    fn raise(&mut self, other: Self) {
        if other.value > self.value || (other.value == self.value && other.rank < self.rank) {
            *self = other;
        }
    }

    fn lower(&mut self, other: Self) {
        if self.value == 0 || (other.value != 0 && other.value < self.value) {
            *self = other;
        }
    }
}

/// What ranks next to each other did in a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageCell {
    /// The median step of each rank, ns.
    pub step: Sketch,
    /// The longest of these.
    pub longest: Extreme,
    /// Median time of each rank in which its GPU worked on a step, without collectives, ns.
    pub work: Sketch,
    /// The most of that.
    pub most_work: Extreme,
}

/// Ranks next to each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// How many of them said something.
    pub ranks: u64,
    /// How long the others waited for the latest of them, over all calls, ns.
    pub late: Extreme,
    /// The lowest clock, MHz.
    pub clock: Extreme,
    /// The highest temperature, degrees Celsius.
    pub temperature: Extreme,
    /// By stage.
    pub stages: BTreeMap<String, StageCell>,
}

/// One minute of one rank, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// Minutes since the Unix epoch.
    pub index: u64,
    /// Summaries of single ranks in it.
    pub ranks: u64,
    /// By name.
    pub stages: BTreeMap<String, Stage>,
    /// Time without GPU work, by kind or by the call that the host was in, ns.
    pub idle: BTreeMap<String, u64>,
    /// Clocks of the multiprocessors, MHz.
    pub clocks: Sketch,
    /// Temperatures, degrees Celsius.
    pub temperatures: Sketch,
    /// Power, mW.
    pub power: Sketch,
    /// Why the clocks were lower than they could be: the bits of `nvmlClocksEventReasons`.
    pub clock_reasons: u64,
    /// What was not recorded, by kind.
    pub losses: BTreeMap<String, u64>,
    /// How far a wall clock moved since the beginning of its trace, at most, ms; whose.
    pub clock_moved_ms: Extreme,
    /// Members of communicators.
    pub communicators: BTreeMap<u64, u64>,
    /// Sampled collectives of which not all members are here.
    pub arrivals: BTreeMap<Call, Arrival>,
    /// Who was late in the others, by [`Member::id`].
    pub late: BTreeMap<u64, Late>,
    /// All of the others.
    pub settled: Settled,
    /// Ranks by row: those whose number shifted by so many bits is the row.
    pub shift: u32,
    /// The rows.
    pub rows: BTreeMap<u64, Cell>,
}

/// The entry of a name; that of all others where there are too many.
pub(crate) fn entry<'m, T: Default>(map: &'m mut BTreeMap<String, T>, name: &str) -> &'m mut T {
    if !map.contains_key(name) {
        let full = map.len() - usize::from(map.contains_key(OTHER)) >= NAMES;
        let end = name.floor_char_boundary(NAME_BYTES);
        let name = if full { OTHER } else { name.get(..end).unwrap_or(name) };
        return map.entry(name.to_owned()).or_default();
    }
    map.entry(name.to_owned()).or_default()
}

pub(crate) fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl Period {
    /// Adds what other ranks did in the same period.
    pub fn merge(&mut self, other: Self) {
        add(&mut self.ranks, other.ranks);
        for (name, stage) in other.stages {
            entry(&mut self.stages, &name).merge(stage);
        }
        for (name, ns) in other.idle {
            add(entry(&mut self.idle, &name), ns);
        }
        self.clocks.merge(&other.clocks);
        self.temperatures.merge(&other.temperatures);
        self.power.merge(&other.power);
        self.clock_reasons |= other.clock_reasons;
        for (name, count) in other.losses {
            add(entry(&mut self.losses, &name), count);
        }
        self.clock_moved_ms.raise(other.clock_moved_ms);
        for (hash, members) in other.communicators {
            if self.communicators.len() < COMMUNICATORS || self.communicators.contains_key(&hash) {
                let known = self.communicators.entry(hash).or_default();
                *known = members.max(*known);
            }
        }
        for (call, arrival) in other.arrivals {
            match self.arrivals.entry(call) {
                std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(arrival)),
                std::collections::btree_map::Entry::Occupied(mut known) => {
                    known.get_mut().merge(arrival);
                }
            }
        }
        for (who, late) in other.late {
            self.late.entry(who).or_default().merge(late);
        }
        self.settled.merge(other.settled);
        self.widen(other.shift);
        for (row, cell) in other.rows {
            let row = row >> (self.shift.saturating_sub(other.shift)).min(63);
            self.rows.entry(row).or_default().merge(cell);
        }
        let mut shift = self.shift;
        while self.rows.last_key_value().is_some_and(|(row, _)| *row >= ROWS as u64) && shift < 63 {
            shift += 1;
            self.widen(shift);
        }
    }

    fn widen(&mut self, shift: u32) {
        let by = shift.saturating_sub(self.shift).min(63);
        if by == 0 {
            return;
        }
        self.shift = shift.min(63);
        for (row, cell) in std::mem::take(&mut self.rows) {
            self.rows.entry(row >> by).or_default().merge(cell);
        }
    }

    /// Compares the collectives of which all members are here; of those that are left, `all` of them. Call it once all
    /// ranks are merged.
    pub fn settle(&mut self, all: bool) {
        let arrivals = std::mem::take(&mut self.arrivals);
        for (call, arrival) in arrivals {
            let members = self.communicators.get(&call.communicator).copied().unwrap_or(0);
            let whole = members > 1 && arrival.durations.count() >= members;
            if !whole && !all {
                self.arrivals.insert(call, arrival);
                continue;
            }
            let rank = arrival.last.rank;
            if let Some((who, late)) = self.settled.take(&arrival, whole) {
                if let Some(rank) = rank {
                    let cell = self.rows.entry(rank >> self.shift).or_default();
                    let before = self.late.get(&who).map_or(0, |known| known.waited_ns);
                    let value = before.saturating_add(late.waited_ns);
                    cell.late.raise(Extreme { value, rank });
                }
                self.late.entry(who).or_default().merge(late);
            }
        }
        if self.arrivals.len() > ARRIVALS {
            // The same ones in all parts of a tree: what stays follows from the numbers of the calls alone.
            let mut order: Vec<Call> = self.arrivals.keys().copied().collect();
            order.sort_by_key(|call| call.order());
            for call in order.iter().skip(ARRIVALS) {
                self.arrivals.remove(call);
                add(&mut self.settled.dropped, 1);
            }
        }
        let mut by_time: Vec<(u64, u64)> =
            self.late.iter().map(|(&who, late)| (late.waited_ns, who)).collect();
        by_time.sort_unstable_by(|a, b| b.cmp(a));
        for (_, who) in by_time.iter().skip(LATE_RANKS) {
            if let Some(late) = self.late.remove(who) {
                add(&mut self.settled.waited_for_others_ns, late.waited_ns);
            }
        }
    }
}

impl Stage {
    fn merge(&mut self, other: Self) {
        self.steps.merge(&other.steps);
        self.busy.merge(&other.busy);
        self.collective.merge(&other.collective);
        for (class, sum) in other.classes {
            let known = entry(&mut self.classes, &class);
            add(&mut known.calls, sum.calls);
            add(&mut known.total_ns, sum.total_ns);
            known.longest_ns = known.longest_ns.max(sum.longest_ns);
        }
    }
}

impl Cell {
    /// Adds other ranks, or the same at another time.
    pub fn merge(&mut self, other: Self) {
        add(&mut self.ranks, other.ranks);
        self.late.raise(other.late);
        self.clock.lower(other.clock);
        self.temperature.raise(other.temperature);
        for (name, stage) in other.stages {
            let known = entry(&mut self.stages, &name);
            known.step.merge(&stage.step);
            known.longest.raise(stage.longest);
            known.work.merge(&stage.work);
            known.most_work.raise(stage.most_work);
        }
    }
}

// Bytes. Fields in the order of the types; a reader steps over what is behind the last one that it knows.

fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(NAME_BYTES);
    put_bytes(out, text.get(..end).unwrap_or(text).as_bytes());
}

fn get_text(c: &mut Cursor<'_>) -> Option<String> {
    let mut text = c.string()?;
    text.truncate(text.floor_char_boundary(NAME_BYTES));
    Some(text)
}

fn put_map<T>(
    out: &mut Vec<u8>,
    map: &BTreeMap<String, T>,
    mut value: impl FnMut(&mut Vec<u8>, &T),
) {
    put(out, map.len() as u64);
    for (name, of) in map {
        put_text(out, name);
        value(out, of);
    }
}

fn get_map<T: Default>(
    c: &mut Cursor<'_>,
    mut value: impl FnMut(&mut Cursor<'_>) -> Option<T>,
) -> Option<BTreeMap<String, T>> {
    let mut map = BTreeMap::new();
    for _ in 0..c.u64()? {
        let name = c.string()?;
        *entry(&mut map, &name) = value(c)?;
    }
    Some(map)
}

fn put_pairs(out: &mut Vec<u8>, pairs: &[(String, String)]) {
    put(out, pairs.len() as u64);
    for (a, b) in pairs {
        put_text(out, a);
        put_text(out, b);
    }
}

fn get_pairs(c: &mut Cursor<'_>) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for _ in 0..c.u64()? {
        pairs.push((get_text(c)?, get_text(c)?));
    }
    Some(pairs)
}

/// What may be unknown, as one more than it is.
fn put_known(out: &mut Vec<u8>, value: Option<u64>) {
    put(out, value.map_or(0, |value| value.saturating_add(1)));
}

impl Member {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(out, self.id);
        put_known(out, self.rank);
        put_known(out, self.world);
        put_text(out, &self.host);
        put(out, u64::from(self.pid));
        put(out, self.begun_ns);
        put_pairs(out, &self.gpus);
        put_pairs(out, &self.versions);
        put(out, u64::from(self.in_part));
    }

    pub(crate) fn get(c: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            id: c.u64()?,
            rank: c.u64()?.checked_sub(1),
            world: c.u64()?.checked_sub(1),
            host: get_text(c)?,
            pid: c.u32()?,
            begun_ns: c.u64()?,
            gpus: get_pairs(c)?,
            versions: get_pairs(c)?,
            in_part: c.u64()? != 0,
        })
    }
}

impl Extreme {
    fn put(self, out: &mut Vec<u8>) {
        put(out, self.value);
        if self.value > 0 {
            put(out, self.rank);
        }
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let value = c.u64()?;
        Some(Self { value, rank: if value > 0 { c.u64()? } else { 0 } })
    }
}

impl Stage {
    fn put(&self, out: &mut Vec<u8>) {
        self.steps.put(out);
        self.busy.put(out);
        self.collective.put(out);
        put_map(out, &self.classes, |out, sum| {
            [sum.calls, sum.total_ns, sum.longest_ns].into_iter().for_each(|value| put(out, value));
        });
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            steps: Sketch::get(c)?,
            busy: Sketch::get(c)?,
            collective: Sketch::get(c)?,
            classes: get_map(c, |c| {
                Some(Sum { calls: c.u64()?, total_ns: c.u64()?, longest_ns: c.u64()? })
            })?,
        })
    }
}

impl Cell {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.ranks);
        [self.late, self.clock, self.temperature].into_iter().for_each(|extreme| extreme.put(out));
        put_map(out, &self.stages, |out, stage| {
            stage.step.put(out);
            stage.longest.put(out);
            stage.work.put(out);
            stage.most_work.put(out);
        });
    }

    fn get(c: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            ranks: c.u64()?,
            late: Extreme::get(c)?,
            clock: Extreme::get(c)?,
            temperature: Extreme::get(c)?,
            stages: get_map(c, |c| {
                Some(StageCell {
                    step: Sketch::get(c)?,
                    longest: Extreme::get(c)?,
                    work: Sketch::get(c)?,
                    most_work: Extreme::get(c)?,
                })
            })?,
        })
    }
}

/// The operation of this number; nothing where this version does not know it.
const OPERATIONS: [Operation; 4] =
    [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll];

impl Period {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put(out, self.index);
        put(out, self.ranks);
        put_map(out, &self.stages, |out, stage| stage.put(out));
        put_map(out, &self.idle, |out, ns| put(out, *ns));
        [&self.clocks, &self.temperatures, &self.power]
            .into_iter()
            .for_each(|sketch| sketch.put(out));
        put(out, self.clock_reasons);
        put_map(out, &self.losses, |out, count| put(out, *count));
        self.clock_moved_ms.put(out);
        put(out, self.communicators.len() as u64);
        for (&hash, &members) in &self.communicators {
            put(out, hash);
            put(out, members);
        }
        self.settled.put(out);
        put(out, self.late.len() as u64);
        for (&who, late) in &self.late {
            put(out, who);
            late.put(out);
        }
        put(out, u64::from(self.shift));
        put(out, self.rows.len() as u64);
        for (&row, cell) in &self.rows {
            put(out, row);
            cell.put(out);
        }
        put(out, self.arrivals.len() as u64);
        let (mut before, mut last) = (Call::default(), Arrival::default());
        for (call, arrival) in &self.arrivals {
            put(out, call.communicator ^ before.communicator);
            let number = OPERATIONS.iter().position(|known| *known == call.operation);
            put(out, number.unwrap_or(0) as u64);
            put_step(out, before.number, call.number);
            arrival.put(out, &last);
            (before, last) = (*call, arrival.clone());
        }
    }

    pub(crate) fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let mut period = Self {
            index: c.u64()?,
            ranks: c.u64()?,
            stages: get_map(c, Stage::get)?,
            idle: get_map(c, |c| c.u64())?,
            clocks: Sketch::get(c)?,
            temperatures: Sketch::get(c)?,
            power: Sketch::get(c)?,
            clock_reasons: c.u64()?,
            losses: get_map(c, |c| c.u64())?,
            clock_moved_ms: Extreme::get(c)?,
            ..Self::default()
        };
        for _ in 0..c.u64()? {
            period.communicators.insert(c.u64()?, c.u64()?);
        }
        period.settled = Settled::get(c)?;
        for _ in 0..c.u64()? {
            period.late.insert(c.u64()?, Late::get(c)?);
        }
        period.shift = c.u32().filter(|shift| *shift < 64)?;
        for _ in 0..c.u64()? {
            period.rows.insert(c.u64()?, Cell::get(c)?);
        }
        let mut before = Call::default();
        let mut last: Option<Arrival> = None;
        for _ in 0..c.u64()? {
            let communicator = c.u64()? ^ before.communicator;
            let operation = usize::try_from(c.u64()?).ok().and_then(|at| OPERATIONS.get(at));
            let number = c.step(before.number)?;
            let operation = *operation?;
            let none = Arrival::default();
            let arrival = Arrival::get(c, last.as_ref().unwrap_or(&none))?;
            before = Call { communicator, operation, number };
            last = Some(arrival.clone());
            period.arrivals.insert(before, arrival);
        }
        Some(period)
    }
}
