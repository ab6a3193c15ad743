//! Steps of an inference engine -> a sentence for each kind, and tables of step time by batch.

use stage2_contract::text::numbers::{count, counted, ms3, percent1, shown_time};
use stage2_contract::text::{code, plain};
use stage2_model::{
    EngineRequests, EngineRun, EngineStepRow, EngineSteps, LayerPart, LayerRow, Report,
    RequestCost, RequestRow, Spread, StepFit, TokenCost,
};

use super::table::{Table, capitalised, decimal, sentence};

/// Heading of the section.
pub(super) const TITLE: &str = "Engine Steps";

/// When a step is timed, and what its time includes: for report.md.
const MEANING: &str = "A step lasts until the next one begins, so it includes scheduling, sampling and \
    bookkeeping. A step is not timed if the next one only starts requests, because the engine may have \
    waited for them to arrive";

/// When a step is timed: for the summary.
const TIMED: &str = "A step is timed where another one followed it at once; means are of these";

/// How parts of the model are told apart.
const LAYERS: &str = "The module is the one that launched the kernel when the CUDA graph was captured, found by \
    the weights that it reads. A kernel without a module belongs to a part by its class, and waiting for other \
    GPUs counts as communication. Cold first calls are left out, as in the tables of kernels";

/// How a step is shared.
const SHARES: &str = "The time of a step on all GPUs is divided equally among its tokens. The requests whose \
    prompt the step reads share the part of the prompt tokens, and the requests that decode share the rest \
    equally. The costs of input and output tokens are these parts, without pauses, over the requests with all \
    steps recorded; cached tokens count as input";

