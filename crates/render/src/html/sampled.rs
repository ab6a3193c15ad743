//! Sampled counters over the median step of a stage: DRAM traffic, and what the multiprocessors did.

use plotters::prelude::*;

use super::chart::{self, Caption, LINE, WARM, axes, picture, short};
use super::markdown::{foreign, text};
use stage2_contract::text::numbers::{counted, ms3, percent1};
use stage2_model::{Report, SampledCurve, SampledPoint, SampledStage, StepTimeline};

/// Points of a curve; the analysis makes fewer.
const POINTS: usize = 1_000;

/// A line of a picture: what it is called, its colour, and its value at a point.
type Line = (&'static str, RGBColor, fn(&SampledPoint) -> Option<f64>);

const DRAM: [Line; 1] = [("DRAM", LINE, |point| point.dram_bytes_per_s.map(|rate| rate / 1e9))];
const UNITS: [Line; 2] = [
    ("SM active", LINE, |point| point.sm_active_percent),
    ("tensor pipe", WARM, |point| point.tensor_percent),
];

/// The pictures of a stage, with their heading; nothing where no counter was sampled in it.
pub(super) fn sampled(report: &Report, stage: &str, id: &str) -> String {
    let rows = report.sampled.iter().flat_map(|sampled| &sampled.stages);
    let of_stage = rows.filter(|row| row.stage == stage);
    let with_curve = |row: &&SampledStage| curve(row).is_some();
    let Some(row) = of_stage.into_iter().find(with_curve) else { return String::new() };
    let Some(found) = curve(row) else { return String::new() };
    let dram = drawn(found, &DRAM, ("DRAM traffic", "GB/s"), &format!("{id}-dram"));
    let units = drawn(found, &UNITS, ("Units at work", "%"), &format!("{id}-units"));
    let timeline = report.step_timelines.iter().find(|timeline| timeline.stage == stage);
    let noun = timeline.map_or("step", StepTimeline::noun);
    let partial = if row.partial { ", a part of it only" } else { "" };
    format!(
        "<h3>Sampled counters over the median {noun}</h3>\n<div class=\"pair\">\n<div>\n{dram}</div>\n\
         <div>\n{units}</div>\n</div>\n<p class=\"note\">Number {} of <code>{}</code> on {}, {} ms on the \
         GPU, as {}. Samples cover {} % of the stage{partial}. metrics.json has the points.</p>\n",
        found.number,
        foreign(&row.stage),
        text(&row.device),
        ms3(found.length_ns),
        counted(found.points.len() as u64, "point"),
        percent1(row.coverage_percent),
    )
}

fn curve(row: &SampledStage) -> Option<&SampledCurve> {
    row.steps.as_ref()?.median.as_ref().filter(|curve| !curve.points.is_empty())
}

/// A picture of those lines that have a value, or why there is none.
fn drawn(curve: &SampledCurve, lines: &[Line], (title, unit): (&str, &str), id: &str) -> String {
    let points = curve.points.get(..POINTS.min(curve.points.len())).unwrap_or_default();
    let known: Vec<&Line> =
        lines.iter().filter(|(_, _, value)| points.iter().any(|p| value(p).is_some())).collect();
    if known.is_empty() {
        return format!("<p class=\"absent\">{title}: none, because it was not sampled.</p>\n");
    }
    let most = |(_, _, value): &&&Line| {
        points.iter().filter_map(value).filter(|value| value.is_finite()).fold(0.0, f64::max)
    };
    let names: Vec<String> = known
        .iter()
        .map(|line| format!("{} up to {} {unit}", line.0, short(most(&line))))
        .collect();
    let description = format!("{title}: {}.", names.join(", "));
    let top = known.iter().map(|line| most(&line)).fold(0.0, f64::max).max(1e-3) * 1.08;
    let caption = Caption { id: id.to_owned(), title, description: description.clone() };
    let picture =
        picture(&caption, |area| draw(area, points, &known, curve.length_ns, (top, unit)));
    format!("{picture}<p class=\"note\">{}</p>\n", text(&description))
}

fn draw(
    area: &chart::Area<'_>,
    points: &[SampledPoint],
    lines: &[&Line],
    length_ns: u64,
    (top, unit): (f64, &str),
) -> Result<String, chart::Error> {
    let ms = |ns: u64| ns as f64 / 1e6;
    let mut chart = axes(
        area,
        (0.0..ms(length_ns.max(1)), "ms since the first work of the step"),
        (0.0..top, unit),
        &|v| short(*v),
        &|v| short(*v),
    )?;
    let mut marks = String::new();
    for (at, (name, colour, value)) in lines.iter().enumerate() {
        // Where a time has no samples, the line ends and begins again.
        let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut last_end = None;
        for point in points {
            let Some(value) = value(point).filter(|value| value.is_finite()) else { continue };
            let end = point.start_ns.saturating_add(point.length_ns);
            if last_end != Some(point.start_ns) {
                pieces.push(Vec::new());
            }
            last_end = Some(end);
            if let Some(piece) = pieces.last_mut() {
                piece.extend([(ms(point.start_ns), value), (ms(end), value)]);
            }
        }
        for piece in pieces {
            chart.draw_series(LineSeries::new(piece, colour.stroke_width(2)))?;
        }
        let (x, y) = chart.backend_coord(&(0.0, top));
        let y = y + 14 + 13 * i32::try_from(at)?;
        let class = if *colour == WARM { "warm" } else { "line" };
        marks.push_str(&format!(
            "<text class=\"legend-{class}\" x=\"{}\" y=\"{y}\">{}</text>\n",
            x + 6,
            text(name)
        ));
    }
    Ok(marks)
}
