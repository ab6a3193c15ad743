//! What is fuzzed: one file for each kind of foreign bytes.

mod bundle;
mod hydra;
mod metrics_json;
mod ncu_csv;
mod nsys_csv;
mod nsys_sqlite;
mod nvtx;
mod trace;

use std::fmt::Debug;
use std::time::Duration;

use stage2_model::Finding;

use crate::Limits;
use crate::mutate::{self, Mutator};

/// A reader of foreign bytes, and what has to hold for every input.
#[derive(Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Reads an input, and panics where a property fails.
    pub check: fn(&[u8]),
    /// Changes an input.
    pub mutate: Mutator,
    /// What one input may take.
    pub limits: Limits,
}

const MIB: usize = 1 << 20;

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "trace",
        check: trace::check,
        mutate: mutate::trace,
        limits: limits(1, MIB, 400),
    },
    Target {
        name: "bundle",
        check: bundle::check,
        mutate: mutate::bundle::bundle,
        limits: limits(5, 64 * MIB, 2_000),
    },
    Target {
        name: "nsys_sqlite",
        check: nsys_sqlite::check,
        mutate: mutate::sqlite,
        // SQLite lists the pages of a record by the length that it claims, 8 bytes a page: of at most
        // 4 GiB in pages of 512 bytes these are 64 MiB.
        limits: limits(2, 80 * MIB, 500),
    },
    Target {
        name: "nsys_csv",
        check: nsys_csv::check,
        mutate: mutate::table,
        limits: limits(1, 2 * MIB, 200),
    },
    Target {
        name: "ncu_csv",
        check: ncu_csv::check,
        mutate: mutate::table,
        limits: limits(1, 2 * MIB, 400),
    },
    Target {
        name: "hydra",
        check: hydra::check,
        mutate: mutate::override_words,
        limits: limits(1, 2 * MIB, 1_000),
    },
    Target { name: "nvtx", check: nvtx::check, mutate: mutate::bytes, limits: limits(1, MIB, 400) },
    Target {
        name: "metrics_json",
        check: metrics_json::check,
        mutate: mutate::json,
        limits: limits(2, 8 * MIB, 400),
    },
];

const fn limits(seconds: u64, memory_bytes: usize, memory_per_byte: usize) -> Limits {
    Limits { time: Duration::from_secs(seconds), memory_bytes, memory_per_byte }
}

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Gives what `read` gives, which has to be the same a second time: nothing may depend on the order of a
/// hash table, on a clock or on what was read before.
fn same_twice<T: Debug + PartialEq>(what: &str, read: impl Fn() -> T) -> T {
    let (first, second) = (read(), read());
    // As texts NaN is itself.
    if first != second {
        let (one, other) = (format!("{first:?}"), format!("{second:?}"));
        assert!(one == other, "{what}: the second reading differs: {}", difference(&one, &other));
    }
    first
}

/// Where two texts part, with what is around.
fn difference(one: &str, other: &str) -> String {
    let at = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let around =
        |text: &str| text.chars().skip(at.saturating_sub(80)).take(200).collect::<String>();
    format!("\n  {:?}\n  {:?}", around(one), around(other))
}

/// A finding has to say what happened, and hold nothing that changes a terminal.
fn check_findings(findings: &[Finding]) {
    for finding in findings {
        let Finding { what, why, remedy, .. } = finding;
        assert!(!what.is_empty(), "a finding says nothing: {finding:?}");
        let shown = [what, why, remedy].into_iter().all(|text| !text.contains('\u{1b}'));
        assert!(shown, "a control character in a finding: {finding:?}");
    }
}

/// What holds for every table of nsys, whatever the file was.
fn check_nsys(tables: &stage2_read::nsys::Tables) {
    for range in &tables.ranges {
        for row in &range.kernels {
            assert!(row.kernel < tables.kernels.len(), "a range names a kernel that is not there");
        }
    }
    let calls = tables.kernels.iter().map(|kernel| u128::from(kernel.calls)).sum::<u128>();
    let counted = u128::from(tables.counts.kernels);
    assert!(calls.min(u64::MAX.into()) <= counted, "{calls} calls of {counted} kernels");
}
