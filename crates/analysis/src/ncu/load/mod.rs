//! The CSV pages of `ncu --import` -> counters of each kernel, configuration and device.
//!
//! Of the two pages the raw one has all metrics, and the details one what the rules say; either will
//! do alone. Pages of any version since 2022.4 are read, with units scaled or not.

mod counters;
mod details;
mod flops;
pub mod folder;
mod launch;
mod pages;
mod quantity;
mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

pub use counters::{KernelCounters, Key};
pub(in crate::ncu) use flops::flops;
pub use launch::Launch;
pub use quantity::Quantity;

use launch::LaunchColumns;
use pages::Page;
use quantity::number;
use room::Room;

use crate::load::libraries::LibraryDomains;
use crate::ncu::nvtx::Label;
use stage2_model::{Finding, RuleRow, Severity};

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
    pub fn leave_out(&mut self, libraries: &LibraryDomains) {
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
            read_page(page, &mut read, &mut tables);
        }
        room = read.room.next_report();
        let mut launches = read.finish(&mut tables.findings);
        launches.sort_by_key(|launch| (launch.id, launch.process_id));
        all.findings.append(&mut tables.findings);
        leave_out_other_gpus(&mut launches, &tables.devices, &mut all);
        let here: BTreeSet<Key> = launches.iter().map(counters::key).collect();
        here.into_iter().for_each(|key| *keys.entry(key).or_default() += 1);
        all.launches.append(&mut launches);
    }
    all.kernels = counters::pivot(&all.launches, &mut all.findings);
    let shared = keys.values().filter(|reports| **reports > 1).count();
    if shared > 0 {
        all.findings.push(Finding::new(
            Severity::Note,
            format!("ncu: {shared} kernels are in more than one report"),
            "their counters are the means over all of their launches, whichever report has them",
            "merge the reports one by one to tell them apart",
        ));
    }
    check_names(&mut all);
    all
}

/// A device number stands for one GPU in all reports: counters of another one are no mean with its.
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
        all.findings.push(Finding::new(
            Severity::Warning,
            format!("ncu: counters of a report from {name} are left out"),
            format!("device {device} is {known} in another report, and what they measured differs"),
            "merge reports of one kind of GPU at a time",
        ));
    }
}

/// Launches of a report that are kept, at some 10 KB each: ncu replays a launch dozens of times, so
/// that reports have thousands.
const MAX_LAUNCHES: usize = 1 << 16;

/// Rules of a launch that are kept; ncu has some fifty.
const MAX_RULES: usize = 500;

/// What the pages of a report have told so far, by process and number of the launch.
#[derive(Default)]
struct Launches {
    launches: BTreeMap<(u64, u64), Launch>,
    /// Rows of further launches.
    refused: usize,
    /// What may still be kept of all reports.
    room: Room,
    /// Values that are no finite numbers, over all pages, and the first of them.
    not_finite: usize,
    example: String,
}

impl Launches {
    /// The launch with this key, at first `new`, unless there are too many.
    fn place(&mut self, key: (u64, u64), new: impl FnOnce() -> Launch) -> Option<&mut Launch> {
        if self.launches.len() >= MAX_LAUNCHES && !self.launches.contains_key(&key) {
            self.refused += 1;
            return None;
        }
        Some(self.launches.entry(key).or_insert_with(new))
    }

    /// The value in its base unit, where it is one.
    fn quantity(&mut self, name: &str, unit: &str, cell: &str) -> Option<Quantity> {
        let quantity = Quantity::read(cell, unit)?;
        if quantity.value.is_finite() {
            return Some(quantity);
        }
        self.not_finite += 1;
        if self.example.is_empty() {
            self.example = format!("{name} = {}", cell.trim());
        }
        None
    }

