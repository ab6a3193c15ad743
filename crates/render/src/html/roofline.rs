//! Kernels of a stage under the dense roofs of the GPU: arithmetic intensity against rate, on
//! logarithmic axes.

use plotters::prelude::*;

use super::chart::{self, Caption, LINE, SOFT, axes, picture, short};
use super::markdown::{class_mark, text};
use crate::table::{Table, name};
use stage2_contract::text::numbers::percent1;
use stage2_contract::text::shorten_kernel;
use stage2_model::{KernelRow, Peaks, Precision, Report};

/// Points of a picture: the kernel rows with the longest time.
const POINTS: usize = 300;
/// Rows of the table below.
const ROWS: usize = 20;
/// Area of the largest point, as a radius in units of the picture.
const LARGEST: f64 = 14.0;

struct Point<'r> {
    row: &'r KernelRow,
    /// FLOP per byte of DRAM.
    intensity: f64,
    flops_per_s: f64,
    /// Of the stage's kernel time, percent.
    share: f64,
}

/// The roofline of `stage`, or why there is none.
pub(super) fn roofline(report: &Report, stage: &str, id: &str) -> String {
    let rows = || report.kernels.iter().filter(|row| row.stage == stage);
    let all_ns = rows().fold(0u64, |sum, row| sum.saturating_add(row.times.total_ns));
    let mut points: Vec<Point<'_>> = rows().filter_map(|row| point(row, all_ns)).collect();
    points.sort_by(|a, b| b.share.total_cmp(&a.share));
    if points.is_empty() {
        let counted = rows().filter(|row| row.counters.is_some()).count();
        let why = match counted {
            0 => "ncu measured no kernel of this stage",
            _ => "the counters of this stage give no rate of operations and bytes for a whole row",
        };
        return format!(
            "<p class=\"absent\">None, because {why}. To measure it, run <code>stage2-launch \
             run.mode=deep -- COMMAND</code> where ncu is installed and may read counters; \
             <code>pipeline.ncu.top_n</code> says how many kernels it measures.</p>\n"
        );
    }
    let covered: f64 = points.iter().map(|point| point.share).sum();
    let left_out = points.len().saturating_sub(POINTS);
    let shown = points.get(..POINTS.min(points.len())).unwrap_or_default();
    let roofs = report.peaks.as_ref().map_or_else(Vec::new, roofs);
    let bytes_per_s = report.peaks.as_ref().and_then(Peaks::bytes_per_s);
    let title = "Roofline: kernels against the dense roofs of the GPU";
    let description = format!(
        "{} kernel rows with counters, {} % of the stage's kernel time. Right: more operations per \
         byte. Up: more operations per second. The table below has the longest.",
        points.len(),
        percent1(covered),
    );
    let caption = Caption { id: id.to_owned(), title, description };
    let mut out = picture(&caption, |area| draw(area, shown, &roofs, bytes_per_s));
    out.push_str(&format!(
        "<p class=\"note\">One point for each kernel row with counters: together {} % of the stage's \
         kernel time. The area is the row's share of that time.{}</p>\n",
        percent1(covered),
        match left_out {
            0 => String::new(),
            n => format!(" {n} rows with shorter times are left out; kernels.csv has them."),
        }
    ));
    if shown.iter().any(|point| point.row.counters.is_none()) {
        out.push_str(
            "<p class=\"note\">Kernels that ncu did not measure stand where sampled counters put them: \
             DRAM bytes of a call, and the FLOP/s that the share of the tensor pipe makes of the dense \
             peak. Operations outside of the tensor pipe are not in them.</p>\n",
        );
    }
    out.push_str(&roof_list(report.peaks.as_ref(), &roofs, bytes_per_s));
    let table = Table::first(ROWS, &points)
        .left("kernel", |point| name(&point.row.kernel))
        .right("share of stage, %", |point| percent1(point.share))
        .right("FLOP per byte", |point| short(point.intensity))
        .right("TFLOP/s", |point| format!("{:.3}", point.flops_per_s / 1e12))
        .right("of attainable, %", |point| {
            let share = point.row.counters.as_ref()?.roofline.attainable_share?;
            Some(percent1(share * 100.0))
        })
        .left("bound", |point| {
            let counted = point.row.counters.as_ref().and_then(|found| found.roofline.bound);
            let sampled =
                || Some(format!("{} (sampled)", point.row.sampled.as_ref()?.bound?.label()));
            counted.map_or_else(sampled, |bound| Some(bound.label().to_owned()))
        });
    let table = super::markdown::html(&table.markdown_with_rest_in("kernels.csv"));
    out + &format!("<details><summary>Points as a table</summary>\n{table}</details>\n")
}

fn point(row: &KernelRow, all_ns: u64) -> Option<Point<'_>> {
    let roofline = row.counters.as_ref().map(|counters| &counters.roofline);
    // Of operations, samples know those of the tensor pipe.
    let sampled = row.sampled.as_ref().filter(|_| roofline.is_none());
    let intensity = roofline.map_or_else(|| sampled?.flops_per_byte, |roof| roof.flops_per_byte);
    let rate = roofline.map_or_else(|| sampled?.tensor_flops_per_s, |roof| roof.flops_per_s);
    let positive = |value: Option<f64>| value.filter(|v| v.is_finite() && *v > 0.0 && *v < 1e30);
    Some(Point {
        row,
        intensity: positive(intensity)?,
        flops_per_s: positive(rate)?,
        share: if all_ns > 0 { row.times.total_ns as f64 * 100.0 / all_ns as f64 } else { 0.0 },
    })
}

