//! Hardware counters that were sampled while the workload ran -> tables: what each stage read, wrote and
//! computed, which GPUs were sampled, and the kernels that read most.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::table::{ROWS, Table, name, paragraph};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::text::numbers::{count, ms3, percent1};
use stage2_contract::text::{code, plain};
use stage2_model::kernels::stages_in_words;
use stage2_model::{
    FULL_COVERAGE_PERCENT, KernelRow, Report, SampledAmount, SampledCounters, SampledStage,
    StepUnit,
};

/// Heading of the section.
pub(super) const TITLE: &str = "Sampled counters";
/// Kernels that are shown.
const KERNELS: usize = 20;

/// The section; nothing where no process says anything of sampled counters.
pub(super) fn sampled_md(report: &Report) -> String {
    let Some(sampled) = &report.sampled else { return String::new() };
    [
        own_run(sampled),
        stages(report, sampled),
        use_of_peak(report),
        kernels(report),
        devices(sampled),
    ]
    .concat()
}

fn own_run(sampled: &SampledCounters) -> String {
    if !sampled.own_run || sampled.stages.is_empty() {
        return String::new();
    }
    paragraph(
        "Sampled in a separate run, the counters pass: a GPU can run kernels more slowly while its \
         counters are taken. Windows, rates and shares of this section are of that run; all other times of \
         the report are of the collect pass.",
    )
}

fn giga(value: Option<f64>) -> Option<String> {
    value.map(|value| fixed(value / 1e9))
}

fn fixed(value: f64) -> String {
    format!("{value:.3}")
}

fn percent(value: Option<f64>) -> Option<String> {
    value.map(percent1)
}

fn stages(report: &Report, sampled: &SampledCounters) -> String {
    let rows = &sampled.stages;
    // What the last columns are of: it is a call where the stage has no steps within it.
    let noun = |row: &SampledStage| match row.steps.as_ref()?.path == row.stage {
        true => Some(report.noun_of(&row.stage)),
        false => Some(StepUnit::RangeWithin.noun()),
    };
    let nouns: BTreeSet<&str> = rows.iter().filter_map(noun).into_set();
    let unit = nouns.iter().rev().copied().collect::<Vec<_>>().join(" or ");
    let without_steps = rows.iter().filter(|row| nouns.len() > 1 && noun(row) == Some("call"));
    let without_steps: BTreeSet<String> = without_steps.map(|row| name(&row.stage)).into_set();
    let of_calls = match without_steps.into_iter().collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        stages => format!(" Those of {} are of a call.", stages_in_words(stages)),
    };
    let rate = |pick: fn(&SampledStage) -> Option<f64>| move |row: &SampledStage| giga(pick(row));
    let share =
        |pick: fn(&SampledStage) -> Option<f64>| move |row: &SampledStage| percent(pick(row));
    let assumption = rows.iter().find_map(|row| row.tensor_assumption.as_ref());
    let assumption = assumption.map_or_else(String::new, |assumption| {
        paragraph(&format!("TFLOP/s from the tensor pipe assume that {assumption}."))
    });
    let table = Table::first(ROWS, rows)
        .left("stage", |row| name(&row.stage))
        .left("GPU", |row| plain(&row.device))
        .right("coverage (%)", |row| {
            let partial = if row.partial { ", partial" } else { "" };
            format!("{}{partial}", percent1(row.coverage_percent))
        })
        .right("with other work (%)", |row| percent1(row.contested_percent))
        .right("GPU window (ms)", |row| ms3(row.gpu_window_ns))
        .right("DRAM read (GB/s)", rate(|row| row.rates.dram_read_bytes_per_s))
        .right("DRAM written (GB/s)", rate(|row| row.rates.dram_write_bytes_per_s))
        .right("DRAM (% of peak)", share(|row| row.rates.dram_percent))
        .right("tensor pipe (%)", share(|row| row.rates.tensor_percent))
        .right("from it (TFLOP/s)", |row| row.tensor_flops_per_s.map(|flops| fixed(flops / 1e12)))
        .right("SM active (%)", share(|row| row.rates.sm_active_percent))
        .right("issue (%)", share(|row| row.rates.issue_percent))
        .right("L2 (GB/s)", rate(|row| row.rates.l2_bytes_per_s))
        .right("PCIe in (GB/s)", rate(|row| row.rates.pcie_read_bytes_per_s))
        .right("PCIe out (GB/s)", rate(|row| row.rates.pcie_write_bytes_per_s))
        .right("NVLink in (GB/s)", rate(|row| row.rates.nvlink_received_bytes_per_s))
        .right("NVLink out (GB/s)", rate(|row| row.rates.nvlink_sent_bytes_per_s))
        .right(&format!("read in a {unit} (GB)"), |row| giga(row.steps.as_ref()?.dram_read_bytes))
        .right(&format!("written in a {unit} (GB)"), |row| {
            giga(row.steps.as_ref()?.dram_write_bytes)
        });
    let notes = format!(
        "The window of an instance on the GPU is from the start of its first work to the end of its \
         last. Samples at its edges count by the share of their time within; samples that hold work of \
         another stage as well, or work outside of ranges, count for no stage. Rates are over the covered \
         time. Numbers with a coverage below {FULL_COVERAGE_PERCENT} % are marked as partial: they are of \
         a part of the stage. Windows, rates and shares are of all calls, also of the first, cold one. Bytes of a \
         {unit} are the median over those that are covered, without the cold ones if there are others.{of_calls}",
    );
    table.with_note(&notes) + &assumption
}

