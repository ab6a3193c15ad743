//! The reports of both sides -> what differs besides the numbers, and what that means for them.

use std::collections::{BTreeMap, BTreeSet};

use stage2_contract::text::{shorten, visible};
use stage2_model::{META_RANGES, META_SAMPLE, Report, Severity, Status};

use crate::comparison::Difference;
use crate::run::Run;

/// Characters of a value.
const VALUE_LIMIT: usize = 160;
const UNKNOWN: &str = "not known";

/// A fact of a run that its numbers depend on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Topic {
    /// Order of the list.
    at: usize,
    what: String,
    severity: Severity,
    meaning: &'static str,
}

/// What differs, warnings first.
pub(crate) fn differences(before: &[Run<'_>], after: &[Run<'_>]) -> Vec<Difference> {
    let mut found = in_themselves(before, after);
    let (a, b) = (values(before), values(after));
    let topics: BTreeSet<&Topic> = a.keys().chain(b.keys()).collect();
    for topic in topics {
        let of =
            |side: &BTreeMap<Topic, BTreeSet<String>>| side.get(topic).cloned().unwrap_or_default();
        let (old, new) = (of(&a), of(&b));
        let varies = old.len() > 1 || new.len() > 1;
        if old == new && !varies {
            continue;
        }
        let text = |values: BTreeSet<String>| match values.is_empty() {
            true => UNKNOWN.to_owned(),
            false => shorten(&values.into_iter().collect::<Vec<_>>().join(" | "), VALUE_LIMIT),
        };
        let known = !old.is_empty() && !new.is_empty();
        found.push(Difference {
            // Whatever nobody knows is no reason to warn.
            severity: if known { topic.severity } else { Severity::Note },
            what: topic.what.clone(),
            before: text(old),
            after: text(new),
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

/// What has to be known of a side although both may be alike.
fn in_themselves(before: &[Run<'_>], after: &[Run<'_>]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut say = |severity, what: &str, is: &dyn Fn(&Run<'_>) -> Option<String>, meaning: &str| {
        let of = |side: &[Run<'_>]| -> BTreeSet<String> { side.iter().filter_map(is).collect() };
        let (a, b) = (of(before), of(after));
        if a.is_empty() && b.is_empty() {
            return;
        }
        let text = |texts: BTreeSet<String>| match texts.is_empty() {
            true => "no".to_owned(),
            false => shorten(&texts.into_iter().collect::<Vec<_>>().join(" | "), VALUE_LIMIT),
        };
        found.push(Difference {
            severity,
            what: what.to_owned(),
            before: text(a),
            after: text(b),
            meaning: meaning.to_owned(),
        });
    };
    say(
        Severity::Warning,
        "coverage is partial",
        &|run| {
            let verdict = &run.report.coverage.verdict;
            (verdict.status == Status::Partial).then(|| shown(&verdict.text))
        },
        "what was not recorded is in no number: calls and times may be smaller for that alone",
    );
    say(
        Severity::Warning,
        "the workload ended early",
        &|run| run.report.run.workload_end.as_ref().map(|end| shown(&end.text)),
        "the numbers cover what it did until then",
    );
    say(
        Severity::Warning,
        "a part of the report could not be read",
        &|run| (!run.left_out.is_empty()).then(|| shown(&run.left_out.join("; "))),
        "numbers from it are missing; write the report again with `stage2-launch report`",
    );
    let simulated = |side: &[Run<'_>]| side.iter().all(|run| run.report.simulated);
    if simulated(before) && simulated(after) {
        say(
            Severity::Note,
            "simulated",
            &|run| run.report.simulated.then(|| "yes".to_owned()),
            "times of GPU work are those of a recording, and say nothing about this machine",
        );
    }
    let missing = [missing_stages(before), missing_stages(after)];
    if missing.iter().any(Option::is_some) {
        let [a, b] = missing.map(|missing| missing.unwrap_or_else(|| "none".to_owned()));
        found.push(Difference {
            severity: Severity::Warning,
            what: "stages that not every run of a side has".to_owned(),
            before: a,
            after: b,
            meaning: "their numbers are of the runs that have them".to_owned(),
        });
    }
    found
}

/// Stages that some runs of a side have, and others have not.
fn missing_stages(side: &[Run<'_>]) -> Option<String> {
    let mut runs_of: BTreeMap<&str, usize> = BTreeMap::new();
    for run in side {
        let names: BTreeSet<&str> = run
            .report
            .stages
            .iter()
            .filter(|row| row.apart.is_none())
            .map(|row| row.stage.as_str())
            .collect();
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
        for (topic, value) in facts(run.report) {
            found.entry(topic).or_default().insert(shown(&value));
        }
    }
    found
}

fn facts(report: &Report) -> Vec<(Topic, String)> {
    let mut facts = Facts { found: Vec::new() };
    facts.devices(report);
    let simulated = if report.simulated { "yes" } else { "no" };
    facts.warn(
        "simulated",
        Some(simulated.to_owned()),
        "times of one side are those of a recording: do not compare them",
    );
    facts.warn(
        "source of the rows",
        Some(report.source.clone()),
        "tools measure differently: compare runs of one tool",
    );
    facts.model(report);
    facts.capture(report);
    facts.processes(report);
    facts.environment(report);
    let command = report.run.command.as_ref().map(|words| words.join(" "));
    facts.note("command", command, "it is expected where the change is one of its arguments");
    let versions: BTreeSet<&str> =
        report.coverage.processes.iter().filter_map(|p| p.collector.as_deref()).collect();
    let versions: Vec<&str> = versions.into_iter().collect();
    facts.note(
        "collector",
        (!versions.is_empty()).then(|| versions.join(", ")),
        "versions may cost the workload differently",
    );
    facts.note(
        "schema version",
        Some(report.schema_version.to_string()),
        "numbers that the older version does not have are missing",
    );
    facts.found
}

struct Facts {
    found: Vec<(Topic, String)>,
}

impl Facts {
    fn add(
        &mut self,
        severity: Severity,
        what: &str,
        value: Option<String>,
        meaning: &'static str,
    ) {
        // The same facts of every report come in the same order, but for what one lacks.
        let at = ORDER.iter().position(|known| *known == what).unwrap_or(ORDER.len());
        if let Some(value) = value {
            self.found.push((Topic { at, what: what.to_owned(), severity, meaning }, value));
        }
    }

    fn warn(&mut self, what: &str, value: Option<String>, meaning: &'static str) {
        self.add(Severity::Warning, what, value, meaning);
    }

    fn note(&mut self, what: &str, value: Option<String>, meaning: &'static str) {
        self.add(Severity::Note, what, value, meaning);
    }

    fn devices(&mut self, report: &Report) {
        let distinct = |of: &dyn Fn(&stage2_model::DeviceRow) -> Option<String>| {
            let values: BTreeSet<String> = report.devices.iter().filter_map(of).collect();
            (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(", "))
        };
        self.warn(
            "GPU",
            distinct(&|row| row.name.clone()),
            "times differ for that reason alone: calls can be compared, times cannot",
        );
        let count = report.devices.len();
        self.warn(
            "number of GPUs",
            (count > 0).then(|| count.to_string()),
            "sums are over different numbers of GPUs",
        );
        self.note(
            "GPU clock",
            distinct(&|row| row.core_clock_khz.map(|khz| format!("{} MHz", khz / 1000))),
            "the highest clock that the GPU states; actual clocks are not in a report",
        );
    }

    fn model(&mut self, report: &Report) {
        let Some(used) = &report.insight.utilisation else { return };
        self.warn("model", used.model_name.clone(), "the sides compute different things");
        let tokens = &used.tokens;
        for (what, count) in [
            ("batch size", tokens.batch_size),
            ("prompt tokens", tokens.prompt_tokens),
            ("images per prompt", tokens.images_per_prompt),
            ("crops per image", tokens.crops_per_image),
        ] {
            self.warn(
                what,
                count.map(|count| count.to_string()),
                "a step does a different amount of work",
            );
        }
        self.warn(
            "decode steps",
            tokens.decode_steps.map(|count| count.to_string()),
            "decode is compared per token; later tokens read a longer KV cache",
        );
    }

    fn capture(&mut self, report: &Report) {
        let meta = |key: &str| {
            let values: BTreeSet<&str> = report
                .coverage
                .processes
                .iter()
                .filter_map(|p| p.meta.get(key))
                .map(String::as_str)
                .collect();
            let all = !report.coverage.processes.is_empty();
            match values.is_empty() {
                false => Some(values.into_iter().collect::<Vec<_>>().join(", ")),
                // Without the key everything was recorded.
                true => {
                    (all && [META_SAMPLE, META_RANGES].contains(&key)).then(|| "all".to_owned())
                }
            }
        };
        self.warn(
            "sampling",
            meta(META_SAMPLE),
            "calls and times of a sample are scaled, its busy times are of fewer instances",
        );
        self.warn("ranges filter", meta(META_RANGES), "work outside of the filter is in no number");
        self.warn(
            "graph mode",
            meta("graph"),
            "one side shows CUDA graphs as a whole, and the other their kernels",
        );
        self.warn("attribution", meta("attribution"), "its cost per launch differs");
        self.profiled(report);
        self.note("CUPTI", meta("cupti.version"), "versions may cost the workload differently");
        self.note("CUPTI's activity API", meta("cupti.api"), "its cost per launch differs");
    }

    /// How the workload was profiled. Counters beside the records are known without the configuration.
    fn profiled(&mut self, report: &Report) {
        let beside = report.sampled.as_ref().is_some_and(|sampled| !sampled.own_run);
        self.warn(
            "counters sampled beside the records",
            Some(if beside { "yes" } else { "no" }.to_owned()),
            "sampling makes kernels up to 2 % longer",
        );
        for (what, meaning) in [
            ("annotation", "ranges that the launcher opens cost host time, and make other stages"),
            ("mode", "only a deep run has counters of ncu, and the timeline of nsys"),
            ("collector settings", "the collector costs the workload differently"),
        ] {
            let fact = report.run.profiled.iter().find(|fact| fact.key == what);
            self.warn(what, fact.map(|fact| fact.value.clone()), meaning);
        }
    }

    fn processes(&mut self, report: &Report) {
        let processes = report.coverage.processes.iter().filter(|p| p.counts.kernels > 0).count();
        self.warn(
            "processes with GPU work",
            Some(processes.to_string()),
            "sums are over different numbers of processes",
        );
        let ranks = (report.ranks.seen > 0).then(|| report.ranks.seen.to_string());
        self.warn("ranks", ranks, "a stage has the instances of all ranks");
    }

    fn environment(&mut self, report: &Report) {
        for fact in &report.run.environment {
            let (what, meaning) = match fact.key.as_str() {
                "gpu.driver" => ("driver", "drivers launch and schedule differently"),
                "gpu.cuda_driver" => ("CUDA of the driver", "libraries may choose other kernels"),
                "host.cpu" => ("CPU", "host times, launch gaps and idle times depend on it"),
                "host.name" => {
                    ("host", "another machine, perhaps with other clocks and neighbours")
                }
                // What is free or used says nothing about the workload.
                key if key.starts_with("host.memory") => continue,
                key if key.to_ascii_lowercase().contains("clock") => {
                    (key, "clocks change all times")
                }
                key => (key, "part of the environment"),
            };
            self.note(&shown(what), Some(fact.value.clone()), meaning);
        }
    }
}

/// What people ask for first.
const ORDER: [&str; 26] = [
    "simulated",
    "GPU",
    "number of GPUs",
    "model",
    "batch size",
    "prompt tokens",
    "decode steps",
    "images per prompt",
    "crops per image",
    "source of the rows",
    "sampling",
    "ranges filter",
    "graph mode",
    "annotation",
    "mode",
    "counters sampled beside the records",
    "collector settings",
    "attribution",
    "processes with GPU work",
    "ranks",
    "driver",
    "CUDA of the driver",
    "GPU clock",
    "CPU",
    "host",
    "command",
];

fn shown(text: &str) -> String {
    shorten(&visible(text.as_bytes()), VALUE_LIMIT)
}
