//! Rows of the NVTX table -> the outermost ranges of every thread, and their names. Ranges of
//! libraries are left out: they are no stages, even where they are open around everything.

use std::borrow::Cow;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use rustc_hash::FxHashMap;

use super::Range;
use super::database::{Database, Table, integer, text};
use super::domains::Domains;
use super::launches::PROCESS_BITS;
use super::spans::{OPEN, Span, Spans};

use crate::load::series::Series;
use stage2_model::nsys::Counts;

/// Number of the kind of rows of push/pop ranges.
const PUSH_POP: i64 = 59;
/// Rows of ranges.
pub(super) const FILTER: &str = "WHERE eventType IN (59, 60, 70, 71)";

/// Outermost ranges held in memory, at most (24 bytes each).
const MAX_HELD: usize = 12_000_000;

/// Which range a row is about: its name as the file has it, process and domain.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Label {
    name: LabelName,
    process: i64,
    domain: i64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum LabelName {
    Id(i64),
    Text(String),
    None,
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

/// Its columns that are read.
pub(super) const COLUMNS: [&str; 8] =
    ["start", "end", "eventType", "globalTid", "domainId", "textId", "text", "endGlobalTid"];

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
        let (kind, thread) = (integer(row, 2), integer(row, 3).unwrap_or(0));
        let domain = integer(row, 4).unwrap_or(0);
        counts.nvtx_ranges += 1;
        let Some((start, end)) = span(row) else {
            counts.odd_rows += 1;
            return;
        };
        if kind != Some(PUSH_POP) && integer(row, 7).is_some_and(|other| other != thread) {
            counts.cross_thread_ranges += 1;
        }
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
        let label = Label { name: name(row), process: process(thread), domain };
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
        let resolve = |name: &LabelName| match name {
            LabelName::Id(id) => database.string(*id),
            LabelName::Text(text) => Some(text.clone()),
            LabelName::None => None,
        };
        let mut ranges: Vec<Range> = Vec::new();
        let mut by_name: FxHashMap<(String, Option<String>), usize> = FxHashMap::default();
        let mut of_label = |label: &Label| {
            let name = resolve(&label.name).unwrap_or_else(|| "(no name)".into());
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

/// Start and end of a range ([`OPEN`]: it has none), ns; nothing where they are impossible.
pub(super) fn span(row: &Row<'_>) -> Option<(i64, i64)> {
    let start = integer(row, 0)?;
    match row.get_ref(1) {
        Ok(ValueRef::Null) => Some((start, OPEN)),
        Ok(ValueRef::Integer(end)) if end >= start => Some((start, end)),
        _ => None,
    }
}

/// The process in a global thread number.
fn process(thread: i64) -> i64 {
    thread & PROCESS_BITS
}

/// Registered strings are numbers, others stand in the row.
fn name(row: &Row<'_>) -> LabelName {
    match (integer(row, 5), text(row, 6)) {
        (_, Some(text)) => LabelName::Text(text),
        (Some(id), None) => LabelName::Id(id),
        (None, None) => LabelName::None,
    }
}
