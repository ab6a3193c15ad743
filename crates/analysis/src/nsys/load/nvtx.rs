//! Rows of the NVTX table -> the outermost ranges of every thread, and their names. Ranges of
//! libraries are left out: they are no stages, even where they are open around everything.

use std::borrow::Cow;

use rusqlite::Row;
use rustc_hash::FxHashMap;

use super::Range;
use super::database::{Database, Table};
use super::domains::Domains;
use super::launches::PROCESS_BITS;
use super::range_row::{self, COLUMNS, FILTER, Name};
use super::spans::{OPEN, Span, Spans};

use crate::load::series::Series;
use stage2_model::nsys::Counts;

/// Outermost ranges held in memory, at most (24 bytes each).
const MAX_HELD: usize = 12_000_000;

/// Which range a row is about: its name as the file has it, process and domain.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Label {
    name: Name<String>,
    process: i64,
    domain: i64,
}

/// The ranges of all threads.
#[derive(Default)]
pub(super) struct Ranges {
    threads: FxHashMap<i64, Spans>,
    by_label: FxHashMap<Label, u32>,
    labels: Vec<Label>,
    domains: Domains,
    held: usize,
    /// Ranges that were not taken because there are too many.
    pub(super) beyond_limit: u64,
}

impl Ranges {
    /// No range yet.
    pub(super) fn new(domains: Domains) -> Self {
        Self { domains, ..Self::default() }
    }

    /// Reads the table. An error ends the reading; what came before it is kept.
    pub(super) fn read(
        &mut self,
        database: &Database,
        table: &Table,
        counts: &mut Counts,
    ) -> rusqlite::Result<()> {
        let result = database.rows(table, &COLUMNS, FILTER, |row| self.add(row, counts));
        self.threads.values_mut().for_each(Spans::settle);
        result
    }

    fn add(&mut self, row: &Row<'_>, counts: &mut Counts) {
        counts.nvtx_ranges += 1;
        let Some((start, end)) = range_row::span(row) else {
            counts.odd_rows += 1;
            return;
        };
        counts.cross_thread_ranges += u64::from(range_row::crosses_threads(row));
        let (thread, domain) = (range_row::thread(row), range_row::domain(row));
        if self.domains.is_library(thread, domain) {
            return;
        }
        let spans = self.threads.entry(thread).or_default();
        // Most ranges end here, before their name is looked at.
        if spans.contains(start, end) {
            return;
        }
        if self.held >= MAX_HELD {
            self.beyond_limit += 1;
            return;
        }
        let name = range_row::name(row).map(|text| String::from_utf8_lossy(text).into_owned());
        let label = Label { name, process: thread & PROCESS_BITS, domain };
        let label = match self.by_label.get(&label) {
            Some(&known) => known,
            None => {
                let fresh = self.labels.len() as u32;
                self.labels.push(label.clone());
                self.by_label.insert(label, fresh);
                fresh
            }
        };
        let before = spans.held();
        spans.add(Span { start, end, label });
        self.held = (self.held + spans.held()).saturating_sub(before);
    }

    /// The outermost range that is open on a thread: its label.
    pub(super) fn at(&self, thread: i64, time: i64) -> Option<u32> {
        Some(self.threads.get(&thread)?.at(time)?.label)
    }

    /// All outermost ranges, by name and domain, and the index in them for every label.
    pub(super) fn finish(self, database: &Database) -> (Vec<Range>, Vec<usize>) {
        let mut ranges: Vec<Range> = Vec::new();
        let mut by_name: FxHashMap<(String, Option<String>), usize> = FxHashMap::default();
        let mut of_label = |label: &Label| {
            let name = label.name.bytes(database);
            let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
            let name = name.unwrap_or_else(|| "(no name)".into());
            let domain = self.domains.name(label.process, label.domain).map(Cow::into_owned);
            *by_name.entry((name.clone(), domain.clone())).or_insert_with(|| {
                let (instances, host_total_ns) = (Some(0), Some(0));
                ranges.push(Range { name, domain, instances, host_total_ns, ..Range::default() });
                ranges.len() - 1
            })
        };
        let indices: Vec<usize> = self.labels.iter().map(&mut of_label).collect();
        let mut closed: Vec<Vec<(i64, u64)>> = vec![Vec::new(); self.labels.len()];
        for span in self.threads.values().flat_map(Spans::kept) {
            let index = indices.get(span.label as usize).copied();
            if let Some(range) = index.and_then(|index| ranges.get_mut(index)) {
                range.instances = range.instances.map(|n| n + 1);
                if span.end == OPEN {
                    range.unclosed += 1;
                } else {
                    let ns = u64::try_from(span.end.saturating_sub(span.start)).unwrap_or(0);
                    range.host_total_ns = range.host_total_ns.map(|sum| sum.saturating_add(ns));
                    let of_label = closed.get_mut(span.label as usize);
                    of_label.into_iter().for_each(|times| times.push((span.start, ns)));
                }
            }
        }
        for (index, warm) in warm_times(closed, &indices) {
            if let Some(range) = ranges.get_mut(index) {
                range.host_warm_instances = Some(warm.count());
                range.host_warm_std_ns = warm.deviation();
                range.host_warm_median_ns = warm.median();
            }
        }
        (ranges, indices)
    }
}

/// Host times of every range without the first instance of each label, and so of each process.
fn warm_times(closed: Vec<Vec<(i64, u64)>>, indices: &[usize]) -> FxHashMap<usize, Series> {
    let mut warm: FxHashMap<usize, Series> = FxHashMap::default();
    for (mut times, &index) in closed.into_iter().zip(indices) {
        times.sort_unstable();
        warm.entry(index).or_default().extend(times.iter().skip(1).map(|&(_, ns)| ns));
    }
    warm
}
