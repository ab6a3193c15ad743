//! Steps of an inference engine -> a sentence for each kind, and tables of step time by batch.

use stage2_contract::text::numbers::{count, counted, ms3, percent1};
use stage2_contract::text::plain;
use stage2_model::{EngineRun, EngineStepRow, EngineSteps, Report, StepFit};

use super::table::{Table, decimal, sentence};

/// Heading of the section.
pub(super) const TITLE: &str = "Engine Steps";

/// How the times are taken.
const MEANING: &str = "A step lasts until the next one begins, so it includes scheduling, sampling and \
    bookkeeping. A step is not timed if the next one only starts requests, because the engine may have \
    waited for them to arrive";

/// The section: the engine, a sentence for each kind of step and, unless `brief`, the tables.
pub(super) fn section(report: &Report, brief: bool) -> String {
    let Some(run) = &report.engine else { return String::new() };
    let mut out = format!("{}\n\n", sentence(&about(run)));
    for kind in &run.kinds {
        out.push_str(&format!("- {}\n", sentence(&steps(kind))));
    }
    out.push('\n');
    if brief {
        return out;
    }
    for kind in run.kinds.iter().filter(|kind| !kind.rows.is_empty()) {
        out.push_str(&format!("**{}** by batch:\n\n{}", plain(&kind.stage), table(&kind.rows)));
    }
    out + &format!("{MEANING}.\n\n")
}

fn about(run: &EngineRun) -> String {
    let EngineRun { engine, version, processes, pauses, pause_ns, extent_ns, .. } = run;
    let named = engine.as_deref().map(|name| match version {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    });
    let who = named.unwrap_or_else(|| "an engine without a name".to_owned());
    let ranks = match processes {
        1 => String::new(),
        many => format!(" in {many} processes; the steps are those of {}", run.file),
    };
    let other = match run.other_steps {
        0 => String::new(),
        steps => {
            format!("; {} in no row, because there are too many batches", counted(steps, "step"))
        }
    };
    let paused = match pauses {
        0 => String::new(),
        _ => format!(
            "; it paused {} before steps that only start requests, for {} ms ({} % of the time)",
            times(*pauses),
            ms3(*pause_ns),
            percent1(*pause_ns as f64 * 100.0 / (*extent_ns).max(1) as f64),
        ),
    };
    format!("{who}{ranks}{paused}{other}")
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{} times", count(number)) }
}

/// `decode: 189 steps, median 2.100 ms at 16.0 requests (7,600 tok/s); 1.800 ms + 0.020 ms for each request`.
fn steps(kind: &EngineSteps) -> String {
    let mut work = Vec::new();
    if kind.prefill_requests_mean > 0.0 {
        let tokens = kind.prefill_tokens_mean.map(|tokens| format!(" with {tokens:.0} tokens"));
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
        Some(ns) => format!("median {} ms", ms3(ns)),
        None => "no time is known, because no step continues their requests".to_owned(),
    };
    let p99 = kind.p99_ns.map_or_else(String::new, |ns| format!(", p99 {} ms", ms3(ns)));
    let rate = kind
        .tokens_per_s
        .map_or_else(String::new, |rate| format!(", {} tok/s", count(rate.round() as u64)));
    let fit = kind.fit.as_ref().map_or_else(String::new, |fit| format!("; {}", line(fit)));
    let work = match work.is_empty() {
        true => String::new(),
        false => format!(" at a mean of {}", work.join(" and ")),
    };
    format!("{}: {}, {time}{p99}{work}{rate}{fit}", kind.stage, counted(kind.steps, "step"))
}

/// `1.800 ms + 20.0 us for each request (R2 0.99, 6 rows)`.
fn line(fit: &StepFit) -> String {
    format!(
        "{:.3} ms + {:.3} us for each {} (R2 {:.2}, {} rows)",
        fit.fixed_ns / 1e6,
        fit.each_ns / 1e3,
        fit.of,
        fit.r2,
        fit.rows,
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
            ..EngineRun::default()
        };
        let report = Report { engine: Some(run), ..Report::default() };
        let text = section(&report, false);
        for part in [
            "vllm 0.26.0; it paused once before steps that only start requests, for 5.000 ms (5.0 % of",
            "decode: 1,234 steps, median 2.100 ms at a mean of 16.0 requests (500 tokens of context each), \
             7,600 tok/s; 1.800 ms + 20.000 us for each request (R2 0.99, 6 rows)",
            "| 1 to 2 |",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!section(&report, true).contains("1 to 2"));
        assert_eq!(section(&Report::default(), false), "");
    }
}
