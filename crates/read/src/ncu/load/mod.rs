//! The CSV pages of `ncu --import` -> counters of each kernel, configuration and device.
//!
//! Of the two pages the raw one has all metrics, and the details one what the rules say; either will
//! do alone, and so will a summary over the launches of each kernel. Pages of any version since 2020
//! are read, with units scaled or not, in any locale and encoding.

mod counters;
mod launch;
mod pages;
mod sheet;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

pub(super) use counters::flops;
pub use counters::{KernelCounters, Key};
use counters::{key, pivot};
pub use launch::{Launch, Quantity};
use pages::{Found, Pages};
use sheet::{Kind, Room, Sheet, Told, Unread};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::visible_path;
use stage2_model::Finding;
use stage2_model::finding::Id;

use super::nvtx::Label;
use crate::files;
use crate::progress::Metered;
use crate::trace::libraries::RangeNames;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    /// Counters of each kernel, configuration, device and stage, by name.
    pub kernels: Vec<KernelCounters>,
    /// Every profiled launch or range, in the order of the reports.
    pub launches: Vec<Launch>,
    /// Names of the devices, by index, where the report has them.
    pub devices: BTreeMap<u32, String>,
    /// Whether all names are mangled, so that they can be joined with those of other sources.
    pub names_are_mangled: bool,
    /// What is wrong with the files.
    pub findings: Vec<Finding>,
}

impl Tables {
    /// Forgets the ranges of libraries: none of them is a stage.
    pub fn leave_out(&mut self, libraries: &RangeNames) {
        let of_user = |label: &Label| {
            label.domain.as_ref().is_none_or(|domain| !libraries.contains(domain.as_bytes()))
        };
        for launch in &mut self.launches {
            launch.ranges.retain(of_user);
            launch.start_end_ranges.retain(of_user);
        }
        self.kernels.iter_mut().for_each(|kernel| kernel.outermost.retain(of_user));
    }
}

/// A page, and what to call it.
pub struct Source<R> {
    /// Path or name, for messages.
    pub name: String,
    /// Its bytes.
    pub input: R,
}

/// Reads the pages of one report, in any order; what each of them is shows in its columns.
pub fn load<R: Read>(pages: impl IntoIterator<Item = Source<R>>) -> Tables {
    load_reports([pages])
}

/// Reads several reports, each by itself: the numbers of their launches say nothing across reports.
/// A kernel that is in several of them is the mean of all of its launches.
pub fn load_reports<R, P>(reports: impl IntoIterator<Item = P>) -> Tables
where
    R: Read,
    P: IntoIterator<Item = Source<R>>,
{
    let mut all = Tables::default();
    let mut keys: BTreeMap<Key, usize> = BTreeMap::new();
    let mut room = Room::default();
    for pages in reports {
        let mut tables = Tables::default();
        let mut read = Launches { room, ..Launches::default() };
        for page in pages {
            read.page(page, &mut tables);
        }
        room = Room { refused: 0, ..read.room };
        let mut launches = read.finish(&mut tables.findings);
        launches.order_by_key(|launch| (launch.id, launch.process_id));
        all.findings.append(&mut tables.findings);
        leave_out_other_gpus(&mut launches, &tables.devices, &mut all);
        let here: BTreeSet<Key> = launches.iter().map(key).into_set();
        here.into_iter().for_each(|key| *keys.entry(key).or_default() += 1);
        all.launches.append(&mut launches);
    }
    all.kernels = pivot(&all.launches, &mut all.findings);
    let shared = keys.values().filter(|reports| **reports > 1).count();
    if shared > 0 {
        all.findings.push(Id::NcuSeveralReports.found(
            format!("ncu: {shared} kernels are in more than one report"),
            "their counters are the means over all of their launches, whichever report has them",
            "merge the reports one by one to tell them apart",
        ));
    }
    check_names(&mut all);
    all
}

/// A device number stands for one GPU in all reports: counters of another one cannot be averaged with its.
fn leave_out_other_gpus(
    launches: &mut Vec<Launch>,
    devices: &BTreeMap<u32, String>,
    all: &mut Tables,
) {
    for (device, name) in devices {
        let known = all.devices.entry(*device).or_insert_with(|| name.clone());
        if known == name {
            continue;
        }
        launches.retain(|launch| launch.device != *device);
        all.findings.push(Id::NcuOtherGpu.found(
            format!("ncu: counters of a report from {name} are left out"),
            format!("device {device} is {known} in another report, and what they measured differs"),
            "merge reports of one kind of GPU at a time",
        ));
    }
}

/// Launches of a report that are kept, at about 10 KB each: ncu replays a launch dozens of times, so
/// that reports have thousands.
const MAX_LAUNCHES: usize = 1 << 16;

/// Rules of a launch that are kept; ncu has some fifty.
const MAX_RULES: usize = 500;

#[derive(Default)]
struct Launches {
    /// By process and number, whether it is of a summary, and how many of that number came before it.
    launches: BTreeMap<(u64, u64, bool, usize), Launch>,
    occurrences: HashMap<(u64, u64, bool), usize>,
    /// Rows of further launches.
    refused: usize,
    /// What may still be kept of all reports.
    room: Room,
    unread: Unread,
}

