//! What the numbers say, what to do about it, and what they do not cover: whole for report.md, in brief
//! for the summary.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::table::{NAME_CHARS, ROWS, Table, more, more_in, none, paragraph, sentence, text};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::{count, counted, percent1, time_scale};
use stage2_contract::text::{code, cut, plain, shorten_kernel};
use stage2_model::kernels::{Kernel, Loss, stage_kernels, steps};
use stage2_model::rule::NEAR_ROOF_SHARE;
use stage2_model::{
    Answer, Experiment, Finding, FirstStep, Report, Rule, Severity, Takeaway, times_faster,
};
use stage2_report::roofline::takeaways;
use stage2_report::roofline::takeaways::Recommended;

const NO_TAKEAWAYS: &str = "nothing was computed from the numbers";
/// How the list is sorted: a gain alone does not say where it stands.
const ORDER: &str = "The largest saving over all calls comes first, then advice on an incomplete or simulated run, then \
                     the rest by the share of all time that it concerns, not by its gain.";
/// What adding up gains would get wrong.
const OVERLAP: &str = "Each gain assumes only that change. Gains overlap, so do not add them up.";
/// Heading of the rules, which the takeaways name.
pub(crate) const RULES: &str = "Rules of the takeaways";

// How many the summary shows of each.
const TAKEAWAYS: usize = 3;
const RECOMMENDATIONS: usize = 3;
const FINDINGS: usize = 4;
/// Items more than that which are not worth a reference.
const FEW: usize = 2;
const LINE_CHARS: usize = 130;

pub(crate) fn takeaways(report: &Report) -> String {
    let rows: Vec<_> = in_order(report).into_iter().enumerate().collect();
    Table::first(ROWS, &rows)
        .right("#", |(index, _)| (index + 1).to_string())
        .left("Takeaway", |(_, (takeaway, _))| sentence(&takeaway.text))
        .right("Other stages like it", |(_, (_, more))| (*more > 0).then(|| count(*more)))
        .left("Rule", |(_, (takeaway, _))| code(takeaway.rule.label()))
        .or_none(NO_TAKEAWAYS, "")
}

/// Takeaways as every page numbers them: caveats, what the answer puts first, then those with the largest gain in the run.
/// Of those that say the same of several stages, the first, and how many more there are.
fn in_order(report: &Report) -> Vec<(&Takeaway, u64)> {
    let mut all: Vec<&Takeaway> = report.insight.takeaways.iter().collect();
    let first = report.answer.first.as_ref().and_then(|first| first.takeaway.as_ref());
    let gain = |takeaway: &Takeaway| {
        let of_all =
            takeaway.concerns_percent? / takeaway.of_stage_percent.filter(|of| *of > 0.0)?;
        Some(saved_percent(takeaway)?.0 * of_all * 1e6)
    };
    all.order_by_key(|takeaway| {
        let gain = Reverse(gain(takeaway).map_or(0, |gain| gain as u64));
        (!takeaway.rule.is_caveat(), first != Some(&takeaway.id), gain)
    });
    let mut rows: Vec<(&Takeaway, u64)> = Vec::new();
    let mut places: BTreeMap<(Rule, &str), usize> = BTreeMap::new();
    for takeaway in all {
        let said = takeaway.stage.as_deref().and_then(|stage| takeaway.text.strip_prefix(stage));
        let place = said.map(|said| *places.entry((takeaway.rule, said)).or_insert(rows.len()));
        match place.and_then(|place| rows.get_mut(place)) {
            Some((_, more)) => *more += 1,
            None => rows.push((takeaway, 0)),
        }
    }
    rows
}

/// The first of [`in_order`], without their rules.
pub(crate) fn takeaways_in_brief(report: &Report) -> String {
    let all = in_order(report);
    if all.is_empty() {
        return none(NO_TAKEAWAYS, "");
    }
    let lines = all.iter().map(|(takeaway, more)| match more {
        0 => sentence(&takeaway.text),
        more => format!("{} Other stages like it: {}.", sentence(&takeaway.text), count(*more)),
    });
    numbered(lines, TAKEAWAYS, "takeaway")
}

/// What the rules are by which the takeaways speak; nothing without takeaways.
pub(crate) fn rules(report: &Report) -> String {
    let rules: BTreeSet<Rule> = report.insight.takeaways.iter().map(|said| said.rule).into_set();
    let item = |rule: Rule| format!("- {}: {}\n", code(rule.label()), sentence(&rule.text()));
    let items: String = rules.into_iter().map(item).collect();
    if items.is_empty() { items } else { items + "\n" }
}

