//! The kinds of work that kernels do.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// What kind of work a kernel does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case")]
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
    /// Its name in reports.
    pub fn label(self) -> &'static str {
        self.into()
    }
}
