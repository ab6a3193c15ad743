//! Stages, kernels and their classes -> bars in SVG, each beside its numbers.

use super::markdown::text;
use crate::views::kernels::top::{TopKernel, classes, top_kernels};
use crate::views::page::idle_percent;
use crate::views::summary::model_stages;
use stage2_model::{Report, StageRow};
use stage2_text::numbers::{ms3, percent1};
use stage2_text::{shorten, shorten_kernel};

/// Bars of one kind.
const MOST: usize = 10;
/// Characters of a name.
const NAME_LIMIT: usize = 90;

/// A bar: what it is, how far it goes, and what stands behind it.
struct Bar {
    name: String,
    /// Parts from left to right, percent of the width: class in the style, and length.
    parts: Vec<(&'static str, f64)>,
    value: String,
}

impl Bar {
    fn share(name: &str, percent: f64, facts: &str) -> Bar {
        let value = format!("{} %{facts}", percent1(percent));
        Bar { name: name.to_owned(), parts: vec![("busy", percent)], value }
    }
}

pub(super) fn bars(report: &Report) -> String {
    let kernels = top_kernels(report, MOST, |row| (row.name_index, row.device.as_str()));
    let classes = classes(&report.kernels).into_iter().filter(|class| class.total_ns > 0);
    let classes = classes.take(MOST).map(|class| Bar::share(class.class, class.percent, ""));
    [
        group("Time of the stages, and how much of it the GPU was busy", stages(report)),
        group(
            "Kernels with the longest time, share of all kernel time",
            kernels.iter().filter_map(kernel).collect(),
        ),
        group("Kernel classes, share of all kernel time", classes.collect()),
    ]
    .concat()
}

fn group(title: &str, bars: Vec<Bar>) -> String {
    let mut out = format!("<h3>{}</h3>\n", text(title));
    if bars.is_empty() {
        out.push_str("<p>None, because none was recorded.</p>\n");
        return out;
    }
    out.push_str("<div class=\"bars\">\n");
    for bar in bars {
        let (mut at, mut rects) = (0.0, String::new());
        for (class, percent) in bar.parts {
            let width = if percent.is_finite() { percent.clamp(0.0, 100.0 - at) } else { 0.0 };
            rects.push_str(&format!(
                "<rect class=\"{class}\" x=\"{at:.2}\" width=\"{width:.2}\" height=\"1\"/>"
            ));
            at += width;
        }
        let name = text(&shorten(&bar.name, NAME_LIMIT));
        let value = text(&bar.value);
        out.push_str(&format!(
            "<code>{name}</code><svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\">{rects}</svg><span>{value}</span>\n"
        ));
    }
    out.push_str("</div>\n");
    out
}

/// Stages of the model on one scale, as far as their windows are known.
fn stages(report: &Report) -> Vec<Bar> {
    let rows: Vec<&StageRow> = model_stages(report).take(MOST).collect();
    let longest = rows.iter().filter_map(|row| row.gpu_window_ns).max().unwrap_or(0);
    let bar = |row: &&StageRow| {
        let (window, busy) = (row.gpu_window_ns?, row.gpu_busy_ns?);
        let percent = |ns: u64| ns as f64 * 100.0 / longest as f64;
        let idle = idle_percent(row);
        let idle = idle.map_or_else(String::new, |idle| format!(", idle {} %", percent1(idle)));
        Some(Bar {
            name: row.stage.clone(),
            parts: std::iter::once(("busy", percent(busy)))
                .chain(row.gpu_idle_ns.map(|idle| ("idle", percent(idle))))
                .collect(),
            value: format!("busy {} of {} ms{idle}", ms3(busy), ms3(window)),
        })
    };
    rows.iter().filter_map(bar).collect()
}

fn kernel(kernel: &TopKernel<'_>) -> Option<Bar> {
    let bound = kernel.counters.and_then(|counters| counters.roofline.bound);
    let bound = bound.map_or_else(String::new, |bound| format!(", {}-bound", bound.label()));
    let name = shorten_kernel(&kernel.row.kernel, NAME_LIMIT);
    Some(Bar::share(&name, kernel.percent?, &format!(", {}{bound}", kernel.row.class)))
}
