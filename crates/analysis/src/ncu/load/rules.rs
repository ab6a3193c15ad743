//! A record of the details page -> a metric by the name of the raw page, or what a rule says.

use stage2_text as text;

use super::number::number;

/// What a rule of ncu says about a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Section that it belongs to: `SpeedOfLight`.
    pub section: String,
    /// Its name: `SOLBottleneck`.
    pub name: String,
    /// `OPT` (something to gain), `INF`, `WRN` or whatever it is.
    pub kind: String,
    /// What it says, in ncu's words.
    pub description: String,
    /// What the estimate is about: `global` (the kernel) or `local` (one aspect of it).
    pub speedup_kind: Option<String>,
    /// Estimated speed-up, %.
    pub speedup_percent: Option<f64>,
}

impl Rule {
    /// Reads the columns of a rule, as text.
    pub(super) fn new(
        section: &str,
        name: &str,
        kind: &str,
        description: &str,
        speedup_kind: &str,
        speedup: &str,
    ) -> Rule {
        let text = |cell: &str| text::visible(cell.trim().as_bytes());
        let percent = number(speedup).filter(|value| (0.0..=100.0).contains(value));
        Rule {
            section: text(section),
            name: text(name),
            kind: text(kind),
            description: text(description),
            speedup_kind: Some(text(speedup_kind)).filter(|kind| !kind.is_empty()),
            speedup_percent: percent,
        }
    }
}

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
