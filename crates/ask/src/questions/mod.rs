//! The questions, each with its answer: what a report states about it as tables, with sources.

mod compare;
mod experiment;
mod idle;
mod kernels;
mod ranks;
mod requests;
mod summary;
mod time;
mod trust;

use serde::Serialize;
use serde_json::Value;
use stage2_contract::text::numbers::{grouped, time_scale};
use stage2_contract::text::{code_in_text, shorten, visible};
use stage2_diff::Run;
use stage2_model::lead::lead_first;
use stage2_model::{Figure, Report, StageAnswer};

use crate::answer::{Answer, Column, Row, Table};
use crate::budget::{cell_text, rounded};
use crate::question::{AskError, Question};

pub use compare::compare;

/// [`stage2_model::Bottleneck::of`] of the mean token.
const TOKEN: &str = "token";
/// An answer states for this many stages which instances its numbers cover.
const BASES: usize = 6;
/// Longest name in a sentence, characters.
const NAME_CHARS: usize = 160;

/// Answers a question about a run, or about one stage of it.
///
/// # Errors
/// When the run has no such stage, or the question needs a second run.
pub fn answer(run: &Run<'_>, question: Question, stage: Option<&str>) -> Result<Answer, AskError> {
    let stage = stage.map(|asked| find_stage(run.report, asked)).transpose()?;
    let subject = Subject { report: run.report, run: *run, stage };
    let mut answer = Answer::new(question.name(), run.label, stage);
    match question {
        Question::Summary => summary::summary(&subject, &mut answer),
        Question::Time => time::time(&subject, &mut answer),
        Question::Idle => idle::idle(&subject, &mut answer),
        Question::Host => idle::host(&subject, &mut answer),
        Question::KernelsByLoss => kernels::by_loss(&subject, &mut answer),
        Question::LateRanks => ranks::late(&subject, &mut answer),
        Question::Collectives => ranks::collectives(&subject, &mut answer),
        Question::MemoryBound => kernels::memory_bound(&subject, &mut answer),
        Question::Requests => requests::requests(&subject, &mut answer),
        Question::Next => experiment::experiment(&subject, &mut answer),
        Question::Compare => return Err(AskError::OneRun),
        Question::Caveats => trust::caveats(&subject, &mut answer),
        Question::Coverage => trust::coverage(&subject, &mut answer),
    }
    let of_stages = [Question::Summary, Question::Time, Question::Idle, Question::MemoryBound];
    if let Some(empty) = &run.report.coverage.empty {
        let ask = ["ask", run.label, Question::Coverage.name()];
        answer.summary = "EMPTY: no GPU work was recorded.".to_owned();
        // Whatever else is not known follows from it.
        answer.unknown.clear();
        if question != Question::Coverage {
            let why = format!("no GPU work was recorded: {}", empty.first.why);
            answer.unknown(question.help(), why, &ask);
        }
    } else if run.report.answer.stages.is_empty() && of_stages.contains(&question) {
        let reason =
            "the report has no times of stages: an older version wrote it, or there are none";
        answer.unknown(question.help(), reason, &["report", run.label]);
    }
    Ok(answer)
}

/// The stage that the user means: by its name, or by its name as answers print it.
fn find_stage<'r>(report: &'r Report, asked: &str) -> Result<&'r str, AskError> {
    let rows = report.stages.iter().map(|row| row.stage.as_str());
    let answers = report.answer.stages.iter().map(|answer| answer.stage.as_str());
    let mut names: Vec<&str> = Vec::new();
    for name in rows.chain(answers) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let found = names.iter().find(|name| **name == asked);
    let found = found.or_else(|| names.iter().find(|name| cell_text(name) == asked));
    found.copied().ok_or_else(|| AskError::no_stage(asked, names.into_iter()))
}

/// What is asked about.
struct Subject<'r> {
    report: &'r Report,
    run: Run<'r>,
    stage: Option<&'r str>,
}

impl<'r> Subject<'r> {
    /// Whether the question is about this stage.
    fn has(&self, stage: &str) -> bool {
        self.stage.is_none_or(|asked| asked == stage)
    }

    /// The answers of the stages in question, that of the verdict first, with their index in the report.
    fn answers(&self) -> impl Iterator<Item = (usize, &'r StageAnswer)> {
        let stages = || self.report.answer.stages.iter();
        let place = move |answer| stages().position(|of| std::ptr::eq(of, answer));
        let all = lead_first(self.report).filter(|answer| self.has(&answer.stage));
        all.filter_map(move |answer| Some((place(answer)?, answer)))
    }
}

