//! What was recorded, what is missing, and what that means in one line.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stage2_contract::order::{IntoOrdered as _, Order as _};

/// Coverage of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coverage {
    /// All of it in one line.
    pub verdict: Verdict,
    /// Why there is no GPU work, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<Empty>,
    /// Over all processes.
    pub total: CoverageCounts,
    /// Trace files that could not be read at all.
    pub files_refused: u64,
    /// Each process.
    pub processes: Vec<ProcessCoverage>,
}

/// Share of missing records from which the verdict states it, percent: missing kernels look like idle time.
pub const MISSING_PERCENT: f64 = 5.0;
/// Share of missing records from which the first thing to do is to lose fewer, percent.
pub const TOO_MANY_MISSING_PERCENT: f64 = 20.0;

impl Coverage {
    /// Records of GPU work, over all processes.
    pub fn gpu_records(&self) -> u64 {
        let CoverageCounts { kernels, copies, fills, graph_launches, .. } = self.total;
        [kernels, copies, fills, graph_launches].into_iter().fold(0, u64::saturating_add)
    }

    /// Share of the records that CUPTI is known to have dropped, percent.
    pub fn dropped_percent(&self) -> f64 {
        let dropped = self.total.dropped_by_cupti;
        let all = dropped.saturating_add(self.gpu_records());
        dropped as f64 * 100.0 / all.max(1) as f64
    }

    /// `43 % of the GPU records are missing`, where so many are that no time can be read without it.
    pub fn missing_clause(&self) -> Option<String> {
        let percent = self.dropped_percent();
        (percent >= MISSING_PERCENT)
            .then(|| format!("{percent:.0} % of the GPU records are missing"))
    }

    /// Processes that these files are of, those alone that `is_meant` by their names: each window of a process has a file.
    pub fn processes_of(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        let files = self.processes.iter().filter(|process| is_meant(&process.file));
        files.map(ProcessCoverage::who).into_set().len()
    }

    /// The ranges that GPU work was collected in, where some process did not collect it everywhere.
    pub fn ranges(&self) -> Option<String> {
        let has_filter = |process: &&ProcessCoverage| process.meta.contains_key(META_RANGES);
        let filters = self.processes.iter().filter_map(|process| process.meta.get(META_RANGES));
        let distinct: BTreeSet<&str> = filters.map(String::as_str).into_set();
        let all: BTreeSet<_> = self.processes.iter().map(ProcessCoverage::who).into_set();
        let some: BTreeSet<_> =
            self.processes.iter().filter(has_filter).map(ProcessCoverage::who).into_set();
        let files = self.processes.iter().filter(has_filter).count();
        let of = match (some.len(), all.len()) {
            (0, _) => return None,
            _ if files == self.processes.len() => String::new(),
            (some, all) if some == all => {
                format!(" (in {files} of {} windows)", self.processes.len())
            }
            (some, all) => format!(" (in {some} of {all} processes)"),
        };
        let filters: Vec<&str> = distinct.into_iter().collect();
        Some(format!("ranges that match {}{of}", filters.join(" or ")))
    }
}

/// Whether the capture can be believed as a whole.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    /// Everything that CUPTI delivered is timed and placed, and as far as known the workload ended well.
    Complete,
    /// Something is missing, or the workload ended early.
    Partial,
    /// No GPU work was recorded.
    #[default]
    Empty,
}

/// The coverage in plain language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// In one word.
    pub status: Status,
    /// In one line.
    pub text: String,
}

/// Coverage of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessCoverage {
    /// Its trace file.
    pub file: String,
    /// Process id, in its own namespace.
    pub pid: Option<u32>,
    /// Process id of its parent.
    pub ppid: Option<u32>,
    /// Host name.
    pub host: Option<String>,
    /// Path of the executable.
    pub exe: Option<String>,
    /// Arguments of the process.
    pub argv: Option<Vec<String>>,
    /// Version of the collector.
    pub collector: Option<String>,
    /// Whether its GPU was simulated.
    pub simulated: bool,
    /// Why GPU collection was off, if it was.
    pub gpu_off: Option<String>,
    /// How the file ends.
    pub ending: FileEnding,
    /// Why the capture ended, if it ended in order.
    pub end_reason: Option<String>,
    /// Clock readings in the file.
    pub anchors: u64,
    /// Facts about the capture.
    pub meta: BTreeMap<String, String>,
    /// What of the file could not be used.
    pub file_state: FileState,
    /// Uses of identifiers that nothing in the file defines.
    pub undefined: Undefined,
    /// The counts.
    pub counts: CoverageCounts,
}

