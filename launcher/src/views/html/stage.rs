//! What the page shows of one stage: its numbers, where its window goes, its median step, its latency,
//! its roofline, its classes.

use super::kernels::by_class;
use super::latency::latency;
use super::markdown::{foreign, text};
use super::roofline::roofline;
use super::sampled::sampled;
use super::timeline::timeline;
use super::window::window;
use stage2_model::{Figure, Report, StageAnswer};
use stage2_text::numbers::{count, ms3};
use stage2_text::shorten;

/// Characters of a stage's name.
const NAME_LIMIT: usize = 80;

/// The part of `stage`, whose number in the page is `number`.
pub(super) fn stage(report: &Report, stage: &str, number: usize) -> String {
    let answer = report.answer.stages.iter().find(|answer| answer.stage == stage);
    let times = answer.and_then(|answer| answer.step.as_ref());
    let id = |what: &str| format!("stage-{number}-{what}");
    let split = answer.and_then(|answer| answer.window.as_ref());
    let split = split.map_or_else(
        || absent("its GPU window is not known", ""),
        |split| window(split, &id("window")),
    );
    let steps = report.step_timelines.iter().find(|timeline| timeline.stage == stage);
    let steps = steps.map_or_else(
        || {
            absent(
                "no median step of this stage was read",
                "timelines are of the four longest stages with warm instances in a trace file of the \
                 collector",
            )
        },
        |found| timeline(found, &id("timeline")),
    );
    let series = report.step_series.iter().find(|series| series.stage == stage);
    let series = series.map_or_else(
        || absent("the times of single steps are not known", ""),
        |series| latency(series, times, &id("latency")),
    );
    let figures = answer.map_or_else(String::new, figures);
    format!(
        "<section id=\"stage-{number}\" class=\"stage\">\n<h2>Stage <code>{}</code></h2>\n{figures}\
         <h3>Where the window goes</h3>\n{split}\
         <h3>Timeline of the median step</h3>\n{steps}\
         {}<div class=\"pair\">\n<div>\n<h3>Step latency over the run</h3>\n{series}</div>\n\
         <div>\n<h3>Roofline</h3>\n{}</div>\n</div>\n\
         <h3>Kernel time by class</h3>\n{}</section>\n",
        foreign(&shorten(stage, NAME_LIMIT)),
        sampled(report, stage, &id("sampled")),
        roofline(report, stage, &id("roofline")),
        by_class(report, stage),
    )
}

/// Why there is no picture.
fn absent(why: &str, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
    format!("<p class=\"absent\">None, because {}{}.</p>\n", text(why), text(&note))
}

/// The numbers of the answer, each with its unit.
fn figures(answer: &StageAnswer) -> String {
    let mut shown: Vec<(&str, String)> = Vec::new();
    if let Some(times) = &answer.step {
        shown.push(("steps", count(times.steps)));
        shown.push(("ms a step, p50", ms3(times.p50_ns)));
        shown.push(("ms a step, p99", ms3(times.p99_ns)));
    }
    let ms = |ns: f64| format!("{:.3}", ns / 1e6);
    let known = |figure: &Figure, show: &dyn Fn(f64) -> String| figure.value().map(show);
    let first_token = known(&answer.time_to_first_token_ns, &ms);
    shown.extend(first_token.map(|ms| ("ms to the first token", ms)));
    let rate = known(&answer.tokens_per_s, &|rate| format!("{rate:.1}"));
    shown.extend(rate.map(|rate| ("tokens/s", rate)));
    let floor = known(&answer.floor.floor_ns, &ms);
    shown.extend(floor.map(|ms| ("ms: floor of the hardware", ms)));
    let distance = known(&answer.floor.distance, &|times| format!("{times:.1}x"));
    shown.extend(distance.map(|distance| ("of the floor", distance)));
    let card = |(label, value): &(&str, String)| {
        format!("<div><b>{}</b><span>{}</span></div>\n", text(value), text(label))
    };
    let first = answer.first.as_ref().map_or_else(String::new, |first| {
        let gain = first.gain();
        let gain = gain.map_or_else(String::new, |gain| format!(" Up to {}.", text(&gain)));
        format!(
            "<p><strong>First:</strong> {}.{gain}</p>\n",
            text(first.text.trim_end_matches('.'))
        )
    });
    let cards: String = shown.iter().map(card).collect();
    let cards = match cards.is_empty() {
        true => String::new(),
        false => format!("<div class=\"cards\">\n{cards}</div>\n"),
    };
    format!(
        "{cards}<p class=\"note\">Basis: {}.</p>\n{first}",
        text(answer.basis.trim_end_matches('.'))
    )
}
