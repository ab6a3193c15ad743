//! The mean step of a stage as one bar: kernels, communication, waiting and copies, and idle time by what the host did.
//! Each part leads to the section that explains it.

use stage2_contract::text::numbers::{grouped, percent1, shown_time, time_scale};
use stage2_contract::text::shorten;
use stage2_model::{
    Bottleneck, BottleneckKind, HostCause, HostCauseKind, Report, StageAnswer, WindowKind,
    WindowPart, WindowSplit,
};

use super::markdown::text;
use super::{STAGES, mark};
use crate::page::{Idle, idle_of, is_idle};

/// How labels of idle time with its cause begin.
pub(super) const IDLE: &str = "idle: ";
/// Causes of idle time that have their own part; each has at least this share of the step, percent.
const CAUSES: usize = 5;
const LEAST_PERCENT: f64 = 2.0;
/// Of the smaller ones so many are named.
const SMALL_NAMED: usize = 2;
const SMALL_CHARS: usize = 40;
/// A part that is as wide has its time in the bar, percent.
const LABELLED_PERCENT: f64 = 9.0;
const NAME_CHARS: usize = 90;

/// A part of the mean step.
pub(super) struct Part {
    pub(super) label: String,
    /// Class in the style of the page.
    pub(super) mark: &'static str,
    pub(super) ns: f64,
    /// As shown; they add up to 100.0.
    pub(super) percent: f64,
    /// Identifier of what explains it.
    pub(super) to: String,
}

/// The stage whose mean step the head of the page shows: the number of its section, and what the bar is of.
pub(super) fn shown(report: &Report) -> Option<(usize, &StageAnswer, &WindowSplit, &Bottleneck)> {
    let stages = report.answer.stages.iter().take(STAGES).enumerate();
    let mut known = stages.filter_map(|(at, answer)| {
        let found = answer.bottleneck.as_ref().filter(|found| found.is_of_step())?;
        answer.step.as_ref()?;
        Some((at + 1, answer, answer.window.as_ref()?, found))
    });
    known.next().filter(|(_, _, window, _)| window.window_ns > 0)
}

/// The bar of the stage that the verdict is about, with its legend; nothing where its window or its steps are not known.
pub(super) fn bar(report: &Report) -> Option<String> {
    let (number, answer, window, found) = shown(report)?;
    let scale = found.ns as f64 / window.window_ns as f64;
    let parts = parts(report, answer, window, number, scale);
    let all_ns = found.ns as f64;
    let stage = shorten(&answer.stage, NAME_CHARS);
    let sum = idle_sum(found, &parts).unwrap_or_default();
    let title = format!("Mean time per {} of {stage}: {}{sum}", found.of, shown_time(all_ns));
    let shown = in_unit_of(all_ns);
    let mut at = 0.0;
    let (mut rects, mut legend) = (String::new(), String::new());
    for Part { label, mark, ns, percent, to } in &parts {
        let width = (ns * 100.0 / all_ns).clamp(0.0, (100.0_f64 - at).max(0.0));
        let (label, time) = (text(label), shown(*ns));
        let inside = match width >= LABELLED_PERCENT {
            true => format!("<text x=\"{:.4}%\" y=\"1.25rem\">{time}</text>", at + width / 2.0),
            false => String::new(),
        };
        rects.push_str(&format!(
            "<a href=\"#{to}\" tabindex=\"-1\"><rect class=\"{mark}\" x=\"{at:.4}%\" width=\"{width:.4}%\" \
             height=\"100%\"><title>{label}: {time}</title></rect>{inside}</a>\n"
        ));
        legend.push_str(&format!(
            "<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"{mark}\" width=\"100%\" \
             height=\"100%\"/></svg><a href=\"#{to}\">{label}</a> <span>{time} ({} %)</span></li>\n",
            percent1(*percent)
        ));
        at += width;
    }
    Some(format!(
        "<figure class=\"mean\">\n<figcaption>{}</figcaption>\n<svg class=\"window\" role=\"img\" \
         aria-labelledby=\"mean-title\">\n<title id=\"mean-title\">{}</title>\n{rects}</svg>\n\
         <ul class=\"legend\">\n{legend}</ul>\n</figure>\n",
        text(&title),
        text(&title)
    ))
}

/// `; launch gaps and other idle together: 5.71 ms`: the parts that bound the step, where these are not divided by cause.
fn idle_sum(found: &Bottleneck, parts: &[Part]) -> Option<String> {
    let bound = found.first().filter(|bound| bound.kind == BottleneckKind::Launches)?;
    let idle = || parts.iter().filter(|part| part.mark.starts_with("g-"));
    let ns = idle().map(|part| part.ns).sum::<f64>();
    let labels: Vec<&str> = idle().map(|part| part.label.as_str()).collect();
    let is_bound = labels.len() > 1 && (ns / bound.ns as f64 - 1.0).abs() < 0.01;
    is_bound.then(|| format!("; {} together: {}", labels.join(" and "), shown_time(ns)))
}

