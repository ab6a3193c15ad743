//! A comparison -> its verdict, its six lines, and its numbers as words.

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, shown_time};
use stage2_contract::text::{listed, shorten, shorten_kernel};
use stage2_model::{AnswerLine, Severity};

use crate::comparison::{
    ComparedRun, Comparison, Difference, LibraryChange, MetricChange, MetricUnit, NoiseText, Per,
    Presence, StageChange, Verdict, WorkChange, WorkKind, WorkSide, either, signed, signed_time,
};
use crate::metric::label;
use crate::noise::{ALPHA, is_tested, smallest_p};

const STAGES: usize = 3;
/// Characters of a name in a line.
const NAME_LIMIT: usize = 60;
/// Times of a stage, the first that both sides have: as the lines of a report have them.
const TIMES: [(&str, &str); 5] = [
    ("token_ms", "time per token"),
    ("step_ms", STEP),
    ("host_ms", "call"),
    ("gpu_busy_ms", "GPU busy"),
    ("kernel_ms", "kernel time"),
];
/// Stands for what a step of the stage is.
const STEP: &str = "step";
const ABSENT: &str = "not known";

/// What became of the times of the stages: the word of the verdict, and its colour on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// All that changed got better.
    Better,
    /// All that changed got worse.
    Worse,
    /// Some of it got better, or the median and the mean say the opposite.
    Mixed,
    /// It changed, and nothing tells whether that is better or worse: the sides hardly compare, have too few runs for a
    /// test, or no stage in common.
    Changed,
    /// Nothing changed beyond noise.
    Same,
    /// Several runs would tell.
    NotJudged,
}

impl Comparison {
    /// What became of the times of its stages.
    pub fn outlook(&self) -> Outlook {
        let stages = timed(self);
        let changed = stages.iter().filter_map(|stage| changed_stage(stage));
        let changed: Vec<Change> = changed.map(|found| found.change).collect();
        let has = |change| changed.contains(&change);
        let is_unjudged = |stage: &&StageChange| is_unjudged(stage);
        let is_alone = |stage: &&StageChange| stage.presence != Presence::Both;
        let is_unlike = |stage: &StageChange| stage.own_times.is_some();
        match () {
            () if !changed.is_empty() && !self.unlike.is_empty() => Outlook::Changed,
            () if has(Change::Unclear) || has(Change::Worse) && has(Change::Better) => {
                Outlook::Mixed
            }
            () if has(Change::Worse) => Outlook::Worse,
            () if has(Change::Better) => Outlook::Better,
            () if !changed.is_empty() => Outlook::Changed,
            () if !stages.is_empty() && stages.iter().all(is_alone) => Outlook::Changed,
            () if stages.is_empty() => Outlook::Same,
            () if stages
                .iter()
                .all(|stage| is_alone(stage) || is_unlike(stage) || is_unjudged(stage)) =>
            {
                Outlook::NotJudged
            }
            () => Outlook::Same,
        }
    }
}

/// The stages that the verdict is about. Work outside of ranges is not a stage.
fn timed(of: &Comparison) -> Vec<&StageChange> {
    of.of_model().into_iter().filter(|stage| stage.per != Per::Run).collect()
}

/// In one sentence whether anything changed beyond noise, and by how much: the times of the stages first, then all
/// other numbers of these stages and of the run, so that nothing below contradicts it.
pub(crate) fn verdict(of: &Comparison) -> String {
    let stages = timed(of);
    let outlook = of.outlook();
    // The head then states it once for all.
    let is_open = outlook == Outlook::NotJudged;
    let changed = stages.iter().filter_map(|stage| Some((*stage, changed_stage(stage)?.text)));
    let changed: Vec<(&StageChange, String)> = changed.collect();
    let is_same = changed.is_empty();
    let times: Vec<(&StageChange, String)> = match is_same {
        // The rows below have all of what did not change.
        true => {
            let known = |stage: &&StageChange| stage.presence == Presence::Both;
            let all = stages.iter().copied().filter(known);
            all.filter_map(|stage| Some((stage, time_change(stage, is_open)?))).take(1).collect()
        }
        false => changed,
    };
    let more = times.len().saturating_sub(STAGES);
    // What the first stage delivers says whether its time helps.
    let rate = times.first().filter(|(stage, _)| is_same || changed_time(stage).is_some());
    let rate = rate.and_then(|(stage, _)| throughput(stage, is_open));
    let (rate, rate_text) = rate.unzip();
    let mut texts: Vec<String> = times.into_iter().take(STAGES).map(|(_, text)| text).collect();
    texts.splice(texts.len().min(1)..texts.len().min(1), rate_text);
    if more > 0 {
        texts.push(counted(more as u64, "more stage"));
    }
    // What says that something changed.
    let is_rate_other = rate.is_some_and(|rate| rate.verdict.is_change());
    let named = texts.len() - usize::from(is_same && is_rate_other);
    let is_timed_alike = stages.iter().all(|stage| stage.own_times.is_none());
    if is_same && is_timed_alike {
        texts.extend(other_metrics(of, &stages, rate).into_iter().chain(changed_work(&stages)));
    }
    if outlook == Outlook::Better {
        texts.extend(
            busier(&stages).map(|(stage, longer)| format!("but {} GPU busy {longer}", name(stage))),
        );
    }
    texts.extend(unlike(&stages, !is_open));
    texts.extend(came_and_went(&stages));
    let basis = match (of.before.len(), of.after.len()) {
        (1, 1) => "(one run per side)".to_owned(),
        (a, b) => {
            let moved = stages.iter().find_map(|stage| changed_stage(stage));
            let p = match moved.and_then(|found| found.p_value) {
                // A p that is the least possible says that the sides do not mix, and no more.
                Some(p) if p <= smallest_p(a, b) * 1.001 => {
                    format!(", p = {p:.3}, the smallest possible")
                }
                p => p.map_or_else(String::new, |p| format!(", p = {p:.3}")),
            };
            let few = if of.has_too_few_runs() { ", too few for a test" } else { "" };
            format!("({a} against {}{p}{few})", counted(b as u64, "run"))
        }
    };
    let head = match outlook {
        Outlook::Better => format!("Better {basis}"),
        Outlook::Worse => format!("Worse {basis}"),
        Outlook::Mixed => format!("Mixed {basis}"),
        Outlook::Changed => format!("Changed {basis}"),
        Outlook::NotJudged if !is_timed_alike => format!("Times not comparable {basis}"),
        Outlook::NotJudged => format!("Not judged {basis}"),
        Outlook::Same => {
            let what = match of.has_single_run() || of.has_too_few_runs() {
                true => "No clear difference",
                false => "No difference beyond noise",
            };
            let and_least = match has_too_small(&stages) {
                true => format!(" and {}", least(of)),
                false => String::new(),
            };
            // What follows is one.
            let of = if texts.len() > named { " in the time of a stage" } else { "" };
            format!("{what}{and_least}{of} {basis}")
        }
    };
    let caution = if outlook == Outlook::Changed && of.is_of_two_runs() { TWO_RUNS } else { "" };
    match texts.is_empty() {
        true => format!("{head}{caution}"),
        false => format!("{head}: {}{caution}", texts.join("; ")),
    }
}

