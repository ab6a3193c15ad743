//! Tables of GPU work and API calls -> work in the order of its launches, what it is, and its counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use rusqlite::Row;
use stage2_contract::trace::{GpuNs, GpuWork, Record, Shape, What};
use stage2_model::nsys::Counts;

use super::limits::{LeftOut, Limits, OTHER_KERNELS};
use crate::nsys::database::{Database, integer, short_text, text};
use crate::nsys::{Kernel, Naming};

pub(in crate::nsys) const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
pub(in crate::nsys) const NVTX_EVENTS: &str = "NVTX_EVENTS";
const DEVICES: &str = "TARGET_INFO_GPU";
/// Columns that all of these tables have.
const COMMON: [&str; 6] = ["start", "end", "deviceId", "correlationId", "globalPid", "graphNodeId"];
/// Copies between memories that CUDA itself makes of managed memory follow these kinds: nobody
/// launched them, and the collector does not record them.
const COPY_KINDS: i64 = 10;
/// What is held of a piece of work, and of its bytes in addition: 40 bytes and 16.
const UNIT_BYTES: usize = 8;
const LAUNCH_UNITS: usize = 40 / UNIT_BYTES;
const MOVED_UNITS: usize = 16 / UNIT_BYTES;
/// Processes with work that is held. Reports tell far fewer apart.
pub(in crate::nsys) const MAX_PROCESSES: usize = 1 << 16;
/// Marks the number of something whose bytes count.
const MOVED: u32 = 1 << 31;
/// Stands for the times of a piece that has none.
const UNTIMED: (i64, i64) = (1, 0);
pub(in crate::nsys) const NO_NAME: &str = "(no name in the file)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WorkTable {
    Kernels,
    Copies,
    Fills,
    Graphs,
}

#[rustfmt::skip] // In groups, as they are read.
const KERNEL_COLUMNS: &[&str] = &[
    "mangledName", "demangledName", "shortName",
    "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
    "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread",
];
/// Their names, and the columns of each behind the common ones.
const TABLES: [(WorkTable, &str, &[&str]); 4] = [
    (WorkTable::Kernels, KERNELS, KERNEL_COLUMNS),
    (WorkTable::Copies, "CUPTI_ACTIVITY_KIND_MEMCPY", &["bytes", "copyKind"]),
    (WorkTable::Fills, "CUPTI_ACTIVITY_KIND_MEMSET", &["bytes"]),
    (WorkTable::Graphs, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", &["graphExecId", "graphId"]),
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) item: u32,
    bytes: u64,
    /// Start and end, ns; nothing where they are not valid.
    pub(super) span: Option<(i64, i64)>,
}

