//! Outliers of a stage in each process -> those of the stage.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use stage2_contract::text::visible;
use stage2_contract::trace::GpuNs;
use stage2_model::{BusyParts, OUTLIERS_MOST, Outlier, Outliers, StepUnit, WarmRow};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::outliers::{Alone, Found, Looked};
use stage2_read::trace::work_unions::WorkTime;

/// What the processes found in a stage.
#[derive(Debug, Default)]
pub(super) struct Sums {
    instances: Looked,
    of_steps: Looked,
    found: Option<Outliers>,
    kernels: BTreeMap<usize, (u64, u64)>,
    /// Some process has outliers of another kind: they are not in `found`, and stay in all numbers.
    others: bool,
}

impl Sums {
    /// `name` gives the index of a kernel's name in those of the run.
    pub(super) fn take(
        &mut self,
        process: &ProcessCapture,
        found: &Found,
        name: impl Fn(&[u8]) -> Option<usize>,
    ) {
        self.instances.add(found.instances);
        self.of_steps.add(found.of_steps);
        if found.all.is_empty() {
            return;
        }
        let unit = if found.steps { StepUnit::RangeWithin } else { StepUnit::Instance };
        let is_known = found.among_enough && found.all.iter().all(|alone| alone.work.is_some());
        if !self.tells_of(unit, is_known) {
            return;
        }
        let Some(sum) = &mut self.found else { return };
        let bytes = |name: u32| process.names.get(name as usize).map(Vec::as_slice);
        for alone in &found.all {
            sum.count += 1;
            sum.time_ns = sum.time_ns.saturating_add(alone.ns());
            add(&mut sum.gpu, alone, unit);
            let longest = alone.work.as_ref().and_then(|work| work.longest);
            let longest = longest.and_then(|(name, ns)| {
                let name = stage2_contract::text::kernel_name(bytes(name)?);
                Some((name.short, ns))
            });
            let mono = process.clock.mono(GpuNs(alone.start));
            let busy_ns = alone.work.as_ref().map(|work| work.busy.all.busy_ns);
            sum.longest.push(Outlier {
                file: visible(process.file.as_bytes()),
                wall_ns: mono.zip(process.wall_ahead_ns).and_then(|(mono, ahead)| {
                    i64::try_from(mono.0).ok().map(|mono| mono.saturating_add(ahead))
                }),
                ns: alone.ns(),
                idle_ns: busy_ns.map(|busy_ns| alone.ns().saturating_sub(busy_ns)),
                longest_kernel: longest,
            });
            for (&file_name, &(calls, ns)) in alone.work.iter().flat_map(|work| &work.kernels) {
                let Some(index) = bytes(file_name).and_then(&name) else { continue };
                let of_name = self.kernels.entry(index).or_default();
                of_name.0 = of_name.0.saturating_add(calls);
                of_name.1 = of_name.1.saturating_add(ns);
            }
        }
        // Processes of a job pause together: the longest say it all.
        sum.longest.sort_by_key(|one| Reverse(one.ns));
        sum.longest.truncate(OUTLIERS_MOST);
    }

    /// Whether outliers of this kind are those that are told of, and not dropped for others.
    fn tells_of(&mut self, unit: StepUnit, left_out: bool) -> bool {
        // Whole instances say more than steps, and what is left out more than what is only named.
        let rank = |unit, left_out| (left_out, unit == StepUnit::Instance);
        let known = self.found.as_ref().map(|known| rank(known.unit, known.left_out));
        let new = rank(unit, left_out);
        self.others |= known.is_some_and(|known| known != new);
        if known.is_none_or(|known| known < new) {
            self.found = Some(Outliers { unit, left_out, ..Outliers::default() });
            self.kernels.clear();
        }
        known.is_none_or(|known| known <= new)
    }

    pub(super) fn finish(self) -> Option<Outliers> {
        let mut found = self.found?;
        found.left_out &= !self.others;
        let looked = match found.unit {
            StepUnit::Instance => self.instances,
            _ => self.of_steps,
        };
        (found.of, found.of_ns) = (looked.count, looked.ns);
        found.percent = found.time_ns as f64 * 100.0 / looked.ns.max(1) as f64;
        let kernels = self.kernels.into_iter();
        found.kernels = kernels.map(|(name, (calls, ns))| (name, calls, ns)).collect();
        Some(found)
    }
}

fn add(all: &mut WarmRow, alone: &Alone, unit: StepUnit) {
    all.instances += u64::from(unit == StepUnit::Instance);
    all.gpu_window_ns = all.gpu_window_ns.saturating_add(alone.ns());
    let Some(work) = &alone.work else { return };
    let busy = work.busy;
    all.gpu_busy_ns = all.gpu_busy_ns.saturating_add(busy.all.busy_ns);
    all.gpu_short_gaps_ns = all.gpu_short_gaps_ns.saturating_add(busy.all.short_gaps_ns);
    let before: BusyParts = all.gpu_busy_parts.unwrap_or_default();
    all.gpu_busy_parts = Some(before.plus(parts(busy)));
    let kernels = work.kernels.values().map(|(calls, _)| *calls);
    all.kernels = kernels.fold(all.kernels, u64::saturating_add);
}

/// What the busy time went into.
pub(super) fn parts(time: WorkTime) -> BusyParts {
    let WorkTime { all, kernels_ns, compute_ns } = time;
    BusyParts {
        compute_ns,
        communication_ns: kernels_ns.saturating_sub(compute_ns),
        copies_ns: all.busy_ns.saturating_sub(kernels_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_left_out_only_where_those_of_all_processes_are() {
        let kinds = [
            (StepUnit::Instance, true),
            (StepUnit::RangeWithin, true),
            (StepUnit::Instance, false),
        ];
        for (at, a) in kinds.into_iter().enumerate() {
            for (other, b) in kinds.into_iter().enumerate() {
                let mut sums = Sums::default();
                assert!(sums.tells_of(a.0, a.1));
                assert_eq!(sums.tells_of(b.0, b.1), other <= at, "{a:?} {b:?}");
                let found = sums.finish().expect("outliers");
                assert_eq!(
                    (found.unit, found.left_out),
                    (kinds[at.min(other)].0, a.1 && a == b),
                    "{a:?} {b:?}"
                );
            }
        }
    }
}
