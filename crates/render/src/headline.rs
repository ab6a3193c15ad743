//! A report -> what a terminal shows at the end of a run: the answer, and for the curious what it is based on.

use std::path::Path;

use super::page::{
    COVERAGE, VERDICT, answer_lines, gain_by_floor, idle_of, idle_percent, top_kernel,
    verdict_stage,
};
use super::ranks;
use stage2_contract::text::numbers::{
    count, counted, grouped, or_absent, percent1, shown_rate, shown_time, time_scale, us3,
};
use stage2_contract::text::{shorten, shorten_kernel, visible_path};
use stage2_model::kernels::stage_kernels;
use stage2_model::{
    AnswerLine, Bottleneck, BottleneckKind, BottleneckPart, LateCause, LateRow, LateSteps, RUN_DIR,
    Report, Role, StageAnswer, StageRow, Status, StepTimes,
};

// How many of a kind are shown.
const STAGES: usize = 4;
const STEPS: usize = 3;
const KERNELS: usize = 3;
const LATE_RANKS: usize = 2;
const NAME_CHARS: usize = 60;
// Of a fact: of names, and of the parts of a step.
const STAGE_CHARS: usize = 40;
const KERNEL_CHARS: usize = 44;
const PARTS: usize = 3;
const PART_PERCENT: f64 = 5.0;
/// Label of what to do first.
const FIRST: &str = "FIRST";
/// Four lines of a terminal with 80 columns, behind their label.
const BRIEF_CHARS: usize = 330;

/// The end of a run in short, without line ends and without anything that acts on a terminal.
#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// What the pages state first; of a run without GPU work the reason and what to do.
    pub answer: Vec<AnswerLine>,
    /// Ranks, stages, steps and kernels.
    pub evidence: Vec<String>,
}

impl Headline {
    /// All of it, a line each.
    pub fn lines(&self) -> Vec<String> {
        let answer =
            self.answer.iter().map(|AnswerLine { label, text }| format!("{label}: {text}"));
        self.evidence.iter().cloned().chain(answer).collect()
    }
}

/// What a terminal shows of the report of the bundle `folder`: a fact in each line where there is a verdict, and all
/// lines of the pages as evidence; else these lines as far as they fit on a small screen.
pub fn headline(report: &Report, folder: &Path) -> Headline {
    let mut evidence = evidence(report);
    let all = answer(report, folder);
    let has_verdict = all.iter().any(|line| line.label == VERDICT);
    let facts = has_verdict.then(|| facts(report)).flatten();
    let is_complete = report.coverage.verdict.status == Status::Complete;
    let shown = |line: &AnswerLine| match &*line.label {
        // Behind it are the counts.
        COVERAGE if is_complete => {
            line.text.split([',', '(']).next().unwrap_or_default().trim_end().to_owned()
        }
        "host" | "late rank" | "outliers" | "kernel" => brief(&line.text),
        _ => line.text.clone(),
    };
    let answer = match facts {
        Some(mut facts) => {
            let coverage = all.iter().filter(|line| line.label == COVERAGE);
            facts.extend(coverage.map(|line| AnswerLine { text: shown(line), ..line.clone() }));
            facts
        }
        None => all.iter().map(|line| AnswerLine { text: shown(line), ..line.clone() }).collect(),
    };
    let is_whole = |line: &&AnswerLine| answer.contains(line);
    let rest = all.iter().filter(|line| !is_whole(line));
    evidence.extend(rest.map(|line| format!("{}: {}", line.label, line.text)));
    Headline { answer, evidence }
}

