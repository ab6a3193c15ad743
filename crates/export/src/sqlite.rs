//! SQLite with the tables of an nsys export, so that scripts and `nsys stats` reports for them work.
//!
//! The collector records no CUDA API calls. So there is no table of them, and reports that join
//! kernels to ranges through API calls find nothing; `STAGE2_WORK_RANGES` holds the exact range of
//! each kernel instead, with the number of its instance, which `STAGE2_RANGES` explains: 0 is outside of
//! all, null is not known.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Statement, ToSql, params};
use rustc_hash::{FxHashMap, FxHashSet};
use stage2_contract::text::visible;
use stage2_contract::trace::{NONE, Payload, RANGE_OUTSIDE, RANGE_UNKNOWN, Shape};
use stage2_model::HostFrame;
use stage2_read::trace::events::{
    Event, HostCall, HostSample, Range, Request, Step, Thread, What, Work, state_name,
};

use crate::host::{Stacks, StepRequests, json_list, step_numbers};
use crate::run::Process;
use crate::selection::{Holds, Selected};
use crate::{Counts, ExportError, names, output};

pub(crate) fn write(
    selected: &Selected<'_>,
    out: &Path,
    counts: &mut Counts,
) -> Result<Vec<PathBuf>, ExportError> {
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
            let requests = StepRequests::of(selected.run);
            for process in selected.run.processes() {
                tables.process(process).map_err(failed)?;
                tables.stacks = Stacks::default();
                selected.for_each(process, Holds::Tables, counts, |event| {
                    match event {
                        Event::Work(work) => tables.work(process, &work),
                        Event::Range(range) => tables.range(process, &range),
                        Event::Mark { at_ns, thread, name, payload } => {
                            let event = Nvtx { kind: MARK, text: name, ..Nvtx::default() };
                            let at = tables.since(at_ns);
                            tables.nvtx(process, &event, (at, None), thread.os_tid, payload)
                        }
                        Event::Sample(sample) => tables.sample(process, &sample),
                        Event::Call(call) => tables.call(process, &call),
                        Event::Step(step) => {
                            let requests = requests.of_step(selected.run, process, &step);
                            tables.step(process, &step, &requests)
                        }
                        Event::Request { request, arrived_ns } => {
                            tables.request(process, request, arrived_ns)
                        }
                    }
                    .map_err(failed)
                })?;
            }
            tables.about_run(selected).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    })
}

struct Tables<'c> {
    kernel: Statement<'c>,
    copy: Statement<'c>,
    fill: Statement<'c>,
    graph: Statement<'c>,
    event: Statement<'c>,
    ranges: Statement<'c>,
    instances: Statement<'c>,
    string: Statement<'c>,
    sample: Statement<'c>,
    stack: Statement<'c>,
    call: Statement<'c>,
    step: Statement<'c>,
    request: Statement<'c>,
    stacks: Stacks,
    connection: &'c Connection,
    strings: FxHashMap<String, i64>,
    /// Texts of the host among the strings.
    host_strings: usize,
    domains: FxHashMap<(u32, String), i64>,
    threads: FxHashSet<i64>,
    start_ns: i64,
}

