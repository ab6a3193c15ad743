//! A question about a run -> a short answer, for programs and agents.

use std::io::IsTerminal as _;
use std::path::Path;

use anstyle::Style;
use stage2_ask::next::command_lines;
use stage2_ask::{AskError, Budget, Question, Size, answer, compare};
use stage2_contract::text::{most_like, shorten, visible, visible_path};
use stage2_diff::{ReadReport, Run};
use stage2_render::headline;

use super::diff::{diff, metrics_of, whole_report_of};
use super::ending::{PAGE, printed, shown, style_of};
use super::next::next;
use crate::bundle::{LATEST, run_named};
use crate::cli::{AskArgs, DiffArgs, NextArgs};
use crate::failure::Failure;
use crate::plan::quote;
use crate::terminal::{Terminal, height, laid_out, width};

/// Characters of a question that an error repeats.
const ASKED_CHARS: usize = 100;
/// Columns in front of the texts of a summary: `coverage: `.
const LABEL_WIDTH: usize = 10;
/// Columns of a terminal that does not say how wide it is.
pub(super) const WIDTH: usize = 80;

pub(crate) fn ask(args: &AskArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let question = question_of(args, terminal)?;
    let word = args.run.to_string_lossy();
    let is_of_run = run_named(&args.run).exists() || args.run.as_os_str() == LATEST;
    if let Some(meant) = meant(&word).filter(|_| !is_of_run) {
        return Err(Failure::Usage(format!(
            "there is no run `{}`; the run comes before the question: stage2-launch ask RUN {meant}",
            visible(word.as_bytes())
        )));
    }
    let stdout = std::io::stdout();
    // COLUMNS alone makes no terminal of a pipe: programs read Markdown.
    let is_for_person = stdout.is_terminal() && !args.json;
    if is_for_person && args.stage.is_none() && !args.all && args.budget.is_none() {
        match (question, &args.other) {
            (Question::Summary, _) => return summary(&args.run, terminal),
            (Question::Next, _) => return next(NextArgs { run: args.run.clone(), json: false }),
            (Question::Compare, Some(other)) => {
                return diff(DiffArgs::of(args.run.clone(), other.clone()), terminal);
            }
            _ => {}
        }
    }
    let label = visible_path(&args.run);
    let read = read_run(&args.run, terminal)?;
    let run = Run { label: &label, report: &read.report, left_out: &read.left_out };
    let stage = args.stage.as_deref();
    let other = args.other.as_ref().filter(|_| question == Question::Compare);
    let found = match other {
        None => answer(&run, question, stage),
        Some(other) => {
            let label = visible_path(other);
            let read = read_run(other, terminal)?;
            let other = Run { label: &label, report: &read.report, left_out: &read.left_out };
            compare(&run, &other, stage)
        }
    };
    let found = found.map_err(refused)?;
    let budget = match (args.all, args.budget) {
        (true, _) => Budget::ALL,
        (false, Some(tokens)) => Budget::Tokens(tokens),
        (false, None) => Budget::Usual,
    };
    let size = Size { width: width(&stdout).unwrap_or(WIDTH), height: height(&stdout) };
    printed(&match (args.json, is_for_person) {
        (true, _) => found.to_json(budget),
        (false, true) => found.to_text(budget, size),
        (false, false) => found.to_markdown(budget),
    })
}

/// The question that is asked, and that it fits the other words. Of a sentence, the one that it has a word of, or else
/// the summary.
fn question_of(args: &AskArgs, terminal: &Terminal) -> Result<Question, Failure> {
    let is_quoted = args.question.trim().contains(' ') && !Path::new(&args.question).exists();
    let others = || args.other.iter().chain(&args.rest);
    let are_words =
        others().count() > 0 && others().all(|other| !run_named(other).exists() && is_word(other));
    let first: Option<Question> = args.question.parse().ok();
    if (is_quoted || are_words) && first != Some(Question::Compare) {
        let rest = others().map(|word| word.to_string_lossy().into());
        let words: Vec<String> = std::iter::once(args.question.clone()).chain(rest).collect();
        let asked = meant(&words.join(" ")).and_then(|meant| meant.parse().ok());
        let asked = asked.filter(|asked| *asked != Question::Compare).unwrap_or(Question::Summary);
        // Not among the warnings: it is what the answer has to be read with.
        terminal
            .result(&format!("a question is one word; this is the answer to `{}`", asked.name()));
        return Ok(asked);
    }
    let question = first.ok_or_else(|| no_question(args))?;
    if args.other.is_some() && question != Question::Compare {
        let text =
            format!("`{}` is about one run: only compare takes a second one", question.name());
        return Err(Failure::Usage(text));
    }
    if args.other.is_none() && question == Question::Compare {
        return Err(refused(AskError::OneRun));
    }
    if let Some(other) = args.rest.first() {
        let other = visible_path(other);
        return Err(Failure::Usage(format!(
            "compare takes two runs, and {other} is a third one; stage2-launch diff compares several"
        )));
    }
    Ok(question)
}

