//! What is stated in several places is the same in all of them: metrics.json, the pages and the console.

use std::fs;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;
use stage2_diff::{Run, compare};
use stage2_model::{
    Evidence, EvidenceValue, Experiment, FirstStep, HostCauseKind, Report, StageAnswer, WindowKind,
};

use crate::common::trace::RunFolder;
use crate::common::{copy_folder, dom, repository};
use crate::report::{deep, fixture};

/// A bundle, and every text that states its numbers.
struct Told {
    name: String,
    metrics: Value,
    report: Report,
    /// The places, with their texts.
    texts: Vec<(&'static str, String)>,
}

impl Told {
    fn of(name: &str, folder: &RunFolder) -> Self {
        let outcome = folder.reports();
        let html = dom::parse(&folder.text("report.html")).text();
        let texts = vec![
            ("console", outcome.headline.lines().join("\n")),
            ("report.md", folder.plain("report.md")),
            ("stakeholder_summary.md", folder.plain("stakeholder_summary.md")),
            ("report.html", html),
        ];
        let report = serde_json::from_str(&folder.text("metrics.json")).expect("a report");
        Self { name: name.to_owned(), metrics: folder.metrics(), report, texts }
    }

    /// What a pattern finds in every text: the place, the groups, and the text from the first group on.
    fn found(&self, pattern: &str) -> Vec<(String, Vec<String>, &str)> {
        let pattern = Regex::new(pattern).expect(pattern);
        let mut all = Vec::new();
        for (place, text) in &self.texts {
            for found in pattern.captures_iter(text) {
                let groups: Vec<String> =
                    found.iter().skip(1).flatten().map(|part| part.as_str().to_owned()).collect();
                let rest = &text[found.get(1).expect("a group").start()..];
                all.push((format!("{}, {place}", self.name), groups, rest));
            }
        }
        all
    }
}

/// The samples with trace files, and the runs of the golden files, with reports written now.
fn bundles() -> &'static [Told] {
    static ALL: OnceLock<Vec<Told>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut all = vec![
            Told::of("golden", &fixture::reported()),
            Told::of("deep", &deep::deep()),
            Told::of("empty", &RunFolder::new()),
        ];
        for sample in fs::read_dir(repository("docs/sample")).expect("samples") {
            let sample = sample.expect("a sample").path();
            if sample.join("collector").is_dir() {
                let folder = RunFolder::new();
                copy_folder(&sample.join("."), &folder.path(""));
                let name = sample.file_name().expect("a name").to_string_lossy().into_owned();
                all.push(Told::of(&name, &folder));
            }
        }
        assert!(all.len() > 5, "the samples are among them");
        all
    })
}

/// A text without what Markdown needs around hostile names.
fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    text.replace(['\\', '`'], "")
}

/// A number as pages write it.
fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

#[track_caller]
fn close(shown: f64, value: f64, within: f64, what: &str) {
    assert!((shown - value).abs() <= within, "{what}: {shown} is shown, and it is {value}");
}

#[test]
fn advice_rests_on_evidence_that_is_in_metrics_json() {
    let mut seen = 0;
    for told in bundles() {
        let mut ids: Vec<&str> = Vec::new();
        for takeaway in &told.report.insight.takeaways {
            let what = format!("{}: {}", told.name, takeaway.id);
            assert!(!ids.contains(&takeaway.id.as_str()), "{what} twice");
            ids.push(&takeaway.id);
            assert!(!takeaway.evidence.is_empty(), "{what} has no evidence");
            assert!(takeaway.experiment.is_some(), "{what} has no experiment");
            for evidence in &takeaway.evidence {
                resolves(&told.metrics, evidence, &what);
                seen += 1;
            }
            quotes(&takeaway.evidence[0], &takeaway.text, &what);
        }
        let first = told.report.answer.first.as_ref().and_then(|step| step.takeaway.as_deref());
        assert!(first.is_none_or(|id| ids.contains(&id)), "{}: {first:?}", told.name);
    }
    assert!(seen > 100, "{seen} numbers only");
}

