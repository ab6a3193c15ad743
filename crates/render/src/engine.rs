//! Steps of an inference engine -> a sentence for each kind, and tables of step time by batch.

use stage2_contract::text::numbers::{count, counted, ms3, percent1, shown_time};
use stage2_contract::text::{code, plain};
use stage2_model::{
    EngineRequests, EngineRun, EngineStepRow, EngineSteps, LayerPart, LayerRow, Report,
    RequestCost, RequestRow, Spread, StepFit, TokenCost,
};

use super::table::{Table, capitalised, decimal, sentence};

/// Heading of the section.
pub(super) const TITLE: &str = "Engine steps";

/// When a step is timed, and what its time includes: for report.md.
const MEANING: &str = "A step lasts until the next one begins, so it includes scheduling, sampling and \
    bookkeeping. A step is not timed if the next one only starts requests, because the engine may have \
    waited for them to arrive";

/// How parts of the model are told apart.
const LAYERS: &str = "The module is the one that launched the kernel when the CUDA graph was captured, found by \
    the weights that it reads. A kernel without a module belongs to a part by its class, and waiting for other \
    GPUs counts as communication. Cold first calls are left out, as in the tables of kernels";

/// How a step is shared.
const SHARES: &str = "The time of a step on all GPUs is divided equally among its tokens. The requests whose \
    prompt the step reads share the part of the prompt tokens, and the requests that decode share the rest \
    equally. The costs of input and output tokens are these parts, without pauses, over the requests with all \
    steps recorded; cached tokens count as input";

/// The section: the engine, and its steps, requests and tokens in tables.
pub(super) fn section(report: &Report) -> String {
    let Some(run) = &report.engine else { return String::new() };
    let mut out = format!("{}\n\n", sentence(&about(report, run)));
    if !run.kinds.is_empty() {
        out.push_str(&kinds(&run.kinds));
    }
    let facts: Vec<_> =
        pauses(run).into_iter().chain(run.requests.iter().flat_map(ended)).collect();
    if !facts.is_empty() {
        let table = Table::new(&facts)
            .left("engine", |(what, _)| capitalised(what))
            .left("value", |(_, value)| value.clone());
        out.push_str(&table.markdown());
    }
    let tokens: Vec<_> = run.requests.iter().flat_map(tokens).collect();
    if !tokens.is_empty() {
        out.push_str(&token_costs(&tokens));
    }
    let stages = layers(report);
    for (stage, rows) in &stages {
        out.push_str(&format!("- {}\n", sentence(&parts(stage, rows))));
    }
    if !stages.is_empty() {
        out.push('\n');
    }
    for kind in run.kinds.iter().filter(|kind| !kind.rows.is_empty()) {
        out.push_str(&format!("**{}** by batch:\n\n{}", plain(&kind.stage), table(&kind.rows)));
    }
    out.push_str(&format!("{MEANING}.\n\n"));
    for (stage, rows) in &stages {
        let table = modules(rows);
        out.push_str(&format!("**{}** by part of the model:\n\n{table}", plain(stage)));
    }
    if !stages.is_empty() {
        out.push_str(&format!("{LAYERS}.\n\n"));
    }
    if let Some(requests) = run.requests.as_ref().filter(|requests| requests.requests > 0) {
        out.push_str(&of_requests(requests));
    }
    out
}

fn about(report: &Report, run: &EngineRun) -> String {
    let EngineRun { engine, version, processes, .. } = run;
    let named = engine.as_deref().map(|name| match version {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    });
    let who = named.unwrap_or_else(|| "an engine without a name".to_owned());
    let ranks = match processes {
        1 => String::new(),
        many => {
            let mut processes = report.processes.iter();
            let process = processes.find(|process| process.file == run.file);
            let rank = process.and_then(|process| process.rank);
            let who = rank.map_or_else(|| run.file.clone(), |rank| format!("rank {rank}"));
            format!(" in {many} processes; the steps are those of {who}")
        }
    };
    let other = match run.other_steps {
        0 => String::new(),
        steps => {
            format!("; {} in no row, because there are too many batches", counted(steps, "step"))
        }
    };
    format!("{who}{ranks}{other}")
}

