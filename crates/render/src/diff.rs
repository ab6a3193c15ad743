//! A comparison of runs -> one screen, Markdown, a page for a browser, and sentences for a terminal.

mod commands;
mod page;
mod parts;
mod screen;
mod sides;
mod tables;
mod words;

use stage2_contract::text::numbers::{ABSENT, count, counted};
use stage2_contract::text::{code_in_text, listed, plain, shorten, shorten_words};
use stage2_diff::{
    ComparedRun, Comparison, ConditionResult, Diff, Difference, NOISE_EXCEEDS, Outcome, Outlook,
    WITH_CAVEATS, in_folder, signed,
};
use stage2_model::finding::Id;
use stage2_model::{Finding, Severity};

use crate::aligned::aligned;
use crate::table::name;
use tables::{NAME, condition_table, details, other_tables, run_table, shown_stages, stage_table};
use words::words;

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

/// Characters of a command.
const COMMAND_CHARS: usize = 160;

/// What ran on a side, on what and when: the same of all its runs once.
struct SideFacts {
    runs: String,
    facts: Vec<String>,
    commands: Vec<String>,
    /// Words that both commands share are left out of them, and no others.
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
            let short = texts.clone().map(|text| shorten_words(&text, COMMAND_CHARS));
            // A cut for length left out words that only one side has.
            let is_apart =
                short == texts && texts.iter().any(|text| text.contains(commands::SHARED));
            for (side, text) in sides.iter_mut().zip(short) {
                (side.commands, side.is_apart) = (vec![text], is_apart);
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

/// Behind a command without words that the other side has as well.
const OTHERWISE: &str = " (…: the same on both sides)";
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
pub use screen::WIDTH;
pub use sides::fastest;

/// One screen, of so many columns and, if possible, lines. Of three sides or more it has their table, and the pairs are on
/// the whole page.
pub fn screens(diff: &Diff, width: usize, height: usize) -> String {
    if let Some(first) = sides::first(diff) {
        let names = sides::short_names(diff);
        let heading = shorten(&sides::heading(first), width.saturating_sub(1));
        let mut heading = aligned(&format!("# {}\n", plain(&heading)), width);
        if let Some(answer) = sides::answer(diff, &names) {
            heading.push_str(&screen::items(&[answer.text], width, 2));
        }
        let has_intervals = !diff.comparisons.iter().all(Comparison::is_of_two_runs);
        let with = |(stages, lines, has_also): &(usize, usize, bool)| {
            let verdicts = match *lines {
                0 => String::new(),
                1 => screen::items(&short_verdicts(diff, &names, width), width, 1),
                _ => screen::items(&pair_answers(diff, &names), width, *lines),
            };
            let is_short = *lines < 2 && has_intervals;
            let table = sides::table(diff, *stages, names.clone(), is_short);
            let end = table.find(sides::ALSO).filter(|_| !*has_also).unwrap_or(table.len());
            let table = aligned(table.get(..end).unwrap_or(&table), width);
            let table = table.trim_end();
            let most = if *lines < 2 { NEXT } else { usize::MAX };
            let next = screen::next_of_all(diff, width, most).join("\n");
            format!("{heading}{verdicts}\n{table}\n\n{next}\n")
        };
        let fits = |screen: &String| screen.lines().count() <= screen::room(height);
        let mut all = SIDES.iter().map(with);
        // The table says more than anything else, also on more lines than there are.
        return all.find(fits).or_else(|| SIDES.last().map(with)).unwrap_or_default();
    }
    let screen = |of: &Comparison| screen::screen(of, width, height).join("\n") + "\n";
    diff.comparisons.iter().map(screen).collect::<Vec<_>>().join("\n")
}

/// The table of all sides under its heading; nothing of a single pair.
fn all_sides(diff: &Diff) -> String {
    let heading = sides::first(diff).map(sides::heading);
    heading.map_or_else(String::new, |heading| {
        let names = sides::names(diff);
        let answer = sides::answer(diff, &names).map(|answer| answer.text);
        let verdicts = answer.into_iter().chain(pair_answers(diff, &names));
        let verdicts: String = verdicts.map(|text| format!("- {}\n", plain(&text))).collect();
        let table = sides::table(diff, sides::STAGES, names, false);
        format!("# {}\n\n{verdicts}\n{table}", plain(&heading))
    })
}

/// What of all sides fits a terminal, the first that does: stages in their table, lines of the verdict of a pair, and
/// whether the table names the other stages.
const SIDES: [(usize, usize, bool); 8] = [
    (sides::STAGES, usize::MAX, true),
    (2, usize::MAX, true),
    (2, 3, true),
    (1, usize::MAX, true),
    (sides::STAGES, 1, true),
    (1, 1, true),
    (1, 1, false),
    (1, 0, false),
];

/// Lines of what to do next, where there is little room.
const NEXT: usize = 2;

/// A line for each pair with its largest changes: `a1 → b2: decode -71.0 %, tokens/s +249 %, with caveats`.
fn short_verdicts(diff: &Diff, names: &[String], width: usize) -> Vec<String> {
    let short = |(at, of): (usize, &Comparison)| {
        let pair = sides::pair(names, at);
        if let Some(caution) = of.caution() {
            return format!("{pair}: {}", lower_first(caution.trim_end_matches('.')));
        }
        let mut changes: Vec<String> = Vec::new();
        for stage in of.of_model() {
            let numbers = [("", stage.time()), ("tokens/s ", stage.metric("tokens_per_s"))];
            let mut name = format!("{} ", shorten(&stage.stage, LABEL_CHARS / 4));
            for (what, metric) in numbers {
                let changed = metric.filter(|metric| metric.verdict.is_change());
                let percent = changed.and_then(|metric| metric.relative_percent());
                let Some(percent) = percent.filter(|_| stage.other_work.is_none()) else {
                    continue;
                };
                let digits = if percent.abs() < 100.0 { 1 } else { 0 };
                changes.push(format!("{name}{what}{} %", signed(percent, digits)));
                name.clear();
            }
        }
        let (head, _) = of.verdict.split_once([',', '(', ':']).unwrap_or((&of.verdict, ""));
        let is_warned = of.differences.iter().any(|d| d.severity >= Severity::Warning);
        let mut end = if is_warned { format!(", {WITH_CAVEATS}") } else { String::new() };
        let head = lower_first(head.trim_end());
        let is_told = !of.is_simulated() || changes.is_empty() && head.contains("simulation");
        end.push_str(if is_told { "" } else { ", simulated" });
        let mut said = match (changes.is_empty(), of.outlook()) {
            (false, Outlook::Changed) => String::new(),
            (false, _) => format!("{head}: "),
            (true, _) => head,
        };
        let room = width.saturating_sub(pair.chars().count() + end.chars().count() + 6);
        for (at, change) in changes.iter().enumerate() {
            let between = if at == 0 { "" } else { ", " };
            let used = said.chars().count() + between.len() + change.chars().count();
            let more = if at + 1 == changes.len() { 0 } else { ", …".chars().count() };
            if at > 0 && used + more > room {
                said.push_str(", …");
                break;
            }
            said.push_str(&format!("{between}{change}"));
        }
        format!("{pair}: {said}{end}")
    };
    diff.comparisons.iter().enumerate().map(short).collect()
}

/// A sentence behind a colon.
fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// The answer of each pair, whose numbers are in tables, with what is to be known before it.
fn pair_answers(diff: &Diff, names: &[String]) -> Vec<String> {
    let said = |(at, of)| format!("{}: {}", sides::pair(names, at), answered(of));
    diff.comparisons.iter().enumerate().map(said).collect()
}

fn answered(of: &Comparison) -> String {
    with_doubts(of, words::verdict_in_words(of, screen::PART_CHARS))
}

/// The verdict of a comparison behind what forbids it, and before what else has to be known.
fn with_doubts(of: &Comparison, verdict: String) -> String {
    let caveats = || {
        let line = of.lines.iter().find(|line| line.label == "comparable")?;
        let (clause, _) = line.text.split_once("; ").unwrap_or((&line.text, ""));
        clause.starts_with(WITH_CAVEATS).then(|| format!("Comparable {clause}"))
    };
    match (of.caution(), caveats()) {
        (Some(caution), _) => format!("{caution} {verdict}"),
        (None, Some(caveats)) => format!("{}. {caveats}", verdict.trim_end_matches('.')),
        (None, None) => verdict,
    }
}

/// The verdict of each comparison with its caveats, a line each; of several, with its runs.
pub fn verdicts(diff: &Diff) -> String {
    match diff.comparisons.as_slice() {
        [of] => answered(of) + "\n",
        pairs => {
            let of_pair = |of: &Comparison| format!("{}: {}", page_title(of), answered(of));
            let answer = sides::answer(diff, &sides::names(diff)).map(|answer| answer.text);
            let all = answer.into_iter().chain(pairs.iter().map(of_pair));
            all.map(|text| text + "\n").collect()
        }
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

/// That conditions compare runs that are not comparable.
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

/// What became of each condition: with its reason, or on a terminal with so many lines its numbers. Those that passed share
/// a sentence where there are many.
pub fn outcomes(diff: &Diff, height: Option<usize>) -> Vec<(Outcome, String)> {
    let all = diff.comparisons.iter();
    let is_one_of_several = diff.comparisons.len() > 1;
    all.flat_map(|of| outcomes_of(of, height, is_one_of_several)).collect()
}

/// Without a `height`: in full. Short ones name the runs if they are `is_one_of_several` pairs.
fn outcomes_of(
    of: &Comparison,
    height: Option<usize>,
    is_one_of_several: bool,
) -> Vec<(Outcome, String)> {
    let pair = if is_one_of_several { format!(" for {}", title(of)) } else { String::new() };
    let is_folded = height.is_some_and(|height| screen::is_folded(of, height));
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
        // A condition without numbers is a mistake, which its reason names.
        let numbers = why.split_once(", ").filter(|_| row.outcome != Outcome::NotEvaluated);
        match numbers.filter(|_| height.is_some()) {
            Some((values, rest)) => {
                let how = how.trim_start_matches("was ");
                let values = values.split_once(" per ").map_or(values, |(values, _)| values);
                // `-0.046 ms, -0.4 % (not comparable: ...): within the limit, ...`
                let moved = rest.split([':', '(']).next().unwrap_or(rest).trim_end();
                let moved = moved.rsplit_once(", ").map_or(moved, |(_, percent)| percent);
                let unlike =
                    if rest.contains(" (not comparable: ") { "; not comparable" } else { "" };
                let open =
                    if rest.contains(NOISE_EXCEEDS) { "; its noise could hide more" } else { "" };
                (row.outcome, format!("{how}{pair}: {condition}: {values}, {moved}{unlike}{open}"))
            }
            None => (row.outcome, format!("{option} '{condition}' {how} for {}: {why}", title(of))),
        }
    };
    let rows = &of.conditions;
    if !is_folded {
        return rows.iter().map(sentence).collect();
    }
    let (passed, others): (Vec<&ConditionResult>, Vec<_>) =
        rows.iter().partition(|row| row.outcome == Outcome::Passed);
    let named = |row: &&ConditionResult| {
        let is_open = row.text.contains(NOISE_EXCEEDS);
        let open = if is_open { " (its noise could hide a change beyond that)" } else { "" };
        format!("{} '{}'{open}", option_of(row), row.condition)
    };
    let named: Vec<String> = passed.iter().map(named).collect();
    let said = format!("{} conditions passed{pair}: {}", passed.len(), named.join(", "));
    others.into_iter().map(sentence).chain([(Outcome::Passed, said)]).collect()
}

fn option_of(row: &ConditionResult) -> &'static str {
    if row.expected { "--expect" } else { "--fail-if" }
}

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
/// What repeats another number, where that is known.
const REPEATS: [&str; 3] = ["step_mean_ms", "host_ms", "window_ms"];

/// Where the rows are that a page counts.
const REST: &str = "`diff --json` lists the rows summarized here.";

/// All comparisons as one page.
pub fn markdown(diff: &Diff) -> String {
    markdown_of(diff, WIDTH)
}

/// The page of [`markdown`] as text for a terminal of `width` columns, with aligned tables.
pub fn full_screen(diff: &Diff, width: usize) -> String {
    let page = markdown_of(diff, width);
    let spared = SPARED.iter().filter(|(least, _)| width < *least).flat_map(|(_, heads)| *heads);
    aligned(&without_columns(&page, &spared.copied().collect::<Vec<_>>()), width)
}

/// Columns of a terminal from which its tables have these columns, which else would take a line more in each row.
const SPARED: [(usize, &[&str]); 2] = [(140, &[NAME]), (100, &["factor", "change", "calls"])];

/// The page without the columns of its tables whose heads begin with one of these words, or are one of them and followed by
/// a unit in another column.
fn without_columns(page: &str, spared: &[&str]) -> String {
    let mut kept: Vec<bool> = Vec::new();
    let mut out = String::new();
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) else {
            kept.clear();
            out.push_str(&format!("{line}\n"));
            continue;
        };
        let cells: Vec<&str> = row.split(" | ").collect();
        if kept.is_empty() {
            let is_spared = |head: &&str| {
                let head = head.trim().to_lowercase();
                spared.iter().any(|word| head == *word || head.starts_with(&format!("{word} per ")))
            };
            kept = cells.iter().map(|head| !is_spared(head)).collect();
        }
        let is_kept = |at: usize| kept.get(at).copied().unwrap_or(true);
        let cells = cells.iter().enumerate().filter(|(at, _)| is_kept(*at)).map(|(_, cell)| *cell);
        out.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
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