/// A recommendation, in Markdown.
struct Advised {
    to_do: String,
    gain: Option<String>,
    why: String,
}

fn advised(report: &Report) -> Vec<Advised> {
    let advice = takeaways::recommendations(&report.insight.takeaways, &report.answer);
    let of = |advice: Recommended<'_>| {
        let Recommended { first, second, further, .. } = &advice;
        // Each whole: cut together, the end of the first would run into that of the second.
        let second = second.map_or_else(String::new, |second| format!(". {}", text(&second.text)));
        let more = match further {
            0 | 1 => String::new(),
            more => format!(" ({})", supports(more - 1)),
        };
        let gain = gain(report, &advice, FirstStep::gain).map(|gain| text(&gain));
        Advised {
            to_do: to_do(&advice),
            gain: gain.or_else(|| (!first.rule.is_caveat()).then(|| "not known".to_owned())),
            why: format!("{}{second}{more}", text(&first.text)),
        }
    };
    advice.into_iter().map(of).collect()
}

/// What the gains are not: a sum, where there are several, or those of a run as it usually is.
fn notes(report: &Report, order: &str) -> String {
    let advice = takeaways::recommendations(&report.insight.takeaways, &report.answer);
    let gains = advice.iter().filter_map(|advice| known_gain(report, advice, FirstStep::gain));
    let overlap = match (gains.count() > 1, order) {
        (false, _) => None,
        (true, "") => Some(OVERLAP.to_owned()),
        (true, order) => Some(format!("{order} {OVERLAP}")),
    };
    let marked = report.answer.lead.contains(Answer::MARKED);
    let marked = (marked && !advice.is_empty()).then(|| MARKED.to_owned());
    overlap.into_iter().chain(marked).collect::<Vec<_>>().join(" ")
}

/// Of a run whose operators were marked.
const MARKED: &str = "Marking every operator slows the host: record again without it to get the times and gains of a usual run.";

fn paragraph_or_nothing(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{text}\n\n") }
}

/// All of them as a table, for report.html.
pub(crate) fn recommendations(report: &Report) -> String {
    let rows: Vec<(usize, Advised)> = (1..).zip(advised(report)).collect();
    let table = Table::first(ROWS, &rows)
        .right("#", |(number, _)| number.to_string())
        .left("To do", |(_, advised)| advised.to_do.clone())
        .left("Gain", |(_, advised)| advised.gain.clone())
        .left("Why", |(_, advised)| advised.why.clone());
    match notes(report, "") {
        note if note.is_empty() => table.or_none(&no_advice(report), ""),
        note => table.with_note(&note),
    }
}

/// All of them as a list, whose sentences have the room that the cells of a table have not.
pub(crate) fn recommendations_listed(report: &Report) -> String {
    let all = advised(report);
    if all.is_empty() {
        return none(&no_advice(report), "");
    }
    let item = |(number, Advised { to_do, gain, why }): (usize, Advised)| {
        let gain = gain.map_or_else(String::new, |gain| format!("\n   - **Gain:** {gain}"));
        format!("{number}. {to_do}{gain}\n   - **Why:** {why}\n")
    };
    let list: String = (1..).zip(all).take(ROWS).map(item).collect();
    format!("{list}\n{}", paragraph_or_nothing(&notes(report, "")))
}

/// `1 more takeaway supports this`.
fn supports(more: usize) -> String {
    let verb = if more == 1 { "supports" } else { "support" };
    format!("{} {verb} this", counted(more as u64, "more takeaway"))
}

/// Why there is no recommendation: the reason of the answer, if it has one.
pub(crate) fn no_advice(report: &Report) -> String {
    let mut lines = report.answer.lines.iter();
    let first = lines.find(|line| line.label == "first").map(|line| line.text.as_str());
    match first.and_then(|text| text.strip_prefix("none, because ")) {
        Some(why) => why.to_owned(),
        None => "no takeaway suggests a change".to_owned(),
    }
}

