//! Steps of an engine in each process -> how long a step takes at which batch.

use std::collections::BTreeMap;

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted};
use stage2_model::finding::Id;
use stage2_model::{
    EngineRun, EngineStepRow, EngineSteps, Finding, Report, StepFit, TokensCounted, outlasts_step,
};
use stage2_read::engine::{StepKind, StepWork};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::engine_steps::{self, StepGroup, StepShape};

use super::requests;
use crate::conclusions::sample_basis::{SampleBasis, is_in_part, sample_basis};

/// Limit for the rows of a kind. If there are more, neighbours are joined.
const MOST_ROWS: usize = 24;
/// A line needs at least this many rows.
const FEWEST_ROWS: usize = 3;
/// Coefficient of determination from which a line is shown.
const LEAST_R2: f64 = 0.9;

/// What the engine of a run did, if there is one. The ranks of an engine run the same steps, so only the process
/// with the most steps is shown.
pub(super) fn run(processes: &[ProcessCapture]) -> (Option<EngineRun>, Vec<Finding>) {
    let with_steps = || processes.iter().filter(|process| process.engine.steps() > 0);
    // The first one, if several processes have the same number.
    let most = with_steps().rev().max_by_key(|process| process.engine.steps());
    let unsound: u64 = processes.iter().map(|process| process.engine.unsound_names).sum();
    let finding = (unsound > 0).then(|| {
        Id::EngineSteps.found(
            format!("{} names of steps hold impossible numbers", count(unsound)),
            "tokens without a request, or counts beyond 64 bits: each of these ranges is a separate stage",
            "compare the names with the engine's adapter (conf/engine), and write your own adapter",
        )
    });
    let unsound_records: u64 = processes.iter().map(|process| process.requests.unsound).sum();
    let of_records = (unsound_records > 0).then(|| {
        Id::EngineRequests.found(
            format!("{} of requests cannot be used", counted(unsound_records, "record")),
            "their numbers contradict each other, or the request had already ended: they do not count",
            "compare the fields of stage2.request with docs/recipes/vllm.md",
        )
    });
    let run = most.map(|process| EngineRun {
        waiting_pause_ns: requests::waiting_ns(process, processes),
        requests: requests::of_run(processes),
        ..of_process(process, with_steps().count() as u64)
    });
    (run, finding.into_iter().chain(of_records).collect())
}

fn of_process(process: &ProcessCapture, processes: u64) -> EngineRun {
    let found = &process.engine;
    let engine = found.engines.iter().max_by_key(|(_, names)| **names);
    let mut kinds: BTreeMap<StepKind, Vec<(&StepShape, &StepGroup)>> = BTreeMap::new();
    for (shape, group) in &found.groups {
        kinds.entry(shape.kind).or_default().push((shape, group));
    }
    let mut kinds: Vec<EngineSteps> =
        kinds.into_iter().map(|(kind, groups)| steps_of(kind, &groups)).collect();
    kinds.order_by_key(|kind| std::cmp::Reverse(kind.timed_ns));
    let engine_steps::EngineSteps { pauses, pause_ns, extent, first_ns, other_steps, .. } = *found;
    EngineRun {
        engine: engine.map(|(name, _)| name.clone()),
        version: None,
        file: process.file.clone(),
        processes,
        kinds,
        pauses,
        pause_ns,
        extent_ns: extent.map_or(0, |(first, last)| last.saturating_sub(first)),
        first_step_ns: extent.map(|_| first_ns),
        other_steps,
        unsound_names: found.unsound_names,
        ..EngineRun::default()
    }
}

