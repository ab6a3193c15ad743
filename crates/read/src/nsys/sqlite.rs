//! A SQLite export -> [`Tables`]: what nsys says of it, its kernels and its outermost ranges.

use std::collections::BTreeMap;
use std::path::Path;

use foldhash::HashMap;
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_model::nsys::{Counts, Source};

use super::capture::work::{self, KERNELS, NO_NAME};
use super::capture::{self, Depth, Export, Limits};
use super::database::{self, Database, integer, short_text, text};
use super::diagnostics::{self, Said};
use super::{Kernel, Placed, Range, RangeKernel, Tables};
use crate::trace::ProcessCapture;
use crate::trace::libraries::RangeNames;
use crate::trace::paths::{OUTSIDE, PathIndex, UNATTRIBUTED};
use crate::trace::stats::{Series, Work};

/// Tables that matter, what it means that one is missing, their columns, and what it means that one
/// of these is missing.
const NEEDED: [(&str, &str, &[&str], &str); 3] = [
    (
        KERNELS,
        "it holds no kernels: none ran while nsys recorded, or CUDA was not traced",
        &["start", "end", "deviceId", "gridX", "blockX"],
        "those values are absent",
    ),
    (
        work::CALLS,
        "it holds no API calls: no kernel can be placed in a range",
        &["start", "correlationId", "globalTid"],
        "no kernel can be placed in a range",
    ),
    (
        work::NVTX_EVENTS,
        "it holds no NVTX ranges: the workload opened none, or NVTX was not traced",
        &["start", "end", "eventType", "globalTid"],
        "its ranges cannot be used",
    ),
];

/// Reads an export.
pub fn load(path: &Path, libraries: &RangeNames) -> Result<Tables, Finding> {
    let database = Database::of_export(path)?;
    let files = vec![path.to_owned()];
    let (source, placed) = (Source::Sqlite, Placed::Once);
    let tables = Tables { files, source, placed, complete: true, ..Tables::default() };
    let mut reader = Reader { path, database: &database, tables };
    if let Some(cut) = &database.cut_short {
        reader.damaged(&format!("the nsys export {} is damaged", path.display()), cut);
    }
    reader.describe();
    let export = capture::tally(path, &database, libraries, Limits::default(), Depth::Outermost);
    reader.tables.sum_up(&export);
    reader.look_for_tables(export.work.is_own);
    for (table, why) in &export.work.cut_tables {
        reader.cut_table(table, why);
    }
    if let Some(why) = database.wrong_names() {
        reader.cut_table(database::STRINGS, &why);
    }
    reader.notice(&export);
    Ok(reader.tables)
}

impl Tables {
    fn sum_up(&mut self, export: &Export) {
        self.devices.clone_from(&export.work.devices);
        self.counts = export.work.counts;
        let mut sums = Sums::default();
        for process in &export.capture.processes {
            self.add_process(process, export, &mut sums);
        }
        for (&(range, kernel), &(calls, total_ns)) in &sums.in_ranges {
            if let Some(range) = self.ranges.get_mut(range) {
                range.calls += calls;
                range.total_ns = range.total_ns.saturating_add(total_ns);
                range.kernels.push(RangeKernel { kernel, calls, total_ns });
            }
        }
        for (range, warm) in self.ranges.iter_mut().zip(sums.warm_host_times) {
            range.host_warm_instances = Some(warm.count());
            range.host_warm_std_ns = warm.deviation();
            range.host_warm_median_ns = warm.median();
        }
        self.sort();
    }

    fn add_process(&mut self, process: &ProcessCapture, export: &Export, sums: &mut Sums) {
        for (&path, times) in &process.path_times {
            let at = self.range(process, path, sums);
            let (Some(range), Some(warm)) =
                (self.ranges.get_mut(at), sums.warm_host_times.get_mut(at))
            else {
                continue;
            };
            range.unclosed += times.unclosed;
            range.instances = range.instances.map(|n| n + times.instances);
            let ns = times.host_total_ns.unwrap_or(0);
            range.host_total_ns = range.host_total_ns.map(|sum| sum.saturating_add(ns));
            warm.append(&times.host_warm_ns);
        }
        for (key, stats) in &process.groups {
            let Work::Kernel(shape) = key.work else { continue };
            let shape = process.shapes.get(shape as usize);
            let Some(kernel) = shape.and_then(|entry| export.work.kernel(&entry.shape)) else {
                continue;
            };
            let at = *sums.kernels.entry(kernel).or_insert_with_key(|kernel| {
                self.kernels.push(kernel.clone());
                self.kernels.len() - 1
            });
            if let Some(kernel) = self.kernels.get_mut(at) {
                kernel.calls += stats.calls;
                kernel.untimed += stats.untimed;
                kernel.total_ns = kernel.total_ns.saturating_add(stats.total_ns);
                kernel.min_ns = kernel.min_ns.into_iter().chain(stats.min_ns).min();
                kernel.max_ns = kernel.max_ns.max(stats.max_ns);
            }
            match key.path {
                OUTSIDE => self.counts.outside_ranges += stats.calls,
                UNATTRIBUTED => self.counts.without_launch += stats.calls,
                path => {
                    self.counts.in_ranges += stats.calls;
                    let range = self.range(process, path, sums);
                    let (calls, total_ns) = sums.in_ranges.entry((range, at)).or_default();
                    *calls += stats.calls;
                    *total_ns = total_ns.saturating_add(stats.total_ns);
                }
            }
        }
    }