#[derive(Debug, Default)]
pub(in crate::nsys) struct Work {
    limits: Limits,
    /// [`OTHERS`] come first.
    items: Vec<Item>,
    by_item: HashMap<Item, u32>,
    /// Items and bytes of copies and fills.
    moved: Vec<(u32, u64)>,
    launches: InOrder,
    /// Numbers and texts of the names of kernels; none: the file lacks the text.
    names: HashMap<NameId, (u32, Option<Arc<str>>)>,
    pub(in crate::nsys) devices: BTreeMap<u32, String>,
    /// Room for work that is still left, in units of [`UNIT_BYTES`].
    room: usize,
    held_processes: HashSet<i64>,
    last_process: Option<i64>,
    /// The table and its row that is read.
    at: (usize, usize),
    /// It is an export of ours, which states where work was launched.
    pub(in crate::nsys) is_own: bool,
    /// Pieces of each sort that are not held: without a number of their launch, or too many.
    not_held: [u64; OTHERS.len()],
    pub(super) not_detailed: bool,
    pub(in crate::nsys) counts: Counts,
    /// Kernels beyond [`MAX_KERNELS`].
    pub(in crate::nsys) beyond_limit: u64,
    pub(in crate::nsys) cut_tables: Vec<(&'static str, String)>,
    pub(super) left_out: LeftOut,
}

fn small(value: Option<i64>) -> Option<u32> {
    u32::try_from(value?).ok()
}

impl Work {
    /// Reads the tables; what came before an error is kept.
    pub(super) fn read(database: &Database, limits: Limits) -> Self {
        let mut work = Self::within(limits);
        let devices = database.rows_of(DEVICES, &["id", "name"], "LIMIT 10000", |row| {
            work.devices.extend(small(integer(row, 0)).zip(short_text(row, 1)));
        });
        work.cut_tables.extend(devices.err().map(|error| (DEVICES, error.to_string())));
        let mut launches = Launches::default();
        let own = Own::read(database);
        work.is_own = own.is_some();
        work.each(database, |work, process, correlation, piece| {
            let Some(correlation) = correlation else { return };
            let group = match piece.bytes {
                0 => piece.item,
                bytes => {
                    work.moved.push((piece.item, bytes));
                    (work.moved.len() - 1) as u32 | MOVED
                }
            };
            launches.add(process, correlation, group, piece.span.unwrap_or(UNTIMED));
            let launch = own.as_ref().and_then(|own| own.launch(work.at, process));
            if let Some((thread, time)) = launch {
                launches.place_last(thread, time);
            }
        });
        let calls = launches.read(database, &mut work.counts.api_calls);
        work.cut_tables.extend(calls.err().map(|error| (CALLS, error.to_string())));
        if work.counts.kernels == 0 && work.counts.api_calls > 0 {
            work.counts.launch_calls = launch_calls(database);
        }
        let missing = launches.call_numbers_missing();
        work.left_out.call_numbers = missing.is_none();
        work.counts.call_numbers_missing = missing.unwrap_or(0);
        work.launches = launches.in_order();
        work.look_up_names(database);
        work
    }

    /// Empty, except for the items that take work beyond the limit on kinds.
    fn within(limits: Limits) -> Self {
        let other = |what| Item { what, device: None, in_graph: false };
        let items: Vec<Item> = OTHERS.map(other).to_vec();
        Self {
            limits,
            by_item: items.iter().copied().zip(0..).collect(),
            items,
            room: MAX_KERNELS * LAUNCH_UNITS,
            ..Self::default()
        }
    }

    /// Hands all work to `take`, with its process, and the number of its launch if it is to be held.
    fn each(
        &mut self,
        database: &Database,
        mut take: impl FnMut(&mut Self, i64, Option<u32>, Piece),
    ) {
        for (number, (kind, name, columns)) in TABLES.into_iter().enumerate() {
            let mut rows = 0;
            let columns = [&COMMON[..], columns].concat();
            let read = database.rows_of(name, &columns, "", |row| {
                self.at = (number, rows);
                rows += 1;
                let Some(piece) = self.piece(kind, row) else { return };
                let launch = small(integer(row, 3)).or(self.is_own.then_some(0));
                let process = integer(row, 4).unwrap_or(0);
                let held = launch.filter(|_| self.has_room(process, &piece));
                let sort = self.sort(&piece);
                if let Some(count) = self.not_held.get_mut(sort) {
                    *count += u64::from(held.is_none());
                }
                let beyond = kind == WorkTable::Kernels && launch.is_some() && held.is_none();
                self.beyond_limit += u64::from(beyond);
                take(self, process, held, piece);
            });
            self.cut_tables.extend(read.err().map(|error| (name, error.to_string())));
        }
    }

    /// Work that is not held, with its process; where it was launched is not known.
    pub(super) fn more(&self, database: &Database, mut take: impl FnMut(i64, &Piece)) {
        let mut left = self.not_held;
        if left == [0; OTHERS.len()] {
            return;
        }
        // The same items get the same numbers again, and the same ones are held.
        let mut again = Work { is_own: self.is_own, ..Work::within(self.limits) };
        again.each(database, |again, process, correlation, piece| {
            let left = left.get_mut(again.sort(&piece)).filter(|left| **left > 0);
            // Of a damaged table the second reading may find rows that the first one did not.
            if let (None, Some(left)) = (correlation, left) {
                *left -= 1;
                take(process & PROCESS_BITS, &piece);
            }
        });
    }

