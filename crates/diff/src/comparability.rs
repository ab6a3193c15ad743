//! The reports of both sides -> what differs besides the numbers, and what that means for them.

use std::collections::{BTreeMap, BTreeSet};

use Severity::{Note, Warning};
use stage2_contract::text::{shorten, visible};
use stage2_model::{META_RANGES, META_SAMPLE, Report, Severity, Status};

use crate::compare::Run;
use crate::comparison::Difference;

const VALUE_LIMIT: usize = 160;

type TextOf = fn(&Run<'_>) -> Option<String>;

/// What has to be known of a side although both may be alike: what it is, what it means, and the text of a
/// run that it holds for.
const OF_ONE_SIDE: [(&str, &str, TextOf); 3] = [
    (
        "coverage is partial",
        "what was not recorded is in no number: calls and times may be smaller for that alone",
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

/// Facts of a run that its numbers depend on, with the weight and the meaning of a difference. The first
/// [`IN_ORDER`] come in this order, as people ask for them; all others by name.
const TOPICS: [(&str, Severity, &str); 30] = [
    ("simulated", Warning, "times of one side are those of a recording: do not compare them"),
    ("GPU", Warning, "times differ for that reason alone: calls can be compared, times cannot"),
    ("number of GPUs", Warning, "sums are over different numbers of GPUs"),
    ("model", Warning, "the sides compute different things"),
    ("batch size", Warning, "a step does a different amount of work"),
    ("prompt tokens", Warning, "a step does a different amount of work"),
    ("decode steps", Warning, "decode is compared per token; later tokens read a longer KV cache"),
    ("images per prompt", Warning, "a step does a different amount of work"),
    ("crops per image", Warning, "a step does a different amount of work"),
    ("source of the rows", Warning, "tools measure differently: compare runs of one tool"),
    (
        "sampling",
        Warning,
        "calls and times of a sample are scaled, its busy times are of fewer instances",
    ),
    ("ranges filter", Warning, "work outside of the filter is in no number"),
    ("graph mode", Warning, "one side shows CUDA graphs as a whole, and the other their kernels"),
    ("annotation", Warning, "ranges that the launcher opens cost host time, and make other stages"),
    ("mode", Warning, "only a deep run has counters of ncu, and the timeline of nsys"),
    ("counters sampled beside the records", Warning, "sampling makes kernels up to 2 % longer"),
    ("collector settings", Warning, "the collector costs the workload differently"),
    ("attribution", Warning, "its cost per launch differs"),
    ("processes with GPU work", Warning, "sums are over different numbers of processes"),
    ("ranks", Warning, "a stage has the instances of all ranks"),
    ("driver", Note, "drivers launch and schedule differently"),
    ("CUDA of the driver", Note, "libraries may choose other kernels"),
    ("GPU clock", Note, "the highest clock that the GPU states; actual clocks are not in a report"),
    ("CPU", Note, "host times, launch gaps and idle times depend on it"),
    ("host", Note, "another machine, perhaps with other clocks and neighbours"),
    ("command", Note, "it is expected where the change is one of its arguments"),
    ("collector", Note, "versions may cost the workload differently"),
    ("schema version", Note, "numbers that the older version does not have are missing"),
    ("CUPTI", Note, "versions may cost the workload differently"),
    ("CUPTI's activity API", Note, "its cost per launch differs"),
];
const IN_ORDER: usize = 26;

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
    let topics: BTreeSet<Topic> = a.keys().chain(b.keys()).cloned().collect();
    for topic in topics {
        let (old, new) =
            (a.remove(&topic).unwrap_or_default(), b.remove(&topic).unwrap_or_default());
        let varies = old.len() > 1 || new.len() > 1;
        if old == new && !varies {
            continue;
        }
        let known = !old.is_empty() && !new.is_empty();
        found.push(Difference {
            // Whatever nobody knows is no reason to warn.
            severity: if known { topic.severity } else { Note },
            what: topic.what,
            before: joined(old, "not known"),
            after: joined(new, "not known"),
            meaning: match (known, varies) {
                (false, _) => "one side does not say".to_owned(),
                (true, true) => format!("{} (the runs of a side differ)", topic.meaning),
                (true, false) => topic.meaning.to_owned(),
            },
        });
    }
    found.sort_by_key(|difference| std::cmp::Reverse(difference.severity));
    found
}

/// The values of the runs of a side; `none` where there are none.
fn joined(values: BTreeSet<String>, none: &str) -> String {
    match values.is_empty() {
        true => none.to_owned(),
        false => shorten(&values.into_iter().collect::<Vec<_>>().join(" | "), VALUE_LIMIT),
    }
}

fn of_one_side(before: &[Run<'_>], after: &[Run<'_>]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |severity, what: &str, before: String, after: String, meaning: &str| {
        let (what, meaning) = (what.to_owned(), meaning.to_owned());
        found.push(Difference { severity, what, before, after, meaning });
    };
    for (what, meaning, is) in OF_ONE_SIDE {
        let [a, b] =
            [before, after].map(|side| side.iter().filter_map(is).collect::<BTreeSet<_>>());
        if !a.is_empty() || !b.is_empty() {
            add(Warning, what, joined(a, "no"), joined(b, "no"), meaning);
        }
    }
    if before.iter().chain(after).all(|run| run.report.simulated) {
        let meaning =
            "times of GPU work are those of a recording, and say nothing about this machine";
        add(Note, "simulated", "yes".to_owned(), "yes".to_owned(), meaning);
    }
    let missing = [missing_stages(before), missing_stages(after)];
    if missing.iter().any(Option::is_some) {
        let [a, b] = missing.map(|missing| missing.unwrap_or_else(|| "none".to_owned()));
        let what = "stages that not every run of a side has";
        add(Warning, what, a, b, "their numbers are of the runs that have them");
    }
    found
}

/// Stages that some runs of a side have, and others have not.
fn missing_stages(side: &[Run<'_>]) -> Option<String> {
    let mut runs_of: BTreeMap<&str, usize> = BTreeMap::new();
    for run in side {
        let rows = run.report.stages.iter().filter(|row| row.apart.is_none());
        let names: BTreeSet<&str> = rows.map(|row| row.stage.as_str()).collect();
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
        for (topic, value) in known.chain(environment(run.report)) {
            found.entry(topic).or_default().insert(shown(&value));
        }
    }
    found
}

/// The facts of a report by the names of [`TOPICS`], but for those of the environment.
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
        used.and_then(|used| of(&used.tokens)).map(|count| count.to_string())
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
        ("mode", profiled("mode")),
        // It is known without the configuration of the run.
        (
            "counters sampled beside the records",
            yes_or_no(report.sampled.as_ref().is_some_and(|sampled| !sampled.own_run)),
        ),
        ("collector settings", profiled("collector settings")),
        ("attribution", meta("attribution")),
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
    let values: BTreeSet<String> = values.collect();
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(", "))
}

fn environment(report: &Report) -> impl Iterator<Item = (Topic, String)> {
    // What is free or used says nothing about the workload.
    let facts = report.run.environment.iter().filter(|fact| !fact.key.starts_with("host.memory"));
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
            Some((what, _, meaning)) => (*what, *meaning),
            None if key.to_ascii_lowercase().contains("clock") => (key, "clocks change all times"),
            None => (key, "part of the environment"),
        };
        (Topic::new(&shown(what), Note, meaning), fact.value.clone())
    })
}

fn shown(text: &str) -> String {
    shorten(&visible(text.as_bytes()), VALUE_LIMIT)
}
