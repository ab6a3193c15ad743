//! A sentence -> the question that a word of it names, and the stage. What is not understood is refused: an answer to
//! something else looks like the answer.

use std::collections::BTreeSet;

use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::{most_like, shorten, visible};

use crate::question::Question;

/// Several words that lead somewhere else than each of them.
const PHRASES: [(&str, &str); 6] = [
    (" first token ", " ttft "),
    (" all reduce ", " allreduce "),
    (" all gather ", " allgather "),
    (" floating point ", " mfu "),
    (" memory bandwidth ", " bandwidth "),
    (" host memory ", " host memory-used "),
];
/// Words that ask how much memory is in use, which no report has.
const OF_USE: [&str; 12] = [
    "used",
    "use",
    "uses",
    "using",
    "usage",
    "allocated",
    "allocations",
    "footprint",
    "consumption",
    "leak",
    "oom",
    "capacity",
];
/// What a sentence holds besides what it asks for.
const FILLERS: &str = "a about after all am an and any are as at be because been before between but by can cause caused \
     causes could describe did do does doing each every explain find for from get gets give go goes gpu gpus had happen \
     happening happens has have her how i if in inference into is it its job large largest like list long longest look lose \
     loses many me model more most much my need of often on or other our out over part please problem program run runs s \
     server share should show so some spend spends spent stage take taken takes taking tell than that the their them there \
     these they thing things this those to top total two under use used using vs want was we were what what's when where \
     whether which while who whole whose why will with work workload worst would you your \
     actually again already bad even good help here into just know main make makes now only per really reason see single still \
     too understand until very wait waiting waits waste wasted wastes were wrong";
/// Words shown in an error.
const SHOWN: usize = 5;
/// Letters of a word that a mistyped one may stand for.
const LEAST_MISTYPED: usize = 4;

/// What a sentence asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The question.
    pub question: Question,
    /// The stage that it names.
    pub stage: Option<String>,
}

/// Why a sentence has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No word of it names a question.
    #[error("no word of `{0}` names a question")]
    NoQuestion(String),
    /// It has words that are not understood.
    #[error("no stage and no question is called {words}; `{}` alone is a question", .question.name())]
    Words {
        /// These words.
        words: String,
        /// The question that the other words name.
        question: Question,
    },
    /// It names several questions.
    #[error("{0} are different questions; ask one at a time")]
    Several(String),
    /// It names several stages.
    #[error("{0} are different stages; ask about one at a time, or leave them out for all stages")]
    Stages(String),
    /// No report has it.
    #[error(
        "how much memory the workload uses is not recorded; `stage2-launch top` shows the memory in use while the workload \
         runs, and `memory-bound` answers what memory bandwidth limits"
    )]
    MemoryUsed,
}

/// Reads a sentence about a run with these `stages`. `with_other`: a second run is given.
///
/// # Errors
/// When it names no question or several, or has words that are not understood.
pub fn read<'s>(
    sentence: &str,
    stages: impl IntoIterator<Item = &'s str>,
    with_other: bool,
) -> Result<Asked, Refused> {
    let shown = || shorten(&visible(sentence.as_bytes()), 100);
    let mut text = format!(" {} ", words_of(sentence).collect::<Vec<_>>().join(" "));
    let mut stages: Vec<&str> = stages.into_iter().filter(|stage| named(stage).is_none()).collect();
    // The longest first: a name may hold another one.
    stages.sort_by_key(|stage| std::cmp::Reverse(stage.len()));
    let mut found_stages = Vec::new();
    for stage in stages {
        let name = format!(" {} ", words_of(stage).collect::<Vec<_>>().join(" "));
        if name.trim().is_empty() || !text.contains(&name) {
            continue;
        }
        text = text.replace(&name, " ");
        found_stages.push(stage);
    }
    for (phrase, word) in PHRASES {
        text = text.replace(phrase, word);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let has = |of: &[&str]| words.iter().any(|word| of.contains(word));
    if has(&["memory", "vram", "memory-used"]) && has(&OF_USE) || has(&["oom", "vram"]) {
        return Err(Refused::MemoryUsed);
    }
    let (mut strong, mut weak) = (Vec::new(), Vec::new());
    let mut unused = Vec::new();
    for word in &words {
        match named(word) {
            Some(question) if is_weak(word) => push(&mut weak, question),
            Some(question) => push(&mut strong, question),
            None if FILLERS.split_whitespace().any(|filler| filler == *word) => {}
            // That of a rank, say: its answer has all of them.
            None if word.bytes().all(|byte| byte.is_ascii_digit()) => {}
            None => push(&mut unused, *word),
        }
    }
    // `slower` than another run, or of it alone.
    if with_other && strong.is_empty() && !weak.is_empty() {
        strong = vec![Question::Compare];
    }
    if strong.contains(&Question::MemoryBound) {
        strong.retain(|question| *question != Question::KernelsByLoss);
    }
    if strong.is_empty() {
        let most = [Question::Time, Question::Next].into_iter().find(|of| weak.contains(of));
        let alone = (!found_stages.is_empty() && unused.is_empty()).then_some(Question::Summary);
        strong.extend(most.or_else(|| weak.first().copied()).or(alone));
    }
    let question = match *strong {
        [] => return Err(Refused::NoQuestion(shown())),
        [question] => question,
        _ => return Err(Refused::Several(listed(strong.iter().map(|of| of.name())))),
    };
    if !unused.is_empty() {
        return Err(Refused::Words { words: listed(unused.into_iter()), question });
    }
    match *found_stages {
        [] => Ok(Asked { question, stage: None }),
        [stage] => Ok(Asked { question, stage: Some(stage.to_owned()) }),
        _ => Err(Refused::Stages(listed(found_stages.into_iter()))),
    }
}

/// Whether a word asks nothing by itself: `with` in `compare with B`.
pub fn is_filler(word: &str) -> bool {
    words_of(word).all(|word| FILLERS.split_whitespace().any(|filler| filler == word))
}

/// The question that a word stands for, also a mistyped one: `lat-ranks` is `late-ranks`.
pub fn meant(word: &str) -> Option<Question> {
    let names = Question::names();
    let near = || most_like(word, names.iter().copied())?.parse().ok();
    let by_part = || {
        let parts = names.iter().flat_map(|name| name.split('-'));
        let part = most_like(word, parts.filter(|part| part.len() >= LEAST_MISTYPED))?;
        Question::all().find(|question| question.name().split('-').any(|of| of == part))
    };
    named(&word.to_lowercase()).or_else(near).or_else(by_part)
}

/// The question that has a word in its name, in singular or plural, goes by it, or is about it.
fn named(word: &str) -> Option<Question> {
    if let Ok(question) = word.parse::<Question>() {
        // Every second sentence begins with it.
        return (word != "why").then_some(question);
    }
    let stem = word.trim_end_matches('s');
    let has_it =
        |of: &Question| of.name().split('-').any(|part| part.trim_end_matches('s') == stem);
    let is_about = |of: &Question| of.hints().contains(&word);
    let part = || Question::all().find(has_it).filter(|_| !["by", "loss"].contains(&word));
    Question::all().find(is_about).or_else(part)
}

/// Whether a word names its question only in a sentence that has no better one: `how much time does attention take`.
fn is_weak(word: &str) -> bool {
    let general = [Question::Summary, Question::Time, Question::Next];
    named(word).is_some_and(|question| general.contains(&question) && word != question.name())
        || word == "time"
}

/// The words of a sentence, without its marks.
fn words_of(sentence: &str) -> impl Iterator<Item = String> + '_ {
    let is_mark = |c: char| !c.is_alphanumeric() && !"-_/.'".contains(c);
    let words = sentence.split(is_mark).map(|word| word.trim_matches(['.', '\'', '-']));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn push<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}

