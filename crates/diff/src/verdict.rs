//! A comparison -> its verdict in one sentence, and what became of its stages.

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::counted;
use stage2_contract::text::{listed, shorten};

use crate::comparison::{
    Comparison, MetricChange, MetricUnit, Per, Presence, StageChange, WorkChange, signed,
    signed_time,
};
use crate::judged::{GONE, INCONCLUSIVE, NoiseText, Verdict};
use crate::lines::{averaged, change_text, name, step_name};
use crate::metric::label;
use crate::noise::smallest_p;

pub(crate) const STAGES: usize = 3;
/// Characters of a name in a line.
pub(crate) const NAME_LIMIT: usize = 60;
/// Times of a stage, the first that both sides have: as the lines of a report have them.
const TIMES: [(&str, &str); 5] = [
    ("token_ms", "time per token"),
    ("step_ms", STEP),
    ("host_ms", "call"),
    ("gpu_busy_ms", "GPU busy"),
    ("kernel_ms", "kernel time"),
];
/// Stands for what a step of the stage is.
pub(crate) const STEP: &str = "step";

/// What became of the times of the stages: the word of the verdict, and its colour on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// All that changed got better.
    Better,
    /// All that changed got worse.
    Worse,
    /// Some of it got better, or the median and the mean say the opposite.
    Mixed,
    /// It changed, and nothing tells whether that is better or worse: the sides have too few runs for a test, or no stage
    /// in common.
    Changed,
    /// Nothing changed beyond noise.
    Same,
    /// Nothing is known to have changed, and a time or the tokens per second of a stage are inconclusive.
    Undecided,
    /// Several runs would tell, or the sides are not comparable.
    NotJudged,
}

impl Comparison {
    /// The verdict with this answer in place of the numbers of the stages, for a page that has them in rows below.
    pub fn verdict_with(&self, answer: &str) -> String {
        verdict_with(self, Some(answer))
    }

    /// What became of the times of its stages.
    pub fn outlook(&self) -> Outlook {
        let stages = timed(self);
        let by_rate = self.has_other_concurrency();
        let changed = stages.iter().filter_map(|stage| changed_stage(stage, by_rate));
        let changed: Vec<Change> = changed.map(|found| found.change).collect();
        let has = |change| changed.contains(&change);
        let is_unjudged = |stage: &&StageChange| is_unjudged(stage);
        let is_alone = |stage: &&StageChange| stage.presence != Presence::Both;
        let is_unlike = |stage: &StageChange| stage.own_times.is_some();
        match () {
            () if has(Change::Unclear) || has(Change::Worse) && has(Change::Better) => {
                Outlook::Mixed
            }
            () if has(Change::Worse) => Outlook::Worse,
            () if has(Change::Better) => Outlook::Better,
            () if !changed.is_empty() => Outlook::Changed,
            () if !stages.is_empty() && stages.iter().all(is_alone) => Outlook::Changed,
            () if stages.is_empty() => Outlook::Same,
            () if !self.unlike.is_empty() => Outlook::NotJudged,
            () if stages
                .iter()
                .all(|stage| is_alone(stage) || is_unlike(stage) || is_unjudged(stage)) =>
            {
                Outlook::NotJudged
            }
            () if !self.has_too_few_runs()
                && !self.has_single_run()
                && stages.iter().any(|stage| !open_numbers(stage).is_empty()) =>
            {
                Outlook::Undecided
            }
            () => Outlook::Same,
        }
    }

    /// `one run per side`, or `2 vs 4 runs, too few for a test`.
    pub fn runs_text(&self) -> String {
        match (self.before.len(), self.after.len()) {
            (1, 1) => "one run per side".to_owned(),
            (a, b) => format!("{}{}", versus(a, b), too_few(self)),
        }
    }

