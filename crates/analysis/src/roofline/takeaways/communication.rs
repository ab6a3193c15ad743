//! What is said of communication: waiting for a rank that comes late is not the cost of moving
//! bytes, and calls for something else.

use serde::{Deserialize, Serialize};

use super::rules::Speaker;
use crate::roofline::kernel_class::KernelClass;
use stage2_model::Takeaway;
use stage2_model::rule::{COMMUNICATION_PERCENT, Rule};

/// How much of a stage's communication was waiting for other ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitingFacts {
    /// Share of the stage's sum of kernel time, percent.
    pub percent: f64,
    /// Every collective was split; else some waiting is still in what is called communication.
    pub whole: bool,
    /// Who comes late, in words.
    pub late: Option<String>,
}

impl Speaker<'_> {
    /// Communication, and waiting for it.
    pub(super) fn communication(&self) -> Vec<Takeaway> {
        let all = self.class_percent(&[KernelClass::Communication]);
        let split = self.stage.waiting.as_ref();
        let waiting = split.map_or(0.0, |split| split.percent.clamp(0.0, all));
        let mut said = Vec::new();
        if waiting >= COMMUNICATION_PERCENT {
            let late = split.and_then(|split| split.late.as_deref());
            let late = late.map_or_else(String::new, |late| format!("; {late}"));
            let text = format!("waiting for other ranks is {waiting:.1} % of kernel time{late}");
            let then = "Look at what the late rank does before it communicates: host work, more \
                        data, a slower GPU. Faster communication does not help.";
            said.push(self.say(Rule::Waiting, self.busy_part(waiting), text, Some(then)));
        }
        let transfer = all - waiting;
        if transfer >= COMMUNICATION_PERCENT {
            let (part, text, then) = match split {
                Some(split) if split.whole => (
                    self.busy_part(transfer),
                    format!(
                        "communication is {transfer:.1} % of kernel time, waiting for other ranks \
                         not counted"
                    ),
                    "Overlap communication with compute, use fewer or larger messages, or a \
                     parallelism that sends less.",
                ),
                // What of it is transfer is not known, so nothing is said to be gained.
                _ => (
                    None,
                    format!(
                        "communication kernels are {transfer:.1} % of kernel time; an unknown part of \
                         that is waiting for other ranks"
                    ),
                    "Record every rank (section Collectives lists what is missing) to tell a late \
                     rank from slow transfers.",
                ),
            };
            said.push(self.say(Rule::Communication, part, text, Some(then)));
        }
        said
    }
}
