//! Trace files -> their events one by one, with names, paths and one clock: what exports are made of.
//!
//! Two passes over each file. The first is the report's: who was traced, clocks, paths, and what is
//! damaged or missing. The second gives every event, under the names that reports use. Memory grows
//! with the names, paths and shapes, and with the windows of [`Instances`], not with
//! the kernels.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use rustc_hash::FxHashMap;
use stage2_contract::text::{KernelName, kernel_name, visible};
use stage2_contract::trace as records;
use stage2_contract::trace::{
    Device, FieldValue, GpuNs, GpuWork, MonoNs, Payload, Process, Queue, RANGE_OUTSIDE,
    RANGE_UNKNOWN, RangeOpen, ReadError, Record, Shape,
};
use stage2_model::{ClockPoint, FileEnding, Finding, HostClock, Severity};

use super::ProcessCapture;
use super::alike::Alike;
use super::definitions::Definitions;
use super::engine_steps::{EndedStep, StepFollower};
use super::file::Trace;
use super::folder::load_folder_by_name;
use super::host_calls::call_name;
use super::host_events::HostEvents;
pub use super::host_events::{HostCall, HostSample};
pub use super::host_frames::{state_name, waits};
use super::libraries::RangeNames;
use super::paths::{OUTSIDE, PathIndex, PathNode, UNATTRIBUTED, UNDEFINED};
use super::placed::{Entry, Instances, NO_ROOT};
pub use super::requests::{Request, RequestSteps, Requests};
use super::stats::Work as Kind;
use super::tally::count;
use crate::engine::{StepKind, StepWork};
use crate::path_label::{
    OUTSIDE_RANGES, UNATTRIBUTED_WORK, UNDEFINED_KERNEL, UNDEFINED_RANGE, WHOLE_PROCESS, element,
    shown, visible_name,
};

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
        // Each range under its own name, as the engine gave it.
        let libraries = &libraries.clone().and_keeps_names();
        let capture = load_folder_by_name(folder, libraries);
        let serious = |finding: &Finding| finding.severity != Severity::Note;
        let problems = capture.findings.into_iter().filter(serious).collect();
        let mut files: Vec<TraceFile> = Vec::new();
        for capture in capture.processes {
            let mut file = TraceFile::of(capture, libraries);
            // Processes of one host share its monotonic clock: with one offset they stay aligned.
            let host = file.host_name().map(str::to_owned);
            let same =
                files.iter().find(|other| host.is_some() && other.host_name() == host.as_deref());
            if let Some(other) = same {
                file.clock = other.clock.clone();
            }
            files.push(file);
        }
        Self { files, problems }
    }

    /// Puts the times of each host in `clocks` on the clock of the run.
    pub fn correct(&mut self, clocks: &[HostClock]) {
        for file in &mut self.files {
            // A report holds visible text.
            let host = file.host_name().map(|host| visible(host.as_bytes()));
            if let Some(clock) = clocks.iter().find(|of| host.as_ref() == Some(&of.host)) {
                file.clock = WallClock::corrected(clock);
            }
        }
    }
}

