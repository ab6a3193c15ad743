//! The counters of ncu -> beside the kernel rows of a report, at their undisturbed durations.

use std::collections::{BTreeSet, HashMap};

use crate::finding::{Finding, Severity};
use crate::ncu::load::{KernelCounters, Tables};
use crate::report::model::{CounterRow, KernelRow, Origin, Report, RuleRow};
use crate::roofline::bound::roofline;
use crate::roofline::bound::{Counters, DURATION_RATIO_LEAST, DURATION_RATIO_MOST, FlopCounts};
use crate::roofline::hardware::Peaks;

/// Kernel, grid, block and device: what both tools know of a launch. The device is absent where both
/// know one only: tools number devices differently when some are hidden.
type Key<'t> = (&'t str, [u32; 3], [u32; 3], Option<u32>);

/// Adds the counters to every row whose kernel, configuration and GPU ncu profiled.
pub(crate) fn attach(report: &mut Report, tables: &Tables, peaks: Option<&Peaks>) {
    let of_ncu: BTreeSet<u32> = tables.kernels.iter().map(|kernel| kernel.key.device).collect();
    let of_rows: BTreeSet<Option<u32>> = report.kernels.iter().map(device_number).collect();
    let several = of_ncu.len() > 1 || of_rows.len() > 1;
    let number = |device: u32| several.then_some(device);
    let by_key: HashMap<Key<'_>, &KernelCounters> = tables
        .kernels
        .iter()
        .map(|k| ((k.key.kernel.as_str(), k.key.grid, k.key.block, number(k.key.device)), k))
        .collect();
    let shapeless = report.kernels.iter().filter(|row| row.launch.is_none()).count();
    let source = report.source.clone();
    let Report { kernels, kernel_names, findings, .. } = report;
    let mut joined = 0usize;
    let mut apart = Vec::new();
    for row in kernels.iter_mut() {
        let name = kernel_names.get(row.name_index).map_or("", |name| name.mangled.as_str());
        let Some(key) = key_of(row, name, several) else { continue };
        let Some(counters) = by_key.get(&key) else { continue };
        let counted = counter_row(counters, row, peaks);
        joined += 1;
        if let Some(ratio) = counted.roofline.duration_ratio
            && !(DURATION_RATIO_LEAST..=DURATION_RATIO_MOST).contains(&ratio)
        {
            apart.push((row.kernel.clone(), ratio));
        }
        row.counters = Some(counted);
        row.sources.counters = Some(Origin::Ncu);
    }
    findings.extend(tables.findings.iter().cloned());
    if joined == 0 && !tables.kernels.is_empty() {
        findings.push(Finding::new(
            Severity::Warning,
            format!(
                "none of the {} kernels that ncu profiled is in the capture",
                tables.kernels.len()
            ),
            match shapeless {
                0 => "names, grids and blocks of both have to be the same".to_owned(),
                _ => format!("{shapeless} kernel rows have no grid and block to find them by"),
            },
            "profile the same command, and import with --print-kernel-base mangled; of nsys, merge \
             the SQLite export",
        ));
    }
    if let Some((kernel, ratio)) = apart.first() {
        findings.push(Finding::new(
            Severity::Note,
            format!(
                "ncu's own duration is far from the undisturbed one for {} kernel rows, e.g. {ratio:.2} \
                 times it for {kernel}",
                apart.len()
            ),
            "ncu measures one launch, at other clocks and with cold caches",
            format!("read rates of these rows with care; durations are those of {source}"),
        ));
    }
}

fn key_of<'t>(row: &KernelRow, name: &'t str, several: bool) -> Option<Key<'t>> {
    let launch = row.launch?;
    let device = if several { Some(device_number(row)?) } else { None };
    Some((name, launch.grid, launch.block, device))
}

/// A device is shown as `0 NVIDIA H200`.
fn device_number(row: &KernelRow) -> Option<u32> {
    row.device.split_whitespace().next()?.parse().ok()
}

fn counter_row(counters: &KernelCounters, row: &KernelRow, peaks: Option<&Peaks>) -> CounterRow {
    let duration_ns = row.times.mean_ns.map(|ns| ns as f64);
    let measured = Counters {
        sm_percent: counters.sm_percent,
        memory_percent: counters.memory_percent,
        tensor_pipe_percent: counters.tensor_pipe_percent,
        achieved_occupancy_percent: counters.achieved_occupancy_percent,
        flops: flop_counts(counters),
        dram_bytes: counters.dram_bytes,
        // Against itself it would check nothing.
        profiler_duration_ns: counters.duration_ns.filter(|_| row.sources.times != Origin::Ncu),
    };
    let mut rules: Vec<RuleRow> = counters
        .rules
        .iter()
        .map(|rule| RuleRow {
            name: rule.name.clone(),
            description: rule.description.clone(),
            speedup_percent: rule.speedup_percent,
        })
        .collect();
    rules.sort_by(|a, b| {
        b.speedup_percent.partial_cmp(&a.speedup_percent).unwrap_or(std::cmp::Ordering::Equal)
    });
    CounterRow {
        launches_profiled: counters.launches,
        sm_percent: counters.sm_percent,
        memory_percent: counters.memory_percent,
        dram_percent: counters.dram_percent,
        achieved_occupancy_percent: counters.achieved_occupancy_percent,
        tensor_pipe_percent: counters.tensor_pipe_percent,
        l2_hit_percent: counters.l2_hit_percent,
        flops: counters.flops.clone(),
        roofline: roofline(&measured, duration_ns, peaks),
        rules,
    }
}

fn flop_counts(counters: &KernelCounters) -> FlopCounts {
    let flops = &counters.flops;
    let tensor = |kinds: &[&str]| {
        let known = kinds.iter().filter_map(|kind| flops.tensor.get(*kind));
        known.fold(None, |sum: Option<f64>, count| Some(sum.unwrap_or(0.0) + count))
    };
    FlopCounts {
        fp64: flops.fp64,
        fp32: flops.fp32,
        fp16: flops.fp16,
        tensor_fp64: tensor(&["fp64"]),
        tensor_tf32: tensor(&["tf32"]),
        tensor_fp16: tensor(&["fp16"]),
        tensor_bf16: tensor(&["bf16"]),
        tensor_fp8: tensor(&["fp8"]),
        tensor_fp4: tensor(&["fp4", "fp4_fp6_fp8"]),
        tensor_int8: None,
    }
}
