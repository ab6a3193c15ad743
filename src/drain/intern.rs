//! Names, launch configurations, queues and range paths into the dense numbers of a trace file.
//!
//! The record that defines a number goes to the sink before any record that uses it. All tables
//! are bounded.

use std::hash::Hash;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use stage2_contract::trace::{NONE, Path, Queue, Record, Shape};

pub(crate) trait Sink {
    fn put(&mut self, record: Record);
}

impl Sink for Vec<Record> {
    fn put(&mut self, record: Record) {
        self.push(record);
    }
}

/// Distinct texts that are kept, for the life of the process, and their bytes in all.
const MAX_NAMES: usize = 1 << 15;
const MAX_NAME_BYTES: usize = 4 << 20;
/// Stands for every further text.
pub(crate) const MORE_NAMES: &[u8] = b"(more names than are kept)";
/// Range paths that are kept; a range beyond counts for the one around it.
const MAX_PATHS: usize = 1 << 15;
/// Stands for every further path at the top.
const MORE_PATHS: &[u8] = b"(more paths than are kept)";
/// A path text that is longer than twice this is cut to this many bytes at both ends: there may be
/// thousands of nested ranges, with as many paths.
const END_BYTES: usize = 512;
/// Launch configurations, and queues, that are known at a time. With the next one all are
/// forgotten, and defined again when they come again.
const MAX_SHAPES: usize = 1 << 15;
const MAX_QUEUES: usize = 1 << 12;
/// Addresses of kernel names that are known at a time.
const MAX_ADDRESSES: usize = 1 << 15;

#[derive(Default)]
struct Numbers<K> {
    /// With the epoch in which each was last defined.
    known: FxHashMap<K, (u32, u32)>,
    last: u32,
}

impl<K: Eq + Hash> Numbers<K> {
    /// The number of a value, and whether it has to be defined.
    fn give(&mut self, key: K, limit: usize, epoch: u32) -> (u32, bool) {
        if let Some((id, defined)) = self.known.get_mut(&key) {
            return (*id, std::mem::replace(defined, epoch) != epoch);
        }
        if self.known.len() >= limit {
            self.known.clear();
        }
        self.last += 1;
        self.known.insert(key, (self.last, epoch));
        (self.last, true)
    }
}

struct Text {
    bytes: Rc<[u8]>,
    /// The epoch in which it was last defined.
    defined: Option<u32>,
}

struct PathNode {
    path: Path,
    /// Bytes of its text.
    length: u32,
    /// The outermost part of it whose text has [`END_BYTES`]; 0 for none.
    head: u32,
    defined: Option<u32>,
}

#[derive(Default)]
pub(crate) struct Interner {
    names: FxHashMap<Rc<[u8]>, u32>,
    texts: Vec<Text>,
    name_bytes: usize,
    /// Texts and paths for which there was no room.
    refused: u64,
    /// Address of a kernel name to its number, so that most names are only compared.
    addresses: FxHashMap<usize, u32>,
    shapes: Numbers<Shape>,
    queues: Numbers<Queue>,
    paths: FxHashMap<Path, u32>,
    path_nodes: Vec<PathNode>,
    /// Most work comes from the queue that the work before came from.
    last_queue: Queue,
    /// How often what was written got lost, or another file was begun.
    epoch: u32,
}

impl Interner {
    /// Some of what was written is lost, or in an earlier file: what is used from now on is defined again,
    /// under the number that it has.
    pub(crate) fn define_again(&mut self) {
        self.epoch += 1;
        self.addresses.clear();
        self.last_queue = Queue::default();
    }

