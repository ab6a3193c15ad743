//! Ranges and GPU work of the processes of an export -> records -> a [`ProcessCapture`] each.

use std::borrow::Cow;

use foldhash::{HashMap, HashSet};
use stage2_contract::trace::{
    Anchor, Device, GpuNs, MonoNs, NONE, Path, Queue, RangeOpen, Record, WallNs,
};

use super::ZERO_NS;
use super::walk::Strings;
use super::work::{NVTX_EVENTS, PROCESS_BITS, Piece, Work};
use crate::nsys::database::{Database, integer, short, text};
use crate::trace::libraries::RangeNames;
use crate::trace::stats::Share;
use crate::trace::steps::Follow;
use crate::trace::{ProcessCapture, Tally};

/// GPU work comes at its launch, and so before any further range is opened.
const WINDOW: usize = 1 << 8;
/// Times beyond this are damage, ns: 73 years.
const MOST_NS: i64 = 1 << 61;

#[derive(Default)]
pub(super) struct Process {
    tally: Tally,
    range_names: HashSet<u32>,
    kernel_names: HashSet<u32>,
    items: HashSet<u32>,
    paths: HashMap<(u32, u32, Option<u32>), u32>,
    stages: usize,
    ranges: u64,
}

/// What a piece of work added to its process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grown {
    pub(super) groups: usize,
    pub(super) name_bytes: usize,
}

/// A time of the file on the clock of the records.
fn shifted(ns: i64) -> u64 {
    (ns.clamp(-MOST_NS, MOST_NS) + ZERO_NS).cast_unsigned()
}

/// Numbers of names: those of ranges are odd, those of kernels even.
fn range_name(number: u32) -> u32 {
    number.saturating_mul(2).saturating_add(1)
}

fn kernel_name(number: u32) -> u32 {
    number.saturating_mul(2).saturating_add(2)
}

impl Process {
    /// The process `number` of an export, counted from 0.
    fn new(number: usize, libraries: RangeNames) -> Self {
        let follow = match number {
            0 => Follow::Queues,
            1..STEPS_IN_PROCESSES => Follow::Process,
            _ => Follow::Nothing,
        };
        let mut tally = Tally::ordered(WINDOW, Share::of_several(number), follow, libraries);
        // One clock has all times.
        let zero = shifted(0);
        let anchor = Anchor { gpu: GpuNs(zero), mono: MonoNs(zero), wall: WallNs(0) };
        tally.push(Record::Anchor(anchor));
        Self { tally, ..Self::default() }
    }

    /// The path of a range under that of the range around it ([`NONE`] at the top).
    pub(super) fn path(
        &mut self,
        strings: &Strings,
        parent: u32,
        name: u32,
        domain: Option<u32>,
    ) -> u32 {
        let fresh = self.paths.len() as u32 + 1;
        let id = *self.paths.entry((parent, name, domain)).or_insert(fresh);
        if id == fresh {
            self.stages += usize::from(parent == NONE);
            // Only its own: a thousand processes with the names of all would take a thousandfold.
            for number in domain.into_iter().chain([name]) {
                if self.range_names.insert(number) {
                    let bytes = strings.text(number).to_vec();
                    self.tally.push(Record::Name { id: range_name(number), bytes });
                }
            }
            let (name, domain) = (range_name(name), domain.map_or(NONE, range_name));
            self.tally.push(Record::Path(Path { id, parent, name, domain }));
        }
        id
    }

    /// Opens a range at `at` and gives its number; or lets `continues` go on as it.
    pub(super) fn open(&mut self, path: u32, parent: u64, at: i64, continues: u64) -> u64 {
        self.ranges += 1;
        let (range, thread, start) = (self.ranges, NONE, MonoNs(shifted(at)));
        let open =
            RangeOpen { range, path, thread, parent, start, continues, ..RangeOpen::default() };
        self.tally.push(Record::RangeOpen(open));
        self.ranges
    }

    pub(super) fn close(&mut self, range: u64, at: i64) {
        self.tally.push(Record::RangeClose { range, end: MonoNs(shifted(at)) });
    }

    /// Adds GPU work that was launched in `range`. Gives what it grew by.
    pub(super) fn work(&mut self, work: &Work, piece: &Piece, range: u64) -> Grown {
        let is_new = self.items.insert(piece.item);
        let name_bytes = if is_new { self.define(work, piece.item) } else { 0 };
        let (start, end) = piece.span.map_or((0, 0), |(a, b)| (shifted(a), shifted(b)));
        let span = (GpuNs(start), GpuNs(end));
        let before = self.tally.groups();
        if let Some(record) = work.record(piece, span, range) {
            self.tally.push(record);
        }
        Grown { groups: self.tally.groups() - before, name_bytes }
    }

