//! A comparison of runs -> one screen, Markdown, a page for a browser, and sentences for a terminal.

mod commands;
mod page;
mod parts;
mod screen;
mod sides;
mod words;

use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{ABSENT, count, counted, or_absent, shown_time};
use stage2_contract::text::{
    code, code_in_text, listed, plain, shorten, shorten_kernel, shorten_words,
};
use stage2_diff::{
    ComparedRun, Comparison, ConditionResult, Diff, Difference, GONE, LibraryChange, MatchedBy,
    MetricChange, MetricUnit, NoiseMethod, NoiseText, Outcome, Per, Presence, StageChange,
    WITH_CARE, WorkChange, WorkSide, digits_to_subtract, ends_text, signed, signed_time,
};
use stage2_model::finding::Id;
use stage2_model::{Finding, Severity};

use crate::aligned::aligned;
use crate::table::{Table, capitalised, name, paragraph, sentence, text};
use words::{MEDIANS, MIXED, caption, words};

const LABEL_CHARS: usize = 60;
/// Runs of a side that are named one by one.
const RUNS: usize = 2;

/// `A → B`, or of several runs `A1, A2 → B1 … B4`.
fn title(of: &Comparison) -> String {
    title_by(of, |label| label)
}

/// The title with the folders of the runs alone, where these tell the sides apart.
fn page_title(of: &Comparison) -> String {
    let folders = title_by(of, |label| in_folder(label).1);
    let is_clear = folders.split_once(" → ").is_some_and(|(a, b)| a != b);
    if is_clear { folders } else { title(of) }
}

/// The folder of a run, behind the one that it is in.
fn in_folder(label: &str) -> (Option<&str>, &str) {
    let path = label.strip_suffix("/metrics.json").unwrap_or(label).trim_end_matches('/');
    match path.rsplit_once('/').filter(|_| !path.starts_with("baseline:")) {
        Some((parent, folder)) => (Some(if parent.is_empty() { "/" } else { parent }), folder),
        None => (None, if path.is_empty() { label } else { path }),
    }
}

/// Characters of a command.
const COMMAND_CHARS: usize = 160;

/// What ran on a side, on what and when: the same of all its runs once.
struct SideFacts {
    runs: String,
    facts: Vec<String>,
    commands: Vec<String>,
    /// The commands are what tells the sides apart, and share all other words.
    is_apart: bool,
}

impl SideFacts {
    /// Those of both sides. Where each has one command, only the words that differ are shown, and those around them.
    fn of_both(of: &Comparison) -> [Self; 2] {
        fn only(runs: &[ComparedRun]) -> Option<&String> {
            let (first, others) = runs.split_first()?;
            let is_one = others.iter().all(|run| run.command == first.command);
            first.command.as_ref().filter(|_| is_one)
        }
        let mut sides = [Self::of(&of.before), Self::of(&of.after)];
        let commands = only(&of.before).zip(only(&of.after));
        if let Some(texts) = commands.and_then(|(a, b)| commands::told_apart(a, b)) {
            for (side, text) in sides.iter_mut().zip(texts) {
                side.commands = vec![shorten_words(&text, COMMAND_CHARS)];
                side.is_apart = true;
            }
        }
        sides
    }

    fn of(runs: &[ComparedRun]) -> Self {
        fn distinct(values: impl Iterator<Item = Option<String>>, most: usize) -> Vec<String> {
            let mut found: Vec<String> = Vec::new();
            for value in values.flatten() {
                if !found.contains(&value) {
                    found.push(value);
                }
            }
            if let Some(more) = found.len().checked_sub(most).filter(|more| *more > 0) {
                found.truncate(most);
                found.push(format!("{} more", count(more as u64)));
            }
            found
        }
        let folders: Vec<_> = runs.iter().map(|run| in_folder(&run.label)).collect();
        let parent = folders.first().and_then(|(parent, _)| *parent);
        let is_one = folders.iter().all(|(of, _)| *of == parent);
        let labels: Vec<&str> = match is_one {
            true => folders.iter().map(|(_, folder)| *folder).collect(),
            false => runs.iter().map(|run| run.label.as_str()).collect(),
        };
        let mut facts = distinct(runs.iter().map(|run| run.gpus.clone()), FACTS);
        let mut days: Vec<&String> = runs.iter().filter_map(|run| run.started.as_ref()).collect();
        days.sort();
        match (days.first(), days.last()) {
            (Some(first), Some(last)) if first != last => facts.push(format!("{first} to {last}")),
            (Some(only), _) => facts.push((*only).clone()),
            _ => {}
        }
        facts.extend(parent.filter(|_| is_one).map(|parent| format!("folder {parent}")));
        let command = |run: &ComparedRun| Some(shorten_words(run.command.as_ref()?, COMMAND_CHARS));
        Self {
            runs: listed(&labels, LISTED),
            facts,
            commands: distinct(runs.iter().map(command), FACTS),
            is_apart: false,
        }
    }
}

