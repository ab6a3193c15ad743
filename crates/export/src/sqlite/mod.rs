//! SQLite with the tables of an nsys export, so that scripts and `nsys stats` reports for them work.
//!
//! The collector records no CUDA API calls. So there is no table of them, and reports that join
//! kernels to ranges through API calls find nothing; `STAGE2_WORK_RANGES` holds the exact range of
//! each kernel instead, with the number of its instance, which `STAGE2_RANGES` explains: 0 is outside of
//! all, null is not known.

mod schema;
mod short_name;

use std::io;
use std::path::Path;

use rusqlite::{Connection, Statement, ToSql, params};
use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::trace::{Payload, RANGE_OUTSIDE, RANGE_UNKNOWN};
use stage2_read::trace::events::{Event, Range, What, Work};

use crate::run::Process;
use crate::selection::Selected;
use crate::{Counts, ExportError, Exported, fields, output};
use schema::{COPIES, DOMAIN_CREATE, MARK, MEMORY, MEMORY_NOT_KNOWN, PUSH_POP, SCHEMA, START_END};
use short_name::short_name;

pub(crate) fn write(selected: &Selected<'_>, out: &Path) -> Result<Exported, ExportError> {
    let mut counts = Counts::default();
    output::by_path(out, |path| {
        let failed = |error: rusqlite::Error| ExportError::write(out)(io::Error::other(error));
        let mut connection = Connection::open(path).map_err(failed)?;
        // The file counts only once it is whole, so that nothing has to survive a crash.
        connection
            .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
            .and_then(|()| connection.execute_batch(SCHEMA))
            .map_err(failed)?;
        let transaction = connection.transaction().map_err(failed)?;
        {
            let mut tables = Tables::prepare(&transaction, selected).map_err(failed)?;
            for process in selected.run.processes() {
                tables.process(process).map_err(failed)?;
                selected.for_each(process, false, &mut counts, |event| {
                    match event {
                        Event::Work(work) => tables.work(process, &work),
                        Event::Range(range) => tables.range(process, &range),
                        Event::Mark { at_ns, thread, name, payload } => {
                            let event = Nvtx { kind: MARK, text: name, ..Nvtx::default() };
                            let at = tables.since(at_ns);
                            tables.nvtx(process, &event, (at, None), thread.os_tid, payload)
                        }
                    }
                    .map_err(failed)
                })?;
            }
            tables.about_run(selected).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    })?;
    Ok(Exported { files: vec![out.to_owned()], counts, ..Exported::default() })
}

/// Statements that fill the tables.
struct Tables<'c> {
    kernel: Statement<'c>,
    copy: Statement<'c>,
    fill: Statement<'c>,
    graph: Statement<'c>,
    event: Statement<'c>,
    ranges: Statement<'c>,
    instances: Statement<'c>,
    string: Statement<'c>,
    connection: &'c Connection,
    strings: FxHashMap<String, i64>,
    domains: FxHashMap<(u32, String), i64>,
    threads: FxHashSet<i64>,
    start_ns: i64,
}

/// What an NVTX event has beside its times.
#[derive(Default)]
struct Nvtx<'a> {
    kind: i64,
    text: &'a str,
    domain: i64,
    category: u32,
    range: Option<u64>,
    /// Typed values, as JSON.
    fields: Option<String>,
}

fn insert<'c>(
    connection: &'c Connection,
    table: &str,
    columns: &str,
) -> rusqlite::Result<Statement<'c>> {
    let marks = vec!["?"; columns.split(',').count()].join(", ");
    connection.prepare(&format!("INSERT INTO {table} ({columns}) VALUES ({marks})"))
}

fn global_pid(process: &Process) -> i64 {
    (1 << 48) | (i64::from(process.pid & 0xff_ffff) << 24)
}

fn global_tid(process: &Process, os_tid: u32) -> i64 {
    global_pid(process) | i64::from(os_tid & 0xff_ffff)
}