/// How long the engine had nothing to do, or let requests wait; nothing if it never paused.
fn pauses(run: &EngineRun) -> Vec<(&'static str, String)> {
    let EngineRun { pauses, pause_ns, extent_ns, .. } = run;
    let time = |ns: u64| shown_time(ns as f64);
    if *pauses == 0 {
        return Vec::new();
    }
    let percent = percent1(*pause_ns as f64 * 100.0 / (*extent_ns).max(1) as f64);
    let first = run.first_step_ns.map(|ns| ("first step, which may load and compile", time(ns)));
    let waiting = run.waiting_pause_ns.map(|ns| ("time in pauses while requests waited", time(ns)));
    let all = ("from the start of the first step to the end of the last one", time(*extent_ns));
    let paused = [
        ("pauses before steps that only start requests", count(*pauses)),
        ("time in these pauses", format!("{} ({percent} %)", time(*pause_ns))),
    ];
    [all].into_iter().chain(first).chain(paused).chain(waiting).collect()
}

/// What the steps of each kind hold, and what they take.
fn kinds(kinds: &[EngineSteps]) -> String {
    let some = |mean: f64| (mean > 0.0).then(|| decimal(Some(mean), 1));
    // Reports of older versions count the timed ones only where others are not.
    let timed =
        |kind: &EngineSteps| if kind.timed_steps > 0 { kind.timed_steps } else { kind.steps };
    let time = |ns: Option<u64>| ns.map(ms3);
    // A step of a prefill has prompts alone.
    let context = |kind: &EngineSteps| {
        let all = kind.decode_context_mean.filter(|_| kind.decode_requests_mean > 0.0)?;
        Some(decimal(Some(all / kind.decode_requests_mean.max(1.0)), 0))
    };
    let mut out = Table::new(kinds)
        .left("steps of", |kind| code(&kind.stage))
        .right("steps", |kind| count(kind.steps))
        .right("timed", |kind| kind.p50_ns.map(|_| count(timed(kind))))
        .right("p50_ms", |kind| time(kind.p50_ns))
        .right("p99_ms", |kind| tail(kind.p99_ns, timed(kind)))
        .right("tokens/s", |kind| kind.tokens_per_s.map(|rate| count(rate.round() as u64)))
        .right("requests that decode (mean)", |kind| some(kind.decode_requests_mean))
        .right("tokens of context of each (mean)", context)
        .right("prompts (mean)", |kind| some(kind.prefill_requests_mean))
        .right("prompt tokens (mean)", |kind| {
            kind.prefill_tokens_mean
                .filter(|_| kind.prefill_requests_mean > 0.0)
                .map(|n| decimal(Some(n), 0))
        })
        .left("fit of the step time", |kind| kind.fit.as_ref().map(line))
        .markdown();
    if kinds.iter().any(|kind| kind.p50_ns.is_none()) {
        out.push_str("No time is known where no step continues the requests of another one.\n\n");
    }
    out
}

/// `1.80 ms + 20.0 us for each request (R2 0.99, 6 rows)`.
fn line(fit: &StepFit) -> String {
    format!(
        "{} + {} for each {} (R2 {:.2}, {} rows)",
        shown_time(fit.fixed_ns),
        shown_time(fit.each_ns),
        fit.of,
        fit.r2,
        fit.rows,
    )
}

/// The rows of each stage.
fn layers(report: &Report) -> Vec<(&str, &[LayerRow])> {
    let stages = report.layers.chunk_by(|a, b| a.stage == b.stage);
    stages.filter_map(|rows| Some((rows.first()?.stage.as_str(), rows))).collect()
}

/// If more of the kernel time of a stage is in no known part, the others are not the whole of what they name.
const MOSTLY_OTHER_PERCENT: f64 = 25.0;

