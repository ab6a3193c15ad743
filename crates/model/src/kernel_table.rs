//! The rows of kernels as `metrics.json` has them: a table with columns. As objects, a thousand rows would
//! repeat their keys, names and launch configurations and be three quarters of the file.
//!
//! Reads the list of objects as well that version 1 of the report had in its place.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::counters::CounterRow;
use crate::report::Sources;
use crate::rows::{KernelRow, Launch, Times};

/// The columns of a row, each with what it holds. A later version may add some at the end.
pub const KERNEL_COLUMNS: [(&str, &str); 20] = [
    ("name", "Index in `names`."),
    ("range", "Index in `ranges`."),
    ("device", "Index in `devices`."),
    ("launch", "Index in `launches`; null where the capture does not define it."),
    ("calls", "Executions, with valid timestamps or not."),
    (
        "total_ns",
        "Sum of the durations, ns. Overlapping executions count each; null: none was timed.",
    ),
    ("mean_ns", "Mean duration of an execution, ns, rounded; null: not known."),
    ("min_ns", "Duration of the shortest execution, ns, exact."),
    ("p50_ns", "Median duration of an execution, ns, accurate to 1.6 %."),
    ("p99_ns", "99th percentile of the durations, ns, accurate to 1.6 %."),
    ("max_ns", "Duration of the longest execution, ns, exact."),
    ("first_start_ns", "Start of the first execution, ns after `begin_gpu_ns`."),
    ("last_end_ns", "End of the last execution, ns after `begin_gpu_ns`."),
    (
        "cold_calls",
        "Of `calls`, those in the first, cold instance of the stage in each process, where shares leave it out.",
    ),
    ("cold_total_ns", "The part of `total_ns` that is in `cold_calls`, ns."),
    ("graph_calls", "Executions that a CUDA graph launched."),
    ("sources", "Index in `sources`."),
    (
        "recorded_calls",
        "Executions that were recorded, where `calls`, `graph_calls`, `invalid_timestamp_calls` and \
         `total_ns` are scaled from a sample; null: they are what was recorded.",
    ),
    (
        "invalid_timestamp_calls",
        "Executions without valid timestamps: they are in `calls`, but in none of the times.",
    ),
    ("counters", "What ncu measured of it; null: not profiled."),
];
/// What is written first and read without need: the names of the columns.
const FIELDS: &[&str] =
    &["begin_gpu_ns", "names", "ranges", "devices", "launches", "sources", "columns", "rows"];

/// Writes rows as a table.
pub(crate) fn serialize<S: Serializer>(rows: &[KernelRow], to: S) -> Result<S::Ok, S::Error> {
    let times =
        || rows.iter().flat_map(|row| [row.times.first_start_gpu_ns, row.times.last_end_gpu_ns]);
    let begin_gpu_ns = times().flatten().min().unwrap_or(0);
    let names = Distinct::of(rows, |row| Name {
        kernel_id: &row.kernel_id,
        kernel: &row.kernel,
        name_index: row.name_index,
        class: &row.class,
    });
    let ranges = Distinct::of(rows, |row| Range {
        stage: &row.stage,
        path: &row.path,
        path_index: row.path_index,
    });
    let devices =
        Distinct::of(rows, |row| Device { device: &row.device, simulated: row.simulated });
    let launches = Distinct::of(rows, |row| row.launch);
    let sources = Distinct::of(rows, |row| row.sources);
    let cells = Rows {
        rows,
        at: [&names.at, &ranges.at, &devices.at, &launches.at, &sources.at],
        begin_gpu_ns,
    };

    let mut table = to.serialize_struct("Kernels", FIELDS.len())?;
    table.serialize_field("begin_gpu_ns", &begin_gpu_ns)?;
    table.serialize_field("names", &names.values)?;
    table.serialize_field("ranges", &ranges.values)?;
    table.serialize_field("devices", &devices.values)?;
    table.serialize_field("launches", &launches.values)?;
    table.serialize_field("sources", &sources.values)?;
    table.serialize_field("columns", &KERNEL_COLUMNS.map(|(name, _)| name))?;
    table.serialize_field("rows", &cells)?;
    table.end()
}

/// The name of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
struct Name<'r> {
    kernel_id: &'r str,
    kernel: &'r str,
    name_index: usize,
    class: &'r str,
}

/// Where kernels were launched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
struct Range<'r> {
    stage: &'r str,
    path: &'r str,
    path_index: usize,
}

/// Where they ran.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
struct Device<'r> {
    device: &'r str,
    simulated: bool,
}