/// The stage whose GPU work takes longer, and by how much: a shorter time may hide it.
fn busier<'c>(stages: &[&'c StageChange]) -> Option<(&'c StageChange, String)> {
    let busy = |stage: &&'c StageChange| {
        let busy = stage.metric("gpu_busy_ms").filter(|_| stage.other_work.is_none())?;
        let longer = busy.change.filter(|_| busy.verdict == Verdict::Increased)?;
        Some((*stage, format!("{} per {}", signed_time(longer * 1e6), stage.per_word())))
    };
    stages.iter().find_map(busy)
}

/// Behind the verdict on one run per side.
const TWO_RUNS: &str = ". Run-to-run variation is unknown; compare 4 per side.";

/// What a change of a stage is for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Better,
    Worse,
    /// The median and the mean say the opposite.
    Unclear,
    /// Too few runs show it.
    Untested,
}

/// What became of the time of a stage; nothing where that is noise or not known.
fn changed_time(stage: &StageChange) -> Option<(Change, String)> {
    let is_change =
        |metric: &MetricChange| metric.verdict.is_change() && stage.other_work.is_none();
    let (metric, label) = time_of(stage).filter(|(metric, _)| is_change(metric))?;
    let opposed = opposed_mean(stage, metric);
    let change = match metric.is_tested() {
        false => Change::Untested,
        true if opposed.is_some() => Change::Unclear,
        true if metric.is_worse() => Change::Worse,
        true => Change::Better,
    };
    match opposed {
        Some(text) => {
            Some((change, format!("{} {}: {text}", name(stage), step_name(stage, label))))
        }
        None => Some((change, time_change(stage, false)?)),
    }
}

/// What changed in a stage, as the verdict has it.
struct Changed {
    change: Change,
    text: String,
    p_value: Option<f64>,
}

/// What became of the time of a stage, or else of its tokens per second; nothing where both are noise or not known.
fn changed_stage(stage: &StageChange) -> Option<Changed> {
    if let Some((change, text)) = changed_time(stage) {
        let p_value = time_of(stage).and_then(|(metric, _)| metric.noise.p_value);
        return Some(Changed { change, text, p_value });
    }
    let (rate, text) = throughput(stage, false)?;
    if !rate.verdict.is_change() || stage.other_work.is_some() {
        return None;
    }
    let change = match rate.is_tested() {
        false => Change::Untested,
        true if rate.is_worse() => Change::Worse,
        true => Change::Better,
    };
    let text = match (time_change(stage, false), disagreeing_mean(stage, rate)) {
        (Some(time), Some(why)) => format!("{text}, but {time}: {why}"),
        // Several calls at a time: each takes as long as one alone.
        (Some(time), None) => format!("{text}; {time}"),
        (None, _) => text,
    };
    Some(Changed { change, text, p_value: rate.noise.p_value })
}

fn is_unjudged(stage: &StageChange) -> bool {
    time_of(stage).is_some_and(|(metric, _)| metric.word() == NOT_JUDGED)
}

/// Whether the time that the verdict names changed by too little to count, although the runs show it.
fn has_too_small(stages: &[&StageChange]) -> bool {
    let mut both = stages.iter().filter(|stage| stage.presence == Presence::Both);
    both.find_map(|stage| stage.time()).is_some_and(MetricChange::is_too_small)
}

/// The least change that counts.
fn least(of: &Comparison) -> &'static str {
    if of.has_single_run() { "5 %" } else { "1 %" }
}

/// The word of [`MetricChange::word`] for what the runs cannot tell.
const NOT_JUDGED: &str = "not judged";

/// `decode median step 12.7 % (1.30 ms) shorter`. `is_open`: nothing is judged, and another word states it.
fn time_change(stage: &StageChange, is_open: bool) -> Option<String> {
    let (metric, label) = time_of(stage)?;
    let held = match &stage.other_work {
        Some(why) => format!("not comparable: {why}"),
        None => held(metric, is_open),
    };
    Some(format!("{} {} {held}", name(stage), averaged(stage, metric, label)))
}