/// Behind a command that shares its other words with that of the other side.
const OTHERWISE: &str = " (the other arguments are identical)";
/// Runs of a side that are listed, and other facts of them.
const LISTED: usize = 8;
const FACTS: usize = 2;

/// Both sides for a page in Markdown.
fn sides(of: &Comparison) -> String {
    let side = |name: &str, side: SideFacts| {
        let SideFacts { runs, facts, commands, is_apart } = side;
        let facts = facts.iter().map(|fact| plain(fact));
        let all = [code_in_text(&runs)].into_iter().chain(facts);
        let all: Vec<String> = all.chain(commands.iter().map(|text| code_in_text(text))).collect();
        let otherwise = if is_apart { OTHERWISE } else { "" };
        format!("- {name}: {}{otherwise}\n", all.join(" · "))
    };
    let [before, after] = SideFacts::of_both(of);
    format!("{}{}\n", side("before", before), side("after", after))
}

/// With names that are made of the labels of the runs.
fn title_by<'c>(of: &'c Comparison, name: impl Fn(&'c str) -> &'c str) -> String {
    format!("{} → {}", side_name(&of.before, &name), side_name(&of.after, &name))
}

/// How a side is called: a baseline by its name, other runs by what is made of their labels.
fn side_name<'c>(runs: &'c [ComparedRun], name: &impl Fn(&'c str) -> &'c str) -> String {
    let name = |run: &'c ComparedRun| shorten(name(&run.label), LABEL_CHARS);
    let baseline = |run: &'c ComparedRun| {
        let (baseline, _) = run.label.rsplit_once('/')?;
        baseline.starts_with("baseline:").then_some(baseline)
    };
    let shared = runs.first().and_then(baseline);
    match (shared.filter(|of| runs.iter().all(|run| baseline(run) == Some(of))), runs) {
        (Some(baseline), _) => format!("{baseline} ({})", counted(runs.len() as u64, "run")),
        (None, [first, .., last]) if runs.len() > RUNS => {
            format!("{} … {}", name(first), name(last))
        }
        _ => runs.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// Begins a command to copy, which ends the line *next*.
const COMMAND: &str = "stage2-launch ";

pub use page::html;
pub use screen::{HEIGHT, WIDTH};

/// One screen, of so many columns and, if possible, lines. Of three sides or more it has their table, and the pairs are on
/// the whole page.
pub fn screens(diff: &Diff, width: usize, height: usize) -> String {
    if sides::first(diff).is_some() {
        let table = all_sides(diff);
        let table = if width < NAMES_WIDTH { without_names(&table) } else { table };
        let table = aligned(&table, width);
        let next = screen::next_of_all(diff, width).join("\n");
        return format!("{}\n\n{next}\n", table.trim_end());
    }
    let screen = |of: &Comparison| screen::screen(of, width, height).join("\n") + "\n";
    diff.comparisons.iter().map(screen).collect::<Vec<_>>().join("\n")
}

/// The table of all sides under its heading; nothing of a single pair.
fn all_sides(diff: &Diff) -> String {
    let heading = sides::first(diff).map(sides::heading);
    heading.map_or_else(String::new, |heading| {
        let verdict =
            |of: &Comparison| format!("- {}: {}\n", plain(&title(of)), plain(&of.verdict));
        let verdicts: String = diff.comparisons.iter().map(verdict).collect();
        format!("# {}\n\n{verdicts}\n{}", plain(&heading), sides::table(diff))
    })
}

/// The verdict of each comparison behind what is to be known before it, a line each; of several, with its runs.
pub fn verdicts(diff: &Diff) -> String {
    let comparable = |of: &Comparison| {
        let line = of.lines.iter().find(|line| line.label == "comparable")?;
        let (clause, _) = line.text.split_once("; ").unwrap_or((&line.text, ""));
        clause.starts_with(WITH_CARE).then(|| format!("Comparable {clause}."))
    };
    let said = |of: &Comparison| match of.caution().or_else(|| comparable(of)) {
        Some(caution) => format!("{caution} {}\n", of.verdict),
        None => format!("{}\n", of.verdict),
    };
    match diff.comparisons.as_slice() {
        [of] => said(of),
        all => all.iter().map(|of| format!("{}: {}", title(of), said(of))).collect(),
    }
}

/// What forbids or hampers a comparison.
pub fn warnings(diff: &Diff) -> Vec<Finding> {
    let of = |comparison: &Comparison| {
        let weighty = comparison.differences.iter().filter(|d| d.severity >= Severity::Warning);
        let finding = |d: &Difference| {
            let what = format!("{}: {} ({} → {})", title(comparison), d.what, d.before, d.after);
            Id::DiffUnlike.found(what, d.meaning.clone(), "")
        };
        weighty.map(finding).collect::<Vec<_>>()
    };
    diff.comparisons.iter().flat_map(of).collect()
}

/// That conditions compare runs that are hardly comparable.
pub fn unlike(diff: &Diff) -> Vec<Finding> {
    let unlike = diff.comparisons.iter().filter(|of| !of.unlike.is_empty());
    let finding = |of: &Comparison| {
        let why = of.unlike.join(", ");
        let what = format!("{}: the conditions compared unlike runs: {why}", title(of));
        let why = "the numbers may differ for that reason alone";
        Id::DiffUnlike.found(
            what,
            why,
            "compare runs of the same program and workload on the same hardware",
        )
    };
    unlike.filter(|of| !of.conditions.is_empty()).map(finding).collect()
}

/// What became of each condition, with its reason. Those that passed share a sentence where a terminal of so many lines has
/// no room for one each.
pub fn outcomes(diff: &Diff, height: usize) -> Vec<(Outcome, String)> {
    let of = |comparison: &Comparison| {
        let sentence = |row: &ConditionResult| {
            let how = match (row.outcome, row.expected) {
                (Outcome::NotEvaluated, _) => "could not be evaluated",
                (Outcome::Undecided, _) => "was not decided",
                (Outcome::Failed, false) => "failed",
                (Outcome::Failed, true) => "was not met",
                (_, false) => "passed",
                (_, true) => "was met",
            };
            let (option, condition, why) = (option_of(row), &row.condition, &row.text);
            let said = format!("{option} '{condition}' {how} for {}: {why}", title(comparison));
            (row.outcome, said)
        };
        let rows = &comparison.conditions;
        if !screen::is_folded(comparison, height) {
            return rows.iter().map(sentence).collect::<Vec<_>>();
        }
        let (passed, others): (Vec<&ConditionResult>, Vec<_>) =
            rows.iter().partition(|row| row.outcome == Outcome::Passed);
        let named: Vec<String> =
            passed.iter().map(|row| format!("{} '{}'", option_of(row), row.condition)).collect();
        let said = format!("{} conditions passed: {}", passed.len(), named.join(", "));
        others.into_iter().map(sentence).chain([(Outcome::Passed, said)]).collect()
    };
    diff.comparisons.iter().flat_map(of).collect()
}

fn option_of(row: &ConditionResult) -> &'static str {
    if row.expected { "--expect" } else { "--fail-if" }
}

