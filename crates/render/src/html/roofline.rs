//! The roofline of a stage: its kernels under what the hardware allows at their operations per byte.
//!
//! Names do not fit next to points that lie close together: those that lose most have numbers, and a list next to the
//! picture has their names.

use std::collections::{HashMap, HashSet};

use plotters::prelude::*;
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, grouped, or_absent, percent1};
use stage2_contract::text::shorten_kernel;
use stage2_model::kernels::{Kernel, Loss};
use stage2_model::{Peaks, Precision, Report};

use crate::html::chart::{Area, Error, LINE, SOFT, axes, picture, short};
use crate::html::markdown::{attribute, class_mark, foreign, html, text};
use crate::html::tables::Kernels;
use crate::table::{Table, name};

/// Points of a picture: the kernels with the longest time.
const POINTS: usize = 300;
/// Points with a number, which are in the list next to the picture.
const LISTED: usize = 10;
const TABLE_ROWS: usize = 20;
const NAME_CHARS: usize = 44;
/// Area of the largest point, as a radius in units of the picture, and of the smallest.
const LARGEST: f64 = 10.0;
const SMALLEST: f64 = 2.5;
/// Points stay out of the picture, which would have empty decades, if their rates are lower than all others by this
/// factor, each is as far below the roof, and together they have less than this share of the time of all points.
const GAP: f64 = 30.0;
const LITTLE: f64 = 0.25;
/// The ridge of the roof is in the picture if it is not farther than this factor from the points.
const FAR: f64 = 100.0;
/// What is free around the points, as a factor.
const MARGIN: f64 = 1.7;

struct Point<'r> {
    loss: Loss<'r>,
    /// FLOP per byte of DRAM.
    intensity: f64,
    flops_per_s: f64,
    /// Of the stage's kernel time, percent.
    share: f64,
}

impl<'r> Point<'r> {
    /// `None`: no counters tell its place.
    fn of(kernels: &Kernels<'_>, kernel: &'r Kernel<'r>) -> Option<Self> {
        let (intensity, flops_per_s) = place(kernel)?;
        let share = kernel.percent.unwrap_or(0.0);
        Some(Self { loss: kernels.loss(kernel), intensity, flops_per_s, share })
    }

    /// The grid tells launches of a kernel apart.
    fn grid(&self) -> Option<String> {
        let [x, y, z] = self.loss.kernel.row.launch?.grid;
        let z = if z > 1 { format!("x{z}") } else { String::new() };
        Some(format!("{x}x{y}{z}"))
    }

    fn bound(&self) -> Option<String> {
        self.loss.kernel.known_bound()
    }
}

/// Operations per byte, and operations per second.
fn place(kernel: &Kernel<'_>) -> Option<(f64, f64)> {
    let roofline = kernel.counters.map(|counters| &counters.roofline);
    // Of operations, samples know those of the tensor pipe.
    let sampled = kernel.row.sampled.as_ref().filter(|_| roofline.is_none());
    let intensity = roofline.map_or_else(|| sampled?.flops_per_byte, |roof| roof.flops_per_byte);
    let rate = roofline.map_or_else(|| sampled?.tensor_flops_per_s, |roof| roof.flops_per_s);
    let positive = |value: Option<f64>| value.filter(|v| v.is_finite() && *v > 0.0 && *v < 1e30);
    positive(intensity).zip(positive(rate))
}

/// Whether a kernel of the stage has a place in its roofline.
pub(super) fn has_points(kernels: &Kernels<'_>, stage: &str) -> bool {
    kernels.launches(stage).any(|kernel| place(kernel).is_some())
}

