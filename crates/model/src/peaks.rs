//! Dense peak rates of a GPU.

use serde::{Deserialize, Serialize};

use crate::Precision;

/// Peak rates without structured sparsity: 10^12 FLOP/s, of the integer formats 10^12 operations/s.
/// Null where the source does not give one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseTflops {
    /// [`Precision::Fp64`].
    pub fp64: Option<f64>,
    /// [`Precision::Fp64Tensor`].
    pub fp64_tensor: Option<f64>,
    /// [`Precision::Fp32`].
    pub fp32: Option<f64>,
    /// [`Precision::Tf32`].
    pub tf32: Option<f64>,
    /// [`Precision::Fp16`].
    pub fp16: Option<f64>,
    /// [`Precision::Bf16`].
    pub bf16: Option<f64>,
    /// [`Precision::Fp8`].
    pub fp8: Option<f64>,
    /// [`Precision::Fp4`].
    pub fp4: Option<f64>,
    /// [`Precision::Int8`].
    pub int8: Option<f64>,
    /// [`Precision::Int4`].
    pub int4: Option<f64>,
    /// [`Precision::Fp16NonTensor`].
    pub fp16_non_tensor: Option<f64>,
    /// [`Precision::Bf16NonTensor`].
    pub bf16_non_tensor: Option<f64>,
}

impl DenseTflops {
    /// The rate of one precision.
    pub fn get(&self, precision: Precision) -> Option<f64> {
        let mut copy = *self;
        *copy.slot(precision)
    }

    /// The field of one precision.
    pub fn slot(&mut self, precision: Precision) -> &mut Option<f64> {
        match precision {
            Precision::Fp64 => &mut self.fp64,
            Precision::Fp64Tensor => &mut self.fp64_tensor,
            Precision::Fp32 => &mut self.fp32,
            Precision::Tf32 => &mut self.tf32,
            Precision::Fp16 => &mut self.fp16,
            Precision::Bf16 => &mut self.bf16,
            Precision::Fp8 => &mut self.fp8,
            Precision::Fp4 => &mut self.fp4,
            Precision::Int8 => &mut self.int8,
            Precision::Int4 => &mut self.int4,
            Precision::Fp16NonTensor => &mut self.fp16_non_tensor,
            Precision::Bf16NonTensor => &mut self.bf16_non_tensor,
        }
    }
}

/// The peak rates that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Name of the card, or `configuration` where only single values were set.
    pub card: String,
    /// Where the figures are from.
    pub source: String,
    /// Dense peak rates.
    pub dense_tflops: DenseTflops,
    /// Peak memory bandwidth, 10^9 bytes/s.
    pub memory_gb_per_s: Option<f64>,
    /// Keys whose value is the configuration's, and not the preset's.
    pub overridden: Vec<String>,
}

impl Peaks {
    /// Peak rate of one precision, FLOP/s (operations/s of the integer formats).
    pub fn flops_per_s(&self, precision: Precision) -> Option<f64> {
        self.dense_tflops.get(precision).map(|tera| tera * 1e12)
    }

    /// Peak memory bandwidth, bytes/s.
    pub fn bytes_per_s(&self) -> Option<f64> {
        self.memory_gb_per_s.map(|giga| giga * 1e9)
    }
}
