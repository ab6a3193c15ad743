//! A stage -> the times of its steps, the tokens of a step, what the profiler cost, and the time to the
//! first token.

use std::collections::HashMap;

use crate::join::passes::{COLLECT, NSYS};
use crate::llm::mfu::per_generation;
use stage2_model::{
    Absent, Figure, InferredStepRow, Origin, PathKind, Report, Role, Slowdown, StageCost, StageRow,
    StageSteps, StepTimes, StepUnit, is_first_token_range,
};

/// How far a number of tokens may be from a whole one, as a part of it: steps of a sample or of
/// several generations do not divide evenly.
const UNEVEN: f64 = 0.02;

/// The steps of a stage.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) times: StepTimes,
    /// Steps of an instance of the stage, on average.
    pub(super) per_instance: f64,
}

/// What of the whole run a stage is set against: of stages there may be very many.
pub(super) struct Run<'r> {
    /// Stages that are prefills, and those that last from a request to its first token.
    prefills: Vec<&'r StageRow>,
    first_tokens: Vec<&'r StageRow>,
    /// The pass that the times are of, and what it cost each stage.
    pass: &'static str,
    costs: HashMap<&'r str, &'r StageCost>,
}

impl<'r> Run<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let pass = if report.source == Origin::Nsys.label() { NSYS } else { COLLECT };
        let costs = report.costs.stages.iter().rev().filter(|cost| cost.pass == pass);
        let stages = report.stages.iter();
        Self {
            prefills: stages.clone().filter(|row| row.role == Role::Prefill).collect(),
            first_tokens: stages.filter(|row| is_first_token_range(&row.stage)).collect(),
            pass,
            costs: costs.map(|cost| (cost.stage.as_str(), cost)).collect(),
        }
    }
}

pub(super) fn of(report: &Report, run: &Run<'_>, row: &StageRow) -> Option<Steps> {
    let Some(StageSteps { times, per_instance, .. }) = &row.steps else {
        let times = (row.kind == PathKind::WholeProcess).then(|| inferred(report)).flatten()?;
        return Some(Steps { times, per_instance: 1.0 });
    };
    let tokens_per_step = tokens(report, run, row, *per_instance);
    let times = StepTimes { tokens_per_step, ..times.clone() };
    Some(Steps { times, per_instance: *per_instance })
}

/// The kind of steps of which there are most, over all processes without ranges.
fn inferred(report: &Report) -> Option<StepTimes> {
    let timed = |row: &&InferredStepRow| row.step_p50_ns.is_some();
    let rows = report.inferred_steps.as_ref()?.rows.iter().filter(timed);
    // The first of several with as many.
    let row = rows.rev().max_by_key(|row| row.timed_steps)?;
    Some(StepTimes {
        unit: StepUnit::Inferred,
        path: None,
        steps: row.timed_steps,
        mean_ns: row.step_mean_ns?,
        p50_ns: row.step_p50_ns?,
        p99_ns: row.step_p99_ns,
        ..StepTimes::default()
    })
}

/// Decode steps of the model in a step of the stage.
fn tokens(report: &Report, run: &Run<'_>, row: &StageRow, per_instance: f64) -> Option<u64> {
    let used = report.insight.utilisation.as_ref()?;
    let decode_steps = used.tokens.steps().ok().filter(|_| row.role == Role::Decode)?;
    let of_step = decode_steps as f64 / instances_per_prefill(run, row)? / per_instance;
    let whole = of_step.round();
    (whole >= 1.0 && (of_step - whole).abs() <= whole * UNEVEN).then_some(whole as u64)
}

/// Instances of a stage in a generation: there is one prefill in each. Without any prefill, an
/// instance of decode is a generation.
fn instances_per_prefill(run: &Run<'_>, row: &StageRow) -> Option<f64> {
    match run.prefills.as_slice() {
        [] => Some(1.0),
        [prefill] => per_generation(row.instances?, prefill.instances?),
        _ => None,
    }
}

/// What the pass that the times are of cost the stage.
pub(super) fn slowdown(run: &Run<'_>, row: &StageRow) -> Option<Slowdown> {
    let ratio = run.costs.get(row.stage.as_str())?.ratio?;
    Some(Slowdown { pass: run.pass.to_owned(), ratio })
}

