//! Tables of GPU work and of API calls -> kernels, copies, fills and graphs in the order of their
//! launches, what each of them is, and the counts of all of them.

mod described;

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use rusqlite::Row;
use stage2_model::nsys::Counts;

use super::super::database::{Database, integer, short_text};
use super::super::launches::{self, InOrder, Launches, MAX_KERNELS, Origin, PROCESS_BITS};
use super::item::{Item, NameId, OTHERS, Ran, duration_ns, name_of};
use super::limits::{LeftOut, Limits};
use super::own::Own;

pub(in crate::nsys) const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
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
/// The name of a kernel of which the file has none.
pub(in crate::nsys) const NO_NAME: &str = "(no name in the file)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Table {
    Kernels,
    Copies,
    Fills,
    Graphs,
}

/// Their names, and the columns of each behind the common ones.
const TABLES: [(Table, &str, &[&str]); 4] = [
    (
        Table::Kernels,
        KERNELS,
        &[
            "mangledName",
            "demangledName",
            "shortName",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "registersPerThread",
            "staticSharedMemory",
            "dynamicSharedMemory",
            "localMemoryPerThread",
        ],
    ),
    (Table::Copies, "CUPTI_ACTIVITY_KIND_MEMCPY", &["bytes", "copyKind"]),
    (Table::Fills, "CUPTI_ACTIVITY_KIND_MEMSET", &["bytes"]),
    (Table::Graphs, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", &["graphExecId", "graphId"]),
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) item: u32,
    bytes: u64,
    /// Start and end, ns; nothing where they are not valid.
    pub(super) span: Option<(i64, i64)>,
}