impl ProcessCoverage {
    /// The process: its host and number where they are known; else its file.
    fn who(&self) -> (Option<&str>, Option<u32>, &str) {
        let file = if self.pid.is_some() { "" } else { &self.file };
        (self.host.as_deref(), self.pid, file)
    }

    /// Whether its GPU work was recorded in some ranges, or instances of them, only.
    pub fn is_in_part(&self) -> bool {
        [META_RANGES, META_SAMPLE].iter().any(|&key| self.meta.contains_key(key))
    }
}

/// What left a run without GPU work. The most specific cause comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EmptyCause {
    /// The workload could not be started.
    NotStarted,
    /// The workload failed by itself.
    WorkloadFailed,
    /// The workload was a run of stage2-launch itself, which has the records.
    InnerRun,
    /// Processes that the workload left behind still run.
    StillRunning,
    /// Summaries were asked for, and no records of GPU work.
    SummaryAlone,
    /// The collector was not loaded into the workload: a static program, another libc, ...
    CollectorNotLoaded,
    /// There are trace files, and none of them can be read.
    FilesUnreadable,
    /// The workload used CUDA, but the collector could not record it.
    CuptiOff,
    /// Child processes could not be recorded.
    ChildrenNotRecorded,
    /// GPU work was asked for in some ranges only, and none of them opened.
    RangesNeverOpened,
    /// The workload was killed before GPU work reached the trace file.
    Killed,
    /// The machine has no GPU that CUDA can use.
    NoGpu,
    /// The workload opened NVTX ranges, but never initialised CUDA.
    CudaNeverInitialised,
    /// No process of the workload used CUDA or NVTX, or none loaded the collector.
    NothingUsed,
    /// CUDA was initialised and recorded, but nothing was launched.
    NothingLaunched,
    /// The captures that were merged hold no GPU work.
    CapturesEmpty,
}

/// A cause with its explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmptyReason {
    /// Which it is.
    pub cause: EmptyCause,
    /// What happened, in one sentence without a full stop.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

/// Why no GPU work was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Empty {
    /// The most specific cause.
    #[serde(flatten)]
    pub first: EmptyReason,
    /// What holds as well, in the order of [`EmptyCause`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<EmptyReason>,
}

impl Empty {
    /// The causes with the most specific one first; none where there is none.
    pub fn of(mut reasons: Vec<EmptyReason>) -> Option<Empty> {
        reasons.order_by_key(|reason| reason.cause);
        let mut reasons = reasons.into_iter();
        Some(Empty { first: reasons.next()?, also: reasons.collect() })
    }
}

/// Key under which a collector states which share of the range instances it records.
pub const META_SAMPLE: &str = "sample";

/// Key under which a collector states which ranges it records GPU work in, and nowhere else.
pub const META_RANGES: &str = "ranges";

/// How a file ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileEnding {
    /// With the collector's last record.
    Complete,
    /// After a whole frame, but without the last record: killed, or still running.
    #[default]
    Open,
    /// Within a frame: killed while writing, disk full, or damaged.
    Torn,
    /// Reading failed on the way.
    Unreadable,
}

/// How a file ends, and what of it could not be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileState {
    /// How the file ends.
    pub ending: FileEnding,
    /// Bytes behind the last whole frame.
    pub torn_bytes: u64,
    /// Frames that were damaged.
    pub corrupt_frames: u64,
    /// Bytes of the damaged frames.
    pub corrupt_bytes: u64,
    /// Frames and records of a kind that this version does not know.
    pub unknown_records: u64,
}