    /// Whether it says that the sides differ although more than the change may be the reason for it.
    pub fn is_doubted(&self) -> bool {
        use Outlook::{Better, Mixed, Worse};
        matches!(self.outlook(), Better | Worse | Mixed) && !self.doubts().is_empty()
    }
}

fn too_few(of: &Comparison) -> &'static str {
    if of.has_too_few_runs() { ", too few for a test" } else { "" }
}

/// `4 vs 4 runs`, or `4 runs vs 1`.
pub(crate) fn versus(a: usize, b: usize) -> String {
    match b {
        1 => format!("{a} runs vs 1"),
        _ => format!("{a} vs {b} runs"),
    }
}

/// The stages that the verdict is about. Work outside of ranges is not a stage.
pub(crate) fn timed(of: &Comparison) -> Vec<&StageChange> {
    of.of_model().into_iter().filter(|stage| stage.per != Per::Run).collect()
}

/// In one sentence whether anything changed beyond noise, and by how much: the times of the stages first, then all
/// other numbers of these stages and of the run, so that nothing below contradicts it.
pub(crate) fn verdict(of: &Comparison) -> String {
    verdict_with(of, None)
}

/// `answer`: what to say in place of the numbers of the stages, where rows below have these.
fn verdict_with(of: &Comparison, answer: Option<&str>) -> String {
    let stages = timed(of);
    let outlook = of.outlook();
    // The head then states it once for all.
    let is_open = outlook == Outlook::NotJudged;
    let is_unlike = is_open && !of.unlike.is_empty();
    let by_rate = of.has_other_concurrency();
    let changed =
        stages.iter().filter_map(|stage| Some((*stage, changed_stage(stage, by_rate)?.text)));
    let changed: Vec<(&StageChange, String)> = changed.collect();
    let is_same = changed.is_empty();
    let times: Vec<(&StageChange, String)> = match is_same {
        // The rows below have all of what did not change.
        true => {
            let known = |stage: &&StageChange| stage.presence == Presence::Both;
            let all = stages.iter().copied().filter(known);
            let all = all.filter_map(|stage| Some((stage, time_change(stage, is_open)?)));
            all.take(usize::from(!is_unlike)).collect()
        }
        false => changed,
    };
    let more = times.len().saturating_sub(STAGES);
    // What the first stage delivers says whether its time helps.
    let has_time =
        |stage: &StageChange| changed_time(stage).is_some() && !leads_by_rate(stage, by_rate);
    let rate = times.first().filter(|(stage, _)| is_same || has_time(stage));
    let rate = rate.and_then(|(stage, _)| throughput(stage, is_open));
    let (rate, rate_text) = rate.unzip();
    // The verdict has both of their numbers.
    let named = times.iter().enumerate();
    let named = named.filter(|(at, (stage, _))| *at == 0 || !has_time(stage));
    let with_both: Vec<&StageChange> = named.map(|(_, (stage, _))| *stage).collect();
    let mut texts: Vec<String> = times.into_iter().take(STAGES).map(|(_, text)| text).collect();
    texts.splice(texts.len().min(1)..texts.len().min(1), rate_text);
    if more > 0 {
        texts.push(counted(more as u64, "more stage"));
    }
    if let Some(answer) = answer {
        texts = vec![answer.to_owned()];
    }
    // What says that something changed.
    let is_rate_other = rate.is_some_and(|rate| rate.verdict.is_change());
    let named = texts.len() - usize::from(is_same && is_rate_other);
    let is_timed_alike = stages.iter().all(|stage| stage.own_times.is_none());
    if is_same && is_timed_alike && !is_unlike {
        texts.extend(other_metrics(of, &stages, rate).into_iter().chain(changed_work(&stages)));
    }
    if outlook == Outlook::Better {
        texts.extend(
            busier(&stages).map(|(stage, longer)| format!("but {} GPU busy {longer}", name(stage))),
        );
    }
    texts.extend(open_text(of, &with_both));
    texts.extend(unlike(&stages, !is_open).into_iter().filter(|_| answer.is_none()));
    texts.extend(came_and_went(&stages));
    let basis = match (of.before.len(), of.after.len()) {
        (1, 1) => format!("({})", of.runs_text()),
        (a, b) => {
            let moved = stages.iter().find_map(|stage| changed_stage(stage, by_rate));
            let p = match moved.and_then(|found| found.p_value) {
                // A p that is the least possible says that the sides do not mix, and no more.
                Some(p) if p <= smallest_p(a, b) * 1.001 => {
                    format!(" without overlap, p = {p:.3}")
                }
                p => p.map_or_else(String::new, |p| format!(", p = {p:.3}")),
            };
            format!("({}{p}{})", versus(a, b), too_few(of))
        }
    };
    let simulated = if of.is_simulated() { " in the simulation" } else { "" };
    let caveats = if of.is_doubted() { ", with caveats" } else { "" };
    let with_caveats = format!("{caveats}{simulated}");
    let head = match outlook {
        Outlook::Better => format!("Better{with_caveats} {basis}"),
        Outlook::Worse => format!("Worse{with_caveats} {basis}"),
        Outlook::Mixed => format!("Mixed{with_caveats} {basis}"),
        Outlook::Undecided => format!("Undecided{simulated} {basis}"),
        Outlook::Changed => format!("Changed{simulated} {basis}"),
        Outlook::NotJudged if is_unlike || !is_timed_alike => {
            format!("Times not comparable{simulated} {basis}")
        }
        Outlook::NotJudged => format!("Inconclusive{simulated} {basis}"),
        Outlook::Same => {
            let what = match of.has_single_run() || of.has_too_few_runs() {
                _ if has_too_small(&stages) => &format!("No change of {} or more", least(of)),
                true => "No clear difference",
                false => "No difference beyond noise",
            };
            // What follows is one.
            let of = if texts.len() > named { " in the time of a stage" } else { "" };
            format!("{what}{of}{simulated} {basis}")
        }
    };
    match texts.is_empty() {
        true => head,
        false => format!("{head}: {}", texts.join("; ")),
    }
}

