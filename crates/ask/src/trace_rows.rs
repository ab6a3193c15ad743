//! The trace files of a bundle -> the rows of the tables that only they fill.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use rusqlite::{Connection, params};
use serde_json::Value;
use stage2_contract::text::numbers::count;
use stage2_contract::text::visible;
use stage2_contract::trace::{RANGE_OUTSIDE, RANGE_UNKNOWN, ReadError};
use stage2_export::{Process, Run};
use stage2_model::{Report, StepUnit, kernel_ids};
use stage2_read::trace::events::{Event, Span, What, Work, state_name};

use crate::query::{Bundle, QueryError};
use crate::tables::TRACE_ROWS_MOST;

/// What `steps` does not have where an engine ran.
const STEPS_OF_ENGINE: &str = "steps has ranges; the time of an engine's step, which lasts until the next one starts, is \
     in step_times, and by batch size in engine_steps";
/// Events between two looks at the clock.
const EVENTS_PER_LOOK: u64 = 4_096;
/// Ranges around a range that are followed: a broken file may have a loop.
const DEPTH_MOST: usize = 1_000;

/// Fills those of the tables that are wanted. What the workload did not record, and what had no room, is said in sentences.
///
/// # Errors
/// When the time is over, or the memory, and when trace files have not all that the report was made of.
pub(crate) fn fill(
    connection: &Connection,
    bundle: &Bundle<'_>,
    wanted: &BTreeSet<&'static str>,
    deadline: Instant,
) -> Result<Vec<String>, QueryError> {
    // A count of rows that cannot be read would be 0, and not null.
    let tables = || wanted.iter().copied().collect::<Vec<_>>().join(", ");
    let run = Run::of_bundle(bundle.folder, bundle.libraries);
    let run = run.map_err(|error| QueryError::unfilled(&tables(), &error.to_string()))?;
    if let Some(why) = run.lost() {
        return Err(QueryError::unfilled(&tables(), &why));
    }
    let mut rows = Loader {
        connection,
        wanted,
        deadline,
        start_ns: run.span().map_or(0, |span| span.start_ns),
        names: Names::of(bundle.report),
        events: 0,
        loaded: HashMap::new(),
    };
    let mut said = Vec::new();
    for process in run.processes() {
        rows.process(process)?;
        said.extend(incomplete(process));
    }
    said.extend(rows.cut());
    let mut stages = bundle.report.answer.stages.iter().filter_map(|stage| stage.step.as_ref());
    if wanted.contains("steps") && stages.any(|step| step.unit == StepUnit::OfEngine) {
        said.push(STEPS_OF_ENGINE.to_owned());
    }
    Ok(said)
}

/// What is not in the rows of a process.
fn incomplete(process: &Process) -> Vec<String> {
    let (file, missing) = (visible(process.file.name().as_bytes()), process.file.missing());
    let sample = process.file.sample().map(|share| {
        format!(
            "{file} holds a sample ({share}) of the range instances, and so do these rows, unscaled"
        )
    });
    let missing =
        (!missing.is_empty()).then(|| format!("{file} is incomplete: {}", missing.join("; ")));
    sample.into_iter().chain(missing).collect()
}

/// Why a file is not read on.
enum Stop {
    /// It is damaged there, and its findings report it.
    Damage,
    Query(QueryError),
}

impl From<ReadError> for Stop {
    fn from(_: ReadError) -> Self {
        Self::Damage
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Query(QueryError::of_loading(&error))
    }
}

/// What the report calls kernels and steps.
struct Names<'r> {
    /// Ids of kernels by their full names.
    ids: HashMap<&'r str, &'r str>,
    /// The path of the steps of each stage.
    steps: HashMap<&'r str, &'r str>,
}

impl<'r> Names<'r> {
    fn of(report: &'r Report) -> Self {
        let ids = report.kernel_names.iter();
        let ids = ids.map(|name| (name.demangled.as_str(), name.id.as_str())).collect();
        let steps = report.answer.stages.iter();
        let steps = steps.filter_map(|stage| Some((stage.stage.as_str(), stage.step.as_ref()?)));
        let steps = steps.filter_map(|(stage, step)| Some((stage, step.path.as_deref()?)));
        Self { ids, steps: steps.collect() }
    }

