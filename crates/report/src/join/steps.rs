//! Which ranges are the steps of a stage, how long they take and how that went over the run; and in processes
//! without ranges, rows of inferred steps.

use std::collections::BTreeMap;

use crate::join::kernels::percent;
use crate::join::{Labels, Mapping, Tables};
use crate::operators::{Annotation, OperatorSettings};
use stage2_contract::stats::STEPS_COVER_PERCENT;
use stage2_contract::text::numbers::{percent1, shown_time};
use stage2_model::finding::Id;
use stage2_model::{
    Before, InferredStepRow, InferredSteps, Origin, PathKind, Report, Resemblance, StageRow,
    StageSteps, StepBefore, StepSeries, StepTimes, StepUnit,
};
use stage2_read::roles::RoleSettings;
use stage2_read::trace::stats::Series;
use stage2_read::trace::step_times::{StepTrack, Steps};
use stage2_read::trace::steps::{Phase, Repeats};
use stage2_read::trace::{ProcessCapture, WholeProcess};

/// Ranges that repeat within an instance of a stage are its steps where there are at least this many.
const REPEATS: u64 = 2;
/// So many steps of a stage for each one of another stage that may explain why some of them are slow.
const RARE: u64 = 4;
/// What covers less, and has not the name of a step, is not told where it is not a step.
const TOLD_PERCENT: u128 = 50;

/// What may be steps, by path.
#[derive(Debug, Default)]
pub(super) struct StepCandidates {
    paths: BTreeMap<u32, Path>,
    /// Of stages: [`StageCapture::alone`](stage2_read::trace::StageCapture::alone).
    alone: BTreeMap<u32, Series>,
}

/// The steps of a stage.
pub(super) struct Chosen {
    pub(super) steps: StageSteps,
    pub(super) series: StepSeries,
    /// In their place where the host turns out to run ahead of the GPU in them.
    pub(super) whole_calls: Option<WholeCalls>,
}

/// The calls of a stage, each to the end of its GPU work.
#[derive(Clone, Debug)]
pub(crate) struct WholeCalls {
    times: StepTimes,
    /// How their host times went over the run.
    series: StepSeries,
}

#[derive(Debug, Default)]
struct Path {
    cold: Steps,
    warm: Steps,
    /// The process with the most of them, the first of several.
    most: StepTrack,
    /// [`StepTrack::before`] of it.
    before: Vec<(u64, u32, u64)>,
    file: String,
}

impl Path {
    fn of(&self, warm: bool) -> &Steps {
        if warm { &self.warm } else { &self.cold }
    }

    /// How they went over the run. Whose they are stays to be filled in.
    fn series(&self, warm: bool) -> StepSeries {
        let until_next = self.most.until_next.as_deref();
        let until_next = until_next.filter(|track| track.of(warm).times.count() > 0);
        let shown = until_next.unwrap_or(&self.most);
        let times = until_next.map_or(&self.of(warm).times, |track| &track.of(warm).times);
        StepSeries {
            file: self.file.clone(),
            until_next: until_next.is_some(),
            buckets: shown.buckets(),
            // A cold step that no other one followed is not among those shown.
            cold_steps: if warm { self.most.cold.count } else { 0 },
            outliers: shown.longest(warm, times.p99().unwrap_or(u64::MAX)),
            median: shown.nearest(warm, times.median().unwrap_or(0)),
            ..StepSeries::default()
        }
    }
}

impl WholeCalls {
    /// Takes the place of the steps of `row`, in whose median one, of `series`, the host ran ahead of the GPU, which
    /// worked for `gpu_ns` on it.
    pub(crate) fn replace(self, row: &mut StageRow, series: &mut StepSeries, gpu_ns: u64) {
        let Some(steps) = &mut row.steps else { return };
        let (path, host_ns) = (&series.path, steps.times.p50_ns);
        let [gpu, host] = [gpu_ns, host_ns].map(|ns| shown_time(ns as f64));
        let why = format!(
            "times are of whole calls of {}, to the end of their GPU work, because the host runs ahead of the GPU \
             in {path}: the median one lasts {host} on the host, and the GPU works {gpu} for it",
            row.stage
        );
        steps.times = StepTimes { passed_over: Some(why), ..self.times };
        steps.per_instance = 1.0;
        *series = self.series;
    }
}

impl StepCandidates {
    pub(super) fn add_process(&mut self, process: &mut ProcessCapture, mapping: &Mapping) {
        for (&path, stage) in process.stages.iter().filter(|(_, stage)| stage.alone.count() > 0) {
            self.alone.entry(mapping.path(path)).or_default().merge(&stage.alone);
        }
        for (path, track) in std::mem::take(&mut process.steps) {
            let sum = self.paths.entry(mapping.path(path)).or_default();
            sum.cold.merge(&track.cold);
            sum.warm.merge(&track.warm);
            if track.count() > sum.most.count() {
                let shown = track.until_next.as_deref().unwrap_or(&track);
                let before = shown.before.iter();
                sum.before =
                    before.map(|&(number, path, ns)| (number, mapping.path(path), ns)).collect();
                sum.most = track;
                sum.file.clone_from(&process.file);
            }
        }
    }

