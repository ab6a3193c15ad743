//! The longest stage, its mean step, who is late and what to do first -> the sentences that a report begins with.

use super::{AnsweredStage, step_time};
use stage2_contract::text::numbers::shown_time;
use stage2_contract::text::shorten;
use stage2_model::{
    Bottleneck, BottleneckKind, BottleneckPart, FirstStep, LateCause, LateHost, LateRow, MeanTime,
    Report, Rule, times_faster,
};

/// Parts of the mean step that are named, ...
const PARTS: usize = 2;
/// ... and the smallest share of one, percent.
const PART_PERCENT: f64 = 10.0;
/// Characters of what to do, and of a name.
const ACTION_CHARS: usize = 150;
const NAME_CHARS: usize = 40;

/// How long a step of the longest stage takes, what most of it is, and what to do first. `None` if no stage has both
/// timed steps and a known window.
pub(super) fn verdict(
    report: &Report,
    stages: &[AnsweredStage<'_>],
    first: Option<&FirstStep>,
) -> Option<String> {
    let known = stages.iter().filter_map(|told| {
        let found = told.answer.bottleneck.as_ref().filter(|found| found.is_of_step())?;
        Some((told, found, told.answer.step.as_ref()?))
    });
    let (told, found, step) = known.into_iter().next()?;
    let (time, unit) = (step_time(step), step.shown_unit());
    let late = late_rank(report, &told.row.stage);
    let mean = shown_time(found.ns as f64);
    let first = first.map(|first| first_of(report, first, &told.row.stage)).unwrap_or_default();
    Some(format!(
        "{} takes {} per {unit} ({}). Of the mean {} of {mean}, the GPU {}.{first}",
        told.name(),
        time.shown,
        time.of.join("; "),
        found.of,
        parts(found, late),
    ))
}

/// The rank that delays a stage by more than noise.
fn late_rank<'r>(report: &'r Report, stage: &str) -> Option<&'r LateRow> {
    report.ranks.late.iter().find(|late| late.stage == stage && late.delays.is_some())
}

/// `waits 39 % for the host and 29 % for rank 0, which is late on the host`: the largest parts, the bottleneck first.
fn parts(found: &Bottleneck, late: Option<&LateRow>) -> String {
    let mut verb = "";
    let mut out = String::new();
    let is_named =
        |(at, part): &(usize, &BottleneckPart)| *at == 0 || found.percent(part) >= PART_PERCENT;
    let named = found.parts.iter().enumerate().filter(is_named).take(PARTS);
    for (at, part) in named {
        let (does, what) = does(part.kind, late);
        let percent = found.percent(part);
        out.push_str(if at == 0 { "" } else { " and " });
        // One verb for two parts of the same kind reads better.
        if does != verb {
            out.push_str(&format!("{does} "));
        }
        out.push_str(&format!("{percent:.0} % {what}"));
        verb = does;
    }
    out
}

/// What the GPU does in a part of the step: a verb, and of or for what, behind the share.
fn does(kind: BottleneckKind, late: Option<&LateRow>) -> (&'static str, String) {
    let of_time = || "of the time".to_owned();
    match kind {
        BottleneckKind::Host => ("waits", "for the host".to_owned()),
        // The host may be ahead: what keeps the kernels apart is said elsewhere.
        BottleneckKind::Launches => ("is idle between kernels", of_time()),
        BottleneckKind::Ranks => ("waits", for_rank(late)),
        BottleneckKind::Memory => ("runs kernels, bound by memory,", of_time()),
        BottleneckKind::Compute => ("runs kernels, bound by compute,", of_time()),
        BottleneckKind::Kernels => ("runs kernels", of_time()),
        BottleneckKind::Communication => ("communicates", of_time()),
        BottleneckKind::Copies => ("copies", of_time()),
        BottleneckKind::OtherWork => ("works", "for other stages".to_owned()),
    }
}

fn for_rank(late: Option<&LateRow>) -> String {
    let Some((late, delays)) = late.and_then(|late| Some((late, late.delays.as_ref()?))) else {
        return "for other ranks".to_owned();
    };
    let why = match delays.cause() {
        LateCause::Host => "late on the host",
        LateCause::Gpu => "slow on the GPU",
        LateCause::Both => "late on host and GPU",
    };
    format!("for {}, which is {why}", shorten(&late.who, NAME_CHARS))
}

/// ` First, use CUDA graphs (saves up to 2.12 ms per step).`
fn first_of(report: &Report, first: &FirstStep, stage: &str) -> String {
    let of = first.stage.as_deref().filter(|of| *of != stage);
    let of = of.map_or_else(
        || " First, ".to_owned(),
        |of| format!(" The run as a whole gains most in {}: ", shorten(of, NAME_CHARS)),
    );
    let gain = match (&first.mean, first.factor) {
        (Some(mean), Some(factor)) => {
            let saved = shown_time(mean.ns * (1.0 - 1.0 / factor));
            match first.rule {
                // More than one function has a part in it.
                Rule::Waiting => format!(" (up to {saved} per {} if no rank is late)", mean.of),
                _ => format!(" (saves up to {saved} per {})", mean.of),
            }
        }
        (None, Some(factor)) => format!(" (up to {} faster)", times_faster(factor)),
        (mean, None) => idle_to_measure(first, mean.as_ref()),
    };
    format!("{of}{}{gain}.", action(report, first))
}

