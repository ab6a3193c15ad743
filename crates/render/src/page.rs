//! What every page states before anything else, and what several pages compute alike.

use super::facts::short;
use super::ranks;
use crate::names::Names;
use crate::table::{capitalised, why_none};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{grouped, or_absent, percent1, shown_time};
use stage2_contract::text::{code_in_text, plain, shorten, shorten_kernel, shorten_words};
use stage2_model::finding::Id;
use stage2_model::kernels::{Kernel, Loss, class_floors, model_stages, stage_kernels, steps};
pub(super) use stage2_model::lead::{
    gain_by_floor, host_ahead, lead_first, longest, lost_of, told, verdict_stage,
};
use stage2_model::{
    AnswerLine, Finding, HostCause, Report, Severity, StageAnswer, StageRow, WarmRow, WindowKind,
    times_faster,
};

/// What a simulated device means for the numbers.
pub(super) const SIMULATED: &str = "SIMULATED: the GPU of this capture (or of a part of it) was simulated. \
    Kernel times are those of a recording; launches and idle times are those of the machine that ran it.";

/// Label of the line on coverage, the last of the answer.
pub(super) const COVERAGE: &str = "coverage";

/// Label of the line on calls that no mean is of, and sums of kernels are.
const OUTLIERS: &str = "outliers";

/// Label of the line on the kernel that loses most.
const KERNEL: &str = "kernel";

/// Label of the sentences that say it all, the first line of the answer.
pub(super) const VERDICT: &str = "verdict";

/// The lines of the answer, and the kernel that loses most in front of what to do. The coverage is always the last one:
/// a reader who trusts the others needs it.
pub(super) fn answer_lines(report: &Report) -> Vec<AnswerLine> {
    let mut lines = report.answer.lines.clone();
    if lines.iter().all(|line| line.label != COVERAGE) {
        lines.push(coverage(report));
    }
    if let Some(text) = loses_most(report) {
        let at = lines.iter().position(|line| line.label == "first").unwrap_or(lines.len() - 1);
        lines.insert(at, AnswerLine { label: KERNEL.to_owned(), text });
    }
    lines
}

/// Label of the line on what has to be read with care.
pub(super) const WARNINGS: &str = "warnings";
/// Characters of a warning on the first screen.
const WARNING_CHARS: usize = 160;

/// Lines that come first behind a verdict: what it is about.
const LEADING: [&str; 4] = [VERDICT, "first", "late rank", KERNEL];

/// [`answer_lines`] as pages have them: how many warnings there are, and the first one, in front of the coverage, and
/// what a verdict is about right behind it.
pub(super) fn page_lines(report: &Report) -> Vec<AnswerLine> {
    let mut lines = answer_lines(report);
    if let Some(warnings) = warnings(report) {
        lines.insert(lines.len().saturating_sub(1), warnings);
    }
    if lines.iter().any(|known| known.label == VERDICT) {
        let place = |known: &AnswerLine| LEADING.iter().position(|label| *label == known.label);
        lines.order_by_key(|known| place(known).unwrap_or(LEADING.len()));
    }
    lines
}

/// How many warnings there are, and the first one.
pub(super) fn warnings(report: &Report) -> Option<AnswerLine> {
    // What is lost weighs more than how the rest was measured.
    let is_loss = |found: &&Finding| found.id <= Id::TraceCopy || found.id == Id::WorkloadEnded;
    let first = warnings_of(report).find(is_loss).or_else(|| warnings_of(report).next())?;
    let first = shorten(&first.what, WARNING_CHARS);
    let text = match warnings_of(report).count() {
        1 => first,
        number => format!("{number}, the first: {first}"),
    };
    Some(AnswerLine { label: WARNINGS.to_owned(), text })
}

/// The warnings of a report.
pub(super) fn warnings_of(report: &Report) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|found| found.severity == Severity::Warning)
}

/// The line on coverage: that of the answer, or else what the capture says of itself.
pub(super) fn coverage(report: &Report) -> AnswerLine {
    let of_answer = report.answer.lines.iter().find(|line| line.label == COVERAGE).cloned();
    of_answer.unwrap_or_else(|| AnswerLine {
        label: COVERAGE.to_owned(),
        text: report.coverage.verdict.text.clone(),
    })
}

const NAME_CHARS: usize = 60;
/// Stages whose steps are named.
const UNITS: usize = 8;

/// The kernel that loses most in the stage of the verdict, or else in the first one with a known loss, or the longest one:
/// `decode loses most in cutlass (gemm, bound by memory, at 63 % of its roof): up to 0.901 of 2.434 ms per step`, as in the
/// table of kernels; and which other stage loses more.
fn loses_most(report: &Report) -> Option<String> {
    top_kernel(report, |answer, loss, lost, all| {
        let unit = answer.step.as_ref().map_or("step", |step| step.shown_unit());
        let stage = shorten(&answer.stage, NAME_CHARS);
        let name = shorten_kernel(&loss.kernel.row.kernel, NAME_CHARS);
        let class = &loss.kernel.row.class;
        let Some(lost) = lost else {
            let time = or_absent(loss.ns_of_step, shown_time);
            let bound = gain_by_floor(report, answer, unit).map(|bound| format!("{bound}; "));
            let which = longest(report, answer);
            return format!(
                "{stage}: {}the {which} is {name} ({class}): {time} per {unit}. To measure what each one loses, {}",
                bound.unwrap_or_default(),
                to_measure(report)
            );
        };
        let bound = loss.kernel.known_bound().map(|bound| format!("bound by {bound}, "));
        format!(
            "{stage} loses most in {name} ({class}, {}at {} % of its roof): up to {lost} per {unit}{}",
            bound.unwrap_or_default(),
            or_absent(loss.attainable, |share| percent1(share * 100.0)),
            more_elsewhere(report, loss, all).unwrap_or_default()
        )
    })
}

