//! Kernel rows -> `kernels.csv`: every row, names in full, integers in nanoseconds.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use stage2_model::{Origin, Report};
use stage2_text::csv_field;

const COLUMNS: [&str; 52] = [
    "kernel_name",
    "mangled_name",
    "total_ns",
    "calls",
    "mean_ns",
    "device",
    "stage",
    "range_path",
    "kernel_sum_percent",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "min_ns",
    "p50_ns",
    "p99_ns",
    "max_ns",
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "local_bytes_per_thread",
    "graph_calls",
    "invalid_timestamp_calls",
    "first_start_gpu_ns",
    "last_end_gpu_ns",
    "path_index",
    "name_index",
    "class",
    "sm_percent",
    "memory_percent",
    "dram_percent",
    "achieved_occupancy_percent",
    "tensor_pipe_percent",
    "l2_hit_percent",
    "flops_per_launch",
    "tensor_flops_per_launch",
    "dram_bytes_per_launch",
    "flops_per_s",
    "dram_bytes_per_s",
    "flops_per_byte",
    "attainable_percent",
    "bound",
    "recorded_calls",
    "source",
    "counters_source",
    "counters_stage",
    "counters_of_one_launch",
    "host",
    "ranks",
    "simulated",
];

/// Writes the table. Absent values are empty fields.
///
/// # Errors
/// What the sink says.
pub(in crate::views) fn kernels_csv(report: &Report, sink: impl Write) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS)?;
    let hosts: HashMap<&str, &str> = report
        .devices
        .iter()
        .filter_map(|row| Some((row.device.as_str(), row.host.as_deref()?)))
        .collect();
    let ranks = ranks_by_device(report);
    let host = |device: &str| csv_field(hosts.get(device).copied().unwrap_or_default());
    let ranks = |device: &str| ranks.get(device).cloned().unwrap_or_default();
    for row in &report.kernels {
        let name = report.kernel_names.get(row.name_index);
        let name = |part: fn(&stage2_text::KernelName) -> &str| csv_field(name.map_or("", part));
        let launch = |value: fn(stage2_model::Launch) -> Option<u32>| {
            row.launch.and_then(value).map_or_else(String::new, |v| v.to_string())
        };
        let some = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
        let counter = |value: fn(&stage2_model::CounterRow) -> Option<f64>| {
            row.counters.as_ref().and_then(value).map_or_else(String::new, |v| format!("{v:.4}"))
        };
        let text = |value: fn(&stage2_model::CounterRow) -> Option<&str>| {
            csv_field(row.counters.as_ref().and_then(value).unwrap_or_default())
        };
        let times = &row.times;
        writer.write_record([
            name(|n| &n.demangled),
            name(|n| &n.mangled),
            times.total_ns.to_string(),
            times.calls.to_string(),
            some(times.mean_ns),
            csv_field(&row.device),
            csv_field(&row.stage),
            csv_field(&row.path),
            row.kernel_sum_percent.map_or_else(String::new, |p| format!("{p:.6}")),
            launch(|l| Some(l.grid[0])),
            launch(|l| Some(l.grid[1])),
            launch(|l| Some(l.grid[2])),
            launch(|l| Some(l.block[0])),
            launch(|l| Some(l.block[1])),
            launch(|l| Some(l.block[2])),
            some(times.min_ns),
            some(times.p50_ns),
            some(times.p99_ns),
            some(times.max_ns),
            launch(|l| l.registers_per_thread),
            launch(|l| l.static_shared_bytes),
            launch(|l| l.dynamic_shared_bytes),
            launch(|l| l.local_bytes_per_thread),
            times.graph_calls.to_string(),
            times.invalid_timestamp_calls.to_string(),
            some(times.first_start_gpu_ns),
            some(times.last_end_gpu_ns),
            row.path_index.to_string(),
            row.name_index.to_string(),
            csv_field(&row.class),
            counter(|c| c.sm_percent),
            counter(|c| c.memory_percent),
            counter(|c| c.dram_percent),
            counter(|c| c.achieved_occupancy_percent),
            counter(|c| c.tensor_pipe_percent),
            counter(|c| c.l2_hit_percent),
            counter(|c| c.roofline.flops),
            counter(|c| c.roofline.tensor_flops),
            counter(|c| c.roofline.dram_bytes),
            counter(|c| c.roofline.flops_per_s),
            counter(|c| c.roofline.bytes_per_s),
            counter(|c| c.roofline.flops_per_byte),
            counter(|c| c.roofline.attainable_share.map(|share| share * 100.0)),
            row.counters
                .as_ref()
                .and_then(|c| c.roofline.bound)
                .map_or_else(String::new, |bound| bound.label().to_owned()),
            some(times.recorded_calls),
            row.sources.times.label().to_owned(),
            row.sources.counters.map_or("", Origin::label).to_owned(),
            text(|c| c.profiled_in.as_deref()),
            text(|c| c.one_launch.as_deref()),
            host(&row.device),
            ranks(&row.device),
            row.simulated.to_string(),
        ])?;
    }
    writer.flush()?;
    Ok(())
}

/// Ranks that used each GPU, as `0 1`.
fn ranks_by_device(report: &Report) -> HashMap<&str, String> {
    let mut ranks: HashMap<&str, BTreeSet<u64>> = HashMap::new();
    for process in report.processes.iter().filter(|process| !process.inherited_rank) {
        for device in &process.devices {
            ranks.entry(device).or_default().extend(process.rank);
        }
    }
    let joined =
        |ranks: BTreeSet<u64>| ranks.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    ranks.into_iter().map(|(device, ranks)| (device, joined(ranks))).collect()
}
