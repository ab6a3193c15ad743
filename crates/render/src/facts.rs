//! A report -> its answer in short: a fact in each line, for a terminal and for the head of pages.

use super::page::{
    COVERAGE, VERDICT, WARNINGS, coverage, gain_by_floor, head_of_ranks, host_ahead, idle_of,
    longest, of_its_roof, opening, page_lines, paragraphs, top_kernel, verdict_stage,
};
use super::table::capitalised;
use stage2_contract::text::numbers::{
    self, count, counted, grouped, or_absent, shown_rate, shown_time, time_scale,
};
use stage2_contract::text::{plain, shorten, shorten_kernel};
use stage2_model::finding::{Finding, Id, Severity};
use stage2_model::lead::bound_by;
use stage2_model::{
    Answer, AnswerLine, Bottleneck, BottleneckKind, BottleneckPart, EXTRA_TIME, HOST_SAMPLES_LEAST,
    LateCause, LateHost, LateRow, LateSteps, Origin, Report, Role, StageAnswer, Status, StepTimes,
    StepUnit,
};
use stage2_report::conclusions::rests_on;

// Of names, and of the parts of a step.
const STAGE_CHARS: usize = 40;
pub(super) const KERNEL_CHARS: usize = 60;
const PARTS: usize = 3;
const PART_PERCENT: f64 = 5.0;
const NEARLY_ALL_PERCENT: f64 = 90.0;
/// Share of the idle time from which its largest cause is named, percent.
const HOST_CAUSE_LEAST_PERCENT: f64 = 10.0;
/// From this part of the mean on, a median or a tail is far from it.
const MEAN_APART: f64 = 0.15;
/// If the mean window is this close to the mean step, only one of them is printed.
const NEAR_MEAN: f64 = 0.05;
/// What the verdict says in short of [`Answer::MARKED`].
const AND_MARKED: &str = " (with every operator marked, which slows the host)";
/// Label of what to do first.
pub(super) const FIRST: &str = "FIRST";

/// What the verdict is about, a fact in each line: what bounds a step, times, parts, the largest cause of idle time and
/// the late rank, the kernel, what to do. `None` where no step or what bounds it is known.
pub(super) fn facts(report: &Report) -> Option<Vec<AnswerLine>> {
    let has_verdict = report.answer.lines.iter().any(|line| line.label == VERDICT);
    let answer =
        verdict_stage(report).filter(|_| has_verdict && report.coverage.empty.is_none())?;
    let (step, found) = (answer.step.as_ref()?, answer.bottleneck.as_ref()?);
    let bound = found.first()?;
    let (stage, unit) = (shorten(&answer.stage, STAGE_CHARS), step.shown_unit());
    let rests_on = report.answer.first.as_ref().and_then(|first| {
        let mut rows = report.stages.iter().filter(|row| row.apart.is_none());
        rows.find(|row| Some(&row.stage) == first.stage.as_ref()).and_then(rests_on)
    });
    let first = report.answer.first.as_ref().map(|first| match &first.stage {
        Some(other) if *other != answer.stage => {
            let name = shorten(other, STAGE_CHARS);
            let of = report.answer.stages.iter().find(|answer| answer.stage == *other);
            let mean = first.mean.as_ref().zip(of.and_then(StageAnswer::unit_of_mean));
            // The line with the times has the mean of all calls.
            let recorded = if report.is_sampled() { "recorded " } else { "" };
            let mean = mean.map_or_else(String::new, |(mean, unit)| {
                format!(" (mean window {} per {recorded}{unit})", shown_time(mean.ns))
            });
            format!("the run can save most in {name}{mean}: {}", first.in_short)
        }
        _ => first.in_short.clone(),
    });
    let first = first.map(|text| match &rests_on {
        Some(rests_on) => format!("{text}; {rests_on}"),
        None => text,
    });
    let (scale, scaled, decimals) = time_scale(found.ns as f64);
    let number = |ns: f64| grouped(&format!("{:.decimals$}", ns / scale));
    let floor = answer
        .floor
        .distance
        .value()
        .map(|times| format!("; {times:.1}x the {}'s floor", found.of));
    let late = late_of(report, &answer.stage);
    let waited =
        late.and_then(|late| waited_for(found, late, |ns| format!("{} {scaled}", number(ns))));
    // What bounds a step comes first.
    let (lead, marked) = match report.answer.lead.split_once(Answer::MARKED) {
        Some((before, after)) => (format!("{before}{after}"), AND_MARKED),
        None => (report.answer.lead.clone(), ""),
    };
    let is_mean = is_mean_in_verdict(report, answer, step);
    let missing = report.coverage.missing_clause();
    let missing = missing.map(|clause| format!("; {clause}")).unwrap_or_default();
    let bound = format!(
        "{lead}{stage} is bound by {}: {} of {}{} {scaled} per {}{}{}{}{marked}{missing}",
        bound_by(report, &answer.stage, bound.kind),
        number(bound.ns as f64),
        if is_mean { "a mean of " } else { "" },
        number(found.ns as f64),
        of_unit(report, answer)?,
        if has_mean_window(report, answer, step) { WINDOW } else { "" },
        waited.unwrap_or_default(),
        floor.unwrap_or_default()
    );
    let kernel = top_kernel(report, |of, loss, lost, _| {
        let row = loss.kernel.row;
        let unit = of.step.as_ref().map_or(unit, StepTimes::shown_unit);
        let place = match of.stage == answer.stage {
            true => String::new(),
            false => format!(" of {}", shorten(&of.stage, STAGE_CHARS)),
        };
        let name = shorten_kernel(&row.kernel, KERNEL_CHARS);
        let name = format!("{name} ({}{place})", row.class);
        match (lost, gain_by_floor(report, of, unit)) {
            (Some(lost), _) => format!("{name} loses {lost} per {unit}{}", of_its_roof(loss)),
            (None, Some(bound)) => {
                let longest = longest(report, of);
                format!("{bound} (which of them is not known); the {longest} is {name}")
            }
            (None, None) => {
                format!("{name}: {} per {unit}", or_absent(loss.ns_of_step, shown_time))
            }
        }
    });
    let lines = [
        (VERDICT, Some(bound)),
        ("time", Some(times(report, answer, step))),
        ("where", Some(format!("{}{}", parts(found), of_recorded(report, answer)))),
        ("late", late.and_then(late_fact)),
        ("host", host_fact(report, false)),
        ("kernel", kernel),
        (FIRST, first),
    ];
    let line = |(label, text): (&str, Option<String>)| {
        Some(AnswerLine { label: label.into(), text: text? })
    };
    let coverage = coverage(report);
    let coverage = AnswerLine { text: coverage_in_short(report, &coverage.text), ..coverage };
    Some(lines.into_iter().filter_map(line).chain([coverage]).collect())
}