/// What the verdict is about, a fact in each line: what bounds a step, times, parts, the largest cause of idle time or
/// the late rank, the kernel, what to do. `None` where no step or what bounds it is known.
fn facts(report: &Report) -> Option<Vec<AnswerLine>> {
    let answer = verdict_stage(report)?;
    let (step, found) = (answer.step.as_ref()?, answer.bottleneck.as_ref()?);
    let bound = found.first()?;
    let (stage, unit) = (shorten(&answer.stage, STAGE_CHARS), step.shown_unit());
    let first = report.answer.first.as_ref().map(|first| match &first.stage {
        Some(other) if *other != answer.stage => {
            format!("in {}: {}", shorten(other, STAGE_CHARS), first.in_short)
        }
        _ => first.in_short.clone(),
    });
    let (scale, scaled, decimals) = time_scale(found.ns as f64);
    let number = |ns: f64| grouped(&format!("{:.decimals$}", ns / scale));
    let floor = answer.floor.distance.value().map(|times| format!("; {times:.1}x its floor"));
    let bound = format!(
        "{}{stage} is bound by {}: {} of {} {scaled} per {}{}",
        report.answer.lead,
        bound.kind.label(),
        number(bound.ns as f64),
        number(found.ns as f64),
        found.of,
        floor.unwrap_or_default()
    );
    let kernel = top_kernel(report, |of, loss, lost, _| {
        let row = loss.kernel.row;
        let unit = of.step.as_ref().map_or(unit, StepTimes::shown_unit);
        let place = match of.stage == answer.stage {
            true => String::new(),
            false => format!(" of {}", shorten(&of.stage, STAGE_CHARS)),
        };
        let name = shorten_kernel(&row.kernel, KERNEL_CHARS);
        let name = format!("{name} ({}{place})", row.class);
        match (lost, gain_by_floor(report, of, unit)) {
            (Some(lost), _) => format!("{name} loses {lost} per {unit}"),
            (None, Some(bound)) => format!("{bound}; longest: {name}"),
            (None, None) => {
                format!("{name}: {} per {unit}", or_absent(loss.ns_of_step, shown_time))
            }
        }
    });
    let idle = idle_of(report, answer);
    let host = idle.and_then(|idle| {
        let (cause, ns) = idle.causes.first().copied()?;
        let time = shown_time(ns);
        Some(format!("{}: {time} of idle GPU per {}", cause.text(true), found.of))
    });
    let late = report.ranks.late.iter().filter(|late| late.stage == answer.stage);
    let late = late.into_iter().find_map(late_fact);
    let host = if late.is_some() { None } else { host };
    let lines = [
        (VERDICT, Some(bound)),
        ("time", Some(times(report, answer, step))),
        ("where", Some(parts(found))),
        ("host", host),
        ("late", late),
        ("kernel", kernel),
        (FIRST, first),
    ];
    let line = |(label, text): (&str, Option<String>)| {
        Some(AnswerLine { label: label.into(), text: text? })
    };
    Some(lines.into_iter().filter_map(line).collect())
}

/// `p50 4.62 ms per step, p99 11.09, 3,432 tokens/s; prefill 21.62 ms`: of the stage and of the other one of the
/// model.
fn times(report: &Report, answer: &StageAnswer, step: &StepTimes) -> String {
    let p50 = step.shown_ns(step.p50_ns);
    let (scale, _, decimals) = time_scale(p50);
    let number = |ns: f64| grouped(&format!("{:.decimals$}", ns / scale));
    let tail = step.tail().map(|(of, ns)| format!(", {of} {}", number(step.shown_ns(ns))));
    let counted = answer.tokens_counted.noun();
    let rate = answer.tokens_per_s.value();
    let rate = rate.map(|rate| format!(", {} {counted}/s", shown_rate(rate)));
    let of_model = |other: &&StageAnswer| {
        other.stage != answer.stage && matches!(other.role, Role::Prefill | Role::Decode)
    };
    let other = report.answer.stages.iter().find(of_model).and_then(|other| {
        let step = other.step.as_ref()?;
        let time = shown_time(step.shown_ns(step.p50_ns));
        Some(format!("; {} {time}", shorten(&other.stage, STAGE_CHARS)))
    });
    let texts = [tail, rate, other].map(Option::unwrap_or_default).concat();
    format!("p50 {} per {}{texts}", shown_time(p50), step.shown_unit())
}