/// Whether it looks like a word of a sentence, and not like a path.
fn is_word(other: &Path) -> bool {
    let word = other.to_string_lossy();
    word.trim_end_matches(['?', '.', ',', '!']).chars().all(|c| c.is_alphabetic() || c == '\'')
}

/// That a question does not exist, with the list where it is like none, and with the order of the words where it is a run.
fn no_question(args: &AskArgs) -> Failure {
    let list = || printed(&format!("{}\n", Question::list())).map(|_| ());
    let asked = visible(args.question.as_bytes());
    if Path::new(&args.question).exists() && !args.run.exists() {
        let run = quote(&args.question);
        let word = args.run.to_string_lossy();
        let asked = word.parse::<Question>().ok().map(Question::name);
        let wrong = if let Some(asked) = asked.or_else(|| meant(&word)) {
            format!("the run comes before the question: stage2-launch ask {run} {asked}")
        } else if let Err(failure) = list() {
            return failure;
        } else {
            let word = visible(word.as_bytes());
            format!(
                "the run comes before the question: stage2-launch ask {run} QUESTION; there is no question \
                 `{word}`"
            )
        };
        return Failure::Usage(wrong);
    }
    let meant = meant(&args.question);
    // The list is the answer.
    if meant.is_none()
        && let Err(failure) = list()
    {
        return failure;
    }
    let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let asked = shorten(&asked, ASKED_CHARS);
    Failure::Usage(format!("there is no question `{asked}`{hint}"))
}

/// The run for a person: what its console said at the end, and the commands that lead on.
fn summary(given: &Path, terminal: &Terminal) -> Result<u8, Failure> {
    let label = visible_path(given);
    let path = metrics_of(given)?;
    let read = read_run(given, terminal)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let told = headline(&read.report, folder);
    let mut lines = shown(&told.answer);
    let page = folder.join(PAGE);
    if page.exists() {
        lines.push(("report", visible_path(&page)));
    }
    let run = Run { label: &label, report: &read.report, left_out: &read.left_out };
    let found = answer(&run, Question::Summary, None).map_err(refused)?;
    let width = width(&std::io::stdout()).unwrap_or(WIDTH);
    let room = width.saturating_sub(LABEL_WIDTH);
    let commands = found.questions_next().flat_map(|words| command_lines(&words, room));
    let labels = std::iter::once("ask").chain(std::iter::repeat(""));
    lines.extend(labels.zip(commands));
    let status = read.report.coverage.verdict.status;
    let lines: Vec<(&str, String, Style)> =
        lines.into_iter().map(|(label, text)| (label, text, style_of(label, status))).collect();
    printed(&laid_out(&lines, width))
}

/// The question that a word, or one of its words, stands for: `rank` is `late-ranks`.
fn meant(asked: &str) -> Option<&'static str> {
    if asked.contains(' ') {
        // Of a sentence, the first word that is the name of a question, or a part of one.
        let words = asked.split(|c: char| !c.is_alphanumeric() && c != '-');
        return words.filter(|word| word.len() >= LEAST_OF_PART).find_map(named);
    }
    let names = Question::names();
    let near = || most_like(asked, names.iter().copied());
    let by_part = || {
        let parts = names.iter().flat_map(|name| name.split('-'));
        let part = most_like(asked, parts.filter(|part| part.len() >= LEAST_OF_PART))?;
        names.iter().copied().find(|name| name.split('-').any(|of| of == part))
    };
    named(asked).or_else(near).or_else(by_part)
}

/// The question that has a word in its name, in singular or plural, goes by it, or is about it.
fn named(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    if let Ok(question) = word.parse::<Question>() {
        return Some(question.name());
    }
    let stem = word.trim_end_matches('s');
    let has_it = |name: &&str| name.split('-').any(|part| part.trim_end_matches('s') == stem);
    let by_hint = || {
        let mut all = Question::all();
        Some(all.find(|question| question.hints().contains(&&*word))?.name())
    };
    Question::names().into_iter().find(has_it).or_else(by_hint)
}

/// Letters of a part of a question that a mistyped word may stand for.
const LEAST_OF_PART: usize = 4;

/// The report of a run.
pub(super) fn read_run(given: &Path, terminal: &Terminal) -> Result<ReadReport, Failure> {
    terminal.detail(&format!("reading {}", visible_path(given)));
    whole_report_of(&metrics_of(given)?)
}

fn refused(error: AskError) -> Failure {
    match error {
        AskError::NotComparable(why) => Failure::NoResult(why),
        error => Failure::Usage(error.to_string()),
    }
}
