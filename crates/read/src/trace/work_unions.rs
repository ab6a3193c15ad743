//! GPU work of devices and stages -> how long any of it ran, and what it was.
//!
//! The work of a stage has three unions: kernels that compute, all kernels, all work. They begin as
//! one, and part only where work comes that is in one and not in the other: a stage that only
//! computes pays for one union.

use std::collections::{BTreeMap, HashMap};

use super::paths::PathIndex;
use super::stats::{Share, Span};
use stage2_contract::stats::{Busy, Unions};

/// What work is to the window of its stage; where work overlaps, the first has the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Kernels that compute, and whole graphs.
    Compute,
    Communication,
    Copies,
}

/// Time in which work ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTime {
    /// Any work.
    pub all: Busy,
    /// Kernels, and whole graphs, ns.
    pub kernels_ns: u64,
    /// Kernels that compute (communication kernels are left out), and whole graphs, ns.
    pub compute_ns: u64,
}

impl WorkTime {
    /// The time of the other work, where that of `first` overlaps none of it.
    pub fn without(self, first: Self) -> Self {
        let mut all = self.all;
        all.busy_ns = all.busy_ns.saturating_sub(first.all.busy_ns);
        // As in `Layers::time`.
        let compute_ns = self.compute_ns.saturating_sub(first.compute_ns).min(all.busy_ns);
        let kernels_ns = self.kernels_ns.saturating_sub(first.kernels_ns);
        Self { all, kernels_ns: kernels_ns.clamp(compute_ns, all.busy_ns), compute_ns }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    stage: usize,
    /// Unions of the device, and of the stage on the device.
    unions: [usize; 2],
}

#[derive(Debug, Default)]
pub(super) struct WorkUnions {
    unions: Unions,
    devices: HashMap<u32, usize>,
    places: HashMap<PathIndex, usize>,
    stages: Vec<StageUnions>,
}

#[derive(Debug)]
struct StageUnions {
    path: PathIndex,
    by_device: Vec<(u32, usize)>,
    /// Of all devices: with one device, `layers.all` is its union.
    layers: Layers,
    /// Of its first instance, on all devices.
    cold: Option<Layers>,
}

/// Unions of work, each holding those before it.
#[derive(Clone, Copy, Debug)]
struct Layers {
    compute: usize,
    kernels: usize,
    all: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StageWork {
    pub(super) busy: WorkTime,
    pub(super) cold_busy: WorkTime,
    pub(super) by_device: BTreeMap<u32, Busy>,
}

impl WorkUnions {
    pub(super) fn within(share: Share) -> Self {
        Self { unions: share.unions(), ..Self::default() }
    }
    pub(super) fn place(&mut self, stage: PathIndex, device: u32) -> Place {
        let Self { unions, devices, places, stages } = self;
        let of_device = *devices.entry(device).or_insert_with(|| unions.create());
        let at = *places.entry(stage).or_insert(stages.len());
        let on_device = match stages.get_mut(at) {
            Some(known) => known.on(device, unions),
            None => {
                let union = unions.create();
                let layers = Layers::one(union);
                let by_device = vec![(device, union)];
                stages.push(StageUnions { path: stage, by_device, layers, cold: None });
                union
            }
        };
        Place { stage: at, unions: [of_device, on_device] }
    }

    /// Adds work with valid times; `cold`: of the first instance of its stage.
    pub(super) fn add(&mut self, place: Place, part: Part, span: Span, cold: bool) {
        let Self { unions, stages, .. } = self;
        let Some(stage) = stages.get_mut(place.stage) else { return };
        stage.layers.part_before(part, unions);
        for union in place.unions {
            unions.add(union, span.start, span.end);
        }
        let [_, done] = place.unions;
        stage.layers.add(part, span, Some(done), unions);
        if cold {
            let cold = stage.cold.get_or_insert_with(|| Layers::one(unions.create()));
            cold.part_before(part, unions);
            cold.add(part, span, None, unions);
        }
    }

