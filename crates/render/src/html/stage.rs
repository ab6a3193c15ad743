//! What the page shows of one stage: its numbers, where its window goes, its median step, its latency,
//! its roofline, its classes.

use super::kernels::by_class;
use super::latency::latency;
use super::markdown::{foreign, text};
use super::roofline::roofline;
use super::sampled::sampled;
use super::timeline::timeline;
use super::window::window;
use stage2_contract::text::numbers::{count, ratio3};
use stage2_contract::text::shorten;
use stage2_model::{Figure, Report, StageAnswer, StepSeries, StepTimeline, StepTimes};

/// Characters of a stage's name.
const NAME_LIMIT: usize = 80;

/// The part of `stage`, whose number in the page is `number`.
pub(super) fn stage(report: &Report, stage: &str, number: usize) -> String {
    let answer = report.answer.stages.iter().find(|answer| answer.stage == stage);
    let times = answer.and_then(|answer| answer.step.as_ref());
    let id = |what: &str| format!("stage-{number}-{what}");
    let split = answer.and_then(|answer| answer.window.as_ref());
    let unit = times.map_or("step", |times| times.unit.noun());
    let basis = answer.map_or("", |answer| &answer.basis);
    let split = split.map_or_else(
        || absent("its GPU window is not known", ""),
        |split| window(split, unit, basis, &id("window")),
    );
    let steps = report.step_timelines.iter().find(|timeline| timeline.stage == stage);
    let noun = steps.map_or("instance", StepTimeline::noun);
    let timed = report.step_series.iter().find(|series| series.stage == stage);
    let timed = timed.map_or(noun, StepSeries::noun);
    let steps = steps.map_or_else(
        || {
            absent(
                "no median instance or step of this stage was read",
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
         <h3>Timeline of the median {noun}</h3>\n{steps}\
         {}<div class=\"pair\">\n<div>\n<h3>Latency of each {timed} over the run</h3>\n{series}</div>\n\
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
    let mut shown: Vec<(String, String)> = Vec::new();
    let ms = |ns: f64| format!("{:.3}", ns / 1e6);
    if let Some(times) = &answer.step {
        let unit = times.shown_unit();
        shown.push((format!("{} {}s", times.warmth(), times.unit.noun()), count(times.steps)));
        shown.push((format!("ms per {unit}, p50"), ms(times.shown_ns(times.p50_ns))));
        shown.extend(
            times.tail().map(|(of, ns)| (format!("ms per {unit}, {of}"), ms(times.shown_ns(ns)))),
        );
    }
    let slowdown = answer.slowdown.as_ref();
    shown.extend(slowdown.map(|cost| ("times its baseline".to_owned(), ratio3(cost.ratio))));
    let known = |figure: &Figure, show: &dyn Fn(f64) -> String| figure.value().map(show);
    let first_token = known(&answer.time_to_first_token_ns, &ms);
    shown.extend(first_token.map(|ms| ("ms from a request to its first token, p50".into(), ms)));
    let rate = known(&answer.tokens_per_s, &|rate| format!("{rate:.1}"));
    shown.extend(rate.map(|rate| ("tokens/s".to_owned(), rate)));
    let unit = answer.step.as_ref().map_or("instance", StepTimes::shown_unit);
    let floor = known(&answer.floor.floor_ns, &|ns| {
        ms(answer.step.as_ref().map_or(ns, |times| ns * times.shown_ns(1)))
    });
    shown.extend(floor.map(|ms| (format!("ms per {unit}: floor of the hardware"), ms)));
    let distance = known(&answer.floor.distance, &|times| format!("{times:.1}x"));
    shown.extend(distance.map(|distance| ("of the floor".to_owned(), distance)));
    let baseline = answer.floor.baseline_distance.map(|times| format!("{times:.1}x"));
    shown.extend(baseline.map(|times| ("of the floor by the baseline".to_owned(), times)));
    let card = |(label, value): &(String, String)| {
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
    let over = answer.step.as_ref().and_then(|step| step.passed_over.as_ref());
    let over = over.map_or_else(String::new, |why| format!("; {why}"));
    format!(
        "{cards}<p class=\"note\">Basis: {}.</p>\n{first}",
        text(&format!("{}{over}", answer.basis.trim_end_matches('.')))
    )
}
