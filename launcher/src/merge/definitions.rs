//! What the terms of a report mean, in the words that every view shows.

use crate::load::series::EXACT_VALUES;
use crate::report::model::Definition;
use crate::roofline::standing;
use stage2_figures::ERROR_PERCENT;

/// The terms, in the order in which a reader meets them.
pub(super) fn definitions() -> Vec<Definition> {
    let percentiles = format!(
        "Nearest rank, from a log-linear histogram: within {ERROR_PERCENT} % of the exact value. \
         Minimum, maximum, total and mean are exact. Medians over the \
         instances of a range come from such a histogram, too, where there are more than \
         {EXACT_VALUES} of them, or a million in all ranges of a process."
    );
    let counters = standing::rule();
    let terms: [(&str, &str); 13] = [
        (
            "source",
            "Calls, durations and times of ranges come from the collector: CUPTI activity records \
             and NVTX events of the traced processes. Counters are ncu's, the comparison with a \
             timeline is with nsys, host times of a pass are of that pass, peaks are of data sheets, \
             FLOPs and bytes of a model follow from its shape: each says so where it stands. A value that is not known is absent, never zero.",
        ),
        (
            "stage",
            "The outermost of the workload's ranges (NVTX) that was open on the launching thread at \
             launch. Ranges of libraries (domains such as NCCL, TSL, CCCL or cuBLAS; \
             report.library_domains adds to them) are never stages and never around the workload's \
             ranges: they stand within them. Work that was launched while none of the workload's \
             ranges was open stands under (outside ranges), work whose launch could not be placed \
             under (unattributed).",
        ),
        (
            "instance",
            "One opening of a range. The first instance of each process is cold (compilation, \
             caches, allocation): it is shown by itself, and medians, means, deviations, MFU and \
             MBU leave it out wherever it can be told apart; sums hold it. A \
             start/end range that outlives the range around it goes on under another path: that \
             path gets the time, but no instance.",
        ),
        ("host time", "From the opening to the closing of the range, on the host's clock."),
        (
            "GPU window",
            "Of an instance: from the opening of its range to its closing or to the end of the \
             last GPU work launched in it, whichever is later. Of a stage: the union of the \
             windows of its instances, so that overlapping ones count once; summed over \
             processes.",
        ),
        (
            "GPU busy",
            "Time in which at least one kernel, copy, fill or graph of the stage ran, on any GPU \
             of the process: the union of their intervals, summed over processes.",
        ),
        (
            "GPU idle",
            "GPU window minus GPU busy; for a GPU the time between the first and the last work of any \
             process minus GPU busy. Where several processes used a GPU at the same time, what one \
             leaves idle another may fill: busy times are sums over processes there, in which work \
             side by side counts for each, and idle times and shares are not given.",
        ),
        (
            "sum of kernel time",
            "The durations of all kernels added up. Where kernels overlap this exceeds the busy \
             time, and it can exceed wall time.",
        ),
        (
            "share of kernel time",
            "Of a row: its part of the sum of the durations of all kernels of the run.",
        ),
        ("percentiles", &percentiles),
        ("counters", &counters),
        (
            "inclusive, exclusive",
            "Inclusive counts what was launched in a range or in ranges within it, exclusive what \
             was launched while it was the innermost. A replayed graph's kernels belong to the \
             range open at replay.",
        ),
        (
            "names",
            "Kernel names are demangled and shortened here; kernels.csv and metrics.json hold \
             them in full. Characters that cannot be seen are spelled out (\\n, \\x1b, \\u{202e}; \
             \\xff for a byte that is no UTF-8). In kernels.csv, text that begins with =, +, - or \
             @ has a ' in front, so that no spreadsheet runs it.",
        ),
    ];
    terms
        .into_iter()
        .map(|(term, meaning)| Definition { term: term.to_owned(), meaning: meaning.to_owned() })
        .collect()
}
