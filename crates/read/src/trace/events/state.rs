//! Records of a trace file, in order -> events, with what they refer to.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::text::{KernelName, kernel_name, visible};
use stage2_contract::trace::{
    FieldValue, GpuWork, NONE, Payload, Queue, RANGE_OUTSIDE, RANGE_UNKNOWN, RangeOpen, Record,
    Shape, {self as spool},
};

use super::super::alike::Alike;
use super::super::instances::{Entry, Instances, NO_ROOT};
use super::super::names::Names;
use super::super::paths::{OUTSIDE, PathIndex, Paths, UNATTRIBUTED, UNDEFINED};
use super::{
    Event, Range, RangePath, Span, Thread, TraceFile, Value, What, Work, is_timed, labels,
};
use crate::path_label::UNDEFINED_KERNEL;

/// What the second pass knows so far.
pub(super) struct State<'f> {
    file: &'f TraceFile,
    names: Names,
    /// Strings by the index of their name.
    texts: Vec<String>,
    library_names: FxHashSet<u32>,
    kernels: FxHashMap<u32, KernelName>,
    threads: FxHashMap<u32, (u32, String)>,
    queues: FxHashMap<u32, Queue>,
    /// Shapes, and the index of their kernel's name.
    shapes: FxHashMap<u32, (Shape, Option<u32>)>,
    unknown_shape: Shape,
    unknown_name: KernelName,
    paths: Paths,
    alike: Alike,
    labels: Vec<RangePath>,
    instances: Instances,
    open: BTreeMap<u64, OpenRange>,
    /// Open ranges that go on under another identifier.
    continued: FxHashMap<u64, u64>,
    last_ns: i64,
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
    pub(super) fn new(file: &'f TraceFile) -> Self {
        Self {
            file,
            names: Names::default(),
            texts: Vec::new(),
            library_names: FxHashSet::default(),
            kernels: FxHashMap::default(),
            threads: FxHashMap::default(),
            queues: FxHashMap::default(),
            shapes: FxHashMap::default(),
            unknown_shape: Shape::default(),
            unknown_name: kernel_name(UNDEFINED_KERNEL.as_bytes()),
            paths: Paths::default(),
            alike: Alike::of(file.capture.joined.clone()),
            labels: labels(&file.capture),
            instances: Instances::default(),
            open: BTreeMap::new(),
            continued: FxHashMap::default(),
            last_ns: i64::MIN,
        }
    }

    pub(super) fn take<E>(
        &mut self,
        record: Record,
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match record {
            Record::Work(work) => each(Event::Work(self.work(&work))),
            Record::RangeOpen(record) => {
                let path = self.paths.find(record.path).unwrap_or(UNDEFINED);
                self.instances.insert(record.range, Entry { path, root: NO_ROOT });
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
                let range = self.continued.remove(&range).unwrap_or(range);
                let Some(open) = self.open.remove(&range) else { return Ok(()) };
                let end_ns = self.file.host(end);
                self.last_ns = self.last_ns.max(end_ns);
                self.close(open, end_ns, each)
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
            other => {
                self.define(other);
                Ok(())
            }
        }
    }

    fn define(&mut self, record: Record) {
        match record {
            Record::Name { id, bytes } => {
                let text = visible(&bytes);
                let of_library = self.file.libraries.contains(&bytes);
                let index = self.names.define(id, bytes);
                if of_library {
                    self.library_names.insert(index);
                }
                if index as usize == self.texts.len() {
                    self.texts.push(text);
                }
            }
            Record::Thread { id, os_tid, name } => {
                self.threads.insert(id, (os_tid, visible(&name)));
            }
            Record::Queue(queue) => drop(self.queues.insert(queue.id, queue)),
            Record::Shape(shape) => {
                let index = self.names.find(shape.name);
                let bytes = index.and_then(|i| self.file.capture.names.get(i as usize));
                if let (Some(index), Some(bytes)) = (index, bytes) {
                    self.kernels.entry(index).or_insert_with(|| kernel_name(bytes));
                }
                self.shapes.insert(shape.id, (shape, index));
            }
            Record::Path(path) => {
                let name = self.names.find(path.name);
                let domain = (path.domain != NONE).then(|| self.names.find(path.domain)).flatten();
                let library = domain.is_some_and(|name| self.library_names.contains(&name));
                let own = name.filter(|_| !library);
                let stand_in = own.and_then(|own| {
                    self.alike.stand_in(&mut self.names, &self.paths, &path, own, domain)
                });
                let text = stand_in.filter(|&index| index as usize == self.texts.len());
                self.texts.extend(text.and_then(|index| self.names.get(index)).map(visible));
                self.paths.define(&path, stand_in.or(name), domain, library);
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
            spool::What::Kernel { shape } => {
                let known = self.shapes.get(&shape);
                let name = known.and_then(|(_, name)| self.kernels.get(&(*name)?));
                let shape = known.map_or(&self.unknown_shape, |(shape, _)| shape);
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

    fn range<'s>(&'s self, open: &'s OpenRange, end_ns: i64) -> Range<'s> {
        let OpenRange { record, path, fields, .. } = open;
        let node = self.paths.node(*path);
        let text = |name: Option<u32>| {
            name.and_then(|name| self.texts.get(name as usize)).map_or("", String::as_str)
        };
        let start_ns = self.file.host(record.start);
        Range {
            id: record.range,
            parent: record.parent,
            continues: record.continues != 0,
            name: text(node.name),
            domain: text(node.domain),
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

    /// Ranges that never closed: the innermost first.
    pub(super) fn close_all<E>(
        &mut self,
        each: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((_, open)) = self.open.pop_last() {
            self.close(open, self.last_ns, each)?;
        }
        Ok(())
    }
}