/// `12.7 % (1.30 ms) shorter` of one run per side, whose ± leaves out how much runs differ, and
/// `-12.7 % [-15, -10] (-1.30 ms)` of several.
fn held(metric: &MetricChange, is_open: bool) -> String {
    let is_of_two = metric.noise.method.is_of_two_runs();
    let Some(percent) = metric.change_percent else { return change_text(metric) };
    let change = signed(percent, 1);
    match metric.noise_text() {
        _ if percent == 0.0 => "equal".to_owned(),
        _ if is_of_two && metric.verdict.is_change() => {
            let time = change_ns(metric)
                .map_or_else(String::new, |ns| format!(" ({})", shown_time(ns.abs())));
            format!("{} %{time} {}", signed(percent.abs(), 1).replace('+', ""), metric.word())
        }
        Some(NoiseText::Interval(ends, _)) if metric.is_too_small() => {
            format!("{change} % {ends}, too small to count")
        }
        Some(NoiseText::Interval(ends, _)) if metric.word() == NOT_JUDGED && !is_open => {
            format!("{change} % {ends}, not judged")
        }
        Some(NoiseText::Interval(ends, _)) if metric.verdict.is_change() => {
            let time =
                change_ns(metric).map_or_else(String::new, |ns| format!(" ({})", signed_time(ns)));
            format!("{change} % {ends}{time}")
        }
        Some(NoiseText::Interval(ends, _)) => format!("{change} % {ends}"),
        Some(noise @ NoiseText::Within(..)) => format!("{change} % (within {noise})"),
        Some(noise @ NoiseText::ExceedsValue) if is_open => format!("{change} % ({noise})"),
        Some(noise @ NoiseText::ExceedsValue) => format!("{change} % (not judged, {noise})"),
        None if is_of_two && is_open => format!("{change} %"),
        None if is_of_two => format!("{change} % (not judged)"),
        None => format!("{change} % ({})", metric.word()),
    }
}

/// By how much a time changed, ns; nothing of other numbers.
fn change_ns(metric: &MetricChange) -> Option<f64> {
    metric.change.filter(|_| metric.unit == MetricUnit::Ms).map(|ms| ms * 1e6)
}

/// Where the mean step went the other way than the median one: both, and no word for which of them counts.
fn opposed_mean(stage: &StageChange, time: &MetricChange) -> Option<String> {
    let is_median = ["step_ms", "token_ms"].contains(&time.metric.as_str());
    let percents = stage.opposed().filter(|_| is_median)?;
    let [median, mean] = percents.map(|percent| signed(percent, 1));
    Some(format!("median {median} %, but mean {mean} %"))
}

/// That a rate follows the mean step, and the median one did not change: some steps are slow, or no longer are.
fn disagreeing_mean(stage: &StageChange, rate: &MetricChange) -> Option<String> {
    let percent = |name| stage.metric(name)?.change_percent;
    let [median, mean] = [percent("step_ms")?, percent("step_mean_ms")?];
    let follows_mean = rate.change_percent? * mean < 0.0 && !stage.has_other_steps();
    let is_apart = (mean - median).abs() >= MEAN_APART && mean.abs() > median.abs();
    let slow = if mean > 0.0 { "some slow steps" } else { "fewer slow steps" };
    (follows_mean && is_apart)
        .then(|| format!("mean and median disagree ({slow}: mean {} %)", signed(mean, 1)))
}

/// Percentage points between the changes of the mean and of the median step that are worth a reason.
const MEAN_APART: f64 = 5.0;

/// What became of the tokens per second of a stage.
fn throughput(stage: &StageChange, is_open: bool) -> Option<(&MetricChange, String)> {
    let metric = stage.metric("tokens_per_s").filter(|metric| metric.change.is_some())?;
    Some((metric, format!("{} tokens/s {}", name(stage), held(metric, is_open))))
}

impl StageChange {
    /// The time that stands for it, where both sides have one: of a token where the reports give times of tokens.
    pub fn time(&self) -> Option<&MetricChange> {
        time_of(self).map(|(metric, _)| metric)
    }
}

/// The time of a stage that the lines give, and what it is of: of the same as the parts of the stage.
pub(crate) fn time_of(stage: &StageChange) -> Option<(&MetricChange, &'static str)> {
    TIMES.iter().filter(|(metric, _)| stage.has_time(metric)).find_map(|(metric, label)| {
        let metric = stage.metric(metric).filter(|metric| metric.change.is_some())?;
        Some((metric, *label))
    })
}

/// A metric of a stage, or of the run.
type Other<'c> = (Option<&'c StageChange>, &'c MetricChange);

/// Names of the mean time of a step, the first that changed for all.
const MEANS: [&str; 3] = ["step_mean_ms", "host_ms", "window_ms"];

