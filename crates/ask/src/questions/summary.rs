//! The run in one screen: what a reader needs before the first question.

use serde_json::{Map, Value};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{counted, percent1};
use stage2_model::{BottleneckKind, Rule, StageAnswer, WindowKind};

use super::time::sentence;
use super::trust::{Serious, has_no_ground};
use super::{Subject, mean_of, ms, name_of, number, text, tokens_of_step};
use crate::answer::{ASK_NEXT, Answer, Column, Row, Table};
use crate::budget::rounded;
use crate::question::Question;

/// Tokens of a summary where no budget was asked for.
const TOKENS: usize = 500;
/// Stages, and losses, that a summary has.
const STAGES: usize = 3;
const LOSSES: usize = 3;

pub(super) fn summary(subject: &Subject<'_>, answer: &mut Answer) {
    let report = subject.report;
    let stages: Vec<(usize, &StageAnswer)> = subject.answers().collect();
    let simulated = if report.simulated { "SIMULATED GPU. " } else { "" };
    let first_stage = stages.first().map(|(_, stage)| sentence(subject.report, stage));
    let first_stage = first_stage.unwrap_or_else(|| "No stage has a time.".to_owned());
    answer.summary = format!("{simulated}{first_stage} {}", trust(subject));
    answer.usual_tokens = TOKENS;
    answer.push(stage_table(&stages));
    answer.push(first(subject));
    answer.push(ask_next(subject, &stages));
    answer.push(loss_table(&stages));
}

/// `Coverage: complete; 4 caveats, 2 of them warnings of the report.`
fn trust(subject: &Subject<'_>) -> String {
    let status = name_of(&subject.report.coverage.verdict.status);
    let status = status.as_str().unwrap_or_default();
    let serious = Serious::of(subject);
    let caveats = counted(serious.all as u64, "caveat");
    format!("Coverage: {status}; {caveats}{}.", serious.of_report())
}

fn stage_table(stages: &[(usize, &StageAnswer)]) -> Table {
    let of = mean_of(stages.iter().map(|(_, stage)| *stage));
    let rows = stages.iter().map(|(at, stage)| {
        let step = stage.step.as_ref();
        let cells = vec![
            text(&stage.stage),
            ms(step.map(|step| step.p50_ns)),
            step.map_or(Value::Null, |step| name_of(&step.unit)),
            shares(stage),
        ];
        Row::new(format!("/answer/stages/{at}"), cells)
    });
    let columns = vec![
        Column::workload("stage"),
        Column::number("step_ms", "ms").of("median").at("/step/p50_ns"),
        Column::text("step"),
        Column::number("shares", "percent").of(format!("of {of}")),
    ];
    Table::new("stages", columns, rows.collect()).usually(STAGES)
}

/// What the mean step is spent on, in percent: `{"host": 38.7, "ranks": 29.3}`.
fn shares(stage: &StageAnswer) -> Value {
    const LEAST_PERCENT: f64 = 1.0;
    let parts = parts(stage).into_iter().filter(|part| part.percent >= LEAST_PERCENT);
    let shares: Map<String, Value> = parts.map(|part| (part.name, rounded(part.percent))).collect();
    if shares.is_empty() { Value::Null } else { shares.into() }
}

/// A part of the mean step, or of the window where the bottleneck is not known.
struct Part {
    name: String,
    /// In the mean step, ns, or in the whole window where steps are not told apart.
    ns: f64,
    percent: f64,
    /// Time over the whole run, ns.
    total_ns: f64,
    /// The part that a better program would not need.
    lost: f64,
}