/// The stage whose GPU work takes longer, and by how much: a shorter time may hide it.
pub(crate) fn busier<'c>(stages: &[&'c StageChange]) -> Option<(&'c StageChange, String)> {
    let busy = |stage: &&'c StageChange| {
        let busy = stage.metric("gpu_busy_ms").filter(|_| stage.other_work.is_none())?;
        let longer = busy.change.filter(|_| busy.verdict == Verdict::Increased)?;
        let step_ms = stage.metric("window_ms").or_else(|| stage.time())?.before?;
        // As for every number that is named next to a larger one.
        if longer < LEAST_NAMED * step_ms {
            return None;
        }
        Some((*stage, format!("{} per {}", signed_time(longer * 1e6), stage.per_word())))
    };
    stages.iter().find_map(busy)
}

/// The main numbers of a stage, its time and its tokens per second, that the runs do not judge.
fn open_numbers(stage: &StageChange) -> Vec<&MetricChange> {
    if stage.presence != Presence::Both || stage.other_work.is_some() {
        return Vec::new();
    }
    let numbers = stage.time().into_iter().chain(stage.metric("tokens_per_s"));
    numbers.filter(|number| number.change.is_some() && number.word() == INCONCLUSIVE).collect()
}

/// The stages whose time, or else whose tokens per second, several runs do not judge, although it changed by enough to
/// matter: `prefill time +41.5 %`. Nothing where the head of the verdict says that nothing is judged.
pub(crate) fn open_stages(of: &Comparison) -> Vec<String> {
    large_open(of, &[])
}

