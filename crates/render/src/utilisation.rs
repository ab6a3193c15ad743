//! Use of the GPU's peak by the model and its stages: sections of report.md and of the summary.

use stage2_contract::text::numbers::{ms3, percent1};
use stage2_contract::text::{plain, shorten};
use stage2_model::{Figure, ModelUse, Report, StageUtilisation};

use crate::table::{ROWS, Table, decimal, name, none, paragraph, sentence, share_of_peak};

const COUNTED_FLOPS: &str = "FLOPs by counters are what ncu counted in a launch, \
    times the calls. They leave out kernels without counters, or with counters of one launch only, and \
    contain what tensor cores compute on the padding of their tiles: at small batches several times the \
    model's own FLOPs.";

pub(super) fn utilisation(report: &Report) -> String {
    let used = match stages_in_use(report) {
        Ok(used) => used,
        Err(none) => return needs(report).unwrap_or(none),
    };
    let stages = &used.numbers.stages;
    let share = |figure: &Figure| share_of_peak(figure.value());
    let number = |figure: &Figure, decimals: usize| {
        figure.value().map(|value| format!("{value:.decimals$}"))
    };
    let table = Table::first(ROWS, stages)
        .left("stage", |stage| name(&stage.stage))
        .right("tokens per call", |stage| number(&stage.tokens, 0))
        .right("MFU, wall (%)", |stage| share(&stage.mfu_wall))
        .right("MFU, GPU busy (%)", |stage| share(&stage.mfu_busy))
        .right("MBU, wall (%)", |stage| share(&stage.mbu_wall))
        .right("MBU, GPU busy (%)", |stage| share(&stage.mbu_busy))
        .right("MFU by counters, GPU busy (%)", |stage| share(&stage.measured_mfu_busy))
        .right("counters cover (% of kernel time)", |stage| stage.measured_percent.map(percent1))
        .right("kernels per token", |stage| number(&stage.kernels_per_token, 1))
        .right("GPU busy per token (ms)", |stage| {
            stage.gpu_us_per_token.value().map(|us| format!("{:.6}", us / 1e3))
        });
    let mut out = needs(report).unwrap_or_default() + &work(used) + &table.markdown();
    if stages.iter().any(|stage| stage.measured_mfu_busy.value().is_some()) {
        out.push_str(&paragraph(COUNTED_FLOPS));
    }
    let name = used.model_name.as_deref().unwrap_or("unnamed");
    let peaks = used.peak_source().unwrap_or_else(|| "not known".to_owned());
    let mut lines = vec![format!("model: {name}; peaks: {peaks}")];
    let model = used.numbers.model.mfu_wall.absent();
    lines.extend(model.map(|why| format!("model-level MFU: none, because {why}")));
    lines.extend(
        stages.iter().take(ROWS).map(|s| format!("{}: {}", shorten(&s.stage, 60), s.basis)),
    );
    for stage in stages.iter().take(ROWS) {
        let figures = [
            ("tokens", &stage.tokens),
            ("MFU over wall time", &stage.mfu_wall),
            ("MFU over GPU busy time", &stage.mfu_busy),
            ("MBU over wall time", &stage.mbu_wall),
            ("MBU over GPU busy time", &stage.mbu_busy),
            ("MFU by counters", &stage.measured_mfu_busy),
            ("kernels per token", &stage.kernels_per_token),
            ("GPU time per token", &stage.gpu_us_per_token),
        ];
        lines.extend(reasons(stage, &figures));
    }
    lines.extend(within_prefill(used));
    lines.extend(used.numbers.assumptions.iter().cloned());
    out.extend(lines.iter().map(|line| format!("- {}\n", plain(line))));
    out.push('\n');
    out
}

/// The FLOPs of the model and of its stages, and the time that they took.
fn work(used: &ModelUse) -> String {
    let rows = scopes(used);
    let table = Table::first(ROWS, &rows)
        .left("scope", |scope| name(scope.name))
        .right("MFU (%)", |scope| share_of_peak(scope.mfu))
        .right("FLOPs (GFLOP)", |scope| decimal(scope.flops.map(|flops| flops / 1e9), 3))
        .right("time (ms)", |scope| {
            let wall_s = scope.wall_s.filter(|s| (0.0..1e9).contains(s))?;
            Some(ms3((wall_s * 1e9).round() as u64))
        })
        .right("achieved (TFLOP/s)", |scope| {
            let wall_s = scope.wall_s.filter(|s| *s > 0.0);
            decimal(scope.flops.zip(wall_s).map(|(flops, s)| flops / s / 1e12), 3)
        })
        .right("peak, dense (TFLOP/s)", |_| decimal(used.peak_dense_tflops(), 2));
    format!(
        "{}FLOPs are those of one call of a stage, and for the model those of one generation. Time is the time in which \
         any call (generation) was open, divided by their number: calls that run side by side each take longer.\n\n",
        table.markdown(),
    )
}

/// The command that gives what is missing; none where nothing is.
fn needs(report: &Report) -> Option<String> {
    let needs = report.insight.utilisation.as_ref()?.needs.sentence()?;
    Some(paragraph(&format!("All or a part is {needs}.")))
}

