//! The names of metrics on the details page -> those of the raw page.

/// Names of the details page, with their units, and what they are called on the raw page. One name
/// can mean two things: `Memory Throughput` is a share of peak or a rate.
const NAMES: &[(&str, &str, &str)] = &[
    ("Duration", "ns", "gpu__time_duration.sum"),
    ("Compute (SM) Throughput", "%", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("Memory Throughput", "%", "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
    ("Memory Throughput", "byte/s", "dram__bytes.sum.per_second"),
    ("DRAM Throughput", "%", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
    ("Achieved Occupancy", "%", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ("Theoretical Occupancy", "%", "sm__maximum_warps_per_active_cycle_pct"),
    ("L2 Hit Rate", "%", "lts__t_sector_hit_rate.pct"),
    ("L1/TEX Hit Rate", "%", "l1tex__t_sector_hit_rate.pct"),
    ("Registers Per Thread", "register/thread", "launch__registers_per_thread"),
    ("Waves Per SM", "", "launch__waves_per_multiprocessor"),
];

/// The name that a metric of the details page has on the raw page; `Section/Name` where it has none
/// that is known.
pub(super) fn raw_name(section: &str, name: &str, unit: &str) -> String {
    if name.contains("__") {
        return name.to_owned();
    }
    let known = NAMES.iter().find(|(shown, of, _)| *shown == name && *of == unit);
    known.map_or_else(|| format!("{section}/{name}"), |(.., raw)| (*raw).to_owned())
}
