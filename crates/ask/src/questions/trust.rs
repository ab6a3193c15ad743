//! What was recorded, and how far the numbers can be trusted.

use std::collections::HashSet;

use serde_json::Value;
use stage2_contract::order::Order as _;
use stage2_contract::text::listed;
use stage2_contract::text::numbers::{self, counted, percent1};
use stage2_model::rule::ENOUGH_INSTANCES;
use stage2_model::{Coverage, Severity, StageRow, Status};

use super::{Subject, count, name_of, number, quoted, text};
use crate::answer::{Answer, Column, Row, Source, Table};

/// A profiler that slows a stage by less is not a caveat.
const SLOWDOWN_LEAST: f64 = 1.05;

/// Why nothing is advised from the times of a stage.
const NO_GROUND: [&str; 3] = ["cold", "few_steps", "no_ground"];
/// Stages that a caveat names.
const STAGES_NAMED: usize = 8;

/// A caveat, and where it comes from.
struct Caveat {
    severity: Severity,
    /// Names its kind: of findings, their id.
    id: &'static str,
    stage: Option<String>,
    /// What it means, in our words.
    meaning: String,
    /// What the report states, which may quote texts of the workload.
    detail: Option<String>,
    source: Option<String>,
    /// The report has it among its errors, warnings and notes.
    is_finding: bool,
}

impl Caveat {
    fn new(severity: Severity, id: &'static str, meaning: impl Into<String>) -> Self {
        let (stage, detail, source, meaning) = (None, None, None, meaning.into());
        Self { severity, id, stage, meaning, detail, source, is_finding: false }
    }

    fn of(self, stage: &str) -> Self {
        Self { stage: Some(stage.to_owned()), ..self }
    }

    fn at(self, source: impl Into<String>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    fn detail(self, detail: &str) -> Self {
        Self { detail: Some(detail.to_owned()), ..self }
    }
}

/// Caveats that change how numbers are to be read.
#[derive(Clone, Copy)]
pub(super) struct Serious {
    pub(super) all: usize,
    /// Those that the console and the pages count as warnings.
    pub(super) warnings: usize,
}

impl Serious {
    pub(super) fn of(subject: &Subject<'_>) -> Self {
        Self::among(&found(subject))
    }

    fn among(found: &[Caveat]) -> Self {
        let serious = || found.iter().filter(|caveat| caveat.severity > Severity::Note);
        let is_warning =
            |caveat: &&Caveat| caveat.is_finding && caveat.severity == Severity::Warning;
        Self { all: serious().count(), warnings: serious().filter(is_warning).count() }
    }

