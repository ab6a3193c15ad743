//! `decode.step_ms>+5%+0.2ms` -> a condition on a comparison, and whether it is met.

use std::str::FromStr;

use stage2_contract::text::{instead, listed, shorten, visible};

use crate::comparison::{
    Better, Comparison, ConditionResult, MetricChange, MetricUnit, Outcome, Presence, StageChange,
};
use crate::judged::{NoiseMethod, NoiseText, Verdict};
use crate::lines::{change_text, value_text};
use crate::metric::{Kind, RUN_METRICS, class_of_metric, stage_kinds, why_absent};

/// What people write between conditions.
const BETWEEN: [&str; 6] = [",", ";", "||", "&&", " or ", " and "];
/// The name in front of a metric of the whole run.
const RUN: &str = "run";
/// In front of a stage whose name could be taken for something else.
const STAGE: &str = "stage:";
/// Characters of a foreign text in a message.
const TEXT_LIMIT: usize = 120;

/// A metric, and by how much it may or has to change. The limit is exceeded when both its parts are.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub(crate) text: String,
    /// Exceeding the limit beyond noise is demanded (`--expect`); otherwise that fails (`--fail-if`).
    expected: bool,
    /// None: the whole run.
    stage: Option<String>,
    pub(crate) metric: String,
    pub(crate) unit: MetricUnit,
    pub(crate) direction: Direction,
    /// Percent of the value before; above zero.
    pub(crate) relative: Option<f64>,
    /// In the unit; above zero.
    pub(crate) absolute: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Growth,
    Fall,
}

/// Why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// There is neither `>` nor `<`.
    #[error(
        "it has neither > nor < (the shell takes them if you left out the quotes): write \
             'STAGE.METRIC>+LIMIT' or 'STAGE.METRIC<-LIMIT', for instance 'decode.step_ms>+5%+0.2ms'"
    )]
    NoOperator,
    /// There is nothing in front of the sign.
    #[error(
        "nothing stands before {0}; write STAGE.METRIC there, for instance 'decode.step_ms>+10%'"
    )]
    NoName(char),
    /// There is no dot, or nothing at a side of it.
    #[error(
        "`{0}` is not STAGE.METRIC: the stage stands before the last dot, for instance \
             decode.step_ms; metrics of the whole run are run.METRIC"
    )]
    NoStage(String),
    /// There is no such metric.
    #[error("there is no metric `{name}`{of}{instead} (docs/diff.md lists all)")]
    UnknownMetric {
        /// What stands there.
        name: String,
        /// What has no such metric, where that is not a stage.
        of: &'static str,
        /// The metric that was probably meant, or the first ones.
        instead: String,
    },
    /// The limit has no sign; with it, it is this.
    #[error("the limit has no sign: write '{0}'")]
    NoSign(String),
    /// The limit cannot be read.
    #[error("the limit `{limit}` cannot be read: {why}; write one or both of {form}")]
    BadLimit {
        /// What stands there.
        limit: String,
        /// What is wrong with it.
        why: String,
        /// What is accepted.
        form: String,
    },
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        // Names of stages may hold either sign, limits do not.
        let at = text.rfind(['>', '<']).ok_or(ConditionError::NoOperator)?;
        let (name, rest) = text.split_at(at);
        let direction = if rest.starts_with('>') { Direction::Growth } else { Direction::Fall };
        let (name, limit) = (name.trim(), rest.get(1..).unwrap_or_default().trim());
        if name.is_empty() {
            return Err(ConditionError::NoName(if rest.starts_with('>') { '>' } else { '<' }));
        }
        let (stage, metric) = split_name(name)?;
        let unit = find_unit(stage.is_none(), metric)?;
        let (relative, absolute) = parse_limit(name, limit, direction, unit)?;
        Ok(Self {
            text: visible(text.trim().as_bytes()),
            expected: false,
            stage: stage.map(str::to_owned),
            metric: metric.to_owned(),
            unit,
            direction,
            relative,
            absolute,
        })
    }
}

