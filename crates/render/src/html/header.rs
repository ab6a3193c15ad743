//! The head of the page: what ran, the answer, and the first numbers.

use std::borrow::Cow;

use super::{MFU_SECTION, Part, STAGES, TIMES_AT};
use stage2_contract::text::numbers::{count, percent1, shown_rate};
use stage2_contract::text::plain;
use stage2_model::{AnswerLine, DeviceRow, LateRow, Report, Status, StepUnit};

use crate::facts::{self, facts, host_fact, no_host_fact};
use crate::html::markdown::{attribute, html, inline, text};
use crate::html::tables::{Kernels, SHORT_CHARS};
use crate::names::Names;
use crate::page::{
    COMMAND_CHARS, COVERAGE, SIMULATED, VERDICT, WARNINGS, busy_in_stages, command_line,
    page_lines, run_line, verdict_stage,
};
use crate::ranks;
use crate::table::no_block;

/// The head: what ran, warnings, the answer and its numbers.
pub(super) fn header(
    report: &Report,
    kernels: &Kernels<'_>,
    title: &str,
    parts: &[Part],
) -> String {
    let ran = html(&run_line(report, true)).replacen("<p>", "<p class=\"note\">", 1);
    let command = command_line(report, true).filter(|line| line.chars().count() > COMMAND_CHARS);
    let ran = command.map_or(ran.clone(), |whole| {
        let code = format!("<code title=\"{}\">", attribute(&whole));
        ran.replacen("<code>", &code, 1)
    });
    let mut out = format!("<header>\n<h1>{}</h1>\n{ran}", text(title));
    if report.simulated {
        let simulated = text(SIMULATED);
        out.push_str(&format!("<p class=\"banner bad\"><strong>{simulated}</strong></p>\n"));
    }
    if let Some(end) = &report.run.workload_end {
        let end = text(&end.sentence(report.coverage.verdict.status));
        out.push_str(&format!(
            "<p class=\"banner bad\"><strong>Ended early:</strong> {end}.</p>\n"
        ));
    }
    let kind = match report.coverage.verdict.status {
        Status::Complete => "good",
        Status::Partial => "fair",
        Status::Empty => "bad",
    };
    let names = Names::of(report);
    let of_lead = lead_section(report).unwrap_or_default();
    let (host_code, why_late) = (format!("{of_lead}-causes"), format!("{of_lead}-late"));
    let line = |AnswerLine { label, text: said }: &AnswerLine, late: &str, name_chars: usize| {
        let class = if label == COVERAGE { kind } else { "line" };
        let stop = if said.ends_with(['.', '!', '?']) { "" } else { "." };
        let to = match label.as_str() {
            HOST_CODE => Some(host_code.as_str()),
            WHY_LATE => Some(why_late.as_str()),
            label => explained_at(label),
        };
        let is_there = |to: &&str| {
            let id = format!("id=\"{to}\"");
            parts.iter().any(|part| part.id == *to || part.html.contains(&id))
        };
        let to = to.filter(is_there);
        let said = inline(&names.as_code(&no_block(plain(said))));
        let said = match label.as_str() {
            "kernel" | FIRST_STEP => kernels.linked(said, name_chars),
            _ => said,
        };
        let link = late_link(report).filter(|_| label == late).unwrap_or_default();
        let label = text(label);
        let label = to.map_or(label.clone(), |to| format!("<a href=\"#{to}\">{label}</a>"));
        format!("<div class=\"{class}\"><dt>{label}</dt><dd>{said}{stop}{link}</dd></div>\n")
    };
    let mut lines = page_lines(report);
    lines.extend(ranks::head(report).map(|text| AnswerLine { label: "ranks".into(), text }));
    let verdict = |text: &str| format!("<p class=\"verdict\">{}</p>\n", with_units(text));
    let step = verdict_stage(report).and_then(|told| told.step.as_ref());
    let of_engine = step.is_some_and(|step| step.unit == StepUnit::OfEngine);
    let list = |lines: &[AnswerLine], name_chars| -> String {
        let has_why = lines.iter().any(|known| known.label == WHY_LATE);
        let late = if has_why { WHY_LATE } else { LATE };
        let rows = lines.iter().map(|known| line(known, late, name_chars));
        let rows = rows.collect::<String>();
        let error = match rows.contains('±') {
            true => " \u{b1}: standard error of the samples; runs can differ by more.",
            false => "",
        };
        // Two means of a step on one screen.
        let means = lines.iter().any(|known| known.label == "time" && known.text.contains("mean "));
        let means = match means && of_engine {
            true => {
                "Time is measured from the start of a step to that of the next; the bar shows its GPU window, which ends there or with the last GPU work of the step."
            }
            false => "",
        };
        let floor =
            facts::floor_note(report).map_or_else(String::new, |note| format!(" {}", text(&note)));
        let notes = format!("{means}{floor}{error}");
        let notes = match notes.trim() {
            "" => String::new(),
            notes => format!("<p class=\"note\">{notes}</p>\n"),
        };
        format!("<dl class=\"answer\">\n{rows}</dl>\n{notes}")
    };
    let bar = super::mean_step::bar(report);
    let bar_html = bar.as_deref().unwrap_or_default();
    if let Some((bound, short)) = short_answer(report, &lines, bar.is_some()) {
        out.push_str(&verdict(&text(&bound)));
        out.push_str(bar_html);
        out.push_str(&list(&short, facts::KERNEL_CHARS));
        let whole = list(&lines, SHORT_CHARS);
        out.push_str(&format!(
            "<details>\n<summary>The answer in full</summary>\n{whole}</details>\n"
        ));
    } else {
        if let Some(at) = lines.iter().position(|known| known.label == VERDICT) {
            out.push_str(&verdict(&kernels.linked(text(&lines.remove(at).text), SHORT_CHARS)));
        }
        out.push_str(bar_html);
        out.push_str(&list(&lines, SHORT_CHARS));
    }
    out + &first_numbers(report, parts, bar.is_some()) + "</header>\n"
}