/// The different values of rows in the order in which they come first, and the index of that of each row.
struct Distinct<V> {
    values: Vec<V>,
    at: Vec<usize>,
}

impl<V: Copy + Eq + Hash> Distinct<V> {
    fn of<'r>(rows: &'r [KernelRow], value: impl Fn(&'r KernelRow) -> V) -> Self {
        let (mut values, mut known) = (Vec::new(), HashMap::new());
        let mut at = Vec::with_capacity(rows.len());
        for value in rows.iter().map(value) {
            let place = *known.entry(value).or_insert(values.len());
            if place == values.len() {
                values.push(value);
            }
            at.push(place);
        }
        Self { values, at }
    }
}

struct Rows<'r> {
    rows: &'r [KernelRow],
    /// Indexes of names, ranges, devices, launches and sources, for each row.
    at: [&'r [usize]; 5],
    begin_gpu_ns: u64,
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut rows = to.serialize_seq(Some(self.rows.len()))?;
        for (index, row) in self.rows.iter().enumerate() {
            let at = self.at.map(|of_rows| of_rows.get(index).map_or(0, |&at| at as u64));
            let since = |gpu_ns: Option<u64>| gpu_ns.map(|ns| ns.saturating_sub(self.begin_gpu_ns));
            let times = &row.times;
            rows.serialize_element(&Cells {
                numbers: [
                    Some(at[0]),
                    Some(at[1]),
                    Some(at[2]),
                    Some(at[3]),
                    Some(times.calls),
                    times.known_total_ns(),
                    times.mean_ns,
                    times.min_ns,
                    times.p50_ns,
                    times.p99_ns,
                    times.max_ns,
                    since(times.first_start_gpu_ns),
                    since(times.last_end_gpu_ns),
                    Some(times.cold_calls),
                    Some(times.cold_total_ns),
                    Some(times.graph_calls),
                    Some(at[4]),
                    times.recorded_calls,
                    Some(times.invalid_timestamp_calls),
                ],
                counters: row.counters.as_deref(),
            })?;
        }
        rows.end()
    }
}

/// The number of columns that no row can do without.
const LEAST: usize = 13;

/// A row: what is null or 0 at its end is left out.
struct Cells<'r> {
    numbers: [Option<u64>; KERNEL_COLUMNS.len() - 1],
    counters: Option<&'r CounterRow>,
}

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let is_said = |cell: &Option<u64>| cell.is_some_and(|number| number > 0);
        let last = self.numbers.iter().rposition(is_said).map_or(0, |at| at + 1);
        let (numbers, all) = match self.counters {
            Some(_) => (self.numbers.len(), self.numbers.len() + 1),
            None => (last.max(LEAST), last.max(LEAST)),
        };
        let mut row = to.serialize_seq(Some(all))?;
        self.numbers.iter().take(numbers).try_for_each(|cell| row.serialize_element(cell))?;
        self.counters.map_or(Ok(()), |counters| row.serialize_element(counters))?;
        row.end()
    }
}

/// Reads a table, or the list of an older version.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KernelRow>, D::Error> {
    from.deserialize_any(Table)
}

struct Table;

impl<'de> Visitor<'de> for Table {
    type Value = Vec<KernelRow>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the table of kernels")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = list.next_element()? {
            rows.push(row);
        }
        Ok(rows)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
        let read = Read::deserialize(de::value::MapAccessDeserializer::new(table))?;
        read.rows_with_names().map_err(de::Error::custom)
    }
}

/// The table as it is read.
#[derive(serde::Deserialize)]
struct Read {
    begin_gpu_ns: u64,
    names: Vec<ReadName>,
    ranges: Vec<ReadRange>,
    devices: Vec<ReadDevice>,
    launches: Vec<Option<Launch>>,
    sources: Vec<Sources>,
    rows: Vec<ReadRow>,
}

#[derive(serde::Deserialize)]
struct ReadName {
    kernel_id: String,
    kernel: String,
    name_index: usize,
    class: String,
}

#[derive(serde::Deserialize)]
struct ReadRange {
    stage: String,
    path: String,
    path_index: usize,
}

#[derive(serde::Deserialize)]
struct ReadDevice {
    device: String,
    simulated: bool,
}

/// A row, in the order of [`KERNEL_COLUMNS`].
#[derive(serde::Deserialize)]
struct ReadRow {
    name: usize,
    range: usize,
    device: usize,
    launch: usize,
    calls: u64,
    total_ns: Option<u64>,
    mean_ns: Option<u64>,
    min_ns: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    first_start_ns: Option<u64>,
    last_end_ns: Option<u64>,
    #[serde(default)]
    cold_calls: u64,
    #[serde(default)]
    cold_total_ns: u64,
    #[serde(default)]
    graph_calls: u64,
    #[serde(default)]
    sources: usize,
    #[serde(default)]
    recorded_calls: Option<u64>,
    #[serde(default)]
    invalid_timestamp_calls: u64,
    #[serde(default)]
    counters: Option<Box<CounterRow>>,
}