/// The first ones with their gain, without the reasons.
pub(crate) fn recommendations_in_brief(report: &Report) -> String {
    let all = takeaways::recommendations(&report.insight.takeaways, &report.answer);
    if all.is_empty() {
        return none(&no_advice(report), "");
    }
    let lines = all.iter().map(|advice| {
        let gain = gain(report, advice, FirstStep::gain_in_brief);
        let gain = gain.map(|gain| format!(" Gain: {}.", text(&gain)));
        to_do(advice) + &gain.unwrap_or_default()
    });
    let list = numbered(lines, RECOMMENDATIONS, "recommendation");
    list + &paragraph_or_nothing(&notes(report, ORDER))
}

/// `In prefill, record for longer.`
fn to_do(advice: &Recommended<'_>) -> String {
    let told = sentence(advice.text);
    let Some(stage) = advice.first.stage.as_deref() else { return told };
    let mut letters = told.chars();
    // Not an abbreviation, or a name.
    let start = letters.next().filter(|_| letters.clone().next().is_some_and(|c| c.is_lowercase()));
    let told = match start {
        Some(start) => start.to_lowercase().chain(letters).collect(),
        None => told,
    };
    format!("In {}, {told}", text(stage))
}

/// What a recommendation is worth in its stage, at most; else the time that it is about.
fn gain(
    report: &Report,
    advice: &Recommended<'_>,
    told: impl Fn(&FirstStep) -> Option<String>,
) -> Option<String> {
    if let Some(gain) = known_gain(report, advice, told) {
        // It is less where operators are not marked.
        return Some(gain + advice.first.rule.less_unmarked(&report.answer.lead));
    }
    let percent = percent1(advice.concerns_percent?);
    let alone = advice.first.of_stage_percent.filter(|_| advice.further == 0);
    let of_step = alone.and_then(|concerned| of_mean_step(report, advice.first, concerned, None));
    let of_all = format!("{percent} % of the time of all stages");
    Some(match of_step {
        Some(time) => format!("not known; it affects {time} ({of_all})"),
        None => format!("not known; it affects {of_all}"),
    })
}

/// The factor where the answer has one, which `told` puts in words, else the time that vanishes at best.
fn known_gain(
    report: &Report,
    advice: &Recommended<'_>,
    told: impl Fn(&FirstStep) -> Option<String>,
) -> Option<String> {
    let of_stages = report.answer.stages.iter().filter_map(|stage| stage.first.as_ref());
    let mut steps = report.answer.first.iter().chain(of_stages);
    let step = steps.find(|step| {
        let is_of = step.takeaway.as_ref().is_none_or(|id| *id == advice.first.id);
        is_of && step.rule == advice.first.rule && step.stage == advice.first.stage
    });
    if let Some(gain) = step.and_then(told) {
        return Some(gain);
    }
    if let Some(Experiment::Change { at_best_percent: Some(percent), grows: true, .. }) =
        &advice.first.experiment
    {
        // Tokens per second are the only metric that advice makes grow.
        let factor = times_faster(1.0 + percent / 100.0);
        return Some(format!("up to {factor} the tokens/s if a larger step takes no longer"));
    }
    if let Some((saved, error)) = saved_percent(advice.first) {
        let of_step = of_mean_step(report, advice.first, saved, Some(error));
        let of_window = || {
            let error = error.map(|error| format!(" ± {}", percent1(error))).unwrap_or_default();
            format!("saves up to {}{error} % of its window", percent1(saved))
        };
        // It may be far longer than the kernels that the advice names.
        let with_gaps = match advice.first.rule {
            Rule::Fusible | Rule::Copies => " (these kernels and the launch gaps around them)",
            _ => "",
        };
        return Some(of_step.unwrap_or_else(of_window) + with_gaps);
    }
    (advice.further == 0).then(|| lost_of_kernel(report, advice.first)).flatten()
}

/// What the kernel of a takeaway would save at its roof, as the answer says that it loses it: `saves up to 0.08 of 6.29 ms per token if NAME
/// reaches its roof`. `None`: this is not known.
fn lost_of_kernel(report: &Report, takeaway: &Takeaway) -> Option<String> {
    let (stage, kernel) = (takeaway.stage.as_ref()?, takeaway.subject.as_ref()?);
    let answer = report.answer.stages.iter().find(|answer| answer.stage == *stage)?;
    let mean = answer.bottleneck.as_ref().filter(|mean| mean.is_of_step())?;
    let (kernels, steps) = (stage_kernels(report), steps(report));
    let is_it = |of: &&Kernel<'_>| of.row.stage == *stage && of.row.kernel == *kernel;
    let loss = Loss::of(kernels.iter().find(is_it)?, &steps);
    let lost_ns = loss
        .ns_per_step
        .filter(|_| loss.attainable.is_some_and(|share| share < NEAR_ROOF_SHARE))?;
    let percent = lost_ns * 100.0 / mean.ns as f64;
    let saved = of_mean_step(report, takeaway, percent, Some(None))?;
    Some(format!("{saved} if {} reaches its roof", shorten_kernel(kernel, NAME_CHARS)))
}