    /// Takes the room that a piece needs to be held; false where there is none left.
    fn has_room(&mut self, process: i64, piece: &Piece) -> bool {
        let units = LAUNCH_UNITS + if piece.bytes == 0 { 0 } else { MOVED_UNITS };
        let Some(left) = self.room.checked_sub(units) else { return false };
        let process = process & PROCESS_BITS;
        if self.last_process != Some(process) {
            let is_full = self.held_processes.len() >= MAX_PROCESSES;
            if is_full && !self.held_processes.contains(&process) {
                return false;
            }
            self.held_processes.insert(process);
            self.last_process = Some(process);
        }
        self.room = left;
        true
    }

    fn piece(&mut self, kind: WorkTable, row: &Row<'_>) -> Option<Piece> {
        let own = |at: usize| integer(row, COMMON.len() + at);
        let bytes = |at: usize| own(at).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        let (start, end) = (integer(row, 0), integer(row, 1));
        let duration = duration_ns(start, end);
        let counts = &mut self.counts;
        let (what, bytes) = match kind {
            WorkTable::Kernels => {
                counts.kernels += 1;
                counts.untimed += u64::from(duration.is_none());
                let total = &mut counts.kernel_total_ns;
                *total = total.saturating_add(duration.unwrap_or(0));
                let shape = std::array::from_fn(|at| small(own(3 + at)));
                let details = std::array::from_fn(|at| small(own(9 + at)));
                (Ran::Kernel(name_of(own(0), own(1), own(2)), shape, details), 0)
            }
            WorkTable::Copies if own(1).is_some_and(|kind| kind > COPY_KINDS) => return None,
            WorkTable::Copies => {
                (Ran::Copy(own(1).and_then(|kind| u8::try_from(kind).ok()).unwrap_or(0)), bytes(0))
            }
            WorkTable::Fills => (Ran::Fill, bytes(0)),
            WorkTable::Graphs => {
                counts.graph_launches += 1;
                let total = &mut counts.graph_total_ns;
                *total = total.saturating_add(duration.unwrap_or(0));
                (Ran::Graph(small(own(0).or(own(1))).unwrap_or(0)), 0)
            }
        };
        let in_graph = kind != WorkTable::Graphs && integer(row, 5).is_some();
        let item = self.item(Item { what, device: small(integer(row, 2)), in_graph });
        let span = duration.and_then(|_| start.zip(end));
        Some(Piece { item, bytes, span })
    }

    fn item(&mut self, item: Item) -> u32 {
        if let Some(&known) = self.by_item.get(&item) {
            return known;
        }
        if self.items.len() >= self.limits.kinds.saturating_add(OTHERS.len()) {
            self.left_out.lumped += 1;
            return item.what.others();
        }
        if let Ran::Kernel(_, _, details) = item.what {
            self.not_detailed |= details.contains(&None);
        }
        let fresh = self.items.len() as u32;
        self.by_item.insert(item, fresh);
        self.items.push(item);
        fresh
    }

    fn look_up_names(&mut self, database: &Database) {
        let mut room = self.limits.name_bytes;
        for item in &self.items {
            let Ran::Kernel(id, ..) = item.what else { continue };
            let number = self.names.len() as u32;
            let left_out = &mut self.left_out.kernel_names;
            let mut name = || {
                let text = database.string(id.1?)?;
                let left = room.checked_sub(text.len());
                *left_out += u64::from(left.is_none());
                room = left?;
                Some(Arc::from(text))
            };
            self.names.entry(id).or_insert_with(|| (number, name()));
        }
    }
    pub(super) fn forget_launches(&mut self) {
        (self.launches, self.moved) = (InOrder::default(), Vec::new());
    }