    /// Each path, with how many of its instances lie in instances of its stage that closed.
    pub(super) fn in_closed(&self) -> impl Iterator<Item = (u32, u64)> {
        let sum = |of: &Path| of.cold.per_instance.sum() + of.warm.per_instance.sum();
        self.paths.iter().filter_map(move |(path, of)| Some((*path, sum(of).try_into().ok()?)))
    }

    /// The steps of each stage, by its label, and how they went over the run.
    pub(super) fn finish(
        &self,
        tables: &Tables,
        labels: &Labels<'_>,
        roles: &RoleSettings,
    ) -> BTreeMap<String, Chosen> {
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
            let all = own.of(warm);
            let within = within.get(&stage).into_iter().flatten();
            let within = within.filter_map(|path| Some((*path, self.paths.get(path)?)));
            let repeats = within.filter(|(_, found)| repeats(found.of(warm)));
            let candidate = repeats.max_by_key(|(_, found)| found.of(warm).total_ns);
            let covers = |found: &Path, percent: u128| {
                u128::from(found.of(warm).total_ns) * 100 >= u128::from(all.total_ns) * percent
            };
            let step = candidate.filter(|(_, found)| covers(found, STEPS_COVER_PERCENT.into()));
            let (path, found) = step.unwrap_or((stage, own));
            let unit = if step.is_some() { StepUnit::RangeWithin } else { StepUnit::Instance };
            let label = labels.path(stage);
            let passed_over = candidate.filter(|_| step.is_none()).and_then(|(path, found)| {
                let path = labels.path(path);
                let name = path.rsplit('/').next().unwrap_or_default();
                let is_told = covers(found, TOLD_PERCENT) || roles.is_step(name);
                is_told.then(|| passed_over(path, label, found.of(warm), all))
            });
            let times = times(&found.of(warm).times, unit, labels.path(path))?;
            let times = StepTimes { passed_over, cold: !warm, ..times };
            let series = |path: u32, of: &Path| {
                let found = of.series(warm);
                let is_slow = |number| found.outliers.iter().any(|step| step.number == number);
                // What steps of a stage that is about as frequent come before is no reason why some are slow.
                let steps = |of: &Path| of.cold.times.count() + of.warm.times.count();
                let is_rare = |other: &u32| {
                    let other = self.paths.get(other).map_or(0, steps);
                    other * RARE <= steps(of)
                };
                let before = of
                    .before
                    .iter()
                    .filter(|(at, other, _)| is_slow(*at) && *other != stage && is_rare(other));
                let before = before.map(|&(number, path, runs_ns)| StepBefore {
                    number,
                    stage: labels.path(path).to_owned(),
                    runs_ns,
                });
                StepSeries {
                    stage: label.to_owned(),
                    path: labels.path(path).to_owned(),
                    before: before.collect(),
                    ..found
                }
            };
            let alone = self.alone.get(&stage).filter(|_| warm);
            let whole_calls = alone.and_then(|alone| {
                let times = self::times(alone, StepUnit::Instance, label)?;
                Some(WholeCalls { times, series: series(stage, own) })
            });
            // Steps of an instance that never ended are in none of those that are counted.
            let per_instance = match step {
                Some((_, found)) => found.of(warm).per_instance.sum() as f64 / all.count as f64,
                None => 1.0,
            };
            let steps = StageSteps { times, per_instance, warm };
            let series = series(path, found);
            Some((label.to_owned(), Chosen { steps, series, whole_calls }))
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
        "times are of whole calls of {stage}, because {path} covers {} % of their host time, and \
         a step has to cover {STEPS_COVER_PERCENT} %",
        percent1(percent)
    )
}

fn times(times: &Series, unit: StepUnit, path: &str) -> Option<StepTimes> {
    Some(StepTimes {
        unit,
        path: Some(path.to_owned()),
        steps: times.count(),
        mean_ns: times.mean()?,
        p50_ns: times.median()?,
        p99_ns: times.p99(),
        max_ns: times.max(),
        std_ns: times.deviation(),
        ..StepTimes::default()
    })
}

/// The steps of all processes that have some.
pub(super) fn inferred(processes: &[ProcessCapture]) -> Option<InferredSteps> {
    let mut rows: Vec<InferredStepRow> = Vec::new();
    let whole =
        processes.iter().filter_map(|p| Some((p, p.whole.as_ref().or(p.inferred.as_ref())?)));
    for (process, whole) in whole {
        for of in &whole.repeats {
            rows.extend(of.phases.iter().map(|phase| inferred_row(process, whole, of, phase)));
        }
    }
    let staged = processes.iter().filter(|process| process.marks.is_some()).count() as u64;
    (!rows.is_empty())
        .then(|| InferredSteps { staged_processes: staged, ..InferredSteps::of(rows) })
}

