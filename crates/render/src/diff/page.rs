//! A comparison -> one page for a browser that needs no network, and no script to be read.

use std::collections::BTreeMap;

use stage2_diff::{
    ComparedRun, Comparison, ConditionResult, Diff, Difference, NOT_COMPARED, Outcome, Outlook,
    PartChange, Parts, Presence, StageChange, WorkChange, digits_to_subtract, in_folder, signed,
};
use stage2_model::{AnswerLine, Severity};

use super::tables::{
    OfRuns, condition_table, details, of_runs, other_tables, run_values, shown_stages, stage_table,
};
use super::{
    COMMAND, OTHERWISE, REST, SideFacts, answered, option_of, page_title, parts as named, screen,
    sides,
    words::{MEANS, others, verdict_in_words, words},
};
use crate::html::hash;
use crate::html::markdown::{attribute, html as from_markdown, text as escaped};
use crate::packed;
use crate::table::{Table, capitalised, text};
use stage2_contract::text::numbers::{counted, grouped};

/// Bars of a stage.
const BARS: usize = 12;
const BAR_NAME_CHARS: usize = 100;
/// Share of the largest part from which a part has a bar of its own.
const OWN_BAR: f64 = 0.05;
/// Kernels below the bar of their class, and the share of the longest bar from which they have one.
const KERNEL_BARS: usize = 4;
const LEAST_KERNEL_BAR: f64 = 0.05;
/// Percent of the width from which a colour is seen.
const LEAST_BAR: f64 = 0.5;
/// Lines in the box of the verdict, and those below the first picture; the tables have the others.
const FIRST_LINES: [&str; 4] = ["advice", "comparable", "next", screen::RECORD];
const OTHER_LINES: [&str; 2] = ["noise", "kernels"];

/// One page for a browser that needs no network; its script only sorts and searches tables.
///
/// The tables are those of the Markdown page, so that a number is written in one place. The bars are made
/// here; foreign text in them comes through [`escaped`]. `links`: the addresses of the reports of runs, by what these are
/// called.
pub fn html(diff: &Diff, links: &BTreeMap<String, String>) -> String {
    let titles: Vec<String> = diff.comparisons.iter().map(page_title).collect();
    let page_title = escaped(&format!("Comparison: {}", titles.join("; ")));
    let parts = diff.comparisons.iter().enumerate();
    let is_single = diff.comparisons.len() == 1;
    let parts: String = parts.map(|(at, of)| comparison(of, at, links, is_single)).collect();
    let entry = |(at, (of, title)): (usize, (&Comparison, &String))| {
        let (title, verdict) = (breakable(title), with_code(&tied(&answered(of)), escaped));
        format!("<li><a href=\"#comparison-{at}\">{title}</a>: {verdict}</li>\n")
    };
    let contents: String = match diff.comparisons.len() {
        0 | 1 => String::new(),
        _ => {
            let named = diff.comparisons.iter().zip(&titles).enumerate();
            let entries: String = named.map(entry).collect();
            let heading = sides::first(diff).map_or_else(String::new, |first| {
                format!("<h1>{}</h1>\n", breakable(&sides::heading(first)))
            });
            let names = sides::names(diff);
            let answer = sides::answer(diff, &names).map_or_else(String::new, |answer| {
                let open = if answer.is_single { UNCONFIRMED } else { "" };
                let next = screen::text_of_all(diff, &names);
                let next = match next.is_empty() {
                    true => next,
                    false => format!("<dl>\n<div><dt>next</dt><dd>{}</dd></div>\n</dl>\n", with_command(&next)),
                };
                format!(
                    "<div class=\"answer\">\n<div class=\"{}\">\n<p class=\"verdict\">{}</p>\n{open}</div>\n{next}</div>\n",
                    answer.of.map_or(if answer.is_single { "fair" } else { "plain" }, kind),
                    breakable(&answer.text)
                )
            });
            let mut stages = sides::on_page(diff).into_iter().map(|stage| of_sides(&stage));
            let first = stages.next().unwrap_or_default();
            let others: String = stages.collect();
            format!(
                "{heading}{answer}{first}<nav>\n<h2>Pair by pair</h2>\n<ol>\n{entries}</ol>\n</nav>\n{others}"
            )
        }
    };
    let script = [packed("html/tables.js"), packed("diff/diff.js")].concat();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src '{}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{page_title}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n{THEME}<main>\n{contents}{parts}\
         <footer>Written by {}. Changes are after minus before. {}</footer>\n</main>\n<script>{script}</script>\n</body>\n</html>\n",
        hash(&script),
        packed("diff/diff.css"),
        packed("html/tables.css"),
        escaped(&diff.generator),
        REST.replace('`', "")
    )
}