    /// The piece of work, counted among all other kinds; `None` if it is counted there already.
    pub(super) fn among_others(&self, piece: &Piece) -> Option<Piece> {
        let item = self.items.get(piece.item as usize)?.what.others();
        (item != piece.item).then_some(Piece { item, ..*piece })
    }

    pub(super) fn is_kernel(&self, piece: &Piece) -> bool {
        self.sort(piece) == 0
    }
    fn sort(&self, piece: &Piece) -> usize {
        self.items.get(piece.item as usize).map_or(OTHERS.len(), |item| item.what.others() as usize)
    }

    /// The piece at this place in the order of launches, and where it was launched.
    pub(super) fn launch(&self, at: usize) -> Option<(Origin, Piece)> {
        let (origin, group, span) = self.launches.get(at)?;
        let (item, bytes) = match group & MOVED {
            0 => (group, 0),
            _ => self.moved.get((group & !MOVED) as usize).copied()?,
        };
        let span = Some(span).filter(|(start, end)| start <= end);
        Some((origin, Piece { item, bytes, span }))
    }

    /// Where work of an item was queued, and its device.
    pub(super) fn queue(&self, item: u32) -> Option<(u32, u32)> {
        let device = self.items.get(item as usize)?.device?;
        Some((device.checked_add(1)?, device))
    }

    pub(super) fn device_name(&self, device: u32) -> &[u8] {
        self.devices.get(&device).map_or(&[], |name| name.as_bytes())
    }

    /// The shape of an item that is a kernel, and the number and the name of that kernel. Blocks
    /// and threads that are not known are zero.
    pub(super) fn shape(&self, item: u32) -> Option<(u32, &[u8], Shape)> {
        let (name, blocks_and_threads, details) = match self.items.get(item as usize)?.what {
            Ran::Kernel(name, blocks_and_threads, details) => (name, blocks_and_threads, details),
            Ran::OtherKernels => {
                let shape = Shape { id: item + 1, ..Shape::default() };
                return Some((self.names.len() as u32, OTHER_KERNELS.as_bytes(), shape));
            }
            Ran::Copy(_) | Ran::Fill | Ran::Graph(_) => return None,
        };
        let (number, name) = self.names.get(&name)?;
        let (grid, block) = grid_and_block(blocks_and_threads);
        let (grid, block) = grid.zip(block).unwrap_or_default();
        let [registers, fixed, dynamic, local] = details.map(Option::unwrap_or_default);
        let shape = Shape {
            id: item + 1,
            name: 0,
            grid,
            block,
            static_shared_bytes: fixed,
            dynamic_shared_bytes: dynamic,
            registers_per_thread: registers,
            local_bytes_per_thread: local,
        };
        Some((*number, name.as_deref().unwrap_or(NO_NAME).as_bytes(), shape))
    }

    pub(in crate::nsys) fn kernel(&self, shape: &Shape) -> Option<Kernel> {
        let item = self.items.get(shape.id.checked_sub(1)? as usize)?;
        if item.what == Ran::OtherKernels {
            let name = OTHER_KERNELS.into();
            return Some(Kernel { name, naming: Naming::Short, ..Kernel::default() });
        }
        let Ran::Kernel(name, blocks_and_threads, _) = item.what else { return None };
        let text = self.names.get(&name)?.1.as_ref();
        let (grid, block) = grid_and_block(blocks_and_threads);
        Some(Kernel {
            naming: text.map_or(Naming::Short, |_| name.0),
            name: text.cloned().unwrap_or_else(|| NO_NAME.into()),
            grid,
            block,
            device: item.device,
            ..Kernel::default()
        })
    }