/// The pointer leads to the value that is stated.
fn resolves(metrics: &Value, evidence: &Evidence, what: &str) {
    let source = &evidence.source;
    let value = metrics.pointer(source).unwrap_or_else(|| panic!("{what}: no {source}"));
    match &evidence.value {
        EvidenceValue::Number(stated) => {
            let value = value.as_f64().unwrap_or_else(|| panic!("{what}: {source} is {value}"));
            close(*stated, value, value.abs() * 1e-12, &format!("{what}: {source}"));
            assert!(evidence.unit.is_some(), "{what}: {source} has no unit");
            let is_share = evidence.unit.as_deref() == Some("percent");
            assert_eq!(evidence.basis.is_some(), is_share, "{what}: {source}");
        }
        EvidenceValue::Flag(stated) => assert_eq!(value, stated, "{what}: {source}"),
        EvidenceValue::State(stated) => assert_eq!(value, stated, "{what}: {source}"),
    }
}

/// The sentence quotes the number that decides.
fn quotes(evidence: &Evidence, text: &str, what: &str) {
    // The GPU is busy for the rest of the window, and what launches nothing is not said to be idle.
    let is_rest = what.contains("gpu_busy") || text.contains("no GPU work launched by the stage");
    let Some(value) = evidence.as_number().filter(|_| evidence.threshold.is_some() && !is_rest)
    else {
        return;
    };
    let shown = format!("{value:.1} ");
    assert!(text.contains(&shown), "{what}: {shown} is not in {text}");
}

const WHY_LATE: &str = "- **Why late:** ";

#[test]
fn every_place_has_the_lines_of_the_answer() {
    assert!(bundles().iter().any(|told| !told.report.answer.short.is_empty()));
    for told in bundles() {
        // Hostile names are spelled as each format needs it, and the console names the folder of the run.
        let is_plain = |text: &str| !text.contains("=cmd") && !text.contains("RUN_DIR");
        let lines = told.report.answer.lines.iter().filter(|line| is_plain(&line.text));
        for line in lines {
            // Of a run without GPU work the console has the reason and the remedy only.
            let is_short = |place: &str, text: &str| {
                let is_in_short =
                    place == "stakeholder_summary.md" && text.contains("- **Verdict:**");
                is_in_short || (told.name == "empty" && place == "console")
            };
            for (place, text) in told.texts.iter().filter(|(place, text)| !is_short(place, text)) {
                let text = unescaped(text).replace('\u{a0}', " ");
                let said = text.contains(&unescaped(&line.text));
                assert!(said, "{}, {place}: {} {}", told.name, line.label, line.text);
            }
        }
        // The facts that the summary has in place of the lines are those of the console.
        let place = |name: &str| told.texts.iter().find(|(place, _)| *place == name);
        let [(_, summary), (_, console)] =
            ["stakeholder_summary.md", "console"].map(|name| place(name).expect("a text"));
        let words = |text: &str| unescaped(text).split_whitespace().collect::<Vec<_>>().join(" ");
        // Those of metrics.json, which the Python package shows, are in the order of the page.
        let short: Vec<String> = told
            .report
            .answer
            .short
            .iter()
            .map(|line| format!("- **{}:** {}", line.label, line.text))
            .collect();
        let head = summary.split("\n\n").find(|part| part.starts_with("- **Verdict:**"));
        // Why a rank is late, the page has as well, and the others in full.
        let (why, head): (Vec<&str>, Vec<&str>) = head
            .filter(|_| !short.is_empty())
            .into_iter()
            .flat_map(str::lines)
            .partition(|line| line.starts_with(WHY_LATE));
        let page = words(&place("report.html").expect("a page").1.replace('\u{a0}', " "));
        for line in why {
            assert!(page.contains(&words(&line[WHY_LATE.len()..])), "{}: {line}", told.name);
        }
        let head = words(&head.join("\n"));
        assert_eq!(words(&short.join("\n")).to_lowercase(), head.to_lowercase(), "{}", told.name);
        let console = words(console);
        for line in summary.lines().filter(|line| is_plain(line)) {
            let Some((label, fact)) =
                line.strip_prefix("- **").and_then(|of| of.split_once(":** "))
            else {
                continue;
            };
            // The console shows warnings when they come up.
            if label == "Warnings" || line.starts_with(WHY_LATE) {
                continue;
            }
            // Of a list at the end of the page, too, which the console leaves out.
            let is_of_head = summary.split("## ").next().is_some_and(|head| head.contains(line));
            let said = !is_of_head || told.name == "empty" || console.contains(&words(fact));
            assert!(said, "{}: {fact} is not in\n{console}", told.name);
        }
    }
}

