//! Clocks of several hosts -> one.
//!
//! Processes of one host share its monotonic clock. Hosts share none: wall clocks are seldom within
//! a microsecond of each other. But in a collective that needs all its members nobody ends before
//! the last has started: each one that spans two hosts bounds how far their clocks are apart from
//! both sides, and what all of them leave open is the error.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::{CallId, Calls};

/// Corrections of one host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offset {
    /// To be added, ns.
    add_ns: i128,
    /// What it may be off by, ns; nothing: it cannot be told.
    error_ns: Option<u64>,
}

/// The clock of the run.
#[derive(Debug, Default)]
pub(super) struct CommonClock {
    offsets: BTreeMap<usize, Offset>,
}

impl CommonClock {
    /// Ties the hosts of the members of `sets`, in which all members are needed. Before that, the
    /// clocks of hosts differ by their `wall_ahead_ns`.
    pub(super) fn new<'s>(
        calls: &Calls,
        wall_ahead_ns: &BTreeMap<usize, i64>,
        sets: impl Iterator<Item = &'s Vec<CallId>>,
    ) -> Self {
        let first = wall_ahead_ns.keys().next().copied().unwrap_or(0);
        let base = |host: &usize| i128::from(wall_ahead_ns.get(host).copied().unwrap_or(0));
        let mut bounds: BTreeMap<usize, (i128, i128)> = BTreeMap::new();
        for set in sets {
            // Latest start and earliest end on each host, on wall clocks.
            let mut spans: BTreeMap<usize, (i128, i128)> = BTreeMap::new();
            for &id in set {
                let Some(call) = calls.get(id) else { continue };
                let host = calls.host(id.process);
                let (start, end) = (i128::from(call.start_ns), i128::from(call.end_ns));
                let (start, end) = (start + base(&host), end + base(&host));
                let span = spans.entry(host).or_insert((start, end));
                *span = (span.0.max(start), span.1.min(end));
            }
            let Some(&(start, end)) = spans.get(&first) else { continue };
            for (host, (its_start, its_end)) in spans.into_iter().filter(|&(host, _)| host != first)
            {
                let (least, most) = (start - its_end, end - its_start);
                let bound = bounds.entry(host).or_insert((least, most));
                *bound = (bound.0.max(least), bound.1.min(most));
            }
        }
        let mut offsets = BTreeMap::new();
        for host in wall_ahead_ns.keys() {
            let offset = match bounds.get(host) {
                _ if *host == first => Offset { add_ns: base(host), error_ns: Some(0) },
                // Where clocks drift, the bounds contradict each other by as much.
                Some((least, most)) => Offset {
                    add_ns: base(host) + (least + most) / 2,
                    error_ns: u64::try_from((most - least).abs() / 2).ok(),
                },
                None => Offset { add_ns: base(host), error_ns: None },
            };
            offsets.insert(*host, offset);
        }
        Self { offsets }
    }

    /// A time of a host's monotonic clock, on the common one.
    pub(super) fn at(&self, host: usize, mono_ns: u64) -> i128 {
        i128::from(mono_ns) + self.offsets.get(&host).map_or(0, |offset| offset.add_ns)
    }

    /// What times of these hosts may be off by against each other; nothing where it is not known.
    pub(super) fn error_ns(&self, hosts: impl Iterator<Item = usize>) -> Option<u64> {
        let distinct: BTreeSet<usize> = hosts.collect();
        if distinct.len() < 2 {
            return Some(0);
        }
        let error = |host| self.offsets.get(&host).and_then(|offset| offset.error_ns);
        let mut errors = distinct.into_iter().map(error).collect::<Option<Vec<u64>>>()?;
        errors.sort_unstable_by(|a, b| b.cmp(a));
        Some(errors.into_iter().take(2).fold(0, u64::saturating_add))
    }
}