fn steps_of(kind: StepKind, groups: &[(&StepShape, &StepGroup)]) -> EngineSteps {
    let all = sum(groups);
    let timed = &all.timed_work;
    // Times, rates and floors are those of the timed steps: a step that loads and compiles may do far more.
    let (steps, work) = match all.times.count() {
        0 => (all.steps, &all.work),
        count => (count, timed),
    };
    let mean = |total: u64| total as f64 / steps.max(1) as f64;
    let StepWork { prefill_requests, decode_requests, decode_context_tokens, .. } = *work;
    // How many drafted tokens were accepted is not known here.
    let tokens = match kind {
        StepKind::Prefill | StepKind::Mixed => {
            timed.prompt_tokens().map(|read| read.saturating_add(timed.decode_requests))
        }
        StepKind::Decode | StepKind::Verify => Some(timed.decode_requests),
    };
    let tokens_counted = match kind {
        StepKind::Prefill => TokensCounted::Prompt,
        StepKind::Mixed => TokensCounted::PromptAndGenerated,
        StepKind::Decode | StepKind::Verify => TokensCounted::Generated,
    };
    let timed_ns = u64::try_from(all.times.sum()).unwrap_or(u64::MAX);
    let rows = rows_of(kind, groups);
    let knows_prompts = prefill_requests == 0 || work.prefill_tokens > 0;
    EngineSteps {
        stage: kind.to_string(),
        steps: all.steps,
        timed_steps: all.times.count(),
        timed_ns,
        p50_ns: all.times.median(),
        p99_ns: all.times.p99(),
        max_ns: all.times.max(),
        std_ns: all.times.deviation(),
        prefill_requests_mean: mean(prefill_requests),
        prefill_tokens_mean: knows_prompts.then(|| mean(work.prefill_tokens)),
        decode_requests_mean: mean(decode_requests),
        decode_context_mean: (decode_context_tokens > 0).then(|| mean(decode_context_tokens)),
        tokens_per_s: tokens
            .filter(|_| timed_ns > 0)
            .map(|tokens| tokens as f64 / (timed_ns as f64 / 1e9)),
        gpu_work_ns: None,
        tokens_counted,
        fit: fit(kind, &rows),
        rows,
    }
}

/// Where a step has GPU work for longer than it lasts on the host, tokens are per second of that work: the host cannot get
/// tokens out of a GPU that is not done. A window that is longer than the step does not count: in a pipeline, windows overlap.
pub(super) fn rates_of_the_gpu(report: &mut Report) {
    let Some(mut run) = report.engine.take() else { return };
    let processes = || report.processes.iter().filter(|process| process.kernels > 0);
    // A process with several GPUs works for longer than it lasts.
    let has_one_gpu_each = processes().all(|process| process.devices.len() <= 1);
    for kind in run.kinds.iter_mut().filter(|_| has_one_gpu_each) {
        // Steps before a pause have no time, and may do far more than those that have one.
        if kind.timed_steps * 10 < kind.steps * 9 || kind.tokens_per_s.is_none() {
            continue;
        }
        let row = report.stages.iter().find(|row| row.stage == kind.stage);
        // Recorded steps alone may be slower than the mean of all.
        let Some(row) = row.filter(|row| !is_in_part(report, row)) else { continue };
        let SampleBasis { instances, busy_ns, .. } = sample_basis(report, row);
        let Some(busy_ns) = busy_ns.filter(|_| instances > 0) else { continue };
        // The steps are those of one process: of others that do something else, the work is no measure.
        let steps = kind.steps * (processes().count() as u64).max(1);
        if instances.abs_diff(steps) * 10 > steps + 10 {
            continue;
        }
        let step_ns = kind.timed_ns as f64 / kind.timed_steps.max(1) as f64;
        let work_ns = busy_ns as f64 / instances as f64;
        if outlasts_step(work_ns, step_ns) {
            kind.tokens_per_s = kind.tokens_per_s.map(|rate| rate * step_ns / work_ns);
            kind.gpu_work_ns = Some(work_ns as u64);
        }
    }
    report.engine = Some(run);
}

fn sum(groups: &[(&StepShape, &StepGroup)]) -> StepGroup {
    let mut all = StepGroup::default();
    for (_, group) in groups {
        all.steps = all.steps.saturating_add(group.steps);
        all.times.merge(&group.times);
        all.work.add(&group.work);
        all.timed_work.add(&group.timed_work);
    }
    all
}