/// `f (a.py:3): 0.89 ms of idle GPU per step (0.19 ms more while the GPU works)`: the largest cause of idle time in the
/// stage of the verdict. `simulator`: also what the simulator of a GPU does.
pub(super) fn host_fact(report: &Report, simulator: bool) -> Option<String> {
    let answer = verdict_stage(report)?;
    let largest = idle_of(report, answer)?.causes.into_iter().next();
    let (cause, ns) = largest.filter(|(cause, _)| cause.percent >= HOST_CAUSE_LEAST_PERCENT)?;
    // It is no code to look into.
    let is_of_simulator = report.simulated && cause.kind.is_of_simulator();
    if is_of_simulator && !simulator {
        return None;
    }
    let simulator = if is_of_simulator { ", by this machine, which simulates the GPU" } else { "" };
    let found = answer.bottleneck.as_ref()?;
    let (time, of) = (shown_time(ns), &found.of);
    // Where the host alone sets the pace, steps are shorter by this time, too.
    let mut stages = report.host.iter().flat_map(|host| &host.stages);
    let sets_pace = stages.any(|host| host.stage == answer.stage && host.never_waits());
    let percent = cause.beside_work_percent.clamp(0.0, 100.0);
    let meanwhile =
        (sets_pace && percent >= 0.05).then(|| shown_time(found.ns as f64 * percent / 100.0));
    let meanwhile =
        meanwhile.map_or_else(String::new, |time| format!(" ({time} more while the GPU works)"));
    let ranks = || report.ranks.stages.iter().filter(|row| row.stage == answer.stage);
    let is_of_rank = |file: &str| ranks().any(|row| row.file == file);
    // Windows of one process are no ranks.
    let (in_rank, mean) = match ranks().count().min(report.coverage.processes_of(is_of_rank)) {
        0 | 1 => Default::default(),
        all => (
            cause.in_rank(|file| ranks().find(|row| row.file == file)?.rank),
            format!(", averaged over {all} ranks"),
        ),
    };
    // The others take as long in it.
    let mut late = report.ranks.late.iter().filter(|late| late.stage == answer.stage);
    let compared = late.find_map(|late| Some((late, late.host.as_ref()?)));
    let is_why = |host: &LateHost| host.findings().any(|row| row.is_in(cause));
    let elsewhere = compared.filter(|(_, host)| host.other_ranks && !is_why(host));
    let elsewhere = elsewhere.map_or_else(String::new, |(late, _)| {
        let who = shorten(&late.who, STAGE_CHARS);
        let others: Vec<_> = ranks().filter(|row| row.who != late.who).collect();
        // Its time is not in the idle time of the others: their GPUs are busy waiting.
        let of_late =
            cause.in_rank(|file| ranks().find(|row| row.file == file && row.who == late.who)?.rank);
        let do_others =
            |host: &LateHost| host.rows.iter().any(|row| row.is_in(cause) && row.other_ns > 0);
        let is_shared = !of_late.is_empty() && late.host.as_ref().is_some_and(do_others);
        let too = match others.as_slice() {
            _ if in_rank.is_empty() || !is_shared => String::new(),
            [one] => {
                let other = shorten(&one.who, STAGE_CHARS);
                format!("{other} runs it too (while its GPU waits in a collective), so ")
            }
            _ => {
                "the other ranks run it too (while their GPUs wait in collectives), so ".to_owned()
            }
        };
        format!("; {too}it does not explain why {who} is late")
    });
    let cause = cause.text(true);
    let cause = cause.split(" from ").next().filter(|_| is_of_simulator).unwrap_or(&cause);
    Some(format!(
        "{cause}{in_rank}: {time} of idle GPU per {of}{mean}{meanwhile}{elsewhere}{simulator}"
    ))
}

