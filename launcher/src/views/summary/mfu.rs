//! Use of the GPU's peak by the model and by its stages.

use super::ROWS;
use crate::views::report::insight::{COUNTED_FLOPS, reasons, stages_in_use};
use crate::views::table::{Table, name, none};
use crate::views::values::{decimal, share_of_peak, with_source};
use stage2_model::{Figure, ModelUse, Report, StageUtilisation};
use stage2_text::numbers::{ms3, percent1};

/// A row of the table: the model, or a stage.
struct Scope<'r> {
    name: &'r str,
    flops: Option<f64>,
    wall_s: Option<f64>,
    mfu: Option<f64>,
    stage: Option<&'r StageUtilisation>,
}

pub(super) fn mfu(report: &Report) -> String {
    let used = match stages_in_use(report) {
        Ok(used) => used,
        Err(absence) => return none(&absence.reason, &absence.remedy),
    };
    let model = &used.numbers.model;
    let mut rows = vec![Scope {
        name: "Model-level",
        flops: model.flops.value(),
        wall_s: model.wall_s.value(),
        mfu: model.mfu_wall.value(),
        stage: None,
    }];
    rows.extend(used.numbers.stages.iter().map(|stage| Scope {
        name: &stage.stage,
        flops: stage.flops.value(),
        wall_s: stage_s(stage, used.peak_dense_tflops()),
        mfu: share(stage).value(),
        stage: Some(stage),
    }));
    let table = Table::first(ROWS, &rows)
        .left("Scope", |scope| name(scope.name))
        .right("MFU (0-1)", |scope| share_of_peak(scope.mfu))
        .right("MFU by counters, GPU busy (0-1)", |scope| {
            share_of_peak(scope.stage.and_then(|stage| stage.measured_mfu_busy.value()))
        })
        .right("Counters cover (% of kernel time)", |scope| {
            scope.stage?.measured_percent.map(percent1)
        })
        .right("MBU (0-1)", |scope| {
            share_of_peak(scope.stage.and_then(|stage| stage.mbu_wall.value()))
        })
        .right("FLOPs (GFLOP)", |scope| decimal(scope.flops.map(|flops| flops / 1e9), 3))
        .right("Time (ms)", |scope| {
            let wall_s = scope.wall_s.filter(|s| (0.0..1e9).contains(s))?;
            Some(ms3((wall_s * 1e9).round() as u64))
        })
        .right("Achieved (TFLOP/s)", |scope| {
            let wall_s = scope.wall_s.filter(|s| *s > 0.0);
            decimal(scope.flops.zip(wall_s).map(|(flops, s)| flops / s / 1e12), 3)
        })
        .right("Peak, dense (TFLOP/s)", |_| decimal(used.peak_dense_tflops(), 2));
    let source = used.peak_source().unwrap_or_else(|| "not known".to_owned());
    with_source(
        table,
        notes(used),
        &format!("shape of the model and token counts; peaks: {source}"),
    )
}

/// MFU of a stage. A stage within another has no window of its own.
fn share(stage: &StageUtilisation) -> &Figure {
    if stage.within.is_some() { &stage.mfu_busy } else { &stage.mfu_wall }
}

/// Time of an instance. Without a token rate (a vision encoder has no tokens) it is the time that the
/// share of the peak was computed with.
fn stage_s(stage: &StageUtilisation, peak_tflops: Option<f64>) -> Option<f64> {
    let by_tokens = stage.tokens.over(&stage.tokens_per_s, "token rate").value();
    let by_share = || {
        let flops_per_s = share(stage).value()? * peak_tflops? * 1e12;
        stage.flops.value().map(|flops| flops / flops_per_s)
    };
    by_tokens.or_else(by_share)
}

/// What the columns are over, the numbers over busy time, why some are missing, and assumptions.
fn notes(used: &ModelUse) -> Vec<String> {
    let mut notes = vec![
        "MFU and MBU are over wall time (the windows of the stages); FLOPs are of one instance, \
         model-level of one generation, and time is the joined windows over the instances (the \
         generations): where some run side by side, each of them takes longer"
            .to_owned(),
        format!("MFU by counters is over GPU busy time. {COUNTED_FLOPS}"),
    ];
    let stages = &used.numbers.stages;
    let nested = stages.iter().filter(|stage| stage.within.is_some());
    let nested: Vec<&str> = nested.map(|stage| stage.stage.as_str()).collect();
    if !nested.is_empty() {
        notes.push(format!(
            "Within prefill: {}. MFU and time of each are over the sum of its kernels' durations, and \
             its FLOPs and time are in prefill's",
            nested.join(", ")
        ));
    }
    let over_busy = |figure: &Figure| figure.text(|share| format!("{share:.6}"));
    notes.extend(stages.iter().map(|stage| {
        let (mfu, mbu) = (over_busy(&stage.mfu_busy), over_busy(&stage.mbu_busy));
        format!("{} over GPU busy time: MFU {mfu}, MBU {mbu}; {}", stage.stage, stage.basis)
    }));
    let model = used.numbers.model.mfu_wall.absent();
    notes.extend(model.map(|why| format!("Model-level MFU: none, because {why}")));
    for stage in stages {
        let known = stage.mfu_wall.value().or(stage.mfu_busy.value());
        let by_counters = known.map(|_| ("MFU by counters", &stage.measured_mfu_busy));
        let figures: Vec<_> = by_counters.into_iter().chain([("MFU", share(stage))]).collect();
        notes.extend(reasons(stage, &figures));
    }
    notes.extend(used.numbers.assumptions.iter().cloned());
    notes
}