    /// Changes when something has to be defined again.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn name(&mut self, bytes: &[u8], sink: &mut impl Sink) -> u32 {
        if let Some(&id) = self.names.get(bytes) {
            self.define_name(id, sink);
            return id;
        }
        let full = self.texts.len() >= MAX_NAMES
            || self.name_bytes.saturating_add(bytes.len()) > MAX_NAME_BYTES;
        if full && bytes != MORE_NAMES {
            self.refused += 1;
            return self.name(MORE_NAMES, sink);
        }
        let id = self.texts.len() as u32 + 1;
        let text: Rc<[u8]> = bytes.into();
        self.names.insert(Rc::clone(&text), id);
        self.texts.push(Text { bytes: text, defined: None });
        self.name_bytes += bytes.len();
        self.define_name(id, sink);
        id
    }

    pub(crate) fn knows(&self, bytes: &[u8]) -> bool {
        self.names.contains_key(bytes)
    }

    /// Defines a name, unless that was done and is not lost.
    pub(crate) fn define_name(&mut self, id: u32, sink: &mut impl Sink) {
        let index = (id as usize).wrapping_sub(1);
        if let Some(text) = self.texts.get_mut(index)
            && text.defined != Some(self.epoch)
        {
            text.defined = Some(self.epoch);
            sink.put(Record::Name { id, bytes: text.bytes.to_vec() });
        }
    }

    /// The number of the text at `address`. The text is compared every time: CUPTI may reuse an
    /// address for another kernel after a module was unloaded.
    pub(crate) fn name_at(&mut self, address: usize, bytes: &[u8], sink: &mut impl Sink) -> u32 {
        if let Some(&id) = self.addresses.get(&address)
            && self.text(id) == bytes
        {
            return id;
        }
        let id = self.name(bytes, sink);
        if self.addresses.len() >= MAX_ADDRESSES {
            self.addresses.clear();
        }
        self.addresses.insert(address, id);
        id
    }

    /// The text of a number; empty where it is not known.
    pub(crate) fn text(&self, name: u32) -> &[u8] {
        let text = (name as usize).checked_sub(1).and_then(|index| self.texts.get(index));
        text.map_or(&[], |text| &text.bytes)
    }

    /// Texts and paths that were refused since the last call.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// The number of a launch configuration (its `id` is ignored).
    pub(crate) fn shape(&mut self, shape: Shape, sink: &mut impl Sink) -> u32 {
        let key = Shape { id: 0, ..shape };
        let (id, is_new) = self.shapes.give(key, MAX_SHAPES, self.epoch);
        if is_new {
            sink.put(Record::Shape(Shape { id, ..shape }));
        }
        id
    }

    /// The number of a queue (its `id` is ignored).
    pub(crate) fn queue(&mut self, queue: Queue, sink: &mut impl Sink) -> u32 {
        let last = self.last_queue;
        if last.id != 0 && (Queue { id: last.id, ..queue }) == last {
            return last.id;
        }
        let key = Queue { id: 0, ..queue };
        let (id, is_new) = self.queues.give(key, MAX_QUEUES, self.epoch);
        if is_new {
            sink.put(Record::Queue(Queue { id, ..queue }));
        }
        self.last_queue = Queue { id, ..queue };
        id
    }

    /// The number of a range name under a path (0: at the top).
    pub(super) fn path(
        &mut self,
        parent: u32,
        name: u32,
        domain: u32,
        sink: &mut impl Sink,
    ) -> u32 {
        let key = Path { id: 0, parent, name, domain };
        if self.path_nodes.len() < MAX_PATHS || self.paths.contains_key(&key) {
            return self.known_or_new_path(key, sink);
        }
        self.refused += 1;
        if parent != NONE {
            return parent;
        }
        let name = self.name(MORE_PATHS, sink);
        self.known_or_new_path(Path { id: 0, parent: NONE, name, domain: NONE }, sink)
    }

    /// As [`Interner::path`], for a path that is only shown. There is always room.
    pub(crate) fn shown_path(&mut self, parent: u32, name: u32, domain: u32) -> u32 {
        self.known_or_new_path(Path { id: 0, parent, name, domain }, &mut Vec::new())
    }

    fn known_or_new_path(&mut self, key: Path, sink: &mut impl Sink) -> u32 {
        let known = self.paths.get(&key).copied();
        let id = known.unwrap_or_else(|| self.new_path(key));
        self.define_path(id, sink);
        id
    }

    fn new_path(&mut self, key: Path) -> u32 {
        let id = self.path_nodes.len() as u32 + 1;
        self.paths.insert(key, id);
        let own = self.text(key.name).len() as u32;
        let (length, head) = match self.path_node(key.parent) {
            Some(parent) => (parent.length.saturating_add(1 + own), parent.head),
            None => (own, 0),
        };
        let head = if head == 0 && length as usize >= END_BYTES { id } else { head };
        let path = Path { id, ..key };
        self.path_nodes.push(PathNode { path, length, head, defined: None });
        id
    }

    /// As [`Interner::define_name`], with what the path is made of.
    pub(super) fn define_path(&mut self, id: u32, sink: &mut impl Sink) {
        let epoch = Some(self.epoch);
        let mut undefined = Vec::new();
        let mut at = id;
        while let Some(node) = self.path_node(at).filter(|node| node.defined != epoch) {
            undefined.push(node.path);
            at = node.path.parent;
        }
        for path in undefined.into_iter().rev() {
            self.define_name(path.name, sink);
            self.define_name(path.domain, sink);
            if let Some(node) = self.path_nodes.get_mut(path.id as usize - 1) {
                node.defined = epoch;
            }
            sink.put(Record::Path(path));
        }
    }

    pub(crate) fn path_of(&self, id: u32) -> Option<&Path> {
        self.path_node(id).map(|node| &node.path)
    }

    fn path_node(&self, id: u32) -> Option<&PathNode> {
        self.path_nodes.get((id as usize).checked_sub(1)?)
    }

    /// A path as text, its parts joined by `/`; a long one without its middle. Not escaped.
    pub(crate) fn path_text(&self, path: u32) -> Vec<u8> {
        let long = self.path_node(path).filter(|node| node.length as usize > 2 * END_BYTES);
        let Some(node) = long else { return self.inner_parts(path, usize::MAX) };
        // The last part of the head may be long, but what is around it is not.
        let mut text = self.inner_parts(node.head, usize::MAX);
        text.truncate(END_BYTES);
        text.extend_from_slice("…".as_bytes());
        let inner = self.inner_parts(path, END_BYTES);
        text.extend_from_slice(&inner[inner.len().saturating_sub(END_BYTES)..]);
        text
    }

    /// The innermost parts of a path, until their text has `enough` bytes.
    fn inner_parts(&self, path: u32, enough: usize) -> Vec<u8> {
        let mut parts = Vec::new();
        let (mut at, mut bytes) = (path, 0);
        while let Some(node) = self.path_of(at).filter(|_| bytes < enough) {
            let part = self.text(node.name);
            bytes += part.len() + 1;
            parts.push(part);
            at = node.parent;
        }
        parts.reverse();
        parts.join(&b'/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_defined_once_and_keeps_its_number() {
        let (mut interner, mut sink) = (Interner::default(), Vec::new());
        let a = interner.name(b"a", &mut sink);
        let b = interner.name(b"b", &mut sink);
        assert_eq!((a, b), (1, 2));
        assert_eq!(interner.name(b"a", &mut sink), a);
        assert_eq!(interner.text(b), b"b");
        assert_eq!((interner.text(0), interner.path_text(0)), (&b""[..], Vec::new()));
        assert_eq!(sink.len(), 2);
    }

    #[test]
    fn whatever_comes_the_tables_stay_bounded_and_what_is_refused_is_counted() {
        let (mut interner, mut sink) = (Interner::default(), Vec::new());
        let mut last = 0;
        for i in 0..2 * MAX_NAMES as u32 {
            last = interner.name(&i.to_le_bytes(), &mut sink);
            interner.shape(Shape { grid: [i, 1, 1], ..Shape::default() }, &mut sink);
            interner.queue(Queue { stream: i, ..Queue::default() }, &mut sink);
            let parent = interner.path(NONE, 1, NONE, &mut sink);
            interner.path(parent, i + 2, NONE, &mut sink);
        }
        assert_eq!(interner.text(last), MORE_NAMES);
        assert!(interner.texts.len() <= MAX_NAMES + 1);
        assert!(interner.path_nodes.len() <= MAX_PATHS);
        assert!(interner.shapes.known.len() <= MAX_SHAPES);
        assert!(interner.queues.known.len() <= MAX_QUEUES);
        assert!(interner.take_refused() >= 2 * MAX_NAMES as u64 - 2);
        let beyond = interner.path(NONE, 5, 5, &mut sink);
        assert_eq!(interner.path(NONE, 5, 6, &mut sink), beyond);
        assert_eq!(interner.path_nodes.len(), MAX_PATHS + 1);
        // A shape that was forgotten is defined anew, under a number of its own.
        let again = interner.shape(Shape { grid: [0, 1, 1], ..Shape::default() }, &mut sink);
        assert_eq!(again, 2 * MAX_NAMES as u32 + 1);
    }

    #[test]
    fn an_address_that_is_reused_for_another_kernel_gets_the_new_name() {
        let (mut interner, mut sink) = (Interner::default(), Vec::new());
        let first = interner.name_at(0x1000, b"first", &mut sink);
        assert_eq!(interner.name_at(0x1000, b"first", &mut sink), first);
        let second = interner.name_at(0x1000, b"second", &mut sink);
        assert_ne!(first, second);
        assert_eq!(interner.text(second), b"second");
    }

    #[test]
    fn what_is_lost_is_defined_again_before_it_is_used_again() {
        let (mut interner, mut sink) = (Interner::default(), Vec::new());
        let names: Vec<u32> =
            [b"outer", b"inner"].iter().map(|name| interner.name(*name, &mut sink)).collect();
        let domain = interner.name(b"domain", &mut sink);
        let outer = interner.path(NONE, names[0], domain, &mut sink);
        let inner = interner.path(outer, names[1], domain, &mut sink);
        let kernel = interner.name_at(0x1000, b"kernel", &mut sink);
        let queue = Queue { stream: 7, ..Queue::default() };
        let shape = Shape { name: kernel, ..Shape::default() };
        interner.shape(shape, &mut sink);
        interner.queue(queue, &mut sink);
        let before = std::mem::take(&mut sink);
        interner.define_again();
        assert_eq!(interner.path(outer, names[1], domain, &mut sink), inner);
        assert_eq!(interner.name_at(0x1000, b"kernel", &mut sink), kernel);
        interner.shape(shape, &mut sink);
        interner.queue(queue, &mut sink);
        // Each once, and before what needs it.
        let id = |wanted: &Record| sink.iter().position(|record| record == wanted);
        let order: Vec<usize> = before[..6].iter().filter_map(id).collect();
        assert_eq!((order.len(), sink.len()), (6, before.len()));
        assert!(id(&before[3]) < id(&before[4]) && id(&before[0]) < id(&before[3]));
        let written = sink.len();
        interner.path(outer, names[1], domain, &mut sink);
        interner.name_at(0x1000, b"kernel", &mut sink);
        assert_eq!(sink.len(), written);
    }

    #[test]
    fn of_a_long_path_both_ends_are_told_in_a_time_that_does_not_grow_with_it() {
        let (mut interner, mut sink) = (Interner::default(), Vec::new());
        let outermost = interner.name(b"outermost", &mut sink);
        let mut path = interner.path(NONE, outermost, NONE, &mut sink);
        for depth in 0..MAX_PATHS as u32 - 1 {
            let name = interner.name(format!("{depth:0100}").as_bytes(), &mut sink);
            path = interner.path(path, name, NONE, &mut sink);
        }
        let mut bytes = 0;
        for path in 1..=path {
            bytes += interner.path_text(path).len();
        }
        assert!(bytes <= MAX_PATHS * (2 * END_BYTES + 3), "{bytes}");
        let text = String::from_utf8_lossy(&interner.path_text(path)).into_owned();
        assert!(text.starts_with("outermost/000"), "{text}");
        assert!(text.ends_with(&format!("/{:0100}", MAX_PATHS - 2)), "{text}");
    }
}
