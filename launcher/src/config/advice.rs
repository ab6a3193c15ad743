//! A key that is not ours -> where it belongs: the workload, another key of ours, or the nearest one.

use super::error::most_like;
use super::node::Origin;

/// Keys of Hydra workloads, and what is below them: those of ours that look alike stand elsewhere.
const OF_WORKLOADS: &[&str] = &[
    "infer",
    "dataset",
    "data",
    "device",
    "backend",
    "seed",
    "nvtx",
    "experiment",
    "output",
    "outputs",
    "use_flash_attn",
    "torch_profiler",
    "static_analysis",
    "analysis",
    "hydra",
    "run.repeats",
    "run.warmup",
    "model.name",
    "model.path",
    "model.dtype",
    "model.config",
    "model.target",
    "model.preprocess",
    "model.architecture",
    "profiling.enabled",
    "profiling.activities",
    "profiling.record_shapes",
    "profiling.profile_memory",
    "profiling.with_stack",
    "profiling.warmup_rounds",
    "profiling.rep_max_new_tokens",
    "pipeline.torch_profiler",
    "pipeline.static_analysis",
    "pipeline.direct_inference",
];

/// Keys of earlier runners, and what does the same here.
const EARLIER: &[(&str, &str)] = &[
    (
        "nsys.gating_nvtx",
        "use pipeline.nsys.capture_range: none (the default) records the whole run, nvtx the range \
         that pipeline.nsys.nvtx_capture names",
    ),
    (
        "run.top_n_kernels",
        "use pipeline.ncu.top_n for the kernels that ncu profiles, report.top_n for the rows of \
         kernels.md",
    ),
    ("run.stage1_repeats", "give the workload dataset.sampling.num_samples_per_epoch=N after `--`"),
    ("repeats", "give the workload dataset.sampling.num_samples_per_epoch=N after `--`"),
    ("run.representative_max_new_tokens", "give the workload infer.max_new_tokens=N after `--`"),
    ("run.dataset_subset_filelist", "give the workload dataset.subset_filelist=FILE after `--`"),
    ("stage1_runner.device", "give the workload device=cuda:N after `--`"),
    ("stage1_runner.disable_static", "use workload=hydra, which switches static analysis off"),
    ("runners", "use workload=hydra, and give the workload its own presets after `--`"),
    ("workload.module", "give the command after `--`: -- python -m MODULE"),
];

/// Parts of our configuration that belong to one tool.
const TOOLS: &[(&str, &str)] = &[
    ("nsys", "pipeline.nsys"),
    ("ncu", "pipeline.ncu"),
    ("ncu_cli", "pipeline.ncu.ncu_cli"),
    ("collector", "profiling.collector"),
];

/// More keys than this that could be meant are no help.
const MOST_CHOICES: usize = 4;

/// What to say behind "unknown key `key`". `origin` says who wrote it, `valid` are all keys and groups.
pub(super) fn advice<'a>(
    key: &str,
    origin: &Origin,
    valid: impl IntoIterator<Item = &'a str>,
) -> String {
    let valid: Vec<&str> = valid.into_iter().collect();
    let dotted = key.replace('/', ".");
    // `profiling.nsys.x` and `pipeline.nsys.x` were said for the same tool.
    let short = ["pipeline.", "profiling."]
        .iter()
        .find_map(|prefix| dotted.strip_prefix(prefix))
        .unwrap_or(&dotted);
    if let Some((_, instead)) = EARLIER.iter().find(|(old, _)| *old == short) {
        return format!("; {instead}");
    }
    if OF_WORKLOADS.iter().any(|known| within(&dotted, known)) {
        return format!("; settings of the workload go after `--`: {}", example(&dotted, origin));
    }
    let ends_so = |known: &&str| {
        let rest = known.strip_suffix(short);
        rest.is_some_and(|rest| rest.ends_with(['.', '/']))
    };
    let mut choices: Vec<String> = valid.iter().copied().filter(ends_so).map(quoted).collect();
    if !choices.is_empty() && choices.len() <= MOST_CHOICES {
        let last = choices.pop().unwrap_or_default();
        let first = choices.join(", ");
        let or = if first.is_empty() { "" } else { " or " };
        return format!("; did you mean {first}{or}{last}?");
    }
    let tool = TOOLS.iter().find(|(name, _)| within(short, name)).map(|(_, of_tool)| *of_tool);
    if let Some(of_tool) = tool {
        let of_tool = valid.iter().copied().filter(|known| within(known, of_tool));
        return nearest(most_like(&dotted, of_tool));
    }
    let root = dotted.split('.').next().unwrap_or_default();
    let ours = valid.iter().any(|known| known.split(['.', '/']).next() == Some(root));
    let nearest = nearest(most_like(key, valid.iter().copied()));
    match ours {
        true => nearest,
        false => format!("{nearest}; settings of the workload go after `--`"),
    }
}