    /// The time of each device, and of each stage.
    pub(super) fn finish(self) -> (BTreeMap<u32, Busy>, HashMap<PathIndex, StageWork>) {
        let busy = self.unions.finish();
        let busy_of = |union: usize| busy.get(union).copied().unwrap_or_default();
        let devices = self.devices.into_iter().map(|(device, union)| (device, busy_of(union)));
        let stages = self.stages.into_iter().map(|stage| {
            let by_device = stage.by_device.iter().map(|&(d, union)| (d, busy_of(union)));
            let work = StageWork {
                busy: stage.layers.time(busy_of),
                cold_busy: stage.cold.map(|cold| cold.time(busy_of)).unwrap_or_default(),
                by_device: by_device.collect(),
            };
            (stage.path, work)
        });
        (devices.collect(), stages.collect())
    }
}

impl StageUnions {
    /// The union of this stage on `device`. The second device adds one over all devices, which
    /// goes on from what the first one had so far.
    fn on(&mut self, device: u32, unions: &mut Unions) -> usize {
        if let Some(&(_, union)) = self.by_device.iter().find(|&&(d, _)| d == device) {
            return union;
        }
        if let &[(_, first)] = self.by_device.as_slice() {
            self.layers.replace(first, unions.fork(first));
        }
        let union = unions.create();
        self.by_device.push((device, union));
        union
    }
}

impl Layers {
    fn one(union: usize) -> Self {
        Self { compute: union, kernels: union, all: union }
    }

    fn replace(&mut self, old: usize, new: usize) {
        for union in [&mut self.compute, &mut self.kernels, &mut self.all] {
            if *union == old {
                *union = new;
            }
        }
    }

    /// Parts the unions that `part` is not in from those that it is in.
    fn part_before(&mut self, part: Part, unions: &mut Unions) {
        match part {
            Part::Compute => {}
            Part::Communication if self.compute == self.kernels => {
                self.compute = unions.fork(self.kernels);
            }
            Part::Copies if self.kernels == self.all => {
                let fork = unions.fork(self.all);
                if self.compute == self.kernels {
                    self.compute = fork;
                }
                self.kernels = fork;
            }
            Part::Communication | Part::Copies => {}
        }
    }

    /// Adds to each union that `part` is in, once, and not to `done`.
    fn add(&self, part: Part, span: Span, done: Option<usize>, unions: &mut Unions) {
        let mut add = |union: usize| {
            if Some(union) != done {
                unions.add(union, span.start, span.end);
            }
        };
        add(self.all);
        if part != Part::Copies && self.kernels != self.all {
            add(self.kernels);
        }
        if part == Part::Compute && self.compute != self.kernels {
            add(self.compute);
        }
    }

    fn time(self, busy_of: impl Fn(usize) -> Busy) -> WorkTime {
        let all = busy_of(self.all);
        // Each union folds what is old by itself: what comes late may be in one and not in another.
        let compute_ns = busy_of(self.compute).busy_ns.min(all.busy_ns);
        let kernels_ns = busy_of(self.kernels).busy_ns.clamp(compute_ns, all.busy_ns);
        WorkTime { all, kernels_ns, compute_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Work = (u32, Part, u64, u64);

    fn work() -> impl Strategy<Value = Vec<Work>> {
        let part = prop::sample::select(vec![Part::Compute, Part::Communication, Part::Copies]);
        let one = (0u32..2, part, 1u64..200, 0u64..30);
        prop::collection::vec(one.prop_map(|(d, p, start, ns)| (d, p, start, start + ns)), 0..40)
    }

    fn covered(work: &[Work], has: impl Fn(Part) -> bool) -> u64 {
        let runs = |t| work.iter().any(|&(_, part, s, e)| has(part) && s <= t && t < e);
        (0..300u64).filter(|&t| runs(t)).count() as u64
    }

    proptest! {
        #[test]
        fn each_part_is_what_a_count_of_every_moment_gives(cold in work(), rest in work()) {
            let mut unions = WorkUnions::default();
            for (at, &(device, part, start, end)) in cold.iter().chain(&rest).enumerate() {
                let place = unions.place(7, device);
                unions.add(place, part, Span { start, end }, at < cold.len());
            }
            let (_, stages) = unions.finish();
            let found = stages.get(&7).cloned().unwrap_or_default();
            let all = [cold.clone(), rest].concat();
            for (time, work) in [(found.busy, &all), (found.cold_busy, &cold)] {
                prop_assert_eq!(time.all.busy_ns, covered(work, |_| true));
                prop_assert_eq!(time.kernels_ns, covered(work, |part| part != Part::Copies));
                prop_assert_eq!(time.compute_ns, covered(work, |part| part == Part::Compute));
            }
        }
    }

    #[test]
    fn a_stage_that_only_computes_has_one_union() {
        let mut unions = WorkUnions::default();
        let place = unions.place(7, 0);
        unions.add(place, Part::Compute, Span { start: 1, end: 2 }, false);
        let Layers { compute, kernels, all } = unions.stages[0].layers;
        assert_eq!((compute, kernels), (all, all));
    }
}
