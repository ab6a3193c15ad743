//! Stages and range paths.

use super::super::table::Align::{Left, Right};
use super::super::table::Table;
use super::{ROWS, left_out};
use stage2_analysis::in_part;
use stage2_model::{PathKind, PathRow, Report, StageRow};
use stage2_text::numbers::{count, ms3, or_absent, percent1, us3};
use stage2_text::{code, plain, shorten};

/// Characters of a range path.
const PATH_LIMIT: usize = 160;

pub(super) fn stages(report: &Report) -> String {
    let mut table = Table::new(&[
        ("stage", Left),
        ("instances", Right),
        ("host_total_ms", Right),
        ("host_first_ms (cold)", Right),
        ("host_median_ms (without first)", Right),
        ("host_mean_ms (without first)", Right),
        ("host_std_ms (without first)", Right),
        ("gpu_window_ms", Right),
        ("gpu_busy_ms", Right),
        ("gpu_idle_ms", Right),
        ("gpu_busy_%", Right),
        ("kernels", Right),
        ("kernels per instance, min / median / max", Right),
        ("kernel_sum_ms (may exceed wall)", Right),
        ("us per kernel", Right),
    ]);
    for row in report.stages.iter().take(ROWS) {
        add(&mut table, row);
    }
    let mut out = String::from("## Stages\n\n");
    if table.is_empty() {
        out.push_str("None, because no range was opened, and no GPU work was recorded.\n\n");
        return out;
    }
    out.push_str(&table.finish());
    out.push_str(&left_out(report.stages.len(), ROWS, "metrics.json"));
    out.push_str(
        "A stage is one of the workload's outermost ranges. Its first instance is cold and shown \
         separately; the median, the mean and the sample standard deviation cover the others. A \
         marked range is not a stage of the model: it is a warm-up, or an operator outside every \
         other range. Busy time is a union: overlapping work counts once. Idle time is the window \
         minus the busy time.\n\n",
    );
    if report.stages.iter().any(|row| row.kind == PathKind::WholeProcess) {
        out.push_str(
            "Work of a process (or a capture) without any of the workload's ranges is one stage, from \
             its first GPU record to its last, loading and warm-up included.\n\n",
        );
    }
    if let Some(note) = in_part::stages(report) {
        out.push_str(&format!("{}\n\n", plain(&note)));
    }
    let uncertain: u64 =
        report.stages.iter().fold(0, |sum, row| sum.saturating_add(row.gpu_busy_uncertain_ns));
    if uncertain > 0 {
        let ms = ms3(uncertain);
        out.push_str(&format!("Busy times may be larger, by {ms} ms in all: see Findings.\n\n"));
    }
    out
}

fn add(table: &mut Table, row: &StageRow) {
    let number = |value: Option<u64>| or_absent(value, |v| v.to_string());
    let per_instance = match row.kernels_per_instance_median {
        Some(_) => [
            row.kernels_per_instance_min,
            row.kernels_per_instance_median,
            row.kernels_per_instance_max,
        ]
        .map(number)
        .join(" / "),
        None => number(None),
    };
    let unclosed = row.unclosed.filter(|&unclosed| unclosed > 0);
    let unclosed = unclosed.map_or_else(String::new, |n| format!(" ({} unclosed)", count(n)));
    table.row([
        format!("{}{}", code(&shorten(&row.stage, PATH_LIMIT)), mark(row)),
        format!("{}{}{unclosed}", number(row.instances), recorded(row.recorded_instances)),
        or_absent(row.host_total_ns, ms3),
        or_absent(row.host_first_ns, ms3),
        or_absent(row.host_warm_median_ns, ms3),
        or_absent(row.host_warm_mean_ns, ms3),
        or_absent(row.host_warm_std_ns, ms3),
        or_absent(row.gpu_window_ns, ms3),
        or_absent(row.gpu_busy_ns, ms3),
        or_absent(row.gpu_idle_ns, ms3),
        or_absent(row.gpu_busy_percent, percent1),
        number(row.kernels),
        per_instance,
        or_absent(row.kernel_sum_ns, ms3),
        or_absent(row.kernel_mean_ns, us3),
    ]);
}

