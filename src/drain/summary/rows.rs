//! The aggregates into the rows and figures that both forms of the summary show.

use rustc_hash::FxHashMap;
use stage2_contract::stats::P99_VALUES;
use stage2_contract::text;
use stage2_contract::text::kernel_name;

use super::Summary;
use crate::drain::aggregate::{Instances, Key, Row, UNATTRIBUTED, Work};
use crate::drain::intern::Interner;

/// Kernels listed for each range path.
pub(super) const TOP: usize = 10;
/// Range paths listed.
pub(super) const PATHS: usize = 20;
/// Characters of a path.
const TITLE: usize = 120;

/// All that the tables show.
pub(super) struct Tables {
    /// Paths with ranges of the program, and those outside of all ranges.
    pub(super) own: Vec<Section>,
    /// Paths with ranges of libraries only.
    pub(super) libraries: Vec<Section>,
    /// All GPU time, ns: the sum that shares are taken of.
    pub(super) whole_ns: u64,
}

/// One range path as it is shown, with its work, heaviest first.
#[derive(Default)]
pub(super) struct Section {
    path: u32,
    pub(super) instances: Instances,
    pub(super) total_ns: u64,
    pub(super) calls: u64,
    pub(super) rows: Vec<Line>,
}

/// One kernel or other work under one path.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) device: u32,
    /// Calls, scaled where the range was sampled.
    pub(super) calls: u64,
    /// Sum of the durations, ns, likewise.
    pub(super) total_ns: u64,
    pub(super) row: Row,
}

impl Line {
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.row.timed > 0).then(|| self.row.total_ns as f64 / self.row.timed as f64)
    }

    /// Percentile, kept within the exact extremes.
    pub(super) fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let value = self.row.histogram.percentile(percent)?;
        Some(value.clamp(self.row.min_ns, self.row.max_ns))
    }

    /// The 99th percentile; nothing of too few values.
    pub(super) fn p99_ns(&self) -> Option<u64> {
        (self.row.timed >= P99_VALUES).then(|| self.percentile_ns(99))?
    }
}

/// Every path that has work or instances, heaviest first.
pub(super) fn tables(summary: &Summary<'_>) -> Tables {
    let section = |path| Section { path, ..Section::default() };
    let mut by_path: FxHashMap<u32, Section> = FxHashMap::default();
    for (&path, instances) in &summary.totals.instances {
        let path = summary.shown.path(path);
        by_path.entry(path).or_insert_with(|| section(path)).instances.add(instances);
    }
    // A kernel under thousands of paths is one name to be demangled.
    let mut names: FxHashMap<Work, String> = FxHashMap::default();
    for (key, row) in &summary.totals.rows {
        let name = names.entry(key.work).or_insert_with(|| work_name(summary, key)).clone();
        let path = summary.shown.path(key.path);
        by_path.entry(path).or_insert_with(|| section(path)).add(name, key.device, row);
    }
    let mut sections: Vec<Section> = by_path.into_values().collect();
    for section in &mut sections {
        section.scale(summary.options.is_sampled());
        section.rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    }
    sections.sort_by_key(|s| (std::cmp::Reverse((s.total_ns, s.instances.host_ns)), s.path));
    let whole_ns = sections.iter().fold(0u64, |sum, section| sum.saturating_add(section.total_ns));
    let (libraries, own) =
        sections.into_iter().partition(|section| summary.shown.is_of_library(section.path));
    Tables { own, libraries, whole_ns }
}

impl Section {
    fn add(&mut self, name: String, device: u32, row: &Row) {
        match self.rows.iter_mut().find(|line| line.name == name && line.device == device) {
            Some(line) => merge(&mut line.row, row),
            None => {
                self.rows.push(Line { name, device, calls: 0, total_ns: 0, row: row.clone() });
            }
        }
    }

    fn scale(&mut self, sampled: bool) {
        let instances = self.instances;
        for line in &mut self.rows {
            let scale = |value| if sampled { instances.scaled(value) } else { value };
            (line.calls, line.total_ns) = (scale(line.row.calls), scale(line.row.total_ns));
            self.calls = self.calls.saturating_add(line.calls);
            self.total_ns = self.total_ns.saturating_add(line.total_ns);
        }
    }

