//! What the passes cost, stage by stage and as a whole.

use super::{CostRow, Section};
use stage2_model::{PassDuration, Report, StageCost};

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

pub(super) fn costs(report: &Report) -> Section<CostRow> {
    let costs = &report.costs;
    let of_stage = |cost: &StageCost| CostRow {
        pass: cost.pass.clone(),
        stage: Some(cost.stage.clone()),
        instances: cost.instances,
        total_ns: cost.host_total_ns,
        median_ns: cost.host_warm_median_ns,
        ratio: cost.ratio,
    };
    let of_pass = |pass: &PassDuration| CostRow {
        pass: pass.pass.clone(),
        total_ns: pass.duration_ms.map(|ms| ms.saturating_mul(MS)),
        ratio: pass.ratio,
        ..CostRow::default()
    };
    let no_stage = |cost: &&StageCost| {
        report.stages.iter().any(|row| row.stage == cost.stage && row.apart.is_some())
    };
    let stages = costs.stages.iter().filter(|cost| !no_stage(cost)).map(of_stage);
    let ran = costs.passes.iter().filter(|pass| pass.duration_ms.is_some());
    let rows: Vec<CostRow> = stages.chain(ran.map(of_pass)).collect();
    if rows.is_empty() {
        let reason = costs.absent.clone().unwrap_or_else(|| "no pass is on record".to_owned());
        return Section::none(reason, "run with run.baseline=true");
    }
    let source = "baseline and collect: NVTX ranges of the collector, without and with CUPTI; \
                  nsys: its NVTX table; whole passes: run.json";
    let mut section = Section::of(rows, source).with_note(
        "These are host times. Medians exclude the first instance; totals include it. Each ratio \
         divides two medians, or two whole passes.",
    );
    if let Some(why) = &costs.absent {
        section = section.with_note(format!(
            "Untraced times of the stages: none, because {why}{}",
            costs.remedy()
        ));
    }
    for note in &costs.notes {
        section = section.with_note(note.clone());
    }
    section
}