/// A stage on all sides: its table, with a bar for each time and what noise allows; all begin at 0.
fn of_sides(stage: &sides::OnPage) -> String {
    let html = by_column(&marked(&stage.table));
    let caption = match stage.caption.is_empty() {
        true => String::new(),
        false => format!("<p class=\"legend\">{}</p>\n", breakable(&stage.caption)),
    };
    let bars = || stage.bars.iter().flatten();
    let ends = bars().flat_map(|bar| bar.allowed_ms.into_iter().flatten().chain([bar.ms]));
    let most = ends.filter(|ms| ms.is_finite()).fold(0.0f64, f64::max);
    if most <= 0.0 {
        return html + &caption;
    }
    let place = |ms: f64| (ms / most * 100.0).clamp(0.0, 100.0);
    let bar = |(at, bar): (usize, &Option<sides::Bar>)| {
        let Some(bar) = bar else { return "<td class=\"bar\"></td>".to_owned() };
        let allowed = bar.allowed_ms.map_or_else(String::new, |[low, high]| {
            format!(
                "<line class=\"allowed\" x1=\"{:.2}%\" x2=\"{:.2}%\" y1=\"50%\" y2=\"50%\"/>",
                place(low),
                place(high)
            )
        });
        let kind = if at == 0 { "before" } else { "after" };
        format!(
            "<td class=\"bar\"><svg role=\"img\" aria-label=\"{} ms\"><rect class=\"{kind}\" width=\"{:.2}%\" \
             height=\"100%\"/>{allowed}</svg></td>",
            bar.time,
            place(bar.ms),
        )
    };
    // Behind the name of each side.
    let html = html.replacen("<table>", "<table class=\"strips sides\">", 1);
    let html = html.replacen("</th>", "</th><th></th>", 1);
    let mut rows = html.split("<tr><td");
    let mut out = rows.next().unwrap_or_default().to_owned();
    for (row, bar) in rows.zip(stage.bars.iter().enumerate().map(bar)) {
        out.push_str(&format!("<tr><td{}", row.replacen("</td>", &format!("</td>{bar}"), 1)));
    }
    out + &caption
}

/// Switches between light and dark, by the style of the page alone.
const THEME: &str = "<label class=\"theme\"><input type=\"checkbox\" aria-label=\"switch between light and dark\"></label>\n";

/// The verdict and how far to trust it, the times, what moved in which part, and then everything else.
/// With other pairs on the page, what is below the verdict is folded.
fn comparison(
    of: &Comparison,
    at: usize,
    reports: &BTreeMap<String, String>,
    is_single: bool,
) -> String {
    let is_weighty = of.differences.iter().any(|d| d.severity >= Severity::Warning);
    let lines = |labels: &[&str]| -> String {
        let line = |line: &AnswerLine| {
            let label = escaped(&line.label);
            let said = match line.text.split_once(COMMAND) {
                Some((what, words)) if line.label == screen::RECORD => {
                    let words = whole_options(&escaped(&format!("{COMMAND}{words}")));
                    let load = match what.trim_end_matches(": ") {
                        "" => String::new(),
                        load => format!(" ({load})"),
                    };
                    format!(
                        "<details><summary>the commands{}</summary><pre><code>{}</code></pre></details>",
                        escaped(&load),
                        words
                    )
                }
                Some(_) if line.label == "next" => with_command(&line.text),
                _ => with_code(&line.text, breakable),
            };
            let is_warning = is_weighty && line.label == "comparable";
            let said = if is_warning { said + &why_care(of) } else { said };
            let kind = if is_warning { " class=\"fair\"" } else { "" };
            format!("<div{kind}><dt>{label}</dt><dd>{said}</dd></div>\n")
        };
        let says =
            |line: &&AnswerLine| labels.contains(&line.label.as_str()) && line.text != NOT_COMPARED;
        of.lines.iter().filter(says).map(line).collect()
    };
    // Of several pairs, each would have them.
    let id = |id: &str| if is_single { format!(" id=\"{id}\"") } else { String::new() };
    let first = screen::pictured(of);
    let numbers = |stage: &StageChange| {
        let is_pictured = first.into_iter().chain(others(of)).any(|it| it.stage == stage.stage);
        // Parts of steps that do other work say nothing.
        let has_picture = !is_pictured && stage.other_work.is_none() && of.unlike.is_empty();
        let picture = if has_picture { bars(stage, of) } else { String::new() };
        let numbers = marked(&details(of, stage));
        let said = escaped(&format!("{}: all metrics and kernels", stage.stage));
        format!("<details>\n<summary>{said}</summary>\n{picture}{numbers}</details>\n")
    };
    let pictured = first.into_iter().chain(others(of)).enumerate();
    let picture: Vec<String> = pictured
        .map(|(at, stage)| {
            let id = if at == 0 { id("parts") } else { String::new() };
            let said = named::head_of(of, stage, &stage.parts());
            let said = escaped(&format!("{}: {said}", stage.stage));
            format!("<h2{id}>{said}</h2>\n{}", bars(stage, of))
        })
        .collect();
    let picture = picture.concat();
    let numbers: String = shown_stages(of).map(numbers).collect();
    let others = other_tables(of);
    let note = words(&(stage_table(of) + &picture + &numbers + &others));
    let [open, close] = match is_single {
        true => ["", ""],
        false => ["<details>\n<summary>All about this pair</summary>\n", "</details>\n"],
    };
    let caution = of.caution().map(|said| {
        format!("<div class=\"unlike\">\n<p class=\"verdict\">{}</p>\n</div>\n", escaped(&said))
    });
    let runs = single_runs(of, id);
    let numbers = match numbers.is_empty() {
        true => numbers,
        false => format!("<h2{}>All numbers</h2>\n{numbers}", id("numbers")),
    };
    let others = format!(
        "<div class=\"others\"{}>\n{}{}</div>\n",
        id("others"),
        marked(&others),
        marked(&note)
    );
    let conditions_of = match of.conditions.is_empty() {
        true => String::new(),
        false => format!("<div{}>\n{}</div>\n", id("conditions"), marked(&condition_table(of))),
    };
    let verdict = verdict_in_words(of, BAR_NAME_CHARS);
    let is_open = of.is_of_two_runs() && verdict != of.verdict;
    let open_runs = if is_open { UNCONFIRMED } else { "" };
    let all = [&conditions_of, &runs, &picture, &numbers, &others];
    let is_there = |(at, _): &(&str, &str)| {
        ["sides", "stages"].contains(at) || all.iter().any(|html| html.contains(&id(at)))
    };
    let links = SECTIONS.iter().filter(|_| is_single).filter(|section| is_there(section));
    let links: Vec<String> =
        links.map(|(at, title)| format!("<a href=\"#{at}\">{title}</a>")).collect();
    let links = links.join(" · ");
    let links = if is_single { format!("<nav>{links}</nav>\n") } else { links };
    format!(
        "<section id=\"comparison-{at}\">\n<h1>Comparison: {}</h1>\n<div class=\"answer\">\n{}<div class=\"{}\">\n<p class=\"verdict\">{}</p>\n{}\
         </div>\n<dl>\n{}</dl>\n</div>\n{links}{open}{conditions_of}<div class=\"stages\"{}>\n{}</div>\n{picture}<dl class=\"answer\">\n{}</dl>\n{runs}\
         <h2{}>Commands and reports</h2>\n<dl class=\"answer runs\">\n{}</dl>\n{numbers}{others}{close}</section>\n",
        breakable(&page_title(of)),
        conditions(of) + &caution.unwrap_or_default(),
        kind(of),
        with_code(&tied(&verdict), escaped),
        open_runs,
        lines(&FIRST_LINES),
        id("stages"),
        by_column(&marked(&stage_table(of))),
        lines(&OTHER_LINES),
        id("sides"),
        both_sides(of, reports),
    )
}