/// `host wait 3.10 ms (67 %), kernels 1.38 (30 %), other 0.16 (3 %)`: the parts of the mean step.
fn parts(found: &Bottleneck) -> String {
    let (scale, unit, decimals) = time_scale(found.ns as f64);
    let is_named = |(at, part): &(usize, &BottleneckPart)| {
        *at < PARTS && (*at == 0 || found.percent(part) >= PART_PERCENT)
    };
    let named = found.parts.iter().enumerate().filter(is_named);
    let mut shown: Vec<(&str, u64)> =
        named.map(|(_, part)| (part_label(part.kind), part.ns)).collect();
    let other_ns = shown.iter().fold(found.ns, |rest, (_, ns)| rest.saturating_sub(*ns));
    shown.push(("other", other_ns));
    let percent = |ns: u64| ns as f64 * 100.0 / found.ns.max(1) as f64;
    let texts = shown.iter().zip(0..).filter(|((_, ns), _)| percent(*ns) >= 0.5);
    let text = |(&(label, ns), at): (&(&str, u64), usize)| {
        let unit = if at == 0 { format!(" {unit}") } else { String::new() };
        let time = grouped(&format!("{:.decimals$}{unit}", ns as f64 / scale));
        format!("{label} {time} ({:.0} %)", percent(ns))
    };
    texts.map(text).collect::<Vec<_>>().join(", ")
}

/// Few words for a part of a step.
fn part_label(kind: BottleneckKind) -> &'static str {
    match kind {
        BottleneckKind::Host => "host wait",
        BottleneckKind::Launches => "idle between kernels",
        BottleneckKind::Ranks => "rank wait",
        BottleneckKind::OtherWork => "other stages",
        BottleneckKind::Communication | BottleneckKind::Copies => kind.label(),
        BottleneckKind::Memory | BottleneckKind::Compute | BottleneckKind::Kernels => "kernels",
    }
}

/// `rank 0 in 190 of 191 steps, by 1.60 ms (median), on the host`; nothing where that is noise.
fn late_fact(late: &LateRow) -> Option<String> {
    let delays = late.delays.as_ref()?;
    let who = shorten(&late.who, STAGE_CHARS);
    let on = match delays.cause() {
        LateCause::Host => "on the host",
        LateCause::Gpu => "on the GPU",
        LateCause::Both => "on host and GPU",
    };
    let often = match &delays.steps {
        Some(LateSteps { noun, late, of, median_ns, .. }) => {
            let by = shown_time(*median_ns as f64);
            format!("in {} of {}, by {by} (median)", count(*late), counted(*of, noun))
        }
        None => {
            let [late, all] = [delays.collectives, late.collectives].map(count);
            format!("at {late} of {all} collectives, by {}", shown_time(delays.mean_ns as f64))
        }
    };
    Some(format!("{who} {often}, {on}"))
}

/// A text up to the end of a clause, if it is long. Whole clauses are a sentence; what ends within one is marked as cut.
fn brief(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(BRIEF_CHARS) else { return text.to_owned() };
    let fits = text.get(..end).unwrap_or(text);
    if let Some(at) = fits.rfind("; ").filter(|at| at * 2 >= end) {
        return fits.get(..at).unwrap_or(fits).to_owned();
    }
    let at = [", ", ": "].iter().filter_map(|clause| fits.rfind(clause)).max();
    format!("{} ...", fits.get(..at.unwrap_or(end)).unwrap_or(fits).trim_end())
}

fn answer(report: &Report, folder: &Path) -> Vec<AnswerLine> {
    let mut lines = answer_lines(report);
    if let Some(empty) = &report.coverage.empty {
        lines.retain(|line| line.label == COVERAGE);
        lines.push(AnswerLine { label: "to do".to_owned(), text: empty.first.remedy.clone() });
    }
    // A command that works as it stands: the folder is known here.
    let shown = visible_path(folder).to_string();
    let folder = shlex::try_quote(&shown).ok();
    for line in lines.iter_mut().filter(|line| line.label == "floor") {
        line.text = line.text.replace(RUN_DIR, folder.as_deref().unwrap_or(RUN_DIR));
    }
    lines
}

