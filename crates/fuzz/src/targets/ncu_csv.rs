//! CSV pages that claim to be those of `ncu --import`.

use stage2_read::ncu::load::{Source, load};

use super::{check_findings, same_twice};

pub(super) fn check(input: &[u8]) {
    let tables = same_twice("tables", || load([Source { name: "input.csv".to_owned(), input }]));
    check_findings(&tables.findings);
    let quantities = tables.launches.iter().flat_map(|launch| launch.metrics.values());
    assert!(quantities.into_iter().all(|quantity| quantity.value.is_finite()));
    assert!(
        !tables.launches.is_empty() || !tables.findings.is_empty(),
        "nothing was read, and nothing says so"
    );
}
