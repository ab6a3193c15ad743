//! Names of NCCL's ranges and of communication kernels -> which operation they are.

use stage2_model::Operation;

/// Range names of NCCL, and what they are.
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

/// Parts of the names of communication kernels, in lower case and without underscores, the special
/// before the general.
///
/// NCCL (`ncclDevKernel_AllReduce_...`), NVSHMEM, MSCCL++, DeepEP; the all-reduce kernels of vLLM
/// (`cross_device_reduce_1stage`), TensorRT-LLM and FlashInfer (`allReduce...`), and of PyTorch's
/// symmetric memory (`one_shot_all_reduce`, `multimem_...`).
const KERNELS: [(&str, Operation); 24] = [
    ("allreduce", Operation::AllReduce),
    ("crossdevicereduce", Operation::AllReduce),
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
