//! The summary into `kernels.md`, for a capture that was taken without the launcher.

use std::fmt::Write;

use super::rows::{self, Section, Tables, ms, percent};
use super::{LIBRARIES, Summary};
use crate::drain::aggregate::Instances;
use stage2_contract::text;

pub(super) fn write(summary: &Summary<'_>, out: &mut String) -> std::fmt::Result {
    writeln!(out, "# Kernels\n")?;
    if summary.simulated {
        writeln!(out, "**SIMULATED GPU: these are replayed recordings, not measurements.**\n")?;
    }
    match summary.gpu_off {
        Some(off) => {
            let reason = text::plain(&text::visible(off.0.as_bytes()));
            writeln!(out, "No GPU work recorded: {reason}\n")?;
        }
        None => writeln!(out, "{}\n", summary.coverage())?,
    }
    for part in rows::parts(summary) {
        writeln!(out, "**{}.**\n", text::plain(&part))?;
    }
    for &(device, busy) in &summary.totals.busy {
        let name = text::plain(&summary.device_name(device));
        let (busy, which) = (ms(busy.busy_ns), rows::which(summary));
        writeln!(out, "GPU {device} ({name}): busy {busy} ms (union of {which} work).\n")?;
    }
    let Tables { own, libraries, whole_ns } = rows::tables(summary);
    write_table(summary, own, whole_ns, out)?;
    if libraries.iter().any(|section| !section.rows.is_empty()) {
        writeln!(out, "\n## {LIBRARIES}\n")?;
        write_table(summary, libraries, whole_ns, out)?;
    }
    Ok(())
}

fn write_table(
    summary: &Summary<'_>,
    sections: Vec<Section>,
    whole_ns: u64,
    out: &mut String,
) -> std::fmt::Result {
    writeln!(
        out,
        "| kernel_name | total_ms | calls | mean_ms | device | range | % of GPU time | p50_ms | p99_ms |"
    )?;
    writeln!(out, "|---|--:|--:|--:|---|---|--:|--:|--:|")?;
    let mut lines: Vec<_> = sections
        .into_iter()
        .filter(|section| !section.rows.is_empty())
        .flat_map(|section| {
            let mut title = section.title(summary.names);
            if summary.options.is_sampled() && section.instances.recorded > 0 {
                let Instances { asked, recorded, .. } = section.instances;
                title.push_str(&format!(" (scaled: recorded {recorded} of {asked})"));
            }
            section.rows.into_iter().map(move |line| (title.clone(), line))
        })
        .collect();
    lines.sort_by_key(|(_, line)| std::cmp::Reverse(line.total_ns));
    for (title, line) in &lines {
        let ms6 =
            |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.6}", ns / 1e6));
        let percentile = |ns: Option<u64>| ms6(ns.map(|ns| ns as f64));
        let mean = ms6(line.mean_ns());
        writeln!(
            out,
            "| {} | {} | {} | {mean} | {}:{} | {} | {} | {} | {} |",
            text::code(&line.name),
            ms(line.total_ns),
            line.calls,
            line.device,
            text::plain(&summary.device_name(line.device)),
            text::code(title),
            percent(line.total_ns, whole_ns),
            percentile(line.percentile_ns(50)),
            percentile(line.p99_ns()),
        )?;
    }
    Ok(())
}
