//! The longest stage, its mean step, who is late and what to do first -> the sentences that a report begins with.

use super::{AnsweredStage, lead, step_time};
use crate::roofline::takeaways::LAUNCH_LESS_OFTEN;
use stage2_contract::text::numbers::{counted, shown_time};
use stage2_contract::text::shorten;
use stage2_model::{
    Bottleneck, BottleneckKind, BottleneckPart, FirstStep, LateCause, LateRow, MeanTime, Report,
    Rule, times_faster,
};

/// Parts of the mean step that are named, ...
const PARTS: usize = 2;
/// ... and the smallest share of one, percent.
const PART_PERCENT: f64 = 10.0;
/// Characters of what to do, about, and of a name.
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
    let (time, unit) = (step_time(step), told.answer.unit_of_times()?);
    let late = late_rank(report, &told.row.stage);
    let mean = shown_time(found.ns as f64);
    let is_of = |first: &&FirstStep| first.stage.as_ref() == Some(&told.row.stage);
    let waits_first = first.filter(is_of).is_some_and(|first| first.rule == Rule::Waiting);
    let first = first.map(|first| first_of(first, &told.row.stage)).unwrap_or_default();
    // The waits of one rank alone may be far longer.
    let over_ranks = match report.ranks.seen {
        0 | 1 => String::new(),
        ranks => format!(", averaged over {ranks} ranks"),
    };
    let at_a_time = told.answer.at_a_time().map(|calls| format!(", with {calls}"));
    let at_a_time = at_a_time.unwrap_or_default();
    let missing = report.coverage.missing_clause();
    let missing = missing.map(|clause| format!("; {clause}")).unwrap_or_default();
    Some(format!(
        "{} takes {} per {unit} ({}). Of the mean {} of {mean}{over_ranks}{at_a_time}, the GPU {}{missing}.{first}",
        told.name(),
        time.shown,
        time.of.join("; "),
        told.answer.unit_of_mean()?,
        parts(found, late, waits_first),
    ))
}

/// The rank that delays a stage by more than noise.
fn late_rank<'r>(report: &'r Report, stage: &str) -> Option<&'r LateRow> {
    report.ranks.late.iter().find(|late| late.stage == stage && late.delays.is_some())
}

/// `waits 39 % for the host and 29 % for rank 0, which is late on the host`: the largest parts, the bottleneck first.
fn parts(found: &Bottleneck, late: Option<&LateRow>, waits_first: bool) -> String {
    let mut verb = "";
    let mut out = String::new();
    let is_named =
        |(at, part): &(usize, &BottleneckPart)| *at == 0 || found.percent(part) >= PART_PERCENT;
    // What the advice is about is one of them.
    let is_advised =
        |(_, part): &(usize, &BottleneckPart)| !waits_first || part.kind == BottleneckKind::Ranks;
    let mut named = found.parts.iter().enumerate().filter(is_named);
    let longest = named.next().into_iter();
    let named = longest.chain(named.filter(is_advised)).take(PARTS);
    for (at, part) in named {
        let (does, what) = match found.kernels_over_floor.filter(|_| part.kind.is_kernels()) {
            Some(over) => (
                "runs kernels",
                format!("of the time, at {} the kernels' floor", times_faster(over)),
            ),
            None => does(part.kind, late),
        };
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
        _ if !late.shows_cause() => "late",
        LateCause::Host => "late on the host",
        LateCause::Gpu => "slow on the GPU",
        LateCause::Both => "late on host and GPU",
    };
    format!("for {}, which is {why}", shorten(&late.who, NAME_CHARS))
}

/// ` First, use CUDA graphs (saves up to 2.12 ms per step).`
fn first_of(first: &FirstStep, stage: &str) -> String {
    let of = first.stage.as_deref().filter(|of| *of != stage);
    let of = of.map_or_else(
        || " First, ".to_owned(),
        |of| {
            let name = shorten(of, NAME_CHARS);
            format!(" The largest saving over the run is in {name}{}: ", first.of_mean())
        },
    );
    format!("{of}{}.", first.in_short)
}