/// What to do next, with its command as it is to be copied.
fn with_command(text: &str) -> String {
    match text.split_once(COMMAND) {
        Some((what, words)) => {
            let words = whole_options(&escaped(words));
            format!("{}<pre><code>{COMMAND}{words}</code></pre>", breakable(what))
        }
        None => with_code(text, breakable),
    }
}

/// Below the answer of one run per side.
const UNCONFIRMED: &str = "<p>Not confirmed by several runs.</p>\n";

/// The sections of the page of a pair.
const SECTIONS: [(&str, &str); 7] = [
    ("conditions", "Conditions"),
    ("stages", "Stages"),
    ("parts", "Parts of the step"),
    ("runs", "Individual runs"),
    ("sides", "Commands and reports"),
    ("numbers", "All numbers"),
    ("others", "Other differences, terms"),
];

/// Warnings whose meaning stands below the line `comparable`; the table has that of all.
const WARNINGS: usize = 3;

/// What the warnings mean for the numbers.
fn why_care(of: &Comparison) -> String {
    let warnings = of.differences.iter().filter(|d| d.severity >= Severity::Warning);
    let why = |d: &Difference| {
        format!("<br><small>{}: {}</small>", breakable(&d.what), breakable(&d.meaning))
    };
    warnings.take(WARNINGS).map(why).collect()
}

fn both_sides(of: &Comparison, links: &BTreeMap<String, String>) -> String {
    let [before, after] = SideFacts::of_both(of);
    side("before", &of.before, before, links) + &side("after", &of.after, after, links)
}

/// What ran on a side: its runs, on what and when, and their commands.
fn side(
    name: &str,
    runs_of: &[ComparedRun],
    facts: SideFacts,
    links: &BTreeMap<String, String>,
) -> String {
    let SideFacts { runs, facts, commands, is_apart } = facts;
    let otherwise = if is_apart { OTHERWISE } else { "" };
    let runs = format!("<b>{}</b>", breakable(&runs));
    // Only paths break: a time of day does not.
    let fact = |fact: &String| if fact.contains('/') { breakable(fact) } else { escaped(fact) };
    let facts = [runs].into_iter().chain(facts.iter().map(fact));
    let facts = facts.collect::<Vec<_>>().join(" · ");
    let command = |text: &String| format!("<br><code>{}</code>{otherwise}", breakable(text));
    let commands: String = commands.iter().map(command).collect();
    let report = |run: &ComparedRun| {
        let name = breakable(&format!("{}/report.html", in_folder(&run.label).1));
        links.get(&run.label).map(|link| format!("<a href=\"{}\">{name}</a>", attribute(link)))
    };
    let reports: Vec<String> = runs_of.iter().filter_map(report).collect();
    let reports = match reports.len() {
        0 => String::new(),
        number => {
            let what = if number == 1 { "report" } else { "reports" };
            format!(
                "<br>{what} (links work only on the machine with the runs): {}",
                reports.join(", ")
            )
        }
    };
    format!("<div><dt>{name}</dt><dd>{facts}{commands}{reports}</dd></div>\n")
}

/// Tables whose verdicts have the colours of the bars.
fn marked(markdown: &str) -> String {
    let html = tied(&from_markdown(markdown));
    let kinds = [
        ("better", "good"),
        ("better (minor)", "good"),
        ("worse", "bad"),
        ("worse (minor)", "bad"),
        ("passed", "good"),
        ("met", "good"),
        ("<strong>failed</strong>", "bad"),
        ("<strong>not met</strong>", "bad"),
        ("<strong>not decided</strong>", "fair"),
    ];
    kinds.iter().fold(html, |html, (said, kind)| {
        html.replace(&format!("<td>{said}</td>"), &format!("<td class=\"{kind}\">{said}</td>"))
    })
}

