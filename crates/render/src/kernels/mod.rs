//! Kernel rows -> `kernels.md`: the longest ones of each stage, and what share of the time the rest has.

pub(super) mod by_stage;
pub(super) mod csv;
pub(super) mod top;

use super::page::first_screen;
use super::table::Table;
use by_stage::{StageKernel, stage_kernels};
use stage2_contract::text::numbers::{count, counted, ms3, ms6, percent1};
use stage2_contract::text::{code, plain};
use stage2_model::Report;

/// The page, with at most `top` rows.
pub(super) fn kernels_md(report: &Report, top: usize) -> String {
    let kernels = stage_kernels(report);
    let (shown, rest) = kernels.split_at(top.min(kernels.len()));
    let mut out = format!("# Kernels\n\n{}", first_screen(report));
    out.push_str(&rows_line(shown, rest));
    // Programs read the nine columns; the first five are those of the system before.
    let table = Table::new(shown)
        .with_every_column()
        .left("kernel_name", |kernel| code(&kernel.row.kernel))
        .right("total_ms", |kernel| kernel.total_ns.map(ms3))
        .right("calls", |kernel| kernel.calls.to_string())
        .right("mean_ms", |kernel| kernel.mean_ns.map(ms6))
        .left("device", |kernel| plain(&kernel.device()))
        .left("stage", |kernel| code(&kernel.row.stage))
        .right("share", |kernel| kernel.percent.map(|share| format!("{} %", percent1(share))))
        .left("class", |kernel| plain(&kernel.row.class))
        .left("bound", StageKernel::bound);
    if !shown.is_empty() {
        out.push_str(&table.markdown());
    }
    out.push_str(match report.source.as_str() {
        "nsys" => "Times are those of nsys.",
        "ncu" => "Times are those of ncu: of profiled launches, not undisturbed.",
        _ => "Times are the collector's, undisturbed.",
    });
    out.push_str(
        " Each row is a kernel in a stage, over all range paths, launch configurations and instances, \
         the cold first ones included. `share` is the row's part of the sum of the stage's kernel \
         durations; overlapping kernels count each. `bound` follows from ncu's counters of the longest \
         launch configuration that has some; with (one launch) it holds for the profiled launch only, and with \
         (sampled) it follows from counters that were sampled while the workload ran.",
    );
    out.push_str(&notes(report));
    out.push_str(
        " Names are demangled and shortened (`#1`, `#2` tell apart kernels whose short names are the \
         same). kernels.csv has full names, range paths, launch configurations, percentiles, counters \
         and sources; report.md explains the terms.\n",
    );
    out
}

/// What the numbers are not, where that is so.
fn notes(report: &Report) -> String {
    let mut out = String::new();
    if report.kernels.iter().any(|row| row.times.recorded_calls.is_some()) {
        out.push_str(" Calls and totals are scaled from the recorded instances to all.");
    }
    let untimed = report.kernels.iter().map(|row| row.times.invalid_timestamp_calls);
    let untimed = untimed.fold(0, u64::saturating_add);
    if untimed > 0 {
        let calls = counted(untimed, "call");
        let has = if untimed == 1 { "has" } else { "have" };
        out.push_str(&format!(
            " {calls} {has} no valid timestamps: `calls` counts them, the times leave them out, and \
             shares are of those with a time."
        ));
    }
    out
}

fn rows_line(shown: &[StageKernel<'_>], rest: &[StageKernel<'_>]) -> String {
    const ORDER: &str = "kernels of stages first, then those of warm-ups and of work outside of \
        stages; the longest total first";
    let all = count((shown.len() + rest.len()) as u64);
    if rest.is_empty() {
        return format!("Rows: all {all}; {ORDER}.\n\n");
    }
    let sum = |kernels: &[StageKernel<'_>]| {
        kernels.iter().filter_map(|kernel| kernel.total_ns).fold(0, u64::saturating_add)
    };
    let (left_ns, shown_ns) = (sum(rest), sum(shown));
    let all_ns = left_ns.saturating_add(shown_ns);
    let share = if all_ns > 0 { left_ns as f64 * 100.0 / all_ns as f64 } else { 0.0 };
    let calls = rest.iter().fold(0u64, |sum, kernel| sum.saturating_add(kernel.calls));
    format!(
        "Rows: {} of {all}; {ORDER}. Left out: {} with {} calls, {} ms, {} % of the sum of all \
         kernels' durations; kernels.csv has every kernel.\n\n",
        count(shown.len() as u64),
        counted(rest.len() as u64, "row"),
        count(calls),
        ms3(left_ns),
        percent1(share),
    )
}
