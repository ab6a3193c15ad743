//! Stages named prefill and decode, a model and token counts -> how much of the peak was used.

use std::collections::BTreeSet;

use serde_json::Value;

use super::counted::stage_flops;
use super::sample_basis::{SampleBasis, is_warm, sample_basis};
use super::{of_prefill, vision};
use crate::inputs::section;
use crate::llm::mfu::{Inputs, StageInput, utilisation};
use crate::llm::preset::Model;
use crate::roofline::hardware::{Catalogue, Hardware, resolve};
use stage2_contract::order::IntoOrdered as _;
use stage2_model::finding::Id;
use stage2_model::{
    Absent, DeviceRow, Finding, ModelUse, Needs, Peaks, Report, Role, SampledRates, SampledUse,
    StageRow, TokenCounts,
};

/// Computes the utilisation for the model that was `read`; a value that cannot be computed has a
/// reason. `split` is the number of GPUs that the model is split over; `None`: all that ran its
/// stages.
pub(super) fn model_use(
    report: &Report,
    config: &Value,
    read: Result<Model, Absent>,
    tokens: TokenCounts,
    split: Option<u64>,
    findings: &mut Vec<Finding>,
) -> ModelUse {
    let rows = stages(report);
    let split = split.unwrap_or_else(|| gpus(&rows).len() as u64);
    let needs = needs(report, &rows, config, &read, &tokens, split);
    // Peaks are looked up for a model only: without one, an unknown card is no finding.
    let peaks = read.as_ref().ok().and_then(|_| peaks(report, &rows, config, findings));
    let model = read.and_then(|model| on_known_gpus(&rows, split).map(|()| model));
    let mut stages: Vec<StageInput> = Vec::new();
    if model.is_ok() {
        stages.extend(rows.iter().map(|row| input(report, row, &rows, split, &tokens, findings)));
        stages.extend(vision::inputs(report));
    }
    let numbers = utilisation(&Inputs {
        model: model.as_ref().map_err(Clone::clone),
        peaks: peaks.as_ref(),
        tokens: &tokens,
        stages: &stages,
        joined: joined_share(report, &rows),
    });
    ModelUse {
        model_name: model.as_ref().ok().map(|model| model.name.clone()),
        absent: model.err().map(|why| why.to_string()),
        tokens,
        needs,
        peaks,
        numbers,
    }
}

/// What is missing for the floor of a prefill and of a decode, all at once. A model that cannot be used has
/// its own reason.
fn needs(
    report: &Report,
    rows: &[&StageRow],
    config: &Value,
    read: &Result<Model, Absent>,
    tokens: &TokenCounts,
    split: u64,
) -> Needs {
    let is_modelled = rows.iter().any(|row| matches!(row.role, Role::Prefill | Role::Decode));
    if !is_modelled
        || on_known_gpus(rows, split).is_err()
        || matches!(read, Err(Absent::BadModel { .. }))
    {
        return Needs::default();
    }
    // What is wrong with them is told where they are used.
    let peaks = peaks(report, rows, config, &mut Vec::new());
    let has_decode = rows.iter().any(|row| row.role == Role::Decode);
    let mut settings = Vec::new();
    settings.extend(read.is_err().then(|| "model/llm=NAME".to_owned()));
    if let Some(peaks) = &peaks {
        let no_bandwidth = peaks.bytes_per_s().is_none();
        settings.extend(no_bandwidth.then(|| "hardware.memory_gb_per_s=N".to_owned()));
        let precision = read.as_ref().ok().map(|model| model.dtype.precision());
        let rate = precision.filter(|precision| peaks.flops_per_s(*precision).is_none());
        settings.extend(rate.map(|precision| format!("hardware.dense_tflops.{precision}=N")));
    } else {
        settings.push("hardware=NAME".to_owned());
    }
    for (key, count, is_needed) in [
        ("batch_size", tokens.batch_size, true),
        ("prompt_tokens", tokens.prompt_tokens, true),
        ("decode_steps", tokens.decode_steps, has_decode),
    ] {
        // The steps of an engine record what they work on, but not always the lengths of prompts and
        // contexts.
        let is_said = match &report.engine {
            None => false,
            Some(engine) if key == "prompt_tokens" => {
                let is_known = |row: &&StageRow| {
                    let kind = engine.kinds.iter().find(|kind| kind.stage == row.stage);
                    kind.is_none_or(|kind| match row.role {
                        Role::Prefill => kind.prefill_tokens_mean.is_some(),
                        Role::Decode => kind.decode_context_mean.is_some(),
                        _ => true,
                    })
                };
                rows.iter().all(is_known)
            }
            Some(_) => true,
        };
        let is_missing = is_needed && count.is_none() && !is_said;
        settings.extend(is_missing.then(|| format!("model.tokens.{key}=N")));
    }
    Needs { settings }
}