impl Condition {
    /// Turns a condition of `--fail-if` into one of `--expect`: it fails unless the metric changes by more than the
    /// limit and beyond noise.
    pub fn expected(self) -> Self {
        Self { expected: true, ..self }
    }

    /// Why it is on a stage that no side has, with the one that was probably meant; nothing where a side has it.
    pub fn unknown_stage(&self, of: &Comparison) -> Option<String> {
        let stage = self.stage.as_ref()?;
        let names: Vec<&str> = of.stages.iter().map(|change| change.stage.as_str()).collect();
        if names.contains(&stage.as_str()) {
            return None;
        }
        // The name of a stage may hold a comma or a word, but hardly a condition before it.
        let first = BETWEEN.iter().find_map(|word| Some(stage.split_once(word)?.0.trim()));
        let first = first.filter(|first| Self::from_str(first).is_ok());
        let (option, fails) = match self.expected {
            true => ("--expect", "all have to be met"),
            false => ("--fail-if", "it fails if one of them does"),
        };
        Some(match first {
            Some(first) => format!(
                "these are several conditions; {option} may be repeated ({fails}): {option} '{first}' {option} ..."
            ),
            None => format!("neither side has a stage `{stage}`{}", instead(stage, &names)),
        })
    }

    /// Of a condition that fails when its metric gets better: what it says, and what was probably meant.
    pub fn reversed(&self) -> Option<(String, String)> {
        let better = match self.stage.is_some() && class_of_metric(&self.metric).is_some() {
            true => Better::Lower,
            false => kinds(self.stage.is_none()).find(|kind| kind.name == self.metric)?.better,
        };
        let is_reversed = match self.direction {
            Direction::Growth => better == Better::Higher,
            Direction::Fall => better == Better::Lower,
        };
        if self.expected || !is_reversed {
            return None;
        }
        let (name, limit) = self.text.split_at(self.text.rfind(['>', '<'])?);
        let turned = |c| match c {
            '>' => '<',
            '<' => '>',
            '+' => '-',
            '-' => '+',
            c => c,
        };
        let limit: String = limit.chars().map(turned).collect();
        let text = &self.text;
        Some((
            format!("--fail-if '{text}' fails when {} gets better", self.metric),
            format!("did you mean --fail-if '{name}{limit}', or --expect '{text}'?"),
        ))
    }
}

/// The stage, none for the whole run, and the metric.
fn split_name(name: &str) -> Result<(Option<&str>, &str), ConditionError> {
    let no_stage = || ConditionError::NoStage(shown(name));
    let (stage, metric) = name.rsplit_once('.').ok_or_else(no_stage)?;
    let said = stage.strip_prefix(STAGE);
    match said.unwrap_or(stage) {
        stage if stage.is_empty() || metric.is_empty() => Err(no_stage()),
        RUN if said.is_none() => Ok((None, metric)),
        stage => Ok((Some(stage), metric)),
    }
}

fn kinds(of_run: bool) -> impl Iterator<Item = &'static Kind> {
    let of_stage = stage_kinds().filter(move |_| !of_run);
    RUN_METRICS.iter().filter(move |_| of_run).chain(of_stage)
}

fn find_unit(of_run: bool, metric: &str) -> Result<MetricUnit, ConditionError> {
    let kinds: Vec<&Kind> = kinds(of_run).collect();
    let found = kinds.iter().find(|kind| kind.name == metric).map(|kind| kind.unit);
    let is_of_class = !of_run && class_of_metric(metric).is_some();
    found.or(is_of_class.then_some(MetricUnit::Ms)).ok_or_else(|| {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let of = if of_run { " of the whole run" } else { "" };
        let other = OTHER_NAMES.iter().find(|(name, ours)| *name == metric && names.contains(ours));
        let instead = match other {
            Some((name, ours)) if name.contains("call") => {
                format!("; for a time `per call`, use `{ours}`")
            }
            Some((_, ours)) => format!("; did you mean `{ours}`?"),
            None => instead(metric, &names),
        };
        ConditionError::UnknownMetric { name: shown(metric), of, instead }
    })
}

