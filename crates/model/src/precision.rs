//! Names of number formats -> the formats that models are stored in and GPUs compute in.

use serde::{Deserialize, Serialize};

/// A rate of arithmetic that a GPU has a peak for. Tensor-core rates unless the name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl Precision {
    /// All of them, in the order of the presets.
    pub const ALL: [Precision; 12] = [
        Precision::Fp64,
        Precision::Fp64Tensor,
        Precision::Fp32,
        Precision::Tf32,
        Precision::Fp16,
        Precision::Bf16,
        Precision::Fp8,
        Precision::Fp4,
        Precision::Int8,
        Precision::Int4,
        Precision::Fp16NonTensor,
        Precision::Bf16NonTensor,
    ];

    /// Its key in the presets.
    pub fn key(self) -> &'static str {
        match self {
            Precision::Fp64 => "fp64",
            Precision::Fp64Tensor => "fp64_tensor",
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
            Precision::Fp4 => "fp4",
            Precision::Int8 => "int8",
            Precision::Int4 => "int4",
            Precision::Fp16NonTensor => "fp16_non_tensor",
            Precision::Bf16NonTensor => "bf16_non_tensor",
        }
    }
}

/// A number format of weights, activations or the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 64-bit floating point.
    #[serde(alias = "float64")]
    Fp64,
    /// 32-bit floating point.
    #[serde(alias = "float32")]
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
    Fp4,
    /// 8-bit integers.
    Int8,
    /// 4-bit integers.
    Int4,
}

impl Dtype {
    /// Bytes of one number; half a byte for the 4-bit formats. Scales of quantised blocks are not
    /// counted.
    pub fn bytes(self) -> f64 {
        match self {
            Dtype::Fp64 => 8.0,
            Dtype::Fp32 | Dtype::Tf32 => 4.0,
            Dtype::Fp16 | Dtype::Bf16 => 2.0,
            Dtype::Fp8 | Dtype::Int8 => 1.0,
            Dtype::Fp4 | Dtype::Int4 => 0.5,
        }
    }

    /// The peak rate that matrix products in it are held against.
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

    /// Its key in the presets.
    pub fn key(self) -> &'static str {
        match self {
            Dtype::Fp64 => "fp64",
            Dtype::Fp32 => "fp32",
            Dtype::Tf32 => "tf32",
            Dtype::Fp16 => "fp16",
            Dtype::Bf16 => "bf16",
            Dtype::Fp8 => "fp8",
            Dtype::Fp4 => "fp4",
            Dtype::Int8 => "int8",
            Dtype::Int4 => "int4",
        }
    }

    /// Reads the names that PyTorch and Hugging Face use (`bfloat16`, `torch.float16`).
    pub fn parse(name: &str) -> Option<Dtype> {
        let name = name.trim().to_ascii_lowercase();
        let name = name.strip_prefix("torch.").unwrap_or(&name);
        match name {
            "float64" | "double" | "fp64" => Some(Dtype::Fp64),
            "float32" | "float" | "fp32" => Some(Dtype::Fp32),
            "tf32" => Some(Dtype::Tf32),
            "float16" | "half" | "fp16" => Some(Dtype::Fp16),
            "bfloat16" | "bf16" => Some(Dtype::Bf16),
            "fp8" | "float8" => Some(Dtype::Fp8),
            "fp4" | "nvfp4" | "mxfp4" => Some(Dtype::Fp4),
            "int8" => Some(Dtype::Int8),
            "int4" => Some(Dtype::Int4),
            other if other.starts_with("float8_") => Some(Dtype::Fp8),
            _ => None,
        }
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
        for precision in Precision::ALL {
            let json = serde_json::to_value(precision).expect("a unit variant");
            assert_eq!(json, precision.key());
        }
        for dtype in [Dtype::Fp64, Dtype::Bf16, Dtype::Int4, Dtype::Tf32] {
            assert_eq!(serde_json::to_value(dtype).expect("a unit variant"), dtype.key());
            assert_eq!(Dtype::parse(dtype.key()), Some(dtype));
        }
    }
}
