//! One collective as each member took part in it -> who came last, by how much, and why.
//!
//! In a collective that needs all its members, nobody ends before the last one has come, and all end together. So the
//! time that a member was in it is its waiting and the transfer, and the last one is the one that was in it for the
//! shortest time. That takes durations and no common clock: hosts whose clocks are hours apart compare as well as
//! the GPUs of one. What the ends may be apart is the error: among members on one host it is measured, and among
//! hosts it is no more than the time from the last arrival to the end of that member.

use stage2_contract::stats;
use stage2_contract::text::operation::Operation;
use stage2_contract::trace::varint::{Cursor, put, put_step};

use crate::sketch::Sketch;

/// A call of a communicator: its number among those of its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Hash of the communicator.
    pub communicator: u64,
    /// What it does.
    pub operation: Operation,
    /// From 0, in the order of time.
    pub number: u64,
}

impl Call {
    /// Calls of the lowest order are sampled. It follows from the number alone, so that all members sample the same
    /// ones, and is not a regular pattern, so that what happens in every eighth step is met.
    pub fn order(&self) -> u64 {
        mixed(self.number ^ self.communicator.rotate_left(32) ^ self.operation as u64)
    }
}

/// SplitMix64, as published.
pub(crate) fn mixed(value: u64) -> u64 {
    stats::mixed(value.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// A member as it took part in a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// [`Member::id`](crate::Member::id).
    pub who: u64,
    /// Its rank.
    pub rank: Option<u64>,
    /// From the start to the end of its kernels, ns.
    pub ns: u64,
    /// GPU work other than collectives since its previous call of this kind, ns.
    pub work_ns: u64,
    /// Time in other collectives since then, ns.
    pub collective_ns: u64,
}

/// A call, of the members that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// [`Part::ns`] of each.
    pub durations: Sketch,
    /// [`Part::work_ns`] of each.
    pub work: Sketch,
    /// [`Part::collective_ns`] of each.
    pub collective: Sketch,
    /// The shortest.
    pub last: Part,
    /// The host whose clock `ends` are of, as a hash; 0: of several.
    pub clock: u64,
    /// The first and the last end, ns since the Unix epoch. Of several hosts: those of the first one.
    pub ends: (u64, u64),
    /// How far ends on one host are apart at most, ns; nothing where no two are of one host.
    pub apart_ns: Option<u64>,
    /// Calls that this sampled one stands for.
    pub weight: u64,
}

impl Arrival {
    /// One member, which ended at `end_ns` on the clock of its host.
    pub fn of(part: Part, clock: u64, end_ns: u64, weight: u64) -> Self {
        Self {
            durations: Sketch::of(part.ns),
            work: Sketch::of(part.work_ns),
            collective: Sketch::of(part.collective_ns),
            last: part,
            clock,
            ends: (end_ns, end_ns),
            apart_ns: None,
            weight,
        }
    }

    /// Adds other members.
    pub fn merge(&mut self, other: Self) {
        self.durations.merge(&other.durations);
        self.work.merge(&other.work);
        self.collective.merge(&other.collective);
        if (other.last.ns, other.last.who) < (self.last.ns, self.last.who) {
            self.last = other.last;
        }
        self.apart_ns = self.apart_ns.max(other.apart_ns);
        self.weight = self.weight.max(other.weight);
        if self.clock == other.clock && self.clock != 0 {
            let (a, b) = (self.ends, other.ends);
            self.ends = (a.0.min(b.0), a.1.max(b.1));
            self.apart_ns = self.apart_ns.max(Some(self.ends.1 - self.ends.0));
        } else {
            self.clock = 0;
        }
    }

    /// What a lateness may be off by, ns.
    fn error_ns(&self) -> u64 {
        match self.apart_ns {
            Some(apart) if self.clock != 0 => apart,
            apart => apart.unwrap_or(0).max(self.last.ns),
        }
        .max(1_000)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>, before: &Self) {
        let alone = self.durations.count() == 1;
        let same = (self.last.who, self.last.rank) == (before.last.who, before.last.rank);
        let clock = self.clock == before.clock;
        let flags = u8::from(alone) | u8::from(same) << 1 | u8::from(clock) << 2;
        out.push(flags | u8::from(self.apart_ns.is_some()) << 3);
        if !same {
            put(out, self.last.who);
            put(out, self.last.rank.map_or(0, |rank| rank.saturating_add(1)));
        }
        if !clock {
            put(out, self.clock);
        }
        [self.last.ns, self.last.work_ns, self.last.collective_ns, self.weight]
            .into_iter()
            .for_each(|value| put(out, value));
        put_step(out, before.ends.0, self.ends.0);
        if !alone {
            put(out, self.ends.1 - self.ends.0);
            [&self.durations, &self.work, &self.collective]
                .into_iter()
                .for_each(|sketch| sketch.put(out));
        }
        if let Some(apart) = self.apart_ns {
            put(out, apart);
        }
    }

    pub(crate) fn get(c: &mut Cursor<'_>, before: &Self) -> Option<Self> {
        let flags = c.byte()?;
        let is = |bit: u8| flags >> bit & 1 == 1;
        let (who, rank) = match is(1) {
            true => (before.last.who, before.last.rank),
            false => (c.u64()?, c.u64()?.checked_sub(1)),
        };
        let clock = if is(2) { before.clock } else { c.u64()? };
        let (ns, work_ns, collective_ns) = (c.u64()?, c.u64()?, c.u64()?);
        let weight = c.u64()?;
        let end = c.step(before.ends.0)?;
        let last = Part { who, rank, ns, work_ns, collective_ns };
        let mut arrival = Self::of(last, clock, end, weight);
        if !is(0) {
            arrival.ends.1 = end.checked_add(c.u64()?)?;
            arrival.durations = Sketch::get(c).filter(|sketch| sketch.count() > 1)?;
            arrival.work = Sketch::get(c)?;
            arrival.collective = Sketch::get(c)?;
        }
        arrival.apart_ns = if is(3) { Some(c.u64()?) } else { None };
        Some(arrival)
    }
}