impl<'c> Tables<'c> {
    fn prepare(connection: &'c Connection, selected: &Selected<'_>) -> rusqlite::Result<Self> {
        const WORK: &str = "start, end, deviceId, contextId, streamId, correlationId, globalPid";
        let work = |table: &str, columns: &str| {
            let table = format!("CUPTI_ACTIVITY_KIND_{table}");
            insert(connection, &table, &format!("{WORK}, {columns}"))
        };
        Ok(Self {
            kernel: work(
                "KERNEL",
                "demangledName, shortName, mangledName, registersPerThread, gridX, gridY, gridZ, \
                 blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, \
                 localMemoryPerThread, graphNodeId, localMemoryTotal, gridId",
            )?,
            copy: work("MEMCPY", "graphNodeId, bytes, copyKind, srcKind, dstKind")?,
            fill: work("MEMSET", "graphNodeId, bytes, value, memKind")?,
            graph: work("GRAPH_TRACE", "graphId, graphExecId")?,
            event: insert(
                connection,
                "NVTX_EVENTS",
                "start, end, eventType, rangeId, category, text, globalTid, domainId, \
                 uint64Value, int64Value, doubleValue, jsonText",
            )?,
            ranges: insert(
                connection,
                "STAGE2_WORK_RANGES",
                "kind, workRowId, rangePath, stage, rangeId",
            )?,
            instances: insert(connection, "STAGE2_RANGES", "globalTid, rangeId, start")?,
            string: insert(connection, "StringIds", "id, value")?,
            connection,
            strings: FxHashMap::default(),
            domains: FxHashMap::default(),
            threads: FxHashSet::default(),
            start_ns: selected.start_ns(),
        })
    }

    fn since(&self, at_ns: i64) -> i64 {
        at_ns.saturating_sub(self.start_ns)
    }

    fn string(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.strings.get(text) {
            return Ok(id);
        }
        let id = self.strings.len() as i64;
        self.string.execute(params![id, text])?;
        self.strings.insert(text.to_owned(), id);
        Ok(id)
    }

    fn process(&mut self, process: &Process) -> rusqlite::Result<()> {
        let row = params![global_pid(process), process.pid, process.title()];
        self.connection.execute("INSERT INTO PROCESSES VALUES (?, ?, ?)", row)?;
        Ok(())
    }

    fn work(&mut self, process: &Process, work: &Work<'_>) -> rusqlite::Result<()> {
        let Some(span) = work.span else { return Ok(()) };
        let (start, end) = (self.since(span.start_ns), self.since(span.end_ns));
        let queue = work.queue;
        let gpu = process.gpu(queue.device);
        let (correlation, pid) = (work.correlation as i64, global_pid(process));
        let node = (work.graph_node != 0).then_some(work.graph_node as i64);
        let head: [&dyn ToSql; 7] =
            [&start, &end, &gpu, &queue.context, &queue.stream, &correlation, &pid];
        let (kind, row) = match work.what {
            What::Kernel(shape, name) => {
                let demangled = self.string(&name.demangled)?;
                let short = self.string(short_name(&name.demangled))?;
                let mangled = self.string(&name.mangled)?;
                let [gx, gy, gz] = shape.grid;
                let [bx, by, bz] = shape.block;
                let more: [&dyn ToSql; 16] = [
                    &demangled,
                    &short,
                    &mangled,
                    &shape.registers_per_thread,
                    &gx,
                    &gy,
                    &gz,
                    &bx,
                    &by,
                    &bz,
                    &shape.static_shared_bytes,
                    &shape.dynamic_shared_bytes,
                    &shape.local_bytes_per_thread,
                    &node,
                    &0i64,
                    &0i64,
                ];
                let values: Vec<&dyn ToSql> = head.into_iter().chain(more).collect();
                ("kernel", self.kernel.insert(values.as_slice())?)
            }
            What::Copy { bytes, kind } => {
                let unknown = &MEMORY_NOT_KNOWN;
                let more: [&dyn ToSql; 5] =
                    [&node, &i64::try_from(bytes).unwrap_or(i64::MAX), &kind, unknown, unknown];
                let values: Vec<&dyn ToSql> = head.into_iter().chain(more).collect();
                ("memcpy", self.copy.insert(values.as_slice())?)
            }
            What::Fill { bytes } => {
                let more: [&dyn ToSql; 4] =
                    [&node, &i64::try_from(bytes).unwrap_or(i64::MAX), &0i64, &MEMORY_NOT_KNOWN];
                let values: Vec<&dyn ToSql> = head.into_iter().chain(more).collect();
                ("memset", self.fill.insert(values.as_slice())?)
            }
            What::Graph { graph } => {
                let more: [&dyn ToSql; 2] = [&graph, &graph];
                let values: Vec<&dyn ToSql> = head.into_iter().chain(more).collect();
                ("graph", self.graph.insert(values.as_slice())?)
            }
        };
        let instance = match work.range {
            RANGE_OUTSIDE => Some(0),
            RANGE_UNKNOWN => None,
            id => i64::try_from(id).ok(),
        };
        self.ranges.execute(params![kind, row, work.path.label, work.path.stage(), instance])?;
        Ok(())
    }