/// Uses of identifiers that nothing in the file defines: records were lost, or the file is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Undefined {
    /// Undefined names of kernels, ranges and domains.
    pub names: u64,
    /// Undefined shapes of kernels.
    pub shapes: u64,
    /// Undefined queues of GPU work.
    pub queues: u64,
    /// Undefined paths of ranges.
    pub paths: u64,
    /// Ranges that GPU work names and that are not defined, or closed millions of ranges before;
    /// that work is counted as unattributed.
    pub ranges: u64,
}

impl Undefined {
    /// All uses.
    pub fn total(&self) -> u64 {
        let Self { names, shapes, queues, paths, ranges } = *self;
        [names, shapes, queues, paths, ranges].into_iter().fold(0, u64::saturating_add)
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident: $label:literal,)*) => {
        /// Counts of what was recorded and of what is missing.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        pub struct CoverageCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl CoverageCounts {
            /// Adds the counts of another process.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.saturating_add(other.$name);)*
            }

            /// Every count with a label for people.
            pub fn labelled(&self) -> Vec<(&'static str, u64)> {
                vec![$(($label, self.$name)),*]
            }
        }
    };
}

counts! {
    /// Kernel records.
    kernels: "kernels",
    /// Copy records.
    copies: "copies",
    /// Fill records.
    fills: "fills",
    /// Records of whole CUDA graphs.
    graph_launches: "graphs recorded as a whole, without their kernels",
    /// GPU records placed in a range.
    attributed: "GPU records in a range",
    /// GPU records launched while no range of the workload was open.
    outside_ranges: "GPU records outside of ranges",
    /// The part of `outside_ranges` that was launched in a range of a library (NCCL, cuBLAS, ...).
    in_library_ranges: "GPU records in ranges of libraries alone",
    /// GPU records whose launch could not be placed.
    unattributed: "GPU records unattributed",
    /// GPU records without valid timestamps: counted, not timed.
    invalid_timestamps: "GPU records without valid timestamps",
    /// Activity records that CUPTI dropped.
    dropped_by_cupti: "activity records dropped by CUPTI",
    /// Times that no activity buffer was free; what CUPTI dropped for it, it counts itself.
    buffers_refused: "activity buffers refused",
    /// NVTX events lost because the queue was full.
    range_events_lost: "range events lost",
    /// Records that CUPTI handed over incomplete, or that the collector does not read; estimated
    /// where only their bytes are known.
    unreadable_records: "unreadable records",
    /// Bytes that could not be written to the trace file.
    spool_bytes_unwritten: "trace bytes not written",
    /// Frames of the trace file that are damaged.
    corrupt_frames: "corrupt frames",
    /// Bytes behind the last whole frame of the trace file.
    torn_bytes: "torn bytes",
    /// Uses of identifiers that nothing in the file defines.
    undefined_identifiers: "undefined identifiers",
    /// Range instances.
    ranges: "range instances",
    /// NVTX marks.
    marks: "marks",
    /// Pops and ends that matched no open range.
    unbalanced_range_ends: "unbalanced range ends",
    /// Ranges still open when the capture ended.
    unclosed_ranges: "unclosed ranges",
    /// The workload's ranges (not those of libraries) still open when its process ended normally.
    open_at_end: "the workload's ranges open at its end",
    /// Ranges that contradict each other in the file.
    contradicting_ranges: "contradicting range records",
    /// Range names that were cut at the collector's length limit.
    names_cut: "range names cut",
    /// Intervals of GPU work that came too late to enter busy time exactly.
    late_intervals: "late intervals",
    /// Ranges that were to be collected, and opened before collection was on.
    late_switches: "ranges opened before collection was on",
    /// What came after the bounded tables of the collector were full.
    beyond_limits: "ranges or names beyond what is kept",
    /// NVTX calls from inside another one, or after the guest had jumped out of one.
    calls_turned_away: "NVTX calls not taken in",
    /// Rows folded away in the collector's own summary (not here).
    summary_rows_folded: "rows folded in the summary at exit",
}
