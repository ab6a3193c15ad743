//! A question about a run -> a short answer, for programs and agents.

use std::io::IsTerminal as _;
use std::path::Path;

use stage2_ask::{AskError, Budget, Question, answer, compare};
use stage2_contract::text::{most_like, shorten, visible, visible_path};
use stage2_diff::{ReadReport, Run};

use super::diff::{metrics_of, whole_report_of};
use super::ending::printed;
use crate::bundle::run_named;
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::terminal::{Terminal, width};

/// Characters of a question that an error repeats.
const ASKED_CHARS: usize = 100;
/// Columns of a terminal that does not say how wide it is.
const WIDTH: usize = 80;

pub(crate) fn ask(args: &AskArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let question: Question = match args.question.parse() {
        Ok(question) => question,
        Err(_) => {
            let asked = visible(args.question.as_bytes());
            if Path::new(&args.question).exists() && !args.run.exists() {
                let run = crate::plan::quote(&args.question);
                let word = args.run.to_string_lossy();
                let asked = word.parse::<Question>().ok().map(|_| word.as_ref());
                let wrong = if let Some(asked) = asked.or_else(|| meant(&word)) {
                    format!("the run comes before the question: stage2-launch ask {run} {asked}")
                } else {
                    printed(&format!("{}\n", Question::list()))?;
                    let word = visible(word.as_bytes());
                    format!(
                        "the run comes before the question: stage2-launch ask {run} QUESTION; there is no \
                         question `{word}`"
                    )
                };
                return Err(Failure::Usage(wrong));
            }
            let meant = meant(&args.question);
            if meant.is_none() {
                // The list is the answer.
                printed(&format!("{}\n", Question::list()))?;
            }
            let hint = match meant {
                Some(meant) => format!("; did you mean `{meant}`?"),
                None if asked.contains(' ') => "; `summary` is the one to begin with".to_owned(),
                None => String::new(),
            };
            let asked = shorten(&asked, ASKED_CHARS);
            return Err(Failure::Usage(format!("there is no question `{asked}`{hint}")));
        }
    };
    if args.other.is_some() && question != Question::Compare {
        let text =
            format!("`{}` is about one run: only compare takes a second one", question.name());
        return Err(Failure::Usage(text));
    }
    if args.other.is_none() && question == Question::Compare {
        return Err(refused(AskError::OneRun));
    }
    let word = args.run.to_string_lossy();
    if let Some(meant) = meant(&word).filter(|_| !run_named(&args.run).exists()) {
        return Err(Failure::Usage(format!(
            "there is no run `{}`; the run comes before the question: stage2-launch ask RUN {meant}",
            visible(word.as_bytes())
        )));
    }
    let label = visible_path(&args.run);
    let read = read_run(&args.run, terminal)?;
    let run = Run { label: &label, report: &read.report, left_out: &read.left_out };
    let stage = args.stage.as_deref();
    let found = match &args.other {
        None => answer(&run, question, stage),
        Some(other) => {
            let label = visible_path(other);
            let read = read_run(other, terminal)?;
            let other = Run { label: &label, report: &read.report, left_out: &read.left_out };
            compare(&run, &other, stage)
        }
    };
    let found = found.map_err(refused)?;
    let budget = args.budget.map_or(Budget::Usual, Budget::Tokens);
    let stdout = std::io::stdout();
    printed(&match (args.json, stdout.is_terminal()) {
        (true, _) => found.to_json(budget),
        // COLUMNS alone makes no terminal of a pipe: programs read Markdown.
        (false, true) => found.to_text(budget, width(&stdout).unwrap_or(WIDTH)),
        (false, false) => found.to_markdown(budget),
    })
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

/// The question that has a word in its name, in singular or plural.
fn named(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    let stem = word.trim_end_matches('s');
    let has_it = |name: &&str| name.split('-').any(|part| part.trim_end_matches('s') == stem);
    Question::names().into_iter().find(has_it)
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
