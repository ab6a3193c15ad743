//! What NCCL's ranges and their fields mean, and what a group of its calls adds up to.

use super::operation::Operation;

/// What a range of NCCL is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Operation(Operation),
    GroupStart,
    GroupEnd,
    /// A communicator is made.
    SetUp,
}

/// What a field of a range says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Bytes,
    Communicator,
    Members,
    Rank,
}

/// What the ranges of a call ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) communicator: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) operations: u32,
}

/// Calls of a thread between the start and the end of a group.
#[derive(Debug, Default)]
pub(super) struct Group {
    depth: u32,
    asked: Option<Asked>,
    sends: u32,
    receives: u32,
}

impl Group {
    /// One more group starts.
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
        let (sends, pairs) = (u64::from(self.sends), self.sends == self.receives);
        let to_all = members.is_some_and(|all| sends == all || sends + 1 == all);
        if asked.operation == Operation::SendRecv && pairs && to_all {
            // Frameworks make it so: to everyone (else), and from everyone (else).
            asked.operation = Operation::AllToAll;
            asked.bytes = asked.bytes.map(|bytes| bytes / (2 * sends).max(1));
        }
        Some(asked)
    }

    /// An operation was asked for.
    pub(super) fn add(&mut self, operation: Operation, call: Asked) {
        if self.depth == 0 {
            return;
        }
        let is_pair = |operation| {
            matches!(operation, Operation::Send | Operation::Recv | Operation::SendRecv)
        };
        self.sends = self.sends.saturating_add((operation == Operation::Send).into());
        self.receives = self.receives.saturating_add((operation == Operation::Recv).into());
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

pub(super) fn kind_of(name: &[u8]) -> Option<Kind> {
    match name {
        b"ncclGroupStart" => Some(Kind::GroupStart),
        b"ncclGroupEnd" => Some(Kind::GroupEnd),
        _ if name.starts_with(b"ncclCommInit") || name.starts_with(b"ncclCommSplit") => {
            Some(Kind::SetUp)
        }
        _ => Operation::of_range(name).map(Kind::Operation),
    }
}

/// Versions of NCCL write their fields a little differently.
pub(super) fn says_of(name: &[u8]) -> Option<Says> {
    let plain: Vec<u8> = name
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .take(64)
        .collect();
    match plain.as_slice() {
        b"messagesizebytes" | b"messagesize" => Some(Says::Bytes),
        b"ncclcommunicatorid" | b"communicatorid" | b"communicatorhash" | b"commhash" => {
            Some(Says::Communicator)
        }
        b"noofranks" | b"numberofranks" | b"nranks" => Some(Says::Members),
        b"rank" => Some(Says::Rank),
        _ => None,
    }
}