    /// Describes an item; gives the bytes of its name, where that is new.
    fn define(&mut self, work: &Work, item: u32) -> usize {
        let mut name_bytes = 0;
        if let Some((queue, device)) = work.queue(item) {
            let uuid = identity(device);
            let name = work.device_name(device).to_vec();
            self.tally.push(Record::Device(Device { id: device, name, uuid, ..Device::default() }));
            self.tally.push(Record::Queue(Queue { id: queue, device, context: 0, stream: 0 }));
        }
        if let Some((number, name, mut shape)) = work.shape(item) {
            let id = kernel_name(number);
            if self.kernel_names.insert(number) {
                name_bytes = name.len();
                self.tally.push(Record::Name { id, bytes: name.to_vec() });
            }
            shape.name = id;
            self.tally.push(Record::Shape(shape));
        }
        name_bytes
    }

    /// How many distinct paths it has, and how many at the top.
    pub(super) fn paths(&self) -> (usize, usize) {
        (self.paths.len(), self.stages)
    }
}

/// Processes share a device by its number; this makes it one device of the reports.
fn identity(device: u32) -> [u8; 16] {
    (u128::from(device) + 1).to_be_bytes()
}

/// Processes that are told apart: those that follow are taken for one.
pub(super) const MAX_PROCESSES: usize = 1024;
/// Only the first processes of an export are searched for steps, and only if they open no ranges.
pub const STEPS_IN_PROCESSES: usize = 16;

pub(super) struct Processes {
    numbers: HashMap<i64, usize>,
    /// Each with its global number.
    list: Vec<(i64, Process)>,
    pub(super) domains: Domains,
    libraries: RangeNames,
    pub(super) too_many: bool,
}

impl Processes {
    pub(super) fn new(domains: Domains, libraries: RangeNames) -> Self {
        let (numbers, list) = (HashMap::default(), Vec::new());
        Self { numbers, list, domains, libraries, too_many: false }
    }

    /// The place of a process in the list.
    pub(super) fn number(&mut self, process: i64) -> usize {
        let next = self.list.len();
        if next > MAX_PROCESSES && !self.numbers.contains_key(&process) {
            self.too_many = true;
            return next - 1;
        }
        let number = *self.numbers.entry(process).or_insert(next);
        if number == next {
            self.list.push((process, Process::new(number, self.libraries.clone())));
        }
        number
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Process> {
        self.list.get_mut(number).map(|(_, process)| process)
    }

    /// The capture of each process of the export `file`, in the order of their numbers.
    pub(super) fn finish(mut self, file: &str) -> Vec<ProcessCapture> {
        self.list.sort_by_key(|&(number, _)| number);
        let finish = |(_, process): (i64, Process)| ProcessCapture {
            file: file.to_owned(),
            ..process.tally.finish()
        };
        self.list.into_iter().map(finish).collect()
    }
}

/// The rows, and how many of them are looked at.
const DOMAIN_ROWS: &str = "WHERE eventType = 75 LIMIT 100000";
/// Names that are kept, and bytes of each: a program has a handful.
const MAX_NAMES: usize = 10_000;
const MAX_NAME_BYTES: usize = 1024;
const DOMAIN_COLUMNS: [&str; 4] = ["globalTid", "domainId", "textId", "text"];

/// The names of NVTX domains, and which of them are those of libraries. They are read before the ranges, because
/// a name may stand behind the first range of its domain.
#[derive(Debug, Default)]
pub(in crate::nsys) struct Domains {
    names: HashMap<(i64, i64), String>,
    libraries: HashSet<(i64, i64)>,
    pub(in crate::nsys) left_out: u64,
}

impl Domains {
    /// Reads them. What is wrong with the table is told by whoever reads its ranges.
    pub(in crate::nsys) fn read(database: &Database, libraries: &RangeNames) -> Self {
        let mut read = Self::default();
        let Ok(Some(table)) = database.table(NVTX_EVENTS) else { return read };
        if !table.has("eventType") {
            return read;
        }
        let _ = database.rows(&table, &DOMAIN_COLUMNS, DOMAIN_ROWS, |row| {
            let process = integer(row, 0).unwrap_or(0) & PROCESS_BITS;
            let key = (process, integer(row, 1).unwrap_or(0));
            // The first name counts.
            if read.names.contains_key(&key) {
                return;
            }
            let name = text(row, 3).or_else(|| database.string(integer(row, 2)?));
            if let Some(mut name) = name.filter(|name| !name.is_empty()) {
                if read.names.len() >= MAX_NAMES {
                    read.left_out += 1;
                    return;
                }
                name = short(name, MAX_NAME_BYTES);
                if libraries.contains(name.as_bytes()) {
                    read.libraries.insert(key);
                }
                read.names.insert(key, name);
            }
        });
        read
    }

    /// The name of a domain, or its number where it has none; nothing for the default domain.
    pub(in crate::nsys) fn name(&self, thread: i64, domain: i64) -> Option<Cow<'_, str>> {
        if domain == 0 {
            return None;
        }
        let known = self.names.get(&(thread & PROCESS_BITS, domain));
        Some(known.map_or_else(|| format!("domain {domain}").into(), |name| name.as_str().into()))
    }

    pub(in crate::nsys) fn is_library(&self, thread: i64, domain: i64) -> bool {
        self.libraries.contains(&(thread & PROCESS_BITS, domain))
    }
}
