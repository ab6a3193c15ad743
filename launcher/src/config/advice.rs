//! A key that is not ours -> where it belongs: the workload, another key of ours, or the nearest one.

use std::collections::BTreeSet;

use super::ConfigError;
use stage2_config::hydra::Origin;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::{did_you_mean, listed, most_like};

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
    "profiling.torch",
    "profiling.with_stack",
    "profiling.warmup_rounds",
    "profiling.rep_max_new_tokens",
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
        "use report.top_n for the rows of kernels.md, pipeline.ncu.top_n for the kernels that ncu \
         profiles",
    ),
    ("ncu.nvtx_include", "use pipeline.ncu.ncu_cli.nvtx.include"),
    (
        "ncu.kernels",
        "use pipeline.ncu.kernel_include for the names of the kernels that ncu profiles, \
         pipeline.ncu.top_n for their number",
    ),
    ("ncu.export.raw_csv", "use pipeline.ncu.ncu_cli.export.csv"),
    ("model.llm.params", "the count follows from shape or config_json; leave params out"),
    ("run.stage1_repeats", "give the workload dataset.sampling.num_samples_per_epoch=N after `--`"),
    ("repeats", "give the workload dataset.sampling.num_samples_per_epoch=N after `--`"),
    ("run.representative_max_new_tokens", "give the workload infer.max_new_tokens=N after `--`"),
    ("run.dataset_subset_filelist", "give the workload dataset.subset_filelist=FILE after `--`"),
    ("stage1_runner.device", "give the workload device=cuda:N after `--`"),
    ("stage1_runner.disable_static", "use workload=hydra, which switches static analysis off"),
    ("runners", "use workload=hydra, and give the workload its own presets after `--`"),
    ("workload.module", "give the command after `--`: -- python -m MODULE"),
];

/// Settings of workloads that two of our presets switch off.
const SWITCHED_OFF: &[&str] =
    &["torch_profiler", "static_analysis", "pipeline.torch_profiler", "pipeline.static_analysis"];

/// Parts of our configuration that belong to one tool.
const TOOLS: &[(&str, &str)] = &[
    ("nsys", "pipeline.nsys"),
    ("ncu", "pipeline.ncu"),
    ("ncu_cli", "pipeline.ncu.ncu_cli"),
    ("collector", "profiling.collector"),
];

/// Keys of a part of the configuration that an error lists.
const LISTED: usize = 12;

/// More keys than this that could be meant do not help.
const MOST_CHOICES: usize = 4;

/// The keys that exist: what the errors about other keys advise by.
#[derive(Debug)]
pub(super) struct Keys {
    /// Dotted keys, and groups.
    pub(super) valid: BTreeSet<String>,
    /// Whether the command runs a workload, which has its own settings after `--`.
    pub(super) runs_workload: bool,
}

impl Keys {
    pub(super) fn unknown(&self, key: &str, origin: Origin) -> ConfigError {
        let advice = self.advice(key, &origin);
        ConfigError::UnknownKey { key: key.to_owned(), origin, advice }
    }

    /// Whether there are settings in the part of the configuration that a key begins with.
    pub(super) fn has_part(&self, key: &str) -> bool {
        let root = |key: &str| key.split(['.', '/']).next().unwrap_or_default().to_owned();
        self.all().any(|known| root(known) == root(key))
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.valid.iter().map(String::as_str)
    }

