//! What ncu and nsys add to a report -> its sections: classes, roofline, reconciliation.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::kernels::top;
use crate::table::{self, Table, none, paragraph};
use stage2_contract::text::numbers::{count, ms3, percent1};
use stage2_contract::text::{code, plain, shorten, shorten_kernel};
use stage2_model::{KernelRow, Report};
use stage2_report::roofline::bound;

/// Rows of a table here.
const ROWS: usize = 20;

/// Shares of the classes of kernels in each stage.
pub(super) fn classes(report: &Report) -> String {
    let mut stages: BTreeMap<&str, (Reverse<u64>, Vec<&KernelRow>)> = BTreeMap::new();
    for row in &report.kernels {
        let (Reverse(ns), rows) = stages.entry(&row.stage).or_default();
        *ns = ns.saturating_add(row.times.total_ns);
        rows.push(row);
    }
    if stages.is_empty() {
        return none("no kernel was recorded", "");
    }
    let mut stages: Vec<_> = stages.into_iter().collect();
    // Where there are more than are shown, the longest ones are.
    if stages.len() > table::ROWS {
        stages.sort_by_key(|(_, (ns, _))| *ns);
    }
    let stages = stages.into_iter().map(|(stage, (_, rows))| (stage, top::classes(rows)));
    let rows = stages.flat_map(|(stage, sums)| sums.into_iter().map(move |sum| (stage, sum)));
    let rows: Vec<_> = rows.collect();
    let table = Table::first(table::ROWS, &rows)
        .left("stage", |(stage, _)| code(stage))
        .left("class", |(_, sum)| plain(sum.class))
        .right("kernel_sum_ms", |(_, sum)| sum.total_ns.map(ms3))
        .right("% of the stage's sum", |(_, sum)| sum.percent.map(percent1))
        .right("calls", |(_, sum)| sum.calls.to_string());
    // Communication kernels spin while they wait.
    let waited = report.ranks.collectives.iter().filter_map(|row| row.waiting_ns);
    let waiting = waited.reduce(u64::saturating_add).map_or_else(String::new, |ns| {
        format!(" Of communication, {} ms are waiting for other ranks: see Collectives.", ms3(ns))
    });
    format!(
        "{}Classes follow from the names of the kernels; selection is top-k, sort, argmax and \
         multinomial, of samplers and of the routers of experts.{waiting}\n\n",
        table.markdown(),
    )
}

/// The longest kernels with counters, under the roof.
pub(super) fn roofline(report: &Report) -> String {
    let counted = report.kernels.iter().filter_map(|row| Some((row, row.counters.as_ref()?)));
    let rows: Vec<_> = counted.collect();
    if rows.is_empty() {
        return none("no counters of ncu are in this bundle", "");
    }
    let number = |value: Option<f64>, decimals: usize| value.map(|v| format!("{v:.decimals$}"));
    let table = Table::first(ROWS, &rows)
        .left("kernel", |(row, _): &(&KernelRow, _)| code(&shorten_kernel(&row.kernel, 80)))
        .left("stage", |(row, _)| code(&row.stage))
        .right("kernel_sum_ms", |(row, _)| row.times.known_total_ns().map(ms3))
        .right("SM_%", |(_, c)| number(c.sm_percent, 1))
        .right("memory_%", |(_, c)| number(c.memory_percent, 1))
        .right("occupancy_%", |(_, c)| number(c.achieved_occupancy_percent, 1))
        .right("TFLOP/s", |(_, c)| number(c.roofline.flops_per_s.map(|rate| rate / 1e12), 2))
        .right("GB/s", |(_, c)| number(c.roofline.bytes_per_s.map(|rate| rate / 1e9), 2))
        .right("FLOP/byte", |(_, c)| number(c.roofline.flops_per_byte, 2))
        .right("% of attainable", |(_, c)| {
            number(c.roofline.attainable_share.map(|share| share * 100.0), 1)
        })
        .left("bound", |(_, c)| c.roofline.bound.map(|bound| bound.label().to_owned()))
        .right("ncu / undisturbed duration", |(_, c)| number(c.roofline.duration_ratio, 2))
        .left("profiled in", |(_, c)| c.profiled_in.as_deref().map(code))
        .left("of one launch only, because", |(_, c)| c.one_launch.as_deref().map(plain));
    let mut out = table.markdown_with_rest_in("kernels.csv");
    out.push_str(&paragraph(&format!(
        "Counters are ncu's, of one launch of each kernel and configuration. Rates are counts over the \
         mean duration of the row (source: {}). How to read this says, under counters, when they hold \
         for the whole row and when only for the profiled launch. Bound: {}",
        report.source,
        bound::rule()
    )));
    out.push_str(&match &report.peaks {
        Some(peaks) => {
            paragraph(&format!("Peaks: dense rates of {} ({}).", peaks.card, peaks.source))
        }
        None => "Peaks: none, because this GPU is in no preset of conf/hardware.\n\n".to_owned(),
    });
    out
}

/// How far the counts of nsys agree with the collector's.
pub(super) fn reconciliation(report: &Report) -> String {
    let Some(nsys) = &report.nsys else {
        return none("no nsys capture is in this bundle", "");
    };
    if nsys.reconciliations.is_empty() {
        return none("the collector recorded no kernel that it could be compared with", "");
    }
    let items = nsys.reconciliations.iter().map(|one| format!("- {}\n", plain(&one.text)));
    let mut out = items.collect::<String>() + "\n";
    let kernels = nsys
        .reconciliations
        .iter()
        .flat_map(|one| one.kernels.iter().map(move |kernel| (&one.scope, kernel)));
    let differing: Vec<_> =
        kernels.filter(|(_, kernel)| kernel.sides.calls_difference() != 0).collect();
    if !differing.is_empty() {
        let table = Table::first(ROWS, &differing)
            .left("scope", |(scope, _)| plain(scope))
            .left("mangled_name", |(_, kernel)| code(&shorten(&kernel.mangled, 80)))
            .right("collector_calls", |(_, kernel)| kernel.sides.collector_calls.to_string())
            .right("nsys_calls", |(_, kernel)| kernel.sides.nsys_calls.to_string());
        let all = count(differing.len() as u64);
        out.push_str(&format!("Kernels with other counts ({all}):\n\n{}", table.markdown()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::CounterRow;

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        let with = |rows: usize| {
            let counters = Some(Box::new(CounterRow::default()));
            let row = KernelRow { counters, ..KernelRow::default() };
            roofline(&Report { kernels: vec![row; rows], ..Report::default() })
        };
        assert!(with(30).contains("10 more rows are in kernels.csv."), "{}", with(30));
        assert!(!with(20).contains("more rows"), "all of them are shown");
    }
}