/// How many metrics other than the times of the stages, and the one that is `told`, changed, with the largest of them by
/// its share of a step, and of those that got worse.
fn other_metrics(
    of: &Comparison,
    stages: &[&StageChange],
    told: Option<&MetricChange>,
) -> Option<String> {
    let of_stages = stages.iter().flat_map(|&stage| {
        let time = time_of(stage).map(|(metric, _)| metric.metric.as_str());
        let metrics = stage.metrics.iter().filter(|_| stage.other_work.is_none());
        // The mean time of a step is measured on the host and on the GPU: one of the two is enough.
        let mut means = MEANS.iter().filter_map(|name| stage.metric(name));
        let mean = means.find(|metric| metric.verdict.is_change());
        let other = metrics.filter(move |metric| {
            let is_repeated = MEANS.contains(&metric.metric.as_str())
                && mean.is_some_and(|mean| mean.metric != metric.metric);
            Some(metric.metric.as_str()) != time && !is_repeated && !stage.is_of_other_steps(metric)
        });
        let causes = stage.host.iter().filter(|_| !stage.host_ahead);
        other.chain(causes).map(move |metric| (Some(stage), metric))
    });
    // Sums and means over a run follow what it had to do.
    let is_other_work = stages.iter().any(|stage| stage.other_calls || stage.has_other_steps());
    let of_run = of.run.iter().filter(|_| !is_other_work);
    let all = of_stages.chain(of_run.map(|metric| (None, metric)));
    // What reads 0.000 on both sides explains nothing.
    let is_seen = |metric: &MetricChange| {
        let values = [metric.before, metric.after];
        values.iter().flatten().any(|&value| metric.unit.shown(value) != metric.unit.shown(0.0))
    };
    let is_told = |metric: &MetricChange| told.is_some_and(|told| std::ptr::eq(told, metric));
    let is_changed =
        |metric: &MetricChange| metric.verdict.is_change() && is_seen(metric) && !is_told(metric);
    let changed: Vec<Other<'_>> = all.filter(|(_, metric)| is_changed(metric)).collect();
    let text = |(stage, metric): &Other<'_>| {
        let metric_name = shorten(&label(&metric.metric), NAME_LIMIT);
        let change = change_text(metric);
        let Some(stage) = stage else { return format!("run {metric_name} {change}") };
        // The head of the parts has the mean of the windows.
        let mean_ns = stage.parts().change_ns;
        match stage.metric("window_ms").and_then(|window| window.change) {
            Some(window)
                if ["step_mean_ms", "window_ms"].contains(&metric.metric.as_str())
                    && window * metric.change.unwrap_or_default() > 0.0 =>
            {
                format!("{} mean {} {}", name(stage), stage.per_word(), signed_time(mean_ns))
            }
            _ => format!("{} {metric_name} {change}", name(stage)),
        }
    };
    let mut largest: Vec<(f64, &Other<'_>)> =
        changed.iter().map(|other| (weight(of, other), other)).collect();
    let percent = |metric: &MetricChange| metric.change_percent.unwrap_or(f64::MAX).abs();
    largest.order_by(|(a, x), (b, y)| {
        b.total_cmp(a).then_with(|| percent(y.1).total_cmp(&percent(x.1)))
    });
    let (_, first) = largest.first()?;
    let all = counted(changed.len() as u64, "other number");
    let mut worse = largest.iter().filter(|(_, (_, metric))| metric.is_worse());
    let number = worse.clone().count();
    let tells_worse = number > 0 && !of.has_too_few_runs();
    let first_text = text(first);
    Some(match changed.len() {
        1 if tells_worse => format!("{all} changed for the worse: {first_text}"),
        1 => format!("{all} changed: {first_text}"),
        _ if !tells_worse => format!("{all} changed, such as {first_text}"),
        _ if first.1.is_worse() => {
            format!("{all} changed, {number} of them for the worse, such as {first_text}")
        }
        _ => {
            let such = worse.next().filter(|(weight, _)| *weight >= LEAST_NAMED);
            let such =
                such.map_or_else(String::new, |(_, other)| format!(", such as {}", text(other)));
            format!("{all} changed, such as {first_text}, and {number} of them for the worse{such}")
        }
    })
}

/// How much of the step of its stage, or of the run, a number changed by. Shares, counts and energy count as nothing.
fn weight(of: &Comparison, (stage, metric): &Other<'_>) -> f64 {
    let whole = match stage {
        Some(stage) => stage.metric("window_ms").or_else(|| stage.time()),
        None => of.run.iter().find(|metric| metric.metric == "duration_ms"),
    };
    let part = match metric.unit {
        MetricUnit::Ms => metric.change.zip(whole.and_then(|whole| whole.before)),
        MetricUnit::PerSecond => metric.change.zip(metric.before),
        _ => None,
    };
    part.filter(|(_, whole)| *whole > 0.0).map_or(0.0, |(change, whole)| (change / whole).abs())
}

/// Share of a step from which a number that got worse is worth a name next to a larger one that did not.
const LEAST_NAMED: f64 = 0.02;

/// The stages that the sides time per unlike things. `in_full`: the head of the verdict does not state what that means.
fn unlike(stages: &[&StageChange], in_full: bool) -> Vec<String> {
    // Mostly the reason is the same for all stages.
    let mut unlike: Vec<(&str, Vec<String>)> = Vec::new();
    for stage in stages.iter().filter(|stage| stage.own_times.is_some()) {
        let why = stage.other_work.as_deref().unwrap_or_default();
        match unlike.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name(stage)),
            None => unlike.push((why, vec![name(stage)])),
        }
    }
    let not = if in_full { "not comparable: " } else { "" };
    let text = |(why, names): &(&str, Vec<String>)| match &names[..] {
        [only] => format!("{only} is {not}{why}"),
        [a, b] => format!("{a} and {b} are {not}{why}"),
        all => format!("{} are {not}{why}", listed(all, STAGES)),
    };
    unlike.iter().map(text).collect()
}

/// The stages of one side only.
fn came_and_went(stages: &[&StageChange]) -> Vec<String> {
    let text = |stage: &&StageChange| match stage.presence {
        Presence::New => Some(format!("stage `{}` is new", name(stage))),
        Presence::Vanished => Some(format!("stage `{}` vanished", name(stage))),
        Presence::Both => None,
    };
    let mut texts: Vec<String> = stages.iter().filter_map(text).collect();
    if let Some(more) = texts.len().checked_sub(STAGES).filter(|&more| more > 0) {
        texts.truncate(STAGES);
        texts.push(format!("{} on one side only", counted(more as u64, "more stage")));
    }
    texts
}