/// How late a rank was, over the calls in which it came last. Times stand for all calls, sampled or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Sampled calls.
    pub samples: u64,
    /// Calls that these stand for.
    pub calls: u64,
    /// How much later than the median of the others, summed, ns.
    pub late_ns: u64,
    /// The part of that which it spent in other collectives: it passed on what another one caused.
    pub passed_on_ns: u64,
    /// The part that more GPU work than the others had explains.
    pub work_ns: u64,
    /// The most in one call, ns.
    pub most_ns: u64,
    /// What the others waited for it, all together, ns.
    pub waited_ns: u64,
    /// What the lateness in a call may be off by at most, ns.
    pub error_ns: u64,
}

impl Late {
    /// Adds other calls.
    pub fn merge(&mut self, other: Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.samples, other.samples);
        add(&mut self.calls, other.calls);
        add(&mut self.late_ns, other.late_ns);
        add(&mut self.passed_on_ns, other.passed_on_ns);
        add(&mut self.work_ns, other.work_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
        add(&mut self.waited_ns, other.waited_ns);
        self.error_ns = self.error_ns.max(other.error_ns);
    }

    fn fields(&mut self) -> [&mut u64; 8] {
        let Self { samples, calls, late_ns, passed_on_ns, work_ns, most_ns, waited_ns, error_ns } =
            self;
        [samples, calls, late_ns, passed_on_ns, work_ns, most_ns, waited_ns, error_ns]
    }

    pub(crate) fn put(mut self, out: &mut Vec<u8>) {
        self.fields().into_iter().for_each(|field| put(out, *field));
    }

    pub(crate) fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let mut late = Self::default();
        for field in late.fields() {
            *field = c.u64()?;
        }
        Some(late)
    }
}

/// The calls that were compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Sampled calls with two members or more.
    pub samples: u64,
    /// Of those, calls that some members are missing of.
    pub incomplete: u64,
    /// Calls of which only one member is known, and which say nothing.
    pub alone: u64,
    /// Calls whose last member came no later than what the ends may be apart.
    pub within_error: u64,
    /// Calls that found no room.
    pub dropped: u64,
    /// The largest error, ns.
    pub error_ns: u64,
    /// How late the last one came, ns.
    pub lateness: Sketch,
    /// What was waited for ranks that are not listed, ns.
    pub waited_for_others_ns: u64,
}

impl Settled {
    pub(crate) fn merge(&mut self, mut other: Self) {
        for (sum, more) in self.sums().into_iter().zip(other.sums()) {
            *sum = sum.saturating_add(*more);
        }
        self.error_ns = self.error_ns.max(other.error_ns);
        self.lateness.merge(&other.lateness);
    }

    fn sums(&mut self) -> [&mut u64; 6] {
        let Self { samples, incomplete, alone, within_error, dropped, .. } = self;
        [samples, incomplete, alone, within_error, dropped, &mut self.waited_for_others_ns]
    }

    /// Compares the members of a call; gives the last one where it is late.
    pub(crate) fn take(&mut self, arrival: &Arrival, whole: bool) -> Option<(u64, Late)> {
        let Arrival { durations, work, collective, last, .. } = arrival;
        let count = durations.count();
        if count < 2 {
            self.alone = self.alone.saturating_add(1);
            return None;
        }
        self.samples = self.samples.saturating_add(1);
        self.incomplete = self.incomplete.saturating_add(u64::from(!whole));
        let error_ns = arrival.error_ns();
        self.error_ns = self.error_ns.max(error_ns);
        let late_ns = durations.usual().saturating_sub(last.ns);
        self.lateness.add(late_ns);
        if late_ns <= error_ns {
            self.within_error = self.within_error.saturating_add(1);
            return None;
        }
        // Of two, the usual amount is that of the other one.
        let usual = |of: &Sketch, own: u64| match count {
            2 => of.sum().saturating_sub(own),
            _ => of.median(),
        };
        let passed_on = last.collective_ns.saturating_sub(usual(collective, last.collective_ns));
        let passed_on = passed_on.min(late_ns);
        let more_work = last.work_ns.saturating_sub(usual(work, last.work_ns));
        let waited = durations.sum().saturating_sub(last.ns.saturating_mul(count));
        let weight = arrival.weight.max(1);
        let all = |ns: u64| ns.saturating_mul(weight);
        let late = Late {
            samples: 1,
            calls: weight,
            late_ns: all(late_ns),
            passed_on_ns: all(passed_on),
            work_ns: all(more_work.min(late_ns - passed_on)),
            most_ns: late_ns,
            waited_ns: all(waited),
            error_ns,
        };
        Some((last.who, late))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut copy = self.clone();
        copy.sums().into_iter().for_each(|sum| put(out, *sum));
        put(out, self.error_ns);
        self.lateness.put(out);
    }

    pub(crate) fn get(c: &mut Cursor<'_>) -> Option<Self> {
        let mut settled = Self::default();
        for sum in settled.sums() {
            *sum = c.u64()?;
        }
        settled.error_ns = c.u64()?;
        settled.lateness = Sketch::get(c)?;
        Some(settled)
    }
}
