//! The name of a kernel that autotuning or a compiler made -> what of it says what the kernel computes.
//!
//! cuBLAS, CUTLASS, cuDNN and Triton put tile sizes, stages and running numbers into names, and choose
//! anew with each version, shape and GPU. What is left without them is the stem.

/// Families whose names hold what was tuned: how a word of the name begins.
const FAMILIES: &[&str] = &[
    "nvjet",
    "cutlass",
    "cublas",
    "ampere",
    "volta",
    "turing",
    "hopper",
    "blackwell",
    "maxwell",
    "sm80",
    "sm86",
    "sm89",
    "sm90",
    "sm100",
    "sm120",
    "xmma",
    "triton",
    "cudnn",
    "gemv",
    "gemm",
    "gemmk1",
    "deepgemm",
    "deep_gemm",
    "flashinfer",
    "flash",
    "fmha",
    "pytorch_flash",
];

/// Number formats by the words that names have for them; the special before the general.
const FORMATS: &[(&str, &[&str])] = &[
    ("fp4", &["e2m1", "nvfp4", "mxfp4", "fp4"]),
    ("fp8", &["e4m3", "e5m2", "fp8", "float8", "f8"]),
    ("bf16", &["bf16", "bfloat16", "nv_bfloat16"]),
    ("tf32", &["tf32"]),
    ("int8", &["s8", "i8", "int8", "imma"]),
    ("fp16", &["f16", "fp16", "half", "hgemm", "h16816gemm", "s16816gemm", "float16"]),
    ("fp64", &["f64", "dgemm", "fp64"]),
    ("fp32", &["sgemm", "f32", "fp32"]),
];

/// Whether a name is of a family whose names change when nothing else does.
pub(super) fn is_tuned(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = || lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words().any(|word| FAMILIES.iter().any(|family| word.starts_with(family)))
        || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| FAMILIES.contains(&word))
}

/// The number format that a name says; nothing where it says none.
pub(super) fn format(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    if words.first() == Some(&"nvjet") {
        // Behind the architecture: input, accumulator and output, a letter each.
        let types = words.iter().skip(1).find(|word| !word.starts_with("sm"))?;
        return match types.chars().next()? {
            'h' => Some("fp16"),
            't' => Some("bf16"),
            's' => Some("fp32"),
            'q' | 'o' | 'r' => Some("fp8"),
            'd' => Some("fp64"),
            _ => None,
        };
    }
    let says = |word: &&str| {
        words.iter().any(|found| found == word || found.ends_with("bf16") && *word == "bf16")
    };
    FORMATS.iter().find(|(_, words)| words.iter().any(&says)).map(|(format, _)| *format)
}

/// The name without numbers and what stands for layouts and schedules beside them.
pub(super) fn stem(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()) {
        let is_size = word.contains(|c: char| c.is_ascii_digit()) && !is_lasting(word);
        if word.is_empty() || is_size || SCHEDULES.contains(&word) {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Words of nvjet and CUTLASS for orders of tiles and for schedules, which are tuned as well.
const SCHEDULES: &[&str] = &[
    "h",
    "v",
    "bz",
    "bias",
    "coopA",
    "coopB",
    "splitK",
    "TNT",
    "TNN",
    "NNT",
    "NNN",
    "NTN",
    "NTT",
    "TTN",
    "TTT",
    "nn",
    "nt",
    "tn",
    "tt",
    "streamk",
    "pingpong",
    "cooperative",
];

/// Words with digits that say what is computed, and not how.
fn is_lasting(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    FORMATS.iter().any(|(_, words)| words.contains(&lower.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuned_names_keep_what_they_compute() {
        let (a, b) = (
            "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT",
            "nvjet_sm90_tst_64x32_64x16_4x1_h_bz_splitK_TNT",
        );
        assert_eq!(stem(a), stem(b));
        assert_ne!(stem(a), stem("nvjet_sm90_hsh_64x8_64x16_2x1_v_bz_TNT"));
        assert_eq!(stem("triton_poi_fused_add_mul_3"), stem("triton_poi_fused_add_mul_12"));
        assert_ne!(stem("triton_poi_fused_add_3"), stem("triton_poi_fused_mul_3"));
        for (name, found) in [
            (a, Some("bf16")),
            ("nvjet_sm90_hsh_64x8_1x1_h_bz_TNT", Some("fp16")),
            ("ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn", Some("bf16")),
            ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_nn", Some("fp16")),
            ("cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>", Some("fp32")),
            ("ampere_sgemm_32x32_sliced1x4_tn", Some("fp32")),
            ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128", Some("bf16")),
            ("triton_poi_fused_add_3", None),
        ] {
            assert_eq!(format(name), found, "{name}");
        }
    }

    #[test]
    fn only_families_that_tune_are_tuned() {
        for name in [
            "nvjet_sm90_tst_64x8",
            "triton_red_fused_3",
            "void cutlass::Kernel2<x>",
            "cudnn_generated_fort_native_sdpa_sm90",
            "cublasLt::splitKreduce_kernel<32>",
            "ampere_sgemm_32x32_tn",
            "pytorch_flash::flash_fwd_kernel<x>",
        ] {
            assert!(is_tuned(name), "{name}");
        }
        for name in ["at::native::vectorized_elementwise_kernel<4>", "my_kernel", ""] {
            assert!(!is_tuned(name), "{name}");
        }
    }
}
