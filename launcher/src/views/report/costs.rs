//! What the passes cost.

use super::super::table::Align::{Left, Right};
use super::super::table::Table;
use super::{ROWS, left_out};
use stage2_model::Report;
use stage2_text::numbers::{count, ms3, or_absent, ratio3};
use stage2_text::{code, plain, shorten};

/// Characters of a stage.
const NAME_LIMIT: usize = 160;

pub(super) fn costs(report: &Report) -> String {
    let costs = &report.costs;
    let mut out = String::from("## Cost of the passes\n\n");
    match &costs.absent {
        Some(why) => {
            out.push_str(&format!(
                "Untraced times of the stages: none, because {}{}.\n\n",
                plain(why),
                costs.remedy()
            ));
        }
        None => {
            let mut table = Table::new(&[
                ("stage", Left),
                ("pass", Left),
                ("instances", Right),
                ("host_total_ms", Right),
                ("host_median_ms (without first)", Right),
                ("median / baseline's", Right),
            ]);
            for row in costs.stages.iter().take(ROWS) {
                table.row([
                    code(&shorten(&row.stage, NAME_LIMIT)),
                    plain(&row.pass),
                    or_absent(row.instances, |n| n.to_string()),
                    or_absent(row.host_total_ns, ms3),
                    or_absent(row.host_warm_median_ns, ms3),
                    or_absent(row.ratio, ratio3),
                ]);
            }
            out.push_str(&table.finish());
            out.push_str(&left_out(costs.stages.len(), ROWS, "metrics.json"));
            out.push_str(
                "Host times of the stages: baseline with the collector's NVTX half only, collect \
                 with CUPTI, nsys from its NVTX table.\n\n",
            );
        }
    }
    let mut table =
        Table::new(&[("pass", Left), ("whole_pass_ms", Right), ("whole pass / baseline's", Right)]);
    for pass in costs.passes.iter().take(ROWS) {
        table.row([
            plain(&pass.pass),
            or_absent(pass.duration_ms, count),
            or_absent(pass.ratio, ratio3),
        ]);
    }
    match table.is_empty() {
        true => out.push_str("Durations of the passes: none, because run.json lists no pass.\n\n"),
        false => out.push_str(&table.finish()),
    }
    for note in &costs.notes {
        out.push_str(&format!("{}\n\n", plain(note)));
    }
    out
}
