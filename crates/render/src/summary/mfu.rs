//! Use of the GPU's peak by the model and by its stages, over wall time.

use crate::report::insight::{needs, reasons, stages_in_use};
use crate::scopes::{scopes, share, within_prefill};
use crate::table::{Table, name, none};
use crate::values::{sentence, share_of_peak};
use stage2_model::Report;

/// The model and stages that are shown.
const ROWS: usize = 7;
/// Numbers that are missing and say why.
const REASONS: usize = 2;

pub(super) fn mfu(report: &Report) -> String {
    // A table without a number would say less.
    if let Some(needs) = needs(report) {
        return needs;
    }
    let used = match stages_in_use(report) {
        Ok(used) => used,
        Err(absence) => return none(&absence.reason, &absence.remedy),
    };
    let rows = scopes(used);
    let table = Table::first(ROWS, &rows)
        .left("Scope", |scope| name(scope.name))
        .right("MFU (%)", |scope| share_of_peak(scope.mfu))
        .right("MBU (%)", |scope| share_of_peak(scope.stage.and_then(|s| s.mbu_wall.value())));
    let mut notes = Vec::new();
    notes.extend(used.peak_dense_tflops().map(|peak| {
        let source = used.peak_source().unwrap_or_else(|| "not known".to_owned());
        format!("Shares of the peak over wall time; dense peak {peak:.2} TFLOP/s ({source})")
    }));
    notes.extend(within_prefill(used));
    let model = used.numbers.model.mfu_wall.absent();
    let mut missing: Vec<String> =
        model.map(|why| format!("Model-level MFU: none, because {why}")).into_iter().collect();
    missing.extend(used.numbers.stages.iter().flat_map(|stage| {
        let figure = ("MFU", share(stage));
        if stage.within.is_some() { Vec::new() } else { reasons(stage, &[figure]) }
    }));
    notes.extend(missing.into_iter().take(REASONS));
    notes.push("report.md has the FLOPs, the times and the assumptions".to_owned());
    let notes: String = notes.iter().map(|note| format!("{}\n\n", sentence(note))).collect();
    table.markdown_with_rest_in("report.md") + &notes
}