/// How to measure what kernels lose. Where counters were sampled already, they did not show it.
pub(super) fn to_measure(report: &Report) -> &'static str {
    match report.sampled {
        None => "run again with profiling.collector.counters=on, or with the ncu pass",
        Some(_) => {
            "record for longer, so that more samples tell kernels apart, or run the ncu pass"
        }
    }
}

/// ` (55.0 % of its roof)`, and that latency bounds it where it cannot reach that; with the part of its time that this was measured for, unless it is nearly all.
pub(super) fn of_its_roof(loss: &Loss<'_>) -> String {
    let Some(share) = loss.attainable else { return String::new() };
    // What latency bounds keeps the time of the shortest kernel, and never reaches its roof.
    let kept = loss.ns_per_step.zip(loss.ns_of_step).map(|(lost, ns)| 1.0 - lost / ns);
    if kept.is_some_and(|kept| kept - share > 0.005) {
        return format!(" ({} % of its roof, bound by latency)", percent1(share * 100.0));
    }
    let part = loss.measured_in_part();
    let part = part.map(|part| format!(", measured for {} % of its time", percent1(part * 100.0)));
    format!(" ({} % of its roof{})", percent1(share * 100.0), part.unwrap_or_default())
}

/// `; over the run, stage graph loses more, in the same kernel`: the kernel of another stage that loses most, where that
/// is more than `loss`.
fn more_elsewhere(report: &Report, loss: &Loss<'_>, all: &[Loss<'_>]) -> Option<String> {
    let others = all.iter().filter(|other| other.kernel.row.stage != loss.kernel.row.stage);
    let others = others.filter_map(|other| {
        let of = report.answer.stages.iter().find(|of| of.stage == other.kernel.row.stage)?;
        of.step.as_ref()?;
        Some((other, other.ns_in_all()?))
    });
    let (other, ns) = others.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (ns > loss.ns_in_all()?).then(|| {
        let Kernel { row, .. } = other.kernel;
        let name = match row.name_index == loss.kernel.row.name_index {
            true => "the same kernel".to_owned(),
            false => shorten_kernel(&row.kernel, NAME_CHARS),
        };
        let stage = shorten(&row.stage, NAME_CHARS);
        format!("; over the run, stage {stage} loses more, in {name}")
    })
}

/// What `tell` says of the kernel that loses most in the first stage of [`lead_first`] where that is known, with what it
/// loses of its time in a step and with the kernels of all stages, or else of the longest one, of the class that
/// [`gain_by_floor`] names where it names one. Nothing without steps.
pub(super) fn top_kernel(
    report: &Report,
    tell: impl Fn(&StageAnswer, &Loss<'_>, Option<String>, &[Loss<'_>]) -> String,
) -> Option<String> {
    let kernels = stage_kernels(report);
    let steps = steps(report);
    let losses: Vec<Loss<'_>> = kernels.iter().map(|kernel| Loss::of(kernel, &steps)).collect();
    lead_first(report).filter(|answer| answer.step.is_some()).find_map(|answer| {
        let (told, lost_ns) = told(answer, &losses, &class_floors(answer, &losses))?;
        let lost = lost_ns.zip(told.ns_of_step).map(|(lost_ns, ns)| lost_of(lost_ns, ns));
        Some(tell(answer, told, lost, &losses))
    })
}

/// ns as ms, as tables of kernels have it.
pub(super) fn ms_of(ns: f64) -> String {
    grouped(&format!("{:.3}", ns / 1e6))
}

/// What a step is, where it is something else: `A step is one token in decode.` `name` writes the name of a stage.
pub(super) fn step_is(report: &Report, name: impl Fn(&str) -> String) -> Option<String> {
    let said = |answer: &StageAnswer| {
        let unit = answer.step.as_ref()?.shown_unit();
        (unit != "step")
            .then(|| format!("one {unit} in {}", name(&shorten(&answer.stage, NAME_CHARS))))
    };
    let said: Vec<String> = report.answer.stages.iter().take(UNITS).filter_map(said).collect();
    (!said.is_empty()).then(|| format!("A step is {}.", said.join(", ")))
}

