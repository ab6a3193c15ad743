//! What the passes cost, stage by stage and as a whole: one table for report.md and the summary.

use super::table::{ROWS, Table, name, none, paragraph};
use stage2_contract::text::numbers::{count, ms3, ratio3};
use stage2_contract::text::plain;
use stage2_model::{PassCosts, PassDuration, Report, StageCost};

/// Rows of the summary.
const BRIEF_ROWS: usize = 6;

/// What the passes cost, for the summary: the ratios only.
pub(super) fn costs_in_brief(report: &Report, is_shown: impl Fn(&StageCost) -> bool) -> String {
    let costs = &report.costs;
    let known = costs.stages.iter().filter(|cost| is_shown(cost) && cost.ratio.is_some());
    let rows: Vec<&StageCost> = known.collect();
    let mut out = String::new();
    if !rows.is_empty() {
        let table = Table::first(BRIEF_ROWS, &rows)
            .left("Pass", |row| plain(&row.pass))
            .left("Stage", |row| name(&row.stage))
            .right("Median (ms)", |row| row.host_warm_median_ns.map(ms3))
            .right("Times the baseline", |row| row.ratio.map(ratio3));
        out.push_str(&table.markdown_with_rest_in("report.md"));
        out.push_str("Host times of warm calls; the baseline pass records ranges only.\n\n");
    }
    if !rows.is_empty() {
        return out + &untraced(costs);
    }
    let reason = costs.absent.as_deref().unwrap_or("no stage was measured in two passes");
    none(reason, costs.remedy())
}

/// Why there are no times without a tool; nothing where there are.
fn untraced(costs: &PassCosts) -> String {
    let Some(why) = &costs.absent else { return String::new() };
    let remedy = match costs.remedy() {
        "" => String::new(),
        remedy => format!(" To do: {remedy}."),
    };
    paragraph(&format!("Untraced times of the stages: none, because {why}.{remedy}"))
}

/// The table with its notes.
pub(super) fn costs(report: &Report) -> String {
    let costs = &report.costs;
    // A whole pass is a row without a stage.
    let whole = |pass: &PassDuration| StageCost {
        pass: pass.pass.clone(),
        host_total_ns: pass.duration_ms.map(|ms| ms.saturating_mul(1_000_000)),
        ratio: pass.ratio,
        ..StageCost::default()
    };
    let ran = costs.passes.iter().filter(|pass| pass.duration_ms.is_some());
    let rows: Vec<StageCost> = costs.stages.iter().cloned().chain(ran.map(whole)).collect();
    let notes = costs.notes.iter().map(|note| paragraph(note));
    if rows.is_empty() {
        let reason = costs.absent.as_deref().unwrap_or("no pass is on record");
        return none(reason, costs.remedy()) + &notes.collect::<String>();
    }
    let table = Table::first(ROWS, &rows)
        .left("Pass", |row| plain(&row.pass))
        .left("Stage", |row| match row.stage.as_str() {
            "" => "(whole pass)".to_owned(),
            stage => name(stage),
        })
        .right("Median (ms)", |row| row.host_warm_median_ns.map(ms3))
        .right("Total (ms)", |row| match row.stage.as_str() {
            // The clock of the launcher counts milliseconds.
            "" => row.host_total_ns.map(|ns| count(ns / 1_000_000)),
            _ => row.host_total_ns.map(ms3),
        })
        .right("Calls", |row| row.instances.map(count))
        .right("Times the baseline", |row| row.ratio.map(ratio3));
    let mut out = table.markdown();
    out.push_str(
        "These are host times. Medians exclude the first call; totals include it. Each ratio \
         divides two medians, or two whole passes.\n\n",
    );
    out.push_str(&untraced(costs));
    out.extend(notes);
    out.push_str(
        "Source: baseline and collect: NVTX ranges of the collector, without and with CUPTI; nsys: \
         its NVTX table; whole passes: run.json.\n\n",
    );
    out
}
