//! How much of an export is held, at most.
//!
//! A sound export stays far below every number here. A hostile one has millions of kinds of kernels,
//! or names of megabytes, and each of them costs memory in several tables. What is beyond a limit is
//! counted together in one row, or is placed in no range, and a finding states how much that is.

use std::path::Path;

use stage2_model::Finding;
use stage2_model::finding::Id;

/// Ranges that go on under another path, at most: hostile ones could do so for ever.
pub(super) const MAX_CONTINUED: u64 = 4_000_000;

/// How much of an export is held.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Paths of ranges within ranges.
    pub paths: usize,
    /// Distinct outermost ranges: reports look at each of them by itself.
    pub stages: usize,
    /// Groups of GPU work: rows of the reports. Beyond it ranges within others are left out.
    pub groups: usize,
    /// Groups in outermost ranges. Beyond it no more work is placed in ranges.
    pub outermost_groups: usize,
    /// Kinds of GPU work: kernels by name, launch configuration and device. A model has hundreds.
    pub kinds: usize,
    /// Bytes of the names of kernels, and of those of ranges and domains.
    pub name_bytes: usize,
    /// Ranges that are open at once, or begin at the same time.
    pub open: usize,
    /// Ranges that go on after one around them closed.
    pub continuations: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            paths: 100_000,
            stages: 10_000,
            groups: 100_000,
            outermost_groups: 100_000,
            kinds: 100_000,
            name_bytes: 16 << 20,
            open: 250_000,
            continuations: MAX_CONTINUED,
        }
    }
}

impl Limits {
    /// The most groups of an export, including those outside of ranges and those of single processes.
    /// Work beyond this number goes into one group for all other kinds.
    pub(super) fn all_groups(self) -> usize {
        self.groups.max(self.outermost_groups).saturating_add(self.kinds / 4)
    }
}

/// What is beyond the limits, and so not in the numbers as it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::nsys) struct LeftOut {
    /// Ranges that are together in one row.
    pub(super) ranges: u64,
    /// Pieces of GPU work that are in no range, and how many of them are kernels.
    pub(super) unplaced: u64,
    pub(in crate::nsys) unplaced_kernels: u64,
    /// Pieces of GPU work that are together in one row for each sort of work.
    pub(super) lumped: u64,
    /// Names of kernels that were not kept.
    pub(super) kernel_names: u64,
    /// Names of domains that were not kept.
    pub(super) domains: u64,
    /// There are too many blocks of API calls to tell whether some are missing.
    pub(super) call_numbers: bool,
}

impl LeftOut {
    /// Adds what the tables of GPU work left out to what the walk did.
    pub(super) fn add(&mut self, of_tables: LeftOut) {
        self.lumped += of_tables.lumped;
        self.kernel_names += of_tables.kernel_names;
        self.call_numbers |= of_tables.call_numbers;
    }

    /// Whether all of the file is in the numbers, each in its own row.
    pub(in crate::nsys) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// One finding for each sort of thing that was left out.
    pub(super) fn findings(&self, file: &Path, limits: Limits) -> Vec<Finding> {
        let file = file.display();
        let mib = limits.name_bytes >> 20;
        let Self { ranges, unplaced, lumped, kernel_names, domains, call_numbers, .. } = *self;
        let shorter = "capture a shorter part (profiling/nsys=nsys.gated), or export again if the \
                       file may be damaged";
        let all = [
            (
                ranges > 0,
                format!("{ranges} ranges of {file} have no separate row"),
                "there are too many kinds of outermost ranges; these are together in the row \
                 (other ranges)"
                    .to_owned(),
                "put an outer range around each stage",
            ),
            (
                unplaced > 0,
                format!("{unplaced} pieces of GPU work of {file} were not placed in ranges"),
                format!(
                    "the work before them makes {} rows, and no more are kept; counts and times of \
                     kernels have all",
                    limits.outermost_groups
                ),
                shorter,
            ),
            (
                lumped > 0,
                format!("{lumped} pieces of GPU work of {file} have no separate row"),
                format!(
                    "there are more than {} kinds of kernels, or their names take too much memory; \
                     these are together in the row {OTHER_KERNELS}",
                    limits.kinds
                ),
                shorter,
            ),
            (
                kernel_names > 0,
                format!("{kernel_names} names of kernels of {file} were not kept"),
                format!("all names of kernels together are longer than {mib} MiB"),
                shorter,
            ),
            (
                domains > 0,
                format!("{domains} names of NVTX domains of {file} were not kept"),
                "there are too many of them; their numbers are shown instead, and ranges of libraries may \
                 count as the workload's"
                    .to_owned(),
                shorter,
            ),
            (
                call_numbers,
                format!("whether {file} lost records is not known"),
                "the numbers of its API calls are too far apart to see what is missing".to_owned(),
                "compare it with the collector",
            ),
        ];
        let found = all.into_iter().filter(|(found, ..)| *found);
        found.map(|(_, what, why, remedy)| Id::NsysBeyondLimits.found(what, why, remedy)).collect()
    }
}

/// The name of the row for all kernels beyond [`Limits::kinds`].
pub(in crate::nsys) const OTHER_KERNELS: &str = "(other kernels)";