    fn range(&mut self, process: &ProcessCapture, path: PathIndex, sums: &mut Sums) -> usize {
        let node = process.paths.get(path as usize);
        let text = |name: u32| process.names.get(name as usize).map(|n| String::from_utf8_lossy(n));
        let name = node.and_then(|node| text(node.name?)).unwrap_or_default().into_owned();
        let domain = node.and_then(|node| text(node.domain?)).map(|domain| domain.into_owned());
        *sums.ranges.entry((name, domain)).or_insert_with_key(|(name, domain)| {
            let (name, domain) = (name.clone(), domain.clone());
            let (instances, host_total_ns) = (Some(0), Some(0));
            self.ranges.push(Range { name, domain, instances, host_total_ns, ..Range::default() });
            sums.warm_host_times.push(Series::default());
            self.ranges.len() - 1
        })
    }
}

#[derive(Default)]
struct Sums {
    /// Index of each kernel, which is without its sums here.
    kernels: HashMap<Kernel, usize>,
    ranges: HashMap<(String, Option<String>), usize>,
    /// Host times of each range without the first instance in each process.
    warm_host_times: Vec<Series>,
    in_ranges: BTreeMap<(usize, usize), (u64, u64)>,
}

struct Reader<'a> {
    path: &'a Path,
    database: &'a Database,
    tables: Tables,
}

impl Reader<'_> {
    /// Versions, settings, and what nsys itself says about the capture.
    fn describe(&mut self) {
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            self.small(table, &["name", "value"], |tables, row| match text(row, 0).as_deref() {
                Some("EXPORT_PRODUCT_VERSION") => tables.tool_version = short_text(row, 1),
                Some("EXPORT_SCHEMA_VERSION") => tables.schema_version = short_text(row, 1),
                _ => {}
            });
        }
        self.small("META_DATA_CAPTURE", &["name", "value"], |tables, row| {
            let (name, value) = (text(row, 0), text(row, 1));
            name.zip(value).into_iter().for_each(|(name, value)| tables.traced.take(&name, &value));
        });
        let mut said = Said::default();
        self.small(diagnostics::TABLE, &diagnostics::COLUMNS, |_, row| {
            text(row, 1).iter().for_each(|text| said.take(integer(row, 0), text));
        });
        self.tables.said = said.finish();
    }

    fn small(
        &mut self,
        name: &'static str,
        columns: &[&str],
        mut take: impl FnMut(&mut Tables, &rusqlite::Row<'_>),
    ) {
        let tables = &mut self.tables;
        let read = self.database.rows_of(name, columns, "LIMIT 10000", |row| take(tables, row));
        if let Err(error) = read {
            self.cut_table(name, &error.to_string());
        }
    }

    /// Notes which of the tables and columns that matter are missing.
    fn look_for_tables(&mut self, is_own: bool) {
        for &(name, missing, columns, effect) in &NEEDED {
            if name == work::CALLS && (is_own || self.tables.counts.kernels == 0) {
                continue;
            }
            // What is wrong with a table is among the tables that were cut.
            let Ok(found) = self.database.table(name) else { continue };
            let Some(table) = found else {
                let what = format!("{} has no table {name}", self.path.display());
                self.tables.findings.push(Id::NsysLacks.about(name).graded(
                    Severity::Note,
                    what,
                    missing,
                    "",
                ));
                continue;
            };
            self.lacking(&table, columns, effect);
            if name == KERNELS {
                let effect = "its kernels cannot be joined with those of other tools; nsys 2022.1 and newer \
                     record it";
                self.lacking(&table, &["mangledName"], effect);
            }
        }
    }

    /// Notes what the counts say, and what the tally found.
    fn notice(&mut self, export: &Export) {
        let Counts {
            kernels, without_launch, untimed, graph_launches, call_numbers_missing, ..
        } = self.tables.counts;
        let nameless = self.tables.nameless_calls();
        let unnamed = self.tables.kernels.iter().filter(|kernel| &*kernel.name == NO_NAME);
        self.tables.counts.odd_rows += unnamed.map(|kernel| kernel.calls).sum::<u64>();
        let odd_rows = self.tables.counts.odd_rows;
        let file = self.path.display().to_string();
        let beyond = export.work.beyond_limit;
        // They have no range for another reason, which has a finding of its own.
        let without_launch =
            without_launch.saturating_sub(beyond + export.left_out.unplaced_kernels);
        self.tables.complete &=
            beyond == 0 && export.left_out.is_nothing() && !export.ranges_unusable;
        self.tables.findings.extend(export.capture.findings.iter().cloned());
        self.tables.warn_if(
            beyond > 0,
            Id::NsysBeyondLimits,
            format!("{beyond} kernels of {file} were not placed in ranges"),
            &format!(
                "the launches of {} pieces of GPU work are held, in {} processes; every other number \
                 has all",
                work::MAX_KERNELS,
                work::MAX_PROCESSES
            ),
            "capture a shorter part (profiling/nsys=nsys.gated)",
        );
        self.tables.warn_if(
            call_numbers_missing > 0,
            Id::NsysLost,
            format!("{file} seems to have lost records"),
            &format!(
                "about {call_numbers_missing} calls of the CUDA API are missing from their sequence, \
                 and kernels with them"
            ),
            "compare it with the collector; a newer nsys, or a gate around less \
             (profiling/nsys=nsys.gated) may keep more",
        );
        self.tables.warn_if(
            without_launch > 0,
            Id::NsysLacks,
            format!("{without_launch} of {kernels} kernels in {file} have no launch"),
            "their API calls are not in the file; they are in no range",
            "compare the counts with the collector's before you rely on any range",
        );
        let what = format!("{untimed} of {kernels} kernels in {file} have no valid times");
        self.tables.warn_if(
            untimed > 0,
            Id::NsysLacks,
            what,
            "they are counted, and in no time",
            "",
        );
        if graph_launches > 0 {
            self.tables.findings.push(Id::NsysWholeGraphs.found(
                format!("{file} holds {graph_launches} CUDA graphs as a whole"),
                "their kernels are in no number here",
                "record their nodes: pipeline.nsys.cuda_graph_trace=node",
            ));
        }
        let what = format!("{odd_rows} rows of {file} cannot be used");
        self.tables.warn_if(
            odd_rows > 0,
            Id::NsysLacks,
            what,
            "their values are missing or impossible",
            "",
        );
        self.tables.warn_if(
            nameless > 0,
            Id::NsysLacks,
            format!("{nameless} of {kernels} kernels in {file} have no mangled name"),
            "they are joined with those of other tools by normalised names, where that is unique",
            "record them with nsys 2022.4 or newer",
        );
    }

    fn lacking(&mut self, table: &database::Table, columns: &[&str], effect: &str) {
        let missing = table.lacks(columns);
        self.tables.complete &= missing.is_empty();
        let (file, name, columns) = (self.path.display(), table.name, missing.join(", "));
        let what = format!("{file}: the table {name} has no column {columns}");
        let remedy = "export the report with nsys 2022.4 or newer";
        self.tables.warn_if(!missing.is_empty(), Id::NsysLacks, what, effect, remedy);
    }

    fn cut_table(&mut self, table: &str, why: &str) {
        let file = self.path.display();
        self.damaged(&format!("{file}: the table {table} could not be read to its end"), why);
    }

    fn damaged(&mut self, what: &str, why: &str) {
        let why = format!("{why}; what came before is in the numbers, and the rest is not");
        let remedy = "copy the file again, or export the report again; do not rely on these counts";
        self.tables.complete = false;
        self.tables.findings.push(Id::NsysUnreadable.graded(Severity::Error, what, why, remedy));
    }
}