/// `rows`: the identifiers of the rows of the page's table of kernels.
pub(super) fn roofline(
    report: &Report,
    kernels: &Kernels<'_>,
    stage: &str,
    rows: &HashSet<&str>,
    id: &str,
) -> Option<String> {
    let mut points: Vec<Point<'_>> =
        kernels.launches(stage).filter_map(|kernel| Point::of(kernels, kernel)).collect();
    if points.is_empty() {
        // Without counters, the table of top kernels says how to have them.
        let of_stage = |row: &&stage2_model::KernelRow| row.stage == stage;
        report.kernels.iter().filter(of_stage).find(|row| row.counters.is_some())?;
        return Some(
            "<p class=\"absent\">None: the counters of this stage give no rate of operations and bytes \
             for a whole row. To measure it, run <code>stage2-launch \
             run.mode=deep -- COMMAND</code> where ncu is installed and may read counters; \
             <code>pipeline.ncu.top_n</code> limits how many kernels it measures.</p>\n"
                .to_owned(),
        );
    }
    points.order_by(|a, b| b.share.total_cmp(&a.share));
    let covered: f64 = points.iter().map(|point| point.share).sum();
    let left_out = points.len().saturating_sub(POINTS);
    points.truncate(POINTS);
    points.order_by(|a, b| {
        let lost = |point: &Point<'_>| point.loss.ns_per_step.unwrap_or(-1.0);
        lost(b).total_cmp(&lost(a)).then(b.share.total_cmp(&a.share))
    });
    let roofs = report.peaks.as_ref().map_or_else(Vec::new, |peaks| roofs(report, peaks));
    let bytes_per_s = report.peaks.as_ref().and_then(Peaks::bytes_per_s);
    let answer = report.answer.stages.iter().find(|answer| answer.stage == stage);
    let unit =
        answer.and_then(|answer| answer.step.as_ref()).map_or("step", |step| step.shown_unit());
    let lowest = lowest_shown(&points);
    let row_of = |point: &Point<'_>| {
        Some(kernels.anchor(point.loss.kernel)).filter(|row| rows.contains(row.as_str()))
    };
    let title = "Roofline: kernels against the dense roofs of the GPU";
    let description = format!(
        "{} with counters, {} % of the stage's kernel time. Right: more operations per byte. Up: more \
         operations per second. The list has those that lose most.",
        counted(points.len() as u64, "kernel"),
        percent1(covered),
    );
    let drawn = picture(&format!("{id}-picture"), title, &description, |area| {
        draw(area, &points, lowest, (&roofs, bytes_per_s), unit, &row_of)
    });
    let others = without_a_point(kernels, stage);
    let counts = roofs.iter().find(|roof| roof.counts);
    let counts = counts.map_or_else(String::new, |roof| {
        format!(" The thick line is the roof of this model: {}.", text(&roof.names))
    });
    let has_losses = points.iter().any(|point| point.loss.ns_per_step.is_some());
    let mut notes = format!(
        "<p class=\"note\">One point for each kernel and launch grid with counters: together {} % of the stage's \
         kernel time.{others} The area of a point is its share of that time. Numbers: those that {} (per-GPU average).\
         {counts}{}{}</p>\n",
        percent1(covered),
        if has_losses { "lose most" } else { "take longest" },
        below(&points, lowest),
        match left_out {
            0 => String::new(),
            n => format!(" {n} with shorter times are left out; kernels.csv lists them."),
        }
    );
    if points.iter().any(|point| point.loss.kernel.row.class == "gemm") {
        notes.push_str(
            "<p class=\"note\">Operations are those that the GPU executes. Tensor cores also compute the padding of \
             their tiles, so at a small batch a GEMM has more FLOP per byte than its product needs.</p>\n",
        );
    }
    if points.iter().any(|point| point.loss.kernel.counters.is_none()) {
        notes.push_str(
            "<p class=\"note\">Kernels that ncu did not measure stand where sampled counters put them: \
             DRAM bytes of a call, and the FLOP/s that the share of the tensor pipe makes of the dense \
             peak. Operations outside of the tensor pipe are not in them.</p>\n",
        );
    }
    notes.push_str(&roof_list(report.peaks.as_ref(), &roofs, bytes_per_s));
    let table = Table::first(TABLE_ROWS, &points)
        .left("kernel", |point| name(&point.loss.kernel.row.kernel))
        .left("grid", Point::grid)
        .right("share of stage, %", |point| percent1(point.share))
        .right("FLOP per byte", |point| short(point.intensity))
        .right("TFLOP/s", |point| tera(point.flops_per_s))
        .right("attains, %", |point| Some(percent1(point.loss.attainable? * 100.0)))
        .left("bound", Point::bound);
    let table = html(&table.markdown_with_rest_in("kernels.csv"));
    Some(format!(
        "<div class=\"roofline\" id=\"{id}\">\n<div>\n{drawn}</div>\n{}<div>\n{notes}</div>\n</div>\n\
         <details><summary>All numbers of the points</summary>\n{table}</details>\n",
        list(&points, unit, &row_of)
    ))
}