/// A table whose cells have the first word of their column as `data-of`: which columns there are depends on the runs, and
/// a phone has no room for all of them.
fn by_column(html: &str) -> String {
    let mut heads: Vec<String> = Vec::new();
    let mut out = String::with_capacity(html.len());
    for (at, row) in html.split("<tr>").enumerate() {
        out.push_str(if at == 0 { "" } else { "<tr>" });
        let mut cells = row.split_inclusive("</td>").flat_map(|part| part.split_inclusive("</th>"));
        for (column, cell) in cells.by_ref().enumerate() {
            let Some(tag) = ["<th", "<td"].into_iter().find(|tag| cell.starts_with(tag)) else {
                out.push_str(cell);
                continue;
            };
            let said = cell.split_once('>').map_or("", |(_, said)| said);
            if tag == "<th" {
                let word = said.split([' ', '<']).next().unwrap_or_default().to_lowercase();
                let is_percent = said.contains("(%)");
                heads.push(if is_percent { format!("{word}-percent") } else { word });
            }
            let of = heads.get(column).map(|head| format!(" data-of=\"{}\"", attribute(head)));
            out.push_str(&format!("{tag}{}{}", of.unwrap_or_default(), &cell[tag.len()..]));
        }
    }
    out
}

/// The class of a word about a part.
fn colour(word: &str) -> &'static str {
    match word.split(' ').next() {
        Some("better") => " good",
        Some("worse") => " bad",
        _ => "",
    }
}

/// A text that breaks neither within an interval nor between a number and its unit.
fn tied(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_interval = false;
    for (at, char) in text.char_indices() {
        let rest = text.get(at + char.len_utf8()..).unwrap_or_default();
        is_interval = match char {
            '[' => rest.starts_with(['+', '-', '0']),
            ']' => false,
            _ => is_interval,
        };
        let is_unit = || UNITS.iter().any(|unit| rest.starts_with(unit));
        let is_behind = || out.ends_with(|c: char| c.is_ascii_digit() || c == ']' || c == '±');
        match char == ' ' && (is_interval || is_behind() && (is_unit() || out.ends_with('±'))) {
            true => out.push('\u{a0}'),
            false => out.push(char),
        }
    }
    out
}

/// Units that stay with their numbers.
const UNITS: [&str; 6] = ["%", "ms", "us", "points", "J<", "W<"];

/// A text whose long names break where their parts end.
fn breakable(text: &str) -> String {
    let text = &tied(text);
    let pieces = text.split_inclusive([':', ',', '_', '/', '<']);
    let pieces: Vec<String> = pieces.map(escaped).collect();
    let joined = pieces.join("<wbr>").replace('(', "<wbr>(");
    // A bracket behind what was left out does not stand alone on a line.
    let joined = joined.replace("…&gt;", "…&#8288;&gt;");
    whole_options(&joined.replace(":<wbr>:", "::").replace(" <wbr>", " "))
}

/// HTML whose only spaces are those of its text: browsers end a line behind a dash, but not within an option.
fn whole_options(html: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphabetic();
    let is_option = |word: &str| word.split('-').skip(1).any(|name| name.starts_with(is_letter));
    let of_word =
        |word: &str| match (word.starts_with('-') || word.contains("--")) && is_option(word) {
            true => format!("<span class=\"word\">{word}</span>"),
            false => word.to_owned(),
        };
    html.split(' ').map(of_word).collect::<Vec<_>>().join(" ")
}

/// A sentence with what it has between backticks as code.
fn with_code(text: &str, shown: fn(&str) -> String) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    // Those of a name are none of the sentence.
    if pieces.len().is_multiple_of(2) {
        return shown(text);
    }
    let piece = |(at, piece): (usize, &&str)| match at % 2 {
        0 => shown(piece),
        _ => format!("<code>{}</code>", shown(piece)),
    };
    pieces.iter().enumerate().map(piece).collect()
}

/// A strip for each side of each number, with a dot for each run; nothing of one run per side.
fn single_runs(of: &Comparison, id: impl Fn(&str) -> String) -> String {
    let numbers = of_runs(of);
    let rows: String = numbers.iter().filter_map(|number| strips(of, number)).collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<h2{}>Individual runs</h2>\n<div class=\"table\"><table class=\"strips\">\n<thead><tr><th>Number</th>\
         <th>Side</th><th class=\"n end\">Min</th><th class=\"n\">Median</th><th class=\"n end\">Max</th>\
         <th>Each run</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n<p class=\"legend\">Each circle is a run before, each diamond a run after, and the line is the median. Both \
         sides of a number share one scale from the lowest to the highest run.</p>\n\
         <details>\n<summary>Values of each run</summary>\n{}</details>\n",
        id("runs"),
        marked(&run_values(of, &numbers))
    )
}

/// Where the least and the most run of a number stand in its strip, percent.
const STRIP: (f64, f64) = (3.0, 97.0);

/// The marks of runs, so that the sides differ without colour as well.
const CIRCLE: &str = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z";
const DIAMOND: &str = "M0-6L6 0 0 6-6 0z";

