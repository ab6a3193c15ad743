//! Sections -> their headings and tables, or the reason for having none.

use super::super::operators::none;
use super::super::steps::TITLE as STEPS_TITLE;
use super::super::table::Align::{self, Left, Right};
use super::super::table::Table;
use super::values::{NAME_LIMIT, decimal, sentence, share_of_peak, text};
use super::{
    AggregateRow, CostRow, MfuRow, Recommendation, Section, StageTimingRow, Takeaway, TopKernelRow,
};
use stage2_model::{Absence, Fact, Finding, OperatorRow, Severity};
use stage2_text::numbers::{ABSENT, count, ms3, ms6, or_absent, percent1};
use stage2_text::{code, shorten, shorten_kernel, visible};

/// Rows of a table; metrics.json has them all.
const ROWS: usize = 40;

/// A heading, and below it the table with its notes and its source, or why there is none.
fn section<T, const N: usize>(
    title: &str,
    section: &Section<T>,
    columns: [(&str, Align); N],
    cells: impl Fn(usize, &T) -> [String; N],
) -> String {
    let mut out = format!("## {title}\n\n");
    let filled = match section {
        Section::Filled(filled) if !filled.rows.is_empty() => filled,
        Section::Filled(_) => {
            let reason = "none was found in what was recorded".to_owned();
            out.push_str(&none(&Absence { reason, remedy: String::new() }));
            return out;
        }
        Section::Absent(absence) => {
            out.push_str(&none(&Absence {
                reason: visible(absence.reason.as_bytes()),
                remedy: visible(absence.remedy.as_bytes()),
            }));
            return out;
        }
    };
    let mut table = Table::new(&columns);
    for (index, row) in filled.rows.iter().take(ROWS).enumerate() {
        table.row(cells(index, row));
    }
    out.push_str(&table.finish());
    if let Some(more) = filled.rows.len().checked_sub(ROWS).filter(|&more| more > 0) {
        out.push_str(&format!("{} more rows stand in metrics.json.\n\n", count(more as u64)));
    }
    for note in &filled.notes {
        out.push_str(&format!("{}\n\n", sentence(note)));
    }
    if !filled.source.is_empty() {
        out.push_str(&format!("Source: {}\n\n", sentence(&filled.source)));
    }
    out
}

pub(super) fn environment(facts: &Section<Fact>) -> String {
    section("Environment", facts, [("Key", Left), ("Value", Left)], |_, fact| {
        [text(&fact.key), text(&fact.value)]
    })
}

pub(super) fn aggregates(rows: &Section<AggregateRow>) -> String {
    let columns = [
        ("Metric", Left),
        ("Unit", Left),
        ("Mean", Right),
        ("Std", Right),
        ("Median", Right),
        ("First (cold)", Right),
        ("Values", Right),
    ];
    section("Aggregates", rows, columns, |_, row| {
        [
            text(&row.metric),
            text(&row.unit),
            decimal(row.mean, 3),
            decimal(row.std, 3),
            decimal(row.median, 3),
            decimal(row.first, 3),
            or_absent(row.values, count),
        ]
    })
}

pub(super) fn stages(rows: &Section<StageTimingRow>) -> String {
    let columns = [
        ("Stage", Left),
        ("Mean (ms)", Right),
        ("Std (ms)", Right),
        ("Median (ms)", Right),
        ("First, cold (ms)", Right),
        ("Instances", Right),
        ("GPU busy, all (ms)", Right),
        ("GPU idle (%)", Right),
        ("Kernels, all", Right),
        ("Within", Left),
    ];
    section("Per-Stage Timings", rows, columns, |_, row| {
        [
            name(&row.stage),
            or_absent(row.host_mean_ns, ms3),
            or_absent(row.host_std_ns, ms3),
            or_absent(row.host_median_ns, ms3),
            or_absent(row.host_first_ns, ms3),
            or_absent(row.instances, count),
            or_absent(row.gpu_busy_ns, ms3),
            or_absent(row.gpu_idle_percent, percent1),
            or_absent(row.kernels, count),
            or_absent(row.within.as_deref(), name),
        ]
    })
}

/// Nothing where there are none.
pub(super) fn steps(sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|line| format!("- {}\n", sentence(line))).collect();
    format!("## {STEPS_TITLE}\n\n{items}\n")
}