fn parts(stage: &StageAnswer) -> Vec<Part> {
    let string = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let window_ns = stage.window.as_ref().map_or(0, |window| window.window_ns) as f64;
    if let Some(bottleneck) = &stage.bottleneck {
        let parts = bottleneck.parts.iter().map(|part| {
            let percent = bottleneck.percent(part);
            let over =
                bottleneck.kernels_over_floor.filter(|over| over.is_finite() && *over >= 1.0);
            let lost = match part.kind {
                BottleneckKind::OtherWork => 0.0,
                kind if kind.is_kernels() => over.map_or(0.0, |over| 1.0 - 1.0 / over),
                _ => 1.0,
            };
            Part {
                name: string(name_of(&part.kind)),
                ns: part.ns as f64 * tokens_of_step(stage) as f64,
                percent,
                total_ns: window_ns * percent / 100.0,
                lost,
            }
        });
        return parts.collect();
    }
    let Some(window) = &stage.window else { return Vec::new() };
    let parts = window.parts.iter().map(|part| Part {
        name: string(name_of(&part.kind)),
        ns: window.per_step(part.ns),
        percent: part.percent,
        total_ns: part.ns as f64,
        lost: match part.kind {
            WindowKind::Compute | WindowKind::Busy | WindowKind::OtherWork => 0.0,
            _ => 1.0,
        },
    });
    parts.collect()
}

/// The largest losses of the run. Of kernels it is what exceeds the floor.
fn loss_table(stages: &[(usize, &StageAnswer)]) -> Table {
    let of = mean_of(stages.iter().map(|(_, stage)| *stage));
    let mut losses: Vec<(usize, &StageAnswer, Part)> = Vec::new();
    for (at, stage) in stages {
        let lost = parts(stage).into_iter().filter(|part| part.lost * part.percent >= 1.0);
        losses.extend(lost.map(|part| (*at, *stage, part)));
    }
    losses.order_by(|a, b| (b.2.total_ns * b.2.lost).total_cmp(&(a.2.total_ns * a.2.lost)));
    // `time` has all parts.
    losses.truncate(LOSSES);
    let rows = losses.iter().map(|(at, stage, part)| {
        let cells = vec![text(&stage.stage), text(&part.name), number(part.ns * part.lost / 1e6)];
        Row::new(format!("/answer/stages/{at}"), cells)
    });
    let columns = vec![
        Column::workload("stage"),
        Column::text("lost_to"),
        Column::number("lost_ms", "ms").of(format!("of {of}; kernels: over floor")),
    ];
    Table::new("losses", columns, rows.collect())
}

/// What to do first.
fn first(subject: &Subject<'_>) -> Table {
    let of_stage = subject.answers().find(|_| subject.stage.is_some());
    let found = match of_stage {
        Some((at, stage)) => {
            stage.first.as_ref().map(|first| (format!("/answer/stages/{at}/first"), first))
        }
        None => {
            subject.report.answer.first.as_ref().map(|first| ("/answer/first".to_owned(), first))
        }
    };
    let row = found.map_or_else(
        || nothing(subject),
        |(source, first)| {
            // As the report says it, with the code and the gain, which only the first of all stages has.
            let of_run = subject.report.answer.first.as_ref();
            let same =
                of_run.filter(|run| run.takeaway == first.takeaway && run.stage == first.stage);
            let said = [&same.unwrap_or(first).in_short, &first.text];
            let said = said.into_iter().find(|text| !text.is_empty()).map(String::as_str);
            let todo = said.unwrap_or(match first.is_in_tokens() {
                true => "batch more requests per step: the gain is in tokens/s",
                false => advice(first.rule).0,
            });
            let stage = first.stage.as_deref().map_or(Value::Null, text);
            // What only measures removes nothing.
            let removes = first.removes.iter().filter(|_| first.factor.is_some());
            let removes = removes.map(|part| {
                let what = match part.what.strip_prefix("its ") {
                    Some(what) => format!("{what} of the late rank"),
                    None => part.what.clone(),
                };
                format!("{what} {} %", percent1(part.percent))
            });
            let removes =
                Some(removes.collect::<Vec<_>>().join(" + ")).filter(|all| !all.is_empty());
            let removes = removes.map_or(Value::Null, Value::from);
            let factor = number(first.factor);
            Row::new(source, vec![name_of(&first.rule), stage, factor, removes, text(todo)])
        },
    );
    let columns = vec![
        Column::text("rule").at("/rule"),
        Column::workload("stage"),
        Column::number("times_faster", "ratio")
            .of("without what it removes: at most, or about where samples say so")
            .at("/factor"),
        Column::workload("removes").of("of the window"),
        Column::workload("do").of("may quote the workload"),
    ];
    Table::new("first", columns, vec![row])
}