/// Both sides of a number; nothing where a side does not have it.
fn strips(of: &Comparison, number: &OfRuns<'_>) -> Option<String> {
    let metric = number.metric;
    let sides = [
        ("before", &of.before, &metric.before_runs, metric.before?),
        ("after", &of.after, &metric.after_runs, metric.after?),
    ];
    let all = || metric.before_runs.iter().chain(&metric.after_runs).copied();
    let (least, most) =
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let place = |value: f64| match most > least {
        true => STRIP.0 + (value - least) / (most - least) * (STRIP.1 - STRIP.0),
        false => 50.0,
    };
    let unit = number.name.rsplit_once(", ").map_or("", |(_, unit)| unit);
    let [low, high] = [least, most].map(|end| metric.shown(end));
    let scale = format!(
        "<div class=\"scale\"><span>{low}</span><span>{high} {}</span></div>",
        escaped(unit)
    );
    let mut head = format!("<td rowspan=\"2\">{}</td>", escaped(&number.name));
    let mut out = String::new();
    for (side, runs, values, median) in sides {
        let is_known = values.len() == runs.len();
        let dot = |(at, value): (usize, &f64)| {
            let run = runs.get(at).filter(|_| is_known).map(|run| in_folder(&run.label).1);
            let run = run.map_or_else(String::new, |run| format!("{run}: "));
            let said = escaped(&format!("{run}{}", metric.shown(*value)));
            let x = place(*value);
            let shape = if side == "before" { CIRCLE } else { DIAMOND };
            format!(
                "<svg x=\"{x:.2}%\" y=\"50%\"><path class=\"{side}\" d=\"{shape}\"><title>{said}</title></path></svg>"
            )
        };
        let dots: String = values.iter().enumerate().map(dot).collect();
        let cell = |value: Option<f64>| value.map_or_else(String::new, |value| metric.shown(value));
        let low = cell(values.iter().copied().reduce(f64::min));
        let high = cell(values.iter().copied().reduce(f64::max));
        let (middle, x) = (cell(Some(median)), place(median));
        out.push_str(&format!(
            "<tr>{head}<td>{side}</td><td class=\"n end\">{low}</td><td class=\"n\">{middle}</td>\
             <td class=\"n end\">{high}</td><td><svg role=\"img\" aria-label=\"{} runs {side}\">\
             <line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"50%\" y2=\"50%\"/><line class=\"median\" \
             x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"0\" y2=\"100%\"/>{dots}</svg>{}</td></tr>\n",
            values.len(),
            if side == "after" { scale.as_str() } else { "" }
        ));
        head.clear();
    }
    Some(out)
}

/// What became of all conditions, with its colour, in front of the verdict; nothing without any.
fn conditions(of: &Comparison) -> String {
    let all = of.conditions.len();
    let named = |is: fn(&ConditionResult) -> bool, what: &str| {
        let rows = of.conditions.iter().filter(|row| is(row));
        let text = |row: &ConditionResult| {
            format!("{} '{}' ({})", option_of(row), row.condition, row.text)
        };
        let rows: Vec<String> = rows.map(text).collect();
        let which = if all == 1 {
            "condition".to_owned()
        } else {
            format!("{} of {all} conditions", rows.len())
        };
        (!rows.is_empty()).then(|| capitalised(&format!("{which} {what}: {}", rows.join("; "))))
    };
    let failed = named(|row| row.outcome == Outcome::Failed, "failed");
    let failed: Vec<String> = failed
        .into_iter()
        .chain(named(|row| row.outcome == Outcome::NotEvaluated, "could not be evaluated"))
        .collect();
    let undecided = named(|row| row.outcome == Outcome::Undecided, "not decided");
    let kind = match (failed.is_empty(), &undecided, all) {
        (_, _, 0) => return String::new(),
        (false, ..) => "bad",
        (true, Some(_), _) => "fair",
        _ => "good",
    };
    let said: Vec<String> = failed.into_iter().chain(undecided).collect();
    let passed = || format!("Passed: {}", counted(all as u64, "condition"));
    let said = if said.is_empty() { vec![passed()] } else { said };
    let line = |said: &String| format!("<p class=\"verdict\">{}</p>\n", with_code(said, breakable));
    let lines: String = said.iter().map(line).collect();
    format!("<div class=\"{kind}\">\n{lines}</div>\n")
}

/// The colour of the answer: that of the stages that the verdict names. Conditions and warnings have boxes of their own.
fn kind(of: &Comparison) -> &'static str {
    match of.outlook() {
        _ if !of.unlike.is_empty() => "fair",
        _ if of.is_doubted() => "fair",
        Outlook::Worse => "bad",
        Outlook::Better => "good",
        // What is marked as worse below does not stand under an all-clear, and neither does a stage of one side.
        Outlook::Same if of.any_worse() || !has_all(of) => "fair",
        // No difference is no success.
        Outlook::Same => "plain",
        _ => "fair",
    }
}

fn has_all(of: &Comparison) -> bool {
    of.of_model().into_iter().all(|stage| stage.presence == Presence::Both)
}

/// A colour of the bars, and what it means.
const NOISE: (&str, &str) = ("noise", "within noise, or the rest");

