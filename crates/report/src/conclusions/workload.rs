//! What the user said and what the workload was configured with -> the model and the token counts that
//! the reports count with, and findings where the two contradict each other.

use std::path::{Path, PathBuf};

use crate::llm::preset::{Model, ModelPreset};
use crate::workload_config::{self, FOLDER};
use serde_json::Value;
use stage2_contract::text::visible_path;
use stage2_model::{Absent, Finding, TokenCounts};

use super::Context;
use crate::settings::{part, section};

/// Tokens of one generation.
pub(crate) struct Tokens {
    /// Those of the configuration, else those that the workload wrote down, else those that it was
    /// configured with, else those of the Stage 1 run that the configuration names.
    pub(super) all: TokenCounts,
    /// Those of the configuration alone.
    said: TokenCounts,
    /// Those that the workload wrote down.
    written: TokenCounts,
    /// What to say where decode steps are those that a sequence takes at most.
    pub(crate) at_most: Option<Finding>,
}

/// The token counts that the reports count with. `written`: those that the workload wrote down;
/// `earlier`: a Stage 1 run, and its counts.
pub(crate) fn tokens(
    context: &Context<'_>,
    written: TokenCounts,
    earlier: Option<&(PathBuf, TokenCounts)>,
    findings: &mut Vec<Finding>,
) -> Tokens {
    let said: TokenCounts = section(context.config, "model.tokens", findings);
    let known = said.or(&written);
    let mut all = known.or(&context.workload.tokens());
    let at_most = all.decode_steps.filter(|_| known.decode_steps.is_none()).map(|steps| {
        Finding::note(
            format!("{steps} decode steps per generation is an upper limit, not a count"),
            format!(
                "it is infer.max_new_tokens of {FOLDER}/config.yaml: where sequences ended \
                 earlier, MFU and MBU are too high"
            ),
            "set model.tokens.decode_steps and write the reports again",
        )
    });
    if let Some((folder, counts)) = earlier {
        let with = all.or(counts);
        findings.extend(borrowed(&all, &with, folder));
        all = with;
    }
    Tokens { all, said, written, at_most }
}

/// Says which counts of `with` are those of the Stage 1 run in `folder`: nothing shows that this run
/// had as many.
fn borrowed(own: &TokenCounts, with: &TokenCounts, folder: &Path) -> Option<Finding> {
    let new: Vec<String> = [
        ("batch_size", own.batch_size, with.batch_size),
        ("prompt_tokens", own.prompt_tokens, with.prompt_tokens),
        ("decode_steps", own.decode_steps, with.decode_steps),
        ("images_per_prompt", own.images_per_prompt, with.images_per_prompt),
        ("crops_per_image", own.crops_per_image, with.crops_per_image),
    ]
    .into_iter()
    .filter(|(_, own, with)| own != with)
    .filter_map(|(name, _, count)| Some(format!("{name} {}", count?)))
    .collect();
    (!new.is_empty()).then(|| {
        Finding::note(
            format!(
                "token counts of the Stage 1 run {} are used: {}",
                visible_path(folder),
                new.join(", ")
            ),
            "this run says none of its own; where it had other counts, MFU, MBU and tokens per \
             second are wrong",
            "set model.tokens to the counts of this run and write the reports again",
        )
    })
}

/// The model that the reports count with: the one that the user chose, else, where there is a GPU to
/// hold it against, the workload's own. Contradictions between what was said and what ran become
/// findings.
pub(crate) fn model(
    context: &Context<'_>,
    tokens: &Tokens,
    has_gpu: bool,
    findings: &mut Vec<Finding>,
) -> Result<Model, Absent> {
    let Context { config, workload, argv, .. } = *context;
    let preset = part::<ModelPreset>(config, "model.llm");
    let chosen = preset.and_then(|preset| {
        let preset = preset.unwrap_or_default();
        preset.model().map_err(|e| e.to_string()).map(|model| (preset, model))
    });
    let model = chosen.as_ref().ok().and_then(|(_, model)| model.as_ref());
    let manifest = config.pointer("/inputs/manifest").and_then(Value::as_str);
    let Tokens { said, written, .. } = tokens;
    findings.extend(workload_config::contradictions(workload, model, said, written, manifest));
    let appended = config.pointer("/workload/append").and_then(Value::as_array);
    let words = appended.into_iter().flatten().filter_map(Value::as_str);
    let appended: Vec<String> = words.map(str::to_owned).collect();
    findings.extend(workload_config::overrides(workload, argv, &appended));
    findings.extend(nothing_left(context, &appended));
    match chosen {
        Ok((_, Some(model))) => Ok(model),
        Ok((preset, None)) => Some(preset)
            .filter(|_| has_gpu)
            .and_then(|preset| of_workload(context, preset))
            .ok_or(Absent::NoModel),
        Err(problem) => {
            findings.push(Finding::warning(
                problem.clone(),
                "MFU and MBU are absent",
                "correct model.llm and write the reports again",
            ));
            Err(Absent::BadModel { why: problem })
        }
    }
}

/// The workload's own model, where its configuration has the sizes. What `preset` says of types counts.
fn of_workload(context: &Context<'_>, preset: ModelPreset) -> Option<Model> {
    let workload = context.workload;
    let (read, from) = workload.shape()?;
    let name = preset.name.or_else(|| workload.model()).or(read.name);
    let dtype = preset.dtype.or_else(|| workload.dtype()).or(read.dtype);
    let weight_dtype = preset.weight_dtype.or(read.weight_dtype);
    let shape = Some(read.shape);
    let own = ModelPreset { name, dtype, weight_dtype, shape, ..preset };
    let mut model = own.model().ok()??;
    model.assumptions.extend(read.assumptions);
    model.assumptions.push(format!(
        "The sizes are those of {from} in the workload's own configuration ({FOLDER}/config.yaml)."
    ));
    Some(model)
}

/// What to say of a workload that was run as a Hydra app and left no configuration.
fn nothing_left(context: &Context<'_>, appended: &[String]) -> Option<Finding> {
    let is_hydra = appended.iter().any(|word| word.starts_with("hydra.run.dir="));
    if context.workload.is_known() || !is_hydra || context.argv.is_empty() {
        return None;
    }
    let manifest = context.config.pointer("/inputs/manifest").and_then(Value::as_str);
    let manifest = manifest.map(|path| format!(", nor whether it read inputs.manifest={path}"));
    Some(Finding::note(
        format!("the workload left no configuration in {FOLDER}"),
        format!(
            "what it was configured with is not known{}: it is no Hydra app, it ended before, or \
             hydra.run.dir or hydra.output_subdir lead elsewhere",
            manifest.unwrap_or_default()
        ),
        "leave hydra.run.dir and hydra.output_subdir to the preset workload=hydra",
    ))
}