/// Different floating-point roofs, FLOP/s, with the precisions that have them; the highest first.
/// Integer operations are no FLOPs. A second roof for a precision (FP64 with tensor cores, the halves
/// without) would make the picture unreadable; metrics.json has them.
fn roofs(peaks: &Peaks) -> Vec<(f64, String)> {
    const ROOFS: [Precision; 7] = [
        Precision::Fp64,
        Precision::Fp32,
        Precision::Tf32,
        Precision::Fp16,
        Precision::Bf16,
        Precision::Fp8,
        Precision::Fp4,
    ];
    let rates = peaks.dense_tflops.keys().filter(|precision| ROOFS.contains(precision));
    let mut roofs: Vec<(f64, String)> = Vec::new();
    for precision in rates {
        let rate = peaks.flops_per_s(*precision).filter(|rate| rate.is_finite() && *rate > 0.0);
        let Some(rate) = rate else { continue };
        let label = precision.to_string().to_uppercase().replace('_', " ");
        match roofs.iter_mut().find(|(known, _)| (*known - rate).abs() <= rate * 1e-6) {
            Some((_, names)) => names.push_str(&format!(", {label}")),
            None => roofs.push((rate, label)),
        }
    }
    roofs.sort_by(|a, b| b.0.total_cmp(&a.0));
    roofs
}

fn roof_list(peaks: Option<&Peaks>, roofs: &[(f64, String)], bytes_per_s: Option<f64>) -> String {
    let Some(peaks) = peaks else {
        return "<p class=\"absent\">No roofs, because the peak rates of this GPU are not known. Set \
                <code>hardware.dense_tflops</code> and <code>hardware.memory_gb_per_s</code>.</p>\n"
            .to_owned();
    };
    let roof = |(rate, names): &(f64, String)| {
        format!("<li data-flops-per-s=\"{rate:.0}\">{names}: {:.1} TFLOP/s</li>\n", rate / 1e12)
    };
    let memory = bytes_per_s.map(|rate| {
        format!("<li data-bytes-per-s=\"{rate:.0}\">memory: {:.1} GB/s</li>\n", rate / 1e9)
    });
    format!(
        "<ul class=\"roofs\" aria-label=\"Dense roofs of {}\">\n{}{}</ul>\n",
        super::markdown::attribute(&peaks.card),
        memory.unwrap_or_default(),
        roofs.iter().map(roof).collect::<String>()
    )
}

fn draw(
    area: &chart::Area<'_>,
    points: &[Point<'_>],
    roofs: &[(f64, String)],
    bytes_per_s: Option<f64>,
) -> Result<String, chart::Error> {
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        (10f64.powf((low / 1.5).log10().floor()), 10f64.powf((high * 1.5).log10().ceil()))
    };
    let ridge = bytes_per_s.zip(roofs.first()).map(|(bytes, (rate, _))| rate / bytes);
    let (x0, x1) = range(&mut points.iter().map(|point| point.intensity).chain(ridge));
    let rates = points.iter().map(|point| point.flops_per_s);
    let (y0, y1) = range(&mut rates.chain(roofs.iter().map(|(rate, _)| *rate)));
    let tera = |v: &f64| short(*v / 1e12);
    let mut chart = axes(
        area,
        ((x0..x1).log_scale(), "arithmetic intensity, FLOP per byte of DRAM"),
        ((y0..y1).log_scale(), "rate, TFLOP/s"),
        &|v| short(*v),
        &tera,
    )?;
    let mut labels = String::new();
    let mut last_y: Option<i32> = None;
    for (rate, names) in roofs.iter().filter(|(rate, _)| (y0..=y1).contains(rate)) {
        let start = bytes_per_s.map_or(x0, |bytes| (rate / bytes).max(x0));
        if start < x1 {
            chart.draw_series(LineSeries::new(
                [(start, *rate), (x1, *rate)],
                SOFT.stroke_width(1),
            ))?;
        }
        let (x, y) = chart.backend_coord(&(x1, *rate));
        // Labels of roofs that are close to each other would cover each other: the list has all.
        if last_y.is_none_or(|last| y - last >= 12) {
            labels.push_str(&format!(
                "<text class=\"roof\" x=\"{}\" y=\"{}\">{}</text>\n",
                x - 3,
                y - 3,
                text(names)
            ));
            last_y = Some(y);
        }
    }
    if let Some(bytes) = bytes_per_s {
        let top = roofs.first().map_or(y1, |(rate, _)| *rate);
        let (from, to) = ((y0 / bytes).max(x0), (top / bytes).min(x1));
        if from < to {
            let line = [(from, from * bytes), (to, to * bytes)];
            chart.draw_series(LineSeries::new(line, LINE.stroke_width(2)))?;
        }
    }
    let most = points.iter().map(|point| point.share).fold(f64::MIN_POSITIVE, f64::max);
    let marks = points.iter().map(|point| {
        let Point { row, intensity, flops_per_s, share } = point;
        let (x, y) = chart.backend_coord(&(*intensity, *flops_per_s));
        let radius = (LARGEST * (share / most).sqrt()).max(2.5);
        let bound = row.counters.as_ref().and_then(|counters| counters.roofline.bound);
        let bound = bound.map_or_else(String::new, |bound| format!(", {}-bound", bound.label()));
        let title = format!(
            "{}: {} FLOP per byte, {:.3} TFLOP/s, {} % of the stage{bound}",
            shorten_kernel(&row.kernel, 90),
            short(*intensity),
            flops_per_s / 1e12,
            percent1(*share),
        );
        format!(
            "<circle class=\"point {}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius:.1}\">\
             <title>{}</title></circle>\n",
            class_mark(&row.class),
            text(&title)
        )
    });
    Ok(marks.collect::<String>() + &labels)
}