/// A trace file, and what holds for all of it.
#[derive(Debug)]
pub struct TraceFile {
    pub(super) capture: ProcessCapture,
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

/// Work of one name under one path, or ranges of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The stage of the path.
    pub stage: String,
    /// It is the ranges; else it is GPU work.
    pub is_range: bool,
    /// How many; of a sample, scaled.
    pub count: u64,
    /// Bytes of the label of the path.
    pub path_bytes: usize,
    /// Bytes of the name of a kernel; 0 for other work.
    pub mangled_bytes: usize,
    /// Bytes of the demangled name of a kernel; 0 for other work.
    pub demangled_bytes: usize,
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
    /// A thread of the host was sampled.
    Sample(HostSample<'a>),
    /// A call of the driver that may wait was over.
    Call(HostCall<'a>),
    /// A step of an engine was over: another one of its thread began, or the file ends.
    Step(Step<'a>),
    /// A request of an engine ended. All requests come after all other events.
    Request {
        /// Its record.
        request: &'a Request,
        /// When it arrived, ns since the Unix epoch.
        arrived_ns: Option<i64>,
    },
}

/// A step of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// What it does.
    pub kind: StepKind,
    /// What it works on.
    pub work: StepWork,
    /// Its number, which requests refer to.
    pub number: Option<u64>,
    /// The thread that opened its range.
    pub thread: Thread<'a>,
    /// Its range: an identifier of this process.
    pub range: u64,
    /// The ranges around it, and its own.
    pub path: &'a RangePath,
    /// From its begin to the begin of the next step; to the end of its range where the next one only starts
    /// requests.
    pub span: Span,
    /// The end of its range, ns since the Unix epoch.
    pub range_end_ns: i64,
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
    /// The innermost of them: an identifier of this process; [`RANGE_OUTSIDE`] and
    /// [`RANGE_UNKNOWN`] as in the trace file.
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
        let ahead_ns = capture.wall_ahead_ns.unwrap_or(0);
        let clock = WallClock { ahead_ns, points: Vec::new() };
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
        let sampled = self.capture.host.as_ref().and_then(|host| host.extent.0);
        let host = self.capture.host_extent.0.into_iter().chain(sampled);
        let host = host.map(|(first, last)| (self.host(MonoNs(first)), self.host(MonoNs(last))));
        let gpu = self.capture.gpu_extent.0;
        let gpu = gpu.and_then(|(a, b)| Some((self.gpu(GpuNs(a))?, self.gpu(GpuNs(b))?)));
        let all = host.chain(gpu).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        all.map(|(start_ns, end_ns)| Span { start_ns, end_ns })
    }

    /// Kernels that it has, as far as it can be read.
    pub fn kernels(&self) -> u64 {
        self.capture.counts.kernels
    }

    /// What is missing from the file, in a few words each; empty: nothing.
    pub fn missing(&self) -> Vec<String> {
        let ProcessCapture { losses, state, requests, .. } = &self.capture;
        let counts = [
            (losses.cupti_dropped, "activity records dropped by CUPTI"),
            (losses.buffers_refused, "activity buffers refused"),
            (losses.unreadable_records, "activity records unreadable"),
            (losses.range_events, "range events lost"),
            (losses.unattributed, "GPU records unattributed"),
            (losses.invalid_timestamps, "GPU records without valid times"),
            (losses.spool_bytes_unwritten, "bytes not written"),
            (losses.late_switches, "ranges that opened before collection was on"),
            (losses.beyond_limits, "entries beyond the limits of the collector's tables"),
            (losses.calls_turned_away, "NVTX calls turned away"),
            (requests.others, "requests beyond those that are read one by one"),
            (state.corrupt_frames, "damaged frames"),
            (state.torn_bytes, "incomplete bytes at the end"),
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

    /// Stacks of the threads that launch while the GPU had nothing to do: the name of the stage, the stack as
    /// [`idle_stacks`](super::host::HostCapture::idle_stacks) has it, and the time, ns. Nothing where no sample
    /// was taken.
    pub fn idle_stacks(&self) -> Option<Vec<(String, Vec<String>, u64)>> {
        let host = self.capture.host.as_ref()?;
        let labels = labels(&self.capture);
        let stage = |path: PathIndex| {
            labels.get(path as usize).map_or_else(String::new, |label| label.stage().to_owned())
        };
        let found = host.idle_stacks(&self.capture.names).into_iter();
        Some(found.map(|(path, stack, ns)| (stage(path), stack, ns)).collect())
    }

    /// Requests of an engine that ended in the process.
    pub fn requests(&self) -> &Requests {
        &self.capture.requests
    }

    /// The share of range instances that was recorded (`1/N`), where it was not all of them.
    pub fn sample(&self) -> Option<&str> {
        self.capture.sample()
    }

    /// A time of the host on the wall clock, ns since the Unix epoch.
    pub(super) fn host(&self, at: MonoNs) -> i64 {
        self.clock.at(at)
    }

    fn host_name(&self) -> Option<&str> {
        self.process().map(|process| process.host.as_str())
    }

    /// Nothing where no clock reading ties the clock of the GPU to that of the host.
    fn gpu(&self, at: GpuNs) -> Option<i64> {
        self.capture.clock.mono(at).map(|mono| self.host(mono))
    }

    /// How often each kind of work ran, and ranges of each path were opened: what sizes can be estimated by,
    /// without reading the file again.
    pub fn amounts(&self) -> Vec<Amount> {
        let ProcessCapture { groups, names, shapes, path_times, .. } = &self.capture;
        let labels = labels(&self.capture);
        let path = |path: PathIndex| {
            let label = labels.get(path as usize);
            (
                label.map_or_else(String::new, |of| of.stage().to_owned()),
                label.map_or(0, |of| of.label.len()),
            )
        };
        let mut lengths: FxHashMap<u32, (usize, usize)> = FxHashMap::default();
        let mut amounts: FxHashMap<(PathIndex, Option<u32>, bool), u64> = FxHashMap::default();
        for (key, stats) in groups {
            let name = match key.work {
                Kind::Kernel(shape) => shapes.get(shape as usize).and_then(|of| of.name),
                _ => None,
            };
            if let Some(name) = name {
                lengths.entry(name).or_insert_with(|| {
                    let name = names.get(name as usize).map_or(&[][..], Vec::as_slice);
                    let name = kernel_name(name);
                    (name.mangled.len(), name.demangled.len())
                });
            }
            *amounts.entry((key.path, name, false)).or_default() += stats.calls;
        }
        for (&path, times) in path_times {
            *amounts.entry((path, None, true)).or_default() += times.instances;
        }
        let amount = |((of, name, is_range), count): ((PathIndex, Option<u32>, bool), u64)| {
            let (stage, path_bytes) = path(of);
            let lengths = name.and_then(|name| lengths.get(&name).copied());
            let (mangled_bytes, demangled_bytes) = lengths.unwrap_or_default();
            Amount { stage, is_range, count, path_bytes, mangled_bytes, demangled_bytes }
        };
        amounts.into_iter().map(amount).collect()
    }

    /// Samples of the host's threads.
    pub fn sample_count(&self) -> u64 {
        self.capture.host.as_ref().map_or(0, |host| host.samples)
    }

    /// Gives every event to `each`, in the order of the file: GPU work comes after the ranges that
    /// it was launched in, and is not sorted by time.
    ///
    /// What is behind damage that ends the file is left out; [`missing`](Self::missing) reports it.
    ///
    /// # Errors
    /// The first error of `each`, and a file that is no longer there.
    pub fn for_each<E: From<ReadError>>(
        &self,
        mut each: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = State::new(self);
        let marks = self.capture.marks.as_ref();
        // The first pass has met the same error.
        for record in Trace::open(&self.capture.path)?.marked(marks).map_while(Result::ok) {
            state.take(record, &mut each)?;
        }
        state.close_all(&mut each)
    }
}

struct State<'f> {
    file: &'f TraceFile,
    definitions: Definitions,
    /// Strings by the index of their name.
    texts: Vec<String>,
    kernels: FxHashMap<u32, KernelName>,
    threads: FxHashMap<u32, (u32, String)>,
    queues: FxHashMap<u32, Queue>,
    /// Shapes, and the index of their kernel's name.
    shapes: FxHashMap<u32, (Shape, Option<u32>)>,
    unknown_shape: Shape,
    unknown_name: KernelName,
    labels: Vec<RangePath>,
    instances: Instances,
    open: BTreeMap<u64, OpenRange>,
    /// Open ranges that go on under another identifier.
    continued: FxHashMap<u64, u64>,
    last_ns: i64,
    engine: StepFollower,
    host: HostEvents<'f>,
}

struct OpenRange {
    record: RangeOpen,
    path: PathIndex,
    fields: Vec<(String, Value)>,
    /// Ranges in it that opened in the same nanosecond, and when they closed. They come after it:
    /// by their times alone, nobody could tell which one is around the other.
    held: VecDeque<(OpenRange, i64)>,
}

/// Closed ranges that one open range holds back: of more, all in the same nanosecond, the order is
/// not worth the memory.
const HELD: usize = 1 << 12;

impl<'f> State<'f> {
    fn new(file: &'f TraceFile) -> Self {
        Self {
            file,
            definitions: Definitions::new(
                file.libraries.clone(),
                Alike::of(file.capture.joined.clone()),
            ),
            texts: Vec::new(),
            kernels: FxHashMap::default(),
            threads: FxHashMap::default(),
            queues: FxHashMap::default(),
            shapes: FxHashMap::default(),
            unknown_shape: Shape::default(),
            unknown_name: kernel_name(UNDEFINED_KERNEL.as_bytes()),
            labels: labels(&file.capture),
            instances: Instances::default(),
            open: BTreeMap::new(),
            continued: FxHashMap::default(),
            last_ns: i64::MIN,
            engine: StepFollower::default(),
            host: HostEvents::of(file),
        }
    }

    fn take<E>(
        &mut self,
        record: Record,
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match record {
            Record::Work(work) => each(Event::Work(self.work(&work))),
            Record::RangeOpen(record) => {
                let path = self.definitions.paths.find(record.path).unwrap_or(UNDEFINED);
                self.instances.insert(record.range, Entry { path, root: NO_ROOT });
                if record.continues == 0 && self.definitions.tells_steps(record.path) {
                    let work = self.definitions.work(record.path);
                    self.engine.open(record.range, record.thread, record.start.0, work);
                }
                let at_ns = self.file.host(record.start);
                self.last_ns = self.last_ns.max(at_ns);
                let before = self.open.remove(&record.continues);
                if before.is_some() {
                    self.continued.insert(record.continues, record.range);
                }
                let (fields, held) = (Vec::new(), VecDeque::new());
                self.open.insert(record.range, OpenRange { record, path, fields, held });
                before.map_or(Ok(()), |before| self.close(before, at_ns, each))
            }
            Record::RangeClose { range, end } => {
                self.engine.close(range, end.0);
                if let Some(ended) = self.engine.take_ended() {
                    each(Event::Step(self.step(&ended)))?;
                }
                let range = self.continued.remove(&range).unwrap_or(range);
                let Some(open) = self.open.remove(&range) else { return Ok(()) };
                let end_ns = self.file.host(end);
                self.last_ns = self.last_ns.max(end_ns);
                self.close(open, end_ns, each)
            }
            Record::RangeFields { range, fields } => {
                let names = &self.definitions.names;
                let counts =
                    fields.iter().filter_map(|f| Some((names.find(f.name)?, count(f.value)?)));
                let counts = counts.filter_map(|(name, value)| Some((names.get(name)?, value)));
                self.engine.fields(range, counts);
                let value = |value| match value {
                    FieldValue::U64(value) => Value::Number(Payload::U64(value)),
                    FieldValue::I64(value) => Value::Number(Payload::I64(value)),
                    FieldValue::F64(value) => Value::Number(Payload::F64(value)),
                    FieldValue::Name(id) => Value::Text(self.text(id).to_owned()),
                };
                let fields: Vec<_> =
                    fields.iter().map(|f| (self.text(f.name).to_owned(), value(f.value))).collect();
                if let Some(open) = self.open.get_mut(&range) {
                    // Of two values of a name the later one holds.
                    open.fields.retain(|(name, _)| fields.iter().all(|(other, _)| other != name));
                    open.fields.extend(fields);
                }
                Ok(())
            }
            Record::Mark(mark) => each(Event::Mark {
                at_ns: self.file.host(mark.at),
                thread: self.thread(mark.thread),
                name: self.text(mark.name),
                payload: mark.payload,
            }),
            Record::HostSamples(samples) => self.host.samples(&samples, each),
            Record::HostCalls(calls) => calls.iter().try_for_each(|call| {
                let names = &self.definitions.names;
                let name = names.find(call.name).and_then(|name| names.get(name));
                self.host.call(call, call_name(name), each)
            }),
            other => {
                self.define(other);
                Ok(())
            }
        }
    }

    fn step(&self, ended: &EndedStep) -> Step<'_> {
        let path = self.instances.get(ended.range).map_or(UNDEFINED, |entry| entry.path);
        let start_ns = self.file.host(MonoNs(ended.start));
        Step {
            kind: ended.work.kind(),
            work: ended.work,
            number: ended.number,
            thread: self.host.named(ended.thread).unwrap_or_else(|| self.thread(ended.thread)),
            range: ended.range,
            path: self.path(path),
            span: Span { start_ns, end_ns: self.file.host(MonoNs(ended.until)).max(start_ns) },
            range_end_ns: self.file.host(MonoNs(ended.range_end)).max(start_ns),
        }
    }

    fn define(&mut self, record: Record) {
        match record {
            Record::Name { id, bytes } => {
                let text = visible(&bytes);
                let index = self.definitions.name(id, bytes);
                if index as usize == self.texts.len() {
                    self.texts.push(text);
                }
            }
            Record::Thread { id, os_tid, name } => {
                self.threads.insert(id, (os_tid, visible(&name)));
            }
            Record::Queue(queue) => drop(self.queues.insert(queue.id, queue)),
            Record::Shape(shape) => {
                let index = self.definitions.names.find(shape.name);
                let bytes = index.and_then(|i| self.file.capture.names.get(i as usize));
                if let (Some(index), Some(bytes)) = (index, bytes) {
                    self.kernels.entry(index).or_insert_with(|| kernel_name(bytes));
                }
                self.shapes.insert(shape.id, (shape, index));
            }
            Record::Path(path) => {
                let stand_in = self.definitions.path(&path).stand_in;
                let text = stand_in.filter(|&index| index as usize == self.texts.len());
                self.texts
                    .extend(text.and_then(|index| self.definitions.names.get(index)).map(visible));
            }
            _ => {}
        }
    }

    fn work(&self, work: &GpuWork) -> Work<'_> {
        let span = || {
            let start_ns = self.file.gpu(work.start)?;
            // The two clocks may drift. Lengths are the GPU's, so that sums equal the reports'.
            let length_ns = i64::try_from(work.end.since(work.start)).unwrap_or(i64::MAX);
            Some(Span { start_ns, end_ns: start_ns.saturating_add(length_ns) })
        };
        let path = match work.range {
            RANGE_OUTSIDE => OUTSIDE,
            RANGE_UNKNOWN => UNATTRIBUTED,
            // What is open stays known however old it is.
            id => self.instances.get(id).map_or_else(
                || self.open.get(&id).map_or(UNATTRIBUTED, |open| open.path),
                |entry| entry.path,
            ),
        };
        let what = match work.what {
            records::What::Kernel { shape } => {
                let known = self.shapes.get(&shape);
                let name = known.and_then(|(_, name)| self.kernels.get(&(*name)?));
                let shape = known.map_or(&self.unknown_shape, |(shape, _)| shape);
                What::Kernel(shape, name.unwrap_or(&self.unknown_name))
            }
            records::What::Copy { bytes, kind } => What::Copy { bytes, kind },
            records::What::Fill { bytes } => What::Fill { bytes },
            records::What::Graph { graph } => What::Graph { graph },
        };
        Work {
            what,
            // CUPTI gives 0 where it could not take the times.
            span: (work.start.0 != 0 && work.end >= work.start).then(span).flatten(),
            queue: self.queues.get(&work.queue).copied().unwrap_or_default(),
            path: self.path(path),
            range: work.range,
            correlation: work.correlation,
            graph_node: work.graph_node,
        }
    }

