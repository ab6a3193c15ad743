//! Collectives of one rank: their kernels become calls with numbers, and of each minute those are sampled that all
//! ranks sample.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::FxHashMap;
use stage2_contract::text::operation::Operation;

use super::{KINDS, Summariser, WAITING, hash};
use crate::late::{Arrival, Call, Part};
use crate::period::{Period, entry};

/// Sampled calls of an operation of a communicator in a period, and of all of them.
const SAMPLES: usize = 24;
const ALL_SAMPLES: usize = 120;

/// A collective that is not numbered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) kind: Kind,
    pub(super) end: u64,
    pub(super) work_ns: u64,
    pub(super) collective_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) communicator: u64,
    pub(super) operation: Operation,
    pub(super) device: u32,
}

/// The latest call of a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    pub(super) launch: (u64, u64),
    pub(super) key: (u64, u64),
    pub(super) made: u64,
    pub(super) work_ns: u64,
    pub(super) collective_ns: u64,
}

/// Samples of a kind in a period, of the lowest order.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) made: u64,
    /// Order and number of each, the highest first to go.
    pub(super) heap: BinaryHeap<(u64, u64)>,
    pub(super) calls: FxHashMap<u64, (Part, u64)>,
}

impl Summariser {
    pub(super) fn collective(
        &mut self,
        kind: Kind,
        launch: (u64, u64),
        (start, end): (u64, u64),
        (work_ns, collective_ns): (u64, u64),
    ) {
        if self.latest.len() >= KINDS && !self.latest.contains_key(&kind) {
            self.unplaced += 1;
            return;
        }
        let latest = self.latest.entry(kind).or_default();
        if latest.launch == launch
            && let Some(pending) = self.pending.get_mut(&latest.key)
            && kind.communicator != 0
        {
            // A call of several kernels. Replays of a graph share a launch, and their nodes a communicator.
            if launch.0 != 0 && start <= pending.end {
                pending.end = pending.end.max(end);
                return;
            }
        }
        self.calls += 1;
        let key = (start, self.calls);
        let pending = Pending {
            kind,
            end,
            work_ns: work_ns.saturating_sub(latest.work_ns),
            collective_ns: collective_ns.saturating_sub(latest.collective_ns),
        };
        let own = end - start;
        (latest.launch, latest.key) = (launch, key);
        (latest.work_ns, latest.collective_ns) = (work_ns, collective_ns.saturating_add(own));
        self.pending.insert(key, pending);
        if self.pending.len() > WAITING {
            self.number_before(start);
            if self.pending.len() > WAITING {
                self.number_before(u64::MAX);
            }
        }
    }

    /// Numbers the collectives that started before `to`: later ones of the same kind all start later.
    pub(super) fn number_before(&mut self, to: u64) {
        while let Some(first) = self.pending.first_entry().filter(|first| first.key().0 < to) {
            let ((start, _), pending) = first.remove_entry();
            let Pending { kind, end, work_ns, collective_ns } = pending;
            let Some(latest) = self.latest.get_mut(&kind) else { continue };
            let number = latest.made;
            latest.made += 1;
            let part = Part {
                who: self.member.id,
                rank: self.member.rank,
                ns: end - start,
                work_ns,
                collective_ns,
            };
            let call = Call { communicator: kind.communicator, operation: kind.operation, number };
            let at = self.wall(end);
            if let Some(building) = self.at(end) {
                building.samples.entry(kind).or_default().add(call, part, at);
            }
        }
    }

    /// Puts the sampled calls into their period.
    pub(super) fn compared(&self, period: &mut Period, samples: BTreeMap<Kind, Samples>) {
        if self.member.in_part {
            return;
        }
        let clock = hash(self.member.host.as_bytes());
        let each = (ALL_SAMPLES / samples.len().max(1)).clamp(2, SAMPLES);
        let only = match self.communicators.len() {
            // Nobody says who takes part: all ranks, if there are few enough to be one group.
            0 => self.member.world.filter(|world| (2..=8).contains(world)).map(|of| (1, of)),
            1 => self.communicators.iter().next().map(|(&hash, &of)| (hash, of)),
            _ => None,
        };
        for (kind, samples) in samples {
            let named = Some(kind.communicator).filter(|&hash| hash != 0);
            let Some(hash) = named.or(only.map(|(hash, _)| hash)) else {
                *entry(&mut period.losses, "collectives of an unknown communicator") +=
                    samples.made;
                continue;
            };
            let members = self.communicators.get(&hash).copied();
            let members = members.or(only.filter(|(of, _)| *of == hash).map(|(_, of)| of));
            members.into_iter().for_each(|members| {
                period.communicators.insert(hash, members);
            });
            let kept = samples.lowest(each);
            let weight = samples.made / (kept.len() as u64).max(1);
            for (number, (part, end)) in kept {
                let call = Call { communicator: hash, operation: kind.operation, number };
                let part = Part { rank: self.member.rank, ..part };
                let arrival = Arrival::of(part, clock, end, weight.max(1));
                match period.arrivals.entry(call) {
                    Entry::Vacant(place) => {
                        place.insert(arrival);
                    }
                    // Another GPU of this process.
                    Entry::Occupied(mut known) => {
                        known.get_mut().merge(arrival);
                    }
                }
            }
        }
    }
}

impl Samples {
    fn add(&mut self, call: Call, part: Part, end: u64) {
        self.made += 1;
        let order = call.order();
        if self.heap.len() >= SAMPLES {
            if self.heap.peek().is_some_and(|&(highest, _)| order >= highest) {
                return;
            }
            if let Some((_, number)) = self.heap.pop() {
                self.calls.remove(&number);
            }
        }
        self.heap.push((order, call.number));
        self.calls.insert(call.number, (part, end));
    }

    fn lowest(&self, most: usize) -> Vec<(u64, (Part, u64))> {
        let mut order: Vec<(u64, u64)> = self.heap.iter().copied().collect();
        order.sort_unstable();
        let numbers = order.iter().take(most).map(|&(_, number)| number);
        numbers.filter_map(|number| Some((number, *self.calls.get(&number)?))).collect()
    }
}
