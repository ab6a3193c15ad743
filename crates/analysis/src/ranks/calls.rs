//! Collectives of all processes, by identifiers of the run and on one clock.

use std::collections::BTreeMap;

use crate::load::ProcessCapture;
use crate::load::collectives::{Call, Communicator};
use crate::load::paths::PathIndex;
use stage2_spool::GpuNs;

/// Assumed clock error of a capture with a single anchor, which says nothing about drift, ns.
const UNKNOWN_SPREAD_NS: u64 = 100_000;
/// Reading two clocks takes about this long, ns.
const READING_NS: u64 = 1_000;

/// A GPU of a process: what takes part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Member {
    pub(super) process: u32,
    /// Index of the device in its file.
    pub(super) device: u32,
}

/// The calls of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessCalls {
    /// With stages of the whole run; times on the clock of `host`, ns.
    pub(super) calls: Vec<Call>,
    pub(super) communicators: Vec<Communicator>,
    pub(super) communicators_made: u64,
    pub(super) host: usize,
    /// What times of this process may be off by, ns.
    pub(super) error_ns: u64,
    /// Only some instances of ranges were recorded.
    pub(super) gated: bool,
    /// When the first of the calls began that were not kept, on the clock of `host`, ns.
    pub(super) cut_from_ns: Option<u64>,
}

/// A call, and who made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberCall<'c> {
    /// Index of the process.
    pub(super) process: u32,
    pub(super) by: &'c ProcessCalls,
    pub(super) call: &'c Call,
}

impl MemberCall<'_> {
    pub(super) fn member(self) -> Member {
        Member { process: self.process, device: self.call.device }
    }
}

/// All calls of the run.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) processes: Vec<ProcessCalls>,
    pub(super) hosts: BTreeMap<Option<String>, usize>,
}

impl Calls {
    /// Takes the calls of `process`. Calls whose times cannot be put on the clock of the host are
    /// left out; the number of their kernels is returned.
    pub(super) fn take(
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
            Some(call)
        };
        let calls: Vec<Call> = found.calls.into_iter().filter_map(on_host).collect();
        // Without a place on the clock it may be any time.
        let on_clock = |at| clock.mono(GpuNs(at)).map_or(0, |at| at.0);
        let cut_from_ns = found.beyond_from_ns.map(on_clock);
        let left_out = all.saturating_sub(kernels(&calls));
        self.processes.push(ProcessCalls {
            calls,
            communicators: found.communicators,
            communicators_made: found.communicators_made,
            host,
            error_ns: clock.spread_ns().unwrap_or(UNKNOWN_SPREAD_NS).max(READING_NS),
            gated: process.gated,
            cut_from_ns,
        });
        left_out
    }

    pub(super) fn all(&self) -> impl Iterator<Item = MemberCall<'_>> {
        (0..).zip(&self.processes).flat_map(|(process, by)| {
            by.calls.iter().map(move |call| MemberCall { process, by, call })
        })
    }
}

#[cfg(test)]
impl Calls {
    /// The call of that index of each of these processes.
    pub(super) fn set(&self, members: &[(u32, usize)]) -> Vec<MemberCall<'_>> {
        let call = |&(process, at): &(u32, usize)| {
            let by = &self.processes[process as usize];
            MemberCall { process, by, call: &by.calls[at] }
        };
        members.iter().map(call).collect()
    }
}
