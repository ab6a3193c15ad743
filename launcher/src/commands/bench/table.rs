//! What was measured -> `bench.md`.

use super::compare::{LeftOut, Results, Row};
use super::measure::{Configuration, Run, Tracing};
use stage2_contract::text::code;
use stage2_contract::text::numbers::{ms3, ratio3};
use stage2_model::Finding;
use stage2_render::table::Table;

/// Stages that are shown, those with the longest time; `bench.json` has all.
const MAX_STAGES: usize = 20;

pub(super) fn page(results: &Results) -> String {
    let mut page = String::from("# Benchmark\n\n");
    page.push_str(&format!(
        "Rounds: {}, every second one in reverse order{}. Untraced warm-up runs before them, in no \
         number here: {}. Ratios of stages are against ranges only, those of the whole process \
         against untraced; \"again\" is the same thing measured once more in each round (A/A): what \
         lies within its distance from 1 is noise. A stage's time in a run is the median host time of \
         its instances without the first. Minima bear other load on the machine better than \
         medians.\n\n",
        results.rounds,
        if results.cut_short { "; ended before its time" } else { "" },
        results.warmup,
    ));
    if results.simulated {
        page.push_str("Simulated: no real GPU took part.\n\n");
    }
    if let Some(exit) = results.failed_exit() {
        page.push_str(&format!(
            "**The workload itself fails** ({}), untraced as well: the times are those of a run that \
             fails.\n\n",
            exit.describe()
        ));
    }
    let shown = stages(results);
    let mut rows: Vec<(Option<&str>, &Configuration, Option<&Row>)> = Vec::new();
    for &stage in &shown {
        for configuration in &results.configurations {
            let name = &configuration.name;
            let of = |row: &&Row| row.stage.as_deref() == stage && row.configuration == *name;
            let row = results.rows.iter().find(of);
            if row.is_some() || (stage.is_none() && configuration.failed.is_some()) {
                rows.push((stage, configuration, row));
            }
        }
    }
    let table = Table::new(&rows)
        .left("stage", |(stage, ..)| stage.map_or_else(|| "whole process".to_owned(), code))
        .left("configuration", |(_, configuration, _)| configuration.name.clone())
        .right("runs", |(.., row)| row.map(|row| row.runs_ns.len().to_string()))
        .right("median ms", |(.., row)| row.map(|row| ms3(row.median_ns)))
        .right("min ms", |(.., row)| row.map(|row| ms3(row.min_ns)))
        .right("median ratio", |(.., row)| row.and_then(|row| row.median_ratio).map(ratio3))
        .right("min ratio", |(.., row)| row.and_then(|row| row.min_ratio).map(ratio3));
    page.push_str(&table.markdown());
    let all = results.rows.iter().filter(|row| row.stage.is_some());
    let mut names: Vec<_> = all.map(|row| row.stage.as_deref()).collect();
    names.dedup();
    if names.len() >= shown.len() {
        let more = names.len() + 1 - shown.len();
        page.push_str(&format!("{more} more stages are in bench.json.\n\n"));
    }
    let recorded = |of: &Configuration| of.runs.iter().any(|run| run.gpu_records.is_some());
    if names.is_empty() && results.configurations.iter().any(recorded) {
        page.push_str(
            "- the workload opened no NVTX range: only the whole process is compared; mark its \
             stages with ranges, or let `--annotate prefill-decode` do it\n",
        );
    }
    for Configuration { name, tracing, again, what, failed, runs, .. } in &results.configurations {
        if !again {
            page.push_str(&format!("- {name}: {what}\n"));
        }
        // Untraced, nobody sees ranges.
        let measured = failed.is_none() && !runs.is_empty();
        let staged = runs.iter().any(|run| !run.stages.is_empty());
        if !names.is_empty() && measured && *tracing != Tracing::Untraced && !staged {
            page.push_str(&format!("- {name} recorded none of the ranges\n"));
        }
        if measured && recorded_nothing(runs) {
            page.push_str(&format!(
                "- {name} recorded no GPU work: its times are those of the ranges alone\n"
            ));
        }
        if let Some(why) = failed {
            page.push_str(&format!("- {name} was not measured (to the end): {}\n", code(why)));
        }
        let of = |left_out: &&LeftOut| left_out.configuration == *name;
        for left_out in results.left_out.iter().filter(of).take(MAX_STAGES) {
            page.push_str(&absent(left_out));
        }
    }
    page.extend(results.findings.iter().map(Finding::item));
    page
}

/// Why runs have no time of a stage.
fn absent(LeftOut { stage, configuration, expected, instances }: &LeftOut) -> String {
    let seen: Vec<String> = instances.iter().map(u64::to_string).collect();
    format!(
        "- {configuration} saw {} with other numbers of instances: {} ({}: {expected} in every run); \
         these runs have no time of it here\n",
        code(stage),
        seen.join(", "),
        Tracing::RangesOnly.name(),
    )
}

/// GPU work was to be recorded, and there was none.
fn recorded_nothing(runs: &[Run]) -> bool {
    runs.iter().any(|run| run.gpu_records == Some(0))
        && runs.iter().all(|run| matches!(run.gpu_records, None | Some(0)))
}

/// The whole process, then the stages with the longest time.
fn stages(results: &Results) -> Vec<Option<&str>> {
    let mut longest: Vec<(&str, u64)> = Vec::new();
    for row in &results.rows {
        let Some(stage) = row.stage.as_deref() else { continue };
        match longest.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, ns)) => *ns = (*ns).max(row.median_ns),
            None => longest.push((stage, row.median_ns)),
        }
    }
    longest.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    let stages = longest.into_iter().take(MAX_STAGES).map(|(stage, _)| Some(stage));
    std::iter::once(None).chain(stages).collect()
}