/// How many rows of GPU work changed.
fn changed_work(stages: &[&StageChange]) -> Option<String> {
    let comparable = stages.iter().filter(|stage| stage.other_work.is_none());
    let rows = comparable.flat_map(|stage| &stage.work);
    let is_changed =
        |row: &&WorkChange| row.presence() == Presence::Both && row.verdict.is_change();
    let changed = rows.filter(is_changed).count();
    (changed > 0).then(|| format!("{} of GPU work changed", counted(changed as u64, "row")))
}

pub(crate) fn lines(of: &Comparison) -> Vec<AnswerLine> {
    let line = |label: &str, text: String| AnswerLine { label: label.to_owned(), text };
    let stages = of.of_model();
    vec![
        line("time", time(&stages)),
        line("window", window(&stages)),
        line("kernels", kernels(of, &stages)),
        line("libraries", libraries(of)),
        line("comparable", comparable(of)),
        line("noise", noise(of)),
        line("next", next(of)),
    ]
}

/// What a time is a part of; nothing where it is that of the whole step.
fn part_of(metric: &MetricChange) -> &'static str {
    match metric.metric.as_str() {
        "gpu_busy_ms" => "GPU busy ",
        "kernel_ms" => "kernel time ",
        _ => "",
    }
}

/// What the time of a stage is of: `step`, `time per token`.
fn step_name<'s>(stage: &'s StageChange, label: &'s str) -> &'s str {
    stage.step.as_deref().filter(|_| label == STEP).unwrap_or(label)
}

/// The label of a time with its kind of average, `median step`: the bars below it divide a mean.
fn averaged(stage: &StageChange, metric: &MetricChange, label: &str) -> String {
    let average = match metric.metric.as_str() {
        "token_ms" | "step_ms" => "median ",
        "host_ms" => "mean ",
        _ => "",
    };
    format!("{average}{}", step_name(stage, label))
}

fn name(stage: &StageChange) -> String {
    shorten(&stage.stage, NAME_LIMIT)
}

fn time(stages: &[&StageChange]) -> String {
    let of = |stage: &&StageChange| {
        let name = name(stage);
        match stage.presence {
            Presence::New => return format!("stage `{name}` is new"),
            Presence::Vanished => return format!("stage `{name}` vanished"),
            Presence::Both => {}
        }
        match time_of(stage) {
            None => match (stage.own_text(), &stage.other_work) {
                (Some(times), Some(why)) => format!("{name}: {times} (not comparable: {why})"),
                _ => format!("{name}: no time is known on both sides"),
            },
            Some((metric, _)) => {
                let per = stage.per_of(&metric.metric);
                let change = match &stage.other_work {
                    Some(why) => format!("not comparable: {why}"),
                    None => in_words(stage, metric),
                };
                format!("{name}: {}{}{per} ({change})", part_of(metric), value_text(metric))
            }
        }
    };
    let mut texts: Vec<String> = stages.iter().take(STAGES).map(of).collect();
    if stages.is_empty() {
        texts.push("no stage on either side".to_owned());
    }
    if let Some(more) = stages.len().checked_sub(STAGES).filter(|&more| more > 0) {
        texts.push(counted(more as u64, "more stage"));
    }
    texts.join("; ")
}

/// Stages in the line of the window.
const WINDOWS: usize = 2;

/// Where the time of the stages that changed most went.
fn window(stages: &[&StageChange]) -> String {
    let is_whole =
        |stage: &&&StageChange| stage.presence == Presence::Both && stage.other_work.is_none();
    let both = stages.iter().filter(is_whole);
    let texts: Vec<String> = both.take(WINDOWS).map(|stage| window_of(stage)).collect();
    match texts.is_empty() {
        true => "no stage with the same work is on both sides".to_owned(),
        false => texts.join("; "),
    }
}

fn window_of(stage: &StageChange) -> String {
    let known = |metric: &str| stage.metric(metric).filter(|metric| metric.change.is_some());
    let busy = known("gpu_busy_ms").map(|metric| format!("GPU busy {}", in_short(stage, metric)));
    let idle = known("idle_ms").map(|metric| format!("idle {}", in_short(stage, metric)));
    // Idle time has it already.
    let gaps = known("launch_gaps_ms").filter(|metric| metric.verdict.is_change());
    let gaps = gaps.map(|metric| format!("of which launch gaps {}", in_short(stage, metric)));
    let other = known("other_work_ms").filter(|metric| metric.verdict.is_change());
    let other = other.map(|metric| format!("work of other stages {}", in_short(stage, metric)));
    let texts: Vec<String> = [busy, idle, gaps, other].into_iter().flatten().collect();
    match texts.is_empty() {
        true => format!("{}: busy and idle time are not known on both sides", name(stage)),
        false => format!("{} per {}: {}", name(stage), stage.per_word(), texts.join(", ")),
    }
}

/// `8.820 → 9.410 ms (+6.7 %, worse)`, or that it is noise.
fn in_short(stage: &StageChange, metric: &MetricChange) -> String {
    let change = match metric.verdict {
        Verdict::None => stage.word(metric).to_owned(),
        _ => in_words(stage, metric),
    };
    format!("{} ({change})", value_text(metric))
}

/// Share of the GPU work of a stage from which the change of a row is worth a name.
const LEAST_OF_WORK: f64 = 0.01;

/// Rows that a line names.
const MOST: usize = 3;

/// GPU work that a line names: a row, or rows of one class that took over from each other.
struct Named<'c> {
    rows: Vec<&'c WorkChange>,
    change_ns: f64,
    /// Whether that is beyond noise.
    is_change: bool,
}

