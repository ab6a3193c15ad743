//! An export of nsys -> kernels and ranges, with counts of everything that could not be used.
//!
//! [`capture`] reads a SQLite export: with its outermost ranges for [`sqlite`], which sums them up,
//! and with all of them where the rows of a report are to be its own. [`csv`] reads the tables of
//! `nsys stats`, for where there is no SQLite file. Nothing here fails because of what a file holds:
//! what cannot be used is counted or becomes a finding that names the file, and [`Tables::complete`]
//! states whether all was read.

pub use sqlite::Traced;
use stage2_contract::order::Order as _;
use stage2_model::Finding;
use stage2_model::finding::Id;
use stage2_model::nsys::{Counts, Source};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub mod capture;
pub mod csv;
mod csv_cells;
pub mod database;
pub mod diagnostics;
pub mod folder;
mod reports;
pub mod sqlite;

/// What an export holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// What kind of files they are.
    pub source: Source,
    /// Version of nsys that wrote them, where they say so.
    pub tool_version: Option<String>,
    /// Version of their schema, where they say so.
    pub schema_version: Option<String>,
    /// What was to be recorded, where they say so.
    pub traced: Traced,
    /// Names of the GPUs, by device number.
    pub devices: BTreeMap<u32, String>,
    /// Kernels, one row for each name, launch configuration and device; longest total first.
    pub kernels: Vec<Kernel>,
    /// Ranges, longest kernel time first.
    pub ranges: Vec<Range>,
    /// How their kernels add up.
    pub placed: Placed,
    /// What was read.
    pub counts: Counts,
    /// Everything that was looked for is there and was read to its end.
    pub complete: bool,
    /// What nsys itself says about the capture, what matters most first.
    pub said: Vec<String>,
    /// What is wrong with the files.
    pub findings: Vec<Finding>,
}

/// How the kernels of the ranges of an export add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placed {
    /// Some may be in several ranges, or in one that is not known.
    #[default]
    NotKnown,
    /// Each kernel is in one range, or in none.
    Once,
    /// A kernel is in each range around it, and its calls are those of all of these.
    InEach,
}

/// What the name of a kernel is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Naming {
    /// As the linker sees it: the only form that joins with other tools.
    #[default]
    Mangled,
    /// Demangled by nsys, with its arguments.
    Demangled,
    /// The bare name of the function.
    Short,
}

/// Kernels of one name, launch configuration and device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Its name, shared by all kernels of the name.
    pub name: Arc<str>,
    /// What that name is.
    pub naming: Naming,
    /// Blocks in x, y, z; none where the file does not say.
    pub grid: Option<[u32; 3]>,
    /// Threads in x, y, z.
    pub block: Option<[u32; 3]>,
    /// Device number.
    pub device: Option<u32>,
    /// How often it ran.
    pub calls: u64,
    /// Sum of the durations, ns.
    pub total_ns: u64,
    /// Shortest duration, ns.
    pub min_ns: Option<u64>,
    /// Longest duration, ns.
    pub max_ns: Option<u64>,
    /// Calls without valid times: in `calls`, and in no time.
    pub untimed: u64,
}

/// All ranges of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Its name.
    pub name: String,
    /// Name of its NVTX domain; none: the default domain.
    pub domain: Option<String>,
    /// How often it was opened; none where the file does not say.
    pub instances: Option<u64>,
    /// Instances without an end: still open when the capture ended.
    pub unclosed: u64,
    /// Host time between opening and closing, ns, of those that were closed.
    pub host_total_ns: Option<u64>,
    /// Closed instances without the first of each process; none where the file has no single ones.
    pub host_warm_instances: Option<u64>,
    /// Sample standard deviation of their host time, ns.
    pub host_warm_std_ns: Option<u64>,
    /// Median host time of the closed instances without the first of each process, ns; none where
    /// the file has no single instances.
    pub host_warm_median_ns: Option<u64>,
    /// Kernels launched in it.
    pub calls: u64,
    /// Sum of their durations, ns.
    pub total_ns: u64,
    /// Which kernels.
    pub kernels: Vec<RangeKernel>,
}