/// The model's own numbers next to the measured ones.
fn use_of_peak(report: &Report) -> String {
    let used = report.insight.utilisation.iter().flat_map(|used| &used.numbers.stages);
    let rows: Vec<_> = used.filter_map(|stage| Some((stage, stage.sampled?))).collect();
    let share = |share: Option<f64>| percent(share.map(|share| share * 100.0));
    Table::first(ROWS, &rows)
        .left("stage", |(stage, _)| name(&stage.stage))
        .right("has to read (GB)", |(stage, _)| giga(stage.bytes.value()))
        .right("did read (GB)", |(_, sampled)| giga(sampled.read_bytes))
        .right("read over has to", |(_, sampled)| sampled.read_over_modelled.map(fixed))
        .right("MBU of the model, GPU busy (%)", |(stage, _)| share(stage.mbu_busy.value()))
        .right("MBU as sampled (%)", |(_, sampled)| share(sampled.mbu_gpu_window))
        .right("MFU of the model, GPU busy (%)", |(stage, _)| share(stage.mfu_busy.value()))
        .right("tensor pipe as sampled (%)", |(_, sampled)| share(sampled.tensor_active))
        .with_note(
            "Bytes that it did read are the mean of all calls, also of the first, cold one. MBU as sampled counts what DRAM moved, read and written, over the \
             GPU windows; MBU of the model counts weights and KV cache only.",
        )
}