/// What people and other tools call a metric.
const OTHER_NAMES: [(&str, &str); 17] = [
    ("tpot", "token_ms"),
    ("itl", "token_ms"),
    ("time_per_token", "token_ms"),
    ("call_ms", "step_ms"),
    ("call_mean_ms", "step_mean_ms"),
    ("call_p99_ms", "step_p99_ms"),
    ("per_call", "step_ms"),
    ("per_step", "step_ms"),
    ("per_token", "token_ms"),
    ("p50", "step_ms"),
    ("median", "step_ms"),
    ("latency", "step_ms"),
    ("time", "step_ms"),
    ("mean", "step_mean_ms"),
    ("p99", "step_p99_ms"),
    ("throughput", "tokens_per_s"),
    ("tokens", "tokens_per_s"),
];

/// Percent, and a number in the unit of the metric.
fn parse_limit(
    name: &str,
    limit: &str,
    direction: Direction,
    unit: MetricUnit,
) -> Result<(Option<f64>, Option<f64>), ConditionError> {
    let sign = match direction {
        Direction::Growth => '+',
        Direction::Fall => '-',
    };
    let absolute = match unit {
        MetricUnit::Ms => "0.2ms (also us, s)",
        MetricUnit::Percent => "2pp (percentage points)",
        MetricUnit::Count => "3",
        MetricUnit::PerSecond => "3 (per second)",
        MetricUnit::Joule => "3J",
        MetricUnit::Watt => "20W",
        MetricUnit::Mhz => "60MHz",
    };
    let bad = |why: &str| ConditionError::BadLimit {
        limit: shown(limit),
        why: why.to_owned(),
        form: format!("{sign}5% and {sign}{absolute}"),
    };
    if limit.is_empty() {
        return Err(bad("it is empty"));
    }
    if limit.starts_with('=') {
        return Err(bad(match direction {
            Direction::Growth => "write > in place of >=",
            Direction::Fall => "write < in place of <=",
        }));
    }
    if !limit.starts_with(sign) {
        let with_sign = format!("{sign}{limit}");
        if parse_limit(name, &with_sign, direction, unit).is_ok() {
            let operator = if direction == Direction::Growth { '>' } else { '<' };
            let meant = format!("{}{operator}{with_sign}", shown(name));
            return Err(ConditionError::NoSign(meant));
        }
        return Err(bad(match direction {
            Direction::Growth => "after > a limit begins with + (increase)",
            Direction::Fall => "after < a limit begins with - (decrease)",
        }));
    }
    let (mut relative, mut absolute) = (None, None);
    for part in limit.split(sign).skip(1) {
        let part = part.trim();
        let digits = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
        let (number, suffix) = part.split_at(digits);
        let number: f64 = number.parse().map_err(|_| bad("a part of it has no number"))?;
        if !number.is_finite() || number > 1e15 {
            return Err(bad("a number is too large"));
        }
        let (slot, value) = match (suffix.trim(), unit) {
            ("%", _) => (&mut relative, number),
            ("ms", MetricUnit::Ms) => (&mut absolute, number),
            ("us", MetricUnit::Ms) => (&mut absolute, number / 1e3),
            ("s", MetricUnit::Ms) => (&mut absolute, number * 1e3),
            ("pp", MetricUnit::Percent)
            | ("J", MetricUnit::Joule)
            | ("W", MetricUnit::Watt)
            | ("MHz", MetricUnit::Mhz) => (&mut absolute, number),
            ("", MetricUnit::Count | MetricUnit::PerSecond) | ("/s", MetricUnit::PerSecond) => {
                (&mut absolute, number)
            }
            ("", _) => return Err(bad("a part of it has no unit")),
            (suffix, _) => return Err(bad(&format!("its metric has no unit `{}`", shown(suffix)))),
        };
        if slot.replace(value).is_some() {
            return Err(bad("two of its parts are of one kind"));
        }
    }
    Ok((relative, absolute))
}

fn shown(text: &str) -> String {
    shorten(&visible(text.as_bytes()), TEXT_LIMIT)
}

/// Why the time of a whole step or call does not compare.
const OTHER_NUMBER: &str = "a step or call contains a different number of tokens on each side";