    fn range(&mut self, process: &Process, range: &Range<'_>) -> rusqlite::Result<()> {
        let tid = global_tid(process, range.thread.os_tid);
        if !range.thread.name.is_empty() && self.threads.insert(tid) {
            let name = self.string(range.thread.name)?;
            self.connection
                .execute("INSERT INTO ThreadNames VALUES (?, NULL, ?)", params![name, tid])?;
        }
        let event = Nvtx {
            kind: if range.start_end { START_END } else { PUSH_POP },
            text: range.name,
            domain: self.domain(process, range.domain)?,
            category: range.category,
            range: range.start_end.then_some(range.id),
            fields: fields::text(range.fields),
        };
        let start = self.since(range.span.start_ns);
        self.instances.execute(params![tid, i64::try_from(range.id).ok(), start])?;
        let times = (start, Some(self.since(range.span.end_ns)));
        self.nvtx(process, &event, times, range.thread.os_tid, range.payload)
    }

    /// The number of a domain, which an event of its own names.
    fn domain(&mut self, process: &Process, name: &str) -> rusqlite::Result<i64> {
        if name.is_empty() {
            return Ok(0);
        }
        let key = (process.pid, name.to_owned());
        if let Some(&id) = self.domains.get(&key) {
            return Ok(id);
        }
        let id = self.domains.len() as i64 + 1;
        self.domains.insert(key, id);
        let event = Nvtx { kind: DOMAIN_CREATE, text: name, domain: id, ..Nvtx::default() };
        self.nvtx(process, &event, (0, None), 0, None)?;
        Ok(id)
    }

    fn nvtx(
        &mut self,
        process: &Process,
        event: &Nvtx<'_>,
        (start, end): (i64, Option<i64>),
        os_tid: u32,
        payload: Option<Payload>,
    ) -> rusqlite::Result<()> {
        let (unsigned, signed, float) = match payload {
            Some(Payload::U64(value)) => (Some(value as i64), None, None),
            Some(Payload::I64(value)) => (None, Some(value), None),
            Some(Payload::F64(value)) => (None, None, Some(value)),
            None => (None, None, None),
        };
        self.event.execute(params![
            start,
            end,
            event.kind,
            event.range.map(|id| id as i64),
            event.category,
            event.text,
            global_tid(process, os_tid),
            event.domain,
            unsigned,
            signed,
            float,
            event.fields,
        ])?;
        Ok(())
    }

    fn about_run(&mut self, selected: &Selected<'_>) -> rusqlite::Result<()> {
        for (id, gpu) in selected.run.gpus().iter().enumerate() {
            let device = &gpu.device;
            self.connection.execute(
                "INSERT INTO TARGET_INFO_GPU (vmId, id, name, l2CacheSize, totalMemory, memoryBandwidth, \
                 clockRate, smCount, uuid, computeMajor, computeMinor) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    1i64 << 48,
                    id as i64,
                    stage2_contract::text::visible(&device.name),
                    device.l2_bytes,
                    device.memory_bytes as i64,
                    // As nsys, in bytes a second; CUPTI gives kB.
                    device.bandwidth_kb_per_s.saturating_mul(1_000) as i64,
                    i64::from(device.core_clock_khz) * 1_000,
                    device.multiprocessors,
                    device.uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
                    device.compute_capability.0,
                    device.compute_capability.1,
                ],
            )?;
        }
        for (table, labels) in
            [("ENUM_CUDA_MEMCPY_OPER", &COPIES[..]), ("ENUM_CUDA_MEM_KIND", &MEMORY[..])]
        {
            let mut row = insert(self.connection, table, "id, name, label")?;
            for (id, label) in labels.iter().enumerate() {
                row.execute(params![id as i64, label, label])?;
            }
        }
        let duration = selected.run.span().map_or(0, |span| span.ns());
        self.connection.execute(
            "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, NULL, NULL)",
            [self.start_ns],
        )?;
        self.connection.execute(
            "INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)",
            [1i64 << 48, duration, duration],
        )?;
        let about = [
            ("EXPORT_PRODUCT_NAME", "stage2"),
            ("EXPORT_PRODUCT_VERSION", env!("CARGO_PKG_VERSION")),
            ("EXPORT_SCHEMA_VERSION", "3.7.2"),
            ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
            ("EXPORT_SCHEMA_VERSION_MINOR", "7"),
            ("EXPORT_SCHEMA_VERSION_MICRO", "2"),
        ];
        let clocks = selected.run.clocks().map(|clocks| ("STAGE2_CLOCKS", clocks));
        for (name, value) in about.into_iter().chain(clocks) {
            self.connection.execute("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", [name, value])?;
        }
        Ok(())
    }
}
