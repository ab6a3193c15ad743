//! The first screen of the page: what it is of, the answer in a few lines, and the numbers that are
//! asked for first.

use super::markdown::text;
use crate::page::SIMULATED;
use crate::ranks;
use stage2_contract::text::numbers::{count, ms3, percent1};
use stage2_model::{DeviceRow, Report, Severity, Status};

/// Label of the last line of the answer.
const COVERAGE: &str = "coverage";

/// Everything above the sections.
pub(super) fn header(report: &Report, title: &str) -> String {
    let mut out = format!("<header>\n<h1>{}</h1>\n", text(title));
    if report.simulated {
        out.push_str(&format!(
            "<p class=\"banner bad\"><strong>{}</strong></p>\n",
            text(SIMULATED)
        ));
    }
    if let Some(end) = &report.run.workload_end {
        let end = text(&end.sentence());
        out.push_str(&format!(
            "<p class=\"banner bad\"><strong>Ended early:</strong> {end}.</p>\n"
        ));
    }
    let kind = match report.coverage.verdict.status {
        Status::Complete => "good",
        Status::Partial => "fair",
        Status::Empty => "bad",
    };
    let line = |label: &str, said: &str| {
        let class = if label == COVERAGE { kind } else { "line" };
        let stop = if said.ends_with(['.', '!', '?']) { "" } else { "." };
        format!(
            "<div class=\"{class}\"><dt>{}</dt><dd>{}{stop}</dd></div>\n",
            text(label),
            text(said)
        )
    };
    let lines = &report.answer.lines;
    out.push_str("<dl class=\"answer\">\n");
    lines.iter().for_each(|known| out.push_str(&line(&known.label, &known.text)));
    if lines.iter().all(|line| line.label != COVERAGE) {
        out.push_str(&line(COVERAGE, &report.coverage.verdict.text));
    }
    if let Some(ranks) = ranks::head(report) {
        out.push_str(&line("ranks", &ranks));
    }
    out.push_str("</dl>\n");
    out + &cards(report) + "</header>\n"
}

/// The numbers that are asked for first.
fn cards(report: &Report) -> String {
    let mut cards: Vec<(&str, String)> = Vec::new();
    if report.coverage.gpu_records() > 0 {
        cards.push(("kernels", count(stage2_report::in_part::kernels(report))));
    }
    let sum = |ns: fn(&DeviceRow) -> Option<u64>| {
        let mut devices = report.devices.iter().map(ns);
        devices.try_fold(0u64, |sum, ns| Some(sum.saturating_add(ns?))).unwrap_or(0)
    };
    let (busy_ns, span_ns) = (sum(|d| d.gpu_busy_ns), sum(|d| d.gpu_span_ns));
    if span_ns > 0 {
        cards.push(("ms of GPU work", ms3(busy_ns)));
        if !report.devices.iter().any(|device| device.shared_by_processes) {
            let percent = busy_ns as f64 * 100.0 / span_ns as f64;
            cards.push(("% of its span busy", percent1(percent)));
        }
    }
    if let Some(used) = &report.insight.utilisation {
        let model = &used.numbers.model;
        let rate = model.generated_tokens_per_s.value();
        cards.extend(rate.map(|rate| ("generated tokens/s", format!("{rate:.1}"))));
        let mfu = model.mfu_wall.value();
        cards.extend(mfu.map(|mfu| ("% MFU, model-level", format!("{:.3}", mfu * 100.0))));
    }
    let warnings = report.findings.iter().filter(|f| f.severity == Severity::Warning).count();
    let label = if warnings == 1 { "warning" } else { "warnings" };
    cards.push((label, count(warnings as u64)));
    let card = |(label, value): (&str, String)| {
        format!("<div><b>{}</b><span>{}</span></div>\n", text(&value), text(label))
    };
    format!("<div class=\"cards\">\n{}</div>\n", cards.into_iter().map(card).collect::<String>())
}