/// What was asked for. None: the file does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// CUDA: kernels, copies and calls.
    pub cuda: Option<bool>,
    /// NVTX.
    pub nvtx: Option<bool>,
    /// NVTX ranges of some domains only.
    pub domains_chosen: bool,
    /// The capture began with something else than the workload.
    pub gated: bool,
}

impl Traced {
    /// Takes a row of the table `META_DATA_CAPTURE`. Of several processes one suffices.
    pub(super) fn take(&mut self, name: &str, value: &str) {
        let field = match name.rsplit_once(':').map_or(name, |(_, field)| field) {
            "COLLECT_CUDA_TRACE" => &mut self.cuda,
            "COLLECT_NVTX_TRACE" => &mut self.nvtx,
            "NVTX_DOMAIN_FILTER_STRING" => {
                self.domains_chosen |= !value.is_empty();
                return;
            }
            "START_TRIGGER" => {
                self.gated |= value != "Immediate";
                return;
            }
            _ => return,
        };
        if let Ok(value) = value.parse::<bool>() {
            *field = Some(field.unwrap_or(false) || value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_an_export_are_understood_and_others_say_nothing() {
        let mut traced = Traced::default();
        traced.take("RATE_HZ", "0");
        traced.take("PROCESS_0:COLLECT_CUDA_TRACE", "maybe");
        assert_eq!(traced, Traced::default());
        traced.take("PROCESS_0:COLLECT_CUDA_TRACE", "false");
        traced.take("PROCESS_0:COLLECT_NVTX_TRACE", "true");
        traced.take("PROCESS_1:COLLECT_NVTX_TRACE", "false");
        traced.take("NVTX_OPTIONS:NVTX_DOMAIN_FILTER_STRING", "");
        traced.take("START_TRIGGER", "Immediate");
        let expected = Traced { cuda: Some(false), nvtx: Some(true), ..Traced::default() };
        assert_eq!(traced, expected);
        traced.take("NVTX_OPTIONS:NVTX_DOMAIN_FILTER_STRING", "LLM");
        traced.take("START_TRIGGER", "Manual");
        assert!(traced.domains_chosen && traced.gated);
    }
}