/// `decode by part of the model, % of the kernel time: attention 31.0, MLP 52.4, norm 6.6, other 10.0`.
fn parts(stage: &str, rows: &[LayerRow]) -> String {
    let percent = |rows: &[LayerRow]| {
        let sum: f64 = rows.iter().filter_map(|row| row.stage_kernel_sum_percent).sum();
        rows.first().map(|row| format!("{} {}", row.part, percent1(sum)))
    };
    let other = rows.iter().filter(|row| row.part == LayerPart::Other);
    let other: f64 = other.filter_map(|row| row.stage_kernel_sum_percent).sum();
    if other > MOSTLY_OTHER_PERCENT {
        let other = percent1(other);
        return format!(
            "{stage} by part of the model: {other} % of the kernel time cannot be assigned to a part, so no parts are \
             given"
        );
    }
    let parts: Vec<String> = rows.chunk_by(|a, b| a.part == b.part).filter_map(percent).collect();
    format!("{stage} by part of the model, % of the kernel time: {}", parts.join(", "))
}

fn modules(rows: &[LayerRow]) -> String {
    Table::new(rows)
        .left("part", |row: &LayerRow| row.part.to_string())
        .left("module", |row| row.module.as_deref().map(code))
        .right("kernels", |row| count(row.kernels))
        .right("kernel_sum_ms", |row| ms3(row.kernel_sum_ns))
        .right("% of the stage's sum", |row| row.stage_kernel_sum_percent.map(percent1))
        .markdown()
}

/// How many requests ended, and how.
fn ended(all: &EngineRequests) -> Vec<(&'static str, String)> {
    let EngineRequests { aborted, preempted, unsound_records, .. } = all;
    let counts = [
        (*aborted, "aborted"),
        (*preempted, "preempted"),
        (*unsound_records, "with a record that cannot be used"),
    ];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let counts: String =
        counts.map(|(number, what)| format!(", {} {what}", count(number))).collect();
    let drafts = (all.draft_tokens > 0).then(|| {
        let percent = all.accepted_tokens as f64 / all.draft_tokens as f64 * 100.0;
        let [accepted, drafted] = [all.accepted_tokens, all.draft_tokens].map(count);
        ("drafted tokens that were accepted", format!("{accepted} of {drafted} ({percent:.1} %)"))
    });
    let first = ("requests that ended", format!("{}{counts}", count(all.requests)));
    [first].into_iter().chain(drafts).collect()
}

/// What tokens cost, by what they are.
fn tokens(all: &EngineRequests) -> Vec<(&'static str, &TokenCost)> {
    let cost = all.cost.as_ref().filter(|cost| cost.whole_requests > 0);
    let costs =
        cost.into_iter().flat_map(|cost| [("input", &cost.input), ("output", &cost.output)]);
    costs.filter(|(_, of)| of.tokens > 0).collect()
}

