//! A comparison -> its verdict, its six lines, and its numbers as words.

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{listed, shorten, shorten_kernel};
use stage2_model::{AnswerLine, Severity};

use crate::comparison::{
    Better, Comparison, Difference, LibraryChange, MetricChange, MetricUnit, NoiseMethod, Per,
    Presence, StageChange, Verdict, WorkChange, signed, signed_time,
};
use crate::noise::{ALPHA, is_tested, smallest_p};

const STAGES: usize = 3;
/// Characters of a name in a line.
const NAME_LIMIT: usize = 60;
/// Times of a stage, the first that both sides have: as the lines of a report have them.
const TIMES: [(&str, &str); 5] = [
    ("token_ms", "token"),
    ("step_ms", STEP),
    ("host_ms", "call"),
    ("gpu_busy_ms", "GPU busy"),
    ("kernel_ms", "kernel time"),
];
/// Stands for what a step of the stage is.
const STEP: &str = "step";
const ABSENT: &str = "not known";

/// Differences of what a step has to do.
const OF_WORKLOAD: [&str; 6] = [
    "batch size",
    "prompt tokens",
    "images per prompt",
    "crops per image",
    "requests in a decode step",
    "prompt tokens in a prefill step",
];

/// Other numbers that the verdict names.
const OTHERS: usize = 2;

/// In one sentence whether anything changed beyond noise: the times of the stages first, then all other numbers of
/// these stages and of the run, so that nothing below contradicts it.
pub(crate) fn verdict(of: &Comparison) -> String {
    // Work outside of ranges is no stage.
    let stages: Vec<&StageChange> =
        of.of_model().into_iter().filter(|stage| stage.per != Per::Run).collect();
    let times: Vec<String> = stages.iter().filter_map(|stage| changed_time(stage)).collect();
    let mut texts: Vec<String> = times.iter().take(STAGES).cloned().collect();
    if let Some(more) = times.len().checked_sub(STAGES).filter(|&more| more > 0) {
        texts.push(format!("{} below", counted(more as u64, "more stage")));
    }
    // Where a stage is slower or faster, what it delivers says whether that helps, and the others are details.
    let others: Vec<String> = match texts.is_empty() {
        true => other_metrics(of, &stages).into_iter().chain(changed_work(&stages)).collect(),
        false => stages.iter().filter_map(|stage| throughput(stage)).take(1).collect(),
    };
    let first = match (texts.is_empty(), others.is_empty()) {
        (false, _) => format!("changed: {}", texts.join("; ")),
        (true, true) => "no measurable change".to_owned(),
        (true, false) => "no measurable change in the time of any stage".to_owned(),
    };
    // A difference that has another reason does not come before that reason.
    let first = match unlike(of) {
        Some(why) => format!("Hardly comparable ({why}); {first}"),
        None => sentence_case(&first),
    };
    let others = others.iter().map(|text| format!("; {text}")).collect::<String>();
    let basis = match (of.before.len(), of.after.len()) {
        (1, 1) => " (one run a side; repeat to decide)".to_owned(),
        (a, b) => format!(" ({a} against {})", counted(b as u64, "run")),
    };
    format!("{first}{others}{basis}")
}

fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Why the times of the sides hardly compare, whatever they are; nothing where they do.
fn unlike(of: &Comparison) -> Option<String> {
    let mut reasons: Vec<String> = Vec::new();
    for difference in of.differences.iter().filter(|d| d.severity >= Severity::Warning) {
        let Difference { what, before, after, .. } = difference;
        let reason = match what.as_str() {
            "simulated" => "one GPU is simulated".to_owned(),
            "GPU" => "another GPU".to_owned(),
            "number of GPUs" => format!("{before} against {after} GPUs"),
            "model" => "another model".to_owned(),
            what if OF_WORKLOAD.contains(&what) => "another workload".to_owned(),
            _ => continue,
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

/// What became of the time of a stage; nothing where that is noise or not known.
fn changed_time(stage: &StageChange) -> Option<String> {
    match stage.presence {
        Presence::New => return Some(format!("{} is new", name(stage))),
        Presence::Vanished => return Some(format!("{} vanished", name(stage))),
        Presence::Both => {}
    }
    let (metric, label) = time_of(stage).filter(|(metric, _)| metric.verdict.is_change())?;
    let words = opposed_mean(stage, metric).unwrap_or_else(|| in_words(metric));
    Some(format!("{} {} ({words})", name(stage), step_name(stage, label)))
}

/// Where the mean step went the other way than the median one: both, and no word for which of them counts.
fn opposed_mean(stage: &StageChange, median: &MetricChange) -> Option<String> {
    let mean = stage.metric("step_mean_ms").filter(|_| median.metric == "step_ms")?;
    let (of_median, of_mean) = (median.change_percent?, mean.change_percent?);
    (of_median * of_mean < 0.0)
        .then(|| format!("median {} %, but mean {} %", signed(of_median, 1), signed(of_mean, 1)))
}

/// What became of the tokens per second of a stage.
fn throughput(stage: &StageChange) -> Option<String> {
    let metric = stage.metric("tokens_per_s").filter(|metric| metric.change.is_some())?;
    // In brackets, so that a short line does not lose that it is noise.
    Some(format!("{} tokens/s ({})", name(stage), in_words(metric)))
}

/// The time of a stage that the lines give, and what it is of: of the same as the parts of the stage.
pub(crate) fn time_of(stage: &StageChange) -> Option<(&MetricChange, &'static str)> {
    TIMES.iter().filter(|(metric, _)| stage.has_time(metric)).find_map(|(metric, label)| {
        let metric = stage.metric(metric).filter(|metric| metric.change.is_some())?;
        Some((metric, *label))
    })
}

/// How many metrics other than the times of the stages changed, with the largest of those that got worse.
fn other_metrics(of: &Comparison, stages: &[&StageChange]) -> Option<String> {
    let of_stages = stages.iter().flat_map(|stage| {
        let time = time_of(stage).map(|(metric, _)| metric.metric.as_str());
        let other = stage.metrics.iter().filter(move |metric| Some(metric.metric.as_str()) != time);
        other.chain(&stage.host).map(|metric| (name(stage), metric))
    });
    let all = of_stages.chain(of.run.iter().map(|metric| ("run".to_owned(), metric)));
    let changed: Vec<(String, &MetricChange)> =
        all.filter(|(_, metric)| metric.verdict.is_change()).collect();
    let mut worse: Vec<&(String, &MetricChange)> =
        changed.iter().filter(|(_, metric)| metric.is_worse()).collect();
    let size = |metric: &MetricChange| metric.change_percent.unwrap_or(f64::MAX).abs();
    worse.order_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    let text = |(stage, metric): &&(String, &MetricChange)| {
        let metric_name = shorten(&metric.metric, NAME_LIMIT);
        format!("{stage} {metric_name} {}", change_text(metric))
    };
    let named: Vec<String> = worse.iter().take(OTHERS).map(text).collect();
    let worse = match worse.len() {
        0 => String::new(),
        number => format!(", {number} of them for the worse: {}", named.join("; ")),
    };
    let all = counted(changed.len() as u64, "other number");
    (!changed.is_empty()).then(|| format!("{all} changed{worse}"))
}

/// How many rows of GPU work changed.
fn changed_work(stages: &[&StageChange]) -> Option<String> {
    let rows = stages.iter().flat_map(|stage| &stage.work);
    let changed = rows.filter(|row| row.verdict.is_change()).count();
    (changed > 0).then(|| format!("{} of GPU work changed", counted(changed as u64, "row")))
}

pub(crate) fn lines(of: &Comparison) -> Vec<AnswerLine> {
    let line = |label: &str, text: String| AnswerLine { label: label.to_owned(), text };
    let stages = of.of_model();
    vec![
        line("time", time(&stages)),
        line("window", window(&stages)),
        line("kernels", kernels(&stages)),
        line("libraries", libraries(of)),
        line("comparable", comparable(of)),
        line("noise", noise(of)),
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

fn step_name<'s>(stage: &'s StageChange, label: &'s str) -> &'s str {
    stage.step.as_deref().filter(|_| label == STEP).unwrap_or(label)
}

fn name(stage: &StageChange) -> String {
    shorten(&stage.stage, NAME_LIMIT)
}

fn time(stages: &[&StageChange]) -> String {
    let of = |stage: &&StageChange| {
        let name = name(stage);
        match stage.presence {
            Presence::New => return format!("{name} is new"),
            Presence::Vanished => return format!("{name} vanished"),
            Presence::Both => {}
        }
        match time_of(stage) {
            None => format!("{name}: no time is known on both sides"),
            Some((metric, _)) => {
                let (per, change) = (stage.per_of(&metric.metric), in_words(metric));
                format!("{name}: {}{}{per} ({change})", part_of(metric), value_text(metric))
            }
        }
    };
    let mut texts: Vec<String> = stages.iter().take(STAGES).map(of).collect();
    if stages.is_empty() {
        texts.push("no stage on either side".to_owned());
    }
    if let Some(more) = stages.len().checked_sub(STAGES).filter(|&more| more > 0) {
        texts.push(format!("{} below", counted(more as u64, "more stage")));
    }
    texts.join("; ")
}

/// Stages in the line of the window.
const WINDOWS: usize = 2;

/// Where the time of the stages that changed most went.
fn window(stages: &[&StageChange]) -> String {
    let both = stages.iter().filter(|stage| stage.presence == Presence::Both);
    let texts: Vec<String> = both.take(WINDOWS).map(|stage| window_of(stage)).collect();
    match texts.is_empty() {
        true => "no stage is on both sides".to_owned(),
        false => texts.join("; "),
    }
}

fn window_of(stage: &StageChange) -> String {
    let known = |metric: &str| stage.metric(metric).filter(|metric| metric.change.is_some());
    let busy = known("gpu_busy_ms").map(|metric| format!("GPU busy {}", in_short(metric)));
    let idle = known("idle_ms").map(|metric| format!("idle {}", in_short(metric)));
    // Idle time has it already.
    let gaps = known("launch_gaps_ms").filter(|metric| metric.verdict.is_change());
    let gaps = gaps.map(|metric| format!("of which launch gaps {}", in_short(metric)));
    let texts: Vec<String> = [busy, idle, gaps].into_iter().flatten().collect();
    match texts.is_empty() {
        true => format!("{}: busy and idle time are not known on both sides", name(stage)),
        false => format!("{} per {}: {}", name(stage), stage.per_word(), texts.join(", ")),
    }
}

/// `8.820 → 9.410 ms (+6.7 %, worse)`, or that it is noise.
fn in_short(metric: &MetricChange) -> String {
    let change = match metric.verdict {
        Verdict::None if metric.change == Some(0.0) => "equal".to_owned(),
        Verdict::None if metric.noise.method != NoiseMethod::Exact => "noise".to_owned(),
        _ => in_words(metric),
    };
    format!("{} ({change})", value_text(metric))
}

fn kernels(stages: &[&StageChange]) -> String {
    let rows = || stages.iter().flat_map(|stage| stage.work.iter().map(move |row| (stage, row)));
    let number =
        |is: &dyn Fn(&WorkChange) -> bool| count(rows().filter(|(_, row)| is(row)).count() as u64);
    let all = rows().count() as u64;
    let summary = format!(
        "{} in stages: {} changed, {} new, {} vanished",
        counted(all, "row"),
        number(&|row| row.presence() == Presence::Both && row.verdict.is_change()),
        number(&|row| row.presence() == Presence::New),
        number(&|row| row.presence() == Presence::Vanished),
    );
    match rows().find(|(_, row)| row.verdict.is_change()) {
        None => format!("none changed beyond noise ({summary})"),
        Some((stage, row)) => format!(
            "most in {}: {} {} per {} ({summary})",
            name(stage),
            work_name(row, NAME_LIMIT),
            signed_time(row.change_ns),
            stage.per_word(),
        ),
    }
}

/// Libraries in a line.
const LIBRARIES: usize = 4;

/// Versions that differ, beside the kernels that appeared, vanished or have another name.
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
        (library.changed, "with another time"),
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
    if !warnings.is_empty() {
        let notes = match notes.len() {
            0 => String::new(),
            n => format!("; and {}", counted(n as u64, "note")),
        };
        return format!("with care: {}{notes}", warnings.join(", "));
    }
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
    match texts.is_empty() {
        true => "yes".to_owned(),
        false => format!("yes ({})", texts.join("; ")),
    }
}

fn noise(of: &Comparison) -> String {
    match (of.before.len(), of.after.len()) {
        (1, 1) => {
            "one run a side: noise between runs is not known; a difference has to exceed 5 % and the \
             noise within the runs"
                .to_owned()
        }
        (1, n) | (n, 1) => format!(
            "one run against {n}: the noise of the side with one is unknown; a difference is one if \
             the values lie apart by more than the several spread, and by 5 %"
        ),
        (a, b) if smallest_p(a, b) > ALPHA => format!(
            "{a} runs against {b}, too few for a test at 0.05 (4 a side are enough); a difference has to \
             exceed the spread of either side, and 1 %"
        ),
        (a, b) if !is_tested(a, b) => format!(
            "{a} runs against {b}, too many for the exact test: a difference is one if the values of \
             the sides lie apart by more than either side spreads, and by 1 %"
        ),
        (a, b) => format!(
            "{a} runs against {b}: exact rank test (Mann-Whitney) of each number at 0.05, so 1 of 20 \
             numbers that did not change may still pass it; a difference also has to be at least 1 %"
        ),
    }
}

/// `8.820 → 9.410 ms`.
pub(crate) fn value_text(metric: &MetricChange) -> String {
    let text = |value: f64| metric.unit.shown(value);
    let [a, b] = [metric.before, metric.after].map(|value| value.map_or(ABSENT.to_owned(), text));
    format!("{a} → {b}{}", metric.unit.suffix())
}

/// `+0.590 ms, +6.7 %`.
pub(crate) fn change_text(metric: &MetricChange) -> String {
    let Some(change) = metric.change else { return ABSENT.to_owned() };
    let digits = metric.unit.digits(change);
    let change = format!("{}{}", signed(change, digits), metric.unit.difference_suffix());
    match metric.change_percent {
        Some(percent) if metric.unit != MetricUnit::Percent => {
            format!("{change}, {} %", signed(percent, 1))
        }
        _ => change,
    }
}

/// `+6.7 %, slower`, or that it is noise.
fn in_words(metric: &MetricChange) -> String {
    let percent = metric.change_percent.map(|percent| format!("{} %", signed(percent, 1)));
    let percent = percent.unwrap_or_else(|| change_text(metric));
    let better = match (metric.verdict, metric.better) {
        (Verdict::None, _) if metric.noise.method == NoiseMethod::Exact => {
            return "equal".to_owned();
        }
        (Verdict::None, _) if metric.noise.method == NoiseMethod::OneRunEach => {
            return format!("{percent}, not judged");
        }
        (Verdict::None, _) => return format!("{percent}, within noise"),
        (Verdict::Increased, Better::Lower) | (Verdict::Decreased, Better::Higher) => ", worse",
        (Verdict::Decreased, Better::Lower) | (Verdict::Increased, Better::Higher) => ", better",
        _ => "",
    };
    format!("{percent}{better}")
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
