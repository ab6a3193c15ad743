//! What the numbers say, with the rule that says it.

use serde::{Deserialize, Serialize};

use crate::Rule;

/// One thing that the numbers say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Takeaway {
    /// The rule that says it.
    pub rule: Rule,
    /// The stage that it is about.
    pub stage: Option<String>,
    /// What it says, with the numbers.
    pub text: String,
    /// What to do.
    pub recommendation: Option<String>,
    /// Part of the sum of all stages' windows that is concerned, percent.
    pub concerns_percent: Option<f64>,
}
