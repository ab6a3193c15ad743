//! The longest stage -> its mean step as one bar: kernels, communication, waiting and copies, and idle time by what the
//! host did. Each part leads to the section that explains it.

use stage2_contract::text::numbers::{percent1, shown_time};
use stage2_contract::text::shorten;
use stage2_model::{HostCause, Report, StageAnswer, WindowKind, WindowPart, WindowSplit};

use super::markdown::text;
use super::{STAGES, mark};

/// Causes of idle time that have a part of their own; each has at least this share of the step, percent.
const CAUSES: usize = 3;
const LEAST_PERCENT: f64 = 2.0;
/// A part that is as wide has its time in the bar, percent.
const LABELLED_PERCENT: f64 = 9.0;
const NAME_CHARS: usize = 90;

struct Part {
    label: String,
    /// Class in the style of the page.
    mark: &'static str,
    ns: f64,
    to: String,
}

/// The bar of the stage that the verdict is about, with its legend; nothing where its window or its steps are not known.
pub(super) fn bar(report: &Report) -> Option<String> {
    let stages = report.answer.stages.iter().take(STAGES).enumerate();
    let mut known = stages.filter_map(|(at, answer)| {
        let found = answer.bottleneck.as_ref().filter(|found| found.is_of_step())?;
        answer.step.as_ref()?;
        Some((at + 1, answer, answer.window.as_ref()?, found))
    });
    let (number, answer, window, found) = known.next()?;
    if window.window_ns == 0 {
        return None;
    }
    let scale = found.ns as f64 / window.window_ns as f64;
    let parts = parts(report, answer, window, number, scale);
    let all_ns = found.ns as f64;
    let stage = shorten(&answer.stage, NAME_CHARS);
    let title = format!("The mean {} of {stage}: {}", found.of, shown_time(all_ns));
    let mut at = 0.0;
    let (mut rects, mut legend) = (String::new(), String::new());
    for Part { label, mark, ns, to } in &parts {
        let percent = ns * 100.0 / all_ns;
        let width = percent.clamp(0.0, (100.0_f64 - at).max(0.0));
        let (label, time) = (text(label), shown_time(*ns));
        let inside = match width >= LABELLED_PERCENT {
            true => format!("<text x=\"{:.4}%\" y=\"1.25rem\">{time}</text>", at + width / 2.0),
            false => String::new(),
        };
        rects.push_str(&format!(
            "<a href=\"#{to}\"><rect class=\"{mark}\" x=\"{at:.4}%\" width=\"{width:.4}%\" \
             height=\"100%\"><title>{label}: {time}</title></rect>{inside}</a>\n"
        ));
        legend.push_str(&format!(
            "<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"{mark}\" width=\"100%\" \
             height=\"100%\"/></svg><a href=\"#{to}\">{label}</a> <span>{time} ({} %)</span></li>\n",
            percent1(percent)
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

fn parts(
    report: &Report,
    answer: &StageAnswer,
    window: &WindowSplit,
    number: usize,
    scale: f64,
) -> Vec<Part> {
    let section = |what: &str| format!("stage-{number}-{what}");
    let has_ranks = report.ranks.stages.iter().any(|row| row.waiting_ns.is_some());
    let is_idle =
        |part: &&WindowPart| matches!(part.kind, WindowKind::LaunchGaps | WindowKind::OtherIdle);
    let work = window.parts.iter().filter(|part| !is_idle(part));
    let mut parts: Vec<Part> = work
        .map(|part| Part {
            label: match part.kind {
                WindowKind::Compute | WindowKind::Busy => "kernels",
                WindowKind::Waiting => "waiting for other ranks",
                WindowKind::Transfer | WindowKind::Communication => "communication",
                kind => kind.label(),
            }
            .to_owned(),
            mark: mark(part.kind),
            ns: part.ns as f64 * scale,
            to: match part.kind {
                WindowKind::Compute | WindowKind::Busy => "all-kernels".to_owned(),
                WindowKind::Waiting if has_ranks => "by-rank".to_owned(),
                _ => section("window"),
            },
        })
        .collect();
    let idle_ns =
        window.parts.iter().filter(is_idle).map(|part| part.ns as f64 * scale).sum::<f64>();
    let host = report.host.iter().flat_map(|host| &host.stages);
    let causes = host.filter(|found| found.stage == answer.stage).flat_map(|found| &found.causes);
    let all_ns = window.window_ns as f64 * scale;
    let ns = |cause: &HostCause| idle_ns * cause.percent.clamp(0.0, 100.0) / 100.0;
    let is_part =
        |cause: &&HostCause| cause.is_finding() && ns(cause) * 100.0 >= LEAST_PERCENT * all_ns;
    let marks = ["i-0", "i-1", "i-2"];
    let mut named_ns = 0.0;
    for (cause, mark) in causes.filter(is_part).take(CAUSES).zip(marks) {
        let ns = ns(cause).min(idle_ns - named_ns);
        named_ns += ns;
        let label = format!("idle: {}", shorten(&cause.text(true), NAME_CHARS));
        parts.push(Part { label, mark, ns, to: section("host") });
    }
    if named_ns > 0.0 {
        let label = "idle: smaller and unknown causes".to_owned();
        parts.push(Part { label, mark: "g-idle", ns: idle_ns - named_ns, to: section("host") });
    } else {
        let idle = window.parts.iter().filter(is_idle).map(|part| Part {
            label: match part.kind {
                WindowKind::LaunchGaps => "idle in launch gaps",
                _ => "other idle time",
            }
            .to_owned(),
            mark: mark(part.kind),
            ns: part.ns as f64 * scale,
            to: section("window"),
        });
        parts.extend(idle);
    }
    parts.retain(|part| part.ns > 0.0);
    parts
}
