//! Names of NCCL's ranges and of communication kernels -> which operation they are.

use std::collections::BTreeSet;

use stage2_contract::text::operation::{NcclField, field_of};
pub use stage2_contract::text::operation::{is_communication, of_kernel};
use stage2_model::Operation;

const RANGES: [(&str, Operation); 13] = [
    ("ncclAllReduce", Operation::AllReduce),
    ("ncclAllGather", Operation::AllGather),
    ("ncclReduceScatter", Operation::ReduceScatter),
    ("ncclAlltoAll", Operation::AllToAll),
    ("ncclAllToAll", Operation::AllToAll),
    ("ncclBroadcast", Operation::Broadcast),
    ("ncclBcast", Operation::Broadcast),
    ("ncclReduce", Operation::Reduce),
    ("ncclGather", Operation::Gather),
    ("ncclScatter", Operation::Scatter),
    ("ncclSend", Operation::Send),
    ("ncclRecv", Operation::Recv),
    ("ncclSendRecv", Operation::SendRecv),
];

/// What a range of the domain NCCL is; nothing where it is not an operation.
pub(super) fn of_range(name: &[u8]) -> Option<Operation> {
    RANGES.iter().find(|(known, _)| known.as_bytes() == name).map(|&(_, operation)| operation)
}

/// Peers of a group that are told apart.
const MAX_PEERS: usize = 1 << 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NcclRange {
    Operation(Operation),
    GroupStart,
    GroupEnd,
    SetUp,
    /// What stood here was lost: a group may have ended unseen.
    Lost,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) communicator: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) operations: u32,
    /// Who a send goes to, or a receive comes from.
    pub(super) peer: Option<u64>,
}

/// Calls of a thread between the start and the end of a group.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) generation: u64,
    depth: u32,
    asked: Option<Asked>,
    sends: Peers,
    receives: Peers,
}

#[derive(Debug, Default)]
struct Peers {
    calls: u64,
    distinct: BTreeSet<u64>,
}

impl Peers {
    fn add(&mut self, peer: Option<u64>) {
        self.calls = self.calls.saturating_add(1);
        if self.distinct.len() < MAX_PEERS {
            self.distinct.extend(peer);
        }
    }

    /// Whether each call has its own peer, and all `members` are among them but perhaps the
    /// process itself.
    fn are_all(&self, members: u64) -> bool {
        let distinct = self.distinct.len() as u64;
        distinct == self.calls && (distinct == members || distinct + 1 == members)
    }
}

impl Group {
    pub(super) fn new(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    pub(super) fn start(&mut self) {
        self.depth = self.depth.saturating_add(1);
    }

    /// A group ends; whether it was the outermost.
    pub(super) fn end(&mut self) -> bool {
        self.depth = self.depth.saturating_sub(1);
        self.depth == 0
    }

    /// What it asked for, nothing where that was nothing. `members` tells those of a communicator.
    pub(super) fn asked(self, members: impl Fn(u64) -> Option<u64>) -> Option<Asked> {
        let mut asked = self.asked?;
        let members = asked.communicator.and_then(members).filter(|&members| members > 1);
        let with_all =
            members.is_some_and(|all| self.sends.are_all(all) && self.receives.are_all(all));
        if asked.operation == Operation::SendRecv && with_all {
            // Frameworks build all-to-all from one send to, and one receive from, each peer. The
            // count alone does not prove it: a ring sends several messages to one neighbour.
            asked.operation = Operation::AllToAll;
            let calls = self.sends.calls.saturating_add(self.receives.calls);
            asked.bytes = asked.bytes.map(|bytes| bytes / calls.max(1));
        }
        Some(asked)
    }

    pub(super) fn add(&mut self, operation: Operation, call: Asked) {
        if self.depth == 0 {
            return;
        }
        let is_pair = |operation| {
            matches!(operation, Operation::Send | Operation::Recv | Operation::SendRecv)
        };
        match operation {
            Operation::Send => self.sends.add(call.peer),
            Operation::Recv => self.receives.add(call.peer),
            _ => {}
        }
        let Some(sum) = &mut self.asked else {
            self.asked = Some(call);
            return;
        };
        sum.operations = sum.operations.saturating_add(1);
        // One without its size leaves that of the group open.
        sum.bytes = sum.bytes.zip(call.bytes).map(|(a, b)| a.saturating_add(b));
        if sum.communicator != call.communicator {
            sum.communicator = None;
        }
        if sum.operation != operation {
            let both = is_pair(sum.operation) && is_pair(operation);
            sum.operation = if both { Operation::SendRecv } else { Operation::Mixed };
        }
    }
}

pub(super) fn kind_of(name: &[u8]) -> Option<NcclRange> {
    match name {
        b"ncclGroupStart" => Some(NcclRange::GroupStart),
        b"ncclGroupEnd" => Some(NcclRange::GroupEnd),
        b"(lost)" => Some(NcclRange::Lost),
        _ if name.starts_with(b"ncclCommInit") || name.starts_with(b"ncclCommSplit") => {
            Some(NcclRange::SetUp)
        }
        _ => of_range(name).map(NcclRange::Operation),
    }
}

/// Reads from two fields of a range of NCCL the number of members of its communicator and the rank among them.
pub fn rank_among<'n>(fields: impl Iterator<Item = (&'n [u8], u64)>) -> Option<(u64, u64)> {
    let (mut members, mut rank) = (None, None);
    for (name, value) in fields {
        match field_of(name) {
            Some(NcclField::Members) => members = Some(value),
            Some(NcclField::Rank) => rank = Some(value),
            _ => {}
        }
    }
    members.zip(rank).filter(|(members, rank)| rank < members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_nccl_are_known_by_their_whole_name() {
        assert_eq!(of_range(b"ncclAllReduce"), Some(Operation::AllReduce));
        assert_eq!(of_range(b"ncclAlltoAll"), Some(Operation::AllToAll));
        for no_operation in ["ncclGroupStart", "ncclCommInitRank", "ncclAllReduceX", ""] {
            assert_eq!(of_range(no_operation.as_bytes()), None, "{no_operation}");
        }
    }
}