    /// The path of the ranges that are the steps of a stage: the stage itself where nothing else is known.
    fn step_of<'s>(&self, stage: &'s str) -> &'s str
    where
        'r: 's,
    {
        self.steps.get(stage).copied().unwrap_or(stage)
    }
}

struct Loader<'l> {
    connection: &'l Connection,
    wanted: &'l BTreeSet<&'static str>,
    deadline: Instant,
    /// First event of the run.
    start_ns: i64,
    names: Names<'l>,
    events: u64,
    /// Rows of each table, also those that had no room.
    loaded: HashMap<&'static str, usize>,
}

/// A range instance.
struct Instance {
    parent: u64,
    /// Index of its path.
    path: usize,
    name: String,
    span: Span,
    /// It goes on under another path, and is not an instance of its own.
    continues: bool,
    /// Its number among the instances of its path.
    number: u64,
}

struct Launch {
    kind: &'static str,
    path: usize,
    /// Index of the kernel, or `None`.
    kernel: Option<usize>,
    range: u64,
    device: u32,
    stream: u32,
    span: Option<Span>,
    bytes: Option<u64>,
    in_graph: bool,
}

/// Texts, once each.
#[derive(Default)]
struct Texts<T> {
    indices: HashMap<String, usize>,
    kept: Vec<T>,
}

impl<T> Texts<T> {
    fn index(&mut self, text: &str, make: impl FnOnce() -> T) -> usize {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        self.indices.insert(text.to_owned(), self.kept.len());
        self.kept.push(make());
        self.kept.len() - 1
    }
}

/// A path: its stage, and all of it.
type PathTexts = (String, String);
/// A kernel: its id and its short name.
type KernelTexts = (String, String);

/// What is kept of a process until its ranges are numbered.
#[derive(Default)]
struct Held {
    launches: Vec<Launch>,
    ranges: HashMap<u64, Instance>,
    paths: Texts<PathTexts>,
    kernels: Texts<KernelTexts>,
    /// Kernels launched in a range, under a path: their number, and the sum of their durations.
    work: HashMap<(u64, usize), (i64, i64)>,
}

