//! Collectives of all processes, by identifiers of the run and on one clock.

use std::collections::{BTreeMap, HashMap};

use stage2_contract::trace::GpuNs;
use stage2_model::ComparedCalls;
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::collectives::Thinning;
use stage2_read::trace::collectives::{Call, Communicator};
use stage2_read::trace::collectives::{Kind, NO_NUMBER};
use stage2_read::trace::paths::PathIndex;
use stage2_read::trace::stats::Sampled;

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
    /// Which of those that were made `calls` are.
    pub(super) thinning: Thinning,
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

    /// Calls of its kind on its device, kept or not.
    pub(super) fn made(self) -> u32 {
        let made = self.by.thinning.made.get(&(self.call.kind(), self.call.device));
        made.copied().unwrap_or(0)
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

    /// Keeps of each kind of calls only what all processes kept of it. Says how many calls that are,
    /// where they are not all.
    pub(super) fn even_out(&mut self) -> Option<ComparedCalls> {
        let mut halvings: HashMap<Kind, u32> = HashMap::new();
        for (kind, times) in self.processes.iter().flat_map(|process| &process.thinning.halvings) {
            let most = halvings.entry(*kind).or_default();
            *most = (*most).max(*times);
        }
        if halvings.is_empty() {
            return None;
        }
        let mut all = ComparedCalls::default();
        let mut extent: Option<(u64, u64)> = None;
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
                let (first, last) = extent.unwrap_or((call.start_ns, call.end_ns));
                extent = Some((first.min(call.start_ns), last.max(call.end_ns)));
            }
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
            all.span_ns = all.span_ns.max(extent.take().map_or(0, |(first, last)| last - first));
        }
        Some(all)
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