/// What the mean step of a stage changed by, to the left less, to the right more: a bar for each part, the largest
/// kernels of a class below it, and the rest, so that all bars add up. Grey: noise, or of a kernel that
/// took over from others; hollow: inconclusive, or of unlike sides.
fn bars(stage: &StageChange, of: &Comparison) -> String {
    let parts = stage.parts();
    let named::Shown { rows, sums, longest, is_noise } =
        named::shown_parts(&parts, named::Room { most: BARS, chars: 0, own_from: OWN_BAR });
    if !longest.is_finite() || longest <= 0.0 {
        return String::new();
    }
    // A bar of noise would look like a result.
    let has_bars = !is_noise;
    // Their points are below each other.
    let digits = table_digits(
        rows.iter()
            .flat_map(|part| {
                let kernels = shown_kernels(part, longest).into_iter();
                let kernels = kernels.map(|work| {
                    [&work.before, &work.after].map(|side| side.as_ref().map_or(0.0, |s| s.ns))
                });
                kernels.chain([part.sides_ns]).collect::<Vec<_>>()
            })
            .chain(sums.iter().map(|sum| sum.sides_ns)),
    );
    let row = |class: &str,
               name: &str,
               [a, b]: [Option<f64>; 2],
               bar: &str,
               ns: f64,
               [word, noise]: [&str; 2]| {
        let change = format!("{} ms", signed(ns / 1e6, digits));
        let shown = |ns: f64| grouped(&format!("{:.digits$}", ns / 1e6));
        // Of what reads 0.000 no percentage says anything.
        let percent = a.zip(b).filter(|(a, _)| *a > 0.0 && reads_more(*a));
        let percent = percent.map(|(a, b)| (b - a) * 100.0 / a);
        let percent = percent.map_or_else(String::new, |percent| {
            signed(percent, if percent.abs() < 1000.0 { 1 } else { 0 })
        });
        let [a, b] = [a, b].map(|ns| ns.map_or_else(String::new, shown));
        let bar = if has_bars { format!("<td class=\"bar\">{bar}</td>") } else { String::new() };
        format!(
            "<tr{class}><td>{name}</td><td class=\"n end\">{a}</td><td class=\"n end\">{b}</td>{bar}\
             <td class=\"n\">{change}</td><td class=\"n\">{percent}</td><td class=\"word{}\">{word}</td>\
             <td class=\"n ends\">{}</td></tr>\n",
            colour(word),
            escaped(&tied(noise))
        )
    };
    fn shown_kernels<'c>(part: &PartChange<'c>, longest: f64) -> Vec<&'c WorkChange> {
        let several = part.work.iter().copied().filter(|work| work.change_ns != 0.0);
        let several = several.take(KERNEL_BARS);
        let several = several.filter(|_| part.work.len() > 1 && part.verdict.is_change());
        several.filter(|work| work.change_ns.abs() > longest * LEAST_KERNEL_BAR).collect()
    }
    // A side without bars takes no room.
    let of_parts = rows.iter().flat_map(|part| {
        let kernels = shown_kernels(part, longest).into_iter().map(|work| work.change_ns);
        kernels.chain([part.change_ns]).collect::<Vec<_>>()
    });
    let all = of_parts.chain(sums.iter().map(|sum| sum.ns));
    let (less, more) = all.fold((0.0f64, 0.0f64), |(less, more), ns| (less.max(-ns), more.max(ns)));
    let scale = (100.0 - LEAST_BAR) / (less + more);
    // What is little of the other side is seen as well.
    let axis = (less * scale).clamp(LEAST_BAR, 100.0 - LEAST_BAR);
    let axis = if less == 0.0 { 0.0 } else { axis };
    let axis = if more == 0.0 { 100.0 } else { axis };
    let bar = |ns: f64, is_change: bool, is_judged: bool| {
        if !has_bars {
            return String::new();
        }
        let width = (ns.abs() * scale).max(LEAST_BAR);
        let x = if ns > 0.0 { axis } else { axis - width };
        let fill = match (is_change, ns > 0.0) {
            _ if !is_change && !is_judged => "open",
            (false, _) => "noise",
            (true, true) => "more",
            (true, false) => "less",
        };
        format!(
            "<svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect \
             class=\"{fill}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"1\"/><rect class=\"axis\" \
             x=\"{:.2}\" width=\"0.2\" height=\"1\"/></svg>",
            axis - 0.1
        )
    };
    let titled = |short: &str, full: &str| {
        format!("<span title=\"{}\">{}</span>", attribute(full), breakable(short))
    };
    let kernels = |part: &PartChange<'_>| -> String {
        let kernel = |work: &WorkChange| {
            let name = titled(
                &named::work_name(work, BAR_NAME_CHARS),
                &named::work_name(work, usize::MAX),
            );
            let sides = [&work.before, &work.after].map(|side| side.as_ref().map_or(0.0, |s| s.ns));
            // The change of one that took over from others says little of its class: grey, whatever its verdict.
            let is_change = work.verdict.is_change() && !part.is_swap(work);
            let bar = bar(work.change_ns, is_change, work.noise.is_judged());
            let noise = work.noise_text().unwrap_or_default();
            let said = [work.word(), &noise];
            row(" class=\"part\"", &name, sides.map(Some), &bar, work.change_ns, said)
        };
        shown_kernels(part, longest).into_iter().map(kernel).collect()
    };
    let part = |part: &&PartChange<'_>| {
        let short = named::part_name(stage, part, BAR_NAME_CHARS);
        let name = titled(&short, part.cause.unwrap_or(&short));
        let bar = bar(part.change_ns, part.is_beyond_noise(), part.is_judged());
        let class = if has_bars { "" } else { " class=\"soft\"" };
        let noise = part.noise_text().unwrap_or_default();
        let said = [part.word(), &noise];
        row(class, &name, part.sides_ns.map(Some), &bar, part.change_ns, said) + &kernels(part)
    };
    let sum = |sum: &named::Sum| {
        let bar = bar(sum.ns, sum.is_change, sum.is_judged);
        let name = breakable(&sum.name);
        let is_rest = sum.parts.is_empty();
        let name = match sum.is_mixed() {
            // The label has to name all that it counts.
            true if !sum.name.contains(": ") => {
                format!("{} more <small>({})</small>", sum.parts.len(), escaped(&sum.words()))
            }
            true => format!("{name} <small>({})</small>", escaped(&sum.words())),
            false if is_rest && sum.sides_ns.iter().any(|ns| *ns < 0.0) => {
                format!("{name} <small>({COUNTED_TWICE})</small>")
            }
            false => name,
        };
        row(" class=\"soft\"", &name, sum.sides_ns.map(Some), &bar, sum.ns, ["", ""])
    };
    let bars: String = rows.iter().map(part).chain(sums.iter().map(sum)).collect();
    let per = stage.per_word();
    // All bars add up to it.
    let total = parts.whole.map(|whole| {
        let (name, sides) =
            (capitalised(&format!("{} per {per}", named::WINDOW)), parts.sides_ns.map(Some));
        let noise = super::tables::noise_cell(whole);
        row(" class=\"sum apart\"", &name, sides, "", parts.change_ns, [stage.word(whole), &noise])
    });
    let bars = bars + &total.unwrap_or_default();
    let in_sums: Vec<&PartChange<'_>> = sums.iter().flat_map(|sum| &sum.parts).copied().collect();
    let open = named::why_open(&parts, sums.iter().any(|sum| sum.is_mixed()));
    let beyond = screen::beyond(of);
    let [more, less] = ["longer", "shorter"].map(|word| format!("{word}, {beyond}"));
    let legend = [("more", more.as_str()), ("less", less.as_str()), NOISE, ("open", open.as_str())]
        .into_iter();
    let legend = legend.filter(|(fill, _)| bars.contains(&format!("class=\"{fill}\"")));
    let legend: String = legend
        .map(|(fill, meaning)| {
            format!(
                "<span><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"{fill}\" width=\"1\" height=\"1\"/>\
                 </svg> {meaning}</span>\n"
            )
        })
        .collect();
    // Without bars the words stand in the table, and below the page what they mean.
    let legend = if has_bars { legend } else { String::new() };
    let means = if of.is_of_two_runs() { "" } else { MEANS };
    let smaller = smaller(stage, &in_sums);
    let limits = if bars.contains(">too small<") { LIMITS } else { "" };
    let notes: Vec<String> =
        [legend, means.to_owned(), limits.to_owned(), gaps(stage, &parts, &in_sums)].into();
    let notes = notes.iter().filter(|note| !note.is_empty());
    let notes: String = notes.map(|note| format!("<p class=\"legend\">{note}</p>\n")).collect();
    format!(
        "<div class=\"table\"><table class=\"bars\">\n<thead><tr><th>Part of the {} per {per}</th><th class=\"n\">\
         Before (ms)</th><th class=\"n\">After (ms)</th>{}<th class=\"n\">Change</th>\
         <th class=\"n\">Change (%)</th><th>Difference</th><th class=\"n\">± or interval</th></tr></thead>\n\
         <tbody>\n{bars}</tbody></table></div>\n{notes}{}",
        named::WINDOW,
        if has_bars { "<th>← shorter, longer →</th>" } else { "" },
        smaller
    )
}

