//! Which NVTX domains belong to libraries, whose ranges are never stages of the user's program.

/// NVTX domains of CUDA libraries and frameworks.
pub const LIBRARY_DOMAINS: &[&str] = &[
    "NCCL",
    "TSL",
    "CCCL",
    "cuBLAS",
    "cuBLASLt",
    "cuDNN",
    "cuSOLVER",
    "cuSPARSE",
    "cuFFT",
    "cuTENSOR",
    "cuRAND",
    "NVSHMEM",
    "libnvshmem",
    "cuFile",
    "UCX",
    "NPP",
];

/// Whether a domain is that of a library in [`LIBRARY_DOMAINS`]. Upper and lower case count alike,
/// because versions of a library differ in it.
pub fn is_library_domain(domain: &[u8]) -> bool {
    LIBRARY_DOMAINS.iter().any(|known| domain.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_in_any_case_and_nothing_else_is() {
        for domain in ["NCCL", "nccl", "TSL", "CCCL", "cuBLAS", "CUBLAS", "cuDNN", "cuTENSOR"] {
            assert!(is_library_domain(domain.as_bytes()), "{domain}");
        }
        for domain in ["", "my.NCCL", "NCCL2", "vllm"] {
            assert!(!is_library_domain(domain.as_bytes()), "{domain}");
        }
    }
}
