//! The pictures of a stage with axes: latency over the run, step time by batch, sampled counters; `roofline.rs` has
//! the roofline.
//!
//! plotters draws SVG while the report is written: a library that draws in the browser would put
//! megabytes of script into a file that people mail, and show nothing where scripts are off. It knows
//! no style sheets, so each colour is a placeholder here that becomes a variable of `page.css`. Marks are
//! drawn on top here.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use stage2_contract::text::numbers::{count, counted, grouped, ms3, percent1, shown_time};
use stage2_model::{
    EngineStepRow, EngineSteps, Report, SampledCurve, SampledPoint, SampledStage, Step, StepBucket,
    StepSeries, StepTimeline, StepTimes, StepUnit,
};

use crate::html::markdown::{foreign, inline, text};
use crate::html::timeline::export_command;
use crate::table::capitalised;

/// Buckets of a picture; the analysis makes fewer.
const BUCKETS: usize = 2_000;
/// Fewer steps do not make a picture.
const FEWEST: u64 = 5;
/// Outliers with a mark.
const OUTLIERS: usize = 100;
/// Where the longest step is longer than the 99th percentile by this, the picture ends earlier.
const FAR: f64 = 4.0;
/// A cold step that is longer than the warm ones by this would make them flat.
const COLD_FAR: f64 = 2.0;
/// More buckets are too narrow to point at.
const HINTS: usize = 100;

