//! The trace files of a run -> files that other tools open.
//!
//! Each format is a module that takes the events of [`Run`] one by one: memory does not grow with
//! the kernels. Nothing is left out silently: [`Exported`] counts what a file holds and what it
//! cannot hold.
#![forbid(unsafe_code)]

/// Declares the messages of a protobuf: `field: type = number, what prost calls it;`.
macro_rules! messages {
    ($($(#[$doc:meta])* $message:ident {
        $($field:ident: $type:ty = $number:tt, $($kind:ident $(= $how:tt)?),+;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        struct $message {
            $(#[prost($($kind $(= $how)?),+, tag = $number)] $field: $type,)*
        }
    )*};
}

mod chrome;
pub mod host;
mod kernels_csv;
pub mod names;
pub mod output;
mod perfetto;
mod profiles;
mod run;
mod selection;
mod size;
mod speedscope;
mod sqlite;

pub use run::{Conclusions, Gpu, Process, Run};
pub use selection::{Holds, Selected, Selection, Window};
pub use size::{Cost, Space};
pub use stage2_read::trace::events;
pub use stage2_read::trace::events::Traces;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stage2_contract::text::numbers::size;
use stage2_contract::text::visible_path;
use stage2_contract::trace::ReadError;
use stage2_read::files::without_its_name;

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
    /// Folded stacks of the host while the GPU idles: a stage, frames, and nanoseconds in each line.
    FoldedHost,
    /// Speedscope's JSON: the samples of the host, a profile for each thread.
    Speedscope,
}

impl Format {
    /// All formats that hold the GPU work of a run, in the order in which they are offered.
    pub const ALL: [Self; 7] = [
        Self::Perfetto,
        Self::Chrome,
        Self::Sqlite,
        Self::Csv,
        Self::Hatchet,
        Self::Pprof,
        Self::Folded,
    ];

    /// Its name on the command line, and the end of the name of its file.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Perfetto => ("perfetto", ".perfetto-trace.gz"),
            Self::Chrome => ("chrome", ".json.gz"),
            Self::Sqlite => ("sqlite", ".sqlite"),
            Self::Csv => ("csv", ".csv"),
            Self::Hatchet => ("hatchet", ".hatchet.json"),
            Self::Pprof => ("pprof", ".pb.gz"),
            Self::Folded => ("folded", ".folded"),
            Self::FoldedHost => ("folded-host", ".host.folded"),
            Self::Speedscope => ("speedscope", ".speedscope.json"),
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// The end of the name of its file, or folder.
    pub fn suffix(self, run: &Run) -> &'static str {
        if self.is_folder(run) { ".chrome" } else { self.words().1 }
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
    /// What else is to be known of the files.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A line of what another program says of its exports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// What the next one will take.
    About(Space),
    /// What it wrote.
    Done(Box<Exported>),
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
    /// Samples of the host's threads.
    pub samples: u64,
    /// Distinct stacks of the host, of a format that holds sums instead of samples.
    pub host_stacks: u64,
    /// Calls of the driver that may wait.
    pub calls: u64,
    /// Samples and calls of the host that the format has no place for.
    pub host_left_out: u64,
    /// Steps of engines.
    pub steps: u64,
    /// Requests of engines.
    pub requests: u64,
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
    export_after(run, format, selection, out, || Ok(()))
}

/// As [`export`], with a step between the checks of what is asked for and the writing.
///
/// # Errors
/// As [`export`], and those of the step.
pub fn export_after(
    run: &Run,
    format: Format,
    selection: &Selection,
    out: &Path,
    begin: impl FnOnce() -> Result<(), ExportError>,
) -> Result<Exported, ExportError> {
    let write = |selected: &Selected<'_>, counts: &mut Counts| {
        output::absent(out)?;
        begin()?;
        match format {
            Format::Perfetto => perfetto::write(selected, out, counts),
            Format::Chrome => chrome::write(selected, out, counts),
            Format::Sqlite => sqlite::write(selected, out, counts),
            Format::Csv => kernels_csv::write(selected, out, counts),
            Format::Hatchet => profiles::hatchet(selected, out, counts),
            Format::Pprof => profiles::pprof(selected, out, counts),
            Format::Folded => profiles::folded(selected, out, counts),
            Format::FoldedHost => profiles::folded_host(selected, out, counts),
            Format::Speedscope => speedscope::write(selected, out, counts),
        }
    };
    let mut exported = select(run, selection, write)?;
    if !format.has_marks() {
        exported.counts.marks_left_out = std::mem::take(&mut exported.counts.marks);
    }
    Ok(exported)
}

/// Gives the selected part of `run` to `write`, which counts what it writes and gives its files: for
/// formats of other crates.
///
/// # Errors
/// A stage that the run does not have, and the errors of `write`.
pub fn select(
    run: &Run,
    selection: &Selection,
    write: impl FnOnce(&Selected<'_>, &mut Counts) -> Result<Vec<PathBuf>, ExportError>,
) -> Result<Exported, ExportError> {
    let mut times = selection.check(run)?;
    let notes = times.note.take().into_iter().collect();
    let mut counts = Counts::default();
    let files = write(&Selected::new(run, selection, times), &mut counts)?;
    let clocks = run.clocks().map(str::to_owned);
    let (missing, sample) = (run.missing(), run.sample());
    Ok(Exported { files, counts, missing, sample, clocks, notes })
}

/// Why an export failed. What was written so far is gone.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The run has no trace file of the collector.
    #[error(
        "{run} has no trace file of the collector {}",
        match why.is_empty() {
            true => "to export; run the workload under the collector, or make a run of trace files with `stage2-launch merge \
                     --spool DIR -o RUN`".to_owned(),
            false => format!("that can be exported ({why}); restore the whole files, or record again"),
        }
    )]
    NoTraceFiles {
        /// The run.
        run: String,
        /// What is wrong with those that are there.
        why: String,
    },
    /// Nothing is left of what was selected of a run of so many seconds.
    #[error(
        "the selected part of the run is empty; choose another one: the events of the run end {0:.3} s after the first"
    )]
    NothingSelected(f64),
    /// The run has no samples of the host.
    #[error(
        "{0}: no trace file has samples of the host; run the workload with profiling.collector.host=on, or without the launcher STAGE2_HOST=on"
    )]
    NoHostSamples(String),
    /// A window was asked for of what is known for the whole run only.
    #[error("folded-host is of the whole run; leave out --window")]
    NoWindowOfHost,
    /// The report of the run cannot be read.
    #[error(
        "{path} cannot be read: {why}; name the folder of a run, and write its reports again with \
         `stage2-launch report`"
    )]
    NoReport {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// A trace file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A stage that the run does not have.
    #[error("the run has no stage `{stage}`{instead}")]
    NoSuchStage {
        /// What was asked for.
        stage: String,
        /// The stages that it has.
        instead: String,
    },
    /// Calls that no process of the run has.
    #[error(
        "no process has so many calls of `{stage}`; choose some of the {most_calls} at most, numbered from 0"
    )]
    NoSuchCalls {
        /// The stage that was asked for.
        stage: String,
        /// The most of any process.
        most_calls: u64,
    },
    /// A window that cannot be read.
    #[error(
        "`{0}` is not a span that ends after its start; write START..END in seconds since the first event, for instance 0.5..1.25, or \
         STAGE:FIRST..END in calls of a stage, for instance decode:100..110"
    )]
    NoWindow(String),
    /// The destination exists.
    #[error("{0} exists already; choose another name with -o")]
    Exists(String),
    /// What is to be added to is not a dataset.
    #[error(
        "{0} is not a dataset to add to: it has no folder _stage2; choose another folder with -o"
    )]
    NoDataset(String),
    /// A dataset has what is to be added to it.
    #[error(
        "{root} has {what} already; to replace it, delete the files that {manifest} lists, and then that file"
    )]
    InDataset {
        /// The dataset.
        root: String,
        /// The run or the file.
        what: String,
        /// What lists its files.
        manifest: String,
    },
    /// The destination has less space than the export will take.
    #[error(
        "{path}: the export will take about {}, and its file system has {} free; export a part (--stage, --window), \
         choose another folder with -o, or write it anyway with --force",
        size(*needed),
        size(*free)
    )]
    NoSpace {
        /// The destination.
        path: String,
        /// What is needed.
        needed: u64,
        /// What is free.
        free: u64,
    },
    /// The destination cannot be written.
    #[error(
        "{path} cannot be written: {source}; nothing of the export is left; {}choose another path with -o",
        if [ErrorKind::StorageFull, ErrorKind::QuotaExceeded].contains(&source.kind()) {
            "free some space, or "
        } else {
            ""
        }
    )]
    Write {
        /// The destination.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

impl ExportError {
    /// Whether what was asked for is wrong, and not what was found or done.
    pub fn is_usage(&self) -> bool {
        use ExportError::{NoHostSamples, NoSpace, NoTraceFiles, Read, Write};
        !matches!(
            self,
            NoTraceFiles { .. } | NoHostSamples(_) | NoSpace { .. } | Read(_) | Write { .. }
        )
    }

    /// What turns an error of the system into one about `path`.
    pub fn write(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Write { path: visible_path(&path), source: without_its_name(source) }
    }
}