/// Stages whose metrics and kernels are shown.
const STAGES: usize = 4;
/// Stages in the table of all.
const STAGE_ROWS: usize = 20;
/// Kernels of a stage: so many at least, and more while the others hold more than this share of all changes.
const WORK_ROWS: usize = 12;
const WORK_ROWS_MOST: usize = 48;
const LEFT_OUT: f64 = 0.05;
/// Other differences than those of the numbers.
const DIFFERENCES: usize = 20;
const KERNEL_CHARS: usize = 80;
/// What is shown of a stage whether it changed or not.
const ALWAYS: [&str; 10] = [
    "step_ms",
    "token_ms",
    "ttft_ms",
    "tokens_per_s",
    "gpu_busy_ms",
    "idle_ms",
    "launch_gaps_ms",
    "other_work_ms",
    "kernels",
    "kernel_ms",
];
/// A window that is so many times the time to the next step overlaps it.
const LONGER: f64 = 1.05;
/// What repeats another number, where that is known.
const REPEATS: [&str; 3] = ["step_mean_ms", "host_ms", "window_ms"];
/// Share of the stage's kernel time below which a change of a class is left out, percent.
const LEAST_OF_CLASS_PERCENT: f64 = 1.0;

/// Where the rows are that a page counts.
const REST: &str = "`diff --json` lists the rows summarized here.";

/// All comparisons as one page.
pub fn markdown(diff: &Diff) -> String {
    markdown_of(diff, WIDTH)
}

/// The page of [`markdown`] as text for a terminal of `width` columns, with aligned tables.
pub fn full_screen(diff: &Diff, width: usize) -> String {
    let page = markdown_of(diff, width);
    let page = if width < NAMES_WIDTH { without_names(&page) } else { page };
    aligned(&page, width)
}

/// Columns of a terminal from which its tables have the names of metrics: in a narrower one each row would take a
/// line more.
const NAMES_WIDTH: usize = 120;

