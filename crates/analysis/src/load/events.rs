//! One trace file -> its events one by one, with names, paths and one clock: what exports are made of.
//!
//! Two passes over the file. The first collects what holds for all of it: who was traced, clock
//! readings, devices. The second gives every event. Memory grows with the names, paths and shapes,
//! and with the windows of [`instances`](super::instances), not with the kernels.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use stage2_spool::{
    self as spool, Anchor, Device, FieldValue, GpuNs, GpuWork, Losses, MonoNs, NONE, Payload,
    Process, Queue, RANGE_OUTSIDE, RANGE_UNKNOWN, RangeOpen, ReadError, Reader, Record, Shape,
};
use stage2_text::{KernelName, kernel_name, shorten, visible};

use super::clock::ClockMap;
use super::instances::{Entry, Instances, NO_ROOT};
use super::libraries::LibraryDomains;
use super::names::Names;
use super::paths::{OUTSIDE, PathIndex, Paths, UNATTRIBUTED, UNDEFINED};
use crate::files;

/// Characters of one range name within a path.
const ELEMENT_LIMIT: usize = 200;
/// Elements of a path; of a longer one the innermost are left out.
const PATH_DEPTH_LIMIT: usize = 64;

/// A trace file, and what holds for all of it.
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    libraries: LibraryDomains,
    /// Name of the file, without its folder and without the ending of compression.
    pub file: String,
    /// Who was traced; nothing where the file does not say.
    pub process: Option<Process>,
    /// Facts about the capture.
    pub meta: BTreeMap<String, String>,
    /// Devices by the number that the process gives them.
    pub devices: BTreeMap<u32, Device>,
    /// What the collector lost.
    pub losses: Losses,
    /// From the first to the last thing that happened; nothing in an empty file.
    pub span: Option<Span>,
    clock: Clock,
}

/// Puts the times of one process on the wall clock.
#[derive(Clone, Debug, Default)]
struct Clock {
    map: ClockMap,
    /// Wall time less monotonic time, ns.
    wall_ahead_ns: i64,
}

impl Clock {
    fn new(anchors: &[Anchor]) -> Self {
        let ahead = |anchor: &Anchor| (anchor.wall.0 as i64).wrapping_sub(anchor.mono.0 as i64);
        let middle = anchors.get(anchors.len() / 2);
        Self { map: ClockMap::new(anchors), wall_ahead_ns: middle.map_or(0, ahead) }
    }

    fn host(&self, at: MonoNs) -> i64 {
        i64::try_from(at.0).unwrap_or(i64::MAX).saturating_add(self.wall_ahead_ns)
    }

    /// Nothing where no clock reading ties the clock of the GPU to that of the host.
    fn gpu(&self, at: GpuNs) -> Option<i64> {
        self.map.mono(at).map(|mono| self.host(mono))
    }
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
    /// A range closed, so that all of it is known. One that never closed ends with the file.
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

/// The first and the last reading of a clock.
#[derive(Debug, Default)]
struct Extent(Option<(u64, u64)>);

impl Extent {
    fn add(&mut self, at: u64) {
        let (first, last) = self.0.unwrap_or((at, at));
        self.0 = Some((first.min(at), last.max(at)));
    }

    fn work(&mut self, start: GpuNs, end: GpuNs) {
        if is_timed(start, end) {
            self.add(start.0);
            self.add(end.0);
        }
    }
}

/// CUPTI gives 0 where it could not take the times.
fn is_timed(start: GpuNs, end: GpuNs) -> bool {
    start.0 != 0 && end >= start
}

fn reader(path: &Path) -> Result<Reader<Box<dyn Read>>, ReadError> {
    let failed = |source| ReadError::Open { path: path.to_owned(), source };
    let input: Box<dyn Read> = if files::is_compressed(path) {
        Box::new(files::unpacked(path).map_err(failed)?)
    } else {
        Box::new(files::open(path).map_err(failed)?)
    };
    Reader::new(input)
}

impl TraceFile {
    /// Reads what holds for the whole file. Ranges of the domains in `libraries` are never around a
    /// range of the program, as in reports.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no trace file that this version can read.
    pub fn open(path: &Path, libraries: &LibraryDomains) -> Result<Self, ReadError> {
        let name = path.file_name().map_or_else(String::new, |n| visible(n.as_encoded_bytes()));
        let mut file = Self {
            path: path.to_owned(),
            libraries: libraries.clone(),
            file: files::plain_name(&name).to_owned(),
            process: None,
            meta: BTreeMap::new(),
            devices: BTreeMap::new(),
            losses: Losses::default(),
            span: None,
            clock: Clock::default(),
        };
        let mut anchors = Vec::new();
        let (mut host, mut gpu) = (Extent::default(), Extent::default());
        for record in reader(path)? {
            match record? {
                Record::Work(work) => gpu.work(work.start, work.end),
                Record::RangeOpen(open) => host.add(open.start.0),
                Record::RangeClose { end, .. } => host.add(end.0),
                Record::Mark(mark) => host.add(mark.at.0),
                Record::Process(process) => file.process = Some(process),
                Record::Meta { key, value } => drop(file.meta.insert(key, value)),
                Record::Device(device) => drop(file.devices.insert(device.id, device)),
                Record::Anchor(anchor) => anchors.push(anchor),
                Record::Losses(losses) => file.losses = losses,
                _ => {}
            }
        }
        file.clock = Clock::new(&anchors);
        let clock = &file.clock;
        let of_host =
            host.0.map(|(first, last)| (clock.host(MonoNs(first)), clock.host(MonoNs(last))));
        let of_gpu = gpu
            .0
            .and_then(|(first, last)| Some((clock.gpu(GpuNs(first))?, clock.gpu(GpuNs(last))?)));
        let all = of_host.into_iter().chain(of_gpu);
        let all = all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        file.span = all.map(|(start_ns, end_ns)| Span { start_ns, end_ns });
        Ok(file)
    }

