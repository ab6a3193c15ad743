//! Operator rows -> `operators.md`: which operators take the time, on the host and on the GPU.

use stage2_contract::text::numbers::{count, ms3, ms6, or_absent, percent1, shown_time};
use stage2_contract::text::{code, code_in_text, plain};
use stage2_model::{OperatorRow, Operators, Report};
use stage2_report::in_part;

use crate::page::{Page, head_of_tables, opening, run_line};
use crate::table::{Table, more, none, paragraph};

/// Operators of each stage that are listed.
const STAGE_ROWS: usize = 10;
/// Stages that are listed.
const STAGES: usize = 12;

/// What the columns are, in front of the table, which is long.
const COLUMNS: &str = "\
- `total_time_ms`: the host time from the call of an operator to its return. It includes the operators that it calls: they \
are nested, so the column does not add up.
- `cuda_time_ms`: the sum of the durations of the GPU work that was launched in that time, whenever it ran. Overlapping \
work counts each time.
- `self_time_ms`, `cuda_self_time_ms`: the same without the operators that it calls. `warm_self_ms` is without cold calls, and \
adds up.
- `gpu_time_%`: the share of `cuda_time_ms` in all GPU work of the run.
";

/// `operators.md`, with at most `top` rows.
pub fn operators_md(report: &Report, operators: &Operators, top: usize) -> String {
    page(report, operators, top).markdown()
}

pub(super) fn page(report: &Report, operators: &Operators, top: usize) -> Page {
    let title = format!("Operators of {}", report.run.name);
    let run = run_line(report, false);
    if let Some(absence) = &operators.absent {
        let head = run + &opening(report) + &none(&absence.reason, &absence.remedy);
        return Page { title, head, sections: Vec::new() };
    }
    let mut out = run + &head_of_tables(report, &answer(&operators.rows));
    out.push_str(&format!("Source: {}.\n\n", plain(&operators.source)));
    if let Some(coverage) = operators.coverage {
        out.push_str(&format!(
            "Of {} of GPU work in the whole run, {} ({} %) was launched in operators.\n\n",
            shown_time(coverage.gpu_total_ns as f64),
            shown_time(coverage.gpu_in_operators_ns as f64),
            or_absent(coverage.percent(), percent1),
        ));
    }
    let left = operators.rows.len().saturating_sub(top);
    out.push_str(&format!(
        "Rows: {} of {}, longest warm host time first{}.\n\n",
        count((operators.rows.len() - left) as u64),
        count(operators.rows.len() as u64),
        if left > 0 { "; metrics.json contains every row" } else { "" },
    ));
    let gpu_total_ns = operators.coverage.map(|coverage| coverage.gpu_total_ns);
    let shown: Vec<&OperatorRow> = operators.rows.iter().take(top).collect();
    out.push_str(&paragraph(&format!(
        "{} Only the warm totals and means leave out the first call of an operator in each range path and \
         process, which loads modules and fills caches.",
        basis(operators)
    )));
    out.extend(in_part::operators(report).iter().map(|note| paragraph(note)));
    out.push_str(COLUMNS);
    if operators.rows.iter().any(|row| row.nested_calls > 0) {
        out.push_str(
            "- `nested_calls`: calls of an operator within itself, whose time counts once.\n",
        );
    }
    out.push('\n');
    out.push_str(&table(top, &shown, gpu_total_ns).markdown());
    let mut sections = Vec::new();
    if !operators.warm_up.is_empty() {
        let rows: Vec<&OperatorRow> = operators.warm_up.iter().collect();
        let table = table(STAGE_ROWS, &rows, gpu_total_ns).markdown_with_rest_in("metrics.json");
        sections.push(("Operators of warm-ups", table));
    }
    if !operators.stages.is_empty() {
        sections.push(("Operators of each stage", stages(operators, gpu_total_ns)));
    }
    Page { title, head: out, sections }
}

/// The operator that takes most time by itself: `- **Operator:** ...`; nothing where that is not known.
fn answer(rows: &[OperatorRow]) -> String {
    let own = |row: &&OperatorRow| row.host_warm_self_ns();
    let all_ns = rows.iter().filter_map(|row| own(&row)).fold(0, u64::saturating_add);
    let Some((most, ns)) = rows.iter().max_by_key(own).and_then(|row| Some((row, own(&row)?)))
    else {
        return String::new();
    };
    format!(
        "- **Operator:** {} takes the most time on the host without the operators that it calls: {} in {} calls, {} % of all \
         operators (without cold calls)\n",
        code_in_text(&most.op_name),
        shown_time(ns as f64),
        count(most.calls.saturating_sub(most.cold_calls)),
        percent1(ns as f64 * 100.0 / all_ns.max(1) as f64),
    )
}

/// What the sums of operators are over.
pub(super) fn basis(operators: &Operators) -> &'static str {
    if operators.warm_up.is_empty() {
        return "The sums cover the whole run and its cold calls.";
    }
    "The sums cover the whole run and its cold calls, except warm-up ranges."
}