fn listed<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let words: BTreeSet<&str> = words.into_set();
    let mut shown: Vec<String> =
        words.iter().map(|word| format!("`{}`", shorten(&visible(word.as_bytes()), 40))).collect();
    if shown.len() > SHOWN {
        shown.truncate(SHOWN);
        return format!("{} and other words", shown.join(", "));
    }
    match shown.pop() {
        Some(last) if !shown.is_empty() => format!("{} and {last}", shown.join(", ")),
        last => last.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [&str; 3] = ["decode", "prefill", "(outside ranges)"];

    fn asked(sentence: &str) -> Result<(Question, Option<String>), Refused> {
        read(sentence, STAGES, false).map(|asked| (asked.question, asked.stage))
    }

    #[test]
    fn a_sentence_is_the_question_and_the_stage_that_it_names() {
        let of = |sentence: &str, question: Question, stage: Option<&str>| {
            assert_eq!(asked(sentence), Ok((question, stage.map(str::to_owned))), "{sentence}");
        };
        of("why is prefill slow?", Question::Summary, Some("prefill"));
        of("Why is it slow", Question::Summary, None);
        of("what is the bottleneck of decode", Question::Summary, Some("decode"));
        of("decode", Question::Summary, Some("decode"));
        of("how much time does attention take", Question::KernelsByLoss, None);
        of("why are some steps slow", Question::Time, None);
        of("is this run trustworthy", Question::Caveats, None);
        of("which kernels are memory bound in decode", Question::MemoryBound, Some("decode"));
        of("how long until the first token", Question::Requests, None);
        of("what should I do first", Question::Next, None);
        of("why is the GPU idle", Question::Idle, None);
        of("who is late", Question::LateRanks, None);
        of("by how much is rank 1 late", Question::LateRanks, None);
        of("what about (outside ranges)", Question::Summary, Some("(outside ranges)"));
    }

    /// Hazard: the answer to something else looks like the answer.
    #[test]
    fn what_is_not_understood_is_refused() {
        let said = |sentence: &str| asked(sentence).expect_err(sentence).to_string();
        assert_eq!(
            said("why is the moon round"),
            "no word of `why is the moon round` names a question"
        );
        assert_eq!(
            said("idle host"),
            "`host` and `idle` are different questions; ask one at a time"
        );
        assert_eq!(
            said("host extra pink"),
            "no stage and no question is called `extra` and `pink`; `host` alone is a question"
        );
        assert_eq!(asked("how much memory is used"), Err(Refused::MemoryUsed));
        assert!(said("why are decode and prefill slow").contains("different stages"));
        assert!(matches!(asked("why"), Err(Refused::NoQuestion(_))));
    }

    #[test]
    fn a_second_run_makes_a_sentence_about_change_a_comparison() {
        for sentence in ["what changed", "compare with the other run", "why is it slower than"] {
            let asked = read(sentence, STAGES, true).map(|asked| asked.question);
            assert_eq!(asked, Ok(Question::Compare), "{sentence}");
        }
        let asked = read("which kernels", STAGES, true).map(|asked| asked.question);
        assert_eq!(asked, Ok(Question::KernelsByLoss));
    }
}
