//! Stages and range paths.

use crate::stages;
use crate::table::{ROWS, Table, name, none};
use stage2_contract::text::numbers::{count, ms3, ms6, or_absent, percent1};
use stage2_contract::text::plain;
use stage2_model::{PathKind, PathRow, Report, StageRow};

pub(super) fn stages(report: &Report) -> String {
    if report.stages.is_empty() {
        return none("no range was opened, and no GPU work was recorded", "");
    }
    let windows = stages::windows(report, ROWS, "metrics.json");
    stages::times(report, ROWS, "metrics.json") + &windows + &stages::floors(report, ROWS)
}

/// All instances of all stages, of warm-ups, of operators and of work outside of ranges.
pub(super) fn all_instances(report: &Report) -> String {
    if report.stages.is_empty() {
        return none("no range was opened, and no GPU work was recorded", "");
    }
    let table = Table::first(ROWS, &report.stages)
        .left("stage", |row| {
            let apart = row.apart.map_or_else(String::new, |apart| format!(" ({})", apart.label()));
            format!("{}{apart}", name(&row.stage))
        })
        .right("instances", |row| {
            let unclosed = row.unclosed.filter(|&unclosed| unclosed > 0);
            let unclosed =
                unclosed.map_or_else(String::new, |n| format!(" ({} unclosed)", count(n)));
            format!("{}{unclosed}", instances(row.instances, row.recorded_instances))
        })
        .right("host_total_ms", |row| row.host_total_ns.map(ms3))
        .right("host_first_ms (cold)", |row| row.host_first_ns.map(ms3))
        .right("gpu_window_ms", |row| row.gpu_window_ns.map(ms3))
        .right("gpu_busy_ms", |row| row.gpu_busy_ns.map(ms3))
        .right("gpu_idle_ms", |row| row.gpu_idle_ns.map(ms3))
        .right("gpu_busy_%", |row| row.gpu_busy_percent.map(percent1))
        .right("kernels", |row| row.kernels.map(|kernels| kernels.to_string()))
        .right("kernels per instance, min / median / max", kernels_per_instance)
        .right("kernel_sum_ms (may exceed wall)", |row| row.kernel_sum_ns.map(ms3))
        .right("kernel_mean_ms", |row| row.kernel_mean_ns.map(ms6));
    let mut out = table.markdown();
    out.push_str(
        "A marked range is not a stage of the model: it is a warm-up, or an operator outside every \
         other range. Busy time is a union: overlapping work counts once. Idle time is the window \
         minus the busy time.\n\n",
    );
    let uncertain: u64 =
        report.stages.iter().fold(0, |sum, row| sum.saturating_add(row.gpu_busy_uncertain_ns));
    if uncertain > 0 {
        let ms = ms3(uncertain);
        out.push_str(&format!("Busy times may be larger, by {ms} ms in all: see Findings.\n\n"));
    }
    out
}

fn kernels_per_instance(row: &StageRow) -> Option<String> {
    row.kernels_per_instance_median?;
    let range = [
        row.kernels_per_instance_min,
        row.kernels_per_instance_median,
        row.kernels_per_instance_max,
    ];
    Some(range.map(|kernels| or_absent(kernels, |n| n.to_string())).join(" / "))
}

/// Says from how many instances the numbers come, unless it is all of them.
fn instances(all: Option<u64>, recorded: Option<u64>) -> String {
    let recorded = recorded.map_or_else(String::new, |n| format!(" (recorded {})", count(n)));
    format!("{}{recorded}", or_absent(all, |n| n.to_string()))
}

/// Only for several GPUs; with one, it would repeat the table of the stages.
pub(super) fn stages_by_device(report: &Report) -> String {
    if report.devices.len() < 2 {
        return String::new();
    }
    let rows = report.stages.iter().flat_map(|stage| stage.devices.iter().map(move |d| (stage, d)));
    let rows: Vec<_> = rows.collect();
    let table = Table::first(ROWS, &rows)
        .left("stage", |(stage, _)| name(&stage.stage))
        .left("GPU", |(_, device)| plain(&device.device))
        .right("gpu_busy_ms", |(_, device)| ms3(device.gpu_busy_ns))
        .right("kernels", |(_, device)| device.kernels.to_string())
        .right("kernel_sum_ms", |(_, device)| ms3(device.kernel_sum_ns));
    table.markdown()
}

pub(super) fn paths(report: &Report) -> String {
    if report.paths.is_empty() {
        return none("no range was opened", "");
    }
    let rows: Vec<_> = report.paths.iter().filter(|row| !row.is_of_library_alone()).collect();
    format!(
        "{}Totals and kernels are of the whole run. The median leaves out the first instance of the \
         range; that of a step (Stages) leaves out all steps of the first, cold instance of its \
         stage. Inclusive counts a range and those within it, exclusive the range alone.\n\n",
        path_table("range path", &rows),
    )
}

/// Ranges of libraries with none of the workload around them; nothing if there are none.
pub(super) fn libraries(report: &Report) -> (&'static str, String) {
    let rows: Vec<_> = report.paths.iter().filter(|row| row.is_of_library_alone()).collect();
    if rows.is_empty() {
        return ("Library ranges", String::new());
    }
    let (title, whole, advice) = match report.paths.iter().any(|row| row.kind == PathKind::Range) {
        true => ("Library ranges outside the workload's ranges", "(outside ranges)", ""),
        false => (
            "Ranges of libraries only: the workload opened none of its own",
            "(whole process)",
            " Put NVTX ranges around the phases of the workload to have stages.",
        ),
    };
    let text = format!(
        "{}Libraries open these for themselves. None of the workload's ranges was open around \
         them, so they are no stages: their work is a part of {whole}.{advice} \
         report.library_domains adds NVTX domains to the list of libraries.\n\n",
        path_table("range of a library", &rows),
    );
    (title, text)
}

fn path_table(title: &str, rows: &[&PathRow]) -> String {
    Table::first(ROWS, rows)
        .left(title, |row| name(&row.path))
        .right("instances", |row| instances(row.instances, row.recorded_instances))
        .right("host_total_ms", |row| row.host_total_ns.map(ms3))
        .right("host_first_ms (cold)", |row| row.host_first_ns.map(ms3))
        .right("host_median_ms (warm)", |row| row.host_warm_median_ns.map(ms3))
        .right("kernels inclusive", |row| row.kernels_inclusive.map(|n| n.to_string()))
        .right("kernels exclusive", |row| row.kernels_exclusive.map(|n| n.to_string()))
        .right("kernel_sum_ms inclusive", |row| row.kernel_sum_inclusive_ns.map(ms3))
        .right("kernel_sum_ms exclusive", |row| row.kernel_sum_exclusive_ns.map(ms3))
        .markdown()
}
