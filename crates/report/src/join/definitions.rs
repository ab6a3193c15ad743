//! What the terms of a report mean, in the words that every view shows.

use crate::roofline::bound;
use stage2_contract::stats::{ERROR_PERCENT, P99_VALUES};
use stage2_contract::text::numbers::count;
use stage2_model::{Definition, Outliers};
use stage2_read::trace::stats::EXACT_VALUES;

pub(super) fn definitions() -> Vec<Definition> {
    let exact = count(EXACT_VALUES as u64);
    let percentiles = format!(
        "Nearest rank, from a log-linear histogram: within {ERROR_PERCENT} % of the exact value. \
         Minimum, maximum, total and mean are exact. The median over the instances of a range comes \
         from the same kind of histogram when there are more than {exact} instances, or more \
         than a million in all ranges of a process. A 99th percentile needs \
         {P99_VALUES} values; with fewer than 100, it is the longest one."
    );
    let counters = bound::one_launch_rule();
    let outliers = format!(
        "{}. The time of an instance is its window without what lies in the windows of those that ended \
         before it; the time of a step is its host time. Shares of windows, gains, takeaways, MFU and MBU \
         are without outliers: a line of the first screen names them. Tables of kernels, host times and \
         sums include them.",
        Outliers::rule()
    );
    let terms: [(&str, &str); 15] = [
        (
            "source",
            "The collector measures calls, durations and range times: CUPTI activity records and \
             NVTX events of the traced processes. ncu measures counters. nsys provides the timeline \
             that we compare with. Each pass measures its own host times. Peaks come from data \
             sheets, FLOPs and bytes of a model from its shape. Every table names its source. An \
             unknown value is left out; it is never shown as zero.",
        ),
        (
            "stage",
            "The outermost NVTX range of the workload that was open on the launching thread at the \
             time of the launch. Ranges of libraries (domains such as NCCL, TSL, CCCL or cuBLAS, and \
             those in report.library_domains) are never stages and never enclose ranges of the \
             workload; they appear inside them. Work that was launched outside every range of the \
             workload is listed as (outside ranges). Work whose launch could not be located is \
             listed as (unattributed).",
        ),
        (
            "instance",
            "One opening of a range. The first instance of each process is cold (compilation, \
             caches, allocation). It is shown separately: medians, means, deviations, MFU and MBU \
             exclude it wherever it can be told apart, and sums include it. If a stage has no other, \
             and enough steps in it, these stand for others, with a label. A start/end range that \
             outlives its enclosing range continues under another path. The time counts under \
             that path; the instance does not.",
        ),
        (
            "step",
            "A range that repeats within the calls of a stage and covers nearly all of their time; \
             without one, times are those of whole calls and are called so. Where it is known how \
             many tokens of a sequence one of them holds, times are given per token.",
        ),
        ("outlier", &outliers),
        ("host time", "From the opening to the closing of the range, on the host's clock."),
        (
            "GPU window",
            "Of an instance: from the opening of its range to its closing (of a step of an engine: to \
             the opening of the next one), or to the end of the last GPU work launched in it, \
             whichever is later. Of a stage: the union of the \
             windows of its instances, so that overlapping windows count once, summed over \
             processes.",
        ),
        (
            "GPU busy",
            "The time during which at least one kernel, copy, fill or graph of the stage was running \
             on any GPU of the process: the union of their intervals, summed over processes.",
        ),
        (
            "GPU idle",
            "The GPU window minus the GPU busy time. For a whole GPU, the time from the start of the \
             first work to the end of the last, minus the busy time. When several processes share a \
             GPU, one may use it while another leaves it idle. Busy time is then the sum over the \
             processes, concurrent work counts once per process, and no idle time or share is given.",
        ),
        (
            "sum of kernel time",
            "The sum of the durations of all kernels. When kernels overlap, it exceeds the busy \
             time, and it can exceed the wall time.",
        ),
        (
            "share of kernel time",
            "The row's part of the summed durations of all kernels of its stage: warm calls \
             only, where there are any. The shares of kernels.csv are of all kernels in the run.",
        ),
        ("percentiles", &percentiles),
        ("counters", &counters),
        (
            "inclusive, exclusive",
            "Inclusive numbers count what was launched in a range or in any range inside it. \
             Exclusive numbers count only what was launched while the range was the innermost. The \
             kernels of a replayed graph belong to the range that was open at the replay.",
        ),
        (
            "names",
            "Kernel names are demangled and shortened here; kernels.csv and metrics.json hold the \
             full names. Invisible characters are escaped (\\n, \\x1b, \\u{202e}; \\xff for a byte \
             that is not UTF-8). In kernels.csv, text that begins with =, +, - or @ is prefixed with \
             ', so that no spreadsheet executes it.",
        ),
    ];
    terms
        .into_iter()
        .map(|(term, meaning)| Definition { term: term.to_owned(), meaning: meaning.to_owned() })
        .collect()
}
