//! The summary into plain text for a terminal or a log file.

use std::fmt::Write;

use super::rows::{self, PATHS, Section, TOP, Tables, ms, percent, us};
use super::{LIBRARIES, Summary};
use crate::drain::aggregate::Instances;
use stage2_contract::text::shorten_kernel;

/// Characters of a kernel name.
const NAME: usize = 60;
/// Percent of the GPU time from which on the kernels of a path are listed.
const DETAILED: u64 = 2;

pub(super) fn write(summary: &Summary<'_>, out: &mut String) -> std::fmt::Result {
    let simulated = if summary.simulated { "SIMULATED GPU, " } else { "" };
    writeln!(out, "\nstage2: {simulated}process {}", std::process::id())?;
    match summary.gpu_off {
        Some(off) => writeln!(out, "stage2: no GPU work recorded: {off}")?,
        None if !summary.gpu_seen => {
            writeln!(out, "stage2: no GPU work: this process did not initialise CUDA")?;
        }
        None => writeln!(out, "stage2: {}", summary.coverage())?,
    }
    for part in rows::parts(summary) {
        writeln!(out, "stage2: {part}")?;
    }
    let which = rows::which(summary);
    for &(device, busy) in &summary.totals.busy {
        write!(
            out,
            "stage2: GPU {device} ({}) busy {} ms (union of {which} work on it)",
            summary.device_name(device),
            ms(busy.busy_ns)
        )?;
        if busy.late_ns > 0 {
            write!(out, ", up to {} ms more: some records came too late", ms(busy.late_ns))?;
        }
        writeln!(out)?;
    }
    let Tables { own, libraries, whole_ns } = rows::tables(summary);
    write_sections(summary, &own, whole_ns, out)?;
    if !libraries.is_empty() {
        writeln!(out, "\nstage2: {LIBRARIES}:")?;
        write_sections(summary, &libraries, whole_ns, out)?;
    }
    Ok(())
}

fn write_sections(
    summary: &Summary<'_>,
    sections: &[Section],
    whole_ns: u64,
    out: &mut String,
) -> std::fmt::Result {
    let restricted = summary.options.is_restricted();
    for section in sections.iter().take(PATHS) {
        write!(out, "\n{}", section.title(summary.names))?;
        let Instances { count, asked, recorded, host_ns } = section.instances;
        if count > 0 {
            write!(out, "  x{count}, host {} ms", ms(host_ns))?;
            if restricted && asked > 0 {
                write!(out, ", recorded {recorded}")?;
            }
        }
        if !section.is_recorded(restricted) {
            writeln!(out, ", GPU work not recorded")?;
            continue;
        }
        let (total, share) = (ms(section.total_ns), percent(section.total_ns, whole_ns));
        writeln!(out, ", GPU sum {total} ms ({share} %), {} calls", section.calls)?;
        if section.total_ns.saturating_mul(100) < whole_ns.saturating_mul(DETAILED) {
            continue;
        }
        writeln!(
            out,
            "  {:>9} {:>12} {:>10} {:>10} {:>10} {:>6}  kernel",
            "calls", "total ms", "mean us", "p50 us", "p99 us", "%"
        )?;
        for line in section.rows.iter().take(TOP) {
            let percentile = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
            writeln!(
                out,
                "  {:>9} {:>12} {:>10} {:>10} {:>10} {:>6}  {}",
                line.calls,
                ms(line.total_ns),
                us(line.mean_ns()),
                percentile(line.percentile_ns(50)),
                percentile(line.p99_ns()),
                percent(line.total_ns, whole_ns),
                shorten_kernel(&line.name, NAME),
            )?;
        }
        left_out(out, section.rows.iter().skip(TOP).map(|line| line.total_ns), "kernels")?;
    }
    left_out(out, sections.iter().skip(PATHS).map(|s| s.total_ns), "range paths")
}

fn left_out(out: &mut String, rest: impl Iterator<Item = u64>, what: &str) -> std::fmt::Result {
    let (count, total) = rest.fold((0u64, 0u64), |(count, sum), ns| (count + 1, sum + ns));
    if count > 0 {
        writeln!(out, "  ... {count} more {what}, {} ms", ms(total))?;
    }
    Ok(())
}
