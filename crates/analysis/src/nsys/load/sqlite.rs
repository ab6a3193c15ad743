//! A SQLite export -> [`Tables`], in one pass over each of its large tables.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::Kernel;
use super::Naming;
use super::RangeKernel;
use super::Tables;
use super::database::{DEVICES, Database, integer, text};
use super::domains::Domains;
use super::domains::TABLE;
use super::kernels::{self, Kernels};
use super::launches::{self, Launches};
use super::nvtx::Ranges;
use crate::load::libraries::LibraryDomains;
use stage2_model::nsys::{Counts, Source};
use stage2_model::{Finding, Severity};

/// Texts of an export that are shown, at most.
const MAX_DIAGNOSTICS: usize = 8;
/// Longest text of the export that is shown, characters.
const MAX_SHOWN_CHARS: usize = 300;

/// Reads an export.
///
/// # Errors
/// The file cannot be read at all.
pub fn load(path: &Path) -> Result<Tables, Finding> {
    load_with(path, &LibraryDomains::default())
}

/// The same, with a list of libraries of one's own.
///
/// # Errors
/// The file cannot be read at all.
pub fn load_with(path: &Path, libraries: &LibraryDomains) -> Result<Tables, Finding> {
    let database = open(path)?;
    let mut reader = Reader { path, libraries, database: &database, tables: Tables::default() };
    reader.tables.files.push(path.to_owned());
    reader.tables.source = Source::Sqlite;
    reader.tables.complete = true;
    if let Some(cut) = &database.cut_short {
        reader.damaged(&format!("the nsys export {} is damaged", path.display()), cut);
    }
    reader.describe();
    reader.join()?;
    Ok(reader.tables)
}

pub(super) fn open(path: &Path) -> Result<Database, Finding> {
    Database::open(path).map_err(|why| {
        let what = format!("the nsys export {} cannot be read", path.display());
        let remedy = "export the report again: nsys export --type sqlite --force-overwrite true FILE.nsys-rep";
        Finding::new(Severity::Warning, what, why.to_string(), remedy)
    })
}

fn read_ranges(path: &Path, libraries: &LibraryDomains) -> Result<(Ranges, Tables), Finding> {
    let database = open(path)?;
    let tables = Tables { complete: true, ..Tables::default() };
    let mut reader = Reader { path, libraries, database: &database, tables };
    Ok((reader.ranges(), reader.tables))
}

struct Reader<'a> {
    path: &'a Path,
    libraries: &'a LibraryDomains,
    database: &'a Database,
    tables: Tables,
}