fn note(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>\n", text(said)) }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The picture of `series`, with the percentiles of `times`. A few steps are a line of numbers.
/// `run`: the name of its folder.
pub(super) fn latency(
    run: &str,
    series: &StepSeries,
    times: Option<&StepTimes>,
    id: &str,
) -> String {
    let (buckets, outliers) = shown(series);
    let steps = buckets.iter().map(|b| b.first.saturating_add(b.steps)).max().unwrap_or(0);
    if steps == 0 {
        return "<p class=\"absent\">None: none has a host time.</p>\n".to_owned();
    }
    // Steps of an engine that no other one followed at once are timed by their ranges, and the answer has no such times.
    let is_of_engine = times.is_some_and(|times| times.unit == StepUnit::OfEngine);
    let noun = if is_of_engine { StepUnit::OfEngine.noun() } else { series.noun() };
    let times = times.filter(|_| is_of_engine == series.until_next);
    let (path, file) = (foreign(&series.path), foreign(&series.file));
    let path = match series.until_next {
        true => format!(
            "Time of each step of <code>{path}</code> until the next one begins, in {file}; steps before a pause are \
             left out, and the first one is cold."
        ),
        false => {
            let cold = match times.is_some_and(|times| times.unit == StepUnit::RangeWithin) {
                true => format!("the {noun}s of the first call are cold"),
                false => format!("the first {noun} is the cold one"),
            };
            format!("Host time of <code>{path}</code> in {file}; {cold}.")
        }
    };
    if steps < FEWEST {
        let each: Vec<String> = buckets.iter().map(|bucket| ms3(bucket.mean_ns)).collect();
        return format!(
            "<p class=\"absent\">No picture of {}: {} ms.</p>\n<p class=\"note\">{path}</p>\n",
            text(&counted(steps, noun)),
            text(&each.join(", ")),
        );
    }
    let longest = buckets.iter().map(|bucket| bucket.max_ns).max().unwrap_or(0);
    let warm = buckets.iter().filter(|bucket| !is_cold(series, bucket));
    let longest_warm = warm.map(|bucket| bucket.max_ns).max();
    let warm =
        longest_warm.filter(|warm| longest as f64 > *warm as f64 * COLD_FAR).unwrap_or(longest);
    let typical = times.and_then(|times| times.p99_ns).unwrap_or(warm).max(1);
    let top_ns = match warm as f64 > typical as f64 * FAR {
        true => typical.saturating_mul(2),
        false => (warm as f64 * 1.08) as u64,
    };
    let is_beyond = |bucket: &&StepBucket| bucket.max_ns > top_ns;
    let (cold, beyond): (Vec<&StepBucket>, Vec<_>) =
        buckets.iter().filter(is_beyond).partition(|bucket| is_cold(series, bucket));
    // Of an engine, those before a pause are missing.
    let timed = buckets.iter().fold(0u64, |sum, bucket| sum.saturating_add(bucket.steps));
    // Of few steps, a 99th percentile is the longest one.
    let times = times.map(|times| StepTimes {
        p99_ns: times.p99_ns.filter(|_| times.p99_from_top() > 1),
        ..times.clone()
    });
    let times = times.as_ref();
    let percentiles = times.map_or_else(String::new, |times| {
        let p99 =
            times.p99_ns.map_or_else(String::new, |ns| format!(", p99 {}", shown_time(ns as f64)));
        format!(", p50 {}{p99}", shown_time(times.p50_ns as f64))
    });
    let is_mean = buckets.iter().any(|bucket| bucket.steps > 1);
    let of_lines =
        is_mean.then(|| "dark line: mean of a bucket; pale: its shortest to longest".into());
    let slow = counted(outliers.len() as u64, &format!("slow {noun}"));
    let marked = (!outliers.is_empty()).then(|| format!("marked: {slow}"));
    let legend: Vec<String> = of_lines.into_iter().chain(marked).collect();
    let legend = match legend.is_empty() {
        true => String::new(),
        false => format!("{}.", capitalised(&legend.join("; "))),
    };
    let in_buckets = match buckets.len() as u64 {
        each if each >= timed => String::new(),
        fewer => format!(" in {}", counted(fewer, "bucket")),
    };
    let description = format!(
        "{}{in_buckets}{percentiles}; longest {}.",
        counted(timed, noun),
        shown_time(longest_warm.unwrap_or(longest) as f64),
    );
    let all = format!("{description} {legend}");
    let all = all.trim_end();
    let mut out = picture(id, "Latency over the run", all, |area| {
        draw_latency(area, series, times, (steps, top_ns.max(1)), noun)
    });
    let end = shown_time(top_ns as f64);
    let what = if buckets.iter().any(|bucket| bucket.steps > 1) { "bucket" } else { noun };
    let cold = match cold.len() {
        0 => None,
        1 => Some(format!("the first, cold {noun}")),
        more => Some(format!("{} of the first, cold call", counted(more as u64, what))),
    };
    let beyond = (!beyond.is_empty()).then(|| counted(beyond.len() as u64, what));
    let beyond = [cold, beyond];
    let beyond: Vec<String> = beyond.into_iter().flatten().collect();
    let clipped = match beyond.is_empty() {
        true => String::new(),
        false => format!(" Not in the picture, which ends at {end}: {}.", beyond.join(" and ")),
    };
    let percentiles = times.map_or("", |_| " Percentiles are of the warm ones.");
    out.push_str(&format!(
        "{}<p class=\"note\">{}{}{clipped}</p>\n<p class=\"note\">{path}{percentiles}</p>\n",
        note(&legend),
        text(&description),
        text(&regular(series, noun).unwrap_or_default()),
    ));
    if let Some(plateaus) = series.plateaus_in_words(noun) {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", inline(&capitalised(&plateaus))));
    }
    if !outliers.is_empty() {
        let has_before = !series.before.is_empty();
        let row = |step: &Step| {
            let before = series.before(step.number);
            let before = match before {
                Some(of) => format!("<td>{}</td><td>{}</td>", text(&of.stage), ms3(of.runs_ns)),
                None if has_before => "<td>–</td><td>–</td>".to_owned(),
                None => String::new(),
            };
            format!(
                "<tr><td>{}</td><td>{}</td>{before}</tr>\n",
                count(step.number),
                ms3(step.host_ns)
            )
        };
        let before = match has_before {
            true => "<th>Stage before</th><th>Its GPU work still runs (ms)</th>",
            false => "",
        };
        let export = |step: &Step| {
            let steps = step.number..step.number.saturating_add(1);
            format!(
                "<p class=\"note\">To see one in Perfetto, for instance {noun} {}, run {}.</p>\n",
                count(step.number),
                export_command(run, &series.stage, &series.path, steps)
            )
        };
        let longest = outliers.iter().max_by_key(|step| step.host_ns);
        out.push_str(&format!(
            "<details><summary>Slow {noun}s as a table</summary>\n<div class=\"table\"><table>\
             <thead><tr><th>{noun}</th><th>{}</th>{before}</tr></thead>\n<tbody>\n{}</tbody></table>\
             </div>\n{}</details>\n",
            axis_of(series),
            outliers.iter().map(row).collect::<String>(),
            longest.map(export).unwrap_or_default(),
        ));
    }
    out
}

/// Slow steps at regular distances have a cause that comes back: ` The slow steps recur every 63 steps, or a multiple of that: ...`.
fn regular(series: &StepSeries, noun: &str) -> Option<String> {
    series.slow_steps_apart().map(|apart| {
        let why = series.slow_steps_follow().unwrap_or_else(|| {
            format!("look at what the program does every {apart} {noun}s, such as taking in new requests")
        });
        format!(" The slow {noun}s recur every {apart} {noun}s, or a multiple of that: {why}.")
    })
}

/// Whether all of it is cold: the first step, and those of the first call.
fn is_cold(series: &StepSeries, bucket: &StepBucket) -> bool {
    bucket.first.saturating_add(bucket.steps) <= series.cold_steps.max(1)
}

fn axis_of(series: &StepSeries) -> &'static str {
    if series.until_next { "Time (ms)" } else { "Host time (ms)" }
}