impl Read {
    fn rows_with_names(mut self) -> Result<Vec<KernelRow>, String> {
        // Of the sum, as in the report: a share needs no place in the file.
        let total_ns = self.rows.iter().filter_map(|row| row.total_ns);
        let all_ns = total_ns.fold(0, u64::saturating_add);
        let rows = std::mem::take(&mut self.rows).into_iter().enumerate();
        rows.map(|(at, row)| {
            let beyond = |what| format!("row {at} has an index beyond the end of `{what}`");
            self.row(row, all_ns).map_err(beyond)
        })
        .collect()
    }

    /// A row with what its indexes lead to, or the list that is too short for one.
    fn row(&self, row: ReadRow, all_ns: u64) -> Result<KernelRow, &'static str> {
        let name = self.names.get(row.name).ok_or("names")?;
        let range = self.ranges.get(row.range).ok_or("ranges")?;
        let device = self.devices.get(row.device).ok_or("devices")?;
        let absolute = |since_ns: Option<u64>| Some(self.begin_gpu_ns.saturating_add(since_ns?));
        Ok(KernelRow {
            kernel_id: name.kernel_id.clone(),
            kernel: name.kernel.clone(),
            name_index: name.name_index,
            device: device.device.clone(),
            simulated: device.simulated,
            stage: range.stage.clone(),
            path: range.path.clone(),
            path_index: range.path_index,
            launch: *self.launches.get(row.launch).ok_or("launches")?,
            times: Times {
                calls: row.calls,
                recorded_calls: row.recorded_calls,
                invalid_timestamp_calls: row.invalid_timestamp_calls,
                graph_calls: row.graph_calls,
                total_ns: row.total_ns.unwrap_or_default(),
                mean_ns: row.mean_ns,
                min_ns: row.min_ns,
                p50_ns: row.p50_ns,
                p99_ns: row.p99_ns,
                max_ns: row.max_ns,
                first_start_gpu_ns: absolute(row.first_start_ns),
                last_end_gpu_ns: absolute(row.last_end_ns),
                cold_calls: row.cold_calls,
                cold_total_ns: row.cold_total_ns,
            },
            kernel_sum_percent: (row.total_ns.filter(|_| all_ns > 0))
                .map(|ns| ns as f64 * 100.0 / all_ns as f64),
            class: name.class.clone(),
            sources: *self.sources.get(row.sources).ok_or("sources")?,
            counters: row.counters,
            sampled: None,
        })
    }
}

