//! Trace files -> their events one by one, with names, paths and one clock: what exports are made of.
//!
//! Two passes over each file. The first is the report's: who was traced, clocks, paths, and what is
//! damaged or missing. The second gives every event, under the names that reports use. Memory grows
//! with the names, paths and shapes, and with the windows of [`instances`](super::instances), not with
//! the kernels.

mod state;
mod wall_clock;

use std::path::Path;

use stage2_contract::text::KernelName;
use stage2_contract::trace::{
    Device, GpuNs, Losses, MonoNs, Payload, Process, Queue, ReadError, Shape,
};

use super::ProcessCapture;
use super::file::Trace;
use super::folder::load_folder_by_name;
use super::libraries::RangeNames;
use super::paths::{OUTSIDE, PathIndex, PathNode, UNATTRIBUTED, UNDEFINED};
use crate::path_label::{
    OUTSIDE_RANGES, UNATTRIBUTED_WORK, UNDEFINED_RANGE, WHOLE_PROCESS, element, shown, visible_name,
};
use stage2_model::{FileEnding, Finding, HostClock, Severity};
use state::State;
use wall_clock::WallClock;

/// The trace files of a folder.
#[derive(Debug)]
pub struct Traces {
    /// Those that can be read, at least in part, by name. Of copies there is one.
    pub files: Vec<TraceFile>,
    /// What is wrong with the folder and its files: all errors and warnings.
    pub problems: Vec<Finding>,
}

impl Traces {
    /// Reads the trace files of `folder` for the first time. Ranges of the domains in `libraries` are
    /// never around a range of the program, as in reports.
    pub fn read(folder: &Path, libraries: &RangeNames) -> Self {
        let capture = load_folder_by_name(folder, libraries);
        let serious = |finding: &Finding| finding.severity != Severity::Note;
        let problems = capture.findings.into_iter().filter(serious).collect();
        let mut files: Vec<TraceFile> = Vec::new();
        for capture in capture.processes {
            let own = WallClock::ahead(capture.wall_ahead_ns.unwrap_or(0));
            let mut file = TraceFile { capture, libraries: libraries.clone(), clock: own };
            // Processes of one host share its monotonic clock: with one offset they stay aligned.
            let same = files
                .iter()
                .find(|other| file.host_name().is_some_and(|host| other.host_name() == Some(host)));
            if let Some(clock) = same.map(|other| other.clock.clone()) {
                file.clock = clock;
            }
            files.push(file);
        }
        Self { files, problems }
    }

    /// Puts the times of each host in `clocks` on the clock of the run.
    pub fn correct(&mut self, clocks: &[HostClock]) {
        for file in &mut self.files {
            // A report holds visible text.
            let host = file.host_name().map(|host| stage2_contract::text::visible(host.as_bytes()));
            let of_host = clocks.iter().find(|of| host.as_deref() == Some(of.host.as_str()));
            if let Some(clock) = of_host {
                file.clock = WallClock::corrected(clock);
            }
        }
    }
}

/// A trace file, and what holds for all of it.
#[derive(Debug)]
pub struct TraceFile {
    capture: ProcessCapture,
    libraries: RangeNames,
    clock: WallClock,
}

/// A time span on the wall clock, ns since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub start_ns: i64,
    /// End; never before the start.
    pub end_ns: i64,
}