fn inferred_row(
    process: &ProcessCapture,
    whole: &WholeProcess,
    of: &Repeats,
    phase: &Phase,
) -> InferredStepRow {
    let stream = of.queue.map(|queue| match whole.streams.get(&queue) {
        Some((device, stream)) => format!("device {device}, stream {stream}"),
        None => "(stream not known)".to_owned(),
    });
    let launches = phase.steps.saturating_mul(phase.launches_per_step);
    InferredStepRow {
        file: process.file.clone(),
        pid: process.process.as_ref().map(|process| process.pid),
        stream,
        resembles: match phase.follows_longer_work() {
            true => Resemblance::DecodeLike,
            false => Resemblance::Repeating,
        },
        steps: phase.steps,
        at_least: phase.at_least,
        phases: phase.phases,
        steps_per_phase_median: phase.steps_per_phase.median(),
        kernels_per_step: phase.launches_per_step.saturating_sub(phase.graphs_per_step),
        graphs_per_step: phase.graphs_per_step,
        timed_steps: phase.step_times.timed(),
        step_p50_ns: phase.step_times.percentile_ns(50),
        step_p99_ns: phase.step_times.p99_ns(),
        step_mean_ns: phase.step_times.mean_ns(),
        kernel_sum_per_step_ns: phase.kernel_sum_ns.checked_div(phase.steps),
        window_ns: phase.window_ns,
        sequence_percent: percent(launches, of.launches),
        irregular_kernels: phase.irregular_launches,
        before: before(phase),
    }
}

fn before(phase: &Phase) -> Option<Before> {
    let leads = &phase.leads;
    let prefill_like = phase.follows_longer_work();
    if leads.launches.count() > 0 {
        return Some(Before {
            prefill_like,
            from_program_start: false,
            times: leads.launches.count(),
            kernels_min: leads.launches.min(),
            kernels_median: leads.launches.median(),
            kernels_max: leads.launches.max(),
            kernel_sum_median_ns: leads.kernel_sum_ns.median(),
        });
    }
    let first = phase.first_lead.filter(|lead| lead.launches > 0)?;
    let [kernels_min, kernels_median, kernels_max] = [Some(first.launches); 3];
    let kernel_sum_median_ns = Some(first.kernel_sum_ns);
    Some(Before {
        prefill_like,
        from_program_start: true,
        times: 1,
        kernels_min,
        kernels_median,
        kernels_max,
        kernel_sum_median_ns,
    })
}

/// Says that there are no stages, why steps are there or not, and how to have stages. `settings` say
/// what the workload was made to mark.
pub(crate) fn explain(report: &mut Report, settings: &OperatorSettings) {
    let whole = report.stages.iter().find(|row| row.kind == PathKind::WholeProcess);
    let stage = whole.map(|row| row.stage.clone());
    let staged = report.inferred_steps.as_ref().and_then(InferredSteps::stages_in_words);
    let why = match (stage, &report.inferred_steps, has_sequence(report)) {
        (None, ..) => match staged {
            Some(how) => how.to_owned(),
            None => return,
        },
        (Some(stage), Some(steps), _) => {
            format!("{stage} is one stage, loading and warm-up included; steps are {}", steps.label)
        }
        (Some(stage), None, true) => format!(
            "{stage} is one stage, loading and warm-up included; no steps are reported: its kernels \
             show no clear repeating pattern"
        ),
        (Some(stage), None, false) => format!(
            "{stage} is one stage; no steps are reported: its source has totals per kernel, not \
             their order"
        ),
    };
    let mut executables = report.coverage.processes.iter().filter_map(|p| p.exe.as_deref());
    let python = match report.run.command.as_deref().and_then(<[String]>::first) {
        Some(program) => is_python(program),
        None => executables.any(is_python),
    };
    // Where it was on, to say that it should be is no help.
    let remedy = if python && !settings.annotate.contains(&Annotation::PrefillDecode) {
        "run again with --annotate prefill-decode (a Hugging Face model), or open NVTX ranges such as \
         prefill and decode in the program"
    } else {
        "open NVTX ranges such as prefill and decode in the program"
    };
    report.findings.push(Id::RangesNoneRecorded.found(
        "none of the workload's ranges was recorded",
        why,
        remedy,
    ));
}

/// Whether the rows come from records that stand in the order of their launches.
fn has_sequence(report: &Report) -> bool {
    let is_from = |label: &Origin| report.source == label.label();
    is_from(&Origin::Collector)
        || (is_from(&Origin::Nsys) && report.kernels.iter().any(|row| row.times.p50_ns.is_some()))
}

/// `python`, `/usr/bin/python3.12`, `torchrun` and similar ones.
fn is_python(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    ["python", "torchrun", "accelerate", "vllm"].iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_by_any_of_its_names() {
        for name in ["python", "python3", "/opt/venv/bin/python3.12", "torchrun"] {
            assert!(is_python(name), "{name}");
        }
        for name in ["", "bash", "/usr/bin/stage2-demo", "/python/serve"] {
            assert!(!is_python(name), "{name}");
        }
    }
}
