//! What the driver and the hardware counters say of the GPUs -> lines of the page.

use std::collections::BTreeSet;

use ratatui::text::Line;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::numbers::counted;
use stage2_contract::trace::CLOCK_LIMITS;
use stage2_contract::trace::counters::{self, Names};
use stage2_live::{Counter, GpuState, Watched};

use super::{MORE, View, plain, runs, share, short, who};

/// What the driver says of the GPUs: a line for each, or, where there is no room for them, a line for all.
pub(super) fn gpus(view: &View, height: usize, width: usize) -> Vec<Line<'static>> {
    let mut all: Vec<String> = Vec::new();
    for process in &view.look.processes {
        let of = whose(view, process, |of| !of.gpus.is_empty());
        all.extend(process.gpus.iter().map(|gpu| format!("{of}{}", gpu_text(gpu))));
    }
    let mut lines: Vec<String> = Vec::new();
    for gpu in &all {
        match lines.last_mut() {
            Some(line) if line.chars().count() + gpu.chars().count() + 3 <= width => {
                line.push_str(&format!("   {gpu}"));
            }
            _ => lines.push(format!("  {gpu}")),
        }
    }
    if lines.len() > height {
        let states = view.look.processes.iter().flat_map(|process| &process.gpus);
        lines = vec![format!("  {}", together(&states.collect::<Vec<_>>()))];
    }
    lines.iter().map(|line| plain(line, width)).collect()
}

/// What the line of a GPU begins with, if several processes are shown: the rank, or else the process, unless no other
/// one has such lines.
fn whose(view: &View, process: &Watched, has: fn(&Watched) -> bool) -> String {
    let all = &view.look.processes;
    let is_one_of_many = all.iter().filter(|of| has(of)).count() > 1;
    let is_told = all.len() > 1 && (process.rank.is_some() || is_one_of_many);
    // Ranks of two runs have the same numbers.
    let name = if runs(all.iter()).len() > 1 { process.pid.to_string() } else { who(process) };
    if is_told { format!("{name} ") } else { String::new() }
}

/// Readings that are older are told to be: they come about once a second.
const OLD_NS: u64 = 5_000_000_000;

fn old(age_ns: u64) -> String {
    if age_ns > OLD_NS { format!("({} s old) ", age_ns / 1_000_000_000) } else { String::new() }
}