fn stages(report: &Report) -> Vec<&StageRow> {
    report.stages.iter().filter(|row| row.role != Role::Other).collect()
}

/// Each GPU does a part of the work of a model that is split over several. Unless the engine says that it is
/// split over all GPUs that were used, a guess would be wrong by their number.
fn on_known_gpus(rows: &[&StageRow], split: u64) -> Result<(), Absent> {
    match gpus(rows).len() {
        0 | 1 => Ok(()),
        many if many as u64 == split => Ok(()),
        many => Err(Absent::BadModel {
            why: format!(
                "its stages ran on {many} GPUs, and which part of the model each of them computes \
                 is not known"
            ),
        }),
    }
}

fn gpus<'r>(rows: &[&'r StageRow]) -> BTreeSet<&'r str> {
    rows.iter().flat_map(|row| &row.devices).map(|on| on.device.as_str()).collect()
}

fn peaks(
    report: &Report,
    rows: &[&StageRow],
    config: &Value,
    findings: &mut Vec<Finding>,
) -> Option<Peaks> {
    let hardware: Hardware = section(config, "hardware", findings);
    let used = gpus(rows);
    let is_used = |device: &&DeviceRow| used.is_empty() || used.contains(&*device.device);
    let devices = report.devices.iter().filter(is_used);
    let names: BTreeSet<&str> = devices.filter_map(|device| device.name.as_deref()).into_set();
    let mut names = names.into_iter();
    // Cards of several kinds have no common peak.
    let name = names.next().filter(|_| names.next().is_none());
    let resolved = resolve(&Catalogue::built_in(), &hardware, name);
    findings.extend(resolved.findings);
    resolved.peaks
}

fn input(
    report: &Report,
    row: &StageRow,
    rows: &[&StageRow],
    split: u64,
    of_run: &TokenCounts,
    findings: &mut Vec<Finding>,
) -> StageInput {
    let step = work_of_step(report, row, of_run);
    let SampleBasis { instances, window_ns, busy_ns, kernels, basis, .. } =
        sample_basis(report, row);
    let counted = stage_flops(report, |kernel| kernel.stage == row.stage);
    // Calls of a row whose counters stand for them do the same work, cold or warm.
    let scale = instances as f64 / row.instances.unwrap_or(0) as f64;
    StageInput {
        stage: row.stage.clone(),
        within: None,
        role: row.role,
        // What follows from it is absent then, and the finding says why.
        per_generation: match step {
            Some(_) => 1.0,
            None => generation_share(report, row, rows, findings).unwrap_or(f64::NAN),
        },
        mean_batch: step.as_ref().map(|(requests, _)| *requests),
        tokens: step.map(|(_, tokens)| tokens),
        gpus: split,
        instances,
        wall_ns: window_ns,
        busy_ns,
        kernels,
        measured_flops: counted.map(|counted| counted.flops * scale),
        measured_percent: counted.map(|counted| counted.percent),
        one_launch_percent: counted.map(|counted| counted.one_launch_percent),
        sampled: sampled_use(report, row),
        basis,
    }
}

