//! Kernel rows -> `kernels.md`: the longest ones, and what share of the time the rest has.

pub(super) mod csv;
pub(super) mod top;

use super::page::first_screen;
use super::table::Table;
use stage2_model::{CounterRow, KernelRow, Launch, Report};
use stage2_text::numbers::{count, ms3, ms6, percent1, us3};
use stage2_text::{code, plain};

/// The page, with at most `top` rows.
pub(super) fn kernels_md(report: &Report, top: usize) -> String {
    let mut out = format!("# Kernels\n\n{}", first_screen(report));
    out.push_str(&rows_line(report, top));
    let counter = |row: &KernelRow, value: fn(&CounterRow) -> Option<f64>| {
        row.counters.as_ref().and_then(value).map(|value| format!("{value:.1}"))
    };
    let table = Table::new(report.kernels.get(..top).unwrap_or(&report.kernels))
        .left("kernel_name", |row| code(&row.kernel))
        .right("total_ms", |row| ms3(row.times.total_ns))
        .right("calls", |row| row.times.calls.to_string())
        .right("mean_ms", |row| row.times.mean_ns.map(ms6))
        .left("device", |row| plain(&row.device))
        .left("stage", |row| code(&row.stage))
        .left("range_path", |row| code(&row.path))
        .right("gpu_time_%", |row| row.kernel_sum_percent.map(percent1))
        .left("class", |row| plain(&row.class))
        .left("grid", |row| row.launch.map(|launch| dimensions(launch.grid)))
        .left("block", |row| row.launch.map(|launch| dimensions(launch.block)))
        .right("min_us", |row| row.times.min_ns.map(us3))
        .right("p50_us", |row| row.times.p50_ns.map(us3))
        .right("p99_us", |row| row.times.p99_ns.map(us3))
        .right("max_us", |row| row.times.max_ns.map(us3))
        .right("SM_%", |row| counter(row, |c| c.sm_percent))
        .right("DRAM_%", |row| counter(row, |c| c.dram_percent))
        .right("occupancy_%", |row| counter(row, |c| c.achieved_occupancy_percent))
        .right("GFLOP/s", |row| counter(row, |c| c.roofline.flops_per_s.map(|rate| rate / 1e9)))
        .right("FLOP/byte", |row| counter(row, |c| c.roofline.flops_per_byte))
        .left("bound", |row| Some(row.counters.as_ref()?.roofline.bound?.label().to_owned()))
        .right("registers", |row| row.launch?.registers_per_thread.map(|n| n.to_string()))
        .right("shared_bytes", |row| row.launch.and_then(shared_bytes).map(|n| n.to_string()))
        .right("untimed_calls", |row| row.times.invalid_timestamp_calls.to_string())
        .left("sources", sources);
    if top > 0 && !report.kernels.is_empty() {
        out.push_str(&table.markdown());
    }
    out.push_str(match report.source.as_str() {
        "nsys" => "Times are those of nsys",
        "ncu" => "Times are those of ncu: of profiled launches, not undisturbed",
        _ => "Times are the collector's, undisturbed",
    });
    out.push_str(
        "; SM_% to bound are ncu's counters of one launch, \
         with rates over those times, and a dash where ncu did not profile the kernel; (one launch) \
         in `sources`: they are of the profiled launch only, and no rates of the row (see counters in \
         report.md). One row for each kernel, launch configuration, range path and \
         device. `gpu_time_%` is the share of the sum of all kernels' durations; overlapping \
         kernels count each. Names are demangled and shortened (`#1`, `#2` tell apart kernels \
         whose short names are the same); kernels.csv has them in full. `untimed_calls` have no \
         valid timestamps: they are in `calls` and in none of the times. report.md says what the \
         terms mean.\n",
    );
    out
}

fn rows_line(report: &Report, top: usize) -> String {
    let rest = report.kernels.get(top..).unwrap_or_default();
    let shown = count((report.kernels.len() - rest.len()) as u64);
    if rest.is_empty() {
        return format!("Rows: all {shown}, longest total first.\n\n");
    }
    let ns = rest.iter().fold(0u64, |sum, row| sum.saturating_add(row.times.total_ns));
    let calls = rest.iter().fold(0u64, |sum, row| sum.saturating_add(row.times.calls));
    let share: f64 = rest.iter().filter_map(|row| row.kernel_sum_percent).sum();
    format!(
        "Rows: {shown} of {}, longest total first. Left out: {} rows with {} calls, {} ms, {} % of \
         the sum of all kernels' durations; kernels.csv has every row.\n\n",
        count(report.kernels.len() as u64),
        count(rest.len() as u64),
        count(calls),
        ms3(ns),
        percent1(share),
    )
}

fn sources(row: &KernelRow) -> String {
    let counters = row.counters.as_ref();
    let place = counters.and_then(|c| c.profiled_in.as_deref()).filter(|p| *p != row.stage);
    let place = place.map(|place| format!(" of {place}")).unwrap_or_default();
    let launch = match counters {
        Some(counters) if counters.one_launch.is_some() => {
            format!(" (one launch{})", plain(&place))
        }
        _ if !place.is_empty() => format!(" (a launch{})", plain(&place)),
        _ => String::new(),
    };
    let scaled = row.times.recorded_calls.map(|calls| format!(" (scaled from {calls} calls)"));
    format!("{}{launch}{}", row.sources.label(), scaled.unwrap_or_default())
}

fn shared_bytes(launch: Launch) -> Option<u64> {
    Some(u64::from(launch.static_shared_bytes?) + u64::from(launch.dynamic_shared_bytes?))
}

fn dimensions([x, y, z]: [u32; 3]) -> String {
    format!("{x}×{y}×{z}")
}