/// The parts of the window of a stage, which has the section `number`, with idle time by cause where causes are known.
/// `scale`: from the window to what is shown.
pub(super) fn parts(
    report: &Report,
    answer: &StageAnswer,
    window: &WindowSplit,
    number: usize,
    scale: f64,
) -> Vec<Part> {
    let section = |what: &str| format!("stage-{number}-{what}");
    let has_ranks = report.ranks.stages.iter().any(|row| row.waiting_ns.is_some());
    let percents = window.rounded_percent();
    let known = || window.parts.iter().zip(percents.iter().copied());
    let part = |(part, percent): (&WindowPart, f64)| Part {
        label: part.kind.label().to_owned(),
        mark: mark(part.kind),
        ns: part.ns as f64 * scale,
        percent,
        to: match part.kind {
            WindowKind::Compute | WindowKind::Busy => "all-kernels".to_owned(),
            WindowKind::Waiting if has_ranks => "by-rank".to_owned(),
            _ => section("window"),
        },
    };
    let mut parts: Vec<Part> = known().filter(|(part, _)| !is_idle(part.kind)).map(part).collect();
    let idle = || known().filter(|(part, _)| is_idle(part.kind));
    let mut idle_percent = idle().map(|(_, percent)| percent).sum::<f64>();
    let Idle { ns: idle_ns, causes } = idle_of(report, answer).unwrap_or_default();
    let all_ns = window.window_ns as f64 * scale;
    let shown = in_unit_of(all_ns);
    let is_part = |(_, ns): &(&HostCause, f64)| ns * 100.0 >= LEAST_PERCENT * all_ns;
    let marks = ["i-0", "i-1", "i-2", "i-3", "i-4"];
    let mut named_ns = 0.0;
    let (large, small): (Vec<_>, Vec<_>) = causes.into_iter().partition(is_part);
    let mut small: Vec<(&HostCause, f64)> =
        large.iter().skip(CAUSES).copied().chain(small).collect();
    small.retain(|(_, ns)| ns * 1_000.0 >= all_ns);
    for ((cause, ns), mark) in large.into_iter().zip(marks) {
        let ns = ns.min(idle_ns - named_ns);
        named_ns += ns;
        let percent = (ns * 1_000.0 / all_ns).round() / 10.0;
        idle_percent -= percent;
        let label = format!("{IDLE}{}", shorten(&cause.text(true), NAME_CHARS));
        parts.push(Part { label, mark, ns, percent, to: section("causes") });
    }
    if named_ns > 0.0 {
        let rest_ns = idle_ns - named_ns;
        let unknown_ns = (idle_ns * unknown_percent(report, answer) / 100.0).min(rest_ns);
        let percent = (unknown_ns * 1_000.0 / all_ns).round() / 10.0;
        let largest: Vec<String> = (small.iter().take(SMALL_NAMED))
            .map(|(cause, ns)| {
                let code = cause.frame.as_ref().filter(|_| cause.kind.is_code());
                let what = HostCause { frame: None, ..(*cause).clone() }.text(true);
                let name = code.map_or(what, |frame| frame.function.clone());
                let name = shorten(&name, SMALL_CHARS);
                format!("{name} {}, ", shown(*ns))
            })
            .collect();
        let largest = match largest.is_empty() {
            true => String::new(),
            false => format!(" ({}\u{2026})", largest.concat()),
        };
        let to = section("causes");
        parts.push(Part {
            label: format!("{IDLE}many small causes{largest}"),
            mark: "i-5",
            ns: rest_ns - unknown_ns,
            percent: (idle_percent - percent).max(0.0),
            to: to.clone(),
        });
        let label = format!("{IDLE}cause not known");
        parts.push(Part { label, mark: "g-idle", ns: unknown_ns, percent, to });
    } else {
        parts.extend(idle().map(part));
    }
    // What would read 0.0 % takes room from what matters.
    parts.retain(|part| part.percent > 0.0);
    parts
}

/// Times of the parts in the unit and with the decimals of the whole.
fn in_unit_of(all_ns: f64) -> impl Fn(f64) -> String {
    let (scale, unit, decimals) = time_scale(all_ns);
    move |ns| format!("{} {unit}", grouped(&format!("{:.decimals$}", ns / scale)))
}

/// Share of the idle time of which nothing is known, percent.
fn unknown_percent(report: &Report, answer: &StageAnswer) -> f64 {
    let stages = report.host.iter().flat_map(|host| &host.stages);
    let causes = stages.filter(|found| found.stage == answer.stage).flat_map(|found| &found.causes);
    let unknown = causes.filter(|cause| cause.kind == HostCauseKind::Unknown);
    unknown.map(|cause| cause.percent.clamp(0.0, 100.0)).sum()
}