    /// What to say behind "unknown key `key`".
    fn advice(&self, key: &str, origin: &Origin) -> String {
        let dotted = key.replace('/', ".");
        // `profiling.nsys.x` and `pipeline.nsys.x` were said for the same tool.
        let short = dotted.strip_prefix("pipeline.").or(dotted.strip_prefix("profiling."));
        let short = short.unwrap_or(&dotted);
        if short == "nsys.nvtx_capture" {
            return gate(origin);
        }
        if let Some((_, instead)) = EARLIER.iter().find(|(old, _)| *old == short) {
            return format!("; {instead}");
        }
        if let Some(name) = key.strip_prefix("STAGE2_") {
            let setting = format!("profiling.collector.{}", name.to_lowercase());
            return match self.valid.contains(&setting) {
                true => format!("; it is a variable, and its setting is `{setting}`"),
                false => "; it is a variable: set it in front of the command".to_owned(),
            };
        }
        if let Some(head) = self.missing_head(key, origin) {
            return head;
        }
        let mut of_workloads = OF_WORKLOADS.iter().chain(SWITCHED_OFF);
        if of_workloads.any(|known| within(&dotted, known)) || is_group_of_workload(key) {
            return self.of_workload(key, &dotted, origin);
        }
        if let Some(choices) = self.ending_in(short) {
            return choices;
        }
        if let Some((_, of_tool)) = TOOLS.iter().find(|(name, _)| within(short, name)) {
            return did_you_mean(&dotted, self.all().filter(|known| within(known, of_tool)));
        }
        let ours = self.has_part(&dotted);
        let near = did_you_mean(key, self.all());
        let near =
            if ours && !key.contains('/') { self.of_part(&dotted).unwrap_or(near) } else { near };
        let of_workload = match (ours, near.is_empty()) {
            (true, _) => "",
            (false, true) => ", and settings of the workload go after `--`",
            (false, false) => " Settings of the workload go after `--`",
        };
        let near = if near.is_empty() {
            "; `stage2-launch config` lists all keys".to_owned()
        } else {
            near
        };
        self.joined(&near, of_workload)
    }

    /// What to say where a map of ours was given one value; nothing where that is not a usual mistake.
    pub(super) fn for_map(&self, key: &str) -> String {
        match key {
            "model" | "model.llm" => self.joined(
                "; model/llm=PRESET selects the model of the reports",
                ", and the workload's own model goes after `--`",
            ),
            "profiling" | "pipeline" => self.joined(
                "; presets are chosen with profiling/nsys=PRESET and profiling/ncu=PRESET",
                ", and settings of the workload go after `--`",
            ),
            _ => String::new(),
        }
    }

    /// What to do with settings of ours, and where one of the workload goes, if there is a workload.
    fn joined(&self, ours: &str, of_workload: &str) -> String {
        if self.runs_workload {
            format!("{ours}{of_workload}")
        } else if ours.is_empty() && !of_workload.is_empty() {
            "; this is a workload setting, and this command runs no workload".to_owned()
        } else {
            ours.to_owned()
        }
    }

    /// What there is in the part of the configuration that an unknown key names rightly; nothing where the key is like one in
    /// it.
    fn of_part(&self, dotted: &str) -> Option<String> {
        let (part, _) = dotted.rsplit_once('.')?;
        let inside = self.all().filter_map(|known| known.strip_prefix(part)?.strip_prefix('.'));
        let inside: BTreeSet<&str> = inside.filter_map(|rest| rest.split('.').next()).into_set();
        let near =
            most_like(dotted, self.all()).is_some_and(|near| within(near, part) && near != part);
        let names: Vec<&str> = inside.into_iter().collect();
        (!near && !names.is_empty()).then(|| format!("; `{part}` has {}", listed(&names, LISTED)))
    }

    /// The keys that `short` is the end of, where they are few.
    fn ending_in(&self, short: &str) -> Option<String> {
        let choices = self.choices(short).into_iter();
        let choices: Vec<String> = choices.map(|known| format!("`{known}`")).collect();
        let (last, first) = choices.split_last()?;
        let or = if first.is_empty() { "" } else { " or " };
        Some(format!("; did you mean {}{or}{last}?", first.join(", ")))
    }

    /// The keys that `short` is the end of; none where they are many.
    fn choices(&self, short: &str) -> Vec<&str> {
        let ends_so =
            |known: &&str| known.strip_suffix(short).is_some_and(|rest| rest.ends_with(['.', '/']));
        let choices: Vec<&str> = self.all().filter(ends_so).collect();
        if choices.len() <= MOST_CHOICES { choices } else { Vec::new() }
    }

    /// The settings that a word without dots names: a group, the end of a key, or the first part of a group.
    pub(super) fn named(&self, word: &str) -> Vec<String> {
        let groups = || self.all().filter(|known| known.split('/').next() == Some(word));
        let group: Vec<&str> = groups().filter(|known| *known == word).collect();
        let found = match (group.is_empty(), self.choices(word)) {
            (false, _) => group,
            (true, ends) if ends.is_empty() => groups().collect(),
            (true, ends) => ends,
        };
        found.into_iter().map(str::to_owned).collect()
    }