/// The page without the last column of its tables where that has the names of metrics.
fn without_names(page: &str) -> String {
    let mut is_named = false;
    let mut out = String::new();
    for line in page.lines() {
        let cut = line.strip_suffix(" |").and_then(|row| row.rsplit_once(" |"));
        let is_extra =
            |last: &str| [NAME, sides::RATE].iter().any(|name| last.eq_ignore_ascii_case(name));
        let heading = cut.is_some_and(|(_, last)| is_extra(last.trim()));
        is_named = line.starts_with('|') && (is_named || heading);
        match cut.filter(|_| is_named) {
            Some((row, _)) => out.push_str(&format!("{row} |\n")),
            None => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

fn markdown_of(diff: &Diff, width: usize) -> String {
    let page = |of: &Comparison| {
        let screen = screen::picture(of, width).join("\n");
        let title = plain(&page_title(of));
        format!("# {title}\n\n```text\n{screen}\n```\n\n{}{}", sides(of), body(of))
    };
    let pages: String = diff.comparisons.iter().map(page).collect();
    format!("{}{pages}Written by {}. {REST}\n", all_sides(diff), plain(&diff.generator))
}

/// A comparison without its title and its screen.
fn body(of: &Comparison) -> String {
    let details: String = shown_stages(of)
        .map(|stage| format!("## {}\n\n{}", name(&stage.stage), details(of, stage)))
        .collect();
    let tables = condition_table(of) + &stage_table(of) + &run_table(of) + &details;
    let all = tables + &other_tables(of);
    let words = words(&all);
    all + &words
}

/// A number of the stages in each run of both sides: what the median of a side is of.
struct OfRuns<'c> {
    /// `decode, ms per token`.
    name: String,
    metric: &'c MetricChange,
}

/// The times and the tokens per second of the stages, where a side has several runs.
fn of_runs(of: &Comparison) -> Vec<OfRuns<'_>> {
    if of.is_of_two_runs() {
        return Vec::new();
    }
    let stages = of.of_model().into_iter().take(STAGES);
    let numbers = stages.filter(|stage| stage.presence == Presence::Both).flat_map(|stage| {
        let time =
            stage_time(stage).map(|(time, _)| (time, format!("ms{}", stage.per_of(&time.metric))));
        let rate = rate(stage).map(|rate| (rate, "tokens/s".to_owned()));
        time.into_iter().chain(rate).map(move |(metric, unit)| OfRuns {
            name: format!("{}, {unit}", shorten(&stage.stage, LABEL_CHARS)),
            metric,
        })
    });
    numbers.collect()
}

/// The numbers of each run, which the medians of the stages are of.
fn run_table(of: &Comparison) -> String {
    let numbers = of_runs(of);
    match numbers.is_empty() {
        true => String::new(),
        false => {
            format!("## Individual runs\n\n{}", run_values(of, &numbers))
        }
    }
}

/// A row for each run.
fn run_values(of: &Comparison, numbers: &[OfRuns<'_>]) -> String {
    let before = of.before.iter().enumerate().map(|(at, run)| (0, at, run));
    let after = of.after.iter().enumerate().map(|(at, run)| (1, at, run));
    let rows: Vec<(usize, usize, &ComparedRun)> = before.chain(after).collect();
    let mut table = Table::first(RUN_ROWS, &rows)
        .left("side", |(side, ..)| if *side == 0 { "before" } else { "after" }.to_owned())
        .left("run", |(.., run)| code(&shorten(in_folder(&run.label).1, LABEL_CHARS)));
    for number in numbers {
        table = table.right(&number.name, |(side, at, _)| {
            let (values, runs) = match side {
                0 => (&number.metric.before_runs, &of.before),
                _ => (&number.metric.after_runs, &of.after),
            };
            // Otherwise it is not known which run has which.
            let value = values.get(*at).filter(|_| values.len() == runs.len())?;
            Some(number.metric.shown(*value))
        });
    }
    table.markdown_with_rest_in("the JSON")
}

/// Runs in a table.
const RUN_ROWS: usize = 64;

/// The stages that have their own numbers. Warm-ups, operators and similar rows are only in the table of all.
fn shown_stages(of: &Comparison) -> impl Iterator<Item = &StageChange> {
    of.stages.iter().filter(|stage| is_shown(stage)).take(STAGES)
}

fn condition_table(of: &Comparison) -> String {
    match of.conditions.is_empty() {
        true => String::new(),
        false => format!("## Conditions\n\n{}", conditions(&of.conditions)),
    }
}

fn stage_table(of: &Comparison) -> String {
    format!("## Stages\n\n{}{}", stages(of), caption(of, MEDIANS))
}

fn other_tables(of: &Comparison) -> String {
    let mut out = String::new();
    if !of.differences.is_empty() {
        let differences = differences(&of.differences);
        out.push_str(&format!("## Other differences\n\n{differences}"));
    }
    if !of.libraries.is_empty() {
        out.push_str(&format!("## Libraries and their kernels\n\n{}", libraries(&of.libraries)));
    }
    if !of.run.is_empty() {
        let rows: Vec<&MetricChange> = of.run.iter().collect();
        out.push_str(&format!("## Whole run\n\n{}{}", metrics(&rows, None), caption(of, MEDIANS)));
    }
    out
}

fn is_shown(stage: &StageChange) -> bool {
    let is_whole = stage.presence == Presence::Both && !stage.work.is_empty();
    is_whole && stage.apart.is_none() && stage.per != Per::Run
}

fn conditions(rows: &[ConditionResult]) -> String {
    let outcome = |row: &ConditionResult| match row.outcome {
        Outcome::Passed if row.expected => "met",
        Outcome::Failed if row.expected => "**not met**",
        Outcome::Passed => "passed",
        Outcome::Undecided => "**not decided**",
        Outcome::Failed => "**failed**",
        Outcome::NotEvaluated => "**failed: could not be evaluated**",
    };
    Table::new(rows)
        .left("condition", |row| code(&format!("{} {}", option_of(row), row.condition)))
        .left("outcome", |row| outcome(row).to_owned())
        .left("why", |row| text(&row.text))
        .markdown()
}

fn differences(rows: &[Difference]) -> String {
    Table::first(DIFFERENCES, rows)
        .left("severity", |row| row.severity.to_string())
        .left("what", |row| text(&row.what))
        .left("before", |row| text(&row.before))
        .left("after", |row| text(&row.after))
        .left("what it means", |row| text(&row.meaning))
        .markdown_with_rest_in("the JSON")
}

/// Libraries.
const LIBRARIES: usize = 30;

/// Versions, next to the kernels that came, went or changed.
fn libraries(rows: &[LibraryChange]) -> String {
    let number = |number: u64| (number > 0).then(|| count(number));
    let version = |version: &Option<String>| version.as_deref().map(text);
    Table::first(LIBRARIES, rows)
        .left("library", |row| match row.library.as_str() {
            "" => "other kernels".to_owned(),
            library => text(library),
        })
        .left("version before", |row| version(&row.before))
        .left("version after", |row| version(&row.after))
        .right("kernels new", |row| number(row.new))
        .right(GONE, |row| number(row.vanished))
        .right("under another name", |row| number(row.renamed))
        .right("time changed", |row| number(row.changed))
        .markdown_with_rest_in("the JSON")
}

/// The time of a stage, the first that both sides have, and which value it is.
fn stage_time(stage: &StageChange) -> Option<(&MetricChange, &'static str)> {
    const TIMES: [(&str, &str); 5] = [
        ("token_ms", "p50"),
        ("step_ms", "p50"),
        ("host_ms", "mean"),
        ("gpu_busy_ms", "GPU busy"),
        ("kernel_ms", "sum of kernels"),
    ];
    let find = |is: fn(&MetricChange) -> bool| {
        let known = |metric| stage.metric(metric).filter(|metric| is(metric));
        let mut times = TIMES.iter().filter(|(metric, _)| stage.has_time(metric));
        times.find_map(|(metric, label)| {
            let of_calls = *metric == "token_ms" && stage.has_tokens_of_calls();
            Some((known(metric)?, if of_calls { "call p50" } else { *label }))
        })
    };
    find(|metric| metric.change.is_some()).or_else(|| find(|_| true))
}

/// What a stage delivers, where both sides know it, and do the same work for it.
fn rate(stage: &StageChange) -> Option<&MetricChange> {
    let rate = stage.metric("tokens_per_s").filter(|rate| rate.change.is_some());
    rate.filter(|_| stage.other_work.is_none())
}

/// The time of each stage, of a step where it is known, and its tokens per second.
fn stages(of: &Comparison) -> String {
    if of.stages.is_empty() {
        return paragraph("None: neither side has a stage with GPU work.");
    }
    /// What a number is, in its unit; nothing of a stage without any time.
    type Row<'r> = (&'r StageChange, Option<(&'r MetricChange, String)>);
    let own = |row: &Row<'_>, side: usize| {
        Some(row.0.own_times.as_ref().filter(|_| row.1.is_none())?.get(side)?.text())
    };
    let of_model = of.of_model();
    let rows = of_model.iter().flat_map(|&stage| {
        let time = stage_time(stage).map(|(metric, label)| {
            (metric, format!("ms{}, {label}", stage.per_of(&metric.metric)))
        });
        let rate = rate(stage).map(|rate| (stage, Some((rate, "tokens/s, mean".to_owned()))));
        std::iter::once((stage, time)).chain(rate)
    });
    let rows: Vec<Row<'_>> = rows.collect();
    fn of_metric<T>(row: &Row<'_>, show: impl Fn(&MetricChange) -> T) -> Option<T> {
        row.1.as_ref().map(|(metric, _)| show(metric))
    }
    let verdict = |row: &Row<'_>| match row.0.presence {
        Presence::Both if own(row, 0).is_some() => Some(NOT_COMPARABLE.to_owned()),
        Presence::New => Some("new".to_owned()),
        Presence::Vanished => Some(GONE.to_owned()),
        Presence::Both => of_metric(row, |metric| row.0.word(metric).to_owned()),
    };
    let table = Table::first(STAGE_ROWS, &rows)
        .left("stage", |row| name(&row.0.stage))
        .left("number", |row| match &row.1 {
            Some((_, what)) => Some(text(what)),
            None => own(row, 0).map(|_| "p50".to_owned()),
        })
        .right("before", |row| own(row, 0).or_else(|| of_metric(row, |m| row_cells(m)[0].clone())))
        .right("after", |row| own(row, 1).or_else(|| of_metric(row, |m| row_cells(m)[1].clone())))
        .right("change", |row| of_metric(row, |m| row_cells(m)[2].clone()))
        .right("change %", |row| of_metric(row, percent_cell))
        .left("factor", |row| row.1.as_ref().and_then(|(metric, _)| factor(metric)))
        .left("difference", |row| match (verdict(row), row.0.other_work.as_deref()) {
            (Some(word), Some(why)) if word == NOT_COMPARABLE => {
                Some(text(&format!("{word}: {why}")))
            }
            (word, _) => word,
        })
        .left(NOISE, |row| match row.0.presence {
            // Of steps that do different work, the noise decides nothing.
            Presence::Both if verdict(row).is_some_and(|word| word != NOT_COMPARABLE) => {
                of_metric(row, noise_cell)
            }
            _ => None,
        })
        .left(NAME, |row| of_metric(row, |m| in_condition(m, Some(row.0))))
        .markdown_with_rest_in("the JSON");
    let apart = of.stages.len() - of_model.len();
    if apart == 0 {
        return table;
    }
    let apart = counted(apart as u64, "range");
    table + &paragraph(&format!("Not shown: {apart} outside the model (warm-ups, operators)."))
}

fn details(of: &Comparison, stage: &StageChange) -> String {
    let mut out = String::new();
    // What an instance of a stage is called, the reports know.
    let per = if stage.per == Per::Instance { stage.per_word() } else { &stage.per_text };
    if let Some(why) = &stage.other_work {
        out.push_str(&sentence(&format!("The sides are not comparable: {why}.")));
        out.push(' ');
    }
    let busy = stage.metric("gpu_busy_ms").and_then(|busy| Some(busy.change? * 1e6));
    // A reader compares the two.
    let sum = signed_time(stage.work_total.change_ns);
    let overlaps = match busy.map(signed_time) {
        Some(change) if change == sum => String::new(),
        Some(change) if stage.has_other_busy() => {
            format!("; GPU busy ({change}) leaves out outliers and counts overlaps once")
        }
        Some(change) => {
            format!("; GPU busy ({change}) counts overlaps once")
        }
        None => String::new(),
    };
    out.push_str(&sentence(&format!(
        "GPU work, busy, idle and window times are per {}. Its GPU work takes {} before and {} \
         after (sum of durations, {sum}{overlaps})",
        per,
        or_absent(stage.work_total.before_ns, shown_time),
        or_absent(stage.work_total.after_ns, shown_time),
    )));
    out.push_str("\n\n");
    let kernels = stage
        .metric("kernel_ms")
        .map(|all| all.before.unwrap_or(0.0).max(all.after.unwrap_or(0.0)));
    let least_of_class = kernels.unwrap_or(0.0) * LEAST_OF_CLASS_PERCENT / 100.0;
    let is_told = |metric: &&MetricChange| {
        let name = metric.metric.as_str();
        let is_large = !name.starts_with("class_")
            || metric.change.is_some_and(|change| change.abs() >= least_of_class);
        let repeats = REPEATS.contains(&name) && stage.metric("step_ms").is_some();
        let is_open = metric.noise.unlike && metric.change != Some(0.0);
        let is_change = metric.verdict.is_change() || is_open;
        // One token per step: one row.
        let is_token = |token: &MetricChange| {
            name == "step_ms" && [token.before, token.after] == [metric.before, metric.after]
        };
        let repeats = repeats || stage.metric("token_ms").is_some_and(is_token);
        !repeats && (ALWAYS.contains(&name) || is_change && is_large)
    };
    let [window, step] = ["window_ms", "step_mean_ms"].map(|name| stage.metric(name)?.after);
    if window.zip(step).is_some_and(|(window, step)| window > step * LONGER) {
        out.push_str(
            "The time of a step is shorter than its window, because its GPU work ends after the step.\n\n",
        );
    }
    let mut shown: Vec<&MetricChange> = stage.metrics.iter().filter(is_told).collect();
    // The sort is stable.
    shown.order_by_key(|metric| !metric.verdict.is_change());
    out.push_str(&metrics(&shown, Some(stage)));
    out.push_str(&caption(of, MIXED));
    let left_out = stage.metrics.len() - shown.len();
    if left_out > 0 {
        out.push_str(&paragraph(&format!(
            "Not shown: {} that are within noise, small, or repeat one of these.",
            counted(left_out as u64, "more metric")
        )));
    }
    out + &host(stage) + &work(stage)
}

/// Rows of causes.
const HOST_ROWS: usize = 12;

/// What the host did while the GPU idled; nothing where a run was not sampled.
fn host(stage: &StageChange) -> String {
    let per = stage.per_word();
    let changed = || stage.host.iter().filter(|row| row.verdict.is_change() || row.noise.unlike);
    let rows: Vec<&MetricChange> = changed().take(HOST_ROWS).collect();
    let others = stage.host.len() - rows.len();
    let others = match others {
        0 => String::new(),
        _ => paragraph(&format!(
            "Not shown: {} of idle time that are within noise, or smaller.",
            counted(others as u64, "more cause")
        )),
    };
    let ahead = match stage.host_ahead && !rows.is_empty() {
        true => paragraph(
            "In half of the runs of a side or more, the host was ahead of the GPU: these causes are what the host did while \
             the GPU was idle, and not why it was idle. The bars divide the same idle time by launch gaps.",
        ),
        false => String::new(),
    };
    Table::new(&rows)
        .left(&format!("idle time by what the host did, ms per {per}"), |row| text(&row.metric))
        .right("before", |row| row_cells(row)[0].clone())
        .right("after", |row| row_cells(row)[1].clone())
        .right("change", |row| row_cells(row)[2].clone())
        .left("difference", |row| stage.word(row).to_owned())
        .left(NOISE, |row| noise_cell(row))
        .or_nothing()
        + &others
        + &ahead
        + &stage
            .host_absent
            .iter()
            .map(|why| format!("{}\n\n", sentence(&capitalised(why))))
            .collect::<String>()
}

fn metric_name(row: &MetricChange, stage: Option<&StageChange>) -> String {
    // The row of that span is next to it, and the duration of the run is longer.
    if stage.is_none() && row.metric == "gpu_busy_percent" {
        return text("GPU busy, % of first to last GPU work");
    }
    let per = stage.map_or_else(String::new, |stage| stage.per_of(&row.metric));
    text(&format!("{}{per}", row.label()))
}

/// A metric as a condition names it, to be copied: `decode.step_ms`.
fn in_condition(row: &MetricChange, stage: Option<&StageChange>) -> String {
    let stage = stage.map_or("run", |stage| stage.stage.as_str());
    code(&format!("{stage}.{}", row.metric))
}

/// `step`: what a step is whose times are compared. It is not always what a report calls a step.
fn metrics(rows: &[&MetricChange], stage: Option<&StageChange>) -> String {
    Table::new(rows)
        .left("metric", |row| metric_name(row, stage))
        .right("before", |row| row_cells(row)[0].clone())
        .right("after", |row| row_cells(row)[1].clone())
        .right("change", |row| row_cells(row)[2].clone())
        .right("change %", |row| percent_cell(row))
        .left("difference", |row| {
            stage.map_or_else(|| row.word(), |stage| stage.word(row)).to_owned()
        })
        .left(NOISE, |row| noise_cell(row))
        .left(NAME, |row| in_condition(row, stage))
        .markdown()
}

/// The rows with the largest changes, and one for all others, so that the table adds up.
fn work(stage: &StageChange) -> String {
    let different = stage.work.iter().filter(|row| row.change_ns != 0.0).count();
    if different == 0 {
        let all = counted(stage.work.len() as u64, "row");
        return paragraph(&format!("All GPU work takes the same time ({all})."));
    }
    // Of sides that are hardly comparable, the largest are shown, too.
    let is_change =
        |row: &&WorkChange| row.verdict.is_change() || row.noise.unlike && row.change_ns != 0.0;
    let (mut shown, mut others): (Vec<&WorkChange>, Vec<&WorkChange>) =
        stage.work.iter().partition(is_change);
    others.extend(shown.split_off(worth_rows(&shown)));
    let per = stage.per_word();
    let table = Table::new(&shown)
        .left("GPU work", |row| kernel(row))
        // Second, so that a narrow screen shows it.
        .right("change, us", |row| signed(row.change_ns / 1e3, us_digits(row)))
        .right(&format!("before, us per {per}"), |row| us_cell(row, &row.before))
        .right(&format!("after, us per {per}"), |row| us_cell(row, &row.after))
        .left("class", |row| (!row.class.is_empty()).then(|| text(&row.class)))
        .right(&format!("calls per {per}"), |row| calls(row))
        .left("difference", |row| what_became(stage, row));
    if others.is_empty() {
        return table.markdown();
    }
    let beyond = others.iter().filter(|row| row.verdict.is_change()).count() as u64;
    let beyond = match beyond > 0 && stage.other_work.is_none() {
        true => format!(", {} of them beyond noise", count(beyond)),
        false => String::new(),
    };
    let rest = paragraph(&format!(
        "{} of GPU work changed by {} in total{beyond}.",
        capitalised(&counted(others.len() as u64, "other row")),
        signed_time(others.iter().map(|row| row.change_ns).sum()),
    ));
    table.or_nothing() + &rest
}

/// How many of these rows, the largest change first, leave little of the change to the others.
fn worth_rows(rows: &[&WorkChange]) -> usize {
    let all: f64 = rows.iter().map(|row| row.change_ns.abs()).sum();
    let mut seen = 0.0;
    let is_little = |row: &&&WorkChange| {
        seen += row.change_ns.abs();
        seen < (1.0 - LEFT_OUT) * all
    };
    let worth = rows.iter().take_while(is_little).count() + 1;
    worth.clamp(WORK_ROWS, WORK_ROWS_MOST).min(rows.len())
}

fn kernel(row: &WorkChange) -> String {
    let short = |name: &str| code(&shorten_kernel(name, KERNEL_CHARS));
    match (&row.before, &row.after) {
        (Some(a), Some(b)) if a.name != b.name => {
            format!("{} → {}", short(&a.name), short(&b.name))
        }
        (Some(only), _) | (None, Some(only)) => short(&only.name),
        (None, None) => String::new(),
    }
}

fn calls(row: &WorkChange) -> String {
    let of = |side: &Option<WorkSide>| calls_cell(side.as_ref().map(|s| s.calls));
    match (of(&row.before), of(&row.after)) {
        (a, b) if a == b => a,
        (a, b) => format!("{a} → {b}"),
    }
}

fn what_became(stage: &StageChange, row: &WorkChange) -> String {
    let matched = match row.matched_by {
        None | Some(MatchedBy::Name) => String::new(),
        Some(by) => format!("; matched by {}", by.words()),
    };
    let word = match (row.presence(), &stage.other_work) {
        (Presence::Both, Some(_)) if row.change_ns != 0.0 => "not comparable",
        _ => row.word(),
    };
    format!("{word}{matched}")
}

fn value_cell(value: Option<f64>, unit: MetricUnit) -> String {
    cell(value, |value| unit.shown(value))
}

/// The values before and after.
fn side_cells(metric: &MetricChange) -> [String; 2] {
    [metric.before, metric.after].map(|value| cell(value, |value| metric.shown(value)))
}

/// Both values and the change of a row, which subtract.
fn row_cells(metric: &MetricChange) -> [String; 3] {
    let [a, b, change] = metric.shown_row();
    let points = if metric.unit == MetricUnit::Percent { " points" } else { "" };
    let shown = |value, text: Option<String>| cell(value, |_| text.unwrap_or_default());
    let change = change.map(|change| format!("{change}{points}"));
    [shown(metric.before, a), shown(metric.after, b), shown(metric.change, change)]
}

fn percent_cell(metric: &MetricChange) -> String {
    cell(metric.relative_percent(), |value| signed(value, 1))
}

/// `1.63x faster`, of a time that changed.
fn factor(metric: &MetricChange) -> Option<String> {
    let is_time = metric.unit == MetricUnit::Ms && metric.verdict.is_change();
    match metric.before.zip(metric.after).filter(|(a, b)| is_time && *a > 0.0 && *b > 0.0) {
        Some((a, b)) if a > b => Some(format!("{:.2}x faster", a / b)),
        Some((a, b)) => Some(format!("{:.2}x slower", b / a)),
        None => None,
    }
}

fn us_digits(row: &WorkChange) -> usize {
    let [a, b] = [&row.before, &row.after].map(|side| side.as_ref().map_or(0.0, |side| side.ns));
    digits_to_subtract(a / 1e3, b / 1e3, 3)
}

fn us_cell(row: &WorkChange, side: &Option<WorkSide>) -> String {
    cell(side.as_ref().map(|side| side.ns), |ns| format!("{:.*}", us_digits(row), ns / 1e3))
}

/// Calls, which need not be whole per unit.
fn calls_cell(value: Option<f64>) -> String {
    cell(value, |calls| match calls.fract() == 0.0 {
        true => format!("{calls:.0}"),
        false => format!("{calls:.2}"),
    })
}

/// The head of the names of metrics.
const NAME: &str = "metric for --fail-if";

/// The head of [`noise_cell`].
const NOISE: &str = "± or interval";

/// The word for times of different work.
const NOT_COMPARABLE: &str = "not comparable";

/// Why a number of a run that has one of it is not judged.
const ONE_VALUE: &str = "one value per run";

/// What decided on the change.
fn noise_cell(metric: &MetricChange) -> String {
    match (metric.noise.method, metric.noise_text(), metric.interval) {
        (NoiseMethod::OneRunEach, ..) => ONE_VALUE.to_owned(),
        (NoiseMethod::NotCompared, ..) => metric.why_absent().unwrap_or(ABSENT).to_owned(),
        (NoiseMethod::Exact, ..) => "exact count".to_owned(),
        (_, Some(NoiseText::Interval(ends, unit)), _) => format!("{ends}{unit}"),
        (_, Some(text), _) => text.to_string(),
        (_, None, Some(ends)) if metric.verdict.is_change() => {
            let digits = ends.map(|end| metric.unit.digits(end)).into_iter().max();
            let ends = ends_text(ends, digits.unwrap_or_default());
            format!("{ends}{}", metric.unit.difference_suffix())
        }
        _ => ABSENT.to_owned(),
    }
}

fn cell(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    match value {
        Some(value) if value.is_finite() && value.abs() < 1e18 => show(value),
        Some(_) => "(no number)".to_owned(),
        None => ABSENT.to_owned(),
    }
}
