//! The last minute of a stage and of the GPUs -> charts of a line each.

use ratatui::style::Color;
use ratatui::text::Line;

use stage2_live::Watched;

use super::{Row, View, coloured, missing, plain, share, short};

/// The last minute, a column a second: how long the steps of the stage were, and how busy the GPUs.
pub(super) fn minute(view: &View, row: Option<&Row>, width: usize) -> Vec<Line<'static>> {
    let lengths = view.look.processes.iter().map(|of| of.window.minute.busy_ns.len());
    let seconds = width.saturating_sub(34).min(60).min(lengths.max().unwrap_or(0));
    let columns = (0..seconds).rev();
    let steps: Vec<Option<f64>> = columns.clone().map(|ago| step_ms(view, row?, ago)).collect();
    let busy: Vec<Option<f64>> = columns.map(|ago| gpu_share(view, ago)).collect();
    let per = row.map_or_else(String::new, |row| {
        format!("{} ms, last {seconds} s", row.unit.to_uppercase())
    });
    let gpu = format!("GPU, last {seconds} s");
    let lines = [
        (per.as_str(), trend(&steps, None, short)),
        (gpu.as_str(), trend(&busy, Some(1.0), share)),
    ];
    let lines = lines.into_iter().filter_map(|(label, trend)| Some((label, trend?)));
    let line = |(label, trend)| plain(&format!("  {label:<19} {trend}"), width);
    lines.map(|of| coloured(line(of), Color::Green, view)).collect()
}

/// The mean time of the steps of a stage that ended so many seconds before the newest data.
fn step_ms(view: &View, row: &Row, ago: usize) -> Option<f64> {
    let (mut steps, mut all_ns) = (0u64, 0u64);
    for process in &view.look.processes {
        let seconds = process.window.minute.steps.get(&row.name);
        let (more, ns) = seconds.and_then(|all| all.iter().rev().nth(ago)).unwrap_or(&(0, 0));
        (steps, all_ns) = (steps.saturating_add(*more), all_ns.saturating_add(*ns));
    }
    (steps > 0).then(|| all_ns as f64 / steps as f64 / 1e6)
}

/// The part of the second so many seconds before the newest data in which the GPUs worked.
fn gpu_share(view: &View, ago: usize) -> Option<f64> {
    // Where no GPU work is recorded, or much of it is missing, how busy the GPU is is not known.
    let is_known =
        |of: &&Watched| !of.has_no_gpu_records && missing(std::iter::once(*of)).is_none();
    let with_records = view.look.processes.iter().filter(is_known);
    let seconds = with_records.map(|process| &process.window.minute.busy_ns);
    let all: Vec<u64> = seconds.filter_map(|all| all.iter().rev().nth(ago).copied()).collect();
    let sum: f64 = all.iter().map(|ns| *ns as f64 / 1e9).sum();
    (!all.is_empty()).then(|| sum / all.len() as f64)
}

/// Values as bars up to the largest one or `full`, and the least and the largest in figures.
fn trend(values: &[Option<f64>], full: Option<f64>, text: fn(f64) -> String) -> Option<String> {
    let known = || values.iter().flatten().copied();
    let (least, most) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    let bars: String = values.iter().map(|value| bar(*value, full.unwrap_or(most))).collect();
    Some(format!("{bars} {}-{}", text(least), text(most)))
}

/// The height of a value, of eight; where nothing is known, a space.
fn bar(value: Option<f64>, full: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let Some(value) = value else { return ' ' };
    let part = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
    BARS.get((part * 7.0).round() as usize).copied().unwrap_or(' ')
}