impl Named<'_> {
    /// `gemm_a +39.9 us`, or `2 replaced attention kernels together +24.0 us`.
    fn text(&self, limit: usize) -> String {
        let change = signed_time(self.change_ns);
        match &self.rows[..] {
            [row] => format!("{} {change}", work_name(row, limit)),
            rows => {
                let class = rows.first().map_or("", |row| row.class.as_str());
                let what = match rows.first().map(|row| row.kind) {
                    Some(WorkKind::Kernel) | None if class.is_empty() => "kernels".to_owned(),
                    Some(WorkKind::Kernel) | None => format!("{class} kernels"),
                    Some(kind) => kind.word().to_owned(),
                };
                format!("{} replaced {what} together {change}", count(rows.len() as u64))
            }
        }
    }
}

/// The GPU work of a stage that changed.
struct LargeWork<'c> {
    /// What changed it by much, the largest change first.
    named: Vec<Named<'c>>,
    /// Rows that changed by much, but together by little or within noise.
    cancelled: Vec<Named<'c>>,
}

/// The GPU work that changed that of a stage by much. A kernel that took over from others counts with them.
fn large_work(stage: &StageChange) -> LargeWork<'_> {
    let total = stage.work_total;
    let all = total.before_ns.unwrap_or(0.0).max(total.after_ns.unwrap_or(0.0));
    let is_large = |ns: f64| ns.abs() >= LEAST_OF_WORK * all;
    let (mut named, mut cancelled) = (Vec::new(), Vec::new());
    for part in stage.parts().rows {
        let changed = part.work.iter().copied().filter(|row| row.verdict.is_change());
        let (replaced, own): (Vec<&WorkChange>, Vec<&WorkChange>) =
            changed.partition(|row| part.is_swap(row) && took_over(row));
        let own = own.into_iter().map(|row| Named {
            change_ns: row.change_ns,
            rows: vec![row],
            is_change: true,
        });
        named.extend(own.filter(|one| is_large(one.change_ns)));
        if replaced.iter().any(|row| is_large(row.change_ns)) {
            let change_ns = replaced.iter().map(|row| row.change_ns).sum();
            let is_change = part.verdict.is_change();
            let of_class = Named { rows: replaced, change_ns, is_change };
            match is_change && is_large(change_ns) {
                true => named.push(of_class),
                false => cancelled.push(of_class),
            }
        }
    }
    named.order_by(|a, b| b.change_ns.abs().total_cmp(&a.change_ns.abs()));
    LargeWork { named, cancelled }
}

/// Whether a row has another number of calls on each side, so that it may have taken them over, or given them up.
fn took_over(row: &WorkChange) -> bool {
    let calls = |side: &Option<WorkSide>| side.as_ref().map(|side| side.calls);
    calls(&row.before) != calls(&row.after)
}

