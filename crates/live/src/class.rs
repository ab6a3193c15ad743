//! A piece of GPU work -> its class, as a small number: the classes of kernels, and what is no kernel.

use stage2_contract::text::KernelName;
use stage2_read::kernel_class::KernelClass;
use stage2_read::kernel_class::class_of;

/// The names of the classes, by number: those of kernels as in reports, then copies, fills, and graphs
/// that were recorded as a whole.
pub const CLASSES: [KernelClass; 15] = [
    KernelClass::Communication,
    KernelClass::Gemm,
    KernelClass::Attention,
    KernelClass::Moe,
    KernelClass::Norm,
    KernelClass::Softmax,
    KernelClass::Rope,
    KernelClass::Selection,
    KernelClass::Quantization,
    KernelClass::Scan,
    KernelClass::Copy,
    KernelClass::Fill,
    KernelClass::Reduction,
    KernelClass::Elementwise,
    KernelClass::Other,
];
/// Classes of kernels and the three others.
pub(crate) const COUNT: usize = CLASSES.len() + 3;
/// Copies between memories.
pub(crate) const MEMCPY: u8 = CLASSES.len() as u8;
/// Fills of memory.
pub(crate) const MEMSET: u8 = MEMCPY + 1;
/// Graphs without records of their kernels.
pub(crate) const GRAPH: u8 = MEMSET + 1;

/// The name of a class by its number.
pub fn class_label(class: u8) -> &'static str {
    match class {
        MEMCPY => "memcpy",
        MEMSET => "memset",
        GRAPH => "graph",
        class => CLASSES.get(usize::from(class)).map_or("other", |class| class.label()),
    }
}

/// The class of a kernel by its name.
pub(crate) fn of_kernel(name: &KernelName) -> u8 {
    let class = class_of(name);
    let at = CLASSES.iter().position(|&known| known == class);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(MEMCPY - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_contract::text::kernel_name;

    #[test]
    fn kernels_have_the_classes_of_reports_and_every_class_a_name_of_its_own() {
        let of = |name: &str| class_label(of_kernel(&kernel_name(name.as_bytes())));
        assert_eq!(of("sm90_xmma_gemm_bf16"), "gemm");
        assert_eq!(of("ncclDevKernel_AllReduce_Sum_bf16"), "communication");
        assert_eq!(of("no such thing"), "other");
        let mut labels: Vec<_> = (0..COUNT as u8).map(class_label).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), COUNT);
    }
}
