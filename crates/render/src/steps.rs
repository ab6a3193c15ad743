//! Inferred steps -> a sentence each, and their table in report.md.

use super::table::Table;
use stage2_contract::text::numbers::{count, counted, ms3, or_absent, percent1};
use stage2_contract::text::{plain, shorten};
use stage2_model::{Before, InferredStepRow, InferredSteps, Report};

/// Heading of the section.
pub(super) const TITLE: &str = "Inferred steps";
/// Rows of the table; metrics.json has them all.
const ROWS: usize = 64;
const NAME_CHARS: usize = 80;

/// What the table means, in words.
const MEANING: &str = "The workload has no ranges, so these steps are inferred: the same kernels repeat \
    in the same order. A step lasts from its first kernel to the first kernel of the next. Decode-like \
    steps follow a longer, non-repeating (prefill-like) phase; training or diffusion steps can look the \
    same, and so can the layers of a single forward pass. Tokens per step are unknown. For named \
    stages, open NVTX ranges or use --annotate prefill-decode";

/// One sentence for each kind of step, up to `limit`, with the label; not escaped.
pub(super) fn sentences(report: &Report, limit: usize) -> Vec<String> {
    let Some(steps) = &report.inferred_steps else { return Vec::new() };
    let several = steps.rows.len() > 1;
    let mut lines: Vec<String> =
        steps.rows.iter().take(limit).map(|row| sentence(steps, row, several)).collect();
    if let Some(more) = steps.rows.len().checked_sub(limit).filter(|&more| more > 0) {
        lines.push(format!("{} more kinds of steps are in metrics.json", count(more as u64)));
    }
    lines
}

fn sentence(steps: &InferredSteps, row: &InferredStepRow, several: bool) -> String {
    let process = row.pid.filter(|_| several).map(|pid| format!("process {pid}, "));
    let stream = row.stream.as_ref().map(|stream| format!("{stream}, "));
    let at_least = if row.at_least { "at least " } else { "" };
    let phases = match row.phases {
        1 => String::new(),
        phases => format!(" in {} phases", count(phases)),
    };
    let p50 = row.step_p50_ns.map_or_else(String::new, |ns| format!(", p50 {} ms", ms3(ns)));
    let p99 = row.step_p99_ns.map_or_else(String::new, |ns| format!(", p99 {} ms", ms3(ns)));
    let before = row.before.as_ref().filter(|before| before.prefill_like);
    let before = before.map_or_else(String::new, |before| format!("; {}", prefill_like(before)));
    format!(
        "{}: {}{}{}: {at_least}{} steps of {}{phases}{p50}{p99}{before}",
        steps.label,
        process.unwrap_or_default(),
        stream.unwrap_or_default(),
        row.resembles.label(),
        count(row.steps),
        launches(row),
    )
}

/// `694 kernels`, `3 kernels and 1 whole graph`.
fn launches(row: &InferredStepRow) -> String {
    let kernels = counted(row.kernels_per_step, "kernel");
    match row.graphs_per_step {
        0 => kernels,
        graphs => format!("{kernels} and {}", counted(graphs, "whole graph")),
    }
}

fn prefill_like(before: &Before) -> String {
    let kernels = or_absent(before.kernels_median, count);
    match before.from_program_start {
        true => format!("prefill-like: the first {kernels} kernels of the program"),
        false => format!("prefill-like: the {kernels} kernels (median) before a phase"),
    }
}

/// The section of report.md; nothing where no step is certain.
pub(super) fn steps_md(report: &Report) -> String {
    let Some(steps) = &report.inferred_steps else { return String::new() };
    let table = Table::first(ROWS, &steps.rows)
        .left("process", |row| match row.pid {
            Some(pid) => pid.to_string(),
            None => plain(&shorten(&row.file, NAME_CHARS)),
        })
        .left("stream", |row| match &row.stream {
            Some(stream) => plain(&shorten(stream, NAME_CHARS)),
            None => "all".to_owned(),
        })
        .left("pattern", |row| row.resembles.label().to_owned())
        .right("steps", |row| {
            format!("{}{}", if row.at_least { "at least " } else { "" }, row.steps)
        })
        .right("phases", |row| row.phases.to_string())
        .right("steps per phase (median)", |row| {
            row.steps_per_phase_median.map(|steps| steps.to_string())
        })
        .right("kernels per step", |row| match row.graphs_per_step {
            0 => row.kernels_per_step.to_string(),
            graphs => format!("{} + {}", row.kernels_per_step, counted(graphs, "graph")),
        })
        .right("step_p50_ms", |row| row.step_p50_ns.map(ms3))
        .right("step_p99_ms", |row| row.step_p99_ns.map(ms3))
        .right("kernel_sum_per_step_ms", |row| row.kernel_sum_per_step_ns.map(ms3))
        .right("share of the sequence (%)", |row| row.sequence_percent.map(percent1))
        .right("kernels before a phase, min / median / max", |row| row.before.as_ref().map(before))
        .right("their kernel_sum_ms (median)", |row| {
            row.before.as_ref()?.kernel_sum_median_ns.map(ms3)
        });
    let (label, table) = (plain(&steps.label), table.markdown());
    format!("These are {label}.\n\n{table}{}.\n\n", plain(MEANING))
}

fn before(before: &Before) -> String {
    let kernels = [before.kernels_min, before.kernels_median, before.kernels_max];
    let kernels = kernels.map(|value| or_absent(value, |value| value.to_string())).join(" / ");
    let like = if before.prefill_like { " (prefill-like)" } else { "" };
    let start = if before.from_program_start { " (from the start)" } else { "" };
    format!("{kernels}{like}{start}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        for (kernels_per_step, graphs_per_step, said) in [
            (694, 0, "694 kernels"),
            (1, 1, "1 kernel and 1 whole graph"),
            (3, 2, "3 kernels and 2 whole graphs"),
        ] {
            let row =
                InferredStepRow { kernels_per_step, graphs_per_step, ..InferredStepRow::default() };
            assert_eq!(launches(&row), said);
        }
    }
}
