//! A report -> the few lines that a terminal shows at the end of a run.

use std::path::Path;

use super::kernels::top::top_kernels;
use super::page::{SIMULATED, idle_percent};
use super::ranks;
use stage2_model::{Report, StageRow};
use stage2_text::numbers::{count, ms3, or_absent, percent1, us3};
use stage2_text::{shorten, shorten_kernel, visible_path};

// How many of a kind are shown.
const STAGES: usize = 4;
const STEPS: usize = 3;
const KERNELS: usize = 3;
const LATE_RANKS: usize = 2;
/// Characters of a name.
const NAME_LIMIT: usize = 60;

/// The lines, without line ends and without anything that acts on a terminal.
pub(super) fn headline(report: &Report, report_md: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    if report.simulated {
        lines.push(SIMULATED.to_owned());
    }
    lines.push(format!("coverage: {}", report.coverage.verdict.text));
    let stages = || report.stages.iter().filter(|row| row.apart.is_none());
    if ranks::is_job(report) {
        lines.push(format!("ranks: {}", ranks::seen(report)));
    }
    let late = report.ranks.late.iter().take(LATE_RANKS);
    lines
        .extend(late.map(|row| format!("{}: {}", shorten(&row.stage, NAME_LIMIT), row.sentence())));
    // Counts of a sample are scaled to all instances; busy time is that of the recorded ones.
    let of = if report.is_sampled() { " in the sample" } else { "" };
    lines.extend(stages().take(STAGES).map(|row| stage(row, of)));
    if let Some(more) = stages().count().checked_sub(STAGES).filter(|&more| more > 0) {
        lines.push(format!("and {} more stages", count(more as u64)));
    }
    lines.extend(super::steps::sentences(report, STEPS));
    let top = top_kernels(report, KERNELS, |row| row.name_index);
    lines.extend(top.iter().enumerate().map(|(i, kernel)| {
        format!(
            "top {}: {} % of kernel time, {} calls, mean {} us: {}",
            i + 1,
            or_absent(kernel.percent, percent1),
            count(kernel.calls),
            or_absent(kernel.mean_ns, us3),
            shorten_kernel(&kernel.row.kernel, NAME_LIMIT),
        )
    }));
    lines.push(format!("report: {}", visible_path(report_md)));
    lines
}

fn stage(row: &StageRow, of: &str) -> String {
    let name = shorten(&row.stage, NAME_LIMIT);
    let kernels = |kernels| format!("{name}: {} kernels", count(kernels));
    match (row.kernels, row.gpu_busy_ns, row.kernel_sum_ns) {
        (Some(all), Some(busy_ns), _) => {
            let idle = idle_percent(row).map(percent1);
            let idle = idle.map_or_else(String::new, |idle| format!(", idle {idle} %"));
            format!("{}, GPU busy {} ms{of}{idle}", kernels(all), ms3(busy_ns))
        }
        (Some(all), None, Some(ns)) => format!("{}, {} ms in sum", kernels(all), ms3(ns)),
        _ => format!("{name}: GPU work was not recorded"),
    }
}