/// The use of the peak, if any stage has one; else why not.
fn stages_in_use(report: &Report) -> Result<&ModelUse, String> {
    match &report.insight.utilisation {
        None => Err(none("nothing was computed for it", "")),
        Some(ModelUse { absent: Some(why), .. }) => Err(none(why, "")),
        Some(used) if used.numbers.stages.is_empty() => {
            Err(none("no stage is prefill or decode", "mark them with NVTX ranges of these names"))
        }
        Some(used) => Ok(used),
    }
}

/// Why these figures of a stage are missing, and what MFU by counters leaves out.
fn reasons(stage: &StageUtilisation, figures: &[(&str, &Figure)]) -> Vec<String> {
    let name = shorten(&stage.stage, 60);
    let missing = figures.iter().filter_map(|(figure, value)| Some((figure, value.absent()?)));
    let mut reasons: Vec<String> =
        missing.map(|(figure, why)| format!("{figure} of {name}: none, because {why}")).collect();
    if stage.measured_mfu_busy.value().is_some() {
        reasons.extend(stage.left_out_by_counters());
    }
    reasons
}

/// The model, or a stage.
struct Scope<'r> {
    name: &'r str,
    /// Of one instance; of the model: of one generation.
    flops: Option<f64>,
    /// Wall time of the same, seconds.
    wall_s: Option<f64>,
    /// Share of the dense peak over that time, 0 to 1.
    mfu: Option<f64>,
    /// None for the model.
    stage: Option<&'r StageUtilisation>,
}

/// The model first, then its stages.
fn scopes(used: &ModelUse) -> Vec<Scope<'_>> {
    let model = &used.numbers.model;
    let model = Scope {
        name: "Model-level",
        flops: model.flops.value(),
        wall_s: model.wall_s.value(),
        mfu: model.mfu_wall.value(),
        stage: None,
    };
    let stages = used.numbers.stages.iter().map(|stage| Scope {
        name: &stage.stage,
        flops: stage.flops.value(),
        wall_s: stage_s(stage, used.peak_dense_tflops()),
        mfu: share(stage).value(),
        stage: Some(stage),
    });
    std::iter::once(model).chain(stages).collect()
}

/// MFU of a stage. A stage within another has no window of its own.
pub(crate) fn share(stage: &StageUtilisation) -> &Figure {
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

/// Which stages lie within prefill, and what that means for their numbers; nothing if none does.
fn within_prefill(used: &ModelUse) -> Option<String> {
    let nested = used.numbers.stages.iter().filter(|stage| stage.within.is_some());
    let nested: Vec<&str> = nested.map(|stage| stage.stage.as_str()).collect();
    (!nested.is_empty()).then(|| {
        format!(
            "Within prefill: {}. MFU and time of each are over the sum of its kernels' durations, and \
             its FLOPs and time are in prefill's",
            nested.join(", ")
        )
    })
}

/// The model and stages that are shown.
const BRIEF_ROWS: usize = 7;
/// Numbers that are missing and say why.
const BRIEF_REASONS: usize = 2;

pub(super) fn mfu(report: &Report) -> String {
    // A table without a number would say less.
    let needs = report.insight.utilisation.as_ref().and_then(|used| used.needs.sentence());
    if let Some(needs) = needs {
        return none(&format!("all or a part is {needs}"), "");
    }
    let used = match stages_in_use(report) {
        Ok(used) => used,
        Err(none) => return none,
    };
    // The model without a number is a sentence.
    let is_known = |scope: &Scope<'_>| scope.stage.is_some() || scope.mfu.is_some();
    let rows: Vec<Scope<'_>> = scopes(used).into_iter().filter(is_known).collect();
    let table = Table::first(BRIEF_ROWS, &rows)
        .left("Scope", |scope| name(scope.name))
        .right("MFU (%)", |scope| share_of_peak(scope.mfu))
        .right("MBU (%)", |scope| share_of_peak(scope.stage.and_then(|s| s.mbu_wall.value())));
    let mut notes = Vec::new();
    notes.extend(used.peak_dense_tflops().map(|peak| {
        let source = used.peak_source().unwrap_or_else(|| "not known".to_owned());
        format!(
            "MFU: of the dense peak of {peak:.2} TFLOP/s; MBU: of the peak memory bandwidth; over wall time ({source})"
        )
    }));
    notes.extend(within_prefill(used));
    let model = used.numbers.model.mfu_wall.absent();
    let mut missing: Vec<String> =
        model.map(|why| format!("Model-level MFU: none, because {why}")).into_iter().collect();
    missing.extend(used.numbers.stages.iter().flat_map(|stage| {
        let figure = ("MFU", share(stage));
        if stage.within.is_some() { Vec::new() } else { reasons(stage, &[figure]) }
    }));
    notes.extend(missing.into_iter().take(BRIEF_REASONS));
    notes.push("report.md lists FLOPs, times and assumptions".to_owned());
    let notes: Vec<String> = notes.iter().map(|note| sentence(note)).collect();
    format!("{}{}\n\n", table.markdown_with_rest_in("report.md"), notes.join(" "))
}