/// What the kernels of the stage of [`lead_first`] lose: `In decode, compute kernels take 1.81 ms per token, 4.2x their
/// floor of 0.44 ms: at most 1.37 ms could be saved. The kernels with counters (55.1 % of the kernel time) lose up
/// to 0.51 ms per token.` Nothing where neither is known.
pub(super) fn lost_by_kernels(report: &Report, losses: &[Loss<'_>]) -> Option<String> {
    let has_times = |answer: &&StageAnswer| {
        let mut of_stage = losses.iter().filter(|loss| loss.kernel.row.stage == answer.stage);
        of_stage.any(|loss| loss.ns_of_step.is_some())
    };
    let answer = lead_first(report).find(has_times)?;
    let (above, counted) = (above_floor(answer), lost_by_counters(answer, losses));
    let said = match (above, counted) {
        (Some(above), Some(counted)) => format!("{above}. {}", capitalised(&counted)),
        (Some(above), None) => above + ".",
        (None, counted) => counted.unwrap_or_default(),
    };
    (!said.is_empty()).then(|| format!("In {}, {said}", shorten(&answer.stage, NAME_CHARS)))
}

/// What all kernels of a stage that compute take above their floor.
pub(super) fn above_floor(answer: &StageAnswer) -> Option<String> {
    let found = answer.bottleneck.as_ref().filter(|found| found.is_of_step())?;
    let (ns, over) = (found.kernels()?.ns as f64, found.kernels_over_floor?);
    let (all, floor, lost) = (shown_time(ns), shown_time(ns / over), shown_time(ns - ns / over));
    Some(format!(
        "compute kernels take {all} per {}, {} their floor of {floor}: at most {lost} could be saved",
        found.of,
        times_faster(over)
    ))
}

/// How much of that the kernels with counters explain, and that the others have no rank.
pub(super) fn lost_by_counters(answer: &StageAnswer, losses: &[Loss<'_>]) -> Option<String> {
    let of_stage = losses.iter().filter(|loss| loss.kernel.row.stage == answer.stage);
    let of_stage = || of_stage.clone().filter(|loss| loss.kernel.row.class != "communication");
    let ns = |of: &mut dyn Iterator<Item = &Loss<'_>>| -> f64 {
        of.filter_map(|loss| loss.ns_of_step).sum()
    };
    let lost_ns = of_stage().filter_map(|loss| loss.ns_per_step).reduce(|a, b| a + b)?;
    let all_ns = ns(&mut of_stage());
    let percent = ns(&mut of_stage().filter(|loss| loss.ns_per_step.is_some())) * 100.0 / all_ns;
    let measured = |loss: &Loss<'_>| Some(loss.ns_of_step? * loss.kernel.measured?);
    let measured: f64 = of_stage().filter_map(measured).sum::<f64>() * 100.0 / all_ns;
    let measured = match percent - measured < 0.05 {
        true => String::new(),
        false => format!(", {} % of which was measured", percent1(measured * 100.0 / percent)),
    };
    let unit = answer.step.as_ref().map_or("step", |step| step.shown_unit());
    let only = if percent < 99.95 { ", and only these are ranked by what they lose" } else { "" };
    Some(format!(
        "kernels with counters take {} % of the kernel time{measured}; they lose up to {} per {unit}{only}.",
        percent1(percent),
        shown_time(lost_ns)
    ))
}

/// The time of the mean step of a stage in which no work of it runs, ns, and the known causes of it.
#[derive(Default)]
pub(super) struct Idle<'r> {
    pub(super) ns: f64,
    pub(super) causes: Vec<(&'r HostCause, f64)>,
}

pub(super) fn is_idle(kind: WindowKind) -> bool {
    matches!(kind, WindowKind::LaunchGaps | WindowKind::OtherIdle)
}

/// The causes, the largest first, only where the GPU waited for the host; nothing where the window is not known.
pub(super) fn idle_of<'r>(report: &'r Report, answer: &StageAnswer) -> Option<Idle<'r>> {
    let (window, found) = (answer.window.as_ref()?, answer.bottleneck.as_ref()?);
    let scale = found.ns as f64 / window.window_ns.max(1) as f64;
    let parts = window.parts.iter().filter(|part| is_idle(part.kind));
    let idle_ns = parts.map(|part| part.ns as f64 * scale).sum::<f64>();
    let host = report.host.iter().flat_map(|host| &host.stages);
    let host =
        host.filter(|found| found.stage == answer.stage && !host_ahead(report, &found.stage));
    let causes = host.flat_map(|found| &found.causes).filter(|cause| cause.is_finding());
    let ns = |cause: &HostCause| idle_ns * cause.percent.clamp(0.0, 100.0) / 100.0;
    Some(Idle { ns: idle_ns, causes: causes.map(|cause| (cause, ns(cause))).collect() })
}

/// Whether the answer says more than how complete the capture is.
pub(super) fn is_answered(report: &Report) -> bool {
    report.answer.lines.iter().any(|line| line.label != COVERAGE)
}

/// Four lines of report.html.
pub(super) const COMMAND_CHARS: usize = 400;