    /// Gives every event to `each`, in the order of the file: GPU work comes after the ranges that
    /// it was launched in, and is not sorted by time.
    ///
    /// # Errors
    /// The first error of `each`, and files that cannot be read to their end.
    pub fn for_each<E: From<ReadError>>(
        &self,
        mut each: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut state = State::new(self);
        for record in reader(&self.path)? {
            state.take(record?, &mut each)?;
        }
        state.close_all(&mut each)
    }
}

/// What the second pass knows so far.
struct State<'f> {
    file: &'f TraceFile,
    names: Names,
    /// Strings by the index of their name: as the file has them, and visible.
    bytes: Vec<Vec<u8>>,
    texts: Vec<String>,
    library_names: HashSet<u32>,
    kernels: FxHashMap<u32, KernelName>,
    threads: FxHashMap<u32, (u32, String)>,
    queues: FxHashMap<u32, Queue>,
    shapes: FxHashMap<u32, Shape>,
    unknown_shape: Shape,
    unknown_name: KernelName,
    paths: Paths,
    labels: Vec<RangePath>,
    instances: Instances,
    open: BTreeMap<u64, (RangeOpen, Vec<(String, Value)>)>,
    last_ns: i64,
}

impl<'f> State<'f> {
    fn new(file: &'f TraceFile) -> Self {
        let label = |text: &str| RangePath { elements: vec![text.to_owned()], label: text.into() };
        let not_known = "(name not known)".to_owned();
        Self {
            file,
            names: Names::default(),
            bytes: Vec::new(),
            texts: Vec::new(),
            library_names: HashSet::new(),
            kernels: FxHashMap::default(),
            threads: FxHashMap::default(),
            queues: FxHashMap::default(),
            shapes: FxHashMap::default(),
            unknown_shape: Shape::default(),
            unknown_name: KernelName {
                mangled: not_known.clone(),
                demangled: not_known.clone(),
                short: not_known,
            },
            paths: Paths::default(),
            labels: ["(outside ranges)", "(unattributed)", "(path not known)"].map(label).to_vec(),
            instances: Instances::default(),
            open: BTreeMap::new(),
            last_ns: 0,
        }
    }

    fn take<E>(
        &mut self,
        record: Record,
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match record {
            Record::Work(work) => each(Event::Work(self.work(&work))),
            Record::RangeOpen(open) => {
                let path = self.paths.find(open.path).unwrap_or(UNDEFINED);
                self.instances.insert(open.range, Entry { path, root: NO_ROOT });
                self.last_ns = self.last_ns.max(self.file.clock.host(open.start));
                self.open.insert(open.range, (open, Vec::new()));
                Ok(())
            }
            Record::RangeClose { range, end } => {
                let Some((open, fields)) = self.open.remove(&range) else { return Ok(()) };
                let end_ns = self.file.clock.host(end);
                self.last_ns = self.last_ns.max(end_ns);
                each(Event::Range(self.range(&open, &fields, end_ns)))
            }
            Record::RangeFields { range, fields } => {
                let value = |value| match value {
                    FieldValue::U64(value) => Value::Number(Payload::U64(value)),
                    FieldValue::I64(value) => Value::Number(Payload::I64(value)),
                    FieldValue::F64(value) => Value::Number(Payload::F64(value)),
                    FieldValue::Name(id) => Value::Text(self.text(id).to_owned()),
                };
                let fields: Vec<_> =
                    fields.iter().map(|f| (self.text(f.name).to_owned(), value(f.value))).collect();
                if let Some((_, known)) = self.open.get_mut(&range) {
                    // Of two values of a name the later one holds.
                    known.retain(|(name, _)| fields.iter().all(|(other, _)| other != name));
                    known.extend(fields);
                }
                Ok(())
            }
            Record::Mark(mark) => each(Event::Mark {
                at_ns: self.file.clock.host(mark.at),
                thread: self.thread(mark.thread),
                name: self.text(mark.name),
                payload: mark.payload,
            }),
            other => {
                self.define(other);
                Ok(())
            }
        }
    }