    /// All of them, and what is wrong with them.
    fn finish(self, findings: &mut Vec<Finding>) -> Vec<Launch> {
        if self.not_finite > 0 {
            let Launches { not_finite, example, .. } = &self;
            findings.push(Finding::new(
                Severity::Warning,
                format!("ncu: {not_finite} values are no finite numbers, e.g. {example}"),
                "ncu divided by a counter that stayed zero",
                "they count as not measured",
            ));
        }
        if self.refused > 0 {
            findings.push(Finding::new(
                Severity::Warning,
                format!("ncu: only {MAX_LAUNCHES} launches of a report were read"),
                format!("there are {} rows of further ones", self.refused),
                "profile one launch of each configuration (--filter-mode per-launch-config)",
            ));
        }
        findings.extend(self.room.finding());
        self.launches.into_values().collect()
    }
}

fn read_page<R: Read>(source: Source<R>, read: &mut Launches, tables: &mut Tables) {
    let Source { name, input } = source;
    let page = match Page::open(input, &name) {
        Ok(page) => page,
        Err(finding) => return tables.findings.push(finding),
    };
    match LaunchColumns::of(&page) {
        None => tables.findings.push(another_version(&name, "Kernel Name")),
        Some(columns) if page.column("Metric Name").is_some() => {
            read_details(page, &name, &columns, read, &mut tables.findings);
        }
        Some(columns) => read_raw(page, &name, &columns, read, tables),
    }
}

/// Columns that describe the machine and not the launch; hundreds of them stand in every row.
const OF_THE_MACHINE: &[&str] = &["device__", "numa__", "nvlink__", "c2clink__"];

fn read_raw<R: Read>(
    page: Page<'_, R>,
    file: &str,
    columns: &LaunchColumns,
    read: &mut Launches,
    tables: &mut Tables,
) {
    let Tables { devices, findings, .. } = tables;
    let metrics: Vec<(usize, String)> = page
        .header
        .iter()
        .enumerate()
        .skip(columns.metrics)
        .filter(|(_, name)| !OF_THE_MACHINE.iter().any(|unit| name.starts_with(unit)))
        .map(|(at, name)| (at, name.clone()))
        .collect();
    let device_name = page.column("device__attribute_display_name");
    let width = page.header.len();
    let mut units: Vec<String> = Vec::new();
    let (mut rows, mut short) = (0_usize, 0_usize);
    let finding = page.each(|record| {
        let Some(mut launch) = columns.read(record) else {
            // The second row of the header; again before each report where several follow.
            units = record.iter().map(str::to_owned).collect();
            return;
        };
        rows += 1;
        if record.len() < width {
            short += 1;
            return;
        }
        for (at, name) in &metrics {
            let unit = units.get(*at).map_or("", String::as_str);
            let cell = record.get(*at).unwrap_or_default();
            if let Some(quantity) = read.quantity(name, unit, cell) {
                launch.metrics.insert(name.clone(), quantity);
            }
        }
        if let Some(name) = device_name.and_then(|at| record.get(at)).filter(|n| !n.is_empty()) {
            let name = stage2_text::visible(name.as_bytes());
            devices.entry(launch.device).or_insert(name);
        }
        let key = (launch.process_id, launch.id);
        if !read.room.take(launch.metrics.len(), launch.text_bytes()) {
            return;
        }
        let Some(known) = read.place(key, Launch::default) else { return };
        // What another page has told of the launch is rounded: what is exact wins.
        launch.rules = std::mem::take(&mut known.rules);
        let rounded = std::mem::take(&mut known.metrics);
        for (name, quantity) in rounded {
            launch.metrics.entry(name).or_insert(quantity);
        }
        *known = launch;
    });
    findings.extend(finding);
    findings.extend((rows == 0).then(|| without_rows(file)));
    if short > 0 {
        findings.push(Finding::new(
            Severity::Warning,
            format!("{file}: {short} rows have fewer than the {width} columns, and were left out"),
            "the file is damaged or cut short",
            "import the report again",
        ));
    }
    if units.is_empty() && !read.launches.is_empty() {
        findings.push(Finding::new(
            Severity::Warning,
            format!("{file} has no row of units"),
            "without it sizes and times cannot be told from scaled ones",
            "import the report again with --print-units base",
        ));
    }
}