/// What to say where a map of ours was given one value; nothing where that is no usual mistake.
pub(super) fn for_map(key: &str) -> &'static str {
    match key {
        "model" => {
            "; model/llm=PRESET says which model the reports count with, and the workload's own \
             model goes after `--`"
        }
        "profiling" | "pipeline" => {
            "; presets are chosen with profiling/nsys=PRESET and profiling/ncu=PRESET, and settings \
             of the workload go after `--`"
        }
        _ => "",
    }
}

fn within(key: &str, part: &str) -> bool {
    key.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn example(key: &str, origin: &Origin) -> String {
    match origin {
        Origin::Override(word) => format!("stage2-launch -- COMMAND {word}"),
        _ => format!("stage2-launch -- COMMAND {key}=VALUE"),
    }
}

fn quoted(key: &str) -> String {
    format!("`{key}`")
}

fn nearest(near: Option<String>) -> String {
    super::error::nearest(&near)
}

#[cfg(test)]
mod tests {
    use super::super::compose::{skeleton, valid_keys};
    use super::super::presets::Presets;
    use super::*;

    fn advised(word: &str) -> String {
        let presets = Presets::open(None).expect("built-in");
        let valid = valid_keys(&skeleton().expect("built-in"), &presets).expect("keys");
        let key = word.trim_start_matches('+').split(['=', '@']).next().expect("a key");
        advice(key, &Origin::Override(word.into()), valid.iter().map(String::as_str))
    }

    #[test]
    fn settings_of_workloads_are_sent_behind_the_dashes() {
        for word in [
            "infer.max_new_tokens=64",
            "dataset.sampling.num_epochs=1",
            "+dataset/sampling@dataset.sampling=default",
            "device=cuda:0",
            "+torch_profiler.enabled=false",
            "pipeline.torch_profiler.enable=false",
            "profiling.activities=[cpu]",
            "experiment=stage1",
            "outputs.save_predictions=false",
            "outputs.visualization.enable=false",
            "model.path=/m",
            "hydra.job.chdir=true",
        ] {
            let advice = advised(word);
            let expected = format!("after `--`: stage2-launch -- COMMAND {word}");
            assert!(advice.ends_with(&expected), "{word}: {advice}");
        }
        assert!(advised("trainer.epochs=3").ends_with("settings of the workload go after `--`"));
    }

    #[test]
    fn keys_without_their_prefix_find_the_key_of_the_same_tool() {
        for (word, expected) in [
            ("+ncu.gating_nvtx=false", "; did you mean `pipeline.ncu.gating_nvtx`?"),
            ("nsys.trace=[cuda]", "; did you mean `pipeline.nsys.trace`?"),
            ("profiling.nsys.trace=[cuda]", "; did you mean `pipeline.nsys.trace`?"),
            ("ncu_cli.set=full", "; did you mean `pipeline.ncu.ncu_cli.set`?"),
            ("mode=light", "; did you mean `run.mode`?"),
            ("ncu=ncu.rtx3090.compute", "; did you mean `profiling/ncu`?"),
            ("llm=llama_3_8b", "; did you mean `model/llm`?"),
            ("enable=false", "; did you mean `pipeline.ncu.enable` or `pipeline.nsys.enable`?"),
            ("nsys.gating_nvtx=false", "; use pipeline.nsys.capture_range: none"),
            ("pipeline.nsys.gating_nvtx=false", "; use pipeline.nsys.capture_range: none"),
            ("run.stage1_repeats=1", "; give the workload dataset.sampling"),
            ("pipeline.workload.module=x", "; give the command after `--`"),
            ("nsys.tracer=x", "; the nearest valid one is `pipeline.nsys.trace`"),
            ("run.mod=x", "; the nearest valid one is `run.mode`"),
        ] {
            let advice = advised(word);
            assert!(advice.starts_with(expected), "{word}: {advice}");
        }
    }

    #[test]
    fn no_key_that_is_advised_against_is_valid_and_every_one_that_is_advised_is() {
        let presets = Presets::open(None).expect("built-in");
        let valid = valid_keys(&skeleton().expect("built-in"), &presets).expect("keys");
        let known = |key: &str| valid.iter().any(|valid| within(valid, key));
        for key in OF_WORKLOADS.iter().chain(EARLIER.iter().map(|(old, _)| old)) {
            assert!(!known(key) && !known(&format!("pipeline.{key}")), "{key}");
        }
        for (_, of_tool) in TOOLS {
            assert!(known(of_tool), "{of_tool}");
        }
        let words = EARLIER.iter().flat_map(|(_, text)| text.split([' ', ':', ',']));
        let ours =
            words.filter(|word| word.starts_with("pipeline.") || word.starts_with("report."));
        assert!(
            ours.clone().count() > 3 && ours.clone().all(known),
            "{:?}",
            ours.collect::<Vec<_>>()
        );
    }
}