    /// The record of a piece that was launched in `range` and ran from `start` to `end`.
    pub(super) fn record(
        &self,
        piece: &Piece,
        (start, end): (GpuNs, GpuNs),
        range: u64,
    ) -> Option<Record> {
        let item = self.items.get(piece.item as usize)?;
        let bytes = piece.bytes;
        let what = match item.what {
            Ran::Kernel(..) | Ran::OtherKernels => What::Kernel { shape: piece.item + 1 },
            Ran::Copy(kind) => What::Copy { bytes, kind },
            Ran::Fill => What::Fill { bytes },
            Ran::Graph(graph) => What::Graph { graph },
        };
        let queue = self.queue(piece.item).map_or(0, |(queue, _)| queue);
        let (correlation, graph_node) = (0, u64::from(item.in_graph));
        let work = GpuWork { what, start, end, queue, range, correlation, graph_node };
        Some(Record::Work(work))
    }
}

/// No kernel runs for days: such a time is damage.
const MAX_NS: u64 = 24 * 3600 * 1_000_000_000;

type NameId = (Naming, Option<i64>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ran {
    /// Its name, blocks and threads, registers and memory.
    Kernel(NameId, [Option<u32>; 6], [Option<u32>; 4]),
    Copy(u8),
    Fill,
    Graph(u32),
    /// All kernels of further kinds.
    OtherKernels,
}

/// The items for work beyond the limit on kinds, one for each sort of work. The position of an item is its
/// number.
const OTHERS: [Ran; 4] = [Ran::OtherKernels, Ran::Copy(0), Ran::Fill, Ran::Graph(u32::MAX)];

impl Ran {
    /// The number of the item that takes all further work of this sort.
    fn others(self) -> u32 {
        match self {
            Ran::Kernel(..) | Ran::OtherKernels => 0,
            Ran::Copy(_) => 1,
            Ran::Fill => 2,
            Ran::Graph(_) => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    what: Ran,
    pub(super) device: Option<u32>,
    pub(super) in_graph: bool,
}

/// Duration of a row; nothing where its times are impossible.
pub(super) fn duration_ns(start: Option<i64>, end: Option<i64>) -> Option<u64> {
    let (start, end) = (start?, end?);
    // Times before the session started are possible, an end of zero is CUPTI's "not taken".
    if end == 0 && start == 0 {
        return None;
    }
    u64::try_from(end.checked_sub(start)?).ok().filter(|ns| *ns <= MAX_NS)
}

/// The best name that a row has: the mangled one, else the demangled one, else the bare one.
pub(super) fn name_of(mangled: Option<i64>, demangled: Option<i64>, short: Option<i64>) -> NameId {
    match (mangled, demangled) {
        (Some(mangled), _) => (Naming::Mangled, Some(mangled)),
        (None, Some(demangled)) => (Naming::Demangled, Some(demangled)),
        (None, None) => (Naming::Short, short),
    }
}

fn grid_and_block(values: [Option<u32>; 6]) -> (Option<[u32; 3]>, Option<[u32; 3]>) {
    let [gx, gy, gz, bx, by, bz] = values;
    let all = |x: Option<u32>, y: Option<u32>, z: Option<u32>| Some([x?, y?, z?]);
    (all(gx, gy, gz), all(bx, by, bz))
}

pub(in crate::nsys) const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// More GPU work than this is counted but not placed in ranges (40 bytes each).
pub(in crate::nsys) const MAX_KERNELS: usize = 7_000_000;

/// The process in a global thread number.
pub(in crate::nsys) const PROCESS_BITS: i64 = !0x00ff_ffff;
/// A block of calls without any record was lost: the calls that nsys leaves out by design stand
/// between recorded ones, about 30 at a time.
const BLOCK: u32 = 1024;
/// Fewer lost blocks, or a smaller part of all, may be a part of the program that nsys does not trace.
const LOST_BLOCKS: u64 = 8;
const LOST_PART: u64 = 10;
/// Blocks that are remembered: those of a thousand million calls.
const MAX_BLOCKS: usize = 1 << 20;
/// Threads that launch. Work of further ones counts as work whose launch is not in the file.
const MAX_THREADS: usize = 1 << 20;
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Launch {
    /// Start and end of the work, ns.
    span: (i64, i64),
    /// When the API call began, ns.
    time: i64,
    correlation: u32,
    process: u32,
    group: u32,
    thread: u32,
}

/// The pieces are sorted once and the far more numerous API rows are streamed past them, so that
/// the database needs neither an index nor a join.
#[derive(Debug, Default)]
pub(in crate::nsys) struct Launches {
    processes: HashMap<i64, u32>,
    threads: HashMap<i64, u32>,
    launches: Vec<Launch>,
    /// Blocks of the sequence of calls of a process that have a record, up to [`MAX_BLOCKS`].
    blocks: HashSet<(i64, u32)>,
    more_blocks: bool,
}

impl Launches {
    /// Adds a piece of work; `group` and `span` come back with its launch.
    fn add(&mut self, process: i64, correlation: u32, group: u32, span: (i64, i64)) {
        let process = number(&mut self.processes, process & PROCESS_BITS);
        if self.launches.len() == self.launches.capacity() {
            // Doubling would go far beyond what is ever held.
            let most = MAX_KERNELS.saturating_sub(self.launches.len()).max(1);
            self.launches.reserve_exact(self.launches.len().clamp(64, most.max(64)));
        }
        self.launches.push(Launch { span, time: 0, correlation, process, group, thread: NOWHERE });
    }

    /// States where the piece that was added last was launched.
    fn place_last(&mut self, thread: i64, time: i64) {
        let thread = thread_number(&mut self.threads, thread);
        if let Some((thread, last)) = thread.zip(self.launches.last_mut()) {
            (last.thread, last.time) = (thread, time);
        }
    }

    /// Reads the API calls; gives their number even if an error ends the reading.
    fn read(&mut self, database: &Database, calls: &mut u64) -> rusqlite::Result<()> {
        self.sort();
        let mut last = None;
        database.rows_of(CALLS, &["start", "correlationId", "globalTid"], "", |row| {
            *calls += 1;
            if let (Some(correlation), Some(time)) = (small(integer(row, 1)), integer(row, 0)) {
                let thread = integer(row, 2).unwrap_or(0);
                let block = (thread & PROCESS_BITS, correlation / BLOCK);
                if last != Some(block) {
                    if self.blocks.len() < MAX_BLOCKS {
                        self.blocks.insert(block);
                    } else {
                        self.more_blocks |= !self.blocks.contains(&block);
                    }
                    last = Some(block);
                }
                self.call(thread, correlation, time);
            }
        })
    }

    /// Calls that must have been lost, about: zero where what is missing may be by design; nothing
    /// where there are too many blocks to tell.
    pub(in crate::nsys) fn call_numbers_missing(&self) -> Option<u64> {
        if self.more_blocks {
            return None;
        }
        let mut processes: HashMap<i64, (u32, u32, u64)> = HashMap::default();
        for &(process, block) in &self.blocks {
            let (first, last, seen) = processes.entry(process).or_insert((block, block, 0));
            (*first, *last, *seen) = ((*first).min(block), (*last).max(block), *seen + 1);
        }
        let missing = |(first, last, seen): (u32, u32, u64)| {
            let all = u64::from(last - first) + 1;
            let lost = all.saturating_sub(seen);
            if lost >= LOST_BLOCKS && lost >= all / LOST_PART { lost * u64::from(BLOCK) } else { 0 }
        };
        Some(processes.into_values().map(missing).sum())
    }

    fn sort(&mut self) {
        self.launches.sort_unstable_by_key(|l| (l.process, l.correlation, l.group));
    }

    /// Notes an API call on all work that it launched: a graph launch has many kernels. Of several
    /// calls with one id the first one counts.
    fn call(&mut self, thread: i64, correlation: u32, time: i64) {
        let Some(&process) = self.processes.get(&(thread & PROCESS_BITS)) else { return };
        let wanted = (process, correlation);
        let first = self.launches.partition_point(|l| (l.process, l.correlation) < wanted);
        let rest = self.launches.get_mut(first..).unwrap_or_default();
        let mut launched =
            rest.iter_mut().take_while(|l| (l.process, l.correlation) == wanted).peekable();
        if launched.peek().is_some_and(|l| l.thread == NOWHERE || time < l.time)
            && let Some(thread) = thread_number(&mut self.threads, thread)
        {
            launched.for_each(|l| (l.thread, l.time) = (thread, time));
        }
    }

    /// All work in the order of its launches; work whose launch was not found comes last.
    pub(in crate::nsys) fn in_order(mut self) -> InOrder {
        self.launches
            .sort_unstable_by_key(|l| (l.thread == NOWHERE, l.time, l.correlation, l.group));
        let (threads, processes) = (by_number(self.threads), by_number(self.processes));
        InOrder { launches: self.launches, threads, processes }
    }
}

/// Kinds of API calls that are told apart: CUDA has some hundred.
const MAX_KINDS: usize = 10_000;

/// Calls that launch a kernel or a graph, by their names; zero where these cannot be read.
fn launch_calls(database: &Database) -> u64 {
    let mut calls: HashMap<i64, u64> = HashMap::default();
    let read = database.rows_of(CALLS, &["nameId"], "", |row| {
        if let Some(name) = integer(row, 0)
            && (calls.len() < MAX_KINDS || calls.contains_key(&name))
        {
            *calls.entry(name).or_default() += 1;
        }
    });
    let launches = |name: i64| database.string(name).is_some_and(|name| name.contains("Launch"));
    let launched = calls.into_iter().filter(|(name, _)| launches(*name));
    read.map_or(0, |()| launched.map(|(_, calls)| calls).fold(0, u64::saturating_add))
}

#[derive(Debug, Default)]
pub(in crate::nsys) struct InOrder {
    launches: Vec<Launch>,
    /// Global numbers.
    threads: Vec<i64>,
    processes: Vec<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nsys) enum Origin {
    /// By the thread of this global number, at this time, ns.
    Call { thread: i64, time: i64 },
    /// Somewhere in this process: its API call is not in the file.
    Process(i64),
}

impl InOrder {
    /// Where the work at this place of the order was launched, with its group and its span.
    pub(in crate::nsys) fn get(&self, at: usize) -> Option<(Origin, u32, (i64, i64))> {
        let launch = self.launches.get(at)?;
        let origin = match self.threads.get(launch.thread as usize) {
            Some(&thread) => Origin::Call { thread, time: launch.time },
            None => Origin::Process(*self.processes.get(launch.process as usize)?),
        };
        Some((origin, launch.group, launch.span))
    }
}

fn by_number(numbers: HashMap<i64, u32>) -> Vec<i64> {
    let mut values: Vec<(i64, u32)> = numbers.into_iter().collect();
    values.sort_unstable_by_key(|&(_, number)| number);
    values.into_iter().map(|(value, _)| value).collect()
}

fn number(numbers: &mut HashMap<i64, u32>, value: i64) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(value).or_insert(next)
}

/// Nothing for a thread beyond [`MAX_THREADS`].
fn thread_number(threads: &mut HashMap<i64, u32>, thread: i64) -> Option<u32> {
    let has_room = threads.len() < MAX_THREADS || threads.contains_key(&thread);
    has_room.then(|| number(threads, thread))
}

const OWN_WORK: &str = "STAGE2_WORK_RANGES";
const OWN_RANGES: &str = "STAGE2_RANGES";
/// Range instances and pieces of work that are held (40 and 8 bytes each).
const MAX_RANGES: usize = 4_000_000;
const MAX_WORK: usize = 7_000_000;
/// Kinds of work, in the order of the tables that are read.
const OWN_KINDS: [&str; 4] = ["kernel", "memcpy", "memset", "graph"];
/// Stands for a range that is not known.
const UNKNOWN_RANGE: i64 = -1;
/// A thread of a process that opens no range.
const NO_RANGES: i64 = !PROCESS_BITS;

/// The collector records ranges and no API calls, so that these tables stand in for them.
#[derive(Debug)]
struct Own {
    /// Thread and start of each instance, by its process and its number.
    ranges: HashMap<(i64, i64), (i64, i64)>,
    /// The instance of each row of each kind.
    work: [Vec<i64>; OWN_KINDS.len()],
}

impl Own {
    /// Reads them; nothing where they are not there, or too large.
    fn read(database: &Database) -> Option<Own> {
        let table = |name| database.table(name).ok().flatten();
        let (work, ranges) = (table(OWN_WORK)?, table(OWN_RANGES)?);
        if !work.has("rangeId") {
            return None;
        }
        let mut own = Own { ranges: HashMap::default(), work: Default::default() };
        let mut pieces = 0_usize;
        let all = database.rows(&work, &["kind", "rangeId"], "", |row| {
            pieces += 1;
            let kind = text(row, 0).filter(|_| pieces <= MAX_WORK);
            let kind = kind.and_then(|kind| OWN_KINDS.iter().position(|known| *known == kind));
            if let Some(of_kind) = kind.and_then(|kind| own.work.get_mut(kind)) {
                of_kind.push(integer(row, 1).unwrap_or(UNKNOWN_RANGE));
            }
        });
        let mut instances = 0_usize;
        let columns = ["globalTid", "rangeId", "start"];
        let all = all.and_then(|()| {
            database.rows(&ranges, &columns, "", |row| {
                instances += 1;
                if let (Some(thread), Some(range), Some(start)) =
                    (integer(row, 0), integer(row, 1), integer(row, 2))
                    && instances <= MAX_RANGES
                {
                    own.ranges.insert((thread & PROCESS_BITS, range), (thread, start));
                }
            })
        });
        (all.is_ok() && pieces <= MAX_WORK && instances <= MAX_RANGES).then_some(own)
    }

    /// Thread and time of a row of a table, counted from 0.
    fn launch(&self, (table, row): (usize, usize), process: i64) -> Option<(i64, i64)> {
        let process = process & PROCESS_BITS;
        match *self.work.get(table)?.get(row)? {
            0 => Some((process | NO_RANGES, 0)),
            // A range within it that opens in the same nanosecond would get its work: NVTX calls take
            // longer than that.
            range => self.ranges.get(&(process, range)).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_times_are_no_duration() {
        assert_eq!(duration_ns(Some(5), Some(9)), Some(4));
        assert_eq!(duration_ns(Some(-5), Some(9)), Some(14));
        assert_eq!(duration_ns(Some(9), Some(9)), Some(0));
        for (start, end) in [
            (Some(9), Some(5)),
            (Some(i64::MIN), Some(i64::MAX)),
            (None, Some(1)),
            (Some(1), None),
            (Some(0), Some(0)),
            (Some(0), Some(i64::MAX)),
        ] {
            assert_eq!(duration_ns(start, end), None, "{start:?} {end:?}");
        }
    }

    const A: i64 = 1 << 24;
    const B: i64 = 2 << 24;

    #[test]
    fn a_kernel_belongs_to_the_call_of_its_own_process() {
        let mut launches = Launches::default();
        for (process, correlation, group) in [(B, 5, 2), (A, 5, 1), (A, 7, 3), (A, 7, 4), (A, 9, 5)]
        {
            launches.add(process, correlation, group, (0, 10));
        }
        launches.sort();
        for (thread, correlation, time) in [
            (A + 1, 5, 100),
            (B + 1, 5, 200),
            (A + 2, 7, 310),
            (A + 2, 7, 300),
            (A + 2, 7, 320),
            (A + 1, 8, 1),
        ] {
            launches.call(thread, correlation, time);
        }
        let launches = launches.in_order();
        let found: Vec<_> = (0..).map_while(|at| launches.get(at)).collect();
        let call = |thread, time| Origin::Call { thread, time };
        let expected = [
            (call(A + 1, 100), 1, (0, 10)),
            (call(B + 1, 200), 2, (0, 10)),
            (call(A + 2, 300), 3, (0, 10)),
            (call(A + 2, 300), 4, (0, 10)),
            // Its call is not in the file.
            (Origin::Process(A), 5, (0, 10)),
        ];
        assert_eq!(found, expected);
    }
}
