//! Profiled launches or ranges with their NVTX stacks -> totals of each region.
//!
//! A region is a stack of ranges as they were really nested (`prefill/layer.3`), whatever their
//! names state. Its inclusive totals are those of everything within it, its exclusive ones leave out
//! what lies in regions within it. A launch counts for the region that was innermost on its thread
//! when it was launched; overlapping start/end ranges are not nested, and have no part in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufReader, Read as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stage2_config::hydra::one_or_many;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::visible_path;
use stage2_model::finding::Id;
use stage2_model::regions::{Region, RegionTable, Scope, Totals};
use stage2_model::{Finding, Severity};
use wildmatch::WildMatch;

use super::load::{Launch, Source, flops, load};
use super::nvtx::{self, Label};
use crate::files;

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
    /// Whether there is a table over all processes and devices, in addition to one for each of them.
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
        findings.push(Id::NcuRegions.found(
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
    let paths: BTreeSet<String> = sums.keys().cloned().into_set();
    let parents: BTreeMap<String, String> = sums
        .iter()
        .filter_map(|(path, sum)| Some((path.clone(), parent(&sum.stack, &paths)?)))
        .into_map();
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

/// A region without its own single launch has nothing exclusive: zeros, which were measured.
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
        let finding = Id::NcuRegions.found(
            format!("ncu: some exclusive totals of {} are not known", negative.join(", ")),
            "the regions within them took more than they did: each was measured in a separate run",
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

fn parent(stack: &[Label], known: &BTreeSet<String>) -> Option<String> {
    let around = (1..stack.len()).rev().filter_map(|n| stack.get(..n));
    around.map(nvtx::path).find(|path| known.contains(path))
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

/// Longest name of a folder, in bytes: file systems take 255, and ncu adds its endings.
const LONGEST: usize = 200;

/// The folder of a region, relative to that of the pass.
///
/// Letters, digits, `-` and inner dots stay; every other byte becomes `_` and its two hex digits,
/// also `_` itself, so that the path can be told from the folder. What is too long for one name
/// continues in a folder below, in steps of the same length.
pub fn folder(path: &str) -> PathBuf {
    let mut name = String::with_capacity(path.len());
    for (at, byte) in path.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || byte == b'-' || (byte == b'.' && at > 0);
        if plain && !(byte == b'-' && at == 0) {
            name.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "_{byte:02x}");
        }
    }
    if name.is_empty() {
        // Stands for no byte, so that it is nothing else's name.
        return PathBuf::from("_");
    }
    let mut folder = PathBuf::new();
    let mut rest = name.as_str();
    while rest.len() > LONGEST {
        let (part, behind) = rest.split_at(LONGEST);
        // A part must not be `..` or start with a dot; the mark is taken off again in reading.
        folder.push(format!("{part}_"));
        rest = behind;
    }
    folder.push(if folder.as_os_str().is_empty() { rest.to_owned() } else { format!("+{rest}") });
    folder
}

/// Name of the file that states which region a folder is of.
pub const REGION_FILE: &str = "region.json";
/// Folders within each other that are looked into: a path is cut into parts of 200 bytes.
const DEEPEST: usize = 64;
/// A larger file states something else.
const LARGEST_BYTES: u64 = 4 << 20;

/// Which region a folder is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionFile {
    /// The ranges around it and itself, the outermost first.
    pub stack: Vec<Label>,
}

/// Reads all regions below `folder` (`ncu/regions`). The tables of ncu name a range without those
/// around it: its place is what the collect pass saw.
pub fn read(folder: &Path, findings: &mut Vec<Finding>) -> Vec<Launch> {
    let mut launches = Vec::new();
    let mut folders = Vec::new();
    find(folder, 0, &mut folders);
    folders.sort();
    for folder in folders {
        match region(&folder) {
            Ok(region) => launches.extend(launches_of(&folder, &region, findings)),
            Err(why) => findings.push(unusable(&folder.join(REGION_FILE), &why.to_string())),
        }
    }
    launches
}

fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if folder.join(REGION_FILE).is_file() {
        found.push(folder.to_owned());
    }
    if depth < DEEPEST {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            find(&entry.path(), depth + 1, found);
        }
    }
}

