//! A question about a run -> a short answer, for programs and agents.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anstyle::Style;
use stage2_ask::next::command_lines;
use stage2_ask::sentence::{Refused, is_filler, meant as question_meant, read as read_sentence};
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
    let word = args.run.to_string_lossy();
    let is_of_run = run_named(&args.run).exists() || args.run.as_os_str() == LATEST;
    let is_swapped = Path::new(&args.question).exists();
    // Of a mistyped `latest`, reading the run says so.
    let is_latest = most_like(&word, [LATEST]).is_some();
    if let Some(meant) = meant(&word).filter(|_| !is_of_run && !is_swapped && !is_latest) {
        return Err(Failure::Usage(format!(
            "there is no run `{}`; the run comes before the question: stage2-launch ask RUN {meant}",
            visible(word.as_bytes())
        )));
    }
    let Asked { question, stage, other } = asked_by(args, terminal)?;
    let stdout = std::io::stdout();
    // COLUMNS alone makes no terminal of a pipe: programs read Markdown.
    let is_for_person = stdout.is_terminal() && !args.json;
    if is_for_person && stage.is_none() && !args.all && args.budget.is_none() {
        match (question, &other) {
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
    let stage = stage.as_deref();
    let found = match &other {
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

/// What is asked: a question, of a stage, of one run or two.
struct Asked {
    question: Question,
    stage: Option<String>,
    other: Option<PathBuf>,
}

/// What the words after the run ask: one question, or a sentence that names it.
fn asked_by(args: &AskArgs, terminal: &Terminal) -> Result<Asked, Failure> {
    let others: Vec<&PathBuf> = args.other.iter().chain(&args.rest).collect();
    let first: Option<Question> = args.question.parse().ok();
    let stage = args.stage.clone();
    if let Some(Question::Compare) = first {
        let is_run = |other: &&&PathBuf| run_named(other).exists() || !is_word(other);
        let is_given = |other: &&&PathBuf| is_run(other) || !is_filler(&other.to_string_lossy());
        let mut runs = others.iter().filter(is_given);
        let other = runs.next().ok_or_else(|| refused(AskError::OneRun))?;
        if let Some(third) = runs.next() {
            return Err(Failure::Usage(format!(
                "compare takes two runs, and `{}` is a third one; stage2-launch diff compares several",
                visible_path(third)
            )));
        }
        return Ok(Asked { question: Question::Compare, stage, other: Some((*other).clone()) });
    }
    let (runs, words): (Vec<&PathBuf>, Vec<&PathBuf>) =
        others.into_iter().partition(|other| run_named(other).exists() || !is_word(other));
    let is_sentence = args.question.trim().contains(' ') || !words.is_empty();
    if !is_sentence && let Some(question) = first {
        return match &*runs {
            [] => Ok(Asked { question, stage, other: None }),
            _ => Err(one_run(question)),
        };
    }
    if Path::new(&args.question).exists() && !run_named(&args.run).exists() {
        return Err(no_question(args));
    }
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let said = [&[args.question.as_str().into()], &*words].concat().join(" ");
    let read = read_run(&args.run, terminal)?;
    let stages = read.report.answer.stages.iter().map(|stage| stage.stage.as_str());
    let found = match read_sentence(&said, stages, !runs.is_empty()) {
        Ok(found) => found,
        Err(Refused::NoQuestion(_)) if !is_sentence => return Err(no_question(args)),
        Err(why) => return Err(not_understood(&why, args)),
    };
    let question = found.question;
    let other = match *runs {
        [] if question == Question::Compare => return Err(refused(AskError::OneRun)),
        [other] if question == Question::Compare => Some(other.clone()),
        [] => None,
        _ => return Err(one_run(question)),
    };
    if let (Some(named), Some(given)) = (&found.stage, &stage)
        && named != given
    {
        let [named, given] = [named, given].map(|stage| visible(stage.as_bytes()));
        let text = format!("the question names the stage `{named}`, and --stage names `{given}`");
        return Err(Failure::Usage(text));
    }
    let stage = stage.or(found.stage);
    // Not among the warnings: it is what the answer has to be read with.
    let of = stage.as_ref().map_or_else(String::new, |stage| {
        format!(" for the stage `{}`", visible(stage.as_bytes()))
    });
    terminal.result(&format!("answering `{}`{of}", question.name()));
    Ok(Asked { question, stage, other })
}

fn one_run(question: Question) -> Failure {
    let text = format!("`{}` is about one run: only compare takes a second one", question.name());
    Failure::Usage(text)
}

/// Why a sentence is not answered, with the list of what is.
fn not_understood(why: &Refused, args: &AskArgs) -> Failure {
    let run = quote(&args.run);
    match why {
        Refused::Words { question, .. } => {
            return Failure::Usage(format!("{why}: stage2-launch ask {run} {}", question.name()));
        }
        Refused::Stages(_) | Refused::MemoryUsed => return Failure::Usage(why.to_string()),
        Refused::NoQuestion(_) | Refused::Several(_) => {}
    }
    list();
    Failure::Usage(why.to_string())
}

/// Whether it looks like a word of a sentence, and not like a path.
fn is_word(other: &Path) -> bool {
    let word = other.to_string_lossy();
    let is_of_word = |c: char| c.is_alphanumeric() || ['\'', '-', '(', ')'].contains(&c);
    word.trim_end_matches(['?', '.', ',', '!']).split(' ').all(|word| word.chars().all(is_of_word))
}

/// That a question does not exist, with the list where it is like none, and with the order of the words where it is a run.
fn no_question(args: &AskArgs) -> Failure {
    let asked = visible(args.question.as_bytes());
    if Path::new(&args.question).exists() && !args.run.exists() {
        let run = quote(&args.question);
        let word = args.run.to_string_lossy();
        let asked = word.parse::<Question>().ok().map(Question::name);
        let wrong = if let Some(asked) = asked.or_else(|| near(&word)) {
            format!("the run comes before the question: stage2-launch ask {run} {asked}")
        } else {
            list();
            let word = visible(word.as_bytes());
            format!(
                "the run comes before the question: stage2-launch ask {run} QUESTION; there is no question \
                 `{word}`"
            )
        };
        return Failure::Usage(wrong);
    }
    let near = near(&args.question);
    if near.is_none() {
        list();
    }
    let hint = near.map_or_else(
        || "; choose one of the list".to_owned(),
        |near| format!("; did you mean `{near}`?"),
    );
    let asked = shorten(&asked, ASKED_CHARS);
    Failure::Usage(format!("there is no question `{asked}`{hint}"))
}

/// The questions, in front of the error: a reader of stdout waits for an answer.
fn list() {
    let _ = writeln!(anstream::stderr(), "{}", Question::list());
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
    // The path of the run once: it may be long.
    let mut next = found.questions_next();
    if let Some(first) = next.next() {
        let labels = std::iter::once("ask").chain(std::iter::repeat(""));
        lines.extend(labels.zip(command_lines(&first, room)));
        let last = |mut words: Vec<String>| words.pop();
        let others: Vec<String> = next.filter_map(last).collect();
        if let Some(question) = last(first).filter(|_| !others.is_empty()) {
            lines.push(("", format!("or, instead of {question}: {}", others.join(", "))));
        }
    }
    let status = read.report.coverage.verdict.status;
    let lines: Vec<(&str, String, Style)> =
        lines.into_iter().map(|(label, text)| (label, text, style_of(label, status))).collect();
    printed(&laid_out(&lines, width))
}

/// The name of the question that a word or a sentence stands for.
fn meant(asked: &str) -> Option<&'static str> {
    let of_sentence = || Some(read_sentence(asked, [], false).ok()?.question);
    let question = if asked.contains(' ') { of_sentence() } else { question_meant(asked) };
    question.map(Question::name)
}

/// What a mistyped word stands for: the name of a question, or one of the other words for one.
fn near(asked: &str) -> Option<&'static str> {
    let others = || Question::all().flat_map(|question| question.aliases().iter().copied());
    meant(asked).or_else(|| most_like(asked, others()))
}

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
