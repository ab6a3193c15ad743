//! The questions, each with its name and one line of help, and what is not a question.

use std::str::FromStr;

use strum::{EnumIter, IntoEnumIterator as _, IntoStaticStr};

/// A question about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename_all = "kebab-case"))]
pub enum Question {
    /// The run in one screen.
    Summary,
    /// Times of steps.
    Time,
    /// Idle time of the GPU.
    Idle,
    /// What the host did meanwhile.
    Host,
    /// Kernels, the largest loss first.
    KernelsByLoss,
    /// Ranks that others wait for.
    LateRanks,
    /// Communication.
    Collectives,
    /// What memory bandwidth bounds.
    MemoryBound,
    /// Requests of an engine.
    Requests,
    /// What would confirm the first advice.
    Next,
    /// Two runs.
    Compare,
    /// How far the numbers can be trusted.
    Caveats,
    /// What was recorded.
    Coverage,
}

impl Question {
    /// All questions, in the order of the list.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::iter()
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What it answers, in one line.
    pub fn help(self) -> &'static str {
        match self {
            Question::Summary => "verdict, time per step, bottleneck, first advice, top losses",
            Question::Time => "time per step of each stage, its floor, where the time goes",
            Question::Idle => "how long the GPU is idle, in which gaps and in which rank",
            Question::Host => "what the host does while the GPU is idle, and in which code",
            Question::KernelsByLoss => {
                "kernels, sorted by the time they lose to the attainable rate"
            }
            Question::LateRanks => "ranks that others wait for: how late, how often, and why",
            Question::Collectives => "collectives: waiting, transfer and bandwidth",
            Question::MemoryBound => "which stages and kernels memory bandwidth limits",
            Question::Requests => "latencies, tokens and cost of the requests of an engine",
            Question::Next => "the experiment that would confirm the first advice",
            Question::Compare => "what changed between two runs: ask A compare B",
            Question::Caveats => "how far the numbers can be trusted",
            Question::Coverage => "what was recorded, and what is missing",
        }
    }

    /// Other words that people type for it.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            Question::Summary => &["why"],
            Question::Time => &["times", "steps"],
            Question::Idle => &["gaps"],
            Question::Host => &["cpu"],
            Question::KernelsByLoss => &["kernels", "kernel"],
            Question::LateRanks => &["late", "ranks", "rank"],
            Question::Collectives => &["collective", "nccl"],
            Question::MemoryBound => &["memory"],
            Question::Requests => &["request", "latency"],
            Question::Next => &["first", "advice"],
            Question::Compare => &["diff"],
            Question::Caveats => &["caveat", "warnings"],
            Question::Coverage => &[],
        }
    }

    /// Words of a sentence, or of a mistyped question, that lead to it.
    pub fn hints(self) -> &'static [&'static str] {
        match self {
            Question::Summary => &[
                "slow",
                "slower",
                "slowest",
                "bottleneck",
                "bottlenecks",
                "verdict",
                "overview",
                "bound",
                "limits",
                "performance",
            ],
            Question::Time => &[
                "step",
                "duration",
                "speed",
                "fast",
                "floor",
                "throughput",
                "tokens",
                "outliers",
                "jitter",
                "spikes",
                "outlier",
            ],
            Question::Idle => &["busy", "bubbles", "bubble", "gap", "utilization", "utilisation"],
            Question::Host => {
                &["code", "python", "function", "functions", "stacks", "gil", "threads", "thread"]
            }
            Question::KernelsByLoss => {
                &["gemm", "gemms", "attention", "roofline", "matmul", "matmuls"]
            }
            Question::LateRanks => &["straggler", "stragglers", "imbalance", "skew", "later"],
            Question::Collectives => &["communication", "allreduce", "allgather", "transfer"],
            Question::MemoryBound => &["bandwidth", "dram", "hbm", "mfu", "mbu"],
            Question::Requests => &["ttft", "queue", "queued", "latencies", "cost", "e2e"],
            Question::Next => &[
                "experiment",
                "improve",
                "recommendation",
                "todo",
                "optimize",
                "optimise",
                "fix",
                "faster",
            ],
            Question::Compare => &[
                "change",
                "changed",
                "changes",
                "regression",
                "regressed",
                "difference",
                "differences",
                "different",
                "comparison",
                "compared",
            ],
            Question::Caveats => &[
                "trust",
                "trusted",
                "trustworthy",
                "findings",
                "reliable",
                "noise",
                "valid",
                "accurate",
                "believe",
                "warning",
            ],
            Question::Coverage => &["missing", "lost", "recorded", "complete"],
        }
    }

    /// The names of all questions.
    pub fn names() -> Vec<&'static str> {
        Self::iter().map(Question::name).collect()
    }

    /// All questions with their help, a line each, which fits a narrow terminal.
    pub fn list() -> String {
        let width = Self::iter().map(|question| question.name().len()).max().unwrap_or(0);
        let lines = Self::iter().map(|q| format!("  {:width$}  {}", q.name(), q.help()));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl FromStr for Question {
    type Err = AskError;

    fn from_str(text: &str) -> Result<Self, AskError> {
        let is_it = |question: &Self| question.name() == text || question.aliases().contains(&text);
        let found = Self::iter().find(is_it);
        found.ok_or_else(|| AskError::NoSuchQuestion { asked: shown(text) })
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The question does not exist.
    #[error("there is no question `{asked}`; the questions are\n{}", Question::list())]
    NoSuchQuestion {
        /// What was asked.
        asked: String,
    },
    /// The run has no such stage.
    #[error("the run has no stage `{asked}`{}", instead_of(asked, .stages))]
    NoSuchStage {
        /// What was asked.
        asked: String,
        /// The stages.
        stages: Vec<String>,
    },
    /// A comparison was asked for, and there is one run only.
    #[error("compare needs a second run; stage2-launch ask A compare B")]
    OneRun,
    /// The runs cannot be compared.
    #[error("{0}")]
    NotComparable(String),
}

impl AskError {
    /// The stage is in no run.
    pub(crate) fn no_stage<'s>(asked: &str, stages: impl Iterator<Item = &'s str>) -> Self {
        Self::NoSuchStage { asked: shown(asked), stages: stages.map(shown).collect() }
    }
}

fn instead_of(asked: &str, stages: &[String]) -> String {
    let stages: Vec<&str> = stages.iter().map(String::as_str).collect();
    stage2_contract::text::instead(asked, &stages)
}

fn shown(text: &str) -> String {
    use stage2_contract::text::{shorten, visible};
    shorten(&visible(text.as_bytes()), 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_asks_one_question_and_the_list_fits_a_narrow_terminal() {
        let mut words = std::collections::BTreeSet::new();
        for question in Question::all() {
            for word in question.aliases().iter().copied().chain([question.name()]) {
                assert!(words.insert(word), "{word} asks two questions");
                assert_eq!(word.parse(), Ok(question));
            }
            for word in question.hints() {
                assert!(words.insert(word), "{word} leads to two questions");
                assert!(word.parse::<Question>().is_err(), "{word}");
            }
        }
        let list = Question::list();
        assert!(list.lines().all(|line| line.chars().count() <= 79), "{list}");
    }
}