fn evidence(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let stages = || report.stages.iter().filter(|row| row.apart.is_none());
    if ranks::is_job(report) {
        lines.push(format!("ranks: {}", ranks::seen(report)));
    }
    let late = report.ranks.late.iter();
    let late = late.filter_map(|row| {
        Some(format!("{}: {}", shorten(&row.stage, NAME_CHARS), row.sentence()?))
    });
    lines.extend(late.take(LATE_RANKS));
    // Counts of a sample are scaled to all instances; busy time is that of the recorded ones.
    let of = if report.is_sampled() { " in the sample" } else { "" };
    lines.extend(stages().take(STAGES).map(|row| stage(report, row, of)));
    if let Some(more) = stages().count().checked_sub(STAGES).filter(|&more| more > 0) {
        lines.push(format!("and {} more stages", count(more as u64)));
    }
    lines.extend(super::steps::sentences(report, STEPS));
    // As the pages rank them, each in its stage.
    let top = stage_kernels(report);
    lines.extend(top.iter().take(KERNELS).enumerate().map(|(i, kernel)| {
        format!(
            "top {}: {} % of the kernel time of {}, {} calls, mean {} us: {}",
            i + 1,
            or_absent(kernel.percent, percent1),
            shorten(&kernel.row.stage, NAME_CHARS),
            count(kernel.calls),
            or_absent(kernel.mean_ns, us3),
            shorten_kernel(&kernel.row.kernel, NAME_CHARS),
        )
    }));
    lines
}

