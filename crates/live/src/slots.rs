//! Numbers of one second each -> the last ten seconds.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxHashMap;

use crate::WINDOW_S;
use crate::numbers::StageNumbers;
use crate::tables::KernelId;

/// Length of a slot, ns.
pub(crate) const SLOT_NS: u64 = 1_000_000_000;
/// Slots that are kept: the window, and what is newer than its end.
const KEPT: u64 = WINDOW_S + 12;
/// Kernels of a slot that have a row of their own.
const KERNELS: usize = 2_048;

/// One second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) stages: FxHashMap<u16, StageNumbers>,
    /// Time and number of launches by stage and kernel.
    pub(crate) kernels: FxHashMap<(u16, KernelId), (u64, u64)>,
    pub(crate) device_busy: FxHashMap<u32, u64>,
    /// Time on the GPU whose records came too late.
    pub(crate) late_ns: u64,
}

impl Slot {
    pub(crate) fn kernel(&mut self, stage: u16, kernel: KernelId, ns: u64) {
        let known = self.kernels.len() < KERNELS || self.kernels.contains_key(&(stage, kernel));
        let key = if known { (stage, kernel) } else { (stage, KernelId::OTHER) };
        let sum = self.kernels.entry(key).or_default();
        *sum = (sum.0.saturating_add(ns), sum.1 + 1);
    }
}

/// Slots by the second that they are of.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    all: BTreeMap<u64, Slot>,
    /// What belongs to seconds that are kept no more.
    dropped: Slot,
}

impl Slots {
    /// The slot of this time.
    pub(crate) fn at(&mut self, ns: u64) -> &mut Slot {
        let second = ns / SLOT_NS;
        let newest = self.all.last_key_value().map_or(second, |(&newest, _)| newest.max(second));
        let oldest = newest.saturating_sub(KEPT);
        while self.all.first_key_value().is_some_and(|(&first, _)| first < oldest) {
            self.all.pop_first();
        }
        if second < oldest {
            // Nobody reads it: too old for any window.
            self.dropped = Slot::default();
            return &mut self.dropped;
        }
        self.all.entry(second).or_default()
    }

    /// What lies in the ten seconds that end with that of `end`.
    pub(crate) fn window(&self, end: u64) -> impl Iterator<Item = &Slot> {
        let last = end / SLOT_NS;
        self.all.range((last + 1).saturating_sub(WINDOW_S)..=last).map(|(_, slot)| slot)
    }
}

/// Numbers of the stages of a window together.
pub(crate) fn by_stage<'s>(slots: impl Iterator<Item = &'s Slot>) -> HashMap<u16, StageNumbers> {
    let mut sums: HashMap<u16, StageNumbers> = HashMap::new();
    for slot in slots {
        for (&stage, numbers) in &slot.stages {
            sums.entry(stage).or_default().add(numbers);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_ten_seconds_and_what_is_older_goes() {
        let mut slots = Slots::default();
        for second in 100..130 {
            slots.at(second * SLOT_NS).stages.entry(1).or_default().step(5, None);
        }
        let steps = |slots: &Slots, end| {
            by_stage(slots.window(end * SLOT_NS)).get(&1).map_or(0, |numbers| numbers.steps)
        };
        assert_eq!((steps(&slots, 126), slots.all.len() as u64), (10, KEPT + 1));
        assert_eq!(steps(&slots, 109), 3, "the seconds from 107 on are kept");
        slots.at(3).stages.entry(1).or_default().step(5, None);
        assert_eq!((steps(&slots, 3), slots.all.len() as u64), (0, KEPT + 1));
    }

    #[test]
    fn kernels_beyond_the_limit_are_one_row() {
        let mut slot = Slot::default();
        for kernel in 0..KERNELS as u32 + 10 {
            slot.kernel(1, KernelId(kernel + 1), 3);
        }
        assert_eq!(slot.kernels[&(1, KernelId::OTHER)], (30, 10));
        slot.kernel(1, KernelId(5), 3);
        assert_eq!(slot.kernels[&(1, KernelId(5))], (6, 2));
    }
}