impl Loader<'_> {
    /// Whether there is room for another row of a table.
    fn takes(&mut self, table: &'static str) -> bool {
        let loaded = self.loaded.entry(table).or_default();
        *loaded += 1;
        *loaded <= TRACE_ROWS_MOST
    }

    fn cut(self) -> Vec<String> {
        let over = self.loaded.into_iter().filter(|(_, rows)| *rows > TRACE_ROWS_MOST);
        let said = over.map(|(table, rows)| {
            let (most, rows) = (count(TRACE_ROWS_MOST as u64), count(rows as u64));
            format!("{table} holds the first {most} of {rows} rows")
        });
        let mut said: Vec<String> = said.collect();
        said.sort();
        said
    }

    fn since(&self, ns: i64) -> i64 {
        ns.saturating_sub(self.start_ns)
    }

    fn process(&mut self, process: &Process) -> Result<(), QueryError> {
        let mut held = Held::default();
        let read = process.file.for_each(|event| self.event(process, event, &mut held));
        match read {
            Ok(()) | Err(Stop::Damage) => {}
            Err(Stop::Query(error)) => return Err(error),
        }
        held.number();
        self.insert(process, &held).map_err(|error| match error {
            Stop::Query(error) => error,
            Stop::Damage => QueryError::damaged(),
        })
    }

    fn event(&mut self, process: &Process, event: Event<'_>, held: &mut Held) -> Result<(), Stop> {
        self.events += 1;
        if self.events.is_multiple_of(EVENTS_PER_LOOK) && Instant::now() > self.deadline {
            return Err(Stop::Query(QueryError::time_in_traces()));
        }
        match event {
            Event::Work(work) => {
                if self.wanted.contains("steps") {
                    held.add(&work);
                }
                if self.wanted.contains("launches") && self.takes("launches") {
                    self.launch(work, held);
                }
            }
            // Launches are numbered by their ranges.
            Event::Range(range) => {
                if !range.continues && !self.takes("ranges") {
                    return Ok(());
                }
                let path = held.path(&range.path.label, range.path.stage());
                let instance = Instance {
                    parent: range.parent,
                    path,
                    name: range.name.to_owned(),
                    span: range.span,
                    continues: range.continues,
                    number: 0,
                };
                // What goes on under another path keeps the one that it was opened with.
                match range.continues {
                    true => drop(held.ranges.entry(range.id).or_insert(instance)),
                    false => drop(held.ranges.insert(range.id, instance)),
                }
            }
            Event::Sample(sample) if self.wanted.contains("host_samples") => {
                if !self.takes("host_samples") {
                    return Ok(());
                }
                let doing = serde_json::to_value(sample.doing).unwrap_or_default();
                let mut row = self.connection.prepare_cached(
                    "INSERT INTO host_samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )?;
                row.execute(params![
                    process.file.name(),
                    signed(process.rank),
                    sample.thread.name,
                    sample.thread.os_tid,
                    state_name(sample.state),
                    doing.as_str(),
                    sample.frame.map(|frame| frame.text()),
                    self.since(sample.span.start_ns),
                    sample.span.ns(),
                ])?;
            }
            Event::Request { request, arrived_ns } if self.wanted.contains("requests") => {
                if !self.takes("requests") {
                    return Ok(());
                }
                let mut row = self.connection.prepare_cached(
                    "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )?;
                row.execute(params![
                    signed(Some(request.number)),
                    process.file.name(),
                    arrived_ns.map(|ns| self.since(ns)),
                    signed(request.queue_ns),
                    signed(request.first_token_ns),
                    signed(request.total_ns),
                    signed(Some(request.prompt_tokens)),
                    signed(Some(request.cached_tokens)),
                    signed(Some(request.output_tokens)),
                    signed(Some(request.preemptions)),
                    request.aborted,
                ])?;
            }
            Event::Sample(_)
            | Event::Request { .. }
            | Event::Mark { .. }
            | Event::Call(_)
            | Event::Step(_) => {}
        }
        Ok(())
    }

    fn launch(&self, work: Work<'_>, held: &mut Held) {
        let path = held.path(&work.path.label, work.path.stage());
        let (kind, kernel, bytes) = match work.what {
            What::Kernel(_, name) => {
                let known = self.names.ids.get(name.demangled.as_str());
                let kernel = || {
                    let id = known.map(|id| (*id).to_owned());
                    let id = id.or_else(|| kernel_ids(std::slice::from_ref(name)).pop());
                    (id.unwrap_or_default(), name.short.clone())
                };
                ("kernel", Some(held.kernels.index(&name.demangled, kernel)), None)
            }
            What::Copy { bytes, .. } => ("copy", None, Some(bytes)),
            What::Fill { bytes } => ("fill", None, Some(bytes)),
            What::Graph { .. } => ("graph", None, None),
        };
        held.launches.push(Launch {
            kind,
            path,
            kernel,
            range: work.range,
            device: work.queue.device,
            stream: work.queue.stream,
            span: work.span,
            bytes,
            in_graph: work.graph_node != 0,
        });
    }

    fn insert(&mut self, process: &Process, held: &Held) -> Result<(), Stop> {
        let (file, rank) = (process.file.name(), signed(process.rank));
        self.insert_ranges(process, held)?;
        let mut row = self.connection.prepare_cached(
            "INSERT INTO launches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        for launch in &held.launches {
            let (stage, path) = held.texts(launch.path);
            let step = held.number_around(launch.range, self.names.step_of(stage));
            let kernel = launch.kernel.and_then(|index| held.kernels.kept.get(index));
            row.execute(params![
                launch.kind,
                stage,
                held.number_around(launch.range, stage),
                step,
                path,
                kernel.map(|(id, _)| id),
                kernel.map(|(_, name)| name),
                file,
                rank,
                launch.device,
                launch.stream,
                launch.span.map(|span| self.since(span.start_ns)),
                launch.span.map(Span::ns),
                signed(launch.bytes),
                launch.in_graph,
            ])?;
        }
        Ok(())
    }

    /// Rows of `ranges`, and of those that are `steps`, in the order of their starts.
    fn insert_ranges(&self, process: &Process, held: &Held) -> Result<(), Stop> {
        let wants = |table| self.wanted.contains(table);
        if !wants("ranges") && !wants("steps") {
            return Ok(());
        }
        let mut work: HashMap<(&str, i64), (i64, i64)> = HashMap::new();
        for ((range, path), (kernels, ns)) in &held.work {
            let (stage, _) = held.texts(*path);
            if let Some(step) = held.number_around(*range, self.names.step_of(stage)) {
                let of_step = work.entry((stage, step)).or_default();
                *of_step = (of_step.0 + kernels, of_step.1.saturating_add(*ns));
            }
        }
        let (file, rank) = (process.file.name(), signed(process.rank));
        let sql = "INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let mut range_row = self.connection.prepare_cached(sql)?;
        let sql = "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let mut step_row = self.connection.prepare_cached(sql)?;
        let mut ranges: Vec<(&u64, &Instance)> = held.ranges.iter().collect();
        ranges.sort_unstable_by_key(|(id, _)| **id);
        for (id, instance) in ranges.into_iter().filter(|(_, instance)| !instance.continues) {
            let (stage, path) = held.texts(instance.path);
            let (number, around) = (signed(Some(instance.number)), held.number_around(*id, stage));
            let (start, ns) = (self.since(instance.span.start_ns), instance.span.ns());
            let is_step = self.names.step_of(stage) == path;
            if is_step && wants("steps") {
                let (kernels, sum) =
                    number.and_then(|step| work.get(&(stage, step)).copied()).unwrap_or_default();
                let row = params![stage, file, rank, number, around, start, ns, kernels, sum];
                step_row.execute(row)?;
            }
            if wants("ranges") {
                let name = &instance.name;
                let row =
                    params![stage, path, name, number, around, is_step, file, rank, start, ns];
                range_row.execute(row)?;
            }
        }
        Ok(())
    }
}

impl Held {
    fn path(&mut self, label: &str, stage: &str) -> usize {
        self.paths.index(label, || (stage.to_owned(), label.to_owned()))
    }

    /// Adds what was launched to the sums of its range.
    fn add(&mut self, work: &Work<'_>) {
        if let What::Kernel(..) = work.what {
            let path = self.path(&work.path.label, work.path.stage());
            let (kernels, ns) = self.work.entry((work.range, path)).or_default();
            *kernels += 1;
            *ns = ns.saturating_add(work.span.map_or(0, Span::ns));
        }
    }

    fn texts(&self, path: usize) -> (&str, &str) {
        let texts = self.paths.kept.get(path);
        texts.map_or(("", ""), |(stage, path)| (stage.as_str(), path.as_str()))
    }

    /// Numbers the instances of each path: identifiers grow with each opening.
    fn number(&mut self) {
        let mut ids: Vec<u64> = self.ranges.keys().copied().collect();
        ids.sort_unstable();
        let mut numbers: HashMap<usize, u64> = HashMap::new();
        for id in ids {
            let Some(instance) = self.ranges.get_mut(&id).filter(|of| !of.continues) else {
                continue;
            };
            let next = numbers.entry(instance.path).or_default();
            instance.number = *next;
            *next += 1;
        }
    }

    /// The number of the instance of `path` that a range is, or lies in.
    fn number_around(&self, range: u64, path: &str) -> Option<i64> {
        if [RANGE_OUTSIDE, RANGE_UNKNOWN].contains(&range) {
            return None;
        }
        let parent = |instance: &&Instance| self.ranges.get(&instance.parent);
        let around = std::iter::successors(self.ranges.get(&range), parent).take(DEPTH_MOST);
        let mut around = around.filter(|instance| !instance.continues);
        let found = around.find(|instance| self.texts(instance.path).1 == path)?;
        signed(Some(found.number))
    }
}

/// SQLite's integers are signed.
fn signed(value: Option<u64>) -> Option<i64> {
    value.map(|value| i64::try_from(value).unwrap_or(i64::MAX))
}

/// A value of JSON as SQLite holds it.
pub(crate) fn sql_value(value: &Value) -> rusqlite::types::Value {
    use rusqlite::types::Value as Sql;
    match value {
        Value::Null => Sql::Null,
        Value::Bool(value) => Sql::Integer(i64::from(*value)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Sql::Integer(integer),
            (None, Some(real)) => Sql::Real(real),
            (None, None) => Sql::Null,
        },
        Value::String(text) => Sql::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => Sql::Text(value.to_string()),
    }
}