/// Why [`host_fact`] names no code of a stage whose GPU waits for the host. Nothing of captures that have no samples, nor of
/// a simulated GPU, whose host is in part the simulator.
pub(super) fn no_host_fact(report: &Report) -> Option<String> {
    let answer = verdict_stage(report)?;
    let bound = answer.bottleneck.as_ref()?.first()?.kind;
    let waits = matches!(bound, BottleneckKind::Host | BottleneckKind::Launches);
    if !waits || report.simulated || report.source != Origin::Collector.label() {
        return None;
    }
    let Some(host) = &report.host else {
        return Some("not known: the host was not sampled (profiling.collector.host=on)".into());
    };
    if host_ahead(report, &answer.stage) {
        return Some("none: the host was ahead of the GPU".into());
    }
    let found = host.stages.iter().find(|found| found.stage == answer.stage)?;
    Some(match found.causes.is_empty() {
        true => format!(
            "not known: {} of the idle time, and {HOST_SAMPLES_LEAST} are needed: {}",
            counted(found.samples, "sample"),
            host.more_samples()
        ),
        false => "no function or wait stands out".into(),
    })
}

/// Of a complete capture without the counts; what was left out on purpose stays.
pub(super) fn coverage_in_short(report: &Report, text: &str) -> String {
    if report.coverage.verdict.status != Status::Complete {
        // Work outside of the stages is no loss, and no process of a run that is over still runs.
        let is_loss = |clause: &&str| !clause.starts_with("GPU records outside of the stages");
        let text = text.split("; ").filter(is_loss).collect::<Vec<_>>().join("; ");
        let is_over = report.run.workload_end.is_some();
        return if is_over { text.replace(", or are still running", "") } else { text };
    }
    let mut clauses = text.split("; ");
    let known = clauses.next().unwrap_or_default().split([',', '(']).next().unwrap_or_default();
    let is_left_out = |clause: &&str| {
        ["SAMPLED ", "COLLECTED ONLY ", "RECORDED ONLY "]
            .iter()
            .any(|word| clause.starts_with(word))
    };
    let left_out = clauses.filter(is_left_out).map(|clause| format!("; {clause}"));
    // A note says that nothing of weight is missing.
    let is_gap = |finding: &&Finding| {
        let ids = [Id::CountersGap, Id::CountersLost, Id::CountersLeftOut];
        ids.contains(&finding.id) && finding.severity != Severity::Note
    };
    let gaps = report.findings.iter().any(|finding| is_gap(&finding));
    let only = if known.starts_with("complete") { "only " } else { "" };
    let gaps = if gaps { format!("; {only}counters have gaps") } else { String::new() };
    format!("{}{}{gaps}", known.trim_end(), left_out.collect::<String>())
}

/// Labels of lines of the answer that [`facts`] have in short.
const IN_FACTS: [&str; 8] =
    [VERDICT, "time", "window", "host", "late rank", "floor", "kernel", "first"];

/// Right below the title of a page: a fact in each line, also why a rank is late, and what a floor is. Where these are not
/// known, the lines of the answer in full.
pub(super) fn brief_screen(report: &Report) -> String {
    let mut lines = short(report);
    let stage = verdict_stage(report).map(|answer| &answer.stage);
    let mut late = report.ranks.late.iter().filter(|late| Some(&late.stage) == stage);
    let why = late.find(|late| late.delays.is_some()).and_then(LateRow::code_line);
    let at = lines.iter().position(|line| line.label == "late");
    if let Some((at, text)) = at.zip(why) {
        lines.insert(at + 1, AnswerLine { label: "why late".into(), text });
    }
    of_lines(report, &lines).unwrap_or_else(|| {
        let lines = page_lines(report);
        let items: String = lines.iter().map(|line| item(&line.label, &line.text)).collect();
        format!("{}{items}\n{}", opening(report), head_of_ranks(report))
    })
}

/// The answer in full, for a page that begins with [`brief_screen`]; empty where that has it already.
pub(super) fn in_full(report: &Report) -> String {
    facts(report).map_or_else(String::new, |_| {
        let lines = page_lines(report).into_iter().filter(|line| line.label != WARNINGS);
        paragraphs(&lines.collect::<Vec<_>>())
    })
}

/// [`facts`] as pages have them: with the lines that have no fact, such as that on warnings, in front of the coverage.
/// Empty where there are none.
pub(super) fn short(report: &Report) -> Vec<AnswerLine> {
    let mut lines = facts(report).unwrap_or_default();
    let Some(coverage) = lines.pop() else { return lines };
    lines.extend(page_lines(report).into_iter().filter(is_other));
    lines.push(coverage);
    // What to do stands right below what is wrong.
    if let Some(at) = lines.iter().position(|line| line.label == FIRST) {
        let first = lines.remove(at);
        lines.insert(1.min(lines.len()), AnswerLine { label: "first".into(), ..first });
    }
    lines
}

/// `cut the extra host time of rank 0: waiting for the GIL (saves up to 0.35 ± 0.05 ms per step)`, without what holds it.
pub(super) fn without_holder(first: &str) -> Option<String> {
    let (what, held) = first.split_once(" (held by ")?;
    let (_, rest) = held.split_once(')').filter(|_| what.starts_with(EXTRA_TIME))?;
    Some(format!("{what}{rest}"))
}

/// `make priority (a.py:18) faster`: what to do, without what it gains and, of a late rank, without its code.
pub(super) fn without_gain(first: &str) -> Option<&str> {
    let gains =
        [" (saves ", " (the GPU is idle", " (up to ", " (about ", " to spread ", ": up to "];
    let end = gains.iter().filter_map(|gain| first.find(gain)).min().unwrap_or(first.len());
    let what = first.get(..end).filter(|what| !what.is_empty())?;
    Some(match what.split_once(": ") {
        Some((rank, _)) if rank.starts_with(EXTRA_TIME) => rank,
        Some(("launch less often", _)) => "give the GPU fewer, larger pieces of work (CUDA graphs)",
        _ => what,
    })
}