/// `gemm_a +39.9 us, gemm_b +20.8 us`; nothing where there are none.
fn named_work<'n, 'c: 'n>(
    work: impl IntoIterator<Item = &'n Named<'c>>,
    limit: usize,
) -> Option<String> {
    let named: Vec<String> = work.into_iter().take(MOST).map(|one| one.text(limit)).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

/// The rows that changed most, and how many names came and went: those of the libraries.
fn kernels(of: &Comparison, stages: &[&StageChange]) -> String {
    let largest = |stage: &StageChange| {
        let LargeWork { named, cancelled } = large_work(stage);
        let named = named_work(&named, NAME_LIMIT);
        let rows: usize = cancelled.iter().map(|of_class| of_class.rows.len()).sum();
        let change_ns: f64 = cancelled.iter().map(|of_class| of_class.change_ns).sum();
        let besides = (rows > 0).then(|| {
            let rows = counted(rows as u64, "replaced kernel");
            let is_noise = !cancelled.iter().any(|of_class| of_class.is_change);
            let noise = if is_noise { ", within noise" } else { "" };
            format!("{rows} together {}{noise}", signed_time(change_ns))
        });
        let said = match (named, besides) {
            (Some(named), Some(besides)) => format!("{named}, besides {besides}"),
            (named, besides) => named.or(besides)?,
        };
        Some(format!("changed most, per {} {}: {said}", name(stage), stage.per_word()))
    };
    let comparable = stages
        .iter()
        .filter(|stage| stage.other_work.is_none() && stage.presence == Presence::Both);
    let sum = |number: fn(&LibraryChange) -> u64| of.libraries.iter().map(number).sum::<u64>();
    let most = comparable.clone().copied().find_map(largest);
    // Those that changed by little have no name here, and the line of the libraries counts them.
    let changed = if most.is_none() { sum(|row| row.changed) } else { 0 };
    let names = [
        (sum(|row| row.new), "new"),
        (sum(|row| row.vanished), "vanished"),
        (changed, "with a changed time"),
    ];
    let names = names.iter().filter(|(number, _)| *number > 0);
    let names: Vec<String> =
        names.map(|(number, what)| format!("{} {what}", count(*number))).collect();
    let none = "no kernel changed the GPU work by 1 % or more beyond noise";
    let of_steps = comparable.clone().filter(|stage| stage.per != Per::Run);
    let mut rows = of_steps.flat_map(|stage| &stage.work);
    let is_compared = rows.any(|row| row.presence() == Presence::Both);
    match (most, names.join(", ")) {
        (None, names) if !is_compared && names.is_empty() => NOT_COMPARED.to_owned(),
        (None, names) if !is_compared => format!("{names}; times {NOT_COMPARED}"),
        (Some(most), names) if names.is_empty() => most,
        (Some(most), names) => format!("{most}; {names}"),
        (None, names) if names.is_empty() => none.to_owned(),
        (None, names) => format!("{names}, but none changed the GPU work by 1 % or more"),
    }
}

/// Libraries in a line.
const LIBRARIES: usize = 4;

/// Versions that differ, next to the kernels that appeared, vanished or have another name.
fn libraries(of: &Comparison) -> String {
    let mut texts: Vec<String> = of.libraries.iter().take(LIBRARIES).map(of_library).collect();
    if let Some(more) = of.libraries.len().checked_sub(LIBRARIES).filter(|&more| more > 0) {
        texts.push(format!("{} more", count(more as u64)));
    }
    match texts.is_empty() {
        true => {
            "no version is known to differ, and no kernel is new, vanished or renamed".to_owned()
        }
        false => texts.join("; "),
    }
}

fn of_library(library: &LibraryChange) -> String {
    let name = match library.library.as_str() {
        "" => "others",
        name => name,
    };
    let versions = match (library.is_other_version(), &library.before, &library.after) {
        (true, a, b) => {
            let [a, b] = [a, b].map(|version| version.as_deref().unwrap_or("none or not known"));
            format!(" {a} → {b}")
        }
        (false, Some(version), _) => format!(" {version} on both sides"),
        (false, None, _) => String::new(),
    };
    let counts = [
        (library.new, "new"),
        (library.vanished, "vanished"),
        (library.renamed, "renamed"),
        (library.changed, "with a changed time"),
    ];
    let counts = counts.iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> =
        counts.map(|(number, what)| format!("{} {what}", count(*number))).collect();
    match counts.is_empty() {
        true => format!("{name}{versions}"),
        false => format!("{name}{versions} (kernels: {})", counts.join(", ")),
    }
}

/// Characters of a value in a line; of a longer one only the table tells.
const VALUE_LIMIT: usize = 24;

fn warning(difference: &Difference) -> String {
    let Difference { what, before, after, .. } = difference;
    let is_short = |value: &str| (1..=VALUE_LIMIT).contains(&value.chars().count());
    match is_short(before) && is_short(after) {
        true => format!("{what} ({before} → {after})"),
        false => what.clone(),
    }
}

/// Notes that the line names.
const NOTES: usize = 4;

fn comparable(of: &Comparison) -> String {
    let (warnings, notes): (Vec<&Difference>, Vec<&Difference>) =
        of.differences.iter().partition(|d| d.severity >= Severity::Warning);
    let warnings: Vec<String> = warnings.into_iter().map(warning).collect();
    let both = notes.iter().filter(|note| note.before == note.after);
    let mut texts: Vec<String> = both.map(|note| format!("both {}", note.what)).collect();
    let differ: Vec<&str> = notes
        .iter()
        .filter(|note| note.before != note.after)
        .map(|note| note.what.as_str())
        .collect();
    if !differ.is_empty() {
        texts.push(format!("other {}", listed(&differ, NOTES)));
    }
    match (warnings.is_empty(), texts.is_empty()) {
        (true, true) => "yes".to_owned(),
        (true, false) => format!("yes ({})", texts.join("; ")),
        (false, _) => {
            let degree = if of.unlike.is_empty() { WITH_CARE } else { "hardly" };
            let warned = format!("{degree}: {}", warnings.join(", "));
            std::iter::once(warned).chain(texts).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Begins the line `comparable` of runs that differ in what may matter.
pub const WITH_CARE: &str = "with care";

/// What has no counterpart on the other side.
const NOT_COMPARED: &str = "not compared";

fn noise(of: &Comparison) -> String {
    let stages = timed(of);
    let both = || stages.iter().filter(|stage| stage.presence == Presence::Both);
    match (of.before.len(), of.after.len()) {
        // No row has a noise that would need an explanation.
        _ if both().count() > 0 && both().all(|stage| stage.own_times.is_some()) => {
            NOT_COMPARED.to_owned()
        }
        (1, 1) => format!("± is the noise of steps within these two runs, at least 5 %{}", not_judged(of)),
        (1, n) | (n, 1) => format!(
            "[ ] covers the noise within the single run and the spread of the {n}; a change counts if [ ] excludes 0 \
             and it is at least 5 %{}",
            not_judged(of)
        ),
        (a, b) if smallest_p(a, b) > ALPHA => format!(
            "[ ] is the range over all pairs of runs, widened by the larger spread of a side; a change counts if \
             [ ] excludes 0 and it is at least 1 %; {a} against {} are too few to reach p = 0.05 (4 per side are enough)",
            counted(b as u64, "run")
        ),
        (a, b) if !is_tested(a, b) => format!(
            "[ ] is the range over all pairs of runs, widened by the larger spread of a side; a change counts if \
             [ ] excludes 0 and it is at least 1 %; {a} against {b} runs are too many for the exact test"
        ),
        _ => "[ ] is the 95 % interval of a change; a change counts if [ ] excludes 0 and it is at least 1 %; exact \
              rank test (Mann-Whitney) at 0.05, so about 1 in 20 unchanged numbers still counts as changed"
            .to_owned(),
    }
}

/// Why single runs leave times without a judgement.
fn not_judged(of: &Comparison) -> String {
    let stages = timed(of);
    let open = stages.iter().copied().filter(|stage| is_unjudged(stage));
    let why = open.filter_map(|stage| stage.time()?.noise.why_not_judged());
    match either(why) {
        Some(why) => format!("; not judged: {why}"),
        None => String::new(),
    }
}

/// Runs that are missing for a test, and the command that compares them with those that are there.
fn more_runs(of: &Comparison) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    let label = |run: &ComparedRun| {
        // The runs of a baseline have one name.
        let is_baseline = run.label.starts_with("baseline:");
        let name = run.label.split('/').next().filter(|_| is_baseline).unwrap_or(&run.label);
        let is_short = name.chars().count() <= NAME_TO_COPY;
        (is_short && name.chars().all(plain)).then(|| name.to_owned())
    };
    // An example of both sides, or the runs of both.
    let are_named = of.before.iter().chain(&of.after).all(|run| label(run).is_some());
    let names = |side: &[ComparedRun], word: &str| -> Vec<String> {
        let mut known: Vec<String> = side.iter().filter(|_| are_named).filter_map(label).collect();
        let others = known.len() + 1..=side.len().max(ENOUGH_RUNS);
        known.dedup();
        known.into_iter().chain(others.map(|at| format!("{word}-{at}"))).collect()
    };
    let missing = [&of.before, &of.after].map(|side| ENOUGH_RUNS.saturating_sub(side.len()));
    let what = match missing {
        [a, b] if a == b => format!("{} per side", counted(a as u64, "more run")),
        [0, b] => format!("{} of the new version", counted(b as u64, "more run")),
        [a, 0] => format!("{} of the old version", counted(a as u64, "more run")),
        [a, b] => {
            format!("{} of the old version and {b} of the new one", counted(a as u64, "more run"))
        }
    };
    let (before, after) =
        (names(&of.before, "before").join(" "), names(&of.after, "after").join(" "));
    format!("record {what}, then: stage2-launch diff {before} --against {after}")
}

/// Kernels in the line *next*.
const IN_NEXT: usize = 2;
/// Characters of a name of a kernel in it.
const SHORT_NAME: usize = 44;
/// Characters of the name of a run in a command to copy.
const NAME_TO_COPY: usize = 48;

/// Runs of a side from which a rank test can decide.
const ENOUGH_RUNS: usize = 4;

/// What to do next.
fn next(of: &Comparison) -> String {
    let runs = of.before.len().min(of.after.len());
    let what = match of.outlook() {
        _ if !of.unlike.is_empty() => {
            return format!("compare {ENOUGH_RUNS} runs per side of one program, workload and GPU");
        }
        Outlook::NotJudged if timed(of).iter().any(|stage| stage.own_times.is_some()) => {
            return "compare runs of one engine, or record both sides with the same ranges"
                .to_owned();
        }
        _ if runs == 1 => return more_runs(of),
        Outlook::Changed if of.has_too_few_runs() => return more_runs(of),
        Outlook::Better => match busier(&timed(of)) {
            Some((stage, _)) => {
                let all = large_work(stage).named;
                let longer = all.iter().filter(|one| one.change_ns > 0.0).take(IN_NEXT);
                let stage = name(stage);
                return match named_work(longer, SHORT_NAME) {
                    Some(rows) => {
                        format!("the change helps: keep it; in {stage}, look at {rows}")
                    }
                    None => format!(
                        "the change helps: keep it, and look at what the GPU works on for longer in {stage}"
                    ),
                };
            }
            None => "the change helps: keep it",
        },
        Outlook::Worse => "the change costs time: change or drop it",
        Outlook::Mixed if timed(of).iter().any(|stage| stage.opposed().is_some()) => {
            "the median and the mean disagree: compare step_p99_ms (--full), or record more runs"
        }
        Outlook::Mixed => "decide which of the stages counts for you",
        Outlook::Changed => "compare runs with the same stages",
        Outlook::NotJudged => "the runs of a side differ too much: find the reason, or record more",
        Outlook::Same if has_too_small(&timed(of)) => {
            return format!("the effect on the times is too small to count: below {}", least(of));
        }
        Outlook::Same => "no effect on the times was found",
    };
    match runs < ENOUGH_RUNS {
        true => format!("{what}; {ENOUGH_RUNS} runs per side can reveal smaller changes"),
        false if of.outlook() == Outlook::Same => {
            format!("{what}; to detect a smaller one, record more runs")
        }
        false => what.to_owned(),
    }
}

/// `8.820 → 9.410 ms`.
pub(crate) fn value_text(metric: &MetricChange) -> String {
    let text = |value: f64| metric.shown(value);
    let [a, b] = [metric.before, metric.after].map(|value| value.map_or(ABSENT.to_owned(), text));
    format!("{a} → {b}{}", metric.unit.suffix())
}

/// `+0.590 ms, +6.7 %`.
pub(crate) fn change_text(metric: &MetricChange) -> String {
    let Some(change) = metric.shown_change() else { return ABSENT.to_owned() };
    let change = format!("{change}{}", metric.unit.difference_suffix());
    match metric.change_percent {
        Some(percent) if metric.unit != MetricUnit::Percent => {
            format!("{change}, {} %", signed(percent, 1))
        }
        _ => change,
    }
}

/// `+6.7 %, worse`, or that it is noise.
fn in_words(stage: &StageChange, metric: &MetricChange) -> String {
    let percent = metric.change_percent.map(|percent| format!("{} %", signed(percent, 1)));
    let percent = percent.unwrap_or_else(|| change_text(metric));
    match stage.word(metric) {
        "equal" => "equal".to_owned(),
        word => format!("{percent}, {word}"),
    }
}

/// The name of work, or both where it has another after.
fn work_name(row: &WorkChange, limit: usize) -> String {
    let short = |name: &str| shorten_kernel(name, limit);
    match (&row.before, &row.after) {
        (Some(a), Some(b)) if a.name != b.name => {
            format!("{} → {}", short(&a.name), short(&b.name))
        }
        (Some(only), _) | (None, Some(only)) => short(&only.name),
        (None, None) => String::new(),
    }
}
