//! A SQLite export -> the records that the collector would have written of the same run, tallied as
//! its own are: range paths, percentiles, busy times, by the same definitions.
//!
//! [`work`] reads the GPU work and finds its launches, [`rows`] reads the ranges on its own
//! thread, [`walk`] goes through them in the order of time and places each launch, and [`process`] hands
//! the records of each process to its [`Tally`](crate::trace::Tally). Ranges are streamed and never held, so that memory grows with the
//! GPU work (40 bytes each), the distinct paths and the groups. Rows of ranges that do not come by
//! their start are sorted by SQLite, in a temporary file.

mod limits;
mod process;
mod rows;
mod walk;
pub(super) mod work;

use std::path::Path;

use super::database::Database;
use crate::trace::libraries::RangeNames;
use crate::trace::{Capture, ProcessCapture};
pub(super) use limits::LeftOut;
pub use limits::Limits;
pub use process::STEPS_IN_PROCESSES;
use process::{Domains, MAX_PROCESSES, Processes};
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};
use stage2_model::nsys::Unplaced;
use walk::{Stopped, Walk, Walked};
use work::Work;

/// Zero of the file's clock on the clock of the records, ns: times before the session are possible,
/// and records know no negative ones.
pub const ZERO_NS: i64 = 1 << 62;

/// What an export of nsys holds.
#[derive(Debug)]
pub struct Export {
    /// One capture for each process; times are [`ZERO_NS`] later than in the file.
    pub capture: Capture,
    /// Registers, shared and local memory are known of every kernel.
    pub launches_are_detailed: bool,
    /// What its shapes are, and what was counted of all tables.
    pub(super) work: Work,
    pub(super) left_out: LeftOut,
    pub(super) ranges_unusable: bool,
}

impl Export {
    /// Why GPU work of it is in no range, where that is because its launches are missing.
    pub fn unplaced(&self) -> Option<Unplaced> {
        let unknown = |process: &ProcessCapture| process.counts.unattributed > 0;
        let any = self.capture.processes.iter().any(unknown);
        match self.work.counts.api_calls {
            0 if any => Some(Unplaced::NoCalls),
            _ => any.then_some(Unplaced::SomeCalls),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Whole paths, those of libraries included.
    All,
    /// The outermost ranges of the user on each thread.
    Outermost,
}

/// Reads an export with whole paths. Its findings are in those of [`super::sqlite`], too, except for
/// what concerns nested ranges.
pub fn read(path: &Path, libraries: &RangeNames) -> Result<Export, Finding> {
    read_within(path, libraries, Limits::default())
}

/// Reads an export with whole paths, and holds no more of it than `limits`.
pub fn read_within(path: &Path, libraries: &RangeNames, limits: Limits) -> Result<Export, Finding> {
    let database = Database::of_export(path)?;
    Ok(tally(path, &database, libraries, limits, Depth::All))
}

/// Reads an export; `database` is the file at `path`. Where a limit stops the walk through nested
/// ranges, only outermost ones count.
pub(super) fn tally(
    path: &Path,
    database: &Database,
    libraries: &RangeNames,
    limits: Limits,
    mut depth: Depth,
) -> Export {
    let mut work = Work::read(database, limits);
    let mut findings = Vec::new();
    let mut sorted = Some(false);
    let walked = loop {
        let domains = Domains::read(database, libraries);
        let processes = Processes::new(domains, libraries.clone());
        let nested = depth == Depth::All;
        match Walk::new(&work, processes, limits, nested).run(path, database, sorted) {
            Ok(walked) => break walked,
            Err(Stopped::Disorder) if sorted == Some(false) => sorted = Some(true),
            Err(Stopped::TooMany(why)) if nested => {
                depth = Depth::Outermost;
                findings.push(outermost_only(path, &why));
            }
            Err(stopped) => {
                sorted = None;
                findings.push(unusable(path, stopped));
            }
        }
    };
    // It is the largest table, and the tallies grow once more when they end.
    work.forget_launches();
    let Walked { processes, names_cut, mut left_out, counts, rest_missing } = walked;
    if names_cut > 0 && depth == Depth::All {
        let what = format!("{names_cut} names of ranges in {} were cut", path.display());
        let why = format!("they are longer than {} bytes", walk::TEXT_LIMIT);
        findings.push(Id::NsysNamesCut.found(what, why, ""));
    }
    left_out.add(work.left_out);
    left_out.domains = processes.domains.left_out;
    findings.extend(left_out.findings(path, limits));
    if processes.too_many {
        let what = format!("processes of {} are taken together", path.display());
        let why = format!("there are more than {MAX_PROCESSES}");
        findings.push(Id::NsysBeyondLimits.found(what, why, "capture fewer at a time"));
    }
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let processes = processes.finish(&file.unwrap_or_default());
    findings.extend(steps_left_out(path, &processes));
    work.counts.nvtx_ranges = counts.nvtx_ranges;
    work.counts.cross_thread_ranges = counts.cross_thread_ranges;
    work.counts.odd_rows = counts.odd_rows;
    work.cut_tables.extend(rest_missing.map(|why| (work::NVTX_EVENTS, why)));
    Export {
        capture: Capture { processes, findings, ..Capture::default() },
        launches_are_detailed: !work.not_detailed,
        work,
        left_out,
        ranges_unusable: sorted.is_none(),
    }
}

fn outermost_only(path: &Path, why: &str) -> Finding {
    let path = path.display();
    Id::NsysBeyondLimits.found(
        format!("kernels of {path} are placed in the outermost ranges of their threads"),
        format!("{why}; ranges within others, and those of libraries, are in no table"),
        "open fewer kinds of ranges, or capture a shorter part (profiling/nsys=nsys.gated)",
    )
}

fn steps_left_out(path: &Path, processes: &[ProcessCapture]) -> Option<Finding> {
    let wholes = processes.iter().filter_map(|process| process.whole.as_ref());
    let count = wholes.filter(|whole| whole.steps_left_out).count();
    let what = format!("the search for steps skipped {count} processes of {}", path.display());
    let why = format!(
        "they open no range, and only the first {STEPS_IN_PROCESSES} processes are searched for repeating kernels"
    );
    let remedy = "capture fewer processes at a time, or open a range around each step";
    (count > 0).then(|| Id::NsysBeyondLimits.graded(Severity::Note, what, why, remedy))
}

fn unusable(path: &Path, stopped: Stopped) -> Finding {
    let what = format!("the ranges of {} cannot be used", path.display());
    let why = match stopped {
        Stopped::Unreadable(why) => format!("its ranges {why}"),
        Stopped::Disorder => "its ranges cannot be brought into the order of time".to_owned(),
        Stopped::TooMany(why) => why,
    };
    let why = format!("{why}; its kernels are in no range");
    let remedy = "make space in the folder for temporary files (SQLITE_TMPDIR), or export again";
    Id::NsysUnreadable.found(what, why, remedy)
}