impl Launches {
    fn page<R: Read>(&mut self, source: Source<R>, tables: &mut Tables) {
        let Source { name, input } = source;
        let mut sheet = Sheet::default();
        let mut unusable = Vec::new();
        let mut found = Pages::new(input, &name).each(|found| match found {
            Found::Table(form) => {
                sheet.table(form, &name).map_err(|why| unusable.push(why)).is_ok()
            }
            Found::Row(record) => sheet.row(record, &mut self.room, &mut self.unread),
        });
        unusable.dedup();
        tables.findings.append(&mut unusable);
        tables.findings.append(&mut found);
        self.refused += sheet.refused;
        for (device, name) in std::mem::take(&mut sheet.devices) {
            tables.devices.entry(device).or_insert(name);
        }
        for told in sheet.finish(&name, &mut self.unread, &mut tables.findings) {
            self.add(told);
        }
    }

    fn add(&mut self, told: Told) {
        let Told { kind, occurrence, mut launch, .. } = told;
        let (process, id, summary) = (launch.process_id, launch.id, kind == Kind::Summary);
        let occurrences = self.occurrences.entry((process, id, summary)).or_default();
        let same = self.launches.get(&(process, id, summary, occurrence));
        let is_same = same.is_none_or(|known| known.may_be(&launch));
        let at = if is_same { occurrence } else { *occurrences };
        *occurrences = (*occurrences).max(at + 1);
        let key = (process, id, summary, at);
        if self.launches.len() >= MAX_LAUNCHES && !self.launches.contains_key(&key) {
            self.refused += 1;
            return;
        }
        let known = self.launches.entry(key).or_default();
        // The raw page is exact, and details round to two places: what it tells wins.
        if kind == Kind::Raw || known.kernel.is_empty() {
            std::mem::swap(known, &mut launch);
        }
        for (name, quantity) in launch.metrics {
            known.metrics.entry(name).or_insert(quantity);
        }
        known.rules.append(&mut launch.rules);
    }

    fn finish(self, findings: &mut Vec<Finding>) -> Vec<Launch> {
        findings.extend(self.unread.findings());
        if self.refused > 0 {
            findings.push(Id::NcuValuesLeftOut.found(
                format!("ncu: only {MAX_LAUNCHES} launches of a report were read"),
                format!("there are {} rows of further ones", self.refused),
                "profile one launch of each configuration (--filter-mode per-launch-config)",
            ));
        }
        findings.extend(self.room.finding());
        self.launches.into_values().collect()
    }
}

/// Names that are not mangled are compared with those of other sources with more effort.
fn check_names(tables: &mut Tables) {
    let demangled = |name: &str| name.contains(['(', '<', ' ']);
    let shown = tables.kernels.iter().find(|kernel| demangled(&kernel.key.kernel));
    tables.names_are_mangled = shown.is_none();
    if let Some(kernel) = shown {
        let name = stage2_contract::text::shorten(&kernel.key.kernel, 60);
        tables.findings.push(Id::NcuNotation.found(format!("ncu: names of kernels are demangled ({name})"),
            "tools differ in how they do that: such kernels are joined with those of other sources by \
             normalised name, grid and block, where that is unique",
            "import the report with --print-kernel-base mangled",
        ));
    }
}

/// Words of a name that say which page of a report a file is.
const PAGES: [&str; 2] = ["raw", "details"];

/// The name of the report in the name of one of its pages.
///
/// Pages of one report have the same name except for the word that states which page: `raw.csv` and
/// `details.csv`, `run.raw.csv` and `run.details.csv`, `ncu_raw.csv` and `ncu_details.csv`.
pub fn report_name(file_name: &str) -> String {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let words: Vec<&str> = stem.split(['.', '_', '-']).collect();
    let page = words.iter().rposition(|word| PAGES.contains(&word.to_lowercase().as_str()));
    let rest = words.iter().enumerate().filter(|(at, _)| Some(*at) != page).map(|(_, word)| *word);
    rest.collect::<Vec<_>>().join(".")
}

/// Reads every page in the folder; nothing where there is none.
pub fn reports(folder: &Path, findings: &mut Vec<Finding>) -> Option<Tables> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "csv"));
    paths.sort();
    let mut reports: BTreeMap<String, Vec<Source<BufReader<Metered<File>>>>> = BTreeMap::new();
    for path in &paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match files::open(path) {
            Ok(file) => {
                let input = BufReader::new(Metered::of(file, path));
                let page = Source { name: visible_path(path), input };
                reports.entry(report_name(&name)).or_default().push(page);
            }
            Err(error) => findings.push(Id::NcuUnreadable.about(visible_path(path)).found(
                format!("{} cannot be read", visible_path(path)),
                error.to_string(),
                "its counters are missing; check the permissions of the file",
            )),
        }
    }
    (!reports.is_empty()).then(|| load_reports(reports.into_values()))
}

#[cfg(test)]
mod tests;