/// What a floor is, where the verdict tells of one.
pub(super) fn floor_note(report: &Report) -> Option<String> {
    let told = verdict_stage(report).filter(|told| told.floor.distance.value().is_some())?;
    let of = &told.bottleneck.as_ref()?.of;
    Some(format!("Floor: the least time that the GPU needs for the work of a {of}."))
}

/// Behind the mean of the verdict, where the line on times has another one.
const WINDOW: &str = " (GPU window)";

/// Why two means of a step differ, where the lines have both.
fn means_note(lines: &[AnswerLine]) -> Option<String> {
    let has = |word| lines.iter().any(|line| line.text.contains(word));
    (has("host mean ") && has(WINDOW)).then(|| {
        "Host mean: from the start of a step on the host to the start of the next. GPU window: to the end of the step's last \
         GPU work if that is later; the shares are of its mean."
            .to_owned()
    })
}

/// Words of the lines that those who do not profile may not know, and what they are.
const WORDS: [(&str, &str); 6] = [
    ("host", "Host: the program on the CPU."),
    ("kernel", "Kernel: a function that runs on the GPU."),
    ("rank ", "Rank: a process of the job, with its own GPU."),
    ("GIL", "GIL: Python's lock, which one thread of a process holds at a time."),
    ("roof", "Roof: the rate at which the hardware could run a kernel."),
    ("±", "±: standard error of the samples; runs can differ by more."),
];

fn of_lines(report: &Report, lines: &[AnswerLine]) -> Option<String> {
    let items: String = lines.iter().map(|line| item(&line.label, &line.text)).collect();
    let said = |(word, _): &&(&str, &str)| lines.iter().any(|line| line.text.contains(word));
    let words = WORDS.iter().filter(said).map(|(_, meaning)| (*meaning).to_owned());
    let notes = means_note(lines).into_iter().chain(floor_note(report)).chain(words);
    let notes: Vec<String> = notes.collect();
    let notes = if notes.is_empty() { String::new() } else { notes.join(" ") + "\n\n" };
    let (above, below) = (opening(report), head_of_ranks(report));
    (!lines.is_empty()).then(|| format!("{above}{items}\n{notes}{below}"))
}

/// Whether a line of the answer has no fact in short.
pub(super) fn is_other(line: &AnswerLine) -> bool {
    line.label != COVERAGE && !IN_FACTS.contains(&line.label.as_str())
}

fn item(label: &str, text: &str) -> String {
    format!("- **{}:** {}\n", plain(&capitalised(label)), plain(text))
}

/// `mean 4.66 ms per step (p50 4.62, p99 11.09), 3,432 tokens/s; prefill mean 21.64 ms; first token p50 56.09 ms`: of the
/// stage, of the other one of the model, and of the requests of an engine. The rate is that of the mean, and only a
/// tail that is far from it is named, so that 80 columns are enough.
fn times(report: &Report, answer: &StageAnswer, step: &StepTimes) -> String {
    let mean = mean_of(report, answer, step);
    let (scale, _, decimals) = time_scale(mean);
    let number = |ns: f64| grouped(&format!("{:.decimals$}", ns / scale));
    let tail = step.tail().map(|(of, ns)| (of, step.shown_ns(ns)));
    let tail = tail.filter(|(_, ns)| *ns >= mean * (1.0 + MEAN_APART));
    let tail = tail.map(|(of, ns)| format!(", {of} {}", number(ns)));
    let mut series = report.step_series.iter();
    let series = series.find(|of| of.stage == answer.stage).filter(|_| tail.is_some());
    let apart = series.and_then(|of| Some((of.slow_steps_apart()?, of.slow_steps_follow())));
    let apart = apart.map(|(apart, follow)| {
        let why = follow.map_or_else(String::new, |why| format!(": {why}"));
        format!(
            "; slow {noun}s recur every {apart} {noun}s or a multiple of that{why}",
            noun = step.unit.noun()
        )
    });
    let counted = answer.tokens_counted.noun();
    let rate = answer.tokens_per_s.value();
    let rate = rate.map(|rate| format!(", {} {counted}/s", shown_rate(rate)));
    // How the time of one relates to that of the verdict.
    let at_a_time = answer.at_a_time().zip(answer.bottleneck.as_ref());
    let at_a_time = at_a_time
        .map(|(calls, found)| format!(", {calls}: one ends every {}", shown_time(found.ns as f64)));
    let of_model = |other: &&StageAnswer| {
        other.stage != answer.stage && matches!(other.role, Role::Prefill | Role::Decode)
    };
    let other = report.answer.stages.iter().find(of_model).and_then(|other| {
        let step = other.step.as_ref()?;
        let time = shown_time(mean_of(report, other, step));
        let p50 = median_apart(step);
        let of = report.is_sampled() && other.mean_of_all_ns().is_none() && !p50.is_empty();
        let of = if of { format!(" of all {}s", step.unit.noun()) } else { String::new() };
        // Other lines have its median.
        Some(format!("; {} mean {time}{of}{p50}", shorten(&other.stage, STAGE_CHARS)))
    });
    let requests = report.engine.as_ref().and_then(|engine| engine.requests.as_ref());
    let first_ns = requests.and_then(|requests| requests.first_token.p50_ns);
    let first = first_ns.map(|ns| format!("; first token p50 {}", shown_time(ns as f64)));
    // The mean includes them; most other numbers do not.
    let mut rows = report.stages.iter().filter(|row| row.stage == answer.stage);
    let outliers = rows.find_map(|row| row.outliers.as_ref()).map(|outliers| {
        let (are, hold) = match outliers.count {
            1 => ("an outlier", "holds"),
            _ => ("outliers", "hold"),
        };
        format!(
            "; {} of {}, {are}, {hold} {:.1} % of this time",
            count(outliers.count),
            numbers::counted(outliers.of, outliers.unit_word()),
            outliers.percent
        )
    });
    let spread = [tail, apart, outliers].map(Option::unwrap_or_default).concat();
    let texts = [rate, at_a_time, other, first].map(Option::unwrap_or_default).concat();
    let unit = answer.unit_of_times().unwrap_or_default();
    let of = if has_mean_window(report, answer, step) { "host mean" } else { "mean" };
    format!(
        "{of} {} per {unit} (p50 {}{spread}){texts}",
        shown_time(mean),
        number(step.shown_ns(step.p50_ns))
    )
}