/// Part of the window of its stage that vanishes at best if the advice is followed, percent; the error of an estimate.
fn saved_percent(takeaway: &Takeaway) -> Option<(f64, Option<f64>)> {
    let Some(Experiment::Change { at_best_percent, error_percent, grows: false, .. }) =
        &takeaway.experiment
    else {
        return None;
    };
    Some((-(*at_best_percent)?, *error_percent)).filter(|(saved, _)| (0.0..=100.0).contains(saved))
}

/// So much of the mean step of the stage of a takeaway. `error`: it is a gain, with the error of an estimate.
fn of_mean_step(
    report: &Report,
    takeaway: &Takeaway,
    percent: f64,
    error: Option<Option<f64>>,
) -> Option<String> {
    let stage = takeaway.stage.as_ref()?;
    let answer = report.answer.stages.iter().find(|answer| answer.stage == *stage)?;
    let mean = answer.bottleneck.as_ref().filter(|mean| mean.is_of_step())?;
    let (scale, unit, decimals) = time_scale(mean.ns as f64);
    let all = mean.ns as f64 / scale;
    let part = all * percent / 100.0;
    let of_all = format!("of {all:.decimals$} {unit} per {}", mean.of);
    let Some(error) = error else {
        return Some(format!("{part:.decimals$} {of_all} of {stage}"));
    };
    let error = error.map(|error| format!(" ± {:.decimals$}", all * error / 100.0));
    let error = error.unwrap_or_default();
    Some(format!("saves up to {part:.decimals$}{error} {of_all}"))
}

/// The first `most` of them, and how many more report.md has; so few more that the sentence about them would be as long are
/// listed.
fn numbered(lines: impl Iterator<Item = String>, most: usize, noun: &str) -> String {
    let mut lines: Vec<String> =
        lines.enumerate().map(|(at, line)| format!("{}. {line}\n", at + 1)).collect();
    let left_out = lines.len().saturating_sub(most);
    let left_out = if left_out <= FEW { 0 } else { left_out };
    lines.truncate(lines.len() - left_out);
    lines.concat() + "\n" + &more_in("report.md", left_out, noun)
}

/// The findings, those first that matter most.
pub(crate) fn worst_first(report: &Report) -> Vec<&Finding> {
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    findings.order_by_key(|finding| Reverse(finding.severity));
    findings
}

/// What is missing or uncertain, at most so many.
pub(crate) fn findings(report: &Report, most: usize) -> String {
    if report.findings.is_empty() {
        return none("nothing is known to be missing or uncertain", "");
    }
    let items: String = worst_first(report).into_iter().take(most).map(Finding::item).collect();
    format!("{items}\n{}", more(report.findings.len(), most, "finding"))
}

/// The first errors and warnings in a line each, with what to do; notes are only counted.
pub(crate) fn findings_in_brief(report: &Report) -> String {
    if report.findings.is_empty() {
        return paragraph("Nothing is known to be missing or uncertain.");
    }
    let serious = worst_first(report);
    let serious = serious.into_iter().filter(|f| f.severity != Severity::Note).take(FINDINGS);
    let shown = serious.clone().count();
    let item = |finding: &Finding| {
        if finding.severity == Severity::Error {
            return finding.item();
        }
        let what = sentence(&cut(&finding.what, LINE_CHARS));
        let remedy = match finding.remedy.as_str() {
            "" => String::new(),
            remedy => format!(" To do: {}", sentence(&cut(remedy, LINE_CHARS))),
        };
        format!("- **{}:** {what}{remedy}\n", plain(&finding.severity.to_string()))
    };
    let items: String = serious.map(item).collect();
    if items.is_empty() {
        let notes = counted(report.findings.len() as u64, "note");
        return format!("No errors and no warnings; report.md lists {notes}.\n\n");
    }
    format!("{items}\n{}", more_in("report.md", report.findings.len() - shown, "finding"))
}
