//! A comparison -> what to do next.

use stage2_contract::text::numbers::counted;
use stage2_contract::text::{listed, shorten};
use stage2_model::Severity;

use crate::comparability::{MIX_COMMANDS, ORDER_OF_RUNS, is_same_program};
use crate::comparison::{ComparedRun, Comparison, Difference, StageChange, signed_time};
use crate::lines::{large_work, name, named_work, outlier, warning};
use crate::verdict::{NAME_LIMIT, Outlook, busier, has_too_small, least, open_stages, timed};

/// Runs that are missing for a test, and the command that compares them with those that are there.
fn more_runs(of: &Comparison) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    let label = |run: &ComparedRun| {
        // The runs of a baseline have one name.
        let is_baseline = run.label.starts_with("baseline:");
        let name = run.label.split('/').next().filter(|_| is_baseline).unwrap_or(&run.label);
        let is_short = name.chars().count() <= NAME_TO_COPY;
        (is_short && name.chars().all(plain)).then(|| name.to_owned())
    };
    // An example of both sides, or the runs of both.
    let are_named = of.before.iter().chain(&of.after).all(|run| label(run).is_some());
    let names = |side: &[ComparedRun], word: &str| -> Vec<String> {
        let mut known: Vec<String> = side.iter().filter(|_| are_named).filter_map(label).collect();
        let others = known.len() + 1..=side.len().max(ENOUGH_RUNS);
        known.dedup();
        known.into_iter().chain(others.map(|at| format!("{word}-{at}"))).collect()
    };
    let missing = [&of.before, &of.after].map(|side| ENOUGH_RUNS.saturating_sub(side.len()));
    let what = match missing {
        [a, b] if a == b => format!("{} per side", counted(a as u64, "more run")),
        [0, b] => format!("{} of the new version", counted(b as u64, "more run")),
        [a, 0] => format!("{} of the old version", counted(a as u64, "more run")),
        [a, b] => {
            format!("{} of the old version and {b} of the new one", counted(a as u64, "more run"))
        }
    };
    let (before, after) =
        (names(&of.before, "before").join(" "), names(&of.after, "after").join(" "));
    // What else the machine does may change from side to side.
    let interleaved = if missing.contains(&0) { "" } else { ", interleaved" };
    format!("record {what}{interleaved}, then: stage2-launch diff {before} --against {after}")
}

/// Kernels in the line *next*.
const IN_NEXT: usize = 2;
/// Characters of a name of a kernel in it.
const SHORT_NAME: usize = 44;
/// Characters of the name of a run in a command to copy.
const NAME_TO_COPY: usize = 48;

/// Runs of a side from which a rank test can decide.
const ENOUGH_RUNS: usize = 4;

/// What to do next; a run that is far from the others of its side first.
pub(crate) fn next(of: &Comparison) -> String {
    let then = then(of);
    let holds = matches!(of.outlook(), Outlook::Better | Outlook::Worse);
    match outlier(of).filter(|_| of.unlike.is_empty()) {
        // More runs would only make it surer.
        Some((run, _)) if holds => {
            format!("{then}; {run} is an outlier, but the result holds with it")
        }
        // One run alone would be chosen by its result, and no longer interleaved.
        Some((run, _)) => {
            format!("record both sides again, interleaved, because {run} is an outlier; {then}")
        }
        None => then,
    }
}

fn then(of: &Comparison) -> String {
    let runs = of.before.len().min(of.after.len());
    let stages = timed(of);
    let of_machine = of_the_machine(&stages).filter(|_| is_same_program(of));
    let what = match of.outlook() {
        _ if !of.unlike.is_empty() => {
            return "compare runs of the same program and workload on the same GPU".to_owned();
        }
        Outlook::NotJudged if stages.iter().any(|stage| stage.own_times.is_some()) => {
            return "compare runs of one engine, or record both sides with the same ranges"
                .to_owned();
        }
        // More runs of a side that is two things do not decide.
        _ if of.differences.iter().any(|d| d.what.ends_with(MIX_COMMANDS)) => {
            return "compare runs of one command per side: put each run on the side of its command"
                .to_owned();
        }
        _ if runs == 1 => return more_runs(of),
        Outlook::Changed if of.has_too_few_runs() => return more_runs(of),
        Outlook::Better | Outlook::Worse | Outlook::Mixed if of_machine.is_some() => {
            return of_machine.unwrap_or_default();
        }
        _ if of.is_doubted() => return rule_out(of),
        Outlook::Mixed if stages.iter().any(|stage| stage.opposed().is_some()) => {
            "the median and the mean disagree: compare step_p99_ms (--full), or record more runs"
        }
        Outlook::Better | Outlook::Worse => return keep_or_drop(of, &stages),
        Outlook::Mixed => "decide which of the stages counts for you",
        Outlook::Changed => "compare runs with the same stages",
        Outlook::NotJudged => {
            return "the runs within a side vary too much: find out why, or record more, interleaved"
                .to_owned();
        }
        Outlook::Undecided if open_stages(of).is_empty() => {
            return "record more runs, interleaved, to judge all numbers".to_owned();
        }
        Outlook::Same | Outlook::Undecided if !open_stages(of).is_empty() => {
            return format!(
                "record more runs, interleaved, to decide on {}",
                open_stages(of).join(" and ")
            );
        }
        Outlook::Same if has_too_small(&stages) => {
            return format!("the effect on the times is too small to count: below {}", least(of));
        }
        Outlook::Same | Outlook::Undecided => "no effect on the times was found",
    };
    match runs < ENOUGH_RUNS {
        true => format!("{what}; {ENOUGH_RUNS} runs per side could reveal smaller changes"),
        false if of.outlook() == Outlook::Same => {
            format!("{what}; to detect a smaller one, record more runs, interleaved")
        }
        false => what.to_owned(),
    }
}

