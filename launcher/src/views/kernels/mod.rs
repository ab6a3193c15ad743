//! Kernel rows -> `kernels.md`: the longest ones, and what share of the time the rest has.

pub(super) mod csv;

use super::page::first_screen;
use super::table::Align::{Left, Right};
use super::table::Table;
use stage2_model::{CounterRow, KernelRow, Launch, Report};
use stage2_text::numbers::{count, ms3, ms6, or_absent, percent1, us3};
use stage2_text::{code, plain};

/// The page, with at most `top` rows.
pub(super) fn kernels_md(report: &Report, top: usize) -> String {
    let mut out = first_screen("Kernels", report);
    out.push_str(&rows_line(report, top));
    let mut table = Table::new(&[
        ("kernel_name", Left),
        ("total_ms", Right),
        ("calls", Right),
        ("mean_ms", Right),
        ("device", Left),
        ("stage", Left),
        ("range_path", Left),
        ("gpu_time_%", Right),
        ("class", Left),
        ("grid", Left),
        ("block", Left),
        ("min_us", Right),
        ("p50_us", Right),
        ("p99_us", Right),
        ("max_us", Right),
        ("SM_%", Right),
        ("DRAM_%", Right),
        ("occupancy_%", Right),
        ("GFLOP/s", Right),
        ("FLOP/byte", Right),
        ("bound", Left),
        ("registers", Right),
        ("shared_bytes", Right),
        ("untimed_calls", Right),
        ("sources", Left),
    ]);
    for row in report.kernels.iter().take(top) {
        add(&mut table, row);
    }
    if !table.is_empty() {
        out.push_str(&table.finish());
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

fn add(table: &mut Table, row: &KernelRow) {
    let launch = |show: fn(Launch) -> String| or_absent(row.launch, show);
    let counter = |value: fn(&CounterRow) -> Option<f64>| {
        or_absent(row.counters.as_ref().and_then(value), |value| format!("{value:.1}"))
    };
    let times = &row.times;
    table.row([
        code(&row.kernel),
        ms3(times.total_ns),
        times.calls.to_string(),
        or_absent(times.mean_ns, ms6),
        plain(&row.device),
        code(&row.stage),
        code(&row.path),
        or_absent(row.kernel_sum_percent, percent1),
        plain(&row.class),
        launch(|l| dimensions(l.grid)),
        launch(|l| dimensions(l.block)),
        or_absent(times.min_ns, us3),
        or_absent(times.p50_ns, us3),
        or_absent(times.p99_ns, us3),
        or_absent(times.max_ns, us3),
        counter(|c| c.sm_percent),
        counter(|c| c.dram_percent),
        counter(|c| c.achieved_occupancy_percent),
        counter(|c| c.roofline.flops_per_s.map(|rate| rate / 1e9)),
        counter(|c| c.roofline.flops_per_byte),
        or_absent(row.counters.as_ref().and_then(|c| c.roofline.bound), |b| b.label().to_owned()),
        or_absent(row.launch.and_then(|l| l.registers_per_thread), |count| count.to_string()),
        or_absent(row.launch.and_then(shared_bytes), |bytes| bytes.to_string()),
        times.invalid_timestamp_calls.to_string(),
        sources(row),
    ]);
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
