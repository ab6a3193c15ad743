//! The names of metrics on the details page -> those of the raw page.

/// Names of the details page, with their units, and what they are called on the raw page; those since
/// 2022.3 first, older ones below. One name can mean two things: `Memory Throughput` is a share of peak
/// or a rate. ` [%]` behind a name is left out.
const NAMES: &[(&str, &str, &str)] = &[
    ("Duration", "ns", "gpu__time_duration.sum"),
    ("Compute (SM) Throughput", "%", SM),
    ("Memory Throughput", "%", MEMORY),
    ("Memory Throughput", "byte/s", "dram__bytes.sum.per_second"),
    ("DRAM Throughput", "%", DRAM),
    ("Achieved Occupancy", "%", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ("Theoretical Occupancy", "%", "sm__maximum_warps_per_active_cycle_pct"),
    ("L2 Hit Rate", "%", "lts__t_sector_hit_rate.pct"),
    ("L1/TEX Hit Rate", "%", "l1tex__t_sector_hit_rate.pct"),
    ("Registers Per Thread", "register/thread", "launch__registers_per_thread"),
    ("Waves Per SM", "", "launch__waves_per_multiprocessor"),
    // 2019 to 2022.2.
    ("Compute (SM)", "%", SM),
    ("SM", "%", SM),
    ("SOL SM", "%", SM),
    ("Memory", "%", MEMORY),
    ("SOL Memory", "%", MEMORY),
    ("SOL DRAM", "%", DRAM),
    ("SOL FB", "%", DRAM),
];
const SM: &str = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
const MEMORY: &str = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed";
const DRAM: &str = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed";

/// Sections with the counters that a report shows.
const SECTIONS: &[&str] = &[
    "GPU Speed Of Light",
    "GPU Speed Of Light Throughput",
    "Memory Workload Analysis",
    "Occupancy",
];

/// Names of shares and times in these sections that no report shows.
const NOT_SHOWN: &[&str] = &[
    "L1/TEX Cache Throughput",
    "L2 Cache Throughput",
    "SOL L1/TEX Cache",
    "SOL L2 Cache",
    "SOL L1",
    "L1 Hit Rate",
    "SOL L2",
    "SOL TEX",
    "Mem Busy",
    "Max Bandwidth",
    "Mem Pipes Busy",
    "L2 Compression Success Rate",
    "Local Memory Spilling Request Overhead",
    "Shared Memory Spilling Request Overhead",
    "Overall GPU Occupancy",
    "Cluster Occupancy",
];

/// The name as newer versions write it.
fn without_unit(name: &str) -> &str {
    name.strip_suffix("[%]").unwrap_or(name).trim_end()
}

fn known(name: &str, unit: &str) -> Option<&'static str> {
    let name = without_unit(name);
    NAMES.iter().find(|(shown, of, _)| *shown == name && *of == unit).map(|(.., raw)| *raw)
}

/// The name that a metric of the details page has on the raw page; `Section/Name` where it has none
/// that is known.
pub(super) fn raw_name(section: &str, name: &str, unit: &str) -> String {
    if name.contains("__") {
        return name.to_owned();
    }
    known(name, unit).map_or_else(|| format!("{section}/{name}"), ToOwned::to_owned)
}

/// Whether a name may be that of a counter that a report shows, in a version that called it otherwise.
/// Parts of a counter are named with a colon (`L1: Lsuin Requests`).
pub(super) fn is_unknown(section: &str, name: &str, unit: &str) -> bool {
    SECTIONS.contains(&section)
        && matches!(unit, "%" | "ns")
        && !name.contains("__")
        && !name.contains(": ")
        && known(name, unit).is_none()
        && !NOT_SHOWN.contains(&without_unit(name))
}