/// A number and its unit stay on one line.
fn with_units(html: &str) -> String {
    html.replace(" %", "\u{a0}%").replace(" ms", "\u{a0}ms")
}

/// What bounds a step, and an answer to each question that a reader has, a line each; what `whole` has besides stays as
/// it is. `None` where no step or what bounds it is known.
fn short_answer(
    report: &Report,
    whole: &[AnswerLine],
    has_bar: bool,
) -> Option<(String, Vec<AnswerLine>)> {
    let facts = facts(report)?;
    let stage = &verdict_stage(report)?.stage;
    let fact = |label: &str| facts.iter().find(|known| known.label == label);
    let fact = |label: &str| fact(label).map(|known| known.text.clone());
    let first = || whole.iter().find(|line| line.label == FIRST_STEP).map(|line| line.text.clone());
    let mut late = report.ranks.late.iter().filter(|late| late.stage == *stage);
    let late = fact("late").and(late.find(|late| late.delays.is_some()));
    let why = late.and_then(LateRow::code_line);
    // Why it is late names what holds the GIL.
    let named = why.is_some();
    let in_short = |text: String| facts::without_holder(&text).filter(|_| named).unwrap_or(text);
    let known = [
        // Reports of older versions have it in full only.
        (
            FIRST_STEP,
            fact(facts::FIRST).filter(|text| !text.is_empty()).or_else(first).map(in_short),
        ),
        (LATE, fact("late").map(|fact| fact + &meanwhile(whole).unwrap_or_default())),
        (WHY_LATE, why),
        (HOST_CODE, host_fact(report, true).or_else(|| no_host_fact(report))),
        ("kernel", fact("kernel")),
        ("time", fact("time")),
        ("where", fact("where").filter(|_| !has_bar)),
    ];
    let known = known
        .into_iter()
        .filter_map(|(label, text)| Some(AnswerLine { label: label.to_owned(), text: text? }));
    let others = whole.iter().filter(|line| facts::is_other(line) && line.label != "ranks");
    let coverage = AnswerLine { label: COVERAGE.to_owned(), text: fact(COVERAGE)? };
    let lines = known.chain(others.cloned()).chain([coverage]).collect();
    Some((fact(VERDICT)?, lines))
}

/// `; meanwhile, rank 1 waits 1.71 ms per step (0.86 ms averaged over 2 ranks)`, of the line in full: how the delay and the
/// waiting in the bar belong together.
fn meanwhile(whole: &[AnswerLine]) -> Option<String> {
    let line = whole.iter().find(|line| line.label == LATE)?;
    let (_, waits) = line.text.split_once(MEANWHILE)?;
    Some(format!("{MEANWHILE}{}", waits.split(". ").next()?.trim_end_matches('.')))
}

/// Leads to the host code of the late steps.
fn late_link(report: &Report) -> Option<String> {
    let mut stages = report.answer.stages.iter().take(STAGES).zip(1..);
    let is_compared = |stage: &str| {
        report.ranks.late.iter().any(|late| late.stage == stage && late.host.is_some())
    };
    let (_, number) = stages.find(|(answer, _)| is_compared(&answer.stage))?;
    Some(format!(" <a href=\"#stage-{number}-late\">Host code of the late steps</a>"))
}

