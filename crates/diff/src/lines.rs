//! A comparison -> its lines, and its numbers as words.

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{listed, shorten, shorten_kernel};
use stage2_model::{AnswerLine, FirstStep, Severity};

use crate::comparability::{NOT_INTERLEAVED, ORDER_OF_RUNS};
use crate::comparison::{
    ComparedRun, Comparison, Difference, LibraryChange, MetricChange, MetricUnit, Per, Presence,
    StageChange, WorkChange, WorkKind, WorkSide, signed, signed_time,
};
use crate::judged::{GONE, NOT_COMPARABLE, Verdict, either};
use crate::next::next;
use crate::noise::{ALPHA, is_tested, largest_p, median, smallest_p};
use crate::parts::LAUNCH_GAPS;
use crate::verdict::{NAME_LIMIT, STAGES, STEP, change_ns, is_unjudged, time_of, timed, versus};

const ABSENT: &str = "not known";

/// `first`: what a run before the change was advised to do first, and the name of the run.
pub(crate) fn lines(of: &Comparison, first: Option<(&str, &FirstStep)>) -> Vec<AnswerLine> {
    let line = |label: &str, text: String| AnswerLine { label: label.to_owned(), text };
    let stages = of.of_model();
    let advice = first.and_then(|(run, first)| Some(line("advice", advice(of, run, first)?)));
    let mut all = vec![
        line("time", time(&stages)),
        line("window", window(&stages)),
        line("kernels", kernels(of, &stages)),
        line("libraries", libraries(of)),
        line("comparable", comparable(of)),
        line("noise", noise(of)),
        line("next", next(of)),
    ];
    all.splice(1..1, advice);
    all
}

/// What the step was to gain by the first advice, next to what became of it: the same mean on both sides. The change
/// need not have followed the advice.
fn advice(of: &Comparison, run: &str, first: &FirstStep) -> Option<String> {
    first.saved()?;
    let stage = of.stages.iter().find(|stage| Some(&stage.stage) == first.stage.as_ref())?;
    let comparable = of.unlike.is_empty() && stage.other_work.is_none();
    let window = stage.metric("window_ms").filter(|_| comparable)?;
    let (ns, per) = (change_ns(window)?, stage.per_word());
    Some(format!(
        "{}: {}; measured: {} {} per {per}{}",
        in_folder(run).1,
        first.in_short,
        name(stage),
        signed_time(ns),
        own_part(stage, first, ns)
    ))
}

/// What of the change the cause itself made that the advice was about, and everything else: `, less than estimated:
/// priority -0.77 ms (gone), everything else +0.25 ms (mostly idle)`; nothing where the cause did not change.
fn own_part(stage: &StageChange, first: &FirstStep, ns: f64) -> String {
    let promised = first.mean.as_ref().zip(first.factor);
    let promised = promised.map(|(mean, factor)| (mean.ns, mean.ns * (1.0 - 1.0 / factor)));
    // A bound promises nothing.
    let is_less = promised
        .zip(first.error_percent)
        .is_some_and(|((mean, saved), error)| -ns < saved - error / 100.0 * mean);
    let less = if is_less { ", less than estimated" } else { "" };
    let is_advised = |row: &&MetricChange| {
        let Some((function, path)) =
            row.metric.strip_suffix(')').and_then(|it| it.rsplit_once(" ("))
        else {
            return false;
        };
        first.condition.contains(&format!("{function} ({}", in_folder(path).1))
    };
    let gaps = || {
        let is_gaps = first.removes.iter().any(|part| part.what == LAUNCH_GAPS);
        stage.metric("launch_gaps_ms").filter(|_| is_gaps)
    };
    let cause = stage.host.iter().find(is_advised).or_else(gaps);
    let changed = cause.filter(|cause| cause.verdict.is_change());
    let Some((cause, of_cause)) = changed.and_then(|cause| Some((cause, change_ns(cause)?))) else {
        return String::new();
    };
    let what = cause.metric.split(" (").next().unwrap_or_default();
    let what = if cause.metric == "launch_gaps_ms" { LAUNCH_GAPS } else { what };
    let gone = if cause.after == Some(0.0) { " (gone)" } else { "" };
    let others = ns - of_cause;
    let idle = stage.metric("idle_ms").and_then(change_ns).map(|idle| idle - of_cause);
    let is_idle = idle.is_some_and(|idle| idle / others >= MOSTLY);
    let idle = if is_idle { " (mostly idle)" } else { "" };
    format!(
        "{less}: {} {}{gone}, everything else {}{idle}",
        shorten(what, NAME_LIMIT),
        signed_time(of_cause),
        signed_time(others)
    )
}

/// Share of a change from which a part is most of it.
const MOSTLY: f64 = 0.5;