/// The command, in a form that a shell takes.
pub(super) fn command_line(report: &Report, arguments: bool) -> Option<String> {
    let words = report.run.command.as_ref().filter(|words| !words.is_empty())?;
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let rest: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let joined =
        |words: &[&str]| shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "));
    if arguments {
        return Some(joined(&[&[program], &rest[..]].concat()));
    }
    let (script, options) = telling(program, &rest);
    // `--tp=2` is two words of those told.
    let of_word = |word: &&str| 1 + usize::from(word.starts_with("--") && word.contains('='));
    let is_cut = script.len() + options.len() < rest.iter().map(of_word).sum();
    let cut = is_cut.then(|| "\u{2026}".to_owned());
    let options = (!options.is_empty()).then(|| joined(&options));
    let start = joined(&[&[program], &script[..]].concat());
    Some([Some(start), cut, options].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Options that tell runs of a workload apart and can hold no secret.
const TELLING: [&str; 14] = [
    "tensor-parallel-size",
    "tp-size",
    "tp",
    "pipeline-parallel-size",
    "pp",
    "data-parallel-size",
    "dp",
    "scheduler-cls",
    "max-num-seqs",
    "max-num-batched-tokens",
    "batch-size",
    "dtype",
    "quantization",
    "enforce-eager",
];
const TELLING_CHARS: usize = 60;

/// The script or module of Python, without its folders; and [`TELLING`] options with their values.
fn telling<'w>(program: &str, words: &[&'w str]) -> (Vec<&'w str>, Vec<&'w str>) {
    let at = words.iter().position(|word| *word == "-m" || !word.starts_with('-'));
    let script = at.filter(|_| program.starts_with("python")).and_then(|at| {
        let module = words.get(at + 1).filter(|_| words.get(at) == Some(&"-m"));
        let file = words.get(at).filter(|word| word.ends_with(".py"));
        module
            .map(|module| ["-m", module])
            .or_else(|| Some(["", file?.rsplit('/').next().unwrap_or_default()]))
    });
    let script = script.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    let mut out = Vec::new();
    let is_plain = |value: &str| {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        value.len() <= TELLING_CHARS && value.chars().all(is_of_name)
    };
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let (option, value) = word.split_once('=').unwrap_or((word, ""));
        let Some(name) = option.strip_prefix("--") else { continue };
        if !TELLING.contains(&name) || !is_plain(value) {
            continue;
        }
        out.extend([option, value].into_iter().filter(|word| !word.is_empty()));
        let follows = |next: &&str| value.is_empty() && !next.starts_with('-') && is_plain(next);
        out.extend(rest.next_if(|next| follows(next)).copied());
    }
    (script, out)
}

/// What ran, on what and when, on one line below the title: `` `python serve.py` · llama-3-8b · 2x NVIDIA H100 · 2026-11-22
/// 10:15 UTC ``. `arguments`: with those of the command, of which pages for others
/// show [`telling`] ones only (SECURITY.md). Nothing where nothing of it is known.
pub(super) fn run_line(report: &Report, arguments: bool) -> String {
    let run = &report.run;
    let command = command_line(report, arguments)
        .map(|line| code_in_text(&shorten_words(&line, COMMAND_CHARS)));
    let model = report.insight.utilisation.as_ref().and_then(|used| used.model_name.as_deref());
    let (gpus, started) = (report.gpus(), run.started_minute());
    let name = |text: &str| plain(&shorten(text, NAME_CHARS));
    let facts = [model, gpus.as_deref(), started.as_deref()].map(|fact| fact.map(name));
    let facts = [command].into_iter().chain(facts).flatten().collect::<Vec<String>>();
    if facts.is_empty() { String::new() } else { format!("{}\n\n", facts.join(" · ")) }
}

/// What stands above the answer: simulated or not, an early end of the workload.
pub(super) fn opening(report: &Report) -> String {
    let mut out = String::new();
    if report.simulated {
        out.push_str(&format!("> **{SIMULATED}**\n\n"));
    }
    if let Some(end) = &report.run.workload_end {
        out.push_str(&format!(
            "**Ended early:** {}.\n\n",
            plain(&end.sentence(report.coverage.verdict.status))
        ));
    }
    out
}

/// What stands above the table of a page that is one table: what it is read for, and whether it can be believed. The other
/// pages have the rest of the answer.
/// `own` is an item of the page itself, in the place of that of the kernels.
pub(super) fn head_of_tables(report: &Report, own: &str) -> String {
    let lines = Some(short(report)).filter(|lines| !lines.is_empty());
    let lines = lines.unwrap_or_else(|| page_lines(report));
    let is_shown =
        |line: &&AnswerLine| [VERDICT, KERNEL, OUTLIERS, COVERAGE].contains(&line.label.as_str());
    let item = |line: &AnswerLine| {
        format!("- **{}:** {}\n", plain(&capitalised(&line.label)), plain(&line.text))
    };
    let shown = lines.iter().filter(is_shown);
    let shown = shown.filter(|line| own.is_empty() || line.label != KERNEL);
    let (last, first): (Vec<_>, Vec<_>) = shown.partition(|line| line.label == COVERAGE);
    let [first, last] = [first, last].map(|lines| lines.into_iter().map(item).collect::<String>());
    format!("{}{first}{own}{last}\n{}", opening(report), head_of_ranks(report))
}

/// A paragraph for each line of the answer.
pub(super) fn paragraphs(lines: &[AnswerLine]) -> String {
    let paragraph = |AnswerLine { label, text }: &AnswerLine| {
        let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
        format!("**{}:** {}{stop}\n\n", plain(&capitalised(label)), plain(text))
    };
    lines.iter().map(paragraph).collect()
}