/// A row contains the steps with the same number of requests, or for prefill with the same number
/// of tokens if it is known. If there are too many rows, neighbours are joined.
fn rows_of(kind: StepKind, groups: &[(&StepShape, &StepGroup)]) -> Vec<EngineStepRow> {
    let size = |shape: &StepShape| match kind {
        StepKind::Prefill if shape.prefill_tokens > 0 => shape.prefill_tokens,
        _ => shape.prefill_requests.saturating_add(shape.decode_requests),
    };
    let mut by_size: BTreeMap<u64, Vec<(&StepShape, &StepGroup)>> = BTreeMap::new();
    for &(shape, group) in groups {
        by_size.entry(size(shape)).or_default().push((shape, group));
    }
    let each = by_size.len().div_ceil(MOST_ROWS).max(1);
    let sizes: Vec<_> = by_size.into_values().collect();
    sizes.chunks(each).map(|joined| row(&joined.concat())).collect()
}

fn row(groups: &[(&StepShape, &StepGroup)]) -> EngineStepRow {
    let requests = groups.iter().map(|(shape, _)| shape.prefill_requests + shape.decode_requests);
    let all = sum(groups);
    let mean = |total: u64| total as f64 / all.steps.max(1) as f64;
    let StepWork { prefill_context_tokens, decode_context_tokens, .. } = all.work;
    let context = prefill_context_tokens.saturating_add(decode_context_tokens);
    EngineStepRow {
        requests: requests.clone().min().unwrap_or(0),
        requests_to: requests.max().unwrap_or(0),
        tokens_mean: all.work.tokens().map(mean),
        context_mean: (context > 0).then(|| mean(context)),
        steps: all.steps,
        timed_steps: all.times.count(),
        p50_ns: all.times.median(),
        p99_ns: all.times.p99(),
    }
}

