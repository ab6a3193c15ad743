//! What GPUs do together, by the names of communication kernels; the fields of NCCL's ranges.

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
    serde::Serialize,
    serde::Deserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        use Operation::{AllGather, AllReduce, AllToAll, ReduceScatter};
        matches!(self, AllReduce | AllGather | ReduceScatter | AllToAll)
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

/// What a kernel does together with other GPUs, by its name, mangled or not; nothing where it
/// does not talk to any.
pub fn of_kernel(name: &[u8]) -> Option<Operation> {
    let plain: Vec<u8> =
        name.iter().filter(|byte| **byte != b'_').map(u8::to_ascii_lowercase).collect();
    let holds = |part: &str| plain.windows(part.len()).any(|found| found == part.as_bytes());
    KERNELS.iter().find(|(part, _)| holds(part)).map(|&(_, operation)| operation)
}

/// A field of a range of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NcclField {
    /// Size of the message.
    Bytes,
    /// Hash of the communicator.
    Communicator,
    /// Members of the communicator.
    Members,
    /// Which of them the process is.
    Rank,
    /// Who a send goes to, or a receive comes from.
    Peer,
}

/// What a field of NCCL of this name holds: versions write the names a little differently.
pub fn field_of(name: &[u8]) -> Option<NcclField> {
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