/// What stands below the answer: ranks.
pub(super) fn head_of_ranks(report: &Report) -> String {
    let ranks = ranks::head(report);
    ranks.map_or_else(String::new, |ranks| format!("**Ranks:** {}.\n\n", plain(&ranks)))
}

/// Heading of the last section of report.md: the launcher writes it when all other files are there.
pub const FILES: &str = "Files of this bundle";

/// Heading of the list of what a run has no data for.
const MISSING: &str = "Not in this run";

fn is_missing((_, text): &&(&'static str, String)) -> bool {
    why_none(text).is_some()
}

/// Groups of the settings that advice names.
const SETTINGS: [&str; 3] = ["profiling.", "run.", "pipeline."];

/// The first setting with a value that a text names: `profiling.collector.host=1000`.
fn setting_in(text: &str) -> Option<&str> {
    let words = text.split(|c: char| c.is_whitespace() || "`(),;".contains(c));
    let words = words.map(|word| word.trim_end_matches(['.', ':']));
    let is_setting = |word: &&str| SETTINGS.iter().any(|group| word.starts_with(group));
    words.filter(is_setting).find(|word| word.contains('=') && !word.contains(char::is_uppercase))
}

/// The command of another run with a setting. `arguments`: with those of the command.
pub(super) fn run_again(report: &Report, setting: &str, arguments: bool) -> String {
    let command = whole_command(report).filter(|_| arguments);
    format!("stage2-launch run {setting} -- {}", command.as_deref().unwrap_or("COMMAND"))
}

/// The command of the workload with its arguments, unless it is too long to be a part of a sentence.
pub(super) fn whole_command(report: &Report) -> Option<String> {
    command_line(report, true).filter(|line| line.chars().count() <= COMMAND_CHARS)
}

/// A page of Markdown.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) head: String,
    /// By their titles.
    pub(super) sections: Vec<(&'static str, String)>,
}

impl Page {
    /// The page with the whole command below the recommendations, if what it tells first names a setting only.
    pub(super) fn with_command(mut self, report: &Report, arguments: bool) -> Self {
        const FIRST: [&str; 2] = ["Recommendations", "The answer in full"];
        let of_section = |title: &str| self.sections.iter().position(|(known, _)| *known == title);
        let places = FIRST.iter().map(|title| of_section(title)).chain([None]);
        let told = places.filter_map(|place| {
            let text =
                place.map_or(Some(&self.head), |at| self.sections.get(at).map(|(_, text)| text));
            Some((place, setting_in(text?)?))
        });
        if let Some((place, setting)) = told.collect::<Vec<_>>().first() {
            let command = run_again(report, setting, arguments);
            let [setting, command] = [setting, command.as_str()].map(code_in_text);
            let whole = if arguments { "" } else { " (COMMAND: see What ran in report.md)" };
            let said = format!("The command with {setting}: {command}{whole}\n\n");
            // The head is long: its command stands with the advice, if there is any.
            let place = place.or_else(|| of_section(FIRST[0]));
            let section = place.and_then(|at| self.sections.get_mut(at));
            match section.filter(|known| !is_missing(&&**known)) {
                Some((_, text)) => text.push_str(&said),
                None => self.head.push_str(&said),
            }
        }
        self
    }

    /// The page with the names in its sentences as code.
    pub(super) fn with_code(mut self, names: &Names) -> Self {
        let texts = self.sections.iter_mut().map(|(_, text)| text);
        for text in texts.chain([&mut self.head]) {
            *text = names.as_code(text);
        }
        self
    }

    /// The page as Markdown. A section without text is left out.
    pub(super) fn markdown(&self) -> String {
        self.written("", self.sections())
    }

    /// [`Self::with_missing_last`], with a list of links to its sections and to [`FILES`] below the head.
    pub(super) fn with_contents(&self) -> String {
        let (there, missing): (Vec<_>, Vec<_>) =
            self.sections().partition(|known| !is_missing(known));
        let titles = there.iter().map(|(title, _)| *title);
        let links = titles.chain((!missing.is_empty()).then_some(MISSING)).chain([FILES]);
        let links = links.map(|title| format!("- [{title}](#{})\n", anchor(title)));
        self.with_missing_below(&format!("**Contents:**\n\n{}\n", links.collect::<String>()))
    }

    /// The page as Markdown. Sections that only state why the run has no data for them become a list at the end.
    pub(super) fn with_missing_last(&self) -> String {
        self.with_missing_below("")
    }

    fn with_missing_below(&self, contents: &str) -> String {
        let there = self.sections().filter(|known| !is_missing(known));
        let mut out = self.written(contents, there);
        let item = |(title, text): &(&str, String)| {
            Some(format!("- **{title}:** {}\n", why_none(text)?.trim_end()))
        };
        let items: String = self.sections().filter_map(item).collect();
        if !items.is_empty() {
            let line = if out.ends_with("\n\n") { "" } else { "\n" };
            out.push_str(&format!("{line}## {MISSING}\n\n{items}\n"));
        }
        out
    }

    fn sections(&self) -> impl Iterator<Item = &(&'static str, String)> {
        self.sections.iter().filter(|(_, text)| !text.is_empty())
    }

    fn written<'s>(
        &self,
        contents: &str,
        sections: impl Iterator<Item = &'s (&'static str, String)>,
    ) -> String {
        let mut out = format!("# {}\n\n{}{contents}", plain(&self.title), self.head);
        sections.for_each(|(title, text)| out.push_str(&format!("## {title}\n\n{text}")));
        out
    }
}