/// The section: the engine, a sentence for each kind of step and, unless `brief`, the tables.
pub(super) fn section(report: &Report, brief: bool) -> String {
    let Some(run) = &report.engine else { return String::new() };
    let pauses = if brief { None } else { pauses(run) };
    let about = [about(report, run)].into_iter().chain(pauses.map(|said| capitalised(&said)));
    let has_untimed = |kind: &EngineSteps| (1..kind.steps).contains(&kind.timed_steps);
    let timed = (brief && run.kinds.iter().any(has_untimed)).then(|| TIMED.to_owned());
    let about: Vec<String> = about.chain(timed).map(|said| sentence(&said)).collect();
    let mut out = format!("{}\n\n", about.join(" "));
    for kind in &run.kinds {
        out.push_str(&format!("- {}\n", sentence(&steps(kind, brief))));
    }
    for line in run.requests.iter().flat_map(requests) {
        out.push_str(&format!("- {}\n", sentence(&line)));
    }
    let stages = layers(report);
    for (stage, rows) in &stages {
        out.push_str(&format!("- {}\n", sentence(&parts(stage, rows))));
    }
    out.push('\n');
    if brief {
        return out;
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
fn pauses(run: &EngineRun) -> Option<String> {
    let EngineRun { pauses, pause_ns, extent_ns, .. } = run;
    if *pauses == 0 {
        return None;
    }
    let time = |ns: u64| shown_time(ns as f64);
    let first = run.first_step_ns.map_or_else(String::new, |ns| {
        format!("; the first step, which may load and compile, took {} of these", time(ns))
    });
    let waiting = run.waiting_pause_ns.map_or_else(String::new, |ns| {
        format!("; requests waited during {} of it; in the rest there was no request", time(ns))
    });
    Some(format!(
        "it paused {} before steps that only start requests, for {} ({} % of the {} from the start of the \
         first step to the end of the last one{first}){waiting}",
        times(*pauses),
        time(*pause_ns),
        percent1(*pause_ns as f64 * 100.0 / (*extent_ns).max(1) as f64),
        time(*extent_ns),
    ))
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{} times", count(number)) }
}

/// `decode: 189 steps, median 2.10 ms at 16.0 requests (7,600 tokens/s); 1.80 ms + 20.0 us for each request`.
/// `brief`: without the times, which the summary has in a table.
fn steps(kind: &EngineSteps, brief: bool) -> String {
    let mut work = Vec::new();
    if kind.prefill_requests_mean > 0.0 {
        let tokens = kind
            .prefill_tokens_mean
            .map(|tokens| format!(" with {} tokens", count(tokens.round() as u64)));
        let requests = kind.prefill_requests_mean;
        work.push(format!("{requests:.1} prompts{}", tokens.unwrap_or_default()));
    }
    if kind.decode_requests_mean > 0.0 {
        let context = kind.decode_context_mean.map(|all| {
            format!(" ({:.0} tokens of context each)", all / kind.decode_requests_mean.max(1.0))
        });
        let requests = kind.decode_requests_mean;
        work.push(format!("{requests:.1} requests{}", context.unwrap_or_default()));
    }
    let time = match kind.p50_ns {
        Some(_) if brief => String::new(),
        Some(ns) => format!(", median {}", shown_time(ns as f64)),
        None => ", no time is known, because no step continues their requests".to_owned(),
    };
    let p99 = kind
        .p99_ns
        .filter(|_| !brief)
        .map_or_else(String::new, |ns| format!(", p99 {}", shown_time(ns as f64)));
    let counted_per_s = format!("{}/s", kind.tokens_counted.noun());
    let rate = kind.tokens_per_s.filter(|_| !brief).map_or_else(String::new, |rate| {
        format!(", {} {counted_per_s}", count(rate.round() as u64))
    });
    let fit = kind.fit.as_ref().map_or_else(String::new, |fit| format!("; {}", line(fit)));
    let work = match work.is_empty() {
        true => String::new(),
        false => format!(" at a mean of {}", work.join(" and ")),
    };
    // What follows is of the timed ones.
    let steps = match kind.timed_steps {
        timed if timed > 0 && timed < kind.steps => {
            format!("{} timed of {}", count(timed), counted(kind.steps, "step"))
        }
        _ => counted(kind.steps, "step"),
    };
    format!("{}: {steps}{time}{p99}{work}{rate}{fit}", kind.stage)
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

/// Sentences about the requests: numbers, latencies, and costs of their tokens.
fn requests(all: &EngineRequests) -> impl Iterator<Item = String> {
    let spread = |name: &str, spread: &Spread| {
        let p50 = spread.p50_ns?;
        let more = [("p90", spread.p90_ns), ("p99", spread.p99_ns)];
        let more = more.map(|(name, ns)| {
            ns.map_or_else(String::new, |ns| format!(", {name} {}", shown_time(ns as f64)))
        });
        Some(format!("{name}: median {}{}", shown_time(p50 as f64), more.concat()))
    };
    let EngineRequests { aborted, preempted, unsound_records, .. } = all;
    let counts = [
        (*aborted, "aborted"),
        (*preempted, "preempted"),
        (*unsound_records, "with a record that cannot be used"),
    ];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let counts: String =
        counts.map(|(number, what)| format!(", {} {what}", count(number))).collect();
    let first = format!("{} ended{counts}", counted(all.requests, "request"));
    let times = [
        spread("time to first token", &all.first_token),
        spread("time in the queue", &all.queue),
        spread("time per output token", &all.token),
    ];
    let times: Vec<String> = times.into_iter().flatten().collect();
    let times = (!times.is_empty()).then(|| times.join("; "));
    let drafts = (all.draft_tokens > 0).then(|| {
        let percent = all.accepted_tokens as f64 / all.draft_tokens as f64 * 100.0;
        let [accepted, drafted] = [all.accepted_tokens, all.draft_tokens].map(count);
        format!("{accepted} of {drafted} drafted tokens ({percent:.1} %) were accepted")
    });
    let cost = all.cost.as_ref().filter(|cost| cost.whole_requests > 0);
    let tokens = cost.into_iter().flat_map(|cost| {
        let costs = [("input", &cost.input), ("output", &cost.output)];
        let costs = costs.into_iter().filter(|(_, of)| of.tokens > 0);
        costs.map(|(name, of)| token_cost(name, of))
    });
    [first].into_iter().chain(times).chain(drafts).chain(tokens)
}

/// `output tokens: 1,024 at 3,806 tokens/s from their first step to their last, 0.290 ms of step time each, 0.081 J
/// each, 0.322 US dollars per million`.
fn token_cost(name: &str, of: &TokenCost) -> String {
    let rate = of.tokens_per_s.map(|rate| {
        format!(" at {} tokens/s from their first step to their last", count(rate.round() as u64))
    });
    let each = of.gpu_ns as f64 / 1e6 / of.tokens.max(1) as f64;
    let joules = of.joules.map(|joules| format!(", {joules:.3} J each"));
    let price =
        of.dollars_per_million.map(|dollars| format!(", {dollars:.3} US dollars per million"));
    format!(
        "{name} tokens: {}{}, {each:.4} ms of step time each{}{}",
        count(of.tokens),
        rate.unwrap_or_default(),
        joules.unwrap_or_default(),
        price.unwrap_or_default(),
    )
}

/// The distributions of the requests, their shares of the steps, and the requests that waited
/// longest.
fn of_requests(all: &EngineRequests) -> String {
    let mut spreads = vec![
        ("queue", &all.queue),
        ("time to first token", &all.first_token),
        ("time per output token", &all.token),
        ("whole request", &all.total),
    ];
    spreads.extend(all.cost.as_ref().map(|cost| ("GPU time", &cost.gpu_time)));
    spreads.retain(|(_, spread)| spread.count > 0);
    let spreads = Table::new(&spreads)
        .left("of a request", |(name, _)| (*name).to_owned())
        .right("requests", |(_, spread)| count(spread.count))
        .right("p50_ms", |(_, spread)| spread.p50_ns.map(ms3))
        .right("p90_ms", |(_, spread)| spread.p90_ns.map(ms3))
        .right("p99_ms", |(_, spread)| spread.p99_ns.map(ms3))
        .right("max_ms", |(_, spread)| spread.max_ns.map(ms3))
        .markdown();
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
        .right("p99_ms", |row| row.p99_ns.map(ms3))
        .markdown()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = section(&report, false);
        for part in [
            "vllm 0.26.0. It paused once before steps that only start requests, for 5.00 ms (5.0 % of \
             the 100.00 ms from the start of the first step to the end of the last one; the first step, which \
             may load and compile, took 60.00 ms of these)",
            "decode: 1,234 steps, median 2.10 ms at a mean of 16.0 requests (500 tokens of context each), \
             7,600 tokens/s; 1.80 ms + 20.0 us for each request (R2 0.99, 6 rows)",
            "| 1 to 2 |",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!section(&report, true).contains("1 to 2"));
        let mut report = report;
        let kind = &mut report.engine.as_mut().expect("an engine").kinds[0];
        (kind.steps, kind.timed_steps) = (4, 3);
        let brief = section(&report, true);
        assert!(brief.contains("decode: 3 timed of 4 steps at a mean of 16.0 requests"), "{brief}");
        assert!(brief.contains(TIMED), "{brief}");
        assert!(!text.contains("**Requests**"), "{text}");
        assert_eq!(section(&Report::default(), false), "");
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
        let (brief, text) = (section(&report, true), section(&report, false));
        for part in [
            "40 requests ended, 1 aborted",
            "300 of 1,200 drafted tokens (25.0 %) were accepted",
            "time to first token: median 90.00 ms, p99 200.00 ms; time in the queue: median 30.00 ms",
            "output tokens: 1,000 at 3,806 tokens/s from their first step to their last, 0.2900 ms of step time each, \
             0.081 J each, 0.322 US dollars per million",
        ] {
            assert!(brief.contains(part), "{part}\n{brief}");
        }
        for part in [
            "requests waited during 1.00 ms of it",
            "| 17 |",
            "The steps of requests took 400.00 ms of 2 GPUs: 300.00 ms belong to these requests, 100.00 ms (25.0 %)",
            "Steps that belong to no request, such as those of the engine's warm-up, took another 171.41 ms.",
            "in 1.0 % of it the shares are approximate",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!brief.contains("| 17 |") && !brief.contains("paused"));
    }
}
