//! Guests whose NVTX calls make no sense, or are far too many: nothing is guessed, nothing grows.

#[allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
mod common;

use common::{Guest, counts};

#[test]
fn ends_of_what_was_never_started_or_has_ended_leave_collection_as_it_is() {
    let left = Guest::new("bogus_ends").env("STAGE2_RANGES", "want").run();
    let spool = left.expect_quiet(0).spool();
    assert_eq!(spool.kernels(), counts(&[("want", 53)]));
    assert_eq!(spool.losses().unbalanced, 12);
}
