//! The reports of both sides -> what differs besides the numbers, and what that means for them.

use std::collections::{BTreeMap, BTreeSet};

use Severity::{Note, Warning};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::{count, grouped};
use stage2_contract::text::{listed, shorten, visible};
use stage2_model::finding::Id;
use stage2_model::rule::GRAPHS_USED_PERCENT;
use stage2_model::{
    ClockUse, EngineSteps, META_RANGES, META_SAMPLE, ReadSpan, Report, Severity, Status, StepUnit,
};

use crate::compare::Run;
use crate::comparison::{
    Comparison, Difference, MatchedBy, Per, Presence, StageChange, WorkChange, WorkKind, WorkSide,
};
use crate::libraries::is_version;
use crate::noise::median;

const VALUE_LIMIT: usize = 160;

/// How much a step has to do whose times are not compared if that differs.
const PREFILL_TOKENS: &str = "prompt tokens in a prefill step";

/// How many calls of a stage run at once.
const CONCURRENT: &str = "concurrent calls";

type TextOf = fn(&Run<'_>) -> Option<String>;

/// What has to be known of a side although both may be alike: what it is, what it means, and the text of a
/// run that it holds for.
const OF_ONE_SIDE: [(&str, &str, TextOf); 4] = [
    (
        "overloaded processors",
        "launching threads waited for a processor: idle and host times are longer for that reason alone",
        |run| overload(run.report),
    ),
    (
        "coverage is partial",
        "what was not recorded is in no number: calls and times may be smaller for that reason alone",
        |run| {
            let verdict = &run.report.coverage.verdict;
            (verdict.status == Status::Partial).then(|| shown(&verdict.text))
        },
    ),
    ("the workload ended early", "the numbers cover what it did until then", |run| {
        run.report.run.workload_end.as_ref().map(|end| shown(&end.text))
    }),
    (
        "a part of the report could not be read",
        "numbers from it are missing; write the report again with `stage2-launch report`",
        |run| (!run.left_out.is_empty()).then(|| shown(&run.left_out.join("; "))),
    ),
];

/// Share of the larger amount of work in a step up to which steps do the same.
const SAME_WORK: f64 = 0.05;

type NumberOf = fn(&Report) -> Option<f64>;

/// Numbers that hardly any two runs have exactly alike: what it is, what a difference means, and the share of
/// the larger one from which it is one.
const NUMBERS: [(&str, &str, f64, NumberOf); 4] = [
    (
        "SM clock, MHz",
        "times of kernels follow it: fix the clocks, or let the GPU cool down",
        0.02,
        |r| clock(r, |clocks| clocks.sm_clock_mhz),
    ),
    ("memory clock, MHz", "times of memory-bound kernels follow it", 0.02, |r| {
        clock(r, |clocks| clocks.memory_clock_mhz)
    }),
    ("requests in a decode step", "steps do different amounts of work", SAME_WORK, |r| {
        let kind = r.engine.as_ref()?.timed("decode")?;
        Some(kind.decode_requests_mean)
    }),
    (PREFILL_TOKENS, "steps do different amounts of work", SAME_WORK, |r| {
        r.engine.as_ref()?.timed("prefill")?.prefill_tokens_mean
    }),
];

/// The clock in the windows of all stages, by their readings.
fn clock(report: &Report, of: fn(&ClockUse) -> Option<ReadSpan>) -> Option<f64> {
    let read = report.energy.iter().filter_map(|stage| {
        Some((of(&stage.clocks)?.mean, stage.clocks.clock_reads.max(1) as f64))
    });
    let (sum, reads) =
        read.fold((0.0, 0.0), |(sum, n), (mean, reads)| (sum + mean * reads, n + reads));
    (reads > 0.0).then(|| sum / reads)
}

/// How many calls of each stage run at once on average, where that is more than one.
fn calls_at_a_time(report: &Report) -> String {
    let stages = report.answer.stages.iter().filter_map(|stage| {
        let calls: f64 = stage.at_a_time()?.split(' ').next()?.parse().ok()?;
        // Runs of the same code differ behind the point.
        Some(format!("{} {calls:.0}", shown(&stage.stage)))
    });
    distinct(stages).unwrap_or_else(|| "1".to_owned())
}

/// If the report found the processors overloaded: the share of the time in which the launching threads could run, but
/// waited for a processor.
fn overload(report: &Report) -> Option<String> {
    let mut found =
        report.findings.iter().filter(|found| found.id == Id::HostOverloaded).peekable();
    found.peek()?;
    let processes = || report.host.iter().flat_map(|host| &host.processes);
    let percents = found.filter_map(|found| {
        let process =
            processes().find(|process| found.subject.as_deref() == Some(&process.file))?;
        let all_ns = process.delay_ns.saturating_add(process.cpu_ns);
        Some(process.delay_ns as f64 * 100.0 / all_ns.max(1) as f64)
    });
    let most = percents.max_by(f64::total_cmp);
    Some(most.map_or_else(|| "yes".to_owned(), |percent| format!("waiting {percent:.0} %")))
}

/// Share of the readings from which a limit is one of the run, and no moment of it.
const LIMITED_PERCENT: f64 = 10.0;

/// What held the clocks down, the power limit above all; nothing where no reading tells.
fn clock_limits(report: &Report) -> Option<String> {
    let mut reads = 0u64;
    let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
    for clocks in report.energy.iter().map(|stage| &stage.clocks) {
        let Some(limits) = &clocks.limits else { continue };
        reads = reads.saturating_add(clocks.reads);
        for limit in limits {
            let limited = by_reason.entry(&limit.reason).or_default();
            *limited = limited.saturating_add(limit.reads);
        }
    }
    by_reason.retain(|_, limited| *limited as f64 * 100.0 >= reads as f64 * LIMITED_PERCENT);
    let names = distinct(by_reason.into_keys().map(str::to_owned));
    (reads > 0).then(|| names.unwrap_or_else(|| "none".to_owned()))
}

/// The stages in which CUDA graphs are replayed; nothing where nobody recorded it.
fn graphs(report: &Report) -> Option<String> {
    let whole = report.graph_launches.iter().map(|row| row.stage.clone());
    let stages = distinct(kernels_of_graphs(report).chain(whole));
    let stages = stages.map(|stages| format!("in {stages}"));
    (report.source == "collector").then(|| stages.unwrap_or_else(|| "none".to_owned()))
}

/// The stages whose kernels come from graphs. Where a graph was captured is only known of some runs, so that it
/// decides only where the share of their kernels is not known (older reports).
fn kernels_of_graphs(report: &Report) -> impl Iterator<Item = String> {
    let stage = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let numbers = &report.insight.stage_numbers;
    let shares = numbers.iter().filter_map(|row| Some((row.stage.as_str(), row.graph_percent?)));
    let shares: BTreeMap<&str, f64> = shares.into_map();
    let captured = report.graph_captures.iter().map(|row| stage(&row.replay_path));
    let captured: Vec<String> =
        captured.filter(|stage| !shares.contains_key(stage.as_str())).collect();
    let used = shares.into_iter().filter(|(_, percent)| *percent >= GRAPHS_USED_PERCENT);
    used.map(|(stage, _)| stage.to_owned()).chain(captured)
}

/// Facts of a run that its numbers depend on, with the weight and the meaning of a difference. The first
/// [`IN_ORDER`] come in this order, as people ask for them; all others by name.
const TOPICS: [(&str, Severity, &str); 34] = [
    ("simulated", Warning, "times of one side are those of a recording: do not compare them"),
    (
        "GPU",
        Warning,
        "times differ for that reason alone: call counts are comparable, times are not",
    ),
    ("number of GPUs", Warning, "sums are over different numbers of GPUs"),
    ("model", Warning, "the sides compute different things"),
    ("batch size", Warning, "steps do different amounts of work"),
    ("prompt tokens", Warning, "steps do different amounts of work"),
    ("decode steps", Warning, "decode is compared per token; later tokens read a longer KV cache"),
    ("images per prompt", Warning, "steps do different amounts of work"),
    ("crops per image", Warning, "steps do different amounts of work"),
    (
        CONCURRENT,
        Warning,
        "concurrency changes tokens/s and the mean step, but not necessarily the time of a call",
    ),
    ("source of the rows", Warning, "tools measure differently: compare runs of one tool"),
    (
        "sampling",
        Warning,
        "calls and times of a sample are scaled, its busy times are of fewer instances",
    ),
    ("ranges filter", Warning, "work outside of the filter is in no number"),
    ("graph mode", Warning, "one side shows CUDA graphs as a whole, and the other their kernels"),
    ("annotation", Warning, "ranges that the launcher opens cost host time, and make other stages"),
    (
        "CUDA graphs",
        Warning,
        "graphs replace launches, so kernel names, call counts, gaps and host times differ",
    ),
    (
        "clock throttle reasons",
        Warning,
        "the limit lowers the clocks of one side: times differ for that reason alone",
    ),
    (
        "samples of the host",
        Warning,
        "what the host did in idle time is not compared: it needs samples on both sides \
         (profiling.collector.host=true)",
    ),
    ("mode", Warning, "only a deep run has counters of ncu, and the timeline of nsys"),
    ("counters sampled with the records", Warning, "sampling makes kernels up to 2 % longer"),
    (COLLECTOR_SETTINGS, Warning, "the collector costs the workload differently"),
    ("attribution", Warning, "its cost per launch differs"),
    ("processes with GPU work", Warning, "sums are over different numbers of processes"),
    ("ranks", Warning, "a stage has the instances of all ranks"),
    ("driver", Warning, "drivers launch and schedule differently"),
    ("CUDA of the driver", Note, "libraries may choose other kernels"),
    ("GPU clock", Note, "the highest clock that the GPU states"),
    ("CPU", Note, "host times, launch gaps and idle times depend on it"),
    ("host", Note, "another machine, perhaps with other clocks and neighbours"),
    ("command", Note, "expected if you changed these arguments"),
    ("collector", Note, "versions may cost the workload differently"),
    ("schema version", Note, "numbers that the older version does not have are missing"),
    ("CUPTI", Note, "versions may cost the workload differently"),
    ("CUPTI's activity API", Note, "its cost per launch differs"),
];
const IN_ORDER: usize = 30;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Topic {
    at: usize,
    what: String,
    severity: Severity,
    meaning: &'static str,
}

impl Topic {
    fn new(what: &str, severity: Severity, meaning: &'static str) -> Self {
        let known = TOPICS.iter().take(IN_ORDER);
        let at = known.take_while(|(known, ..)| *known != what).count();
        Self { at, what: what.to_owned(), severity, meaning }
    }
}

pub(crate) fn differences(before: &[Run<'_>], after: &[Run<'_>]) -> Vec<Difference> {
    let mut found = of_one_side(before, after);
    let (mut a, mut b) = (values(before), values(after));
    let topics: BTreeSet<Topic> = a.keys().chain(b.keys()).cloned().into_set();
    for topic in topics {
        let (old, new) =
            (a.remove(&topic).unwrap_or_default(), b.remove(&topic).unwrap_or_default());
        let varies = old.len() > 1 || new.len() > 1;
        if old == new && !varies {
            continue;
        }
        let known = !old.is_empty() && !new.is_empty();
        // Runs that differ in a path of an output have no command in common.
        let is_mixed = topic.what == "command" && varies && !old.is_disjoint(&new);
        let mixed_by_both = old.len().min(new.len()) > 1;
        let (old, new) = match topic.what.as_str() {
            "command" if known && is_mixed => own_words(old, new),
            "command" if known => other_words(old, new),
            COLLECTOR_SETTINGS if known => other_settings(old, new),
            _ => (old, new),
        };
        if is_mixed {
            let side = if mixed_by_both { "both sides mix" } else { "one side mixes" };
            let what = format!("{side} {MIX_COMMANDS}");
            let [before, after] = [old, new].map(|side| joined(side, "not known"));
            let meaning =
                "the spread of a side is not noise alone: compare runs of one command per side"
                    .to_owned();
            found.push(Difference { severity: Warning, what, before, after, meaning });
            continue;
        }
        found.push(Difference {
            // Whatever nobody knows is no reason to warn.
            severity: if known { topic.severity } else { Note },
            what: topic.what,
            before: joined(old, "not known"),
            after: joined(new, "not known"),
            meaning: match (known, varies) {
                (false, _) => NOT_RECORDED.to_owned(),
                (true, true) => format!("{} (the runs of a side differ)", topic.meaning),
                (true, false) => topic.meaning.to_owned(),
            },
        });
    }
    // Another GPU has other clocks.
    let is_other_gpu = found.iter().any(|d| d.what == "GPU" && d.severity >= Warning);
    found.retain(|d| !is_other_gpu || !CLOCKS.contains(&d.what.as_str()));
    // Whatever else differs, such as clocks and the work of a step, stands between what ran and how it was recorded.
    let place = |what: &str| TOPICS.iter().position(|(known, ..)| *known == what);
    let others = place(CONCURRENT);
    found.order_by_key(|d| (std::cmp::Reverse(d.severity), place(&d.what).or(others)));
    found
}

/// What a difference means that may be none.
pub const NOT_RECORDED: &str = "not recorded on one side";
/// What a GPU runs at.
const CLOCKS: [&str; 2] = ["SM clock, MHz", "memory clock, MHz"];

/// Why the steps of a stage of an engine do different amounts of work.
pub(crate) fn other_work(stage: &str, sides: [Vec<&Report>; 2]) -> Option<String> {
    let kinds = sides.map(|side| -> Vec<&EngineSteps> {
        side.iter().filter_map(|report| report.engine.as_ref()?.timed(stage)).collect()
    });
    let first = kinds.iter().flatten().next()?;
    let noun = match (first.prefill_requests_mean, first.decode_requests_mean) {
        (0.0, _) => "requests",
        (_, 0.0) if first.prefill_tokens_mean.is_some() => "prompt tokens",
        (_, 0.0) => "prompts",
        _ => "tokens",
    };
    let work = |kind: &&EngineSteps| {
        kind.prefill_tokens_mean.unwrap_or(kind.prefill_requests_mean) + kind.decode_requests_mean
    };
    let [a, b] = kinds.map(|side| median(&side.iter().map(work).collect::<Vec<f64>>()));
    let [a, b] = [a?, b?];
    ((b - a).abs() > SAME_WORK * a.abs().max(b.abs())).then(|| {
        let [a, b] = shown_pair(a, b);
        format!("{a} vs {b} {noun} per step")
    })
}

/// Two values that differ, with enough decimals to show it.
fn shown_pair(a: f64, b: f64) -> [String; 2] {
    // Means of small batches may differ behind the point only.
    let digits = if (b - a).abs() > 1.0 { 0 } else { 2 };
    [a, b].map(|value| grouped(&format!("{value:.digits$}")))
}

/// Differences of what a step has to do. How many prompts of a server meet in a step is chance.
const OF_WORKLOAD: [&str; 5] = [
    "batch size",
    "prompt tokens",
    "images per prompt",
    "crops per image",
    "requests in a decode step",
];

/// Share of the kernel time of a stage, in kernels that both sides have, below which the sides do not compute the same.
const FEW_IN_COMMON: f64 = 0.05;

/// Why the sides do not compare, whatever their times are.
pub(crate) fn unlike(before: &[Run<'_>], after: &[Run<'_>], of: &Comparison) -> Vec<String> {
    let mut reasons: Vec<String> = of_programs(before, after, of);
    for difference in of.differences.iter().filter(|d| d.severity >= Warning) {
        let Difference { what, before, after, .. } = difference;
        let reason = match what.as_str() {
            "simulated" => "one GPU is simulated".to_owned(),
            "GPU" => "different GPUs".to_owned(),
            "number of GPUs" => format!("{before} vs {after} GPUs"),
            "model" => "different models".to_owned(),
            what if OF_WORKLOAD.contains(&what) => "different workloads".to_owned(),
            _ => continue,
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// What of the stages and kernels shows that the sides are not versions of one program, and their names if so.
fn of_programs(before: &[Run<'_>], after: &[Run<'_>], of: &Comparison) -> Vec<String> {
    let stages = of.stages.iter().filter(|stage| stage.apart.is_none() && stage.per != Per::Run);
    let (both, alone): (Vec<_>, Vec<_>) =
        stages.partition(|stage| stage.presence == Presence::Both);
    let mut reasons = Vec::new();
    if alone.len() > both.len() {
        let names: Vec<String> = alone.iter().map(|stage| shown(&stage.stage)).collect();
        reasons.push(format!("stages without a counterpart ({})", listed(&names, NAMED)));
    }
    let shares: Vec<f64> = both.iter().filter_map(|stage| in_common(stage)).collect();
    if !shares.is_empty() && shares.iter().all(|share| *share < FEW_IN_COMMON) {
        let none = shares.iter().all(|share| *share == 0.0);
        reasons.push(if none { "no kernel in common" } else { "few kernels in common" }.to_owned());
    }
    let [old, new] = [before, after].map(|side| side.first().and_then(|run| program(run.report)));
    if let (false, Some(old), Some(new)) = (reasons.is_empty(), old, new)
        && old != new
    {
        reasons.insert(0, format!("different programs ({old} → {new})"));
    }
    reasons
}

/// Stages that a reason names.
const NAMED: usize = 3;

/// The share of the kernel time of a stage that is in kernels of both sides, on the side where it is smaller; nothing
/// where a side has none.
fn in_common(stage: &StageChange) -> Option<f64> {
    let kernels = || stage.work.iter().filter(|row| row.kind == WorkKind::Kernel);
    let matched = |by: Option<MatchedBy>| by.is_some_and(|by| by != MatchedBy::ClassAndCalls);
    let share = |of: fn(&WorkChange) -> Option<&WorkSide>| {
        let ns = |is: &dyn Fn(&WorkChange) -> bool| -> f64 {
            kernels().filter(|row| is(row)).filter_map(of).map(|side| side.ns).sum()
        };
        let all = ns(&|_| true);
        (all > 0.0).then(|| ns(&|row| matched(row.matched_by)) / all)
    };
    Some(share(|row| row.before.as_ref())?.min(share(|row| row.after.as_ref())?))
}

/// The script, the module or the program of a run; nothing where only its captures were read.
fn program(report: &Report) -> Option<String> {
    let words = report.run.command.as_ref()?;
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let script = words.iter().find(|word| word.ends_with(".py"));
    let module = words.iter().skip_while(|word| *word != "-m").nth(1);
    let found = name(script.or(module).or(words.first())?);
    (found != "stage2-launch").then(|| shown(&found))
}

/// What a command is shown as whose words the other side has, too.
const NO_OTHER_WORDS: &str = "no other arguments";

/// The values of the runs of a side; `none` where there are none.
fn joined(values: BTreeSet<String>, none: &str) -> String {
    match values.is_empty() {
        true => none.to_owned(),
        false => shorten(&values.into_iter().collect::<Vec<_>>().join(" | "), VALUE_LIMIT),
    }
}

/// Each text of a side with only those of its parts that no text of the other side has: `shown`, or `none` of no part.
fn without_shared(
    side: &BTreeSet<String>,
    others: &BTreeSet<String>,
    between: &str,
    none: &str,
    shown: impl Fn(String) -> String,
) -> BTreeSet<String> {
    let known: BTreeSet<&str> = others.iter().flat_map(|text| text.split(between)).into_set();
    let own = |text: &String| {
        let own: Vec<&str> = text.split(between).filter(|part| !known.contains(part)).collect();
        if own.is_empty() { none.to_owned() } else { shown(own.join(between)) }
    };
    side.iter().map(own).collect()
}

/// The words of each command that no command of the other side has: a long one would be cut before them. Commands that
/// differ in the order of their words are whole.
fn other_words(
    old: BTreeSet<String>,
    new: BTreeSet<String>,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let of = |side, others| {
        without_shared(side, others, " ", NO_OTHER_WORDS, |words| format!("… {words}"))
    };
    let (a, b) = (of(&old, &new), of(&new, &old));
    match a.iter().chain(&b).all(|words| words == NO_OTHER_WORDS) {
        true => (old, new),
        false => (a, b),
    }
}

/// The settings of a side that the other one does not have in the same way.
fn other_settings(
    old: BTreeSet<String>,
    new: BTreeSet<String>,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let of = |side, others| without_shared(side, others, ", ", "none of these", |all| all);
    (of(&old, &new), of(&new, &old))
}

/// The words of each command that not all commands of both sides have.
fn own_words(old: BTreeSet<String>, new: BTreeSet<String>) -> (BTreeSet<String>, BTreeSet<String>) {
    let words =
        |command: &String| -> BTreeSet<String> { command.split(' ').map(str::to_owned).collect() };
    let shared = old.iter().chain(&new).map(words);
    let shared = shared.reduce(|all, of| all.intersection(&of).cloned().collect());
    let shared = shared.unwrap_or_default();
    let own = |commands: BTreeSet<String>| -> BTreeSet<String> {
        let own = |command: String| {
            let words: Vec<&str> = command.split(' ').filter(|it| !shared.contains(*it)).collect();
            match words.is_empty() {
                true => NO_MORE_WORDS.to_owned(),
                false => format!("… {}", words.join(" ")),
            }
        };
        let words: BTreeSet<String> = commands.iter().cloned().map(own).into_set();
        // They differ in the order of their words.
        if words.len() < commands.len() { commands } else { words }
    };
    (own(old), own(new))
}

/// What a command is shown as whose words all others have, too.
const NO_MORE_WORDS: &str = "no other words";

fn of_one_side(before: &[Run<'_>], after: &[Run<'_>]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |severity, what: &str, before: String, after: String, meaning: &str| {
        let (what, meaning) = (what.to_owned(), meaning.to_owned());
        found.push(Difference { severity, what, before, after, meaning });
    };
    for (what, meaning, is) in OF_ONE_SIDE {
        let [a, b] = [before, after].map(|side| side.iter().filter_map(is).into_set());
        if !a.is_empty() || !b.is_empty() {
            add(Warning, what, joined(a, "no"), joined(b, "no"), meaning);
        }
    }
    if before.iter().chain(after).all(|run| run.report.simulated) {
        let meaning =
            "GPU times are replayed from a recording, so they say nothing about this machine";
        add(Note, "simulated", "yes".to_owned(), "yes".to_owned(), meaning);
    }
    for (what, meaning, tolerance, of) in NUMBERS {
        let [a, b] = [before, after].map(|side| {
            median(&side.iter().filter_map(|run| of(run.report)).collect::<Vec<f64>>())
        });
        let (Some(a), Some(b)) = (a, b) else { continue };
        if (b - a).abs() > tolerance * a.abs().max(b.abs()) {
            let [a, b] = shown_pair(a, b);
            add(Warning, what, a, b, meaning);
        }
    }
    if let Some([a, b]) = apart_in_time(before, after) {
        let meaning = "what else changed in the meantime looks like a change: record the runs of both sides interleaved";
        add(Warning, ORDER_OF_RUNS, a.to_owned(), b.to_owned(), meaning);
    }
    let missing = [missing_stages(before), missing_stages(after)];
    if missing.iter().any(Option::is_some) {
        let [a, b] = missing.map(|missing| missing.unwrap_or_else(|| "none".to_owned()));
        add(Warning, MISSING_STAGES, a, b, "their numbers are of the runs that have them");
    }
    found
}

/// A fact of the configuration, a list of `KEY=VALUE`.
const COLLECTOR_SETTINGS: &str = "collector settings";
/// What a difference is called of stages that some runs of a side lack.
const MISSING_STAGES: &str = "stages missing from some runs of a side";
/// Begins what a difference is called of what a step is.
const TIMING_OF: &str = "timing of ";
/// Ends the name of the difference between sides whose runs have several commands.
pub(crate) const MIX_COMMANDS: &str = "commands";

/// Name of the difference between sides if all runs of one were recorded before those of the other.
pub const ORDER_OF_RUNS: &str = "order of the runs";
/// How the line `comparable` words [`ORDER_OF_RUNS`].
pub(crate) const NOT_INTERLEAVED: &str = "runs not interleaved";

/// Which side was recorded first, where several runs of each are known to lie apart in time.
fn apart_in_time(before: &[Run<'_>], after: &[Run<'_>]) -> Option<[&'static str; 2]> {
    // Times in UTC are in the order of their letters.
    let started = |run: &Run<'_>| run.report.run.started.clone().filter(|at| at.ends_with('Z'));
    let times = |side: &[Run<'_>]| -> Option<Vec<String>> { side.iter().map(started).collect() };
    let (a, b) = (times(before)?, times(after)?);
    let is_first = |one: &[String], other: &[String]| one.iter().max() < other.iter().min();
    match a.len().min(b.len()) > 1 {
        true if is_first(&a, &b) => Some(["all earlier", "all later"]),
        true if is_first(&b, &a) => Some(["all later", "all earlier"]),
        _ => None,
    }
}

/// Differences of the machine at the time, and not of what ran on it.
const OF_MACHINE: [&str; 5] = [
    "overloaded processors",
    "SM clock, MHz",
    "memory clock, MHz",
    "clock throttle reasons",
    ORDER_OF_RUNS,
];

/// Differences that are warned of and do not make the times differ by themselves, or are what the user may have changed.
const NOT_OF_TIMES: [&str; 8] = [
    // The times of that stage are inconclusive.
    PREFILL_TOKENS,
    "CUDA graphs",
    "graph mode",
    "ranges filter",
    "samples of the host",
    "mode",
    MISSING_STAGES,
    "a part of the report could not be read",
];

impl Comparison {
    /// Differences, other than the change under test, that can affect times.
    pub(crate) fn doubts(&self) -> Vec<&Difference> {
        let is_of_times = |d: &&Difference| {
            let is_other = d.before != d.after || d.what.ends_with(MIX_COMMANDS);
            let is_named = NOT_OF_TIMES.contains(&d.what.as_str()) || d.what.starts_with(TIMING_OF);
            d.severity >= Warning && is_other && !is_named
        };
        self.differences.iter().filter(is_of_times).collect()
    }

    /// Whether the sides run another number of calls at once: then the times of calls do not say what a side delivers.
    pub fn has_other_concurrency(&self) -> bool {
        self.doubts().iter().any(|difference| difference.what == CONCURRENT)
    }
}

/// Whether no difference of the program, its libraries or its work on the GPU is known, so that a change may be one of the
/// machine alone.
pub(crate) fn is_same_program(of: &Comparison) -> bool {
    let is_same = |d: &Difference| d.before == d.after || OF_MACHINE.contains(&d.what.as_str());
    let is_equal = |row: &WorkChange| row.presence() == Presence::Both && !row.verdict.is_change();
    let has_same_work = |stage: &&StageChange| {
        let is_busier = stage.metric("gpu_busy_ms").is_some_and(|busy| busy.verdict.is_change());
        stage.presence == Presence::Both && !is_busier && stage.work.iter().all(is_equal)
    };
    let has_same_libraries = of.libraries.is_empty();
    of.differences.iter().all(is_same)
        && has_same_libraries
        && of.of_model().iter().all(has_same_work)
}

/// Stages that some runs of a side have, and others have not.
fn missing_stages(side: &[Run<'_>]) -> Option<String> {
    let mut runs_of: BTreeMap<&str, usize> = BTreeMap::new();
    for run in side {
        let rows = run.report.stages.iter().filter(|row| row.apart.is_none());
        let names: BTreeSet<&str> = rows.map(|row| row.stage.as_str()).into_set();
        names.into_iter().for_each(|name| *runs_of.entry(name).or_default() += 1);
    }
    let missing: Vec<String> = runs_of
        .into_iter()
        .filter(|(_, runs)| *runs < side.len())
        .map(|(name, runs)| format!("{} (in {runs} of {} runs)", shown(name), side.len()))
        .collect();
    (!missing.is_empty()).then(|| shorten(&missing.join(", "), VALUE_LIMIT))
}

/// Every fact of a side, with all values that its runs have.
fn values(side: &[Run<'_>]) -> BTreeMap<Topic, BTreeSet<String>> {
    let mut found: BTreeMap<Topic, BTreeSet<String>> = BTreeMap::new();
    for run in side {
        let known = facts(run.report).into_iter().filter_map(|(what, value)| {
            let (_, severity, meaning) = TOPICS.iter().find(|(known, ..)| *known == what)?;
            Some((Topic::new(what, *severity, meaning), value?))
        });
        for (topic, value) in known.chain(environment(run.report)).chain(steps(run.report)) {
            // Only the words of a command that differ are shown.
            let is_command = topic.what == "command";
            let value = if is_command { visible(value.as_bytes()) } else { shown(&value) };
            found.entry(topic).or_default().insert(value);
        }
    }
    found
}

/// The facts of a report by the names of [`TOPICS`], except for those of the environment.
fn facts(report: &Report) -> Vec<(&'static str, Option<String>)> {
    let processes = &report.coverage.processes;
    let yes_or_no = |is: bool| Some(if is { "yes" } else { "no" }.to_owned());
    let device = |of: fn(&stage2_model::DeviceRow) -> Option<String>| {
        distinct(report.devices.iter().filter_map(of))
    };
    let meta = |key: &str| distinct(processes.iter().filter_map(|p| p.meta.get(key).cloned()));
    // Without the key everything was recorded.
    let part = |key: &str| meta(key).or_else(|| (!processes.is_empty()).then(|| "all".to_owned()));
    let profiled = |what: &str| {
        report.run.profiled.iter().find(|fact| fact.key == what).map(|fact| fact.value.clone())
    };
    let some = |number: usize| (number > 0).then(|| number.to_string());
    let used = report.insight.utilisation.as_ref();
    let tokens = |of: fn(&stage2_model::TokenCounts) -> Option<u64>| {
        used.and_then(|used| of(&used.tokens)).map(count)
    };
    let with_work = processes.iter().filter(|process| process.counts.kernels > 0).count();
    vec![
        ("simulated", yes_or_no(report.simulated)),
        ("GPU", device(|row| row.name.clone())),
        ("number of GPUs", some(report.devices.len())),
        ("model", used.and_then(|used| used.model_name.clone())),
        ("batch size", tokens(|tokens| tokens.batch_size)),
        ("prompt tokens", tokens(|tokens| tokens.prompt_tokens)),
        ("decode steps", tokens(|tokens| tokens.decode_steps)),
        ("images per prompt", tokens(|tokens| tokens.images_per_prompt)),
        ("crops per image", tokens(|tokens| tokens.crops_per_image)),
        ("source of the rows", Some(report.source.clone())),
        ("sampling", part(META_SAMPLE)),
        ("ranges filter", part(META_RANGES)),
        ("graph mode", meta("graph")),
        ("annotation", profiled("annotation")),
        ("CUDA graphs", graphs(report)),
        ("clock throttle reasons", clock_limits(report)),
        ("samples of the host", yes_or_no(report.host.is_some())),
        ("mode", profiled("mode")),
        // It is known without the configuration of the run.
        (
            "counters sampled with the records",
            yes_or_no(report.sampled.as_ref().is_some_and(|sampled| !sampled.own_run)),
        ),
        // YAML has two words for each of these.
        (
            COLLECTOR_SETTINGS,
            profiled(COLLECTOR_SETTINGS)
                .map(|all| all.replace("=true", "=on").replace("=false", "=off")),
        ),
        ("attribution", meta("attribution")),
        (CONCURRENT, Some(calls_at_a_time(report))),
        ("processes with GPU work", Some(with_work.to_string())),
        ("ranks", (report.ranks.seen > 0).then(|| report.ranks.seen.to_string())),
        ("GPU clock", device(|row| row.core_clock_khz.map(|khz| format!("{} MHz", khz / 1000)))),
        ("command", report.run.command.as_ref().map(|words| words.join(" "))),
        ("collector", distinct(processes.iter().filter_map(|p| p.collector.clone()))),
        ("schema version", Some(report.schema_version.to_string())),
        ("CUPTI", meta("cupti.version")),
        ("CUPTI's activity API", meta("cupti.api")),
    ]
}

fn distinct(values: impl Iterator<Item = String>) -> Option<String> {
    let values: BTreeSet<String> = values.into_set();
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(", "))
}

fn environment(report: &Report) -> impl Iterator<Item = (Topic, String)> {
    // What is free or used says nothing about the workload.
    let facts = report.run.environment.iter();
    let facts = facts.filter(|fact| !fact.key.starts_with("host.memory") && !is_version(&fact.key));
    facts.map(|fact| {
        let key = fact.key.as_str();
        let name = match key {
            "gpu.driver" => Some("driver"),
            "gpu.cuda_driver" => Some("CUDA of the driver"),
            "host.cpu" => Some("CPU"),
            "host.name" => Some("host"),
            _ => None,
        };
        let topic = name.and_then(|name| TOPICS.iter().find(|topic| topic.0 == name));
        let (what, meaning) = match topic {
            Some((what, _, meaning)) => ((*what).to_owned(), *meaning),
            None if key.to_ascii_lowercase().contains("clock") => {
                (in_words(key), "clocks change all times")
            }
            None => (in_words(key), "part of the environment"),
        };
        let severity = topic.map_or(Note, |topic| topic.1);
        (Topic::new(&shown(&what), severity, meaning), fact.value.clone())
    })
}

/// What a fact of the environment is that no topic names.
fn in_words(key: &str) -> String {
    if let Some(variable) = key.strip_prefix("variables.") {
        return format!("variable {variable}");
    }
    let words = match key {
        "host.cpus" => "number of processors",
        "host.kernel" => "Linux kernel",
        "host.os" => "operating system",
        "python.version" => "Python",
        "python.interpreter" => "Python interpreter",
        "gpu.absent" => "reason why no GPU is found",
        key => key,
    };
    words.replace(['.', '_'], " ")
}

/// What a step of each stage of the model is. Where that differs, whole calls are compared.
fn steps(report: &Report) -> impl Iterator<Item = (Topic, String)> {
    let timed = report.stages.iter().filter(|row| row.apart.is_none());
    timed.filter(|row| row.host_warm_median_ns.is_some()).map(|row| {
        let answer = report.answer.stages.iter().find(|answer| answer.stage == row.stage);
        let step = answer.and_then(|answer| answer.step.as_ref());
        let path = step.and_then(|step| step.path.as_ref()).filter(|path| **path != row.stage);
        let noun = step.map_or(StepUnit::Instance, |step| step.unit).noun();
        let is_of_engine = step.is_some_and(|step| step.unit == StepUnit::OfEngine);
        let value = match path {
            Some(path) => format!("{noun}s of {path}"),
            None if is_of_engine => format!("{noun}s of the engine"),
            None => format!("{noun}s"),
        };
        let what = format!("{TIMING_OF}{}", shown(&row.stage));
        let meaning =
            "some runs time engine steps or steps within a call, others time calls: only times of the same kind are \
             compared, those of whole calls if both sides have them";
        (Topic::new(&what, Warning, meaning), value)
    })
}

fn shown(text: &str) -> String {
    shorten(&visible(text.as_bytes()), VALUE_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_show_what_differs_and_are_whole_where_only_the_order_does() {
        let set = |command: &str| BTreeSet::from([command.to_owned()]);
        let words = |old: &str, new: &str| other_words(set(old), set(new));
        assert_eq!(
            words("serve m --tp 2", "serve m"),
            (set("… --tp 2"), set("no other arguments"))
        );
        let (old, new) = ("serve m --tp 2 --dp 4", "serve m --tp 4 --dp 2");
        assert_eq!(words(old, new), (set(old), set(new)));
        let settings = other_settings(set("graph=node, host=1000"), set("graph=node, host=on"));
        assert_eq!(settings, (set("host=1000"), set("host=on")), "the others are the same");
    }
}