    /// A preset without a head is mounted below its group: `run.mode` becomes `runner.run.mode`.
    fn missing_head(&self, key: &str, origin: &Origin) -> Option<String> {
        let Origin::File { name, .. } = origin else { return None };
        let (group, own) = key.split_once('.')?;
        let (own_root, _) = own.split_once('.')?;
        let is_key = |known: &str| known.split_once('.').is_some_and(|(root, _)| root == own_root);
        (self.valid.contains(group) && self.all().any(is_key))
            .then(|| format!("; put `# @package _global_` on the first line of {name}"))
    }

    fn of_workload(&self, key: &str, dotted: &str, origin: &Origin) -> String {
        let word = match origin {
            Origin::Override(word) => word.to_string(),
            _ => format!("{dotted}=VALUE"),
        };
        let example = format!("after `--`: stage2-launch -- COMMAND {word}");
        let all = format!("; settings of the workload go {example}");
        if within(dotted, "model") {
            let ours = "; use model/llm=PRESET or model.llm.config_json=FILE";
            let own = format!("; the workload's own setting goes {example}");
            return self.joined(ours, if key.contains('/') { &all } else { &own });
        }
        let is_off = matches!(origin, Origin::Override(_))
            && word.rsplit('=').next().is_some_and(|value| value.eq_ignore_ascii_case("false"));
        let is_switch = dotted.ends_with(".enable") || dotted.ends_with(".enabled");
        let is_ours = SWITCHED_OFF.iter().any(|part| within(dotted, part));
        let already = "; workload=hydra and workload=stage1 switch it off already";
        let already = if is_ours && is_off && is_switch { already } else { "" };
        self.joined("", &format!("{already}{all}"))
    }
}

/// What does the same as a preset of earlier runners, for the group override `group@package=option`.
pub(super) fn earlier_preset(
    group: &str,
    package: Option<&str>,
    option: &str,
) -> Option<&'static str> {
    let is_stage1 = package == Some("stage1_runner") || within(option, "stage1");
    (group == "runner" && is_stage1)
        .then_some("use workload=stage1, which switches static analysis off")
}

/// The range alone starts no capture: both keys are needed.
fn gate(origin: &Origin) -> String {
    let range = match origin {
        Origin::Override(word) => word.split_once('=').map(|(_, range)| range),
        _ => None,
    };
    let range = range.filter(|range| !range.is_empty()).unwrap_or("RANGE");
    // The preset's own range is `decode` in any domain.
    let preset = match range {
        "decode" | "decode@*" => " (or profiling/nsys=nsys.gated)",
        _ => "",
    };
    format!("; use pipeline.nsys.capture_range=nvtx pipeline.nsys.nvtx_capture={range}{preset}")
}

/// `model/deepseek_ocr/arch`: a workload has groups for each of its models, ours is `model/llm`.
fn is_group_of_workload(key: &str) -> bool {
    let below = key.strip_prefix("model/");
    below.is_some_and(|below| below.contains('/') && !below.starts_with("llm/"))
}