/// Whether the verdict has the mean of the GPU windows, and the line on times another one, of the host.
fn has_mean_window(report: &Report, answer: &StageAnswer, step: &StepTimes) -> bool {
    let mean = shown_time(mean_of(report, answer, step));
    let is_apart = |found: &Bottleneck| {
        answer.unit_of_mean() == answer.unit_of_times()
            && !report.is_sampled()
            && shown_time(found.ns as f64) != mean
    };
    answer.bottleneck.as_ref().is_some_and(is_apart)
}

/// The mean of the steps: that of the verdict, if this is of the same steps. A step of an engine lasts until the next one
/// begins, and its rate follows from that.
pub(super) fn mean_of(report: &Report, answer: &StageAnswer, step: &StepTimes) -> f64 {
    let of_verdict = mean_window(report, answer, step).filter(|_| step.unit != StepUnit::OfEngine);
    of_verdict.unwrap_or_else(|| step.shown_ns(step.mean_ns))
}

/// The mean of the verdict, if it is of the same steps: a window also contains the time to its last GPU work.
fn mean_window(report: &Report, answer: &StageAnswer, step: &StepTimes) -> Option<f64> {
    let mean = step.shown_ns(step.mean_ns);
    let is_near = |found: &&Bottleneck| (found.ns as f64 / mean - 1.0).abs() <= NEAR_MEAN;
    let is_same = answer.unit_of_mean() == answer.unit_of_times() && !report.is_sampled();
    let found = answer.bottleneck.as_ref().filter(is_near).filter(|_| is_same)?;
    Some(found.ns as f64)
}

/// Whether the verdict names its mean as one, as the median is far from it.
fn is_mean_in_verdict(report: &Report, answer: &StageAnswer, step: &StepTimes) -> bool {
    mean_window(report, answer, step).is_some() && !median_apart(step).is_empty()
}

/// ` (p50 20.46)` behind the mean, if these are so far apart.
fn median_apart(step: &StepTimes) -> String {
    let [p50, mean] = [step.p50_ns, step.mean_ns].map(|ns| step.shown_ns(ns));
    let (scale, _, decimals) = time_scale(mean);
    match mean > 0.0 && (mean / p50 - 1.0).abs() >= MEAN_APART {
        true => format!(" (p50 {})", grouped(&format!("{:.decimals$}", p50 / scale))),
        false => String::new(),
    }
}

/// `host wait 3.10 ms (67 %), kernels 1.38 (30 %), other 0.16 (3 %)`: the parts of the mean step.
pub(super) fn parts(found: &Bottleneck) -> String {
    let (scale, unit, decimals) = time_scale(found.ns as f64);
    let is_named = |(at, part): &(usize, &BottleneckPart)| {
        let is_kernels = part_label(part.kind) == KERNELS;
        is_kernels || *at < PARTS && (*at == 0 || found.percent(part) >= PART_PERCENT)
    };
    let named = found.parts.iter().enumerate().filter(is_named);
    let mut shown: Vec<(&str, u64)> =
        named.map(|(_, part)| (part_label(part.kind), part.ns)).collect();
    let other_ns = shown.iter().fold(found.ns, |rest, (_, ns)| rest.saturating_sub(*ns));
    shown.push(("other", other_ns));
    let percent = |ns: u64| ns as f64 * 100.0 / found.ns.max(1) as f64;
    let texts = shown.iter().zip(0..).filter(|((_, ns), _)| percent(*ns) >= 0.5);
    let text = |(&(label, ns), at): (&(&str, u64), usize)| {
        let unit = if at == 0 { format!(" {unit}") } else { String::new() };
        let time = grouped(&format!("{:.decimals$}{unit}", ns as f64 / scale));
        format!("{label} {time} ({:.0} %)", percent(ns))
    };
    texts.map(text).collect::<Vec<_>>().join(", ")
}

/// The mean of all calls, if only some were recorded and theirs differs.
fn mean_of_unrecorded(report: &Report, answer: &StageAnswer) -> Option<f64> {
    answer.mean_of_all_ns().filter(|ns| report.is_sampled() && *ns > 0.0)
}

/// What the mean of the verdict is of: `call`, or `recorded call` where others differ.
fn of_unit(report: &Report, answer: &StageAnswer) -> Option<String> {
    let recorded = mean_of_unrecorded(report, answer).map_or("", |_| "recorded ");
    Some(format!("{recorded}{}", answer.unit_of_mean()?))
}