/// As [`open_stages`], without the stages whose time and rate the verdict already names (`besides`).
fn large_open(of: &Comparison, besides: &[&StageChange]) -> Vec<String> {
    let is_told = of.is_of_two_runs() || of.outlook() == Outlook::NotJudged;
    let is_named = |stage: &StageChange| besides.iter().any(|named| std::ptr::eq(*named, stage));
    let stages = timed(of).into_iter().filter(|stage| !is_told && !is_named(stage));
    let large = stages.filter_map(|stage| {
        let mut open = open_numbers(stage).into_iter();
        let large = open.find(|it| {
            it.change_percent.is_some_and(|percent| percent.abs() >= LEAST_NAMED * 100.0)
        })?;
        let what = if large.metric == "tokens_per_s" { "tokens/s" } else { "time" };
        Some(format!("{} {what} {} %", name(stage), signed(large.change_percent?, 1)))
    });
    large.take(STAGES).collect()
}

/// `prefill time +41.5 % is inconclusive`, next to what is.
fn open_text(of: &Comparison, besides: &[&StageChange]) -> Option<String> {
    let open = large_open(of, besides);
    let are = if open.len() > 1 { "are" } else { "is" };
    (!open.is_empty()).then(|| format!("{} {are} {INCONCLUSIVE}", open.join(" and ")))
}

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
fn changed_stage(stage: &StageChange, by_rate: bool) -> Option<Changed> {
    if let Some((change, text)) = changed_time(stage).filter(|_| !leads_by_rate(stage, by_rate)) {
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
    let change = match changed_time(stage) {
        // What more calls at once deliver together may cost each of them time.
        Some((of_time, _)) if of_time != change => Change::Unclear,
        _ => change,
    };
    // The test that the head of the verdict gives is that of the rate.
    let is_noise = time_of(stage).is_some_and(|(time, _)| time.word() == "within noise");
    let is_noise = is_noise && stage.other_work.is_none();
    let time = time_change(stage, false).map(|text| match is_noise && !text.contains("within") {
        true => format!("{text}, within noise"),
        false => text,
    });
    let why = slow_steps(stage, rate).map_or_else(String::new, |why| format!(" ({why})"));
    let text = match time {
        // Several calls at a time: each takes as long as one alone.
        Some(time) => format!("{text}{why}; {time}"),
        None => text,
    };
    Some(Changed { change, text, p_value: rate.noise.p_value })
}

/// Whether the tokens per second stand before a time that changed as well: the sides run another number of calls at once,
/// and the time of a call does not say what they deliver.
fn leads_by_rate(stage: &StageChange, by_rate: bool) -> bool {
    by_rate && throughput(stage, false).is_some_and(|(rate, _)| rate.verdict.is_change())
}

pub(crate) fn is_unjudged(stage: &StageChange) -> bool {
    time_of(stage).is_some_and(|(metric, _)| metric.word() == INCONCLUSIVE)
}

/// Whether the time that the verdict names changed by too little to count, although the runs show it.
pub(crate) fn has_too_small(stages: &[&StageChange]) -> bool {
    let mut both = stages.iter().filter(|stage| stage.presence == Presence::Both);
    both.find_map(|stage| stage.time()).is_some_and(|time| time.word() == "too small")
}

/// The least change that counts.
pub(crate) fn least(of: &Comparison) -> &'static str {
    if of.has_single_run() { "5 %" } else { "1 %" }
}

/// `decode median step time -12.7 % (-1.30 ms)`. `is_open`: nothing is judged, and another word states it.
fn time_change(stage: &StageChange, is_open: bool) -> Option<String> {
    let (metric, label) = time_of(stage)?;
    let held = match &stage.other_work {
        Some(why) => format!("not comparable: {why}"),
        None => held(metric, is_open),
    };
    Some(format!("{} {} {held}", name(stage), averaged(stage, metric, label)))
}

