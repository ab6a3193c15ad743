//! What each table and column is: units, meanings, and the fields that fill them.

use super::*;

macro_rules! tables {
    ($($name:ident: $meaning:literal, $rows:expr => { $($column:expr),* $(,)? })*) => {
        /// All tables, in the order that `schema` prints.
        pub const TABLES: &[TableSpec] = &[$(TableSpec {
            name: stringify!($name),
            meaning: $meaning,
            rows: $rows,
            columns: &[$($column),*],
        }),*];
    };
}

tables! {
    kernels: "a kernel in a stage, over all range paths, launch configurations and GPUs", Rows::View {
        select: "SELECT stage, kernel_id, min(name) AS name, min(full_name) AS full_name, \
            min(class) AS class, sum(calls) AS calls, sum(graph_calls) AS graph_calls, \
            sum(total_ns) AS total_ns, \
            CAST(round(1.0 * sum(total_ns) / nullif(sum(calls) - sum(untimed_calls), 0)) AS INTEGER) AS mean_ns, \
            min(min_ns) AS min_ns, iif(count(*) = 1, max(p50_ns), NULL) AS p50_ns, \
            iif(count(*) = 1, max(p99_ns), NULL) AS p99_ns, max(max_ns) AS max_ns, \
            100.0 * sum(total_ns) / nullif(sum(sum(total_ns)) OVER (PARTITION BY stage), 0) \
            AS stage_percent, count(*) AS rows \
            FROM kernel_rows GROUP BY stage, kernel_id",
    } => {
        STAGE, KERNEL_ID, NAME,
        foreign("full_name", "", "demangled name of the kernel"),
        own("class", "", "kind of kernel, by its name"),
        CALLS,
        count("graph_calls", "", "executions that a CUDA graph launched"),
        TOTAL, MEAN, MIN,
        ns("p50_ns", "", "median duration; null where several rows were added up"),
        ns("p99_ns", "", "99th percentile; null where several rows were added up"),
        MAX,
        percent("stage_percent", "", "share of the kernel durations of the stage, cold instances included"),
        count("rows", "", "rows of kernel_rows that were added up"),
    }
    kernel_rows: "a kernel under one range path, with one launch configuration, on one GPU",
        elements("/kernels/*") => {
        STAGE, PATH, KERNEL_ID, NAME,
        foreign("full_name", "@/demangled", "demangled name of the kernel"),
        foreign("mangled_name", "@/mangled", "name of the kernel as CUPTI gave it"),
        own("class", "/class", "kind of kernel, by its name"),
        DEVICE, CALLS,
        count("untimed_calls", "/invalid_timestamp_calls", "executions without times"),
        count("graph_calls", "/graph_calls", "executions that a CUDA graph launched"),
        TOTAL, MEAN, MIN, P50, P99, MAX,
        count("grid_x", "/launch/grid/0", "blocks in x"),
        count("grid_y", "/launch/grid/1", "blocks in y"),
        count("grid_z", "/launch/grid/2", "blocks in z"),
        count("block_x", "/launch/block/0", "threads of a block in x"),
        count("block_y", "/launch/block/1", "threads of a block in y"),
        count("block_z", "/launch/block/2", "threads of a block in z"),
        count("registers", "/launch/registers_per_thread", "registers per thread"),
        SOURCE_COLUMN,
    }
    counters: "what ncu measured of a row of kernel_rows; percentages are of the hardware's peak",
        Rows::Report { at: "/kernels/*", has: Some("/counters") } => {
        STAGE, PATH, KERNEL_ID, NAME, DEVICE, TOTAL,
        count("launches_profiled", "/counters/launches_profiled", "launches that ncu profiled"),
        own("bound", "/counters/roofline/bound", "what holds the kernel up"),
        percent("sm_percent", "/counters/sm_percent", "throughput of the multiprocessors"),
        percent("memory_percent", "/counters/memory_percent", "throughput of caches and memory"),
        percent("dram_percent", "/counters/dram_percent", "throughput of the device's memory"),
        percent("occupancy_percent", "/counters/achieved_occupancy_percent", "achieved occupancy"),
        percent("tensor_percent", "/counters/tensor_pipe_percent", "cycles in which a tensor pipe was active"),
        percent("l2_hit_percent", "/counters/l2_hit_percent", "hits of the L2 cache"),
        num("flops", "FLOP", "/counters/roofline/flops", "operations of one launch"),
        num("dram_bytes", "bytes", "/counters/roofline/dram_bytes", "DRAM bytes of one launch"),
        num("attainable_share", "share", "/counters/roofline/attainable_share",
            "share of the rate that the hardware allows at these operations per byte"),
        SOURCE_COLUMN,
    }
    sampled_counters: "what counters that were sampled during the run say of one call of a row of kernel_rows",
        Rows::Report { at: "/kernels/*", has: Some("/sampled") } => {
        STAGE, PATH, KERNEL_ID, NAME, DEVICE, TOTAL,
        own("bound", "/sampled/bound", "what holds the kernel up"),
        num("dram_read_bytes", "bytes", "/sampled/dram_read_bytes/known/value", "DRAM bytes read in a call"),
        num("dram_read_low_bytes", "bytes", "/sampled/dram_read_bytes/known/low",
            "lower end of the 90 % interval"),
        num("dram_read_high_bytes", "bytes", "/sampled/dram_read_bytes/known/high",
            "upper end of the 90 % interval"),
        num("dram_write_bytes", "bytes", "/sampled/dram_write_bytes/known/value",
            "DRAM bytes written in a call"),
        percent("dram_percent", "/sampled/dram_percent",
            "DRAM traffic over what the peak bandwidth moves in a call"),
        percent("tensor_percent", "/sampled/tensor_percent", "time in which the tensor pipe worked"),
        num("flops_per_byte", "FLOP/byte", "/sampled/flops_per_byte", "operations per DRAM byte"),
        SOURCE_COLUMN,
    }
    sampled_stages: "what sampled counters say of a stage on one GPU",
        elements("/sampled/stages/*") => {
        STAGE, DEVICE, FILE,
        percent("coverage_percent", "/coverage_percent", "share of the GPU windows that samples cover"),
        num("dram_read_bytes_per_s", "bytes/s", "/rates/dram_read_bytes_per_s", "DRAM bytes read"),
        num("dram_write_bytes_per_s", "bytes/s", "/rates/dram_write_bytes_per_s", "DRAM bytes written"),
        percent("dram_percent", "/rates/dram_percent", "share of the peak DRAM bandwidth"),
        percent("tensor_percent", "/rates/tensor_percent", "cycles in which the tensor pipe worked"),
        percent("sm_active_percent", "/rates/sm_active_percent", "cycles in which a multiprocessor had work"),
        SOURCE_COLUMN,
    }
    launches: "a kernel, copy, fill or whole graph that ran, by stage and step", Rows::Traces => {
        own("kind", OF_TRACES, "kernel, copy, fill or graph"),
        foreign("stage", OF_TRACES, "name of the outermost range"),
        num("instance", "number", OF_TRACES, "number of the stage's instance in its process, from 0"),
        num("step", "number", OF_TRACES, "number of the step of the stage in its process, from 0"),
        foreign("path", OF_TRACES, "range path, from the outside in"),
        own("kernel_id", OF_TRACES, "short name of the kernel that is the same in every run"),
        foreign("name", OF_TRACES, "name of the kernel, shortened"),
        foreign("file", OF_TRACES, "trace file of the process"),
        num("rank", "number", OF_TRACES, "rank of the process"),
        num("device", "number", OF_TRACES, "GPU as the process numbers it"),
        num("stream", "number", OF_TRACES, "CUPTI's id of the stream"),
        ns("start_ns", OF_TRACES, "start, since the first event of the run"),
        ns("duration_ns", OF_TRACES, "duration; null where CUPTI has no times"),
        num("bytes", "bytes", OF_TRACES, "bytes copied or filled"),
        num("in_graph", "0 or 1", OF_TRACES, "whether a CUDA graph launched it"),
    }
    ranges: "an instance of an NVTX range: stages, steps and what is within them", Rows::Traces => {
        foreign("stage", OF_TRACES, "name of the outermost range"),
        foreign("path", OF_TRACES, "range path, from the outside in"),
        foreign("name", OF_TRACES, "its own name"),
        num("number", "number", OF_TRACES, "number of the instance of the path in its process, from 0"),
        num("instance", "number", OF_TRACES, "number of the stage's instance around it, from 0"),
        num("is_step", "0 or 1", OF_TRACES, "whether it is a step of its stage"),
        foreign("file", OF_TRACES, "trace file of the process"),
        num("rank", "number", OF_TRACES, "rank of the process"),
        ns("start_ns", OF_TRACES, "start, since the first event of the run"),
        ns("host_ns", OF_TRACES, "time from its start to its end on the host"),
    }
    steps: "a range that is a step of its stage, with the sum of what ran in it; the steps of an engine are in step_times \
        and engine_steps", Rows::Traces => {
        foreign("stage", OF_TRACES, "name of the outermost range"),
        foreign("file", OF_TRACES, "trace file of the process"),
        num("rank", "number", OF_TRACES, "rank of the process"),
        num("step", "number", OF_TRACES, "number of the step in its process, from 0"),
        num("instance", "number", OF_TRACES, "number of the stage's instance around it, from 0"),
        ns("start_ns", OF_TRACES, "start, since the first event of the run"),
        ns("host_ns", OF_TRACES, "time from its start to its end on the host; without what comes before the next step, \
            which an engine's step_times have"),
        count("kernels", OF_TRACES, "kernels launched in it"),
        ns("kernel_sum_ns", OF_TRACES, "sum of the durations of these kernels"),
    }
    step_buckets: "steps of a stage that follow each other, cold ones included",
        elements("/step_series/*/buckets/*") => {
        STAGE_AROUND,
        foreign("path", "^/path", "range path whose instances are the steps"),
        foreign("file", "^/file", "trace file of the process"),
        num("first", "number", "/first", "number of the first step, from 0"),
        count("steps", "/steps", "steps"),
        ns("min_ns", "/min_ns", "host time of the shortest; of an engine until the next step begins"),
        ns("mean_ns", "/mean_ns", "mean host time"),
        ns("max_ns", "/max_ns", "host time of the longest"),
        SOURCE_COLUMN,
    }
    stages: "an outermost range, or work outside of ranges, over the whole run",
        elements("/stages/*") => {
        STAGE,
        own("kind", "/kind", "what the name stands for"),
        own("role", "/role", "what the stage is to the model"),
        count("instances", "/instances", "times that it was opened"),
        ns("host_total_ns", "/host_total_ns", "host time of all closed instances"),
        ns("host_warm_median_ns", "/host_warm_median_ns", "median host time without the first instance"),
        ns("gpu_window_ns", "/gpu_window_ns", "union of the windows of its instances"),
        ns("gpu_busy_ns", "/gpu_busy_ns", "time in which any of its GPU work ran"),
        ns("gpu_idle_ns", "/gpu_idle_ns", "window minus busy time"),
        ns("gpu_short_gaps_ns", "/gpu_short_gaps_ns", "idle time in launch gaps"),
        percent("gpu_busy_percent", "/gpu_busy_percent", "busy time over the window"),
        count("kernels", "/kernels", "kernels"),
        ns("kernel_sum_ns", "/kernel_sum_ns", "sum of the durations of its kernels"),
        count("copies", "/copies", "copies"),
        count("fills", "/fills", "fills"),
        count("graph_launches", "/graph_launches", "graphs that were recorded as a whole"),
        SOURCE_COLUMN,
    }
    step_times: "times of the warm steps of a stage, and the floor of the hardware",
        elements("/answer/stages/*") => {
        STAGE,
        own("role", "/role", "what the stage is to the model"),
        own("basis", "/basis", "the calls that the window and the floor's distance are measured on; the times are of the column steps"),
        own("unit", "/step/unit", "what a step is; of_engine: from its start to the start of the next one, so that it is \
            longer than host_ns in steps"),
        count("steps", "/step/steps", "steps that the times are of; of an engine, those that the next one follows at once"),
        ns("mean_ns", "/step/mean_ns", "mean time of a step on the host, as unit says"),
        ns("p50_ns", "/step/p50_ns", "median of these times"),
        ns("p99_ns", "/step/p99_ns", "99th percentile of these times"),
        ns("max_ns", "/step/max_ns", "longest of these times"),
        ns("std_ns", "/step/std_ns", "sample standard deviation"),
        num("tokens_per_s", "tokens/s", "/tokens_per_s/known", "tokens per second of the steps, or \
            of their GPU work where that takes longer"),
        ns("floor_ns", "/floor/floor_ns/known", "least time that the hardware would need for a step"),
        num("floor_distance", "ratio", "/floor/distance/known", "mean time of a step over the floor"),
        SOURCE_COLUMN,
    }
    windows: "a part of the window of a stage; the parts of a stage add up to it",
        elements("/answer/stages/*/window/parts/*") => {
        STAGE_AROUND,
        own("part", "/kind", "what the time goes into"),
        ns("ns", "/ns", "time, over all warm calls"),
        percent("percent", "/percent", "share of the window"),
        count("steps", "^/window/steps", "steps that the time is of"),
        SOURCE_COLUMN,
    }
    paths: "a range under its parents, over the whole run", elements("/paths/*") => {
        PATH,
        foreign("name", "/name", "its own name"),
        own("kind", "/kind", "what the path stands for"),
        count("depth", "/depth", "ranges around it"),
        count("instances", "/instances", "times that it was opened"),
        ns("host_total_ns", "/host_total_ns", "host time of all closed instances"),
        ns("host_warm_median_ns", "/host_warm_median_ns", "median host time without the first instance"),
        count("kernels", "/kernels_inclusive", "kernels launched in it and within it"),
        ns("kernel_sum_ns", "/kernel_sum_inclusive_ns", "sum of their durations"),
        SOURCE_COLUMN,
    }
    copies: "copies of one direction under one range path on one GPU", elements("/copies/*") => {
        STAGE, PATH,
        own("direction", "/direction", "from where to where"),
        DEVICE, CALLS,
        num("bytes", "bytes", "/bytes", "bytes copied"),
        TOTAL, MEAN, MAX, SOURCE_COLUMN,
    }
    fills: "fills under one range path on one GPU", elements("/fills/*") => {
        STAGE, PATH, DEVICE, CALLS,
        num("bytes", "bytes", "/bytes", "bytes filled"),
        TOTAL, MEAN, MAX, SOURCE_COLUMN,
    }
    processes: "a traced process and its place in the job", elements("/processes/*") => {
        FILE,
        num("pid", "number", "/pid", "process id"),
        num("rank", "number", "/rank", "rank in its job"),
        foreign("host", "/host", "host name"),
        foreign("devices", "/devices", "GPUs that it used"),
        count("kernels", "/kernels", "kernels"),
        SOURCE_COLUMN,
    }
    ranks: "a stage in one process", elements("/ranks/stages/*") => {
        STAGE,
        own("who", "/who", "rank or process id, in words"),
        num("rank", "number", "/rank", "rank in its job"),
        FILE,
        count("instances", "/instances", "times that the stage was opened"),
        ns("host_total_ns", "/host_total_ns", "host time of all closed instances"),
        ns("host_warm_median_ns", "/host_warm_median_ns", "median host time without the first instance"),
        ns("gpu_busy_ns", "/gpu_busy_ns", "time in which any of its GPUs worked for the stage"),
        ns("gpu_idle_ns", "/gpu_idle_ns", "window minus busy time"),
        count("kernels", "/kernels", "kernels"),
        ns("communication_ns", "/communication_ns", "sum of the durations of communication kernels"),
        ns("waiting_ns", "/waiting_ns", "time in collectives before their last member arrived"),
        ns("transfer_ns", "/transfer_ns", "time in collectives from that arrival on"),
        SOURCE_COLUMN,
    }
    late_ranks: "a rank that others waited for in a stage", elements("/ranks/late/*") => {
        STAGE,
        own("who", "/who", "rank or process id, in words"),
        num("rank", "number", "/rank", "rank in its job"),
        FILE,
        count("collectives", "/collectives", "collectives that it took part in"),
        count("late_collectives", "/late_collectives", "those that it was the last to arrive at"),
        ns("late_total_ns", "/late_total_ns", "how late it was there, summed"),
        count("delayed", "/delays/collectives", "collectives that it delayed by more than noise; null: none"),
        ns("delay_mean_ns", "/delays/mean_ns", "how late it was at these, on average"),
        ns("delay_total_ns", "/delays/total_ns", "how late it was at these, summed"),
        ns("delay_work_ns", "/delays/work_ns", "part of that sum that more GPU work explains"),
        percent("waiting_percent", "/delays/waiting_percent", "share of all waiting of the stage"),
        SOURCE_COLUMN,
    }
    collectives: "collectives of one operation and communicator in a stage, over all ranks",
        elements("/ranks/collectives/*") => {
        STAGE,
        own("operation", "/operation", "what it is"),
        own("communicator", "/communicator", "hash of the communicator"),
        count("members", "/members", "members of the communicator that were recorded"),
        CALLS,
        count("matched_calls", "/matched_calls", "calls that were matched over all members"),
        num("bytes", "bytes", "/bytes_total", "bytes of all calls whose size is known"),
        ns("time_ns", "/time_ns", "time of all calls"),
        ns("transfer_ns", "/transfer_ns", "time of matched calls from the last arrival on"),
        ns("waiting_ns", "/waiting_ns", "time of matched calls before the last arrival"),
        num("bus_gb_per_s", "GB/s", "/bus_gb_per_s", "bus bandwidth as NCCL's tests define it"),
        SOURCE_COLUMN,
    }
    host_causes: "a cause of the idle time of a stage, by samples of the launching threads",
        elements("/host/stages/*/causes/*") => {
        STAGE_AROUND,
        own("kind", "/kind", "kind of cause"),
        foreign("function", "/frame/function", "function that is responsible"),
        foreign("source_file", "/frame/file", "its file"),
        num("line", "number", "/frame/line", "its line"),
        foreign("called", "/called", "what it called in a library or in CUDA"),
        foreign("thread", "/thread", "thread that was waited for"),
        percent("percent", "/percent", "share of the idle time"),
        num("error_percent", "percentage points", "/error_percent", "standard error of that share"),
        count("samples", "/samples", "samples"),
        ns("idle_ns", "^/idle_ns", "idle time of the stage"),
        SOURCE_COLUMN,
    }
    host_samples: "a sample of a thread of the host", Rows::Traces => {
        foreign("file", OF_TRACES, "trace file of the process"),
        num("rank", "number", OF_TRACES, "rank of the process"),
        foreign("thread", OF_TRACES, "name of the thread"),
        num("tid", "number", OF_TRACES, "its id"),
        own("state", OF_TRACES, "state of the thread"),
        own("doing", OF_TRACES, "kind of cause that the sample counts for where the GPU is idle"),
        foreign("at", OF_TRACES, "function and line that stand for its stack"),
        ns("start_ns", OF_TRACES, "start of the time that it stands for, since the first event of the run"),
        ns("duration_ns", OF_TRACES, "length of that time"),
    }
    requests: "a request of an inference engine", Rows::Traces => {
        num("number", "number", OF_TRACES, "number in its process"),
        foreign("file", OF_TRACES, "trace file of the process"),
        ns("arrived_ns", OF_TRACES, "when it arrived, since the first event of the run"),
        ns("queue_ns", OF_TRACES, "time until its first step"),
        ns("first_token_ns", OF_TRACES, "time to the first token"),
        ns("total_ns", OF_TRACES, "time to its end"),
        num("prompt_tokens", "tokens", OF_TRACES, "tokens of the prompt"),
        num("cached_tokens", "tokens", OF_TRACES, "prompt tokens from the cache"),
        num("output_tokens", "tokens", OF_TRACES, "tokens generated"),
        count("preemptions", OF_TRACES, "times that it was preempted"),
        num("aborted", "0 or 1", OF_TRACES, "whether it was aborted"),
    }
    engine_steps: "steps of an engine of one kind and batch size",
        elements("/engine/kinds/*/rows/*") => {
        STAGE_AROUND,
        count("requests", "/requests", "requests in a step, at least"),
        count("requests_to", "/requests_to", "requests in a step, at most"),
        num("tokens_mean", "tokens", "/tokens_mean", "mean tokens of a step"),
        count("steps", "/steps", "steps"),
        count("timed_steps", "/timed_steps", "steps that the times are of"),
        ns("p50_ns", "/p50_ns", "median time of a step"),
        ns("p99_ns", "/p99_ns", "99th percentile"),
        SOURCE_COLUMN,
    }
    operators: "an operator of the framework in a stage", elements("/operators/stages/*") => {
        STAGE,
        foreign("name", "/op_name", "name of the operator"),
        CALLS,
        ns("host_total_ns", "/host_total_ns", "host time with everything within"),
        ns("host_self_ns", "/host_self_ns", "host time without the ranges within"),
        ns("gpu_inclusive_ns", "/gpu_inclusive_ns", "GPU work launched in it and within it"),
        count("kernels", "/kernels_inclusive", "kernels launched in it and within it"),
        SOURCE_COLUMN,
    }
    layers: "kernels of a stage by part of the model", elements("/layers/*") => {
        STAGE,
        own("part", "/part", "part of the model"),
        foreign("module", "/module", "module of the model"),
        count("kernels", "/kernels", "kernels"),
        ns("kernel_sum_ns", "/kernel_sum_ns", "sum of their durations"),
        percent("stage_percent", "/stage_kernel_sum_percent", "share of the kernel durations of the stage"),
        SOURCE_COLUMN,
    }
    energy: "energy and clocks of a stage", elements("/energy/*") => {
        STAGE,
        num("energy_j", "J", "/energy_j/known", "energy of its GPUs in its windows"),
        num("uncertainty_j", "J", "/uncertainty_j", "how far the energy may be off"),
        num("mean_power_w", "W", "/mean_power_w/known", "mean power of its GPUs together"),
        num("joules_per_token", "J", "/joules_per_token/known", "energy per token"),
        num("sm_clock_mean_mhz", "MHz", "/clocks/sm_clock_mhz/mean", "mean clock of the multiprocessors"),
        SOURCE_COLUMN,
    }
    ncu_regions: "what range replay of ncu measured of an NVTX region",
        elements("/ncu_regions/*/regions/*") => {
        own("scope", "^/scope", "over all processes, or of one process or GPU"),
        PATH,
        count("launches", "/inclusive/launches", "launches, or instances"),
        ns("duration_ns", "/inclusive/duration_ns", "time under ncu"),
        num("dram_bytes", "bytes", "/inclusive/dram_bytes", "DRAM bytes read and written"),
        num("flops", "FLOP", "/inclusive/flops", "operations that were counted"),
        percent("sm_percent", "/inclusive/sm_percent", "throughput of the multiprocessors"),
        percent("memory_percent", "/inclusive/memory_percent", "throughput of caches and memory"),
        SOURCE_COLUMN,
    }
    takeaways: "what the numbers say, the most important first", elements("/takeaways/*") => {
        foreign("id", "/id", "its name: the rule, the stage, and what of the stage it is about"),
        own("rule", "/rule", "rule that says it"),
        own("confidence", "/confidence", "how sure it is: high, medium or low"),
        STAGE,
        foreign("text", "/text", "what it says; it may quote names of the workload"),
        foreign("recommendation", "/recommendation", "what to do"),
        percent("concerns_percent", "/concerns_percent", "part of all windows that is concerned"),
        SOURCE_COLUMN,
    }
    findings: "something that is missing, or needs care in reading", elements("/findings/*") => {
        own("id", "/id", "kind of finding, as docs/findings.md lists them"),
        foreign("subject", "/subject", "what it is about, where one report can have several"),
        own("severity", "/severity", "how much it matters"),
        foreign("what", "/what", "what happened; it may quote names of the workload"),
        foreign("why", "/why", "why, or what follows"),
        foreign("remedy", "/remedy", "what to do"),
        SOURCE_COLUMN,
    }
    coverage: "what was recorded of a process, and what is missing",
        elements("/coverage/processes/*") => {
        FILE,
        num("pid", "number", "/pid", "process id"),
        own("ending", "/ending", "how the file ends"),
        own("gpu_off", "/gpu_off", "why GPU collection was off"),
        count("kernels", "/counts/kernels", "kernels"),
        count("copies", "/counts/copies", "copies"),
        count("fills", "/counts/fills", "fills"),
        count("graph_launches", "/counts/graph_launches", "graphs that were recorded as a whole"),
        count("unattributed", "/counts/unattributed", "GPU records that could not be placed"),
        count("untimed", "/counts/invalid_timestamps", "GPU records without times"),
        count("dropped_by_cupti", "/counts/dropped_by_cupti", "records dropped by CUPTI"),
        count("range_events_lost", "/counts/range_events_lost", "range events lost"),
        SOURCE_COLUMN,
    }
}