/// The least-squares line through the medians of the rows, weighted by their timed steps.
fn fit(kind: StepKind, rows: &[EngineStepRow]) -> Option<StepFit> {
    let by_tokens = kind == StepKind::Prefill && rows.iter().all(|row| row.tokens_mean.is_some());
    let x = |row: &EngineStepRow| {
        let requests = (row.requests + row.requests_to) as f64 / 2.0;
        row.tokens_mean.filter(|_| by_tokens).unwrap_or(requests)
    };
    let timed =
        rows.iter().filter_map(|row| Some((x(row), row.p50_ns? as f64, row.timed_steps as f64)));
    let points: Vec<(f64, f64, f64)> = timed.collect();
    if points.len() < FEWEST_ROWS {
        return None;
    }
    let mean = |of: &dyn Fn(&(f64, f64, f64)) -> f64| {
        let weights: f64 = points.iter().map(|point| point.2).sum();
        points.iter().map(|point| of(point) * point.2).sum::<f64>() / weights
    };
    let (mean_x, mean_y) = (mean(&|point| point.0), mean(&|point| point.1));
    let spread = |a: &dyn Fn(&(f64, f64, f64)) -> f64, b: &dyn Fn(&(f64, f64, f64)) -> f64| {
        mean(&|point| a(point) * b(point))
    };
    let (of_x, of_y) =
        (|point: &(f64, f64, f64)| point.0 - mean_x, |point: &(f64, f64, f64)| point.1 - mean_y);
    let (xx, xy, yy) = (spread(&of_x, &of_x), spread(&of_x, &of_y), spread(&of_y, &of_y));
    let each_ns = xy / xx;
    let r2 = xy * xy / (xx * yy);
    (r2 >= LEAST_R2 && each_ns >= 0.0).then(|| StepFit {
        fixed_ns: mean_y - each_ns * mean_x,
        each_ns,
        of: if by_tokens { "token" } else { "request" }.to_owned(),
        r2,
        rows: points.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::{Origin, ProcessRow, StageRow, WarmRow};

    /// Decode steps of each batch that take 1 ms and 10 us for each request.
    fn decode(batches: &[u64]) -> ProcessCapture {
        let mut process = ProcessCapture { file: "a.s2t".into(), ..ProcessCapture::default() };
        for &requests in batches {
            let shape = StepShape {
                kind: StepKind::Decode,
                prefill_requests: 0,
                prefill_tokens: 0,
                decode_requests: requests,
            };
            let group = process.engine.groups.entry(shape).or_default();
            let work = StepWork {
                decode_requests: requests,
                decode_tokens: requests,
                decode_context_tokens: requests * 100,
                ..StepWork::default()
            };
            for _ in 0..10 {
                group.steps += 1;
                group.times.push(1_000_000 + 10_000 * requests);
                group.work.add(&work);
                group.timed_work.add(&work);
            }
        }
        process
    }

    #[test]
    fn a_step_time_is_split_into_what_is_fixed_and_what_each_request_adds() {
        let (run, findings) = run(&[ProcessCapture::default(), decode(&[1, 4, 16])]);
        let run = run.expect("an engine");
        assert_eq!((run.file.as_str(), run.processes, findings.len()), ("a.s2t", 1, 0));
        let [kind] = &run.kinds[..] else { panic!("{run:?}") };
        assert_eq!((kind.stage.as_str(), kind.steps, kind.p50_ns), ("decode", 30, Some(1_040_000)));
        // Ten each of 1.01, 1.04 and 1.16 ms, over 29.
        assert_eq!(kind.std_ns, Some(65_915));
        assert_eq!((kind.decode_requests_mean, kind.decode_context_mean), (7.0, Some(700.0)));
        assert_eq!(kind.rows.iter().map(|row| row.requests).collect::<Vec<_>>(), [1, 4, 16]);
        let fit = kind.fit.as_ref().expect("a line");
        assert!((fit.fixed_ns - 1e6).abs() < 1.0 && (fit.each_ns - 1e4).abs() < 0.01, "{fit:?}");
        assert!((fit.r2 - 1.0).abs() < 1e-9);
        let per_s = kind.tokens_per_s.expect("timed");
        assert!((per_s - 210.0 / (30.0 * 1.07e-3)).abs() < 1e-6, "{per_s}");
    }

    #[test]
    fn the_rate_of_a_mixed_step_counts_the_prompt_tokens_that_it_reads() {
        let mut process = decode(&[4]);
        let groups = std::mem::take(&mut process.engine.groups);
        for (shape, mut group) in groups {
            for work in [&mut group.work, &mut group.timed_work] {
                (work.prefill_requests, work.prefill_tokens) = (20, 10_000);
            }
            let shape = StepShape {
                kind: StepKind::Mixed,
                prefill_requests: 2,
                prefill_tokens: 1_000,
                ..shape
            };
            process.engine.groups.insert(shape, group);
        }
        let kind = |process: &ProcessCapture| {
            let (run, _) = run(std::slice::from_ref(process));
            run.expect("an engine").kinds.remove(0)
        };
        let mixed = kind(&process);
        // 10 steps of 1.04 ms, each with 1,000 prompt tokens and 4 generated ones.
        let per_s = mixed.tokens_per_s.expect("timed");
        assert!((per_s - 1_004.0 / 1.04e-3).abs() < 1e-3, "{per_s}");
        assert_eq!(mixed.tokens_counted.noun(), "prompt and generated tokens");
        for group in process.engine.groups.values_mut() {
            group.timed_work.prefill_tokens = 0;
        }
        assert_eq!(kind(&process).tokens_per_s, None, "the prompts have no known length");
    }

    #[test]
    fn tokens_are_per_second_of_the_gpu_where_the_host_runs_ahead_of_it() {
        let (run, _) = run(&[decode(&[4])]);
        let step_ns = 1_040_000;
        let of = |work_ns: u64, recorded: Option<u64>, devices: &[&str], steps: u64| {
            let (gpu_busy_ns, gpu_window_ns) = (work_ns * 10, step_ns * 30);
            let warm = WarmRow { instances: 10, gpu_busy_ns, gpu_window_ns, ..WarmRow::default() };
            let row = StageRow {
                stage: "decode".to_owned(),
                instances: Some(11),
                recorded_instances: recorded,
                warm: Some(warm),
                ..StageRow::default()
            };
            let source = Origin::Collector.label().to_owned();
            let devices = devices.iter().map(|name| (*name).to_owned()).collect();
            let process = ProcessRow { kernels: 1, devices, ..ProcessRow::default() };
            let mut engine = run.clone().expect("an engine");
            let kind = &mut engine.kinds[0];
            (kind.steps, kind.timed_steps, kind.timed_ns) = (steps, 10, step_ns * 10);
            let (engine, stages) = (Some(engine), vec![row]);
            let processes = vec![process];
            let mut report = Report { source, stages, engine, processes, ..Report::default() };
            rates_of_the_gpu(&mut report);
            report.engine.and_then(|run| run.kinds[0].tokens_per_s).expect("timed").round()
        };
        let rate = |work_ns, recorded| of(work_ns, recorded, &["a"], 11);
        let by_steps = (4e9 / step_ns as f64).round();
        assert_eq!(rate(step_ns * 2, None), (2e9 / step_ns as f64).round());
        assert_eq!(rate(step_ns * 104 / 100, None), by_steps, "about as long");
        assert_eq!(rate(step_ns * 2, Some(5)), by_steps, "recorded ones may be slower");
        assert_eq!(of(step_ns * 2, None, &["a", "b"], 11), by_steps, "two GPUs work at once");
        assert_eq!(of(step_ns * 2, None, &["a"], 30), by_steps, "most steps have no time");
    }

    #[test]
    fn prompts_whose_tokens_are_not_known_are_told_apart_by_their_number() {
        let mut process = decode(&[1, 4, 16]);
        for (shape, mut group) in std::mem::take(&mut process.engine.groups) {
            let requests = shape.decode_requests;
            let work = StepWork { prefill_requests: requests * 10, ..StepWork::default() };
            (group.work, group.timed_work) = (work, work);
            let shape = StepShape { prefill_requests: requests, decode_requests: 0, ..shape };
            process.engine.groups.insert(StepShape { kind: StepKind::Prefill, ..shape }, group);
        }
        let (run, _) = run(&[process]);
        let run = run.expect("an engine");
        let [kind] = &run.kinds[..] else { panic!("{run:?}") };
        assert_eq!((kind.prefill_requests_mean, kind.prefill_tokens_mean), (7.0, None));
        assert_eq!((kind.tokens_per_s, kind.decode_context_mean), (None, None));
        assert_eq!(kind.rows.iter().map(|row| row.requests).collect::<Vec<_>>(), [1, 4, 16]);
        assert!(kind.rows.iter().all(|row| row.tokens_mean.is_none() && row.steps == 10));
        assert_eq!(kind.fit.as_ref().map(|fit| fit.of.as_str()), Some("request"));
    }

    #[test]
    fn two_rows_have_no_line_and_many_are_joined() {
        let (two, _) = run(&[decode(&[1, 2])]);
        assert_eq!(two.expect("an engine").kinds[0].fit, None);
        let (many, _) = run(&[decode(&(1..=100).collect::<Vec<_>>())]);
        let kind = &many.expect("an engine").kinds[0];
        assert!(kind.rows.len() <= MOST_ROWS, "{}", kind.rows.len());
        assert_eq!(kind.rows.iter().map(|row| row.steps).sum::<u64>(), 1_000);
        assert_eq!((kind.rows[0].requests, kind.rows[0].requests_to), (1, 5));
    }

    #[test]
    fn numbers_that_cannot_be_are_told() {
        let mut process = ProcessCapture::default();
        process.engine.unsound_names = 3;
        let (run, findings) = run(&[process]);
        assert!(run.is_none());
        assert!(findings[0].what.contains("3 names of steps"), "{findings:?}");
    }
}
