//! Tables of GPU work and of API calls -> kernels, copies, fills and graphs in the order of their
//! launches, what each of them is, and the counts of all of them.

use std::collections::BTreeMap;

use rusqlite::Row;
use rustc_hash::FxHashMap;
use stage2_model::nsys::Counts;
use stage2_spool::{GpuNs, GpuWork, Record, Shape, What};

use super::super::database::{Database, integer, text};
use super::super::launches::{self, InOrder, Launches, MAX_KERNELS, Origin, PROCESS_BITS};
use super::super::{Kernel, Naming};

pub(in crate::nsys::load) const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const DEVICES: &str = "TARGET_INFO_GPU";
/// Columns that all of these tables have.
const COMMON: [&str; 6] = ["start", "end", "deviceId", "correlationId", "globalPid", "graphNodeId"];
/// Copies between memories that CUDA itself makes of managed memory follow these kinds: nobody
/// launched them, and the collector does not record them.
const COPY_KINDS: i64 = 10;
/// Marks the number of something whose bytes count.
const MOVED: u32 = 1 << 31;
/// No kernel runs for days: such a time is damage.
const MAX_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Stands for the times of a piece that has none.
const UNTIMED: (i64, i64) = (1, 0);
/// The name of a kernel of which the file has none.
pub(in crate::nsys::load) const NO_NAME: &str = "(no name in the file)";

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

/// A kernel's name, as the number of its text.
type NameId = (Naming, Option<i64>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ran {
    /// Its name, blocks and threads, registers and memory.
    Kernel(NameId, [Option<u32>; 6], [Option<u32>; 4]),
    Copy(u8),
    Fill,
    Graph(u32),
}

/// What ran where; work of one item is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Item {
    what: Ran,
    device: Option<u32>,
    in_graph: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) item: u32,
    bytes: u64,
    /// Start and end, ns; nothing where they are not valid.
    pub(super) span: Option<(i64, i64)>,
}