fn read_details<R: Read>(
    page: Page<'_, R>,
    file: &str,
    columns: &LaunchColumns,
    read: &mut Launches,
    findings: &mut Vec<Finding>,
) {
    let places = ["Section Name", "Metric Name", "Metric Unit", "Metric Value"];
    let [Some(section), Some(name), Some(unit), Some(value)] = places.map(|name| page.column(name))
    else {
        return findings.push(another_version(file, "Metric Value"));
    };
    let of_rule = ["Rule Name", "Rule Description", "Estimated Speedup"];
    let of_rule = of_rule.map(|column| page.column(column));
    let (mut rows, mut rules_cut) = (0_usize, 0_usize);
    let finding = page.each(|record| {
        let Some(launch) = columns.read(record) else { return };
        rows += 1;
        let cell = |at: usize| record.get(at).unwrap_or_default().trim();
        let of_rule = of_rule.map(|at| at.map_or("", cell));
        let key = (launch.process_id, launch.id);
        let quantity = read.quantity(cell(name), cell(unit), cell(value));
        let [rule, description, speedup] = of_rule;
        let is_new = !read.launches.contains_key(&key);
        let texts = rule.len() + description.len() + cell(section).len() + cell(name).len();
        let texts = texts + if is_new { launch.text_bytes() } else { 0 };
        if !read.room.take(1, texts) {
            return;
        }
        let Some(launch) = read.place(key, || launch) else { return };
        if !rule.is_empty() && launch.rules.len() >= MAX_RULES {
            rules_cut += 1;
        } else if !rule.is_empty() {
            let text = |cell: &str| stage2_text::visible(cell.as_bytes());
            let speedup_percent = number(speedup).filter(|value| (0.0..=100.0).contains(value));
            let (name, description) = (text(rule), text(description));
            launch.rules.push(RuleRow { name, description, speedup_percent });
        }
        let metric = cell(name);
        if let Some(quantity) = quantity
            && !metric.is_empty()
        {
            // The raw page, where it was read, is more exact: details round to two places.
            let raw = details::raw_name(cell(section), metric, &quantity.unit);
            launch.metrics.entry(raw).or_insert(quantity);
        }
    });
    findings.extend(finding);
    findings.extend((rows == 0).then(|| without_rows(file)));
    if rules_cut > 0 {
        findings.push(Finding::new(
            Severity::Warning,
            format!("{file}: {rules_cut} rules were left out"),
            format!("a launch has more than {MAX_RULES}; ncu has some fifty"),
            "import the report again",
        ));
    }
}

/// Names that are not mangled are compared with those of other sources with more effort.
fn check_names(tables: &mut Tables) {
    let demangled = |name: &str| name.contains(['(', '<', ' ']);
    let shown = tables.kernels.iter().find(|kernel| demangled(&kernel.key.kernel));
    tables.names_are_mangled = shown.is_none();
    if let Some(kernel) = shown {
        let name = stage2_text::shorten(&kernel.key.kernel, 60);
        tables.findings.push(Finding::new(
            Severity::Note,
            format!("ncu: names of kernels are demangled ({name})"),
            "tools differ in how they do that: such kernels are joined with those of other sources by \
             normalised name, grid and block, where that is unique",
            "import the report with --print-kernel-base mangled",
        ));
    }
}

fn without_rows(file: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{file} has no row of a launch"),
        "ncu profiled nothing, or the file is cut short behind its header",
        "import the report again, or repeat the run with a filter that matches a kernel",
    )
}

fn another_version(name: &str, column: &str) -> Finding {
    Finding::new(
        Severity::Error,
        format!("{name} has no column {column:?}"),
        "it is no table of ncu, or of a version that this program does not know",
        "import the report with ncu 2022.4 or later",
    )
}

#[cfg(test)]
mod tests;