fn token_costs(rows: &[(&'static str, &TokenCost)]) -> String {
    Table::new(rows)
        .left("tokens", |(name, _)| (*name).to_owned())
        .right("number", |(_, of)| count(of.tokens))
        .right("tokens/s, from their first step to their last", |(_, of)| {
            of.tokens_per_s.map(|rate| count(rate.round() as u64))
        })
        .right("step time of each, us", |(_, of)| {
            decimal(Some(of.gpu_ns as f64 / 1e3 / of.tokens.max(1) as f64), 1)
        })
        .right("J of each", |(_, of)| of.joules.map(|joules| format!("{joules:.3}")))
        .right("US dollars per million", |(_, of)| {
            of.dollars_per_million.map(|dollars| format!("{dollars:.3}"))
        })
        .markdown()
}

/// What clients notice of a server, right below the times of its steps; nothing without requests.
pub(super) fn latencies(report: &Report) -> String {
    let Some(all) = report.engine.as_ref().and_then(|run| run.requests.as_ref()) else {
        return String::new();
    };
    spreads(vec![
        ("time to first token", &all.first_token),
        ("time per output token", &all.token),
        ("whole request", &all.total),
    ])
}

/// Distributions over requests, of those that have some.
fn spreads(mut spreads: Vec<(&'static str, &Spread)>) -> String {
    spreads.retain(|(_, spread)| spread.count > 0);
    Table::new(&spreads)
        .left("of a request", |(name, _)| (*name).to_owned())
        .right("requests", |(_, spread)| count(spread.count))
        .right("p50_ms", |(_, spread)| spread.p50_ns.map(ms3))
        .right("p90_ms", |(_, spread)| spread.p90_ns.map(ms3))
        .right("p99_ms", |(_, spread)| spread.p99_ns.map(ms3))
        .right("max_ms", |(_, spread)| spread.max_ns.map(ms3))
        .or_nothing()
}

/// The time of requests in the queue and on the GPU, their shares of the steps, and those that waited longest.
fn of_requests(all: &EngineRequests) -> String {
    let mut rows = vec![("queue", &all.queue)];
    rows.extend(all.cost.as_ref().map(|cost| ("GPU time", &cost.gpu_time)));
    let spreads = spreads(rows);
    let slowest = Table::new(&all.slowest)
        .id("request", |row: &RequestRow| row.number.to_string())
        .right("prompt", |row| count(row.prompt_tokens))
        .right("cached", |row| count(row.cached_tokens))
        .right("output", |row| count(row.output_tokens))
        .right("queue_ms", |row| row.queue_ns.map(ms3))
        .right("first_token_ms", |row| row.first_token_ns.map(ms3))
        .right("per_token_ms", |row| row.token_ns.map(ms3))
        .right("gpu_ms", |row| row.gpu_ns.map(ms3))
        .markdown();
    let shares = all
        .cost
        .as_ref()
        .map_or_else(String::new, |cost| format!("{}\n\n{SHARES}.\n\n", sentence(&sums(cost))));
    let slowest = match all.slowest.is_empty() {
        true => String::new(),
        false => format!("The requests that waited longest for their first token:\n\n{slowest}"),
    };
    format!("**Requests**:\n\n{spreads}{shares}{slowest}")
}

/// How the shares add up.
fn sums(cost: &RequestCost) -> String {
    let all = cost.steps_gpu_ns.max(1) as f64;
    let nobody = cost.steps_gpu_ns.saturating_sub(cost.requests_gpu_ns);
    let approximate = match cost.approximate_gpu_ns {
        0 => String::new(),
        ns => format!(
            "; in {} % of it the shares are approximate, because a step skipped a request or read \
             its prompt in unequal pieces",
            percent1(ns as f64 * 100.0 / all)
        ),
    };
    let other = match cost.other_steps {
        0 => String::new(),
        steps => format!("; {} beyond the limit are left out", counted(steps, "step")),
    };
    let unnumbered = match cost.unnumbered_gpu_ns {
        0 => String::new(),
        ns => format!(
            ". Steps that belong to no request, such as those of the engine's warm-up, took another {}",
            shown_time(ns as f64)
        ),
    };
    format!(
        "The steps of requests took {} of {}: {} belong to these requests, {} ({} %) to requests that had not \
         ended, or of which no record is kept{approximate}{other}{unnumbered}",
        shown_time(cost.steps_gpu_ns as f64),
        counted(cost.gpus, "GPU"),
        shown_time(cost.requests_gpu_ns as f64),
        shown_time(nobody as f64),
        percent1(nobody as f64 * 100.0 / all),
    )
}

fn table(rows: &[EngineStepRow]) -> String {
    Table::new(rows)
        .right("requests", |row| match row.requests == row.requests_to {
            true => row.requests.to_string(),
            false => format!("{} to {}", row.requests, row.requests_to),
        })
        .right("new tokens (mean)", |row| decimal(row.tokens_mean, 1))
        .right("tokens of context (mean)", |row| {
            row.context_mean.map(|tokens| decimal(Some(tokens), 0))
        })
        .right("steps", |row| count(row.steps))
        .right("timed", |row| count(row.timed_steps))
        .right("p50_ms", |row| row.p50_ns.map(ms3))
        .right("p99_ms", |row| tail(row.p99_ns, row.timed_steps))
        .markdown()
}

/// The 99th percentile of so many values, which of fewer than 100 is the longest.
fn tail(ns: Option<u64>, values: u64) -> Option<String> {
    let longest = if values < 100 { " (longest)" } else { "" };
    Some(ms3(ns?) + longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_report::conclusions::Shown;

    #[test]
    fn the_section_says_what_a_step_takes_at_which_batch() {
        let row =
            EngineStepRow { requests: 1, requests_to: 2, steps: 5, ..EngineStepRow::default() };
        let kind = EngineSteps {
            stage: "decode".into(),
            steps: 1_234,
            p50_ns: Some(2_100_000),
            decode_requests_mean: 16.0,
            decode_context_mean: Some(8_000.0),
            tokens_per_s: Some(7_600.4),
            rows: vec![row],
            fit: Some(StepFit {
                fixed_ns: 1.8e6,
                each_ns: 2e4,
                of: "request".into(),
                r2: 0.987,
                rows: 6,
            }),
            ..EngineSteps::default()
        };
        let run = EngineRun {
            engine: Some("vllm".into()),
            version: Some("0.26.0".into()),
            processes: 1,
            kinds: vec![kind],
            pauses: 1,
            pause_ns: 5_000_000,
            extent_ns: 100_000_000,
            first_step_ns: Some(60_000_000),
            ..EngineRun::default()
        };
        let report = Report { engine: Some(run), ..Report::default() };
        let text = section(&report);
        for part in [
            "vllm 0.26.0.\n",
            "| From the start of the first step to the end of the last one | 100.00 ms |",
            "| First step, which may load and compile | 60.00 ms |",
            "| Time in these pauses | 5.00 ms (5.0 %) |",
            "| `decode` | 1,234 | 1,234 | 2.100 | 7,600 | 16.0 | 500 | 1.80 ms + 20.0 us for each request (R2 0.99, 6 rows) |",
            "| 1 to 2 |",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let mut report = report;
        let kind = &mut report.engine.as_mut().expect("an engine").kinds[0];
        (kind.steps, kind.timed_steps) = (4, 3);
        assert!(section(&report).contains("| `decode` | 4 | 3 |"));
        assert!(!text.contains("**Requests**"), "{text}");
        assert_eq!(section(&Report::default()), "");
    }

    #[test]
    fn requests_say_what_they_waited_for_and_what_their_tokens_cost() {
        let spread = |p50_ns, p99_ns| Spread { count: 40, p50_ns, p99_ns, ..Spread::default() };
        let cost = RequestCost {
            gpus: 2,
            steps_gpu_ns: 400_000_000,
            requests_gpu_ns: 300_000_000,
            approximate_gpu_ns: 4_000_000,
            unnumbered_gpu_ns: 171_410_000,
            whole_requests: 39,
            output: TokenCost {
                tokens: 1_000,
                tokens_per_s: Some(3_806.2),
                gpu_ns: 290_000_000,
                joules: Some(0.081),
                dollars_per_million: Some(0.322),
            },
            ..RequestCost::default()
        };
        let requests = EngineRequests {
            requests: 40,
            aborted: 1,
            draft_tokens: 1_200,
            accepted_tokens: 300,
            first_token: spread(Some(90_000_000), Some(200_000_000)),
            queue: spread(Some(30_000_000), None),
            cost: Some(cost),
            slowest: vec![RequestRow { number: 17, prompt_tokens: 512, ..RequestRow::default() }],
            ..EngineRequests::default()
        };
        let run = EngineRun {
            pauses: 2,
            pause_ns: 9_000_000,
            waiting_pause_ns: Some(1_000_000),
            requests: Some(requests),
            ..EngineRun::default()
        };
        let report = Report { engine: Some(run), ..Report::default() };
        let text = section(&report);
        for part in [
            "| Requests that ended | 40, 1 aborted |",
            "| Drafted tokens that were accepted | 300 of 1,200 (25.0 %) |",
            "| output | 1,000 | 3,806 | 290.0 | 0.081 | 0.322 |",
            "| Time in pauses while requests waited | 1.00 ms |",
            "| queue | 40 | 30.000 |",
            "| 17 |",
            "The steps of requests took 400.00 ms of 2 GPUs: 300.00 ms belong to these requests, 100.00 ms (25.0 %)",
            "Steps that belong to no request, such as those of the engine's warm-up, took another 171.41 ms.",
            "in 1.0 % of it the shares are approximate",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let told = "| Of a request | Requests | p50 (ms) | p99 (ms) |\n| --- | ---: | ---: | ---: |\n\
                    | time to first token | 40 | 90.000 | 200.000 |\n\n";
        assert_eq!(latencies(&report), told);
        for page in [crate::report::page(&report), crate::summary::page(&report, &Shown::default())]
        {
            let page = page.markdown();
            assert_eq!(page.matches(told).count(), 1, "{page}");
        }
        assert_eq!(latencies(&Report::default()), "");
    }
}