/// What becomes of a condition. `strict`: noise is not an excuse.
pub(crate) fn evaluate(condition: &Condition, of: &Comparison, strict: bool) -> ConditionResult {
    let is_of = |change: &&StageChange| Some(&change.stage) == condition.stage.as_ref();
    let stage = of.stages.iter().find(is_of);
    let per = stage.map_or_else(String::new, |stage| stage.per_of(&condition.metric));
    let other_steps = |stage: &StageChange| {
        let metric = stage.metric(&condition.metric);
        metric.is_some_and(|metric| stage.is_of_other_steps(metric)).then_some(OTHER_NUMBER)
    };
    let unlike = stage.and_then(|stage| stage.other_work.as_deref().or_else(|| other_steps(stage)));
    let (outcome, mut text) = match find_metric(condition, of) {
        Ok(metric) => decide(condition, metric, &per, strict, unlike),
        Err(why) => (Outcome::NotEvaluated, why),
    };
    let is_compared = |_: &&StageChange| outcome != Outcome::NotEvaluated;
    let shown = stage.filter(is_compared).and_then(|stage| Some((stage, stage.time()?)));
    // A step of one token has the same times.
    let is_other = |(stage, shown): &(&StageChange, &MetricChange)| {
        let step = stage.metric("step_ms");
        let is_same = step.is_some_and(|step| step.shown_row() == shown.shown_row());
        !is_same && [&condition.metric, &shown.metric] == ["step_ms", "token_ms"]
    };
    if shown.filter(is_other).is_some() {
        text.push_str("; its row has the time per token (token_ms)");
    }
    let (expected, condition) = (condition.expected, condition.text.clone());
    ConditionResult { condition, expected, outcome, text }
}

fn find_metric<'c>(condition: &Condition, of: &'c Comparison) -> Result<&'c MetricChange, String> {
    let Some(stage) = &condition.stage else {
        let found = of.run.iter().find(|metric| metric.metric == condition.metric);
        return complete(found, "the run");
    };
    let Some(change) = of.stages.iter().find(|change| change.stage == *stage) else {
        return Err(condition.unknown_stage(of).unwrap_or_default());
    };
    match change.presence {
        Presence::New => return Err(format!("the runs before the change have no stage `{stage}`")),
        Presence::Vanished => {
            return Err(format!("the runs after the change have no stage `{stage}`"));
        }
        Presence::Both => {}
    }
    let found = change.metric(&condition.metric);
    if let (None, Some(times), Some(why)) = (found, change.own_text(), &change.other_work) {
        return Err(format!("`{stage}` is {why}, so its numbers are not subtracted ({times})"));
    }
    if found.is_none() && class_of_metric(&condition.metric).is_some() {
        let classes: Vec<&str> =
            change.metrics.iter().filter_map(|metric| class_of_metric(&metric.metric)).collect();
        return Err(format!(
            "no kernel of `{stage}` is of that class on either side; there are {}",
            classes.join(", ")
        ));
    }
    let side = match found.map(|metric| (metric.before, metric.after)) {
        Some((Some(_), Some(_))) => None,
        Some((None, Some(_))) => Some(" before"),
        Some((Some(_), None)) => Some(" after"),
        _ => Some(""),
    };
    if let ("token_ms", Some(side), Some(_)) =
        (condition.metric.as_str(), side, change.metric("step_ms"))
    {
        let of = change.per_of("step_ms");
        if change.metric("tokens_per_s").is_some_and(|rate| rate.change.is_some()) {
            return Err(format!(
                "`{stage}` has no token_ms, because one step of it processes many tokens; use tokens_per_s, or \
                 step_ms for its time{of}"
            ));
        }
        return Err(format!(
            "how many tokens a step of `{stage}` holds is not known{side}; its time{of} is step_ms"
        ));
    }
    complete(found, &format!("`{stage}`")).map_err(|why| {
        let known = change.metrics.iter().filter(|metric| metric.change.is_some());
        let known: Vec<&str> = known.map(|metric| metric.metric.as_str()).collect();
        let metric = &condition.metric;
        format!("{why} ({metric}: {}); it has {}", why_absent(metric), listed(&known, LISTED))
    })
}