/// Digits behind the point of times of so many ns on each side, in ms, that show the changes of all.
fn table_digits(sides: impl Iterator<Item = [f64; 2]>) -> usize {
    let small = sides.filter(|[a, b]| a.max(*b) < 1e6);
    let digits = small.map(|[a, b]| digits_to_subtract(a / 1e6, b / 1e6, MS_DIGITS));
    digits.max().unwrap_or(MS_DIGITS)
}

const MS_DIGITS: usize = 3;

/// Whether a time reads more than 0.000 ms.
fn reads_more(ns: f64) -> bool {
    ns >= 500.0
}

/// The limits of the parts, which are not only that of the line `noise`.
const LIMITS: &str = "Too small: less than the minimum change that the line Noise gives, or a cause of less than 1\u{a0}% of the idle \
                      time, or a kernel of less than 0.1\u{a0}% of the GPU work.";

/// Behind a rest that is less than nothing.
const COUNTED_TWICE: &str = "negative, because concurrent work is counted in every part";

/// Launch gaps next to the causes of the same idle time, where they say more.
fn gaps(stage: &StageChange, parts: &Parts<'_>, unnamed: &[&PartChange<'_>]) -> String {
    let unnamed = unnamed.iter().copied();
    let said = screen::other_breakdown(stage, parts, unnamed, "All numbers");
    said.map_or_else(String::new, |said| escaped(&capitalised(&said)))
}