/// Of a prefill: the median of the ranges that last from the arrival of a request to its first token. The
/// prefill itself leaves out the time in the queue, and what the GPU does in between.
pub(super) fn time_to_first_token(run: &Run<'_>, row: &StageRow) -> Figure {
    if row.role != Role::Prefill {
        return Figure::Absent(Absent::PrefillOnly);
    }
    let ns = match run.first_tokens.as_slice() {
        [range] => range.host_warm_median_ns.ok_or(Absent::NoStepTime),
        _ => Err(Absent::NoRequests),
    };
    ns.map(|ns| ns as f64).into()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use stage2_model::{InferredSteps, ModelUse, Needs, TokenCounts, Utilisation};
    use stage2_read::roles::{Meant, RoleSettings};

    fn row(stage: &str, instances: u64, median_ns: u64) -> StageRow {
        let times = StepTimes { p50_ns: median_ns, ..StepTimes::default() };
        StageRow {
            stage: stage.to_owned(),
            role: match RoleSettings::default().of(stage, None) {
                Meant::Stage(role) => role,
                Meant::Apart(_) => Role::Other,
            },
            instances: Some(instances),
            host_warm_median_ns: Some(median_ns),
            steps: Some(StageSteps { times, per_instance: 1.0, warm: true }),
            ..StageRow::default()
        }
    }

    pub(in crate::answer) fn report(stages: Vec<StageRow>, decode_steps: u64) -> Report {
        let tokens = TokenCounts { decode_steps: Some(decode_steps), ..TokenCounts::default() };
        let mut report = Report { stages, ..Report::default() };
        let none = || Figure::Absent(Absent::NoModel);
        report.insight.utilisation = Some(ModelUse {
            model_name: None,
            absent: None,
            tokens,
            needs: Needs::default(),
            peaks: None,
            numbers: Utilisation {
                stages: Vec::new(),
                model: stage2_model::ModelUtilisation {
                    flops: none(),
                    wall_s: none(),
                    busy_s: none(),
                    mfu_wall: none(),
                    mfu_busy: none(),
                    generated_tokens: none(),
                    generated_tokens_per_s: none(),
                },
                precision: None,
                peak_source: None,
                assumptions: Vec::new(),
                findings: Vec::new(),
            },
        });
        report
    }

    #[test]
    fn a_step_holds_as_many_tokens_as_decode_has_steps_for_it() {
        let tokens = |decode: StageRow, decode_steps| {
            let report = report(vec![row("prefill", 4, 10), decode], decode_steps);
            of(&report, &Run::of(&report), &report.stages[1])
                .and_then(|steps| steps.times.tokens_per_step)
        };
        assert_eq!(tokens(row("decode", 4, 640), 64), Some(64), "one range around all steps");
        assert_eq!(tokens(row("decode", 256, 10), 64), Some(1), "one range around each");
        assert_eq!(tokens(row("decode", 255, 10), 64), None, "they do not divide evenly");
        let mut within = row("decode", 4, 640);
        within.steps.as_mut().expect("steps").per_instance = 64.0;
        assert_eq!(tokens(within, 64), Some(1));
        assert_eq!(tokens(row("other", 4, 640), 64), None);
    }

    #[test]
    fn a_prefill_is_no_time_to_the_first_token_of_a_request() {
        let ttft = |stages| {
            let report = report(stages, 64);
            time_to_first_token(&Run::of(&report), &report.stages[0])
        };
        let prefill = || row("prefill", 4, 100);
        assert_eq!(ttft(vec![prefill()]), Figure::Absent(Absent::NoRequests));
        for label in ["TTFT@engine", "engine@TTFT"] {
            assert_eq!(ttft(vec![prefill(), row(label, 9, 700)]), Figure::of(700.0), "{label}");
        }
        let both = vec![prefill(), row("ttft", 9, 700), row("first_token", 9, 800)];
        assert_eq!(ttft(both), Figure::Absent(Absent::NoRequests), "which of them is not known");
        assert_eq!(ttft(vec![row("decode", 4, 9)]), Figure::Absent(Absent::PrefillOnly));
    }

    #[test]
    fn without_ranges_the_steps_are_those_that_repeat_most() {
        let step = |timed_steps, ns| InferredStepRow {
            timed_steps,
            step_p50_ns: Some(ns),
            step_p99_ns: Some(ns),
            step_mean_ns: Some(ns),
            ..InferredStepRow::default()
        };
        let row = StageRow { kind: PathKind::WholeProcess, ..StageRow::default() };
        let mut report = report(vec![row], 64);
        assert!(of(&report, &Run::of(&report), &report.stages[0]).is_none());
        report.inferred_steps = Some(InferredSteps::of(vec![step(5, 1), step(9, 2), step(9, 3)]));
        let found = of(&report, &Run::of(&report), &report.stages[0]).expect("inferred").times;
        assert_eq!((found.unit, found.steps, found.p50_ns), (StepUnit::Inferred, 9, 2));
    }
}
