//! The kinds of work that kernels do.

use serde::{Deserialize, Serialize};

/// What kind of work a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelClass {
    /// Between GPUs: collectives, point to point, expert dispatch.
    Communication,
    /// Matrix products, matrix-vector products and convolutions, with their split-K reductions.
    Gemm,
    /// Scaled dot-product attention, with the reductions of its parts.
    Attention,
    /// Mixture of experts: routing, permutation, grouped products.
    Moe,
    /// Layer, RMS, batch and group norms.
    Norm,
    /// Softmax by itself.
    Softmax,
    /// Rotary position embedding.
    Rope,
    /// Choosing among values: top-k, sort, argmax, multinomial. Samplers do that with tokens and
    /// routers with experts, by the same kernels.
    Selection,
    /// Quantisation and dequantisation by themselves.
    Quantization,
    /// State-space and linear-attention scans.
    Scan,
    /// Copies, casts, concatenation, gather, scatter, embedding, cache writes.
    Copy,
    /// Fills.
    Fill,
    /// Reductions.
    Reduction,
    /// Arithmetic on each element.
    Elementwise,
    /// Not recognised.
    Other,
}

impl KernelClass {
    /// All of them, in the order in which reports list them.
    pub const ALL: [KernelClass; 15] = [
        KernelClass::Gemm,
        KernelClass::Attention,
        KernelClass::Moe,
        KernelClass::Norm,
        KernelClass::Softmax,
        KernelClass::Rope,
        KernelClass::Elementwise,
        KernelClass::Reduction,
        KernelClass::Copy,
        KernelClass::Fill,
        KernelClass::Quantization,
        KernelClass::Scan,
        KernelClass::Selection,
        KernelClass::Communication,
        KernelClass::Other,
    ];

    /// Its name in reports.
    pub fn label(self) -> &'static str {
        match self {
            KernelClass::Communication => "communication",
            KernelClass::Gemm => "gemm",
            KernelClass::Attention => "attention",
            KernelClass::Moe => "moe",
            KernelClass::Norm => "norm",
            KernelClass::Softmax => "softmax",
            KernelClass::Rope => "rope",
            KernelClass::Selection => "selection",
            KernelClass::Quantization => "quantization",
            KernelClass::Scan => "scan",
            KernelClass::Copy => "copy",
            KernelClass::Fill => "fill",
            KernelClass::Reduction => "reduction",
            KernelClass::Elementwise => "elementwise",
            KernelClass::Other => "other",
        }
    }
}
