//! The tables that SQL can ask: each with its name, where its rows come from, and for every column the unit,
//! the meaning and the field that fills it. `schema` prints what is declared here.

use serde::Serialize;
use serde_json::Value;
use stage2_model::Report;

use crate::answer::TextOrigin;

/// Where the rows of a table come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Elements of `metrics.json`: a JSON pointer in which `*` stands for each element of an array; only those
    /// whose field `has` is there.
    Report {
        /// The pointer.
        at: &'static str,
        /// The field, below the element.
        has: Option<&'static str>,
    },
    /// A view of other tables.
    View {
        /// The SQL that makes it.
        select: &'static str,
    },
    /// The trace files, which are read when a query names the table.
    Traces,
}

/// A table.
#[derive(Debug)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub meaning: &'static str,
    /// Where its rows come from.
    pub rows: Rows,
    /// Its columns.
    pub columns: &'static [ColumnSpec],
}

/// A column.
#[derive(Debug)]
pub struct ColumnSpec {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// What the values mean.
    pub meaning: &'static str,
    /// What fills it: the rest of a JSON pointer below the element of the row. It begins with `^` for the
    /// element around that, and with `@` for the name of the row's kernel. [`SOURCE`] is the pointer of the
    /// element itself.
    pub field: &'static str,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Numbers of this unit.
    Numbers(&'static str),
    /// Texts of this origin.
    Texts(TextOrigin),
}

impl ColumnSpec {
    /// The unit of its numbers.
    pub fn unit(&self) -> Option<&'static str> {
        match self.holds {
            Holds::Numbers(unit) => Some(unit),
            Holds::Texts(_) => None,
        }
    }

    /// Whether the workload, or a tool, wrote its texts.
    pub fn is_of_workload(&self) -> bool {
        self.holds == Holds::Texts(TextOrigin::Workload)
    }
}

/// [`ColumnSpec::field`] of the JSON pointer of the row.
pub const SOURCE: &str = "#";
const SOURCE_COLUMN: ColumnSpec =
    own("source", SOURCE, "where metrics.json has the row, as a JSON pointer");

const fn num(
    name: &'static str,
    unit: &'static str,
    field: &'static str,
    meaning: &'static str,
) -> ColumnSpec {
    ColumnSpec { name, holds: Holds::Numbers(unit), meaning, field }
}

const fn own(name: &'static str, field: &'static str, meaning: &'static str) -> ColumnSpec {
    ColumnSpec { name, holds: Holds::Texts(TextOrigin::Stage2), meaning, field }
}

const fn foreign(name: &'static str, field: &'static str, meaning: &'static str) -> ColumnSpec {
    ColumnSpec { name, holds: Holds::Texts(TextOrigin::Workload), meaning, field }
}

const fn elements(at: &'static str) -> Rows {
    Rows::Report { at, has: None }
}

const STAGE: ColumnSpec = foreign("stage", "/stage", "name of the outermost range");
const STAGE_AROUND: ColumnSpec = foreign("stage", "^/stage", "name of the outermost range");
const PATH: ColumnSpec = foreign("path", "/path", "range path, from the outside in");
const DEVICE: ColumnSpec = foreign("device", "/device", "index and name of the GPU");
const FILE: ColumnSpec = foreign("file", "/file", "trace file of the process");
const KERNEL_ID: ColumnSpec =
    own("kernel_id", "/kernel_id", "short name of the kernel that is the same in every run");
const NAME: ColumnSpec = foreign("name", "/kernel", "name of the kernel, shortened");
const CALLS: ColumnSpec = num("calls", "count", "/calls", "executions, timed or not");
const TOTAL: ColumnSpec =
    num("total_ns", "ns", "/total_ns", "sum of the durations; overlapping executions count each");
const MEAN: ColumnSpec = num("mean_ns", "ns", "/mean_ns", "mean duration");
const MIN: ColumnSpec = num("min_ns", "ns", "/min_ns", "shortest duration");
const P50: ColumnSpec = num("p50_ns", "ns", "/p50_ns", "median duration");
const P99: ColumnSpec = num("p99_ns", "ns", "/p99_ns", "99th percentile of the durations");
const MAX: ColumnSpec = num("max_ns", "ns", "/max_ns", "longest duration");
const OF_TRACES: &str = "";

/// The most rows that a table of the trace files holds.
pub const TRACE_ROWS_MOST: usize = 1_000_000;