/// How many tokens the times of a bottleneck have to be multiplied by to be those of a step: answers are of steps, and
/// the report divides the mean token where a step has several.
fn tokens_of_step(stage: &StageAnswer) -> u64 {
    let is_of_token = stage.bottleneck.as_ref().is_some_and(|bottleneck| bottleneck.of == TOKEN);
    let tokens = stage.step.as_ref().and_then(|step| step.tokens_per_step);
    tokens.filter(|_| is_of_token).unwrap_or(1).max(1)
}

/// Milliseconds of a step.
fn ms_of_step(stage: &StageAnswer, ns: u64) -> Value {
    ms(ns.saturating_mul(tokens_of_step(stage)))
}

/// What times of bottlenecks are of: of a stage whose steps are not told apart it is the whole window.
fn mean_of<'a>(stages: impl Iterator<Item = &'a StageAnswer>) -> &'static str {
    let of_steps = |stage: &StageAnswer| match &stage.bottleneck {
        Some(bottleneck) => Some(bottleneck.is_of_step()),
        None => stage.window.as_ref().map(|window| window.steps.is_some()),
    };
    let (mut steps, mut windows) = (false, false);
    for is_of_step in stages.filter_map(of_steps) {
        *(if is_of_step { &mut steps } else { &mut windows }) = true;
    }
    match (steps, windows) {
        (true, true) => "the mean step; the whole window of a stage without step times",
        (false, true) => "the whole window",
        (_, false) => "the mean step",
    }
}

/// Which instances windows and their parts are of: the warm ones, the only one, those that a sample recorded.
fn basis(subject: &Subject<'_>) -> Table {
    let stages = subject.answers().filter(|(_, stage)| stage.window.is_some());
    let rows = stages.map(|(at, stage)| {
        Row::new(format!("/answer/stages/{at}"), vec![text(&stage.stage), text(&stage.basis)])
    });
    let columns = vec![
        Column::workload("stage").at("/stage"),
        Column::workload("of")
            .of("the calls that windows and their parts are measured on")
            .at("/basis"),
    ];
    Table::new("basis", columns, rows.collect()).usually(BASES)
}

/// The command that records hardware counters.
const WITH_COUNTERS: [&str; 5] =
    ["run", "--light", "profiling.collector.counters=on", "--", "COMMAND"];
/// The command that lets ncu measure kernels.
const WITH_NCU: [&str; 4] = ["run", "--deep", "--", "COMMAND"];
/// The command that samples the host, often.
const WITH_HOST: [&str; 5] = ["run", "--light", "profiling.collector.host=1000", "--", "COMMAND"];

/// A name of the workload, as a sentence quotes it.
fn quoted(name: &str) -> String {
    code_in_text(&shorten(&visible(name.as_bytes()), NAME_CHARS))
}

/// The name of an enum as JSON has it.
fn name_of(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Milliseconds of nanoseconds.
fn ms(ns: impl Into<Option<u64>>) -> Value {
    ns.into().map_or(Value::Null, |ns| (ns as f64 / 1e6).into())
}

/// Milliseconds of nanoseconds that were computed.
fn ms_of(ns: Option<f64>) -> Value {
    number(ns.map(|ns| ns / 1e6))
}

/// Microseconds of nanoseconds.
fn us(ns: impl Into<Option<u64>>) -> Value {
    ns.into().map_or(Value::Null, |ns| (ns as f64 / 1e3).into())
}

/// A number, if it is finite.
fn number(value: impl Into<Option<f64>>) -> Value {
    value.into().filter(|value| value.is_finite()).map_or(Value::Null, Value::from)
}

fn percent_of_share(share: Option<f64>) -> Value {
    number(share.map(|share| share * 100.0))
}

fn figure(value: &Figure) -> Value {
    number(value.value())
}

fn count(value: impl Into<Option<u64>>) -> Value {
    value.into().map_or(Value::Null, Value::from)
}

fn text(text: &str) -> Value {
    text.into()
}

/// A time and the whole that it is a part of, in one unit: `1.11 of 3.17 ms`.
fn part_of(ns: f64, whole_ns: f64) -> String {
    let (scale, unit, decimals) = time_scale(whole_ns);
    grouped(&format!("{:.decimals$} of {:.decimals$} {unit}", ns / scale, whole_ns / scale))
}

/// A number in a sentence.
fn shown(value: f64) -> String {
    rounded(value).to_string()
}
