//! Requests of an inference engine: latencies, tokens and cost, and its steps by what they worked on.

use serde_json::Value;
use stage2_contract::text::numbers::shown_time;
use stage2_model::{EngineRequests, EngineRun, Spread};

use super::{Subject, count, ms, number, text};
use crate::answer::{Answer, Column, Row, Table};

pub(super) fn requests(subject: &Subject<'_>, answer: &mut Answer) {
    let Some(engine) = &subject.report.engine else {
        answer.summary = "No step of an inference engine was recorded.".to_owned();
        let reason =
            "no range describes the work of an engine (those of vLLM, SGLang and TensorRT-LLM do)";
        let command = ["run", "--light", "--", "vllm", "serve", "MODEL"];
        answer.unknown("latencies and cost of requests", reason, &command);
        return;
    };
    match &engine.requests {
        None => {
            answer.summary = "The engine recorded its steps, and no requests.".to_owned();
            let reason = "the engine recorded no requests: only vLLM does";
            let command = ["run", "--light", "--", "vllm", "serve", "MODEL"];
            answer.unknown("latencies and cost of requests", reason, &command);
        }
        Some(requests) => {
            answer.summary = sentence(requests);
            answer.push(latencies(requests));
            answer.push(tokens(requests));
            answer.push(counts(requests));
        }
    }
    answer.push(steps(subject, engine));
    if let Some(requests) = &engine.requests {
        answer.push(slowest(requests));
    }
}

fn sentence(requests: &EngineRequests) -> String {
    let of = |name: &str, spread: &Spread| {
        spread.p50_ns.map(|ns| format!("{} {name}", shown_time(ns as f64)))
    };
    let said = [
        of("to the first token", &requests.first_token),
        of("per further token", &requests.token),
        of("to the end", &requests.total),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    format!("{} requests: {} (medians).", requests.requests, said.join(", "))
}

fn latencies(requests: &EngineRequests) -> Table {
    let spreads = [
        ("queue", "/queue", Some(&requests.queue)),
        ("first_token", "/first_token", Some(&requests.first_token)),
        ("token", "/token", Some(&requests.token)),
        ("total", "/total", Some(&requests.total)),
        ("gpu_time", "/cost/gpu_time", requests.cost.as_ref().map(|cost| &cost.gpu_time)),
    ];
    let rows = spreads.into_iter().filter_map(|(name, place, spread)| {
        let spread = spread.filter(|spread| spread.count > 0)?;
        let times = [spread.mean_ns, spread.p50_ns, spread.p90_ns, spread.p99_ns, spread.max_ns];
        let mut cells = vec![text(name), count(spread.count)];
        cells.extend(times.map(ms));
        Some(Row::new(format!("/engine/requests{place}"), cells))
    });
    let columns = vec![
        Column::text("what").of(
            "queue and first token are measured from the arrival; token is the mean of a request",
        ),
        Column::number("requests", "count").at("/count"),
        Column::number("mean_ms", "ms").at("/mean_ns"),
        Column::number("p50_ms", "ms").at("/p50_ns"),
        Column::number("p90_ms", "ms").at("/p90_ns"),
        Column::number("p99_ms", "ms").at("/p99_ns"),
        Column::number("max_ms", "ms").at("/max_ns"),
    ];
    Table::new("latencies", columns, rows.collect())
}

fn tokens(requests: &EngineRequests) -> Table {
    let rows = requests.cost.iter().flat_map(|cost| {
        [("input", &cost.input), ("output", &cost.output)].map(|(name, tokens)| {
            let cells = vec![
                text(name),
                count(tokens.tokens),
                number(tokens.tokens_per_s),
                ms(tokens.gpu_ns),
                number(tokens.joules),
                number(tokens.dollars_per_million),
            ];
            Row::new(format!("/engine/requests/cost/{name}"), cells)
        })
    });
    let columns = vec![
        Column::text("tokens_of").of("requests with all steps recorded"),
        Column::number("tokens", "count").at("/tokens"),
        Column::number("tokens_per_s", "1/s").of("first step to last").at("/tokens_per_s"),
        Column::number("gpu_ms", "ms").of("time of the steps x GPUs").at("/gpu_ns"),
        Column::number("joules", "J").of("per token").at("/joules"),
        Column::number("dollars", "US dollars").of("per million tokens").at("/dollars_per_million"),
    ];
    Table::new("tokens", columns, rows.collect())
}

fn counts(requests: &EngineRequests) -> Table {
    let cells = vec![
        count(requests.requests),
        count(requests.aborted),
        count(requests.preempted),
        count(requests.cached_tokens),
        count(requests.unsound_records),
    ];
    let columns = vec![
        Column::number("ended", "count").at("/requests"),
        Column::number("aborted", "count").at("/aborted"),
        Column::number("preempted", "count").at("/preempted"),
        Column::number("cached_tokens", "count")
            .of("prompt tokens that were already in the KV cache")
            .at("/cached_tokens"),
        Column::number("unsound_records", "count").at("/unsound_records"),
    ];
    Table::new("requests", columns, vec![Row::new("/engine/requests", cells)])
}

fn steps(subject: &Subject<'_>, engine: &EngineRun) -> Table {
    let kinds = engine.kinds.iter().enumerate();
    let rows = kinds.filter(|(_, kind)| subject.has(&kind.stage)).map(|(at, kind)| {
        let cells = vec![
            text(&kind.stage),
            count(kind.steps),
            ms(kind.p50_ns),
            ms(kind.p99_ns),
            number(kind.prefill_requests_mean),
            number(kind.decode_requests_mean),
            number(kind.tokens_per_s),
        ];
        Row::new(format!("/engine/kinds/{at}"), cells)
    });
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::number("steps", "count").at("/steps"),
        Column::number("p50_ms", "ms")
            .of("steps that are followed immediately by another one")
            .at("/p50_ns"),
        Column::number("p99_ms", "ms").at("/p99_ns"),
        Column::number("prefill_requests", "count")
            .of("mean of a step")
            .at("/prefill_requests_mean"),
        Column::number("decode_requests", "count").of("mean of a step").at("/decode_requests_mean"),
        Column::number("tokens_per_s", "1/s").at("/tokens_per_s"),
    ];
    Table::new("engine_steps", columns, rows.collect())
}

fn slowest(requests: &EngineRequests) -> Table {
    let rows = requests.slowest.iter().enumerate().map(|(at, row)| {
        let cells: Vec<Value> = vec![
            count(row.number),
            ms(row.first_token_ns),
            ms(row.queue_ns),
            ms(row.token_ns),
            count(row.prompt_tokens),
            count(row.output_tokens),
            count(row.preemptions),
        ];
        Row::new(format!("/engine/requests/slowest/{at}"), cells)
    });
    let columns = vec![
        Column::number("request", "number").at("/number"),
        Column::number("first_token_ms", "ms").at("/first_token_ns"),
        Column::number("queue_ms", "ms").at("/queue_ns"),
        Column::number("token_ms", "ms").at("/token_ns"),
        Column::number("prompt_tokens", "count").at("/prompt_tokens"),
        Column::number("output_tokens", "count").at("/output_tokens"),
        Column::number("preemptions", "count").at("/preemptions"),
    ];
    Table::new("slowest", columns, rows.collect()).usually(3)
}
