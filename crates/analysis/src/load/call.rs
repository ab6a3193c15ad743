//! What a process did together with others: its calls of collectives, and its communicators.

use super::paths::PathIndex;
use super::sampling::Sampled;
use stage2_model::Operation;

/// A collective (or send, receive, group of them) as one process took part in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    /// Hash of its communicator; nothing where no field says it.
    pub(crate) communicator: Option<u64>,
    /// Size of its messages, bytes; nothing where no field says it.
    pub(crate) bytes: Option<u64>,
    /// Operations that were asked for: more than one in a group.
    pub(crate) operations: u32,
    /// Its kernels; all of their times are known.
    pub(crate) kernels: u32,
    pub(crate) device: u32,
    /// Start of its first kernel, on the GPU clock, ns.
    pub(crate) start_ns: u64,
    /// End of its last kernel, on the GPU clock, ns.
    pub(crate) end_ns: u64,
    /// Sum of the GPU time of other work on its device since the previous call, ns.
    pub(crate) work_ns: u64,
    pub(crate) stage: PathIndex,
    /// Number of the instance of that stage.
    pub(crate) instance: u32,
    pub(crate) replayed: bool,
    /// It lies in an outlier of its stage.
    pub(crate) outlier: bool,
    /// Of how many instances of its path it was recorded, and how many there were.
    pub(crate) weight: Sampled,
}

/// A communicator that the process is a member of, as its set-up says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Communicator {
    pub(crate) hash: u64,
    /// Its members, where that is said.
    pub(crate) members: Option<u64>,
    /// Which of them this process is, where that is said.
    pub(crate) rank: Option<u64>,
    /// Members that this process is: more than one where it has a GPU for each.
    pub(crate) local: u32,
}

/// What a process had to do with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collectives {
    /// Calls, in the order of the file.
    pub(crate) calls: Vec<Call>,
    /// Kernels of calls beyond those that are kept.
    pub(crate) beyond: u64,
    /// Start of the earliest of those kernels, on the GPU clock, ns.
    pub(crate) beyond_from_ns: Option<u64>,
    pub(crate) limit: u64,
    /// Communication kernels without valid times, in no call.
    pub(crate) untimed: u64,
    /// Communicators whose hash is known.
    pub(crate) communicators: Vec<Communicator>,
    /// Communicators that were made, as far as ranges tell; the set-ups of several members of one
    /// count once.
    pub(crate) communicators_made: u64,
}
