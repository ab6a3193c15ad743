//! What a process did together with others: its calls of collectives, and its communicators.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::paths::PathIndex;
use super::sampling::Sampled;
use stage2_model::Operation;

/// A call that was not numbered.
pub const NO_NUMBER: u32 = u32::MAX;

/// Calls that are numbered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    communicator: Option<u64>,
    operation: Operation,
    /// Only where the communicator is not known.
    bytes: Option<u64>,
}

/// A collective (or send, receive, group of them) as one process took part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What the call does.
    pub operation: Operation,
    /// Hash of its communicator; nothing where no field says it.
    pub communicator: Option<u64>,
    /// Size of its messages, bytes; nothing where no field says it.
    pub bytes: Option<u64>,
    /// Operations that were asked for: more than one in a group.
    pub operations: u32,
    /// Its kernels; all of their times are known.
    pub kernels: u32,
    /// Index of the GPU.
    pub device: u32,
    /// Start of its first kernel, on the GPU clock, ns.
    pub start_ns: u64,
    /// End of its last kernel, on the GPU clock, ns.
    pub end_ns: u64,
    /// Sum of the GPU time of other work on its device since the previous call, ns.
    pub work_ns: u64,
    /// The stage that launched it.
    pub stage: PathIndex,
    /// Number of the instance of that stage.
    pub instance: u32,
    /// The innermost range of the user that it was launched in.
    pub path: PathIndex,
    /// The range right within the stage that it was launched in, and the number of its instance.
    pub step: Option<(PathIndex, u32)>,
    /// Its number among those of its kind on its device, or [`NO_NUMBER`] where that is not needed.
    pub number: u32,
    /// It came out of a CUDA graph.
    pub replayed: bool,
    /// It lies in an outlier of its stage.
    pub outlier: bool,
    /// Of how many instances of its path it was recorded, and how many there were.
    pub weight: Sampled,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            operation: Operation::default(),
            communicator: None,
            bytes: None,
            operations: 0,
            kernels: 0,
            device: 0,
            start_ns: 0,
            end_ns: 0,
            work_ns: 0,
            stage: 0,
            instance: 0,
            path: 0,
            step: None,
            number: NO_NUMBER,
            replayed: false,
            outlier: false,
            weight: Sampled::default(),
        }
    }
}

impl Call {
    /// What it has in common with its counterparts in other ranks.
    pub fn kind(&self) -> Kind {
        let Self { communicator, operation, .. } = *self;
        Kind { communicator, operation, bytes: self.bytes.filter(|_| communicator.is_none()) }
    }
}

/// What of the calls of a process is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thinning {
    /// How often each kind was halved.
    pub halvings: BTreeMap<Kind, u32>,
    /// Calls of each kind on each device, kept or not. Empty where all are kept.
    pub made: FxHashMap<(Kind, u32), u32>,
    /// They go by the number of their instance: of a sample, not every process has the same calls.
    pub by_instance: bool,
}

/// A communicator that the process is a member of, as its set-up says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Communicator {
    /// Hash of its identifier.
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
    /// Which of those that were made these are.
    pub thinning: Thinning,
    /// Kernels of calls of more kinds than are told apart.
    pub beyond: u64,
    pub(crate) limit: u64,
    /// Communication kernels without valid times, in no call.
    pub untimed: u64,
    /// Communicators whose hash is known.
    pub communicators: Vec<Communicator>,
    /// Communicators that were made, as far as ranges tell; the set-ups of several members of one
    /// count once.
    pub communicators_made: u64,
}
