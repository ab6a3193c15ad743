//! Names of NCCL's ranges and of communication kernels -> which operation they are.

use std::collections::BTreeSet;

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

/// Parts of the names of communication kernels, in lower case and without `_`, the special first.
///
/// NCCL (`ncclDevKernel_AllReduce_...`), NVSHMEM, MSCCL++, DeepEP; the all-reduce kernels of vLLM
/// (`cross_device_reduce_1stage`), TensorRT-LLM and FlashInfer (`allReduce...`, `rmsNormLamport`),
/// llama.cpp (`ggml_cuda_ar_kernel`), and of PyTorch's symmetric memory (`one_shot_all_reduce`, `multimem_...`).
const KERNELS: [(&str, Operation); 27] = [
    ("allreduce", Operation::AllReduce),
    ("crossdevicereduce", Operation::AllReduce),
    // The second half of an all-reduce: it waits for the data of the other ranks.
    ("normlamport", Operation::AllReduce),
    ("userbuffers", Operation::AllReduce),
    ("ggmlcudaarkernel", Operation::AllReduce),
    ("allgather", Operation::AllGather),
    ("reducescatter", Operation::ReduceScatter),
    ("alltoall", Operation::AllToAll),
    // Other kernels broadcast as well, within one GPU.
    ("ncclkernelbroadcast", Operation::Broadcast),
    ("nccldevkernelbroadcast", Operation::Broadcast),
    ("nvshmembroadcast", Operation::Broadcast),
    ("nvshmemibroadcast", Operation::Broadcast),
    ("nvshmemxibroadcast", Operation::Broadcast),
    ("sendrecv", Operation::SendRecv),
    ("ncclkernelreduce", Operation::Reduce),
    ("nccldevkernelreduce", Operation::Reduce),
    ("multimemreduce", Operation::Reduce),
    ("nccl", Operation::Other),
    ("nvshmem", Operation::Other),
    ("mscclpp", Operation::Other),
    ("deepep", Operation::Other),
    ("multimem", Operation::Other),
    ("symmmem", Operation::Other),
    ("symmetricmemory", Operation::Other),
    ("internode", Operation::Other),
    ("intranode", Operation::Other),
    ("moea2a", Operation::Other),
];

/// Whether a kernel of this name, mangled or not, talks to other GPUs: such a kernel waits for its
/// peers.
pub fn is_communication(name: &[u8]) -> bool {
    of_kernel(name).is_some()
}

/// What a range of the domain NCCL is; nothing where it is no operation.
pub(super) fn of_range(name: &[u8]) -> Option<Operation> {
    RANGES.iter().find(|(known, _)| known.as_bytes() == name).map(|&(_, operation)| operation)
}

/// What a kernel does together with other GPUs, by its name, mangled or not; nothing where it
/// does not talk to any.
pub fn of_kernel(name: &[u8]) -> Option<Operation> {
    let plain: Vec<u8> =
        name.iter().filter(|byte| **byte != b'_').map(u8::to_ascii_lowercase).collect();
    let holds = |part: &str| plain.windows(part.len()).any(|found| found == part.as_bytes());
    KERNELS.iter().find(|(part, _)| holds(part)).map(|&(_, operation)| operation)
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NcclField {
    Bytes,
    Communicator,
    Members,
    Rank,
    Peer,
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

    /// Whether each call has a peer of its own, and all `members` are among them but perhaps the
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

/// Versions of NCCL write their fields a little differently.
pub(super) fn field_of(name: &[u8]) -> Option<NcclField> {
    let plain: Vec<u8> = name
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .take(64)
        .collect();
    match plain.as_slice() {
        b"messagesizebytes" | b"messagesize" => Some(NcclField::Bytes),
        b"ncclcommunicatorid" | b"communicatorid" | b"communicatorhash" | b"commhash" => {
            Some(NcclField::Communicator)
        }
        b"noofranks" | b"numberofranks" | b"nranks" => Some(NcclField::Members),
        b"rank" => Some(NcclField::Rank),
        b"peerrank" => Some(NcclField::Peer),
        _ => None,
    }
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

    #[test]
    fn kernels_say_what_they_do() {
        for (name, operation) in [
            (
                "_Z35ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
                Operation::AllReduce,
            ),
            ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", Operation::AllReduce),
            ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", Operation::ReduceScatter),
            ("ncclDevKernel_Reduce_Sum_f32_RING_LL", Operation::Reduce),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Operation::SendRecv),
            ("ncclDevKernel_Generic_4", Operation::Other),
            ("_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EE", Operation::AllReduce),
            ("multimem_one_shot_all_reduce_kernel", Operation::AllReduce),
            ("multimem_all_gather_kernel", Operation::AllGather),
            ("_ZN7deep_ep9intranode8dispatchILi8ELi768EEEv", Operation::Other),
            ("nvshmemi_proxy_kernel", Operation::Other),
            ("two_shot_all_reduce_kernel", Operation::AllReduce),
            ("triton_multimem_all_gather", Operation::AllGather),
            ("void multimem_one_shot_reduce_kernel<c10::BFloat16, 16, 8>()", Operation::Other),
            ("ncclDevKernel_Broadcast_RING_LL", Operation::Broadcast),
        ] {
            assert_eq!(of_kernel(name.as_bytes()), Some(operation), "{name}");
            assert!(is_communication(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn kernels_that_compute_talk_to_no_other_gpu() {
        for name in [
            "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpE",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
            "_ZN2at6native29_scatter_gather_elementwise_kernel",
            "broadcast_add_kernel",
            "flash_fwd_kernel",
            "",
        ] {
            assert_eq!(of_kernel(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn bus_factors_are_those_of_nccls_tests() {
        assert_eq!(Operation::AllReduce.bus_factor(2), Some(1.0));
        assert_eq!(Operation::AllReduce.bus_factor(8), Some(1.75));
        assert_eq!(Operation::AllGather.bus_factor(8), Some(7.0));
        assert_eq!(Operation::AllReduce.bus_factor(1), None, "nothing leaves the GPU");
        assert_eq!(Operation::Broadcast.bus_factor(8), None);
    }
}
