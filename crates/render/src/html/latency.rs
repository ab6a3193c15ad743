//! How long the steps of a stage took over the run: the band from the shortest to the longest, the
//! mean, percentiles, and the outliers.

use plotters::prelude::*;

use super::chart::{self, BAND, Caption, LINE, WARM, axes, picture, short};
use super::markdown::{foreign, text};
use stage2_contract::text::numbers::{count, counted, ms3};
use stage2_model::{Step, StepSeries, StepTimes};

/// Buckets of a picture; the analysis makes fewer.
const BUCKETS: usize = 2_000;
/// Fewer steps are no picture.
const FEWEST: u64 = 5;
/// Outliers with a mark.
const OUTLIERS: usize = 100;
/// Where the longest step is longer than the 99th percentile by this, the picture ends earlier.
const FAR: f64 = 4.0;

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The picture of `series`, with the percentiles of `times`. A few steps are a line of numbers.
pub(super) fn latency(series: &StepSeries, times: Option<&StepTimes>, id: &str) -> String {
    let buckets = series.buckets.get(..BUCKETS.min(series.buckets.len())).unwrap_or_default();
    let outliers = series.outliers.get(..OUTLIERS.min(series.outliers.len())).unwrap_or_default();
    let steps = buckets.iter().map(|b| b.first.saturating_add(b.steps)).max().unwrap_or(0);
    if steps == 0 {
        return "<p class=\"absent\">None, because none has a host time.</p>\n".to_owned();
    }
    let noun = series.noun();
    let path = format!(
        "Host time of <code>{}</code> in {}; the first {noun} is the cold one.",
        foreign(&series.path),
        foreign(&series.file),
    );
    if steps < FEWEST {
        let each: Vec<String> = buckets.iter().map(|bucket| ms3(bucket.mean_ns)).collect();
        return format!(
            "<p class=\"absent\">No picture of {}: {} ms.</p>\n<p class=\"note\">{path}</p>\n",
            text(&counted(steps, noun)),
            text(&each.join(", ")),
        );
    }
    let longest = buckets.iter().map(|bucket| bucket.max_ns).max().unwrap_or(0);
    let typical = times.and_then(|times| times.p99_ns).unwrap_or(longest).max(1);
    let top_ns = match longest as f64 > typical as f64 * FAR {
        true => typical.saturating_mul(2),
        false => (longest as f64 * 1.08) as u64,
    };
    let beyond = buckets.iter().filter(|bucket| bucket.max_ns > top_ns).count();
    let percentiles = times.map_or_else(String::new, |times| {
        let p99 = times.p99_ns.map_or_else(String::new, |ns| format!(", p99 {} ms", ms3(ns)));
        format!(", p50 {} ms{p99}", ms3(times.p50_ns))
    });
    let description = format!(
        "{} in {}{percentiles}; longest {} ms; marked: {}.",
        counted(steps, noun),
        counted(buckets.len() as u64, "bucket"),
        ms3(longest),
        counted(outliers.len() as u64, "outlier"),
    );
    let title = "Latency over the run";
    let caption = Caption { id: id.to_owned(), title, description: description.clone() };
    let mut out = picture(&caption, |area| {
        draw(area, buckets, outliers, times, (steps, top_ns.max(1)), noun)
    });
    let clipped = match beyond {
        0 => String::new(),
        n => format!(
            " Beyond the picture, which ends at {} ms: {}.",
            ms3(top_ns),
            counted(n as u64, "bucket")
        ),
    };
    out.push_str(&format!(
        "<p class=\"note\">{}{clipped} {path} Percentiles are of the warm ones.</p>\n",
        text(&description),
    ));
    if !outliers.is_empty() {
        let row = |step: &Step| {
            format!("<tr><td>{}</td><td>{}</td></tr>\n", count(step.number), ms3(step.host_ns))
        };
        out.push_str(&format!(
            "<details><summary>Outliers as a table</summary>\n<div class=\"table\"><table>\
             <thead><tr><th>{noun}</th><th>host time, ms</th></tr></thead>\n<tbody>\n{}</tbody></table>\
             </div>\n</details>\n",
            outliers.iter().map(row).collect::<String>()
        ));
    }
    out
}

fn draw(
    area: &chart::Area<'_>,
    buckets: &[stage2_model::StepBucket],
    outliers: &[Step],
    times: Option<&StepTimes>,
    (steps, top_ns): (u64, u64),
    noun: &str,
) -> Result<String, chart::Error> {
    let top = ms(top_ns);
    let mut chart =
        axes(area, (0.0..steps as f64, noun), (0.0..top, "host time, ms"), &|v| short(*v), &|v| {
            short(*v)
        })?;
    let height = |ns: u64| ms(ns).min(top);
    // Each bucket is as wide as its steps: a single one must be visible, too.
    let wide = |of: fn(&stage2_model::StepBucket) -> u64| {
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
    let p50 = times.map(|times| ("p50", times.p50_ns));
    let p99 = times.and_then(|times| Some(("p99", times.p99_ns?)));
    for (label, ns) in p50.into_iter().chain(p99) {
        let line = [(0.0, height(ns)), (steps as f64, height(ns))];
        chart.draw_series(LineSeries::new(line, WARM.stroke_width(1)))?;
        let (x, y) = chart.backend_coord(&(steps as f64, height(ns)));
        let y = if label == "p50" { y + 11 } else { y - 3 };
        marks.push_str(&format!(
            "<text class=\"percentile\" x=\"{}\" y=\"{y}\" data-ns=\"{ns}\">{label}</text>\n",
            x - 3
        ));
    }
    for step in outliers {
        let at = (step.number as f64 + 0.5, height(step.host_ns));
        let (x, y) = chart.backend_coord(&at);
        marks.push_str(&format!(
            "<circle class=\"outlier\" cx=\"{x}\" cy=\"{y}\" r=\"3.5\"><title>{noun} {}: {} ms</title>\
             </circle>\n",
            count(step.number),
            ms3(step.host_ns)
        ));
    }
    Ok(marks)
}
