//! Use of the GPU's peak.

use crate::scopes::{scopes, within_prefill};
use crate::table::{ROWS, Table, name, none, paragraph};
use crate::values::{decimal, share_of_peak};
use stage2_contract::text::numbers::{ms3, percent1};
use stage2_contract::text::{plain, shorten};
use stage2_model::{Absence, Figure, ModelUse, Report, StageUtilisation};

/// What FLOPs by counters are.
pub(crate) const COUNTED_FLOPS: &str = "FLOPs by counters are what ncu counted in a launch, \
    times the calls. They leave out kernels without counters, or with counters of one launch only, and \
    contain what tensor cores compute on the padding of their tiles: at small batches several times the \
    model's own FLOPs.";

/// How much of the peak the stages used.
pub(super) fn utilisation(report: &Report) -> String {
    let used = match stages_in_use(report) {
        Ok(used) => used,
        Err(absence) => {
            return needs(report).unwrap_or_else(|| none(&absence.reason, &absence.remedy));
        }
    };
    let stages = &used.numbers.stages;
    let share = |figure: &Figure| share_of_peak(figure.value());
    let number = |figure: &Figure, decimals: usize| {
        figure.value().map(|value| format!("{value:.decimals$}"))
    };
    let table = Table::first(ROWS, stages)
        .left("stage", |stage| name(&stage.stage))
        .right("tokens per instance", |stage| number(&stage.tokens, 0))
        .right("MFU, wall (%)", |stage| share(&stage.mfu_wall))
        .right("MFU, GPU busy (%)", |stage| share(&stage.mfu_busy))
        .right("MBU, wall (%)", |stage| share(&stage.mbu_wall))
        .right("MBU, GPU busy (%)", |stage| share(&stage.mbu_busy))
        .right("MFU by counters, GPU busy (%)", |stage| share(&stage.measured_mfu_busy))
        .right("counters cover (% of kernel time)", |stage| stage.measured_percent.map(percent1))
        .right("kernels per token", |stage| number(&stage.kernels_per_token, 1))
        .right("GPU ms per token", |stage| {
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
        "{}FLOPs are of one instance, and of one generation for the model. Time is the joined windows \
         divided by the instances (the generations): where some run side by side, each of them takes \
         longer.\n\n",
        table.markdown(),
    )
}

/// The command that gives what is missing; none where nothing is.
pub(crate) fn needs(report: &Report) -> Option<String> {
    let needs = report.insight.utilisation.as_ref()?.needs.sentence()?;
    Some(paragraph(&format!("All or a part is {needs}.")))
}

/// The use of the peak, if any stage has one; else why not.
pub(crate) fn stages_in_use(report: &Report) -> Result<&ModelUse, Absence> {
    let absence = |reason: &str, remedy: &str| {
        Err(Absence { reason: reason.to_owned(), remedy: remedy.to_owned() })
    };
    match &report.insight.utilisation {
        None => absence("nothing was computed for it", ""),
        Some(ModelUse { absent: Some(why), .. }) => absence(why, ""),
        Some(used) if used.numbers.stages.is_empty() => {
            absence("no stage is prefill or decode", "mark them with NVTX ranges of these names")
        }
        Some(used) => Ok(used),
    }
}

/// Why these figures of a stage are missing, and what MFU by counters leaves out.
pub(crate) fn reasons(stage: &StageUtilisation, figures: &[(&str, &Figure)]) -> Vec<String> {
    let name = shorten(&stage.stage, 60);
    let missing = figures.iter().filter_map(|(figure, value)| Some((figure, value.absent()?)));
    let mut reasons: Vec<String> =
        missing.map(|(figure, why)| format!("{figure} of {name}: none, because {why}")).collect();
    if stage.measured_mfu_busy.value().is_some() {
        reasons.extend(stage.left_out_by_counters());
    }
    reasons
}
