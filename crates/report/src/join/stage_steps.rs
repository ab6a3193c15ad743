//! Stages and the ranges right within them, of all processes -> which of them is the step of a
//! stage, how long it takes, and how that went over the run.
//!
//! A step is known by its path. Ranges with a number in their name (`step_1`, `step_2`) have a path
//! each and repeat only across instances: the instances of their stage count as the steps.

use std::collections::BTreeMap;

use super::intern::{Mapping, Tables};
use super::labels::Labels;
use stage2_contract::text::numbers::percent1;
use stage2_model::{StageSteps, StepSeries, StepTimes, StepUnit};
use stage2_read::roles::RoleSettings;
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::step_times::{StepTrack, Steps};

/// Ranges that repeat within an instance of a stage are its steps where there are at least this many.
const REPEATS: u64 = 2;
/// Part of the host time of a stage that its steps cover at least, percent.
const COVERED_PERCENT: u128 = 90;
/// What covers less, and has not the name of a step, is not told where it is no step.
const TOLD_PERCENT: u128 = 50;

/// What may be steps, by path.
#[derive(Debug, Default)]
pub(crate) struct MaybeSteps {
    paths: BTreeMap<u32, Path>,
}

#[derive(Debug, Default)]
struct Path {
    cold: Steps,
    warm: Steps,
    /// The process with the most of them, the first of several.
    most: StepTrack,
    file: String,
}

impl Path {
    fn of(&self, warm: bool) -> &Steps {
        if warm { &self.warm } else { &self.cold }
    }
}

impl MaybeSteps {
    pub(crate) fn take(&mut self, process: &mut ProcessCapture, mapping: &Mapping) {
        for (path, track) in std::mem::take(&mut process.steps) {
            let sum = self.paths.entry(mapping.path(path)).or_default();
            sum.cold.merge(&track.cold);
            sum.warm.merge(&track.warm);
            if track.count() > sum.most.count() {
                sum.most = track;
                sum.file.clone_from(&process.file);
            }
        }
    }

    /// The steps of each stage, by its label, and how they went over the run.
    pub(crate) fn finish(
        &self,
        tables: &Tables,
        labels: &Labels<'_>,
        roles: &RoleSettings,
    ) -> BTreeMap<String, (StageSteps, StepSeries)> {
        let mut within: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for &path in self.paths.keys() {
            let Some(node) = tables.nodes.get(path as usize) else { continue };
            if let Some(parent) = node.parent {
                within.entry(parent).or_default().push(path);
            }
        }
        let outermost =
            |path: &u32| tables.nodes.get(*path as usize).is_some_and(|node| node.parent.is_none());
        let of_stage = |(&stage, own): (&u32, &Path)| {
            let warm = own.warm.times.count() > 0;
            let within = within.get(&stage).into_iter().flatten().copied();
            let repeats =
                |path: &u32| self.paths.get(path).is_some_and(|path| repeats(path.of(warm)));
            let longest = |path: &u32| self.paths.get(path).map(|path| path.of(warm).total_ns);
            let candidate = within.filter(repeats).max_by_key(longest);
            let covers = |path: &u32, percent: u128| {
                let total = self.paths.get(path).map_or(0, |path| path.of(warm).total_ns);
                u128::from(total) * 100 >= u128::from(own.of(warm).total_ns) * percent
            };
            let step = candidate.filter(|path| covers(path, COVERED_PERCENT));
            let path = step.unwrap_or(stage);
            let found = self.paths.get(&path)?;
            let unit = match step {
                Some(_) => StepUnit::RangeWithin,
                None => StepUnit::Instance,
            };
            let label = labels.path(path);
            let name = |path: &u32| labels.path(*path).rsplit('/').next().unwrap_or_default();
            let told = |path: &u32| covers(path, TOLD_PERCENT) || roles.is_step(name(path));
            let passed_over =
                candidate.filter(|path| step.is_none() && told(path)).and_then(|path| {
                    let steps = self.paths.get(&path)?.of(warm);
                    Some(passed_over(labels.path(path), labels.path(stage), steps, own.of(warm)))
                });
            let times =
                StepTimes { passed_over, cold: !warm, ..times(found.of(warm), unit, label)? };
            let series = StepSeries {
                stage: labels.path(stage).to_owned(),
                path: label.to_owned(),
                file: found.file.clone(),
                buckets: found.most.buckets(),
                outliers: found.most.longest(warm, times.p99_ns.unwrap_or(u64::MAX)),
                median: found.most.nearest(warm, times.p50_ns),
            };
            let per_instance = found.of(warm).count as f64 / own.of(warm).count as f64;
            Some((
                labels.path(stage).to_owned(),
                (StageSteps { times, per_instance, warm }, series),
            ))
        };
        self.paths.iter().filter(|(path, _)| outermost(path)).filter_map(of_stage).collect()
    }
}

/// Whether there are several of these in an instance of a stage.
fn repeats(steps: &Steps) -> bool {
    steps.per_instance.median().is_some_and(|median| median >= REPEATS)
}

/// Why `path` is not the step of `stage`.
fn passed_over(path: &str, stage: &str, steps: &Steps, of: &Steps) -> String {
    let percent = steps.total_ns as f64 * 100.0 / of.total_ns.max(1) as f64;
    format!(
        "times are of whole instances of {stage}, because {path} covers {} % of their host time, and \
         a step has to cover {COVERED_PERCENT} %",
        percent1(percent)
    )
}

fn times(steps: &Steps, unit: StepUnit, path: &str) -> Option<StepTimes> {
    let times = &steps.times;
    Some(StepTimes {
        unit,
        path: Some(path.to_owned()),
        steps: times.count(),
        mean_ns: times.mean()?,
        p50_ns: times.median()?,
        p99_ns: times.p99(),
        max_ns: times.max(),
        std_ns: times.deviation(),
        tokens_per_step: None,
        cold: false,
        passed_over: None,
    })
}