impl Span {
    /// Length, ns.
    pub fn ns(self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Something that happened in the traced process.
#[derive(Debug)]
pub enum Event<'a> {
    /// GPU work ran.
    Work(Work<'a>),
    /// A range closed, so that all of it is known. One that never closed ends with the file. It comes
    /// after the ranges in it, but before those of them that opened in the same nanosecond.
    Range(Range<'a>),
    /// An NVTX mark.
    Mark {
        /// When, ns since the Unix epoch.
        at_ns: i64,
        /// The thread that set it.
        thread: Thread<'a>,
        /// Its text.
        name: &'a str,
        /// Its value.
        payload: Option<Payload>,
    },
}

/// A typed value of a range.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(Payload),
    /// A text.
    Text(String),
}

/// GPU work.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// What ran.
    pub what: What<'a>,
    /// When; nothing where CUPTI could not take the times.
    pub span: Option<Span>,
    /// Where it was queued. Zeros where the file does not say.
    pub queue: Queue,
    /// The ranges that were open on the launching thread.
    pub path: &'a RangePath,
    /// The innermost of them: an identifier of this process; [`RANGE_OUTSIDE`](stage2_contract::trace::RANGE_OUTSIDE) and
    /// [`RANGE_UNKNOWN`](stage2_contract::trace::RANGE_UNKNOWN) as in the trace file.
    pub range: u64,
    /// CUPTI's correlation id. All work of one graph launch has the same.
    pub correlation: u64,
    /// Node of the CUDA graph; 0 for a plain launch.
    pub graph_node: u64,
}

/// Kinds of GPU work.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// A kernel, its launch configuration and its name.
    Kernel(&'a Shape, &'a KernelName),
    /// A copy.
    Copy {
        /// Bytes.
        bytes: u64,
        /// `CUpti_ActivityMemcpyKind`.
        kind: u8,
    },
    /// A fill.
    Fill {
        /// Bytes.
        bytes: u64,
    },
    /// A CUDA graph that was recorded as a whole.
    Graph {
        /// CUPTI's id of the executable graph.
        graph: u32,
    },
}

/// Ranges around something, as reports show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangePath {
    /// Range names from the outside in.
    pub elements: Vec<String>,
    /// The elements joined by `/`, as `kernels.csv` has it.
    pub label: String,
}

impl RangePath {
    /// The outermost range: the stage.
    pub fn stage(&self) -> &str {
        self.elements.first().map_or("", String::as_str)
    }
}

/// A range instance.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// Identifier within the process; grows with each opening.
    pub id: u64,
    /// The range that it was opened in; 0: in none.
    pub parent: u64,
    /// It is not a new instance: a range around another one closed first, so that this one goes on
    /// under another path.
    pub continues: bool,
    /// Its own name.
    pub name: &'a str,
    /// Its NVTX domain; empty for the default one.
    pub domain: &'a str,
    /// It and the ranges around it, as reports show them.
    pub path: &'a RangePath,
    /// The thread that opened it.
    pub thread: Thread<'a>,
    /// A start/end range: it may overlap others of its thread.
    pub start_end: bool,
    /// NVTX category; 0 is none.
    pub category: u32,
    /// NVTX payload.
    pub payload: Option<Payload>,
    /// Typed values that the program or a library gave to it, by name.
    pub fields: &'a [(String, Value)],
    /// When it was open.
    pub span: Span,
}

/// A thread of the traced process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'a> {
    /// The operating system's thread id; 0: not known.
    pub os_tid: u32,
    /// The name that the thread gave itself; may be empty.
    pub name: &'a str,
}

/// CUPTI gives 0 where it could not take the times.
fn is_timed(start: GpuNs, end: GpuNs) -> bool {
    start.0 != 0 && end >= start
}

/// All paths, by index, as reports name them.
pub fn labels(capture: &ProcessCapture) -> Vec<RangePath> {
    let ProcessCapture { paths, names, whole, .. } = capture;
    let bytes = |name: Option<u32>| name.and_then(|i| names.get(i as usize)).map(Vec::as_slice);
    let whole = whole.as_ref().map(|whole| whole.path);
    let own = |index: PathIndex, node: &PathNode| match index {
        _ if whole == Some(index) => WHOLE_PROCESS.to_owned(),
        OUTSIDE => OUTSIDE_RANGES.to_owned(),
        UNATTRIBUTED => UNATTRIBUTED_WORK.to_owned(),
        UNDEFINED => UNDEFINED_RANGE.to_owned(),
        _ => {
            let domain = node.domain.map(|domain| visible_name(bytes(Some(domain))));
            element(&visible_name(bytes(node.name)), domain.as_deref())
        }
    };
    let elements: Vec<String> = (0..).zip(paths).map(|(index, node)| own(index, node)).collect();
    let element_of = |index: PathIndex| elements.get(index as usize).cloned();
    let mut depths: Vec<u64> = Vec::with_capacity(paths.len());
    let mut labels = Vec::with_capacity(paths.len());
    for (index, node) in (0..).zip(paths) {
        let depth = node.parent.and_then(|p| depths.get(p as usize)).map_or(0, |d| d + 1);
        depths.push(depth);
        let parent = |index: &PathIndex| paths.get(*index as usize).and_then(|node| node.parent);
        let around = std::iter::successors(Some(index), parent).filter_map(element_of);
        let elements = shown(around, depth, element_of(node.top));
        labels.push(RangePath { label: elements.join("/"), elements });
    }
    labels
}