/// What a time is a part of; nothing where it is that of the whole step.
fn part_of(metric: &MetricChange) -> &'static str {
    match metric.metric.as_str() {
        "gpu_busy_ms" => "GPU busy ",
        "kernel_ms" => "kernel time ",
        _ => "",
    }
}

/// What the time of a stage is of: `step time`, `time per token`.
pub(crate) fn step_name(stage: &StageChange, label: &str) -> String {
    match stage.step.as_deref().filter(|_| label == STEP) {
        Some(step) => format!("{step} time"),
        None => label.to_owned(),
    }
}

/// The label of a time with its kind of average, `median step`: the bars below it divide a mean.
pub(crate) fn averaged(stage: &StageChange, metric: &MetricChange, label: &str) -> String {
    let average = match metric.metric.as_str() {
        "token_ms" | "step_ms" => "median ",
        "host_ms" => "mean ",
        _ => "",
    };
    format!("{average}{}", step_name(stage, label))
}

pub(crate) fn name(stage: &StageChange) -> String {
    shorten(&stage.stage, NAME_LIMIT)
}

fn time(stages: &[&StageChange]) -> String {
    let of = |stage: &&StageChange| {
        let name = name(stage);
        match stage.presence {
            Presence::New => return format!("stage `{name}` is new"),
            Presence::Vanished => return format!("stage `{name}` is {GONE}"),
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
pub(crate) struct Named<'c> {
    rows: Vec<&'c WorkChange>,
    pub(crate) change_ns: f64,
    /// Whether that is beyond noise.
    is_change: bool,
}

impl Named<'_> {
    /// `gemm_a +39.9 us`, or `1 attention kernel replaced by another: +24.0 us net`.
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
                let gone = rows.iter().filter(|row| row.presence() == Presence::Vanished).count();
                let new = rows.iter().filter(|row| row.presence() == Presence::New).count();
                match (what.strip_suffix('s'), gone, new) {
                    (Some(one), 1.., 1..) if gone + new == rows.len() => {
                        let by = if new == 1 { "another" } else { &format!("{new} others") };
                        let gone = counted(gone as u64, one);
                        format!("{gone} replaced by {by}: {change} net")
                    }
                    _ => format!(
                        "{} {what} that took over calls: {change} net",
                        count(rows.len() as u64)
                    ),
                }
            }
        }
    }
}

/// The GPU work of a stage that changed.
pub(crate) struct LargeWork<'c> {
    /// What changed it by much, the largest change first.
    pub(crate) named: Vec<Named<'c>>,
    /// Rows that changed by much, but together by little or within noise.
    cancelled: Vec<Named<'c>>,
}

impl LargeWork<'_> {
    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.cancelled.is_empty()
    }
}