    /// `, 2 of them warnings of the report`.
    pub(super) fn of_report(self) -> String {
        match (self.all, self.warnings) {
            (_, 0) => String::new(),
            (1, _) => ", a warning of the report".to_owned(),
            (all, warnings) if all == warnings => ", all of them warnings of the report".to_owned(),
            (_, 1) => ", one of them a warning of the report".to_owned(),
            (_, warnings) => format!(", {warnings} of them warnings of the report"),
        }
    }
}

pub(super) fn caveats(subject: &Subject<'_>, answer: &mut Answer) {
    let found = found(subject);
    let serious = Serious::among(&found);
    answer.summary = match (found.len(), serious.all) {
        (0, _) => "No caveat is known.".to_owned(),
        (notes, 0) => {
            format!(
                "No caveat affects how to read the numbers; {} below.",
                if notes == 1 {
                    "the only note is".to_owned()
                } else {
                    format!("{notes} notes are")
                }
            )
        }
        (_, 1) => format!("One caveat affects how to read the numbers{}.", serious.of_report()),
        (_, all) => format!("{all} caveats affect how to read the numbers{}.", serious.of_report()),
    };
    let rows = found.into_iter().map(|caveat| Row {
        cells: vec![
            name_of(&caveat.severity),
            text(caveat.id),
            caveat.stage.map_or(Value::Null, Value::from),
            caveat.meaning.into(),
            caveat.detail.map_or(Value::Null, Value::from),
        ],
        source: caveat.source.map(Source::Place),
    });
    let columns = vec![
        Column::text("severity"),
        Column::text("id"),
        Column::workload("stage"),
        Column::text("meaning"),
        Column::workload("detail")
            .of("as the report has it; may quote the workload")
            .plain()
            .spare(),
    ];
    answer.push(Table::new("caveats", columns, rows.collect()).at_least(serious.all));
}

/// Whether a stage is among them from whose times nothing is advised.
pub(super) fn has_no_ground(subject: &Subject<'_>) -> bool {
    found(subject).iter().any(|caveat| NO_GROUND.contains(&caveat.id))
}

/// All caveats, the most severe first.
fn found(subject: &Subject<'_>) -> Vec<Caveat> {
    let mut found = of_the_run(subject);
    found.extend(of_stages(subject));
    for (at, finding) in subject.report.findings.iter().enumerate() {
        let (id, meaning) = (finding.id.code(), finding.id.meaning());
        let caveat = Caveat::new(finding.severity, id, meaning).detail(&finding.to_string());
        found.push(Caveat { is_finding: true, ..caveat.at(format!("/findings/{at}")) });
    }
    found.order_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    found
}

fn of_the_run(subject: &Subject<'_>) -> Vec<Caveat> {
    let report = subject.report;
    let mut found = Vec::new();
    let verdict = &report.coverage.verdict;
    match verdict.status {
        Status::Complete => {}
        Status::Partial => found.push(
            Caveat::new(
                Severity::Warning,
                "partial",
                "records are missing: times and counts may be too small",
            )
            .detail(&verdict.text)
            .at("/coverage/verdict"),
        ),
        Status::Empty => found.push(
            Caveat::new(Severity::Error, "empty", "no GPU work was recorded")
                .detail(&verdict.text)
                .at("/coverage/verdict"),
        ),
    }
    if report.simulated {
        let meaning = "the GPU was simulated: kernel times are those of a recording, launches and idle times those of the machine that \
                       ran it";
        found.push(Caveat::new(Severity::Warning, "simulated", meaning).at("/simulated"));
    }
    if report.is_sampled() {
        let meaning = "GPU work of only some calls was recorded: counts and sums of kernels are scaled to all \
                       calls, step times are of all calls, and the parts of a step are of the recorded calls";
        let of = |row: &StageRow| {
            let (recorded, all) = (row.recorded_instances?, row.instances?);
            (recorded < all).then(|| {
                format!("{} of {} of {}", numbers::count(recorded), counted(all, "call"), row.stage)
            })
        };
        let stages = report.stages.iter().filter(|row| subject.has(&row.stage));
        let stages: Vec<String> = stages.filter_map(of).collect();
        let caveat = Caveat::new(Severity::Warning, "sampled", meaning).at("/coverage/processes");
        found.push(caveat.detail(&listed(&stages, STAGES_NAMED)));
    }
    if let Some(end) = &report.run.workload_end {
        let meaning = "the workload ended early: the report is of what it did until then";
        let caveat = Caveat::new(Severity::Warning, "ended_early", meaning);
        found.push(
            caveat.detail(&end.sentence(report.coverage.verdict.status)).at("/run/workload_end"),
        );
    }
    for left_out in subject.run.left_out {
        let meaning = "a part of the report is missing or cannot be read: write it again";
        found.push(Caveat::new(Severity::Warning, "field_left_out", meaning).detail(left_out));
    }
    found
}

fn of_stages(subject: &Subject<'_>) -> Vec<Caveat> {
    let report = subject.report;
    let mut found = Vec::new();
    for (at, stage) in subject.answers() {
        let source = format!("/answer/stages/{at}");
        let slowdown = stage.slowdown.as_ref().filter(|s| s.ratio >= SLOWDOWN_LEAST);
        if let Some(slowdown) = slowdown {
            let meaning =
                format!("its times are {:.2} times those without the profiler", slowdown.ratio);
            let caveat = Caveat::new(Severity::Warning, "slowed_down", meaning).of(&stage.stage);
            found.push(caveat.at(format!("{source}/slowdown")));
        }
        let Some(step) = &stage.step else { continue };
        if step.cold {
            let meaning = "its times are of the first, cold call: it has no other";
            let caveat = Caveat::new(Severity::Warning, "cold", meaning).of(&stage.stage);
            found.push(caveat.at(format!("{source}/step/cold")));
        } else if step.steps < ENOUGH_INSTANCES {
            let were = if step.steps == 1 { "was" } else { "were" };
            let steps = counted(step.steps, "warm step");
            let meaning = format!("only {steps} {were} timed: the times may be due to chance");
            let caveat = Caveat::new(Severity::Warning, "few_steps", meaning).of(&stage.stage);
            found.push(caveat.at(format!("{source}/step/steps")));
        }
    }
    found.extend(no_ground(subject, &found));
    for (at, stage) in report.stages.iter().enumerate().filter(|(_, row)| subject.has(&row.stage)) {
        let Some(outliers) = &stage.outliers else { continue };
        let with = if outliers.left_out {
            "other numbers leave them out"
        } else {
            "they are in all numbers"
        };
        let meaning = format!(
            "{} of {} {}s take {} % of the time; {with}",
            outliers.count,
            outliers.of,
            outliers.unit_word(),
            percent1(outliers.percent)
        );
        let severity = if outliers.left_out { Severity::Note } else { Severity::Warning };
        let caveat = Caveat::new(severity, "outliers", meaning).of(&stage.stage);
        found.push(caveat.at(format!("/stages/{at}/outliers")));
    }
    found
}

/// Stages from whose times nothing is advised, as far as no other caveat states why.
fn no_ground(subject: &Subject<'_>, others: &[Caveat]) -> Vec<Caveat> {
    let said: HashSet<&str> = others
        .iter()
        .filter(|caveat| NO_GROUND.contains(&caveat.id))
        .filter_map(|caveat| caveat.stage.as_deref())
        .collect();
    let answered: HashSet<&str> =
        subject.answers().map(|(_, stage)| stage.stage.as_str()).collect();
    let rows = subject.report.insight.stage_numbers.iter().enumerate();
    let caveats = rows.filter_map(|(at, row)| {
        let is_new = answered.contains(row.stage.as_str()) && !said.contains(row.stage.as_str());
        let why = row.caveat.as_deref().filter(|_| is_new)?;
        let meaning = "nothing is advised from its times: they are of too few, or of unusual calls";
        let caveat = Caveat::new(Severity::Warning, "no_ground", meaning).of(&row.stage);
        Some(caveat.detail(why).at(format!("/stage_numbers/{at}/caveat")))
    });
    caveats.collect()
}

pub(super) fn coverage(subject: &Subject<'_>, answer: &mut Answer) {
    let coverage = &subject.report.coverage;
    let missing = missing_percent(coverage);
    answer.summary = match coverage.verdict.status {
        Status::Partial if missing.is_some() => format!(
            "Partial: {} % of the GPU records are missing; `verdict` and `counts` show why.",
            missing.map_or_else(String::new, percent1)
        ),
        Status::Complete => format!(
            "Complete: no record of GPU work is known to be lost ({}).",
            counted(coverage.gpu_records(), "record")
        ),
        Status::Partial => {
            "Partial: something is missing; `verdict` and `counts` show what.".to_owned()
        }
        Status::Empty => "No GPU work was recorded.".to_owned(),
    };
    let cells =
        vec![name_of(&coverage.verdict.status), number(missing), text(&coverage.verdict.text)];
    let columns = vec![
        Column::text("status").at("/status"),
        Column::number("missing_percent", "percent")
            .of("records that CUPTI dropped, of those and the GPU records"),
        Column::workload("text").of("may quote the workload").at("/text"),
    ];
    answer.push(Table::new("verdict", columns, vec![Row::new("/coverage/verdict", cells)]));
    answer.push(empty(subject));
    answer.push(counts(subject));
    answer.push(processes(subject));
    if coverage.processes.is_empty() && coverage.empty.is_none() {
        let reason = "the report is of captures without a trace file of the collector";
        answer.unknown("what each process lost", reason, &["doctor"]);
    }
    if subject.stage.is_some() {
        let stage = quoted(subject.stage.unwrap_or_default());
        let question = format!("coverage of {stage} alone");
        answer.unknown(&question, "records are counted per process, not per stage", &[]);
    }
}

/// The share of the records that is known to be missing; none where records are missing and their number is not known.
fn missing_percent(coverage: &Coverage) -> Option<f64> {
    match (coverage.verdict.status, coverage.total.dropped_by_cupti) {
        (Status::Complete, _) => Some(0.0),
        (Status::Partial, 1..) => Some(coverage.dropped_percent()),
        _ => None,
    }
}

/// Why there is no GPU work.
fn empty(subject: &Subject<'_>) -> Table {
    let empty = subject.report.coverage.empty.iter();
    let rows = empty.flat_map(|empty| {
        let also = empty.also.iter().enumerate();
        let also = also.map(|(at, reason)| (format!("/coverage/empty/also/{at}"), reason));
        std::iter::once(("/coverage/empty".to_owned(), &empty.first)).chain(also)
    });
    let rows = rows.map(|(source, reason)| {
        Row::new(source, vec![name_of(&reason.cause), text(&reason.why), text(&reason.remedy)])
    });
    let columns = vec![
        Column::text("cause").at("/cause"),
        Column::workload("why").of("may quote the workload").at("/why"),
        Column::workload("remedy").of("may quote the workload").at("/remedy"),
    ];
    Table::new("empty", columns, rows.collect())
}

/// Counts that are not zero, by the names that metrics.json has for them.
fn counts(subject: &Subject<'_>) -> Table {
    let counts = name_of(&subject.report.coverage.total);
    let counts = counts.as_object().into_iter().flatten();
    let rows = counts.filter(|(_, value)| value.as_u64() != Some(0)).map(|(name, value)| {
        Row::new(format!("/coverage/total/{name}"), vec![text(name), value.clone()])
    });
    let columns = vec![Column::text("what"), Column::number("count", "count").at("")];
    Table::new("counts", columns, rows.collect()).usually(30)
}

fn processes(subject: &Subject<'_>) -> Table {
    let rows = subject.report.coverage.processes.iter().enumerate().map(|(at, process)| {
        let cells = vec![
            text(&process.file),
            count(process.pid.map(u64::from)),
            name_of(&process.ending),
            process.end_reason.as_deref().map_or(Value::Null, text),
            count(process.counts.kernels),
            process.gpu_off.as_deref().map_or(Value::Null, text),
        ];
        Row::new(format!("/coverage/processes/{at}"), cells)
    });
    let columns = vec![
        Column::workload("file").at("/file"),
        Column::number("pid", "number").at("/pid"),
        Column::text("file_ends").at("/ending"),
        Column::workload("end_reason").at("/end_reason"),
        Column::number("kernels", "count").at("/counts/kernels"),
        Column::workload("gpu_off").of("why GPU work was not recorded").at("/gpu_off"),
    ];
    Table::new("processes", columns, rows.collect()).usually(4)
}