/// Many GPUs in one line: the lowest and the highest value of each kind, and how many of them are held down.
fn together(all: &[&GpuState]) -> String {
    let range = |of: fn(&GpuState) -> Option<f64>, unit: &str| {
        let values = || all.iter().filter_map(|gpu| of(gpu));
        let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        let (least, most) = (format!("{least:.0}"), format!("{most:.0}"));
        Some(if least == most { format!("{most}{unit}") } else { format!("{least}-{most}{unit}") })
    };
    let (used, memory) = (
        range(|gpu| gpu.memory_used_bytes.map(gib), ""),
        all.iter().filter_map(|gpu| gpu.memory_bytes).max(),
    );
    let memory = memory.map_or_else(String::new, |bytes| format!(" of {:.0}", gib(bytes)));
    let held = all.iter().filter_map(|gpu| limit_of(gpu));
    let mut limits: Vec<&str> = held.clone().collect();
    limits.sort_unstable();
    limits.dedup();
    let limits =
        (!limits.is_empty()).then(|| format!("! {} on {}", limits.join(", "), held.count()));
    let parts = [
        range(|gpu| Some(f64::from(gpu.power_mw?) / 1e3), " W"),
        range(|gpu| gpu.sm_clock_mhz.map(f64::from), " MHz"),
        range(|gpu| gpu.memory_clock_mhz.map(f64::from), " MHz")
            .map(|text| format!("memory {text}")),
        range(|gpu| gpu.temperature_c.map(f64::from), " C"),
        used.map(|used| format!("{used}{memory} GiB")),
        limits,
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let old = old(all.iter().map(|gpu| gpu.age_ns).max().unwrap_or(0));
    format!("{} {old}{}", counted(all.len() as u64, "GPU"), parts.join(" "))
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// What holds the clocks of a GPU down.
fn limit_of(gpu: &GpuState) -> Option<&'static str> {
    let reasons = gpu.clock_reasons.unwrap_or(0);
    CLOCK_LIMITS.iter().find(|(bit, _)| reasons & bit != 0).map(|(_, name)| *name)
}

fn gpu_text(gpu: &GpuState) -> String {
    let gb = |bytes: u64| format!("{:.1}", gib(bytes));
    let memory = match (gpu.memory_used_bytes, gpu.memory_bytes) {
        (Some(used), Some(all)) => Some(format!("{} of {} GiB", gb(used), gb(all))),
        (Some(used), None) => Some(format!("{} GiB", gb(used))),
        (None, _) => None,
    };
    let limit = limit_of(gpu).map(|name| format!("! {name}"));
    let parts = [
        gpu.power_mw.map(|mw| format!("{:.0} W", f64::from(mw) / 1e3)),
        gpu.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")),
        gpu.memory_clock_mhz.map(|mhz| format!("memory {mhz} MHz")),
        gpu.temperature_c.map(|degrees| format!("{degrees} C")),
        memory,
        limit,
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("GPU{} {}{}", gpu.device, old(gpu.age_ns), parts.join(" "))
}

/// The hardware counters: a line for each GPU, as many as there is room for.
pub(super) fn counters(view: &View, height: usize, width: usize) -> Vec<Line<'static>> {
    let mut gpus: Vec<(String, Vec<String>)> = Vec::new();
    for process in &view.look.processes {
        let devices: BTreeSet<u32> = process.counters.iter().map(|of| of.device).into_set();
        gpus.extend(devices.into_iter().map(|device| {
            let of: Vec<&Counter> =
                process.counters.iter().filter(|of| of.device == device).collect();
            let whose = whose(view, process, |of| !of.counters.is_empty());
            // Those of a set that is sampled no more have no place next to the new ones.
            let age_ns = of.iter().map(|of| of.age_ns).min().unwrap_or(0);
            let of: Vec<&Counter> =
                of.into_iter().filter(|of| of.age_ns < age_ns.saturating_add(OLD_NS)).collect();
            let old = old(age_ns);
            (format!("{whose}GPU{device} {old}"), counter_texts(&of))
        }));
    }
    let hidden = gpus.len().saturating_sub(height);
    let (end, last) = match hidden {
        0 => (String::new(), 0),
        1 => ("  (1 more GPU)".to_owned(), height.saturating_sub(1)),
        some => (format!("  ({some} more GPUs)"), height.saturating_sub(1)),
    };
    let mut lines = Vec::new();
    for (at, (gpu, texts)) in gpus.iter().take(height).enumerate() {
        let end = if at == last { end.as_str() } else { "" };
        let room = width.saturating_sub(end.len());
        let mut line = format!("  {gpu}");
        // A name or a number is never cut.
        for (at, text) in texts.iter().enumerate() {
            let between = if at > 0 { " · " } else { "" };
            let columns = between.chars().count() + text.chars().count();
            // That there are more has room, too.
            let more = if at + 1 < texts.len() { MORE.chars().count() } else { 0 };
            if line.chars().count() + columns + more > room {
                line.push_str(MORE);
                break;
            }
            line.push_str(between);
            line.push_str(text);
        }
        lines.push(plain(&format!("{line}{end}"), width));
    }
    lines
}

/// What the counters of a GPU say, the most important first; those without their own name are called as CUPTI does.
fn counter_texts(all: &[&Counter]) -> Vec<String> {
    let of = |names: Names| {
        let is_it =
            |of: &&&Counter| names.iter().any(|name| of.metric.as_bytes() == name.to_bytes());
        all.iter().find(is_it).map(|found| found.value)
    };
    let sum = |names: [Names; 2]| names.map(of).into_iter().flatten().reduce(|a, b| a + b);
    let bytes =
        |label: &str, value: Option<f64>| Some(format!("{label} {}B/s", short_unit(value?)));
    let percent =
        |label: &str, value: Option<f64>| Some(format!("{label} {}", share(value? / 100.0)));
    let known = [
        bytes("DRAM", sum([counters::DRAM_READ, counters::DRAM_WRITE])),
        percent("tensor", of(counters::TENSOR)),
        of(counters::CYCLES).map(|hz| format!("SM clock {}Hz", short_unit(hz))),
        percent("SM active", of(counters::SM_ACTIVE)),
        percent("issue", of(counters::ISSUE)),
        bytes("L2", of(counters::L2_SECTORS).map(|sectors| sectors * 32.0)),
        bytes("PCIe", sum([counters::PCIE_READ, counters::PCIE_WRITE])),
        bytes("NVLink", sum([counters::NVLINK_RECEIVED, counters::NVLINK_SENT])),
    ];
    let is_other = |of: &&&Counter| {
        let mut names = counters::ALL.iter().copied().flatten();
        names.all(|name| of.metric.as_bytes() != name.to_bytes())
    };
    let others = all.iter().filter(is_other).map(|of| match of.is_percent {
        true => format!("{} {}", of.metric, share(of.value / 100.0)),
        false => format!("{} {}/s", of.metric, short(of.value)),
    });
    known.into_iter().flatten().chain(others).collect()
}

/// A number and the prefix of its unit.
fn short_unit(value: f64) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e12 => (v / 1e12, "T"),
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    format!("{} {prefix}", short(scaled))
}