#[derive(Debug)]
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
    /// Names of the GPUs, by device number.
    pub(in crate::nsys) devices: BTreeMap<u32, String>,
    /// Room for work that is still left, in units of [`UNIT_BYTES`].
    room: usize,
    /// Processes with work that is held.
    held_processes: HashSet<i64>,
    last_process: Option<i64>,
    /// The table and its row that is read.
    at: (usize, usize),
    /// It is an export of ours, which says where work was launched.
    pub(in crate::nsys) is_own: bool,
    /// Pieces of each sort that are not held: without a number of their launch, or too many.
    not_held: [u64; OTHERS.len()],
    not_detailed: bool,
    pub(in crate::nsys) counts: Counts,
    /// Kernels beyond [`MAX_KERNELS`].
    pub(in crate::nsys) beyond_limit: u64,
    /// Tables that could not be read to their end, and why.
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
        let devices = database.table(DEVICES).and_then(|table| {
            let Some(table) = table else { return Ok(()) };
            database.rows(&table, &["id", "name"], "LIMIT 10000", |row| {
                work.devices.extend(small(integer(row, 0)).zip(short_text(row, 1)));
            })
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
            let (table, row) = work.at;
            if let Some((thread, time)) =
                own.as_ref().and_then(|own| own.launch(table, row, process))
            {
                launches.place_last(thread, time);
            }
        });
        let calls = database.table(launches::TABLE).and_then(|table| match table {
            Some(table) => launches.read(database, &table, &mut work.counts.api_calls),
            None => Ok(()),
        });
        work.cut_tables.extend(calls.err().map(|error| (launches::TABLE, error.to_string())));
        if work.counts.kernels == 0 && work.counts.api_calls > 0 {
            work.counts.launch_calls = launches::launch_calls(database);
        }
        let missing = launches.call_numbers_missing();
        work.left_out.call_numbers = missing.is_none();
        work.counts.call_numbers_missing = missing.unwrap_or(0);
        work.launches = launches.in_order();
        work.look_up_names(database);
        work
    }

    /// Empty, but for the items that take work beyond the limit on kinds.
    fn within(limits: Limits) -> Self {
        let other = |what| Item { what, device: None, in_graph: false };
        let items: Vec<Item> = OTHERS.map(other).to_vec();
        Self {
            limits,
            by_item: items.iter().copied().zip(0..).collect(),
            items,
            moved: Vec::new(),
            launches: InOrder::default(),
            names: HashMap::default(),
            devices: BTreeMap::new(),
            room: MAX_KERNELS * LAUNCH_UNITS,
            held_processes: HashSet::default(),
            last_process: None,
            at: (0, 0),
            is_own: false,
            not_held: [0; OTHERS.len()],
            not_detailed: false,
            counts: Counts::default(),
            beyond_limit: 0,
            cut_tables: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Hands all work to `take`, with its process, and with the number of its launch if it is to be
    /// held.
    fn each(
        &mut self,
        database: &Database,
        mut take: impl FnMut(&mut Self, i64, Option<u32>, Piece),
    ) {
        for (number, (kind, name, columns)) in TABLES.into_iter().enumerate() {
            let mut rows = 0;
            let read = database.table(name).and_then(|table| {
                let Some(table) = table else { return Ok(()) };
                let columns = [&COMMON[..], columns].concat();
                database.rows(&table, &columns, "", |row| {
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
                    let beyond = kind == Table::Kernels && launch.is_some() && held.is_none();
                    self.beyond_limit += u64::from(beyond);
                    take(self, process, held, piece);
                })
            });
            self.cut_tables.extend(read.err().map(|error| (name, error.to_string())));
        }
    }

    /// Work that is not held, with its process: nobody knows where it was launched.
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

    fn piece(&mut self, kind: Table, row: &Row<'_>) -> Option<Piece> {
        let own = |at: usize| integer(row, COMMON.len() + at);
        let bytes = |at: usize| own(at).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        let (start, end) = (integer(row, 0), integer(row, 1));
        let duration = duration_ns(start, end);
        let counts = &mut self.counts;
        let (what, bytes) = match kind {
            Table::Kernels => {
                counts.kernels += 1;
                counts.untimed += u64::from(duration.is_none());
                let total = &mut counts.kernel_total_ns;
                *total = total.saturating_add(duration.unwrap_or(0));
                let shape = std::array::from_fn(|at| small(own(3 + at)));
                let details = std::array::from_fn(|at| small(own(9 + at)));
                (Ran::Kernel(name_of(own(0), own(1), own(2)), shape, details), 0)
            }
            Table::Copies if own(1).is_some_and(|kind| kind > COPY_KINDS) => return None,
            Table::Copies => {
                (Ran::Copy(own(1).and_then(|kind| u8::try_from(kind).ok()).unwrap_or(0)), bytes(0))
            }
            Table::Fills => (Ran::Fill, bytes(0)),
            Table::Graphs => {
                counts.graph_launches += 1;
                let total = &mut counts.graph_total_ns;
                *total = total.saturating_add(duration.unwrap_or(0));
                (Ran::Graph(small(own(0).or(own(1))).unwrap_or(0)), 0)
            }
        };
        let in_graph = kind != Table::Graphs && integer(row, 5).is_some();
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

    /// Frees what is held of each piece of work.
    pub(super) fn forget_launches(&mut self) {
        (self.launches, self.moved) = (InOrder::default(), Vec::new());
    }

    /// The piece of work `piece`, counted among all other kinds; `None` if it is counted there
    /// already.
    pub(super) fn among_others(&self, piece: &Piece) -> Option<Piece> {
        let item = self.items.get(piece.item as usize)?.what.others();
        (item != piece.item).then_some(Piece { item, ..*piece })
    }

    pub(super) fn is_kernel(&self, piece: &Piece) -> bool {
        self.sort(piece) == 0
    }

    /// Its place in [`OTHERS`].
    fn sort(&self, piece: &Piece) -> usize {
        self.items.get(piece.item as usize).map_or(OTHERS.len(), |item| item.what.others() as usize)
    }

    /// Registers, shared and local memory are known of every kernel.
    pub(super) fn is_detailed(&self) -> bool {
        !self.not_detailed
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
}