/// The kernels whose calls read most, with their intervals.
fn kernels(report: &Report) -> String {
    let total = |row: &&KernelRow| {
        let bytes = row.sampled.as_deref().and_then(|sampled| sampled.dram_read_bytes.value());
        bytes.map(|bytes| (bytes * row.times.calls as f64) as u64)
    };
    let mut rows: Vec<&KernelRow> =
        report.kernels.iter().filter(|row| total(row).is_some()).collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.order_by_key(|row| Reverse(total(row)));
    let of = |row: &KernelRow, pick: fn(&stage2_model::SampledKernel) -> Option<f64>| {
        row.sampled.as_deref().and_then(pick)
    };
    let table = Table::first(KERNELS, &rows)
        .left("kernel", |row| code(&row.kernel))
        .left("stage", |row| name(&row.stage))
        .right("calls", |row| count(row.times.calls))
        .right("read per call (MB)", |row| amount(&row.sampled.as_deref()?.dram_read_bytes, 1e6))
        .right("90 % interval (MB)", |row| interval(&row.sampled.as_deref()?.dram_read_bytes, 1e6))
        .right("written per call (MB)", |row| {
            amount(&row.sampled.as_deref()?.dram_write_bytes, 1e6)
        })
        .right("L2 per call (MB)", |row| amount(&row.sampled.as_deref()?.l2_bytes, 1e6))
        .right("mean when sampled (us)", |row| {
            of(row, |sampled| sampled.mean_ns).map(|ns| fixed(ns / 1e3))
        })
        .right("DRAM (% of peak)", |row| {
            let known = percent(of(row, |sampled| sampled.dram_percent));
            let most = || percent(of(row, |sampled| sampled.dram_percent_at_most));
            known.or_else(|| most().map(|most| format!("< {most}")))
        })
        .right("tensor pipe (%)", |row| percent(of(row, |sampled| sampled.tensor_percent)))
        .left("bound", |row| row.sampled.as_deref()?.bound.map(|bound| bound.label().to_owned()))
        .right("DRAM read over ncu's", |row| {
            of(row, |sampled| sampled.dram_read_over_ncu).map(fixed)
        });
    let ncu = match rows.iter().any(|row| of(row, |sampled| sampled.dram_read_over_ncu).is_some()) {
        true => {
            "ncu replays each kernel with cold caches (unless `--cache-control none` is set), and the \
             workload runs it with warm ones: small kernels read less here than there, by design. "
        }
        false => "",
    };
    format!(
        "{}Amounts of a call are a fit of all samples of the stage by all work in them: no kernel was \
         replayed. DRAM (% of peak) and tensor pipe (%) are these amounts over the mean duration of a call \
         in the run that was sampled. kernels.csv lists all kernels, and why some have no amount. {ncu}\n\n",
        table.markdown_with_rest_in("kernels.csv")
    )
}

fn amount(amount: &SampledAmount, unit: f64) -> Option<String> {
    match amount {
        SampledAmount::Known { value, .. } => Some(fixed(value / unit)),
        SampledAmount::AtMost { limit } => Some(format!("< {}", fixed(limit / unit))),
        SampledAmount::Absent(_) => None,
    }
}

fn interval(amount: &SampledAmount, unit: f64) -> Option<String> {
    let SampledAmount::Known { low, high, .. } = amount else { return None };
    Some(format!("{} to {}", fixed(low / unit), fixed(high / unit)))
}

fn devices(sampled: &SampledCounters) -> String {
    Table::first(ROWS, &sampled.devices)
        .left("trace file", |row| code(&row.file))
        .left("GPU", |row| row.device.as_ref().map(|device| plain(device)))
        .right("samples", |row| count(row.samples))
        .right("left out, not all recorded", |row| row.samples_unrecorded.map(count))
        .right("interval (us)", |row| row.interval_ns.map(|ns| fixed(ns as f64 / 1e3)))
        .right("sampled (ms)", |row| ms3(row.sampled_ns))
        .right("gaps", |row| row.overflows.map(count))
        .right("lost in gaps (ms)", |row| row.lost_ns.map(ms3))
        .right("samples lost", |row| row.samples_lost.map(count))
        .right("DRAM while idle (GB/s)", |row| giga(row.idle_dram_bytes_per_s))
        .left("no numbers, because", |row| row.omitted.as_ref().map(|why| plain(why)))
        .left("note", |row| row.note.as_ref().map(|note| plain(note)))
        .markdown()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::SampledSteps;

    #[test]
    fn bytes_are_those_of_a_step_or_of_a_call() {
        let row = |stage: &str, path: &str| SampledStage {
            stage: stage.into(),
            steps: Some(SampledSteps {
                path: path.into(),
                dram_read_bytes: Some(2e9),
                ..SampledSteps::default()
            }),
            ..SampledStage::default()
        };
        let page = |stages: Vec<SampledStage>| {
            super::stages(
                &Report::default(),
                &SampledCounters { stages, ..SampledCounters::default() },
            )
        };
        let mixed = page(vec![row("decode", "decode/step"), row("graph", "graph")]);
        assert!(mixed.contains("Read in a step or call (GB)"), "{mixed}");
        assert!(mixed.contains("Those of `graph` are of a call."), "{mixed}");
        let calls = page(vec![row("graph", "graph")]);
        assert!(calls.contains("Read in a call (GB)") && !calls.contains("Those of"), "{calls}");
    }
}
