//! What ncu and nsys add to a report -> its sections: classes, roofline, reconciliation.

use std::collections::BTreeMap;

use super::left_out;
use crate::views::table::Align::{Left, Right};
use crate::views::table::Table;
use stage2_analysis::roofline::bound;
use stage2_model::{KernelRow, Report};
use stage2_text::numbers::{count, ms3, or_absent, percent1};
use stage2_text::{code, plain, shorten, shorten_kernel};

/// Rows of a table here.
const ROWS: usize = 20;

/// Shares of the classes of kernels in each stage.
pub(super) fn classes(report: &Report) -> String {
    let mut shares: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    let mut stages: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &report.kernels {
        let sum = shares.entry((&row.stage, &row.class)).or_default();
        sum.0 = sum.0.saturating_add(row.times.total_ns);
        sum.1 = sum.1.saturating_add(row.times.calls);
        let stage = stages.entry(&row.stage).or_default();
        *stage = stage.saturating_add(row.times.total_ns);
    }
    if shares.is_empty() {
        return "## Kernel classes\n\nNone, because no kernel was recorded.\n\n".to_owned();
    }
    let mut rows: Vec<_> = shares.into_iter().collect();
    rows.sort_by_key(|&((stage, class), (ns, _))| (stage, std::cmp::Reverse(ns), class));
    let mut table = Table::new(&[
        ("stage", Left),
        ("class", Left),
        ("kernel_sum_ms", Right),
        ("% of the stage's sum", Right),
        ("calls", Right),
    ]);
    for ((stage, class), (ns, calls)) in rows {
        let whole = stages.get(stage).copied().unwrap_or(0);
        let share = if whole == 0 { 0.0 } else { ns as f64 * 100.0 / whole as f64 };
        table.row([code(stage), plain(class), ms3(ns), percent1(share), calls.to_string()]);
    }
    format!(
        "## Kernel classes\n\n{}Classes follow from the names of the kernels; selection is top-k, sort, argmax and \
         multinomial, of samplers and of the routers of experts.{}\n\n",
        table.finish(),
        waiting(report),
    )
}

/// Communication kernels spin while they wait.
fn waiting(report: &Report) -> String {
    let waited = report.ranks.collectives.iter().filter_map(|row| row.waiting_ns);
    match waited.reduce(u64::saturating_add) {
        Some(ns) => format!(
            " Of communication, {} ms are waiting for other ranks: see Collectives.",
            ms3(ns)
        ),
        None => String::new(),
    }
}

/// The longest kernels with counters, under the roof.
pub(super) fn roofline(report: &Report) -> String {
    let mut out = String::from("## Roofline\n\n");
    let all: Vec<&KernelRow> = report.kernels.iter().filter(|row| row.counters.is_some()).collect();
    if all.is_empty() {
        out.push_str("None, because no counters of ncu are in this bundle.\n\n");
        return out;
    }
    let mut table = Table::new(&[
        ("kernel", Left),
        ("stage", Left),
        ("kernel_sum_ms", Right),
        ("SM_%", Right),
        ("memory_%", Right),
        ("occupancy_%", Right),
        ("TFLOP/s", Right),
        ("GB/s", Right),
        ("FLOP/byte", Right),
        ("% of attainable", Right),
        ("bound", Left),
        ("ncu / undisturbed duration", Right),
        ("profiled in", Left),
        ("of one launch only, because", Left),
    ]);
    for row in all.iter().take(ROWS) {
        let Some(c) = &row.counters else { continue };
        let roof = &c.roofline;
        let scaled = |value: Option<f64>, by: f64| number(value.map(|v| v / by), 2);
        table.row([
            code(&shorten_kernel(&row.kernel, 80)),
            code(&row.stage),
            ms3(row.times.total_ns),
            number(c.sm_percent, 1),
            number(c.memory_percent, 1),
            number(c.achieved_occupancy_percent, 1),
            scaled(roof.flops_per_s, 1e12),
            scaled(roof.bytes_per_s, 1e9),
            number(roof.flops_per_byte, 2),
            number(roof.attainable_share.map(|share| share * 100.0), 1),
            roof.bound.map_or("–", |bound| bound.label()).to_owned(),
            number(roof.duration_ratio, 2),
            or_absent(c.profiled_in.as_deref(), code),
            or_absent(c.one_launch.as_deref(), plain),
        ]);
    }
    out.push_str(&table.finish());
    out.push_str(&left_out(all.len(), ROWS, "kernels.csv"));
    out.push_str(&format!("Counters are ncu's, of one launch of each kernel and configuration; rates are counts over the mean duration of the row (source: {}); when they stand for the row and when for the profiled launch only: see counters under How to read this. Bound: {}\n\n", plain(&report.source), plain(&bound::rule())));
    match &report.peaks {
        Some(peaks) => out.push_str(&format!(
            "Peaks: dense rates of {} ({}).\n\n",
            plain(&peaks.card),
            plain(&peaks.source)
        )),
        None => out.push_str("Peaks: none, because this GPU is in no preset of conf/hardware.\n\n"),
    }
    out
}

/// How far the counts of nsys agree with the collector's.
pub(super) fn reconciliation(report: &Report) -> String {
    let mut out = String::from("## Nsight Systems against the collector\n\n");
    let Some(nsys) = &report.nsys else {
        out.push_str("None, because no nsys capture is in this bundle.\n\n");
        return out;
    };
    if nsys.reconciliations.is_empty() {
        out.push_str(
            "None, because the collector recorded no kernel that it could be compared with.\n",
        );
    }
    for one in &nsys.reconciliations {
        out.push_str(&format!("- {}\n", plain(&one.text)));
    }
    let differing: Vec<_> = nsys
        .reconciliations
        .iter()
        .flat_map(|one| one.kernels.iter().map(move |kernel| (&one.scope, kernel)))
        .filter(|(_, kernel)| kernel.sides.calls_difference() != 0)
        .collect();
    if !differing.is_empty() {
        let mut table = Table::new(&[
            ("scope", Left),
            ("mangled_name", Left),
            ("collector_calls", Right),
            ("nsys_calls", Right),
        ]);
        for (scope, kernel) in differing.iter().take(ROWS) {
            table.row([
                plain(scope),
                code(&shorten(&kernel.mangled, 80)),
                kernel.sides.collector_calls.to_string(),
                kernel.sides.nsys_calls.to_string(),
            ]);
        }
        out.push_str(&format!(
            "\nKernels with other counts ({}):\n\n",
            count(differing.len() as u64)
        ));
        out.push_str(&table.finish());
        out.push_str(left_out(differing.len(), ROWS, "metrics.json").trim_end_matches('\n'));
    }
    out.push('\n');
    out
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::CounterRow;

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        let with = |rows: usize| {
            let counters = Some(CounterRow::default());
            let row = KernelRow { counters, ..KernelRow::default() };
            roofline(&Report { kernels: vec![row; rows], ..Report::default() })
        };
        assert!(with(30).contains("10 more rows stand in kernels.csv."), "{}", with(30));
        assert!(!with(20).contains("more rows"), "all of them are shown");
    }
}