fn region(folder: &Path) -> anyhow::Result<RegionFile> {
    let file = files::open(&folder.join(REGION_FILE))?;
    let region: RegionFile = serde_json::from_reader(file.take(LARGEST_BYTES))?;
    anyhow::ensure!(!region.stack.is_empty(), "it names no range");
    Ok(region)
}

fn launches_of(folder: &Path, region: &RegionFile, findings: &mut Vec<Finding>) -> Vec<Launch> {
    let mut pages = Vec::new();
    for path in ["raw.csv", "details.csv"].map(|name| folder.join(name)) {
        match files::open(&path) {
            Ok(file) => {
                pages.push(Source { name: visible_path(&path), input: BufReader::new(file) });
            }
            // A run that failed has left none, and was told about.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => findings.push(unusable(&path, &error.to_string())),
        }
    }
    let tables = load(pages);
    // Names of ranges are never mangled; what is said of joining kernels does not concern them.
    findings.extend(tables.findings.into_iter().filter(|f| f.severity != Severity::Note));
    let mut launches = tables.launches;
    launches.retain(Launch::is_range);
    launches.iter_mut().for_each(|launch| launch.ranges.clone_from(&region.stack));
    launches
}

fn unusable(path: &Path, why: &str) -> Finding {
    Id::NcuUnreadable.found(
        format!("{} cannot be used", visible_path(path)),
        stage2_contract::text::visible(why.as_bytes()),
        "the region is missing from the report; run the ncu pass again",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ncu::load::Quantity;

    fn label(name: &str) -> Label {
        Label { name: name.into(), domain: None }
    }

    fn launch(kernel: &str, stack: &[&str], duration_ns: f64) -> Launch {
        let quantity = |value: f64, unit: &str| Quantity { value, unit: unit.into() };
        Launch {
            kernel: kernel.into(),
            grid: if kernel == "range" { [0; 3] } else { [1, 1, 1] },
            process_id: 7,
            ranges: stack.iter().map(|name| label(name)).collect(),
            metrics: [
                ("gpu__time_duration.sum".to_owned(), quantity(duration_ns, "ns")),
                ("dram__bytes.sum".to_owned(), quantity(duration_ns * 2.0, "byte")),
            ]
            .into(),
            ..Launch::default()
        }
    }

    fn settings() -> Regions {
        Regions::default()
    }

    fn aggregate(launches: &[Launch], settings: &Regions) -> Vec<Region> {
        let mut findings = Vec::new();
        let tables = tables(launches, settings, &mut findings);
        tables.into_iter().find(|t| t.scope == Scope::Aggregate).expect("aggregate").regions
    }

    /// Path, parent, depth, inclusive and exclusive nanoseconds.
    type Figures<'a> = (&'a str, Option<&'a str>, usize, f64, Option<f64>);

    fn figures(regions: &[Region]) -> Vec<Figures<'_>> {
        regions
            .iter()
            .map(|r| {
                let exclusive = r.exclusive.as_ref().and_then(|totals| totals.duration_ns);
                let inclusive = r.inclusive.duration_ns.expect("duration");
                (r.path.as_str(), r.parent.as_deref(), r.depth, inclusive, exclusive)
            })
            .collect()
    }

    #[test]
    fn launches_count_for_all_regions_around_them_and_exclusively_for_the_innermost() {
        let launches = [
            launch("k", &["a"], 1.0),
            launch("k", &["a", "b"], 10.0),
            launch("k", &["a", "b", "c"], 100.0),
            launch("k", &["b"], 1000.0),
            launch("k", &[], 10000.0),
        ];
        let regions = aggregate(&launches, &settings());
        assert_eq!(
            figures(&regions),
            [
                ("a", None, 0, 111.0, Some(1.0)),
                ("a/b", Some("a"), 1, 110.0, Some(10.0)),
                ("a/b/c", Some("a/b"), 2, 100.0, Some(100.0)),
                ("b", None, 0, 1000.0, Some(1000.0)),
            ]
        );
        assert_eq!(regions[0].inclusive.dram_bytes, Some(222.0));
        assert_eq!((regions[0].inclusive.flops, regions[0].inclusive.launches), (None, 3));
    }

    #[test]
    fn exclude_wins_and_what_is_left_out_counts_for_the_region_around_it() {
        let launches = [launch("k", &["a"], 1.0), launch("k", &["a", "b", "c"], 100.0)];
        let chosen =
            Regions { include: vec!["a".into(), "*c".into()], exclude: vec![], ..settings() };
        assert_eq!(
            figures(&aggregate(&launches, &chosen)),
            [("a", None, 0, 101.0, Some(1.0)), ("a/b/c", Some("a"), 1, 100.0, Some(100.0))]
        );
        let both = Regions { exclude: vec!["a/b/c".into()], ..chosen };
        assert_eq!(figures(&aggregate(&launches, &both)), [("a", None, 0, 101.0, Some(101.0))]);
    }

    #[test]
    fn an_outer_region_without_launches_of_its_own_has_nothing_exclusive() {
        let regions = aggregate(&[launch("k", &["a", "b"], 5.0)], &settings());
        assert_eq!(figures(&regions)[0], ("a", None, 0, 5.0, Some(0.0)));
    }

    #[test]
    fn ranges_are_measured_one_by_one_and_the_inner_ones_are_subtracted() {
        let launches = [
            launch("range", &["a"], 100.0),
            launch("range", &["a"], 120.0),
            launch("range", &["a", "b"], 30.0),
            launch("range", &["a", "b"], 40.0),
        ];
        assert_eq!(
            figures(&aggregate(&launches, &settings())),
            [("a", None, 0, 220.0, Some(150.0)), ("a/b", Some("a"), 1, 70.0, Some(70.0))]
        );
        let limited = Regions { launch_count: std::num::NonZeroU64::new(1), ..settings() };
        assert_eq!(figures(&aggregate(&launches, &limited))[0], ("a", None, 0, 220.0, None));
    }

    #[test]
    fn more_within_than_around_is_told() {
        let launches = [launch("range", &["a"], 10.0), launch("range", &["a", "b"], 30.0)];
        let mut findings = Vec::new();
        let tables = tables(&launches, &settings(), &mut findings);
        assert_eq!(figures(&tables[0].regions)[0], ("a", None, 0, 10.0, None));
        let told = findings.iter().filter(|f| f.what.contains("exclusive totals of a "));
        assert_eq!(told.count(), 1, "once for all {} tables: {findings:?}", tables.len());
    }

    #[test]
    fn each_process_and_device_has_a_table_and_the_aggregate_can_be_left_out() {
        let mut other = launch("k", &["a"], 5.0);
        (other.process_id, other.device) = (8, 1);
        let launches = [launch("k", &["a"], 1.0), other];
        let mut findings = Vec::new();
        let scopes = |settings: &Regions, findings: &mut Vec<Finding>| -> Vec<(Scope, f64)> {
            let tables = tables(&launches, settings, findings);
            tables.iter().map(|t| (t.scope, t.regions[0].inclusive.duration_ns.unwrap())).collect()
        };
        let each = [
            (Scope::Process(7), 1.0),
            (Scope::Process(8), 5.0),
            (Scope::Device(0), 1.0),
            (Scope::Device(1), 5.0),
        ];
        let all: Vec<_> = [(Scope::Aggregate, 6.0)].into_iter().chain(each).collect();
        assert_eq!(scopes(&settings(), &mut findings), all);
        assert_eq!(scopes(&Regions { aggregate: false, ..settings() }, &mut findings), each);
    }

    #[test]
    fn no_regions_is_no_failure_and_is_told() {
        for (launches, why) in [
            (vec![launch("k", &[], 1.0)], "within a range"),
            (vec![launch("k", &["a"], 1.0)], "match none"),
            (vec![], "within a range"),
        ] {
            let none = Regions { include: vec!["x".into()], ..settings() };
            let mut findings = Vec::new();
            let tables = tables(&launches, &none, &mut findings);
            assert!(tables.iter().all(|table| table.regions.is_empty()));
            assert!(findings[0].why.contains(why), "{findings:?}");
        }
    }

    /// The path that a folder stands for: that there is such a function proves that no two paths
    /// share a folder.
    fn path_of(folder: &std::path::Path) -> Vec<u8> {
        let parts: Vec<&str> = folder.iter().map(|part| part.to_str().expect("ASCII")).collect();
        if parts == ["_"] {
            return Vec::new();
        }
        let last = parts.len() - 1;
        let joined: String = parts
            .iter()
            .enumerate()
            .map(|(at, part)| match (at == last, last) {
                (false, _) => part.strip_suffix('_').expect("marked"),
                (true, 0) => part,
                (true, _) => part.strip_prefix('+').expect("marked"),
            })
            .collect();
        let mut bytes = joined.bytes();
        let mut path = Vec::new();
        while let Some(byte) = bytes.next() {
            if byte == b'_' {
                let hex = [bytes.next().expect("hex"), bytes.next().expect("hex")];
                let hex = std::str::from_utf8(&hex).expect("ASCII").to_owned();
                path.push(u8::from_str_radix(&hex, 16).expect("hex"));
            } else {
                path.push(byte);
            }
        }
        path
    }

    #[test]
    fn names_that_a_simpler_rule_confuses_stay_apart() {
        let names = [
            "A::A1", "A__A1", "A_A1", "A/A1", "decode*", "decode", "stem/", "stem", "", "***",
            "..", ".", "é", "a%2Fb",
        ];
        names.iter().for_each(|name| assert_eq!(path_of(&folder(name)), name.as_bytes()));
        assert_eq!(folder("decode"), PathBuf::from("decode"));
        assert_eq!(folder("A::A1"), PathBuf::from("A_3a_3aA1"));
    }

    proptest! {
        #[test]
        fn a_folder_tells_its_path(path in ".{0,300}") {
            prop_assert_eq!(path_of(&folder(&path)), path.as_bytes());
        }

        #[test]
        fn also_of_paths_made_of_what_is_special(path in "[_a/.+%-]{0,700}") {
            let folder = folder(&path);
            prop_assert_eq!(path_of(&folder), path.as_bytes());
            for part in folder.components() {
                prop_assert!(matches!(part, std::path::Component::Normal(name) if name.len() <= 255));
            }
        }
    }

    const RAW: &str = "\"ID\",\"Process ID\",\"Kernel Name\",\"Device\",\"gpu__time_duration.sum\"\n\
                       \"\",\"\",\"\",\"\",\"ns\"\n\"0\",\"7\",\"range\",\"0\",\"1,500\"\n";

    #[test]
    fn a_region_is_where_the_collector_saw_it_and_damaged_ones_are_named() {
        let dir = tempfile::tempdir().expect("folder");
        let write = |folder: &str, file: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join(folder)).expect("folder");
            std::fs::write(dir.path().join(folder).join(file), text).expect("file");
        };
        let stack = r#"{"stack":[{"name":"decode","domain":null},{"name":"mlp","domain":"d"}]}"#;
        write("decode_2fmlp", REGION_FILE, stack);
        write("decode_2fmlp", "raw.csv", RAW);
        write("deep_/+er", REGION_FILE, r#"{"stack":[{"name":"x","domain":null}]}"#);
        write("deep_/+er", "raw.csv", RAW);
        write("bad", REGION_FILE, "{");
        write("empty", REGION_FILE, r#"{"stack":[]}"#);
        let mut findings = Vec::new();
        let launches = read(dir.path(), &mut findings);
        let paths: Vec<String> =
            launches.iter().map(|l| crate::ncu::nvtx::path(&l.ranges)).collect();
        assert_eq!(paths, ["decode/mlp@d", "x"]);
        assert_eq!(launches[0].metrics["gpu__time_duration.sum"].value, 1500.0);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(read(&dir.path().join("none"), &mut findings).is_empty());
    }
}