/// Identifier of the section of the stage of the verdict.
fn lead_section(report: &Report) -> Option<String> {
    let lead = &verdict_stage(report)?.stage;
    let place = report.answer.stages.iter().position(|answer| answer.stage == *lead)?;
    Some(format!("stage-{}", place + 1))
}

/// Labels of lines.
const FIRST_STEP: &str = "first";
const LATE: &str = "late rank";
const MEANWHILE: &str = "; meanwhile, ";
const WHY_LATE: &str = "why late";
const HOST_CODE: &str = "host code";

/// The section that explains a line.
fn explained_at(label: &str) -> Option<&'static str> {
    Some(match label {
        LATE | "ranks" => "by-rank",
        WARNINGS => "findings",
        FIRST_STEP => "recommendations",
        "kernel" => "top-kernels",
        "time" => TIMES_AT,
        "window" | "host" | "outliers" => "stage-1",
        "floor" => MFU_SECTION,
        "regions" => "regions-under-ncu",
        COVERAGE => "coverage",
        _ => return None,
    })
}

/// `has_bar`: how busy the GPU is, the bar of the mean step shows.
fn first_numbers(report: &Report, parts: &[Part], has_bar: bool) -> String {
    let mut shown: Vec<Card<'_>> = Vec::new();
    if report.coverage.gpu_records() > 0 && !has_bar {
        let kernels = count(stage2_report::in_part::kernels(report));
        shown.push(card("kernels", kernels, "all-kernels"));
    }
    let sum = |ns: fn(&DeviceRow) -> Option<u64>| {
        let mut devices = report.devices.iter().map(ns);
        devices.try_fold(0u64, |sum, ns| Some(sum.saturating_add(ns?))).unwrap_or(0)
    };
    let (busy_ns, span_ns) = (sum(|d| d.gpu_busy_ns), sum(|d| d.gpu_span_ns));
    if span_ns > 0 && !has_bar && !report.devices.iter().any(|device| device.shared_by_processes) {
        let percent = percent1(busy_ns as f64 * 100.0 / span_ns as f64);
        let in_stages = busy_in_stages(report).map(|busy| {
            let label = format!("GPU busy in the stages ({percent} % with start-up)");
            card(label, format!("{} %", percent1(busy)), "gpus")
        });
        // Of a run with stages, the time before them says nothing of them.
        let in_all = || {
            let said = card("GPU busy, start-up included", format!("{percent} %"), "gpus");
            report.answer.stages.is_empty().then_some(said)
        };
        shown.extend(in_stages.or_else(in_all));
    }
    if let Some(used) = &report.insight.utilisation {
        let model = &used.numbers.model;
        let rate = model.generated_tokens_per_s.value();
        shown.extend(rate.map(|rate| {
            card("generated tokens/s, with the time of prefill", shown_rate(rate), MFU_SECTION)
        }));
        let mfu = model.mfu_wall.value().map(|mfu| format!("{:.3} %", mfu * 100.0));
        shown.extend(mfu.map(|mfu| card("MFU of the model", mfu, MFU_SECTION)));
    }
    let is_there = |to: &str| parts.iter().any(|part| part.id == to);
    shown.iter_mut().for_each(|card| card.to = card.to.take().filter(|to| is_there(to)));
    cards(&shown)
}

/// A number with its label, which leads to what explains it.
pub(super) struct Card<'l> {
    pub(super) label: Cow<'l, str>,
    pub(super) value: String,
    /// Identifier of an element of the page.
    pub(super) to: Option<String>,
}

pub(super) fn card<'l>(label: impl Into<Cow<'l, str>>, value: String, to: &str) -> Card<'l> {
    Card { label: label.into(), value, to: Some(to.to_owned()) }
}

/// Nothing where there are none.
pub(super) fn cards(shown: &[Card<'_>]) -> String {
    let html = |Card { label, value, to }: &Card<'_>| {
        let inner = format!("<b>{}</b><span>{}</span>", text(value), text(label));
        match to {
            Some(to) => format!("<a href=\"#{to}\">{inner}</a>\n"),
            None => format!("<div>{inner}</div>\n"),
        }
    };
    let cards: String = shown.iter().map(html).collect();
    if cards.is_empty() { cards } else { format!("<div class=\"cards\">\n{cards}</div>\n") }
}