/// The anchor that renderers of Markdown give to a heading: `Whole run, with warm-up` has `whole-run-with-warm-up`.
fn anchor(title: &str) -> String {
    let letters = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    letters.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Share of the window of a stage in which its GPUs did nothing, percent: of its warm instances without
/// outliers, as in the answer, where they are known.
pub(super) fn idle_percent(stage: &StageRow) -> Option<f64> {
    let of_all = stage.gpu_busy_percent?;
    let busy = match stage.ordinary().filter(|warm| warm.gpu_window_ns > 0) {
        Some(warm) => warm.gpu_busy_ns as f64 * 100.0 / warm.gpu_window_ns as f64,
        None => of_all,
    };
    Some((100.0 - busy).max(0.0))
}

/// How busy the GPUs are in the stages of the model, in their warm instances, percent; nothing where another process may
/// use the GPU meanwhile.
pub(super) fn busy_in_stages(report: &Report) -> Option<f64> {
    let is_known = model_stages(report).all(|stage| stage.gpu_busy_percent.is_some());
    let sum = |ns: fn(WarmRow) -> u64| {
        let warm = model_stages(report).filter_map(StageRow::ordinary);
        warm.map(ns).fold(0, u64::saturating_add)
    };
    let window_ns = sum(|warm| warm.gpu_window_ns);
    let busy_ns = sum(|warm| warm.gpu_busy_ns);
    (is_known && window_ns > 0).then(|| busy_ns as f64 * 100.0 / window_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::kernels_md;
    use crate::testing::{answer, rich};
    use crate::{operators, report, summary};
    use stage2_model::{DeviceRow, Figure, KernelRow, Operators, StepTimes, Times, WarmRow};
    use stage2_report::conclusions::Shown;

    #[test]
    fn every_page_opens_with_the_same_lines() {
        let mut report = Report { simulated: true, answer: answer(), ..rich() };
        report.answer.lines[0].text = "decode <b>2 ms</b>?".into();
        let lines = "- **Time:** decode &lt;b&gt;2 ms&lt;/b&gt;?\n\
                    - **Window:** decode: launch gaps 79.0 %, compute 20.9 %, copies 0.1 %\n\
                    - **Floor:** decode 0.420 ms per token: 5.1x the floor\n\
                    - **First:** decode up to 4.9x faster if launch gaps vanish: use CUDA graphs\n\
                    - **Warnings:** 20, the first: counters of 12 of 30 kernel rows are of the profiled launch only, \
                    e.g. in stage0\n\
                    - **Coverage:** complete: no known lost records, and every kernel record is attributed\n\n";
        let operators = operators::operators_md(&report, &Operators::default(), 5);
        let brief = lines.lines().filter(|line| line.starts_with("- **Coverage"));
        let brief = brief.map(|line| format!("{line}\n\n")).collect::<String>();
        for (page, lines) in [
            (kernels_md(&report, 5), brief.as_str()),
            (operators, brief.as_str()),
            (report::page(&report).markdown(), lines),
            (summary::page(&report, &Shown::default()).markdown(), lines),
        ] {
            let title = page.lines().next().expect("a title");
            let page = page.replacen(&run_line(&report, true), "", 1);
            let page = page.replacen(&run_line(&report, false), "", 1);
            let above = format!("{title}\n\n> **{SIMULATED}**\n\n");
            assert!(page.starts_with(&format!("{above}{lines}")), "{page}");
        }
    }

    #[test]
    fn every_page_says_which_stages_include_their_cold_call() {
        let mut report = rich();
        report.stages.truncate(2);
        report.answer.stages.truncate(2);
        report.kernels.retain(|row| report.stages.iter().any(|stage| stage.stage == row.stage));
        let counters = &mut report.kernels[0].counters;
        *counters = Some(Box::default());
        let warm = WarmRow { instances: 3, gpu_window_ns: 9, gpu_busy_ns: 3, ..WarmRow::default() };
        for stage in &mut report.stages {
            stage.kernels = Some(100);
            stage.host_warm_instances = Some(3);
            (stage.gpu_window_ns, stage.gpu_busy_percent) = (Some(12), Some(40.0));
            stage.warm = Some(warm);
        }
        let pages = |report: &Report| {
            let (of_report, of_summary) =
                (report::page(report), summary::page(report, &Shown::default()));
            let operators = operators::page(report, &Operators::default(), 5);
            [
                kernels_md(report, 5),
                of_report.markdown(),
                of_summary.markdown(),
                crate::html::report_html(report, &of_summary, &of_report, &operators),
            ]
        };
        let told = "The numbers of stage0 include the first, cold call";
        for page in pages(&report) {
            assert!(!page.contains("cannot be separated"), "{page}");
        }
        // Calls of several threads overlap.
        report.stages[0].warm = None;
        for (page, tables) in pages(&report).iter().zip([1, 3, 1, 1]) {
            assert!(page.matches(told).count() >= tables, "{tables} {page}");
        }
        let [_, of_report, ..] = pages(&report);
        assert!(of_report.contains("Tokens/s of stage0 is of all calls, because"), "{of_report}");
        report.stages[1].warm = None;
        let [_, of_report, ..] = pages(&report);
        assert!(of_report.contains("Shares of the windows of all calls, because"), "{of_report}");
    }

    /// Where a setting goes, a newcomer does not know.
    #[test]
    fn advice_that_names_a_setting_has_the_whole_command_once() {
        let mut report = Report::default();
        report.run.command = Some(["/bin/serve", "--a b"].map(str::to_owned).to_vec());
        let page = |advice: &str| Page {
            title: String::new(),
            head: String::new(),
            sections: vec![("Recommendations", advice.to_owned())],
        };
        let told = |advice: &str, arguments| {
            page(advice).with_command(&report, arguments).sections.remove(0).1
        };
        let advice = "Record for longer, or with profiling.collector.host=1000: few samples. run.baseline=true\n\n";
        let whole = "`stage2-launch run profiling.collector.host=1000 -- serve '--a b'`\n\n";
        assert!(told(advice, true).ends_with(whole), "{}", told(advice, true));
        // A page that is passed on has no arguments.
        assert!(
            told(advice, false).ends_with(" -- COMMAND` (COMMAND: see What ran in report.md)\n\n")
        );
        let other =
            "pipeline.ncu.stage chooses the stage; profiling.collector.counters=on@INTERVAL_US\n\n";
        assert_eq!(told(other, true), other);
    }

    #[test]
    fn a_kernel_loses_most_only_where_it_can_be_no_other_one() {
        let report = rich();
        let kernels = stage_kernels(&report);
        let answer = &report.answer.stages[0];
        let loss = |at: usize, ns, lost| Loss {
            kernel: &kernels[at],
            attainable: None,
            ns_of_step: Some(ns),
            ns_per_step: lost,
        };
        assert!(kernels[..2].iter().all(|kernel| kernel.row.stage == answer.stage));
        let told_of = |other| {
            told(answer, &[loss(0, 60.0, Some(50.0)), loss(1, other, None)], &[])
                .map(|(loss, lost)| (loss.ns_of_step, lost))
        };
        assert_eq!(told_of(50.0), Some((Some(60.0), Some(50.0))));
        assert_eq!(told_of(60.0), Some((Some(60.0), Some(50.0))), "of most it is known");
        assert_eq!(told_of(61.0), Some((Some(61.0), None)), "the longest one");
    }

    #[test]
    fn a_long_page_has_links_to_its_sections() {
        let page = report::page(&rich()).with_contents();
        let line =
            page.split("**Contents:**\n\n").nth(1).and_then(|rest| rest.split("\n\n").next());
        let line = line.expect(&page);
        for link in ["[Stages](#stages)", "[Whole run, with warm-up](#whole-run-with-warm-up)"] {
            assert!(line.contains(link), "{line}");
        }
        assert!(line.ends_with("- [Files of this bundle](#files-of-this-bundle)"), "{line}");
        assert_eq!(line.matches("](#").count(), page.matches("\n## ").count() + 1);
    }

    #[test]
    fn the_line_below_the_title_says_what_ran() {
        let mut report = Report::default();
        assert_eq!(run_line(&report, true), "");
        let words = ["/usr/bin/python3", "serve.py", "--quiet"];
        report.run.command = Some(words.map(String::from).to_vec());
        report.run.started = Some("2026-11-22T10:15:00.000Z".into());
        let device = DeviceRow { name: Some("NVIDIA <H200>".into()), ..DeviceRow::default() };
        report.devices = vec![device.clone(), device];
        let rest = "2x NVIDIA &lt;H200&gt; · 2026-11-22 10:15 UTC\n\n";
        assert_eq!(run_line(&report, true), format!("`python3 serve.py --quiet` · {rest}"));
        assert_eq!(run_line(&report, false), format!("`python3 serve.py …` · {rest}"));
        let mut told = |words: &[&str]| {
            report.run.command = Some(words.iter().map(|word| (*word).to_owned()).collect());
            run_line(&report, false).split(" ·").next().unwrap_or_default().to_owned()
        };
        let module =
            ["python3", "-u", "-m", "vllm.main", "serve", "/home/me/model", "--api-key", "k"];
        let options = ["--tp=2", "--max-num-seqs", "32", "--enforce-eager", "--host", "h"];
        let shown = "`python3 -m vllm.main … --tp 2 --max-num-seqs 32 --enforce-eager`";
        assert_eq!(told(&[&module[..], &options].concat()), shown, "nothing that is private");
        assert_eq!(told(&["python3", "-c", "key = 'x'"]), "`python3 …`");
        let whole = told(&["python3", "b.py", "--tp=2", "--dtype", "auto"]);
        assert_eq!(whole, "`python3 b.py --tp 2 --dtype auto`", "nothing is left out");
        assert_eq!(
            told(&["python3", "/a/b.py", "--tp", "--x", "--dtype", "a b"]),
            "`python3 b.py … --tp --dtype`"
        );
        report.run.command = Some(words.map(String::from).to_vec());
        report.run.started = Some("yesterday".into());
        assert!(run_line(&report, true).ends_with(" · yesterday\n\n"));
    }

    #[test]
    fn a_larger_loss_of_another_stage_is_told_with_its_kernel() {
        let of = |stage: &str, name_index: usize, total_ns| KernelRow {
            stage: stage.into(),
            kernel: format!("gemm{name_index}"),
            name_index,
            times: Times { total_ns, calls: 1, ..Times::default() },
            ..KernelRow::default()
        };
        let kernels =
            vec![of("decode", 0, 900_000), of("graph", 0, 1_600_000), of("graph", 1, 90_000)];
        let mut report = Report { kernels, answer: answer(), ..Report::default() };
        let told = &mut report.answer.stages;
        (told[0].stage, told[0].step) = ("graph".into(), Some(StepTimes::default()));
        let kernels = stage_kernels(&report);
        let said = |shares: [f64; 3]| {
            let share_of = |kernel: &Kernel<'_>| {
                let at = report.kernels.iter().position(|row| std::ptr::eq(row, kernel.row));
                shares[at.expect("a row of the report")]
            };
            let mut kernels = kernels.clone();
            kernels.iter_mut().for_each(|kernel| kernel.kept = Some(share_of(kernel)));
            let losses = kernels.iter().map(|kernel| {
                let share = share_of(kernel);
                let ns = kernel.usual_ns.map(|ns| ns as f64 / 2.0);
                let lost = ns.map(|ns| ns * (1.0 - share));
                let attainable = Some(share);
                Loss { kernel, attainable, ns_of_step: ns, ns_per_step: lost }
            });
            let losses: Vec<Loss<'_>> = losses.collect();
            let own = losses.iter().find(|loss| loss.kernel.row.stage == "decode");
            more_elsewhere(&report, own.expect("one of decode"), &losses)
        };
        let more = "; over the run, stage graph loses more, in the same kernel";
        assert_eq!(said([0.5, 0.5, 0.5]).as_deref(), Some(more));
        assert_eq!(said([0.1, 0.5, 0.5]), None, "decode loses more");
        let other = "; over the run, stage graph loses more, in gemm1";
        assert_eq!(said([1.0, 1.0, 0.5]).as_deref(), Some(other));
    }

    #[test]
    fn the_floors_of_classes_are_those_of_what_they_read() {
        let of = |class: &str, name_index, total_ns| KernelRow {
            stage: "decode".into(),
            class: class.into(),
            name_index,
            times: Times { total_ns, calls: 1, ..Times::default() },
            ..KernelRow::default()
        };
        let all = [
            ("gemm", 700_000),
            ("attention", 300_000),
            ("norm", 90_000),
            ("communication", 900_000),
        ];
        let kernels = (0..).zip(all).map(|(at, (class, ns))| of(class, at, ns)).collect();
        let stage = StageRow { stage: "decode".into(), instances: Some(1), ..StageRow::default() };
        let (mut answer, path) = (answer(), Some("decode".to_owned()));
        answer.stages[0].stage = "decode".into();
        answer.stages[0].step = Some(StepTimes { path, ..StepTimes::default() });
        let mut report = Report { kernels, stages: vec![stage], answer, ..Report::default() };
        let mut of_floor = |kv_cache_ns| {
            let floor = &mut report.answer.stages[0].floor;
            (floor.memory_ns, floor.floor_ns) = (Figure::of(620_000.0), Figure::of(620_000.0));
            floor.kv_cache_ns = kv_cache_ns;
            let told = &report.answer.stages[0];
            let floors = stage2_model::lead::floors(&report, told);
            let above = floors.iter().map(|of| (of.class.clone(), of.ns, of.above_ns()));
            (above.collect::<Vec<_>>(), gain_by_floor(&report, told, "step"))
        };
        let (above, said) = of_floor(Some(100_000.0));
        let known = [("attention", 300e3, 200e3), ("gemm", 700e3, 180e3), ("other", 90e3, 90e3)];
        assert_eq!(above, known.map(|(class, ns, above)| (class.to_owned(), ns, above)));
        assert_eq!(
            said.as_deref(),
            Some("the attention kernels lose most: up to 0.200 of 0.300 ms per step")
        );
        for kv_cache_ns in [Some(301_000.0), None] {
            let (above, said) = of_floor(kv_cache_ns);
            assert_eq!(above, [], "faster than what it reads, or not known");
            let all = "the kernels lose up to 0.028 of 0.448 ms per step";
            assert_eq!(said.as_deref(), Some(all));
        }
        let _ = of_floor(Some(100_000.0));
        report.kernels[2].times.total_ns = 650_000;
        let said = loses_most(&report).expect("a kernel");
        assert!(said.contains("neither weights nor KV cache lose most"), "{said}");
        assert!(said.contains("the longest of them is") && said.contains("(norm)"), "{said}");
    }
}