/// The buckets and the outliers that fit.
fn shown(series: &StepSeries) -> (&[StepBucket], &[Step]) {
    let buckets = series.buckets.get(..BUCKETS.min(series.buckets.len()));
    let outliers = series.outliers.get(..OUTLIERS.min(series.outliers.len()));
    (buckets.unwrap_or_default(), outliers.unwrap_or_default())
}

/// The picture is wider than its steps by this factor: behind the last one, the names of the percentiles cover none.
const LABELLED: f64 = 1.035;

fn draw_latency(
    area: &Area<'_>,
    series: &StepSeries,
    times: Option<&StepTimes>,
    (steps, top_ns): (u64, u64),
    noun: &str,
) -> Result<String, Error> {
    let top = ms(top_ns);
    let (buckets, outliers) = shown(series);
    let mut chart =
        axes(area, (0.0..steps as f64 * LABELLED, noun), (0.0..top, axis_of(series)), 1.0)?;
    let height = |ns: u64| ms(ns).min(top);
    // Each bucket is as wide as its steps: a single one must be visible, too.
    let wide = |of: fn(&StepBucket) -> u64| {
        buckets.iter().flat_map(move |bucket| {
            let (from, to) = (bucket.first, bucket.first.saturating_add(bucket.steps));
            [(from as f64, height(of(bucket))), (to as f64, height(of(bucket)))]
        })
    };
    let down: Vec<_> = wide(|bucket| bucket.min_ns).collect();
    let band: Vec<_> = wide(|bucket| bucket.max_ns).chain(down.into_iter().rev()).collect();
    chart.draw_series([Polygon::new(band, BAND.filled())])?;
    chart.draw_series(LineSeries::new(wide(|bucket| bucket.mean_ns), LINE.stroke_width(2)))?;
    let mut marks = String::new();
    for bucket in buckets.iter().filter(|_| buckets.len() <= HINTS) {
        let last = bucket.first.saturating_add(bucket.steps);
        let [(x, y), (right, bottom)] =
            [(bucket.first, top), (last, 0.0)].map(|(x, y)| chart.backend_coord(&(x as f64, y)));
        let what = match bucket.steps {
            1 => format!("{noun} {}: {}", count(bucket.first), shown_time(bucket.mean_ns as f64)),
            _ => format!(
                "{noun}s {} to {}: mean {}, longest {}",
                count(bucket.first),
                count(last.saturating_sub(1)),
                shown_time(bucket.mean_ns as f64),
                shown_time(bucket.max_ns as f64)
            ),
        };
        marks.push_str(&format!(
            "<rect class=\"hint\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\"><title>{what}</title></rect>\n",
            right - x,
            bottom - y
        ));
    }
    if let Some(cold) = buckets
        .iter()
        .find(|bucket| bucket.first == 0 && is_cold(series, bucket) && bucket.max_ns > top_ns)
    {
        let (x, y) = chart.backend_coord(&(0.0, top));
        let (x, y, time) = (x + 4, y + 10, shown_time(cold.max_ns as f64));
        marks.push_str(&format!(
            "<text class=\"name\" x=\"{x}\" y=\"{y}\">\u{2191} cold: {time}</text>\n"
        ));
    }
    let p50 = times.map(|times| ("p50", times.p50_ns));
    let p99 = times.and_then(|times| Some(("p99", times.p99_ns?)));
    for (label, ns) in p50.into_iter().chain(p99) {
        let line = [(0.0, height(ns)), (steps as f64, height(ns))];
        chart.draw_series(LineSeries::new(line, WARM.stroke_width(1)))?;
        let (x, y) = chart.backend_coord(&(steps as f64, height(ns)));
        let (x, y) = (x + 3, if label == "p50" { y + 8 } else { y - 1 });
        let mark = format!("<text class=\"percentile\" x=\"{x}\" y=\"{y}\" data-ns=\"{ns}\">");
        marks.push_str(&format!("{mark}{label}</text>\n"));
    }
    for step in outliers {
        let at = (step.number as f64 + 0.5, height(step.host_ns));
        let (x, y) = chart.backend_coord(&at);
        marks.push_str(&format!(
            "<circle class=\"outlier\" cx=\"{x}\" cy=\"{y}\" r=\"3.5\"><title>{noun} {}: {}</title>\
             </circle>\n",
            count(step.number),
            shown_time(step.host_ns as f64)
        ));
    }
    Ok(marks)
}