fn stage(report: &Report, row: &StageRow, of: &str) -> String {
    let name = shorten(&row.stage, NAME_CHARS);
    if let Some(unplaced) = report.unplaced.filter(|_| row.kernels.is_none()) {
        return format!("{name}: GPU work not known ({})", unplaced.label());
    }
    if row.has_no_gpu_work() {
        return format!("{name}: no GPU work launched by the stage itself");
    }
    // Of a sample it is said behind.
    let kernels = |kernels| match row.instances.filter(|_| of.is_empty()) {
        Some(all) => {
            format!("{name}, all of {}: {} kernels", counted(all, "call"), count(kernels))
        }
        None => format!("{name}: {} kernels", count(kernels)),
    };
    match (row.kernels, row.gpu_busy_ns, row.kernel_sum_ns) {
        (Some(all), Some(busy_ns), _) => {
            let idle = idle_percent(row).map(percent1);
            let which = if row.warm.is_some() { "warm ones idle" } else { "idle" };
            let idle = idle.map_or_else(String::new, |idle| format!("; {which} {idle} %"));
            format!("{}, GPU busy {}{of}{idle}", kernels(all), shown_time(busy_ns as f64))
        }
        (Some(all), None, Some(ns)) => {
            format!("{}, {} in sum", kernels(all), shown_time(ns as f64))
        }
        (Some(all @ 1..), None, None) => format!("{}, none of them timed", kernels(all)),
        _ => format!("{name}: GPU work was not recorded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{answer as answer_of_pages, host, rich};
    use stage2_model::{Answer, Empty, EmptyCause, EmptyReason, FirstStep, LateDelays};

    fn labels(headline: &Headline) -> Vec<&str> {
        headline.answer.iter().map(|line| &*line.label).collect()
    }

    #[test]
    fn the_answer_is_that_of_the_pages_and_the_evidence_is_apart() {
        let report = Report { answer: answer_of_pages(), ..rich() };
        let lines = headline(&report, Path::new("run"));
        assert_eq!(labels(&lines), ["time", "window", "floor", "first", "coverage"]);
        assert!(lines.evidence[0].starts_with("stage0: "), "{lines:#?}");
    }

    #[test]
    fn a_terminal_shows_a_fact_in_each_line() {
        let line = |label: &str, text: &str| AnswerLine { label: label.into(), text: text.into() };
        let verdict = "simulated GPU: decode takes 2.15 ms per token (p50; p99 2.31). Of the mean token of 2.15 ms, the \
                       GPU idles. First, use CUDA graphs (saves up to 1.70 ms per token).";
        let lines = vec![
            line("verdict", verdict),
            line(
                "host",
                &format!("decode waits 1.83 ms: {}", "26 % of it in run_fullgraph, ".repeat(11)),
            ),
            line("first", "decode up to 2.4x faster"),
            line(
                COVERAGE,
                "complete: no record is known to be lost, and so on (9 GPU records in ranges)",
            ),
        ];
        let in_short = "use CUDA graphs (saves up to 1.70 ms per token)".to_owned();
        let first = Some(FirstStep { in_short, ..FirstStep::default() });
        let lead = "simulated GPU: ".to_owned();
        let answer = Answer { lead, lines, first, ..answer_of_pages() };
        let mut report = Report { answer, host: Some(host()), ..rich() };
        report.coverage.verdict.status = Status::Complete;
        let short = headline(&report, Path::new("run"));
        let expected = [
            "verdict: simulated GPU: decode is bound by launches: 1.70 of 2.15 ms per token; 5.1x its floor",
            "time: p50 2.15 ms per token, longest 2.31, 465.0 tokens/s",
            "where: idle between kernels 1.70 ms (79 %), kernels 0.45 (21 %)",
            "host: Scheduler.schedule (scheduler.py:212 and 2 more lines): 1.11 ms of idle GPU per token",
            "FIRST: use CUDA graphs (saves up to 1.70 ms per token)",
            "coverage: complete: no record is known to be lost",
        ];
        assert_eq!(short.lines()[short.evidence.len()..], expected);
        for whole in [format!("verdict: {verdict}"), "first: decode up to 2.4x faster".to_owned()] {
            assert!(short.evidence.contains(&whole), "{:#?}", short.evidence);
        }
        // A late rank is why the GPU waits; a stage of its own comes after the one that is told of.
        let steps = LateSteps {
            noun: "step".into(),
            late: 9,
            of: 64,
            median_ns: 1_600_000,
            ..LateSteps::default()
        };
        let delays = LateDelays { total_ns: 9, steps: Some(steps), ..LateDelays::default() };
        let (who, stage) = ("rank 0".into(), "decode".into());
        report.ranks.late =
            vec![LateRow { who, stage, delays: Some(delays), ..LateRow::default() }];
        let mut prefill = report.answer.stages[0].clone();
        (prefill.stage, prefill.role) = ("prefill".into(), Role::Prefill);
        report.answer.stages.push(prefill);
        report.answer.first.as_mut().unwrap().stage = Some("prefill".into());
        let short = headline(&report, Path::new("run")).answer;
        let text =
            |label: &str| short.iter().find(|line| line.label == label).map(|line| &*line.text);
        assert_eq!(text("late"), Some("rank 0 in 9 of 64 steps, by 1.60 ms (median), on the host"));
        assert_eq!(text("host"), None);
        assert!(text("time").is_some_and(|time| time.ends_with("; prefill 2.15 ms")));
        assert!(
            text("FIRST").is_some_and(|first| first.starts_with("in prefill: use CUDA graphs ("))
        );
        // Without a verdict, the lines of the pages are there.
        report.answer.lines.remove(0);
        let short = headline(&report, Path::new("run"));
        assert_eq!(labels(&short), ["host", "first", COVERAGE]);
        let host = &short.answer[0].text;
        assert!(
            host.ends_with("in run_fullgraph ...") && host.chars().count() <= BRIEF_CHARS + 4,
            "{host}"
        );
        let late =
            format!("rank 0 is late, {}; and {}", "by 2.2 ms, ".repeat(20), "so on".repeat(20));
        assert!(
            brief(&late).ends_with("by 2.2 ms, "),
            "a whole clause needs no dots: {}",
            brief(&late)
        );
    }

    #[test]
    fn a_run_without_gpu_work_has_its_reason_and_what_to_do() {
        let mut report = Report { answer: answer_of_pages(), ..rich() };
        report.coverage.verdict.text = "EMPTY: no GPU work was recorded".into();
        report.answer.lines.pop();
        let reason = EmptyReason {
            cause: EmptyCause::NoGpu,
            why: "there is no GPU".into(),
            remedy: "run it where one is".into(),
        };
        report.coverage.empty = Empty::of(vec![reason]);
        let lines = headline(&report, Path::new("run"));
        assert_eq!(labels(&lines), ["coverage", "to do"]);
        assert_eq!(lines.answer[0].text, "EMPTY: no GPU work was recorded", "it is never left out");
        assert_eq!(lines.answer[1].text, "run it where one is");
    }

    #[test]
    fn a_stage_without_gpu_work_of_its_own_is_not_called_idle() {
        let none = StageRow {
            stage: "request".into(),
            kernels: Some(0),
            gpu_busy_ns: Some(0),
            ..StageRow::default()
        };
        let row =
            StageRow { copies: Some(0), fills: Some(0), gpu_window_ns: Some(5_000_000), ..none };
        let report = Report::default();
        assert_eq!(
            stage(&report, &row, " in the sample"),
            "request: no GPU work launched by the stage itself"
        );
        let copies = StageRow { copies: Some(1), ..row };
        assert!(stage(&report, &copies, "").starts_with("request: 0 kernels, GPU busy 0.0 us"));
    }
}
