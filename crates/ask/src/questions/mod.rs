//! The questions, each with its answer.

use stage2_diff::Run;

use crate::answer::Answer;
use crate::question::{AskError, Question};

/// Answers a question about a run, or about one stage of it.
///
/// # Errors
/// When the run has no such stage, or the question needs a second run.
pub fn answer(run: &Run<'_>, question: Question, stage: Option<&str>) -> Result<Answer, AskError> {
    Ok(Answer::new(question.name(), run.label, stage))
}

/// Answers what changed between two runs.
///
/// # Errors
/// When they cannot be compared, or neither has the stage.
pub fn compare(before: &Run<'_>, after: &Run<'_>, stage: Option<&str>) -> Result<Answer, AskError> {
    let _ = after;
    Ok(Answer::new(Question::Compare.name(), before.label, stage))
}
