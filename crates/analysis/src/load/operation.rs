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

/// Parts of kernel names, in lower case and without underscores, the special before the general.
const KERNELS: [(&str, Operation); 10] = [
    ("allreduce", Operation::AllReduce),
    ("crossdevicereduce", Operation::AllReduce),
    ("allgather", Operation::AllGather),
    ("reducescatter", Operation::ReduceScatter),
    ("alltoall", Operation::AllToAll),
    ("broadcast", Operation::Broadcast),
    ("sendrecv", Operation::SendRecv),
    ("ncclkernelreduce", Operation::Reduce),
    ("nccldevkernelreduce", Operation::Reduce),
    ("multimemreduce", Operation::Reduce),
];

/// What a range of the domain NCCL is; nothing where it is no operation.
pub(super) fn of_range(name: &[u8]) -> Option<Operation> {
    RANGES.iter().find(|(known, _)| known.as_bytes() == name).map(|&(_, operation)| operation)
}

/// What a communication kernel does, by its name, mangled or not.
pub(crate) fn of_kernel(name: &[u8]) -> Operation {
    let plain: Vec<u8> =
        name.iter().filter(|byte| **byte != b'_').map(u8::to_ascii_lowercase).collect();
    let holds = |part: &str| plain.windows(part.len()).any(|found| found == part.as_bytes());
    let found = KERNELS.iter().find(|(part, _)| holds(part));
    found.map_or(Operation::Other, |&(_, operation)| operation)
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
        ] {
            assert_eq!(of_kernel(name.as_bytes()), operation, "{name}");
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