/// [`FirstStep::in_short`].
pub(in crate::answer) fn in_short(report: &Report, first: &FirstStep) -> String {
    let is_bound = first.error_percent.is_none();
    let gain = match (first.saved(), first.factor) {
        (Some(saved), _) if first.rule == Rule::Waiting && !is_bound => {
            let late = first.stage.as_deref().and_then(|stage| late_rank(report, stage));
            match late.and_then(|late| late.host.as_ref()).is_some_and(|host| host.other_ranks) {
                true => format!(" (saves {saved})"),
                // That time was just stated.
                false => " (saves up to as much)".to_owned(),
            }
        }
        // More than one function has a part in it.
        (Some(saved), _) if first.rule == Rule::Waiting && is_bound => {
            format!(" ({saved} if no rank is late)")
        }
        // More requests make no step shorter.
        (_, Some(factor)) if first.is_in_tokens() => {
            format!(
                " to spread the host's time over more tokens (up to {} the tokens/s if a larger step takes no longer)",
                times_faster(factor)
            )
        }
        (Some(saved), _)
            if first.rule == Rule::HostGaps && !first.is_floor && first.left.is_none() =>
        {
            match report.simulated {
                true => format!(" (saves {saved}; this machine launches slowly)"),
                false => format!(" (the GPU is idle for {saved})"),
            }
        }
        (Some(saved), _) => {
            let marked = first.rule.less_unmarked(&lead(report));
            format!(" (saves {saved}{}{marked})", first.left().unwrap_or_default())
        }
        (None, Some(_)) => format!(" ({} faster)", first.times().unwrap_or_default()),
        (None, None) => idle_to_measure(first, first.mean.as_ref()),
    };
    format!("{}{gain}", action(report, first))
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

/// The clauses of a text that fit into so many characters; at least the first one.
fn clauses_within(text: &str, chars: usize) -> String {
    let Some((limit, _)) = text.char_indices().nth(chars) else { return text.to_owned() };
    let ends = || text.match_indices([',', ';']).map(|(at, _)| at);
    let end = ends().take_while(|at| *at <= limit).last().or_else(|| ends().next());
    text.get(..end.unwrap_or(text.len())).unwrap_or(text).to_owned()
}

/// What to do, as one clause.
fn action(report: &Report, first: &FirstStep) -> String {
    let late = first.stage.as_deref().and_then(|stage| late_rank(report, stage));
    if let Some(late) = late.filter(|_| first.rule == Rule::Waiting) {
        let cause = late.delays.as_ref().map(|delays| delays.cause());
        let whose = match cause {
            Some(LateCause::Host) => "the host of ",
            Some(LateCause::Gpu) => "the GPU of ",
            _ => "",
        };
        let who = shorten(&late.who, NAME_CHARS);
        if let Some(code) = late.advice(&who, false) {
            let few =
                late.host.as_ref().and_then(|host| host.finding().filter(|row| !row.is_sure()));
            let few = few.map_or_else(String::new, |row| {
                format!("; only {} show it", counted(row.samples, "sample"))
            });
            return format!("{code}{few}");
        }
        return format!("find out what {whose}{who} does before it communicates");
    }
    // The name of a function stands in front of what to do about it.
    let ends: &[&str] = match first.rule {
        Rule::HostCause | Rule::HostFault => &[". ", "; ", ", run it ", ", or move it "],
        Rule::LaunchBound | Rule::HostAhead => &[". ", "; ", " ("],
        Rule::HostGaps if first.text == LAUNCH_LESS_OFTEN => &[" ("],
        _ => &[". ", "; ", ": ", " ("],
    };
    let text = first.text.trim_end_matches('.');
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    let clause = clauses_within(text.get(..end).unwrap_or(text), ACTION_CHARS);
    let mut letters = clause.chars();
    // Not the first letter of a name, such as `Sampler (sampler.py:3)`.
    let (word, rest) = clause.split_once(' ').unwrap_or((&clause, ""));
    let is_word = word.chars().skip(1).all(|c| c.is_lowercase()) && !rest.starts_with('(');
    match (letters.next(), letters.next()) {
        (Some(initial), Some(next)) if next.is_lowercase() && is_word => {
            format!("{}{next}{}", initial.to_lowercase(), letters.as_str())
        }
        _ => clause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::lines::lines;
    use crate::answer::lines::tests::{bound, row, stage};
    use stage2_model::{
        HostCauseKind, LateDelays, LateHost, LateHostRow, LateSteps, RankStageRow, Ranks, Removed,
    };

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

    fn in_words(report: &Report, first: &FirstStep) -> FirstStep {
        FirstStep { in_short: in_short(report, first), ..first.clone() }
    }

    #[test]
    fn an_action_ends_with_a_clause() {
        let text = "raise the limit, keep other work off them, and start fewer threads";
        assert_eq!(clauses_within(text, 50), "raise the limit, keep other work off them");
        assert_eq!(clauses_within(text, 3), "raise the limit");
        assert_eq!(clauses_within(text, 99), text);
        assert_eq!(clauses_within("no clause ends here", 3), "no clause ends here");
    }

    #[test]
    fn the_longest_part_the_late_rank_and_what_to_do_are_one_order_of_causes() {
        use BottleneckKind::{Host, Kernels};
        let decode = row("decode");
        let mut told = stage(&decode);
        told.answer.bottleneck =
            Some(bound(&[(Host, 1_600), (Kernels, 1_400), (BottleneckKind::Ranks, 1_000)], None));
        let delays = LateDelays { total_ns: 100, ..LateDelays::default() };
        let late = LateRow {
            stage: "decode".into(),
            who: "rank 0".into(),
            delays: Some(delays),
            ..LateRow::default()
        };
        let ranks = Ranks { late: vec![late], seen: 2, ..Ranks::default() };
        let job = Report { ranks, ..Report::default() };
        let mut of_step = stage(&decode);
        let parts = [(Host, 1_600), (Kernels, 1_400), (BottleneckKind::Ranks, 1_000)];
        of_step.answer.bottleneck = Some(bound(&parts, Some(1.96)));
        let over = verdict(&Report::default(), std::slice::from_ref(&of_step), None);
        let said = "waits 40 % for the host and runs kernels 35 % of the time, at 1.96x the kernels' floor.";
        assert!(over.is_some_and(|over| over.ends_with(said)));
        let waiting = first(Rule::Waiting, "Look at what the late rank does: host work.");
        assert_eq!(
            verdict(&job, &[told], Some(&in_words(&job, &waiting))).expect("known"),
            "decode takes 8.80 ms per token (p50 of 32; longest 9.12). Of the mean step of 4.00 ms, averaged over 2 ranks, \
             the GPU waits 40 % for the host and 25 % for rank 0, which is late on the host. First, find out what the host of rank 0 \
             does before it communicates (up to 2.00 ms per step if no rank is late)."
        );
        let (kind, late_ns, error_ns) = (HostCauseKind::Sleep, 900_000, 400_000);
        let row = LateHostRow { kind, late_ns, error_ns, samples: 10, ..LateHostRow::default() };
        let mut job = job;
        job.ranks.late[0].host = Some(LateHost { rows: vec![row], ..LateHost::default() });
        let steps = LateSteps { noun: "step".into(), late: 9, of: 10, ..LateSteps::default() };
        job.ranks.late[0].delays.as_mut().expect("late").steps = Some(steps);
        job.ranks.stages = [("0", 200_000), ("1", 20_000_000)]
            .map(|(file, ns)| RankStageRow {
                stage: "decode".into(),
                who: format!("rank {file}"),
                file: file.into(),
                warm_waiting_ns: Some(ns),
                ..RankStageRow::default()
            })
            .into();
        job.ranks.late[0].file = "0".into();
        let line = lines(&job, &[of_step], None).into_iter().find(|line| line.label == "late rank");
        let line = line.expect("a line").text;
        assert!(
            line.contains(
                "; meanwhile, rank 1 waits 2.00 ms per step (1.00 ms averaged over 2 ranks). "
            ),
            "{line}"
        );
        let sure = FirstStep { error_percent: Some(10.0), ..waiting.clone() };
        assert!(in_short(&job, &sure).ends_with(" (saves up to as much)"));
        let mut compared = job.clone();
        let host = compared.ranks.late[0].host.as_mut().expect("a host");
        host.other_ranks = true;
        (host.rows[0].late_ns, host.rows[0].error_ns) = (350_000, 50_000);
        let said = in_short(&compared, &sure);
        let gain =
            "cut the extra host time of rank 0: sleeping (saves up to 2.00 ± 0.40 ms per step)";
        assert_eq!(said, gain);
        job.ranks.late[0].delays.as_mut().expect("late").steps = None;
        let said = action(&job, &waiting);
        assert_eq!(
            said,
            "look at why the host of rank 0 takes longer in its late steps: sleeping (0.90 ± 0.40 ms more); only 10 \
             samples show it"
        );
        let many = FirstStep { text: format!("{said}. {}", "More. ".repeat(60)), ..waiting };
        let line = lines(&job, &[], Some(&many)).into_iter().find(|line| line.label == "first");
        assert!(line.is_some_and(|line| line.text.ends_with("More. ")), "it is not cut");
    }

    #[test]
    fn what_to_do_is_a_clause() {
        use BottleneckKind::{Copies, Kernels, Launches, Memory};
        let decode = row("decode");
        let said = |parts: &[(BottleneckKind, u64)], first: &FirstStep| {
            let mut told = stage(&decode);
            told.answer.bottleneck = Some(bound(parts, None));
            let report = Report::default();
            let first = in_words(&report, first);
            let said = verdict(&report, &[told], Some(&first)).expect("known");
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
        let blocked =
            first(Rule::HostCause, "Blocked in cuMemAlloc from f (a.py:3): do not. More.");
        assert_eq!(
            action(&Report::default(), &blocked),
            "blocked in cuMemAlloc from f (a.py:3): do not"
        );
        let more = first(Rule::HostGaps, "Batch more requests per step: send more at once.");
        assert_eq!(
            in_words(&Report::default(), &more).in_short,
            "batch more requests per step to spread the host's time over more tokens (up to 2.0x the tokens/s if a larger step takes no longer)"
        );
        let idle = Removed { what: "other idle".into(), percent: 50.0 };
        let earlier =
            FirstStep { removes: vec![idle], ..first(Rule::HostGaps, "Prepare it earlier.") };
        assert_eq!(
            in_words(&Report::default(), &earlier).in_short,
            "prepare it earlier (the GPU is idle for up to 2.00 ms per step)"
        );
        let cause = FirstStep {
            stage: Some("prefill".into()),
            mean: None,
            ..first(Rule::HostCause, "Engine.run (a.py:1): Make it faster. Or not.")
        };
        assert_eq!(
            said(&[(Memory, 2_000), (Copies, 2_000)], &cause),
            "Of the mean step of 4.00 ms, the GPU runs kernels, bound by memory, 50 % of the time and copies 50 % \
             of the time. The largest saving over the run is in prefill: Engine.run (a.py:1): Make it faster (up to 2.0x faster)."
        );
        assert_eq!(verdict(&Report::default(), &[stage(&decode)], None), None, "no window");
    }
}
