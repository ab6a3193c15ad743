//! The number formats that models are stored in and GPUs compute in, and the peak rates of the latter.

use std::collections::BTreeMap;

use serde::de::IntoDeserializer;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

/// A rate of arithmetic that a GPU has a peak for. Tensor-core rates unless the name states otherwise.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    VariantArray,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Precision {
    /// FP64 outside of the tensor cores.
    Fp64,
    /// FP64 on tensor cores.
    Fp64Tensor,
    /// FP32 outside of the tensor cores.
    Fp32,
    /// TF32.
    Tf32,
    /// FP16, accumulated in FP32.
    Fp16,
    /// BF16.
    Bf16,
    /// FP8.
    Fp8,
    /// FP4.
    Fp4,
    /// 8-bit integers.
    Int8,
    /// 4-bit integers.
    Int4,
    /// FP16 outside of the tensor cores.
    Fp16NonTensor,
    /// BF16 outside of the tensor cores.
    Bf16NonTensor,
}

/// A number format of weights, activations or the KV cache; read by PyTorch's names as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Dtype {
    /// 64-bit floating point.
    #[serde(alias = "float64", alias = "double")]
    Fp64,
    /// 32-bit floating point.
    #[serde(alias = "float32", alias = "float")]
    Fp32,
    /// Stored as FP32, multiplied as TF32.
    Tf32,
    /// IEEE half precision.
    #[serde(alias = "float16", alias = "half")]
    Fp16,
    /// bfloat16.
    #[serde(alias = "bfloat16")]
    Bf16,
    /// 8-bit floating point.
    #[serde(alias = "float8", alias = "float8_e4m3fn", alias = "float8_e5m2")]
    Fp8,
    /// 4-bit floating point.
    #[serde(alias = "nvfp4", alias = "mxfp4")]
    Fp4,
    /// 8-bit integers.
    Int8,
    /// 4-bit integers.
    Int4,
}

impl Dtype {
    /// Bytes of one number, 0.5 for the 4-bit formats; without the scales of quantised blocks.
    pub fn bytes(self) -> f64 {
        match self {
            Dtype::Fp64 => 8.0,
            Dtype::Fp32 | Dtype::Tf32 => 4.0,
            Dtype::Fp16 | Dtype::Bf16 => 2.0,
            Dtype::Fp8 | Dtype::Int8 => 1.0,
            Dtype::Fp4 | Dtype::Int4 => 0.5,
        }
    }

    /// The peak rate that matrix products in it are compared with.
    pub fn precision(self) -> Precision {
        match self {
            Dtype::Fp64 => Precision::Fp64Tensor,
            Dtype::Fp32 => Precision::Fp32,
            Dtype::Tf32 => Precision::Tf32,
            Dtype::Fp16 => Precision::Fp16,
            Dtype::Bf16 => Precision::Bf16,
            Dtype::Fp8 => Precision::Fp8,
            Dtype::Fp4 => Precision::Fp4,
            Dtype::Int8 => Precision::Int8,
            Dtype::Int4 => Precision::Int4,
        }
    }

    /// Reads the names that PyTorch and Hugging Face use (`bfloat16`, `torch.float16`).
    pub fn parse(name: &str) -> Option<Dtype> {
        let name = name.trim().to_ascii_lowercase();
        let name = name.strip_prefix("torch.").unwrap_or(&name);
        if name.starts_with("float8_") {
            return Some(Dtype::Fp8);
        }
        Dtype::deserialize(IntoDeserializer::<serde::de::value::Error>::into_deserializer(name))
            .ok()
    }
}

/// Peak rates without structured sparsity: 10^12 FLOP/s, of the integer formats 10^12 operations/s.
/// Null where the source does not give one.
pub type DenseTflops = BTreeMap<Precision, Option<f64>>;

/// All precisions, none of whose rates is known.
pub fn no_rates() -> DenseTflops {
    Precision::VARIANTS.iter().map(|precision| (*precision, None)).collect()
}

/// The peak rates that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        self.dense_tflops.get(&precision)?.map(|tera| tera * 1e12)
    }

    /// Peak memory bandwidth, bytes/s.
    pub fn bytes_per_s(&self) -> Option<f64> {
        self.memory_gb_per_s.map(|giga| giga * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pytorch_are_read() {
        for (name, dtype) in [
            ("torch.bfloat16", Some(Dtype::Bf16)),
            (" Float16 ", Some(Dtype::Fp16)),
            ("float8_e4m3fn", Some(Dtype::Fp8)),
            ("auto", None),
            ("", None),
        ] {
            assert_eq!(Dtype::parse(name), dtype, "{name}");
        }
        assert_eq!(Dtype::Int4.bytes() * 2.0, Dtype::Int8.bytes());
    }

    #[test]
    fn keys_are_those_that_serde_writes() {
        for &precision in Precision::VARIANTS {
            let json = serde_json::to_value(precision).expect("a unit variant");
            assert_eq!(json, precision.to_string());
        }
        for dtype in [Dtype::Fp64, Dtype::Bf16, Dtype::Int4, Dtype::Tf32] {
            assert_eq!(serde_json::to_value(dtype).expect("a unit variant"), dtype.to_string());
            assert_eq!(Dtype::parse(&dtype.to_string()), Some(dtype));
        }
    }
}
