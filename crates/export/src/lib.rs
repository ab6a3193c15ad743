//! The trace files of a run -> files that other tools open.
//!
//! Each format is a module that takes the events of [`Run`] one by one: memory does not grow with
//! the kernels. Nothing is left out silently: [`Exported`] counts what a file holds and what it
//! cannot hold.
#![forbid(unsafe_code)]

mod chrome;
mod error;
pub mod fields;
mod folded;
mod hatchet;
mod kernels_csv;
mod lanes;
pub mod names;
pub mod output;
mod perfetto;
mod pprof;
mod run;
mod selection;
mod sqlite;
mod tree;

use std::path::{Path, PathBuf};

pub use error::ExportError;
pub use run::{Gpu, Process, Run};
pub use selection::{Selected, Selection, Window};
use serde::{Deserialize, Serialize};
pub use stage2_read::trace::events;
pub use stage2_read::trace::events::Traces;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Perfetto's protobuf: GPU render stages, NVTX ranges by thread.
    Perfetto,
    /// Chrome trace JSON in the dialect of PyTorch's profiler, one file for each process.
    Chrome,
    /// SQLite with the tables of an nsys export.
    Sqlite,
    /// CSV, a row for each piece of GPU work.
    Csv,
    /// The JSON of Triton Proton, which Hatchet reads.
    Hatchet,
    /// A gzipped pprof profile.
    Pprof,
    /// Folded stacks: a range path, a kernel, and its nanoseconds in each line.
    Folded,
}

impl Format {
    /// All formats, in the order in which they are offered.
    pub const ALL: [Self; 7] = [
        Self::Perfetto,
        Self::Chrome,
        Self::Sqlite,
        Self::Csv,
        Self::Hatchet,
        Self::Pprof,
        Self::Folded,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfetto => "perfetto",
            Self::Chrome => "chrome",
            Self::Sqlite => "sqlite",
            Self::Csv => "csv",
            Self::Hatchet => "hatchet",
            Self::Pprof => "pprof",
            Self::Folded => "folded",
        }
    }

    /// The end of the name of its file, or folder.
    pub fn suffix(self, run: &Run) -> &'static str {
        match self {
            Self::Perfetto => ".perfetto-trace",
            Self::Chrome if self.is_folder(run) => ".chrome",
            Self::Chrome => ".json.gz",
            Self::Sqlite => ".sqlite",
            Self::Csv => ".csv",
            Self::Hatchet => ".hatchet.json",
            Self::Pprof => ".pb.gz",
            Self::Folded => ".folded",
        }
    }

    /// Whether it has a place for NVTX marks.
    fn has_marks(self) -> bool {
        matches!(self, Self::Perfetto | Self::Chrome | Self::Sqlite)
    }

    /// Whether an export of `run` is a folder of files.
    pub fn is_folder(self, run: &Run) -> bool {
        self == Self::Chrome && run.processes().len() > 1
    }
}

/// What an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    /// The files.
    pub files: Vec<PathBuf>,
    /// What they hold, and what they do not.
    pub counts: Counts,
    /// What is missing from the run: a line for each file or process.
    pub missing: Vec<String>,
    /// The share of range instances that was recorded (`1/N`), where it was not all of them: an export
    /// holds what was recorded, unscaled.
    pub sample: Option<String>,
    /// How far the clocks of several hosts agree, where there are several.
    pub clocks: Option<String>,
}

/// Events of an export, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Kernels.
    pub kernels: u64,
    /// Copies and fills.
    pub memory: u64,
    /// CUDA graphs that were recorded as a whole.
    pub graphs: u64,
    /// Range instances.
    pub ranges: u64,
    /// GPU work without times, which no timeline can hold.
    pub without_times: u64,
    /// NVTX marks.
    pub marks: u64,
    /// NVTX marks that the format has no place for.
    pub marks_left_out: u64,
    /// GPU work and ranges outside the stages and the window that were asked for.
    pub not_selected: u64,
}

/// Writes `run` to `out`, a file or folder that must not exist.
///
/// # Errors
/// When `out` exists or cannot be written, when a trace file cannot be read, and when nothing is
/// selected.
pub fn export(
    run: &Run,
    format: Format,
    selection: &Selection,
    out: &Path,
) -> Result<Exported, ExportError> {
    let mut exported = select(run, selection, |selected| match format {
        Format::Perfetto => perfetto::write(selected, out),
        Format::Chrome => chrome::write(selected, out),
        Format::Sqlite => sqlite::write(selected, out),
        Format::Csv => kernels_csv::write(selected, out),
        Format::Hatchet => hatchet::write(selected, out),
        Format::Pprof => pprof::write(selected, out),
        Format::Folded => folded::write(selected, out),
    })?;
    if !format.has_marks() {
        exported.counts.marks_left_out = std::mem::take(&mut exported.counts.marks);
    }
    Ok(exported)
}

/// Gives the selected part of `run` to `write`: for formats of other crates.
///
/// # Errors
/// A stage that the run does not have, and the errors of `write`.
pub fn select(
    run: &Run,
    selection: &Selection,
    write: impl FnOnce(&Selected<'_>) -> Result<Exported, ExportError>,
) -> Result<Exported, ExportError> {
    selection.check(run)?;
    selection.check_window(run)?;
    let exported = write(&Selected::new(run, selection))?;
    let clocks = run.clocks().map(str::to_owned);
    Ok(Exported { missing: run.missing(), sample: run.sample(), clocks, ..exported })
}