impl Reader<'_> {
    /// Versions, devices, and what nsys itself says about the capture.
    fn describe(&mut self) {
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            self.small(table, &["name", "value"], |tables, row| {
                let (Some(name), Some(value)) = (text(row, 0), text(row, 1)) else { return };
                match name.as_str() {
                    "EXPORT_PRODUCT_VERSION" => tables.tool_version = Some(value),
                    "EXPORT_SCHEMA_VERSION" => tables.schema_version = Some(value),
                    _ => {}
                }
            });
        }
        self.small("META_DATA_CAPTURE", &["name", "value"], |tables, row| {
            let (name, value) = (text(row, 0), text(row, 1));
            name.zip(value).into_iter().for_each(|(name, value)| tables.traced.take(&name, &value));
        });
        let devices = &mut self.tables.devices;
        let read = self.database.devices(|id, name| drop(devices.insert(id, name)));
        self.read_to_the_end(DEVICES, read);
        let mut said = Vec::new();
        self.small("DIAGNOSTIC_EVENT", &["severity", "text"], |_, row| {
            // 0 and 1 are remarks.
            if integer(row, 0).is_none_or(|severity| severity >= 2)
                && said.len() < MAX_DIAGNOSTICS
                && let Some(text) = text(row, 1)
            {
                said.push(text.chars().take(MAX_SHOWN_CHARS).collect::<String>());
            }
        });
        for text in said {
            let what = format!("nsys says about {}: {}", self.path.display(), text.trim());
            self.tables.findings.push(Finding::new(Severity::Note, what, "", ""));
        }
    }

    /// Reads a table that is short and may be missing.
    fn small(
        &mut self,
        name: &'static str,
        columns: &[&str],
        mut take: impl FnMut(&mut Tables, &rusqlite::Row<'_>),
    ) {
        let database = self.database;
        let read = database.table(name).and_then(|table| match table {
            Some(table) => {
                database.rows(&table, columns, "LIMIT 10000", |row| take(&mut self.tables, row))
            }
            None => Ok(()),
        });
        self.read_to_the_end(name, read);
    }

    /// Kernels, their launches and their ranges.
    fn join(&mut self) -> Result<(), Finding> {
        let (mut kernels, mut launches) = (Kernels::default(), Launches::default());
        // The ranges have a connection and a thread of their own: their table is the largest, and
        // nothing of it is needed before the end.
        let (path, libraries) = (self.path, self.libraries);
        let (ranges, range_tables) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_ranges(path, libraries));
            self.kernels(&mut kernels, &mut launches);
            self.launches(&mut launches);
            self.graphs();
            reading.join().unwrap_or_else(|_| {
                let what = format!("the ranges of {} cannot be read", path.display());
                let why = "this is a fault of stage2-launch";
                Err(Finding::new(Severity::Error, what, why, "report it"))
            })
        })?;
        self.tables.complete &= range_tables.complete;
        self.tables.findings.extend(range_tables.findings);
        let Counts { nvtx_ranges, cross_thread_ranges, odd_rows, .. } = range_tables.counts;
        let counts = &mut self.tables.counts;
        (counts.nvtx_ranges, counts.cross_thread_ranges) = (nvtx_ranges, cross_thread_ranges);
        counts.odd_rows += odd_rows;
        self.place(kernels, launches, ranges);
        self.notice();
        Ok(())
    }

    fn kernels(&mut self, kernels: &mut Kernels, launches: &mut Launches<u64>) {
        let Some(table) = self.table(
            kernels::TABLE,
            "it holds no kernels: none ran while nsys recorded, or CUDA was not traced",
        ) else {
            return;
        };
        let missing = table.lacks(&["start", "end", "deviceId", "gridX", "blockX"]);
        self.lacking(kernels::TABLE, &missing, "those values are absent");
        if !table.has("mangledName") {
            self.lacking(kernels::TABLE, &["mangledName"], "its kernels cannot be joined with those of other tools; nsys 2022.1 and newer record it");
        }
        let read = kernels.read(self.database, &table, &mut self.tables.counts, launches);
        self.read_to_the_end(kernels::TABLE, read);
    }

    fn launches(&mut self, launches: &mut Launches<u64>) {
        if self.tables.counts.kernels == 0 {
            return;
        }
        let Some(table) = self
            .table(launches::TABLE, "it holds no API calls: no kernel can be placed in a range")
        else {
            return;
        };
        let missing = table.lacks(&["start", "correlationId", "globalTid"]);
        self.lacking(launches::TABLE, &missing, "no kernel can be placed in a range");
        let read = launches.read(self.database, &table, &mut self.tables.counts.api_calls);
        self.read_to_the_end(launches::TABLE, read);
        self.tables.counts.call_numbers_missing = launches.call_numbers_missing();
        if launches.beyond_limit > 0 {
            let what = format!(
                "{} kernels of {} were not placed in ranges",
                launches.beyond_limit,
                self.path.display()
            );
            let why =
                format!("only the first {} are; every other number has all", launches::MAX_KERNELS);
            self.tables.complete = false;
            self.tables.findings.push(Finding::new(
                Severity::Warning,
                what,
                why,
                "capture a shorter part (profiling/nsys=nsys.gated)",
            ));
        }
    }

    fn ranges(&mut self) -> Ranges {
        let mut ranges = Ranges::new(Domains::read(self.database, self.libraries));
        let Some(table) = self.table(
            TABLE,
            "it holds no NVTX ranges: the workload opened none, or NVTX was not traced",
        ) else {
            return ranges;
        };
        let missing = table.lacks(&["start", "end", "eventType", "globalTid"]);
        self.lacking(TABLE, &missing, "its ranges cannot be used");
        if !table.has("eventType") {
            return ranges;
        }
        let read = ranges.read(self.database, &table, &mut self.tables.counts);
        self.read_to_the_end(TABLE, read);
        if ranges.beyond_limit > 0 {
            let what =
                format!("{} ranges of {} were left out", ranges.beyond_limit, self.path.display());
            self.tables.complete = false;
            self.tables.findings.push(Finding::new(
                Severity::Warning,
                what,
                "there are too many outermost ranges to hold",
                "put an outer range around each stage",
            ));
        }
        ranges
    }

    /// CUDA graphs that were recorded as a whole.
    fn graphs(&mut self) {
        const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
        let database = self.database;
        let Ok(Some(table)) = database.table(GRAPHS) else { return };
        let counts = &mut self.tables.counts;
        let read = database.rows(&table, &["start", "end"], "", |row| {
            counts.graph_launches += 1;
            let ns = kernels::duration_ns(integer(row, 0), integer(row, 1)).unwrap_or(0);
            counts.graph_total_ns = counts.graph_total_ns.saturating_add(ns);
        });
        self.read_to_the_end(GRAPHS, read);
    }

    fn place(&mut self, kernels: Kernels, launches: Launches<u64>, ranges: Ranges) {
        let mut in_range: FxHashMap<(u32, u32), (u64, u64)> = FxHashMap::default();
        let counts = &mut self.tables.counts;
        counts.without_launch =
            launches.finish(|placed| match ranges.at(placed.thread, placed.time) {
                Some(label) => {
                    counts.in_ranges += 1;
                    let (calls, total) = in_range.entry((label, placed.group)).or_default();
                    *calls += 1;
                    *total = total.saturating_add(placed.times);
                }
                None => counts.outside_ranges += 1,
            });
        let (mut rows, of_label) = ranges.finish(self.database);
        let mut merged: FxHashMap<(usize, u32), (u64, u64)> = FxHashMap::default();
        for ((label, group), (calls, total)) in in_range {
            let Some(&range) = of_label.get(label as usize) else { continue };
            let sums = merged.entry((range, group)).or_default();
            *sums = (sums.0 + calls, sums.1.saturating_add(total));
        }
        for ((range, group), (calls, total_ns)) in merged {
            if let Some(range) = rows.get_mut(range) {
                range.calls += calls;
                range.total_ns = range.total_ns.saturating_add(total_ns);
                range.kernels.push(RangeKernel { kernel: group as usize, calls, total_ns });
            }
        }
        let kernels = kernels.finish(self.database, &mut self.tables.counts);
        (self.tables.kernels, self.tables.ranges) = (kernels, rows);
        self.tables.sort();
    }

    /// What the counts say.
    fn notice(&mut self) {
        let Counts {
            kernels,
            without_launch,
            untimed,
            graph_launches,
            odd_rows,
            call_numbers_missing,
            ..
        } = self.tables.counts;
        let file = self.path.display().to_string();
        let mut note = |severity, what: String, why: &str, remedy: &str| {
            self.tables.findings.push(Finding::new(severity, what, why, remedy));
        };
        if call_numbers_missing > 0 {
            note(
                Severity::Warning,
                format!("{file} seems to have lost records"),
                &format!(
                    "about {call_numbers_missing} calls of the CUDA API are missing from their \
                     sequence, and kernels with them"
                ),
                "compare it with the collector; a newer nsys, or a gate around less \
                 (profiling/nsys=nsys.gated) may keep more",
            );
        }
        if without_launch > 0 {
            note(
                Severity::Warning,
                format!("{without_launch} of {kernels} kernels in {file} have no launch"),
                "their API calls are not in the file; they are in no range",
                "compare the counts with the collector's before believing any range",
            );
        }
        if untimed > 0 {
            note(
                Severity::Warning,
                format!("{untimed} of {kernels} kernels in {file} have no valid times"),
                "they are counted, and in no time",
                "",
            );
        }
        if graph_launches > 0 {
            note(
                Severity::Note,
                format!("{file} holds {graph_launches} CUDA graphs as a whole"),
                "their kernels are in no number here",
                "record their nodes: pipeline.nsys.cuda_graph_trace=node",
            );
        }
        if odd_rows > 0 {
            note(
                Severity::Warning,
                format!("{odd_rows} rows of {file} cannot be used"),
                "their values are missing or impossible",
                "",
            );
        }
        let nameless: u64 = self
            .tables
            .kernels
            .iter()
            .filter(|k: &&Kernel| k.naming != Naming::Mangled)
            .map(|k| k.calls)
            .sum();
        if nameless > 0 {
            note(
                Severity::Warning,
                format!("{nameless} of {kernels} kernels in {file} have no mangled name"),
                "they are joined with those of other tools by normalised names, where that is unique",
                "record them with nsys 2022.4 or newer",
            );
        }
    }

    fn table(&mut self, name: &'static str, missing: &str) -> Option<super::database::Table> {
        match self.database.table(name) {
            Ok(Some(table)) => Some(table),
            Ok(None) => {
                let what = format!("{} has no table {name}", self.path.display());
                self.tables.findings.push(Finding::new(Severity::Note, what, missing, ""));
                None
            }
            Err(error) => {
                self.read_to_the_end(name, Err(error));
                None
            }
        }
    }

    fn lacking(&mut self, table: &str, columns: &[&str], effect: &str) {
        if !columns.is_empty() {
            let what = format!(
                "{}: the table {table} has no column {}",
                self.path.display(),
                columns.join(", ")
            );
            self.tables.complete = false;
            self.tables.findings.push(Finding::new(
                Severity::Warning,
                what,
                effect,
                "export the report with nsys 2022.4 or newer",
            ));
        }
    }

    fn read_to_the_end(&mut self, table: &str, read: rusqlite::Result<()>) {
        if let Err(error) = read {
            let what =
                format!("{}: the table {table} could not be read to its end", self.path.display());
            self.damaged(&what, &error.to_string());
        }
    }

    fn damaged(&mut self, what: &str, why: &str) {
        let why = format!("{why}; what came before is in the numbers, and the rest is not");
        let remedy = "copy the file again, or export the report again; do not believe these counts";
        self.tables.complete = false;
        self.tables.findings.push(Finding::new(Severity::Error, what, why, remedy));
    }
}
