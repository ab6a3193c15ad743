//! The whole run with its warm-up: the appendix of the tables over warm instances.

use super::ranges;
use crate::kernels::top::classes;
use crate::table::{ROWS, Table, paragraph};
use crate::values::text;
use stage2_contract::text::numbers::{count, ms3, percent1};
use stage2_model::{DeviceRow, Report};
use stage2_report::in_part;

/// Totals of the run, the classes of its kernels, and all instances of all stages.
pub(super) fn whole_run(report: &Report) -> String {
    let mut out =
        String::from("Cold first instances, warm-ups and work outside of stages included.\n\n");
    let counts = &report.coverage.total;
    let records = report.coverage.gpu_records();
    if records > 0 {
        let placed = counts.attributed as f64 * 100.0 / records as f64;
        out.push_str(&format!(
            "- kernels: {}\n- GPU work placed in a range: {} % of its records\n\n",
            count(in_part::kernels(report)),
            percent1(placed),
        ));
    }
    out.push_str(&busy(&report.devices));
    out.extend(in_part::whole_run(report).map(|note| paragraph(&note)));
    let classes: Vec<_> =
        classes(&report.kernels).into_iter().filter(|class| class.total_ns > Some(0)).collect();
    if !classes.is_empty() {
        let table = Table::first(ROWS, &classes)
            .left("class", |class| text(class.class))
            .right("kernel_sum_ms", |class| class.total_ns.map(ms3))
            .right("% of all kernel time", |class| class.percent.map(percent1))
            .right("calls", |class| count(class.calls));
        out.push_str(&table.markdown());
    }
    out.push_str(&ranges::all_instances(report));
    out
}

/// How long the GPUs were busy and idle; nothing where that is not known.
fn busy(devices: &[DeviceRow]) -> String {
    let known: Vec<&DeviceRow> = devices
        .iter()
        .filter(|row| row.gpu_span_ns.is_some() && row.gpu_busy_ns.is_some())
        .collect();
    if known.is_empty() {
        return String::new();
    }
    // What ran side by side counts for each process, and what one leaves idle another may fill.
    let alone = |row: &&DeviceRow| !row.shared_by_processes;
    let table = Table::first(ROWS, &known)
        .left("GPU", |row| match row.shared_by_processes {
            false => text(&row.device),
            true => text(&format!("{}, summed over {} processes", row.device, row.processes)),
        })
        .right("gpu_busy_ms", |row| row.gpu_busy_ns.map(ms3))
        .right("gpu_idle_ms", |row| {
            let idle_ns = row.gpu_span_ns?.saturating_sub(row.gpu_busy_ns?);
            alone(row).then(|| ms3(idle_ns))
        })
        .right("gpu_busy_%", |row| row.gpu_busy_percent.filter(|_| alone(row)).map(percent1));
    format!(
        "{}Idle is the time between the start of the first GPU work and the end of the last during \
         which nothing ran.\n\n",
        table.markdown(),
    )
}