/// `: up to 2.23 ms per step is idle`, of what is only to be measured; nothing of what else gains nothing known.
fn idle_to_measure(first: &FirstStep, mean: Option<&MeanTime>) -> String {
    if first.to_measure().is_none() {
        return String::new();
    }
    let percent: f64 = first.removes.iter().map(|part| part.percent).sum();
    match mean {
        Some(mean) => {
            let idle = shown_time(mean.ns * percent / 100.0);
            format!(": up to {idle} per {} is idle", mean.of)
        }
        None => format!(": up to {percent:.0} % of the window is idle"),
    }
}

/// What to do, as one clause.
fn action(report: &Report, first: &FirstStep) -> String {
    let late = first.stage.as_deref().and_then(|stage| late_rank(report, stage));
    if let Some(late) = late.filter(|_| first.rule == Rule::Waiting) {
        let whose = match late.delays.as_ref().map(|delays| delays.cause()) {
            Some(LateCause::Host) => "the host of ",
            Some(LateCause::Gpu) => "the GPU of ",
            _ => "",
        };
        let who = shorten(&late.who, NAME_CHARS);
        if let Some(row) = late.host.as_ref().and_then(LateHost::finding) {
            return format!(
                "find out why the host of {who} spends {} (± {}) more in {} in its late steps",
                shown_time(row.longer_ns() as f64),
                shown_time(row.error_ns as f64),
                row.text(true)
            );
        }
        return format!("find out what {whose}{who} does before it communicates");
    }
    // The name of a function stands in front of what to do about it.
    let ends: &[&str] = match first.rule {
        Rule::HostCause | Rule::HostFault => &[". ", "; "],
        Rule::LaunchBound => &[". ", "; ", " ("],
        _ => &[". ", "; ", ": ", " ("],
    };
    let text = first.text.trim_end_matches('.');
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    let clause = shorten(text.get(..end).unwrap_or(text), ACTION_CHARS);
    let mut letters = clause.chars();
    match (letters.next(), letters.next()) {
        // Not the first letter of a name.
        (Some(initial), Some(next)) if next.is_lowercase() && !clause.contains('(') => {
            format!("{}{next}{}", initial.to_lowercase(), letters.as_str())
        }
        _ => clause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::lines::tests::{bound, row, stage};
    use stage2_model::{LateDelays, Ranks, Removed};

    fn first(rule: Rule, text: &str) -> FirstStep {
        FirstStep {
            stage: Some("decode".into()),
            rule,
            text: text.into(),
            factor: Some(2.0),
            mean: Some(MeanTime { of: "step".into(), ns: 4_000_000.0 }),
            ..FirstStep::default()
        }
    }

    #[test]
    fn the_longest_part_the_late_rank_and_what_to_do_are_one_order_of_causes() {
        use BottleneckKind::{Host, Kernels};
        let decode = row("decode");
        let mut told = stage(&decode);
        told.answer.bottleneck =
            Some(bound(&[(Host, 1_600), (BottleneckKind::Ranks, 1_400), (Kernels, 1_000)], None));
        let delays = LateDelays { total_ns: 100, ..LateDelays::default() };
        let late = LateRow {
            stage: "decode".into(),
            who: "rank 0".into(),
            delays: Some(delays),
            ..LateRow::default()
        };
        let ranks = Ranks { late: vec![late], ..Ranks::default() };
        let job = Report { ranks, ..Report::default() };
        let waiting = first(Rule::Waiting, "Look at what the late rank does: host work.");
        assert_eq!(
            verdict(&job, &[told], Some(&waiting)).expect("known"),
            "decode takes 8.80 ms per token (p50; p99 9.12). Of the mean step of 4.00 ms, the GPU waits 40 % for \
             the host and 35 % for rank 0, which is late on the host. First, find out what the host of rank 0 \
             does before it communicates (up to 2.00 ms per step if no rank is late)."
        );
    }

    #[test]
    fn what_to_do_is_a_clause() {
        use BottleneckKind::{Copies, Kernels, Launches, Memory};
        let decode = row("decode");
        let said = |parts: &[(BottleneckKind, u64)], first: &FirstStep| {
            let mut told = stage(&decode);
            told.answer.bottleneck = Some(bound(parts, None));
            let said = verdict(&Report::default(), &[told], Some(first)).expect("known");
            said.split_once(". ").expect("two sentences").1.to_owned()
        };
        let graphs =
            first(Rule::LaunchBound, "Launch less often: CUDA graphs (torch.compile), then.");
        assert_eq!(
            said(&[(Launches, 3_900), (Kernels, 100)], &graphs),
            "Of the mean step of 4.00 ms, the GPU is idle between kernels 98 % of the time. First, launch less often: CUDA graphs \
             (saves up to 2.00 ms per step)."
        );
        let idle = Removed { what: "other idle".into(), percent: 62.0 };
        let text = "Sample the host with STAGE2_HOST=on: kernel records do not show what it does.";
        let sampled =
            FirstStep { factor: None, removes: vec![idle], ..first(Rule::HostGaps, text) };
        assert!(
            said(&[(Launches, 3_900), (Kernels, 100)], &sampled).ends_with(
                "First, sample the host with STAGE2_HOST=on: up to 2.48 ms per step is idle."
            ),
            "measuring saves nothing"
        );
        let cause = FirstStep {
            stage: Some("prefill".into()),
            mean: None,
            ..first(Rule::HostCause, "Engine.run (a.py:1): Make it faster. Or not.")
        };
        assert_eq!(
            said(&[(Memory, 2_000), (Copies, 2_000)], &cause),
            "Of the mean step of 4.00 ms, the GPU runs kernels, bound by memory, 50 % of the time and copies 50 % \
             of the time. The run as a whole gains most in prefill: Engine.run (a.py:1): Make it faster (up to 2.0x faster)."
        );
        assert_eq!(verdict(&Report::default(), &[stage(&decode)], None), None, "no window");
    }
}
