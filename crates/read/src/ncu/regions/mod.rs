//! Profiled launches or ranges with their NVTX stacks -> totals of each region.
//!
//! A region is a stack of ranges as they were really nested (`prefill/layer.3`), whatever their
//! names say. Its inclusive totals are those of everything within it, its exclusive ones leave out
//! what lies in regions within it. A launch counts for the region that was innermost on its thread
//! when it was launched; overlapping start/end ranges are not nested, and have no part in it.

mod folder;
mod read;

use stage2_model::regions::{Region, RegionTable, Scope, Totals};
use stage2_model::{Finding, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use stage2_config::hydra::one_or_many;
use wildmatch::WildMatch;

pub use folder::folder;
pub use read::{REGION_FILE, RegionFile, read};

use super::load::{Launch, flops};
use super::nvtx::{self, Label};

/// NVTX ranges that get a table each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regions {
    /// Globs of range names, or of whole paths (`prefill/*`); empty: all.
    #[serde(deserialize_with = "one_or_many")]
    pub include: Vec<String>,
    /// Globs of ranges that get none; wins over `include`.
    #[serde(deserialize_with = "one_or_many")]
    pub exclude: Vec<String>,
    /// Whether there is a table over all processes and devices, beside one for each of them.
    pub aggregate: bool,
    /// In the range replay modes, how many instances of a range are profiled; none: all of them.
    pub launch_count: Option<NonZeroU64>,
    /// In the range replay modes, how many regions are measured at most, in a run of the workload
    /// each: those with the most GPU time.
    pub most: NonZeroU64,
}

impl Default for Regions {
    fn default() -> Regions {
        Regions {
            include: Vec::new(),
            exclude: Vec::new(),
            aggregate: true,
            launch_count: None,
            most: NonZeroU64::MIN.saturating_add(15),
        }
    }
}

/// Which regions get a table. What is excluded stays out, whatever includes it.
pub struct Patterns {
    include: Vec<WildMatch>,
    exclude: Vec<WildMatch>,
}

impl Patterns {
    /// Those of two lists of globs, of names or of paths.
    pub fn of(include: &[String], exclude: &[String]) -> Patterns {
        let globs = |list: &[String]| list.iter().map(|glob| WildMatch::new(glob)).collect();
        Patterns { include: globs(include), exclude: globs(exclude) }
    }

    /// Whether the region with this stack, outermost range first, gets a table.
    pub fn allow(&self, stack: &[Label]) -> bool {
        let Some(last) = stack.last() else { return false };
        let path = nvtx::path(stack);
        let any = |globs: &[WildMatch]| {
            globs.iter().any(|glob| glob.matches(&last.name) || glob.matches(&path))
        };
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// The tables of all scopes: of each process, of each device, and over all where it is asked for.
pub fn tables(
    launches: &[Launch],
    settings: &Regions,
    findings: &mut Vec<Finding>,
) -> Vec<RegionTable> {
    let patterns = Patterns::of(&settings.include, &settings.exclude);
    let mut scopes: BTreeSet<Scope> = BTreeSet::new();
    for launch in launches {
        scopes.extend([Scope::Process(launch.process_id), Scope::Device(launch.device)]);
    }
    if settings.aggregate {
        scopes.insert(Scope::Aggregate);
    }
    let tables: Vec<RegionTable> = scopes
        .into_iter()
        .map(|scope| {
            let within = launches.iter().filter(|launch| match scope {
                Scope::Aggregate => true,
                Scope::Process(id) => launch.process_id == id,
                Scope::Device(index) => launch.device == index,
            });
            RegionTable { scope, regions: regions(within, settings, &patterns, findings) }
        })
        .collect();
    if tables.iter().all(|table| table.regions.is_empty()) {
        findings.push(Finding::new(
            Severity::Note,
            "ncu: there are no tables of NVTX regions",
            if launches.iter().any(|launch| !launch.ranges.is_empty()) {
                "the patterns of pipeline.ncu.regions match none of the ranges"
            } else {
                "nothing was profiled within a range"
            },
            "",
        ));
    }
    tables
}

/// What has been added up for one region.
#[derive(Default)]
struct Sum {
    stack: Vec<Label>,
    inclusive: Totals,
    exclusive: Totals,
    /// Whether the sums come from results of whole ranges.
    of_ranges: bool,
}

fn regions<'a>(
    launches: impl Iterator<Item = &'a Launch>,
    settings: &Regions,
    patterns: &Patterns,
    findings: &mut Vec<Finding>,
) -> Vec<Region> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for launch in launches {
        let own = totals(launch);
        // Regions around the launch, the innermost first.
        let around = (1..=launch.ranges.len()).rev().filter_map(|n| launch.ranges.get(..n));
        for (at, stack) in around.filter(|stack| patterns.allow(stack)).enumerate() {
            let sum = sums.entry(nvtx::path(stack)).or_default();
            sum.stack = stack.to_vec();
            if launch.is_range() {
                // The result of a range is its own; what is around it was measured for itself.
                if at == 0 && stack.len() == launch.ranges.len() {
                    add(&mut sum.inclusive, &own);
                    sum.of_ranges = true;
                }
                break;
            }
            add(&mut sum.inclusive, &own);
            if at == 0 {
                add(&mut sum.exclusive, &own);
            }
        }
    }
    sums.retain(|_, sum| sum.inclusive.launches > 0);
    let paths: BTreeSet<String> = sums.keys().cloned().collect();
    let parents: BTreeMap<String, String> = sums
        .iter()
        .filter_map(|(path, sum)| Some((path.clone(), parent(&sum.stack, &paths)?)))
        .collect();
    leave_out_inner_ranges(&mut sums, &parents, settings, findings);
    sums.iter()
        .map(|(path, sum)| {
            let depth =
                std::iter::successors(parents.get(path), |above| parents.get(*above)).count();
            let last = sum.stack.last();
            Region {
                path: path.clone(),
                name: last.map(|label| label.name.clone()).unwrap_or_default(),
                domain: last.and_then(|label| label.domain.clone()),
                parent: parents.get(path).cloned(),
                depth,
                inclusive: sum.inclusive.clone(),
                exclusive: (sum.exclusive.launches > 0 || !sum.of_ranges)
                    .then(|| sum.exclusive.clone()),
            }
        })
        .collect()
}