#[derive(Debug, Default)]
pub(in crate::nsys::load) struct Work {
    items: Vec<Item>,
    by_item: FxHashMap<Item, u32>,
    /// Items and bytes of copies and fills.
    moved: Vec<(u32, u64)>,
    launches: InOrder,
    /// Numbers and texts of the names of kernels; none: the file lacks the text.
    names: FxHashMap<NameId, (u32, Option<String>)>,
    /// Names of the GPUs, by device number.
    pub(in crate::nsys::load) devices: BTreeMap<u32, String>,
    held: usize,
    /// There is work that is not held: without a number of its launch, or too much.
    pub(super) has_more: bool,
    not_detailed: bool,
    pub(in crate::nsys::load) counts: Counts,
    /// Kernels beyond [`MAX_KERNELS`].
    pub(in crate::nsys::load) beyond_limit: u64,
    /// Tables that could not be read to their end, and why.
    pub(in crate::nsys::load) cut_tables: Vec<(&'static str, String)>,
}

/// Duration of a row; nothing where its times are impossible.
fn duration_ns(start: Option<i64>, end: Option<i64>) -> Option<u64> {
    let (start, end) = (start?, end?);
    // Times before the session started are possible, an end of zero is CUPTI's "not taken".
    if end == 0 && start == 0 {
        return None;
    }
    u64::try_from(end.checked_sub(start)?).ok().filter(|ns| *ns <= MAX_NS)
}

fn name_of(mangled: Option<i64>, demangled: Option<i64>, short: Option<i64>) -> NameId {
    match (mangled, demangled) {
        (Some(mangled), _) => (Naming::Mangled, Some(mangled)),
        (None, Some(demangled)) => (Naming::Demangled, Some(demangled)),
        (None, None) => (Naming::Short, short),
    }
}

fn small(value: Option<i64>) -> Option<u32> {
    u32::try_from(value?).ok()
}

impl Work {
    /// Reads the tables; what came before an error is kept.
    pub(super) fn read(database: &Database) -> Self {
        let mut work = Self::default();
        let devices = database.table(DEVICES).and_then(|table| {
            let Some(table) = table else { return Ok(()) };
            database.rows(&table, &["id", "name"], "LIMIT 10000", |row| {
                work.devices.extend(small(integer(row, 0)).zip(text(row, 1)));
            })
        });
        work.cut_tables.extend(devices.err().map(|error| (DEVICES, error.to_string())));
        let mut launches = Launches::default();
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
        });
        let calls = database.table(launches::TABLE).and_then(|table| match table {
            Some(table) => launches.read(database, &table, &mut work.counts.api_calls),
            None => Ok(()),
        });
        work.cut_tables.extend(calls.err().map(|error| (launches::TABLE, error.to_string())));
        work.counts.call_numbers_missing = launches.call_numbers_missing();
        work.launches = launches.in_order();
        work.look_up_names(database);
        work
    }

    /// Hands all work to `take`, with its process, and with the number of its launch if it is to be
    /// held.
    fn each(
        &mut self,
        database: &Database,
        mut take: impl FnMut(&mut Self, i64, Option<u32>, Piece),
    ) {
        for (kind, name, columns) in TABLES {
            let read = database.table(name).and_then(|table| {
                let Some(table) = table else { return Ok(()) };
                let columns = [&COMMON[..], columns].concat();
                database.rows(&table, &columns, "", |row| {
                    let Some(piece) = self.piece(kind, row) else { return };
                    let launch = small(integer(row, 3));
                    let held = launch.filter(|_| self.held < MAX_KERNELS);
                    self.held += usize::from(held.is_some());
                    self.has_more |= held.is_none();
                    let beyond = kind == Table::Kernels && launch.is_some() && held.is_none();
                    self.beyond_limit += u64::from(beyond);
                    take(self, integer(row, 4).unwrap_or(0), held, piece);
                })
            });
            self.cut_tables.extend(read.err().map(|error| (name, error.to_string())));
        }
    }

    /// Work that is not held, with its process: nobody knows where it was launched.
    pub(super) fn more(&self, database: &Database, mut take: impl FnMut(&Work, i64, &Piece)) {
        // The same items get the same numbers again.
        Work::default().each(database, |_, process, correlation, piece| {
            if correlation.is_none() {
                take(self, process & PROCESS_BITS, &piece);
            }
        });
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
        let fresh = self.items.len() as u32;
        let number = *self.by_item.entry(item).or_insert(fresh);
        if number == fresh {
            if let Ran::Kernel(_, _, details) = item.what {
                self.not_detailed |= details.contains(&None);
            }
            self.items.push(item);
        }
        number
    }

    fn look_up_names(&mut self, database: &Database) {
        for item in &self.items {
            let Ran::Kernel(id, ..) = item.what else { continue };
            let number = self.names.len() as u32;
            let name = || (number, id.1.and_then(|text| database.string(text)));
            self.names.entry(id).or_insert_with(name);
        }
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
        let Ran::Kernel(name, blocks_and_threads, details) = self.items.get(item as usize)?.what
        else {
            return None;
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

    /// The kernel of a shape, without its sums.
    pub(in crate::nsys::load) fn kernel(&self, shape: &Shape) -> Option<Kernel> {
        let item = self.items.get(shape.id.checked_sub(1)? as usize)?;
        let Ran::Kernel(name, blocks_and_threads, _) = item.what else { return None };
        let text = self.names.get(&name)?.1.as_ref();
        let (grid, block) = grid_and_block(blocks_and_threads);
        Some(Kernel {
            naming: text.map_or(Naming::Short, |_| name.0),
            name: text.cloned().unwrap_or_else(|| NO_NAME.to_owned()),
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
            Ran::Kernel(..) => What::Kernel { shape: piece.item + 1 },
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

/// Blocks and threads in x, y and z, where each is known.
fn grid_and_block(values: [Option<u32>; 6]) -> (Option<[u32; 3]>, Option<[u32; 3]>) {
    let [gx, gy, gz, bx, by, bz] = values;
    let all = |x: Option<u32>, y: Option<u32>, z: Option<u32>| Some([x?, y?, z?]);
    (all(gx, gy, gz), all(bx, by, bz))
}

#[cfg(test)]
mod tests {
    use super::duration_ns;

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
}