/// What the tables take counters for, and no point stands for: kernels without FLOPs, and launch grids without counters
/// of kernels that have some for others.
fn without_a_point(kernels: &Kernels<'_>, stage: &str) -> String {
    let percent = |kernel: &Kernel<'_>| kernel.percent.unwrap_or(0.0);
    let mut of_points: HashMap<usize, f64> = HashMap::new();
    for kernel in kernels.launches(stage).filter(|kernel| place(kernel).is_some()) {
        *of_points.entry(kernel.row.name_index).or_default() += percent(kernel);
    }
    let (mut without, mut no_flops, mut no_counters) = (0u64, 0.0, 0.0);
    for loss in kernels.of_stage(stage).filter(|loss| loss.attainable.is_some()) {
        match of_points.get(&loss.kernel.row.name_index) {
            Some(points) => no_counters += (percent(loss.kernel) - points).max(0.0),
            None => {
                without += 1;
                no_flops += percent(loss.kernel);
            }
        }
    }
    let mut said = String::new();
    if without > 0 && is_shown(no_flops) {
        let (kernels, have) =
            (counted(without, "kernel"), if without == 1 { "has" } else { "have" });
        said.push_str(&format!(
            " {kernels} with counters ({} %) {have} no point: no rate of operations is known.",
            percent1(no_flops)
        ));
    }
    if is_shown(no_counters) {
        said.push_str(&format!(
            " Other launch grids of these kernels ({} %) have no counters; the tables apply the counters of the \
             measured grids to them.",
            percent1(no_counters)
        ));
    }
    said
}

/// Whether a percentage is more than 0.0 as it is printed.
fn is_shown(percent: f64) -> bool {
    percent >= 0.05
}

fn tera(flops_per_s: f64) -> String {
    format!("{:.3}", flops_per_s / 1e12)
}