/// Requests and tokens of the mean step, if the stage stands for steps of an engine. If the steps do not record
/// the length of the context, the prompts of the run count.
fn work_of_step(
    report: &Report,
    row: &StageRow,
    of_run: &TokenCounts,
) -> Option<(f64, TokenCounts)> {
    let kinds = &report.engine.as_ref()?.kinds;
    let steps = kinds.iter().find(|kind| kind.stage == row.stage)?;
    let (requests, tokens) = match row.role {
        Role::Prefill => (steps.prefill_requests_mean, steps.prefill_tokens_mean),
        Role::Decode => (steps.decode_requests_mean, steps.decode_context_mean),
        _ => return None,
    };
    // A step that prefills in chunks may have no whole request.
    let requests = requests.max(1.0);
    let each = tokens.map(|tokens| (tokens / requests).round() as u64);
    // The context includes the token that the step adds.
    let added = u64::from(row.role == Role::Decode);
    let prompt = each.map(|each| each.saturating_sub(added)).or(of_run.prompt_tokens);
    let tokens =
        TokenCounts { prompt_tokens: prompt, decode_steps: Some(1), ..TokenCounts::default() };
    Some((requests, tokens))
}

/// What sampled counters say of an instance of the stage. The rows of several processes are of several
/// programs side by side, and have no instance in common.
fn sampled_use(report: &Report, row: &StageRow) -> Option<SampledUse> {
    let rows = &report.sampled.as_ref()?.stages;
    let mut of_stage = rows.iter().filter(|sampled| sampled.stage == row.stage);
    let (Some(sampled), None) = (of_stage.next(), of_stage.next()) else { return None };
    let SampledRates { dram_read_bytes_per_s, dram_percent, tensor_percent, .. } = sampled.rates;
    let window_s = sampled.gpu_window_ns as f64 / 1e9 / sampled.instances.max(1) as f64;
    Some(SampledUse {
        read_bytes: dram_read_bytes_per_s.map(|rate| rate * window_s),
        read_over_modelled: None,
        mbu_gpu_window: dram_percent.map(|percent| percent / 100.0),
        tensor_active: tensor_percent.map(|percent| percent / 100.0),
        coverage_percent: sampled.coverage_percent,
    })
}

/// Joined windows of the stages over the sum of those that [`sample_basis`] uses: 1 where none overlap,
/// less where threads have several open; nothing where that is not known.
fn joined_share(report: &Report, rows: &[&StageRow]) -> Option<f64> {
    let windows = report.model_windows?;
    let sum = |ns: fn(&StageRow) -> Option<u64>| {
        rows.iter().try_fold(0u64, |sum, row| Some(sum.saturating_add(ns(row)?)))
    };
    let share = |joined: Option<u64>, sum: Option<u64>| {
        let (joined, sum) = joined.zip(sum).filter(|(_, sum)| *sum > 0)?;
        Some((joined as f64 / sum as f64).min(1.0))
    };
    let all = share(windows.all_ns, sum(|row| row.gpu_window_ns));
    let warm = || share(windows.warm_ns, sum(|row| row.warm.map(|warm| warm.gpu_window_ns)));
    match rows.iter().filter(|row| is_warm(report, row)).count() {
        0 => all,
        some if some == rows.len() => warm(),
        // Some stages have a warm instance and some do not: only no overlap at all is known.
        _ => all.filter(|share| *share >= 1.0),
    }
}

/// How often the stage occurs in a generation: there is one prefill in each.
fn generation_share(
    report: &Report,
    row: &StageRow,
    rows: &[&StageRow],
    findings: &mut Vec<Finding>,
) -> Option<f64> {
    let mut prefills = rows.iter().filter(|other| other.role == Role::Prefill);
    let prefill = match (prefills.next(), prefills.next()) {
        (Some(prefill), None) => *prefill,
        // Without a prefill, a decode is a generation; several are told by the model's numbers.
        _ => return Some(1.0),
    };
    let (instances, generations) = (row.instances?, prefill.instances?);
    let share = of_prefill(report, row, prefill);
    if share.is_none() {
        findings.push(Id::ModelSteps.about(&row.stage).found(
            format!(
                "the {instances} calls of {} do not divide evenly among {generations} prefills",
                row.stage
            ),
            "which of them make a generation is not known, so its MFU and MBU are absent",
            "let every generation of the run, warm-up included, have the same number of steps",
        ));
    }
    share
}