/// Other reasons for a change that the line names.
const DOUBTS: usize = 3;
/// Runs that were not interleaved, as a reason.
const OF_ORDER: &str = "the order of the runs (not interleaved)";

/// That the change may have other reasons than the one that the runs are compared for, and what to do about it.
fn rule_out(of: &Comparison) -> String {
    let text = |doubt: &Difference| match doubt.what.as_str() {
        ORDER_OF_RUNS => OF_ORDER.to_owned(),
        _ => warning(doubt),
    };
    let doubts: Vec<String> = of.doubts().into_iter().map(text).collect();
    let before = match of.outlook() {
        Outlook::Better => "keep the change",
        Outlook::Worse => "drop the change",
        _ => "decide",
    };
    let again = match doubts.iter().all(|doubt| doubt == OF_ORDER) {
        true => "record both sides again, interleaved,",
        false => "record both sides again, alike and interleaved,",
    };
    format!("{} may be the reason: {again} before you {before}", listed(&doubts, DOUBTS))
}

/// That a change helps or does not, and what is open: stages that are inconclusive, and a GPU that is busy for longer.
fn keep_or_drop(of: &Comparison, stages: &[&StageChange]) -> String {
    let (effect, what) = match of.outlook() {
        Outlook::Better => ("helps", "keep"),
        _ => ("makes it slower", "revise or drop"),
    };
    let mut texts = vec![match cause_of_warning(of) {
        _ if of.is_simulated() => {
            format!(
                "the change {effect} in the simulation: measure on a real GPU before you {what} it"
            )
        }
        Some(cause) => format!("the change {effect}: {what} it, if {cause} is the change"),
        None => format!("the change {effect}: {what} it"),
    }];
    let open = open_stages(of);
    if !open.is_empty() {
        texts.push(format!("record more runs, interleaved, to decide on {}", open.join(" and ")));
    }
    if let Some((stage, _)) = busier(stages).filter(|_| of.outlook() == Outlook::Better) {
        let all = large_work(stage).named;
        let longer = all.iter().filter(|one| one.change_ns > 0.0).take(IN_NEXT);
        let rows = named_work(longer, SHORT_NAME);
        let rows = rows.unwrap_or_else(|| "what the GPU works on for longer".to_owned());
        texts.push(format!("in {}, look at {rows}", name(stage)));
    }
    texts.join("; ")
}

/// A difference that is mostly the change under test.
const GRAPHS: &str = "CUDA graphs";
/// Characters of the words of a command in the line.
const WORDS: usize = 40;

/// What the line `comparable` warns of although it may be the change itself: the words of the command that only the runs
/// after it have, or else the difference.
fn cause_of_warning(of: &Comparison) -> Option<String> {
    let mut all = of.differences.iter();
    let warned = all.clone().find(|d| d.severity >= Severity::Warning && d.what == GRAPHS)?;
    let command = all.find(|d| d.what == "command").and_then(|d| d.after.strip_prefix("… "));
    let is_short = |words: &&str| words.chars().count() <= WORDS && !words.contains(" | ");
    Some(match command.filter(is_short) {
        Some(words) => format!("`{words}`"),
        None => warning(warned),
    })
}

/// That a change of idle time may be one of the machine: what the GPU was idle for, and how to find out.
fn of_the_machine(stages: &[&StageChange]) -> Option<String> {
    let idle = stages.iter().find_map(|stage| {
        let parts = stage.parts();
        let part = parts.rows.iter().find(|part| part.work.is_empty() && part.is_beyond_noise())?;
        let cause = part
            .cause
            .map_or_else(String::new, |cause| format!(", mainly `{}`", shorten(cause, NAME_LIMIT)));
        let change = signed_time(part.change_ns);
        Some(format!("idle time changed{cause} ({change} per {})", stage.per_word()))
    });
    Some(format!(
        "no known difference in the program, libraries or GPU work, but {}: unless host code changed, record again, \
         with the runs interleaved",
        idle?
    ))
}