impl TraceFile {
    /// A file that was read for the first time already.
    pub fn of(capture: ProcessCapture, libraries: &RangeNames) -> Self {
        let clock = WallClock::ahead(capture.wall_ahead_ns.unwrap_or(0));
        Self { capture, libraries: libraries.clone(), clock }
    }

    /// Its name, without its folder and without the ending of compression.
    pub fn name(&self) -> &str {
        &self.capture.file
    }

    /// Who was traced; nothing where the file does not say.
    pub fn process(&self) -> Option<&Process> {
        self.capture.process.as_ref()
    }

    /// Devices as the process numbers them.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.capture.devices.iter().filter_map(|entry| entry.device.as_ref())
    }

    /// From the first to the last event; nothing in an empty file.
    pub fn span(&self) -> Option<Span> {
        let host = self.capture.host_extent.0;
        let host = host.map(|(first, last)| (self.host(MonoNs(first)), self.host(MonoNs(last))));
        let gpu = self.capture.gpu_extent.0;
        let gpu = gpu.and_then(|(a, b)| Some((self.gpu(GpuNs(a))?, self.gpu(GpuNs(b))?)));
        let all = host.into_iter().chain(gpu).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        all.map(|(start_ns, end_ns)| Span { start_ns, end_ns })
    }

    /// What is missing from the file, in a few words each; empty: nothing.
    pub fn missing(&self) -> Vec<String> {
        let Losses {
            cupti_dropped,
            buffers_refused,
            range_events,
            unattributed,
            invalid_timestamps,
            unreadable_records,
            spool_bytes_unwritten,
            late_switches,
            beyond_limits,
            calls_turned_away,
            ..
        } = self.capture.losses;
        let state = &self.capture.state;
        let counts = [
            (cupti_dropped, "activity records dropped by CUPTI"),
            (buffers_refused, "activity buffers refused"),
            (unreadable_records, "activity records unreadable"),
            (range_events, "range events lost"),
            (unattributed, "GPU records unattributed"),
            (invalid_timestamps, "GPU records without valid times"),
            (spool_bytes_unwritten, "bytes not written"),
            (late_switches, "ranges that opened before collection was on"),
            (beyond_limits, "entries beyond the limits of the collector's tables"),
            (calls_turned_away, "NVTX calls turned away"),
            (state.corrupt_frames, "damaged frames"),
            (state.torn_bytes, "bytes at a torn end"),
        ];
        let lost = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{what}: {n}"));
        let ending = match state.ending {
            FileEnding::Complete => None,
            FileEnding::Open => Some("the process was killed, or still runs"),
            FileEnding::Torn => Some("the file is cut short"),
            FileEnding::Unreadable => Some("the file cannot be read to its end"),
        };
        ending.map(str::to_owned).into_iter().chain(lost).collect()
    }

    /// The share of range instances that was recorded (`1/N`), where it was not all of them.
    pub fn sample(&self) -> Option<&str> {
        self.capture.sample()
    }

    fn host(&self, at: MonoNs) -> i64 {
        self.clock.at(at)
    }

    fn host_name(&self) -> Option<&str> {
        self.process().map(|process| process.host.as_str())
    }

    /// Nothing where no clock reading ties the clock of the GPU to that of the host.
    fn gpu(&self, at: GpuNs) -> Option<i64> {
        self.capture.clock.mono(at).map(|mono| self.host(mono))
    }

    /// Gives every event to `each`, in the order of the file: GPU work comes after the ranges that
    /// it was launched in, and is not sorted by time.
    ///
    /// What is behind damage that ends the file is left out; [`missing`](Self::missing) says so.
    ///
    /// # Errors
    /// The first error of `each`, and a file that is no longer there.
    pub fn for_each<E: From<ReadError>>(
        &self,
        mut each: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = State::new(self);
        // The first pass has met the same error.
        for record in Trace::open(&self.capture.path)?.map_while(Result::ok) {
            state.take(record, &mut each)?;
        }
        state.close_all(&mut each)
    }
}
