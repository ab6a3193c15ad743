//! What GPUs do together.

use serde::{Deserialize, Serialize};

/// What GPUs do together.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Every member gets the reduction of what all have.
    AllReduce,
    /// Every member gets what all have.
    AllGather,
    /// Every member gets its part of the reduction.
    ReduceScatter,
    /// Every member sends a part to every other.
    AllToAll,
    /// One member sends to all.
    Broadcast,
    /// One member gets the reduction.
    Reduce,
    /// One member gets what all have.
    Gather,
    /// One member sends a part to each.
    Scatter,
    /// One member sends to another.
    Send,
    /// One member receives from another.
    Recv,
    /// Several sends and receives in one group.
    SendRecv,
    /// Different operations in one group.
    #[strum(serialize = "several in a group")]
    Mixed,
    /// Communication whose name does not say what it does.
    #[default]
    #[strum(serialize = "not known")]
    Other,
}

impl Operation {
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Whether no member can finish before the last one has arrived. Only then the time before that
    /// arrival is waiting, and the rest transfer.
    pub fn needs_all_members(self) -> bool {
        matches!(
            self,
            Operation::AllReduce
                | Operation::AllGather
                | Operation::ReduceScatter
                | Operation::AllToAll
        )
    }

    /// Bytes that each of `members` moves over its links per byte of the message, as NCCL's own
    /// tests count them (for AllGather, ReduceScatter and AllToAll a message is what one member
    /// contributes to, or gets from, one other); nothing for other operations.
    pub fn bus_factor(self, members: u64) -> Option<f64> {
        let others = members.checked_sub(1).filter(|&others| others > 0)? as f64;
        match self {
            Operation::AllReduce => Some(2.0 * others / members as f64),
            Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => Some(others),
            _ => None,
        }
    }
}