#[test]
fn step_times_agree() {
    let mut seen = 0;
    for told in bundles() {
        for stage in &told.report.answer.stages {
            let Some(step) = &stage.step else { continue };
            assert!(step.p99_ns.zip(step.max_ns).is_none_or(|(p99, max)| p99 <= max), "{step:?}");
            let (name, p50_ms) = (regex::escape(&stage.stage), step.shown_ns(step.p50_ns) / 1e6);
            let shown = told
                .found(&format!("(?m)(?:^|[ ;:.]){name} ([0-9.,]+) ms per (?:step|token|call)"));
            for (place, groups, rest) in &shown {
                // The floor of a step stands in the same words.
                let floor = stage.floor.floor_ns.value().map(|ns| step.shown_ns(ns as u64) / 1e6);
                let value = number(&groups[0]);
                let is_floor = floor.is_some_and(|floor| (value - floor).abs() <= 0.0051);
                if !is_floor {
                    close(value, p50_ms, 0.0051, &format!("{place}: {}: {rest:.150}", stage.stage));
                    seen += 1;
                }
            }
            let engine = format!("(?m)^\\| `{name}` \\| [0-9,]+ \\| [0-9,]+ \\| ([0-9.,]+) \\|");
            for (place, groups, _) in told.found(&engine) {
                close(number(&groups[0]), p50_ms, 0.0051, &format!("{place}: {}", stage.stage));
                seen += 1;
            }
        }
        step_times_of_diff(told);
    }
    assert!(seen >= 20, "{seen} times only");
}

/// `diff` compares the times that the report states.
fn step_times_of_diff(told: &Told) {
    let run = Run { label: "run", report: &told.report, left_out: &[] };
    let Ok(compared) = compare(&[run], &[run], &[], false) else { return };
    for stage in &told.report.answer.stages {
        let of_stage = compared.stages.iter().find(|change| change.stage == stage.stage);
        let metric = of_stage.and_then(|change| change.metric("step_ms"));
        if let Some((step, before)) = stage.step.as_ref().zip(metric.and_then(|found| found.before))
        {
            let what = format!("{}: {}", told.name, stage.stage);
            close(before, step.p50_ns as f64 / 1e6, 1e-9, &what);
        }
    }
}

fn idle_percent(stage: &StageAnswer) -> Option<f64> {
    let is_idle = |kind| matches!(kind, WindowKind::LaunchGaps | WindowKind::OtherIdle);
    let parts = stage.window.as_ref()?.parts.iter().filter(|part| is_idle(part.kind));
    Some(parts.map(|part| part.percent).sum())
}

#[test]
fn idle_times_agree() {
    let mut seen = 0;
    for told in bundles() {
        for stage in &told.report.answer.stages {
            let Some(idle) = idle_percent(stage) else { continue };
            let what = format!("{}: {}", told.name, stage.stage);
            let numbers = told.report.insight.stage_numbers.iter();
            let of_rules = numbers.filter(|row| row.stage == stage.stage);
            for numbers in of_rules.filter_map(|row| row.idle_percent) {
                close(numbers, idle, 1e-6, &what);
            }
            let name = regex::escape(&stage.stage);
            for pattern in [
                format!("{name}: the GPU is idle ([0-9.]+) % of the window"),
                format!(
                    "{name} is bound by the host: the GPU waits [0-9.]+ of [0-9.]+ ms for it \\(([0-9.]+) %"
                ),
            ] {
                for (place, groups, _) in told.found(&pattern) {
                    close(number(&groups[0]), idle, 0.051, &format!("{place}: {}", stage.stage));
                    seen += 1;
                }
            }
            let both = format!("{name}: [^;\\n]*?launch gaps ([0-9.]+) %, other idle ([0-9.]+) %");
            for (place, groups, _) in told.found(&both) {
                let sum = number(&groups[0]) + number(&groups[1]);
                close(sum, idle, 0.11, &format!("{place}: {}", stage.stage));
                seen += 1;
            }
        }
    }
    assert!(seen >= 20, "{seen} shares only");
}