/// What an NVTX event has in addition to its times.
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
            sample: insert(
                connection,
                "STAGE2_HOST_SAMPLES",
                "start, end, globalTid, state, activityId, lineId, stackId, holdsGil, holderGlobalTid, \
                 holderLineId",
            )?,
            stack: insert(connection, "STAGE2_HOST_STACKS", "globalPid, stackId, lines")?,
            call: insert(
                connection,
                "STAGE2_HOST_CALLS",
                "start, end, globalTid, nameId, lineId, stackId",
            )?,
            step: insert(
                connection,
                "STAGE2_ENGINE_STEPS",
                "start, end, rangeEnd, globalTid, rangeId, number, kind, prefillRequests, \
                 prefillTokens, prefillContextTokens, decodeRequests, decodeTokens, \
                 decodeContextTokens, draftTokens, requests",
            )?,
            request: insert(
                connection,
                "STAGE2_REQUESTS",
                "globalPid, number, arrived, queueNs, firstTokenNs, totalNs, promptTokens, \
                 cachedTokens, outputTokens, firstStep, promptStep, lastStep, promptSteps, \
                 preemptions, aborted, draftTokens, acceptedTokens",
            )?,
            stacks: Stacks::default(),
            connection,
            strings: FxHashMap::default(),
            host_strings: 0,
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

    /// The number of a text of the host. After very many, one text stands for all further ones.
    fn host_string(&mut self, text: &str) -> rusqlite::Result<i64> {
        if self.strings.contains_key(text) {
            return self.string(text);
        }
        self.host_strings += 1;
        self.string(if self.host_strings > HOST_STRINGS { MORE_TEXTS } else { text })
    }

    fn line(&mut self, line: Option<&HostFrame>) -> rusqlite::Result<Option<i64>> {
        line.map(|line| self.host_string(&line.text())).transpose()
    }

    /// The number of a stack that is a separate row, where it has lines.
    fn stack(&mut self, process: &Process, stack: u32) -> rusqlite::Result<Option<u32>> {
        if let Some(lines) = self.stacks.first(&process.file, stack) {
            self.stack.execute(params![global_pid(process), stack, lines])?;
        }
        Ok((stack != NONE).then_some(stack))
    }

    fn thread(&mut self, process: &Process, thread: Thread<'_>) -> rusqlite::Result<i64> {
        let tid = global_tid(process, thread.os_tid);
        if !thread.name.is_empty() && self.threads.insert(tid) {
            let name = self.string(thread.name)?;
            self.connection
                .execute("INSERT INTO ThreadNames VALUES (?, NULL, ?)", params![name, tid])?;
        }
        Ok(tid)
    }

    fn sample(&mut self, process: &Process, sample: &HostSample<'_>) -> rusqlite::Result<()> {
        let (start, end) = (self.since(sample.span.start_ns), self.since(sample.span.end_ns));
        let tid = self.thread(process, sample.thread)?;
        let holder = sample.holder.map(|holder| self.thread(process, holder)).transpose()?;
        let activity = self.host_string(&sample.text())?;
        let (line, holder_line) = (self.line(sample.frame)?, self.line(sample.holder_frame)?);
        let stack = self.stack(process, sample.stack)?;
        let state = state_name(sample.state);
        self.sample.execute(params![
            start,
            end,
            tid,
            state,
            activity,
            line,
            stack,
            sample.holds_gil,
            holder,
            holder_line
        ])?;
        Ok(())
    }

    fn call(&mut self, process: &Process, call: &HostCall<'_>) -> rusqlite::Result<()> {
        let (start, end) = (self.since(call.span.start_ns), self.since(call.span.end_ns));
        let tid = self.thread(process, call.thread)?;
        let name = self.host_string(&call.name)?;
        let line = self.line(call.frame)?;
        let stack = self.stack(process, call.stack)?;
        self.call.execute(params![start, end, tid, name, line, stack])?;
        Ok(())
    }

    fn step(
        &mut self,
        process: &Process,
        step: &Step<'_>,
        requests: &[u64],
    ) -> rusqlite::Result<()> {
        let (start, end) = (self.since(step.span.start_ns), self.since(step.span.end_ns));
        let range_end = self.since(step.range_end_ns);
        let tid = self.thread(process, step.thread)?;
        let (range, number) = (signed(step.range), step.number.map(signed));
        let kind = step.kind.to_string();
        let counts = step_numbers(step).map(|(_, value)| value.map(signed));
        let requests = json_list(requests);
        let head: [&dyn ToSql; 7] = [&start, &end, &range_end, &tid, &range, &number, &kind];
        let counts = counts.iter().map(|value| value as &dyn ToSql);
        let row: Vec<&dyn ToSql> =
            head.into_iter().chain(counts).chain([&requests as &dyn ToSql]).collect();
        self.step.execute(row.as_slice())?;
        Ok(())
    }

    fn request(
        &mut self,
        process: &Process,
        request: &Request,
        arrived_ns: Option<i64>,
    ) -> rusqlite::Result<()> {
        let Request { queue_ns, first_token_ns, total_ns, steps, .. } = *request;
        self.request.execute(params![
            global_pid(process),
            signed(request.number),
            arrived_ns.map(|at_ns| self.since(at_ns)),
            queue_ns.map(signed),
            first_token_ns.map(signed),
            total_ns.map(signed),
            signed(request.prompt_tokens),
            signed(request.cached_tokens),
            signed(request.output_tokens),
            steps.map(|steps| signed(steps.first)),
            steps.map(|steps| signed(steps.prompt)),
            steps.map(|steps| signed(steps.last)),
            steps.map(|steps| signed(steps.of_prompt)),
            signed(request.preemptions),
            request.aborted,
            signed(request.draft_tokens),
            signed(request.accepted_tokens),
        ])?;
        Ok(())
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
                let Shape { grid, block, registers_per_thread: registers, .. } = shape;
                let shared = [shape.static_shared_bytes, shape.dynamic_shared_bytes];
                let numbers = [registers].into_iter().chain(grid).chain(block).chain(&shared);
                let mut values: Vec<&dyn ToSql> =
                    [&head[..], &[&demangled, &short, &mangled]].concat();
                values.extend(numbers.map(|number| number as &dyn ToSql));
                values.extend([&shape.local_bytes_per_thread as &dyn ToSql, &node, &0i64, &0i64]);
                ("kernel", self.kernel.insert(values.as_slice())?)
            }
            What::Copy { bytes, kind } => {
                let (bytes, unknown) = (i64::try_from(bytes).unwrap_or(i64::MAX), MEMORY_NOT_KNOWN);
                let more: [&dyn ToSql; 5] = [&node, &bytes, &kind, &unknown, &unknown];
                ("memcpy", self.copy.insert([&head[..], &more].concat().as_slice())?)
            }
            What::Fill { bytes } => {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                let more: [&dyn ToSql; 4] = [&node, &bytes, &0i64, &MEMORY_NOT_KNOWN];
                ("memset", self.fill.insert([&head[..], &more].concat().as_slice())?)
            }
            What::Graph { graph } => {
                let more: [&dyn ToSql; 2] = [&graph, &graph];
                ("graph", self.graph.insert([&head[..], &more].concat().as_slice())?)
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
        let tid = self.thread(process, range.thread)?;
        let event = Nvtx {
            kind: if range.start_end { START_END } else { PUSH_POP },
            text: range.name,
            domain: self.domain(process, range.domain)?,
            category: range.category,
            range: range.start_end.then_some(range.id),
            fields: names::json_text(range.fields),
        };
        let start = self.since(range.span.start_ns);
        self.instances.execute(params![tid, i64::try_from(range.id).ok(), start])?;
        let times = (start, Some(self.since(range.span.end_ns)));
        self.nvtx(process, &event, times, range.thread.os_tid, range.payload)
    }

    /// The number of a domain, which its own event names.
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
                    visible(&device.name),
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
        let labels = [("ENUM_CUDA_MEMCPY_OPER", &COPIES[..]), ("ENUM_CUDA_MEM_KIND", &MEMORY[..])];
        for (table, labels) in labels {
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

/// SQLite's integers are signed.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The bare name of a kernel, as nsys has it: no return type, namespaces, template arguments, parameters.
fn short_name(demangled: &str) -> &str {
    let mut depth = 0usize;
    let (mut start, mut end) = (0, None);
    let mut before = ' ';
    for (at, c) in demangled.char_indices() {
        match c {
            // `(anonymous namespace)` is no list of parameters.
            '(' if depth == 0 && (before == ':' || before == ' ') => depth += 1,
            '(' if depth == 0 => {
                end.get_or_insert(at);
                break;
            }
            '<' if depth == 0 => {
                end = Some(at);
                depth += 1;
            }
            '(' | '<' | '[' | '{' => depth += 1,
            ')' | '>' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' | ' ' if depth == 0 => (start, end) = (at + 1, None),
            _ => {}
        }
        before = c;
    }
    let name = demangled.get(start..end.unwrap_or(demangled.len())).unwrap_or(demangled);
    if name.is_empty() { demangled } else { name }
}

/// The tables: names, columns and constraints as nsys 2023.4 to 2026.2 write them.
const SCHEMA: &str = "
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
  launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL,
  gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
  localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
  sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER,
  dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER,
  dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER,
  copyCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (
  start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER,
  textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL,
  uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT,
  binaryData TEXT);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE TARGET_INFO_GPU (
  vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER,
  l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER,
  smCount INTEGER, uuid TEXT, computeMajor INTEGER, computeMinor INTEGER);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE ANALYSIS_DETAILS (
  globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL,
  stopTime INTEGER NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE STAGE2_WORK_RANGES (
  kind TEXT NOT NULL, workRowId INTEGER NOT NULL, rangePath TEXT NOT NULL, stage TEXT NOT NULL,
  rangeId INTEGER);
CREATE TABLE STAGE2_RANGES (
  globalTid INTEGER NOT NULL, rangeId INTEGER NOT NULL, start INTEGER NOT NULL);
CREATE TABLE STAGE2_HOST_SAMPLES (
  start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER NOT NULL, state TEXT NOT NULL,
  activityId INTEGER NOT NULL, lineId INTEGER, stackId INTEGER, holdsGil INTEGER NOT NULL,
  holderGlobalTid INTEGER, holderLineId INTEGER);
CREATE TABLE STAGE2_HOST_STACKS (
  globalPid INTEGER NOT NULL, stackId INTEGER NOT NULL, lines TEXT NOT NULL);
CREATE TABLE STAGE2_HOST_CALLS (
  start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER NOT NULL, nameId INTEGER NOT NULL,
  lineId INTEGER, stackId INTEGER);
CREATE TABLE STAGE2_ENGINE_STEPS (
  start INTEGER NOT NULL, end INTEGER NOT NULL, rangeEnd INTEGER NOT NULL,
  globalTid INTEGER NOT NULL, rangeId INTEGER NOT NULL, number INTEGER, kind TEXT NOT NULL,
  prefillRequests INTEGER NOT NULL, prefillTokens INTEGER, prefillContextTokens INTEGER,
  decodeRequests INTEGER NOT NULL, decodeTokens INTEGER, decodeContextTokens INTEGER,
  draftTokens INTEGER NOT NULL, requests TEXT);
CREATE TABLE STAGE2_REQUESTS (
  globalPid INTEGER NOT NULL, number INTEGER NOT NULL, arrived INTEGER, queueNs INTEGER,
  firstTokenNs INTEGER, totalNs INTEGER, promptTokens INTEGER NOT NULL,
  cachedTokens INTEGER NOT NULL, outputTokens INTEGER NOT NULL, firstStep INTEGER,
  promptStep INTEGER, lastStep INTEGER, promptSteps INTEGER, preemptions INTEGER NOT NULL,
  aborted INTEGER NOT NULL, draftTokens INTEGER NOT NULL, acceptedTokens INTEGER NOT NULL);
";

/// Distinct texts of the host, and the one that represents all further ones.
const HOST_STRINGS: usize = 1 << 16;
const MORE_TEXTS: &str = "(more texts than are kept)";

/// Labels of `copyKind` and of kinds of memory; reports of nsys join them.
const COPIES: [&str; 11] = [
    "Unknown",
    "Host-to-Device",
    "Device-to-Host",
    "Host-to-Array",
    "Array-to-Host",
    "Array-to-Array",
    "Array-to-Device",
    "Device-to-Array",
    "Device-to-Device",
    "Host-to-Host",
    "Peer-to-Peer",
];
const MEMORY: [&str; 8] = [
    "Pageable",
    "Pinned",
    "Device",
    "Array",
    "Managed",
    "Device Static",
    "Managed Static",
    "Unknown",
];
/// The collector keeps no kind of memory.
const MEMORY_NOT_KNOWN: i64 = 7;

/// `NVTX_EVENTS.eventType`.
const MARK: i64 = 34;
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const DOMAIN_CREATE: i64 = 75;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_name_is_the_bare_one() {
        assert_eq!(short_name("void at::native::vectorized<4, float>(int)"), "vectorized");
        assert_eq!(short_name("gemm_128x128"), "gemm_128x128");
        let nested = "void at::native::(anonymous namespace)::elementwise<4>(int)";
        assert_eq!(short_name(nested), "elementwise");
        assert_eq!(short_name("void cub::Agent<int, a::b>::Kernel<3>(int*)"), "Kernel");
        assert_eq!(short_name("void f<(a)1>((anonymous namespace)::T)"), "f");
        assert_eq!(short_name("kernel()"), "kernel");
        assert_eq!(short_name("<lambda>"), "<lambda>");
    }
}