/// All tables, in the order in which `schema` prints them.
pub const TABLES: &[TableSpec] = &[
    TableSpec {
        name: "kernels",
        meaning: "a kernel in a stage, over all range paths, launch configurations and GPUs",
        rows: Rows::View {
            select: "SELECT stage, kernel_id, min(name) AS name, min(full_name) AS full_name, \
                min(class) AS class, sum(calls) AS calls, sum(graph_calls) AS graph_calls, \
                sum(total_ns) AS total_ns, \
                CAST(round(1.0 * sum(total_ns) / nullif(sum(calls) - sum(untimed_calls), 0)) AS INTEGER) AS mean_ns, \
                min(min_ns) AS min_ns, iif(count(*) = 1, max(p50_ns), NULL) AS p50_ns, \
                iif(count(*) = 1, max(p99_ns), NULL) AS p99_ns, max(max_ns) AS max_ns, \
                100.0 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY stage), 0) \
                AS stage_percent, count(*) AS rows \
                FROM kernel_rows GROUP BY stage, kernel_id",
        },
        columns: &[
            STAGE,
            KERNEL_ID,
            NAME,
            foreign("full_name", "", "demangled name of the kernel"),
            own("class", "", "kind of kernel, by its name"),
            CALLS,
            num("graph_calls", "count", "", "executions that a CUDA graph launched"),
            TOTAL,
            MEAN,
            MIN,
            num("p50_ns", "ns", "", "median duration; null where several rows were added up"),
            num("p99_ns", "ns", "", "99th percentile; null where several rows were added up"),
            MAX,
            num("stage_percent", "percent", "", "share of the kernel durations of the stage"),
            num("rows", "count", "", "rows of kernel_rows that were added up"),
        ],
    },
    TableSpec {
        name: "kernel_rows",
        meaning: "a kernel under one range path, with one launch configuration, on one GPU",
        rows: elements("/kernels/*"),
        columns: &[
            STAGE,
            PATH,
            KERNEL_ID,
            NAME,
            foreign("full_name", "@/demangled", "demangled name of the kernel"),
            foreign("mangled_name", "@/mangled", "name of the kernel as CUPTI gave it"),
            own("class", "/class", "kind of kernel, by its name"),
            DEVICE,
            CALLS,
            num("untimed_calls", "count", "/invalid_timestamp_calls", "executions without times"),
            num("graph_calls", "count", "/graph_calls", "executions that a CUDA graph launched"),
            TOTAL,
            MEAN,
            MIN,
            P50,
            P99,
            MAX,
            num("grid_x", "count", "/launch/grid/0", "blocks in x"),
            num("grid_y", "count", "/launch/grid/1", "blocks in y"),
            num("grid_z", "count", "/launch/grid/2", "blocks in z"),
            num("block_x", "count", "/launch/block/0", "threads of a block in x"),
            num("block_y", "count", "/launch/block/1", "threads of a block in y"),
            num("block_z", "count", "/launch/block/2", "threads of a block in z"),
            num("registers", "count", "/launch/registers_per_thread", "registers per thread"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "counters",
        meaning: "what ncu measured of a row of kernel_rows; percentages are of the hardware's peak",
        rows: Rows::Report { at: "/kernels/*", has: Some("/counters") },
        columns: &[
            STAGE,
            PATH,
            KERNEL_ID,
            NAME,
            DEVICE,
            TOTAL,
            num(
                "launches_profiled",
                "count",
                "/counters/launches_profiled",
                "launches that ncu profiled",
            ),
            own("bound", "/counters/roofline/bound", "what holds the kernel up"),
            num(
                "sm_percent",
                "percent",
                "/counters/sm_percent",
                "throughput of the multiprocessors",
            ),
            num(
                "memory_percent",
                "percent",
                "/counters/memory_percent",
                "throughput of caches and memory",
            ),
            num(
                "dram_percent",
                "percent",
                "/counters/dram_percent",
                "throughput of the device's memory",
            ),
            num(
                "occupancy_percent",
                "percent",
                "/counters/achieved_occupancy_percent",
                "achieved occupancy",
            ),
            num(
                "tensor_percent",
                "percent",
                "/counters/tensor_pipe_percent",
                "cycles in which the tensor cores worked",
            ),
            num("l2_hit_percent", "percent", "/counters/l2_hit_percent", "hits of the L2 cache"),
            num("flops", "FLOP", "/counters/roofline/flops", "operations of one launch"),
            num("dram_bytes", "bytes", "/counters/roofline/dram_bytes", "DRAM bytes of one launch"),
            num(
                "attainable_share",
                "share",
                "/counters/roofline/attainable_share",
                "share of the rate that the hardware allows at these operations per byte",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "sampled_counters",
        meaning: "what counters that were sampled during the run say of one call of a row of kernel_rows",
        rows: Rows::Report { at: "/kernels/*", has: Some("/sampled") },
        columns: &[
            STAGE,
            PATH,
            KERNEL_ID,
            NAME,
            DEVICE,
            TOTAL,
            own("bound", "/sampled/bound", "what holds the kernel up"),
            num(
                "dram_read_bytes",
                "bytes",
                "/sampled/dram_read_bytes/known/value",
                "DRAM bytes read in a call",
            ),
            num(
                "dram_read_low_bytes",
                "bytes",
                "/sampled/dram_read_bytes/known/low",
                "lower end of the 90 % interval",
            ),
            num(
                "dram_read_high_bytes",
                "bytes",
                "/sampled/dram_read_bytes/known/high",
                "upper end of the 90 % interval",
            ),
            num(
                "dram_write_bytes",
                "bytes",
                "/sampled/dram_write_bytes/known/value",
                "DRAM bytes written in a call",
            ),
            num(
                "dram_percent",
                "percent",
                "/sampled/dram_percent",
                "DRAM traffic over what the peak bandwidth moves in a call",
            ),
            num(
                "tensor_percent",
                "percent",
                "/sampled/tensor_percent",
                "time in which the tensor pipe worked",
            ),
            num(
                "flops_per_byte",
                "FLOP/byte",
                "/sampled/flops_per_byte",
                "operations per DRAM byte",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "sampled_stages",
        meaning: "what sampled counters say of a stage on one GPU",
        rows: elements("/sampled/stages/*"),
        columns: &[
            STAGE,
            DEVICE,
            FILE,
            num(
                "coverage_percent",
                "percent",
                "/coverage_percent",
                "share of the GPU windows that samples cover",
            ),
            num(
                "dram_read_bytes_per_s",
                "bytes/s",
                "/rates/dram_read_bytes_per_s",
                "DRAM bytes read",
            ),
            num(
                "dram_write_bytes_per_s",
                "bytes/s",
                "/rates/dram_write_bytes_per_s",
                "DRAM bytes written",
            ),
            num(
                "dram_percent",
                "percent",
                "/rates/dram_percent",
                "share of the peak DRAM bandwidth",
            ),
            num(
                "tensor_percent",
                "percent",
                "/rates/tensor_percent",
                "cycles in which the tensor pipe worked",
            ),
            num(
                "sm_active_percent",
                "percent",
                "/rates/sm_active_percent",
                "cycles in which a multiprocessor had work",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "launches",
        meaning: "a kernel, copy, fill or whole graph that ran, by stage and step",
        rows: Rows::Traces,
        columns: &[
            own("kind", OF_TRACES, "kernel, copy, fill or graph"),
            foreign("stage", OF_TRACES, "name of the outermost range"),
            num(
                "instance",
                "number",
                OF_TRACES,
                "number of the stage's instance in its process, from 0",
            ),
            num(
                "step",
                "number",
                OF_TRACES,
                "number of the step of the stage in its process, from 0",
            ),
            foreign("path", OF_TRACES, "range path, from the outside in"),
            own("kernel_id", OF_TRACES, "short name of the kernel that is the same in every run"),
            foreign("name", OF_TRACES, "name of the kernel, shortened"),
            foreign("file", OF_TRACES, "trace file of the process"),
            num("rank", "number", OF_TRACES, "rank of the process"),
            num("device", "number", OF_TRACES, "GPU as the process numbers it"),
            num("stream", "number", OF_TRACES, "CUPTI's id of the stream"),
            num("start_ns", "ns", OF_TRACES, "start, since the first event of the run"),
            num("duration_ns", "ns", OF_TRACES, "duration; null where CUPTI has no times"),
            num("bytes", "bytes", OF_TRACES, "bytes copied or filled"),
            num("in_graph", "0 or 1", OF_TRACES, "whether a CUDA graph launched it"),
        ],
    },
    TableSpec {
        name: "ranges",
        meaning: "an instance of an NVTX range: stages, steps and what is within them",
        rows: Rows::Traces,
        columns: &[
            foreign("stage", OF_TRACES, "name of the outermost range"),
            foreign("path", OF_TRACES, "range path, from the outside in"),
            foreign("name", OF_TRACES, "its own name"),
            num(
                "number",
                "number",
                OF_TRACES,
                "number of the instance of the path in its process, from 0",
            ),
            num(
                "instance",
                "number",
                OF_TRACES,
                "number of the stage's instance around it, from 0",
            ),
            num("is_step", "0 or 1", OF_TRACES, "whether it is a step of its stage"),
            foreign("file", OF_TRACES, "trace file of the process"),
            num("rank", "number", OF_TRACES, "rank of the process"),
            num("start_ns", "ns", OF_TRACES, "start, since the first event of the run"),
            num("host_ns", "ns", OF_TRACES, "time from its start to its end on the host"),
        ],
    },
    TableSpec {
        name: "steps",
        meaning: "a step of a stage with the sum of what ran in it",
        rows: Rows::View {
            select: "SELECT r.stage, r.file, r.rank, r.number AS step, r.instance, r.start_ns, r.host_ns, \
                coalesce(l.kernels, 0) AS kernels, coalesce(l.kernel_sum_ns, 0) AS kernel_sum_ns \
                FROM ranges r LEFT JOIN (SELECT file, stage, step, sum(kind = 'kernel') AS kernels, \
                sum(iif(kind = 'kernel', duration_ns, 0)) AS kernel_sum_ns FROM \
                launches GROUP BY file, stage, step) l \
                ON l.file = r.file AND l.stage = r.stage AND l.step = r.number WHERE r.is_step",
        },
        columns: &[
            foreign("stage", "", "name of the outermost range"),
            foreign("file", "", "trace file of the process"),
            num("rank", "number", "", "rank of the process"),
            num("step", "number", "", "number of the step in its process, from 0"),
            num("instance", "number", "", "number of the stage's instance around it, from 0"),
            num("start_ns", "ns", "", "start, since the first event of the run"),
            num("host_ns", "ns", "", "time from its start to its end on the host"),
            num("kernels", "count", "", "kernels launched in it"),
            num("kernel_sum_ns", "ns", "", "sum of the durations of these kernels"),
        ],
    },
    TableSpec {
        name: "step_buckets",
        meaning: "steps of a stage that follow each other, cold ones included",
        rows: elements("/step_series/*/buckets/*"),
        columns: &[
            STAGE_AROUND,
            foreign("path", "^/path", "range path whose instances are the steps"),
            foreign("file", "^/file", "trace file of the process"),
            num("first", "number", "/first", "number of the first step, from 0"),
            num("steps", "count", "/steps", "steps"),
            num("min_ns", "ns", "/min_ns", "host time of the shortest"),
            num("mean_ns", "ns", "/mean_ns", "mean host time"),
            num("max_ns", "ns", "/max_ns", "host time of the longest"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "stages",
        meaning: "an outermost range, or work outside of ranges, over the whole run",
        rows: elements("/stages/*"),
        columns: &[
            STAGE,
            own("kind", "/kind", "what the name stands for"),
            own("role", "/role", "what the stage is to the model"),
            num("instances", "count", "/instances", "times that it was opened"),
            num("host_total_ns", "ns", "/host_total_ns", "host time of all closed instances"),
            num(
                "host_warm_median_ns",
                "ns",
                "/host_warm_median_ns",
                "median host time without the first instance",
            ),
            num("gpu_window_ns", "ns", "/gpu_window_ns", "union of the windows of its instances"),
            num("gpu_busy_ns", "ns", "/gpu_busy_ns", "time in which any of its GPU work ran"),
            num("gpu_idle_ns", "ns", "/gpu_idle_ns", "window minus busy time"),
            num("gpu_short_gaps_ns", "ns", "/gpu_short_gaps_ns", "idle time in launch gaps"),
            num("gpu_busy_percent", "percent", "/gpu_busy_percent", "busy time over the window"),
            num("kernels", "count", "/kernels", "kernels"),
            num("kernel_sum_ns", "ns", "/kernel_sum_ns", "sum of the durations of its kernels"),
            num("copies", "count", "/copies", "copies"),
            num("fills", "count", "/fills", "fills"),
            num(
                "graph_launches",
                "count",
                "/graph_launches",
                "graphs that were recorded as a whole",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "step_times",
        meaning: "times of the warm steps of a stage, and the floor of the hardware",
        rows: elements("/answer/stages/*"),
        columns: &[
            STAGE,
            own("role", "/role", "what the stage is to the model"),
            own("basis", "/basis", "what the numbers are of"),
            own("unit", "/step/unit", "what a step is"),
            num("steps", "count", "/step/steps", "steps that the times are of"),
            num("mean_ns", "ns", "/step/mean_ns", "mean host time of a step"),
            num("p50_ns", "ns", "/step/p50_ns", "median host time of a step"),
            num("p99_ns", "ns", "/step/p99_ns", "99th percentile"),
            num("max_ns", "ns", "/step/max_ns", "longest step"),
            num("std_ns", "ns", "/step/std_ns", "sample standard deviation"),
            num(
                "tokens_per_s",
                "tokens/s",
                "/tokens_per_s/known",
                "tokens per second of wall time",
            ),
            num(
                "floor_ns",
                "ns",
                "/floor/floor_ns/known",
                "least time that the hardware would need for a step",
            ),
            num(
                "floor_distance",
                "ratio",
                "/floor/distance/known",
                "median time of a step over the floor",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "windows",
        meaning: "a part of the window of a stage; the parts of a stage add up to it",
        rows: elements("/answer/stages/*/window/parts/*"),
        columns: &[
            STAGE_AROUND,
            own("part", "/kind", "what the time goes into"),
            num("ns", "ns", "/ns", "time, over all warm instances"),
            num("percent", "percent", "/percent", "share of the window"),
            num("steps", "count", "^/window/steps", "steps that the time is of"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "paths",
        meaning: "a range under its parents, over the whole run",
        rows: elements("/paths/*"),
        columns: &[
            PATH,
            foreign("name", "/name", "its own name"),
            own("kind", "/kind", "what the path stands for"),
            num("depth", "count", "/depth", "ranges around it"),
            num("instances", "count", "/instances", "times that it was opened"),
            num("host_total_ns", "ns", "/host_total_ns", "host time of all closed instances"),
            num(
                "host_warm_median_ns",
                "ns",
                "/host_warm_median_ns",
                "median host time without the first instance",
            ),
            num("kernels", "count", "/kernels_inclusive", "kernels launched in it and within it"),
            num("kernel_sum_ns", "ns", "/kernel_sum_inclusive_ns", "sum of their durations"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "copies",
        meaning: "copies of one direction under one range path on one GPU",
        rows: elements("/copies/*"),
        columns: &[
            STAGE,
            PATH,
            own("direction", "/direction", "from where to where"),
            DEVICE,
            CALLS,
            num("bytes", "bytes", "/bytes", "bytes copied"),
            TOTAL,
            MEAN,
            MAX,
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "fills",
        meaning: "fills under one range path on one GPU",
        rows: elements("/fills/*"),
        columns: &[
            STAGE,
            PATH,
            DEVICE,
            CALLS,
            num("bytes", "bytes", "/bytes", "bytes filled"),
            TOTAL,
            MEAN,
            MAX,
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "processes",
        meaning: "a traced process and its place in the job",
        rows: elements("/processes/*"),
        columns: &[
            FILE,
            num("pid", "number", "/pid", "process id"),
            num("rank", "number", "/rank", "rank in its job"),
            foreign("host", "/host", "host name"),
            foreign("devices", "/devices", "GPUs that it used"),
            num("kernels", "count", "/kernels", "kernels"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "ranks",
        meaning: "a stage in one process",
        rows: elements("/ranks/stages/*"),
        columns: &[
            STAGE,
            own("who", "/who", "rank or process id, in words"),
            num("rank", "number", "/rank", "rank in its job"),
            FILE,
            num("instances", "count", "/instances", "times that the stage was opened"),
            num("host_total_ns", "ns", "/host_total_ns", "host time of all closed instances"),
            num(
                "host_warm_median_ns",
                "ns",
                "/host_warm_median_ns",
                "median host time without the first instance",
            ),
            num(
                "gpu_busy_ns",
                "ns",
                "/gpu_busy_ns",
                "time in which any of its GPUs worked for the stage",
            ),
            num("gpu_idle_ns", "ns", "/gpu_idle_ns", "window minus busy time"),
            num("kernels", "count", "/kernels", "kernels"),
            num(
                "communication_ns",
                "ns",
                "/communication_ns",
                "sum of the durations of communication kernels",
            ),
            num(
                "waiting_ns",
                "ns",
                "/waiting_ns",
                "time in collectives before their last member arrived",
            ),
            num("transfer_ns", "ns", "/transfer_ns", "time in collectives from that arrival on"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "late_ranks",
        meaning: "a rank that others waited for in a stage",
        rows: elements("/ranks/late/*"),
        columns: &[
            STAGE,
            own("who", "/who", "rank or process id, in words"),
            num("rank", "number", "/rank", "rank in its job"),
            FILE,
            num("collectives", "count", "/collectives", "collectives that it took part in"),
            num(
                "late_collectives",
                "count",
                "/late_collectives",
                "those that it was the last to arrive at",
            ),
            num("late_total_ns", "ns", "/late_total_ns", "how late it was there, summed"),
            num(
                "delayed",
                "count",
                "/delays/collectives",
                "collectives that it delayed by more than noise; null: none",
            ),
            num("delay_mean_ns", "ns", "/delays/mean_ns", "how late it was at these, on average"),
            num("delay_total_ns", "ns", "/delays/total_ns", "how late it was at these, summed"),
            num(
                "delay_work_ns",
                "ns",
                "/delays/work_ns",
                "part of that sum that more GPU work explains",
            ),
            num(
                "waiting_percent",
                "percent",
                "/delays/waiting_percent",
                "share of all waiting of the stage",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "collectives",
        meaning: "collectives of one operation and communicator in a stage, over all ranks",
        rows: elements("/ranks/collectives/*"),
        columns: &[
            STAGE,
            own("operation", "/operation", "what it is"),
            own("communicator", "/communicator", "hash of the communicator"),
            num("members", "count", "/members", "members of the communicator that were recorded"),
            CALLS,
            num(
                "matched_calls",
                "count",
                "/matched_calls",
                "calls that were matched over all members",
            ),
            num("bytes", "bytes", "/bytes_total", "bytes of all calls whose size is known"),
            num("time_ns", "ns", "/time_ns", "time of all calls"),
            num(
                "transfer_ns",
                "ns",
                "/transfer_ns",
                "time of matched calls from the last arrival on",
            ),
            num("waiting_ns", "ns", "/waiting_ns", "time of matched calls before the last arrival"),
            num("bus_gb_per_s", "GB/s", "/bus_gb_per_s", "bus bandwidth as NCCL's tests define it"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "host_causes",
        meaning: "a cause of the idle time of a stage, by samples of the launching threads",
        rows: elements("/host/stages/*/causes/*"),
        columns: &[
            STAGE_AROUND,
            own("kind", "/kind", "kind of cause"),
            foreign("function", "/frame/function", "function that is responsible"),
            foreign("source_file", "/frame/file", "its file"),
            num("line", "number", "/frame/line", "its line"),
            foreign("called", "/called", "what it called in a library or in CUDA"),
            foreign("thread", "/thread", "thread that was waited for"),
            num("percent", "percent", "/percent", "share of the idle time"),
            num(
                "error_percent",
                "percentage points",
                "/error_percent",
                "standard error of that share",
            ),
            num("samples", "count", "/samples", "samples"),
            num("idle_ns", "ns", "^/idle_ns", "idle time of the stage"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "host_samples",
        meaning: "a sample of a thread of the host",
        rows: Rows::Traces,
        columns: &[
            foreign("file", OF_TRACES, "trace file of the process"),
            num("rank", "number", OF_TRACES, "rank of the process"),
            foreign("thread", OF_TRACES, "name of the thread"),
            num("tid", "number", OF_TRACES, "its id"),
            own("state", OF_TRACES, "state of the thread"),
            own(
                "doing",
                OF_TRACES,
                "kind of cause that the sample counts for where the GPU is idle",
            ),
            foreign("at", OF_TRACES, "function and line that stand for its stack"),
            num(
                "start_ns",
                "ns",
                OF_TRACES,
                "start of the time that it stands for, since the first event of the run",
            ),
            num("duration_ns", "ns", OF_TRACES, "length of that time"),
        ],
    },
    TableSpec {
        name: "requests",
        meaning: "a request of an inference engine",
        rows: Rows::Traces,
        columns: &[
            num("number", "number", OF_TRACES, "number in its process"),
            foreign("file", OF_TRACES, "trace file of the process"),
            num("arrived_ns", "ns", OF_TRACES, "when it arrived, since the first event of the run"),
            num("queue_ns", "ns", OF_TRACES, "time until its first step"),
            num("first_token_ns", "ns", OF_TRACES, "time to the first token"),
            num("total_ns", "ns", OF_TRACES, "time to its end"),
            num("prompt_tokens", "tokens", OF_TRACES, "tokens of the prompt"),
            num("cached_tokens", "tokens", OF_TRACES, "prompt tokens from the cache"),
            num("output_tokens", "tokens", OF_TRACES, "tokens generated"),
            num("preemptions", "count", OF_TRACES, "times that it was preempted"),
            num("aborted", "0 or 1", OF_TRACES, "whether it was aborted"),
        ],
    },
    TableSpec {
        name: "engine_steps",
        meaning: "steps of an engine of one kind and batch size",
        rows: elements("/engine/kinds/*/rows/*"),
        columns: &[
            STAGE_AROUND,
            num("requests", "count", "/requests", "requests in a step, at least"),
            num("requests_to", "count", "/requests_to", "requests in a step, at most"),
            num("tokens_mean", "tokens", "/tokens_mean", "mean tokens of a step"),
            num("steps", "count", "/steps", "steps"),
            num("timed_steps", "count", "/timed_steps", "steps that the times are of"),
            num("p50_ns", "ns", "/p50_ns", "median time of a step"),
            num("p99_ns", "ns", "/p99_ns", "99th percentile"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "operators",
        meaning: "an operator of the framework in a stage",
        rows: elements("/operators/stages/*"),
        columns: &[
            STAGE,
            foreign("name", "/op_name", "name of the operator"),
            CALLS,
            num("host_total_ns", "ns", "/host_total_ns", "host time with everything within"),
            num("host_self_ns", "ns", "/host_self_ns", "host time without the ranges within"),
            num(
                "gpu_inclusive_ns",
                "ns",
                "/gpu_inclusive_ns",
                "GPU work launched in it and within it",
            ),
            num("kernels", "count", "/kernels_inclusive", "kernels launched in it and within it"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "layers",
        meaning: "kernels of a stage by part of the model",
        rows: elements("/layers/*"),
        columns: &[
            STAGE,
            own("part", "/part", "part of the model"),
            foreign("module", "/module", "module of the model"),
            num("kernels", "count", "/kernels", "kernels"),
            num("kernel_sum_ns", "ns", "/kernel_sum_ns", "sum of their durations"),
            num(
                "stage_percent",
                "percent",
                "/stage_kernel_sum_percent",
                "share of the kernel durations of the stage",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "energy",
        meaning: "energy and clocks of a stage",
        rows: elements("/energy/*"),
        columns: &[
            STAGE,
            num("energy_j", "J", "/energy_j/known", "energy of its GPUs in its windows"),
            num("uncertainty_j", "J", "/uncertainty_j", "how far the energy may be off"),
            num("mean_power_w", "W", "/mean_power_w/known", "mean power of its GPUs together"),
            num("joules_per_token", "J", "/joules_per_token/known", "energy per token"),
            num(
                "sm_clock_mean_mhz",
                "MHz",
                "/clocks/sm_clock_mhz/mean",
                "mean clock of the multiprocessors",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "ncu_regions",
        meaning: "what range replay of ncu measured of an NVTX region",
        rows: elements("/ncu_regions/*/regions/*"),
        columns: &[
            own("scope", "^/scope", "over all processes, or of one process or GPU"),
            PATH,
            num("launches", "count", "/inclusive/launches", "launches, or instances"),
            num("duration_ns", "ns", "/inclusive/duration_ns", "time under ncu"),
            num("dram_bytes", "bytes", "/inclusive/dram_bytes", "DRAM bytes read and written"),
            num("flops", "FLOP", "/inclusive/flops", "operations that were counted"),
            num(
                "sm_percent",
                "percent",
                "/inclusive/sm_percent",
                "throughput of the multiprocessors",
            ),
            num(
                "memory_percent",
                "percent",
                "/inclusive/memory_percent",
                "throughput of caches and memory",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "takeaways",
        meaning: "what the numbers say, the most important first",
        rows: elements("/takeaways/*"),
        columns: &[
            own("rule", "/rule", "rule that says it"),
            STAGE,
            foreign("text", "/text", "what it says; it may quote names of the workload"),
            foreign("recommendation", "/recommendation", "what to do"),
            num(
                "concerns_percent",
                "percent",
                "/concerns_percent",
                "part of all windows that is concerned",
            ),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "findings",
        meaning: "something that is missing or has to be read with care",
        rows: elements("/findings/*"),
        columns: &[
            own("severity", "/severity", "how much it matters"),
            foreign("what", "/what", "what happened; it may quote names of the workload"),
            foreign("why", "/why", "why, or what follows"),
            foreign("remedy", "/remedy", "what to do"),
            SOURCE_COLUMN,
        ],
    },
    TableSpec {
        name: "coverage",
        meaning: "what was recorded of a process, and what is missing",
        rows: elements("/coverage/processes/*"),
        columns: &[
            FILE,
            num("pid", "number", "/pid", "process id"),
            own("ending", "/ending", "how the file ends"),
            own("gpu_off", "/gpu_off", "why GPU collection was off"),
            num("kernels", "count", "/counts/kernels", "kernels"),
            num("copies", "count", "/counts/copies", "copies"),
            num("fills", "count", "/counts/fills", "fills"),
            num(
                "graph_launches",
                "count",
                "/counts/graph_launches",
                "graphs that were recorded as a whole",
            ),
            num(
                "unattributed",
                "count",
                "/counts/unattributed",
                "GPU records that could not be placed",
            ),
            num("untimed", "count", "/counts/invalid_timestamps", "GPU records without times"),
            num(
                "dropped_by_cupti",
                "count",
                "/counts/dropped_by_cupti",
                "records dropped by CUPTI",
            ),
            num("range_events_lost", "count", "/counts/range_events_lost", "range events lost"),
            SOURCE_COLUMN,
        ],
    },
];

/// The table of this name; SQL does not tell upper from lower case.
pub fn table(name: &str) -> Option<&'static TableSpec> {
    TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name))
}

/// Gives each row of a table of the report to `row`: one value for each column, null where it is not known.
///
/// # Errors
/// The first error of `row`.
pub fn each_row<E>(
    report: &Report,
    table: &TableSpec,
    mut row: impl FnMut(&[Value]) -> Result<(), E>,
) -> Result<(), E> {
    let Rows::Report { at, has } = table.rows else { return Ok(()) };
    let section = at.split('/').nth(1).unwrap_or_default();
    let value = section_of(report, section);
    let steps: Vec<&str> = at.split('/').skip(2).collect();
    let names = match table.columns.iter().any(|column| column.field.starts_with('@')) {
        true => json(&report.kernel_names),
        false => Value::Null,
    };
    let mut each = |elements: &[&Value], pointer: &str| {
        let Some((element, around)) = elements.split_last() else { return Ok(()) };
        let is_there = |field: &str| element.pointer(field).is_some_and(|value| !value.is_null());
        if !has.is_none_or(is_there) {
            return Ok(());
        }
        let name = element.pointer("/name_index").and_then(Value::as_u64);
        let name = name.and_then(|index| names.get(usize::try_from(index).ok()?));
        let mut cells: Vec<Value> = Vec::with_capacity(table.columns.len());
        for ColumnSpec { field, .. } in table.columns {
            let found = match field.split_at_checked(1) {
                Some((SOURCE, _)) => {
                    cells.push(Value::from(pointer));
                    continue;
                }
                Some(("^", field)) => around.last().and_then(|of| of.pointer(field)),
                Some(("@", field)) => name.and_then(|of| of.pointer(field)),
                _ => element.pointer(field),
            };
            cells.push(found.map_or(Value::Null, scalar));
        }
        row(&cells)
    };
    walk(&value, &steps, &mut vec![], &format!("/{section}"), &mut each)
}

/// Follows `steps` from `value`, and gives the elements that stand for `*` on the way, the innermost last.
fn walk<'v, E>(
    value: &'v Value,
    steps: &[&str],
    elements: &mut Vec<&'v Value>,
    pointer: &str,
    each: &mut impl FnMut(&[&Value], &str) -> Result<(), E>,
) -> Result<(), E> {
    let Some((step, rest)) = steps.split_first() else { return each(elements, pointer) };
    if *step != "*" {
        let Some(value) = value.get(step) else { return Ok(()) };
        return walk(value, rest, elements, &format!("{pointer}/{step}"), each);
    }
    for (at, element) in value.as_array().into_iter().flatten().enumerate() {
        elements.push(element);
        walk(element, rest, elements, &format!("{pointer}/{at}"), each)?;
        elements.pop();
    }
    Ok(())
}

/// What SQLite can hold of a value: texts and numbers as they are, lists with commas.
fn scalar(value: &Value) -> Value {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Array(items) => Value::from(items.iter().map(word).collect::<Vec<_>>().join(", ")),
        // `{"process": 12}`
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key} {}", word(value)));
            Value::from(fields.collect::<Vec<_>>().join(", "))
        }
        value => value.clone(),
    }
}

/// A part of `metrics.json`: all of it at once may be a gigabyte.
fn section_of(report: &Report, section: &str) -> Value {
    match section {
        "kernels" => json(&report.kernels),
        "stages" => json(&report.stages),
        "answer" => json(&report.answer),
        "paths" => json(&report.paths),
        "copies" => json(&report.copies),
        "fills" => json(&report.fills),
        "processes" => json(&report.processes),
        "ranks" => json(&report.ranks),
        "host" => json(&report.host),
        "engine" => json(&report.engine),
        "operators" => json(&report.insight.operators),
        "takeaways" => json(&report.insight.takeaways),
        "layers" => json(&report.layers),
        "energy" => json(&report.energy),
        "ncu_regions" => json(&report.ncu_regions),
        "sampled" => json(&report.sampled),
        "step_series" => json(&report.step_series),
        "findings" => json(&report.findings),
        "coverage" => json(&report.coverage),
        _ => Value::Null,
    }
}

/// The report was JSON, and every number of it is finite.
fn json(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}