/// That nothing is advised, and why.
fn nothing(subject: &Subject<'_>) -> Row {
    let todo = match has_no_ground(subject) {
        true => "nothing is advised from so few or unusual calls: see caveats",
        false => "no change is known to help",
    };
    let cells = vec![Value::Null, Value::Null, Value::Null, Value::Null, text(todo)];
    Row { cells, source: None }
}

/// What a rule advises in short, and the question that shows its evidence.
fn advice(rule: Rule) -> (&'static str, Question) {
    match rule {
        Rule::LaunchBound => {
            ("launch less often: CUDA graphs, fusion, a larger batch", Question::Idle)
        }
        Rule::HostAhead => {
            ("the host is ahead: use CUDA graphs or fewer, larger kernels", Question::Idle)
        }
        Rule::HostGaps | Rule::GpuIdle => {
            ("find out what the host does between launches", Question::Host)
        }
        Rule::HostFault | Rule::HostCause => {
            ("change the code of the host that the GPU waits for", Question::Host)
        }
        Rule::Waiting => {
            ("find out what the late rank does before it communicates", Question::LateRanks)
        }
        Rule::Communication => ("overlap or shrink communication", Question::Collectives),
        Rule::ExposedCopies => ("overlap copies with kernels, or avoid them", Question::Idle),
        Rule::DecodeNearBandwidth | Rule::DecodeFarFromBandwidth | Rule::MemoryBoundProduct => {
            ("read fewer bytes per token: a larger batch, quantised weights", Question::MemoryBound)
        }
        Rule::Fusible => ("fuse small kernels", Question::KernelsByLoss),
        Rule::Copies => ("avoid kernels that copy", Question::KernelsByLoss),
        Rule::LowOccupancy
        | Rule::NearRoof
        | Rule::FarFromRoof
        | Rule::TopKernel
        | Rule::GpuBusy => ("look at the kernels with the largest loss", Question::KernelsByLoss),
        Rule::Simulated | Rule::Incomplete => ("record again", Question::Caveats),
        Rule::WarmUp => ("record without the warm-up", Question::Caveats),
        Rule::DominantStage | Rule::Utilisation | Rule::Nothing => {
            ("look at where the time goes", Question::Time)
        }
    }
}

/// The questions that lead on.
fn ask_next(subject: &Subject<'_>, stages: &[(usize, &StageAnswer)]) -> Table {
    const MOST: usize = 3;
    if subject.report.coverage.empty.is_some() {
        let row = Row { cells: vec![text(Question::Coverage.name())], source: None };
        return Table::new(ASK_NEXT, vec![Column::text("question")], vec![row]);
    }
    let mut questions: Vec<Question> = Vec::new();
    let first = subject.report.answer.first.as_ref().filter(|_| subject.stage.is_none());
    let first = first.or_else(|| stages.first().and_then(|(_, stage)| stage.first.as_ref()));
    questions.extend(first.map(|first| advice(first.rule).1));
    if Serious::of(subject).all > 0 {
        questions.push(Question::Caveats);
    }
    let bounds =
        stages.iter().filter_map(|(_, stage)| Some(stage.bottleneck.as_ref()?.first()?.kind));
    questions.extend(bounds.map(|kind| match kind {
        BottleneckKind::Ranks => Question::LateRanks,
        BottleneckKind::Communication => Question::Collectives,
        BottleneckKind::Host => Question::Host,
        BottleneckKind::Memory => Question::MemoryBound,
        BottleneckKind::Compute | BottleneckKind::Kernels => Question::KernelsByLoss,
        BottleneckKind::Launches | BottleneckKind::Copies | BottleneckKind::OtherWork => {
            Question::Idle
        }
    }));
    questions.push(Question::Time);
    let mut rows: Vec<Row> = Vec::new();
    for question in questions {
        let cells = vec![text(question.name())];
        if rows.iter().all(|row| row.cells != cells) {
            rows.push(Row { cells, source: None });
        }
    }
    rows.truncate(MOST);
    Table::new(ASK_NEXT, vec![Column::text("question")], rows)
}