/// Kernels of one row that were launched in one range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeKernel {
    /// Index in [`Tables::kernels`].
    pub kernel: usize,
    /// How often it was launched there.
    pub calls: u64,
    /// Sum of the durations, ns.
    pub total_ns: u64,
}

/// Kernels of one name, over every launch configuration and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total<'a> {
    /// Its mangled name.
    pub mangled: &'a str,
    /// How often it ran.
    pub calls: u64,
    /// Sum of the durations, ns.
    pub total_ns: u64,
}

impl Tables {
    /// Kernels by mangled name, by name. Those that have none are left out; see
    /// [`Tables::nameless_calls`].
    pub fn totals(&self) -> Vec<Total<'_>> {
        sum(self.kernels.iter().map(|kernel| (kernel, kernel.calls, kernel.total_ns)))
    }

    /// Kernels of the range of that name, by mangled name; of all domains, if none is named.
    /// `None`: there is no such range.
    pub fn totals_in(&self, range: &str, domain: Option<&str>) -> Option<Vec<Total<'_>>> {
        let found: Vec<_> = self.named(range, domain).collect();
        let rows = found.iter().flat_map(|range| &range.kernels);
        let kernel =
            |row: &RangeKernel| Some((self.kernels.get(row.kernel)?, row.calls, row.total_ns));
        (!found.is_empty()).then(|| sum(rows.filter_map(kernel)))
    }

    /// How often the range of that name was opened, where the file reports it.
    pub fn instances(&self, range: &str, domain: Option<&str>) -> Option<u64> {
        self.named(range, domain)
            .map(|range| range.instances)
            .try_fold(0_u64, |sum, n| Some(sum.saturating_add(n?)))
            .filter(|n| *n > 0)
    }

    /// Calls of kernels that have no mangled name, and can be joined with nothing.
    pub fn nameless_calls(&self) -> u64 {
        let nameless = self.kernels.iter().filter(|kernel| kernel.naming != Naming::Mangled);
        nameless.map(|kernel| kernel.calls).fold(0, u64::saturating_add)
    }

    fn warn_if(&mut self, when: bool, id: Id, what: String, why: &str, remedy: &str) {
        if when {
            self.findings.push(id.found(what, why, remedy));
        }
    }

    /// Kernels and ranges by falling time; references between them stay right.
    fn sort(&mut self) {
        let kernels = std::mem::take(&mut self.kernels);
        let mut order: Vec<usize> = (0..kernels.len()).collect();
        let key = |index: usize| {
            kernels.get(index).map(|k| {
                (std::cmp::Reverse(k.total_ns), &k.name, k.naming, k.grid, k.block, k.device)
            })
        };
        order.order_by(|&a, &b| key(a).cmp(&key(b)));
        let mut place = vec![0; kernels.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(slot) = place.get_mut(old) {
                *slot = new;
            }
        }
        let mut kernels: Vec<Option<Kernel>> = kernels.into_iter().map(Some).collect();
        self.kernels = order.iter().filter_map(|&old| kernels.get_mut(old)?.take()).collect();
        for range in &mut self.ranges {
            for row in &mut range.kernels {
                row.kernel = place.get(row.kernel).copied().unwrap_or(usize::MAX);
            }
            range.kernels.order_by_key(|row| (std::cmp::Reverse(row.total_ns), row.kernel));
        }
        self.ranges.order_by(|a, b| {
            (b.total_ns, &a.name, &a.domain).cmp(&(a.total_ns, &b.name, &b.domain))
        });
    }

    fn named(&self, range: &str, domain: Option<&str>) -> impl Iterator<Item = &Range> {
        let is_of = move |of: &Range| domain.is_none_or(|d| of.domain.as_deref() == Some(d));
        self.ranges.iter().filter(move |of| of.name == range && is_of(of))
    }
}

fn sum<'a>(rows: impl Iterator<Item = (&'a Kernel, u64, u64)>) -> Vec<Total<'a>> {
    let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (kernel, calls, total_ns) in rows.filter(|(kernel, ..)| kernel.naming == Naming::Mangled) {
        let total = by_name.entry(&kernel.name).or_default();
        *total = (total.0.saturating_add(calls), total.1.saturating_add(total_ns));
    }
    let total = |(mangled, (calls, total_ns))| Total { mangled, calls, total_ns };
    by_name.into_iter().map(total).collect()
}
