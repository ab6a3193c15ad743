//! The experiment of `next`, in short: what would confirm the first advice, and what it rests on.

use serde_json::Value;
use stage2_model::EvidenceValue;

use super::{Subject, name_of, number, quoted, shown, text};
use crate::answer::{Answer, Column, Row, Source, Table, TextOrigin};
use crate::next::{RunFiles, next};

pub(super) fn experiment(subject: &Subject<'_>, answer: &mut Answer) {
    let found = next(&subject.run, &RunFiles::default());
    let stage = found.stage.as_deref();
    let of = stage.map_or_else(String::new, |stage| format!(" of {}", quoted(stage)));
    let rule = name_of(&found.rule);
    let rule = rule.as_str().unwrap_or_default();
    answer.summary = match &found.metric {
        Some(metric) => {
            let best = metric.after_at_best.map(|best| {
                let error = metric.after_error.map(|error| format!(" ± {}", shown(error)));
                format!(", {}{} at best", shown(best), error.unwrap_or_default())
            });
            let noise = match metric.is_beyond_noise {
                true => "",
                false => " That is within the noise of single runs: compare several of each side.",
            };
            format!(
                "Follow the advice of rule {rule}, and compare: the metric{of} is {} {} now{}.{noise}",
                shown(metric.before),
                metric.unit.replace('_', " "),
                best.unwrap_or_default()
            )
        }
        None => format!("Measure what is missing for rule {rule}{of}."),
    };
    let metric = found.metric.as_ref();
    let cells = vec![
        text(found.kind),
        text(rule),
        stage.map_or(Value::Null, text),
        name_of(&found.confidence),
        metric.map_or(Value::Null, |metric| text(&metric.name)),
        metric.map_or(Value::Null, |metric| text(metric.unit)),
        number(metric.map(|metric| metric.before)),
        number(metric.and_then(|metric| metric.after_at_best)),
        number(metric.map(|metric| metric.refuted_from)),
        metric.map_or(Value::Null, |metric| text(metric.refuted)),
        number(metric.and_then(|metric| metric.noise)),
        metric.map_or(Value::Null, |metric| text(&metric.expect)),
        text(&found.change),
    ];
    let columns = vec![
        Column::text("kind"),
        Column::text("rule").at("/rule"),
        Column::workload("stage").at("/stage"),
        Column::text("confidence").at("/confidence"),
        Column::workload("metric"),
        Column::text("unit"),
        Column::number("before", "unit"),
        Column::number("at_best", "unit"),
        Column::number("refuted_from", "unit"),
        Column::text("refuted").of("values above or below refuted_from refute the advice"),
        Column::number("noise", "unit").of("of single runs"),
        Column::workload("expect").of("for diff --expect"),
        Column::workload("change").of("may quote the workload"),
    ];
    let takeaways = &subject.report.insight.takeaways;
    let place = takeaways.iter().position(|takeaway| takeaway.id == found.takeaway);
    let source = place.map(|at| Source::Place(format!("/takeaways/{at}")));
    answer.push(Table::new("experiment", columns, vec![Row { cells, source }]));
    let evidence = found.evidence.iter().map(|evidence| {
        let value = match &evidence.value {
            EvidenceValue::Number(value) => number(*value),
            EvidenceValue::Flag(flag) => (*flag).into(),
            EvidenceValue::State(state) => text(state),
        };
        let cells = vec![
            text(&evidence.name),
            value,
            evidence.unit.as_deref().map_or(Value::Null, text),
            evidence.basis.as_deref().map_or(Value::Null, text),
            number(evidence.error),
            number(evidence.threshold),
        ];
        Row::new(&evidence.source, cells)
    });
    let columns = vec![
        // Some quote what the workload wrote.
        Column::workload("evidence"),
        Column { text: TextOrigin::Workload, ..Column::number("value", "unit").at("") },
        Column::workload("unit"),
        Column::workload("of").of("what a share is a share of"),
        Column::number("error", "unit").of("standard error"),
        Column::number("threshold", "unit").of("of the rule"),
    ];
    answer.push(Table::new("evidence", columns, evidence.collect()));
    let places = found.places.iter().map(|place| {
        let line = place.line.map_or(Value::Null, Value::from);
        let cells = vec![text(&place.function), text(&place.file), line, number(place.percent)];
        Row::new(&place.source, cells)
    });
    let columns = vec![
        Column::workload("function").at("/frame/function"),
        Column::workload("file").at("/frame/file"),
        Column::number("line", "number").at("/frame/line"),
        Column::number("percent", "percent").of("of the idle time of the stage").at("/percent"),
    ];
    answer.push(Table::new("places", columns, places.collect()));
    let reason = "it needs files of the run besides its report";
    answer.unknown(
        "the command of the experiment, and the one that checks it",
        reason,
        &["next", subject.run.label],
    );
}
