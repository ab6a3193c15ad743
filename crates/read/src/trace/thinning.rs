//! Calls beyond those that are kept -> fewer of each kind over the whole time, the same ones in every
//! process.
//!
//! A process that made more calls than are kept one by one halves the kind with the most of them, as
//! often as it takes. Which calls stay follows from a hash of their number alone, so that two processes
//! keep the same ones, and what the one halved more often is a part of what the other kept. A hash, and
//! not every second number: what happens in every eighth step would fall between.

use std::collections::BTreeMap;

pub use super::call::Thinning;
use super::call::{Call, Kind, NO_NUMBER};

/// Kinds of calls of a process.
const MAX_KINDS: usize = 1 << 12;
/// Calls are numbered once so many others (a part of the limit) started later: records come roughly in
/// the order of their start only.
const UNSETTLED: usize = 4;

/// Whether a call, or an instance, of this number stays after so many halvings.
fn stays(number: u32, halvings: u32) -> bool {
    halvings <= weight(number)
}

/// How many halvings it survives: half of all numbers one, a quarter two, and so on.
fn weight(number: u32) -> u32 {
    // The finaliser of SplitMix64: each bit of the number decides about each bit of the hash.
    let mut hash = u64::from(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)).trailing_zeros()
}

impl Thinning {
    /// Whether any call was left out.
    pub fn is_some(&self) -> bool {
        !self.made.is_empty()
    }

    /// Whether `call`, which has a number, is one of those that are kept of its kind.
    pub fn keeps(&self, call: &Call, halvings: u32) -> bool {
        stays(if self.by_instance { call.instance } else { call.number }, halvings)
    }

    /// Halves the largest kinds of `calls` until half of `limit` are left, apart from the latest ones.
    /// With `is_last`, no further ones are halved. Gives the new place of each call that stays.
    pub fn thin(&mut self, calls: &[Call], limit: usize, is_last: bool) -> Vec<Option<u32>> {
        let mut settled: BTreeMap<Kind, [u32; 33]> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.number != NO_NUMBER) {
            let number = if self.by_instance { call.instance } else { call.number };
            let of_weight = settled.entry(call.kind()).or_insert([0; 33]);
            if let Some(count) = of_weight.get_mut(weight(number).min(32) as usize) {
                *count += 1;
            }
        }
        let left = |counts: &[u32; 33], halvings: u32| -> usize {
            counts.iter().skip(halvings as usize).map(|&count| count as usize).sum()
        };
        fn halved(of: &BTreeMap<Kind, u32>, kind: &Kind) -> u32 {
            of.get(kind).copied().unwrap_or(0)
        }
        let mut sizes: BTreeMap<Kind, usize> = settled
            .iter()
            .map(|(kind, counts)| (*kind, left(counts, halved(&self.halvings, kind))))
            .collect();
        let mut all: usize = sizes.values().sum();
        while all > limit / 2 && !is_last {
            let Some((kind, size)) = sizes.iter_mut().max_by_key(|(_, size)| **size) else { break };
            let halvings = self.halvings.entry(*kind).or_default();
            *halvings += 1;
            let then = settled.get(kind).map_or(0, |counts| left(counts, *halvings));
            all -= *size - then;
            *size = then;
        }
        let mut place = 0;
        let kept = calls.iter().map(|call| {
            let halvings = halved(&self.halvings, &call.kind());
            let stays = call.number == NO_NUMBER || self.keeps(call, halvings);
            place += u32::from(stays);
            stays.then(|| place - 1)
        });
        kept.collect()
    }

    /// Gives calls their numbers, in the order of their start: all of them, or all but the `latest`.
    /// Those of more kinds than are told apart get none, and are returned.
    pub(super) fn number(&mut self, calls: &mut [Call], latest: usize) -> Vec<u32> {
        let mut open: Vec<(u64, u64, u32)> = (0..)
            .zip(calls.iter())
            .filter(|(_, call)| call.number == NO_NUMBER)
            .map(|(at, call)| (call.start_ns, call.end_ns, at))
            .collect();
        open.sort_unstable();
        let settled = open.len().saturating_sub(latest);
        let mut beyond = Vec::new();
        for &(.., at) in open.iter().take(settled) {
            let Some(call) = calls.get_mut(at as usize) else { continue };
            let key = (call.kind(), call.device);
            if self.made.len() >= MAX_KINDS && !self.made.contains_key(&key) {
                beyond.push(at);
                continue;
            }
            let made = self.made.entry(key).or_default();
            call.number = *made;
            *made = made.saturating_add(1).min(NO_NUMBER - 1);
        }
        beyond
    }

    /// Gives all of `calls` their numbers.
    pub fn number_all(&mut self, calls: &mut [Call]) {
        self.number(calls, 0);
    }

    /// The latest calls of `limit`, which may be followed by some that started before them.
    pub(super) fn unsettled(limit: usize) -> usize {
        limit / UNSETTLED
    }
}