/// The table of operators. GPU times are compared with `gpu_total_ns`.
pub(super) fn table<'r>(
    most: usize,
    rows: &'r [&OperatorRow],
    gpu_total_ns: Option<u64>,
) -> Table<'r, &'r OperatorRow> {
    let all_ns = gpu_total_ns.filter(|&all| all > 0);
    let share = move |ns: u64| Some(percent1(ns as f64 * 100.0 / all_ns? as f64));
    Table::first(most, rows)
        .exact_names()
        .left("op_name", |row| code(&row.op_name))
        .right("warm_self_ms", |row| row.host_warm_self_ns().map(ms3))
        .right("warm_total_ms", |row| row.host_warm_ns().map(ms3))
        .right("total_time_ms", |row| row.host_total_ns.map(ms3))
        .right("cuda_time_ms", |row| row.gpu_inclusive_ns.map(ms3))
        .right("calls", |row| row.calls.to_string())
        .right("mean_ms", |row| row.host_mean_ns.map(ms6))
        .right("warm_mean_ms", |row| row.host_warm_mean_ns().map(ms6))
        .right("self_time_ms", |row| row.host_self_ns.map(ms3))
        .right("cuda_self_time_ms", |row| row.gpu_exclusive_ns.map(ms3))
        .right("gpu_time_%", |row| row.gpu_inclusive_ns.and_then(share))
        .right("kernels", |row| row.kernels_inclusive.map(|kernels| kernels.to_string()))
        .right("nested_calls", |row| (row.nested_calls > 0).then(|| row.nested_calls.to_string()))
}

fn stages(operators: &Operators, gpu_total_ns: Option<u64>) -> String {
    let mut out = String::new();
    let groups: Vec<_> = operators.stages.chunk_by(|a, b| a.stage == b.stage).collect();
    for rows in groups.iter().take(STAGES) {
        let all: Vec<_> = rows.iter().map(|row| &row.operator).collect();
        let table = table(STAGE_ROWS, &all, gpu_total_ns).markdown();
        let stage = rows.first().and_then(|row| row.stage.as_deref());
        let title = stage.map_or_else(|| "(in no stage)".to_owned(), code_in_text);
        out.push_str(&format!("### {title}\n\n{table}"));
    }
    out.push_str(&more(groups.len(), STAGES, "stage"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::compare;
    use stage2_model::{PathRow, StageRow, Verdict};
    use stage2_report::operators::{OperatorSettings, operators};

    /// Prefill with an operator whose name tries to break out, and an operator in no stage.
    fn report() -> Report {
        let path = |name: &str, parent, calls, host_ns, gpu_ns| PathRow {
            path: name.to_owned(),
            name: name.to_owned(),
            parent,
            instances: Some(calls),
            host_total_ns: Some(host_ns),
            kernels_inclusive: Some(calls),
            kernel_sum_exclusive_ns: Some(gpu_ns),
            ..PathRow::default()
        };
        Report {
            simulated: true,
            paths: vec![
                path("prefill", None, 1, 5_000_000, 100_000),
                path("aten::linear, op_id = 4", Some(0), 3, 3_000_000, 0),
                path("aten::addmm, op_id = 5", Some(1), 3, 1_000_000, 2_400_000),
                path("aten::sum", Some(0), 2, 900_000, 0),
                path("aten::sum", Some(3), 2, 400_000, 500_000),
                path("aten::empty", None, 7, 70_000, 0),
            ],
            stages: vec![StageRow { stage: "prefill".into(), ..StageRow::default() }],
            coverage: stage2_model::Coverage {
                verdict: Verdict { text: "10 kernels, all placed".into(), ..Verdict::default() },
                ..Default::default()
            },
            ..Report::default()
        }
    }

    fn page(report: &Report, top: usize) -> String {
        operators_md(report, &operators(report, &OperatorSettings::default()), top)
    }

    #[test]
    fn a_page_with_operators() {
        compare("operators.md", &page(&report(), 50));
        let cut = page(&report(), 1);
        assert!(cut.contains("Rows: 1 of 4, longest warm host time first; metrics.json"), "{cut}");
    }

    #[test]
    fn names_cannot_break_the_table() {
        let mut report = report();
        report.paths[5].name = "aten::a|b` <b>".into();
        let pattern =
            stage2_report::operators::Pattern::try_from("aten".to_owned()).expect("pattern");
        let settings = OperatorSettings { pattern: Some(pattern), ..OperatorSettings::default() };
        let page = operators_md(&report, &operators(&report, &settings), 50);
        assert!(page.contains("| ``aten::a\\|b` <b>`` | 0.070 |"), "{page}");
    }

    #[test]
    fn a_page_without_operators_says_why() {
        let page = page(&Report::default(), 50);
        let why = "None: the workload opened no NVTX range. To do: run again with";
        assert!(page.contains(why) && !page.contains("op_name"), "{page}");
    }

    #[test]
    fn gpu_times_of_a_part_say_so() {
        let mut report = report();
        let mut process = stage2_model::ProcessCoverage::default();
        process.meta.insert("ranges".into(), "aten*".into());
        report.coverage.processes.push(process);
        let page = page(&report, 50);
        let said = "GPU work was collected only in ranges that match aten\\*. GPU times leave out what \
                was not; calls and host times are those of all.";
        assert!(page.contains(said), "{page}");
    }
}