/// The points with numbers, in their order.
fn list(
    points: &[Point<'_>],
    unit: &str,
    row_of: &impl Fn(&Point<'_>) -> Option<String>,
) -> String {
    let row = |(at, point): (usize, &Point<'_>)| {
        let Loss { kernel, attainable, ns_per_step, .. } = &point.loss;
        let of_name =
            |other: &&Point<'_>| other.loss.kernel.row.name_index == kernel.row.name_index;
        let several = points.iter().filter(of_name).count() > 1;
        let grid = point.grid().filter(|_| several);
        let grid = grid.map_or_else(String::new, |grid| format!(" grid {grid}"));
        let shown = foreign(&shorten_kernel(&kernel.row.kernel, NAME_CHARS));
        let shown = match row_of(point) {
            Some(row) => format!("<a href=\"#{row}\">{shown}</a>"),
            None => shown,
        };
        format!(
            "<tr data-n=\"{n}\"><td class=\"n\"><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"{}\" \
             width=\"100%\" height=\"100%\"/></svg>{n}</td><td><code>{shown}</code>{grid}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            class_mark(&kernel.row.class),
            or_absent(*attainable, |share| percent1(share * 100.0)),
            or_absent(*ns_per_step, ms),
            percent1(point.share),
            n = at + 1,
        )
    };
    let rows: String = points.iter().take(LISTED).enumerate().map(row).collect();
    format!(
        "<div class=\"table\"><table class=\"points\"><thead><tr><th class=\"n\">No.</th><th>Kernel</th>\
         <th class=\"n\">Attains (%)</th><th class=\"n\">Loses up to (ms per {})</th><th class=\"n\">Share (%)</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n",
        text(unit)
    )
}

fn ms(ns: f64) -> String {
    grouped(&format!("{:.3}", ns / 1e6))
}

/// The lowest rate in the picture.
fn lowest_shown(points: &[Point<'_>]) -> f64 {
    let mut sorted: Vec<&Point<'_>> = points.iter().collect();
    sorted.order_by(|a, b| b.flops_per_s.total_cmp(&a.flops_per_s));
    let all: f64 = points.iter().map(|point| point.share).sum();
    let mut above = 0.0;
    for pair in sorted.windows(2) {
        let [higher, lower] = pair else { continue };
        above += higher.share;
        let is_gap = higher.flops_per_s > lower.flops_per_s * GAP;
        let is_far =
            |point: &&Point<'_>| point.loss.attainable.is_some_and(|share| share * GAP < 1.0);
        let mut below = sorted.iter().filter(|point| point.flops_per_s <= lower.flops_per_s);
        if is_gap && all - above < all * LITTLE && below.all(is_far) {
            return higher.flops_per_s;
        }
    }
    0.0
}

/// Names what [`lowest_shown`] leaves out of the picture.
fn below(points: &[Point<'_>], lowest: f64) -> String {
    let below: Vec<(usize, &Point<'_>)> =
        (1..).zip(points).filter(|(_, point)| point.flops_per_s < lowest).collect();
    let most = below.iter().map(|(_, point)| point.flops_per_s).fold(0.0, f64::max);
    let numbers: Vec<String> = (below.iter())
        .filter(|(number, _)| *number <= LISTED)
        .map(|(number, _)| number.to_string())
        .collect();
    let others = below.len() - numbers.len();
    let more = (others > 0).then(|| match numbers.is_empty() {
        true => counted(others as u64, "point"),
        false => format!("{} more", count(others as u64)),
    });
    let all: Vec<String> = numbers.iter().cloned().chain(more).collect();
    let who = match all.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        all => all.concat(),
    };
    let who = if numbers.is_empty() { who } else { format!("No. {who}") };
    match below.len() {
        0 => String::new(),
        some => format!(
            " {who} {} below the picture, at {} TFLOP/s at most.",
            if some == 1 { "is" } else { "are" },
            short(most / 1e12)
        ),
    }
}

/// A roof of one or more precisions.
struct Roof {
    flops_per_s: f64,
    names: String,
    /// It is that of the precision that the model computes in, so the one that its kernels are under.
    counts: bool,
}

/// Different floating-point roofs with the precisions that have them; the highest first.
/// Integer operations are not FLOPs. A second roof for a precision (FP64 with tensor cores, the halves
/// without) would make the picture unreadable; metrics.json has them.
fn roofs(report: &Report, peaks: &Peaks) -> Vec<Roof> {
    const ROOFS: [Precision; 7] = [
        Precision::Fp64,
        Precision::Fp32,
        Precision::Tf32,
        Precision::Fp16,
        Precision::Bf16,
        Precision::Fp8,
        Precision::Fp4,
    ];
    let model = report.insight.utilisation.as_ref().and_then(|used| used.numbers.precision);
    let rates = peaks.dense_tflops.keys().filter(|precision| ROOFS.contains(precision));
    let mut roofs: Vec<Roof> = Vec::new();
    for precision in rates {
        let rate = peaks.flops_per_s(*precision).filter(|rate| rate.is_finite() && *rate > 0.0);
        let Some(rate) = rate else { continue };
        let label = precision.to_string().to_uppercase().replace('_', " ");
        let counts = model == Some(*precision);
        match roofs.iter_mut().find(|known| (known.flops_per_s - rate).abs() <= rate * 1e-6) {
            Some(known) => {
                known.names.push_str(&format!(", {label}"));
                known.counts |= counts;
            }
            None => roofs.push(Roof { flops_per_s: rate, names: label, counts }),
        }
    }
    roofs.order_by(|a, b| b.flops_per_s.total_cmp(&a.flops_per_s));
    roofs
}

/// The roof that the kernels are under: that of the model's precision, else the highest one.
fn main_roof(roofs: &[Roof]) -> Option<&Roof> {
    roofs.iter().find(|roof| roof.counts).or(roofs.first())
}

fn roof_list(peaks: Option<&Peaks>, roofs: &[Roof], bytes_per_s: Option<f64>) -> String {
    let Some(peaks) = peaks else {
        return "<p class=\"absent\">No roofs, because the peak rates of this GPU are not known. Set \
                <code>hardware.dense_tflops</code> and <code>hardware.memory_gb_per_s</code>.</p>\n"
            .to_owned();
    };
    let roof = |Roof { flops_per_s: rate, names, counts }: &Roof| {
        let said = format!("{names}: {:.1} TFLOP/s", rate / 1e12);
        let said = if *counts { format!("<b>{said}</b>") } else { said };
        format!("<li data-flops-per-s=\"{rate:.0}\">{said}</li>\n")
    };
    let memory = bytes_per_s.map(|rate| {
        format!("<li data-bytes-per-s=\"{rate:.0}\">memory: {:.1} GB/s</li>\n", rate / 1e9)
    });
    format!(
        "<ul class=\"roofs\" aria-label=\"Dense roofs of {}\">\n{}{}</ul>\n",
        attribute(&peaks.card),
        memory.unwrap_or_default(),
        roofs.iter().map(roof).collect::<String>()
    )
}

/// What the picture shows of both axes.
struct View {
    x: (f64, f64),
    y: (f64, f64),
}

impl View {
    /// The points, what the hardware allows at their operations per byte, and the ridge of the roof where it is near.
    fn of(points: &[&Point<'_>], (roofs, bytes_per_s): (&[Roof], Option<f64>)) -> Self {
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
        };
        let roof = main_roof(roofs).map(|roof| roof.flops_per_s);
        let (mut x0, mut x1) = range(&mut points.iter().map(|point| point.intensity));
        let (mut y0, mut y1) = range(&mut points.iter().map(|point| point.flops_per_s));
        let allowed = |intensity: f64| match (bytes_per_s, roof) {
            (Some(bytes), Some(roof)) => Some(roof.min(bytes * intensity)),
            (bytes, roof) => bytes.map(|bytes| bytes * intensity).or(roof),
        };
        let near = |rate: &f64| *rate <= y1 * FAR;
        y1 = points.iter().filter_map(|p| allowed(p.intensity)).filter(near).fold(y1, f64::max);
        if let Some((bytes, roof)) = bytes_per_s.zip(roof) {
            let ridge = roof / bytes;
            // So much of the flat part is seen.
            if ridge <= x1 * FAR {
                x1 = x1.max(ridge * MARGIN);
                y1 = y1.max(roof);
            }
        }
        (x0, x1, y0, y1) = (x0 / MARGIN, x1 * MARGIN, y0 / MARGIN, y1 * MARGIN);
        // At least a decade.
        let missing = (10.0 * x0 / x1).max(1.0).sqrt();
        Self { x: (x0 / missing, x1 * missing), y: (y0.min(y1 / 10.0), y1) }
    }
}

/// Round numbers on a logarithmic axis.
fn ticks((from, to): (f64, f64)) -> Vec<f64> {
    let steps: &[f64] = if to / from > 200.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let values = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    values.filter(|value| (from..=to).contains(value)).collect()
}

fn draw(
    area: &Area<'_>,
    all: &[Point<'_>],
    lowest: f64,
    roofs_of: (&[Roof], Option<f64>),
    unit: &str,
    row_of: &impl Fn(&Point<'_>) -> Option<String>,
) -> Result<String, Error> {
    let is_shown = |point: &Point<'_>| point.flops_per_s >= lowest;
    let points: Vec<&Point<'_>> = all.iter().filter(|point| is_shown(point)).collect();
    let View { x: (x0, x1), y: (y0, y1) } = View::of(&points, roofs_of);
    let (roofs, bytes_per_s) = roofs_of;
    let mut chart = axes(
        area,
        (
            (x0..x1).log_scale().with_key_points(ticks((x0, x1))),
            "arithmetic intensity, FLOP per byte of DRAM",
        ),
        ((y0..y1).log_scale().with_key_points(ticks((y0, y1))), "rate, TFLOP/s"),
        1e12,
    )?;
    let mut labels = Labels::new(chart.backend_coord(&(x0, y1)), chart.backend_coord(&(x1, y0)));
    let mut shown: Vec<&Roof> =
        roofs.iter().filter(|roof| (y0..=y1).contains(&roof.flops_per_s)).collect();
    // Where two labels would cover each other, the one of the roof that counts stays: the list has all.
    shown.order_by_key(|roof| !roof.counts);
    for Roof { flops_per_s: rate, names, counts } in shown {
        let start = bytes_per_s.map_or(x0, |bytes| (rate / bytes).max(x0));
        if start >= x1 {
            continue;
        }
        let (colour, width) = if *counts { (LINE, 3) } else { (SOFT, 1) };
        let line = [(start, *rate), (x1, *rate)];
        chart.draw_series(LineSeries::new(line, colour.stroke_width(width)))?;
        labels.line(line.map(|end| chart.backend_coord(&end)));
        let (x, y) = chart.backend_coord(&(x1, *rate));
        labels.roof(names, (x - 3, y - 4), *counts);
    }
    if let Some(bytes) = bytes_per_s {
        let top = main_roof(roofs).map_or(y1, |roof| roof.flops_per_s).min(y1);
        let (from, to) = ((y0 / bytes).max(x0), (top / bytes).min(x1));
        if from < to {
            let line = [(from, from * bytes), (to, to * bytes)];
            chart.draw_series(LineSeries::new(line, LINE.stroke_width(2)))?;
            labels.line(line.map(|end| chart.backend_coord(&end)));
        }
    }
    let most = points.iter().map(|point| point.share).fold(f64::MIN_POSITIVE, f64::max);
    let mut marks: Vec<(f64, String)> = Vec::new();
    let mut numbered: Vec<(usize, Circle)> = Vec::new();
    for (number, point) in (1..).zip(all).filter(|(_, point)| is_shown(point)) {
        let Point { loss, intensity, flops_per_s, share } = point;
        let (x, y) = chart.backend_coord(&(*intensity, *flops_per_s));
        let radius = (LARGEST * (share / most).sqrt()).max(SMALLEST);
        let circle = Circle { x: x.into(), y: y.into(), radius };
        labels.circles.push(circle);
        if number <= LISTED {
            numbered.push((number, circle));
        }
        let grid = point.grid().map_or_else(String::new, |grid| format!(", grid {grid}"));
        let attains =
            loss.attainable.map(|share| format!(", attains {} %", percent1(share * 100.0)));
        let lost = loss.ns_per_step.map(|ns| format!(", loses up to {} ms per {unit}", ms(ns)));
        let bound = point.bound().map(|bound| format!(", bound: {bound}"));
        let known = [attains, lost, bound].into_iter().flatten().collect::<String>();
        let title = format!(
            "{}{grid}: {} % of the stage{known}, {} FLOP per byte, {} TFLOP/s",
            shorten_kernel(&loss.kernel.row.kernel, 90),
            percent1(*share),
            short(*intensity),
            tera(*flops_per_s),
        );
        let circle = format!(
            "<circle class=\"point {}\" data-n=\"{number}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius:.1}\"><title>{}</title></circle>",
            class_mark(&loss.kernel.row.class),
            text(&title)
        );
        // The list has links for the keyboard.
        let linked = match row_of(point) {
            Some(row) => format!("<a href=\"#{row}\" tabindex=\"-1\">{circle}</a>\n"),
            None => circle + "\n",
        };
        marks.push((radius, linked));
    }
    numbered.iter().for_each(|(number, circle)| labels.number(*number, circle));
    // Small ones lie on large ones.
    marks.order_by(|(a, _), (b, _)| b.total_cmp(a));
    let marks: String = marks.into_iter().map(|(_, mark)| mark).collect();
    Ok(marks + &labels.drawn)
}

#[derive(Clone, Copy)]
struct Circle {
    x: f64,
    y: f64,
    radius: f64,
}

/// Left, top, right and bottom.
type Bounds = [f64; 4];

/// Texts of a picture that do not cover each other, and where there is room neither points nor lines.
struct Labels {
    drawn: String,
    taken: Vec<Bounds>,
    circles: Vec<Circle>,
    /// Places on lines.
    inked: Vec<(f64, f64)>,
    area: Bounds,
}

impl Labels {
    /// Of a line of text, in the tallest of the usual fonts.
    const HEIGHT: f64 = 15.0;
    const CHAR: f64 = 7.0;
    /// Distances of a number from its point, and directions in which it may be.
    const DISTANCES: [f64; 6] = [9.0, 13.0, 18.0, 26.0, 36.0, 48.0];
    const DIRECTIONS: u32 = 16;
    /// A number farther from its point than this has a line to it.
    const CLOSE: f64 = 10.0;

    fn new((left, top): (i32, i32), (right, bottom): (i32, i32)) -> Self {
        let area = [left.into(), top.into(), right.into(), bottom.into()];
        Self {
            drawn: String::new(),
            taken: Vec::new(),
            circles: Vec::new(),
            inked: Vec::new(),
            area,
        }
    }

    fn line(&mut self, ends: [(i32, i32); 2]) {
        const PIECES: i32 = 200;
        let [(x0, y0), (x1, y1)] = ends.map(|(x, y)| (f64::from(x), f64::from(y)));
        let part = |at: i32| f64::from(at) / f64::from(PIECES);
        let place = |at: i32| (x0 + (x1 - x0) * part(at), y0 + (y1 - y0) * part(at));
        self.inked.extend((0..=PIECES).map(place));
    }

    fn is_free(&self, [left, top, right, bottom]: &Bounds) -> bool {
        let [x0, y0, x1, y1] = self.area;
        let covers =
            |of: &Bounds| of[0] < *right && *left < of[2] && of[1] < *bottom && *top < of[3];
        *left >= x0 && *right <= x1 && *top >= y0 && *bottom <= y1 && !self.taken.iter().any(covers)
    }

    fn covers_circle(&self, [left, top, right, bottom]: &Bounds) -> bool {
        self.circles.iter().any(|circle| {
            let (x, y) = (circle.x.clamp(*left, *right), circle.y.clamp(*top, *bottom));
            (x - circle.x).hypot(y - circle.y) < circle.radius + 1.0
        })
    }

    fn covers_line(&self, [left, top, right, bottom]: &Bounds) -> bool {
        let is_in = |(x, y): &(f64, f64)| x >= left && x <= right && y >= top && y <= bottom;
        self.inked.iter().any(is_in)
    }

    /// The name of a roof, which ends at `x` above `y`; it is left out where it would cover another one.
    fn roof(&mut self, names: &str, (x, y): (i32, i32), counts: bool) {
        let width = names.chars().count() as f64 * Self::CHAR;
        let (right, base) = (f64::from(x), f64::from(y));
        let bounds = [right - width, base - Self::HEIGHT + 2.0, right, base + 2.0];
        if !self.is_free(&bounds) {
            return;
        }
        let class = if counts { "roof counts" } else { "roof" };
        let names = text(names);
        self.drawn
            .push_str(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{names}</text>\n"));
        self.taken.push(bounds);
    }

    /// The number of a point, as near to it as it can be; the list has it also where there is no room.
    fn number(&mut self, number: usize, circle: &Circle) {
        let label = number.to_string();
        let half = label.len() as f64 * Self::CHAR / 2.0 + 1.0;
        let Circle { x, y, radius } = *circle;
        let places = Self::DISTANCES.iter().flat_map(|distance| {
            (0..Self::DIRECTIONS).map(move |at| {
                // First to the right, and a little up.
                let angle =
                    std::f64::consts::TAU * (f64::from(at) - 1.0) / f64::from(Self::DIRECTIONS);
                let away = radius + distance;
                (*distance, x + away * angle.cos(), y + away * angle.sin())
            })
        });
        let bounds = |(_, x, y): &(f64, f64, f64)| {
            [x - half, y - Self::HEIGHT / 2.0, x + half, y + Self::HEIGHT / 2.0]
        };
        let places: Vec<(f64, f64, f64)> =
            places.filter(|place| self.is_free(&bounds(place))).collect();
        let off_circles = |place: &&(f64, f64, f64)| !self.covers_circle(&bounds(place));
        let off_lines = |place: &&(f64, f64, f64)| !self.covers_line(&bounds(place));
        let best = places.iter().filter(off_circles).find(off_lines);
        let Some(place) = best.or(places.iter().find(off_circles)) else { return };
        let (distance, at_x, at_y) = *place;
        if distance > Self::CLOSE {
            let (dx, dy) = ((at_x - x) / (radius + distance), (at_y - y) / (radius + distance));
            let end = distance + radius - Self::HEIGHT / 2.0;
            self.drawn.push_str(&format!(
                "<line class=\"leader\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\n",
                x + dx * radius,
                y + dy * radius,
                x + dx * end,
                y + dy * end
            ));
        }
        self.drawn.push_str(&format!(
            "<text class=\"number\" x=\"{at_x:.1}\" y=\"{:.1}\">{label}</text>\n",
            at_y + 4.0
        ));
        self.taken.push(bounds(&(distance, at_x, at_y)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::tests::full;
    use stage2_model::kernels::stage_kernels;

    fn drawn(report: &Report) -> String {
        let kernels = stage_kernels(report);
        let kernels = Kernels::of(report, &kernels);
        roofline(report, &kernels, "decode", &HashSet::new(), "x").expect("a picture")
    }

    /// Gives a kernel of the report its place.
    fn at(report: &mut Report, kernel: &str, (intensity, flops_per_s): (f64, f64), attains: f64) {
        let like = report.kernels[0].counters.clone();
        let mut rows = report.kernels.iter_mut();
        let is_it =
            |row: &&mut stage2_model::KernelRow| row.kernel == kernel && row.stage == "decode";
        let row = rows.find(is_it).expect("a row");
        let mut counters = row.counters.take().or(like).expect("counters");
        counters.roofline.flops_per_byte = Some(intensity);
        counters.roofline.flops_per_s = Some(flops_per_s);
        counters.roofline.attainable_share = Some(attains);
        row.counters = Some(counters);
    }

    #[test]
    fn a_point_far_below_the_others_does_not_stretch_the_picture() {
        let mut report = full("");
        at(&mut report, "rms_norm", (0.5, 3e9), 0.002);
        let page = drawn(&report);
        assert_eq!(page.matches("<circle").count(), 2, "{page}");
        assert!(page.contains(" No. 3 is below the picture, at 0.003 TFLOP/s at most."), "{page}");
        assert_eq!(page.matches("<tr data-n").count(), 3, "the list has all");
        // At a low rate because it has few operations per byte, it is no such point.
        at(&mut report, "rms_norm", (0.001, 3e9), 0.7);
        assert_eq!(drawn(&report).matches("<circle").count(), 3);
        at(&mut report, "rms_norm", (0.5, 3e9), 0.002);
        // Of most of the time, it belongs into the picture.
        let slow = |row: &mut stage2_model::KernelRow| row.times.total_ns = 90_000_000;
        report.kernels.iter_mut().filter(|row| row.kernel == "rms_norm").for_each(slow);
        let page = drawn(&report);
        assert_eq!(page.matches("<circle").count(), 3, "{page}");
        assert!(!page.contains("below the picture"), "{page}");
    }

    #[test]
    fn launches_with_other_grids_are_points_of_their_own() {
        let mut report = full("");
        let mut other = report.kernels[0].clone();
        other.launch = Some(stage2_model::Launch { grid: [4, 24, 1], ..Default::default() });
        report.kernels.push(other);
        let page = drawn(&report);
        assert_eq!(page.matches("<circle").count(), 3, "{page}");
        assert!(page.contains("<bdi>cutlass_gemm</bdi></code> grid 4x24</td>"), "{page}");
        // A grid without counters is in the tables with the counters of the others; it has no point.
        let last = report.kernels.len() - 1;
        report.kernels[last].counters = None;
        let page = drawn(&report);
        assert_eq!(page.matches("<circle").count(), 2, "{page}");
        let said =
            "Other launch grids of these kernels (36.4 %) have no counters; the tables apply";
        assert!(page.contains(said) && !page.contains("no point"), "{page}");
    }

    #[test]
    fn a_kernel_without_operations_is_no_launch_without_counters() {
        let mut report = full("");
        at(&mut report, "rms_norm", (0.0, 0.0), 0.6);
        let page = drawn(&report);
        let said = "1 kernel with counters (9.5 %) has no point: no rate of operations is known.";
        assert!(page.contains(said) && !page.contains("Other launch grids"), "{page}");
    }

    #[test]
    fn numbers_cover_neither_each_other_nor_points() {
        let mut labels = Labels::new((0, 0), (200, 200));
        let circles: Vec<Circle> = (0..8)
            .map(|at| Circle { x: 100.0 + f64::from(at % 2), y: 100.0, radius: 9.0 })
            .collect();
        labels.circles.clone_from(&circles);
        labels.line([(0, 80), (200, 80)]);
        (1..).zip(&circles).for_each(|(number, circle)| labels.number(number, circle));
        assert_eq!(labels.taken.len(), 8, "there is room for all");
        for (at, bounds) in labels.taken.iter().enumerate() {
            assert!(!labels.covers_circle(bounds), "{bounds:?}");
            assert!(!labels.covers_line(bounds), "{bounds:?}");
            let covers = |of: &Bounds| {
                of[0] < bounds[2] && bounds[0] < of[2] && of[1] < bounds[3] && bounds[1] < of[3]
            };
            assert!(!labels.taken[..at].iter().any(covers), "{:?}", labels.taken);
        }
        // Without room, a number is left out.
        let mut narrow = Labels::new((90, 90), (110, 110));
        narrow.circles.push(circles[0]);
        narrow.number(1, &circles[0]);
        assert!(narrow.taken.is_empty() && narrow.drawn.is_empty());
    }
}