/// Maximum number of batches in a picture; the analysis makes fewer.
const BATCHES: usize = 100;
const FEWEST_BATCHES: usize = 3;
/// Fewer steps have no median that is worth its name.
const FEW_STEPS: u64 = 3;

/// The picture of the step time of an engine by batch, with the fitted line; `None` for fewer
/// than three batches, which do not make a curve.
pub(super) fn step_times(kind: &EngineSteps, id: &str) -> Option<String> {
    // Steps that only read prompts are grouped, and fitted, by tokens where all of these are known.
    let knows_tokens = kind.rows.iter().all(|row| row.tokens_mean.is_some());
    let by_tokens = kind.decode_requests_mean == 0.0 && knows_tokens;
    let batch = |row: &EngineStepRow| match by_tokens {
        true => row.tokens_mean,
        false => Some((row.requests as f64 + row.requests_to as f64) / 2.0),
    };
    let timed = |row: &EngineStepRow| Some((batch(row)?, row.p50_ns?, row.p99_ns, row.timed_steps));
    let rows = kind.rows.iter().take(BATCHES).filter_map(timed);
    let points: Vec<(f64, u64, Option<u64>, u64)> =
        rows.filter(|(at, ..)| at.is_finite()).collect();
    let most = points.iter().map(|(batch, ..)| *batch).fold(0.0, f64::max);
    let longest = points.iter().map(|(_, p50, p99, _)| p99.unwrap_or(*p50)).max()?;
    let few = points.iter().any(|(.., steps)| *steps < FEW_STEPS);
    if points.len() < FEWEST_BATCHES || most <= 0.0 {
        return None;
    }
    let unit = if by_tokens { "prompt tokens of a step" } else { "requests of a step" };
    let line = kind.fit.as_ref().filter(|fit| fit.fixed_ns.is_finite() && fit.each_ns.is_finite());
    let description = format!(
        "Median time of a step until the next one begins, by {unit}, in {} rows; the slowest time shown is {}{}.",
        points.len(),
        shown_time(longest as f64),
        if line.is_some() { "; the line is the fit" } else { "" },
    );
    let drawn = picture(id, "Step time by batch", &description, |area| {
        let (right, top) = (most * 1.05, ms(longest.max(1)) * 1.08);
        let mut chart = axes(area, (0.0..right, unit), (0.0..top, "ms per step"), 1.0)?;
        if let Some(fit) = line {
            let at =
                |batch: f64| (batch, ((fit.fixed_ns + fit.each_ns * batch) / 1e6).clamp(0.0, top));
            let ends = (0..=100).map(|part| at(most * f64::from(part) / 100.0));
            chart.draw_series(LineSeries::new(ends, WARM.stroke_width(1)))?;
        }
        let mut marks = String::new();
        for &(batch, p50, p99, steps) in &points {
            let ends = [(batch, ms(p50)), (batch, ms(p99.unwrap_or(p50)))];
            chart.draw_series(LineSeries::new(ends, LINE.stroke_width(1)))?;
            let (x, y) = chart.backend_coord(&ends[0]);
            let p99 = p99.map_or_else(String::new, |ns| format!(", p99 {}", shown_time(ns as f64)));
            let is_few = steps < FEW_STEPS;
            marks.push_str(&format!(
                "<circle class=\"{}\" cx=\"{x}\" cy=\"{y}\" r=\"3.5\"><title>{batch:.0} {unit}: p50 {}{p99}, \
                 {}</title></circle>\n",
                if is_few { "few" } else { "batch" },
                shown_time(p50 as f64),
                counted(steps, "step"),
            ));
            if is_few {
                let (x, y) = (x + 6, y - 4);
                marks.push_str(&format!(
                    "<text class=\"name\" x=\"{x}\" y=\"{y}\">n={steps}</text>\n"
                ));
            }
        }
        Ok(marks)
    });
    let few = match few {
        true => format!(" A hollow dot (n) is of fewer than {FEW_STEPS} steps: no median."),
        false => String::new(),
    };
    Some(format!(
        "{drawn}<p class=\"note\">{} A dot is the median; its line ends at the 99th percentile if that is \
         known.{few} The table is in <a href=\"#engine-steps\">Engine steps</a>.</p>\n",
        text(&description)
    ))
}