/// `: the mean of the 103 recorded of 1,653 calls, which is 23 % above that of all (3.22 ms)`: those that are not recorded
/// may be shorter.
fn of_recorded(report: &Report, answer: &StageAnswer) -> String {
    if !report.is_sampled() {
        return String::new();
    }
    let all_ns = mean_of_unrecorded(report, answer);
    let apart = all_ns.zip(answer.bottleneck.as_ref()).map(|(all_ns, found)| {
        let percent = (found.ns as f64 / all_ns - 1.0) * 100.0;
        let side = if percent < 0.0 { "below" } else { "above" };
        format!(", which is {:.0} % {side} that of all ({})", percent.abs(), shown_time(all_ns))
    });
    let join = if answer.basis.starts_with("mean of ") { ": the" } else { ";" };
    format!("{join} {}{}", answer.basis, apart.unwrap_or_default())
}

const KERNELS: &str = "kernels";

/// Few words for a part of a step.
fn part_label(kind: BottleneckKind) -> &'static str {
    match kind {
        BottleneckKind::Host => "host wait",
        BottleneckKind::Launches => "idle between kernels",
        BottleneckKind::Ranks => "rank wait",
        BottleneckKind::OtherWork => "other stages",
        BottleneckKind::Communication | BottleneckKind::Copies => kind.label(),
        BottleneckKind::Memory | BottleneckKind::Compute | BottleneckKind::Kernels => KERNELS,
    }
}

/// `, and 0.86 ms waiting for rank 0, whose host is late`: behind the time in which the GPU waits for the host, how long it
/// waits for the rank that is late for the same reason.
fn waited_for(found: &Bottleneck, late: &LateRow, shown: impl Fn(f64) -> String) -> Option<String> {
    let who = late_on_host(found, late)?;
    let ranks = found.parts.iter().find(|part| part.kind == BottleneckKind::Ranks)?;
    Some(format!(", and {} waiting for {who}, whose host is late", shown(ranks.ns as f64)))
}

/// The rank that the others wait for nearly all of that time, where its host is the reason and the GPU waits for the host
/// most of the step.
pub(super) fn late_on_host(found: &Bottleneck, late: &LateRow) -> Option<String> {
    found.first().filter(|bound| bound.kind == BottleneckKind::Host)?;
    let delays = late.delays.as_ref().filter(|delays| delays.cause() == LateCause::Host)?;
    let ranks = found.parts.iter().find(|part| part.kind == BottleneckKind::Ranks)?;
    // Of the waiting, next to nothing may be for another rank.
    let is_it =
        found.percent(ranks) >= PART_PERCENT && delays.waiting_percent >= NEARLY_ALL_PERCENT;
    is_it.then(|| shorten(&late.who, STAGE_CHARS))
}

/// The late rank of a stage, if its delays are known.
pub(super) fn late_of<'r>(report: &'r Report, stage: &str) -> Option<&'r LateRow> {
    let mut late = report.ranks.late.iter().filter(|late| late.stage == stage);
    late.find(|late| late.delays.is_some())
}

/// `rank 0 in 190 of 191 steps, by 1.60 ms (median), on the host`; nothing where that is noise.
fn late_fact(late: &LateRow) -> Option<String> {
    let delays = late.delays.as_ref()?;
    let who = shorten(&late.who, STAGE_CHARS);
    let on = match delays.cause() {
        _ if !late.shows_cause() => "",
        LateCause::Host => ", on the host",
        LateCause::Gpu => ", on the GPU",
        LateCause::Both => ", on host and GPU",
    };
    let often = match &delays.steps {
        Some(LateSteps { noun, late, of, median_ns, .. }) => {
            let by = shown_time(*median_ns as f64);
            format!("in {} of {}, by {by} (median)", count(*late), counted(*of, noun))
        }
        None => {
            let [late, all] = [delays.collectives, late.collectives].map(count);
            format!("at {late} of {all} collectives, by {}", shown_time(delays.mean_ns as f64))
        }
    };
    Some(format!("{who} {often}{on}"))
}

