//! A question about a run -> a short answer, for programs and agents.

use std::path::Path;

use stage2_ask::{AskError, Budget, Question, answer, compare};
use stage2_contract::text::{instead, visible, visible_path};
use stage2_diff::{ReadReport, Run};

use super::diff::{metrics_of, whole_report_of};
use super::ending::printed;
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::terminal::Terminal;

pub(crate) fn ask(args: &AskArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let question: Question = match args.question.parse() {
        Ok(question) => question,
        Err(_) => {
            // The list is the answer.
            printed(&format!("{}\n", Question::list()))?;
            let asked = visible(args.question.as_bytes());
            return Err(Failure::Usage(format!(
                "there is no question `{asked}`{}",
                one_like(&args.question)
                    .unwrap_or_else(|| instead(&args.question, &Question::names()))
            )));
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
    printed(&if args.json { found.to_json(budget) } else { found.to_markdown(budget) })
}

/// The question that one of its words stands for: `rank` is `late-ranks`.
fn one_like(asked: &str) -> Option<String> {
    let stem = asked.trim_end_matches('s');
    let has_it = |name: &&str| name.split('-').any(|part| part.trim_end_matches('s') == stem);
    Question::names().into_iter().find(has_it).map(|name| format!("; did you mean `{name}`?"))
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