#[test]
fn late_ranks_agree() {
    let mut seen = 0;
    for told in bundles() {
        let late = &told.report.ranks.late;
        let sentences: Vec<String> = late.iter().filter_map(|late| late.delay_sentence()).collect();
        let pattern = r"((?:rank \d+|process \d+) is (?:late in|[\d.]+ \w+ late[^;\n]*? at) [\d,]+ of [\d,]+ \w+)";
        for (place, _, rest) in told.found(pattern) {
            let is_it = sentences.iter().any(|sentence| rest.starts_with(sentence.as_str()));
            assert!(is_it, "{place}: {:.200}\nis none of {sentences:#?}", rest);
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} sentences only");
}

#[test]
fn causes_on_the_host_agree() {
    let mut seen = 0;
    for told in bundles() {
        let stages = told.report.host.iter().flat_map(|host| &host.stages);
        for stage in stages.filter(|stage| !stage.causes.is_empty()) {
            let sum: f64 = stage.causes.iter().map(|cause| cause.percent).sum();
            close(sum, 100.0, 1e-6, &format!("{}: the causes of {}", told.name, stage.stage));
            for cause in stage.causes.iter().filter(|cause| cause.is_finding()) {
                let name = format!("`?{}`?", regex::escape(&cause.text(true)));
                for pattern in [
                    format!(
                        "{}: ([0-9.]+) ± ([0-9.]+) % of the idle time: {name} \\(of",
                        stage.stage
                    ),
                    format!(
                        "{} (?:waits|leaves)[^;\\n]*?([0-9.]+) ± ([0-9.]+) % {name}",
                        stage.stage
                    ),
                    format!("(?:the largest, ){name}, has ([0-9.]+)( )% of the idle time"),
                ] {
                    for (place, groups, _) in told.found(&pattern) {
                        let shown = &groups[0];
                        let half = if shown.contains('.') { 0.051 } else { 0.51 };
                        close(number(shown), cause.percent, half, &format!("{place}: {name}"));
                        seen += 1;
                    }
                }
            }
            let unknown = stage.causes.iter().find(|cause| cause.kind == HostCauseKind::Unknown);
            let unknown = unknown.map_or(0.0, |cause| cause.percent);
            let line = format!("{} (?:waits|leaves)[^;\\n]*?([0-9.]+) % not known", stage.stage);
            for (place, groups, _) in told.found(&line) {
                close(number(&groups[0]), unknown, 0.51, &format!("{place}: not known"));
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "{seen} causes only");
}

#[test]
fn gains_agree() {
    let mut seen = 0;
    for told in bundles() {
        let answer = &told.report.answer;
        let steps: Vec<&FirstStep> = answer
            .first
            .iter()
            .chain(answer.stages.iter().filter_map(|s| s.first.as_ref()))
            .collect();
        let gains: Vec<String> = steps.iter().filter_map(|step| step.gain()).collect();
        for (place, _, rest) in told.found("((?:up to|about) [0-9.]+x) faster if ") {
            let rest = rest.replace("&lt;", "<").replace("&gt;", ">").replace('`', "");
            let is_it = gains.iter().any(|gain| rest.starts_with(gain.as_str()));
            assert!(is_it, "{place}: {rest:.200}\nis none of {gains:#?}");
            seen += 1;
        }
        for step in steps {
            let of_step = |id: &String| {
                told.report.insight.takeaways.iter().find(|takeaway| takeaway.id == *id)
            };
            let takeaway = step.takeaway.as_ref().and_then(of_step);
            let expected = match takeaway.and_then(|takeaway| takeaway.experiment.as_ref()) {
                Some(Experiment::Change {
                    at_best_percent: Some(percent), grows: false, ..
                }) => *percent,
                _ => continue,
            };
            let factor = step.factor.expect("a factor");
            close(expected, (1.0 / factor - 1.0) * 100.0, 1e-6, &told.name);
        }
    }
    assert!(seen >= 12, "{seen} gains only");
}

#[test]
fn counts_of_records_agree() {
    let mut seen = 0;
    for told in bundles() {
        let total = &told.report.coverage.total;
        for (pattern, value) in [
            (r"([\d,]+) GPU records in ranges", total.attributed),
            (r"GPU records in a range(?: \| |\s+)([\d,]+)", total.attributed),
            (r"GPU records outside of ranges(?: \| |\s+)([\d,]+)", total.outside_ranges),
            (
                r"GPU records in ranges, ([\d,]+) outside of (?:the workload's )?ranges",
                total.outside_ranges,
            ),
        ] {
            for (place, groups, _) in told.found(pattern) {
                assert_eq!(number(&groups[0]), value as f64, "{place}: {pattern}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 20, "{seen} counts only");
}