/// A region without a single launch of its own has nothing exclusive: zeros, which were measured.
fn nothing() -> Totals {
    Totals { duration_ns: Some(0.0), dram_bytes: Some(0.0), flops: Some(0.0), ..Totals::default() }
}

/// Exclusive totals of ranges that were measured one by one: what is left without the ranges within.
fn leave_out_inner_ranges(
    sums: &mut BTreeMap<String, Sum>,
    parents: &BTreeMap<String, String>,
    settings: &Regions,
    findings: &mut Vec<Finding>,
) {
    let mut within: BTreeMap<&String, Vec<Totals>> = BTreeMap::new();
    for (path, above) in parents {
        if let Some(sum) = sums.get(path) {
            within.entry(above).or_default().push(sum.inclusive.clone());
        }
    }
    let mut negative = Vec::new();
    for (path, sum) in sums.iter_mut() {
        if !sum.of_ranges {
            if sum.exclusive.launches == 0 {
                sum.exclusive = nothing();
            }
            continue;
        }
        let inner = within.get(path).map(Vec::as_slice).unwrap_or_default();
        // With a limited number of instances the sums are not over the same time.
        if settings.launch_count.is_some() && !inner.is_empty() {
            continue;
        }
        let mut left = sum.inclusive.clone();
        for inner in inner {
            for (left, inner) in sums_of(&mut left).into_iter().zip(sums_of(&mut inner.clone())) {
                *left = left.zip(*inner).map(|(left, inner)| left - inner);
            }
        }
        if !inner.is_empty() {
            (left.sm_percent, left.memory_percent) = (None, None);
        }
        for part in sums_of(&mut left) {
            if part.is_some_and(|value| value < 0.0) {
                *part = None;
                negative.push(path.clone());
            }
        }
        sum.exclusive = left;
    }
    negative.dedup();
    if !negative.is_empty() {
        let finding = Finding::new(
            Severity::Note,
            format!("ncu: some exclusive totals of {} are not known", negative.join(", ")),
            "the regions within them took more than they did: each was measured in a run of its own",
            "",
        );
        // Tables of a process and of its device are over the same measurements.
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}

/// The totals that add up.
fn sums_of(totals: &mut Totals) -> [&mut Option<f64>; 3] {
    [&mut totals.duration_ns, &mut totals.dram_bytes, &mut totals.flops]
}

/// The nearest region around a stack.
fn parent(stack: &[Label], known: &BTreeSet<String>) -> Option<String> {
    (1..stack.len())
        .rev()
        .filter_map(|n| stack.get(..n))
        .map(nvtx::path)
        .find(|path| known.contains(path))
}

fn totals(launch: &Launch) -> Totals {
    let get = |name: &str, unit: &str| {
        launch.metrics.get(name).filter(|q| q.unit == unit).map(|quantity| quantity.value)
    };
    let read = get("dram__bytes_read.sum", "byte");
    let written = get("dram__bytes_write.sum", "byte");
    let both = read.zip(written).map(|(read, written)| read + written);
    Totals {
        launches: 1,
        duration_ns: get("gpu__time_duration.sum", "ns"),
        dram_bytes: both.or_else(|| get("dram__bytes.sum", "byte")),
        flops: flops(&launch.metrics).total(),
        sm_percent: get("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        memory_percent: get(
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
            "%",
        ),
    }
}

/// Adds up; what was not measured once is not known in all.
fn add(sum: &mut Totals, own: &Totals) {
    let first = sum.launches == 0;
    let times = sum.duration_ns.zip(own.duration_ns);
    let weighted = |sum: &mut Option<f64>, own: Option<f64>| {
        let mean = |(all, one): (f64, f64)| {
            let (before, now) = times?;
            let mean = (all * before + one * now) / (before + now);
            mean.is_finite().then_some(mean)
        };
        *sum = if first { own } else { sum.zip(own).and_then(mean) };
    };
    weighted(&mut sum.sm_percent, own.sm_percent);
    weighted(&mut sum.memory_percent, own.memory_percent);
    for (sum, own) in sums_of(sum).into_iter().zip(sums_of(&mut own.clone())) {
        *sum = if first { *own } else { sum.zip(*own).map(|(sum, own)| sum + own) };
    }
    sum.launches += own.launches;
}

#[cfg(test)]
mod tests;
