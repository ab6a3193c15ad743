//! Operations that counters measured of one launch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Operations of one launch by type. Absent is not zero: it was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flops {
    /// Double precision, without tensor cores.
    pub fp64: Option<f64>,
    /// Single precision, without tensor cores.
    pub fp32: Option<f64>,
    /// Half precision and bfloat16, without tensor cores.
    pub fp16: Option<f64>,
    /// Floating-point operations of the tensor cores by type of their inputs: `bf16`, `fp16`,
    /// `tf32`, `fp8`, `fp64`, ...; empty: not measured.
    pub tensor: BTreeMap<String, f64>,
    /// Integer operations of the tensor cores by type of their inputs: they are no FLOPs.
    pub tensor_integer: BTreeMap<String, f64>,
}

impl Flops {
    /// All floating-point operations that were measured; nothing where none was.
    pub fn total(&self) -> Option<f64> {
        let plain = [self.fp64, self.fp32, self.fp16];
        let measured = plain.iter().any(Option::is_some) || !self.tensor.is_empty();
        measured.then(|| plain.iter().flatten().sum::<f64>() + self.tensor.values().sum::<f64>())
    }

    /// Those of the tensor cores; nothing where they were not measured.
    pub fn tensor_total(&self) -> Option<f64> {
        (!self.tensor.is_empty()).then(|| self.tensor.values().sum())
    }
}