/// `: its host takes 0.45 ms longer per step, and the delay is carried over`, behind the line `late` of a terminal, which
/// has no other line on it: less time of the host is gained than the delay of many steps.
pub(super) fn carried_fact(report: &Report) -> Option<String> {
    let stage = &verdict_stage(report)?.stage;
    let mut late = report.ranks.late.iter().filter(|late| late.stage == *stage);
    let (steps, begins) = late.find(|late| late.delays.is_some())?.carried()?;
    let longer = shown_time(begins.longer_ns.filter(|ns| *ns > 0)? as f64);
    let noun = &steps.noun;
    Some(format!(": its host takes {longer} longer per {noun}, and the delay is carried over"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rich;
    use stage2_model::{LateDelays, Outliers, Step, StepBefore, StepSeries};
    use stage2_report::conclusions::Shown;

    #[test]
    fn a_mean_far_from_the_median_and_regular_slow_steps_are_told_with_the_times() {
        let mut report = rich();
        let answer = report.answer.stages[0].clone();
        let mut step = answer.step.clone().expect("timed");
        let start = |step: &StepTimes| times(&report, &answer, step);
        assert!(start(&step).starts_with("mean 2.15 ms per token (p50 2.15), "));
        step.p99_ns = Some(2_910_000);
        assert!(start(&step).starts_with("mean 2.15 ms per token (p50 2.15, longest 2.91)"));
        (step.mean_ns, step.p99_ns) = (3_000_000, Some(3_910_000));
        assert!(start(&step).starts_with("host mean 3.00 ms per token (p50 2.15, longest 3.91"));
        let said = |report: &Report, answer: &StageAnswer| times(report, answer, &step);
        let mut paused = report.clone();
        let row = paused.stages.iter_mut().find(|row| row.stage == answer.stage).expect("a row");
        row.outliers = Some(Outliers { count: 1, of: 16, percent: 43.66, ..Outliers::default() });
        let hold = ", longest 3.91; 1 of 16 calls, an outlier, holds 43.7 % of this time)";
        assert!(said(&paused, &answer).contains(hold), "{}", said(&paused, &answer));
        let outliers = [63, 126, 315, 378, 630].map(|number| Step { number, ..Step::default() });
        let stage = answer.stage.clone();
        report.step_series =
            vec![StepSeries { stage, outliers: outliers.to_vec(), ..StepSeries::default() }];
        let regular = " 3.91; slow steps recur every 63 steps or a multiple of that), ";
        assert!(said(&report, &answer).contains(regular), "{}", said(&report, &answer));
        let follows = |number, runs_ns| StepBefore { number, stage: "mixed".into(), runs_ns };
        let runs_ms = [13, 9, 14, 10, 12];
        let before =
            outliers.iter().zip(runs_ms).map(|(step, ms)| follows(step.number, ms * 1_000_000));
        report.step_series[0].before = before.collect();
        let why = "or a multiple of that: each follows a mixed step, whose GPU work still runs for 9.00 to 14.00 ms), ";
        assert!(said(&report, &answer).contains(why), "{}", said(&report, &answer));
        report.step_series[0].before[0].runs_ns = 0;
        assert!(said(&report, &answer).contains(regular), "not all of them");
        report.step_series[0].outliers.pop();
        assert!(!said(&report, &answer).contains("recur every"), "too few");
    }

    /// One mean on the screen: a window contains the time between its steps as well, so that it is a little longer.
    #[test]
    fn a_mean_that_the_verdict_has_is_repeated_with_the_same_number() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample/runner/metrics.json");
        let json = std::fs::read_to_string(path).expect("the sample");
        let mut report: Report = serde_json::from_str(&json).expect("a report");
        let decode = report.answer.stages.iter_mut().find(|of| of.stage == "decode");
        let step = decode.and_then(|of| of.step.as_mut()).expect("steps");
        step.p50_ns = 19_950_000;
        for row in &mut report.stages {
            row.host_warm_instances = row.host_warm_instances.map(|_| 2);
        }
        let told = facts(&report).expect("a verdict");
        let line = |label: &str| {
            let line = told.iter().find(|line| line.label == label).expect(label);
            line.text.as_str()
        };
        let verdict = line(VERDICT);
        assert!(verdict.contains(": 22.63 of a mean of 24.44 ms per token"), "{verdict}");
        assert!(line("time").starts_with("mean 24.44 ms per token (p50 19.95), "));
        assert!(!verdict.contains("(GPU window)"), "one mean needs no name: {verdict}");
        // Advice on few calls says so where it is given.
        assert!(line(FIRST).ends_with("; based on only 2 warm calls"), "{}", line(FIRST));
    }

    /// A page tells one delay with one number, and says of what it names nothing, why.
    #[test]
    fn pages_have_the_delay_of_a_late_rank_once_and_the_reason_for_no_host_code() {
        let sample = |name: &str| -> Report {
            let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample");
            let json = std::fs::read_to_string(format!("{samples}/{name}/metrics.json"));
            serde_json::from_str(&json.expect("the sample")).expect("a report")
        };
        let report = sample("vllm_two_gpus");
        // The basis of a mean stands where it is not that of the times.
        let told = facts(&report).expect("a verdict");
        let [verdict, time] = [VERDICT, "time"]
            .map(|label| &told.iter().find(|line| line.label == label).expect(label).text);
        assert!(verdict.contains(": 1.11 of 3.17 ms per step (GPU window), and"), "{verdict}");
        assert!(time.contains("host mean 3.14 ms") && time.contains("prefill mean 29"), "{time}");
        let late = "rank 0 in 190 of 191 steps, by 1.64 ms (median), on the host";
        let told = facts(&report).expect("a verdict");
        assert!(told.iter().any(|line| line.label == "late" && line.text == late), "{told:#?}");
        assert!(carried_fact(&report).is_some_and(|said| said.contains("0.45 ms longer per step")));
        assert_eq!(short(&report)[1].label, "first");
        let page = crate::summary::page(&report, &Shown::default()).markdown();
        let plain = "A step of `decode` takes 3.17 ms on average, 9.0 times the least that the hardware allows. For 35 % of \
                     the time, the GPU has nothing to do and waits for the program on the CPU; for another 27 %, it \
                     waits for rank 0, whose program on the CPU is late. What to do first: cut the extra host time of rank 0. That could make decode up to 1.12x faster.\n\n- **Verdict:**";
        assert!(page.contains(plain), "{page}");
        assert!(page.contains("\n\nHost mean: from the start of a step on the host to"), "{page}");
        assert!(page.contains(" GIL: Python's lock, which"), "{page}");
        let largest = "## Takeaways\n\n1. decode: waiting for other ranks is 42.7 %";
        assert!(page.contains(largest), "{page}");
        let kernels =
            page.split("## Top Kernels").nth(1).and_then(|part| part.split("\n\n").nth(1));
        let stages: Vec<_> = kernels.expect("a table").lines().skip(2).collect();
        assert!(
            stages.len() == 5 && stages.iter().all(|row| row.contains("| `decode` |")),
            "{page}"
        );
        assert_eq!(stages.iter().filter(|row| row.ends_with("| communication |")).count(), 1);
        // A small cause explains nothing.
        let mut report = sample("vllm_sorting");
        let page = crate::summary::page(&report, &Shown::default()).markdown();
        let untimed = "13 of the 757 steps of decode have no time, because a pause followed; GPU windows are of all";
        assert!(page.contains(untimed), "{page}");
        let found = report.host.as_mut().map(|host| &mut host.stages).expect("sampled");
        let decode = found.iter_mut().find(|found| found.stage == "decode").expect("decode");
        decode.causes[0].percent = 9.9;
        let none = (None, Some("no function or wait stands out"));
        assert_eq!((host_fact(&report, false), no_host_fact(&report).as_deref()), none);
        // What the simulator does is named as such.
        let mut report = sample("vllm_sorting");
        report.simulated = true;
        assert!(host_fact(&report, false).is_some());
        let found = report.host.as_mut().map(|host| &mut host.stages).expect("sampled");
        let decode = found.iter_mut().find(|found| found.stage == "decode").expect("decode");
        decode.causes[0].kind = stage2_model::HostCauseKind::NotScheduled;
        assert_eq!(host_fact(&report, false), None, "a terminal has no room for it");
        let whose = ", by this machine, which simulates the GPU";
        assert!(host_fact(&report, true).is_some_and(|said| said.ends_with(whose)));
        let report = sample("sampled_counters");
        let why = "not known: 13 samples of the idle time, and 30 are needed: record for longer, or with \
                   profiling.collector.host=1000";
        assert_eq!(
            (host_fact(&report, false), no_host_fact(&report).as_deref()),
            (None, Some(why))
        );
        assert_eq!(no_host_fact(&Report { simulated: true, ..report }), None);
    }

    /// Counters of a complete capture may have gaps, which no other clause of the line says.
    #[test]
    fn the_coverage_names_gaps_of_counters() {
        let mut report = rich();
        report.coverage.verdict.status = Status::Complete;
        let said =
            |report: &Report| coverage_in_short(report, "complete: no known lost records (9)");
        assert_eq!(said(&report), "complete: no known lost records");
        report.coverage.verdict.status = Status::Partial;
        let partial = "PARTIAL, with 9 GPU records: range events lost: 3; GPU records outside of the stages: 7 in warm-up ranges";
        let short = coverage_in_short(&report, partial);
        assert_eq!(short, "PARTIAL, with 9 GPU records: range events lost: 3");
        report.coverage.verdict.status = Status::Complete;
        report.findings.push(Id::CountersGap.about("GPU 0").found("a gap", "", ""));
        assert_eq!(said(&report), "complete: no known lost records; only counters have gaps");
        report.findings.last_mut().unwrap().severity = Severity::Note;
        assert_eq!(said(&report), "complete: no known lost records");
    }

    /// Hazard: a share of recorded calls passes for one of all calls, which are faster.
    #[test]
    fn the_lines_of_a_sampled_stage_name_the_calls_that_they_are_of() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample/server_window/metrics.json");
        let json = std::fs::read_to_string(path).expect("the sample");
        let report: Report = serde_json::from_str(&json).expect("a report");
        let told = facts(&report).expect("a verdict");
        let line = |label: &str| {
            let line = told.iter().find(|line| line.label == label).expect(label);
            line.text.as_str()
        };
        assert!(
            line(VERDICT).ends_with(": 2.23 of 3.95 ms per recorded call"),
            "{}",
            line(VERDICT)
        );
        let times = "mean 3.22 ms per call (p50 3.06, p99 4.81); prefill mean 29.01 ms of all calls (p50 20.46)";
        assert_eq!(line("time"), times);
        let whose = ": the mean of the 103 recorded of 1,653 calls, which is 23 % above that of all (3.22 ms)";
        assert!(line("where").ends_with(whose), "{}", line("where"));
    }

    #[test]
    fn the_wait_for_a_rank_is_named_where_it_is_for_that_rank() {
        let part = |kind, ns| BottleneckPart { kind, ns };
        let parts = vec![part(BottleneckKind::Host, 1_110), part(BottleneckKind::Ranks, 860)];
        let mut found = Bottleneck { ns: 3_170, parts, ..Bottleneck::default() };
        let late = |work_ns, waiting_percent| {
            let delays =
                LateDelays { total_ns: 100, work_ns, waiting_percent, ..LateDelays::default() };
            LateRow { who: "rank 0".into(), delays: Some(delays), ..LateRow::default() }
        };
        let told = |found: &Bottleneck, late: &LateRow| {
            waited_for(found, late, |ns| format!("{:.2} ms", ns / 1e3))
        };
        let expected = ", and 0.86 ms waiting for rank 0, whose host is late";
        assert_eq!(told(&found, &late(0, 99.0)).as_deref(), Some(expected));
        assert_eq!(told(&found, &late(100, 99.0)), None, "its GPU is slow");
        assert_eq!(told(&found, &late(0, 60.0)), None, "others are late, too");
        found.parts.reverse();
        assert_eq!(told(&found, &late(0, 99.0)), None, "the ranks come first");
    }
}
