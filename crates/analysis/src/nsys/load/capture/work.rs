//! Tables of GPU work and of API calls -> kernels, copies, fills and graphs in the order of their
//! launches, and what each of them is.

use std::collections::BTreeMap;

use rusqlite::Row;
use rustc_hash::FxHashMap;
use stage2_spool::{Copy, Fill, GpuNs, GraphLaunch, Kernel, Record, Shape};

use super::super::database::{Database, integer};
use super::super::kernels::{duration_ns, name_of};
use super::super::launches::{self, InOrder, Launches, MAX_KERNELS, PROCESS_BITS, Placed};

/// Columns that all of these tables have.
const COMMON: [&str; 6] = ["start", "end", "deviceId", "correlationId", "globalPid", "graphNodeId"];
/// Copies between memories that CUDA itself makes of managed memory follow these kinds: nobody
/// launched them, and the collector does not record them.
const COPY_KINDS: i64 = 10;
/// Marks the number of something whose bytes count.
const MOVED: u32 = 1 << 31;

/// Tables of GPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Table {
    Kernels,
    Copies,
    Fills,
    Graphs,
}

const TABLES: [Table; 4] = [Table::Kernels, Table::Copies, Table::Fills, Table::Graphs];

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Kernels => super::super::kernels::TABLE,
            Table::Copies => "CUPTI_ACTIVITY_KIND_MEMCPY",
            Table::Fills => "CUPTI_ACTIVITY_KIND_MEMSET",
            Table::Graphs => "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        }
    }

    /// Columns of its own, behind the common ones.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Kernels => &[
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
            Table::Copies => &["bytes", "copyKind"],
            Table::Fills => &["bytes"],
            Table::Graphs => &["graphExecId", "graphId"],
        }
    }
}

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// Name as the file has it, blocks and threads, registers and memory.
    Kernel(Option<i64>, [Option<i64>; 6], [Option<i64>; 4]),
    Copy(u8),
    Fill,
    Graph(u32),
}

/// What ran where; work of one item is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Item {
    what: What,
    device: Option<u32>,
    in_graph: bool,
}

/// Start and end, ns; the end is before the start where they are not known.
#[derive(Clone, Copy, Debug)]
struct Times(i64, i64);

/// One piece of GPU work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Number of what ran.
    pub(super) item: u32,
    /// Bytes that were moved.
    bytes: u64,
    /// Start and end, ns; nothing where they are not valid.
    pub(super) span: Option<(i64, i64)>,
}

/// All GPU work of an export.
#[derive(Default)]
pub(super) struct Work {
    items: Vec<Item>,
    by_item: FxHashMap<Item, u32>,
    /// Items and bytes of copies and fills.
    moved: Vec<(u32, u64)>,
    launches: InOrder<Times>,
    /// Names of kernels, by their number in the file.
    names: FxHashMap<Option<i64>, (u32, Vec<u8>)>,
    devices: BTreeMap<u32, Vec<u8>>,
    held: usize,
    /// There is work that is not held: without a number of its launch, or too much.
    pub(super) has_more: bool,
    not_detailed: bool,
}

impl Work {
    /// Reads the tables; what came before an error is kept. Gives errors of tables that nothing
    /// else reads.
    pub(super) fn read(&mut self, database: &Database) -> Vec<(&'static str, rusqlite::Error)> {
        // Its errors are in the findings of the tables.
        let _ = database.devices(|id, name| drop(self.devices.insert(id, name.into_bytes())));
        let mut errors = Vec::new();
        let mut launches = Launches::default();
        let read = self.each(database, |work, process, correlation, piece| {
            let Some(correlation) = correlation else { return };
            let Times(start, end) = piece.span.map_or(Times(1, 0), |(a, b)| Times(a, b));
            let group = match piece.bytes {
                0 => piece.item,
                bytes => {
                    work.moved.push((piece.item, bytes));
                    (work.moved.len() - 1) as u32 | MOVED
                }
            };
            launches.kernel(process, Some(correlation), group, Times(start, end));
        });
        errors.extend(read.into_iter().filter(|(table, _)| *table != Table::Kernels.name()));
        if let Ok(Some(table)) = database.table(launches::TABLE) {
            // Its errors are in the findings of the tables.
            let _ = launches.read(database, &table, &mut 0);
        }
        self.launches = launches.in_order();
        self.named(database);
        errors
    }

    /// Hands all work that is held to `take`, or what is not.
    fn each(
        &mut self,
        database: &Database,
        mut take: impl FnMut(&mut Self, Option<i64>, Option<u32>, Piece),
    ) -> Vec<(&'static str, rusqlite::Error)> {
        let mut errors = Vec::new();
        for kind in TABLES {
            let read = database.table(kind.name()).and_then(|table| {
                let Some(table) = table else { return Ok(()) };
                let columns = [&COMMON[..], kind.columns()].concat();
                database.rows(&table, &columns, "", |row| {
                    let Some(piece) = self.piece(kind, row) else { return };
                    let correlation = integer(row, 3).and_then(|id| u32::try_from(id).ok());
                    let correlation = correlation.filter(|_| self.held < MAX_KERNELS);
                    self.held += usize::from(correlation.is_some());
                    self.has_more |= correlation.is_none();
                    take(self, integer(row, 4), correlation, piece);
                })
            });
            errors.extend(read.err().map(|error| (kind.name(), error)));
        }
        errors
    }