    /// Whether GPU work of this path was recorded: without any in it, there was none.
    pub(super) fn is_recorded(&self, restricted: bool) -> bool {
        !restricted || self.instances.recorded > 0 || !self.rows.is_empty()
    }

    /// Its path as text. Made only for what is shown: paths can be thousands of ranges deep.
    pub(super) fn title(&self, names: &Interner) -> String {
        match self.path {
            0 => "(outside ranges)".to_owned(),
            UNATTRIBUTED => "(unattributed)".to_owned(),
            path => text::shorten(&text::visible(&names.path_text(path)), TITLE),
        }
    }
}

fn merge(into: &mut Row, row: &Row) {
    into.min_ns = match (into.timed, row.timed) {
        (0, _) => row.min_ns,
        (_, 0) => into.min_ns,
        _ => into.min_ns.min(row.min_ns),
    };
    into.max_ns = into.max_ns.max(row.max_ns);
    into.calls += row.calls;
    into.timed += row.timed;
    into.total_ns += row.total_ns;
    into.histogram.merge(&row.histogram);
}

fn work_name(summary: &Summary<'_>, key: &Key) -> String {
    match key.work {
        Work::Kernel(name) => kernel_name(summary.names.text(name)).short,
        Work::Copy(1) => "[copy host to device]".to_owned(),
        Work::Copy(2) => "[copy device to host]".to_owned(),
        Work::Copy(8) => "[copy device to device]".to_owned(),
        Work::Copy(9) => "[copy host to host]".to_owned(),
        Work::Copy(10) => "[copy peer to peer]".to_owned(),
        Work::Copy(kind) => format!("[copy of kind {kind}]"),
        Work::Fill => "[fill]".to_owned(),
        Work::Graph(graph) => format!("[graph {graph}]"),
        Work::Folded => "[more rows than are kept]".to_owned(),
    }
}

/// Which GPU work the figures are of.
pub(super) fn which(summary: &Summary<'_>) -> &'static str {
    if summary.options.is_restricted() { "recorded" } else { "all" }
}

/// What was not recorded, and what that means for the figures; none where everything was.
pub(super) fn parts(summary: &Summary<'_>) -> impl Iterator<Item = String> {
    filtering(summary).into_iter().chain(sampling(summary))
}

fn filtering(summary: &Summary<'_>) -> Option<String> {
    let options = summary.options;
    if options.ranges.is_everything() {
        return None;
    }
    let filter = text::visible(options.ranges.to_string().as_bytes());
    let mut line = format!(
        "COLLECTED ONLY in ranges that match {filter} (STAGE2_RANGES): GPU work elsewhere is not \
         recorded"
    );
    let none = summary.totals.instances.values().all(|instances| instances.asked == 0);
    if none && !options.is_sampled() {
        line.push_str("; NO RANGE that matches was opened");
    }
    Some(line)
}

fn sampling(summary: &Summary<'_>) -> Option<String> {
    if !summary.options.is_sampled() {
        return None;
    }
    let asked = || summary.totals.instances.values().filter(|instances| instances.asked > 0);
    let unseen = asked().filter(|instances| instances.recorded == 0).count();
    let mut line = format!(
        "SAMPLED 1/{}: calls, totals and shares are scaled by instances/recorded of their range \
         path; means and percentiles are of what was recorded; work outside of the sampled ranges \
         is not recorded",
        summary.options.sample
    );
    if asked().next().is_none() {
        line.push_str("; NO RANGE to sample was opened: check STAGE2_RANGES, or open NVTX ranges");
    } else if unseen > 0 {
        line.push_str(&format!(
            "; {unseen} range paths have no recorded instance and are in no sum: lower N"
        ));
    }
    Some(line)
}

/// Milliseconds with three decimals.
pub(super) fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns % 1_000_000 / 1_000)
}

/// Microseconds with two decimals; a dash where there is none.
pub(super) fn us(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1e3))
}

/// A share in percent; a dash where there is nothing to share.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", part as f64 * 100.0 / whole as f64) }
}