/// Metrics that are listed.
const LISTED: usize = 5;

fn complete<'c>(found: Option<&'c MetricChange>, of: &str) -> Result<&'c MetricChange, String> {
    match found {
        Some(metric) if metric.before.is_none() => Err(format!("{of} has no such number before")),
        Some(metric) if metric.after.is_none() => Err(format!("{of} has no such number after")),
        Some(metric) => Ok(metric),
        None => Err(format!("{of} has no such number on either side")),
    }
}

fn decide(
    condition: &Condition,
    metric: &MetricChange,
    per: &str,
    strict: bool,
    unlike: Option<&str>,
) -> (Outcome, String) {
    let moved = match metric.change {
        Some(0.0) => "no change".to_owned(),
        _ => change_text(metric),
    };
    let not_comparable = unlike.map_or_else(String::new, |why| format!(" (not comparable: {why})"));
    let numbers = format!("{}{per}, {moved}{not_comparable}", value_text(metric));
    let change = match condition.direction {
        Direction::Growth => metric.change.unwrap_or(0.0),
        Direction::Fall => -metric.change.unwrap_or(0.0),
    };
    let is_beyond = |change: f64| {
        let beyond_absolute = condition.absolute.is_none_or(|limit| change > limit);
        let beyond_relative = condition.relative.is_none_or(|limit| match metric.before {
            Some(before) if before != 0.0 => change * 100.0 / before.abs() > limit,
            // Any growth from zero is beyond any share of it.
            _ => true,
        });
        change > 0.0 && beyond_absolute && beyond_relative
    };
    let most = metric.interval.map(|[least, most]| match condition.direction {
        Direction::Growth => most,
        Direction::Fall => -least,
    });
    // Of one run per side, the noise within the runs.
    let within = || {
        let noise = metric.noise.threshold.filter(|_| metric.noise.method.is_of_two_runs())?;
        Some(change + noise)
    };
    let is_open = most.or_else(within).is_some_and(is_beyond);
    let is_beyond = is_beyond(change);
    let doubt = undecided(metric);
    match (condition.expected, is_beyond, doubt) {
        (false, false, _) if is_open => {
            (Outcome::Passed, format!("{numbers}: within the limit, {NOISE_EXCEEDS}"))
        }
        (false, false, _) => (Outcome::Passed, format!("{numbers}: within the limit")),
        (false, true, Some(why)) if !strict => {
            let text = format!(
                "{numbers}: beyond the limit, but {why}, so it does not fail; {}, or use --strict to fail in such a case",
                remedy(metric, unlike)
            );
            (Outcome::Undecided, text)
        }
        (false, true, Some(why)) => {
            (Outcome::Failed, format!("{numbers}: beyond the limit (--strict), but {why}"))
        }
        (false, true, None) => {
            (Outcome::Failed, format!("{numbers}: beyond the limit{}", few_runs(metric)))
        }
        (true, false, _) if change > 0.0 => {
            (Outcome::Failed, format!("{numbers}: less than expected"))
        }
        (true, false, _) => {
            (Outcome::Failed, format!("{numbers}: the expected change did not happen"))
        }
        (true, true, Some(why)) => {
            let text = format!(
                "{numbers}: in the expected direction, but {why}; {}",
                remedy(metric, unlike)
            );
            (Outcome::Failed, text)
        }
        (true, true, None) => {
            (Outcome::Passed, format!("{numbers}: as expected{}", few_runs(metric)))
        }
    }
}

/// Behind a condition that passed, of a number whose interval exceeds its limit.
pub const NOISE_EXCEEDS: &str = "but its noise could hide a change beyond that";

/// Why nothing decides whether the change is more than noise; nothing where it is more.
fn undecided(metric: &MetricChange) -> Option<String> {
    if metric.verdict != Verdict::None {
        return None;
    }
    Some(match (metric.noise.method, metric.noise_text()) {
        (NoiseMethod::OneRunEach, _) => {
            "a single run does not show the noise of this number".to_owned()
        }
        (_, Some(NoiseText::Interval(ends, unit))) if metric.word() == "too small" => {
            format!(
                "too small to count (its interval is {ends}{unit}, and the change is below the minimum)"
            )
        }
        _ if metric.noise.exceeds_value => "its noise spans a factor of 2".to_owned(),
        (_, Some(NoiseText::Interval(ends, unit))) => {
            format!("within noise (its interval {ends}{unit} includes 0)")
        }
        (_, Some(text)) => format!("within noise ({text})"),
        (_, None) => "within noise".to_owned(),
    })
}

