//! What a process did together with others: its calls of collectives, and its communicators.

use super::paths::PathIndex;
use super::sampling::Sampled;
use stage2_model::Operation;

/// A collective (or send, receive, group of them) as one process took part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What it is.
    pub operation: Operation,
    /// Hash of its communicator; nothing where no field says it.
    pub communicator: Option<u64>,
    /// Size of its messages, bytes; nothing where no field says it.
    pub bytes: Option<u64>,
    /// Operations that were asked for: more than one in a group.
    pub operations: u32,
    /// Its kernels; all of their times are known.
    pub kernels: u32,
    /// Index of the device in the file.
    pub device: u32,
    /// Start of its first kernel, on the GPU clock, ns.
    pub start_ns: u64,
    /// End of its last kernel, on the GPU clock, ns.
    pub end_ns: u64,
    /// Stage that it was launched in.
    pub stage: PathIndex,
    /// Number of the instance of that stage.
    pub instance: u32,
    /// A graph replay launched it.
    pub replayed: bool,
    /// Of how many instances of its path it was recorded, and how many there were.
    pub weight: Sampled,
}

/// A communicator that the process is a member of, as its set-up says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    /// Its hash.
    pub hash: u64,
    /// Its members, where that is said.
    pub members: Option<u64>,
    /// Which of them this process is, where that is said.
    pub rank: Option<u64>,
    /// Members that this process is: more than one where it has a GPU for each.
    pub local: u32,
}

/// What a process had to do with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    /// Calls, in the order of the file.
    pub calls: Vec<Call>,
    /// Kernels of calls beyond those that are kept.
    pub beyond: u64,
    /// Start of the earliest of those kernels, on the GPU clock, ns.
    pub beyond_from_ns: Option<u64>,
    /// Calls that are kept, at most.
    pub limit: u64,
    /// Communication kernels without valid times, in no call.
    pub untimed: u64,
    /// Communicators whose hash is known.
    pub communicators: Vec<Communicator>,
    /// Communicators that were made, as far as ranges tell; the set-ups of several members of one
    /// count once.
    pub communicators_made: u64,
}
