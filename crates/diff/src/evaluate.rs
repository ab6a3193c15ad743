//! A condition and a comparison -> whether it is met, and why.

use crate::comparison::{
    Comparison, ConditionResult, MetricChange, NoiseMethod, Outcome, Presence, Verdict,
};
use crate::condition::{Condition, Direction, Scope};
use crate::lines::{change_text, value_text};
use crate::metric::class_of_metric;

/// Names of stages in a message.
const MOST_STAGES: usize = 12;

/// What becomes of a condition. `strict`: noise is no excuse.
pub(crate) fn evaluate(condition: &Condition, of: &Comparison, strict: bool) -> ConditionResult {
    let (outcome, text) = match find(condition, of) {
        Ok(metric) => {
            let (outcome, text) = held_against(condition, metric, strict);
            (outcome, format!("{}{text}", unit_of(condition, of)))
        }
        Err(why) => (Outcome::NotEvaluated, why),
    };
    ConditionResult { condition: condition.text.clone(), outcome, text }
}

/// What a step is, where the condition is on one.
fn unit_of(condition: &Condition, of: &Comparison) -> String {
    let Scope::Stage(stage) = &condition.scope else { return String::new() };
    let change = of.stages.iter().find(|change| change.stage == *stage);
    let step = change.and_then(|change| change.step.as_deref());
    match step.filter(|_| condition.metric.starts_with("step_")) {
        Some(step) => format!("of one {step}: "),
        None => String::new(),
    }
}

/// The metric with both its values, or why there is none.
fn find<'c>(condition: &Condition, of: &'c Comparison) -> Result<&'c MetricChange, String> {
    let Scope::Stage(stage) = &condition.scope else {
        let found = of.run.iter().find(|metric| metric.metric == condition.metric);
        return complete(found, "the run");
    };
    let Some(change) = of.stages.iter().find(|change| change.stage == *stage) else {
        let names: Vec<&str> = of.stages.iter().map(|change| change.stage.as_str()).collect();
        let more = names.len().saturating_sub(MOST_STAGES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names.iter().take(MOST_STAGES).copied().collect::<Vec<_>>().join(", ");
        return Err(format!("no side has a stage `{stage}`; there are {names}{more}"));
    };
    match change.presence {
        Presence::New => return Err(format!("the stage `{stage}` is missing before")),
        Presence::Vanished => return Err(format!("the stage `{stage}` is missing after")),
        Presence::Both => {}
    }
    let found = change.metric(&condition.metric);
    if found.is_none() && class_of_metric(&condition.metric).is_some() {
        let classes: Vec<&str> =
            change.metrics.iter().filter_map(|metric| class_of_metric(&metric.metric)).collect();
        return Err(format!(
            "no kernel of `{stage}` is of that class on either side; there are {}",
            classes.join(", ")
        ));
    }
    complete(found, &format!("`{stage}`"))
}

fn complete<'c>(found: Option<&'c MetricChange>, of: &str) -> Result<&'c MetricChange, String> {
    match found {
        Some(metric) if metric.before.is_none() => Err(format!("{of} has no such number before")),
        Some(metric) if metric.after.is_none() => Err(format!("{of} has no such number after")),
        Some(metric) => Ok(metric),
        None => Err(format!("{of} has no such number on either side")),
    }
}

fn held_against(condition: &Condition, metric: &MetricChange, strict: bool) -> (Outcome, String) {
    let numbers = format!("{}, {}", value_text(metric), change_text(metric));
    let worse = match condition.direction {
        Direction::Growth => metric.change.unwrap_or(0.0),
        Direction::Fall => -metric.change.unwrap_or(0.0),
    };
    let beyond_absolute = condition.absolute.is_none_or(|limit| worse > limit);
    let beyond_relative = condition.relative.is_none_or(|limit| match metric.before {
        Some(before) if before != 0.0 => worse * 100.0 / before.abs() > limit,
        // Any growth from zero is beyond any share of it.
        _ => true,
    });
    if !(worse > 0.0 && beyond_absolute && beyond_relative) {
        return (Outcome::Passed, format!("{numbers}: within the limit"));
    }
    if metric.noise.method == NoiseMethod::OneRunEach && !strict {
        let text = format!(
            "{numbers}: beyond the limit, but not judged: the time of one whole run a side says nothing \
             of noise; compare several runs a side (--against), or give --strict"
        );
        return (Outcome::PassedWithinNoise, text);
    }
    if metric.verdict == Verdict::None && !strict {
        let advice = match metric.noise.method {
            NoiseMethod::FivePercent | NoiseMethod::Instances => {
                "; noise between runs is unknown: compare several runs a side (--against)"
            }
            NoiseMethod::OneAgainstSeveral => "; compare several runs on both sides",
            _ => "",
        };
        let text =
            format!("{numbers}: beyond the limit, but within the noise{advice}, or give --strict");
        return (Outcome::PassedWithinNoise, text);
    }
    (Outcome::Failed, format!("{numbers}: beyond the limit"))
}