pub(super) fn costs(rows: &Section<CostRow>) -> String {
    let columns = [
        ("Pass", Left),
        ("Stage", Left),
        ("Median (ms)", Right),
        ("Total (ms)", Right),
        ("Instances", Right),
        ("Times the baseline", Right),
    ];
    section("Cost of the Passes", rows, columns, |_, row| {
        [
            text(&row.pass),
            row.stage.as_deref().map_or_else(|| "(whole pass)".to_owned(), name),
            or_absent(row.median_ns, ms3),
            or_absent(row.total_ns, ms3),
            or_absent(row.instances, count),
            decimal(row.ratio, 3),
        ]
    })
}

pub(super) fn mfu(rows: &Section<MfuRow>) -> String {
    let columns = [
        ("Scope", Left),
        ("MFU (0-1)", Right),
        ("MFU by counters, GPU busy (0-1)", Right),
        ("Counters cover (% of kernel time)", Right),
        ("MBU (0-1)", Right),
        ("FLOPs (GFLOP)", Right),
        ("Time (ms)", Right),
        ("Achieved (TFLOP/s)", Right),
        ("Peak, dense (TFLOP/s)", Right),
    ];
    section("MFU", rows, columns, |_, row| {
        [
            name(&row.scope),
            share_of_peak(row.mfu),
            share_of_peak(row.mfu_measured),
            or_absent(row.counted_percent, percent1),
            share_of_peak(row.mbu),
            decimal(row.flops.map(|flops| flops / 1e9), 3),
            or_absent(row.time_ns, ms3),
            decimal(row.achieved_tflops, 3),
            decimal(row.peak_dense_tflops, 2),
        ]
    })
}

pub(super) fn operators(rows: &Section<OperatorRow>) -> String {
    let columns = [
        ("Operator", Left),
        ("Total (ms)", Right),
        ("CUDA (ms)", Right),
        ("Calls", Right),
        ("Mean (ms)", Right),
        ("Self (ms)", Right),
        ("CUDA self (ms)", Right),
    ];
    section("Top Operators", rows, columns, |_, row| {
        [
            name(&row.op_name),
            or_absent(row.host_total_ns, ms3),
            or_absent(row.gpu_inclusive_ns, ms3),
            count(row.calls),
            or_absent(row.host_mean_ns, ms6),
            or_absent(row.host_self_ns, ms3),
            or_absent(row.gpu_exclusive_ns, ms3),
        ]
    })
}

pub(super) fn kernels(rows: &Section<TopKernelRow>) -> String {
    let columns = [
        ("Kernel", Left),
        ("Total (ms)", Right),
        ("Calls", Right),
        ("Mean (ms)", Right),
        ("Device", Left),
        ("GPU time (%)", Right),
        ("Class", Left),
        ("Bound", Left),
        ("Of attainable (%)", Right),
        ("Occupancy (%)", Right),
    ];
    let or_text = |value: &Option<String>| or_absent(value.as_deref(), text);
    section("Top Kernels", rows, columns, |_, row| {
        [
            code(&shorten_kernel(&visible(row.kernel.as_bytes()), NAME_LIMIT)),
            ms3(row.total_ns),
            count(row.calls),
            or_absent(row.mean_ns, ms6),
            or_text(&row.device),
            or_absent(row.percent, percent1),
            or_text(&row.class),
            or_text(&row.bound),
            or_absent(row.attainable_share.map(|share| share * 100.0), percent1),
            or_absent(row.occupancy_percent, percent1),
        ]
    })
}

pub(super) fn takeaways(rows: &Section<Takeaway>) -> String {
    let columns = [("#", Right), ("Takeaway", Left), ("Evidence", Left)];
    section("Takeaways", rows, columns, |index, row| {
        [(index + 1).to_string(), sentence(&row.text), or_nothing(&row.evidence)]
    })
}

pub(super) fn recommendations(rows: &Section<Recommendation>) -> String {
    let columns = [("#", Right), ("To do", Left), ("Why", Left), ("Gain at most", Left)];
    section("Recommendations", rows, columns, |index, row| {
        let number = (index + 1).to_string();
        [number, sentence(&row.action), or_nothing(&row.why), or_nothing(&row.gain)]
    })
}

pub(super) fn limits(rows: &Section<Finding>) -> String {
    let columns = [("Limit", Left), ("Weight", Left), ("Why", Left), ("To do", Left)];
    section("Limits", rows, columns, |_, row| {
        let weight = match row.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        [text(&row.what), weight.to_owned(), or_nothing(&row.why), or_nothing(&row.remedy)]
    })
}

fn or_nothing(value: &str) -> String {
    if value.is_empty() { ABSENT.to_owned() } else { text(value) }
}

fn name(name: &str) -> String {
    code(&shorten(&visible(name.as_bytes()), NAME_LIMIT))
}