/// What would decide it.
fn remedy(metric: &MetricChange, unlike: Option<&str>) -> &'static str {
    match metric.is_tested() {
        _ if unlike.is_some() => "compare runs that do the same work to decide",
        true => "record more runs per side to decide",
        false => "record 4 runs per side (--against) to decide",
    }
}

/// What a change beyond noise may be all the same. A count is exact.
fn few_runs(metric: &MetricChange) -> &'static str {
    match metric.noise.method {
        NoiseMethod::Exact => "",
        _ if metric.is_tested() => "",
        method if method.is_of_two_runs() => {
            "; one run per side: the noise between runs is unknown"
        }
        _ => "; too few runs for a test",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged::Noise;

    fn parsed(text: &str) -> Condition {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_condition_that_fails_when_its_metric_gets_better_names_what_was_meant() {
        let meant = |text: &str| parsed(text).reversed().map(|(_, remedy)| remedy);
        for (text, other) in [
            ("decode.tokens_per_s>+5%", "decode.tokens_per_s<-5%"),
            ("a>b.step_ms<-5%-0.2ms", "a>b.step_ms>+5%+0.2ms"),
            ("decode.class_gemm_ms<-1us", "decode.class_gemm_ms>+1us"),
            ("run.mfu_percent > +0pp", "run.mfu_percent < -0pp"),
        ] {
            let remedy = format!("did you mean --fail-if '{other}', or --expect '{text}'?");
            assert_eq!(meant(text), Some(remedy));
            assert_eq!(parsed(text).expected().reversed(), None, "{text}");
            assert_eq!(meant(other), None);
        }
        assert_eq!(meant("decode.gpu_busy_percent<-5%"), None, "neither way is better");
    }

    #[test]
    fn conditions_are_read() {
        let condition = parsed("decode.step_ms>+5%+0.2ms");
        assert_eq!(condition.stage.as_deref(), Some("decode"));
        assert_eq!((condition.relative, condition.absolute), (Some(5.0), Some(0.2)));
        let condition = parsed(" a.b/c>d.tokens_per_s < -5% ");
        assert_eq!(condition.stage.as_deref(), Some("a.b/c>d"));
        assert_eq!((condition.direction, condition.absolute), (Direction::Fall, None));
        assert_eq!(parsed("run.kernels>+0").stage, None);
        assert_eq!(parsed("stage:run.kernels>+0").stage.as_deref(), Some("run"));
        assert_eq!(parsed("decode.class_gemm_ms>+200us").absolute, Some(0.2));
        assert_eq!(parsed("decode.gpu_busy_percent<-5%-2pp").absolute, Some(2.0));
    }

    #[test]
    fn an_expected_change_has_to_be_beyond_the_limit_and_the_noise() {
        let metric = |after: f64, verdict, method| MetricChange {
            metric: "step_ms".to_owned(),
            unit: MetricUnit::Ms,
            better: Better::Lower,
            before: Some(10.0),
            after: Some(after),
            change: Some(after - 10.0),
            change_percent: Some((after - 10.0) * 10.0),
            verdict,
            word: String::new(),
            noise: Noise { method, threshold: Some(0.5), ..Noise::default() },
            interval: None,
            before_runs: Vec::new(),
            after_runs: Vec::new(),
        };
        let five = NoiseMethod::FivePercent;
        let expected = parsed("decode.step_ms<-20%").expected();
        for (after, verdict, method, outcome, said) in [
            (7.5, Verdict::Decreased, five, Outcome::Passed, "-25.0 %: as expected"),
            (8.5, Verdict::Decreased, five, Outcome::Failed, "less than expected"),
            (12.5, Verdict::Increased, five, Outcome::Failed, "did not happen"),
            (
                7.5,
                Verdict::None,
                NoiseMethod::Instances,
                Outcome::Failed,
                "within noise (± 5.0 %); record 4 runs",
            ),
            (
                7.5,
                Verdict::None,
                NoiseMethod::OneRunEach,
                Outcome::Failed,
                "does not show the noise",
            ),
        ] {
            for strict in [false, true] {
                let (found, text) =
                    decide(&expected, &metric(after, verdict, method), "", strict, None);
                assert_eq!(found, outcome, "{after}: {text}");
                assert!(text.contains(said), "{text}");
            }
        }
        // More runs of other work decide nothing.
        let doubtful = metric(12.5, Verdict::None, NoiseMethod::Instances);
        let why = Some("512 vs 811 prompt tokens per step");
        let (found, text) = decide(&parsed("decode.step_ms>+5%"), &doubtful, "", false, why);
        assert_eq!(found, Outcome::Undecided, "{text}");
        assert!(
            text.contains("(not comparable: 512 vs 811 prompt tokens per step): beyond")
                && text.contains("; compare runs that do the same work to decide, or use --strict")
                && !text.contains("record"),
            "{text}"
        );
    }

    #[test]
    fn a_condition_that_passes_says_so_if_the_noise_exceeds_its_limit() {
        let of = |most: f64| MetricChange {
            metric: "step_ms".to_owned(),
            unit: MetricUnit::Ms,
            better: Better::Lower,
            before: Some(10.0),
            after: Some(9.9),
            change: Some(-0.1),
            change_percent: Some(-1.0),
            verdict: Verdict::None,
            word: String::new(),
            noise: Noise { method: NoiseMethod::RankTest, ..Noise::default() },
            interval: Some([-1.0, most]),
            before_runs: vec![10.0; 4],
            after_runs: vec![9.9; 4],
        };
        for (most, is_open) in [(2.0, true), (0.4, false)] {
            let (found, text) = decide(&parsed("decode.step_ms>+5%"), &of(most), "", false, None);
            assert_eq!(
                (found, text.ends_with(NOISE_EXCEEDS)),
                (Outcome::Passed, is_open),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_condition_says_what_to_write() {
        for (text, part) in [
            ("", "neither > nor <"),
            ("decode.step_ms", "for instance 'decode.step_ms>+5%+0.2ms'"),
            ("step_ms>+5%", "not STAGE.METRIC"),
            (".step_ms>+5%", "not STAGE.METRIC"),
            ("decode.>+5%", "not STAGE.METRIC"),
            (">10%", "nothing stands before >; write STAGE.METRIC"),
            ("decode.stepms>5%", "no metric `stepms`; did you mean `step_ms`?"),
            ("decode.p50>+5%", "no metric `p50`; did you mean `step_ms`?"),
            ("decode.call_ms>+5%", "no metric `call_ms`; for a time `per call`, use `step_ms`"),
            ("decode.per_token>+5%", "no metric `per_token`; did you mean `token_ms`?"),
            ("run.p50>+5%", "no metric `p50` of the whole run; there are"),
            ("decode.x>+5%", "no metric `x`; there are step_ms, step_mean_ms"),
            ("run.step_ms>+5%", "no metric `step_ms` of the whole run"),
            ("decode.step_ms>", "it is empty"),
            ("decode.step_ms>5%", "has no sign: write 'decode.step_ms>+5%'"),
            ("decode.step_ms>=+5%", "write > in place of >="),
            ("decode.step_ms>-5%", "begins with +"),
            ("decode.tokens_per_s<+5%", "begins with -"),
            ("decode.step_ms>+5", "no unit"),
            ("decode.step_ms>+5pp", "no unit `pp`"),
            ("decode.step_ms>+5%+6%", "of one kind"),
            ("decode.step_ms>+ms", "no number"),
            ("decode.step_ms>+1e5%", "no unit `e5%`"),
            ("decode.step_ms>+99999999999999999999%", "too large"),
            ("decode.step_ms\u{1b}[2J>+5%", "\\x1b"),
        ] {
            let error = text.parse::<Condition>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