/// The table for its JSON Schema.
#[cfg(feature = "schema")]
pub(crate) struct Described;

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Described {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KernelTable".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        use schemars::json_schema;
        let index = json_schema!({"type": "integer", "minimum": 0});
        let text = json_schema!({"type": "string"});
        let mut cell = |name: &str| match name {
            "name"
            | "range"
            | "device"
            | "launch"
            | "calls"
            | "graph_calls"
            | "sources"
            | "invalid_timestamp_calls"
            | "cold_calls"
            | "cold_total_ns" => index.clone(),
            "counters" => generator.subschema_for::<Option<CounterRow>>(),
            _ => json_schema!({"type": ["integer", "null"], "minimum": 0}),
        };
        let mut cells = KERNEL_COLUMNS.map(|(name, _)| cell(name));
        for (schema, (name, what)) in cells.iter_mut().zip(KERNEL_COLUMNS) {
            schema.insert("title".to_owned(), name.into());
            schema.insert("description".to_owned(), what.into());
        }
        json_schema!({
            "type": "object",
            "description": "The kernels: names of columns, and a row of cells for each. Cells of the first \
                            columns are indexes in the other lists. A row may end where only 0 and \
                            null would follow.",
            "properties": {
                "begin_gpu_ns": {
                    "description": "The time that first starts and last ends are counted from, ns of the \
                                    GPU clock.",
                    "type": "integer",
                    "minimum": 0,
                },
                "names": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "kernel_id": text,
                        "kernel": text,
                        "name_index": index,
                        "class": text,
                    },
                    "required": ["kernel_id", "kernel", "name_index", "class"],
                }},
                "ranges": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"stage": text, "path": text, "path_index": index},
                    "required": ["stage", "path", "path_index"],
                }},
                "devices": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"device": text, "simulated": {"type": "boolean"}},
                    "required": ["device", "simulated"],
                }},
                "launches": generator.subschema_for::<Vec<Option<Launch>>>(),
                "sources": generator.subschema_for::<Vec<Sources>>(),
                "columns": {
                    "description": "The names of the columns.",
                    "const": KERNEL_COLUMNS.map(|(name, _)| name),
                },
                "rows": {"type": "array", "items": {
                    "type": "array",
                    "prefixItems": cells,
                    "minItems": LEAST,
                    "maxItems": KERNEL_COLUMNS.len(),
                }},
            },
            "required": FIELDS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Report, Timelines};
    use serde_json::{Value, json};

    fn kernels(table: &Value) -> Result<Vec<KernelRow>, String> {
        deserialize(table).map_err(|error: serde_json::Error| error.to_string())
    }

    /// Promise: A report of an older version is read, and written again without the loss of a number.
    #[test]
    fn rows_of_version_1_become_a_table_and_are_read_again_as_they_were() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/reports");
        let mut rows = 0;
        let files = std::fs::read_dir(folder).expect(folder).flatten().map(|file| file.path());
        for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "json")) {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let old: Value = serde_json::from_str(&text).expect("JSON");
            assert!(old["kernels"].is_array(), "{}: it stays in version 1", path.display());
            let mut report: Report = serde_json::from_str(&text).expect("version 1");
            // Pages have them.
            report.definitions.clear();
            let timelines = Timelines::of(&report);
            let written = serde_json::to_string(&report).expect("JSON");
            assert!(written.len() < text.len() / 2, "{}", path.display());
            assert!(!written.contains("step_timelines"));
            let mut again: Report = serde_json::from_str(&written).expect("our own JSON");
            timelines.put_into(&mut again).expect("those of this report");
            assert_eq!(again, report, "{}", path.display());
            rows += report.kernels.len();
        }
        assert!(rows > 100, "{rows}");
    }

    fn awkward() -> Vec<KernelRow> {
        let untimed = KernelRow {
            kernel: "k".into(),
            times: Times { calls: 3, invalid_timestamp_calls: 3, ..Times::default() },
            ..KernelRow::default()
        };
        let counted = KernelRow {
            name_index: 1,
            launch: Some(Launch::default()),
            counters: Some(Box::default()),
            kernel_sum_percent: Some(100.0),
            times: Times {
                calls: u64::MAX,
                total_ns: u64::MAX - 9,
                recorded_calls: Some(0),
                first_start_gpu_ns: Some(u64::MAX),
                last_end_gpu_ns: Some(7),
                ..Times::default()
            },
            ..untimed.clone()
        };
        let cold = KernelRow {
            times: Times {
                calls: 3,
                total_ns: 9,
                cold_calls: 1,
                cold_total_ns: 4,
                ..Times::default()
            },
            kernel_sum_percent: Some(900.0 / u64::MAX as f64),
            ..untimed.clone()
        };
        vec![untimed, counted, cold]
    }

    #[test]
    fn a_row_ends_where_only_zero_and_null_follow() {
        let rows = awkward();
        let table = serialize(&rows, serde_json::value::Serializer).expect("JSON");
        let lengths: Vec<_> = table["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|r| r.as_array().map(Vec::len))
            .collect();
        // Up to `invalid_timestamp_calls`, all, and up to `cold_total_ns`.
        assert_eq!(lengths, [Some(19), Some(KERNEL_COLUMNS.len()), Some(15)]);
        assert_eq!(kernels(&table), Ok(rows));
        let short = [KernelRow::default()];
        let table = serialize(&short, serde_json::value::Serializer).expect("JSON");
        assert_eq!(table["rows"][0].as_array().map(Vec::len), Some(LEAST));
    }

    #[test]
    fn a_broken_table_is_refused_with_the_row() {
        let table = serialize(&awkward(), serde_json::value::Serializer).expect("JSON");
        for (place, bad, why) in [
            ("/rows/1/0", json!(2), "row 1 has an index beyond the end of `names`"),
            ("/rows/0/3", json!(9), "row 0 has an index beyond the end of `launches`"),
            ("/rows/0/4", json!(-1), "invalid value"),
            ("/rows/0", json!([0, 0]), "invalid length 2"),
            ("/names", json!(7), "invalid type"),
        ] {
            let mut broken = table.clone();
            *broken.pointer_mut(place).expect(place) = bad;
            let refused = kernels(&broken).expect_err(place);
            assert!(refused.contains(why), "{place}: {refused}");
        }
        assert!(kernels(&json!("x")).is_err_and(|why| why.contains("the table of kernels")));
    }
}