/// `-12.7 % (-1.30 ms)`, of several runs `-12.7 % [-15.0, -10.0] (-1.30 ms)`, and a word for other changes.
fn held(metric: &MetricChange, is_open: bool) -> String {
    let Some(percent) = metric.change_percent else { return change_text(metric) };
    let change = format!("{} %", signed(percent, 1));
    let time =
        || change_ns(metric).map_or_else(String::new, |ns| format!(" ({})", signed_time(ns)));
    let noise = metric.noise_text();
    let ends = match &noise {
        Some(ends @ NoiseText::Interval(..)) => format!(" {ends}"),
        _ => String::new(),
    };
    let is_said = is_open && metric.word() == INCONCLUSIVE;
    match (metric.word(), noise) {
        ("equal", _) => "equal".to_owned(),
        _ if metric.verdict.is_change() => format!("{change}{ends}{}", time()),
        ("too small", _) => format!("{change}{ends}, too small to count"),
        (INCONCLUSIVE, Some(noise @ NoiseText::ExceedsValue)) if is_said => {
            format!("{change} ({noise})")
        }
        (INCONCLUSIVE, _) if is_said => format!("{change}{ends}"),
        (INCONCLUSIVE, Some(noise @ NoiseText::ExceedsValue)) => {
            format!("{change}, {INCONCLUSIVE} ({noise})")
        }
        (INCONCLUSIVE, _) => format!("{change}{ends}, {INCONCLUSIVE}"),
        (_, Some(noise @ NoiseText::Within(_))) => format!("{change} (within {noise})"),
        (_, Some(_)) => format!("{change}{ends}"),
        (word, None) => format!("{change} ({word})"),
    }
}

/// By how much a time changed, ns; nothing of other numbers.
pub(crate) fn change_ns(metric: &MetricChange) -> Option<f64> {
    metric.change.filter(|_| metric.unit == MetricUnit::Ms).map(|ms| ms * 1e6)
}

/// Where the mean step went the other way than the median one: both, and no word for which of them counts.
fn opposed_mean(stage: &StageChange, time: &MetricChange) -> Option<String> {
    let is_median = ["step_ms", "token_ms"].contains(&time.metric.as_str());
    let percents = stage.opposed().filter(|_| is_median)?;
    let [median, mean] = percents.map(|percent| signed(percent, 1));
    Some(format!("median {median} %, but mean {mean} %"))
}

/// That a rate follows the mean step, which changed by more than the median one: some steps are slow, or no longer are.
fn slow_steps(stage: &StageChange, rate: &MetricChange) -> Option<&'static str> {
    let percent = |name| stage.metric(name)?.change_percent;
    let [median, mean] = [percent("step_ms")?, percent("step_mean_ms")?];
    let follows_mean = rate.change_percent? * mean < 0.0 && !stage.has_other_steps();
    let is_apart = (mean - median).abs() >= MEAN_APART && mean.abs() > median.abs();
    let slow = if mean > 0.0 { "more slow steps" } else { "fewer slow steps" };
    (follows_mean && is_apart).then_some(slow)
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

/// Names of the mean time of a step, the first that changed for all: the parts add up to the window.
const MEANS: [&str; 3] = ["window_ms", "step_mean_ms", "host_ms"];

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
        let change = match (change_ns(metric), metric.change_percent) {
            (Some(ns), Some(percent)) => format!("{}, {} %", signed_time(ns), signed(percent, 1)),
            _ => change_text(metric),
        };
        let Some(stage) = stage else { return format!("run {metric_name} {change}") };
        // The head of the parts has the mean of the windows.
        let mean_ns = stage.parts().change_ns;
        match stage.metric("window_ms").and_then(|window| window.change) {
            Some(window)
                if ["step_mean_ms", "window_ms"].contains(&metric.metric.as_str())
                    && window * metric.change.unwrap_or_default() > 0.0 =>
            {
                format!(
                    "{} mean GPU window per {} {}",
                    name(stage),
                    stage.per_word(),
                    signed_time(mean_ns)
                )
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
        Presence::Vanished => Some(format!("stage `{}` is {GONE}", name(stage))),
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