    fn path(&self, index: PathIndex) -> &RangePath {
        let found = self.labels.get(index as usize).or(self.labels.get(UNDEFINED as usize));
        // `labels` holds the three paths that every file has.
        found.unwrap_or(&self.labels[0])
    }

    fn text(&self, id: u32) -> &str {
        self.text_at(self.definitions.names.find(id))
    }

    fn text_at(&self, index: Option<u32>) -> &str {
        index.and_then(|index| self.texts.get(index as usize)).map_or("", String::as_str)
    }

    fn thread(&self, id: u32) -> Thread<'_> {
        let known = self.threads.get(&id);
        let (os_tid, name) = known.map_or((0, ""), |(os_tid, name)| (*os_tid, name.as_str()));
        Thread { os_tid, name }
    }

    fn range<'s>(&'s self, open: &'s OpenRange, end_ns: i64) -> Range<'s> {
        let OpenRange { record, path, fields, .. } = open;
        let node = self.definitions.paths.node(*path);
        let start_ns = self.file.host(record.start);
        Range {
            id: record.range,
            parent: record.parent,
            continues: record.continues != 0,
            name: self.text_at(node.name),
            domain: self.text_at(node.domain),
            path: self.path(*path),
            thread: self.thread(record.thread),
            start_end: record.start_end,
            category: record.category,
            payload: record.payload,
            fields,
            span: Span { start_ns, end_ns: end_ns.max(start_ns) },
        }
    }

    /// Gives a range that closed to `each`, unless the one around it has to come first.
    fn close<E>(
        &mut self,
        mut range: OpenRange,
        end_ns: i64,
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut held = std::mem::take(&mut range.held);
        if let Some(around) = self.open.get_mut(&range.record.parent)
            && around.record.start == range.record.start
            && around.held.len() + held.len() < HELD
        {
            held.push_front((range, end_ns));
            if around.held.is_empty() {
                around.held = held;
            } else {
                around.held.append(&mut held);
            }
            return Ok(());
        }
        each(Event::Range(self.range(&range, end_ns)))?;
        held.iter().try_for_each(|(inner, end_ns)| each(Event::Range(self.range(inner, *end_ns))))
    }

    /// Ranges that never closed: the innermost first. Then the last step of each thread, and the requests.
    fn close_all<E>(&mut self, each: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        while let Some((_, open)) = self.open.pop_last() {
            self.close(open, self.last_ns, each)?;
        }
        while let Some(ended) = self.engine.end_one() {
            each(Event::Step(self.step(&ended)))?;
        }
        self.file.requests().kept.iter().try_for_each(|request| {
            let arrived_ns = request.arrived.map(|at| self.file.host(MonoNs(at)));
            each(Event::Request { request, arrived_ns })
        })
    }
}