/// Points of a curve; the analysis makes fewer.
const CURVE_POINTS: usize = 1_000;

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
    let with_curve = of_stage.into_iter().find_map(|row| Some((row, curve(row)?)));
    let Some((row, found)) = with_curve else { return String::new() };
    let dram = drawn(found, &DRAM, ("DRAM traffic", "GB/s"), &format!("{id}-dram"));
    let units = drawn(found, &UNITS, ("Units at work", "%"), &format!("{id}-units"));
    let timeline = report.step_timelines.iter().find(|timeline| timeline.stage == stage);
    let noun = timeline.map_or("step", StepTimeline::noun);
    let partial = if row.partial { ", a part of it only" } else { "" };
    let own_run = report.sampled.as_ref().is_some_and(|sampled| sampled.own_run);
    let of_pass = if own_run { " of the counters pass" } else { "" };
    let other_pass = match own_run {
        true => format!(
            "The counters pass is a separate run: its median {noun} is not that of the timeline, which is \
             from the collect pass, and it can take longer. "
        ),
        false => String::new(),
    };
    format!(
        "<h3>Sampled counters over the median {noun}{of_pass}</h3>\n<div class=\"pair\">\n<div>\n{dram}</div>\n\
         <div>\n{units}</div>\n</div>\n<p class=\"note\">{} {} of <code>{}</code> on GPU {}: {} on the \
         GPU, {}. Samples cover {} % of the stage{partial}. {other_pass}timelines.json contains the points.</p>\n",
        capitalised(noun),
        found.number,
        foreign(&row.stage),
        text(&row.device),
        shown_time(found.length_ns as f64),
        counted(found.points.len() as u64, "point"),
        percent1(row.coverage_percent),
    )
}

fn curve(row: &SampledStage) -> Option<&SampledCurve> {
    row.steps.as_ref()?.median.as_ref().filter(|curve| !curve.points.is_empty())
}

fn drawn(curve: &SampledCurve, lines: &[Line], (title, unit): (&str, &str), id: &str) -> String {
    let points = curve.points.get(..CURVE_POINTS.min(curve.points.len())).unwrap_or_default();
    let known: Vec<&Line> =
        lines.iter().filter(|(_, _, value)| points.iter().any(|p| value(p).is_some())).collect();
    if known.is_empty() {
        return format!("<p class=\"absent\">{title}: none, because it was not sampled.</p>\n");
    }
    let most = |(_, _, value): &&&Line| {
        points.iter().filter_map(value).filter(|value| value.is_finite()).fold(0.0, f64::max)
    };
    let shown = |value: f64| match value < 100.0 {
        true => percent1(value),
        false => grouped(&format!("{value:.0}")),
    };
    let names = known.iter().map(|line| format!("{} up to {} {unit}", line.0, shown(most(&line))));
    let description = format!("{title}: {}.", names.collect::<Vec<_>>().join(", "));
    let top = known.iter().map(|line| most(&line)).fold(0.0, f64::max).max(1e-3) * 1.08;
    let picture = picture(id, title, &description, |area| {
        draw_sampled(area, points, &known, curve.length_ns, (top, unit))
    });
    format!("{picture}<p class=\"note\">{}</p>\n", text(&description))
}