    fn define(&mut self, record: Record) {
        match record {
            Record::Name { id, bytes } => {
                let of_library = self.file.libraries.contains(&bytes);
                let index = self.names.define(id, bytes.clone());
                if of_library {
                    self.library_names.insert(index);
                }
                if index as usize == self.texts.len() {
                    self.texts.push(visible(&bytes));
                    self.bytes.push(bytes);
                }
            }
            Record::Thread { id, os_tid, name } => {
                self.threads.insert(id, (os_tid, visible(&name)));
            }
            Record::Queue(queue) => drop(self.queues.insert(queue.id, queue)),
            Record::Shape(shape) => {
                if let Some(index) = self.names.find(shape.name)
                    && let Some(bytes) = self.bytes.get(index as usize)
                {
                    self.kernels.entry(index).or_insert_with(|| kernel_name(bytes));
                }
                self.shapes.insert(shape.id, shape);
            }
            Record::Path(path) => {
                let name = self.names.find(path.name);
                let domain = (path.domain != NONE).then(|| self.names.find(path.domain)).flatten();
                let library = domain.is_some_and(|name| self.library_names.contains(&name));
                self.paths.define(&path, name, domain, library);
                while self.labels.len() < self.paths.nodes().len() {
                    self.labels.push(self.label(self.labels.len() as PathIndex));
                }
            }
            _ => {}
        }
    }

    /// The label of a node whose parent has one.
    fn label(&self, index: PathIndex) -> RangePath {
        let node = self.paths.node(index);
        let text = |name: Option<u32>| name.and_then(|name| self.texts.get(name as usize));
        let name =
            shorten(text(node.name).map_or("(name not known)", String::as_str), ELEMENT_LIMIT);
        let element = match text(node.domain) {
            Some(domain) => format!("{name}@{}", shorten(domain, ELEMENT_LIMIT)),
            None => name,
        };
        let around = node.parent.and_then(|parent| self.labels.get(parent as usize));
        let mut elements = around.map_or_else(Vec::new, |around| around.elements.clone());
        if elements.len() < PATH_DEPTH_LIMIT {
            elements.push(element);
        }
        RangePath { label: elements.join("/"), elements }
    }

    fn work(&self, work: &GpuWork) -> Work<'_> {
        let span = || {
            let start_ns = self.file.clock.gpu(work.start)?;
            // The two clocks may drift. Lengths are the GPU's, so that sums equal the reports'.
            let length_ns = i64::try_from(work.end.since(work.start)).unwrap_or(i64::MAX);
            Some(Span { start_ns, end_ns: start_ns.saturating_add(length_ns) })
        };
        let path = match work.range {
            RANGE_OUTSIDE => OUTSIDE,
            RANGE_UNKNOWN => UNATTRIBUTED,
            id => self.instances.get(id).map_or(UNATTRIBUTED, |entry| entry.path),
        };
        let what = match work.what {
            spool::What::Kernel { shape } => {
                let shape = self.shapes.get(&shape).unwrap_or(&self.unknown_shape);
                let name = self.names.find(shape.name).and_then(|name| self.kernels.get(&name));
                What::Kernel(shape, name.unwrap_or(&self.unknown_name))
            }
            spool::What::Copy { bytes, kind } => What::Copy { bytes, kind },
            spool::What::Fill { bytes } => What::Fill { bytes },
            spool::What::Graph { graph } => What::Graph { graph },
        };
        Work {
            what,
            span: is_timed(work.start, work.end).then(span).flatten(),
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
        let text = self.names.find(id).and_then(|index| self.texts.get(index as usize));
        text.map_or("", String::as_str)
    }

    fn thread(&self, id: u32) -> Thread<'_> {
        let known = self.threads.get(&id);
        known.map_or(Thread { os_tid: 0, name: "" }, |(os_tid, name)| Thread {
            os_tid: *os_tid,
            name,
        })
    }

    fn range<'s>(
        &'s self,
        open: &RangeOpen,
        fields: &'s [(String, Value)],
        end_ns: i64,
    ) -> Range<'s> {
        let index = self.paths.find(open.path).unwrap_or(UNDEFINED);
        let node = self.paths.node(index);
        let text = |name: Option<u32>| {
            name.and_then(|name| self.texts.get(name as usize)).map_or("", String::as_str)
        };
        let start_ns = self.file.clock.host(open.start);
        Range {
            id: open.range,
            parent: open.parent,
            name: text(node.name),
            domain: text(node.domain),
            path: self.path(index),
            thread: self.thread(open.thread),
            start_end: open.start_end,
            category: open.category,
            payload: open.payload,
            fields,
            span: Span { start_ns, end_ns: end_ns.max(start_ns) },
        }
    }

    /// Ranges that never closed: the innermost first.
    fn close_all<E>(&mut self, each: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let open = std::mem::take(&mut self.open);
        let mut ranges = open.values().rev();
        ranges.try_for_each(|(open, fields)| {
            each(Event::Range(self.range(open, fields, self.last_ns)))
        })
    }
}
