//! CSV tables that claim to be those of `nsys stats`.

use stage2_read::nsys::csv;
use stage2_read::trace::libraries::RangeNames;

use super::{check_findings, same_twice};
use crate::scratch;

pub(super) fn check(input: &[u8]) {
    let file = scratch::file("input_cuda_gpu_kern_sum_mangled.csv", input);
    let tables = same_twice("tables", || {
        csv::load(std::slice::from_ref(&file.path), &RangeNames::default())
    });
    check_findings(&tables.findings);
    let named = tables.findings.iter().any(|finding| finding.what.contains("input_cuda"));
    assert!(
        tables.complete || named,
        "a part is missing, and nothing says so: {:?}",
        tables.findings
    );
    for kernel in &tables.kernels {
        assert!(kernel.min_ns <= kernel.max_ns || kernel.max_ns.is_none(), "{kernel:?}");
    }
    super::check_nsys(&tables);
}