/// The parts that share a bar, each by itself.
fn smaller(stage: &StageChange, parts: &[&PartChange<'_>]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let digits = table_digits(parts.iter().map(|part| part.sides_ns));
    let side = |part: &PartChange<'_>, at: usize| {
        grouped(&format!("{:.digits$}", part.sides_ns[at] / 1e6))
    };
    let table = Table::new(parts)
        .left(&format!("part of the {} per {}", named::WINDOW, stage.per_word()), |part| {
            text(&named::part_name(stage, part, BAR_NAME_CHARS))
        })
        .right("before (ms)", |part| side(part, 0))
        .right("after (ms)", |part| side(part, 1))
        .right("change (ms)", |part| signed(part.change_ns / 1e6, digits))
        .left("difference", |part| part.word().to_owned())
        .left(super::tables::NOISE, |part| {
            part.noise_text().unwrap_or_else(|| super::ABSENT.to_owned())
        })
        .markdown();
    let what = match parts.len() {
        1 => "1 smaller part".to_owned(),
        several => format!("{}, one by one", counted(several as u64, "smaller part")),
    };
    let limits = if table.contains("too small") {
        format!("<p class=\"legend\">{LIMITS}</p>\n")
    } else {
        String::new()
    };
    format!(
        "<details class=\"smaller\">\n<summary>{what}</summary>\n{}{limits}</details>\n",
        marked(&table)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_diff::MetricChange;

    /// The page of the sample of a server before and after a change, and its comparison.
    fn sample() -> (String, Diff) {
        let report = |name: &str| {
            let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sample");
            let bytes = std::fs::read(format!("{samples}/{name}/metrics.json")).expect(name);
            stage2_diff::read_report(&bytes).expect(name).report
        };
        let (old, new) = (report("vllm_sorting"), report("vllm_server"));
        let run = |label, report| stage2_diff::Run { label, report, left_out: &[] };
        let of = stage2_diff::compare(&[run("a", &old)], &[run("b", &new)], &[], false);
        let diff = Diff::of(vec![of.expect("a comparison")], String::new());
        (html(&diff, &BTreeMap::new()), diff)
    }

    #[test]
    fn what_users_of_a_server_feel_is_among_the_stages() {
        let (_, mut diff) = sample();
        let of = &mut diff.comparisons[0];
        let first =
            of.stages.iter().find_map(|stage| stage.metric("ttft_ms")).expect("one").clone();
        of.run.push(MetricChange { metric: "request_ms".to_owned(), ..first });
        let page = html(&diff, &BTreeMap::new());
        let stages = page.split_once("id=\"stages\"").and_then(|(_, rest)| rest.split_once("<h2"));
        let table = stages.and_then(|(_, rest)| rest.split_once("</table>")).expect("a table").0;
        for text in ["median time to first token, ms", "(whole run)", "run.request_ms"] {
            assert!(table.contains(text), "{text}: {table}");
        }
        assert!(page.contains("<span class=\"word\">--scheduler-cls</span>"), "options are whole");
        assert!(
            table.replace('\u{a0}', " ").contains("<td data-of=\"± or\">± 5.0 % (min)<"),
            "{table}"
        );
        // The verdict's request takes precedence over a stage that is not comparable.
        let rows = |height| screen::screen(&diff.comparisons[0], 80, height).join("\n");
        let at = |text: &str| rows(40).find(text).unwrap_or_else(|| panic!("{text}: {}", rows(40)));
        assert!(at("\nrequest  p50 ") < at("\nprefill  p50 "));
        assert!(at("  not comparable: 512 vs 811 prompt tokens\n") < at("\ndecode: mean"));
        let request = diff.comparisons[0].run.iter_mut().find(|row| row.metric == "request_ms");
        let request = request.expect("one");
        request.verdict = stage2_diff::Verdict::Decreased;
        diff.comparisons[0].differences.clear();
        let low = screen::screen(&diff.comparisons[0], 80, 24).join("\n");
        let is_told = low.contains("not comparable: prefill; more: --full (");
        assert!(low.contains("\nprefill  p50 ") != is_told, "no stage is silently gone: {low}");
        assert!(low.contains("a request is ") && low.contains("\nrequest  p50 "), "{low}");
        assert!(
            low.contains("\nnoise       ± within runs, (min): 5 % of the larger value"),
            "{low}"
        );
        let script =
            page.rsplit_once("<script>").and_then(|(_, rest)| rest.split_once("</script>"));
        let allowed = format!("script-src '{}'", hash(script.expect("a script").0));
        assert!(page.contains(&allowed), "the policy names the script");
    }

    #[test]
    fn times_of_a_table_of_bars_have_as_many_decimals() {
        let (page, _) = sample();
        for table in page.split("<table class=\"bars\">").skip(1) {
            let (table, _) = table.split_once("</table>").expect("an end");
            let times = table.split("<td class=\"n end\">").skip(1);
            let times = times.filter_map(|cell| cell.split_once('<')?.0.split_once('.'));
            let decimals: Vec<usize> = times.map(|(_, decimals)| decimals.len()).collect();
            assert!(decimals.iter().all(|number| Some(number) == decimals.first()), "{table}");
        }
    }

    #[test]
    fn bars_of_an_outlier_say_so() {
        let (page, mut diff) = sample();
        assert!(!page.contains("an outlier"));
        let of = &mut diff.comparisons[0];
        let run = of.after[0].clone();
        of.after = ["b1", "b2", "b3"]
            .map(|label| ComparedRun { label: label.into(), ..run.clone() })
            .into();
        let name = of.stages[0].time().expect("a time").metric.clone();
        let time = of.stages[0].metrics.iter_mut().find(|row| row.metric == name);
        time.expect("it").after_runs = vec![15.4, 10.0, 10.1];
        assert!(html(&diff, &BTreeMap::new()).contains("; the means include b1, an outlier</h2>"));
        let shown = screen::screen(&diff.comparisons[0], 120, 60).join("\n").replace('\n', " ");
        assert!(shown.contains("; the means include b1, an outlier "), "{shown}");
    }

    #[test]
    fn a_cause_that_no_bar_proves_is_probable() {
        let (_, mut diff) = sample();
        let of = &mut diff.comparisons[0];
        assert!(
            verdict_in_words(of, 60)
                .contains(" (gone: priority (sorting_scheduler.py), idle -0.89 ms)")
        );
        for stage in &mut of.stages {
            for cause in &mut stage.host {
                cause.verdict = stage2_diff::Verdict::None;
                cause.noise.method = stage2_diff::NoiseMethod::OneRunEach;
                cause.word = "inconclusive".to_owned();
                cause.after = cause.after.map(|ms| ms + 0.01);
            }
        }
        let said = verdict_in_words(of, 60);
        assert!(said.contains(" (probably GPU idle, -1.1"), "{said}");
    }

    #[test]
    fn an_interval_and_a_unit_stay_together() {
        let said =
            tied("-38.7 % [-44.9, -26.5] (-4.88 ms), [a, b], ± 5.0 %").replace('\u{a0}', "_");
        assert_eq!(said, "-38.7_% [-44.9,_-26.5] (-4.88_ms), [a, b], ±_5.0_%");
    }
}