    /// Work that is not held, with its process: nobody knows where it was launched.
    pub(super) fn more(&self, database: &Database, mut take: impl FnMut(&Work, i64, &Piece)) {
        // The same items get the same numbers again.
        let mut again = Work { devices: self.devices.clone(), ..Work::default() };
        let _ = again.each(database, |_, process, correlation, piece| {
            if correlation.is_none() {
                take(self, process.unwrap_or(0) & PROCESS_BITS, &piece);
            }
        });
    }

    fn piece(&mut self, kind: Table, row: &Row<'_>) -> Option<Piece> {
        let own = |at: usize| integer(row, COMMON.len() + at);
        let bytes = |at: usize| own(at).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        let small = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
        let (what, bytes) = match kind {
            Table::Kernels => {
                let (_, name) = name_of(own(0), own(1), own(2));
                let shape = std::array::from_fn(|at| own(3 + at));
                let details = std::array::from_fn(|at| own(9 + at));
                (What::Kernel(name, shape, details), 0)
            }
            Table::Copies if own(1).is_some_and(|kind| kind > COPY_KINDS) => return None,
            Table::Copies => {
                (What::Copy(own(1).and_then(|kind| u8::try_from(kind).ok()).unwrap_or(0)), bytes(0))
            }
            Table::Fills => (What::Fill, bytes(0)),
            Table::Graphs => (What::Graph(small(own(0).or(own(1))).unwrap_or(0)), 0),
        };
        let in_graph = integer(row, 5).is_some();
        let item = self.item(Item { what, device: small(integer(row, 2)), in_graph });
        let (start, end) = (integer(row, 0), integer(row, 1));
        let span = duration_ns(start, end).and_then(|_| start.zip(end));
        Some(Piece { item, bytes, span })
    }

    fn item(&mut self, item: Item) -> u32 {
        let fresh = self.items.len() as u32;
        let number = *self.by_item.entry(item).or_insert(fresh);
        if number == fresh {
            if let What::Kernel(_, _, details) = item.what {
                self.not_detailed |= details.iter().any(|&value| limited(value).is_none());
            }
            self.items.push(item);
        }
        number
    }

    /// Looks the names of the kernels up.
    fn named(&mut self, database: &Database) {
        for item in &self.items {
            let What::Kernel(id, ..) = item.what else { continue };
            let number = self.names.len() as u32;
            self.names.entry(id).or_insert_with(|| {
                let name = id.and_then(|id| database.string(id));
                (number, name.unwrap_or_else(|| "(no name in the file)".into()).into_bytes())
            });
        }
    }

    /// Registers, shared and local memory are known of every kernel.
    pub(super) fn is_detailed(&self) -> bool {
        !self.not_detailed
    }

    /// The piece at this place in the order of launches, with its thread and the time of its
    /// launch; the last ones have none.
    pub(super) fn launch(&self, at: usize) -> Option<(Placed<()>, Piece)> {
        let Placed { group, times: Times(start, end), time, thread, known } =
            self.launches.get(at)?;
        let (item, bytes) = match group & MOVED {
            0 => (group, 0),
            _ => self.moved.get((group & !MOVED) as usize).copied()?,
        };
        let span = (start <= end).then_some((start, end));
        Some((Placed { group, times: (), time, thread, known }, Piece { item, bytes, span }))
    }

    /// Where work of an item was queued, and its device.
    pub(super) fn queue(&self, item: u32) -> Option<(u32, u32)> {
        let device = self.items.get(item as usize)?.device?;
        Some((device.checked_add(1)?, device))
    }

    /// Name of a device; empty where it is not known.
    pub(super) fn device_name(&self, device: u32) -> &[u8] {
        self.devices.get(&device).map_or(&[], Vec::as_slice)
    }

    /// The shape of an item that is a kernel, and the number and the name of that kernel. Blocks
    /// and threads that are not known are zero.
    pub(super) fn shape(&self, item: u32) -> Option<(u32, &[u8], Shape)> {
        let What::Kernel(name, [gx, gy, gz, bx, by, bz], details) =
            self.items.get(item as usize)?.what
        else {
            return None;
        };
        let (number, name) = self.names.get(&name)?;
        let all = |of: [Option<i64>; 3]| -> Option<[u32; 3]> {
            let [x, y, z] = of.map(limited);
            Some([x?, y?, z?])
        };
        let launch = all([gx, gy, gz]).zip(all([bx, by, bz]));
        let (grid, block) = launch.unwrap_or_default();
        let [registers, fixed, dynamic, local] = details.map(|value| limited(value).unwrap_or(0));
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
        Some((*number, name, shape))
    }

    /// The record of a piece that was launched in `range` and ran from and to `span`.
    pub(super) fn record(&self, piece: &Piece, span: (GpuNs, GpuNs), range: u64) -> Option<Record> {
        let item = self.items.get(piece.item as usize)?;
        let queue = self.queue(piece.item).map_or(0, |(queue, _)| queue);
        let ((start, end), bytes) = (span, piece.bytes);
        let (correlation, graph_node) = (0, u64::from(item.in_graph));
        Some(match item.what {
            What::Kernel(..) => {
                let shape = piece.item + 1;
                Record::Kernel(Kernel { start, end, shape, queue, range, correlation, graph_node })
            }
            What::Copy(kind) => Record::Copy(Copy {
                start,
                end,
                queue,
                range,
                correlation,
                graph_node,
                bytes,
                kind,
            }),
            What::Fill => {
                Record::Fill(Fill { start, end, queue, range, correlation, graph_node, bytes })
            }
            What::Graph(graph) => {
                Record::GraphLaunch(GraphLaunch { start, end, queue, range, correlation, graph })
            }
        })
    }
}

fn limited(value: Option<i64>) -> Option<u32> {
    u32::try_from(value?).ok()
}
