//! Ranges and GPU work of the processes of an export -> records -> a [`ProcessCapture`] each.

use foldhash::{HashMap, HashSet};
use stage2_contract::trace::{
    Anchor, Device, GpuNs, MonoNs, NONE, Path, Queue, RangeOpen, Record, WallNs,
};

use super::super::domains::Domains;
use super::ZERO_NS;
use super::strings::Strings;
use super::work::{Piece, Work};
use crate::trace::libraries::RangeNames;
use crate::trace::share::Share;
use crate::trace::steps::Follow;
use crate::trace::{ProcessCapture, Tally};

/// GPU work comes at its launch, and so before any further range is opened.
const WINDOW: usize = 1 << 8;
/// Times beyond this are damage, ns: 73 years.
const MOST_NS: i64 = 1 << 61;

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
    /// Groups of GPU work.
    pub(super) groups: usize,
    /// Bytes of names of kernels.
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
        Self {
            tally,
            range_names: HashSet::default(),
            kernel_names: HashSet::default(),
            items: HashSet::default(),
            paths: HashMap::default(),
            stages: 0,
            ranges: 0,
        }
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
        self.tally.push(Record::RangeOpen(RangeOpen {
            range: self.ranges,
            path,
            thread: NONE,
            parent,
            start: MonoNs(shifted(at)),
            start_end: false,
            category: 0,
            payload: None,
            continues,
        }));
        self.ranges
    }

    pub(super) fn close(&mut self, range: u64, at: i64) {
        self.tally.push(Record::RangeClose { range, end: MonoNs(shifted(at)) });
    }

    /// Adds GPU work that was launched in `range`. Gives what it grew by.
    pub(super) fn work(&mut self, work: &Work, piece: &Piece, range: u64) -> Grown {
        let is_new = self.items.insert(piece.item);
        let name_bytes = if is_new { self.define(work, piece.item) } else { 0 };
        let span = piece.span.map_or((0, 0), |(start, end)| (shifted(start), shifted(end)));
        let span = (GpuNs(span.0), GpuNs(span.1));
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