/// The GPU work that changed that of a stage by much. A kernel that took over from others counts with them.
pub(crate) fn large_work(stage: &StageChange) -> LargeWork<'_> {
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
pub(crate) fn named_work<'n, 'c: 'n>(
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
        // They are smaller than those that have names.
        let cancelled = if named.len() < MOST { cancelled } else { Vec::new() };
        let named = named_work(&named, NAME_LIMIT);
        let rows: usize = cancelled.iter().map(|of_class| of_class.rows.len()).sum();
        let change_ns: f64 = cancelled.iter().map(|of_class| of_class.change_ns).sum();
        let besides = (rows > 0).then(|| {
            let other = if named.is_some() { "other kernel" } else { "kernel" };
            let rows = counted(rows as u64, other);
            let is_noise = !cancelled.iter().any(|of_class| of_class.is_change);
            let noise = if is_noise { ", within noise" } else { "" };
            format!("{rows} replaced each other ({} net{noise})", signed_time(change_ns))
        });
        let of = format!("per {} {}", name(stage), stage.per_word());
        Some(match (named, besides) {
            (Some(named), Some(besides)) => format!("largest changes {of}: {named}; {besides}"),
            (Some(named), None) => format!("largest changes {of}: {named}"),
            (None, besides) => format!("{of}: {}", besides?),
        })
    };
    let comparable = stages
        .iter()
        .filter(|stage| stage.other_work.is_none() && stage.presence == Presence::Both);
    let sum = |number: fn(&LibraryChange) -> u64| of.libraries.iter().map(number).sum::<u64>();
    let most = comparable.clone().copied().find_map(largest);
    let first = comparable.clone().next().filter(|stage| large_work(stage).is_empty());
    let most = most.map(|said| match first {
        Some(first) => format!("in {}, none changed by 1 % of its GPU work; {said}", name(first)),
        None => said,
    });
    // Those that changed by little have no name here, and the line of the libraries counts them.
    let changed = if most.is_none() { sum(|row| row.changed) } else { 0 };
    let names = [
        (sum(|row| row.new), "new"),
        (sum(|row| row.vanished), GONE),
        (changed, "with a changed time"),
    ];
    let names = names.iter().filter(|(number, _)| *number > 0);
    let names: Vec<String> =
        names.map(|(number, what)| format!("{} {what}", count(*number))).collect();
    let none = "beyond noise, none changed by 1 % of the GPU work of its stage";
    let of_steps = comparable.clone().filter(|stage| stage.per != Per::Run);
    let mut rows = of_steps.flat_map(|stage| &stage.work);
    let is_compared = rows.any(|row| row.presence() == Presence::Both);
    match (most, names.join(", ")) {
        (_, names) if !of.unlike.is_empty() && names.is_empty() => NOT_COMPARED.to_owned(),
        (_, names) if !of.unlike.is_empty() => format!("{names}; times {NOT_COMPARED}"),
        (None, names) if !is_compared && names.is_empty() => NOT_COMPARED.to_owned(),
        (None, names) if !is_compared => format!("{names}; times {NOT_COMPARED}"),
        (Some(most), names) if names.is_empty() => most,
        (Some(most), names) => format!("{most}; {names}"),
        (None, names) if names.is_empty() => none.to_owned(),
        (None, names) => format!("{names}, but no GPU time changed by 1 % or more"),
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
        true => "no version is known to differ, and no kernel is new, gone or renamed".to_owned(),
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
            let [a, b] = [a, b].map(|version| version.as_deref().unwrap_or("(absent or unknown)"));
            format!(" {a} → {b}")
        }
        (false, Some(version), _) => format!(" {version} on both sides"),
        (false, None, _) => String::new(),
    };
    let counts = [
        (library.new, "new"),
        (library.vanished, GONE),
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
const VALUE_LIMIT: usize = 48;

pub(crate) fn warning(difference: &Difference) -> String {
    let Difference { what, before, after, .. } = difference;
    let is_short = |value: &str| (1..=VALUE_LIMIT).contains(&value.chars().count());
    match is_short(before) && is_short(after) {
        _ if what == ORDER_OF_RUNS => NOT_INTERLEAVED.to_owned(),
        _ if before == after => what.clone(),
        true => format!("{what} ({before} → {after})"),
        false => what.clone(),
    }
}

/// Notes that the line names.
const NOTES: usize = 4;

fn comparable(of: &Comparison) -> String {
    let (warnings, notes): (Vec<&Difference>, Vec<&Difference>) =
        of.differences.iter().partition(|d| d.severity >= Severity::Warning);
    // A run that widens every interval comes first.
    let apart = outlier(of).map(|(run, factor)| format!("{run} takes {factor}"));
    let warnings: Vec<String> =
        apart.into_iter().chain(warnings.into_iter().map(warning)).collect();
    // Other work of a stage that no warning names.
    let other_work = timed(of).into_iter().filter_map(|stage| {
        let why = stage.other_work.as_ref().filter(|_| of.unlike.is_empty())?;
        let is_said = warnings.iter().any(|warning| warning.contains(&*stage.stage));
        (!is_said).then(|| format!("not {}: {why}", name(stage)))
    });
    let other_work: Vec<String> = other_work.take(NOTES).collect();
    let both = notes.iter().filter(|note| note.before == note.after);
    // Only what may be in doubt of runs is named although both sides have it.
    let text = |note: &&&Difference| match note.what.as_str() {
        "simulated" => "both simulated".to_owned(),
        what => format!("{what} varies within both sides"),
    };
    let mut texts = other_work;
    texts.extend(both.map(|note| text(&note)));
    let differ: Vec<&str> = notes
        .iter()
        .filter(|note| note.before != note.after)
        .map(|note| note.what.as_str())
        .collect();
    if !differ.is_empty() {
        texts.push(format!("different {}", listed(&differ, NOTES)));
    }
    match (warnings.is_empty(), texts.is_empty()) {
        (true, true) => "yes".to_owned(),
        (true, false) => format!("yes ({})", texts.join("; ")),
        (false, _) => {
            let degree = if of.unlike.is_empty() { WITH_CAVEATS } else { "no" };
            let warned = format!("{degree}: {}", warnings.join(", "));
            std::iter::once(warned).chain(texts).collect::<Vec<_>>().join("; ")
        }
    }
}

/// Begins the line `comparable` of runs that differ in what may matter.
pub const WITH_CAVEATS: &str = "with caveats";

/// What has no counterpart on the other side.
pub const NOT_COMPARED: &str = "not compared";

/// A run whose step takes longer or shorter than those of all other runs of its side by so many times their spread, and
/// by so much of their median: its interval may be wide for that run alone.
const OUTLIER_SPREADS: f64 = 3.0;
const OUTLIER_PART: f64 = 0.1;

/// The folder of a run, behind the one that it is in; a run of a baseline keeps its whole name.
pub fn in_folder(label: &str) -> (Option<&str>, &str) {
    let path = label.strip_suffix("/metrics.json").unwrap_or(label).trim_end_matches('/');
    match path.rsplit_once('/').filter(|_| !path.starts_with("baseline:")) {
        Some((parent, folder)) => (Some(if parent.is_empty() { "/" } else { parent }), folder),
        None => (None, if path.is_empty() { label } else { path }),
    }
}

/// A run that should be recorded again, and how far it is from the others: `b1`, `1.54x as long as the others (decode)`.
pub(crate) fn outlier(of: &Comparison) -> Option<(String, String)> {
    let stages = timed(of);
    let times = stages.iter().filter_map(|stage| Some((stage, stage.time()?)));
    let sides = times.flat_map(|(stage, time)| {
        [(&of.before, &time.before_runs), (&of.after, &time.after_runs)].map(|side| (stage, side))
    });
    let found = sides.filter(|(_, (runs, values))| runs.len() == values.len() && values.len() > 2);
    let of_side = |(stage, (runs, values)): (&&StageChange, (&Vec<ComparedRun>, &Vec<f64>))| {
        let factor = |at: usize| {
            let others = values.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<f64> = others.map(|(_, value)| *value).collect();
            let least = others.iter().copied().fold(f64::INFINITY, f64::min);
            let most = others.iter().copied().fold(0.0, f64::max);
            let (middle, value) = (median(&others)?, *values.get(at)?);
            let beyond = (value - most).max(least - value);
            let is_apart = beyond > (OUTLIER_SPREADS * (most - least)).max(OUTLIER_PART * middle);
            is_apart.then_some(value / middle)
        };
        let found = (0..values.len()).find_map(|at| Some((runs.get(at)?, factor(at)?)));
        found.map(|(run, factor)| {
            let (_, folder) = in_folder(&run.label);
            let others = format!("{factor:.2}x as long as the others ({})", stage.stage);
            (folder.to_owned(), others)
        })
    };
    found.filter_map(of_side).next()
}

fn noise(of: &Comparison) -> String {
    let stages = timed(of);
    let both = || stages.iter().filter(|stage| stage.presence == Presence::Both);
    match (of.before.len(), of.after.len()) {
        _ if !of.unlike.is_empty() => NOT_COMPARED.to_owned(),
        // No row has a noise that would need an explanation.
        _ if both().count() > 0 && both().all(|stage| stage.own_times.is_some()) => {
            NOT_COMPARED.to_owned()
        }
        (1, 1) => {
            format!(
                "± within runs, (min): 5 % of the larger value; run to run unknown{}",
                not_judged(of)
            )
        }
        (1, n) | (n, 1) => format!(
            "[ ] covers the spread of the {n} runs and the noise within the one; a change counts if [ ] excludes 0 \
             and it is at least 5 %{}",
            not_judged(of)
        ),
        (a, b) if smallest_p(a, b) > ALPHA => format!(
            "[ ] is the range over all pairs of runs, widened by the larger spread of a side; a change counts if \
             [ ] excludes 0 and it is at least 1 %; {} are too few to reach p = 0.05 (4 per side are enough)",
            versus(a, b)
        ),
        (a, b) if !is_tested(a, b) => format!(
            "[ ] is the range over all pairs of runs, widened by the larger spread of a side; a change counts if \
             [ ] excludes 0 and it is at least 1 %; {a} vs {b} runs are too many for the exact test"
        ),
        (a, b) => {
            let errs = largest_p(a, b);
            format!(
                "[ ] is the {:.0} % confidence interval of the change; a change counts if [ ] excludes 0 and it is at \
                 least 1 %; exact rank test (Mann-Whitney) at p ≤ 0.05: for independent runs, expect up to 1 false \
                 alarm in {:.0} numbers",
                // Never more than it is.
                (100.0 * (1.0 - errs)).floor(),
                (1.0 / errs + 1e-9).floor()
            )
        }
    }
}

/// Why single runs leave times without a judgement.
fn not_judged(of: &Comparison) -> String {
    let stages = timed(of);
    let open = stages.iter().copied().filter(|stage| is_unjudged(stage));
    let why = open.filter_map(|stage| stage.time()?.noise.why_not_judged());
    match either(why) {
        Some(why) => format!("; inconclusive: {why}"),
        None => String::new(),
    }
}

/// `8.820 → 9.410 ms`.
pub(crate) fn value_text(metric: &MetricChange) -> String {
    let [a, b, _] = metric.shown_row().map(|value| value.unwrap_or_else(|| ABSENT.to_owned()));
    format!("{a} → {b}{}", metric.unit.suffix())
}

/// `+0.590 ms, +6.7 %`.
pub(crate) fn change_text(metric: &MetricChange) -> String {
    let [_, _, Some(change)] = metric.shown_row() else { return ABSENT.to_owned() };
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
        word @ ("equal" | NOT_COMPARABLE) => word.to_owned(),
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