/// The wall clock of a host, corrected where collectives tie it to those of other hosts.
#[derive(Clone, Debug, Default)]
struct WallClock {
    /// Wall time less monotonic time, ns.
    ahead_ns: i64,
    /// What is to be added, in the order of time; empty: nothing.
    points: Vec<ClockPoint>,
}

impl WallClock {
    /// Points that do not follow each other in time, as in a damaged report, are left out.
    fn corrected(clock: &HostClock) -> Self {
        let mut points = clock.points.clone();
        points.sort_unstable_by_key(|point| point.wall_ns);
        points.dedup_by_key(|point| point.wall_ns);
        Self { ahead_ns: clock.wall_ahead_ns, points }
    }

    /// Linear between points; a constant before the first and after the last.
    fn at(&self, at: MonoNs) -> i64 {
        let wall = i64::try_from(at.0).unwrap_or(i64::MAX).saturating_add(self.ahead_ns);
        wall.saturating_add(self.add_at(wall))
    }

    fn add_at(&self, wall: i64) -> i64 {
        let after = self.points.partition_point(|point| point.wall_ns <= wall);
        let before = after.checked_sub(1).and_then(|at| self.points.get(at));
        match (before, self.points.get(after)) {
            (Some(from), Some(to)) => {
                let wide = i128::from;
                let elapsed = wide(wall) - wide(from.wall_ns);
                let step = wide(to.wall_ns) - wide(from.wall_ns);
                let gained = (wide(to.add_ns) - wide(from.add_ns)).saturating_mul(elapsed) / step;
                i64::try_from(wide(from.add_ns) + gained).unwrap_or(i64::MAX)
            }
            (Some(only), None) | (None, Some(only)) => only.add_ns,
            (None, None) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correction_is_linear_between_points_and_constant_outside() {
        let points = [(1_000, 10), (2_000, 30), (2_000, 99)];
        let points = points.map(|(wall_ns, add_ns)| ClockPoint { wall_ns, add_ns }).to_vec();
        let clock = HostClock { wall_ahead_ns: 500, points, ..HostClock::default() };
        let clock = WallClock::corrected(&clock);
        let at = |mono| clock.at(MonoNs(mono)) - mono as i64 - 500;
        assert_eq!([at(0), at(500), at(1_000), at(1_500), at(9_000)], [10, 10, 20, 30, 30]);
        let without = WallClock { ahead_ns: 7, points: Vec::new() };
        assert_eq!(without.at(MonoNs(3)), 10);
    }

    #[test]
    fn hostile_points_neither_panic_nor_wrap() {
        let ends = [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN)];
        let points = ends.map(|(wall_ns, add_ns)| ClockPoint { wall_ns, add_ns }).to_vec();
        for ahead in [i64::MIN, 0, i64::MAX] {
            let clock =
                HostClock { wall_ahead_ns: ahead, points: points.clone(), ..HostClock::default() };
            let clock = WallClock::corrected(&clock);
            for mono in [0, 1, 1 << 63, u64::MAX] {
                clock.at(MonoNs(mono));
            }
        }
    }
}
