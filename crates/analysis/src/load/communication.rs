//! The name of a kernel -> whether it talks to other GPUs.
//!
//! Such a kernel waits for its peers. Replayed pass by pass it waits for kernels that do not run
//! again, and the run hangs: it may be measured in a single pass only.

/// What the names of such kernels hold, in lower case and without underscores.
///
/// NCCL (`ncclDevKernel_AllReduce_...`), NVSHMEM, MSCCL++, DeepEP; the all-reduce kernels of vLLM
/// (`cross_device_reduce_1stage`), TensorRT-LLM and FlashInfer (`allReduce...`), and of PyTorch's
/// symmetric memory (`one_shot_all_reduce`, `multimem_...`).
const MARKS: &[&str] = &[
    "nccl",
    "nvshmem",
    "mscclpp",
    "deepep",
    "allreduce",
    "allgather",
    "reducescatter",
    "alltoall",
    "crossdevicereduce",
    "sendrecv",
    "multimem",
    "symmmem",
    "symmetricmemory",
    "internode",
    "intranode",
    "moea2a",
];

/// Whether a kernel of this name, mangled or not, talks to other GPUs.
pub fn is_communication(name: &[u8]) -> bool {
    let plain: Vec<u8> =
        name.iter().filter(|byte| **byte != b'_').map(u8::to_ascii_lowercase).collect();
    MARKS.iter().any(|mark| plain.windows(mark.len()).any(|window| window == mark.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_wait_for_peers_are_known_by_name() {
        for name in [
            "_Z35ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataE",
            "nvshmemi_proxy_kernel",
            "two_shot_all_reduce_kernel",
            "_ZN7deep_ep9intranode8dispatchILi8ELi768EEEv",
            "triton_multimem_all_gather",
            "void multimem_one_shot_reduce_kernel<c10::BFloat16, 16, 8>()",
        ] {
            assert!(is_communication(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn kernels_that_compute_are_not() {
        for name in [
            "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpE",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
            "_ZN2at6native29_scatter_gather_elementwise_kernel",
            "flash_fwd_kernel",
            "",
        ] {
            assert!(!is_communication(name.as_bytes()), "{name}");
        }
    }
}