/// What keeps an outermost range from being a stage of the model.
fn mark(row: &StageRow) -> String {
    row.apart.map_or_else(String::new, |apart| format!(" ({})", apart.label()))
}

/// Only where there is more than one GPU; with one, it would repeat the table above.
pub(super) fn stages_by_device(report: &Report) -> String {
    if report.devices.len() < 2 {
        return String::new();
    }
    let mut table = Table::new(&[
        ("stage", Left),
        ("GPU", Left),
        ("gpu_busy_ms", Right),
        ("kernels", Right),
        ("kernel_sum_ms", Right),
    ]);
    let rows = report.stages.iter().flat_map(|row| row.devices.iter().map(move |d| (row, d)));
    let all = rows.clone().count();
    for (stage, on_device) in rows.take(ROWS) {
        table.row([
            code(&shorten(&stage.stage, PATH_LIMIT)),
            plain(&on_device.device),
            ms3(on_device.gpu_busy_ns),
            on_device.kernels.to_string(),
            ms3(on_device.kernel_sum_ns),
        ]);
    }
    format!("## Stages by GPU\n\n{}{}", table.finish(), left_out(all, ROWS, "metrics.json"))
}

pub(super) fn paths(report: &Report) -> String {
    if report.paths.is_empty() {
        return "## Ranges\n\nNone, because no range was opened.\n\n".to_owned();
    }
    let rows = report.paths.iter().filter(|row| !row.is_of_library_alone());
    format!(
        "## Ranges\n\n{}Inclusive counts a range and those within it, exclusive the range \
         alone.\n\n",
        path_table("range path", rows),
    )
}

/// Ranges of libraries with none of the workload around them; nothing where there are none.
pub(super) fn libraries(report: &Report) -> String {
    let mut rows = report.paths.iter().filter(|row| row.is_of_library_alone()).peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let (title, whole, advice) = match report.paths.iter().any(|row| row.kind == PathKind::Range) {
        true => ("Library ranges outside the workload's ranges", "(outside ranges)", ""),
        false => (
            "Ranges of libraries only: the workload opened none of its own",
            "(whole process)",
            " Put NVTX ranges around the phases of the workload to have stages.",
        ),
    };
    format!(
        "## {title}\n\n{}Libraries open these for themselves. None of the workload's ranges was open around \
         them, so they are no stages: their work is a part of {whole}.{advice} \
         report.library_domains adds NVTX domains to the list of libraries.\n\n",
        path_table("range of a library", rows),
    )
}

fn path_table<'r>(title: &'static str, rows: impl Iterator<Item = &'r PathRow>) -> String {
    let mut table = Table::new(&[
        (title, Left),
        ("instances", Right),
        ("host_total_ms", Right),
        ("host_first_ms (cold)", Right),
        ("host_median_ms (without first)", Right),
        ("kernels inclusive", Right),
        ("kernels exclusive", Right),
        ("kernel_sum_ms inclusive", Right),
        ("kernel_sum_ms exclusive", Right),
    ]);
    let rows: Vec<&PathRow> = rows.collect();
    rows.iter().take(ROWS).for_each(|row| add_path(&mut table, row));
    format!("{}{}", table.finish(), left_out(rows.len(), ROWS, "metrics.json"))
}

/// Says of how many instances the numbers come, where it is not all.
fn recorded(instances: Option<u64>) -> String {
    instances.map_or_else(String::new, |recorded| format!(" (recorded {})", count(recorded)))
}

fn add_path(table: &mut Table, row: &PathRow) {
    let number = |value: Option<u64>| or_absent(value, |v| v.to_string());
    table.row([
        code(&shorten(&row.path, PATH_LIMIT)),
        format!("{}{}", number(row.instances), recorded(row.recorded_instances)),
        or_absent(row.host_total_ns, ms3),
        or_absent(row.host_first_ns, ms3),
        or_absent(row.host_warm_median_ns, ms3),
        number(row.kernels_inclusive),
        number(row.kernels_exclusive),
        or_absent(row.kernel_sum_inclusive_ns, ms3),
        or_absent(row.kernel_sum_exclusive_ns, ms3),
    ]);
}