fn draw_sampled(
    area: &Area<'_>,
    points: &[SampledPoint],
    lines: &[&Line],
    length_ns: u64,
    (top, unit): (f64, &str),
) -> Result<String, Error> {
    let x = (0.0..ms(length_ns.max(1)), "ms from the start of the GPU work of the step");
    let mut chart = axes(area, x, (0.0..top, unit), 1.0)?;
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
        let mark = format!("<text class=\"legend-{class}\" x=\"{}\" y=\"{y}\">", x + 6);
        marks.push_str(&format!("{mark}{}</text>\n", text(name)));
    }
    Ok(marks)
}

/// Width and height of a picture, in its own units: text of 11 stays readable on a phone.
const SIZE: (u32, u32) = (440, 320);
const FRONT: RGBColor = RGBColor(1, 1, 1);
pub(super) const SOFT: RGBColor = RGBColor(1, 1, 2);
const GRID: RGBColor = RGBColor(1, 1, 3);
pub(super) const LINE: RGBColor = RGBColor(1, 1, 4);
const BAND: RGBColor = RGBColor(1, 1, 5);
const WARM: RGBColor = RGBColor(1, 1, 6);
const COLOURS: [(&str, &str); 6] = [
    ("\"#010101\"", "\"var(--front)\""),
    ("\"#010102\"", "\"var(--soft)\""),
    ("\"#010103\"", "\"var(--line)\""),
    ("\"#010104\"", "\"var(--accent)\""),
    ("\"#010105\"", "\"var(--band)\""),
    ("\"#010106\"", "\"var(--warm)\""),
];

pub(super) type Error = Box<dyn std::error::Error>;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The inner area of a picture, with its axes.
type Chart<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

/// A picture: what `draw` draws, and the marks of our own that it returns. `id` is unique in the page, and
/// `description` states what the picture shows to those who do not see it.
pub(super) fn picture(
    id: &str,
    title: &str,
    description: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<String, Error>,
) -> String {
    let mut drawn = String::new();
    let marks = {
        let area = SVGBackend::with_string(&mut drawn, SIZE).into_drawing_area();
        draw(&area).and_then(|marks| Ok(area.present().map(|()| marks)?))
    };
    let marks = match marks {
        Ok(marks) => marks,
        Err(why) => {
            let why = text(&why.to_string());
            return format!("<p>The picture cannot be drawn: {why}. Its numbers are below.</p>\n");
        }
    };
    for (placeholder, variable) in COLOURS {
        drawn = drawn.replace(placeholder, variable);
    }
    // The outer tag of the library is replaced by one with a title and a description.
    let inner = drawn.split_once('>').map_or("", |(_, inner)| inner);
    let inner = inner.trim_end().trim_end_matches("</svg>");
    let (width, height) = SIZE;
    format!(
        "<svg id=\"{id}\" class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-text\">\n<title id=\"{id}-title\">{}</title>\n\
         <desc id=\"{id}-text\">{}</desc>\n{inner}{marks}</svg>\n",
        text(title),
        text(description),
    )
}

/// Draws axes and a grid; the labels of the y axis are in units of `y_unit`.
pub(super) fn axes<'a, X, Y>(
    area: &Area<'a>,
    (x, x_name): (X, &str),
    (y, y_name): (Y, &str),
    y_unit: f64,
) -> Result<Chart<'a, X::CoordDescType, Y::CoordDescType>, Error>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin_top(10)
        .margin_right(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(x_name)
        .y_desc(y_name)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value / y_unit))
        .axis_style(SOFT)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 11, &FRONT))
        .axis_desc_style(("sans-serif", 11, &FRONT))
        .draw()?;
    Ok(chart)
}

/// A number on an axis, as short as it can be.
pub(super) fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v.abs() >= 1e6 || v.abs() < 1e-3 => format!("{v:.0e}"),
        v if v.abs() >= 100.0 => format!("{v:.0}"),
        v => {
            let digits = format!("{v:.3}");
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}