/// Whether a dotted key is `part` or below it.
pub(crate) fn within(key: &str, part: &str) -> bool {
    key.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compose::{skeleton, valid_keys};
    use crate::config::presets::Presets;

    fn keys(runs_workload: bool) -> Keys {
        let presets = Presets::open(None).expect("built-in");
        let valid = valid_keys(&skeleton().expect("built-in"), &presets).expect("keys");
        Keys { valid, runs_workload }
    }

    fn advised(word: &str) -> String {
        advised_at(&keys(true), word, Origin::Override(word.into()))
    }

    fn advised_at(keys: &Keys, word: &str, origin: Origin) -> String {
        let key = word.trim_start_matches('+').split(['=', '@']).next().expect("a key");
        keys.advice(key, &origin)
    }

    #[test]
    fn settings_of_workloads_are_sent_behind_the_dashes() {
        let words = "infer.max_new_tokens=64 dataset.sampling.num_epochs=1 device=cuda:0 model.path=/m \
                     +dataset/sampling@dataset.sampling=default +torch_profiler.enabled=false \
                     pipeline.torch_profiler.enable=false profiling.activities=[cpu] +model.target=alt \
                     experiment=stage1 outputs.save_predictions=false hydra.job.chdir=true \
                     outputs.visualization.enable=false profiling/torch=torch-profiler.min \
                     profiling/torch@pipeline.torch_profiler=torch-profiler.min \
                     model/deepseek_ocr/arch@model=deepseek_ocr.default \
                     model/deepseek_ocr/infer@infer=fast";
        for word in words.split(' ') {
            let advice = advised(word);
            let expected = format!("after `--`: stage2-launch -- COMMAND {word}");
            assert!(advice.ends_with(&expected), "{word}: {advice}");
        }
        assert!(advised("trainer.epochs=3").ends_with("settings of the workload go after `--`"));
        assert!(advised("model/lmm=llama_3_8b").ends_with("did you mean `model/llm`?"));
        assert!(advised("+model.target=alt").starts_with(
            "; use model/llm=PRESET or model.llm.config_json=FILE; the workload's own"
        ));
        let off = "; workload=hydra and workload=stage1 switch it off already; settings of";
        assert!(advised("+torch_profiler.enabled=false").starts_with(off));
        assert!(advised("pipeline.static_analysis.enable=False").starts_with(off));
        assert!(!advised("+torch_profiler.enabled=true").contains("already"));
    }

    #[test]
    fn nothing_is_sent_behind_the_dashes_where_no_workload_runs() {
        let none = keys(false);
        for (word, expected) in [
            ("+model.target=x", "; use model/llm=PRESET or model.llm.config_json=FILE"),
            ("infer.x=1", "; this is a workload setting, and this command runs no workload"),
            ("run.mod=x", "; did you mean `run.mode`?"),
        ] {
            assert_eq!(advised_at(&none, word, Origin::Override(word.into())), expected);
        }
        assert!(!none.for_map("model").contains("--"));
        assert_eq!(none.for_map("run"), "");
    }

    #[test]
    fn a_file_without_its_head_is_told_so() {
        let origin = Origin::File { name: "c/runner/stage2.yaml".into(), line: 1 };
        let advice = advised_at(&keys(true), "runner.run.mode", origin);
        assert_eq!(advice, "; put `# @package _global_` on the first line of c/runner/stage2.yaml");
        assert!(!advised("runner.run.mode=deep").contains("@package"));
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
            (
                "nsys.nvtx_capture=decode",
                "; use pipeline.nsys.capture_range=nvtx pipeline.nsys.nvtx_capture=decode (or \
                 profiling/nsys=nsys.gated)",
            ),
            (
                "+profiling.nsys.nvtx_capture=prefill",
                "; use pipeline.nsys.capture_range=nvtx pipeline.nsys.nvtx_capture=prefill",
            ),
            ("ncu.nvtx_include=X", "; use pipeline.ncu.ncu_cli.nvtx.include"),
            ("ncu.export.raw_csv=true", "; use pipeline.ncu.ncu_cli.export.csv"),
            ("run.top_n_kernels=5", "; use report.top_n"),
            ("model.llm.params=8e9", "; the count follows from shape or config_json"),
            ("pipeline.workload.module=x", "; give the command after `--`"),
            ("nsys.tracer=x", "; did you mean `pipeline.nsys.trace`?"),
            ("run.mod=x", "; did you mean `run.mode`?"),
        ] {
            let advice = advised(word);
            assert!(advice.starts_with(expected), "{word}: {advice}");
        }
    }

    #[test]
    fn no_key_that_is_advised_against_is_valid_and_every_one_that_is_advised_is() {
        let keys = keys(true);
        let known = |key: &str| keys.all().any(|valid| within(valid, key));
        for key in OF_WORKLOADS.iter().chain(SWITCHED_OFF).chain(EARLIER.iter().map(|(old, _)| old))
        {
            assert!(!known(key) && !known(&format!("pipeline.{key}")), "{key}");
        }
        for (_, of_tool) in TOOLS {
            assert!(known(of_tool), "{of_tool}");
        }
        let words = EARLIER.iter().flat_map(|(_, text)| text.split([' ', ':', ',']));
        let ours =
            words.filter(|word| word.starts_with("pipeline.") || word.starts_with("report."));
        let ours: Vec<&str> = ours.collect();
        assert!(ours.len() > 3 && ours.iter().all(|key| known(key)), "{ours:?}");
    }
}
